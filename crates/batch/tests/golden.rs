//! Batches that Kafka's own code wrote, read as that code reads them.

mod common;

use common::{case, golden};
use twinlog_batch::{Batch, BatchError, Codec, Control, batches, encode_plain, heads};

const LIMIT: usize = 1 << 20;

#[test]
fn records_are_those_that_java_reads() {
    for case in golden() {
        let read: Vec<Batch> =
            batches(case.bytes.clone()).collect::<Result<_, _>>().expect(case.name);
        let records: Vec<_> =
            read.iter().flat_map(|batch| batch.records(LIMIT).expect(case.name)).collect();
        assert_eq!(records, case.records(), "{}", case.name);
        let next = read.last().expect(case.name).head().next_offset();
        assert_eq!(Some(next), case.batches.last().map(|batch| batch.next_offset), "{}", case.name);
    }
}

#[test]
fn heads_of_format_2_are_those_that_java_reads() {
    for case in golden().into_iter().filter(|case| case.batches[0].magic == 2) {
        let read: Vec<_> = heads(&case.bytes).collect::<Result<_, _>>().expect(case.name);
        assert_eq!(read.len(), case.batches.len(), "{}", case.name);
        for (head, java) in read.iter().zip(&case.batches) {
            assert_eq!(head.base_offset, java.base_offset, "{}", case.name);
            assert_eq!(head.max_timestamp, java.max_timestamp, "{}", case.name);
            assert_eq!(head.is_control(), java.control, "{}", case.name);
            assert_eq!(head.is_transactional(), java.transactional, "{}", case.name);
            assert_eq!(head.is_append_time(), java.append_time, "{}", case.name);
            assert_eq!(head.has_delete_horizon(), java.delete_horizon, "{}", case.name);
            assert_eq!(head.codec().map(Codec::name), Ok(java.codec), "{}", case.name);
            assert_eq!(head.producer_id, java.producer_id, "{}", case.name);
            assert_eq!(head.producer_epoch, java.producer_epoch, "{}", case.name);
            assert_eq!(head.base_sequence, java.base_sequence, "{}", case.name);
            assert_eq!(head.record_count as usize, java.records.len(), "{}", case.name);
        }
    }
}

#[test]
fn an_uncompressed_batch_is_encoded_to_the_bytes_that_java_wrote() {
    let java = case("format 2 none");
    let ours = encode_plain(&java.records(), Codec::None).to_bytes();
    // Java's builder was told the base offset 1000.
    assert_eq!(ours[8..], java.bytes[8..]);
}

#[test]
fn snappy_is_framed_to_the_bytes_that_java_wrote() {
    let java = case("format 2 snappy");
    let ours = encode_plain(&java.records(), Codec::Snappy).to_bytes();
    let header = 61..77;
    assert_eq!(ours[header.clone()], java.bytes[header]);
}

#[test]
fn old_formats_keep_their_codec_and_lose_the_broker_stamp_to_the_records() {
    for case in golden().into_iter().filter(|case| case.batches[0].magic < 2) {
        let read: Vec<Batch> =
            batches(case.bytes.clone()).collect::<Result<_, _>>().expect(case.name);
        // Neighbours without compression share a batch.
        assert_eq!(read.len(), 1, "{}", case.name);
        let head = read[0].head();
        assert_eq!(head.codec().map(Codec::name), Ok(case.batches[0].codec), "{}", case.name);
        assert!(!head.is_append_time(), "{}", case.name);
        assert_eq!(head.magic, 2, "{}", case.name);
        let newest = case.records().iter().map(|record| record.timestamp).max();
        assert_eq!(Some(head.max_timestamp), newest, "{}", case.name);
    }
}

#[test]
fn holes_of_compaction_are_seen_in_every_format() {
    for case in golden().into_iter().filter(|case| case.name.contains("compacted")) {
        let batch = batches(case.bytes.clone()).next().expect(case.name).expect(case.name);
        assert!(!batch.head().is_dense(), "{}", case.name);
    }
    let batch = Batch::verify(case("delete horizon").bytes).expect("a batch");
    assert!(batch.head().is_dense());
    assert!(batch.head().has_delete_horizon());
}

#[test]
fn markers_are_told_apart() {
    let control = |name: &str| Batch::verify(case(name).bytes).expect(name).control();
    assert_eq!(control("commit marker"), Some(Control::Commit));
    assert_eq!(control("abort marker"), Some(Control::Abort));
    assert_eq!(control("transactional"), None);
}

#[test]
fn a_batch_that_the_cleaner_emptied_still_says_where_the_next_one_begins() {
    let batch = Batch::verify(case("emptied by the cleaner").bytes).expect("a batch");
    assert_eq!(batch.head().record_count, 0);
    assert!(!batch.head().is_dense());
    assert_eq!(batch.head().next_offset(), 52);
    assert_eq!(batch.records(0), Ok(Vec::new()));
}

#[test]
fn a_mixed_log_is_read_through_all_formats() {
    let names =
        ["format 0 lz4", "format 1 none", "format 1 gzip", "format 2 zstd", "format 0 none"];
    let cases = names.map(case);
    let log: Vec<u8> = cases.iter().flat_map(|case| case.bytes.to_vec()).collect();
    let read: Vec<Batch> = batches(log.into()).collect::<Result<_, _>>().expect("a log");
    assert_eq!(read.len(), names.len());
    let records: Vec<_> =
        read.iter().flat_map(|batch| batch.records(LIMIT).expect("records")).collect();
    let java: Vec<_> = cases.iter().flat_map(common::Golden::records).collect();
    assert_eq!(records, java);
}

#[test]
fn a_wrapper_of_old_format_is_held_to_its_limit() {
    for name in ["format 0 gzip large", "format 1 lz4 large", "format 1 snappy large"] {
        let case = case(name);
        let read = batches(case.bytes).with_old_format_limit(100_000).next();
        assert!(
            matches!(read, Some(Err(BatchError::TooLarge { limit: 100_000, .. }))),
            "{name}: {read:?}"
        );
    }
}
