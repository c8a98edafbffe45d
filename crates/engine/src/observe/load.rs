//! The durable state as a reader sees it: which partitions are mirrored, and their maps as of now.
//!
//! A run is durable before a batch of it is sent. So the tail is looked at first and the state read
//! after it: the map then knows the run that the tail's last batch belongs to. A transaction of the
//! state that is committed but whose markers are not written yet is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use twinlog_batch::Head;
use twinlog_client::{ClientError, ErrorCode, Isolation, OffsetSpec};
use twinlog_flow::Standing;
use twinlog_flow::topics::MirroredTopic;
use twinlog_offsets::OffsetMap;
use twinlog_offsets::state::{PartitionKey, StateKey};
use twinlog_types::{ClusterId, Code, State, TargetOffset, TopicId, TopicName, TopicPartition};

use super::{LOOKS_AT_ONCE, Observer, tail};
use crate::parallel::in_parallel;
use crate::state::{self, PartitionState, Stored};

/// How long a transaction of the state is waited for, and how often it is looked at.
const SETTLES_WITHIN: Duration = Duration::from_secs(2);
const SETTLED_YET: Duration = Duration::from_millis(20);

/// What the state says of every mirrored partition: of several lives of a topic the newest.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) partitions: BTreeMap<TopicPartition, (PartitionKey, PartitionState)>,
}

impl Known {
    /// One generation of every topic; those that have none of that number are left out.
    pub(super) fn of_generation(stored: &Stored, generation: u32) -> Self {
        let mut known = Self::default();
        for (key, partition) in &stored.partitions {
            let Some(position) = &partition.position else { continue };
            if key.generation == generation {
                let tp = TopicPartition::new(position.source_topic.clone(), key.partition);
                known.partitions.insert(tp, (key.clone(), partition.clone()));
            }
        }
        known
    }

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

/// Where a partition's log begins and ends on the target: log start, high watermark.
pub(super) type Bounds = (i64, i64);

/// By partition of the source.
pub(super) type AllBounds = BTreeMap<TopicPartition, Result<Bounds, ErrorCode>>;

/// A mirrored partition and its map.
#[derive(Clone, Debug)]
pub struct MappedPartition {
    /// The partition on the source.
    pub source: TopicPartition,
    /// The partition on the target.
    pub target: TopicPartition,
    /// Which source offset is which target offset, as of now.
    pub map: OffsetMap,
    /// Which life of the topic's mirror this is: 0 until the topic was made again and gone on with.
    pub generation: u32,
    /// When the state of it was last written, in milliseconds since 1970.
    pub written_ms: i64,
    /// Where the target's log ends, when that is before what it had acknowledged.
    pub truncated_to: Option<TargetOffset>,
}

/// The maps of partitions as of now.
#[derive(Debug, Default)]
pub(super) struct Maps {
    pub(super) stored: Stored,
    pub(super) known: Known,
    pub(super) mapped: BTreeMap<TopicPartition, MappedPartition>,
    /// Partitions whose state cannot be used, and why.
    pub(super) unusable: BTreeMap<TopicPartition, Standing>,
    /// Partitions of the target whose end could not be looked at.
    pub(super) failed: Vec<(TopicPartition, ClientError)>,
}

/// What the end of a target partition says beside its high watermark.
enum End {
    /// Its last batch.
    Batch(Head),
    /// It lies before what the target had acknowledged.
    Truncated(TargetOffset),
    Failed(ClientError),
}

impl Observer {
    /// The maps of the partitions in `bounds`, whose ends were read after `stored`. Each is the
    /// durable one, advanced or cut to the target's end and pruned to what the target holds. Without a
    /// `generation` the newest ones count.
    pub(super) async fn maps(
        &self,
        pair: &(ClusterId, ClusterId),
        stored: Stored,
        bounds: &AllBounds,
        generation: Option<u32>,
    ) -> Result<Maps, ClientError> {
        let known_of = |stored: &Stored| match generation {
            Some(number) => Known::of_generation(stored, number),
            None => Known::new(stored),
        };
        let known = known_of(&stored);
        let ends = self.ends(&known, bounds).await;
        let mut maps = Maps { stored, known, ..Maps::default() };
        let grew = ends.values().any(|end| matches!(end, End::Batch(_)));
        let mut usable_tails = true;
        if grew {
            usable_tails = self.state_settles().await?;
            maps.stored = state::read(&self.target, &self.config.name.source, pair).await?;
            maps.known = known_of(&maps.stored);
        }
        for (source, (key, partition)) in &maps.known.partitions {
            let (Some(Ok((start, _))), Some(position)) = (bounds.get(source), &partition.position)
            else {
                continue;
            };
            let map = match (&partition.damaged, partition.map(position)) {
                (None, Ok(map)) => map,
                (Some(damaged), _) => {
                    maps.unusable.insert(source.clone(), corrupt(damaged));
                    continue;
                }
                (None, Err(error)) => {
                    maps.unusable.insert(source.clone(), corrupt(&error.to_string()));
                    continue;
                }
            };
            let target = TopicPartition::new(position.target_topic.clone(), key.partition);
            let mut mapped = MappedPartition {
                source: source.clone(),
                target,
                map,
                generation: key.generation,
                written_ms: position.written_ms,
                truncated_to: None,
            };
            match ends.get(source) {
                Some(End::Batch(head)) if usable_tails => {
                    if let Some((count, copied_to)) = tail::progress(&mapped.map, position, head) {
                        mapped.map.acknowledge(count, copied_to);
                    }
                }
                Some(End::Truncated(end)) => {
                    mapped.truncated_to = Some(*end);
                    if let Some(count) = mapped.map.count_of_target(*end) {
                        mapped.map.cut(count);
                    }
                }
                Some(End::Failed(error)) => {
                    maps.failed.push((mapped.target.clone(), error.clone()));
                }
                Some(End::Batch(_)) | None => {}
            }
            mapped.map.prune(TargetOffset(*start));
            maps.mapped.insert(source.clone(), mapped);
        }
        Ok(maps)
    }

    /// Looks at the ends of partitions that are not where the state has them.
    async fn ends(&self, known: &Known, bounds: &AllBounds) -> BTreeMap<TopicPartition, End> {
        let mut work = Vec::new();
        for (source, (key, partition)) in &known.partitions {
            let (Some(Ok((_, end))), Some(position)) = (bounds.get(source), &partition.position)
            else {
                continue;
            };
            let (end, known_end) = (*end, position.target_end.0);
            if end == known_end {
                continue;
            }
            let target = TopicPartition::new(position.target_topic.clone(), key.partition);
            let (cluster, source) = (self.target.clone(), source.clone());
            work.push(async move {
                let found = if end > known_end {
                    let head = tail::last_head(&cluster, &target, end).await;
                    head.map(|head| head.map(End::Batch))
                } else {
                    // After a move of the leader the high watermark may be behind for a moment; the
                    // log end of the leader's epoch is not.
                    let log_end = tail::log_end(&cluster, &target).await;
                    log_end.map(|log_end| {
                        (log_end < known_end).then_some(End::Truncated(TargetOffset(log_end)))
                    })
                };
                Some((source, found.unwrap_or_else(|error| Some(End::Failed(error)))?))
            });
        }
        in_parallel(LOOKS_AT_ONCE, work).await.into_iter().flatten().collect()
    }

    /// Waits until every transaction of the state that is there now is visible. False when one
    /// stays open.
    async fn state_settles(&self) -> Result<bool, ClientError> {
        let latest: Vec<(TopicPartition, OffsetSpec)> =
            self.state_partitions().await?.into_iter().map(|tp| (tp, OffsetSpec::Latest)).collect();
        let there = self.target.list_offsets(&latest, Isolation::ReadUncommitted).await?;
        let settled = async {
            loop {
                let visible = self.target.list_offsets(&latest, Isolation::ReadCommitted).await?;
                let all = there.iter().zip(&visible).all(|((_, there), (_, visible))| {
                    matches!((there, visible), (Ok(there), Ok(visible))
                        if visible.offset >= there.offset)
                });
                if all {
                    return Ok(true);
                }
                tokio::time::sleep(SETTLED_YET).await;
            }
        };
        tokio::time::timeout(SETTLES_WITHIN, settled).await.unwrap_or(Ok(false))
    }

    async fn state_partitions(&self) -> Result<Vec<TopicPartition>, ClientError> {
        let topic = state::topic_name(&self.config.name.source);
        let partitions = state::partitions_seen(&self.target, &topic).await?;
        Ok((0..partitions).map(|partition| TopicPartition::new(topic.clone(), partition)).collect())
    }

    /// The pair of clusters that the state on the target is about, when it is about one: for a
    /// source that cannot be asked for its id.
    pub(super) async fn stored_pair(
        &self,
        target_id: &ClusterId,
    ) -> Result<Option<(ClusterId, ClusterId)>, ClientError> {
        let mut sources = BTreeSet::new();
        for tp in self.state_partitions().await? {
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

fn corrupt(what: &str) -> Standing {
    let reason = format!("the stored state cannot be used: {what}");
    Standing::found(State::Stopped, Code::StateCorrupt, reason)
}

/// Clusters without topic ids cannot tell.
pub(super) fn differ(a: TopicId, b: TopicId) -> bool {
    !a.is_none() && !b.is_none() && a != b
}
