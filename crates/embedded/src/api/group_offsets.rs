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
    ILLEGAL_GENERATION, INVALID_GROUP_ID, NON_EMPTY_GROUP, NONE, NOT_COORDINATOR,
    OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION, UNSTABLE_OFFSET_COMMIT,
};
use crate::groups::{Committed, Committer, Group};
use crate::server::Call;
use crate::state::State;
use crate::transactions::code_of;
use crate::vocabulary::GroupKind;

/// `offset.metadata.max.bytes`.
const METADATA_BYTES_MAX: usize = 4096;
/// The first version of `OffsetCommit` that carries a member epoch.
const FIRST_WITH_EPOCHS: i16 = 9;

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

    /// Whether `who` may commit a position of this partition in the group. An absent group takes
    /// commits of clients that are no members, and comes to exist by them.
    pub(crate) fn may_commit(
        &self,
        group: &str,
        who: &Committer<'_>,
        (topic, partition): (&str, i32),
        metadata: &str,
    ) -> Result<(), i16> {
        let id = self.topics.get(topic).map_or([0; 16], |topic| topic.id);
        if self.partition(topic, partition).is_none() {
            return Err(UNKNOWN_TOPIC_OR_PARTITION);
        }
        match self.groups.get(group) {
            Some(found) => found.may_commit(who, (id, partition))?,
            None if who.generation >= 0 => {
                let by_epoch = who.version.is_some_and(|version| version >= FIRST_WITH_EPOCHS);
                return Err(if by_epoch { GROUP_ID_NOT_FOUND } else { ILLEGAL_GENERATION });
            }
            None => {}
        }
        if metadata.len() > METADATA_BYTES_MAX {
            return Err(OFFSET_METADATA_TOO_LARGE);
        }
        Ok(())
    }

    /// A position as it is stored. Neither offset nor leader epoch are checked.
    pub(crate) fn committing(
        &mut self,
        offset: i64,
        leader_epoch: i32,
        metadata: &str,
    ) -> Committed {
        Committed {
            offset,
            leader_epoch,
            metadata: metadata.to_owned(),
            at_ms: self.now_ms(),
            number: self.number(),
        }
    }

    /// Stores positions, whatever the group's state.
    pub(crate) fn store_commits(&mut self, group: &str, commits: Vec<((String, i32), Committed)>) {
        if commits.is_empty() {
            return;
        }
        self.log_commits(group, &commits, None);
        let found = self.group_of(group, GroupKind::Classic);
        for ((topic, partition), committed) in commits {
            found.commit(&topic, partition, committed);
        }
        self.changed = true;
    }

    /// Stores positions that an open transaction commits.
    pub(crate) fn store_pending(
        &mut self,
        group: &str,
        producer: (i64, i16),
        commits: Vec<((String, i32), Committed)>,
    ) {
        if commits.is_empty() {
            return;
        }
        self.log_commits(group, &commits, Some(producer));
        let found = self.group_of(group, GroupKind::Classic);
        found.pending.entry(producer.0).or_default().extend(commits);
    }
}

pub(crate) fn offset_commit(call: &Call, request: &OffsetCommitRequest) -> OffsetCommitResponse {
    let who = Committer {
        generation: request.generation_id_or_member_epoch,
        member: &request.member_id,
        instance: request.group_instance_id.as_deref(),
        version: Some(call.version),
    };
    let topics = call.cluster.with(|state| {
        let mut topics = Vec::new();
        let mut accepted = Vec::new();
        for topic in request.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let index = partition.partition_index;
                let result = commit_one(call, state, request, &who, &topic.name, partition);
                let code = call.disowned(&topic.name, index).unwrap_or(code_of(&result));
                if let Ok(committed) = result {
                    accepted.push(((topic.name.to_string(), index), committed));
                }
                partitions.push(
                    OffsetCommitResponsePartition::default()
                        .with_partition_index(index)
                        .with_error_code(code),
                );
            }
            topics.push(
                OffsetCommitResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions),
            );
        }
        state.store_commits(&request.group_id, accepted);
        if state.groups.get(request.group_id.as_str()).is_some_and(|found| {
            found.kind == GroupKind::Classic && found.members.contains_key(who.member)
        }) {
            state.seen(&request.group_id, who.member); // a commit is a sign of life
        }
        topics
    });
    OffsetCommitResponse::default().with_topics(topics)
}

fn commit_one(
    call: &Call,
    state: &mut State,
    request: &OffsetCommitRequest,
    who: &Committer<'_>,
    topic: &TopicName,
    partition: &offset_commit_request::OffsetCommitRequestPartition,
) -> Result<Committed, i16> {
    let index = partition.partition_index;
    if let Some(code) = call.refused(topic, index) {
        return Err(code);
    }
    // Any broker says this, before it says that it is not the coordinator.
    if state.partition(topic, index).is_none() {
        return Err(UNKNOWN_TOPIC_OR_PARTITION);
    }
    state.coordinates_group(&request.group_id, call.broker)?;
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    state.may_commit(&request.group_id, who, (topic, index), metadata)?;
    let (offset, epoch) = (partition.committed_offset, partition.committed_leader_epoch);
    Ok(state.committing(offset, epoch, metadata))
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
            if let Err(code) = may_fetch(state, wanted) {
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

/// Whether the member of a consumer group that asks is one, and in the right epoch. Who is no
/// member may read as well.
fn may_fetch(
    state: &State,
    wanted: &offset_fetch_request::OffsetFetchRequestGroup,
) -> Result<(), i16> {
    let found = state.groups.get(wanted.group_id.as_str());
    match (found.filter(|found| found.kind == GroupKind::Consumer), &wanted.member_id) {
        (Some(found), Some(member)) => found.consumer.may_fetch(member, wanted.member_epoch),
        (Some(found), None) if wanted.member_epoch >= 0 => {
            found.consumer.may_fetch("", wanted.member_epoch)
        }
        _ => Ok(()),
    }
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
        if request.group_id.is_empty() {
            return out.with_error_code(INVALID_GROUP_ID);
        }
        let Some(found) = state.groups.get(request.group_id.as_str()) else {
            return out.with_error_code(GROUP_ID_NOT_FOUND);
        };
        if found.is_live() && found.protocol_type != "consumer" && !found.protocol_type.is_empty() {
            return out.with_error_code(NON_EMPTY_GROUP);
        }
        let mut topics = Vec::new();
        for topic in request.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
            let name = topic.name.as_str();
            let read = state
                .groups
                .get(request.group_id.as_str())
                .is_some_and(|found| found.subscribes_to(name));
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let index = partition.partition_index;
                let code = if state.partition(name, index).is_none() {
                    UNKNOWN_TOPIC_OR_PARTITION
                } else if read {
                    GROUP_SUBSCRIBED_TO_TOPIC
                } else {
                    NONE
                };
                if code == NONE {
                    state.remove_offsets(&request.group_id, |known, partition, _| {
                        known == name && partition == index
                    });
                }
                partitions.push(
                    OffsetDeleteResponsePartition::default()
                        .with_partition_index(index)
                        .with_error_code(code),
                );
            }
            topics.push(
                OffsetDeleteResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions),
            );
        }
        state.changed = true;
        out.with_topics(topics)
    })
}
