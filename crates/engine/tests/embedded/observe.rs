//! What a mirror looks like from outside, with and without an engine that runs.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_embedded::GroupKind;
use twinlog_engine::observe::{FlowObservation, Observer, PartitionObservation};
use twinlog_types::{
    Code, SourceOffset, State, TargetOffset, TopicName, TopicPartition, Translation,
};

use crate::support::{World, numbered, until};

/// Transactions, every fourth aborted: source and target offsets differ everywhere.
fn holey(world: &World) {
    world.source.create_topic("tx", 1, &[]).unwrap();
    for n in 0..20 {
        let mut transaction = world.source.begin_transaction();
        world.source.append_in(&mut transaction, "tx", 0, &numbered(n * 5, n * 5 + 5)).unwrap();
        world.source.end_transaction(transaction, n % 4 != 0).unwrap();
    }
}

fn tx() -> BTreeMap<String, i32> {
    BTreeMap::from([("tx".to_owned(), 1)])
}

async fn observe(observer: &Observer) -> FlowObservation {
    let mut found = FlowObservation::new(observer.config.name.clone());
    observer.observe(&mut found).await;
    found
}

fn partition(found: &FlowObservation) -> &PartitionObservation {
    let topic = found.topics.iter().find(|topic| topic.topic.as_str() == "tx").expect("tx");
    &topic.partitions[0]
}

/// State and code of the only position of a group.
fn position(found: &FlowObservation, group: &str) -> (State, Option<Code>) {
    let group = found.groups.iter().find(|one| one.group.as_str() == group).expect("the group");
    let standing = match group.partitions.as_slice() {
        [position] => &position.standing,
        _ => &group.standing,
    };
    (standing.state, standing.code)
}

/// Looks until `wanted` is seen; what was seen instead ends up in the message.
async fn until_seen(
    observer: &Observer,
    what: &str,
    wanted: impl Fn(&FlowObservation) -> bool,
) -> FlowObservation {
    let began = tokio::time::Instant::now();
    loop {
        let found = observe(observer).await;
        if wanted(&found) {
            return found;
        }
        let late = began.elapsed() > Duration::from_mins(5);
        assert!(!late, "not within five minutes: {what}: {found:#?}");
        // The paused clock goes on only while everybody waits.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mirror_in_sync_looks_so_and_translates_every_position_both_ways() {
    let world = World::new(901, 1);
    holey(&world);
    world.source.commit_offset("reader", "tx", 0, 50).unwrap();
    let engine = world.start();
    world.until_equal(&tx()).await;
    let expected = world.expected("tx", 0, 50);
    until("the group is there", || {
        let committed = world.committed_on_target("reader", "tx", 0);
        (committed != Some(expected)).then(|| format!("{committed:?}"))
    })
    .await;

    let observer = world.observer("");
    let end = world.source.log_end("tx", 0);
    let found =
        until_seen(&observer, "in sync", |found| found.standing().state == State::InSync).await;
    assert_eq!(found.missing, []);
    let seen = partition(&found);
    assert_eq!((seen.source_start, seen.source_end), (Some(0), Some(end)));
    assert_eq!((seen.copied_to.is_some(), seen.lag_records, seen.lag_ms), (true, Some(0), Some(0)));
    assert_eq!(seen.target_end, Some(world.target.log_end("hello.tx", 0)));
    assert_eq!(position(&found, "reader"), (State::InSync, None));
    let place = &found.groups[0].partitions[0];
    assert_eq!((place.source_offset, place.target_offset), (Some(50), Some(expected)));
    assert_eq!((place.committed_target, place.translation), (Some(expected), "exact"));
    assert!(found.lease.as_ref().is_some_and(|lease| !lease.released));

    let mirror = observer.mirror().await.expect("both clusters answer");
    let asked = [TopicPartition::new("tx", 0), TopicPartition::new("other", 0)];
    let maps = mirror.of_source(&asked).await.expect("the state is read");
    let mapped = maps[0].as_ref().expect("it is mirrored");
    for offset in 0..=end {
        let translated = mapped.map.translate(SourceOffset(offset)).offset();
        assert_eq!(translated, Some(TargetOffset(world.expected("tx", 0, offset))), "{offset}");
    }
    for (source, target) in world.source_records("tx", 0).iter().zip(world.target_records("tx", 0))
    {
        let back = mapped.map.reverse(TargetOffset(target.offset));
        assert_eq!(back, Translation::Exact(SourceOffset(source.offset)));
    }
    let unknown = maps[1].as_ref().expect_err("there is no such topic");
    assert_eq!(unknown.code, Some(Code::TopicNotMirrored));
    let reverse = mirror.of_target(&[TopicPartition::new("hello.tx", 0)]).await.expect("read");
    assert_eq!(reverse[0].as_ref().map(|mapped| &mapped.source), Ok(&asked[0]));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_while_nothing_runs_is_counted() {
    let world = World::new(902, 1);
    let observer = world.observer("");
    holey(&world);
    let found = observe(&observer).await;
    assert_eq!((found.own.state, found.own.code), (State::Waiting, Some(Code::MirrorNotRunning)));
    let seen = &partition(&found).standing;
    assert_eq!((seen.state, seen.code), (State::Waiting, Some(Code::TopicMissingOnTarget)));

    let engine = world.start();
    world.until_equal(&tx()).await;
    engine.shutdown().await;
    world.source.append("tx", 0, &numbered(200, 207)).unwrap();
    world.source.commit_offset("late", "tx", 0, 60).unwrap();
    let found = observe(&observer).await;
    assert_eq!((found.own.state, found.own.code), (State::Stopped, Some(Code::MirrorNotRunning)));
    let seen = partition(&found);
    assert_eq!(seen.lag_records, Some(7));
    let standing = (seen.standing.state, seen.standing.code);
    assert_eq!(standing, (State::Waiting, Some(Code::MirrorNotRunning)));
    assert_eq!(position(&found, "late"), (State::Waiting, Some(Code::MirrorNotRunning)));

    // Beyond what was copied: gone from the source before anybody looked.
    let copied_to = partition(&found).copied_to.expect("it was copied");
    world.source.delete_records("tx", 0, copied_to + 3).unwrap();
    let found = observe(&observer).await;
    let standing = &partition(&found).standing;
    assert_eq!((standing.state, standing.code), (State::Stopped, Some(Code::SourceGap)));
    let range = format!("{copied_to} to {}", copied_to + 2);
    assert!(standing.reason.as_ref().is_some_and(|reason| reason.contains(&range)), "{standing:?}");
}

#[tokio::test(start_paused = true)]
async fn topics_that_were_made_again_are_named_on_the_side_where_they_were() {
    for (seed, source_side, code) in
        [(903, true, Code::TopicRecreated), (904, false, Code::TargetRecreated)]
    {
        let world = World::new(seed, 1);
        holey(&world);
        let engine = world.start();
        world.until_equal(&tx()).await;
        engine.shutdown().await;
        if source_side {
            world.source.recreate_topic("tx").unwrap();
        } else {
            world.target.recreate_topic("hello.tx").unwrap();
        }
        let observer = world.observer("");
        let found = observe(&observer).await;
        let standing = &partition(&found).standing;
        assert_eq!((standing.state, standing.code), (State::Stopped, Some(code)));
        let mirror = observer.mirror().await.expect("both clusters answer");
        let maps = mirror.of_source(&[TopicPartition::new("tx", 0)]).await.expect("read");
        let refused = maps[0].as_ref().expect_err("another topic of the same name");
        assert_eq!(refused.code, Some(code));
    }
}

#[tokio::test(start_paused = true)]
async fn groups_are_judged_by_what_holds_them() {
    let world = World::new(905, 1);
    holey(&world);
    let extra = "hello->world.groups.exclude = out-.*";
    for group in ["out-1", "live", "ahead", "fine"] {
        world.source.commit_offset(group, "tx", 0, 50).unwrap();
    }
    world.source.set_group("idle", GroupKind::Classic, false);
    world.target.set_group("live", GroupKind::Classic, true);
    let engine = world.start_with(extra);
    world.until_equal(&tx()).await;
    let further = world.target.log_end("hello.tx", 0);
    world.target.commit_offset("ahead", "hello.tx", 0, further).unwrap();
    let observer = world.observer(extra);
    let fine = |found: &FlowObservation| position(found, "fine") == (State::InSync, None);
    let found = until_seen(&observer, "the group at its place", fine).await;
    for (group, state, code) in [
        ("out-1", State::Excluded, Code::GroupExcluded),
        ("idle", State::Excluded, Code::GroupWithoutCommits),
        ("live", State::Waiting, Code::GroupLiveOnTarget),
        ("ahead", State::Waiting, Code::TargetAhead),
    ] {
        assert_eq!(position(&found, group), (state, Some(code)), "{group}");
    }
    // The same flow, with the switch off: a group that has no position yet.
    let off = world.observer("hello->world.sync.group.offsets.enabled = false");
    world.source.commit_offset("new", "tx", 0, 60).unwrap();
    engine.shutdown().await;
    world.source.commit_offset("newer", "tx", 0, 60).unwrap();
    let found = observe(&off).await;
    assert_eq!(position(&found, "newer"), (State::Excluded, Some(Code::SyncDisabled)));
    let newer = found.groups.iter().find(|group| group.group.as_str() == "newer").expect("listed");
    let whole = (newer.standing.state, newer.standing.code);
    assert_eq!(whole, (State::Excluded, Some(Code::SyncDisabled)));
}

#[tokio::test(start_paused = true)]
async fn without_its_source_a_mirror_still_says_how_far_it_is_and_translates() {
    let world = World::new(906, 1);
    holey(&world);
    let engine = world.start();
    world.until_equal(&tx()).await;
    let expected = world.expected("tx", 0, 50);
    engine.shutdown().await;
    world.source.kill_broker(1);
    let observer = world.observer("");
    let found = observe(&observer).await;
    assert_eq!(found.own.state, State::Unknown);
    assert!(found.missing.iter().all(|missing| missing.cluster.as_str() == "hello"));
    assert!(!found.missing.is_empty());
    assert!(partition(&found).copied_to.is_some());
    assert_eq!(found.topics[0].target_topic, TopicName::from("hello.tx"));
    let mirror = observer.mirror().await.expect("the target answers");
    assert!(mirror.source_error().is_some());
    let maps = mirror.of_source(&[TopicPartition::new("tx", 0)]).await.expect("read");
    let mapped = maps[0].as_ref().expect("it is mirrored");
    assert_eq!(mapped.map.translate(SourceOffset(50)).offset(), Some(TargetOffset(expected)));
}

/// A group that writes what it makes of `tx` to `out`, in transactions that commit its offsets too.
#[tokio::test(start_paused = true)]
async fn a_transaction_whose_results_are_not_copied_yet_is_told_at_its_group_until_they_are() {
    use twinlog_embedded::{Action, Fault};
    use twinlog_protocol::ApiKey;
    let world = World::new(27, 1);
    holey(&world);
    world.source.create_topic("out", 1, &[]).unwrap();
    world.source.append("out", 0, &numbered(0, 10)).unwrap();
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("tx".to_owned(), 1), ("out".to_owned(), 1)])).await;
    // NOT_ENOUGH_REPLICAS: the results wait, and positions do not.
    let fault = Fault::new(Action::Answer(19)).api(ApiKey::Produce).partition("hello.out", 0);
    let fault = world.target.fault(fault.always());
    let work = |offset: i64, commit: bool| {
        let mut transaction = world.source.begin_transaction();
        world.source.append_in(&mut transaction, "out", 0, &numbered(0, 3)).unwrap();
        world.source.commit_in(&mut transaction, "app", ("tx", 0), offset);
        world.source.end_transaction(transaction, commit).unwrap();
    };
    work(60, true);
    // Others that have nothing to do with it: an abort, and one that commits without a transaction.
    work(90, false);
    world.source.commit_offset("plain", "tx", 0, 60).unwrap();
    let expected = world.expected("tx", 0, 60);
    until("the positions are there", || {
        let stand = ["app", "plain"].map(|group| world.committed_on_target(group, "tx", 0));
        (stand != [Some(expected); 2]).then(|| format!("{stand:?}"))
    })
    .await;
    let observer = world.observer("");
    let found = observe(&observer).await;
    assert_eq!(position(&found, "app"), (State::CatchingUp, Some(Code::TornTransaction)));
    assert_eq!(position(&found, "plain"), (State::InSync, None));
    let group = found.groups.iter().find(|group| group.group.as_str() == "app").unwrap();
    assert_eq!(group.standing.code, Some(Code::TornTransaction));
    let reason = group.standing.reason.clone().unwrap();
    assert!(
        reason.contains("wrote 3 records") && reason.contains("offset 10 of out-0"),
        "{reason}"
    );
    world.target.remove_fault(fault);
    world.until_equal(&BTreeMap::from([("out".to_owned(), 1)])).await;
    until_seen(&observer, "all of it is there", |found| {
        position(found, "app") == (State::InSync, None)
    })
    .await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_off_is_told_and_one_that_may_not_be_asked_for_is_no_failure() {
    let world = World::with(45, 1, |source, target| {
        source.epoch_ms += 7_000;
        target.authorizer = Some(twinlog_embedded::AuthorizerOptions {
            super_users: Vec::new(),
            allow_everyone_if_no_acl_found: true,
        });
    });
    let (who, cluster) = ("User:ANONYMOUS", twinlog_embedded::Resource::Cluster);
    let describe = twinlog_embedded::Operation::Describe;
    let right = twinlog_embedded::Acl::allow(who, describe, cluster, "kafka-cluster").denied();
    let plan = world.observer("").plan_run().await.unwrap();
    let ahead = |side: &twinlog_engine::observe::PlannedSide| {
        side.clock.clone().map(|clock| clock.ahead_ms)
    };
    assert_eq!((ahead(&plan.source), ahead(&plan.target)), (Ok(7_000), Ok(0)));
    assert_eq!(plan.source.offers[0].features.get("metadata.version"), Some(&30));
    assert_eq!(plan.source.offers[0].lacks, [""; 0]);
    world.target.add_acl(right);
    let plan = world.observer("").plan_run().await.unwrap();
    assert_eq!(ahead(&plan.source), Ok(7_000));
    let refused = ahead(&plan.target).unwrap_err();
    assert!(refused.contains("CLUSTER_AUTHORIZATION_FAILED"), "{refused}");
    assert!(plan.unread.is_empty(), "{:?}", plan.unread);
}
