//! How groups stand: their commits on both sides, and what one is in terms of the other.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_client::{ClientError, CommittedOffset, ErrorCode, GroupKind, GroupListing};
use twinlog_flow::Standing;
use twinlog_flow::groups::{
    Decision, GroupAction, GroupSelection, History, Reading, Rules, TargetGroup, decide,
    is_written_back, select,
};
use twinlog_mirror::replicates;
use twinlog_offsets::state::GroupJournal;
use twinlog_types::{
    Code, GroupId, SourceOffset, State, TargetOffset, TopicName, TopicPartition, Translation,
};

use super::load::Maps;
use super::partitions::was_passed;
use super::{FlowObservation, GroupObservation, GroupPosition, Observer, code_of_answer, worst};
use crate::groups::no_share_offsets;

type Commits = BTreeMap<GroupId, Result<Vec<CommittedOffset>, ErrorCode>>;

/// What was read of all groups.
#[derive(Default)]
pub(super) struct ReadCommits {
    listed: Vec<GroupListing>,
    source: Commits,
    target: Commits,
    on_target: BTreeMap<GroupId, GroupListing>,
}

impl Observer {
    /// Reads commits, the target's before the source's: a commit that is carried over in between
    /// then never looks ahead of its source.
    pub(super) async fn read_commits(&self, found: &mut FlowObservation) -> ReadCommits {
        let mut read = ReadCommits::default();
        let source = |error: &ClientError, found: &mut FlowObservation, what: &str| {
            self.miss(found, true, what, error);
        };
        read.listed = match self.source.list_groups().await {
            Ok(listed) => listed,
            Err(error) => {
                source(&error, found, "the groups");
                return read;
            }
        };
        let followed: Vec<GroupId> = read
            .listed
            .iter()
            .filter(|listing| {
                let selection = select(&self.config.groups, listing.group.as_str(), true);
                selection == GroupSelection::Followed
            })
            .map(|listing| listing.group.clone())
            .collect();
        if followed.is_empty() {
            return read;
        }
        let share = read.listed.iter().filter(|listing| listing.kind == GroupKind::Share);
        let share: BTreeSet<GroupId> = share.map(|listing| listing.group.clone()).collect();
        let target = self.target.fetch_positions(&followed, &share);
        let (target, on_target) = tokio::join!(target, self.target.list_groups());
        match target {
            Ok(commits) => read.target = commits,
            Err(error) => {
                self.miss(found, false, "the groups' offsets", &error);
                let code = error.code().unwrap_or(ErrorCode::NETWORK_EXCEPTION);
                read.target = followed.iter().map(|group| (group.clone(), Err(code))).collect();
            }
        }
        match on_target {
            Ok(listed) => {
                let listed = listed.into_iter().map(|listing| (listing.group.clone(), listing));
                read.on_target = listed.collect();
            }
            Err(error) => self.miss(found, false, "the groups", &error),
        }
        match self.source.fetch_positions(&followed, &share).await {
            Ok(commits) => read.source = commits,
            Err(error) => source(&error, found, "the groups' offsets"),
        }
        read
    }

    pub(super) fn put_groups(
        &self,
        found: &mut FlowObservation,
        read: &ReadCommits,
        maps: &Maps,
        made_again: &BTreeMap<TopicName, Standing>,
    ) {
        let now_ms = self.now_ms();
        let runs = found.own.state == State::InSync;
        for listing in &read.listed {
            let mut group = self.group(listing, read, maps, (now_ms, runs));
            for position in &mut group.partitions {
                if let Some(standing) = made_again.get(&position.topic) {
                    position.standing = standing.clone();
                    position.target_offset = None;
                    position.translation = Translation::<TargetOffset>::Unknown.word();
                    group.standing = standing.clone();
                }
            }
            found.groups.push(group);
        }
    }

    fn group(
        &self,
        listing: &GroupListing,
        read: &ReadCommits,
        maps: &Maps,
        (now_ms, running): (i64, bool),
    ) -> GroupObservation {
        let whole = |standing| GroupObservation {
            group: listing.group.clone(),
            kind: listing.kind,
            standing,
            since_ms: now_ms,
            partitions: Vec::new(),
        };
        let name = listing.group.as_str();
        let commits = match read.source.get(&listing.group) {
            Some(Ok(commits)) => commits.as_slice(),
            Some(Err(code)) => return whole(unread("source", *code)),
            None => {
                let standing = select(&self.config.groups, name, true).standing();
                let unread = || {
                    let reason = "its offsets on the source could not be read";
                    Standing::because(State::Unknown, reason)
                };
                return whole(standing.unwrap_or_else(unread));
            }
        };
        let concerned = |commit: &&CommittedOffset| {
            replicates(&self.config, commit.tp.topic.as_str())
                || maps.mapped.contains_key(&commit.tp)
        };
        let commits: Vec<&CommittedOffset> = commits.iter().filter(concerned).collect();
        let selection = select(&self.config.groups, name, !commits.is_empty());
        if let Some(standing) = selection.standing() {
            return whole(standing);
        }
        let target = match read.target.get(&listing.group) {
            Some(Ok(commits)) => commits.as_slice(),
            Some(Err(code)) => return whole(unread("target", *code)),
            None => &[],
        };
        let target: BTreeMap<&TopicPartition, i64> = target
            .iter()
            .filter(|commit| commit.offset >= 0)
            .map(|commit| (&commit.tp, commit.offset))
            .collect();
        let rules = Rules::new(self.config.sync_group_offsets_enabled);
        let target_group = target_group(read.on_target.get(&listing.group));
        let mut since_ms = None;
        let mut most_urgent = None;
        let mut partitions = Vec::new();
        for commit in commits {
            let mapped = maps.mapped.get(&commit.tp);
            let position = self.position(
                commit,
                maps,
                &target,
                &Look {
                    group: &listing.group,
                    share: listing.kind == GroupKind::Share,
                    rules,
                    target_group,
                    now_ms,
                    running,
                },
            );
            let urgency = position.standing.urgency();
            if most_urgent.is_none_or(|before| urgency > before) {
                most_urgent = Some(urgency);
                since_ms = mapped.map(|mapped| mapped.written_ms);
            }
            partitions.push(position);
        }
        let parts = partitions.iter().map(|position| {
            (format!("{}-{}", position.topic, position.partition), &position.standing)
        });
        let standing = whole_of(parts);
        GroupObservation {
            group: listing.group.clone(),
            kind: listing.kind,
            standing,
            since_ms: since_ms.unwrap_or(now_ms),
            partitions,
        }
    }

    fn position(
        &self,
        commit: &CommittedOffset,
        maps: &Maps,
        committed: &BTreeMap<&TopicPartition, i64>,
        look: &Look<'_>,
    ) -> GroupPosition {
        let mapped = maps.mapped.get(&commit.tp);
        let by_name = || {
            let topic = self.config.remote_topic(commit.tp.topic.as_str());
            TopicPartition::new(topic, commit.tp.partition)
        };
        let target = mapped.map_or_else(by_name, |mapped| mapped.target.clone());
        let source = SourceOffset(commit.offset);
        let translation =
            mapped.map_or(Translation::Unknown, |mapped| mapped.map.translate(source));
        let committed_target = committed.get(&target).copied();
        let life = maps.known.partitions.get(&commit.tp).map(|(life, _)| life);
        let journal = life
            .and_then(|life| maps.stored.journals.get(life)?.get(look.group))
            .cloned()
            .unwrap_or_default();
        let lost = life.and_then(|life| maps.stored.partitions.get(life)).map_or(0, |stored| {
            let copied_to = mapped.map_or(SourceOffset(0), |mapped| mapped.map.copied_to());
            let gaps = stored.gaps.values().filter(|gap| was_passed(gap) && gap.to <= copied_to);
            gaps.map(|gap| gap.to.since(gap.from.max(source))).sum()
        });
        let opposite = self.opposite.as_deref();
        let reading = Reading {
            source: Some(source),
            source_asked_ms: look.now_ms,
            translation,
            copied_end: mapped.map(|mapped| mapped.map.target_end()),
            target: committed_target.map(TargetOffset),
            target_asked_ms: look.now_ms,
            target_group: look.target_group,
            loading: false,
            lost,
            share: look.share,
            both_directions: opposite.is_some_and(|back| {
                is_written_back(back, look.group, &commit.tp.topic, &target.topic)
            }),
        };
        let standing = if commit.error.is_ok() {
            look.standing(&reading, journal)
        } else {
            let reason = format!("its commit on the source could not be read: {}", commit.error);
            Standing::because(State::Unknown, reason)
        };
        GroupPosition {
            topic: commit.tp.topic.clone(),
            target_topic: target.topic,
            partition: commit.tp.partition,
            source_offset: (commit.offset >= 0).then_some(commit.offset),
            target_offset: translation.offset().map(|offset| offset.0),
            committed_target,
            translation: translation.word(),
            standing,
        }
    }
}

/// What holds for all positions of a group.
struct Look<'a> {
    group: &'a GroupId,
    share: bool,
    rules: Rules,
    target_group: TargetGroup,
    now_ms: i64,
    running: bool,
}

impl Look<'_> {
    /// How a position stands by this one reading, and what the journal says of it. A commit that is
    /// due is not there yet.
    fn standing(&self, reading: &Reading, journal: GroupJournal) -> Standing {
        let mut history = History { journal, ..History::default() };
        let Decision { action, standing } =
            decide(&self.rules, self.group, &mut history, reading, self.now_ms);
        let standing = standing.unwrap_or_else(Standing::in_sync);
        match action {
            GroupAction::Commit(offset) if reading.target != Some(offset) => {
                self.due(reading, offset, standing.code)
            }
            _ => standing,
        }
    }

    fn due(&self, reading: &Reading, offset: TargetOffset, code: Option<Code>) -> Standing {
        let stands = match reading.target {
            Some(target) => format!("the target group stands at {target}"),
            None => "the target group has no commit".to_owned(),
        };
        if self.running {
            let reason = format!("{stands}, {offset} is written with the next round");
            return Standing { state: State::CatchingUp, code, reason: Some(reason) };
        }
        let reason = format!("{stands}, {offset} would be its place, and nothing writes it");
        Standing::found(State::Waiting, Code::MirrorNotRunning, reason)
    }
}

/// How a group stands: as its most urgent position. One that is never written weighs more here than
/// those that are in sync: the group as a whole does not resume where it should.
pub(super) fn whole_of<'a>(
    parts: impl Iterator<Item = (String, &'a Standing)> + Clone,
) -> Standing {
    let standing = worst(&Standing::in_sync(), parts.clone());
    let mut left_out = parts.filter(|(_, part)| part.state == State::Excluded);
    match left_out.next() {
        Some((name, part)) if standing.state == State::InSync => {
            let reason = part.reason.as_ref().map(|reason| format!("{name}: {reason}"));
            Standing { reason, ..part.clone() }
        }
        _ => standing,
    }
}

fn unread(side: &str, code: ErrorCode) -> Standing {
    if code == ErrorCode::UNSUPPORTED_VERSION {
        return no_share_offsets(&format!("the {side}"));
    }
    let reason = format!("its offsets on the {side} could not be read: {code}");
    Standing { state: State::Unknown, code: code_of_answer(code), reason: Some(reason) }
}

fn target_group(listing: Option<&GroupListing>) -> TargetGroup {
    match listing.map(|listing| listing.state.as_str()) {
        None | Some("Dead") => TargetGroup::Absent,
        // A broker too old to tell: the commit's answer will.
        Some("Empty" | "" | "Unknown") => TargetGroup::Empty,
        Some(_) => TargetGroup::Live { members: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> GroupId {
        "app".into()
    }

    fn look(group: &GroupId, running: bool) -> Look<'_> {
        Look {
            group,
            share: false,
            rules: Rules::new(true),
            target_group: TargetGroup::Empty,
            now_ms: 1_000,
            running,
        }
    }

    fn reading(target: Option<i64>) -> Reading {
        Reading {
            source: Some(SourceOffset(100)),
            source_asked_ms: 0,
            translation: Translation::Exact(TargetOffset(87)),
            copied_end: Some(TargetOffset(90)),
            target: target.map(TargetOffset),
            target_asked_ms: 0,
            target_group: TargetGroup::Empty,
            loading: false,
            lost: 0,
            share: false,
            both_directions: false,
        }
    }

    #[test]
    fn a_position_is_in_sync_when_the_target_stands_at_its_translation() {
        assert_eq!(
            look(&app(), true).standing(&reading(Some(87)), GroupJournal::default()),
            Standing::in_sync()
        );
        assert_eq!(
            look(&app(), false).standing(&reading(Some(87)), GroupJournal::default()),
            Standing::in_sync()
        );
    }

    #[test]
    fn a_commit_that_is_due_is_not_there_yet() {
        for target in [None, Some(80)] {
            let due = look(&app(), true).standing(&reading(target), GroupJournal::default());
            assert_eq!((due.state, due.code), (State::CatchingUp, None));
            let nobody = look(&app(), false).standing(&reading(target), GroupJournal::default());
            assert_eq!((nobody.state, nobody.code), (State::Waiting, Some(Code::MirrorNotRunning)));
        }
    }

    #[test]
    fn a_group_with_a_position_that_is_never_written_is_not_in_sync() {
        let rules = Rules::new(false);
        let app = app();
        let off = Look {
            group: &app,
            share: false,
            rules,
            target_group: TargetGroup::Absent,
            now_ms: 1_000,
            running: true,
        };
        let (unwritten, there) = (
            off.standing(&reading(None), GroupJournal::default()),
            off.standing(&reading(Some(87)), GroupJournal::default()),
        );
        let behind = Standing::found(State::Waiting, Code::NothingCopied, "nothing");
        let whole = |parts: &[&Standing]| {
            let parts = parts.iter().map(|part| ("orders-0".to_owned(), *part));
            let whole = whole_of(parts);
            (whole.state, whole.code)
        };
        let disabled = (State::Excluded, Some(Code::SyncDisabled));
        assert_eq!(whole(&[&unwritten]), disabled);
        assert_eq!(whole(&[&there, &unwritten]), disabled);
        assert_eq!(whole(&[&there]), (State::InSync, None));
        let waits = (State::Waiting, Some(Code::NothingCopied));
        assert_eq!(whole(&[&unwritten, &behind]), waits);
    }

    #[test]
    fn a_target_that_stands_ahead_is_named() {
        let ahead = look(&app(), true).standing(&reading(Some(89)), GroupJournal::default());
        assert_eq!((ahead.state, ahead.code), (State::Waiting, Some(Code::TargetAhead)));
    }
}
