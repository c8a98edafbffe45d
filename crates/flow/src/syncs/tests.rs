//! The policy against a port of MM2's reader.

use proptest::prelude::*;
use twinlog_mirror::{OffsetSyncStore, SyncTranslation};

use super::*;

/// What MM2's checkpoint task makes of the syncs.
struct Mm2Reader(OffsetSyncStore);

impl Mm2Reader {
    fn new() -> Self {
        Self(OffsetSyncStore::new())
    }

    fn read(&mut self, sync: SyncPair) {
        self.0.take((sync.source, sync.target));
    }

    /// Nothing, MM2's "-1", or the target offset.
    fn translate(&self, source: i64) -> Option<i64> {
        match self.0.translate(SourceOffset(source)) {
            SyncTranslation::NoSync => None,
            SyncTranslation::BeforeOldest => Some(-1),
            SyncTranslation::To(target) => Some(target.0),
        }
    }

    fn entries(&self) -> Vec<(i64, i64)> {
        self.0.kept().into_iter().map(|(source, target)| (source.0, target.0)).collect()
    }
}

fn pair(source: i64, target: i64) -> SyncPair {
    SyncPair { source: SourceOffset(source), target: TargetOffset(target) }
}

fn stretch(source: i64, target: i64, records: u64) -> Stretch {
    Stretch { first: pair(source, target), records }
}

const RULES: SyncRules = SyncRules { lag_max: 100, run_interval_ms: 1_000 };

#[test]
fn the_first_record_and_the_newest_at_rest_are_synced() {
    let mut emitter = SyncEmitter::new(RULES);
    assert_eq!(emitter.acknowledged(stretch(40, 3, 50), 0), [pair(40, 3)]);
    assert_eq!(emitter.rest(1), [pair(89, 52)]);
    assert_eq!(emitter.rest(2), []);
}

#[test]
fn no_record_is_more_than_offset_lag_max_after_a_sync() {
    let mut emitter = SyncEmitter::new(RULES);
    assert_eq!(emitter.acknowledged(stretch(0, 0, 101), 0), [pair(0, 0)]);
    // MM2's condition: downstream - (last sync + 1) >= offset.lag.max.
    assert_eq!(emitter.acknowledged(stretch(101, 101, 1), 0), [pair(101, 101)]);
    assert_eq!(emitter.acknowledged(stretch(102, 102, 250), 0), [pair(202, 202), pair(303, 303)],);
}

#[test]
fn offset_lag_max_zero_syncs_every_record() {
    let mut emitter = SyncEmitter::new(SyncRules { lag_max: 0, ..RULES });
    let syncs = emitter.acknowledged(stretch(7, 0, 4), 0);
    assert_eq!(syncs, [pair(7, 0), pair(8, 1), pair(9, 2), pair(10, 3)]);
}

#[test]
fn a_large_stretch_asks_for_a_bounded_number_of_syncs() {
    let mut emitter = SyncEmitter::new(SyncRules { lag_max: 0, ..RULES });
    let syncs = emitter.acknowledged(stretch(0, 0, 1_000_000), 0);
    assert!(syncs.len() as u64 <= STRETCH_SYNCS_MAX + 1, "{}", syncs.len());
    assert_eq!(syncs.last(), Some(&pair(999_999, 999_999)));
}

#[test]
fn syncs_for_new_runs_are_put_off_until_the_interval_has_passed() {
    let mut emitter = SyncEmitter::new(RULES);
    assert_eq!(emitter.acknowledged(stretch(0, 0, 5), 0), [pair(0, 0)]);
    assert_eq!(emitter.acknowledged(stretch(6, 5, 5), 10), []);
    assert_eq!(emitter.acknowledged(stretch(12, 10, 5), 20), []);
    assert_eq!(emitter.tick(999), []);
    assert_eq!(emitter.tick(1_000), [pair(16, 14)]);
    assert_eq!(emitter.tick(5_000), []);
    assert_eq!(emitter.acknowledged(stretch(18, 15, 5), 5_000), [pair(18, 15)]);
}

#[test]
fn a_sync_that_did_not_arrive_is_made_up_for() {
    let mut emitter = SyncEmitter::new(RULES);
    assert_eq!(emitter.acknowledged(stretch(0, 0, 1), 0), [pair(0, 0)]);
    emitter.failed();
    assert_eq!(emitter.rest(1), [pair(0, 0)]);
    assert_eq!(emitter.rest(2), []);
}

#[test]
fn a_lost_end_takes_the_reader_back_below_the_loss() {
    let mut emitter = SyncEmitter::new(RULES);
    let mut reader = Mm2Reader::new();
    emitter.acknowledged(stretch(0, 0, 50), 0).into_iter().for_each(|sync| reader.read(sync));
    emitter.rest(1).into_iter().for_each(|sync| reader.read(sync));
    assert_eq!(reader.translate(60), Some(50));
    emitter.cut(Some(pair(19, 19)), 2).into_iter().for_each(|sync| reader.read(sync));
    assert_eq!(reader.translate(60), Some(20));
    assert_eq!(reader.entries(), [(19, 19)]);
}

#[test]
fn a_loss_above_the_newest_sync_needs_no_step_back() {
    let mut emitter = SyncEmitter::new(RULES);
    emitter.acknowledged(stretch(0, 0, 50), 0);
    assert_eq!(emitter.cut(Some(pair(19, 19)), 2), []);
}

#[test]
fn a_target_made_again_makes_the_reader_forget_even_without_a_smaller_record() {
    // The only sync says 5 -> 5000; on the new target the same record is at 0.
    let mut emitter = SyncEmitter::new(RULES);
    let mut reader = Mm2Reader::new();
    emitter.acknowledged(stretch(5, 5000, 1), 0).into_iter().for_each(|sync| reader.read(sync));
    assert_eq!(emitter.cut(None, 1), []);
    emitter.acknowledged(stretch(5, 0, 1), 2).into_iter().for_each(|sync| reader.read(sync));
    assert_eq!(reader.translate(9), Some(1));
    emitter.acknowledged(stretch(6, 1, 1), 3).into_iter().for_each(|sync| reader.read(sync));
    assert_eq!(reader.entries(), [(6, 1), (5, 0)]);
}

#[test]
fn a_partition_that_begins_anew_makes_the_reader_forget_its_earlier_life() {
    let mut reader = Mm2Reader::new();
    for sync in [pair(5, 5000), pair(9, 5004)] {
        reader.read(sync);
    }
    let mut emitter = SyncEmitter::anew(RULES);
    // Retention has taken the source's first records meanwhile: no smaller offset is copied.
    emitter.acknowledged(stretch(20, 0, 3), 0).into_iter().for_each(|sync| reader.read(sync));
    assert_eq!(reader.entries(), [(22, 2), (20, 0)]);
    assert_eq!(reader.translate(9), Some(-1));
}

#[derive(Clone, Debug)]
enum Step {
    /// A hole in the source, foreign records in the target, then records.
    Records {
        hole: i64,
        foreign: i64,
        records: u64,
    },
    Pass(i64),
    Rest,
    /// The target keeps this share (of 16) of its records and the next one lands `foreign` later.
    Cut {
        sixteenths: usize,
        foreign: i64,
    },
    Fail,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (prop_oneof![3 => Just(0i64), 1 => 0i64..40],
              prop_oneof![9 => Just(0i64), 1 => 0i64..5],
              prop_oneof![4 => 1u64..30, 1 => 1u64..2_000])
            .prop_map(|(hole, foreign, records)| Step::Records { hole, foreign, records }),
        2 => (0i64..3_000).prop_map(Step::Pass),
        2 => Just(Step::Rest),
        1 => (0usize..17, 0i64..5)
            .prop_map(|(sixteenths, foreign)| Step::Cut { sixteenths, foreign }),
        1 => Just(Step::Fail),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn mm2s_reader_never_translates_ahead_and_is_exact_at_rest(
        steps in steps(),
        lag_max in prop_oneof![Just(0u64), Just(7u64), Just(100u64)],
        start in 0i64..1_000,
    ) {
        let mut emitter = SyncEmitter::new(SyncRules { lag_max, run_interval_ms: 1_000 });
        let mut reader = Mm2Reader::new();
        let mut truth: Vec<SyncPair> = Vec::new();
        let (mut now, mut next_source, mut next_target) = (0i64, start, 0i64);
        let mut unclear = false;
        for step in steps {
            let mut at_rest = false;
            let mut forward_only = true;
            let before = emitter.written();
            let syncs = match step {
                Step::Records { hole, foreign, records } => {
                    let first = pair(next_source + hole, next_target + foreign);
                    let stretch = Stretch { first, records };
                    truth.extend((0..records).map(|n| SyncPair {
                        source: first.source.plus(n),
                        target: first.target.plus(n),
                    }));
                    next_source = stretch.last().source.0 + 1;
                    next_target = stretch.last().target.0 + 1;
                    forward_only = emitter.back_to.is_none() && emitter.forget_to.is_none();
                    unclear = false;
                    emitter.acknowledged(stretch, now)
                }
                Step::Pass(ms) => { now += ms; emitter.tick(now) }
                Step::Rest => { at_rest = !truth.is_empty(); emitter.rest(now) }
                Step::Cut { sixteenths, foreign } => {
                    truth.truncate(truth.len() * sixteenths / 16);
                    let survivor = truth.last().copied();
                    next_source = survivor.map_or(start, |last| last.source.0 + 1);
                    next_target = survivor.map_or(0, |last| last.target.0 + 1) + foreign;
                    forward_only = false;
                    // Without a surviving record there is nothing to write until one is copied.
                    unclear = survivor.is_none();
                    emitter.cut(survivor, now)
                }
                Step::Fail => { emitter.failed(); Vec::new() }
            };
            // Then wrong syncs are still around where no record is.
            unclear |= emitter.back_to.is_some();
            let mut last = before;
            for sync in syncs {
                prop_assert!(truth.binary_search_by_key(&sync.source, |t| t.source)
                    .is_ok_and(|at| truth[at] == sync), "{sync:?} is no acknowledged record");
                if forward_only {
                    prop_assert!(last.is_none_or(|last| last.source <= sync.source));
                }
                last = Some(sync);
                reader.read(sync);
            }
            if unclear {
                continue;
            }
            let end = truth.last().map_or(0, |last| last.target.0 + 1);
            let positions = truth.iter().rev().take(300).map(|t| t.source.0)
                .chain(truth.iter().step_by(17).map(|t| t.source.0 + 1))
                .chain([start, next_source, next_source + 50]);
            for position in positions {
                let at = truth.partition_point(|t| t.source.0 < position);
                let exact = truth.get(at).map_or(end, |t| t.target.0);
                let answer = reader.translate(position);
                prop_assert!(answer.is_none_or(|answer| answer <= exact),
                    "{position} is at {exact}, MM2's reader says {answer:?}");
            }
            if at_rest {
                prop_assert_eq!(reader.translate(next_source), Some(end));
            }
        }
    }
}
