//! `ListGroups`, `DescribeGroups`, `ConsumerGroupDescribe`, `DeleteGroups`.

use twinlog_protocol::messages::delete_groups_response::DeletableGroupResult;
use twinlog_protocol::messages::list_groups_response::ListedGroup;
use twinlog_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DeleteGroupsRequest,
    DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, GroupId,
    ListGroupsRequest, ListGroupsResponse, StrBytes, consumer_group_describe_response,
    describe_groups_response, string,
};

use crate::code::{GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, NONE};
use crate::options::KafkaVersion;
use crate::server::Call;
use crate::state::State;
use crate::transactions::code_of;
use crate::vocabulary::GroupKind;

/// What brokers answer where nobody asked which operations are allowed.
const NOT_ASKED: i32 = i32::MIN;

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
    let members = found.members.iter().map(|(member_id, member)| {
        let metadata = member.protocols.iter().find(|(name, _)| *name == found.protocol);
        let mut out = describe_groups_response::DescribedGroupMember::default()
            .with_member_id(string(member_id))
            .with_group_instance_id(None)
            .with_client_id(string(&member.client_id))
            .with_client_host(StrBytes::from_static_str("/127.0.0.1"))
            .with_member_metadata(metadata.map(|(_, bytes)| bytes.clone()).unwrap_or_default())
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
        .with_protocol_data(string(&found.protocol))
        .with_members(members.chain(silent).collect())
}

pub(crate) fn consumer_group_describe(
    call: &Call,
    request: &ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let groups = call.cluster.with(|state| {
        let mut groups: Vec<_> =
            request.group_ids.iter().map(|id| consumer(call, state, id)).collect();
        // 3.9.1 answers several groups once per coordinator shard: right ones among wrong ones.
        if state.options.version == KafkaVersion::V3_9 && groups.len() > 1 {
            let wrong =
                groups.iter().map(|group| not_consumer(group.group_id.clone())).collect::<Vec<_>>();
            groups.splice(0..0, wrong);
        }
        groups
    });
    ConsumerGroupDescribeResponse::default().with_groups(groups)
}

fn not_consumer(id: GroupId) -> consumer_group_describe_response::DescribedGroup {
    let message = format!("Group {} is not a consumer group.", id.as_str());
    consumer_group_describe_response::DescribedGroup::default()
        .with_group_id(id)
        .with_error_code(GROUP_ID_NOT_FOUND)
        .with_error_message(Some(string(&message)))
        .with_authorized_operations(NOT_ASKED)
}

fn consumer(
    call: &Call,
    state: &State,
    id: &GroupId,
) -> consumer_group_describe_response::DescribedGroup {
    let out = consumer_group_describe_response::DescribedGroup::default()
        .with_group_id(id.clone())
        .with_error_message(None)
        .with_authorized_operations(NOT_ASKED);
    if let Some(code) =
        call.refused("", -1).or_else(|| state.coordinates_group(id, call.broker).err())
    {
        return out.with_error_code(code);
    }
    let Some(found) =
        state.groups.get(id.as_str()).filter(|found| found.kind == GroupKind::Consumer)
    else {
        return not_consumer(id.clone());
    };
    let member = found.silent_member.then(|| {
        let member = consumer_group_describe_response::Member::default()
            .with_member_id(StrBytes::from_static_str("silent-member"))
            .with_instance_id(None)
            .with_rack_id(None)
            .with_member_epoch(found.generation)
            .with_subscribed_topic_regex(None);
        if call.version >= 1 { member.with_member_type(1) } else { member }
    });
    out.with_group_state(string(found.state()))
        .with_group_epoch(found.generation)
        .with_assignment_epoch(found.generation)
        .with_assignor_name(StrBytes::from_static_str("uniform"))
        .with_members(member.into_iter().collect())
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
                    state.remove_offsets(id, |_, _, _| true);
                    state.groups.remove(id.as_str());
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
