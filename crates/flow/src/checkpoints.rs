//! Decides which checkpoints are written to MM2's `<source>.checkpoints.internal`.
//!
//! Does not: write them, read groups, translate. A checkpoint tells MM2's clients
//! (`RemoteClusterUtils`) where a group goes on reading on the target.
//!
//! # Invariants
//!
//! 1. Nothing unknown is written. Whoever takes a group over at a checkpoint skips nothing.
//! 2. A checkpoint is written when anything of it changed since the last one, backwards too: MM2's
//!    does not go back when only the translation did, so it may stand ahead of what a target that
//!    lost records holds.
//! 3. The last record of a key on the topic is the truth: a record that could not be written is due
//!    again.
//!
//! # References
//!
//! MM2: `MirrorCheckpointTask.checkpointsForGroup`, `Checkpoint`.

use std::collections::BTreeMap;

use twinlog_mirror::FlowConfig;
use twinlog_mirror::formats::Checkpoint;
use twinlog_types::{GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition, Translation};

/// What a checkpoint tells, its key left out.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Told {
    upstream: i64,
    downstream: i64,
    metadata: String,
}

/// The checkpoints of a flow's groups.
#[derive(Clone, Default, Debug)]
pub struct CheckpointEmitter {
    /// By group, then by partition of the *target*.
    told: BTreeMap<GroupId, BTreeMap<TopicPartition, Told>>,
}

impl CheckpointEmitter {
    /// Nothing written yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A record that stands on the topic already: read at the start, so that a restart does not
    /// write every checkpoint again. The last one of a key counts.
    pub fn loaded(&mut self, checkpoint: &Checkpoint) {
        self.tell(checkpoint);
    }

    /// The checkpoint to write for a group's confirmed commit, where one is due. It counts as
    /// written; see [`CheckpointEmitter::failed`].
    ///
    /// `target` is the topic's name on the target, [`checkpoint_topic`]; `metadata` what the group
    /// committed along with its offset.
    pub fn due(
        &mut self,
        group: &GroupId,
        source: (&TopicPartition, SourceOffset),
        target: &TopicName,
        translation: Translation<TargetOffset>,
        metadata: &str,
    ) -> Option<Checkpoint> {
        let (partition, upstream) = source;
        let downstream = translation.offset().filter(|offset| offset.0 >= 0)?;
        if upstream.0 < 0 {
            return None;
        }
        let checkpoint = Checkpoint {
            group: group.clone(),
            topic: target.clone(),
            partition: partition.partition,
            upstream: upstream.0,
            downstream: downstream.0,
            metadata: metadata.to_owned(),
        };
        self.tell(&checkpoint).then_some(checkpoint)
    }

    /// A checkpoint could not be written: it is due again.
    pub fn failed(&mut self, checkpoint: &Checkpoint) {
        let key = key(checkpoint);
        if let Some(partitions) = self.told.get_mut(&checkpoint.group)
            && partitions.get(&key).is_some_and(|told| *told == told_by(checkpoint))
        {
            partitions.remove(&key);
        }
    }

    /// Forgets the groups that `keep` does not want, as when they are gone from the source.
    pub fn retain(&mut self, mut keep: impl FnMut(&GroupId) -> bool) {
        self.told.retain(|group, _| keep(group));
    }

    /// Takes note; whether anything is new.
    fn tell(&mut self, checkpoint: &Checkpoint) -> bool {
        let told = told_by(checkpoint);
        let partitions = self.told.entry(checkpoint.group.clone()).or_default();
        partitions.insert(key(checkpoint), told.clone()).is_none_or(|before| before != told)
    }
}

fn key(checkpoint: &Checkpoint) -> TopicPartition {
    TopicPartition::new(checkpoint.topic.clone(), checkpoint.partition)
}

fn told_by(checkpoint: &Checkpoint) -> Told {
    Told {
        upstream: checkpoint.upstream,
        downstream: checkpoint.downstream,
        metadata: checkpoint.metadata.clone(),
    }
}

/// What a checkpoint calls a topic of the source: its mirror's name; for a topic that was mirrored
/// here from the target, the name it has there.
pub fn checkpoint_topic(flow: &FlowConfig, topic: &TopicName) -> TopicName {
    if flow.policy.topic_source(topic.as_str()) == Some(flow.name.target.as_str()) {
        flow.policy.original_topic(topic.as_str()).into()
    } else {
        flow.policy.format_remote_topic(flow.name.source.as_str(), topic.as_str())
    }
}

#[cfg(test)]
mod tests {
    use twinlog_types::Translation::{BeforeStart, End, Exact, LowerBound, Unknown};

    use super::*;
    use crate::testing::flow;

    fn due(
        emitter: &mut CheckpointEmitter,
        upstream: i64,
        translation: Translation<TargetOffset>,
        metadata: &str,
    ) -> Option<(i64, i64)> {
        let partition = TopicPartition::new("orders", 3);
        let checkpoint = emitter.due(
            &"app".into(),
            (&partition, SourceOffset(upstream)),
            &"hello.orders".into(),
            translation,
            metadata,
        )?;
        assert_eq!(checkpoint.topic.as_str(), "hello.orders");
        assert_eq!((checkpoint.partition, checkpoint.metadata.as_str()), (3, metadata));
        Some((checkpoint.upstream, checkpoint.downstream))
    }

    #[test]
    fn a_checkpoint_is_written_when_something_changed_and_only_then() {
        let emitter = &mut CheckpointEmitter::new();
        let at = TargetOffset;
        assert_eq!(due(emitter, 10, Exact(at(7)), ""), Some((10, 7)));
        assert_eq!(due(emitter, 10, Exact(at(7)), ""), None);
        assert_eq!(due(emitter, 11, Exact(at(7)), ""), Some((11, 7)), "within a hole");
        assert_eq!(due(emitter, 11, Exact(at(7)), "m"), Some((11, 7)), "other metadata");
        assert_eq!(due(emitter, 20, LowerBound(at(9)), "m"), Some((20, 9)));
        assert_eq!(due(emitter, 20, End(at(15)), "m"), Some((20, 15)));
        assert_eq!(due(emitter, 20, End(at(12)), "m"), Some((20, 12)), "the target lost records");
        assert_eq!(due(emitter, 4, BeforeStart { offset: at(2), missing: 3 }, "m"), Some((4, 2)));
    }

    #[test]
    fn what_is_not_known_is_not_written() {
        let emitter = &mut CheckpointEmitter::new();
        assert_eq!(due(emitter, 10, Unknown, ""), None);
        assert_eq!(due(emitter, -1, Exact(TargetOffset(0)), ""), None);
        assert_eq!(due(emitter, 1, Exact(TargetOffset(-1)), ""), None);
    }

    #[test]
    fn what_stands_on_the_topic_is_not_written_again_and_what_failed_is() {
        let emitter = &mut CheckpointEmitter::new();
        let checkpoint = Checkpoint {
            group: "app".into(),
            topic: "hello.orders".into(),
            partition: 3,
            upstream: 10,
            downstream: 7,
            metadata: String::new(),
        };
        emitter.loaded(&checkpoint);
        assert_eq!(due(emitter, 10, Exact(TargetOffset(7)), ""), None);
        emitter.failed(&checkpoint);
        assert_eq!(due(emitter, 10, Exact(TargetOffset(7)), ""), Some((10, 7)));
        assert_eq!(due(emitter, 12, Exact(TargetOffset(9)), ""), Some((12, 9)));
        emitter.failed(&checkpoint);
        assert_eq!(due(emitter, 12, Exact(TargetOffset(9)), ""), None, "a newer one was written");
    }

    #[test]
    fn topics_are_named_as_on_the_target() {
        let flow = flow("");
        assert_eq!(checkpoint_topic(&flow, &"orders".into()).as_str(), "hello.orders");
        assert_eq!(checkpoint_topic(&flow, &"world.orders".into()).as_str(), "orders");
        assert_eq!(checkpoint_topic(&flow, &"moon.orders".into()).as_str(), "hello.moon.orders");
    }
}
