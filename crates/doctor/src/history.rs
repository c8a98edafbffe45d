//! The offset-syncs of one partition in the order in which MM2 wrote them: what a restarted MM2
//! would keep of them, and what they tell about the copy.
//!
//! Does not: read them, or judge.
//!
//! # Invariants
//!
//! 1. Memory does not grow with the number of syncs.
//! 2. A *life* is a stretch of syncs in which both sides only go forward. Within one life every sync
//!    is a place where the same record stands on both sides; of what lies between two nothing is
//!    known but the two distances.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use twinlog_mirror::{OffsetSyncStore, SyncOffsets};
use twinlog_types::{SourceOffset, TargetOffset};

/// Syncs of the present life that are remembered one by one.
const RECENT_MAX: usize = 256;
/// Turns and jumps that are remembered; those that follow are only counted.
const NOTED_MAX: usize = 32;

/// A sync at which a new life began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The last sync of the life before.
    pub before: SyncOffsets,
    /// The first of the new one.
    pub after: SyncOffsets,
    /// Where the record that `after` names on the source stood in the life before, where that is
    /// known.
    pub image: Option<TargetOffset>,
    /// The first sync of the life before that is left.
    pub began: SyncOffsets,
}

impl Turn {
    /// The target went back: the mirror was made again, or lost its end.
    pub fn is_back_on_target(&self) -> bool {
        self.after.1 < self.before.1
    }

    /// Records that are on the target once more, if the source is still the same topic; the flag says
    /// whether that is all of them.
    pub fn repeated(&self) -> (u64, bool) {
        match self.image {
            Some(image) => (self.after.1.since(image), true),
            None => (self.after.1.since(self.began.1), false),
        }
    }
}

/// Two syncs that follow one another at different distances, by more than markers of transactions
/// explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    /// The earlier.
    pub before: SyncOffsets,
    /// The later.
    pub after: SyncOffsets,
}

impl Jump {
    /// Source offsets between the two that have no record on the target.
    pub fn lost(&self) -> u64 {
        let (source, target) = self.steps();
        source.saturating_sub(target)
    }

    /// Records on the target between the two that the source does not have.
    pub fn repeated(&self) -> u64 {
        let (source, target) = self.steps();
        target.saturating_sub(source)
    }

    fn steps(&self) -> (u64, u64) {
        (self.after.0.since(self.before.0), self.after.1.since(self.before.1))
    }
}

/// The syncs next to a position, in the present life.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Around {
    /// The last at or before it.
    pub below: Option<SyncOffsets>,
    /// The first behind it.
    pub above: Option<SyncOffsets>,
}

/// The offset-syncs of a partition.
#[derive(Clone, Debug)]
pub struct SyncHistory {
    /// How many there are.
    pub count: u64,
    /// The first that the topic still has, of whatever life.
    pub first: SyncOffsets,
    /// The last one.
    pub newest: SyncOffsets,
    /// When that was written, in milliseconds since 1970.
    pub newest_ms: i64,
    /// What MM2 would translate by if it were started now.
    pub store: OffsetSyncStore,
    /// Where new lives began, the first of them.
    pub turns: Vec<Turn>,
    /// Jumps within lives, the first of them.
    pub jumps: Vec<Jump>,
    /// Whether any two neighbours have different distances.
    pub uneven: bool,
    began: SyncOffsets,
    /// The first since the target last went back: before it, the target's side names nothing.
    on_target: SyncOffsets,
    recent: VecDeque<SyncOffsets>,
    around: BTreeMap<SourceOffset, Around>,
}

impl SyncHistory {
    /// Begins with the first sync. `asked`: the positions of which [`around`](Self::around) will tell.
    pub fn new(sync: SyncOffsets, written_ms: i64, asked: &BTreeSet<SourceOffset>) -> Self {
        let mut history = Self {
            count: 1,
            first: sync,
            newest: sync,
            newest_ms: written_ms,
            store: OffsetSyncStore::new(),
            turns: Vec::new(),
            jumps: Vec::new(),
            uneven: false,
            began: sync,
            on_target: sync,
            recent: VecDeque::new(),
            around: asked.iter().map(|&source| (source, Around::default())).collect(),
        };
        history.store.take(sync);
        history.begin(sync);
        history
    }

    /// Takes the next one.
    pub fn take(&mut self, sync: SyncOffsets, written_ms: i64) {
        self.count += 1;
        self.newest_ms = written_ms;
        self.store.take(sync);
        let before = self.newest;
        if sync == before {
            return;
        }
        if sync.0 <= before.0 || sync.1 < before.1 {
            let turn = Turn { before, after: sync, image: self.image(sync.0), began: self.began };
            note(&mut self.turns, turn);
            if turn.is_back_on_target() {
                self.on_target = sync;
            }
            self.begin(sync);
        } else {
            self.go_on(before, sync);
        }
        self.newest = sync;
        self.recent.push_back(sync);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
    }

    /// The syncs next to a position that was asked for.
    pub fn around(&self, source: SourceOffset) -> Around {
        if source >= self.newest.0 {
            return Around { below: Some(self.newest), above: None };
        }
        self.around.get(&source).copied().unwrap_or_default()
    }

    /// The earliest sync of the present life that is remembered and at most `reach` source offsets
    /// before the newest.
    pub fn within(&self, reach: u64) -> SyncOffsets {
        let near = |sync: &&SyncOffsets| self.newest.0.since(sync.0) <= reach;
        self.recent.iter().find(near).copied().unwrap_or(self.newest)
    }

    /// Places worth comparing: both records are there if the source was not made again. Each once.
    pub fn samples(&self) -> Vec<SyncOffsets> {
        let is_later = |turn: &&Turn| turn.began.1 >= self.on_target.1 && !turn.is_back_on_target();
        let back = self.turns.iter().rposition(Turn::is_back_on_target);
        let turns = self.turns.get(back.map_or(0, |at| at + 1)..).unwrap_or_default();
        let turns = turns.iter().filter(is_later).rev().take(2);
        let middle = self.recent.get(self.recent.len() / 2).copied();
        let mut samples = vec![self.on_target];
        samples.extend(turns.flat_map(|turn| [turn.before, turn.began]));
        samples.extend(middle.into_iter().chain([self.began, self.newest]));
        let mut seen = BTreeSet::new();
        samples.retain(|sample| seen.insert(*sample));
        samples
    }

    fn begin(&mut self, sync: SyncOffsets) {
        self.began = sync;
        self.recent.clear();
        for (source, around) in &mut self.around {
            let above = (*source < sync.0).then_some(sync);
            *around = Around { below: None, above };
        }
        if self.recent.is_empty() {
            self.recent.push_back(sync);
        }
    }

    fn go_on(&mut self, before: SyncOffsets, sync: SyncOffsets) {
        for (_, around) in self.around.range_mut(before.0..sync.0) {
            *around = Around { below: Some(before), above: Some(sync) };
        }
        let (source, target) = (sync.0.since(before.0), sync.1.since(before.1));
        self.uneven |= source != target;
        // A transaction has one marker and at least one record.
        if target > source || source.saturating_sub(target) > target {
            note(&mut self.jumps, Jump { before, after: sync });
        }
    }

    /// Where a record stood in the life that ends now.
    fn image(&self, source: SourceOffset) -> Option<TargetOffset> {
        let at = self.recent.partition_point(|sync| sync.0 <= source);
        let below = match at.checked_sub(1) {
            Some(at) => self.recent[at],
            None if self.began.0 <= source && self.is_whole() => self.began,
            None if self.began.0 == source => self.began,
            None => return None,
        };
        Some(below.1.plus(source.since(below.0)))
    }

    /// Whether every sync of the present life is remembered.
    fn is_whole(&self) -> bool {
        self.recent.front() == Some(&self.began)
    }
}

fn note<T>(noted: &mut Vec<T>, one: T) {
    if noted.len() < NOTED_MAX {
        noted.push(one);
    }
}

#[cfg(test)]
mod tests {
    use twinlog_mirror::SyncTranslation;

    use super::*;

    fn pair((source, target): (i64, i64)) -> SyncOffsets {
        (SourceOffset(source), TargetOffset(target))
    }

    fn history(syncs: &[(i64, i64)], asked: &[i64]) -> SyncHistory {
        let asked = asked.iter().map(|&source| SourceOffset(source)).collect();
        let mut history = SyncHistory::new(pair(syncs[0]), 0, &asked);
        for (at, sync) in syncs.iter().enumerate().skip(1) {
            history.take(pair(*sync), at as i64);
        }
        history
    }

    type Plain = Option<(i64, i64)>;

    fn around(history: &SyncHistory, source: i64) -> (Plain, Plain) {
        let around = history.around(SourceOffset(source));
        let plain = |sync: SyncOffsets| (sync.0.0, sync.1.0);
        (around.below.map(plain), around.above.map(plain))
    }

    #[test]
    fn a_position_is_told_its_neighbours_in_the_present_life() {
        let asked = [5, 10, 250, 303, 400];
        let history = history(&[(10, 0), (101, 91), (202, 192), (303, 293)], &asked);
        assert_eq!(around(&history, 5), (None, Some((10, 0))));
        assert_eq!(around(&history, 10), (Some((10, 0)), Some((101, 91))));
        assert_eq!(around(&history, 250), (Some((202, 192)), Some((303, 293))));
        assert_eq!(around(&history, 303), (Some((303, 293)), None));
        assert_eq!(around(&history, 400), (Some((303, 293)), None));
        assert_eq!((history.count, history.uneven, history.newest_ms), (4, false, 3));
        assert!(history.turns.is_empty() && history.jumps.is_empty());
    }

    /// `target-topic-recreated`: the mirror is filled from source offset 1,000 on.
    #[test]
    fn a_mirror_that_was_made_again_begins_a_life() {
        let syncs = [(0, 0), (909, 909), (999, 999), (1_000, 0), (1_049, 49)];
        let history = history(&syncs, &[500, 1_040]);
        assert_eq!(history.turns.len(), 1);
        assert!(history.turns[0].is_back_on_target());
        assert_eq!(around(&history, 1_040), (Some((1_000, 0)), Some((1_049, 49))));
        assert_eq!(around(&history, 500), (None, Some((1_000, 0))));
        // Nothing of the old mirror is there to be compared.
        assert_eq!(history.samples(), [pair((1_000, 0)), pair((1_049, 49))]);
    }

    /// `killed-mid-copy`: positions were never stored, so the copy begins again at 0.
    #[test]
    fn a_copy_that_was_made_twice_is_counted() {
        let mut syncs: Vec<(i64, i64)> = (0..1_140).map(|n| (n * 101, n * 101)).collect();
        syncs.extend([(0, 115_236), (101, 115_337), (299_999, 415_235)]);
        let history = history(&syncs, &[]);
        assert!(!history.turns[0].is_back_on_target());
        // The first sync of that life is remembered though the others are not.
        assert_eq!(history.turns[0].repeated(), (115_236, true));
        // In a life of which only the end is left it is at least so many.
        let history = self::history(&[(500, 500), (600, 600), (0, 700)], &[]);
        assert_eq!(history.turns[0].repeated(), (200, false));
        // With the positions of the last flush: what was copied since.
        let history = self::history(&[(0, 0), (249, 249), (404, 404), (250, 420)], &[]);
        assert_eq!(history.turns[0].repeated(), (170, true));
        // Less than `offset.lag.max` since: no sync tells but the distance.
        let history = self::history(&[(0, 0), (249, 249), (250, 281)], &[]);
        assert!(history.turns.is_empty());
        assert_eq!(history.jumps[0].repeated(), 31);
    }

    /// `retention-overtook`: 100 to 249 were gone before they were copied.
    #[test]
    fn a_hole_that_no_markers_explain_is_noted() {
        let history = history(&[(0, 0), (99, 99), (250, 100), (299, 149)], &[]);
        assert_eq!(history.jumps.len(), 1);
        assert_eq!((history.jumps[0].lost(), history.jumps[0].repeated()), (150, 0));
        assert_eq!(history.jumps[0].before, pair((99, 99)));
        // `transactional-source`: ten records and a marker.
        let history = self::history(&[(0, 0), (10, 9), (22, 20), (33, 30)], &[]);
        assert!(history.jumps.is_empty() && history.uneven);
    }

    #[test]
    fn what_is_translated_is_what_a_restarted_mm2_translates() {
        let syncs: Vec<(i64, i64)> = (0..=100).map(|n| (n * 100, n * 100)).collect();
        let history = history(&syncs, &[]);
        let answer = history.store.translate(SourceOffset(5_000));
        assert_eq!(answer, SyncTranslation::To(TargetOffset(1)));
        assert_eq!(history.within(250).0, SourceOffset(9_800));
        assert_eq!(history.samples(), [(0, 0), (5_000, 5_000), (10_000, 10_000)].map(pair));
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_syncs() {
        let mut history = SyncHistory::new(pair((0, 0)), 0, &BTreeSet::new());
        for n in 1..100_000i64 {
            // A new life every 1,000 and a hole every 10.
            history.take(pair((n % 1_000 + n % 10 * 50, n)), 0);
        }
        assert!(history.recent.len() <= RECENT_MAX);
        assert!(history.turns.len() <= NOTED_MAX && history.jumps.len() <= NOTED_MAX);
    }
}
