//! Producer ids, epochs and sequences, row by row as Kafka answered on both versions.

use std::time::Duration;

use crate::support::*;
use bytes::Bytes;
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, NewRecord, ProducerOf};

const PID: i64 = 4711;

fn ten(sequence: i32) -> Bytes {
    by(&batch(10), PID, 0, sequence)
}

/// A partition with `batches` batches of ten records.
async fn written(batches: i32) -> (EmbeddedCluster, Client) {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    for index in 0..batches {
        let answer = client.produce(&ten(index * 10)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, i64::from(index) * 10));
        assert_eq!(answer.log_append_time_ms, -1, "a fresh append on a CreateTime topic");
    }
    (cluster, client)
}

#[tokio::test(start_paused = true)]
async fn the_last_five_batches_are_recognised_and_nothing_else() {
    let (cluster, mut client) = written(8).await;
    let time = EmbeddedOptions::new("x").epoch_ms;
    let rows: Vec<(&str, Bytes, i16, i64, i64)> = vec![
        ("last", ten(70), 0, 70, time),
        ("fifth last", ten(30), 0, 30, time),
        ("sixth last", ten(20), 45, -1, -1),
        ("overlap", ten(75), 45, -1, -1),
        ("same sequence, other count", by(&batch(9), PID, 0, 70), 45, -1, -1),
        ("two old batches merged", by(&batch(20), PID, 0, 60), 45, -1, -1),
        ("gap", ten(90), 45, -1, -1),
        ("sequence below zero", ten(-1), 87, -1, -1),
    ];
    for (what, sent, code, base_offset, append_time) in rows {
        let answer = client.produce(&sent).await;
        assert_eq!(
            (answer.error_code, answer.base_offset, answer.log_append_time_ms),
            (code, base_offset, append_time),
            "{what}"
        );
        assert_eq!(cluster.log_end(TOPIC, 0), 80, "{what}");
    }
    let again = client.produce_with(&ten(70), 1, 9, 1000).await;
    assert_eq!((again.error_code, again.base_offset), (0, 70), "acks=1");
    assert_eq!(client.produce(&ten(80)).await.base_offset, 80);
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_newest_batch_of_a_producer() {
    let (cluster, _) = written(8).await;
    cluster.kill_broker(1);
    cluster.restart_broker(1);
    let mut client = Client::to(&cluster, 1);
    assert_eq!(client.producers().await, [(PID, 0, 79, -1)]);
    let answer = client.produce(&ten(70)).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 70));
    assert_eq!(client.produce(&ten(40)).await.error_code, 45, "the fourth last");
    assert_eq!(client.produce(&ten(90)).await.error_code, 45, "a gap");
    assert_eq!(client.produce(&ten(80)).await.error_code, 0);
    assert_eq!(cluster.leader(TOPIC, 0), Some((1, 2)), "leader gone, leader back");
}

#[tokio::test(start_paused = true)]
async fn forgotten_producers_may_write_anything() {
    let rows = [("next", 80), ("stale: a real duplicate", 70), ("too high", 1000)];
    for (what, sequence) in rows {
        let (cluster, mut client) = written(8).await;
        cluster.expire_producers(TOPIC, 0);
        assert!(client.producers().await.is_empty());
        let answer = client.produce(&ten(sequence)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, 80), "{what}");
    }
    let (cluster, mut client) = written(1).await;
    client.produce(&by(&batch(1), PID, 5, 0)).await;
    cluster.expire_producers(TOPIC, 0);
    assert_eq!(
        client.produce(&by(&batch(1), PID, 1, 7)).await.error_code,
        0,
        "the epoch fence is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_producer_is_that_of_its_records() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let day = 86_400_000;
    let old = NewRecord::new("k", "v").at(EmbeddedOptions::new("x").epoch_ms - 3 * day);
    let sent = by(&batch_of(&[old], "none"), PID, 0, 0);
    assert_eq!(client.produce(&sent).await.error_code, 0);
    assert_eq!(client.produce(&sent).await.base_offset, 0, "recognised until the next check");
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert!(client.producers().await.is_empty());
    let again = client.produce(&sent).await;
    assert_eq!((again.error_code, again.base_offset, again.log_append_time_ms), (0, 1, -1));
    // A restart does the same at once.
    cluster.kill_broker(1);
    cluster.restart_broker(1);
    assert_eq!(Client::to(&cluster, 1).produce(&sent).await.base_offset, 2);
}

#[tokio::test(start_paused = true)]
async fn delete_records_leaves_the_producers_alone() {
    let (cluster, mut client) = written(3).await;
    cluster.delete_records(TOPIC, 0, 30).unwrap();
    assert_eq!(client.producers().await, [(PID, 0, 29, -1)]);
    let answer = client.produce(&ten(20)).await;
    assert_eq!((answer.error_code, answer.base_offset, answer.log_start_offset), (0, 20, 30));
    assert_eq!(client.produce(&ten(50)).await.error_code, 45);
}

#[tokio::test(start_paused = true)]
async fn sequences_wrap_inside_a_batch_and_behind_it() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let five = |sequence| by(&batch(5), PID, 0, sequence);
    assert_eq!(
        client.produce(&five(2_147_483_640)).await.error_code,
        0,
        "a first batch may carry any"
    );
    assert_eq!(client.produce(&five(2_147_483_645)).await.error_code, 0);
    assert_eq!(client.producers().await, [(PID, 0, 1, -1)]);
    assert_eq!(
        client.produce(&five(2_147_483_645)).await.base_offset,
        5,
        "recognised across the wrap"
    );
    assert_eq!(client.produce(&five(2)).await.base_offset, 10);
    let mut exact = Client::to(&cluster, 1);
    assert_eq!(exact.produce(&by(&batch(3), 9, 0, 2_147_483_645)).await.error_code, 0);
    assert_eq!(exact.produce(&by(&batch(3), 9, 0, 0)).await.error_code, 0);
    assert_eq!(cluster.producers(TOPIC, 0).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_higher_epoch_fences_when_it_begins_at_zero() {
    let (cluster, mut client) = written(2).await;
    let one = |epoch, sequence| by(&batch(1), PID, epoch, sequence);
    let rows: Vec<(i16, i32, i16)> = vec![
        (1, 20, 45),
        (1, 0, 0),
        (0, 20, 47),
        (0, 10, 47),
        (8, 0, 0),
        (32767, 0, 0),
        (8, 1, 47),
    ];
    for (epoch, sequence, code) in rows {
        assert_eq!(
            client.produce(&one(epoch, sequence)).await.error_code,
            code,
            "{epoch}/{sequence}"
        );
    }
    assert_eq!(cluster.producers(TOPIC, 0), [ProducerOf { id: PID, epoch: 32767, sequence: 0 }]);
}

#[tokio::test(start_paused = true)]
async fn pipelined_batches_are_judged_in_their_order() {
    let (_, mut client) = written(1).await;
    for sequence in [10, 30, 20] {
        client.send(&produce_request(&ten(sequence), -1, TIMEOUT_MS), 9).await;
    }
    let mut codes = Vec::new();
    for _ in 0..3 {
        let response =
            client.receive::<twinlog_protocol::messages::ProduceRequest>(9).await.unwrap();
        codes.push(response.responses[0].partition_responses[0].error_code);
    }
    assert_eq!(codes, [0, 45, 0]);
}

#[tokio::test(start_paused = true)]
async fn init_producer_id_always_gives_a_new_id_with_epoch_zero() {
    use twinlog_protocol::messages::{InitProducerIdRequest, ProducerId};
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let mut request = InitProducerIdRequest::default().with_transactional_id(None);
    let first = client.call(&request, 4).await;
    request = request.with_producer_id(first.producer_id).with_producer_epoch(3);
    let second = client.call(&request, 4).await;
    assert_eq!((first.error_code, second.error_code, second.producer_epoch), (0, 0, 0));
    assert_ne!(first.producer_id, second.producer_id);
    assert_ne!(first.producer_id, ProducerId(-1));
}
