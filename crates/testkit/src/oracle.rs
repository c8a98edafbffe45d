//! Judges a mirror by contents alone.
//!
//! Both clusters are read with Kafka's own consumer (`read_committed`) into a [`Dump`] of digests; what a
//! mirror must be follows from the two dumps and nothing else: no offset map, no checkpoint.
//!
//! # Invariants
//!
//! 1. A mirror is faithful when each partition holds the same sequence of key, value, headers and
//!    timestamp. Offsets may differ, and null differs from empty.
//! 2. The right translation of a committed offset is the place, on the target, of the first source record
//!    at or after it. It is found by content, counting repeats, so a shifted copy cannot look right.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::num::ParseIntError;
use std::path::Path;

use crate::error::{Error, IoContext as _, Result};

/// How many findings per kind a report shows in full.
const SHOWN: usize = 5;

/// What a record is made of, as digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content {
    /// Timestamp in milliseconds.
    pub timestamp: i64,
    /// Digest of the key; nothing for null.
    pub key: Option<u64>,
    /// Digest of the value; nothing for null.
    pub value: Option<u64>,
    /// Digest of the headers in their order.
    pub headers: u64,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where it stands.
    pub offset: i64,
    /// Its number in its partition, where [`crate::Workload`] wrote it.
    pub number: Option<i64>,
    /// What it is made of.
    pub content: Content,
}

/// One partition as a consumer sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Its log start offset.
    pub start: i64,
    /// One past its last stable offset's end: the high watermark, or the last stable offset.
    pub end: i64,
    /// Its records in order.
    pub rows: Vec<Row>,
}

/// Partitions by topic and number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The partitions.
    pub logs: BTreeMap<(String, i32), Log>,
}

impl Dump {
    /// Reads what the Java reader wrote: `P topic partition start end`, then its records as
    /// `offset timestamp key value headers number`, digests in hexadecimal and `-` for nothing.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
        Self::parse(&text)
            .map_err(|detail| Error::Malformed { what: path.display().to_string(), detail })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut dump = Self::default();
        let mut current: Option<&mut Log> = None;
        for (index, line) in text.lines().enumerate() {
            let bad = || format!("line {}: {line:?}", index + 1);
            let fields: Vec<&str> = line.split(' ').collect();
            match fields[..] {
                ["P", topic, partition, start, end] => {
                    let partition = partition.parse().map_err(|_| bad())?;
                    let log = dump.logs.entry((topic.to_owned(), partition)).or_default();
                    log.start = start.parse().map_err(|_| bad())?;
                    log.end = end.parse().map_err(|_| bad())?;
                    current = Some(log);
                }
                [offset, timestamp, key, value, headers, number] => {
                    let row = parse_row([offset, timestamp, key, value, headers, number]);
                    let log = current.as_mut().ok_or_else(bad)?;
                    log.rows.push(row.ok_or_else(bad)?);
                }
                _ => return Err(bad()),
            }
        }
        Ok(dump)
    }

    /// One partition.
    pub fn log(&self, topic: &str, partition: i32) -> Option<&Log> {
        self.logs.get(&(topic.to_owned(), partition))
    }

    /// How many records it has.
    pub fn records(&self) -> usize {
        self.logs.values().map(|log| log.rows.len()).sum()
    }
}

fn parse_row(fields: [&str; 6]) -> Option<Row> {
    let [offset, timestamp, key, value, headers, number] = fields;
    Some(Row {
        offset: offset.parse().ok()?,
        number: unless_dash(number, str::parse).ok()?,
        content: Content {
            timestamp: timestamp.parse().ok()?,
            key: unless_dash(key, digest).ok()?,
            value: unless_dash(value, digest).ok()?,
            headers: digest(headers).ok()?,
        },
    })
}

fn digest(field: &str) -> Result<u64, ParseIntError> {
    u64::from_str_radix(field, 16)
}

fn unless_dash<T, E>(
    field: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, E> {
    if field == "-" { Ok(None) } else { parse(field).map(Some) }
}

/// How a mirrored partition differs from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A source record that is not there.
    Lost(Row),
    /// A record that is there more often than on the source; the row is the target's.
    Doubled(Row),
    /// A record whose number or place matches, but not its contents.
    Different {
        /// The source's record.
        source: Row,
        /// The target's record.
        target: Row,
    },
    /// A record that the source never had; the row is the target's.
    Foreign(Row),
    /// All records are there, and this is the first one that is out of order; the row is the target's.
    Reordered(Row),
}

/// All differences of all partitions. Empty when the mirror is faithful.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Differences by source topic and partition.
    pub differences: BTreeMap<(String, i32), Vec<Difference>>,
    /// How many source records were compared.
    pub compared: usize,
}

impl Report {
    /// Whether the mirror is faithful.
    pub fn is_faithful(&self) -> bool {
        self.differences.is_empty()
    }

    /// Fails with the whole report unless the mirror is faithful.
    pub fn check(&self) -> Result<()> {
        if self.is_faithful() {
            return Ok(());
        }
        Err(Error::Malformed { what: "the mirror".to_owned(), detail: self.to_string() })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} records compared", self.compared)?;
        for ((topic, partition), differences) in &self.differences {
            writeln!(f, "{topic}-{partition}: {} differences", differences.len())?;
            for difference in differences.iter().take(SHOWN) {
                writeln!(f, "  {difference:?}")?;
            }
        }
        Ok(())
    }
}

/// Compares every partition of `source` with its mirror, whose topic `mirror` names.
pub fn compare(source: &Dump, target: &Dump, mirror: impl Fn(&str) -> String) -> Report {
    let mut report = Report::default();
    let absent = Log::default();
    for ((topic, partition), log) in &source.logs {
        let mirrored = target.log(&mirror(topic), *partition).unwrap_or(&absent);
        report.compared += log.rows.len();
        let differences = compare_logs(log, mirrored);
        if !differences.is_empty() {
            report.differences.insert((topic.clone(), *partition), differences);
        }
    }
    report
}

/// Compares one partition with its mirror.
pub fn compare_logs(source: &Log, target: &Log) -> Vec<Difference> {
    let same = source.rows.len() == target.rows.len()
        && source.rows.iter().zip(&target.rows).all(|(s, t)| s.content == t.content);
    if same {
        return Vec::new();
    }
    let mut left: HashMap<Content, usize> = HashMap::new();
    for row in &source.rows {
        *left.entry(row.content).or_default() += 1;
    }
    let known: HashMap<Content, usize> = left.clone();
    // Target records beyond what the source has of the same content.
    let mut surplus = Vec::new();
    for row in &target.rows {
        match left.get_mut(&row.content) {
            Some(count) if *count > 0 => *count -= 1,
            _ => surplus.push(*row),
        }
    }
    // From the end: of several equal source records, the last ones are the missing ones.
    let mut missing = Vec::new();
    for row in source.rows.iter().rev() {
        if let Some(count) = left.get_mut(&row.content).filter(|count| **count > 0) {
            *count -= 1;
            missing.push(*row);
        }
    }
    missing.reverse();

    let mut differences = Vec::new();
    for row in surplus {
        let twin = missing.iter().position(|m| m.number.is_some() && m.number == row.number);
        differences.push(if known.contains_key(&row.content) {
            Difference::Doubled(row)
        } else if let Some(twin) = twin {
            Difference::Different { source: missing.remove(twin), target: row }
        } else {
            Difference::Foreign(row)
        });
    }
    differences.extend(missing.into_iter().map(Difference::Lost));
    if differences.is_empty() {
        let pairs = source.rows.iter().zip(&target.rows);
        let first = pairs.filter(|(s, t)| s.content != t.content).map(|(_, t)| *t).next();
        differences.extend(first.map(Difference::Reordered));
    }
    differences
}

/// Where a consumer that has committed a source offset must go on, on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// At this record.
    Record {
        /// Its target offset: the exact translation.
        offset: i64,
        /// Its number, to compare with what a consumer then reads.
        number: Option<i64>,
    },
    /// The source has no further record: anywhere past the last copied one, up to the log end.
    End {
        /// One past the last record on the target: the exact translation.
        offset: i64,
        /// The end of the target's log, which lies further where markers stand at its end.
        log_end: i64,
    },
    /// The next record is not on the target (not copied yet, or lost).
    Missing {
        /// The source record.
        source: Row,
    },
}

impl Expected {
    /// Whether a committed target offset reads the right record next. `before`, in a log with holes, also
    /// does: no record lies between it and the exact place.
    pub fn reads_right(&self, committed: i64, target: &Log) -> bool {
        let next = target.rows.iter().find(|row| row.offset >= committed).map(|row| row.offset);
        match *self {
            Self::Record { offset, .. } => next == Some(offset),
            Self::End { log_end, .. } => next.is_none() && committed <= log_end,
            Self::Missing { .. } => false,
        }
    }

    /// Whether a committed target offset is the exact one.
    pub fn is_exactly(&self, committed: i64) -> bool {
        match *self {
            Self::Record { offset, .. } | Self::End { offset, .. } => committed == offset,
            Self::Missing { .. } => false,
        }
    }
}

/// The right translation of a committed source offset, by contents.
pub fn translate(source: &Log, target: &Log, committed: i64) -> Expected {
    let Some(index) = source.rows.iter().position(|row| row.offset >= committed) else {
        let offset = target.rows.last().map_or(target.start, |row| row.offset + 1);
        return Expected::End { offset, log_end: target.end };
    };
    let wanted = source.rows[index];
    let repeats = source.rows[..index].iter().filter(|row| row.content == wanted.content).count();
    let found = target.rows.iter().filter(|row| row.content == wanted.content).nth(repeats);
    match found {
        Some(row) => Expected::Record { offset: row.offset, number: row.number },
        None => Expected::Missing { source: wanted },
    }
}

/// What a consumer gets twice or never that goes on at another place than its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misplaced {
    /// Records before its place, which it reads a second time.
    pub reread: usize,
    /// Records from its place on, which it never reads.
    pub skipped: usize,
}

impl Expected {
    /// What goes wrong for a group that stands at `committed` in `target`; nothing where its next
    /// record is not on the target at all.
    pub fn misplaced(&self, committed: i64, target: &Log) -> Option<Misplaced> {
        let place = match *self {
            Self::Record { offset, .. } | Self::End { offset, .. } => offset,
            Self::Missing { .. } => return None,
        };
        let between = |from: i64, to: i64| {
            target.rows.iter().filter(|row| (from..to).contains(&row.offset)).count()
        };
        Some(Misplaced { reread: between(committed, place), skipped: between(place, committed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(offset: i64, number: i64) -> Row {
        let content = Content { timestamp: 0, key: None, value: Some(number as u64), headers: 0 };
        Row { offset, number: Some(number), content }
    }

    fn log(rows: &[(i64, i64)]) -> Log {
        let rows: Vec<Row> = rows.iter().map(|&(offset, number)| row(offset, number)).collect();
        let end = rows.last().map_or(0, |row| row.offset + 1);
        Log { start: 0, end, rows }
    }

    #[test]
    fn shifted_offsets_are_faithful() {
        assert_eq!(compare_logs(&log(&[(0, 0), (5, 1)]), &log(&[(3, 0), (4, 1)])), []);
    }

    #[test]
    fn lost_doubled_foreign_different_and_reordered_are_told_apart() {
        let source = log(&[(0, 0), (1, 1), (2, 2)]);
        assert_eq!(compare_logs(&source, &log(&[(0, 0), (1, 2)])), [Difference::Lost(row(1, 1))]);
        assert_eq!(
            compare_logs(&source, &log(&[(0, 0), (1, 1), (2, 1), (3, 2)])),
            [Difference::Doubled(row(2, 1))]
        );
        assert_eq!(
            compare_logs(&source, &log(&[(0, 0), (1, 1), (2, 2), (3, 9)])),
            [Difference::Foreign(row(3, 9))]
        );
        assert_eq!(
            compare_logs(&source, &log(&[(0, 0), (1, 2), (2, 1)])),
            [Difference::Reordered(row(1, 2))]
        );
        let mut changed = source.clone();
        changed.rows[1].content.key = Some(0);
        assert_eq!(
            compare_logs(&source, &changed),
            [Difference::Different { source: row(1, 1), target: changed.rows[1] }]
        );
    }

    #[test]
    fn a_null_differs_from_an_empty_one() {
        let text = "P a 0 0 1\n0 0 - 0 0 -\n";
        let (null, empty) = (text.to_owned(), text.replace("- 0 0 -", "0 0 0 -"));
        let (null, empty) = (Dump::parse(&null).unwrap(), Dump::parse(&empty).unwrap());
        assert!(!compare(&null, &empty, str::to_owned).is_faithful());
    }

    #[test]
    fn a_missing_partition_is_a_lost_one() {
        let source = Dump { logs: BTreeMap::from([(("a".to_owned(), 0), log(&[(0, 0)]))]) };
        let report = compare(&source, &Dump::default(), |topic| format!("hello.{topic}"));
        assert_eq!(report.differences[&("a".to_owned(), 0)], [Difference::Lost(row(0, 0))]);
        assert!(report.check().is_err());
    }

    #[test]
    fn a_commit_in_a_hole_translates_to_the_next_record() {
        let (source, target) = (log(&[(0, 0), (7, 1), (8, 2)]), log(&[(100, 0), (101, 1)]));
        let second = Expected::Record { offset: 101, number: Some(1) };
        assert_eq!(translate(&source, &target, 3), second);
        assert_eq!(translate(&source, &target, 7), second);
        assert_eq!(translate(&source, &target, 8), Expected::Missing { source: row(8, 2) });
        assert_eq!(translate(&source, &target, 9), Expected::End { offset: 102, log_end: 102 });
    }

    #[test]
    fn repeated_contents_are_counted() {
        let (source, target) = (log(&[(0, 4), (1, 4), (2, 4)]), log(&[(10, 4), (11, 4), (12, 4)]));
        assert_eq!(
            translate(&source, &target, 1),
            Expected::Record { offset: 11, number: Some(4) }
        );
    }

    #[test]
    fn a_place_just_before_a_hole_reads_right_but_is_not_exact() {
        let (source, target) = (log(&[(0, 0), (1, 1)]), log(&[(0, 0), (5, 1)]));
        let expected = translate(&source, &target, 1);
        assert!(expected.reads_right(3, &target) && !expected.is_exactly(3));
        assert!(expected.reads_right(5, &target) && expected.is_exactly(5));
        assert!(!expected.reads_right(0, &target) && !expected.reads_right(6, &target));
    }

    #[test]
    fn a_malformed_dump_names_its_line() {
        assert_eq!(Dump::parse("P a 0 0 1\nx"), Err("line 2: \"x\"".to_owned()));
        assert_eq!(Dump::parse("0 0 - - 0 -"), Err("line 1: \"0 0 - - 0 -\"".to_owned()));
    }

    #[test]
    fn records_that_are_read_again_or_skipped_are_counted_not_offsets() {
        let source = log(&[(0, 0), (4, 1), (5, 2), (9, 3)]);
        let target = log(&[(0, 0), (3, 1), (4, 2), (6, 3)]);
        let cost = |committed, at| translate(&source, &target, committed).misplaced(at, &target);
        let wrong = |reread, skipped| Some(Misplaced { reread, skipped });
        assert_eq!(cost(5, 4), wrong(0, 0));
        assert_eq!(cost(5, 1), wrong(1, 0));
        assert_eq!(cost(5, 0), wrong(2, 0));
        assert_eq!(cost(3, 5), wrong(0, 2));
        assert_eq!(cost(10, 5), wrong(1, 0));
        assert_eq!(cost(9, 9), wrong(0, 1));
        assert_eq!(translate(&source, &log(&[(0, 0)]), 5).misplaced(0, &target), None);
    }
}
