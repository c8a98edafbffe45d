//! MM2 went on where we ended, and now we are back.
//!
//! Then the state has a position, and behind it the mirror holds records that somebody else wrote
//! and that are those which we would copy next. They are taken over like any other; the map that
//! we made before becomes a part of what is known of the time before.
//!
//! Does not: look at mirrors where nobody but us ever kept copy positions; whatever stands behind
//! our records there is somebody's own, and the copy goes on behind it.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};
use twinlog_batch::heads;
use twinlog_client::{ClientError, Isolation};
use twinlog_flow::copy::{Copier, Setup, Stop};
use twinlog_flow::topics::{MirroredTopic, TopicListing};
use twinlog_mirror::FlowConfig;
use twinlog_offsets::state::{PartitionKey, Position, StateRecord};
use twinlog_offsets::{Inherited, OffsetMap, Stretch, StretchBuilder};
use twinlog_types::{Code, SourceOffset, TargetOffset, TopicPartition};

use super::store;
use super::walk::Sides;
use crate::flow::Flow;
use crate::state::PartitionState;
use crate::topics;

const HEADS_BYTES: i32 = 4 << 20;
const HEADS_WAIT: Duration = Duration::from_millis(250);

/// A partition of the state.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) topic: MirroredTopic,
    pub(crate) key: PartitionKey,
    pub(crate) source: TopicPartition,
    pub(crate) target: TopicPartition,
    pub(crate) setup: Setup,
    pub(crate) stored: PartitionState,
}

/// What is behind our last record.
enum Behind {
    /// What we know how to deal with.
    Ours,
    /// What we would have copied next, up to this source offset; the mirror ends there.
    Copied(SourceOffset, Vec<Stretch>, TargetOffset),
    /// Some of what we would have copied next, and then something else.
    Mixed(String),
}

/// Whether MM2 may have been here, by the names of the target's topics.
pub(crate) fn is_possible(config: &FlowConfig, target: &[TopicListing]) -> bool {
    let named = config.copy_positions_topic();
    target.iter().any(|topic| topic.name == named || super::mm2::may_hold_positions(&topic.name))
}

/// Takes partitions up whose mirror may hold what MM2 copied since.
pub(crate) fn begin(flow: &Arc<Flow>, partitions: Vec<Known>) {
    for known in partitions {
        if !flow.taking.lock().insert(known.source.clone()) {
            continue;
        }
        let task = flow.clone();
        flow.spawn(async move {
            let flow = task;
            match judge(&flow, &known).await {
                Ok(behind) => settle(&flow, known.clone(), behind),
                Err(error) => {
                    warn!(flow = %flow.name, partition = %known.source, %error, "cannot be taken up now; it is tried again");
                }
            }
            flow.taking.lock().remove(&known.source);
        });
    }
}

async fn judge(flow: &Flow, known: &Known) -> Result<Behind, ClientError> {
    let Some(position) = &known.stored.position else { return Ok(Behind::Ours) };
    if known.stored.damaged.is_some() {
        return Ok(Behind::Ours);
    }
    let Some((foreign, end)) = first_foreign(flow, &known.target, position).await? else {
        return Ok(Behind::Ours);
    };
    // A few at a time hold what they have read. The semaphore is never closed.
    let _permit = flow.takings.acquire().await;
    let sides = Sides::new(
        &flow.config,
        (flow.source.clone(), known.source.clone()),
        (flow.target.clone(), known.target.clone()),
    )
    .await?;
    let (stretches, aligned) = sides.behind((position.copied_to, position.target_end)).await?;
    let Some((source, target)) = aligned.last.filter(|(_, target)| *target >= foreign) else {
        return Ok(Behind::Ours);
    };
    if aligned.target_left > 0 || aligned.parted.is_some() {
        return Ok(Behind::Mixed(format!(
            "behind our last record MM2 copied up to source offset {source} (offset {target} of the \
             mirror), and then come records that are not the source's"
        )));
    }
    Ok(Behind::Copied(source.plus(1), stretches, end))
}

/// The first record behind our last one that is not ours, and the log's end.
async fn first_foreign(
    flow: &Flow,
    target: &TopicPartition,
    position: &Position,
) -> Result<Option<(TargetOffset, TargetOffset)>, ClientError> {
    let view = flow.target.leader_view(target).await?;
    let end = view.log_end().await?;
    let start = flow.log_start(&flow.target, target).await?;
    let mut at = position.target_end.0.max(start);
    while at < end {
        let part = view.fetch(at, HEADS_BYTES, HEADS_WAIT, Isolation::ReadUncommitted).await?;
        let before = at;
        for head in heads(&part.records) {
            let about = || target.to_string();
            let head = head.map_err(|reason| ClientError::Corrupt { about: about(), reason })?;
            let ours = head.producer_id == position.producer_id;
            if head.next_offset() > at && !ours && !head.is_control() && head.record_count > 0 {
                return Ok(Some((TargetOffset(head.base_offset.max(at)), TargetOffset(end))));
            }
            at = at.max(head.next_offset());
        }
        if at == before {
            return Err(ClientError::Timeout {
                what: format!("reading {target} at offset {at}, below its end {end}"),
            });
        }
    }
    Ok(None)
}

fn settle(flow: &Arc<Flow>, known: Known, behind: Behind) {
    let Known { topic, key, source, target, setup, stored } = known;
    let at = (source.clone(), target.clone());
    let (start, walked, end) = match behind {
        Behind::Copied(start, walked, end) => (start, walked, end),
        Behind::Ours => {
            let copier = topics::restore(flow, &source, setup, &stored);
            return topics::insert_stored(flow, (&topic, key), at, copier, &stored);
        }
        Behind::Mixed(why) => {
            let mut copier = topics::restore(flow, &source, setup, &stored);
            let reason = format!(
                "{target} on {}: {why}; nothing is written to it. Delete the mirror to have it copied anew",
                flow.name.target
            );
            let code = Code::TargetNotEmpty;
            copier.stop(Stop { code, reason, range: None, passing: false });
            return topics::insert_stored(flow, (&topic, key), at, copier, &stored);
        }
    };
    let before = stored.position.as_ref().and_then(|position| stored.map(position).ok());
    let mut inherited = before.as_ref().and_then(OffsetMap::before).cloned().unwrap_or_default();
    let new = before.iter().flat_map(stretches_of).chain(walked);
    let mut durable = Vec::new();
    for stretch in new {
        // They come from one map and one walk behind it, and fit.
        if inherited.insert(stretch.clone()).is_ok() {
            durable.push(StateRecord::Inherited(key.clone(), stretch));
        }
    }
    info!(
        flow = %flow.name, partition = %source, target = %target,
        "taken over again: MM2 went on where twinlog had ended; the copy goes on at source offset {start}"
    );
    let mut copier = taken(flow, setup, start, end, inherited);
    copier.replaces(stored.left_over());
    store(flow, &target, &durable);
    topics::insert(flow, &topic, key, at, copier);
}

fn taken(
    flow: &Flow,
    setup: Setup,
    start: SourceOffset,
    end: TargetOffset,
    inherited: Inherited,
) -> Copier {
    let mut copier = Copier::new(setup, flow.producer, start, end);
    copier.took_over(inherited);
    copier
}

/// What a map of ours knows, as what is known of the time before.
fn stretches_of(map: &OffsetMap) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let runs: Vec<_> = map.starts_from(0).filter(|run| run.count < map.acknowledged()).collect();
    let Some(first) = runs.first() else {
        return vec![Stretch::empty(map.start(), map.copied_to())];
    };
    // What was pruned at the front is not known any more.
    let from = if map.is_pruned() { first.source } else { map.start() };
    let mut open = StretchBuilder::new(from);
    for (at, run) in runs.iter().enumerate() {
        let end = runs.get(at + 1).map_or(map.acknowledged(), |next| next.count);
        let records = end - run.count;
        if !open.push_run(run.source, run.target, records) {
            let full = std::mem::replace(&mut open, StretchBuilder::new(run.source));
            stretches.push(full.finish(run.source));
            open.push_run(run.source, run.target, records);
        }
    }
    stretches.push(open.finish(map.copied_to()));
    stretches
}
