//! Where logs begin and end, and which offset a time has (ListOffsets); and who leads what.
//!
//! Does not: tell the log end after a leader move. A new leader answers its high watermark, or 78,
//! until its followers have caught up; [`LeaderView`](crate::LeaderView) tells the log end.
//!
//! References: KIP-79, KIP-98 (isolation), KIP-207 (OFFSET_NOT_AVAILABLE), KIP-734 (max timestamp).

use std::collections::BTreeMap;

use twinlog_protocol::messages::{ListOffsetsRequest, list_offsets_request, topic_name};
use twinlog_protocol::{ErrorCode, Remedy};
use twinlog_types::{BrokerId, LeaderEpoch, TopicName, TopicPartition};

use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::fetch::Isolation;
use crate::join::join_all;
use crate::metadata::{Leader, Topics};

/// Which offset to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The log start offset.
    Earliest,
    /// The high watermark, or the last stable offset when only committed records count.
    Latest,
    /// The offset of the record with the newest timestamp (Kafka 3.0).
    MaxTimestamp,
    /// The first record with this timestamp or a newer one.
    Timestamp(i64),
}

impl OffsetSpec {
    fn to_wire(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::Timestamp(timestamp) => timestamp,
        }
    }
}

/// An offset that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; -1 when no record is that new.
    pub offset: i64,
    /// The record's timestamp; -1 for the ends of the log.
    pub timestamp: i64,
    /// The leader epoch of the record, or the leader's; -1 when unknown.
    pub leader_epoch: LeaderEpoch,
}

/// How often what fails is tried: enough for an ordinary leader move, and not so long that one dead
/// broker holds the answers of all others for the whole deadline.
const ATTEMPTS: usize = 6;

/// Topics that could not be described, and why.
pub(crate) type TopicCodes = BTreeMap<TopicName, ErrorCode>;

type Answers = Vec<Option<Result<ListedOffset, ErrorCode>>>;

impl Cluster {
    /// Looks up one offset per entry, answered in the order asked. A partition whose leader does
    /// not answer after a few attempts has the code NETWORK_EXCEPTION(13).
    pub async fn list_offsets(
        &self,
        wanted: &[(TopicPartition, OffsetSpec)],
        isolation: Isolation,
    ) -> Result<Vec<(TopicPartition, Result<ListedOffset, ErrorCode>)>, ClientError> {
        let mut answers: Answers = vec![None; wanted.len()];
        let mut retry = self.retry();
        for attempt in 1..=ATTEMPTS {
            let open: Vec<usize> = (0..wanted.len())
                .filter(|&at| match answers[at] {
                    None => true,
                    Some(Ok(_)) => false,
                    Some(Err(code)) => code.remedy() != Remedy::Refuse,
                })
                .collect();
            if open.is_empty() || (attempt > 1 && !retry.pause().await) {
                break;
            }
            let refused =
                self.know_leaders(open.iter().map(|&at| &wanted[at].0), attempt > 1).await?;
            self.list_offsets_once(wanted, &open, isolation, &refused, &mut answers).await?;
        }
        let answered = wanted.iter().zip(answers).map(|((tp, _), answer)| {
            (tp.clone(), answer.unwrap_or(Err(ErrorCode::LEADER_NOT_AVAILABLE)))
        });
        Ok(answered.collect())
    }

    async fn list_offsets_once(
        &self,
        wanted: &[(TopicPartition, OffsetSpec)],
        open: &[usize],
        isolation: Isolation,
        refused: &TopicCodes,
        answers: &mut Answers,
    ) -> Result<(), ClientError> {
        // A broker refuses a request that names a partition twice: the second lookup of a
        // partition goes into a second request.
        let mut seen: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
        let mut requests: BTreeMap<(BrokerId, usize), Vec<(usize, Leader)>> = BTreeMap::new();
        for &at in open {
            let tp = &wanted[at].0;
            let Some(leader) = self.leader(tp) else {
                answers[at] = Some(Err(self.why_no_leader(tp, refused)));
                continue;
            };
            let round = seen.entry(tp).or_insert(0);
            requests.entry((leader.broker, *round)).or_default().push((at, leader));
            *round += 1;
        }
        let timeout_ms = self.produce_timeout_ms();
        let asked = requests.iter().map(|(&(broker, _), entries)| async move {
            self.ask_broker(broker, |version| {
                let mut topics: BTreeMap<&TopicName, Vec<_>> = BTreeMap::new();
                for &(at, leader) in entries {
                    let (tp, spec) = &wanted[at];
                    let mut partition = list_offsets_request::ListOffsetsPartition::default()
                        .with_partition_index(tp.partition)
                        .with_timestamp(spec.to_wire());
                    if version >= 4 {
                        partition = partition.with_current_leader_epoch(leader.epoch);
                    }
                    topics.entry(&tp.topic).or_default().push(partition);
                }
                let topics = topics.into_iter().map(|(name, partitions)| {
                    list_offsets_request::ListOffsetsTopic::default()
                        .with_name(topic_name(name.as_str()))
                        .with_partitions(partitions)
                });
                let request = ListOffsetsRequest::default()
                    .with_replica_id((-1).into())
                    .with_topics(topics.collect())
                    .with_isolation_level(isolation.to_wire());
                if version >= 10 { request.with_timeout_ms(timeout_ms) } else { request }
            })
            .await
        });
        for (answer, entries) in join_all(asked).await.into_iter().zip(requests.values()) {
            let response = match answer {
                Ok(response) => response,
                Err(error) if error.is_retriable() => {
                    tracing::debug!(%error, "looking up offsets failed");
                    for (at, _) in entries {
                        answers[*at] = Some(Err(ErrorCode::NETWORK_EXCEPTION));
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut found = BTreeMap::new();
            for topic in response.topics {
                let name = TopicName::from(topic.name.as_str());
                for data in topic.partitions {
                    let listed = ListedOffset {
                        offset: data.offset,
                        timestamp: data.timestamp,
                        leader_epoch: data.leader_epoch,
                    };
                    let answer = ErrorCode(data.error_code).ok().map(|()| listed);
                    found.insert(TopicPartition::new(name.clone(), data.partition_index), answer);
                }
            }
            for (at, _) in entries {
                let missing = Err(ErrorCode::UNKNOWN_SERVER_ERROR);
                answers[*at] = Some(found.get(&wanted[*at].0).copied().unwrap_or(missing));
            }
        }
        Ok(())
    }

    /// Asks for Metadata of those topics that have a partition here without a known leader; of
    /// all of them when `again`. Answers the codes of topics that could not be described.
    pub(crate) async fn know_leaders<'a>(
        &self,
        partitions: impl Iterator<Item = &'a TopicPartition>,
        again: bool,
    ) -> Result<TopicCodes, ClientError> {
        let mut topics: Vec<TopicName> = partitions
            .filter(|tp| again || self.leader(tp).is_none())
            .map(|tp| tp.topic.clone())
            .collect();
        topics.sort_unstable();
        topics.dedup();
        if topics.is_empty() {
            return Ok(TopicCodes::new());
        }
        let asked = self.topics(Topics::Named(&topics)).await?;
        let failed = asked.into_iter().filter(|topic| !topic.error.is_ok());
        Ok(failed.map(|topic| (topic.name, topic.error)).collect())
    }

    /// The leader of a partition, asked for when unknown.
    pub(crate) async fn route(&self, tp: &TopicPartition) -> Result<Leader, ClientError> {
        let refused = self.know_leaders(std::iter::once(tp), false).await?;
        self.leader(tp).ok_or_else(|| ClientError::Code {
            api: "Metadata",
            code: self.why_no_leader(tp, &refused),
            message: None,
            about: tp.to_string(),
        })
    }

    pub(crate) fn why_no_leader(&self, tp: &TopicPartition, refused: &TopicCodes) -> ErrorCode {
        if let Some(code) = refused.get(&tp.topic) {
            return *code;
        }
        match self.cached(&tp.topic) {
            Some(topic) if topic.partition(tp.partition).is_some() => {
                ErrorCode::LEADER_NOT_AVAILABLE
            }
            _ => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        }
    }
}
