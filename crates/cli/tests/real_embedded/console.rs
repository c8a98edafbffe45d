//! `kafka-console-producer` and `kafka-console-consumer`.

use std::collections::BTreeSet;

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{JavaTool, KafkaVersion};

use crate::setup::Scene;

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

pub(crate) fn tools(scene: Scene) -> TestResult {
    let (topic, group) = (scene.name("console"), scene.name("console-group"));
    // The tool of 3.9 is still of the old package.
    let producer = match scene.version {
        KafkaVersion::V4_3_0 => JavaTool::CONSOLE_PRODUCER,
        KafkaVersion::V3_9_1 | KafkaVersion::V3_4_0 => "kafka.tools.ConsoleProducer",
    };
    // The topic is made by its first use.
    let lines: Vec<String> = (0..50).map(|number| format!("line {number}")).collect();
    let args = ["--bootstrap-server", scene.bootstrap, "--topic", &topic];
    let output = JavaTool::new(scene.jars, producer)
        .args(args)
        .args(["--compression-codec", "lz4"])
        .output_with_input(&(lines.join("\n") + "\n"))?;
    assert!(output.success, "{output:?}");
    assert!(!output.stderr.contains("Error when sending"), "{output:?}");
    // And with every codec, idempotent as is the default.
    let mut wanted: BTreeSet<String> = lines.into_iter().collect();
    for codec in CODECS {
        let values: Vec<String> = (0..20).map(|number| format!("{codec} {number}")).collect();
        let records: Vec<_> = values.iter().map(|value| (0, None, Some(value.as_str()))).collect();
        scene.shell.produce(scene.bootstrap, &topic, &records, &[("compression.type", codec)])?;
        wanted.extend(values);
    }
    let read = scene.consume(&topic, &group, wanted.len(), &[])?;
    assert_eq!(read.len(), wanted.len());
    assert_eq!(read.into_iter().collect::<BTreeSet<_>>(), wanted);
    scene.wait_for_state(&group, "Empty")?;
    assert_eq!(scene.committed(&group, &topic)?, [(0, wanted.len() as i64)]);
    Ok(())
}

pub(crate) fn static_member(scene: Scene) -> TestResult {
    let (topic, group) = (scene.name("static"), scene.name("static-group"));
    let values: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    let records: Vec<_> = values.iter().map(|value| (0, None, Some(value.as_str()))).collect();
    scene.shell.create_topic(scene.bootstrap, &topic, 1, 1, &[])?;
    scene.shell.produce(scene.bootstrap, &topic, &records, &[])?;
    let member = ["group.instance.id=one", "session.timeout.ms=45000"];
    assert_eq!(scene.consume(&topic, &group, 10, &member)?, values[..10]);
    // A static member does not leave: the group waits for it, and takes it back at once.
    let groups = scene.shell.groups(scene.bootstrap)?;
    assert_eq!(groups.get(&group).map(String::as_str), Some("Stable"));
    let next = scene.committed(&group, &topic)?[0].1 as usize;
    assert_eq!(next, 10);
    assert_eq!(scene.consume(&topic, &group, 20, &member)?, values[next..]);
    Ok(())
}
