//! Follows consumer groups: what may be committed for them on the target, and how they stand.
//!
//! Does not: read or write offsets, describe groups, translate. The caller reads the source's
//! commit, the target's commit and the target group's state, asks the offset map for the
//! translation, does what [`GroupTracker::observe`] answers and reports how that went.
//!
//! # Invariants
//!
//! 1. A commit on the target only ever goes forward: what the target's own consumers (or an
//!    operator) have reached is never taken back.
//! 2. Nothing beyond the copied end is written, and nothing that is not known.
//! 3. A group that is not known to be without members is not written to.
//! 4. A single reading never makes a rewind: the first answers of a group coordinator that just
//!    took over can be older than commits it has acknowledged.
//! 5. A position that was not written has a code and a reason.
//!
//! # References
//!
//! MM2: `MirrorCheckpointTask.syncGroupOffset`, `MirrorCheckpointConnector.findConsumerGroups`.
//! Unlike MM2, a group whose state could not be read is not committed to.

mod decide;
mod selection;
#[cfg(test)]
mod tests;
mod tracker;

pub use decide::{Committed, Decision, GroupAction, History, Reading, Rules, TargetGroup, decide};
pub use selection::{GroupSelection, select};
pub use tracker::{GroupStanding, GroupTracker, PartitionPosition};
