//! Requests that need no right, or one right for all of it.

use twinlog_protocol::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse, ApiVersionsRequest, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest,
    DescribeAclsResponse, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
    DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeQuorumRequest, DescribeQuorumResponse,
    ElectLeadersRequest, ElectLeadersResponse, FetchRequest, HeartbeatRequest, HeartbeatResponse,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    ListConfigResourcesRequest, ListConfigResourcesResponse, ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse, SaslAuthenticateRequest, SaslHandshakeRequest,
    ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, SyncGroupRequest, SyncGroupResponse,
    alter_client_quotas_response,
};

use super::acl::Operation;
use super::gate::{Gate, Guarded, Verdict};
use crate::code::{
    CLUSTER_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED,
};

macro_rules! free {
    ($($(#[$why:meta])* $request:ty;)*) => {
        $(
            $(#[$why])*
            impl Guarded for $request {
                fn guard(&mut self, _: &Gate<'_>) -> Verdict<Self> {
                    Verdict::Serve
                }
            }
        )*
    };
}

free! {
    ApiVersionsRequest;
    SaslHandshakeRequest;
    SaslAuthenticateRequest;
    /// A session remembers partitions: rights are looked up for each of them while it is served.
    FetchRequest;
    /// Of each ACL in the request.
    CreateAclsRequest;
    DeleteAclsRequest;
}

/// One right on the cluster for the whole request.
macro_rules! on_cluster {
    ($($request:ty: $operation:ident, $response:ty $(, $field:ident($value:expr))*;)*) => {
        $(
            impl Guarded for $request {
                fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
                    if gate.on_cluster(Operation::$operation) {
                        return Verdict::Serve;
                    }
                    let answer = <$response>::default()
                        .with_error_code(CLUSTER_AUTHORIZATION_FAILED)
                        $(.$field($value))*;
                    Verdict::Answer(answer)
                }
            }
        )*
    };
}

on_cluster! {
    DescribeAclsRequest: Describe, DescribeAclsResponse, with_error_message(None);
    DescribeLogDirsRequest: Describe, DescribeLogDirsResponse;
    ElectLeadersRequest: Alter, ElectLeadersResponse;
    AlterPartitionReassignmentsRequest: Alter, AlterPartitionReassignmentsResponse,
        with_error_message(None);
    ListPartitionReassignmentsRequest: Describe, ListPartitionReassignmentsResponse,
        with_error_message(None);
    DescribeClientQuotasRequest: DescribeConfigs, DescribeClientQuotasResponse,
        with_error_message(None), with_entries(None);
    DescribeQuorumRequest: Describe, DescribeQuorumResponse, with_error_message(None);
    ListConfigResourcesRequest: DescribeConfigs, ListConfigResourcesResponse;
}

impl Guarded for AlterClientQuotasRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use alter_client_quotas_response as response;
        if gate.on_cluster(Operation::AlterConfigs) {
            return Verdict::Serve;
        }
        let entries = self.entries.drain(..).map(|entry| {
            let entity = entry.entity.into_iter().map(|part| {
                response::EntityData::default()
                    .with_entity_type(part.entity_type)
                    .with_entity_name(part.entity_name)
            });
            response::EntryData::default()
                .with_error_code(CLUSTER_AUTHORIZATION_FAILED)
                .with_error_message(None)
                .with_entity(entity.collect())
        });
        Verdict::Answer(AlterClientQuotasResponse::default().with_entries(entries.collect()))
    }
}

/// READ on the group, for the whole request of a member.
macro_rules! on_group {
    ($($request:ty: $response:ty;)*) => {
        $(
            impl Guarded for $request {
                fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
                    if gate.on_group(Operation::Read, &self.group_id) {
                        return Verdict::Serve;
                    }
                    let answer = <$response>::default().with_error_code(GROUP_AUTHORIZATION_FAILED);
                    Verdict::Answer(answer)
                }
            }
        )*
    };
}

on_group! {
    JoinGroupRequest: JoinGroupResponse;
    SyncGroupRequest: SyncGroupResponse;
    HeartbeatRequest: HeartbeatResponse;
    LeaveGroupRequest: LeaveGroupResponse;
}

/// READ on the group, and DESCRIBE on every topic that the member names (KIP-848).
macro_rules! on_group_and_topics {
    ($($request:ty: $response:ty;)*) => {
        $(
            impl Guarded for $request {
                fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
                    let answer = <$response>::default();
                    if !gate.on_group(Operation::Read, &self.group_id) {
                        return Verdict::Answer(answer.with_error_code(GROUP_AUTHORIZATION_FAILED));
                    }
                    let mut topics = self.subscribed_topic_names.iter().flatten();
                    if topics.all(|topic| gate.on_topic(Operation::Describe, topic)) {
                        return Verdict::Serve;
                    }
                    Verdict::Answer(answer.with_error_code(TOPIC_AUTHORIZATION_FAILED))
                }
            }
        )*
    };
}

on_group_and_topics! {
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse;
    ShareGroupHeartbeatRequest: ShareGroupHeartbeatResponse;
}
