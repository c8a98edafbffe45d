//! Recovery: what the target's tail says about the batches whose answers are unclear.
//!
//! The log decides. A batch of ours in the tail is recognised by producer id, epoch and sequence;
//! the sequence gives the number of its first record, and with it everything else.

use twinlog_offsets::RunStart;
use twinlog_types::{
    Code, LeaderEpoch, Planted, ProducerEpoch, ProducerId, Sequence, SourceOffset, TargetOffset,
    planted,
};

use super::{Copier, Phase, Stop};

/// From where the tail must be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookFrom {
    /// One past the last acknowledged record.
    pub acknowledged_end: TargetOffset,
    /// The newest leader epoch under which the target was looked at; -1 when none.
    pub newest_epoch: LeaderEpoch,
}

/// One batch of the target's tail, by its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TailBatch {
    /// Its first offset.
    pub base: TargetOffset,
    /// The offset after its last.
    pub next: TargetOffset,
    /// Who wrote it.
    pub producer_id: ProducerId,
    /// In which epoch.
    pub producer_epoch: ProducerEpoch,
    /// The sequence of its first record; negative without a producer.
    pub base_sequence: i32,
    /// How many records it was written with.
    pub count: u32,
}

/// The end of the target's log, read from its leader while nothing else moved.
#[derive(Clone, Debug)]
pub struct Tail {
    /// The leader epoch under which all of it was read.
    pub leader_epoch: LeaderEpoch,
    /// The log's first offset.
    pub log_start: TargetOffset,
    /// The log's end; everything before it is replicated.
    pub log_end: TargetOffset,
    /// Up to here the log is the one we knew, as far as leader epochs tell. At most
    /// [`LookFrom::acknowledged_end`].
    pub agreed: TargetOffset,
    /// The last sequence that the leader remembers of our producer id, where it does.
    pub last_sequence: Option<i32>,
    /// The batches from `agreed` on, in order.
    pub batches: Vec<TailBatch>,
}

/// What a look found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Looked {
    /// Records found stored without a usable answer.
    pub found: u64,
    /// Acknowledged records that the target has lost: from, and up to but not including. They
    /// are copied again.
    pub lost: Option<(TargetOffset, TargetOffset)>,
    /// The broker has no state of our producer although records were written: only the look
    /// protects against doubles.
    pub not_fenced: bool,
    /// The broker remembers another sequence of our producer than the log ends with: a packet came
    /// in late after the producer was forgotten. It refuses whatever comes next.
    pub estranged: bool,
    /// Nothing stands in the way of sending.
    pub resumed: bool,
    /// The target may have lost more than the map has at hand: nothing was done. Hand the block with
    /// this number to [`Copier::reopen`], and then the same tail to [`Copier::looked`].
    pub needs_block: Option<u32>,
}

impl Copier {
    /// Where to look from, once every sent batch is answered or its connection gone. `None` while
    /// no look is needed or answers are still due.
    pub fn wants_look(&self) -> Option<LookFrom> {
        let open = self.pending.iter().take(self.sent).any(|pending| !pending.settled)
            || !self.given_up.is_empty();
        (self.phase == Phase::Look && !open).then(|| LookFrom {
            acknowledged_end: self.map.target_end(),
            newest_epoch: self.target_epoch,
        })
    }

    /// The producer whose batches a look is about.
    pub fn producer(&self) -> super::Producer {
        self.producer
    }

    /// The leader epoch of the target under which its tail was last looked at.
    pub fn target_epoch(&self) -> LeaderEpoch {
        self.target_epoch
    }

    /// Takes in the tail that [`Copier::wants_look`] asked for.
    pub fn looked(&mut self, tail: &Tail) -> Looked {
        let mut looked = Looked::default();
        if self.wants_look().is_none() {
            return looked;
        }
        if let Some(needs_block) = self.block_needed(tail) {
            return Looked { needs_block: Some(needs_block), ..looked };
        }
        let end_before = self.map.target_end();
        let agreed = self.agreement(tail);
        let inherited_to = self.map.before().and(self.map.origin()).unwrap_or_default();
        if agreed < inherited_to {
            looked.lost = Some((agreed, end_before));
            self.stop(self.inheritance_lost(agreed, inherited_to));
            return looked;
        }
        if agreed < end_before {
            looked.lost = self.has_acknowledged().then_some((agreed, end_before));
            self.cut_target(agreed);
        }
        if let Err(stop) = self.walk(tail, &mut looked) {
            self.stop(stop);
        }
        self.seen = self.seen.max(tail.log_end);
        if self.phase != Phase::Look {
            return looked;
        }
        looked.not_fenced = self.map.acknowledged() > 0 && tail.last_sequence.is_none();
        let acknowledged = self.map.acknowledged();
        let next = tail.last_sequence.and_then(Sequence::from_wire);
        let next = next.map(|last| last.count_near(acknowledged) + 1);
        looked.estranged = next.is_some_and(|next| next != acknowledged);
        self.target_epoch = tail.leader_epoch;
        self.fenced = tail.last_sequence.is_some();
        self.known = true;
        self.sent = 0;
        self.phase = Phase::Copy;
        if self.recovering {
            self.begin_after_recovery();
        }
        self.cut_front_smaller();
        self.map.prune(tail.log_start);
        // Where there is nothing to compare yet, what is copied from now on needs no comparing.
        self.unproven &= self.wants_original().is_some();
        looked.resumed = self.phase == Phase::Copy;
        looked
    }

    /// Goes on with another producer, which nobody has used. What waits was not found by the look and
    /// is cut anew; nothing is sent before the state names the new producer.
    pub fn change_producer(&mut self, producer: super::Producer) {
        self.producer = producer;
        self.fenced = false;
        for pending in &mut self.pending {
            pending.outgoing = None;
        }
        self.require_store();
    }

    fn has_acknowledged(&self) -> bool {
        self.map.first().is_some_and(|first| first.count < self.map.acknowledged())
    }

    /// The sealed block without which nobody can say what the target lost, or forget it.
    fn block_needed(&self, tail: &Tail) -> Option<u32> {
        let end = self.map.target_end();
        let agreed = tail.agreed.min(tail.log_end).min(end);
        if agreed == end {
            return None;
        }
        if self.map.block_of_target(agreed.max(tail.log_start)).is_some() {
            return self.map.blocks().last();
        }
        self.map.block_for_cut(self.map.count_of_target(agreed).unwrap_or(0))
    }

    /// Up to where the acknowledged part of the mirror is still there: as far as leader epochs
    /// tell, and from there on as far as our batches follow each other in their places. A hole that
    /// is as long as what is missing was left by the cleaner.
    fn agreement(&self, tail: &Tail) -> TargetOffset {
        let end = self.map.target_end();
        let mut agreed = tail.agreed.min(tail.log_end).min(end);
        let mut from = agreed.max(tail.log_start);
        let Some(mut next) = self.map.count_of_target(from) else { return agreed };
        for batch in tail.batches.iter().take_while(|batch| batch.base < end) {
            let count = self.count_of(batch);
            if !self.is_ours(batch) || count < next {
                continue;
            }
            let cleaned = is_cleaned(tail, from, batch.base, count - next);
            if (count > next && !cleaned) || self.map.target_of(count) != Some(batch.base) {
                break;
            }
            next = count + u64::from(batch.count);
            from = batch.next;
            agreed = batch.next.min(end);
        }
        agreed
    }

    fn is_ours(&self, batch: &TailBatch) -> bool {
        batch.producer_id == self.producer.id
            && batch.producer_epoch == self.producer.epoch
            && batch.base_sequence >= 0
            && batch.count > 0
    }

    fn count_of(&self, batch: &TailBatch) -> u64 {
        Sequence::from_wire(batch.base_sequence)
            .unwrap_or_default()
            .count_near(self.map.acknowledged())
    }

    /// The target lost what lay at and after `end`: it is copied again from the source.
    fn cut_target(&mut self, end: TargetOffset) {
        if self.has_acknowledged() {
            let count = self.map.count_of_target(end).unwrap_or(0).min(self.map.acknowledged());
            let unchanged = self.map.cut(count);
            self.runs_taken_back(unchanged);
            self.acknowledged_epoch = -1;
            self.former.clear();
            self.plan_anew();
        }
        if end < self.map.target_end() && !self.has_acknowledged() {
            // Nothing of ours is there: the first record lands earlier than was expected.
            self.origin = end;
            self.map.set_origin(end);
            if let Some(first) = self.map.first() {
                let unchanged = self.map.shift(RunStart { target: end, ..first });
                self.runs_taken_back(unchanged);
            }
        }
        self.seen = self.seen.min(end);
        self.require_store();
    }

    /// Goes through what lies behind the acknowledged end.
    fn walk(&mut self, tail: &Tail, looked: &mut Looked) -> Result<(), Stop> {
        let end = self.map.target_end();
        for batch in tail.batches.iter().filter(|batch| batch.base >= end) {
            let unseen = batch.next.since(batch.base.max(self.seen));
            if !self.is_ours(batch) {
                self.foreign_records += unseen;
                continue;
            }
            let count = self.count_of(batch);
            let acknowledged = self.map.acknowledged();
            if count < acknowledged {
                let counted = unseen > 0 && !planted(Planted::CountsNoRepeat);
                self.doubled_records += if counted { u64::from(batch.count) } else { 0 };
                continue;
            }
            if count > acknowledged {
                if !self.found_trimmed(tail, count, batch.base) {
                    return Err(self.overtaken(batch, count));
                }
                looked.found += count - acknowledged;
            }
            if self.recovering {
                self.found_by_map(batch, count)?;
            } else if planted(Planted::NewSequenceOnRetry) {
                return Ok(());
            } else {
                self.found_by_queue(batch, count)?;
            }
            looked.found += u64::from(batch.count);
        }
        self.settle_trimmed(tail, looked)
    }

    /// Whether the records up to `count`, which lies at `base`, are only missing because retention
    /// or the cleaner removed them on the target: they are as many as the offsets. They count as
    /// stored then.
    fn found_trimmed(&mut self, tail: &Tail, count: u64, base: TargetOffset) -> bool {
        let end = self.map.target_end();
        let missing = count - self.map.acknowledged();
        let trimmed = tail.log_start > end && base.since(end) == missing;
        if !trimmed && !is_cleaned(tail, end, base, missing) {
            return false;
        }
        if !self.recovering {
            while self
                .pending
                .front()
                .is_some_and(|front| front.base_count < count && front.outgoing.is_some())
            {
                self.acknowledge_front();
            }
            return self.map.acknowledged() == count;
        }
        let Some(source) = self.source_behind(count) else { return false };
        self.map.acknowledge(count, source);
        self.acknowledged_epoch = -1;
        true
    }

    /// Nothing of ours is left in a tail that goes on behind our end: the broker's memory of our
    /// last sequence decides how much of it was ours.
    fn settle_trimmed(&mut self, tail: &Tail, looked: &mut Looked) -> Result<(), Stop> {
        let acknowledged = self.map.acknowledged();
        let used =
            self.recovering || self.pending.front().is_some_and(|front| front.outgoing.is_some());
        if !used || tail.log_start <= self.map.target_end() {
            return Ok(());
        }
        let remembered = tail
            .last_sequence
            .and_then(Sequence::from_wire)
            .map(|last| last.count_near(acknowledged) + 1);
        match remembered {
            Some(count) if count <= acknowledged => Ok(()),
            Some(count) if self.found_trimmed(tail, count, tail.log_start) => {
                looked.found += count - acknowledged;
                Ok(())
            }
            _ => Err(self.unexplained(tail)),
        }
    }

    fn unexplained(&self, tail: &Tail) -> Stop {
        Stop {
            code: Code::TargetNotEmpty,
            reason: format!(
                "{}: the log goes on from {} to {} behind what the stored position explains, and its records are gone",
                self.setup.target_topic,
                self.map.target_end(),
                tail.log_end
            ),
            range: None,
            passing: false,
        }
    }

    fn source_behind(&self, count: u64) -> Option<SourceOffset> {
        self.map.source_of(count.checked_sub(1)?).map(|source| source.plus(1))
    }

    /// A former owner wrote it: its runs are durable, so the map knows its records.
    fn found_by_map(&mut self, batch: &TailBatch, count: u64) -> Result<(), Stop> {
        let next = count + u64::from(batch.count);
        let expected = self.map.target_of(count);
        let (Some(first), Some(source)) = (self.map.source_of(count), self.source_behind(next))
        else {
            return Err(self.not_ours(batch, count));
        };
        let run = RunStart { count, source: first, target: batch.base };
        let unchanged = self.map.shift(run);
        if self.map.target_of(count) != expected {
            self.runs_taken_back(unchanged);
        }
        self.map.acknowledge(next, source);
        self.acknowledged_epoch = -1;
        Ok(())
    }

    /// It must be the oldest batch of ours that waits.
    fn found_by_queue(&mut self, batch: &TailBatch, count: u64) -> Result<(), Stop> {
        let matches = self.pending.front().is_some_and(|front| {
            front.base_count == count && front.count == batch.count && front.outgoing.is_some()
        });
        if !matches {
            return Err(self.not_ours(batch, count));
        }
        if self.map.target_of(count) != Some(batch.base) {
            self.shift_front(batch.base);
        }
        self.acknowledge_front();
        Ok(())
    }

    /// Records are missing in front of a batch of ours. Whoever copies sends in order, so the target lost
    /// them and a batch that was on its way came in behind the loss; or it forgot our producer while
    /// several were on their way, refused one and took the next. What is missing could only be copied
    /// behind it, out of order.
    fn overtaken(&self, batch: &TailBatch, count: u64) -> Stop {
        Stop {
            code: Code::TargetTruncated,
            reason: format!(
                "{}: record {count} stands at offset {}, where record {} belongs: the target lost what was in front of it, or refused that and had forgotten its producer; what is missing would stand behind it, so delete the mirror to have it copied anew",
                self.setup.target_topic,
                batch.base,
                self.map.acknowledged()
            ),
            range: None,
            passing: false,
        }
    }

    /// Records are gone that somebody else copied: what comes behind them is ours, and they cannot
    /// be put back between.
    fn inheritance_lost(&self, end: TargetOffset, inherited_to: TargetOffset) -> Stop {
        Stop {
            code: Code::TargetTruncated,
            reason: format!(
                "{}: the target lost offsets {end} to {} and what came behind them, which were copied by somebody else before twinlog took over; delete the mirror to have it copied anew",
                self.setup.target_topic,
                inherited_to.0 - 1
            ),
            range: None,
            passing: false,
        }
    }

    fn not_ours(&self, batch: &TailBatch, count: u64) -> Stop {
        Stop {
            code: Code::OwnedElsewhere,
            reason: format!(
                "{}: offset {} holds our record {count}, which this process did not write: another one copies this partition",
                self.setup.target_topic, batch.base
            ),
            range: None,
            passing: true,
        }
    }

    /// The tail told how far the former owner came; what it planned beyond is planned anew.
    fn begin_after_recovery(&mut self) {
        self.recovering = false;
        self.former = self.map.starts_from(self.map.acknowledged()).collect();
        if planted(Planted::ResumesTooEarly) {
            // A producer that the target does not know may write anything.
            self.producer.id += 1_000_000;
            self.map.cut(self.map.acknowledged().saturating_sub(1));
        }
        self.plan_anew();
        self.require_store();
    }
}

/// Whether the cleaner took exactly `missing` offsets between `from` and `base`. A log grows without
/// holes: what is missing in front of a batch because it was lost or refused leaves none.
fn is_cleaned(tail: &Tail, from: TargetOffset, base: TargetOffset, missing: u64) -> bool {
    base.since(from) == missing
        && !tail.batches.iter().any(|batch| batch.next > from && batch.base < base)
}
