//! What groups commit on the source, as soon as it can be known.
//!
//! Three parts share one [`Commits`]: [`log`] follows `__consumer_offsets` where that may be read,
//! [`poll`] asks with OffsetFetch, and whoever writes to the target waits for what changed. What
//! counts is decided by [`SourceCommits`].
//!
//! # Invariants
//!
//! 1. The whole of a group comes from a poll: at the start, after a gap of the log, and every half a
//!    minute, which tells whether the log has kept its word.
//! 2. Groups whose part of the log brings no news (no right, no leader, an open transaction holds
//!    it back) are polled, as often as if there were no log.
//! 3. How commits are followed, and why not live, is on the board, and in the log when it changes.

mod log;
mod poll;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use twinlog_batch::Record;
use twinlog_client::{CommittedOffset, ErrorCode};
use twinlog_flow::groups::{GroupSelection, SourceCommit, SourceCommits, select};
use twinlog_mirror::formats::FormatError;
use twinlog_mirror::formats::group_log::CommitChange;
use twinlog_mirror::{FollowCommits, replicates};
use twinlog_types::{GroupId, SourceOffset, TopicId, TopicName, TopicPartition};

use crate::flow::Flow;
use state::LogState;

pub(crate) use log::probe;

/// Names whose verdict is remembered; beyond it all are forgotten.
const VERDICTS_MAX: usize = 100_000;

/// How the commits of groups are followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Followed {
    /// The way.
    pub way: FollowCommits,
    /// Why not live; `None` where they are, or the file does not ask for it.
    pub reason: Option<String>,
}

/// The source's commits, shared.
pub(crate) struct Commits {
    view: Mutex<SourceCommits>,
    changed: Mutex<BTreeSet<GroupId>>,
    /// Something changed.
    news: Notify,
    /// Something is to be polled now.
    poll: Notify,
    log: Mutex<LogState>,
    /// The end of a partition of the log is to be looked up, or the log is lost.
    log_changed: Notify,
    /// Groups that a poll could not read, and the coordinator's code.
    unread: Mutex<BTreeMap<GroupId, ErrorCode>>,
    verdicts: Mutex<Verdicts>,
}

/// Which groups and topics are wanted, remembered by name: the log names all of a cluster.
#[derive(Default)]
struct Verdicts {
    groups: BTreeMap<GroupId, bool>,
    topics: BTreeMap<TopicName, bool>,
}

impl Commits {
    /// Follows commits for as long as the flow lives.
    pub(crate) fn start(flow: &Arc<Flow>) -> Arc<Self> {
        let commits = Arc::new(Self {
            view: Mutex::default(),
            changed: Mutex::default(),
            news: Notify::new(),
            poll: Notify::new(),
            log: Mutex::new(LogState::new()),
            log_changed: Notify::new(),
            unread: Mutex::default(),
            verdicts: Mutex::default(),
        });
        if flow.config.follow_commits == FollowCommits::Live {
            flow.spawn(log::run(flow.clone(), commits.clone()));
        } else {
            commits.say(flow);
        }
        flow.spawn(poll::run(flow.clone(), commits.clone()));
        commits
    }

    /// Follows these groups too.
    pub(crate) fn follow<'a>(&self, groups: impl IntoIterator<Item = &'a GroupId>) {
        let mut view = self.view.lock();
        let mut new = false;
        for group in groups {
            new |= view.follow(group);
        }
        if new {
            self.poll.notify_one();
        }
    }

    /// Forgets the groups that `keep` does not want.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&GroupId) -> bool) {
        self.view.lock().retain(&mut keep);
        self.unread.lock().retain(|group, _| keep(group));
    }

    /// Every group that is followed.
    pub(crate) fn groups(&self) -> Vec<GroupId> {
        self.view.lock().groups().cloned().collect()
    }

    /// How many groups are followed.
    pub(crate) fn len(&self) -> usize {
        self.view.lock().len()
    }

    /// A topic was made again: what was committed on the one before counts no more.
    pub(crate) fn forget_topic(&self, topic: &TopicName) {
        if !self.view.lock().forget_topic(topic).is_empty() {
            self.poll.notify_one();
        }
    }

    /// Groups with something new since the last call.
    pub(crate) fn take_changed(&self) -> BTreeSet<GroupId> {
        std::mem::take(&mut *self.changed.lock())
    }

    /// Returns when something changed.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// What a group has committed, without what belongs to another life of a topic; `None` while
    /// nothing has told all of it.
    pub(crate) fn of(
        &self,
        flow: &Flow,
        group: &GroupId,
    ) -> Option<Result<Vec<CommittedOffset>, ErrorCode>> {
        if let Some(code) = self.unread.lock().get(group) {
            return Some(Err(*code));
        }
        let view = self.view.lock();
        let commits = view.commits(group)?;
        let commits = commits.filter(|(tp, commit)| is_of_the_mirrored(flow, tp, commit));
        let commits = commits.map(|(tp, commit)| CommittedOffset {
            tp: tp.clone(),
            offset: commit.offset.0,
            leader_epoch: -1,
            metadata: commit.metadata.clone(),
            error: ErrorCode::NONE,
        });
        Some(Ok(commits.collect()))
    }

    /// When the last poll was asked that told this commit; see [`SourceCommits::asked_ms`]. Long ago
    /// where another one counts by now.
    pub(crate) fn asked_ms(
        &self,
        group: &GroupId,
        tp: &TopicPartition,
        offset: SourceOffset,
    ) -> i64 {
        self.view.lock().asked_ms(group, tp, offset).unwrap_or_default()
    }

    /// These commits are behind what is known of them: a poll is to say so once more.
    pub(crate) fn want(&self, wanted: &[(GroupId, TopicPartition)], now_ms: i64) {
        if wanted.is_empty() {
            return;
        }
        let mut view = self.view.lock();
        for (group, tp) in wanted {
            view.want(group, tp, now_ms);
        }
        drop(view);
        self.poll.notify_one();
    }

    /// Lets [`news`](Self::news) return although nothing changed here.
    pub(crate) fn wake(&self) {
        self.news.notify_one();
    }

    fn changed(&self, groups: impl IntoIterator<Item = GroupId>) {
        let mut changed = self.changed.lock();
        let before = changed.len();
        changed.extend(groups);
        if changed.len() > before {
            self.news.notify_one();
        }
    }

    /// A record of the log. An error is a commit that cannot be read.
    fn logged(&self, flow: &Flow, record: &Record) -> Result<(), FormatError> {
        let decoded = CommitChange::decode(record.key.as_deref(), record.value.as_deref())?;
        let Some(change) = decoded else { return Ok(()) };
        if !self.wants(flow, &change.group, &change.topic) {
            return Ok(());
        }
        let commit = change.commit.filter(|commit| commit.offset >= 0);
        let commit = commit.map(|commit| SourceCommit {
            offset: SourceOffset(commit.offset),
            metadata: commit.metadata,
            topic_id: commit.topic_id.filter(|id| *id != TopicId::NONE),
        });
        let tp = TopicPartition::new(change.topic, change.partition);
        let (changed, asks) = {
            let mut view = self.view.lock();
            let new = commit.is_some() && view.follow(&change.group);
            let doubts = view.next_doubt_ms();
            let changed = view.logged(&change.group, &tp, commit, flow.now_ms());
            (changed, new || view.next_doubt_ms() != doubts)
        };
        if changed {
            self.changed([change.group]);
        }
        if asks {
            self.poll.notify_one();
        }
        Ok(())
    }

    fn wants(&self, flow: &Flow, group: &GroupId, topic: &TopicName) -> bool {
        let mut verdicts = self.verdicts.lock();
        if verdicts.groups.len() + verdicts.topics.len() > VERDICTS_MAX {
            *verdicts = Verdicts::default();
        }
        let wanted = verdicts.groups.get(group).copied().unwrap_or_else(|| {
            let selection = select(&flow.config.groups, group.as_str(), true);
            let wanted = selection == GroupSelection::Followed;
            verdicts.groups.insert(group.clone(), wanted);
            wanted
        });
        wanted && verdicts.wants_topic(flow, topic)
    }

    fn wants_topic(&self, flow: &Flow, topic: &TopicName) -> bool {
        self.verdicts.lock().wants_topic(flow, topic)
    }
}

impl Verdicts {
    fn wants_topic(&mut self, flow: &Flow, topic: &TopicName) -> bool {
        if let Some(wanted) = self.topics.get(topic) {
            return *wanted;
        }
        let wanted = replicates(&flow.config, topic.as_str());
        self.topics.insert(topic.clone(), wanted);
        wanted
    }
}

/// A commit on a topic that was deleted and made again says nothing about the mirror of the former.
fn is_of_the_mirrored(flow: &Flow, tp: &TopicPartition, commit: &SourceCommit) -> bool {
    let Some(cell) = flow.cells.get(tp) else { return true };
    let known = flow.source.cached(&tp.topic).map(|topic| topic.id);
    let ids = [commit.topic_id, known.filter(|id| *id != TopicId::NONE)];
    cell.source_id == TopicId::NONE || ids.into_iter().flatten().all(|id| id == cell.source_id)
}
