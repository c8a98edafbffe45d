//! What tools ask of brokers: `DescribeLogDirs`, `DescribeQuorum`, `ListConfigResources`.
//!
//! There is one directory, and every broker is a voter of the controllers' quorum.

use twinlog_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use twinlog_protocol::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use twinlog_protocol::messages::list_config_resources_response::ConfigResource;
use twinlog_protocol::messages::{
    BrokerId, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeQuorumRequest,
    DescribeQuorumResponse, ListConfigResourcesRequest, ListConfigResourcesResponse, StrBytes,
    string, topic_name,
};

use super::cluster::controller;
use crate::code::{UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION};
use crate::server::Call;

/// Where the logs seem to lie.
const LOG_DIR: &str = "/var/lib/kafka/data";
/// What brokers say where the size of a volume is not known.
const UNKNOWN_BYTES: i64 = -1;
/// The topic that the quorum keeps.
const METADATA_TOPIC: &str = "__cluster_metadata";
/// Kafka's numbers for what has settings.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

pub(crate) fn describe_log_dirs(
    call: &Call,
    request: &DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let out = DescribeLogDirsResponse::default();
    if let Some(code) = call.refused("", -1) {
        return if call.version >= 3 { out.with_error_code(code) } else { out };
    }
    let topics = call.cluster.with(|state| {
        let wanted = |name: &str, index: i32| {
            request.topics.as_ref().is_none_or(|topics| {
                topics
                    .iter()
                    .any(|topic| topic.topic.as_str() == name && topic.partitions.contains(&index))
            })
        };
        let mut topics = Vec::new();
        for (name, topic) in &state.topics {
            let mine = topic.partitions.iter().enumerate().filter_map(|(index, partition)| {
                let replica = partition.replica(call.broker)?;
                let lag = partition.authority().log.end() - replica.log.end();
                wanted(name, index as i32).then(|| {
                    DescribeLogDirsPartition::default()
                        .with_partition_index(index as i32)
                        .with_partition_size(replica.log.bytes() as i64)
                        .with_offset_lag(lag.max(0))
                })
            });
            let partitions: Vec<_> = mine.collect();
            if !partitions.is_empty() {
                topics.push(
                    DescribeLogDirsTopic::default()
                        .with_name(topic_name(name))
                        .with_partitions(partitions),
                );
            }
        }
        topics
    });
    let mut directory = DescribeLogDirsResult::default()
        .with_log_dir(StrBytes::from_static_str(LOG_DIR))
        .with_topics(topics);
    if call.version >= 4 {
        directory = directory.with_total_bytes(UNKNOWN_BYTES).with_usable_bytes(UNKNOWN_BYTES);
    }
    out.with_results(vec![directory])
}

pub(crate) fn describe_quorum(
    call: &Call,
    request: &DescribeQuorumRequest,
) -> DescribeQuorumResponse {
    let out = DescribeQuorumResponse::default().with_error_message(None);
    if let Some(code) = call.refused("", -1) {
        return out.with_error_code(code);
    }
    call.cluster.with(|state| {
        let leader = controller(state);
        let now_ms = state.now_ms();
        // The metadata log has no records here; it grows with the clock, as Kafka's does.
        let end = (now_ms - state.options.epoch_ms) / 500;
        let voters = state.brokers.keys().map(|&id| {
            let voter =
                ReplicaState::default().with_replica_id(BrokerId(id)).with_log_end_offset(end);
            if call.version >= 1 {
                voter.with_last_fetch_timestamp(now_ms).with_last_caught_up_timestamp(now_ms)
            } else {
                voter
            }
        });
        let voters: Vec<ReplicaState> = voters.collect();
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let out = PartitionData::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_message(None);
                if topic.topic_name.as_str() != METADATA_TOPIC || partition.partition_index != 0 {
                    return out.with_error_code(UNKNOWN_TOPIC_OR_PARTITION);
                }
                out.with_leader_id(BrokerId(leader))
                    .with_leader_epoch(1)
                    .with_high_watermark(end)
                    .with_current_voters(voters.clone())
            });
            TopicData::default()
                .with_topic_name(topic.topic_name.clone())
                .with_partitions(partitions.collect())
        });
        let out = out.with_topics(topics.collect());
        if call.version < 2 {
            return out;
        }
        let nodes = state.brokers.iter().map(|(&id, broker)| {
            let listener = Listener::default()
                .with_name(StrBytes::from_static_str("CONTROLLER"))
                .with_host(string(&broker.host))
                .with_port(broker.port);
            Node::default().with_node_id(BrokerId(id)).with_listeners(vec![listener])
        });
        out.with_nodes(nodes.collect())
    })
}

pub(crate) fn list_config_resources(
    call: &Call,
    request: &ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    let out = ListConfigResourcesResponse::default();
    if let Some(code) = call.refused("", -1) {
        return out.with_error_code(code);
    }
    // Version 0 asks for the resources of client metrics, of which there are none.
    let types = if call.version == 0 { &[CLIENT_METRICS][..] } else { &request.resource_types };
    const KNOWN: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];
    if types.iter().any(|kind| !KNOWN.contains(kind)) {
        return out.with_error_code(UNSUPPORTED_VERSION);
    }
    let wanted = |kind: i8| types.is_empty() || types.contains(&kind);
    let resources = call.cluster.with(|state| {
        let resource = |kind: i8, name: &str| {
            let out = ConfigResource::default().with_resource_name(string(name));
            if call.version >= 1 { out.with_resource_type(kind) } else { out }
        };
        let mut resources = Vec::new();
        if wanted(TOPIC) {
            resources.extend(state.topics.keys().map(|name| resource(TOPIC, name)));
        }
        if wanted(BROKER) {
            resources.extend(state.brokers.keys().map(|id| resource(BROKER, &id.to_string())));
        }
        if wanted(GROUP) {
            resources.extend(state.groups.keys().map(|name| resource(GROUP, name)));
        }
        resources
    });
    out.with_config_resources(resources)
}
