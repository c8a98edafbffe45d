//! State records: round trips, their first version, and what is refused.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;
use twinlog_offsets::state::{
    Accepted, Answer, Decided, Gap, GroupJournal, Lease, Made, Overwrite, Pair, PartitionKey,
    Placed, Position, StateKey, StateRecord, Subject,
};
use twinlog_offsets::{Malformed, StateError, Stretch, StretchBuilder};
use twinlog_types::{Code, SourceOffset, TargetOffset, TopicId};

fn partition_key() -> PartitionKey {
    PartitionKey {
        source_cluster: "AA".into(),
        target_cluster: "B".into(),
        source_topic: TopicId([0x11; 16]),
        target_topic: TopicId([0x22; 16]),
        generation: 2,
        partition: 7,
    }
}

fn position() -> Position {
    Position {
        source_topic: "orders".into(),
        target_topic: "hello.orders".into(),
        producer_id: 4_000_000_000,
        producer_epoch: 3,
        start: SourceOffset(100),
        origin: TargetOffset(0),
        count: 5_000_000_000,
        copied_to: SourceOffset(5_000_000_200),
        target_end: TargetOffset(5_000_000_000),
        runs: 513,
        source_epoch: -1,
        target_epochs: vec![(0, TargetOffset(0)), (4, TargetOffset(70_000))],
        written_ms: 1_795_000_000_000,
    }
}

fn stretch() -> Stretch {
    let mut builder = StretchBuilder::new(SourceOffset(100));
    assert!(builder.push_run(SourceOffset(103), TargetOffset(90), 1_000));
    assert!(builder.push_run(SourceOffset(1_200), TargetOffset(1_095), 1));
    builder.finish(SourceOffset(1_210))
}

fn gap(from: i64) -> Gap {
    let (from, to) = (SourceOffset(from), SourceOffset(from + 80));
    Gap { from, to, found_ms: 5, why: Code::SourceGap }
}

#[test]
fn losses_four_billion_offsets_apart_do_not_take_each_others_place() {
    let keys: BTreeSet<_> = [10, 10 + (1 << 32), 10 + (1 << 40)]
        .map(|from| StateRecord::gap(partition_key(), gap(from)).encode().0)
        .into();
    assert_eq!(keys.len(), 3);
}

fn one_of_each() -> Vec<StateRecord> {
    vec![
        StateRecord::Position(partition_key(), position()),
        StateRecord::Segment(partition_key(), 3, Bytes::from_static(b"\x01\x01\0\0\0")),
        StateRecord::Gap(partition_key(), 0, gap(10)),
        StateRecord::Inherited(partition_key(), stretch()),
        StateRecord::Inherited(partition_key(), Stretch::empty(SourceOffset(7), SourceOffset(7))),
        StateRecord::Lease {
            source_cluster: "AA".into(),
            target_cluster: "B".into(),
            shard: 1,
            lease: Lease { instance: "host-1".into(), renewed_ms: 9, released: true },
        },
        StateRecord::Journal(partition_key(), "app".into(), journal()),
        decision(Subject::Topic("orders".into(), None), Decided::Pause),
        decision(
            Subject::Topic("orders".into(), Some(7)),
            Decided::Resume {
                accepted: vec![Accepted {
                    partition: 7,
                    code: Code::SourceGap,
                    copied_to: SourceOffset(10),
                    source_topic: TopicId([0x11; 16]),
                }],
            },
        ),
        decision(
            Subject::Group("app".into()),
            Decided::Sync {
                overwrite: vec![Overwrite {
                    topic: "orders".into(),
                    partition: 7,
                    stands: TargetOffset(90),
                }],
            },
        ),
        StateRecord::Answer(
            pair(),
            Subject::Group("app".into()),
            Answer { by: "me".into(), of_ms: 5, at_ms: 6, done: true, text: "done".into() },
        ),
        StateRecord::Block(partition_key(), 2, Bytes::from_static(b"\x01\x01\0\0\0")),
    ]
}

fn pair() -> Pair {
    Pair { source_cluster: "AA".into(), target_cluster: "B".into() }
}

fn journal() -> GroupJournal {
    let placed =
        |source, target| Placed { source: SourceOffset(source), target: TargetOffset(target) };
    GroupJournal {
        settled: Some(placed(100, 70)),
        unsure: vec![placed(110, 80), placed(10, 7)],
        written_ms: 9,
    }
}

fn decision(subject: Subject, what: Decided) -> StateRecord {
    StateRecord::Decision(pair(), subject, Made { by: "me".into(), at_ms: 5, what })
}

#[test]
fn the_first_version_of_a_journal_and_a_decision_stays_readable() {
    let records = one_of_each();
    let (key, value) = records[6].encode();
    let ids = "11".repeat(16) + &"22".repeat(16);
    assert_eq!(hex(&key), format!("0105{}{}{ids}02{}{}", "024141", "0142", "0e", "03617070"));
    let content = &value[..value.len() - 4];
    assert_eq!(hex(content), "01".to_owned() + "0102" + "c8018c01" + "dc01a001" + "140e" + "12");
    let (key, value) = records[7].encode();
    assert_eq!(hex(&key), "0106".to_owned() + "0241410142" + "00" + "066f7264657273");
    assert_eq!(hex(&value[..value.len() - 4]), "01".to_owned() + "026d65" + "0a" + "00");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

#[test]
fn every_kind_of_record_survives_and_its_tombstone_is_none() {
    for record in one_of_each() {
        let (key, value) = record.encode();
        assert_eq!(StateKey::decode(&key), Ok(record.key()));
        assert_eq!(record.key().encode(), key);
        assert_eq!(StateRecord::decode(&key, None), Ok(None));
        assert_eq!(StateRecord::decode(&key, Some(&value)), Ok(Some(record)));
    }
}

#[test]
fn the_first_version_of_a_gap_stays_readable() {
    let (key, value) = one_of_each()[2].encode();
    let ids = "11".repeat(16) + &"22".repeat(16);
    assert_eq!(hex(&key), format!("0103{}{}{ids}02{}{}", "024141", "0142", "0e", "00"));
    let content = "01".to_owned() + "14" + "b401" + "0a" + "0a" + "736f757263652d676170";
    // The checksum as a bitwise CRC32C, written from its definition, computes it.
    let mut crc = !0u32;
    for byte in key.iter().chain(&value[..value.len() - 4]) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    assert_eq!(hex(&value), format!("{content}{:08x}", !crc));
}

#[test]
fn every_changed_bit_of_a_value_or_its_key_is_found() {
    for record in one_of_each() {
        let (key, value) = record.encode();
        for index in 0..(key.len() + value.len()) * 8 {
            let (mut key, mut value) = (key.to_vec(), value.to_vec());
            let bit = 1 << (index % 8);
            match key.get_mut(index / 8) {
                Some(byte) => *byte ^= bit,
                None => value[index / 8 - key.len()] ^= bit,
            }
            let read = StateRecord::decode(&key, Some(&value));
            assert!(read.is_err(), "bit {index} of {record:?} changed, read {read:?}");
        }
        for length in 0..value.len() {
            assert!(StateRecord::decode(&key, Some(&value[..length])).is_err());
        }
        for length in 0..key.len() {
            assert!(StateKey::decode(&key[..length]).is_err());
        }
    }
}

#[test]
fn a_value_under_another_key_is_foreign() {
    let (_, value) = one_of_each()[0].encode();
    let other = PartitionKey { partition: 8, ..partition_key() };
    let key = StateKey::Position(other).encode();
    let read = StateRecord::decode(&key, Some(&value));
    assert!(matches!(read, Err(StateError::Checksum { kind: "position", .. })), "{read:?}");
}

/// Puts the right checksum behind `content`, so that only the content can be wrong.
fn sealed(key: &[u8], content: &[u8]) -> Vec<u8> {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(key), content);
    [content, &checksum.to_be_bytes()].concat()
}

#[test]
fn unknown_versions_kinds_and_words_are_named() {
    let (key, value) = one_of_each()[2].encode();
    let mut newer = key.to_vec();
    newer[0] = 2;
    assert_eq!(StateKey::decode(&newer), Err(StateError::Key(Malformed::Version(2))));
    newer[0] = 1;
    newer[1] = 99;
    assert_eq!(StateKey::decode(&newer), Err(StateError::Key(Malformed::Kind(99))));

    let mut newer = value.to_vec();
    newer[0] = 2;
    let read = StateRecord::decode(&key, Some(&newer));
    let why = Malformed::Version(2);
    assert_eq!(read, Err(StateError::Value { kind: "gap", why }));
    assert_eq!(
        read.unwrap_err().to_string(),
        "state record 'gap' cannot be read: \
         it has format version 2, this twinlog reads version 1"
    );

    let word = sealed(&key, b"\x01\0\0\0\x05later");
    let why = Malformed::Code("later".to_owned());
    assert_eq!(StateRecord::decode(&key, Some(&word)), Err(StateError::Value { kind: "gap", why }));
}

#[test]
fn a_sealed_value_with_hostile_content_is_refused_without_allocating_what_it_claims() {
    let refused = |record: &StateRecord, content: &[u8]| {
        let (key, _) = record.encode();
        match StateRecord::decode(&key, Some(&sealed(&key, content))) {
            Err(StateError::Value { why, .. }) => why,
            other => panic!("{content:?} gives {other:?}"),
        }
    };
    let records = one_of_each();
    let claims_4_gib_of_epochs = b"\x01\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\x0f\0\0";
    assert_eq!(refused(&records[0], claims_4_gib_of_epochs), Malformed::Truncated);
    let runs_beyond_u32 = b"\x01\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\x1f\0\0\0";
    assert_eq!(refused(&records[0], runs_beyond_u32), Malformed::Number);
    assert_eq!(refused(&records[5], b"\x01\xff\xff\xff\xff\x0fx"), Malformed::Truncated);
    assert_eq!(refused(&records[5], b"\x01\x01\xff\0\0"), Malformed::Text);
    assert_eq!(refused(&records[5], b"\x01\x01x\0\x02"), Malformed::Flag(2));
    assert_eq!(refused(&records[5], b"\x01\x01x\0\x01\0"), Malformed::Trailing(1));
}

proptest! {
    #[test]
    fn any_position_survives(
        (names, offsets, numbers, epochs) in (
            (".{0,40}", ".{0,40}", ".{0,20}", ".{0,20}"),
            any::<(i64, i64, i64, i64, i64, u64)>(),
            any::<(u32, i32, i16, u32, i32, i64, [u8; 16], [u8; 16])>(),
            prop::collection::vec(any::<(i32, i64)>(), 0..20),
        )
    ) {
        let key = PartitionKey {
            source_cluster: names.0.into(),
            target_cluster: names.1.into(),
            source_topic: TopicId(numbers.6),
            target_topic: TopicId(numbers.7),
            generation: numbers.0,
            partition: numbers.1,
        };
        let record = StateRecord::Position(key, Position {
            source_topic: names.2.into(),
            target_topic: names.3.into(),
            producer_id: offsets.0,
            producer_epoch: numbers.2,
            start: SourceOffset(offsets.1),
            origin: TargetOffset(offsets.2),
            count: offsets.5,
            copied_to: SourceOffset(offsets.3),
            target_end: TargetOffset(offsets.4),
            runs: numbers.3,
            source_epoch: numbers.4,
            target_epochs: epochs.into_iter().map(|(e, t)| (e, TargetOffset(t))).collect(),
            written_ms: numbers.5,
        });
        let (key, value) = record.encode();
        prop_assert_eq!(StateRecord::decode(&key, Some(&value)), Ok(Some(record)));
    }

    #[test]
    fn any_bytes_give_a_value_or_an_error(
        kind in 0u8..9,
        record in 0usize..9,
        key in prop::collection::vec(any::<u8>(), 0..80),
        content in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let key = [&[1, kind], &key[..]].concat();
        if let Ok(read) = StateKey::decode(&key) {
            prop_assert_eq!(&read.encode()[..], &key[..]);
        }
        let (key, _) = one_of_each()[record].encode();
        let value = sealed(&key, &[&[1], &content[..]].concat());
        if let Ok(Some(read)) = StateRecord::decode(&key, Some(&value)) {
            let (_, written) = read.encode();
            prop_assert_eq!(&written[..], &value[..]);
        }
    }
}
