//! Transactional ids: fencing, epochs, 51 while markers are written, what readers see.

use std::time::Duration;

use bytes::Bytes;
use twinlog_embedded::KafkaVersion::{V3_9, V4_3};
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, Isolation, KafkaVersion};
use twinlog_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use twinlog_protocol::messages::*;

use crate::support::*;

const ID: &str = "tx";
const TRANSACTIONAL: i16 = 0x10;

fn id() -> TransactionalId {
    TransactionalId(string(ID))
}

fn started(version: KafkaVersion) -> (EmbeddedCluster, Client) {
    let mut options = EmbeddedOptions::new("hello");
    options.version = version;
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    let client = Client::to(&cluster, 1);
    (cluster, client)
}

async fn init_once(client: &mut Client) -> (i16, i64, i16) {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(id()))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let answer = client.call(&request, 5).await;
    (answer.error_code, answer.producer_id.0, answer.producer_epoch)
}

async fn init(client: &mut Client) -> (i64, i16) {
    loop {
        match init_once(client).await {
            (0, producer_id, epoch) => return (producer_id, epoch),
            (51, ..) => tokio::time::sleep(Duration::from_millis(1)).await,
            (code, ..) => panic!("InitProducerId: {code}"),
        }
    }
}

async fn add(client: &mut Client, producer_id: i64, epoch: i16) -> i16 {
    let topic =
        AddPartitionsToTxnTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![0]);
    let request = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(id())
        .with_v3_and_below_producer_id(ProducerId(producer_id))
        .with_v3_and_below_producer_epoch(epoch)
        .with_v3_and_below_topics(vec![topic]);
    let answer = client.call(&request, 3).await;
    answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
}

async fn end(
    client: &mut Client,
    producer_id: i64,
    epoch: i16,
    commit: bool,
    version: i16,
) -> (i16, i16) {
    let request = EndTxnRequest::default()
        .with_transactional_id(id())
        .with_producer_id(ProducerId(producer_id))
        .with_producer_epoch(epoch)
        .with_committed(commit);
    let answer = client.call(&request, version).await;
    (answer.error_code, answer.producer_epoch)
}

fn part(producer_id: i64, epoch: i16, sequence: i32) -> Bytes {
    by(&with_bits(&batch(1), TRANSACTIONAL), producer_id, epoch, sequence)
}

async fn write(client: &mut Client, batch: &Bytes, version: i16) -> i16 {
    let mut request = produce_request(batch, -1, TIMEOUT_MS);
    request.transactional_id = Some(id());
    client.call(&request, version).await.responses[0].partition_responses[0].error_code
}

#[tokio::test(start_paused = true)]
async fn version_2_raises_the_epoch_with_every_end() {
    let (cluster, mut client) = started(V4_3);
    let (pid, epoch) = init(&mut client).await;
    assert_eq!(epoch, 0);
    assert_eq!(write(&mut client, &part(pid, 0, 0), 12).await, 0, "the broker adds the partition");
    assert_eq!(client.producers().await, [(pid, 0, 0, 0)]);
    assert_eq!(client.list_offset(-1, 1, 7).await.1, 0, "open: nothing is stable");
    assert_eq!(end(&mut client, pid, 0, true, 5).await, (0, 1));
    assert_eq!(end(&mut client, pid, 0, true, 5).await.0, 51, "asked again too early");
    assert_eq!(write(&mut client, &part(pid, 1, 0), 12).await, 51);
    assert_eq!(add(&mut client, pid, 1).await, 51);
    tokio::time::sleep(Duration::from_millis(3)).await;
    assert_eq!(end(&mut client, pid, 0, true, 5).await, (0, 1), "asked again with the old epoch");
    assert_eq!(end(&mut client, pid, 0, false, 5).await.0, 48, "the opposite");
    assert_eq!(cluster.log_end(TOPIC, 0), 2, "a record and a marker");
    assert_eq!(cluster.records(TOPIC, 0, Isolation::ReadCommitted).len(), 1);
    assert_eq!(
        write(&mut client, &part(pid, 0, 0), 12).await,
        47,
        "the commit fenced the old epoch"
    );
    assert_eq!(add(&mut client, pid, 1).await, 0);
    assert_eq!(write(&mut client, &part(pid, 1, 0), 12).await, 0, "sequences begin anew");
    assert_eq!(end(&mut client, pid, 1, false, 5).await, (0, 2));
    tokio::time::sleep(Duration::from_millis(3)).await;
    assert_eq!(cluster.records(TOPIC, 0, Isolation::ReadCommitted).len(), 1);
    assert_eq!(cluster.records(TOPIC, 0, Isolation::ReadUncommitted).len(), 2);
    let data = client.fetch(FetchFrom { committed: true, ..FetchFrom::offset(0) }, 12).await;
    let aborted = data.aborted_transactions.unwrap();
    assert_eq!((aborted.len(), aborted[0].producer_id.0, aborted[0].first_offset), (1, pid, 2));
}

#[tokio::test(start_paused = true)]
async fn an_empty_transaction_writes_one_marker() {
    for (version, end_version, step) in [(V4_3, 3, 0), (V4_3, 5, 1), (V3_9, 3, 0)] {
        let (cluster, mut client) = started(version);
        let (pid, _) = init(&mut client).await;
        for round in 0..2 {
            let epoch = round * step;
            assert_eq!(add(&mut client, pid, epoch).await, 0);
            assert_eq!(end(&mut client, pid, epoch, true, end_version).await.0, 0);
            assert_eq!(add(&mut client, pid, epoch + step).await, 51);
            tokio::time::sleep(Duration::from_millis(3)).await;
            assert_eq!(cluster.log_end(TOPIC, 0), i64::from(round) + 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_version_must_add_the_partition_first() {
    let (_, mut client) = started(V3_9);
    let (pid, epoch) = init(&mut client).await;
    assert_eq!(write(&mut client, &part(pid, epoch, 0), 10).await, 48);
    assert_eq!(write(&mut client, &part(pid, epoch, 0), 11).await, 120, "abort, says version 11");
    assert_eq!(add(&mut client, pid, epoch).await, 0);
    assert_eq!(write(&mut client, &part(pid, epoch, 0), 11).await, 0);
    assert_eq!(end(&mut client, pid, epoch, true, 4).await.0, 0);
    assert_eq!(
        write(&mut client, &part(pid, epoch, 1), 11).await,
        0,
        "in the log it is still open"
    );
    tokio::time::sleep(Duration::from_millis(3)).await;
    assert_eq!(add(&mut client, pid, epoch).await, 0);
    assert_eq!(end(&mut client, pid, epoch, true, 4).await.0, 0);
    assert_eq!(
        write(&mut client, &part(pid, epoch, 2), 11).await,
        19,
        "51 in the words of version 11"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_owner_fences_the_old_one() {
    for (version, produce, end_version) in [(V4_3, 12, 5), (V3_9, 11, 4)] {
        let (cluster, mut first) = started(version);
        let (pid, epoch) = init(&mut first).await;
        assert_eq!(add(&mut first, pid, epoch).await, 0);
        assert_eq!(write(&mut first, &part(pid, epoch, 0), produce).await, 0);
        let mut second = Client::to(&cluster, 1);
        assert_eq!(init_once(&mut second).await.0, 51, "while the open transaction is aborted");
        assert_eq!(init(&mut second).await, (pid, epoch + 2));
        assert_eq!(write(&mut first, &part(pid, epoch, 1), produce).await, 47);
        assert_eq!(add(&mut first, pid, epoch).await, 90);
        assert_eq!(end(&mut first, pid, epoch, true, end_version).await.0, 90);
        assert_eq!(end(&mut first, pid, epoch, false, end_version).await.0, 90);
        let known = InitProducerIdRequest::default()
            .with_transactional_id(Some(id()))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(ProducerId(pid))
            .with_producer_epoch(epoch);
        assert_eq!(first.call(&known, 5).await.error_code, 90);
        let plain = first.produce(&by(&batch(1), pid, epoch, 1)).await;
        assert_eq!(plain.error_code, 47, "the abort marker carries the higher epoch");
        cluster.create_topic("other", 1, &[]).unwrap();
        let mut request = produce_request(&by(&batch(1), pid, epoch, 0), -1, TIMEOUT_MS);
        request.topic_data[0].name = topic_name("other");
        let answer = first.call(&request, 9).await;
        assert_eq!(
            answer.responses[0].partition_responses[0].error_code, 0,
            "plain writes elsewhere pass"
        );
        assert_eq!(init(&mut second).await, (pid, epoch + 3), "nothing open: one more");
        assert!(cluster.records(TOPIC, 0, Isolation::ReadCommitted).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_takes_too_long_is_aborted_and_its_owner_fenced() {
    let (cluster, mut client) = started(V4_3);
    let (pid, epoch) = init(&mut client).await;
    assert_eq!(write(&mut client, &part(pid, epoch, 0), 12).await, 0);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(cluster.log_end(TOPIC, 0), 2);
    assert_eq!(end(&mut client, pid, epoch, true, 5).await.0, 48, "its epoch ended with an abort");
    assert_eq!(write(&mut client, &part(pid, epoch, 1), 12).await, 47);
}

#[tokio::test(start_paused = true)]
async fn one_partition_below_min_insync_replicas_holds_the_whole_id() {
    let cluster = three_brokers(V4_3, &[("min.insync.replicas", "2")], 2);
    let (leader, follower) = (cluster.replicas(TOPIC, 0)[0], cluster.replicas(TOPIC, 0)[1]);
    let coordinator = cluster.transaction_coordinator(ID);
    let mut control = Client::to(&cluster, coordinator);
    let mut data = Client::to(&cluster, leader);
    let (pid, epoch) = init(&mut control).await;
    assert_eq!(add(&mut control, pid, epoch).await, 0);
    assert_eq!(write(&mut data, &part(pid, epoch, 0), 12).await, 0);
    cluster.shrink_in_sync(TOPIC, 0, follower);
    cluster.hold_replication(TOPIC, 0);
    assert_eq!(end(&mut control, pid, epoch, true, 5).await, (0, 1), "answers at once");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(cluster.log_end(TOPIC, 0), 1, "no marker");
    assert_eq!(add(&mut control, pid, 1).await, 51);
    assert_eq!(init_once(&mut control).await.0, 51, "no take-over either");
    cluster.release_replication(TOPIC, 0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(cluster.log_end(TOPIC, 0), 2);
    assert_eq!(add(&mut control, pid, 1).await, 0);
}

#[tokio::test(start_paused = true)]
async fn wrong_owners_ids_and_coordinators_are_refused() {
    let cluster = three_brokers(V4_3, &[], 1);
    let coordinator = cluster.transaction_coordinator(ID);
    let other = (1..=3).find(|&broker| broker != coordinator).unwrap();
    let mut client = Client::to(&cluster, coordinator);
    assert_eq!(init_once(&mut Client::to(&cluster, other)).await.0, 16);
    assert_eq!(add(&mut client, 1, 0).await, 49, "an id that nobody initialised");
    let (pid, epoch) = init(&mut client).await;
    assert_eq!(add(&mut client, pid + 1, epoch).await, 49);
    assert_eq!(end(&mut client, pid, epoch, true, 5).await.0, 48, "nothing to commit");
    assert_eq!(end(&mut Client::to(&cluster, other), pid, epoch, true, 5).await.0, 16);
}

#[tokio::test(start_paused = true)]
async fn source_transactions_are_written_without_a_client() {
    let cluster = cluster();
    let mut kept = cluster.begin_transaction();
    let mut dropped = cluster.begin_transaction();
    cluster.append_in(&mut kept, TOPIC, 0, &records(2)).unwrap();
    cluster.append_in(&mut dropped, TOPIC, 0, &records(3)).unwrap();
    cluster.append(TOPIC, 0, &records(1)).unwrap();
    assert!(cluster.records(TOPIC, 0, Isolation::ReadCommitted).is_empty());
    cluster.end_transaction(kept, true).unwrap();
    assert_eq!(
        cluster.records(TOPIC, 0, Isolation::ReadCommitted).len(),
        2,
        "the other one still holds the rest"
    );
    cluster.end_transaction(dropped, false).unwrap();
    let offsets: Vec<i64> = cluster
        .records(TOPIC, 0, Isolation::ReadCommitted)
        .iter()
        .map(|record| record.offset)
        .collect();
    assert_eq!(offsets, [0, 1, 5]);
    assert_eq!(cluster.log_end(TOPIC, 0), 8);
}
