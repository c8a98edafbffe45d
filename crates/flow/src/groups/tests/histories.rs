//! Random histories of one group: nothing is ever moved backward or past unread records.

use proptest::prelude::*;
use twinlog_types::Translation::{End, Exact, LowerBound, Unknown};
use twinlog_types::{Code, SourceOffset, State, TargetOffset, Translation};

use super::{Followed, RULES, at};
use crate::groups::{GroupAction, Reading, Rules, TargetGroup};

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
        // Where we put the position, as long as every round finds it there.
        let mut put = None;
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
                    put = put.filter(|_| put == target);
                    let read = if stale { older } else { source };
                    let reading = Reading {
                        source: Some(SourceOffset(read)),
                        source_asked_ms: now,
                        translation: world.translate(read),
                        copied_end: Some(at(world.copied as i64)),
                        target: target.map(TargetOffset),
                        target_asked_ms: now,
                        target_group: state,
                        loading: false,
                        lost: 0,
 share: false,
 both_directions: false,
                    };
                    let action = followed.observe(reading, now);
                    let (GroupAction::Commit(TargetOffset(offset))
                    | GroupAction::Renew(TargetOffset(offset))) = action
                    else {
                        continue;
                    };
                    prop_assert!(matches!(state, TargetGroup::Absent | TargetGroup::Empty));
                    prop_assert!(target.is_none_or(|target| offset >= target || put.is_some()), "backward");
                    prop_assert!(offset <= world.copied as i64, "beyond the copy");
                    prop_assert!(offset <= world.exact(read), "past unread records");
                    let (group, partition) = (&followed.group, &followed.partition);
                    if matches!(outcome, Outcome::Done | Outcome::LostAfterwards) {
                        put = if target == Some(offset) { put } else { Some(offset) };
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
        // Once everything is copied and the target is quiet, four rounds settle it.
        world.copied = world.records.len();
        for _ in 0..4 {
            now += 1_000;
            let reading = Reading {
                source: Some(SourceOffset(source)),
                source_asked_ms: now,
                translation: world.translate(source),
                copied_end: Some(at(world.copied as i64)),
                target: target.map(TargetOffset),
                target_asked_ms: now,
                target_group: TargetGroup::Empty,
                loading: false,
                lost: 0,
 share: false,
 both_directions: false,
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
