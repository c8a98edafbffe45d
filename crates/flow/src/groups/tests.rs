//! What is decided about groups, and what is never done to them.

use proptest::prelude::*;
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

/// A reading of an empty group, source at `source`, whose target commit is `target`.
fn reading(source: i64, translation: Translation<TargetOffset>, target: i64) -> Reading {
    Reading {
        source: Some(SourceOffset(source)),
        translation,
        copied_end: Some(at(1_000)),
        target: (target >= 0).then_some(at(target)),
        target_group: TargetGroup::Empty,
    }
}

fn look(reading: Reading) -> (GroupAction, State, Option<Code>) {
    let decision = decide(&RULES, &mut History::default(), &reading, 0);
    let standing = decision.standing.unwrap();
    (decision.action, standing.state, standing.code)
}

#[test]
fn a_position_that_the_target_does_not_have_yet_is_committed() {
    let commit = |offset| GroupAction::Commit(at(offset));
    assert_eq!(look(reading(10, Exact(at(7)), -1)), (commit(7), State::InSync, None));
    assert_eq!(look(reading(10, End(at(7)), 5)), (commit(7), State::InSync, None));
    assert_eq!(look(reading(10, LowerBound(at(7)), 5)), (commit(7), State::CatchingUp, None));
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
    assert_eq!(
        look(reading(10, LowerBound(at(7)), 7)),
        (GroupAction::Keep, State::CatchingUp, None)
    );
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
    let off = decide(&rules, &mut history, &reading(10, Exact(at(7)), 5), 0);
    let standing = off.standing.unwrap();
    assert_eq!(off.action, GroupAction::Keep);
    assert_eq!((standing.state, standing.code), (State::Excluded, Some(Code::SyncDisabled)));
    assert!(standing.reason.unwrap().contains('7'));
    let equal = decide(&rules, &mut history, &reading(10, Exact(at(7)), 7), 9_999);
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

    fn observe(&mut self, reading: Reading, now_ms: i64) -> GroupAction {
        self.tracker.observe(&self.group, &self.partition, reading, now_ms)
    }

    /// Observes, and has the target accept what is committed.
    fn sync(&mut self, reading: Reading, now_ms: i64) -> GroupAction {
        let action = self.observe(reading, now_ms);
        if let GroupAction::Commit(offset) = action {
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
    followed.sync(reading(90, Exact(at(60)), 70), 7_100);
    assert_eq!(followed.standing(), (State::Waiting, Some(Code::SourceRewound), 7_100));
}

#[test]
fn a_rewound_source_stays_rewound_until_it_is_back() {
    let mut followed = Followed::new(RULES);
    followed.sync(reading(100, Exact(at(70)), -1), 0);
    for now in [1_000, 2_000] {
        followed.sync(reading(10, Exact(at(7)), 70), now);
    }
    assert_eq!(followed.standing().1, Some(Code::SourceRewound));
    followed.sync(reading(50, Exact(at(47)), 70), 3_000);
    assert_eq!(followed.standing(), (State::Waiting, Some(Code::SourceRewound), 2_000));
    followed.sync(reading(100, Exact(at(70)), 70), 4_000);
    assert_eq!(followed.standing(), (State::InSync, None, 4_000));
    followed.sync(reading(101, Exact(at(71)), 75), 5_000);
    assert_eq!(followed.standing().1, Some(Code::TargetAhead));
}

#[test]
fn after_a_restart_the_journal_tells_a_rewind_from_a_target_that_moved() {
    let ours = Committed { source: SourceOffset(100), target: at(70), at_ms: None };
    let mut followed = Followed::new(RULES);
    followed.tracker.seed(&followed.group, &followed.partition, ours);
    for now in [0, 1_000] {
        followed.sync(reading(10, Exact(at(7)), 70), now);
    }
    assert_eq!(followed.standing().1, Some(Code::SourceRewound));
    let mut followed = Followed::new(RULES);
    followed.tracker.seed(&followed.group, &followed.partition, ours);
    followed.sync(reading(100, Exact(at(70)), 80), 0);
    assert_eq!(followed.standing().1, Some(Code::TargetAhead));
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
        followed.sync(reading(step + 1, Exact(at(step + 1)), step), step * 100);
        assert_eq!(followed.standing(), (State::InSync, None, 0));
    }
}

#[test]
fn commits_are_renewed_before_the_target_forgets_them() {
    let rules = Rules { renew_after_ms: Some(86_400_000), ..RULES };
    let mut followed = Followed::new(rules);
    let same = reading(10, Exact(at(7)), 7);
    // Its age is not known: somebody else or an earlier process wrote it.
    assert_eq!(followed.sync(same, 0), GroupAction::Commit(at(7)));
    assert_eq!(followed.sync(same, 86_399_999), GroupAction::Keep);
    assert_eq!(followed.sync(same, 86_400_000), GroupAction::Commit(at(7)));
    let live = Reading { target_group: TargetGroup::Live { members: 1 }, ..same };
    assert_eq!(followed.sync(live, 200_000_000), GroupAction::Keep);
    assert_eq!(followed.standing().0, State::InSync);
}

#[test]
fn a_commit_that_the_target_forgot_is_written_again_and_named() {
    let mut followed = Followed::new(RULES);
    followed.sync(reading(10, Exact(at(7)), -1), 0);
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

/// A source log with holes, copied up to somewhere; target offsets are positions in it.
#[derive(Debug)]
struct World {
    /// Source offsets of the records that can be copied.
    records: Vec<i64>,
    copied: usize,
}

impl World {
    fn copied_to(&self) -> i64 {
        self.records[..self.copied].last().map_or(0, |last| last + 1)
    }

    /// The record that a consumer at `source` reads next, as a target offset.
    fn exact(&self, source: i64) -> i64 {
        self.records.partition_point(|&record| record < source) as i64
    }

    fn translate(&self, source: i64) -> Translation<TargetOffset> {
        let (exact, copied) = (self.exact(source), self.copied as i64);
        match (exact < copied, source <= self.copied_to()) {
            (true, _) => Exact(at(exact)),
            (false, _) if copied == 0 => Unknown,
            (false, true) => End(at(copied)),
            (false, false) => LowerBound(at(copied)),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Copy(usize),
    /// The source group commits the place of this share (of 1000) of the log.
    Source(usize),
    /// The target's members commit the place of this share of what is copied.
    Target(usize),
    State(TargetGroup),
    /// One round: how long after the last one, an older answer, and what becomes of a commit.
    Round {
        ms: i64,
        stale: bool,
        outcome: Outcome,
    },
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Outcome {
    Done,
    Refused,
    LostAfterwards,
    LostBefore,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let state = prop_oneof![
        Just(TargetGroup::Absent),
        Just(TargetGroup::Empty),
        Just(TargetGroup::Live { members: 1 }),
        Just(TargetGroup::Unknown),
    ];
    let outcome = prop_oneof![
        6 => Just(Outcome::Done),
        1 => Just(Outcome::Refused),
        1 => Just(Outcome::LostAfterwards),
        1 => Just(Outcome::LostBefore),
    ];
    let step = prop_oneof![
        2 => (0usize..20).prop_map(Step::Copy),
        3 => (0usize..1001).prop_map(Step::Source),
        1 => (0usize..1001).prop_map(Step::Target),
        1 => state.prop_map(Step::State),
        6 => (0i64..1_500, proptest::bool::weighted(0.1), outcome)
            .prop_map(|(ms, stale, outcome)| Step::Round { ms, stale, outcome }),
    ];
    proptest::collection::vec(step, 1..80)
}

proptest! {
    #[test]
    fn a_target_group_is_never_moved_backward_nor_past_unread_records(
        holes in proptest::collection::vec(prop_oneof![4 => Just(0i64), 1 => 1i64..5], 1..60),
        steps in steps(),
        renew in any::<bool>(),
    ) {
        let mut offset = 0;
        let records: Vec<i64> = holes.iter().map(|hole| { offset += hole + 1; offset - 1 }).collect();
        let end = offset;
        let mut world = World { records, copied: 0 };
        let rules = Rules { renew_after_ms: renew.then_some(3_000), ..RULES };
        let mut followed = Followed::new(rules);
        let (mut source, mut older) = (0i64, 0i64);
        let (mut target, mut state) = (None::<i64>, TargetGroup::Absent);
        let mut now = 0;
        for step in steps {
            match step {
                Step::Copy(records) => {
                    world.copied = (world.copied + records).min(world.records.len());
                }
                Step::Source(share) => {
                    (older, source) = (source, end * share as i64 / 1_000);
                }
                Step::Target(share) => target = Some((world.copied * share / 1_000) as i64),
                Step::State(next) => state = next,
                Step::Round { ms, stale, outcome } => {
                    now += ms;
                    let read = if stale { older } else { source };
                    let reading = Reading {
                        source: Some(SourceOffset(read)),
                        translation: world.translate(read),
                        copied_end: Some(at(world.copied as i64)),
                        target: target.map(TargetOffset),
                        target_group: state,
                    };
                    let action = followed.observe(reading, now);
                    let GroupAction::Commit(TargetOffset(offset)) = action else { continue };
                    prop_assert!(matches!(state, TargetGroup::Absent | TargetGroup::Empty));
                    prop_assert!(target.is_none_or(|target| offset >= target), "backward");
                    prop_assert!(offset <= world.copied as i64, "beyond the copy");
                    prop_assert!(offset <= world.exact(read), "past unread records");
                    let (group, partition) = (&followed.group, &followed.partition);
                    if matches!(outcome, Outcome::Done | Outcome::LostAfterwards) {
                        target = Some(offset);
                    }
                    match outcome {
                        Outcome::Done => {
                            followed.tracker.committed(group, partition, at(offset), now);
                        }
                        Outcome::Refused => {
                            followed.tracker.refused(group, partition, 25, "members", now);
                        }
                        _ => followed.tracker.failed(group, partition, "lost", now),
                    }
                }
            }
        }
        // Once everything is copied and the target is quiet, two rounds settle it.
        world.copied = world.records.len();
        for _ in 0..2 {
            now += 1_000;
            let reading = Reading {
                source: Some(SourceOffset(source)),
                translation: world.translate(source),
                copied_end: Some(at(world.copied as i64)),
                target: target.map(TargetOffset),
                target_group: TargetGroup::Empty,
            };
            if let GroupAction::Commit(TargetOffset(offset)) = followed.sync(reading, now) {
                target = Some(offset);
            }
        }
        let exact = world.exact(source);
        let (state, code, _) = followed.standing();
        prop_assert!(target.is_some_and(|target| target >= exact));
        if target == Some(exact) {
            prop_assert_eq!(state, State::InSync);
        } else {
            prop_assert_eq!(state, State::Waiting);
            prop_assert!(matches!(code, Some(Code::TargetAhead | Code::SourceRewound)));
        }
    }
}
