//! Says how a flow comes along: on the board all the time, in the log when it changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::info;
use twinlog_types::State;

use crate::flow::Flow;

const INTERVAL: Duration = Duration::from_secs(1);
const LOG_EVERY: u32 = 10;

/// Where the flow's partitions are, in sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) partitions: usize,
    pub(crate) stopped: usize,
    pub(crate) copied: u64,
    pub(crate) lag: u64,
    /// Partitions whose source has not answered yet.
    pub(crate) unheard: usize,
}

pub(crate) fn sums(flow: &Flow) -> Sums {
    let mut sums = Sums { partitions: flow.cells.len(), ..Sums::default() };
    for cell in flow.cells.all() {
        let readable_end = cell.source_log.lock().readable_end;
        let copier = cell.copier.lock();
        sums.copied += copier.map().acknowledged();
        if copier.stopped().is_some() {
            sums.stopped += 1;
        } else if readable_end < 0 {
            sums.unheard += 1;
        } else {
            sums.lag += (readable_end - copier.map().copied_to().0).max(0).unsigned_abs();
        }
    }
    sums
}

/// Reports until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>) {
    let mut ending = flow.ending();
    let mut logged = Sums::default();
    let mut round = 0;
    loop {
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        round += 1;
        let now = sums(&flow);
        let synced = now.lag == 0 && now.unheard == 0;
        let state = if synced { State::InSync } else { State::CatchingUp };
        flow.board.progress(&flow.name, state);
        if round % LOG_EVERY == 0 && now != logged {
            info!(
                flow = %flow.name, partitions = now.partitions, stopped = now.stopped,
                copied = now.copied, lag = now.lag,
                sent_bytes = flow.counters.sent_bytes.load(Ordering::Relaxed), "copying"
            );
            logged = now;
        }
    }
}
