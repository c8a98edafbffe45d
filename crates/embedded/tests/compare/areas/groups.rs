//! The life of classic groups: members come, agree, commit, leave; and how it is described.

use bytes::Bytes;
use twinlog_protocol::Request;
use twinlog_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use twinlog_protocol::messages::leave_group_request::MemberIdentity;
use twinlog_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use twinlog_protocol::messages::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, HeartbeatRequest,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest,
    OffsetDeleteRequest, SyncGroupRequest, string,
};

use super::commits;
use crate::pair::{Pair, Result};
use crate::requests::{Topic, group};
use crate::sides::Both;

/// Longer than the script takes.
const SESSION_MS: i32 = 300_000;
const MEMBER_ID_REQUIRED: i16 = 79;

/// The newest version of `R` that is not newer than `version`, so that a script at one version
/// goes through all requests of the time.
fn at<R: Request>(pair: &Pair, version: i16) -> i16 {
    let versions = pair.versions::<R>();
    versions.iter().copied().filter(|v| *v <= version).max().unwrap_or(versions[0])
}

#[derive(Clone, Debug)]
struct Join {
    group: String,
    member: String,
    instance: Option<&'static str>,
    kind: &'static str,
    /// Name and metadata.
    protocols: Vec<(&'static str, Bytes)>,
    session_ms: i32,
}

/// What a consumer says of its subscription: version 0, one topic, no user data.
fn subscription(topic: &str, user: &str) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1];
    bytes.extend_from_slice(&(topic.len() as i16).to_be_bytes());
    bytes.extend_from_slice(topic.as_bytes());
    bytes.extend_from_slice(&(user.len() as i32).to_be_bytes());
    bytes.extend_from_slice(user.as_bytes());
    bytes.into()
}

impl Join {
    fn new(group: &str, user: &str) -> Self {
        Self {
            group: group.to_owned(),
            member: String::new(),
            instance: None,
            kind: "consumer",
            protocols: vec![("range", subscription("groups", user))],
            session_ms: SESSION_MS,
        }
    }

    fn request(&self, version: i16) -> JoinGroupRequest {
        let protocol = |(name, metadata): &(&str, Bytes)| {
            let protocol = JoinGroupRequestProtocol::default().with_name(string(name));
            protocol.with_metadata(metadata.clone())
        };
        let request = JoinGroupRequest::default()
            .with_group_id(group(&self.group))
            .with_session_timeout_ms(self.session_ms)
            .with_member_id(string(&self.member))
            .with_protocol_type(string(self.kind))
            .with_protocols(self.protocols.iter().map(protocol).collect());
        let request =
            if version >= 1 { request.with_rebalance_timeout_ms(300_000) } else { request };
        let request = if version >= 5 {
            request.with_group_instance_id(self.instance.map(string))
        } else {
            request
        };
        if version >= 8 { request.with_reason(Some(string("because"))) } else { request }
    }

    /// The requests of members whose ids the sides chose.
    fn by(&self, version: i16, members: &Both<String>) -> Both<JoinGroupRequest> {
        members.map(|member| Self { member: member.clone(), ..self.clone() }.request(version))
    }
}

fn sync(
    version: i16,
    name: &str,
    generation: i32,
    member: &str,
    instance: Option<&str>,
    assignments: &[(String, &'static str)],
) -> SyncGroupRequest {
    let assignment = |(member, bytes): &(String, &'static str)| {
        let assignment = SyncGroupRequestAssignment::default().with_member_id(string(member));
        assignment.with_assignment(Bytes::from_static(bytes.as_bytes()))
    };
    let request = SyncGroupRequest::default()
        .with_group_id(group(name))
        .with_generation_id(generation)
        .with_member_id(string(member))
        .with_assignments(assignments.iter().map(assignment).collect());
    let request =
        if version >= 3 { request.with_group_instance_id(instance.map(string)) } else { request };
    if version >= 5 {
        request
            .with_protocol_type(Some(string("consumer")))
            .with_protocol_name(Some(string("range")))
    } else {
        request
    }
}

fn heartbeat(
    version: i16,
    name: &str,
    generation: i32,
    member: &str,
    instance: Option<&str>,
) -> HeartbeatRequest {
    let request = HeartbeatRequest::default()
        .with_group_id(group(name))
        .with_generation_id(generation)
        .with_member_id(string(member));
    if version >= 3 { request.with_group_instance_id(instance.map(string)) } else { request }
}

fn leave(version: i16, name: &str, members: &[(&str, Option<&str>)]) -> LeaveGroupRequest {
    let request = LeaveGroupRequest::default().with_group_id(group(name));
    if version < 3 {
        return request.with_member_id(string(members.first().map_or("", |(member, _)| member)));
    }
    let identity = |&(member, instance): &(&str, Option<&str>)| {
        let identity = MemberIdentity::default()
            .with_member_id(string(member))
            .with_group_instance_id(instance.map(string));
        if version >= 5 { identity.with_reason(Some(string("done"))) } else { identity }
    };
    request.with_members(members.iter().map(identity).collect())
}

fn describe(pair: &mut Pair, names: &[&str]) -> Result {
    let groups: Vec<_> = names.iter().map(|name| group(name)).collect();
    pair.ask_all(|_| DescribeGroupsRequest::default().with_groups(groups.clone()))?;
    for version in pair.versions::<DescribeGroupsRequest>().into_iter().filter(|v| *v >= 3) {
        let request = DescribeGroupsRequest::default().with_groups(groups.clone());
        pair.ask(version, request.with_include_authorized_operations(true))?;
    }
    Ok(())
}

fn list(pair: &mut Pair) -> Result {
    pair.ask_all(|_| ListGroupsRequest::default())
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    let topic = pair.topic("groups", 2, &[])?;
    strangers(pair)?;
    for version in pair.versions::<JoinGroupRequest>() {
        life(pair, &topic, version)?;
    }
    for version in pair.versions::<JoinGroupRequest>().into_iter().filter(|v| *v >= 5) {
        statics(pair, version)?;
    }
    lists(pair)
}

/// Requests of members that are none, to groups that are none.
fn strangers(pair: &mut Pair) -> Result {
    let join = Join::new("groups-strange", "a");
    let without = |protocols: Vec<(&'static str, Bytes)>| Join { protocols, ..join.clone() };
    let cases = [
        ("to an empty name", Join::new("", "a")),
        ("by an unknown member", Join { member: "who".into(), ..join.clone() }),
        ("with a session that is too short", Join { session_ms: 1, ..join.clone() }),
        ("with a session that is too long", Join { session_ms: 9_000_000, ..join.clone() }),
        ("without protocols", without(vec![])),
        ("without a kind", Join { kind: "", ..join.clone() }),
    ];
    for (what, join) in cases {
        pair.step(format!("JoinGroup {what}"));
        for version in pair.versions::<JoinGroupRequest>() {
            // Below 4 a first member of a new group is taken at once, whatever it is.
            pair.ask(version, join.request(version))?;
        }
    }
    for (what, name) in [("an absent group", "groups-absent"), ("an empty name", "")] {
        pair.step(format!("SyncGroup of {what}"));
        pair.ask_all(|version| sync(version, name, 1, "who", None, &[]))?;
        pair.step(format!("Heartbeat of {what}"));
        pair.ask_all(|version| heartbeat(version, name, 1, "who", None))?;
        pair.step(format!("LeaveGroup of {what}"));
        pair.ask_all(|version| leave(version, name, &[("who", None)]))?;
        pair.step(format!("DescribeGroups of {what}"));
        describe(pair, &[name])?;
        pair.step(format!("DeleteGroups of {what}"));
        pair.ask_all(|_| DeleteGroupsRequest::default().with_groups_names(vec![group(name)]))?;
        pair.step(format!("ConsumerGroupDescribe of {what}"));
        pair.ask_all(|_| {
            ConsumerGroupDescribeRequest::default().with_group_ids(vec![group(name)])
        })?;
    }
    pair.step("LeaveGroup of nobody");
    for version in pair.versions::<LeaveGroupRequest>().into_iter().filter(|v| *v >= 3) {
        pair.ask(version, leave(version, "groups-absent", &[]))?;
    }
    Ok(())
}

fn member(answers: &Both<JoinGroupResponse>) -> Both<String> {
    answers.map(|answer| answer.member_id.to_string())
}

/// Joins as a new member: newer versions get an id first.
fn join_new(pair: &mut Pair, version: i16, join: &Join) -> Result<Both<JoinGroupResponse>> {
    let first = pair.ask(version, join.request(version))?;
    if first.kafka.error_code != MEMBER_ID_REQUIRED {
        return Ok(first);
    }
    pair.ask_each(version, &join.by(version, &member(&first)))
}

/// A group from its first member to its deletion.
fn life(pair: &mut Pair, topic: &Topic, version: i16) -> Result {
    let name = format!("groups-life-{version}");
    let (sync_at, beat_at, leave_at) = (
        at::<SyncGroupRequest>(pair, version),
        at::<HeartbeatRequest>(pair, version),
        at::<LeaveGroupRequest>(pair, version),
    );
    pair.step("JoinGroup by a first member");
    let join = Join::new(&name, "a");
    let one = join_new(pair, version, &join)?;
    let one_id = member(&one);
    let generation = one.kafka.generation_id;

    pair.step("before the first SyncGroup");
    describe(pair, &[&name])?;
    list(pair)?;
    let beat = |generation: i32, ids: &Both<String>| {
        ids.map(|id| heartbeat(beat_at, &name, generation, id, None))
    };
    pair.ask_each(beat_at, &beat(generation, &one_id))?;

    pair.step("SyncGroup by a leader");
    let assign = |ids: &Both<String>| ids.map(|id| vec![(id.clone(), "to a")]);
    let syncs = one_id
        .clone()
        .zip(assign(&one_id))
        .map(|(id, given)| sync(sync_at, &name, generation, id, None, given));
    pair.ask_each(sync_at, &syncs)?;
    pair.step("SyncGroup again");
    pair.ask_each(sync_at, &syncs)?;
    pair.step("SyncGroup with a wrong generation");
    let wrong = one_id.map(|id| sync(sync_at, &name, generation + 1, id, None, &[]));
    pair.ask_each(sync_at, &wrong)?;
    pair.step("SyncGroup by an unknown member");
    pair.ask(sync_at, sync(sync_at, &name, generation, "who", None, &[]))?;
    if sync_at >= 5 {
        pair.step("SyncGroup with another protocol");
        let other = one_id.map(|id| {
            let request = sync(sync_at, &name, generation, id, None, &[]);
            request.with_protocol_name(Some(string("sticky")))
        });
        pair.ask_each(sync_at, &other)?;
    }

    pair.step("Heartbeat");
    pair.ask_each(beat_at, &beat(generation, &one_id))?;
    pair.step("Heartbeat with a wrong generation");
    pair.ask_each(beat_at, &beat(generation + 1, &one_id))?;
    pair.ask_each(beat_at, &beat(generation - 1, &one_id))?;
    pair.step("Heartbeat by an unknown member");
    pair.ask(beat_at, heartbeat(beat_at, &name, generation, "who", None))?;

    pair.step("OffsetCommit by a member");
    for commit_at in pair.versions::<OffsetCommitRequest>() {
        for (generation, known) in
            [(generation, true), (generation + 1, true), (generation, false), (-1, true)]
        {
            let request = one_id.clone().zip(topic.names()).map(|(id, names)| {
                let id = if known { id } else { "who" };
                commits::commit(commit_at, &name, (generation, id), names, &[(0, 3, 0, None)])
            });
            pair.ask_each(commit_at, &request)?;
        }
        pair.step("OffsetCommit by nobody to a group with members");
        let request = topic
            .names()
            .map(|names| commits::commit(commit_at, &name, (-1, ""), names, &[(0, 4, 0, None)]));
        pair.ask_each(commit_at, &request)?;
        pair.step("OffsetCommit by a member");
    }
    pair.step("OffsetDelete of a group with members");
    pair.ask_all::<OffsetDeleteRequest>(|_| commits::delete(&name, "groups", &[0, 1]))?;
    pair.step("DeleteGroups of a group with members");
    pair.ask_all(|_| DeleteGroupsRequest::default().with_groups_names(vec![group(&name)]))?;
    pair.step("a stable group");
    describe(pair, &[&name])?;
    list(pair)?;
    pair.ask_all(|_| ConsumerGroupDescribeRequest::default().with_group_ids(vec![group(&name)]))?;

    pair.step("JoinGroup with other protocols");
    let strange = Join { protocols: vec![("odd", Bytes::new())], ..join.clone() };
    pair.ask(version, strange.request(version))?;
    pair.step("JoinGroup of another kind");
    pair.ask(version, Join { kind: "connect", ..join.clone() }.request(version))?;

    pair.step("JoinGroup by a second member");
    let join_two = Join::new(&name, "b");
    let mut asked = Both::same(join_two.request(version));
    if version >= 4 {
        let first = pair.ask(version, join_two.request(version))?;
        asked = join_two.by(version, &member(&first));
    }
    let pending = pair.begin(version, asked)?;
    pair.step("Heartbeat while others join");
    pair.ask_until(beat_at, &beat(generation, &one_id), |answer| answer.error_code != 0)?;
    pair.step("OffsetCommit while others join");
    let commit_at = pair.newest::<OffsetCommitRequest>();
    let request = one_id.clone().zip(topic.names()).map(|(id, names)| {
        commits::commit(commit_at, &name, (generation, id), names, &[(0, 5, 0, None)])
    });
    pair.ask_each(commit_at, &request)?;
    pair.step("SyncGroup while others join");
    pair.ask_each(sync_at, &syncs)?;
    pair.step("JoinGroup again while others join");
    let again = pair.ask_each(version, &join.by(version, &one_id))?;
    pair.step("JoinGroup by a second member");
    let two = pair.finish(pending)?;
    let two_id = member(&two);
    let generation = again.kafka.generation_id;

    pair.step("SyncGroup by two");
    let pending =
        pair.begin(sync_at, two_id.map(|id| sync(sync_at, &name, generation, id, None, &[])))?;
    let given = one_id.clone().zip(two_id.clone()).map(|(one, two)| {
        let given = [(one.clone(), "to a"), (two.clone(), "to b")];
        sync(sync_at, &name, generation, one, None, &given)
    });
    pair.ask_each(sync_at, &given)?;
    pair.finish(pending)?;
    pair.step("a stable group of two");
    describe(pair, &[&name])?;

    pair.step("JoinGroup by a follower with nothing new");
    let same = pair.ask_each(version, &join_two.by(version, &two_id))?;
    drop(same);
    pair.step("LeaveGroup");
    pair.ask_each(leave_at, &two_id.map(|id| leave(leave_at, &name, &[(id, None)])))?;
    pair.step("LeaveGroup again");
    pair.ask_each(leave_at, &two_id.map(|id| leave(leave_at, &name, &[(id, None)])))?;
    pair.step("Heartbeat after another left");
    pair.ask_until(beat_at, &beat(generation, &one_id), |answer| answer.error_code != 0)?;
    pair.step("JoinGroup after another left");
    pair.ask_each(version, &join.by(version, &one_id))?;
    pair.step("LeaveGroup by the last");
    let last = one_id.map(|id| leave(leave_at, &name, &[(id, None), ("who", None)]));
    pair.ask_each(leave_at, &last)?;
    pair.step("an empty group");
    describe(pair, &[&name])?;
    list(pair)?;
    pair.step("OffsetCommit by nobody to an empty group");
    let request = topic
        .names()
        .map(|names| commits::commit(commit_at, &name, (-1, ""), names, &[(1, 8, 0, None)]));
    pair.ask_each(commit_at, &request)?;
    pair.step("DeleteGroups of an empty group");
    let delete_at = at::<DeleteGroupsRequest>(pair, version);
    let names = vec![group(&name), group("groups-absent")];
    pair.ask(delete_at, DeleteGroupsRequest::default().with_groups_names(names))?;
    pair.step("DescribeGroups of a deleted group");
    describe(pair, &[&name])
}

/// Members with names of their own, which may come back.
fn statics(pair: &mut Pair, version: i16) -> Result {
    let name = format!("groups-static-{version}");
    let (sync_at, beat_at, leave_at) = (
        at::<SyncGroupRequest>(pair, version),
        at::<HeartbeatRequest>(pair, version),
        at::<LeaveGroupRequest>(pair, version),
    );
    let join = Join { instance: Some("first"), ..Join::new(&name, "a") };
    pair.step("JoinGroup by a static member");
    let one = pair.ask(version, join.request(version))?;
    let one_id = member(&one);
    let generation = one.kafka.generation_id;
    let syncs = one_id
        .map(|id| sync(sync_at, &name, generation, id, Some("first"), &[(id.clone(), "to a")]));
    pair.step("SyncGroup by a static member");
    pair.ask_each(sync_at, &syncs)?;
    pair.step("a group with a static member");
    describe(pair, &[&name])?;
    pair.step("Heartbeat by a static member");
    let beat = |ids: &Both<String>, instance: &'static str| {
        ids.map(|id| heartbeat(beat_at, &name, generation, id, Some(instance)))
    };
    pair.ask_each(beat_at, &beat(&one_id, "first"))?;
    pair.step("Heartbeat by an unknown static member");
    pair.ask_each(beat_at, &beat(&one_id, "second"))?;
    pair.step("Heartbeat by a static member under another id");
    pair.ask_each(beat_at, &beat(&Both::same("who".to_owned()), "first"))?;
    pair.step("JoinGroup by a static member that comes back");
    let back = pair.ask(version, join.request(version))?;
    let back_id = member(&back);
    let generation = back.kafka.generation_id;
    pair.step("Heartbeat by the one it was");
    pair.ask_each(beat_at, &beat(&one_id, "first"))?;
    pair.step("SyncGroup by the one it was");
    pair.ask_each(sync_at, &syncs)?;
    pair.step("JoinGroup by the one it was");
    pair.ask_each(version, &join.by(version, &one_id))?;
    pair.step("SyncGroup by a static member that came back");
    let again = back_id.map(|id| sync(sync_at, &name, generation, id, Some("first"), &[]));
    pair.ask_each(sync_at, &again)?;
    pair.step("LeaveGroup by the one it was");
    let old = one_id.map(|id| leave(leave_at, &name, &[(id, Some("first"))]));
    pair.ask_each(leave_at, &old)?;
    pair.step("LeaveGroup by name alone");
    pair.ask(leave_at, leave(leave_at, &name, &[("", Some("first")), ("", Some("second"))]))?;
    pair.step("a group that a static member left");
    describe(pair, &[&name])
}

/// The list of groups with filters.
fn lists(pair: &mut Pair) -> Result {
    for (what, states, types) in [
        ("with a state", &["Empty"][..], &[][..]),
        ("with states", &["Stable", "Empty"], &[]),
        ("with a state in small letters", &["empty"], &[]),
        ("with an unknown state", &["Bored"], &[]),
        ("with a type", &[], &["classic"]),
        ("with a type in capitals", &[], &["Classic"]),
        ("with another type", &[], &["consumer"]),
        ("with an unknown type", &[], &["club"]),
        ("with both", &["Empty"], &["classic"]),
    ] {
        pair.step(format!("ListGroups {what}"));
        for version in pair.versions::<ListGroupsRequest>() {
            if version < 4 || version < 5 && !types.is_empty() {
                continue;
            }
            let words = |words: &[&str]| words.iter().map(|word| string(word)).collect::<Vec<_>>();
            let request = ListGroupsRequest::default().with_states_filter(words(states));
            let request =
                if version >= 5 { request.with_types_filter(words(types)) } else { request };
            pair.ask(version, request)?;
        }
    }
    pair.step("DeleteGroups of nothing");
    pair.ask_all(|_| DeleteGroupsRequest::default())?;
    pair.step("DescribeGroups of nothing");
    describe(pair, &[])
}
