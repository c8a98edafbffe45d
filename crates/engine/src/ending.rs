//! How a flow ends: first nothing new is read, then what was read is settled, then the state is
//! written for the last time.

use tokio::sync::watch;

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// The flow runs.
    Running,
    /// Nothing is fetched any more; what was fetched is sent and acknowledged.
    Draining,
    /// What could be acknowledged is; the state is written.
    Drained,
}

/// A task's view of the end.
#[derive(Clone, Debug)]
pub(crate) struct Ending(pub(crate) watch::Receiver<Stage>);

impl Ending {
    /// Resolves once nothing new is to be begun.
    pub(crate) async fn ended(&mut self) {
        self.reached(Stage::Draining).await;
    }

    /// Resolves once everything but the state is settled.
    pub(crate) async fn drained_signal(&mut self) {
        self.reached(Stage::Drained).await;
    }

    async fn reached(&mut self, stage: Stage) {
        // The sender is gone when the flow was dropped: that is an end, too.
        let _ = self.0.wait_for(|now| *now >= stage).await;
    }

    pub(crate) fn is_ended(&self) -> bool {
        *self.0.borrow() >= Stage::Draining
    }

    pub(crate) fn drained(&self) -> bool {
        *self.0.borrow() >= Stage::Drained
    }
}
