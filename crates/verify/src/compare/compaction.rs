//! Records that are on one side only and may have been removed by compaction on the other.
//!
//! A cleaner removes a record only when a later one with its key is in the same log. So a record
//! that is missing on one side is *compacted* once a later record with its key is seen there, and
//! missing when none comes up to the end.

use std::collections::HashMap;

use super::{Finding, Kind};

/// How many records may wait: some 60 MB.
const PENDING_MAX: usize = 500_000;

/// What waits for a later record with its key.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Not on the target; a later one on the target explains them.
    missing: HashMap<u64, Vec<Finding>>,
    /// Not on the source; a later one on the source explains them.
    extra: HashMap<u64, Vec<Finding>>,
    held: usize,
    overflowed: u64,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.held == 0 && self.overflowed == 0
    }

    /// Takes a record that only one side has.
    pub(super) fn wait(&mut self, key: u64, finding: Finding) {
        if self.held >= PENDING_MAX {
            self.overflowed += 1;
            return;
        }
        self.held += 1;
        let side = if finding.kind == Kind::Missing { &mut self.missing } else { &mut self.extra };
        side.entry(key).or_default().push(finding);
    }

    /// The source has a record with this key; answers how many that explains.
    pub(super) fn source_has(&mut self, key: u64) -> u64 {
        explained(&mut self.extra, &mut self.held, key)
    }

    /// The target has a record with this key; answers how many that explains.
    pub(super) fn target_has(&mut self, key: u64) -> u64 {
        explained(&mut self.missing, &mut self.held, key)
    }

    /// The source has a tombstone of this key that the target has not (any more): the target's
    /// cleaner has taken both. Answers how many that explains.
    pub(super) fn tombstone_gone(&mut self, key: u64) -> u64 {
        explained(&mut self.missing, &mut self.held, key)
    }

    /// The same the other way around.
    pub(super) fn tombstone_gone_on_source(&mut self, key: u64) -> u64 {
        explained(&mut self.extra, &mut self.held, key)
    }

    /// Those that nothing explains, by offset.
    pub(super) fn take_findings(&mut self) -> Vec<Finding> {
        self.held = 0;
        let mut left: Vec<Finding> = std::mem::take(&mut self.missing)
            .into_values()
            .chain(std::mem::take(&mut self.extra).into_values())
            .flatten()
            .collect();
        left.sort_by_key(|finding| {
            (finding.source.map_or(i64::MAX, |offset| offset.0), finding.target.map(|at| at.0))
        });
        left
    }

    /// How many there was no memory for.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed
    }
}

fn explained(side: &mut HashMap<u64, Vec<Finding>>, held: &mut usize, key: u64) -> u64 {
    if side.is_empty() {
        return 0;
    }
    let found = side.remove(&key).map_or(0, |found| found.len());
    *held -= found;
    found as u64
}
