//! What was read about a subject and its two clusters.
//!
//! Does not: judge. Everything is public, so that a verdict can be tested on any facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use twinlog_client::{ClientError, CommittedOffset, ErrorCode, GroupListing, GroupMember};
use twinlog_engine::observe::{
    FlowObservation, GroupPosition, PartitionObservation, Resource, Right, Rights,
};
use twinlog_mirror::{FlowConfig, Problem};
use twinlog_types::{
    ClusterAlias, ClusterId, Code, GroupId, LeaderEpoch, Partition, SourceOffset, TopicName,
    TopicPartition,
};

use crate::chain::Subject;
use crate::connect::Rest;
use crate::contents::Contents;
use crate::history::SyncHistory;
use crate::mm2::Mm2;

/// Why something is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// The finding that it amounts to.
    pub code: Option<Code>,
    /// What was asked, and what came of it.
    pub what: String,
    /// The right that would have let one look.
    pub right: Option<Box<Right>>,
}

impl Trouble {
    /// What was asked, and what came of it.
    pub fn new(code: Option<Code>, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), right: None }
    }

    /// It was not asked for (yet).
    pub fn not_looked_at() -> Self {
        Self::new(None, "not looked at")
    }

    /// For want of this right, where a right was missing at all.
    #[must_use]
    pub(crate) fn for_want_of(
        self,
        on: &ClusterAlias,
        operation: &'static str,
        resource: Resource,
    ) -> Self {
        if self.code != Some(Code::MissingPermission) {
            return self;
        }
        let right = Right { on: on.clone(), operation, resource };
        Self { right: Some(Box::new(right)), ..self }
    }

    /// For want of this right.
    pub(crate) fn for_want_of_right(what: impl Into<String>, right: Right) -> Self {
        let right = Some(Box::new(right));
        Self { right, ..Self::new(Some(Code::MissingPermission), what) }
    }

    pub(crate) fn of(what: &str, error: &ClientError) -> Self {
        let code = twinlog_engine::observe::code_of(error);
        Self::new(code, format!("{what}: {error}"))
    }

    pub(crate) fn answered(what: &str, code: ErrorCode) -> Self {
        let finding = twinlog_engine::observe::code_of_answer(code);
        Self::new(finding, format!("{what}: {code}"))
    }
}

/// A cluster, as far as it could be seen.
#[derive(Clone, Debug)]
pub struct Side {
    /// What the file calls it.
    pub alias: ClusterAlias,
    /// Where to connect to it.
    pub bootstrap: String,
    /// Which cluster it is.
    pub id: Result<ClusterId, Trouble>,
    /// Its topics, with their numbers of partitions.
    pub topics: Result<BTreeMap<TopicName, Partition>, Trouble>,
    /// Its groups.
    pub groups: Result<BTreeMap<GroupId, GroupListing>, Trouble>,
    /// Topics that may not be described, so that nobody here knows whether they exist.
    pub hidden: BTreeSet<TopicName>,
}

impl Side {
    /// Nothing seen yet.
    pub fn new(alias: ClusterAlias, bootstrap: String) -> Self {
        let not_yet = Trouble::not_looked_at;
        Self {
            alias,
            bootstrap,
            id: Err(not_yet()),
            topics: Err(not_yet()),
            groups: Err(not_yet()),
            hidden: BTreeSet::new(),
        }
    }
}

/// The group that is explained.
#[derive(Clone, Debug)]
pub struct GroupFacts {
    /// What it has committed on the source.
    pub source_commits: Result<Vec<CommittedOffset>, Trouble>,
    /// What it has committed on the target, where that is an offset.
    pub target_commits: Result<BTreeMap<TopicPartition, i64>, Trouble>,
    /// Leader epochs that it has committed on the target, each with that of the partition.
    pub target_epochs: BTreeMap<TopicPartition, (LeaderEpoch, LeaderEpoch)>,
    /// Who is in it on the target.
    pub members: Result<Vec<GroupMember>, Trouble>,
}

/// MM2's pairs of offsets, of the partitions that concern the subject.
#[derive(Clone, Debug)]
pub struct Syncs {
    /// The topic that the file names for them.
    pub topic: TopicName,
    /// The cluster that it is on.
    pub on: ClusterAlias,
    /// By partition of the source; `None` where the topic does not exist.
    pub read: Result<Option<BTreeMap<TopicPartition, SyncHistory>>, Trouble>,
    /// Whether the topic exists that they would be in if the other location were configured.
    pub elsewhere: Option<TopicName>,
}

/// MM2's checkpoints (twinlog writes the same).
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// The topic on the target.
    pub topic: TopicName,
    /// Of the group, by partition of the target; `None` where the topic does not exist.
    pub read: Result<Option<BTreeMap<TopicPartition, CheckpointSeries>>, Trouble>,
    /// How many records of any group there are.
    pub total: u64,
}

/// The checkpoints of one group in one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointSeries {
    /// The last one: source offset, target offset.
    pub last: (i64, i64),
    /// When it was written, in milliseconds since 1970.
    pub written_ms: i64,
    /// Those before it that the topic still has, the newest first, a few hundred at most.
    pub earlier: Vec<(i64, i64)>,
}

/// Everything that was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What it was read for. A topic that was asked for by the name of its mirror stands here by
    /// its own.
    pub subject: Subject,
    /// The flow.
    pub config: Arc<FlowConfig>,
    /// Entries of the file that do nothing.
    pub notes: Vec<Problem>,
    /// Keys that stand nowhere, and were concluded from what is there.
    pub assumed: BTreeSet<String>,
    /// When it was looked, in milliseconds since 1970.
    pub now_ms: i64,
    /// The cluster that is read.
    pub source: Side,
    /// The cluster that is written.
    pub target: Side,
    /// What the look lacks rights for.
    pub rights: Rights,
    /// What `status` knows.
    pub found: FlowObservation,
    /// MM2's own topics and workers.
    pub mm2: Mm2,
    /// The group, when one is explained.
    pub group: Option<GroupFacts>,
    /// Log start and high watermark of partitions of the target.
    pub bounds: BTreeMap<TopicPartition, (i64, i64)>,
    /// Log start and high watermark of partitions of the source.
    pub source_bounds: BTreeMap<TopicPartition, (i64, i64)>,
    /// Where groups stand on the source, of all groups that were read; empty where it is one.
    pub positions: BTreeMap<TopicPartition, BTreeSet<SourceOffset>>,
    /// What was read of the records and topics themselves.
    pub contents: Contents,
    /// MM2's offset-syncs.
    pub syncs: Syncs,
    /// The checkpoints.
    pub checkpoints: Checkpoints,
    /// What a Connect cluster told, where one was to be asked.
    pub connect: Option<Result<Arc<Rest>, Trouble>>,
    /// Why the look was given up before its end.
    pub cut_off: Option<Trouble>,
}

impl Facts {
    /// Who said `key`, and where; `None`: nobody, the default holds.
    pub(crate) fn origin(&self, key: &str) -> Option<String> {
        let origin = self.config.origin(key)?;
        Some(if self.assumed.contains(&origin.key) {
            format!("{}, as found", origin.key)
        } else if origin.line.is_none() {
            format!("{} {}", origin.file, origin.key)
        } else {
            origin.to_string()
        })
    }

    /// What `status` knows of a partition.
    pub(crate) fn partition(&self, tp: &TopicPartition) -> Option<&PartitionObservation> {
        let topic = self.found.topics.iter().find(|one| one.topic == tp.topic)?;
        topic.partitions.iter().find(|one| one.partition == tp.partition)
    }

    /// What `status` knows of a position of the group.
    pub(crate) fn position(&self, group: &GroupId, tp: &TopicPartition) -> Option<&GroupPosition> {
        let group = self.found.groups.iter().find(|one| one.group == *group)?;
        let here = |one: &&GroupPosition| one.topic == tp.topic && one.partition == tp.partition;
        group.partitions.iter().find(here)
    }

    /// The partition's mirror.
    pub(crate) fn mirror_of(&self, tp: &TopicPartition) -> TopicPartition {
        let known = self.found.topics.iter().find(|one| one.topic == tp.topic);
        let topic = match known {
            Some(known) => known.target_topic.clone(),
            None => self.config.remote_topic(tp.topic.as_str()),
        };
        TopicPartition::new(topic, tp.partition)
    }

    /// The series of checkpoints of the group in a partition of the source.
    pub(crate) fn checkpoint(&self, tp: &TopicPartition) -> Option<&CheckpointSeries> {
        self.checkpoints.read.as_ref().ok()?.as_ref()?.get(&self.mirror_of(tp))
    }

    /// The offset-syncs of a partition.
    pub(crate) fn sync(&self, tp: &TopicPartition) -> Option<&SyncHistory> {
        self.syncs.read.as_ref().ok()?.as_ref()?.get(tp)
    }
}
