//! `twinlog embedded` as a process: what it prints, its ports, its end. Needs no Java: the clients
//! here are twinlog's own; others are in `real_embedded`.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use twinlog_testkit::{Embedded, Signal};

/// Far more than anything here takes.
const LIMIT: Duration = Duration::from_mins(1);

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_twinlog"))
}

fn start(args: &[&str]) -> Embedded {
    Embedded::start(binary(), args).expect("an embedded cluster")
}

fn twinlog(args: &[&str]) -> Output {
    Command::new(binary()).args(args).stdin(Stdio::null()).output().expect("twinlog runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_first_line_is_an_address_at_which_somebody_listens() {
    let cluster = start(&["--topics", "orders:3,payments"]);
    TcpStream::connect(cluster.bootstrap()).expect("a listener");
    cluster.process().wait_for_log("kcat", LIMIT).unwrap();
    let hints = cluster.process().log();
    let bootstrap = cluster.bootstrap();
    for line in [
        format!("  kafka-console-producer.sh --bootstrap-server {bootstrap} --topic orders\n"),
        format!("  kcat -b {bootstrap} -t orders -P\n"),
    ] {
        assert!(hints.contains(&line), "{line} is not in\n{hints}");
    }
}

#[test]
fn it_ends_with_0_at_sigterm_and_at_ctrl_c() {
    for signal in [Signal::Term, Signal::Int] {
        let cluster = start(&[]);
        cluster.process().signal(signal).unwrap();
        let status = cluster.process().wait(LIMIT).unwrap();
        assert_eq!(status.code(), Some(0), "{signal:?}");
    }
}

#[test]
fn a_port_that_was_asked_for_and_is_taken_is_an_error_with_the_next_step() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = twinlog(&["embedded", "--port", &port]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let message = text(&output.stderr);
    assert!(message.contains(&format!("--port {port}: cannot listen")), "{message}");
    assert!(message.contains("--port 0"), "{message}");

    let output = twinlog(&["embedded", "--port", &port, "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!((&document["version"], &document["error"]["code"]), (&1.into(), &"usage".into()));
}

#[test]
fn without_a_port_two_clusters_live_side_by_side() {
    // Whoever of the two finds 9092 taken takes another port.
    let (one, other) = (without_port(), without_port());
    assert_ne!(one.1["bootstrap"], other.1["bootstrap"]);
    for (_, document) in [&one, &other] {
        TcpStream::connect(document["bootstrap"].as_str().unwrap()).expect("a listener");
    }
    // Otherwise mirrors would take the two for one cluster.
    assert_ne!(one.1["cluster_id"], other.1["cluster_id"]);
}

/// A cluster that chooses its port, and what it said.
fn without_port() -> (Embedded, Value) {
    let cluster = Embedded::start_anywhere(binary(), &["--json"]).expect("an embedded cluster");
    let document = serde_json::from_str(cluster.first_line()).expect("a document");
    (cluster, document)
}

#[test]
fn json_names_brokers_topics_and_the_limit() {
    let cluster = start(&[
        "--json",
        "--brokers",
        "3",
        "--topics",
        "orders:3,payments",
        "--kafka-version",
        "3.9",
        "--memory",
        "64m",
    ]);
    let document: Value = serde_json::from_str(cluster.first_line()).expect("a document");
    let brokers = document["brokers"].as_array().unwrap();
    let addresses: Vec<String> = brokers
        .iter()
        .map(|broker| format!("{}:{}", broker["host"].as_str().unwrap(), broker["port"]))
        .collect();
    assert_eq!(document["bootstrap"], addresses.join(","));
    for (broker, id) in brokers.iter().zip(1..=3) {
        assert_eq!(broker["id"], id);
    }
    for address in addresses {
        TcpStream::connect(address).expect("a listener");
    }
    assert_eq!(document["version"], 1);
    assert_eq!(document["kafka_version"], "3.9");
    assert_eq!(document["memory_bytes"], 64 << 20);
    assert_eq!(
        document["topics"],
        serde_json::json!([
            {"topic": "orders", "partitions": 3}, {"topic": "payments", "partitions": 1}
        ])
    );
}

#[test]
fn what_kafka_refuses_as_a_topic_is_refused() {
    for (topics, named) in [
        ("a,a", "--topics a"),
        ("a b", "--topics a b"),
        ("a:0", "a:0"),
        ("a:999999999", "--topics a"),
        ("orders:1000000", "at most 10000 partitions"),
        ("__consumer_offsets:3", "--topics __consumer_offsets"),
        ("orders,__transaction_state", "--topics __transaction_state"),
    ] {
        let output = twinlog(&["embedded", "--port", "0", "--topics", topics]);
        assert_eq!(output.status.code(), Some(2), "{topics}");
        assert!(text(&output.stderr).contains(named), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{topics}");
    }
}

#[test]
fn an_address_that_clients_could_not_connect_to_is_refused() {
    let output = twinlog(&["embedded", "--host", "0.0.0.0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--host 0.0.0.0"), "{}", text(&output.stderr));
}

#[test]
fn twinlog_itself_mirrors_between_two_of_them() {
    let (hello, world) = (start(&["--topics", "orders:2"]), start(&[]));
    let clusters = ["--source", hello.bootstrap(), "--target", world.bootstrap()];
    let run = twinlog_testkit::Twinlog::start(binary(), ["run"].iter().chain(&clusters)).unwrap();
    twinlog_testkit::wait_until("both partitions in sync", LIMIT, || {
        let args: Vec<&str> =
            ["status", "--json", "--topic", "orders"].into_iter().chain(clusters).collect();
        let output = twinlog(&args);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let partitions = &document["flows"][0]["topics"][0]["partitions"];
        partitions.as_array().is_some_and(|partitions| {
            partitions.len() == 2 && partitions.iter().all(|found| found["state"] == "in-sync")
        })
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", run.process().log_tail(20)));
    assert!(run.stop(LIMIT).unwrap().success());
}
