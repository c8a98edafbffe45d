//! A stretch of consecutive run starts, delta-coded: what the map keeps in memory and what a
//! segment record of the durable state holds.
//!
//! # Form
//!
//! version, number of runs, first count, first source offset, first target offset; then for each
//! later run: `length of the run before * 2 + (1 when there is a target gap)`, length of the source
//! hole, and the length of the target gap where the flag says there is one. All are varints. A
//! partition with a transaction marker every 50 records costs two bytes a run.
//!
//! # Invariants
//!
//! 1. Starts ascend strictly in count, and in source and target at least by the records between.
//! 2. Counts and offsets lie in 0..2^63.

use bytes::Bytes;
use twinlog_types::{SourceOffset, TargetOffset};

use crate::Malformed;
use crate::coding::{self, Reader, put_unsigned};

/// How many runs a full segment holds. The open last segment is written anew with every change, so
/// this also bounds what one small change costs: at 4 bytes a run, 2 KiB. This crate's own tests
/// use tiny segments, so that short histories cross their borders.
pub const RUNS_PER_SEGMENT: usize = if cfg!(test) { 3 } else { 512 };

/// Where a run starts: the number of records copied before it, and the offsets of its first record
/// on both sides. The run lasts until the next one's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// Records copied before this run, since the partition's first.
    pub count: u64,
    /// The source offset of the run's first record.
    pub source: SourceOffset,
    /// The target offset of the run's first record.
    pub target: TargetOffset,
}

impl RunStart {
    /// Where the record `records` further on lies if this run lasts that long. `None` past the
    /// ends of the ranges.
    pub(crate) fn after(self, records: u64) -> Option<Self> {
        let count =
            self.count.checked_add(records).filter(|&count| i64::try_from(count).is_ok())?;
        let source = SourceOffset(self.source.0.checked_add_unsigned(records)?);
        let target = TargetOffset(self.target.0.checked_add_unsigned(records)?);
        Some(Self { count, source, target })
    }

    /// The source hole and the target gap between the end of this run and `next`; `None` when
    /// `next` cannot follow.
    fn distance_to(self, next: Self) -> Option<(u64, u64)> {
        let records = next.count.checked_sub(self.count).filter(|&records| records > 0)?;
        let end = self.after(records)?;
        let hole = next.source.0.checked_sub(end.source.0)?;
        let gap = next.target.0.checked_sub(end.target.0)?;
        Some((u64::try_from(hole).ok()?, u64::try_from(gap).ok()?))
    }

    /// Whether `next` may be the start after this one.
    pub(crate) fn is_followed_by(self, next: Self) -> bool {
        self.distance_to(next).is_some()
    }

    /// Whether count and offsets lie in their ranges.
    pub(crate) fn is_in_range(self) -> bool {
        self.source.0 >= 0 && self.target.0 >= 0 && i64::try_from(self.count).is_ok()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    first: RunStart,
    last: RunStart,
    runs: usize,
    deltas: Vec<u8>,
}

impl Segment {
    pub(crate) fn new(first: RunStart) -> Self {
        Self { first, last: first, runs: 1, deltas: Vec::new() }
    }

    pub(crate) fn first(&self) -> RunStart {
        self.first
    }

    pub(crate) fn last(&self) -> RunStart {
        self.last
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs
    }

    pub(crate) fn is_full(&self) -> bool {
        self.runs >= RUNS_PER_SEGMENT
    }

    /// Appends the starts of `other`, which follows this one.
    pub(crate) fn append(&mut self, other: &Self) {
        other.starts().for_each(|run| self.push(run));
    }

    /// Appends a start. The caller has checked that it follows the last one and that there is room.
    pub(crate) fn push(&mut self, run: RunStart) {
        let (hole, gap) =
            self.last.distance_to(run).expect("the map appends only starts that follow the last");
        put_unsigned(&mut self.deltas, ((run.count - self.last.count) << 1) | u64::from(gap > 0));
        put_unsigned(&mut self.deltas, hole);
        if gap > 0 {
            put_unsigned(&mut self.deltas, gap);
        }
        self.last = run;
        self.runs += 1;
        if self.is_full() {
            self.deltas.shrink_to_fit();
        }
    }

    /// The starts in order.
    pub(crate) fn starts(&self) -> Starts<'_> {
        Starts { next: Some(self.first), deltas: Reader::new(&self.deltas) }
    }

    /// The starts below `count`, as a segment; `None` when there are none.
    pub(crate) fn below(&self, count: u64) -> Option<Self> {
        let mut starts = self.starts().take_while(|run| run.count < count);
        let mut kept = Self::new(starts.next()?);
        starts.for_each(|run| kept.push(run));
        Some(kept)
    }

    /// The last start that `reached` holds for, and the one after it within this segment.
    /// `reached` holds for the first start, and for none after one that it does not hold for.
    pub(crate) fn around(
        &self,
        reached: impl Fn(&RunStart) -> bool,
    ) -> (RunStart, Option<RunStart>) {
        if reached(&self.last) {
            return (self.last, None);
        }
        let mut at = self.first;
        for run in self.starts() {
            if !reached(&run) {
                return (at, Some(run));
            }
            at = run;
        }
        (at, None)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.deltas.capacity()
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.deltas.len() + 32);
        out.push(coding::VERSION);
        put_unsigned(&mut out, self.runs as u64);
        put_unsigned(&mut out, self.first.count);
        put_unsigned(&mut out, self.first.source.0 as u64);
        put_unsigned(&mut out, self.first.target.0 as u64);
        out.extend_from_slice(&self.deltas);
        out.into()
    }

    /// Reads a segment of at most `limit` runs.
    pub(crate) fn decode(bytes: &[u8], limit: usize) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        reader.version()?;
        let announced = reader.unsigned()?;
        let runs = usize::try_from(announced)
            .ok()
            .filter(|runs| (1..=limit).contains(runs))
            .ok_or(Malformed::Runs(announced))?;
        let count = reader.unsigned()?;
        let source = SourceOffset(reader.narrow()?);
        let target = TargetOffset(reader.narrow()?);
        let first = RunStart { count, source, target };
        if !first.is_in_range() {
            return Err(Malformed::Number);
        }
        let deltas = reader.take(reader.remaining())?;

        let mut reader = Reader::new(deltas);
        let mut last = first;
        for _ in 1..runs {
            last = read_next(&mut reader, last)?;
        }
        reader.end()?;
        Ok(Self { first, last, runs, deltas: deltas.to_vec() })
    }
}

/// Reads the start that follows `run`.
fn read_next(reader: &mut Reader<'_>, run: RunStart) -> Result<RunStart, Malformed> {
    let head = reader.unsigned()?;
    let hole = reader.unsigned()?;
    let gap = if head & 1 == 1 { reader.unsigned()? } else { 0 };
    // A run without records, or a flag for a gap of nothing, has no place in the form.
    if head < 2 || (head & 1 == 1 && gap == 0) {
        return Err(Malformed::Number);
    }
    let end = run.after(head >> 1).ok_or(Malformed::Number)?;
    let source = end.source.0.checked_add_unsigned(hole).ok_or(Malformed::Number)?;
    let target = end.target.0.checked_add_unsigned(gap).ok_or(Malformed::Number)?;
    Ok(RunStart { count: end.count, source: SourceOffset(source), target: TargetOffset(target) })
}

/// Iterates the starts of a segment.
pub(crate) struct Starts<'a> {
    next: Option<RunStart>,
    deltas: Reader<'a>,
}

impl Iterator for Starts<'_> {
    type Item = RunStart;

    fn next(&mut self) -> Option<RunStart> {
        let run = self.next?;
        // The deltas were written by `push` or checked by `decode`: an error here is their end.
        self.next = read_next(&mut self.deltas, run).ok();
        Some(run)
    }
}
