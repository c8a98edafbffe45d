//! Java MirrorMaker 2 between real brokers, broken on purpose: what `twinlog doctor` says of it.
//!
//! Each test makes faults, waits until they show, and expects the errors that are true and no other.
//! Numbers of records are counted by Kafka's own consumers, by contents.
//!
//! The tests share two brokers and one MirrorMaker 2 and run in this order: each leaves the flow as
//! the next one needs it.

mod connect;
mod ended;
mod old;
mod running;
mod setup;
mod several;
mod switched;

use std::process::ExitCode;

use twinlog_testkit::ring::{self, test};

fn main() -> ExitCode {
    ring::main(&[
        test("a_healthy_mm2_has_no_error_and_its_faults_while_it_runs_are_named", running::all),
        test("what_the_file_or_a_missing_right_switches_off_is_named", switched::all),
        test("what_happened_while_mm2_was_stopped_is_named", ended::stopped),
        test("a_copy_made_twice_after_a_kill_is_counted", ended::killed),
        test("a_record_that_is_too_large_is_named", ended::too_large),
        test("an_mm2_that_was_killed_is_named", ended::dead),
        test("an_mm2_that_may_not_read_its_pairs_of_offsets_is_named", switched::sealed),
        test("old_bugs_of_mm2_3_4_0_are_told_with_their_numbers", old::mm2_3_4),
        test("connectors_that_are_configured_apart_are_named", connect::apart),
        test("processes_that_cannot_tell_each_other_are_named", several::two_processes),
    ])
}
