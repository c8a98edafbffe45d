//! Several flows in one process, and brokers of another version.

use std::collections::BTreeSet;
use std::time::Instant;

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{CommitAs, Shell, TopicKind, TopicPlan, Workload};

use crate::setup::{
    self, Mirror, Result, SOON, flows_file, places, prefixed, read_on, until_equal, until_placed,
};

/// The topics of a cluster whose names, without the aliases before them, start with `prefix`.
fn topics(shell: &Shell, bootstrap: &str, prefix: &str) -> Result<BTreeSet<String>> {
    let all = shell.topics(bootstrap)?.into_keys();
    Ok(all
        .filter(|topic| topic.rsplit('.').next().is_some_and(|n| n.starts_with(prefix)))
        .collect())
}

fn fill(shell: &Shell, bootstrap: &str, topic: &str) -> Result {
    shell.create_topic(bootstrap, topic, 2, 1, &[])?;
    let records: Vec<_> = (0..50).map(|i| (i % 2, Some(bootstrap), Some(topic))).collect();
    shell.produce(bootstrap, topic, &records, &[])?;
    Ok(())
}

pub(crate) fn hub_and_spokes() -> TestResult {
    let pair = setup::pair()?;
    let hub = setup::third()?;
    let shell = &pair.shell;
    let (hello, world, hub) = (pair.hello.bootstrap(), pair.world.bootstrap(), hub.bootstrap());
    let clusters = [("hello", hello.as_str()), ("world", world.as_str()), ("hub", hub.as_str())];
    for (_, bootstrap) in clusters {
        fill(shell, bootstrap, "star-a")?;
    }
    let flows = [("hello", "hub"), ("hub", "hello"), ("world", "hub"), ("hub", "world")];
    let mirror = Mirror::new(&flows_file(&clusters, &flows, ".*star-.*", "star-"))?;
    let run = mirror.run()?;

    let spread = |topic: &str| -> Result {
        // From spoke to hub, and through the hub to the other spoke.
        for (source, target, alias) in [(&hello, &hub, "hello"), (&world, &hub, "world")] {
            until_equal(shell, (source, target), &[topic], prefixed(alias))?;
        }
        for (source, target, through) in [
            (&hello, &world, "hub.hello"),
            (&world, &hello, "hub.world"),
            (&hub, &hello, "hub"),
            (&hub, &world, "hub"),
        ] {
            until_equal(shell, (source, target), &[topic], prefixed(through))?;
        }
        Ok(())
    };
    setup::or_log(&run, spread("star-a"))?;
    // Another topic makes the same way while everything that could go in circles is there.
    for (_, bootstrap) in clusters {
        fill(shell, bootstrap, "star-b")?;
    }
    setup::or_log(&run, spread("star-b"))?;

    let wanted = |aliases: &[&str]| -> BTreeSet<String> {
        let name = |alias: &&str| ["a", "b"].map(|topic| format!("{alias}star-{topic}"));
        aliases.iter().flat_map(name).collect()
    };
    assert_eq!(topics(shell, &hub, "star-")?, wanted(&["", "hello.", "world."]));
    assert_eq!(topics(shell, &hello, "star-")?, wanted(&["", "hub.", "hub.world."]));
    assert_eq!(topics(shell, &world, "star-")?, wanted(&["", "hub.", "hub.hello."]));
    setup::stop(&run)?;
    Ok(())
}

/// The main job in small between two clusters.
pub(crate) fn small_copy(source: &str, target: &str, prefix: &str) -> TestResult {
    let pair = setup::pair()?;
    let shell = &pair.shell;
    let topic = |name: &str, kind, records| TopicPlan {
        name: format!("{prefix}{name}"),
        kind,
        partitions: 4,
        records,
    };
    let workload = Workload {
        topics: vec![
            topic("plain", TopicKind::Plain, 10_000),
            topic("transactional", TopicKind::Transactional, 8_000),
            topic("compacted", TopicKind::Compacted, 6_000),
            topic("trimmed", TopicKind::Trimmed, 8_000),
        ],
        replication: 1,
        value_bytes: 100,
    };
    workload.load(shell, source)?;
    let names = workload.names();
    let mut commits = std::collections::BTreeMap::new();
    for lag in [0, 1, 99, 1_500] {
        let group = format!("{prefix}lag-{lag}");
        let offsets = shell.commit_at_lag(source, &group, &names, lag, CommitAs::Member)?;
        commits.insert(group, offsets);
    }
    // Of its own: `<alias>.heartbeats` stays on a target that other tests use.
    let alias = prefix.trim_end_matches('-');
    let clusters = [(alias, source), ("to", target)];
    let topics = format!("{prefix}.*");
    let mirror = Mirror::new(&flows_file(&clusters, &[(alias, "to")], &topics, prefix))?;
    let run = mirror.run()?;
    let start = Instant::now();
    let equal = until_equal(shell, (source, target), &names, prefixed(alias));
    let (original, copy) = setup::or_log(&run, equal)?;
    let places = places(&commits, (&original, &copy), prefixed(alias))?;
    setup::or_log(&run, until_placed(shell, target, &places, SOON))?;
    println!(
        "{} records and {} places after {:.1?}",
        original.records(),
        places.len(),
        start.elapsed()
    );
    read_on(shell, target, &places)?;
    let answer = mirror.ask("status", &[])?;
    assert_eq!(answer.exit, Some(0), "{}", answer.document);
    setup::stop(&run)?;
    Ok(())
}

pub(crate) fn from_3_9_1() -> TestResult {
    small_copy(&setup::old()?.bootstrap(), &setup::pair()?.world.bootstrap(), "aged-")
}

pub(crate) fn to_3_9_1() -> TestResult {
    small_copy(&setup::pair()?.hello.bootstrap(), &setup::old()?.bootstrap(), "back-")
}
