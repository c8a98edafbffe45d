//! Record batches v2 as this cluster reads and writes them.
//!
//! Deliberately a second implementation beside `twinlog-batch`: what one of them gets wrong, the
//! other one notices. Does not know partitions, producers or topic settings.
//!
//! Layout of the head: <https://kafka.apache.org/documentation/#recordbatch>.

use std::io::{Read, Write};

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Length of a batch head, and so of the shortest batch.
pub(crate) const HEAD_BYTES: usize = 61;
/// What stands before the counted part of a batch: base offset and batch length.
const PREFIX_BYTES: usize = 12;
/// Where the part that the checksum covers begins.
const CRC_FROM: usize = 21;
/// Decompressed batches above this size are refused, so that no request can fill the memory.
const DECOMPRESSED_BYTES_MAX: u64 = 512 << 20;

const BIT_APPEND_TIME: i16 = 0x08;
const BIT_TRANSACTIONAL: i16 = 0x10;
const BIT_CONTROL: i16 = 0x20;
const BIT_DELETE_HORIZON: i16 = 0x40;

/// A compression codec, as the low three attribute bits name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub(crate) fn from_attributes(attributes: i16) -> Option<Self> {
        Some(match attributes & 7 {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            _ => return None,
        })
    }

    /// The codec a `compression.type` names; `None` for `producer` (keep what comes).
    pub(crate) fn from_config(value: &str) -> Option<Self> {
        Some(match value {
            "uncompressed" | "none" => Self::None,
            "gzip" => Self::Gzip,
            "snappy" => Self::Snappy,
            "lz4" => Self::Lz4,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }
}

/// The head of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub base_offset: i64,
    pub batch_length: i32,
    pub leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub count: i32,
}

impl Head {
    /// Reads a head; `None` when fewer than 61 bytes are there.
    pub(crate) fn parse(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HEAD_BYTES {
            return None;
        }
        Some(Self {
            base_offset: bytes.get_i64(),
            batch_length: bytes.get_i32(),
            leader_epoch: bytes.get_i32(),
            magic: bytes.get_i8(),
            crc: bytes.get_u32(),
            attributes: bytes.get_i16(),
            last_offset_delta: bytes.get_i32(),
            base_timestamp: bytes.get_i64(),
            max_timestamp: bytes.get_i64(),
            producer_id: bytes.get_i64(),
            producer_epoch: bytes.get_i16(),
            base_sequence: bytes.get_i32(),
            count: bytes.get_i32(),
        })
    }

    pub(crate) fn is_append_time(&self) -> bool {
        self.attributes & BIT_APPEND_TIME != 0
    }

    pub(crate) fn is_transactional(&self) -> bool {
        self.attributes & BIT_TRANSACTIONAL != 0
    }

    pub(crate) fn is_control(&self) -> bool {
        self.attributes & BIT_CONTROL != 0
    }

    /// When the tombstones of the batch may go; in such a batch it stands where the base timestamp
    /// stands else, and the records' timestamps are relative to it (KIP-534).
    pub(crate) fn delete_horizon(&self) -> Option<i64> {
        (self.attributes & BIT_DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }

    pub(crate) fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// The sequence of the last record: brokers wrap from 2147483647 to 0.
    pub(crate) fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        // Not the count: compaction takes records out, and the sequence stays.
        ((i64::from(self.base_sequence) + i64::from(self.last_offset_delta)) & 0x7fff_ffff) as i32
    }
}

/// The length of the batch at the front of `bytes` as its head states it.
pub(crate) fn stated_length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(8..12)?;
    let length = i32::from_be_bytes(length.try_into().ok()?);
    usize::try_from(length).ok().map(|length| length + PREFIX_BYTES)
}

/// The checksum of a whole batch as it should stand in its head.
pub(crate) fn checksum(batch: &[u8]) -> u32 {
    crc32c::crc32c(&batch[CRC_FROM..])
}

/// Writes base offset and leader epoch, the two fields a broker sets in every batch.
pub(crate) fn place(batch: &Bytes, base_offset: i64, leader_epoch: i32) -> Bytes {
    let mut placed = BytesMut::from(&batch[..]);
    placed[0..8].copy_from_slice(&base_offset.to_be_bytes());
    placed[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
    placed.freeze()
}

/// Sets the timestamp kind and the largest timestamp; the checksum follows when anything changes.
pub(crate) fn stamp(batch: &Bytes, append_time: bool, max_timestamp: i64) -> Bytes {
    let Some(head) = Head::parse(batch) else { return batch.clone() };
    if head.is_append_time() == append_time && head.max_timestamp == max_timestamp {
        return batch.clone();
    }
    let attributes =
        (head.attributes & !BIT_APPEND_TIME) | if append_time { BIT_APPEND_TIME } else { 0 };
    let mut stamped = BytesMut::from(&batch[..]);
    stamped[21..23].copy_from_slice(&attributes.to_be_bytes());
    stamped[35..43].copy_from_slice(&max_timestamp.to_be_bytes());
    let crc = checksum(&stamped);
    stamped[17..21].copy_from_slice(&crc.to_be_bytes());
    stamped.freeze()
}

/// One record of a batch, before append time is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawRecord {
    pub offset_delta: i32,
    pub timestamp: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// Why the records of a batch cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordsError {
    #[error("Incorrect declared batch size, premature EOF reached")]
    Premature,
    #[error("Incorrect declared batch size, records still remaining in file")]
    Remaining,
    #[error("Record batch cannot be decompressed: {0}")]
    Decompress(String),
    #[error("Found invalid record structure: {0}")]
    Malformed(&'static str),
}

/// Reads exactly as many records as the head states.
pub(crate) fn records(batch: &Bytes) -> Result<Vec<RawRecord>, RecordsError> {
    let head = Head::parse(batch).ok_or(RecordsError::Malformed("shorter than a batch head"))?;
    let compression = Compression::from_attributes(head.attributes)
        .ok_or_else(|| RecordsError::Decompress("unknown codec".to_owned()))?;
    let mut body = decompress(compression, batch.slice(HEAD_BYTES..))?;
    let mut records = Vec::new();
    for _ in 0..head.count {
        records.push(record(&mut body, head.base_timestamp)?);
    }
    if body.has_remaining() { Err(RecordsError::Remaining) } else { Ok(records) }
}

fn record(body: &mut Bytes, base_timestamp: i64) -> Result<RawRecord, RecordsError> {
    if !body.has_remaining() {
        return Err(RecordsError::Premature);
    }
    let length = usize::try_from(varint(body)?)
        .map_err(|_| RecordsError::Malformed("negative record length"))?;
    if body.remaining() < length {
        return Err(RecordsError::Premature);
    }
    let mut record = body.split_to(length);
    if !record.has_remaining() {
        return Err(RecordsError::Malformed("empty record"));
    }
    record.advance(1); // attributes: unused
    let timestamp = base_timestamp.wrapping_add(varlong(&mut record)?);
    let offset_delta = varint(&mut record)?;
    let key = field(&mut record)?;
    let value = field(&mut record)?;
    let count = varint(&mut record)?;
    if count < 0 {
        return Err(RecordsError::Malformed("negative header count"));
    }
    let mut headers = Vec::new();
    for _ in 0..count {
        let name = field(&mut record)?.ok_or(RecordsError::Malformed("null header key"))?;
        headers.push((name, field(&mut record)?));
    }
    if record.has_remaining() {
        return Err(RecordsError::Malformed("bytes behind the last header"));
    }
    Ok(RawRecord { offset_delta, timestamp, key, value, headers })
}

fn field(record: &mut Bytes) -> Result<Option<Bytes>, RecordsError> {
    let length = varint(record)?;
    let Ok(length) = usize::try_from(length) else {
        return if length == -1 {
            Ok(None)
        } else {
            Err(RecordsError::Malformed("negative length"))
        };
    };
    if record.remaining() < length {
        return Err(RecordsError::Malformed("field longer than its record"));
    }
    Ok(Some(record.split_to(length)))
}

fn varint(bytes: &mut Bytes) -> Result<i32, RecordsError> {
    i32::try_from(varlong(bytes)?).map_err(|_| RecordsError::Malformed("number too large"))
}

fn varlong(bytes: &mut Bytes) -> Result<i64, RecordsError> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        if !bytes.has_remaining() {
            return Err(RecordsError::Malformed("number cut off"));
        }
        let byte = bytes.get_u8();
        value |= u64::from(byte & 0x7f) << shift.min(63);
        if byte & 0x80 == 0 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(RecordsError::Malformed("number too long"))
}

fn put_varlong(out: &mut BytesMut, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}

fn put_field(out: &mut BytesMut, field: Option<&Bytes>) {
    match field {
        None => put_varlong(out, -1),
        Some(bytes) => {
            put_varlong(out, bytes.len() as i64);
            out.put_slice(bytes);
        }
    }
}

/// What [`encode`] writes into the head beside what follows from the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub compression: Compression,
    pub attributes: i16,
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub last_offset_delta: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    /// Stands in the place of the first record's timestamp.
    pub delete_horizon: Option<i64>,
}

impl Frame {
    /// A batch of `count` records at offset 0 without a producer.
    pub(crate) fn plain(count: usize) -> Self {
        Self {
            compression: Compression::None,
            attributes: 0,
            base_offset: 0,
            leader_epoch: -1,
            last_offset_delta: count as i32 - 1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            delete_horizon: None,
        }
    }

    /// The frame of an existing batch.
    pub(crate) fn of(head: &Head, compression: Compression) -> Self {
        Self {
            compression,
            attributes: head.attributes,
            base_offset: head.base_offset,
            leader_epoch: head.leader_epoch,
            last_offset_delta: head.last_offset_delta,
            producer_id: head.producer_id,
            producer_epoch: head.producer_epoch,
            base_sequence: head.base_sequence,
            delete_horizon: head.delete_horizon(),
        }
    }

    pub(crate) fn with_delete_horizon(mut self, horizon: Option<i64>) -> Self {
        let bit = if horizon.is_some() { BIT_DELETE_HORIZON } else { 0 };
        self.attributes = (self.attributes & !BIT_DELETE_HORIZON) | bit;
        self.delete_horizon = horizon;
        self
    }

    pub(crate) fn transactional(mut self) -> Self {
        self.attributes |= BIT_TRANSACTIONAL;
        self
    }
}

/// Writes a batch.
pub(crate) fn encode(frame: Frame, records: &[RawRecord]) -> Bytes {
    let first_timestamp = records.first().map_or(-1, |record| record.timestamp);
    let base_timestamp = frame.delete_horizon.unwrap_or(first_timestamp);
    let max_timestamp = records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
    let mut body = BytesMut::new();
    let mut one = BytesMut::new();
    for record in records {
        one.clear();
        one.put_u8(0);
        put_varlong(&mut one, record.timestamp.wrapping_sub(base_timestamp));
        put_varlong(&mut one, i64::from(record.offset_delta));
        put_field(&mut one, record.key.as_ref());
        put_field(&mut one, record.value.as_ref());
        put_varlong(&mut one, record.headers.len() as i64);
        for (name, value) in &record.headers {
            put_field(&mut one, Some(name));
            put_field(&mut one, value.as_ref());
        }
        put_varlong(&mut body, one.len() as i64);
        body.put_slice(&one);
    }
    let body = compress(frame.compression, &body);
    let codec = match frame.compression {
        Compression::None => 0,
        Compression::Gzip => 1,
        Compression::Snappy => 2,
        Compression::Lz4 => 3,
        Compression::Zstd => 4,
    };
    let mut out = BytesMut::with_capacity(HEAD_BYTES + body.len());
    out.put_i64(frame.base_offset);
    out.put_i32((HEAD_BYTES - PREFIX_BYTES + body.len()) as i32);
    out.put_i32(frame.leader_epoch);
    out.put_i8(2);
    out.put_u32(0);
    out.put_i16((frame.attributes & !7) | codec);
    out.put_i32(frame.last_offset_delta);
    out.put_i64(base_timestamp);
    out.put_i64(max_timestamp);
    out.put_i64(frame.producer_id);
    out.put_i16(frame.producer_epoch);
    out.put_i32(frame.base_sequence);
    out.put_i32(records.len() as i32);
    out.put_slice(&body);
    let crc = checksum(&out);
    out[17..21].copy_from_slice(&crc.to_be_bytes());
    out.freeze()
}

/// What compaction leaves of a batch whose records are all gone and that holds the last sequence of
/// a producer, or an offset that must not be lost: a head with a count of 0.
pub(crate) fn encode_empty(head: &Head) -> Bytes {
    let frame = Frame::of(head, Compression::None).with_delete_horizon(None);
    stamp(&encode(frame, &[]), head.is_append_time(), head.max_timestamp)
}

/// The control batch that ends a transaction in one partition.
pub(crate) fn marker(
    commit: bool,
    producer_id: i64,
    epoch: i16,
    coordinator_epoch: i32,
    now_ms: i64,
) -> Bytes {
    let mut key = BytesMut::new();
    key.put_i16(0);
    key.put_i16(i16::from(commit));
    let mut value = BytesMut::new();
    value.put_i16(0);
    value.put_i32(coordinator_epoch);
    let record = RawRecord {
        offset_delta: 0,
        timestamp: now_ms,
        key: Some(key.freeze()),
        value: Some(value.freeze()),
        headers: Vec::new(),
    };
    let mut frame = Frame::plain(1);
    frame.attributes = BIT_CONTROL | BIT_TRANSACTIONAL;
    frame.producer_id = producer_id;
    frame.producer_epoch = epoch;
    encode(frame, &[record])
}

/// Whether a control batch commits, and its coordinator's epoch; `None` for other control batches.
pub(crate) fn marker_of(batch: &Bytes) -> Option<(bool, i32)> {
    let record = records(batch).ok()?.into_iter().next()?;
    let (mut key, mut value) = (record.key?, record.value?);
    if key.len() < 4 || value.len() < 6 {
        return None;
    }
    key.advance(2);
    value.advance(2);
    Some((key.get_i16() == 1, value.get_i32()))
}

const XERIAL: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEAD_BYTES: usize = 16;

pub(crate) fn decompress(compression: Compression, body: Bytes) -> Result<Bytes, RecordsError> {
    let failed = |error: &dyn std::fmt::Display| RecordsError::Decompress(error.to_string());
    let read = |reader: &mut dyn Read| -> Result<Bytes, RecordsError> {
        let mut out = Vec::new();
        reader
            .take(DECOMPRESSED_BYTES_MAX)
            .read_to_end(&mut out)
            .map_err(|error| failed(&error))?;
        if out.len() as u64 == DECOMPRESSED_BYTES_MAX {
            return Err(RecordsError::Decompress("larger than this cluster allows".to_owned()));
        }
        Ok(out.into())
    };
    match compression {
        Compression::None => Ok(body),
        Compression::Gzip => read(&mut flate2::read::MultiGzDecoder::new(&body[..])),
        Compression::Lz4 => read(&mut lz4_flex::frame::FrameDecoder::new(&body[..])),
        Compression::Zstd => {
            read(&mut zstd::stream::read::Decoder::new(&body[..]).map_err(|error| failed(&error))?)
        }
        Compression::Snappy => snappy_decompress(&body).map_err(|error| failed(&error)),
    }
}

fn snappy_decompress(body: &[u8]) -> Result<Bytes, snap::Error> {
    let mut decoder = snap::raw::Decoder::new();
    if !body.starts_with(&XERIAL) || body.len() < XERIAL_HEAD_BYTES {
        return decoder.decompress_vec(body).map(Bytes::from);
    }
    let mut rest = &body[XERIAL_HEAD_BYTES..];
    let mut out = Vec::new();
    while rest.len() >= 4 {
        let length = (rest.get_u32() as usize).min(rest.len());
        let (block, behind) = rest.split_at(length);
        out.extend(decoder.decompress_vec(block)?);
        rest = behind;
    }
    Ok(out.into())
}

/// In-memory compression has no failure but lack of memory.
pub(crate) fn compress(compression: Compression, body: &[u8]) -> Bytes {
    const IN_MEMORY: &str = "compressing in memory does not fail";
    match compression {
        Compression::None => Bytes::copy_from_slice(body),
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(body).expect(IN_MEMORY);
            encoder.finish().expect(IN_MEMORY).into()
        }
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(body).expect(IN_MEMORY);
            encoder.finish().expect(IN_MEMORY).into()
        }
        Compression::Zstd => zstd::stream::encode_all(body, 3).expect(IN_MEMORY).into(),
        Compression::Snappy => {
            let mut out = BytesMut::new();
            out.put_slice(&XERIAL);
            out.put_u32(1);
            out.put_u32(1);
            let mut encoder = snap::raw::Encoder::new();
            for block in body.chunks(32 << 10) {
                let block = encoder.compress_vec(block).expect(IN_MEMORY);
                out.put_u32(block.len() as u32);
                out.put_slice(&block);
            }
            out.freeze()
        }
    }
}
