//! `InitProducerId`, `AddPartitionsToTxn`, `AddOffsetsToTxn`, `TxnOffsetCommit`, `EndTxn`.

use std::time::Duration;

use twinlog_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use twinlog_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use twinlog_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use twinlog_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse, ProducerId, TransactionalId, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
};

use crate::code::{
    INVALID_PRODUCER_EPOCH, INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, INVALID_TXN_STATE, NONE,
    OPERATION_NOT_ATTEMPTED, PRODUCER_FENCED, UNKNOWN_TOPIC_OR_PARTITION,
};
use crate::groups::Committer;
use crate::server::Call;
use crate::state::State;
use crate::transactions::{Stage, code_of};

/// `transaction.max.timeout.ms`.
const TIMEOUT_MS_MAX: i32 = 900_000;

/// Older clients do not know the code of a fenced producer, and get the one for a wrong epoch.
fn for_version(code: i16, version: i16, first_with_fencing: i16) -> i16 {
    if code == PRODUCER_FENCED && version < first_with_fencing {
        INVALID_PRODUCER_EPOCH
    } else {
        code
    }
}

/// An empty transactional id is none.
fn named(transactional_id: &TransactionalId) -> Result<(), i16> {
    if transactional_id.is_empty() { Err(INVALID_REQUEST) } else { Ok(()) }
}

pub(crate) fn init_producer_id(
    call: &Call,
    request: &InitProducerIdRequest,
) -> InitProducerIdResponse {
    let result = call.cluster.with(|state| init(call, state, request));
    let out = InitProducerIdResponse::default();
    match result {
        Ok((producer_id, epoch)) => out
            .with_error_code(call.disowned("", -1).unwrap_or(NONE))
            .with_producer_id(ProducerId(producer_id))
            .with_producer_epoch(epoch),
        Err(code) => out
            .with_error_code(for_version(code, call.version, 4))
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1),
    }
}

fn init(
    call: &Call,
    state: &mut State,
    request: &InitProducerIdRequest,
) -> Result<(i64, i16), i16> {
    if let Some(code) = call.refused("", -1) {
        return Err(code);
    }
    // Before version 3 the request carries neither.
    if (request.producer_id.0 == -1) != (request.producer_epoch == -1) {
        return Err(INVALID_REQUEST);
    }
    let Some(transactional_id) = &request.transactional_id else {
        // Always a new id, whatever the request says it had.
        return Ok((state.new_producer_id(), 0));
    };
    named(transactional_id)?;
    state.coordinates_transaction(transactional_id, call.broker)?;
    if request.transaction_timeout_ms <= 0 || request.transaction_timeout_ms > TIMEOUT_MS_MAX {
        return Err(INVALID_TRANSACTION_TIMEOUT);
    }
    let timeout = Duration::from_millis(u64::try_from(request.transaction_timeout_ms).unwrap_or(0));
    let known = (call.version >= 3 && request.producer_id.0 >= 0)
        .then_some((request.producer_id.0, request.producer_epoch));
    state.init_transactional(transactional_id, timeout, known)
}

/// One transaction of the request, in the words of either version.
struct Adding<'a> {
    transactional_id: &'a TransactionalId,
    producer_id: i64,
    epoch: i16,
    verify_only: bool,
    topics: &'a [AddPartitionsToTxnTopic],
}

pub(crate) fn add_partitions_to_txn(
    call: &Call,
    request: &AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let out = AddPartitionsToTxnResponse::default();
    if call.version < 4 {
        let adding = Adding {
            transactional_id: &request.v3_and_below_transactional_id,
            producer_id: request.v3_and_below_producer_id.0,
            epoch: request.v3_and_below_producer_epoch,
            verify_only: false,
            topics: &request.v3_and_below_topics,
        };
        let results = call.cluster.with(|state| add(call, state, &adding));
        return out.with_results_by_topic_v3_and_below(results);
    }
    let results = call.cluster.with(|state| {
        let mut results = Vec::new();
        for transaction in &request.transactions {
            let adding = Adding {
                transactional_id: &transaction.transactional_id,
                producer_id: transaction.producer_id.0,
                epoch: transaction.producer_epoch,
                verify_only: transaction.verify_only,
                topics: &transaction.topics,
            };
            results.push(
                AddPartitionsToTxnResult::default()
                    .with_transactional_id(transaction.transactional_id.clone())
                    .with_topic_results(add(call, state, &adding)),
            );
        }
        results
    });
    out.with_results_by_transaction(results)
}

fn add(call: &Call, state: &mut State, adding: &Adding<'_>) -> Vec<AddPartitionsToTxnTopicResult> {
    let partitions: Vec<(String, i32)> = adding
        .topics
        .iter()
        .flat_map(|topic| {
            topic.partitions.iter().map(|&partition| (topic.name.to_string(), partition))
        })
        .collect();
    let unknown: Vec<bool> = partitions
        .iter()
        .map(|(topic, partition)| state.partition(topic, *partition).is_none())
        .collect();
    let all = if let Some(code) = call.refused("", -1) {
        code
    } else if let Err(code) = state.coordinates_transaction(adding.transactional_id, call.broker) {
        code
    } else if unknown.contains(&true) {
        OPERATION_NOT_ATTEMPTED
    } else {
        for_version(code_of(&added(state, adding, &partitions)), call.version, 2)
    };
    let mut codes = unknown.into_iter().map(|unknown| {
        if unknown && all == OPERATION_NOT_ATTEMPTED { UNKNOWN_TOPIC_OR_PARTITION } else { all }
    });
    let topic = |topic: &AddPartitionsToTxnTopic| {
        let results = topic.partitions.iter().zip(codes.by_ref()).map(|(&partition, code)| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(partition)
                .with_partition_error_code(code)
        });
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.name.clone())
            .with_results_by_partition(results.collect())
    };
    adding.topics.iter().map(topic).collect()
}

fn added(state: &mut State, adding: &Adding<'_>, partitions: &[(String, i32)]) -> Result<(), i16> {
    named(adding.transactional_id)?;
    if !adding.verify_only {
        return state.add_to_transaction(
            adding.transactional_id,
            adding.producer_id,
            adding.epoch,
            partitions,
            None,
        );
    }
    let found = state.owned(adding.transactional_id, adding.producer_id, adding.epoch)?;
    let inside = found.stage == Stage::Ongoing
        && partitions.iter().all(|wanted| found.partitions.contains(wanted));
    if inside { Ok(()) } else { Err(INVALID_TXN_STATE) }
}

pub(crate) fn add_offsets_to_txn(
    call: &Call,
    request: &AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    let result = call.cluster.with(|state| {
        if let Some(code) = call.refused("", -1) {
            return Err(code);
        }
        named(&request.transactional_id)?;
        state.coordinates_transaction(&request.transactional_id, call.broker)?;
        let group = Some(request.group_id.as_str());
        state.add_to_transaction(
            &request.transactional_id,
            request.producer_id.0,
            request.producer_epoch,
            &[],
            group,
        )
    });
    AddOffsetsToTxnResponse::default().with_error_code(for_version(
        code_of(&result),
        call.version,
        2,
    ))
}

pub(crate) fn txn_offset_commit(
    call: &Call,
    request: &TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let who = Committer {
        generation: request.generation_id,
        member: &request.member_id,
        instance: request.group_instance_id.as_deref(),
        version: None,
    };
    let topics = call.cluster.with(|state| {
        let all = pending(call, state, request).err();
        let mut topics = Vec::new();
        let mut accepted = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let index = partition.partition_index;
                let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
                let result = match all {
                    Some(code) => Err(code),
                    None => {
                        state.may_commit(&request.group_id, &who, (&topic.name, index), metadata)
                    }
                };
                if result.is_ok() {
                    let (offset, epoch) =
                        (partition.committed_offset, partition.committed_leader_epoch);
                    let committed = state.committing(offset, epoch, metadata);
                    accepted.push(((topic.name.to_string(), index), committed));
                }
                partitions.push(
                    TxnOffsetCommitResponsePartition::default()
                        .with_partition_index(index)
                        .with_error_code(code_of(&result)),
                );
            }
            topics.push(
                TxnOffsetCommitResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions),
            );
        }
        let producer = (request.producer_id.0, request.producer_epoch);
        state.store_pending(&request.group_id, producer, accepted);
        topics
    });
    TxnOffsetCommitResponse::default().with_topics(topics)
}

/// Whether a producer may commit offsets in its transaction. From version 5 on the broker takes the
/// group into the transaction itself.
fn pending(call: &Call, state: &mut State, request: &TxnOffsetCommitRequest) -> Result<(), i16> {
    let fenced = |code| if code == PRODUCER_FENCED { INVALID_PRODUCER_EPOCH } else { code };
    state.coordinates_group(&request.group_id, call.broker)?;
    let (producer_id, epoch) = (request.producer_id.0, request.producer_epoch);
    if call.version >= 5 {
        let group = Some(request.group_id.as_str());
        return state
            .add_to_transaction(&request.transactional_id, producer_id, epoch, &[], group)
            .map_err(fenced);
    }
    let found = state.owned(&request.transactional_id, producer_id, epoch).map_err(fenced)?;
    let inside = found.stage == Stage::Ongoing && found.groups.contains(request.group_id.as_str());
    if inside { Ok(()) } else { Err(INVALID_TXN_STATE) }
}

pub(crate) fn end_txn(call: &Call, request: &EndTxnRequest) -> EndTxnResponse {
    let result = call.cluster.with(|state| {
        if let Some(code) = call.refused("", -1) {
            return Err(code);
        }
        named(&request.transactional_id)?;
        state.coordinates_transaction(&request.transactional_id, call.broker)?;
        let new_epoch = call.version >= 5 && state.options.version.transaction_version_2();
        state.end_transaction(
            &request.transactional_id,
            request.producer_id.0,
            request.producer_epoch,
            request.committed,
            new_epoch,
        )
    });
    let out = EndTxnResponse::default().with_error_code(
        call.disowned("", -1).unwrap_or(for_version(code_of(&result), call.version, 2)),
    );
    match result {
        Ok((producer_id, epoch)) if call.version >= 5 => {
            out.with_producer_id(ProducerId(producer_id)).with_producer_epoch(epoch)
        }
        _ => out,
    }
}
