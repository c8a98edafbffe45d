//! What administrators ask: settings of brokers, leaders, reassignments, log dirs, quotas, rights.

use twinlog_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use twinlog_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use twinlog_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use twinlog_protocol::messages::create_acls_request::AclCreation;
use twinlog_protocol::messages::delete_acls_request::DeleteAclsFilter;
use twinlog_protocol::messages::describe_client_quotas_request::ComponentData;
use twinlog_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use twinlog_protocol::messages::elect_leaders_request::TopicPartitions;
use twinlog_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use twinlog_protocol::messages::{
    AlterClientQuotasRequest, AlterConfigsRequest, AlterPartitionReassignmentsRequest, BrokerId,
    CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest, DescribeClientQuotasRequest,
    DescribeTopicPartitionsRequest, ElectLeadersRequest, ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest, string, topic_name,
};

use crate::pair::{Pair, Result};
use crate::requests::TIMEOUT_MS;

pub(crate) fn run(pair: &mut Pair) -> Result {
    pair.topic("admin", 3, &[])?;
    pair.topic("admin-other", 1, &[])?;
    configs(pair)?;
    leaders(pair)?;
    reassignments(pair)?;
    partitions(pair)?;
    quotas(pair)?;
    rights(pair)
}

fn configs(pair: &mut Pair) -> Result {
    let alter = |kind: i8, name: &str, configs: &[(&str, Option<&str>)]| {
        let config = |&(name, value): &(&str, Option<&str>)| {
            AlterableConfig::default().with_name(string(name)).with_value(value.map(string))
        };
        let resource = AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(string(name))
            .with_configs(configs.iter().map(config).collect());
        AlterConfigsRequest::default().with_resources(vec![resource])
    };
    for (what, kind, name, configs) in [
        ("of a topic", 2, "admin", &[("retention.ms", Some("1000"))][..]),
        ("with an unknown name", 2, "admin", &[("no.such.key", Some("1"))]),
        ("with a wrong value", 2, "admin", &[("retention.ms", Some("soon"))]),
        ("with null", 2, "admin", &[("retention.ms", None)]),
        (
            "with a name twice",
            2,
            "admin",
            &[("retention.ms", Some("1")), ("retention.ms", Some("2"))],
        ),
        ("of an absent topic", 2, "admin-absent", &[("retention.ms", Some("1000"))]),
        ("of an empty name", 2, "", &[("retention.ms", Some("1000"))]),
        ("of nothing", 2, "admin", &[]),
    ] {
        pair.step(format!("AlterConfigs, only validated, {what}"));
        pair.ask_all(|_| alter(kind, name, configs).with_validate_only(true))?;
    }
    pair.step("AlterConfigs of nothing at all");
    pair.ask_all(|_| AlterConfigsRequest::default())?;
    // Not topics: the embedded cluster keeps transactions in none.
    for (what, kinds) in [("that are brokers", &[4_i8]), ("that are unknown", &[99])] {
        pair.step(format!("ListConfigResources {what}"));
        for version in pair.versions::<ListConfigResourcesRequest>().into_iter().filter(|v| *v > 0)
        {
            pair.ask(
                version,
                ListConfigResourcesRequest::default().with_resource_types(kinds.to_vec()),
            )?;
        }
    }
    Ok(())
}

fn leaders(pair: &mut Pair) -> Result {
    let asked = |name: &str, partitions: &[i32]| {
        let topic = TopicPartitions::default().with_topic(topic_name(name));
        vec![topic.with_partitions(partitions.to_vec())]
    };
    for (what, topics) in [
        ("of partitions", Some(asked("admin", &[0, 1]))),
        ("of a partition that is not there", Some(asked("admin", &[9]))),
        ("of an absent topic", Some(asked("admin-absent", &[0]))),
        ("of nothing", Some(Vec::new())),
    ] {
        for kind in [0, 1, 7] {
            pair.step(format!("ElectLeaders {what}, kind {kind}"));
            for version in pair.versions::<ElectLeadersRequest>() {
                if version == 0 && kind != 0 {
                    continue;
                }
                let request = ElectLeadersRequest::default()
                    .with_topic_partitions(topics.clone())
                    .with_timeout_ms(TIMEOUT_MS);
                let request = if version >= 1 { request.with_election_type(kind) } else { request };
                pair.ask(version, request)?;
            }
        }
    }
    Ok(())
}

fn reassignments(pair: &mut Pair) -> Result {
    let alter = |name: &str, partition: i32, replicas: Option<&[i32]>| {
        let replicas = replicas.map(|ids| ids.iter().copied().map(BrokerId).collect());
        let partition = ReassignablePartition::default()
            .with_partition_index(partition)
            .with_replicas(replicas);
        let topic = ReassignableTopic::default()
            .with_name(topic_name(name))
            .with_partitions(vec![partition]);
        AlterPartitionReassignmentsRequest::default()
            .with_timeout_ms(TIMEOUT_MS)
            .with_topics(vec![topic])
    };
    for (what, name, partition, replicas) in [
        ("to where it is", "admin", 0, Some(&[1][..])),
        ("to an unknown broker", "admin", 0, Some(&[9])),
        ("to a broker twice", "admin", 0, Some(&[1, 1])),
        ("to nowhere", "admin", 0, Some(&[])),
        ("that is cancelled and never was", "admin", 0, None),
        ("of a partition that is not there", "admin", 9, Some(&[1])),
        ("of an absent topic", "admin-absent", 0, Some(&[1])),
    ] {
        pair.step(format!("AlterPartitionReassignments {what}"));
        pair.ask_all(|_| alter(name, partition, replicas))?;
    }
    let listed = |name: &str, partitions: &[i32]| {
        let topic = ListPartitionReassignmentsTopics::default().with_name(topic_name(name));
        vec![topic.with_partition_indexes(partitions.to_vec())]
    };
    for (what, topics) in [
        ("of all", None),
        ("of a topic", Some(listed("admin", &[0, 9]))),
        ("of an absent topic", Some(listed("admin-absent", &[0]))),
    ] {
        pair.step(format!("ListPartitionReassignments {what}"));
        pair.ask_all(|_| {
            ListPartitionReassignmentsRequest::default()
                .with_timeout_ms(TIMEOUT_MS)
                .with_topics(topics.clone())
        })?;
    }
    Ok(())
}

fn partitions(pair: &mut Pair) -> Result {
    for (what, names, limit, cursor) in [
        ("of a topic", &["admin"][..], 2000, None),
        ("of topics", &["admin-other", "admin"], 2000, None),
        ("of no more than two", &["admin"], 2, None),
        ("of no more than none", &["admin"], 0, None),
        ("from a partition on", &["admin"], 2000, Some(("admin", 1))),
        ("from another topic on", &["admin", "admin-other"], 2000, Some(("admin-other", 0))),
    ] {
        pair.step(format!("DescribeTopicPartitions {what}"));
        let topic = |name: &&str| TopicRequest::default().with_name(topic_name(name));
        let cursor = cursor.map(|(name, partition)| {
            Cursor::default().with_topic_name(topic_name(name)).with_partition_index(partition)
        });
        pair.ask_all(|_| {
            DescribeTopicPartitionsRequest::default()
                .with_topics(names.iter().map(topic).collect())
                .with_response_partition_limit(limit)
                .with_cursor(cursor.clone())
        })?;
    }
    Ok(())
}

fn quotas(pair: &mut Pair) -> Result {
    let describe = |kind: &str, matched: i8, name: Option<&str>, strict: bool| {
        let component = ComponentData::default()
            .with_entity_type(string(kind))
            .with_match_type(matched)
            .with_match(name.map(string));
        DescribeClientQuotasRequest::default().with_components(vec![component]).with_strict(strict)
    };
    let alter = |kind: &str, name: Option<&str>, key: &str, value: f64, remove: bool| {
        let entity =
            EntityData::default().with_entity_type(string(kind)).with_entity_name(name.map(string));
        let op = OpData::default().with_key(string(key)).with_value(value).with_remove(remove);
        let entry = EntryData::default().with_entity(vec![entity]).with_ops(vec![op]);
        AlterClientQuotasRequest::default().with_entries(vec![entry])
    };
    for (what, request) in [
        ("of a client", alter("client-id", Some("quota"), "consumer_byte_rate", 1e9, false)),
        ("of an unknown kind", alter("planet", Some("x"), "consumer_byte_rate", 1e9, false)),
        ("of an unknown key", alter("client-id", Some("x"), "warp_speed", 1e9, false)),
        ("with a negative value", alter("client-id", Some("x"), "consumer_byte_rate", -1.0, false)),
    ] {
        pair.step(format!("AlterClientQuotas, only validated, {what}"));
        pair.ask_all(|_| request.clone().with_validate_only(true))?;
    }
    for (what, request) in [
        ("of all clients", describe("client-id", 2, None, false)),
        ("of a client", describe("client-id", 0, Some("quota"), false)),
        ("of the default client", describe("client-id", 1, None, true)),
        ("of an unknown kind", describe("planet", 2, None, false)),
        ("of an unknown match", describe("client-id", 9, None, false)),
        ("of an empty kind", describe("", 2, None, false)),
    ] {
        pair.step(format!("DescribeClientQuotas {what}"));
        pair.ask_all(|_| request.clone())?;
    }
    pair.step("DescribeClientQuotas of everything");
    pair.ask_all(|_| DescribeClientQuotasRequest::default())
}

/// Without an authorizer there are no rights to ask about.
fn rights(pair: &mut Pair) -> Result {
    pair.step("DescribeAcls without an authorizer");
    pair.ask_all(|_| {
        DescribeAclsRequest::default()
            .with_resource_type_filter(1)
            .with_resource_name_filter(None)
            .with_pattern_type_filter(1)
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(1)
            .with_permission_type(1)
    })?;
    pair.step("CreateAcls without an authorizer");
    let creation = AclCreation::default()
        .with_resource_type(2)
        .with_resource_name(string("admin"))
        .with_resource_pattern_type(3)
        .with_principal(string("User:x"))
        .with_host(string("*"))
        .with_operation(3)
        .with_permission_type(3);
    pair.ask_all(|_| CreateAclsRequest::default().with_creations(vec![creation.clone()]))?;
    pair.step("DeleteAcls without an authorizer");
    let filter = DeleteAclsFilter::default()
        .with_resource_type_filter(1)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(1)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(1)
        .with_permission_type(1);
    pair.ask_all(|_| DeleteAclsRequest::default().with_filters(vec![filter.clone()]))
}
