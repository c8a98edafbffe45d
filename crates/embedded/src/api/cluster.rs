//! `ApiVersions`, `Metadata`, `DescribeCluster`.

use std::collections::BTreeMap;

use twinlog_protocol::ApiKey;
use twinlog_protocol::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use twinlog_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use twinlog_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use twinlog_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, BrokerId, DescribeClusterRequest,
    DescribeClusterResponse, MetadataRequest, MetadataResponse, StrBytes, TopicName, Uuid,
    metadata_request, string, topic_name,
};

use super::id;
use super::topics::check_name;
use crate::code::{
    INVALID_REQUEST, LEADER_NOT_AVAILABLE, MISMATCHED_ENDPOINT_TYPE, NONE, UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_ENDPOINT_TYPE, UNSUPPORTED_VERSION,
};
use crate::options::KafkaVersion;
use crate::server::Call;
use crate::state::{State, Topic};

/// What brokers answer where nobody asked which operations are allowed.
const NOT_ASKED: i32 = i32::MIN;

fn keys(version: KafkaVersion) -> Vec<ApiVersion> {
    let key = |&api: &ApiKey| {
        let range = version.versions(api)?;
        let key = ApiVersion::default().with_api_key(api.key());
        Some(key.with_min_version(range.min).with_max_version(range.max))
    };
    ApiKey::ALL.iter().filter_map(key).collect()
}

/// KIP-511: the answer to a version nobody knows, in version 0. It tells how to ask.
pub(crate) fn unknown_api_versions(call: &Call) -> ApiVersionsResponse {
    let version = call.cluster.with(|state| state.options.version);
    let mut keys = keys(version);
    keys.retain(|key| key.api_key == ApiKey::ApiVersions.key());
    ApiVersionsResponse::default().with_error_code(UNSUPPORTED_VERSION).with_api_keys(keys)
}

/// Whether a client may call itself or its version so: letters and digits, dots and hyphens between.
fn is_software_name(name: &str) -> bool {
    let edge = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    edge(name.chars().next())
        && edge(name.chars().last())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}

pub(crate) fn api_versions(call: &Call, request: &ApiVersionsRequest) -> ApiVersionsResponse {
    let names = [&request.client_software_name, &request.client_software_version];
    if call.version >= 3 && !names.iter().all(|name| is_software_name(name)) {
        return ApiVersionsResponse::default().with_error_code(INVALID_REQUEST);
    }
    let version = call.cluster.with(|state| state.options.version);
    let mut response = ApiVersionsResponse::default()
        .with_error_code(call.refused("", -1).unwrap_or(NONE))
        .with_api_keys(keys(version));
    if call.version >= 3 {
        // Name, lowest level, highest level, which is the finalized one.
        let features: &[(&'static str, i16, i16)] = match version {
            KafkaVersion::V4_3 => &[
                ("metadata.version", 7, 30),
                ("transaction.version", 0, 2),
                ("group.version", 0, 1),
            ],
            KafkaVersion::V3_9 => &[("metadata.version", 1, 21)],
        };
        let supported = |&(name, lowest, level): &(&'static str, i16, i16)| {
            // Clients of version 3 cannot read a lowest level of 0 (KAFKA-17011).
            if lowest == 0 && call.version < 4 {
                return None;
            }
            let feature = SupportedFeatureKey::default().with_name(StrBytes::from_static_str(name));
            Some(feature.with_min_version(lowest).with_max_version(level))
        };
        let finalized = |&(name, _, level): &(&'static str, i16, i16)| {
            let feature = FinalizedFeatureKey::default().with_name(StrBytes::from_static_str(name));
            feature.with_min_version_level(level).with_max_version_level(level)
        };
        response = response
            .with_supported_features(features.iter().filter_map(supported).collect())
            .with_finalized_features_epoch(1)
            .with_finalized_features(features.iter().map(finalized).collect());
    }
    response
}

/// The broker that answers as the controller.
pub(super) fn controller(state: &State) -> i32 {
    state.brokers.iter().find(|(_, broker)| !broker.fenced).map_or(-1, |(&id, _)| id)
}

pub(crate) fn metadata(call: &Call, request: &MetadataRequest) -> MetadataResponse {
    if request.topics.iter().flatten().any(|topic| topic.name.is_none() && topic.topic_id.is_nil())
    {
        return unanswerable(call, request);
    }
    call.cluster.with(|state| {
        let brokers =
            state.brokers.iter().filter(|(_, broker)| !broker.fenced).map(|(&id, broker)| {
                MetadataResponseBroker::default()
                    .with_node_id(BrokerId(id))
                    .with_host(string(&broker.host))
                    .with_port(i32::from(broker.port))
                    .with_rack(broker.rack.as_deref().filter(|_| call.version >= 1).map(string))
            });
        let response = MetadataResponse::default()
            .with_brokers(brokers.collect())
            .with_cluster_id((call.version >= 2).then(|| string(&state.options.cluster_id)))
            .with_controller_id(BrokerId(if call.version >= 1 { controller(state) } else { -1 }));
        // Version 0 asks for all topics with an empty list, later ones with null.
        let all = match &request.topics {
            None => true,
            Some(topics) => call.version == 0 && topics.is_empty(),
        };
        let topics = if all {
            state.topics.iter().map(|(name, topic)| known(call, state, name, topic)).collect()
        } else {
            // Version 3 and older cannot say that they do not want topics to be made.
            let make = state.options.auto_create_topics
                && (call.version < 4 || request.allow_auto_topic_creation);
            let asked = request.topics.iter().flatten();
            let topics = asked.map(|wanted| {
                let answer = one(call, state, wanted.name.as_ref(), wanted.topic_id);
                if make && answer.error_code == UNKNOWN_TOPIC_OR_PARTITION {
                    auto_create(state, answer)
                } else {
                    answer
                }
            });
            topics.collect()
        };
        response.with_topics(topics)
    })
}

/// The answer to a request that names a topic in no way, which throws inside a broker.
fn unanswerable(call: &Call, request: &MetadataRequest) -> MetadataResponse {
    let topic = |topic: &metadata_request::MetadataRequestTopic| {
        MetadataResponseTopic::default()
            .with_error_code(UNKNOWN_SERVER_ERROR)
            .with_name(Some(topic.name.clone().unwrap_or_default()))
            .with_topic_id(topic.topic_id)
            .with_topic_authorized_operations(NOT_ASKED)
    };
    MetadataResponse::default()
        .with_cluster_id(None)
        .with_controller_id(BrokerId(-1))
        .with_topics(request.topics.iter().flatten().map(topic).collect())
        .with_error_code(if call.version >= 13 { UNKNOWN_SERVER_ERROR } else { NONE })
}

/// Makes a topic that somebody asked for. As with a KRaft controller, this answer still says that it
/// is unknown, and the next one knows it (`AutoTopicCreationManager`).
fn auto_create(state: &mut State, answer: MetadataResponseTopic) -> MetadataResponseTopic {
    let Some(name) = answer.name.clone() else { return answer };
    match state.make_topic(&name, -1, -1, &[], false) {
        Ok(_) => answer,
        Err((code, _)) => answer.with_error_code(code),
    }
}

fn one(call: &Call, state: &State, name: Option<&TopicName>, uuid: Uuid) -> MetadataResponseTopic {
    let asked = name.cloned().unwrap_or_default();
    let by_id = id(uuid) != [0; 16];
    match state.resolve(&asked, id(uuid)) {
        Ok(name) => known(call, state, &name, &state.topics[&name]),
        Err(_) => MetadataResponseTopic::default()
            .with_error_code(match check_name(&asked) {
                _ if by_id => UNKNOWN_TOPIC_ID,
                Ok(()) => UNKNOWN_TOPIC_OR_PARTITION,
                Err((code, _)) => code,
            })
            .with_name(
                name.cloned()
                    .filter(|_| !by_id)
                    .or_else(|| (call.version < 12).then(TopicName::default)),
            )
            .with_topic_id(if by_id { uuid } else { Uuid::nil() })
            .with_topic_authorized_operations(NOT_ASKED),
    }
}

fn known(call: &Call, state: &State, name: &str, topic: &Topic) -> MetadataResponseTopic {
    if let Some(code) = call.refused(name, -1) {
        return MetadataResponseTopic::default()
            .with_error_code(code)
            .with_name(Some(topic_name(name)));
    }
    // A broker that sleeps, or slept, answers what it knew: its own belief about who leads.
    let beliefs: BTreeMap<usize, (Option<i32>, i32)> = if state.brokers[&call.broker].stale {
        let belief = |(index, partition): (usize, &crate::partition::Partition)| {
            partition.replica(call.broker).map(|replica| (index, (replica.leader, replica.epoch)))
        };
        topic.partitions.iter().enumerate().filter_map(belief).collect()
    } else {
        BTreeMap::new()
    };
    let ids = |brokers: &mut dyn Iterator<Item = i32>| brokers.map(BrokerId).collect::<Vec<_>>();
    let partitions = topic.partitions.iter().enumerate().map(|(index, partition)| {
        let (leader, epoch) =
            beliefs.get(&index).copied().unwrap_or((partition.leader, partition.epoch));
        let offline = partition
            .replicas
            .iter()
            .map(|replica| replica.broker)
            .filter(|broker| state.brokers[broker].fenced);
        let mut out = MetadataResponsePartition::default()
            .with_error_code(if leader.is_none() { LEADER_NOT_AVAILABLE } else { NONE })
            .with_partition_index(index as i32)
            .with_leader_id(BrokerId(leader.unwrap_or(-1)))
            .with_replica_nodes(ids(&mut partition.replicas.iter().map(|replica| replica.broker)))
            .with_isr_nodes(ids(&mut partition.in_sync.iter().copied()));
        if call.version >= 5 {
            out = out.with_offline_replicas(offline.map(BrokerId).collect());
        }
        if call.version >= 7 {
            out = out.with_leader_epoch(epoch);
        }
        out
    });
    let mut out = MetadataResponseTopic::default()
        .with_name(Some(topic_name(name)))
        .with_partitions(partitions.collect())
        .with_is_internal(call.version >= 1 && name.starts_with("__"));
    if call.version >= 10 {
        out = out.with_topic_id(Uuid::from_bytes(topic.id));
    }
    out
}

pub(crate) fn describe_cluster(
    call: &Call,
    request: &DescribeClusterRequest,
) -> DescribeClusterResponse {
    const BROKERS: i8 = 1;
    const CONTROLLERS: i8 = 2;
    let refused = match request.endpoint_type {
        BROKERS => None,
        CONTROLLERS => Some((
            MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER".to_owned(),
        )),
        other => {
            Some((UNSUPPORTED_ENDPOINT_TYPE, format!("Unsupported endpoint type {other}")))
        }
    };
    if let Some((code, message)) = refused {
        return DescribeClusterResponse::default()
            .with_error_code(code)
            .with_error_message(Some(string(&message)))
            .with_controller_id(BrokerId(-1))
            .with_cluster_authorized_operations(NOT_ASKED);
    }
    let with_fenced = call.version >= 2 && request.include_fenced_brokers;

    call.cluster.with(|state| {
        let brokers = state.brokers.iter().filter(|(_, broker)| with_fenced || !broker.fenced).map(
            |(&id, broker)| {
                let out = DescribeClusterBroker::default()
                    .with_broker_id(BrokerId(id))
                    .with_host(string(&broker.host))
                    .with_port(i32::from(broker.port))
                    .with_rack(broker.rack.as_deref().map(string));
                if call.version >= 2 { out.with_is_fenced(broker.fenced) } else { out }
            },
        );
        DescribeClusterResponse::default()
            .with_error_code(call.refused("", -1).unwrap_or(NONE))
            .with_error_message(None)
            .with_cluster_id(string(&state.options.cluster_id))
            .with_controller_id(BrokerId(controller(state)))
            .with_brokers(brokers.collect())
            .with_cluster_authorized_operations(NOT_ASKED)
    })
}
