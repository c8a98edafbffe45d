//! The offset map of one partition: how it grows, shifts, shrinks, and is saved.
//!
//! # Invariants
//!
//! 1. Every segment but the last is full, and starts ascend across segments as within one.
//! 2. Segment `n` holds the runs `n * RUNS_PER_SEGMENT..`, counted since the partition's first run;
//!    pruning drops segments at the front and renumbers nothing.
//! 3. Blocks are sealed in front of the segments that the memory holds, of records that are
//!    acknowledged; at least [`KEPT_SEGMENTS`] segments are never sealed.
//! 4. A segment or block is pruned only when the next one begins with an acknowledged record that the target
//!    has deleted: the last acknowledged record is always in the map, and so is the hole before the
//!    first record that the target still holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use twinlog_types::{SourceOffset, TargetOffset};

use crate::block::{Block, Index, RUNS_PER_BLOCK, SEGMENTS_PER_BLOCK};
use crate::segment::Segment;
use crate::state::Position;
use crate::{Inherited, Malformed, RUNS_PER_SEGMENT, RunStart, StateError, Stretch, UnknownRange};

/// So many full segments stay in memory behind the last sealed block: most of what a target can
/// lose at its end is cut without fetching a block.
const KEPT_SEGMENTS: usize = if cfg!(test) { 1 } else { 4 };

/// So many blocks are sealed in one write of the state at most.
const SEALED_AT_ONCE: usize = 8;

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
    /// Sealed blocks: they end where the segments begin.
    pub(crate) index: Index,
    /// The number of the first of `segments`.
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
            index: Index::default(),
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
        let Around { at, next, .. } = self.around(None, |run| run.count <= count);
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
    /// form they had: see [`Durable::taken_back`](crate::Durable::taken_back).
    ///
    /// # Panics
    ///
    /// When [`block_for_cut`](Self::block_for_cut) names a block that must be reopened first.
    pub fn cut(&mut self, count: u64) -> usize {
        assert_eq!(self.block_for_cut(count), None, "a cut at {count} needs a sealed block");
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
            if self.is_pruned() {
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

    /// The sealed block that [`cut`](Self::cut) at `count` needs to be reopened first: the last
    /// one. After [`reopen`](Self::reopen) ask again.
    pub fn block_for_cut(&self, count: u64) -> Option<u32> {
        let resident = self.segments.first().is_some_and(|first| first.first().count < count);
        if resident { None } else { self.last_block() }
    }

    /// The last sealed block.
    fn last_block(&self) -> Option<u32> {
        (!self.index.is_empty()).then(|| self.index.numbers().end - 1)
    }

    /// Takes the runs of the last sealed block back into memory. Its segments have no durable form
    /// of their own then, and the block's is of no use.
    ///
    /// # Errors
    ///
    /// When `block` is not the last one, or not the one that was sealed.
    pub fn reopen(&mut self, block: &Block) -> Result<(), StateError> {
        let number = block.number();
        if self.last_block() != Some(number) {
            return Err(StateError::BlockMissing { block: self.last_block().unwrap_or(number) });
        }
        let follows =
            self.segments.first().is_none_or(|next| block.runs.last().is_followed_by(next.first()));
        if self.index.head(number) != Some(block.head()) || !follows {
            return Err(StateError::BlockOrder { block: number });
        }
        self.index.pop();
        self.first_segment = block.first_segment();
        self.segments.splice(0..0, block.segments());
        Ok(())
    }

    /// The blocks that can be sealed: full, acknowledged, and among the first `durable_runs` runs.
    pub fn sealable(&self, durable_runs: usize) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut rest = self.segments.as_slice();
        let mut number = self.first_segment as usize;
        loop {
            let end = (number / SEGMENTS_PER_BLOCK + 1) * SEGMENTS_PER_BLOCK;
            let length = end - number;
            let Some((sealed, behind)) = rest.split_at_checked(length) else { break };
            let acknowledged =
                behind.first().is_some_and(|next| next.first().count < self.acknowledged);
            if blocks.len() >= SEALED_AT_ONCE
                || behind.len() <= KEPT_SEGMENTS
                || !acknowledged
                || end * RUNS_PER_SEGMENT > durable_runs
            {
                break;
            }
            blocks.extend(Block::gather((number / SEGMENTS_PER_BLOCK) as u32, sealed));
            (rest, number) = (behind, end);
        }
        blocks
    }

    /// `block`, which [`sealable`](Self::sealable) gave, is durable: its runs leave the memory.
    /// Whether it is still what the map begins with is checked; if not, nothing happens.
    pub fn seal(&mut self, block: &Block) {
        let length = block.runs.runs() / RUNS_PER_SEGMENT;
        let same = self.first_segment == block.first_segment()
            && self.segments.len() > length
            && block.segments() == self.segments[..length];
        if same {
            self.index.push(block.number(), block.first_segment(), block.head());
            self.segments.drain(..length);
            self.first_segment += length as u32;
        }
    }

    /// The numbers of the sealed blocks.
    pub fn blocks(&self) -> std::ops::Range<u32> {
        if self.index.is_empty() { 0..0 } else { self.index.numbers() }
    }

    /// The numbers of the segments that are not sealed.
    pub fn segments(&self) -> std::ops::Range<u32> {
        self.first_segment..self.segment_count()
    }

    /// The target deleted what lies below `target_start`: whole segments and blocks of it leave the
    /// map. Steps back are ignored. Durable ones that the map does not hold any more are of no use.
    pub fn prune(&mut self, target_start: TargetOffset) {
        self.target_start = self.target_start.max(target_start);
        while !self.index.is_empty() {
            let second = self.index.head(self.index.numbers().start + 1);
            let next = second.or(self.segments.first().map(Segment::first));
            if !next.is_some_and(|next| self.is_deleted(next)) {
                return;
            }
            self.index.pop_front();
        }
        let gone = self
            .segments
            .iter()
            .skip(1)
            .take_while(|segment| self.is_deleted(segment.first()))
            .count();
        self.segments.drain(..gone);
        self.first_segment += gone as u32;
    }

    /// Whether a run begins with an acknowledged record that the target has deleted: nothing before
    /// it is exact then.
    fn is_deleted(&self, first: RunStart) -> bool {
        first.target < self.target_start && first.count < self.acknowledged
    }

    /// Whether runs were pruned: what lay before the first one is not known any more.
    pub fn is_pruned(&self) -> bool {
        let first =
            if self.index.is_empty() { self.first_segment } else { self.index.first_segment() };
        first > 0
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
        let sealed = self.index.head(self.index.numbers().start);
        sealed.or(self.segments.first().map(Segment::first))
    }

    /// The last run, planned ones included.
    pub fn last(&self) -> Option<RunStart> {
        self.segments.last().map(Segment::last)
    }

    /// The run starts at and above `count`, in order, planned ones included; sealed ones, which are
    /// all acknowledged, are left out.
    pub fn starts_from(&self, count: u64) -> impl Iterator<Item = RunStart> {
        let from = self.segments.partition_point(|segment| segment.last().count < count);
        self.segments[from..].iter().flat_map(Segment::starts).filter(move |run| run.count >= count)
    }

    /// One past the number of the last segment.
    pub(crate) fn segment_count(&self) -> u32 {
        self.first_segment + self.segments.len() as u32
    }

    /// The encoded segments in memory that hold any run with a number from `run` on, with their
    /// numbers. Runs are numbered since the partition's first.
    pub fn segments_since(&self, run: usize) -> Vec<(u32, Bytes)> {
        let wanted = if run < self.runs() { (run / RUNS_PER_SEGMENT) as u32 } else { u32::MAX };
        let numbers = self.segments().skip_while(|&number| number < wanted);
        numbers.filter_map(|number| Some((number, self.encoded_segment(number)?))).collect()
    }

    /// Segment `number` as bytes, when it is in memory.
    pub(crate) fn encoded_segment(&self, number: u32) -> Option<Bytes> {
        let at = number.checked_sub(self.first_segment)?;
        self.segments.get(at as usize).map(Segment::encode)
    }

    /// The map that was saved as `blocks` and `segments`, in any order; of two with one number the
    /// later counts. Of the blocks only the heads are kept. Nothing is acknowledged yet:
    /// [`acknowledge`](Self::acknowledge) with what the position says, or use
    /// [`restore`](Self::restore), which also compares the two.
    ///
    /// # Errors
    ///
    /// When a segment cannot be read, does not follow the one before it, or is missing between two.
    /// Missing ones at the front were pruned; at the end only the position can tell.
    pub fn from_segments(
        start: SourceOffset,
        blocks: impl IntoIterator<Item = SealedBlock>,
        segments: impl IntoIterator<Item = (u32, Bytes)>,
    ) -> Result<Self, StateError> {
        let blocks: BTreeMap<u32, SealedBlock> =
            blocks.into_iter().map(|block| (block.number, block)).collect();
        let mut numbered: BTreeMap<u32, Bytes> = segments.into_iter().collect();
        let mut map = Self::new(start);
        let mut before: Option<&SealedBlock> = None;
        for block in blocks.values() {
            if let Some(before) = before {
                if before.number + 1 != block.number {
                    return Err(StateError::BlockMissing { block: before.number + 1 });
                }
                if !before.last.is_followed_by(block.head) {
                    return Err(StateError::BlockOrder { block: before.number });
                }
            }
            map.index.push(block.number, block.first_segment, block.head);
            before = Some(block);
        }
        map.first_segment = match before {
            Some(last) => (last.number + 1) * SEGMENTS_PER_BLOCK as u32,
            None => numbered.keys().next().copied().unwrap_or(0),
        };
        // The durable form of what is sealed now may outlive it by a moment.
        numbered = numbered.split_off(&map.first_segment);
        for (number, bytes) in numbered {
            map.push_segment(number, &bytes)?;
        }
        if let (Some(last), Some(next)) = (before, map.segments.first())
            && !last.last.is_followed_by(next.first())
        {
            return Err(StateError::BlockOrder { block: last.number });
        }
        Ok(map)
    }

    /// Appends the segment that was saved as `bytes` under `number`.
    fn push_segment(&mut self, number: u32, bytes: &[u8]) -> Result<(), StateError> {
        let expected = self.segment_count();
        if number != expected {
            return Err(StateError::SegmentMissing { segment: expected });
        }
        // A position counts runs in 32 bits.
        let decoded = if number < u32::MAX / RUNS_PER_SEGMENT as u32 {
            Segment::decode(bytes, RUNS_PER_SEGMENT)
        } else {
            Err(Malformed::Number)
        };
        let segment = decoded.map_err(|why| StateError::Segment { segment: number, why })?;
        if let Some(before) = self.segments.last() {
            if !before.is_full() {
                let (segment, runs) = (number - 1, before.runs() as u32);
                return Err(StateError::SegmentShort { segment, runs });
            }
            if !before.last().is_followed_by(segment.first()) {
                return Err(StateError::SegmentOrder { segment: number });
            }
        }
        self.segments.push(segment);
        Ok(())
    }

    /// The map that was saved as `position`, `blocks` and `segments`.
    ///
    /// # Errors
    ///
    /// As [`from_segments`](Self::from_segments); and when they hold fewer runs than the position
    /// vouches for, or put the last record elsewhere.
    pub fn restore(
        position: &Position,
        blocks: impl IntoIterator<Item = SealedBlock>,
        segments: impl IntoIterator<Item = (u32, Bytes)>,
    ) -> Result<Self, StateError> {
        let expected = position.runs as usize;
        // A cut leaves durable segments behind the last one: the position does not vouch for them.
        let vouched = expected.div_ceil(RUNS_PER_SEGMENT);
        let segments = segments.into_iter().filter(|&(number, _)| (number as usize) < vouched);
        let blocks = blocks
            .into_iter()
            .filter(|block| (block.number as usize + 1) * RUNS_PER_BLOCK <= expected);
        let mut map = Self::from_segments(position.start, blocks, segments)?;
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
            + self.index.memory_bytes()
            + self.segments.capacity() * size_of::<Segment>()
            + self.segments.iter().map(Segment::memory_bytes).sum::<usize>()
    }

    /// Whether an acknowledged record is in the map.
    pub(crate) fn has_acknowledged(&self) -> bool {
        self.first().is_some_and(|first| first.count < self.acknowledged)
    }

    /// The last start that `reached` holds for, and the start after it; `block` is looked into
    /// where it is the one. `reached` holds for no start after one that it does not hold for.
    pub(crate) fn around(
        &self,
        block: Option<&Block>,
        reached: impl Fn(&RunStart) -> bool,
    ) -> Around {
        let first_segment = self.segments.first().map(Segment::first);
        if !self.index.is_empty() && !first_segment.is_some_and(|first| reached(&first)) {
            return self.around_sealed(block, first_segment, reached);
        }
        let after = self.segments.partition_point(|segment| reached(&segment.first()));
        let next_segment = || self.segments.get(after).map(Segment::first);
        let Some(segment) = after.checked_sub(1).and_then(|index| self.segments.get(index)) else {
            return Around { at: None, next: next_segment(), sealed: None };
        };
        let (at, next) = segment.around(reached);
        Around { at: Some(at), next: next.or_else(next_segment), sealed: None }
    }

    fn around_sealed(
        &self,
        block: Option<&Block>,
        first_segment: Option<RunStart>,
        reached: impl Fn(&RunStart) -> bool,
    ) -> Around {
        let Some((number, head, next_head)) = self.index.around(&reached) else {
            return Around { at: None, next: self.first(), sealed: None };
        };
        let next = next_head.or(first_segment);
        match block.filter(|block| block.number() == number && block.head() == head) {
            Some(block) => {
                let (at, within) = block.runs.around(reached);
                Around { at: Some(at), next: within.or(next), sealed: None }
            }
            None => Around { at: Some(head), next, sealed: Some(number) },
        }
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

/// Where a question falls between the starts of a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// The last start at or below it.
    pub(crate) at: Option<RunStart>,
    /// The start after that one.
    pub(crate) next: Option<RunStart>,
    /// It falls into this block, whose runs are not at hand: `at` is where the block begins, and
    /// `next` where the one after it does.
    pub(crate) sealed: Option<u32>,
}

/// What a map keeps of a sealed block, and what checks that it fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealedBlock {
    number: u32,
    first_segment: u32,
    head: RunStart,
    last: RunStart,
}

impl From<&Block> for SealedBlock {
    fn from(block: &Block) -> Self {
        Self {
            number: block.number(),
            first_segment: block.first_segment(),
            head: block.head(),
            last: block.runs.last(),
        }
    }
}

/// `runs` without those of an open last segment.
fn whole_segments(runs: usize) -> usize {
    runs / RUNS_PER_SEGMENT * RUNS_PER_SEGMENT
}
