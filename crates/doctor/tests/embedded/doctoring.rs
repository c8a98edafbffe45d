//! Everything at once: findings, their order, and what it costs to find them.

use std::time::{Duration, Instant};

use twinlog_doctor::{Counts, Diagnosis, Fix, MirroredBy, Outcome, Wanted};
use twinlog_embedded::{GroupKind, KafkaVersion, NewRecord};
use twinlog_types::{Code, Severity};

use crate::examples;
use crate::explaining::placed;
use crate::world::World;

fn codes(diagnosis: &Diagnosis) -> Vec<(Severity, Code)> {
    diagnosis.findings.iter().map(|finding| (finding.severity, finding.code)).collect()
}

fn errors(diagnosis: &Diagnosis) -> Vec<Code> {
    let all = codes(diagnosis).into_iter();
    all.filter(|(severity, _)| *severity == Severity::Error).map(|(_, code)| code).collect()
}

fn all() -> Wanted {
    Wanted::default()
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_is_well_has_no_error_and_what_is_wrong_is_found_without_being_asked_for() {
    let world = World::new(41);
    let engine = world.start();
    for group in ["app", "live", "back"] {
        world.until(group, placed).await;
    }
    // One group is left out by the file. The heartbeats of the source come with their time.
    let mut well = world.doctor("", &all()).await;
    for _ in 0..1_000 {
        if errors(&well) == [Code::GroupExcluded] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        well = world.doctor("", &all()).await;
    }
    assert_eq!(errors(&well), [Code::GroupExcluded], "{well:#?}");
    assert!(!well.findings[0].evidence.is_empty(), "{well:#?}");
    assert_eq!(well.findings[0].group().map(AsRef::as_ref), Some("out-1"));
    assert_eq!(well.mirrored_by, Some(MirroredBy::Twinlog));
    assert_eq!(well.outcome(), Outcome::Wrong);
    assert_eq!(well.looked_at.groups, 4);
    let app = Wanted { group: Some("app".into()), topic: None };
    let asked = world.doctor("", &app).await;
    assert_eq!((asked.findings.len(), asked.outcome()), (0, Outcome::Well), "{asked:#?}");
    // What it has committed in was looked at, and nothing else.
    let looked_at = asked.looked_at;
    assert_eq!((looked_at.groups, looked_at.topics, looked_at.partitions), (1, 1, 1));

    // What `explain` says of a group, the doctor says too.
    world.target.set_group("live", GroupKind::Classic, true);
    world.source.commit_offset("live", "orders", 0, 90).expect("committed");
    let chain = world.group("live").await;
    let link = chain.first_broken().expect("broken");
    let found = world.doctor("", &all()).await;
    let told = found.findings.iter().find(|one| Some(one.code) == link.code).expect("told");
    assert_eq!(told.consequence(), link.consequence);
    assert_eq!((told.fix.clone(), Some(told.severity)), (link.fix.clone(), link.severity));
    assert_eq!(told.group().map(AsRef::as_ref), Some("live"));
    // 30 records to read again weigh less than what has no count, and both are there.
    assert_eq!(errors(&found), [Code::GroupLiveOnTarget, Code::GroupExcluded]);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_runs_is_one_finding_with_all_records_that_are_missing() {
    let world = World::new(42);
    world.source.create_topic("audit", 3, &[]).expect("made");
    let found = world.doctor("", &all()).await;
    let first = &found.findings[0];
    assert_eq!((first.code, first.of_flow), (Code::MirrorNotRunning, true), "{found:#?}");
    assert_eq!(first.fix.first(), Some(&Fix::Command("twinlog run mm2.properties".into())));
    assert_eq!(found.mirrored_by, Some(MirroredBy::Nobody));
    let times = codes(&found).iter().filter(|(_, code)| *code == Code::MirrorNotRunning).count();
    assert_eq!(times, 1);
}

#[tokio::test(start_paused = true)]
async fn misspelt_keys_and_filters_that_match_nothing_are_told_before_what_follows() {
    let world = World::new(43);
    let found = world.doctor("hello->world.topics = payments.*\ngruops = app\n", &all()).await;
    let has = |code| found.findings.iter().find(|one| one.code == code);
    let nothing = has(Code::NothingMatches).expect("no topic matches");
    assert!(nothing.summary.contains("mm2.properties:12"), "{}", nothing.summary);
    let misspelt = has(Code::UnknownProperty).expect("misspelt");
    assert!(misspelt.summary.contains("did you mean `groups`?"), "{}", misspelt.summary);
    let at = |code| codes(&found).iter().position(|(_, one)| *one == code);
    assert!(at(Code::UnknownProperty) < at(Code::TopicNotMirrored), "{found:#?}");
    let left_out = has(Code::TopicNotMirrored).expect("groups read it");
    assert_eq!((left_out.severity, left_out.counts().groups), (Severity::Error, 3));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_answer_is_told_first_and_the_answer_is_not_whole() {
    let world = World::new(44);
    let engine = world.start();
    world.until("app", placed).await;
    world.source.kill_broker(1);
    let found = world.doctor("", &all()).await;
    assert_eq!(found.findings[0].code, Code::Unreachable, "{found:#?}");
    assert!(!found.findings[0].found_out);
    assert_eq!(found.outcome(), Outcome::NotFoundOut);
    engine.shutdown().await;
}

/// 1,000 topics of 8 partitions and 500 groups, of which nobody mirrors anything: the whole look
/// takes a number of requests that does not grow with them.
#[tokio::test]
async fn a_thousand_topics_and_five_hundred_groups_are_looked_at_in_seconds() {
    let world = World::new(45);
    let records: Vec<NewRecord> = (0..10).map(|n| NewRecord::new(format!("k{n}"), "v")).collect();
    for n in 0..1_000 {
        let topic = format!("topic-{n}");
        world.source.create_topic(&topic, 8, &[]).expect("made");
        world.target.create_topic(&format!("hello.{topic}"), 8, &[]).expect("made");
        world.source.append(&topic, 0, &records).expect("appended");
    }
    for n in 0..500 {
        let group = format!("group-{n}");
        for topic in [n, n + 500] {
            for partition in 0..8 {
                let topic = format!("topic-{topic}");
                world.source.commit_offset(&group, &topic, partition, 0).expect("committed");
            }
        }
    }
    let began = Instant::now();
    let found = world.doctor("", &all()).await;
    let took = began.elapsed();
    eprintln!("looked at {:?} in {took:?}", found.looked_at);
    let at_least = Counts { groups: 500, topics: 1_000, partitions: 8_000 };
    assert!(found.looked_at.groups >= at_least.groups);
    assert!(found.looked_at.topics >= at_least.topics);
    assert!(found.looked_at.partitions >= at_least.partitions);
    assert!(found.findings.len() < 10, "equal findings are one: {:?}", codes(&found));
    assert!(took < Duration::from_secs(15), "took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_share_group_is_judged_by_where_its_unread_records_begin() {
    let world = World::new(49);
    let engine = world.start();
    for group in ["app", "live", "back"] {
        world.until(group, placed).await;
    }
    world.source.set_share_start("sg", "orders", 0, 60);
    while world.target.share_start("sg", "hello.orders", 0) != Some(60) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let sg = Wanted { group: Some("sg".into()), topic: None };
    let well = world.doctor("", &sg).await;
    assert_eq!((well.findings.len(), well.outcome()), (0, Outcome::Well), "{well:#?}");
    // Somebody moved it on there.
    world.target.set_share_start("sg", "hello.orders", 0, 90);
    let ahead = world.doctor("", &sg).await;
    assert_eq!(codes(&ahead), [(Severity::Warning, Code::TargetAhead)], "{ahead:#?}");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_share_group_that_the_target_cannot_place_is_told_with_what_that_means() {
    let world = World::with(twinlog_worlds::World::with(53, |_, target| {
        target.version = KafkaVersion::V3_9;
    }));
    let engine = world.start();
    world.until("app", placed).await;
    world.source.set_share_start("sg", "orders", 0, 60);
    let sg = Wanted { group: Some("sg".into()), topic: None };
    let found = world.doctor("", &sg).await;
    assert_eq!(codes(&found), [(Severity::Warning, Code::UnsupportedVersion)], "{found:#?}");
    let consequence = found.findings[0].consequence().expect("a consequence");
    assert!(consequence.contains("share.auto.offset.reset"), "{consequence}");
    engine.shutdown().await;
}

fn app() -> Wanted {
    Wanted { group: Some("app".into()), topic: None }
}

#[tokio::test(start_paused = true)]
async fn off_2_a_group_of_a_partition_that_was_emptied_is_well_at_the_end_of_the_copy() {
    let world = World::new(50);
    world.source.commit_offset("app", "orders", 0, 100).expect("committed");
    world.source.delete_records("orders", 0, 100).expect("deleted");
    let engine = world.start();
    until_at(&world, "app", 0).await;
    let found = world.doctor("", &app()).await;
    assert_eq!((found.findings.len(), found.outcome()), (0, Outcome::Well), "{found:#?}");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn off_3_a_backlog_that_is_not_mirrored_is_an_error_of_its_group() {
    let world = World::new(51);
    world.source.delete_records("orders", 0, 80).expect("deleted");
    let engine = world.start();
    until_at(&world, "app", 0).await;
    let found = world.doctor("", &app()).await;
    assert_eq!(codes(&found), [(Severity::Error, Code::BacklogNotOnTarget)], "{found:#?}");
    assert_eq!(found.outcome(), Outcome::Wrong);
    assert!(found.findings[0].summary.contains("20 records"), "{found:#?}");
    engine.shutdown().await;
}

/// Waits until a group stands at an offset of the mirror of `orders`.
async fn until_at(world: &World, group: &str, offset: i64) {
    for _ in 0..3_000 {
        if world.target.committed(group, "hello.orders", 0) == Some(offset) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{group} stands at {:?}", world.target.committed(group, "hello.orders", 0));
}

#[tokio::test(start_paused = true)]
async fn a_torn_transaction_is_a_warning_with_what_it_would_cost() {
    let world = World::new(52);
    world.source.create_topic("results", 1, &[]).expect("made");
    let engine = world.start();
    world.until("app", placed).await;
    while !world.target.topics().contains(&"hello.results".to_owned()) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Nothing of it is acknowledged.
    world.target.hold_replication("hello.results", 0);
    let mut transaction = world.source.begin_transaction();
    let records: Vec<_> = (0..3).map(|n| NewRecord::new(format!("r{n}"), "v")).collect();
    world.source.append_in(&mut transaction, "results", 0, &records).expect("appended");
    world.source.commit_in(&mut transaction, "app", ("orders", 0), 70);
    world.source.end_transaction(transaction, true).expect("ended");
    until_at(&world, "app", 70).await;
    let found = world.doctor("", &app()).await;
    assert_eq!(codes(&found), [(Severity::Warning, Code::TornTransaction)], "{found:#?}");
    examples::doctor(&found, Code::TornTransaction);
    let consequence = found.findings[0].consequence().expect("a consequence");
    assert!(consequence.contains("nobody makes them again"), "{consequence}");
    world.target.release_replication("hello.results", 0);
    world
        .until("app", |chain| chain.outcome() == Outcome::Well && chain.first_broken().is_none())
        .await;
    engine.shutdown().await;
}
