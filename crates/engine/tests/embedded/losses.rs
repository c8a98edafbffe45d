//! What is lost on the source: stopped, or gone on behind and recorded.

use std::collections::BTreeMap;

use twinlog_embedded::NewRecord;
use twinlog_engine::observe::{FlowObservation, GroupPosition, PartitionObservation};
use twinlog_types::{Code, SourceOffset, State, TopicName, TopicPartition, Translation};

use crate::support::{World, until};

fn numbered(from: usize, to: usize) -> Vec<NewRecord> {
    (from..to).map(|n| NewRecord::new(format!("k{n}"), format!("t/0/{n}"))).collect()
}

pub(crate) async fn look(world: &World, extra: &str) -> FlowObservation {
    let observer = world.observer(extra);
    let mut found = FlowObservation::new(observer.config.name.clone());
    observer.observe(&mut found).await;
    assert!(found.missing.is_empty(), "{:?}", found.missing);
    found
}

pub(crate) fn partition<'a>(
    found: &'a FlowObservation,
    topic: &str,
    partition: usize,
) -> &'a PartitionObservation {
    let topic = found.topics.iter().find(|one| one.topic.as_str() == topic).unwrap();
    &topic.partitions[partition]
}

pub(crate) fn position<'a>(found: &'a FlowObservation, group: &str) -> &'a GroupPosition {
    let group = found.groups.iter().find(|one| one.group.as_str() == group).unwrap();
    &group.partitions[0]
}

/// Records 0 to 99 mirrored, g at 60 and h at 100; then 100 to 299 come while nothing copies, h goes
/// on to 150, and the source deletes up to 250.
async fn overtaken(seed: u64, extra: &str) -> World {
    let world = World::new(seed, 1);
    world.source.create_topic("t", 2, &[]).unwrap();
    world.source.append("t", 0, &numbered(0, 100)).unwrap();
    world.source.append("t", 1, &numbered(0, 10)).unwrap();
    world.source.commit_offset("g", "t", 0, 60).unwrap();
    world.source.commit_offset("h", "t", 0, 100).unwrap();
    let engine = world.start_with(extra);
    world.until_equal(&BTreeMap::from([("t".to_owned(), 2)])).await;
    until("the groups are there", || {
        let stand = [("g", 60), ("h", 100)]
            .map(|(group, at)| world.committed_on_target(group, "t", 0) == Some(at));
        (stand != [true, true]).then(String::new)
    })
    .await;
    engine.shutdown().await;
    world.source.append("t", 0, &numbered(100, 300)).unwrap();
    world.source.commit_offset("h", "t", 0, 150).unwrap();
    world.source.delete_records("t", 0, 250).unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn loss_1_a_gap_stops_its_partition_with_the_range_and_the_command_to_go_on() {
    let world = overtaken(101, "").await;
    let engine = world.start();
    world.source.append("t", 1, &numbered(10, 30)).unwrap();
    until("the other partition goes on", || world.difference("t", 1)).await;
    until("it is stopped", || {
        let report = engine.report();
        let flow = report.flows.values().next()?;
        let stopped = flow.stopped.values().any(|stop| stop.code == Code::SourceGap);
        (!stopped).then(String::new)
    })
    .await;
    let found = look(&world, "").await;
    let stopped = partition(&found, "t", 0);
    assert_eq!(
        (stopped.standing.state, stopped.standing.code),
        (State::Stopped, Some(Code::SourceGap))
    );
    let reason = stopped.standing.reason.clone().unwrap();
    assert!(reason.contains("100 to 249"), "{reason}");
    assert!(reason.contains("twinlog resume FILE --topic 't' --accept-gap"), "{reason}");
    assert_eq!(partition(&found, "t", 1).standing.state, State::InSync);
    assert_eq!(world.target_records("t", 0).len(), 100);
    engine.shutdown().await;
}

/// What is true once the copy has gone on behind the gap.
async fn gone_on(world: &World, extra: &str) {
    until("what is left is copied", || {
        let copied = world.target_records("t", 0).len();
        (copied != 150).then(|| format!("{copied}"))
    })
    .await;
    let records = world.target_records("t", 0);
    let values: Vec<_> = records.iter().skip(99).take(2).map(|one| one.value.clone()).collect();
    assert_eq!(values, [Some("t/0/99".into()), Some("t/0/250".into())]);
    assert_eq!((records[100].offset, records[149].offset), (100, 149));
    until("h has moved", || {
        let at = world.committed_on_target("h", "t", 0);
        (at != Some(100)).then(|| format!("{at:?}"))
    })
    .await;
    assert_eq!(world.committed_on_target("g", "t", 0), Some(60));
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let found = look(world, extra).await;
    let there = partition(&found, "t", 0);
    assert_eq!(there.standing.state, State::InSync, "{:?}", there.standing);
    let ledger: Vec<_> = there.gaps.iter().map(|gap| (gap.from.0, gap.to.0, gap.why)).collect();
    assert_eq!(ledger, [(100, 250, Code::SourceGap)]);
    let h = position(&found, "h");
    assert_eq!(h.standing.code, Some(Code::BacklogNotOnTarget));
    let reason = h.standing.reason.clone().unwrap();
    assert!(reason.contains("100 records of this group's backlog are lost"), "{reason}");
    assert_eq!(h.target_offset, Some(100));
}

#[tokio::test(start_paused = true)]
async fn loss_1_with_the_policy_the_copy_goes_on_and_the_ledger_has_the_range_once() {
    let extra = "twinlog.on.source-gap = continue";
    let world = overtaken(102, extra).await;
    let engine = world.start_with(extra);
    gone_on(&world, extra).await;
    engine.shutdown().await;
    // A restart finds nothing new to lose.
    let engine = world.start_with(extra);
    world.source.append("t", 0, &numbered(300, 310)).unwrap();
    until("it goes on", || (world.target_records("t", 0).len() != 160).then(String::new)).await;
    assert_eq!(partition(&look(&world, extra).await, "t", 0).gaps.len(), 1);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn loss_1_an_operator_goes_on_behind_the_gap_that_was_seen_and_no_other() {
    use twinlog_offsets::state::{Accepted, Decided, Made, Subject};
    let world = overtaken(103, "").await;
    let observer = world.observer("");
    let pair = observer.pair().await.unwrap().unwrap();
    let topic = TopicName::from("t");
    let decide = async |at_ms: i64, copied_to: i64| {
        let accepted = vec![Accepted {
            partition: 0,
            code: Code::SourceGap,
            copied_to: SourceOffset(copied_to),
            source_topic: observer.source_topic_id(&topic).await.unwrap(),
        }];
        let made = Made { by: "me".into(), at_ms, what: Decided::Resume { accepted } };
        let subject = Subject::Topic(topic.clone(), None);
        observer.decide(&pair, &[(subject.clone(), made)]).await.unwrap();
        loop {
            let answers = observer.answers(&pair).await.unwrap();
            if let Some(answer) = answers.get(&subject).filter(|answer| answer.of_ms == at_ms) {
                return (answer.done, answer.text.clone());
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let engine = world.start();
    until("it is stopped", || {
        let report = engine.report();
        let flow = report.flows.values().next()?;
        flow.stopped.is_empty().then(String::new)
    })
    .await;
    let (done, text) = decide(1, 90).await;
    assert!(!done && text.contains("void"), "{text}");
    assert_eq!(world.target_records("t", 0).len(), 100);
    let (done, text) = decide(2, 100).await;
    assert!(done && text.contains("100 to 249 (150) are lost"), "{text}");
    gone_on(&world, "").await;
    engine.shutdown().await;
    // Known to the next owner as answered.
    let engine = world.start();
    world.source.append("t", 0, &numbered(300, 310)).unwrap();
    until("it goes on", || (world.target_records("t", 0).len() != 160).then(String::new)).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn loss_1_a_gap_that_is_accepted_while_nothing_runs_is_gone_on_behind_at_the_next_start() {
    use twinlog_offsets::state::{Accepted, Decided, Made, Subject};
    let world = overtaken(104, "").await;
    let observer = world.observer("");
    let pair = observer.pair().await.unwrap().unwrap();
    let topic = TopicName::from("t");
    let accepted = vec![Accepted {
        partition: 0,
        code: Code::SourceGap,
        copied_to: SourceOffset(100),
        source_topic: observer.source_topic_id(&topic).await.unwrap(),
    }];
    let made = Made { by: "me".into(), at_ms: 1, what: Decided::Resume { accepted } };
    observer.decide(&pair, &[(Subject::Topic(topic, None), made)]).await.unwrap();
    let engine = world.start();
    gone_on(&world, "").await;
    engine.shutdown().await;
}

fn of_new(from: usize, to: usize) -> Vec<NewRecord> {
    (from..to).map(|n| NewRecord::new(format!("k{n}"), format!("new/0/{n}"))).collect()
}

fn mirrored(seed: u64) -> World {
    let world = World::new(seed, 1);
    world.source.create_topic("t", 1, &[]).unwrap();
    world.source.append("t", 0, &numbered(0, 100)).unwrap();
    world.source.commit_offset("g", "t", 0, 100).unwrap();
    world
}

/// Made again with the flow running (10 records), or while nothing runs (150: more than before).
async fn made_again(
    seed: u64,
    running: bool,
    extra: &str,
) -> (World, twinlog_engine::Engine, usize) {
    let world = mirrored(seed);
    let engine = world.start_with(extra);
    world.until_equal(&BTreeMap::from([("t".to_owned(), 1)])).await;
    until("g is there", || (world.committed_on_target("g", "t", 0) != Some(100)).then(String::new))
        .await;
    let records = if running { 10 } else { 150 };
    let again = || {
        world.source.recreate_topic("t").unwrap();
        world.source.append("t", 0, &of_new(0, records)).unwrap();
        world.source.commit_offset("g", "t", 0, 5).unwrap();
    };
    if running {
        again();
        return (world, engine, records);
    }
    engine.shutdown().await;
    again();
    let engine = world.start_with(extra);
    (world, engine, records)
}

#[tokio::test(start_paused = true)]
async fn loss_2_a_topic_made_again_stops_and_nothing_of_it_is_written() {
    for running in [true, false] {
        let (world, engine, _) = made_again(110 + u64::from(running), running, "").await;
        until("it is known to be another", || {
            let report = engine.report();
            let flow = report.flows.values().next()?;
            let code = flow.topics.get(&TopicName::from("t")).map(|(code, _)| *code);
            (code != Some(Code::TopicRecreated)).then(|| format!("{code:?}"))
        })
        .await;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        assert_eq!(world.target_records("t", 0).len(), 100);
        assert_eq!(world.committed_on_target("g", "t", 0), Some(100));
        let found = look(&world, "").await;
        let reason = partition(&found, "t", 0).standing.reason.clone().unwrap();
        assert!(reason.contains("what was copied is of the topic"), "{reason}");
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn loss_2_with_the_policy_the_new_topic_is_another_generation_behind_the_old_one() {
    let extra = "twinlog.on.topic-recreated = new-generation";
    for running in [true, false] {
        let (world, engine, records) = made_again(120 + u64::from(running), running, extra).await;
        new_generation(&world, records, extra).await;
        engine.shutdown().await;
        // And the next owner goes on with it.
        let engine = world.start_with(extra);
        world.source.append("t", 0, &of_new(records, records + 7)).unwrap();
        until("it goes on", || {
            let copied = world.target_records("t", 0).len();
            (copied != 107 + records).then(|| format!("{copied}"))
        })
        .await;
        engine.shutdown().await;
    }
}

async fn new_generation(world: &World, records: usize, extra: &str) {
    until("the new records are there", || {
        let copied = world.target_records("t", 0).len();
        (copied != 100 + records).then(|| format!("{copied}"))
    })
    .await;
    let values: Vec<_> =
        world.target_records("t", 0).iter().skip(100).map(|one| one.value.clone()).collect();
    let expected: Vec<_> = of_new(0, records).into_iter().map(|one| one.value).collect();
    assert_eq!(values, expected);
    until("g stands in the new one", || {
        let at = world.committed_on_target("g", "t", 0);
        (at != Some(105)).then(|| format!("{at:?}"))
    })
    .await;
    let observer = world.observer(extra);
    let tp = TopicPartition::new("t", 0);
    let mirror = observer.mirror().await.unwrap();
    let newest = mirror.of_source(std::slice::from_ref(&tp)).await.unwrap().pop().unwrap().unwrap();
    assert_eq!(newest.generation, 1);
    let at =
        |mapped: &twinlog_engine::observe::MappedPartition| mapped.map.translate(SourceOffset(5));
    assert_eq!(at(&newest), Translation::Exact(twinlog_types::TargetOffset(105)));
    let old = mirror.of_generation(0).of_source(&[tp]).await.unwrap().pop().unwrap().unwrap();
    assert_eq!((old.generation, at(&old)), (0, Translation::Exact(twinlog_types::TargetOffset(5))));
}

#[tokio::test(start_paused = true)]
async fn loss_2_an_operator_begins_the_new_generation() {
    use twinlog_offsets::state::{Accepted, Decided, Made, Subject};
    let (world, engine, records) = made_again(130, false, "").await;
    let observer = world.observer("");
    let pair = observer.pair().await.unwrap().unwrap();
    let topic = TopicName::from("t");
    let accepted = vec![Accepted {
        partition: 0,
        code: Code::TopicRecreated,
        copied_to: SourceOffset(100),
        source_topic: observer.source_topic_id(&topic).await.unwrap(),
    }];
    let made = Made { by: "me".into(), at_ms: 1, what: Decided::Resume { accepted } };
    observer.decide(&pair, &[(Subject::Topic(topic, None), made)]).await.unwrap();
    new_generation(&world, records, "").await;
    engine.shutdown().await;
}
