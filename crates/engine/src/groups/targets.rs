//! How groups stand on the target: what they have committed there, and whether they have members.

use std::collections::BTreeMap;

use twinlog_client::{ClientError, CommittedOffset, ErrorCode, GroupListing};
use twinlog_flow::groups::TargetGroup;
use twinlog_types::GroupId;

use super::Commits;
use crate::flow::Flow;

/// What was read of groups on the target.
#[derive(Default)]
pub(super) struct Targets {
    commits: Commits,
    listed: BTreeMap<GroupId, GroupListing>,
}

impl Targets {
    /// Reads these groups. Nothing is read where nothing is written.
    pub(super) async fn read(flow: &Flow, groups: &[GroupId]) -> Result<Self, ClientError> {
        if !flow.config.sync_group_offsets_enabled {
            return Ok(Self::default());
        }
        let commits = flow.target.fetch_offsets(groups).await?;
        let listed = flow.target.list_groups().await?;
        let listed = listed.into_iter().map(|listing| (listing.group.clone(), listing)).collect();
        Ok(Self { commits, listed })
    }

    /// What a group has committed, or why that could not be read.
    pub(super) fn commits(&self, group: &GroupId) -> Result<&[CommittedOffset], ErrorCode> {
        match self.commits.get(group) {
            Some(Ok(commits)) => Ok(commits),
            Some(Err(code)) => Err(*code),
            None => Ok(&[]),
        }
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
