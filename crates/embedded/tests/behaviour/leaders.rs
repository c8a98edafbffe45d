//! Several brokers: leaders that move, die, sleep, and lose what they acknowledged.

use std::time::Duration;

use bytes::Bytes;
use twinlog_embedded::KafkaVersion::V4_3;
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions};
use twinlog_protocol::messages::*;

use crate::support::*;

const PID: i64 = 4711;

fn ten(sequence: i32) -> Bytes {
    by(&batch(10), PID, 0, sequence)
}

async fn eight_batches() -> (EmbeddedCluster, Vec<i32>) {
    let cluster = three_brokers(V4_3, &[], 3);
    let replicas = cluster.replicas(TOPIC, 0);
    let mut client = Client::to(&cluster, replicas[0]);
    for index in 0..8 {
        assert_eq!(client.produce(&ten(index * 10)).await.error_code, 0);
    }
    (cluster, replicas)
}

async fn leader_in_metadata(client: &mut Client) -> (i32, i32) {
    let request = MetadataRequest::default().with_topics(None);
    let response = client.call(&request, 12).await;
    let partition = &response.topics[0].partitions[0];
    (partition.leader_id.0, partition.leader_epoch)
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_named_until_its_session_is_over() {
    let (cluster, replicas) = eight_batches().await;
    cluster.kill_broker(replicas[0]);
    let (host, port) = cluster.addresses()[replicas[0] as usize - 1].clone();
    assert_eq!(
        cluster.connect(&host, port).unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
    let mut survivor = Client::to(&cluster, replicas[1]);
    assert_eq!(leader_in_metadata(&mut survivor).await, (replicas[0], 0));
    let refused = survivor.produce_with(&ten(80), -1, 12, 1000).await;
    assert_eq!((refused.error_code, refused.current_leader.leader_id), (6, BrokerId(replicas[0])));
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(leader_in_metadata(&mut survivor).await, (replicas[1], 1));
    assert_eq!(survivor.end_of_epoch(0, 0).await.0, 74);

    // The new leader is behind with its high watermark, and with nothing else.
    assert_eq!(survivor.fetch(FetchFrom::offset(0), 12).await.high_watermark, 70);
    assert_eq!(survivor.list_offset(-1, 0, 7).await.0, 78);
    assert_eq!(survivor.list_offset(-1, 1, 7).await.0, 78);
    assert_eq!(survivor.end_of_epoch(1, 1).await, (0, 1, 80));
    assert_eq!(survivor.producers().await, [(PID, 0, 79, -1)]);
    tokio::time::sleep(Duration::from_millis(65)).await;
    assert_eq!(survivor.list_offset(-1, 0, 7).await.1, 80);
    for (sequence, code, base_offset) in
        [(70, 0, 70), (30, 0, 30), (20, 45, -1), (90, 45, -1), (80, 0, 80)]
    {
        let answer = survivor.produce(&ten(sequence)).await;
        assert_eq!((answer.error_code, answer.base_offset), (code, base_offset), "{sequence}");
    }
    cluster.restart_broker(replicas[0]);
    assert_eq!(cluster.in_sync(TOPIC, 0).len(), 3);
    assert_eq!(Client::to(&cluster, replicas[0]).producers().await, [(PID, 0, 89, -1)]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_breaks_when_its_broker_dies() {
    let (cluster, replicas) = eight_batches().await;
    let mut client = Client::to(&cluster, replicas[0]);
    cluster.hold_replication(TOPIC, 0);
    client.send(&produce_request(&ten(80), -1, TIMEOUT_MS), 9).await;
    tokio::task::yield_now().await;
    cluster.kill_broker(replicas[0]);
    assert!(client.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_orderly_move_answers_6_with_the_offset_of_what_was_appended() {
    let (cluster, replicas) = eight_batches().await;
    for kept in [true, false] {
        let end = cluster.log_end(TOPIC, 0) as i32;
        let (old, epoch) = cluster.leader(TOPIC, 0).unwrap();
        let new = *replicas.iter().find(|&&broker| broker != old).unwrap();
        let mut client = Client::to(&cluster, old);
        // Settling keeps the high watermark back while followers copy; holding keeps both back.
        if kept {
            let follower =
                *replicas.iter().find(|&&broker| broker != old && broker != new).unwrap();
            cluster.pause_broker(follower);
        } else {
            cluster.hold_replication(TOPIC, 0);
        }
        for index in 0..3 {
            client.send(&produce_request(&ten(end + index * 10), -1, TIMEOUT_MS), 12).await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(cluster.move_leader(TOPIC, 0, new));
        cluster.release_replication(TOPIC, 0);
        let mut answers = Vec::new();
        for _ in 0..3 {
            let response = client.receive::<ProduceRequest>(12).await.unwrap();
            let answer = response.responses[0].partition_responses[0].clone();
            assert_eq!(answer.current_leader.leader_id, BrokerId(new));
            answers.push((answer.error_code, answer.base_offset));
        }
        assert_eq!(answers, [(6, i64::from(end)), (6, -1), (6, -1)]);
        for broker in &replicas {
            cluster.resume_broker(*broker);
        }
        let mut moved = Client::to(&cluster, new);
        let stored = cluster.log_end(TOPIC, 0) == i64::from(end) + 10;
        assert_eq!(stored, kept, "stored in one case, cut off in the other");
        let again = moved.produce(&ten(end)).await;
        assert_eq!((again.error_code, again.base_offset), (0, i64::from(end)));
        assert_eq!(again.log_append_time_ms >= 0, kept);
        assert_eq!(cluster.leader(TOPIC, 0).unwrap().1, epoch + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_slept_through_a_move_acts_on_its_old_belief() {
    let (cluster, replicas) = eight_batches().await;
    let (old, new) = (replicas[0], replicas[1]);
    let mut weak = Client::to(&cluster, old);
    let mut reader = Client::to(&cluster, old);
    let mut strong = Client::to(&cluster, old);
    cluster.pause_broker(old);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(cluster.leader(TOPIC, 0), Some((new, 1)));
    let mut moved = Client::to(&cluster, new);
    assert_eq!(moved.produce(&ten(80)).await.error_code, 0);
    // Packets that waited in the sleeping broker's sockets.
    weak.send(&produce_request(&ten(80), 1, TIMEOUT_MS), 12).await;
    reader.send(&FetchFrom::offset(0).request(12), 12).await;
    cluster.resume_broker(old);
    let lost = weak.receive::<ProduceRequest>(12).await.unwrap();
    let lost = &lost.responses[0].partition_responses[0];
    assert_eq!((lost.error_code, lost.base_offset), (0, 80), "acknowledged, and about to vanish");
    let stale = reader.receive::<FetchRequest>(12).await.unwrap();
    assert_eq!(stale.responses[0].partitions[0].high_watermark, 80);
    assert_eq!(reader.end_of_epoch(0, 1).await.0, 75, "it does not know the new epoch");
    assert_eq!(reader.end_of_epoch(0, 0).await, (0, 0, 90));
    assert_eq!(leader_in_metadata(&mut reader).await, (old, 0));
    let unclear = strong.produce_with(&ten(90), -1, 12, TIMEOUT_MS).await;
    assert_eq!((unclear.error_code, unclear.base_offset), (6, 90), "appended, then cut off");
    assert_eq!(unclear.current_leader.leader_id, BrokerId(new));
    assert_eq!(reader.end_of_epoch(0, 1).await.0, 6);
    assert_eq!(reader.producers().await, [(PID, 0, 89, -1)], "the state of the new leader's log");
    assert_eq!(cluster.log_end(TOPIC, 0), 90);
    assert_eq!(cluster.in_sync(TOPIC, 0).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_unclean_election_reuses_offsets() {
    let mut options = EmbeddedOptions::new("hello").with_brokers(2);
    options.min_insync_replicas = 1;
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[("unclean.leader.election.enable", "true")]).unwrap();
    let (a, b) = (cluster.replicas(TOPIC, 0)[0], cluster.replicas(TOPIC, 0)[1]);
    let mut client = Client::to(&cluster, a);
    for sequence in [0, 10, 20] {
        assert_eq!(client.produce(&ten(sequence)).await.error_code, 0);
    }
    cluster.kill_broker(b);
    cluster.fence_broker(b);
    assert_eq!(client.produce(&ten(30)).await.error_code, 0);
    cluster.kill_broker(a);
    cluster.restart_broker(a);
    let mut client = Client::to(&cluster, a);
    for sequence in [40, 50] {
        assert_eq!(client.produce(&ten(sequence)).await.error_code, 0);
    }
    assert_eq!(cluster.epochs(TOPIC, 0), [(0, 0), (2, 40)]);
    assert_eq!(client.end_of_epoch(0, -1).await, (0, 0, 40));
    assert_eq!(client.end_of_epoch(1, -1).await, (0, 0, 40));
    assert_eq!(client.end_of_epoch(2, -1).await, (0, 2, 60));
    cluster.kill_broker(a);
    cluster.fence_broker(a);
    cluster.restart_broker(b);
    assert_eq!(cluster.leader(TOPIC, 0), Some((b, 4)), "one more than without the orphaned epoch");

    let mut client = Client::to(&cluster, b);
    assert_eq!(client.list_offset(-1, 0, 7).await.0, 78);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(client.list_offset(-1, 0, 7).await, (0, 30, 4));
    for epoch in [0, 1, 2] {
        assert_eq!(client.end_of_epoch(epoch, -1).await, (0, 0, 30), "{epoch}");
    }
    assert_eq!(client.end_of_epoch(4, -1).await, (0, 4, 30));
    assert_eq!(client.end_of_epoch(5, -1).await, (0, -1, -1));
    assert_eq!(client.end_of_epoch(0, 2).await.0, 74);
    assert_eq!(client.fetch(FetchFrom::offset(60), 12).await.error_code, 1);
    for last in [2, 0] {
        let from = FetchFrom { last_fetched_epoch: last, ..FetchFrom::offset(60) };
        let data = client.fetch(from, 12).await;
        assert_eq!((data.error_code, data.records.unwrap().len()), (0, 0));
        assert_eq!(
            (data.diverging_epoch.epoch, data.diverging_epoch.end_offset),
            (0, 30),
            "{last}"
        );
    }
    let from = FetchFrom { last_fetched_epoch: 5, ..FetchFrom::offset(30) };
    assert_eq!(client.fetch(from, 12).await.error_code, 1, "an epoch above the newest");
    assert_eq!(client.producers().await, [(PID, 0, 29, -1)], "the truncated state");
    for (sequence, code, base_offset) in
        [(50, 45, -1), (60, 45, -1), (20, 0, 20), (10, 45, -1), (30, 0, 30)]
    {
        let answer = client.produce(&ten(sequence)).await;
        assert_eq!((answer.error_code, answer.base_offset), (code, base_offset), "{sequence}");
    }
    cluster.restart_broker(a);
    assert_eq!(
        Client::to(&cluster, a).producers().await,
        [(PID, 0, 39, -1)],
        "the old leader takes the new state"
    );
    for sequence in [40, 50, 60] {
        client.produce(&ten(sequence)).await;
    }
    let silent = client.fetch(FetchFrom::offset(60), 12).await;
    assert!(
        !silent.records.unwrap().is_empty(),
        "the log is longer again: other records in silence"
    );
    let from = FetchFrom { last_fetched_epoch: 2, ..FetchFrom::offset(60) };
    assert_eq!(client.fetch(from, 12).await.diverging_epoch.end_offset, 30);
}

#[tokio::test(start_paused = true)]
async fn a_lost_tail_is_lost_on_every_replica_and_in_the_producers() {
    let (cluster, replicas) = eight_batches().await;
    assert!(cluster.lose_tail(TOPIC, 0, 50));
    assert_eq!((cluster.log_end(TOPIC, 0), cluster.high_watermark(TOPIC, 0)), (50, 50));
    let mut client = Client::to(&cluster, replicas[0]);
    assert_eq!(client.producers().await, [(PID, 0, 49, -1)]);
    assert_eq!(client.produce(&ten(80)).await.error_code, 45);
    assert_eq!(client.produce(&ten(50)).await.base_offset, 50);
    assert_eq!(cluster.epochs(TOPIC, 0), [(0, 0), (1, 50)]);
}
