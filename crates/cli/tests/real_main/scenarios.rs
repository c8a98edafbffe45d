//! Situations that users of mirrors suffer, on real brokers: groups in the middle of a log, behind markers
//! of transactions, far behind at a restart, alone with five records, or alive on the target; records that
//! were deleted before they were copied, and a topic that was made again. The embedded ring has each of
//! them with more variants.

use std::collections::BTreeMap;

use serde_json::Value;
use twinlog_testkit::oracle::compare_logs;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{
    CommitAs, Dump, Log, Offsets, TopicKind, TopicPlan, Twinlog, Workload, wait_until_some,
};

use crate::explaining::until_well;
use crate::setup::{
    self, Answer, LIMIT, Mirror, Pair, Result, SOON, hello_world, places, prefixed, read_on,
    until_equal, until_placed,
};
use crate::trouble::{partition, until_stopped};

/// Records `from..to`, each told by its value.
fn records(pair: &Pair, topic: &str, number: i32, from: usize, to: usize) -> Result {
    let values: Vec<String> = (from..to).map(|n| format!("{topic}/{number}/{n}")).collect();
    let records: Vec<_> =
        values.iter().map(|value| (number, Some("key"), Some(value.as_str()))).collect();
    pair.shell.produce(&pair.hello.bootstrap(), topic, &records, &[])?;
    Ok(())
}

/// Twenty transactions of five records.
fn transactions(pair: &Pair, topic: &str, round: usize) -> Result {
    for n in 0..20 {
        let values: Vec<String> = (0..5).map(|i| format!("{round}/{n}/{i}")).collect();
        let records: Vec<_> = values.iter().map(|value| (0, None, Some(value.as_str()))).collect();
        let id = [("transactional.id", topic)];
        pair.shell.produce(&pair.hello.bootstrap(), topic, &records, &id)?;
    }
    Ok(())
}

fn at(topic: &str, offset: i64) -> Offsets {
    BTreeMap::from([(topic.to_owned(), BTreeMap::from([(0, offset)]))])
}

fn commit(pair: &Pair, group: &str, topic: &str, offset: i64) -> Result {
    let hello = pair.hello.bootstrap();
    Ok(pair.shell.commit(&hello, group, &at(topic, offset), CommitAs::Admin)?)
}

/// Where a group stands on the target.
fn stands(pair: &Pair, group: &str, topic: &str) -> Result<Option<i64>> {
    let committed = pair.shell.committed(&pair.world.bootstrap(), group)?;
    let of_topic = committed.get(&prefixed("hello")(topic));
    Ok(of_topic.and_then(|partitions| partitions.get(&0)).map(|committed| committed.offset))
}

fn until_stands(pair: &Pair, group: &str, topic: &str, offset: i64) -> Result {
    Ok(wait_until_some(&format!("{group} at {offset} of {topic}"), SOON, || {
        let now = stands(pair, group, topic).map_err(|error| error.to_string())?;
        if now == Some(offset) { Ok(()) } else { Err(format!("{now:?}")) }
    })?)
}

/// Waits until so many records are in the mirror.
fn until_copied(pair: &Pair, topic: &str, number: i32, wanted: i64) -> Result {
    let mirror = prefixed("hello")(topic);
    Ok(wait_until_some(&format!("{wanted} records in {mirror}"), LIMIT, || {
        let world = pair.world.bootstrap();
        let ends = pair.shell.end_offsets(&world, &mirror).map_err(|error| error.to_string())?;
        let end = ends.get(&number).copied().unwrap_or_default();
        if end == wanted { Ok(()) } else { Err(format!("{end}")) }
    })?)
}

/// Every place at which a group was ever put on the target, in order.
fn history(mirror: &Mirror, group: &str) -> Result<Vec<i64>> {
    let args = ["consumer-offsets", "--cluster", "world", "--group", group, "--of", "commits"];
    let output = mirror.output("dump", &args)?;
    let text = String::from_utf8(output.stdout)?;
    let mut offsets = Vec::new();
    for line in text.lines() {
        let document: Value = serde_json::from_str(line)?;
        offsets.extend(document["value"]["data"]["offset"].as_i64());
    }
    Ok(offsets)
}

fn code<'a>(document: &'a Value, group: &str) -> Result<&'a Value> {
    let groups = &hello_world(document)?["groups"];
    let found = setup::entry(groups, "group", group).ok_or_else(|| document.to_string())?;
    Ok(&found["partitions"][0]["code"])
}

pub(crate) fn groups() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello) = (&pair.shell, pair.hello.bootstrap());
    for topic in ["sc-middle", "sc-markers", "sc-far", "sc-few", "sc-lives"] {
        shell.create_topic(&hello, topic, 1, 1, &[])?;
    }
    let mirror = Mirror::of_prefix(pair, "sc-")?;
    let run = mirror.run_with(&["-X", "emit.checkpoints.interval.seconds=1"])?;
    setup::or_log(&run, in_the_middle(pair, &mirror))?;
    setup::or_log(&run, behind_markers(pair, &mirror))?;
    setup::or_log(&run, few_records(pair, &mirror))?;
    setup::or_log(&run, alive_on_the_target(pair, &mirror))?;
    far_behind_at_a_restart(pair, &mirror, &run)
}

/// OFF-1.
fn in_the_middle(pair: &Pair, mirror: &Mirror) -> Result {
    records(pair, "sc-middle", 0, 0, 100)?;
    until_copied(pair, "sc-middle", 0, 100)?;
    commit(pair, "sc-middle-app", "sc-middle", 50)?;
    until_stands(pair, "sc-middle-app", "sc-middle", 50)?;
    until_well(mirror, &["--group", "sc-middle-app"])?;
    let Answer { exit, document } = mirror.ask("verify", &["--group", "sc-middle-app"])?;
    let group = setup::entry(&document["flows"][0]["groups"], "group", "sc-middle-app");
    let group = group.ok_or_else(|| document.to_string())?;
    assert_eq!((exit, &group["result"], &group["reread"]), (Some(0), &"equal".into(), &0.into()));
    Ok(())
}

/// OFF-4.
fn behind_markers(pair: &Pair, mirror: &Mirror) -> Result {
    transactions(pair, "sc-markers", 0)?;
    let ends = pair.shell.end_offsets(&pair.hello.bootstrap(), "sc-markers")?;
    assert_eq!(ends[&0], 120, "a hundred records and twenty markers");
    commit(pair, "sc-markers-app", "sc-markers", 120)?;
    until_stands(pair, "sc-markers-app", "sc-markers", 100)?;
    transactions(pair, "sc-markers", 1)?;
    until_copied(pair, "sc-markers", 0, 200)?;
    commit(pair, "sc-markers-app", "sc-markers", 150)?;
    until_stands(pair, "sc-markers-app", "sc-markers", 125)?;
    // At no moment beyond what is there.
    let history = history(mirror, "sc-markers-app")?;
    assert!(history.is_sorted() && history.last() == Some(&125), "{history:?}");
    assert!(history[..history.len() - 1].iter().all(|at| *at <= 100), "{history:?}");
    Ok(())
}

/// OFF-7: five records, then silence; MM2's Java client reads the same from the checkpoints.
fn few_records(pair: &Pair, mirror: &Mirror) -> Result {
    records(pair, "sc-few", 0, 0, 5)?;
    commit(pair, "sc-few-app", "sc-few", 5)?;
    until_stands(pair, "sc-few-app", "sc-few", 5)?;
    until_well(mirror, &["--group", "sc-few-app"])?;
    wait_until_some("the checkpoint for Java clients", SOON, || {
        let world = pair.world.bootstrap();
        let probe = pair.shell.mirror_probe(&world, "hello", &["sc-few-app"], &[]);
        let probe = probe.map_err(|error| error.to_string())?;
        let told = &probe["translateOffsets/sc-few-app"]["value"]["hello.sc-few-0"]["offset"];
        if told == 5 { Ok(()) } else { Err(probe.to_string()) }
    })?;
    Ok(())
}

/// GRP-1: what the target's own consumers have read is not taken back.
fn alive_on_the_target(pair: &Pair, mirror: &Mirror) -> Result {
    let (shell, world) = (&pair.shell, pair.world.bootstrap());
    records(pair, "sc-lives", 0, 0, 200)?;
    commit(pair, "sc-lives-app", "sc-lives", 100)?;
    until_stands(pair, "sc-lives-app", "sc-lives", 100)?;
    for (n, back) in [(0, 90), (1, 70), (2, 50)] {
        let forward = at("hello.sc-lives", 150 + n);
        shell.commit(&world, "sc-lives-app", &forward, CommitAs::Member)?;
        commit(pair, "sc-lives-app", "sc-lives", back)?;
        // A round of the mirror: another group arrives that committed later.
        commit(pair, "sc-witness", "sc-lives", 10 + n)?;
        until_stands(pair, "sc-witness", "sc-lives", 10 + n)?;
        assert_eq!(stands(pair, "sc-lives-app", "sc-lives")?, Some(150 + n));
    }
    wait_until_some("how the group stands", SOON, || {
        let answer = mirror.ask("status", &["--group", "sc-lives-app"]);
        let document = answer.map_err(|error| error.to_string())?.document;
        let told = code(&document, "sc-lives-app").map_err(|error| error.to_string())?;
        if told == "target-ahead" { Ok(()) } else { Err(document.to_string()) }
    })?;
    let history = history(mirror, "sc-lives-app")?;
    assert!(history.is_sorted(), "{history:?}");
    Ok(())
}

/// OFF-5.
fn far_behind_at_a_restart(pair: &Pair, mirror: &Mirror, run: &Twinlog) -> Result {
    records(pair, "sc-far", 0, 0, 10_000)?;
    setup::or_log(run, until_copied(pair, "sc-far", 0, 10_000))?;
    for offset in (250..=5_000).step_by(250) {
        commit(pair, "sc-far-app", "sc-far", offset)?;
    }
    setup::or_log(run, until_stands(pair, "sc-far-app", "sc-far", 5_000))?;
    setup::stop(run)?;
    records(pair, "sc-far", 0, 10_000, 20_000)?;
    commit(pair, "sc-far-app", "sc-far", 5_250)?;
    let run = mirror.run()?;
    setup::or_log(&run, until_stands(pair, "sc-far-app", "sc-far", 5_250))?;
    for offset in [5_500, 9_999, 10_001, 17_777] {
        commit(pair, "sc-far-app", "sc-far", offset)?;
        setup::or_log(&run, until_stands(pair, "sc-far-app", "sc-far", offset))?;
    }
    let history = history(mirror, "sc-far-app")?;
    assert!(history.is_sorted(), "{history:?}");
    setup::stop(&run)?;
    Ok(())
}

pub(crate) fn losses() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    shell.create_topic(&hello, "lo-gap", 2, 1, &[])?;
    shell.create_topic(&hello, "lo-again", 1, 1, &[])?;
    for topic in ["lo-gap", "lo-again"] {
        records(pair, topic, 0, 0, 100)?;
    }
    let name = "lo-holes".to_owned();
    let plan = TopicPlan { name, kind: TopicKind::Compacted, partitions: 1, records: 4_000 };
    Workload { topics: vec![plan], replication: 1, value_bytes: 50 }.load(shell, &hello)?;
    for (group, topic, offset) in [
        ("lo-before", "lo-gap", 60),
        ("lo-reader", "lo-gap", 100),
        ("lo-again-app", "lo-again", 100),
        ("lo-hole", "lo-holes", 1_000),
    ] {
        commit(pair, group, topic, offset)?;
    }
    let mirror = Mirror::of_prefix(pair, "lo-")?;
    let run = mirror.run()?;
    let there = ["lo-gap", "lo-again", "lo-holes"];
    let equal = until_equal(shell, (&hello, &world), &there, prefixed("hello"));
    let (original, copy) = setup::or_log(&run, equal)?;
    setup::or_log(&run, until_stands(pair, "lo-again-app", "lo-again", 100))?;
    setup::or_log(&run, holes(pair, &mirror, &original, &copy))?;
    setup::stop(&run)?;

    // What happens while nothing runs.
    records(pair, "lo-gap", 0, 100, 300)?;
    records(pair, "lo-gap", 1, 0, 20)?;
    commit(pair, "lo-reader", "lo-gap", 150)?;
    shell.delete_records(&hello, "lo-gap", 0, 250)?;
    shell.delete_topic(&hello, "lo-again")?;
    shell.create_topic(&hello, "lo-again", 1, 1, &[])?;
    // More than before: by its offsets alone nothing would be seen.
    records(pair, "lo-again", 0, 1_000, 1_150)?;
    commit(pair, "lo-again-app", "lo-again", 5)?;
    let run = mirror.run()?;
    setup::or_log(&run, overtaken(pair, &mirror))?;
    setup::or_log(&run, made_again(pair, &mirror))?;
    setup::stop(&run)?;
    Ok(())
}

/// LOSS-3: a compacted topic is compacted on the target from its creation on, holes are no loss, and a
/// group in a hole stands at the next record.
fn holes(pair: &Pair, mirror: &Mirror, original: &Dump, copy: &Dump) -> Result {
    let (shell, world) = (&pair.shell, pair.world.bootstrap());
    let log = original.log("lo-holes", 0).ok_or("not read")?;
    let gone = log.rows.iter().all(|row| row.offset != 1_000);
    assert!(gone && log.rows[0].offset < 1_000, "the group does not stand in a hole");
    assert!(log.rows.iter().any(|row| row.content.value.is_none()), "no tombstones");
    let commits = BTreeMap::from([("lo-hole".to_owned(), at("lo-holes", 1_000))]);
    let places = places(&commits, (original, copy), prefixed("hello"))?;
    until_placed(shell, &world, &places, SOON)?;
    read_on(shell, &world, &places)?;
    let configs = shell.topic_configs(&world, "hello.lo-holes")?;
    assert_eq!(configs.get("cleanup.policy").map(String::as_str), Some("compact"));
    let answer = mirror.ask("status", &["--topic", "lo-holes"])?;
    let stands = partition(&answer.document, "lo-holes", 0)?;
    assert_eq!((&stands["gaps"], &stands["lag_records"]), (&Value::Null, &0.into()));
    Ok(())
}

/// LOSS-1: the partition stops with the range; once it is accepted, the copy goes on behind it, the
/// ledger keeps it, and the group whose backlog it was says so.
fn overtaken(pair: &Pair, mirror: &Mirror) -> Result {
    let answer = until_stopped(mirror, "lo-gap", 0, "source-gap")?;
    let reason = partition(&answer.document, "lo-gap", 0)?["reason"].to_string();
    assert!(reason.contains("100 to 249 (150)"), "{reason}");
    until_copied(pair, "lo-gap", 1, 20)?;
    let doctor = mirror.ask("doctor", &["--topic", "lo-gap"])?;
    assert_eq!(doctor.exit, Some(1), "{}", doctor.document);
    until_copied(pair, "lo-gap", 0, 100)?;

    let resume = mirror.output("resume", &["--topic", "lo-gap", "--accept-gap"])?;
    assert!(resume.status.success(), "{resume:?}");
    until_copied(pair, "lo-gap", 0, 150)?;
    let (shell, world) = (&pair.shell, pair.world.bootstrap());
    let left = shell.dump(&pair.hello.bootstrap(), &["lo-gap"])?;
    let copy = shell.dump(&world, &["hello.lo-gap"])?;
    let (left, copy) = (left.log("lo-gap", 0), copy.log("hello.lo-gap", 0));
    let (left, copy) = (left.ok_or("not read")?, copy.ok_or("not read")?);
    let behind = Log { rows: copy.rows[100..].to_vec(), ..copy.clone() };
    assert_eq!(compare_logs(left, &behind), [], "250 to 299 stand at 100 to 149");
    until_stands(pair, "lo-reader", "lo-gap", 100)?;
    assert_eq!(stands(pair, "lo-before", "lo-gap")?, Some(60));
    wait_until_some("the gap in the ledger, once", SOON, || {
        let answer = mirror.ask("status", &[]).map_err(|error| error.to_string())?;
        let told = partition(&answer.document, "lo-gap", 0).map_err(|error| error.to_string())?;
        let gaps = told["gaps"].as_array().map_or(&[][..], Vec::as_slice);
        let reader = code(&answer.document, "lo-reader").map_err(|error| error.to_string())?;
        let once =
            gaps.len() == 1 && (&gaps[0]["from"], &gaps[0]["to"]) == (&100.into(), &250.into());
        let told_to_group = reader == "backlog-not-on-target";
        if once && told_to_group { Ok(()) } else { Err(answer.document.to_string()) }
    })?;
    Ok(())
}

/// LOSS-2, beyond the old position: nothing of the new topic is written until somebody says so; then it
/// is another generation behind the old one.
fn made_again(pair: &Pair, mirror: &Mirror) -> Result {
    until_stopped(mirror, "lo-again", 0, "topic-recreated")?;
    let doctor = mirror.ask("doctor", &["--topic", "lo-again"])?;
    assert_eq!(doctor.exit, Some(1), "{}", doctor.document);
    until_copied(pair, "lo-again", 0, 100)?;
    assert_eq!(stands(pair, "lo-again-app", "lo-again")?, Some(100));

    let resume = mirror.output("resume", &["--topic", "lo-again", "--accept-gap"])?;
    assert!(resume.status.success(), "{resume:?}");
    until_copied(pair, "lo-again", 0, 250)?;
    until_stands(pair, "lo-again-app", "lo-again", 105)?;
    for (generation, place) in [("0", 5), ("1", 105)] {
        let of = ["--topic", "lo-again", "--partition", "0", "--offset", "5"];
        let answer = mirror.ask("translate", &[&of[..], &["--generation", generation]].concat())?;
        assert_eq!(answer.document["target"]["offset"], place, "{}", answer.document);
    }
    Ok(())
}
