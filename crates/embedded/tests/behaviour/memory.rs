//! The limit on what all logs hold: the oldest records go, compacted ones stay, and where nothing can
//! go nobody writes.

use std::time::Duration;

use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, Isolation, NewRecord};

use crate::support::*;

const MIB: usize = 1 << 20;

fn limited(limit: usize) -> EmbeddedCluster {
    let mut options = EmbeddedOptions::new("hello").with_brokers(3);
    options.log_bytes_max = Some(limit);
    EmbeddedCluster::start(options)
}

/// Appends a batch of one record of 10,000 bytes, and lets the cluster look at its memory.
async fn append(cluster: &EmbeddedCluster, topic: &str, key: &str) -> i64 {
    let record = NewRecord::new(key, "x".repeat(10_000));
    let offset = cluster.append(topic, 0, &[record]).unwrap();
    tokio::time::sleep(Duration::from_millis(25)).await;
    offset
}

/// What the leaders of these topics hold.
fn held(cluster: &EmbeddedCluster, topics: &[&str]) -> usize {
    let batches = topics.iter().flat_map(|topic| cluster.batches(topic, 0));
    batches.map(|batch| batch.len()).sum()
}

#[tokio::test(start_paused = true)]
async fn the_oldest_records_of_the_largest_partitions_are_deleted() {
    let cluster = limited(MIB);
    for topic in ["small", "large"] {
        cluster.create_topic(topic, 1, &[]).unwrap();
    }
    for number in 0..10 {
        append(&cluster, "small", &number.to_string()).await;
    }
    for number in 0..300 {
        let offset = append(&cluster, "large", &number.to_string()).await;
        assert_eq!(offset, number, "offsets are never given twice");
        // One batch more than the limit may have been taken before it was looked at.
        assert!(held(&cluster, &["small", "large"]) < MIB + 11_000);
    }
    assert_eq!(cluster.log_start("small", 0), 0, "the small one is left alone");
    let start = cluster.log_start("large", 0);
    assert!((200..230).contains(&start), "{start}");
    assert_eq!(cluster.log_end("large", 0), 300);
    let kept = cluster.records("large", 0, Isolation::ReadCommitted);
    assert_eq!(kept.len() as i64, 300 - start);

    // Every replica has deleted the same.
    for broker in cluster.replicas("large", 0) {
        if cluster.move_leader("large", 0, broker) {
            assert_eq!(cluster.log_start("large", 0), start);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn compacted_topics_are_compacted_and_never_cut() {
    let cluster = limited(MIB);
    cluster.create_topic("state", 1, &[("cleanup.policy", "compact")]).unwrap();
    for number in 0..400 {
        append(&cluster, "state", &format!("k{}", number % 20)).await;
    }
    assert!(held(&cluster, &["state"]) < MIB + 500_000);
    let records = cluster.records("state", 0, Isolation::ReadCommitted);
    let newest: std::collections::BTreeMap<_, _> =
        records.into_iter().map(|record| (record.key, record.offset)).collect();
    let newest: Vec<i64> = newest.into_values().collect();
    assert_eq!(newest.len(), 20, "the newest record of every key is there");
    assert!(newest.iter().all(|&offset| offset >= 380), "{newest:?}");
    assert_eq!(cluster.log_start("state", 0), 0);
}

#[tokio::test(start_paused = true)]
async fn where_compaction_frees_nothing_producers_are_refused_until_there_is_room() {
    let cluster = limited(MIB);
    cluster.create_topic("state", 1, &[("cleanup.policy", "compact")]).unwrap();
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    let mut client = Client::to(&cluster, cluster.leader(TOPIC, 0).unwrap().0);
    let batch = batch(1);
    assert_eq!(client.produce(&batch).await.error_code, 0);
    for number in 0..110 {
        append(&cluster, "state", &number.to_string()).await;
    }
    let refused = client.produce(&batch).await;
    assert_eq!(refused.error_code, 44, "POLICY_VIOLATION");
    assert!(refused.error_message.is_some_and(|message| message.contains("memory")));

    assert!(cluster.delete_topic("state"));
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert_eq!(client.produce(&batch).await.error_code, 0);
}

#[tokio::test(start_paused = true)]
async fn a_topic_is_made_by_metadata_only_where_both_sides_allow_it() {
    use twinlog_protocol::messages::metadata_request::MetadataRequestTopic;
    use twinlog_protocol::messages::{MetadataRequest, topic_name};
    for (broker, client_allows, made) in
        [(true, true, true), (true, false, false), (false, true, false)]
    {
        let mut options = EmbeddedOptions::new("hello");
        options.auto_create_topics = broker;
        let cluster = EmbeddedCluster::start(options);
        let mut client = Client::to(&cluster, 1);
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name("new")));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![topic]))
            .with_allow_auto_topic_creation(client_allows);
        // AutoTopicCreationManager: the answer that makes it does not know it yet.
        assert_eq!(client.call(&request, 12).await.topics[0].error_code, 3);
        assert_eq!(cluster.partitions("new"), usize::from(made));
        let second = client.call(&request, 12).await.topics[0].error_code;
        assert_eq!(second, if made { 0 } else { 3 });
    }
}
