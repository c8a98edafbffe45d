//! Whole batches out of the bytes of a Fetch answer.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::head::{CRC_FROM, LENGTH_FROM};
use crate::record::{Record, Records};
use crate::{BatchError, Codec, HEAD_BYTES, Head, codec, legacy};

/// Most bytes that a compressed message of format 0 or 1 may take when decompressed. Such messages
/// were held to `message.max.bytes` (1 MB) before compression by the producers of their time, and
/// brokers never recompressed them larger; the rest is room for raised limits.
pub const OLD_FORMAT_BYTES_MAX: usize = 128 << 20;

/// Bytes of offset and length, in every format.
pub(crate) const LOG_OVERHEAD: usize = 12;

/// Where every format keeps its number.
const MAGIC_AT: usize = 16;

/// What a control batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The producer's transaction is committed.
    Commit,
    /// The producer's transaction is aborted.
    Abort,
    /// Another kind, by Kafka's number; -1 where the batch holds no marker that can be read (the
    /// cleaner leaves empty control batches).
    Other(i16),
}

/// One whole format 2 batch whose CRC holds. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    head: Head,
    bytes: Bytes,
}

impl Batch {
    /// Verifies `bytes`, which hold exactly one batch of format 2.
    pub fn verify(bytes: Bytes) -> Result<Self, BatchError> {
        let Some(head) = Head::parse(&bytes) else {
            return Err(BatchError::Size { offset: -1, claimed: HEAD_BYTES, present: bytes.len() });
        };
        let offset = head.base_offset;
        let claimed = batch_bytes(&head)?;
        if head.magic != 2 {
            return Err(BatchError::Format { offset, magic: head.magic });
        }
        if claimed != bytes.len() {
            return Err(BatchError::Size { offset, claimed, present: bytes.len() });
        }
        let computed = crc32c::crc32c(&bytes[CRC_FROM..]);
        if computed != head.crc {
            return Err(BatchError::Checksum { offset, stored: head.crc, computed });
        }
        head.check()?;
        Ok(Self { head, bytes })
    }

    /// The head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The batch, head included.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What the marker says; `None` for data.
    pub fn control(&self) -> Option<Control> {
        /// A marker's key takes 4 bytes, its value 6 or some hundred; nobody compresses them.
        const MARKER_BYTES_MAX: usize = 64 << 10;
        self.head.is_control().then(|| {
            let marker = self.read_records(MARKER_BYTES_MAX).ok().and_then(|mut all| all.next());
            match marker.and_then(Result::ok).and_then(|record| record.key).as_deref() {
                // Version, then type: `ControlRecordType`.
                Some(&[_, _, 0, 0, ..]) => Control::Abort,
                Some(&[_, _, 0, 1, ..]) => Control::Commit,
                Some(&[_, _, high, low, ..]) => Control::Other(i16::from_be_bytes([high, low])),
                _ => Control::Other(-1),
            }
        })
    }

    /// The records, with timestamps as a consumer of this log sees them: where the broker stamped
    /// the batch, every record has its append time. Fails when the body takes more than
    /// `limit_bytes` once decompressed. A record takes about 100 bytes beside its contents, which
    /// slice one shared buffer.
    pub fn records(&self, limit_bytes: usize) -> Result<Vec<Record>, BatchError> {
        let records = self.read_records(limit_bytes)?;
        // The count was held against the size of the body.
        let mut all = Vec::with_capacity(self.head.record_count as usize);
        for record in records {
            all.push(record?);
        }
        Ok(all)
    }

    /// As [`Batch::records`], decoded one by one.
    pub fn read_records(&self, limit_bytes: usize) -> Result<Records, BatchError> {
        let body = self.bytes.slice(HEAD_BYTES..);
        let offset = self.head.base_offset;
        let codec = self.head.codec()?;
        // The cleaner leaves empty batches with the codec of what they held.
        let body = if self.head.record_count == 0 {
            Bytes::new()
        } else if codec == Codec::None {
            body
        } else {
            codec
                .decompress(&body, limit_bytes, codec::Lz4Header::Checked)
                .map_err(|fault| fault.at(offset, codec, limit_bytes))?
                .into()
        };
        Records::new(&self.head, body)
    }
}

/// Bytes of the batch, head included.
fn batch_bytes(head: &Head) -> Result<usize, BatchError> {
    usize::try_from(head.batch_length)
        .ok()
        .map(|length| length.saturating_add(LENGTH_FROM))
        .filter(|&bytes| bytes >= HEAD_BYTES)
        .ok_or(BatchError::Length { offset: head.base_offset, length: head.batch_length })
}

/// The batches of the records field of a Fetch answer, each verified. A batch that is cut off at
/// the end of the field ends the iteration quietly: brokers cut by bytes. Messages of format 0 and
/// 1 come out as format 2 batches with the same offsets and timestamps: neighbours in one batch,
/// compressed ones each in one of the same codec. After an error the iteration ends.
pub fn batches(records: Bytes) -> Batches {
    Batches { rest: records, ready: VecDeque::new(), old_format_bytes_max: OLD_FORMAT_BYTES_MAX }
}

/// See [`batches`].
#[derive(Clone, Debug)]
pub struct Batches {
    rest: Bytes,
    /// Converted from an old format and not yet handed out; at most one batch and an error.
    ready: VecDeque<Result<Batch, BatchError>>,
    old_format_bytes_max: usize,
}

impl Batches {
    /// Sets another limit than [`OLD_FORMAT_BYTES_MAX`], at most 1 GiB: what comes out is one batch
    /// of format 2, whose length field has 31 bits.
    pub fn with_old_format_limit(self, limit_bytes: usize) -> Self {
        Self { old_format_bytes_max: limit_bytes.min(1 << 30), ..self }
    }

    /// Bytes not read (yet). At the end of the iteration: what was cut off. When nothing came out
    /// before, the first batch is larger than the answer, or its length field is damaged.
    pub fn rest(&self) -> usize {
        self.rest.len()
    }

    fn read(&mut self) -> Option<Result<Batch, BatchError>> {
        let whole = match next_whole(&self.rest)? {
            Ok(whole) => whole,
            Err(error) => return Some(Err(error)),
        };
        if whole.magic < 2 {
            let mut converted = legacy::convert(&mut self.rest, self.old_format_bytes_max);
            let first = converted.pop_front();
            self.ready = converted;
            return first;
        }
        Some(Batch::verify(self.rest.split_to(whole.bytes)))
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.ready.pop_front().or_else(|| self.read());
        if let Some(Err(_)) = next {
            self.rest = Bytes::new();
            self.ready.clear();
        }
        next
    }
}

/// What lies at the front of some bytes.
pub(crate) struct Whole {
    /// The format.
    pub(crate) magic: i8,
    /// Bytes it takes, offset and length included.
    pub(crate) bytes: usize,
}

/// Looks at the batch or message in front; `None` when it is cut off or nothing is left.
pub(crate) fn next_whole(rest: &[u8]) -> Option<Result<Whole, BatchError>> {
    let front: &[u8; MAGIC_AT + 1] = rest.first_chunk()?;
    let offset = i64::from_be_bytes(*front.first_chunk()?);
    let length = i32::from_be_bytes(*front[8..].first_chunk()?);
    let magic = front[MAGIC_AT] as i8;
    let length_min = match magic {
        0 | 1 => legacy::message_bytes_min(magic),
        2 => HEAD_BYTES - LENGTH_FROM,
        _ => return Some(Err(BatchError::Format { offset, magic })),
    };
    let Some(body) = usize::try_from(length).ok().filter(|&body| body >= length_min) else {
        return Some(Err(BatchError::Length { offset, length }));
    };
    let bytes = body.saturating_add(LOG_OVERHEAD);
    (bytes <= rest.len()).then_some(Ok(Whole { magic, bytes }))
}

/// Only the heads of format 2 batches, their CRC **not** verified: for looking at the tail of a
/// log, where a damaged head can at worst lead to a wrong question. Ends quietly before a batch
/// whose head is cut off (its body may be), and after an error.
pub fn heads(records: &Bytes) -> Heads {
    Heads { rest: records.clone() }
}

/// See [`heads`].
#[derive(Clone, Debug)]
pub struct Heads {
    rest: Bytes,
}

impl Iterator for Heads {
    type Item = Result<Head, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        // An old message may be shorter than a head, and is named all the same.
        let front: &[u8; MAGIC_AT + 1] = self.rest.first_chunk()?;
        let magic = front[MAGIC_AT] as i8;
        let checked = if magic == 2 {
            let head = Head::parse(&self.rest)?;
            head.check().and_then(|()| Ok((head, batch_bytes(&head)?)))
        } else {
            let offset = i64::from_be_bytes(*front.first_chunk()?);
            Err(BatchError::Format { offset, magic })
        };
        let bytes =
            checked.as_ref().map_or(self.rest.len(), |&(_, bytes)| bytes.min(self.rest.len()));
        self.rest = self.rest.slice(bytes..);
        Some(checked.map(|(head, _)| head))
    }
}
