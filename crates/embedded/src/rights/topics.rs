//! What the requests about topics, their records and their settings need.

use twinlog_protocol::messages::metadata_response::MetadataResponseTopic;
use twinlog_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, CreatePartitionsRequest, CreatePartitionsResponse,
    CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeClusterRequest, DescribeClusterResponse,
    DescribeConfigsRequest, DescribeConfigsResponse, DescribeProducersRequest,
    DescribeProducersResponse, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataRequest, MetadataResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, ProduceRequest, ProduceResponse, StrBytes, Uuid,
    alter_configs_response, create_partitions_response, create_topics_response,
    delete_records_response, delete_topics_response, describe_configs_response,
    describe_producers_response, describe_topic_partitions_response,
    incremental_alter_configs_response, list_offsets_response, metadata_request,
    offset_for_leader_epoch_response, produce_response, topic_name,
};

use super::acl::{CLUSTER_NAME, Operation, Resource};
use super::gate::{Gate, Guarded, Verdict, take_refused};
use crate::code::{
    CLUSTER_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, NONE, TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
};
use crate::codec::Head;

/// What stands for "nobody asked" in `authorizedOperations`.
const NOT_ASKED: i32 = i32::MIN;
/// Kafka's numbers for things that have settings, among them those that are not of the cluster.
const TOPIC: i8 = 2;
const GROUP: i8 = 32;

impl Guarded for DescribeClusterRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        let asked = self.include_cluster_authorized_operations;
        let bits = gate.operations(asked, Resource::Cluster, CLUSTER_NAME);
        Verdict::amend(move |response: &mut DescribeClusterResponse, _| {
            response.cluster_authorized_operations = bits;
        })
    }
}

impl Guarded for MetadataRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        let version = gate.version;
        let cluster_asked = self.include_cluster_authorized_operations;
        let topics_asked = self.include_topic_authorized_operations;
        // An empty list means all topics in version 0 and none later: it must not become empty here.
        let named = self.topics.as_ref().is_some_and(|topics| version > 0 || !topics.is_empty());
        let mut refused = Vec::new();
        if let Some(topics) = self.topics.as_mut().filter(|_| named) {
            let making = gate.state.options.auto_create_topics
                && (version < 4 || self.allow_auto_topic_creation);
            let allowed = |topic: &metadata_request::MetadataRequestTopic| {
                let name = topic.name.clone().unwrap_or_default();
                let Some(name) = gate.topic_name(&name, id(topic.topic_id)) else {
                    return true; // an id that nobody has is no secret
                };
                gate.on_topic(Operation::Describe, &name)
                    && (!making || gate.state.topics.contains_key(&name) || may_create(gate, &name))
            };
            refused = take_refused(topics, allowed);
        }
        // Version 0 cannot say "none" (see above), so the answer is emptied instead.
        let none_left = named && self.topics.as_ref().is_some_and(Vec::is_empty) && version == 0;
        Verdict::amend(move |response: &mut MetadataResponse, gate| {
            if none_left {
                response.topics.clear();
            }
            response.topics.retain(|topic| {
                let name = topic.name.as_ref().map(|name| name.as_str());
                topic.error_code != NONE
                    || name.is_none_or(|name| gate.on_topic(Operation::Describe, name))
            });
            if (8..=10).contains(&version) {
                response.cluster_authorized_operations =
                    gate.operations(cluster_asked, Resource::Cluster, CLUSTER_NAME);
            }
            for topic in response.topics.iter_mut().filter(|topic| topic.error_code == NONE) {
                if let Some(name) = topic.name.as_ref().filter(|_| version >= 8) {
                    topic.topic_authorized_operations =
                        gate.operations(topics_asked, Resource::Topic, name);
                }
            }
            response.topics.extend(refused.into_iter().map(|topic| {
                let by_id = !topic.topic_id.is_nil();
                MetadataResponseTopic::default()
                    .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                    // Ids are no secret, names are.
                    .with_name(topic.name.filter(|_| !by_id))
                    .with_topic_id(topic.topic_id)
                    .with_topic_authorized_operations(NOT_ASKED)
            }));
        })
    }
}

/// A topic id as a request carries it.
fn id(uuid: Uuid) -> [u8; 16] {
    uuid.into_bytes()
}

fn may_create(gate: &Gate<'_>, topic: &str) -> bool {
    gate.on_cluster(Operation::Create) || gate.on_topic(Operation::Create, topic)
}

impl Guarded for DescribeTopicPartitionsRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use describe_topic_partitions_response::DescribeTopicPartitionsResponseTopic;
        let all = self.topics.is_empty();
        let refused: Vec<_> =
            take_refused(&mut self.topics, |topic| gate.on_topic(Operation::Describe, &topic.name))
                .into_iter()
                .map(|topic| {
                    DescribeTopicPartitionsResponseTopic::default()
                        .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                        .with_name(Some(topic.name))
                        .with_topic_authorized_operations(NOT_ASKED)
                })
                .collect();
        if !all && self.topics.is_empty() {
            let answer = DescribeTopicPartitionsResponse::default().with_topics(refused);
            return Verdict::Answer(answer.with_next_cursor(None));
        }
        Verdict::amend(move |response: &mut DescribeTopicPartitionsResponse, gate| {
            response.topics.retain(|topic| {
                let name = topic.name.as_ref().map(|name| name.as_str());
                name.is_none_or(|name| gate.on_topic(Operation::Describe, name))
            });
            for topic in response.topics.iter_mut().filter(|topic| topic.error_code == NONE) {
                if let Some(name) = &topic.name {
                    topic.topic_authorized_operations =
                        gate.operations(true, Resource::Topic, name);
                }
            }
            response.topics.extend(refused);
        })
    }
}

impl Guarded for ProduceRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use produce_response::{PartitionProduceResponse, TopicProduceResponse};
        let transactional = self
            .topic_data
            .iter()
            .flat_map(|topic| &topic.partition_data)
            .filter_map(|partition| Head::parse(partition.records.as_ref()?))
            .any(|head| head.is_transactional());
        let id_refused = transactional
            && self
                .transactional_id
                .as_ref()
                .is_some_and(|id| !gate.on_transactional_id(Operation::Write, id));
        let refused = take_refused(&mut self.topic_data, |topic| {
            let name = gate.topic_name(&topic.name, id(topic.topic_id));
            !id_refused && name.is_none_or(|name| gate.on_topic(Operation::Write, &name))
        });
        if self.acks == 0 && !refused.is_empty() {
            return Verdict::Close;
        }
        let code = if id_refused {
            TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        } else {
            TOPIC_AUTHORIZATION_FAILED
        };
        Verdict::add(
            refused,
            |topic| {
                let partitions = topic.partition_data.iter().map(|partition| {
                    PartitionProduceResponse::default()
                        .with_index(partition.index)
                        .with_error_code(code)
                        .with_base_offset(-1)
                });
                let partitions = partitions.collect();
                TopicProduceResponse::default()
                    .with_name(topic.name)
                    .with_topic_id(topic.topic_id)
                    .with_partition_responses(partitions)
            },
            |response: &mut ProduceResponse| &mut response.responses,
        )
    }
}

/// One right on each topic, refused partition by partition.
macro_rules! on_partitions {
    ($($request:ident: $operation:ident, $name:ident, $partitions:ident, |$wanted:ident| $partition:expr,
        $response:ident: $topics:ident, $module:ident::$topic:ident: $answers:ident, $answer_name:ident;)*) => {
        $(
            impl Guarded for $request {
                fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
                    let refused = take_refused(&mut self.topics, |topic| {
                        gate.on_topic(Operation::$operation, &topic.$name)
                    });
                    Verdict::add(
                        refused,
                        |topic| {
                            let answers = topic.$partitions.iter().map(|$wanted| $partition);
                            let answers = answers.collect();
                            $module::$topic::default().$answer_name(topic.$name).$answers(answers)
                        },
                        |response: &mut $response| &mut response.$topics,
                    )
                }
            }
        )*
    };
}

on_partitions! {
    ListOffsetsRequest: Describe, name, partitions, |wanted|
        list_offsets_response::ListOffsetsPartitionResponse::default()
            .with_partition_index(wanted.partition_index)
            .with_error_code(TOPIC_AUTHORIZATION_FAILED),
        ListOffsetsResponse: topics, list_offsets_response::ListOffsetsTopicResponse: with_partitions, with_name;
    DescribeProducersRequest: Read, name, partition_indexes, |wanted|
        describe_producers_response::PartitionResponse::default()
            .with_partition_index(*wanted)
            .with_error_code(TOPIC_AUTHORIZATION_FAILED)
            .with_error_message(None),
        DescribeProducersResponse: topics, describe_producers_response::TopicResponse: with_partitions, with_name;
    DeleteRecordsRequest: Delete, name, partitions, |wanted|
        delete_records_response::DeleteRecordsPartitionResult::default()
            .with_partition_index(wanted.partition_index)
            .with_low_watermark(-1)
            .with_error_code(TOPIC_AUTHORIZATION_FAILED),
        DeleteRecordsResponse: topics, delete_records_response::DeleteRecordsTopicResult: with_partitions, with_name;
}

impl Guarded for OffsetForLeaderEpochRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
        // Brokers ask as well.
        if gate.on_cluster(Operation::ClusterAction) {
            return Verdict::Serve;
        }
        let refused = take_refused(&mut self.topics, |topic| {
            gate.on_topic(Operation::Describe, &topic.topic)
        });
        Verdict::add(
            refused,
            |topic| {
                let partitions = topic.partitions.iter().map(|wanted| {
                    EpochEndOffset::default()
                        .with_partition(wanted.partition)
                        .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                });
                let partitions = partitions.collect();
                OffsetForLeaderTopicResult::default()
                    .with_topic(topic.topic)
                    .with_partitions(partitions)
            },
            |response: &mut OffsetForLeaderEpochResponse| &mut response.topics,
        )
    }
}

impl Guarded for CreateTopicsRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use create_topics_response::CreatableTopicResult;
        let version = gate.version;
        let refused: Vec<_> = take_refused(&mut self.topics, |topic| may_create(gate, &topic.name))
            .into_iter()
            .map(|topic| {
                let out = CreatableTopicResult::default()
                    .with_name(topic.name)
                    .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                    .with_error_message(Some(StrBytes::from_static_str("Authorization failed.")));
                if version >= 5 {
                    out.with_num_partitions(-1).with_replication_factor(-1)
                } else {
                    out
                }
            })
            .collect();
        Verdict::amend(move |response: &mut CreateTopicsResponse, gate| {
            let made = response.topics.iter_mut().filter(|topic| topic.error_code == NONE);
            for topic in made.filter(|_| version >= 5) {
                // Who may not see the settings is not told them with the new topic either.
                if !gate.on_topic(Operation::DescribeConfigs, &topic.name) {
                    topic.topic_config_error_code = TOPIC_AUTHORIZATION_FAILED;
                    topic.configs = Some(Vec::new());
                    topic.num_partitions = -1;
                    topic.replication_factor = -1;
                }
            }
            response.topics.extend(refused);
        })
    }
}

impl Guarded for CreatePartitionsRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use create_partitions_response::CreatePartitionsTopicResult;
        let refused =
            take_refused(&mut self.topics, |topic| gate.on_topic(Operation::Alter, &topic.name));
        Verdict::add(
            refused,
            |topic| {
                CreatePartitionsTopicResult::default()
                    .with_name(topic.name)
                    .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                    .with_error_message(None)
            },
            |response: &mut CreatePartitionsResponse| &mut response.results,
        )
    }
}

impl Guarded for DeleteTopicsRequest {
    fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
        use delete_topics_response::DeletableTopicResult;
        let out = || {
            DeletableTopicResult::default()
                .with_error_code(TOPIC_AUTHORIZATION_FAILED)
                .with_error_message(None)
        };
        // What is not there needs no right to be deleted, but one to be told so.
        let deletable = |name: &str| {
            let exists = gate.state.topics.contains_key(name);
            let operation = if exists { Operation::Delete } else { Operation::Describe };
            gate.on_cluster(Operation::Delete) || gate.on_topic(operation, name)
        };
        let by_name = take_refused(&mut self.topic_names, |name| deletable(name));
        let mut refused: Vec<_> =
            by_name.into_iter().map(|name| out().with_name(Some(name))).collect();
        let by_state = take_refused(&mut self.topics, |topic| {
            let name = topic.name.clone().unwrap_or_default();
            gate.topic_name(&name, id(topic.topic_id)).is_none_or(|name| deletable(&name))
        });
        refused.extend(by_state.into_iter().map(|topic| {
            // The name behind an id is told to those who may see the topic.
            let known = gate
                .state
                .name_of(id(topic.topic_id))
                .filter(|name| gate.on_topic(Operation::Describe, name))
                .map(topic_name);
            out().with_name(topic.name.or(known)).with_topic_id(topic.topic_id)
        }));
        Verdict::add(
            refused,
            |answer| answer,
            |response: &mut DeleteTopicsResponse| &mut response.responses,
        )
    }
}

/// The right on something that has settings, and the code that refuses it.
fn on_settings(gate: &Gate<'_>, kind: i8, name: &str, operation: Operation) -> Result<(), i16> {
    let (allowed, code) = match kind {
        TOPIC => (gate.on_topic(operation, name), TOPIC_AUTHORIZATION_FAILED),
        GROUP => (gate.on_group(operation, name), GROUP_AUTHORIZATION_FAILED),
        _ => (gate.on_cluster(operation), CLUSTER_AUTHORIZATION_FAILED),
    };
    if allowed { Ok(()) } else { Err(code) }
}

/// What a refused resource is told: Kafka's text for the code.
fn refusal(code: i16) -> StrBytes {
    StrBytes::from_static_str(match code {
        TOPIC_AUTHORIZATION_FAILED => "Topic authorization failed.",
        GROUP_AUTHORIZATION_FAILED => "Group authorization failed.",
        _ => "Cluster authorization failed.",
    })
}

macro_rules! on_settings {
    ($($request:ident: $operation:ident, $response:ident: $answers:ident, $module:ident::$answer:ident;)*) => {
        $(
            impl Guarded for $request {
                fn guard(&mut self, gate: &Gate<'_>) -> Verdict<Self> {
                    let right = |kind: i8, name: &str| {
                        on_settings(gate, kind, name, Operation::$operation)
                    };
                    let refused = take_refused(&mut self.resources, |resource| {
                        right(resource.resource_type, &resource.resource_name).is_ok()
                    });
                    Verdict::add(
                        refused,
                        |resource| {
                            let code = right(resource.resource_type, &resource.resource_name)
                                .err()
                                .unwrap_or(NONE);
                            $module::$answer::default()
                                .with_error_code(code)
                                .with_error_message(Some(refusal(code)))
                                .with_resource_type(resource.resource_type)
                                .with_resource_name(resource.resource_name)
                        },
                        |response: &mut $response| &mut response.$answers,
                    )
                }
            }
        )*
    };
}

on_settings! {
    DescribeConfigsRequest: DescribeConfigs, DescribeConfigsResponse: results,
        describe_configs_response::DescribeConfigsResult;
    IncrementalAlterConfigsRequest: AlterConfigs, IncrementalAlterConfigsResponse: responses,
        incremental_alter_configs_response::AlterConfigsResourceResponse;
    AlterConfigsRequest: AlterConfigs, AlterConfigsResponse: responses,
        alter_configs_response::AlterConfigsResourceResponse;
}
