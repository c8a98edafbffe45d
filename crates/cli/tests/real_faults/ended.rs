//! What a stop, a kill or a failed task of MirrorMaker 2 leaves behind.

use twinlog_testkit::Mm2;
use twinlog_testkit::ring::TestResult;

use crate::running::properties;
use crate::setup::{self, Doctor};

/// The topics that are made or changed while it does not run, and their groups.
pub(crate) fn stopped() -> TestResult {
    let scene = setup::scene()?;
    let (shell, source, target) = (&scene.shell, scene.source(), scene.target());
    let properties = properties(scene);
    let doctor = Doctor::new(&properties)?;
    let mut mm2 = setup::mm2();
    scene.until_stands("g-lost", "hello.f-lost", 100)?;
    scene.until_stands("g-grown", "hello.f-grown", 500)?;
    let before = mm2.take().ok_or("it does not run")?;
    before.stop()?;
    shell.delete_group(&target, "g-gone")?;
    let found = doctor.group("g-gone", &["mirror-not-running", "offsets-expired"])?;
    found.says("mirror-not-running", &["it was stopped"])?;

    // Two at once: both are named, and what explains more stands first.
    for (group, first, second) in [
        ("g-out-1", "mirror-not-running", "group-excluded"),
        ("g-neg", "mirror-not-running", "negative-lag"),
        ("g-back", "mirror-not-running", "source-rewound"),
    ] {
        doctor.group(group, &[first, second])?.says_in_order(&[first, second])?;
    }

    scene.records("f-lost", 0, 100, 300)?;
    shell.delete_records(&source, "f-lost", 0, 250)?;
    // Made anew, and longer than what was copied: no offset shows it.
    shell.delete_topic(&source, "f-grown")?;
    scene.topic("f-grown", 1, &[])?;
    scene.records("f-grown", 0, 10_000, 10_700)?;
    let found = doctor.group("g-lost", &["mirror-not-running", "source-gap"])?;
    found.says("source-gap", &["offsets 100 to 249 were gone"])?;

    *mm2 = Some(Mm2::start(&scene.jars, &properties)?);
    scene.until_end("hello.f-lost", 150)?;
    scene.commit("g-lost", "f-lost", 300)?;
    scene.until_stands("g-lost", "hello.f-lost", 150)?;
    let found = doctor.group("g-lost", &["source-gap"])?;
    found.says("source-gap", &["offsets 100 to 249 were gone", "finds 150 records missing"])?;
    scene.until_end("hello.f-grown", 700)?;
    scene.commit("g-grown", "f-grown", 700)?;
    scene.until_stands("g-grown", "hello.f-grown", 700)?;
    doctor.group("g-grown", &["topic-recreated"])?;
    scene.until_stands("g-gone", "hello.f-plain", 1_000)?;
    doctor.group("g-fine", &[])?;
    Ok(())
}

pub(crate) fn killed() -> TestResult {
    let scene = setup::scene()?;
    // Positions are stored once a minute, as by default.
    let properties =
        properties(scene).replace("flush.interval.ms = 1000", "flush.interval.ms = 60000");
    let doctor = Doctor::new(&properties)?;
    let mut mm2 = setup::mm2();
    mm2.take().ok_or("it does not run")?.stop()?;
    scene.filled("f-twice", 2_000)?;
    let first = Mm2::start(&scene.jars, &properties)?;
    scene.until_end("hello.f-twice", 2_000)?;
    first.kill()?;
    *mm2 = Some(Mm2::start(&scene.jars, &properties)?);
    let mirror = "hello.f-twice";
    scene.until_end(mirror, 4_000)?;
    scene.records("f-twice", 0, 2_000, 2_010)?;
    scene.until_end(mirror, 4_010)?;
    let copies = scene.shell.dump(&scene.target(), &[mirror])?.records();
    let repeated = copies - scene.shell.dump(&scene.source(), &["f-twice"])?.records();
    let found = doctor.until("hello->world", ["--topic", "f-twice"], &["duplicates-on-target"])?;
    found
        .says("duplicates-on-target", &[&format!("{repeated} records are on the target twice")])?;
    Ok(())
}

pub(crate) fn too_large() -> TestResult {
    let scene = setup::scene()?;
    let (shell, target) = (&scene.shell, scene.target());
    let properties = properties(scene);
    let doctor = Doctor::new(&properties)?;
    let mut mm2 = setup::mm2();
    mm2.take().ok_or("it does not run")?.stop()?;
    let limit = [("max.message.bytes", "10000")];
    scene.filled("f-large", 100)?;
    shell.create_topic(&target, "hello.f-large", 1, 1, &limit)?;
    *mm2 = Some(Mm2::start(&scene.jars, &properties)?);
    scene.commit("g-large", "f-large", 100)?;
    scene.until_stands("g-large", "hello.f-large", 100)?;
    doctor.group("g-large", &[])?;
    let large = "x".repeat(20_000);
    shell.produce(&scene.source(), "f-large", &[(0, None, Some(&large))], &[])?;
    scene.records("f-large", 0, 101, 121)?;
    let found = doctor.group("g-large", &["connector-failed", "record-too-large"])?;
    let said = ["the record at 100 has 20000 bytes", "takes 10000", "finds 21 records missing"];
    found.says("record-too-large", &said)?;
    Ok(())
}

pub(crate) fn dead() -> TestResult {
    let scene = setup::scene()?;
    let doctor = Doctor::new(&properties(scene))?;
    setup::mm2().take().ok_or("it does not run")?.kill()?;
    // The group of its workers notices after the session.
    let about = ["--group", "off-group"];
    let found = doctor.until_says("off->world", about, "mirror-not-running")?;
    found.says("mirror-not-running", &["it was killed"])
}
