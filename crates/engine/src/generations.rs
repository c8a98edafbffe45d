//! A topic that was made again, and whose mirror goes on with the new one: another *generation*.
//!
//! The records of the new topic land behind those of the old one. The map, the position and the
//! producer are the new life's own: nothing of the old one is translated with it, and offsets of the
//! old topic are answered only when the old generation is asked for.
//!
//! # Invariants
//!
//! 1. A generation begins only when nothing of the one before is on its way.
//! 2. Its batches have a producer of their own: the sequences of the old life say nothing about it.
//! 3. What the target held before is explained by the older life in the state, or the partition is
//!    not begun.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::info;
use twinlog_client::ClientError;
use twinlog_flow::copy::Producer;
use twinlog_flow::topics::{MirroredTopic, TopicListing, TopicPlan};
use twinlog_mirror::OnTopicRecreated;
use twinlog_offsets::state::PartitionKey;
use twinlog_types::{Code, TopicId, TopicName, TopicPartition};

use crate::flow::Flow;

/// The lives that were begun by this process, and those that an operator accepted.
#[derive(Debug, Default)]
pub(crate) struct Generations(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    begun: BTreeMap<TopicName, Life>,
    accepted: BTreeMap<TopicName, TopicId>,
}

/// One life of a mirrored topic.
#[derive(Clone, Copy, Debug)]
struct Life {
    source_id: TopicId,
    target_id: TopicId,
    generation: u32,
    producer: Producer,
}

impl Generations {
    /// An operator goes on with the topic of this id.
    pub(crate) fn accept(&self, topic: &TopicName, source_id: TopicId) {
        self.0.lock().accepted.insert(topic.clone(), source_id);
    }

    /// The producer of a topic's batches, where its generation has one of its own.
    pub(crate) fn producer(&self, topic: &MirroredTopic) -> Option<Producer> {
        let inner = self.0.lock();
        let life = inner.begun.get(&topic.source)?;
        (life.source_id == topic.source_id && life.target_id == topic.target_id)
            .then_some(life.producer)
    }

    /// What is mirrored, with the lives that were begun in place of the older ones.
    pub(crate) fn renew(&self, known: &mut [MirroredTopic]) {
        let inner = self.0.lock();
        for topic in known {
            if let Some(life) = inner.begun.get(&topic.source) {
                topic.source_id = life.source_id;
                topic.target_id = life.target_id;
            }
        }
    }
}

/// Which generation a mirrored topic is in.
pub(crate) fn generation(flow: &Flow, topic: &MirroredTopic) -> u32 {
    let begun = flow.generations.0.lock().begun.get(&topic.source).copied();
    let is_this =
        |life: &Life| life.source_id == topic.source_id && life.target_id == topic.target_id;
    if let Some(life) = begun.filter(is_this) {
        return life.generation;
    }
    let stored = flow.stored.lock();
    let of_this = stored
        .partitions
        .keys()
        .filter(|key| key.source_topic == topic.source_id && key.target_topic == topic.target_id);
    of_this.map(|key| key.generation).max().unwrap_or(0)
}

/// Whether the state knows an older life that filled the partition which `key` is about.
pub(crate) fn is_explained(flow: &Flow, key: &PartitionKey) -> bool {
    flow.stored.lock().partitions.iter().any(|(older, state)| {
        older.target_topic == key.target_topic
            && older.partition == key.partition
            && older.generation < key.generation
            && state.position.is_some()
    }) || flow.generations.0.lock().begun.values().any(|life| {
        life.target_id == key.target_topic
            && life.generation == key.generation
            && key.generation > 0
    })
}

/// Begins a generation of each topic that stopped because it was made again and that may go on.
/// Answers whether any was begun: then the topics must be planned anew.
pub(crate) async fn begin(
    flow: &Arc<Flow>,
    plan: &TopicPlan,
    (source, target): (&[TopicListing], &[TopicListing]),
) -> Result<bool, ClientError> {
    let mut begun = false;
    for verdict in &plan.stopped {
        if verdict.code != Code::TopicRecreated || verdict.partitions.is_some() {
            continue;
        }
        let on_source = source.iter().find(|listing| listing.name == verdict.topic);
        let on_target = target.iter().find(|listing| listing.name == verdict.target);
        let (Some(on_source), Some(on_target)) = (on_source, on_target) else { continue };
        let accepted = flow.generations.0.lock().accepted.get(&verdict.topic).copied();
        let by_policy = flow.config.on_topic_recreated() == Ok(OnTopicRecreated::NewGeneration);
        if (accepted != Some(on_source.id) && !by_policy) || !rests(flow, &verdict.topic) {
            continue;
        }
        let (id, epoch) = flow.target.init_producer_id().await?;
        let life = Life {
            source_id: on_source.id,
            target_id: on_target.id,
            generation: next_generation(flow, on_target.id),
            producer: Producer { id, epoch },
        };
        retire(flow, &verdict.topic);
        flow.generations.0.lock().begun.insert(verdict.topic.clone(), life);
        let generation = life.generation;
        let text = format!(
            "{} was made again: generation {generation} of its mirror begins, behind what {} holds",
            verdict.topic, verdict.target
        );
        info!(flow = %flow.name, topic = %verdict.topic, code = %Code::TopicRecreated, "{text}");
        let at_ms = flow.now_ms();
        flow.board.event(&flow.name, None, Code::TopicRecreated, text, at_ms);
        begun = true;
    }
    Ok(begun)
}

/// Whether nothing of a topic is on its way to the target, and all that is there is in the state: the
/// older life is answered from it.
fn rests(flow: &Flow, topic: &TopicName) -> bool {
    let mut cells = flow.cells.all().into_iter().filter(|cell| cell.source.topic == *topic);
    cells.all(|cell| {
        let copier = cell.copier.lock();
        copier.stopped().is_some() && !copier.answers_due() && copier.is_stored()
    })
}

fn next_generation(flow: &Flow, target_id: TopicId) -> u32 {
    let cells = flow.cells.all();
    let living = cells.iter().map(|cell| &cell.key);
    let stored = flow.stored.lock();
    let all = stored.partitions.keys().chain(living);
    let of_target = all.filter(|key| key.target_topic == target_id);
    of_target.map(|key| key.generation + 1).max().unwrap_or(0)
}

/// The older life is given up: its state stays, its partitions are nobody's any more.
fn retire(flow: &Flow, topic: &TopicName) {
    for cell in flow.cells.all() {
        if cell.source.topic == *topic {
            let TopicPartition { topic, partition } = cell.source.clone();
            let source = TopicPartition { topic, partition };
            flow.cells.remove(&source);
            flow.board.goes_on(&flow.name, &source);
        }
    }
}
