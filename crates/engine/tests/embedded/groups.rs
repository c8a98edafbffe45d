//! Where consumer groups stand on the target.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_embedded::{Action, EmbeddedCluster, Fault, GroupKind, Isolation};
use twinlog_protocol::ApiKey;

use crate::support::{World, numbered, until};

/// Transactions with gaps: source and target offsets differ everywhere.
fn holey(world: &World) {
    world.source.create_topic("tx", 1, &[]).unwrap();
    for n in 0..40 {
        let mut transaction = world.source.begin_transaction();
        world.source.append_in(&mut transaction, "tx", 0, &numbered(n * 5, n * 5 + 5)).unwrap();
        world.source.end_transaction(transaction, n % 4 != 0).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn every_position_is_carried_over_exactly() {
    let world = World::new(11, 1);
    holey(&world);
    let end = world.source.log_end("tx", 0);
    for position in 0..=end {
        world.source.commit_offset(&format!("g-{position}"), "tx", 0, position).unwrap();
    }
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("tx".to_owned(), 1)])).await;
    until("all groups stand exactly", || {
        (0..=end).find_map(|position| {
            let committed = world.committed_on_target(&format!("g-{position}"), "tx", 0);
            let expected = world.expected("tx", 0, position);
            (committed != Some(expected))
                .then(|| format!("at {position}: {committed:?}, not {expected}"))
        })
    })
    .await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_group_is_on_the_target_within_five_seconds() {
    let world = World::new(12, 1);
    holey(&world);
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("tx".to_owned(), 1)])).await;
    let began = tokio::time::Instant::now();
    world.source.commit_offset("new", "tx", 0, 100).unwrap();
    let expected = world.expected("tx", 0, 100);
    until("the new group", || {
        let committed = world.committed_on_target("new", "tx", 0);
        (committed != Some(expected)).then(|| format!("{committed:?}"))
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_with_live_members_and_one_that_is_ahead_are_left_alone() {
    let world = World::new(13, 1);
    holey(&world);
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("tx".to_owned(), 1)])).await;
    world.target.commit_offset("ahead", "hello.tx", 0, 120).unwrap();
    world.target.commit_offset("live", "hello.tx", 0, 3).unwrap();
    world.target.set_group("live", GroupKind::Consumer, true);
    for group in ["ahead", "live", "witness"] {
        world.source.commit_offset(group, "tx", 0, 50).unwrap();
    }
    until("the witness is synced", || {
        let committed = world.committed_on_target("witness", "tx", 0);
        (committed != Some(world.expected("tx", 0, 50))).then(|| format!("{committed:?}"))
    })
    .await;
    assert_eq!(world.committed_on_target("ahead", "tx", 0), Some(120));
    assert_eq!(world.committed_on_target("live", "tx", 0), Some(3));
    engine.shutdown().await;
}

/// A mirror with `g` at 10 on both sides and then, without anybody who copies, at 50 on the source and
/// at `stands` on the target.
async fn left_alone(seed: u64, stands: Option<i64>) -> World {
    let world = World::new(seed, 3);
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 100)).unwrap();
    world.source.commit_offset("g", "orders", 0, 10).unwrap();
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("orders".to_owned(), 1)])).await;
    stands_at(&world, 10).await;
    if stands.is_none() {
        world.source.commit_offset("g", "orders", 0, 50).unwrap();
        stands_at(&world, 50).await;
    }
    engine.shutdown().await;
    if let Some(stands) = stands {
        world.source.commit_offset("g", "orders", 0, 50).unwrap();
        world.target.commit_offset("g", "hello.orders", 0, stands).unwrap();
    }
    world
}

async fn stands_at(world: &World, at: i64) {
    until("the group is there", || {
        let stands = world.committed_on_target("g", "orders", 0);
        (stands != Some(at)).then(|| format!("{stands:?}"))
    })
    .await;
}

/// The group's coordinator dies; the new one answers an older commit at first.
async fn move_coordinator(cluster: &EmbeddedCluster) {
    let old = cluster.group_coordinator("g");
    cluster.kill_broker(old);
    until("there is another one", || (cluster.group_coordinator("g") == old).then(String::new))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_process_takes_no_older_answer_of_the_sources_coordinator_for_a_rewind() {
    let world = left_alone(71, None).await;
    move_coordinator(&world.source).await;
    let engine = world.start();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        let stands = world.committed_on_target("g", "orders", 0);
        assert_eq!(stands, Some(50), "after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // One that is none is followed.
    world.source.commit_offset("g", "orders", 0, 20).unwrap();
    stands_at(&world, 20).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_process_moves_nothing_on_an_older_answer_of_the_targets_coordinator() {
    // Its consumers had read on to 60, which a new coordinator does not know at first.
    let world = left_alone(72, Some(60)).await;
    move_coordinator(&world.target).await;
    let engine = world.start();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        let stands = world.committed_on_target("g", "orders", 0);
        assert_eq!(stands, Some(60), "after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.source.commit_offset("g", "orders", 0, 70).unwrap();
    stands_at(&world, 70).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_streams_group_is_carried_over_and_left_alone_while_it_lives_on_the_target() {
    let world = World::new(14, 1);
    holey(&world);
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("tx".to_owned(), 1)])).await;
    // Its members commit on the source all the time.
    world.source.set_group("app", GroupKind::Streams, true);
    let until_at = async |source: i64| {
        let expected = world.expected("tx", 0, source);
        until("the streams group is there", || {
            let committed = world.committed_on_target("app", "tx", 0);
            (committed != Some(expected)).then(|| format!("{committed:?}"))
        })
        .await;
    };
    for source in [50, 51, 100] {
        world.source.commit_offset_as_member("app", "tx", 0, source, "v2-meta");
        until_at(source).await;
    }
    let metadata = world.target.committed_metadata("app", "hello.tx", 0);
    assert_eq!(metadata.as_deref(), Some("v2-meta"), "Streams keeps its own time there");
    // After a failover drill it lives there; then it is empty again, of the same kind.
    world.target.set_group("app", GroupKind::Streams, true);
    world.source.commit_offset_as_member("app", "tx", 0, 120, "");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let stands = world.committed_on_target("app", "tx", 0);
    assert_eq!(stands, Some(world.expected("tx", 0, 100)));
    world.target.set_group("app", GroupKind::Streams, false);
    until_at(120).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn offsets_that_a_producer_sends_to_its_transaction_count_when_it_commits() {
    let world = World::new(15, 1);
    holey(&world);
    world.source.create_topic("out", 1, &[]).unwrap();
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("tx".to_owned(), 1)])).await;
    world.source.commit_offset("app", "tx", 0, 10).unwrap();
    let stands = || world.committed_on_target("app", "tx", 0);
    let first = world.expected("tx", 0, 10);
    until("the group is there", || (stands() != Some(first)).then(|| format!("{:?}", stands())))
        .await;
    for (offset, commit) in [(60, false), (60, true), (90, true)] {
        let before = stands();
        let mut transaction = world.source.begin_transaction();
        world.source.append_in(&mut transaction, "out", 0, &numbered(0, 3)).unwrap();
        world.source.commit_in(&mut transaction, "app", ("tx", 0), offset);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(stands(), before, "while it is open");
        world.source.end_transaction(transaction, commit).unwrap();
        if commit {
            let expected = world.expected("tx", 0, offset);
            until("what it committed is there", || {
                (stands() != Some(expected)).then(|| format!("{:?}", stands()))
            })
            .await;
        } else {
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(stands(), before, "after an abort");
        }
    }
    engine.shutdown().await;
}

/// The newest record of each journal of `group` on the state topic: whether it is there.
fn journals(world: &World, group: &str) -> Vec<bool> {
    use twinlog_offsets::state::StateKey;
    let topic = twinlog_engine::state_topic_name(&"hello".into()).to_string();
    let mut newest = BTreeMap::new();
    for partition in 0..i32::try_from(world.target.partitions(&topic)).unwrap() {
        for record in world.target.records(&topic, partition, Isolation::ReadCommitted) {
            let key = record.key.unwrap_or_default();
            if let Ok(StateKey::Journal(_, of)) = StateKey::decode(&key)
                && of.as_str() == group
            {
                newest.insert(key, record.value.is_some());
            }
        }
    }
    newest.into_values().collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_group_leaves_the_state_once_it_is_gone_on_both_sides() {
    let world = World::new(16, 1);
    holey(&world);
    let groups = ["here", "there", "gone", "later"];
    for group in groups {
        world.source.commit_offset(group, "tx", 0, 50).unwrap();
    }
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("tx".to_owned(), 1)])).await;
    let expected = world.expected("tx", 0, 50);
    until("the groups are there", || {
        let behind =
            groups.iter().find(|group| world.committed_on_target(group, "tx", 0) != Some(expected));
        behind.map(|group| (*group).to_owned())
    })
    .await;
    world.source.delete_group("there");
    world.target.delete_group("here");
    for cluster in [&world.source, &world.target] {
        cluster.delete_group("gone");
    }
    tokio::time::sleep(Duration::from_mins(5)).await;
    let all = groups.map(|group| journals(&world, group));
    assert_eq!(all, [vec![true], vec![true], vec![false], vec![true]]);
    // A group of that name is followed as a new one.
    world.source.commit_offset("gone", "tx", 0, 20).unwrap();
    let expected = world.expected("tx", 0, 20);
    until("it is there again", || {
        let committed = world.committed_on_target("gone", "tx", 0);
        (committed != Some(expected)).then(|| format!("{committed:?}"))
    })
    .await;
    assert_eq!(journals(&world, "gone"), [true]);
    engine.shutdown().await;
    // One that goes while nothing runs is forgotten by the next owner.
    for cluster in [&world.source, &world.target] {
        cluster.delete_group("later");
    }
    let engine = world.start();
    until("it is forgotten", || {
        let left = journals(&world, "later");
        (left != [false]).then(|| format!("{left:?}"))
    })
    .await;
    engine.shutdown().await;
}

/// A broker that is frozen answers nothing, and its connections stay open.
#[tokio::test(start_paused = true)]
async fn groups_do_not_wait_for_the_coordinator_of_others() {
    let world = World::new(41, 3);
    holey(&world);
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("tx".to_owned(), 1)])).await;
    let names: Vec<String> = (0..40).map(|n| format!("g-{n}")).collect();
    let frozen = world.target.group_coordinator(&names[0]);
    let commit = |position: i64| {
        for name in &names {
            world.source.commit_offset(name, "tx", 0, position).unwrap();
        }
    };
    let stand = |position: i64, with_frozen: bool| {
        let expected = world.expected("tx", 0, position);
        let asked = names
            .iter()
            .filter(|name| with_frozen || world.target.group_coordinator(name) != frozen);
        asked.filter(|name| world.committed_on_target(name, "tx", 0) != Some(expected)).count()
    };
    let all = |left: usize| (left > 0).then(|| format!("{left} do not stand there"));
    commit(20);
    until("all groups stand exactly", || all(stand(20, true))).await;
    for api in [ApiKey::OffsetFetch, ApiKey::ListGroups, ApiKey::OffsetCommit] {
        world.target.fault(Fault::new(Action::Ignore).api(api).broker(frozen).always());
    }
    for position in [60, 100, 140] {
        let began = Instant::now();
        commit(position);
        until("those of the other coordinators", || all(stand(position, false))).await;
        assert!(began.elapsed() < Duration::from_secs(4), "{position}: {:?}", began.elapsed());
    }
    assert!(stand(140, true) > 0, "no group has the frozen coordinator");
    world.target.clear_faults();
    until("all groups stand exactly again", || all(stand(140, true))).await;
    engine.shutdown().await;
}
