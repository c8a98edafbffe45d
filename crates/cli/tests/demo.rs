//! `twinlog demo` as a process: what it proves, what it prints, and what works beside it.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use twinlog_testkit::wait_until_some;

/// For what takes a second on an idle machine.
const LIMIT: Duration = Duration::from_mins(2);

/// Of the synced groups of the demo.
const SYNCED: [&str; 5] = ["billing", "shipping", "reports", "audit", "search"];

fn twinlog(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twinlog"));
    command.args(args).stdin(Stdio::null()).output().expect("twinlog runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// What is checked of every group, by contents and on both sides.
fn assert_proven(document: &Value) {
    assert_eq!(document["version"], 1);
    let groups = document["groups"].as_array().expect("groups");
    let of = |name: &str| {
        groups.iter().find(|group| group["group"] == name).expect("a group of the demo")
    };
    for name in SYNCED {
        let (group, drill) = (of(name), &of(name)["drill"]);
        assert_eq!(drill["result"], "exact", "{group}");
        assert_ne!(group["source_offset"], group["target_offset"], "{name}");
        assert!(drill["due_record"].is_string(), "{name} is due something: {group}");
        assert_eq!(drill["due_record"], drill["resumed_record"], "{name}");
        assert_eq!(group["source_record"], group["target_record"], "{name}");
        assert_eq!(group["source_record"], drill["due_record"], "{name}");
        assert_eq!(group["state"], "in-sync", "{name}");
    }
    let reports = &of("reports")["drill"];
    assert!(reports["read"].as_u64() >= Some(50_000), "{reports}");
    for (name, code) in [
        ("fraud", "group-live-on-target"),
        ("adhoc-lena", "group-excluded"),
        ("returns-app", "sync-disabled"),
    ] {
        let group = of(name);
        assert_eq!(group["code"], code, "{group}");
        assert_eq!(group["drill"]["result"], "not-synced", "{group}");
        for field in [&group["reason"], &group["drill"]["consequence"]] {
            assert!(field.as_str().is_some_and(|text| !text.is_empty()), "{group}");
        }
        // A command is named only where it works: the file is gone with the clusters.
        let next = document["file"].as_str().map(|file| {
            let group = group["group"].as_str().unwrap_or_default();
            format!("twinlog explain {file} --group {group}")
        });
        assert_eq!(group["next"].as_str(), next.as_deref(), "{group}");
    }
    assert_eq!(document["verdict"]["result"], "exact");
    assert_eq!(
        (&document["verdict"]["synced"], &document["verdict"]["exact"]),
        (&5.into(), &5.into())
    );
    assert_eq!(document["drill"]["different_partitions"], 0);
    assert!(document["drill"]["compared_records"].as_u64() > Some(100_000));
    if cfg!(target_os = "linux") {
        let peak = document["peak_memory_bytes"].as_u64().expect("the peak");
        assert!(peak < 200 << 20, "{peak} bytes");
    }
}

#[test]
fn every_synced_group_resumes_at_the_record_that_is_due() {
    let output = twinlog(&["demo", "--once", "--port-base", "0", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 1, "one document: {text}");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_proven(&document);
    assert_eq!(document["file"], Value::Null, "it is gone");
}

#[test]
fn the_screen_fits_a_hundred_columns_and_a_terminals_height() {
    let output = twinlog(&["demo", "--once", "--port-base", "0"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert!(!text.contains(".properties"), "the file is gone when somebody reads this: {text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
    }
    assert!(text.lines().count() <= 45, "{} lines:\n{text}", text.lines().count());
    assert!(!text.contains('\x1b'), "no colour where there is no terminal");
    assert!(text.contains("PASSED: 5 of 5 synced groups resumed at the exact record."), "{text}");
}

#[test]
fn a_taken_port_is_named_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let output = twinlog(&["demo", "--once", "--port-base", &port]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(3), String::new()));
    let stderr = stderr(&output);
    assert!(stderr.contains(&format!("127.0.0.1:{port}")), "{stderr}");
    assert!(stderr.contains("--port-base"), "{stderr}");
    let output = twinlog(&["demo", "--once", "--port-base", "65535"]);
    assert_eq!(output.status.code(), Some(2), "there is no second port");
}

/// A demo that stays.
struct Staying {
    child: Child,
    stdout: BufReader<ChildStdout>,
    document: Value,
}

impl Staying {
    /// Starts it and waits for its answer.
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_twinlog"))
            .args(["demo", "--port-base", "0", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("twinlog runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("an answer");
        let document = serde_json::from_str(&line).expect("JSON");
        Self { child, stdout, document }
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tells a process something.
fn tell(signal: &str, child: &Child) {
    let told = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(told.expect("kill runs").success());
}

#[test]
fn a_drill_that_is_not_finished_says_so() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_twinlog"))
        .args(["demo", "--once", "--port-base", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("twinlog runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    stderr.read_line(&mut said).expect("a first line");
    tell("-INT", &child);
    stderr.read_to_string(&mut said).expect("UTF-8");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), stdout(&output)), (Some(130), String::new()), "{said}");
    assert!(said.contains("before the drill was finished"), "{said}");
    assert!(twinlog(&["demo", "--help"]).stdout.windows(3).any(|word| word == b"130"));
}

#[test]
fn a_closed_terminal_ends_the_demo_in_order() {
    let mut demo = Staying::start();
    let file = demo.document["file"].as_str().expect("a file").to_owned();
    assert!(std::path::Path::new(&file).exists());
    tell("-HUP", &demo.child);
    assert_eq!(demo.child.wait().expect("it ends").code(), Some(0));
    assert!(!std::path::Path::new(&file).exists(), "the file goes with the demo");
}

#[test]
fn the_clusters_stay_for_the_other_commands_until_ctrl_c() {
    let mut demo = Staying::start();
    assert_proven(&demo.document);
    let file = demo.document["file"].as_str().expect("a file").to_owned();

    let translated = twinlog(&[
        "translate",
        &file,
        "--topic",
        "orders",
        "--partition",
        "0",
        "--offset",
        "881000",
    ]);
    // The source's log begins at 731000, the copy's at 0.
    assert_eq!(stdout(&translated), "orders-0 881000 -> hello.orders-0 150000 (exact)\n");
    let group = twinlog(&["translate", &file, "--group", "search", "--json"]);
    let group: Value = serde_json::from_str(&stdout(&group)).expect("JSON");
    let search = &demo.document["groups"][4];
    assert_eq!(group["flow"], "hello->world");
    assert_eq!(group["offsets"][0]["target"]["offset"], search["target_offset"], "{group}");

    // hello came back, so its mirror goes on, and soon nothing is stopped.
    wait_until_some("nothing is stopped", LIMIT, || {
        let status = twinlog(&["status", &file, "--json"]);
        let well = status.status.code() == Some(0);
        if well { Ok(()) } else { Err(format!("{}{}", stdout(&status), stderr(&status))) }
    })
    .expect("a mirror that goes on");

    tell("-INT", &demo.child);
    let status = demo.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0), "an orderly end");
    let mut rest = String::new();
    demo.stdout.read_to_string(&mut rest).expect("UTF-8");
    assert_eq!(rest, "", "nothing but the answer");
    assert!(!std::path::Path::new(&file).exists(), "the file goes with the demo");
}
