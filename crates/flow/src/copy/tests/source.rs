//! A source log: what brokers and the cleaner leave, encoded by code of its own.

use std::collections::BTreeMap;

use bytes::Bytes;
use twinlog_batch::{Codec, Header, Record, encode};
use twinlog_types::{Cut, ProducerId, Sequence, SourceOffset};

use super::Random;

const APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// What a batch of the source is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Data,
    /// Data of a transaction; whether it was aborted.
    Transaction {
        aborted: bool,
    },
    /// A marker; whether it aborts.
    Marker {
        abort: bool,
    },
}

/// A batch before it is bytes. Records have the timestamps that consumers see.
#[derive(Clone, Debug)]
pub(super) struct SourceBatch {
    pub(super) base: i64,
    pub(super) next: i64,
    pub(super) epoch: i32,
    pub(super) producer: ProducerId,
    pub(super) kind: Kind,
    pub(super) codec: Codec,
    pub(super) append_time: Option<i64>,
    pub(super) delete_horizon: Option<i64>,
    pub(super) records: Vec<Record>,
}

impl SourceBatch {
    /// Dense data from `base` on.
    pub(super) fn data(base: i64, records: Vec<Record>) -> Self {
        Self {
            base,
            next: base + records.len() as i64,
            epoch: 0,
            producer: -1,
            kind: Kind::Data,
            codec: Codec::None,
            append_time: None,
            delete_horizon: None,
            records,
        }
    }

    pub(super) fn is_visible(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Transaction { aborted: false })
    }

    pub(super) fn is_dense(&self) -> bool {
        self.records.len() as i64 == self.next - self.base
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut attributes = 0;
        let body;
        let mut base_timestamp = self.records.first().map_or(0, |record| record.timestamp);
        if let Kind::Marker { abort } = self.kind {
            attributes |= CONTROL | TRANSACTIONAL;
            let key = [0, 0, 0, u8::from(!abort)];
            let marker = Record {
                offset: self.base,
                timestamp: base_timestamp,
                key: Some(Bytes::copy_from_slice(&key)),
                value: Some(Bytes::from_static(&[0; 6])),
                headers: Vec::new(),
            };
            body = plain_body(&[marker], self.base, base_timestamp);
            return self.sealed(attributes, base_timestamp, base_timestamp, 1, &body);
        }
        if let Kind::Transaction { .. } = self.kind {
            attributes |= TRANSACTIONAL;
        }
        let mut max_timestamp =
            self.records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
        if let Some(time) = self.append_time {
            attributes |= APPEND_TIME;
            max_timestamp = time;
            // Clients stamped the records with something else.
            base_timestamp = time - 1_000;
        }
        if let Some(horizon) = self.delete_horizon {
            attributes |= DELETE_HORIZON;
            base_timestamp = horizon;
        }
        // What the codecs make of a body with holes is of no matter: a bare snappy block does.
        let as_written = self.is_dense() && base_timestamp == self.records[0].timestamp;
        let codec = match self.codec {
            Codec::None => Codec::None,
            other if as_written => other,
            _ => Codec::Snappy,
        };
        attributes |= i16::from(codec.id());
        body = if self.records.is_empty() {
            Bytes::new()
        } else if as_written && codec != Codec::None {
            let count = self.records.len() as u32;
            let cut = Cut {
                producer_id: -1,
                producer_epoch: -1,
                base_sequence: Sequence::default(),
                count,
            };
            encode(&self.records, codec, cut).body().clone()
        } else {
            // Where the broker stamped the batch, the clients' own stamps are still in it.
            let stamped_from = self.append_time.unwrap_or(base_timestamp);
            let plain = plain_body(&self.records, self.base, stamped_from);
            if codec == Codec::Snappy { snappy_literal(&plain) } else { plain }
        };
        self.sealed(attributes, base_timestamp, max_timestamp, self.records.len() as i32, &body)
    }

    fn sealed(&self, attributes: i16, base_ts: i64, max_ts: i64, count: i32, body: &[u8]) -> Bytes {
        let mut checked = Vec::with_capacity(40 + body.len());
        checked.extend_from_slice(&attributes.to_be_bytes());
        checked.extend_from_slice(&((self.next - self.base - 1) as i32).to_be_bytes());
        checked.extend_from_slice(&base_ts.to_be_bytes());
        checked.extend_from_slice(&max_ts.to_be_bytes());
        checked.extend_from_slice(&self.producer.to_be_bytes());
        checked.extend_from_slice(&(if self.producer < 0 { -1_i16 } else { 0 }).to_be_bytes());
        checked.extend_from_slice(&(-1_i32).to_be_bytes());
        checked.extend_from_slice(&count.to_be_bytes());
        checked.extend_from_slice(body);
        let mut out = Vec::with_capacity(21 + checked.len());
        out.extend_from_slice(&self.base.to_be_bytes());
        out.extend_from_slice(&(9 + checked.len() as i32).to_be_bytes());
        out.extend_from_slice(&self.epoch.to_be_bytes());
        out.push(2);
        out.extend_from_slice(&crc32c::crc32c(&checked).to_be_bytes());
        out.extend_from_slice(&checked);
        out.into()
    }
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&Bytes>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}

fn plain_body(records: &[Record], base: i64, base_timestamp: i64) -> Bytes {
    let mut out = Vec::new();
    for record in records {
        let mut one = vec![0];
        put_varint(&mut one, record.timestamp - base_timestamp);
        put_varint(&mut one, record.offset - base);
        put_bytes(&mut one, record.key.as_ref());
        put_bytes(&mut one, record.value.as_ref());
        put_varint(&mut one, record.headers.len() as i64);
        for header in &record.headers {
            put_bytes(&mut one, Some(&header.key));
            put_bytes(&mut one, header.value.as_ref());
        }
        put_varint(&mut out, one.len() as i64);
        out.append(&mut one);
    }
    out.into()
}

/// A bare snappy block of one literal.
fn snappy_literal(plain: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(plain.len() + 8);
    let mut length = plain.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    // A literal with three bytes of length.
    out.push(62 << 2);
    out.extend_from_slice(&((plain.len() - 1) as u32).to_le_bytes()[..3]);
    out.extend_from_slice(plain);
    out.into()
}

/// The record at `offset`, the same for the same offset: it tells its offset in value or key.
pub(super) fn record(offset: i64, timestamp: i64) -> Record {
    // Some are large.
    let width = if offset % 31 == 0 { 300 } else { 1 };
    let id = Bytes::from(format!("{offset:>width$}"));
    let (key, value) = match offset % 7 {
        0 => (Some(id), None),
        1 => (Some(id), Some(Bytes::new())),
        2 => (Some(Bytes::new()), Some(id)),
        3 | 4 => (Some(Bytes::from_static(b"key")), Some(id)),
        _ => (None, Some(id)),
    };
    let header = |value| Header { key: Bytes::from_static(b"h"), value };
    let headers = match offset % 5 {
        0 => vec![header(None), header(Some(Bytes::new())), header(Some(Bytes::from_static(b"v")))],
        _ => Vec::new(),
    };
    Record { offset, timestamp, key, value, headers }
}

/// The source offset that a record tells.
pub(super) fn told_offset(record: &Record) -> Option<i64> {
    let value = record.value.as_ref().filter(|value| !value.is_empty());
    std::str::from_utf8(value.or(record.key.as_ref())?).ok()?.trim().parse().ok()
}

/// The log, and every record that may be copied that was ever in it.
pub(super) struct SourceLog {
    /// Where it began; everything before is deleted.
    pub(super) begin: i64,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) epoch: i32,
    batches: Vec<SourceBatch>,
    encoded: Vec<Bytes>,
    /// Producer, first offset, offset of the marker.
    aborted: Vec<(ProducerId, i64, i64)>,
    pub(super) originals: BTreeMap<i64, Record>,
}

impl SourceLog {
    pub(super) fn new(begin: i64) -> Self {
        Self {
            begin,
            start: begin,
            end: begin,
            epoch: 0,
            batches: Vec::new(),
            encoded: Vec::new(),
            aborted: Vec::new(),
            originals: BTreeMap::new(),
        }
    }

    pub(super) fn push(&mut self, batch: SourceBatch) {
        assert!(batch.base >= self.end);
        self.end = batch.next;
        if batch.is_visible() {
            for record in &batch.records {
                self.originals.insert(record.offset, record.clone());
            }
        }
        self.encoded.push(batch.encode());
        self.batches.push(batch);
    }

    /// Appends random batches: one, or a transaction.
    pub(super) fn grow(&mut self, random: &mut Random, wide: bool) {
        if random.once_in(8) {
            self.epoch += 1;
        }
        match random.below(6) {
            0 => {
                let producer = 900 + random.below(3) as i64;
                let aborted = !random.once_in(3);
                let first = self.end;
                for _ in 0..=random.below(2) {
                    self.append(random, Kind::Transaction { aborted }, producer, false);
                    if random.once_in(3) {
                        self.append(random, Kind::Data, -1, false);
                    }
                }
                if aborted {
                    self.aborted.push((producer, first, self.end));
                }
                self.append(random, Kind::Marker { abort: aborted }, producer, false);
            }
            1 => {
                for _ in 0..5 {
                    self.append(random, Kind::Data, -1, false);
                }
            }
            _ => self.append(random, Kind::Data, -1, wide),
        }
    }

    fn append(&mut self, random: &mut Random, kind: Kind, producer: ProducerId, wide: bool) {
        let base = self.end;
        let timestamp = 1_700_000_000_000 + base * 10;
        if let Kind::Marker { .. } = kind {
            let records = vec![record(base, timestamp)];
            self.push(SourceBatch {
                producer,
                kind,
                epoch: self.epoch,
                ..SourceBatch::data(base, records)
            });
            return;
        }
        let count = if wide { 530 } else { 1 + random.below(5) as i64 };
        let append_time = random.once_in(12).then_some(timestamp + 5);
        let step = if wide { 2 } else { 1 };
        let records: Vec<Record> = (0..count)
            .map(|n| {
                // Timestamps may go back within a batch.
                let own = timestamp + (n * 7) % 5;
                record(base + n * step, append_time.unwrap_or(own))
            })
            .collect();
        let codec = if random.once_in(6) {
            Codec::ALL[random.below(Codec::ALL.len())]
        } else {
            Codec::None
        };
        self.push(SourceBatch {
            next: base + count * step,
            producer,
            kind,
            epoch: self.epoch,
            codec,
            append_time,
            delete_horizon: (append_time.is_none() && random.once_in(12)).then_some(timestamp - 99),
            ..SourceBatch::data(base, records)
        });
    }

    /// The cleaner takes records out of some batches, and some batches away.
    pub(super) fn compact(&mut self, random: &mut Random) {
        for index in (0..self.batches.len().saturating_sub(1)).rev() {
            if random.once_in(2) {
                continue;
            }
            let batch = &mut self.batches[index];
            if let Kind::Marker { .. } = batch.kind {
                continue;
            }
            if batch.kind == (Kind::Transaction { aborted: true }) || random.once_in(4) {
                batch.records.clear();
            } else {
                batch.records.retain(|_| !random.once_in(3));
            }
            if batch.records.is_empty() && random.once_in(2) {
                self.batches.remove(index);
                self.encoded.remove(index);
            } else {
                self.encoded[index] = self.batches[index].encode();
            }
        }
    }

    /// Retention removes everything below the batch at `offset`.
    pub(super) fn trim(&mut self, offset: i64) {
        self.start = self.start.max(offset.min(self.end));
        while self.batches.first().is_some_and(|batch| batch.next <= self.start) {
            self.batches.remove(0);
            self.encoded.remove(0);
        }
    }

    /// What may be copied as the log is now.
    pub(super) fn visible(&self) -> impl Iterator<Item = &Record> {
        let start = self.start;
        self.batches
            .iter()
            .filter(|batch| batch.is_visible())
            .flat_map(|batch| &batch.records)
            .filter(move |record| record.offset >= start)
    }

    /// A fetch answer from `from` on: the records field, and the aborted transactions it overlaps.
    pub(super) fn read(
        &self,
        random: &mut Random,
        from: i64,
    ) -> (Bytes, Vec<(ProducerId, SourceOffset)>) {
        let first = self.batches.partition_point(|batch| batch.next <= from);
        let last = (first + 1 + random.below(6)).min(self.batches.len());
        // Index look-ups may give a batch that ends in front of the position.
        let shown = if random.once_in(8) { first.saturating_sub(1) } else { first };
        let mut out = Vec::new();
        for bytes in self.encoded.get(shown..last).unwrap_or_default() {
            out.extend_from_slice(bytes);
        }
        if let Some(cut_off) = self.encoded.get(last)
            && random.once_in(2)
        {
            out.extend_from_slice(&cut_off[..random.below(cut_off.len())]);
        }
        let end = self.batches.get(last.wrapping_sub(1)).map_or(from, |batch| batch.next);
        let mut aborted: Vec<_> = self
            .aborted
            .iter()
            .filter(|&&(_, begin, marker)| marker >= from && begin < end)
            .map(|&(producer, begin, _)| (producer, SourceOffset(begin)))
            .collect();
        if random.once_in(2) {
            aborted.reverse();
        }
        (out.into(), aborted)
    }
}
