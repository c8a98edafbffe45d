//! Topics, settings, records and groups, by librdkafka's admin client.

use rdkafka::admin::{
    AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use twinlog_embedded::{EmbeddedCluster, KafkaVersion};

use crate::support::{Content, LIMIT, Served};

fn admin(served: &Served) -> AdminClient<DefaultClientContext> {
    served.client(&[])
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(LIMIT)).request_timeout(Some(LIMIT))
}

#[test]
fn topics_are_created_grown_described_and_deleted() {
    for version in [KafkaVersion::V4_3, KafkaVersion::V3_9] {
        let served = Served::start(3, version);
        let admin = admin(&served);
        let topic = NewTopic::new("orders", 2, TopicReplication::Fixed(3))
            .set("cleanup.policy", "compact")
            .set("max.message.bytes", "123456");
        let too_many = NewTopic::new("toomany", 1, TopicReplication::Fixed(4));
        let created = admin.create_topics([&topic, &too_many], &options());
        let created = served.runtime.block_on(created).expect("an answer");
        let refused = ("toomany".to_owned(), RDKafkaErrorCode::InvalidReplicationFactor);
        assert_eq!(created, [Ok("orders".to_owned()), Err(refused)]);
        let again = served.runtime.block_on(admin.create_topics([&topic], &options()));
        let exists = ("orders".to_owned(), RDKafkaErrorCode::TopicAlreadyExists);
        assert_eq!(again.expect("an answer"), [Err(exists)]);

        let wanted = NewPartitions::new("orders", 5);
        let grown = admin.create_partitions([&wanted], &options());
        assert_eq!(served.runtime.block_on(grown).expect("an answer"), [Ok("orders".to_owned())]);
        let metadata = admin.inner().fetch_metadata(Some("orders"), LIMIT).expect("metadata");
        let topic = &metadata.topics()[0];
        assert_eq!(metadata.brokers().len(), 3);
        assert_eq!(topic.partitions().len(), 5);
        for partition in topic.partitions() {
            assert_eq!((partition.replicas().len(), partition.isr().len()), (3, 3));
            assert!((1..=3).contains(&partition.leader()));
        }

        let wanted = ResourceSpecifier::Topic("orders");
        let described = admin.describe_configs([&wanted], &options());
        let described = served.runtime.block_on(described).expect("an answer");
        let configs = described[0].as_ref().expect("configs").entry_map();
        for (key, value, default) in [
            ("cleanup.policy", "compact", false),
            ("max.message.bytes", "123456", false),
            ("retention.ms", "604800000", true),
        ] {
            let entry = configs[key];
            assert_eq!((entry.value.as_deref(), entry.is_default), (Some(value), default), "{key}");
        }

        let deleted = admin.delete_topics(&["orders", "nothing"], &options());
        let deleted = served.runtime.block_on(deleted).expect("an answer");
        let unknown = ("nothing".to_owned(), RDKafkaErrorCode::UnknownTopicOrPartition);
        assert_eq!(deleted, [Ok("orders".to_owned()), Err(unknown)]);
        assert_eq!(served.cluster(EmbeddedCluster::topics), [""; 0]);
    }
}

#[test]
fn records_are_deleted_below_an_offset() {
    let served = Served::with_topic(2);
    let records: Vec<_> = (0..40).map(|n| Content::value(n % 2, &n.to_string())).collect();
    served.sender(&[]).send("t", &records);
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset("t", 0, Offset::Offset(13)).expect("added");
    offsets.add_partition_offset("t", 1, Offset::End).expect("added");
    let admin = admin(&served);
    let deleted = served.runtime.block_on(admin.delete_records(&offsets, &options()));
    let deleted = deleted.expect("an answer");
    let starts: Vec<_> =
        deleted.elements().iter().map(|one| (one.partition(), one.offset())).collect();
    assert_eq!(starts, [(0, Offset::Offset(13)), (1, Offset::Offset(20))]);
    let consumer = served.consumer("g", &[]);
    assert_eq!(consumer.fetch_watermarks("t", 0, LIMIT), Ok((13, 20)));
    assert_eq!(consumer.fetch_watermarks("t", 1, LIMIT), Ok((20, 20)));
}

#[test]
fn groups_are_listed_and_deleted() {
    let served = Served::with_topic(1);
    let consumer = served.consumer("g", &[]);
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset("t", 0, Offset::Offset(0)).expect("added");
    consumer.commit(&offsets, CommitMode::Sync).expect("committed");
    let listed = consumer.fetch_group_list(None, LIMIT).expect("groups");
    let listed: Vec<_> = listed.groups().iter().map(|g| (g.name(), g.state())).collect();
    assert_eq!(listed, [("g", "Empty")]);
    let admin = admin(&served);
    let deleted = served.runtime.block_on(admin.delete_groups(&["g", "nobody"], &options()));
    let unknown = ("nobody".to_owned(), RDKafkaErrorCode::GroupIdNotFound);
    assert_eq!(deleted.expect("an answer"), [Ok("g".to_owned()), Err(unknown)]);
    let left = consumer.fetch_group_list(None, LIMIT).expect("groups");
    assert!(left.groups().is_empty());
}
