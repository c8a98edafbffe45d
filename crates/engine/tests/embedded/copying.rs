//! What is copied, and what stops a partition.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_client::ErrorCode;
use twinlog_embedded::{Action, Fault, NewRecord};
use twinlog_flow::copy::Stop;
use twinlog_protocol::ApiKey;
use twinlog_types::{Code, SourceOffset, TopicName, TopicPartition};

use crate::support::{World, until};

fn numbered(from: usize, to: usize) -> Vec<NewRecord> {
    (from..to)
        .map(|n| {
            NewRecord::new(format!("key-{}", n % 7), format!("value-{n}")).header("n", Some("1"))
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn every_record_arrives_once_and_in_order() {
    let world = World::new(1, 1);
    world.source.create_topic("orders", 3, &[]).unwrap();
    for partition in 0..3 {
        for batch in 0..20 {
            let records = numbered(batch * 50, batch * 50 + 50);
            world.source.append("orders", partition, &records).unwrap();
        }
    }
    let engine = world.start();
    let topics = BTreeMap::from([("orders".to_owned(), 3)]);
    world.until_equal(&topics).await;
    world.source.append("orders", 1, &numbered(1000, 1010)).unwrap();
    world.until_equal(&topics).await;
    engine.shutdown().await;
    assert_eq!(world.target.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn aborted_records_and_markers_stay_behind() {
    let world = World::new(2, 1);
    world.source.create_topic("tx", 1, &[]).unwrap();
    for n in 0..10 {
        let mut transaction = world.source.begin_transaction();
        world.source.append_in(&mut transaction, "tx", 0, &numbered(n * 5, n * 5 + 5)).unwrap();
        world.source.end_transaction(transaction, n % 3 != 0).unwrap();
    }
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("tx".to_owned(), 1)])).await;
    assert_eq!(world.target_records("tx", 0).len(), 30);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_where_the_last_one_stopped() {
    let world = World::new(3, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    for round in 0..4 {
        world.source.append("orders", 0, &numbered(round * 10, round * 10 + 10)).unwrap();
        let engine = world.start();
        world.until_equal(&topics).await;
        if round % 2 == 0 {
            engine.shutdown().await;
        } else {
            // As a SIGKILL would end it.
            drop(engine);
        }
    }
    assert_eq!(world.target_records("orders", 0).len(), 40);
}

#[tokio::test(start_paused = true)]
async fn new_topics_and_partitions_are_mirrored_within_five_seconds() {
    let world = World::new(4, 1);
    world.source.create_topic("first", 1, &[]).unwrap();
    let engine = world.start();
    until("the first topic", || {
        (!world.target.topics().contains(&"hello.first".to_owned())).then(|| "absent".to_owned())
    })
    .await;
    let began = tokio::time::Instant::now();
    world.source.create_topic("second", 1, &[]).unwrap();
    world.source.append("second", 0, &numbered(0, 5)).unwrap();
    world.until_equal(&BTreeMap::from([("second".to_owned(), 1)])).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let began = tokio::time::Instant::now();
    world.source.add_partitions("first", 2);
    world.source.append("first", 1, &numbered(0, 5)).unwrap();
    world.until_equal(&BTreeMap::from([("first".to_owned(), 2)])).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_gap_stops_its_partition_and_no_other() {
    let world = World::new(5, 1);
    world.source.create_topic("orders", 2, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    world.source.append("orders", 1, &numbered(0, 10)).unwrap();
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("orders".to_owned(), 2)])).await;
    engine.shutdown().await;
    world.source.append("orders", 0, &numbered(10, 30)).unwrap();
    world.source.append("orders", 1, &numbered(10, 30)).unwrap();
    world.source.delete_records("orders", 0, 25).unwrap();
    let engine = world.start();
    until("the gap is found", || {
        let report = engine.report();
        let flow = report.flows.values().next()?;
        flow.stopped
            .values()
            .all(|stop| stop.code != Code::SourceGap)
            .then(|| format!("{:?}", flow.stopped))
    })
    .await;
    until("the other partition goes on", || world.difference("orders", 1)).await;
    let report = engine.report();
    let stopped: Vec<_> = report.flows.values().flat_map(|flow| flow.stopped.values()).collect();
    assert_eq!(stopped.len(), 1);
    let (from, to) = stopped[0].range.unwrap();
    assert_eq!((from.0, to.0), (10, 25));
    assert_eq!(world.target_records("orders", 0).len(), 10, "nothing is copied past a gap");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_topic_made_again_is_never_appended_to_its_old_mirror() {
    let world = World::new(6, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("orders".to_owned(), 1)])).await;
    world.source.recreate_topic("orders").unwrap();
    world.source.append("orders", 0, &numbered(100, 150)).unwrap();
    until("the topic is known to be another", || {
        let report = engine.report();
        let flow = report.flows.values().next()?;
        let code = flow.topics.get(&TopicName::from("orders")).map(|(code, _)| *code);
        (code != Some(Code::TopicRecreated)).then(|| format!("{code:?}"))
    })
    .await;
    assert_eq!(world.target_records("orders", 0).len(), 10);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_holds_foreign_records_is_left_alone() {
    let world = World::new(7, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    world.target.create_topic("hello.orders", 1, &[]).unwrap();
    world.target.append("hello.orders", 0, &numbered(0, 3)).unwrap();
    let engine = world.start();
    until("it is said", || {
        let report = engine.report();
        let flow = report.flows.values().next()?;
        (!flow.stopped.values().any(|stop| stop.code == Code::TargetNotEmpty))
            .then(|| "not said".to_owned())
    })
    .await;
    assert_eq!(world.target_records("orders", 0).len(), 3);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_target_lost_is_noticed_before_the_next_batch_and_copied_again() {
    let world = World::new(8, 3);
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 60)).unwrap();
    let engine = world.start();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    world.until_equal(&topics).await;
    world.source.append("orders", 0, &numbered(60, 100)).unwrap();
    world.until_equal(&topics).await;
    assert!(world.target.lose_tail("hello.orders", 0, 60));
    world.source.append("orders", 0, &numbered(100, 120)).unwrap();
    world.until_equal(&topics).await;
    let report = engine.report();
    let events: Vec<_> = report.flows.values().flat_map(|flow| &flow.events).collect();
    assert!(events.iter().any(|event| event.code == Code::TargetTruncated), "{events:?}");
    engine.shutdown().await;
}

/// How one partition stopped, once it has.
async fn stop_of(engine: &twinlog_engine::Engine, topic: &str, partition: i32) -> Stop {
    let wanted = TopicPartition::new(topic, partition);
    let mut found = None;
    until("the partition stops", || {
        let report = engine.report();
        found = report.flows.values().find_map(|flow| flow.stopped.get(&wanted).cloned());
        found.is_none().then(|| format!("{:?}", report.flows))
    })
    .await;
    found.expect("it was found")
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_batch_with_a_wrong_checksum_reaches_the_target() {
    let world = World::new(31, 1);
    world.source.create_topic("orders", 2, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    world.source.append("orders", 1, &numbered(0, 10)).unwrap();
    let sound = world.source.batches("orders", 0).remove(0);
    let mut broken = sound.to_vec();
    let last = broken.len() - 1;
    broken[last] ^= 1;
    world.source.append_raw("orders", 0, &broken.into()).unwrap();
    world.source.append("orders", 0, &numbered(10, 20)).unwrap();
    let engine = world.start();
    let stop = stop_of(&engine, "orders", 0).await;
    assert_eq!(stop.code, Code::CorruptBatch);
    assert_eq!(stop.range.map(|(from, _)| from.0), Some(10), "{stop:?}");
    until("the other partition goes on", || world.difference("orders", 1)).await;
    // What came before the broken batch is sound, and copied; nothing from it on is.
    assert_eq!(world.target_records("orders", 0).len(), 10);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_the_target_refuses_stops_its_partition_and_no_other() {
    let world = World::new(32, 1);
    world.source.create_topic("orders", 2, &[]).unwrap();
    world.target.create_topic("hello.orders", 2, &[("cleanup.policy", "compact")]).unwrap();
    world.source.append("orders", 1, &numbered(0, 10)).unwrap();
    let keyless = NewRecord { key: None, ..NewRecord::new("", "value") };
    world.source.append("orders", 0, &[keyless]).unwrap();
    let engine = world.start_with("hello->world.sync.topic.configs.enabled = false");
    let stop = stop_of(&engine, "orders", 0).await;
    assert_eq!(stop.code, Code::RefusedByTarget, "{stop:?}");
    until("the other partition goes on", || world.difference("orders", 1)).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_too_large_stops_its_partition_and_goes_on_when_it_may() {
    let world = World::new(33, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.target.create_topic("hello.orders", 1, &[("max.message.bytes", "1000")]).unwrap();
    world.source.append("orders", 0, &numbered(0, 100)).unwrap();
    world.source.append("orders", 0, &[NewRecord::new("key", "x".repeat(2_000))]).unwrap();
    world.source.append("orders", 0, &numbered(100, 110)).unwrap();
    let engine = world.start_with("hello->world.sync.topic.configs.enabled = false");
    let stop = stop_of(&engine, "orders", 0).await;
    assert_eq!(stop.code, Code::RecordTooLarge, "{stop:?}");
    assert_eq!(world.target_records("orders", 0).len(), 100, "all before it are there");
    world.target.alter_config("hello.orders", "max.message.bytes", Some("100000")).unwrap();
    world.until_equal(&BTreeMap::from([("orders".to_owned(), 1)])).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_breaks_the_protocol_is_not_asked_without_a_pause() {
    let world = World::new(34, 1);
    world.target.fault(Fault::new(Action::WrongCorrelationId).always());
    let engine = world.start();
    let began = tokio::time::Instant::now();
    until("ten seconds of the paused clock", || {
        (began.elapsed() < Duration::from_secs(10)).then(String::new)
    })
    .await;
    let asked = world.target.requests().len();
    assert!(asked < 200, "{asked} requests in ten seconds");
    engine.shutdown().await;
}

/// A broker forgets an idle producer; a packet of a connection that is long gone comes in then.
#[tokio::test(start_paused = true)]
async fn a_broker_that_takes_a_late_packet_for_our_newest_batch_is_gone_on_with_as_another() {
    let world = World::new(35, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let engine = world.start();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    for from in [0, 10] {
        world.source.append("orders", 0, &numbered(from, from + 10)).unwrap();
        world.until_equal(&topics).await;
    }
    let late = world.target.batches("hello.orders", 0).remove(0);
    world.target.expire_producers("hello.orders", 0);
    assert_eq!(world.target.append_batch("hello.orders", 0, &late), Ok(20));
    world.source.append("orders", 0, &numbered(20, 30)).unwrap();
    let behind = || {
        let records = world.target_records("orders", 0);
        records.into_iter().filter(|record| record.offset >= 30).map(|record| record.value)
    };
    until("what is new is copied behind the late packet", || {
        (behind().count() < 10).then(|| format!("{:?}", engine.report().flows))
    })
    .await;
    let expected: Vec<_> = numbered(20, 30).into_iter().map(|record| record.value).collect();
    assert_eq!(behind().collect::<Vec<_>>(), expected);
    engine.shutdown().await;
}

/// For ten seconds the source answers every fetch like this, at once and without records.
async fn the_source_is_asked_with_pauses_when(seed: u64, action: Action) {
    let world = World::new(seed, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    let engine = world.start();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    world.until_equal(&topics).await;
    // Whoever asks without a pause uses them up at once: the paused clock would never go on.
    world.source.fault(Fault::new(action).api(ApiKey::Fetch).times(2_000));
    world.source.clear_requests();
    let asked = || world.source.requests().iter().filter(|one| one.api == ApiKey::Fetch).count();
    until("the fetch that waited before is over", || (asked() == 0).then(String::new)).await;
    world.source.append("orders", 0, &numbered(10, 20)).unwrap();
    let began = tokio::time::Instant::now();
    until("ten seconds of the paused clock", || {
        (began.elapsed() < Duration::from_secs(10)).then(String::new)
    })
    .await;
    assert!((5..=30).contains(&asked()), "{} fetches in ten seconds", asked());
    assert_eq!(world.target_records("orders", 0).len(), 10, "it has brought something");
    world.source.clear_faults();
    world.until_equal(&topics).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_answers_at_once_and_brings_nothing_is_asked_with_pauses() {
    // An answer that names no partition, as under a quota, without a time to wait.
    the_source_is_asked_with_pauses_when(36, Action::Throttle(Duration::ZERO)).await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_contradicts_itself_about_its_range_is_asked_with_pauses() {
    // ListOffsets has the offset all the same.
    let outside = ErrorCode::OFFSET_OUT_OF_RANGE.0;
    the_source_is_asked_with_pauses_when(37, Action::Answer(outside)).await;
}

/// A batch waits for a connection to a broker that stands still, while another one takes over.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_connection_to_a_frozen_broker_goes_to_the_new_leader() {
    let world = World::new(38, 3);
    world.source.create_topic("orders", 1, &[]).unwrap();
    // What this owner has not sent yet needs no new state, and has no connection.
    let quiet = "emit.heartbeats.enabled = false";
    let engine = world.start_with(quiet);
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    world.source.append("orders", 0, &numbered(0, 10)).unwrap();
    world.until_equal(&topics).await;
    engine.shutdown().await;
    let engine = world.start_with(quiet);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (leader, _) = world.target.leader("hello.orders", 0).unwrap();
    world.target.pause_broker(leader);
    world.source.append("orders", 0, &numbered(10, 20)).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.target.move_leader("hello.orders", 0, leader % 3 + 1));
    let began = tokio::time::Instant::now();
    world.until_equal(&topics).await;
    // The broker is out of sync nine seconds after it froze, and a dial is given up after ten.
    let took = began.elapsed();
    assert!(took < Duration::from_millis(8_500), "it waited for the frozen one: {took:?}");
    engine.shutdown().await;
}

/// A new owner finds records that its forerunner had not stored as copied; the source loses them, and
/// has others in their places before anything is fetched again.
#[tokio::test(start_paused = true)]
async fn what_the_source_lost_behind_a_new_owners_back_stops_its_partition() {
    let world = World::new(39, 1);
    world.source.create_topic("orders", 1, &[]).unwrap();
    let topics = BTreeMap::from([("orders".to_owned(), 1)]);
    let engine = world.start();
    for from in [0, 5] {
        world.source.append("orders", 0, &numbered(from, from + 5)).unwrap();
        world.until_equal(&topics).await;
    }
    drop(engine);
    let engine = world.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.source.lose_tail("orders", 0, 5));
    world.source.append("orders", 0, &numbered(100, 120)).unwrap();
    let stop = stop_of(&engine, "orders", 0).await;
    assert_eq!(stop.code, Code::SourceTruncated, "{}", stop.reason);
    assert_eq!(stop.range, Some((SourceOffset(5), SourceOffset(10))));
    assert_eq!(world.target_records("orders", 0).len(), 10);
    engine.shutdown().await;
}
