//! The last copied record and its original: what a new owner asks the source before it reads on.

use twinlog_types::{LeaderEpoch, SourceOffset};

use super::{Copier, Phase};

impl Copier {
    /// The last copied record, by its place on the source, while it is to be compared with its
    /// original: after a restart, and where the source's leader epoch of it is not known. Nothing is
    /// fetched before [`Copier::original_read`] or [`Copier::original_beyond`] answers.
    pub fn wants_original(&self) -> Option<SourceOffset> {
        let asked = self.unproven && self.phase == Phase::Copy;
        asked.then(|| self.map.source_of(self.map.acknowledged().checked_sub(1)?)).flatten()
    }

    /// The record at `offset`, as asked for, was written under this leader epoch of the source; -1
    /// where nobody can tell, because retention or the cleaner took its batch.
    pub fn original_read(&mut self, offset: SourceOffset, epoch: LeaderEpoch) {
        if self.wants_original() != Some(offset) {
            return;
        }
        self.unproven = false;
        // What was read behind it, markers say, has an epoch of its own.
        if self.fetch_epoch < 0 && self.fetch_position == offset.plus(1) {
            self.fetch_epoch = epoch;
            self.acknowledged_epoch = epoch;
        }
    }

    /// The source's log ends at `log_end`, in front of the record at `offset`: what was copied is lost
    /// there.
    pub fn original_beyond(&mut self, offset: SourceOffset, log_end: SourceOffset) {
        if self.wants_original() == Some(offset) {
            self.unproven = false;
            self.source_out_of_range(self.fetch_position, SourceOffset(0), log_end);
        }
    }
}
