//! Looks at both clusters. Reads only.
//!
//! What could not be read becomes a [`Trouble`] in its place; everything else is still read. Facts
//! are filled in as they come, so that a caller who gives up waiting has the rest.
//!
//! # Invariants
//!
//! The target's commits are read before the source's, and both before the checkpoints that
//! translate them: what is carried over in between then looks late, never ahead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use twinlog_client::{
    ClientError, Cluster, CommittedOffset, ErrorCode, GroupKind, GroupListing, Isolation,
    OffsetSpec, Topics,
};
use twinlog_engine::observe::{FlowObservation, Observer, Resource, Right, Rights, RightsFor};
use twinlog_mirror::formats::{Checkpoint, OffsetSync};
use twinlog_mirror::{FlowConfig, Problem, replicates};
use twinlog_types::{GroupId, LeaderEpoch, SourceOffset, TargetOffset, TopicName, TopicPartition};

use crate::chain::Subject;
use crate::contents::Contents;
use crate::facts::{CheckpointSeries, Checkpoints, Facts, GroupFacts, Side, Syncs, Trouble};
use crate::history::SyncHistory;
use crate::mm2::{Mm2, Worker};

/// Older checkpoints of a partition that are kept: enough to find where a group stood before.
const EARLIER_MAX: usize = 256;

impl Facts {
    /// Nothing read yet. `bootstrap`: where the source and the target are.
    pub fn new(
        config: Arc<FlowConfig>,
        subject: Subject,
        (source, target): (String, String),
        notes: Vec<Problem>,
        now_ms: i64,
    ) -> Self {
        let name = config.name.clone();
        let (syncs_on, other) = if config.offset_syncs_on_target {
            (&name.target, &name.target)
        } else {
            (&name.source, &name.source)
        };
        let syncs = Syncs {
            topic: config.offset_syncs_topic(),
            on: syncs_on.clone(),
            read: Err(Trouble::not_looked_at()),
            elsewhere: Some(config.policy.offset_syncs_topic(other.as_str())),
        };
        let checkpoints = Checkpoints {
            topic: config.checkpoints_topic(),
            read: Err(Trouble::not_looked_at()),
            total: 0,
        };
        Self {
            subject,
            notes,
            assumed: BTreeSet::new(),
            now_ms,
            source: Side::new(name.source.clone(), source),
            target: Side::new(name.target.clone(), target),
            rights: Rights::default(),
            found: FlowObservation::new(name),
            mm2: Mm2::default(),
            group: None,
            bounds: BTreeMap::new(),
            source_bounds: BTreeMap::new(),
            positions: BTreeMap::new(),
            contents: Contents::default(),
            syncs,
            checkpoints,
            connect: None,
            cut_off: None,
            config,
        }
    }

    /// What there is on both clusters.
    pub(crate) async fn read_sides(&mut self, observer: &Observer) {
        tokio::join!(
            side(&observer.source, &mut self.source),
            side(&observer.target, &mut self.target),
        );
    }

    /// Reads everything that concerns the subject.
    pub async fn read(&mut self, observer: &Observer) {
        self.read_sides(observer).await;
        if self.source.id.is_err() && self.target.id.is_err() {
            return;
        }
        self.own_name();
        let subject = &self.subject.clone();
        if let Subject::Group(group) = subject {
            self.group = Some(self.read_group(observer, group).await);
        }
        let (topics, group) = match subject {
            Subject::Topic(topic) => (BTreeSet::from([topic.clone()]), None),
            Subject::Group(group) => {
                let read = self.partitions_of(subject).into_iter();
                (read.map(|tp| tp.topic).collect(), Some(group))
            }
        };
        self.read_rights(observer, group, Some(&topics)).await;
        if self.source.id.is_err() {
            // It was asked for long enough; the time that is left is the target's.
            observer.observe_target(&mut self.found).await;
        } else {
            observer.observe(&mut self.found).await;
        }
        if self.target.id.is_err() {
            return;
        }
        let partitions = self.partitions_of(subject);
        self.read_mm2(observer, |tp| partitions.contains(tp)).await;
        self.read_bounds(observer, &partitions).await;
        if let Subject::Group(group) = subject {
            self.read_checkpoints(&observer.target, group).await;
        }
        self.read_syncs(observer, &partitions).await;
        self.read_contents(observer, &partitions).await;
    }

    /// What of all this may not be seen.
    pub(crate) async fn read_rights(
        &mut self,
        observer: &Observer,
        group: Option<&GroupId>,
        topics: Option<&BTreeSet<TopicName>>,
    ) {
        if self.target.id.is_err() {
            return;
        }
        let target_only = self.source.id.is_err();
        let wanted = RightsFor { group, topics, mm2: true, target_only };
        self.rights = observer.rights(&wanted).await;
        for side in [&mut self.source, &mut self.target] {
            side.hidden = self.rights.hidden_on(&side.alias).cloned().collect();
        }
    }

    /// Who asks for a mirror means the topic that is mirrored.
    fn own_name(&mut self) {
        let Subject::Topic(topic) = &self.subject else { return };
        let policy = &self.config.policy;
        let Ok(topics) = &self.source.topics else { return };
        let from_here = policy.topic_source(topic.as_str()) == Some(self.source.alias.as_str());
        let upstream = policy.upstream_topic(topic.as_str()).filter(|_| from_here);
        if let Some(upstream) = upstream
            && !topics.contains_key(topic)
            && topics.contains_key(upstream)
        {
            self.subject = Subject::Topic(upstream.into());
        }
    }

    async fn read_group(&self, observer: &Observer, group: &GroupId) -> GroupFacts {
        let on_target = self.target.groups.as_ref().ok().and_then(|groups| groups.get(group));
        let members = match (&self.target.groups, on_target) {
            (Err(trouble), _) => Err(trouble.clone()),
            (Ok(_), None) => Ok(Vec::new()),
            // Its members are not told (KIP-1071); its state is.
            (Ok(_), Some(listing)) if listing.kind == GroupKind::Streams => Ok(Vec::new()),
            (Ok(_), Some(listing)) => {
                let described = observer.target.describe_group(group, listing.kind).await;
                match described {
                    Ok(described) => Ok(described.member_list),
                    Err(error) if error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND) => {
                        Ok(Vec::new())
                    }
                    Err(error) => {
                        let what = format!("the members of group {group} on {}", self.target.alias);
                        let resource = Resource::Group(group.clone());
                        let on = &self.target.alias;
                        Err(Trouble::of(&what, &error).for_want_of(on, "Describe", resource))
                    }
                }
            }
        };
        let listed = self.source.groups.as_ref().or(self.target.groups.as_ref());
        let share = &listed.map(share_groups).unwrap_or_default();
        let target_commits = commits(&observer.target, &self.target, group, share).await;
        let target_epochs = epochs(&observer.target, target_commits.as_deref().unwrap_or_default());
        let target_commits = target_commits.map(|commits| {
            let there = commits.into_iter().filter(|commit| commit.offset >= 0);
            there.map(|commit| (commit.tp, commit.offset)).collect()
        });
        let source_commits = commits(&observer.source, &self.source, group, share).await;
        GroupFacts { source_commits, target_commits, target_epochs, members }
    }

    /// The partitions of the source that concern the subject.
    fn partitions_of(&self, subject: &Subject) -> BTreeSet<TopicPartition> {
        match subject {
            Subject::Topic(topic) => {
                let count = self.source.topics.as_ref().ok().and_then(|all| all.get(topic));
                let count = count.copied().unwrap_or_default();
                (0..count).map(|number| TopicPartition::new(topic.clone(), number)).collect()
            }
            Subject::Group(_) => {
                let commits =
                    self.group.as_ref().and_then(|group| group.source_commits.as_ref().ok());
                let commits = commits.into_iter().flatten().map(|commit| &commit.tp);
                commits.filter(|tp| replicates(&self.config, tp.topic.as_str())).cloned().collect()
            }
        }
    }

    /// What MM2 keeps about itself; of its positions those of `wanted` partitions.
    pub(crate) async fn read_mm2(
        &mut self,
        observer: &Observer,
        wanted: impl Fn(&TopicPartition) -> bool + Send + Sync,
    ) {
        let setting = |key: &str| self.config.worker.get(key).cloned().unwrap_or_default();
        let group = GroupId::from(setting("group.id"));
        self.mm2.worker = self.read_worker(&observer.target, &group).await;
        let topics = [
            setting("config.storage.topic"),
            setting("status.storage.topic"),
            setting("offset.storage.topic"),
        ];
        let mut read = Mm2 { worker: self.mm2.worker.clone(), ..Mm2::default() };
        for (kind, topic) in topics.iter().enumerate() {
            let outcome =
                each_record(&observer.target, &self.target, topic, |key, value, time| match kind {
                    0 => read.take_config(key, value),
                    1 => read.take_status(key, value, time),
                    _ => read.take_offset(key, value, &wanted),
                });
            if let Err(trouble) = outcome.await {
                read.trouble = Some(trouble);
            }
        }
        if let Some(Ok(rest)) = &self.connect {
            rest.put_into(&mut read, &self.config.name);
        }
        self.mm2 = read;
    }

    async fn read_worker(
        &self,
        target: &Cluster,
        group: &GroupId,
    ) -> Result<Option<Worker>, Trouble> {
        let groups = self.target.groups.as_ref().map_err(Clone::clone)?;
        let Some(listing) = groups.get(group) else {
            let what =
                format!("group {group} of MM2's workers on {} may not be seen", self.target.alias);
            return match self.rights.lacking(&self.target.alias, &Resource::Group(group.clone())) {
                Some(right) => Err(Trouble::for_want_of_right(what, right.clone())),
                None => Ok(None),
            };
        };
        match target.describe_group(group, listing.kind).await {
            Ok(described) => Ok(Some(Worker {
                group: group.as_str().to_owned(),
                state: described.state,
                members: described.member_list,
            })),
            Err(error) if error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND) => Ok(None),
            Err(error) => Err(Trouble::of(&format!("group {group} of MM2's workers"), &error)),
        }
    }

    /// Where the mirrors of partitions begin and end.
    pub(crate) async fn read_bounds(
        &mut self,
        observer: &Observer,
        wanted: &BTreeSet<TopicPartition>,
    ) {
        let there = self.target.topics.as_ref().ok();
        let targets: Vec<TopicPartition> = wanted
            .iter()
            .map(|tp| self.mirror_of(tp))
            .filter(|tp| {
                there.and_then(|topics| topics.get(&tp.topic)).is_some_and(|n| tp.partition < *n)
            })
            .collect();
        let sources: Vec<TopicPartition> = wanted.iter().cloned().collect();
        (self.bounds, self.source_bounds) =
            tokio::join!(bounds(&observer.target, targets), bounds(&observer.source, sources));
    }

    async fn read_checkpoints(&mut self, target: &Cluster, group: &GroupId) {
        let topic = self.checkpoints.topic.clone();
        let mut series: BTreeMap<TopicPartition, CheckpointSeries> = BTreeMap::new();
        let mut total = 0;
        let outcome = each_record(target, &self.target, topic.as_str(), |key, value, time| {
            let Ok(checkpoint) = Checkpoint::decode(key, value) else { return };
            total += 1;
            if checkpoint.group != *group {
                return;
            }
            let tp = TopicPartition::new(checkpoint.topic, checkpoint.partition);
            note(&mut series, tp, (checkpoint.upstream, checkpoint.downstream), time);
        });
        self.checkpoints.read = outcome.await.map(|there| there.then_some(series));
        self.checkpoints.total = total;
    }

    /// Keeps in mind offset-syncs that are where the other location would have them, if there are.
    pub(crate) fn look_for_syncs_elsewhere(&mut self) {
        let other = if self.config.offset_syncs_on_target { &self.source } else { &self.target };
        let exists = |topic: &TopicName| {
            other.topics.as_ref().is_ok_and(|topics| topics.contains_key(topic))
        };
        let elsewhere = self.syncs.elsewhere.take();
        self.syncs.elsewhere = elsewhere.filter(exists);
    }

    /// Where offset-syncs are by the configuration.
    pub(crate) fn place_of_syncs<'a>(&'a self, observer: &'a Observer) -> (&'a Cluster, &'a Side) {
        if self.config.offset_syncs_on_target {
            (&observer.target, &self.target)
        } else {
            (&observer.source, &self.source)
        }
    }

    /// MM2's pairs of offsets of these partitions.
    pub(crate) async fn read_syncs(
        &mut self,
        observer: &Observer,
        wanted: &BTreeSet<TopicPartition>,
    ) {
        self.look_for_syncs_elsewhere();
        let mut syncs: BTreeMap<TopicPartition, SyncHistory> = BTreeMap::new();
        let topic = self.syncs.topic.clone();
        let (cluster, here) = self.place_of_syncs(observer);
        let outcome = each_record(cluster, here, topic.as_str(), |key, value, time| {
            let Ok(sync) = OffsetSync::decode(key, value) else { return };
            let tp = TopicPartition::new(sync.topic, sync.partition);
            if !wanted.contains(&tp) {
                return;
            }
            let pair = (SourceOffset(sync.upstream), TargetOffset(sync.downstream));
            if let Some(history) = syncs.get_mut(&tp) {
                history.take(pair, time);
            } else {
                let history = SyncHistory::new(pair, time, &self.asked(&tp));
                syncs.insert(tp, history);
            }
        });
        self.syncs.read = outcome.await.map(|there| there.then_some(syncs));
    }
}

pub(crate) fn note(
    series: &mut BTreeMap<TopicPartition, CheckpointSeries>,
    tp: TopicPartition,
    pair: (i64, i64),
    written_ms: i64,
) {
    let Some(before) = series.get_mut(&tp) else {
        series.insert(tp, CheckpointSeries { last: pair, written_ms, earlier: Vec::new() });
        return;
    };
    if before.last != pair {
        before.earlier.insert(0, before.last);
        before.earlier.truncate(EARLIER_MAX);
        before.last = pair;
    }
    before.written_ms = written_ms;
}

/// Log start and high watermark. Without them only numbers are missing in what is said.
async fn bounds(
    cluster: &Cluster,
    wanted: Vec<TopicPartition>,
) -> BTreeMap<TopicPartition, (i64, i64)> {
    let specs: Vec<(TopicPartition, OffsetSpec)> = wanted
        .iter()
        .flat_map(|tp| [(tp.clone(), OffsetSpec::Earliest), (tp.clone(), OffsetSpec::Latest)])
        .collect();
    let listed = cluster.list_offsets(&specs, Isolation::ReadUncommitted).await.unwrap_or_default();
    let pairs = listed.chunks(2).zip(wanted).filter_map(|(pair, tp)| match pair {
        [(_, Ok(start)), (_, Ok(end))] => Some((tp, (start.offset, end.offset))),
        _ => None,
    });
    pairs.collect()
}

/// Leader epochs that were committed, each with that of the partition as far as it is known.
pub(crate) fn epochs(
    cluster: &Cluster,
    commits: &[CommittedOffset],
) -> BTreeMap<TopicPartition, (LeaderEpoch, LeaderEpoch)> {
    let with_epoch = commits.iter().filter(|commit| commit.offset >= 0 && commit.leader_epoch >= 0);
    let both = with_epoch.filter_map(|commit| {
        let leader = cluster.leader(&commit.tp).filter(|leader| leader.epoch >= 0)?;
        Some((commit.tp.clone(), (commit.leader_epoch, leader.epoch)))
    });
    both.collect()
}

/// What there is on a cluster.
pub(crate) async fn side(cluster: &Cluster, side: &mut Side) {
    let alias = side.alias.clone();
    side.id = cluster.cluster_id().await.map_err(|error| Trouble::of(alias.as_str(), &error));
    if let Err(trouble) = &side.id {
        side.topics = Err(trouble.clone());
        side.groups = Err(trouble.clone());
        return;
    }
    side.topics = match cluster.topics(Topics::All).await {
        Ok(topics) => {
            let there = topics.into_iter().filter(|topic| topic.error.is_ok());
            Ok(there.map(|topic| (topic.name, topic.partitions.len() as i32)).collect())
        }
        Err(error) => Err(Trouble::of(&format!("the topics of {alias}"), &error)),
    };
    side.groups = match cluster.list_groups().await {
        Ok(groups) => Ok(groups.into_iter().map(|group| (group.group.clone(), group)).collect()),
        Err(error) => Err(Trouble::of(&format!("the groups of {alias}"), &error)),
    };
}

/// Those of the listed groups that are share groups.
pub(crate) fn share_groups(listed: &BTreeMap<GroupId, GroupListing>) -> BTreeSet<GroupId> {
    let share = listed.values().filter(|listing| listing.kind == GroupKind::Share);
    share.map(|listing| listing.group.clone()).collect()
}

async fn commits(
    cluster: &Cluster,
    side: &Side,
    group: &GroupId,
    share: &BTreeSet<GroupId>,
) -> Result<Vec<CommittedOffset>, Trouble> {
    if let Err(trouble) = &side.id {
        return Err(trouble.clone());
    }
    let what = format!("the offsets of group {group} on {}", side.alias);
    let denied = |trouble: Trouble| {
        trouble.for_want_of(&side.alias, "Describe", Resource::Group(group.clone()))
    };
    let answers = cluster.fetch_positions(std::slice::from_ref(group), share).await;
    match answers.map_err(|error| denied(Trouble::of(&what, &error)))?.remove(group) {
        Some(Ok(commits)) => Ok(commits),
        Some(Err(code)) => Err(denied(Trouble::answered(&what, code))),
        None => Ok(Vec::new()),
    }
}

/// Reads all partitions of a small topic. Answers whether it exists.
pub(crate) async fn each_record(
    cluster: &Cluster,
    side: &Side,
    topic: &str,
    mut each: impl FnMut(Option<&[u8]>, Option<&[u8]>, i64) + Send,
) -> Result<bool, Trouble> {
    let topics = side.topics.as_ref().map_err(Clone::clone)?;
    let Some(partitions) = topics.get(topic) else {
        let on = &side.alias;
        if side.hidden.contains(topic) {
            let resource = Resource::Topic(topic.into());
            let right = Right { on: on.clone(), resource, operation: "Read" };
            let what = format!("topic {topic} of {on} may not be seen");
            return Err(Trouble::for_want_of_right(what, right));
        }
        return Ok(false);
    };
    let trouble = |error: &ClientError| {
        let trouble = Trouble::of(&format!("topic {topic} of {}", side.alias), error);
        trouble.for_want_of(&side.alias, "Read", Resource::Topic(topic.into()))
    };
    for partition in 0..*partitions {
        let tp = TopicPartition::new(topic, partition);
        let reading = cluster.read_partition_each(&tp, 0, Isolation::ReadCommitted, |record| {
            each(record.key.as_deref(), record.value.as_deref(), record.timestamp);
        });
        reading.await.map_err(|error| trouble(&error))?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_of_checkpoints_keeps_what_differed_the_newest_first() {
        let mut series = BTreeMap::new();
        let tp = TopicPartition::new("hello.orders", 0);
        for (at, pair) in [(5, (10, 10)), (6, (20, 19)), (7, (20, 19)), (8, (3, 3))] {
            note(&mut series, tp.clone(), pair, at);
        }
        let series = &series[&tp];
        assert_eq!((series.last, series.written_ms), ((3, 3), 8));
        assert_eq!(series.earlier, [(20, 19), (10, 10)]);
    }
}
