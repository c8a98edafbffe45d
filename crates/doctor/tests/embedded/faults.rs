//! The faults of mirrors, provoked on twinlog itself: the codes are those that a mirror by MirrorMaker
//! 2 gets for them, and there is no error that is not true.
//!
//! Each fault has a topic and a group of its own name in one world, as in the tests with real ones.

use std::collections::BTreeSet;
use std::time::Duration;

use twinlog_doctor::{Diagnosis, Wanted};
use twinlog_embedded::{GroupKind, NewRecord};
use twinlog_engine::Engine;
use twinlog_offsets::state::{Decided, Made, Subject};
use twinlog_types::{Code, Severity};
use twinlog_worlds::until;

use crate::examples::{self, Log};
use crate::world::{World, records};

pub(crate) const LINES: &str = "hello->world.topics.exclude = left-.*
hello->world.groups = .*-app
hello->world.groups.exclude = excluded-.*
emit.heartbeats.enabled = false
emit.checkpoints.interval.seconds = 1
sync.topic.configs.enabled = false";

/// Topics of 100 records whose group stands at 60, on both sides before anything is broken.
const TOPICS: [&str; 22] = [
    "plain",
    "live",
    "ahead",
    "rewound",
    "negative",
    "epoch",
    "truncated",
    "replaced",
    "removed",
    "recreated",
    "deleted",
    "large",
    "keyless",
    "future",
    "open",
    "corrupt",
    "paused",
    "foreign",
    "gap",
    "lost",
    "both",
    "quiet",
];

/// How often is looked, and how long is waited in between.
const LOOKS: u32 = 40;
const BETWEEN: Duration = Duration::from_millis(500);

/// What the doctor must say: of which group or topic, the errors and no others, one more code that
/// is told, and words of it.
pub(crate) struct Said {
    about: Wanted,
    errors: &'static [Code],
    told: Option<(Severity, Code)>,
    words: &'static [&'static str],
    /// Whether it is an example for documentation.
    shown: bool,
}

pub(crate) fn group(name: &str, errors: &'static [Code], words: &'static [&'static str]) -> Said {
    let about = Wanted { group: Some(name.into()), topic: None };
    Said { about, errors, told: None, words, shown: true }
}

pub(crate) fn topic(name: &str, errors: &'static [Code], words: &'static [&'static str]) -> Said {
    let about = Wanted { group: None, topic: Some(name.into()) };
    Said { about, errors, told: None, words, shown: true }
}

impl Said {
    pub(crate) fn and(self, severity: Severity, code: Code) -> Self {
        Self { told: Some((severity, code)), ..self }
    }

    pub(crate) fn unshown(self) -> Self {
        Self { shown: false, ..self }
    }
}

pub(crate) fn codes(found: &Diagnosis, severity: Severity) -> BTreeSet<Code> {
    let of = found.findings.iter().filter(|one| one.severity == severity);
    of.map(|one| one.code).collect()
}

impl Said {
    /// Nothing when this is what is found.
    fn missing(&self, found: &Diagnosis) -> Option<String> {
        let wanted: BTreeSet<Code> = self.errors.iter().copied().collect();
        let errors = codes(found, Severity::Error);
        if errors != wanted {
            return Some(format!("errors {errors:?}: {found:#?}"));
        }
        let shown = self.shown()?;
        let Some(one) = found.findings.iter().find(|one| one.code == shown) else {
            return Some(format!("no {shown}: {found:#?}"));
        };
        let severity = self.told.map_or(Severity::Error, |(severity, _)| severity);
        if one.severity != severity {
            return Some(format!("{shown} is {}", one.severity));
        }
        let text = format!("{one:?}");
        let words = self.words.iter().find(|words| !text.contains(**words))?;
        Some(format!("{words:?} is not in {one:#?}"))
    }

    /// The code that is looked at closely.
    fn shown(&self) -> Option<Code> {
        self.told.map(|(_, code)| code).or(self.errors.first().copied())
    }
}

/// Looks until all of it is said, and keeps it as examples.
pub(crate) async fn said(world: &World, lines: &str, cases: &[Said]) {
    let mut wrong = Vec::new();
    for case in cases {
        let mut missing = None;
        for _ in 0..LOOKS {
            let found = world.doctor(lines, &case.about).await;
            missing = case.missing(&found);
            if missing.is_none() {
                if let Some(code) = case.shown().filter(|_| case.shown) {
                    examples::doctor(&found, code);
                }
                break;
            }
            tokio::time::sleep(BETWEEN).await;
        }
        let missing =
            missing.map(|missing| format!("{:?}, {:?}: {missing}", case.about, case.errors));
        wrong.extend(missing);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

pub(crate) fn world(seed: u64) -> World {
    let world = World::from(twinlog_worlds::World::new(seed).saying(LINES));
    for name in TOPICS {
        world.source.create_topic(name, 1, &[]).expect("made");
        world.append(name, 100);
        world.source.commit_offset(&format!("{name}-app"), name, 0, 60).expect("committed");
    }
    world
}

/// Mirrors until every group stands on the target.
pub(crate) async fn mirrored(world: &World) -> Engine {
    let engine = world.start();
    until("every group is there", || {
        TOPICS.iter().find_map(|name| {
            let stands =
                world.target.committed(&format!("{name}-app"), &format!("hello.{name}"), 0);
            (stands != Some(60)).then(|| format!("{name} {stands:?}"))
        })
    })
    .await;
    engine
}

/// What the file and the source have from the start on.
fn prepare(world: &World) {
    let (source, target) = (&world.source, &world.target);
    source.commit_offset("excluded-app", "plain", 0, 60).expect("committed");
    source.commit_offset("stranger", "plain", 0, 60).expect("committed");
    for name in ["left-out", "occupied", "dotted"] {
        source.create_topic(name, 1, &[]).expect("made");
        world.append(name, 100);
        source.commit_offset(&format!("{name}-app"), name, 0, 60).expect("committed");
    }
    target.create_topic("hello.occupied", 1, &[]).expect("made");
    target.append("hello.occupied", 0, &records(7)).expect("appended");
    target.create_topic("hello_dotted", 1, &[]).expect("made");
    // Begins behind where its group stands.
    source.create_topic("early", 1, &[]).expect("made");
    source.begin_at("early", 0, 20).expect("empty");
    world.append("early", 100);
    source.commit_offset("early-app", "early", 0, 5).expect("committed");
    source.create_topic("partly", 3, &[]).expect("made");
    source.append("partly", 1, &records(100)).expect("appended");
    source.commit_offset("partly-app", "partly", 1, 60).expect("committed");
    source.create_topic("wide", 1, &[]).expect("made");
    target.create_topic("hello.wide", 3, &[]).expect("made");
}

/// Everything that can be broken behind the back of an engine that runs.
async fn break_all(world: &World) {
    let (source, target) = (&world.source, &world.target);
    target.set_group("live-app", GroupKind::Classic, true);
    source.commit_offset("live-app", "live", 0, 90).expect("committed");
    target.commit_offset("ahead-app", "hello.ahead", 0, 90).expect("committed");
    target.commit_offset("negative-app", "hello.negative", 0, 150).expect("committed");
    target.commit_offset_in_epoch("epoch-app", "hello.epoch", 0, (60, 7));
    // Somebody else has put it where the source comes to stand, and goes back from.
    target.commit_offset("rewound-app", "hello.rewound", 0, 85).expect("committed");
    source.commit_offset("rewound-app", "rewound", 0, 85).expect("committed");
    assert!(target.lose_tail("hello.truncated", 0, 50));
    target.recreate_topic("hello.replaced").expect("made");
    assert!(target.delete_topic("hello.removed"));
    source.recreate_topic("recreated").expect("made");
    world.append("recreated", 10);
    source.commit_offset("recreated-app", "recreated", 0, 5).expect("committed");
    assert!(source.delete_topic("deleted"));
    let set = |topic: &str, key: &str, value: &str| {
        target.alter_config(topic, key, Some(value)).expect("a config");
    };
    set("hello.large", "max.message.bytes", "1000");
    source.append("large", 0, &[NewRecord::new("k", "x".repeat(5_000))]).expect("appended");
    set("hello.keyless", "cleanup.policy", "compact");
    let keyless = NewRecord { key: None, ..NewRecord::new("", "v") };
    source.append("keyless", 0, &[keyless]).expect("appended");
    set("hello.future", "message.timestamp.after.max.ms", "1000");
    let tomorrow = source.now_ms() + 86_400_000;
    source
        .alter_config("future", "message.timestamp.after.max.ms", Some("9223372036854775807"))
        .expect("a config");
    source.append("future", 0, &[NewRecord::new("k", "v").at(tomorrow)]).expect("appended");
    let mut open = source.begin_transaction();
    source.append_in(&mut open, "open", 0, &records(3)).expect("appended");
    let sound = source.batches("corrupt", 0).remove(0);
    let mut broken = sound.to_vec();
    *broken.last_mut().expect("bytes") ^= 1;
    source.append_raw("corrupt", 0, &broken.into()).expect("appended");
    target.append("hello.foreign", 0, &records(2)).expect("appended");
    world.append("foreign", 5);
    let observer = world.observer("");
    let pair = observer.pair().await.expect("both answer").expect("two clusters");
    let made = Made { by: "somebody".into(), at_ms: 1, what: Decided::Pause };
    let paused = (Subject::Topic("paused".into(), None), made);
    observer.decide(&pair, &[paused]).await.expect("decided");
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_running_mirror_are_told_by_the_same_codes_as_of_mirror_maker_2() {
    use Severity::{Info, Warning};
    let (log, _guard) = Log::listen();
    let world = world(71);
    prepare(&world);
    let engine = mirrored(&world).await;
    said(&world, "", &[group("plain-app", &[], &[])]).await;
    break_all(&world).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.source.commit_offset("rewound-app", "rewound", 0, 10).expect("committed");
    world.append("paused", 20);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let cases = [
        group("plain-app", &[], &[]),
        group("quiet-app", &[], &[]),
        group("excluded-app", &[Code::GroupExcluded], &["excluded-.*"]),
        group("stranger", &[Code::GroupNotIncluded], &["hello->world.groups"]),
        group("left-out-app", &[Code::TopicNotMirrored], &["left-.*"]),
        group("occupied-app", &[Code::TargetNotEmpty], &["0 to 6"]),
        group("dotted-app", &[Code::NamesCollide], &["hello_dotted"]),
        group("early-app", &[Code::BacklogNotOnTarget], &["15"]),
        group("partly-app", &[], &["partly-0, partly-2"]).and(Info, Code::GroupWithoutCommits),
        group("live-app", &[Code::GroupLiveOnTarget], &["reread: 30"]).unshown(),
        group("ahead-app", &[], &["30 offsets"]).and(Warning, Code::TargetAhead),
        group("rewound-app", &[Code::SourceRewound], &["stood at 85", "skipped: 75"]),
        group("negative-app", &[Code::NegativeLag], &["150", "ends at 100"]),
        group("epoch-app", &[Code::LeaderEpochAhead], &["epoch 7", "is 0"]),
        // What the target lost is copied again.
        group("truncated-app", &[], &[]),
        group("replaced-app", &[Code::TargetRecreated], &[]),
        group("removed-app", &[Code::TopicMissingOnTarget], &[]),
        group("recreated-app", &[Code::TopicRecreated], &["--accept-gap"]),
        topic("deleted", &[Code::SourceTopicDeleted], &[]),
        group("large-app", &[Code::RecordTooLarge], &["offset 100", "max.message.bytes"]),
        group("keyless-app", &[Code::RefusedByTarget], &[]),
        group("future-app", &[Code::TimestampRefused], &[]),
        group("open-app", &[], &["100 on"]).and(Warning, Code::OpenTransaction),
        group("corrupt-app", &[Code::CorruptBatch], &["100"]),
        group("paused-app", &[Code::Paused], &["somebody", "missing: 20"]),
        group("foreign-app", &[], &[]),
        topic("wide", &[], &[]).and(Info, Code::PartitionCountDiffers),
    ];
    said(&world, "", &cases).await;
    log.shows(Code::ForeignWriter);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_mirror_that_is_stopped_are_told_beside_that_and_the_cause_first() {
    use Code::{GroupExcluded, MirrorNotRunning, NegativeLag, SourceGap, TopicRecreated};
    let world = world(72);
    world.source.commit_offset("excluded-app", "plain", 0, 60).expect("committed");
    mirrored(&world).await.shutdown().await;
    let (source, target) = (&world.source, &world.target);
    world.append("gap", 200);
    source.delete_records("gap", 0, 250).expect("deleted");
    assert!(target.lose_tail("hello.truncated", 0, 50));
    assert!(target.delete_group("lost-app"));
    // Two at once: another topic under the name, and a position that somebody copied by its number.
    source.recreate_topic("both").expect("made");
    world.append("both", 150);
    source.commit_offset("both-app", "both", 0, 5).expect("committed");
    target.commit_offset("both-app", "hello.both", 0, 140).expect("committed");
    // A gap, and a member that lives on the target meanwhile.
    source.commit_offset("live-app", "live", 0, 90).expect("committed");
    target.set_group("live-app", GroupKind::Classic, true);
    world.append("live", 50);
    source.delete_records("live", 0, 120).expect("deleted");
    let cases = [
        group("plain-app", &[MirrorNotRunning], &["ended in order"]),
        group("excluded-app", &[MirrorNotRunning, GroupExcluded], &[]).unshown(),
        group("gap-app", &[SourceGap, MirrorNotRunning], &["100 to 249 (150)", "missing: 200"]),
        group("truncated-app", &[MirrorNotRunning, NegativeLag], &["ends at 50"])
            .and(Severity::Warning, Code::TargetTruncated),
        group("lost-app", &[MirrorNotRunning], &[]).unshown(),
        group("both-app", &[TopicRecreated, MirrorNotRunning, NegativeLag], &[]).unshown(),
        group("live-app", &[SourceGap, MirrorNotRunning, Code::GroupLiveOnTarget], &[]).unshown(),
    ];
    said(&world, "", &cases).await;
    for (name, order) in [
        ("gap-app", &[MirrorNotRunning, SourceGap][..]),
        ("both-app", &[MirrorNotRunning, TopicRecreated, NegativeLag]),
        ("live-app", &[MirrorNotRunning, SourceGap, Code::GroupLiveOnTarget]),
    ] {
        let about = Wanted { group: Some(name.into()), topic: None };
        let found = world.doctor("", &about).await;
        let told: Vec<Code> = found.findings.iter().map(|one| one.code).collect();
        assert_eq!(told, order, "{name}");
    }
    let engine = world.start();
    let cases = [
        group("gap-app", &[SourceGap], &["100 to 249 (150)", "missing: 200"]).unshown(),
        group("truncated-app", &[], &[]),
        group("lost-app", &[], &[]),
        group("plain-app", &[], &[]),
    ];
    said(&world, "", &cases).await;
    drop(engine);
    let killed = group("plain-app", &[MirrorNotRunning], &["has been silent for"]).unshown();
    said(&world, "", &[killed]).await;
}
