//! `pause`, `resume` and `sync` as processes, with and without somebody who runs the flow.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use twinlog_testkit::{Embedded, Twinlog};

const LIMIT: Duration = Duration::from_mins(1);

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_twinlog"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn decisions_are_said_recorded_and_carried_out() {
    let start = |args: &[&str]| Embedded::start(binary(), args).expect("an embedded cluster");
    let (hello, world) = (start(&["--topics", "orders:2,payments"]), start(&[]));
    let clusters = ["--source", hello.bootstrap(), "--target", world.bootstrap()];
    let ask = |args: &[&str]| -> (Option<i32>, String, String) {
        let args = args.iter().chain(&clusters);
        let output: Output =
            Command::new(binary()).args(args).stdin(Stdio::null()).output().expect("twinlog runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let run = || Twinlog::start(binary(), ["run"].iter().chain(&clusters)).expect("twinlog runs");
    let running = run();
    let (exit, out, err) = ask(&["wait", "--timeout", "1m", "--topic", "orders"]);
    assert_eq!(exit, Some(0), "{out}{err}{}", running.process().log_tail(20));

    let (exit, out, _) = ask(&["pause", "--topic", "orders", "--plan"]);
    assert_eq!(exit, Some(0));
    assert!(out.contains("orders-1: copying stops at offset 0"), "{out}");
    assert!(out.ends_with("nothing was changed (--plan)\n"), "{out}");
    let (exit, out, _) = ask(&["status", "--topic", "orders"]);
    assert!(exit == Some(0) && !out.contains("paused"), "{out}");

    let (exit, out, err) = ask(&["pause", "--topic", "orders", "--json"]);
    assert_eq!(exit, Some(0), "{out}{err}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(document["command"], "pause");
    assert_eq!((&document["recorded"], &document["done"]), (&true.into(), &true.into()), "{out}");
    assert_eq!(document["answer"], "2 partitions paused");
    let (exit, out, _) = ask(&["pause", "--topic", "orders"]);
    assert!(exit == Some(0) && out.ends_with("nothing to do\n"), "{out}");
    let (exit, out, err) = ask(&["wait", "--timeout", "10m", "--topic", "orders"]);
    assert_eq!(exit, Some(1), "waiting does not end a pause: {out}{err}");
    let flags = clusters.join(" ");
    let next = format!("to go on: `twinlog resume {flags} --topic orders`");
    assert!(err.contains("orders is paused, and waiting does not end a pause"), "{err}");
    assert!(err.contains(&next) && !err.contains("configuration"), "{err}");
    let (exit, out, _) = ask(&["status", "--topic", "orders"]);
    assert_eq!(exit, Some(0), "{out}");
    assert!(out.contains(&format!("twinlog resume {flags} --topic 'orders'")), "{out}");
    // No command has to be filled in before it can be pasted.
    for args in [&["status", "--topic", "orders"][..], &["explain", "--topic", "orders"][..]] {
        let (_, out, err) = ask(args);
        assert!(out.contains("paused") && !(out + &err).contains("FILE"), "{args:?}");
    }

    // Over the end of the process, and decided while nobody runs it.
    assert!(running.stop(LIMIT).expect("it ends").success());
    let (exit, out, _) = ask(&["resume", "--topic", "orders"]);
    assert_eq!(exit, Some(0), "{out}");
    let run_it = format!("it is carried out when `twinlog run {flags}` starts");
    assert!(out.contains(&run_it), "{out}");
    let running = run();
    let (exit, out, err) = ask(&["wait", "--timeout", "1m", "--topic", "orders"]);
    assert_eq!(exit, Some(0), "{out}{err}{}", running.process().log_tail(20));

    for (args, exit, said) in [
        (&["pause", "--topic", "order"][..], 1, "did you mean orders?"),
        (&["pause", "--topic", "orders", "--partition", "7"][..], 1, "no partition 7"),
        (&["resume", "--topic", "nothing"][..], 1, "no topic nothing is mirrored"),
        (&["sync", "--group", "nobody"][..], 1, "no group nobody"),
        (&["sync"][..], 2, "--group"),
    ] {
        let (got, out, err) = ask(args);
        assert_eq!(got, Some(exit), "{args:?}: {out}{err}");
        assert!(err.contains(said), "{args:?}: {err}");
    }
    assert!(running.stop(LIMIT).expect("it ends").success());
}

#[test]
fn a_pause_that_the_owners_file_leaves_out_is_not_done() {
    let start = |args: &[&str]| Embedded::start(binary(), args).expect("an embedded cluster");
    let (hello, world) = (start(&["--topics", "orders:2,payments"]), start(&[]));
    let clusters = ["--source", hello.bootstrap(), "--target", world.bootstrap()];
    let owner = ["run", "-X", "topics=payments"];
    let owner = Twinlog::start(binary(), owner.iter().chain(&clusters)).expect("twinlog runs");
    let ask = |args: &[&str]| -> (Option<i32>, String, String) {
        let output: Output =
            Command::new(binary()).args(args.iter().chain(&clusters)).output().expect("it runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (exit, out, err) = ask(&["wait", "--timeout", "1m", "-X", "topics=payments"]);
    assert_eq!(exit, Some(0), "{out}{err}{}", owner.process().log_tail(20));
    let (exit, out, err) = ask(&["pause", "--topic", "orders"]);
    assert_eq!(exit, Some(1), "{out}{err}");
    assert!(out.contains("not done: nothing matched: "), "{out}");
    assert!(out.contains("leaves orders out (topics = payments; it mirrors "), "{out}");
    assert!(owner.stop(LIMIT).expect("it ends").success());
}
