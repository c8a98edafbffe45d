//! One Kafka cluster: metadata, routing, fetch sessions, produce, groups and admin.
//!
//! [`Cluster`] is the entrance. It knows which broker leads or coordinates what, asks again when
//! an answer says that it was wrong, and gives up at a deadline. Bulk data takes connections of its
//! own: [`FetchSession`] and [`ProduceLane`], which move record batches as bytes. [`LeaderView`]
//! looks at the end of a log in a way that cannot mistake a stale replica for the leader;
//! [`Transactional`] writes under a transactional id and notices when it lost it.
//!
//! Does not: know replication, keep anything on disk, decode records (except where a method
//! answers them), or create topics by asking for them. Offsets are plain `i64`: which log they
//! belong to is the caller's business.
//!
//! # Invariants
//!
//! 1. What may have taken effect is never called a refusal, and nothing whose repetition does harm
//!    is repeated: see [`ClientError::is_unclear`].
//! 2. Control requests never share a connection with data, which a quota may mute for seconds.
//! 3. One seed gives one trace: no hash map order, no clock but tokio's, no foreign randomness.
//!
//! Brokers of Kafka 3.3 and newer; versions are negotiated per connection.

mod about;
mod admin;
mod backoff;
mod cluster;
mod connections;
mod error;
mod fetch;
mod groups;
mod join;
mod leader;
mod metadata;
mod offsets;
mod positions;
mod produce;
mod read;
mod rights;
mod share;
mod transaction;

pub use about::BrokerOffer;
pub use admin::{NewTopic, Refusal};
pub use cluster::{Cluster, ClusterOptions};
pub use error::ClientError;
pub use fetch::{
    AbortedTransaction, FetchAnswer, FetchOptions, FetchPartition, FetchSession, FetchedPartition,
    Isolation,
};
pub use groups::{CommittedOffset, GroupDescription, GroupKind, GroupListing, GroupMember};
pub use leader::{LeaderView, ProducerState};
pub use metadata::{BrokerInfo, Leader, PartitionInfo, TopicInfo, Topics};
pub use offsets::{ListedOffset, OffsetSpec};
pub use positions::Positions;
pub use produce::{ProduceAnswer, ProduceLane, ProducePartition, ProducedPartition};
pub use read::{PartitionReader, READ_BATCH_BYTES_MAX, ReadBatch, Stretch};
pub use rights::TopicRights;
pub use transaction::Transactional;
/// Records as reading gives them.
pub use twinlog_batch::{Header, Record};
/// The codes of answers, and what to do about each.
pub use twinlog_protocol::{ErrorCode, Remedy};
/// How connections are made.
pub use twinlog_wire::{Dial, Options as WireOptions, Stream as WireStream, TcpDial};
