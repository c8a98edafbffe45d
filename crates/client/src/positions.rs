//! Where groups stand: what they committed, and of share groups where their unread records begin.
//!
//! # Invariants
//!
//! 1. What moves a position is sent again only after a code that says it was not taken (14, 15, 16);
//!    after a lost connection it is an error, because members may have committed meanwhile.
//! 2. Commits never carry a leader epoch: one that the target does not know stops its consumers.
//! 3. That a group has live members (25, of a share group 68) is an answer, not an error.
//!
//! # What an answer cannot tell
//!
//! Missing rights shorten answers without a word: topics that may not be described are missing. And the
//! first answers of a coordinator that has just moved may be older than what it had acknowledged.
//!
//! References: KIP-88 and KIP-709 (OffsetFetch for all topics, many groups), KIP-447 (stable
//! offsets); of share groups see [`share`](crate::share).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_protocol::ErrorCode;
use twinlog_protocol::messages::{
    OffsetCommitRequest, OffsetFetchRequest, offset_commit_request, offset_fetch_request,
    offset_fetch_response, string, topic_name,
};
use twinlog_types::{BrokerId, GroupId, TopicName, TopicPartition};

use crate::cluster::{Cluster, ask_on};
use crate::connections::{OnItsWay, Purpose};
use crate::error::ClientError;
use crate::groups::{CommittedOffset, CoordinatorKind, may_pass};
use crate::join::join_all;

/// Positions by group, each sorted by partition, or why a group's could not be read.
pub type Positions = BTreeMap<GroupId, Result<Vec<CommittedOffset>, ErrorCode>>;

/// The answer to each partition of a write, in the order given.
pub(crate) type Codes = Vec<(TopicPartition, ErrorCode)>;

/// What an answer with committed offsets may take, as far as earlier answers tell: far below a
/// frame's limit, and a coordinator's worker is not held for long.
const ANSWER_BYTES: usize = 1 << 20;
/// Groups of one request at least and at most, whatever they take.
const GROUPS_PER_REQUEST: std::ops::RangeInclusive<usize> = 50..=5_000;
/// What a group is taken for before any answer is known: two hundred in a request.
pub(crate) const BYTES_PER_GROUP: usize = ANSWER_BYTES / 200;

/// How often a coordinator that does not answer is tried before the others' answers are given.
const ATTEMPTS: usize = 6;

impl Cluster {
    /// The committed offsets of groups, by group, each sorted by partition. An unknown group has
    /// none. Offsets of transactions that are still open are not given: such a partition has
    /// code 88. Groups whose coordinator does not answer after a few attempts have code 13, 14, 15
    /// or 16.
    pub async fn fetch_offsets(&self, groups: &[GroupId]) -> Result<Positions, ClientError> {
        self.fetch_positions(groups, &BTreeSet::new()).await
    }

    /// The positions of groups, of which `share` are share groups: what they committed, or the
    /// offsets at which their unread records begin (-1 where nothing was fetched yet). Otherwise as
    /// [`fetch_offsets`](Self::fetch_offsets); a share group whose coordinator does not tell these
    /// offsets has code 35.
    pub async fn fetch_positions(
        &self,
        groups: &[GroupId],
        share: &BTreeSet<GroupId>,
    ) -> Result<Positions, ClientError> {
        self.positions(groups, share, None).await
    }

    /// As [`fetch_positions`](Self::fetch_positions), for callers that would rather know nothing of some
    /// groups than wait for them: those whose coordinator takes longer than `patience` have code 7.
    pub async fn fetch_positions_within(
        &self,
        groups: &[GroupId],
        share: &BTreeSet<GroupId>,
        patience: Duration,
    ) -> Result<Positions, ClientError> {
        self.positions(groups, share, Some(Instant::now() + patience)).await
    }

    async fn positions(
        &self,
        groups: &[GroupId],
        share: &BTreeSet<GroupId>,
        until: Option<Instant>,
    ) -> Result<Positions, ClientError> {
        let mut answers = BTreeMap::new();
        let mut open: Vec<GroupId> = groups.to_vec();
        open.sort_unstable();
        open.dedup();
        let mut retry = self.retry();
        for attempt in 1..=ATTEMPTS {
            self.fetch_once(&open, share, &mut answers, until).await?;
            open.retain(|group| matches!(answers.get(group), Some(Err(code)) if may_pass(*code)));
            let over = attempt == ATTEMPTS || until.is_some_and(|until| until <= Instant::now());
            if open.is_empty() || over || !retry.pause().await {
                break;
            }
            self.forget_coordinators(CoordinatorKind::Group, open.iter().map(GroupId::as_str));
        }
        Ok(answers)
    }

    async fn fetch_once(
        &self,
        groups: &[GroupId],
        share: &BTreeSet<GroupId>,
        answers: &mut Positions,
        until: Option<Instant>,
    ) -> Result<(), ClientError> {
        let keys: Vec<&str> = groups.iter().map(GroupId::as_str).collect();
        let found = self.coordinators(CoordinatorKind::Group, &keys).await?;
        let mut requests: BTreeMap<(BrokerId, bool), Vec<&GroupId>> = BTreeMap::new();
        for group in groups {
            match found.get(group.as_str()) {
                Some(Ok(broker)) => {
                    requests.entry((*broker, share.contains(group))).or_default().push(group);
                }
                Some(Err(code)) => drop(answers.insert(group.clone(), Err(*code))),
                None => {
                    answers.insert(group.clone(), Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
                }
            }
        }
        let known = self.inner.bytes_per_group.load(Ordering::Relaxed);
        let per_request = groups_per_request(known);
        let chunks: Vec<_> = requests
            .iter()
            .flat_map(|(to, groups)| groups.chunks(per_request).map(move |chunk| (*to, chunk)))
            .collect();
        let asked = chunks.iter().map(|((broker, share), groups)| {
            within(until, async move {
                if *share {
                    self.fetch_share_offsets(*broker, groups).await
                } else {
                    self.fetch_committed(*broker, groups).await
                }
            })
        });
        for (answer, (_, groups)) in join_all(asked).await.into_iter().zip(&chunks) {
            let all = |code| groups.iter().map(|group| ((*group).clone(), Err(code))).collect();
            let mut told = match answer {
                None => all(ErrorCode::REQUEST_TIMED_OUT),
                Some(Ok(told)) => told,
                Some(Err(error)) if error.is_retriable() => {
                    tracing::debug!(%error, "fetching positions of groups failed");
                    all(ErrorCode::NETWORK_EXCEPTION)
                }
                Some(Err(error)) => return Err(error),
            };
            for group in *groups {
                let missing = Err(ErrorCode::UNKNOWN_SERVER_ERROR);
                answers.insert((*group).clone(), told.remove(*group).unwrap_or(missing));
            }
        }
        Ok(())
    }

    async fn fetch_committed(
        &self,
        broker: BrokerId,
        groups: &[&GroupId],
    ) -> Result<Positions, ClientError> {
        let response = self.ask_broker(broker, |_| offset_fetch(groups)).await?;
        let bytes = response.groups.iter().map(bytes_of).sum::<usize>();
        let average = bytes / groups.len().max(1);
        // Down slowly: the next chunk may hold the large ones.
        let remembered = &self.inner.bytes_per_group;
        let before = remembered.load(Ordering::Relaxed);
        remembered.store(average.max(before - before / 8), Ordering::Relaxed);
        let told = response.groups.into_iter().map(|group| {
            let id = GroupId::from(group.group_id.as_str());
            let code = ErrorCode(group.error_code);
            (id, code.ok().map(|()| committed(group.topics)))
        });
        Ok(told.collect())
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
    ) -> Result<Codes, ClientError> {
        self.write_positions(group, offsets, false).await
    }

    /// Sets where the unread records of a share group without members begin; makes the group where
    /// there is none. What its members acknowledged behind that offset is forgotten. The notes are not
    /// kept. Answers every partition's code, in the order given: 68 says that the group has members, 69
    /// that it is of another kind.
    ///
    /// # Errors
    ///
    /// As [`commit_offsets`](Self::commit_offsets), whose word on cancellation holds here too, and [`ClientError::Unsupported`] where the
    /// coordinator does not serve it.
    pub async fn commit_share_offsets(
        &self,
        group: &GroupId,
        offsets: &[(TopicPartition, i64, String)],
    ) -> Result<Codes, ClientError> {
        self.write_positions(group, offsets, true).await
    }

    async fn write_positions(
        &self,
        group: &GroupId,
        offsets: &[(TopicPartition, i64, String)],
        share: bool,
    ) -> Result<Codes, ClientError> {
        let mut retry = self.retry();
        loop {
            let outcome = if share {
                self.alter_share_offsets_once(group, offsets).await
            } else {
                self.commit_offsets_once(group, offsets).await
            };
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
    ) -> Result<Codes, ClientError> {
        let broker = self.coordinator(CoordinatorKind::Group, group.as_str()).await?;
        let address = self.address(broker).await?;
        let connection = self.inner.connections.shared(Purpose::Control, &address).await?;
        let on_its_way = OnItsWay::on(&connection);
        let response = ask_on(&connection, |version| offset_commit(group, offsets, version)).await;
        on_its_way.answered();
        let response = response?;
        let told = response.topics.into_iter().flat_map(|topic| {
            let name = TopicName::from(topic.name.as_str());
            let partitions = topic.partitions.into_iter();
            partitions.map(move |data| {
                let tp = TopicPartition::new(name.clone(), data.partition_index);
                (tp, ErrorCode(data.error_code))
            })
        });
        in_order(group, offsets, &told.collect(), connection.peer(), "OffsetCommit")
    }
}

/// What comes in time.
async fn within<T>(until: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match until {
        None => Some(work.await),
        Some(until) => tokio::time::timeout_at(until, work).await.ok(),
    }
}

/// What was told of each partition that was written.
pub(crate) fn in_order(
    group: &GroupId,
    offsets: &[(TopicPartition, i64, String)],
    told: &BTreeMap<TopicPartition, ErrorCode>,
    peer: &str,
    api: &'static str,
) -> Result<Codes, ClientError> {
    let code = |tp: &TopicPartition| match told.get(tp) {
        Some(code) => Ok((tp.clone(), *code)),
        None => Err(ClientError::Protocol {
            peer: peer.to_owned(),
            api,
            reason: format!("no word about {tp} of group {group}"),
        }),
    };
    offsets.iter().map(|(tp, _, _)| code(tp)).collect()
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
    topics: Vec<offset_fetch_response::OffsetFetchResponseTopics>,
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
