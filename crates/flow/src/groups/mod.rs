//! Follows consumer groups: what may be committed for them on the target, and how they stand.
//!
//! Does not: read or write offsets, describe groups, translate. The caller reads the source's
//! commit, the target's commit and the target group's state, asks the offset map for the
//! translation, does what [`GroupTracker::observe`] answers and reports how that went.
//!
//! # Invariants
//!
//! 1. What the target's own consumers (or an operator) have reached is never taken back by itself. A
//!    commit goes backward only to follow a source group that was moved back, and only while the
//!    target stands where the journal shows that we put it; or when an operator says so.
//! 2. Nothing beyond the copied end is written, and nothing that is not known.
//! 3. A group that is not known to be without members is not written to.
//! 4. A single reading never makes a rewind: the first answers of a group coordinator that just
//!    took over can be older than commits it has acknowledged.
//! 5. A position that was not written has a code and a reason.
//! 6. What moves a position is in the journal before it is sent. After a crash in between the target
//!    stands at the old or the new value, and both are explained; a lost journal only makes groups
//!    stay where they are.
//! 7. A share group's position is where its unread records begin: it is never renewed, since that
//!    would forget what members of the target acknowledged behind it.
//!
//! # What no reading can tell
//!
//! Kafka has no commit that is conditional on the position it replaces: consumers of the target that
//! join, commit and leave between the last reading and our commit are overwritten. The reading comes
//! right before the commit. A position that is moved away and back between two readings was not moved,
//! as far as anybody can tell.
//!
//! # References
//!
//! MM2: `MirrorCheckpointTask.syncGroupOffset`, `MirrorCheckpointConnector.findConsumerGroups`.
//! Unlike MM2, a group whose state could not be read is not committed to.

mod decide;
mod pace;
mod selection;
mod source;
#[cfg(test)]
mod tests;
mod tracker;

pub use decide::{Decision, GroupAction, History, Reading, Rules, TargetGroup, decide};
pub use pace::Pace;
pub use selection::{GroupSelection, is_written_back, select};
pub use source::{Asked, Outcome, Polled, SourceCommit, SourceCommits};
pub use tracker::{GroupStanding, GroupTracker, Overwritten, PartitionPosition};
