//! How groups stand on the target: what they have committed there, and whether they have members.

use std::collections::{BTreeMap, BTreeSet};
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

/// The other groups of a round wait no longer for a broker that does not answer. Shorter than what is
/// read is believed: else nothing would be committed while one is away.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// A broker that did not answer is not asked for its groups again before this.
const AWAY_FOR: Duration = Duration::from_secs(10);

/// The groups of the target as last listed.
#[derive(Default)]
pub(super) struct TargetGroups {
    listed: Arc<BTreeMap<GroupId, GroupListing>>,
    /// Every broker has told its groups.
    whole: bool,
    at: Option<Instant>,
    /// Groups whose coordinator did not answer, and when it is asked again.
    away: BTreeMap<GroupId, Instant>,
}

/// What was read of groups on the target.
#[derive(Default)]
pub(super) struct Targets {
    commits: ReadCommits,
    listed: Arc<BTreeMap<GroupId, GroupListing>>,
    whole: bool,
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
            return Ok(Targets { whole: true, ..Targets::default() });
        }
        let asked_ms = flow.now_ms();
        let share = flow.share_groups();
        // With each listing all would wait for a broker that does not answer.
        let believed = if self.whole { LISTED_FOR } else { AWAY_FOR };
        let fresh = self.at.is_some_and(|at| at.elapsed() < believed);
        let listing = async {
            if fresh { Ok(None) } else { flow.target.list_groups_within(PATIENCE).await.map(Some) }
        };
        let commits = flow.target.fetch_positions_within(groups, &share, PATIENCE);
        let (commits, listed) = tokio::join!(commits, listing);
        if let Some((listed, whole)) = listed? {
            let by_name = listed.into_iter().map(|listing| (listing.group.clone(), listing));
            (self.listed, self.whole) = (Arc::new(by_name.collect()), whole);
            self.at = Some(Instant::now());
        }
        flow.target_reached();
        let commits = commits?;
        let late = Err(ErrorCode::REQUEST_TIMED_OUT);
        for group in commits.iter().filter(|(_, one)| **one == late).map(|(group, _)| group) {
            self.away.insert(group.clone(), Instant::now() + AWAY_FOR);
        }
        Ok(Targets { commits, listed: self.listed.clone(), whole: self.whole, asked_ms })
    }

    /// Forgets groups that are not followed any more.
    pub(super) fn retain(&mut self, present: &BTreeSet<GroupId>) {
        self.away.retain(|group, _| present.contains(group));
    }

    /// How long a group is left alone, because its coordinator did not answer a moment ago: with each
    /// question all others would wait for it.
    pub(super) fn is_away(&mut self, group: &GroupId) -> Option<Duration> {
        let rest = self.away.get(group)?.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            self.away.remove(group);
            return None;
        }
        Some(rest)
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
            None if !self.whole => TargetGroup::Unknown,
            None | Some("Dead") => TargetGroup::Absent,
            Some("Empty") => TargetGroup::Empty,
            // A broker too old to tell: the commit's answer does, as where one is away.
            Some("" | "Unknown") => TargetGroup::Unknown,
            Some(_) => TargetGroup::Live { members: 0 },
        }
    }
}
