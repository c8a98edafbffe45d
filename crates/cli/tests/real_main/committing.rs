//! Commits of the source as they are made: in transactions, by groups that are deleted, and how soon
//! they are on the target.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{CommitAs, JavaTool, KafkaCluster, Mm2, Offsets, Scratch, wait_until_some};

use crate::setup::{self, LIMIT, Mirror, Pair, Result, SOON, bench, flows_file, hello_world};

/// The Java program that commits and measures.
fn program(pair: &Pair, scratch: &Scratch) -> Result<JavaTool> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_main/CommitLatency.java");
    Ok(JavaTool::from_source(&pair.jars, &source, scratch)?)
}

/// Where `group` stands on the target in the first partition.
fn stands(pair: &Pair, group: &str, topic: &str) -> Result<Option<i64>> {
    let committed = pair.shell.committed(&pair.world.bootstrap(), group)?;
    let partition = committed.get(topic).and_then(|partitions| partitions.get(&0));
    Ok(partition.map(|committed| committed.offset))
}

fn until_stands(pair: &Pair, group: &str, topic: &str, offset: i64) -> Result<Duration> {
    let began = Instant::now();
    wait_until_some("the commit on the target", SOON, || {
        let now = stands(pair, group, topic).map_err(|error| error.to_string())?;
        if now == Some(offset) { Ok(()) } else { Err(format!("{group} at {now:?}")) }
    })?;
    Ok(began.elapsed())
}

pub(crate) fn transactions_and_ends() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let (topic, mirror_topic) = ("commits-topic", "hello.commits-topic");
    shell.create_topic(&hello, topic, 1, 1, &[])?;
    let records: Vec<_> = (0..100).map(|_| (0, Some("key"), Some("value"))).collect();
    shell.produce(&hello, topic, &records, &[])?;
    let at = |offset: i64| -> Offsets {
        BTreeMap::from([(topic.to_owned(), BTreeMap::from([(0, offset)]))])
    };
    shell.commit(&hello, "commits-plain", &at(10), CommitAs::Admin)?;
    let mirror = Mirror::of_prefix(pair, "commits-")?;
    let run = mirror.run()?;
    setup::or_log(&run, until_stands(pair, "commits-plain", mirror_topic, 10).map(drop))?;
    let live = wait_until_some("commits followed live", LIMIT, || {
        if run.process().log().contains("commits of groups on the source are followed") {
            Ok(())
        } else {
            Err(run.process().log_tail(5))
        }
    });
    setup::or_log(&run, live.map_err(Into::into))?;

    // What a transaction commits counts when it commits, and never when it is aborted.
    let scratch = Scratch::new("commits")?;
    let transaction = |offset: &str, end: &str| -> Result {
        let args = ["transaction", &hello, topic, "commits-tx", offset, end];
        program(pair, &scratch)?.args(args).run()?;
        Ok(())
    };
    transaction("20", "commit")?;
    setup::or_log(&run, until_stands(pair, "commits-tx", mirror_topic, 20).map(drop))?;
    transaction("90", "abort")?;
    transaction("30", "commit")?;
    setup::or_log(&run, until_stands(pair, "commits-tx", mirror_topic, 30).map(drop))?;

    // A group that is deleted keeps its place on the target, and is followed when it is back.
    shell.delete_group(&hello, "commits-plain")?;
    shell.commit(&hello, "commits-witness", &at(5), CommitAs::Admin)?;
    setup::or_log(&run, until_stands(pair, "commits-witness", mirror_topic, 5).map(drop))?;
    // Long enough for whoever would draw a conclusion: a second look comes after a second.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(stands(pair, "commits-plain", mirror_topic)?, Some(10));
    shell.commit(&hello, "commits-plain", &at(60), CommitAs::Member)?;
    setup::or_log(&run, until_stands(pair, "commits-plain", mirror_topic, 60).map(drop))?;

    let answer = mirror.ask("status", &[])?;
    let flow = hello_world(&answer.document)?;
    assert_eq!(flow["commits"]["followed"], "live", "{}", flow["commits"]);
    let _ = world;
    setup::stop(&run)?;
    Ok(())
}

/// What was measured of some groups.
struct Figures {
    commits: f64,
    left: f64,
    p50: f64,
    p99: f64,
    max: f64,
    /// Requests a second to the source and to the target, those of the measuring program left out.
    requests: [f64; 2],
}

/// The measuring program's own requests, and those of the broker to itself: of the source, of the
/// target.
const NOT_COUNTED: [&[&str]; 2] = [
    &["OffsetCommit", "Produce", "FindCoordinator", "BrokerHeartbeat"],
    &["Fetch", "FindCoordinator", "BrokerHeartbeat"],
];

/// Requests that each broker has answered, by the kind of request.
fn requests(pair: &Pair) -> Result<[BTreeMap<String, u64>; 2]> {
    let of = |cluster: &KafkaCluster| -> Result<BTreeMap<String, u64>> {
        let broker = cluster.brokers()[0].process().ok_or("the broker does not run")?;
        Ok(pair.shell.requests(broker)?)
    };
    Ok([of(&pair.hello)?, of(&pair.world)?])
}

/// How many requests of which kind there were, a second, between two counts.
fn a_second(
    before: &[BTreeMap<String, u64>; 2],
    now: &[BTreeMap<String, u64>; 2],
    seconds: f64,
) -> [f64; 2] {
    let mut all = [0.0; 2];
    for side in [0, 1] {
        let kinds = now[side].iter().filter(|(kind, _)| !NOT_COUNTED[side].contains(&&***kind));
        let mut rates: Vec<(f64, &str)> = kinds
            .map(|(kind, count)| {
                let since = count - before[side].get(kind).copied().unwrap_or_default();
                (since as f64 / seconds, kind.as_str())
            })
            .filter(|(rate, _)| *rate >= 0.05)
            .collect();
        rates.sort_by(|a, b| b.0.total_cmp(&a.0));
        all[side] = rates.iter().map(|(rate, _)| rate).sum();
        let kinds: Vec<String> =
            rates.iter().map(|(rate, kind)| format!("{kind} {rate:.1}")).collect();
        println!("             {}: {}", ["source", "target"][side], kinds.join(", "));
    }
    all
}

/// `(topic, its mirror, prefix of the groups)`, how many groups, and how many commits a second.
fn measure(
    pair: &Pair,
    scratch: &Scratch,
    (topic, mirror, prefix): (&str, &str, &str),
    (groups, rate): (u32, u32),
    (warm_up, seconds): (u32, u32),
) -> Result<Figures> {
    let (hello, world) = (pair.hello.bootstrap(), pair.world.bootstrap());
    let numbers = [groups, rate, warm_up, seconds].map(|number| number.to_string());
    let [groups, rate, warm_up, seconds] = &numbers;
    let args = ["measure", &hello, &world, topic, mirror, prefix, groups, rate, warm_up, seconds];
    let program = program(pair, scratch)?.args(args);
    let (before, start) = (requests(pair)?, Instant::now());
    let said = program.run()?;
    let requests = a_second(&before, &requests(pair)?, start.elapsed().as_secs_f64());
    let said: Value = serde_json::from_str(said.trim())?;
    let number = |name: &str| said[name].as_f64().ok_or_else(|| format!("no {name} in {said}"));
    Ok(Figures {
        commits: number("commits")?,
        left: number("left")?,
        p50: number("p50")?,
        p99: number("p99")?,
        max: number("max")?,
        requests,
    })
}

fn print(who: &str, groups: u32, figures: &Figures) {
    let Figures { commits, left, p50, p99, max, requests: [source, target] } = figures;
    println!(
        "{who:<14} {groups:>5} groups  {commits:>6} commits  p50 {p50:>8.1} ms  p99 {p99:>8.1} ms  \
         max {max:>8.1} ms  never {left}  requests/s {source:.0} + {target:.0}"
    );
}

/// Groups and commits a second; seconds of warm-up and of measuring.
type Load = (&'static [(u32, u32)], (u32, u32));

/// A commit is on the target within milliseconds. With `TWINLOG_BENCH=1` also with a thousand groups,
/// where groups are polled, and beside MM2 at its fastest.
pub(crate) fn figures() -> TestResult {
    let pair = setup::pair()?;
    let hello = pair.hello.bootstrap();
    let scratch = Scratch::new("commit-latency")?;
    pair.shell.create_topic(&hello, "latency", 1, 1, &[])?;
    let load: Load =
        if bench() { (&[(100, 100), (1_000, 200)], (10, 60)) } else { (&[(100, 50)], (5, 15)) };
    // The aims are 50 and 500 ms; the machine may be compiling beside us.
    for Figures { left, p50, p99, .. } in of_twinlog(pair, &scratch, "live", load)? {
        assert!(left == 0.0, "{left} commits never arrived");
        assert!(p50 <= 250.0 && p99 <= 2_500.0, "p50 {p50}, p99 {p99}");
    }
    if bench() {
        for Figures { left, .. } in of_twinlog(pair, &scratch, "poll", load)? {
            assert!(left == 0.0, "{left} commits never arrived");
        }
        of_mm2(pair, &scratch, load)?;
    }
    Ok(())
}

/// Waits until a topic is on the target.
fn until_mirrored(pair: &Pair, mirror: &str) -> Result {
    Ok(wait_until_some(&format!("the topic {mirror}"), LIMIT, || {
        let topics = pair.shell.topics(&pair.world.bootstrap()).map_err(|e| e.to_string())?;
        if topics.contains_key(mirror) { Ok(()) } else { Err("not there".to_owned()) }
    })?)
}

fn of_twinlog(
    pair: &Pair,
    scratch: &Scratch,
    way: &str,
    (counts, times): Load,
) -> Result<Vec<Figures>> {
    let (hello, world) = (pair.hello.bootstrap(), pair.world.bootstrap());
    let clusters = [("hello", hello.as_str()), ("world", world.as_str())];
    // Groups of its own for each way: a place that was reached before is no news.
    let prefix = format!("latency-{way}-");
    let file = flows_file(&clusters, &[("hello", "world")], "latency", &prefix);
    let mirror = Mirror::new(&(file + &format!("twinlog.group.offsets.follow = {way}\n")))?;
    let run = mirror.run()?;
    setup::or_log(&run, until_mirrored(pair, "hello.latency"))?;
    let mut all = Vec::new();
    for &load in counts {
        let cpu = run.process().cpu();
        let names = ("latency", "hello.latency", prefix.as_str());
        let figures = setup::or_log(&run, measure(pair, scratch, names, load, times))?;
        print(&format!("twinlog, {way}"), load.0, &figures);
        let used = run.process().cpu().zip(cpu).map(|(now, before)| now.saturating_sub(before));
        println!("             {:.1?} of processor time", used.unwrap_or_default());
        all.push(figures);
    }
    setup::stop(&run)?;
    Ok(all)
}

/// MirrorMaker 2 with intervals of a second, the shortest it takes, and a sync of every record.
fn of_mm2(pair: &Pair, scratch: &Scratch, (counts, times): Load) -> Result {
    let (hello, world) = (pair.hello.bootstrap(), pair.world.bootstrap());
    let clusters = [("mm2hello", hello.as_str()), ("mm2world", world.as_str())];
    let file = flows_file(&clusters, &[("mm2hello", "mm2world")], "latency", "latency-mm2-");
    let fastest = "dedicated.mode.enable.internal.rest = false\n\
                   sync.group.offsets.interval.seconds = 1\n\
                   emit.checkpoints.interval.seconds = 1\n\
                   refresh.groups.interval.seconds = 1\n\
                   offset.lag.max = 0\n";
    let mm2 = Mm2::start(&pair.jars, &(file + fastest))?;
    until_mirrored(pair, "mm2hello.latency")?;
    let names = ("latency", "mm2hello.latency", "latency-mm2-");
    for &load in counts {
        let cpu = mm2.process().cpu();
        let figures = measure(pair, scratch, names, load, times)?;
        print("MirrorMaker 2", load.0, &figures);
        let used = mm2.process().cpu().zip(cpu).map(|(now, before)| now.saturating_sub(before));
        println!("             {:.1?} of processor time", used.unwrap_or_default());
    }
    mm2.kill()?;
    Ok(())
}
