//! What MM2's connectors are configured with, against the file and against each other.

use super::*;
use crate::chain::Fix;
use crate::findings::Finding;

const CLASS: &str = "replication.policy.class";
const IDENTITY: &str = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";

fn set(facts: &mut Facts, connector: &str, key: &str, value: &str) {
    let connector = facts.mm2.connectors.get_mut(connector).expect("a connector");
    connector.config.insert(key.to_owned(), value.to_owned());
}

fn findings(facts: &Facts) -> Vec<Finding> {
    let links = judged(facts).links;
    links.into_iter().flat_map(|link| link.findings).collect()
}

fn found(facts: &Facts, code: Code) -> Option<Finding> {
    findings(facts).into_iter().find(|finding| finding.code == code)
}

#[test]
fn a_policy_that_is_stated_in_one_connector_only_is_told_with_both_names() {
    // A Connect cluster; the file, or what was concluded, has what the source connector says.
    let mut facts = by_mm2(&format!("{CLASS} = {IDENTITY}"));
    facts.mm2.connect = Some("http://connect:8083".into());
    facts.mm2.running = true;
    let checkpoint = facts.mm2.connectors.get_mut(CHECKPOINT_CONNECTOR).expect("a connector");
    checkpoint.config.remove(CLASS);
    checkpoint.name = "hello checkpoints".into();
    let finding = found(&facts, Code::PolicyMismatch).expect("told");
    let names = "orders is copied to orders, and groups are looked for on hello.orders";
    assert!(finding.summary.contains(names), "{}", finding.summary);
    assert_eq!((finding.severity, finding.of_flow), (Severity::Error, true));
    let fix = format!(
        "curl -X PATCH -H 'Content-Type: application/json' \
         http://connect:8083/connectors/hello%20checkpoints/config -d '{{\"{CLASS}\":\"{IDENTITY}\"}}'"
    );
    assert_eq!(finding.fix.first(), Some(&Fix::Command(fix)));
    let places: Vec<&str> = finding.evidence.iter().map(|seen| &*seen.place).collect();
    assert!(places.contains(&"http://connect:8083: connector hello checkpoints"), "{places:?}");
}

#[test]
fn a_file_that_names_otherwise_than_what_runs_is_a_mismatch_and_no_mere_drift() {
    let mut facts = by_mm2("");
    for connector in [SOURCE_CONNECTOR, CHECKPOINT_CONNECTOR] {
        set(&mut facts, connector, CLASS, IDENTITY);
    }
    let finding = found(&facts, Code::PolicyMismatch).expect("told");
    assert!(finding.summary.contains("the file says"), "{}", finding.summary);
    assert_eq!(found(&facts, Code::ConfigDrift), None);
    // The default said is the default.
    let mut facts = by_mm2("");
    let default = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy";
    set(&mut facts, SOURCE_CONNECTOR, CLASS, default);
    assert_eq!(found(&facts, Code::PolicyMismatch), None);
}

#[test]
fn a_key_that_mm2_kept_as_it_was_typed_is_told_without_a_file() {
    let mut facts = by_mm2("");
    let checkpoint = facts.mm2.connectors.get_mut(CHECKPOINT_CONNECTOR).expect("a connector");
    checkpoint.config.remove("sync.group.offsets.enabled");
    set(&mut facts, CHECKPOINT_CONNECTOR, "sync.group.offset.enabled", "true");
    let finding = found(&facts, Code::UnknownProperty).expect("told");
    assert!(finding.summary.contains("did you mean `sync.group.offsets.enabled`?"));
    let fix = Fix::Property("hello->world.sync.group.offsets.enabled = true".into());
    assert_eq!(finding.fix.first(), Some(&fix));
}

#[test]
fn a_group_that_reads_what_came_from_the_target_too_is_well() {
    // As two flows in both directions leave it.
    let mut facts = by_mm2("emit.checkpoints.interval.seconds = 1");
    let back = CommittedOffset { tp: TopicPartition::new("world.orders", 0), ..commit(405) };
    read_of(&mut facts).source_commits = Ok(vec![commit(1_000), back]);
    assert_eq!(found(&facts, Code::TopicNotMirrored), None);
    assert_eq!(verdict(&facts), None, "{:#?}", judged(&facts));
}

#[test]
fn a_consoles_group_that_mm2_leaves_out_by_default_is_a_warning() {
    let severity = |group: &str, lines: &str| {
        let facts = by_twinlog(lines, Subject::Group(group.into()));
        found(&facts, Code::GroupExcluded).map(|finding| finding.severity)
    };
    assert_eq!(severity("console-consumer-1", ""), Some(Severity::Warning));
    assert_eq!(severity("connect-sink", ""), Some(Severity::Error));
    let said = "groups.exclude = console-consumer-.*";
    assert_eq!(severity("console-consumer-1", said), Some(Severity::Error));
}

#[test]
fn converters_that_change_bytes_are_an_error_and_unknown_ones_a_note() {
    let mut facts = by_mm2("");
    assert_eq!(found(&facts, Code::ConverterChangesRecords), None, "dedicated MM2 sets them");
    let json = "org.apache.kafka.connect.json.JsonConverter";
    set(&mut facts, SOURCE_CONNECTOR, "value.converter", json);
    let finding = found(&facts, Code::ConverterChangesRecords).expect("told");
    assert_eq!(finding.severity, Severity::Error);
    assert!(finding.summary.contains("JsonConverter"), "{}", finding.summary);

    let mut facts = by_mm2("");
    facts.mm2.connect = Some("http://connect:8083".into());
    let finding = found(&facts, Code::ConverterChangesRecords).expect("told");
    assert_eq!(finding.severity, Severity::Info);
    let bytes = "org.apache.kafka.connect.converters.ByteArrayConverter";
    for key in ["key.converter", "value.converter", "header.converter"] {
        set(&mut facts, SOURCE_CONNECTOR, key, bytes);
    }
    assert_eq!(found(&facts, Code::ConverterChangesRecords), None);
}

#[test]
fn keys_of_groups_are_compared_with_the_connector_that_reads_them() {
    let mut facts = by_mm2("");
    facts.mm2.connect = Some("http://connect:8083".into());
    facts.mm2.running = true;
    // A source connector of a Connect cluster need not say what groups are carried over.
    let source = facts.mm2.connectors.get_mut(SOURCE_CONNECTOR).expect("a connector");
    source.config.remove("groups");
    source.config.remove("sync.group.offsets.enabled");
    assert_eq!(found(&facts, Code::ConfigDrift), None);
    set(&mut facts, CHECKPOINT_CONNECTOR, "sync.group.offsets.enabled", "false");
    let drift = found(&facts, Code::ConfigDrift).expect("told");
    assert!(drift.summary.contains("sync.group.offsets.enabled = false"), "{}", drift.summary);
}

#[test]
fn a_place_of_pairs_that_one_connector_says_is_mended_at_that_connector() {
    let mut facts = by_mm2("");
    facts.mm2.connect = Some("http://connect:8083".into());
    facts.mm2.running = true;
    set(&mut facts, CHECKPOINT_CONNECTOR, "offset-syncs.topic.location", "target");
    let finding = found(&facts, Code::OffsetSyncsLocationMismatch).expect("told");
    let fix = format!(
        "curl -X PATCH -H 'Content-Type: application/json' \
         http://connect:8083/connectors/{CHECKPOINT_CONNECTOR}/config -d \
         '{{\"offset-syncs.topic.location\":\"source\"}}'"
    );
    assert_eq!(finding.fix.first(), Some(&Fix::Command(fix)));
}
