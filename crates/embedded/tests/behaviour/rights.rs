//! Which right each request needs: under every single right, what the refusals are.
//!
//! The table was printed by Kafka 4.3.0 with the same requests; only of `AlterShareGroupOffsets` and
//! `DescribeShareGroupOffsets` it follows what `KafkaApis` asks for.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_embedded::{
    Acl, AuthorizerOptions, EmbeddedCluster, EmbeddedOptions, KafkaVersion, Operation, Resource,
};
use twinlog_protocol::messages::*;
use twinlog_protocol::{ApiKey, Request};

use crate::support::*;

pub(crate) const GROUP: &str = "g";
const ID: &str = "x";
/// Not there: neither a code nor a refusal.
const ABSENT: i16 = -100;
/// Codes of missing rights.
const REFUSALS: [i16; 4] = [29, 30, 31, 53];

pub(crate) fn group() -> GroupId {
    GroupId(string(GROUP))
}

fn transactional_id() -> TransactionalId {
    TransactionalId(string(ID))
}

/// The answer to every request, by a name for it: a code, the first one that says something.
async fn codes(client: &mut Client) -> BTreeMap<&'static str, i16> {
    let served: BTreeSet<i16> = client
        .call(
            &ApiVersionsRequest::default()
                .with_client_software_name(string("t"))
                .with_client_software_version(string("1")),
            3,
        )
        .await
        .api_keys
        .iter()
        .map(|key| key.api_key)
        .collect();
    let mut all = BTreeMap::new();
    macro_rules! ask {
        ($name:literal, $version:literal, $request:expr, |$answer:ident| $code:expr) => {{
            let request = $request;
            if served.contains(&key_of(&request).key()) {
                let $answer = client.call(&request, $version).await;
                all.insert($name, $code);
            }
        }};
    }
    ask!("Produce", 9, produce_request(&batch(1), -1, TIMEOUT_MS), |it| {
        it.responses[0].partition_responses[0].error_code
    });
    let mut transactional =
        produce_request(&with_bits(&by(&batch(1), 5, 0, 0), 0x10), -1, TIMEOUT_MS);
    transactional.transactional_id = Some(transactional_id());
    ask!("Produce in a transaction", 9, transactional, |it| {
        it.responses[0].partition_responses[0].error_code
    });
    ask!("Fetch", 12, FetchFrom::offset(0).request(12), |it| {
        it.responses[0].partitions[0].error_code
    });
    let partition = list_offsets_request::ListOffsetsPartition::default().with_timestamp(-1);
    let topic = list_offsets_request::ListOffsetsTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partitions(vec![partition]);
    let request =
        ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
    ask!("ListOffsets", 7, request, |it| it.topics[0].partitions[0].error_code);
    let partition = offset_for_leader_epoch_request::OffsetForLeaderPartition::default()
        .with_current_leader_epoch(-1);
    let topic = offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
        .with_topic(topic_name(TOPIC))
        .with_partitions(vec![partition]);
    let request = OffsetForLeaderEpochRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![topic]);
    ask!("OffsetForLeaderEpoch", 4, request, |it| it.topics[0].partitions[0].error_code);
    let topic = describe_producers_request::TopicRequest::default()
        .with_name(topic_name(TOPIC))
        .with_partition_indexes(vec![0]);
    ask!(
        "DescribeProducers",
        0,
        DescribeProducersRequest::default().with_topics(vec![topic]),
        |it| it.topics[0].partitions[0].error_code
    );
    let partition = delete_records_request::DeleteRecordsPartition::default();
    let topic = delete_records_request::DeleteRecordsTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partitions(vec![partition]);
    let request =
        DeleteRecordsRequest::default().with_timeout_ms(TIMEOUT_MS).with_topics(vec![topic]);
    ask!("DeleteRecords", 2, request, |it| it.topics[0].partitions[0].error_code);

    let named =
        metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(TOPIC)));
    let request = MetadataRequest::default().with_topics(Some(vec![named]));
    ask!("Metadata", 9, request, |it| it.topics[0].error_code);
    let unknown =
        metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name("no")));
    let request = MetadataRequest::default().with_topics(Some(vec![unknown]));
    ask!("Metadata of no topic", 9, request, |it| it.topics[0].error_code);
    ask!("Metadata of all", 9, MetadataRequest::default().with_topics(None), |it| {
        it.topics
            .iter()
            .find(|topic| topic.name == Some(topic_name(TOPIC)))
            .map_or(ABSENT, |t| t.error_code)
    });
    let topic =
        describe_topic_partitions_request::TopicRequest::default().with_name(topic_name(TOPIC));
    let request = DescribeTopicPartitionsRequest::default()
        .with_topics(vec![topic])
        .with_response_partition_limit(10)
        .with_cursor(None);
    ask!("DescribeTopicPartitions", 0, request, |it| it.topics[0].error_code);
    ask!("DescribeCluster", 1, DescribeClusterRequest::default(), |it| it.error_code);
    let topic = create_topics_request::CreatableTopic::default()
        .with_name(topic_name("new"))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default()
        .with_timeout_ms(TIMEOUT_MS)
        .with_validate_only(true)
        .with_topics(vec![topic]);
    ask!("CreateTopics", 7, request.clone(), |it| it.topics[0].error_code);
    ask!("CreateTopics: settings", 7, request, |it| it.topics[0].topic_config_error_code);
    let topic = create_partitions_request::CreatePartitionsTopic::default()
        .with_name(topic_name(TOPIC))
        .with_count(5)
        .with_assignments(None);
    let request = CreatePartitionsRequest::default()
        .with_timeout_ms(TIMEOUT_MS)
        .with_validate_only(true)
        .with_topics(vec![topic]);
    ask!("CreatePartitions", 3, request, |it| it.results[0].error_code);
    let request = DeleteTopicsRequest::default()
        .with_timeout_ms(TIMEOUT_MS)
        .with_topic_names(vec![topic_name("no")]);
    ask!("DeleteTopics", 5, request, |it| it.responses[0].error_code);
    for (name, kind, resource) in [("topic", 2, TOPIC), ("broker", 4, "1")] {
        let resource = describe_configs_request::DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(string(resource))
            .with_configuration_keys(None);
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let code = client.call(&request, 4).await.results[0].error_code;
        all.insert(
            if name == "topic" {
                "DescribeConfigs of a topic"
            } else {
                "DescribeConfigs of a broker"
            },
            code,
        );
    }
    for (kind, resource) in [(2, TOPIC), (4, "1")] {
        let config = incremental_alter_configs_request::AlterableConfig::default()
            .with_name(string(if kind == 2 { "retention.ms" } else { "log.retention.ms" }))
            .with_value(Some(string("5000")));
        let resource = incremental_alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(string(resource))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default()
            .with_validate_only(true)
            .with_resources(vec![resource]);
        let code = client.call(&request, 1).await.responses[0].error_code;
        all.insert(
            if kind == 2 {
                "IncrementalAlterConfigs of a topic"
            } else {
                "IncrementalAlterConfigs of a broker"
            },
            code,
        );
    }

    for (kind, key) in [(0, GROUP), (1, ID)] {
        let request = FindCoordinatorRequest::default()
            .with_key_type(kind)
            .with_coordinator_keys(vec![string(key)]);
        let code = client.call(&request, 4).await.coordinators[0].error_code;
        all.insert(
            if kind == 0 {
                "FindCoordinator of a group"
            } else {
                "FindCoordinator of a transaction"
            },
            code,
        );
        let request = FindCoordinatorRequest::default().with_key_type(kind).with_key(string(key));
        let old = client.call(&request, 2).await.error_code;
        assert_eq!(old, code, "FindCoordinator 2");
    }
    let partition =
        offset_commit_request::OffsetCommitRequestPartition::default().with_committed_offset(1);
    let topic = offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(-1)
        .with_group_instance_id(None)
        .with_topics(vec![topic]);
    ask!("OffsetCommit", 8, request, |it| it.topics[0].partitions[0].error_code);
    let topic = offset_fetch_request::OffsetFetchRequestTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partition_indexes(vec![0]);
    let request = OffsetFetchRequest::default().with_group_id(group());
    ask!("OffsetFetch 7", 7, request.clone().with_topics(Some(vec![topic])), |it| {
        it.topics.first().map_or(it.error_code, |topic| topic.partitions[0].error_code)
    });
    ask!("OffsetFetch 7 of all", 7, request.with_topics(None), |it| {
        if it.error_code != 0 {
            it.error_code
        } else if it.topics.is_empty() {
            ABSENT
        } else {
            0
        }
    });
    let topic = offset_fetch_request::OffsetFetchRequestTopics::default()
        .with_name(topic_name(TOPIC))
        .with_partition_indexes(vec![0]);
    let wanted = |topics| {
        let group = offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(group())
            .with_member_id(None)
            .with_topics(topics);
        OffsetFetchRequest::default().with_groups(vec![group])
    };
    ask!("OffsetFetch", 9, wanted(Some(vec![topic])), |it| {
        it.groups[0]
            .topics
            .first()
            .map_or(it.groups[0].error_code, |topic| topic.partitions[0].error_code)
    });
    ask!("OffsetFetch of all", 9, wanted(None), |it| {
        let group = &it.groups[0];
        if group.error_code != 0 {
            group.error_code
        } else if group.topics.is_empty() {
            ABSENT
        } else {
            0
        }
    });
    let topic =
        describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestTopic::default()
            .with_topic_name(topic_name(TOPIC))
            .with_partitions(vec![0]);
    let share =
        describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup::default()
            .with_group_id(group())
            .with_topics(Some(vec![topic]));
    let request = DescribeShareGroupOffsetsRequest::default().with_groups(vec![share]);
    ask!("DescribeShareGroupOffsets", 0, request, |it| it.groups[0].error_code);
    let partition =
        alter_share_group_offsets_request::AlterShareGroupOffsetsRequestPartition::default()
            .with_partition_index(0)
            .with_start_offset(1);
    let topic = alter_share_group_offsets_request::AlterShareGroupOffsetsRequestTopic::default()
        .with_topic_name(topic_name(TOPIC))
        .with_partitions(vec![partition]);
    let request =
        AlterShareGroupOffsetsRequest::default().with_group_id(group()).with_topics(vec![topic]);
    ask!("AlterShareGroupOffsets", 0, request, |it| it.error_code);
    let topic = offset_delete_request::OffsetDeleteRequestTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partitions(vec![
            offset_delete_request::OffsetDeleteRequestPartition::default().with_partition_index(9),
        ]);
    let request = OffsetDeleteRequest::default().with_group_id(group()).with_topics(vec![topic]);
    ask!("OffsetDelete", 0, request, |it| {
        if it.error_code != 0 { it.error_code } else { it.topics[0].partitions[0].error_code }
    });
    ask!("ListGroups", 4, ListGroupsRequest::default(), |it| {
        it.groups.iter().find(|found| found.group_id == group()).map_or(ABSENT, |_| it.error_code)
    });
    ask!("DescribeGroups", 5, DescribeGroupsRequest::default().with_groups(vec![group()]), |it| it
        .groups[0]
        .error_code);
    ask!(
        "ConsumerGroupDescribe",
        0,
        ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]),
        |it| it.groups[0].error_code
    );
    ask!(
        "DeleteGroups",
        2,
        DeleteGroupsRequest::default().with_groups_names(vec![GroupId(string("no"))]),
        |it| it.results[0].error_code
    );
    ask!(
        "JoinGroup",
        7,
        JoinGroupRequest::default()
            .with_group_id(group())
            .with_session_timeout_ms(10_000)
            .with_rebalance_timeout_ms(10_000)
            .with_protocol_type(string("consumer"))
            .with_group_instance_id(None)
            .with_member_id(string("no")),
        |it| it.error_code
    );
    ask!(
        "SyncGroup",
        5,
        SyncGroupRequest::default()
            .with_group_id(group())
            .with_member_id(string("no"))
            .with_group_instance_id(None)
            .with_protocol_name(Some(string("range")))
            .with_protocol_type(Some(string("consumer"))),
        |it| it.error_code
    );
    ask!(
        "Heartbeat",
        4,
        HeartbeatRequest::default()
            .with_group_id(group())
            .with_member_id(string("no"))
            .with_group_instance_id(None),
        |it| it.error_code
    );
    ask!(
        "LeaveGroup",
        2,
        LeaveGroupRequest::default().with_group_id(group()).with_member_id(string("no")),
        |it| it.error_code
    );
    ask!(
        "ConsumerGroupHeartbeat",
        0,
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(string("no")))
            .with_member_id(string("no"))
            .with_member_epoch(7)
            .with_instance_id(None)
            .with_rack_id(None)
            .with_rebalance_timeout_ms(-1)
            .with_subscribed_topic_names(Some(vec![topic_name(TOPIC)]))
            .with_server_assignor(None)
            .with_topic_partitions(None),
        |it| it.error_code
    );

    let init =
        InitProducerIdRequest::default().with_producer_id(ProducerId(-1)).with_producer_epoch(-1);
    ask!("InitProducerId", 4, init.clone().with_transactional_id(None), |it| it.error_code);
    // A timeout that is refused: it must have no effect.
    ask!(
        "InitProducerId of a transaction",
        4,
        init.with_transactional_id(Some(transactional_id())).with_transaction_timeout_ms(i32::MAX),
        |it| it.error_code
    );
    let topic = add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partitions(vec![0]);
    let request = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(transactional_id())
        .with_v3_and_below_producer_id(ProducerId(5))
        .with_v3_and_below_topics(vec![topic.clone()]);
    ask!("AddPartitionsToTxn", 3, request, |it| it.results_by_topic_v3_and_below[0]
        .results_by_partition[0]
        .partition_error_code);
    let transaction = add_partitions_to_txn_request::AddPartitionsToTxnTransaction::default()
        .with_transactional_id(transactional_id())
        .with_producer_id(ProducerId(5))
        .with_topics(vec![topic]);
    ask!(
        "AddPartitionsToTxn by a broker",
        4,
        AddPartitionsToTxnRequest::default().with_transactions(vec![transaction]),
        |it| {
            it.results_by_transaction.first().map_or(it.error_code, |it| {
                it.topic_results[0].results_by_partition[0].partition_error_code
            })
        }
    );
    ask!(
        "AddOffsetsToTxn",
        3,
        AddOffsetsToTxnRequest::default()
            .with_transactional_id(transactional_id())
            .with_producer_id(ProducerId(5))
            .with_group_id(group()),
        |it| it.error_code
    );
    ask!(
        "EndTxn",
        3,
        EndTxnRequest::default()
            .with_transactional_id(transactional_id())
            .with_producer_id(ProducerId(5)),
        |it| it.error_code
    );
    let partition = txn_offset_commit_request::TxnOffsetCommitRequestPartition::default();
    let topic = txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partitions(vec![partition]);
    ask!(
        "TxnOffsetCommit",
        3,
        TxnOffsetCommitRequest::default()
            .with_transactional_id(transactional_id())
            .with_producer_id(ProducerId(5))
            .with_group_id(group())
            .with_generation_id(-1)
            .with_group_instance_id(None)
            .with_topics(vec![topic]),
        |it| it.topics[0].partitions[0].error_code
    );
    let topic = write_txn_markers_request::WritableTxnMarkerTopic::default()
        .with_name(topic_name("no"))
        .with_partition_indexes(vec![0]);
    let marker = write_txn_markers_request::WritableTxnMarker::default()
        .with_producer_id(ProducerId(5))
        .with_topics(vec![topic]);
    ask!(
        "WriteTxnMarkers",
        1,
        WriteTxnMarkersRequest::default().with_markers(vec![marker]),
        |it| it.markers[0].topics[0].partitions[0].error_code
    );
    ask!(
        "DescribeTransactions",
        0,
        DescribeTransactionsRequest::default().with_transactional_ids(vec![transactional_id()]),
        |it| it.transaction_states[0].error_code
    );

    ask!(
        "DescribeAcls",
        3,
        DescribeAclsRequest::default()
            .with_resource_type_filter(1)
            .with_resource_name_filter(None)
            .with_pattern_type_filter(1)
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(1)
            .with_permission_type(1),
        |it| it.error_code
    );
    let acl = create_acls_request::AclCreation::default()
        .with_resource_type(2)
        .with_resource_name(string("no"))
        .with_resource_pattern_type(3)
        .with_principal(string("User:nobody"))
        .with_host(string("*"))
        .with_operation(3)
        .with_permission_type(3);
    ask!("CreateAcls", 3, CreateAclsRequest::default().with_creations(vec![acl]), |it| it.results
        [0]
    .error_code);
    let filter = delete_acls_request::DeleteAclsFilter::default()
        .with_resource_type_filter(2)
        .with_resource_name_filter(Some(string("no")))
        .with_pattern_type_filter(3)
        .with_principal_filter(Some(string("User:nobody")))
        .with_host_filter(None)
        .with_operation(1)
        .with_permission_type(1);
    ask!("DeleteAcls", 3, DeleteAclsRequest::default().with_filters(vec![filter]), |it| it
        .filter_results[0]
        .error_code);
    ask!("DescribeClientQuotas", 1, DescribeClientQuotasRequest::default(), |it| it.error_code);
    let entity = alter_client_quotas_request::EntityData::default()
        .with_entity_type(string("client-id"))
        .with_entity_name(None);
    let op = alter_client_quotas_request::OpData::default()
        .with_key(string("producer_byte_rate"))
        .with_value(1e9);
    let entry = alter_client_quotas_request::EntryData::default()
        .with_entity(vec![entity])
        .with_ops(vec![op]);
    ask!(
        "AlterClientQuotas",
        1,
        AlterClientQuotasRequest::default().with_entries(vec![entry]).with_validate_only(true),
        |it| it.entries[0].error_code
    );
    let config = alter_configs_request::AlterableConfig::default()
        .with_name(string("retention.ms"))
        .with_value(Some(string("5000")));
    let resource = alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(string(TOPIC))
        .with_configs(vec![config]);
    let request =
        AlterConfigsRequest::default().with_validate_only(true).with_resources(vec![resource]);
    ask!("AlterConfigs of a topic", 2, request, |it| it.responses[0].error_code);
    ask!("DescribeLogDirs", 4, DescribeLogDirsRequest::default().with_topics(None), |it| it
        .error_code);
    let partitions = elect_leaders_request::TopicPartitions::default()
        .with_topic(topic_name(TOPIC))
        .with_partitions(vec![0]);
    let request = ElectLeadersRequest::default()
        .with_timeout_ms(TIMEOUT_MS)
        .with_topic_partitions(Some(vec![partitions]));
    ask!("ElectLeaders", 2, request, |it| it.error_code);
    let request = AlterPartitionReassignmentsRequest::default().with_timeout_ms(TIMEOUT_MS);
    ask!("AlterPartitionReassignments", 0, request, |it| it.error_code);
    let request =
        ListPartitionReassignmentsRequest::default().with_timeout_ms(TIMEOUT_MS).with_topics(None);
    ask!("ListPartitionReassignments", 0, request, |it| it.error_code);
    let partition = describe_quorum_request::PartitionData::default().with_partition_index(0);
    let topic = describe_quorum_request::TopicData::default()
        .with_topic_name(topic_name("__cluster_metadata"))
        .with_partitions(vec![partition]);
    let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
    ask!("DescribeQuorum", 2, request, |it| it.error_code);
    ask!("ListConfigResources", 1, ListConfigResourcesRequest::default(), |it| it.error_code);
    all
}

fn key_of<R: Request>(_: &R) -> ApiKey {
    R::KEY
}

/// Every right that means something, on everything of its kind.
fn single_rights() -> Vec<Acl> {
    use Operation as O;
    let rights: [(Resource, &str, &[Operation]); 4] = [
        (
            Resource::Topic,
            "*",
            &[
                O::Read,
                O::Write,
                O::Create,
                O::Delete,
                O::Alter,
                O::Describe,
                O::DescribeConfigs,
                O::AlterConfigs,
                O::All,
            ],
        ),
        (
            Resource::Group,
            "*",
            &[O::Read, O::Delete, O::Describe, O::DescribeConfigs, O::AlterConfigs, O::All],
        ),
        (
            Resource::Cluster,
            "kafka-cluster",
            &[
                O::Create,
                O::Alter,
                O::Describe,
                O::ClusterAction,
                O::DescribeConfigs,
                O::AlterConfigs,
                O::IdempotentWrite,
                O::All,
            ],
        ),
        (Resource::TransactionalId, "*", &[O::Write, O::Describe, O::All]),
    ];
    let acls = rights.iter().flat_map(|&(resource, name, operations)| {
        operations.iter().map(move |&operation| Acl::allow("User:alice", operation, resource, name))
    });
    acls.collect()
}

/// One line per request: what is answered without any right, and under which single rights else what.
fn lines(
    without: &BTreeMap<&'static str, i16>,
    with: &[(Acl, BTreeMap<&'static str, i16>)],
) -> Vec<String> {
    let line = |(name, code): (&&str, &i16)| {
        let mut by_code: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (acl, codes) in with {
            let other = codes[name];
            if other != *code {
                // What is answered to somebody who may is another test's affair.
                let other = if REFUSALS.contains(&other) || other == ABSENT {
                    other.to_string()
                } else {
                    "ok".to_owned()
                };
                by_code
                    .entry(other)
                    .or_default()
                    .push(format!("{:?} {:?}", acl.resource, acl.operation));
            }
        }
        let with: Vec<String> = by_code
            .iter()
            .map(|(code, rights)| format!("{code} with {}", rights.join(", ")))
            .collect();
        format!("{name}: {code}; {}", with.join("; "))
    };
    without.iter().map(line).collect()
}

pub(crate) fn guarded() -> EmbeddedCluster {
    let mut options = EmbeddedOptions::new("hello");
    options.authorizer = Some(AuthorizerOptions {
        super_users: vec!["User:ANONYMOUS".to_owned()],
        allow_everyone_if_no_acl_found: false,
    });
    options.auto_create_topics = true; // as on the broker that printed the table
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    cluster.append(TOPIC, 0, &records(3)).unwrap();
    cluster.commit_offset(GROUP, TOPIC, 0, 1).unwrap();
    cluster
}

pub(crate) fn alice(cluster: &EmbeddedCluster) -> Client {
    let (host, port) = cluster.addresses()[0].clone();
    Client::over(cluster.connect_as(&host, port, "User:alice").unwrap())
}

#[tokio::test(start_paused = true)]
async fn every_request_needs_the_right_that_kafka_wants() {
    let cluster = guarded();
    let mut client = alice(&cluster);
    let without = codes(&mut client).await;
    let mut with = Vec::new();
    for acl in single_rights() {
        cluster.add_acl(acl.clone());
        with.push((acl.clone(), codes(&mut client).await));
        assert!(cluster.remove_acl(&acl));
    }
    // Nothing that is served is forgotten here.
    let free = ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "ListTransactions"];
    for api in ApiKey::ALL.iter().filter(|&&api| KafkaVersion::V4_3.versions(api).is_some()) {
        let asked = without.keys().any(|name| name.split(' ').next() == Some(api.name()));
        assert!(asked || free.contains(&api.name()), "{api}");
    }
    let found = lines(&without, &with);
    let expected: Vec<&str> = include_str!("rights.txt").lines().collect();
    for line in &found {
        assert!(
            expected.contains(&line.as_str()),
            "{line}\nis not in rights.txt, where it is\n{:?}",
            expected.iter().find(|known| known.split(':').next() == line.split(':').next())
        );
    }
}
