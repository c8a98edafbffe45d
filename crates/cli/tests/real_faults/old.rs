//! MirrorMaker 2 3.4.0, whose faults later ones do not have.

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{KafkaVersion, Mm2, TopicKind, TopicPlan, Workload, availability};

use crate::setup::{self, Doctor};

/// What it leaves does not say its version, only that it is none of the later ones.
const VERSION: &str = "3.4 or older";

/// Only the first record after a start makes a pair of offsets.
const MAX_LAG: &str = "offset.lag.max = 1000000";

pub(crate) fn mm2_3_4() -> TestResult {
    let scene = setup::scene()?;
    let jars = availability()?.jars(KafkaVersion::V3_4_0)?;
    let lines: &[&str] =
        &["topics = old-.*", "groups = old-.*", "sync.group.offsets.enabled = true", MAX_LAG];
    let properties = setup::file(scene, &[("old", "world", lines)]);
    let doctor = Doctor::new(&properties)?;
    let flow = "old->world";

    // A group far behind, put at its place by the pair of offsets that is the newest then.
    scene.filled("old-refused", 2_000)?;
    scene.commit("old-behind", "old-refused", 500)?;
    let first = Mm2::start(&jars, &properties)?;
    scene.until_end("old.old-refused", 2_000)?;
    scene.until_stands("old-behind", "old.old-refused", 500)?;
    doctor.until(flow, ["--group", "old-behind"], &[])?;
    first.stop()?;

    // The first record after a start makes a pair, and the task knows no other.
    scene.records("old-refused", 0, 2_000, 2_100)?;
    let second = Mm2::start(&jars, &properties)?;
    scene.until_end("old.old-refused", 2_100)?;
    scene.commit("old-behind", "old-refused", 1_000)?;
    scene.commit("old-new", "old-refused", 1_500)?;
    for group in ["old-behind", "old-new"] {
        let refused = ["translation-frozen", "mm2-known-bug"];
        let found = doctor.until(flow, ["--group", group], &refused)?;
        found.says("mm2-known-bug", &["KAFKA-14666", VERSION])?;
    }
    assert_eq!(scene.stands("old-behind", "old.old-refused", 0)?, Some(500));
    assert_eq!(scene.stands("old-new", "old.old-refused", 0)?, None);

    // The distance to the only pair is added, with the holes that transactions left on the source: the
    // group stands beyond the end of the copy.
    let (name, kind) = ("old-holes".to_owned(), TopicKind::Transactional);
    let plan = TopicPlan { name, kind, partitions: 1, records: 1_000 };
    let workload = Workload { topics: vec![plan], replication: 1, value_bytes: 50 };
    workload.load(&scene.shell, &scene.source())?;
    let end = scene.shell.end_offsets(&scene.source(), "old-holes")?[&0];
    scene.commit("old-ahead", "old-holes", end)?;
    let found = doctor.until_says(flow, ["--group", "old-ahead"], "mm2-known-bug")?;
    found.says("mm2-known-bug", &["KAFKA-12468", &format!("{end}->"), VERSION])?;
    found.says("negative-lag", &["old.old-holes"])?;
    let copied = scene.shell.end_offsets(&scene.target(), "old.old-holes")?[&0];
    assert!(scene.stands("old-ahead", "old.old-holes", 0)? > Some(copied), "{found:?}");
    second.kill()?;
    Ok(())
}
