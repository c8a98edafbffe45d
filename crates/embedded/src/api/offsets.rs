//! `ListOffsets`, `OffsetForLeaderEpoch`, `DescribeProducers`.

use twinlog_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use twinlog_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use twinlog_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use twinlog_protocol::messages::{
    DescribeProducersRequest, DescribeProducersResponse, ListOffsetsRequest, ListOffsetsResponse,
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProducerId, StrBytes,
    describe_producers_request, list_offsets_request, offset_for_leader_epoch_request, string,
};

use super::topics::check_name;
use crate::code::{
    FENCED_LEADER_EPOCH, INVALID_REQUEST, NONE, NOT_LEADER_OR_FOLLOWER, OFFSET_NOT_AVAILABLE,
    UNKNOWN_LEADER_EPOCH, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION,
    text,
};
use crate::log::Log;
use crate::partition::Replica;
use crate::server::Call;
use crate::state::State;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

/// The replica of a broker that believes to lead, if the caller's epoch is its own.
pub(super) fn leading<'a>(
    call: &Call,
    state: &'a State,
    topic: &str,
    partition: i32,
    current_leader_epoch: i32,
) -> Result<&'a Replica, i16> {
    if let Some(code) = call.refused(topic, partition) {
        return Err(code);
    }
    let found = state.partition(topic, partition).ok_or(UNKNOWN_TOPIC_OR_PARTITION)?;
    let replica = found.replica(call.broker).ok_or(NOT_LEADER_OR_FOLLOWER)?;
    if current_leader_epoch >= 0 && current_leader_epoch < replica.epoch {
        return Err(FENCED_LEADER_EPOCH);
    }
    if current_leader_epoch > replica.epoch {
        return Err(UNKNOWN_LEADER_EPOCH);
    }
    if replica.leads() { Ok(replica) } else { Err(NOT_LEADER_OR_FOLLOWER) }
}

struct Found {
    offset: i64,
    timestamp: i64,
    epoch: i32,
}

const NOWHERE: Found = Found { offset: -1, timestamp: -1, epoch: -1 };

pub(crate) fn list_offsets(call: &Call, request: &ListOffsetsRequest) -> ListOffsetsResponse {
    let committed = request.isolation_level == 1;
    let topics = call.cluster.with(|state| {
        let topic = |topic: &list_offsets_request::ListOffsetsTopic| {
            let asked = &topic.partitions;
            let twice =
                |index: i32| asked.iter().filter(|p| p.partition_index == index).count() > 1;
            let first = |position: usize, index: i32| {
                asked[..position].iter().all(|other| other.partition_index != index)
            };
            let asked = asked.iter().enumerate();
            // What is asked for twice is refused once.
            let asked = asked.filter(|(position, wanted)| first(*position, wanted.partition_index));
            let partitions = asked.map(|(_, wanted)| {
                let found = if twice(wanted.partition_index) {
                    Err(INVALID_REQUEST)
                } else {
                    leading(
                        call,
                        state,
                        &topic.name,
                        wanted.partition_index,
                        wanted.current_leader_epoch,
                    )
                };
                let found = found.and_then(|replica| {
                    if !matches!(request.isolation_level, 0 | 1) {
                        return Err(UNKNOWN_SERVER_ERROR);
                    }
                    lookup(call, replica, wanted.timestamp, committed)
                });
                let out = ListOffsetsPartitionResponse::default()
                    .with_partition_index(wanted.partition_index);
                match found {
                    Err(code) => out.with_error_code(code),
                    Ok(found) => {
                        let out = out.with_offset(found.offset).with_timestamp(found.timestamp);
                        if call.version >= 4 { out.with_leader_epoch(found.epoch) } else { out }
                    }
                }
            });
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions.collect())
        };
        request.topics.iter().filter(|topic| !topic.partitions.is_empty()).map(topic).collect()
    });
    ListOffsetsResponse::default().with_topics(topics)
}

fn lookup(call: &Call, replica: &Replica, timestamp: i64, committed: bool) -> Result<Found, i16> {
    let log = &replica.log;
    let limit = if committed { replica.last_stable() } else { replica.high_watermark };
    let newest = log.epochs().last().copied();
    let since = match timestamp {
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        timestamp if timestamp < LATEST_TIERED => i16::MAX,
        _ => 0,
    };
    if call.version < since {
        return Err(UNSUPPORTED_VERSION);
    }
    match timestamp {
        LATEST => {
            // A new leader whose high watermark is behind the start of its epoch does not know yet.
            if newest.is_some_and(|(_, start)| replica.high_watermark < start) {
                return Err(OFFSET_NOT_AVAILABLE);
            }
            Ok(Found { offset: limit, timestamp: -1, epoch: newest.map_or(-1, |(epoch, _)| epoch) })
        }
        EARLIEST | EARLIEST_LOCAL => {
            Ok(Found { offset: log.start(), timestamp: -1, epoch: log.epoch_at(log.start()) })
        }
        MAX_TIMESTAMP => Ok(newest_record(log, limit)),
        LATEST_TIERED => Ok(NOWHERE),
        timestamp => Ok(first_at(log, timestamp, limit)),
    }
}

/// Offset and timestamp of each record below `limit`, batches without a late enough record left out.
fn records(log: &Log, limit: i64, at_least: i64) -> impl Iterator<Item = Found> + '_ {
    log.batches()
        .iter()
        .take_while(move |stored| stored.head.base_offset < limit)
        .filter(move |stored| stored.head.max_timestamp >= at_least)
        .flat_map(|stored| {
            let head = stored.head;
            stored.records().into_iter().map(move |record| Found {
                offset: head.base_offset + i64::from(record.offset_delta),
                timestamp: if head.is_append_time() {
                    head.max_timestamp
                } else {
                    record.timestamp
                },
                epoch: head.leader_epoch,
            })
        })
        .filter(|found| found.offset >= log.start())
}

fn newest_record(log: &Log, limit: i64) -> Found {
    records(log, limit, i64::MIN)
        .fold(None::<Found>, |best, found| match best {
            Some(best) if best.timestamp >= found.timestamp => Some(best),
            _ => Some(found),
        })
        .unwrap_or(NOWHERE)
}

fn first_at(log: &Log, timestamp: i64, limit: i64) -> Found {
    records(log, limit, timestamp).find(|found| found.timestamp >= timestamp).unwrap_or(NOWHERE)
}

pub(crate) fn offset_for_leader_epoch(
    call: &Call,
    request: &OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let topics = call.cluster.with(|state| {
        let topic = |topic: &offset_for_leader_epoch_request::OffsetForLeaderTopic| {
            let partitions = topic.partitions.iter().map(|wanted| {
                let out = EpochEndOffset::default().with_partition(wanted.partition);
                match leading(
                    call,
                    state,
                    &topic.topic,
                    wanted.partition,
                    wanted.current_leader_epoch,
                ) {
                    Err(code) => {
                        out.with_error_code(code).with_leader_epoch(-1).with_end_offset(-1)
                    }
                    Ok(_) if wanted.leader_epoch < 0 => {
                        out.with_leader_epoch(-1).with_end_offset(-1)
                    }
                    Ok(replica) => {
                        let (epoch, end) = replica.log.end_of_epoch(wanted.leader_epoch);
                        out.with_leader_epoch(epoch).with_end_offset(end)
                    }
                }
            });
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic.clone())
                .with_partitions(partitions.collect())
        };
        request.topics.iter().map(topic).collect()
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics)
}

/// Every replica answers with its own state, leader or not.
pub(crate) fn describe_producers(
    call: &Call,
    request: &DescribeProducersRequest,
) -> DescribeProducersResponse {
    let topics = call.cluster.with(|state| {
        let topic = |topic: &describe_producers_request::TopicRequest| {
            let partitions = topic.partition_indexes.iter().map(|&index| {
                let out = PartitionResponse::default()
                    .with_partition_index(index)
                    .with_error_message(None);
                match producers(call, state, &topic.name, index) {
                    Err(code) => {
                        let wrong = check_name(&topic.name).err();
                        let wrong = wrong.filter(|_| code == UNKNOWN_TOPIC_OR_PARTITION);
                        if let Some((code, message)) = wrong {
                            return out
                                .with_error_code(code)
                                .with_error_message(Some(string(&message)));
                        }
                        // Of a topic that exists only the code is told.
                        let absent = !state.topics.contains_key(topic.name.as_str());
                        let message = text(code).filter(|_| absent);
                        out.with_error_code(code)
                            .with_error_message(message.map(StrBytes::from_static_str))
                    }
                    Ok(producers) => out.with_error_code(NONE).with_active_producers(producers),
                }
            });
            TopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions.collect())
        };
        request.topics.iter().map(topic).collect()
    });
    DescribeProducersResponse::default().with_topics(topics)
}

fn producers(
    call: &Call,
    state: &State,
    topic: &str,
    partition: i32,
) -> Result<Vec<ProducerState>, i16> {
    if let Some(code) = call.refused(topic, partition) {
        return Err(code);
    }
    let found = state.partition(topic, partition).ok_or(UNKNOWN_TOPIC_OR_PARTITION)?;
    let replica = found.replica(call.broker).ok_or(NOT_LEADER_OR_FOLLOWER)?;
    let producer = |(id, producer): (i64, &crate::producer_state::Producer)| {
        ProducerState::default()
            .with_producer_id(ProducerId(id))
            .with_producer_epoch(i32::from(producer.epoch))
            .with_last_sequence(producer.last_sequence())
            .with_last_timestamp(producer.last_timestamp)
            .with_coordinator_epoch(producer.coordinator_epoch)
            .with_current_txn_start_offset(producer.open_since.unwrap_or(-1))
    };
    Ok(replica.log.producers.iter().map(producer).collect())
}
