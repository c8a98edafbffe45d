//! What is encoded is read back the same, whatever the records hold.

mod common;

use std::sync::LazyLock;

use bytes::Bytes;
use common::{Golden, crc32c, golden, reseal};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use twinlog_batch::{
    Batch, Codec, Header, Record, batches, check, encode, encoded_size_estimate, heads, pass,
};
use twinlog_types::{Cut, Sequence};

static GOLDEN: LazyLock<Vec<Golden>> = LazyLock::new(golden);

fn bytes(len_max: usize) -> impl Strategy<Value = Bytes> {
    prop_oneof![
        vec(any::<u8>(), 0..len_max),
        (any::<u8>(), 0..len_max * 8).prop_map(|(byte, len)| vec![byte; len]),
    ]
    .prop_map(Bytes::from)
}

fn header() -> impl Strategy<Value = Header> {
    // Few keys, so that they repeat; not all of them UTF-8.
    let key = prop_oneof![Just(&b""[..]), Just(&b"a"[..]), Just(&b"\xff\xfe"[..])];
    (key, option::of(bytes(20)))
        .prop_map(|(key, value)| Header { key: Bytes::from_static(key), value })
}

fn timestamp() -> impl Strategy<Value = i64> {
    prop_oneof![
        1_700_000_000_000..1_700_000_100_000i64,
        Just(-1),
        Just(i64::MIN),
        Just(i64::MAX),
        any::<i64>(),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    (timestamp(), option::of(bytes(40)), option::of(bytes(400)), vec(header(), 0..4)).prop_map(
        |(timestamp, key, value, headers)| Record { offset: 0, timestamp, key, value, headers },
    )
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    vec(record(), 1..40).prop_map(|mut records| {
        for (offset, record) in (0..).zip(&mut records) {
            record.offset = offset;
        }
        records
    })
}

fn cut() -> impl Strategy<Value = Cut> {
    (any::<i64>(), any::<i16>(), any::<u64>()).prop_map(|(producer_id, producer_epoch, count)| {
        Cut { producer_id, producer_epoch, base_sequence: Sequence::of_count(count), count: 0 }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_survive_every_codec(records in records(), cut in cut()) {
        let cut = Cut { count: records.len() as u32, ..cut };
        for codec in Codec::ALL {
            let sent = encode(&records, codec, cut);
            prop_assert_eq!(sent.len(), sent.to_bytes().len());
            if codec == Codec::None {
                prop_assert!(sent.len() <= encoded_size_estimate(&records));
            }
            let newest = records.iter().map(|record| record.timestamp).max();
            prop_assert_eq!(Some(sent.max_timestamp()), newest);

            let bytes = sent.to_bytes();
            prop_assert_eq!(&bytes[17..21], crc32c(&bytes[21..]).to_be_bytes());
            let read = Batch::verify(bytes).expect("what was sent");
            prop_assert_eq!(read.head().codec(), Ok(codec));
            prop_assert_eq!(read.head().producer_id, cut.producer_id);
            prop_assert_eq!(read.head().base_sequence, cut.base_sequence.to_wire());
            let again = read.records(1 << 20);
            prop_assert_eq!(again.as_ref(), Ok(&records));
            prop_assert_eq!(pass(&read, cut).to_bytes(), read.bytes());
        }
    }

    #[test]
    fn batches_follow_one_another_and_a_cut_off_one_ends_quietly(
        parts in vec(records(), 1..4),
        keep in any::<prop::sample::Index>(),
    ) {
        let encoded: Vec<Bytes> = parts
            .iter()
            .map(|records| twinlog_batch::encode_plain(records, Codec::Lz4).to_bytes())
            .collect();
        let whole = encoded.concat();
        let log = Bytes::from(whole[..keep.index(whole.len() + 1)].to_vec());
        let mut ends = encoded.iter().scan(0, |end, batch| {
            *end += batch.len();
            Some(*end)
        });
        let complete = ends.by_ref().take_while(|&end| end <= log.len()).count();
        let mut reading = batches(log.clone());
        let read: Vec<Batch> = reading.by_ref().collect::<Result<_, _>>().expect("no error");
        prop_assert_eq!(read.len(), complete);
        let consumed: usize = encoded[..complete].iter().map(Bytes::len).sum();
        prop_assert_eq!(reading.rest(), log.len() - consumed);
        prop_assert!(heads(&log).count() >= complete);
    }

    #[test]
    fn golden_batches_with_changes_under_a_right_checksum_are_survived(
        case in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        keep in option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        // The first batch or message of the case.
        let case = case.get(&GOLDEN);
        let first = 12 + u32::from_be_bytes(*case.bytes[8..].first_chunk().expect("a length"));
        let mut damaged = case.bytes[..first as usize].to_vec();
        for (at, value) in changes {
            // Not the format, which says where the checksum stands.
            let at = 17 + at.index(damaged.len() - 17);
            damaged[at] = value;
        }
        if let Some(keep) = keep {
            damaged.truncate(61 + keep.index(damaged.len()));
        }
        reseal(&mut damaged);
        check(&damaged);
    }

    #[test]
    fn anything_is_survived(data in vec(any::<u8>(), 0..400)) {
        check(&data);
    }
}
