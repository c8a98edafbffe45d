//! `ListGroups`, `DescribeGroups`, `DeleteGroups`.

use twinlog_protocol::messages::delete_groups_response::DeletableGroupResult;
use twinlog_protocol::messages::list_groups_response::ListedGroup;
use twinlog_protocol::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse,
    GroupId, ListGroupsRequest, ListGroupsResponse, StrBytes, describe_groups_response, string,
};

use crate::code::{GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, NONE};
use crate::groups::CLIENT_HOST;
use crate::groups::classic::Phase;
use crate::server::Call;
use crate::state::State;
use crate::transactions::code_of;
use crate::vocabulary::GroupKind;

/// What brokers answer where nobody asked which operations are allowed.
pub(super) const NOT_ASKED: i32 = i32::MIN;

pub(crate) fn list_groups(call: &Call, request: &ListGroupsRequest) -> ListGroupsResponse {
    if let Some(code) = call.refused("", -1) {
        return ListGroupsResponse::default().with_error_code(code);
    }
    let allows = |filter: &[StrBytes], word: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(word))
    };
    let groups = call.cluster.with(|state| {
        let mine =
            state.groups.iter().filter(|(id, _)| state.group_coordinator(id).broker == call.broker);
        mine.filter(|(_, group)| {
            allows(&request.states_filter, group.state())
                && allows(&request.types_filter, group.kind.word())
        })
        .map(|(id, group)| {
            let mut out = ListedGroup::default()
                .with_group_id(GroupId(string(id)))
                .with_protocol_type(string(&group.protocol_type));
            if call.version >= 4 {
                out = out.with_group_state(string(group.state()));
            }
            if call.version >= 5 {
                out = out.with_group_type(string(group.kind.word()));
            }
            out
        })
        .collect()
    });
    ListGroupsResponse::default().with_groups(groups)
}

pub(crate) fn describe_groups(
    call: &Call,
    request: &DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let groups = call
        .cluster
        .with(|state| request.groups.iter().map(|id| classic(call, state, id)).collect());
    DescribeGroupsResponse::default().with_groups(groups)
}

fn classic(call: &Call, state: &State, id: &GroupId) -> describe_groups_response::DescribedGroup {
    let mut out = describe_groups_response::DescribedGroup::default()
        .with_group_id(id.clone())
        .with_error_message(None)
        .with_authorized_operations(NOT_ASKED);
    if let Some(code) =
        call.refused("", -1).or_else(|| state.coordinates_group(id, call.broker).err())
    {
        return out.with_error_code(code);
    }
    let found = match state.groups.get(id.as_str()) {
        Some(found) if found.kind == GroupKind::Classic => found,
        other => {
            out = out.with_group_state(StrBytes::from_static_str("Dead"));
            // Up to version 5, and so on 3.9, "not there" is no error.
            if call.version < 6 {
                return out;
            }
            let message = match other {
                Some(_) => format!("Group {} is not a classic group.", id.as_str()),
                None => format!("Group {} not found.", id.as_str()),
            };
            return out
                .with_error_code(GROUP_ID_NOT_FOUND)
                .with_error_message(Some(string(&message)));
        }
    };
    // What members can do and what they agreed on is told of a stable group only.
    let protocol = (found.phase == Phase::Stable).then_some(found.protocol.as_str());
    let members = found.members.iter().map(|(member_id, member)| {
        let mut out = describe_groups_response::DescribedGroupMember::default()
            .with_member_id(string(member_id))
            .with_group_instance_id(None)
            .with_client_id(string(&member.client_id))
            .with_client_host(StrBytes::from_static_str(CLIENT_HOST))
            .with_member_metadata(protocol.map(|name| member.metadata(name)).unwrap_or_default())
            .with_member_assignment(member.assignment.clone());
        if call.version >= 4 {
            out = out.with_group_instance_id(member.instance.as_deref().map(string));
        }
        out
    });
    let silent = found.silent_member.then(|| {
        describe_groups_response::DescribedGroupMember::default()
            .with_member_id(StrBytes::from_static_str("silent-member"))
            .with_group_instance_id(None)
    });
    out.with_group_state(string(found.state()))
        .with_protocol_type(string(&found.protocol_type))
        .with_protocol_data(string(protocol.unwrap_or_default()))
        .with_members(members.chain(silent).collect())
}

pub(crate) fn delete_groups(call: &Call, request: &DeleteGroupsRequest) -> DeleteGroupsResponse {
    let results = call.cluster.with(|state| {
        let mut results = Vec::new();
        for id in &request.groups_names {
            let ready = state.coordinates_group(id, call.broker);
            let code = match state.groups.get(id.as_str()) {
                _ if ready.is_err() => code_of(&ready),
                None => GROUP_ID_NOT_FOUND,
                Some(found) if found.is_live() => NON_EMPTY_GROUP,
                Some(_) => {
                    state.remove_group(id);
                    NONE
                }
            };
            results.push(
                DeletableGroupResult::default().with_group_id(id.clone()).with_error_code(code),
            );
        }
        results
    });
    DeleteGroupsResponse::default().with_results(results)
}
