//! `OffsetCommit`, `OffsetFetch`, `OffsetDelete`.

use tokio::time::Instant;
use twinlog_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use twinlog_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use twinlog_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use twinlog_protocol::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    OffsetFetchRequest, OffsetFetchResponse, TopicName, offset_commit_request,
    offset_fetch_request, string, topic_name,
};

use crate::code::{
    COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION, INVALID_GROUP_ID, NONE, NOT_COORDINATOR, OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_TOPIC_OR_PARTITION, UNSTABLE_OFFSET_COMMIT,
};
use crate::groups::{Committed, Group};
use crate::server::Call;
use crate::state::State;
use crate::transactions::code_of;
use crate::vocabulary::GroupKind;

/// `offset.metadata.max.bytes`.
const METADATA_BYTES_MAX: usize = 4096;

impl State {
    /// Whether `broker` coordinates this group and is ready to.
    pub(crate) fn coordinates_group(&self, group: &str, broker: i32) -> Result<(), i16> {
        let coordinator = self.group_coordinator(group);
        if coordinator.broker != broker {
            return Err(NOT_COORDINATOR);
        }
        if Instant::now() < coordinator.loading_until {
            Err(COORDINATOR_LOAD_IN_PROGRESS)
        } else {
            Ok(())
        }
    }

    /// The group, made if it does not exist.
    pub(crate) fn group_of(&mut self, group: &str, kind: GroupKind) -> &mut Group {
        self.groups.entry(group.to_owned()).or_insert_with(|| Group::new(kind))
    }

    /// Commits a position if the group allows it. An absent group comes to exist by it.
    #[allow(clippy::too_many_arguments)] // the fields of a commit, each of another type or meaning
    pub(crate) fn commit(
        &mut self,
        group: &str,
        generation: i32,
        member: &str,
        topic: &str,
        partition: i32,
        offset: i64,
        leader_epoch: i32,
        metadata: &str,
    ) -> Result<(), i16> {
        if self.partition(topic, partition).is_none() {
            return Err(UNKNOWN_TOPIC_OR_PARTITION);
        }
        match self.groups.get(group) {
            Some(found) => found.may_commit(generation, member)?,
            None if generation >= 0 => return Err(ILLEGAL_GENERATION),
            None => {}
        }
        if metadata.len() > METADATA_BYTES_MAX {
            return Err(OFFSET_METADATA_TOO_LARGE);
        }
        self.store_commit(group, topic, partition, offset, leader_epoch, metadata);
        Ok(())
    }

    /// Stores a position, whatever the group's state. Neither offset nor leader epoch are checked.
    pub(crate) fn store_commit(
        &mut self,
        group: &str,
        topic: &str,
        partition: i32,
        offset: i64,
        leader_epoch: i32,
        metadata: &str,
    ) {
        let committed = Committed {
            offset,
            leader_epoch,
            metadata: metadata.to_owned(),
            at_ms: self.now_ms(),
            number: self.number(),
        };
        self.log_commit(group, (topic, partition), Some(&committed), None);
        self.group_of(group, GroupKind::Classic).commit(topic, partition, committed);
        self.changed = true;
    }

    /// Stores a position that an open transaction commits.
    pub(crate) fn store_pending(
        &mut self,
        group: &str,
        producer: (i64, i16),
        (topic, partition): (&str, i32),
        offset: i64,
        metadata: &str,
    ) {
        let committed = Committed {
            offset,
            leader_epoch: -1,
            metadata: metadata.to_owned(),
            at_ms: self.now_ms(),
            number: self.number(),
        };
        self.log_commit(group, (topic, partition), Some(&committed), Some(producer));
        let found = self.group_of(group, GroupKind::Classic);
        found
            .pending
            .entry(producer.0)
            .or_default()
            .insert((topic.to_owned(), partition), committed);
    }
}

pub(crate) fn offset_commit(call: &Call, request: &OffsetCommitRequest) -> OffsetCommitResponse {
    let topics = call.cluster.with(|state| {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let result = commit_one(call, state, request, &topic.name, partition);
                let code = call
                    .disowned(&topic.name, partition.partition_index)
                    .unwrap_or(code_of(&result));
                partitions.push(
                    OffsetCommitResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                        .with_error_code(code),
                );
            }
            topics.push(
                OffsetCommitResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions),
            );
        }
        topics
    });
    OffsetCommitResponse::default().with_topics(topics)
}

fn commit_one(
    call: &Call,
    state: &mut State,
    request: &OffsetCommitRequest,
    topic: &TopicName,
    partition: &offset_commit_request::OffsetCommitRequestPartition,
) -> Result<(), i16> {
    let index = partition.partition_index;
    if let Some(code) = call.refused(topic, index) {
        return Err(code);
    }
    // Any broker says this, before it says that it is not the coordinator.
    if state.partition(topic, index).is_none() {
        return Err(UNKNOWN_TOPIC_OR_PARTITION);
    }
    state.coordinates_group(&request.group_id, call.broker)?;
    if request.group_id.is_empty() {
        return Err(INVALID_GROUP_ID);
    }
    state.commit(
        &request.group_id,
        request.generation_id_or_member_epoch,
        &request.member_id,
        topic,
        index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata.as_deref().unwrap_or_default(),
    )
}

/// What is answered for one partition of one group.
struct Answer {
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: String,
    code: i16,
}

/// Partitions of a topic, or all topics with commits.
type Asked = Option<Vec<(String, Vec<i32>)>>;

fn answers(state: &State, group: &str, asked: &Asked, stable: bool) -> Vec<(String, Vec<Answer>)> {
    let all = || {
        let mut topics: Vec<(String, Vec<i32>)> = Vec::new();
        for (topic, partition) in
            state.groups.get(group).iter().flat_map(|found| found.offsets.keys())
        {
            match topics.last_mut().filter(|(known, _)| known == topic) {
                Some((_, partitions)) => partitions.push(*partition),
                None => topics.push((topic.clone(), vec![*partition])),
            }
        }
        topics
    };
    let one = |topic: &str, partition: i32| {
        let key = (topic.to_owned(), partition);
        let unstable = stable
            && state.groups.get(group).is_some_and(|found| {
                found.pending.values().any(|offsets| offsets.contains_key(&key))
            });
        if unstable {
            let metadata = String::new();
            return Answer {
                partition,
                offset: -1,
                leader_epoch: -1,
                metadata,
                code: UNSTABLE_OFFSET_COMMIT,
            };
        }
        let committed = state.committed(group, topic, partition);
        Answer {
            partition,
            offset: committed.map_or(-1, |committed| committed.offset),
            leader_epoch: committed.map_or(-1, |committed| committed.leader_epoch),
            metadata: committed.map_or_else(String::new, |committed| committed.metadata.clone()),
            code: NONE,
        }
    };
    let topics = asked.clone().unwrap_or_else(all);
    topics
        .into_iter()
        .map(|(topic, partitions)| {
            let answers = partitions.into_iter().map(|partition| one(&topic, partition)).collect();
            (topic, answers)
        })
        .collect()
}

fn ready(call: &Call, state: &State, group: &str) -> i16 {
    call.refused("", -1).unwrap_or_else(|| code_of(&state.coordinates_group(group, call.broker)))
}

pub(crate) fn offset_fetch(call: &Call, request: &OffsetFetchRequest) -> OffsetFetchResponse {
    let stable = call.version >= 7 && request.require_stable;
    if call.version < 8 {
        return call.cluster.with(|state| one_group(call, state, request, stable));
    }
    let groups = call.cluster.with(|state| {
        let group = |wanted: &offset_fetch_request::OffsetFetchRequestGroup| {
            let out = OffsetFetchResponseGroup::default().with_group_id(wanted.group_id.clone());
            let code = ready(call, state, &wanted.group_id);
            if code != NONE {
                return out.with_error_code(code);
            }
            let asked: Asked = wanted.topics.as_ref().map(|topics| {
                topics
                    .iter()
                    .map(|topic| (topic.name.to_string(), topic.partition_indexes.clone()))
                    .collect()
            });
            let topics = answers(state, &wanted.group_id, &asked, stable).into_iter().map(
                |(topic, answers)| {
                    let partitions = answers.into_iter().map(|answer| {
                        OffsetFetchResponsePartitions::default()
                            .with_partition_index(answer.partition)
                            .with_committed_offset(answer.offset)
                            .with_committed_leader_epoch(answer.leader_epoch)
                            .with_metadata(Some(string(&answer.metadata)))
                            .with_error_code(answer.code)
                    });
                    OffsetFetchResponseTopics::default()
                        .with_name(topic_name(&topic))
                        .with_partitions(partitions.collect())
                },
            );
            out.with_topics(topics.collect())
        };
        request.groups.iter().map(group).collect()
    });
    OffsetFetchResponse::default().with_groups(groups)
}

fn one_group(
    call: &Call,
    state: &State,
    request: &OffsetFetchRequest,
    stable: bool,
) -> OffsetFetchResponse {
    let code = ready(call, state, &request.group_id);
    let out = OffsetFetchResponse::default();
    let out = if call.version >= 2 { out.with_error_code(code) } else { out };
    let asked: Asked = request.topics.as_ref().map(|topics| {
        topics
            .iter()
            .map(|topic| (topic.name.to_string(), topic.partition_indexes.clone()))
            .collect()
    });
    let answered =
        if code == NONE { answers(state, &request.group_id, &asked, stable) } else { Vec::new() };
    let topics = answered.into_iter().map(|(topic, answers)| {
        let partitions = answers.into_iter().map(|answer| {
            let out = OffsetFetchResponsePartition::default()
                .with_partition_index(answer.partition)
                .with_committed_offset(answer.offset)
                .with_metadata(Some(string(&answer.metadata)))
                .with_error_code(answer.code);
            if call.version >= 5 {
                out.with_committed_leader_epoch(answer.leader_epoch)
            } else {
                out
            }
        });
        OffsetFetchResponseTopic::default()
            .with_name(topic_name(&topic))
            .with_partitions(partitions.collect())
    });
    out.with_topics(topics.collect())
}

pub(crate) fn offset_delete(call: &Call, request: &OffsetDeleteRequest) -> OffsetDeleteResponse {
    call.cluster.with(|state| {
        let code = ready(call, state, &request.group_id);
        let out = OffsetDeleteResponse::default();
        if code != NONE {
            return out.with_error_code(code);
        }
        let Some(found) = state.groups.get(request.group_id.as_str()) else {
            return out.with_error_code(GROUP_ID_NOT_FOUND);
        };
        let live = found.is_live();
        let mut topics = Vec::new();
        for topic in &request.topics {
            let named = |partition: i32| {
                topic.partitions.iter().any(|wanted| wanted.partition_index == partition)
            };
            if !live {
                let name = topic.name.as_str();
                state.remove_offsets(&request.group_id, |known, partition, _| {
                    known == name && named(partition)
                });
            }
            let partitions = topic.partitions.iter().map(|partition| {
                OffsetDeleteResponsePartition::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(if live { GROUP_SUBSCRIBED_TO_TOPIC } else { NONE })
            });
            topics.push(
                OffsetDeleteResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect()),
            );
        }
        state.changed = true;
        out.with_topics(topics)
    })
}
