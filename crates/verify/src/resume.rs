//! How far a comparison of everything is, so that it can be told and gone on with.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use twinlog_types::{SourceOffset, TargetOffset, TopicPartition};

use crate::compare::{Comparison, Expect, Finding, Kind, Outcome, Parts, Tally};
use crate::partition::{Job, PartitionReport};
use crate::print::SequenceHash;

/// How far everything is, told to whoever asks.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) source_bytes: Arc<AtomicU64>,
    pub(crate) target_bytes: Arc<AtomicU64>,
    /// Offsets of the source that are done, of those that are known to be there.
    done: AtomicU64,
    all: AtomicU64,
    saved: Mutex<BTreeMap<TopicPartition, Saved>>,
    found: Mutex<Vec<PartitionReport>>,
}

/// What a partition had come to when a run ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Saved {
    /// The topic on the source.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The ids of the topic and of its mirror: of one that was made again nothing is known.
    ids: (String, String),
    /// Where reading goes on on the source.
    pub source_next: i64,
    /// The same on the target.
    pub target_next: i64,
    tally: Tally,
    findings: Vec<SavedFinding>,
    first: Option<(i64, i64)>,
    last: Option<(i64, i64)>,
    /// In hexadecimal digits.
    hashes: (String, String),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct SavedFinding {
    kind: String,
    /// Key, value, headers, timestamp.
    parts: (bool, bool, bool, bool),
    source: Option<i64>,
    target: Option<i64>,
    bytes: u32,
    hash: String,
}

impl Progress {
    /// Goes on from what another run had come to.
    pub fn resumed(saved: Vec<Saved>) -> Self {
        let progress = Self::default();
        let by_partition = saved
            .into_iter()
            .map(|saved| (TopicPartition::new(saved.topic.as_str(), saved.partition), saved));
        progress.saved().extend(by_partition);
        progress
    }

    /// What every partition has come to.
    pub fn all_saved(&self) -> Vec<Saved> {
        self.saved().values().cloned().collect()
    }

    /// Bytes of batches that were read, on the source and on the target.
    pub fn bytes(&self) -> (u64, u64) {
        let load = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        (load(&self.source_bytes), load(&self.target_bytes))
    }

    /// Offsets of the source that are done, and all of the partitions that were begun.
    pub fn offsets(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }

    pub(crate) fn found(&self, report: PartitionReport) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }

    /// The reports that came in since the last call.
    pub(crate) fn take_found(&self) -> Vec<PartitionReport> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn saved(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, Saved>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn saved_of(&self, job: &Job) -> Option<Saved> {
        let saved = self.saved().get(&job.source.tp).cloned();
        saved.filter(|saved| saved.ids == job.ids)
    }

    pub(crate) fn begin(&self, job: &Job, from: i64, offsets: u64) -> Work<'_> {
        self.all.fetch_add(offsets, Ordering::Relaxed);
        let (tp, ids) = (job.source.tp.clone(), job.ids.clone());
        Work { progress: self, tp, ids, from, told: 0, offsets }
    }
}

/// One partition's part in the progress.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    progress: &'a Progress,
    tp: TopicPartition,
    ids: (String, String),
    from: i64,
    told: u64,
    offsets: u64,
}

impl Work<'_> {
    pub(crate) fn at<M: Expect>(&mut self, comparison: &Comparison<M>) {
        let Some((outcome, next)) = comparison.settled() else { return };
        self.tell((next.0 - self.from).max(0) as u64);
        let saved = Saved { ids: self.ids.clone(), ..Saved::of(&self.tp, outcome, next) };
        self.progress.saved().insert(self.tp.clone(), saved);
    }

    pub(crate) fn done(mut self) {
        self.tell(self.offsets);
    }

    fn tell(&mut self, done: u64) {
        let done = done.min(self.offsets);
        self.progress.done.fetch_add(done.saturating_sub(self.told), Ordering::Relaxed);
        self.told = self.told.max(done);
    }
}

impl Saved {
    fn of(tp: &TopicPartition, outcome: &Outcome, (source_next, target_next): (i64, i64)) -> Self {
        let pair = |pair: Option<(SourceOffset, TargetOffset)>| pair.map(|(s, t)| (s.0, t.0));
        let hex = |hash: SequenceHash| hash.to_string();
        Self {
            topic: tp.topic.to_string(),
            partition: tp.partition,
            ids: Default::default(),
            source_next,
            target_next,
            tally: outcome.tally,
            findings: outcome.findings.iter().map(SavedFinding::of).collect(),
            first: pair(outcome.first),
            last: pair(outcome.last),
            hashes: (hex(outcome.source_hash), hex(outcome.target_hash)),
        }
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let pair = |pair: Option<(i64, i64)>| {
            pair.map(|(source, target)| (SourceOffset(source), TargetOffset(target)))
        };
        let hash = |hex: &str| Some(SequenceHash::resume(u128::from_str_radix(hex, 16).ok()?));
        Some(Outcome {
            tally: self.tally,
            findings: self.findings.iter().map(SavedFinding::finding).collect::<Option<_>>()?,
            first: pair(self.first),
            last: pair(self.last),
            waits_since_ms: None,
            source_hash: hash(&self.hashes.0)?,
            target_hash: hash(&self.hashes.1)?,
        })
    }
}

impl SavedFinding {
    fn of(finding: &Finding) -> Self {
        let parts = match finding.kind {
            Kind::Different(parts) => parts,
            _ => Parts::default(),
        };
        Self {
            kind: finding.kind.word().to_owned(),
            parts: (parts.key, parts.value, parts.headers, parts.timestamp),
            source: finding.source.map(|at| at.0),
            target: finding.target.map(|at| at.0),
            bytes: finding.bytes,
            hash: format!("{:x}", finding.hash),
        }
    }

    fn finding(&self) -> Option<Finding> {
        let (key, value, headers, timestamp) = self.parts;
        let different = Kind::Different(Parts { key, value, headers, timestamp });
        let kinds = [Kind::Missing, Kind::Extra, Kind::Doubled, Kind::OutOfOrder, different];
        Some(Finding {
            kind: kinds.into_iter().find(|kind| kind.word() == self.kind)?,
            source: self.source.map(SourceOffset),
            target: self.target.map(TargetOffset),
            bytes: self.bytes,
            hash: u128::from_str_radix(&self.hash, 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_comes_back_as_it_was() {
        let finding =
            |kind, source, target| Finding { kind, source, target, bytes: 7, hash: 1 << 99 };
        let parts = Parts { value: true, timestamp: true, ..Parts::default() };
        let outcome = Outcome {
            tally: Tally { equal: 5, displaced: 2, ..Tally::default() },
            findings: vec![
                finding(Kind::Missing, Some(SourceOffset(3)), None),
                finding(Kind::Different(parts), Some(SourceOffset(4)), Some(TargetOffset(1))),
            ],
            first: Some((SourceOffset(0), TargetOffset(0))),
            last: Some((SourceOffset(9), TargetOffset(8))),
            waits_since_ms: None,
            source_hash: SequenceHash::resume(u128::MAX),
            target_hash: SequenceHash::resume(3),
        };
        let tp = TopicPartition::new("orders", 2);
        let saved = Saved::of(&tp, &outcome, (10, 9));
        assert_eq!(saved.outcome(), Some(outcome));
        assert_eq!((saved.source_next, saved.target_next), (10, 9));
    }
}
