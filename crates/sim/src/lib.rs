//! Seeded simulation of the engine between two embedded clusters.
//!
//! One seed draws two clusters, a swarm of faults and a history of writers, consumer groups and
//! instances of the engine; everything runs on one thread and a paused clock, so that one seed gives
//! one trace. While the faults last, and again when they are over, the [checkers](checks) compare
//! what is on the target with what the [oracle] knows was written.
//!
//! Does not: test real brokers, sockets or disks; what is found here holds against our model of
//! Kafka.
//!
//! # Invariants
//!
//! 1. The oracle and the checkers share no code with the product.
//! 2. Every checker is seen to fail: for each defect of `twinlog_types::Planted` a test switches it
//!    on and expects the report of one checker.
//! 3. A run in which too little happened is a failed run.

mod campaign;
pub mod checks;
mod counts;
mod faults;
mod heal;
mod instances;
mod look;
pub mod network;
pub mod oracle;
mod random;
pub mod requests;
mod run;
pub mod scenes;
pub mod tamper;
mod trace;
mod traffic;
mod world;

pub use campaign::{Summary, campaign, replay, run_safely};
pub use counts::Counts;
pub use faults::Kind;
pub use random::Random;
pub use run::{Outcome, Plan, Simulation, run};
pub use world::{Instance, World, mirror};
