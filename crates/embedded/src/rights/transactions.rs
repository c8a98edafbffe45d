//! What producers need: WRITE on the transactional id, and more for what goes into a transaction.

use twinlog_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use twinlog_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use twinlog_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic;
use twinlog_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use twinlog_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use twinlog_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, DescribeTransactionsRequest, DescribeTransactionsResponse,
    EndTxnRequest, EndTxnResponse, InitProducerIdRequest, InitProducerIdResponse,
    ListTransactionsRequest, ListTransactionsResponse, ProducerId, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
    describe_transactions_response,
};

use super::acl::{Operation, Resource};
use super::gate::{Gate, Guarded, Verdict, take_refused};
use crate::code::{
    CLUSTER_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, OPERATION_NOT_ATTEMPTED,
    TOPIC_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
};

impl Guarded for InitProducerIdRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        let refusal = match &self.transactional_id {
            Some(id) if gate.on_transactional_id(Operation::Write, id) => return Verdict::Serve,
            Some(_) => TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            None if gate.on_cluster(Operation::IdempotentWrite)
                || gate.allows_some(Operation::Write, Resource::Topic) =>
            {
                return Verdict::Serve;
            }
            None => CLUSTER_AUTHORIZATION_FAILED,
        };
        let answer = InitProducerIdResponse::default().with_error_code(refusal);
        Verdict::Answer(answer.with_producer_id(ProducerId(-1)).with_producer_epoch(-1))
    }
}

fn results(
    topics: &[AddPartitionsToTxnTopic],
    code: impl Fn(&str, i32) -> i16,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let topic = |topic: &AddPartitionsToTxnTopic| {
        let partitions = topic.partitions.iter().map(|&partition| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(partition)
                .with_partition_error_code(code(&topic.name, partition))
        });
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.name.clone())
            .with_results_by_partition(partitions.collect())
    };
    topics.iter().map(topic).collect()
}

impl Guarded for AddPartitionsToTxnRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        let out = AddPartitionsToTxnResponse::default();
        if gate.version >= 4 {
            // Only brokers send these versions.
            if gate.on_cluster(Operation::ClusterAction) {
                return Verdict::Serve;
            }
            return Verdict::Answer(out.with_error_code(CLUSTER_AUTHORIZATION_FAILED));
        }
        let topics = &self.v3_and_below_topics;
        if !gate.on_transactional_id(Operation::Write, &self.v3_and_below_transactional_id) {
            let refused = results(topics, |_, _| TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
            return Verdict::Answer(out.with_results_by_topic_v3_and_below(refused));
        }
        let allowed = |topic: &str| gate.on_topic(Operation::Write, topic);
        if topics.iter().all(|topic| allowed(&topic.name)) {
            return Verdict::Serve;
        }
        // One refused partition, and none is added.
        let refused = results(topics, |topic, partition| {
            if !allowed(topic) {
                TOPIC_AUTHORIZATION_FAILED
            } else if gate.state.partition(topic, partition).is_none() {
                UNKNOWN_TOPIC_OR_PARTITION
            } else {
                OPERATION_NOT_ATTEMPTED
            }
        });
        Verdict::Answer(out.with_results_by_topic_v3_and_below(refused))
    }
}

impl Guarded for AddOffsetsToTxnRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        let refusal = if !gate.on_transactional_id(Operation::Write, &self.transactional_id) {
            TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        } else if gate.on_group(Operation::Read, &self.group_id) {
            return Verdict::Serve;
        } else {
            GROUP_AUTHORIZATION_FAILED
        };
        Verdict::Answer(AddOffsetsToTxnResponse::default().with_error_code(refusal))
    }
}

impl Guarded for EndTxnRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        if gate.on_transactional_id(Operation::Write, &self.transactional_id) {
            return Verdict::Serve;
        }
        let answer =
            EndTxnResponse::default().with_error_code(TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        Verdict::Answer(answer)
    }
}

fn uncommitted(topic: TxnOffsetCommitRequestTopic, code: i16) -> TxnOffsetCommitResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| {
        TxnOffsetCommitResponsePartition::default()
            .with_partition_index(partition.partition_index)
            .with_error_code(code)
    });
    let partitions = partitions.collect();
    TxnOffsetCommitResponseTopic::default().with_name(topic.name).with_partitions(partitions)
}

impl Guarded for TxnOffsetCommitRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        let all = if !gate.on_transactional_id(Operation::Write, &self.transactional_id) {
            Some(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        } else if !gate.on_group(Operation::Read, &self.group_id) {
            Some(GROUP_AUTHORIZATION_FAILED)
        } else {
            None
        };
        if let Some(code) = all {
            let topics = self.topics.drain(..).map(|topic| uncommitted(topic, code)).collect();
            return Verdict::Answer(TxnOffsetCommitResponse::default().with_topics(topics));
        }
        let refused =
            take_refused(&mut self.topics, |topic| gate.on_topic(Operation::Read, &topic.name));
        Verdict::add(
            refused,
            |topic| uncommitted(topic, TOPIC_AUTHORIZATION_FAILED),
            |response: &mut TxnOffsetCommitResponse| &mut response.topics,
        )
    }
}

impl Guarded for WriteTxnMarkersRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        if gate.on_cluster(Operation::ClusterAction) || gate.on_cluster(Operation::Alter) {
            return Verdict::Serve;
        }
        let markers = self.markers.iter().map(|marker| {
            let topics = marker.topics.iter().map(|topic| {
                let partitions = topic.partition_indexes.iter().map(|&partition| {
                    WritableTxnMarkerPartitionResult::default()
                        .with_partition_index(partition)
                        .with_error_code(CLUSTER_AUTHORIZATION_FAILED)
                });
                WritableTxnMarkerTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            WritableTxnMarkerResult::default()
                .with_producer_id(marker.producer_id)
                .with_topics(topics.collect())
        });
        Verdict::Answer(WriteTxnMarkersResponse::default().with_markers(markers.collect()))
    }
}

impl Guarded for DescribeTransactionsRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        let refused = take_refused(&mut self.transactional_ids, |id| {
            gate.on_transactional_id(Operation::Describe, id)
        });
        let refused: Vec<_> = refused
            .into_iter()
            .map(|id| {
                describe_transactions_response::TransactionState::default()
                    .with_transactional_id(id)
                    .with_error_code(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            })
            .collect();
        Verdict::amend(move |response: &mut DescribeTransactionsResponse, gate| {
            // Partitions of topics that the caller may not see are left out.
            for state in &mut response.transaction_states {
                state.topics.retain(|topic| gate.on_topic(Operation::Describe, &topic.topic));
            }
            response.transaction_states.extend(refused);
        })
    }
}

impl Guarded for ListTransactionsRequest {
    fn guard(&mut self, _: &Gate<'_>) -> Verdict<Self> {
        Verdict::amend(|response: &mut ListTransactionsResponse, gate| {
            response.transaction_states.retain(|state| {
                gate.on_transactional_id(Operation::Describe, &state.transactional_id)
            });
        })
    }
}
