//! The exact offset map between a source and a target partition, and its durable form.
//!
//! A partition is copied in *runs*: stretches of records without a hole between them, on either
//! side. [`OffsetMap`] keeps where each run starts, how many records are acknowledged, and how far
//! the copy has looked, and from that answers where a consumer of one side goes on reading on the
//! other. What lies far back is sealed in [`Block`]s that the memory need not hold; what somebody
//! else copied before is [`Inherited`], as far as contents proved it. [`state`] is how maps,
//! positions, gaps and leases are written to the compacted topic
//! `mm2-twinlog.<source>.internal`.
//!
//! Does not: fetch, produce, keep time, decide when something is durable, or read MM2's
//! offset-syncs.
//!
//! # Invariants
//!
//! 1. No answer is ahead of the truth: no copied record at or above a source position lies below
//!    its translation, except records the target has deleted, which are counted in the answer.
//! 2. Planned records (not yet acknowledged by the target) never make up an answer.
//! 3. Runs are never merged into something inexact; where nothing is known, or a sealed block is
//!    not lent, the answer says so and is a lower bound.
//! 4. Decoders are total: any bytes give a value or a [`StateError`], and allocate no more than a
//!    small multiple of their length.
//!
//! # References
//!
//! MM2's `OffsetSyncStore` answers the same question from sampled pairs; KAFKA-12468 and
//! KAFKA-14666 are what sampling costs. KIP-101 and KIP-320 for what truncates a target.

mod block;
mod coding;
mod durable;
mod error;
mod inherited;
mod map;
#[cfg(test)]
mod proof;
mod segment;
pub mod state;
mod translate;

pub use block::{Block, RUNS_PER_BLOCK, SEGMENTS_PER_BLOCK};
pub use durable::{Changes, Durable};
pub use error::{Malformed, StateError};
pub use inherited::{Inherited, Stretch, StretchBuilder, UnknownRange};
pub use map::{OffsetMap, SealedBlock};
pub use segment::{RUNS_PER_SEGMENT, RunStart};
pub use translate::View;
