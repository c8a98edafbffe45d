//! Compares two streams of records by their contents, within a bounded window.
//!
//! Both sides are pushed in as they are read; [`Comparison::advance`] takes away what is decided.
//! Where the heads differ, the nearest place is looked for at which both sides go on alike, and
//! what lies before it is told apart: missing, extra, doubled, out of order, different, compacted.
//!
//! Does not: read, know clusters, judge readiness.
//!
//! # Invariants
//!
//! 1. Only contents make records equal. An offset map says where to look, and what stands elsewhere
//!    is counted as displaced.
//! 2. Counts are exact, the list of findings is bounded.
//! 3. Memory is bounded by the largest window, the keys that wait for a later record of theirs, and
//!    what the caller pushes beyond what is wanted.
//! 4. What memory does not suffice for is counted as undecided, never as one or the other.

mod compaction;
mod place;
mod resync;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use twinlog_types::{SourceOffset, TargetOffset};

use crate::print::{Entry, SequenceHash};
use compaction::Pending;
pub use place::{Around, Located, Part, Stands, locate, stands};
use settle::{Recent, Unpaired};

/// The windows in which both sides are searched for where they go on alike, the nearest first.
const WINDOWS: [usize; 5] = [16, 1 << 10, 1 << 13, 1 << 16, 1 << 18];

/// How many paired records are remembered, to recognise one that comes again: a minute of MM2 at
/// a thousand records a second.
const RECENT_MAX: usize = 1 << 16;

/// How many records without partner are remembered, to recognise one that comes at another place.
const UNPAIRED_MAX: usize = 1 << 12;

/// Findings that are listed; all are counted.
pub const FINDINGS_MAX: usize = 100;

/// What a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// On the source only.
    Missing,
    /// On the target only.
    Extra,
    /// On the target once more.
    Doubled,
    /// On both, between other neighbours.
    OutOfOrder,
    /// At one place, with other contents.
    Different(Parts),
}

impl Kind {
    /// The word that output uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Doubled => "doubled",
            Self::OutOfOrder => "out-of-order",
            Self::Different(_) => "different",
        }
    }
}

/// Which parts of two records differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Parts {
    /// The keys.
    pub key: bool,
    /// The values.
    pub value: bool,
    /// The headers.
    pub headers: bool,
    /// The timestamps.
    pub timestamp: bool,
}

impl Parts {
    /// What differs between two records.
    pub fn of(source: &Entry, target: &Entry) -> Self {
        Self {
            key: source.key != target.key || source.marks.keyless != target.marks.keyless,
            value: source.value != target.value || source.marks.tombstone != target.marks.tombstone,
            headers: source.headers != target.headers,
            timestamp: source.timestamp != target.timestamp,
        }
    }

    /// Their names.
    pub fn words(self) -> Vec<&'static str> {
        let all = [
            (self.key, "key"),
            (self.value, "value"),
            (self.headers, "headers"),
            (self.timestamp, "timestamp"),
        ];
        all.iter().filter(|(differs, _)| *differs).map(|(_, word)| *word).collect()
    }
}

/// Something that is not as it should be, by offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The record on the source, where there is one.
    pub source: Option<SourceOffset>,
    /// The record on the target, where there is one.
    pub target: Option<TargetOffset>,
    /// Bytes of key, value and headers, of the source's record where there is one.
    pub bytes: u32,
    /// What stands for the contents: of the source's record where there is one.
    pub hash: u128,
}

/// Where the record of a source offset should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// At this target offset.
    At(TargetOffset),
    /// It was not copied.
    Nowhere,
    /// Nothing is known of it.
    Unknown,
}

/// Where records should be, by an offset map.
pub trait Expect {
    /// Asked with ascending offsets.
    fn expect(&mut self, source: SourceOffset) -> Expected;
}

/// Nothing is known: contents alone decide.
#[derive(Clone, Copy, Debug)]
pub struct NoMap;

impl Expect for NoMap {
    fn expect(&mut self, _: SourceOffset) -> Expected {
        Expected::Unknown
    }
}

/// What is no mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The source's topic is compacted.
    pub source_compacts: bool,
    /// The target's topic is compacted.
    pub target_compacts: bool,
    /// The source's log does not begin with its first record: the target may have more in front.
    pub source_begins_late: bool,
    /// The same of the target.
    pub target_begins_late: bool,
    /// Records from here on that are not on the target are yet to be copied. `None`: the trailing
    /// ones are, wherever they begin.
    pub copied_to: Option<SourceOffset>,
    /// Trailing records of the target are not judged: they may be of transactions that are open on
    /// the source, or lie behind what was asked for.
    pub target_goes_on: bool,
    /// Both logs are read to their ends: what no later record explains, nothing explains.
    pub to_the_end: bool,
}

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Records of the source that were looked at, aborted and waiting ones left aside.
    pub source_records: u64,
    /// Records of the target that were looked at.
    pub target_records: u64,
    /// Bytes of keys, values and headers on the source.
    pub source_bytes: u64,
    /// The same on the target.
    pub target_bytes: u64,
    /// Pairs of equal records in their order.
    pub equal: u64,
    /// Pairs that stand at one place and differ.
    pub different: u64,
    /// On the source only.
    pub missing: u64,
    /// On the target only, doubled ones included.
    pub extra: u64,
    /// On the target once more.
    pub doubled: u64,
    /// On both, between other neighbours.
    pub out_of_order: u64,
    /// On one side only, because compaction removed it on the other.
    pub compacted: u64,
    /// Equal pairs that stand elsewhere than the offset map says.
    pub displaced: u64,
    /// On one side only, and memory did not suffice to tell whether compaction removed it.
    pub undecided: u64,
    /// Records of aborted transactions on the source that are not on the target.
    pub aborted: u64,
    /// The same that are.
    pub aborted_on_target: u64,
    /// In front of the first pair, where the other side's log begins later.
    pub before: u64,
    /// Records of the source that wait to be copied.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Trailing records of the target that were not judged.
    pub open: u64,
}

impl Tally {
    /// Records of the source that were compared.
    pub fn compared(&self) -> u64 {
        self.source_records
    }

    /// Whether nothing is wrong.
    pub fn is_faithful(&self) -> bool {
        self.different + self.missing + self.extra + self.out_of_order + self.displaced == 0
    }
}

/// What a comparison came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The counts.
    pub tally: Tally,
    /// The first findings, by their kind no more than [`FINDINGS_MAX`] in all.
    pub findings: Vec<Finding>,
    /// The first pair.
    pub first: Option<(SourceOffset, TargetOffset)>,
    /// The last pair.
    pub last: Option<(SourceOffset, TargetOffset)>,
    /// The timestamp of the first record that waits to be copied.
    pub waits_since_ms: Option<i64>,
    /// Of all records of the source that were compared.
    pub source_hash: SequenceHash,
    /// The same of the target.
    pub target_hash: SequenceHash,
}

/// Which side is to be pushed next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wants {
    /// The source.
    Source,
    /// The target.
    Target,
    /// Neither: both have ended.
    Nothing,
}

/// See the module's head.
pub struct Comparison<M> {
    rules: Rules,
    map: M,
    source: VecDeque<Entry>,
    target: VecDeque<Entry>,
    source_ended: bool,
    target_ended: bool,
    /// How many records of each side are needed to go on.
    need: usize,
    /// Target offsets as they are, less those that the map has.
    shift: i64,
    /// The heads before were one record with another timestamp or other headers.
    in_kin: bool,
    recent: Recent,
    unpaired: Unpaired,
    pending: Pending,
    outcome: Outcome,
    /// Behind the last pair, while nothing else was decided since.
    next: Option<(i64, i64)>,
}

impl<M> std::fmt::Debug for Comparison<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comparison").field("tally", &self.outcome.tally).finish_non_exhaustive()
    }
}

impl<M: Expect> Comparison<M> {
    /// Nothing compared yet. `map` says where to look first.
    pub fn new(rules: Rules, map: M) -> Self {
        Self {
            rules,
            map,
            source: VecDeque::new(),
            target: VecDeque::new(),
            source_ended: false,
            target_ended: false,
            need: 1,
            shift: 0,
            in_kin: false,
            recent: Recent::default(),
            unpaired: Unpaired::default(),
            pending: Pending::default(),
            outcome: Outcome {
                tally: Tally::default(),
                findings: Vec::new(),
                first: None,
                last: None,
                waits_since_ms: None,
                source_hash: SequenceHash::default(),
                target_hash: SequenceHash::default(),
            },
            next: None,
        }
    }

    /// Goes on from what an earlier run had counted, with both sides behind its last pair.
    pub fn resume(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// What is counted by now and where a later run can go on, on the source and on the target;
    /// `None` while more is held than such a run could know.
    pub fn settled(&self) -> Option<(&Outcome, (i64, i64))> {
        let next = self.next.filter(|_| self.pending.is_empty())?;
        Some((&self.outcome, next))
    }

    /// Whether records wait for a later one of their key.
    pub fn has_unexplained(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes note of later records that are not compared: they may explain what is on one side only.
    pub fn explain(&mut self, source: &[Entry], target: &[Entry]) {
        let keyed = |entry: &&Entry| !entry.marks.keyless && !entry.marks.aborted;
        for entry in source.iter().filter(keyed) {
            self.outcome.tally.compacted += self.pending.source_has(entry.key);
        }
        for entry in target.iter().filter(keyed) {
            self.outcome.tally.compacted += self.pending.target_has(entry.key);
        }
    }

    /// What is counted by now.
    pub fn tally(&self) -> &Tally {
        &self.outcome.tally
    }

    /// Takes records of the source, in their order.
    pub fn push_source(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.source.extend(entries);
    }

    /// Takes records of the target, in their order.
    pub fn push_target(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.target.extend(entries);
    }

    /// No more records of the source come.
    pub fn end_source(&mut self) {
        self.source_ended = true;
    }

    /// No more records of the target come.
    pub fn end_target(&mut self) {
        self.target_ended = true;
    }

    /// What is needed to go on, after [`advance`](Self::advance).
    pub fn wants(&self) -> Wants {
        let source = !self.source_ended && self.source.len() < self.need;
        let target = !self.target_ended && self.target.len() < self.need;
        match (source, target) {
            (true, true) if self.target.len() < self.source.len() => Wants::Target,
            (true, _) => Wants::Source,
            (_, true) => Wants::Target,
            (false, false) => Wants::Nothing,
        }
    }

    /// Decides what can be decided.
    pub fn advance(&mut self) {
        loop {
            match (self.source.front(), self.target.front()) {
                (Some(source), Some(target)) => {
                    let equal = source.whole == target.whole;
                    let gone_on = if equal { self.pair_heads() } else { self.resolve() };
                    if !gone_on {
                        return;
                    }
                }
                (Some(_), None) if self.target_ended => self.source_tail(),
                (None, Some(_)) if self.source_ended => self.target_tail(),
                _ => {
                    self.need = 1;
                    return;
                }
            }
        }
    }

    /// The result, once both sides have ended and all is decided.
    pub fn finish(mut self) -> Outcome {
        self.advance();
        for finding in self.pending.take_findings() {
            if !self.rules.to_the_end {
                self.outcome.tally.undecided += 1;
                continue;
            }
            match finding.kind {
                Kind::Missing => self.outcome.tally.missing += 1,
                _ => self.outcome.tally.extra += 1,
            }
            self.list(finding);
        }
        self.outcome.tally.undecided += self.pending.overflowed();
        self.outcome
    }

    /// Pairs two equal heads, unless the map says that one of them is the partner of another record
    /// with the same contents. Answers whether it went on.
    fn pair_heads(&mut self) -> bool {
        let (Some(source), Some(target)) = (self.source.front(), self.target.front()) else {
            return false;
        };
        let (source, target) = (source.offset, target.offset);
        if let Expected::At(place) = self.map.expect(SourceOffset(source)) {
            let place = place.0 + self.shift;
            if place != target {
                if !self.filled(WINDOWS[1]) {
                    return false;
                }
                if place > target && self.target_twin(place) {
                    self.drop_target();
                    return true;
                }
                if place < target && self.source_twin() {
                    self.drop_source();
                    return true;
                }
            }
        }
        self.pair();
        true
    }

    /// Whether a record like the target's head stands where the source's head should be.
    fn target_twin(&self, place: i64) -> bool {
        let whole = self.target.front().map(|head| head.whole);
        let near = self.target.iter().take(WINDOWS[1]);
        near.take_while(|entry| entry.offset <= place)
            .any(|entry| entry.offset == place && Some(entry.whole) == whole)
    }

    /// Whether a later record like the source's head should be where the target's head is.
    fn source_twin(&mut self) -> bool {
        let Some(head) = self.target.front().copied() else { return false };
        for entry in self.source.iter().take(WINDOWS[1]) {
            if let Expected::At(place) = self.map.expect(SourceOffset(entry.offset)) {
                let place = place.0 + self.shift;
                if place >= head.offset {
                    return place == head.offset && entry.whole == head.whole;
                }
            }
        }
        false
    }

    /// Both heads are one record.
    fn pair(&mut self) {
        let (Some(source), Some(target)) = (self.source.pop_front(), self.target.pop_front())
        else {
            return;
        };
        self.hash(&source, &target);
        self.paired(&source, &target);
        (self.need, self.in_kin) = (1, false);
    }

    /// Hashes go on in the order of the logs, whatever is decided about the records.
    fn hash(&mut self, source: &Entry, target: &Entry) {
        self.outcome.source_hash.push(source.whole);
        self.outcome.target_hash.push(target.whole);
    }

    fn paired(&mut self, source: &Entry, target: &Entry) {
        self.saw_source(source);
        self.saw_target(target);
        self.place(source, target);
        let tally = &mut self.outcome.tally;
        if source.marks.aborted {
            tally.aborted_on_target += 1;
        }
        tally.equal += 1;
        let pair = (SourceOffset(source.offset), TargetOffset(target.offset));
        self.outcome.first = self.outcome.first.or(Some(pair));
        self.outcome.last = Some(pair);
        self.next = Some((source.offset + 1, target.offset + 1));
        self.recent.push(target.whole, RECENT_MAX);
    }

    /// Takes note of where a pair stands.
    fn place(&mut self, source: &Entry, target: &Entry) {
        if let Expected::At(place) = self.map.expect(SourceOffset(source.offset)) {
            self.shift = target.offset - place.0;
            if self.shift != 0 {
                self.outcome.tally.displaced += 1;
            }
        }
    }

    fn saw_source(&mut self, entry: &Entry) {
        let tally = &mut self.outcome.tally;
        tally.source_records += 1;
        tally.source_bytes += u64::from(entry.bytes);
        if !entry.marks.keyless {
            tally.compacted += self.pending.source_has(entry.key);
        }
    }

    fn saw_target(&mut self, entry: &Entry) {
        let tally = &mut self.outcome.tally;
        tally.target_records += 1;
        tally.target_bytes += u64::from(entry.bytes);
        if !entry.marks.keyless {
            tally.compacted += self.pending.target_has(entry.key);
        }
    }

    /// Whether both sides hold more than `window` records, or all that are left: then it is known
    /// whether something follows, however they were pushed. Asks for more where not.
    fn filled(&mut self, window: usize) -> bool {
        let source = self.source_ended || self.source.len() > window;
        let target = self.target_ended || self.target.len() > window;
        if source && target {
            return true;
        }
        self.need = self.need.max(window + 1);
        false
    }

    fn list(&mut self, finding: Finding) {
        if self.outcome.findings.len() < FINDINGS_MAX {
            self.outcome.findings.push(finding);
        }
    }

    /// The target has ended: what is left of the source.
    fn source_tail(&mut self) {
        let Some(entry) = self.source.front() else { return };
        let waits = self.rules.copied_to.is_none_or(|copied_to| entry.offset >= copied_to.0);
        if !waits {
            self.drop_source();
            return;
        }
        let Some(entry) = self.source.pop_front() else { return };
        if entry.marks.aborted {
            self.outcome.tally.aborted += 1;
            return;
        }
        let tally = &mut self.outcome.tally;
        tally.waiting += 1;
        tally.waiting_bytes += u64::from(entry.bytes);
        if !entry.marks.keyless {
            // It shows that the source may have removed an older one, not that the target may.
            tally.compacted += self.pending.source_has(entry.key);
        }
        self.outcome.waits_since_ms = self.outcome.waits_since_ms.or(Some(entry.timestamp));
    }

    /// The source has ended: what is left of the target.
    fn target_tail(&mut self) {
        if self.rules.target_goes_on {
            self.outcome.tally.open += 1;
            self.target.pop_front();
        } else {
            self.drop_target();
        }
    }
}
