//! The message structs, one module per request and per answer for the structs inside them
//! (`messages::fetch_response::PartitionData`), and the types of their fields.
//!
//! Whatever is reachable from here is all that the other crates use of the codec library.

pub use kafka_protocol::messages::{
    BrokerId, GroupId, ProducerId, RequestHeader, ResponseHeader, TopicName, TransactionalId,
};
/// A string field: a slice of the frame it was decoded from.
pub use kafka_protocol::protocol::StrBytes;
/// The type of topic ids and member ids (see [`topic_id`] and [`topic_uuid`]).
pub use uuid::Uuid;

use twinlog_types::TopicId;

/// A topic id as the message structs carry it.
pub fn topic_uuid(id: TopicId) -> Uuid {
    Uuid::from_bytes(id.0)
}

/// A topic id that a message struct carried.
pub fn topic_id(uuid: Uuid) -> TopicId {
    TopicId(uuid.into_bytes())
}

/// A string field with `text` in it.
pub fn string(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// A topic name field with `text` in it.
pub fn topic_name(text: &str) -> TopicName {
    TopicName(string(text))
}

macro_rules! reexport {
    ($($request_mod:ident::$request:ident, $response_mod:ident::$response:ident;)*) => {
        $(
            pub use kafka_protocol::messages::{$request_mod, $response_mod, $request, $response};
        )*
    };
}

reexport! {
    produce_request::ProduceRequest, produce_response::ProduceResponse;
    fetch_request::FetchRequest, fetch_response::FetchResponse;
    list_offsets_request::ListOffsetsRequest, list_offsets_response::ListOffsetsResponse;
    metadata_request::MetadataRequest, metadata_response::MetadataResponse;
    offset_commit_request::OffsetCommitRequest, offset_commit_response::OffsetCommitResponse;
    offset_fetch_request::OffsetFetchRequest, offset_fetch_response::OffsetFetchResponse;
    find_coordinator_request::FindCoordinatorRequest, find_coordinator_response::FindCoordinatorResponse;
    join_group_request::JoinGroupRequest, join_group_response::JoinGroupResponse;
    heartbeat_request::HeartbeatRequest, heartbeat_response::HeartbeatResponse;
    leave_group_request::LeaveGroupRequest, leave_group_response::LeaveGroupResponse;
    sync_group_request::SyncGroupRequest, sync_group_response::SyncGroupResponse;
    describe_groups_request::DescribeGroupsRequest, describe_groups_response::DescribeGroupsResponse;
    list_groups_request::ListGroupsRequest, list_groups_response::ListGroupsResponse;
    sasl_handshake_request::SaslHandshakeRequest, sasl_handshake_response::SaslHandshakeResponse;
    api_versions_request::ApiVersionsRequest, api_versions_response::ApiVersionsResponse;
    create_topics_request::CreateTopicsRequest, create_topics_response::CreateTopicsResponse;
    delete_topics_request::DeleteTopicsRequest, delete_topics_response::DeleteTopicsResponse;
    delete_records_request::DeleteRecordsRequest, delete_records_response::DeleteRecordsResponse;
    init_producer_id_request::InitProducerIdRequest, init_producer_id_response::InitProducerIdResponse;
    offset_for_leader_epoch_request::OffsetForLeaderEpochRequest, offset_for_leader_epoch_response::OffsetForLeaderEpochResponse;
    add_partitions_to_txn_request::AddPartitionsToTxnRequest, add_partitions_to_txn_response::AddPartitionsToTxnResponse;
    add_offsets_to_txn_request::AddOffsetsToTxnRequest, add_offsets_to_txn_response::AddOffsetsToTxnResponse;
    end_txn_request::EndTxnRequest, end_txn_response::EndTxnResponse;
    write_txn_markers_request::WriteTxnMarkersRequest, write_txn_markers_response::WriteTxnMarkersResponse;
    txn_offset_commit_request::TxnOffsetCommitRequest, txn_offset_commit_response::TxnOffsetCommitResponse;
    describe_acls_request::DescribeAclsRequest, describe_acls_response::DescribeAclsResponse;
    create_acls_request::CreateAclsRequest, create_acls_response::CreateAclsResponse;
    delete_acls_request::DeleteAclsRequest, delete_acls_response::DeleteAclsResponse;
    describe_configs_request::DescribeConfigsRequest, describe_configs_response::DescribeConfigsResponse;
    alter_configs_request::AlterConfigsRequest, alter_configs_response::AlterConfigsResponse;
    describe_log_dirs_request::DescribeLogDirsRequest, describe_log_dirs_response::DescribeLogDirsResponse;
    sasl_authenticate_request::SaslAuthenticateRequest, sasl_authenticate_response::SaslAuthenticateResponse;
    create_partitions_request::CreatePartitionsRequest, create_partitions_response::CreatePartitionsResponse;
    delete_groups_request::DeleteGroupsRequest, delete_groups_response::DeleteGroupsResponse;
    elect_leaders_request::ElectLeadersRequest, elect_leaders_response::ElectLeadersResponse;
    incremental_alter_configs_request::IncrementalAlterConfigsRequest, incremental_alter_configs_response::IncrementalAlterConfigsResponse;
    alter_partition_reassignments_request::AlterPartitionReassignmentsRequest, alter_partition_reassignments_response::AlterPartitionReassignmentsResponse;
    list_partition_reassignments_request::ListPartitionReassignmentsRequest, list_partition_reassignments_response::ListPartitionReassignmentsResponse;
    offset_delete_request::OffsetDeleteRequest, offset_delete_response::OffsetDeleteResponse;
    describe_client_quotas_request::DescribeClientQuotasRequest, describe_client_quotas_response::DescribeClientQuotasResponse;
    alter_client_quotas_request::AlterClientQuotasRequest, alter_client_quotas_response::AlterClientQuotasResponse;
    describe_quorum_request::DescribeQuorumRequest, describe_quorum_response::DescribeQuorumResponse;
    list_config_resources_request::ListConfigResourcesRequest, list_config_resources_response::ListConfigResourcesResponse;
    describe_cluster_request::DescribeClusterRequest, describe_cluster_response::DescribeClusterResponse;
    describe_producers_request::DescribeProducersRequest, describe_producers_response::DescribeProducersResponse;
    describe_transactions_request::DescribeTransactionsRequest, describe_transactions_response::DescribeTransactionsResponse;
    list_transactions_request::ListTransactionsRequest, list_transactions_response::ListTransactionsResponse;
    consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest, consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
    consumer_group_describe_request::ConsumerGroupDescribeRequest, consumer_group_describe_response::ConsumerGroupDescribeResponse;
    describe_topic_partitions_request::DescribeTopicPartitionsRequest, describe_topic_partitions_response::DescribeTopicPartitionsResponse;
    share_group_heartbeat_request::ShareGroupHeartbeatRequest, share_group_heartbeat_response::ShareGroupHeartbeatResponse;
    share_group_describe_request::ShareGroupDescribeRequest, share_group_describe_response::ShareGroupDescribeResponse;
    describe_share_group_offsets_request::DescribeShareGroupOffsetsRequest, describe_share_group_offsets_response::DescribeShareGroupOffsetsResponse;
    alter_share_group_offsets_request::AlterShareGroupOffsetsRequest, alter_share_group_offsets_response::AlterShareGroupOffsetsResponse;
    delete_share_group_offsets_request::DeleteShareGroupOffsetsRequest, delete_share_group_offsets_response::DeleteShareGroupOffsetsResponse;
}
