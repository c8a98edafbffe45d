//! `ConsumerGroupHeartbeat` and `ConsumerGroupDescribe` (KIP-848).

use std::collections::BTreeSet;

use twinlog_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as Owned;
use twinlog_protocol::messages::consumer_group_heartbeat_response::{
    Assignment, TopicPartitions as Assigned,
};
use twinlog_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, GroupId, StrBytes, Uuid, consumer_group_describe_response,
    string, topic_name,
};

use super::groups::NOT_ASKED;
use super::id;
use crate::code::{GROUP_ID_NOT_FOUND, INVALID_GROUP_ID, INVALID_REQUEST, UNSUPPORTED_ASSIGNOR};
use crate::groups::CLIENT_HOST;
use crate::groups::assignors::ASSIGNORS;
use crate::groups::consumer::{Beat, ConsumerMember, LEAVES, LEAVES_FOR_NOW, Refused, Told};
use crate::groups::reconcile::{Partitions, Slot};
use crate::options::KafkaVersion;
use crate::server::Call;
use crate::state::State;
use crate::vocabulary::GroupKind;

/// `memberType` of a member under the consumer protocol.
const CONSUMER_MEMBER: i8 = 1;
/// From this version on members make up their ids themselves.
const FIRST_WITH_OWN_IDS: i16 = 1;

pub(crate) fn consumer_group_heartbeat(
    call: &Call,
    request: &ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    call.cluster.with(|state| {
        let mut beat = beat_of(call, request);
        let out = ConsumerGroupHeartbeatResponse::default()
            .with_error_message(None)
            .with_member_id(None)
            .with_assignment(None);
        match beaten(call, state, request, &mut beat) {
            Ok(told) => {
                let stays = told.epoch >= 0;
                let interval = state.options.consumer_heartbeat_interval.as_millis() as i32;
                out.with_member_id(Some(string(&beat.member)))
                    .with_member_epoch(told.epoch)
                    .with_heartbeat_interval_ms(if stays { interval } else { 0 })
                    .with_assignment(
                        told.assignment.map(|slots| {
                            Assignment::default().with_topic_partitions(assigned(&slots))
                        }),
                    )
            }
            Err((code, message)) => out
                .with_error_code(code)
                .with_error_message(Some(string(&message)).filter(|text| !text.is_empty())),
        }
    })
}

fn beat_of(call: &Call, request: &ConsumerGroupHeartbeatRequest) -> Beat {
    let text = |text: &Option<StrBytes>| text.as_ref().map(std::string::ToString::to_string);
    let names = request.subscribed_topic_names.as_ref();
    let owned = |topics: &Vec<Owned>| -> Partitions {
        let slots = topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|&partition| (id(topic.topic_id), partition))
        });
        slots.collect()
    };
    Beat {
        group: request.group_id.to_string(),
        member: request.member_id.to_string(),
        epoch: request.member_epoch,
        instance: text(&request.instance_id),
        rack: text(&request.rack_id),
        client_id: call.client_id.clone().unwrap_or_default(),
        rebalance_ms: (request.rebalance_timeout_ms != -1).then_some(request.rebalance_timeout_ms),
        topics: names.map(|names| names.iter().map(|name| name.to_string()).collect()),
        regex: text(&request.subscribed_topic_regex),
        assignor: text(&request.server_assignor),
        owned: request.topic_partitions.as_ref().map(owned),
    }
}

fn beaten(
    call: &Call,
    state: &mut State,
    request: &ConsumerGroupHeartbeatRequest,
    beat: &mut Beat,
) -> Result<Told, Refused> {
    if let Some(code) = call.refused("", -1) {
        return Err((code, String::new()));
    }
    checked(call, request, beat).map_err(|(code, message)| (code, message.to_owned()))?;
    if let Some(assignor) = beat.assignor.as_deref().filter(|name| !ASSIGNORS.contains(name)) {
        let message = format!(
            "ServerAssignor {assignor} is not supported. Supported assignors: {}.",
            ASSIGNORS.join(", ")
        );
        return Err((UNSUPPORTED_ASSIGNOR, message));
    }
    state.coordinates_group(&beat.group, call.broker).map_err(|code| (code, String::new()))?;
    if beat.member.is_empty() {
        beat.member = state.random.member_id();
    }
    if matches!(beat.epoch, LEAVES | LEAVES_FOR_NOW) {
        state.consumer_leave(beat)
    } else {
        state.consumer_heartbeat(beat)
    }
}

/// What every broker says of a heartbeat that makes no sense.
fn checked(
    call: &Call,
    request: &ConsumerGroupHeartbeatRequest,
    beat: &Beat,
) -> Result<(), (i16, &'static str)> {
    let wrong = |is_wrong: bool, message: &'static str| {
        if is_wrong { Err((INVALID_REQUEST, message)) } else { Ok(()) }
    };
    let needs_id = call.version >= FIRST_WITH_OWN_IDS || beat.epoch > 0 || beat.epoch == LEAVES;
    wrong(needs_id && beat.member.is_empty(), "MemberId can't be empty.")?;
    wrong(beat.group.is_empty(), "GroupId can't be empty.")?;
    wrong(beat.instance.as_deref() == Some(""), "InstanceId can't be empty.")?;
    wrong(beat.rack.as_deref() == Some(""), "RackId can't be empty.")?;
    if beat.epoch == 0 {
        wrong(
            beat.rebalance_ms.is_none(),
            "RebalanceTimeoutMs must be provided in first request.",
        )?;
        let empty = request.topic_partitions.as_ref().is_some_and(Vec::is_empty);
        wrong(!empty, "TopicPartitions must be empty when (re-)joining.")?;
        wrong(
            beat.topics.is_none() && beat.regex.is_none(),
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )?;
    }
    wrong(beat.epoch == LEAVES_FOR_NOW && beat.instance.is_none(), "InstanceId can't be null.")?;
    wrong(beat.epoch < LEAVES_FOR_NOW, "MemberEpoch is invalid.")
}

fn assigned(slots: &Partitions) -> Vec<Assigned> {
    let mut topics: Vec<Assigned> = Vec::new();
    for &(topic, partition) in slots {
        let topic = Uuid::from_bytes(topic);
        match topics.last_mut().filter(|known| known.topic_id == topic) {
            Some(known) => known.partitions.push(partition),
            None => topics
                .push(Assigned::default().with_topic_id(topic).with_partitions(vec![partition])),
        }
    }
    topics
}

pub(crate) fn consumer_group_describe(
    call: &Call,
    request: &ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let groups = call.cluster.with(|state| {
        let mut groups: Vec<_> =
            request.group_ids.iter().map(|id| described(call, state, id)).collect();
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

fn described(
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
    if id.is_empty() {
        return out.with_error_code(INVALID_GROUP_ID);
    }
    let found = match state.groups.get(id.as_str()) {
        Some(found) if found.kind == GroupKind::Consumer => found,
        Some(_) => return not_consumer(id.clone()),
        None => {
            let message = format!("Group {} not found.", id.as_str());
            return out
                .with_error_code(GROUP_ID_NOT_FOUND)
                .with_error_message(Some(string(&message)));
        }
    };
    let group = &found.consumer;
    let members = group.members.iter().map(|(member_id, member)| {
        let empty = Partitions::new();
        let target = group.target.get(member_id).unwrap_or(&empty);
        member_of(call, state, member_id, member, target)
    });
    let silent = found.silent_member.then(|| {
        let member = consumer_group_describe_response::Member::default()
            .with_member_id(StrBytes::from_static_str("silent-member"))
            .with_instance_id(None)
            .with_rack_id(None)
            .with_member_epoch(group.epoch)
            .with_subscribed_topic_regex(None);
        typed(call, member)
    });
    out.with_group_state(string(found.state()))
        .with_group_epoch(group.epoch)
        .with_assignment_epoch(group.assignment_epoch)
        .with_assignor_name(string(&group.assignor))
        .with_members(members.chain(silent).collect())
}

fn typed(
    call: &Call,
    member: consumer_group_describe_response::Member,
) -> consumer_group_describe_response::Member {
    if call.version >= 1 { member.with_member_type(CONSUMER_MEMBER) } else { member }
}

fn member_of(
    call: &Call,
    state: &State,
    member_id: &str,
    member: &ConsumerMember,
    target: &Partitions,
) -> consumer_group_describe_response::Member {
    let told = &member.told;
    let holds: BTreeSet<Slot> = member.place.holds().copied().collect();
    let out = consumer_group_describe_response::Member::default()
        .with_member_id(string(member_id))
        .with_instance_id(told.instance.as_deref().map(string))
        .with_rack_id(told.rack.as_deref().map(string))
        .with_member_epoch(member.place.epoch)
        .with_client_id(string(&told.client_id))
        .with_client_host(StrBytes::from_static_str(CLIENT_HOST))
        .with_subscribed_topic_names(told.topics.iter().map(|name| topic_name(name)).collect())
        .with_subscribed_topic_regex(Some(string(&told.regex)))
        .with_assignment(named(state, &holds))
        .with_target_assignment(named(state, target));
    typed(call, out)
}

/// Partitions with the names of their topics; those of deleted topics are left out.
fn named(state: &State, slots: &Partitions) -> consumer_group_describe_response::Assignment {
    let mut topics: Vec<consumer_group_describe_response::TopicPartitions> = Vec::new();
    for &(topic, partition) in slots {
        let uuid = Uuid::from_bytes(topic);
        if let Some(known) = topics.last_mut().filter(|known| known.topic_id == uuid) {
            known.partitions.push(partition);
        } else if let Some(name) = state.name_of(topic) {
            topics.push(
                consumer_group_describe_response::TopicPartitions::default()
                    .with_topic_id(uuid)
                    .with_topic_name(topic_name(name))
                    .with_partitions(vec![partition]),
            );
        }
    }
    consumer_group_describe_response::Assignment::default().with_topic_partitions(topics)
}
