//! What the demo itself wrote, and so what a group must read next: the judge of the drill.
//!
//! Does not: know offset maps, copies or anything that twinlog found out. A group's place on the
//! target is right when the records read from there are the ones that are due here.
//!
//! # Invariants
//!
//! 1. Only records that a consumer of the source would see are kept: no aborted ones, none that
//!    compaction removed.
//! 2. A record is named by its topic, partition and number, and says so in its value.

use std::collections::BTreeMap;
use std::slice;

use serde::Serialize;
use twinlog_embedded::NewRecord;

/// Topic and partition on the cluster that is written to.
pub(super) type Place = (&'static str, i32);

/// The topic that is compacted.
pub(super) const COMPACTED: &str = "profiles";

/// One record that a consumer would see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    offset: i64,
    number: u64,
}

/// The records of one partition.
#[derive(Clone, Debug, Default)]
struct Book {
    /// How many records were numbered, aborted ones included.
    numbered: u64,
    /// By offset.
    kept: Vec<Entry>,
}

/// What was written to one cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    books: BTreeMap<Place, Book>,
}

/// The contents of a record, as people see them.
fn name((topic, partition): Place, number: u64) -> String {
    format!("{topic}-{partition} #{number}")
}

/// Every third record of the compacted topic has a key of its own and stays, the others have one of
/// seven keys.
fn key((topic, _): Place, number: u64) -> String {
    if topic == COMPACTED && !number.is_multiple_of(3) {
        format!("hot-{}", number % 7)
    } else {
        format!("key-{number}")
    }
}

impl Ledger {
    /// The next `count` records of a partition; they get their numbers here.
    pub(super) fn next(&mut self, place: Place, count: u64) -> Vec<NewRecord> {
        let book = self.books.entry(place).or_default();
        let first = book.numbered + 1;
        book.numbered += count;
        let records = (first..first + count)
            .map(|number| NewRecord::new(key(place, number), name(place, number)));
        records.collect()
    }

    /// The last `count` records lie at `offset` and behind it, and consumers see them.
    pub(super) fn written(&mut self, place: Place, offset: i64, count: u64) {
        let book = self.books.entry(place).or_default();
        let first = book.numbered + 1 - count;
        book.kept.extend(
            (offset..).zip(first..first + count).map(|(offset, number)| Entry { offset, number }),
        );
    }

    /// The cleaner ran over everything: of each key the newest record stays.
    pub(super) fn compacted(&mut self, place: Place) {
        let Some(book) = self.books.get_mut(&place) else { return };
        let newest: BTreeMap<String, u64> =
            book.kept.iter().map(|entry| (key(place, entry.number), entry.number)).collect();
        book.kept.retain(|entry| newest.get(&key(place, entry.number)) == Some(&entry.number));
    }

    /// How many records a consumer would see.
    pub(super) fn count(&self, place: Place) -> u64 {
        self.books.get(&place).map_or(0, |book| book.kept.len() as u64)
    }

    /// Where a consumer stands that has `behind` records to read.
    pub(super) fn behind(&self, place: Place, behind: usize) -> i64 {
        let kept = self.books.get(&place).map_or(&[][..], |book| &book.kept);
        match kept.get(kept.len().saturating_sub(behind)) {
            Some(entry) => entry.offset,
            None => kept.last().map_or(0, |last| last.offset + 1),
        }
    }

    /// What a consumer reads that stands at `offset`.
    pub(super) fn replay(&self, place: Place, offset: i64) -> Replay<'_> {
        let kept = self.books.get(&place).map_or(&[][..], |book| &book.kept);
        let from = kept.partition_point(|entry| entry.offset < offset);
        Replay { place, due: kept[from..].iter(), outcome: Outcome::new(place, &kept[from..]) }
    }
}

/// Compares what is read with what is due, record by record.
pub(super) struct Replay<'a> {
    place: Place,
    due: slice::Iter<'a, Entry>,
    outcome: Outcome,
}

/// What came of reading on from a place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Outcome {
    /// The record that is due, as the source's writer knows it; nothing at the end.
    pub(super) due_record: Option<String>,
    /// The record that was read first.
    pub(super) resumed_record: Option<String>,
    /// How many records are due.
    pub(super) due: u64,
    /// How many of them were read, in order, before anything else or the end came.
    pub(super) read: u64,
    /// The first record that is another one than the due one.
    pub(super) wrong_record: Option<String>,
}

/// What an outcome means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The due record came first, and only due records in order came after it.
    Exact,
    /// Another record came, first or later.
    Wrong,
    /// A record is due, and none came.
    Nothing,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Wrong => "wrong-record",
            Self::Nothing => "nothing-read",
        }
    }
}

impl Outcome {
    fn new(place: Place, due: &[Entry]) -> Self {
        Self {
            due_record: due.first().map(|entry| name(place, entry.number)),
            resumed_record: None,
            due: due.len() as u64,
            read: 0,
            wrong_record: None,
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        if self.wrong_record.is_some() {
            Verdict::Wrong
        } else if self.resumed_record == self.due_record {
            Verdict::Exact
        } else {
            Verdict::Nothing
        }
    }
}

impl Replay<'_> {
    /// The next record that was read.
    pub(super) fn take(&mut self, value: Option<&[u8]>) {
        let outcome = &mut self.outcome;
        if outcome.wrong_record.is_some() {
            return;
        }
        let due = self.due.next().map(|entry| name(self.place, entry.number));
        let value = value.unwrap_or_default();
        let right = due.as_ref().is_some_and(|due| due.as_bytes() == value);
        if outcome.resumed_record.is_none() || !right {
            let read = String::from_utf8_lossy(value).into_owned();
            if !right {
                outcome.wrong_record = Some(read.clone());
            }
            outcome.resumed_record.get_or_insert(read);
        }
        outcome.read += u64::from(right);
    }

    pub(super) fn end(self) -> Outcome {
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: Place = ("orders", 0);

    /// Ten records from offset 700 on, the third to fifth aborted.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.next(ORDERS, 2);
        ledger.written(ORDERS, 700, 2);
        ledger.next(ORDERS, 3);
        ledger.next(ORDERS, 5);
        ledger.written(ORDERS, 705, 5);
        ledger
    }

    fn read(ledger: &Ledger, offset: i64, numbers: &[u64]) -> Outcome {
        let mut replay = ledger.replay(ORDERS, offset);
        for &number in numbers {
            replay.take(Some(name(ORDERS, number).as_bytes()));
        }
        replay.end()
    }

    #[test]
    fn a_group_in_aborted_records_is_due_the_next_committed_one() {
        let outcome = read(&ledger(), 703, &[6, 7, 8, 9, 10]);
        assert_eq!(outcome.due_record.as_deref(), Some("orders-0 #6"));
        assert_eq!((outcome.verdict(), outcome.read, outcome.due), (Verdict::Exact, 5, 5));
    }

    #[test]
    fn a_place_that_is_one_record_off_is_wrong() {
        let (early, late) = (read(&ledger(), 706, &[6, 7, 8]), read(&ledger(), 706, &[8, 9, 10]));
        for outcome in [early, late] {
            assert_eq!(outcome.verdict(), Verdict::Wrong);
            assert_eq!(outcome.due_record.as_deref(), Some("orders-0 #7"));
            assert_eq!(outcome.resumed_record, outcome.wrong_record);
            assert_eq!(outcome.read, 0);
        }
    }

    #[test]
    fn a_record_that_is_missing_or_comes_twice_later_on_is_wrong() {
        for numbers in [[1, 2, 7], [1, 2, 2]] {
            let outcome = read(&ledger(), 700, &numbers);
            assert_eq!(outcome.verdict(), Verdict::Wrong);
            assert_eq!(outcome.resumed_record.as_deref(), Some("orders-0 #1"));
            assert_eq!(outcome.read, 2);
        }
        assert_eq!(read(&ledger(), 710, &[10]).verdict(), Verdict::Wrong, "nothing is due");
    }

    #[test]
    fn records_that_the_source_took_with_it_are_due_and_not_read() {
        let outcome = read(&ledger(), 700, &[1, 2, 6]);
        assert_eq!((outcome.verdict(), outcome.due, outcome.read), (Verdict::Exact, 7, 3));
        assert_eq!(read(&ledger(), 709, &[]).verdict(), Verdict::Nothing);
        assert_eq!(read(&ledger(), 710, &[]).verdict(), Verdict::Exact, "nothing was due");
    }

    #[test]
    fn of_a_compacted_key_the_newest_record_is_due() {
        let place = (COMPACTED, 0);
        let mut ledger = Ledger::default();
        ledger.next(place, 30);
        ledger.written(place, 700, 30);
        ledger.compacted(place);
        ledger.next(place, 2);
        ledger.written(place, 730, 2);
        // Numbers 3, 6, ... 30 have keys of their own. The newest of the seven hot keys (number
        // modulo 7) that are not multiples of 3 are 29, 28, 26, 25, 23, 20 and 17.
        let numbers: Vec<u64> =
            ledger.books[&place].kept.iter().map(|entry| entry.number).collect();
        let expected = [3, 6, 9, 12, 15, 17, 18, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32];
        assert_eq!(numbers, expected);
        assert_eq!(ledger.replay(place, 703).end().due_record.as_deref(), Some("profiles-0 #6"));
    }

    #[test]
    fn a_consumer_that_has_read_everything_stands_behind_the_last_record() {
        let ledger = ledger();
        assert_eq!(ledger.behind(ORDERS, 0), 710);
        assert_eq!(ledger.behind(ORDERS, 1), 709);
        assert_eq!(ledger.behind(ORDERS, 6), 701);
    }
}
