//! Transactions of Java clients, alone and with consumed offsets, and a follower under load.

use std::path::Path;

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{JavaTool, Scratch, TopicKind, TopicPlan, Workload, wait_until_some};

use crate::setup::{LIMIT, Scene};

fn workload(scene: &Scene, topics: &[(&str, TopicKind)]) -> Workload {
    let plan = |(name, kind): &(&str, TopicKind)| TopicPlan {
        name: scene.name(name),
        kind: *kind,
        partitions: 3,
        records: 3_000,
    };
    Workload { topics: topics.iter().map(plan).collect(), replication: 1, value_bytes: 100 }
}

pub(crate) fn aborted(scene: Scene) -> TestResult {
    let workload = workload(&scene, &[("transactions", TopicKind::Transactional)]);
    let loaded = workload.load(scene.shell, scene.bootstrap)?;
    assert!(loaded.records == 3_000 && loaded.aborted > 0, "{loaded:?}");
    let committed = scene.shell.dump(scene.bootstrap, &workload.names())?;
    assert_eq!(committed.records() as u64, loaded.records);
    for ((topic, partition), log) in &committed.logs {
        let numbers: Option<Vec<i64>> = log.rows.iter().map(|row| row.number).collect();
        let wanted: Vec<i64> = (0..log.rows.len() as i64).collect();
        assert_eq!(numbers, Some(wanted), "{topic}-{partition}");
    }
    let all = scene.shell.dump_with(scene.bootstrap, &workload.names(), "read_uncommitted")?;
    assert_eq!(all.records() as u64, loaded.records + loaded.aborted);
    Ok(())
}

pub(crate) fn transform(scene: Scene) -> TestResult {
    let (input, output) = (scene.name("transform-in"), scene.name("transform-out"));
    let group = scene.name("transform-group");
    for topic in [&input, &output] {
        scene.shell.create_topic(scene.bootstrap, topic, 2, 1, &[])?;
    }
    let values: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
    let records: Vec<_> =
        values.iter().enumerate().map(|(i, v)| ((i % 2) as i32, None, Some(v.as_str()))).collect();
    scene.shell.produce(scene.bootstrap, &input, &records, &[])?;
    // Aborts every third transaction and does it again, so that offsets that were not committed with
    // their records would show as records twice or never.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_embedded/Transform.java");
    let scratch = Scratch::new("transform")?;
    let said = JavaTool::from_source(scene.jars, &source, &scratch)?
        .args([scene.bootstrap, &input, &output, &group, "200"])
        .run()?;
    let counts: Vec<u32> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(counts.len() == 2 && counts.iter().all(|&count| count > 0), "{said}");
    println!("{} transactions committed, {} aborted", counts[0], counts[1]);

    assert_eq!(scene.committed(&group, &input)?, [(0, 100), (1, 100)]);
    let property = ["isolation.level=read_committed"];
    let read = scene.consume(&output, &scene.name("transform-reader"), 200, &property)?;
    let mut read: Vec<String> = read;
    read.sort_unstable();
    let wanted: Vec<String> = values.iter().map(|value| format!("seen {value}")).collect();
    assert_eq!(read, wanted);
    let all = scene.shell.dump_with(scene.bootstrap, &[&output], "read_uncommitted")?;
    assert!(all.records() > 200, "nothing was aborted");
    Ok(())
}

pub(crate) fn live(scene: Scene) -> TestResult {
    let kinds = [("live-plain", TopicKind::Plain), ("live-transactions", TopicKind::Transactional)];
    let workload = workload(&scene, &kinds);
    workload.load(scene.shell, scene.bootstrap)?;
    let group = scene.name("live-group");
    let live = workload.live(scene.shell, scene.bootstrap, 1_000, Some(&group))?;
    wait_until_some("2,000 more records", LIMIT, || match live.totals() {
        Ok(totals) if totals.acknowledged > 2_000 && totals.committed > 0 => Ok(()),
        Ok(totals) => Err(format!("{totals:?}")),
        Err(error) => Err(error.to_string()),
    })?;
    let (totals, _) = live.stop()?;
    assert_eq!(totals.failed, 0);
    let dump = scene.shell.dump(scene.bootstrap, &workload.names())?;
    for ((topic, partition), log) in &dump.logs {
        let numbers: Option<Vec<i64>> = log.rows.iter().map(|row| row.number).collect();
        let wanted: Vec<i64> = (0..log.rows.len() as i64).collect();
        assert_eq!(numbers, Some(wanted), "{topic}-{partition}");
    }
    // The follower went on until nothing was left.
    let left = scene.shell.next_records(scene.bootstrap, &group)?;
    assert!(!left.is_empty() && left.iter().all(|next| next.offset.is_none()), "{left:?}");
    Ok(())
}
