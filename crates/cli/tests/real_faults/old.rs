//! MirrorMaker 2 3.4.0, whose faults later ones do not have.

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{KafkaVersion, Mm2, availability};

use crate::setup::{self, Doctor};

/// What it leaves does not say its version, only that it is none of the later ones.
const VERSION: &str = "3.4 or older";

pub(crate) fn mm2_3_4() -> TestResult {
    let scene = setup::scene()?;
    let jars = availability()?.jars(KafkaVersion::V3_4_0)?;
    let lines: &[&str] =
        &["topics = old-.*", "groups = old-.*", "sync.group.offsets.enabled = true"];
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
    second.kill()?;
    Ok(())
}
