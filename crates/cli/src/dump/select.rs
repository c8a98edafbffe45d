//! Which of the records are printed: all, the last, or the newest of each key.
//!
//! # Invariants
//!
//! 1. Memory is bounded: by what was asked for (`--last`), or by the number of keys of one
//!    partition, at 24 bytes and what the map adds (`newest`).

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use twinlog_batch::Record;

/// The last lines of one or several partitions.
#[derive(Debug)]
pub(crate) struct Last<L> {
    keep: usize,
    lines: VecDeque<(i64, L)>,
}

impl<L> Last<L> {
    pub(crate) fn new(keep: usize) -> Self {
        Self { keep, lines: VecDeque::new() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lines.len() >= self.keep
    }

    /// Adds the lines of a later record of the same partition.
    pub(crate) fn push(&mut self, timestamp: i64, lines: L) {
        self.lines.push_back((timestamp, lines));
        self.trim();
    }

    /// Puts the lines of another partition between these, by time; each partition keeps its order.
    pub(crate) fn merge(&mut self, other: Self) {
        let mut both = VecDeque::with_capacity(self.lines.len() + other.lines.len());
        let mut theirs = other.lines.into_iter().peekable();
        for ours in self.lines.drain(..) {
            while let Some(earlier) = theirs.next_if(|theirs| theirs.0 < ours.0) {
                both.push_back(earlier);
            }
            both.push_back(ours);
        }
        both.extend(theirs);
        self.lines = both;
        self.trim();
    }

    fn trim(&mut self) {
        while self.lines.len() > self.keep {
            self.lines.pop_front();
        }
    }

    pub(crate) fn into_lines(self) -> impl Iterator<Item = L> {
        self.lines.into_iter().map(|(_, lines)| lines)
    }
}

/// The newest record of each key of a partition, by two independent hashes of the key: of a billion
/// keys the chance that two are taken for one is below one in 10^20.
#[derive(Default, Debug)]
pub(crate) struct Newest {
    hashers: [RandomState; 2],
    offsets: HashMap<[u64; 2], i64>,
}

impl Newest {
    /// Takes note of a record. Offsets ascend.
    pub(crate) fn note(&mut self, record: &Record) {
        self.offsets.insert(self.hash(record), record.offset);
    }

    /// Whether no later record with this key was noted.
    pub(crate) fn is_newest(&self, record: &Record) -> bool {
        self.offsets.get(&self.hash(record)) == Some(&record.offset)
    }

    fn hash(&self, record: &Record) -> [u64; 2] {
        self.hashers.each_ref().map(|hasher| hasher.hash_one(&record.key))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::dump::testing::record;

    fn last(keep: usize, of: &[(i64, &'static str)]) -> Last<&'static str> {
        let mut last = Last::new(keep);
        for (timestamp, text) in of {
            last.push(*timestamp, *text);
        }
        last
    }

    fn lines(last: Last<&'static str>) -> Vec<&'static str> {
        last.into_lines().collect()
    }

    #[test]
    fn the_last_of_a_partition_are_its_last_whatever_their_time() {
        assert_eq!(lines(last(2, &[(9, "a"), (1, "b"), (5, "c")])), ["b", "c"]);
        assert!(lines(last(0, &[(9, "a")])).is_empty());
    }

    #[test]
    fn the_last_of_several_partitions_are_in_order_of_time() {
        let mut all = last(3, &[(1, "a1"), (4, "a4"), (6, "a6")]);
        all.merge(last(3, &[(2, "b2"), (5, "b5"), (7, "b7")]));
        assert_eq!(lines(all), ["b5", "a6", "b7"]);
        // A partition whose clock ran back keeps its own order.
        let mut all = last(9, &[(5, "a5"), (3, "a3")]);
        all.merge(last(9, &[(4, "b4")]));
        assert_eq!(lines(all), ["b4", "a5", "a3"]);
    }

    #[test]
    fn the_newest_of_each_key_is_the_last_with_it() {
        let key = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let records =
            [(0, key("a")), (1, key("b")), (2, key("a")), (3, None), (4, key("")), (5, None)]
                .map(|(offset, key)| record(offset, key, None));
        let mut newest = Newest::default();
        for record in &records {
            newest.note(record);
        }
        let kept: Vec<i64> =
            records.iter().filter(|one| newest.is_newest(one)).map(|one| one.offset).collect();
        assert_eq!(kept, [1, 2, 4, 5]);
    }
}
