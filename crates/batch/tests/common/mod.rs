//! What several test files use: golden batches as Java wrote and read them, and checksums from
//! their definitions.
#![allow(dead_code, reason = "each test file uses a part")]

use bytes::Bytes;
use twinlog_batch::{Header, Record};

/// One batch (or message set) as Kafka's Java code wrote it, and what that code reads from it.
pub(crate) struct Golden {
    pub(crate) name: &'static str,
    pub(crate) bytes: Bytes,
    pub(crate) batches: Vec<GoldenBatch>,
}

/// What Java's `RecordBatch` says, record by record.
pub(crate) struct GoldenBatch {
    pub(crate) magic: i8,
    pub(crate) base_offset: i64,
    pub(crate) next_offset: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) control: bool,
    pub(crate) transactional: bool,
    pub(crate) append_time: bool,
    pub(crate) delete_horizon: bool,
    pub(crate) codec: &'static str,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) records: Vec<Record>,
}

impl Golden {
    /// The records of all batches.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.batches.iter().flat_map(|batch| batch.records.clone()).collect()
    }
}

/// `null`, `-` (empty), hexadecimal, or `NxHEX` (repeated).
fn bytes(text: &str) -> Option<Bytes> {
    if text == "null" {
        return None;
    }
    let (times, text) = text.split_once('x').unwrap_or(("1", text));
    let text = text.trim_start_matches('-');
    let unit = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16));
    let unit: Vec<u8> = unit.collect::<Result<_, _>>().expect("hexadecimal");
    Some(unit.repeat(times.parse().expect("a number")).into())
}

/// Every case of `golden/java.txt`.
pub(crate) fn golden() -> Vec<Golden> {
    let mut cases: Vec<Golden> = Vec::new();
    for line in include_str!("../golden/java.txt").lines().filter(|line| !line.starts_with('#')) {
        let (kind, rest) = line.split_once(' ').expect("a kind");
        let words: Vec<&str> = rest.split(' ').collect();
        if kind == "case" {
            cases.push(Golden { name: rest, bytes: Bytes::new(), batches: Vec::new() });
            continue;
        }
        let case = cases.last_mut().expect("a case comes first");
        match kind {
            "bytes" => case.bytes = bytes(rest).expect("bytes"),
            "batch" => case.batches.push(GoldenBatch {
                magic: words[0].parse().expect("magic"),
                base_offset: words[1].parse().expect("base offset"),
                next_offset: words[2].parse().expect("next offset"),
                max_timestamp: words[3].parse().expect("max timestamp"),
                control: words[4] == "true",
                transactional: words[5] == "true",
                append_time: words[6] == "LogAppendTime",
                delete_horizon: words[7] == "true",
                codec: words[8],
                producer_id: words[9].parse().expect("producer id"),
                producer_epoch: words[10].parse().expect("producer epoch"),
                base_sequence: words[11].parse().expect("base sequence"),
                records: Vec::new(),
            }),
            "record" => {
                let header = |word: &&str| {
                    let (key, value) = word.split_once('=').expect("a header");
                    Header { key: bytes(key).expect("a key"), value: bytes(value) }
                };
                let batch = case.batches.last_mut().expect("a batch comes first");
                batch.records.push(Record {
                    offset: words[0].parse().expect("offset"),
                    timestamp: words[1].parse().expect("timestamp"),
                    key: bytes(words[2]),
                    value: bytes(words[3]),
                    headers: words[4..].iter().map(header).collect(),
                });
            }
            other => panic!("unknown line {other}"),
        }
    }
    assert_eq!(cases.len(), 39);
    cases
}

/// The case of this name.
pub(crate) fn case(name: &str) -> Golden {
    golden().into_iter().find(|case| case.name == name).expect(name)
}

/// A reflected CRC of 32 bits, bit by bit.
fn crc(polynomial: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 }
        })
    })
}

/// CRC32C (Castagnoli), of format 2.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc(0x82f6_3b78, bytes)
}

/// CRC32 (IEEE), of formats 0 and 1.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc(0xedb8_8320, bytes)
}

/// Gives the single batch or message in `bytes` the length and the checksum it should have.
pub(crate) fn reseal(bytes: &mut [u8]) {
    let length = bytes.len() as i32 - 12;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    if bytes[16] == 2 {
        let crc = crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    } else {
        let crc = crc32(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_be_bytes());
    }
}
