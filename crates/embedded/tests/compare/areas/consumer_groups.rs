//! Groups under the consumer protocol (KIP-848): heartbeats, commits, and how they are described.

use twinlog_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use twinlog_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest, OffsetCommitRequest,
    OffsetFetchRequest, Uuid, string, topic_name,
};

use super::commits;
use crate::pair::{Pair, Result};
use crate::requests::{Topic, group};
use crate::sides::Both;

/// A heartbeat in words.
#[derive(Clone, Debug)]
struct Beat {
    group: String,
    member: String,
    epoch: i32,
    instance: Option<&'static str>,
    /// Sent when a member joins: rebalance timeout, subscription, what it owns.
    topics: Option<Vec<&'static str>>,
    regex: Option<&'static str>,
    assignor: Option<&'static str>,
    timeout_ms: i32,
    owns: Option<Vec<(Uuid, Vec<i32>)>>,
}

impl Beat {
    fn join(group: &str, member: &str) -> Self {
        Self {
            group: group.to_owned(),
            member: member.to_owned(),
            epoch: 0,
            instance: None,
            topics: Some(vec!["consumer-groups"]),
            regex: None,
            assignor: None,
            timeout_ms: 300_000,
            owns: Some(Vec::new()),
        }
    }

    fn stay(group: &str, member: &str, epoch: i32) -> Self {
        Self { epoch, topics: None, timeout_ms: -1, owns: None, ..Self::join(group, member) }
    }

    fn request(&self, version: i16) -> ConsumerGroupHeartbeatRequest {
        let owned = |(id, partitions): &(Uuid, Vec<i32>)| {
            TopicPartitions::default().with_topic_id(*id).with_partitions(partitions.clone())
        };
        let topics = self.topics.as_ref();
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group(&self.group))
            .with_member_id(string(&self.member))
            .with_member_epoch(self.epoch)
            .with_instance_id(self.instance.map(string))
            .with_rack_id(None)
            .with_rebalance_timeout_ms(self.timeout_ms)
            .with_subscribed_topic_names(
                topics.map(|topics| topics.iter().map(|topic| topic_name(topic)).collect()),
            )
            .with_server_assignor(self.assignor.map(string))
            .with_topic_partitions(self.owns.as_ref().map(|owns| owns.iter().map(owned).collect()));
        if version >= 1 {
            request.with_subscribed_topic_regex(self.regex.map(string))
        } else {
            request
        }
    }
}

fn beat(
    pair: &mut Pair,
    version: i16,
    beat: &Beat,
) -> Result<Both<ConsumerGroupHeartbeatResponse>> {
    pair.ask(version, beat.request(version))
}

/// A heartbeat of members whose ids, and what they own, are each side's.
fn beat_each(
    pair: &mut Pair,
    version: i16,
    each: &Both<Beat>,
) -> Result<Both<ConsumerGroupHeartbeatResponse>> {
    pair.ask_each(version, &each.map(|beat| beat.request(version)))
}

fn describe(pair: &mut Pair, name: &str) -> Result {
    for version in pair.versions::<ConsumerGroupDescribeRequest>() {
        for operations in [false, true] {
            let request = ConsumerGroupDescribeRequest::default()
                .with_group_ids(vec![group(name)])
                .with_include_authorized_operations(operations);
            pair.ask(version, request)?;
        }
    }
    pair.ask_all(|_| DescribeGroupsRequest::default().with_groups(vec![group(name)]))
}

/// Member ids that each side gave, or that were given to it.
fn member(answers: &Both<ConsumerGroupHeartbeatResponse>, sent: &str) -> Both<String> {
    answers.map(|answer| {
        answer.member_id.as_ref().map_or_else(|| sent.to_owned(), ToString::to_string)
    })
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    let topic = pair.topic("consumer-groups", 4, &[])?;
    refusals(pair)?;
    for version in pair.versions::<ConsumerGroupHeartbeatRequest>() {
        life(pair, &topic, version)?;
        statics(pair, version)?;
    }
    Ok(())
}

fn refusals(pair: &mut Pair) -> Result {
    let name = "consumer-groups-refused";
    let join = || Beat::join(name, "AAAAAAAAAAAAAAAAAAAAAQ");
    let long = "assignor-that-is-none";
    let cases: Vec<(&str, Beat)> = vec![
        ("an empty group", Beat { group: String::new(), ..join() }),
        ("no timeout", Beat { timeout_ms: -1, ..join() }),
        ("no subscription", Beat { topics: None, ..join() }),
        ("nothing of what it owns", Beat { owns: None, ..join() }),
        ("something that it owns", Beat { owns: Some(vec![(Uuid::nil(), vec![0])]), ..join() }),
        ("an unknown assignor", Beat { assignor: Some(long), ..join() }),
        ("an empty assignor", Beat { assignor: Some(""), ..join() }),
        ("an empty instance", Beat { instance: Some(""), ..join() }),
        ("an epoch of an absent group", Beat::stay(name, "who", 5)),
        ("an epoch that is none", Beat::stay(name, "who", -3)),
        ("a leave of an absent group", Beat::stay(name, "who", -1)),
        ("a short leave without an instance", Beat::stay(name, "who", -2)),
    ];
    for (what, sent) in cases {
        pair.step(format!("ConsumerGroupHeartbeat with {what}"));
        for version in pair.versions::<ConsumerGroupHeartbeatRequest>() {
            beat(pair, version, &sent)?;
        }
    }
    pair.step("ConsumerGroupHeartbeat without a member id");
    for version in pair.versions::<ConsumerGroupHeartbeatRequest>().into_iter().filter(|v| *v > 0) {
        beat(pair, version, &Beat { member: String::new(), ..join() })?;
    }
    pair.step("ConsumerGroupDescribe after refusals");
    describe(pair, name)
}

fn life(pair: &mut Pair, topic: &Topic, version: i16) -> Result {
    let name = format!("consumer-groups-{version}");
    let (first, second) =
        if version == 0 { ("", "") } else { ("AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAw") };
    pair.step("a first member joins");
    let joined = beat(pair, version, &Beat::join(&name, first))?;
    let one = member(&joined, first);
    let epoch = joined.kafka.member_epoch;
    pair.step("a group of one member");
    describe(pair, &name)?;
    pair.step("ListGroups with a consumer group");
    pair.ask_all(|_| ListGroupsRequest::default())?;
    let stay = |ids: &Both<String>, epoch: i32| ids.map(|id| Beat::stay(&name, id, epoch));
    let all = |ids: &Both<String>, epoch: i32, partitions: &[i32]| {
        ids.clone().zip(topic.id).map(|(id, topic)| Beat {
            owns: Some(vec![(*topic, partitions.to_vec())]),
            ..Beat::stay(&name, id, epoch)
        })
    };
    pair.step("a member stays");
    beat_each(pair, version, &stay(&one, epoch))?;
    pair.step("a member owns everything");
    beat_each(pair, version, &all(&one, epoch, &[0, 1, 2, 3]))?;
    beat_each(pair, version, &stay(&one, epoch))?;
    describe(pair, &name)?;
    pair.step("a member with an epoch to come");
    beat_each(pair, version, &stay(&one, epoch + 5))?;
    pair.step("a member with an epoch of before");
    beat_each(
        pair,
        version,
        &stay(&one, epoch - 1).map(|beat| Beat { epoch: beat.epoch.max(1) + 100, ..beat.clone() }),
    )?;
    pair.step("an unknown member");
    beat(pair, version, &Beat::stay(&name, "who", epoch))?;
    pair.step("a member asks for everything again");
    let again = one.map(|id| Beat { epoch, ..Beat::join(&name, id) });
    beat_each(pair, version, &again)?;

    pair.step("OffsetCommit to a consumer group");
    for commit_at in pair.versions::<OffsetCommitRequest>() {
        for (what, epoch, known) in [
            ("by a member", epoch, true),
            ("with an epoch to come", epoch + 1, true),
            ("with an epoch of before", epoch - 1, true),
            ("by an unknown member", epoch, false),
            ("without an epoch", -1, true),
        ] {
            pair.step(format!("OffsetCommit to a consumer group {what}"));
            let request = one.clone().zip(topic.names()).map(|(id, names)| {
                let id = if known { id } else { "who" };
                commits::commit(commit_at, &name, (epoch, id), names, &[(0, 3, 0, Some("m"))])
            });
            pair.ask_each(commit_at, &request)?;
        }
        pair.step("OffsetCommit by nobody to a live consumer group");
        let request = topic
            .names()
            .map(|names| commits::commit(commit_at, &name, (-1, ""), names, &[(0, 9, 0, None)]));
        pair.ask_each(commit_at, &request)?;
    }
    for fetch_at in pair.versions::<OffsetFetchRequest>().into_iter().filter(|v| *v >= 9) {
        for (what, epoch, known) in [
            ("by a member", epoch, true),
            ("with an epoch to come", epoch + 1, true),
            ("with an epoch of before", epoch - 1, true),
            ("by an unknown member", epoch, false),
        ] {
            pair.step(format!("OffsetFetch of a consumer group {what}"));
            let request = one.clone().zip(topic.names()).map(|(id, names)| {
                let mut of = commits::fetch(fetch_at, &name, names, Some(&[0, 1]), true);
                of.groups[0].member_id = Some(string(if known { id } else { "who" }));
                of.groups[0].member_epoch = epoch;
                of
            });
            pair.ask_each(fetch_at, &request)?;
        }
    }
    pair.step("DeleteGroups of a live consumer group");
    pair.ask_all(|_| DeleteGroupsRequest::default().with_groups_names(vec![group(&name)]))?;

    pair.step("a second member joins");
    let joined = beat(pair, version, &Beat::join(&name, second))?;
    let two = member(&joined, second);
    let next = joined.kafka.member_epoch;
    describe(pair, &name)?;
    pair.step("the first member hears what it must give up");
    let told = beat_each(pair, version, &stay(&one, epoch))?;
    let keeps = told.kafka.assignment.as_ref().map_or_else(Vec::new, |assignment| {
        assignment.topic_partitions.iter().flat_map(|topic| topic.partitions.clone()).collect()
    });
    describe(pair, &name)?;
    pair.step("the second member waits");
    beat_each(pair, version, &stay(&two, next))?;
    pair.step("the first member has given it up");
    beat_each(pair, version, &all(&one, epoch, &keeps))?;
    describe(pair, &name)?;
    pair.step("the second member gets it");
    let got = beat_each(pair, version, &stay(&two, next))?;
    let got = got.kafka.assignment.as_ref().map_or_else(Vec::new, |assignment| {
        assignment.topic_partitions.iter().flat_map(|topic| topic.partitions.clone()).collect()
    });
    beat_each(pair, version, &all(&two, next, &got))?;
    pair.step("a group of two members");
    describe(pair, &name)?;
    pair.step("a member changes its subscription");
    let other = two.map(|id| Beat {
        topics: Some(vec!["consumer-groups", "consumer-groups-absent"]),
        ..Beat::stay(&name, id, next)
    });
    beat_each(pair, version, &other)?;
    describe(pair, &name)?;
    pair.step("a member leaves");
    beat_each(pair, version, &stay(&two, -1))?;
    pair.step("a member leaves again");
    beat_each(pair, version, &stay(&two, -1))?;
    describe(pair, &name)?;
    pair.step("the last member leaves");
    beat_each(pair, version, &stay(&one, -1))?;
    pair.step("an empty consumer group");
    describe(pair, &name)?;
    pair.ask_all(|_| ListGroupsRequest::default())?;
    pair.step("OffsetCommit by nobody to an empty consumer group");
    for commit_at in pair.versions::<OffsetCommitRequest>() {
        let request = topic
            .names()
            .map(|names| commits::commit(commit_at, &name, (-1, ""), names, &[(1, 9, 0, None)]));
        pair.ask_each(commit_at, &request)?;
    }
    pair.step("DeleteGroups of an empty consumer group");
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group(&name)]);
    pair.ask(2, request)?;
    describe(pair, &name)
}

fn statics(pair: &mut Pair, version: i16) -> Result {
    let name = format!("consumer-groups-static-{version}");
    let (first, second) =
        if version == 0 { ("", "") } else { ("AAAAAAAAAAAAAAAAAAAABA", "AAAAAAAAAAAAAAAAAAAABQ") };
    let named = |beat: Beat| Beat { instance: Some("first"), ..beat };
    pair.step("a static member joins");
    let joined = beat(pair, version, &named(Beat::join(&name, first)))?;
    let one = member(&joined, first);
    let epoch = joined.kafka.member_epoch;
    describe(pair, &name)?;
    if version > 0 {
        // In version 0 the refusal names an id that nobody gets.
        pair.step("another joins under the same name");
        beat(pair, version, &named(Beat::join(&name, second)))?;
    }
    pair.step("a static member leaves for now");
    beat_each(pair, version, &one.map(|id| named(Beat::stay(&name, id, -2))))?;
    describe(pair, &name)?;
    pair.step("a static member comes back");
    let back = beat(pair, version, &named(Beat::join(&name, second)))?;
    let two = member(&back, second);
    describe(pair, &name)?;
    pair.step("the one it was is fenced");
    beat_each(pair, version, &one.map(|id| named(Beat::stay(&name, id, epoch))))?;
    pair.step("a static member leaves");
    beat_each(pair, version, &two.map(|id| named(Beat::stay(&name, id, -1))))?;
    describe(pair, &name)
}
