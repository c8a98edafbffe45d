//! What the file, the rights, or the clusters themselves keep from coming about.

use twinlog_doctor::Wanted;
use twinlog_embedded::{Acl, AuthorizerOptions, EmbeddedOptions, Operation, Resource};
use twinlog_types::{Code, Severity};
use twinlog_worlds::until;

use crate::examples;
use crate::faults::{codes, group, said, topic};
use crate::world::{World, records};

/// `orders` with a group at 60, nobody mirrors it.
fn orders(world: twinlog_worlds::World) -> World {
    let world = World::from(world);
    world.source.create_topic("orders", 1, &[]).expect("made");
    world.append("orders", 100);
    world.source.commit_offset("orders-app", "orders", 0, 60).expect("committed");
    world
}

async fn stands(world: &World, place: i64) {
    until("the group is there", || {
        let stands = world.target.committed("orders-app", "hello.orders", 0);
        (stands != Some(place)).then(|| format!("{stands:?}"))
    })
    .await;
}

async fn copied(world: &World, topic: &str, count: i64) {
    let mirror = format!("hello.{topic}");
    until("it is copied", || {
        let there = world.target.topics().contains(&mirror);
        let end = if there { world.target.log_end(&mirror, 0) } else { -1 };
        (end != count).then(|| format!("{end}"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_the_file_switches_off_is_told_with_the_misspelt_key_first() {
    let key = "sync.group.offsets.enabled";
    let world = orders(
        twinlog_worlds::World::new(81).saying("emit.heartbeats.enabled = false").not_saying(key),
    );
    let engine = world.start();
    copied(&world, "orders", 100).await;
    let off = group("orders-app", &[Code::SyncDisabled], &["60 would be its place"]);
    said(&world, "", &[off]).await;
    let typo = "hello->world.sync.group.offset.enabled = true";
    let both = &[Code::UnknownProperty, Code::SyncDisabled];
    let misspelt = group("orders-app", both, &["hello->world.sync.group.offsets.enabled = true"]);
    said(&world, typo, &[misspelt]).await;
    let asked = Wanted { group: Some("orders-app".into()), topic: None };
    let found = world.doctor(typo, &asked).await;
    let told: Vec<_> = found.findings.iter().map(|one| (one.code, one.follows_from)).collect();
    let expected =
        [(Code::UnknownProperty, None), (Code::SyncDisabled, Some(Code::UnknownProperty))];
    assert_eq!(told, expected);
    let mute = "hello->world.sync.group.offsets.enabled = true\nemit.checkpoints.enabled = false";
    let mute = world.doctor(mute, &asked).await;
    assert!(codes(&mute, Severity::Info).contains(&Code::CheckpointsDisabled), "{mute:#?}");
    let nothing = world.doctor("hello->world.topics = payments*", &Wanted::default()).await;
    examples::doctor(&nothing, Code::NothingMatches);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn another_cluster_behind_an_alias_and_one_behind_both_are_told_before_what_follows() {
    let lines = "emit.heartbeats.enabled = false";
    let world = orders(twinlog_worlds::World::new(82).saying(lines));
    let engine = world.start();
    stands(&world, 60).await;
    engine.shutdown().await;
    // The source was built anew: another cluster, with topics of the same names.
    let again = twinlog_worlds::World::with(83, |source, _| {
        "hello-again".clone_into(&mut source.cluster_id);
    });
    let again = orders(
        twinlog_worlds::World::between(82, again.source.clone(), world.target.clone())
            .saying(lines),
    );
    let stopped =
        group("orders-app", &[Code::ClusterReplaced, Code::TargetNotEmpty], &["hello-again"]);
    said(&again, "", &[stopped]).await;
    let engine = again.start();
    let both = &[Code::ClusterReplaced, Code::TargetNotEmpty];
    said(&again, "", &[group("orders-app", both, &["hello-cluster-id", "1 partition"]).unshown()])
        .await;
    let found = again.doctor("", &Wanted::default()).await;
    assert_eq!(found.findings[0].code, Code::ClusterReplaced);
    let follows = found.findings.iter().find(|one| one.code == Code::TargetNotEmpty);
    assert_eq!(follows.and_then(|one| one.follows_from), Some(Code::ClusterReplaced));
    // What only the other cluster had is history, once this one is mirrored.
    again.source.create_topic("payments", 1, &[]).expect("made");
    again.append("payments", 10);
    again.source.commit_offset("payments-app", "payments", 0, 5).expect("committed");
    copied(&again, "payments", 10).await;
    until("the group is there", || {
        let stands = again.target.committed("payments-app", "hello.payments", 0);
        (stands != Some(5)).then(|| format!("{stands:?}"))
    })
    .await;
    let beside = group("payments-app", &[Code::ClusterReplaced], &["1 partition"]);
    said(&again, "", &[beside.unshown()]).await;
    assert!(again.source.delete_topic("orders"));
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    said(&again, "", &[group("payments-app", &[], &[])]).await;
    engine.shutdown().await;
    let one = twinlog_worlds::World::between(84, world.source.clone(), world.source.clone());
    said(&World::from(one), "", &[group("orders-app", &[Code::SameCluster], &[])]).await;
}

/// Nothing on a target that was built anew remembers the one before: what is told is that nobody
/// mirrors to it.
#[tokio::test(start_paused = true)]
async fn a_target_that_was_built_anew_is_told_as_one_that_nobody_mirrors_to() {
    let lines = "emit.heartbeats.enabled = false";
    let world = orders(twinlog_worlds::World::new(85).saying(lines));
    let engine = world.start();
    stands(&world, 60).await;
    engine.shutdown().await;
    let empty = twinlog_worlds::World::with(86, |_, target| {
        "world-again".clone_into(&mut target.cluster_id);
    });
    let again = World::from(
        twinlog_worlds::World::between(85, world.source.clone(), empty.target.clone())
            .saying(lines),
    );
    let both = &[Code::MirrorNotRunning, Code::TopicMissingOnTarget];
    let ever = &["no twinlog has ever run this flow between these two clusters"];
    said(&again, "", &[group("orders-app", both, ever).unshown()]).await;
    let engine = again.start();
    stands(&again, 60).await;
    said(&again, "", &[group("orders-app", &[], &[])]).await;
    engine.shutdown().await;
}

fn guarded(options: &mut EmbeddedOptions) {
    options.authorizer =
        Some(AuthorizerOptions { super_users: Vec::new(), allow_everyone_if_no_acl_found: true });
}

/// Allows everything but one operation.
fn without(operation: Operation, resource: Resource, name: &str) -> [Acl; 2] {
    let who = "User:ANONYMOUS";
    [
        Acl::allow(who, Operation::All, resource, name),
        Acl::allow(who, operation, resource, name).denied(),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_told_with_what_it_is_on() {
    let lines = "emit.heartbeats.enabled = false\nsync.topic.configs.enabled = false";
    let world = twinlog_worlds::World::with(85, |source, target| {
        guarded(source);
        guarded(target);
    });
    let world = orders(world.saying(lines));
    for name in ["sealed", "barred", "kept"] {
        world.source.create_topic(name, 1, &[]).expect("made");
        world.append(name, 100);
        world.source.commit_offset(&format!("{name}-app"), name, 0, 60).expect("committed");
    }
    let read = without(Operation::Read, Resource::Topic, "sealed");
    for acl in read {
        world.source.add_acl(acl);
    }
    let write = without(Operation::Write, Resource::Topic, "hello.barred");
    for acl in write {
        world.target.add_acl(acl);
    }
    let commit = without(Operation::Read, Resource::Group, "kept-app");
    for acl in commit {
        world.target.add_acl(acl);
    }
    let engine = world.start();
    stands(&world, 60).await;
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert_eq!(world.target.committed("kept-app", "hello.kept", 0), None);
    let cases = [
        group("orders-app", &[], &[]),
        // The commit is refused, which only the log of the process says.
        group("kept-app", &[], &[]),
        // Who looks lacks this right as well, which is told first.
        group("sealed-app", &[Code::MissingPermission], &["--operation Read --topic sealed"])
            .unshown(),
        group(
            "barred-app",
            &[Code::MissingPermission],
            &["--operation Write --topic hello.barred"],
        ),
    ];
    said(&world, "", &cases).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn two_directions_of_one_name_are_told_from_either() {
    let lines = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n\
                 world->hello.enabled = true\nworld->hello.sync.group.offsets.enabled = true\n\
                 emit.heartbeats.enabled = false";
    let world = orders(twinlog_worlds::World::new(86).saying(lines));
    world.target.create_topic("orders", 1, &[]).expect("made");
    world.target.append("orders", 0, &records(3)).expect("appended");
    let engine = world.start();
    let looped = topic("orders", &[Code::ReplicationLoop], &[]);
    said(&world, "", &[looped]).await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_answer_is_told_and_nothing_else_is_made_up() {
    let world = orders(twinlog_worlds::World::new(87).saying("emit.heartbeats.enabled = false"));
    let engine = world.start();
    stands(&world, 60).await;
    world.source.kill_broker(1);
    let about = Wanted { group: Some("orders-app".into()), topic: None };
    let found = world.doctor("", &about).await;
    let told: Vec<_> = found.findings.iter().map(|one| (one.code, one.found_out)).collect();
    // The second: where it stands is known, and not whether that is its place.
    assert_eq!(told, [(Code::Unreachable, false); 2], "{found:#?}");
    examples::doctor(&found, Code::Unreachable);
    engine.shutdown().await;
}
