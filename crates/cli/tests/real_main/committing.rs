//! Commits of the source as they are made: in transactions, by groups that are deleted, and how soon
//! they are on the target.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{CommitAs, JavaTool, Mm2, Offsets, Scratch, wait_until_some};

use crate::setup::{self, LIMIT, Mirror, Pair, Result, SOON, flows_file, hello_world};

/// For the figures beside MM2, which take some ten minutes; see `figures` below.
const BENCH: &str = "TWINLOG_BENCH";

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
    let said = program(pair, scratch)?.args(args).run()?;
    let said: Value = serde_json::from_str(said.trim())?;
    let number = |name: &str| said[name].as_f64().ok_or_else(|| format!("no {name} in {said}"));
    Ok(Figures {
        commits: number("commits")?,
        left: number("left")?,
        p50: number("p50")?,
        p99: number("p99")?,
        max: number("max")?,
    })
}

fn print(who: &str, groups: u32, figures: &Figures) {
    let Figures { commits, left, p50, p99, max } = figures;
    println!(
        "{who:<12} {groups:>5} groups  {commits:>6} commits  p50 {p50:>8.1} ms  p99 {p99:>8.1} ms  \
         max {max:>8.1} ms  never {left}"
    );
}

/// A commit is on the target within milliseconds. With `TWINLOG_BENCH=1` also with a thousand
/// groups, and beside MM2 at its fastest.
pub(crate) fn figures() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let scratch = Scratch::new("commit-latency")?;
    let bench = std::env::var(BENCH).is_ok_and(|value| value == "1");
    shell.create_topic(&hello, "latency", 1, 1, &[])?;
    let clusters = [("hello", hello.as_str()), ("world", world.as_str())];
    let mirror = Mirror::new(&flows_file(&clusters, &[("hello", "world")], "latency", "latency-"))?;
    let run = mirror.run()?;
    let there = wait_until_some("the mirror of the topic", LIMIT, || {
        match shell.topics(&world).map_err(|error| error.to_string())?.get("hello.latency") {
            Some(_) => Ok(()),
            None => Err("not there".to_owned()),
        }
    });
    setup::or_log(&run, there.map_err(Into::into))?;
    let names = ("latency", "hello.latency", "latency-");
    let mut all = Vec::new();
    let counts: &[(u32, u32)] = if bench { &[(100, 100), (1_000, 200)] } else { &[(100, 50)] };
    let times = if bench { (10, 60) } else { (5, 15) };
    for &(groups, rate) in counts {
        let cpu = run.process().cpu();
        let figures = setup::or_log(&run, measure(pair, &scratch, names, (groups, rate), times))?;
        print("twinlog", groups, &figures);
        let used = run.process().cpu().zip(cpu).map(|(now, before)| now.saturating_sub(before));
        println!("             {used:.1?} of processor time");
        all.push(figures);
    }
    setup::stop(&run)?;
    // The aims are 50 and 500 ms; the machine may be compiling beside us.
    let first = &all[0];
    assert!(first.left == 0.0, "{} commits never arrived", first.left);
    assert!(first.p50 <= 250.0 && first.p99 <= 2_500.0, "p50 {}, p99 {}", first.p50, first.p99);
    if bench {
        of_mm2(pair, &scratch, counts, times)?;
    }
    Ok(())
}

/// MirrorMaker 2 with intervals of a second, the shortest it takes, and a sync of every record.
fn of_mm2(pair: &Pair, scratch: &Scratch, counts: &[(u32, u32)], times: (u32, u32)) -> Result {
    let (hello, world) = (pair.hello.bootstrap(), pair.world.bootstrap());
    let clusters = [("mm2hello", hello.as_str()), ("mm2world", world.as_str())];
    let file = flows_file(&clusters, &[("mm2hello", "mm2world")], "latency", "latency-");
    let fastest = "dedicated.mode.enable.internal.rest = false\n\
                   sync.group.offsets.interval.seconds = 1\n\
                   emit.checkpoints.interval.seconds = 1\n\
                   refresh.groups.interval.seconds = 1\n\
                   offset.lag.max = 0\n";
    let mm2 = Mm2::start(&pair.jars, &(file + fastest))?;
    wait_until_some("MM2's mirror of the topic", LIMIT, || {
        let topics = pair.shell.topics(&world).map_err(|error| error.to_string())?;
        if topics.contains_key("mm2hello.latency") { Ok(()) } else { Err("not there".to_owned()) }
    })?;
    let names = ("latency", "mm2hello.latency", "latency-");
    for &(groups, rate) in counts {
        let figures = measure(pair, scratch, names, (groups, rate), times)?;
        print("MirrorMaker", groups, &figures);
    }
    mm2.kill()?;
    Ok(())
}
