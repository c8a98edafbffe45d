//! Finds out by contents which record of the source became which record of the target.
//!
//! Two streams of records, of one partition of the source and of its mirror, are laid side by side
//! from a pair of places that is known. [`Aligner`] answers the stretches in which they agree;
//! [`RowSearch`] finds where on
//! one side a few records in a row of the other are.
//!
//! Does not: read records, or decide which pairs are believed.
//!
//! # Invariants
//!
//! 1. Equal counts prove nothing: only records whose contents are equal are matched.
//! 2. Where the streams differ, what is claimed before and behind the difference could not have
//!    been matched otherwise: records that are equal to one of those in doubt are left out.
//! 3. Memory holds a window of fingerprints of each side, whatever lies between two places.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use twinlog_batch::Record;
use twinlog_offsets::{Stretch, StretchBuilder};
use twinlog_types::{SourceOffset, TargetOffset};

/// So far ahead is looked for where two streams agree again.
const WINDOW: usize = 2_048;
/// So many matched records are held back, to be taken back when a difference makes them doubtful.
const HELD_BACK: usize = 1_024;
/// A place is recognised by this many records in a row at most.
pub const ROW_RECORDS: usize = 512;

/// The contents of a record in 128 bits: key, value, headers, and timestamp where the target keeps
/// the source's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Print(u64, u64);

impl Print {
    /// The fingerprint of a record. `timestamps`: whether the target keeps those of the source
    /// (not with `LogAppendTime`).
    pub fn of(record: &Record, timestamps: bool) -> Self {
        let half = |seed: u64| {
            let mut hasher = DefaultHasher::new();
            seed.hash(&mut hasher);
            record.key.hash(&mut hasher);
            record.value.hash(&mut hasher);
            for header in &record.headers {
                header.key.hash(&mut hasher);
                header.value.hash(&mut hasher);
            }
            timestamps.then_some(record.timestamp).hash(&mut hasher);
            hasher.finish()
        };
        Self(half(1), half(2))
    }
}

/// What is to be read next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// More of the source.
    Source,
    /// More of the target.
    Target,
    /// Nothing: both have ended, or they do not agree any more.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    offset: i64,
    print: Print,
}

/// One side's records that wait to be matched.
#[derive(Default, Debug)]
struct Side {
    waiting: VecDeque<Seen>,
    ended: bool,
}

impl Side {
    fn short_of(&self, records: usize) -> bool {
        !self.ended && self.waiting.len() < records
    }
}

/// What came out of laying two streams side by side.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Aligned {
    /// How many records were matched.
    pub matched: u64,
    /// Records of the source that have no counterpart.
    pub source_only: u64,
    /// Records of the target that have no counterpart.
    pub target_only: u64,
    /// The last pair.
    pub last: Option<(SourceOffset, TargetOffset)>,
    /// Records of the target behind the last pair.
    pub target_left: u64,
    /// From this pair of records on nothing agreed within the window.
    pub parted: Option<(SourceOffset, TargetOffset)>,
}

/// Lays two streams of records side by side.
#[derive(Debug)]
pub struct Aligner {
    source: Side,
    target: Side,
    held: VecDeque<(Seen, Seen)>,
    open: StretchBuilder,
    done: Vec<Stretch>,
    result: Aligned,
}

impl Aligner {
    /// Begins at the source offset `from`. The first record of the source and the first of the
    /// target that are handed in are expected to be the same.
    pub fn new(from: SourceOffset) -> Self {
        Self {
            source: Side::default(),
            target: Side::default(),
            held: VecDeque::new(),
            open: StretchBuilder::new(from),
            done: Vec::new(),
            result: Aligned::default(),
        }
    }

    /// The next record of the source.
    pub fn source(&mut self, offset: SourceOffset, print: Print) {
        self.source.waiting.push_back(Seen { offset: offset.0, print });
    }

    /// The next record of the target.
    pub fn target(&mut self, offset: TargetOffset, print: Print) {
        self.target.waiting.push_back(Seen { offset: offset.0, print });
    }

    /// The source has no more.
    pub fn source_ended(&mut self) {
        self.source.ended = true;
    }

    /// The target has no more.
    pub fn target_ended(&mut self) {
        self.target.ended = true;
    }

    /// Every record of the target, which has ended, was matched.
    pub fn target_is_matched(&self) -> bool {
        self.target.ended && self.target.waiting.is_empty()
    }

    /// Matches what can be matched; says what is missing to go on.
    pub fn advance(&mut self) -> Need {
        if self.result.parted.is_some() {
            return Need::Nothing;
        }
        loop {
            let (source, target) = (self.source.waiting.front(), self.target.waiting.front());
            let (Some(&source), Some(&target)) = (source, target) else {
                let need = [(&self.source, Need::Source), (&self.target, Need::Target)];
                let mut need = need.into_iter().filter(|(side, _)| side.short_of(1));
                return need.next().map_or(Need::Nothing, |(_, need)| need);
            };
            if source.print == target.print {
                self.source.waiting.pop_front();
                self.target.waiting.pop_front();
                self.hold((source, target));
                continue;
            }
            if self.source.short_of(WINDOW) {
                return Need::Source;
            }
            if self.target.short_of(WINDOW) {
                return Need::Target;
            }
            let Some((ahead_source, ahead_target)) = self.meeting() else {
                self.result.parted =
                    Some((SourceOffset(source.offset), TargetOffset(target.offset)));
                return Need::Nothing;
            };
            self.skip(ahead_source, ahead_target);
        }
    }

    fn hold(&mut self, pair: (Seen, Seen)) {
        self.held.push_back(pair);
        if self.held.len() > HELD_BACK {
            let first = self.held.pop_front();
            if let Some(pair) = first {
                self.keep(pair);
            }
        }
    }

    fn keep(&mut self, (source, target): (Seen, Seen)) {
        let (source, target) = (SourceOffset(source.offset), TargetOffset(target.offset));
        self.result.matched += 1;
        self.result.last = Some((source, target));
        if !self.open.push(source, target) {
            let full = std::mem::replace(&mut self.open, StretchBuilder::new(source));
            self.done.push(full.finish(source));
            self.open.push(source, target);
        }
    }

    /// How far ahead, on each side, the first record lies that both have once within the window.
    fn meeting(&self) -> Option<(usize, usize)> {
        let once = |side: &Side| {
            let mut places: BTreeMap<Print, (usize, u32)> = BTreeMap::new();
            for (index, seen) in side.waiting.iter().take(WINDOW).enumerate() {
                places.entry(seen.print).or_insert((index, 0)).1 += 1;
            }
            places.retain(|_, (_, times)| *times == 1);
            places
        };
        let (source, target) = (once(&self.source), once(&self.target));
        source
            .iter()
            .filter_map(|(print, &(at, _))| Some((at, target.get(print)?.0)))
            .min_by_key(|&(source, target)| source + target)
    }

    /// Leaves out so many records of each side.
    fn skip(&mut self, source: usize, target: usize) {
        let left_out: Vec<Seen> = self
            .source
            .waiting
            .drain(..source)
            .chain(self.target.waiting.drain(..target))
            .collect();
        self.result.source_only += source as u64;
        self.result.target_only += target as u64;
        let doubtful = self.take_back(&left_out);
        if doubtful || (source > 0 && target > 0) {
            self.part(self.source.waiting.front().map(|next| next.offset));
        }
        // What only one side has is a hole, or a gap: the records around it follow each other.
    }

    /// Takes back matches with records that are equal to one of those left out: they may as well
    /// belong to that one. Whether there were any.
    fn take_back(&mut self, left_out: &[Seen]) -> bool {
        let prints: BTreeSet<Print> = left_out.iter().map(|seen| seen.print).collect();
        let certain = self.held.iter().position(|(source, _)| prints.contains(&source.print));
        let Some(certain) = certain else { return false };
        let doubtful = (self.held.len() - certain) as u64;
        self.held.truncate(certain);
        self.result.source_only += doubtful;
        self.result.target_only += doubtful;
        true
    }

    /// Ends the open stretch behind its last record; the next begins at the source offset `next`.
    fn part(&mut self, next: Option<i64>) {
        self.keep_held();
        let begin = StretchBuilder::new(SourceOffset(next.unwrap_or(i64::MAX)));
        let ended = std::mem::replace(&mut self.open, begin);
        if ended.records() > 0 {
            let end = ended.end();
            self.done.push(ended.finish(end));
        }
    }

    fn keep_held(&mut self) {
        for pair in std::mem::take(&mut self.held) {
            self.keep(pair);
        }
    }

    /// The stretches that are complete.
    pub fn take_stretches(&mut self) -> Vec<Stretch> {
        std::mem::take(&mut self.done)
    }

    /// Both streams have ended at places that are known to be the same: the source at `to`.
    pub fn meet_at(mut self, to: SourceOffset) -> (Vec<Stretch>, Aligned) {
        let left: Vec<Seen> =
            self.source.waiting.iter().chain(&self.target.waiting).copied().collect();
        let both = !self.source.waiting.is_empty() && !self.target.waiting.is_empty();
        self.result.source_only += self.source.waiting.len() as u64;
        self.result.target_only += self.target.waiting.len() as u64;
        let doubtful = !left.is_empty() && self.take_back(&left);
        if both || doubtful || self.result.parted.is_some() {
            self.part(None);
        } else {
            self.keep_held();
            let open = std::mem::replace(&mut self.open, StretchBuilder::new(to));
            self.done.push(open.finish(to));
        }
        (self.done, self.result)
    }

    /// The target has ended, the source goes on behind the last pair.
    pub fn target_behind(mut self) -> (Vec<Stretch>, Aligned) {
        self.result.target_left = self.target.waiting.len() as u64;
        self.part(None);
        (self.done, self.result)
    }
}

/// Finds where on one side a few records in a row of the other side are.
#[derive(Debug)]
pub struct RowSearch {
    row: Vec<Print>,
    /// For each length of a match, the longest shorter one that it ends with.
    shorter: Vec<usize>,
    length: usize,
    /// The offsets of the last records, as many as the tail has.
    recent: VecDeque<i64>,
    found: Vec<(i64, i64)>,
}

impl RowSearch {
    /// Looks for `row`, records in their order. `None` without records.
    pub fn new(row: Vec<Print>) -> Option<Self> {
        if row.is_empty() {
            return None;
        }
        let mut shorter = vec![0; row.len() + 1];
        let mut length = 0;
        for at in 1..row.len() {
            while length > 0 && row[at] != row[length] {
                length = shorter[length];
            }
            if row[at] == row[length] {
                length += 1;
            }
            shorter[at + 1] = length;
        }
        Some(Self { row, shorter, length: 0, recent: VecDeque::new(), found: Vec::new() })
    }

    /// The next record of the side that is searched.
    pub fn record(&mut self, offset: i64, print: Print) {
        self.recent.push_back(offset);
        if self.recent.len() > self.row.len() {
            self.recent.pop_front();
        }
        while self.length > 0 && (self.length == self.row.len() || self.row[self.length] != print) {
            self.length = self.shorter[self.length];
        }
        if self.row[self.length] == print {
            self.length += 1;
        }
        if self.length == self.row.len()
            && self.found.len() < 2
            && let Some(&first) = self.recent.front()
        {
            self.found.push((first, offset));
        }
    }

    /// Where the row is.
    pub fn found(&self) -> RowFound {
        match self.found.as_slice() {
            [] => RowFound::Nowhere,
            &[(first, last)] => RowFound::Once { first, last },
            _ => RowFound::Twice,
        }
    }
}

/// Where a row of records is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowFound {
    /// Nowhere.
    Nowhere,
    /// From this offset to that one.
    Once {
        /// The offset of the first record of the row.
        first: i64,
        /// The offset of its last record.
        last: i64,
    },
    /// More than once: which one is meant cannot be told.
    Twice,
}

#[cfg(test)]
mod tests;
