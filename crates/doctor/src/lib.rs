//! Why a group or a topic stands as it does on the other cluster, link by link.
//!
//! [`Facts::read`] looks at the two clusters, [`explain`] judges what was seen and answers a
//! [`Chain`]. Both work for a mirror that twinlog makes and for one that MirrorMaker 2 (MM2) makes,
//! with or without a running process.
//!
//! Does not: change anything on either cluster, wait and watch (ages come from timestamps of
//! records), see the logs or the memory of a process, print.
//!
//! # Invariants
//!
//! 1. Reading and judging are apart: a verdict depends on [`Facts`] alone.
//! 2. A link is `ok` only for what was seen to be well. What could not be read is `unknown`, and
//!    what stands behind a broken link is `not-reached`.
//! 3. Memory is bounded by what concerns the subject, not by the size of MM2's topics.
//!
//! # References
//!
//! KIP-382; `MirrorCheckpointTask`, `OffsetSyncStore`, and Connect's `KafkaConfigBackingStore`,
//! `KafkaStatusBackingStore` and `KafkaOffsetBackingStore` for the records of MM2's topics.

mod chain;
mod connect;
mod contents;
mod diagnose;
mod discover;
mod facts;
mod findings;
mod history;
mod judge;
mod mm2;
mod near;
mod places;
mod read;
mod remedy;
mod survey;
mod text;

pub use chain::{Chain, Evidence, Fix, Link, LinkName, LinkState, MirroredBy, Outcome, Subject};
pub use connect::{Rest, RestConnector, RestError, Url};
pub use contents::{Aborted, Contents, Extra, Sample, Settings, TooLarge};
pub use diagnose::{Diagnosis, Wanted, diagnose};
pub use discover::{Assumed, Seen, SeenSide, assume};
pub use facts::{CheckpointSeries, Checkpoints, Facts, GroupFacts, Side, Syncs, Trouble};
pub use findings::{Counts, Finding, GroupedFinding, Grouping, Place, Weight};
pub use history::{Around, Jump, SyncHistory, Turn};
pub use judge::explain;
pub use mm2::{Connector, FailedTask, Mm2, Worker};
pub use near::near;
pub use remedy::Impact;
pub use survey::Survey;
pub use text::{holds_for, many, more, one_line, remedy, seen, told, wrapped};
