//! Fingerprints of records: what two records are compared by.
//!
//! 64 bytes stand for a record of any size, so that the memory of a comparison does not depend on
//! what is compared. The hash is XXH3 with 128 bits: what differs by mistake differs here. It is no
//! cryptographic hash, and no proof against somebody who forges records on purpose.

use twinlog_batch::RecordView;
use twox_hash::XxHash3_128;

/// What stands for a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its offset in the log that it was read from.
    pub offset: i64,
    /// Its timestamp, as a consumer of that log sees it.
    pub timestamp: i64,
    /// Bytes of key, value and headers.
    pub bytes: u32,
    /// What else is to be known of it.
    pub marks: Marks,
    /// Of the key; 0 when it is null.
    pub key: u64,
    /// Of the value; 0 when it is null.
    pub value: u64,
    /// Of all headers in their order; 0 when there are none.
    pub headers: u64,
    /// Of everything but the offset.
    pub whole: u128,
}

/// Bits of an [`Entry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// The key is null.
    pub keyless: bool,
    /// The value is null: a tombstone where the topic is compacted.
    pub tombstone: bool,
    /// Its transaction was aborted.
    pub aborted: bool,
}

/// Of a field that may be null; null and empty differ.
fn of(field: Option<&[u8]>) -> u128 {
    field.map_or(0, XxHash3_128::oneshot)
}

impl Entry {
    /// What stands for `record`. Timestamps that are not compared are not part of the whole.
    pub fn of(record: &RecordView<'_>, with_timestamp: bool, aborted: bool) -> Self {
        let (key, value) = (of(record.key), of(record.value));
        let mut bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        let mut headers = 0;
        for (name, value) in record.headers() {
            headers = chain(&[headers, of(Some(name)), of(value)]);
            bytes += name.len() + value.map_or(0, <[u8]>::len);
        }
        let time = if with_timestamp { record.timestamp as u64 } else { 0 };
        Self {
            offset: record.offset,
            timestamp: record.timestamp,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            marks: Marks {
                keyless: record.key.is_none(),
                tombstone: record.value.is_none(),
                aborted,
            },
            key: key as u64,
            value: value as u64,
            headers: headers as u64,
            whole: chain(&[key, value, headers, u128::from(time)]),
        }
    }
}

/// One hash of several.
fn chain<const N: usize>(parts: &[u128; N]) -> u128 {
    let mut bytes = [0; 64];
    for (place, part) in bytes.chunks_exact_mut(16).zip(parts) {
        place.copy_from_slice(&part.to_le_bytes());
    }
    XxHash3_128::oneshot(&bytes[..16 * N])
}

/// A hash of a whole sequence of records, in their order. Two logs have the same one when they hold
/// the same records in the same order, whatever their offsets and batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequenceHash(u128);

impl SequenceHash {
    /// An odd number without structure: the fraction of the golden ratio.
    const FACTOR: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;

    /// Goes on with a record.
    pub fn push(&mut self, whole: u128) {
        self.0 = self.0.wrapping_mul(Self::FACTOR).wrapping_add(whole);
    }

    /// What an earlier run ended with.
    pub fn resume(value: u128) -> Self {
        Self(value)
    }

    /// The value.
    pub fn value(self) -> u128 {
        self.0
    }
}

impl std::fmt::Display for SequenceHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use twinlog_batch::{Batch, Codec, Header, Record, encode_plain};

    use super::*;

    fn entry(record: &Record) -> Entry {
        let batch = encode_plain(std::slice::from_ref(record), Codec::None);
        let batch = Batch::verify(batch.to_bytes()).expect("a sound batch");
        let mut records = batch.read_records(1 << 20).expect("readable");
        let view = records.next_view().expect("one").expect("sound");
        Entry::of(&view, true, false)
    }

    #[test]
    fn every_field_counts_and_null_is_not_empty() {
        let header = |key: &'static str, value: Option<&'static str>| Header {
            key: Bytes::from_static(key.as_bytes()),
            value: value.map(|value| Bytes::from_static(value.as_bytes())),
        };
        let bytes = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let plain =
            Record { offset: 0, timestamp: 7, key: bytes("k"), value: bytes("v"), headers: vec![] };
        let with = |headers| Record { headers, ..plain.clone() };
        let all = [
            plain.clone(),
            Record { timestamp: 8, ..plain.clone() },
            Record { key: None, ..plain.clone() },
            Record { key: bytes(""), ..plain.clone() },
            Record { value: None, ..plain.clone() },
            Record { value: bytes(""), ..plain.clone() },
            // A byte that moves from one field to the next.
            Record { key: bytes("kv"), value: bytes(""), ..plain.clone() },
            Record { key: bytes("v"), value: bytes("k"), ..plain.clone() },
            with(vec![header("a", None)]),
            with(vec![header("a", Some(""))]),
            with(vec![header("a", Some("b"))]),
            with(vec![header("ab", Some(""))]),
            with(vec![header("a", Some("b")), header("c", None)]),
            with(vec![header("c", None), header("a", Some("b"))]),
            with(vec![header("a", Some("b")), header("a", Some("b"))]),
        ];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                let equal = entry(one).whole == entry(other).whole;
                assert_eq!(equal, at == other_at, "{one:?} {other:?}");
            }
        }
        assert_eq!(entry(&plain).whole, entry(&Record { offset: 9, ..plain.clone() }).whole);
    }

    #[test]
    fn a_sequence_is_its_records_in_their_order() {
        let of = |records: &[u128]| {
            let mut hash = SequenceHash::default();
            for record in records {
                hash.push(*record);
            }
            hash
        };
        assert_eq!(of(&[3, 1, 2]), of(&[3, 1, 2]));
        assert_ne!(of(&[3, 1, 2]), of(&[1, 3, 2]));
        assert_ne!(of(&[3, 1]), of(&[3, 1, 2]));
        assert_ne!(of(&[3, 1, 1]), of(&[3, 1]));
    }
}
