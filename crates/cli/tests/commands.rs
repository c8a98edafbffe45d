//! The binary without any broker: usage, configuration errors, unreachable clusters.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use twinlog_testkit::Scratch;

/// A file that is right; nothing listens behind it.
const GOOD: &str = "\
clusters = hello, world
hello.bootstrap.servers = 127.0.0.1:1
world.bootstrap.servers = 127.0.0.1:1
hello->world.enabled = true
";

struct Files(Scratch);

impl Files {
    fn new() -> Self {
        Self(Scratch::new("commands").expect("a scratch folder"))
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }
}

fn twinlog<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twinlog"));
    command.args(args).stdin(Stdio::null()).output().expect("twinlog runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn exit(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

/// Runs all three commands on a file that has a problem.
fn refused(text: &str) -> Vec<String> {
    let files = Files::new();
    let file = files.file("mm2.properties", text);
    let path = file.display().to_string();
    let commands: [&[&str]; 3] = [
        &["run"],
        &["status"],
        &["translate", "--topic", "t", "--partition", "0", "--offset", "1"],
    ];
    let mut all = Vec::new();
    for command in commands {
        let mut args = vec![command[0].to_owned(), path.clone()];
        args.extend(command[1..].iter().map(|arg| (*arg).to_owned()));
        let output = twinlog(&args);
        assert_eq!(exit(&output), 2, "{command:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "nothing but the answer on standard output");
        all.push(stderr(&output).replace(&path, "FILE"));
    }
    all
}

fn assert_refused(text: &str, expected: &str) {
    for stderr in refused(text) {
        assert!(stderr.contains(expected), "expected {expected:?} in:\n{stderr}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let output = twinlog(["run", "/nowhere/mm2.properties"]);
    assert_eq!(exit(&output), 2);
    assert!(stderr(&output).starts_with("/nowhere/mm2.properties: cannot be read"));
}

#[test]
fn an_unparsable_file_is_refused_with_its_line() {
    assert_refused(&format!("{GOOD}topics = a\\u12\n"), "FILE:5: a `\\u` is not followed by");
}

#[test]
fn an_unknown_alias_is_refused_with_line_and_key() {
    assert_refused(
        &format!("{GOOD}hello->wrld.topics = a\n"),
        "FILE:5: hello->wrld.topics: no cluster is called `wrld`",
    );
}

#[test]
fn missing_servers_are_refused_with_their_key() {
    let text = GOOD.replace("world.bootstrap.servers = 127.0.0.1:1\n", "");
    assert_refused(&text, "FILE: world.bootstrap.servers: is missing");
}

#[test]
fn a_bad_pattern_is_refused_with_line_and_key() {
    assert_refused(&format!("{GOOD}hello->world.topics = a(b\n"), "FILE:5: hello->world.topics:");
}

#[test]
fn a_bad_number_is_refused_with_line_and_key() {
    assert_refused(
        &format!("{GOOD}refresh.topics.interval.seconds = soon\n"),
        "FILE:5: refresh.topics.interval.seconds:",
    );
}

#[test]
fn exactly_once_by_transactions_is_refused() {
    assert_refused(
        &format!("{GOOD}world.exactly.once.source.support = enabled\n"),
        "FILE:5: world.exactly.once.source.support:",
    );
}

#[test]
fn a_connection_without_the_protection_that_is_asked_for_is_refused() {
    assert_refused(&format!("{GOOD}hello.security.protocol = SASL_SSL\n"), "security.protocol");
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = format!("{GOOD}hello->world.topics = a(b\nhello->wrld.groups = x\n");
    for stderr in refused(&text) {
        assert!(stderr.contains("FILE:5:") && stderr.contains("FILE:6:"), "{stderr}");
    }
}

#[test]
fn an_override_is_said_to_be_one() {
    let files = Files::new();
    let file = files.file("mm2.properties", GOOD);
    let output = twinlog([
        OsStr::new("run"),
        file.as_os_str(),
        OsStr::new("-X"),
        OsStr::new("hello->world.topics=a(b"),
    ]);
    assert_eq!(exit(&output), 2);
    assert!(stderr(&output).starts_with("-X: hello->world.topics:"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_exits_with_2() {
    let files = Files::new();
    let file = files.file("mm2.properties", GOOD).display().to_string();
    let commands: &[&[&str]] = &[
        &[],
        &["walk"],
        &["run"],
        &["run", &file, "--source", "a:1", "--target", "b:1"],
        &["run", "--source", "a:1"],
        &["run", &file, "--clusters", "mars"],
        &["run", &file, "-X", "novalue"],
        &["status", &file, "--timeout", "soon"],
        &["status", &file, "--flow", "hello"],
        &["status", &file, "--flow", "world->hello"],
        &["status", "--source", "a:1", "--target", "b:1", "--target-alias", "source"],
        &["translate", &file],
        &["translate", &file, "--topic", "t"],
        &["translate", &file, "--topic", "t", "--partition", "-1", "--offset", "1"],
    ];
    for command in commands {
        let output = twinlog(*command);
        assert_eq!(exit(&output), 2, "{command:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{command:?}");
        assert!(!stderr(&output).is_empty(), "{command:?}");
    }
}

#[test]
fn the_help_of_each_command_has_examples() {
    for command in ["run", "status", "translate", "completions"] {
        let output = twinlog([command, "--help"]);
        assert_eq!(exit(&output), 0);
        let help = stdout(&output);
        assert!(help.contains("Examples:"), "{help}");
        assert!(help.contains(&format!("twinlog {command} ")), "{help}");
    }
    assert_eq!(exit(&twinlog(["--help"])), 0);
    let version = twinlog(["--version"]);
    assert_eq!(stdout(&version), format!("twinlog {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_completion_script_knows_the_commands() {
    let output = twinlog(["completions", "bash"]);
    assert_eq!(exit(&output), 0);
    assert!(stdout(&output).contains("translate"));
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn errors_are_documents_under_json() {
    let files = Files::new();
    let bad = files.file("bad.properties", &format!("{GOOD}hello->world.topics = a(b\n"));
    let output = twinlog([OsStr::new("status"), bad.as_os_str(), OsStr::new("--json")]);
    assert_eq!(exit(&output), 2);
    let document = document(&output);
    assert_eq!(document["version"], 1);
    for field in ["code", "message", "next"] {
        assert!(document["error"][field].is_string(), "{document}");
    }
    assert_eq!(document["problems"][0]["line"], 5);
    assert_eq!(document["problems"][0]["key"], "hello->world.topics");

    let usage = twinlog(["status", "--json", "--nonsense"]);
    assert_eq!(exit(&usage), 2);
    let usage: Value = serde_json::from_slice(&usage.stdout).expect("one JSON document");
    assert_eq!(usage["error"]["code"], "usage");
}

#[test]
fn unreachable_clusters_exit_with_3_and_name_the_address() {
    let files = Files::new();
    let file = files.file("mm2.properties", GOOD).display().to_string();
    let status = twinlog(["status", &file, "--json", "--timeout", "500ms"]);
    assert_eq!(exit(&status), 3, "{}", stderr(&status));
    let flow = &document(&status)["flows"][0];
    assert_eq!(flow["flow"], "hello->world");
    assert_eq!((&flow["state"], &flow["code"]), (&"unknown".into(), &"unreachable".into()));
    assert!(stderr(&status).contains("127.0.0.1:1"), "{}", stderr(&status));

    let people = twinlog(["status", &file, "--timeout", "500ms"]);
    assert_eq!(exit(&people), 3);
    assert!(stdout(&people).contains("unreachable"), "{}", stdout(&people));

    let asked = ["--topic", "orders", "--partition", "0", "--offset", "1"];
    let mut args = vec!["translate", &file, "--json", "--timeout", "500ms"];
    args.extend(asked);
    let translate = twinlog(args);
    assert_eq!(exit(&translate), 3, "{}", stderr(&translate));
    let error = &document(&translate)["error"];
    assert_eq!(error["code"], "unreachable");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("127.0.0.1:1")), "{error}");
    assert!(error["next"].as_str().is_some_and(|text| !text.is_empty()));
}

#[test]
fn a_cluster_that_never_answers_does_not_hold_a_command_beyond_its_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let output = twinlog([
        "status",
        "--source",
        &address,
        "--target",
        &address,
        "--json",
        "--timeout",
        "500ms",
    ]);
    assert_eq!(exit(&output), 3, "{}", stderr(&output));
    assert_eq!(document(&output)["flows"][0]["flow"], "source->target");
}

#[test]
fn secrets_are_never_printed() {
    let files = Files::new();
    let secret = "hunter2hunter2";
    let vault = files.file("vault.properties", &format!("password={secret}\n"));
    let text = format!(
        "{GOOD}\
         config.providers = vault\n\
         config.providers.vault.class = org.apache.kafka.common.config.provider.FileConfigProvider\n\
         hello.sasl.jaas.config = PlainLoginModule required username=\"u\" password=\"{secret}\";\n\
         world.ssl.key.password = ${{vault:{}:password}}\n\
         world.ssl.truststore.password = ${{vault:{}:absent}}\n\
         hello->world.offset.lag.max = many\n",
        vault.display(),
        vault.display(),
    );
    let file = files.file("mm2.properties", &text);
    let file = file.as_os_str();
    for args in [
        vec![OsStr::new("run"), file, OsStr::new("-vvv")],
        vec![OsStr::new("status"), file, OsStr::new("-vvv"), OsStr::new("--json")],
    ] {
        let output = twinlog(args);
        assert_eq!(exit(&output), 2);
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains("offset.lag.max"), "{said}");
        assert!(!said.contains(secret), "{said}");
    }
    let good = text.replace("hello->world.offset.lag.max = many\n", "");
    let good = good.lines().filter(|line| !line.contains(":absent}")).collect::<Vec<_>>();
    let file = files.file("good.properties", &(good.join("\n") + "\n"));
    let output = twinlog([
        OsStr::new("status"),
        file.as_os_str(),
        OsStr::new("-vvvv"),
        OsStr::new("--timeout"),
        OsStr::new("300ms"),
    ]);
    assert_eq!(exit(&output), 3, "{}", stderr(&output));
    assert!(!(stdout(&output) + &stderr(&output)).contains(secret));
}

#[test]
fn values_come_from_the_environment_where_the_file_says_so() {
    let files = Files::new();
    let text = GOOD.replace(
        "world.bootstrap.servers = 127.0.0.1:1",
        "world.bootstrap.servers = ${env:TWINLOG_TEST_WORLD}",
    ) + "config.providers = env\n\
           config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n";
    let file = files.file("mm2.properties", &text);
    let status = |value: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twinlog"));
        command.arg("status").arg(&file).args(["--timeout", "300ms"]).stdin(Stdio::null());
        if let Some(value) = value {
            command.env("TWINLOG_TEST_WORLD", value);
        }
        command.output().expect("twinlog runs")
    };
    let there = status(Some("127.0.0.1:2"));
    assert_eq!(exit(&there), 3, "{}", stderr(&there));
    assert!(stderr(&there).contains("127.0.0.1:2"), "{}", stderr(&there));
    let absent = status(None);
    assert_eq!(exit(&absent), 2);
    assert!(stderr(&absent).contains("world.bootstrap.servers"), "{}", stderr(&absent));
}

#[test]
fn client_files_are_named_in_what_is_wrong_with_them() {
    let files = Files::new();
    let client = files.file("client.properties", "# client\nsecurity.protocol = SSL\n");
    let client = client.display().to_string();
    let output =
        twinlog(["run", "--source", "a:1", "--target", "b:1", "--target-command-config", &client]);
    assert_eq!(exit(&output), 2);
    let expected = format!("{client}:2: target.security.protocol:");
    assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    let no_port = twinlog(["run", "--source", "a", "--target", "b:1"]);
    assert_eq!(exit(&no_port), 2);
    assert!(stderr(&no_port).contains("source.bootstrap.servers"), "{}", stderr(&no_port));
}

#[test]
fn lines_cannot_be_translated_without_a_cluster() {
    let files = Files::new();
    let file = files.file("mm2.properties", GOOD);
    let mut child = Command::new(env!("CARGO_BIN_EXE_twinlog"))
        .arg("translate")
        .arg(&file)
        .args(["-", "--json", "--timeout", "300ms"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("twinlog runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // The command may have ended by the time that this is written.
    let _ = stdin.write_all(b"{\"topic\":\"a\",\"partition\":0,\"offset\":1}\n");
    drop(stdin);
    let output = child.wait_with_output().expect("ended");
    assert_eq!(exit(&output), 3, "{}", stderr(&output));
    assert_eq!(document(&output)["error"]["code"], "unreachable");
}
