//! What a request names: for the request log, and for faults that are meant for one partition.

use twinlog_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AlterClientQuotasRequest,
    AlterConfigsRequest, AlterPartitionReassignmentsRequest, AlterShareGroupOffsetsRequest,
    ApiVersionsRequest, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest,
    CreateAclsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteAclsRequest,
    DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeAclsRequest,
    DescribeClientQuotasRequest, DescribeClusterRequest, DescribeConfigsRequest,
    DescribeGroupsRequest, DescribeLogDirsRequest, DescribeProducersRequest, DescribeQuorumRequest,
    DescribeShareGroupOffsetsRequest, DescribeTopicPartitionsRequest, DescribeTransactionsRequest,
    ElectLeadersRequest, EndTxnRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest,
    ListConfigResourcesRequest, ListGroupsRequest, ListOffsetsRequest,
    ListPartitionReassignmentsRequest, ListTransactionsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest,
    ProduceRequest, SaslAuthenticateRequest, SaslHandshakeRequest, SyncGroupRequest, TopicName,
    TxnOffsetCommitRequest, Uuid, WriteTxnMarkersRequest,
};

use super::id;
use crate::state::State;

/// Partitions, and groups or transactional ids.
type Named = (Vec<(String, i32)>, Vec<String>);

/// A request that may name partitions, topics (partition -1), groups or transactional ids.
pub(crate) trait Mentions: twinlog_protocol::Request {
    /// What it names, topic ids resolved.
    fn mentions(&self, state: &State) -> Named {
        let _ = state;
        Named::default()
    }
}

fn name(state: &State, name: &TopicName, uuid: Uuid) -> String {
    state.resolve(name, id(uuid)).unwrap_or_else(|_| name.to_string())
}

fn only(names: impl IntoIterator<Item = String>) -> Named {
    (Vec::new(), names.into_iter().collect())
}

impl Mentions for ApiVersionsRequest {}
impl Mentions for DescribeClusterRequest {}
impl Mentions for ListGroupsRequest {}
impl Mentions for DescribeClientQuotasRequest {}
impl Mentions for AlterClientQuotasRequest {}
impl Mentions for DescribeLogDirsRequest {}
impl Mentions for DescribeQuorumRequest {}
impl Mentions for ListConfigResourcesRequest {}
impl Mentions for ListPartitionReassignmentsRequest {}
impl Mentions for ListTransactionsRequest {}
impl Mentions for DescribeAclsRequest {}
impl Mentions for SaslAuthenticateRequest {}

impl Mentions for MetadataRequest {
    fn mentions(&self, state: &State) -> Named {
        let topics = self.topics.iter().flatten().map(|topic| {
            let known = topic.name.clone().unwrap_or_default();
            (name(state, &known, topic.topic_id), -1)
        });
        (topics.collect(), Vec::new())
    }
}

impl Mentions for ProduceRequest {
    fn mentions(&self, state: &State) -> Named {
        let partitions = self.topic_data.iter().flat_map(|topic| {
            let name = name(state, &topic.name, topic.topic_id);
            topic.partition_data.iter().map(move |partition| (name.clone(), partition.index))
        });
        (partitions.collect(), self.transactional_id.iter().map(|id| id.to_string()).collect())
    }
}

impl Mentions for FetchRequest {
    fn mentions(&self, state: &State) -> Named {
        let partitions = self.topics.iter().flat_map(|topic| {
            let name = name(state, &topic.topic, topic.topic_id);
            topic.partitions.iter().map(move |partition| (name.clone(), partition.partition))
        });
        (partitions.collect(), Vec::new())
    }
}

macro_rules! by_name {
    ($($request:ty: $topics:ident, $name:ident, $partitions:ident, |$partition:ident| $index:expr;)*) => {
        $(
            impl Mentions for $request {
                fn mentions(&self, _: &State) -> Named {
                    let partitions = self.$topics.iter().flat_map(|topic| {
                        topic.$partitions.iter().map(|$partition| (topic.$name.to_string(), $index))
                    });
                    (partitions.collect(), Vec::new())
                }
            }
        )*
    };
}

by_name! {
    ListOffsetsRequest: topics, name, partitions, |partition| partition.partition_index;
    OffsetForLeaderEpochRequest: topics, topic, partitions, |partition| partition.partition;
    DescribeProducersRequest: topics, name, partition_indexes, |partition| *partition;
    DeleteRecordsRequest: topics, name, partitions, |partition| partition.partition_index;
    AlterPartitionReassignmentsRequest: topics, name, partitions, |partition| partition.partition_index;
}

macro_rules! group_partitions {
    ($($request:ty: $id:ident;)*) => {
        $(
            impl Mentions for $request {
                fn mentions(&self, _: &State) -> Named {
                    let partitions = self.topics.iter().flat_map(|topic| {
                        let name = topic.name.to_string();
                        topic.partitions.iter().map(move |partition| (name.clone(), partition.partition_index))
                    });
                    (partitions.collect(), vec![self.$id.to_string()])
                }
            }
        )*
    };
}

group_partitions! {
    OffsetCommitRequest: group_id;
    OffsetDeleteRequest: group_id;
    TxnOffsetCommitRequest: group_id;
}

impl Mentions for OffsetFetchRequest {
    fn mentions(&self, _: &State) -> Named {
        if self.groups.is_empty() {
            return only([self.group_id.to_string()]);
        }
        only(self.groups.iter().map(|group| group.group_id.to_string()))
    }
}

impl Mentions for AlterShareGroupOffsetsRequest {
    fn mentions(&self, _: &State) -> Named {
        let partitions = self.topics.iter().flat_map(|topic| {
            let name = topic.topic_name.to_string();
            topic.partitions.iter().map(move |partition| (name.clone(), partition.partition_index))
        });
        (partitions.collect(), vec![self.group_id.to_string()])
    }
}

macro_rules! by_topic {
    ($($request:ty: $topics:ident, $name:ident;)*) => {
        $(
            impl Mentions for $request {
                fn mentions(&self, _: &State) -> Named {
                    (self.$topics.iter().map(|topic| (topic.$name.to_string(), -1)).collect(), Vec::new())
                }
            }
        )*
    };
}

by_topic! {
    CreateTopicsRequest: topics, name;
    CreatePartitionsRequest: topics, name;
    DescribeTopicPartitionsRequest: topics, name;
    AlterConfigsRequest: resources, resource_name;
    DescribeConfigsRequest: resources, resource_name;
    IncrementalAlterConfigsRequest: resources, resource_name;
}

impl Mentions for ElectLeadersRequest {
    fn mentions(&self, _: &State) -> Named {
        let partitions = self.topic_partitions.iter().flatten().flat_map(|topic| {
            topic.partitions.iter().map(|&partition| (topic.topic.to_string(), partition))
        });
        (partitions.collect(), Vec::new())
    }
}

impl Mentions for WriteTxnMarkersRequest {
    fn mentions(&self, _: &State) -> Named {
        let topics = self.markers.iter().flat_map(|marker| &marker.topics);
        let partitions = topics.flat_map(|topic| {
            topic.partition_indexes.iter().map(|&partition| (topic.name.to_string(), partition))
        });
        (partitions.collect(), Vec::new())
    }
}

impl Mentions for DeleteTopicsRequest {
    fn mentions(&self, state: &State) -> Named {
        let by_name = self.topic_names.iter().map(|name| (name.to_string(), -1));
        let by_id = self.topics.iter().map(|topic| {
            let known = topic.name.clone().unwrap_or_default();
            (name(state, &known, topic.topic_id), -1)
        });
        (by_name.chain(by_id).collect(), Vec::new())
    }
}

macro_rules! by_id {
    ($($request:ty: |$it:ident| $names:expr;)*) => {
        $(
            impl Mentions for $request {
                fn mentions(&self, _: &State) -> Named {
                    let $it = self;
                    only($names)
                }
            }
        )*
    };
}

by_id! {
    FindCoordinatorRequest: |it| {
        let one = (it.coordinator_keys.is_empty()).then(|| it.key.to_string());
        one.into_iter().chain(it.coordinator_keys.iter().map(std::string::ToString::to_string)).collect::<Vec<_>>()
    };
    CreateAclsRequest: |it| it.creations.iter().map(|acl| acl.resource_name.to_string());
    DeleteAclsRequest: |it| it.filters.iter().filter_map(|acl| Some(acl.resource_name_filter.as_ref()?.to_string()));
    SaslHandshakeRequest: |it| [it.mechanism.to_string()];
    InitProducerIdRequest: |it| it.transactional_id.iter().map(|id| id.to_string());
    AddPartitionsToTxnRequest: |it| {
        let one = (it.transactions.is_empty()).then(|| it.v3_and_below_transactional_id.to_string());
        one.into_iter().chain(it.transactions.iter().map(|one| one.transactional_id.to_string())).collect::<Vec<_>>()
    };
    AddOffsetsToTxnRequest: |it| [it.transactional_id.to_string(), it.group_id.to_string()];
    DescribeTransactionsRequest: |it| it.transactional_ids.iter().map(|id| id.to_string());
    EndTxnRequest: |it| [it.transactional_id.to_string()];
    DescribeGroupsRequest: |it| it.groups.iter().map(|group| group.to_string());
    ConsumerGroupHeartbeatRequest: |it| [it.group_id.to_string()];
    ConsumerGroupDescribeRequest: |it| it.group_ids.iter().map(|group| group.to_string());
    DescribeShareGroupOffsetsRequest: |it| it.groups.iter().map(|group| group.group_id.to_string());
    DeleteGroupsRequest: |it| it.groups_names.iter().map(|group| group.to_string());
    JoinGroupRequest: |it| [it.group_id.to_string()];
    SyncGroupRequest: |it| [it.group_id.to_string()];
    HeartbeatRequest: |it| [it.group_id.to_string()];
    LeaveGroupRequest: |it| [it.group_id.to_string()];
}
