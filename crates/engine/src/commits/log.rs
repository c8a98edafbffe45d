//! Follows `__consumer_offsets`: one incremental fetch session for each broker that leads part of
//! it, from its end on.
//!
//! Records are seen once they are stable: what a transaction commits counts when it commits
//! (`read_committed`). The end of each partition is looked up before its groups are polled, so that
//! nothing falls between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;
use twinlog_client::{
    Cluster, ErrorCode, FetchOptions, FetchPartition, FetchedPartition, Isolation, OffsetSpec,
    Topics,
};
use twinlog_mirror::FollowCommits;
use twinlog_mirror::formats::group_log::partition_of;
use twinlog_types::{BrokerId, TopicId, TopicName, TopicPartition};

use super::state::LogPartition;
use super::{Commits, Followed};
use crate::flow::Flow;

/// Where group coordinators keep commits.
const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Most bytes of one answer, and of one partition in it, beyond its first batch.
const ANSWER_BYTES: i32 = 1 << 20;
const PARTITION_BYTES: i32 = 256 << 10;
/// How long a broker waits for a commit.
const LONG_POLL: Duration = Duration::from_millis(500);
/// How long commits are gathered before the next request: a busy cluster is asked some hundred times
/// a second, not as often as it can answer.
const GATHER: Duration = Duration::from_millis(5);
/// An answer that comes sooner did not wait for records; so many in a row may bring nothing.
const AT_ONCE: Duration = Duration::from_millis(5);
const FRUITLESS_MAX: u32 = 3;
/// When it is tried again to follow the log.
const SOON: Duration = Duration::from_secs(5);
/// The same where it is not likely that anything has changed.
const LATER: Duration = Duration::from_mins(1);

/// Why the log is not followed.
type Why = (String, Duration);

/// How commits can be followed with these rights, as far as a look from outside tells.
pub(crate) async fn probe(source: &Cluster, asked: FollowCommits) -> Followed {
    if asked != FollowCommits::Live {
        return Followed { way: asked, reason: None };
    }
    let readable = async {
        let partitions = partitions(source).await?;
        let Some(first) = partitions.first() else { return Err(nothing_yet()) };
        source.may_read(first).await.map_err(|error| match error.code() {
            Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED) => no_right(),
            _ => (error.to_string(), SOON),
        })
    };
    match readable.await {
        Ok(()) => Followed { way: FollowCommits::Live, reason: None },
        Err((why, _)) => Followed { way: FollowCommits::Poll, reason: Some(why) },
    }
}

/// Follows the log until the flow ends, and tries again when it cannot.
pub(super) async fn run(flow: Arc<Flow>, commits: Arc<Commits>) {
    let ending = flow.ending();
    loop {
        let (why, again) = tokio::select! {
            biased;
            () = ending.ended() => return,
            lost = follow(&flow, &commits) => lost,
        };
        commits.lose(why, again);
        commits.say(&flow);
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(again) => {}
        }
    }
}

async fn follow(flow: &Arc<Flow>, commits: &Arc<Commits>) -> Why {
    let found = match partitions(&flow.source).await {
        Ok(found) => found,
        Err(lost) => return lost,
    };
    {
        let mut log = commits.log.lock();
        log.lost = None;
        log.partitions =
            found.into_iter().map(|tp| (tp.partition, LogPartition::UNKNOWN)).collect();
    }
    let mut readers = JoinSet::new();
    let mut read: BTreeSet<BrokerId> = BTreeSet::new();
    let mut metadata = flow.source.metadata_changed();
    loop {
        if let Some(lost) = commits.log.lock().lost.clone() {
            return (lost.why, lost.again);
        }
        if let Err(lost) = position(flow, commits).await {
            return lost;
        }
        for tp in tracked(commits) {
            if let Some(leader) = flow.source.leader(&tp)
                && read.insert(leader.broker)
            {
                readers.spawn(read_from(flow.clone(), commits.clone(), leader.broker));
            }
        }
        commits.say(flow);
        tokio::select! {
            biased;
            () = commits.log_changed.notified() => {}
            changed = metadata.changed() => if changed.is_err() { return gone() },
            // A panic is a bug: it goes on upwards.
            Some(Err(error)) = readers.join_next() => std::panic::resume_unwind(error.into_panic()),
            () = tokio::time::sleep(LONG_POLL) => {}
        }
    }
}

fn gone() -> Why {
    ("the client of the source is closed".to_owned(), SOON)
}

fn nothing_yet() -> Why {
    ("no group has committed on the source yet".to_owned(), SOON)
}

fn no_right() -> Why {
    let why = format!("the right to READ topic {OFFSETS_TOPIC} is missing on the source");
    (why, LATER)
}

/// The partitions of the log, in order.
async fn partitions(source: &Cluster) -> Result<Vec<TopicPartition>, Why> {
    let topic = TopicName::from(OFFSETS_TOPIC);
    let asked = source.topics(Topics::Named(std::slice::from_ref(&topic))).await;
    let found = asked.map_err(|error| (error.to_string(), SOON))?.pop().ok_or_else(nothing_yet)?;
    match found.error {
        ErrorCode::NONE => {}
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => return Err(nothing_yet()),
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => return Err(no_right()),
        code => return Err((format!("{OFFSETS_TOPIC} cannot be described: {code}"), SOON)),
    }
    let count = found.partitions.len() as i32;
    Ok((0..count).map(|partition| TopicPartition::new(topic.clone(), partition)).collect())
}

fn tracked(commits: &Commits) -> Vec<TopicPartition> {
    let log = commits.log.lock();
    let topic = TopicName::from(OFFSETS_TOPIC);
    log.partitions.keys().map(|number| TopicPartition::new(topic.clone(), *number)).collect()
}

/// Looks up the end of the partitions that have no position; their groups are then polled.
async fn position(flow: &Flow, commits: &Commits) -> Result<(), Why> {
    let open: Vec<_> = {
        let log = commits.log.lock();
        let open = log.partitions.iter().filter(|(_, partition)| partition.next.is_none());
        open.map(|(number, _)| (TopicPartition::new(OFFSETS_TOPIC, *number), OffsetSpec::Latest))
            .collect()
    };
    if open.is_empty() {
        return Ok(());
    }
    let listed = flow.source.list_offsets(&open, Isolation::ReadCommitted).await;
    let listed = listed.map_err(|error| (error.to_string(), SOON))?;
    let mut found = BTreeSet::new();
    let count = {
        let mut log = commits.log.lock();
        for (tp, answer) in listed {
            match answer {
                Ok(end) => {
                    let next = Some(end.offset);
                    found.insert(tp.partition);
                    let heard = Some(Instant::now());
                    let known = LogPartition { next, heard, ..LogPartition::UNKNOWN };
                    log.partitions.insert(tp.partition, known);
                }
                Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED) => return Err(no_right()),
                Err(code) => debug!(partition = %tp, %code, "its end cannot be looked up yet"),
            }
        }
        log.partitions.len() as i32
    };
    let of_found = |group: &_| partition_of(group, count).is_some_and(|at| found.contains(&at));
    commits.view.lock().gap(of_found);
    commits.poll.notify_one();
    Ok(())
}

/// Reads the partitions that one broker leads.
async fn read_from(flow: Arc<Flow>, commits: Arc<Commits>, broker: BrokerId) {
    let options = FetchOptions {
        max_wait: LONG_POLL,
        min_bytes: 1,
        max_bytes: ANSWER_BYTES,
        partition_max_bytes: PARTITION_BYTES,
        isolation: Isolation::ReadCommitted,
        rack: None,
    };
    let mut session = flow.source.fetch_session(broker, options);
    let mut backoff = flow.backoff(2_000 + broker as u64);
    let mut fruitless = 0;
    loop {
        let wanted = wanted(&flow, &commits, broker);
        if wanted.is_empty() {
            tokio::time::sleep(LONG_POLL).await;
            continue;
        }
        let asked_at = Instant::now();
        let answer = match session.fetch(&wanted).await {
            Ok(answer) => answer,
            Err(error) => {
                debug!(flow = %flow.name, broker, %error, "the log of commits cannot be fetched");
                flow.source.metadata_stale();
                backoff.wait().await;
                continue;
            }
        };
        let asked: BTreeMap<i32, i64> =
            wanted.iter().map(|one| (one.tp.partition, one.offset)).collect();
        // Above zero a quota is at work: partitions that are not named say nothing.
        let throttled = !answer.throttle.is_zero();
        let (news, trouble) = take(&flow, &commits, &asked, answer.partitions, throttled);
        fruitless = if !news && asked_at.elapsed() < AT_ONCE { fruitless + 1 } else { 0 };
        if trouble {
            flow.source.metadata_stale();
        }
        if trouble || fruitless > FRUITLESS_MAX {
            backoff.wait().await;
        } else if news {
            backoff.reset();
            tokio::time::sleep(GATHER).await;
        }
    }
}

fn wanted(flow: &Flow, commits: &Commits, broker: BrokerId) -> Vec<FetchPartition> {
    let topic = TopicName::from(OFFSETS_TOPIC);
    let topic_id = flow.source.cached(&topic).map_or(TopicId::NONE, |topic| topic.id);
    let mut wanted = Vec::new();
    for (number, partition) in &commits.log.lock().partitions {
        let tp = TopicPartition::new(topic.clone(), *number);
        let Some(leader) = flow.source.leader(&tp) else { continue };
        let Some(offset) = partition.next.filter(|_| leader.broker == broker) else { continue };
        wanted.push(FetchPartition {
            tp,
            topic_id,
            offset,
            last_fetched_epoch: partition.last_epoch,
            current_leader_epoch: leader.epoch,
            max_bytes: PARTITION_BYTES,
        });
    }
    wanted
}

/// Takes an answer in. Whether it brought anything, and whether the metadata may be stale.
fn take(
    flow: &Flow,
    commits: &Commits,
    asked: &BTreeMap<i32, i64>,
    parts: Vec<FetchedPartition>,
    throttled: bool,
) -> (bool, bool) {
    let (mut news, mut trouble) = (false, false);
    let mut silent = BTreeSet::new();
    for part in parts {
        let number = part.tp.partition;
        let Some(&from) = asked.get(&number) else { continue };
        match part.error {
            ErrorCode::NONE if part.diverging.is_none() => {
                news |= read_part(flow, commits, from, &part);
            }
            ErrorCode::NONE | ErrorCode::OFFSET_OUT_OF_RANGE => {
                // What was read is not what the log has now: from its end on, after a poll.
                commits.log.lock().partitions.insert(number, LogPartition::UNKNOWN);
                commits.log_changed.notify_one();
                silent.insert(number);
                trouble = true;
            }
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                let (why, again) = no_right();
                commits.lose(why, again);
                return (false, true);
            }
            ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::INCONSISTENT_TOPIC_ID => {
                commits.lose(format!("{OFFSETS_TOPIC} was made again"), SOON);
                return (false, true);
            }
            code => {
                debug!(partition = %part.tp, %code, "the log of commits cannot be read now");
                silent.insert(number);
                trouble = true;
            }
        }
    }
    let heard = Instant::now();
    let mut log = commits.log.lock();
    for number in asked.keys().filter(|number| !throttled && !silent.contains(number)) {
        if let Some(partition) = log.partitions.get_mut(number) {
            partition.heard = Some(heard);
        }
    }
    (news, trouble)
}

/// Reads the records of one partition. Whether there were any.
fn read_part(flow: &Flow, commits: &Commits, from: i64, part: &FetchedPartition) -> bool {
    let mut unreadable = None;
    let read = part.each_record(from, Isolation::ReadCommitted, |record| {
        if let Err(error) = commits.logged(flow, &record) {
            unreadable.get_or_insert((record.offset, error));
        }
    });
    let next = match read {
        Ok(next) => next,
        Err(error) => {
            commits.lose(error.to_string(), LATER);
            return false;
        }
    };
    if let Some((offset, error)) = unreadable {
        let at = format!("{} at offset {offset}", part.tp);
        commits.lose(format!("a commit in {at} cannot be read: {error}"), LATER);
    }
    let last = twinlog_batch::heads(&part.records).filter_map(Result::ok).last();
    let held = (0..part.high_watermark).contains(&part.last_stable_offset);
    let mut log = commits.log.lock();
    if let Some(partition) = log.partitions.get_mut(&part.tp.partition) {
        partition.next = partition.next.map(|before| before.max(next));
        if let Some(head) = last {
            partition.last_epoch = head.leader_epoch;
        }
        partition.held = held.then(|| partition.held.unwrap_or_else(Instant::now));
    }
    next > from
}
