//! Plans from listings. What MM2 does was captured from MM2 4.3.0 on real brokers.

use std::collections::BTreeMap;

use twinlog_mirror::FlowConfig;
use twinlog_types::{Code, FlowName, TopicId, TopicName};

use super::*;
use crate::testing::{flow, flows};

const IDENTITY: &str =
    "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy";
const AFTER_MAX: (&str, &str) = ("message.timestamp.after.max.ms", "9223372036854775807");

fn id(n: u8) -> TopicId {
    TopicId([n; 16])
}

fn listing(name: &str, n: u8, partitions: i32) -> TopicListing {
    TopicListing { name: name.into(), id: id(n), partitions, configs: Some(Vec::new()) }
}

/// A value that is set at the topic itself.
fn set(name: &str, value: &str) -> ConfigEntry {
    entry(name, value, 1)
}

fn entry(name: &str, value: &str, source: i8) -> ConfigEntry {
    ConfigEntry {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        source,
        sensitive: false,
        read_only: false,
    }
}

fn with(listing: TopicListing, configs: &[ConfigEntry]) -> TopicListing {
    TopicListing { configs: Some(configs.to_vec()), ..listing }
}

fn known(source: &str, source_id: u8, target: &str, target_id: u8) -> MirroredTopic {
    MirroredTopic {
        source: source.into(),
        source_id: id(source_id),
        target: target.into(),
        target_id: id(target_id),
        partitions: 1,
    }
}

/// What a test looks at, with nothing in it.
struct Clusters {
    flow: FlowConfig,
    opposite: Option<FlowConfig>,
    source: Vec<TopicListing>,
    target: Vec<TopicListing>,
    known: Vec<MirroredTopic>,
    claimed: BTreeMap<TopicName, FlowName>,
    follower: TopicFollower,
}

impl Clusters {
    fn new(lines: &str) -> Self {
        Self {
            flow: flow(lines),
            opposite: None,
            source: Vec::new(),
            target: Vec::new(),
            known: Vec::new(),
            claimed: BTreeMap::new(),
            follower: TopicFollower::new(),
        }
    }

    /// Both directions of a file.
    fn both(lines: &str) -> Self {
        let lines = format!("world->hello.enabled = true\n{lines}");
        let opposite = flows(&lines).into_iter().find(|flow| flow.name.source.as_str() == "world");
        Self { opposite, ..Self::new(&lines) }
    }

    fn plan(&mut self) -> TopicPlan {
        let seen = Seen {
            flow: &self.flow,
            opposite: self.opposite.as_ref(),
            source: &self.source,
            target: &self.target,
            known: &self.known,
            claimed: &self.claimed,
        };
        self.follower.plan(&seen, true)
    }
}

fn codes(verdicts: &[TopicVerdict]) -> Vec<(&str, Code)> {
    verdicts.iter().map(|verdict| (verdict.topic.as_str(), verdict.code)).collect()
}

fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_topic_that_the_target_lacks_is_created_with_the_sources_overrides() {
    let mut clusters = Clusters::new("replication.factor = 1");
    clusters.source = vec![with(
        listing("orders", 1, 3),
        &[
            set("max.message.bytes", "2000000"),
            set("message.timestamp.type", "LogAppendTime"),
            set("min.insync.replicas", "1"),
            set("retention.ms", "604800001"),
            set("segment.bytes", "1048577"),
            set("unclean.leader.election.enable", "true"),
            entry("cleanup.policy", "delete", 5),
            entry("flush.ms", "1", 4),
            entry("segment.ms", "7", 3),
            ConfigEntry { sensitive: true, ..set("secret", "x") },
            ConfigEntry { read_only: true, ..set("fixed", "x") },
            ConfigEntry { value: None, ..set("untold", "") },
        ],
    )];
    let plan = clusters.plan();
    assert_eq!(
        plan.create,
        [Creation {
            source: "orders".into(),
            target: "hello.orders".into(),
            partitions: 3,
            replication_factor: 1,
            configs: pairs([
                ("max.message.bytes", "2000000"),
                ("retention.ms", "604800001"),
                ("segment.bytes", "1048577"),
                AFTER_MAX,
            ]),
        }]
    );
    assert_eq!((plan.mirror.len(), plan.stopped.len()), (0, 0));
}

#[test]
fn a_limit_on_future_timestamps_is_the_sources_where_it_has_one() {
    let mut clusters = Clusters::new("");
    let own = set("message.timestamp.after.max.ms", "5000");
    clusters.source = vec![with(listing("orders", 1, 1), &[own])];
    assert_eq!(
        clusters.plan().create[0].configs,
        pairs([("message.timestamp.after.max.ms", "5000")])
    );
}

#[test]
fn an_excluded_limit_on_future_timestamps_is_left_to_the_target() {
    let mut clusters = Clusters::new("config.properties.exclude = message\\\\.timestamp.*");
    clusters.source = vec![listing("orders", 1, 1)];
    assert_eq!(clusters.plan().create[0].configs, BTreeMap::new());
}

#[test]
fn configs_follow_the_source_and_overrides_of_the_target_alone_go() {
    let mut clusters = Clusters::new("");
    clusters.source = vec![with(
        listing("orders", 1, 1),
        &[set("retention.ms", "200"), set("max.message.bytes", "9"), entry("segment.ms", "5", 5)],
    )];
    clusters.target = vec![with(
        listing("hello.orders", 2, 1),
        &[
            set("retention.ms", "100"),
            set("segment.ms", "60000"),
            set("min.insync.replicas", "2"),
            set(AFTER_MAX.0, AFTER_MAX.1),
            entry("cleanup.policy", "delete", 5),
        ],
    )];
    let plan = clusters.plan();
    assert_eq!(
        plan.alter,
        [Alteration {
            target: "hello.orders".into(),
            changes: vec![
                ConfigChange::Set("max.message.bytes".to_owned(), "9".to_owned()),
                ConfigChange::Set("retention.ms".to_owned(), "200".to_owned()),
                ConfigChange::Delete("segment.ms".to_owned()),
            ],
        }]
    );
    clusters.target[0].configs = Some(vec![
        set("retention.ms", "200"),
        set("max.message.bytes", "9"),
        set("min.insync.replicas", "2"),
        set(AFTER_MAX.0, AFTER_MAX.1),
    ]);
    assert_eq!(clusters.plan().alter, []);
    clusters.target[0].configs = None;
    assert_eq!(clusters.plan().alter, []);
}

#[test]
fn a_refused_config_is_left_out_and_named_until_its_value_changes() {
    let mut clusters = Clusters::new("");
    clusters.source = vec![with(
        listing("orders", 1, 1),
        &[set("segment.bytes", "14"), set("retention.ms", "5")],
    )];
    let creation = clusters.plan().create.remove(0);
    let refusal =
        "Invalid value 14 for configuration segment.bytes: Value must be at least 1048576";
    assert!(clusters.follower.creation_refused(&creation, refusal));
    let plan = clusters.plan();
    assert_eq!(plan.create[0].configs, pairs([("retention.ms", "5"), AFTER_MAX]));
    assert_eq!(codes(&plan.findings), [("orders", Code::ConfigRefused)]);
    assert!(plan.findings[0].reason.contains("segment.bytes=14"));

    clusters.target = vec![with(
        listing("hello.orders", 2, 1),
        &[set("retention.ms", "5"), set(AFTER_MAX.0, AFTER_MAX.1)],
    )];
    assert_eq!(clusters.plan().alter, []);
    clusters.source[0] =
        with(listing("orders", 1, 1), &[set("segment.bytes", "1048576"), set("retention.ms", "5")]);
    let alteration = clusters.plan().alter.remove(0);
    assert_eq!(alteration.changes, [ConfigChange::Set("segment.bytes".into(), "1048576".into())]);
    assert!(!clusters.follower.alteration_refused(&alteration, "Policy violation"));
}

#[test]
fn a_target_without_a_limit_on_future_timestamps_needs_it_not_lifted() {
    let mut clusters = Clusters::new("");
    clusters.source = vec![listing("orders", 1, 1)];
    let creation = clusters.plan().create.remove(0);
    let refusal = "Unknown topic config name: message.timestamp.after.max.ms";
    assert!(clusters.follower.creation_refused(&creation, refusal));
    let plan = clusters.plan();
    assert_eq!(plan.create[0].configs, BTreeMap::new());
    assert_eq!(plan.findings, []);
}

#[test]
fn a_topic_that_cannot_be_created_is_told_and_tried_again() {
    let mut clusters = Clusters::new("");
    clusters.source = vec![listing("orders", 1, 1)];
    let creation = clusters.plan().create.remove(0);
    assert!(!clusters.follower.creation_refused(&creation, "Replication factor: 3 larger than 1"));
    let plan = clusters.plan();
    assert_eq!(codes(&plan.stopped), [("orders", Code::TopicMissingOnTarget)]);
    assert!(plan.stopped[0].reason.contains("larger than 1"));
    assert_eq!(plan.create.len(), 1);
    clusters.target = vec![listing("hello.orders", 2, 1)];
    assert_eq!(clusters.plan().stopped, []);
}

#[test]
fn a_topic_whose_configs_cannot_be_read_is_not_created_without_them() {
    let mut clusters = Clusters::new("");
    clusters.source = vec![TopicListing { configs: None, ..listing("orders", 1, 1) }];
    let plan = clusters.plan();
    assert_eq!(plan.create, []);
    assert_eq!(codes(&plan.stopped), [("orders", Code::TopicMissingOnTarget)]);
}

#[test]
fn partitions_grow_with_the_source_and_never_shrink() {
    let mut clusters = Clusters::new("");
    clusters.source = vec![listing("orders", 1, 4)];
    clusters.target = vec![listing("hello.orders", 2, 2)];
    let plan = clusters.plan();
    assert_eq!(plan.grow, [Growth { target: "hello.orders".into(), count: 4 }]);
    assert_eq!((plan.mirror[0].partitions, plan.stopped.len()), (2, 0));

    clusters.follower.growth_refused(&plan.grow[0], "not authorized");
    let plan = clusters.plan();
    assert_eq!(codes(&plan.stopped), [("orders", Code::PartitionCountDiffers)]);
    assert_eq!(plan.stopped[0].partitions, Some(2..4));
    assert_eq!((plan.mirror[0].partitions, plan.grow.len()), (2, 1));

    clusters.target = vec![listing("hello.orders", 2, 6)];
    let plan = clusters.plan();
    assert_eq!((plan.grow.len(), plan.stopped.len(), plan.mirror[0].partitions), (0, 0, 4));
    assert_eq!(codes(&plan.findings), [("orders", Code::PartitionCountDiffers)]);
    assert_eq!(plan.findings[0].partitions, Some(4..6));
}

#[test]
fn topics_are_chosen_by_mm2s_rules_and_the_others_told_why_not() {
    let mut clusters =
        Clusters::new("topics = orders.*, x.*, heartbeats2\ntopics.exclude = .*-tmp");
    let names = [
        "__consumer_offsets",
        "heartbeats",
        "mm2-offset-syncs.world.internal",
        "orders",
        "orders-tmp",
        "other",
        "world.orders",
        "x.internal",
    ];
    clusters.source = names.iter().map(|name| listing(name, 1, 1)).collect();
    let plan = clusters.plan();
    let created: Vec<_> = plan.create.iter().map(|creation| creation.source.as_str()).collect();
    assert_eq!(created, ["heartbeats", "orders", "x.internal"]);
    let why: BTreeMap<_, _> =
        plan.excluded.iter().map(|left| (left.topic.as_str(), left.why.to_string())).collect();
    assert_eq!(why["__consumer_offsets"], "it is an internal topic of Kafka or of a mirror");
    assert_eq!(why["orders-tmp"], "topics.exclude contains .*-tmp, which matches it");
    assert_eq!(why["other"], "no pattern of topics matches it");
    assert_eq!(why["world.orders"], "it came from the target: it would go in a circle");
    assert_eq!(why.len(), 5);
}

#[test]
fn a_source_topic_that_is_gone_stops_and_its_mirror_stays() {
    let mut clusters = Clusters::new("");
    clusters.target = vec![listing("hello.orders", 2, 1)];
    clusters.known = vec![known("orders", 1, "hello.orders", 2)];
    let plan = clusters.plan();
    assert_eq!(codes(&plan.stopped), [("orders", Code::SourceTopicDeleted)]);
    assert_eq!((plan.create.len(), plan.alter.len(), plan.mirror.len()), (0, 0, 0));
}

#[test]
fn a_topic_that_was_made_again_stops_on_either_side() {
    let mut clusters = Clusters::new("");
    clusters.source = vec![listing("orders", 1, 1)];
    clusters.target = vec![listing("hello.orders", 2, 1)];
    clusters.known = vec![known("orders", 1, "hello.orders", 2)];
    assert_eq!(clusters.plan().mirror.len(), 1);

    clusters.known = vec![known("orders", 9, "hello.orders", 2)];
    assert_eq!(codes(&clusters.plan().stopped), [("orders", Code::TopicRecreated)]);
    clusters.known = vec![known("orders", 1, "hello.orders", 9)];
    let plan = clusters.plan();
    assert_eq!(codes(&plan.stopped), [("orders", Code::TargetRecreated)]);
    assert_eq!((plan.mirror.len(), plan.alter.len(), plan.create.len()), (0, 0, 0));
    // A cluster without topic ids cannot tell.
    clusters.target[0].id = TopicId::NONE;
    assert_eq!(clusters.plan().stopped, []);
}

#[test]
fn a_mirror_that_is_gone_is_not_made_again_in_silence() {
    let mut clusters = Clusters::new("");
    clusters.source = vec![listing("orders", 1, 1)];
    clusters.known = vec![known("orders", 1, "hello.orders", 2)];
    let plan = clusters.plan();
    assert_eq!(codes(&plan.stopped), [("orders", Code::TopicMissingOnTarget)]);
    assert_eq!(plan.create, []);
    // Under another name it is another mirror.
    clusters.known = vec![known("orders", 1, "orders", 2)];
    assert_eq!(clusters.plan().create.len(), 1);
}

#[test]
fn a_name_that_another_flow_copies_into_is_not_taken() {
    let mut clusters = Clusters::new(IDENTITY);
    clusters.source = vec![listing("orders", 1, 1)];
    clusters.target = vec![listing("orders", 2, 1)];
    clusters.claimed.insert("orders".into(), FlowName::new("moon", "world"));
    let plan = clusters.plan();
    assert_eq!(codes(&plan.stopped), [("orders", Code::NamesCollide)]);
    assert!(plan.stopped[0].reason.contains("moon->world"));
    assert_eq!(plan.mirror, []);
}

#[test]
fn names_that_brokers_take_for_one_another_are_not_created_beside_each_other() {
    let mut clusters = Clusters::new(IDENTITY);
    clusters.source = vec![listing("a.b", 1, 1), listing("a_b", 2, 1)];
    let plan = clusters.plan();
    assert_eq!(plan.create.len(), 1);
    assert_eq!(codes(&plan.stopped), [("a_b", Code::NamesCollide)]);
    // What exists may stay.
    clusters.target = vec![listing("a.b", 3, 1), listing("a_b", 4, 1)];
    assert_eq!(clusters.plan().mirror.len(), 2);
}

#[test]
fn under_the_identity_policy_both_directions_of_a_topic_are_a_loop() {
    let mut clusters = Clusters::both(IDENTITY);
    clusters.source = vec![listing("heartbeats", 1, 1), listing("orders", 2, 1)];
    clusters.target = vec![listing("orders", 3, 1)];
    let plan = clusters.plan();
    assert_eq!(codes(&plan.stopped), [("orders", Code::ReplicationLoop)]);
    assert_eq!((plan.mirror.len(), plan.create.len()), (0, 1));
    assert_eq!(plan.create[0].target.as_str(), "hello.heartbeats");
}

#[test]
fn both_directions_of_different_topics_or_under_the_default_policy_are_no_loop() {
    let lines = format!("{IDENTITY}\nhello->world.topics = orders\nworld->hello.topics = payments");
    let mut clusters = Clusters::both(&lines);
    clusters.source = vec![listing("orders", 1, 1), listing("payments", 2, 1)];
    let plan = clusters.plan();
    assert_eq!((plan.stopped.len(), plan.create.len(), plan.excluded.len()), (0, 1, 1));

    let mut clusters = Clusters::both("");
    clusters.source = vec![listing("orders", 1, 1), listing("world.orders", 2, 1)];
    let plan = clusters.plan();
    assert_eq!((plan.stopped.len(), plan.create.len(), plan.excluded.len()), (0, 1, 1));
}

#[test]
fn every_topic_of_the_source_is_somewhere_in_the_plan() {
    let mut clusters = Clusters::new("topics.exclude = .*-tmp");
    let names = ["a", "a-tmp", "b", "c.d", "c_d", "e", "heartbeats", "world.x"];
    clusters.source = names.iter().map(|name| listing(name, 1, 2)).collect();
    clusters.target = vec![listing("hello.a", 2, 1), listing("hello.e", 9, 2)];
    clusters.known = vec![known("e", 1, "hello.e", 2)];
    let plan = clusters.plan();
    let mut seen: Vec<_> = plan
        .mirror
        .iter()
        .map(|topic| topic.source.as_str())
        .chain(plan.create.iter().map(|creation| creation.source.as_str()))
        .chain(plan.stopped.iter().map(|verdict| verdict.topic.as_str()))
        .chain(plan.excluded.iter().map(|left| left.topic.as_str()))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, names);
}
