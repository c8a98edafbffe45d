//! `kafka-topics`, `kafka-configs`, `kafka-delete-records` and `kafka-get-offsets`.

use std::collections::BTreeMap;

use serde_json::json;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{JavaTool, Scratch};

use crate::setup::{Result, Scene};

const TOPICS: &str = JavaTool::TOPICS;
const CONFIGS: &str = JavaTool::CONFIGS;

pub(crate) fn topics(scene: Scene) -> TestResult {
    let topic = scene.name("topics");
    let with_topic = |args: &[&str]| -> Result<String> {
        scene.tool(TOPICS, &[&["--topic", topic.as_str()], args].concat())
    };
    with_topic(&["--create", "--partitions", "3", "--config", "max.message.bytes=2000000"])?;
    let described = with_topic(&["--describe"])?;
    assert!(described.contains("PartitionCount: 3"), "{described}");
    assert!(described.contains("max.message.bytes=2000000"), "{described}");
    assert_eq!(described.matches("Leader: ").count(), 3, "{described}");

    with_topic(&["--alter", "--partitions", "5"])?;
    let described = with_topic(&["--describe"])?;
    assert!(described.contains("PartitionCount: 5"), "{described}");
    let fewer = scene.output(TOPICS, &["--topic", &topic, "--alter", "--partitions", "2"])?;
    assert!(!fewer.success, "{fewer:?}");
    let again = scene.output(TOPICS, &["--topic", &topic, "--create", "--partitions", "1"])?;
    let said = format!("{}{}", again.stdout, again.stderr);
    assert!(!again.success && said.contains("already exists"), "{said}");

    assert!(scene.tool(TOPICS, &["--list"])?.lines().any(|line| line == topic));
    with_topic(&["--delete"])?;
    assert!(!scene.tool(TOPICS, &["--list"])?.lines().any(|line| line == topic));
    Ok(())
}

pub(crate) fn configs(scene: Scene) -> TestResult {
    let topic = scene.name("configs");
    scene.shell.create_topic(scene.bootstrap, &topic, 1, 1, &[("retention.ms", "5000")])?;
    let with_topic = |args: &[&str]| -> Result<String> {
        let entity = ["--entity-type", "topics", "--entity-name", topic.as_str()];
        scene.tool(CONFIGS, &[&entity, args].concat())
    };
    let configs = || scene.shell.topic_configs(scene.bootstrap, &topic);
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    with_topic(&["--alter", "--add-config", "cleanup.policy=[compact,delete],segment.ms=60000"])?;
    let described = with_topic(&["--describe"])?;
    assert!(described.contains("cleanup.policy=compact,delete"), "{described}");
    assert_eq!(
        configs()?,
        pairs(&[
            ("cleanup.policy", "compact,delete"),
            ("retention.ms", "5000"),
            ("segment.ms", "60000")
        ])
    );
    with_topic(&["--alter", "--delete-config", "segment.ms,retention.ms"])?;
    assert_eq!(configs()?, pairs(&[("cleanup.policy", "compact,delete")]));
    let entity = ["--entity-type", "topics", "--entity-name", topic.as_str(), "--alter"];
    let wrong =
        scene.output(CONFIGS, &[&entity[..], &["--add-config", "retention.ms=x"]].concat())?;
    assert!(!wrong.success && wrong.stderr.contains("retention.ms"), "{wrong:?}");
    assert_eq!(configs()?, pairs(&[("cleanup.policy", "compact,delete")]));
    Ok(())
}

/// Offsets by partition, as `kafka-get-offsets` says them.
fn offsets(scene: &Scene, topic: &str, time: &str) -> Result<Vec<String>> {
    let output = scene.tool(JavaTool::GET_OFFSETS, &["--topic", topic, "--time", time])?;
    let lines = output.lines().filter(|line| !line.is_empty());
    Ok(lines.map(|line| line.trim_start_matches(topic).to_owned()).collect())
}

pub(crate) fn records(scene: Scene) -> TestResult {
    let topic = scene.name("records");
    scene.shell.create_topic(scene.bootstrap, &topic, 2, 1, &[])?;
    let records: Vec<_> = (0..40).map(|number| (number % 2, Some("key"), Some("value"))).collect();
    scene.shell.produce(scene.bootstrap, &topic, &records, &[])?;
    assert_eq!(offsets(&scene, &topic, "latest")?, [":0:20", ":1:20"]);
    assert_eq!(offsets(&scene, &topic, "earliest")?, [":0:0", ":1:0"]);

    let scratch = Scratch::new("records")?;
    let wanted = json!({"version": 1, "partitions": [
        {"topic": topic, "partition": 0, "offset": 13}, {"topic": topic, "partition": 1, "offset": -1},
    ]});
    let file = scratch.write("delete.json", &wanted.to_string())?;
    let file = file.to_string_lossy();
    scene.tool(JavaTool::DELETE_RECORDS, &["--offset-json-file", &file])?;
    assert_eq!(offsets(&scene, &topic, "earliest")?, [":0:13", ":1:20"]);
    assert_eq!(offsets(&scene, &topic, "latest")?, [":0:20", ":1:20"]);
    let dump = scene.shell.dump(scene.bootstrap, &[&topic])?;
    let first = dump.log(&topic, 0).and_then(|log| log.rows.first()).map(|row| row.offset);
    assert_eq!((first, dump.records()), (Some(13), 7));
    Ok(())
}
