//! The offset map of one partition: how it grows, shifts, shrinks, and is saved.
//!
//! # Invariants
//!
//! 1. Every segment but the last is full, and starts ascend across segments as within one.
//! 2. Segment `n` holds the runs `n * RUNS_PER_SEGMENT..`, counted since the partition's first run;
//!    pruning drops segments at the front and renumbers nothing.
//! 3. A segment is pruned only when the next one begins with an acknowledged record that the target
//!    has deleted: the last acknowledged record is always in the map, and so is the hole before the
//!    first record that the target still holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use twinlog_types::{SourceOffset, TargetOffset};

use crate::segment::Segment;
use crate::state::Position;
use crate::{Inherited, Malformed, RUNS_PER_SEGMENT, RunStart, StateError, Stretch, UnknownRange};

/// Which source offset became which target offset, exactly.
///
/// Runs are first *planned* (the copy has seen what comes after a hole), then *acknowledged* (the
/// target holds the records). Only acknowledged records answer [`translate`](Self::translate) and
/// [`reverse`](Self::reverse).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffsetMap {
    pub(crate) start: SourceOffset,
    pub(crate) origin: Option<TargetOffset>,
    pub(crate) target_start: TargetOffset,
    pub(crate) acknowledged: u64,
    pub(crate) copied_to: SourceOffset,
    pub(crate) first_segment: u32,
    pub(crate) segments: Vec<Segment>,
    /// What somebody else copied before [`start`](Self::start).
    pub(crate) before: Option<Arc<Inherited>>,
}

impl OffsetMap {
    /// The map of a partition of which nothing is copied yet. `start` is the first source offset
    /// that the copy will look at.
    pub fn new(start: SourceOffset) -> Self {
        Self {
            start,
            origin: None,
            target_start: TargetOffset(0),
            acknowledged: 0,
            copied_to: start,
            first_segment: 0,
            segments: Vec::new(),
            before: None,
        }
    }

    /// States where the first record will land: the target's log end when the partition was taken
    /// up. Matters only until a first record is acknowledged, and for target positions below it.
    pub fn set_origin(&mut self, target: TargetOffset) {
        self.origin = Some(target);
    }

    /// Where the first record was expected to land, where that is known.
    pub fn origin(&self) -> Option<TargetOffset> {
        self.origin
    }

    /// States that somebody else copied what lies below [`start`](Self::start), and what is known
    /// of that.
    pub fn set_before(&mut self, before: Inherited) {
        self.before = Some(Arc::new(before));
    }

    /// What is known of the records that somebody else copied; `None` when there are none.
    pub fn before(&self) -> Option<&Inherited> {
        self.before.as_deref()
    }

    /// One more stretch of what somebody else copied is known.
    ///
    /// # Errors
    ///
    /// When it contradicts what is known already, or nothing was taken over.
    pub fn inherit(&mut self, stretch: Stretch) -> Result<(), StateError> {
        let from = stretch.from();
        if stretch.to() > self.start {
            return Err(StateError::StretchOrder { from: from.0 });
        }
        match &mut self.before {
            Some(before) => Arc::make_mut(before).insert(stretch),
            None => Err(StateError::StretchOrder { from: from.0 }),
        }
    }

    /// The range of source offsets that keeps `position` from being translated exactly: somebody
    /// else copied it, and its contents were not compared yet.
    pub fn unknown_at(&self, position: SourceOffset) -> Option<UnknownRange> {
        self.before().and_then(|before| before.unknown_at(position, self))
    }

    /// The first source offset that the copy looked at. Moves only when [`cut`](Self::cut) takes
    /// away all that pruning had left.
    pub fn start(&self) -> SourceOffset {
        self.start
    }

    /// A run begins: after a hole, or with the partition's first record.
    ///
    /// # Panics
    ///
    /// When `run` does not follow the last planned start in all three numbers, lies below the
    /// acknowledged count, or is out of range.
    pub fn plan(&mut self, run: RunStart) {
        assert!(
            run.count >= self.acknowledged,
            "run planned below the {} acknowledged records: {run:?}",
            self.acknowledged
        );
        self.push(run);
    }

    /// Every record below `count` is on the target, and `copied_to` is the next source offset to
    /// copy; it may lie behind a trailing hole. Steps back in either are ignored.
    ///
    /// `copied_to` is held to what the map knows: it never lies at or below the last acknowledged
    /// record, nor beyond a record that is planned next.
    pub fn acknowledge(&mut self, count: u64, copied_to: SourceOffset) {
        self.acknowledged = self.acknowledged.max(count);
        let count = self.acknowledged;
        let (at, next) = self.around(|run| run.count <= count);
        let planned_next = at
            .filter(|at| at.count == count || next.is_some())
            .map(|at| at.source.plus(count - at.count))
            .or(next.map(|next| next.source));
        self.copied_to =
            self.copied_to.max(planned_next.map_or(copied_to, |planned| copied_to.min(planned)));
        if self.has_acknowledged() {
            let last = count.checked_sub(1).and_then(|last| self.source_of(last));
            self.copied_to = last.map_or(self.copied_to, |last| self.copied_to.max(last.plus(1)));
        }
    }

    /// The records from `run.count` on lie at `run.target`, because the target's log holds
    /// something between them and the records before: a run starts there, and what was planned
    /// behind it moves by the same distance.
    ///
    /// Returns how many run starts, counted since the partition's first, still have the durable
    /// form they had: see [`segments_since`](Self::segments_since).
    ///
    /// # Panics
    ///
    /// When `run` lies below the acknowledged count, or does not fit between its neighbours.
    pub fn shift(&mut self, run: RunStart) -> usize {
        assert!(
            run.count >= self.acknowledged,
            "shift below the {} acknowledged records: {run:?}",
            self.acknowledged
        );
        let expected = self.target_of(run.count);
        if expected == Some(run.target) && self.source_of(run.count) == Some(run.source) {
            return self.runs();
        }
        let moved = expected.map_or(0, |expected| run.target.0 - expected.0);
        let followers: Vec<RunStart> = self
            .starts_from(run.count.saturating_add(1))
            .map(|start| RunStart { target: TargetOffset(start.target.0 + moved), ..start })
            .collect();
        self.drop_from(run.count);
        let unchanged = self.runs();
        self.push(run);
        for start in followers {
            self.push(start);
        }
        unchanged
    }

    /// Forgets the records at and above `count`, planned ones included: the target lost them, or
    /// what was planned is to be looked at again. The copy goes on at the source offset of `count`.
    /// Records that were pruned are not forgotten: a cut below them is a cut at the first one kept.
    ///
    /// Returns how many run starts, counted since the partition's first, still have the durable
    /// form they had: see [`segments_since`](Self::segments_since). Durable segments from
    /// [`segment_count`](Self::segment_count) on need tombstones.
    pub fn cut(&mut self, count: u64) -> usize {
        let Some(first) = self.first() else { return self.runs() };
        let count = count.max(first.count);
        let before = self.runs();
        let lost = count < self.acknowledged;
        if lost {
            self.copied_to = self.source_of(count).unwrap_or(self.copied_to);
            self.acknowledged = count;
        }
        self.drop_from(count);
        if lost && self.segments.is_empty() {
            if self.first_segment > 0 {
                // What lay before is deleted by retention, not lost: the map begins here anew.
                self.first_segment = 0;
                self.start = first.source;
                self.origin = Some(first.target);
            }
            self.origin = self.origin.or(Some(first.target));
        }
        if lost {
            // A log does not start behind its end.
            self.target_start = self.target_start.min(self.target_end());
        }
        if self.runs() == before { before } else { whole_segments(self.runs()) }
    }

    /// The target deleted what lies below `target_start`: whole segments of it leave the memory.
    /// Steps back are ignored. Durable segments below [`first_segment`](Self::first_segment) are of
    /// no use any more.
    pub fn prune(&mut self, target_start: TargetOffset) {
        self.target_start = self.target_start.max(target_start);
        let gone = self
            .segments
            .iter()
            .skip(1)
            .take_while(|segment| {
                let first = segment.first();
                // Where a deleted record begins the next segment, nothing before it is exact.
                first.target < self.target_start && first.count < self.acknowledged
            })
            .count();
        self.segments.drain(..gone);
        self.first_segment += gone as u32;
    }

    /// How many records are on the target since the partition's first.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The next source offset to copy.
    pub fn copied_to(&self) -> SourceOffset {
        self.copied_to
    }

    /// One past the last acknowledged record; before the first one, where it is expected to land
    /// ([`set_origin`](Self::set_origin)), or 0.
    pub fn target_end(&self) -> TargetOffset {
        if self.has_acknowledged()
            && let Some(last) = self.acknowledged.checked_sub(1)
            && let Some(target) = self.target_of(last)
        {
            return target.plus(1);
        }
        self.origin.unwrap_or_default()
    }

    /// How many runs have started since the partition's first; planned and pruned ones included.
    pub fn runs(&self) -> usize {
        let before = self.first_segment as usize + self.segments.len().saturating_sub(1);
        before * RUNS_PER_SEGMENT + self.segments.last().map_or(0, Segment::runs)
    }

    /// The first run that is kept.
    pub fn first(&self) -> Option<RunStart> {
        self.segments.first().map(Segment::first)
    }

    /// The last run, planned ones included.
    pub fn last(&self) -> Option<RunStart> {
        self.segments.last().map(Segment::last)
    }

    /// The run starts at and above `count`, in order, planned ones included.
    pub fn starts_from(&self, count: u64) -> impl Iterator<Item = RunStart> {
        let from = self.segments.partition_point(|segment| segment.last().count < count);
        self.segments[from..].iter().flat_map(Segment::starts).filter(move |run| run.count >= count)
    }

    /// The number of the first segment that is kept; those below were pruned.
    pub fn first_segment(&self) -> u32 {
        self.first_segment
    }

    /// One past the number of the last segment. After a cut it may be smaller than before: durable
    /// segments from here on need tombstones.
    pub fn segment_count(&self) -> u32 {
        self.first_segment + self.segments.len() as u32
    }

    /// The encoded segments that hold any run with a number from `durable_runs` on, with their
    /// numbers. Runs are numbered since the partition's first.
    ///
    /// A caller that keeps `durable_runs` as the number of runs it has written lowers it to what
    /// [`shift`](Self::shift) and [`cut`](Self::cut) return, and writes tombstones for the durable
    /// segments from [`segment_count`](Self::segment_count) on.
    pub fn segments_since(&self, durable_runs: usize) -> Vec<(u32, Bytes)> {
        if durable_runs >= self.runs() {
            return Vec::new();
        }
        let wanted = (durable_runs / RUNS_PER_SEGMENT) as u32;
        (self.first_segment..)
            .zip(&self.segments)
            .filter(|&(number, _)| number >= wanted)
            .map(|(number, segment)| (number, segment.encode()))
            .collect()
    }

    /// The map that was saved as `segments`, in any order; of two with one number the later
    /// counts. Nothing is acknowledged yet: [`acknowledge`](Self::acknowledge) with what the
    /// position says, or use [`restore`](Self::restore), which also compares the two.
    ///
    /// # Errors
    ///
    /// When a segment cannot be read, does not follow the one before it, or is missing between two.
    /// Missing ones at the front were pruned; at the end only the position can tell.
    pub fn from_segments(
        start: SourceOffset,
        segments: impl IntoIterator<Item = (u32, Bytes)>,
    ) -> Result<Self, StateError> {
        let numbered: BTreeMap<u32, Bytes> = segments.into_iter().collect();
        let mut map = Self::new(start);
        map.first_segment = numbered.keys().next().copied().unwrap_or(0);
        for (number, bytes) in numbered {
            let expected = map.segment_count();
            if number != expected {
                return Err(StateError::SegmentMissing { segment: expected });
            }
            // A position counts runs in 32 bits.
            let decoded = if number < u32::MAX / RUNS_PER_SEGMENT as u32 {
                Segment::decode(&bytes)
            } else {
                Err(Malformed::Number)
            };
            let segment = decoded.map_err(|why| StateError::Segment { segment: number, why })?;
            if let Some(before) = map.segments.last() {
                if !before.is_full() {
                    let (segment, runs) = (number - 1, before.runs() as u32);
                    return Err(StateError::SegmentShort { segment, runs });
                }
                if !before.last().is_followed_by(segment.first()) {
                    return Err(StateError::SegmentOrder { segment: number });
                }
            }
            map.segments.push(segment);
        }
        Ok(map)
    }

    /// The map that was saved as `position` and `segments`.
    ///
    /// # Errors
    ///
    /// As [`from_segments`](Self::from_segments); and when the segments hold fewer runs than the
    /// position vouches for, or put the last record elsewhere.
    pub fn restore(
        position: &Position,
        segments: impl IntoIterator<Item = (u32, Bytes)>,
    ) -> Result<Self, StateError> {
        let expected = position.runs as usize;
        // A cut leaves durable segments behind the last one: the position does not vouch for them.
        let vouched = expected.div_ceil(RUNS_PER_SEGMENT);
        let segments = segments.into_iter().filter(|&(number, _)| (number as usize) < vouched);
        let mut map = Self::from_segments(position.start, segments)?;
        let found = map.runs();
        if found < expected {
            let wanted = (expected - 1) / RUNS_PER_SEGMENT;
            return Err(if wanted as u32 >= map.segment_count() {
                StateError::SegmentMissing { segment: map.segment_count() }
            } else {
                StateError::RunsMissing { expected: expected as u64, found: found as u64 }
            });
        }
        map.set_origin(position.origin);
        map.acknowledge(position.count, position.copied_to);
        if map.has_acknowledged() && map.target_end() != position.target_end {
            return Err(StateError::EndsDiffer {
                count: position.count,
                position: position.target_end.0,
                map: map.target_end().0,
            });
        }
        Ok(map)
    }

    /// How much memory the map takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.segments.iter().map(Segment::memory_bytes).sum::<usize>()
    }

    /// Whether an acknowledged record is in the map.
    pub(crate) fn has_acknowledged(&self) -> bool {
        self.first().is_some_and(|first| first.count < self.acknowledged)
    }

    /// The last start that `reached` holds for, and the start after it. `reached` holds for no
    /// start after one that it does not hold for.
    pub(crate) fn around(
        &self,
        reached: impl Fn(&RunStart) -> bool,
    ) -> (Option<RunStart>, Option<RunStart>) {
        let after = self.segments.partition_point(|segment| reached(&segment.first()));
        let next_segment = || self.segments.get(after).map(Segment::first);
        let Some(segment) = after.checked_sub(1).and_then(|index| self.segments.get(index)) else {
            return (None, next_segment());
        };
        let (at, next) = segment.around(reached);
        (Some(at), next.or_else(next_segment))
    }

    fn push(&mut self, run: RunStart) {
        assert!(run.is_in_range(), "run out of range: {run:?}");
        match self.segments.last_mut() {
            Some(segment) => {
                let last = segment.last();
                assert!(last.is_followed_by(run), "run {run:?} does not follow {last:?}");
                if segment.is_full() {
                    self.segments.push(Segment::new(run));
                } else {
                    segment.push(run);
                }
            }
            None => self.segments.push(Segment::new(run)),
        }
    }

    /// Drops the starts at and above `count`.
    fn drop_from(&mut self, count: u64) {
        let kept = self.segments.partition_point(|segment| segment.first().count < count);
        self.segments.truncate(kept);
        if let Some(segment) = self.segments.last_mut()
            && segment.last().count >= count
            && let Some(below) = segment.below(count)
        {
            *segment = below;
        }
    }
}

/// `runs` without those of an open last segment.
fn whole_segments(runs: usize) -> usize {
    runs / RUNS_PER_SEGMENT * RUNS_PER_SEGMENT
}
