//! What `twinlog verify` and `twinlog rehearse` say of mirrors between real brokers.

use serde_json::Value;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{CommitAs, Mm2, Offsets, Scratch, Shell, wait_until_some};

use crate::setup::{self, Answer, LIMIT, Mirror, Result, flows_file, prefixed, until_equal};

fn commit(shell: &Shell, bootstrap: &str, group: &str, topic: &str, offset: i64) -> Result {
    let offsets: Offsets = [(topic.to_owned(), [(0, offset)].into())].into();
    shell.commit(bootstrap, group, &offsets, CommitAs::Admin)?;
    Ok(())
}

fn records(shell: &Shell, bootstrap: &str, topic: &str, from: usize, count: usize) -> Result {
    let values: Vec<String> = (from..from + count).map(|n| format!("value {n}")).collect();
    let records: Vec<_> = values.iter().map(|value| (0, Some("key"), Some(&**value))).collect();
    shell.produce(bootstrap, topic, &records, &[])?;
    Ok(())
}

/// The flow of an answer, and the exit code.
fn verify(mirror: &Mirror, args: &[&str]) -> Result<(Value, Option<i32>)> {
    let Answer { exit, document } = mirror.ask("verify", args)?;
    Ok((document["flows"][0].clone(), exit))
}

fn group<'a>(flow: &'a Value, name: &str) -> Result<&'a Value> {
    let found = setup::entry(&flow["groups"], "group", name);
    Ok(found.ok_or_else(|| format!("no group {name} in {flow}"))?)
}

/// A mirror that MirrorMaker 2 made has no map: contents alone prove it equal, and find what was
/// damaged.
pub(crate) fn by_mm2() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    shell.create_topic(&hello, "mver-a", 1, 1, &[])?;
    // No offsets are equal: the source begins later.
    records(shell, &hello, "mver-a", 0, 40)?;
    shell.delete_records(&hello, "mver-a", 0, 40)?;
    records(shell, &hello, "mver-a", 40, 300)?;
    for (name, offset) in [("mver-end", 340), ("mver-middle", 200)] {
        commit(shell, &hello, name, "mver-a", offset)?;
    }
    let clusters = [("verhello", hello.as_str()), ("verworld", world.as_str())];
    let flows = flows_file(&clusters, &[("verhello", "verworld")], "mver-a", "mver-");
    let quick = "dedicated.mode.enable.internal.rest = false\n\
                 emit.checkpoints.interval.seconds = 1\nsync.group.offsets.interval.seconds = 1\n\
                 refresh.topics.interval.seconds = 1\nrefresh.groups.interval.seconds = 1\n\
                 verhello->verworld.offset.flush.interval.ms = 1000\n\
                 verworld.offset.flush.interval.ms = 1000\n\
                 heartbeats.replication.enabled = false\n";
    let text = flows + quick;
    let mirror = Mirror::new(&text)?;
    let mm2 = Mm2::start(&pair.jars, &text)?;
    let mirrored = "verhello.mver-a";
    until_equal(shell, (&hello, &world), &["mver-a"], prefixed("verhello"))?;
    mm2.kill()?;

    // Whatever MM2 made of the groups: here they stand right.
    commit(shell, &world, "mver-end", mirrored, 300)?;
    commit(shell, &world, "mver-middle", mirrored, 160)?;
    let scratch = Scratch::new("mver-report")?;
    let page = scratch.path().join("report.html");
    let page_arg = page.to_string_lossy();
    let (flow, exit) = verify(&mirror, &["--full", "--report", &page_arg])?;
    assert_eq!((&flow["ready"], exit), (&true.into(), Some(0)), "{flow}");
    let topic = &flow["topics"][0];
    assert_eq!((&topic["equal"], &topic["by_map"]), (&300.into(), &false.into()), "{topic}");
    assert_eq!(topic["source_hash"], topic["target_hash"], "{topic}");
    for (name, at) in [("mver-end", 300), ("mver-middle", 160)] {
        let found = group(&flow, name)?;
        assert_eq!((&found["result"], &found["proven_offset"]), (&"equal".into(), &at.into()));
    }
    let page = std::fs::read_to_string(&page)?;
    let id = flow["source"]["cluster_id"].as_str().ok_or("no cluster id")?;
    assert!(page.contains(id) && !page.contains("value 41"), "{page}");
    let (sample, exit) = verify(&mirror, &["--sample", "100"])?;
    assert_eq!(exit, Some(0), "{sample}");

    // One record too far, one too near; records that wait; one that nobody copied.
    commit(shell, &world, "mver-end", mirrored, 299)?;
    commit(shell, &world, "mver-middle", mirrored, 161)?;
    records(shell, &hello, "mver-a", 340, 7)?;
    let (flow, exit) = verify(&mirror, &["--full"])?;
    assert_eq!((&flow["rpo"]["records"], exit), (&7.into(), Some(1)), "{flow}");
    let (near, far) = (group(&flow, "mver-end")?, group(&flow, "mver-middle")?);
    assert_eq!((&near["result"], &near["reread"]), (&"too-near".into(), &1.into()), "{near}");
    assert_eq!((&far["result"], &far["skipped"]), (&"too-far".into(), &1.into()), "{far}");
    let rehearsed = mirror.ask("rehearse", &["--group", "mver-middle"])?;
    assert_eq!(rehearsed.exit, Some(1), "{}", rehearsed.document);
    commit(shell, &world, "mver-middle", mirrored, 160)?;
    let rehearsed = mirror.ask("rehearse", &["--group", "mver-middle"])?;
    assert_eq!(rehearsed.exit, Some(0), "{}", rehearsed.document);
    let body = &rehearsed.document["flows"][0]["partitions"][0];
    assert_eq!((&body["equal"], &body["result"]), (&100.into(), &"equal".into()), "{body}");
    let groups = shell.groups(&world)?;
    assert!(!groups.keys().any(|name| name.starts_with("twinlog-rehearsal-")), "{groups:?}");

    records(shell, &world, mirrored, 999, 1)?;
    wait_until_some("the record that nobody copied", LIMIT, || {
        let (flow, _) = verify(&mirror, &["--full"]).map_err(|error| error.to_string())?;
        let topic = &flow["topics"][0];
        let wrong = topic["extra"].as_u64().unwrap_or(0) + topic["different"].as_u64().unwrap_or(0);
        if wrong == 1 { Ok(()) } else { Err(flow.to_string()) }
    })?;
    Ok(())
}
