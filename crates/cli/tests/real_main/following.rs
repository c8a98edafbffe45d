//! What appears while `twinlog run` runs, and groups that are special.

use std::time::Instant;

use twinlog_testkit::ring::TestResult;
use twinlog_testkit::{
    CommitAs, JavaTool, Process, Scratch, Shell, Twinlog, wait_until, wait_until_some,
};

use crate::setup::{
    self, LIMIT, Mirror, Pair, Result, SOON, entry, hello_world, places, prefixed, read_on,
    until_equal, until_placed,
};

/// A topic of the source with some records, a mirror of all topics and groups of its prefix, and
/// that mirror running and in sync.
pub(crate) fn mirrored(pair: &Pair, prefix: &str, topic: &str) -> Result<(Mirror, Twinlog)> {
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    shell.create_topic(&hello, topic, 2, 1, &[])?;
    // In a transaction, so that offsets differ: five markers stand in between.
    for _ in 0..5 {
        let records: Vec<_> = (0..20).map(|i| (i % 2, Some("key"), Some("value"))).collect();
        shell.produce(&hello, topic, &records, &[("transactional.id", prefix)])?;
    }
    let mirror = Mirror::of_prefix(pair, prefix)?;
    let run = mirror.run()?;
    let equal = until_equal(shell, (&hello, &world), &[topic], prefixed("hello"));
    setup::or_log(&run, equal)?;
    Ok((mirror, run))
}

fn first_record(shell: &Shell, world: &str, topic: &str, partition: i32, what: &str) -> Result {
    Ok(wait_until_some(what, SOON, || match shell.end_offsets(world, topic) {
        Ok(ends) if ends.get(&partition).is_some_and(|end| *end > 0) => Ok(()),
        Ok(ends) => Err(format!("{ends:?}")),
        Err(error) => Err(error.to_string()),
    })?)
}

pub(crate) fn new_things() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let (_mirror, run) = mirrored(pair, "new-", "new-first")?;
    let record = |partition| [(partition, Some("key"), Some("value"))];

    let start = Instant::now();
    shell.create_topic(&hello, "new-topic", 2, 1, &[])?;
    shell.produce(&hello, "new-topic", &record(1), &[])?;
    let seen = first_record(shell, &world, "hello.new-topic", 1, "the first record of a new topic");
    setup::or_log(&run, seen)?;
    println!("new topic: its first record after {:.1?}", start.elapsed());

    let start = Instant::now();
    shell.add_partitions(&hello, "new-topic", 3)?;
    shell.produce(&hello, "new-topic", &record(2), &[])?;
    let seen =
        first_record(shell, &world, "hello.new-topic", 2, "the first record of a new partition");
    setup::or_log(&run, seen)?;
    println!("new partition: its first record after {:.1?}", start.elapsed());

    let (original, copy) = until_equal(shell, (&hello, &world), &["new-first"], prefixed("hello"))?;
    let offsets = shell.commit_at_lag(&hello, "new-group", &["new-first"], 7, CommitAs::Member)?;
    let commits = [("new-group".to_owned(), offsets)];
    let commits = commits.iter().map(|(group, offsets)| (group, offsets));
    let places = places(commits, (&original, &copy), prefixed("hello"))?;
    let took = setup::or_log(&run, until_placed(shell, &world, &places, SOON))?;
    println!("new group: at its place after {took:.1?}");
    setup::stop(&run)?;
    Ok(())
}

/// A Java console consumer that stays.
pub(crate) fn console_consumer(pair: &Pair, scratch: &Scratch, args: &[&str]) -> Result<Process> {
    let mut java = pair.jars.java(256, "WARN");
    java.arg(JavaTool::CONSOLE_CONSUMER).args(args);
    Ok(Process::start("console consumer", java, &scratch.path().join("consumer.log"))?)
}

pub(crate) fn wait_for_state(shell: &Shell, bootstrap: &str, group: &str, wanted: &str) -> Result {
    let what = format!("group {group} {wanted}");
    Ok(wait_until_some(&what, LIMIT, || match shell.groups(bootstrap) {
        Ok(groups) if groups.get(group).is_some_and(|state| state == wanted) => Ok(()),
        Ok(groups) => Err(format!("{:?}", groups.get(group))),
        Err(error) => Err(error.to_string()),
    })?)
}

pub(crate) fn consumer_protocol() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let (mirror, run) = mirrored(pair, "kip848-", "kip848-topic")?;
    // A real member under the new protocol: it reads some, commits, and leaves.
    let args = [
        "--bootstrap-server",
        &hello,
        "--topic",
        "kip848-topic",
        "--group",
        "kip848-group",
        "--from-beginning",
        "--max-messages",
        "33",
        "--command-property",
        "group.protocol=consumer",
    ];
    JavaTool::new(&pair.jars, JavaTool::CONSOLE_CONSUMER).args(args).run()?;
    let offsets = setup::offsets(&shell.committed(&hello, "kip848-group")?);
    assert!(!offsets.is_empty());
    let (original, copy) =
        until_equal(shell, (&hello, &world), &["kip848-topic"], prefixed("hello"))?;
    let commits = [("kip848-group".to_owned(), offsets)];
    let commits = commits.iter().map(|(group, offsets)| (group, offsets));
    let places = places(commits, (&original, &copy), prefixed("hello"))?;
    setup::or_log(&run, until_placed(shell, &world, &places, SOON))?;
    read_on(shell, &world, &places)?;
    let answer = mirror.ask("status", &["--group", "kip848-group"])?;
    let groups = &hello_world(&answer.document)?["groups"];
    let group = entry(groups, "group", "kip848-group").ok_or("not in status")?;
    assert_eq!(
        (&group["kind"], &group["state"]),
        (&"consumer".into(), &"in-sync".into()),
        "{group}"
    );

    // And under the new protocol a consumer goes on with it on the target.
    let args = [
        "--bootstrap-server",
        &world,
        "--topic",
        "hello.kip848-topic",
        "--group",
        "kip848-group",
        "--max-messages",
        "67",
        "--timeout-ms",
        "20000",
        "--command-property",
        "group.protocol=consumer",
        "--command-property",
        "auto.offset.reset=none",
    ];
    let output = JavaTool::new(&pair.jars, JavaTool::CONSOLE_CONSUMER).args(args).output()?;
    assert_eq!(output.stdout.lines().count(), 67, "{output:?}");
    setup::stop(&run)?;
    Ok(())
}

pub(crate) fn live_on_target() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let (mirror, run) = mirrored(pair, "alive-", "alive-topic")?;
    let scratch = Scratch::new("consumer")?;
    let args = [
        "--bootstrap-server",
        &world,
        "--topic",
        "hello.alive-topic",
        "--group",
        "alive-group",
        "--from-beginning",
        "--command-property",
        "auto.commit.interval.ms=100",
    ];
    let consumer = console_consumer(pair, &scratch, &args)?;
    wait_for_state(shell, &world, "alive-group", "Stable")?;
    let ends = shell.end_offsets(&world, "hello.alive-topic")?;
    let stands = |wanted: &dyn Fn(i32) -> i64| {
        let committed = shell.committed(&world, "alive-group").unwrap_or_default();
        let topic = committed.get("hello.alive-topic");
        ends.keys().all(|partition| {
            topic.and_then(|all| all.get(partition)).map(|at| at.offset) == Some(wanted(*partition))
        })
    };
    wait_until("the consumer at the end", LIMIT, || stands(&|partition| ends[&partition]))?;

    // The source's group stands elsewhere; the members on the target keep what they have.
    let offsets =
        shell.commit_at_lag(&hello, "alive-group", &["alive-topic"], 30, CommitAs::Admin)?;
    let named = wait_until_some("group-live-on-target in status", LIMIT, || {
        let answer = mirror.ask("status", &[]).map_err(|error| error.to_string())?;
        let flow = hello_world(&answer.document).map_err(|error| error.to_string())?;
        let group = entry(&flow["groups"], "group", "alive-group").ok_or("not there")?;
        if group["code"] == "group-live-on-target" { Ok(()) } else { Err(group.to_string()) }
    });
    setup::or_log(&run, named.map_err(Into::into))?;
    assert!(stands(&|partition| ends[&partition]), "members lost their place");

    // They leave, and their commits are dropped: now the source's commits are carried over.
    consumer.stop(LIMIT)?;
    wait_for_state(shell, &world, "alive-group", "Empty")?;
    shell.delete_group(&world, "alive-group")?;
    let (original, copy) =
        until_equal(shell, (&hello, &world), &["alive-topic"], prefixed("hello"))?;
    let commits = [("alive-group".to_owned(), offsets)];
    let commits = commits.iter().map(|(group, offsets)| (group, offsets));
    let places = places(commits, (&original, &copy), prefixed("hello"))?;
    setup::or_log(&run, until_placed(shell, &world, &places, SOON))?;
    setup::stop(&run)?;
    Ok(())
}

pub(crate) fn excluded() -> TestResult {
    let pair = setup::pair()?;
    let (shell, hello, world) = (&pair.shell, pair.hello.bootstrap(), pair.world.bootstrap());
    let (_, run) = mirrored(pair, "left-", "left-topic")?;
    setup::stop(&run)?;
    let mirror = Mirror::of_prefix(pair, "left-")?;
    let exclude = ["-X", "hello->world.groups.exclude=left-out-.*,__.*"];
    let run = mirror.run_with(&exclude)?;
    for group in ["left-out-1", "left-in"] {
        shell.commit_at_lag(&hello, group, &["left-topic"], 3, CommitAs::Admin)?;
    }
    // Where the one has come, the other had its chance.
    let arrived = wait_until("left-in on the target", SOON, || {
        shell.committed(&world, "left-in").is_ok_and(|topics| !topics.is_empty())
    });
    setup::or_log(&run, arrived.map_err(Into::into))?;
    let answer = mirror.ask("status", &exclude)?;
    let groups = &hello_world(&answer.document)?["groups"];
    let group = entry(groups, "group", "left-out-1").ok_or("not in status")?;
    assert_eq!(group["code"], "group-excluded", "{group}");
    assert_eq!(group["state"], "excluded", "{group}");
    assert!(
        group["reason"].as_str().is_some_and(|reason| reason.contains("left-out-.*")),
        "{group}"
    );
    assert!(shell.committed(&world, "left-out-1")?.is_empty());
    assert_eq!(answer.exit, Some(0), "{}", answer.document);
    setup::stop(&run)?;
    Ok(())
}
