//! Several brokers: a high watermark behind the log end, small in-sync sets, deletions.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use twinlog_embedded::KafkaVersion::V4_3;
use twinlog_protocol::messages::*;

use crate::support::*;

const PID: i64 = 4711;

fn ten(sequence: i32) -> Bytes {
    by(&batch(10), PID, 0, sequence)
}

#[tokio::test(start_paused = true)]
async fn an_unreplicated_batch_is_seen_by_some_calls_only() {
    let cluster = three_brokers(V4_3, &[], 2);
    let leader = cluster.leader(TOPIC, 0).unwrap().0;
    let mut client = Client::to(&cluster, leader);
    for sequence in [0, 10, 20] {
        assert_eq!(client.produce(&ten(sequence)).await.error_code, 0);
    }
    cluster.hold_replication(TOPIC, 0);
    let begun = Instant::now();
    let late = client.produce_with(&ten(30), -1, 12, 2000).await;
    assert_eq!(
        (late.error_code, late.base_offset, late.log_append_time_ms),
        (7, 30, -1),
        "appended, not acknowledged"
    );
    assert_eq!(begun.elapsed(), Duration::from_secs(2));

    for (offset, code) in [(30, 0), (40, 0), (41, 1)] {
        let data = client.fetch(FetchFrom::offset(offset), 12).await;
        assert_eq!(data.error_code, code, "{offset}: out of range is judged by the log end");
        if code == 0 {
            assert_eq!((data.high_watermark, data.records.unwrap().len()), (30, 0));
        }
    }
    assert_eq!(client.list_offset(-1, 0, 7).await.1, 30);
    assert_eq!(client.list_offset(-1, 1, 7).await.1, 30);
    assert_eq!(client.end_of_epoch(0, 0).await, (0, 0, 40));
    assert_eq!(client.producers().await, [(PID, 0, 39, -1)]);

    let again = client.produce_with(&ten(30), -1, 12, 2000).await;
    assert_eq!((again.error_code, again.base_offset), (7, 30));
    assert!(again.log_append_time_ms >= 0, "recognised as a duplicate, not yet safe");
    let weak = client.produce_with(&ten(30), 1, 12, 2000).await;
    assert_eq!((weak.error_code, weak.base_offset), (0, 30));
    let begun = Instant::now();
    let old = client.produce_with(&ten(20), -1, 12, 2000).await;
    assert_eq!((old.error_code, old.base_offset), (0, 20));
    assert_eq!(client.produce(&by(&batch(9), PID, 0, 30)).await.error_code, 45);
    assert_eq!(client.produce(&ten(50)).await.error_code, 45);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let next = client.produce_with(&ten(40), -1, 12, 2000).await;
    assert_eq!((next.error_code, next.base_offset), (7, 40));

    cluster.release_replication(TOPIC, 0);
    assert_eq!(client.list_offset(-1, 0, 7).await.1, 50);
    assert_eq!(client.produce(&ten(40)).await.base_offset, 40);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_follower_holds_acks_all_until_it_leaves_the_in_sync_set() {
    let cluster = three_brokers(V4_3, &[], 3);
    let leader = cluster.leader(TOPIC, 0).unwrap().0;
    let follower = cluster.replicas(TOPIC, 0)[1];
    let mut client = Client::to(&cluster, leader);
    cluster.pause_broker(follower);
    let begun = Instant::now();
    assert_eq!(client.produce(&ten(0)).await.error_code, 0);
    assert_eq!(begun.elapsed(), Duration::from_secs(9), "broker.session.timeout.ms");
    assert_eq!(cluster.in_sync(TOPIC, 0).len(), 2);
    cluster.resume_broker(follower);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.in_sync(TOPIC, 0).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn below_min_insync_replicas_even_a_stored_batch_gets_19() {
    let cluster = three_brokers(V4_3, &[("min.insync.replicas", "2")], 2);
    let (leader, follower) = (cluster.replicas(TOPIC, 0)[0], cluster.replicas(TOPIC, 0)[1]);
    let mut client = Client::to(&cluster, leader);
    assert_eq!(client.produce(&ten(0)).await.error_code, 0);
    cluster.pause_broker(follower);
    // It waits while the follower still counts, and goes on waiting when the set is too small.
    let begun = Instant::now();
    assert_eq!(client.produce_with(&ten(10), -1, 12, 20_000).await.error_code, 7);
    assert_eq!(begun.elapsed(), Duration::from_secs(20));
    for (what, sent) in [("new", ten(20)), ("stored", ten(0))] {
        let answer = client.produce(&sent).await;
        assert_eq!((answer.error_code, answer.base_offset), (19, -1), "{what}");
    }
    assert_eq!(
        client.produce_with(&ten(0), 1, 12, 1000).await.base_offset,
        0,
        "acks=1 recognises it"
    );
    assert_eq!((cluster.high_watermark(TOPIC, 0), cluster.log_end(TOPIC, 0)), (10, 20));
}

#[tokio::test(start_paused = true)]
async fn a_follower_serves_readers_and_refuses_the_rest() {
    let cluster = three_brokers(V4_3, &[], 2);
    let (leader, follower) = (cluster.replicas(TOPIC, 0)[0], cluster.replicas(TOPIC, 0)[1]);
    Client::to(&cluster, leader).produce(&ten(0)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut client = Client::to(&cluster, follower);
    let data = client.fetch(FetchFrom::offset(0), 12).await;
    assert_eq!((data.error_code, data.high_watermark), (0, 10));
    assert_eq!(client.fetch(FetchFrom::offset(0), 10).await.error_code, 6);
    assert_eq!(client.list_offset(-1, 0, 7).await.0, 6);
    assert_eq!(client.end_of_epoch(0, -1).await.0, 6);
    assert_eq!(client.producers().await, [(PID, 0, 9, -1)], "its own state");
    let refused = client.produce_with(&ten(10), -1, 12, 1000).await;
    assert_eq!((refused.error_code, refused.base_offset), (6, -1));
    assert_eq!(refused.current_leader.leader_id, BrokerId(leader));
    let refused = client.produce(&ten(10)).await;
    assert_eq!(
        (refused.error_code, refused.current_leader.leader_id),
        (6, BrokerId(-1)),
        "version 9: no hint"
    );
}

#[tokio::test(start_paused = true)]
async fn a_high_watermark_reaches_followers_a_moment_later() {
    let cluster = three_brokers(V4_3, &[], 2);
    let (leader, follower) = (cluster.replicas(TOPIC, 0)[0], cluster.replicas(TOPIC, 0)[1]);
    Client::to(&cluster, leader).produce(&ten(0)).await;
    let mut client = Client::to(&cluster, follower);
    assert_eq!(client.fetch(FetchFrom::offset(0), 12).await.high_watermark, 0);
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(client.fetch(FetchFrom::offset(0), 12).await.high_watermark, 10);
}

#[tokio::test(start_paused = true)]
async fn a_rack_aware_cluster_names_the_replica_of_the_readers_rack() {
    let mut options = twinlog_embedded::EmbeddedOptions::new("hello").with_brokers(3);
    options.rack_aware = true;
    let cluster = twinlog_embedded::EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    let leader = cluster.leader(TOPIC, 0).unwrap().0;
    Client::to(&cluster, leader).produce(&ten(0)).await;
    let from = FetchFrom { rack: "rack-2", ..FetchFrom::offset(0) };
    let data = Client::to(&cluster, leader).fetch(from, 12).await;
    assert_eq!(data.preferred_read_replica, BrokerId(2));
    assert_eq!((data.error_code, data.records.unwrap().len(), data.high_watermark), (0, 0, 10));
}

async fn delete(client: &mut Client, offset: i64, timeout_ms: i32) -> (i16, i64) {
    use delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(offset);
    let topic =
        DeleteRecordsTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![partition]);
    let request =
        DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms);
    let response = client.call(&request, 2).await;
    let found = &response.topics[0].partitions[0];
    (found.error_code, found.low_watermark)
}

#[tokio::test(start_paused = true)]
async fn delete_records_is_done_before_it_is_answered() {
    let cluster = three_brokers(V4_3, &[], 3);
    let leader = cluster.leader(TOPIC, 0).unwrap().0;
    let mut client = Client::to(&cluster, leader);
    for sequence in [0, 10, 20] {
        client.produce(&ten(sequence)).await;
    }
    assert_eq!(delete(&mut client, 10, 2000).await, (0, 10));
    assert_eq!(delete(&mut client, 31, 2000).await.0, 1, "beyond the high watermark");
    assert_eq!(delete(&mut client, 5, 2000).await, (0, 10), "below the start: no change");
    cluster.pause_broker(cluster.replicas(TOPIC, 0)[1]);
    assert_eq!(delete(&mut client, 25, 2000).await, (7, 10), "timed out, and yet done");
    assert_eq!(client.list_offset(-2, 0, 7).await.1, 25);
}

#[tokio::test(start_paused = true)]
async fn delete_records_needs_a_policy_that_deletes() {
    for (policy, code) in [("delete", 0), ("compact", 44), ("compact,delete", 0)] {
        let cluster = three_brokers(V4_3, &[("cleanup.policy", policy)], 1);
        let leader = cluster.leader(TOPIC, 0).unwrap().0;
        let mut client = Client::to(&cluster, leader);
        client.produce(&ten(0)).await;
        assert_eq!(delete(&mut client, -1, 2000).await.0, code, "{policy}");
        assert_eq!(cluster.log_start(TOPIC, 0), if code == 0 { 10 } else { 0 });
    }
}
