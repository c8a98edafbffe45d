//! `DescribeTransactions`, `ListTransactions`, `WriteTxnMarkers`.

use twinlog_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use twinlog_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use twinlog_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, ListTransactionsRequest,
    ListTransactionsResponse, ProducerId, StrBytes, TransactionalId, WriteTxnMarkersRequest,
    WriteTxnMarkersResponse, list_transactions_response, string, topic_name,
    write_txn_markers_request,
};

use super::offsets::leading;
use crate::code::{
    INVALID_REGULAR_EXPRESSION, INVALID_REQUEST, NONE, TRANSACTIONAL_ID_NOT_FOUND,
    UNKNOWN_SERVER_ERROR,
};
use crate::codec;
use crate::offsets_topic::OFFSETS_TOPIC;
use crate::patterns;
use crate::server::Call;
use crate::state::{State, slot};
use crate::transactions::{Stage, Transaction, code_of};

const STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
];

fn word(stage: Stage) -> &'static str {
    match stage {
        Stage::Empty => "Empty",
        Stage::Ongoing => "Ongoing",
        Stage::Prepared { commit: true } => "PrepareCommit",
        Stage::Prepared { commit: false } => "PrepareAbort",
        Stage::Complete { commit: true } => "CompleteCommit",
        Stage::Complete { commit: false } => "CompleteAbort",
    }
}

pub(crate) fn describe_transactions(
    call: &Call,
    request: &DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let states = call.cluster.with(|state| {
        request.transactional_ids.iter().map(|id| described(call, state, id)).collect()
    });
    DescribeTransactionsResponse::default().with_transaction_states(states)
}

fn described(call: &Call, state: &State, id: &TransactionalId) -> TransactionState {
    let out = TransactionState::default().with_transactional_id(id.clone());
    let ready =
        call.refused("", -1).map_or_else(|| state.coordinates_transaction(id, call.broker), Err);
    if ready.is_err() {
        return out.with_error_code(code_of(&ready));
    }
    if id.is_empty() {
        return out.with_error_code(INVALID_REQUEST);
    }
    let Some(found) = state.transactions.get(id.as_str()) else {
        return out.with_error_code(TRANSACTIONAL_ID_NOT_FOUND);
    };
    let mut topics: Vec<TopicData> = Vec::new();
    for (topic, partition) in partitions(found) {
        match topics.last_mut().filter(|known| known.topic.as_str() == topic) {
            Some(known) => known.partitions.push(partition),
            None => topics.push(
                TopicData::default()
                    .with_topic(topic_name(&topic))
                    .with_partitions(vec![partition]),
            ),
        }
    }
    out.with_transaction_state(StrBytes::from_static_str(word(found.stage)))
        .with_transaction_timeout_ms(found.timeout.as_millis() as i32)
        .with_transaction_start_time_ms(found.started_ms)
        .with_producer_id(ProducerId(found.producer_id))
        .with_producer_epoch(found.epoch)
        .with_topics(topics)
}

/// The partitions of a transaction, with those that hold the commits of its groups.
fn partitions(found: &Transaction) -> Vec<(String, i32)> {
    let mut all = found.partitions.clone();
    all.extend(found.groups.iter().map(|group| (OFFSETS_TOPIC.to_owned(), slot(group) as i32)));
    all.into_iter().collect()
}

pub(crate) fn list_transactions(
    call: &Call,
    request: &ListTransactionsRequest,
) -> ListTransactionsResponse {
    let out = ListTransactionsResponse::default();
    if let Some(code) = call.refused("", -1) {
        return out.with_error_code(code);
    }
    let wanted = |word: &str| request.state_filters.iter().any(|state| state.as_str() == word);
    let unknown: Vec<StrBytes> = request
        .state_filters
        .iter()
        .filter(|state| !STATES.contains(&state.as_str()))
        .cloned()
        .collect();
    let pattern = request.transactional_id_pattern.as_deref().filter(|text| !text.is_empty());
    let Ok(pattern) = pattern.map(patterns::whole).transpose() else {
        return out.with_error_code(INVALID_REGULAR_EXPRESSION);
    };
    let listed = call.cluster.with(|state| {
        let now_ms = state.now_ms();
        let mine = state
            .transactions
            .iter()
            .filter(|(id, _)| state.transaction_coordinator(id).broker == call.broker);
        mine.filter(|(id, found)| {
            let ids = &request.producer_id_filters;
            // What has not begun has been there for ever: Kafka reckons from -1.
            let lasts = request.duration_filter < 0
                || call.version < 1
                || now_ms - found.started_ms > request.duration_filter;
            (request.state_filters.is_empty() || wanted(word(found.stage)))
                && (ids.is_empty() || ids.contains(&ProducerId(found.producer_id)))
                && lasts
                && pattern.as_ref().is_none_or(|pattern| pattern.is_match(id.as_str()))
        })
        .map(|(id, found)| {
            list_transactions_response::TransactionState::default()
                .with_transactional_id(TransactionalId(string(id)))
                .with_producer_id(ProducerId(found.producer_id))
                .with_transaction_state(StrBytes::from_static_str(word(found.stage)))
        })
        .collect()
    });
    out.with_error_code(NONE).with_unknown_state_filters(unknown).with_transaction_states(listed)
}

/// Markers are written as they come: no sequence, no memory of what was asked before.
pub(crate) fn write_txn_markers(
    call: &Call,
    request: &WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse {
    let markers = call.cluster.with(|state| {
        let mut results: Vec<WritableTxnMarkerResult> = Vec::new();
        for marker in &request.markers {
            let mut topics = Vec::new();
            for topic in &marker.topics {
                let mut partitions = Vec::new();
                for &partition in &topic.partition_indexes {
                    let result = write_marker(call, state, marker, &topic.name, partition);
                    partitions.push(
                        WritableTxnMarkerPartitionResult::default()
                            .with_partition_index(partition)
                            .with_error_code(code_of(&result)),
                    );
                }
                topics.push(
                    WritableTxnMarkerTopicResult::default()
                        .with_name(topic.name.clone())
                        .with_partitions(partitions),
                );
            }
            // Kafka gathers results by producer: of several markers for one, the last one answers.
            results.retain(|known| known.producer_id != marker.producer_id);
            results.push(
                WritableTxnMarkerResult::default()
                    .with_producer_id(marker.producer_id)
                    .with_topics(topics),
            );
        }
        results
    });
    WriteTxnMarkersResponse::default().with_markers(markers)
}

fn write_marker(
    call: &Call,
    state: &mut State,
    marker: &write_txn_markers_request::WritableTxnMarker,
    topic: &str,
    partition: i32,
) -> Result<(), i16> {
    let (producer_id, epoch) = (marker.producer_id.0, marker.producer_epoch);
    let leader_epoch = leading(call, state, topic, partition, -1)?.epoch;
    let now_ms = state.now_ms();
    let found = state
        .partition_mut(topic, partition)
        .and_then(|found| found.replica_mut(call.broker))
        .ok_or(UNKNOWN_SERVER_ERROR)?;
    if epoch < 0 && found.log.producers.get(producer_id).is_none() {
        return Err(UNKNOWN_SERVER_ERROR);
    }
    found.log.producers.judge_marker(producer_id, epoch, marker.coordinator_epoch)?;
    let commit = marker.transaction_result;
    let batch = codec::marker(commit, producer_id, epoch, marker.coordinator_epoch, now_ms);
    found.log.append(&batch, leader_epoch);
    state.replicate(topic, partition);
    if topic == OFFSETS_TOPIC {
        let groups: Vec<String> =
            state.groups.keys().filter(|group| slot(group) as i32 == partition).cloned().collect();
        for group in groups {
            state.settle_pending_commits(&group, producer_id, commit);
        }
    }
    Ok(())
}
