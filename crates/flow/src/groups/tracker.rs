//! Every followed group with its positions, since when it stands so, and the counts for `status`.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_offsets::state::{GroupJournal, Placed};
use twinlog_types::{Code, GroupId, SourceOffset, State, TargetOffset, TopicPartition};

use super::decide::{Belief, Decision, GroupAction, History, Reading, Rules, decide};
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
    pending: Option<Pending>,
}

/// What was decided and is not acknowledged.
#[derive(Clone, Debug)]
struct Pending {
    placed: Placed,
    /// Whether it moves the position.
    moves: bool,
    /// How the position stands then.
    standing: Standing,
}

impl PartitionPosition {
    /// The source commit that counts: a lower one only once a second reading has confirmed it.
    pub fn source(&self) -> Option<SourceOffset> {
        self.history.source
    }

    /// What we committed, as the journal must have it.
    pub fn journal(&self) -> &GroupJournal {
        &self.history.journal
    }

    /// Whether the source's commit is behind the one before, and waits for a second word.
    pub fn is_doubted(&self) -> bool {
        self.history.lower.is_some()
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

#[derive(Clone, Debug, Default)]
struct Group {
    /// Why the group as a whole is left out or cannot be read, and since when.
    whole: Option<(Standing, i64)>,
    partitions: BTreeMap<TopicPartition, PartitionPosition>,
    /// What earlier commits are known of partitions that were not read yet.
    seeds: BTreeMap<TopicPartition, History>,
}

/// What became of an operator's decision about one position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Overwritten {
    /// The target acknowledged this offset, or stood there already.
    Done(TargetOffset),
    /// The position has moved since the decision was made: it stands here now.
    Void(Option<TargetOffset>),
}

/// The groups of one flow.
#[derive(Clone, Debug)]
pub struct GroupTracker {
    rules: Rules,
    groups: BTreeMap<GroupId, Group>,
    /// Positions whose journal changed without anybody waiting for it.
    unwritten: BTreeSet<(GroupId, TopicPartition)>,
    overwritten: Vec<(GroupId, TopicPartition, Overwritten)>,
}

impl GroupTracker {
    /// No group yet.
    pub fn new(rules: Rules) -> Self {
        Self { rules, groups: BTreeMap::new(), unwritten: BTreeSet::new(), overwritten: Vec::new() }
    }

    /// Changes the rules, as a reloaded configuration does.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// States what we committed before (from the journal); before the first reading of the partition.
    pub fn seed(&mut self, group: &GroupId, partition: &TopicPartition, journal: GroupJournal) {
        let seed = self.group(group).seeds.entry(partition.clone()).or_default();
        *seed = History { overwrite: seed.overwrite, ..History::from_journal(journal) };
    }

    /// An operator allows to move a position back, for as long as it stands at `stands`. What came of
    /// it is told by [`take_overwritten`](Self::take_overwritten).
    pub fn overwrite(&mut self, group: &GroupId, partition: &TopicPartition, stands: TargetOffset) {
        let group = self.group(group);
        let history = match group.partitions.get_mut(partition) {
            Some(position) => &mut position.history,
            None => group.seeds.entry(partition.clone()).or_default(),
        };
        history.overwrite = Some(stands);
    }

    /// What became of the positions that an operator decided about, each told once.
    pub fn take_overwritten(&mut self) -> Vec<(GroupId, TopicPartition, Overwritten)> {
        std::mem::take(&mut self.overwritten)
    }

    /// Decides about one reading. A returned [`Commit`](GroupAction::Commit) is sent once what
    /// [`PartitionPosition::journal`] says is durable; it and a [`Renew`](GroupAction::Renew) are
    /// followed by exactly one of [`committed`](Self::committed), [`refused`](Self::refused) or
    /// [`failed`](Self::failed); until then the position stands as before.
    pub fn observe(
        &mut self,
        name: &GroupId,
        partition: &TopicPartition,
        reading: Reading,
        now_ms: i64,
    ) -> GroupAction {
        let rules = self.rules;
        let group = self.groups.entry(name.clone()).or_default();
        group.whole = None;
        let mut history = match group.partitions.get_mut(partition) {
            Some(position) => std::mem::take(&mut position.history),
            None => group.seeds.remove(partition).unwrap_or_default(),
        };
        let before = history.journal.clone();
        let belief = history.believe(&rules, &reading, now_ms);
        let mut decision = decide(&rules, name, &mut history, &reading, now_ms);
        if belief != Belief::Counts {
            decision = unbelieved(belief, decision);
        }
        let Decision { action, standing } = decision;
        if belief == Belief::Counts {
            let settled = settle_overwrite(&mut history, &reading, action);
            self.overwritten.extend(settled.map(|what| (name.clone(), partition.clone(), what)));
        }
        let first = || Standing::because(State::CatchingUp, "not committed on the target yet");
        let position =
            group.partitions.entry(partition.clone()).or_insert_with(|| PartitionPosition {
                reading,
                standing: first(),
                since_ms: now_ms,
                history: History::default(),
                pending: None,
            });
        position.pending = None;
        let moves = matches!(action, GroupAction::Commit(_));
        if let (GroupAction::Commit(target), Some(source)) = (action, history.source) {
            history.journal.plan(Placed { source, target });
        } else if history.journal != before {
            self.unwritten.insert((name.clone(), partition.clone()));
        }
        position.history = history;
        // A reading that is not confirmed is not shown either.
        let Some(standing) = standing else { return action };
        position.reading = reading;
        match (action, position.history.source) {
            (GroupAction::Commit(target) | GroupAction::Renew(target), Some(source)) => {
                let placed = Placed { source, target };
                position.pending = Some(Pending { placed, moves, standing });
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
        let Some(Pending { placed, moves, standing }) =
            position.pending.take_if(|pending| pending.placed.target == offset)
        else {
            return;
        };
        let history = &mut position.history;
        history.journal.written_ms = now_ms;
        let mut overwritten = None;
        if moves {
            history.journal.settle(placed);
            history.stands_at(Some(offset));
            history.rewound_from = None;
            history.idle_since_ms = None;
            overwritten = history.overwrite.take();
        }
        position.reading.target = Some(offset);
        position.stand(standing, now_ms);
        self.unwritten.insert((group.clone(), partition.clone()));
        if overwritten.is_some() {
            let done = Overwritten::Done(offset);
            self.overwritten.push((group.clone(), partition.clone(), done));
        }
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
        /// NON_EMPTY_GROUP: the same of share groups.
        const NON_EMPTY_GROUP: i16 = 68;
        let Some(position) = self.position(group, partition) else { return };
        let pending = position.pending.take();
        let offset =
            pending.as_ref().map_or_else(String::new, |one| format!(" {}", one.placed.target));
        if pending.is_some_and(|pending| pending.moves) {
            // It certainly did not arrive.
            position.history.journal.unplan();
        }
        let standing = if matches!(code, UNKNOWN_MEMBER_ID | NON_EMPTY_GROUP) {
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
        self.unwritten.insert((group.clone(), partition.clone()));
    }

    /// The commit was not sent, as the position has moved since it was read; the next reading counts.
    pub fn given_up(&mut self, group: &GroupId, partition: &TopicPartition) {
        let Some(position) = self.position(group, partition) else { return };
        if position.pending.take().is_some_and(|pending| pending.moves) {
            position.history.journal.unplan();
            self.unwritten.insert((group.clone(), partition.clone()));
        }
    }

    /// What the journal must say of positions that changed without a commit that waits for it.
    pub fn take_unwritten(&mut self) -> Vec<(GroupId, TopicPartition, GroupJournal)> {
        let changed = std::mem::take(&mut self.unwritten);
        let journals = changed.into_iter().filter_map(|(group, partition)| {
            let position = self.groups.get(&group)?.partitions.get(&partition)?;
            Some((group, partition, position.history.journal.clone()))
        });
        journals.collect()
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
        if position.pending.take().is_some_and(|pending| pending.moves) {
            position.history.journal.doubt();
        }
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

    /// Forgets all that is known of a group.
    pub fn forget_group(&mut self, group: &GroupId) {
        self.groups.remove(group);
        self.unwritten.retain(|(named, _)| named != group);
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

    /// A group's position in one partition.
    pub fn position_of(
        &self,
        group: &GroupId,
        partition: &TopicPartition,
    ) -> Option<&PartitionPosition> {
        self.groups.get(group)?.partitions.get(partition)
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

    /// Everything that decides about what comes, with times told from `now_ms` back.
    #[cfg(test)]
    pub(super) fn relative(&self, now_ms: i64) -> String {
        let ago = |ms: i64| (now_ms - ms).min(2_000);
        let mut text = format!("{:?}", self.unwritten);
        for group in self.groups.values() {
            let positions =
                group.partitions.values().map(|one| (&one.history, one.pending.is_some()));
            for (history, pending) in positions.chain(group.seeds.values().map(|one| (one, false)))
            {
                let mut history = history.clone();
                history.lower = history.lower.map(|(offset, ms)| (offset, ago(ms)));
                history.older = history.older.map(|(offset, ms)| (offset, ago(ms)));
                history.idle_since_ms = history.idle_since_ms.map(ago);
                history.journal.written_ms = 0;
                text = format!("{text}{history:?} {pending}");
            }
        }
        text
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

/// A word of the target that is not believed yet moves nothing. What it tells against us counts all the
/// same: that somebody else may have moved the position.
fn unbelieved(belief: Belief, decision: Decision) -> Decision {
    let waits = belief == Belief::Older || matches!(decision.action, GroupAction::Commit(_));
    let standing = decision.standing.filter(|_| !waits);
    Decision { action: GroupAction::Keep, standing }
}

/// What a reading says of an operator's decision, where that settles it.
fn settle_overwrite(
    history: &mut History,
    reading: &Reading,
    action: GroupAction,
) -> Option<Overwritten> {
    let stands = history.overwrite?;
    if reading.target != Some(stands) {
        history.overwrite = None;
        return Some(Overwritten::Void(reading.target));
    }
    let there = reading.translation.offset() == Some(stands);
    if there && !matches!(action, GroupAction::Commit(_)) {
        history.overwrite = None;
        return Some(Overwritten::Done(stands));
    }
    None
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
