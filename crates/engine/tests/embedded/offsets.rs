//! What users of mirrors suffer with offsets, replayed: each test is one scenario of group offsets.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_embedded::{EmbeddedCluster, Isolation, NewRecord};
use twinlog_engine::observe::GroupPosition;
use twinlog_mirror::FollowCommits;
use twinlog_mirror::formats::Checkpoint;
use twinlog_mirror::formats::group_log::CommitChange;
use twinlog_types::{Code, GroupId, State};

use crate::commits::until_followed;
use crate::losses::{look, partition, position};
use crate::support::{World, numbered, until};

fn one() -> BTreeMap<String, i32> {
    BTreeMap::from([("t".to_owned(), 1)])
}

fn with_records(seed: u64, count: usize) -> World {
    let world = World::new(seed, 1);
    world.source.create_topic("t", 1, &[]).unwrap();
    world.source.append("t", 0, &numbered(0, count)).unwrap();
    world
}

/// Waits until g stands at an offset of the target, and answers how long that took.
async fn time_to(world: &World, offset: i64) -> Duration {
    let began = Instant::now();
    until("g is there", || {
        let stands = world.committed_on_target("g", "t", 0);
        (stands != Some(offset)).then(|| format!("{stands:?} is not {offset}"))
    })
    .await;
    began.elapsed()
}

async fn seen(world: &World, extra: &str) -> GroupPosition {
    position(&look(world, extra).await, "g").clone()
}

/// What coordinators were told to commit for g, in the order in which they were told.
fn committed(cluster: &EmbeddedCluster, topic: &str) -> Vec<i64> {
    let log = "__consumer_offsets";
    let mut offsets = Vec::new();
    for number in 0..i32::try_from(cluster.partitions(log)).unwrap() {
        for record in cluster.records(log, number, Isolation::ReadCommitted) {
            let decoded = CommitChange::decode(record.key.as_deref(), record.value.as_deref());
            let Ok(Some(change)) = decoded else { continue };
            if change.group == GroupId::from("g") && change.topic.as_str() == topic {
                offsets.extend(change.commit.map(|commit| commit.offset));
            }
        }
    }
    offsets
}

/// Target offsets of g's checkpoints, and when each was written.
fn checkpoints(world: &World) -> Vec<(i64, i64)> {
    let topic = "hello.checkpoints.internal";
    let records = world.target.records(topic, 0, Isolation::ReadUncommitted);
    let read = records.iter().filter_map(|record| {
        let read = Checkpoint::decode(record.key.as_deref(), record.value.as_deref()).ok()?;
        (read.group == GroupId::from("g")).then_some((read.downstream, record.timestamp))
    });
    read.collect()
}

#[tokio::test(start_paused = true)]
async fn off_1_a_group_in_the_middle_of_the_log_stands_exactly_there() {
    let world = with_records(501, 100);
    let engine = world.start();
    world.until_equal(&one()).await;
    world.source.commit_offset("g", "t", 0, 50).unwrap();
    assert!(time_to(&world, 50).await < Duration::from_secs(5));
    let at = seen(&world, "").await;
    assert_eq!(
        (at.translation, at.standing.state, at.standing.code),
        ("exact", State::InSync, None)
    );
    for from in (100..20_000).step_by(995) {
        world.source.append("t", 0, &numbered(from, from + 995)).unwrap();
    }
    world.until_equal(&one()).await;
    let end = world.source.log_end("t", 0);
    for percent in [1, 25, 50, 99] {
        // A group of its own for each: this one is moved back and forth.
        let group = format!("g{percent}");
        let offset = end * percent / 100;
        world.source.commit_offset(&group, "t", 0, offset).unwrap();
        until("the group is there", || {
            let stands = world.committed_on_target(&group, "t", 0);
            (stands != Some(world.expected("t", 0, offset))).then(|| format!("{stands:?}"))
        })
        .await;
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn off_2_a_partition_that_was_emptied_puts_its_group_on_the_end_of_the_copy() {
    for (seed, by_retention) in [(502, false), (503, true)] {
        let world = World::new(seed, 1);
        world.source.create_topic("t", 1, &[("retention.ms", "60000")]).unwrap();
        world.source.append("t", 0, &numbered(0, 100)).unwrap();
        world.source.commit_offset("g", "t", 0, 100).unwrap();
        if by_retention {
            tokio::time::advance(Duration::from_secs(61)).await;
            world.source.retain("t", 0).unwrap();
        } else {
            world.source.delete_records("t", 0, 100).unwrap();
        }
        assert_eq!((world.source.log_start("t", 0), world.source.log_end("t", 0)), (100, 100));
        let engine = world.start();
        time_to(&world, 0).await;
        let at = seen(&world, "").await;
        assert_eq!((at.standing.state, at.standing.code), (State::InSync, None));
        let reason = at.standing.reason.unwrap();
        assert!(reason.contains("empty") && reason.contains("end of the copy"), "{reason}");
        world.source.append("t", 0, &numbered(100, 105)).unwrap();
        world.until_equal(&one()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        // It reads the five and nothing else, and never stood anywhere else.
        assert_eq!(world.target.log_end("hello.t", 0), 5);
        let series = committed(&world.target, "hello.t");
        assert!(!series.is_empty() && series.iter().all(|offset| *offset == 0), "{series:?}");
        assert_eq!(seen(&world, "").await.standing.code, None);
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn off_3_a_group_before_the_first_record_that_is_mirrored_is_told_what_it_misses() {
    let world = with_records(504, 100);
    world.source.commit_offset("g", "t", 0, 40).unwrap();
    let latest = "hello.consumer.auto.offset.reset = latest";
    let engine = world.start_with(latest);
    until("t is followed", || {
        let there = world.target.topics().contains(&"hello.t".to_owned());
        (!there || world.committed_on_target("g", "t", 0).is_none()).then(String::new)
    })
    .await;
    world.source.append("t", 0, &numbered(100, 120)).unwrap();
    until("the twenty are there", || {
        let records = world.target_records("t", 0);
        (records.len() != 20).then(|| format!("{} records", records.len()))
    })
    .await;
    let values: Vec<_> = world.target_records("t", 0).into_iter().map(|one| one.value).collect();
    let expected: Vec<_> = numbered(100, 120).into_iter().map(|one| one.value).collect();
    assert_eq!(values, expected);
    assert_eq!(time_to(&world, 0).await, Duration::ZERO);
    let at = seen(&world, latest).await;
    assert_eq!((at.translation, at.target_offset), ("before-start", Some(0)));
    assert_eq!(at.standing.code, Some(Code::BacklogNotOnTarget));
    let reason = at.standing.reason.unwrap();
    assert!(reason.contains("60 records of the group's backlog"), "{reason}");
    engine.shutdown().await;
}

/// Twenty transactions of five records.
fn twenty_transactions(world: &World) {
    for _ in 0..20 {
        let mut transaction = world.source.begin_transaction();
        world.source.append_in(&mut transaction, "t", 0, &numbered(0, 5)).unwrap();
        world.source.end_transaction(transaction, true).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn off_4_markers_of_transactions_put_no_group_beyond_the_end() {
    let world = World::new(505, 1);
    world.source.create_topic("t", 1, &[]).unwrap();
    twenty_transactions(&world);
    world.source.commit_offset("g", "t", 0, 120).unwrap();
    let engine = world.start();
    time_to(&world, 100).await;
    assert_eq!(world.target.log_end("hello.t", 0), 100);
    let first = committed(&world.target, "hello.t");
    assert!(first.iter().all(|offset| *offset <= 100), "{first:?}");
    // That a marker was read behind the last record is told with the next write of the state.
    let began = Instant::now();
    while seen(&world, "").await.translation != "end" {
        assert!(began.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The first record of transaction 26.
    world.source.commit_offset("g", "t", 0, 150).unwrap();
    twenty_transactions(&world);
    world.until_equal(&one()).await;
    time_to(&world, 125).await;
    assert_eq!(world.target.log_end("hello.t", 0), 200);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let all = committed(&world.target, "hello.t");
    assert!(all.windows(2).all(|pair| pair[0] <= pair[1]), "{all:?}");
    assert_eq!(all.last(), Some(&125));
    let at = seen(&world, "").await;
    assert_eq!((at.translation, at.standing.state), ("exact", State::InSync));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn off_5_a_group_far_behind_is_exact_right_after_a_restart_and_at_every_commit() {
    let world = with_records(506, 10_000);
    let extra = "emit.checkpoints.interval.seconds = 1";
    let steps = async |world: &World, from: i64, to: i64| {
        for offset in (from..=to).step_by(250) {
            world.source.commit_offset("g", "t", 0, offset).unwrap();
            let took = time_to(world, offset).await;
            assert!(took < Duration::from_secs(2), "{took:?} to {offset}");
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
    };
    let engine = world.start_with(extra);
    world.until_equal(&one()).await;
    // The log of commits is there once somebody has committed.
    world.source.commit_offset("other", "t", 0, 0).unwrap();
    until_followed(&engine, FollowCommits::Live).await;
    steps(&world, 250, 5_000).await;
    engine.shutdown().await;
    world.source.append("t", 0, &numbered(10_000, 20_000)).unwrap();
    world.source.commit_offset("g", "t", 0, 5_250).unwrap();
    let engine = world.start_with(extra);
    assert!(time_to(&world, 5_250).await < Duration::from_secs(5));
    let again_ms = world.target.now_ms();
    steps(&world, 5_500, 8_000).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    engine.shutdown().await;
    let written = checkpoints(&world);
    assert!(written.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{written:?}");
    assert_eq!(written.last().map(|(offset, _)| *offset), Some(8_000));
    let times: Vec<i64> =
        written.iter().map(|(_, at_ms)| *at_ms).filter(|at_ms| *at_ms >= again_ms).collect();
    assert!(
        times.len() > 5 && times.windows(2).all(|pair| pair[1] - pair[0] <= 2_000),
        "{times:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn off_7_five_records_and_then_silence_are_carried_over_at_once() {
    for (seed, lag_max) in [(507, 0), (508, 1_000_000)] {
        let world = World::new(seed, 1);
        let extra = format!("offset.lag.max = {lag_max}\nemit.checkpoints.interval.seconds = 1");
        let engine = world.start_with(&extra);
        world.source.create_topic("t", 1, &[]).unwrap();
        // The log of commits is there once somebody has committed.
        world.source.commit_offset("other", "t", 0, 0).unwrap();
        until_followed(&engine, FollowCommits::Live).await;
        world.source.append("t", 0, &numbered(0, 5)).unwrap();
        world.until_equal(&one()).await;
        world.source.commit_offset("g", "t", 0, 5).unwrap();
        assert!(time_to(&world, 5).await < Duration::from_secs(2));
        let at = seen(&world, &extra).await;
        assert_eq!((at.standing.state, at.standing.code), (State::InSync, None));
        until("the checkpoint is there", || {
            let written = checkpoints(&world);
            let last = written.last().map(|(offset, _)| *offset);
            (last != Some(5)).then(|| format!("{written:?}"))
        })
        .await;
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn grp_3_the_naming_policy_at_the_top_of_the_file_is_that_of_groups_too() {
    let world = with_records(509, 100);
    world.source.commit_offset("g", "t", 0, 60).unwrap();
    let class = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";
    let engine = world.start_with(&format!("replication.policy.class = {class}"));
    until("g is there", || {
        let stands = world.target.committed("g", "t", 0);
        (stands != Some(60)).then(|| format!("{stands:?}"))
    })
    .await;
    assert_eq!(world.target.records("t", 0, Isolation::ReadCommitted).len(), 100);
    assert!(!world.target.topics().contains(&"hello.t".to_owned()));
    assert_eq!(world.target.committed("g", "hello.t", 0), None);
    engine.shutdown().await;
}

/// 1,000 updates of 10 keys, three of which are deleted in the end, cleaned.
fn compacted(seed: u64) -> World {
    let world = World::new(seed, 1);
    let configs = [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01")];
    world.source.create_topic("t", 1, &configs).unwrap();
    for n in 0..1_000 {
        let value = if n % 10 == 9 { String::new() } else { format!("v{n}") };
        let mut record = NewRecord::new(format!("k{}", n % 10), value);
        record.headers = vec![("h".into(), None), ("h".into(), Some(format!("{n}").into()))];
        world.source.append("t", 0, &[record]).unwrap();
        if n % 250 == 249 {
            world.source.compact("t", 0).unwrap();
        }
    }
    for key in ["k1", "k4", "k7"] {
        let mut deleted = NewRecord::new(key, "");
        deleted.value = None;
        world.source.append("t", 0, &[deleted]).unwrap();
    }
    world.source.compact("t", 0).unwrap();
    world
}

fn table(cluster: &EmbeddedCluster, topic: &str) -> BTreeMap<bytes::Bytes, bytes::Bytes> {
    let mut table = BTreeMap::new();
    for record in cluster.records(topic, 0, Isolation::ReadCommitted) {
        let key = record.key.unwrap_or_default();
        match record.value {
            Some(value) => table.insert(key, value),
            None => table.remove(&key),
        };
    }
    table
}

#[tokio::test(start_paused = true)]
async fn loss_3_a_compacted_topic_is_mirrored_as_one_with_its_groups_exact() {
    let world = compacted(510);
    let left = world.source_records("t", 0);
    assert!(left.len() < 100, "{} records", left.len());
    // Removed by the cleaner: the next record that exists counts.
    let gone = (0..990).rev().find(|offset| left.iter().all(|one| one.offset != *offset)).unwrap();
    world.source.commit_offset("g", "t", 0, gone).unwrap();
    let engine = world.start();
    world.until_equal(&one()).await;
    time_to(&world, world.expected("t", 0, gone)).await;
    assert_eq!(seen(&world, "").await.translation, "exact");
    assert!(left.iter().any(|one| one.value.is_none()), "null values stay null");
    assert!(left.iter().any(|one| one.value.as_ref().is_some_and(bytes::Bytes::is_empty)));
    // What compaction removed is no loss.
    let found = look(&world, "").await;
    let at = partition(&found, "t", 0);
    assert_eq!((at.gaps.len(), at.standing.state), (0, State::InSync));
    let configs = world.target.topic_configs("hello.t");
    assert_eq!(configs.get("cleanup.policy").map(String::as_str), Some("compact"));
    // It was born with it: nothing was altered, and nothing was produced before.
    let requests = world.target.requests();
    let of_mirror = |api: twinlog_protocol::ApiKey| {
        let named = |one: &&twinlog_embedded::RequestLogEntry| {
            one.api == api && one.partitions.iter().any(|(topic, _)| topic == "hello.t")
        };
        requests.iter().find(named).map(|one| one.at)
    };
    let created = of_mirror(twinlog_protocol::ApiKey::CreateTopics).unwrap();
    assert!(of_mirror(twinlog_protocol::ApiKey::Produce).unwrap() >= created);
    assert_eq!(of_mirror(twinlog_protocol::ApiKey::IncrementalAlterConfigs), None);
    world.target.compact("hello.t", 0).unwrap();
    assert_eq!(table(&world.target, "hello.t"), table(&world.source, "t"));
    assert_eq!(world.target.violations(), Vec::<String>::new());
    engine.shutdown().await;
}
