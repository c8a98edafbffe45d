//! Tables: healthy facts, what is different in each case, and the verdict.
//!
//! The cases of MM2 are those that were reproduced with MirrorMaker 2 4.3.0 between real brokers;
//! their numbers are what was read there.

use std::collections::BTreeMap;
use std::sync::Arc;

use twinlog_client::{CommittedOffset, ErrorCode, GroupKind, GroupListing, GroupMember};
use twinlog_engine::observe::{
    FlowObservation, GroupObservation, GroupPosition, PartitionObservation, TopicObservation,
};
use twinlog_flow::Standing;
use twinlog_mirror::Configuration;
use twinlog_types::{Code, FlowName, Severity, SourceOffset, State, TargetOffset, TopicPartition};

use super::explain;
use crate::chain::{Chain, LinkName, Subject};
use crate::contents::Settings;
use crate::facts::{CheckpointSeries, Facts, GroupFacts};
use crate::history::SyncHistory;
use crate::mm2::{CHECKPOINT_CONNECTOR, Connector, SOURCE_CONNECTOR, Status, Worker};

mod chain;
mod connectors;
mod examples;
mod mm2;
mod mm2_records;

const NOW: i64 = 1_800_000_000_000;
const GROUP: &str = "orders-app";
const FINDINGS: &str = include_str!("../../../../docs/findings.md");

fn config(lines: &str) -> Configuration {
    let text = format!(
        "clusters = hello, world\nhello.bootstrap.servers = hello:9092\n\
         world.bootstrap.servers = world:9092\nhello->world.enabled = true\n\
         hello->world.sync.group.offsets.enabled = true\n{lines}\n"
    );
    Configuration::parse("mm2.properties", text.as_bytes(), &[]).expect("a sound file")
}

/// Nothing read of a subject yet.
fn unread(lines: &str, subject: Subject) -> Facts {
    let config = Arc::new(config(lines).flows()[0].clone());
    let bootstrap = ("hello:9092".to_owned(), "world:9092".to_owned());
    Facts::new(config, subject, bootstrap, Vec::new(), NOW)
}

fn group_subject() -> Subject {
    Subject::Group(GROUP.into())
}

fn topic_subject() -> Subject {
    Subject::Topic("orders".into())
}

fn source() -> TopicPartition {
    TopicPartition::new("orders", 0)
}

fn mirror() -> TopicPartition {
    TopicPartition::new("hello.orders", 0)
}

fn listing(state: &str) -> GroupListing {
    GroupListing {
        group: GROUP.into(),
        kind: GroupKind::Classic,
        state: state.into(),
        protocol_type: "consumer".into(),
    }
}

fn commit(offset: i64) -> CommittedOffset {
    CommittedOffset {
        tp: source(),
        offset,
        leader_epoch: -1,
        metadata: String::new(),
        error: ErrorCode::NONE,
    }
}

fn member() -> GroupMember {
    GroupMember {
        member_id: "app-1-7c".into(),
        instance_id: None,
        client_id: "app-1".into(),
        client_host: "/10.0.0.7".into(),
        assignment: Vec::new().into(),
    }
}

/// Two clusters with `orders` and its mirror of 1,000 records each, and the group at 1,000.
fn clusters(lines: &str, subject: Subject) -> Facts {
    let mut facts = unread(lines, subject);
    let topics = |name: &str| Ok(BTreeMap::from([(name.into(), 1)]));
    let groups = || Ok(BTreeMap::from([(GROUP.into(), listing("Empty"))]));
    facts.source.id = Ok("hello-id".into());
    facts.source.topics = topics("orders");
    facts.source.groups = groups();
    facts.target.id = Ok("world-id".into());
    facts.target.topics = topics("hello.orders");
    facts.target.groups = groups();
    facts.group = Some(GroupFacts {
        source_commits: Ok(vec![commit(1_000)]),
        target_commits: Ok(BTreeMap::from([(mirror(), 1_000)])),
        target_epochs: BTreeMap::new(),
        members: Ok(Vec::new()),
    });
    facts.bounds.insert(mirror(), (0, 1_000));
    facts.source_bounds.insert(source(), (0, 1_000));
    facts.mm2.worker = Ok(None);
    facts.syncs.read = Ok(None);
    facts.syncs.elsewhere = None;
    facts.checkpoints.read = Ok(Some(BTreeMap::new()));
    let flow = FlowName::new("hello", "world");
    facts.found = FlowObservation { own: Standing::in_sync(), ..FlowObservation::new(flow) };
    facts.found.topics.push(TopicObservation {
        topic: "orders".into(),
        target_topic: "hello.orders".into(),
        standing: Standing::in_sync(),
        partitions: vec![PartitionObservation {
            partition: 0,
            source_start: Some(0),
            source_end: Some(1_000),
            copied_to: Some(1_000),
            target_end: Some(1_000),
            lag_records: Some(0),
            lag_ms: Some(0),
            standing: Standing::in_sync(),
            gaps: Vec::new(),
            is_denied: false,
        }],
    });
    facts
}

/// Mirrored by twinlog, all well.
fn by_twinlog(lines: &str, subject: Subject) -> Facts {
    let mut facts = clusters(lines, subject);
    facts.found.groups.push(GroupObservation {
        group: GROUP.into(),
        kind: GroupKind::Classic,
        standing: Standing::in_sync(),
        since_ms: NOW,
        partitions: vec![GroupPosition {
            topic: "orders".into(),
            target_topic: "hello.orders".into(),
            partition: 0,
            source_offset: Some(1_000),
            target_offset: Some(1_000),
            committed_target: Some(1_000),
            translation: "end",
            standing: Standing::in_sync(),
        }],
    });
    facts
}

/// Mirrored by MM2, all well: 11 pairs, a checkpoint of the end, the group at it.
fn by_mm2(lines: &str) -> Facts {
    let mut facts = clusters(lines, group_subject());
    facts.found.own = Standing::found(State::Waiting, Code::MirrorNotRunning, "no twinlog");
    facts.found.topics[0].partitions[0].standing =
        Standing::found(State::Stopped, Code::TargetNotEmpty, "holds records");
    let mm2 = &mut facts.mm2;
    mm2.worker = Ok(Some(Worker {
        group: "hello-mm2".into(),
        state: "Stable".into(),
        members: vec![member()],
    }));
    let runs_with: BTreeMap<String, String> = facts.config.connector.clone().into();
    let connector = Connector {
        name: String::new(),
        config: runs_with,
        tasks: Some(1),
        groups: BTreeMap::from([(0, [GROUP.to_owned()].into())]),
        partitions: BTreeMap::from([(0, [source()].into())]),
    };
    for name in [SOURCE_CONNECTOR, CHECKPOINT_CONNECTOR] {
        let connector = Connector { name: name.into(), ..connector.clone() };
        mm2.connectors.insert(name.into(), connector);
    }
    mm2.copied.insert(source(), 999);
    let even: Vec<(i64, i64)> = (0..=9).map(|n| (n * 101, n * 101)).chain([(999, 999)]).collect();
    put_pairs(&mut facts, &even);
    put_place(&mut facts, 1_000, 1_000);
    let settings = Settings { compacted: false, max_message_bytes: Some(1_048_588) };
    facts.contents.source_settings.insert("orders".into(), settings);
    facts.contents.target_settings.insert("hello.orders".into(), settings);
    facts.contents.target_brokers = Some(1);
    for name in [SOURCE_CONNECTOR, CHECKPOINT_CONNECTOR] {
        for name in [name.to_owned(), format!("{name}-0")] {
            let status = Status { state: "RUNNING".into(), since_ms: NOW - 700_000 };
            facts.mm2.states.insert(name, status);
        }
    }
    facts.mm2.version = Some("4.3.0".into());
    facts.mm2.numbers_tasks = true;
    facts.checkpoints.total = 1;
    put_checkpoint(&mut facts, (1_000, 1_000), &[]);
    facts
}

fn put_checkpoint(facts: &mut Facts, last: (i64, i64), earlier: &[(i64, i64)]) {
    let series = CheckpointSeries { last, written_ms: NOW - 600_000, earlier: earlier.to_vec() };
    facts.checkpoints.read = Ok(Some(BTreeMap::from([(mirror(), series)])));
}

/// The offset-syncs that are there, of whatever commit.
fn put_pairs(facts: &mut Facts, pairs: &[(i64, i64)]) {
    let pair = |(source, target): (i64, i64)| (SourceOffset(source), TargetOffset(target));
    let asked = facts.asked(&source());
    let mut history = SyncHistory::new(pair(pairs[0]), NOW - 600_000, &asked);
    pairs[1..].iter().for_each(|sync| history.take(pair(*sync), NOW - 600_000));
    facts.syncs.read = Ok(Some(BTreeMap::from([(source(), history)])));
}

/// Where a position stands by the records.
fn put_place(facts: &mut Facts, source_offset: i64, place: i64) {
    let key = (source(), SourceOffset(source_offset));
    facts.contents.places.insert(key, TargetOffset(place));
}

/// Moves the group on the source, to a position whose place is known.
fn stands_at(facts: &mut Facts, (source_offset, place): (i64, i64), pairs: &[(i64, i64)]) {
    read_of(facts).source_commits = Ok(vec![commit(source_offset)]);
    put_pairs(facts, pairs);
    put_place(facts, source_offset, place);
}

fn position(facts: &mut Facts) -> &mut GroupPosition {
    &mut facts.found.groups[0].partitions[0]
}

fn partition(facts: &mut Facts) -> &mut PartitionObservation {
    &mut facts.found.topics[0].partitions[0]
}

fn read_of(facts: &mut Facts) -> &mut GroupFacts {
    facts.group.as_mut().expect("a group")
}

/// The verdict. Every code that it names has a section to read more in.
fn judged(facts: &Facts) -> Chain {
    let chain = explain(facts, None, "mm2.properties");
    for code in chain.links.iter().filter_map(|link| link.code) {
        assert!(FINDINGS.contains(&format!("\n### {code}\n")), "docs/findings.md has no {code}");
    }
    chain
}

type Broken = (LinkName, Option<Code>, Option<Severity>);

/// Link, code and severity of what is broken first; nothing when all is well.
fn verdict(facts: &Facts) -> Option<Broken> {
    judged(facts).first_broken().map(|link| (link.name, link.code, link.severity))
}

fn error(link: LinkName, code: Code) -> Broken {
    (link, Some(code), Some(Severity::Error))
}

fn warning(link: LinkName, code: Code) -> Broken {
    (link, Some(code), Some(Severity::Warning))
}
