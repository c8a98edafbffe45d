//! One function for fuzzers and tests: reads anything, and holds what it reads against the
//! invariants of this crate.

use bytes::Bytes;
use twinlog_types::{Cut, Sequence};

use crate::{Batch, Codec, batches, encode, encoded_size_estimate, heads, pass};

/// What a body may decompress to here: enough for any input a fuzzer makes on its own.
const LIMIT_BYTES: usize = 1 << 20;

/// Reads `data` as the records field of a Fetch answer. Every path of this crate that takes bytes
/// from outside is gone through.
///
/// # Panics
///
/// When an invariant of this crate does not hold for `data`; that is what fuzzers look for.
pub fn check(data: &[u8]) {
    let records = Bytes::copy_from_slice(data);
    assert!(heads(&records).count() <= data.len() / crate::HEAD_BYTES + 1);
    let mut failed = false;
    for batch in batches(records) {
        assert!(!failed, "nothing comes after an error");
        match batch {
            Ok(batch) => check_batch(&batch),
            Err(error) => {
                failed = true;
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

fn check_batch(batch: &Batch) {
    let head = batch.head();
    assert_eq!(Batch::verify(batch.bytes().clone()).as_ref(), Ok(batch));
    assert_eq!(batch.control().is_some(), head.is_control());
    let cut = |count| Cut {
        producer_id: 7,
        producer_epoch: 1,
        base_sequence: Sequence::of_count(3),
        count,
    };
    if head.is_dense() && !head.is_control() {
        let sent = pass(batch, cut(head.record_count.unsigned_abs()));
        assert_eq!(sent.body(), &batch.bytes().slice(crate::HEAD_BYTES..));
        let sent = Batch::verify(sent.to_bytes()).expect("what is sent can be read");
        assert_eq!(sent.head().producer_id, 7);
    }
    let Ok(records) = batch.records(LIMIT_BYTES) else { return };
    assert_eq!(records.len(), head.record_count.unsigned_abs() as usize);
    assert!(records.is_sorted_by(|one, next| one.offset < next.offset));
    for record in &records {
        assert!((head.base_offset..=head.last_offset()).contains(&record.offset));
    }
    if records.is_empty() {
        return;
    }
    let sent = encode(&records, Codec::None, cut(records.len() as u32));
    assert!(sent.len() <= encoded_size_estimate(&records));
    let sent = Batch::verify(sent.to_bytes()).expect("what is sent can be read");
    let again = sent.records(usize::MAX).expect("what is sent can be read");
    for (index, (one, other)) in records.iter().zip(&again).enumerate() {
        assert_eq!((index as i64, one.timestamp), (other.offset, other.timestamp));
        assert_eq!((&one.key, &one.value), (&other.key, &other.value));
        assert_eq!(one.headers, other.headers);
    }
}
