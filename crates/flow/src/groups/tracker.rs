//! Every followed group with its positions, since when it stands so, and the counts for `status`.

use std::collections::BTreeMap;

use twinlog_types::{Code, GroupId, SourceOffset, State, TargetOffset, TopicPartition};

use super::decide::{Committed, Decision, GroupAction, History, Reading, Rules, decide};
use super::selection::GroupSelection;
use crate::standing::Standing;

/// A group's position in one partition of the source, as last seen.
#[derive(Clone, Debug)]
pub struct PartitionPosition {
    /// The last reading.
    pub reading: Reading,
    /// How it stands. A commit that was decided on counts when the target has acknowledged it.
    pub standing: Standing,
    /// Since when it stands so (state and code).
    pub since_ms: i64,
    history: History,
    /// What was decided and is not acknowledged: the commit, its source, and how it stands then.
    pending: Option<(TargetOffset, SourceOffset, Standing)>,
}

impl PartitionPosition {
    /// The source commit that counts: a lower one only once a second reading has confirmed it.
    pub fn source(&self) -> Option<SourceOffset> {
        self.history.source
    }

    /// What we last committed, where that is known.
    pub fn ours(&self) -> Option<Committed> {
        self.history.ours
    }

    /// Whether the last reading counts, so that a checkpoint may be written of it.
    pub fn is_confirmed(&self) -> bool {
        self.history.lower.is_none() && self.reading.source.is_some()
    }

    fn stand(&mut self, standing: Standing, now_ms: i64) {
        if !self.standing.same_kind(&standing) {
            self.since_ms = now_ms;
        }
        self.standing = standing;
    }
}

/// How a group as a whole stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStanding {
    /// The standing of its most urgent partition, or of the group where it is not followed.
    pub standing: Standing,
    /// The partition that the standing comes from, where it comes from one.
    pub partition: Option<TopicPartition>,
    /// Since when.
    pub since_ms: i64,
}

#[derive(Debug, Default)]
struct Group {
    /// Why the group as a whole is left out or cannot be read, and since when.
    whole: Option<(Standing, i64)>,
    partitions: BTreeMap<TopicPartition, PartitionPosition>,
    /// What earlier commits are known of partitions that were not read yet.
    seeds: BTreeMap<TopicPartition, History>,
}

/// The groups of one flow.
#[derive(Debug)]
pub struct GroupTracker {
    rules: Rules,
    groups: BTreeMap<GroupId, Group>,
}

impl GroupTracker {
    /// No group yet.
    pub fn new(rules: Rules) -> Self {
        Self { rules, groups: BTreeMap::new() }
    }

    /// Changes the rules, as a reloaded configuration does.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// States what we committed before (from a journal); before the first reading of the partition.
    pub fn seed(&mut self, group: &GroupId, partition: &TopicPartition, ours: Committed) {
        let history = History { source: Some(ours.source), ours: Some(ours), ..History::default() };
        self.group(group).seeds.insert(partition.clone(), history);
    }

    /// Decides about one reading. A returned commit is followed by exactly one of
    /// [`committed`](Self::committed), [`refused`](Self::refused) or [`failed`](Self::failed); until
    /// then the position stands as before.
    pub fn observe(
        &mut self,
        group: &GroupId,
        partition: &TopicPartition,
        reading: Reading,
        now_ms: i64,
    ) -> GroupAction {
        let rules = self.rules;
        let group = self.group(group);
        group.whole = None;
        let mut history = match group.partitions.get_mut(partition) {
            Some(position) => std::mem::take(&mut position.history),
            None => group.seeds.remove(partition).unwrap_or_default(),
        };
        let Decision { action, standing } = decide(&rules, &mut history, &reading, now_ms);
        let first = || Standing::because(State::CatchingUp, "not committed on the target yet");
        let position =
            group.partitions.entry(partition.clone()).or_insert_with(|| PartitionPosition {
                reading,
                standing: first(),
                since_ms: now_ms,
                history: History::default(),
                pending: None,
            });
        position.history = history;
        position.pending = None;
        // A reading that is not confirmed is not shown either.
        let Some(standing) = standing else { return action };
        position.reading = reading;
        match (action, position.history.source) {
            (GroupAction::Commit(offset), Some(source)) => {
                position.pending = Some((offset, source, standing));
            }
            _ => position.stand(standing, now_ms),
        }
        action
    }

    /// The target acknowledged the commit.
    pub fn committed(
        &mut self,
        group: &GroupId,
        partition: &TopicPartition,
        offset: TargetOffset,
        now_ms: i64,
    ) {
        let Some(position) = self.position(group, partition) else { return };
        let Some((_, source, standing)) =
            position.pending.take_if(|(pending, _, _)| *pending == offset)
        else {
            return;
        };
        position.history.ours = Some(Committed { source, target: offset, at_ms: Some(now_ms) });
        position.reading.target = Some(offset);
        position.stand(standing, now_ms);
    }

    /// The target refused the commit: `code` as Kafka's protocol numbers it, `text` names it.
    pub fn refused(
        &mut self,
        group: &GroupId,
        partition: &TopicPartition,
        code: i16,
        text: &str,
        now_ms: i64,
    ) {
        /// UNKNOWN_MEMBER_ID: what a group with members answers to a commit from outside, for
        /// classic, consumer and streams groups alike; also while a static member's session lasts.
        const UNKNOWN_MEMBER_ID: i16 = 25;
        let Some(position) = self.position(group, partition) else { return };
        let offset = position.pending.take().map_or_else(String::new, |(o, _, _)| format!(" {o}"));
        let standing = if code == UNKNOWN_MEMBER_ID {
            Standing::found(
                State::Waiting,
                Code::GroupLiveOnTarget,
                format!("the target refused the commit{offset}: the group has live members there"),
            )
        } else {
            Standing::found(
                State::Waiting,
                Code::CommitRefused,
                format!("the target refused the commit{offset}: {text} ({code})"),
            )
        };
        position.stand(standing, now_ms);
    }

    /// Whether the commit arrived is not known; the next reading tells.
    pub fn failed(
        &mut self,
        group: &GroupId,
        partition: &TopicPartition,
        reason: &str,
        now_ms: i64,
    ) {
        let Some(position) = self.position(group, partition) else { return };
        position.pending = None;
        let reason = format!("the commit was not answered: {reason}");
        position.stand(Standing::because(State::Unknown, reason), now_ms);
    }

    /// Takes note of a group's selection; one that is not followed keeps no positions.
    pub fn select(&mut self, group: &GroupId, selection: &GroupSelection, now_ms: i64) {
        let group = self.group(group);
        if let Some(standing) = selection.standing() {
            group.partitions.clear();
            group.seeds.clear();
            group.stand(standing, now_ms);
        } else {
            group.whole.take_if(|(standing, _)| standing.state == State::Excluded);
        }
    }

    /// The group as a whole could not be read or written: how it stands until the next reading.
    pub fn unreadable(&mut self, group: &GroupId, standing: Standing, now_ms: i64) {
        self.group(group).stand(standing, now_ms);
    }

    /// Forgets the groups that `keep` does not want, as when they are gone from the source.
    pub fn retain(&mut self, mut keep: impl FnMut(&GroupId) -> bool) {
        self.groups.retain(|group, _| keep(group));
    }

    /// Forgets the positions in one partition of all groups: its topic was made again or is no
    /// longer mirrored, so that a lower commit there is not a rewind.
    pub fn forget_partition(&mut self, partition: &TopicPartition) {
        for group in self.groups.values_mut() {
            group.partitions.remove(partition);
            group.seeds.remove(partition);
        }
    }

    /// Forgets one group's position in one partition.
    pub fn forget_position(&mut self, group: &GroupId, partition: &TopicPartition) {
        if let Some(group) = self.groups.get_mut(group) {
            group.partitions.remove(partition);
            group.seeds.remove(partition);
        }
    }

    /// Every known group, followed or not.
    pub fn groups(&self) -> impl Iterator<Item = &GroupId> {
        self.groups.keys()
    }

    /// The positions of a group.
    pub fn positions(
        &self,
        group: &GroupId,
    ) -> impl Iterator<Item = (&TopicPartition, &PartitionPosition)> {
        self.groups.get(group).into_iter().flat_map(|group| &group.partitions)
    }

    /// How a group stands; `None` for one that is not known.
    pub fn standing(&self, group: &GroupId) -> Option<GroupStanding> {
        let group = self.groups.get(group)?;
        if let Some((standing, since_ms)) = &group.whole {
            return Some(GroupStanding {
                standing: standing.clone(),
                partition: None,
                since_ms: *since_ms,
            });
        }
        group.partitions.iter().max_by_key(|(_, position)| position.standing.urgency()).map(
            |(partition, position)| GroupStanding {
                standing: position.standing.clone(),
                partition: Some(partition.clone()),
                since_ms: position.since_ms,
            },
        )
    }

    /// How many groups stand in which state. Groups without any reading count as catching up.
    pub fn counts(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::new();
        for group in self.groups.keys() {
            let state = self.standing(group).map_or(State::CatchingUp, |s| s.standing.state);
            *counts.entry(state).or_default() += 1;
        }
        counts
    }

    fn group(&mut self, group: &GroupId) -> &mut Group {
        self.groups.entry(group.clone()).or_default()
    }

    fn position(
        &mut self,
        group: &GroupId,
        partition: &TopicPartition,
    ) -> Option<&mut PartitionPosition> {
        self.groups.get_mut(group)?.partitions.get_mut(partition)
    }
}

impl Group {
    fn stand(&mut self, standing: Standing, now_ms: i64) {
        let since_ms = match &self.whole {
            Some((before, since_ms)) if before.same_kind(&standing) => *since_ms,
            _ => now_ms,
        };
        self.whole = Some((standing, since_ms));
    }
}
