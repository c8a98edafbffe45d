//! What is known about a cluster's brokers, topics and leaders.
//!
//! Does not: ask anybody; [`Cluster`](crate::Cluster) does, and merges the answers here.
//!
//! # Invariants
//!
//! 1. Of several answers about one topic id, the highest leader epoch counts, per partition: a
//!    broker that slept through a move cannot bring back the old leader (KIP-320).
//! 2. Another topic id under a known name is another topic: nothing of the old one is kept
//!    (KIP-516).
//! 3. A topic that could not be described this time (no leader yet, no right) stays known.

use std::collections::BTreeMap;
use std::sync::Arc;

use twinlog_protocol::ErrorCode;
use twinlog_protocol::messages::MetadataResponse;
use twinlog_types::{BrokerId, ClusterId, LeaderEpoch, Partition, TopicId, TopicName};

/// One broker of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerInfo {
    /// Its node id.
    pub id: BrokerId,
    /// The host it advertises.
    pub host: String,
    /// The port it advertises.
    pub port: u16,
    /// Its rack, where configured.
    pub rack: Option<String>,
}

/// One partition, as Metadata describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Its number.
    pub partition: Partition,
    /// The leader's node id; `None` while there is none.
    pub leader: Option<BrokerId>,
    /// The leader's epoch; -1 when the broker does not say.
    pub leader_epoch: LeaderEpoch,
    /// All replicas, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// The replicas that are in sync.
    pub isr: Vec<BrokerId>,
    /// The replicas that are offline.
    pub offline: Vec<BrokerId>,
    /// The partition's own code: 5 while it has no leader.
    pub error: ErrorCode,
}

/// One topic, as Metadata describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its name.
    pub name: TopicName,
    /// Its id; [`TopicId::NONE`] from brokers without topic ids.
    pub id: TopicId,
    /// Whether Kafka calls it internal (`__consumer_offsets`, `__transaction_state`).
    pub internal: bool,
    /// The topic's own code: 3 when it does not exist, 29 when it may not be seen.
    pub error: ErrorCode,
    /// Its partitions by number, without gaps in any sane answer.
    pub partitions: Vec<PartitionInfo>,
}

impl TopicInfo {
    /// The partition with this number.
    pub fn partition(&self, partition: Partition) -> Option<&PartitionInfo> {
        let found = self.partitions.binary_search_by_key(&partition, |info| info.partition).ok()?;
        self.partitions.get(found)
    }

    /// What a topic looks like that could not be described.
    pub(crate) fn failed(name: TopicName, error: ErrorCode) -> Self {
        Self { name, id: TopicId::NONE, internal: false, error, partitions: Vec::new() }
    }
}

/// Which topics to ask about.
#[derive(Clone, Copy, Debug)]
pub enum Topics<'a> {
    /// Every topic that may be seen.
    All,
    /// These, whether they exist or not.
    Named(&'a [TopicName]),
}

/// The leader of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its node id.
    pub broker: BrokerId,
    /// Its epoch; -1 when unknown.
    pub epoch: LeaderEpoch,
}

/// One Metadata answer in our words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) cluster_id: Option<ClusterId>,
    pub(crate) controller: Option<BrokerId>,
    pub(crate) brokers: Vec<BrokerInfo>,
    pub(crate) topics: Vec<TopicInfo>,
}

impl From<MetadataResponse> for Answer {
    fn from(response: MetadataResponse) -> Self {
        let brokers = response
            .brokers
            .into_iter()
            .filter_map(|broker| {
                Some(BrokerInfo {
                    id: broker.node_id.0,
                    host: broker.host.to_string(),
                    port: u16::try_from(broker.port).ok()?,
                    rack: broker.rack.map(|rack| rack.to_string()),
                })
            })
            .collect();
        let topics = response
            .topics
            .into_iter()
            .filter_map(|topic| {
                let mut partitions: Vec<PartitionInfo> = topic
                    .partitions
                    .into_iter()
                    .map(|partition| PartitionInfo {
                        partition: partition.partition_index,
                        leader: (partition.leader_id.0 >= 0).then_some(partition.leader_id.0),
                        leader_epoch: partition.leader_epoch,
                        replicas: partition.replica_nodes.iter().map(|id| id.0).collect(),
                        isr: partition.isr_nodes.iter().map(|id| id.0).collect(),
                        offline: partition.offline_replicas.iter().map(|id| id.0).collect(),
                        error: ErrorCode(partition.error_code),
                    })
                    .collect();
                partitions.sort_by_key(|info| info.partition);
                partitions.dedup_by_key(|info| info.partition);
                Some(TopicInfo {
                    name: TopicName::from(topic.name?.as_str()),
                    id: TopicId(topic.topic_id.into_bytes()),
                    internal: topic.is_internal,
                    error: ErrorCode(topic.error_code),
                    partitions,
                })
            })
            .collect();
        Self {
            cluster_id: response.cluster_id.map(|id| ClusterId::from(id.as_str())),
            controller: (response.controller_id.0 >= 0).then_some(response.controller_id.0),
            brokers,
            topics,
        }
    }
}

/// Everything known, merged from every answer so far.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) cluster_id: Option<ClusterId>,
    pub(crate) controller: Option<BrokerId>,
    pub(crate) brokers: BTreeMap<BrokerId, BrokerInfo>,
    topics: BTreeMap<TopicName, Arc<TopicInfo>>,
}

impl Cache {
    pub(crate) fn topic(&self, name: &TopicName) -> Option<Arc<TopicInfo>> {
        self.topics.get(name).cloned()
    }

    pub(crate) fn topic_names(&self) -> Vec<TopicName> {
        self.topics.keys().cloned().collect()
    }

    /// Takes over what an answer tells. `complete` says that it lists every topic, so that what
    /// it lacks is gone. Answers whether anything changed.
    pub(crate) fn merge(&mut self, answer: Answer, complete: bool) -> bool {
        let mut changed = false;
        // A broker that is just starting may list none.
        if !answer.brokers.is_empty() {
            let brokers: BTreeMap<_, _> =
                answer.brokers.into_iter().map(|broker| (broker.id, broker)).collect();
            changed |= brokers != self.brokers;
            self.brokers = brokers;
            self.controller = answer.controller;
        }
        if answer.cluster_id.is_some() {
            self.cluster_id = answer.cluster_id;
        }
        if complete {
            let listed: Vec<&TopicName> = answer.topics.iter().map(|topic| &topic.name).collect();
            let listed: std::collections::BTreeSet<&TopicName> = listed.into_iter().collect();
            let known = self.topics.len();
            self.topics.retain(|name, _| listed.contains(name));
            changed |= self.topics.len() != known;
        }
        for topic in answer.topics {
            changed |= self.merge_topic(topic);
        }
        changed
    }

    fn merge_topic(&mut self, mut new: TopicInfo) -> bool {
        if new.error == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
            return self.topics.remove(&new.name).is_some();
        }
        if !new.error.is_ok() {
            return false;
        }
        if let Some(old) = self.topics.get(&new.name) {
            // Brokers without topic ids, of a mixed cluster, say nothing about which life it is.
            let same = old.id == new.id || old.id.is_none() || new.id.is_none();
            if same {
                if new.id.is_none() {
                    new.id = old.id;
                }
                keep_newer(&mut new.partitions, &old.partitions);
            }
            if **old == new {
                return false;
            }
        }
        self.topics.insert(new.name.clone(), Arc::new(new));
        true
    }
}

/// Puts the old description back wherever it has the higher leader epoch, or where the answer
/// lacks the partition (partitions of one topic id never become fewer).
fn keep_newer(new: &mut Vec<PartitionInfo>, old: &[PartitionInfo]) {
    for before in old {
        match new.binary_search_by_key(&before.partition, |info| info.partition) {
            Ok(found) if new[found].leader_epoch < before.leader_epoch => {
                new[found] = before.clone();
            }
            Ok(_) => {}
            Err(place) => new.insert(place, before.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(
        partition: Partition,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
    ) -> PartitionInfo {
        PartitionInfo {
            partition,
            leader: Some(leader),
            leader_epoch,
            replicas: vec![1, 2],
            isr: vec![1, 2],
            offline: Vec::new(),
            error: ErrorCode::NONE,
        }
    }

    fn answer(id: u8, partitions: Vec<PartitionInfo>) -> Answer {
        let topic = TopicInfo {
            name: "orders".into(),
            id: TopicId([id; 16]),
            internal: false,
            error: ErrorCode::NONE,
            partitions,
        };
        Answer { topics: vec![topic], ..Answer::default() }
    }

    fn leaders(cache: &Cache) -> Vec<(Option<BrokerId>, LeaderEpoch)> {
        let topic = cache.topic(&"orders".into()).expect("known");
        topic.partitions.iter().map(|info| (info.leader, info.leader_epoch)).collect()
    }

    #[test]
    fn an_older_leader_epoch_of_the_same_topic_never_comes_back() {
        let mut cache = Cache::default();
        assert!(cache.merge(answer(1, vec![partition(0, 2, 5), partition(1, 1, 3)]), false));
        // A broker that slept through the move of partition 0, but knows of a newer move of 1.
        assert!(cache.merge(answer(1, vec![partition(0, 1, 4), partition(1, 2, 4)]), false));
        assert_eq!(leaders(&cache), [(Some(2), 5), (Some(2), 4)]);
        assert!(!cache.merge(answer(1, vec![partition(0, 1, 4)]), false), "nothing new");
        assert_eq!(leaders(&cache).len(), 2, "partitions never become fewer");
    }

    #[test]
    fn a_recreated_topic_starts_over_at_epoch_zero() {
        let mut cache = Cache::default();
        cache.merge(answer(1, vec![partition(0, 2, 5), partition(1, 2, 5)]), false);
        assert!(cache.merge(answer(2, vec![partition(0, 1, 0)]), false));
        assert_eq!(leaders(&cache), [(Some(1), 0)]);
    }

    #[test]
    fn a_topic_is_forgotten_when_it_is_gone_and_kept_when_it_cannot_be_described() {
        let mut cache = Cache::default();
        cache.merge(answer(1, vec![partition(0, 2, 5)]), false);
        let failed = |code| Answer {
            topics: vec![TopicInfo::failed("orders".into(), ErrorCode(code))],
            ..Answer::default()
        };
        assert!(!cache.merge(failed(29), false), "no right to see it");
        assert!(cache.topic(&"orders".into()).is_some());
        assert!(cache.merge(failed(3), false));
        assert!(cache.topic(&"orders".into()).is_none());
        cache.merge(answer(1, vec![partition(0, 2, 5)]), false);
        assert!(cache.merge(Answer::default(), true), "a complete list without it");
        assert!(cache.topic(&"orders".into()).is_none());
    }
}
