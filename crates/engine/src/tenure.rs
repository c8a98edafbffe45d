//! For how long an owner may send without having asked who owns the flow.
//!
//! Who stands by takes over from an owner of whom it has heard nothing for [`LEASE_EXPIRY`]. By then
//! that owner must have stopped by itself: it may have been stopped (SIGSTOP) or cut off and go on,
//! and batches of data are fenced only while their leader remembers their producer.
//!
//! Does not: decide who owns the flow; see [`ownership`](crate::ownership).
//!
//! # Invariants
//!
//! 1. Nothing is sent to a mirror later than [`TENURE`] after the last accepted renewal *began*; what
//!    is unanswered then is given up together with its connection.
//! 2. An owner that did not find the flow given up, and heard no silence, sends nothing to a
//!    partition whose leader may have no memory of the producer until the owner before has come to
//!    the end of its own tenure.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cell::Cell;
use crate::flow::Flow;
use crate::ownership::{LEASE_EXPIRY, QUESTION_INTERVAL};

/// Shorter than the silence that others wait for, by one of their questions.
const TENURE: Duration = LEASE_EXPIRY.saturating_sub(QUESTION_INTERVAL);
/// A leader remembers a producer whose last record is younger than this: brokers keep them for a day
/// (`producer.id.expiration.ms`), by the age of their records.
const REMEMBERED_MS: i64 = 3_600_000;

/// When the state last accepted that this process owns the flow.
#[derive(Debug)]
pub(crate) struct Tenure {
    renewed: Mutex<Instant>,
    notify: Notify,
    /// Until then the owner before may be sending.
    shared_until: Option<Instant>,
}

impl Tenure {
    /// The tenure of an owner whose first lease was written from `renewed` on.
    pub(crate) fn new(renewed: Instant, shared_until: Option<Instant>) -> Self {
        Self { renewed: Mutex::new(renewed), notify: Notify::new(), shared_until }
    }

    /// A lease whose writing began then was accepted.
    pub(crate) fn renew(&self, began: Instant) {
        *self.renewed.lock() = began;
        self.notify.notify_waiters();
    }

    fn end(&self) -> Instant {
        *self.renewed.lock() + TENURE
    }

    /// Whether this process may send.
    pub(crate) fn holds(&self) -> bool {
        Instant::now() < self.end()
    }

    /// Resolves once it does not hold.
    pub(crate) async fn over(&self) {
        while self.holds() {
            tokio::time::sleep_until(self.end()).await;
        }
    }

    /// Resolves once it holds.
    pub(crate) async fn held(&self) {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.holds() {
                return;
            }
            notified.await;
        }
    }

    /// Keeps a partition that a former owner copied from being sent to while that one may still be
    /// sending and the leader, which remembers our producer by records of this age, may not tell.
    pub(crate) fn hold_back(&self, cell: &Cell, remembered_ms: Option<i64>, now_ms: i64) {
        let remembered = remembered_ms.is_some_and(|age| now_ms - age < REMEMBERED_MS);
        if cell.restored && !remembered && self.is_shared() {
            cell.held_back.store(true, Ordering::Release);
            if !self.is_shared() {
                cell.held_back.store(false, Ordering::Release);
            }
        }
    }

    fn is_shared(&self) -> bool {
        self.shared_until.is_some_and(|until| Instant::now() < until)
    }
}

/// Says when the lease could not be renewed in time, and when it is; lets partitions go that were held
/// back, with a new look at what came in late.
pub(crate) async fn watch(flow: Arc<Flow>) {
    let ending = flow.ending();
    let watching = async {
        if let Some(until) = flow.tenure.shared_until {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => {}
                () = say(&flow) => {}
            }
            for cell in flow.cells.all() {
                if cell.held_back.swap(false, Ordering::AcqRel) {
                    cell.copier.lock().look_first();
                    flow.moved(&cell);
                }
            }
        }
        say(&flow).await;
    };
    tokio::select! {
        biased;
        () = ending.ended() => {}
        () = watching => {}
    }
}

async fn say(flow: &Flow) {
    loop {
        flow.tenure.over().await;
        let reason = format!(
            "the lease on this flow could not be renewed for {} s, so that another process may take it over: nothing is sent until a write of the state is accepted",
            TENURE.as_secs()
        );
        flow.board.pause(&flow.name, &reason);
        flow.tenure.held().await;
        flow.board.go_on(&flow.name, &reason);
    }
}
