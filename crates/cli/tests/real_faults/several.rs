//! Two processes of one flow that cannot tell each other of what is new.

use twinlog_testkit::Mm2;
use twinlog_testkit::ring::TestResult;

use crate::setup::{self, Doctor, LIMIT};

pub(crate) fn two_processes() -> TestResult {
    let scene = setup::scene()?;
    let lines: &[&str] = &[
        "topics = pair-.*",
        "groups = pair-.*",
        "sync.group.offsets.enabled = true",
        "tasks.max = 2",
    ];
    let properties = setup::file(scene, &[("pair", "world", lines)]);
    let doctor = Doctor::new(&properties)?;
    scene.filled("pair-early", 100)?;
    scene.commit("pair-group", "pair-early", 100)?;
    let first = Mm2::start(&scene.jars, &properties)?;
    scene.until_stands("pair-group", "pair.pair-early", 100)?;
    doctor.until("pair->world", ["--group", "pair-group"], &[])?;
    let second = Mm2::start(&scene.jars, &properties)?;
    second.process().wait_for_log("Joined group at generation", LIMIT)?;
    scene.filled("pair-late", 100)?;
    let about = ["--topic", "pair-late"];
    let found = doctor.until_says("pair->world", about, "mirror-cannot-reconfigure")?;
    found.says("mirror-cannot-reconfigure", &["dedicated.mode.enable.internal.rest = true"])?;
    doctor.until("pair->world", ["--group", "pair-group"], &[])?;
    second.stop()?;
    first.stop()?;
    Ok(())
}
