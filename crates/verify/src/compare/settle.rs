//! What is done where the heads of both sides differ.

use std::collections::{HashMap, HashSet, VecDeque};

use twinlog_types::{SourceOffset, TargetOffset};

use super::resync::{resync, resync_loosely};
use super::{Comparison, Expect, Expected, Finding, Kind, Parts, UNPAIRED_MAX, WINDOWS};
use crate::print::Entry;

/// Of larger stretches without anything equal nothing is told but what is missing and what is extra.
const PAIRS_TRIED_MAX: usize = 1 << 20;

impl<M: Expect> Comparison<M> {
    /// The heads differ: decides about at least one of them. False when more records are needed.
    pub(super) fn resolve(&mut self) -> bool {
        if self.in_kin && self.heads_are_kin() {
            self.pair_different();
            return true;
        }
        if self.by_map() {
            return true;
        }
        for (at, &window) in WINDOWS.iter().enumerate() {
            if !self.filled(window) {
                return false;
            }
            if let Some((left, right)) = self.search(window) {
                self.settle(left, right);
                return true;
            }
            if at == 1 && self.heads_are_kin() && self.heads_are_unique(window) {
                self.pair_different();
                self.in_kin = true;
                return true;
            }
            if self.all_within(window) {
                break;
            }
        }
        self.give_up();
        true
    }

    /// Nothing goes on alike, however far one looks.
    fn give_up(&mut self) {
        if self.heads_are_kin() {
            self.pair_different();
            self.in_kin = true;
            return;
        }
        let largest = WINDOWS[WINDOWS.len() - 1];
        let all = self.all_within(largest);
        let (source, target) = self.slices(largest);
        let stretch = resync_loosely(source, target).unwrap_or_else(|| {
            // What is left of the longer side is its tail, or is looked at again.
            let shorter = source.len().min(target.len());
            let some = if all { shorter } else { (shorter / 4).max(1) };
            (some, some)
        });
        self.settle(stretch.0, stretch.1);
    }

    /// Asks the map. It decides where one of the heads stands alone: in a hole of the target, or at
    /// a place that no record of the source has.
    fn by_map(&mut self) -> bool {
        let (Some(source), Some(target)) = (self.source.front(), self.target.front()) else {
            return false;
        };
        let (source, target) = (source.offset, target.offset);
        match self.map.expect(SourceOffset(source)) {
            Expected::Nowhere => self.drop_source(),
            Expected::At(place) if place.0 + self.shift < target => self.drop_source(),
            Expected::At(place) if place.0 + self.shift > target => self.drop_target(),
            Expected::At(_) | Expected::Unknown => return false,
        }
        true
    }

    fn all_within(&self, window: usize) -> bool {
        let over = |ended: bool, held: usize| ended && held <= window;
        over(self.source_ended, self.source.len()) && over(self.target_ended, self.target.len())
    }

    fn slices(&mut self, window: usize) -> (&[Entry], &[Entry]) {
        let (source, target) = (self.source.make_contiguous(), self.target.make_contiguous());
        (&source[..source.len().min(window)], &target[..target.len().min(window)])
    }

    fn search(&mut self, window: usize) -> Option<(usize, usize)> {
        let ended = (
            self.source_ended && self.source.len() <= window,
            self.target_ended && self.target.len() <= window,
        );
        let (source, target) = self.slices(window);
        resync(source, target, ended)
    }

    /// Whether the heads have one key and one value.
    fn heads_are_kin(&self) -> bool {
        match (self.source.front(), self.target.front()) {
            (Some(source), Some(target)) => are_kin(source, target) && !source.marks.aborted,
            _ => false,
        }
    }

    /// Whether nothing near has key and value of the source's head.
    fn heads_are_unique(&self, window: usize) -> bool {
        let Some(head) = self.source.front() else { return false };
        let once = |side: &VecDeque<Entry>| {
            side.iter().take(window).filter(|entry| are_kin(entry, head)).count() == 1
        };
        once(&self.source) && once(&self.target)
    }

    /// Both heads stand at one place, with other contents.
    fn pair_different(&mut self) {
        let (Some(source), Some(target)) = (self.source.pop_front(), self.target.pop_front())
        else {
            return;
        };
        self.need = 1;
        self.hash(&source, &target);
        self.different(&source, &target);
    }

    fn different(&mut self, source: &Entry, target: &Entry) {
        self.next = self.next.map(|_| (source.offset + 1, target.offset + 1));
        self.saw_source(source);
        self.saw_target(target);
        self.outcome.tally.different += 1;
        let kind = Kind::Different(Parts::of(source, target));
        self.list(finding(kind, Some(source), Some(target)));
    }

    /// The source's head is on the source only.
    pub(super) fn drop_source(&mut self) {
        if let Some(entry) = self.source.pop_front() {
            self.need = 1;
            if !entry.marks.aborted && !self.is_before_source() {
                self.outcome.source_hash.push(entry.whole);
            }
            self.leave_source(&entry);
        }
    }

    /// The target's head is on the target only.
    pub(super) fn drop_target(&mut self) {
        if let Some(entry) = self.target.pop_front() {
            self.need = 1;
            if !self.is_before_target() {
                self.outcome.target_hash.push(entry.whole);
            }
            self.leave_target(&entry);
        }
    }

    /// Whether a record that only the source has lies in front of the target's log.
    fn is_before_source(&self) -> bool {
        self.outcome.first.is_none() && self.rules.target_begins_late
    }

    /// Whether a record that only the target has lies in front of the source's log.
    fn is_before_target(&self) -> bool {
        self.outcome.first.is_none() && self.rules.source_begins_late
    }

    fn leave_source(&mut self, entry: &Entry) {
        self.next = None;
        if entry.marks.aborted {
            self.outcome.tally.aborted += 1;
            return;
        }
        if self.is_before_source() {
            self.outcome.tally.before += 1;
            return;
        }
        self.saw_source(entry);
        if let Some(offset) = self.unpaired.take_target(entry.whole) {
            self.outcome.tally.extra -= 1;
            self.found_elsewhere(entry.offset, offset, entry);
            return;
        }
        let missing = finding(Kind::Missing, Some(entry), None);
        if !self.rules.target_compacts {
            self.outcome.tally.missing += 1;
            self.list(missing);
            self.unpaired.keep_source(entry);
        } else if entry.marks.keyless {
            // The cleaner removes what has no key.
            self.outcome.tally.compacted += 1;
        } else if entry.marks.tombstone {
            // It goes itself, some time after what it deletes.
            self.outcome.tally.compacted += 1 + self.pending.tombstone_gone(entry.key);
        } else {
            self.pending.wait(entry.key, missing);
        }
    }

    fn leave_target(&mut self, entry: &Entry) {
        self.next = None;
        if self.is_before_target() {
            self.outcome.tally.before += 1;
            return;
        }
        self.saw_target(entry);
        if let Some(offset) = self.unpaired.take_source(entry.whole) {
            self.outcome.tally.missing -= 1;
            self.found_elsewhere(offset, entry.offset, entry);
            return;
        }
        if self.recent.has(entry.whole) {
            self.outcome.tally.extra += 1;
            self.outcome.tally.doubled += 1;
            self.list(finding(Kind::Doubled, None, Some(entry)));
            return;
        }
        let extra = finding(Kind::Extra, None, Some(entry));
        if !self.rules.source_compacts {
            self.outcome.tally.extra += 1;
            self.list(extra);
            self.unpaired.keep_target(entry);
        } else if entry.marks.keyless {
            self.outcome.tally.compacted += 1;
        } else if entry.marks.tombstone {
            let explained = self.pending.tombstone_gone_on_source(entry.key);
            self.outcome.tally.compacted += 1 + explained;
        } else {
            self.pending.wait(entry.key, extra);
        }
    }

    /// A record that was listed as missing or extra has its partner at another place.
    fn found_elsewhere(&mut self, source: i64, target: i64, entry: &Entry) {
        let (source, target) = (SourceOffset(source), TargetOffset(target));
        self.outcome.tally.out_of_order += 1;
        let listed = self.outcome.findings.iter_mut().find(|listed| match listed.kind {
            Kind::Missing => listed.source == Some(source),
            Kind::Extra => listed.target == Some(target),
            _ => false,
        });
        if let Some(listed) = listed {
            listed.kind = Kind::OutOfOrder;
            (listed.source, listed.target) = (Some(source), Some(target));
            return;
        }
        let kind = Kind::OutOfOrder;
        let (bytes, hash) = (entry.bytes, entry.whole);
        self.list(Finding { kind, source: Some(source), target: Some(target), bytes, hash });
    }

    /// Tells apart what lies before the place at which both sides go on alike.
    fn settle(&mut self, left: usize, right: usize) {
        self.need = 1;
        self.in_kin = false;
        let source: Vec<Entry> = self.source.drain(..left).collect();
        let target: Vec<Entry> = self.target.drain(..right).collect();
        let pairs = equal_pairs(&source, &target);
        let in_order = ascending(&pairs);
        let first = in_order.first().map_or((left, right), |&at| pairs[at]);
        self.hash_stretch(&source, &target, &pairs, first);
        let moved: HashSet<usize> = (0..pairs.len()).filter(|at| !in_order.contains(at)).collect();
        let moved_source: HashSet<usize> = moved.iter().map(|&at| pairs[at].0).collect();
        let moved_target: HashSet<usize> = moved.iter().map(|&at| pairs[at].1).collect();
        let mut from = (0, 0);
        let anchors = in_order.iter().map(|&at| pairs[at]).chain([(left, right)]);
        for (i, j) in anchors {
            let rest = |range: std::ops::Range<usize>, moved: &HashSet<usize>, all: &[Entry]| {
                let here = range.filter(|at| !moved.contains(at));
                here.map(|at| all[at]).collect::<Vec<Entry>>()
            };
            self.gap(
                &rest(from.0..i, &moved_source, &source),
                &rest(from.1..j, &moved_target, &target),
            );
            if (i, j) != (left, right) {
                self.paired(&source[i], &target[j]);
            }
            from = (i + 1, j + 1);
        }
        let mut moved: Vec<usize> = moved.into_iter().collect();
        moved.sort_unstable();
        if !moved.is_empty() {
            self.next = None;
        }
        for (i, j) in moved.into_iter().map(|at| pairs[at]) {
            let (source, target) = (&source[i], &target[j]);
            self.saw_source(source);
            self.saw_target(target);
            self.outcome.tally.out_of_order += 1;
            self.list(finding(Kind::OutOfOrder, Some(source), Some(target)));
        }
    }

    /// As [`hash`](Self::hash). `first`: the first pair that is in order.
    fn hash_stretch(
        &mut self,
        source: &[Entry],
        target: &[Entry],
        pairs: &[(usize, usize)],
        first: (usize, usize),
    ) {
        let copied: HashSet<usize> = pairs.iter().map(|&(i, _)| i).collect();
        let from = if self.is_before_source() { first.0 } else { 0 };
        for (i, entry) in source.iter().enumerate().skip(from) {
            if !entry.marks.aborted || copied.contains(&i) {
                self.outcome.source_hash.push(entry.whole);
            }
        }
        let from = if self.is_before_target() { first.1 } else { 0 };
        for entry in &target[from..] {
            self.outcome.target_hash.push(entry.whole);
        }
    }

    /// Between two pairs: nothing here is equal to anything there.
    fn gap(&mut self, source: &[Entry], target: &[Entry]) {
        let (aborted, source): (Vec<&Entry>, Vec<&Entry>) =
            source.iter().partition(|entry| entry.marks.aborted);
        for entry in aborted {
            self.leave_source(entry);
        }
        let compacts = self.rules.source_compacts || self.rules.target_compacts;
        if source.len() == target.len() && !compacts {
            for (source, target) in source.into_iter().zip(target) {
                self.different(source, target);
            }
            return;
        }
        // Of unequal numbers those are one record that have the same key, or else the same value.
        let is_one = |source: &Entry, target: &Entry| {
            let key = !source.marks.keyless && source.key == target.key;
            let value = !source.marks.tombstone && source.value == target.value;
            key || (value && !compacts)
        };
        let few = source.len() * target.len() <= PAIRS_TRIED_MAX;
        let mut rest = target.iter();
        for entry in source {
            let mut ahead = if few { rest.clone() } else { [].iter() };
            let Some(at) = ahead.position(|target| is_one(entry, target)) else {
                self.leave_source(entry);
                continue;
            };
            for target in rest.by_ref().take(at) {
                self.leave_target(target);
            }
            if let Some(target) = rest.next() {
                self.different(entry, target);
            }
        }
        for entry in rest {
            self.leave_target(entry);
        }
    }
}

fn are_kin(one: &Entry, other: &Entry) -> bool {
    let marks = |entry: &Entry| (entry.marks.keyless, entry.marks.tombstone);
    (one.key, one.value, marks(one)) == (other.key, other.value, marks(other))
}

fn finding(kind: Kind, source: Option<&Entry>, target: Option<&Entry>) -> Finding {
    let shown = source.or(target);
    Finding {
        kind,
        source: source.map(|entry| SourceOffset(entry.offset)),
        target: target.map(|entry| TargetOffset(entry.offset)),
        bytes: shown.map_or(0, |entry| entry.bytes),
        hash: shown.map_or(0, |entry| entry.whole),
    }
}

/// Which records of both stretches are equal, each in one pair, by their place on the source.
fn equal_pairs(source: &[Entry], target: &[Entry]) -> Vec<(usize, usize)> {
    let mut places: HashMap<u128, VecDeque<usize>> = HashMap::new();
    for (j, entry) in target.iter().enumerate() {
        places.entry(entry.whole).or_default().push_back(j);
    }
    let partner = |(i, entry): (usize, &Entry)| {
        let j = places.get_mut(&entry.whole)?.pop_front()?;
        Some((i, j))
    };
    source.iter().enumerate().filter_map(partner).collect()
}

/// The most pairs that ascend on both sides: those that are in order. Answers indices of `pairs`.
fn ascending(pairs: &[(usize, usize)]) -> Vec<usize> {
    // The last pair of the best chain of each length, and what comes before each pair.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (at, (_, j)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].1 < *j);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(at);
        } else {
            ends[length] = at;
        }
    }
    let mut chain = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        chain.push(at);
        next = before[at];
    }
    chain.reverse();
    chain
}

/// Records that have no partner yet, a bounded number.
#[derive(Default)]
pub(super) struct Unpaired {
    source: HashMap<u128, Vec<i64>>,
    target: HashMap<u128, Vec<i64>>,
    held: usize,
}

impl Unpaired {
    fn keep_source(&mut self, entry: &Entry) {
        keep(&mut self.source, &mut self.held, entry);
    }

    fn keep_target(&mut self, entry: &Entry) {
        keep(&mut self.target, &mut self.held, entry);
    }

    fn take_source(&mut self, whole: u128) -> Option<i64> {
        take(&mut self.source, &mut self.held, whole)
    }

    fn take_target(&mut self, whole: u128) -> Option<i64> {
        take(&mut self.target, &mut self.held, whole)
    }
}

fn keep(side: &mut HashMap<u128, Vec<i64>>, held: &mut usize, entry: &Entry) {
    if *held < UNPAIRED_MAX {
        side.entry(entry.whole).or_default().push(entry.offset);
        *held += 1;
    }
}

fn take(side: &mut HashMap<u128, Vec<i64>>, held: &mut usize, whole: u128) -> Option<i64> {
    let offsets = side.get_mut(&whole)?;
    let offset = offsets.pop();
    if offsets.is_empty() {
        side.remove(&whole);
    }
    *held -= usize::from(offset.is_some());
    offset
}

/// The records that were paired last.
#[derive(Default)]
pub(super) struct Recent {
    ring: VecDeque<u128>,
    /// How often each is there. Kept from the first question on: faithful mirrors never ask.
    index: Option<HashMap<u128, u32>>,
}

impl Recent {
    pub(super) fn push(&mut self, whole: u128, at_most: usize) {
        let gone = if self.ring.len() == at_most { self.ring.pop_front() } else { None };
        self.ring.push_back(whole);
        let Some(index) = &mut self.index else { return };
        *index.entry(whole).or_default() += 1;
        if let Some(gone) = gone
            && let Some(times) = index.get_mut(&gone)
        {
            *times -= 1;
            if *times == 0 {
                index.remove(&gone);
            }
        }
    }

    fn has(&mut self, whole: u128) -> bool {
        let ring = &self.ring;
        let index = self.index.get_or_insert_with(|| {
            let mut index = HashMap::new();
            for whole in ring {
                *index.entry(*whole).or_default() += 1;
            }
            index
        });
        index.contains_key(&whole)
    }
}
