//! What the map answers: from source to target, back, and in numbers of records.

use twinlog_types::{Planted, SourceOffset, TargetOffset, Translation, planted};

use crate::map::Around;
use crate::{Block, OffsetMap, RunStart};

/// A map together with the sealed block that a question falls into, where it was fetched.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    map: &'a OffsetMap,
    block: Option<&'a Block>,
}

impl OffsetMap {
    /// Asks with `block` at hand.
    pub fn with<'a>(&'a self, block: &'a Block) -> View<'a> {
        View { map: self, block: Some(block) }
    }

    fn bare(&self) -> View<'_> {
        View { map: self, block: None }
    }

    /// The sealed block that an exact answer for `position` on the source needs; before the start,
    /// the one that an exact number of missing records needs.
    pub fn block_of_source(&self, position: SourceOffset) -> Option<u32> {
        let Around { at, sealed, .. } = self.around(None, |run| run.source <= position);
        let first = self.first();
        match at {
            Some(head) if sealed.is_some() && head.source < position => sealed,
            _ if (at.is_none() || at == first)
                && first.is_some_and(|first| position <= first.source)
                && first.is_some_and(|first| first.target < self.target_start) =>
            {
                self.block_of_target(self.target_start)
            }
            _ => None,
        }
    }

    /// The sealed block that an exact answer for `position` on the target needs.
    pub fn block_of_target(&self, position: TargetOffset) -> Option<u32> {
        let Around { at, sealed, .. } = self.around(None, |run| run.target <= position);
        sealed.filter(|_| at.is_some_and(|head| head.target < position))
    }

    /// The first acknowledged record at or above `position` on the source, where no block is needed.
    pub(crate) fn next_by_source(&self, position: SourceOffset) -> Option<RunStart> {
        self.bare().next_by_source(position).record()
    }

    /// The first acknowledged record at or above `position` on the target, where no block is needed.
    pub(crate) fn next_by_target(&self, position: TargetOffset) -> Option<RunStart> {
        self.bare().next_by_target(position).record()
    }

    /// [`View::translate`] without a block at hand.
    pub fn translate(&self, position: SourceOffset) -> Translation<TargetOffset> {
        self.bare().translate(position)
    }

    /// [`View::reverse`] without a block at hand.
    pub fn reverse(&self, position: TargetOffset) -> Translation<SourceOffset> {
        self.bare().reverse(position)
    }

    /// [`View::source_of`] without a block at hand.
    pub fn source_of(&self, count: u64) -> Option<SourceOffset> {
        self.bare().source_of(count)
    }

    /// [`View::target_of`] without a block at hand.
    pub fn target_of(&self, count: u64) -> Option<TargetOffset> {
        self.bare().target_of(count)
    }

    /// [`View::count_of_source`] without a block at hand.
    pub fn count_of_source(&self, position: SourceOffset) -> Option<u64> {
        self.bare().count_of_source(position)
    }

    /// [`View::count_of_target`] without a block at hand.
    pub fn count_of_target(&self, position: TargetOffset) -> Option<u64> {
        self.bare().count_of_target(position)
    }
}

impl View<'_> {
    /// Where on the target a consumer goes on that would go on at `position` on the source.
    ///
    /// In a hole that is the next record copied. Once nothing acknowledged lies at or above
    /// `position` it is the end of the copy, or a lower bound when `position` is ahead of what the
    /// copy has looked at. Records below the target's log start are *before start*, with an upper
    /// bound of how many the consumer misses. Of what somebody else copied only what was compared is
    /// exact, the rest a lower bound. *Unknown* is answered only as long as neither a record nor an
    /// origin is known. Inside a sealed block that is not at hand the answer is where the block
    /// begins, as a lower bound: see [`OffsetMap::block_of_source`].
    pub fn translate(&self, position: SourceOffset) -> Translation<TargetOffset> {
        let map = self.map;
        if let Some(before) = map.before().filter(|_| position < map.start) {
            return before.translate(position, map);
        }
        let missing = map.missing_below_map(position);
        let next = match self.next_by_source(position) {
            Next::Record(next) => next,
            Next::Sealed { head, .. } => {
                return Translation::LowerBound(head.target.max(map.target_start));
            }
        };
        if let Some(next) = next {
            let deleted = self.records_between(next.count, map.target_start);
            return if missing > 0 || next.target < map.target_start {
                let offset = next.target.max(map.target_start);
                Translation::BeforeStart { offset, missing: missing.saturating_add(deleted) }
            } else {
                Translation::Exact(map.defective(next).unwrap_or(next.target))
            };
        }
        if !map.knows_end() {
            return Translation::Unknown;
        }
        // Records to come land behind the log start too, when foreign ones were deleted.
        let end = map.target_end().max(map.target_start);
        if missing > 0 {
            Translation::BeforeStart { offset: end, missing }
        } else if position <= map.copied_to {
            Translation::End(end)
        } else {
            Translation::LowerBound(end)
        }
    }

    /// Where on the source a consumer goes on that would go on at `position` on the target.
    ///
    /// The inverse of [`translate`](Self::translate): in a target gap (foreign records, markers)
    /// the next record copied; at the end the next source offset to copy; past the end, where only
    /// foreign or unacknowledged records are, the same as a lower bound. Inside a sealed block that
    /// is not at hand as [`translate`](Self::translate).
    pub fn reverse(&self, position: TargetOffset) -> Translation<SourceOffset> {
        let map = self.map;
        let begins = map.origin.unwrap_or_default();
        if let Some(before) = map.before().filter(|_| position < begins) {
            return before.reverse(position, map);
        }
        let next = match self.next_by_target(position) {
            Next::Record(next) => next,
            Next::Sealed { head, .. } => return Translation::LowerBound(head.source),
        };
        let offset = next.map_or(map.copied_to, |next| next.source);
        if next.is_none() && !map.knows_end() {
            return Translation::Unknown;
        }
        let missing = map.map_target_start().since(position);
        if missing > 0 {
            Translation::BeforeStart { offset, missing }
        } else if next.is_some() {
            Translation::Exact(offset)
        } else if position <= map.target_end().max(map.target_start) {
            Translation::End(offset)
        } else {
            Translation::LowerBound(offset)
        }
    }

    /// The source offset of the record that `count` records come before. Planned runs count, and
    /// the last run goes on for ever: that such a record exists is the caller's knowledge. `None`
    /// below the first run that is kept, and inside a sealed block that is not at hand.
    pub fn source_of(&self, count: u64) -> Option<SourceOffset> {
        let at = self.run_of(count)?;
        Some(at.source.plus(count - at.count))
    }

    /// The target offset of the record that `count` records come before; as
    /// [`source_of`](Self::source_of).
    pub fn target_of(&self, count: u64) -> Option<TargetOffset> {
        let at = self.run_of(count)?;
        Some(at.target.plus(count - at.count))
    }

    fn run_of(&self, count: u64) -> Option<RunStart> {
        let around = self.map.around(self.block, |run| run.count <= count);
        around.at.filter(|at| around.sealed.is_none() || at.count == count)
    }

    /// How many acknowledged records lie below `position` on the source, since the partition's
    /// first. `None` where the runs were pruned, and inside a sealed block that is not at hand.
    pub fn count_of_source(&self, position: SourceOffset) -> Option<u64> {
        if position <= self.map.start {
            return Some(0);
        }
        if self.map.missing_below_map(position) > 0 {
            return None;
        }
        self.count_below(self.next_by_source(position))
    }

    /// How many acknowledged records lie, or lay, below `position` on the target, since the
    /// partition's first. `None` as for [`count_of_source`](Self::count_of_source).
    pub fn count_of_target(&self, position: TargetOffset) -> Option<u64> {
        if self.map.is_pruned() && position < self.map.map_target_start() {
            return None;
        }
        self.count_below(self.next_by_target(position))
    }

    fn count_below(&self, next: Next) -> Option<u64> {
        match next {
            Next::Record(next) => Some(next.map_or(self.map.acknowledged, |next| next.count)),
            Next::Sealed { .. } => None,
        }
    }

    /// The first acknowledged record at or above `position` on the source.
    fn next_by_source(&self, position: SourceOffset) -> Next {
        let around = self.map.around(self.block, |run| run.source <= position);
        self.next_acknowledged(around, |at| position.since(at.source))
    }

    /// The first acknowledged record at or above `position` on the target.
    fn next_by_target(&self, position: TargetOffset) -> Next {
        let around = self.map.around(self.block, |run| run.target <= position);
        self.next_acknowledged(around, |at| position.since(at.target))
    }

    /// The record `distance` into the run below when it is acknowledged, else the first of the next
    /// run when that is.
    fn next_acknowledged(&self, around: Around, distance: impl Fn(RunStart) -> u64) -> Next {
        let acknowledged = self.map.acknowledged;
        let Around { at, next, sealed } = around;
        if let (Some(head), Some(_)) = (at, sealed)
            && distance(head) > 0
        {
            let next = next.map_or(acknowledged, |next| next.count);
            return Next::Sealed { head, next };
        }
        let end = next.map_or(acknowledged, |next| next.count.min(acknowledged));
        let record = at
            .and_then(|at| at.after(distance(at)))
            .filter(|record| record.count < end)
            .or_else(|| next.filter(|next| next.count < acknowledged));
        Next::Record(record)
    }

    /// How many records from number `count` on lay below `end`, as far as they are acknowledged; at
    /// most as many.
    fn records_between(&self, count: u64, end: TargetOffset) -> u64 {
        let below = match self.next_by_target(end) {
            Next::Record(next) => next.map_or(self.map.acknowledged, |next| next.count),
            Next::Sealed { next, .. } => next,
        };
        below.saturating_sub(count)
    }
}

/// The first acknowledged record at or above a position.
#[derive(Clone, Copy)]
enum Next {
    /// Where it lies; nothing when there is none.
    Record(Option<RunStart>),
    /// Behind `head`, in a block that is not at hand; the block's records end before number `next`.
    Sealed { head: RunStart, next: u64 },
}

impl Next {
    fn record(self) -> Option<RunStart> {
        match self {
            Self::Record(record) => record,
            Self::Sealed { .. } => None,
        }
    }
}

impl OffsetMap {
    /// An upper bound of the records from `position` up to the first one the map can speak of: what
    /// the copy never looked at, and what was pruned.
    fn missing_below_map(&self, position: SourceOffset) -> u64 {
        let never_copied = self.start.since(position);
        let pruned = match self.first() {
            Some(first) if self.is_pruned() => {
                first.source.since(position.max(self.start)).min(first.count)
            }
            _ => 0,
        };
        never_copied.saturating_add(pruned)
    }

    /// The first target offset the map can speak of.
    fn map_target_start(&self) -> TargetOffset {
        match (self.first().filter(|_| self.has_acknowledged()), self.origin) {
            (Some(first), Some(origin)) if !self.is_pruned() => first.target.min(origin),
            (Some(first), _) => first.target,
            (None, origin) => origin.unwrap_or_default(),
        }
    }

    /// What the map answers for `next` while a defect is planted.
    fn defective(&self, next: RunStart) -> Option<TargetOffset> {
        if planted(Planted::OffByOneAtRun) {
            let begins = self.starts_from(next.count).next() == Some(next);
            return begins.then_some(next.target.plus(1));
        }
        let newest = self.last().is_some_and(|last| last.count <= next.count);
        let first = self.first().filter(|_| planted(Planted::MergesRuns) && !newest);
        first.map(|first| first.target)
    }

    /// Whether it is known where the next record lands at the earliest.
    fn knows_end(&self) -> bool {
        self.has_acknowledged() || self.origin.is_some()
    }
}
