//! The 61-byte head of a format 2 batch.
//!
//! | bytes | field | in the CRC |
//! |---|---|---|
//! | 0..8 | baseOffset | no |
//! | 8..12 | batchLength (counts from byte 12) | no |
//! | 12..16 | partitionLeaderEpoch | no |
//! | 16 | magic | no |
//! | 17..21 | crc (CRC32C of all that follows) | no |
//! | 21..23 | attributes | yes |
//! | 23..27 | lastOffsetDelta | yes |
//! | 27..35 | baseTimestamp | yes |
//! | 35..43 | maxTimestamp | yes |
//! | 43..51 | producerId | yes |
//! | 51..53 | producerEpoch | yes |
//! | 53..57 | baseSequence | yes |
//! | 57..61 | recordCount | yes |

use crate::{BatchError, Codec};

/// Bytes of the head, up to the first record.
pub const HEAD_BYTES: usize = 61;

/// Where the bytes begin that batchLength counts.
pub(crate) const LENGTH_FROM: usize = 12;

/// Where the bytes begin that the CRC covers.
pub(crate) const CRC_FROM: usize = 21;

/// The bits of `attributes` that name the codec.
pub(crate) const CODEC_MASK: i16 = 0b111;
/// The broker stamped the batch: every record has the maximum timestamp.
pub(crate) const APPEND_TIME: i16 = 1 << 3;
/// The batch belongs to a transaction.
pub(crate) const TRANSACTIONAL: i16 = 1 << 4;
/// The batch is a marker, not data.
pub(crate) const CONTROL: i16 = 1 << 5;
/// The base timestamp holds the delete horizon (KIP-534).
pub(crate) const DELETE_HORIZON: i16 = 1 << 6;

/// The head of a format 2 batch, as it stands in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Offset of the first record the batch was written with (compaction may have removed it).
    pub base_offset: i64,
    /// Bytes of the batch that follow this field.
    pub batch_length: i32,
    /// Leader epoch of the append; -1 where unknown.
    pub leader_epoch: i32,
    /// Message format; 2 here.
    pub magic: i8,
    /// CRC32C of everything from the attributes on.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: i16,
    /// Offset of the last record the batch was written with, less the base offset.
    pub last_offset_delta: i32,
    /// What the records' timestamp deltas count from; the delete horizon where bit 6 is set, the
    /// deltas were rewritten with it.
    pub base_timestamp: i64,
    /// The largest timestamp; the append time where bit 3 is set.
    pub max_timestamp: i64,
    /// Producer id; -1 where none.
    pub producer_id: i64,
    /// Producer epoch; -1 where none.
    pub producer_epoch: i16,
    /// Sequence of the first record; -1 where none.
    pub base_sequence: i32,
    /// How many records the batch holds now.
    pub record_count: i32,
}

/// `N` bytes of `bytes` from `at` on. Callers have checked the length once for the whole head.
fn field<const N: usize>(bytes: &[u8; HEAD_BYTES], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

impl Head {
    /// Takes the fields out of `bytes`; `None` when there are fewer than 61. Checks nothing.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        Some(Self {
            base_offset: i64::from_be_bytes(field(bytes, 0)),
            batch_length: i32::from_be_bytes(field(bytes, 8)),
            leader_epoch: i32::from_be_bytes(field(bytes, 12)),
            magic: i8::from_be_bytes(field(bytes, 16)),
            crc: u32::from_be_bytes(field(bytes, 17)),
            attributes: i16::from_be_bytes(field(bytes, 21)),
            last_offset_delta: i32::from_be_bytes(field(bytes, 23)),
            base_timestamp: i64::from_be_bytes(field(bytes, 27)),
            max_timestamp: i64::from_be_bytes(field(bytes, 35)),
            producer_id: i64::from_be_bytes(field(bytes, 43)),
            producer_epoch: i16::from_be_bytes(field(bytes, 51)),
            base_sequence: i32::from_be_bytes(field(bytes, 53)),
            record_count: i32::from_be_bytes(field(bytes, 57)),
        })
    }

    /// The bytes that [`Head::parse`] reads.
    pub(crate) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0..8].copy_from_slice(&self.base_offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.leader_epoch.to_be_bytes());
        bytes[16..17].copy_from_slice(&self.magic.to_be_bytes());
        bytes[17..21].copy_from_slice(&self.crc.to_be_bytes());
        bytes[21..23].copy_from_slice(&self.attributes.to_be_bytes());
        bytes[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        bytes[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        bytes[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        bytes[43..51].copy_from_slice(&self.producer_id.to_be_bytes());
        bytes[51..53].copy_from_slice(&self.producer_epoch.to_be_bytes());
        bytes[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        bytes[57..61].copy_from_slice(&self.record_count.to_be_bytes());
        bytes
    }

    /// The bytes of this head with the CRC that they and `body` need.
    pub(crate) fn seal(self, body: &[u8]) -> [u8; HEAD_BYTES] {
        let mut bytes = self.to_bytes();
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[CRC_FROM..]), body);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Refuses a head whose fields no broker would have written together.
    pub(crate) fn check(&self) -> Result<(), BatchError> {
        let what = if self.base_offset < 0 {
            "the base offset is negative"
        } else if self.last_offset_delta < 0 {
            "the last offset delta is negative"
        } else if self.base_offset.checked_add(i64::from(self.last_offset_delta) + 1).is_none() {
            "the last offset is out of range"
        } else if self.record_count < 0 {
            "the record count is negative"
        } else if i64::from(self.record_count) > i64::from(self.last_offset_delta) + 1 {
            "there are more records than offsets"
        } else {
            return Ok(());
        };
        Err(BatchError::Head { offset: self.base_offset, what })
    }

    /// Offset of the last record the batch was written with.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// Where the next batch begins, whatever compaction took out of this one.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// The codec of the body.
    pub fn codec(&self) -> Result<Codec, BatchError> {
        let id = (self.attributes & CODEC_MASK) as u8;
        Codec::from_id(id).ok_or(BatchError::UnknownCodec { offset: self.base_offset, id })
    }

    /// Whether the batch is a marker (of a transaction, or of Raft), not data.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Whether the batch, data or marker, belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether the broker stamped the records (`message.timestamp.type=LogAppendTime`).
    pub fn is_append_time(&self) -> bool {
        self.attributes & APPEND_TIME != 0
    }

    /// Whether the cleaner put the delete horizon where the base timestamp stood.
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON != 0
    }

    /// Whether every offset from the base to the last has its record.
    pub fn is_dense(&self) -> bool {
        self.record_count > 0
            && i64::from(self.record_count) == i64::from(self.last_offset_delta) + 1
    }
}
