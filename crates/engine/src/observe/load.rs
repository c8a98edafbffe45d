//! The durable state as a reader sees it: which partitions are mirrored, and their maps as of now.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_client::{ClientError, Cluster, Isolation, OffsetSpec, Topics};
use twinlog_flow::Standing;
use twinlog_flow::topics::MirroredTopic;
use twinlog_offsets::OffsetMap;
use twinlog_offsets::state::{PartitionKey, Position, StateKey};
use twinlog_types::{
    ClusterAlias, ClusterId, Code, State, TargetOffset, TopicId, TopicName, TopicPartition,
};

use super::{Observer, tail};
use crate::state::{self, PartitionState, Stored};

/// What the state says of every mirrored partition: of several lives of a topic the newest.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) partitions: BTreeMap<TopicPartition, (PartitionKey, PartitionState)>,
}

impl Known {
    pub(super) fn new(stored: &Stored) -> Self {
        let mut known = Self::default();
        for topic in topics(stored) {
            for (key, partition) in &stored.partitions {
                if key.source_topic == topic.source_id && key.target_topic == topic.target_id {
                    let tp = TopicPartition::new(topic.source.clone(), key.partition);
                    known.partitions.insert(tp, (key.clone(), partition.clone()));
                }
            }
        }
        known
    }
}

/// The topics that the state knows, each as it was last written.
pub(super) fn topics(stored: &Stored) -> Vec<MirroredTopic> {
    let mut topics: BTreeMap<TopicName, (i64, MirroredTopic)> = BTreeMap::new();
    for (key, state) in &stored.partitions {
        let Some(position) = &state.position else { continue };
        let topic = || MirroredTopic {
            source: position.source_topic.clone(),
            source_id: key.source_topic,
            target: position.target_topic.clone(),
            target_id: key.target_topic,
            partitions: key.partition + 1,
        };
        let entry = topics
            .entry(position.source_topic.clone())
            .or_insert_with(|| (position.written_ms, topic()));
        let partitions = entry.1.partitions.max(key.partition + 1);
        if position.written_ms > entry.0 {
            *entry = (position.written_ms, topic());
        }
        entry.1.partitions = partitions;
    }
    topics.into_values().map(|(_, topic)| topic).collect()
}

/// A mirrored partition and its map.
#[derive(Clone, Debug)]
pub struct MappedPartition {
    /// The partition on the source.
    pub source: TopicPartition,
    /// The partition on the target.
    pub target: TopicPartition,
    /// Which source offset is which target offset.
    pub map: OffsetMap,
    /// When the state of it was last written, in milliseconds since 1970.
    pub written_ms: i64,
}

/// Where a partition's log begins and ends on the target: log start, high watermark.
pub(super) type Bounds = (i64, i64);

/// The map of a partition as of now: the durable one, pruned to what the target still holds, and
/// advanced or cut to the target's end.
pub(super) async fn map_now(
    target: &Cluster,
    tp: &TopicPartition,
    partition: &PartitionState,
    position: &Position,
    (start, end): Bounds,
) -> Result<Result<OffsetMap, Standing>, ClientError> {
    let corrupt = |what: &str| {
        let reason = format!("the stored state cannot be used: {what}");
        Standing::found(State::Stopped, Code::StateCorrupt, reason)
    };
    if let Some(damaged) = &partition.damaged {
        return Ok(Err(corrupt(damaged)));
    }
    let mut map = match partition.map(position) {
        Ok(map) => map,
        Err(error) => return Ok(Err(corrupt(&error.to_string()))),
    };
    if end > position.target_end.0 {
        let head = tail::last_head(target, tp, end).await?;
        if let Some((count, copied_to)) =
            head.and_then(|head| tail::progress(&map, position, &head))
        {
            map.acknowledge(count, copied_to);
        }
    } else if end < position.target_end.0 {
        // After a move of the leader the high watermark may be behind for a moment; the log end of
        // the leader's epoch is not.
        let log_end = target.leader_view(tp).await?.log_end().await?;
        if log_end < position.target_end.0
            && let Some(count) = map.count_of_target(TargetOffset(log_end))
        {
            map.cut(count);
        }
    }
    map.prune(TargetOffset(start));
    Ok(Ok(map))
}

/// The offset maps of a flow, for translating.
#[derive(Debug)]
pub struct Mirror {
    target: Cluster,
    known: Known,
    /// The topics as the source has them now; `None` when it cannot be reached.
    source_topics: Option<BTreeMap<TopicName, TopicId>>,
    /// Why the source could not be asked.
    source_error: Option<ClientError>,
    source_alias: ClusterAlias,
}

/// Why a partition has no map.
#[derive(Clone, Debug)]
pub enum NotMapped {
    /// The answer is known: it is not mirrored, or not usable.
    Found(Standing),
    /// The clusters could not tell.
    Failed(ClientError),
}

impl From<ClientError> for NotMapped {
    fn from(error: ClientError) -> Self {
        Self::Failed(error)
    }
}

impl Observer {
    /// Reads the state of the flow, for translating. Works while the source cannot be reached.
    pub async fn mirror(&self) -> Result<Mirror, ClientError> {
        let target_id = self.target.cluster_id().await?;
        let source = match self.source.cluster_id().await {
            Ok(id) => self.source.topics(Topics::All).await.map(|topics| (id, topics)),
            Err(error) => Err(error),
        };
        let (pair, source_topics, source_error) = match source {
            Ok((id, topics)) => {
                let topics = topics.into_iter().map(|topic| (topic.name, topic.id)).collect();
                (Some((id, target_id)), Some(topics), None)
            }
            Err(error) => (self.stored_pair(&target_id).await?, None, Some(error)),
        };
        let stored = match &pair {
            Some(pair) => state::read(&self.target, &self.config.name.source, pair).await?,
            None => Stored::default(),
        };
        Ok(Mirror {
            target: self.target.clone(),
            known: Known::new(&stored),
            source_topics,
            source_error,
            source_alias: self.config.name.source.clone(),
        })
    }

    /// The pair of clusters that the state on the target is about, when it is about one: for a
    /// source that cannot be asked for its id.
    pub(super) async fn stored_pair(
        &self,
        target_id: &ClusterId,
    ) -> Result<Option<(ClusterId, ClusterId)>, ClientError> {
        let topic = state::topic_name(&self.config.name.source);
        let listed = self.target.topics(Topics::Named(std::slice::from_ref(&topic))).await?;
        let partitions = listed.first().map_or(0, |topic| topic.partitions.len() as i32);
        let mut sources = BTreeSet::new();
        for partition in 0..partitions {
            let tp = TopicPartition::new(topic.clone(), partition);
            self.target
                .read_partition_each(&tp, 0, Isolation::ReadCommitted, |record| {
                    let key = StateKey::decode(record.key.as_deref().unwrap_or_default());
                    if let Ok(StateKey::Position(key)) = key
                        && key.target_cluster == *target_id
                        && record.value.is_some()
                    {
                        sources.insert(key.source_cluster);
                    }
                })
                .await?;
        }
        let only = (sources.len() == 1).then(|| sources.pop_first()).flatten();
        Ok(only.map(|source| (source, target_id.clone())))
    }
}

impl Mirror {
    /// Why the source could not be asked, when it could not.
    pub fn source_error(&self) -> Option<&ClientError> {
        self.source_error.as_ref()
    }

    /// The map of a partition of the source, as of now.
    pub async fn of_source(&self, source: &TopicPartition) -> Result<MappedPartition, NotMapped> {
        let found = self.known.partitions.get_key_value(source);
        let Some((source, (key, partition))) = found else {
            return Err(self.not_known(source));
        };
        self.load(source, key, partition).await
    }

    /// The map of a partition of the target, as of now.
    pub async fn of_target(&self, target: &TopicPartition) -> Result<MappedPartition, NotMapped> {
        let found = self.known.partitions.iter().find(|(_, (key, partition))| {
            let topic = partition.position.as_ref().map(|position| &position.target_topic);
            key.partition == target.partition && topic == Some(&target.topic)
        });
        let Some((source, (key, partition))) = found else {
            return Err(NotMapped::Found(Standing::found(
                State::Excluded,
                Code::TopicNotMirrored,
                format!("nothing of {} was mirrored into {target}", self.source_alias),
            )));
        };
        self.load(source, key, partition).await
    }

    fn not_known(&self, source: &TopicPartition) -> NotMapped {
        let of_topic = self.known.partitions.keys().any(|known| known.topic == source.topic);
        let exists = self.source_topics.as_ref().map(|topics| topics.contains_key(&source.topic));
        let (code, reason) = if of_topic {
            (Code::NothingCopied, format!("nothing of {source} was copied"))
        } else if exists == Some(true) {
            (Code::NothingCopied, format!("nothing of {} was copied", source.topic))
        } else if exists == Some(false) {
            let reason = format!("there is no topic {} on {}", source.topic, self.source_alias);
            (Code::TopicNotMirrored, reason)
        } else {
            (Code::TopicNotMirrored, format!("{} was never mirrored", source.topic))
        };
        NotMapped::Found(Standing::found(State::Waiting, code, reason))
    }

    async fn load(
        &self,
        source: &TopicPartition,
        key: &PartitionKey,
        partition: &PartitionState,
    ) -> Result<MappedPartition, NotMapped> {
        let Some(position) = &partition.position else {
            let what = partition.damaged.as_deref().unwrap_or("it has no position");
            let reason = format!("the stored state of {source} cannot be used: {what}");
            let standing = Standing::found(State::Stopped, Code::StateCorrupt, reason);
            return Err(NotMapped::Found(standing));
        };
        self.check_ids(source, key, position).await?;
        let target = TopicPartition::new(position.target_topic.clone(), key.partition);
        let wanted = [(target.clone(), OffsetSpec::Earliest), (target.clone(), OffsetSpec::Latest)];
        let listed = self.target.list_offsets(&wanted, Isolation::ReadUncommitted).await?;
        let mut bounds = Vec::new();
        for (tp, answer) in listed {
            let offset = answer.map_err(|code| ClientError::Code {
                api: "ListOffsets",
                code,
                message: None,
                about: tp.to_string(),
            })?;
            bounds.push(offset.offset);
        }
        let &[start, end] = bounds.as_slice() else {
            let reason = format!("the ends of {target} were not answered");
            return Err(NotMapped::Found(Standing::because(State::Unknown, reason)));
        };
        let map = map_now(&self.target, &target, partition, position, (start, end)).await?;
        let map = map.map_err(NotMapped::Found)?;
        let written_ms = position.written_ms;
        Ok(MappedPartition { source: source.clone(), target, map, written_ms })
    }

    /// A topic that was deleted and made again is not the one that was mirrored.
    async fn check_ids(
        &self,
        source: &TopicPartition,
        key: &PartitionKey,
        position: &Position,
    ) -> Result<(), NotMapped> {
        let stopped =
            |code, reason| Err(NotMapped::Found(Standing::found(State::Stopped, code, reason)));
        let now = self.source_topics.as_ref().and_then(|topics| topics.get(&source.topic));
        if now.is_some_and(|now| differ(*now, key.source_topic)) {
            let reason = format!(
                "{} was deleted on the source and made again since it was mirrored",
                source.topic
            );
            return stopped(Code::TopicRecreated, reason);
        }
        let topic = &position.target_topic;
        let listed = self.target.topics(Topics::Named(std::slice::from_ref(topic))).await?;
        match listed.first().filter(|info| info.error.is_ok()) {
            None => stopped(
                Code::TopicMissingOnTarget,
                format!("{topic} does not exist on the target any more, or may not be seen"),
            ),
            Some(info) if differ(info.id, key.target_topic) => stopped(
                Code::TargetRecreated,
                format!("{topic} was deleted on the target and made again since it was filled"),
            ),
            Some(_) => Ok(()),
        }
    }
}

/// Clusters without topic ids cannot tell.
fn differ(a: TopicId, b: TopicId) -> bool {
    !a.is_none() && !b.is_none() && a != b
}
