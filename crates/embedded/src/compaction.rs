//! One run of the log cleaner.
//!
//! Below the active segment, the last stable offset and what is younger than `min.compaction.lag.ms`,
//! only the newest record of each key stays; offsets stay what they are, so batches get holes.
//! Tombstones and the markers of transactions without data live until their batch's delete horizon,
//! which the first run that meets them sets. Batches become empty instead of vanishing where they
//! hold the last sequence or epoch of a producer, or the last offset of the run.
//!
//! Does not decide when to run, does not bound its memory by
//! `log.cleaner.dedupe.buffer.size`, and leaves batches of formats 0 and 1 as they are.
//!
//! References: `Cleaner`, `CleanedTransactionMetadata`, `MemoryRecords.filterTo`, KIP-534.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::codec::{self, Compression, Frame, Head, RawRecord};
use crate::log::{Ended, Log, Stored};

/// The settings of a topic and the moment, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaning {
    pub now: i64,
    /// `delete.retention.ms`.
    pub delete_retention: i64,
    /// `min.compaction.lag.ms`.
    pub min_lag: i64,
}

/// Runs once. `false` when nothing is dirty that may be cleaned.
pub(crate) fn clean(log: &mut Log, last_stable: i64, cleaning: Cleaning) -> bool {
    let dirty = log.cleaned().max(log.start());
    let upper = limit(log, last_stable, dirty, cleaning);
    if upper <= dirty {
        return false;
    }
    let count = log.batches().partition_point(|stored| stored.next_offset() <= upper);
    let newest = newest_offsets(log, dirty, count);
    let last_of = last_records(log);
    let mut transactions = Transactions::of(log);
    let mut gone = BTreeSet::new();
    let mut kept = Vec::new();
    for stored in &log.batches()[..count] {
        let head = stored.head;
        let discard = transactions.discards(stored);
        if discard && head.is_control() {
            gone.insert(head.base_offset);
        }
        let run = Run {
            cleaning,
            newest: &newest,
            discard,
            keep_empty: stored.next_offset() == upper
                || last_of.get(&head.producer_id).is_some_and(|last| last.is(&head)),
        };
        kept.extend(run.filtered(stored));
    }
    log.replace(0..count, kept);
    log.set_cleaned(upper);
    // Nobody needs to know any more of aborted transactions that left nothing behind.
    log.forget_ended(|ended| gone.contains(&ended.marker_offset));
    true
}

/// Which part of what is clean or may be cleaned is dirty, in bytes (`LogToClean`): the cleaner takes
/// a log on when this exceeds `min.cleanable.dirty.ratio`.
pub(crate) fn dirty_ratio(log: &Log, last_stable: i64, cleaning: Cleaning) -> f64 {
    let dirty = log.cleaned().max(log.start());
    let upper = limit(log, last_stable, dirty, cleaning);
    let batches = log.batches();
    let clean = batches.partition_point(|stored| stored.next_offset() <= dirty);
    let cleanable = batches.partition_point(|stored| stored.next_offset() <= upper);
    let bytes = |batches: &[Stored]| batches.iter().map(|stored| stored.bytes.len()).sum::<usize>();
    let (clean_bytes, all_bytes) =
        (bytes(&batches[..clean]), bytes(&batches[..cleanable.max(clean)]));
    if all_bytes == 0 { 0.0 } else { (all_bytes - clean_bytes) as f64 / all_bytes as f64 }
}

/// The end of what may be cleaned (`LogCleanerManager.cleanableOffsets`).
fn limit(log: &Log, last_stable: i64, dirty: i64, cleaning: Cleaning) -> i64 {
    let segments = log.segments();
    let Some((active, closed)) = segments.split_last() else { return dirty };
    let limit = last_stable.min(active.base);
    if cleaning.min_lag <= 0 {
        return limit;
    }
    let too_young = cleaning.now.saturating_sub(cleaning.min_lag);
    closed
        .iter()
        .filter(|segment| segment.end > dirty)
        .find(|segment| segment.largest_timestamp > too_young)
        .map_or(limit, |segment| limit.min(segment.base))
}

/// The newest offset of each key in what is dirty. Aborted records do not count.
fn newest_offsets(log: &Log, dirty: i64, count: usize) -> BTreeMap<Bytes, i64> {
    let mut newest = BTreeMap::new();
    let mut transactions = Transactions::of(log);
    for stored in &log.batches()[..count] {
        if transactions.discards(stored) || stored.head.is_control() {
            continue;
        }
        for record in stored.records() {
            let offset = stored.head.base_offset + i64::from(record.offset_delta);
            if let Some(key) = record.key.filter(|_| offset >= dirty) {
                newest.insert(key, offset);
            }
        }
    }
    newest
}

/// What must stay of a producer: the batch with its last sequence, or, where a marker has raised
/// its epoch since, the marker.
struct LastRecord {
    offset: Option<i64>,
    epoch: i16,
}

impl LastRecord {
    fn is(&self, head: &Head) -> bool {
        match self.offset {
            Some(offset) => head.last_offset() == offset,
            None => head.is_control() && head.producer_epoch == self.epoch,
        }
    }
}

fn last_records(log: &Log) -> BTreeMap<i64, LastRecord> {
    let last = log.producers.iter().map(|(id, producer)| {
        let offset = producer.batches.back().map(|known| known.last_offset);
        (id, LastRecord { offset, epoch: producer.epoch })
    });
    last.collect()
}

/// Which transactions a run has met (`CleanedTransactionMetadata`).
struct Transactions {
    /// Aborted ones that were not reached, the first one last.
    aborted: Vec<Ended>,
    /// Producers in an aborted transaction, and whether data of it was met.
    ongoing_aborted: BTreeMap<i64, bool>,
    ongoing: BTreeSet<i64>,
}

impl Transactions {
    fn of(log: &Log) -> Self {
        let mut aborted: Vec<Ended> = log.aborted(log.start(), i64::MAX).collect();
        aborted.sort_by_key(|ended| std::cmp::Reverse(ended.first_offset));
        Self { aborted, ongoing_aborted: BTreeMap::new(), ongoing: BTreeSet::new() }
    }

    /// Takes the next batch: whether it is aborted data, or a marker of which nothing is left.
    fn discards(&mut self, stored: &Stored) -> bool {
        let head = &stored.head;
        while self.aborted.last().is_some_and(|next| next.first_offset <= head.last_offset()) {
            if let Some(next) = self.aborted.pop() {
                self.ongoing_aborted.entry(next.producer_id).or_insert(false);
            }
        }
        if head.is_control() {
            return match codec::marker_of(&stored.bytes) {
                Some((true, _)) => !self.ongoing.remove(&head.producer_id),
                Some((false, _)) => {
                    !self.ongoing_aborted.remove(&head.producer_id).unwrap_or(false)
                }
                // An earlier run has taken the record out.
                None => head.count == 0,
            };
        }
        if !head.is_transactional() {
            return false;
        }
        if let Some(met) = self.ongoing_aborted.get_mut(&head.producer_id) {
            *met = true;
            return true;
        }
        self.ongoing.insert(head.producer_id);
        false
    }
}

/// One batch in one run.
struct Run<'a> {
    cleaning: Cleaning,
    newest: &'a BTreeMap<Bytes, i64>,
    discard: bool,
    keep_empty: bool,
}

impl Run<'_> {
    fn filtered(&self, stored: &Stored) -> Option<Stored> {
        let head = stored.head;
        if head.magic < 2 {
            return Some(stored.clone());
        }
        let horizon = head.delete_horizon();
        let expired = horizon.is_some_and(|horizon| horizon <= self.cleaning.now);
        let discard = self.discard && (!head.is_control() || expired);
        let records = stored.records();
        let before = records.len();
        let kept: Vec<RawRecord> = records
            .into_iter()
            .filter(|record| !discard && (head.is_control() || self.keeps(&head, record, expired)))
            .collect();
        if kept.is_empty() {
            return self.keep_empty.then(|| stored_as(codec::encode_empty(&head))).flatten();
        }
        let ends_later =
            (self.discard && head.is_control()) || kept.iter().any(|record| record.value.is_none());
        let horizon = horizon.or_else(|| {
            let retention = self.cleaning.delete_retention;
            ends_later.then(|| self.cleaning.now.saturating_add(retention))
        });
        if kept.len() == before && horizon == head.delete_horizon() {
            return Some(stored.clone());
        }
        let compression =
            Compression::from_attributes(head.attributes).unwrap_or(Compression::None);
        let frame = Frame::of(&head, compression).with_delete_horizon(horizon);
        let bytes = codec::encode(frame, &kept);
        let max_timestamp = Head::parse(&bytes)?.max_timestamp;
        let max_timestamp = if head.is_append_time() { head.max_timestamp } else { max_timestamp };
        stored_as(codec::stamp(&bytes, head.is_append_time(), max_timestamp))
    }

    fn keeps(&self, head: &Head, record: &RawRecord, expired: bool) -> bool {
        // Records without a key do not belong into a compacted topic, and go.
        let Some(key) = &record.key else { return false };
        let offset = head.base_offset + i64::from(record.offset_delta);
        let newest = self.newest.get(key).is_none_or(|&newest| offset >= newest);
        newest && (record.value.is_some() || !expired)
    }
}

fn stored_as(bytes: Bytes) -> Option<Stored> {
    let head = Head::parse(&bytes)?;
    Some(Stored { head, bytes })
}
