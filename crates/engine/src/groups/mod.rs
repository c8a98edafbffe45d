//! Carries the commits of consumer groups over to the target, and writes MM2's checkpoints of them.
//!
//! - [`commits`](crate::commits): what groups commit on the source, as soon as it is known.
//! - [`reading`]: which groups there are.
//! - [`targets`]: what they have committed on the target, and whether they have members there.
//! - [`writing`]: decides with [`twinlog_flow::groups`] and commits on the target.
//! - [`journal`]: what is committed is durable before it is sent.
//! - [`wishes`]: what operators decided about groups.
//! - [`vanished`]: groups that are gone on both sides leave the state.
//! - [`checkpoints`]: writes what was confirmed as MM2's checkpoints.
//!
//! A group has its turn when its commit changed, when the copy it waits for may have come, and
//! every so often. All groups whose turn it is are read on the target with one request for each
//! coordinator. When turns come is [`Pace`]'s to say.

mod checkpoints;
mod journal;
mod reading;
mod retention;
mod targets;
mod vanished;
mod wishes;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use twinlog_client::{ClientError, CommittedOffset, ErrorCode};
use twinlog_flow::Standing;
use twinlog_flow::groups::Pace;
use twinlog_mirror::FollowCommits;
use twinlog_types::{
    Code, GroupId, Planted, SourceOffset, State, TargetOffset, Translation, planted,
};

use crate::blocks;
use crate::cell::Cell;
use crate::commits::Commits;
use crate::flow::Flow;
use checkpoints::Checkpoints;
use reading::{Listed, Lister};
use retention::Renewal;
use targets::TargetGroups;
use vanished::Vanished;
use writing::Writer;

/// Commits of groups, or why a group's could not be read.
type ReadCommits = BTreeMap<GroupId, Result<Vec<CommittedOffset>, ErrorCode>>;

/// Groups of one round: what is read for it stays well below a frame.
const ROUND_MAX: usize = 1_000;
/// A group that stands where it belongs is looked at again after so long, ...
const SETTLED_CHECK: Duration = Duration::from_secs(2);
/// ... and longer by this for each group that is followed: in sum a thousand a second at most.
const SETTLED_CHECK_PER_GROUP: Duration = Duration::from_millis(1);

/// There is a round this often at least: checkpoints wait for one.
const IDLE: Duration = Duration::from_secs(1);

/// What the rounds share.
struct Rounds {
    commits: Arc<Commits>,
    lister: Arc<Lister>,
    renewal: Arc<Renewal>,
    pace: Pace,
    targets: TargetGroups,
    writer: Writer,
    checkpoints: Checkpoints,
    vanished: Vanished,
    /// Between two looks at a group with nothing new that is not where it belongs.
    interval: Duration,
}

/// Follows groups until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>) {
    let config = &flow.config;
    if !config.sync_group_offsets_enabled && !config.emit_checkpoints_enabled {
        return;
    }
    let commits = Commits::start(&flow);
    let interval = match config.follow_commits {
        FollowCommits::Interval => config.sync_group_offsets_interval,
        FollowCommits::Live | FollowCommits::Poll => {
            Flow::no_later_than(flow.options.groups_interval, config.sync_group_offsets_interval)
        }
    };
    let mut rounds = Rounds {
        lister: Lister::start(&flow, &commits),
        renewal: Renewal::start(&flow),
        commits,
        pace: Pace::new(),
        targets: TargetGroups::default(),
        writer: Writer::new(&flow),
        checkpoints: Checkpoints::new(),
        vanished: Vanished::new(),
        interval,
    };
    let ending = flow.ending();
    loop {
        // Whoever may have lost the flow meanwhile writes over nobody's positions.
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = flow.tenure.held() => {}
        }
        let round = tokio::select! {
            biased;
            () = ending.ended() => return,
            round = rounds.round(&flow) => round,
        };
        if let Err(error) = round {
            warn!(flow = %flow.name, %error, "groups cannot be followed now; the next round tries again");
            flow.target_unreachable(&error);
            tokio::select! {
                biased;
                () = ending.ended() => return,
                () = tokio::time::sleep(interval) => continue,
            }
        }
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = rounds.commits.news() => {}
            () = tokio::time::sleep_until(rounds.next(&flow)) => {}
        }
    }
}

impl Rounds {
    /// One round: the groups whose turn it is.
    async fn round(&mut self, flow: &Arc<Flow>) -> Result<(), ClientError> {
        if let Some(listed) = self.lister.take() {
            let mut present = self.listed(flow, &listed);
            present.extend(listed.selections.into_iter().map(|(group, _)| group));
            self.vanished.remove(flow, &mut self.writer, &present).await;
        }
        self.writer.renew_after(flow, self.renewal.after_ms());
        let now_ms = flow.now_ms();
        for group in self.commits.take_changed() {
            self.pace.changed(&group, now_ms);
        }
        let turns = self.pace.take(now_ms, ROUND_MAX);
        let outcome = self.turns(flow, &turns).await;
        if outcome.is_err() {
            let later = flow.now_ms() + millis(self.interval);
            for group in &turns {
                self.pace.again(group, later);
            }
        }
        outcome?;
        self.checkpoints.prepare(flow).await?;
        self.checkpoints.write(flow, &self.writer, &self.commits).await
    }

    async fn turns(&mut self, flow: &Arc<Flow>, turns: &[GroupId]) -> Result<(), ClientError> {
        let now_ms = flow.now_ms();
        self.lend(flow, turns).await;
        let mut sources = ReadCommits::new();
        for group in turns {
            if let Some(rest) = self.targets.is_away(group) {
                self.pace.again(group, now_ms + millis(rest));
                continue;
            }
            let Some(commits) = self.commits.of(flow, group) else { continue };
            if self.is_worth_a_look(flow, group, commits.as_deref(), now_ms) {
                sources.insert(group.clone(), commits);
            }
        }
        if sources.is_empty() {
            return Ok(());
        }
        let groups: Vec<GroupId> = sources.keys().cloned().collect();
        let targets = self.targets.read(flow, &groups).await?;
        let written =
            writing::write(flow, &mut self.writer, &self.commits, (&sources, &targets)).await;
        let now_ms = flow.now_ms();
        for group in &written.groups {
            self.pace.wrote(group, now_ms);
        }
        let settled = SETTLED_CHECK + SETTLED_CHECK_PER_GROUP * self.commits.len() as u32;
        for group in sources.keys() {
            let standing = self.writer.tracker.standing(group).map(|one| one.standing.state);
            let rest = match standing {
                Some(State::InSync | State::Excluded) if !written.postponed.contains(group) => {
                    settled.max(self.interval)
                }
                _ => self.interval,
            };
            self.pace.checked(group, now_ms + millis(rest));
        }
        self.checkpoints.touch(sources.into_keys());
        Ok(())
    }

    /// Fetches the parts of the offset maps that these groups stand in, where they lie far back.
    async fn lend(&self, flow: &Arc<Flow>, turns: &[GroupId]) {
        let mut wanted = Vec::new();
        for group in turns {
            if let Some(Ok(commits)) = self.commits.of(flow, group) {
                let positions = commits.iter().map(|commit| (&commit.tp, commit.offset));
                wanted.extend(blocks::needed(flow, positions));
            }
        }
        if !wanted.is_empty() {
            blocks::lend(flow, wanted).await;
        }
    }

    /// Whether a group is read on the target now: something is new, or it is time to.
    fn is_worth_a_look(
        &mut self,
        flow: &Flow,
        group: &GroupId,
        commits: Result<&[CommittedOffset], &ErrorCode>,
        now_ms: i64,
    ) -> bool {
        let Ok(commits) = commits else { return true };
        let (mut news, mut ahead) = (false, false);
        for commit in commits {
            let Some(cell) = flow.cells.get(&commit.tp) else { continue };
            let source = SourceOffset(commit.offset);
            let translation = translate(flow, &cell, source).translation;
            ahead |= matches!(translation, Translation::LowerBound(_) | Translation::Unknown);
            news |= !self.writer.is_decided(group, &commit.tp, source, translation);
        }
        if !ahead {
            self.pace.copied(group);
        } else if self.pace.ahead_of_copy(group, now_ms) {
            return false;
        }
        news || self.pace.is_check_due(group, now_ms)
    }

    /// Takes a listing in. Answers the groups that are followed.
    fn listed(&mut self, flow: &Flow, listed: &Listed) -> BTreeSet<GroupId> {
        let now_ms = flow.now_ms();
        let tracker = &mut self.writer.tracker;
        for (group, selection) in &listed.selections {
            tracker.select(group, selection, now_ms);
        }
        for topic in &listed.made_again {
            let cells = flow.cells.all();
            for cell in cells.iter().filter(|cell| cell.source.topic == *topic) {
                tracker.forget_partition(&cell.source);
            }
        }
        let present: BTreeSet<GroupId> = self.commits.groups().into_iter().collect();
        self.writer.retain(&present);
        self.pace.retain(|group| present.contains(group));
        self.checkpoints.retain(&present);
        self.targets.retain(&present);
        present
    }

    /// When the next round is due although nothing changed.
    fn next(&self, flow: &Flow) -> Instant {
        let now = Instant::now();
        let turn = self.pace.next_ms().map(|at_ms| {
            let wait = u64::try_from(at_ms - flow.now_ms()).unwrap_or(0).max(1);
            now + Duration::from_millis(wait)
        });
        let idle = now + IDLE;
        turn.map_or(idle, |turn| turn.min(idle))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

/// How a group stands whose offsets cannot be read on one side.
fn unreadable(code: ErrorCode, group: &GroupId, side: &str) -> Standing {
    if code == ErrorCode::REQUEST_TIMED_OUT {
        let reason = format!(
            "the coordinator of {group} on {side} does not answer; it is asked again every ten \
             seconds, and other groups do not wait for it"
        );
        return Standing::found(State::Unknown, Code::Unreachable, reason);
    }
    let reason = format!("the offsets of {group} cannot be read on {side}: {code}");
    if code == ErrorCode::GROUP_AUTHORIZATION_FAILED {
        Standing::found(State::Unknown, Code::MissingPermission, reason)
    } else if code == ErrorCode::UNSUPPORTED_VERSION {
        no_share_offsets(side)
    } else {
        Standing::because(State::Unknown, reason)
    }
}

/// How a share group stands where a cluster does not tell, and let nobody set, where it begins.
pub(crate) fn no_share_offsets(side: &str) -> Standing {
    let reason = format!(
        "{side} does not tell where a share group begins: that needs Kafka 4.1 or newer with share \
         groups enabled; after a failover the group begins where its share.auto.offset.reset says"
    );
    Standing::found(State::Excluded, Code::UnsupportedVersion, reason)
}

/// Where a source position is on the target.
#[derive(Clone, Copy)]
struct Placed {
    translation: Translation<TargetOffset>,
    /// How far the target is copied, where that is known.
    copied_end: Option<TargetOffset>,
    /// The part of the map that tells it is not at hand yet.
    loading: bool,
}

fn translate(flow: &Flow, cell: &Cell, position: SourceOffset) -> Placed {
    let copier = cell.copier.lock();
    let unknown = Placed { translation: Translation::Unknown, copied_end: None, loading: false };
    if !copier.is_settled() {
        // What a former owner copied is known only after the look.
        return Placed { loading: copier.stopped().is_none(), ..unknown };
    }
    let map = copier.map();
    if planted(Planted::GuessesAhead) && position > map.copied_to() {
        let guess = map.target_end().plus(position.since(map.copied_to()));
        return Placed { translation: Translation::Exact(guess), ..unknown };
    }
    if map.unknown_at(position).is_some() {
        cell.want(position);
    }
    let translation = match map.block_of_source(position) {
        None => map.translate(position),
        Some(number) => match flow.blocks.lent(cell, number) {
            Some(block) => map.with(&block).translate(position),
            None => return Placed { loading: true, ..unknown },
        },
    };
    Placed { translation, copied_end: Some(map.target_end()), loading: false }
}
