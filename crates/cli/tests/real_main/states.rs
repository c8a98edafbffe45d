//! What `twinlog explain` says of partitions that are held back and of groups on them, and what it says
//! to run next; where that is done, the state passes.

use serde_json::Value;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{JavaTool, wait_until_some};

use crate::explaining::{commit, records, says, until_verdict, until_well};
use crate::setup::{self, LIMIT, Mirror, Pair, Result, prefixed, until_equal};

const TOPICS: [&str; 7] =
    ["st-early", "st-large", "st-paused", "st-denied", "st-gone", "st-unmade", "st-fine"];

pub(crate) fn held_back() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    for topic in TOPICS {
        shell.create_topic(&hello, topic, 1, 1, &[])?;
        records(shell, &hello, topic, 100)?;
        commit(shell, &hello, &format!("{topic}-app"), topic, 40)?;
    }
    shell.delete_records(&hello, "st-early", 0, 60)?;
    let small = [("max.message.bytes", "2000")];
    shell.create_topic(&world, "hello.st-large", 1, 1, &small)?;

    // One whose settings nobody may read from the beginning.
    shell.create_topic(&hello, "st-barred", 1, 1, &[])?;
    shell.allow_only(&hello, &["--topic", "st-barred"], &["Describe", "Read"])?;
    commit(shell, &hello, "st-barred-app", "st-barred", 0)?;
    let mirror = Mirror::of_prefix(pair, "st-")?;
    let run = mirror.run_with(&["-X", "hello->world.sync.topic.configs.enabled=false"])?;
    setup::or_log(&run, until_equal(shell, (&hello, &world), &TOPICS, prefixed("hello")))?;
    setup::or_log(&run, judged(pair, &mirror))?;
    setup::or_log(&run, mended(pair, &mirror))?;
    setup::stop(&run)?;
    Ok(())
}

/// The group and the topic of a name break at the same link for the same reason.
fn both(mirror: &Mirror, topic: &str, link: &str, code: &str) -> Result<Value> {
    until_verdict(mirror, &["--group", &format!("{topic}-app")], (link, code, 1))?;
    until_verdict(mirror, &["--topic", topic], (link, code, 1))
}

fn judged(pair: &Pair, mirror: &Mirror) -> Result {
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    until_well(mirror, &["--group", "st-fine-app"])?;
    let early = ["--group", "st-early-app"];
    let found = until_verdict(mirror, &early, ("translation", "backlog-not-on-target", 1))?;
    says(&found, "links", "up to 20 records")?;

    assert!(mirror.output("pause", &["--topic", "st-paused"])?.status.success());
    records(shell, &hello, "st-paused", 5)?;
    let found = both(mirror, "st-paused", "copy", "paused")?;
    says(&found, "fix", "--topic st-paused")?;

    let large = "x".repeat(5_000);
    shell.produce(&hello, "st-large", &[(0, None, Some(&large))], &[])?;
    let found = both(mirror, "st-large", "copy", "record-too-large")?;
    says(&found, "links", "offset 100 or before")?;
    says(&found, "fix", "--entity-name hello.st-large --add-config max.message.bytes=")?;

    let operations = ["Describe", "DescribeConfigs", "Write"];
    shell.allow_only(&hello, &["--topic", "st-denied"], &operations)?;
    // A broker lets through what comes before it has heard of the rights.
    wait_until_some("a record that may not be read", LIMIT, || {
        records(shell, &hello, "st-denied", 1).map_err(|error| error.to_string())?;
        let status = mirror.ask("status", &["--topic", "st-denied"]).map_err(|e| e.to_string())?;
        let refused = status.document.to_string().contains("missing-permission");
        if refused { Ok(()) } else { Err(status.document.to_string()) }
    })?;
    let found = both(mirror, "st-denied", "copy", "missing-permission")?;
    says(&found, "links", "READ on st-denied is missing")?;
    says(&found, "fix", "--operation Read --topic st-denied")?;

    let found = both(mirror, "st-barred", "topic", "topic-missing-on-target")?;
    says(&found, "links", "DESCRIBE_CONFIGS on st-barred is missing on the source")?;

    shell.delete_topic(&hello, "st-gone")?;
    let gone = ["--topic", "st-gone"];
    until_verdict(mirror, &gone, ("source-topic", "source-topic-deleted", 1))?;

    shell.delete_topic(&world, "hello.st-unmade")?;
    both(mirror, "st-unmade", "topic", "topic-missing-on-target")?;
    shell.create_topic(&world, "hello.st-unmade", 1, 1, &[])?;
    let found = both(mirror, "st-unmade", "topic", "target-recreated")?;
    says(&found, "fix", "--topic hello.st-unmade")?;
    until_well(mirror, &["--group", "st-fine-app"])
}

/// Does what `explain` says to run.
fn mended(pair: &Pair, mirror: &Mirror) -> Result {
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    assert!(mirror.output("resume", &["--topic", "st-paused"])?.status.success());
    shell.configure_topic(&world, "hello.st-large", &[("max.message.bytes", "10485760")])?;
    let grant = ["--bootstrap-server", &hello, "--add", "--allow-principal", "User:ANONYMOUS"];
    let what = ["--operation", "Read", "--topic", "st-denied"];
    let granted = shell.tool(JavaTool::ACLS, &[&grant[..], &what[..]].concat())?;
    assert!(granted.success, "{granted:?}");
    for topic in ["st-paused", "st-large", "st-denied"] {
        until_well(mirror, &["--topic", topic])?;
        until_well(mirror, &["--group", &format!("{topic}-app")])?;
    }
    until_equal(
        shell,
        (&hello, &world),
        &["st-paused", "st-large", "st-denied"],
        prefixed("hello"),
    )?;
    Ok(())
}
