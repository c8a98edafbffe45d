//! Runs flows on real clients: tasks, limits, durable state, orderly ends.
//!
//! [`Engine`] mirrors every enabled flow of a configuration until it is told to stop.
//! [`observe`] tells from outside how a mirror stands, with nothing but the clusters.
//!
//! Does not: decide (that is `twinlog-flow`), speak the protocol (`twinlog-client`), read files or
//! print. It owns time, the seed of all jitter, and memory.
//!
//! # Invariants
//!
//! 1. The state is read only after its transactional ids were initialised: an older owner is
//!    fenced by then.
//! 2. A lock is held for the length of one step of a state machine, never across an await.
//! 3. Fetched bytes are counted against the budget until the last batch of their answer is
//!    acknowledged or given up.
//! 4. Nothing is retried without back-off, nor without saying so on the [`Board`].
//!
//! # References
//!
//! KIP-98, KIP-447 (fencing by transactional ids), KIP-227 (fetch sessions).

mod backoff;
mod beats;
mod blocks;
mod board;
mod cell;
mod clusters;
mod commits;
mod decisions;
mod ending;
mod engine;
mod factors;
mod fetch;
mod flow;
mod generations;
mod groups;
mod internal;
mod lane;
mod late;
mod look;
mod losses;
mod notes;
pub mod observe;
mod options;
mod original;
mod ownership;
mod parallel;
mod report;
mod sightings;
mod state;
mod supervise;
mod syncs;
mod takeover;
mod tenure;
mod topics;

pub use board::{Board, Event, FlowBoard, FlowStanding};
pub use clusters::{cluster, cluster_options};
pub use commits::Followed;
pub use decisions::{Decisions, topic_name as decisions_topic_name};
pub use engine::{Engine, EngineReport};
pub use factors::{Purpose, Unmeetable};
pub use options::{Claims, Clock, EngineOptions, Existing, named_file};
pub use parallel::in_parallel;
pub use state::{Elsewhere, PartitionState, Stored, topic_name as state_topic_name};
