//! Topics and their settings.

use std::collections::BTreeMap;

use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, KafkaVersion};
use twinlog_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use twinlog_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use twinlog_protocol::messages::*;

use crate::support::*;

fn started(version: KafkaVersion) -> EmbeddedCluster {
    let mut options = EmbeddedOptions::new("hello");
    options.version = version;
    EmbeddedCluster::start(options)
}

async fn create(
    client: &mut Client,
    name: &str,
    replication: i16,
    configs: &[(&str, Option<&str>)],
) -> (i16, String) {
    let config = |(name, value): &(&str, Option<&str>)| {
        CreatableTopicConfig::default().with_name(string(name)).with_value(value.map(string))
    };
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(1)
        .with_replication_factor(replication)
        .with_configs(configs.iter().map(config).collect());
    let answer = client.call(&CreateTopicsRequest::default().with_topics(vec![topic]), 7).await;
    let result = &answer.topics[0];
    let message =
        result.error_message.as_ref().map(std::string::ToString::to_string).unwrap_or_default();
    assert_eq!(result.error_code == 0, !result.topic_id.is_nil());
    (result.error_code, message)
}

#[tokio::test(start_paused = true)]
async fn topics_are_created_and_refused_as_by_kafka() {
    type Row = (&'static str, Option<&'static str>, (i16, i16), &'static str);
    let rows: &[Row] = &[
        ("leader.replication.throttled.replicas", Some("*"), (0, 0), ""),
        ("follower.replication.throttled.replicas", Some("0:1"), (0, 0), ""),
        (
            "remote.storage.enable",
            Some("true"),
            (40, 40),
            "Tiered Storage functionality is disabled in the broker",
        ),
        ("remote.storage.enable", Some("false"), (0, 0), ""),
        ("local.retention.ms", Some("-2"), (0, 0), ""),
        ("x", Some("1"), (40, 40), "Unknown topic config name: x"),
        ("message.format.version", Some("3.0-IV1"), (40, 0), "Unknown topic config name"),
        ("message.downconversion.enable", Some("true"), (40, 0), "Unknown topic config name"),
        ("message.timestamp.difference.max.ms", Some("5"), (40, 0), "Unknown topic config name"),
        ("segment.bytes", Some("1048575"), (40, 0), "Value must be at least 1048576"),
        ("segment.bytes", Some("13"), (40, 40), "Value must be at least"),
        ("min.insync.replicas", Some("5"), (0, 0), ""),
        ("cleanup.policy", Some(""), (0, 0), ""),
        ("cleanup.policy", Some("compact,delete"), (0, 0), ""),
        ("cleanup.policy", Some("forget"), (40, 40), "String must be one of"),
        (
            "retention.ms",
            None,
            (40, 40),
            "Null value not supported for topic configs: retention.ms",
        ),
        ("retention.ms", Some("soon"), (40, 40), "Not a number"),
    ];
    for (version, newest) in [(KafkaVersion::V4_3, true), (KafkaVersion::V3_9, false)] {
        let cluster = started(version);
        let mut client = Client::to(&cluster, 1);
        for (index, (name, value, codes, message)) in rows.iter().enumerate() {
            let expected = if newest { codes.0 } else { codes.1 };
            let (code, said) =
                create(&mut client, &format!("t{index}"), 1, &[(*name, *value)]).await;
            assert_eq!(code, expected, "{version:?} {name}={value:?}: {said}");
            assert!(code == 0 || said.contains(message), "{said}");
        }
        assert_eq!(create(&mut client, "many", 2, &[]).await.0, 38);
        assert_eq!(create(&mut client, "a.b", 1, &[]).await.0, 0);
        let (code, said) = create(&mut client, "a_b", 1, &[]).await;
        assert_eq!((code, said.contains("collides with existing topic")), (17, true));
        assert_eq!(create(&mut client, "a.b", 1, &[]).await.0, 36);
        assert_eq!(create(&mut client, "a b", 1, &[]).await.0, 17);
    }
}

async fn described(client: &mut Client) -> BTreeMap<String, (String, i8)> {
    let resource = describe_configs_request::DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(string(TOPIC))
        .with_configuration_keys(None);
    let answer =
        client.call(&DescribeConfigsRequest::default().with_resources(vec![resource]), 4).await;
    assert_eq!(answer.results[0].error_code, 0);
    let entry = |c: &describe_configs_response::DescribeConfigsResourceResult| {
        (c.name.to_string(), (c.value.as_ref().unwrap().to_string(), c.config_source))
    };
    answer.results[0].configs.iter().map(entry).collect()
}

#[tokio::test(start_paused = true)]
async fn described_values_can_be_given_back() {
    for (version, count, after) in
        [(KafkaVersion::V4_3, 33, "3600000"), (KafkaVersion::V3_9, 36, "9223372036854775807")]
    {
        let cluster = started(version);
        cluster.create_topic(TOPIC, 1, &[("retention.ms", "5000")]).unwrap();
        let mut client = Client::to(&cluster, 1);
        let all = described(&mut client).await;
        assert_eq!(all.len(), count);
        assert_eq!(all["retention.ms"], ("5000".to_owned(), 1));
        assert_eq!(all["cleanup.policy"], ("delete".to_owned(), 5));
        assert_eq!(all["message.timestamp.after.max.ms"].0, after);
        assert_eq!(all["min.insync.replicas"].1, if version == KafkaVersion::V4_3 { 3 } else { 5 });
        let explicit: Vec<(&str, Option<&str>)> =
            all.iter().map(|(name, (value, _))| (name.as_str(), Some(value.as_str()))).collect();
        assert_eq!(create(&mut client, "copy", 1, &explicit).await, (0, String::new()));
    }
}

async fn alter(
    client: &mut Client,
    name: &str,
    operation: i8,
    value: Option<&str>,
) -> (i16, String) {
    let config = AlterableConfig::default()
        .with_name(string(name))
        .with_config_operation(operation)
        .with_value(value.map(string));
    let resource = AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(string(TOPIC))
        .with_configs(vec![config]);
    let answer = client
        .call(&IncrementalAlterConfigsRequest::default().with_resources(vec![resource]), 1)
        .await;
    let result = &answer.responses[0];
    (
        result.error_code,
        result.error_message.as_ref().map(std::string::ToString::to_string).unwrap_or_default(),
    )
}

#[tokio::test(start_paused = true)]
async fn settings_are_altered_one_by_one() {
    const SET: i8 = 0;
    const DELETE: i8 = 1;
    const APPEND: i8 = 2;
    const SUBTRACT: i8 = 3;
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    type Row = (&'static str, i8, Option<&'static str>, i16, Option<(&'static str, i8)>);
    let rows: &[Row] = &[
        ("retention.ms", SET, Some("5000"), 0, Some(("5000", 1))),
        ("retention.ms", DELETE, None, 0, Some(("604800000", 5))),
        ("retention.ms", DELETE, None, 0, Some(("604800000", 5))),
        ("retention.ms", DELETE, Some("7"), 0, Some(("604800000", 5))),
        ("x", DELETE, None, 0, None),
        ("x", SET, Some("1"), 40, None),
        ("retention.ms", APPEND, Some("1"), 40, Some(("604800000", 5))),
        ("retention.ms", SUBTRACT, Some("1"), 40, Some(("604800000", 5))),
        ("cleanup.policy", APPEND, Some("compact"), 0, Some(("delete,compact", 1))),
        ("cleanup.policy", SUBTRACT, Some("delete"), 0, Some(("compact", 1))),
        ("cleanup.policy", SUBTRACT, Some("delete"), 0, Some(("compact", 1))),
        ("cleanup.policy", SUBTRACT, Some("compact"), 0, Some(("", 1))),
        ("cleanup.policy", DELETE, None, 0, Some(("delete", 5))),
    ];
    for (name, operation, value, code, after) in rows {
        let (answered, message) = alter(&mut client, name, *operation, *value).await;
        assert_eq!(answered, *code, "{name} {operation} {value:?}: {message}");
        let now = described(&mut client).await;
        let now = now.get(*name).map(|(value, source)| (value.as_str(), *source));
        assert_eq!(now, *after, "{name} {operation} {value:?}");
    }
    let (_, message) = alter(&mut client, "retention.ms", SUBTRACT, Some("1")).await;
    assert_eq!(message, "Can't SUBTRACT to key retention.ms because its type is not LIST.");
}

#[tokio::test(start_paused = true)]
async fn partitions_only_grow() {
    use create_partitions_request::CreatePartitionsTopic;
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    for (count, code) in [(1, 37), (0, 37), (3, 0), (3, 37)] {
        let topic = CreatePartitionsTopic::default()
            .with_name(topic_name(TOPIC))
            .with_count(count)
            .with_assignments(None);
        let answer =
            client.call(&CreatePartitionsRequest::default().with_topics(vec![topic]), 3).await;
        assert_eq!(answer.results[0].error_code, code, "{count}");
    }
    assert_eq!(cluster.partitions(TOPIC), 3);
}

#[tokio::test(start_paused = true)]
async fn topics_are_deleted_by_name_or_id() {
    let cluster = cluster();
    cluster.create_topic("other", 1, &[]).unwrap();
    let mut client = Client::to(&cluster, 1);
    let id = Uuid::from_bytes(cluster.topic_id(TOPIC).unwrap().0);
    let by_id =
        delete_topics_request::DeleteTopicState::default().with_name(None).with_topic_id(id);
    let request = DeleteTopicsRequest::default().with_topics(vec![by_id]);
    assert_eq!(client.call(&request, 6).await.responses[0].error_code, 0);
    assert_eq!(client.call(&request, 6).await.responses[0].error_code, 100);
    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("other")]);
    assert_eq!(client.call(&request, 5).await.responses[0].error_code, 0);
    assert_eq!(client.call(&request, 5).await.responses[0].error_code, 3);
    assert!(cluster.topics().is_empty());
}
