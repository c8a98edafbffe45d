//! Looks at both clusters, or at the target alone, and says how topics stand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use twinlog_client::{
    ClientError, Cluster, ErrorCode, Isolation, ListedOffset, OffsetSpec, TopicInfo, Topics,
};
use twinlog_flow::Standing;
use twinlog_flow::topics::{Seen, TopicFollower, TopicListing, TopicPlan, TopicVerdict};
use twinlog_mirror::{Refusal, replicates};
use twinlog_types::{ClusterId, Code, Partition, State, TopicName, TopicPartition};

use super::load::{AllBounds, Bounds, Known, Maps, topics as known_topics};
use super::partitions::{Ends, Facts, is_lost};
use super::tail::{self, OpenTransaction};
use super::{
    FlowObservation, LOOKS_AT_ONCE, Observer, PartitionObservation, TopicObservation, code_of,
    code_of_answer, running, worst,
};
use crate::commits::probe;
use crate::decisions::Decisions;
use crate::parallel::in_parallel;
use crate::state::{self, Stored};

/// Partitions whose first waiting record is looked at; the others' age is an estimate.
const AGES_MAX: usize = 512;
/// Topics that do not exist on the target of which the source is asked why.
const UNMADE_MAX: usize = 512;
/// Within this time a running mirror writes the state of what it has just taken up.
const TAKEN_UP_WITHIN: Duration = Duration::from_millis(800);

/// What is asked of single partitions after the first look.
#[derive(Default)]
struct Close {
    waits_since_ms: BTreeMap<TopicPartition, i64>,
    open_transactions: BTreeMap<TopicPartition, OpenTransaction>,
    /// What waits there may not be read.
    denied: BTreeSet<TopicPartition>,
    unreadable: BTreeMap<TopicPartition, String>,
}

impl Observer {
    pub(super) async fn observe_both(
        &self,
        pair: &(ClusterId, ClusterId),
        found: &mut FlowObservation,
    ) {
        let (source, target) =
            tokio::join!(self.source.topics(Topics::All), self.target.topics(Topics::All));
        let source = source.map_err(|error| self.miss(found, true, "the topics", &error));
        let target = target.map_err(|error| self.miss(found, false, "the topics", &error));
        let (Ok(source), Ok(target)) = (source, target) else {
            found.own = found.missing_standing();
            return;
        };
        let commits = self.read_commits(found).await;
        found.commits = Some(probe(&self.source, self.config.follow_commits).await);
        let ends = self.source_ends(&source, found).await;
        let stored = match state::read(&self.target, &self.config.name.source, pair).await {
            Ok(stored) => stored,
            Err(error) => {
                self.miss(found, false, "the state of the mirror", &error);
                found.own = found.missing_standing();
                return;
            }
        };
        let mut known = known_topics(&stored);
        let hidden = self.hidden(&source, &target, &known).await;
        // Of what may not be described nobody knows whether it was deleted.
        known.retain(|topic| !hidden.contains_key(&topic.source));
        let mut plan = self.plan(&source, &target, &known);
        plan.create.retain(|topic| !hidden.contains_key(&topic.source));
        let unmade = self.why_not_made(&plan).await;
        let bounds = self.target_bounds(&plan, found).await;
        let mut maps = match self.maps(pair, stored, &bounds, None).await {
            Ok(maps) => maps,
            Err(error) => {
                self.miss(found, false, "the state of the mirror", &error);
                found.own = found.missing_standing();
                return;
            }
        };
        found.own = running(maps.stored.lease.as_ref(), self.now_ms());
        if maps.stored.lease.is_none() {
            found.own = self.cannot_start(found.own.clone()).await;
        }
        found.replaced = self.replaced(&maps.stored, &target, &plan, &pair.0);
        if let (None, Some(reason)) = (&maps.stored.lease, &found.replaced) {
            found.own = Standing::found(State::Stopped, Code::ClusterReplaced, reason.clone());
        }
        let unexplained = bounds.iter().any(|(tp, bounds)| {
            let holds_records = matches!(bounds, Ok((start, end)) if start < end);
            holds_records && !maps.known.partitions.contains_key(tp)
        });
        if unexplained && found.own.state == State::InSync {
            tokio::time::sleep(TAKEN_UP_WITHIN).await;
            let again = state::read(&self.target, &self.config.name.source, pair).await;
            match again {
                Ok(stored) => match self.maps(pair, stored, &bounds, None).await {
                    Ok(again) => maps = again,
                    Err(error) => self.miss(found, false, "the state of the mirror", &error),
                },
                Err(error) => self.miss(found, false, "the state of the mirror", &error),
            }
        }
        found.lease.clone_from(&maps.stored.lease);
        for (target, error) in &maps.failed {
            self.miss(found, false, &format!("the end of {target}"), error);
        }
        let close = self.look_closely(&ends, &maps).await;
        let mut decisions = Decisions::default();
        let read = decisions.read_on(&self.target, &self.config.name.source, pair).await;
        if let Err(error) = read {
            self.miss(found, false, "operators' decisions", &error);
        }
        let sight = Sight { plan, unmade, ends, bounds, maps, close, decisions, hidden };
        self.put_topics(found, &sight);
        self.put_groups(found, &commits, &sight.maps, &sight.made_again());
        self.put_torn(found).await;
    }

    /// Whether mirrors that are still there were copied from another cluster than the source is now,
    /// and nobody has taken them up since. Where this source is mirrored already, what another one
    /// has left behind matters only under the names that this one's topics want.
    fn replaced(
        &self,
        stored: &Stored,
        target: &[TopicInfo],
        plan: &TopicPlan,
        now: &ClusterId,
    ) -> Option<String> {
        let ours: BTreeSet<_> =
            stored.partitions.keys().map(|key| (key.target_topic, key.partition)).collect();
        let there: BTreeSet<_> = if ours.is_empty() {
            target.iter().map(|topic| topic.id).collect()
        } else {
            plan.mirror.iter().map(|topic| topic.target_id).collect()
        };
        let mirrors = stored.elsewhere.mirrors.iter();
        let mut left = mirrors.filter(|(at, _)| there.contains(&at.0) && !ours.contains(at));
        let (_, was) = left.next()?;
        let partitions = 1 + left.count();
        let name = &self.config.name;
        let since = stored.elsewhere.renewed_ms.map_or_else(String::new, |ms| {
            format!(", last {} s ago", self.now_ms().saturating_sub(ms).max(0) / 1_000)
        });
        let what = if partitions == 1 { "partition" } else { "partitions" };
        Some(format!(
            "{} is cluster {now}, and {partitions} {what} on {} were mirrored from cluster {was} \
             under that alias{since}: another cluster stands behind the address, or the alias",
            name.source, name.target
        ))
    }

    /// Where the partitions of the topics that are copied begin and end on the source.
    async fn source_ends(
        &self,
        source: &[TopicInfo],
        found: &mut FlowObservation,
    ) -> BTreeMap<TopicPartition, Result<Ends, ErrorCode>> {
        let wanted: Vec<TopicPartition> = source
            .iter()
            .filter(|topic| topic.error.is_ok() && replicates(&self.config, topic.name.as_str()))
            .flat_map(|topic| {
                topic
                    .partitions
                    .iter()
                    .map(|info| TopicPartition::new(topic.name.clone(), info.partition))
            })
            .collect();
        let readable = match self.config.isolation {
            twinlog_mirror::Isolation::ReadCommitted => Isolation::ReadCommitted,
            twinlog_mirror::Isolation::ReadUncommitted => Isolation::ReadUncommitted,
        };
        let latest: Vec<_> = wanted.iter().map(|tp| (tp.clone(), OffsetSpec::Latest)).collect();
        let (readable, bounds) = tokio::join!(
            self.source.list_offsets(&latest, readable),
            bounds_of(&self.source, &wanted),
        );
        match (readable, bounds) {
            (Ok(readable), Ok(bounds)) => {
                let readable: BTreeMap<_, _> = readable.into_iter().collect();
                let ends = bounds.into_iter().map(|(tp, bounds)| {
                    let ends = bounds.and_then(|(start, high_watermark)| {
                        let readable = offset_of(readable.get(&tp).copied())?;
                        // The two ends were asked for one after the other.
                        let high_watermark = high_watermark.max(readable);
                        Ok(Ends { start, readable, high_watermark })
                    });
                    (tp, ends)
                });
                ends.collect()
            }
            (Err(error), _) | (_, Err(error)) => {
                self.miss(found, true, "where partitions end on topics", &error);
                BTreeMap::new()
            }
        }
    }

    fn plan(
        &self,
        source: &[TopicInfo],
        target: &[TopicInfo],
        known: &[twinlog_flow::topics::MirroredTopic],
    ) -> TopicPlan {
        // Which configs a topic would be made with does not matter here.
        let (source, target) = (listed(source), listed(target));
        let seen = Seen {
            flow: &self.config,
            opposite: self.opposite.as_deref(),
            source: &source,
            target: &target,
            known,
            claimed: &BTreeMap::new(),
        };
        TopicFollower::new().plan(&seen, false)
    }

    /// What keeps topics from being made that are to be, as far as the source tells. A mirror is made
    /// with the configs of its source, so they must be readable.
    async fn why_not_made(&self, plan: &TopicPlan) -> BTreeMap<TopicName, String> {
        let wanted = plan.create.iter().take(UNMADE_MAX).map(|creation| creation.source.clone());
        let wanted: Vec<TopicName> = wanted.collect();
        if wanted.is_empty() {
            return BTreeMap::new();
        }
        // An answer that does not come is done without.
        let told = self.source.describe_topic_configs(&wanted).await.unwrap_or_default();
        let refused = told.into_iter().filter_map(|(topic, told)| Some((topic, told.err()?)));
        refused
            .map(|(topic, refusal)| {
                let why = match code_of_answer(refusal.code) {
                    Some(Code::MissingPermission) => {
                        format!("DESCRIBE_CONFIGS on {topic} is missing on the source")
                    }
                    _ => format!("the configs of {topic} cannot be read on the source: {refusal}"),
                };
                (topic, why)
            })
            .collect()
    }

    async fn target_bounds(&self, plan: &TopicPlan, found: &mut FlowObservation) -> AllBounds {
        let mirrored: Vec<(TopicPartition, TopicPartition)> = plan
            .mirror
            .iter()
            .flat_map(|topic| {
                (0..topic.partitions).map(|partition| {
                    let source = TopicPartition::new(topic.source.clone(), partition);
                    (source, TopicPartition::new(topic.target.clone(), partition))
                })
            })
            .collect();
        let targets: Vec<_> = mirrored.iter().map(|(_, target)| target.clone()).collect();
        match bounds_of(&self.target, &targets).await {
            Ok(bounds) => {
                let sources = mirrored.into_iter().map(|(source, _)| source);
                sources.zip(bounds.into_iter().map(|(_, bounds)| bounds)).collect()
            }
            Err(error) => {
                self.miss(found, false, "where partitions end on topics", &error);
                BTreeMap::new()
            }
        }
    }

    /// Looks at what waits on the source: how old it is, and whether a transaction holds it.
    /// Answers that do not come are done without.
    async fn look_closely(
        &self,
        ends: &BTreeMap<TopicPartition, Result<Ends, ErrorCode>>,
        maps: &Maps,
    ) -> Close {
        let mut ages = Vec::new();
        let mut transactions = Vec::new();
        for (tp, mapped) in &maps.mapped {
            let Some(Ok(ends)) = ends.get(tp) else { continue };
            let copied_to = mapped.map.copied_to().0;
            let (source, tp) = (self.source.clone(), tp.clone());
            if copied_to < ends.readable && copied_to >= ends.start {
                ages.push(async move {
                    let since = tail::timestamp_at(&source, &tp, copied_to).await;
                    (tp, since)
                });
            } else if ends.readable < ends.high_watermark {
                transactions.push(async move {
                    let open = tail::open_transaction(&source, &tp).await;
                    Some((tp, open.ok().flatten()?))
                });
            }
        }
        ages.truncate(AGES_MAX);
        let (mut waits_since_ms, mut denied) = (BTreeMap::new(), BTreeSet::new());
        let mut unreadable = BTreeMap::new();
        for (tp, since) in in_parallel(LOOKS_AT_ONCE, ages).await {
            match since {
                Ok(Some(since)) => drop(waits_since_ms.insert(tp, since)),
                Err(error) if code_of(&error) == Some(Code::MissingPermission) => {
                    denied.insert(tp);
                }
                Err(error) => drop(unreadable.insert(tp, error.to_string())),
                Ok(None) => {}
            }
        }
        Close {
            waits_since_ms,
            denied,
            unreadable,
            open_transactions: in_parallel(LOOKS_AT_ONCE, transactions)
                .await
                .into_iter()
                .flatten()
                .collect(),
        }
    }

    fn put_topics(&self, found: &mut FlowObservation, sight: &Sight) {
        let mut names: BTreeSet<&TopicName> = sight.ends.keys().map(|tp| &tp.topic).collect();
        names.extend(sight.plan.stopped.iter().map(|verdict| &verdict.topic));
        names.extend(sight.plan.mirror.iter().map(|topic| &topic.source));
        names.extend(sight.hidden.keys());
        let now_ms = self.now_ms();
        let runs = found.own.state == State::InSync;
        for name in names {
            let target_topic = self.config.remote_topic(name.as_str());
            let partitions: Vec<PartitionObservation> = sight
                .partitions_of(name)
                .into_iter()
                .map(|partition| sight.partition(name, partition, (now_ms, runs)))
                .collect();
            let whole = sight.topic(name).unwrap_or_else(Standing::in_sync);
            let standing = worst(
                &whole,
                partitions
                    .iter()
                    .map(|one| (format!("partition {}", one.partition), &one.standing)),
            );
            found.topics.push(TopicObservation {
                topic: name.clone(),
                target_topic,
                standing,
                partitions,
            });
        }
        for excluded in &sight.plan.excluded {
            if excluded.why.0 == Refusal::Internal {
                continue;
            }
            found.topics.push(TopicObservation {
                topic: excluded.topic.clone(),
                target_topic: self.config.remote_topic(excluded.topic.as_str()),
                standing: Standing::found(
                    State::Excluded,
                    Code::TopicNotMirrored,
                    excluded.why.to_string(),
                ),
                partitions: Vec::new(),
            });
        }
    }

    /// What the target alone tells, while the source cannot be reached.
    pub(super) async fn observe_target_only(
        &self,
        target_id: &ClusterId,
        found: &mut FlowObservation,
    ) -> Result<(), ClientError> {
        let Some(pair) = self.stored_pair(target_id).await? else { return Ok(()) };
        let stored = state::read(&self.target, &self.config.name.source, &pair).await?;
        let known = Known::new(&stored);
        let mirrored: Vec<(&TopicPartition, TopicPartition)> = known
            .partitions
            .iter()
            .filter_map(|(source, (key, partition))| {
                let topic = partition.position.as_ref()?.target_topic.clone();
                Some((source, TopicPartition::new(topic, key.partition)))
            })
            .collect();
        let targets: Vec<TopicPartition> =
            mirrored.iter().map(|(_, target)| target.clone()).collect();
        let listed = bounds_of(&self.target, &targets).await?;
        let sources = mirrored.iter().map(|(source, _)| (*source).clone());
        let bounds: AllBounds = sources.zip(listed.into_iter().map(|(_, bounds)| bounds)).collect();
        let maps = self.maps(&pair, stored, &bounds, None).await?;
        found.lease.clone_from(&maps.stored.lease);
        let unreachable = || {
            let reason = "how far the source is cannot be found out";
            Standing::found(State::Unknown, Code::Unreachable, reason)
        };
        for (source, (_, partition)) in &maps.known.partitions {
            let Some(position) = &partition.position else { continue };
            let observation = PartitionObservation {
                partition: source.partition,
                source_start: None,
                source_end: None,
                copied_to: maps.mapped.get(source).map(|mapped| mapped.map.copied_to().0),
                target_end: bounds.get(source).and_then(|bounds| Some(bounds.ok()?.1)),
                lag_records: None,
                lag_ms: None,
                standing: maps.unusable.get(source).cloned().unwrap_or_else(unreachable),
                gaps: partition.gaps.values().filter(|gap| is_lost(gap)).cloned().collect(),
                is_denied: false,
            };
            match found.topics.last_mut().filter(|topic| topic.topic == source.topic) {
                Some(topic) => topic.partitions.push(observation),
                None => found.topics.push(TopicObservation {
                    topic: source.topic.clone(),
                    target_topic: position.target_topic.clone(),
                    standing: unreachable(),
                    partitions: vec![observation],
                }),
            }
        }
        Ok(())
    }
}

/// Everything that was read about topics.
struct Sight {
    plan: TopicPlan,
    /// What keeps topics from being made, by their name on the source.
    unmade: BTreeMap<TopicName, String>,
    ends: BTreeMap<TopicPartition, Result<Ends, ErrorCode>>,
    bounds: AllBounds,
    maps: Maps,
    close: Close,
    decisions: Decisions,
    /// Topics that may not be described where they should be.
    hidden: BTreeMap<TopicName, Standing>,
}

impl Sight {
    /// Topics that were made again on either side: commits on them say nothing about what was copied.
    fn made_again(&self) -> BTreeMap<TopicName, Standing> {
        let stopped = self.plan.stopped.iter();
        let again = stopped
            .filter(|verdict| matches!(verdict.code, Code::TopicRecreated | Code::TargetRecreated));
        again
            .map(|verdict| {
                let reason = verdict.reason.clone();
                let standing = Standing::found(State::Waiting, verdict.code, reason);
                (verdict.topic.clone(), standing)
            })
            .collect()
    }

    fn partitions_of(&self, topic: &TopicName) -> BTreeSet<Partition> {
        let here = |tp: &&TopicPartition| tp.topic == *topic;
        let on_source = self.ends.keys().filter(here);
        let mirrored = self.maps.known.partitions.keys().filter(here);
        on_source.chain(mirrored).map(|tp| tp.partition).collect()
    }

    /// How the topic as a whole stands, where there is something to say.
    fn topic(&self, topic: &TopicName) -> Option<Standing> {
        if let Some(hidden) = self.hidden.get(topic) {
            return Some(hidden.clone());
        }
        let whole =
            |verdict: &&TopicVerdict| verdict.topic == *topic && verdict.partitions.is_none();
        if let Some(verdict) = self.plan.stopped.iter().find(whole) {
            let reason = verdict.reason.clone();
            return Some(Standing::found(State::Stopped, verdict.code, reason));
        }
        if let Some(creation) = self.plan.create.iter().find(|one| one.source == *topic) {
            let why = self.unmade.get(topic).map(|why| format!(": {why}")).unwrap_or_default();
            let reason = format!("{} does not exist on the target yet{why}", creation.target);
            return Some(Standing::found(State::Waiting, Code::TopicMissingOnTarget, reason));
        }
        let finding = self.plan.findings.iter().find(|finding| finding.topic == *topic)?;
        Some(Standing::found(State::InSync, finding.code, finding.reason.clone()))
    }

    fn partition(
        &self,
        topic: &TopicName,
        partition: Partition,
        (now_ms, running): (i64, bool),
    ) -> PartitionObservation {
        let tp = TopicPartition::new(topic.clone(), partition);
        let state = self.maps.known.partitions.get(&tp).map(|(_, state)| state);
        let gaps: Vec<_> =
            state.into_iter().flat_map(|state| state.gaps.values().cloned()).collect();
        let mapped = self.maps.mapped.get(&tp);
        let absent = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        let facts = Facts {
            now_ms,
            running,
            position: state.and_then(|state| state.position.as_ref()),
            unusable: self.maps.unusable.get(&tp).cloned(),
            taken_over: state.is_some_and(|state| !state.inherited.is_empty()),
            copied_to: mapped.map(|mapped| mapped.map.copied_to().0),
            truncated_to: mapped.and_then(|mapped| mapped.truncated_to),
            source: self.ends.get(&tp).copied().unwrap_or(Err(absent)),
            target: self.bounds.get(&tp).copied().unwrap_or(Err(absent)),
            gaps: &gaps,
            waits_since_ms: self.close.waits_since_ms.get(&tp).copied(),
            open_transaction: self.close.open_transactions.get(&tp).copied(),
            denied: self.close.denied.contains(&tp),
            unreadable: self.close.unreadable.get(&tp).cloned(),
        };
        let whole = self.topic(topic).filter(|standing| standing.state != State::InSync);
        let standing =
            whole.or_else(|| self.growing(topic, partition)).unwrap_or_else(|| facts.standing());
        let standing = self.paused(&tp, standing, facts.lag_records());
        let is_denied = facts.denied;
        let position = state.and_then(|state| state.position.as_ref());
        PartitionObservation {
            partition,
            source_start: facts.source.ok().map(|ends| ends.start),
            source_end: facts.source.ok().map(|ends| ends.readable),
            copied_to: facts.copied_to.or(position.map(|position| position.copied_to.0)),
            // The position may have been read after the end.
            target_end: facts
                .target
                .ok()
                .map(|(_, end)| mapped.map_or(end, |mapped| end.max(mapped.map.target_end().0))),
            lag_records: facts.lag_records(),
            lag_ms: facts.lag_ms(),
            standing,
            is_denied,
            gaps: gaps.into_iter().filter(is_lost).collect(),
        }
    }

    /// How a partition stands that an operator paused, unless something else holds it too.
    fn paused(&self, tp: &TopicPartition, standing: Standing, lag: Option<u64>) -> Standing {
        let Some(made) = self.decisions.pause_of(tp) else { return standing };
        if !matches!(standing.state, State::InSync | State::CatchingUp | State::Waiting) {
            return standing;
        }
        let waits = match lag {
            Some(0) | None => String::new(),
            Some(lag) => format!("; {lag} offsets of the source wait"),
        };
        let reason = format!(
            "paused by {}{waits}; to go on: twinlog resume FILE --topic '{}'",
            made.by, tp.topic
        );
        Standing::found(State::Paused, Code::Paused, reason)
    }

    /// A partition that the target topic does not have yet.
    fn growing(&self, topic: &TopicName, partition: Partition) -> Option<Standing> {
        let mirrored = self.plan.mirror.iter().find(|one| one.source == *topic)?;
        (partition >= mirrored.partitions).then(|| {
            let reason = format!("{} has {} partitions yet", mirrored.target, mirrored.partitions);
            Standing::found(State::Waiting, Code::PartitionCountDiffers, reason)
        })
    }
}

pub(super) fn listed(topics: &[TopicInfo]) -> Vec<TopicListing> {
    topics
        .iter()
        .filter(|topic| topic.error.is_ok())
        .map(|topic| TopicListing {
            name: topic.name.clone(),
            id: topic.id,
            partitions: topic.partitions.len() as i32,
            configs: Some(Vec::new()),
        })
        .collect()
}

/// Log start and high watermark, in the order asked.
pub(super) async fn bounds_of(
    cluster: &Cluster,
    wanted: &[TopicPartition],
) -> Result<Vec<(TopicPartition, Result<Bounds, ErrorCode>)>, ClientError> {
    let specs: Vec<_> = wanted
        .iter()
        .flat_map(|tp| [(tp.clone(), OffsetSpec::Earliest), (tp.clone(), OffsetSpec::Latest)])
        .collect();
    let listed = cluster.list_offsets(&specs, Isolation::ReadUncommitted).await?;
    let pairs = listed.chunks(2).zip(wanted).map(|(pair, tp)| {
        let answer = |at: usize| offset_of(pair.get(at).map(|(_, answer)| *answer));
        let bounds = answer(0).and_then(|start| Ok((start, answer(1)?)));
        (tp.clone(), bounds)
    });
    Ok(pairs.collect())
}

fn offset_of(answer: Option<Result<ListedOffset, ErrorCode>>) -> Result<i64, ErrorCode> {
    answer.unwrap_or(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)).map(|listed| listed.offset)
}
