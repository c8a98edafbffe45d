//! Judges what a producer sends, in Kafka's order (`ProduceRequest.validateRecords`,
//! `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`).
//!
//! Does not look at producers, leaders or replicas. Stricter than Kafka in one place: offset deltas
//! that are not 0, 1, 2, ... are refused, where Kafka stores such a batch broken.

use bytes::Bytes;

use crate::code::{
    CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
    UNKNOWN_SERVER_ERROR, UNSUPPORTED_COMPRESSION_TYPE,
};
use crate::codec::{self, Compression, Frame, Head, RawRecord, RecordsError};

/// The settings of a topic that decide about a batch.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub message_bytes_max: usize,
    /// No batch is larger than a segment.
    pub segment_bytes: usize,
    pub compacted: bool,
    pub append_time: bool,
    /// `None` keeps what the producer sent.
    pub compression: Option<Compression>,
    pub before_ms_max: i64,
    pub after_ms_max: i64,
}

/// Why a batch is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub code: i16,
    pub message: String,
    /// What a broker does with it.
    pub kind: RefusalKind,
    /// Index within the batch and what is wrong with the record.
    pub records: Vec<(i32, String)>,
}

/// Where in a broker a batch is refused, which decides what the answer tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// While the request is read: it fails as a whole, and every partition says why.
    Unreadable,
    /// By the records, each of which says why.
    Records,
    /// As corrupt or too large: the answer tells neither why nor where the log begins.
    Batch,
    /// By anything else: the answer tells where the log begins.
    Other,
}

impl Refusal {
    fn new(code: i16, message: impl Into<String>) -> Self {
        let kind = RefusalKind::Other;
        Self { code, message: message.into(), kind, records: Vec::new() }
    }

    fn of(kind: RefusalKind, code: i16, message: impl Into<String>) -> Self {
        Self { kind, ..Self::new(code, message) }
    }
}

/// The smallest length of a record of format 0, which Kafka holds every batch to.
const RECORD_BYTES_MIN: i32 = 14;
/// What a broker must have of a batch to see its format.
const UP_TO_MAGIC: usize = 17;

/// What a broker notices of a batch while it reads the request (`ByteBufferLogInputStream`): its
/// length, or `None` where no whole batch is there.
fn next_batch(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let unreadable =
        |message: String| Err(Refusal::of(RefusalKind::Unreadable, CORRUPT_MESSAGE, message));
    let Some(size) = bytes.get(8..12).and_then(|size| size.try_into().ok()) else {
        return Ok(None);
    };
    let size = i32::from_be_bytes(size);
    if size < RECORD_BYTES_MIN {
        return unreadable(format!(
            "Record size {size} is less than the minimum record overhead ({RECORD_BYTES_MIN})"
        ));
    }
    if bytes.len() < UP_TO_MAGIC {
        return Ok(None);
    }
    let magic = bytes[UP_TO_MAGIC - 1] as i8;
    if !(0..=2).contains(&magic) {
        return unreadable(format!("Invalid magic found in record: {magic}"));
    }
    Ok(codec::stated_length(bytes).filter(|&length| length <= bytes.len()))
}

/// A batch as it goes into the log, except for offset and leader epoch.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub head: Head,
    pub batch: Bytes,
}

/// The checks that need no topic: exactly one whole batch of format 2.
pub(crate) fn one_batch(records: &Bytes, version: i16) -> Result<Bytes, Refusal> {
    let none = || {
        Refusal::new(
            INVALID_RECORD,
            format!(
                "Produce requests with version {version} must have at least one record batch per partition"
            ),
        )
    };
    let length = next_batch(records)?.ok_or_else(none)?;
    let second = next_batch(&records[length..])?;
    let head = Head::parse(records).ok_or_else(none)?;
    if head.magic != 2 {
        return Err(Refusal::new(
            INVALID_RECORD,
            format!(
                "Produce requests with version {version} are only allowed to contain record batches with magic version 2"
            ),
        ));
    }
    if version < 7 && Compression::from_attributes(head.attributes) == Some(Compression::Zstd) {
        return Err(Refusal::new(
            UNSUPPORTED_COMPRESSION_TYPE,
            format!(
                "Produce requests with version {version} are not allowed to use ZStandard compression"
            ),
        ));
    }
    if second.is_some() {
        return Err(Refusal::new(
            INVALID_RECORD,
            format!(
                "Produce requests with version {version} are only allowed to contain exactly one record batch per partition"
            ),
        ));
    }
    Ok(records.slice(..length))
}

/// Everything else that does not depend on the producer's state.
/// `name` is the partition's in Kafka's texts.
pub(crate) fn batch(
    batch: &Bytes,
    name: &str,
    rules: &Rules,
    now_ms: i64,
) -> Result<Accepted, Refusal> {
    let Some(head) = Head::parse(batch) else {
        return Err(Refusal::new(CORRUPT_MESSAGE, "Record batch is shorter than its head"));
    };
    if head.base_offset != 0 {
        return Err(Refusal::new(
            INVALID_RECORD,
            format!(
                "The baseOffset of the record batch in the append should be 0, but it is {}",
                head.base_offset
            ),
        ));
    }
    if batch.len() > rules.message_bytes_max {
        return Err(Refusal::of(
            RefusalKind::Batch,
            MESSAGE_TOO_LARGE,
            format!(
                "The record batch size in the append is {} bytes which exceeds the maximum configured value of {}.",
                batch.len(),
                rules.message_bytes_max
            ),
        ));
    }
    let sum = codec::checksum(batch);
    if sum != head.crc {
        return Err(Refusal::of(
            RefusalKind::Batch,
            CORRUPT_MESSAGE,
            format!("Record is corrupt (stored crc = {}, computed crc = {sum})", head.crc),
        ));
    }
    counts(&head)?;
    let records = codec::records(batch).map_err(|error| match error {
        // Not foreseen by Kafka, which logs it and answers that.
        RecordsError::Decompress(_) => Refusal::new(UNKNOWN_SERVER_ERROR, error.to_string()),
        error => Refusal::new(INVALID_RECORD, error.to_string()),
    })?;
    if let Some((index, record)) =
        records.iter().enumerate().find(|(index, record)| record.offset_delta as usize != *index)
    {
        return Err(Refusal::new(
            INVALID_RECORD,
            format!("Record {index} of the batch has offset delta {}", record.offset_delta),
        ));
    }
    every_record(&head, &records, name, rules, now_ms)?;
    let accepted = finished(batch, &head, &records, rules, now_ms);
    let size = accepted.batch.len();
    // Another codec may have made it larger.
    if size > rules.message_bytes_max {
        return Err(Refusal::of(
            RefusalKind::Batch,
            MESSAGE_TOO_LARGE,
            format!(
                "Message batch size is {size} bytes in append to partition {name} which exceeds the maximum configured size of {}.",
                rules.message_bytes_max
            ),
        ));
    }
    if size > rules.segment_bytes {
        return Err(Refusal::of(
            RefusalKind::Batch,
            RECORD_LIST_TOO_LARGE,
            format!(
                "Message batch size is {size} bytes in append to partition {name}, which exceeds the maximum configured segment size of {}.",
                rules.segment_bytes
            ),
        ));
    }
    Ok(accepted)
}

fn counts(head: &Head) -> Result<(), Refusal> {
    let refuse = |message: String| Err(Refusal::new(INVALID_RECORD, message));
    let (last, count) = (i64::from(head.last_offset_delta), i64::from(head.count));
    if last < 0 && count != 0 {
        return refuse(format!("Batch has an invalid offset range: [0, {last}]"));
    }
    if count <= 0 {
        return refuse(format!("Invalid reported count for record batch: {count}"));
    }
    if last + 1 != count {
        return refuse(format!(
            "Inconsistent batch offset range [0, {last}] and count of records {count}"
        ));
    }
    if head.is_control() {
        return refuse("Clients are not allowed to write control records".to_owned());
    }
    if head.producer_id >= 0 && head.base_sequence < 0 {
        return refuse(format!(
            "Invalid sequence number {} in record batch with producerId {}",
            head.base_sequence, head.producer_id
        ));
    }
    Ok(())
}

fn every_record(
    head: &Head,
    records: &[RawRecord],
    name: &str,
    rules: &Rules,
    now_ms: i64,
) -> Result<(), Refusal> {
    let mut wrong = Vec::new();
    let mut code = INVALID_TIMESTAMP;
    for (index, record) in records.iter().enumerate() {
        let index = index as i32;
        // Under an append time every record shows the time of the batch.
        let timestamp = if head.is_append_time() { head.max_timestamp } else { record.timestamp };
        if rules.compacted && record.key.is_none() {
            let message = format!(
                "Compacted topic cannot accept message without key in topic partition {name}"
            );
            wrong.push((index, message));
            code = INVALID_RECORD;
        } else if rules.append_time {
            if head.is_append_time() {
                wrong.push((
                    index,
                    format!(
                        "Invalid timestamp type in message DefaultRecord(offset={index}, timestamp={timestamp}, key={} bytes, value={} bytes). Producer should not set timestamp type to LogAppendTime.",
                        record.key.as_ref().map_or(0, Bytes::len),
                        record.value.as_ref().map_or(0, Bytes::len)
                    ),
                ));
            }
        } else if timestamp != -1 {
            let (earliest, latest) = (
                now_ms.saturating_sub(rules.before_ms_max),
                now_ms.saturating_add(rules.after_ms_max),
            );
            if timestamp < earliest || timestamp > latest {
                wrong.push((
                    index,
                    format!(
                        "Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within [{earliest}, {latest}]"
                    ),
                ));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let message = if code == INVALID_TIMESTAMP {
        "One or more records have been rejected due to invalid timestamp".to_owned()
    } else {
        let shown = wrong.iter().take(3).map(|(index, message)| {
            format!("RecordError(batchIndex={index}, message='{message}')")
        });
        format!(
            "One or more records have been rejected due to {} record errors in total, and only showing the first three errors at most: [{}]",
            wrong.len(),
            shown.collect::<Vec<_>>().join(", ")
        )
    };
    Err(Refusal { code, message, kind: RefusalKind::Records, records: wrong })
}

/// Recompresses where the topic asks for another codec, and sets the timestamp fields.
fn finished(
    batch: &Bytes,
    head: &Head,
    records: &[RawRecord],
    rules: &Rules,
    now_ms: i64,
) -> Accepted {
    let sent = Compression::from_attributes(head.attributes).unwrap_or(Compression::None);
    let stored = match rules.compression {
        Some(wanted) if wanted != sent => codec::encode(Frame::of(head, wanted), records),
        _ => batch.clone(),
    };
    let max_timestamp = if rules.append_time {
        now_ms
    } else {
        records.iter().map(|record| record.timestamp).max().unwrap_or(-1)
    };
    let stored = codec::stamp(&stored, rules.append_time, max_timestamp);
    let head = Head::parse(&stored).unwrap_or(*head);
    Accepted { head, batch: stored }
}
