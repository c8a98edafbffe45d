//! Everything of a flow, read at once, for the chains of all its groups and topics.
//!
//! Does not: judge. What one chain needs is a [`Facts`] of its subject; a survey turns to one
//! subject after the other, without copying what they share.
//!
//! # Invariants
//!
//! 1. Reading takes a number of requests that grows with the number of brokers, of groups that live
//!    on the target and of partitions of MM2's small topics, and not with topics or groups.
//! 2. The target's commits are read before the source's, and both before the checkpoints that
//!    translate them.
//! 3. Of MM2's topics only what is asked about stays in memory: a pair of offsets for each commit, a
//!    bounded series of checkpoints for each position.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use twinlog_client::{CommittedOffset, ErrorCode, GroupKind, GroupListing, GroupMember};
use twinlog_engine::in_parallel;
use twinlog_engine::observe::{Observer, Resource};
use twinlog_mirror::formats::Checkpoint;
use twinlog_mirror::{FlowConfig, Problem, replicates, why_not_replicated};
use twinlog_types::{GroupId, SourceOffset, TopicName, TopicPartition};

use crate::chain::Subject;
use crate::diagnose::Wanted;
use crate::facts::{CheckpointSeries, Facts, GroupFacts, Trouble};
use crate::read::{each_record, epochs, note, share_groups};

/// Groups whose members are asked for at the same time.
const AT_A_TIME: usize = 16;

/// What was read of a flow.
#[derive(Clone, Debug)]
pub struct Survey {
    /// What all subjects share; it has no subject of its own.
    pub facts: Facts,
    /// The groups of the source.
    pub groups: BTreeMap<GroupId, GroupFacts>,
    /// What is to be diagnosed of it. Everything is read all the same; rights that what is asked
    /// for does not need are not missed.
    pub wanted: Wanted,
    /// Their checkpoints.
    pub checkpoints: BTreeMap<GroupId, BTreeMap<TopicPartition, CheckpointSeries>>,
}

impl Survey {
    /// Nothing read yet. `bootstrap`: where the source and the target are.
    pub fn new(
        config: Arc<FlowConfig>,
        bootstrap: (String, String),
        notes: Vec<Problem>,
        now_ms: i64,
    ) -> Self {
        let nobody = Subject::Group(GroupId::from(""));
        Self {
            facts: Facts::new(config, nobody, bootstrap, notes, now_ms),
            groups: BTreeMap::new(),
            wanted: Wanted::default(),
            checkpoints: BTreeMap::new(),
        }
    }

    /// Reads everything. What is found is put down as it is found, so that a caller who gives up
    /// waiting has the rest.
    pub async fn read(&mut self, observer: &Observer) {
        self.facts.read_sides(observer).await;
        if self.facts.source.id.is_err() && self.facts.target.id.is_err() {
            return;
        }
        self.read_groups(observer).await;
        self.read_rights(observer).await;
        if self.facts.source.id.is_err() {
            observer.observe_target(&mut self.facts.found).await;
        } else {
            observer.observe(&mut self.facts.found).await;
        }
        if self.facts.target.id.is_err() {
            return;
        }
        let partitions = self.partitions();
        self.facts.read_mm2(observer, |_| true).await;
        self.facts.read_bounds(observer, &partitions).await;
        self.read_checkpoints(observer).await;
        self.facts.read_syncs(observer, &partitions).await;
        self.facts.read_contents(observer, &partitions).await;
    }

    async fn read_rights(&mut self, observer: &Observer) {
        let Wanted { group, topic } = self.wanted.clone();
        let read = group.as_ref().and_then(|group| self.groups.get(group));
        let commits = read.and_then(|read| read.source_commits.as_ref().ok());
        let topics: Option<BTreeSet<TopicName>> = match (topic, commits) {
            (Some(topic), _) => Some(BTreeSet::from([topic])),
            (None, Some(commits)) => Some(commits.iter().map(|one| one.tp.topic.clone()).collect()),
            (None, None) => None,
        };
        self.facts.read_rights(observer, group.as_ref(), topics.as_ref()).await;
    }

    async fn read_groups(&mut self, observer: &Observer) {
        let facts = &self.facts;
        let Ok(listed) = facts.source.groups.as_ref().or(facts.target.groups.as_ref()) else {
            return;
        };
        // One that is asked for by name may be there and not be listed.
        let ids: BTreeSet<GroupId> = listed.keys().chain(&self.wanted.group).cloned().collect();
        let ids: Vec<GroupId> = ids.into_iter().collect();
        let share = share_groups(listed);
        let mut members = self.read_members(observer, &ids).await;
        let target = observer.target.fetch_positions(&ids, &share).await;
        let source = match &facts.source.id {
            Ok(_) => Some(observer.source.fetch_positions(&ids, &share).await),
            Err(_) => None,
        };
        let (on_source, on_target) = (&facts.source.alias, &facts.target.alias);
        for id in ids {
            let of = |alias| format!("the offsets of group {id} on {alias}");
            let denied = |trouble: Trouble, alias| {
                trouble.for_want_of(alias, "Describe", Resource::Group(id.clone()))
            };
            let told = |answers: &Result<Answers, _>, alias| match answers {
                Ok(answers) => match answers.get(&id) {
                    Some(Ok(commits)) => Ok(commits.clone()),
                    Some(Err(code)) => Err(denied(Trouble::answered(&of(alias), *code), alias)),
                    None => Ok(Vec::new()),
                },
                Err(error) => Err(denied(Trouble::of(&of(alias), error), alias)),
            };
            let source_commits = match (&source, &facts.source.id) {
                (Some(answers), _) => told(answers, on_source),
                (None, Err(trouble)) => Err(trouble.clone()),
                (None, Ok(_)) => Err(Trouble::not_looked_at()),
            };
            let target_commits = told(&target, on_target);
            let target_epochs =
                epochs(&observer.target, target_commits.as_deref().unwrap_or_default());
            let target_commits = target_commits.map(|commits| {
                let there = commits.into_iter().filter(|commit| commit.offset >= 0);
                there.map(|commit| (commit.tp, commit.offset)).collect()
            });
            let members = members.remove(&id).unwrap_or_else(|| Ok(Vec::new()));
            let read = GroupFacts { source_commits, target_commits, target_epochs, members };
            self.groups.insert(id, read);
        }
        for read in self.groups.values() {
            let commits = read.source_commits.as_ref().ok().into_iter().flatten();
            for commit in commits.filter(|commit| commit.offset >= 0) {
                let positions = self.facts.positions.entry(commit.tp.clone()).or_default();
                positions.insert(SourceOffset(commit.offset));
            }
        }
    }

    /// Who is in those groups that live on the target.
    async fn read_members(
        &self,
        observer: &Observer,
        ids: &[GroupId],
    ) -> BTreeMap<GroupId, Result<Vec<GroupMember>, Trouble>> {
        let side = &self.facts.target;
        let listed = match &side.groups {
            Ok(listed) => listed,
            Err(trouble) => {
                return ids.iter().map(|id| (id.clone(), Err(trouble.clone()))).collect();
            }
        };
        let lives = |listing: &&GroupListing| {
            !matches!(listing.state.as_str(), "Empty" | "Dead" | "" | "Unknown")
                && listing.kind != GroupKind::Streams
        };
        let asked = ids.iter().filter_map(|id| listed.get(id)).filter(lives).map(|listing| {
            let (target, listing) = (observer.target.clone(), listing.clone());
            let alias = side.alias.clone();
            async move {
                let described = target.describe_group(&listing.group, listing.kind).await;
                let members = match described {
                    Ok(described) => Ok(described.member_list),
                    Err(error) if error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND) => {
                        Ok(Vec::new())
                    }
                    Err(error) => {
                        let what = format!("the members of group {} on {alias}", listing.group);
                        let resource = Resource::Group(listing.group.clone());
                        let trouble = Trouble::of(&what, &error);
                        Err(trouble.for_want_of(&alias, "Describe", resource))
                    }
                };
                (listing.group, members)
            }
        });
        in_parallel(AT_A_TIME, asked.collect()).await.into_iter().collect()
    }

    /// The partitions of the source that are mirrored, or that a group reads and that would be.
    fn partitions(&self) -> BTreeSet<TopicPartition> {
        let config = &self.facts.config;
        let topics = self.facts.source.topics.as_ref().ok().into_iter().flatten();
        let mirrored = topics.filter(|(topic, _)| replicates(config, topic.as_str()));
        let mut all: BTreeSet<TopicPartition> = mirrored
            .flat_map(|(topic, count)| (0..*count).map(|n| TopicPartition::new(topic.clone(), n)))
            .collect();
        for read in self.groups.values() {
            let commits = read.source_commits.as_ref().ok().into_iter().flatten();
            let mirrored = commits.filter(|commit| replicates(config, commit.tp.topic.as_str()));
            all.extend(mirrored.map(|commit| commit.tp.clone()));
        }
        all
    }

    async fn read_checkpoints(&mut self, observer: &Observer) {
        let topic = self.facts.checkpoints.topic.clone();
        let groups = &self.groups;
        let mut read: BTreeMap<GroupId, BTreeMap<TopicPartition, CheckpointSeries>> =
            BTreeMap::new();
        let mut total = 0;
        let side = &self.facts.target;
        let outcome = each_record(&observer.target, side, topic.as_str(), |key, value, time| {
            let Ok(checkpoint) = Checkpoint::decode(key, value) else { return };
            total += 1;
            let group = GroupId::from(checkpoint.group.as_str());
            if groups.contains_key(&group) {
                let tp = TopicPartition::new(checkpoint.topic, checkpoint.partition);
                let pair = (checkpoint.upstream, checkpoint.downstream);
                note(read.entry(group).or_default(), tp, pair, time);
            }
        });
        let there = outcome.await;
        self.facts.checkpoints.read = there.map(|there| there.then(BTreeMap::new));
        self.facts.checkpoints.total = total;
        self.checkpoints = read;
    }

    /// The groups that have something to carry over, or of which that could not be found out.
    pub fn groups_with_commits(&self) -> Vec<GroupId> {
        let has = |read: &GroupFacts| match &read.source_commits {
            Ok(commits) => commits.iter().any(|commit| commit.offset >= 0),
            Err(_) => true,
        };
        let groups = self.groups.iter().filter(|(_, read)| has(read));
        groups.map(|(group, _)| group.clone()).collect()
    }

    /// Topics of the source that are its own, and those that were mirrored once.
    pub fn topics(&self) -> BTreeSet<TopicName> {
        use twinlog_mirror::Refusal;
        let config = &self.facts.config;
        let own = |topic: &&TopicName| {
            let why = why_not_replicated(config, topic.as_str());
            !matches!(why, Some(Refusal::Cycle | Refusal::Internal))
        };
        let there = self.facts.source.topics.as_ref().ok().into_iter().flat_map(BTreeMap::keys);
        let known = self.facts.found.topics.iter().map(|topic| &topic.topic);
        there.filter(own).chain(known).cloned().collect()
    }

    /// Turns to a subject: its chain is judged by what `judge` is given.
    pub fn turn_to<T>(&mut self, subject: Subject, judge: impl FnOnce(&Facts) -> T) -> T {
        let group = match &subject {
            Subject::Group(group) => Some(group.clone()),
            Subject::Topic(_) => None,
        };
        if let Some(group) = &group {
            self.facts.group = self.groups.remove(group).or_else(|| self.of_unknown_group());
            if let Ok(Some(read)) = &mut self.facts.checkpoints.read {
                *read = self.checkpoints.remove(group).unwrap_or_default();
            }
        }
        self.facts.subject = subject;
        let judged = judge(&self.facts);
        if let Some(group) = group {
            if let Ok(Some(read)) = &mut self.facts.checkpoints.read {
                self.checkpoints.insert(group.clone(), std::mem::take(read));
            }
            if let Some(read) = self.facts.group.take() {
                self.groups.insert(group, read);
            }
        }
        judged
    }

    /// A group that neither cluster lists has committed nothing that may be seen.
    fn of_unknown_group(&self) -> Option<GroupFacts> {
        let listed = self.facts.source.groups.is_ok() && self.facts.target.groups.is_ok();
        listed.then(|| GroupFacts {
            source_commits: Ok(Vec::new()),
            target_commits: Ok(BTreeMap::new()),
            target_epochs: BTreeMap::new(),
            members: Ok(Vec::new()),
        })
    }
}

type Answers = BTreeMap<GroupId, Result<Vec<CommittedOffset>, ErrorCode>>;
