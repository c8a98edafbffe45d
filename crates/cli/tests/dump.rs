//! `twinlog dump` on in-memory clusters: what it makes of records that MM2 wrote, of those that
//! nobody should have written, and of topics that are not there.
//!
//! Beside Kafka's own formatters it is held by `real_main`.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use twinlog_batch::Record;
use twinlog_client::{Cluster, ClusterOptions, TcpDial};
use twinlog_testkit::{Embedded, Scratch, Signal, Twinlog};
use twinlog_types::TopicPartition;

/// Far more than anything here takes.
const LIMIT: Duration = Duration::from_mins(1);

const SYNCS: &str = "mm2-offset-syncs.world.internal";
const CHECKPOINTS: &str = "hello.checkpoints.internal";

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_twinlog"))
}

fn bytes(hex: &str) -> Bytes {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// Two clusters with topics, and a file that names them.
struct Scene {
    hello: Embedded,
    world: Embedded,
    scratch: Scratch,
}

impl Scene {
    fn new(hello: &[&str], world: &[&str]) -> Self {
        let start = |topics: &[&str]| {
            let list = topics.join(",");
            let args: &[&str] = if topics.is_empty() { &[] } else { &["--topics", &list] };
            Embedded::start(binary(), args).expect("an embedded cluster")
        };
        let scratch = Scratch::new("dump").expect("a folder");
        Self { hello: start(hello), world: start(world), scratch }
    }

    fn file(&self, more: &str) -> String {
        let (hello, world) = (self.hello.bootstrap(), self.world.bootstrap());
        let text = format!(
            "clusters=hello,world\nhello.bootstrap.servers={hello}\n\
             world.bootstrap.servers={world}\nhello->world.enabled=true\n{more}"
        );
        let file = self.scratch.write("mm2.properties", &text).expect("a file");
        file.display().to_string()
    }

    fn dump(&self, args: &[&str]) -> Output {
        let file = self.file("");
        let args = ["dump", &file].into_iter().chain(args.iter().copied());
        Twinlog::output(binary(), args).expect("twinlog runs")
    }

    /// What it prints when all is well.
    fn lines(&self, args: &[&str]) -> Vec<String> {
        let output = self.dump(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
    }

    fn documents(&self, args: &[&str]) -> Vec<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let lines = self.lines(&args);
        lines.iter().map(|line| serde_json::from_str(line).expect("a document")).collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes records, keys and values in hexadecimal.
fn produce(cluster: &Embedded, topic: &str, records: &[(Option<&str>, Option<&str>)]) {
    let options = ClusterOptions {
        bootstrap: vec![cluster.bootstrap().to_owned()],
        ..ClusterOptions::default()
    };
    let records: Vec<Record> = (0_i64..)
        .zip(records)
        .map(|(at, (key, value))| Record {
            offset: 0,
            timestamp: 1_795_971_649_000 + at,
            key: key.map(bytes),
            value: value.map(bytes),
            headers: Vec::new(),
        })
        .collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let tp = TopicPartition::new(topic, 0);
    runtime
        .block_on(Cluster::new(options, Arc::new(TcpDial)).produce_plain(&tp, &records))
        .expect("written");
}

/// The key of `orders-N`, and a value, as MirrorMaker 2 4.3.0 writes them.
const ORDERS_0: &str = "00066f726465727300000000";
const ORDERS_1: &str = "00066f726465727300000001";
const AT_101: &str = "00000000000000650000000000000065";
const AT_202: &str = "00000000000000ca00000000000000c8";

fn sync(partition: i32, upstream: i64, downstream: i64) -> String {
    format!(
        "OffsetSync{{topicPartition=orders-{partition}, upstreamOffset={upstream}, \
         downstreamOffset={downstream}}}"
    )
}

#[test]
fn records_that_cannot_be_read_are_shown_with_their_offset_and_stop_nothing() {
    let scene = Scene::new(&[SYNCS], &[]);
    produce(
        &scene.hello,
        SYNCS,
        &[
            (Some(ORDERS_0), Some(AT_101)),
            (Some(ORDERS_0), Some("00")),
            (Some("ffff"), Some(AT_101)),
            (None, Some(AT_101)),
            (Some(ORDERS_1), None),
            (Some(ORDERS_1), Some(AT_202)),
        ],
    );
    let at = |offset: i64| format!("# {SYNCS}-0 offset {offset}: ");
    assert_eq!(
        scene.lines(&["offset-syncs"]),
        [
            sync(0, 101, 101),
            at(1)
                + "cannot be read (orders-0): offset-sync record ends within its field upstreamOffset",
            at(2) + "cannot be read: field topic of the offset-sync record is not a string",
            at(3) + "cannot be read: offset-sync record has no key",
            at(4) + "tombstone: deletes orders-1",
            sync(1, 202, 200),
        ]
    );
    let documents = scene.documents(&["offset-syncs"]);
    assert_eq!(documents.len(), 6);
    assert_eq!(
        documents[0],
        json!({
            "version": 1, "cluster": "hello", "topic": SYNCS, "partition": 0, "offset": 0,
            "timestamp": 1_795_971_649_000_i64, "key": {"topic": "orders", "partition": 0},
            "value": {"upstream_offset": 101, "downstream_offset": 101},
            "tombstone": false, "problem": null,
        })
    );
    assert_eq!(documents[2]["bytes"], json!({"key": "ffff", "value": AT_101}));
    assert_eq!(documents[4]["tombstone"], true);
    assert!(stderr(&scene.dump(&["offset-syncs"])).contains("3 of 6 records could not be read"));
}

#[test]
fn the_last_the_newest_and_the_filtered_are_what_they_say() {
    let scene = Scene::new(&[SYNCS], &[]);
    // More than are looked at first for --last 2.
    let mut records = vec![(Some(ORDERS_0), Some(AT_101)), (Some(ORDERS_0), Some(AT_202))];
    records.extend([(Some(ORDERS_1), Some(AT_101)); 400]);
    records.push((Some(ORDERS_1), Some(AT_202)));
    produce(&scene.hello, SYNCS, &records);
    let dump = |args: &[&str]| {
        let all: Vec<&str> = ["offset-syncs"].into_iter().chain(args.iter().copied()).collect();
        scene.lines(&all)
    };
    assert_eq!(dump(&["--last", "2"]), [sync(1, 101, 101), sync(1, 202, 200)]);
    assert_eq!(
        dump(&["--last", "2", "--partition", "0"]),
        [sync(0, 101, 101), sync(0, 202, 200)],
        "far back"
    );
    assert!(dump(&["--last", "0"]).is_empty());
    assert_eq!(dump(&["--records", "newest"]), [sync(0, 202, 200), sync(1, 202, 200)]);
    assert_eq!(dump(&["--topic", "orders", "--partition", "1"]).len(), 401);
    assert!(dump(&["--topic", "order"]).is_empty());
    assert_eq!(dump(&[]).len(), 403);
}

#[test]
fn followed_topics_are_printed_as_they_grow_until_ctrl_c() {
    let scene = Scene::new(&[SYNCS], &[]);
    produce(&scene.hello, SYNCS, &[(Some(ORDERS_0), Some(AT_101))]);
    let file = scene.file("");
    for (last, seen, hex, next) in [
        (None, sync(0, 101, 101), AT_202, sync(1, 202, 200)),
        (Some("1"), sync(1, 202, 200), "000000000000012f000000000000012f", sync(1, 303, 303)),
    ] {
        let last = last.into_iter().flat_map(|last| ["--last", last]);
        let args = ["dump", &file, "offset-syncs", "--follow"].into_iter().chain(last);
        let follower = Twinlog::start(binary(), args).expect("started");
        follower.wait_for_log(&seen, LIMIT).unwrap();
        produce(&scene.hello, SYNCS, &[(Some(ORDERS_1), Some(hex))]);
        follower.wait_for_log(&next, LIMIT).unwrap();
        follower.process().signal(Signal::Int).unwrap();
        assert_eq!(follower.wait(LIMIT).unwrap().code(), Some(0));
        assert_eq!(follower.process().log().lines().count(), 2);
    }
}

#[test]
fn a_topic_that_is_not_there_is_3_and_the_next_step_says_where_it_is() {
    let scene = Scene::new(&[], &["mm2-offset-syncs.hello.internal", CHECKPOINTS]);
    let output = scene.dump(&["offset-syncs"]);
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert!(
        said.contains("topic mm2-offset-syncs.world.internal does not exist on hello")
            && said.contains("mm2-offset-syncs.hello.internal exists on world")
            && said.contains("-X 'hello->world.offset-syncs.topic.location=target'"),
        "{said}"
    );
    let set = "hello->world.offset-syncs.topic.location=target";
    assert!(scene.lines(&["offset-syncs", "-X", set]).is_empty());
    // Under another separator, MM2's names of before it had one for its own topics.
    let output = scene.dump(&["checkpoints", "-X", "replication.policy.separator=_"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains(
            "-X 'hello->world.replication.policy.internal.topic.separator.enabled=false'"
        ),
        "{}",
        stderr(&output)
    );
    let output = scene.dump(&["map", "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(answer["error"]["code"], "topic-missing");
    assert!(answer["error"]["next"].as_str().is_some_and(|next| next.contains("twinlog run")));
}

#[test]
fn a_cluster_that_is_away_is_3() {
    let scene = Scene::new(&[SYNCS], &[]);
    let output = scene.dump(&[
        "checkpoints",
        "-X",
        "world.bootstrap.servers=127.0.0.1:1",
        "--timeout",
        "2s",
    ]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("127.0.0.1:1"), "{}", stderr(&output));
    // The other cluster is not asked.
    let syncs = scene.lines(&["offset-syncs", "-X", "world.bootstrap.servers=127.0.0.1:1"]);
    assert!(syncs.is_empty());
}

#[test]
fn options_that_mean_nothing_for_a_kind_are_2_with_the_kinds_they_are_for() {
    let scene = Scene::new(&[], &[]);
    for (args, next) in [
        (
            &["offset-syncs", "--group", "g"][..],
            "--group is for checkpoints, positions, consumer-offsets",
        ),
        (&["heartbeats", "--topic", "t"], "--topic is for offset-syncs"),
        (&["checkpoints", "--cluster", "world"], "--cluster is for heartbeats, consumer-offsets"),
        (&["heartbeats", "--cluster", "mars"], "name the source or the target of a flow"),
    ] {
        let output = scene.dump(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(next), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn without_a_file_the_kind_is_the_only_word() {
    let scene = Scene::new(&["mm2-offset-syncs.target.internal"], &[]);
    produce(&scene.hello, "mm2-offset-syncs.target.internal", &[(Some(ORDERS_0), Some(AT_101))]);
    let (hello, world) = (scene.hello.bootstrap(), scene.world.bootstrap());
    let args = ["dump", "--source", hello, "--target", world];
    let output = Twinlog::output(binary(), args.iter().chain(&["offset-syncs"])).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), sync(0, 101, 101) + "\n");
    let output = Twinlog::output(binary(), args.iter().chain(&["nonsense"])).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the kinds are offset-syncs, checkpoints"));
}
