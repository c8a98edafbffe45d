//! Waiting for packets of ours that may be late.
//!
//! What a lost connection, or a former owner, had sent may come in behind a look that did not find it. A
//! leader that remembers our producer refuses it then; one that has forgotten it appends it a second
//! time. Leaders forget producers by the age of their records. So for as long as a packet may be late
//! only young batches are sent, and after that the tail is looked at once more.
//!
//! What a former owner had sent and what this one plans have the same sequences. They are the same
//! records, unless the source's cleaner or its retention removed some in between. A leader answers the
//! second one as if it had stored it. So where records of the source may be removed behind what was
//! copied, nothing is sent, and no gap is gone on behind, before the former owner's packets have come.
//!
//! Does not: know when connections are lost ([`Copier::strays`](twinlog_flow::copy::Copier::strays)).
//!
//! # Invariants
//!
//! 1. While packets may be late no batch is sent whose records are older than [`REMEMBERED_MS`]: the
//!    leader remembers whatever was sent until they have come.
//! 2. The wait begins with a look that succeeded, not with the loss: what holds packets back (a broker
//!    that stood still, followers that do not follow) holds up the look as well.
//! 3. Only a look that began behind the wait ends it.
//! 4. Of a topic that the source's cleaner works on nothing is planned, let alone sent, while a former
//!    owner's packets may be late: what the first look found is dropped.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use crate::cell::Cell;
use crate::flow::Flow;
use crate::tenure::Before;

/// No packet comes in later than this behind the look after its connection was lost.
pub(crate) const LATE: Duration = Duration::from_secs(10);
/// A leader remembers a producer whose last record is younger than this: brokers keep them for a day
/// (`producer.id.expiration.ms`), by the age of their records.
const REMEMBERED_MS: i64 = 3_600_000;

/// What of a partition may still be on its way.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// So many of the copier's strays have come, or never come.
    over: u64,
    /// The strays that are being waited for, and until when.
    waiting: Option<(u64, Instant)>,
}

impl Late {
    /// The wait for `strays`, unless they have come by a look that `began` then. Answers also whether
    /// it is a new one.
    fn wait_for(&mut self, strays: u64, began: Instant, from: Instant) -> Option<(Instant, bool)> {
        match self.waiting {
            _ if strays == self.over => None,
            Some((about, until)) if about == strays && began >= until => {
                self.over = strays;
                self.waiting = None;
                None
            }
            Some((about, until)) if about == strays => Some((until, false)),
            _ => {
                let until = from + LATE;
                self.waiting = Some((strays, until));
                Some((until, true))
            }
        }
    }
}

/// Says what may be sent behind a look that `began` then and succeeded. To be called before the copier
/// hears of the look; it must not hear of it where an instant is answered, but of one that begins then.
#[must_use]
pub(crate) fn judge(flow: &Arc<Flow>, cell: &Arc<Cell>, began: Instant) -> Option<Instant> {
    let mut copier = cell.copier.lock();
    let mut late = cell.late.lock();
    let now = Instant::now();
    let from = match flow.tenure.before() {
        Before::SendsUntil(until) if cell.restored => now.max(until),
        Before::SendsUntil(_) => now,
        Before::Answered => {
            late.over = late.over.max(u64::from(cell.restored));
            now
        }
    };
    let Some((until, new)) = late.wait_for(copier.strays(), began, from) else {
        copier.send_only_since(None);
        return None;
    };
    if cell.restored && late.over == 0 && flow.cleaned.lock().contains(&cell.source.topic) {
        debug!(
            flow = %flow.name, partition = %cell.target,
            "a former owner may have sent what the source's cleaner has removed since: it is waited for"
        );
        return Some(until);
    }
    copier.send_only_since(Some(flow.now_ms() - REMEMBERED_MS));
    if new {
        debug!(
            flow = %flow.name, partition = %cell.target,
            "what was sent may come in late: records older than an hour wait for it"
        );
        flow.spawn(look_again(flow.clone(), cell.clone(), until));
    }
    None
}

/// When a stopped partition must be looked at once more, for what a former owner may have sent; nothing
/// where that has been done.
pub(crate) fn former_due(flow: &Flow, cell: &Cell) -> Option<Instant> {
    let late = cell.late.lock();
    let former = cell.restored && late.over == 0 && flow.tenure.before() != Before::Answered;
    late.waiting.filter(|_| former).map(|(_, until)| until)
}

/// Whether everything that was ever sent to a partition was answered, or has had the time to come in: then
/// whoever comes next need not wait.
pub(crate) fn is_over(cell: &Cell, before: Before) -> bool {
    let copier = cell.copier.lock();
    let came = match before {
        Before::Answered => true,
        // A partition that is stopped is not looked at.
        Before::SendsUntil(until) => copier.stopped().is_some() && Instant::now() >= until + LATE,
    };
    let over = cell.late.lock().over.max(u64::from(came && cell.restored));
    !copier.answers_due() && copier.strays() == over
}

async fn look_again(flow: Arc<Flow>, cell: Arc<Cell>, until: Instant) {
    let ending = flow.ending();
    tokio::select! {
        biased;
        () = ending.ended() => return,
        () = tokio::time::sleep_until(until) => {}
    }
    let waits = cell.late.lock().waiting.is_some_and(|(_, due)| due == until);
    if waits {
        cell.copier.lock().look_first();
        flow.moved(&cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_a_look_that_began_behind_it_and_begins_anew_with_each_loss() {
        let mut late = Late::default();
        let now = Instant::now();
        assert_eq!(late.wait_for(0, now, now), None, "nothing was lost");
        assert_eq!(late.wait_for(1, now, now), Some((now + LATE, true)));
        let sooner = now + LATE / 2;
        assert_eq!(late.wait_for(1, sooner, sooner), Some((now + LATE, false)));
        assert_eq!(late.wait_for(2, sooner, sooner), Some((sooner + LATE, true)));
        assert_eq!(late.wait_for(2, now + LATE, now + LATE), Some((sooner + LATE, false)));
        assert_eq!(late.wait_for(2, sooner + LATE, sooner + LATE), None);
        assert_eq!(late.wait_for(2, sooner, sooner), None, "it is over");
    }
}
