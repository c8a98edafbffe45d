//! An orderly end, and going on after it.

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{CommitAs, TopicKind, TopicPlan, Workload};

use crate::setup::{self, Mirror, SOON, places, prefixed, read_on, until_equal, until_placed};

pub(crate) fn sigterm() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let topic =
        |name: &str, kind| TopicPlan { name: name.to_owned(), kind, partitions: 2, records: 4_000 };
    let workload = Workload {
        topics: vec![
            topic("end-plain", TopicKind::Plain),
            topic("end-transactional", TopicKind::Transactional),
        ],
        replication: 1,
        value_bytes: 200,
    };
    workload.load(shell, &hello)?;
    let names = workload.names();
    let mirror = Mirror::of_prefix(pair, "end-")?;

    // Three ends under load: each comes in the middle of something.
    let live = workload.live(shell, &hello, 2_000, Some("end-follower"))?;
    for round in 1..=3 {
        let run = mirror.run()?;
        let before = shell.end_offsets(&world, "hello.end-plain").unwrap_or_default();
        let moved = twinlog_testkit::wait_until("records on their way", setup::LIMIT, || {
            let ends = shell.end_offsets(&world, "hello.end-plain").unwrap_or_default();
            ends.values().sum::<i64>() > before.values().sum::<i64>() + 500
        });
        setup::or_log(&run, moved.map_err(Into::into))?;
        println!("end {round} under load took {:.1?}", setup::stop(&run)?);
    }
    live.stop()?;

    // Nothing runs: what comes now is copied by the next start, and nothing else is.
    let more: Vec<_> = (0..100).map(|i| (i % 2, Some("key"), Some("more"))).collect();
    shell.produce(&hello, "end-plain", &more, &[])?;
    let ends = shell.end_offsets(&world, "hello.end-plain")?;
    let run = mirror.run()?;
    let equal = until_equal(shell, (&hello, &world), &names, prefixed("hello"));
    let (original, copy) = setup::or_log(&run, equal)?;
    let grown = shell.end_offsets(&world, "hello.end-plain")?;
    for (partition, end) in &grown {
        let records = original.log("end-plain", *partition).ok_or("no such partition")?.rows.len();
        assert_eq!(*end, records as i64, "end-plain-{partition}");
        assert!(*end >= ends[partition] + 50, "end-plain-{partition}");
    }

    let offsets = shell.commit_at_lag(&hello, "end-late", &names, 700, CommitAs::Admin)?;
    let commits = [("end-late".to_owned(), offsets)];
    let commits = commits.iter().map(|(group, offsets)| (group, offsets));
    let places = places(commits, (&original, &copy), prefixed("hello"))?;
    setup::or_log(&run, until_placed(shell, &world, &places, SOON))?;
    read_on(shell, &world, &places)?;
    println!("end at rest took {:.1?}", setup::stop(&run)?);
    Ok(())
}
