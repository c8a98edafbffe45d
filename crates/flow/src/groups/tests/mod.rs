//! What is decided about groups: single facts. [`histories`] and [`model`] hold what is never done.

mod histories;
mod model;

use twinlog_offsets::state::{GroupJournal, Placed};
use twinlog_types::Translation::{BeforeStart, End, Exact, LowerBound, Unknown};
use twinlog_types::{
    Code, GroupId, SourceOffset, State, TargetOffset, TopicPartition, Translation,
};

use super::*;
use crate::standing::Standing;

const RULES: Rules = Rules { sync_enabled: true, confirm_after_ms: 1_000, renew_after_ms: None };

fn at(offset: i64) -> TargetOffset {
    TargetOffset(offset)
}

/// A reading of a group without members, source at `source`, whose target commit is `target`; below
/// zero the target does not have the group. [`Followed`] says when both sides were asked.
fn reading(source: i64, translation: Translation<TargetOffset>, target: i64) -> Reading {
    Reading {
        source: Some(SourceOffset(source)),
        source_asked_ms: 0,
        translation,
        copied_end: Some(at(1_000)),
        target: (target >= 0).then_some(at(target)),
        target_asked_ms: 0,
        target_group: if target < 0 { TargetGroup::Absent } else { TargetGroup::Empty },
        loading: false,
        lost: 0,
        share: false,
        both_directions: false,
    }
}

fn app() -> GroupId {
    "app".into()
}

fn look(reading: Reading) -> (GroupAction, State, Option<Code>) {
    let decision = decide(&RULES, &app(), &mut History::default(), &reading, 0);
    let standing = decision.standing.unwrap();
    (decision.action, standing.state, standing.code)
}

#[test]
fn a_position_that_the_target_does_not_have_yet_is_committed() {
    let commit = |offset| GroupAction::Commit(at(offset));
    assert_eq!(look(reading(10, Exact(at(7)), -1)), (commit(7), State::InSync, None));
    assert_eq!(look(reading(10, End(at(7)), 5)), (commit(7), State::InSync, None));
    let ahead =
        |target| Reading { copied_end: Some(at(7)), ..reading(10, LowerBound(at(7)), target) };
    assert_eq!(look(ahead(5)), (commit(7), State::CatchingUp, None));
    let among_others = look(reading(10, LowerBound(at(7)), 5));
    assert_eq!(among_others, (commit(7), State::CatchingUp, Some(Code::TranslationCoarse)));
    let before = BeforeStart { offset: at(7), missing: 4 };
    assert_eq!(
        look(reading(10, before, -1)),
        (commit(7), State::InSync, Some(Code::BacklogNotOnTarget))
    );
    let compacted = BeforeStart { offset: at(7), missing: 0 };
    assert_eq!(look(reading(10, compacted, -1)), (commit(7), State::InSync, None));
    let absent = Reading { target_group: TargetGroup::Absent, ..reading(10, Exact(at(7)), -1) };
    assert_eq!(look(absent), (commit(7), State::InSync, None));
}

#[test]
fn a_stored_minus_one_is_no_position() {
    let reset = Reading { target: Some(at(-1)), ..reading(10, Exact(at(7)), -1) };
    assert_eq!(look(reset), (GroupAction::Commit(at(7)), State::InSync, None));
    let none = Reading { source: Some(SourceOffset(-1)), ..reading(0, Exact(at(7)), 5) };
    assert_eq!(look(none), (GroupAction::Keep, State::Waiting, Some(Code::GroupWithoutCommits)));
}

#[test]
fn what_is_where_it_belongs_is_left_alone() {
    assert_eq!(look(reading(10, Exact(at(7)), 7)), (GroupAction::Keep, State::InSync, None));
    let ahead = Reading { copied_end: Some(at(7)), ..reading(10, LowerBound(at(7)), 7) };
    assert_eq!(look(ahead), (GroupAction::Keep, State::CatchingUp, None));
}

#[test]
fn nothing_is_written_that_is_not_known_or_lies_beyond_the_copy() {
    assert_eq!(
        look(reading(10, Unknown, -1)),
        (GroupAction::Keep, State::Waiting, Some(Code::NothingCopied))
    );
    let beyond = Reading { copied_end: Some(at(6)), ..reading(10, Exact(at(7)), -1) };
    assert_eq!(look(beyond), (GroupAction::Keep, State::Unknown, None));
}

#[test]
fn a_group_with_members_or_of_unknown_state_is_not_written_to() {
    let live = TargetGroup::Live { members: 3 };
    let behind = Reading { target_group: live, ..reading(10, Exact(at(7)), 5) };
    assert_eq!(look(behind), (GroupAction::Keep, State::Waiting, Some(Code::GroupLiveOnTarget)));
    let ahead = Reading { target_group: live, ..reading(10, Exact(at(7)), 9) };
    assert_eq!(look(ahead), (GroupAction::Keep, State::Waiting, Some(Code::GroupLiveOnTarget)));
    let equal = Reading { target_group: live, ..reading(10, Exact(at(7)), 7) };
    assert_eq!(look(equal), (GroupAction::Keep, State::InSync, None));
    let unknown = Reading { target_group: TargetGroup::Unknown, ..reading(10, Exact(at(7)), 5) };
    assert_eq!(look(unknown), (GroupAction::Keep, State::Unknown, None));
}

#[test]
fn a_target_that_stands_ahead_is_never_taken_back() {
    assert_eq!(
        look(reading(10, Exact(at(7)), 9)),
        (GroupAction::Keep, State::Waiting, Some(Code::TargetAhead))
    );
}

#[test]
fn with_the_sync_switched_off_the_place_is_told_and_not_written() {
    let rules = Rules { sync_enabled: false, renew_after_ms: Some(1), ..RULES };
    let mut history = History::default();
    let off = decide(&rules, &app(), &mut history, &reading(10, Exact(at(7)), 5), 0);
    let standing = off.standing.unwrap();
    assert_eq!(off.action, GroupAction::Keep);
    assert_eq!((standing.state, standing.code), (State::Excluded, Some(Code::SyncDisabled)));
    assert!(standing.reason.unwrap().contains('7'));
    let equal = decide(&rules, &app(), &mut history, &reading(10, Exact(at(7)), 7), 9_999);
    assert_eq!(equal.action, GroupAction::Keep);
}

/// The tracker with one group and one partition.
struct Followed {
    tracker: GroupTracker,
    group: GroupId,
    partition: TopicPartition,
}

impl Followed {
    fn new(rules: Rules) -> Self {
        let tracker = GroupTracker::new(rules);
        Self { tracker, group: "app".into(), partition: TopicPartition::new("orders", 0) }
    }

    /// A reading that is asked and answered at `now_ms`.
    fn observe(&mut self, reading: Reading, now_ms: i64) -> GroupAction {
        let reading = Reading { source_asked_ms: now_ms, target_asked_ms: now_ms, ..reading };
        self.tracker.observe(&self.group, &self.partition, reading, now_ms)
    }

    /// Observes, and has the target accept what is committed.
    fn sync(&mut self, reading: Reading, now_ms: i64) -> GroupAction {
        let action = self.observe(reading, now_ms);
        if let GroupAction::Commit(offset) | GroupAction::Renew(offset) = action {
            self.tracker.committed(&self.group, &self.partition, offset, now_ms);
        }
        action
    }

    fn standing(&self) -> (State, Option<Code>, i64) {
        let GroupStanding { standing, since_ms, .. } = self.tracker.standing(&self.group).unwrap();
        (standing.state, standing.code, since_ms)
    }
}

#[test]
fn a_lower_source_commit_counts_after_a_second_reading_a_second_later() {
    let mut followed = Followed::new(RULES);
    followed.sync(reading(100, Exact(at(70)), -1), 0);
    assert_eq!(followed.standing(), (State::InSync, None, 0));
    // The new coordinator's first answers are older than what it had acknowledged.
    assert_eq!(followed.sync(reading(90, Exact(at(60)), 70), 5_000), GroupAction::Keep);
    assert_eq!(followed.standing(), (State::InSync, None, 0));
    assert!(!followed.tracker.positions(&followed.group).next().unwrap().1.is_confirmed());
    assert_eq!(followed.sync(reading(90, Exact(at(60)), 70), 5_999), GroupAction::Keep);
    assert_eq!(followed.standing(), (State::InSync, None, 0));
    followed.sync(reading(100, Exact(at(70)), 70), 6_000);
    // A reading in between that is not lower starts the wait anew.
    followed.sync(reading(90, Exact(at(60)), 70), 6_100);
    assert_eq!(followed.standing(), (State::InSync, None, 0));
    let followed_back = followed.sync(reading(90, Exact(at(60)), 70), 7_100);
    assert_eq!(followed_back, GroupAction::Commit(at(60)));
}

#[test]
fn an_answer_that_was_under_way_all_the_time_is_no_second_reading_of_the_source() {
    let mut followed = Followed::new(RULES);
    followed.tracker.seed(&followed.group, &followed.partition, journal(Some((100, 70)), None));
    let older = Reading { target_asked_ms: 5_000, ..reading(90, Exact(at(60)), 70) };
    for (asked, now, action) in [
        (0, 0, GroupAction::Keep),
        // One poll a while ago: however often it is looked at, it is one.
        (0, 5_000, GroupAction::Keep),
        (999, 6_000, GroupAction::Keep),
        (1_000, 7_000, GroupAction::Commit(at(60))),
    ] {
        let reading = Reading { source_asked_ms: asked, target_asked_ms: now, ..older };
        let (group, partition) = (&followed.group, &followed.partition);
        let decided = followed.tracker.observe(group, partition, reading, now);
        assert_eq!(decided, action, "at {now}");
        let doubted = followed.tracker.position_of(group, partition).unwrap().is_doubted();
        assert_eq!(doubted, action == GroupAction::Keep);
    }
}

#[test]
fn nothing_is_moved_on_the_first_word_of_a_target_or_on_one_behind_the_word_before() {
    let commit = |offset| GroupAction::Commit(at(offset));
    // It has the group, and may have its position: an older answer does not know that.
    let empty =
        |target| Reading { target_group: TargetGroup::Empty, ..reading(10, Exact(at(7)), target) };
    for first in [-1, 3] {
        let mut followed = Followed::new(RULES);
        assert_eq!(followed.observe(empty(first), 0), GroupAction::Keep);
        assert_eq!(followed.observe(empty(first), 999), GroupAction::Keep);
        assert_eq!(followed.standing(), (State::CatchingUp, None, 0));
        assert_eq!(followed.observe(empty(first), 1_000), commit(7));
        // Its consumers had read on.
        let mut followed = Followed::new(RULES);
        assert_eq!(followed.observe(empty(first), 0), GroupAction::Keep);
        assert_eq!(followed.observe(empty(9), 250), GroupAction::Keep);
        assert_eq!(followed.observe(empty(9), 1_250), GroupAction::Keep);
        assert_eq!(followed.standing().1, Some(Code::TargetAhead));
    }
    // Where we put it is known, and what comes behind it is not believed at once.
    let mut followed = Followed::new(RULES);
    assert_eq!(followed.sync(reading(5, Exact(at(5)), -1), 0), commit(5));
    assert_eq!(followed.sync(empty(5), 1), commit(7));
    for older in [-1, 5] {
        assert_eq!(followed.observe(empty(older), 5_000), GroupAction::Keep);
        assert_eq!(followed.standing(), (State::InSync, None, 0));
        assert_eq!(followed.observe(empty(7), 6_000), GroupAction::Keep);
    }
    assert_eq!(followed.observe(empty(5), 7_000), GroupAction::Keep);
    // Asked before the first word was heard, it is the same moment's answer.
    let late = Reading { target_asked_ms: 7_999, source_asked_ms: 9_000, ..empty(5) };
    let (group, partition) = (followed.group.clone(), followed.partition.clone());
    assert_eq!(followed.tracker.observe(&group, &partition, late, 9_000), GroupAction::Keep);
    assert_eq!(followed.observe(empty(5), 9_001), commit(7));
}

const COMMIT_7: GroupAction = GroupAction::Commit(TargetOffset(7));

fn journal(settled: Option<(i64, i64)>, unsure: Option<(i64, i64)>) -> GroupJournal {
    let placed =
        |(source, target): (i64, i64)| Placed { source: SourceOffset(source), target: at(target) };
    let unsure = unsure.map(placed).into_iter().collect();
    GroupJournal { settled: settled.map(placed), unsure, written_ms: 1 }
}

#[test]
fn a_rewind_is_followed_where_the_target_stands_where_we_put_it() {
    let mut followed = Followed::new(RULES);
    followed.sync(reading(100, Exact(at(70)), -1), 0);
    assert_eq!(followed.sync(reading(10, Exact(at(7)), 70), 1_000), GroupAction::Keep);
    assert_eq!(followed.sync(reading(10, Exact(at(7)), 70), 1_999), GroupAction::Keep);
    assert_eq!(followed.sync(reading(10, Exact(at(7)), 70), 2_000), COMMIT_7);
    assert_eq!(followed.standing(), (State::InSync, None, 0));
    // And on from there.
    let on = followed.sync(reading(20, Exact(at(17)), 7), 3_000);
    assert_eq!(on, GroupAction::Commit(at(17)));
}

#[test]
fn a_rewind_is_not_followed_where_somebody_else_moved_the_target() {
    // Back to where we put it: that is somebody's decision, and not ours any more.
    for moved in [71, 40] {
        let mut followed = Followed::new(RULES);
        followed.sync(reading(100, Exact(at(70)), -1), 0);
        let seen = followed.observe(reading(100, Exact(at(70)), moved), 500);
        assert_eq!(seen, GroupAction::Keep);
        for now in 1..10 {
            let kept = followed.sync(reading(10, Exact(at(7)), 70), now * 1_000);
            assert_eq!(kept, GroupAction::Keep);
        }
        assert_eq!(followed.standing().1, Some(Code::SourceRewound));
        let reason = followed.tracker.standing(&followed.group).unwrap().standing.reason.unwrap();
        assert!(reason.contains("twinlog sync FILE --group 'app' --overwrite"), "{reason}");
    }
}

#[test]
fn a_rewind_waits_until_the_target_is_without_members_and_stands_still() {
    let mut followed = Followed::new(RULES);
    followed.sync(reading(100, Exact(at(70)), -1), 0);
    let back = |target_group| Reading { target_group, ..reading(10, Exact(at(7)), 70) };
    let live = TargetGroup::Live { members: 1 };
    for (now, group, action) in [
        (1_000, live, GroupAction::Keep),
        (2_000, live, GroupAction::Keep),
        (3_000, TargetGroup::Empty, GroupAction::Keep),
        (3_500, TargetGroup::Unknown, GroupAction::Keep),
        (4_000, TargetGroup::Absent, GroupAction::Keep),
        (4_999, TargetGroup::Empty, GroupAction::Keep),
        (5_000, TargetGroup::Empty, COMMIT_7),
    ] {
        assert_eq!(followed.sync(back(group), now), action, "at {now}");
    }
}

#[test]
fn a_rewind_to_a_place_that_is_not_copied_or_with_the_sync_off_is_not_followed() {
    for (rules, translation) in [
        (Rules { sync_enabled: false, ..RULES }, Exact(at(7))),
        (RULES, LowerBound(at(7))),
        (RULES, Unknown),
    ] {
        let mut followed = Followed::new(rules);
        followed.tracker.seed(&followed.group, &followed.partition, journal(Some((100, 70)), None));
        for now in 0..5 {
            let kept = followed.sync(reading(10, translation, 70), now * 1_000);
            assert_eq!(kept, GroupAction::Keep, "{translation:?}");
        }
    }
}

#[test]
fn consumers_of_the_target_that_read_on_are_ahead_and_no_rewind() {
    let mut followed = Followed::new(RULES);
    followed.sync(reading(100, Exact(at(100)), -1), 0);
    for now in 1..5 {
        let kept = followed.sync(reading(50, Exact(at(50)), 150), now * 1_000);
        assert_eq!(kept, GroupAction::Keep);
    }
    assert_eq!(followed.standing().1, Some(Code::TargetAhead));
    let reason = followed.tracker.standing(&followed.group).unwrap().standing.reason.unwrap();
    assert!(reason.contains("moved by the target's own consumers"), "{reason}");
}

#[test]
fn after_a_restart_the_journal_tells_a_rewind_from_a_target_that_moved() {
    // Settled there: followed. Settled or planned, and not certain which of the two was last: it may
    // be ours, and is kept and explained. Nothing known of it: kept.
    for (journal, code, follows) in [
        (journal(Some((100, 70)), None), None, true),
        (journal(Some((100, 70)), Some((110, 80))), Some(Code::SourceRewound), false),
        (journal(Some((90, 60)), Some((100, 70))), Some(Code::SourceRewound), false),
        (journal(Some((90, 60)), None), Some(Code::TargetAhead), false),
        (GroupJournal::default(), Some(Code::TargetAhead), false),
    ] {
        let mut followed = Followed::new(RULES);
        followed.tracker.seed(&followed.group, &followed.partition, journal.clone());
        let mut last = GroupAction::Keep;
        for now in [0, 1_000] {
            last = followed.sync(reading(10, Exact(at(7)), 70), now);
        }
        assert_eq!(last == COMMIT_7, follows, "{journal:?}");
        assert_eq!(followed.standing().1, code, "{journal:?}");
    }
    let mut followed = Followed::new(RULES);
    followed.tracker.seed(&followed.group, &followed.partition, journal(Some((100, 70)), None));
    followed.sync(reading(100, Exact(at(70)), 80), 0);
    assert_eq!(followed.standing().1, Some(Code::TargetAhead));
}

#[test]
fn what_moves_a_position_is_for_the_journal_first_and_a_renewal_is_not() {
    let mut followed = Followed::new(Rules { renew_after_ms: Some(1), ..RULES });
    let ours = |followed: &Followed| {
        followed.tracker.positions(&followed.group).next().unwrap().1.journal().clone()
    };
    assert_eq!(followed.observe(reading(10, Exact(at(7)), -1), 5), COMMIT_7);
    let planned = GroupJournal { written_ms: 0, ..journal(None, Some((10, 7))) };
    assert_eq!(ours(&followed), planned);
    assert!(followed.tracker.take_unwritten().is_empty(), "the commit waits for it");
    followed.tracker.committed(&followed.group, &followed.partition, at(7), 6);
    let settled = GroupJournal { written_ms: 6, ..journal(Some((10, 7)), None) };
    let changed = (followed.group.clone(), followed.partition.clone(), settled);
    assert_eq!(followed.tracker.take_unwritten(), [changed]);
    // Somebody else put it where it belongs now: renewing does not make it ours.
    let renewed = followed.sync(reading(12, Exact(at(9)), 9), 100);
    assert_eq!(renewed, GroupAction::Renew(at(9)));
    assert_eq!(ours(&followed), GroupJournal { written_ms: 100, ..GroupJournal::default() });
}

#[test]
fn a_commit_that_was_refused_or_not_sent_leaves_nothing_planned() {
    let mut followed = Followed::new(RULES);
    let (group, partition) = (followed.group.clone(), followed.partition.clone());
    for refused in [true, false] {
        assert_eq!(followed.observe(reading(10, Exact(at(7)), -1), 0), COMMIT_7);
        if refused {
            followed.tracker.refused(&group, &partition, 25, "members", 1);
        } else {
            followed.tracker.given_up(&group, &partition);
        }
        let left = followed.tracker.positions(&group).next().unwrap().1.journal();
        assert!(left.is_empty());
    }
    // Without an answer it may be there.
    assert_eq!(followed.observe(reading(10, Exact(at(7)), -1), 2), COMMIT_7);
    followed.tracker.failed(&group, &partition, "timed out", 3);
    let left = followed.tracker.positions(&group).next().unwrap().1.journal();
    assert!(left.explains(at(7)).is_some());
}

#[test]
fn an_operator_may_take_a_position_back_as_long_as_it_stands_as_it_was_seen() {
    let outcome = |followed: &mut Followed| {
        let mut told = followed.tracker.take_overwritten();
        assert!(told.len() < 2);
        told.pop().map(|(_, _, what)| what)
    };
    let decided = |stands| {
        let mut followed = Followed::new(RULES);
        followed.tracker.overwrite(&followed.group, &followed.partition, at(stands));
        followed
    };
    let mut followed = decided(90);
    assert_eq!(followed.sync(reading(10, Exact(at(7)), 90), 0), COMMIT_7);
    assert_eq!(outcome(&mut followed), Some(Overwritten::Done(at(7))));
    assert_eq!(followed.sync(reading(10, Exact(at(7)), 90), 1), GroupAction::Keep, "once");

    let mut followed = decided(90);
    for now in [0, 1_000] {
        assert_eq!(followed.sync(reading(10, Exact(at(7)), 95), now), GroupAction::Keep);
    }
    assert_eq!(outcome(&mut followed), Some(Overwritten::Void(Some(at(95)))));

    let mut followed = decided(90);
    let live =
        Reading { target_group: TargetGroup::Live { members: 2 }, ..reading(10, Exact(at(7)), 90) };
    assert_eq!(followed.sync(live, 0), GroupAction::Keep);
    assert_eq!(outcome(&mut followed), None, "members may leave");
    assert_eq!(followed.sync(reading(10, Exact(at(7)), 90), 1), COMMIT_7);

    let mut followed = decided(7);
    followed.sync(reading(10, Exact(at(7)), 7), 0);
    assert_eq!(outcome(&mut followed), Some(Overwritten::Done(at(7))));
}

#[test]
fn a_map_that_is_being_read_and_a_lost_backlog_are_told() {
    let loading = Reading { loading: true, ..reading(10, Unknown, -1) };
    assert_eq!(look(loading), (GroupAction::Keep, State::Waiting, Some(Code::MapLoading)));
    let lost = Reading { lost: 100, ..reading(10, Exact(at(7)), -1) };
    assert_eq!(look(lost), (COMMIT_7, State::InSync, Some(Code::BacklogNotOnTarget)));
}

#[test]
fn a_commit_beyond_what_a_target_still_has_is_negative_lag() {
    let mut followed = Followed::new(RULES);
    followed.sync(reading(100, Exact(at(70)), -1), 0);
    let lost = Reading { copied_end: Some(at(50)), ..reading(100, LowerBound(at(50)), 70) };
    assert_eq!(followed.sync(lost, 1), GroupAction::Keep);
    assert_eq!(followed.standing(), (State::CatchingUp, Some(Code::NegativeLag), 1));
}

#[test]
fn a_commit_counts_when_the_target_has_acknowledged_it() {
    let mut followed = Followed::new(RULES);
    let commit = GroupAction::Commit(at(7));
    assert_eq!(followed.observe(reading(10, Exact(at(7)), -1), 0), commit);
    assert_eq!(followed.standing(), (State::CatchingUp, None, 0));
    followed.tracker.refused(&followed.group, &followed.partition, 25, "UNKNOWN_MEMBER_ID", 1);
    assert_eq!(followed.standing(), (State::Waiting, Some(Code::GroupLiveOnTarget), 1));
    assert_eq!(followed.observe(reading(10, Exact(at(7)), -1), 2), commit);
    followed.tracker.refused(
        &followed.group,
        &followed.partition,
        29,
        "TOPIC_AUTHORIZATION_FAILED",
        3,
    );
    assert_eq!(followed.standing(), (State::Waiting, Some(Code::CommitRefused), 3));
    let reason = followed.tracker.standing(&followed.group).unwrap().standing.reason.unwrap();
    assert!(reason.contains("TOPIC_AUTHORIZATION_FAILED (29)"), "{reason}");
    assert_eq!(followed.observe(reading(10, Exact(at(7)), -1), 4), commit);
    followed.tracker.failed(&followed.group, &followed.partition, "timed out", 5);
    assert_eq!(followed.standing(), (State::Unknown, None, 5));
    assert_eq!(followed.sync(reading(10, Exact(at(7)), -1), 6), commit);
    assert_eq!(followed.standing(), (State::InSync, None, 6));
}

#[test]
fn a_late_answer_to_an_older_commit_does_not_count() {
    let mut followed = Followed::new(RULES);
    followed.observe(reading(10, Exact(at(7)), -1), 0);
    followed.observe(reading(12, Exact(at(9)), -1), 1);
    followed.tracker.committed(&followed.group, &followed.partition, at(7), 2);
    assert_eq!(followed.standing(), (State::CatchingUp, None, 0));
    followed.tracker.committed(&followed.group, &followed.partition, at(9), 3);
    assert_eq!(followed.standing(), (State::InSync, None, 3));
}

#[test]
fn a_group_that_keeps_moving_stays_in_sync_since_the_first_time() {
    let mut followed = Followed::new(RULES);
    for step in 0..50 {
        let stands = if step == 0 { -1 } else { step };
        followed.sync(reading(step + 1, Exact(at(step + 1)), stands), step * 100);
        assert_eq!(followed.standing(), (State::InSync, None, 0));
    }
}

#[test]
fn commits_are_renewed_before_the_target_forgets_them() {
    let rules = Rules { renew_after_ms: Some(86_400_000), ..RULES };
    let mut followed = Followed::new(rules);
    let same = reading(10, Exact(at(7)), 7);
    // Its age is not known: somebody else or an earlier process wrote it.
    assert_eq!(followed.sync(same, -999), GroupAction::Keep, "nor is the first word believed");
    assert_eq!(followed.sync(same, 1), GroupAction::Renew(at(7)));
    assert_eq!(followed.sync(same, 86_400_000), GroupAction::Keep);
    assert_eq!(followed.sync(same, 86_400_001), GroupAction::Renew(at(7)));
    let live = Reading { target_group: TargetGroup::Live { members: 1 }, ..same };
    assert_eq!(followed.sync(live, 200_000_000), GroupAction::Keep);
    assert_eq!(followed.standing().0, State::InSync);
}

#[test]
fn a_commit_that_the_target_forgot_is_written_again_and_named() {
    let mut followed = Followed::new(RULES);
    followed.sync(reading(10, Exact(at(7)), -1), 1);
    let once = followed.sync(reading(10, Exact(at(7)), -1), 59_000);
    assert_eq!(once, GroupAction::Keep);
    let again = followed.sync(reading(10, Exact(at(7)), -1), 60_000);
    assert_eq!(again, GroupAction::Commit(at(7)));
    assert_eq!(followed.standing(), (State::InSync, Some(Code::OffsetsExpired), 60_000));
    followed.sync(reading(10, Exact(at(7)), 7), 120_000);
    assert_eq!(followed.standing(), (State::InSync, None, 120_000));
}

#[test]
fn a_topic_that_was_made_again_makes_no_rewind() {
    let mut followed = Followed::new(RULES);
    followed.sync(reading(100, Exact(at(70)), -1), 0);
    followed.tracker.forget_partition(&followed.partition);
    assert_eq!(followed.sync(reading(3, Exact(at(3)), -1), 1), GroupAction::Commit(at(3)));
    assert_eq!(followed.standing(), (State::InSync, None, 1));
}

#[test]
fn a_group_stands_as_its_most_urgent_partition_and_is_counted_once() {
    let mut tracker = GroupTracker::new(RULES);
    let (app, other) = (GroupId::from("app"), GroupId::from("other"));
    let [p0, p1] = [0, 1].map(|partition| TopicPartition::new("orders", partition));
    tracker.observe(&app, &p0, reading(10, Exact(at(7)), 7), 0);
    tracker.observe(&app, &p1, reading(10, Exact(at(7)), 9), 0);
    tracker.select(&other, &GroupSelection::NotIncluded, 5);
    let standing = tracker.standing(&app).unwrap();
    assert_eq!(standing.partition, Some(p1.clone()));
    assert_eq!(standing.standing.code, Some(Code::TargetAhead));
    let counts: Vec<_> = tracker.counts().into_iter().collect();
    assert_eq!(counts, [(State::Waiting, 1), (State::Excluded, 1)]);
    tracker.select(&other, &GroupSelection::NotIncluded, 50);
    assert_eq!(tracker.standing(&other).unwrap().since_ms, 5);
    tracker.unreadable(
        &app,
        Standing::found(State::Unknown, Code::MissingPermission, "no right to describe it"),
        60,
    );
    assert_eq!(tracker.standing(&app).unwrap().standing.state, State::Unknown);
    tracker.observe(&app, &p1, reading(12, Exact(at(9)), 9), 70);
    assert_eq!(tracker.standing(&app).unwrap().standing.state, State::InSync);
    tracker.retain(|group| *group == app);
    assert_eq!(tracker.groups().count(), 1);
}

#[test]
fn where_a_share_group_begins_is_not_renewed() {
    let rules = Rules { renew_after_ms: Some(86_400_000), ..RULES };
    let mut followed = Followed::new(rules);
    let same = Reading { share: true, ..reading(10, Exact(at(7)), 7) };
    assert_eq!(followed.sync(same, 1), GroupAction::Keep);
    assert_eq!(followed.sync(same, 200_000_000), GroupAction::Keep);
    let moved = Reading { share: true, ..reading(20, Exact(at(17)), 7) };
    assert_eq!(followed.sync(moved, 200_000_001), GroupAction::Commit(at(17)));
}
