//! Tables of what is there, and what is concluded from it.

use twinlog_types::ClusterAlias;

use super::{Assumed, Seen, SeenSide, assume};
use crate::mm2::Mm2;

fn side(topics: &[&str]) -> SeenSide {
    let topics = topics.iter().map(|&topic| topic.to_owned()).collect();
    SeenSide { topics, ..SeenSide::default() }
}

/// As MM2 4.3.0 writes it.
fn configured(side: &mut SeenSide, alias: &str, connectors: &[(&str, &str)]) {
    let mut mm2 = Mm2::default();
    for (name, properties) in connectors {
        let key = format!("connector-{name}");
        let value = format!(r#"{{"properties":{{{properties}}}}}"#);
        mm2.take_config(Some(key.as_bytes()), Some(value.as_bytes()));
    }
    side.topics.insert(format!("mm2-configs.{alias}.internal"));
    side.connectors.insert(alias.to_owned(), mm2.connectors);
}

fn told(seen: &Seen) -> Assumed {
    assume(seen, None, (None, None))
}

fn aliases(assumed: &Assumed) -> (&str, &str) {
    (assumed.source.as_str(), assumed.target.as_str())
}

fn says<'a>(assumed: &'a Assumed, key: &str) -> Option<&'a str> {
    let mut lines = assumed.properties.iter();
    lines.find(|(line, _)| line == key).map(|(_, value)| value.as_str())
}

#[test]
fn what_mm2_runs_with_is_taken_from_its_own_topic() {
    let mut seen =
        Seen { source: side(&["orders"]), target: side(&["hello_orders"]), ..Seen::default() };
    let common = r#""source.cluster.alias":"hello","target.cluster.alias":"world","target.cluster.sasl.jaas.config":"secret","replication.policy.separator":"_""#;
    configured(
        &mut seen.target,
        "hello",
        &[
            ("MirrorSourceConnector", &format!(r#"{common},"topics":"orders","groups":"x""#)),
            ("MirrorCheckpointConnector", &format!(r#"{common},"groups":"app-.*""#)),
        ],
    );
    let assumed = told(&seen);
    assert_eq!(aliases(&assumed), ("hello", "world"));
    assert_eq!(says(&assumed, "hello->world.topics"), Some("orders"));
    assert_eq!(says(&assumed, "hello->world.groups"), Some("app-.*"));
    assert_eq!(says(&assumed, "hello->world.replication.policy.separator"), Some("_"));
    // MM2's default, where the connector does not say it.
    assert_eq!(says(&assumed, "hello->world.sync.group.offsets.enabled"), Some("false"));
    assert!(!assumed.properties.iter().any(|(_, value)| value.contains("secret")));
    assert_eq!(assumed.said, ["the flow is hello->world: topic mm2-configs.hello.internal"]);
}

#[test]
fn both_directions_are_found_and_one_that_only_beats_hearts_is_none() {
    let flow = |source: &str, target: &str| {
        format!(r#""source.cluster.alias":"{source}","target.cluster.alias":"{target}""#)
    };
    let mut seen = Seen::default();
    let there = flow("hello", "world");
    configured(&mut seen.target, "hello", &[("MirrorSourceConnector", &there)]);
    let back = flow("world", "hello");
    configured(&mut seen.source, "world", &[("MirrorHeartbeatConnector", &back)]);
    assert_eq!(says(&told(&seen), "world->hello.enabled"), None);
    configured(&mut seen.source, "world", &[("MirrorSourceConnector", &back)]);
    let assumed = told(&seen);
    assert_eq!(says(&assumed, "world->hello.enabled"), Some("true"));
    assert!(assumed.said.iter().any(|line| line.starts_with("there is world->hello too")));
}

/// As MM2 4.3.0 has it where `hello->world.enabled=true` is all that is said: hearts beat both ways.
#[test]
fn a_direction_that_mm2_has_not_enabled_is_told_and_not_looked_at() {
    let flow = |source: &str, target: &str, enabled: bool| {
        format!(
            r#""source.cluster.alias":"{source}","target.cluster.alias":"{target}","enabled":"{enabled}""#
        )
    };
    let all = |properties: &str| {
        ["MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"]
            .map(|name| (name, properties.to_owned()))
    };
    let mut seen = Seen::default();
    for (side, alias, properties) in [
        (&mut seen.target, "hello", flow("hello", "world", true)),
        (&mut seen.source, "world", flow("world", "hello", false)),
    ] {
        let connectors = all(&properties);
        let connectors: Vec<_> =
            connectors.iter().map(|(name, properties)| (*name, properties.as_str())).collect();
        configured(side, alias, &connectors);
    }
    let not_enabled = "world->hello is not looked at: MirrorMaker 2 has it not enabled (topic \
                       mm2-configs.world.internal)";
    let assumed = told(&seen);
    assert_eq!(aliases(&assumed), ("hello", "world"));
    assert_eq!(says(&assumed, "world->hello.enabled"), None);
    let flow = "the flow is hello->world: topic mm2-configs.hello.internal";
    assert_eq!(assumed.said, [flow, not_enabled]);

    // Asked the wrong way round, what there is answers.
    let turned = told(&Seen { source: seen.target, target: seen.source, ..Seen::default() });
    assert_eq!(aliases(&turned), ("world", "hello"));
    assert_eq!(says(&turned, "world->hello.enabled"), Some("false"));
    assert_eq!(says(&turned, "hello->world.enabled"), Some("true"));
    assert_eq!(turned.said[0], not_enabled);
}

#[test]
fn after_a_takeover_mm2s_configuration_counts_for_names_only() {
    let mut seen = Seen::default();
    let properties = r#""source.cluster.alias":"hello","target.cluster.alias":"world","topics":"old","replication.policy.separator":"_","sync.group.offsets.enabled":"false""#;
    configured(&mut seen.target, "hello", &[("MirrorSourceConnector", properties)]);
    seen.target.topics.insert("mm2-twinlog.hello.internal".to_owned());
    let assumed = told(&seen);
    assert_eq!(aliases(&assumed), ("hello", "world"));
    assert_eq!(says(&assumed, "hello->world.replication.policy.separator"), Some("_"));
    assert_eq!(says(&assumed, "hello->world.topics"), None);
    assert_eq!(says(&assumed, "hello->world.sync.group.offsets.enabled"), None);
    assert!(assumed.said.iter().any(|said| said.starts_with("twinlog runs hello->world, or did")));
    // MM2 took it back.
    seen.target.live.insert("hello-mm2".to_owned());
    assert_eq!(says(&told(&seen), "hello->world.topics"), Some("old"));
}

#[test]
fn of_several_sources_the_one_that_was_meant_is_taken() {
    let mut seen = Seen {
        source: side(&["orders"]),
        target: side(&["mars.orders", "hello.other"]),
        bootstrap: ("a:1,b:1".into(), "w:1".into()),
    };
    let flow = |source: &str, at: &str| {
        format!(
            r#""source.cluster.alias":"{source}","target.cluster.alias":"world","source.cluster.bootstrap.servers":"{at}""#
        )
    };
    let add = |seen: &mut Seen, alias: &str, at: &str| {
        configured(&mut seen.target, alias, &[("MirrorSourceConnector", &flow(alias, at))]);
    };
    add(&mut seen, "hello", "x:1");
    add(&mut seen, "mars", "y:1");
    assert_eq!(aliases(&told(&seen)).0, "mars", "its topics are there");
    add(&mut seen, "hello", "b:1,c:1");
    assert_eq!(aliases(&told(&seen)).0, "hello", "it connects there");
    let mars = ClusterAlias::from("mars");
    let assumed = assume(&seen, None, (Some(&mars), None));
    assert_eq!(aliases(&assumed).0, "mars", "it was named");
    assert!(told(&seen).said.contains(&"not looked at: mars->world".to_owned()));
}

#[test]
fn without_configurations_names_tell() {
    let case = |source: &[&str], target: &[&str]| {
        told(&Seen { source: side(source), target: side(target), ..Seen::default() })
    };
    let plain = case(
        &["orders", "mm2-offset-syncs.world.internal"],
        &["hello.orders", "hello.checkpoints.internal"],
    );
    assert_eq!(aliases(&plain), ("hello", "world"));
    assert_eq!(plain.properties, []);

    let separator = case(&["a"], &["hello_a", "hello_checkpoints_internal"]);
    assert_eq!(aliases(&separator), ("hello", "target"));
    assert_eq!(says(&separator, "hello->target.replication.policy.separator"), Some("_"));

    let identity = case(
        &["orders", "mm2-offset-syncs.world.internal"],
        &["orders", "hello.checkpoints.internal"],
    );
    let class = says(&identity, "hello->world.replication.policy.class");
    assert!(class.is_some_and(|class| class.ends_with("IdentityReplicationPolicy")));

    // Offset-syncs on the side where they are not by default.
    let location = case(&["orders"], &["hello.orders", "mm2-offset-syncs.hello.internal"]);
    assert_eq!(aliases(&location), ("hello", "target"));
    assert_eq!(says(&location, "hello->target.offset-syncs.topic.location"), Some("target"));

    let twinlog = case(&["orders"], &["mm2-twinlog.hello.internal", "hello.orders"]);
    assert_eq!(aliases(&twinlog).0, "hello");
    assert_eq!(twinlog.properties, []);
    for there in ["hello_orders", "hello_checkpoints_internal"] {
        let named = case(&["orders"], &["mm2-twinlog.hello.internal", there]);
        let separator = says(&named, "hello->target.replication.policy.separator");
        assert_eq!(separator, Some("_"), "{there}");
    }

    let beginning = case(&["a", "b"], &["mm2-twinlog.hello.internal", "b"]);
    assert_eq!(beginning.properties, []);
    let kept = case(&["a", "b"], &["mm2-twinlog.hello.internal", "a", "b"]);
    let class = says(&kept, "hello->target.replication.policy.class");
    assert!(class.is_some_and(|class| class.ends_with("IdentityReplicationPolicy")));
    assert!(!kept.is_mirror, "it may be a beginning beside topics of the same names");
    // Clusters that have topics of the same names may have nothing to do with each other.
    let alike = case(&["orders"], &["orders"]);
    assert!(!alike.is_mirror && identity.is_mirror && twinlog.is_mirror);
    assert_eq!(alike.properties, []);

    let nothing = case(&["orders"], &[]);
    assert!(!nothing.is_mirror);
    assert_eq!(aliases(&nothing), ("source", "target"));
    assert!(nothing.said[0].starts_with("nothing tells"), "{:?}", nothing.said);
}
