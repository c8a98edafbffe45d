//! What cannot be mirrored stops alone, and says why.

use serde_json::Value;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{Shell, wait_until_some};

use crate::setup::{
    self, Answer, LIMIT, Mirror, Result, SOON, entry, flows_file, hello_world, prefixed,
    until_equal,
};

/// Records of text, `count` of them, in partition `partition`.
fn produce(shell: &Shell, bootstrap: &str, topic: &str, partition: i32, count: usize) -> Result {
    let records: Vec<_> = (0..count).map(|_| (partition, Some("key"), Some("value"))).collect();
    shell.produce(bootstrap, topic, &records, &[])?;
    Ok(())
}

/// The entry of a partition in an answer of `status`.
pub(crate) fn partition<'a>(document: &'a Value, topic: &str, partition: i32) -> Result<&'a Value> {
    let topics = &hello_world(document)?["topics"];
    let found = entry(topics, "topic", topic).ok_or_else(|| format!("no {topic} in {document}"))?;
    let partitions = found["partitions"].as_array();
    let found = partitions.and_then(|all| all.iter().find(|one| one["partition"] == partition));
    Ok(found.ok_or_else(|| format!("no {topic}-{partition} in {document}"))?)
}

/// Waits until `status` says this of a partition.
pub(crate) fn until_stopped(
    mirror: &Mirror,
    topic: &str,
    number: i32,
    code: &str,
) -> Result<Answer> {
    let what = format!("{code} of {topic}-{number}");
    Ok(wait_until_some(&what, LIMIT, || {
        let answer = mirror.ask("status", &[]).map_err(|error| error.to_string())?;
        let stands = partition(&answer.document, topic, number).map_err(|e| e.to_string())?;
        if stands["state"] == "stopped" && stands["code"] == code {
            return Ok(answer);
        }
        Err(stands.to_string())
    })?)
}

pub(crate) fn stopped_topics() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    for topic in ["bad-busy", "bad-large", "bad-again", "bad-none"] {
        shell.create_topic(&hello, topic, 2, 1, &[])?;
        produce(shell, &hello, topic, 0, 10)?;
        produce(shell, &hello, topic, 1, 10)?;
    }
    // Somebody has used the name of a mirror before.
    shell.create_topic(&world, "hello.bad-busy", 2, 1, &[])?;
    produce(shell, &world, "hello.bad-busy", 1, 3)?;
    // And somebody has made a mirror that takes only small batches.
    shell.create_topic(&world, "hello.bad-large", 2, 1, &[("max.message.bytes", "2000")])?;

    let mirror = Mirror::of_prefix(pair, "bad-")?;
    let keep_configs = ["-X", "hello->world.sync.topic.configs.enabled=false"];
    let run = mirror.run_with(&keep_configs)?;
    let there = ["bad-large", "bad-again", "bad-none"];
    setup::or_log(&run, until_equal(shell, (&hello, &world), &there, prefixed("hello")))?;

    setup::or_log(&run, until_stopped(&mirror, "bad-busy", 1, "target-not-empty"))?;
    let ends = shell.end_offsets(&world, "hello.bad-busy")?;
    assert_eq!((ends[&0], ends[&1]), (10, 3), "only the empty partition was taken up");

    // A record that is too large holds what follows it in its partition, and nothing else.
    let large = "x".repeat(5_000);
    shell.produce(&hello, "bad-large", &[(0, None, Some(&large))], &[])?;
    produce(shell, &hello, "bad-large", 0, 5)?;
    produce(shell, &hello, "bad-large", 1, 5)?;
    let answer = setup::or_log(&run, until_stopped(&mirror, "bad-large", 0, "record-too-large"))?;
    assert_eq!(answer.exit, Some(1), "{}", answer.document);
    let stands = partition(&answer.document, "bad-large", 0)?;
    assert_eq!(stands["copied_to"], 10, "{stands}");
    wait_until_some("the other partition goes on", SOON, || {
        let ends = shell.end_offsets(&world, "hello.bad-large").map_err(|e| e.to_string())?;
        if (ends[&0], ends[&1]) == (10, 15) { Ok(()) } else { Err(format!("{ends:?}")) }
    })?;

    // Deleted and made again: another topic of the same name.
    shell.delete_topic(&hello, "bad-again")?;
    shell.create_topic(&hello, "bad-again", 2, 1, &[])?;
    produce(shell, &hello, "bad-again", 0, 20)?;
    setup::or_log(&run, until_stopped(&mirror, "bad-again", 0, "topic-recreated"))?;
    let ends = shell.end_offsets(&world, "hello.bad-again")?;
    assert_eq!((ends[&0], ends[&1]), (10, 10), "nothing of the new topic in the old mirror");

    // All the while the rest goes on, also after another start.
    produce(shell, &hello, "bad-none", 0, 10)?;
    setup::or_log(&run, until_equal(shell, (&hello, &world), &["bad-none"], prefixed("hello")))?;
    setup::stop(&run)?;
    let run = mirror.run_with(&keep_configs)?;
    produce(shell, &hello, "bad-none", 1, 10)?;
    setup::or_log(&run, until_equal(shell, (&hello, &world), &["bad-none"], prefixed("hello")))?;
    for (topic, number, code) in [
        ("bad-busy", 1, "target-not-empty"),
        ("bad-large", 0, "record-too-large"),
        ("bad-again", 0, "topic-recreated"),
    ] {
        setup::or_log(&run, until_stopped(&mirror, topic, number, code))?;
    }
    setup::stop(&run)?;
    Ok(())
}

pub(crate) fn source_gap() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    shell.create_topic(&hello, "gap-topic", 2, 1, &[])?;
    produce(shell, &hello, "gap-topic", 0, 100)?;
    produce(shell, &hello, "gap-topic", 1, 100)?;
    let mirror = Mirror::of_prefix(pair, "gap-")?;
    let run = mirror.run()?;
    setup::or_log(&run, until_equal(shell, (&hello, &world), &["gap-topic"], prefixed("hello")))?;
    setup::stop(&run)?;

    // While nothing runs, 50 records come and the first 20 of them go again.
    produce(shell, &hello, "gap-topic", 0, 50)?;
    produce(shell, &hello, "gap-topic", 1, 50)?;
    shell.delete_records(&hello, "gap-topic", 0, 120)?;
    let run = mirror.run()?;
    let found = wait_until_some("the gap in status", LIMIT, || {
        let answer = mirror.ask("status", &[]).map_err(|error| error.to_string())?;
        let stands = partition(&answer.document, "gap-topic", 0).map_err(|e| e.to_string())?;
        let gap = &stands["gaps"][0];
        if (&gap["from"], &gap["to"]) == (&100.into(), &120.into()) {
            return Ok((answer.exit, stands.clone()));
        }
        Err(stands.to_string())
    });
    let (exit, stands) = setup::or_log(&run, found.map_err(Into::into))?;
    assert_eq!(exit, Some(1));
    assert_eq!((&stands["state"], &stands["code"]), (&"stopped".into(), &"source-gap".into()));
    let reason = stands["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("100") && reason.contains("119"), "{reason}");
    // Nothing was written over the gap; the other partition has all.
    wait_until_some("the other partition goes on", SOON, || {
        let ends = shell.end_offsets(&world, "hello.gap-topic").map_err(|e| e.to_string())?;
        if (ends[&0], ends[&1]) == (100, 150) { Ok(()) } else { Err(format!("{ends:?}")) }
    })?;
    setup::stop(&run)?;
    Ok(())
}

pub(crate) fn unreachable() -> TestResult {
    let pair = setup::pair()?;
    let mut third = setup::third()?;
    let (shell, world, absent) = (&pair.shell, pair.world.bootstrap(), third.bootstrap());
    shell.create_topic(&absent, "absent-topic", 1, 1, &[])?;
    produce(shell, &absent, "absent-topic", 0, 10)?;
    third.stop()?;

    // It is called `hello` here: what is judged is the flow from hello to world.
    let clusters = [("hello", absent.as_str()), ("world", world.as_str())];
    let mirror =
        Mirror::new(&flows_file(&clusters, &[("hello", "world")], "absent-.*", "absent-"))?;
    let run = mirror.run()?;
    run.wait_for_log("unreachable", LIMIT)?;
    assert!(run.process().log().contains(&absent), "{}", run.process().log());
    let answer = mirror.ask("status", &["--timeout", "5s"])?;
    assert_eq!(answer.exit, Some(3), "{}", answer.document);
    let missing = &hello_world(&answer.document)?["missing"];
    assert_eq!(missing[0]["cluster"], "hello", "{missing}");
    assert_eq!(missing[0]["code"], "unreachable", "{missing}");
    assert!(run.process().is_running());

    third.restart()?;
    let equal = until_equal(shell, (&absent, &world), &["absent-topic"], prefixed("hello"));
    setup::or_log(&run, equal)?;
    setup::stop(&run)?;
    Ok(())
}
