//! `DescribeShareGroupOffsets`, `AlterShareGroupOffsets`: where a share group's unread records begin
//! (KIP-932).

use std::collections::BTreeMap;

use twinlog_protocol::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, Uuid,
    alter_share_group_offsets_request, alter_share_group_offsets_response,
    describe_share_group_offsets_request, describe_share_group_offsets_response, topic_name,
};

use crate::code::{GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, NONE, UNKNOWN_TOPIC_OR_PARTITION};
use crate::groups::Group;
use crate::server::Call;
use crate::state::State;
use crate::transactions::code_of;
use crate::vocabulary::GroupKind;

/// What is told of a partition that has no start yet.
const NO_START: i64 = -1;

fn ready(call: &Call, state: &State, group: &str) -> Result<(), i16> {
    call.refused("", -1).map_or_else(|| state.coordinates_group(group, call.broker), Err)
}

pub(crate) fn describe_share_group_offsets(
    call: &Call,
    request: &DescribeShareGroupOffsetsRequest,
) -> DescribeShareGroupOffsetsResponse {
    let groups = call
        .cluster
        .with(|state| request.groups.iter().map(|wanted| described(call, state, wanted)).collect());
    DescribeShareGroupOffsetsResponse::default().with_groups(groups)
}

fn described(
    call: &Call,
    state: &State,
    wanted: &describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup,
) -> describe_share_group_offsets_response::DescribeShareGroupOffsetsResponseGroup {
    use describe_share_group_offsets_response as response;
    let out = response::DescribeShareGroupOffsetsResponseGroup::default()
        .with_group_id(wanted.group_id.clone())
        .with_error_message(None);
    if let Err(code) = ready(call, state, &wanted.group_id) {
        return out.with_error_code(code);
    }
    let found = match state.groups.get(wanted.group_id.as_str()) {
        Some(found) if found.kind == GroupKind::Share => found,
        _ => return out.with_error_code(GROUP_ID_NOT_FOUND),
    };
    let topics = match &wanted.topics {
        None => all_starts(found),
        Some(topics) => topics
            .iter()
            .map(|topic| (topic.topic_name.to_string(), topic.partitions.clone()))
            .collect(),
    };
    let topics = topics.into_iter().map(|(topic, partitions)| {
        let id = state.topics.get(&topic).map_or([0; 16], |found| found.id);
        let partitions = partitions.into_iter().map(|partition| {
            let start = found.share_starts.get(&(topic.clone(), partition));
            response::DescribeShareGroupOffsetsResponsePartition::default()
                .with_partition_index(partition)
                .with_start_offset(start.copied().unwrap_or(NO_START))
                .with_leader_epoch(state.partition(&topic, partition).map_or(0, |p| p.epoch))
                .with_error_message(None)
        });
        response::DescribeShareGroupOffsetsResponseTopic::default()
            .with_topic_name(topic_name(&topic))
            .with_topic_id(Uuid::from_bytes(id))
            .with_partitions(partitions.collect())
    });
    out.with_topics(topics.collect())
}

fn all_starts(group: &Group) -> BTreeMap<String, Vec<i32>> {
    let mut topics: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in group.share_starts.keys() {
        topics.entry(topic.clone()).or_default().push(*partition);
    }
    topics
}

pub(crate) fn alter_share_group_offsets(
    call: &Call,
    request: &AlterShareGroupOffsetsRequest,
) -> AlterShareGroupOffsetsResponse {
    let out = AlterShareGroupOffsetsResponse::default().with_error_message(None);
    call.cluster.with(|state| {
        let code = code_of(&may_alter(call, state, &request.group_id));
        if code != NONE {
            return out.with_error_code(code);
        }
        let topics = request.topics.iter().map(|topic| altered(state, &request.group_id, topic));
        let topics = topics.collect();
        state.changed = true;
        out.with_responses(topics)
    })
}

fn may_alter(call: &Call, state: &State, group: &str) -> Result<(), i16> {
    ready(call, state, group)?;
    match state.groups.get(group) {
        Some(found) if found.kind != GroupKind::Share => Err(GROUP_ID_NOT_FOUND),
        Some(found) if found.is_live() => Err(NON_EMPTY_GROUP),
        _ => Ok(()),
    }
}

fn altered(
    state: &mut State,
    group: &str,
    topic: &alter_share_group_offsets_request::AlterShareGroupOffsetsRequestTopic,
) -> alter_share_group_offsets_response::AlterShareGroupOffsetsResponseTopic {
    use alter_share_group_offsets_response as response;
    let name = topic.topic_name.as_str();
    let id = state.topics.get(name).map_or([0; 16], |found| found.id);
    let partitions = topic.partitions.iter().map(|wanted| {
        let index = wanted.partition_index;
        let code = if state.partition(name, index).is_some() {
            state.start_share(group, name, index, wanted.start_offset);
            NONE
        } else {
            UNKNOWN_TOPIC_OR_PARTITION
        };
        response::AlterShareGroupOffsetsResponsePartition::default()
            .with_partition_index(index)
            .with_error_code(code)
            .with_error_message(None)
    });
    response::AlterShareGroupOffsetsResponseTopic::default()
        .with_topic_name(topic.topic_name.clone())
        .with_topic_id(Uuid::from_bytes(id))
        .with_partitions(partitions.collect())
}
