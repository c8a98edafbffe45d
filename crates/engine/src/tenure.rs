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
//! 2. The end of a tenure bounds when the owner before sent its last: what of that is late is waited
//!    for ([`late`](crate::late)).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::flow::Flow;
use crate::ownership::{LEASE_EXPIRY, QUESTION_INTERVAL};

/// Shorter than the silence that others wait for, by one of their questions.
const TENURE: Duration = LEASE_EXPIRY.saturating_sub(QUESTION_INTERVAL);

/// What the owner before has left on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// It ended in order, and everything that it had sent was answered.
    Answered,
    /// It may have sent until then.
    SendsUntil(Instant),
}

/// When the state last accepted that this process owns the flow.
#[derive(Debug)]
pub(crate) struct Tenure {
    renewed: Mutex<Instant>,
    notify: Notify,
    before: Before,
}

impl Tenure {
    /// The tenure of an owner whose first lease was written from `renewed` on.
    pub(crate) fn new(renewed: Instant, before: Before) -> Self {
        Self { renewed: Mutex::new(renewed), notify: Notify::new(), before }
    }

    /// What the owner before has left on its way.
    pub(crate) fn before(&self) -> Before {
        self.before
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
}

/// Says when the lease could not be renewed in time, and when it is.
pub(crate) async fn watch(flow: Arc<Flow>) {
    let ending = flow.ending();
    tokio::select! {
        biased;
        () = ending.ended() => {}
        () = say(&flow) => {}
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
