//! What is known of records that somebody else copied, below the first one of ours.
//!
//! When a mirror is taken over from MM2, only pairs of offsets are known of what MM2 copied. What
//! lies between two of them is found out by comparing the contents of both sides, stretch by
//! stretch, where somebody asks. [`Inherited`] is what has been found out so far.
//!
//! Does not: read or compare records.
//!
//! # Invariants
//!
//! 1. Stretches do not overlap, and ascend on both sides.
//! 2. What lies in a stretch is exact; what lies in none is a lower bound, and never a guess.
//! 3. A stretch has at most [`RUNS_PER_SEGMENT`] runs: one record of the durable state holds it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use twinlog_types::{SourceOffset, TargetOffset, Translation};

use crate::coding::{Reader, put_signed, put_unsigned};
use crate::segment::Segment;
use crate::{Malformed, OffsetMap, RUNS_PER_SEGMENT, RunStart, StateError};

/// A range of source offsets whose records were matched one by one with those of the target. It may
/// hold none: then nothing of the range is on the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    map: OffsetMap,
}

impl Stretch {
    /// A range of which nothing is on the target. With `from == to` it speaks for nothing, and only
    /// states that somebody took responsibility for what the target holds below our first record.
    pub fn empty(from: SourceOffset, to: SourceOffset) -> Self {
        let mut map = OffsetMap::new(from);
        map.acknowledge(0, to.max(from));
        Self { map }
    }

    /// The first source offset that it speaks for.
    pub fn from(&self) -> SourceOffset {
        self.map.start()
    }

    /// One past the last source offset that it speaks for.
    pub fn to(&self) -> SourceOffset {
        self.map.copied_to()
    }

    /// How many records were matched.
    pub fn records(&self) -> u64 {
        self.map.acknowledged()
    }

    /// The first record's place on the target.
    pub fn target_from(&self) -> Option<TargetOffset> {
        self.map.first().map(|first| first.target)
    }

    /// One past the last record's place on the target.
    pub fn target_to(&self) -> Option<TargetOffset> {
        self.map.first().map(|_| self.map.target_end())
    }

    /// The run starts, in order, counted from the stretch's own first record.
    pub fn runs(&self) -> impl Iterator<Item = RunStart> {
        self.map.starts_from(0)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_signed(out, self.to().0);
        put_unsigned(out, self.records());
        for (_, segment) in self.map.segments_since(0) {
            out.extend_from_slice(&segment);
        }
    }

    pub(crate) fn read(from: SourceOffset, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let to = SourceOffset(reader.signed()?);
        let records = reader.unsigned()?;
        if from.0 < 0 || to < from {
            return Err(Malformed::Number);
        }
        if records == 0 {
            return Ok(Self::empty(from, to));
        }
        let segment = Bytes::copy_from_slice(reader.take(reader.remaining())?);
        let decoded = Segment::decode(&segment, RUNS_PER_SEGMENT)?;
        let (first, last) = (decoded.first(), decoded.last());
        let inside = records.checked_sub(last.count).filter(|&length| length > 0);
        let end = inside.and_then(|length| last.after(length)).ok_or(Malformed::Number)?;
        if first.count != 0 || first.source < from || end.source > to {
            return Err(Malformed::Number);
        }
        let mut map =
            OffsetMap::from_segments(from, [], [(0, segment)]).map_err(|_| Malformed::Number)?;
        map.acknowledge(records, to);
        Ok(Self { map })
    }
}

/// Makes a [`Stretch`] record by record.
#[derive(Clone, Debug)]
pub struct StretchBuilder {
    from: SourceOffset,
    map: OffsetMap,
    next: Option<RunStart>,
}

impl StretchBuilder {
    /// Begins at the source offset `from`.
    pub fn new(from: SourceOffset) -> Self {
        Self { from, map: OffsetMap::new(from), next: None }
    }

    /// Adds the record at `source`, which lies at `target`. False, and nothing is added, when the
    /// stretch has as many runs as it may have.
    ///
    /// # Panics
    ///
    /// When the record does not lie behind the one before it on both sides.
    pub fn push(&mut self, source: SourceOffset, target: TargetOffset) -> bool {
        self.push_run(source, target, 1)
    }

    /// Adds so many records, one behind the other on both sides; as [`push`](Self::push).
    ///
    /// # Panics
    ///
    /// When they do not lie behind the record before them on both sides.
    pub fn push_run(&mut self, source: SourceOffset, target: TargetOffset, records: u64) -> bool {
        let expected = self.next;
        let count = expected.map_or(0, |next| next.count);
        let record = RunStart { count, source, target };
        if expected != Some(record) {
            if self.map.runs() >= RUNS_PER_SEGMENT {
                return false;
            }
            self.map.plan(record);
        }
        self.next = record.after(records);
        true
    }

    /// How many records it has.
    pub fn records(&self) -> u64 {
        self.next.map_or(0, |next| next.count)
    }

    /// One past the last record's source offset; where it begins, as long as it has none.
    pub fn end(&self) -> SourceOffset {
        self.next.map_or(self.from, |next| next.source)
    }

    /// The stretch, which speaks for what lies below `to`, at least for its records.
    pub fn finish(mut self, to: SourceOffset) -> Stretch {
        let to = to.max(self.end());
        self.map.acknowledge(self.records(), to);
        Stretch { map: self.map }
    }
}

/// A range of source offsets of which it is not known where they are on the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownRange {
    /// The first source offset.
    pub from: SourceOffset,
    /// One past the last source offset.
    pub to: SourceOffset,
    /// Where the first record of it would lie on the target at the earliest; `None` when nothing
    /// before it is known.
    pub target_from: Option<TargetOffset>,
    /// Where the first record behind it lies on the target.
    pub target_to: TargetOffset,
}

/// What is known of the records below a map's first.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Inherited {
    stretches: BTreeMap<SourceOffset, Stretch>,
}

impl Inherited {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a stretch in. One that is there already stays.
    ///
    /// # Errors
    ///
    /// When it overlaps with others, on either side.
    pub fn insert(&mut self, stretch: Stretch) -> Result<(), StateError> {
        let from = stretch.from();
        if self.stretches.get(&from) == Some(&stretch) {
            return Ok(());
        }
        let out_of_order = Err(StateError::StretchOrder { from: from.0 });
        let (before, after) = self.around(from);
        if before.is_some_and(|before| before.to() > from)
            || after.is_some_and(|after| after.from() < stretch.to())
        {
            return out_of_order;
        }
        if let (Some(below), Some(first)) = (self.last_target_below(from), stretch.target_from())
            && below > first
        {
            return out_of_order;
        }
        let behind = SourceOffset(from.0.saturating_add(1));
        if let (Some(above), Some(end)) = (self.first_target_from(behind), stretch.target_to())
            && above < end
        {
            return out_of_order;
        }
        match self.stretches.entry(from) {
            Entry::Vacant(vacant) => {
                vacant.insert(stretch);
                Ok(())
            }
            // One that speaks for nothing makes room for one that does.
            Entry::Occupied(mut there) if there.get().to() == from => {
                there.insert(stretch);
                Ok(())
            }
            Entry::Occupied(_) => out_of_order,
        }
    }

    /// The stretches in order.
    pub fn stretches(&self) -> impl Iterator<Item = &Stretch> {
        self.stretches.values()
    }

    /// The last stretch that begins below `at`, and the first that begins above.
    fn around(&self, at: SourceOffset) -> (Option<&Stretch>, Option<&Stretch>) {
        let before = self.stretches.range(..at).next_back().map(|(_, stretch)| stretch);
        let above = self.stretches.range(SourceOffset(at.0.saturating_add(1))..);
        (before, above.map(|(_, stretch)| stretch).next())
    }

    /// One past the place on the target of the last known record below `at`.
    fn last_target_below(&self, at: SourceOffset) -> Option<TargetOffset> {
        self.stretches.range(..at).rev().find_map(|(_, stretch)| stretch.target_to())
    }

    /// The place on the target of the first known record of a stretch that begins at `at` or above.
    fn first_target_from(&self, at: SourceOffset) -> Option<TargetOffset> {
        self.stretches.range(at..).find_map(|(_, stretch)| stretch.target_from())
    }

    /// Follows what is known from `position` on: the next record, or where knowledge ends.
    fn next(&self, position: SourceOffset, end: SourceOffset) -> Next {
        let mut at = position;
        while at < end {
            let holding = self.stretches.range(..=at).next_back().map(|(_, stretch)| stretch);
            let Some(stretch) = holding.filter(|stretch| at < stretch.to()) else {
                return Next::Unknown(at);
            };
            if let Some(record) = stretch.map.next_by_source(at) {
                return Next::Record(record.target);
            }
            at = stretch.to();
        }
        Next::Ours
    }

    /// Where `position`, which lies below `ours`'s start, is on the target.
    pub(crate) fn translate(
        &self,
        position: SourceOffset,
        ours: &OffsetMap,
    ) -> Translation<TargetOffset> {
        match self.next(position, ours.start) {
            Next::Ours => ours.translate(ours.start),
            Next::Record(target) if target < ours.target_start => Translation::BeforeStart {
                offset: ours.target_start,
                missing: ours.target_start.since(target),
            },
            Next::Record(target) => Translation::Exact(target),
            Next::Unknown(at) => self.bound(at, ours),
        }
    }

    /// The answer where nothing is known at `at`.
    fn bound(&self, at: SourceOffset, ours: &OffsetMap) -> Translation<TargetOffset> {
        let below = self.last_target_below(at);
        let first = self.first_target_from(at).or(ours.origin).unwrap_or_default();
        if below.is_none() && first <= ours.target_start {
            // Nothing lies on the target before the first record that is known.
            let from = self.around(at).1.map_or(ours.start, Stretch::from);
            return Translation::BeforeStart { offset: ours.target_start, missing: from.since(at) };
        }
        Translation::LowerBound(below.unwrap_or_default().max(ours.target_start))
    }

    /// Where `position` of the target, which lies below `ours`'s origin, is on the source.
    pub(crate) fn reverse(
        &self,
        position: TargetOffset,
        ours: &OffsetMap,
    ) -> Translation<SourceOffset> {
        let mut before: Option<&Stretch> = None;
        for stretch in self.stretches.values() {
            let record = stretch.map.next_by_target(position);
            if let Some(record) = record {
                let inside = stretch.target_from().is_some_and(|from| from <= position);
                let adjacent = before.is_some_and(|before| before.to() == stretch.from());
                if inside || adjacent {
                    return Translation::Exact(record.source);
                }
                break;
            }
            before = Some(stretch);
        }
        let known_to = before.map_or(SourceOffset(0), Stretch::to);
        if before.is_some() && known_to == ours.start {
            return ours.reverse(ours.origin.unwrap_or_default());
        }
        Translation::LowerBound(known_to)
    }

    /// The range around `position` of which nothing is known, if that stands in the way of an exact
    /// answer.
    pub(crate) fn unknown_at(
        &self,
        position: SourceOffset,
        ours: &OffsetMap,
    ) -> Option<UnknownRange> {
        let Next::Unknown(at) = self.next(position, ours.start) else { return None };
        let (before, after) = self.around(at);
        let here = self.stretches.get(&at);
        Some(UnknownRange {
            from: here.or(before).map_or(SourceOffset(0), Stretch::to),
            to: after.map_or(ours.start, Stretch::from),
            target_from: self.last_target_below(SourceOffset(at.0.saturating_add(1))),
            target_to: self.first_target_from(at).or(ours.origin)?,
        })
    }
}

enum Next {
    /// The next record lies here on the target.
    Record(TargetOffset),
    /// It is the first of our own.
    Ours,
    /// From here on nothing is known.
    Unknown(SourceOffset),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stretch of one run.
    fn run(source: i64, target: i64, records: i64) -> Stretch {
        let mut builder = StretchBuilder::new(SourceOffset(source));
        for at in 0..records {
            assert!(builder.push(SourceOffset(source + at), TargetOffset(target + at)));
        }
        builder.finish(SourceOffset(source + records))
    }

    /// Ours begins at source 100, target 90, behind what somebody else copied.
    fn taken(stretches: impl IntoIterator<Item = Stretch>) -> OffsetMap {
        let mut map = OffsetMap::new(SourceOffset(100));
        map.set_origin(TargetOffset(90));
        let mut inherited = Inherited::new();
        for stretch in stretches {
            inherited.insert(stretch).expect("it fits");
        }
        map.set_before(inherited);
        map
    }

    fn translate(map: &OffsetMap, position: i64) -> Translation<TargetOffset> {
        map.translate(SourceOffset(position))
    }

    #[test]
    fn what_was_matched_is_exact_and_the_rest_is_a_lower_bound() {
        use Translation::{End, Exact, LowerBound};
        let map = taken([run(0, 0, 1), run(50, 40, 10), run(99, 89, 1)]);
        assert_eq!(translate(&map, 0), Exact(TargetOffset(0)));
        assert_eq!(translate(&map, 1), LowerBound(TargetOffset(1)));
        assert_eq!(translate(&map, 49), LowerBound(TargetOffset(1)));
        assert_eq!(translate(&map, 55), Exact(TargetOffset(45)));
        assert_eq!(translate(&map, 60), LowerBound(TargetOffset(50)));
        assert_eq!(translate(&map, 99), Exact(TargetOffset(89)));
        assert_eq!(translate(&map, 100), End(TargetOffset(90)));
        assert_eq!(map.reverse(TargetOffset(45)), Exact(SourceOffset(55)));
        assert_eq!(map.reverse(TargetOffset(60)), LowerBound(SourceOffset(60)));
    }

    #[test]
    fn stretches_that_meet_leave_no_doubt_between_them() {
        use Translation::Exact;
        // Source 50 to 54 is a hole: nothing of it is on the target.
        let mut map = taken([run(0, 0, 50), Stretch::empty(SourceOffset(50), SourceOffset(55))]);
        assert!(map.unknown_at(SourceOffset(52)).is_some());
        map.inherit(run(55, 50, 45)).expect("it fits");
        // Record 95 of the target is the last that somebody else wrote; ours begin at 90 here.
        assert_eq!(translate(&map, 50), Exact(TargetOffset(50)));
        assert_eq!(translate(&map, 54), Exact(TargetOffset(50)));
        assert_eq!(map.reverse(TargetOffset(50)), Exact(SourceOffset(55)));
        assert_eq!(map.unknown_at(SourceOffset(52)), None);
    }

    #[test]
    fn the_range_without_knowledge_is_named_with_its_places_on_the_target() {
        let map = taken([run(0, 0, 1), run(50, 40, 10)]);
        assert_eq!(
            map.unknown_at(SourceOffset(20)),
            Some(UnknownRange {
                from: SourceOffset(1),
                to: SourceOffset(50),
                target_from: Some(TargetOffset(1)),
                target_to: TargetOffset(40),
            })
        );
        assert_eq!(
            map.unknown_at(SourceOffset(60)),
            Some(UnknownRange {
                from: SourceOffset(60),
                to: SourceOffset(100),
                target_from: Some(TargetOffset(50)),
                target_to: TargetOffset(90),
            })
        );
        let nothing = taken([]);
        let whole = nothing.unknown_at(SourceOffset(7)).expect("nothing is known");
        assert_eq!((whole.from, whole.target_from), (SourceOffset(0), None));
        assert_eq!(nothing.unknown_at(SourceOffset(100)), None);
    }

    #[test]
    fn what_retention_took_on_the_target_is_before_the_start() {
        let mut map = taken([run(20, 10, 80)]);
        map.prune(TargetOffset(30));
        let gone = Translation::BeforeStart { offset: TargetOffset(30), missing: 15 };
        assert_eq!(translate(&map, 25), gone);
        assert_eq!(translate(&map, 40), Translation::Exact(TargetOffset(30)));
        // And so is what was never copied, once the first record of the target is known.
        let earlier = Translation::BeforeStart { offset: TargetOffset(30), missing: 13 };
        assert_eq!(translate(&map, 7), earlier);
    }

    #[test]
    fn stretches_that_contradict_each_other_are_refused() {
        let mut inherited = Inherited::new();
        inherited.insert(run(10, 10, 10)).expect("it is the first");
        inherited.insert(run(10, 10, 10)).expect("it is the same");
        for wrong in [run(15, 30, 2), run(5, 5, 10), run(30, 5, 2), run(2, 9, 2)] {
            assert!(inherited.insert(wrong).is_err());
        }
    }

    #[test]
    fn a_stretch_is_read_as_it_was_written() {
        let mut builder = StretchBuilder::new(SourceOffset(3));
        for (source, target) in [(5, 1), (6, 2), (9, 3), (10, 7)] {
            assert!(builder.push(SourceOffset(source), TargetOffset(target)));
        }
        assert!(!builder.push(SourceOffset(20), TargetOffset(20)), "tests have small segments");
        for stretch in
            [builder.finish(SourceOffset(12)), Stretch::empty(SourceOffset(3), SourceOffset(9))]
        {
            let mut bytes = Vec::new();
            stretch.put(&mut bytes);
            let read = Stretch::read(stretch.from(), &mut Reader::new(&bytes));
            assert_eq!(read, Ok(stretch.clone()));
            for length in 0..bytes.len() {
                let cut = Stretch::read(stretch.from(), &mut Reader::new(&bytes[..length]));
                assert_ne!(cut.as_ref(), Ok(&stretch));
            }
        }
    }
}
