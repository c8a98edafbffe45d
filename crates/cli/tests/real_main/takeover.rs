//! From MirrorMaker 2 to twinlog and back, by contents.

use std::collections::BTreeMap;
use std::time::Instant;

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::workload::{TopicKind, TopicPlan, Workload};
use twinlog_testkit::{CommitAs, Mm2, Offsets, Shell, wait_until_some};

use crate::setup::{
    self, Answer, LIMIT, Mirror, Pair, Result, flows_file, places, prefixed, until_equal,
    until_placed,
};

const TOPICS: [&str; 2] = ["tk-plain", "tk-trimmed"];
/// Records of the trimmed one.
const TRIMMED: u64 = 8_000;

/// Records of both topics together: `TWINLOG_TAKEOVER_RECORDS`, or 200,000.
fn records() -> Result<u64> {
    Ok(std::env::var("TWINLOG_TAKEOVER_RECORDS").map_or(Ok(200_000), |text| text.parse())?)
}

/// How many records a topic has.
fn ends(shell: &Shell, cluster: &str, topic: &str) -> Result<i64> {
    Ok(shell.end_offsets(cluster, topic)?.values().sum())
}

/// Groups all over the logs, by where they stand in thousandths.
fn commit_everywhere(shell: &Shell, hello: &str) -> Result<BTreeMap<String, Offsets>> {
    let mut commits = BTreeMap::new();
    for thousandths in [0, 3, 40, 111, 250, 333, 500, 707, 900, 999, 1_000] {
        let mut offsets = Offsets::new();
        for topic in TOPICS {
            let starts = shell.start_offsets(hello, topic)?;
            let mut ends = shell.end_offsets(hello, topic)?;
            for (partition, end) in &mut ends {
                let start = starts.get(partition).copied().unwrap_or_default();
                *end = start + (*end - start) * thousandths / 1_000;
            }
            offsets.insert(topic.to_owned(), ends);
        }
        let group = format!("tk-{thousandths}");
        shell.commit(hello, &group, &offsets, CommitAs::Admin)?;
        commits.insert(group, offsets);
    }
    Ok(commits)
}

fn produce(shell: &Shell, hello: &str, round: u32) -> Result {
    for topic in TOPICS {
        let values: Vec<String> = (0..100).map(|n| format!("{topic}/round {round}/{n}")).collect();
        let records: Vec<_> =
            (0..).zip(&values).map(|(n, value)| (n % 2, None, Some(value.as_str()))).collect();
        shell.produce(hello, topic, &records, &[])?;
    }
    Ok(())
}

/// Runs twinlog until all is copied, and groups stand where contents say.
fn by_twinlog(pair: &Pair, mirror: &Mirror, commits: &BTreeMap<String, Offsets>) -> Result<String> {
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let run = mirror.run_with(&["-v"])?;
    let copied = until_equal(shell, (&hello, &world), &TOPICS, prefixed("tkhello"));
    let (original, copy) = setup::or_log(&run, copied)?;
    let places = places(commits, (&original, &copy), prefixed("tkhello"))?;
    let took = setup::or_log(&run, until_placed(shell, &world, &places, LIMIT))?;
    let process = run.process();
    println!(
        "{} records equal; {} positions exact {took:.1?} later; cpu {:.1?}, highest memory {} MiB",
        copy.records(),
        places.len(),
        process.cpu().unwrap_or_default(),
        process.rss_peak_bytes().unwrap_or_default() >> 20
    );
    setup::stop(&run)?;
    Ok(run.process().log())
}

/// Starts MM2 and waits until it has copied what is on the source.
fn by_mm2(pair: &Pair, file: &str) -> Result<Mm2> {
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let mm2 = Mm2::start(&pair.jars, file)?;
    until_equal(shell, (&hello, &world), &TOPICS, prefixed("tkhello"))?;
    Ok(mm2)
}

pub(crate) fn and_back() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let plain = records()? - TRIMMED;
    let plan = |name: &str, kind, records| {
        let name = name.to_owned();
        TopicPlan { name, kind, partitions: 2, records }
    };
    let topics = vec![
        plan(TOPICS[0], TopicKind::Plain, plain),
        plan(TOPICS[1], TopicKind::Trimmed, TRIMMED),
    ];
    Workload { topics, replication: 1, value_bytes: 100 }.load(shell, &hello)?;
    let commits = commit_everywhere(shell, &hello)?;
    let clusters = [("tkhello", hello.as_str()), ("tkworld", world.as_str())];
    let file = flows_file(&clusters, &[("tkhello", "tkworld")], "tk-.*", "tk-")
        + "dedicated.mode.enable.internal.rest = false\n\
           tkworld.offset.flush.interval.ms = 1500\n\
           emit.checkpoints.interval.seconds = 1\nsync.group.offsets.interval.seconds = 1\n\
           tkhello.consumer.max.poll.records = 100\n";
    let mirror = Mirror::new(&file)?;

    // MM2 dies in the middle of its work, behind its last stored position.
    let mm2 = Mm2::start(&pair.jars, &file)?;
    let half = i64::try_from(plain / 2)?;
    let begun = Instant::now();
    let limit = LIMIT * u32::try_from(plain / 200_000 + 1)?;
    wait_until_some("MM2 in the middle of its work", limit, || {
        let copied = ends(shell, &world, "tkhello.tk-plain").unwrap_or_default();
        if copied >= half { Ok(()) } else { Err(format!("{copied} copied")) }
    })?;
    mm2.kill()?;
    let died = ends(shell, &world, "tkhello.tk-plain")?;
    let took = begun.elapsed();
    println!("MM2 was killed with {died} of {plain} records copied in {took:.1?}");
    assert!(died < i64::try_from(plain)?, "MM2 was faster than the kill");
    // Who never ran it tells it as MM2's; its session outlives it by ten seconds.
    let Answer { document, .. } = mirror.ask("status", &[])?;
    let flow = &document["flows"][0];
    assert!(flow["mm2"]["partitions"].as_u64() >= Some(1), "{document}");
    assert_eq!(flow["code"], "mm2-still-runs", "{document}");
    assert!(!document.to_string().contains("target-not-empty"), "{document}");
    let start = Instant::now();
    let log = by_twinlog(pair, &mirror, &commits)?;
    println!(
        "taken over after kill -9, all copied and all groups placed in {:.1?}",
        start.elapsed()
    );
    assert!(log.contains("mm2-still-runs"), "the dead workers' session was still alive: {log}");
    assert!(log.contains("taken over"), "{log}");

    // Back: MM2 copies what is new and nothing else.
    produce(shell, &hello, 1)?;
    let mm2 = by_mm2(pair, &file)?;
    produce(shell, &hello, 2)?;
    until_equal(shell, (&hello, &world), &TOPICS, prefixed("tkhello"))?;
    // While it runs nothing is written beside it.
    let Answer { document, .. } = mirror.ask("status", &[])?;
    assert_eq!(document["flows"][0]["code"], "mm2-still-runs", "{document}");
    let run = mirror.run()?;
    setup::or_log(&run, run.wait_for_log("mm2-still-runs", LIMIT).map_err(Into::into))?;
    mm2.stop()?;
    setup::stop(&run)?;

    // And forth again, after an orderly end.
    produce(shell, &hello, 3)?;
    let commits = commit_everywhere(shell, &hello)?;
    by_twinlog(pair, &mirror, &commits)?;
    Ok(())
}
