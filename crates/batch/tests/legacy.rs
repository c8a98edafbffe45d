//! Formats 0 and 1 beyond what Java's writer makes: odd wrappers, lies, long runs of messages.

mod common;

use bytes::Bytes;
use common::reseal;
use twinlog_batch::{Batch, BatchError, batches};

const GZIP: u8 = 1;
const LZ4: u8 = 3;

/// One message. A null key, and the timestamp 1,000 + its offset in format 1.
fn message(magic: u8, attributes: u8, offset: i64, value: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = offset.to_be_bytes().to_vec();
    bytes.extend([0; 8]); // Length and checksum.
    bytes.extend([magic, attributes]);
    if magic == 1 {
        bytes.extend((1_000 + offset).to_be_bytes());
    }
    bytes.extend((-1i32).to_be_bytes());
    bytes.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
    bytes.extend(value.unwrap_or_default());
    reseal(&mut bytes);
    bytes
}

/// A wrapper around `inner`, compressed with gzip.
fn wrapper(magic: u8, attributes: u8, offset: i64, inner: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(inner).expect("memory");
    message(magic, attributes, offset, Some(&gzip.finish().expect("memory")))
}

fn read(log: Vec<u8>) -> Result<Vec<Batch>, BatchError> {
    batches(log.into()).collect()
}

/// Offset, timestamp and value of every record.
fn contents(log: Vec<u8>) -> Vec<(i64, i64, Option<Bytes>)> {
    let batches = read(log).expect("batches");
    let records = batches.iter().flat_map(|batch| batch.records(1 << 20).expect("records"));
    records.map(|record| (record.offset, record.timestamp, record.value)).collect()
}

#[test]
fn wrapped_offsets_of_format_1_end_at_the_wrappers() {
    let inner = [message(1, 0, 0, Some(b"a")), message(1, 0, 3, Some(b"b"))].concat();
    let log = wrapper(1, GZIP, 503, &inner);
    assert_eq!(contents(log), [(500, 1_000, Some("a".into())), (503, 1_003, Some("b".into()))]);
}

#[test]
fn wrapped_offsets_of_format_0_stand_as_they_are() {
    let inner = [message(0, 0, 500, Some(b"a")), message(0, 0, 503, None)].concat();
    let log = wrapper(0, GZIP, 503, &inner);
    assert_eq!(contents(log), [(500, -1, Some("a".into())), (503, -1, None)]);
}

#[test]
fn a_wrapper_at_offset_0_counts_from_0_as_java_does() {
    // Java: "the outer offset may be 0 if this is produce data from certain versions of librdkafka".
    let inner = [message(1, 0, 0, Some(b"a")), message(1, 0, 1, Some(b"b"))].concat();
    let log = wrapper(1, GZIP, 0, &inner);
    assert_eq!(contents(log), [(0, 1_000, Some("a".into())), (1, 1_001, Some("b".into()))]);
}

#[test]
fn a_stamped_wrapper_stamps_all_it_wraps() {
    let inner = [message(1, 0, 0, Some(b"a")), message(1, 0, 1, Some(b"b"))].concat();
    let log = wrapper(1, GZIP | 1 << 3, 501, &inner);
    assert_eq!(contents(log), [(500, 1_501, Some("a".into())), (501, 1_501, Some("b".into()))]);
}

#[test]
fn the_next_fetch_goes_on_behind_the_wrapper() {
    let log = wrapper(0, GZIP, 505, &message(0, 0, 500, Some(b"a")));
    assert_eq!(read(log).expect("a batch")[0].head().next_offset(), 506);
}

#[test]
fn wrappers_that_lie_are_refused() {
    let refusal = |log: Vec<u8>| read(log).expect_err("a refusal").to_string();
    let inner = message(1, 0, 0, Some(b"a"));
    let check = |log: Vec<u8>, what: &str| {
        let said = refusal(log);
        assert!(said.ends_with(what), "{said}");
    };
    check(message(1, LZ4, 9, None), "the compressed message wraps null");
    check(wrapper(1, GZIP, 9, b""), "the compressed message wraps none");
    check(wrapper(1, GZIP, 9, &inner[..inner.len() - 1]), "a wrapped message is cut off");
    check(wrapper(1, GZIP, 9, &[0; 30]), "impossible length or format");
    check(wrapper(0, GZIP, 9, &inner), "another format than its wrapper");
    check(wrapper(1, GZIP, 9, &wrapper(1, GZIP, 9, &inner)), "compressed again");
    check(wrapper(1, GZIP, 3, &message(1, 0, 4, None)), "reach beyond the wrapper's");
    let twice = [inner.clone(), inner.clone()].concat();
    check(wrapper(1, GZIP, 9, &twice), "out of order");
    let far = [message(0, 0, 0, None), message(0, 0, 1 << 40, None)].concat();
    check(wrapper(0, GZIP, 1 << 40, &far), "more offsets than a batch can");
    check(message(1, 4, 9, Some(b"zstd came later")), "compressed with unknown codec 4");
    check(message(1, 0, -5, Some(b"a")), "the offset is negative");
    let mut damaged = wrapper(1, GZIP, 9, &inner);
    let end = damaged.len() - 9;
    damaged[end] ^= 1;
    reseal(&mut damaged);
    assert!(refusal(damaged).contains("cannot be decompressed (gzip)"));
}

#[test]
fn a_wrapped_message_answers_to_its_own_checksum() {
    let mut inner = message(1, 0, 0, Some(b"a"));
    *inner.last_mut().expect("a byte") ^= 1;
    assert!(matches!(read(wrapper(1, GZIP, 9, &inner)), Err(BatchError::Checksum { .. })));
}

#[test]
fn neighbours_share_batches_that_any_target_takes() {
    let value = vec![b'v'; 10_000];
    let log: Vec<u8> =
        (0..200).flat_map(|offset| message(1, 0, 7 + offset, Some(&value))).collect();
    let read = read(log).expect("batches");
    assert!(read.len() > 1);
    assert!(read.iter().all(|batch| batch.bytes().len() < 1 << 20 && batch.head().is_dense()));
    let ends: Vec<_> = read.iter().map(|batch| batch.head().next_offset()).collect();
    let starts: Vec<_> = read.iter().map(|batch| batch.head().base_offset).collect();
    assert_eq!((starts[0], ends[ends.len() - 1]), (7, 207));
    assert_eq!(starts[1..], ends[..ends.len() - 1]);
}

#[test]
fn neighbours_whose_offsets_do_not_ascend_or_lie_far_apart_do_not_share() {
    let log = |offsets: [i64; 2]| offsets.map(|offset| message(0, 0, offset, None)).concat();
    assert_eq!(read(log([4, 9])).expect("batches").len(), 1);
    assert_eq!(read(log([9, 9])).expect("batches").len(), 2);
    assert_eq!(read(log([0, 1 << 40])).expect("batches").len(), 2);
}
