//! `JoinGroup`, `SyncGroup`, `Heartbeat`, `LeaveGroup`: the classic protocol of group members.
//!
//! What the requests mean for the group is in [`classic`](crate::groups::classic); here is who may
//! ask, and when the answer is sent. A static member (`group.instance.id`) keeps its place while its
//! session runs; who comes with the same instance id takes the place, and the holder is fenced.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use twinlog_protocol::messages::join_group_response::JoinGroupResponseMember;
use twinlog_protocol::messages::leave_group_response::MemberResponse;
use twinlog_protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, StrBytes, SyncGroupRequest, SyncGroupResponse, Uuid, leave_group_request,
    string,
};

use crate::code::{
    GROUP_MAX_SIZE_REACHED, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED, NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
};
use crate::groups::Group;
use crate::groups::classic::{ClassicMember, Phase};
use crate::groups::consumer::ConsumerGroup;
use crate::groups::records::GroupLog;
use crate::server::Call;
use crate::state::State;
use crate::transactions::code_of;
use crate::vocabulary::GroupKind;

/// Longer than any member waits: joins end with the round, not with a deadline.
const FOR_EVER: Duration = Duration::from_hours(24);

fn millis(value: i32) -> Duration {
    Duration::from_millis(u64::try_from(value).unwrap_or(0))
}

/// How a member that may join is answered.
enum Joining {
    /// When the round is over.
    InRound(String),
    /// At once, in the present generation. The leader named in the answer, where it is not to be
    /// the group's: an old client that takes a place over must not lead with what it does not know.
    AtOnce { member: String, leader: Option<String>, skips_assignment: bool },
}

pub(crate) async fn join_group(
    call: &Call,
    request: JoinGroupRequest,
) -> Option<JoinGroupResponse> {
    let group = request.group_id.to_string();
    let member = match call.cluster.with(|state| join(call, state, &request)) {
        Ok(Joining::InRound(member)) => member,
        Ok(Joining::AtOnce { member, leader, skips_assignment }) => {
            return Some(call.cluster.with(|state| {
                state.seen(&group, &member);
                let answer = joined_answer(call, state, &group, &member, leader.as_deref());
                answer.with_skip_assignment(skips_assignment && call.version >= 9)
            }));
        }
        Err((code, member)) => {
            return Some(refused_join(call, code, &member));
        }
    };
    let instance = request.group_instance_id.as_ref().map(std::string::ToString::to_string);
    let joined = |state: &mut State| {
        let found = state.groups.get(&group);
        if let Some(code) =
            found.and_then(|found| found.known_member(&member, instance.as_deref()).err())
        {
            return Some(refused_join(call, code, &member));
        }
        if found.and_then(|found| found.members.get(&member)).is_some_and(|known| known.joined) {
            return None;
        }
        state.seen(&group, &member);
        Some(joined_answer(call, state, &group, &member, None))
    };
    let late = |_: &mut State| refused_join(call, UNKNOWN_SERVER_ERROR, &member);
    Some(call.cluster.wait(call.broker, Instant::now() + FOR_EVER, joined, late).await)
}

fn refused_join(call: &Call, code: i16, member: &str) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_error_code(code)
        .with_generation_id(-1)
        .with_protocol_type(None)
        .with_protocol_name(if call.version >= 7 { None } else { Some(StrBytes::default()) })
        .with_member_id(string(member))
}

/// Takes a member into the round. The error carries the member id to answer with.
fn join(
    call: &Call,
    state: &mut State,
    request: &JoinGroupRequest,
) -> Result<Joining, (i16, String)> {
    let given = request.member_id.to_string();
    let refused = |code| (code, given.clone());
    if let Some(code) = call.refused("", -1) {
        return Err(refused(code));
    }
    if request.group_id.is_empty() {
        return Err(refused(INVALID_GROUP_ID));
    }
    state.coordinates_group(&request.group_id, call.broker).map_err(refused)?;
    let session = millis(request.session_timeout_ms);
    let options = &state.options;
    if session < options.group_session_min || session > options.group_session_max {
        return Err(refused(INVALID_SESSION_TIMEOUT));
    }
    let most = options.group_size_max;
    let suffix = state.random.id();
    let protocols = request
        .protocols
        .iter()
        .map(|protocol| (protocol.name.to_string(), protocol.metadata.clone()));
    let member = ClassicMember {
        instance: request.group_instance_id.as_ref().map(std::string::ToString::to_string),
        client_id: call.client_id.clone().unwrap_or_default(),
        protocols: protocols.collect(),
        session,
        rebalance: if call.version >= 1 { millis(request.rebalance_timeout_ms) } else { session },
        joined: true,
        assignment: Bytes::new(),
        seen: 0,
    };
    let group = request.group_id.as_str();
    let found = classic_group(state, group, given.is_empty()).map_err(refused)?;
    if member.protocols.is_empty()
        || request.protocol_type.is_empty()
        || !found.supports(&request.protocol_type, &member.protocols)
    {
        return Err(refused(INCONSISTENT_GROUP_PROTOCOL));
    }
    let full = found.members.len() + found.promised.len() >= most;
    if given.is_empty() {
        let holder = member.instance.as_deref().and_then(|id| found.static_member(id));
        if let Some(holder) = holder.map(str::to_owned) {
            let prefix = member.instance.as_deref().unwrap_or_default();
            let id = format!("{prefix}-{}", Uuid::from_bytes(suffix));
            return Ok(take_over(state, group, &holder, id, member, request));
        }
        if full {
            return Err(refused(GROUP_MAX_SIZE_REACHED));
        }
        let prefix = member.instance.as_deref().unwrap_or(&member.client_id);
        let id = format!("{prefix}-{}", Uuid::from_bytes(suffix));
        if call.version >= 4 && member.instance.is_none() {
            state.promise(group, &id, session);
            return Err((MEMBER_ID_REQUIRED, id));
        }
        return Ok(enter(state, group, id, member, request));
    }
    if found.promised.remove(&given).is_some() {
        return Ok(enter(state, group, given, member, request));
    }
    found.known_member(&given, member.instance.as_deref()).map_err(refused)?;
    let leads = found.leader == given;
    let same = found.members.get(&given).is_some_and(|known| known.protocols == member.protocols);
    match found.phase {
        // The answer before was lost.
        Phase::CompletingRebalance if same => {}
        // Only the leader, or a change, begins a new round.
        Phase::Stable if same && !leads => {}
        _ => return Ok(enter(state, group, given, member, request)),
    }
    Ok(Joining::AtOnce { member: given, leader: None, skips_assignment: false })
}

/// The classic group that somebody wants to join. One without members may have been of another
/// kind.
fn classic_group<'a>(
    state: &'a mut State,
    group: &str,
    newcomer: bool,
) -> Result<&'a mut Group, i16> {
    match state.groups.get(group) {
        None if newcomer => {
            state.group_of(group, GroupKind::Classic);
            state.log_classic(group);
        }
        None => return Err(UNKNOWN_MEMBER_ID),
        Some(found) if found.kind == GroupKind::Classic => {}
        Some(found) if found.is_live() => return Err(INCONSISTENT_GROUP_PROTOCOL),
        Some(found) => {
            let mut log = GroupLog::of(group);
            if found.kind == GroupKind::Consumer {
                log.consumer_gone();
            }
            state.log_group(log);
        }
    }
    let found = state.group_of(group, GroupKind::Classic);
    if found.kind != GroupKind::Classic {
        found.kind = GroupKind::Classic;
        found.consumer = ConsumerGroup::default();
    }
    Ok(found)
}

/// A member enters the round of joining, and begins one where none runs.
fn enter(
    state: &mut State,
    group: &str,
    id: String,
    member: ClassicMember,
    request: &JoinGroupRequest,
) -> Joining {
    let found = state.group_of(group, GroupKind::Classic);
    request.protocol_type.as_str().clone_into(&mut found.protocol_type);
    found.members.insert(id.clone(), member);
    state.prepare_rebalance(group);
    Joining::InRound(id)
}

/// A static member comes back under a new member id. In a stable group nothing else changes.
fn take_over(
    state: &mut State,
    group: &str,
    holder: &str,
    id: String,
    mut member: ClassicMember,
    request: &JoinGroupRequest,
) -> Joining {
    let found = state.group_of(group, GroupKind::Classic);
    let assignment = found.members.remove(holder).map(|old| old.assignment).unwrap_or_default();
    let led = found.leader == holder;
    if led {
        found.leader.clone_from(&id);
    }
    if found.phase != Phase::Stable {
        return enter(state, group, id, member, request);
    }
    member.joined = false;
    member.assignment = assignment;
    found.members.insert(id.clone(), member.clone());
    if found.agreed().as_deref() != Some(found.protocol.as_str()) {
        member.joined = true;
        return enter(state, group, id, member, request);
    }
    state.log_classic(group);
    state.changed = true;
    Joining::AtOnce { member: id, leader: led.then(|| holder.to_owned()), skips_assignment: led }
}

fn joined_answer(
    call: &Call,
    state: &State,
    group: &str,
    member: &str,
    leader: Option<&str>,
) -> JoinGroupResponse {
    let Some(found) = state.groups.get(group) else {
        return refused_join(call, UNKNOWN_MEMBER_ID, member);
    };
    // From version 9 on a leader can be told to leave the assignment as it is.
    let leader = leader.filter(|_| call.version < 9).unwrap_or(&found.leader);
    let mut out = JoinGroupResponse::default()
        .with_generation_id(found.generation)
        .with_protocol_type(None)
        .with_protocol_name(Some(string(&found.protocol)))
        .with_leader(string(leader))
        .with_member_id(string(member));
    if call.version >= 7 {
        out = out.with_protocol_type(Some(string(&found.protocol_type)));
    }
    if leader != member {
        return out;
    }
    let members = found.members.iter().map(|(id, known)| {
        let out = JoinGroupResponseMember::default()
            .with_member_id(string(id))
            .with_group_instance_id(None)
            .with_metadata(known.metadata(&found.protocol));
        if call.version >= 5 {
            out.with_group_instance_id(known.instance.as_deref().map(string))
        } else {
            out
        }
    });
    out.with_members(members.collect())
}

/// Who speaks.
struct Speaker<'a> {
    group: &'a str,
    member: &'a str,
    instance: Option<&'a str>,
    generation: i32,
}

/// Whether a member speaks for itself in the present generation.
fn known(call: &Call, state: &State, speaker: &Speaker<'_>) -> Result<Phase, i16> {
    if let Some(code) = call.refused("", -1) {
        return Err(code);
    }
    state.coordinates_group(speaker.group, call.broker)?;
    if speaker.group.is_empty() {
        return Err(INVALID_GROUP_ID);
    }
    let found = state.groups.get(speaker.group).ok_or(UNKNOWN_MEMBER_ID)?;
    found.known_member(speaker.member, speaker.instance)?;
    if found.generation == speaker.generation { Ok(found.phase) } else { Err(ILLEGAL_GENERATION) }
}

pub(crate) async fn sync_group(
    call: &Call,
    request: SyncGroupRequest,
) -> Option<SyncGroupResponse> {
    let group = request.group_id.to_string();
    let member = request.member_id.to_string();
    let instance = request.group_instance_id.as_ref().map(std::string::ToString::to_string);
    let speaker = Speaker {
        group: &group,
        member: &member,
        instance: instance.as_deref(),
        generation: request.generation_id,
    };
    let refused = |code: i16| {
        let out = SyncGroupResponse::default().with_protocol_type(None).with_protocol_name(None);
        out.with_error_code(code)
    };
    let inconsistent = call.cluster.with(|state| {
        let phase = known(call, state, &speaker);
        let found = state.groups.get_mut(&group)?;
        let differs = |said: &Option<StrBytes>, known: &str| {
            said.as_ref().is_some_and(|said| said.as_str() != known)
        };
        if phase.is_ok()
            && (differs(&request.protocol_type, &found.protocol_type)
                || differs(&request.protocol_name, &found.protocol))
        {
            return Some(refused(INCONSISTENT_GROUP_PROTOCOL));
        }
        if found.leader != member || phase != Ok(Phase::CompletingRebalance) {
            return None;
        }
        for assignment in &request.assignments {
            if let Some(known) = found.members.get_mut(assignment.member_id.as_str()) {
                known.assignment = assignment.assignment.clone();
            }
        }
        found.phase = Phase::Stable;
        state.log_classic(&group);
        state.changed = true;
        None
    });
    if inconsistent.is_some() {
        return inconsistent;
    }
    let synced = |state: &mut State| match known(call, state, &speaker) {
        Ok(Phase::CompletingRebalance) => None,
        Ok(Phase::Stable) => {
            state.seen(&group, &member);
            let found = state.groups.get(&group)?;
            let assignment = found.members.get(&member)?.assignment.clone();
            let out = refused(NONE).with_assignment(assignment);
            Some(if call.version >= 5 {
                out.with_protocol_type(Some(string(&found.protocol_type)))
                    .with_protocol_name(Some(string(&found.protocol)))
            } else {
                out
            })
        }
        Ok(_) => Some(refused(REBALANCE_IN_PROGRESS)),
        Err(code) => Some(refused(code)),
    };
    let late = |_: &mut State| refused(UNKNOWN_SERVER_ERROR);
    Some(call.cluster.wait(call.broker, Instant::now() + FOR_EVER, synced, late).await)
}

pub(crate) fn heartbeat(call: &Call, request: &HeartbeatRequest) -> HeartbeatResponse {
    let speaker = Speaker {
        group: &request.group_id,
        member: &request.member_id,
        instance: request.group_instance_id.as_deref(),
        generation: request.generation_id,
    };
    let code = call.cluster.with(|state| match known(call, state, &speaker) {
        Err(code) => code,
        Ok(phase) => {
            state.seen(speaker.group, speaker.member);
            if phase == Phase::PreparingRebalance { REBALANCE_IN_PROGRESS } else { NONE }
        }
    });
    HeartbeatResponse::default().with_error_code(code)
}

pub(crate) fn leave_group(call: &Call, request: &LeaveGroupRequest) -> LeaveGroupResponse {
    let out = LeaveGroupResponse::default();

    call.cluster.with(|state| {
        let ready = call
            .refused("", -1)
            .map_or_else(|| state.coordinates_group(&request.group_id, call.broker), Err);
        if ready.is_err() {
            return out.with_error_code(code_of(&ready));
        }
        if request.group_id.is_empty() {
            return out.with_error_code(INVALID_GROUP_ID);
        }
        if call.version < 3 {
            let left = state.remove_member(&request.group_id, &request.member_id);
            return out.with_error_code(if left { NONE } else { UNKNOWN_MEMBER_ID });
        }
        let mut members = Vec::new();
        for leaving in &request.members {
            let left = leave(state, &request.group_id, leaving);
            members.push(
                MemberResponse::default()
                    .with_member_id(leaving.member_id.clone())
                    .with_group_instance_id(leaving.group_instance_id.clone())
                    .with_error_code(code_of(&left)),
            );
        }
        out.with_members(members)
    })
}

/// A static member may be named by its instance id alone.
fn leave(
    state: &mut State,
    group: &str,
    leaving: &leave_group_request::MemberIdentity,
) -> Result<(), i16> {
    let mut member = leaving.member_id.to_string();
    if let Some(instance) = leaving.group_instance_id.as_deref() {
        let found = state.groups.get(group).ok_or(UNKNOWN_MEMBER_ID)?;
        if member.is_empty() {
            member = found.static_member(instance).ok_or(UNKNOWN_MEMBER_ID)?.to_owned();
        }
        found.known_member(&member, Some(instance))?;
    }
    if state.remove_member(group, &member) { Ok(()) } else { Err(UNKNOWN_MEMBER_ID) }
}
