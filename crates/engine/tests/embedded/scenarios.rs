//! What users of mirrors suffer, replayed: restarts, groups that live on the target, two directions.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_embedded::{Action, Fault, GroupKind, NewRecord};
use twinlog_engine::{Engine, state_topic_name};
use twinlog_protocol::ApiKey;
use twinlog_types::{ClusterAlias, Code, GroupId};

use crate::losses::{look, partition, position};
use crate::support::{World, numbered, until};

#[tokio::test(start_paused = true)]
async fn off_6_restarts_never_move_a_group_back() {
    let world = World::new(301, 1);
    world.source.create_topic("t", 1, &[]).unwrap();
    for n in 0..1_100 {
        let mut transaction = world.source.begin_transaction();
        world.source.append_in(&mut transaction, "t", 0, &numbered(n * 3, n * 3 + 3)).unwrap();
        world.source.end_transaction(transaction, true).unwrap();
    }
    world.source.commit_offset("g", "t", 0, 4_000).unwrap();
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("t".to_owned(), 1)])).await;
    let exact = world.expected("t", 0, 4_000);
    until("g is there", || {
        (world.committed_on_target("g", "t", 0) != Some(exact)).then(String::new)
    })
    .await;
    engine.shutdown().await;
    let state = state_topic_name(&ClusterAlias::from("hello")).to_string();
    let mut series = vec![exact];
    for round in 0..10u64 {
        // Answers to its reads of its own state are held back.
        let delay = Duration::from_millis(round * 500);
        let held = Fault::new(Action::Delay(delay)).api(ApiKey::Fetch).topic(&state).times(4);
        let held = world.target.fault(held);
        let engine = world.start();
        let until_killed = tokio::time::Instant::now() + Duration::from_millis(700 + round * 900);
        while tokio::time::Instant::now() < until_killed {
            series.extend(world.committed_on_target("g", "t", 0));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if round % 2 == 0 {
            engine.shutdown().await;
        } else {
            drop(engine);
        }
        series.extend(world.committed_on_target("g", "t", 0));
        world.target.remove_fault(held);
    }
    assert!(series.windows(2).all(|pair| pair[0] <= pair[1]), "{series:?}");
    assert_eq!(series.last(), Some(&exact));
    let checkpoints = world.target.records(
        "hello.checkpoints.internal",
        0,
        twinlog_embedded::Isolation::ReadUncommitted,
    );
    let places: Vec<i64> = checkpoints
        .iter()
        .filter_map(|record| {
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            let read = twinlog_mirror::formats::Checkpoint::decode(key, value).ok()?;
            (read.group == GroupId::from("g")).then_some(read.downstream)
        })
        .collect();
    assert!(places.windows(2).all(|pair| pair[0] <= pair[1]), "{places:?}");
}

#[tokio::test(start_paused = true)]
async fn grp_1_a_group_that_lives_on_the_target_is_never_touched() {
    let world = World::new(302, 1);
    world.source.create_topic("t", 1, &[]).unwrap();
    world.source.append("t", 0, &numbered(0, 200)).unwrap();
    world.source.commit_offset("g", "t", 0, 100).unwrap();
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("t".to_owned(), 1)])).await;
    let stands = || world.committed_on_target("g", "t", 0);
    until("g is there", || (stands() != Some(100)).then(String::new)).await;

    world.target.set_group("g", GroupKind::Consumer, true);
    world.target.commit_offset_as_member("g", "hello.t", 0, 150, "");
    world.source.commit_offset("g", "t", 0, 50).unwrap();
    for n in 0..20u64 {
        world.target.set_group("g", GroupKind::Consumer, n % 2 == 0);
        if n == 5 {
            for api in [ApiKey::OffsetFetch, ApiKey::ListGroups, ApiKey::DescribeGroups] {
                world.target.fault(Fault::new(Action::Ignore).api(api));
            }
            tokio::time::sleep(Duration::from_mins(1)).await;
            world.target.clear_faults();
            assert_eq!(stands(), Some(150), "with answers that do not come");
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(130 + (n * 977) % 1_900)).await;
        assert_eq!(stands(), Some(150), "after {n} joins and leaves");
        let code = position(&look(&world, "").await, "g").standing.code;
        let expected = if n % 2 == 0 { Code::GroupLiveOnTarget } else { Code::TargetAhead };
        assert_eq!(code, Some(expected), "after {n}");
    }
    world.target.set_group("g", GroupKind::Consumer, false);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(stands(), Some(150));
    let reason = position(&look(&world, "").await, "g").standing.reason.clone().unwrap();
    assert!(reason.contains("moved by the target's own consumers"), "{reason}");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn name_1_two_directions_with_prefixes_nest_nothing() {
    let world = World::new(303, 1);
    for (cluster, name) in [(&world.source, "a"), (&world.target, "b")] {
        cluster.create_topic("t", 1, &[]).unwrap();
        let records: Vec<_> =
            (0..100).map(|n| NewRecord::new(format!("k{n}"), format!("{name}{n}"))).collect();
        cluster.append("t", 0, &records).unwrap();
    }
    let both = "world->hello.enabled = true\nemit.heartbeats.interval.seconds = 1";
    for round in 0..3 {
        let engine = world.start_with(both);
        let counted = || {
            let here = world.source.topics().contains(&"world.t".to_owned());
            let there = world.target.topics().contains(&"hello.t".to_owned());
            let count = |cluster: &twinlog_embedded::EmbeddedCluster, topic: &str| {
                cluster.records(topic, 0, twinlog_embedded::Isolation::ReadCommitted).len()
            };
            let beats = world.source.topics().contains(&"world.heartbeats".to_owned())
                && world.target.topics().contains(&"hello.heartbeats".to_owned());
            if !(here && there && beats) {
                return Some("a topic is missing".to_owned());
            }
            let counts = (count(&world.source, "world.t"), count(&world.target, "hello.t"));
            (counts != (100, 100)).then(|| format!("{counts:?}"))
        };
        until("both directions are there", counted).await;
        if round == 1 {
            world.target.delete_topic("heartbeats");
        }
        let end = tokio::time::Instant::now() + Duration::from_secs(12);
        while tokio::time::Instant::now() < end {
            for topic in world.source.topics().iter().chain(&world.target.topics()) {
                let nested = ["hello.hello", "world.world", "hello.world.", "world.hello."];
                assert!(!nested.iter().any(|part| topic.starts_with(part)), "{topic}");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(counted(), None, "each once");
        engine.shutdown().await;
    }
    let found = look(&world, both).await;
    let back = found.topics.iter().find(|topic| topic.topic.as_str() == "world.t").unwrap();
    assert!(back.standing.reason.clone().unwrap().contains("came from the target"));
}

/// Ten partitions, mirrored.
async fn held(world: &World) -> Engine {
    world.source.create_topic("t", 10, &[]).unwrap();
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("t".to_owned(), 10)])).await;
    engine
}

#[tokio::test(start_paused = true)]
async fn live_1_a_partition_that_stands_still_is_seen_alone_and_goes_on_by_itself() {
    let world = World::new(511, 1);
    let engine = held(&world).await;
    // NOT_ENOUGH_REPLICAS, for as long as the fault lasts.
    let fault = Fault::new(Action::Answer(19)).api(ApiKey::Produce).partition("hello.t", 3);
    let fault = world.target.fault(fault.always());
    let began = Instant::now();
    let mut written = 0;
    while began.elapsed() < Duration::from_secs(45) {
        for number in 0..10 {
            world.source.append("t", number, &numbered(written, written + 1)).unwrap();
        }
        written += 1;
        tokio::time::sleep(Duration::from_millis(900)).await;
        for number in (0..10).filter(|number| *number != 3) {
            assert_eq!(world.difference("t", number), None, "after {:?}", began.elapsed());
        }
    }
    let found = look(&world, "").await;
    for number in 0..10 {
        let code = partition(&found, "t", number).standing.code;
        assert_eq!(code, (number == 3).then_some(Code::Stalled), "{number}");
    }
    world.target.remove_fault(fault);
    world.until_equal(&BTreeMap::from([("t".to_owned(), 10)])).await;
    assert_eq!(partition(&look(&world, "").await, "t", 3).standing.code, None);
    engine.shutdown().await;
}
