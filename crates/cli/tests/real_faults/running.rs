//! Faults that come about while MirrorMaker 2 runs in order, beside groups without any.

use std::collections::BTreeMap;

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{Mm2, Scratch, TopicKind, TopicPlan, Workload, wait_until_some};

use crate::setup::{self, Doctor, LIMIT, Result, Scene};
use crate::switched;

/// How many records `f-big` has.
const BIG: usize = 20_000;

/// Groups that stand where MM2 keeps few pairs of offsets, the fewer the farther from the end. Which
/// ones it keeps depends on how fast it copied: near to a place there may be one by chance.
const MIDDLE: [(&str, i64); 3] =
    [("g-big-4000", 4_000), ("g-big-7000", 7_000), ("g-big-10000", 10_000)];

/// Records between two pairs of a calm flow, by MM2's default of `offset.lag.max`.
const STEP: i64 = 101;

/// The file of the MirrorMaker 2 that all tests share.
pub(crate) fn properties(scene: &Scene) -> String {
    let main: &[&str] = &[
        "topics = f-.*",
        "groups = g-.*",
        "groups.exclude = g-out-.*",
        "sync.group.offsets.enabled = true",
    ];
    let mut flows = vec![("hello", "world", main)];
    flows.extend(switched::FLOWS);
    // As files have it that say nothing of the way back: MM2 makes connectors for it.
    setup::file(scene, &flows) + "world->hello.emit.heartbeats.enabled = true\n"
}

pub(crate) fn all() -> TestResult {
    let scene = setup::scene()?;
    prepare(scene)?;
    switched::prepare(scene)?;
    let properties = properties(scene);
    let doctor = Doctor::new(&properties)?;
    *setup::mm2() = Some(Mm2::start(&scene.jars, &properties)?);
    healthy(scene, &doctor)?;
    left_out(scene, &doctor)?;
    records(scene, &doctor)?;
    positions(scene, &doctor)?;
    topics_made_again(scene, &doctor)?;
    // None of it spoils what is well.
    doctor.group("g-fine", &[])?;
    Ok(())
}

fn prepare(scene: &Scene) -> Result {
    scene.filled("f-plain", 1_000)?;
    for group in ["g-fine", "g-out-1", "g-live", "g-back", "g-gone", "g-other"] {
        scene.commit(group, "f-plain", 1_000)?;
    }
    scene.commit("g-ahead", "f-plain", 500)?;
    scene.filled("f-few", 12)?;
    scene.commit("g-few", "f-few", 12)?;
    scene.filled("x-other", 50)?;
    scene.commit("g-other", "x-other", 50)?;
    scene.topic("f-parts", 3, &[])?;
    for partition in 0..3 {
        scene.records("f-parts", partition, 0, 300)?;
    }
    scene.commit_on(&scene.source(), "g-parts", "f-parts", (1, 300))?;
    scene.filled("f-emptied", 100)?;
    scene.commit("g-emptied", "f-emptied", 100)?;
    scene.shell.delete_records(&scene.source(), "f-emptied", 0, 100)?;
    scene.filled("f-neg", 1_000)?;
    scene.commit("g-neg", "f-neg", 1_000)?;
    scene.shell.delete_records(&scene.source(), "f-neg", 0, 400)?;
    for topic in ["f-mirror", "f-moved", "f-grown"] {
        scene.filled(topic, 500)?;
        scene.commit(&topic.replace("f-", "g-"), topic, 500)?;
    }
    scene.filled("f-lost", 100)?;
    scene.commit("g-lost", "f-lost", 100)?;
    scene.filled("f-big", BIG)?;
    for (group, place) in MIDDLE {
        scene.commit(group, "f-big", place)?;
    }
    scene.commit("g-big-end", "f-big", BIG as i64)?;
    compacted(scene)
}

/// A topic whose first 300 offsets hold no record any more.
fn compacted(scene: &Scene) -> Result {
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "200"),
        ("min.cleanable.dirty.ratio", "0.0001"),
        ("max.compaction.lag.ms", "200"),
    ];
    scene.topic("f-hole", 1, &configs)?;
    let keyed = |from: usize, count: usize| -> Result {
        let keys: Vec<String> = (0..count).map(|n| format!("key-{n}")).collect();
        let values: Vec<String> = (0..count).map(|n| format!("f-hole/{}", from + n)).collect();
        let pairs = keys.iter().zip(&values);
        let records: Vec<_> =
            pairs.map(|(key, value)| (0, Some(key.as_str()), Some(value.as_str()))).collect();
        scene.shell.produce(&scene.source(), "f-hole", &records, &[])?;
        Ok(())
    };
    keyed(0, 300)?;
    keyed(300, 700)?;
    let mut written = 1_000;
    wait_until_some("the first 300 records compacted away", LIMIT, || {
        let dump = scene.shell.dump(&scene.source(), &["f-hole"]).map_err(|e| e.to_string())?;
        let first = dump.log("f-hole", 0).and_then(|log| log.rows.first()).map(|row| row.offset);
        if first == Some(300) {
            return Ok(());
        }
        // A segment is closed by what comes next.
        let last = [(0, Some("last"), Some("last"))];
        scene.shell.produce(&scene.source(), "f-hole", &last, &[]).map_err(|e| e.to_string())?;
        written += 1;
        Err(format!("{first:?} of {written}"))
    })?;
    scene.commit("g-hole", "f-hole", 150)
}

fn healthy(scene: &Scene, doctor: &Doctor) -> Result {
    for (group, topic, place) in [
        ("g-fine", "hello.f-plain", 1_000),
        ("g-few", "hello.f-few", 12),
        ("g-big-end", "hello.f-big", BIG as i64),
    ] {
        scene.until_stands(group, topic, place)?;
        doctor.group(group, &[])?;
    }
    let (flows, assumed) = setup::without_a_file(scene, "g-fine")?;
    assert_eq!(flows, BTreeMap::from([("hello->world".to_owned(), Vec::new())]), "{assumed}");
    assert!(assumed.contains("world->hello is not looked at"), "{assumed}");
    let found = doctor.group("g-parts", &[])?;
    found.says("group-without-commits", &["f-parts-0", "f-parts-2", "\"info\""])
}

fn left_out(_: &Scene, doctor: &Doctor) -> Result {
    let found = doctor.group("g-out-1", &["group-excluded"])?;
    found.says("group-excluded", &["g-out-.*"])?;
    let found = doctor.group("g-other", &["topic-not-mirrored"])?;
    found.says("topic-not-mirrored", &["x-other"])?;
    let found = doctor.group("g-emptied", &["nothing-copied"])?;
    found.says("nothing-copied", &["belongs on 0"])
}

/// What only records and offset-syncs tell.
fn records(scene: &Scene, doctor: &Doctor) -> Result {
    let (source, target) = (scene.source(), scene.target());
    let plan = TopicPlan {
        name: "f-aborted".into(),
        kind: TopicKind::Transactional,
        partitions: 1,
        records: 400,
    };
    let workload = Workload { topics: vec![plan], replication: 1, value_bytes: 50 };
    workload.load(&scene.shell, &source)?;
    let end = scene.shell.end_offsets(&source, "f-aborted")?[&0];
    let count = |isolation: &str| -> Result<usize> {
        Ok(scene.shell.dump_with(&source, &["f-aborted"], isolation)?.records())
    };
    let (all, committed) = (count("read_uncommitted")?, count("read_committed")?);
    assert!(all > committed, "{all} {committed}");
    scene.until_end("hello.f-aborted", all as i64)?;
    scene.commit("g-aborted", "f-aborted", end)?;
    scene.until_stands("g-aborted", "hello.f-aborted", all as i64)?;
    let copied = scene.shell.dump_with(&target, &["hello.f-aborted"], "read_committed")?.records();
    assert_eq!(copied, all, "MM2 copied what was aborted");
    let aborted = format!("{} records are of aborted transactions", all - committed);
    let found = doctor.group("g-aborted", &["aborted-records-copied"])?;
    found.says("aborted-records-copied", &[&aborted])?;

    let mut coarse = 0;
    for (group, place) in MIDDLE {
        let what = format!("a position of {group}");
        wait_until_some(&what, LIMIT, || {
            let stands = scene.stands(group, "hello.f-big", 0).map_err(|e| e.to_string())?;
            stands.map(drop).ok_or_else(|| "none".to_owned())
        })?;
        let reread = scene.reread(group, "f-big", place)?;
        let far = reread > STEP;
        let found = doctor.group(group, if far { &["translation-coarse"] } else { &[] })?;
        if reread > 1 {
            let told = format!("{reread} records would be read again");
            found.says("translation-coarse", &[&told])?;
        }
        coarse += usize::from(far);
    }
    assert!(coarse > 0, "MM2 keeps pairs for {MIDDLE:?}");
    // In front of the first pair of offsets, whichever record MM2 made that of.
    doctor.group("g-hole", &["translation-frozen"])?;
    Ok(())
}

/// Where groups stand on the target, and who put them there.
fn positions(scene: &Scene, doctor: &Doctor) -> Result {
    let (shell, target) = (&scene.shell, scene.target());
    scene.commit_on(&target, "g-neg", "hello.f-neg", (0, 1_000))?;
    let found = doctor.group("g-neg", &["negative-lag"])?;
    found.says("negative-lag", &["1000", "ends at 600", "\"skipped\":0"])?;

    for group in ["g-back", "g-gone", "g-live"] {
        scene.until_stands(group, "hello.f-plain", 1_000)?;
    }
    scene.commit_on(&target, "g-ahead", "hello.f-plain", (0, 900))?;
    scene.commit("g-ahead", "f-plain", 600)?;
    let found = doctor.group("g-ahead", &[])?;
    found.says("target-ahead", &["\"warning\"", "skips 300 records"])?;
    assert_eq!(scene.reread("g-ahead", "f-plain", 600)?, -300);

    scene.commit("g-back", "f-plain", 0)?;
    let found = doctor.group("g-back", &["source-rewound"])?;
    found.says("source-rewound", &["skips 1000 records"])?;
    assert_eq!(scene.reread("g-back", "f-plain", 0)?, -1_000);

    // Gone on the target while MM2 runs: it writes them again.
    shell.delete_group(&target, "g-gone")?;
    scene.until_stands("g-gone", "hello.f-plain", 1_000)?;
    doctor.group("g-gone", &[])?;

    // A member that lives on the target, at its place and then behind it.
    let scratch = Scratch::new("faults-consumer")?;
    let consumer = setup::member(scene, &scratch, "g-live", "hello.f-plain")?;
    wait_until_some("the member", LIMIT, || {
        let state = shell.groups(&target).map_err(|error| error.to_string())?.remove("g-live");
        if state.as_deref() == Some("Stable") { Ok(()) } else { Err(format!("{state:?}")) }
    })?;
    scene.records("f-plain", 0, 1_000, 1_200)?;
    for group in ["g-fine", "g-live"] {
        scene.commit(group, "f-plain", 1_200)?;
    }
    scene.until_stands("g-fine", "hello.f-plain", 1_200)?;
    let found = doctor.ask("hello->world", ["--group", "g-live"])?;
    found.says("group-live-on-target", &["faults-member"])?;
    consumer.stop(LIMIT)?;
    Ok(())
}

fn topics_made_again(scene: &Scene, doctor: &Doctor) -> Result {
    let (shell, source, target) = (&scene.shell, scene.source(), scene.target());
    scene.until_stands("g-mirror", "hello.f-mirror", 500)?;
    scene.until_stands("g-moved", "hello.f-moved", 500)?;
    shell.delete_topic(&target, "hello.f-mirror")?;
    shell.delete_topic(&source, "f-moved")?;
    scene.topic("f-moved", 1, &[])?;
    scene.records("f-moved", 0, 10_000, 10_300)?;
    wait_until_some("the mirror made again", LIMIT, || {
        let topics = shell.topics(&target).map_err(|error| error.to_string())?;
        topics.get("hello.f-mirror").map(drop).ok_or_else(|| "not there".to_owned())
    })?;
    scene.records("f-mirror", 0, 500, 550)?;
    scene.until_end("hello.f-mirror", 50)?;
    scene.commit("g-mirror", "f-mirror", 540)?;
    doctor.group("g-mirror", &["negative-lag", "target-recreated"])?;

    scene.until_end("hello.f-moved", 800)?;
    scene.commit("g-moved", "f-moved", 300)?;
    scene.until_stands("g-moved", "hello.f-moved", 800)?;
    let found = doctor.group("g-moved", &["topic-recreated"])?;
    found.says("topic-recreated", &["made again"])
}
