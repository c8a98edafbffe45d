//! Mirrors that somebody else began: MM2, as the records that it leaves say, or whoever else.

use std::collections::BTreeMap;

use twinlog_embedded::{Isolation, NewRecord, Record};
use twinlog_engine::observe::FlowObservation;
use twinlog_engine::{Engine, Existing};
use twinlog_mirror::SyncTranslation;
use twinlog_mirror::formats::OffsetSync;
use twinlog_mirror::formats::connect::{CopyPosition, SOURCE_CONNECTOR, partition_of_key};
use twinlog_types::{Code, SourceOffset, State, TargetOffset, TopicPartition, Translation};

use crate::support::{World, until};

const OFFSETS: &str = "mm2-offsets.hello.internal";
const SYNCS: &str = "mm2-offset-syncs.world.internal";

fn one() -> BTreeMap<String, i32> {
    BTreeMap::from([("orders".to_owned(), 1)])
}

fn records(numbers: std::ops::Range<u64>) -> Vec<NewRecord> {
    numbers.map(|n| NewRecord::new(format!("key-{n}"), format!("value-{n}"))).collect()
}

/// Copies as MM2 does: as plain new records.
fn copy(world: &World, of: &[Record]) {
    let copied: Vec<NewRecord> = of
        .iter()
        .map(|record| NewRecord {
            key: record.key.clone(),
            value: record.value.clone(),
            headers: record.headers.clone(),
            timestamp: Some(record.timestamp),
        })
        .collect();
    for chunk in copied.chunks(500) {
        world.target.append("hello.orders", 0, chunk).unwrap();
    }
}

/// MM2 stored that it copied up to `last`.
fn stored(world: &World, connector: &str, topic: &str, last: i64) {
    if !world.target.topics().contains(&topic.to_owned()) {
        world.target.create_topic(topic, 25, &[("cleanup.policy", "compact")]).unwrap();
    }
    let position = CopyPosition {
        connector: connector.to_owned(),
        cluster: "hello".into(),
        topic: "orders".into(),
        partition: 0,
    };
    let key = position.key();
    let place = partition_of_key(&key, 25);
    let record = NewRecord {
        key: Some(key),
        value: Some(CopyPosition::value(last)),
        ..NewRecord::default()
    };
    world.target.append(topic, place, &[record]).unwrap();
}

fn synced(world: &World, pairs: &[(i64, i64)]) {
    if !world.source.topics().contains(&SYNCS.to_owned()) {
        world.source.create_topic(SYNCS, 1, &[("cleanup.policy", "compact")]).unwrap();
    }
    for &(upstream, downstream) in pairs {
        let sync = OffsetSync { topic: "orders".into(), partition: 0, upstream, downstream };
        let (key, value) = (Some(sync.key()), Some(sync.value()));
        let record = NewRecord { key, value, ..NewRecord::default() };
        world.source.append(SYNCS, 0, &[record]).unwrap();
    }
}

/// The source has `written` records, of which `copied` are on the target.
fn half(seed: u64, written: u64, copied: usize) -> World {
    let world = World::new(seed, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    for from in (0..written).step_by(500) {
        world.source.append("orders", 0, &records(from..(from + 500).min(written))).unwrap();
    }
    world.target.create_topic("hello.orders", 1, &[]).unwrap();
    let all = world.source.records("orders", 0, Isolation::ReadUncommitted);
    copy(&world, &all[..copied]);
    world
}

async fn until_stopped(engine: &Engine, code: Code) -> String {
    until("it happens", || {
        let board = engine.report().flows;
        let stop = board.values().flat_map(|flow| flow.stopped.values()).next().cloned();
        match stop {
            Some(stop) if stop.code == code => None,
            other => Some(format!("{other:?}")),
        }
    })
    .await;
    let board = engine.report().flows;
    let stop = board.values().flat_map(|flow| flow.stopped.values()).next().cloned();
    stop.map(|stop| stop.reason).unwrap_or_default()
}

async fn until_group_at(world: &World, group: &str, offset: i64) {
    until("it happens", || {
        let at = world.committed_on_target(group, "orders", 0);
        (at != Some(offset)).then(|| format!("{group} stands at {at:?}, not {offset}"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn mm2s_uncommitted_tail_is_found_and_nothing_is_copied_twice() {
    // MM2 died with 1,700 records copied, of which it had stored 1,200.
    let world = half(51, 3_000, 1_700);
    stored(&world, SOURCE_CONNECTOR, OFFSETS, 1_199);
    synced(&world, &[(0, 0), (1_199, 1_199)]);
    for (group, at) in [("early", 17), ("middle", 888), ("tail", 1_650), ("end", 3_000)] {
        world.source.commit_offset(group, "orders", 0, at).unwrap();
    }
    let engine = world.start();
    world.until_equal(&one()).await;
    for (group, at) in [("early", 17), ("middle", 888), ("tail", 1_650), ("end", 3_000)] {
        until_group_at(&world, group, at).await;
    }
    engine.shutdown().await;
    // What was found out stands in the state: a later owner and who looks from outside know it.
    let mirror = world.observer("").mirror().await.expect("it can be looked at");
    let asked = [TopicPartition::new("orders", 0)];
    let maps = mirror.of_source(&asked).await.expect("the state is read");
    let map = &maps[0].as_ref().expect("it is mirrored").map;
    assert_eq!(map.translate(SourceOffset(17)), Translation::Exact(TargetOffset(17)));
    assert_eq!(map.unknown_at(SourceOffset(888)), None);
    assert!(map.before().is_some());
    world.source.append("orders", 0, &records(3_000..3_100)).unwrap();
    let engine = world.start();
    world.until_equal(&one()).await;
    engine.shutdown().await;
    assert_eq!(world.difference("orders", 0), None);
    // And MM2 would go on with the next record.
    let positions = last_position(&world, OFFSETS, SOURCE_CONNECTOR);
    assert_eq!(positions, Some(3_099));
}

fn last_position(world: &World, topic: &str, connector: &str) -> Option<i64> {
    let mut last = None;
    for partition in 0..25 {
        for record in world.target.records(topic, partition, Isolation::ReadCommitted) {
            let Some(key) = CopyPosition::decode_key(record.key.as_deref()) else { continue };
            if key.connector == connector && key.topic.as_str() == "orders" {
                last = CopyPosition::decode_value(record.value.as_deref());
            }
        }
    }
    last
}

#[tokio::test(start_paused = true)]
async fn without_offset_syncs_the_end_is_found_by_contents_alone() {
    let world = half(52, 6_000, 4_321);
    stored(&world, SOURCE_CONNECTOR, OFFSETS, 900);
    world.source.commit_offset("early", "orders", 0, 17).unwrap();
    let engine = world.start();
    world.until_equal(&one()).await;
    until_group_at(&world, "early", 17).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_connect_clusters_positions_are_found_and_kept() {
    let world = half(53, 1_000, 600);
    stored(&world, "my-mm2", "connect-offsets", 550);
    let engine = world.start();
    world.until_equal(&one()).await;
    engine.shutdown().await;
    assert_eq!(last_position(&world, "connect-offsets", "my-mm2"), Some(999));
    assert!(!world.target.topics().contains(&OFFSETS.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_position_that_contents_contradict_is_not_believed() {
    let world = half(54, 1_000, 0);
    world.target.append("hello.orders", 0, &records(5_000..5_500)).unwrap();
    stored(&world, SOURCE_CONNECTOR, OFFSETS, 499);
    let engine = world.start();
    let reason = until_stopped(&engine, Code::TargetNotEmpty).await;
    assert!(reason.contains("nowhere on the source"), "{reason}");
    engine.shutdown().await;
    assert_eq!(world.target_records("orders", 0).len(), 500);
}

#[tokio::test(start_paused = true)]
async fn what_nothing_explains_is_matched_or_appended_to_when_the_operator_says_so() {
    let world = half(55, 1_000, 700);
    let engine = world.start();
    let reason = until_stopped(&engine, Code::TargetNotEmpty).await;
    assert!(reason.contains("--existing match"), "{reason}");
    engine.shutdown().await;
    let engine = world.start_existing(Some(Existing::Match));
    world.until_equal(&one()).await;
    engine.shutdown().await;
    // It is in the state from then on.
    let engine = world.start();
    world.source.append("orders", 0, &records(1_000..1_100)).unwrap();
    world.until_equal(&one()).await;
    engine.shutdown().await;

    let world = half(56, 100, 0);
    world.target.append("hello.orders", 0, &records(5_000..5_010)).unwrap();
    world.source.commit_offset("g", "orders", 0, 40).unwrap();
    let engine = world.start_existing(Some(Existing::Match));
    until_stopped(&engine, Code::TargetNotEmpty).await;
    engine.shutdown().await;
    let engine = world.start_existing(Some(Existing::Append));
    until_group_at(&world, "g", 50).await;
    engine.shutdown().await;
    let target = world.target_records("orders", 0);
    assert_eq!(target.len(), 110);
    let observer = world.observer("");
    let mut found = FlowObservation::new(observer.config.name.clone());
    observer.observe(&mut found).await;
    let topic = found.topics.iter().find(|topic| topic.topic.as_str() == "orders").expect("orders");
    assert_eq!(topic.partitions[0].standing.code, None);
}

#[tokio::test(start_paused = true)]
async fn records_that_mm2_copied_although_they_were_aborted_are_matched_too() {
    let world = World::new(57, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    for round in 0..40 {
        let mut transaction = world.source.begin_transaction();
        let rows = records(round * 10..round * 10 + 10);
        world.source.append_in(&mut transaction, "orders", 0, &rows).unwrap();
        world.source.end_transaction(transaction, round % 2 == 0).unwrap();
    }
    world.target.create_topic("hello.orders", 1, &[]).unwrap();
    let all = world.source.records("orders", 0, Isolation::ReadUncommitted);
    assert_eq!(all.len(), 400);
    copy(&world, &all[..300]);
    stored(&world, SOURCE_CONNECTOR, OFFSETS, all[250].offset);
    // The record 205 of MM2's copy is behind 20 markers.
    let at = all[205].offset;
    world.source.commit_offset("g", "orders", 0, at).unwrap();
    let engine = world.start();
    until_group_at(&world, "g", 205).await;
    until("it happens", || {
        let copied = world.target_records("orders", 0).len();
        // From there on aborted records stay behind.
        (copied != 350).then(|| format!("{copied} records"))
    })
    .await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stretch_that_does_not_match_leaves_a_lower_bound_and_says_so() {
    let world = half(58, 6_000, 0);
    let mut all = world.source.records("orders", 0, Isolation::ReadUncommitted);
    for record in &mut all[1_000..5_000] {
        record.value = Some("something else".into());
    }
    copy(&world, &all[..5_500]);
    stored(&world, SOURCE_CONNECTOR, OFFSETS, 5_499);
    synced(&world, &[(0, 0), (5_499, 5_499)]);
    world.source.commit_offset("before", "orders", 0, 500).unwrap();
    world.source.commit_offset("inside", "orders", 0, 3_000).unwrap();
    let engine = world.start();
    until_group_at(&world, "before", 500).await;
    until_group_at(&world, "inside", 1_000).await;
    until("it happens", || {
        let board = engine.report().flows;
        let said = board.values().flat_map(|flow| &flow.events);
        let said = said.filter(|event| event.code == Code::TranslationCoarse).count();
        (said == 0).then(|| "nothing is said".to_owned())
    })
    .await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_mm2_copied_after_us_is_taken_over_when_we_are_back() {
    let world = half(59, 1_000, 400);
    stored(&world, SOURCE_CONNECTOR, OFFSETS, 399);
    let engine = world.start();
    world.until_equal(&one()).await;
    engine.shutdown().await;
    // MM2 goes on, and dies before it stores how far it came.
    world.source.append("orders", 0, &records(1_000..1_500)).unwrap();
    let all = world.source.records("orders", 0, Isolation::ReadUncommitted);
    copy(&world, &all[1_000..1_300]);
    for (group, at) in [("mm2", 17), ("ours", 700), ("again", 1_200)] {
        world.source.commit_offset(group, "orders", 0, at).unwrap();
    }
    let engine = world.start();
    world.until_equal(&one()).await;
    for (group, at) in [("mm2", 17), ("ours", 700), ("again", 1_200)] {
        until_group_at(&world, group, at).await;
    }
    engine.shutdown().await;
    assert_eq!(last_position(&world, OFFSETS, SOURCE_CONNECTOR), Some(1_499));
    let engine = world.start();
    world.source.append("orders", 0, &records(1_500..1_600)).unwrap();
    world.until_equal(&one()).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn offset_syncs_alone_explain_what_mm2_copied_within_its_first_minute() {
    let world = half(60, 2_000, 1_234);
    synced(&world, &[(0, 0), (101, 101)]);
    let engine = world.start();
    world.until_equal(&one()).await;
    engine.shutdown().await;
}

/// State and code of the only partition, and its reason.
fn of_partition(found: &FlowObservation) -> (State, Option<Code>, String) {
    let topic = found.topics.iter().find(|topic| topic.topic.as_str() == "orders").expect("orders");
    let standing = &topic.partitions[0].standing;
    assert_eq!((topic.standing.state, topic.standing.code), (standing.state, standing.code));
    (standing.state, standing.code, standing.reason.clone().unwrap_or_default())
}

async fn seen(world: &World) -> FlowObservation {
    let observer = world.observer("");
    let mut found = FlowObservation::new(observer.config.name.clone());
    observer.observe(&mut found).await;
    observer.observe_mm2(&mut found).await;
    assert_eq!(found.missing, []);
    found
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_mm2_makes_is_told_as_mm2s_by_whoever_never_ran_it() {
    let world = half(3_210, 1_000, 1_000);
    stored(&world, SOURCE_CONNECTOR, OFFSETS, 850);
    synced(&world, &[(0, 0), (900, 900)]);
    world.source.commit_offset("early", "orders", 0, 950).unwrap();
    world.source.commit_offset("late", "orders", 0, 900).unwrap();
    world.target.commit_offset("late", "hello.orders", 0, 900).unwrap();
    world.source.commit_offset("coarse", "orders", 0, 899).unwrap();
    world.target.commit_offset("coarse", "hello.orders", 0, 1).unwrap();
    world.target.set_members_of("hello-mm2", "connect");

    let found = seen(&world).await;
    assert_eq!((found.own.state, found.own.code), (State::Waiting, Some(Code::Mm2StillRuns)));
    let reason = found.standing().reason.unwrap_or_default();
    for part in [
        "MM2 makes this mirror (its worker group hello-mm2 on world has 1 member)",
        "no twinlog has ever run this flow",
        "`twinlog run FILE` would wait until MM2 is stopped",
        "`twinlog doctor FILE`",
        "`twinlog verify FILE`",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    // 100 records behind the newest offset-sync, and the position is older than both.
    let (state, code, told) = of_partition(&found);
    assert_eq!((state, code), (State::InSync, None), "{told}");
    assert!(told.contains("MM2 copied it up to about source offset 1000"), "{told}");
    let partition =
        &found.topics.iter().find(|one| one.topic.as_str() == "orders").unwrap().partitions[0];
    assert_eq!((partition.copied_to, partition.lag_records), (Some(1_000), Some(0)));
    // MM2's place of 950 is one behind its sync at 900, as OffsetSyncStore has it.
    let group = |name: &str| found.groups.iter().find(|one| one.group.as_str() == name).unwrap();
    let (early, late) = (&group("early").partitions[0], &group("late").partitions[0]);
    assert_eq!(early.standing.state, State::CatchingUp);
    let told = early.standing.reason.clone().unwrap_or_default();
    assert!(told.contains("no commit on the target, MM2 translates 950 to 901"), "{told}");
    assert!(told.contains("`twinlog doctor FILE --group 'early'`"), "{told}");
    let stands = (late.standing.state, late.standing.code, late.translation);
    assert_eq!(stands, (State::InSync, None, "unknown"));
    // As MM2 has it, and 898 records back: more than two intervals of its syncs explain.
    let coarse = &group("coarse").partitions[0].standing;
    assert_eq!((coarse.state, coarse.code), (State::InSync, Some(Code::TranslationCoarse)));
    let told = coarse.reason.clone().unwrap_or_default();
    assert!(told.contains("MM2 translates 899 to 1, up to 898 records before its place"), "{told}");

    let observer = world.observer("");
    let orders = TopicPartition::new("orders", 0);
    let mm2 = observer.mm2().await.unwrap().expect("MM2's");
    let answer = mm2.answer(&orders, SourceOffset(950));
    assert_eq!(answer.translation, SyncTranslation::To(TargetOffset(901)));
    assert_eq!(answer.sync, Some((SourceOffset(900), TargetOffset(900))));
    assert!(mm2.by().runs.is_some_and(|who| who.contains("hello-mm2")));

    // What came since waits for MM2.
    world.source.append("orders", 0, &records(1_000..1_020)).unwrap();
    let (state, code, told) = of_partition(&seen(&world).await);
    assert_eq!((state, code), (State::CatchingUp, None), "{told}");
    assert!(told.contains("about 20 offsets of the source wait"), "{told}");
    // Also what `run` would take over is counted so.
    let plan = observer.plan_run().await.unwrap();
    assert_eq!(plan.partitions[0].waiting, 20);

    // Stopped, it is told as such, and taken over by who runs it then.
    assert!(world.target.delete_group("hello-mm2"));
    let found = seen(&world).await;
    assert_eq!((found.own.state, found.own.code), (State::Waiting, Some(Code::MirrorNotRunning)));
    let reason = found.standing().reason.unwrap_or_default();
    assert!(reason.contains("MM2 made this mirror (1 partition) and does not run now"), "{reason}");
    assert!(reason.contains("`twinlog run FILE` takes the mirror over where it ends"), "{reason}");
    let (state, code, _) = of_partition(&found);
    assert_eq!((state, code), (State::Waiting, Some(Code::MirrorNotRunning)));
    let engine = world.start();
    world.until_equal(&one()).await;
    engine.shutdown().await;
    let found = seen(&world).await;
    assert_eq!(found.mm2, None, "it is ours now");
    assert!(observer.mm2().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn records_of_neither_are_not_told_as_mm2s() {
    let world = half(3_211, 100, 50);
    let found = seen(&world).await;
    assert_eq!(found.mm2, None);
    let (state, code, _) = of_partition(&found);
    assert_eq!((state, code), (State::Stopped, Some(Code::TargetNotEmpty)));
}
