//! What the commands say of a mirror that MM2 made, where no twinlog has ever run the flow.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use twinlog_batch::Record;
use twinlog_client::{Cluster, ClusterOptions, TcpDial};
use twinlog_mirror::formats::OffsetSync;
use twinlog_testkit::{Embedded, Scratch};
use twinlog_types::TopicPartition;

const SYNCS: &str = "mm2-offset-syncs.world.internal";

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_twinlog"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn write(cluster: &Embedded, topic: &str, records: Vec<(Bytes, Bytes)>) {
    let bootstrap = vec![cluster.bootstrap().to_owned()];
    let options = ClusterOptions { bootstrap, ..ClusterOptions::default() };
    let records: Vec<Record> = (0_i64..)
        .zip(records)
        .map(|(at, (key, value))| Record {
            offset: 0,
            timestamp: 1_795_971_649_000 + at,
            key: Some(key),
            value: Some(value),
            headers: Vec::new(),
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let tp = TopicPartition::new(topic, 0);
    let cluster = Cluster::new(options, Arc::new(TcpDial));
    runtime.expect("a runtime").block_on(cluster.produce_plain(&tp, &records)).expect("written");
}

fn orders(numbers: std::ops::Range<u32>) -> Vec<(Bytes, Bytes)> {
    numbers.map(|n| (Bytes::from(format!("k{n}")), Bytes::from(format!("v{n}")))).collect()
}

#[test]
fn a_mirror_that_mm2_made_is_told_as_mm2s_with_commands_that_can_be_pasted() {
    let start = |topics: &str| Embedded::start(binary(), &["--topics", topics]).expect("a cluster");
    let (hello, world) = (start(&format!("orders,{SYNCS}")), start("hello.orders"));
    write(&hello, "orders", orders(0..120));
    write(&world, "hello.orders", orders(0..100));
    let sync =
        |at| OffsetSync { topic: "orders".into(), partition: 0, upstream: at, downstream: at };
    let syncs = [0, 60].map(sync).into_iter().map(|sync| (sync.key(), sync.value()));
    write(&hello, SYNCS, syncs.collect());
    let scratch = Scratch::new("made-by-mm2").expect("a folder");
    let file = format!(
        "clusters=hello,world\nhello.bootstrap.servers={}\nworld.bootstrap.servers={}\n\
         hello->world.enabled=true\nreplication.factor=1\noffset-syncs.topic.replication.factor=1\n\
         checkpoints.topic.replication.factor=1\nheartbeats.topic.replication.factor=1\n",
        hello.bootstrap(),
        world.bootstrap()
    );
    let file = scratch.write("it's mm2.properties", &file).expect("a file").display().to_string();
    let quoted = format!("'{}'", file.replace('\'', r"'\''"));
    let ask = |args: &[&str]| -> (Option<i32>, String, String) {
        let all = [args[0], &file].into_iter().chain(args[1..].iter().copied());
        let output = Command::new(binary()).args(all).output().expect("twinlog runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };

    let (exit, out, err) = ask(&["status"]);
    assert_eq!(exit, Some(1), "MM2 does not run: {out}{err}");
    assert!(out.contains("MM2 made this mirror (1 partition) and does not run now"), "{out}");
    assert!(out.contains("no twinlog has ever run this flow"), "{out}");
    assert!(out.contains(&format!("`twinlog doctor {quoted}`")), "{out}");
    assert!(out.contains("MM2 copied it up to about source offset 100"), "{out}");
    assert!(!out.contains("target-not-empty") && !out.contains("FILE"), "{out}");
    let (_, out, _) = ask(&["status", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let flow = &document["flows"][0];
    assert_eq!(flow["mm2"], serde_json::json!({"runs": null, "partitions": 1}));
    let partition = &flow["topics"][0]["partitions"][0];
    assert_eq!((&partition["copied_to"], &partition["lag_records"]), (&100.into(), &20.into()));

    let (exit, out, _) = ask(&["check", "--online"]);
    assert_eq!(exit, Some(0), "{out}");
    assert!(out.contains("orders: 1 partition, about 20 offsets to copy"), "{out}");

    let (exit, out, err) =
        ask(&["translate", "--topic", "orders", "--partition", "0", "--offset", "90"]);
    assert_eq!((exit, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("no twinlog has ever run hello->world, MM2 made it"), "{err}");
    let figure = "MM2 translates 90 to 61, by its offset-sync 60 -> 60, up to 29 records";
    assert!(err.contains(figure), "{err}");
    assert!(err.contains(&format!("`twinlog doctor {quoted} --topic orders`")), "{err}");
    let (exit, _, err) = ask(&[
        "translate",
        "--topic",
        "hello.orders",
        "--partition",
        "0",
        "--offset",
        "9",
        "--reverse",
    ]);
    assert!(exit == Some(1) && err.contains("no twinlog has ever run hello->world"), "{err}");

    let (exit, out, err) = ask(&["wait", "--until", "in-sync", "--timeout", "1s"]);
    assert_eq!(exit, Some(3), "{out}{err}");
    assert!(out.contains("MM2 made this mirror") && !(out + &err).contains("FILE"), "{err}");
}
