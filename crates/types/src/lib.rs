//! The names of things: topics, partitions, offsets of two logs, states and finding codes.
//!
//! Does not: read bytes, talk to anything, decide anything.
//!
//! # Invariants
//!
//! 1. An offset knows which log it belongs to: [`SourceOffset`] and [`TargetOffset`] never mix.
//! 2. Every finding code and every state that an operator can meet is listed here, once.
//! 3. A [`Secret`] never prints its content.

mod code;
mod config;
mod names;
mod offset;
mod planted;
mod producer;
mod secret;
mod translation;

pub use code::{Code, Severity, State};
pub use config::{ConfigChange, ConfigEntry};
pub use names::{
    BrokerId, ClusterAlias, ClusterId, FlowName, GroupId, Partition, TopicId, TopicName,
    TopicPartition, is_obeyed,
};
pub use offset::{LeaderEpoch, SourceOffset, TargetOffset};
pub use planted::*;
pub use producer::{Cut, ProducerEpoch, ProducerId, Sequence};
pub use secret::Secret;
pub use translation::Translation;
