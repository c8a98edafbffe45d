//! The hand-written Produce request is the codec's, byte for byte, around bodies that are shared.

use bytes::{Bytes, BytesMut};
use twinlog_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use twinlog_protocol::messages::{ProduceRequest, TransactionalId, string, topic_name, topic_uuid};
use twinlog_protocol::{PartitionPart, ProtocolError, Request as _, encode_body, produce_parts};
use twinlog_types::{TopicId, TopicName};

struct Batch {
    topic: TopicName,
    id: TopicId,
    partition: i32,
    head: [u8; 61],
    body: Bytes,
}

impl Batch {
    fn new(topic: &str, id: u8, partition: i32, body_len: usize) -> Self {
        Self {
            topic: topic.into(),
            id: TopicId([id; 16]),
            partition,
            head: [(partition % 251) as u8; 61],
            body: Bytes::from(vec![id; body_len]),
        }
    }

    fn part(&self) -> PartitionPart<'_> {
        PartitionPart {
            topic: &self.topic,
            topic_id: self.id,
            partition: self.partition,
            head: &self.head,
            body: &self.body,
        }
    }
}

fn parts_of(batches: &[Batch]) -> Vec<PartitionPart<'_>> {
    batches.iter().map(Batch::part).collect()
}

/// What the codec makes of the same batches: topics in the order of their first batch.
fn codec(version: i16, transactional_id: Option<&str>, batches: &[Batch]) -> Bytes {
    let mut topics: Vec<TopicProduceData> = Vec::new();
    let mut names: Vec<&TopicName> = Vec::new();
    for batch in batches {
        let at = names.iter().position(|name| **name == batch.topic).unwrap_or_else(|| {
            names.push(&batch.topic);
            topics.push(if version >= 13 {
                TopicProduceData::default().with_topic_id(topic_uuid(batch.id))
            } else {
                TopicProduceData::default().with_name(topic_name(batch.topic.as_str()))
            });
            topics.len() - 1
        });
        let records = Bytes::from([&batch.head[..], &batch.body[..]].concat());
        topics[at].partition_data.push(
            PartitionProduceData::default().with_index(batch.partition).with_records(Some(records)),
        );
    }
    let request = ProduceRequest::default()
        .with_transactional_id(transactional_id.map(|id| TransactionalId(string(id))))
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(topics);
    encode_body(&request, version).expect("encodes")
}

fn joined(parts: &[Bytes]) -> Bytes {
    let mut joined = BytesMut::new();
    for part in parts {
        joined.extend_from_slice(part);
    }
    joined.freeze()
}

#[test]
fn the_parts_are_the_codecs_bytes_at_every_version() {
    let several = [
        Batch::new("orders", 1, 0, 10),
        Batch::new("payments", 2, 0, 200),
        Batch::new("orders", 1, 7, 20_000),
        Batch::new(
            "a-topic-with-a-name-longer-than-one-varint-byte-can-count-".repeat(3).as_str(),
            3,
            2,
            0,
        ),
        Batch::new("payments", 2, 1, 66),
    ];
    let many: Vec<_> = (0..300).map(|partition| Batch::new("wide", 4, partition, 3)).collect();
    for version in ProduceRequest::MIN..=ProduceRequest::MAX {
        for transactional_id in [None, Some("state-0")] {
            for batches in [&several[..1], &several[..], &many[..]] {
                let parts = produce_parts(version, transactional_id, 30_000, &parts_of(batches));
                assert_eq!(
                    joined(&parts.expect("a version of the table")),
                    codec(version, transactional_id, batches),
                    "version {version}, {} batches",
                    batches.len()
                );
            }
        }
    }
}

#[test]
fn the_bodies_are_shared() {
    let batches = [Batch::new("orders", 1, 0, 1000), Batch::new("orders", 1, 1, 1000)];
    let parts = produce_parts(9, None, 1, &parts_of(&batches)).expect("version 9");
    for batch in &batches {
        assert!(parts.iter().any(|part| part.as_ptr() == batch.body.as_ptr()));
    }
}

#[test]
#[should_panic(expected = "orders-3 twice in one request")]
fn a_partition_named_twice_is_a_bug() {
    let batches = [
        Batch::new("orders", 1, 3, 10),
        Batch::new("payments", 2, 3, 10),
        Batch::new("orders", 1, 3, 10),
    ];
    let _ = produce_parts(9, None, 1, &parts_of(&batches));
}

#[test]
#[should_panic(expected = "orders has no id for version 13")]
fn version_13_without_a_topic_id_is_a_bug() {
    let _ = produce_parts(13, None, 1, &parts_of(&[Batch::new("orders", 0, 3, 10)]));
}

#[test]
fn a_version_outside_the_table_is_an_error() {
    let refused = produce_parts(14, None, 1, &parts_of(&[Batch::new("orders", 1, 3, 10)]));
    assert!(matches!(refused, Err(ProtocolError::UnsupportedVersion { version: 14, .. })));
}
