//! What administrators' tools ask: transactions, leaders, replicas, directories, the quorum.

use std::time::Duration;

use tokio::time::sleep;
use twinlog_embedded::KafkaVersion::V4_3;
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, Isolation};
use twinlog_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use twinlog_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use twinlog_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use twinlog_protocol::messages::elect_leaders_request::TopicPartitions;
use twinlog_protocol::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic,
};
use twinlog_protocol::messages::*;

use crate::support::*;

fn id() -> TransactionalId {
    TransactionalId(string("tx"))
}

/// Opens a transaction over the topic's partition 0; the producer id.
async fn open(client: &mut Client) -> i64 {
    let init = InitProducerIdRequest::default()
        .with_transactional_id(Some(id()))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let producer_id = client.call(&init, 5).await.producer_id;
    let topic =
        AddPartitionsToTxnTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![0]);
    let add = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(id())
        .with_v3_and_below_producer_id(producer_id)
        .with_v3_and_below_producer_epoch(0)
        .with_v3_and_below_topics(vec![topic]);
    let answer = client.call(&add, 3).await;
    let results = &answer.results_by_topic_v3_and_below[0].results_by_partition;
    assert_eq!(results[0].partition_error_code, 0);
    producer_id.0
}

async fn end(client: &mut Client, producer_id: i64, epoch: i16, version: i16) -> EndTxnResponse {
    let request = EndTxnRequest::default()
        .with_transactional_id(id())
        .with_producer_id(ProducerId(producer_id))
        .with_producer_epoch(epoch)
        .with_committed(false);
    client.call(&request, version).await
}

#[tokio::test(start_paused = true)]
async fn transactions_are_listed_and_described() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let began = cluster.now_ms();
    let producer_id = open(&mut client).await;
    sleep(Duration::from_secs(5)).await;
    let ids = vec![id(), TransactionalId(string("nobody"))];
    let describe = DescribeTransactionsRequest::default().with_transactional_ids(ids);
    let states = client.call(&describe, 0).await.transaction_states;
    assert_eq!((states[0].error_code, states[1].error_code), (0, 105));
    let open = &states[0];
    assert_eq!(open.transaction_state.as_str(), "Ongoing");
    assert_eq!((open.transaction_start_time_ms, open.transaction_timeout_ms), (began, 60_000));
    assert_eq!((open.producer_id.0, open.producer_epoch), (producer_id, 0));
    assert_eq!((open.topics[0].topic.as_str(), &open.topics[0].partitions[..]), (TOPIC, &[0][..]));

    let all = ListTransactionsRequest::default()
        .with_duration_filter(-1)
        .with_transactional_id_pattern(None);
    let rows = [
        (all.clone(), 1),
        (all.clone().with_state_filters(vec![string("Ongoing")]), 1),
        (all.clone().with_state_filters(vec![string("CompleteAbort")]), 0),
        (all.clone().with_producer_id_filters(vec![ProducerId(producer_id)]), 1),
        (all.clone().with_producer_id_filters(vec![ProducerId(-7)]), 0),
        (all.clone().with_duration_filter(4_000), 1),
        (all.clone().with_duration_filter(6_000), 0),
        (all.clone().with_transactional_id_pattern(Some(string("t."))), 1),
        (all.clone().with_transactional_id_pattern(Some(string("t"))), 0),
    ];
    for (request, count) in rows {
        let answer = client.call(&request, 2).await;
        assert_eq!((answer.error_code, answer.transaction_states.len()), (0, count), "{request:?}");
    }
    let unknown = all.with_state_filters(vec![string("Sleeping")]);
    let answer = client.call(&unknown, 2).await;
    assert_eq!(answer.unknown_state_filters, [string("Sleeping")]);

    assert_eq!(end(&mut client, producer_id, 0, 3).await.error_code, 0);
    sleep(Duration::from_millis(5)).await;
    let state = client.call(&describe, 0).await.transaction_states[0].clone();
    assert_eq!(state.transaction_state.as_str(), "CompleteAbort");
    assert!(state.topics.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_last_epoch_takes_the_producer_id_along() {
    let mut options = EmbeddedOptions::new("hello");
    options.markers_after = Duration::ZERO;
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    let mut client = Client::to(&cluster, 1);
    let producer_id = open(&mut client).await;
    // Every end raises the epoch (KIP-890); the one at 32767 is for fencing only.
    for epoch in 0..i16::MAX - 1 {
        let ended = end(&mut client, producer_id, epoch, 5).await;
        assert_eq!(ended.error_code, 0);
        assert_eq!((ended.producer_id.0, ended.producer_epoch), (producer_id, epoch + 1));
    }
    let ended = end(&mut client, producer_id, i16::MAX - 1, 5).await;
    let next = ended.producer_id.0;
    assert_eq!((ended.error_code, ended.producer_epoch), (0, 0));
    assert_ne!(next, producer_id);
    let again = end(&mut client, producer_id, i16::MAX - 1, 5).await;
    assert_eq!((again.error_code, again.producer_id.0, again.producer_epoch), (0, next, 0));
    assert_eq!(end(&mut client, next, 0, 5).await.producer_epoch, 1);
}

fn marker(producer_id: i64, epoch: i16, coordinator_epoch: i32) -> WritableTxnMarker {
    let topic = WritableTxnMarkerTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partition_indexes(vec![0]);
    WritableTxnMarker::default()
        .with_producer_id(ProducerId(producer_id))
        .with_producer_epoch(epoch)
        .with_transaction_result(true)
        .with_coordinator_epoch(coordinator_epoch)
        .with_topics(vec![topic])
}

async fn mark(client: &mut Client, markers: Vec<WritableTxnMarker>) -> Vec<i16> {
    let request = WriteTxnMarkersRequest::default().with_markers(markers);
    let results = client.call(&request, 1).await.markers;
    results.iter().map(|result| result.topics[0].partitions[0].error_code).collect()
}

#[tokio::test(start_paused = true)]
async fn markers_are_written_as_they_come() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    assert_eq!(mark(&mut client, vec![marker(7, 0, 3)]).await, [0], "of a producer without state");
    assert_eq!(mark(&mut client, vec![marker(7, 0, 3)]).await, [0], "and again");
    assert_eq!(mark(&mut client, vec![marker(7, 0, 2)]).await, [52]);
    assert_eq!(mark(&mut client, vec![marker(7, 1, 3)]).await, [0]);
    assert_eq!(mark(&mut client, vec![marker(7, 0, 3)]).await, [47]);
    assert_eq!(mark(&mut client, vec![marker(8, -1, 0)]).await, [-1]);
    assert_eq!(cluster.log_end(TOPIC, 0), 3);
    let many = vec![marker(9, 0, 0); 100];
    assert_eq!(mark(&mut client, many).await, [0], "one answer for each producer");
    assert_eq!(cluster.log_end(TOPIC, 0), 103);
    assert!(cluster.records(TOPIC, 0, Isolation::ReadCommitted).is_empty());
    let mut elsewhere = marker(7, 1, 3);
    elsewhere.topics[0].name = topic_name("absent");
    assert_eq!(mark(&mut client, vec![elsewhere]).await, [3]);
    // It ends a transaction that hangs.
    let producer_id = open(&mut client).await;
    let mut request =
        produce_request(&by(&with_bits(&batch(1), 0x10), producer_id, 0, 0), -1, TIMEOUT_MS);
    request.transactional_id = Some(id());
    client.call(&request, 11).await;
    assert_eq!(client.list_offset(-1, 1, 7).await.1, 103);
    assert_eq!(mark(&mut client, vec![marker(producer_id, 0, 0)]).await, [0]);
    assert_eq!(client.list_offset(-1, 1, 7).await.1, 105);
}

async fn elect(client: &mut Client, kind: i8, all: bool) -> Vec<i16> {
    let partitions =
        TopicPartitions::default().with_topic(topic_name(TOPIC)).with_partitions(vec![0, 9]);
    let request = ElectLeadersRequest::default()
        .with_election_type(kind)
        .with_topic_partitions((!all).then(|| vec![partitions]))
        .with_timeout_ms(TIMEOUT_MS);
    let results = client.call(&request, 2).await.replica_election_results;
    results
        .iter()
        .flat_map(|topic| topic.partition_result.iter().map(|result| result.error_code))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn leaders_are_elected_where_they_are_needed() {
    let cluster = three_brokers(V4_3, &[], 3);
    let replicas = cluster.replicas(TOPIC, 0);
    let mut client = Client::to(&cluster, replicas[2]);
    assert_eq!(elect(&mut client, 0, false).await, [84, 3]);
    assert!(elect(&mut client, 0, true).await.is_empty(), "nothing to be done anywhere");
    assert!(cluster.move_leader(TOPIC, 0, replicas[1]));
    assert_eq!(elect(&mut client, 0, true).await, [0]);
    assert_eq!(cluster.leader(TOPIC, 0), Some((replicas[0], 2)));
    cluster.kill_broker(replicas[0]);
    cluster.fence_broker(replicas[0]);
    assert_eq!(elect(&mut client, 0, false).await, [80, 3], "the preferred one is dead");
    assert_eq!(elect(&mut client, 1, false).await, [84, 3], "somebody leads");
    // Only the dead one has everything: an unclean election gives up what it has.
    let next = cluster.leader(TOPIC, 0).unwrap().0;
    cluster.shrink_in_sync(TOPIC, 0, replicas[2]);
    cluster.kill_broker(next);
    cluster.fence_broker(next);
    assert_eq!(cluster.leader(TOPIC, 0), None);
    assert_eq!(elect(&mut client, 1, false).await, [0, 3]);
    assert_eq!(cluster.leader(TOPIC, 0).unwrap().0, replicas[2]);
}

async fn reassign(client: &mut Client, replicas: Option<&[i32]>, version: i16) -> i16 {
    let replicas = replicas.map(|replicas| replicas.iter().copied().map(BrokerId).collect());
    let partition =
        ReassignablePartition::default().with_partition_index(0).with_replicas(replicas);
    let topic =
        ReassignableTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![partition]);
    let mut request = AlterPartitionReassignmentsRequest::default()
        .with_timeout_ms(TIMEOUT_MS)
        .with_topics(vec![topic]);
    if version >= 1 {
        request.allow_replication_factor_change = false;
    }
    client.call(&request, version).await.responses[0].partitions[0].error_code
}

#[tokio::test(start_paused = true)]
async fn a_reassigned_partition_takes_its_records_along() {
    let mut options = EmbeddedOptions::new("hello").with_brokers(3);
    options.min_insync_replicas = 1;
    let cluster = EmbeddedCluster::start(options);
    cluster.create_replicated_topic(TOPIC, 1, 1, &[]).unwrap();
    cluster.append(TOPIC, 0, &records(10)).unwrap();
    let old = cluster.replicas(TOPIC, 0)[0];
    let new: Vec<i32> = (1..=3).filter(|&broker| broker != old).collect();
    let mut client = Client::to(&cluster, new[0]);
    assert_eq!(reassign(&mut client, None, 0).await, 85, "none to be cancelled");
    assert_eq!(reassign(&mut client, Some(&[]), 0).await, 39);
    assert_eq!(reassign(&mut client, Some(&[new[0], new[0]]), 0).await, 39);
    assert_eq!(reassign(&mut client, Some(&[9]), 0).await, 39);
    assert_eq!(reassign(&mut client, Some(&new), 1).await, 39, "the number may not change");
    assert_eq!(reassign(&mut client, Some(&new), 0).await, 0);
    assert_eq!(cluster.replicas(TOPIC, 0), new);
    assert_eq!(cluster.leader(TOPIC, 0), Some((new[0], 1)));
    assert_eq!(cluster.in_sync(TOPIC, 0).len(), 2);
    assert_eq!(cluster.records(TOPIC, 0, Isolation::ReadUncommitted).len(), 10);
    sleep(Duration::from_millis(100)).await; // the new leader settles
    assert_eq!(client.list_offset(-1, 0, 7).await.1, 10);
    let list = ListPartitionReassignmentsRequest::default().with_topics(None);
    assert!(client.call(&list, 0).await.topics.is_empty());
}

#[tokio::test(start_paused = true)]
async fn topics_are_described_in_pieces() {
    let cluster = EmbeddedCluster::start(EmbeddedOptions::new("hello"));
    for (name, partitions) in [("a", 3), ("b", 2), ("c", 1)] {
        cluster.create_topic(name, partitions, &[]).unwrap();
    }
    let mut client = Client::to(&cluster, 1);
    let mut request = DescribeTopicPartitionsRequest::default()
        .with_response_partition_limit(2)
        .with_cursor(None);
    let mut seen = Vec::new();
    let mut requests = 0;
    loop {
        let answer = client.call(&request, 0).await;
        requests += 1;
        for topic in &answer.topics {
            let name = topic.name.as_ref().unwrap().to_string();
            let partitions = topic.partitions.iter().map(|found| found.partition_index);
            seen.extend(partitions.map(|index| (name.clone(), index)));
        }
        let Some(next) = answer.next_cursor else { break };
        let cursor = Cursor::default()
            .with_topic_name(next.topic_name)
            .with_partition_index(next.partition_index);
        request = request.with_cursor(Some(cursor));
    }
    let expected = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)];
    assert_eq!(seen, expected.map(|(name, index)| (name.to_owned(), index)));
    assert_eq!(requests, 3);
    let absent = DescribeTopicPartitionsRequest::default()
        .with_topics(vec![TopicRequest::default().with_name(topic_name("absent"))])
        .with_response_partition_limit(2000)
        .with_cursor(None);
    assert_eq!(client.call(&absent, 0).await.topics[0].error_code, 3);
    let invalid = absent
        .clone()
        .with_topics(vec![TopicRequest::default().with_name(topic_name("not a name"))]);
    assert_eq!(client.call(&invalid, 0).await.topics[0].error_code, 17);
    // The cursor is judged first (InvalidRequestException).
    let cursor = Cursor::default().with_topic_name(topic_name("a")).with_partition_index(-1);
    let refused = client.call(&absent.with_cursor(Some(cursor)), 0).await;
    assert_eq!(refused.topics[0].error_code, 42);
    assert_eq!(refused.next_cursor, None);
}

#[tokio::test(start_paused = true)]
async fn directories_and_the_quorum_are_described() {
    let cluster = three_brokers(V4_3, &[], 3);
    cluster.append(TOPIC, 0, &records(3)).unwrap();
    let leader = cluster.leader(TOPIC, 0).unwrap().0;
    let mut client = Client::to(&cluster, leader);
    let answer = client.call(&DescribeLogDirsRequest::default().with_topics(None), 4).await.results;
    let partition = &answer[0].topics[0].partitions[0];
    assert!(partition.partition_size > 0);
    assert_eq!((partition.offset_lag, partition.is_future_key), (0, false));
    let partition = describe_quorum_request::PartitionData::default().with_partition_index(0);
    let topic = describe_quorum_request::TopicData::default()
        .with_topic_name(topic_name("__cluster_metadata"))
        .with_partitions(vec![partition]);
    let quorum = client.call(&DescribeQuorumRequest::default().with_topics(vec![topic]), 2).await;
    let partition = &quorum.topics[0].partitions[0];
    assert_eq!((partition.error_code, partition.leader_id), (0, BrokerId(1)));
    assert_eq!((partition.current_voters.len(), quorum.nodes.len()), (3, 3));
}
