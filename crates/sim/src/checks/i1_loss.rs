//! I1: every record that was readable is on the target, or lies in a range that the ledger names;
//! and the ledger names nothing that was not lost.

use std::collections::BTreeMap;

use super::Stopped;
use crate::oracle::{Mirror, SourceLog, Written};

const GAP: &str = "source-gap";
const TRUNCATED: &str = "source-truncated";

/// Whether a stop for this reason must be in the stored ledger.
pub fn is_in_ledger(code: &str) -> bool {
    [GAP, TRUNCATED].contains(&code)
}

/// The first record that is missing and that nobody has accounted for. `start` is where the product
/// says that it began to read; it may skip only what was deleted by then.
pub fn unaccounted(
    log: &SourceLog,
    mirror: &Mirror,
    stop: Option<&Stopped>,
    start: i64,
) -> Option<String> {
    let newest = newest_of_keys(log);
    let stop = stop.filter(|stop| is_in_ledger(&stop.code));
    let lost_from = stop.and_then(|stop| stop.range);
    let start = start.min(log.start);
    let missing = log.expected().find(|record| {
        let superseded = log.compacted && newest.get(&record.key) != Some(&record.number);
        let behind_stop = lost_from.is_some_and(|(from, _)| record.offset >= from);
        let known = mirror.times.contains_key(&record.number);
        !known && !superseded && !behind_stop && record.offset >= start
    })?;
    let Written { number, offset, .. } = missing;
    Some(format!("record {number} (source offset {offset}) is neither copied nor accounted for"))
}

/// What the ledger names although it was not lost.
pub fn false_loss(log: &SourceLog, mirror: &Mirror, ledger: &[Stopped]) -> Option<String> {
    ledger.iter().find_map(|stop| {
        let (from, to) = stop.range?;
        match stop.code.as_str() {
            GAP if to > log.start => Some(format!(
                "the ledger says that {from} to {} is lost, but the log starts at {}",
                to - 1,
                log.start
            )),
            GAP => {
                let there = mirror.seen.iter().find(|seen| (from..to).contains(&seen.source))?;
                Some(format!(
                    "the ledger says that {from} to {} is lost, but {} is on the target",
                    to - 1,
                    there.source
                ))
            }
            TRUNCATED if !log.records.iter().any(|record| record.lost) => {
                Some(format!("the ledger says that the source lost {from} to {}", to - 1))
            }
            _ => None,
        }
    })
}

/// Of each key the number of its newest record.
fn newest_of_keys(log: &SourceLog) -> BTreeMap<&Option<bytes::Bytes>, u64> {
    if !log.compacted {
        return BTreeMap::new();
    }
    log.expected().map(|record| (&record.key, record.number)).collect()
}
