//! Where consumer groups stand on the target.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_embedded::{GroupKind, NewRecord};

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
