//! Asks for the commits of groups: all of them where no log tells the news, and of single groups
//! where something is to be settled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use twinlog_client::{ClientError, CommittedOffset};
use twinlog_flow::groups::{Polled, SourceCommit};
use twinlog_mirror::FollowCommits;
use twinlog_types::{GroupId, SourceOffset, TopicPartition};

use super::Commits;
use crate::flow::Flow;

/// How often a poll checks what the log has told.
const CHECK: Duration = Duration::from_secs(30);
/// Groups that appear together are asked for together.
const GATHER: Duration = Duration::from_millis(5);
/// For how long a log is not trusted that has missed a commit.
const DISTRUST: Duration = Duration::from_mins(5);

/// Polls until the flow ends.
pub(super) async fn run(flow: Arc<Flow>, commits: Arc<Commits>) {
    let file = flow.config.sync_group_offsets_interval;
    let interval = match flow.config.follow_commits {
        FollowCommits::Interval => file,
        FollowCommits::Live | FollowCommits::Poll => {
            Flow::no_later_than(flow.options.groups_interval, file)
        }
    };
    let ending = flow.ending();
    let mut round = Instant::now();
    let mut check = round + CHECK;
    let mut failing = false;
    loop {
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = commits.poll.notified(), if !failing => tokio::time::sleep(GATHER).await,
            () = tokio::time::sleep_until(next(&flow, &commits, round)) => {}
        }
        let now = Instant::now();
        let groups = {
            let view = commits.view.lock();
            let settle = view.incomplete().chain(view.doubted(flow.now_ms()));
            let mut groups: BTreeSet<GroupId> = settle.cloned().collect();
            if now >= check && flow.config.follow_commits == FollowCommits::Live {
                groups.extend(view.groups().cloned());
                check = now + CHECK;
            } else if now >= round {
                let log = commits.log.lock();
                let share = flow.share_groups();
                let untold = view
                    .groups()
                    .filter(|group| share.contains(*group) || !log.brings_news_of(group, now));
                groups.extend(untold.cloned());
            }
            groups
        };
        if now >= round {
            round = now + interval;
        }
        if groups.is_empty() {
            continue;
        }
        let groups: Vec<GroupId> = groups.into_iter().collect();
        let asked = tokio::select! {
            biased;
            () = ending.ended() => return,
            asked = ask(&flow, &commits, &groups) => asked,
        };
        match asked {
            Ok(()) => {
                flow.source_reached();
                failing = false;
            }
            Err(error) => {
                if !failing {
                    warn!(flow = %flow.name, %error, "the commits of groups cannot be read on the source; trying goes on");
                }
                flow.source_unreachable(&error);
                failing = true;
                round = round.max(Instant::now() + interval);
            }
        }
    }
}

/// When to look again what is to be asked.
fn next(flow: &Flow, commits: &Commits, round: Instant) -> Instant {
    let doubt = commits.view.lock().next_doubt_ms();
    let doubt = doubt.map(|at_ms| {
        // At least a moment: clocks of different grain must not make this spin.
        let wait = u64::try_from(at_ms - flow.now_ms()).unwrap_or(0).max(20);
        Instant::now() + Duration::from_millis(wait)
    });
    doubt.map_or(round, |doubt| doubt.min(round))
}

async fn ask(flow: &Flow, commits: &Commits, groups: &[GroupId]) -> Result<(), ClientError> {
    let asked = commits.view.lock().ask(flow.now_ms());
    let share = flow.share_groups();
    let answers = flow.source.fetch_positions(groups, &share).await?;
    let now_ms = flow.now_ms();
    let mut changed = Vec::new();
    for (group, answer) in answers {
        match answer {
            Err(code) => {
                commits.view.lock().unread(&group, now_ms);
                if commits.unread.lock().insert(group.clone(), code) != Some(code) {
                    changed.push(group);
                }
            }
            Ok(found) => {
                let again = commits.unread.lock().remove(&group).is_some();
                let told = found.into_iter().filter_map(|one| polled(flow, commits, one));
                let told: Vec<_> = told.collect();
                let outcome = commits.view.lock().polled(&group, told, asked, now_ms);
                // Nothing in __consumer_offsets tells where share groups begin.
                if outcome.missed_by_log > 0 && !share.contains(&group) {
                    missed(commits, &group);
                }
                if outcome.changed || again {
                    changed.push(group);
                }
            }
        }
    }
    commits.changed(changed);
    Ok(())
}

/// What counts of an answer.
fn polled(
    flow: &Flow,
    commits: &Commits,
    one: CommittedOffset,
) -> Option<(TopicPartition, Polled)> {
    if !commits.wants_topic(flow, &one.tp.topic) {
        return None;
    }
    if !one.error.is_ok() {
        return Some((one.tp, Polled::Unsettled));
    }
    let offset = SourceOffset(one.offset);
    // A stored -1 ("no offset", as some clients reset) is no position.
    let commit = SourceCommit { offset, metadata: one.metadata, topic_id: None };
    (one.offset >= 0).then_some((one.tp, Polled::Commit(commit)))
}

/// The log has not told what a poll knew long ago: it is not trusted for a while.
fn missed(commits: &Commits, group: &GroupId) {
    if commits.log.lock().brings_news_of(group, Instant::now()) {
        let why = format!(
            "__consumer_offsets has not told a commit of {group} that its coordinator has had for \
             20 s"
        );
        commits.lose(why, DISTRUST);
    }
}
