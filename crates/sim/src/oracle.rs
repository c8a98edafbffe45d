//! What was written where, as the writers know it; and what a plain reader of the target saw.
//!
//! The oracle shares no code with the product: it hands out numbers, remembers what each record
//! looked like when the source acknowledged it, and finds a record on the target by the number in
//! its first header.

use std::collections::BTreeMap;

use bytes::Bytes;
use twinlog_embedded::{Header, NewRecord, Record};

/// The header that carries a record's number.
pub const NUMBER: &str = "number";

/// A partition of the source, by topic and number.
pub type Place = (String, i32);

/// What became of a record on the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Readable for everybody.
    Committed,
    /// Of a transaction that was aborted.
    Aborted,
    /// Of a transaction that is open.
    Open,
}

/// A record that the source acknowledged.
#[derive(Clone, Debug)]
pub struct Written {
    /// Unique within its partition, through all lives of the topic.
    pub number: u64,
    /// Where it lies on the source.
    pub offset: i64,
    /// What it must look like for a reader.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers, in order.
    pub headers: Vec<Header>,
    /// As a consumer of the source sees it.
    pub timestamp: i64,
    /// Committed or not.
    pub fate: Fate,
    /// The source lost it after it was acknowledged (unclean election).
    pub lost: bool,
    /// Which life of the topic it belongs to.
    pub life: u32,
}

/// Everything written to one partition of the source.
#[derive(Clone, Debug, Default)]
pub struct SourceLog {
    /// In the order of writing.
    pub records: Vec<Written>,
    /// Nothing below is left, by retention or DeleteRecords.
    pub start: i64,
    /// Whether the cleaner may take records that have a newer one of the same key.
    pub compacted: bool,
    /// Which life of the topic this is; it was deleted and made again so often.
    pub life: u32,
    next: u64,
}

impl SourceLog {
    /// The number for the next record.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Notes records that were acknowledged at `base` and after it.
    pub fn acknowledged(&mut self, base: i64, records: &[NewRecord], timestamp: i64, fate: Fate) {
        let life = self.life;
        for (index, record) in records.iter().enumerate() {
            self.records.push(Written {
                number: number_of(&record.headers).unwrap_or_default(),
                offset: base + index as i64,
                key: record.key.clone(),
                value: record.value.clone(),
                headers: record.headers.clone(),
                timestamp: record.timestamp.unwrap_or(timestamp),
                fate,
                lost: false,
                life,
            });
        }
    }

    /// The record with this number.
    pub fn find(&self, number: u64) -> Option<&Written> {
        let at = self.records.binary_search_by_key(&number, |record| record.number).ok()?;
        self.records.get(at)
    }

    /// The fate of the records at these offsets is known now.
    pub fn decided(&mut self, base: i64, count: usize, fate: Fate) {
        let life = self.life;
        let range = base..base + count as i64;
        for record in self.records.iter_mut().rev() {
            if record.life == life && !record.lost && range.contains(&record.offset) {
                record.fate = fate;
            }
        }
    }

    /// The source lost everything at and above `end`.
    pub fn truncated(&mut self, end: i64) {
        let life = self.life;
        for record in self.records.iter_mut().filter(|record| record.life == life) {
            record.lost |= record.offset >= end;
        }
    }

    /// What must arrive on the target: committed and not lost, in order.
    pub fn expected(&self) -> impl Iterator<Item = &Written> {
        self.records.iter().filter(|record| record.fate == Fate::Committed && !record.lost)
    }
}

/// The number that a record carries.
pub fn number_of(headers: &[Header]) -> Option<u64> {
    let (key, value) = headers.first()?;
    if key != NUMBER.as_bytes() {
        return None;
    }
    std::str::from_utf8(value.as_deref()?).ok()?.parse().ok()
}

/// A record of the target that was recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Where it lies on the target.
    pub target: i64,
    /// Its number.
    pub number: u64,
    /// Where it lies on the source.
    pub source: i64,
}

/// What a plain reader has seen of one partition of the target.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    /// In the order of the target.
    pub seen: Vec<Seen>,
    /// How often each number stands there.
    pub times: BTreeMap<u64, u32>,
    /// The furthest that it has come on the source.
    pub highest: Option<i64>,
    /// The next offset to read.
    pub next: i64,
    /// The furthest that its log ever reached.
    pub longest: i64,
    /// The life of the topic that its records are of.
    pub life: Option<u32>,
}

impl Mirror {
    /// Takes a record in; the caller has judged it.
    pub fn take(&mut self, record: &Record, written: &Written) {
        let (target, number, source) = (record.offset, written.number, written.offset);
        self.seen.push(Seen { target, number, source });
        *self.times.entry(number).or_default() += 1;
        self.highest = self.highest.max(Some(source));
        self.longest = self.longest.max(target + 1);
        self.life.get_or_insert(written.life);
    }

    /// The target lost everything at and above `end`.
    pub fn truncated(&mut self, end: i64) {
        let kept = self.seen.iter().take_while(|seen| seen.target < end).count();
        for lost in self.seen.drain(kept..) {
            if let Some(times) = self.times.get_mut(&lost.number) {
                *times = times.saturating_sub(1);
            }
        }
        self.times.retain(|_, times| *times > 0);
        self.highest = self.seen.iter().map(|seen| seen.source).max();
        self.next = self.next.min(end);
    }

    /// Where a consumer goes on that would go on at `position` on the source, by contents alone:
    /// the first record from there on, or the end.
    pub fn place_of(&self, position: i64) -> i64 {
        let at = self.seen.partition_point(|seen| seen.source < position);
        self.seen.get(at).map_or(self.next, |seen| seen.target)
    }

    /// The records below `target`, and the others.
    pub fn around(&self, target: i64) -> (&[Seen], &[Seen]) {
        self.seen.split_at(self.seen.partition_point(|seen| seen.target < target))
    }
}
