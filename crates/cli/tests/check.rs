//! `twinlog check` without clusters: what a file says, and what is wrong with it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use twinlog_testkit::Embedded;

const SOUND: &str = "clusters = hello, world
hello.bootstrap.servers = 127.0.0.1:1
world.bootstrap.servers = 127.0.0.1:2
hello->world.enabled = true
hello->world.topics = orders
hello->world.sync.group.offsets.enabled = true
";

fn check(name: &str, text: &str, more: &[&str]) -> Output {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{name}.properties"));
    std::fs::write(&file, text).expect("the file can be written");
    let command =
        Command::new(env!("CARGO_BIN_EXE_twinlog")).arg("check").arg(&file).args(more).output();
    command.expect("the binary runs")
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn setting<'a>(document: &'a Value, key: &str) -> &'a Value {
    let config = document["flows"][0]["config"].as_array().expect("config");
    config.iter().find(|setting| setting["key"] == key).expect("the key is there")
}

#[test]
fn every_value_is_told_with_where_it_stands() {
    let output = check("sound", SOUND, &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document = document(&output);
    assert_eq!(document["version"], 1);
    assert_eq!(document["flows"][0]["flow"], "hello->world");
    let topics = setting(&document, "topics");
    assert_eq!((&topics["value"], &topics["line"]), (&"orders".into(), &5.into()));
    assert_eq!(topics["from"], "hello->world.topics (line 5)");
    assert_eq!(setting(&document, "groups")["from"], "default");
    assert_eq!(document["problems"], Value::Array(Vec::new()));
    let text = check("sound-text", SOUND, &[]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("hello->world.topics (line 5)") && text.contains("0 errors"), "{text}");
}

#[test]
fn a_key_that_nobody_reads_is_a_warning_with_what_was_meant() {
    let typo = format!("{SOUND}hello->world.emit.checkpoints.enabeld = true\n");
    let output = check("typo", &typo, &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document = document(&output);
    let problem = &document["problems"][0];
    assert_eq!((&problem["line"], &problem["severity"]), (&7.into(), &"warning".into()));
    let suggestion = problem["suggestion"].as_str().expect("a suggestion");
    assert!(suggestion.contains("emit.checkpoints.enabled"), "{problem}");
}

#[test]
fn errors_end_with_2_and_are_all_named_beside_what_could_be_read() {
    let wrong = format!("{SOUND}replication.factor = many\nhello->wrld.enabled = true\n");
    let output = check("wrong", &wrong, &["--json"]);
    assert_eq!(output.status.code(), Some(2));
    let document = document(&output);
    let errors: Vec<&Value> = document["problems"]
        .as_array()
        .expect("problems")
        .iter()
        .filter(|problem| problem["severity"] == "error")
        .collect();
    assert_eq!(errors.len(), 2, "{document}");
    assert_eq!(setting(&document, "topics")["value"], "orders");
}

#[test]
fn contradictions_are_warnings() {
    let text = SOUND.replace("offsets.enabled = true", "offsets.enabled = false");
    let output = check("contradiction", &text, &[]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("warning:") && said.contains("sync.group.offsets.enabled"), "{said}");
}

#[test]
fn clusters_that_are_not_there_cannot_be_found_out_about() {
    let output = check("away", SOUND, &["--online", "--json", "--timeout", "2s"]);
    assert_eq!(output.status.code(), Some(3));
    let document = document(&output);
    assert_eq!(document["flows"][0]["plan"]["error"]["code"], "unreachable", "{document}");
}

/// A cluster of Kafka 3.9 and one of 4.3, both in memory and on this machine.
#[test]
fn what_clusters_tell_of_their_versions_and_clocks_is_said() {
    let binary = Path::new(env!("CARGO_BIN_EXE_twinlog"));
    let start = |args: &[&str]| Embedded::start(binary, args).expect("an embedded cluster");
    let old = start(&["--kafka-version", "3.9", "--topics", "orders"]);
    let new = start(&["--brokers", "3"]);
    let text =
        SOUND.replace("127.0.0.1:1", old.bootstrap()).replace("127.0.0.1:2", new.bootstrap());
    // The source has one broker.
    let text = format!(
        "{text}offset-syncs.topic.replication.factor = 1\nheartbeats.topic.replication.factor = 1\n"
    );
    let output = check("clusters", &text, &["--online", "--json"]);
    let said = document(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let plan = &said["flows"][0]["plan"];
    for (side, release, level, brokers) in [("source", "3.9", 21, 1), ("target", "4.3", 30, 3)] {
        let side = &plan[side];
        let versions = side["versions"].as_array().expect("versions");
        assert_eq!(versions.len(), 1, "{side}");
        assert_eq!(versions[0]["release"], release);
        assert_eq!(versions[0]["features"]["metadata.version"], level);
        assert_eq!(versions[0]["brokers"].as_array().map(Vec::len), Some(brokers));
        let clock = &side["clock"];
        let (ahead, within) = (clock["ahead_ms"].as_i64(), clock["within_ms"].as_u64());
        let (ahead, within) = (ahead.expect("a clock"), within.expect("how sure"));
        // One machine has one clock; what is rounded is a millisecond.
        assert!(ahead.unsigned_abs() <= within + 1, "{side}");
    }
    let output = check("clusters-text", &text, &["--online"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("    Kafka 3.9 (metadata.version 21), Fetch up to 17\n"), "{said}");
    assert!(said.contains("    its clock is "), "{said}");
    // The table above it shows values as they are, however long.
    let mut plan = said.lines().skip_while(|line| !line.starts_with("  hello: cluster "));
    assert!(plan.clone().count() > 5, "{said}");
    assert!(plan.all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn a_value_that_is_refused_is_not_where_the_default_comes_from() {
    let wrong = format!("{SOUND}refresh.topics.interval.seconds = soon\n");
    let output = check("refused", &wrong, &["--json"]);
    let document = document(&output);
    let interval = setting(&document, "refresh.topics.interval.seconds");
    assert_eq!((&interval["value"], &interval["from"]), (&"600".into(), &"default".into()));
    assert_eq!(interval["line"], Value::Null);
    let text = check("refused-text", &wrong, &[]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let row = text.lines().find(|line| line.contains("refresh.topics.interval.seconds"));
    assert!(row.is_some_and(|row| row.ends_with(" default, as line 7 is refused")), "{text}");
}

fn errors(document: &Value) -> Vec<(&str, &str, &str)> {
    of_severity(document, "error")
}

fn of_severity<'a>(document: &'a Value, severity: &str) -> Vec<(&'a str, &'a str, &'a str)> {
    let problems = document["problems"].as_array().expect("problems").iter();
    let errors = problems.filter(|problem| problem["severity"] == severity);
    errors
        .map(|problem| {
            let of = |what: &str| problem[what].as_str().unwrap_or_default();
            (of("code"), of("key"), of("suggestion"))
        })
        .collect()
}

/// MM2's defaults are factors of 3, and of 2 for mirrors.
#[test]
fn factors_that_the_clusters_cannot_meet_are_errors_with_property_line_and_code() {
    let binary = Path::new(env!("CARGO_BIN_EXE_twinlog"));
    let start = |args: &[&str]| Embedded::start(binary, args).expect("an embedded cluster");
    let (hello, world) = (start(&["--topics", "orders"]), start(&[]));
    let text =
        SOUND.replace("127.0.0.1:1", hello.bootstrap()).replace("127.0.0.1:2", world.bootstrap());
    let said = format!("{text}checkpoints.topic.replication.factor = 2\n");
    let output = check("factors", &said, &["--online", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = document(&output);
    let missing = "topic-missing-on-target";
    let of_flow = |key: &str, on: &str| {
        let key = format!("hello->world.{key}");
        (key.clone(), format!("say {key} = 1, or add brokers to {on}"))
    };
    let expected = [
        of_flow("offset-syncs.topic.replication.factor", "world"),
        of_flow("offset-syncs.topic.replication.factor", "hello"),
        (
            "checkpoints.topic.replication.factor".to_owned(),
            "say checkpoints.topic.replication.factor = 1, or add brokers to world".to_owned(),
        ),
        (
            "heartbeats.topic.replication.factor".to_owned(),
            "say heartbeats.topic.replication.factor = 1, or add brokers to world".to_owned(),
        ),
        of_flow("replication.factor", "world"),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(key, next)| (missing, key.as_str(), next.as_str())).collect();
    assert_eq!(errors(&found), expected, "{found}");
    assert_eq!(found["problems"][2]["line"], 7, "{found}");
    // Heartbeats of the other direction, whose flow is not enabled.
    let beats = "heartbeats.topic.replication.factor";
    let next = format!("say {beats} = 1, or add brokers to hello");
    assert_eq!(of_severity(&found, "warning"), [(missing, beats, next.as_str())], "{found}");

    // The lines that it says are what it takes.
    let lines = expected.iter().map(|(_, key, _)| format!("{key} = 1\n"));
    let corrected = format!("{text}{}", lines.collect::<String>());
    let output = check("corrected", &corrected, &["--online", "--json"]);
    assert_eq!(errors(&document(&output)), [], "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn two_aliases_of_one_cluster_are_an_error() {
    let binary = Path::new(env!("CARGO_BIN_EXE_twinlog"));
    let one = Embedded::start(binary, &["--topics", "orders"]).expect("an embedded cluster");
    let text = format!("{SOUND}heartbeats.topic.replication.factor = 1\n");
    let text = text.replace("127.0.0.1:1", one.bootstrap());
    let text = text.replace("127.0.0.1:2", &one.bootstrap().replace("127.0.0.1", "localhost"));
    let output = check("one-cluster", &text, &["--online", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = document(&output);
    let correct = "correct hello.bootstrap.servers or world.bootstrap.servers";
    assert_eq!(errors(&found), [("same-cluster", "world.bootstrap.servers", correct)], "{found}");
    let output = check("one-cluster-text", &text, &["--online"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("error: ") && said.contains("one and the same cluster"), "{said}");
    assert!(said.ends_with("1 error, 0 warnings\n") && !said.contains("would create"), "{said}");
}

#[test]
fn a_file_without_an_end_is_refused_and_read_no_further() {
    let endless = Command::new(env!("CARGO_BIN_EXE_twinlog")).args(["check", "/dev/zero"]).output();
    let output = endless.expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    let said = [output.stdout, output.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat();
    assert!(said.starts_with("/dev/zero: cannot be read: it is larger than 4 MiB"), "{said}");
}
