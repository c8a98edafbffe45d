//! Judges what a producer sends, in Kafka's order (`ProduceRequest.validateRecords`,
//! `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`).
//!
//! Does not look at producers, leaders or replicas. Stricter than Kafka in one place: offset deltas
//! that are not 0, 1, 2, ... are refused, where Kafka stores such a batch broken.

use bytes::Bytes;

use crate::code::{
    CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
};
use crate::codec::{self, Compression, Frame, HEAD_BYTES, Head, RawRecord};

/// The settings of a topic that decide about a batch.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub message_bytes_max: usize,
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
    /// Index within the batch and what is wrong with the record.
    pub records: Vec<(i32, String)>,
}

impl Refusal {
    fn new(code: i16, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), records: Vec::new() }
    }
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
    let length = codec::stated_length(records).ok_or_else(none)?;
    if records.len() < length {
        return Err(none());
    }
    if length < HEAD_BYTES {
        return Err(Refusal::new(
            CORRUPT_MESSAGE,
            format!("Record batch is {length} bytes long, less than its head"),
        ));
    }
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
    let behind = &records[length..];
    if codec::stated_length(behind).is_some_and(|second| behind.len() >= second) {
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
pub(crate) fn batch(batch: &Bytes, rules: &Rules, now_ms: i64) -> Result<Accepted, Refusal> {
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
        return Err(Refusal::new(
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
        return Err(Refusal::new(
            CORRUPT_MESSAGE,
            format!("Record is corrupt (stored crc = {}, computed crc = {sum})", head.crc),
        ));
    }
    counts(&head)?;
    let records =
        codec::records(batch).map_err(|error| Refusal::new(INVALID_RECORD, error.to_string()))?;
    if let Some((index, record)) =
        records.iter().enumerate().find(|(index, record)| record.offset_delta as usize != *index)
    {
        return Err(Refusal::new(
            INVALID_RECORD,
            format!("Record {index} of the batch has offset delta {}", record.offset_delta),
        ));
    }
    every_record(&head, &records, rules, now_ms)?;
    Ok(finished(batch, &head, &records, rules, now_ms))
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
    rules: &Rules,
    now_ms: i64,
) -> Result<(), Refusal> {
    let mut wrong = Vec::new();
    let mut code = INVALID_TIMESTAMP;
    for (index, record) in records.iter().enumerate() {
        let index = index as i32;
        if rules.compacted && record.key.is_none() {
            wrong.push((index, "Compacted topic cannot accept message without key".to_owned()));
            code = INVALID_RECORD;
        } else if rules.append_time {
            if head.is_append_time() {
                wrong.push((
                    index,
                    "Invalid timestamp type. Message producer should not set timestamp type to LogAppendTime.".to_owned(),
                ));
            }
        } else if record.timestamp != -1 {
            let (earliest, latest) = (
                now_ms.saturating_sub(rules.before_ms_max),
                now_ms.saturating_add(rules.after_ms_max),
            );
            if record.timestamp < earliest || record.timestamp > latest {
                wrong.push((
                    index,
                    format!(
                        "Timestamp {} of message with offset {index} is out of range. The timestamp should be within [{earliest}, {latest}]",
                        record.timestamp
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
        format!(
            "One or more records have been rejected due to {} record errors in total",
            wrong.len()
        )
    };
    Err(Refusal { code, message, records: wrong })
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
