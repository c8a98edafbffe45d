//! What groups have committed on the source, as two tellers have it.
//!
//! *Polls* (OffsetFetch) tell all of a group at one moment. The *log* (`__consumer_offsets`) tells
//! each change, in order, from some moment on. Neither is believed blindly: the first answers of a
//! coordinator that has just moved are older than what it had acknowledged, and a log that is held
//! back by an open transaction is behind the polls.
//!
//! Does not: read either, decide what a commit means for the target.
//!
//! # Invariants
//!
//! 1. A commit counts at once when it is not behind the one before. A lower one, and that one is
//!    gone, count once a poll that was asked [`SourceCommits::CONFIRM_AFTER_MS`] after the first
//!    sign of it was heard says so too. How long an answer was under way tells nothing.
//! 2. A poll never takes back what the log has told since it was asked.
//! 3. A group is complete only after a poll: nothing is concluded from the log's tail alone.
//! 4. A commit on a topic that was made again is no step back.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_types::{GroupId, SourceOffset, TopicId, TopicName, TopicPartition};

/// A commit of a group in a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceCommit {
    /// The next offset that the group reads.
    pub offset: SourceOffset,
    /// What the application committed with it.
    pub metadata: String,
    /// The topic's id, where the teller knew it.
    pub topic_id: Option<TopicId>,
}

/// What a poll says of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Polled {
    /// The group has committed this.
    Commit(SourceCommit),
    /// Nothing that counts: a transaction is open over it, or the partition has a code of its own.
    Unsettled,
}

/// When a poll was asked, and how much the log had told by then.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    told: u64,
    at_ms: i64,
}

/// What an answer changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// A commit that counts is another one now.
    pub changed: bool,
    /// Commits that a poll had found long ago and that the log has not told to this day.
    pub missed_by_log: usize,
}

#[derive(Clone, Default, Debug)]
struct Entry {
    commit: Option<SourceCommit>,
    /// The number of the log's last forward word about it; 0: none.
    told: u64,
    /// Since when a lower commit, or none, is said.
    doubt_ms: Option<i64>,
    /// When the last poll was asked whose answer counts.
    asked_ms: i64,
    /// Since when somebody wants a poll to say so once more.
    wanted_ms: Option<i64>,
    /// Since when a poll is ahead of the log.
    ahead_ms: Option<i64>,
}

#[derive(Clone, Default, Debug)]
struct Group {
    complete: bool,
    partitions: BTreeMap<TopicPartition, Entry>,
}

/// The commits of the groups that are followed.
#[derive(Clone, Default, Debug)]
pub struct SourceCommits {
    groups: BTreeMap<GroupId, Group>,
    /// Groups with a doubt, and its beginning.
    doubts: BTreeMap<GroupId, i64>,
    /// How often the log has told something.
    told: u64,
}

impl SourceCommits {
    /// How long after the first sign of a step back a poll must be asked to confirm it.
    pub const CONFIRM_AFTER_MS: i64 = 1_000;
    /// How long the log may stay behind a poll before it counts as having missed a commit.
    const LOG_LATE_MS: i64 = 20_000;

    /// No group yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows a group from now on. Answers whether it is new.
    pub fn follow(&mut self, group: &GroupId) -> bool {
        if self.groups.contains_key(group) {
            return false;
        }
        self.groups.insert(group.clone(), Group::default());
        true
    }

    /// Whether a group is followed.
    pub fn follows(&self, group: &GroupId) -> bool {
        self.groups.contains_key(group)
    }

    /// Forgets the groups that `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&GroupId) -> bool) {
        self.groups.retain(|group, _| keep(group));
        let groups = &self.groups;
        self.doubts.retain(|group, _| groups.contains_key(group));
    }

    /// Every followed group.
    pub fn groups(&self) -> impl Iterator<Item = &GroupId> {
        self.groups.keys()
    }

    /// How many groups are followed.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether no group is followed.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// What a group has committed, by partition; `None` until a poll has told all of it.
    pub fn commits(
        &self,
        group: &GroupId,
    ) -> Option<impl Iterator<Item = (&TopicPartition, &SourceCommit)>> {
        let group = self.groups.get(group).filter(|group| group.complete)?;
        Some(group.partitions.iter().filter_map(|(tp, entry)| Some((tp, entry.commit.as_ref()?))))
    }

    /// When the last poll was asked that told this commit, or one before it, in milliseconds since
    /// 1970; `None` where another one counts by now. The log's words may be old: they do not count.
    pub fn asked_ms(
        &self,
        group: &GroupId,
        tp: &TopicPartition,
        offset: SourceOffset,
    ) -> Option<i64> {
        let entry = self.groups.get(group)?.partitions.get(tp)?;
        (entry.commit.as_ref()?.offset == offset).then_some(entry.asked_ms)
    }

    /// Whoever knows of a later commit than the one that counts wants to hear of it from a poll that
    /// is asked [`CONFIRM_AFTER_MS`](Self::CONFIRM_AFTER_MS) from now.
    pub fn want(&mut self, group: &GroupId, tp: &TopicPartition, now_ms: i64) {
        let found = self.groups.get_mut(group).and_then(|group| group.partitions.get_mut(tp));
        if let Some(entry) = found {
            entry.wanted_ms = Some(entry.wanted_ms.map_or(now_ms, |since| since.min(now_ms)));
            self.weigh(group);
        }
    }

    /// To be called before a poll is asked.
    pub fn ask(&self, now_ms: i64) -> Asked {
        Asked { told: self.told, at_ms: now_ms }
    }

    /// Groups that no poll has told completely since they are followed, or since a gap of the log.
    pub fn incomplete(&self) -> impl Iterator<Item = &GroupId> {
        self.groups.iter().filter(|(_, group)| !group.complete).map(|(group, _)| group)
    }

    /// Groups with a doubt that a poll may settle now.
    pub fn doubted(&self, now_ms: i64) -> impl Iterator<Item = &GroupId> {
        let ripe = move |since: i64| now_ms < since || now_ms - since >= Self::CONFIRM_AFTER_MS;
        self.doubts.iter().filter(move |(_, since)| ripe(**since)).map(|(group, _)| group)
    }

    /// When the next doubt may be settled.
    pub fn next_doubt_ms(&self) -> Option<i64> {
        self.doubts.values().min().map(|since| since + Self::CONFIRM_AFTER_MS)
    }

    /// The log of these groups has a gap, or is read from now on only: they are to be polled.
    pub fn gap(&mut self, mut of: impl FnMut(&GroupId) -> bool) {
        for (name, group) in &mut self.groups {
            if of(name) {
                group.complete = false;
                for entry in group.partitions.values_mut() {
                    entry.ahead_ms = None;
                }
            }
        }
    }

    /// A topic was made again: what was committed on the one before is forgotten. Answers the
    /// groups that had a commit there.
    pub fn forget_topic(&mut self, topic: &TopicName) -> Vec<GroupId> {
        let mut forgot = Vec::new();
        for (name, group) in &mut self.groups {
            let before = group.partitions.len();
            group.partitions.retain(|tp, _| tp.topic != *topic);
            if group.partitions.len() < before {
                group.complete = false;
                forgot.push(name.clone());
            }
        }
        for group in &forgot {
            self.weigh(group);
        }
        forgot
    }

    /// A poll's whole answer about a group.
    pub fn polled(
        &mut self,
        group: &GroupId,
        answer: impl IntoIterator<Item = (TopicPartition, Polled)>,
        asked: Asked,
        now_ms: i64,
    ) -> Outcome {
        let Some(found) = self.groups.get_mut(group) else { return Outcome::default() };
        let mut outcome = Outcome { changed: !found.complete, missed_by_log: 0 };
        let first = !std::mem::replace(&mut found.complete, true);
        for entry in found.partitions.values_mut() {
            entry.wanted_ms.take_if(|since| asked.at_ms - *since >= Self::CONFIRM_AFTER_MS);
        }
        let mut present = BTreeSet::new();
        for (tp, told) in answer {
            present.insert(tp.clone());
            let Polled::Commit(commit) = told else {
                if let Some(entry) = found.partitions.get_mut(&tp) {
                    entry.wait_again(now_ms);
                }
                continue;
            };
            let entry = found.partitions.entry(tp).or_default();
            if entry.ahead_ms.is_some_and(|since| now_ms - since >= Self::LOG_LATE_MS) {
                outcome.missed_by_log += 1;
                entry.ahead_ms = None;
            }
            if entry.told > asked.told {
                continue;
            }
            let step = entry.commit.as_ref().map_or(Step::Forward, |known| known.step(&commit));
            match step {
                Step::None => {
                    entry.doubt_ms = None;
                    entry.asked_ms = asked.at_ms;
                }
                Step::Back if !entry.confirmed(asked) => entry.doubt(now_ms),
                Step::Forward | Step::Back => {
                    entry.doubt_ms = None;
                    entry.asked_ms = asked.at_ms;
                    if !first && step == Step::Forward {
                        entry.ahead_ms.get_or_insert(now_ms);
                    }
                    entry.commit = Some(commit);
                    outcome.changed = true;
                }
            }
        }
        let gone = found.partitions.iter_mut().filter(|(tp, _)| !present.contains(*tp));
        for (_, entry) in gone.filter(|(_, entry)| entry.commit.is_some()) {
            if entry.told > asked.told {
                continue;
            }
            if entry.confirmed(asked) {
                *entry = Entry::default();
                outcome.changed = true;
            } else {
                entry.doubt(now_ms);
            }
        }
        found.partitions.retain(|tp, entry| entry.commit.is_some() || present.contains(tp));
        self.weigh(group);
        outcome
    }

    /// A poll could not read a group: what was to be settled is asked for again a while later.
    pub fn unread(&mut self, group: &GroupId, now_ms: i64) {
        let found = self.groups.get_mut(group);
        for entry in found.into_iter().flat_map(|group| group.partitions.values_mut()) {
            entry.wait_again(now_ms);
        }
        self.weigh(group);
    }

    /// A record of the log: a commit, or with `None` that there is none any more. Answers whether a
    /// commit that counts is another one now.
    pub fn logged(
        &mut self,
        group: &GroupId,
        tp: &TopicPartition,
        commit: Option<SourceCommit>,
        now_ms: i64,
    ) -> bool {
        let Some(found) = self.groups.get_mut(group) else { return false };
        self.told += 1;
        let Some(commit) = commit else {
            if let Some(entry) = found.partitions.get_mut(tp) {
                entry.ahead_ms = None;
                entry.doubt(now_ms);
                self.weigh(group);
            }
            return false;
        };
        if !found.partitions.contains_key(tp) {
            found.partitions.insert(tp.clone(), Entry::default());
        }
        let Some(entry) = found.partitions.get_mut(tp) else { return false };
        entry.ahead_ms = None;
        let step = entry.commit.as_ref().map_or(Step::Forward, |known| known.step(&commit));
        match step {
            Step::Back => {
                entry.doubt(now_ms);
                self.weigh(group);
                return false;
            }
            Step::None => {
                // It may know the topic's id now.
                entry.commit = Some(commit);
            }
            Step::Forward => entry.commit = Some(commit),
        }
        entry.told = self.told;
        if entry.doubt_ms.take().is_some() {
            self.weigh(group);
        }
        step == Step::Forward
    }

    /// Keeps the group's place among the doubts.
    fn weigh(&mut self, group: &GroupId) {
        let partitions = self.groups.get(group).map(|group| group.partitions.values());
        let entries = partitions.into_iter().flatten();
        let since = entries.flat_map(|entry| [entry.doubt_ms, entry.wanted_ms]).flatten().min();
        match since {
            Some(since) => drop(self.doubts.insert(group.clone(), since)),
            None => drop(self.doubts.remove(group)),
        }
    }
}

/// From one commit to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    None,
    Forward,
    Back,
}

impl SourceCommit {
    fn step(&self, next: &Self) -> Step {
        let made_again = matches!((self.topic_id, next.topic_id), (Some(a), Some(b)) if a != b);
        if made_again || next.offset > self.offset {
            Step::Forward
        } else if next.offset < self.offset {
            Step::Back
        } else if next.metadata == self.metadata {
            Step::None
        } else {
            Step::Forward
        }
    }
}

impl Entry {
    /// Something that is to be confirmed was heard now.
    fn doubt(&mut self, now_ms: i64) {
        let since = self.doubt_ms.get_or_insert(now_ms);
        // The clock stepped back: from here on.
        *since = now_ms.min(*since);
    }

    /// Nothing was learnt: a doubt waits from here on.
    fn wait_again(&mut self, now_ms: i64) {
        for since in [&mut self.doubt_ms, &mut self.wanted_ms] {
            *since = since.map(|_| now_ms);
        }
    }

    /// Whether a poll that was asked then settles the doubt.
    fn confirmed(&self, asked: Asked) -> bool {
        let confirm_after = SourceCommits::CONFIRM_AFTER_MS;
        self.doubt_ms.is_some_and(|since| asked.at_ms - since >= confirm_after)
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
