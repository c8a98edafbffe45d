//! What only the running process knows: it is in its log, under a code. What the doctor sees of it from
//! outside is looked at beside.

use std::time::Duration;

use twinlog_embedded::{
    Acl, Action, AuthorizerOptions, Fault, Isolation, KafkaVersion, NewRecord, Operation, Resource,
};
use twinlog_engine::state_topic_name;
use twinlog_protocol::ApiKey;
use twinlog_types::{ClusterAlias, Code};
use twinlog_worlds::until;

use crate::examples::Log;
use crate::faults::{group, said};
use crate::world::World;

const LINES: &str = "emit.heartbeats.enabled = false\nsync.topic.configs.enabled = false";

fn orders(world: twinlog_worlds::World) -> World {
    let world = World::from(world.saying(LINES));
    world.source.create_topic("orders", 1, &[]).expect("made");
    world.append("orders", 100);
    world.source.commit_offset("orders-app", "orders", 0, 60).expect("committed");
    world
}

fn plain(seed: u64) -> World {
    orders(twinlog_worlds::World::new(seed))
}

async fn stands(world: &World) {
    until("the group is there", || {
        let stands = world.target.committed("orders-app", "hello.orders", 0);
        (stands != Some(60)).then(|| format!("{stands:?}"))
    })
    .await;
}

/// Waits for a line of the log, and keeps it.
async fn logged(log: &Log, code: Code) {
    until(code.word(), || log.line(code).is_none().then(String::new)).await;
    log.shows(code);
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_slows_the_copy_is_logged() {
    let (log, _guard) = Log::listen();
    let world = plain(91);
    let throttle = Action::Throttle(Duration::from_secs(1));
    world.source.fault(Fault::new(throttle).api(ApiKey::Fetch).topic("orders").times(3));
    let engine = world.start();
    logged(&log, Code::Throttled).await;
    stands(&world).await;
    said(&world, "", &[group("orders-app", &[], &[])]).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn another_owner_and_a_mirror_maker_that_runs_are_logged_by_who_waits() {
    let (log, _guard) = Log::listen();
    let world = plain(92);
    let first = world.start();
    stands(&world).await;
    let second = world.start();
    logged(&log, Code::OwnedElsewhere).await;
    said(&world, "", &[group("orders-app", &[], &[])]).await;
    first.shutdown().await;
    second.shutdown().await;
    world.target.set_members_of("hello-mm2", "connect");
    let third = world.start();
    logged(&log, Code::Mm2StillRuns).await;
    third.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_has_forgotten_the_producer_is_logged() {
    let (log, _guard) = Log::listen();
    let world = plain(93);
    let engine = world.start();
    stands(&world).await;
    engine.shutdown().await;
    world.target.expire_producers("hello.orders", 0);
    let engine = world.start();
    world.append("orders", 5);
    logged(&log, Code::NotFenced).await;
    said(&world, "", &[group("orders-app", &[], &[])]).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_acknowledges_nothing_is_stalled_and_the_memory_limit_is_logged() {
    let (log, _guard) = Log::listen();
    let world = plain(94);
    let engine = world.start_as("", |options| options.fetched_bytes = 1);
    stands(&world).await;
    let ignored = Fault::new(Action::Ignore).api(ApiKey::Produce).topic("hello.orders");
    let fault = world.target.fault(ignored.always());
    world.append("orders", 20);
    logged(&log, Code::MemoryLimited).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let stalled = group("orders-app", &[Code::Stalled], &["missing: 20"]);
    said(&world, "", &[stalled]).await;
    world.target.remove_fault(fault);
    said(&world, "", &[group("orders-app", &[], &[])]).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pairs_of_offsets_that_cannot_be_written_are_logged_and_cost_twinlogs_groups_nothing() {
    let (log, _guard) = Log::listen();
    let guarded =
        AuthorizerOptions { super_users: Vec::new(), allow_everyone_if_no_acl_found: true };
    let world =
        orders(twinlog_worlds::World::with(95, |source, _| source.authorizer = Some(guarded)));
    let (who, syncs) = ("User:ANONYMOUS", "mm2-offset-syncs.world.internal");
    let write = Acl::allow(who, Operation::Write, Resource::Topic, syncs).denied();
    world.source.add_acl(write);
    let rest = Acl::allow(who, Operation::All, Resource::Topic, syncs);
    world.source.add_acl(rest);
    let engine = world.start();
    stands(&world).await;
    logged(&log, Code::OffsetSyncsUnreadable).await;
    // Two at once: the pairs, and a member that lives on the target.
    world.target.set_members_of("orders-app", "consumer");
    world.source.commit_offset("orders-app", "orders", 0, 90).expect("committed");
    said(&world, "", &[group("orders-app", &[Code::GroupLiveOnTarget], &["reread: 30"]).unshown()])
        .await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_config_that_the_target_does_not_know_is_told() {
    let (log, _guard) = Log::listen();
    let world = twinlog_worlds::World::with(96, |source, _| source.version = KafkaVersion::V3_9);
    let world = World::from(world.saying("emit.heartbeats.enabled = false"));
    let old = [("message.downconversion.enable", "false")];
    world.source.create_topic("orders", 1, &old).expect("made");
    world.append("orders", 100);
    world.source.commit_offset("orders-app", "orders", 0, 60).expect("committed");
    let engine = world.start();
    stands(&world).await;
    logged(&log, Code::ConfigRefused).await;
    said(&world, "", &[group("orders-app", &[], &[])]).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_refused_is_logged() {
    let (log, _guard) = Log::listen();
    let world = plain(97);
    // OFFSET_METADATA_TOO_LARGE
    let refused = Fault::new(Action::Answer(12)).api(ApiKey::OffsetCommit).topic("hello.orders");
    world.target.fault(refused.always());
    let engine = world.start();
    logged(&log, Code::CommitRefused).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_lost_what_was_read_is_told_and_so_is_a_mirror_that_is_none() {
    let world = plain(98);
    let engine = world.start();
    stands(&world).await;
    assert!(world.source.lose_tail("orders", 0, 95));
    world.append("orders", 3);
    said(&world, "", &[group("orders-app", &[Code::SourceTruncated], &["95"])]).await;
    engine.shutdown().await;

    // A source from a backup has another record where the last one was copied from, and the process
    // was killed before it noted that one's epoch.
    let world = plain(99);
    let engine = world.start();
    stands(&world).await;
    world.append("orders", 1);
    until("it is copied", || {
        let end = world.target.log_end("hello.orders", 0);
        (end != 101).then(|| format!("{end}"))
    })
    .await;
    drop(engine);
    assert!(world.source.lose_tail("orders", 0, 100));
    let other = NewRecord::new("other", "other");
    world.source.append("orders", 0, &[other]).expect("appended");
    let engine = world.start();
    let differs = group("orders-app", &[Code::ContentsDiffer], &[]);
    said(&world, "", &[differs]).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_read_is_told_of_the_partition_that_it_is_about() {
    let world = plain(100);
    let engine = world.start();
    stands(&world).await;
    engine.shutdown().await;
    let state = state_topic_name(&ClusterAlias::from("hello")).to_string();
    let positions = (0..world.target.partitions(&state) as i32).flat_map(|partition| {
        let there = world.target.records(&state, partition, Isolation::ReadCommitted);
        there.into_iter().map(move |record| (partition, record))
    });
    // The longest values are positions; every key of the partition is damaged.
    let damaged: Vec<_> = positions.filter(|(_, record)| record.value.is_some()).collect();
    for (partition, record) in damaged {
        let broken = NewRecord { key: record.key, ..NewRecord::new("", [0xff; 3]) };
        world.target.append(&state, partition, &[broken]).expect("appended");
    }
    let engine = world.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    said(
        &world,
        "",
        &[group("orders-app", &[Code::StateCorrupt], &["mm2-twinlog.hello.internal"])],
    )
    .await;
    engine.shutdown().await;
}
