//! Where consumer groups stand on the target.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_embedded::{EmbeddedCluster, GroupKind, NewRecord};

use crate::support::{World, until};

fn numbered(from: usize, to: usize) -> Vec<NewRecord> {
    (from..to).map(|n| NewRecord::new(format!("k{n}"), format!("v{n}"))).collect()
}

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
