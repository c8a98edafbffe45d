//! The binary without any broker: usage, configuration errors, unreachable clusters.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
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

/// Runs the commands on a file that has a problem.
fn refused(text: &str) -> Vec<String> {
    let files = Files::new();
    let file = files.file("mm2.properties", text);
    let path = file.display().to_string();
    let commands: [&[&str]; 5] = [
        &["run"],
        &["status"],
        &["doctor"],
        &["explain", "--group", "g"],
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
        &["translate", &file, "--topic", "t", "--partition", "0", "--offset", "-1"],
        &["explain", &file],
        &["explain", &file, "--group", "g", "--topic", "t"],
        &["explain", &file, "--topic", "t", "--partition", "-1"],
        &["man", "walk"],
    ];
    for command in commands {
        let output = twinlog(*command);
        assert_eq!(exit(&output), 2, "{command:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{command:?}");
        assert!(!stderr(&output).is_empty(), "{command:?}");
    }
}

/// The commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = stdout(&twinlog(["--help"]));
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = list.take_while(|line| !line.trim().is_empty());
    let names = list.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

/// The long flags that a text names.
fn flags(text: &str) -> BTreeSet<String> {
    let is_flag = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let pieces = text
        .split("--")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| is_flag(*c)).collect::<String>());
    pieces.filter(|flag| flag.starts_with(|c: char| c.is_ascii_lowercase())).collect()
}

/// The flags of a command, without those of other tools in its examples.
fn flags_of(command: &str) -> BTreeSet<String> {
    let help = stdout(&twinlog([command, "--help"]));
    flags(help.split("Examples:").next().unwrap_or_default())
}

#[test]
fn the_help_of_each_command_has_examples() {
    let commands = commands();
    assert!(commands.len() >= 8, "{commands:?}");
    for command in commands {
        let output = twinlog([&command, "--help"]);
        assert_eq!(exit(&output), 0);
        let help = stdout(&output);
        assert!(help.contains("Examples:"), "{help}");
        assert!(help.contains(&format!("twinlog {command}")), "{help}");
    }
    let version = twinlog(["--version"]);
    assert_eq!(stdout(&version), format!("twinlog {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_command_has_a_manual_page_with_the_flags_of_its_help() {
    let files = Files::new();
    let folder = files.0.path().join("man1");
    let written = twinlog([OsStr::new("man"), OsStr::new("--dir"), folder.as_os_str()]);
    assert_eq!(exit(&written), 0, "{}", stderr(&written));
    let root = stdout(&twinlog(["man"]));
    for command in commands() {
        let page = twinlog(["man", &command]);
        assert_eq!(exit(&page), 0, "{}", stderr(&page));
        let page = stdout(&page);
        let file = fs::read_to_string(folder.join(format!("twinlog-{command}.1")));
        assert_eq!(file.expect("a page in the folder"), page);
        assert!(root.contains(&format!("twinlog\\-{command}")), "{command} in {root}");
        let page = page.replace('\\', "");
        let options = page.split(".SH OPTIONS").nth(1).expect("options");
        let missing: Vec<String> = flags_of(&command)
            .into_iter()
            .filter(|flag| !options.contains(&format!("--{flag}")))
            .collect();
        assert!(missing.is_empty(), "twinlog {command}: {missing:?} in {page}");
    }
    assert!(root.starts_with(".ie"), "a manual page: {root}");
}

#[test]
fn what_the_documents_say_of_commands_and_flags_is_so() {
    let commands = commands();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents = vec![root.join("README.md")];
    let docs = fs::read_dir(root.join("docs")).expect("docs");
    documents.extend(docs.map(|entry| entry.expect("an entry").path()));
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut named = BTreeSet::new();
    for path in documents {
        let text = fs::read_to_string(&path).expect("readable");
        for said in text.split("twinlog ").skip(1) {
            let command = said.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
            if !commands.iter().any(|known| known == command) {
                continue;
            }
            named.insert(command.to_owned());
            // A command ends with its line or its quotation, and where another program begins.
            let line = said.split(['\n', '`', '|', '>']).next().unwrap_or_default();
            let known = flags_of(command);
            for flag in flags(line) {
                let path = path.display();
                assert!(known.contains(&flag), "{path}: twinlog {line}: no flag --{flag}");
            }
        }
    }
    for command in ["run", "status", "translate", "explain", "demo", "embedded"] {
        assert!(named.contains(command), "{command} is in no document");
    }
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

    // Everything that is missing is named, and whose help to read.
    let file = bad.display().to_string();
    let missing = twinlog(["translate", &file, "--json", "--topic", "t"]);
    assert_eq!(exit(&missing), 2);
    let error = &self::document(&missing)["error"];
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("--partition") && message.contains("--offset"), "{error}");
    assert!(error["next"].as_str().is_some_and(|next| next.contains("twinlog translate --help")));
    let misspelt = twinlog(["status", &file, "--json", "--grup", "g"]);
    let error = &self::document(&misspelt)["error"];
    assert!(error["next"].as_str().is_some_and(|next| next.contains("--group")), "{error}");
}

#[test]
fn a_negative_number_is_a_bad_number_and_no_flag() {
    let files = Files::new();
    let file = files.file("mm2.properties", GOOD).display().to_string();
    let args = ["translate", &file, "--topic", "t", "--partition", "0", "--offset", "-1"];
    let output = twinlog(args);
    assert_eq!(exit(&output), 2);
    assert!(stderr(&output).contains("'-1' for '--offset"), "{}", stderr(&output));
}

#[test]
fn addresses_and_aliases_that_cannot_work_are_refused() {
    for server in ["127.0.0.1:1:2", "127.0 .0.1:1"] {
        let text = GOOD.replace(
            "hello.bootstrap.servers = 127.0.0.1:1",
            &format!("hello.bootstrap.servers = {server}"),
        );
        assert_refused(&text, &format!("FILE:2: hello.bootstrap.servers: `{server}`"));
    }
    assert_refused(&GOOD.replace("hello", "he*lo"), "FILE:1: clusters: `he*lo` contains '*'");
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
fn every_cluster_that_never_answers_is_named_with_a_code() {
    let mute: Vec<TcpListener> =
        (0..2).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let address = |at: usize| mute[at].local_addr().expect("an address").to_string();
    let output = twinlog([
        "status",
        "--source",
        &address(0),
        "--target",
        &address(1),
        "--json",
        "--timeout",
        "1s",
    ]);
    assert_eq!(exit(&output), 3, "{}", stderr(&output));
    let flow = &document(&output)["flows"][0];
    assert_eq!((&flow["state"], &flow["code"]), (&"unknown".into(), &"unreachable".into()));
    let missing = flow["missing"].as_array().expect("a list");
    let named: BTreeSet<&str> =
        missing.iter().filter_map(|missing| missing["cluster"].as_str()).collect();
    assert_eq!(named, BTreeSet::from(["source", "target"]), "{flow}");
    assert!(missing.iter().all(|missing| missing["code"] == "unreachable"), "{flow}");

    let explained = twinlog([
        "explain",
        "--group",
        "g",
        "--source",
        &address(0),
        "--target",
        &address(1),
        "--json",
        "--timeout",
        "1s",
    ]);
    assert_eq!(exit(&explained), 3, "{}", stderr(&explained));
    let chain = document(&explained);
    assert_eq!((&chain["link"], &chain["code"]), (&"connectivity".into(), &"unreachable".into()));
    let links = chain["links"].to_string();
    assert!(links.contains("source: ") && links.contains("target: "), "{links}");
    assert_eq!(chain["subject"]["group"], "g");
}

#[test]
fn what_was_not_looked_at_is_not_explained_as_seen() {
    let files = Files::new();
    let file = files.file("mm2.properties", GOOD).display().to_string();
    let asked = ["explain", &file, "--group", "g", "--timeout", "1ms"];
    let people = twinlog(asked);
    assert_eq!(exit(&people), 3, "{}", stderr(&people));
    let text = stdout(&people);
    assert!(!text.contains("not mirrored by anybody"), "{text}");
    let once = ["not everything was answered", "did not answer within"];
    assert!(once.iter().all(|said| text.matches(said).count() <= 1), "{text}");
    let document = document(&twinlog(asked.into_iter().chain(["--json"])));
    assert_eq!(document["mirrored_by"], Value::Null, "{document}");
}

#[test]
fn a_subject_without_a_name_is_refused() {
    let files = Files::new();
    let file = files.file("mm2.properties", GOOD).display().to_string();
    for command in ["explain", "wait", "translate"] {
        let output = twinlog([command, &file, "--group", ""]);
        assert_eq!((exit(&output), stdout(&output)), (2, String::new()), "{command}");
        assert!(stderr(&output).contains("--group"), "{}", stderr(&output));
    }
}

#[test]
fn the_time_that_wait_is_given_is_that_of_the_waiting() {
    let help = stdout(&twinlog(["wait", "--help"]));
    assert!(help.contains("How long to wait for it to hold"), "{help}");
    assert!(!help.contains("How long connecting"), "{help}");
}

#[test]
fn run_names_a_cluster_that_takes_connections_and_says_nothing() {
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = mute.local_addr().expect("an address").to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_twinlog"))
        .args(["run", "--source", &address, "--target", &address])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("twinlog runs");
    let log = BufReader::new(child.stderr.take().expect("a pipe"));
    let words = ["has not answered", "connecting goes on"];
    let lines = log.lines().map_while(Result::ok);
    let said: Vec<String> =
        lines.filter(|line| words.iter().any(|word| line.contains(word))).take(1).collect();
    child.kill().expect("it ends");
    child.wait().expect("it ended");
    // Before the client gives its request up, which would be said as well.
    assert!(said[0].contains(words[0]), "{said:?}");
    assert!(said[0].contains(".bootstrap.servers"), "{said:?}");
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

#[test]
fn a_doctor_that_reaches_nobody_exits_with_3_and_names_the_addresses() {
    let files = Files::new();
    let file = files.file("mm2.properties", &format!("{GOOD}hello->world.gruops = a\n"));
    let path = file.display().to_string();
    let output = twinlog(["doctor", &path, "--json", "--timeout", "2s"]);
    assert_eq!(exit(&output), 3, "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).expect("one document");
    assert_eq!((&document["version"], &document["assumed"]), (&1.into(), &serde_json::json!([])));
    let flow = &document["flows"][0];
    assert_eq!((&flow["flow"], &flow["outcome"]), (&"hello->world".into(), &"unknown".into()));
    let findings = flow["findings"].as_array().expect("findings");
    let first = &findings[0];
    assert_eq!((&first["code"], &first["found_out"]), (&"unreachable".into(), &false.into()));
    assert!(first["summary"].to_string().contains("127.0.0.1:1"), "{first}");
    // What the file alone tells is told all the same.
    let misspelt = findings.iter().find(|one| one["code"] == "unknown-property").expect("told");
    assert_eq!(misspelt["fix"][0]["property"], "hello->world.groups = a");
    assert_eq!(misspelt["more"], "docs/findings.md#unknown-property");

    // Without a file, and with a Connect cluster that is not there.
    let args = [
        "doctor",
        "--source",
        "127.0.0.1:1",
        "--target",
        "127.0.0.1:1",
        "--timeout",
        "2s",
        "--connect-url",
        "http://127.0.0.1:1",
    ];
    let output = twinlog(args);
    assert_eq!(exit(&output), 3, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("source->target") && text.contains("Connect at http://127.0.0.1:1"),
        "{text}"
    );
    let output = twinlog(["doctor", &path, "--connect-url", "https://x"]);
    assert_eq!(exit(&output), 2);
    assert!(stderr(&output).contains("https is not supported"), "{}", stderr(&output));
}
