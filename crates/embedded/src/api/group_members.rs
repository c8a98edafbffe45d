//! `JoinGroup`, `SyncGroup`, `Heartbeat`, `LeaveGroup`: the classic protocol of group members.
//!
//! A static member (`group.instance.id`) keeps its place only while its session runs; a second one
//! with the same instance id takes the first one's place.

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
    ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID, MEMBER_ID_REQUIRED, NONE,
    REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR,
};
use crate::groups::{Member, Phase};
use crate::server::Call;
use crate::state::State;
use crate::transactions::code_of;
use crate::vocabulary::GroupKind;

/// Longer than any member waits: joins end with the round, not with a deadline.
const FOR_EVER: Duration = Duration::from_hours(24);

fn millis(value: i32) -> Duration {
    Duration::from_millis(u64::try_from(value).unwrap_or(0))
}

pub(crate) async fn join_group(
    call: &Call,
    request: JoinGroupRequest,
) -> Option<JoinGroupResponse> {
    let member = match call.cluster.with(|state| join(call, state, &request)) {
        Ok(member) => member,
        Err((code, member)) => {
            return Some(refused_join(call, code, &member));
        }
    };
    let group = request.group_id.to_string();
    let joined = |state: &mut State| {
        let Some(found) = state.groups.get(&group).and_then(|found| found.members.get(&member))
        else {
            return Some(refused_join(call, UNKNOWN_MEMBER_ID, &member));
        };
        if found.joined {
            return None;
        }
        state.seen(&group, &member);
        Some(joined_answer(call, state, &group, &member))
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
) -> Result<String, (i16, String)> {
    let given = request.member_id.to_string();
    if let Some(code) = call.refused("", -1) {
        return Err((code, given));
    }
    if request.group_id.is_empty() {
        return Err((INVALID_GROUP_ID, given));
    }
    state
        .coordinates_group(&request.group_id, call.broker)
        .map_err(|code| (code, given.clone()))?;
    let suffix = state.random.id();
    let client_id = call.client_id.clone().unwrap_or_default();
    let instance = request.group_instance_id.as_ref().map(std::string::ToString::to_string);
    let group = request.group_id.as_str();
    let found = state.group_of(group, GroupKind::Classic);
    if found.kind != GroupKind::Classic {
        if found.is_live() {
            return Err((INCONSISTENT_GROUP_PROTOCOL, given));
        }
        found.kind = GroupKind::Classic; // a classic member may take over an empty group
    }
    if found.is_live() && found.protocol_type != *request.protocol_type {
        return Err((INCONSISTENT_GROUP_PROTOCOL, given));
    }
    let member = if given.is_empty() {
        let prefix = instance.as_deref().unwrap_or(&client_id);
        let id = format!("{prefix}-{}", Uuid::from_bytes(suffix));
        if call.version >= 4 && instance.is_none() {
            found.promised.push(id.clone());
            return Err((MEMBER_ID_REQUIRED, id));
        }
        id
    } else {
        let promised = found.promised.iter().position(|id| *id == given);
        if let Some(at) = promised {
            found.promised.remove(at);
        } else if !found.members.contains_key(&given) {
            return Err((UNKNOWN_MEMBER_ID, given));
        }
        given
    };
    if instance.is_some() {
        found.members.retain(|id, known| known.instance != instance || *id == member);
    }
    request.protocol_type.as_str().clone_into(&mut found.protocol_type);
    let protocols = request
        .protocols
        .iter()
        .map(|protocol| (protocol.name.to_string(), protocol.metadata.clone()));
    let joining = Member {
        instance,
        client_id,
        protocols: protocols.collect(),
        session: millis(request.session_timeout_ms),
        rebalance: millis(if call.version >= 1 {
            request.rebalance_timeout_ms
        } else {
            request.session_timeout_ms
        }),
        joined: true,
        assignment: Bytes::new(),
        seen: 0,
    };
    found.members.insert(member.clone(), joining);
    state.prepare_rebalance(group);
    Ok(member)
}

fn joined_answer(call: &Call, state: &State, group: &str, member: &str) -> JoinGroupResponse {
    let Some(found) = state.groups.get(group) else {
        return refused_join(call, UNKNOWN_MEMBER_ID, member);
    };
    let mut out = JoinGroupResponse::default()
        .with_generation_id(found.generation)
        .with_protocol_type(None)
        .with_protocol_name(Some(string(&found.protocol)))
        .with_leader(string(&found.leader))
        .with_member_id(string(member));
    if call.version >= 7 {
        out = out.with_protocol_type(Some(string(&found.protocol_type)));
    }
    if found.leader != member {
        return out;
    }
    let members = found.members.iter().map(|(id, known)| {
        let metadata = known.protocols.iter().find(|(name, _)| *name == found.protocol);
        let out = JoinGroupResponseMember::default()
            .with_member_id(string(id))
            .with_group_instance_id(None)
            .with_metadata(metadata.map(|(_, bytes)| bytes.clone()).unwrap_or_default());
        if call.version >= 5 {
            out.with_group_instance_id(known.instance.as_deref().map(string))
        } else {
            out
        }
    });
    out.with_members(members.collect())
}

/// Whether a member speaks for itself in the present generation.
fn known(
    call: &Call,
    state: &State,
    group: &str,
    member: &str,
    generation: i32,
) -> Result<Phase, i16> {
    if let Some(code) = call.refused("", -1) {
        return Err(code);
    }
    state.coordinates_group(group, call.broker)?;
    let found = state.groups.get(group).ok_or(UNKNOWN_MEMBER_ID)?;
    if !found.members.contains_key(member) {
        return Err(UNKNOWN_MEMBER_ID);
    }
    if found.generation == generation { Ok(found.phase) } else { Err(ILLEGAL_GENERATION) }
}

pub(crate) async fn sync_group(
    call: &Call,
    request: SyncGroupRequest,
) -> Option<SyncGroupResponse> {
    let group = request.group_id.to_string();
    let member = request.member_id.to_string();
    call.cluster.with(|state| {
        let phase = known(call, state, &group, &member, request.generation_id);
        let Some(found) = state.groups.get_mut(&group).filter(|found| found.leader == member)
        else {
            return;
        };
        if phase != Ok(Phase::CompletingRebalance) {
            return;
        }
        for assignment in &request.assignments {
            if let Some(known) = found.members.get_mut(assignment.member_id.as_str()) {
                known.assignment = assignment.assignment.clone();
            }
        }
        found.phase = Phase::Stable;
        state.changed = true;
    });
    let synced = |state: &mut State| {
        let out = SyncGroupResponse::default().with_protocol_type(None).with_protocol_name(None);
        match known(call, state, &group, &member, request.generation_id) {
            Ok(Phase::CompletingRebalance) => None,
            Ok(Phase::Stable) => {
                state.seen(&group, &member);
                let found = state.groups.get(&group)?;
                let assignment = found.members.get(&member)?.assignment.clone();
                let out = out.with_assignment(assignment);
                Some(if call.version >= 5 {
                    out.with_protocol_type(Some(string(&found.protocol_type)))
                        .with_protocol_name(Some(string(&found.protocol)))
                } else {
                    out
                })
            }
            Ok(_) => Some(out.with_error_code(REBALANCE_IN_PROGRESS)),
            Err(code) => Some(out.with_error_code(code)),
        }
    };
    let late = |_: &mut State| SyncGroupResponse::default().with_error_code(UNKNOWN_SERVER_ERROR);
    Some(call.cluster.wait(call.broker, Instant::now() + FOR_EVER, synced, late).await)
}

pub(crate) fn heartbeat(call: &Call, request: &HeartbeatRequest) -> HeartbeatResponse {
    let code = call.cluster.with(|state| {
        let phase =
            known(call, state, &request.group_id, &request.member_id, request.generation_id);
        match phase {
            Err(code) => code,
            Ok(phase) => {
                state.seen(&request.group_id, &request.member_id);
                if phase == Phase::PreparingRebalance { REBALANCE_IN_PROGRESS } else { NONE }
            }
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
        if call.version < 3 {
            let left = state.remove_member(&request.group_id, &request.member_id);
            return out.with_error_code(if left { NONE } else { UNKNOWN_MEMBER_ID });
        }
        let mut members = Vec::new();
        for leaving in &request.members {
            let id = leaving_id(state, &request.group_id, leaving);
            let left = state.remove_member(&request.group_id, &id);
            members.push(
                MemberResponse::default()
                    .with_member_id(leaving.member_id.clone())
                    .with_group_instance_id(leaving.group_instance_id.clone())
                    .with_error_code(if left { NONE } else { UNKNOWN_MEMBER_ID }),
            );
        }
        out.with_members(members)
    })
}

/// A static member may be named by its instance id alone.
fn leaving_id(state: &State, group: &str, leaving: &leave_group_request::MemberIdentity) -> String {
    let instance = leaving.group_instance_id.as_ref().filter(|_| leaving.member_id.is_empty());
    let by_instance = instance.and_then(|instance| {
        let members = &state.groups.get(group)?.members;
        members
            .iter()
            .find(|(_, known)| known.instance.as_deref() == Some(instance.as_str()))
            .map(|(id, _)| id.clone())
    });
    by_instance.unwrap_or_else(|| leaving.member_id.to_string())
}
