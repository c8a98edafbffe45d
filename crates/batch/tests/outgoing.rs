//! What leaves: heads patched to what brokers accept, bodies untouched or encoded anew.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use common::{case, crc32c, golden, reseal};
use twinlog_batch::{
    Batch, Codec, HEAD_BYTES, Record, encode, encode_plain, encode_transactional,
    encoded_size_estimate, pass, split,
};
use twinlog_types::{Cut, Sequence};

fn cut(count: u32) -> Cut {
    let base_sequence = Sequence::of_count(123_456);
    Cut { producer_id: 90_001, producer_epoch: 3, base_sequence, count }
}

fn batch(name: &str) -> Batch {
    Batch::verify(case(name).bytes).expect(name)
}

fn refuses<T>(action: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(action)).is_err()
}

#[test]
fn a_passed_batch_keeps_its_body_by_reference_and_gets_a_right_checksum() {
    for case in golden().into_iter().filter(|case| case.batches[0].magic == 2) {
        let batch = Batch::verify(case.bytes.clone()).expect(case.name);
        if !batch.head().is_dense() || batch.head().is_control() {
            continue;
        }
        let cut = cut(batch.head().record_count.unsigned_abs());
        let sent = pass(&batch, cut);
        assert_eq!(sent.body().as_ptr(), case.bytes[HEAD_BYTES..].as_ptr(), "{}", case.name);
        assert_eq!(sent.len(), case.bytes.len(), "{}", case.name);
        assert_eq!(sent.cut(), cut, "{}", case.name);
        assert_eq!(sent.max_timestamp(), batch.head().max_timestamp, "{}", case.name);

        let bytes = sent.to_bytes();
        assert_eq!(bytes[..HEAD_BYTES], sent.head()[..], "{}", case.name);
        assert_eq!(bytes[HEAD_BYTES..], case.bytes[HEAD_BYTES..], "{}", case.name);
        assert_eq!(bytes[17..21], crc32c(&bytes[21..]).to_be_bytes(), "{}", case.name);

        let head = *Batch::verify(bytes).expect(case.name).head();
        assert_eq!((head.base_offset, head.leader_epoch), (0, -1), "{}", case.name);
        assert_eq!(head.producer_id, 90_001, "{}", case.name);
        assert_eq!((head.producer_epoch, head.base_sequence), (3, 123_456), "{}", case.name);
        assert_eq!(head.attributes, i16::from(batch.head().codec().expect("known").id()));
        assert_eq!(head.base_timestamp, batch.head().base_timestamp, "{}", case.name);
        assert_eq!(head.last_offset_delta, batch.head().last_offset_delta, "{}", case.name);
    }
}

#[test]
fn bits_that_a_broker_would_refuse_or_keep_are_cleared_and_others_pass() {
    let mut bytes = case("format 2 lz4").bytes.to_vec();
    let attributes: i16 = 3 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 9;
    bytes[21..23].copy_from_slice(&attributes.to_be_bytes());
    reseal(&mut bytes);
    let batch = Batch::verify(bytes.into()).expect("a batch");
    let sent = Batch::verify(pass(&batch, cut(5)).to_bytes()).expect("a batch");
    assert_eq!(sent.head().attributes, 3 | 1 << 9);
}

#[test]
fn a_delete_horizon_passes_without_a_change_of_timestamps() {
    let batch = batch("delete horizon");
    let sent = Batch::verify(pass(&batch, cut(5)).to_bytes()).expect("a batch");
    let times = |batch: &Batch| -> Vec<i64> {
        batch.records(1 << 20).expect("records").iter().map(|record| record.timestamp).collect()
    };
    assert_eq!(times(&sent), times(&batch));
    assert!(!sent.head().has_delete_horizon());
}

#[test]
fn a_hole_is_never_patched_away() {
    for name in ["compacted format 2 none", "compacted format 2 lz4", "emptied by the cleaner"] {
        let batch = batch(name);
        assert!(refuses(|| pass(&batch, cut(batch.head().record_count.unsigned_abs()))), "{name}");
    }
}

#[test]
fn markers_and_wrong_counts_do_not_pass() {
    assert!(refuses(|| pass(&batch("commit marker"), cut(1))));
    assert!(refuses(|| pass(&batch("format 2 none"), cut(4))));
    let records = case("format 2 none").records();
    assert!(refuses(|| encode(&records, Codec::None, cut(4))));
    assert!(refuses(|| encode(&[], Codec::None, cut(0))));
}

#[test]
fn encoding_closes_holes_and_keeps_contents() {
    let batch = batch("compacted format 2 lz4");
    let records = batch.records(1 << 20).expect("records");
    let sent = Batch::verify(encode(&records, Codec::Lz4, cut(2)).to_bytes()).expect("a batch");
    assert!(sent.head().is_dense());
    assert_eq!(sent.head().base_offset, 0);
    let again = sent.records(1 << 20).expect("records");
    assert_eq!(again.iter().map(|record| record.offset).collect::<Vec<_>>(), [0, 1]);
    for (one, other) in records.iter().zip(again) {
        assert_eq!(Record { offset: 0, ..one.clone() }, Record { offset: 0, ..other });
    }
}

#[test]
fn producers_and_transactions_stand_in_the_head_as_asked() {
    let records = case("format 2 none").records();
    let head = |bytes: Bytes| *Batch::verify(bytes).expect("a batch").head();

    let plain = head(encode_plain(&records, Codec::Zstd).to_bytes());
    let fields = (plain.producer_id, plain.producer_epoch, plain.base_sequence);
    assert_eq!(fields, (-1, -1, -1));
    assert!(!plain.is_transactional());

    let cut = cut(5);
    let produced = head(encode(&records, Codec::Zstd, cut).to_bytes());
    let fields = (produced.producer_id, produced.producer_epoch, produced.base_sequence);
    assert_eq!(fields, (90_001, 3, 123_456));
    assert!(!produced.is_transactional());

    let transactional = head(encode_transactional(&records, Codec::Zstd, cut).to_bytes());
    assert!(transactional.is_transactional());
    assert_eq!(transactional.producer_id, 90_001);
}

#[test]
fn splits_fit_and_lose_nothing() {
    let value = |len: usize| Some(Bytes::from(vec![b'v'; len]));
    let record = |offset: i64, len: usize| Record {
        offset,
        timestamp: 0,
        key: None,
        value: value(len),
        headers: Vec::new(),
    };
    let sizes = [10, 10, 900, 10, 5_000, 10, 10, 10, 10];
    let records: Vec<_> = (0..).zip(sizes).map(|(offset, len)| record(offset, len)).collect();

    let parts: Vec<&[Record]> = split(&records, 1_000, 3).collect();
    assert_eq!(parts.concat(), records);
    for part in &parts {
        assert!(part.len() <= 3);
        let sent = encode_plain(part, Codec::None);
        assert!(sent.len() <= encoded_size_estimate(part));
        assert!(sent.len() <= 1_000 || part.len() == 1);
    }
    // 61 + 36 + 900 leaves no room for a neighbour; 5,000 comes alone; 3 is the most.
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 1, 1, 1, 3, 1]);
    assert_eq!(split(&[], 1_000, 3).count(), 0);
    assert_eq!(split(&records, 0, 0).count(), records.len());
}
