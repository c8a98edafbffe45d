//! How the log of commits stands, partition by partition, and what is said of it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};
use twinlog_mirror::FollowCommits;
use twinlog_mirror::formats::group_log::partition_of;
use twinlog_types::GroupId;

use super::{Commits, Followed};
use crate::flow::Flow;

/// A partition whose leader was not heard for so long is not followed.
const SILENT: Duration = Duration::from_millis(1_500);
/// An open transaction may hold a partition of the log back for so long.
const HELD: Duration = Duration::from_millis(300);

/// What lasts shorter is not worth a word.
const WORTH_A_WORD: Duration = Duration::from_secs(10);

/// Why the log is not followed, and when it is tried again.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    pub(super) why: String,
    pub(super) again: Duration,
}

/// How the log stands.
pub(super) struct LogState {
    /// Why it is not followed.
    pub(super) lost: Option<Lost>,
    /// Its partitions; none until it was looked at.
    pub(super) partitions: BTreeMap<i32, LogPartition>,
    said: Option<Followed>,
}

/// A partition of the log.
#[derive(Clone, Debug)]
pub(super) struct LogPartition {
    /// The next offset to read; `None`: its end is to be looked up.
    pub(super) next: Option<i64>,
    /// The leader epoch of the last batch read; -1: none was.
    pub(super) last_epoch: i32,
    /// When its leader last answered about it.
    pub(super) heard: Option<Instant>,
    /// Since when an open transaction holds back what is behind it.
    pub(super) held: Option<Instant>,
}

impl LogPartition {
    pub(super) const UNKNOWN: Self = Self { next: None, last_epoch: -1, heard: None, held: None };

    fn brings_news(&self, now: Instant) -> bool {
        self.next.is_some()
            && self.heard.is_some_and(|heard| now - heard < SILENT)
            && self.held.is_none_or(|held| now - held < HELD)
    }

    fn is_worth_a_word(&self, now: Instant) -> bool {
        self.next.is_none()
            || self.heard.is_none_or(|heard| now - heard >= WORTH_A_WORD)
            || self.held.is_some_and(|held| now - held >= WORTH_A_WORD)
    }
}

impl LogState {
    pub(super) fn new() -> Self {
        let why = "the log of commits was not looked at yet".to_owned();
        let lost = Some(Lost { why, again: Duration::ZERO });
        Self { lost, partitions: BTreeMap::new(), said: None }
    }

    /// Whether the log tells the news of a group.
    pub(super) fn brings_news_of(&self, group: &GroupId, now: Instant) -> bool {
        let partition = partition_of(group, self.partitions.len() as i32);
        let partition = partition.and_then(|partition| self.partitions.get(&partition));
        self.lost.is_none() && partition.is_some_and(|partition| partition.brings_news(now))
    }

    fn followed(&self, asked: FollowCommits, now: Instant) -> Followed {
        if asked != FollowCommits::Live {
            return Followed { way: asked, reason: None };
        }
        let poll = |reason| Followed { way: FollowCommits::Poll, reason: Some(reason) };
        if let Some(lost) = &self.lost {
            return poll(lost.why.clone());
        }
        let all = self.partitions.len();
        let silent = self.partitions.values().filter(|one| one.is_worth_a_word(now)).count();
        match silent {
            0 => Followed { way: FollowCommits::Live, reason: None },
            _ if silent == all => poll("no leader of __consumer_offsets answers".to_owned()),
            _ => Followed {
                way: FollowCommits::Live,
                reason: Some(format!(
                    "{silent} of {all} partitions of __consumer_offsets bring no news now (no \
                     leader, or an open transaction holds them back): their groups are polled"
                )),
            },
        }
    }
}

impl Commits {
    /// Says how commits are followed where that changed.
    pub(super) fn say(&self, flow: &Flow) {
        let mut log = self.log.lock();
        let now = log.followed(flow.config.follow_commits, Instant::now());
        if log.said.as_ref() == Some(&now) {
            return;
        }
        match (&now.reason, now.way) {
            (Some(reason), way) => {
                warn!(flow = %flow.name, way = way.word(), "commits of groups on the source: {reason}");
            }
            (None, way) => {
                info!(flow = %flow.name, way = way.word(), "commits of groups on the source are followed");
            }
        }
        log.said = Some(now.clone());
        drop(log);
        flow.board.commits_followed(&flow.name, now);
    }

    /// The log cannot be followed, or is not trusted, for a while.
    pub(super) fn lose(&self, why: impl Into<String>, again: Duration) {
        self.log.lock().lost = Some(Lost { why: why.into(), again });
        self.log_changed.notify_one();
    }
}
