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

#[test]
fn unknown_names_are_said_to_be_unknown_and_mirrors_to_be_mirrors() {
    let start = |args: &[&str]| Embedded::start(binary(), args).expect("an embedded cluster");
    let (hello, world) = (start(&["--topics", "orders,payments"]), start(&[]));
    let clusters = ["--source", hello.bootstrap(), "--target", world.bootstrap()];
    let ask = |args: &[&str]| -> (Option<i32>, String, String) {
        let args = args.iter().chain(&clusters);
        let output: Output =
            Command::new(binary()).args(args).stdin(Stdio::null()).output().expect("twinlog runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
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
