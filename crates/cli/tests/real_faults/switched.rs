//! What the file, a mistyped key or a missing right switches off, each in a flow of its own.

use twinlog_testkit::Mm2;
use twinlog_testkit::ring::TestResult;

use crate::running::properties;
use crate::setup::{self, Doctor, Result, Scene};

/// Flows of one fault each. Their topics and groups begin with the alias that is theirs alone.
pub(crate) const FLOWS: [(&str, &str, &[&str]); 7] = [
    (
        "typo",
        "world",
        &["topics = typo-.*", "groups = typo-.*", "sync.group.offset.enabled = true"],
    ),
    ("off", "world", &["topics = off-.*", "groups = off-.*", "sync.group.offsets.enabled = false"]),
    (
        "mute",
        "world",
        &[
            "topics = mute-.*",
            "groups = mute-.*",
            "sync.group.offsets.enabled = true",
            "emit.checkpoints.enabled = false",
        ],
    ),
    (
        "none",
        "world",
        &["topics = none-.*", "groups = nobody", "sync.group.offsets.enabled = true"],
    ),
    (
        "slow",
        "world",
        &[
            "topics = slow-.*",
            "groups = slow-.*",
            "sync.group.offsets.enabled = true",
            "refresh.groups.interval.seconds = 600",
        ],
    ),
    (
        "wide",
        "world",
        &[
            "topics = wide-.*",
            "groups = wide-.*",
            "sync.group.offsets.enabled = true",
            "replication.factor = 3",
        ],
    ),
    (
        "barred",
        "world",
        &["topics = barred-.*", "groups = barred-.*", "sync.group.offsets.enabled = true"],
    ),
];

const NAMES: [&str; 7] = ["typo", "off", "mute", "none", "slow", "wide", "barred"];

pub(crate) fn prepare(scene: &Scene) -> Result {
    for name in NAMES {
        scene.filled(&format!("{name}-topic"), 100)?;
        if name != "slow" {
            scene.commit(&format!("{name}-group"), &format!("{name}-topic"), 100)?;
        }
    }
    let group = ["--group", "barred-group"];
    Ok(scene.shell.allow_only(&scene.target(), &group, &["Describe"])?)
}

pub(crate) fn all() -> TestResult {
    let scene = setup::scene()?;
    let doctor = Doctor::new(&properties(scene))?;
    scene.commit("slow-group", "slow-topic", 100)?;
    scene.until_end("off.off-topic", 100)?;
    let expect = |name: &str, errors: &[&str]| {
        let group = format!("{name}-group");
        doctor.until(&format!("{name}->world"), ["--group", &group], errors)
    };
    let found = expect("off", &["sync-disabled"])?;
    found.says("sync-disabled", &["off->world.sync.group.offsets.enabled = true"])?;
    let found = expect("typo", &["unknown-property", "sync-disabled"])?;
    found.says("unknown-property", &["typo->world.sync.group.offsets.enabled"])?;
    expect("mute", &["checkpoints-disabled"])?;
    let both = ["group-not-included", "checkpoint-connector-no-tasks"];
    let found = expect("none", &both)?;
    found.says("group-not-included", &["none->world.groups"])?;
    let about = ["--topic", "none-topic"];
    doctor.until("none->world", about, &both)?;
    // It had no group when it looked, and looks again when it looks for new ones.
    let slow = ["group-not-yet-discovered", "checkpoint-connector-no-tasks"];
    let found = expect("slow", &slow)?;
    found.says("group-not-yet-discovered", &["every 600 s, next in"])?;
    let found = expect("wide", &["topic-missing-on-target"])?;
    found.says(
        "topic-missing-on-target",
        &["replication.factor is 3, and the cluster has 1 broker"],
    )?;
    let found = expect("barred", &["missing-permission"])?;
    found.says("missing-permission", &["wants READ"])?;
    Ok(())
}

/// MM2 may not read its own pairs of offsets. It asks for them without a pause then, so that it has
/// a process of its own.
pub(crate) fn sealed() -> TestResult {
    let scene = setup::scene()?;
    let lines: &[&str] =
        &["topics = sealed-.*", "groups = sealed-.*", "sync.group.offsets.enabled = true"];
    let properties = setup::file(scene, &[("sealed", "closed", lines)]);
    let doctor = Doctor::new(&properties)?;
    scene.filled("sealed-topic", 100)?;
    scene.commit("sealed-group", "sealed-topic", 100)?;
    let syncs = ["--topic", "mm2-offset-syncs.closed.internal"];
    scene.shell.allow_only(&scene.source(), &syncs, &["Describe", "Create", "Write"])?;
    let mm2 = Mm2::start(&scene.jars, &properties)?;
    scene.until_end("sealed.sealed-topic", 100)?;
    // Neither may this look read them, so that its answer is not whole.
    let about = ["--group", "sealed-group"];
    let found = doctor.until_says("sealed->closed", about, "offset-syncs-unreadable")?;
    found.says("offset-syncs-unreadable", &["cannot read mm2-offset-syncs.closed.internal"])?;
    mm2.kill()?;
    Ok(())
}
