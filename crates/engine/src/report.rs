//! Says how a flow comes along: on the board all the time, in the log when it changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::{info, warn};
use twinlog_flow::health::{PartitionHealth, Patience};
use twinlog_types::{Code, SourceOffset, State, TopicPartition};

use crate::cell::Cell;
use crate::flow::Flow;

const INTERVAL: Duration = Duration::from_secs(1);
const LOG_EVERY: u32 = 10;

/// Where the flow's partitions are, in sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sums {
    partitions: usize,
    stopped: usize,
    copied: u64,
    lag: u64,
    /// Partitions whose source has not answered yet.
    unheard: usize,
}

/// Reports until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>) {
    let ending = flow.ending();
    let mut logged = Sums::default();
    let mut round = 0;
    let mut healths: BTreeMap<TopicPartition, (PartitionHealth, Option<Code>)> = BTreeMap::new();
    loop {
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        round += 1;
        let sums = look(&flow, &mut healths);
        let known = flow.topics_known.load(Ordering::Acquire);
        let synced = known && sums.lag == 0 && sums.unheard == 0;
        let state = if synced { State::InSync } else { State::CatchingUp };
        flow.board.progress(&flow.name, state);
        if round % LOG_EVERY == 0 && sums != logged {
            info!(
                flow = %flow.name, partitions = sums.partitions, stopped = sums.stopped,
                copied = sums.copied, lag = sums.lag,
                sent_bytes = flow.counters.sent_bytes.load(Ordering::Relaxed), "copying"
            );
            logged = sums;
        }
    }
}

/// Looks at every partition; says of each what holds it, once.
fn look(
    flow: &Flow,
    healths: &mut BTreeMap<TopicPartition, (PartitionHealth, Option<Code>)>,
) -> Sums {
    let now_ms = flow.now_ms();
    let mut sums = Sums { partitions: flow.cells.len(), ..Sums::default() };
    for cell in flow.cells.all() {
        let log = *cell.source_log.lock();
        let (copied_to, count, stopped, strange) = {
            let copier = cell.copier.lock();
            let map = copier.map();
            let strange = (copier.foreign_records(), copier.doubled_records());
            (map.copied_to(), map.acknowledged(), copier.stopped().is_some(), strange)
        };
        strangers(flow, &cell, strange);
        sums.copied += count;
        if stopped {
            sums.stopped += 1;
            continue;
        }
        let Some(log) = log else {
            sums.unheard += 1;
            continue;
        };
        let (health, said) = healths
            .entry(cell.source.clone())
            .or_insert_with(|| (PartitionHealth::new(copied_to, now_ms), None));
        let (readable, watermark) = (log.readable_end, log.high_watermark);
        health.source_seen(SourceOffset(readable), SourceOffset(watermark), now_ms);
        health.copied(copied_to, now_ms);
        sums.lag += health.lag_records();
        let standing = health.standing(Patience::default(), now_ms);
        if standing.code != *said {
            *said = standing.code;
            if let (Some(code), Some(reason)) = (standing.code, standing.reason) {
                warn!(flow = %flow.name, partition = %cell.source, %code, "{reason}");
                flow.event(&cell, code, format!("{}: {reason}", cell.source));
            }
        }
    }
    sums
}

/// Records in the mirror that the copy did not put there, or put there twice, are named once.
fn strangers(flow: &Flow, cell: &Cell, (foreign, doubled): (u64, u64)) {
    if foreign > 0 && !cell.said_foreign.swap(true, Ordering::Relaxed) {
        let text = format!(
            "{} holds records that twinlog did not write ({foreign} so far): somebody else writes into the mirror; offsets stay exact, contents are no twin any more",
            cell.target
        );
        warn!(flow = %flow.name, partition = %cell.target, code = %Code::ForeignWriter, "{text}");
        flow.event(cell, Code::ForeignWriter, text);
    }
    if doubled > 0 && !cell.said_doubled.swap(true, Ordering::Relaxed) {
        let text = format!(
            "{} holds {doubled} records of the copy twice: a late packet arrived after the target had forgotten the producer",
            cell.target
        );
        warn!(flow = %flow.name, partition = %cell.target, code = %Code::DuplicatesOnTarget, "{text}");
        flow.event(cell, Code::DuplicatesOnTarget, text);
    }
}
