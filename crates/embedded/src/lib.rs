//! An in-memory Kafka cluster that speaks the real protocol, with fault hooks.
//!
//! For `twinlog demo` and for tests: several brokers behind any byte stream, with replicas,
//! leader epochs, producer state, transactions, groups and incremental fetch sessions that answer
//! as Apache Kafka 4.3 and 3.9 were seen to answer. Under a paused tokio clock and a current-thread
//! runtime, one seed gives one trace.
//!
//! Does not: keep anything on disk, speak TLS or any SASL mechanism but PLAIN, convert message
//! formats 0 and 1, or serve share and streams groups beyond their existence.
//!
//! # Invariants
//!
//! 1. Batches are judged by this crate's own code, never by `twinlog-batch`: what one of the two
//!    gets wrong, the other one notices.
//! 2. Memory is bounded: logs by an option, unfinished requests of all connections together by
//!    100 MiB. Beyond that connections are not read.
//! 3. Nothing waits under the lock, and nothing that is random or timed comes from elsewhere than
//!    the seed and tokio's clock.
//! 4. Where Kafka lets a caller destroy data in silence (offset deltas with holes under a patched
//!    head, one partition twice in a Produce request), this cluster refuses and records a
//!    [violation](EmbeddedCluster::violations).
//!
//! # Example
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, Isolation, NewRecord};
//!
//! let cluster = EmbeddedCluster::start(EmbeddedOptions::new("hello"));
//! cluster.create_topic("orders", 1, &[]).unwrap();
//! cluster.append("orders", 0, &[NewRecord::new("key", "value")]).unwrap();
//! assert_eq!(cluster.records("orders", 0, Isolation::ReadCommitted).len(), 1);
//! let _stream = cluster.connect("hello-1", 9092).unwrap(); // speak Kafka's protocol over it
//! # });
//! ```

mod admin;
mod api;
mod broker_settings;
mod brokers;
mod cluster;
mod code;
mod codec;
mod compaction;
mod configs;
mod control;
mod faults;
mod frames;
mod groups;
mod log;
mod memory;
mod offsets_topic;
mod old_formats;
mod options;
mod partition;
mod patterns;
mod placement;
mod producer_state;
mod quotas;
mod random;
mod retention;
mod rights;
mod sasl;
mod security;
mod segments;
mod server;
mod sessions;
mod state;
mod storage;
mod transactions;
mod validate;
mod vocabulary;

pub use cluster::EmbeddedCluster;
pub use faults::{Action, Fault, FaultId, RequestLogEntry};
pub use options::{EmbeddedOptions, KafkaVersion, PARTITIONS_MAX};
pub use rights::{Acl, AuthorizerOptions, Operation, Pattern, Permission, Resource};
pub use vocabulary::{
    AdminError, GroupKind, Header, Isolation, NewRecord, ProducerOf, Record, SourceTransaction,
};
