//! Message formats 0 and 1, as a broker that was upgraded from long ago still has them on its disk.
//!
//! An uncompressed message is a batch of its own; a compressed one is a wrapper whose value holds
//! the messages. Nobody can produce them any more (Produce 3 and later wants format 2), but Fetch
//! serves what is stored as it is.
//!
//! Does not judge what it reads: only what this module wrote is ever stored.
//!
//! References: <https://kafka.apache.org/documentation/#messageset>, KAFKA-3160 (the header of an
//! LZ4 frame in format 0 has a wrong checksum).

use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::Crc;

use crate::codec::{self, Compression, Head, RawRecord};
use crate::log::Stored;

/// Offset and size, which stand before every message.
const PREFIX_BYTES: usize = 12;
/// Where the checksum of its header stands in an LZ4 frame that states no content size.
const LZ4_HEADER_CHECKSUM_AT: usize = 6;

/// The messages of `records` from `base` on in format `magic`: one batch each, or one wrapper.
/// `None` where the format does not know the codec.
pub(crate) fn stored(
    magic: i8,
    base: i64,
    records: &[RawRecord],
    compression: Compression,
) -> Option<Vec<Stored>> {
    let at = |record: &RawRecord| base + i64::from(record.offset_delta);
    if compression == Compression::None {
        let one = |record: &RawRecord| {
            let bytes = message(magic, at(record), 0, record);
            Stored { head: head(magic, 0, at(record), std::slice::from_ref(record)), bytes }
        };
        return Some(records.iter().map(one).collect());
    }
    let last = records.last()?;
    let mut inner = BytesMut::new();
    for record in records {
        // Offsets inside of a wrapper are relative since format 1.
        let offset = if magic == 0 { at(record) } else { i64::from(record.offset_delta) };
        inner.put_slice(&message(magic, offset, 0, record));
    }
    let mut packed = BytesMut::from(&codec::compress(compression, &inner)[..]);
    if magic == 0 && compression == Compression::Lz4 {
        // Computed over the wrong bytes then; any other value than the right one does.
        packed[LZ4_HEADER_CHECKSUM_AT] ^= 0xff;
    }
    let attributes = match compression {
        Compression::Gzip => 1,
        Compression::Snappy => 2,
        Compression::Lz4 => 3,
        Compression::None | Compression::Zstd => return None,
    };
    let wrapper = RawRecord {
        offset_delta: last.offset_delta,
        timestamp: records.iter().map(|record| record.timestamp).max().unwrap_or(-1),
        key: None,
        value: Some(packed.freeze()),
        headers: Vec::new(),
    };
    let bytes = message(magic, at(last), attributes, &wrapper);
    Some(vec![Stored { head: head(magic, attributes, base, records), bytes }])
}

fn message(magic: i8, offset: i64, attributes: i8, record: &RawRecord) -> Bytes {
    let mut body = BytesMut::new();
    body.put_i8(magic);
    body.put_i8(attributes);
    if magic > 0 {
        body.put_i64(record.timestamp);
    }
    for field in [&record.key, &record.value] {
        match field {
            None => body.put_i32(-1),
            Some(bytes) => {
                body.put_i32(bytes.len() as i32);
                body.put_slice(bytes);
            }
        }
    }
    let mut crc = Crc::new();
    crc.update(&body);
    let mut out = BytesMut::new();
    out.put_i64(offset);
    out.put_i32(4 + body.len() as i32);
    out.put_u32(crc.sum());
    out.put_slice(&body);
    out.freeze()
}

/// What a log must know of a batch, in the words of format 2.
fn head(magic: i8, attributes: i8, base: i64, records: &[RawRecord]) -> Head {
    let timestamp = |record: &RawRecord| if magic == 0 { -1 } else { record.timestamp };
    Head {
        base_offset: base,
        batch_length: 0,
        leader_epoch: -1,
        magic,
        crc: 0,
        attributes: i16::from(attributes),
        last_offset_delta: match (records.first(), records.last()) {
            (Some(first), Some(last)) => last.offset_delta - first.offset_delta,
            _ => 0,
        },
        base_timestamp: records.first().map_or(-1, timestamp),
        max_timestamp: records.iter().map(timestamp).max().unwrap_or(-1),
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        count: records.len() as i32,
    }
}

/// One past the offset of the message or wrapper that stands at the front of `bytes`.
pub(crate) fn next_offset(mut bytes: &[u8]) -> Option<i64> {
    (bytes.len() >= 8).then(|| bytes.get_i64() + 1)
}

/// The records of a stored batch.
pub(crate) fn records(stored: &Stored) -> Vec<RawRecord> {
    let head = &stored.head;
    let Some((_, outer)) = read(&mut stored.bytes.clone()) else { return Vec::new() };
    let compression = Compression::from_attributes(head.attributes).unwrap_or(Compression::None);
    if compression == Compression::None {
        return vec![outer];
    }
    let mut packed = BytesMut::from(&outer.value.unwrap_or_default()[..]);
    if head.magic == 0 && compression == Compression::Lz4 {
        packed[LZ4_HEADER_CHECKSUM_AT] ^= 0xff;
    }
    let mut inner = codec::decompress(compression, packed.freeze()).unwrap_or_default();
    let mut records = Vec::new();
    while let Some((offset, record)) = read(&mut inner) {
        let delta = if head.magic == 0 { offset - head.base_offset } else { offset };
        records.push(RawRecord { offset_delta: delta as i32, ..record });
    }
    records
}

/// Takes one message from the front: its offset as it stands there, and the record.
fn read(bytes: &mut Bytes) -> Option<(i64, RawRecord)> {
    if bytes.remaining() < PREFIX_BYTES {
        return None;
    }
    let offset = bytes.get_i64();
    let size = usize::try_from(bytes.get_i32()).ok()?;
    if bytes.remaining() < size || size < 4 + 2 + 8 {
        return None;
    }
    let mut message = bytes.split_to(size);
    message.advance(4); // the checksum
    let magic = message.get_i8();
    message.advance(1); // the codec, which the head knows
    let timestamp = if magic == 0 { -1 } else { message.get_i64() };
    let mut field = || {
        let length = usize::try_from(message.get_i32()).ok()?;
        Some(message.split_to(length.min(message.remaining())))
    };
    let (key, value) = (field(), field());
    Some((offset, RawRecord { offset_delta: 0, timestamp, key, value, headers: Vec::new() }))
}
