//! Follows topics: what to create, grow and reconfigure on the target, and which partitions to
//! take up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};
use twinlog_client::{ClientError, Cluster, ErrorCode, NewTopic, OffsetSpec, Topics};
use twinlog_flow::copy::{Copier, Limits, Setup, Stop};
use twinlog_flow::topics::{MirroredTopic, Seen, TopicFollower, TopicListing, TopicPlan};
use twinlog_mirror::why_not_replicated;
use twinlog_offsets::state::PartitionKey;
use twinlog_types::{Code, ConfigEntry, SourceOffset, TargetOffset, TopicName, TopicPartition};

use crate::cell::Cell;
use crate::flow::Flow;
use crate::sightings::Sightings;
use crate::state;
use crate::takeover::{self, Foreign, again};
use crate::tenure::Before;
use crate::{generations, internal, losses};

/// How often the target's log starts are looked at.
const PRUNE_INTERVAL: Duration = Duration::from_mins(1);
/// A partition may hold at least this much fetched: a few batches.
const QUEUE_BYTES_MIN: usize = 256 << 10;
/// Passes of one look at the topics: what was created is taken up in the next.
const PASSES_MAX: usize = 4;

/// What is remembered from one look at the topics to the next.
#[derive(Default)]
struct Follower {
    plans: TopicFollower,
    source: Sightings,
    target: Sightings,
}

/// Follows topics until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>) {
    let mut follower = Follower::default();
    let ending = flow.ending();
    let mut source_changed = flow.source.metadata_changed();
    let mut target_changed = flow.target.metadata_changed();
    let mut configs_due = Instant::now();
    let mut prune_due = Instant::now() + PRUNE_INTERVAL;
    let mut first = true;
    loop {
        if first || flow.config.refresh_topics_enabled {
            let sync_configs =
                flow.config.sync_topic_configs_enabled && Instant::now() >= configs_due;
            let looked = tokio::select! {
                biased;
                () = ending.ended() => return,
                looked = look(&flow, &mut follower, sync_configs) => looked,
            };
            match looked {
                Ok(()) => {
                    first = false;
                    flow.topics_known.store(true, Ordering::Release);
                    if sync_configs {
                        configs_due = Instant::now() + flow.config.sync_topic_configs_interval;
                    }
                }
                Err(error) => {
                    warn!(flow = %flow.name, %error, "topics cannot be looked at");
                    flow.target_unreachable(&error);
                }
            }
        }
        retry_stopped(&flow);
        share_memory(&flow);
        if Instant::now() >= prune_due {
            prune(&flow).await;
            prune_due = Instant::now() + PRUNE_INTERVAL;
        }
        let interval = Flow::no_later_than(
            flow.options.discovery_interval,
            flow.config.refresh_topics_interval,
        );
        let due = tokio::time::sleep(if first { Duration::from_millis(500) } else { interval });
        tokio::pin!(due);
        loop {
            flow.fetch_from_leaders();
            flow.look_after_leader_changes();
            tokio::select! {
                biased;
                () = ending.ended() => return,
                () = &mut due => break,
                () = flow.discover.notified() => {
                    // Answers that ask for this come in bursts.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    break;
                }
                _ = source_changed.changed() => {}
                _ = target_changed.changed() => {}
            }
        }
    }
}

/// No partition may hold so much that the others cannot go on.
fn share_memory(flow: &Flow) {
    let cells = flow.cells.all();
    let share = flow.options.fetched_bytes / (2 * cells.len().max(1));
    let bytes = share
        .clamp(QUEUE_BYTES_MIN.min(flow.options.partition_bytes), flow.options.partition_bytes);
    for cell in cells {
        cell.copier.lock().set_queue_bytes(bytes);
    }
}

/// What retention took on the target leaves the maps: a position there is before the start.
async fn prune(flow: &Flow) {
    let cells = flow.cells.all();
    let wanted: Vec<_> =
        cells.iter().map(|cell| (cell.target.clone(), OffsetSpec::Earliest)).collect();
    let isolation = twinlog_client::Isolation::ReadUncommitted;
    // What is not answered now is asked again with the next round.
    let Ok(listed) = flow.target.list_offsets(&wanted, isolation).await else { return };
    for (cell, (_, start)) in cells.iter().zip(listed) {
        if let Ok(start) = start {
            cell.copier.lock().prune(TargetOffset(start.offset));
        }
    }
}

/// Partitions that stopped for a reason that may pass are tried again.
fn retry_stopped(flow: &Arc<Flow>) {
    let now_ms = flow.now_ms();
    let rest_ms = flow.options.retry_stopped.as_millis() as i64;
    for cell in flow.cells.all() {
        let since = cell.stopped_ms.load(Ordering::Acquire);
        if since == 0 || now_ms - since < rest_ms {
            continue;
        }
        let mut copier = cell.copier.lock();
        if copier.stopped().is_some_and(|stop| stop.passing) {
            copier.retry();
            drop(copier);
            cell.stopped_ms.store(0, Ordering::Release);
            flow.moved(&cell);
        } else {
            drop(copier);
            losses::by_policy(flow, &cell);
        }
    }
}

async fn look(
    flow: &Arc<Flow>,
    follower: &mut Follower,
    sync_configs: bool,
) -> Result<(), ClientError> {
    let source = follower.source.after(&flow.source.topics(Topics::All).await?);
    flow.source_reached();
    let mut sync_configs = sync_configs;
    for _ in 0..PASSES_MAX {
        let target = follower.target.after(&flow.target.topics(Topics::All).await?);
        flow.target_reached();
        let listings = listings(flow, &source, &target, sync_configs).await?;
        let known = known(flow);
        let claimed = flow.options.claims.of_others(&flow.name);
        let plan = follower.plans.plan(
            &Seen {
                flow: &flow.config,
                opposite: flow.opposite.as_deref(),
                source: &listings.0,
                target: &listings.1,
                known: &known,
                claimed: &claimed,
            },
            sync_configs,
        );
        stop_topics(flow, &plan);
        if generations::begin(flow, &plan, (&source, &target)).await? {
            continue;
        }
        take_up(flow, &plan.mirror, again::is_possible(&flow.config, &target)).await?;
        if !carry_out(flow, &mut follower.plans, &plan).await? {
            break;
        }
        sync_configs = false;
    }
    Ok(())
}

/// What the plan is made from. Configs are asked for only where the plan needs them: for topics
/// that are missing on the target, and for all of them when configs are synced.
async fn listings(
    flow: &Flow,
    source: &[TopicListing],
    target: &[TopicListing],
    sync_configs: bool,
) -> Result<(Vec<TopicListing>, Vec<TopicListing>), ClientError> {
    let on_target: BTreeSet<&TopicName> = target.iter().map(|topic| &topic.name).collect();
    let mut source_wanted = Vec::new();
    let mut target_wanted = Vec::new();
    for topic in source {
        if why_not_replicated(&flow.config, topic.name.as_str()).is_some() {
            continue;
        }
        let remote = flow.config.remote_topic(topic.name.as_str());
        let exists = on_target.contains(&remote);
        if sync_configs || !exists {
            source_wanted.push(topic.name.clone());
        }
        if sync_configs && exists {
            target_wanted.push(remote);
        }
    }
    let source_configs = configs(&flow.source, &source_wanted).await?;
    let target_configs = configs(&flow.target, &target_wanted).await?;
    for (topic, entries) in &target_configs {
        if let Some(bytes) = batch_bytes(entries) {
            for cell in flow.cells.all().iter().filter(|cell| cell.target.topic == *topic) {
                cell.copier.lock().set_batch_bytes(bytes);
            }
        }
    }
    Ok((listed(source, source_configs), listed(target, target_configs)))
}

pub(crate) async fn configs(
    cluster: &Cluster,
    topics: &[TopicName],
) -> Result<BTreeMap<TopicName, Vec<ConfigEntry>>, ClientError> {
    if topics.is_empty() {
        return Ok(BTreeMap::new());
    }
    let described = cluster.describe_topic_configs(topics).await?;
    Ok(described.into_iter().filter_map(|(topic, entries)| Some((topic, entries.ok()?))).collect())
}

fn batch_bytes(entries: &[ConfigEntry]) -> Option<usize> {
    let entry = entries.iter().find(|entry| entry.name == "max.message.bytes")?;
    entry.value.as_deref()?.parse().ok()
}

fn listed(
    topics: &[TopicListing],
    mut configs: BTreeMap<TopicName, Vec<ConfigEntry>>,
) -> Vec<TopicListing> {
    topics
        .iter()
        .map(|topic| TopicListing { configs: configs.remove(&topic.name), ..topic.clone() })
        .collect()
}

/// What is mirrored: the cells, and before they exist what the state says.
fn known(flow: &Flow) -> Vec<MirroredTopic> {
    let mut known: BTreeMap<TopicName, (i64, MirroredTopic)> = BTreeMap::new();
    for (key, state) in &flow.stored.lock().partitions {
        let Some(position) = &state.position else { continue };
        let entry = known.entry(position.source_topic.clone()).or_insert_with(|| {
            (
                i64::MIN,
                MirroredTopic {
                    source: position.source_topic.clone(),
                    source_id: key.source_topic,
                    target: position.target_topic.clone(),
                    target_id: key.target_topic,
                    partitions: 0,
                },
            )
        });
        if position.written_ms >= entry.0 {
            entry.0 = position.written_ms;
            entry.1.source_id = key.source_topic;
            entry.1.target_id = key.target_topic;
            entry.1.target = position.target_topic.clone();
        }
        entry.1.partitions = entry.1.partitions.max(key.partition + 1);
    }
    for cell in flow.cells.all() {
        let entry = known.entry(cell.source.topic.clone()).or_insert_with(|| {
            (
                i64::MAX,
                MirroredTopic {
                    source: cell.source.topic.clone(),
                    source_id: cell.source_id,
                    target: cell.target.topic.clone(),
                    target_id: cell.target_id,
                    partitions: 0,
                },
            )
        });
        entry.1.source_id = cell.source_id;
        entry.1.target_id = cell.target_id;
        entry.1.partitions = entry.1.partitions.max(cell.source.partition + 1);
    }
    let mut known: Vec<_> = known.into_values().map(|(_, topic)| topic).collect();
    flow.generations.renew(&mut known);
    known
}

fn stop_topics(flow: &Arc<Flow>, plan: &TopicPlan) {
    let mut topics = BTreeMap::new();
    for verdict in &plan.stopped {
        let reason = flow.options.pasteable(&verdict.reason);
        topics.insert(verdict.topic.clone(), (verdict.code, reason));
        for cell in flow.cells.all() {
            let concerned = cell.source.topic == verdict.topic
                && verdict
                    .partitions
                    .as_ref()
                    .is_none_or(|range| range.contains(&cell.source.partition));
            if concerned && cell.copier.lock().stopped().is_none() {
                cell.copier.lock().stop(Stop {
                    code: verdict.code,
                    reason: verdict.reason.clone(),
                    range: None,
                    passing: false,
                });
                flow.stopped(&cell);
            }
        }
    }
    for finding in &plan.findings {
        let reason = format!("still copied: {}", finding.reason);
        topics.entry(finding.topic.clone()).or_insert((finding.code, reason));
    }
    flow.board.topics(&flow.name, topics);
}

/// Does what the plan asks of the target. Returns whether the topics must be looked at again.
async fn carry_out(
    flow: &Arc<Flow>,
    follower: &mut TopicFollower,
    plan: &TopicPlan,
) -> Result<bool, ClientError> {
    let mut again = false;
    let mut changed = Vec::new();
    let new: Vec<NewTopic> = plan
        .create
        .iter()
        .map(|creation| NewTopic {
            name: creation.target.clone(),
            partitions: creation.partitions,
            replication_factor: creation.replication_factor,
            configs: creation.configs.clone(),
        })
        .collect();
    if !new.is_empty() {
        for (topic, answer) in flow.target.create_topics(&new).await? {
            let Some(creation) = plan.create.iter().find(|one| one.target == topic) else {
                continue;
            };
            match answer {
                Ok(_) => {
                    info!(flow = %flow.name, topic = %topic, partitions = creation.partitions, "created");
                    changed.push((topic, creation.partitions));
                }
                Err(refusal) if refusal.code == ErrorCode::TOPIC_ALREADY_EXISTS => again = true,
                Err(refusal) => again |= follower.creation_refused(creation, &refusal.to_string()),
            }
        }
    }
    for growth in &plan.grow {
        match flow.target.create_partitions(&growth.target, growth.count).await {
            Ok(()) => {
                info!(flow = %flow.name, topic = %growth.target, partitions = growth.count, "grown");
                changed.push((growth.target.clone(), growth.count));
            }
            Err(error @ ClientError::Code { .. }) => {
                follower.growth_refused(growth, &error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    if !changed.is_empty() {
        // What is not visible yet would be taken up with the next look, seconds later.
        internal::until_led(&flow.target, &changed).await?;
        again = true;
    }
    for alteration in &plan.alter {
        let altered = flow.target.alter_topic_configs(&alteration.target, &alteration.changes);
        if let Err(refusal) = altered.await? {
            follower.alteration_refused(alteration, &refusal.to_string());
            warn!(flow = %flow.name, topic = %alteration.target, "configs not changed: {refusal}");
        }
    }
    Ok(again)
}

/// Takes up every partition that is not taken up yet.
async fn take_up(
    flow: &Arc<Flow>,
    topics: &[MirroredTopic],
    mm2_was_here: bool,
) -> Result<(), ClientError> {
    let mut fresh = Vec::new();
    for topic in topics {
        for partition in 0..topic.partitions {
            let source = TopicPartition { topic: topic.source.clone(), partition };
            if flow.cells.get(&source).is_none() && !flow.taking.lock().contains(&source) {
                fresh.push((topic, source));
            }
        }
    }
    if fresh.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<TopicName> = fresh.iter().map(|(topic, _)| topic.target.clone()).collect();
    let names: Vec<TopicName> = names.into_iter().collect();
    let on_target = configs(&flow.target, &names).await?;
    let limits: BTreeMap<TopicName, usize> = on_target
        .iter()
        .filter_map(|(topic, entries)| Some((topic.clone(), batch_bytes(entries)?)))
        .collect();
    note_cleaned(flow, fresh.iter().map(|(topic, _)| *topic), &on_target).await;
    let mut new = Vec::new();
    let mut known = Vec::new();
    for (topic, source) in fresh {
        let target = TopicPartition { topic: topic.target.clone(), partition: source.partition };
        let key = key(flow, topic, source.partition);
        let setup = setup(flow, topic, limits.get(&topic.target).copied());
        let stored = flow.stored.lock().take_up(&key);
        match stored {
            Some(stored) if mm2_was_here && stored.position.is_some() => {
                let topic = topic.clone();
                known.push(again::Known { topic, key, source, target, setup, stored });
            }
            Some(stored) if stored.position.is_some() || stored.damaged.is_some() => {
                let copier = restore(flow, &source, setup, &stored);
                insert_stored(flow, (topic, key), (source, target), copier, &stored);
            }
            Some(_) | None => new.push((topic, key, source, target, setup)),
        }
    }
    again::begin(flow, known);
    begin(flow, new).await
}

/// Notes on which topics the source's cleaner works, while a former owner may still send. Those count on
/// which it worked a moment ago, as the mirror tells, and those that nobody tells of.
async fn note_cleaned<'a>(
    flow: &Flow,
    topics: impl Iterator<Item = &'a MirroredTopic>,
    on_target: &BTreeMap<TopicName, Vec<ConfigEntry>>,
) {
    if flow.tenure.before() == Before::Answered {
        return;
    }
    let mirrors: BTreeMap<TopicName, &TopicName> =
        topics.map(|topic| (topic.source.clone(), &topic.target)).collect();
    let names: Vec<TopicName> = mirrors.keys().cloned().collect();
    let on_source = configs(&flow.source, &names).await.unwrap_or_default();
    let compacts = |entries: Option<&Vec<ConfigEntry>>| {
        let policy = entries?.iter().find(|entry| entry.name == "cleanup.policy")?;
        Some(policy.value.as_deref()?.contains("compact"))
    };
    let cleaned = mirrors.into_iter().filter(|(source, mirror)| {
        compacts(on_source.get(source)).unwrap_or(true)
            || compacts(on_target.get(*mirror)).unwrap_or(false)
    });
    flow.cleaned.lock().extend(cleaned.map(|(source, _)| source));
}

type New<'a> = (&'a MirroredTopic, PartitionKey, TopicPartition, TopicPartition, Setup);

/// Takes up partitions of which we copied nothing: reading begins at the source's start (or end, by
/// `auto.offset.reset`), writing at the target's end. What holds records is looked at first.
async fn begin(flow: &Arc<Flow>, new: Vec<New<'_>>) -> Result<(), ClientError> {
    if new.is_empty() {
        return Ok(());
    }
    let latest =
        flow.config.source_consumer.get("auto.offset.reset").is_some_and(|value| value == "latest");
    let spec = if latest { OffsetSpec::Latest } else { OffsetSpec::Earliest };
    let sources: Vec<_> = new.iter().map(|(_, _, source, ..)| (source.clone(), spec)).collect();
    let targets: Vec<_> = new
        .iter()
        .flat_map(|(_, _, _, target, _)| {
            [(target.clone(), OffsetSpec::Earliest), (target.clone(), OffsetSpec::Latest)]
        })
        .collect();
    let isolation = twinlog_client::Isolation::ReadUncommitted;
    let starts = flow.source.list_offsets(&sources, isolation).await?;
    let ends = flow.target.list_offsets(&targets, isolation).await?;
    let mut foreign = Vec::new();
    for ((index, start), (topic, key, source, target, setup)) in
        starts.into_iter().enumerate().zip(new)
    {
        let bounds =
            (ends.get(2 * index).map(|one| &one.1), ends.get(2 * index + 1).map(|one| &one.1));
        let (Ok(start), (Some(Ok(low)), Some(Ok(high)))) = (start.1, bounds) else {
            // Not answered for this partition yet: the next look asks again.
            continue;
        };
        let origin = TargetOffset(high.offset);
        if low.offset != high.offset && !generations::is_explained(flow, &key) {
            foreign.push(Foreign {
                topic: topic.clone(),
                key,
                source,
                target,
                setup,
                start: SourceOffset(start.offset),
                holds: (TargetOffset(low.offset), origin),
            });
            continue;
        }
        let producer = flow.generations.producer(topic).unwrap_or(flow.producer);
        let copier = Copier::new(setup, producer, SourceOffset(start.offset), origin);
        insert(flow, topic, key, (source, target), copier);
    }
    takeover::begin(flow, foreign);
    Ok(())
}

pub(crate) fn restore(
    flow: &Flow,
    source: &TopicPartition,
    setup: Setup,
    stored: &state::PartitionState,
) -> Copier {
    let refused = |setup, why: &str| {
        let mut copier = Copier::new(setup, flow.producer, SourceOffset(0), TargetOffset(0));
        copier.stop(state::corrupt(source, why));
        copier
    };
    let Some(position) = &stored.position else {
        return refused(setup, stored.damaged.as_deref().unwrap_or("it has no position"));
    };
    if let Some(damaged) = &stored.damaged {
        return refused(setup, damaged);
    }
    match stored.sealed_map(position) {
        Ok((map, durable)) => Copier::restore(setup, position, map, durable),
        Err(error) => refused(setup, &error.to_string()),
    }
}

/// Takes a partition up whose map was stored.
pub(crate) fn insert_stored(
    flow: &Arc<Flow>,
    (topic, key): (&MirroredTopic, PartitionKey),
    at: (TopicPartition, TopicPartition),
    copier: Copier,
    stored: &state::PartitionState,
) {
    let cell = insert(flow, topic, key, at, copier);
    if let Some(position) = &stored.position {
        cell.stands_since(position, position.written_ms);
    }
    let mut places = cell.blocks.lock();
    for (&number, &(offset, _)) in &stored.blocks {
        places.put(number, offset);
    }
}

pub(crate) fn insert(
    flow: &Arc<Flow>,
    topic: &MirroredTopic,
    key: PartitionKey,
    (source, target): (TopicPartition, TopicPartition),
    copier: Copier,
) -> Arc<Cell> {
    flow.options.claims.claim(&flow.name, &target.topic);
    let shard = flow.shard_of(&target);
    let cell = Cell::new(key, (source, topic.source_id), (target, topic.target_id), shard, copier);
    if let Some(stored) = flow.stored.lock().partitions.get(&cell.key) {
        let lost = stored.gaps.values().filter(|gap| gap.why == Code::SourceGap);
        cell.lost.lock().extend(lost.map(|gap| (gap.from, gap.to)));
    }
    let pause = flow.decisions.lock().pause_of(&cell.source).map(|made| made.by.clone());
    cell.paused.store(pause.is_some(), Ordering::Release);
    info!(flow = %flow.name, partition = %cell.source, target = %cell.target, paused_by = pause, "taken up");
    flow.cells.insert(cell.clone());
    flow.stopped(&cell);
    flow.moved(&cell);
    cell
}

fn key(flow: &Flow, topic: &MirroredTopic, partition: i32) -> PartitionKey {
    PartitionKey {
        source_cluster: flow.pair.0.clone(),
        target_cluster: flow.pair.1.clone(),
        source_topic: topic.source_id,
        target_topic: topic.target_id,
        generation: generations::generation(flow, topic),
        partition,
    }
}

fn setup(flow: &Flow, topic: &MirroredTopic, batch_bytes: Option<usize>) -> Setup {
    let mut limits = Limits { queue_bytes: flow.options.partition_bytes, ..Limits::default() };
    if let Some(bytes) = batch_bytes {
        limits.batch_bytes = bytes;
    }
    Setup {
        source_topic: topic.source.clone(),
        target_topic: topic.target.clone(),
        limits,
        drop_aborted: flow.config.isolation == twinlog_mirror::Isolation::ReadCommitted,
        recompress: flow
            .config
            .producer_compression
            .as_deref()
            .and_then(twinlog_batch::Codec::from_name),
    }
}
