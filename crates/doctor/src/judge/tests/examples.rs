//! What docs/findings.md shows of mirrors by MirrorMaker 2: of the faults that were reproduced with real
//! ones, as the doctor tells them.

use std::path::PathBuf;

use twinlog_client::ClientError;
use twinlog_flow::groups::{History, Reading, Rules, TargetGroup, decide};
use twinlog_types::Translation;
use twinlog_worlds::kept::keep;

use super::*;
use crate::facts::Trouble;
use crate::findings::Grouping;
use crate::mm2::FailedTask;
use crate::text::told;

/// A finding, the lines of the file that go with it, and what was different.
type Example = (Code, &'static str, fn(&mut Facts));

fn connector<'a>(facts: &'a mut Facts, name: &str) -> &'a mut Connector {
    facts.mm2.connectors.get_mut(name).expect("a connector")
}

fn committed(facts: &mut Facts, offset: Option<i64>) {
    let commits = offset.map(|offset| (mirror(), offset));
    read_of(facts).target_commits = Ok(commits.into_iter().collect());
}

fn ends(facts: &mut Facts, on_source: i64, on_target: i64) {
    facts.source_bounds.insert(source(), (0, on_source));
    facts.bounds.insert(mirror(), (0, on_target));
    facts.mm2.copied.insert(source(), on_source - 1);
}

const EXAMPLES: &[Example] = &[
    (Code::ConfigDrift, "hello->world.sync.group.offsets.enabled = false", |facts| {
        for connector in facts.mm2.connectors.values_mut() {
            connector.config.insert("sync.group.offsets.enabled".into(), "true".into());
        }
    }),
    (Code::PolicyMismatch, "", |facts| {
        facts.mm2.connect = Some("http://connect:8083".into());
        facts.mm2.running = true;
        let class = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy".to_owned();
        let source = connector(facts, SOURCE_CONNECTOR);
        source.config.insert("replication.policy.class".into(), class);
    }),
    (Code::ConverterChangesRecords, "", |facts| {
        let json = "org.apache.kafka.connect.json.JsonConverter".to_owned();
        connector(facts, SOURCE_CONNECTOR).config.insert("value.converter".into(), json);
    }),
    (Code::ConnectorFailed, "", |facts| {
        let name = "MirrorSourceConnector-0".to_owned();
        let trace = "org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from \
                     producer send callback; caused by \
                     org.apache.kafka.common.errors.RecordTooLargeException: The request included a \
                     message larger than the max message size the server will accept."
            .to_owned();
        facts.mm2.failed.insert(name.clone(), FailedTask { name, trace });
    }),
    (Code::MirrorCannotReconfigure, "", |facts| {
        connector(facts, CHECKPOINT_CONNECTOR).groups.clear();
        let worker = facts.mm2.worker.as_mut().expect("read").as_mut();
        worker.expect("a worker").members.push(member());
    }),
    (Code::CheckpointsDisabled, "emit.checkpoints.enabled = false", |facts| {
        facts.mm2.connectors.remove(CHECKPOINT_CONNECTOR);
        committed(facts, None);
    }),
    (Code::CheckpointConnectorAbsent, "", |facts| {
        facts.mm2.connectors.remove(CHECKPOINT_CONNECTOR);
    }),
    (Code::CheckpointConnectorNoTasks, "", |facts| {
        connector(facts, CHECKPOINT_CONNECTOR).tasks = Some(0);
    }),
    (Code::GroupNotYetDiscovered, "refresh.groups.interval.seconds = 600", |facts| {
        connector(facts, CHECKPOINT_CONNECTOR).groups.clear();
    }),
    (Code::TopicNotYetDiscovered, "", |facts| {
        connector(facts, SOURCE_CONNECTOR).partitions.clear();
    }),
    (Code::OffsetSyncsLocationMismatch, "", |facts| {
        let target = "target".to_owned();
        let checkpoints = connector(facts, CHECKPOINT_CONNECTOR);
        checkpoints.config.insert("offset-syncs.topic.location".into(), target);
        facts.checkpoints.read = Ok(Some(BTreeMap::new()));
        facts.checkpoints.total = 0;
        committed(facts, None);
    }),
    (Code::NothingCopied, "", |facts| {
        facts.syncs.read = Ok(Some(BTreeMap::new()));
        facts.mm2.copied.clear();
        facts.source_bounds.insert(source(), (1_000, 1_000));
        facts.bounds.insert(mirror(), (0, 0));
        committed(facts, None);
    }),
    (Code::TranslationFrozen, "", |facts| {
        ends(facts, 7_000, 7_000);
        stands_at(facts, (2_000, 2_000), &[(6_919, 6_919), (6_999, 6_999)]);
        put_checkpoint(facts, (1_000, 1), &[]);
        committed(facts, Some(1));
    }),
    (Code::TranslationCoarse, "", |facts| {
        ends(facts, 100_000, 100_000);
        let pairs: Vec<(i64, i64)> =
            (0..990).map(|n| (n * 101, n * 101)).chain([(99_999, 99_999)]).collect();
        stands_at(facts, (50_000, 50_000), &pairs);
        put_checkpoint(facts, (50_000, 1), &[]);
        committed(facts, Some(1));
    }),
    (Code::StaleCheckpoint, "", |facts| {
        facts.checkpoints.read = Ok(Some(BTreeMap::new()));
        facts.checkpoints.total = 7;
    }),
    (Code::AbortedRecordsCopied, "", |facts| {
        let (from, to) = (SourceOffset(0), SourceOffset(108));
        let aborted = crate::contents::Aborted { from, to, committed: 50, all: 100, copied: 100 };
        facts.contents.aborted.insert(source(), aborted);
    }),
    (Code::DuplicatesOnTarget, "", |facts| {
        put_pairs(facts, &[(0, 0), (115_235, 115_235), (0, 115_236), (299_999, 415_235)]);
        ends(facts, 300_000, 415_236);
        let (source_offset, target_offset) = (SourceOffset(0), TargetOffset(0));
        let sample = crate::contents::Sample { sync: (source_offset, target_offset), equal: true };
        facts.contents.samples.insert(source(), vec![sample]);
    }),
    (Code::ForeignWriter, "", |facts| {
        let pairs = [(0, 0), (249, 249), (250, 281), (999, 1_030)];
        ends(facts, 1_000, 1_031);
        stands_at(facts, (1_000, 1_031), &pairs);
        put_checkpoint(facts, (1_000, 1_031), &[]);
        committed(facts, Some(1_031));
        let jump = facts.sync(&source()).expect("pairs").jumps[0];
        let extra = crate::contents::Extra { jump, there: 1, copies: 1, foreign: 31 };
        facts.contents.extras.insert(source(), vec![extra]);
    }),
    (Code::Mm2KnownBug, "", |facts| {
        facts.mm2.version = None;
        facts.mm2.numbers_tasks = false;
        ends(facts, 1_100, 1_000);
        stands_at(facts, (1_078, 980), &[(0, 0), (1_012, 920)]);
        put_checkpoint(facts, (1_078, 986), &[]);
        committed(facts, Some(986));
    }),
    (Code::OffsetsExpired, "", |facts| {
        facts.mm2.worker = Ok(None);
        committed(facts, None);
        facts.target.groups = Ok(BTreeMap::new());
    }),
    (Code::MissingPermission, "", |facts| {
        committed(facts, None);
        facts.target.groups = Ok(BTreeMap::new());
    }),
    (Code::GroupLiveOnTarget, "", |facts| {
        facts.target.groups = Ok(BTreeMap::from([(GROUP.into(), listing("Stable"))]));
        read_of(facts).members = Ok(vec![member()]);
        committed(facts, Some(405));
    }),
];

fn file(kind: &str, code: Code) -> PathBuf {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/findings/examples"));
    folder.join(kind).join(format!("{code}.txt"))
}

/// Keeps what is said of this code.
fn shown(kind: &str, code: Code, facts: &Facts) {
    let mut grouping = Grouping::new();
    grouping.take_chain(&judged(facts));
    let found = grouping.end();
    let finding = found.iter().find(|one| one.code == code);
    let finding = finding.unwrap_or_else(|| panic!("no {code}: {found:#?}"));
    keep(&file(kind, code), &told(finding, 100, true));
}

#[test]
fn what_documentation_shows_of_mirror_maker_2_is_what_is_said() {
    for (code, lines, change) in EXAMPLES {
        let mut facts = by_mm2(lines);
        change(&mut facts);
        shown("mm2", *code, &facts);
    }
    let mut facts = by_twinlog("", group_subject());
    let (peer, what) = ("hello:9092".into(), "Fetch of version 4 or newer".into());
    let error = ClientError::Unsupported { peer, what };
    facts.source.id = Err(Trouble::of("hello", &error));
    shown("doctor", Code::UnsupportedVersion, &facts);
}

/// Of a group that twinlog follows: `status` and the process go by the same rules.
#[test]
fn what_documentation_shows_of_groups_that_nothing_is_written_for_is_what_the_rules_say() {
    let reading = Reading {
        source: Some(SourceOffset(1_000)),
        translation: Translation::Unknown,
        copied_end: None,
        target: None,
        target_group: TargetGroup::Empty,
        loading: false,
        source_asked_ms: NOW,
        target_asked_ms: NOW,
        lost: 0,
        share: false,
        both_directions: false,
    };
    for (code, reading) in [
        (Code::MapLoading, Reading { loading: true, ..reading }),
        (Code::BothDirectionsSync, Reading { both_directions: true, ..reading }),
    ] {
        let (rules, group) = (Rules::new(true), GROUP.into());
        let decided = decide(&rules, &group, &mut History::default(), &reading, NOW);
        let mut facts = by_twinlog("", group_subject());
        let place = position(&mut facts);
        place.standing = decided.standing.expect("it is said");
        (place.target_offset, place.committed_target) = (None, None);
        committed(&mut facts, None);
        shown("doctor", code, &facts);
    }
}
