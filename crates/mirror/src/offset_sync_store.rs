//! What MirrorMaker 2's checkpoint task remembers of the offset-syncs of one partition, and how it
//! translates by them: a port of its `OffsetSyncStore`.
//!
//! For saying what a MirrorMaker 2 does, or would do after a restart. Does not: translate for
//! twinlog, which keeps an exact map; read the topic.
//!
//! # Invariants
//!
//! 1. The same syncs in the same order leave the same slots as in MM2 4.3.0, of whatever order and
//!    whatever offsets the syncs are.
//! 2. An answer is at most one past the target side of a sync at or below the asked position.
//!
//! Reference: `OffsetSyncStore` in `connect/mirror` (KAFKA-12468, KAFKA-14666, KAFKA-15905).

use twinlog_types::{SourceOffset, TargetOffset};

/// One slot for each bit of an offset.
const SLOTS: usize = 64;
const LAST: usize = SLOTS - 1;

/// The place of one record on both sides.
pub type SyncOffsets = (SourceOffset, TargetOffset);

/// What MM2 answers for a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncTranslation {
    /// Where it puts the group.
    To(TargetOffset),
    /// The position lies before every sync that it still has (its -1): the group gets no checkpoint.
    BeforeOldest,
    /// It has no sync of the partition: the group gets no checkpoint.
    NoSync,
}

impl SyncTranslation {
    /// Where the group is put, if it is put anywhere.
    pub fn target(self) -> Option<TargetOffset> {
        match self {
            Self::To(target) => Some(target),
            Self::BeforeOldest | Self::NoSync => None,
        }
    }
}

/// The syncs that MM2 has of one partition. 1.5 KiB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffsetSyncStore {
    /// Slot 0 is the newest sync, slot 63 the oldest that may be translated by.
    slots: Option<Box<[Sync; SLOTS]>>,
    /// Whether only the newest sync counts: the topic is being loaded, and MM2 could not read its
    /// own checkpoints before (up to 3.7.0 it never did).
    newest_only: bool,
    taken: u64,
}

/// MM2 compares references: two syncs with the same offsets are two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sync {
    source: i64,
    target: i64,
    number: u64,
}

impl Default for OffsetSyncStore {
    fn default() -> Self {
        Self::new()
    }
}

impl OffsetSyncStore {
    /// No sync yet; older ones will be kept, as by a task that has read its checkpoints (which every
    /// healthy one from 3.8 on has).
    pub fn new() -> Self {
        Self { slots: None, newest_only: false, taken: 0 }
    }

    /// No sync yet; of what the topic holds only the newest will be kept, until [`Self::loaded`].
    pub fn without_checkpoints() -> Self {
        Self { newest_only: true, ..Self::new() }
    }

    /// The end of the topic as it was at the start is reached.
    pub fn loaded(&mut self) {
        self.newest_only = false;
    }

    /// Takes the next sync of the topic.
    pub fn take(&mut self, (source, target): SyncOffsets) {
        self.taken += 1;
        let sync = Sync { source: source.0, target: target.0, number: self.taken };
        match &mut self.slots {
            Some(slots) if !self.newest_only && sync.source >= slots[0].source => {
                **slots = updated(slots, sync);
            }
            // Of what was before a step back nothing can be told.
            _ => self.slots = Some(Box::new([sync; SLOTS])),
        }
    }

    /// Where MM2 puts a group that has committed `source`.
    pub fn translate(&self, source: SourceOffset) -> SyncTranslation {
        let Some(slots) = &self.slots else { return SyncTranslation::NoSync };
        match slots.iter().find(|slot| slot.source <= source.0) {
            None => SyncTranslation::BeforeOldest,
            Some(slot) => {
                let further = i64::from(slot.source < source.0);
                SyncTranslation::To(TargetOffset(slot.target.saturating_add(further)))
            }
        }
    }

    /// The syncs that are kept, the newest first.
    pub fn kept(&self) -> Vec<SyncOffsets> {
        let mut kept: Vec<Sync> =
            self.slots.iter().flat_map(|slots| slots.iter().copied()).collect();
        kept.dedup();
        let pair = |sync: Sync| (SourceOffset(sync.source), TargetOffset(sync.target));
        kept.into_iter().map(pair).collect()
    }
}

/// The slots after a sync that is not behind the newest: names and order of the steps are MM2's.
fn updated(old: &[Sync; SLOTS], sync: Sync) -> [Sync; SLOTS] {
    let mut new = *old;
    new[0] = sync;
    let (mut candidate, mut from) = (sync, 0);
    for current in 1..SLOTS {
        let previous = current - 1;
        loop {
            let oldest = old[from];
            let recent = is_recent(new[previous], oldest, previous, current);
            let apart = is_apart(new[previous], oldest, previous);
            let apart_next = current == LAST || is_apart(oldest, new[current + 1], current);
            let promote = recent && apart && apart_next;
            if promote {
                candidate = oldest;
            }
            let skip = (from < LAST && oldest == old[from + 1]) || !apart;
            if promote || skip {
                from += 1;
            }
            if from >= current || !skip {
                break;
            }
        }
        if is_recent(new[previous], new[current], previous, current) {
            break;
        }
        new[current] = candidate;
    }
    new
}

/// Slot `j` is at most `2^j - 2^i` behind slot `i`.
fn is_recent(i: Sync, j: Sync, slot_i: usize, slot_j: usize) -> bool {
    let distance = (1i64 << slot_j).wrapping_sub(1i64 << slot_i);
    let bound = j.source.wrapping_add(distance);
    i == j || bound < 0 || i.source <= bound
}

/// Slot `j` is at least a quarter of that behind slot `i`.
fn is_apart(i: Sync, j: Sync, slot_i: usize) -> bool {
    let bound = j.source.wrapping_add(1i64 << slot_i.saturating_sub(2));
    i == j || (bound >= 0 && i.source >= bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(source: i64, target: i64) -> SyncOffsets {
        (SourceOffset(source), TargetOffset(target))
    }

    fn to(target: i64) -> SyncTranslation {
        SyncTranslation::To(TargetOffset(target))
    }

    fn kept(store: &OffsetSyncStore) -> Vec<i64> {
        store.kept().into_iter().map(|(source, _)| source.0).collect()
    }

    /// `first slot=source:target` of each sync, as MM2's compiled class prints it.
    fn slots(store: &OffsetSyncStore) -> String {
        let slots = store.slots.as_ref().expect("syncs");
        let begins = |slot: &usize| *slot == 0 || slots[*slot] != slots[slot - 1];
        let text = |slot: usize| format!("{slot}={}:{}", slots[slot].source, slots[slot].target);
        (0..SLOTS).filter(begins).map(text).collect::<Vec<_>>().join(" ")
    }

    fn take_all(store: &mut OffsetSyncStore, sources: impl Iterator<Item = i64>) {
        sources.for_each(|n| store.take(pair(n, n)));
    }

    // Slots and answers below are those of MM2's compiled class for the same syncs.

    #[test]
    fn a_task_without_checkpoints_keeps_of_the_topic_only_the_newest() {
        let mut store = OffsetSyncStore::without_checkpoints();
        take_all(&mut store, (0..=1000).step_by(10));
        assert_eq!(slots(&store), "0=1000:1000");
        store.loaded();
        take_all(&mut store, (1010..=10_000).step_by(10));
        assert_eq!(
            slots(&store),
            "0=10000:10000 5=9990:9990 6=9970:9970 7=9940:9940 8=9880:9880 9=9640:9640 \
             10=9160:9160 11=8680:8680 12=6760:6760 13=4840:4840 14=1000:1000"
        );
        store.take(pair(1_500, 11_000));
        assert_eq!(store.translate(SourceOffset(1_499)), SyncTranslation::BeforeOldest);
        assert_eq!(store.translate(SourceOffset(1_500)), to(11_000));
        assert_eq!(store.translate(SourceOffset(2_000)), to(11_001));
    }

    #[test]
    fn a_task_with_checkpoints_keeps_about_one_per_doubling_of_the_distance() {
        let mut store = OffsetSyncStore::new();
        take_all(&mut store, (0..=1000).step_by(10));
        assert_eq!(
            slots(&store),
            "0=1000:1000 5=990:990 6=960:960 7=900:900 8=840:840 9=720:720 10=480:480 11=0:0"
        );
        // It reads on at the record that it read last.
        take_all(&mut store, (1000..=10_000).step_by(10));
        assert_eq!(
            slots(&store),
            "0=10000:10000 5=9990:9990 6=9960:9960 7=9900:9900 8=9840:9840 9=9600:9600 \
             10=9120:9120 11=8640:8640 12=7680:7680 13=3840:3840 14=0:0"
        );
        let mut store = OffsetSyncStore::new();
        take_all(&mut store, (0..=10_000).step_by(100));
        assert_eq!(
            slots(&store),
            "0=10000:10000 8=9900:9900 9=9800:9800 10=9600:9600 11=8800:8800 12=8000:8000 \
             13=6400:6400 14=0:0"
        );
    }

    #[test]
    fn an_answer_may_go_back_when_a_sync_expires() {
        let mut store = OffsetSyncStore::new();
        let answers = (11..=17).map(|source| {
            store.take(pair(source, source - 7));
            store.translate(SourceOffset(13)).target().expect("an answer").0
        });
        assert_eq!(answers.collect::<Vec<_>>(), [5, 6, 6, 6, 6, 6, 5]);
        assert_eq!(slots(&store), "0=17:10 1=16:9 2=15:8 3=11:4");
        let mut store = OffsetSyncStore::new();
        take_all(&mut store, 0..=8);
        assert_eq!(slots(&store), "0=8:8 1=7:7 2=6:6 3=4:4 4=0:0");
        take_all(&mut store, 9..=16);
        assert_eq!(slots(&store), "0=16:16 1=15:15 2=14:14 3=12:12 4=8:8 5=0:0");
    }

    #[test]
    fn nothing_is_told_of_what_was_before_the_first_sync_or_a_step_back() {
        let mut store = OffsetSyncStore::new();
        assert_eq!(store.translate(SourceOffset(5)), SyncTranslation::NoSync);
        store.take(pair(100, 200));
        for (source, answer) in [
            (0, SyncTranslation::BeforeOldest),
            (100, to(200)),
            (150, to(201)),
            (i64::MAX, to(201)),
        ] {
            assert_eq!(store.translate(SourceOffset(source)), answer);
        }
        store.take(pair(150, 251));
        assert_eq!(store.translate(SourceOffset(150)), to(251));
        store.take(pair(20, 20));
        assert_eq!(store.translate(SourceOffset(20)), to(20));
        assert_eq!(store.translate(SourceOffset(19)), SyncTranslation::BeforeOldest);
        assert_eq!(kept(&store), [20]);
    }

    /// MM2's own test: whatever the step, one update expires at most one sync, and the first stays.
    #[test]
    fn evenly_spaced_syncs_expire_one_by_one_and_the_first_stays() {
        for step in 1..100 {
            for first in 0..30 {
                let mut store = OffsetSyncStore::new();
                let mut before: Vec<i64> = Vec::new();
                for n in 0..200 {
                    store.take(pair(first + n * step, n));
                    let now = kept(&store);
                    let gone = before.iter().filter(|one| !now.contains(one)).count();
                    assert!(gone <= 1, "step {step}, first {first}, sync {n}");
                    assert_eq!((now[0], now[now.len() - 1]), (first + n * step, first));
                    before = now;
                }
            }
        }
    }

    #[test]
    fn offsets_at_the_end_of_the_range_do_no_harm() {
        let mut store = OffsetSyncStore::new();
        for source in [0, 1, i64::MAX / 2, i64::MAX - 1, i64::MAX] {
            store.take(pair(source, i64::MAX));
        }
        assert_eq!(store.translate(SourceOffset(i64::MAX)), to(i64::MAX));
        assert!(store.kept().len() <= SLOTS);
    }
}
