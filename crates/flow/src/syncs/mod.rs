//! Decides which offset-syncs of a partition are written to MM2's `mm2-offset-syncs` topic.
//!
//! Does not: write them, or translate by them. Our own translation never reads this topic; MM2,
//! `RemoteClusterUtils` and everything built on them do.
//!
//! # Invariants
//!
//! 1. A sync is a pair of offsets of one and the same record, and the target has acknowledged it.
//! 2. Syncs of a partition only go forward, in both offsets; the one exception is a target that
//!    lost records, where a step back is what makes MM2's reader forget the syncs that became wrong.
//! 3. When the partition comes to rest its newest record has been synced, so that MM2's reader,
//!    which answers "one past the newest sync" there, is exact at the end.
//! 4. MM2's reader never translates ahead from what is written here: for a position between two
//!    syncs it answers one past the earlier, and no later record can lie before that.
//!
//! # References
//!
//! MM2: `OffsetSyncWriter.PartitionState` (when), `OffsetSyncStore` (the reader).

#[cfg(test)]
mod tests;

use twinlog_types::{SourceOffset, TargetOffset};

/// The place of one record on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncPair {
    /// Where the record is on the source.
    pub source: SourceOffset,
    /// Where the same record is on the target.
    pub target: TargetOffset,
}

/// Records that the target acknowledged and that have no hole between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The first record.
    pub first: SyncPair,
    /// How many records, at least one.
    pub records: u64,
}

impl Stretch {
    /// The last record.
    pub fn last(&self) -> SyncPair {
        let further = self.records.saturating_sub(1);
        SyncPair {
            source: self.first.source.plus(further),
            target: self.first.target.plus(further),
        }
    }
}

/// The policy's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncRules {
    /// `offset.lag.max`: after so many records without a sync the next one gets one.
    pub lag_max: u64,
    /// How far apart syncs are that are written for new runs only: transactions and compaction
    /// begin runs all the time, and MM2's reader keeps 64 syncs of a partition at most.
    pub run_interval_ms: i64,
}

/// Syncs inside one stretch at most, so that a fast catch-up does not drown the topic.
const STRETCH_SYNCS_MAX: u64 = 16;

/// The syncs of one partition.
#[derive(Clone, Debug)]
pub struct SyncEmitter {
    rules: SyncRules,
    /// The newest acknowledged record.
    newest: Option<SyncPair>,
    /// The newest sync asked for.
    written: Option<SyncPair>,
    written_ms: i64,
    /// The newest sync did not arrive.
    lost: bool,
    /// A run began and its sync was put off.
    owed: bool,
    /// Every record was lost: syncs up to this source offset are around and wrong.
    forget_to: Option<SourceOffset>,
    /// The sync that MM2's reader must be taken back to, once there is a later record.
    back_to: Option<SyncPair>,
}

impl SyncEmitter {
    /// A partition of which this process has not written a sync yet. Its first acknowledged record
    /// gets one, as the first record of a task of MM2 does.
    pub fn new(rules: SyncRules) -> Self {
        Self {
            rules,
            newest: None,
            written: None,
            written_ms: i64::MIN,
            lost: false,
            owed: false,
            forget_to: None,
            back_to: None,
        }
    }

    /// A partition that begins anew (a topic that was made again, a reset): syncs of its earlier
    /// life are around and wrong.
    pub fn anew(rules: SyncRules) -> Self {
        Self { forget_to: Some(SourceOffset(i64::MIN)), ..Self::new(rules) }
    }

    /// Takes note of acknowledged records, in order. Answers the syncs to be written, in order.
    ///
    /// # Panics
    ///
    /// When the stretch is empty or does not come after the previous one: a bug of the caller.
    pub fn acknowledged(&mut self, stretch: Stretch, now_ms: i64) -> Vec<SyncPair> {
        assert!(stretch.records > 0, "a stretch without records");
        let (first, last) = (stretch.first, stretch.last());
        let begins_run = match self.newest {
            None => true,
            Some(newest) => {
                assert!(
                    first.source > newest.source && first.target > newest.target,
                    "acknowledged {first:?} after {newest:?}"
                );
                first.source != newest.source.plus(1) || first.target != newest.target.plus(1)
            }
        };
        self.newest = Some(last);

        let mut out = Vec::new();
        if self.written.is_none() {
            // A smaller source offset than the reader's newest makes it forget; another does not.
            if self.forget_to.take().is_some_and(|newest| first.source >= newest) {
                self.back_to = Some(first);
            }
            self.write(first, now_ms, &mut out);
        } else if begins_run {
            if self.may_write_run(now_ms) {
                self.write(first, now_ms, &mut out);
            } else {
                self.owed = true;
            }
        }
        self.take_back(last, now_ms, &mut out);
        self.keep_lag(stretch, now_ms, &mut out);
        if self.owed && self.may_write_run(now_ms) {
            self.write(last, now_ms, &mut out);
        }
        out
    }

    /// Asks for a sync that was put off. Worth asking when time has passed.
    pub fn tick(&mut self, now_ms: i64) -> Vec<SyncPair> {
        if self.owed && self.may_write_run(now_ms) { self.rest(now_ms) } else { Vec::new() }
    }

    /// The partition came to rest: everything that was sent is acknowledged, and nothing waits.
    pub fn rest(&mut self, now_ms: i64) -> Vec<SyncPair> {
        let mut out = Vec::new();
        if let Some(newest) = self.newest
            && (self.lost || self.written != Some(newest))
        {
            self.write(newest, now_ms, &mut out);
        }
        out
    }

    /// A sync could not be written. MM2's reader stays behind; the newest record's sync is due.
    pub fn failed(&mut self) {
        self.lost = true;
        self.owed = true;
    }

    /// The target lost its end: records after `survivor` are not there any more, and will be copied
    /// again, perhaps to other offsets. Answers the sync that makes MM2's reader forget them.
    pub fn cut(&mut self, survivor: Option<SyncPair>, now_ms: i64) -> Vec<SyncPair> {
        self.newest = survivor;
        self.owed = false;
        self.back_to = None;
        let mut out = Vec::new();
        match (survivor, self.written) {
            (Some(survivor), Some(written)) if written.source <= survivor.source => {}
            (Some(survivor), written) => {
                self.write(survivor, now_ms, &mut out);
                if written.is_none() {
                    // How far the syncs of an earlier process went is not known.
                    self.back_to = Some(survivor);
                }
            }
            (None, Some(written)) => {
                self.forget_to = Some(written.source);
                self.written = None;
            }
            (None, None) => self.forget_to = Some(SourceOffset(i64::MIN)),
        }
        out
    }

    /// The newest sync asked for.
    pub fn written(&self) -> Option<SyncPair> {
        self.written
    }

    /// Takes MM2's reader back to a sync that is not smaller than all it remembers: a later one
    /// first makes it a step back, and a step back makes it forget everything else.
    fn take_back(&mut self, last: SyncPair, now_ms: i64, out: &mut Vec<SyncPair>) {
        if let Some(back) = self.back_to.take_if(|back| back.source < last.source) {
            for pair in [last, back, last] {
                self.write(pair, now_ms, out);
            }
        }
    }

    /// Writes syncs inside the stretch, so that none of its records is more than `lag_max` after one.
    fn keep_lag(&mut self, stretch: Stretch, now_ms: i64, out: &mut Vec<SyncPair>) {
        let last = stretch.last();
        let lag_max = self.rules.lag_max;
        let step = lag_max.saturating_add(1).max(stretch.records.div_ceil(STRETCH_SYNCS_MAX));
        while let Some(written) = self.written
            && last.target.since(written.target) > lag_max
        {
            let next = written.target.plus(step).max(stretch.first.target).min(last.target);
            let further = next.since(stretch.first.target);
            let source = stretch.first.source.plus(further);
            self.write(SyncPair { source, target: next }, now_ms, out);
        }
    }

    fn may_write_run(&self, now_ms: i64) -> bool {
        // Also when the clock stepped back: then nothing is known of the distance.
        now_ms < self.written_ms
            || now_ms.saturating_sub(self.written_ms) >= self.rules.run_interval_ms
    }

    fn write(&mut self, pair: SyncPair, now_ms: i64, out: &mut Vec<SyncPair>) {
        self.written = Some(pair);
        self.written_ms = now_ms;
        self.lost = false;
        self.owed = false;
        out.push(pair);
    }
}
