//! Share groups (KIP-932): where their unread records begin is carried over, and never taken back.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_embedded::{GroupKind, Isolation, KafkaVersion, NewRecord};
use twinlog_engine::{Engine, Followed};
use twinlog_mirror::FollowCommits;
use twinlog_mirror::formats::Checkpoint;
use twinlog_protocol::ApiKey;
use twinlog_types::{Code, GroupId, State};

use crate::commits::{followed, until_followed};
use crate::losses::{look, position};
use crate::support::{World, until};

/// Forty transactions of three records each: offsets differ by the markers.
fn holey(world: &World) {
    world.source.create_topic("t", 1, &[]).unwrap();
    for n in 0..40 {
        let records: Vec<_> =
            (n * 3..n * 3 + 3).map(|n| NewRecord::new(format!("k{n}"), format!("v{n}"))).collect();
        let mut transaction = world.source.begin_transaction();
        world.source.append_in(&mut transaction, "t", 0, &records).unwrap();
        world.source.end_transaction(transaction, true).unwrap();
    }
}

async fn mirrored(world: &World) -> Engine {
    holey(world);
    let engine = world.start();
    world.until_equal(&BTreeMap::from([("t".to_owned(), 1)])).await;
    engine
}

async fn until_at(world: &World, source: i64) {
    let expected = world.expected("t", 0, source);
    until("the share group is there", || {
        let stands = world.target.share_start("sg", "hello.t", 0);
        (stands != Some(expected)).then(|| format!("{stands:?} for {expected}"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_share_group_begins_on_the_target_at_its_first_unread_record() {
    let world = World::new(401, 1);
    let engine = mirrored(&world).await;
    world.source.set_group("fresh", GroupKind::Share, true);
    for source in [50, 51, 90] {
        world.source.set_share_start("sg", "t", 0, source);
        until_at(&world, source).await;
    }
    let seen = look(&world, "").await;
    let group = seen.groups.iter().find(|one| one.group.as_str() == "sg").unwrap();
    assert_eq!(group.kind, twinlog_client::GroupKind::Share);
    assert_eq!(position(&seen, "sg").standing.state, State::InSync);
    let reason = position(&seen, "sg").standing.reason.clone().unwrap();
    assert!(reason.contains("is delivered again"), "{reason}");
    // One that has read nothing yet has no place to carry over.
    let fresh = seen.groups.iter().find(|one| one.group.as_str() == "fresh").unwrap();
    assert_eq!(fresh.standing.code, Some(Code::GroupWithoutCommits));
    // It is a share group there, too, and nothing tells MM2 to commit for it.
    assert_eq!(world.committed_on_target("sg", "t", 0), None);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let checkpoints =
        world.target.records("hello.checkpoints.internal", 0, Isolation::ReadUncommitted);
    let named = checkpoints.iter().filter(|record| {
        let read = Checkpoint::decode(record.key.as_deref(), record.value.as_deref());
        read.is_ok_and(|read| read.group == GroupId::from("sg"))
    });
    assert_eq!(named.count(), 0);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_share_group_that_moves_does_not_make_the_log_of_commits_look_late() {
    let world = World::new(405, 1);
    let engine = mirrored(&world).await;
    world.source.commit_offset("plain", "t", 0, 10).unwrap();
    until_followed(&engine, FollowCommits::Live).await;
    for source in 20..100 {
        world.source.set_share_start("sg", "t", 0, source);
        world.source.commit_offset("plain", "t", 0, source).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = followed(&engine);
        assert_eq!(now, Some(Followed { way: FollowCommits::Live, reason: None }), "{source}");
    }
    until_at(&world, 99).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_share_group_that_lives_on_the_target_or_read_on_there_is_left_alone() {
    let world = World::new(402, 1);
    let engine = mirrored(&world).await;
    world.source.set_share_start("sg", "t", 0, 20);
    until_at(&world, 20).await;
    let stands = world.target.share_start("sg", "hello.t", 0);
    world.target.set_group("sg", GroupKind::Share, true);
    world.source.set_share_start("sg", "t", 0, 60);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.target.share_start("sg", "hello.t", 0), stands);
    let code = position(&look(&world, "").await, "sg").standing.code;
    assert_eq!(code, Some(Code::GroupLiveOnTarget));
    // Its members read on, and leave.
    world.target.set_share_start("sg", "hello.t", 0, 100);
    world.target.set_group("sg", GroupKind::Share, false);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.target.share_start("sg", "hello.t", 0), Some(100));
    let code = position(&look(&world, "").await, "sg").standing.code;
    assert_eq!(code, Some(Code::TargetAhead));
    // The source passes them.
    world.source.set_share_start("sg", "t", 0, 150);
    until_at(&world, 150).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn where_a_share_group_begins_is_written_once_and_not_again() {
    let world = World::with(403, 1, |_, target| {
        target.offsets_retention = Duration::from_mins(6);
    });
    let engine = mirrored(&world).await;
    world.source.set_share_start("sg", "t", 0, 20);
    until_at(&world, 20).await;
    let altered = || {
        let requests = world.target.requests();
        requests.iter().filter(|one| one.api == ApiKey::AlterShareGroupOffsets).count()
    };
    let before = altered();
    world.target.clear_requests();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!((before, altered()), (1, 0));
    until_at(&world, 20).await;
    // An operator moves it back on the source: it is followed, as nobody else moved it.
    world.source.set_share_start("sg", "t", 0, 10);
    until_at(&world, 10).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn where_the_target_cannot_be_told_where_a_share_group_begins_that_is_said() {
    let world = World::with(404, 1, |_, target| target.version = KafkaVersion::V3_9);
    let engine = mirrored(&world).await;
    world.source.set_share_start("sg", "t", 0, 20);
    world.source.commit_offset("g", "t", 0, 20).unwrap();
    until("g is there", || world.committed_on_target("g", "t", 0).is_none().then(String::new))
        .await;
    let seen = look(&world, "").await;
    let group = seen.groups.iter().find(|one| one.group.as_str() == "sg").unwrap();
    let standing = &group.standing;
    assert_eq!((standing.state, standing.code), (State::Excluded, Some(Code::UnsupportedVersion)));
    let reason = standing.reason.clone().unwrap();
    assert!(reason.contains("the target") && reason.contains("Kafka 4.1"), "{reason}");
    engine.shutdown().await;
}
