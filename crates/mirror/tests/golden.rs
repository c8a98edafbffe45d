//! What Kafka 4.3.0's own classes make of files, values and patterns, against what we make of them.
//!
//! The data were printed by `java.util.Properties`, `ConfigDef`, `java.util.regex` and MM2's
//! `MirrorMakerConfig`, `MirrorSourceConfig` and `MirrorCheckpointConfig`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use twinlog_mirror::{
    ClientProperties, Configuration, FlowConfig, NameFilter, PolicyKind, Properties, Reading,
    parse_bool, parse_double, parse_int, parse_list, parse_long, parse_short,
};

macro_rules! data {
    ($($name:literal)*) => {
        /// A file of `tests/data`.
        fn data(name: &str) -> &'static [u8] {
            match name {
                $($name => include_bytes!(concat!("data/", $name)),)*
                name => panic!("no data are called {name}"),
            }
        }
    };
}

data! {
    "active-active.properties"
    "active-active.resolved.json"
    "active-passive.properties"
    "active-passive.resolved.json"
    "config-providers.properties"
    "config-providers.resolved.json"
    "hostile.properties"
    "hostile.resolved.json"
    "hub-and-spoke.properties"
    "hub-and-spoke.resolved.json"
    "identity.properties"
    "identity.resolved.json"
    "invalid-empty-item.properties"
    "invalid-empty-item.resolved.json"
    "overrides.properties"
    "overrides.resolved.json"
    "regex.json"
    "sasl-ssl.properties"
    "sasl-ssl.resolved.json"
    "separator.properties"
    "separator.resolved.json"
    "strimzi-like.properties"
    "strimzi-like.resolved.json"
    "syntax.json"
    "syntax.properties"
    "three-clusters.properties"
    "three-clusters.resolved.json"
    "types.json"
}

fn json(name: &str) -> Value {
    serde_json::from_slice(data(name)).expect("JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn map(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().expect("an object").iter();
    entries.map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().expect("an array").iter().map(|item| text(item).to_owned()).collect()
}

#[test]
fn files_are_read_as_java_util_properties_reads_them() {
    let read = |bytes: &[u8]| -> Option<BTreeMap<String, String>> {
        let properties = Properties::parse(bytes).ok()?;
        Some(properties.entries().map(|e| (e.key.clone(), e.value.clone())).collect())
    };
    let expected = json("syntax.json");
    assert_eq!(read(data("syntax.properties")), Some(map(&expected["file"])));
    let snippets = expected["snippets"].as_array().expect("snippets");
    assert!(snippets.len() > 30);
    for snippet in snippets {
        let input = base64(text(&snippet["inputBase64"]));
        let result = snippet.get("result").map(map);
        assert_eq!(read(&input), result, "{}", snippet["inputText"]);
    }
}

fn base64(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = alphabet.iter().position(|c| *c == byte).expect("base64");
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

#[test]
fn values_are_parsed_as_config_def_parses_them() {
    let types = json("types.json");
    let check = |kind: &str, parse: &dyn Fn(&str) -> Option<Value>| {
        for case in types[kind].as_array().expect("cases") {
            let input = text(&case["in"]);
            assert_eq!(parse(input).as_ref(), case.get("out"), "{kind} {input:?}");
        }
    };
    check("list", &|text| Some(Value::from(parse_list(text))));
    check("boolean", &|text| parse_bool(text).ok().map(Value::from));
    check("int", &|text| parse_int(text).ok().map(Value::from));
    check("long", &|text| parse_long(text).ok().map(Value::from));
    check("short", &|text| parse_short(text).ok().map(Value::from));
    check("double", &|text| parse_double(text).ok().map(Value::from));
}

#[test]
fn patterns_match_what_java_util_regex_matches() {
    let regex = json("regex.json");
    let cases = regex.as_array().expect("cases");
    assert!(cases.len() > 100);
    let mut wrong = Vec::new();
    for case in cases {
        let list = parse_list(text(&case["list"]));
        match (NameFilter::new(&list, &[]), case.get("matches")) {
            (Ok(filter), Some(matches)) => {
                for (name, expected) in matches.as_object().expect("matches") {
                    if Some(filter.matches(name)) != expected.as_bool() {
                        wrong.push(format!("{} on {name:?}: not {expected}", case["list"]));
                    }
                }
            }
            (Err(_), None) => {}
            (Ok(_), None) => wrong.push(format!("{} must be refused", case["list"])),
            (Err(error), Some(_)) => wrong.push(format!("{}: {error}", case["list"])),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const FILES: &[&str] = &[
    "active-active",
    "active-passive",
    "config-providers",
    "hostile",
    "hub-and-spoke",
    "identity",
    "invalid-empty-item",
    "overrides",
    "sasl-ssl",
    "separator",
    "strimzi-like",
    "three-clusters",
];

/// What the providers knew when the expected values were printed.
fn resolver(provider: &str, path: &str, key: &str) -> Result<String, String> {
    let value = match (provider, path, key) {
        ("env", "", "TWINLOG_TEST_BOOTSTRAP") => "hello:9092",
        ("env", "", "TWINLOG_TEST_ENABLED") => "true",
        ("file", "/opt/twinlog-test/secrets.properties", key) => match key {
            "world.bootstrap" => "world:9092",
            "user" => "FAKEUSER",
            "password" => "FAKE$ecret",
            "topics" => "a,b.*",
            _ => return Err("no such key".into()),
        },
        _ => return Err("no such key".into()),
    };
    Ok(value.to_owned())
}

fn read(name: &str) -> Reading {
    let file = format!("{name}.properties");
    Configuration::read(&file, data(&file), &[], Some(&resolver))
}

/// Every kept flow: those that copy and those that only beat.
fn flows(configuration: &Configuration) -> BTreeMap<String, &FlowConfig> {
    let all = configuration.flows().iter().chain(configuration.heartbeat_flows());
    all.map(|flow| (flow.name.to_string(), flow)).collect()
}

#[test]
fn clusters_and_pairs_are_those_of_mm2() {
    for name in FILES {
        let expected = json(&format!("{name}.resolved.json"));
        let Reading { configuration, .. } = read(name);
        let clusters: BTreeSet<String> =
            configuration.clusters().iter().map(|cluster| cluster.alias.to_string()).collect();
        assert_eq!(clusters, strings(&expected["clusters"]).into_iter().collect(), "{name}");
        let pairs: BTreeSet<String> = flows(&configuration).into_keys().collect();
        assert_eq!(pairs, strings(&expected["clusterPairs"]).into_iter().collect(), "{name}");
    }
}

#[test]
fn every_level_reaches_what_it_reaches_in_mm2() {
    for name in FILES {
        let expected = json(&format!("{name}.resolved.json"));
        let file = format!("{name}.properties");
        // What connectors are told still has its variables in it; a worker's are resolved.
        let raw = Configuration::read(&file, data(&file), &[], None).configuration;
        let resolved = read(name).configuration;
        for cluster in raw.clusters() {
            let properties = map(&expected["clusterProps"][cluster.alias.as_str()]);
            assert_eq!(*cluster.properties, properties, "{name} {}", cluster.alias);
        }
        for (pair, flow) in flows(&raw) {
            let connector = map(&expected["flows"][&pair]["sourceConnector"]);
            assert_eq!(*flow.connector, connector, "{name} {pair}");
        }
        for (pair, flow) in flows(&resolved) {
            let worker = map(&expected["flows"][&pair]["workerConfig"]);
            assert_eq!(*flow.worker, worker, "{name} {pair}");
        }
    }
}

#[test]
fn flows_have_the_values_that_mm2_gives_them() {
    let mut compared = 0;
    for name in FILES {
        let expected = json(&format!("{name}.resolved.json"));
        // The classes that printed the data resolved what the file provider knows, and no more.
        let file = format!("{name}.properties");
        let file_only = |provider: &str, path: &str, key: &str| match provider {
            "file" => resolver(provider, path, key),
            _ => Err("not asked".to_owned()),
        };
        let Reading { configuration, problems, .. } =
            Configuration::read(&file, data(&file), &[], Some(&file_only));
        for (pair, flow) in flows(&configuration) {
            let about = format!("{name} {pair}");
            let expected = &expected["flows"][&pair];
            let source = &expected["source"];
            let checkpoint = &expected["checkpoint"];
            if source.get("error").is_none() {
                compared += 1;
                compare_values(flow, &source["values"], &about);
                compare_clients(flow, source, &about);
                let topic = text(&source["offsetSyncsTopic"]);
                assert_eq!(flow.offset_syncs_topic().as_str(), topic, "{about}");
                let topic = text(&source["checkpointsTopic"]);
                assert_eq!(flow.checkpoints_topic().as_str(), topic, "{about}");
            } else {
                assert!(!problems.is_empty(), "MM2 refuses {about}");
            }
            if checkpoint.get("error").is_none() {
                compared += 1;
                compare_values(flow, checkpoint, &about);
            }
        }
    }
    assert!(compared > 50, "{compared}");
}

fn compare_values(flow: &FlowConfig, values: &Value, about: &str) {
    for (key, expected) in values.as_object().expect("values") {
        let seconds = |enabled: bool, interval: std::time::Duration| {
            if enabled { Value::from(interval.as_secs()) } else { expected.clone() }
        };
        let included = |filter: &NameFilter| Value::from(filter.include().expect("a list"));
        let excluded = |filter: &NameFilter| Value::from(filter.exclude());
        let ours = match key.as_str() {
            "topics" => included(&flow.topics),
            "topics.exclude" => excluded(&flow.topics),
            "groups" => included(&flow.groups),
            "groups.exclude" => excluded(&flow.groups),
            "config.properties.exclude" => excluded(&flow.configs_exclude),
            "enabled" => flow.enabled.into(),
            "replication.factor" => flow.replication_factor.into(),
            "refresh.topics.enabled" => flow.refresh_topics_enabled.into(),
            "refresh.topics.interval.seconds" => {
                seconds(flow.refresh_topics_enabled, flow.refresh_topics_interval)
            }
            "refresh.groups.enabled" => flow.refresh_groups_enabled.into(),
            "refresh.groups.interval.seconds" => {
                seconds(flow.refresh_groups_enabled, flow.refresh_groups_interval)
            }
            "sync.topic.configs.enabled" => flow.sync_topic_configs_enabled.into(),
            "sync.topic.configs.interval.seconds" => {
                seconds(flow.sync_topic_configs_enabled, flow.sync_topic_configs_interval)
            }
            "sync.topic.acls.enabled" => flow.sync_topic_acls_enabled.into(),
            "sync.topic.acls.interval.seconds" => {
                seconds(flow.sync_topic_acls_enabled, flow.sync_topic_acls_interval)
            }
            "heartbeats.replication.enabled" => flow.heartbeats_replication_enabled.into(),
            "emit.checkpoints.enabled" => flow.emit_checkpoints_enabled.into(),
            "emit.checkpoints.interval.seconds" => {
                seconds(flow.emit_checkpoints_enabled, flow.checkpoints_interval)
            }
            "emit.offset-syncs.enabled" => flow.emit_offset_syncs_enabled.into(),
            "offset-syncs.topic.location" => {
                Value::from(if flow.offset_syncs_on_target { "target" } else { "source" })
            }
            "offset-syncs.topic.replication.factor" => {
                flow.offset_syncs_topic_replication_factor.into()
            }
            "checkpoints.topic.replication.factor" => {
                flow.checkpoints_topic_replication_factor.into()
            }
            "offset.lag.max" => flow.offset_lag_max.into(),
            "sync.group.offsets.enabled" => flow.sync_group_offsets_enabled.into(),
            "sync.group.offsets.interval.seconds" => {
                seconds(flow.sync_group_offsets_enabled, flow.sync_group_offsets_interval)
            }
            "replication.policy.class" => {
                let kind = match flow.policy.kind() {
                    PolicyKind::Default => "Default",
                    PolicyKind::Identity => "Identity",
                };
                format!("org.apache.kafka.connect.mirror.{kind}ReplicationPolicy").into()
            }
            "replication.policy.separator" => flow.policy.separator().into(),
            "replication.policy.internal.topic.separator.enabled" => {
                (flow.policy.internal_separator() == flow.policy.separator()).into()
            }
            key => panic!("{about}: {key} is not compared"),
        };
        // With the dot as separator the internal one is the same, whatever the switch says.
        assert_eq!(ours, *expected, "{about} {key}");
    }
}

fn compare_clients(flow: &FlowConfig, source: &Value, about: &str) {
    let clients: [(&str, &ClientProperties); 6] = [
        ("sourceConsumerConfig", &flow.source_consumer),
        ("sourceProducerConfig", &flow.source_producer),
        ("sourceAdminConfig", &flow.source_admin),
        ("targetConsumerConfig", &flow.target_consumer),
        ("targetProducerConfig", &flow.target_producer),
        ("targetAdminConfig", &flow.target_admin),
    ];
    for (name, ours) in clients {
        let mut expected = map(&source[name]);
        // MM2 computes it from names of its connectors.
        expected.remove("client.id");
        assert_eq!(**ours, expected, "{about} {name}");
    }
}

#[test]
fn files_as_users_write_them_are_accepted_without_a_note() {
    for name in [
        "active-active",
        "active-passive",
        "sasl-ssl",
        "separator",
        "strimzi-like",
        "three-clusters",
    ] {
        let Reading { problems, notes, .. } = read(name);
        assert_eq!((problems, notes), (vec![], vec![]), "{name}");
    }
}
