//! Follows consumer groups: reads their commits on the source, translates them, writes them on
//! the target and as MM2's checkpoints.
//!
//! All groups of a round are read with one request for each coordinator. What is decided about a
//! group is [`twinlog_flow::groups`]'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;
use tracing::{debug, info, warn};
use twinlog_batch::Record;
use twinlog_client::{ClientError, CommittedOffset, ErrorCode, GroupKind, GroupListing, Isolation};
use twinlog_flow::Standing;
use twinlog_flow::checkpoints::{CheckpointEmitter, checkpoint_topic};
use twinlog_flow::groups::{
    GroupAction, GroupSelection, GroupTracker, Reading, Rules, TargetGroup, select,
};
use twinlog_mirror::formats::Checkpoint;
use twinlog_types::{
    Code, GroupId, Planted, SourceOffset, State, TargetOffset, TopicPartition, Translation, planted,
};

use crate::cell::Cell;
use crate::flow::Flow;
use crate::internal;

/// Checkpoints are written this often at least where something changed; MM2's
/// `emit.checkpoints.interval.seconds` is an upper bound.
const CHECKPOINTS_INTERVAL: std::time::Duration = std::time::Duration::from_secs(5);

type Commits = BTreeMap<GroupId, Result<Vec<CommittedOffset>, ErrorCode>>;

struct Follower {
    tracker: GroupTracker,
    checkpoints: CheckpointEmitter,
    /// Groups that the filter lets through, as last listed.
    followed: Vec<GroupId>,
    listing_due: Instant,
    checkpoints_due: Instant,
    checkpoints_ready: bool,
    /// What was said of each group last.
    said: BTreeMap<GroupId, Option<Code>>,
}

/// Follows groups until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>) {
    let config = &flow.config;
    if !config.sync_group_offsets_enabled && !config.emit_checkpoints_enabled {
        return;
    }
    let now = Instant::now();
    let mut follower = Follower {
        tracker: GroupTracker::new(Rules::new(config.sync_group_offsets_enabled)),
        checkpoints: CheckpointEmitter::new(),
        followed: Vec::new(),
        listing_due: now,
        checkpoints_due: now,
        checkpoints_ready: false,
        said: BTreeMap::new(),
    };
    let ending = flow.ending();
    let interval =
        Flow::no_later_than(flow.options.groups_interval, config.sync_group_offsets_interval);
    loop {
        let round = tokio::select! {
            biased;
            () = ending.ended() => return,
            round = round(&flow, &mut follower) => round,
        };
        if let Err(error) = round {
            warn!(flow = %flow.name, %error, "groups cannot be followed now; the next round tries again");
            flow.target_unreachable(&error);
        }
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn round(flow: &Arc<Flow>, follower: &mut Follower) -> Result<(), ClientError> {
    list(flow, follower).await?;
    if flow.config.emit_checkpoints_enabled && !follower.checkpoints_ready {
        prepare_checkpoints(flow, follower).await?;
    }
    if follower.followed.is_empty() {
        return Ok(());
    }
    let sources = flow.source.fetch_offsets(&follower.followed).await?;
    let (targets, states) = if flow.config.sync_group_offsets_enabled {
        let targets = flow.target.fetch_offsets(&follower.followed).await?;
        let states = flow.target.list_groups().await?;
        (targets, states)
    } else {
        (Commits::new(), Vec::new())
    };
    let states: BTreeMap<&GroupId, &GroupListing> =
        states.iter().map(|listing| (&listing.group, listing)).collect();
    let mut checkpoints = Vec::new();
    let emit = flow.config.emit_checkpoints_enabled && Instant::now() >= follower.checkpoints_due;
    for (group, commits) in &sources {
        let now_ms = flow.now_ms();
        let commits = match commits {
            Ok(commits) => commits,
            Err(code) => {
                let standing = unreadable(*code, group, "the source");
                follower.tracker.unreadable(group, standing, now_ms);
                continue;
            }
        };
        let target = match targets.get(group) {
            Some(Ok(offsets)) => offsets.as_slice(),
            Some(Err(_)) if planted(Planted::FailedLookupIsAbsent) => &[],
            Some(Err(code)) => {
                let standing = unreadable(*code, group, "the target");
                follower.tracker.unreadable(group, standing, now_ms);
                continue;
            }
            None => &[],
        };
        let state = target_state(states.get(group).copied());
        follow(flow, follower, group, commits, target, state).await;
        say(flow, follower, group);
        if emit {
            checkpoints.extend(due_checkpoints(flow, follower, group, commits));
        }
    }
    if emit {
        write_checkpoints(flow, follower, checkpoints).await?;
        let interval = Flow::no_later_than(CHECKPOINTS_INTERVAL, flow.config.checkpoints_interval);
        follower.checkpoints_due = Instant::now() + interval;
    }
    Ok(())
}

/// A group whose standing changed is named in the log, once.
fn say(flow: &Flow, follower: &mut Follower, group: &GroupId) {
    let Some(standing) = follower.tracker.standing(group) else { return };
    let code = standing.standing.code;
    let before = follower.said.insert(group.clone(), code);
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

fn unreadable(code: ErrorCode, group: &GroupId, side: &str) -> Standing {
    let reason = format!("the offsets of {group} cannot be read on {side}: {code}");
    if code == ErrorCode::GROUP_AUTHORIZATION_FAILED {
        Standing::found(State::Unknown, Code::MissingPermission, reason)
    } else {
        Standing::because(State::Unknown, reason)
    }
}

/// Which groups there are, when it is time to look.
async fn list(flow: &Flow, follower: &mut Follower) -> Result<(), ClientError> {
    let first = follower.followed.is_empty();
    let refresh = first || flow.config.refresh_groups_enabled;
    if !refresh || Instant::now() < follower.listing_due {
        return Ok(());
    }
    let listed = flow.source.list_groups().await?;
    flow.source_reached();
    let now_ms = flow.now_ms();
    let mut followed = Vec::new();
    for listing in listed {
        if listing.kind == GroupKind::Share {
            continue;
        }
        let selection = select(&flow.config.groups, listing.group.as_str(), true);
        follower.tracker.select(&listing.group, &selection, now_ms);
        if selection == GroupSelection::Followed {
            followed.push(listing.group);
        }
    }
    let present: BTreeSet<&GroupId> = followed.iter().collect();
    follower.checkpoints.retain(|group| present.contains(group));
    follower.said.retain(|group, _| present.contains(group));
    follower.followed = followed;
    let interval =
        Flow::no_later_than(flow.options.discovery_interval, flow.config.refresh_groups_interval);
    follower.listing_due = Instant::now() + interval;
    Ok(())
}

/// One group: reads, decides, commits.
async fn follow(
    flow: &Arc<Flow>,
    follower: &mut Follower,
    group: &GroupId,
    commits: &[CommittedOffset],
    target: &[CommittedOffset],
    target_group: TargetGroup,
) {
    let mut writes = Vec::new();
    let on_target: BTreeMap<&TopicPartition, i64> =
        target.iter().map(|one| (&one.tp, one.offset)).collect();
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
        let action = follower.tracker.observe(group, &commit.tp, reading, flow.now_ms());
        if let GroupAction::Commit(offset) = action {
            let metadata = commit.metadata.clone();
            writes.push((commit.tp.clone(), cell.target.clone(), offset, metadata));
        }
    }
    if writes.is_empty() {
        return;
    }
    let request: Vec<_> = writes
        .iter()
        .map(|(_, target, offset, metadata)| (target.clone(), offset.0, metadata.clone()))
        .collect();
    let answer = flow.target.commit_offsets(group, &request).await;
    let now_ms = flow.now_ms();
    match answer {
        Ok(codes) => {
            let codes: BTreeMap<_, _> = codes.into_iter().collect();
            for (source, target, offset, _) in &writes {
                match codes.get(target) {
                    Some(&ErrorCode::NONE) => {
                        debug!(flow = %flow.name, %group, partition = %target, offset = offset.0, "committed");
                        follower.tracker.committed(group, source, *offset, now_ms);
                    }
                    Some(code) => {
                        follower.tracker.refused(group, source, code.0, &code.to_string(), now_ms);
                    }
                    None => follower.tracker.failed(group, source, "no answer for it", now_ms),
                }
            }
        }
        Err(error) => {
            for (source, ..) in &writes {
                follower.tracker.failed(group, source, &error.to_string(), now_ms);
            }
        }
    }
}

/// Where a source position is on the target, and how far the target is copied.
fn translate(
    cell: &Cell,
    position: SourceOffset,
) -> (Translation<TargetOffset>, Option<TargetOffset>) {
    let copier = cell.copier.lock();
    if !copier.is_settled() {
        // What a former owner copied is known only after the look.
        return (Translation::Unknown, None);
    }
    let map = copier.map();
    if planted(Planted::GuessesAhead) && position > map.copied_to() {
        let guess = map.target_end().plus(position.since(map.copied_to()));
        return (Translation::Exact(guess), None);
    }
    (map.translate(position), Some(map.target_end()))
}

fn target_state(listing: Option<&GroupListing>) -> TargetGroup {
    match listing.map(|listing| listing.state.as_str()) {
        None | Some("Dead") => TargetGroup::Absent,
        Some("Empty") => TargetGroup::Empty,
        // A broker too old to tell: the commit's answer does.
        Some("" | "Unknown") => TargetGroup::Unknown,
        Some(_) => TargetGroup::Live { members: 0 },
    }
}

/// Makes the topic and reads what stands on it, so that a restart does not write it all again.
async fn prepare_checkpoints(flow: &Flow, follower: &mut Follower) -> Result<(), ClientError> {
    let topic = flow.config.checkpoints_topic();
    let replication_factor = flow.config.checkpoints_topic_replication_factor;
    internal::ensure_compacted(&flow.target, &topic, replication_factor).await?;
    let tp = TopicPartition { topic, partition: 0 };
    let checkpoints = &mut follower.checkpoints;
    flow.target
        .read_partition_each(&tp, 0, Isolation::ReadUncommitted, |record| {
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            if let Ok(checkpoint) = Checkpoint::decode(key, value) {
                checkpoints.loaded(&checkpoint);
            }
        })
        .await?;
    follower.checkpoints_ready = true;
    Ok(())
}

fn due_checkpoints(
    flow: &Flow,
    follower: &mut Follower,
    group: &GroupId,
    commits: &[CommittedOffset],
) -> Vec<Checkpoint> {
    let confirmed: BTreeMap<TopicPartition, SourceOffset> = follower
        .tracker
        .positions(group)
        .filter(|(_, position)| position.is_confirmed())
        .filter_map(|(tp, position)| Some((tp.clone(), position.source()?)))
        .collect();
    let mut due = Vec::new();
    for commit in commits {
        let Some(&source) = confirmed.get(&commit.tp) else { continue };
        let Some(cell) = flow.cells.get(&commit.tp) else { continue };
        let (translation, _) = translate(&cell, source);
        let topic = checkpoint_topic(&flow.config, &commit.tp.topic);
        let checkpoints = &mut follower.checkpoints;
        due.extend(checkpoints.due(
            group,
            (&commit.tp, source),
            &topic,
            translation,
            &commit.metadata,
        ));
    }
    due
}

async fn write_checkpoints(
    flow: &Flow,
    follower: &mut Follower,
    checkpoints: Vec<Checkpoint>,
) -> Result<(), ClientError> {
    let tp = TopicPartition { topic: flow.config.checkpoints_topic(), partition: 0 };
    for chunk in checkpoints.chunks(1_000) {
        let now_ms = flow.now_ms();
        let records: Vec<Record> = chunk
            .iter()
            .map(|checkpoint| Record {
                offset: 0,
                timestamp: now_ms,
                key: Some(checkpoint.key()),
                value: Some(checkpoint.value()),
                headers: Vec::new(),
            })
            .collect();
        if let Err(error) = flow.target.produce_plain(&tp, &records).await {
            for checkpoint in chunk {
                follower.checkpoints.failed(checkpoint);
            }
            return Err(error);
        }
    }
    Ok(())
}
