//! Message formats 0 and 1, converted to format 2.
//!
//! Brokers before 0.11 wrote them, and topics with an old `message.format.version` still hold them.
//! A compressed message wraps a set of messages: with absolute offsets in format 0, with offsets
//! relative to the wrapper in format 1 (KIP-31), where the wrapper has the offset of the last.
//!
//! Does not: write them.
//!
//! | field | bytes |
//! |---|---|
//! | offset, length | 8, 4 |
//! | crc (CRC32 of all that follows) | 4 |
//! | magic, attributes | 1, 1 |
//! | timestamp (format 1) | 8 |
//! | key, value (each after its length; -1 is null) | 4 + n |
//!
//! Reference: Kafka's `LegacyRecord` and `AbstractLegacyRecordBatch.DeepRecordsIterator`.

use std::collections::VecDeque;

use bytes::Bytes;
use flate2::Crc;

use crate::batch::{LOG_OVERHEAD, Whole, next_whole};
use crate::codec::Lz4Header;
use crate::head::{APPEND_TIME, CODEC_MASK};
use crate::outgoing::encode_in_place;
use crate::reader::Reader;
use crate::{Batch, BatchError, Codec, Record};

/// What a message without a timestamp has in the later formats.
const NO_TIMESTAMP: i64 = -1;

/// Neighbours share a batch up to this many bytes: no larger than what a producer would send, and
/// well below the default of `max.message.bytes` (1 MiB) of the cluster they go to.
const SHARED_BATCH_BYTES: usize = 512 << 10;

/// Bytes that the length of a message of this format counts at least.
pub(crate) const fn message_bytes_min(magic: i8) -> usize {
    if magic == 0 { 4 + 1 + 1 + 4 + 4 } else { 4 + 1 + 1 + 8 + 4 + 4 }
}

/// One message whose CRC holds.
struct Message {
    magic: i8,
    codec: Codec,
    /// The broker stamped it; on a wrapper that goes for all it wraps.
    append_time: bool,
    record: Record,
}

/// Takes the messages of old format from the front of `rest` and gives what they are in format 2:
/// one batch from neighbours without compression, or from one wrapper; then the error that stopped
/// it, if any. A wrapper may take
/// `limit` bytes when decompressed. Never empty when `rest` begins with a whole message.
pub(crate) fn convert(rest: &mut Bytes, limit: usize) -> VecDeque<Result<Batch, BatchError>> {
    let mut plain: Vec<Record> = Vec::new();
    let mut plain_bytes = 0;
    let mut out = VecDeque::new();
    let mut last = None;
    while let Some(Ok(whole @ Whole { magic: 0 | 1, .. })) = next_whole(rest) {
        match message(&rest.slice(..whole.bytes), whole.magic) {
            Err(error) => {
                last = Some(Err(error));
                break;
            }
            Ok(message) if message.codec == Codec::None => {
                plain_bytes += whole.bytes;
                let full = !plain.is_empty() && plain_bytes > SHARED_BATCH_BYTES;
                if full || !follows(&plain, &message.record) {
                    break;
                }
                plain.push(message.record);
                *rest = rest.slice(whole.bytes..);
            }
            Ok(wrapper) => {
                // A wrapper comes out after the messages before it, by a call of its own.
                if plain.is_empty() {
                    *rest = rest.slice(whole.bytes..);
                    last = Some(unwrap(&wrapper, limit));
                }
                break;
            }
        }
    }
    if let Some(record) = plain.last() {
        out.push_back(Batch::verify(encode_in_place(&plain, record.offset, Codec::None)));
    }
    out.extend(last);
    out
}

/// Whether the record can stand in one batch behind those before it.
fn follows(before: &[Record], record: &Record) -> bool {
    let (Some(first), Some(last)) = (before.first(), before.last()) else { return true };
    record.offset > last.offset && record.offset - first.offset < i64::from(i32::MAX)
}

/// Reads the message that `bytes` hold, offset and length included.
fn message(bytes: &Bytes, magic: i8) -> Result<Message, BatchError> {
    let mut reader = Reader::new(bytes.clone());
    // Position and format were looked at by whoever cut the bytes out.
    let offset = reader.i64().unwrap_or_default();
    let damaged = |what| BatchError::Record { offset, index: 0, what };
    reader.i32().map_err(damaged)?;
    let stored = reader.u32().map_err(damaged)?;
    let mut crc = Crc::new();
    crc.update(&bytes[LOG_OVERHEAD + 4..]);
    if crc.sum() != stored {
        return Err(BatchError::Checksum { offset, stored, computed: crc.sum() });
    }
    if offset < 0 {
        return Err(BatchError::Head { offset, what: "the offset is negative" });
    }
    reader.i8().map_err(damaged)?;
    let attributes = i16::from(reader.i8().map_err(damaged)?);
    let id = (attributes & CODEC_MASK) as u8;
    // Format 2 came before zstd: an old message with it is not Kafka's.
    let codec = Codec::from_id(id)
        .filter(|&codec| codec != Codec::Zstd)
        .ok_or(BatchError::UnknownCodec { offset, id })?;
    let timestamp = if magic == 0 { NO_TIMESTAMP } else { reader.i64().map_err(damaged)? };
    let key = reader.nullable_fixed().map_err(damaged)?;
    let value = reader.nullable_fixed().map_err(damaged)?;
    if reader.remaining() > 0 {
        return Err(damaged("it is longer than its fields"));
    }
    let record = Record { offset, timestamp, key, value, headers: Vec::new() };
    Ok(Message { magic, codec, append_time: magic == 1 && attributes & APPEND_TIME != 0, record })
}

/// The messages of a wrapper as one batch of the same codec.
fn unwrap(wrapper: &Message, limit: usize) -> Result<Batch, BatchError> {
    let records = wrapped(wrapper, limit)?;
    let wrapper_offset = wrapper.record.offset;
    let damaged = |what| BatchError::Head { offset: wrapper_offset, what };
    let (Some(first), Some(last)) = (records.first(), records.last()) else {
        return Err(damaged("the compressed message wraps none"));
    };
    if !records.is_sorted_by(|one, next| one.offset < next.offset) {
        return Err(damaged("the wrapped messages are out of order"));
    }
    // Where compaction took the last messages away, the next fetch still goes on behind them.
    let end = wrapper_offset.max(last.offset);
    if end - first.offset >= i64::from(i32::MAX) {
        return Err(damaged("the wrapped messages span more offsets than a batch can"));
    }
    Batch::verify(encode_in_place(&records, end, wrapper.codec))
}

/// The records of a wrapper, with the offsets and timestamps a consumer sees.
fn wrapped(wrapper: &Message, limit: usize) -> Result<Vec<Record>, BatchError> {
    let Message { magic, codec, append_time, ref record } = *wrapper;
    let offset = record.offset;
    let damaged = |what| BatchError::Head { offset, what };
    let packed = record.value.as_ref().ok_or(damaged("the compressed message wraps null"))?;
    let lz4 = if magic == 0 { Lz4Header::Unchecked } else { Lz4Header::Checked };
    let mut rest: Bytes = codec
        .decompress(packed, limit, lz4)
        .map_err(|fault| fault.at(offset, codec, limit))?
        .into();

    let mut records = Vec::new();
    while !rest.is_empty() {
        let whole = next_whole(&rest)
            .ok_or(damaged("a wrapped message is cut off"))?
            .map_err(|_| damaged("a wrapped message has an impossible length or format"))?;
        if whole.magic != magic {
            return Err(damaged("a wrapped message has another format than its wrapper"));
        }
        let inner = message(&rest.split_to(whole.bytes), magic)?;
        if inner.codec != Codec::None {
            return Err(damaged("a wrapped message is compressed again"));
        }
        records.push(inner.record);
    }

    // Some versions of librdkafka produced wrappers with offset 0 that brokers of the time kept.
    let relative_to = match records.last() {
        Some(last) if magic == 1 && offset != 0 => offset
            .checked_sub(last.offset)
            .filter(|&base| base >= 0)
            .ok_or(damaged("the wrapped offsets reach beyond the wrapper's"))?,
        _ => 0,
    };
    for inner in &mut records {
        inner.offset = inner
            .offset
            .checked_add(relative_to)
            .ok_or(damaged("a wrapped offset is out of range"))?;
        if append_time {
            inner.timestamp = record.timestamp;
        }
    }
    Ok(records)
}
