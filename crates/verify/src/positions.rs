//! Which groups are looked at, and where they stand on both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use twinlog_client::{ClientError, GroupKind, TopicInfo};
use twinlog_engine::in_parallel;
use twinlog_flow::groups::{GroupSelection, select};
use twinlog_mirror::replicates;
use twinlog_types::{ClusterAlias, GroupId, TopicName, TopicPartition};

use crate::flow::{FlowReport, SAMPLED_AT_A_TIME, Verifier, topics};
use crate::groups::{GroupReport, GroupResult, Position};

/// How often positions are looked at again that a commit on its way may explain, and how long is
/// waited before: groups are carried over every second.
const LOOKS: usize = 4;
const LOOK_AGAIN: Duration = Duration::from_millis(1_200);

impl Verifier<'_> {
    /// Where the groups stand. The target is read before the source.
    pub(crate) async fn commits(&self, report: &mut FlowReport) -> Result<Vec<Position>, String> {
        let observer = self.observer;
        let name = &observer.config.name;
        let of = |what: &str, alias: &ClusterAlias, error: ClientError| {
            format!("{what} of {alias}: {error}")
        };
        let listed = observer.source.list_groups().await;
        let listed = listed.map_err(|error| of("the groups", &name.source, error))?;
        let share = listed.iter().filter(|listing| listing.kind == GroupKind::Share);
        let share: BTreeSet<GroupId> = share.map(|listing| listing.group.clone()).collect();
        // One that is asked for by name may be there and not be listed.
        let groups: BTreeSet<GroupId> = listed
            .into_iter()
            .map(|listing| listing.group)
            .chain(self.request.group.clone())
            .collect();
        let followed: Vec<GroupId> = groups
            .into_iter()
            .filter(|group| {
                let asked = self.request.group.as_ref();
                let selected = select(&observer.config.groups, group.as_str(), true);
                asked.is_none_or(|asked| asked == group) && selected == GroupSelection::Followed
            })
            .collect();
        if followed.is_empty() {
            return Ok(Vec::new());
        }
        let target = observer.target.fetch_positions(&followed, &share);
        let (target, on_target) = tokio::join!(target, observer.target.list_groups());
        let target = target.map_err(|error| of("the groups' offsets", &name.target, error))?;
        let on_target = on_target.map_err(|error| of("the groups", &name.target, error))?;
        let live: BTreeSet<GroupId> = on_target
            .into_iter()
            .filter(|listing| !matches!(listing.state.as_str(), "Empty" | "Dead" | "" | "Unknown"))
            .map(|listing| listing.group)
            .collect();
        let source = observer.source.fetch_positions(&followed, &share).await;
        let source = source.map_err(|error| of("the groups' offsets", &name.source, error))?;
        let mut positions = Vec::new();
        for group in followed {
            let committed = match (source.get(&group), target.get(&group)) {
                (Some(Err(code)), _) => {
                    report.trouble(format!("group {group} on {}: {code}", name.source));
                    continue;
                }
                (_, Some(Err(code))) => {
                    report.trouble(format!("group {group} on {}: {code}", name.target));
                    continue;
                }
                (source, target) => (source, target),
            };
            let on_target: BTreeMap<&TopicPartition, i64> = match committed.1 {
                Some(Ok(commits)) => {
                    let there = commits.iter().filter(|commit| commit.offset >= 0);
                    there.map(|commit| (&commit.tp, commit.offset)).collect()
                }
                _ => BTreeMap::new(),
            };
            let Some(Ok(commits)) = committed.0 else { continue };
            for commit in commits.iter().filter(|commit| commit.offset >= 0) {
                if !replicates(&observer.config, commit.tp.topic.as_str()) {
                    continue;
                }
                let topic = observer.config.remote_topic(commit.tp.topic.as_str());
                let mirror = TopicPartition::new(topic, commit.tp.partition);
                positions.push(Position {
                    group: group.clone(),
                    tp: commit.tp.clone(),
                    source: commit.offset,
                    target: on_target.get(&mirror).copied(),
                    live: live.contains(&group),
                });
            }
        }
        Ok(positions)
    }

    /// Compares where groups stand, with all that was committed and copied up to now.
    pub(crate) async fn positions(
        &self,
        positions: Vec<Position>,
        report: &mut FlowReport,
    ) -> Result<Vec<GroupReport>, String> {
        let mut done: Vec<GroupReport> = Vec::new();
        let mut open: BTreeSet<(GroupId, TopicPartition)> =
            positions.into_iter().map(|one| (one.group, one.tp)).collect();
        for look in 0..LOOKS {
            if open.is_empty() {
                break;
            }
            if look > 0 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            let fresh = self.commits(report).await?;
            let looked_at: Vec<Position> = fresh
                .into_iter()
                .filter(|one| open.contains(&(one.group.clone(), one.tp.clone())))
                .collect();
            let found = self.look(looked_at, report).await?;
            // A commit may be on its way: the target is looked at again, and what it had to reach
            // is what the source had before.
            let last = look + 1 == LOOKS;
            let before: BTreeMap<(GroupId, TopicPartition), Option<i64>> =
                done.iter().map(|one| (key(one), one.proven)).collect();
            for one in found {
                let place = key(&one);
                let reached = before.get(&place).copied().flatten();
                let follows = one.result == GroupResult::TooNear
                    && reached.is_some_and(|reached| one.target_offset >= Some(reached));
                let one = if follows { one.following() } else { one };
                done.retain(|other| key(other) != place);
                let settled = !matches!(one.result, GroupResult::TooNear | GroupResult::NoPosition);
                if settled || last {
                    open.remove(&place);
                }
                done.push(one);
            }
        }
        done.sort_by_key(|one| (one.group.clone(), one.topic.clone(), one.partition));
        Ok(done)
    }

    async fn look(
        &self,
        positions: Vec<Position>,
        report: &mut FlowReport,
    ) -> Result<Vec<GroupReport>, String> {
        let names: BTreeSet<TopicName> = positions.iter().map(|one| one.tp.topic.clone()).collect();
        let source = topics(&self.observer.source, &self.observer.config.name.source).await?;
        let wanted: Vec<TopicInfo> =
            source.into_iter().filter(|topic| names.contains(&topic.name)).collect();
        let (absent, notes) = (report.partitions.len(), report.notes.len());
        let jobs = self.jobs(&wanted, report).await?;
        // They were told before.
        report.partitions.truncate(absent);
        report.notes.truncate(notes);
        let mut by_partition: BTreeMap<TopicPartition, Vec<Position>> = BTreeMap::new();
        let mut found = Vec::new();
        for position in positions {
            if jobs.contains_key(&position.tp) {
                by_partition.entry(position.tp.clone()).or_default().push(position);
                continue;
            }
            let topic = self.observer.config.remote_topic(position.tp.topic.as_str());
            let mut one = position.report(&topic);
            let hidden = report.rights.hides(&self.observer.config.name.target, &topic);
            (one.result, one.reason) = if hidden {
                (GroupResult::Unknown, Some(format!("{topic} may not be seen")))
            } else {
                (GroupResult::NoPosition, Some("its partition is not on the target".to_owned()))
            };
            found.push(one);
        }
        let work = by_partition.into_iter().filter_map(|(tp, positions)| {
            let job = jobs.get(&tp)?.clone();
            Some(async move { job.positions(&positions).await })
        });
        let looked = in_parallel(SAMPLED_AT_A_TIME, work.collect()).await;
        found.extend(looked.into_iter().flatten());
        Ok(found)
    }
}

fn key(report: &GroupReport) -> (GroupId, TopicPartition) {
    (report.group.clone(), TopicPartition::new(report.topic.clone(), report.partition))
}
