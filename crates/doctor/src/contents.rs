//! What the records and the topics themselves tell of a mirror that MM2 makes: samples, counts,
//! settings.
//!
//! Offsets alone do not tell a topic that was made again from one that was copied twice, aborted
//! records from ordinary ones, or how many records lie between two places.
//!
//! Does not: judge. Reads heads, samples and bounded ranges, never whole logs.

mod look;

use std::collections::BTreeMap;

use twinlog_mirror::SyncOffsets;
use twinlog_types::{SourceOffset, TargetOffset, TopicName, TopicPartition};

use crate::history::Jump;

/// What was read, by partition or topic of the source.
#[derive(Clone, Default, Debug)]
pub struct Contents {
    /// Where positions of the source stand on the target, exactly.
    pub places: BTreeMap<(TopicPartition, SourceOffset), TargetOffset>,
    /// Records that were compared.
    pub samples: BTreeMap<TopicPartition, Vec<Sample>>,
    /// Aborted records among those of a range.
    pub aborted: BTreeMap<TopicPartition, Aborted>,
    /// Records of the mirror between two pairs where there are more than on the source.
    pub extras: BTreeMap<TopicPartition, Vec<Extra>>,
    /// The first record that waits and is larger than the mirror takes.
    pub too_large: BTreeMap<TopicPartition, TooLarge>,
    /// Records that came on the source within the last two rounds of checkpoint and group sync.
    pub recent: BTreeMap<TopicPartition, u64>,
    /// Settings of the topics on the source.
    pub source_settings: BTreeMap<TopicName, Settings>,
    /// Settings of their mirrors, by the name of the mirror.
    pub target_settings: BTreeMap<TopicName, Settings>,
    /// How many brokers the target has.
    pub target_brokers: Option<usize>,
}

/// The records that an offset-sync says are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The sync.
    pub sync: SyncOffsets,
    /// Whether key, value and headers are.
    pub equal: bool,
}

/// What a range of the source holds, and how much of it is on the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aborted {
    /// Where the range begins, with an offset-sync.
    pub from: SourceOffset,
    /// Where it ends, with the record of another.
    pub to: SourceOffset,
    /// Records in it that consumers may read.
    pub committed: u64,
    /// All records in it.
    pub all: u64,
    /// Records from one to the other on the target, both included.
    pub copied: u64,
}

/// Where the mirror has more records between two pairs than the source: what they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extra {
    /// The two.
    pub jump: Jump,
    /// Records of the source between them.
    pub there: u64,
    /// Records of the mirror that hold what one of the source holds, from the first pair on.
    pub copies: u64,
    /// Records of the mirror that hold what none of these does.
    pub foreign: u64,
}

impl Extra {
    /// Records that are there once more.
    pub fn repeated(&self) -> u64 {
        self.copies.saturating_sub(self.there)
    }
}

/// A record that the mirror does not take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge {
    /// Where it is.
    pub offset: SourceOffset,
    /// Key, value and headers of it.
    pub bytes: u64,
}

/// Settings of a topic that findings depend on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Settings {
    /// `cleanup.policy` contains `compact`.
    pub compacted: bool,
    /// `max.message.bytes`.
    pub max_message_bytes: Option<u64>,
}
