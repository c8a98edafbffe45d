//! `twinlog dump` beside Kafka's own formatters, and `twinlog wait` beside the truth.

use std::collections::BTreeMap;

use serde_json::Value;
use twinlog_testkit::oracle::compare;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{
    CommitAs, JavaTool, Mm2, Shell, TopicKind, TopicPlan, Workload, wait_until_some,
};

use crate::setup::{self, LIMIT, Mirror, Pair, Result, flows_file, prefixed, until_equal};

const MM2S: &str = "org.apache.kafka.connect.mirror.formatters";
const TOOLS: &str = "org.apache.kafka.tools.consumer";

/// What Kafka's console consumer prints of a topic with this formatter, partition by partition.
fn kafkas(shell: &Shell, bootstrap: &str, topic: &str, more: &[&str]) -> Result<String> {
    let mut text = String::new();
    let there = shell.dump(bootstrap, &[topic])?;
    for ((_, partition), log) in &there.logs {
        // A consumer that finds nothing would wait for something.
        if log.rows.is_empty() {
            continue;
        }
        let (number, count) = (partition.to_string(), log.rows.len().to_string());
        let mut args = vec!["--bootstrap-server", bootstrap, "--topic", topic];
        args.extend(["--partition", &number, "--offset", "earliest", "--max-messages", &count]);
        args.extend(["--isolation-level", "read_committed", "--timeout-ms", "60000"]);
        args.extend(more);
        let output = shell.tool(JavaTool::CONSOLE_CONSUMER, &args)?;
        if !output.success {
            return Err(format!("{topic}-{partition}: {output:?}").into());
        }
        text.push_str(&output.stdout);
    }
    Ok(text)
}

/// One kind of dump, and how Kafka prints the same.
struct Beside<'a> {
    args: Vec<&'a str>,
    bootstrap: &'a str,
    topic: &'a str,
    kafkas: Vec<String>,
    /// Kafka's formatters of groups end no lines.
    joined: bool,
}

fn all_kinds<'a>(
    (hello, world): (&'a str, &'a str),
    [syncs, checkpoints]: [&'a str; 2],
    (source, target): (&'a str, &'a str),
) -> Vec<Beside<'a>> {
    let formatter = |class: String| vec!["--formatter".to_owned(), class];
    let mm2s = |args, bootstrap, topic, class: &str| Beside {
        args,
        bootstrap,
        topic,
        kafkas: formatter(format!("{MM2S}.{class}")),
        joined: false,
    };
    let groups = |alias, bootstrap, of, class: &str| Beside {
        args: vec!["consumer-offsets", "--cluster", alias, "--of", of],
        bootstrap,
        topic: "__consumer_offsets",
        kafkas: formatter(format!("{TOOLS}.{class}")),
        joined: true,
    };
    let mut all = vec![
        mm2s(vec!["offset-syncs"], hello, syncs, "OffsetSyncFormatter"),
        mm2s(vec!["checkpoints"], world, checkpoints, "CheckpointFormatter"),
        mm2s(vec!["heartbeats"], world, "heartbeats", "HeartbeatFormatter"),
    ];
    for (alias, bootstrap) in [(source, hello), (target, world)] {
        all.push(groups(alias, bootstrap, "commits", "OffsetsMessageFormatter"));
        all.push(groups(alias, bootstrap, "groups", "GroupMetadataMessageFormatter"));
    }
    all
}

/// Both texts, until they are the same: coordinators may write about groups that have gone.
fn until_same(shell: &Shell, mirror: &Mirror, beside: &Beside<'_>) -> Result<usize> {
    let what = beside.args.join(" ");
    let more: Vec<&str> = beside.kafkas.iter().map(String::as_str).collect();
    let lines = wait_until_some(&format!("the same text of {what}"), LIMIT, || {
        let theirs = kafkas(shell, beside.bootstrap, beside.topic, &more)
            .map_err(|error| error.to_string())?;
        let ours = text(mirror, &beside.args).map_err(|error| error.to_string())?;
        let lines = ours.lines().count();
        let ours = if beside.joined { ours.replace('\n', "") } else { ours };
        if ours == theirs { Ok(lines) } else { Err(difference(&ours, &theirs)) }
    })?;
    // Groups whose offsets are only ever committed for them leave no record of themselves.
    assert!(lines > 0 || beside.args.contains(&"groups"), "{what}: nothing to compare");
    Ok(lines)
}

/// Around the first byte that differs.
fn difference(ours: &str, theirs: &str) -> String {
    let at = ours.bytes().zip(theirs.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let bytes = text.as_bytes();
        let range = at.saturating_sub(60)..bytes.len().min(at + 120);
        String::from_utf8_lossy(bytes.get(range).unwrap_or_default()).into_owned()
    };
    format!("at byte {at}: ours {:?}, Kafka's {:?}", around(ours), around(theirs))
}

fn text(mirror: &Mirror, args: &[&str]) -> Result<String> {
    let output = mirror.output("dump", args)?;
    if output.status.code() != Some(0) {
        return Err(format!("{args:?}: {output:?}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn documents(mirror: &Mirror, args: &[&str]) -> Result<Vec<Value>> {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    Ok(text(mirror, &args)?
        .lines()
        .map(serde_json::from_str)
        .collect::<std::result::Result<_, _>>()?)
}

/// A topic of two partitions, and a group that committed in the middle and at the end.
fn load(pair: &Pair, topic: &str, group: &str) -> Result {
    let (shell, hello) = (&pair.shell, pair.hello.bootstrap());
    shell.create_topic(&hello, topic, 2, 1, &[])?;
    let records: Vec<_> = (0..400).map(|i| (i % 2, Some("key"), Some("value"))).collect();
    shell.produce(&hello, topic, &records, &[])?;
    for lag in [70, 0] {
        shell.commit_at_lag(&hello, group, &[topic], lag, CommitAs::Member)?;
    }
    Ok(())
}

/// Waits for what the flow must have written before there is something to compare.
fn until_checkpointed(pair: &Pair, aliases: (&str, &str), group: &str, topic: &str) -> Result {
    let world = pair.world.bootstrap();
    wait_until_some("checkpoints and heartbeats", LIMIT, || {
        let answer = pair.shell.mirror_probe(&world, aliases.0, &[group], &[]);
        let answer = answer.map_err(|error| error.to_string())?;
        let offsets = &answer[format!("remoteConsumerOffsets/{group}")]["value"];
        let both = (0..2)
            .all(|number| offsets[format!("{}.{topic}-{number}", aliases.0)]["offset"] == 200);
        let beats = pair.shell.end_offsets(&world, "heartbeats").map_err(|e| e.to_string())?;
        let beats = beats.values().sum::<i64>() > 0;
        if both && beats { Ok(()) } else { Err(answer.to_string()) }
    })?;
    Ok(())
}

pub(crate) fn mm2s_topics() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    load(pair, "seen-mm2", "seen-mm2-group")?;
    let clusters = [("left", hello.as_str()), ("right", world.as_str())];
    let file = flows_file(&clusters, &[("left", "right")], "seen-mm2.*", "seen-mm2")
        + "emit.checkpoints.interval.seconds = 1\nemit.heartbeats.interval.seconds = 1\n\
           sync.group.offsets.interval.seconds = 1\noffset.lag.max = 10\n\
           offset.flush.interval.ms = 1000\n";
    let mm2 = Mm2::start(&pair.jars, &file)?;
    until_checkpointed(pair, ("left", "right"), "seen-mm2-group", "seen-mm2")?;
    mm2.stop()?;

    // With nothing of twinlog's on either cluster for this flow.
    let mirror = Mirror::new(&file)?;
    let names = ["mm2-offset-syncs.right.internal", "left.checkpoints.internal"];
    for beside in all_kinds((&hello, &world), names, ("left", "right")) {
        let lines = until_same(shell, &mirror, &beside)?;
        println!("{:<55} {lines:>5} lines as Kafka's", beside.args.join(" "));
    }
    // MM2 has no formatter for its positions; this is the console consumer's own.
    let positions = Beside {
        args: vec!["positions"],
        bootstrap: &world,
        topic: "mm2-offsets.left.internal",
        kafkas: ["--formatter-property", "print.key=true"].map(str::to_owned).to_vec(),
        joined: false,
    };
    let lines = until_same(shell, &mirror, &positions)?;
    println!("{:<55} {lines:>5} lines as Kafka's", "positions");
    let last = documents(&mirror, &["positions", "--topic", "seen-mm2", "--records", "newest"])?;
    let source: Vec<_> =
        last.iter().filter(|one| one["key"][0] == "MirrorSourceConnector").collect();
    assert_eq!(source.len(), 2, "{last:?}");
    assert!(source.iter().all(|one| one["value"]["offset"] == 199), "{source:?}");

    let checkpoints = documents(
        &mirror,
        &["checkpoints", "--group", "seen-mm2-group", "--topic", "seen-mm2", "--last", "1"],
    )?;
    assert_eq!(checkpoints.len(), 1);
    assert_eq!(checkpoints[0]["value"]["upstream_offset"], 200);
    assert_eq!(checkpoints[0]["cluster"], "right");
    let map = mirror.output("dump", &["map"])?;
    assert_eq!(map.status.code(), Some(3), "{map:?}");
    Ok(())
}

pub(crate) fn our_topics() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    load(pair, "seen-ours", "seen-ours-group")?;
    let clusters = [("from", hello.as_str()), ("into", world.as_str())];
    let file = flows_file(&clusters, &[("from", "into")], "seen-ours.*", "seen-ours");
    let mirror = Mirror::new(&file)?;
    let run = mirror.run()?;
    let written = until_checkpointed(pair, ("from", "into"), "seen-ours-group", "seen-ours");
    setup::or_log(&run, written)?;
    let (original, _) = until_equal(shell, (&hello, &world), &["seen-ours"], prefixed("from"))?;
    setup::stop(&run)?;

    let names = ["mm2-offset-syncs.into.internal", "from.checkpoints.internal"];
    for beside in all_kinds((&hello, &world), names, ("from", "into")) {
        let lines = until_same(shell, &mirror, &beside)?;
        println!("{:<55} {lines:>5} lines as Kafka's", beside.args.join(" "));
    }
    // The map says of each partition what the readings of both clusters say.
    let state = documents(&mirror, &["map", "--topic", "seen-ours"])?;
    let of_kind = |kind: &str| -> BTreeMap<i64, &Value> {
        let of = state.iter().filter(|one| one["key"]["kind"] == kind);
        of.filter_map(|one| Some((one["key"]["partition"].as_i64()?, &one["value"]))).collect()
    };
    let (positions, segments) = (of_kind("position"), of_kind("segment"));
    assert_eq!((positions.len(), segments.len()), (2, 2), "{state:?}");
    for (number, position) in &positions {
        let log = original.log("seen-ours", *number as i32).ok_or("no such partition")?;
        assert_eq!(position["copied_to"].as_i64(), Some(log.end), "{position}");
        assert_eq!(position["records"].as_u64(), Some(log.rows.len() as u64), "{position}");
        assert_eq!(segments[number]["runs"][0]["source"], log.rows[0].offset);
    }
    let lease = text(&mirror, &["map"])?;
    assert!(
        lease
            .lines()
            .any(|line| line.starts_with("lease of shard 0: ") && line.contains("given up")),
        "{lease}"
    );
    let positions = mirror.output("dump", &["positions"])?;
    assert_eq!(positions.status.code(), Some(3), "{positions:?}");
    Ok(())
}

pub(crate) fn wait() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let (name, kind) = ("await-a".to_owned(), TopicKind::Plain);
    let topics = vec![TopicPlan { name, kind, partitions: 2, records: 2_000 }];
    let workload = Workload { topics, replication: 1, value_bytes: 100 };
    workload.load(shell, &hello)?;
    for group in ["await-group", "other-group"] {
        shell.commit_at_lag(&hello, group, &["await-a"], 0, CommitAs::Admin)?;
    }
    let mirror = Mirror::of_prefix(pair, "await-")?;
    let ask = |args: &[&str]| -> Result<(Option<i32>, Value)> {
        let args: Vec<&str> =
            ["--until", "in-sync"].into_iter().chain(args.iter().copied()).collect();
        let answer = mirror.ask("wait", &args)?;
        Ok((answer.exit, answer.document))
    };

    // Nothing runs.
    let (exit, answer) = ask(&["--group", "await-group", "--timeout", "1s"])?;
    assert_eq!((exit, &answer["holds"]), (Some(3), &Value::Bool(false)), "{answer}");
    let open = answer["not_in_sync"].as_array().ok_or("no list")?;
    assert!(open.iter().any(|one| one["code"] == "mirror-not-running"), "{answer}");
    // What the configuration leaves out does not come by waiting.
    let (exit, answer) = ask(&["--group", "other-group", "--timeout", "2m"])?;
    assert_eq!(exit, Some(1), "{answer}");
    let first = &answer["not_in_sync"][0];
    assert_eq!((&first["state"], &first["never"]), (&"excluded".into(), &true.into()), "{answer}");
    let (exit, answer) = ask(&["--topic", "await-none", "--timeout", "2m"])?;
    assert_eq!(exit, Some(1), "{answer}");

    let run = mirror.run()?;
    let (exit, answer) = ask(&["--timeout", "2m"])?;
    assert_eq!((exit, &answer["holds"]), (Some(0), &Value::Bool(true)), "{answer}");
    println!("in sync after {} ms, {} looks", answer["waited_ms"], answer["looks"]);
    // All of it is there now, without any more waiting.
    let names = ["await-a"];
    let (original, copy) = (shell.dump(&hello, &names)?, shell.dump(&world, &["hello.await-a"])?);
    compare(&original, &copy, prefixed("hello")).check()?;
    let (ends, committed) =
        (shell.end_offsets(&world, "hello.await-a")?, shell.committed(&world, "await-group")?);
    let places = committed.get("hello.await-a").ok_or("no commit")?;
    let places: BTreeMap<i32, i64> =
        places.iter().map(|(number, place)| (*number, place.offset)).collect();
    assert_eq!(places, ends);

    // It holds under steady traffic too, though there is never nothing to copy.
    let live = workload.live(shell, &hello, 1_000, Some("await-live"))?;
    wait_until_some("commits under traffic", LIMIT, || {
        let commits = shell.committed(&hello, "await-live").map_err(|e| e.to_string())?;
        if commits.is_empty() { Err("none yet".to_owned()) } else { Ok(()) }
    })?;
    let (exit, answer) = ask(&["--timeout", "2m"])?;
    assert_eq!(exit, Some(0), "{answer}");
    println!("under traffic after {} ms, {} looks", answer["waited_ms"], answer["looks"]);
    live.stop()?;
    setup::stop(&run)?;
    Ok(())
}
