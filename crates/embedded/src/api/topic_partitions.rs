//! `DescribeTopicPartitions` (KIP-966): topics in pieces, with the replicas that may lead.

use twinlog_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use twinlog_protocol::messages::{
    BrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, Uuid, topic_name,
};

use super::groups::NOT_ASKED;
use super::topics::check_name;
use crate::code::{INVALID_REQUEST, LEADER_NOT_AVAILABLE, NONE, UNKNOWN_TOPIC_OR_PARTITION};
use crate::partition::Partition;
use crate::server::Call;
use crate::state::State;

/// `max.request.partition.size.limit`.
const PARTITIONS_MAX: usize = 2000;

pub(crate) fn describe_topic_partitions(
    call: &Call,
    request: &DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    if request.cursor.as_ref().is_some_and(|cursor| cursor.partition_index < 0) {
        // Thrown inside a broker, so every topic that was named is answered with it.
        let refused = request.topics.iter().map(|topic| {
            DescribeTopicPartitionsResponseTopic::default()
                .with_name(Some(topic.name.clone()))
                .with_error_code(INVALID_REQUEST)
                .with_topic_authorized_operations(NOT_ASKED)
        });
        return DescribeTopicPartitionsResponse::default()
            .with_topics(refused.collect())
            .with_next_cursor(None);
    }
    call.cluster.with(|state| {
        let mut names: Vec<String> = if request.topics.is_empty() {
            state.topics.keys().cloned().collect()
        } else {
            request.topics.iter().map(|topic| topic.name.to_string()).collect()
        };
        names.sort();
        names.dedup();
        let (after, mut from) = request.cursor.as_ref().map_or((String::new(), 0), |cursor| {
            let from = usize::try_from(cursor.partition_index).unwrap_or(0);
            (cursor.topic_name.to_string(), from)
        });
        let asked = usize::try_from(request.response_partition_limit).unwrap_or(0);
        let mut room = asked.clamp(1, PARTITIONS_MAX);
        let mut topics = Vec::new();
        let mut next = None;
        for name in names.into_iter().filter(|name| *name >= after) {
            let first = if name == after { std::mem::take(&mut from) } else { 0 };
            if room == 0 {
                next = Some(cursor(&name, first));
                break;
            }
            let (topic, stopped_at) = one(call, state, &name, first, &mut room);
            topics.push(topic);
            if let Some(index) = stopped_at {
                next = Some(cursor(&name, index));
                break;
            }
        }
        DescribeTopicPartitionsResponse::default().with_topics(topics).with_next_cursor(next)
    })
}

fn cursor(topic: &str, partition: usize) -> Cursor {
    Cursor::default().with_topic_name(topic_name(topic)).with_partition_index(partition as i32)
}

/// A topic from a partition on, and where it stops for lack of room.
fn one(
    call: &Call,
    state: &State,
    name: &str,
    first: usize,
    room: &mut usize,
) -> (DescribeTopicPartitionsResponseTopic, Option<usize>) {
    let out = DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(topic_name(name)))
        .with_topic_authorized_operations(NOT_ASKED)
        .with_is_internal(name.starts_with("__"));
    if let Some(code) = call.refused(name, -1) {
        return (out.with_error_code(code), None);
    }
    let Some(topic) = state.topics.get(name) else {
        let code = check_name(name).err().map_or(UNKNOWN_TOPIC_OR_PARTITION, |(code, _)| code);
        return (out.with_error_code(code), None);
    };
    let last = (first + *room).min(topic.partitions.len());
    let partitions: Vec<_> =
        (first..last).map(|index| described(state, index, &topic.partitions[index])).collect();
    *room -= partitions.len();
    let out = out.with_topic_id(Uuid::from_bytes(topic.id)).with_partitions(partitions);
    (out, (last < topic.partitions.len()).then_some(last))
}

fn described(
    state: &State,
    index: usize,
    partition: &Partition,
) -> DescribeTopicPartitionsResponsePartition {
    let replicas: Vec<BrokerId> =
        partition.replicas.iter().map(|replica| BrokerId(replica.broker)).collect();
    let offline =
        replicas.iter().copied().filter(|broker| state.brokers[&broker.0].fenced).collect();
    DescribeTopicPartitionsResponsePartition::default()
        .with_error_code(if partition.leader.is_none() { LEADER_NOT_AVAILABLE } else { NONE })
        .with_partition_index(index as i32)
        .with_leader_id(BrokerId(partition.leader.unwrap_or(-1)))
        .with_leader_epoch(partition.epoch)
        .with_replica_nodes(replicas)
        .with_isr_nodes(partition.in_sync.iter().map(|&broker| BrokerId(broker)).collect())
        .with_eligible_leader_replicas(Some(Vec::new()))
        .with_last_known_elr(Some(Vec::new()))
        .with_offline_replicas(offline)
}
