//! What of the partition's state must be written, and what is allowed once it is.

use twinlog_offsets::Changes;
use twinlog_offsets::state::Position;
use twinlog_types::{Planted, SourceOffset, planted};

use super::{Copier, Phase};

/// What the durable state said, as of one write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    count: u64,
    copied_to: SourceOffset,
    runs: usize,
}

/// One write of a partition's state: all of it goes into one transaction.
#[derive(Clone, Debug)]
pub struct StateWrite {
    /// The position; `written_ms` is the writer's to fill in.
    pub position: Position,
    /// What changed of the map.
    pub map: Changes,
}

impl Copier {
    /// Whether something waits for the state to be written: a batch behind a hole, or a first
    /// write.
    pub fn store_urgently(&self) -> bool {
        self.storing.is_none()
            && self.phase == Phase::Copy
            && (self.must_store
                || self
                    .pending
                    .get(self.sent)
                    .is_some_and(|pending| pending.runs_needed > self.durable.runs()))
    }

    /// Whether the durable state is behind.
    pub fn store_wanted(&self) -> bool {
        let now = self.now();
        self.known
            && !self.recovering
            && self.storing.is_none()
            && (self.must_store || self.stored != Some(now) || self.durable.runs() < now.runs)
    }

    /// Whether the durable state says all that is known. What is not known is not missing there.
    pub fn is_stored(&self) -> bool {
        let unknown = !self.known || self.recovering;
        unknown || (self.storing.is_none() && !self.store_wanted())
    }

    /// What to write; `None` when a write is under way, nothing changed, or a look must come first.
    pub fn take_state(&mut self) -> Option<StateWrite> {
        if !self.store_wanted() {
            return None;
        }
        let now = self.now();
        self.outdated = false;
        let position = Position {
            source_topic: self.setup.source_topic.clone(),
            target_topic: self.setup.target_topic.clone(),
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            start: self.map.start(),
            origin: self.map.origin().unwrap_or(self.origin),
            count: now.count,
            copied_to: now.copied_to,
            target_end: self.map.target_end(),
            runs: now.runs as u32,
            source_epoch: self.acknowledged_epoch,
            target_epochs: vec![(self.target_epoch, self.map.target_end())],
            written_ms: 0,
        };
        let changes = if self.former.is_empty() {
            self.durable.changes(&self.map)
        } else {
            self.durable.changes(&self.whole_plan())
        };
        self.durable.writing(&changes);
        self.storing = Some((now, changes.clone()));
        Some(StateWrite { position, map: changes })
    }

    /// The write that [`Copier::take_state`] gave is durable.
    pub fn state_stored(&mut self) {
        if let Some((stored, changes)) = self.storing.take() {
            self.stored = Some(stored);
            // A cut or a shift in the meantime took some of it back.
            self.durable.stored(&changes, !self.outdated);
            changes.blocks.iter().for_each(|block| self.map.seal(block));
            if !self.outdated {
                self.must_store = false;
            }
        }
    }

    /// The write failed, or it is unclear whether it happened: it is taken again.
    pub fn state_not_stored(&mut self) {
        self.storing = None;
    }

    fn now(&self) -> Stored {
        if planted(Planted::StoresTooEarly) {
            let runs = self.map.runs() + self.former.len();
            return Stored { count: self.planned_count, copied_to: self.fetch_position, runs };
        }
        Stored {
            count: self.map.acknowledged(),
            copied_to: self.map.copied_to(),
            runs: self.map.runs() + self.former.len(),
        }
    }
}
