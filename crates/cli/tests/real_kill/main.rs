//! Kills: real brokers, a real `twinlog run`, and every process shot at the worst moments.
//!
//! Whatever is killed, paused or elected, the same must hold in the end: nothing lost, doubled or out
//! of order, and every consumer group at the exact record. The judge is [`scene`]'s, by contents alone.
//!
//! Waits are for conditions. What sleeps is the fault: a process runs on under load for a random short
//! while before it is shot. Each test prints its seed; `TWINLOG_SEED` sets it.

mod scene;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use scene::{LIMIT, Random, Scene, cluster, jars, mirror};
use twinlog_testkit::ring::{self, TestResult, test};
use twinlog_testkit::{Live, Shell, TopicKind, TopicPlan, Twinlog, Workload, wait_until_some};

/// In the log of a process that has become the owner of the flow.
const OWNS: &str = "copying";
/// In the log of a process that another one has taken the flow from.
const STANDS_BY: &str = "owned-elsewhere";
/// In the log of a process that takes over from a silent owner.
const TAKES_OVER: &str = "taking over";
/// How long an owner may be silent before another one has taken over, on a machine under load.
const TAKE_OVER: Duration = Duration::from_secs(45);

fn main() -> ExitCode {
    ring::main(&[
        test("twenty_kills_of_run_lose_double_and_reorder_nothing", twenty_kills),
        test("killed_brokers_lose_double_and_reorder_nothing", killed_brokers),
        test("of_several_processes_one_copies_and_another_takes_over", several_processes),
        test("leaders_that_move_and_followers_that_sleep_lose_nothing", moving_leaders),
        test("what_an_unclean_election_on_the_target_lost_is_copied_again", unclean_election),
    ])
}

fn twenty_kills() -> TestResult {
    let mut random = Random::new("twenty kills")?;
    let shell = Shell::start(&jars()?)?;
    let workload = Workload::standard(150_000, 1);
    let scene = Scene::start(&shell, &cluster(1), &cluster(1), workload, 1)?;
    let live = scene.live(2_000)?;
    let mut copied = 0;
    for kill in 1..=20 {
        let twinlog = scene.run()?;
        // The first ones die before they can have copied much, the next ones within the catch-up,
        // the last ones while they follow the traffic.
        let moment = match kill {
            1..=3 => random.run_on(150),
            4..=12 => {
                twinlog.wait_for_log(OWNS, LIMIT)?;
                random.run_on(1_500)
            }
            _ => {
                scene.wait_until_copied(copied, LIMIT, &twinlog)?;
                random.run_on(600)
            }
        };
        twinlog.kill()?;
        copied = scene.copied()?;
        scene.say(&format!("kill {kill} after {moment:?}: {copied} records on the target"));
    }
    let twinlog = scene.run()?;
    scene.say(&format!("live: {:?}", live.stop()?.0));
    scene.judge(&twinlog)?;
    let status = twinlog.stop(Duration::from_secs(10))?;
    assert!(status.success(), "SIGTERM ended with {status}");
    Ok(())
}

fn killed_brokers() -> TestResult {
    let mut random = Random::new("killed brokers")?;
    let shell = Shell::start(&jars()?)?;
    let workload = Workload::standard(60_000, 0);
    let mut scene = Scene::start(&shell, &cluster(1), &cluster(1), workload, 1)?;
    // Half of it three days old: brokers forget the producers of such records when they restart.
    let late = Workload {
        topics: vec![TopicPlan {
            name: "late".to_owned(),
            kind: TopicKind::Plain,
            partitions: 3,
            records: 150_000,
        }],
        ..scene.workload.clone()
    };
    scene.add_topic("late");
    let twinlog = scene.run()?;
    let live = scene.live(1_000)?;
    let source = scene.source.bootstrap();
    thread::scope(|scope| -> TestResult {
        let loading = scope.spawn(|| late.load(&shell, &source));
        let first = wait_until_some("old records on the target", LIMIT, || {
            let ends = shell.end_offsets(&scene.target.bootstrap(), &mirror("late"));
            match ends.map_err(|error| error.to_string())?.values().sum::<i64>() {
                0 => Err("none".to_owned()),
                some => Ok(some),
            }
        })?;
        let moment = random.run_on(300);
        scene.target.broker(1).kill()?;
        scene.say(&format!("target broker killed {moment:?} after the first {first} old records"));
        scene.target.broker(1).restart()?;
        loading.join().map_err(|_| "the load panicked")??;
        Ok(())
    })?;
    wait_for_traffic(&live, 500)?;
    let moment = random.run_on(500);
    scene.source.broker(1).kill()?;
    scene.say(&format!("source broker killed after {moment:?}"));
    scene.source.broker(1).restart()?;
    wait_for_traffic(&live, 500)?;
    scene.say(&format!("live: {:?}", live.stop()?.0));
    scene.judge(&twinlog)
}

/// Waits until `more` live records are acknowledged.
fn wait_for_traffic(live: &Live<'_>, more: u64) -> TestResult {
    let before = live.totals()?.acknowledged;
    Ok(wait_until_some("traffic on the source", LIMIT, || match live.totals() {
        Ok(totals) if totals.acknowledged >= before + more => Ok(()),
        other => Err(format!("{other:?}")),
    })?)
}

fn several_processes() -> TestResult {
    let mut random = Random::new("several processes")?;
    let shell = Shell::start(&jars()?)?;
    let workload = Workload::standard(100_000, 0);
    let scene = Scene::start(&shell, &cluster(1), &cluster(1), workload, 1)?;
    let live = scene.live(2_000)?;
    let (a, b) = (scene.run()?, scene.run()?);
    let a_wins = wait_until_some("one of two to stand by", LIMIT, || {
        match (occurrences(&a, STANDS_BY) > 0, occurrences(&b, STANDS_BY) > 0) {
            (a, b) if a != b => Ok(b),
            both => Err(format!("{both:?}")),
        }
    })?;
    let (winner, other) = if a_wins { (&a, &b) } else { (&b, &a) };
    scene.wait_until_copied(scene.loaded.records as i64 / 2, LIMIT, winner)?;
    random.run_on(1_000);
    assert_eq!(occurrences(winner, STANDS_BY), 0, "the winner lost the flow as well");
    winner.kill()?;
    let (killed, at_kill) = (Instant::now(), scene.copied()?);
    other.wait_for_log(TAKES_OVER, TAKE_OVER)?;
    scene.wait_until_copied(at_kill, TAKE_OVER, other)?;
    scene.say(&format!("the other one copied {} ms after the kill", killed.elapsed().as_millis()));

    // A third one comes, and owns the flow from then on.
    let third = scene.run()?;
    third.wait_for_log(OWNS, LIMIT)?;
    wait_for(other, STANDS_BY, 2, LIMIT)?;
    random.run_on(500);
    third.pause()?;
    let (paused, at_pause) = (Instant::now(), scene.copied()?);
    wait_for(other, TAKES_OVER, 2, TAKE_OVER)?;
    scene.wait_until_copied(at_pause, TAKE_OVER, other)?;
    scene.say(&format!("the other one copied {} ms after the pause", paused.elapsed().as_millis()));
    random.run_on(500);
    third.resume()?;
    third.wait_for_log(STANDS_BY, LIMIT)?;
    random.run_on(1_000);
    scene.say(&format!("live: {:?}", live.stop()?.0));
    scene.judge(other)?;
    assert_eq!(occurrences(other, STANDS_BY), 2, "the thawed process took the flow back");
    Ok(())
}

fn occurrences(twinlog: &Twinlog, text: &str) -> usize {
    twinlog.process().log().matches(text).count()
}

/// Waits until `text` has been logged `times` times.
fn wait_for(twinlog: &Twinlog, text: &str, times: usize, limit: Duration) -> TestResult {
    let what = format!("\"{text}\" for the {times}. time");
    Ok(wait_until_some(&what, limit, || {
        let log = twinlog.process().log_tail(5);
        if occurrences(twinlog, text) >= times { Ok(()) } else { Err(log) }
    })?)
}

fn moving_leaders() -> TestResult {
    let mut random = Random::new("moving leaders")?;
    let shell = Shell::start(&jars()?)?;
    let workload = Workload { replication: 3, ..Workload::standard(60_000, 0) };
    let mut scene = Scene::start(&shell, &cluster(3), &cluster(3), workload, 3)?;
    let live = scene.live(1_500)?;
    let mut twinlog = scene.run()?;
    twinlog.wait_for_log(OWNS, LIMIT)?;
    for node in 1..=3 {
        let moment = random.run_on(500);
        scene.target.broker(node).stop()?;
        scene.target.broker(node).restart()?;
        scene.say(&format!("target broker {node} restarted, {moment:?} after the one before"));
    }
    // A sleeping broker holds back the high watermarks of what it follows, until it is taken off the
    // in-sync replicas: a process that starts meanwhile finds more in the log than it can read.
    let before = scene.copied()?;
    scene.wait_until_copied(before, LIMIT, &twinlog)?;
    scene.target.broker(1).pause()?;
    let moment = random.run_on(1_000);
    twinlog.kill()?;
    twinlog = scene.run()?;
    scene.say(&format!("target broker 1 sleeps; twinlog killed {moment:?} later"));
    twinlog.wait_for_log(OWNS, LIMIT)?;
    let moment = random.run_on(2_000);
    scene.target.broker(1).resume()?;
    scene.say(&format!("thawed {moment:?} after a new process owns the flow"));
    wait_for_traffic(&live, 1_000)?;
    scene.say(&format!("live: {:?}", live.stop()?.0));
    scene.judge(&twinlog)
}

fn unclean_election() -> TestResult {
    const FIRST: usize = 2;
    const SECOND: usize = 3;
    let shell = Shell::start(&jars()?)?;
    // Topics of two replicas on three brokers; the rest, with three replicas, survives the deaths of two.
    let target = cluster(3)
        .property("min.insync.replicas", "1")
        .property("unclean.leader.election.enable", "true");
    let workload = Workload::standard(60_000, 0);
    let mut scene = Scene::start(&shell, &cluster(1), &target, workload, 2)?;
    let twinlog = scene.run()?;
    scene.wait_until_equal(&twinlog)?;
    let live = scene.live(1_500)?;
    wait_for_traffic(&live, 1_000)?;
    scene.target.broker(SECOND).kill()?;
    wait_for_traffic(&live, 5_000)?;
    live.stop()?;
    scene.wait_until_equal(&twinlog)?;

    // All of that is acknowledged, and where these two are the replicas, one alone has it.
    twinlog.pause()?;
    let before = scene.ends()?;
    scene.target.broker(FIRST).kill()?;
    scene.target.broker(SECOND).restart()?;
    let after = wait_until_some("leaders of all partitions", LIMIT, || {
        scene.ends().map_err(|error| error.to_string())
    })?;
    let lost: Vec<_> = before.iter().filter(|&(at, end)| after[at] < *end).collect();
    assert!(!lost.is_empty(), "no partition has lost anything: {before:?}, {after:?}");
    let live = scene.live(1_500)?;
    twinlog.resume()?;
    for (at, to) in lost {
        let (topic, partition) = at;
        let from = after[at];
        scene.say(&format!("{topic}-{partition} has lost {from} to {to}"));
        let noticed = [
            "target-truncated".to_owned(),
            format!("partition={}-{partition} ", mirror(topic)),
            format!("from={from} to={to}"),
        ];
        wait_until_some(&format!("{noticed:?} in the log"), LIMIT, || {
            let log = twinlog.process().log();
            let found = log.lines().any(|line| noticed.iter().all(|text| line.contains(text)));
            let seen = log.lines().filter(|line| line.contains("target-truncated"));
            if found { Ok(()) } else { Err(seen.collect::<Vec<_>>().join("\n")) }
        })?;
    }
    scene.target.broker(FIRST).restart()?;
    wait_for_traffic(&live, 1_000)?;
    scene.say(&format!("live: {:?}", live.stop()?.0));
    scene.judge(&twinlog)
}
