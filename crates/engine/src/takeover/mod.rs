//! Takes partitions over whose mirror holds records that somebody else copied: MM2, or whoever
//! `--existing` vouches for.
//!
//! Where the durable state has no position for a partition and the mirror holds records, the copy
//! goes on behind the source record that the mirror ends with. Which one that is, contents decide:
//! MM2's copy position is up to `offset.flush.interval.ms` old, and what it copied since lies on
//! the target already.
//!
//! | module | what it does |
//! |---|---|
//! | [`mm2`] | reads what MM2 left, and whether it still runs |
//! | [`walk`] | reads both sides side by side |
//! | [`rebuild`] | finds out on demand where older positions are |
//! | [`again`] | takes over what MM2 copied after us |
//! | [`keep`] | writes our positions where MM2 would go on from |
//!
//! # Invariants
//!
//! 1. Nothing is written into a mirror that holds records before it is known where it ends on the
//!    source, or the operator said that it is to be appended to.
//! 2. Whatever does not match is left alone, and said.

pub(crate) mod again;
pub(crate) mod keep;
pub(crate) mod mm2;
pub(crate) mod rebuild;
pub(crate) mod walk;

use std::sync::Arc;

use tracing::{info, warn};
use twinlog_client::{ClientError, Isolation, OffsetSpec};
use twinlog_flow::copy::{Copier, Setup, Stop};
use twinlog_flow::rebuild::{ROW_RECORDS, RowFound};
use twinlog_flow::topics::MirroredTopic;
use twinlog_offsets::state::{PartitionKey, StateRecord};
use twinlog_offsets::{Inherited, Stretch, StretchBuilder};
use twinlog_types::{Code, SourceOffset, TargetOffset, TopicPartition};

use crate::flow::Flow;
use crate::options::Existing;
use crate::topics;
use mm2::Pair;
use walk::Sides;

/// Pairs of MM2's offset-syncs that are tried, the newest first.
const PAIRS_TRIED: usize = 3;

/// A partition that is not in the state, and whose mirror holds records.
#[derive(Clone)]
pub(crate) struct Foreign {
    pub(crate) topic: MirroredTopic,
    pub(crate) key: PartitionKey,
    pub(crate) source: TopicPartition,
    pub(crate) target: TopicPartition,
    pub(crate) setup: Setup,
    /// Where reading begins if nothing of the source is on the target.
    pub(crate) start: SourceOffset,
    /// The mirror's first offset, and its end.
    pub(crate) holds: (TargetOffset, TargetOffset),
}

/// What is to be done with such a partition.
enum Taking {
    /// The copy goes on here; what was matched on the way.
    GoOn(SourceOffset, Vec<Stretch>),
    /// It is left alone, and why.
    Refused(String),
    /// It cannot be told yet.
    Later(&'static str),
}

/// Takes partitions over, each on its own; those that cannot be judged now are tried again with the
/// next look at the topics.
pub(crate) fn begin(flow: &Arc<Flow>, partitions: Vec<Foreign>) {
    for foreign in partitions {
        if !flow.taking.lock().insert(foreign.source.clone()) {
            continue;
        }
        let task = flow.clone();
        flow.spawn(async move {
            let flow = task;
            // The semaphore is never closed.
            let Ok(_permit) = flow.takings.clone().acquire_owned().await else { return };
            match judge(&flow, &foreign).await {
                Ok(taking) => settle(&flow, foreign.clone(), taking),
                Err(error) => {
                    warn!(flow = %flow.name, partition = %foreign.source, %error, "cannot be taken over now; it is tried again");
                }
            }
            flow.taking.lock().remove(&foreign.source);
        });
    }
}

async fn judge(flow: &Flow, foreign: &Foreign) -> Result<Taking, ClientError> {
    let existing = flow.options.existing;
    let left = flow.left().await?;
    let last = left.positions.get(&foreign.source).copied();
    let pairs = left.pairs.get(&foreign.source).map(Vec::as_slice).unwrap_or_default();
    // MM2 that died within its first minute left offset-syncs and no position.
    let by_mm2 = last.is_some() || !pairs.is_empty();
    match existing {
        None if !by_mm2 => {
            return Ok(Taking::Refused(
                "that neither the state of twinlog nor anything that MM2 left explains".to_owned(),
            ));
        }
        Some(Existing::Append) if !by_mm2 => return Ok(appended(foreign)),
        _ => {}
    }
    let sides = Sides::new(
        &flow.config,
        (flow.source.clone(), foreign.source.clone()),
        (flow.target.clone(), foreign.target.clone()),
    )
    .await?;
    let taking = find_end(flow, foreign, &sides, last, pairs).await?;
    Ok(match taking {
        Taking::Refused(_) if existing == Some(Existing::Append) => appended(foreign),
        taking => taking,
    })
}

/// Nothing of the source is on the target: what is there is somebody else's.
fn appended(foreign: &Foreign) -> Taking {
    Taking::GoOn(foreign.start, vec![Stretch::empty(SourceOffset(0), foreign.start)])
}

/// Finds the source record that the mirror ends with.
async fn find_end(
    flow: &Flow,
    foreign: &Foreign,
    sides: &Sides,
    last: Option<i64>,
    pairs: &[Pair],
) -> Result<Taking, ClientError> {
    let (low, high) = foreign.holds;
    let stable = [(foreign.target.clone(), OffsetSpec::Latest)];
    let stable = flow.target.list_offsets(&stable, Isolation::ReadCommitted).await?;
    if !stable.first().is_some_and(|(_, end)| end.as_ref().is_ok_and(|end| end.offset >= high.0)) {
        return Ok(Taking::Later("a transaction on the target is not over yet"));
    }
    let there = pairs.iter().rev().filter(|pair| (low..high).contains(&pair.1));
    for &pair in there.take(PAIRS_TRIED) {
        if !sides.is_pair(pair).await? {
            continue;
        }
        let (stretches, aligned) = sides.behind(pair).await?;
        if let (Some((source, _)), 0, None) = (aligned.last, aligned.target_left, aligned.parted) {
            return Ok(Taking::GoOn(source.plus(1), stretches));
        }
    }
    let (row, end) = sides.tail(low, high).await?;
    let Some(end) = end else {
        // Markers only: nothing of the source is there.
        let start = last.map_or(foreign.start, |last| SourceOffset(last + 1));
        return Ok(Taking::GoOn(start, vec![Stretch::empty(start, start)]));
    };
    // A position that MM2 stored is not far behind.
    let near = last.map_or(0, |last| (last - 2 * ROW_RECORDS as i64).max(0));
    let mut found = sides.find_on_source(&row, SourceOffset(near)).await?;
    if found == RowFound::Nowhere && near > 0 {
        found = sides.find_on_source(&row, SourceOffset(0)).await?;
    }
    Ok(match (found, last) {
        (RowFound::Once { last, .. }, _) => {
            let source = SourceOffset(last);
            let mut pair = StretchBuilder::new(source);
            pair.push(source, end);
            Taking::GoOn(source.plus(1), vec![pair.finish(source.plus(1))])
        }
        (RowFound::Nowhere, Some(last)) if last < foreign.start.0 => {
            // Nothing of what the target holds is left on the source: the position is all there is.
            let start = SourceOffset(last + 1);
            Taking::GoOn(start, vec![Stretch::empty(start, start)])
        }
        (RowFound::Nowhere, Some(last)) => Taking::Refused(format!(
            "of which the last {} are nowhere on the source, although MM2's copy position says that \
             everything up to source offset {last} was copied",
            row.len()
        )),
        (RowFound::Nowhere, None) => Taking::Refused(format!(
            "of which the last {} are nowhere on the source: there is no common part",
            row.len()
        )),
        (RowFound::Twice, _) => Taking::Refused(format!(
            "of which the last {} are on the source more than once: where the copy ends cannot be \
             told by contents",
            row.len()
        )),
    })
}

fn settle(flow: &Arc<Flow>, foreign: Foreign, taking: Taking) {
    let Foreign { topic, key, source, target, setup, start, holds: (low, high) } = foreign;
    let at = (source.clone(), target.clone());
    match taking {
        Taking::GoOn(start, stretches) => {
            let mut inherited = Inherited::new();
            let mut records = 0;
            let mut durable = Vec::new();
            for stretch in stretches {
                records += stretch.records();
                // They come from one walk forward, and fit.
                if inherited.insert(stretch.clone()).is_ok() {
                    durable.push(StateRecord::Inherited(key.clone(), stretch));
                }
            }
            let mut copier = Copier::new(setup, flow.producer, start, high);
            copier.took_over(inherited);
            info!(
                flow = %flow.name, partition = %source, target = %target,
                "taken over: the mirror holds offsets {low} to {}; the copy goes on at source offset {start} ({records} records at its end were compared)",
                high.0 - 1
            );
            store(flow, &target, &durable);
            topics::insert(flow, &topic, key, at, copier);
        }
        Taking::Refused(why) => {
            let mut copier = Copier::new(setup, flow.producer, start, high);
            copier.stop(Stop {
                code: Code::TargetNotEmpty,
                reason: flow.options.pasteable(&format!(
                    "{target} on {} holds offsets {low} to {} ({} records at most) {why}; nothing is written to it. `twinlog run FILE --existing match` looks for the common part by contents, `--existing append` writes behind what is there",
                    flow.name.target,
                    high.0 - 1,
                    high.since(low)
                )),
                range: None,
                passing: false,
            });
            topics::insert(flow, &topic, key, at, copier);
        }
        Taking::Later(why) => {
            info!(flow = %flow.name, partition = %source, "not taken over yet: {why}");
        }
    }
}

/// Leaves what was found out for the state. It goes into the first transaction with the partition's
/// position, or into one before.
pub(crate) fn store(flow: &Flow, target: &TopicPartition, found: &[StateRecord]) {
    let shard = flow.shard_of(target);
    for record in found {
        flow.notes.leave(shard, record);
    }
}
