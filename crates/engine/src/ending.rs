//! How a flow ends: first nothing new is read, then what was read is settled, then the state is
//! written for the last time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Stage {
    /// It runs.
    Running,
    /// Nothing new is begun; what was fetched is sent and acknowledged.
    Draining,
    /// What could be acknowledged is; the state is written.
    Drained,
}

/// A shared view of the end. All waiters are woken in the order in which they came, so that one
/// seed gives one trace (a watch channel wakes them in random order).
#[derive(Clone, Debug)]
pub(crate) struct Ending(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stage: AtomicU8,
    notify: Notify,
}

impl Ending {
    /// Something that runs.
    pub(crate) fn running() -> Self {
        let stage = AtomicU8::new(Stage::Running as u8);
        Self(Arc::new(Shared { stage, notify: Notify::new() }))
    }

    /// The end has come this far. It never goes back.
    pub(crate) fn enter(&self, stage: Stage) {
        self.0.stage.fetch_max(stage as u8, Ordering::AcqRel);
        self.0.notify.notify_waiters();
    }

    /// Resolves once nothing new is to be begun.
    pub(crate) async fn ended(&self) {
        self.reached(Stage::Draining).await;
    }

    /// Resolves once everything but the state is settled.
    pub(crate) async fn drained_signal(&self) {
        self.reached(Stage::Drained).await;
    }

    async fn reached(&self, stage: Stage) {
        loop {
            let notified = self.0.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.is(stage) {
                return;
            }
            notified.await;
        }
    }

    fn is(&self, stage: Stage) -> bool {
        self.0.stage.load(Ordering::Acquire) >= stage as u8
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is(Stage::Draining)
    }

    pub(crate) fn drained(&self) -> bool {
        self.is(Stage::Drained)
    }
}
