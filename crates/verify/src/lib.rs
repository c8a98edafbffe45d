//! Proves by contents that a mirror is what its source is, and that groups stand on the target where
//! they stand on the source.
//!
//! [`verify`] looks at a flow and answers a [`FlowReport`]: every partition in scope compared record
//! by record (a sample, or everything), every group's position proven by the records around it, and
//! what a failover now would lose. It works on twinlog's mirrors, whose durable offset map says
//! where to look, and on MM2's, where contents alone decide. [`compare`] is the comparison itself,
//! and knows no cluster.
//!
//! [`rehearse`] reads on from a group's position on the target by way of a scratch group.
//!
//! Does not: change anything on either cluster (but for that scratch group), keep anything on disk,
//! print, show the contents of a record.
//!
//! # Invariants
//!
//! 1. Nothing is called equal that was not compared; what could not be found out is said.
//! 2. Memory does not depend on how much is compared, nor on how large records are.
//! 3. The target's ends are read before the source's, and its commits before the source's: what is
//!    carried over in between looks late, never wrong.
//!
//! # References
//!
//! KIP-382; MM2's `MirrorSourceTask` (what is copied) and `OffsetSyncStore` (its pairs of offsets);
//! KIP-98 (aborted transactions); Kafka's `LogCleaner` (which records compaction removes).

pub mod compare;
mod flow;
mod groups;
mod map;
mod partition;
mod positions;
mod print;
mod read;
pub mod rehearse;
mod resume;

pub use flow::{FlowReport, Request, Rpo, Side, Verdict, verify};
pub use groups::{GroupReport, GroupResult};
pub use partition::{How, PartitionReport, Waiting};
pub use print::{Entry, Marks, SequenceHash};
pub use resume::{Progress, Saved};
