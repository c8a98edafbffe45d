//! Decides what is committed for groups on the target, and commits it.
//!
//! All groups that were read are decided on first; then they are committed, several at a time. A
//! group's partitions go into one request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::{debug, info, warn};
use twinlog_client::{ClientError, CommittedOffset, ErrorCode};
use twinlog_flow::groups::{GroupAction, GroupTracker, Reading, Rules};
use twinlog_types::{Code, GroupId, Planted, SourceOffset, TargetOffset, TopicPartition, planted};

use super::targets::Targets;
use super::{Commits, translate, unreadable};
use crate::flow::Flow;
use crate::parallel::in_parallel;

/// Commits under way at once: connections to coordinators are shared with other requests.
const COMMITS_AT_ONCE: usize = 32;

/// The writing side: what is remembered of all groups.
pub(super) struct Writer {
    pub(super) tracker: GroupTracker,
    /// What was said of each group last.
    said: BTreeMap<GroupId, Option<Code>>,
}

/// A position that is to be committed.
struct Due {
    source: TopicPartition,
    target: TopicPartition,
    offset: TargetOffset,
    metadata: String,
}

/// The answer to a commit of one group.
type Answer = Result<Vec<(TopicPartition, ErrorCode)>, ClientError>;

impl Writer {
    pub(super) fn new(sync_enabled: bool) -> Self {
        let tracker = GroupTracker::new(Rules::new(sync_enabled));
        Self { tracker, said: BTreeMap::new() }
    }

    /// Forgets what was said of groups that are not there any more.
    pub(super) fn retain(&mut self, present: &BTreeSet<&GroupId>) {
        self.said.retain(|group, _| present.contains(group));
    }

    /// A group whose standing changed is named in the log, once.
    fn say(&mut self, flow: &Flow, group: &GroupId) {
        let Some(standing) = self.tracker.standing(group) else { return };
        let code = standing.standing.code;
        let before = self.said.insert(group.clone(), code);
        if before.flatten() == code {
            return;
        }
        let partition = standing.partition.map(|tp| tp.to_string()).unwrap_or_default();
        if let Some(code) = code {
            let reason = standing.standing.reason.unwrap_or_default();
            warn!(flow = %flow.name, %group, partition, %code, "{reason}");
        } else {
            info!(flow = %flow.name, %group, state = %standing.standing.state, "followed");
        }
    }
}

/// Decides about groups that were read on both sides, commits what is due and notes the answers.
pub(super) async fn write(
    flow: &Arc<Flow>,
    writer: &mut Writer,
    sources: &Commits,
    targets: &Targets,
) {
    let mut due = Vec::new();
    for (group, commits) in sources {
        let commits = match commits {
            Ok(commits) => commits,
            Err(code) => {
                let standing = unreadable(*code, group, "the source");
                writer.tracker.unreadable(group, standing, flow.now_ms());
                continue;
            }
        };
        let target = match targets.commits(group) {
            Ok(target) => target,
            Err(_) if planted(Planted::FailedLookupIsAbsent) => &[],
            Err(code) => {
                let standing = unreadable(code, group, "the target");
                writer.tracker.unreadable(group, standing, flow.now_ms());
                continue;
            }
        };
        let positions = decide(flow, writer, group, commits, (target, targets));
        if !positions.is_empty() {
            due.push((group.clone(), positions));
        }
    }
    for (group, positions, answer) in commit(flow, due).await {
        note(flow, writer, &group, &positions, answer);
    }
    for group in sources.keys() {
        writer.say(flow, group);
    }
}

/// What is to be committed for a group.
fn decide(
    flow: &Flow,
    writer: &mut Writer,
    group: &GroupId,
    commits: &[CommittedOffset],
    (target, targets): (&[CommittedOffset], &Targets),
) -> Vec<Due> {
    let on_target: BTreeMap<&TopicPartition, i64> =
        target.iter().map(|one| (&one.tp, one.offset)).collect();
    let target_group = targets.state(group);
    let mut due = Vec::new();
    for commit in commits.iter().filter(|commit| commit.offset >= 0) {
        let Some(cell) = flow.cells.get(&commit.tp) else { continue };
        let (translation, copied_end) = translate(&cell, SourceOffset(commit.offset));
        let reading = Reading {
            source: Some(SourceOffset(commit.offset)),
            translation,
            copied_end,
            target: on_target
                .get(&cell.target)
                .filter(|&&offset| offset >= 0)
                .map(|&offset| TargetOffset(offset)),
            target_group,
        };
        let action = writer.tracker.observe(group, &commit.tp, reading, flow.now_ms());
        if let GroupAction::Commit(offset) = action {
            due.push(Due {
                source: commit.tp.clone(),
                target: cell.target.clone(),
                offset,
                metadata: commit.metadata.clone(),
            });
        }
    }
    due
}

/// Commits what is due, several groups at a time.
async fn commit(
    flow: &Arc<Flow>,
    due: Vec<(GroupId, Vec<Due>)>,
) -> Vec<(GroupId, Vec<Due>, Answer)> {
    let commits = due.into_iter().map(|(group, positions)| {
        let target = flow.target.clone();
        async move {
            let request: Vec<_> = positions
                .iter()
                .map(|due| (due.target.clone(), due.offset.0, due.metadata.clone()))
                .collect();
            let answer = target.commit_offsets(&group, &request).await;
            (group, positions, answer)
        }
    });
    in_parallel(COMMITS_AT_ONCE, commits.collect()).await
}

/// Notes how the commit of a group was answered.
fn note(flow: &Flow, writer: &mut Writer, group: &GroupId, positions: &[Due], answer: Answer) {
    let tracker = &mut writer.tracker;
    let now_ms = flow.now_ms();
    let codes = match answer {
        Ok(codes) => codes.into_iter().collect::<BTreeMap<_, _>>(),
        Err(error) => {
            for due in positions {
                tracker.failed(group, &due.source, &error.to_string(), now_ms);
            }
            return;
        }
    };
    for Due { source, target, offset, .. } in positions {
        match codes.get(target) {
            Some(&ErrorCode::NONE) => {
                debug!(flow = %flow.name, %group, partition = %target, offset = offset.0, "committed");
                tracker.committed(group, source, *offset, now_ms);
            }
            Some(code) => tracker.refused(group, source, code.0, &code.to_string(), now_ms),
            None => tracker.failed(group, source, "no answer for it", now_ms),
        }
    }
}
