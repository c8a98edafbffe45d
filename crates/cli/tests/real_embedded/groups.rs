//! `kafka-consumer-groups`, and groups of the consumer protocol (KIP-848).

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{JavaTool, Process, Scratch, wait_until_some};

use crate::setup::{LIMIT, Result, Scene, table};

const GROUPS: &str = JavaTool::CONSUMER_GROUPS;

/// Makes a topic of two partitions with 50 records each.
fn fill(scene: &Scene, topic: &str) -> Result {
    scene.shell.create_topic(scene.bootstrap, topic, 2, 1, &[])?;
    let records: Vec<_> = (0..100).map(|number| (number % 2, Some("key"), Some("value"))).collect();
    scene.shell.produce(scene.bootstrap, topic, &records, &[])?;
    Ok(())
}

/// A console consumer that stays.
fn member(scene: &Scene, scratch: &Scratch, topic: &str, args: &[&str]) -> Result<Process> {
    let mut java = scene.jars.java(256, "WARN");
    java.arg(JavaTool::CONSOLE_CONSUMER);
    java.args(["--bootstrap-server", scene.bootstrap, "--topic", topic, "--from-beginning"]);
    java.args(args);
    Ok(Process::start("console consumer", java, &scratch.path().join("consumer.log"))?)
}

/// Partition, committed offset, end and lag, as `--describe` says them.
fn described(scene: &Scene, group: &str) -> Result<Vec<Vec<String>>> {
    let output = scene.tool(GROUPS, &["--describe", "--group", group])?;
    let columns = ["PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"];
    let mut rows = table(&output, &columns)?;
    rows.sort_unstable();
    Ok(rows.iter().map(|row| row.iter().map(|field| (*field).to_owned()).collect()).collect())
}

/// Waits until a group has read all 100 records.
fn until_read(scene: &Scene, group: &str, topic: &str) -> Result {
    Ok(wait_until_some("commits at both ends", LIMIT, || {
        let committed = scene.committed(group, topic).map_err(|error| error.to_string())?;
        if committed == [(0, 50), (1, 50)] { Ok(()) } else { Err(format!("{committed:?}")) }
    })?)
}

fn reset(scene: &Scene, group: &str, topic: &str, to: &[&str]) -> Result<String> {
    let mut args = vec!["--reset-offsets", "--group", group, "--topic", topic, "--execute"];
    args.extend(to);
    scene.tool(GROUPS, &args)
}

pub(crate) fn tool(scene: Scene) -> TestResult {
    let (topic, group) = (scene.name("groups"), scene.name("groups-group"));
    fill(&scene, &topic)?;
    let scratch = Scratch::new("member")?;
    let consumer = member(&scene, &scratch, &topic, &["--group", &group])?;
    until_read(&scene, &group, &topic)?;

    let list = scene.tool(GROUPS, &["--list", "--state"])?;
    let row = table(&list, &["GROUP", "STATE"])?.into_iter().find(|row| row[0] == group);
    assert_eq!(row, Some(vec![group.as_str(), "Stable"]), "{list}");
    assert_eq!(described(&scene, &group)?, [["0", "50", "50", "0"], ["1", "50", "50", "0"]]);
    let members =
        scene.tool(GROUPS, &["--describe", "--group", &group, "--members", "--verbose"])?;
    let members = table(&members, &["GROUP", "#PARTITIONS"])?;
    assert_eq!(members, [[group.as_str(), "2"]]);

    // With a live member nothing is reset.
    let refused = scene.output(
        GROUPS,
        &["--reset-offsets", "--group", &group, "--topic", &topic, "--to-earliest", "--execute"],
    )?;
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains("only be reset if the group") && said.contains("inactive"), "{said}");
    assert_eq!(scene.committed(&group, &topic)?, [(0, 50), (1, 50)]);
    consumer.stop(LIMIT)?;
    scene.wait_for_state(&group, "Empty")?;

    for (to, wanted) in [
        (&["--to-earliest"][..], 0),
        (&["--shift-by", "12"][..], 12),
        (&["--to-offset", "7"][..], 7),
        (&["--to-datetime", "2000-01-01T00:00:00.000"][..], 0),
        (&["--to-latest"][..], 50),
    ] {
        reset(&scene, &group, &topic, to)?;
        assert_eq!(scene.committed(&group, &topic)?, [(0, wanted), (1, wanted)], "{to:?}");
    }
    scene
        .tool(GROUPS, &["--delete-offsets", "--group", &group, "--topic", &format!("{topic}:1")])?;
    assert_eq!(scene.committed(&group, &topic)?, [(0, 50)]);
    scene.tool(GROUPS, &["--delete", "--group", &group])?;
    assert!(!scene.tool(GROUPS, &["--list"])?.lines().any(|line| line == group));
    let gone = scene.output(GROUPS, &["--describe", "--group", &group])?;
    let said = format!("{}{}", gone.stdout, gone.stderr);
    let words = ["does not exist", "GroupIdNotFoundException"];
    assert!(words.iter().any(|words| said.contains(words)), "{said}");
    Ok(())
}

pub(crate) fn consumer_protocol(scene: Scene) -> TestResult {
    let (topic, group) = (scene.name("kip848"), scene.name("kip848-group"));
    fill(&scene, &topic)?;
    let scratch = Scratch::new("member")?;
    let property = scene.property_flag();
    let args = ["--group", &group, property, "group.protocol=consumer"];
    let consumer = member(&scene, &scratch, &topic, &args)?;
    until_read(&scene, &group, &topic)?;
    let list = scene.tool(GROUPS, &["--list", "--type", "consumer"])?;
    assert!(list.contains(&group), "{list}");
    let members = scene.tool(GROUPS, &["--describe", "--group", &group, "--members"])?;
    assert_eq!(table(&members, &["GROUP", "#PARTITIONS"])?, [[group.as_str(), "2"]]);

    // A second member takes over one partition, and gives it back.
    let second_scratch = Scratch::new("member")?;
    let second = member(&scene, &second_scratch, &topic, &args)?;
    let shares = |wanted: &[&str]| -> Result {
        Ok(wait_until_some("shares of the members", LIMIT, || {
            let args = ["--describe", "--group", &group, "--members"];
            let members = scene.tool(GROUPS, &args).map_err(|error| error.to_string())?;
            let rows = table(&members, &["#PARTITIONS"]).map_err(|error| error.to_string())?;
            let shares: Vec<&str> = rows.iter().map(|row| row[0]).collect();
            if shares == wanted { Ok(()) } else { Err(format!("{shares:?}")) }
        })?)
    };
    shares(&["1", "1"])?;
    second.stop(LIMIT)?;
    shares(&["2"])?;
    consumer.stop(LIMIT)?;
    scene.wait_for_state(&group, "Empty")?;
    reset(&scene, &group, &topic, &["--to-offset", "20"])?;
    let read = scene.consume(&topic, &group, 60, &["group.protocol=consumer"])?;
    assert_eq!(read.len(), 60);
    Ok(())
}
