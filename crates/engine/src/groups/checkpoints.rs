//! Writes MM2's checkpoints of commits that are confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use twinlog_batch::Record;
use twinlog_client::{ClientError, CommittedOffset, ErrorCode, Isolation};
use twinlog_flow::checkpoints::{CheckpointEmitter, checkpoint_topic};
use twinlog_mirror::formats::Checkpoint;
use twinlog_types::{GroupId, SourceOffset, TopicPartition};

use super::translate;
use super::writing::Writer;
use crate::commits::Commits;
use crate::factors::{Purpose, hint};
use crate::flow::Flow;
use crate::internal;

/// Checkpoints are written this often at least where something changed; MM2's
/// `emit.checkpoints.interval.seconds` is an upper bound.
const INTERVAL: Duration = Duration::from_secs(5);

/// Checkpoints of one request.
const CHUNK: usize = 1_000;

/// What was written as checkpoints, and when it is looked at next.
pub(super) struct Checkpoints {
    emitter: CheckpointEmitter,
    due: Instant,
    ready: bool,
    /// The target refuses the topic, and that was said.
    refused: bool,
    /// Groups that had a turn since the last time.
    touched: BTreeSet<GroupId>,
}

impl Checkpoints {
    pub(super) fn new() -> Self {
        Self {
            emitter: CheckpointEmitter::new(),
            due: Instant::now(),
            ready: false,
            refused: false,
            touched: BTreeSet::new(),
        }
    }

    /// Forgets groups that are not followed any more.
    pub(super) fn retain(&mut self, present: &BTreeSet<GroupId>) {
        self.emitter.retain(|group| present.contains(group));
        self.touched.retain(|group| present.contains(group));
    }

    /// These groups had a turn: something about them may have changed.
    pub(super) fn touch(&mut self, groups: impl IntoIterator<Item = GroupId>) {
        self.touched.extend(groups);
    }

    /// Makes the topic and reads what stands on it, so that a restart does not write it all again.
    pub(super) async fn prepare(&mut self, flow: &Flow) -> Result<(), ClientError> {
        let rests = self.refused && Instant::now() < self.due;
        if self.ready || rests || !flow.config.emit_checkpoints_enabled {
            return Ok(());
        }
        let topic = flow.config.checkpoints_topic();
        let replication_factor = flow.config.checkpoints_topic_replication_factor;
        let made = internal::ensure_compacted(&flow.target, &topic, replication_factor).await;
        if let Err(error) = &made
            && error.code() == Some(ErrorCode::INVALID_REPLICATION_FACTOR)
        {
            // Groups are carried over all the same.
            self.refused(flow, error);
            return Ok(());
        }
        made?;
        let tp = TopicPartition { topic, partition: 0 };
        let emitter = &mut self.emitter;
        flow.target
            .read_partition_each(&tp, 0, Isolation::ReadUncommitted, |record| {
                let (key, value) = (record.key.as_deref(), record.value.as_deref());
                if let Ok(checkpoint) = Checkpoint::decode(key, value) {
                    emitter.loaded(&checkpoint);
                }
            })
            .await?;
        self.ready = true;
        Ok(())
    }

    /// The topic cannot be made: it is tried again with the time of the next checkpoints.
    fn refused(&mut self, flow: &Flow, error: &ClientError) {
        self.due = Instant::now() + INTERVAL;
        if !std::mem::replace(&mut self.refused, true) {
            let hint = hint(&flow.config, Purpose::Checkpoints, error);
            warn!(
                flow = %flow.name, %error,
                "checkpoints cannot be written{hint}; MM2's clients find none, groups are carried over all the same"
            );
        }
    }

    /// Writes what changed, when it is time to.
    pub(super) async fn write(
        &mut self,
        flow: &Flow,
        writer: &Writer,
        commits: &Commits,
    ) -> Result<(), ClientError> {
        if !self.ready || Instant::now() < self.due {
            return Ok(());
        }
        let mut due = Vec::new();
        let share = flow.share_groups();
        // MM2 would commit what a checkpoint says, which share groups refuse.
        let touched = std::mem::take(&mut self.touched);
        for group in touched.into_iter().filter(|group| !share.contains(group)) {
            if let Some(Ok(commits)) = commits.of(flow, &group) {
                due.extend(self.due_of(flow, writer, &group, &commits));
            }
        }
        self.produce(flow, due).await?;
        self.due = Instant::now() + Flow::no_later_than(INTERVAL, flow.config.checkpoints_interval);
        Ok(())
    }

    fn due_of(
        &mut self,
        flow: &Flow,
        writer: &Writer,
        group: &GroupId,
        commits: &[CommittedOffset],
    ) -> Vec<Checkpoint> {
        let confirmed: BTreeMap<TopicPartition, SourceOffset> = writer
            .tracker
            .positions(group)
            .filter(|(_, position)| position.is_confirmed())
            .filter_map(|(tp, position)| Some((tp.clone(), position.source()?)))
            .collect();
        let mut due = Vec::new();
        for commit in commits {
            let Some(&source) = confirmed.get(&commit.tp) else { continue };
            let Some(cell) = flow.cells.get(&commit.tp) else { continue };
            let translation = translate(flow, &cell, source).translation;
            let topic = checkpoint_topic(&flow.config, &commit.tp.topic);
            let position = (&commit.tp, source);
            let emitter = &mut self.emitter;
            due.extend(emitter.due(group, position, &topic, translation, &commit.metadata));
        }
        due
    }

    async fn produce(
        &mut self,
        flow: &Flow,
        checkpoints: Vec<Checkpoint>,
    ) -> Result<(), ClientError> {
        let tp = TopicPartition { topic: flow.config.checkpoints_topic(), partition: 0 };
        for (number, chunk) in checkpoints.chunks(CHUNK).enumerate() {
            let now_ms = flow.now_ms();
            let records: Vec<Record> = chunk
                .iter()
                .map(|checkpoint| Record {
                    offset: 0,
                    timestamp: now_ms,
                    key: Some(checkpoint.key()),
                    value: Some(checkpoint.value()),
                    headers: Vec::new(),
                })
                .collect();
            if let Err(error) = flow.target.produce_plain(&tp, &records).await {
                for checkpoint in &checkpoints[number * CHUNK..] {
                    self.emitter.failed(checkpoint);
                    self.touched.insert(checkpoint.group.clone());
                }
                return Err(error);
            }
        }
        Ok(())
    }
}
