//! Single facts about the copy of a partition.

mod intake;
mod looking;
mod sending;

use std::sync::Arc;

use bytes::Bytes;
use twinlog_batch::{Codec, Record, batches};
use twinlog_types::{Code, SourceOffset, TargetOffset};

use super::source::{Kind, SourceBatch, record, told_offset};
use super::world::{PRODUCER, setup};
use crate::copy::{Answer, Copier, Fetched, Limits, Looked, Sending, Stop, Tail, TailBatch};

pub(super) const TIME: i64 = 1_700_000_000_000;

pub(super) fn records(offsets: impl IntoIterator<Item = i64>) -> Vec<Record> {
    offsets.into_iter().map(|offset| record(offset, TIME + offset)).collect()
}

pub(super) fn dense(base: i64, count: i64) -> SourceBatch {
    SourceBatch::data(base, records(base..base + count))
}

/// Batches of one record each.
pub(super) fn singles(offsets: std::ops::Range<i64>) -> Vec<SourceBatch> {
    offsets.map(|offset| dense(offset, 1)).collect()
}

pub(super) fn offsets(range: std::ops::Range<i64>) -> Vec<i64> {
    range.collect()
}

/// A copier that has looked at an empty log and stored its state.
pub(super) fn copier(limits: Limits) -> Copier {
    let mut copier = Copier::new(setup(limits), PRODUCER, SourceOffset(0), TargetOffset(0));
    assert!(look(&mut copier, &tail(0, None)).resumed);
    store(&mut copier);
    copier
}

/// Without merging, so that batches come out as they went in.
pub(super) fn unmerged() -> Limits {
    Limits { merge_below: 0, ..Limits::default() }
}

/// A tail of nothing but what is acknowledged, `end` offsets long.
pub(super) fn tail(end: i64, last_sequence: Option<i32>) -> Tail {
    let end = TargetOffset(end);
    Tail {
        leader_epoch: 0,
        log_start: TargetOffset(0),
        log_end: end,
        agreed: end,
        last_sequence,
        batches: Vec::new(),
    }
}

/// The batch of ours at `base` that begins with record number `number`.
pub(super) fn ours(base: i64, number: i32, count: u32) -> TailBatch {
    TailBatch {
        base: TargetOffset(base),
        next: TargetOffset(base + i64::from(count)),
        producer_id: PRODUCER.id,
        producer_epoch: PRODUCER.epoch,
        base_sequence: number,
        count,
    }
}

pub(super) fn foreign(base: i64, count: u32) -> TailBatch {
    TailBatch { producer_id: 77, ..ours(base, 0, count) }
}

pub(super) fn look(copier: &mut Copier, tail: &Tail) -> Looked {
    assert!(copier.wants_look().is_some(), "no look is wanted");
    let looked = copier.looked(tail);
    if let Some(original) = copier.wants_original() {
        copier.original_read(original, 0);
    }
    looked
}

pub(super) fn store(copier: &mut Copier) {
    while copier.take_state().is_some() {
        copier.state_stored();
    }
}

pub(super) fn fetched(copier: &Copier, batches: &[SourceBatch]) -> Fetched {
    let bytes: Vec<u8> = batches.iter().flat_map(SourceBatch::encode).collect();
    Fetched {
        from: copier.wants_fetch().expect("it wants to be fetched for").offset,
        records: bytes.into(),
        aborted: Vec::new(),
        keep: Arc::new(()),
    }
}

pub(super) fn fetch(copier: &mut Copier, batches: &[SourceBatch]) -> u64 {
    let fetched = fetched(copier, batches);
    copier.fetched(fetched)
}

pub(super) fn send(copier: &mut Copier) -> Sending {
    store(copier);
    copier.next_send().expect("a batch can be sent")
}

pub(super) fn contents(sending: &Sending) -> Vec<Record> {
    let batch = batches(sending.batch.to_bytes()).next().unwrap().unwrap();
    batch.records(usize::MAX).unwrap()
}

pub(super) fn told(sending: &Sending) -> Vec<i64> {
    contents(sending).iter().map(|record| told_offset(record).unwrap()).collect()
}

/// Everything that is queued is sent and stored one by one, from `base` on.
pub(super) fn copy_out(copier: &mut Copier, mut base: i64) -> Vec<Vec<i64>> {
    let mut out = Vec::new();
    while copier.has_unsent() {
        let sending = send(copier);
        out.push(told(&sending));
        copier.answered(sending.ticket, Answer::Stored { base: TargetOffset(base) });
        base += i64::from(sending.batch.cut().count);
    }
    out
}

/// The code and the range of the stop.
pub(super) fn stop_of(copier: &Copier) -> (Code, Option<(i64, i64)>) {
    let stop = copier.stopped().expect("it has stopped");
    (stop.code, stop.range.map(|(from, to)| (from.0, to.0)))
}

/// A copier with batches of two records under way, the first `acknowledged` of five are stored.
pub(super) fn under_way(acknowledged: usize) -> Copier {
    let mut copier = copier(unmerged());
    fetch(&mut copier, &(0..5).map(|n| dense(2 * n, 2)).collect::<Vec<_>>());
    for n in 0..acknowledged {
        let sending = send(&mut copier);
        let base = TargetOffset(2 * n as i64);
        copier.answered(sending.ticket, Answer::Stored { base });
    }
    while copier.next_send().is_some() {}
    copier
}
