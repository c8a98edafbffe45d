//! What the requests about groups and their offsets need.

use twinlog_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use twinlog_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use twinlog_protocol::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, BrokerId,
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DeleteGroupsRequest,
    DeleteGroupsResponse, DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse,
    DescribeGroupsRequest, DescribeGroupsResponse, DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse, FindCoordinatorRequest, FindCoordinatorResponse, GroupId,
    ListGroupsRequest, ListGroupsResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse,
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, StrBytes,
    alter_share_group_offsets_response, consumer_group_describe_response, delete_groups_response,
    delete_share_group_offsets_response, describe_groups_response,
    describe_share_group_offsets_response, find_coordinator_response, offset_commit_request,
    offset_delete_response, offset_fetch_request, share_group_describe_response,
};

use super::acl::{Operation, Resource};
use super::gate::{Gate, Guarded, Verdict, take_refused};
use crate::code::{
    CLUSTER_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, NONE, TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
};

/// Kinds of keys in FindCoordinator.
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

impl Guarded for FindCoordinatorRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use find_coordinator_response::Coordinator;
        let (kind, version) = (self.key_type, gate.version);
        let refusal = match kind {
            TRANSACTION => TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            SHARE => CLUSTER_AUTHORIZATION_FAILED,
            _ => GROUP_AUTHORIZATION_FAILED,
        };
        let allowed = |key: &StrBytes| match kind {
            TRANSACTION => gate.on_transactional_id(Operation::Describe, key),
            SHARE => gate.on_cluster(Operation::ClusterAction),
            _ => gate.on_group(Operation::Describe, key),
        };
        if version < 4 {
            if allowed(&self.key) {
                return Verdict::Serve;
            }
            let mut answer = FindCoordinatorResponse::default()
                .with_error_code(refusal)
                .with_node_id(BrokerId(-1))
                .with_port(-1);
            if version >= 1 {
                answer = answer.with_error_message(None);
            }
            return Verdict::Answer(answer);
        }
        let refused = take_refused(&mut self.coordinator_keys, allowed);
        Verdict::add(
            refused,
            |key| {
                Coordinator::default()
                    .with_key(key)
                    .with_node_id(BrokerId(-1))
                    .with_port(-1)
                    .with_error_code(refusal)
                    .with_error_message(None)
            },
            |response: &mut FindCoordinatorResponse| &mut response.coordinators,
        )
    }
}

impl Guarded for ListGroupsRequest {
    fn guard(&mut self, _: &Gate<'_>) -> Verdict<Self> {
        // DESCRIBE on the cluster shows all; else the groups that may be seen, and no error.
        Verdict::amend(|response: &mut ListGroupsResponse, gate| {
            if !gate.on_cluster(Operation::Describe) {
                response.groups.retain(|group| gate.on_group(Operation::Describe, &group.group_id));
            }
        })
    }
}

/// DESCRIBE on each group; the answer says which operations are allowed where that was asked.
macro_rules! described {
    ($($request:ident: $ids:ident, $response:ident, $module:ident;)*) => {
        $(
            impl Guarded for $request {
                fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
                    let asked = self.include_authorized_operations;
                    let refused: Vec<_> = take_refused(&mut self.$ids, |group| {
                        gate.on_group(Operation::Describe, group)
                    })
                    .into_iter()
                    .map(|group| {
                        $module::DescribedGroup::default()
                            .with_group_id(group)
                            .with_error_code(GROUP_AUTHORIZATION_FAILED)
                            .with_error_message(None)
                    })
                    .collect();
                    Verdict::amend(move |response: &mut $response, gate| {
                        for group in response.groups.iter_mut().filter(|_| asked) {
                            if group.error_code == NONE {
                                group.authorized_operations =
                                    gate.operations(asked, Resource::Group, &group.group_id);
                            }
                        }
                        response.groups.extend(refused);
                    })
                }
            }
        )*
    };
}

described! {
    DescribeGroupsRequest: groups, DescribeGroupsResponse, describe_groups_response;
    ConsumerGroupDescribeRequest: group_ids, ConsumerGroupDescribeResponse, consumer_group_describe_response;
    ShareGroupDescribeRequest: group_ids, ShareGroupDescribeResponse, share_group_describe_response;
}

impl Guarded for DeleteGroupsRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        let refused =
            take_refused(&mut self.groups_names, |group| gate.on_group(Operation::Delete, group));
        Verdict::add(
            refused,
            |group| {
                delete_groups_response::DeletableGroupResult::default()
                    .with_group_id(group)
                    .with_error_code(GROUP_AUTHORIZATION_FAILED)
            },
            |response: &mut DeleteGroupsResponse| &mut response.results,
        )
    }
}

fn uncommitted(
    topic: offset_commit_request::OffsetCommitRequestTopic,
    code: i16,
) -> OffsetCommitResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| {
        OffsetCommitResponsePartition::default()
            .with_partition_index(partition.partition_index)
            .with_error_code(code)
    });
    let partitions = partitions.collect();
    OffsetCommitResponseTopic::default().with_name(topic.name).with_partitions(partitions)
}

impl Guarded for OffsetCommitRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        if !gate.on_group(Operation::Read, &self.group_id) {
            let topics = self.topics.drain(..);
            let topics = topics.map(|topic| uncommitted(topic, GROUP_AUTHORIZATION_FAILED));
            return Verdict::Answer(OffsetCommitResponse::default().with_topics(topics.collect()));
        }
        let refused =
            take_refused(&mut self.topics, |topic| gate.on_topic(Operation::Read, &topic.name));
        Verdict::add(
            refused,
            |topic| uncommitted(topic, TOPIC_AUTHORIZATION_FAILED),
            |response: &mut OffsetCommitResponse| &mut response.topics,
        )
    }
}

impl Guarded for OffsetDeleteRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
        if !gate.on_group(Operation::Delete, &self.group_id) {
            let answer = OffsetDeleteResponse::default();
            return Verdict::Answer(answer.with_error_code(GROUP_AUTHORIZATION_FAILED));
        }
        let refused =
            take_refused(&mut self.topics, |topic| gate.on_topic(Operation::Read, &topic.name));
        Verdict::add(
            refused,
            |topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    OffsetDeleteResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                        .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                });
                let partitions = partitions.collect();
                OffsetDeleteResponseTopic::default()
                    .with_name(topic.name)
                    .with_partitions(partitions)
            },
            |response: &mut OffsetDeleteResponse| &mut response.topics,
        )
    }
}

impl Guarded for OffsetFetchRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        if gate.version < 8 { one_group(self, gate) } else { groups(self, gate) }
    }
}

/// Up to version 7 a request is about one group.
fn one_group(request: &mut OffsetFetchRequest, gate: &Gate<'_>) -> Verdict<OffsetFetchRequest> {
    let version = gate.version;
    let unread = move |topic: offset_fetch_request::OffsetFetchRequestTopic, code: i16| {
        let partitions = topic.partition_indexes.iter().map(|&partition| {
            let out = OffsetFetchResponsePartition::default()
                .with_partition_index(partition)
                .with_committed_offset(-1)
                .with_metadata(Some(StrBytes::default()))
                .with_error_code(code);
            if version >= 5 { out.with_committed_leader_epoch(-1) } else { out }
        });
        let partitions = partitions.collect();
        OffsetFetchResponseTopic::default().with_name(topic.name).with_partitions(partitions)
    };
    if !gate.on_group(Operation::Describe, &request.group_id) {
        let answer = OffsetFetchResponse::default();
        if version >= 2 {
            return Verdict::Answer(answer.with_error_code(GROUP_AUTHORIZATION_FAILED));
        }
        let topics = request.topics.take().unwrap_or_default().into_iter();
        let topics = topics.map(|topic| unread(topic, GROUP_AUTHORIZATION_FAILED));
        return Verdict::Answer(answer.with_topics(topics.collect()));
    }
    let Some(topics) = &mut request.topics else {
        // All topics with commits: the others are left out, and nothing says so.
        return Verdict::amend(|response: &mut OffsetFetchResponse, gate| {
            response.topics.retain(|topic| gate.on_topic(Operation::Describe, &topic.name));
        });
    };
    let refused = take_refused(topics, |topic| gate.on_topic(Operation::Describe, &topic.name));
    Verdict::add(
        refused,
        |topic| unread(topic, TOPIC_AUTHORIZATION_FAILED),
        |response: &mut OffsetFetchResponse| &mut response.topics,
    )
}

fn groups(request: &mut OffsetFetchRequest, gate: &Gate<'_>) -> Verdict<OffsetFetchRequest> {
    let refused_groups: Vec<OffsetFetchResponseGroup> =
        take_refused(&mut request.groups, |group| {
            gate.on_group(Operation::Describe, &group.group_id)
        })
        .into_iter()
        .map(|group| {
            OffsetFetchResponseGroup::default()
                .with_group_id(group.group_id)
                .with_error_code(GROUP_AUTHORIZATION_FAILED)
        })
        .collect();
    // Of the groups that may be seen: the topics that were named and may not be seen.
    let mut refused_topics: Vec<(GroupId, Vec<OffsetFetchResponseTopics>)> = Vec::new();
    for group in &mut request.groups {
        let Some(topics) = &mut group.topics else { continue };
        let refused = take_refused(topics, |topic| gate.on_topic(Operation::Describe, &topic.name));
        let answers = refused.into_iter().map(|topic| {
            let partitions = topic.partition_indexes.iter().map(|&partition| {
                OffsetFetchResponsePartitions::default()
                    .with_partition_index(partition)
                    .with_committed_offset(-1)
                    .with_committed_leader_epoch(-1)
                    .with_metadata(Some(StrBytes::default()))
                    .with_error_code(TOPIC_AUTHORIZATION_FAILED)
            });
            let partitions = partitions.collect();
            OffsetFetchResponseTopics::default().with_name(topic.name).with_partitions(partitions)
        });
        refused_topics.push((group.group_id.clone(), answers.collect()));
    }
    Verdict::amend(move |response: &mut OffsetFetchResponse, gate| {
        for group in &mut response.groups {
            group.topics.retain(|topic| gate.on_topic(Operation::Describe, &topic.name));
        }
        for (id, topics) in refused_topics {
            let mut answered = response.groups.iter_mut();
            // A group that has an error of its own says nothing of topics.
            if let Some(group) =
                answered.find(|group| group.group_id == id && group.error_code == NONE)
            {
                group.topics.extend(topics);
            }
        }
        response.groups.extend(refused_groups);
    })
}

impl Guarded for DescribeShareGroupOffsetsRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use describe_share_group_offsets_response as response;
        let refused: Vec<_> = take_refused(&mut self.groups, |group| {
            gate.on_group(Operation::Describe, &group.group_id)
        })
        .into_iter()
        .map(|group| {
            response::DescribeShareGroupOffsetsResponseGroup::default()
                .with_group_id(group.group_id)
                .with_error_code(GROUP_AUTHORIZATION_FAILED)
                .with_error_message(None)
        })
        .collect();
        let mut unseen: Vec<(GroupId, Vec<response::DescribeShareGroupOffsetsResponseTopic>)> =
            Vec::new();
        for group in &mut self.groups {
            let Some(topics) = &mut group.topics else { continue };
            let refused =
                take_refused(topics, |topic| gate.on_topic(Operation::Describe, &topic.topic_name));
            let answers = refused.into_iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|&partition| {
                    response::DescribeShareGroupOffsetsResponsePartition::default()
                        .with_partition_index(partition)
                        .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                        .with_error_message(None)
                });
                let partitions = partitions.collect();
                response::DescribeShareGroupOffsetsResponseTopic::default()
                    .with_topic_name(topic.topic_name)
                    .with_partitions(partitions)
            });
            unseen.push((group.group_id.clone(), answers.collect()));
        }
        Verdict::amend(move |response: &mut DescribeShareGroupOffsetsResponse, gate| {
            for group in &mut response.groups {
                group.topics.retain(|topic| gate.on_topic(Operation::Describe, &topic.topic_name));
            }
            for (id, topics) in unseen {
                let mut answered = response.groups.iter_mut();
                if let Some(group) = answered.find(|group| group.group_id == id) {
                    group.topics.extend(topics);
                }
            }
            response.groups.extend(refused);
        })
    }
}

impl Guarded for AlterShareGroupOffsetsRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use alter_share_group_offsets_response as response;
        if !gate.on_group(Operation::Read, &self.group_id) {
            let answer = AlterShareGroupOffsetsResponse::default();
            return Verdict::Answer(answer.with_error_code(GROUP_AUTHORIZATION_FAILED));
        }
        let refused = take_refused(&mut self.topics, |topic| {
            gate.on_topic(Operation::Read, &topic.topic_name)
        });
        Verdict::add(
            refused,
            |topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    response::AlterShareGroupOffsetsResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                        .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                        .with_error_message(None)
                });
                let partitions = partitions.collect();
                response::AlterShareGroupOffsetsResponseTopic::default()
                    .with_topic_name(topic.topic_name)
                    .with_partitions(partitions)
            },
            |response: &mut AlterShareGroupOffsetsResponse| &mut response.responses,
        )
    }
}

impl Guarded for DeleteShareGroupOffsetsRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use delete_share_group_offsets_response as response;
        if !gate.on_group(Operation::Delete, &self.group_id) {
            let answer = DeleteShareGroupOffsetsResponse::default();
            return Verdict::Answer(answer.with_error_code(GROUP_AUTHORIZATION_FAILED));
        }
        let refused = take_refused(&mut self.topics, |topic| {
            gate.on_topic(Operation::Read, &topic.topic_name)
        });
        Verdict::add(
            refused,
            |topic| {
                response::DeleteShareGroupOffsetsResponseTopic::default()
                    .with_topic_name(topic.topic_name)
                    .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                    .with_error_message(None)
            },
            |response: &mut DeleteShareGroupOffsetsResponse| &mut response.responses,
        )
    }
}
