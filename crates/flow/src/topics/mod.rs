//! Follows topics: which ones are mirrored, and what must be created, grown or reconfigured.
//!
//! Does not: list or change topics, copy records. The caller lists both clusters, hands the
//! listings to [`TopicFollower::plan`], does what the plan says and reports what was refused.
//!
//! # Invariants
//!
//! 1. Every topic of the source is in exactly one of: mirrored, to be created, stopped, excluded.
//!    A topic that is mirrored may have single partitions stopped.
//! 2. Nothing is ever deleted on the target, and no topic there gets fewer partitions.
//! 3. A topic with another id than the one that was mirrored is another topic: it is not copied
//!    into or from before somebody decides so.
//! 4. Two sources are never copied into one target topic, and nothing is copied back to where it
//!    came from.
//!
//! # What differs from MM2, on purpose
//!
//! * Configs: only what is set at the source topic itself is copied. MM2 also turns the source's
//!   dynamic broker defaults into overrides on the target.
//! * Mirrored topics are created with `message.timestamp.after.max.ms` = 9223372036854775807 unless
//!   the source sets it: the default of Kafka 4 refuses records from more than an hour in the
//!   future, and a mirror takes what its source took.
//! * A config that the target refuses is left out and named; MM2 tries the same again for ever.
//! * A topic that was deleted and made again, on either side, stops; MM2 goes on in silence.
//! * Under the identity policy MM2 copies records round and round between two clusters; here such
//!   topics stop.
//!
//! # References
//!
//! MM2: `MirrorSourceConnector` (`refreshTopicPartitions`, `computeAndCreateTopicPartitions`,
//! `targetConfig`, `syncTopicConfigs`). KIP-382, KIP-516 (topic ids), KIP-937 (timestamp limits).

mod configs;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use twinlog_mirror::{FlowConfig, Refusal, Verdict};
use twinlog_types::{Code, ConfigChange, ConfigEntry, FlowName, Partition, TopicId, TopicName};

pub use configs::refused_config_key;
pub use plan::TopicFollower;

/// A topic as one cluster lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicListing {
    /// Its name.
    pub name: TopicName,
    /// Its id; [`TopicId::NONE`] where the cluster offers none.
    pub id: TopicId,
    /// How many partitions it has.
    pub partitions: Partition,
    /// Its configs, where they could be read.
    pub configs: Option<Vec<ConfigEntry>>,
}

/// What the plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The flow.
    pub flow: &'a FlowConfig,
    /// The enabled flow of the other direction between the same two clusters.
    pub opposite: Option<&'a FlowConfig>,
    /// Every topic of the source.
    pub source: &'a [TopicListing],
    /// Every topic of the target.
    pub target: &'a [TopicListing],
    /// What was mirrored before, from the durable state.
    pub known: &'a [MirroredTopic],
    /// Topics of the target that another flow copies into.
    pub claimed: &'a BTreeMap<TopicName, FlowName>,
}

/// A topic that is copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirroredTopic {
    /// The topic on the source.
    pub source: TopicName,
    /// Its id.
    pub source_id: TopicId,
    /// The topic on the target.
    pub target: TopicName,
    /// Its id.
    pub target_id: TopicId,
    /// Partitions 0 up to here are copied: those that both sides have.
    pub partitions: Partition,
}

/// A topic to be created on the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Creation {
    /// The topic on the source.
    pub source: TopicName,
    /// What it is called on the target.
    pub target: TopicName,
    /// How many partitions.
    pub partitions: Partition,
    /// `replication.factor`; -1 leaves it to the target.
    pub replication_factor: i16,
    /// The configs.
    pub configs: BTreeMap<String, String>,
}

/// A topic of the target to be given more partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Growth {
    /// The topic on the target.
    pub target: TopicName,
    /// How many it shall have.
    pub count: Partition,
}

/// Configs of a topic of the target to be changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alteration {
    /// The topic on the target.
    pub target: TopicName,
    /// The changes, by name.
    pub changes: Vec<ConfigChange>,
}

/// What was found about a topic: why it (or a part of it) is not copied, or what is worth knowing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicVerdict {
    /// The topic on the source.
    pub topic: TopicName,
    /// The topic on the target.
    pub target: TopicName,
    /// The partitions that it is about; `None`: the whole topic.
    pub partitions: Option<Range<Partition>>,
    /// The finding.
    pub code: Code,
    /// Why.
    pub reason: String,
}

/// A topic that the configuration leaves out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExcludedTopic {
    /// The topic on the source.
    pub topic: TopicName,
    /// Why.
    pub why: Exclusion,
}

/// Why a topic is left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exclusion(pub Refusal);

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Refusal::Internal => f.write_str("it is an internal topic of Kafka or of a mirror"),
            Refusal::Cycle => f.write_str("it came from the target: it would go in a circle"),
            Refusal::Filtered(Verdict::Excluded(pattern)) => {
                write!(f, "topics.exclude contains {pattern}, which matches it")
            }
            Refusal::Filtered(Verdict::Undecided(pattern)) => {
                write!(f, "matching it against {pattern} takes too many steps")
            }
            Refusal::Filtered(Verdict::NotIncluded | Verdict::Included) => {
                f.write_str("no pattern of topics matches it")
            }
        }
    }
}

/// What is to be done about the topics of a flow.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TopicPlan {
    /// Topics to create.
    pub create: Vec<Creation>,
    /// Topics to give more partitions.
    pub grow: Vec<Growth>,
    /// Topics to reconfigure; empty unless configs are to be synced.
    pub alter: Vec<Alteration>,
    /// Topics to copy.
    pub mirror: Vec<MirroredTopic>,
    /// Topics (or partitions) that are not copied although the configuration wants them.
    pub stopped: Vec<TopicVerdict>,
    /// What is worth knowing of topics that are copied or about to be.
    pub findings: Vec<TopicVerdict>,
    /// Topics that the configuration leaves out.
    pub excluded: Vec<ExcludedTopic>,
}
