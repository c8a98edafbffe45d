//! What a source's storage does to its own logs, and what of it a mirror may see: nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use twinlog_embedded::NewRecord;
use twinlog_types::Code;

use crate::support::{World, until};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

fn one() -> BTreeMap<String, i32> {
    BTreeMap::from([("orders".to_owned(), 1)])
}

fn keyed(key: u64, value: u64) -> NewRecord {
    NewRecord::new(format!("key-{key}"), format!("value-{value}"))
}

fn tombstone(key: u64) -> NewRecord {
    NewRecord { value: None, ..keyed(key, 0) }
}

/// A log that begins in format 0 and 1, as brokers have it that are older than their data.
#[tokio::test(start_paused = true)]
async fn messages_of_formats_0_and_1_are_mirrored() {
    let world = World::new(31, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let rows = |from: u64| -> Vec<NewRecord> { (from..from + 7).map(|n| keyed(n, n)).collect() };
    let old = [
        (0, "none"),
        (0, "gzip"),
        (0, "snappy"),
        (0, "lz4"),
        (1, "none"),
        (1, "gzip"),
        (1, "snappy"),
        (1, "lz4"),
    ];
    for (index, (magic, codec)) in old.into_iter().enumerate() {
        world.source.append_old("orders", 0, magic, &rows(index as u64 * 10), codec).unwrap();
    }
    let null = NewRecord { key: None, value: Some(Bytes::new()), ..NewRecord::default() };
    world.source.append_old("orders", 0, 1, &[null, tombstone(1)], "none").unwrap();
    world.source.append("orders", 0, &rows(100)).unwrap();
    let engine = world.start();
    world.until_equal(&one()).await;
    world.source.append_old("orders", 0, 1, &rows(200), "gzip").unwrap();
    world.until_equal(&one()).await;
    engine.shutdown().await;
    assert_eq!(world.target_records("orders", 0).len(), 8 * 7 + 2 + 7 + 7);
    let formats = world.target.batches("hello.orders", 0);
    assert!(formats.iter().all(|batch| batch[16] == 2), "a producer of today writes format 2");
}

/// The cleaner runs while the mirror is down and while it is up; what is left is what is copied.
#[tokio::test(start_paused = true)]
async fn a_cleaned_source_is_mirrored_with_its_tombstones_and_offsets() {
    let world = World::new(32, 1);
    let configs = [("cleanup.policy", "compact"), ("delete.retention.ms", "60000")];
    world.source.create_topic("orders", 1, &configs).unwrap();
    let mut random = Random(7);
    for round in 0..12 {
        for _ in 0..5 {
            let records: Vec<NewRecord> = (0..6)
                .map(|n| {
                    let key = random.below(9);
                    if random.one_in(4) { tombstone(key) } else { keyed(key, round * 100 + n) }
                })
                .collect();
            if random.one_in(3) {
                let mut transaction = world.source.begin_transaction();
                world.source.append_in(&mut transaction, "orders", 0, &records).unwrap();
                world.source.end_transaction(transaction, random.one_in(2)).unwrap();
            } else {
                world.source.append("orders", 0, &records).unwrap();
            }
        }
        // Every second round the mirror has not seen what is cleaned away.
        world.source.compact("orders", 0).unwrap();
        tokio::time::advance(Duration::from_secs(31)).await;
        if round % 2 == 1 {
            continue;
        }
        let engine = world.start();
        let end = world.source.records("orders", 0, twinlog_embedded::Isolation::ReadCommitted);
        let newest = end.last().map(|record| (record.key.clone(), record.value.clone()));
        until("the newest record is there", || {
            let copied = world.target_records("orders", 0);
            let last = copied.last().map(|record| (record.key.clone(), record.value.clone()));
            (last != newest).then(|| format!("{last:?} is not {newest:?}"))
        })
        .await;
        engine.shutdown().await;
        assert_eq!(latest(&world, true), latest(&world, false), "round {round}");
    }
    assert_eq!(world.target.violations(), Vec::<String>::new());
}

/// The newest value of every key that has one: what compaction must keep.
fn latest(world: &World, source: bool) -> BTreeMap<Bytes, Bytes> {
    let records =
        if source { world.source_records("orders", 0) } else { world.target_records("orders", 0) };
    let mut latest = BTreeMap::new();
    for record in records {
        let Some(key) = record.key else { continue };
        match record.value {
            Some(value) => latest.insert(key, value),
            None => latest.remove(&key),
        };
    }
    latest
}

/// Retention takes what nobody has copied: a gap, and not a silence.
#[tokio::test(start_paused = true)]
async fn what_the_sources_retention_took_is_a_gap() {
    let world = World::new(33, 1);
    world.source.create_topic("orders", 1, &[("retention.ms", "60000")]).unwrap();
    world.source.append("orders", 0, &[keyed(1, 1), keyed(2, 2)]).unwrap();
    let engine = world.start();
    world.until_equal(&one()).await;
    engine.shutdown().await;
    world.source.append("orders", 0, &[keyed(3, 3)]).unwrap();
    tokio::time::advance(Duration::from_secs(61)).await;
    world.source.retain("orders", 0).unwrap();
    assert_eq!(world.source.log_start("orders", 0), 3);
    world.source.append("orders", 0, &[keyed(4, 4)]).unwrap();
    let engine = world.start();
    until("the gap is found", || {
        let report = engine.report();
        let flow = report.flows.values().next()?;
        let found = flow.stopped.values().find(|stop| stop.code == Code::SourceGap);
        let range = found.and_then(|stop| stop.range).map(|(from, to)| (from.0, to.0));
        (range != Some((2, 3))).then(|| format!("{range:?}"))
    })
    .await;
    engine.shutdown().await;
}
