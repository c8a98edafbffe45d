//! MirrorMaker 2's vocabulary: what its properties file means, how it names and chooses topics and
//! groups, how its own records look, and how it translates offsets by them.
//!
//! Does not: read files, environment variables or clocks, talk to a cluster, decide what is done
//! about anything. Values of config providers come through a closure of the caller.
//!
//! # Invariants
//!
//! 1. A file means here what it means to MirrorMaker 2 4.3.0 in dedicated mode. The few deliberate
//!    differences are named at the fields of [`FlowConfig`].
//! 2. Everything that is wrong with a file is reported at once, with its line and key.
//! 3. No secret is printed by `Debug` or `Display` of any type, nor quoted by a [`Problem`].
//!
//! References: KIP-382, KIP-690 (replication policies), KIP-720, and the classes
//! `MirrorMakerConfig`, `MirrorConnectorConfig`, `DefaultReplicationPolicy`, `DefaultTopicFilter`.

mod config;
mod duration;
mod filter;
pub mod formats;
mod java_regex;
mod known;
mod offset_sync_store;
mod policy;
mod problem;
mod properties;
mod redact;
mod replicate;
mod value;

pub use config::{
    ClusterConfig, Configuration, FlowConfig, FollowCommits, Isolation, OnSourceGap,
    OnTopicRecreated, Origin, Reading, ResolvedSetting, Resolver,
};
pub use duration::parse_duration;
pub use filter::{NameFilter, PatternError, Verdict};
pub use java_regex::RegexError;
pub use known::{closest_known_property, known_property};
pub use offset_sync_store::{OffsetSyncStore, SyncOffsets, SyncTranslation};
pub use policy::{Policy, PolicyKind};
pub use problem::{Problem, closest};
pub use properties::{Entry, Malformed, Properties};
pub use redact::{ClientProperties, is_secret};
pub use replicate::{Refusal, replicates, why_not_replicated};
pub use value::{
    ValueError, parse_bool, parse_double, parse_int, parse_list, parse_long, parse_short,
};
