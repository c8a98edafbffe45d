//! Record batches v2 for the scripts: built, broken on purpose, and described for comparison.

use std::io::Write;

use bytes::{BufMut, Bytes, BytesMut};

use crate::tree::Tree;

/// A record: key and value, each of which may be null.
pub(crate) type Row<'a> = (Option<&'a str>, Option<&'a str>);

/// A batch to be written.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<(Option<String>, Option<String>)>,
    /// Of the first record.
    pub(crate) timestamp: i64,
    /// Between one record and the next.
    pub(crate) step_ms: i64,
    pub(crate) attributes: i16,
    pub(crate) producer: (i64, i16, i32),
}

impl Batch {
    /// `count` records with keys and values.
    pub(crate) fn of(count: usize, timestamp: i64) -> Self {
        let row = |index| (Some(format!("k{index}")), Some(format!("value {index}")));
        Self {
            rows: (0..count).map(row).collect(),
            timestamp,
            step_ms: 1,
            attributes: 0,
            producer: (-1, -1, -1),
        }
    }

    pub(crate) fn rows(rows: &[Row<'_>], timestamp: i64) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let rows = rows.iter().map(|&(key, value)| (owned(key), owned(value))).collect();
        Self { rows, ..Self::of(0, timestamp) }
    }

    /// By this producer: id, epoch, sequence of the first record.
    pub(crate) fn by(mut self, id: i64, epoch: i16, sequence: i32) -> Self {
        self.producer = (id, epoch, sequence);
        self
    }

    /// Inside a transaction.
    pub(crate) fn transactional(mut self) -> Self {
        self.attributes |= 0x10;
        self
    }

    /// Compressed with the codec of this number: gzip, snappy, lz4, zstd.
    pub(crate) fn compressed(mut self, codec: i16) -> Self {
        self.attributes |= codec;
        self
    }

    pub(crate) fn bytes(&self) -> Bytes {
        let mut records = Vec::new();
        for (index, (key, value)) in self.rows.iter().enumerate() {
            let mut record = vec![0];
            put_varint(&mut record, index as i64 * self.step_ms);
            put_varint(&mut record, index as i64);
            for field in [key, value] {
                match field {
                    Some(text) => {
                        put_varint(&mut record, text.len() as i64);
                        record.extend_from_slice(text.as_bytes());
                    }
                    None => put_varint(&mut record, -1),
                }
            }
            put_varint(&mut record, 0);
            put_varint(&mut records, record.len() as i64);
            records.extend_from_slice(&record);
        }
        let records = compress(self.attributes & 7, &records);
        let last = self.rows.len() as i32 - 1;
        let mut batch = BytesMut::new();
        batch.put_i64(0);
        batch.put_i32(49 + records.len() as i32);
        batch.put_i32(-1);
        batch.put_i8(2);
        batch.put_u32(0);
        batch.put_i16(self.attributes);
        batch.put_i32(last);
        batch.put_i64(self.timestamp);
        batch.put_i64(self.timestamp + (i64::from(last) * self.step_ms).max(0));
        batch.put_i64(self.producer.0);
        batch.put_i16(self.producer.1);
        batch.put_i32(self.producer.2);
        batch.put_i32(self.rows.len() as i32);
        batch.put_slice(&records);
        patched(&batch.freeze(), |_| ())
    }
}

/// Changes bytes of a batch and makes the checksum right again.
pub(crate) fn patched(batch: &Bytes, change: impl FnOnce(&mut [u8])) -> Bytes {
    let mut bytes = BytesMut::from(&batch[..]);
    change(&mut bytes);
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.freeze()
}

/// The batch with other bytes from `at`, checksum made right.
pub(crate) fn with(batch: &Bytes, at: usize, bytes: &[u8]) -> Bytes {
    patched(batch, |batch| batch[at..at + bytes.len()].copy_from_slice(bytes))
}

fn put_varint(buf: &mut Vec<u8>, value: i64) {
    let mut value = ((value << 1) ^ (value >> 63)) as u64;
    while value >= 0x80 {
        buf.push(value as u8 | 0x80);
        value >>= 7;
    }
    buf.push(value as u8);
}

fn compress(codec: i16, records: &[u8]) -> Vec<u8> {
    let done = match codec {
        1 => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            writer.write_all(records).and_then(|()| writer.finish())
        }
        // Kafka's frame: magic, two versions, then blocks with their lengths.
        2 => snap::raw::Encoder::new().compress_vec(records).map_err(Into::into).map(|block| {
            let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            framed.extend_from_slice(&(block.len() as u32).to_be_bytes());
            framed.extend_from_slice(&block);
            framed
        }),
        3 => {
            let mut writer = lz4_flex::frame::FrameEncoder::new(Vec::new());
            writer.write_all(records).and_then(|()| writer.finish().map_err(Into::into))
        }
        4 => zstd::stream::encode_all(records, 3),
        _ => Ok(records.to_vec()),
    };
    done.expect("compression into memory")
}

/// The batches in the records of a Fetch answer: every field of the heads, whether the checksum is
/// right (its value follows from the rest), and the bodies. A cut-off tail is described by its
/// length.
pub(crate) fn describe(mut bytes: &[u8]) -> Tree {
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let length = bytes.get(8..12).and_then(|length| length.try_into().ok());
        let length = length.map_or(0, i32::from_be_bytes).max(0) as usize + 12;
        if bytes.len() < length || length < 61 {
            batches.push(Tree::Fields(vec![("cut".into(), Tree::number(bytes.len() as i64))]));
            break;
        }
        let (batch, rest) = bytes.split_at(length);
        batches.push(head(batch));
        bytes = rest;
    }
    Tree::List(batches)
}

fn head(batch: &[u8]) -> Tree {
    let number = |at: usize, size: usize| {
        let bytes = &batch[at..at + size];
        let negative = bytes[0] & 0x80 != 0;
        let start = if negative { -1 } else { 0 };
        Tree::number(bytes.iter().fold(start, |value: i64, &byte| value << 8 | i64::from(byte)))
    };
    let crc = u32::from_be_bytes([batch[17], batch[18], batch[19], batch[20]]);
    let sound = Tree::Atom((crc == crc32c::crc32c(&batch[21..])).to_string());
    let fields = [
        ("base_offset", number(0, 8)),
        ("batch_length", number(8, 4)),
        ("partition_leader_epoch", number(12, 4)),
        ("magic", number(16, 1)),
        ("sound", sound),
        ("attributes", number(21, 2)),
        ("last_offset_delta", number(23, 4)),
        ("base_timestamp", number(27, 8)),
        ("max_timestamp", number(35, 8)),
        ("producer_id", number(43, 8)),
        ("producer_epoch", number(51, 2)),
        ("base_sequence", number(53, 4)),
        ("count", number(57, 4)),
        ("body", Tree::Bytes(batch[61..].to_vec())),
    ];
    Tree::Fields(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
