//! Offset maps that do not fit into memory: what lies far back is sealed, and lent to answers.

use std::collections::BTreeMap;

use twinlog_embedded::NewRecord;
use twinlog_offsets::RUNS_PER_BLOCK;
use twinlog_offsets::state::StateKey;

use crate::support::{World, until};

/// More runs than a block and what is kept in front of it: a marker behind every record.
const RUNS: usize = RUNS_PER_BLOCK + RUNS_PER_BLOCK / 2;

fn one_by_one(world: &World, from: usize, to: usize) {
    for n in from..to {
        let mut transaction = world.source.begin_transaction();
        let record = [NewRecord::new(format!("k{n}"), format!("v{n}"))];
        world.source.append_in(&mut transaction, "tx", 0, &record).unwrap();
        world.source.end_transaction(transaction, true).unwrap();
    }
}

/// How many blocks, and how many segments of its map the state holds.
fn stored(world: &World) -> (usize, usize) {
    let mut values = BTreeMap::new();
    for shard in 0..4 {
        let state = "mm2-twinlog.hello.internal";
        for record in world.target.records(state, shard, twinlog_embedded::Isolation::ReadCommitted)
        {
            values.insert(record.key.unwrap_or_default(), record.value.is_some());
        }
    }
    let kinds = values
        .iter()
        .filter(|(_, there)| **there)
        .filter_map(|(key, _)| StateKey::decode(key).ok());
    kinds.fold((0, 0), |(blocks, segments), key| match key {
        StateKey::Block(..) => (blocks + 1, segments),
        StateKey::Segment(..) => (blocks, segments + 1),
        _ => (blocks, segments),
    })
}

async fn groups_stand_exactly(world: &World, name: &str, positions: &[i64]) {
    for position in positions {
        world.source.commit_offset(&format!("{name}-{position}"), "tx", 0, *position).unwrap();
    }
    until("all groups stand exactly", || {
        positions.iter().find_map(|&position| {
            let committed = world.committed_on_target(&format!("{name}-{position}"), "tx", 0);
            let expected = world.expected("tx", 0, position);
            (committed != Some(expected))
                .then(|| format!("at {position}: {committed:?}, not {expected}"))
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn groups_far_behind_stand_exactly_where_the_map_is_sealed_before_and_after_a_restart() {
    let world = World::new(31, 1);
    world.source.create_topic("tx", 1, &[]).unwrap();
    one_by_one(&world, 0, RUNS);
    let engine = world.start();
    let topics = BTreeMap::from([("tx".to_owned(), 1)]);
    world.until_equal(&topics).await;
    // A block is sealed with the next write of the state.
    one_by_one(&world, RUNS, RUNS + 1);
    until("a block is sealed", || {
        let (blocks, segments) = stored(&world);
        (blocks != 1 || segments > 16).then(|| format!("{blocks} blocks, {segments} segments"))
    })
    .await;
    let positions = [0, 1, 2, 4_001, 8_190, 16_000, 16_383, 16_384, 16_385, 24_000];
    groups_stand_exactly(&world, "first", &positions).await;
    engine.shutdown().await;

    let engine = world.start();
    groups_stand_exactly(&world, "again", &positions).await;
    engine.shutdown().await;
}
