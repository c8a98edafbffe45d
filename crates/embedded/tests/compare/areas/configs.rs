//! DescribeConfigs and IncrementalAlterConfigs of topics.

use twinlog_protocol::messages::describe_configs_request::DescribeConfigsResource;
use twinlog_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use twinlog_protocol::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest, string};

use crate::pair::{Pair, Result};
use crate::sides::Both;

const TOPIC: i8 = 2;

fn describe(resources: &[(i8, &str)], keys: Option<&[&str]>) -> DescribeConfigsRequest {
    let resource = |&(kind, name): &(i8, &str)| {
        DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(string(name))
            .with_configuration_keys(keys.map(|keys| keys.iter().map(|key| string(key)).collect()))
    };
    DescribeConfigsRequest::default().with_resources(resources.iter().map(resource).collect())
}

/// What is special, the resources, and which of their settings.
type Described<'a> = (&'a str, &'a [(i8, &'a str)], Option<&'a [&'a str]>);
/// Name, operation, value.
type Change<'a> = (&'a str, i8, Option<&'a str>);

/// Operations: 0 set, 1 delete, 2 append, 3 subtract.
fn alter(topic: &str, configs: &[Change<'_>]) -> IncrementalAlterConfigsRequest {
    let config = |&(name, operation, value): &Change<'_>| {
        AlterableConfig::default()
            .with_name(string(name))
            .with_config_operation(operation)
            .with_value(value.map(string))
    };
    let resource = AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(string(topic))
        .with_configs(configs.iter().map(config).collect());
    IncrementalAlterConfigsRequest::default().with_resources(vec![resource])
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    let set = [("retention.ms", "86400000"), ("cleanup.policy", "compact")];
    pair.topic("configs", 1, &set)?;
    pair.topic("configs-plain", 1, &[])?;
    let cases: &[Described<'_>] = &[
        ("of a topic", &[(TOPIC, "configs")], None),
        ("of a plain topic", &[(TOPIC, "configs-plain")], None),
        ("of some keys", &[(TOPIC, "configs")], Some(&["retention.ms", "segment.bytes"])),
        ("of an unknown key", &[(TOPIC, "configs")], Some(&["no.such.key"])),
        ("of no keys", &[(TOPIC, "configs")], Some(&[])),
        ("of an absent topic", &[(TOPIC, "configs-absent")], None),
        ("of an empty name", &[(TOPIC, "")], None),
        ("of a name that is none", &[(TOPIC, "a b")], None),
        ("of several", &[(TOPIC, "configs"), (TOPIC, "configs-absent")], Some(&["retention.ms"])),
        ("of nothing", &[], None),
        ("of an unknown kind", &[(77, "x")], None),
    ];
    for (what, resources, keys) in cases {
        pair.step(format!("DescribeConfigs {what}"));
        pair.ask_all(|_| describe(resources, *keys))?;
        pair.step(format!("DescribeConfigs {what}, with synonyms"));
        pair.ask_all(|_| describe(resources, *keys).with_include_synonyms(true))?;
    }

    let refused: &[(&str, &[Change<'_>])] = &[
        ("an unknown name", &[("no.such.key", 0, Some("1"))]),
        ("a value that is no number", &[("retention.ms", 0, Some("soon"))]),
        ("null", &[("retention.ms", 0, None)]),
        ("a deletion with a value", &[("retention.ms", 1, Some("1"))]),
        ("a deletion of an unknown name", &[("no.such.key", 1, None)]),
        ("something added to a number", &[("retention.ms", 2, Some("1"))]),
        ("something taken from a number", &[("retention.ms", 3, Some("1"))]),
        ("an unknown operation", &[("retention.ms", 9, Some("1"))]),
        ("a name twice", &[("retention.ms", 0, Some("1")), ("retention.ms", 0, Some("2"))]),
        ("one of two wrong", &[("retention.ms", 0, Some("1")), ("segment.bytes", 0, Some("1"))]),
        ("an unknown policy added", &[("cleanup.policy", 2, Some("shred"))]),
        ("null added", &[("cleanup.policy", 2, None)]),
        ("nothing", &[]),
    ];
    for (what, configs) in refused {
        pair.step(format!("IncrementalAlterConfigs, only validated, with {what}"));
        pair.ask_all(|_| alter("configs", configs).with_validate_only(true))?;
    }
    pair.step("IncrementalAlterConfigs of an absent topic");
    pair.ask_all(|_| alter("configs-absent", &[("retention.ms", 0, Some("1"))]))?;
    pair.step("IncrementalAlterConfigs of an empty name");
    pair.ask_all(|_| alter("", &[("retention.ms", 0, Some("1"))]))?;

    let changes: &[(&str, i8, Option<&str>, &str)] = &[
        ("retention.ms", 0, Some("1234567"), "1234567"),
        ("retention.ms", 1, None, "604800000"),
        ("cleanup.policy", 2, Some("delete"), "compact,delete"),
        ("cleanup.policy", 3, Some("compact"), "delete"),
        ("cleanup.policy", 3, Some("compact"), "delete"),
        ("cleanup.policy", 1, None, "delete"),
        ("max.message.bytes", 0, Some("2000"), "2000"),
        ("message.timestamp.type", 0, Some("LogAppendTime"), "LogAppendTime"),
        ("compression.type", 0, Some("gzip"), "gzip"),
        ("min.insync.replicas", 0, Some("2"), "2"),
        ("min.insync.replicas", 1, None, "1"),
    ];
    for (index, &(name, operation, value, then)) in changes.iter().enumerate() {
        let version = (index % 2) as i16;
        pair.step(format!("IncrementalAlterConfigs {name} {operation} {value:?}"));
        pair.ask(version, alter("configs", &[(name, operation, value)]))?;
        pair.step(format!("DescribeConfigs after {name} {operation} {value:?}"));
        let request = describe(&[(TOPIC, "configs")], Some(&[name])).with_include_synonyms(true);
        pair.ask_until(4, &Both::same(request), |answer| {
            let entry = answer.results.first().and_then(|result| result.configs.first());
            entry.is_some_and(|entry| {
                // What was taken away may have been the default before.
                let of_the_topic = entry.config_source == 1;
                entry.value.as_deref() == Some(then) && of_the_topic == (operation != 1)
            })
        })?;
    }
    pair.step("DescribeConfigs in the end");
    pair.ask_all(|_| describe(&[(TOPIC, "configs")], None).with_include_synonyms(true))
}
