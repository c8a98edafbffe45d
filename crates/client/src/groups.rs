//! Groups and their committed offsets, as an onlooker and as a simple committer.
//!
//! Does not: join groups, or decide what may be committed.
//!
//! # Invariants
//!
//! 1. A commit is sent again only after a code that says it was not taken (14, 15, 16); after a
//!    lost connection it is an error, because members may have committed meanwhile.
//! 2. Commits never carry a leader epoch: one that the target does not know stops its consumers.
//! 3. Code 25 (live members) is an answer, not an error.
//!
//! # What an answer cannot tell
//!
//! Missing rights shorten answers without a word: groups that may not be described are missing
//! from [`Cluster::list_groups`], topics that may not be described from [`Cluster::fetch_offsets`].
//! And the first answers of a coordinator that has just moved may be older than what it had
//! acknowledged.
//!
//! References: KIP-88 and KIP-709 (OffsetFetch for all topics, many groups), KIP-447 (stable
//! offsets), KIP-699 (many coordinators at once), KIP-518 and KIP-848 (states and types).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use bytes::Bytes;
use twinlog_protocol::messages::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest,
    FindCoordinatorRequest, ListGroupsRequest, OffsetCommitRequest, OffsetFetchRequest,
    ShareGroupDescribeRequest, offset_commit_request, offset_fetch_request, offset_fetch_response,
    string, topic_name,
};
use twinlog_protocol::{ErrorCode, Remedy};
use twinlog_types::{BrokerId, GroupId, LeaderEpoch, TopicName, TopicPartition};

use crate::cluster::{Cluster, ask_on};
use crate::connections::{OnItsWay, Purpose};
use crate::error::ClientError;
use crate::join::join_all;

/// What kind of group it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKind {
    /// The classic protocol, Connect's and simple committers' groups included.
    Classic,
    /// KIP-848.
    Consumer,
    /// KIP-932: no committed offsets, only a start offset.
    Share,
    /// KIP-1071.
    Streams,
    /// The broker does not say (before Kafka 3.8), or says a word we do not know.
    Unknown,
}

impl GroupKind {
    fn from_word(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "classic" => Self::Classic,
            "consumer" => Self::Consumer,
            "share" => Self::Share,
            "streams" => Self::Streams,
            _ => Self::Unknown,
        }
    }
}

/// One group as ListGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// Its id.
    pub group: GroupId,
    /// Its kind.
    pub kind: GroupKind,
    /// Kafka's word for its state: `Stable`, `Empty`, `PreparingRebalance`, ...
    pub state: String,
    /// `consumer`, `connect`, `share`, ...; empty when the group never had a member.
    pub protocol_type: String,
}

/// One group's offset in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The partition.
    pub tp: TopicPartition,
    /// The next offset the group would read; -1 with an error.
    pub offset: i64,
    /// The leader epoch committed with it; -1 for none.
    pub leader_epoch: LeaderEpoch,
    /// The committer's note.
    pub metadata: String,
    /// The partition's own code: 88 while a transaction holds a newer commit.
    pub error: ErrorCode,
}

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub member_id: String,
    /// Its `group.instance.id`, for static members.
    pub instance_id: Option<String>,
    /// What its client calls itself.
    pub client_id: String,
    /// Where the broker sees it.
    pub client_host: String,
    /// What its leader assigned to it, in the form of the group's protocol; empty where the kind of
    /// group has none.
    pub assignment: Bytes,
}

/// One group, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Kafka's word for its state.
    pub state: String,
    /// How many members it has.
    pub members: usize,
    /// Them.
    pub member_list: Vec<GroupMember>,
    /// `consumer`, `connect`, ...; empty when it never had a member, or when the kind has none.
    pub protocol_type: String,
}

/// What a coordinator coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CoordinatorKind {
    Group,
    Transaction,
}

/// How many keys one request for coordinators names.
const KEYS_PER_REQUEST: usize = 200;
/// What an answer with committed offsets may take, as far as earlier answers tell: far below a
/// frame's limit, and a coordinator's worker is not held for long.
const ANSWER_BYTES: usize = 1 << 20;
/// Groups of one request at least and at most, whatever they take.
const GROUPS_PER_REQUEST: std::ops::RangeInclusive<usize> = 50..=5_000;
/// What a group is taken for before any answer is known: two hundred in a request.
pub(crate) const BYTES_PER_GROUP: usize = ANSWER_BYTES / 200;

/// How often a coordinator that does not answer is tried before the others' answers are given.
const ATTEMPTS: usize = 6;

fn may_pass(code: ErrorCode) -> bool {
    matches!(code.remedy(), Remedy::Retry | Remedy::Refresh | Remedy::Reroute)
}

impl Cluster {
    /// Every group that may be described, from every broker, by id. An error when any broker does
    /// not answer: a part would look like the whole.
    pub async fn list_groups(&self) -> Result<Vec<GroupListing>, ClientError> {
        let brokers = self.brokers().await?;
        let asked = brokers.iter().map(|broker| {
            self.retrying(move || async move {
                let response = self.ask_broker(broker.id, |_| ListGroupsRequest::default()).await?;
                ErrorCode(response.error_code).ok().map_err(|code| ClientError::Code {
                    api: "ListGroups",
                    code,
                    message: None,
                    about: format!("broker {} ({}:{})", broker.id, broker.host, broker.port),
                })?;
                Ok(response.groups)
            })
        });
        let mut groups = BTreeMap::new();
        for listed in join_all(asked).await {
            for group in listed? {
                let id = GroupId::from(group.group_id.as_str());
                let listing = GroupListing {
                    group: id.clone(),
                    kind: GroupKind::from_word(&group.group_type),
                    state: group.group_state.to_string(),
                    protocol_type: group.protocol_type.to_string(),
                };
                // During a coordinator move two brokers may list one group; either will do.
                groups.insert(id, listing);
            }
        }
        Ok(groups.into_values().collect())
    }

    /// The committed offsets of groups, by group, each sorted by partition. An unknown group has
    /// none. Offsets of transactions that are still open are not given: such a partition has
    /// code 88. Groups whose coordinator does not answer after a few attempts have code 13, 14, 15
    /// or 16.
    pub async fn fetch_offsets(
        &self,
        groups: &[GroupId],
    ) -> Result<BTreeMap<GroupId, Result<Vec<CommittedOffset>, ErrorCode>>, ClientError> {
        let mut answers = BTreeMap::new();
        let mut open: Vec<GroupId> = groups.to_vec();
        open.sort_unstable();
        open.dedup();
        let mut retry = self.retry();
        for attempt in 1..=ATTEMPTS {
            self.fetch_offsets_once(&open, &mut answers).await?;
            open.retain(|group| matches!(answers.get(group), Some(Err(code)) if may_pass(*code)));
            if open.is_empty() || attempt == ATTEMPTS || !retry.pause().await {
                break;
            }
            self.forget_coordinators(CoordinatorKind::Group, open.iter().map(GroupId::as_str));
        }
        Ok(answers)
    }

    async fn fetch_offsets_once(
        &self,
        groups: &[GroupId],
        answers: &mut BTreeMap<GroupId, Result<Vec<CommittedOffset>, ErrorCode>>,
    ) -> Result<(), ClientError> {
        let keys: Vec<&str> = groups.iter().map(GroupId::as_str).collect();
        let found = self.coordinators(CoordinatorKind::Group, &keys).await?;
        let mut requests: BTreeMap<BrokerId, Vec<&GroupId>> = BTreeMap::new();
        for group in groups {
            match found.get(group.as_str()) {
                Some(Ok(broker)) => requests.entry(*broker).or_default().push(group),
                Some(Err(code)) => drop(answers.insert(group.clone(), Err(*code))),
                None => {
                    answers.insert(group.clone(), Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
                }
            }
        }
        let known = self.inner.bytes_per_group.load(Ordering::Relaxed);
        let per_request = groups_per_request(known);
        let chunks: Vec<(BrokerId, &[&GroupId])> = requests
            .iter()
            .flat_map(|(broker, groups)| {
                groups.chunks(per_request).map(move |chunk| (*broker, chunk))
            })
            .collect();
        let asked = chunks.iter().map(|(broker, groups)| async move {
            self.ask_broker(*broker, |_| offset_fetch(groups)).await
        });
        for (answer, (_, groups)) in join_all(asked).await.into_iter().zip(&chunks) {
            let mut told = BTreeMap::new();
            match answer {
                Ok(response) => {
                    let bytes = response.groups.iter().map(bytes_of).sum::<usize>();
                    let average = bytes / groups.len().max(1);
                    // Down slowly: the next chunk may hold the large ones.
                    let remembered = &self.inner.bytes_per_group;
                    let before = remembered.load(Ordering::Relaxed);
                    remembered.store(average.max(before - before / 8), Ordering::Relaxed);
                    for group in response.groups {
                        let id = GroupId::from(group.group_id.as_str());
                        let code = ErrorCode(group.error_code);
                        told.insert(id, code.ok().map(|()| committed(group.topics)));
                    }
                }
                Err(error) if error.is_retriable() => {
                    tracing::debug!(%error, "fetching committed offsets failed");
                    for group in *groups {
                        told.insert((*group).clone(), Err(ErrorCode::NETWORK_EXCEPTION));
                    }
                }
                Err(error) => return Err(error),
            }
            for group in *groups {
                let missing = Err(ErrorCode::UNKNOWN_SERVER_ERROR);
                answers.insert((*group).clone(), told.remove(*group).unwrap_or(missing));
            }
        }
        Ok(())
    }

    /// Commits offsets as nobody in particular (no generation, no member), which brokers accept
    /// for groups without live members. Answers every partition's code, in the order given: 25
    /// says that the group has live members, 69 that it is a share group.
    ///
    /// # Errors
    ///
    /// When the coordinator cannot be found or reached in time, and when the connection was lost
    /// while the commit was on its way ([`ClientError::is_unclear`]): read before committing again.
    ///
    /// # Cancellation
    ///
    /// Dropped before it is answered, the connection is closed: what the broker has not read by then is
    /// not done any more.
    pub async fn commit_offsets(
        &self,
        group: &GroupId,
        offsets: &[(TopicPartition, i64, String)],
    ) -> Result<Vec<(TopicPartition, ErrorCode)>, ClientError> {
        let mut retry = self.retry();
        loop {
            let outcome = self.commit_offsets_once(group, offsets).await;
            let again = match &outcome {
                // A coordinator that refuses as such refuses all partitions alike.
                Ok(answers) => answers.iter().any(|(_, code)| matches!(code.0, 14..=16)),
                Err(error) => error.is_retriable() && !error.is_unclear(),
            };
            if !again {
                return outcome;
            }
            self.forget_coordinators(CoordinatorKind::Group, [group.as_str()].into_iter());
            if !retry.pause().await {
                return outcome;
            }
        }
    }

    async fn commit_offsets_once(
        &self,
        group: &GroupId,
        offsets: &[(TopicPartition, i64, String)],
    ) -> Result<Vec<(TopicPartition, ErrorCode)>, ClientError> {
        let broker = self.coordinator(CoordinatorKind::Group, group.as_str()).await?;
        let address = self.address(broker).await?;
        let connection = self.inner.connections.shared(Purpose::Control, &address).await?;
        let on_its_way = OnItsWay::on(&connection);
        let response = ask_on(&connection, |version| offset_commit(group, offsets, version)).await;
        on_its_way.is_answered();
        let response = response?;
        let mut told = BTreeMap::new();
        for topic in response.topics {
            let name = TopicName::from(topic.name.as_str());
            for data in topic.partitions {
                let tp = TopicPartition::new(name.clone(), data.partition_index);
                told.insert(tp, ErrorCode(data.error_code));
            }
        }
        offsets
            .iter()
            .map(|(tp, _, _)| match told.get(tp) {
                Some(code) => Ok((tp.clone(), *code)),
                None => Err(ClientError::Protocol {
                    peer: connection.peer().to_owned(),
                    api: "OffsetCommit",
                    reason: format!("no word about {tp} of group {group}"),
                }),
            })
            .collect()
    }

    /// Deletes a group without members, and with it all its commits. Answers the coordinator's code:
    /// 68 that it has members, 69 that there is no such group.
    ///
    /// # Errors
    ///
    /// When the coordinator cannot be found or reached in time.
    pub async fn delete_group(&self, group: &GroupId) -> Result<ErrorCode, ClientError> {
        self.retrying(|| async {
            let broker = self.coordinator(CoordinatorKind::Group, group.as_str()).await?;
            let named = vec![string(group.as_str()).into()];
            let request = |_| DeleteGroupsRequest::default().with_groups_names(named.clone());
            let outcome = self.ask_broker(broker, request).await;
            let code = match &outcome {
                Ok(response) => response.results.first().map(|result| ErrorCode(result.error_code)),
                Err(error) => error.code(),
            };
            if code.is_some_and(may_pass) || outcome.as_ref().is_err_and(ClientError::is_retriable)
            {
                self.forget_coordinators(CoordinatorKind::Group, [group.as_str()].into_iter());
            }
            outcome?;
            let code = code.unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR);
            if may_pass(code) {
                let about = group.to_string();
                return Err(ClientError::Code { api: "DeleteGroups", code, message: None, about });
            }
            Ok(code)
        })
        .await
    }

    /// Describes one group by its kind (as [`Cluster::list_groups`] tells it): asked the wrong way,
    /// a broker answers that there is no such group. Streams groups are not described
    /// ([`ClientError::Unsupported`]); their listing has the state.
    pub async fn describe_group(
        &self,
        group: &GroupId,
        kind: GroupKind,
    ) -> Result<GroupDescription, ClientError> {
        self.retrying(|| async {
            let outcome = self.describe_group_once(group, kind).await;
            if outcome.as_ref().is_err_and(ClientError::is_retriable) {
                self.forget_coordinators(CoordinatorKind::Group, [group.as_str()].into_iter());
            }
            outcome
        })
        .await
    }

    async fn describe_group_once(
        &self,
        group: &GroupId,
        kind: GroupKind,
    ) -> Result<GroupDescription, ClientError> {
        let broker = self.coordinator(CoordinatorKind::Group, group.as_str()).await?;
        let id = || twinlog_protocol::messages::GroupId(string(group.as_str()));
        let refused = |api, code, message: Option<String>| ClientError::Code {
            api,
            code,
            message,
            about: format!("group {group} at broker {broker}"),
        };
        let nothing = |api| refused(api, ErrorCode::GROUP_ID_NOT_FOUND, None);
        match kind {
            GroupKind::Classic | GroupKind::Unknown => {
                let request = |_| DescribeGroupsRequest::default().with_groups(vec![id()]);
                let response = self.ask_broker(broker, request).await?;
                let data = response.groups.into_iter().next();
                let data = data.ok_or_else(|| nothing("DescribeGroups"))?;
                let message = data.error_message.map(|text| text.to_string());
                ErrorCode(data.error_code)
                    .ok()
                    .map_err(|code| refused("DescribeGroups", code, message))?;
                let members = data.members.into_iter().map(|member| GroupMember {
                    member_id: member.member_id.to_string(),
                    instance_id: member.group_instance_id.map(|id| id.to_string()),
                    client_id: member.client_id.to_string(),
                    client_host: member.client_host.to_string(),
                    assignment: member.member_assignment,
                });
                Ok(described(&data.group_state, &data.protocol_type, members.collect()))
            }
            GroupKind::Consumer => {
                let request =
                    |_| ConsumerGroupDescribeRequest::default().with_group_ids(vec![id()]);
                let response = self.ask_broker(broker, request).await?;
                // 3.9 answers once per coordinator shard: the right entry is the one that is not
                // "not found".
                let not_found = ErrorCode::GROUP_ID_NOT_FOUND.0;
                let data =
                    response.groups.into_iter().min_by_key(|data| data.error_code == not_found);
                let data = data.ok_or_else(|| nothing("ConsumerGroupDescribe"))?;
                let message = data.error_message.map(|text| text.to_string());
                ErrorCode(data.error_code)
                    .ok()
                    .map_err(|code| refused("ConsumerGroupDescribe", code, message))?;
                let members = data.members.into_iter().map(|member| GroupMember {
                    member_id: member.member_id.to_string(),
                    instance_id: member.instance_id.map(|id| id.to_string()),
                    client_id: member.client_id.to_string(),
                    client_host: member.client_host.to_string(),
                    assignment: Bytes::new(),
                });
                Ok(described(&data.group_state, "consumer", members.collect()))
            }
            GroupKind::Share => {
                let request = |_| ShareGroupDescribeRequest::default().with_group_ids(vec![id()]);
                let response = self.ask_broker(broker, request).await?;
                let data = response.groups.into_iter().next();
                let data = data.ok_or_else(|| nothing("ShareGroupDescribe"))?;
                let message = data.error_message.map(|text| text.to_string());
                ErrorCode(data.error_code)
                    .ok()
                    .map_err(|code| refused("ShareGroupDescribe", code, message))?;
                let members = data.members.into_iter().map(|member| GroupMember {
                    member_id: member.member_id.to_string(),
                    instance_id: None,
                    client_id: member.client_id.to_string(),
                    client_host: member.client_host.to_string(),
                    assignment: Bytes::new(),
                });
                Ok(described(&data.group_state, "share", members.collect()))
            }
            GroupKind::Streams => Err(ClientError::Unsupported {
                peer: "this client".into(),
                what: format!("describing streams group {group}; its listing has the state"),
            }),
        }
    }

    /// The coordinator of one key.
    pub(crate) async fn coordinator(
        &self,
        kind: CoordinatorKind,
        key: &str,
    ) -> Result<BrokerId, ClientError> {
        let found = self.coordinators(kind, &[key]).await?;
        found.get(key).copied().unwrap_or(Err(ErrorCode::COORDINATOR_NOT_AVAILABLE)).map_err(
            |code| ClientError::Code {
                api: "FindCoordinator",
                code,
                message: None,
                about: format!("{kind:?} {key}").to_lowercase(),
            },
        )
    }

    /// The coordinators of many keys, from memory or asked for together.
    async fn coordinators(
        &self,
        kind: CoordinatorKind,
        keys: &[&str],
    ) -> Result<BTreeMap<String, Result<BrokerId, ErrorCode>>, ClientError> {
        let mut found: BTreeMap<String, Result<BrokerId, ErrorCode>> = BTreeMap::new();
        let mut unknown = Vec::new();
        {
            let known = self.inner.coordinators.lock();
            for key in keys {
                match known.get(&(kind, (*key).to_owned())) {
                    Some(broker) => drop(found.insert((*key).to_owned(), Ok(*broker))),
                    None => unknown.push(*key),
                }
            }
        }
        for chunk in unknown.chunks(KEYS_PER_REQUEST) {
            // Version 4 and up, so Kafka 3.0: many keys in one request.
            let response = self
                .ask_any(|_| {
                    FindCoordinatorRequest::default()
                        .with_key_type(match kind {
                            CoordinatorKind::Group => 0,
                            CoordinatorKind::Transaction => 1,
                        })
                        .with_coordinator_keys(chunk.iter().map(|key| string(key)).collect())
                })
                .await?;
            let mut known = self.inner.coordinators.lock();
            for told in response.coordinators {
                let key = told.key.to_string();
                let answer = ErrorCode(told.error_code).ok().map(|()| told.node_id.0);
                if let Ok(broker) = answer {
                    self.learn_broker(broker, &told.host, told.port);
                    known.insert((kind, key.clone()), broker);
                }
                found.insert(key, answer);
            }
        }
        Ok(found)
    }

    /// The next request asks who coordinates these.
    pub(crate) fn forget_coordinators<'a>(
        &self,
        kind: CoordinatorKind,
        keys: impl Iterator<Item = &'a str>,
    ) {
        let mut known = self.inner.coordinators.lock();
        for key in keys {
            known.remove(&(kind, key.to_owned()));
        }
    }
}

fn described(state: &str, protocol_type: &str, member_list: Vec<GroupMember>) -> GroupDescription {
    GroupDescription {
        state: state.to_owned(),
        members: member_list.len(),
        member_list,
        protocol_type: protocol_type.to_owned(),
    }
}

/// How many groups one request names when a group takes so many bytes of the answer.
fn groups_per_request(bytes_per_group: usize) -> usize {
    let (least, most) = (*GROUPS_PER_REQUEST.start(), *GROUPS_PER_REQUEST.end());
    (ANSWER_BYTES / bytes_per_group.max(1)).clamp(least, most)
}

/// About what a group takes of an answer.
fn bytes_of(group: &offset_fetch_response::OffsetFetchResponseGroup) -> usize {
    let topics = group.topics.iter().map(|topic| {
        let metadata = |data: &offset_fetch_response::OffsetFetchResponsePartitions| {
            data.metadata.as_ref().map_or(0, |text| text.len())
        };
        let partitions = topic.partitions.iter().map(|data| 21 + metadata(data));
        4 + topic.name.len() + partitions.sum::<usize>()
    });
    8 + group.group_id.len() + topics.sum::<usize>()
}

/// All topics of many groups; version 8 and up, so Kafka 3.0.
fn offset_fetch(groups: &[&GroupId]) -> OffsetFetchRequest {
    let groups = groups.iter().map(|group| {
        offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(twinlog_protocol::messages::GroupId(string(group.as_str())))
            .with_member_id(None)
            .with_member_epoch(-1)
            .with_topics(None)
    });
    OffsetFetchRequest::default().with_groups(groups.collect()).with_require_stable(true)
}

fn committed(
    topics: Vec<twinlog_protocol::messages::offset_fetch_response::OffsetFetchResponseTopics>,
) -> Vec<CommittedOffset> {
    let mut offsets = Vec::new();
    for topic in topics {
        let name = TopicName::from(topic.name.as_str());
        for data in topic.partitions {
            offsets.push(CommittedOffset {
                tp: TopicPartition::new(name.clone(), data.partition_index),
                offset: data.committed_offset,
                leader_epoch: data.committed_leader_epoch,
                metadata: data.metadata.map(|text| text.to_string()).unwrap_or_default(),
                error: ErrorCode(data.error_code),
            });
        }
    }
    offsets.sort_by(|a, b| a.tp.cmp(&b.tp));
    offsets
}

fn offset_commit(
    group: &GroupId,
    offsets: &[(TopicPartition, i64, String)],
    version: i16,
) -> OffsetCommitRequest {
    let mut topics: BTreeMap<&TopicName, Vec<_>> = BTreeMap::new();
    let mut named = BTreeSet::new();
    for (tp, offset, metadata) in offsets {
        assert!(named.insert(tp), "{tp} twice in one commit of {group}");
        topics.entry(&tp.topic).or_default().push(
            offset_commit_request::OffsetCommitRequestPartition::default()
                .with_partition_index(tp.partition)
                .with_committed_offset(*offset)
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(Some(string(metadata))),
        );
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        offset_commit_request::OffsetCommitRequestTopic::default()
            .with_name(topic_name(name.as_str()))
            .with_partitions(partitions)
    });
    let request = OffsetCommitRequest::default()
        .with_group_id(twinlog_protocol::messages::GroupId(string(group.as_str())))
        .with_generation_id_or_member_epoch(-1)
        .with_member_id(string(""))
        .with_topics(topics.collect());
    // Null, not empty: a static member's name would be looked up.
    if version >= 7 { request.with_group_instance_id(None) } else { request }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_offsets_are_cut_by_what_their_answers_take() {
        assert_eq!(groups_per_request(BYTES_PER_GROUP), 200);
        // Ten partitions of a topic with a short name.
        assert_eq!(groups_per_request(300), 3_495);
        // One that commits a page of metadata in each of a thousand partitions.
        assert_eq!(groups_per_request(4 << 20), 50);
        assert_eq!(groups_per_request(0), 5_000);
    }
}
