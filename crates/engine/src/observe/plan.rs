//! What `twinlog run` would do, without doing any of it.
//!
//! Does not: change anything on either cluster, nor compare contents: whether what MM2 left is true
//! is found out when it is taken over.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_client::{BrokerOffer, ClientError, Cluster, TopicInfo, Topics};
use twinlog_flow::topics::{MirroredTopic, Seen, TopicFollower, TopicListing, TopicPlan};
use twinlog_mirror::replicates;
use twinlog_offsets::state::Lease;
use twinlog_types::{ClusterAlias, ClusterId, TopicName, TopicPartition};

use super::hindrances::Hindrance;
use super::load::{AllBounds, topics as known_topics};
use super::topics::{bounds_of, listed};
use super::{LOOKS_AT_ONCE, Observer, running};
use crate::parallel::in_parallel;
use crate::state::{self, Stored};
use crate::takeover::mm2::{self, Left};
use crate::topics::configs;

/// Brokers whose versions are asked for.
const BROKERS_ASKED: usize = 100;

/// What a cluster's brokers tell about themselves.
struct Told {
    brokers: usize,
    offers: Vec<BrokerOffer>,
    clock: Result<ClockReading, String>,
    unread: Vec<String>,
}

/// One side of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedSide {
    /// Its alias.
    pub alias: ClusterAlias,
    /// The id the cluster gave itself.
    pub id: ClusterId,
    /// How many brokers it has.
    pub brokers: usize,
    /// How many topics can be seen, Kafka's own left out.
    pub topics: usize,
    /// What its brokers speak; those that did not answer are left out.
    pub offers: Vec<BrokerOffer>,
    /// The clock of its controller, or why it is not known.
    pub clock: Result<ClockReading, String>,
}

/// A clock, against that of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// How far it is ahead, in milliseconds; behind where negative.
    pub ahead_ms: i64,
    /// By how much that may be wrong: half the time that the question took.
    pub within_ms: u64,
}

/// Where the copy of a partition would begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlannedStart {
    /// Where the state says that it ended.
    GoesOn,
    /// With what the source has.
    Begins,
    /// Behind what MM2 copied, of which it says that this was the last record. `None`: it left
    /// offset-syncs only.
    TakenOver(Option<i64>),
    /// Nothing would be written: the mirror holds records that nothing explains.
    LeftAlone,
}

/// What would happen to a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedPartition {
    /// The partition on the source.
    pub source: TopicPartition,
    /// Its mirror.
    pub target: TopicPartition,
    /// Where the copy would begin.
    pub start: PlannedStart,
    /// Offsets that wait on the source; of what is taken over about so many, as contents are not compared.
    pub waiting: u64,
}

/// What would happen to a flow.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// The cluster that is read.
    pub source: PlannedSide,
    /// The cluster that is written.
    pub target: PlannedSide,
    /// MM2 still copies this flow, and `run` would wait: the sentence that says so.
    pub mm2_runs: Option<String>,
    /// The `twinlog run` that has the flow now.
    pub run_by: Option<Lease>,
    /// What would be created, grown, reconfigured, and what would not be copied.
    pub topics: TopicPlan,
    /// Every partition that would be copied.
    pub partitions: Vec<PlannedPartition>,
    /// What has to be changed before `run` can do all of this.
    pub hindrances: Vec<Hindrance>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

impl FlowPlan {
    /// Whether both are one cluster, which would be mirrored to itself.
    pub fn is_one_cluster(&self) -> bool {
        self.source.id == self.target.id
    }
}

impl Observer {
    /// What `twinlog run` would do with this flow as things are now.
    ///
    /// # Errors
    ///
    /// When one of the clusters cannot be asked for its topics, or the state cannot be read.
    pub async fn plan_run(&self) -> Result<FlowPlan, ClientError> {
        let (source, target) = tokio::join!(side(&self.source), side(&self.target));
        let ((source_id, source), (target_id, target)) = (source?, target?);
        let name = &self.config.name;
        let (source_told, target_told) = tokio::join!(
            self.told(&self.source, &name.source),
            self.told(&self.target, &name.target)
        );
        let (source_told, target_told) = (source_told?, target_told?);
        let brokers = (source_told.brokers, target_told.brokers);
        let unread_of_brokers = source_told.unread.iter().chain(&target_told.unread).cloned();
        let mut unread: Vec<String> = unread_of_brokers.collect();
        let (source_side, target_side) = (
            planned_side(&name.source, source_id.clone(), source_told, &source),
            planned_side(&name.target, target_id.clone(), target_told, &target),
        );
        if source_id == target_id {
            return Ok(FlowPlan {
                hindrances: vec![self.same_cluster(&source_id)],
                source: source_side,
                target: target_side,
                mm2_runs: None,
                run_by: None,
                topics: TopicPlan::default(),
                partitions: Vec::new(),
                unread,
            });
        }
        let pair = (source_id.clone(), target_id.clone());
        let stored = state::read(&self.target, &self.config.name.source, &pair).await?;
        let mut keep = |what: &str, error: &ClientError| unread.push(format!("{what}: {error}"));
        let (listings, failed) = self.listings(&source, &target).await;
        for error in &failed {
            keep("configs of topics", error);
        }
        let known = known_topics(&stored);
        let seen = Seen {
            flow: &self.config,
            opposite: self.opposite.as_deref(),
            source: &listings.0,
            target: &listings.1,
            known: &known,
            claimed: &BTreeMap::new(),
        };
        let topics = TopicFollower::new().plan(&seen, self.config.sync_topic_configs_enabled);
        let left = Left::read(&self.config, &self.source, &self.target).await;
        let left = left.inspect_err(|error| keep("what MM2 left", error)).unwrap_or_default();
        let mm2_runs = mm2::who_runs(&self.config, &self.target).await.map(|alive| {
            format!(
                "MM2 makes this mirror now ({}); `twinlog run` begins within seconds after it is stopped",
                alive.who
            )
        });
        let groups = self.source.list_groups().await;
        let _ = groups.inspect_err(|error| keep("consumer groups of the source", error));
        let partitions = match self.partitions(&topics, &stored, &left).await {
            Ok(partitions) => partitions,
            Err(error) => {
                keep("where partitions end", &error);
                Vec::new()
            }
        };
        let hindrances = self.unmeetable(&topics, brokers, &mut unread).await;
        let now_ms = self.now_ms();
        let runs_now = running(stored.lease.as_ref(), now_ms).state == twinlog_types::State::InSync;
        Ok(FlowPlan {
            hindrances,
            source: source_side,
            target: target_side,
            mm2_runs,
            run_by: stored.lease.filter(|_| runs_now),
            topics,
            partitions,
            unread,
        })
    }

    /// What the brokers of a cluster tell about themselves.
    async fn told(&self, cluster: &Cluster, alias: &ClusterAlias) -> Result<Told, ClientError> {
        let brokers = cluster.brokers().await?;
        let clock = self.clock_of(cluster).await;
        let (offers, unread) = (Vec::new(), Vec::new());
        let mut told = Told { brokers: brokers.len(), offers, clock, unread };
        let asked = brokers.into_iter().take(BROKERS_ASKED).map(|broker| {
            let cluster = cluster.clone();
            async move { (broker.id, cluster.broker_offer(broker.id).await) }
        });
        for (broker, offer) in in_parallel(LOOKS_AT_ONCE, asked.collect()).await {
            match offer {
                Ok(offer) => told.offers.push(offer),
                Err(error) => told.unread.push(format!("broker {broker} of {alias}: {error}")),
            }
        }
        told.offers.sort_by_key(|offer| offer.broker);
        Ok(told)
    }

    /// The clock of the cluster's controller against that of whoever looks.
    async fn clock_of(&self, cluster: &Cluster) -> Result<ClockReading, String> {
        let before_ms = self.now_ms();
        let theirs_ms = cluster.controller_time_ms().await.map_err(|error| error.to_string())?;
        let theirs_ms = theirs_ms.ok_or("its brokers do not tell")?;
        let took_ms = self.now_ms().saturating_sub(before_ms).max(0);
        let ours_ms = before_ms.saturating_add(took_ms / 2);
        let ahead_ms = theirs_ms.saturating_sub(ours_ms);
        Ok(ClockReading { ahead_ms, within_ms: took_ms.unsigned_abs().div_ceil(2) })
    }

    /// Both sides' topics, with the configs that the plan needs; and why some could not be read.
    async fn listings(
        &self,
        source: &[TopicInfo],
        target: &[TopicInfo],
    ) -> ((Vec<TopicListing>, Vec<TopicListing>), Vec<ClientError>) {
        let (mut source, mut target) = (listed(source), listed(target));
        let wanted: Vec<TopicName> = source
            .iter()
            .map(|topic| topic.name.clone())
            .filter(|name| replicates(&self.config, name.as_str()))
            .collect();
        let mirrors: BTreeSet<TopicName> =
            wanted.iter().map(|name| self.config.remote_topic(name.as_str())).collect();
        let there: Vec<TopicName> = target
            .iter()
            .map(|topic| topic.name.clone())
            .filter(|name| mirrors.contains(name))
            .collect();
        let mut failed = Vec::new();
        for (cluster, names, listings) in
            [(&self.source, wanted, &mut source), (&self.target, there, &mut target)]
        {
            match configs(cluster, &names).await {
                Ok(mut configs) => {
                    for topic in listings {
                        topic.configs = configs.remove(&topic.name);
                    }
                }
                Err(error) => failed.push(error),
            }
        }
        ((source, target), failed)
    }

    async fn partitions(
        &self,
        plan: &TopicPlan,
        stored: &Stored,
        left: &Left,
    ) -> Result<Vec<PlannedPartition>, ClientError> {
        let pairs_of = |topic: &MirroredTopic| {
            let (source, target) = (topic.source.clone(), topic.target.clone());
            (0..topic.partitions).map(move |partition| {
                let source = TopicPartition::new(source.clone(), partition);
                (source, TopicPartition::new(target.clone(), partition))
            })
        };
        let mut pairs: Vec<_> = plan.mirror.iter().flat_map(pairs_of).collect();
        let there = pairs.len();
        pairs.extend(plan.create.iter().flat_map(|creation| {
            (0..creation.partitions).map(|partition| {
                let source = TopicPartition::new(creation.source.clone(), partition);
                (source, TopicPartition::new(creation.target.clone(), partition))
            })
        }));
        let (sources, targets): (Vec<_>, Vec<_>) = pairs.iter().cloned().unzip();
        let (sources, targets) = tokio::join!(
            bounds_of(&self.source, &sources),
            bounds_of(&self.target, &targets[..there])
        );
        let (sources, targets): (AllBounds, AllBounds) =
            (sources?.into_iter().collect(), targets?.into_iter().collect());
        let positions: BTreeMap<_, _> = stored
            .partitions
            .iter()
            .filter_map(|(key, state)| {
                let position = state.position.as_ref()?;
                let tp = TopicPartition::new(position.source_topic.clone(), key.partition);
                Some(((tp, key.target_topic), position.copied_to.0))
            })
            .collect();
        let ids: BTreeMap<_, _> =
            plan.mirror.iter().map(|topic| (&topic.source, topic.target_id)).collect();
        let planned = pairs.into_iter().map(|(source, target)| {
            let id = ids.get(&source.topic).copied();
            let copied_to = id.and_then(|id| positions.get(&(source.clone(), id)).copied());
            let bounds = sources.get(&source).copied().and_then(Result::ok).unwrap_or((0, 0));
            let holds = targets.get(&target).copied().and_then(Result::ok);
            let target_end = holds.map_or(0, |(_, end)| end);
            let holds = holds.is_some_and(|(start, end)| start < end);
            let last = left.positions.get(&source).copied();
            let (start, from) = match copied_to {
                Some(copied_to) => (PlannedStart::GoesOn, copied_to),
                None if !holds => (PlannedStart::Begins, bounds.0),
                None if last.is_some() || left.pairs.contains_key(&source) => {
                    let copied = left.copied_to(&source, target_end).unwrap_or(bounds.0);
                    (PlannedStart::TakenOver(last), copied)
                }
                None => (PlannedStart::LeftAlone, bounds.1),
            };
            let waiting = u64::try_from(bounds.1 - from.max(bounds.0)).unwrap_or(0);
            PlannedPartition { source, target, start, waiting }
        });
        Ok(planned.collect())
    }
}

fn planned_side(
    alias: &ClusterAlias,
    id: ClusterId,
    told: Told,
    topics: &[TopicInfo],
) -> PlannedSide {
    PlannedSide {
        alias: alias.clone(),
        id,
        brokers: told.brokers,
        topics: topics.iter().filter(|topic| topic.error.is_ok() && !topic.internal).count(),
        offers: told.offers,
        clock: told.clock,
    }
}

async fn side(cluster: &Cluster) -> Result<(ClusterId, Vec<TopicInfo>), ClientError> {
    Ok((cluster.cluster_id().await?, cluster.topics(Topics::All).await?))
}
