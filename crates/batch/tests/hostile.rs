//! Damage: cut off, changed, lying about lengths. Every answer is a value or an error that names
//! the place, and nothing takes memory that the bytes do not account for.

mod common;

use bytes::Bytes;
use common::{case, golden, reseal};
use twinlog_batch::{
    Batch, BatchError, Codec, Header, Record, batches, check, encode_plain, heads,
};

#[test]
fn every_golden_batch_passes_the_fuzzers_check() {
    for case in golden() {
        check(&case.bytes);
    }
}

#[test]
fn every_prefix_is_survived() {
    for case in golden() {
        for len in 0..case.bytes.len() {
            check(&case.bytes[..len]);
        }
    }
}

#[test]
fn every_changed_byte_is_found_by_the_checksum_or_harmless() {
    for case in golden().into_iter().filter(|case| case.bytes.len() < 1_000) {
        for at in 0..case.bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = case.bytes.to_vec();
                damaged[at] ^= change;
                check(&damaged);
                // What the CRC of format 2 covers is never taken for something else.
                if case.batches[0].magic == 2 && at >= 21 {
                    let read = batches(damaged.into()).next();
                    assert!(
                        matches!(read, Some(Err(BatchError::Checksum { .. }))),
                        "{} byte {at}: {read:?}",
                        case.name
                    );
                }
            }
        }
    }
}

#[test]
fn every_changed_byte_under_a_right_checksum_is_survived() {
    // Plain messages of old format are several to a case; the checksum of the first is made right.
    for case in golden().into_iter().filter(|case| case.bytes.len() < 1_000) {
        let first = 12 + u32::from_be_bytes(*case.bytes[8..].first_chunk().expect("a length"));
        for at in 16..first as usize {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff, case.bytes[at] ^ 1] {
                let mut damaged = case.bytes[..first as usize].to_vec();
                damaged[at] = value;
                reseal(&mut damaged);
                check(&damaged);
            }
        }
    }
}

#[test]
fn a_damaged_batch_is_named_and_ends_the_reading() {
    let good = case("format 2 none").bytes;
    let mut damaged = good.to_vec();
    *damaged.last_mut().expect("a byte") ^= 1;
    let log = [&good[..], &damaged, &good].concat();
    let mut reading = batches(log.into());
    assert!(matches!(reading.next(), Some(Ok(_))));
    let error = reading.next().expect("an error").expect_err("an error");
    assert_eq!(error.offset(), 1000);
    assert!(error.to_string().starts_with("batch at offset 1000 fails its checksum: stored "));
    assert!(reading.next().is_none());
}

#[test]
fn what_comes_before_a_damaged_old_message_is_still_read() {
    let mut log = case("format 1 none").bytes.to_vec();
    *log.last_mut().expect("a byte") ^= 1;
    let mut reading = batches(log.into());
    let before = reading.next().expect("a batch").expect("a batch");
    assert_eq!(before.head().record_count, 4);
    let error = reading.next().expect("an error").expect_err("an error");
    assert!(matches!(error, BatchError::Checksum { offset: 1004, .. }), "{error}");
    assert!(reading.next().is_none());
}

/// One uncompressed batch of `count` claimed records around `body`, its checksum right.
fn around(body: &[u8], count: i32) -> Bytes {
    let record = Record { offset: 0, timestamp: 0, key: None, value: None, headers: Vec::new() };
    let mut bytes = encode_plain(&[record], Codec::None).head().to_vec();
    bytes[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    bytes[57..61].copy_from_slice(&count.to_be_bytes());
    bytes.extend_from_slice(body);
    reseal(&mut bytes);
    bytes.into()
}

#[track_caller]
fn refused(body: &[u8], count: i32, what: &str) {
    let error = Batch::verify(around(body, count))
        .and_then(|batch| batch.records(1 << 20))
        .expect_err("a refusal");
    assert!(error.to_string().ends_with(what), "{error}");
}

#[test]
fn lies_within_a_record_are_refused() {
    // Length 6: attributes, timestamp delta, offset delta, null key, null value, no headers.
    assert!(Batch::verify(around(&[12, 0, 0, 0, 1, 1, 0], 1)).expect("right").records(0).is_ok());
    refused(&[12, 0, 0, 0, 1, 1, 0], i32::MAX, "more records than the body has room for");
    refused(&[12, 0, 0, 0, 1, 1, 0, 0], 1, "there are bytes beyond the last record");
    refused(&[11, 0, 0, 0, 1, 1, 0], 1, "its length is negative");
    refused(&[14, 0, 0, 0, 1, 1, 0], 1, "the record is longer than the rest of the batch");
    refused(&[10, 0, 0, 0, 1, 1, 0], 1, "a variable-length number does not end");
    refused(&[0], 1, "more records than the body has room for");
    refused(&[0, 12, 0, 0, 0, 1, 1, 0], 1, "a field goes past the end");
    refused(&[14, 0, 0, 0, 1, 1, 0, 0], 1, "it is longer than its fields");
    refused(&[12, 0, 0, 0, 20, 1, 0], 1, "a length goes past the end");
    refused(&[12, 0, 0, 0, 1, 1, 1], 1, "its header count is negative");
    refused(&[12, 0, 0, 0, 1, 1, 2], 1, "it has more headers than it has room for");
    refused(&[16, 0, 0, 0, 1, 1, 2, 1, 1], 1, "a header key is null");
    refused(&[12, 0, 0, 2, 1, 1, 0], 1, "its offset is out of order or outside the batch");
    refused(&[12, 0, 0, 1, 1, 1, 0], 1, "its offset is out of order or outside the batch");
    refused(&[12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 0, 1, 1, 0], 2, "out of order or outside the batch");
    // A header count of 2^31 - 1 reserves nothing.
    let many = [20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f];
    refused(&many, 1, "it has more headers than it has room for");
    refused(&[0xff; 12], 1, "a variable-length number does not end");
}

#[test]
fn lengths_that_no_batch_can_have_are_refused_and_large_ones_are_cut_off() {
    let good = case("format 2 none").bytes;
    let with_length = |length: i32| {
        let mut bytes = good.to_vec();
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        Bytes::from(bytes)
    };
    for length in [i32::MIN, -1, 0, 48] {
        let error = BatchError::Length { offset: 1000, length };
        assert_eq!(batches(with_length(length)).next(), Some(Err(error.clone())));
        assert_eq!(heads(&with_length(length)).next(), Some(Err(error.clone())));
        assert_eq!(Batch::verify(with_length(length)), Err(error));
    }
    let mut reading = batches(with_length(i32::MAX));
    assert_eq!(reading.next(), None);
    assert_eq!(reading.rest(), good.len(), "nothing was read, and that can be seen");
}

#[test]
fn heads_that_contradict_themselves_are_refused() {
    let change = |at: usize, bytes: &[u8]| {
        let mut batch = case("format 2 none").bytes.to_vec();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        reseal(&mut batch);
        Batch::verify(batch.into()).expect_err("a refusal").to_string()
    };
    assert!(change(0, &[0xff; 8]).ends_with("the base offset is negative"));
    assert!(change(0, &i64::MAX.to_be_bytes()).ends_with("the last offset is out of range"));
    assert!(change(23, &[0xff; 4]).ends_with("the last offset delta is negative"));
    assert!(change(57, &[0xff; 4]).ends_with("the record count is negative"));
    assert!(change(57, &[0, 0, 0, 6]).ends_with("there are more records than offsets"));
}

#[test]
fn unknown_formats_and_codecs_are_named() {
    let mut bytes = case("format 2 none").bytes.to_vec();
    bytes[22] = 5;
    reseal(&mut bytes);
    let batch = Batch::verify(bytes.into()).expect("a batch");
    let error = BatchError::UnknownCodec { offset: 1000, id: 5 };
    assert_eq!(batch.head().codec(), Err(error.clone()));
    assert_eq!(batch.records(1 << 20), Err(error));

    let mut bytes = case("format 2 none").bytes.to_vec();
    bytes[16] = 3;
    let error = BatchError::Format { offset: 1000, magic: 3 };
    assert_eq!(batches(bytes.into()).next(), Some(Err(error)));
    // A single old message is shorter than a head.
    let old = case("format 1 none").bytes.slice(..12 + 30);
    assert_eq!(heads(&old).next(), Some(Err(BatchError::Format { offset: 1000, magic: 1 })));
    let old = case("format 1 gzip").bytes;
    assert_eq!(heads(&old).next(), Some(Err(BatchError::Format { offset: 1004, magic: 1 })));
}

#[test]
fn a_body_is_held_to_the_callers_limit() {
    let records = [Record {
        offset: 0,
        timestamp: 0,
        key: None,
        value: Some(Bytes::from(vec![0; 8 << 20])),
        headers: vec![Header { key: Bytes::new(), value: None }],
    }];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let batch = Batch::verify(encode_plain(&records, codec).to_bytes()).expect("a batch");
        let error = BatchError::TooLarge { offset: 0, codec, limit: 1 << 20 };
        assert_eq!(batch.records(1 << 20), Err(error));
        assert_eq!(batch.records(9 << 20).as_deref(), Ok(&records[..]));
    }
}
