//! What can be wrong with a batch.

use crate::Codec;

/// Why bytes are not a batch that can be read. Every variant names the offset the batch claims.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The stored checksum is not that of the bytes.
    #[error(
        "batch at offset {offset} fails its checksum: stored {stored:08x}, computed {computed:08x}"
    )]
    Checksum {
        /// The offset the batch claims (not covered by the checksum of format 2).
        offset: i64,
        /// The checksum in the batch.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The length field is one that no batch can have.
    #[error("batch at offset {offset} claims a length of {length} bytes, less than a head takes")]
    Length {
        /// The offset the batch claims.
        offset: i64,
        /// The length field.
        length: i32,
    },
    /// Exactly one batch was expected and the bytes hold less or more.
    #[error("batch at offset {offset} takes {claimed} bytes where {present} are present")]
    Size {
        /// The offset the batch claims.
        offset: i64,
        /// What the batch claims to take, head included.
        claimed: usize,
        /// What is there.
        present: usize,
    },
    /// The message format cannot be read here.
    #[error("batch at offset {offset} has message format {magic}, which cannot be read here")]
    Format {
        /// The offset the batch claims.
        offset: i64,
        /// The format.
        magic: i8,
    },
    /// The compression codec is none that Kafka defines for this format.
    #[error("batch at offset {offset} is compressed with unknown codec {id}")]
    UnknownCodec {
        /// The offset the batch claims.
        offset: i64,
        /// The number of the codec.
        id: u8,
    },
    /// The checksum holds and the head contradicts itself.
    #[error("batch at offset {offset} has an impossible head: {what}")]
    Head {
        /// The offset the batch claims.
        offset: i64,
        /// What contradicts.
        what: &'static str,
    },
    /// The body cannot be decompressed.
    #[error("batch at offset {offset} cannot be decompressed ({codec}): {reason}")]
    Compression {
        /// The offset the batch claims.
        offset: i64,
        /// The codec the batch names.
        codec: Codec,
        /// What the decoder says.
        reason: String,
    },
    /// The body is larger than the caller allows once decompressed.
    #[error("batch at offset {offset} takes more than {limit} bytes when decompressed ({codec})")]
    TooLarge {
        /// The offset the batch claims.
        offset: i64,
        /// The codec the batch names.
        codec: Codec,
        /// The caller's limit.
        limit: usize,
    },
    /// A record within the batch is damaged.
    #[error("record {index} of the batch at offset {offset} is damaged: {what}")]
    Record {
        /// The offset the batch claims.
        offset: i64,
        /// The record's place in the batch, from 0.
        index: u32,
        /// What is wrong.
        what: &'static str,
    },
}

impl BatchError {
    /// The offset that the batch claims.
    pub fn offset(&self) -> i64 {
        match *self {
            Self::Checksum { offset, .. }
            | Self::Length { offset, .. }
            | Self::Size { offset, .. }
            | Self::Format { offset, .. }
            | Self::UnknownCodec { offset, .. }
            | Self::Head { offset, .. }
            | Self::Compression { offset, .. }
            | Self::TooLarge { offset, .. }
            | Self::Record { offset, .. } => offset,
        }
    }
}
