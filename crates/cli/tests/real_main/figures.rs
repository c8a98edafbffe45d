//! Memory and the time to the first record, with MirrorMaker 2 beside them.

use std::time::{Duration, Instant};

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{Mm2, Process, Shell, wait_until_some};

use crate::setup::{self, LIMIT, Mirror, Result, flows_file, prefixed, until_equal};

const TOPICS: [&str; 3] = ["rest-a", "rest-b", "rest-c"];
/// What memory at rest must stay below.
const MEMORY: u64 = 30 << 20;
/// A second is the aim; the machine may be compiling beside us.
const FIRST_RECORD: Duration = Duration::from_secs(5);

/// How long it takes from `start` until the first record is in `topic`.
fn first_record(shell: &Shell, target: &str, topic: &str, start: Instant) -> Result<Duration> {
    Ok(wait_until_some("the first record", LIMIT, || match shell.end_offsets(target, topic) {
        Ok(ends) if ends.values().any(|end| *end > 0) => Ok(start.elapsed()),
        Ok(ends) => Err(format!("{ends:?}")),
        Err(error) => Err(error.to_string()),
    })?)
}

fn memory(process: &Process) -> u64 {
    process.rss_bytes().unwrap_or(u64::MAX)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub(crate) fn beside_mm2() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    for topic in TOPICS {
        shell.create_topic(&hello, topic, 4, 1, &[])?;
        let records: Vec<_> = (0..400).map(|i| (i % 4, Some("key"), Some("value"))).collect();
        shell.produce(&hello, topic, &records, &[])?;
    }

    let mirror = Mirror::of_prefix(pair, "rest-")?;
    let start = Instant::now();
    let run = mirror.run()?;
    let first = first_record(shell, &world, "hello.rest-a", start);
    let first = setup::or_log(&run, first)?;
    setup::or_log(&run, until_equal(shell, (&hello, &world), &TOPICS, prefixed("hello")))?;
    // At rest: all is copied and stored.
    crate::main_copy::in_sync(&mirror, &run)?;
    let rest = memory(run.process());
    setup::stop(&run)?;

    // Again, with mirrors that exist and a state to be read.
    let before = shell.end_offsets(&world, "hello.rest-a")?;
    shell.produce(&hello, "rest-a", &[(0, None, Some("more"))], &[])?;
    let start = Instant::now();
    let run = mirror.run()?;
    let again = wait_until_some("the first record after a restart", LIMIT, || {
        match shell.end_offsets(&world, "hello.rest-a") {
            Ok(ends) if ends[&0] > before[&0] => Ok(start.elapsed()),
            Ok(ends) => Err(format!("{ends:?}")),
            Err(error) => Err(error.to_string()),
        }
    });
    let again = setup::or_log(&run, again.map_err(Into::into))?;
    setup::stop(&run)?;

    // MirrorMaker 2 with the same file, under other aliases so that it has mirrors of its own.
    let clusters = [("mm2hello", hello.as_str()), ("mm2world", world.as_str())];
    let file = flows_file(&clusters, &[("mm2hello", "mm2world")], "rest-.*", "rest-");
    let internal = "dedicated.mode.enable.internal.rest = false\n";
    let start = Instant::now();
    let mm2 = Mm2::start(&pair.jars, &(file + internal))?;
    let mm2_first = first_record(shell, &world, "mm2hello.rest-a", start)?;
    until_equal(shell, (&hello, &world), &TOPICS, prefixed("mm2hello"))?;
    let mm2_rest = memory(mm2.process());
    mm2.kill()?;

    println!("             first record   after a restart   memory at rest");
    println!("twinlog      {first:>12.2?}   {again:>15.2?}   {:>10.1} MiB", mib(rest));
    println!("MirrorMaker  {mm2_first:>12.2?}   {:>15}   {:>10.1} MiB", "", mib(mm2_rest));
    assert!(rest < MEMORY, "{:.1} MiB at rest", mib(rest));
    assert!(first < FIRST_RECORD && again < FIRST_RECORD, "{first:?}, {again:?}");
    assert!(first < mm2_first && rest < mm2_rest / 5);
    Ok(())
}
