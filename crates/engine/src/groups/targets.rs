//! How groups stand on the target: what they have committed there, and whether they have members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_client::{ClientError, CommittedOffset, ErrorCode, GroupListing};
use twinlog_flow::groups::TargetGroup;
use twinlog_types::GroupId;

use super::ReadCommits;
use crate::flow::Flow;

/// A listing of groups is believed for so long; a commit to a group that has members since is
/// refused by its coordinator.
const LISTED_FOR: Duration = Duration::from_secs(1);

/// The groups of the target as last listed.
#[derive(Default)]
pub(super) struct TargetGroups {
    listed: Arc<BTreeMap<GroupId, GroupListing>>,
    at: Option<Instant>,
}

/// What was read of groups on the target.
#[derive(Default)]
pub(super) struct Targets {
    commits: ReadCommits,
    listed: Arc<BTreeMap<GroupId, GroupListing>>,
    /// When they were asked for.
    asked_ms: i64,
}

impl TargetGroups {
    /// Reads these groups. Nothing is read where nothing is written.
    pub(super) async fn read(
        &mut self,
        flow: &Flow,
        groups: &[GroupId],
    ) -> Result<Targets, ClientError> {
        if !flow.config.sync_group_offsets_enabled {
            return Ok(Targets::default());
        }
        let asked_ms = flow.now_ms();
        let share = flow.share_groups();
        let fresh = self.at.is_some_and(|at| at.elapsed() < LISTED_FOR);
        let listing =
            async { if fresh { Ok(None) } else { flow.target.list_groups().await.map(Some) } };
        let (commits, listed) = tokio::join!(flow.target.fetch_positions(groups, &share), listing);
        if let Some(listed) = listed? {
            let by_name = listed.into_iter().map(|listing| (listing.group.clone(), listing));
            self.listed = Arc::new(by_name.collect());
            self.at = Some(Instant::now());
        }
        flow.target_reached();
        Ok(Targets { commits: commits?, listed: self.listed.clone(), asked_ms })
    }
}

impl Targets {
    /// What a group has committed, or why that could not be read.
    pub(super) fn commits(&self, group: &GroupId) -> Result<&[CommittedOffset], ErrorCode> {
        match self.commits.get(group) {
            Some(Ok(commits)) => Ok(commits),
            Some(Err(code)) => Err(*code),
            None => Ok(&[]),
        }
    }

    /// When this was asked for.
    pub(super) fn asked_ms(&self) -> i64 {
        self.asked_ms
    }

    /// Whether a group has members.
    pub(super) fn state(&self, group: &GroupId) -> TargetGroup {
        match self.listed.get(group).map(|listing| listing.state.as_str()) {
            None | Some("Dead") => TargetGroup::Absent,
            Some("Empty") => TargetGroup::Empty,
            // A broker too old to tell: the commit's answer does.
            Some("" | "Unknown") => TargetGroup::Unknown,
            Some(_) => TargetGroup::Live { members: 0 },
        }
    }
}
