//! Replication as state machines: copying a partition, following topics and groups, writing MM2's
//! records.
//!
//! Each machine is told what was seen and answers what to do; whoever runs it does that on real
//! clusters and tells it how it went.
//!
//! Does not: reach a socket, a clock or a random source. Callers pass `now_ms`, and wake a machine
//! when it says so.
//!
//! | module | what it decides |
//! |---|---|
//! | [`copy`] | what is fetched, sent and stored of one partition |
//! | [`topics`] | which topics are mirrored, created, grown and reconfigured |
//! | [`groups`] | what is committed for a consumer group on the target |
//! | [`checkpoints`], [`syncs`], [`heartbeats`] | which records of MM2's formats are written |
//! | [`rebuild`] | which record became which, by contents, where somebody else copied |
//! | [`health`] | how a copied partition stands |
//!
//! # Invariants
//!
//! 1. Whatever is not done has a [`Standing`] that says why.
//! 2. The same inputs give the same answers.

pub mod checkpoints;
pub mod copy;
pub mod groups;
pub mod health;
pub mod heartbeats;
pub mod rebuild;
mod standing;
pub mod syncs;
#[cfg(test)]
mod testing;
pub mod topics;

pub use standing::Standing;
