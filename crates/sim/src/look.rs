//! The concurrent reader: a plain consumer of the target that judges every record as it comes, and
//! every position that is committed there.

use twinlog_embedded::{Isolation, Record};

use crate::checks::{
    Invariant, Verdicts, i2_repeats, i3_order, i4_bytes, i5_translation, i5c_commits,
    i7_transactions, state_bytes,
};
use crate::instances::STATE;
use crate::oracle::{Mirror, Place, SourceLog, number_of};
use crate::run::Simulation;
use crate::world::mirror;

impl Simulation {
    /// Reads what is new on the target, and looks at every position there.
    pub(crate) fn look(&mut self) {
        let places: Vec<Place> = self.logs.keys().cloned().collect();
        for place in &places {
            self.read(place);
        }
        self.look_at_commits();
        self.look_at_leases();
    }

    /// Notes which leases can be read by now, once a second, where there is more than one owner.
    fn look_at_leases(&mut self) {
        let target = &self.world.target;
        let ends = (target.log_end(STATE, 0), target.high_watermark(STATE, 0));
        let now_ms = target.now_ms();
        let is_due = self.started > 1 && now_ms - self.leases_seen_ms >= 1_000;
        if !is_due || std::mem::replace(&mut self.state_seen, ends) == ends {
            return;
        }
        self.leases_seen_ms = now_ms;
        let records = target.records(STATE, 0, Isolation::ReadCommitted);
        for lease in state_bytes::leases(&records) {
            self.readable.entry(lease.offset).or_insert(now_ms);
        }
    }

    fn read(&mut self, place: &Place) {
        let name = mirror(&place.0);
        let target = &self.world.target;
        let log = self.logs.entry(place.clone()).or_default();
        let known = self.mirrors.entry(place.clone()).or_default();
        if target.leader(&name, place.1).is_none() {
            return; // nobody is there to read from
        }
        let end = target.log_end(&name, place.1);
        if end < known.next && end >= 0 && !(log.compacted && self.target_compacted) {
            let what =
                format!("{}-{} ends at {end}, it was read up to {}", name, place.1, known.next);
            self.verdicts.note(Invariant::I3, Some(what));
            known.truncated(end);
        }
        if target.high_watermark(&name, place.1) <= known.next {
            return;
        }
        let records = target.records(&name, place.1, Isolation::ReadCommitted);
        let new = records.iter().filter(|record| record.offset >= known.next).collect::<Vec<_>>();
        judge(&mut self.verdicts, place, log, known, &new, self.repeats_allowed);
    }

    fn look_at_commits(&mut self) {
        for ((group, place), position) in &mut self.positions {
            let now = self.world.target.committed(group, &mirror(&place.0), place.1);
            if now == position.target {
                continue;
            }
            let about = |what| format!("{group} on {}-{}: {what}", place.0, place.1);
            let follows = position.theirs.is_none() && position.was_moved_back();
            let back = i5c_commits::went_back(position.target, now, follows);
            self.verdicts.note(Invariant::I5c, back.map(about));
            if let (Some(offset), Some(known)) = (now, self.mirrors.get(place)) {
                let skips = i5_translation::skips(known, position.furthest_lately(), offset);
                self.verdicts.note(Invariant::I5, skips.map(about));
            }
            self.counts.note("positions committed on the target");
            position.target = now;
        }
    }
}

/// Judges what a reader of the target got, and takes it in.
pub(crate) fn judge(
    verdicts: &mut Verdicts,
    place: &Place,
    log: &SourceLog,
    known: &mut Mirror,
    records: &[&Record],
    repeats_allowed: bool,
) {
    let about = |what| format!("{}-{}: {what}", place.0, place.1);
    for record in records {
        let target = record.offset;
        known.next = target + 1;
        let written = number_of(&record.headers).and_then(|number| log.find(number));
        let Some(written) = written else {
            let what = format!("nobody wrote what stands at {target}: {record:?}");
            verdicts.note(Invariant::I4, Some(about(what)));
            continue;
        };
        let again = i2_repeats::again(known, written, target);
        if !repeats_allowed {
            verdicts.note(Invariant::I2, again.map(about));
        }
        verdicts.note(Invariant::I3, i3_order::step_back(known, written, target).map(about));
        verdicts.note(Invariant::I4, i4_bytes::difference(record, written).map(about));
        verdicts.note(Invariant::I7, i7_transactions::uncommitted(written, target).map(about));
        let other_life = known.life.is_some_and(|life| life != written.life).then(|| {
            format!("record {} of another life of the topic stands at {target}", written.number)
        });
        verdicts.note(Invariant::I12, other_life.map(about));
        known.take(record, written);
    }
}
