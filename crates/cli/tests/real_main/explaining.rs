//! What `twinlog explain` says of mirrors that twinlog and MirrorMaker 2 make between real brokers.

use serde_json::Value;
use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{
    CommitAs, Mm2, Offsets, Scratch, Shell, Twinlog, wait_until, wait_until_some,
};

use crate::following::{console_consumer, wait_for_state};
use crate::setup::{self, Answer, LIMIT, Mirror, Pair, Result, flows_file, prefixed, until_equal};

/// What is broken first, and the exit code that goes with it.
pub(crate) type Verdict<'a> = (&'a str, &'a str, i32);

pub(crate) fn records(shell: &Shell, bootstrap: &str, topic: &str, count: usize) -> Result {
    let records: Vec<_> = (0..count).map(|_| (0, Some("key"), Some("value"))).collect();
    shell.produce(bootstrap, topic, &records, &[])?;
    Ok(())
}

pub(crate) fn commit(
    shell: &Shell,
    bootstrap: &str,
    group: &str,
    topic: &str,
    offset: i64,
) -> Result {
    let offsets: Offsets = [(topic.to_owned(), [(0, offset)].into())].into();
    shell.commit(bootstrap, group, &offsets, CommitAs::Admin)?;
    Ok(())
}

/// Asks until the verdict is this one, as a document and as text; answers the document.
pub(crate) fn until_verdict(mirror: &Mirror, args: &[&str], wanted: Verdict<'_>) -> Result<Value> {
    let (link, code, exit) = wanted;
    let what = format!("explain {args:?} says {code} at {link}");
    Ok(wait_until_some(&what, LIMIT, || {
        let Answer { exit: ended, document } =
            mirror.ask("explain", args).map_err(|error| error.to_string())?;
        let found = (&document["link"], &document["code"], ended);
        if found != (&link.into(), &code.into(), Some(exit)) {
            return Err(document.to_string());
        }
        let output = mirror.output("explain", args).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let told = told_as_text(&document, wanted).into_iter().find(|part| !text.contains(part));
        match told {
            None if output.status.code() == Some(exit) => Ok(document),
            missing => Err(format!("{missing:?} is not in the text, {}: {text}", output.status)),
        }
    })?)
}

/// What the text must say of a document: the verdict first, and each next step on a line of its own.
fn told_as_text(document: &Value, (link, code, exit): Verdict<'_>) -> Vec<String> {
    let severity = document["severity"].as_str().unwrap_or_default();
    let verdict = match exit {
        3 => format!(": could not be found out, {link} ({code})\n"),
        _ => format!(": {severity} at {link} ({code})\n"),
    };
    let fixes = document["fix"].as_array().into_iter().flatten();
    let steps = fixes.filter_map(|fix| {
        let command = fix["command"].as_str().map(|line| format!("\n  run    {line}\n"));
        command.or_else(|| fix["property"].as_str().map(|line| format!("\n  say    {line}\n")))
    });
    let more = format!("\n  more   docs/findings.md#{code}\n");
    [verdict, more].into_iter().chain(steps).collect()
}

/// Asks until every link is well.
pub(crate) fn until_well(mirror: &Mirror, args: &[&str]) -> Result {
    Ok(wait_until_some(&format!("explain {args:?} finds all well"), LIMIT, || {
        let answer = mirror.ask("explain", args).map_err(|error| error.to_string())?;
        let links = answer.document["links"].as_array().map_or(&[][..], Vec::as_slice);
        let well = !links.is_empty() && links.iter().all(|link| link["state"] == "ok");
        if well && answer.exit == Some(0) { Ok(()) } else { Err(answer.document.to_string()) }
    })?)
}

pub(crate) fn says(document: &Value, field: &str, part: &str) -> Result {
    let text = document[field].to_string();
    if text.contains(part) {
        return Ok(());
    }
    Err(format!("{part:?} is not in {field}: {text}").into())
}

/// The link `name` of an answer.
pub(crate) fn link<'a>(document: &'a Value, name: &str) -> Result<&'a Value> {
    let found = setup::entry(&document["links"], "link", name);
    Ok(found.ok_or_else(|| format!("no link {name} in {document}"))?)
}

pub(crate) fn by_twinlog() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    for topic in ["why-a", "why-again", "why-busy", "else-topic"] {
        shell.create_topic(&hello, topic, 1, 1, &[])?;
        records(shell, &hello, topic, 100)?;
    }
    shell.create_topic(&world, "hello.why-busy", 1, 1, &[])?;
    records(shell, &world, "hello.why-busy", 3)?;
    for group in ["why-fine", "why-live", "why-ahead", "why-back", "why-beyond", "why-out-1"] {
        commit(shell, &hello, group, "why-a", 60)?;
    }
    commit(shell, &hello, "why-else", "else-topic", 60)?;
    commit(shell, &hello, "other-1", "why-a", 60)?;
    let mirror = Mirror::of_prefix(pair, "why-")?;
    let group = |group| ["--group", group];
    until_verdict(&mirror, &group("why-fine"), ("flow", "mirror-not-running", 1))?;

    let settings = [
        "-X",
        "hello->world.groups.exclude=why-out-.*",
        "-X",
        "emit.checkpoints.interval.seconds=1",
    ];
    let run = mirror.run_with(&settings)?;
    setup::or_log(&run, judged_while_it_runs(pair, &mirror, &run))?;

    // The first thing that was lost while it did not run.
    setup::stop(&run)?;
    records(shell, &hello, "why-a", 50)?;
    shell.delete_records(&hello, "why-a", 0, 120)?;
    let found = until_verdict(&mirror, &["--topic", "why-a"], ("flow", "mirror-not-running", 1))?;
    let copy = link(&found, "copy")?;
    assert_eq!(copy["code"], "source-gap", "{copy}");
    assert!(copy["summary"].to_string().contains("100 to 119"), "{copy}");
    // A group that has no position yet, and a flow that would not give it one.
    commit(shell, &hello, "why-new", "why-a", 60)?;
    let off = ["--group", "why-new", "-X", "hello->world.sync.group.offsets.enabled=false"];
    let found = until_verdict(&mirror, &off, ("flow", "mirror-not-running", 1))?;
    let end = link(&found, "consumer-offsets")?;
    assert_eq!((&end["state"], &end["code"]), (&"broken".into(), &"sync-disabled".into()));

    // Nobody is there to be asked.
    let gone = Mirror::new(&flows_file(
        &[("hello", "127.0.0.1:1"), ("world", &world)],
        &[("hello", "world")],
        "why-.*",
        "why-",
    ))?;
    let args = ["--group", "why-fine", "--timeout", "5s"];
    let found = until_verdict(&gone, &args, ("connectivity", "unreachable", 3))?;
    says(&found, "links", "127.0.0.1:1")?;
    Ok(())
}

fn judged_while_it_runs(pair: &Pair, mirror: &Mirror, run: &Twinlog) -> Result {
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    until_equal(shell, (&hello, &world), &["why-a", "why-again"], prefixed("hello"))?;
    let group = |group| ["--group", group];
    until_well(mirror, &group("why-fine"))?;
    until_well(mirror, &["--topic", "why-a"])?;
    // Also by the name of the mirror.
    until_well(mirror, &["--topic", "hello.why-a"])?;

    let exclude = ["--group", "why-out-1", "-X", "hello->world.groups.exclude=a,why-out-.*"];
    let found = until_verdict(mirror, &exclude, ("configuration", "group-excluded", 1))?;
    says(&found, "links", "why-out-.*")?;
    says(&found, "fix", "hello->world.groups.exclude = a")?;
    let found =
        until_verdict(mirror, &group("other-1"), ("configuration", "group-not-included", 1))?;
    says(&found, "links", "hello->world.groups")?;
    let found =
        until_verdict(mirror, &group("why-fin"), ("source-group", "group-without-commits", 1))?;
    says(&found, "links", "did you mean why-fine?")?;
    let found = until_verdict(mirror, &group("why-else"), ("topic", "topic-not-mirrored", 1))?;
    says(&found, "links", "hello->world.topics")?;
    let found =
        until_verdict(mirror, &["--topic", "why-b"], ("source-topic", "topic-not-mirrored", 1))?;
    says(&found, "links", "did you mean why-a")?;
    until_verdict(mirror, &["--topic", "why-busy"], ("topic", "target-not-empty", 1))?;

    // A member on the target, and where it is.
    let scratch = Scratch::new("why-consumer")?;
    let consumer = console_consumer(
        pair,
        &scratch,
        &[
            "--bootstrap-server",
            &world,
            "--topic",
            "hello.why-a",
            "--group",
            "why-live",
            "--command-property",
            "client.id=why-client",
        ],
    )?;
    wait_for_state(shell, &world, "why-live", "Stable")?;
    wait_until_some("the member in explain", LIMIT, || {
        let answer = mirror.ask("explain", &group("why-live")).map_err(|e| e.to_string())?;
        let text = answer.document.to_string();
        let named = text.contains("client why-client at 127.0.0.1");
        let code = answer.document["code"] == "group-live-on-target";
        if named && code { Ok(()) } else { Err(text) }
    })?;
    consumer.stop(LIMIT)?;

    // What was put on the target, and by whom.
    for (name, offset) in [("why-ahead", 90), ("why-beyond", 900)] {
        until_well(mirror, &group(name))?;
        commit(shell, &world, name, "hello.why-a", offset)?;
    }
    let found =
        until_verdict(mirror, &group("why-ahead"), ("consumer-offsets", "target-ahead", 0))?;
    assert_eq!(found["severity"], "warning", "{found}");
    says(&found, "consequence", "skips 30 records")?;
    until_verdict(mirror, &group("why-beyond"), ("consumer-offsets", "negative-lag", 1))?;

    // A checkpoint remembers where the source stood.
    until_well(mirror, &group("why-back"))?;
    wait_until("the checkpoint of why-back", LIMIT, || {
        let answer = mirror.ask("explain", &group("why-back"));
        answer.is_ok_and(|answer| answer.document.to_string().contains("60->60"))
    })?;
    // Nobody but twinlog ever moved it there: it is followed. Somebody who moves it then is not undone.
    commit(shell, &hello, "why-back", "why-a", 10)?;
    wait_until("why-back is followed", LIMIT, || {
        let answer = mirror.ask("status", &["--group", "why-back"]);
        answer.is_ok_and(|answer| answer.document.to_string().contains("\"committed_target\":10"))
    })?;
    commit(shell, &world, "why-back", "hello.why-a", 60)?;
    let found =
        until_verdict(mirror, &group("why-back"), ("consumer-offsets", "source-rewound", 1))?;
    says(&found, "consequence", "skips 50 records")?;
    says(&found, "fix", "--group why-back --overwrite")?;

    shell.delete_topic(&hello, "why-again")?;
    shell.create_topic(&hello, "why-again", 1, 1, &[])?;
    until_verdict(mirror, &["--topic", "why-again"], ("topic", "topic-recreated", 1))?;
    assert!(run.process().is_running());
    Ok(())
}

pub(crate) fn by_mm2() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    for topic in ["mwhy-a", "mwhy-empty", "mwhy-left"] {
        shell.create_topic(&hello, topic, 1, 1, &[])?;
        records(shell, &hello, topic, 100)?;
    }
    shell.delete_records(&hello, "mwhy-empty", 0, 100)?;
    for (group, topic) in [
        ("mwhy-1", "mwhy-a"),
        ("mwhy-live", "mwhy-a"),
        ("mwhy-out-1", "mwhy-a"),
        ("mwhy-emptied", "mwhy-empty"),
        ("mwhy-lost", "mwhy-left"),
    ] {
        commit(shell, &hello, group, topic, 100)?;
    }
    // A group that is translated nowhere never comes into a task.
    commit(shell, &hello, "mwhy-lost", "mwhy-a", 100)?;

    let clusters = [("whyhello", hello.as_str()), ("whyworld", world.as_str())];
    let flows = flows_file(&clusters, &[("whyhello", "whyworld")], "mwhy-a,mwhy-empty", "mwhy-");
    let quick = "dedicated.mode.enable.internal.rest = false\n\
                 emit.checkpoints.interval.seconds = 1\nsync.group.offsets.interval.seconds = 1\n\
                 refresh.topics.interval.seconds = 1\nrefresh.groups.interval.seconds = 1\n\
                 whyhello->whyworld.offset.flush.interval.ms = 1000\n\
                 whyworld.offset.flush.interval.ms = 1000\n\
                 whyhello->whyworld.groups.exclude = mwhy-out-.*\n";
    let on = "whyhello->whyworld.sync.group.offsets.enabled = true";
    let off = "whyhello->whyworld.sync.group.offsets.enabled = false";
    let text = (flows + quick).replace(on, off);
    let mirror = Mirror::new(&text)?;
    let mm2 = Mm2::start(&pair.jars, &text)?;
    until_equal(shell, (&hello, &world), &["mwhy-a"], prefixed("whyhello"))?;

    let group = |group| ["--group", group];
    let found = until_verdict(&mirror, &group("mwhy-1"), ("consumer-offsets", "sync-disabled", 1))?;
    assert_eq!(found["mirrored_by"], "mirror-maker-2", "{found}");
    says(&found, "fix", on)?;
    // Exact once the last pair of offsets is written, which may take a minute.
    wait_until_some("the exact checkpoint of mwhy-1", LIMIT, || {
        let answer = mirror.ask("explain", &group("mwhy-1")).map_err(|e| e.to_string())?;
        let consequence = answer.document["consequence"].to_string();
        let exact = "earliest reads 100 records again, latest skips 0 records";
        if consequence.contains(exact) { Ok(()) } else { Err(answer.document.to_string()) }
    })?;
    says(&found, "links", "connector MirrorCheckpointConnector")?;
    let found =
        until_verdict(&mirror, &group("mwhy-out-1"), ("configuration", "group-excluded", 1))?;
    says(&found, "links", "mwhy-out-.*")?;
    let found = until_verdict(&mirror, &group("mwhy-lost"), ("topic", "topic-not-mirrored", 1))?;
    let partitions = &link(&found, "topic")?["partitions"];
    assert_eq!(partitions[0]["topic"], "mwhy-left", "{found}");
    let found =
        until_verdict(&mirror, &group("mwhy-emptied"), ("offset-syncs", "nothing-copied", 1))?;
    says(&found, "links", "belongs on 0")?;

    // A member on the target.
    let scratch = Scratch::new("mwhy-consumer")?;
    let args = ["--bootstrap-server", &world, "--topic", "whyhello.mwhy-a", "--group", "mwhy-live"];
    let consumer = console_consumer(pair, &scratch, &args)?;
    wait_for_state(shell, &world, "mwhy-live", "Stable")?;
    let answer = wait_until_some("the member in explain", LIMIT, || {
        let answer = mirror.ask("explain", &group("mwhy-live")).map_err(|e| e.to_string())?;
        let stands = answer.document["code"] == "group-live-on-target";
        if stands { Ok(answer) } else { Err(answer.document.to_string()) }
    })?;
    says(&answer.document, "links", "lives on the target")?;
    consumer.stop(LIMIT)?;

    // The file was changed, and MirrorMaker 2 not started again.
    let changed = Mirror::new(&text.replace(off, on))?;
    let found = until_verdict(&changed, &group("mwhy-1"), ("configuration", "config-drift", 1))?;
    assert_eq!(link(&found, "consumer-offsets")?["code"], "sync-disabled", "{found}");
    mm2.kill()?;
    until_verdict(&mirror, &group("mwhy-1"), ("flow", "mirror-not-running", 1))?;
    Ok(())
}
