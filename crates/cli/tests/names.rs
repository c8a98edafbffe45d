//! Names that do not exist, or mean something else, between two embedded clusters: what is said of
//! them, and that it is said at once.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use twinlog_testkit::{Embedded, Twinlog};

/// Far more than anything here takes.
const LIMIT: Duration = Duration::from_mins(1);

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_twinlog"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The exit code, and what is said on standard output and error.
fn asked(args: &[&str]) -> (Option<i32>, String, String) {
    let output: Output =
        Command::new(binary()).args(args).stdin(Stdio::null()).output().expect("twinlog runs");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn unknown_names_are_said_to_be_unknown_and_mirrors_to_be_mirrors() {
    let start = |args: &[&str]| Embedded::start(binary(), args).expect("an embedded cluster");
    // That the target has a topic of the same name is no mirror.
    let (hello, world) =
        (start(&["--topics", "orders,payments"]), start(&["--topics", "payments"]));
    let clusters = ["--source", hello.bootstrap(), "--target", world.bootstrap()];
    let ask = |args: &[&str]| asked(&[args, &clusters].concat());
    let run = Twinlog::start(binary(), ["run"].iter().chain(&clusters)).expect("twinlog runs");
    let (exit, out, err) = ask(&["wait", "--timeout", "1m", "--topic", "source.orders"]);
    assert_eq!(exit, Some(0), "{out}{err}{}", run.process().log_tail(20));
    assert!(err.contains("topic source.orders is the mirror of topic orders"), "{err}");

    let began = Instant::now();
    let (exit, out, err) = ask(&["wait", "--timeout", "10m", "--topic", "order"]);
    assert_eq!(exit, Some(1), "{out}{err}");
    assert!(out.contains("no topic order is on source") && out.contains("orders?"), "{out}");
    assert!(!err.contains("give it more"), "{err}");
    assert!(began.elapsed() < Duration::from_mins(5), "it waited");

    let translate = |topic, more: &[&str]| {
        let mut args = vec!["translate", "--partition", "0", "--offset", "0", "--topic", topic];
        args.extend(more);
        ask(&args)
    };
    for (topic, more, exit, said) in [
        ("source.orders", &[][..], 1, "source.orders is the mirror of orders; give --reverse"),
        ("orders", &["--reverse"][..], 1, "orders is mirrored to source.orders; leave out"),
        ("payment", &[][..], 1, "did you mean payments?"),
        ("source.payment", &["--reverse"][..], 1, "did you mean source.payments?"),
        ("orders", &[][..], 0, ""),
    ] {
        let (got, out, err) = translate(topic, more);
        assert_eq!(got, Some(exit), "{topic}: {out}{err}");
        assert!(err.contains(said), "{topic}: {err}");
    }
    assert!(run.stop(LIMIT).expect("it ends").success());
}

/// Who asks without a file does not know what the clusters are called; a mirror that runs tells.
#[test]
fn without_a_file_every_command_goes_by_the_mirror_that_is_there_and_run_begins_no_second_one() {
    let start = |args: &[&str]| Embedded::start(binary(), args).expect("an embedded cluster");
    let (hello, world) = (start(&["--topics", "orders"]), start(&[]));
    let clusters = ["--source", hello.bootstrap(), "--target", world.bootstrap()];
    let ask = |args: &[&str]| asked(&[args, &clusters].concat());
    let policy = "east->target.replication.policy.separator=_";
    let named = ["run", "--source-alias", "east", "-X", policy];
    let run = Twinlog::start(binary(), named.iter().chain(&clusters)).expect("twinlog runs");
    let aliases = ["--source-alias", "east", "-X", policy];
    let (exit, out, err) = ask(&[&["wait", "--timeout", "1m"][..], &aliases].concat());
    assert_eq!(exit, Some(0), "{out}{err}{}", run.process().log_tail(20));

    for command in [
        &["status"][..],
        &["explain", "--topic", "orders"],
        &["doctor"],
        &["verify"],
        &["wait", "--timeout", "10s"],
    ] {
        let (exit, out, err) = ask(command);
        assert_eq!(exit, Some(0), "{command:?}: {out}{err}");
        assert!(command[0] == "wait" || out.contains("east->target"), "{command:?}: {out}");
        let said = "the source is called east";
        assert!(err.contains(said) || out.contains(said), "{command:?}: {out}{err}");
    }
    let (exit, _, err) = ask(&["run"]);
    assert_eq!(exit, Some(2), "{err}");
    let again = format!("twinlog run {} --source-alias east", clusters.join(" "));
    assert!(err.contains("would begin a second one beside it"), "{err}");
    assert!(err.contains(&again), "{err}");
    assert!(run.stop(LIMIT).expect("it ends").success());
}
