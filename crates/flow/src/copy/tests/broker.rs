//! The leader of the target partition, as far as a copier can tell it from a real one.
//!
//! What is refused, recognised and forgotten follows what brokers 4.3.0 and 3.9.1 were seen to do
//! with batches of a kept producer id and sequences of the client's own.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use twinlog_batch::{Record, batches};
use twinlog_types::{LeaderEpoch, ProducerId, TargetOffset};

use crate::copy::{LookFrom, Producer, Tail, TailBatch};

/// Batches of a producer that are recognised when they come again.
const WINDOW: usize = 5;

/// A batch in the log.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) base: i64,
    pub(super) next: i64,
    pub(super) producer: ProducerId,
    pub(super) sequence: i32,
    pub(super) records: Vec<Record>,
}

/// What the leader makes of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    /// Appended, or recognised: its first and its next offset.
    Stored { base: i64, next: i64 },
    /// 45.
    OutOfOrder,
    /// 10.
    TooLarge,
}

pub(super) struct Broker {
    pub(super) log: Vec<Stored>,
    pub(super) start: i64,
    begin: i64,
    /// Epochs and where they begin.
    epochs: Vec<(LeaderEpoch, i64)>,
    /// First sequence, last sequence and base offset of the newest batches.
    producers: BTreeMap<ProducerId, VecDeque<(i32, i32, i64)>>,
    pub(super) max_bytes: usize,
    /// Everything below is replicated.
    pub(super) high_watermark: i64,
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap()
}

fn sequence_after(sequence: i32, records: i64) -> i32 {
    ((i64::from(sequence) + records) & 0x7fff_ffff) as i32
}

impl Broker {
    /// An empty log that begins at `begin`.
    pub(super) fn new(begin: i64) -> Self {
        Self {
            log: Vec::new(),
            start: begin,
            begin,
            epochs: vec![(0, begin)],
            producers: BTreeMap::new(),
            max_bytes: usize::MAX,
            high_watermark: begin,
        }
    }

    pub(super) fn end(&self) -> i64 {
        self.log.last().map_or(self.begin, |batch| batch.next)
    }

    pub(super) fn epoch(&self) -> LeaderEpoch {
        self.epochs.last().map_or(0, |&(epoch, _)| epoch)
    }

    pub(super) fn knows(&self, producer: ProducerId) -> bool {
        self.producers.contains_key(&producer)
    }

    /// The producer was here before, and all of its batches are deleted.
    pub(super) fn remember(&mut self, producer: ProducerId, last: i32) {
        self.producers.insert(producer, VecDeque::from([(last, last, self.begin - 1)]));
    }

    /// Idle for too long, or restarted with old records.
    pub(super) fn forget(&mut self) {
        self.producers.clear();
    }

    /// A produce request with one batch of ours.
    pub(super) fn append(&mut self, bytes: &Bytes) -> Reply {
        assert_eq!(i64::from_be_bytes(field(bytes, 0)), 0, "base offset");
        assert_eq!(bytes[16], 2, "format");
        assert_eq!(u32::from_be_bytes(field(bytes, 17)), crc32c::crc32c(&bytes[21..]), "checksum");
        let attributes = i16::from_be_bytes(field(bytes, 21));
        assert_eq!(attributes & !0b111, 0, "only the codec is left in the attributes");
        let count = i64::from(i32::from_be_bytes(field(bytes, 57)));
        assert_eq!(i64::from(i32::from_be_bytes(field(bytes, 23))) + 1, count, "holes in a batch");
        if bytes.len() > self.max_bytes {
            return Reply::TooLarge;
        }
        let producer = i64::from_be_bytes(field(bytes, 43));
        let first = i32::from_be_bytes(field(bytes, 53));
        let last = sequence_after(first, count - 1);
        let base = self.end();
        let window = self.producers.entry(producer).or_default();
        if let Some(&(.., base)) = window.iter().find(|batch| (batch.0, batch.1) == (first, last)) {
            return Reply::Stored { base, next: base + count };
        }
        if let Some(&(_, newest, _)) = window.back()
            && sequence_after(newest, 1) != first
        {
            return Reply::OutOfOrder;
        }
        window.push_back((first, last, base));
        if window.len() > WINDOW {
            window.pop_front();
        }
        let batch = batches(bytes.clone()).next().unwrap().unwrap();
        let records = batch.records(usize::MAX).unwrap();
        assert_eq!(records.len() as i64, count);
        let next = base + count;
        self.log.push(Stored { base, next, producer, sequence: first, records });
        Reply::Stored { base, next }
    }

    /// Somebody else's batch, or a marker: `length` offsets.
    pub(super) fn append_foreign(&mut self, length: i64) {
        let base = self.end();
        let (next, producer) = (base + length, 77);
        self.log.push(Stored { base, next, producer, sequence: 5, records: Vec::new() });
    }

    /// Another replica leads. It has the log up to the batch that `end` lies in or behind.
    pub(super) fn elect(&mut self, end: i64) {
        let knew = std::mem::take(&mut self.producers);
        while self.log.last().is_some_and(|batch| batch.next > end) {
            self.log.pop();
        }
        let end = self.end();
        self.start = self.start.min(end);
        self.high_watermark = self.high_watermark.min(end);
        let epoch = self.epoch() + 1;
        self.epochs.retain(|&(_, begin)| begin < end);
        self.epochs.push((epoch, end));
        for (producer, window) in knew {
            let mut kept: VecDeque<_> = self
                .log
                .iter()
                .filter(|batch| batch.producer == producer)
                .rev()
                .take(WINDOW)
                .map(|batch| {
                    let last = sequence_after(batch.sequence, batch.next - batch.base - 1);
                    (batch.sequence, last, batch.base)
                })
                .collect();
            kept.make_contiguous().reverse();
            if kept.is_empty() {
                kept.extend(window.into_iter().filter(|batch| batch.2 < self.begin));
            }
            if !kept.is_empty() {
                self.producers.insert(producer, kept);
            }
        }
    }

    /// Retention, or `DeleteRecords`.
    pub(super) fn trim(&mut self, offset: i64) {
        self.start = self.start.max(offset.min(self.high_watermark));
        let gone = self.epochs.partition_point(|&(_, begin)| begin <= self.start);
        if let Some(first) = gone.checked_sub(1) {
            self.epochs.drain(..first);
            self.epochs[0].1 = self.start;
        }
    }

    /// As `OffsetForLeaderEpoch` answers: where the newest epoch up to this one ends. Epochs that
    /// are older than all that is known end where the oldest known one begins.
    fn end_of_epoch(&self, epoch: LeaderEpoch) -> i64 {
        let after = self.epochs.partition_point(|&(own, _)| own <= epoch);
        self.epochs.get(after).map_or(self.end(), |&(_, begin)| begin)
    }

    /// The tail, once everything is replicated.
    pub(super) fn tail(&mut self, from: LookFrom, producer: Producer) -> Tail {
        let end = self.end();
        self.high_watermark = end;
        let mut agreed = from.acknowledged_end.0.min(end);
        if from.newest_epoch >= 0 {
            agreed = agreed.min(self.end_of_epoch(from.newest_epoch));
        }
        let position = agreed.max(self.start);
        let window = self.producers.get(&producer.id);
        Tail {
            leader_epoch: self.epoch(),
            log_start: TargetOffset(self.start),
            log_end: TargetOffset(end),
            agreed: TargetOffset(agreed),
            last_sequence: window.and_then(|window| window.back()).map(|batch| batch.1),
            batches: self
                .log
                .iter()
                .filter(|batch| batch.next > position)
                .map(|batch| TailBatch {
                    base: TargetOffset(batch.base),
                    next: TargetOffset(batch.next),
                    producer_id: batch.producer,
                    producer_epoch: producer.epoch,
                    base_sequence: batch.sequence,
                    count: (batch.next - batch.base) as u32,
                })
                .collect(),
        }
    }
}
