//! The journal of what is committed for groups: durable before the commit is sent.
//!
//! All that one batch of commits needs is left for the shards' writers together, and what other
//! batches leave meanwhile goes into the same transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use twinlog_flow::groups::GroupTracker;
use twinlog_offsets::state::{GroupJournal, PartitionKey, StateKey, StateRecord};
use twinlog_types::{GroupId, TopicPartition};

use crate::flow::Flow;

/// How long a batch of commits waits for its journal: whoever cannot write the state for so long
/// copies nothing either, and the next round decides anew.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The journal as it was read at the start, and which life of a partition positions belong to.
#[derive(Default)]
pub(super) struct Journals {
    stored: BTreeMap<PartitionKey, BTreeMap<GroupId, GroupJournal>>,
    lives: BTreeMap<TopicPartition, PartitionKey>,
}

/// What one position's journal is to say.
pub(super) type Entry = (PartitionKey, GroupId, GroupJournal);

impl Journals {
    /// Takes over what the state held when this process became the owner.
    pub(super) fn new(flow: &Flow) -> Self {
        let stored = std::mem::take(&mut flow.stored.lock().journals);
        Self { stored, lives: BTreeMap::new() }
    }

    /// Before a position is read: what was written of it before is made known, once; what is known
    /// of another life of the partition is forgotten.
    pub(super) fn prepare(
        &mut self,
        tracker: &mut GroupTracker,
        group: &GroupId,
        partition: &TopicPartition,
        life: &PartitionKey,
    ) {
        match self.lives.get(partition) {
            Some(known) if known == life => {}
            known => {
                if known.is_some() {
                    tracker.forget_partition(partition);
                }
                self.lives.insert(partition.clone(), life.clone());
            }
        }
        let stored = self.stored.get_mut(life).and_then(|groups| groups.remove(group));
        if let Some(journal) = stored {
            tracker.seed(group, partition, journal);
        }
    }

    /// Groups whose journals were read at the start and not asked for since.
    pub(super) fn groups(&self) -> impl Iterator<Item = &GroupId> {
        self.stored.values().flat_map(BTreeMap::keys)
    }

    /// Removes the journals of a group from the state. Answers how many there were.
    pub(super) fn remove(&mut self, flow: &Flow, tracker: &GroupTracker, group: &GroupId) -> usize {
        let written = tracker.positions(group).filter_map(|(tp, _)| self.lives.get(tp)).cloned();
        let mut keys: BTreeSet<PartitionKey> = written.collect();
        for (life, groups) in &mut self.stored {
            if groups.remove(group).is_some() {
                keys.insert(life.clone());
            }
        }
        let shard = flow.shard_of_group(group);
        let count = keys.len();
        for life in keys {
            flow.notes.leave_none(shard, &StateKey::Journal(life, group.clone()));
        }
        count
    }

    /// Leaves what changed without a commit that waits for it.
    pub(super) fn leave(&self, flow: &Flow, tracker: &mut GroupTracker) {
        for (group, partition, journal) in tracker.take_unwritten() {
            let Some(life) = self.lives.get(&partition) else { continue };
            let shard = flow.shard_of_group(&group);
            flow.notes.leave(shard, &StateRecord::Journal(life.clone(), group, journal));
        }
    }
}

/// Makes the entries durable. Answers the groups of which it did not come to pass, or is not known.
pub(super) async fn write(flow: &Flow, entries: Vec<Entry>) -> BTreeSet<GroupId> {
    let mut shards: BTreeMap<usize, BTreeSet<GroupId>> = BTreeMap::new();
    for (life, group, journal) in entries {
        let shard = flow.shard_of_group(&group);
        flow.notes.leave(shard, &StateRecord::Journal(life, group.clone(), journal));
        shards.entry(shard).or_default().insert(group);
    }
    let receipts: Vec<_> = shards
        .into_iter()
        .map(|(shard, groups)| {
            let receipt = flow.notes.receipt(shard);
            flow.dirty(shard).urgent();
            (receipt, groups)
        })
        .collect();
    let deadline = tokio::time::Instant::now() + WAIT_MAX;
    let mut failed = BTreeSet::new();
    for (receipt, groups) in receipts {
        if !matches!(tokio::time::timeout_at(deadline, receipt).await, Ok(Ok(()))) {
            failed.extend(groups);
        }
    }
    failed
}
