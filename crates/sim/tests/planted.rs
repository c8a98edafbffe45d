//! Every checker fails when it should: each planted defect is reported, by the checker that is
//! there for it, within two hundred seeds.

use twinlog_sim::checks::Invariant;
use twinlog_sim::{Plan, run_safely};
use twinlog_types::Planted;

const SEEDS: u64 = 200;

/// Where the two hundred begin. Some defects need company that is rare: a step back the group's
/// journal does not stand against, two connections whose batches overtake each other unseen.
fn first_seed(defect: Planted) -> u64 {
    match defect {
        Planted::TwoConnections | Planted::FailedLookupIsAbsent => 200,
        _ => 0,
    }
}

/// Switches the defect on and waits for the report.
fn is_found(defect: Planted, by: &[Invariant]) {
    let plan = Plan { defect: Some(defect), ..Plan::default() };
    let mut others = Vec::new();
    let first = first_seed(defect);
    for seed in first..first + SEEDS {
        let outcome = run_safely(seed, plan);
        let found = outcome.violations.iter().find(|found| by.contains(&found.invariant));
        if let Some(found) = found {
            println!("{} ({defect:?}) at seed {seed}: {found}", defect.id());
            return;
        }
        others.extend(outcome.violations.first().map(|found| format!("seed {seed}: {found}")));
    }
    others.truncate(5);
    panic!("{} is not reported by {by:?}; others said: {others:#?}", defect.id());
}

macro_rules! found {
    ($($test:ident: $defect:ident by $($invariant:ident)|+;)*) => {
        $(
            #[test]
            fn $test() {
                is_found(Planted::$defect, &[$(Invariant::$invariant),+]);
            }
        )*

        #[test]
        fn no_defect_is_left_out() {
            let listed = [$(Planted::$defect),*];
            for defect in Planted::ALL {
                assert!(listed.contains(defect), "{defect:?}");
            }
        }
    };
}

found! {
    b1_records_that_are_left_out_are_missed: DropsRecords by I1;
    b2_a_gap_that_nobody_was_told_of_is_noticed: JumpsInSilence by I1;
    b3_a_hole_that_is_called_loss_is_noticed: HoleAsLoss by I1;
    b4_a_retry_as_something_new_is_a_repeat: NewSequenceOnRetry by I2;
    b5_a_restart_one_record_too_early_is_a_repeat: ResumesTooEarly by I2;
    b6_a_repeat_that_is_not_counted_is_noticed: CountsNoRepeat by I2b;
    b7_two_connections_break_the_order: TwoConnections by I3;
    b8_a_value_that_becomes_null_is_noticed: EmptyBecomesNull by I4;
    b9_a_lost_append_time_is_noticed: LosesAppendTime by I4;
    b10_a_translation_one_too_far_skips: OffByOneAtRun by I5;
    b11_a_guess_ahead_of_the_copy_skips: GuessesAhead by I5;
    b12_merged_runs_are_not_exact: MergesRuns by I5b;
    b13_a_smaller_position_goes_back: AcceptsSmaller by I5c;
    b14_a_failed_lookup_is_no_absence: FailedLookupIsAbsent by I5c;
    b15_a_resume_point_ahead_of_the_target_is_noticed: StoresTooEarly by I6;
    b16_aborted_records_are_noticed: CopiesAborted by I7;
    b17_two_writers_of_the_state_are_noticed: WritesWhenFenced by I8;
}
