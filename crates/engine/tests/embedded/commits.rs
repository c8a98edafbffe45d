//! How soon, and at what cost, commits of the source are on the target.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_embedded::{Acl, AuthorizerOptions, EmbeddedCluster, NewRecord, Operation, Resource};
use twinlog_engine::observe::FlowObservation;
use twinlog_engine::{Engine, Followed};
use twinlog_mirror::FollowCommits;
use twinlog_protocol::ApiKey;

use crate::support::{World, until};

const LOG: &str = "__consumer_offsets";

/// A topic of so many partitions with a hundred records in each, and a mirror of it.
async fn mirrored(world: &World, partitions: i32, extra: &str) -> Engine {
    world.source.create_topic("orders", partitions, &[]).unwrap();
    for partition in 0..partitions {
        let records: Vec<_> =
            (0..100).map(|n| NewRecord::new(format!("k{n}"), format!("v{n}"))).collect();
        world.source.append("orders", partition, &records).unwrap();
    }
    let engine = world.start_with(extra);
    world.until_equal(&BTreeMap::from([("orders".to_owned(), partitions)])).await;
    engine
}

pub(crate) fn followed(engine: &Engine) -> Option<Followed> {
    engine.report().flows.into_values().find_map(|flow| flow.commits)
}

pub(crate) async fn until_followed(engine: &Engine, way: FollowCommits) {
    until("commits are followed", || {
        let now = followed(engine);
        (now.as_ref().map(|now| now.way) != Some(way)).then(|| format!("{now:?}"))
    })
    .await;
}

/// How long it takes until `group` stands at `offset` on the target.
async fn time_to(world: &World, group: &str, partition: i32, offset: i64) -> Duration {
    let began = Instant::now();
    while world.committed_on_target(group, "orders", partition) != Some(offset) {
        assert!(began.elapsed() < Duration::from_mins(1), "{group} never stands at {offset}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}

fn requests(cluster: &EmbeddedCluster, api: ApiKey) -> usize {
    cluster.requests().iter().filter(|request| request.api == api).count()
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_on_the_target_as_soon_as_it_is_made() {
    let world = World::new(61, 1);
    world.source.create_topic("other", 1, &[]).unwrap();
    world.source.commit_offset("first", "other", 0, 0).unwrap();
    let engine = mirrored(&world, 2, "").await;
    until_followed(&engine, FollowCommits::Live).await;
    for offset in 1..=40 {
        // Old groups and new ones.
        let group = format!("g-{}", offset % 20);
        world.source.commit_offset(&group, "orders", 1, offset).unwrap();
        let took = time_to(&world, &group, 1, offset).await;
        assert!(took <= Duration::from_millis(60), "{group} at {offset} took {took:?}");
        tokio::time::sleep(Duration::from_millis(137)).await;
    }
    assert_eq!(followed(&engine), Some(Followed { way: FollowCommits::Live, reason: None }));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_read_the_log_groups_are_polled_and_it_is_said() {
    let world = World::with(62, 1, |source, _| {
        source.authorizer = Some(AuthorizerOptions {
            super_users: Vec::new(),
            allow_everyone_if_no_acl_found: true,
        });
    });
    for operation in [Operation::Read, Operation::Describe] {
        let acl = Acl::allow("User:ANONYMOUS", operation, Resource::Topic, LOG);
        // Describing it is allowed, as by a wildcard.
        let acl = if operation == Operation::Read { acl.denied() } else { acl };
        world.source.add_acl(acl);
    }
    let engine = mirrored(&world, 1, "").await;
    world.source.commit_offset("g", "orders", 0, 1).unwrap();
    time_to(&world, "g", 0, 1).await;
    for offset in 2..10 {
        tokio::time::sleep(Duration::from_millis(730)).await;
        world.source.commit_offset("g", "orders", 0, offset).unwrap();
        let took = time_to(&world, "g", 0, offset).await;
        assert!(took <= Duration::from_millis(1_100), "{took:?}");
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let followed = followed(&engine).expect("known");
    assert_eq!(followed.way, FollowCommits::Poll);
    assert!(followed.reason.is_some_and(|reason| reason.contains("READ topic __consumer_offsets")));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_commits_a_hundred_times_a_second_is_written_a_few_times_a_second() {
    let world = World::new(63, 1);
    let engine = mirrored(&world, 1, "").await;
    world.source.commit_offset("g", "orders", 0, 0).unwrap();
    until_followed(&engine, FollowCommits::Live).await;
    world.target.clear_requests();
    // Ten seconds of commits, of three positions each time.
    for round in 0..1_000_i64 {
        world.source.commit_offset("g", "orders", 0, round / 11).unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let last = 999 / 11;
    let took = time_to(&world, "g", 0, last).await;
    assert!(took <= Duration::from_millis(300), "{took:?}");
    let commits = requests(&world.target, ApiKey::OffsetCommit);
    assert!((30..=52).contains(&commits), "{commits} commits in ten seconds");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_aborted_never_counts_and_one_that_is_open_holds_no_group_back() {
    let world = World::new(64, 1);
    let engine = mirrored(&world, 1, "").await;
    world.source.commit_offset("g", "orders", 0, 10).unwrap();
    until_followed(&engine, FollowCommits::Live).await;
    time_to(&world, "g", 0, 10).await;
    // What a coordinator writes for a commit inside of a transaction, in the log of "g".
    let log: Vec<i32> = (0..50).filter(|number| world.source.log_end(LOG, *number) > 0).collect();
    let [partition] = log[..] else { panic!("one partition has records: {log:?}") };
    let commit = |offset: i64| {
        let key = [&[0, 1, 0, 1][..], b"g", &[0, 6], b"orders", &[0, 0, 0, 0]].concat();
        let value = [&[0, 3][..], &offset.to_be_bytes(), &(-1_i32).to_be_bytes(), &[0, 0], &[0; 8]]
            .concat();
        [NewRecord::new(key, value)]
    };
    for committed in [false, true] {
        let mut transaction = world.source.begin_transaction();
        world.source.append_in(&mut transaction, LOG, partition, &commit(60)).unwrap();
        // Others go on meanwhile, polled as if there were no log.
        for offset in [20, 30] {
            let offset = offset + 20 * i64::from(committed);
            world.source.commit_offset("g", "orders", 0, offset).unwrap();
            let took = time_to(&world, "g", 0, offset).await;
            assert!(took <= Duration::from_millis(2_500), "{took:?}");
        }
        world.source.end_transaction(transaction, committed).unwrap();
        if committed {
            let took = time_to(&world, "g", 0, 60).await;
            assert!(took <= Duration::from_millis(300), "{took:?}");
        } else {
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(world.committed_on_target("g", "orders", 0), Some(30));
        }
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_older_answers_of_a_new_coordinator_move_no_group_back() {
    let world = World::new(65, 3);
    let engine = mirrored(&world, 1, "").await;
    for offset in [10, 50, 51] {
        world.source.commit_offset("g", "orders", 0, offset).unwrap();
    }
    until_followed(&engine, FollowCommits::Live).await;
    time_to(&world, "g", 0, 51).await;
    let old = world.source.group_coordinator("g");
    world.source.kill_broker(old);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(40) {
        assert_eq!(world.committed_on_target("g", "orders", 0), Some(51));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.source.commit_offset("g", "orders", 0, 70).unwrap();
    let took = time_to(&world, "g", 0, 70).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    world.source.restart_broker(old);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_deleted_keeps_its_place_on_the_target_and_is_followed_when_it_is_back() {
    let world = World::new(66, 1);
    let engine = mirrored(&world, 1, "").await;
    for group in ["g", "stays"] {
        world.source.commit_offset(group, "orders", 0, 40).unwrap();
    }
    until_followed(&engine, FollowCommits::Live).await;
    time_to(&world, "g", 0, 40).await;
    assert!(world.source.delete_group("g"));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(world.committed_on_target("g", "orders", 0), Some(40));
    world.source.commit_offset("g", "orders", 0, 80).unwrap();
    let took = time_to(&world, "g", 0, 80).await;
    assert!(took <= Duration::from_millis(300), "{took:?}");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_log_that_is_made_again_is_followed_again_and_nothing_is_missed_meanwhile() {
    let world = World::new(67, 1);
    let engine = mirrored(&world, 1, "").await;
    world.source.commit_offset("g", "orders", 0, 1).unwrap();
    until_followed(&engine, FollowCommits::Live).await;
    assert!(world.source.delete_topic(LOG));
    for offset in 2..20 {
        world.source.commit_offset("g", "orders", 0, offset).unwrap();
        let took = time_to(&world, "g", 0, offset).await;
        assert!(took <= Duration::from_millis(2_500), "at {offset}: {took:?}");
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    until_followed(&engine, FollowCommits::Live).await;
    world.source.commit_offset("g", "orders", 0, 30).unwrap();
    let took = time_to(&world, "g", 0, 30).await;
    assert!(took <= Duration::from_millis(60), "{took:?}");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn at_mm2s_pace_groups_are_asked_about_once_in_an_interval() {
    let world = World::new(68, 1);
    let engine = mirrored(
        &world,
        1,
        "twinlog.group.offsets.follow = interval\n\
         hello->world.sync.group.offsets.interval.seconds = 7",
    )
    .await;
    world.source.commit_offset("g", "orders", 0, 1).unwrap();
    time_to(&world, "g", 0, 1).await;
    for cluster in [&world.source, &world.target] {
        cluster.clear_requests();
    }
    tokio::time::sleep(Duration::from_secs(70)).await;
    for cluster in [&world.source, &world.target] {
        let asked = requests(cluster, ApiKey::OffsetFetch);
        assert!((9..=11).contains(&asked), "{asked} times in 70 s");
    }
    world.source.commit_offset("g", "orders", 0, 2).unwrap();
    let took = time_to(&world, "g", 0, 2).await;
    assert!(took <= Duration::from_millis(7_100), "{took:?}");
    assert_eq!(followed(&engine), Some(Followed { way: FollowCommits::Interval, reason: None }));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn five_hundred_groups_stand_right_within_thirty_seconds_and_few_requests() {
    let world = World::with(69, 1, |source, target| {
        source.requests_kept = 200_000;
        target.requests_kept = 200_000;
    });
    let engine = mirrored(&world, 4, "").await;
    let began = Instant::now();
    for number in 0..500_i64 {
        let (group, partition) = (format!("group-{number}"), (number % 4) as i32);
        world.source.commit_offset_as_member(&group, "orders", partition, number % 101, "");
    }
    for number in 0..500_i64 {
        let (group, partition) = (format!("group-{number}"), (number % 4) as i32);
        time_to(&world, &group, partition, number % 101).await;
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    until_followed(&engine, FollowCommits::Live).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for cluster in [&world.source, &world.target] {
        cluster.clear_requests();
    }
    tokio::time::sleep(Duration::from_mins(2)).await;
    // At rest: the check of every half minute, at most one for a hundred groups.
    let asked = requests(&world.source, ApiKey::OffsetFetch);
    assert!((4..=20).contains(&asked), "{asked} in two minutes");
    assert_eq!(requests(&world.target, ApiKey::OffsetCommit), 0);
    let asked = requests(&world.target, ApiKey::OffsetFetch);
    assert!(asked <= 1_000, "{asked} in two minutes");
    // And 500 of them are told, none without a state.
    let observer = world.observer("");
    let mut seen = FlowObservation::new(observer.config.name.clone());
    observer.observe(&mut seen).await;
    assert_eq!(seen.commits, Some(Followed { way: FollowCommits::Live, reason: None }));
    assert_eq!(seen.groups.len(), 500);
    assert!(seen.groups.iter().all(|group| group.standing.state.word() == "in-sync"));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_rests_is_kept_for_as_long_as_the_source_keeps_it() {
    let world = World::with(70, 1, |_, target| {
        target.offsets_retention = Duration::from_mins(6);
        target.offsets_retention_check = Duration::from_secs(30);
    });
    let engine = mirrored(&world, 1, "").await;
    world.source.commit_offset("g", "orders", 0, 40).unwrap();
    time_to(&world, "g", 0, 40).await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_mins(30) {
        assert_eq!(world.committed_on_target("g", "orders", 0), Some(40));
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    // Once it is gone from the source it is not kept any longer.
    assert!(world.source.delete_group("g"));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.committed_on_target("g", "orders", 0), None);
    engine.shutdown().await;
}
