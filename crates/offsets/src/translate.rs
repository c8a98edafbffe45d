//! What the map answers: from source to target, back, and in numbers of records.

use twinlog_types::{Planted, SourceOffset, TargetOffset, Translation, planted};

use crate::{OffsetMap, RunStart};

impl OffsetMap {
    /// Where on the target a consumer goes on that would go on at `position` on the source.
    ///
    /// In a hole that is the next record copied. Once nothing acknowledged lies at or above
    /// `position` it is the end of the copy, or a lower bound when `position` is ahead of what the
    /// copy has looked at. Records below the target's log start are *before start*, with an upper
    /// bound of how many the consumer misses. Of what somebody else copied only what was compared is
    /// exact, the rest a lower bound. *Unknown* is answered only as long as neither a
    /// record nor an origin is known.
    pub fn translate(&self, position: SourceOffset) -> Translation<TargetOffset> {
        if let Some(before) = self.before().filter(|_| position < self.start) {
            return before.translate(position, self);
        }
        let missing = self.missing_below_map(position);
        if let Some(next) = self.next_by_source(position) {
            let deleted = self.records_between(next.count, self.target_start);
            return if missing > 0 || next.target < self.target_start {
                let offset = next.target.max(self.target_start);
                Translation::BeforeStart { offset, missing: missing.saturating_add(deleted) }
            } else {
                Translation::Exact(self.defective(next).unwrap_or(next.target))
            };
        }
        if !self.knows_end() {
            return Translation::Unknown;
        }
        // Records to come land behind the log start too, when foreign ones were deleted.
        let end = self.target_end().max(self.target_start);
        if missing > 0 {
            Translation::BeforeStart { offset: end, missing }
        } else if position <= self.copied_to {
            Translation::End(end)
        } else {
            Translation::LowerBound(end)
        }
    }

    /// Where on the source a consumer goes on that would go on at `position` on the target.
    ///
    /// The inverse of [`translate`](Self::translate): in a target gap (foreign records, markers)
    /// the next record copied; at the end the next source offset to copy; past the end, where only
    /// foreign or unacknowledged records are, the same as a lower bound.
    pub fn reverse(&self, position: TargetOffset) -> Translation<SourceOffset> {
        let begins = self.origin.unwrap_or_default();
        if let Some(before) = self.before().filter(|_| position < begins) {
            return before.reverse(position, self);
        }
        let next = self.next_by_target(position);
        let offset = next.map_or(self.copied_to, |next| next.source);
        if next.is_none() && !self.knows_end() {
            return Translation::Unknown;
        }
        let missing = self.map_target_start().since(position);
        if missing > 0 {
            Translation::BeforeStart { offset, missing }
        } else if next.is_some() {
            Translation::Exact(offset)
        } else if position <= self.target_end().max(self.target_start) {
            Translation::End(offset)
        } else {
            Translation::LowerBound(offset)
        }
    }

    /// The source offset of the record that `count` records come before. Planned runs count, and
    /// the last run goes on for ever: that such a record exists is the caller's knowledge. `None`
    /// below the first run that is kept.
    pub fn source_of(&self, count: u64) -> Option<SourceOffset> {
        let at = self.around(|run| run.count <= count).0?;
        Some(at.source.plus(count - at.count))
    }

    /// The target offset of the record that `count` records come before; as
    /// [`source_of`](Self::source_of).
    pub fn target_of(&self, count: u64) -> Option<TargetOffset> {
        let at = self.around(|run| run.count <= count).0?;
        Some(at.target.plus(count - at.count))
    }

    /// How many acknowledged records lie below `position` on the source, since the partition's
    /// first. `None` where the runs were pruned.
    pub fn count_of_source(&self, position: SourceOffset) -> Option<u64> {
        if position <= self.start {
            return Some(0);
        }
        if self.missing_below_map(position) > 0 {
            return None;
        }
        let next = self.next_by_source(position);
        Some(next.map_or(self.acknowledged, |next| next.count))
    }

    /// How many acknowledged records lie, or lay, below `position` on the target, since the
    /// partition's first. `None` where the runs were pruned.
    pub fn count_of_target(&self, position: TargetOffset) -> Option<u64> {
        let next = self.next_by_target(position);
        if self.first_segment > 0 && position < self.map_target_start() {
            return None;
        }
        Some(next.map_or(self.acknowledged, |next| next.count))
    }

    /// The first acknowledged record at or above `position` on the source.
    pub(crate) fn next_by_source(&self, position: SourceOffset) -> Option<RunStart> {
        let (at, next) = self.around(|run| run.source <= position);
        self.next_acknowledged(at, next, |at| position.since(at.source))
    }

    /// The first acknowledged record at or above `position` on the target.
    pub(crate) fn next_by_target(&self, position: TargetOffset) -> Option<RunStart> {
        let (at, next) = self.around(|run| run.target <= position);
        self.next_acknowledged(at, next, |at| position.since(at.target))
    }

    /// The record `distance` into the run `at` when it is acknowledged, else the first of `next`
    /// when that is.
    fn next_acknowledged(
        &self,
        at: Option<RunStart>,
        next: Option<RunStart>,
        distance: impl Fn(RunStart) -> u64,
    ) -> Option<RunStart> {
        let end = next.map_or(self.acknowledged, |next| next.count.min(self.acknowledged));
        at.and_then(|at| at.after(distance(at)))
            .filter(|record| record.count < end)
            .or_else(|| next.filter(|next| next.count < self.acknowledged))
    }

    /// How many records from number `count` on lay below `end`, as far as they are acknowledged.
    fn records_between(&self, count: u64, end: TargetOffset) -> u64 {
        let below = self.next_by_target(end).map_or(self.acknowledged, |next| next.count);
        below.saturating_sub(count)
    }

    /// An upper bound of the records from `position` up to the first one the map can speak of: what
    /// the copy never looked at, and what was pruned.
    fn missing_below_map(&self, position: SourceOffset) -> u64 {
        let never_copied = self.start.since(position);
        let pruned = match self.first() {
            Some(first) if self.first_segment > 0 => {
                first.source.since(position.max(self.start)).min(first.count)
            }
            _ => 0,
        };
        never_copied.saturating_add(pruned)
    }

    /// The first target offset the map can speak of.
    fn map_target_start(&self) -> TargetOffset {
        match (self.first().filter(|_| self.has_acknowledged()), self.origin) {
            (Some(first), Some(origin)) if self.first_segment == 0 => first.target.min(origin),
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
