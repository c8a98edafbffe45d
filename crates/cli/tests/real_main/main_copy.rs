//! The main job: a cluster whose offsets differ everywhere is mirrored, and each group goes on at the
//! very next record.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::Value;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::workload::TRIMMED_AT;
use twinlog_testkit::{
    CommitAs, Dump, JavaTool, Log, Offsets, Shell, TopicKind, TopicPlan, Twinlog, Workload,
    wait_until_some,
};

use crate::setup::{
    self, LIMIT, Mirror, Pair, Place, Result, SOON, hello_world, places, prefixed, read_on,
    until_equal, until_placed, users_file,
};

const PARTITIONS: i32 = 4;
/// Where the logs start that would begin with equal offsets on both sides: of the plain topic, and of
/// the one in transactions before its first marker.
const START: i64 = 37;
/// How far behind the groups are that were never anywhere special.
const LAGS: [i64; 5] = [0, 1, 99, 5_000, 60_000];

/// Topics as `orders,payments,audit.*` matches them: one of each kind that breaks mirrors.
fn workload() -> Workload {
    let topic = |name: &str, kind, records| TopicPlan {
        name: name.to_owned(),
        kind,
        partitions: PARTITIONS,
        records,
    };
    Workload {
        topics: vec![
            topic("orders", TopicKind::Transactional, 40_000),
            // Enough for a group that is 60,000 records behind in each partition.
            topic("payments", TopicKind::Plain, 244_000),
            topic("audit.compacted", TopicKind::Compacted, 32_000),
            topic("audit.trimmed", TopicKind::Trimmed, 32_000),
        ],
        replication: 1,
        value_bytes: 100,
    }
}

/// The mirror of the users' file on the shared brokers.
fn mirror(pair: &Pair) -> Result<Mirror> {
    Mirror::new(&users_file(&pair.hello.bootstrap(), &pair.world.bootstrap()))
}

/// Fills the source, once.
fn load(pair: &Pair) -> Result {
    let (shell, hello) = (&pair.shell, pair.hello.bootstrap());
    if shell.topics(&hello)?.contains_key("orders") {
        return Ok(());
    }
    let start = Instant::now();
    let loaded = workload().load(shell, &hello)?;
    assert!(loaded.records >= 300_000, "{loaded:?}");
    for partition in 0..PARTITIONS {
        for topic in ["orders", "payments"] {
            shell.delete_records(&hello, topic, partition, START)?;
        }
    }
    println!("loaded {} records in {:.1?}: {loaded:?}", loaded.records, start.elapsed());
    Ok(())
}

/// Commits on every topic, for a group for each lag.
fn commit_at_lags(pair: &Pair, prefix: &str) -> Result<BTreeMap<String, Offsets>> {
    let (shell, hello, workload) = (&pair.shell, pair.hello.bootstrap(), workload());
    let mut commits = BTreeMap::new();
    for lag in LAGS {
        let group = format!("{prefix}-{lag}");
        let offsets =
            shell.commit_at_lag(&hello, &group, &workload.names(), lag, CommitAs::Admin)?;
        commits.insert(group, offsets);
    }
    Ok(commits)
}

/// Offsets from the start of `log` to its end at which no record stands.
fn without_record(log: &Log) -> Vec<i64> {
    let taken: BTreeSet<i64> = log.rows.iter().map(|row| row.offset).collect();
    (log.start..log.end).filter(|offset| !taken.contains(offset)).collect()
}

/// Commits where no record stands: in holes that compaction left, on transaction markers, inside
/// aborted transactions, and before the start of the log.
fn commit_at_odd_places(
    pair: &Pair,
    committed: &Dump,
    uncommitted: &Dump,
) -> Result<BTreeMap<String, Offsets>> {
    let (shell, hello) = (&pair.shell, pair.hello.bootstrap());
    let mut commits: BTreeMap<String, Offsets> = BTreeMap::new();
    let mut put = |group: &str, topic: &str, partition, offset| {
        let offsets = commits.entry(group.to_owned()).or_default();
        offsets.entry(topic.to_owned()).or_default().insert(partition, offset);
    };
    for partition in 0..PARTITIONS {
        let log = committed.log("audit.compacted", partition).ok_or("no such partition")?;
        let holes = without_record(log);
        assert!(holes.len() > 100, "audit.compacted-{partition} has {} holes", holes.len());
        put("payments-hole-early", "audit.compacted", partition, holes[1]);
        put("payments-hole-middle", "audit.compacted", partition, holes[holes.len() / 2]);
        put("payments-hole-late", "audit.compacted", partition, holes[holes.len() - 1]);

        let log = uncommitted.log("orders", partition).ok_or("no such partition")?;
        let markers = without_record(log);
        assert!(markers.len() > 50, "orders-{partition} has {} markers", markers.len());
        put("payments-marker-early", "orders", partition, markers[0]);
        put("payments-marker-middle", "orders", partition, markers[markers.len() / 2]);
        put("payments-marker-last", "orders", partition, markers[markers.len() - 1]);
        let aborted = log.rows.iter().find(|row| row.number.is_none());
        let aborted = aborted.ok_or("no aborted records")?.offset;
        put("payments-aborted", "orders", partition, aborted + 3);

        put("payments-before-start", "audit.trimmed", partition, TRIMMED_AT - 100);
        put("payments-before-start", "payments", partition, 0);
    }
    for (group, offsets) in &commits {
        shell.commit(&hello, group, offsets, CommitAs::Admin)?;
    }
    Ok(commits)
}

pub(crate) fn exact() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    load(pair)?;
    let mut commits = commit_at_lags(pair, "payments-lag")?;
    let workload = workload();
    let names = workload.names();
    // One that was a real member, under the name that the file spells out.
    let offsets =
        shell.commit_at_lag(&hello, "orders-consumer", &["orders"], 99, CommitAs::Member)?;
    commits.insert("orders-consumer".to_owned(), offsets);

    let mirror = mirror(pair)?;
    let run = mirror.run()?;
    let start = Instant::now();
    let equal =
        setup::or_log(&run, until_equal(shell, (&hello, &world), &names, prefixed("hello")));
    let (original, copy) = equal?;
    println!(
        "{} records equal after {:.1?}; cpu of twinlog {:?}, highest memory {} MiB",
        original.records(),
        start.elapsed(),
        run.process().cpu().unwrap_or_default(),
        run.process().rss_peak_bytes().unwrap_or_default() >> 20,
    );
    assert_offsets_differ(&original, &copy);

    // Groups that were there before the copy began, and others that come now.
    let uncommitted = shell.dump_with(&hello, &["orders"], "read_uncommitted")?;
    commits.extend(commit_at_odd_places(pair, &original, &uncommitted)?);
    let still = Instant::now();
    let all = places(&commits, (&original, &copy), prefixed("hello"))?;
    setup::or_log(&run, until_placed(shell, &world, &all, SOON))?;
    println!(
        "{} places of {} groups exact after {:.1?}",
        all.len(),
        commits.len(),
        still.elapsed()
    );
    read_on(shell, &world, &all)?;
    for group in commits.keys() {
        assert_sane_lag(shell, &world, group, &all)?;
    }

    // Groups move on; what counts is the moment at which they stand still again.
    let moved = move_groups(pair, &names)?;
    let all = places(&moved, (&original, &copy), prefixed("hello"))?;
    let took = setup::or_log(&run, until_placed(shell, &world, &all, SOON))?;
    println!("{} moved places exact {took:.1?} after the last commit", all.len());
    read_on(shell, &world, &all)?;

    // And under load, with a consumer that follows.
    let follower = "payments-follower";
    let live = workload.live(shell, &hello, 3_000, Some(follower))?;
    wait_until_some("5,000 more records", LIMIT, || match live.totals() {
        Ok(totals) if totals.acknowledged > 5_000 && totals.committed > 0 => Ok(()),
        Ok(totals) => Err(format!("{totals:?}")),
        Err(error) => Err(error.to_string()),
    })?;
    let (totals, _) = live.stop()?;
    assert_eq!(totals.failed, 0);
    let equal = until_equal(shell, (&hello, &world), &names, prefixed("hello"));
    let (original, copy) = setup::or_log(&run, equal)?;
    let committed = shell.committed(&hello, follower)?;
    let moved = [(follower.to_owned(), setup::offsets(&committed))];
    let moved = moved.iter().map(|(group, offsets)| (group, offsets));
    let all = places(moved, (&original, &copy), prefixed("hello"))?;
    setup::or_log(&run, until_placed(shell, &world, &all, SOON))?;
    read_on(shell, &world, &all)?;
    println!("{} places of a follower exact after {} commits", all.len(), totals.committed);

    let answer = mirror.ask("status", &["--flow", "hello->world"])?;
    assert_eq!(answer.exit, Some(0), "{}", answer.document);
    setup::stop(&run)?;
    Ok(())
}

/// Half of the groups move on to the end.
fn move_groups(pair: &Pair, names: &[&str]) -> Result<BTreeMap<String, Offsets>> {
    let hello = pair.hello.bootstrap();
    let mut moved = BTreeMap::new();
    for (group, lag) in [("payments-lag-5000", 2_500), ("payments-lag-60000", 3)] {
        let offsets = pair.shell.commit_at_lag(&hello, group, names, lag, CommitAs::Admin)?;
        moved.insert(group.to_owned(), offsets);
    }
    Ok(moved)
}

/// No record has the same offset on both sides, and no end has: whoever takes the one for the other
/// is found out.
fn assert_offsets_differ(original: &Dump, copy: &Dump) {
    for ((topic, partition), log) in &original.logs {
        let mirror = copy.log(&format!("hello.{topic}"), *partition).expect("compared before");
        assert_ne!(log.end, mirror.end, "{topic}-{partition} ends at the same offset");
        let equal = log.rows.iter().zip(&mirror.rows).filter(|(a, b)| a.offset == b.offset).count();
        assert_eq!(equal, 0, "records of {topic}-{partition} have equal offsets");
    }
}

/// `kafka-consumer-groups --describe` shows each place with a lag that is a number and not negative.
fn assert_sane_lag(shell: &Shell, world: &str, group: &str, all: &[Place]) -> Result {
    let args = ["--bootstrap-server", world, "--describe", "--group", group];
    let output = shell.tool(JavaTool::CONSUMER_GROUPS, &args)?;
    assert!(output.success && !output.stderr.contains("Error"), "{output:?}");
    let mut lines = output.stdout.lines().filter(|line| !line.trim().is_empty());
    let head = lines.find(|line| line.starts_with("GROUP")).ok_or("no table")?;
    let column = |name| head.split_whitespace().position(|head| head == name).ok_or("no column");
    let (topic, partition) = (column("TOPIC")?, column("PARTITION")?);
    let (current, end, lag) =
        (column("CURRENT-OFFSET")?, column("LOG-END-OFFSET")?, column("LAG")?);
    let mut described = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| fields[index].parse::<i64>();
        let (lag, current, end) = (number(lag)?, number(current)?, number(end)?);
        assert!(lag >= 0 && lag == end - current, "{line}");
        described.insert((fields[topic].to_owned(), number(partition)? as i32), lag);
    }
    let of_group = all.iter().filter(|place| place.group == group);
    let wanted: BTreeSet<_> =
        of_group.map(|place| (place.topic.clone(), place.partition)).collect();
    assert_eq!(described.keys().cloned().collect::<BTreeSet<_>>(), wanted, "{group}");
    Ok(())
}

pub(crate) fn mirror_client() -> TestResult {
    let pair = setup::pair()?;
    let (shell, world) = (&pair.shell, pair.world.bootstrap());
    load(pair)?;
    let commits = commit_at_lags(pair, "payments-probe")?;
    let groups: Vec<&str> = commits.keys().map(String::as_str).collect();
    let mirror = mirror(pair)?;
    let run = mirror.run()?;
    in_sync(&mirror, &run)?;

    let mut translated = BTreeMap::new();
    for group in &groups {
        let answer = mirror.ask("translate", &["--flow", "hello->world", "--group", group])?;
        assert_eq!(answer.exit, Some(0), "{}", answer.document);
        translated.insert(*group, offsets_of(&answer.document)?);
    }
    let start = Instant::now();
    let probe = wait_until_some("checkpoints of all groups", LIMIT, || {
        let probe = shell.mirror_probe(&world, "hello", &groups, &[]).map_err(|e| e.to_string())?;
        for group in &groups {
            for question in ["translateOffsets", "remoteConsumerOffsets"] {
                let answer = &probe[format!("{question}/{group}")]["value"];
                if probe_offsets(answer) != translated[group] {
                    return Err(format!("{group}: {answer}, not {:?}", translated[group]));
                }
            }
        }
        Ok(probe)
    });
    let probe = setup::or_log(&run, probe.map_err(Into::into))?;
    println!(
        "MirrorClient agrees with translate on {} groups after {:.1?}",
        groups.len(),
        start.elapsed()
    );

    never_ahead(pair)?;

    // As MirrorMaker 2 leaves it.
    let value = |name: &str| probe[name]["value"].clone();
    assert_eq!(value("heartbeatTopics"), serde_json::json!(["heartbeats", "hello.heartbeats"]));
    assert_eq!(value("checkpointTopics"), serde_json::json!(["hello.checkpoints.internal"]));
    assert_eq!(value("upstreamClusters"), serde_json::json!(["hello"]));
    assert_eq!(value("replicationHops"), 1);
    let remote = value("remoteTopicsOfSource");
    for topic in ["hello.heartbeats", "hello.orders", "hello.payments", "hello.audit.trimmed"] {
        assert!(remote.as_array().is_some_and(|all| all.iter().any(|t| t == topic)), "{remote}");
    }
    let stranger = shell.mirror_probe(&world, "nowhere", &["nobody"], &[])?;
    assert_eq!(stranger["replicationHops"]["value"], -1);
    assert_eq!(stranger["translateOffsets/nobody"]["value"], serde_json::json!({}));
    setup::stop(&run)?;
    Ok(())
}

/// MirrorMaker 2's checkpoint task, fed from our offset-syncs, is at every place at or before the
/// truth, and exact at the end.
fn never_ahead(pair: &Pair) -> Result {
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let names = workload();
    let names = names.names();
    let mirrors: Vec<String> = names.iter().map(|name| format!("hello.{name}")).collect();
    let mirrors: Vec<&str> = mirrors.iter().map(String::as_str).collect();
    let (original, copy) = (shell.dump(&hello, &names)?, shell.dump(&world, &mirrors)?);
    let mut asked: BTreeMap<(String, i32), Vec<i64>> = BTreeMap::new();
    for ((topic, partition), log) in &original.logs {
        let near_the_end = (log.end - 300).max(log.start)..=log.end;
        let offsets = (log.start - 10..log.end).step_by(61).chain(near_the_end).collect();
        asked.insert((topic.clone(), *partition), offsets);
    }
    let answers = shell.sync_store_probe(("hello", &hello), ("world", &world), &asked)?;
    let (mut given, mut exact) = (0, 0);
    for (at, offsets) in &asked {
        let (topic, partition) = at;
        let log = original.log(topic, *partition).ok_or("no such partition")?;
        let mirror = copy.log(&format!("hello.{topic}"), *partition).ok_or("no mirror")?;
        let mut rows = log.rows.iter().zip(&mirror.rows).peekable();
        for (offset, answer) in offsets.iter().zip(&answers[at]) {
            while rows.next_if(|(row, _)| row.offset < *offset).is_some() {}
            let truth = rows.peek().map_or(mirror.end, |(_, row)| row.offset);
            let Some(answer) = answer.filter(|answer| *answer >= 0) else { continue };
            assert!(answer <= truth, "{topic}-{partition} {offset}: {answer}, belongs on {truth}");
            given += 1;
            exact += usize::from(answer == truth);
        }
    }
    println!("MM2's checkpoint task: {given} answers, {exact} of them exact, none ahead");
    assert!(given > 1_000, "{given}");
    Ok(())
}

/// Waits until `status` says that nothing is left to be done.
pub(crate) fn in_sync(mirror: &Mirror, run: &Twinlog) -> Result {
    let waited = wait_until_some("a mirror in sync", LIMIT, || {
        let answer =
            mirror.ask("status", &["--flow", "hello->world"]).map_err(|e| e.to_string())?;
        let flow = hello_world(&answer.document).map_err(|e| e.to_string())?;
        if flow["state"] == "in-sync" { Ok(()) } else { Err(flow["reason"].to_string()) }
    });
    setup::or_log(run, waited.map_err(Into::into))
}

type ByPartition = BTreeMap<String, i64>;

/// `topic-partition` and offset on the target, of what `translate --group` answers.
fn offsets_of(document: &Value) -> Result<ByPartition> {
    let entries = document["offsets"].as_array().ok_or_else(|| document.to_string())?;
    let offset = |entry: &Value| {
        let target = &entry["target"];
        let partition = format!("{}-{}", target["topic"].as_str()?, target["partition"]);
        Some((partition, target["offset"].as_i64()?))
    };
    let offsets: Option<ByPartition> = entries.iter().map(offset).collect();
    Ok(offsets.ok_or_else(|| document.to_string())?)
}

/// The same of what Kafka's classes answer.
fn probe_offsets(answer: &Value) -> ByPartition {
    let entries = answer.as_object().into_iter().flatten();
    entries
        .filter_map(|(partition, at)| Some((partition.clone(), at["offset"].as_i64()?)))
        .collect()
}
