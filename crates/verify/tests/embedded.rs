//! The whole way between two embedded clusters with twinlog's engine between them, on a paused
//! clock: mirrors that are faithful, and mirrors that were damaged behind its back.

use std::ops::Deref;
use std::sync::Arc;

use twinlog_embedded::{
    Acl, AuthorizerOptions, GroupKind, Isolation, NewRecord, Operation, Record, Resource,
};
use twinlog_engine::Existing;
use twinlog_types::TopicName;
use twinlog_verify::compare::Kind;
use twinlog_verify::{
    FlowReport, GroupReport, GroupResult, How, PartitionReport, Progress, Request, Verdict,
    rehearse, verify,
};
use twinlog_worlds::until;

const MIRROR: &str = "hello.orders";

struct World(twinlog_worlds::World);

impl Deref for World {
    type Target = twinlog_worlds::World;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let world = twinlog_worlds::World::with(seed, |source, target| {
            for options in [source, target] {
                // Free for all as long as there is no ACL.
                options.authorizer = Some(AuthorizerOptions {
                    allow_everyone_if_no_acl_found: true,
                    ..AuthorizerOptions::default()
                });
            }
        });
        Self(world.saying("emit.heartbeats.enabled = false"))
    }

    /// `orders` with 1000 records, a group at 600, and a mirror of it at rest. The source begins
    /// with a hole, so that no offsets are equal.
    async fn mirrored(seed: u64) -> Self {
        let world = Self::new(seed);
        world.source.create_topic("orders", 1, &[]).expect("made");
        world.source.begin_at("orders", 0, 13).expect("empty");
        world.write(1_000);
        world.source.commit_offset("app", "orders", 0, 600).expect("committed");
        world.copy(1_000, &["app"]).await;
        world
    }

    fn write(&self, count: usize) {
        let from = self.source.log_end("orders", 0);
        let records: Vec<NewRecord> = (from..from + count as i64)
            .map(|n| {
                let record = NewRecord::new(format!("k{}", n % 50), format!("value {n}"));
                record.at(1_700_000_000_000 + n).header("h", Some("x"))
            })
            .collect();
        self.source.append("orders", 0, &records).expect("appended");
    }

    /// Mirrors until the target has `records` and the groups a commit, and ends in order.
    async fn copy(&self, records: usize, groups: &[&str]) {
        let engine = self.start();
        let there = || {
            self.target.topics().iter().any(|topic| topic == MIRROR)
                && self.copied().len() >= records
                && groups.iter().all(|group| self.target.committed(group, MIRROR, 0).is_some())
        };
        until("it is mirrored", || (!there()).then(String::new)).await;
        engine.shutdown().await;
    }

    fn copied(&self) -> Vec<Record> {
        self.target.records(MIRROR, 0, Isolation::ReadCommitted)
    }

    async fn verify(&self, how: How) -> FlowReport {
        self.verify_only(&Request { how: Some(how), ..Request::default() }).await
    }

    async fn verify_only(&self, request: &Request) -> FlowReport {
        let observer = self.observer("");
        let mut report = FlowReport::new(&observer, How::Full, self.target.now_ms());
        verify(&observer, request, &Arc::new(Progress::default()), &mut report).await;
        report
    }

    /// Writes the mirror's log anew with what `damage` makes of its records. The topic stays the one
    /// that it is, and nobody tells the durable state.
    fn damage(&self, damage: impl FnOnce(&mut Vec<NewRecord>)) {
        let new = |record: Record| NewRecord {
            key: record.key,
            value: record.value,
            headers: record.headers,
            timestamp: Some(record.timestamp),
        };
        let mut records: Vec<NewRecord> = self.copied().into_iter().map(new).collect();
        damage(&mut records);
        // Whole batches are lost, so it is all of them.
        let start = self.target.log_start(MIRROR, 0);
        assert!(self.target.lose_tail(MIRROR, 0, start), "the log is lost");
        self.target.append(MIRROR, 0, &records).expect("appended");
    }
}

fn orders(report: &FlowReport) -> &PartitionReport {
    let found = report.partitions.iter().find(|one| one.topic == TopicName::from("orders"));
    found.unwrap_or_else(|| panic!("orders is not in {report:#?}"))
}

fn group<'a>(report: &'a FlowReport, group: &str) -> &'a GroupReport {
    let found = report.groups.iter().find(|one| one.group.as_str() == group);
    found.unwrap_or_else(|| panic!("{group} is not in {report:#?}"))
}

/// different, missing, extra, doubled, out of order
fn wrong(report: &FlowReport) -> [u64; 5] {
    let tally = &orders(report).tally;
    [tally.different, tally.missing, tally.extra, tally.doubled, tally.out_of_order]
}

fn found(report: &FlowReport) -> Vec<(Kind, Option<i64>, Option<i64>)> {
    let listed = orders(report).findings.iter();
    listed.map(|one| (one.kind, one.source.map(|at| at.0), one.target.map(|at| at.0))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_faithful_mirror_is_equal_by_sample_and_as_a_whole() {
    let world = World::mirrored(1).await;
    for how in [How::Full, How::Sample(300), How::Sample(5_000)] {
        let report = world.verify(how).await;
        assert_eq!(report.verdict(), Verdict::Equal, "{report:#?}");
        assert_eq!((report.is_ready(), report.rpo().records), (true, 0));
        let orders = orders(&report);
        let compared = orders.tally.compared();
        assert_eq!((orders.by_map, orders.tally.equal), (true, compared), "{orders:#?}");
        assert!(if how == How::Sample(300) { compared >= 300 } else { compared == 1_000 });
        assert_eq!(orders.whole, how != How::Sample(300));
        if how == How::Full {
            let (source, target) = orders.hashes.expect("hashes");
            assert_eq!(source, target);
        }
        let app = group(&report, "app");
        assert_eq!((app.result, app.source_offset), (GroupResult::Equal, 600));
        assert_eq!((app.target_offset, app.proven), (Some(587), Some(587)));
        assert_eq!(app.neighbours, (16, 16));
    }
}

#[tokio::test(start_paused = true)]
async fn one_record_missing_in_the_middle_is_found() {
    let world = World::mirrored(2).await;
    world.damage(|log| drop(log.remove(500)));
    let report = world.verify(How::Full).await;
    assert_eq!(report.verdict(), Verdict::Mismatch);
    assert_eq!(wrong(&report), [0, 1, 0, 0, 0]);
    assert_eq!(found(&report), [(Kind::Missing, Some(513), None)]);
    // The group's place moved with the records: what is committed skips one.
    let app = group(&report, "app");
    assert_eq!((app.result, app.skipped, app.proven), (GroupResult::TooFar, 1, Some(586)));
    assert!(!report.is_ready());
    let small = world.verify(How::Sample(5_000)).await;
    assert_eq!(wrong(&small), [0, 1, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn one_record_doubled_is_found() {
    let world = World::mirrored(3).await;
    world.damage(|log| log.insert(801, log[800].clone()));
    let report = world.verify(How::Full).await;
    assert_eq!((report.verdict(), wrong(&report)), (Verdict::Mismatch, [0, 0, 1, 1, 0]));
    assert_eq!(found(&report), [(Kind::Doubled, None, Some(801))]);
    assert_eq!(group(&report, "app").result, GroupResult::Equal);
}

#[tokio::test(start_paused = true)]
async fn two_swapped_records_are_found() {
    let world = World::mirrored(4).await;
    world.damage(|log| log.swap(800, 801));
    let report = world.verify(How::Full).await;
    assert_eq!((report.verdict(), wrong(&report)), (Verdict::Mismatch, [0, 0, 0, 0, 1]));
    let (kind, source, target) = found(&report)[0];
    assert_eq!(kind, Kind::OutOfOrder);
    assert!([Some(813), Some(814)].contains(&source) && [Some(800), Some(801)].contains(&target));
}

#[tokio::test(start_paused = true)]
async fn one_changed_header_and_one_changed_timestamp_are_found() {
    let world = World::mirrored(5).await;
    world.damage(|log| {
        log[750].headers[0].1 = Some("y".into());
        log[760].timestamp = log[760].timestamp.map(|at| at + 1);
        log[770].value = None;
    });
    let report = world.verify(How::Full).await;
    assert_eq!((report.verdict(), wrong(&report)), (Verdict::Mismatch, [3, 0, 0, 0, 0]));
    let listed: Vec<_> = orders(&report)
        .findings
        .iter()
        .map(|one| match one.kind {
            Kind::Different(parts) => (one.source.map(|at| at.0), parts.words()),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [(763, vec!["headers"]), (773, vec!["timestamp"]), (783, vec!["value"])];
    assert_eq!(listed, expected.map(|(at, words)| (Some(at), words)));
}

#[tokio::test(start_paused = true)]
async fn a_group_one_record_too_far_or_too_near_is_found_by_contents() {
    let world = World::mirrored(6).await;
    for (stands, result, reread, skipped) in [
        (588, GroupResult::TooFar, 0, 1),
        (586, GroupResult::TooNear, 1, 0),
        (587, GroupResult::Equal, 0, 0),
        (0, GroupResult::TooNear, 587, 0),
        (1_000, GroupResult::TooFar, 0, 413),
        (1_001, GroupResult::BeyondEnd, 0, 413),
    ] {
        world.target.commit_offset("app", MIRROR, 0, stands).expect("committed");
        let report = world.verify(How::Sample(300)).await;
        let app = group(&report, "app");
        assert_eq!((app.result, app.reread, app.skipped), (result, reread, skipped), "{stands}");
        assert_eq!(app.proven, Some(587));
        let verdict = if stands == 587 { Verdict::Equal } else { Verdict::Mismatch };
        assert_eq!(report.verdict(), verdict);
    }
    // Where its own members move it, it is said and no mistake.
    world.target.commit_offset("app", MIRROR, 0, 700).expect("committed");
    world.target.set_group("app", GroupKind::Classic, true);
    let report = world.verify(How::Sample(300)).await;
    let app = group(&report, "app");
    assert_eq!((app.result, app.skipped), (GroupResult::LiveOnTarget, 113));
    assert_eq!(report.verdict(), Verdict::Equal);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_copied_yet_is_counted_and_is_no_mismatch() {
    let world = World::mirrored(7).await;
    world.write(40);
    world.source.commit_offset("app", "orders", 0, 1_030).expect("committed");
    world.source.commit_offset("new", "orders", 0, 5).expect("committed");
    for how in [How::Full, How::Sample(300)] {
        let report = world.verify(how).await;
        let rpo = report.rpo();
        let bytes: usize = (1_013..1_053)
            .map(|n: i64| 2 + format!("k{}", n % 50).len() + format!("value {n}").len())
            .sum();
        assert_eq!((rpo.records, rpo.bytes, rpo.exact), (40, bytes as u64, true));
        assert_eq!(rpo.ms, (report.at_ms.0 - 1_700_000_001_013).unsigned_abs());
        assert_eq!(wrong(&report), [0; 5]);
        // Nobody carries groups over any more: where they stand now, they would read again.
        let app = group(&report, "app");
        assert_eq!((app.result, app.reread, app.proven), (GroupResult::TooNear, 413, Some(1_000)));
        assert_eq!(group(&report, "new").result, GroupResult::NoPosition);
        assert_eq!(report.verdict(), Verdict::Mismatch);
        assert_eq!(report.against().len(), 1);
    }
    let only = Request { group: Some("nobody".into()), ..Request::default() };
    let report = world.verify_only(&only).await;
    assert_eq!((report.partitions.len(), report.groups.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn records_that_compaction_removed_are_told_from_missing_ones() {
    let world = World::new(8);
    world.source.create_topic("orders", 1, &[("cleanup.policy", "compact")]).expect("made");
    world.write(1_000);
    world.source.commit_offset("app", "orders", 0, 600).expect("committed");
    world.copy(1_000, &["app"]).await;
    // A record whose key comes again is left out, as the cleaner would; then the last of its key.
    world.damage(|log| drop(log.remove(500)));
    let report = world.verify(How::Full).await;
    assert_eq!((orders(&report).tally.compacted, wrong(&report)), (1, [0; 5]), "{report:#?}");
    world.damage(|log| drop(log.remove(970)));
    let report = world.verify(How::Full).await;
    assert_eq!((orders(&report).tally.compacted, wrong(&report)), (1, [0, 1, 0, 0, 0]));
}

#[tokio::test(start_paused = true)]
async fn aborted_records_and_markers_are_no_data() {
    let world = World::new(9);
    world.source.create_topic("orders", 1, &[]).expect("made");
    let records = |from: i32, to: i32| -> Vec<NewRecord> {
        (from..to).map(|n| NewRecord::new("k", format!("value {n}"))).collect()
    };
    // The group stands among more aborted records than are looked at around a position.
    for (from, to, commit) in [(0, 10, true), (10, 110, false), (110, 120, true)] {
        let mut transaction = world.source.begin_transaction();
        let records = records(from, to);
        world.source.append_in(&mut transaction, "orders", 0, &records).expect("appended");
        world.source.end_transaction(transaction, commit).expect("ended");
    }
    world.source.commit_offset("app", "orders", 0, 60).expect("committed");
    world.copy(20, &["app"]).await;
    let report = world.verify(How::Full).await;
    let tally = &orders(&report).tally;
    assert_eq!((tally.equal, tally.aborted, wrong(&report)), (20, 100, [0; 5]), "{report:#?}");
    let app = group(&report, "app");
    assert_eq!((app.result, app.target_offset), (GroupResult::Equal, Some(10)));
    assert_eq!(report.verdict(), Verdict::Equal);
}

#[tokio::test(start_paused = true)]
async fn without_a_map_contents_alone_decide() {
    // The mirror that somebody else made: other offsets, no state, no offset-syncs.
    let world = World::new(10);
    world.source.create_topic("orders", 1, &[]).expect("made");
    world.source.begin_at("orders", 0, 13).expect("empty");
    world.write(3_000);
    world.target.create_topic(MIRROR, 1, &[]).expect("made");
    let copy: Vec<NewRecord> = world
        .source
        .records("orders", 0, Isolation::ReadCommitted)
        .into_iter()
        .map(|record| NewRecord {
            key: record.key,
            value: record.value,
            headers: record.headers,
            timestamp: Some(record.timestamp),
        })
        .collect();
    world.target.append(MIRROR, 0, &copy[..2_900]).expect("appended");
    for (group, source, target) in [
        ("right", 1_013, 1_000),
        ("far", 1_013, 1_001),
        ("near", 1_013, 999),
        ("end", 3_013, 2_900),
    ] {
        world.source.commit_offset(group, "orders", 0, source).expect("committed");
        world.target.commit_offset(group, MIRROR, 0, target).expect("committed");
    }
    for how in [How::Full, How::Sample(500)] {
        let report = world.verify(how).await;
        let orders = orders(&report);
        assert_eq!((orders.by_map, wrong(&report)), (false, [0; 5]), "{report:#?}");
        assert_eq!((report.rpo().records, orders.copied_to.map(|at| at.0)), (100, Some(2_913)));
        let result = |name: &str| (group(&report, name).result, group(&report, name).proven);
        assert_eq!(result("right"), (GroupResult::Equal, Some(1_000)));
        assert_eq!(result("far"), (GroupResult::TooFar, Some(1_000)));
        assert_eq!(result("near"), (GroupResult::TooNear, Some(1_000)));
        assert_eq!(result("end"), (GroupResult::Equal, Some(2_900)));
    }
    // Retention took the beginnings, of each log another one.
    world.source.delete_records("orders", 0, 500).expect("deleted");
    world.target.delete_records(MIRROR, 0, 800).expect("deleted");
    let report = world.verify(How::Full).await;
    let tally = &orders(&report).tally;
    assert_eq!((tally.equal, wrong(&report)), (2_100, [0; 5]), "{report:#?}");
    // As many records as on the source, and one of them another.
    world.damage(|log| {
        log.remove(800);
        log.insert(900, NewRecord::new("k", "foreign"));
    });
    let report = world.verify(How::Full).await;
    assert_eq!(wrong(&report), [0, 1, 1, 0, 0], "{report:#?}");
}

/// Somebody else copied 700 of a thousand records; twinlog was told to match them and copied the rest.
#[tokio::test(start_paused = true)]
async fn what_somebody_else_copied_before_a_takeover_is_compared_too() {
    let world = World::new(21);
    world.source.create_topic("orders", 1, &[]).expect("made");
    world.source.begin_at("orders", 0, 13).expect("empty");
    world.write(1_000);
    world.target.create_topic(MIRROR, 1, &[]).expect("made");
    let copy = |record: Record| NewRecord {
        key: record.key,
        value: record.value,
        headers: record.headers,
        timestamp: Some(record.timestamp),
    };
    let all = world.source.records("orders", 0, Isolation::ReadCommitted);
    let copies: Vec<NewRecord> = all.into_iter().map(copy).take(700).collect();
    world.target.append(MIRROR, 0, &copies).expect("appended");
    let engine = world.start_existing(Some(Existing::Match));
    until("the rest is copied", || (world.copied().len() < 1_000).then(String::new)).await;
    engine.shutdown().await;
    for how in [How::Full, How::Sample(5_000)] {
        let report = world.verify(how).await;
        assert_eq!((orders(&report).tally.equal, wrong(&report)), (1_000, [0; 5]), "{report:#?}");
        assert_eq!(report.verdict(), Verdict::Equal);
    }
    world.damage(|log| log.insert(300, NewRecord::new("k", "foreign")));
    let report = world.verify(How::Full).await;
    assert_eq!((report.verdict(), wrong(&report)), (Verdict::Mismatch, [0, 0, 1, 0, 0]));
}

/// The source deletes what a group has still to read, and what the target still has.
#[tokio::test(start_paused = true)]
async fn a_group_behind_the_sources_retention_stands_right_by_the_map() {
    let world = World::mirrored(22).await;
    world.source.delete_records("orders", 0, 813).expect("deleted");
    let observer = world.observer("");
    for (stands, result, reread, skipped) in [
        (587, GroupResult::Equal, 0, 0),
        (580, GroupResult::TooNear, 7, 0),
        (590, GroupResult::TooFar, 0, 3),
    ] {
        world.target.commit_offset("app", MIRROR, 0, stands).expect("committed");
        let report = world.verify(How::Full).await;
        let app = group(&report, "app");
        assert_eq!((app.result, app.reread, app.skipped), (result, reread, skipped), "{app:#?}");
        assert!(app.reason.as_deref().is_some_and(|why| why.contains("up to 812")), "{app:#?}");
        assert_eq!(wrong(&report), [0; 5]);
    }
    world.target.commit_offset("app", MIRROR, 0, 587).expect("committed");
    let plan = rehearse::plan(&observer, &"app".into(), 8).await.expect("planned");
    let done = rehearse::rehearse(&observer, &plan, 50).await.expect("rehearsed");
    assert!(done[0].is_equal() && done[0].tally.equal == 50, "{:?}", done[0]);
    rehearse::remove(&observer, &plan).await.expect("removed");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_is_said_and_nothing_is_ready() {
    let world = World::mirrored(11).await;
    world.source.kill_broker(1);
    let report = world.verify(How::Full).await;
    assert_eq!((report.verdict(), report.is_ready()), (Verdict::NotFoundOut, false));
    assert!(report.troubles[0].starts_with("hello: "), "{:?}", report.troubles);
}

#[tokio::test(start_paused = true)]
async fn a_rehearsal_reads_on_from_the_groups_position_and_leaves_nothing_behind() {
    let world = World::mirrored(13).await;
    let observer = world.observer("");
    let before = (world.source.groups(), world.target.groups());
    // 587 is its place; of a mirror that sets groups back coarsely it may be hundreds before it.
    for (stands, reread, skipped) in [(587, 0, 0), (588, 0, 1), (586, 1, 0), (100, 487, 0)] {
        world.target.commit_offset("app", MIRROR, 0, stands).expect("committed");
        let plan = rehearse::plan(&observer, &"app".into(), 7).await.expect("planned");
        assert!(plan.scratch.as_str().starts_with("twinlog-rehearsal-app-"), "{plan:?}");
        assert_eq!((world.source.groups(), world.target.groups()), before, "nothing was done");
        let done = rehearse::rehearse(&observer, &plan, 50).await.expect("rehearsed");
        assert!(world.target.groups().contains(&plan.scratch.to_string()));
        let one = &done[0];
        assert_eq!((one.reread, one.skipped), (reread, skipped), "{one:?}");
        assert_eq!(one.is_equal(), stands == 587, "{one:?}");
        assert!(one.tally.is_faithful() && one.tally.equal == 50, "{one:?}");
        assert_eq!(one.first.map(|(_, target)| target.0), Some(587), "{one:?}");
        rehearse::remove(&observer, &plan).await.expect("removed");
        // Also when it is not there any more.
        rehearse::remove(&observer, &plan).await.expect("removed");
        assert_eq!((world.source.groups(), world.target.groups()), before);
        assert_eq!(world.target.committed("app", MIRROR, 0), Some(stands));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_runs_and_a_group_that_moves_are_equal_at_every_look() {
    let world = World::mirrored(12).await;
    let engine = world.start();
    for round in 0..5 {
        world.write(50);
        let committed = 600 + round * 37;
        world.source.commit_offset("app", "orders", 0, committed).expect("committed");
        let report = world.verify(How::Full).await;
        assert_eq!(report.verdict(), Verdict::Equal, "{report:#?}");
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_named_and_is_no_difference() {
    use Operation::{Describe, DescribeConfigs, Read};
    let world = World::mirrored(13).await;
    let equal = world.verify(How::Full).await;
    assert_eq!(equal.verdict(), Verdict::Equal, "{equal:#?}");
    // Denied is what is allowed to everybody else.
    let deny = |operation, resource, name: &str| {
        Acl::allow("User:ANONYMOUS", operation, resource, name).denied()
    };
    let (topic, group) = (Resource::Topic, Resource::Group);
    for (on_source, denied, word, name) in [
        (true, deny(Describe, topic, "*"), "Read --topic", "*"),
        (true, deny(Read, topic, "orders"), "Read --topic", "orders"),
        (true, deny(Describe, group, "*"), "Describe --group", "*"),
        (false, deny(Describe, topic, MIRROR), "Read --topic", MIRROR),
        (false, deny(Read, topic, MIRROR), "Read --topic", MIRROR),
        (
            false,
            deny(Read, topic, "mm2-twinlog.hello.internal"),
            "Read --topic",
            "mm2-twinlog.hello.internal",
        ),
        (
            false,
            deny(Describe, topic, "mm2-twinlog.hello.internal"),
            "Read --topic",
            "mm2-twinlog.hello.internal",
        ),
        (false, deny(Describe, group, "*"), "Describe --group", "*"),
    ] {
        let cluster = if on_source { &world.source } else { &world.target };
        // With one ACL on it a resource is not free for all any more.
        let rest = [Read, Describe, DescribeConfigs]
            .map(|one| Acl::allow("User:*", one, denied.resource, &denied.name));
        for acl in &rest {
            cluster.add_acl(acl.clone());
        }
        cluster.add_acl(denied.clone());
        let found = world.verify(How::Full).await;
        let name = if name == "*" { "'*'" } else { name };
        let command = format!(
            "kafka-acls.sh --bootstrap-server {} --add --allow-principal User:ANONYMOUS \
             --operation {word} {name}",
            cluster.bootstrap()
        );
        assert_eq!(found.grants, [command], "{denied:?}: {found:#?}");
        assert_eq!(found.verdict(), Verdict::NotFoundOut, "{denied:?}: {found:#?}");
        let wrong = found.partitions.iter().any(|one| !one.is_faithful());
        let moved = found.groups.iter().any(|one| one.result.is_mismatch());
        assert!(!wrong && !moved, "what was not seen does not differ: {denied:?}: {found:#?}");
        cluster.remove_acl(&denied);
        assert!(rest.iter().all(|acl| cluster.remove_acl(acl)));
    }
    // Whether a topic is compacted nobody asks where everything is equal.
    world.source.add_acl(deny(DescribeConfigs, topic, "orders"));
    world.source.add_acl(Acl::allow("User:*", Read, topic, "orders"));
    let found = world.verify(How::Full).await;
    assert_eq!((found.verdict(), found.grants.len()), (Verdict::Equal, 0), "{found:#?}");
}
