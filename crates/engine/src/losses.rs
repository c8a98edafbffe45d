//! Going on behind a loss: what an operator accepts, or the policy of the flow.
//!
//! # Invariants
//!
//! 1. The range that is given up is in the ledger before anything behind it is durable: both go into
//!    one transaction, the ledger first.
//! 2. Nothing is given up that a former owner has sent and that may still come in.
//! 3. A loss that is not the one that was accepted stops the partition again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::warn;
use twinlog_mirror::OnSourceGap;
use twinlog_offsets::state::{Accepted, Gap, StateRecord};
use twinlog_types::{Code, SourceOffset};

use crate::cell::Cell;
use crate::flow::Flow;
use crate::late;

/// Goes on behind the stop that was accepted. Answers what was done, nothing as long as the partition
/// has not come to that stop (a start takes a moment), or why nothing is done.
pub(crate) async fn go_on(
    flow: &Arc<Flow>,
    cell: &Arc<Cell>,
    accepted: &Accepted,
) -> Result<Option<String>, String> {
    let (stop, copied_to) = {
        let copier = cell.copier.lock();
        (copier.stopped().cloned(), copier.map().copied_to())
    };
    let Some(stop) = stop else {
        return if copied_to <= accepted.copied_to {
            Ok(None)
        } else {
            // An owner that died before it could answer, or the policy of the flow.
            Ok(Some(format!("has gone on already, and is at {copied_to}")))
        };
    };
    if stop.code != accepted.code || copied_to != accepted.copied_to {
        return Err(format!(
            "void: it has stopped at {copied_to} with {}, and what was accepted is {} at {}",
            stop.code, accepted.code, accepted.copied_to
        ));
    }
    if cell.source_id != accepted.source_topic && !accepted.source_topic.is_none() {
        return Err("void: the topic was made again since".to_owned());
    }
    if late::former_due(flow, cell).is_some() {
        // It is not certain yet that the records are lost.
        return Ok(None);
    }
    behind(flow, cell).await.map(Some)
}

/// A partition has stopped at a gap of the source: goes on where the flow's policy says so.
pub(crate) fn by_policy(flow: &Arc<Flow>, cell: &Arc<Cell>) {
    let is_gap = cell.copier.lock().stopped().is_some_and(|stop| stop.code == Code::SourceGap);
    if !is_gap || flow.config.on_source_gap() != Ok(OnSourceGap::Continue) {
        return;
    }
    let (flow, cell) = (flow.clone(), cell.clone());
    flow.clone().spawn(async move {
        if let Err(reason) = behind(&flow, &cell).await {
            // It stays stopped, and the next look at the topics tries again.
            warn!(flow = %flow.name, partition = %cell.source, "{reason}");
        }
    });
}

/// Goes on with the earliest record that the source has.
async fn behind(flow: &Arc<Flow>, cell: &Arc<Cell>) -> Result<String, String> {
    let start = flow
        .log_start(&flow.source, &cell.source)
        .await
        .map_err(|error| format!("the source's log start could not be read: {error}"))?;
    let gone_on = cell.copier.lock().go_on_behind(SourceOffset(start));
    let Some((from, to)) = gone_on else {
        return Err("only a gap of the source can be gone on behind: see the reason of the stop \
                    for what this one needs"
            .to_owned());
    };
    let gap = Gap { from, to, found_ms: flow.now_ms(), why: Code::SourceGap };
    let text = format!(
        "goes on at {to}; offsets {from} to {} ({}) are lost, and in the ledger",
        to.0 - 1,
        to.since(from)
    );
    warn!(flow = %flow.name, partition = %cell.source, code = %Code::SourceGap, "{text}");
    flow.event(cell, Code::SourceGap, format!("{}: {text}", cell.source));
    {
        let mut lost = cell.lost.lock();
        lost.retain(|(known, _)| *known != from);
        lost.push((from, to));
    }
    flow.notes.leave(cell.shard, &StateRecord::gap(cell.key.clone(), gap));
    cell.stopped_ms.store(0, Ordering::Release);
    flow.board.goes_on(&flow.name, &cell.source);
    flow.dirty(cell.shard).urgent();
    flow.moved(cell);
    Ok(text)
}
