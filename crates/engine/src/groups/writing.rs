//! Decides what is committed for groups on the target, and commits it.
//!
//! All groups that were read are decided on first. What moves a position goes into the journal, for
//! all of them at once; then their positions are read once more, as the journal took its time; then
//! they are committed, several at a time. A group's partitions go into one request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};
use twinlog_client::{ClientError, CommittedOffset, ErrorCode, Topics};
use twinlog_flow::Standing;
use twinlog_flow::groups::{
    GroupAction, GroupTracker, PartitionPosition, Reading, Rules, TargetGroup, is_written_back,
};
use twinlog_offsets::state::PartitionKey;
use twinlog_types::{
    Code, GroupId, Planted, SourceOffset, State, TargetOffset, TopicId, TopicName, TopicPartition,
    Translation, planted,
};

use super::journal::{self, Journals};
use super::targets::{PATIENCE, Targets};
use super::wishes::Wished;
use super::{Placed, ReadCommits, translate, unreadable};
use crate::cell::Cell;
use crate::commits::Commits;
use crate::flow::Flow;
use crate::parallel::in_parallel;

/// Commits under way at once: connections to coordinators are shared with other requests.
const COMMITS_AT_ONCE: usize = 32;

/// The other groups of a round wait no longer for one whose coordinator is away.
const COMMIT_PATIENCE: Duration = Duration::from_secs(3);

/// Where a position stands is believed no longer than this: the target's own consumers may have moved
/// it while this process was stopped, or its answers were on their way.
const READ_FOR: Duration = Duration::from_secs(3);

/// The writing side: what is remembered of all groups.
pub(super) struct Writer {
    pub(super) tracker: GroupTracker,
    journals: Journals,
    wished: Wished,
    /// What was said of each group last.
    said: BTreeMap<GroupId, Option<Code>>,
}

/// A position that is to be committed.
struct Due {
    source: TopicPartition,
    target: TopicPartition,
    life: PartitionKey,
    /// Where it stands on the target.
    stands: Option<TargetOffset>,
    offset: TargetOffset,
    /// Whether that moves it.
    moves: bool,
    metadata: String,
}

/// What is to be committed, by group.
type AllDue = Vec<(GroupId, Vec<Due>)>;

/// What came of what was due.
#[derive(Default)]
pub(super) struct Written {
    /// Groups that were written to, or may have been.
    pub(super) groups: Vec<GroupId>,
    /// Groups of which something was due that was not sent, or not taken.
    pub(super) postponed: BTreeSet<GroupId>,
}

/// The answer to a commit of one group.
type Answer = Result<Vec<(TopicPartition, ErrorCode)>, ClientError>;

impl Writer {
    pub(super) fn new(flow: &Flow) -> Self {
        let tracker = GroupTracker::new(Rules::new(flow.config.sync_group_offsets_enabled));
        let journals = Journals::new(flow);
        Self { tracker, journals, wished: Wished::default(), said: BTreeMap::new() }
    }

    /// How old a commit may become before it is renewed.
    pub(super) fn renew_after(&mut self, flow: &Flow, after_ms: i64) {
        let rules = Rules::new(flow.config.sync_group_offsets_enabled);
        self.tracker.set_rules(Rules { renew_after_ms: Some(after_ms), ..rules });
    }

    /// Whether this was decided on already: another look would find nothing else to do, unless the
    /// target has changed.
    pub(super) fn is_decided(
        &self,
        group: &GroupId,
        tp: &TopicPartition,
        source: SourceOffset,
        translation: Translation<TargetOffset>,
    ) -> bool {
        self.tracker.position_of(group, tp).is_some_and(|position| {
            let reading = &position.reading;
            reading.source == Some(source) && reading.translation == translation
        })
    }

    /// Every group of which anything is known, now or from the state.
    pub(super) fn known_groups(&self) -> BTreeSet<GroupId> {
        self.tracker.groups().chain(self.journals.groups()).cloned().collect()
    }

    /// Forgets a group, here and in the durable state. Answers how many journals of it go.
    pub(super) fn forget(&mut self, flow: &Flow, group: &GroupId) -> usize {
        self.said.remove(group);
        let count = self.journals.remove(flow, &self.tracker, group);
        self.tracker.forget_group(group);
        count
    }

    /// Forgets what was said of groups that are not there any more.
    pub(super) fn retain(&mut self, present: &BTreeSet<GroupId>) {
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
            let reason = flow.options.pasteable(&reason);
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
    source: &Commits,
    (sources, targets): (&ReadCommits, &Targets),
) -> Written {
    writer.wished.take_in(flow, &mut writer.tracker);
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
        let positions = decide(flow, writer, group, (commits, source), (target, targets));
        if !positions.is_empty() {
            due.push((group.clone(), positions));
        }
    }
    let mut written = Written::default();
    let mut open: BTreeMap<GroupId, usize> =
        due.iter().map(|(group, positions)| (group.clone(), positions.len())).collect();
    let due = journaled(flow, writer, due).await;
    let (due, read_at) = unmoved(flow, writer, due).await;
    for (group, positions, answer) in commit(flow, due, read_at).await {
        let Some(answer) = answer else {
            give_up(writer, &group, &positions);
            continue;
        };
        if open.get(&group) == Some(&note(flow, writer, &group, &positions, answer)) {
            open.remove(&group);
        }
        written.groups.push(group);
    }
    written.postponed = open.into_keys().collect();
    writer.journals.leave(flow, &mut writer.tracker);
    writer.wished.answer(flow, &mut writer.tracker);
    for group in sources.keys() {
        writer.say(flow, group);
    }
    written
}

/// What is to be committed for a group.
fn decide(
    flow: &Flow,
    writer: &mut Writer,
    group: &GroupId,
    (commits, source): (&[CommittedOffset], &Commits),
    (target, targets): (&[CommittedOffset], &Targets),
) -> Vec<Due> {
    let on_target: BTreeMap<&TopicPartition, &CommittedOffset> =
        target.iter().map(|one| (&one.tp, one)).collect();
    let target_group = targets.state(group);
    let mut due = Vec::new();
    let mut unread = None;
    let mut doubted = Vec::new();
    for commit in commits.iter().filter(|commit| commit.offset >= 0) {
        let Some(cell) = flow.cells.get(&commit.tp) else { continue };
        if let Some(standing) = of_another_life(&cell) {
            unread = Some(standing);
            continue;
        }
        let stands = on_target.get(&cell.target);
        if let Some(code) = stands.map(|one| one.error).filter(|code| !code.is_ok()) {
            // A consumer's transaction that is open, say: it is not without a commit.
            unread = Some(unreadable(code, group, "the target"));
            continue;
        }
        let target = stands.map(|one| TargetOffset(one.offset)).filter(|offset| offset.0 >= 0);
        let offset = SourceOffset(commit.offset);
        let asked_ms = (source.asked_ms(group, &commit.tp, offset), targets.asked_ms());
        let reading = read(flow, group, &cell, offset, (target, target_group), asked_ms);
        let Writer { tracker, journals, .. } = writer;
        journals.prepare(tracker, group, &commit.tp, &cell.key);
        let action = tracker.observe(group, &commit.tp, reading, flow.now_ms());
        if tracker.position_of(group, &commit.tp).is_some_and(PartitionPosition::is_doubted) {
            doubted.push((group.clone(), commit.tp.clone()));
        }
        let (GroupAction::Commit(offset) | GroupAction::Renew(offset)) = action else { continue };
        due.push(Due {
            source: commit.tp.clone(),
            target: cell.target.clone(),
            life: cell.key.clone(),
            stands: target,
            offset,
            moves: matches!(action, GroupAction::Commit(_)),
            metadata: commit.metadata.clone(),
        });
    }
    source.want(&doubted, flow.now_ms());
    if let Some(standing) = unread {
        writer.tracker.unreadable(group, standing, flow.now_ms());
    }
    due
}

/// Commits on a topic that was made again have nothing to do with what was copied before.
fn of_another_life(cell: &Cell) -> Option<Standing> {
    let copier = cell.copier.lock();
    let stop = copier.stopped()?;
    let made_again = matches!(stop.code, Code::TopicRecreated | Code::TargetRecreated);
    made_again.then(|| Standing::found(State::Waiting, stop.code, stop.reason.clone()))
}

/// One position as it was read, with its place on the target.
fn read(
    flow: &Flow,
    group: &GroupId,
    cell: &Cell,
    source: SourceOffset,
    (target, target_group): (Option<TargetOffset>, TargetGroup),
    (source_asked_ms, target_asked_ms): (i64, i64),
) -> Reading {
    let copied_to = cell.copier.lock().map().copied_to();
    let Placed { translation, copied_end, loading } = translate(flow, cell, source);
    let (from, to) = (&cell.source.topic, &cell.target.topic);
    let opposite = flow.opposite.as_deref();
    Reading {
        source: Some(source),
        source_asked_ms,
        translation,
        copied_end,
        target,
        target_asked_ms,
        target_group,
        loading,
        lost: cell.lost_from(source, copied_to),
        share: flow.share_groups().contains(group),
        both_directions: opposite.is_some_and(|back| is_written_back(back, group, from, to)),
    }
}

/// What is due and durable in the journal. What is not is decided on again with the next round.
async fn journaled(flow: &Flow, writer: &mut Writer, due: AllDue) -> AllDue {
    let mut entries = Vec::new();
    for (group, positions) in &due {
        let journals: BTreeMap<_, _> =
            writer.tracker.positions(group).map(|(tp, one)| (tp, one.journal().clone())).collect();
        for one in positions.iter().filter(|one| one.moves) {
            let Some(journal) = journals.get(&one.source) else { continue };
            entries.push((one.life.clone(), group.clone(), journal.clone()));
        }
    }
    if entries.is_empty() {
        return due;
    }
    let failed = journal::write(flow, entries).await;
    let (unwritten, written): (AllDue, AllDue) =
        due.into_iter().partition(|(group, _)| failed.contains(group));
    let now_ms = flow.now_ms();
    for (group, positions) in unwritten {
        for one in positions {
            let reason = "it was not sent, as its journal could not be written";
            writer.tracker.failed(&group, &one.source, reason, now_ms);
        }
    }
    written
}

/// What is due and stands where it was read, and when that was asked. Consumers of the target may have
/// come and gone while the journal was written; brokers take any commit once a group is without
/// members.
async fn unmoved(flow: &Flow, writer: &mut Writer, due: AllDue) -> (AllDue, Instant) {
    let moving: Vec<GroupId> = due
        .iter()
        .filter(|(_, positions)| positions.iter().any(|one| one.moves))
        .map(|(group, _)| group.clone())
        .collect();
    if moving.is_empty() || planted(Planted::FailedLookupIsAbsent) {
        return (due, Instant::now());
    }
    let alive = same_topics(flow, &due).await;
    let read_at = Instant::now();
    let share = flow.share_groups();
    let again = flow.target.fetch_positions_within(&moving, &share, PATIENCE);
    let again = again.await.unwrap_or_default();
    let mut left = Vec::new();
    for (group, positions) in due {
        if !moving.contains(&group) {
            left.push((group, positions));
            continue;
        }
        let Some(Ok(commits)) = again.get(&group) else {
            give_up(writer, &group, &positions);
            continue;
        };
        let stands: BTreeMap<&TopicPartition, &CommittedOffset> =
            commits.iter().map(|one| (&one.tp, one)).collect();
        let (still, moved): (Vec<Due>, Vec<Due>) = positions.into_iter().partition(|one| {
            let now = stands.get(&one.target);
            let offset = now.map(|now| TargetOffset(now.offset)).filter(|offset| offset.0 >= 0);
            let back = one.stands.is_some_and(|stands| one.offset < stands);
            now.is_none_or(|now| now.error.is_ok())
                && offset == one.stands
                && (!back || alive.contains(&one.life.source_topic))
        });
        give_up(writer, &group, &moved);
        if !still.is_empty() {
            left.push((group, still));
        }
    }
    (left, read_at)
}

/// The ids of the source's topics now, where a position is to be taken back: a lower commit on a topic
/// that was made again a moment ago is no rewind.
async fn same_topics(flow: &Flow, due: &AllDue) -> BTreeSet<TopicId> {
    let back = due.iter().flat_map(|(_, positions)| positions);
    let back = back.filter(|one| one.stands.is_some_and(|stands| one.offset < stands));
    let names: BTreeSet<TopicName> = back.map(|one| one.source.topic.clone()).collect();
    if names.is_empty() {
        return BTreeSet::new();
    }
    let names: Vec<TopicName> = names.into_iter().collect();
    let listed = flow.source.topics(Topics::Named(&names)).await.unwrap_or_default();
    listed.into_iter().filter(|topic| topic.error.is_ok()).map(|topic| topic.id).collect()
}

fn give_up(writer: &mut Writer, group: &GroupId, positions: &[Due]) {
    for one in positions {
        writer.tracker.given_up(group, &one.source);
    }
}

/// Commits what is due, several groups at a time. Without an answer it was not sent, as it was read too
/// long ago.
async fn commit(
    flow: &Arc<Flow>,
    due: AllDue,
    read_at: Instant,
) -> Vec<(GroupId, Vec<Due>, Option<Answer>)> {
    let commits = due.into_iter().map(|(group, positions)| {
        let flow = flow.clone();
        let share = flow.share_groups().contains(&group);
        async move {
            if read_at.elapsed() > READ_FOR {
                return (group, positions, None);
            }
            let request: Vec<_> = positions
                .iter()
                .map(|due| (due.target.clone(), due.offset.0, due.metadata.clone()))
                .collect();
            let late = |what: String| Err(ClientError::Timeout { what });
            let commit = async {
                if share {
                    flow.target.commit_share_offsets(&group, &request).await
                } else {
                    flow.target.commit_offsets(&group, &request).await
                }
            };
            // Given up, it is not sent any more: positions move meanwhile.
            let answer = tokio::select! {
                biased;
                () = flow.tenure.over() => late("the renewal of the lease".into()),
                answer = commit => answer,
                () = tokio::time::sleep(COMMIT_PATIENCE) => late(format!("the position of {group}")),
            };
            (group, positions, Some(answer))
        }
    });
    in_parallel(COMMITS_AT_ONCE, commits.collect()).await
}

/// Notes how the commit of a group was answered. Answers how many positions were taken.
fn note(
    flow: &Flow,
    writer: &mut Writer,
    group: &GroupId,
    positions: &[Due],
    answer: Answer,
) -> usize {
    let tracker = &mut writer.tracker;
    let now_ms = flow.now_ms();
    let codes = match answer {
        Ok(codes) => codes.into_iter().collect::<BTreeMap<_, _>>(),
        Err(error) => {
            for due in positions {
                tracker.failed(group, &due.source, &error.to_string(), now_ms);
            }
            return 0;
        }
    };
    let mut taken = 0;
    for Due { source, target, offset, .. } in positions {
        match codes.get(target) {
            Some(&ErrorCode::NONE) => {
                debug!(flow = %flow.name, %group, partition = %target, offset = offset.0, "committed");
                tracker.committed(group, source, *offset, now_ms);
                taken += 1;
            }
            Some(code) => tracker.refused(group, source, code.0, &code.to_string(), now_ms),
            None => tracker.failed(group, source, "no answer for it", now_ms),
        }
    }
    taken
}
