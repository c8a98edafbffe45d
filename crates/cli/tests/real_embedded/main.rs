//! Kafka's own Java clients and tools against `twinlog embedded`: what works with a broker works with
//! it.
//!
//! Every test states one fact for one pair of a client's version and the version that the cluster
//! behaves like. The clusters serve all tests, which run one after another; each test has topics and
//! groups of its own.

mod admin;
mod console;
mod groups;
mod setup;
mod transactions;

use std::process::ExitCode;

use twinlog_testkit::ring::{self, test};

use crate::setup::{new_on_new, new_on_old, old_on_new, old_on_old};

fn main() -> ExitCode {
    ring::main(&[
        test("console_tools_of_4_3_0_write_and_read", || console::tools(new_on_new()?)),
        test("console_tools_of_3_9_1_write_and_read", || console::tools(old_on_old()?)),
        test(
            "console_tools_of_3_9_1_speak_with_a_cluster_of_4_3",
            || console::tools(old_on_new()?),
        ),
        test(
            "console_tools_of_4_3_0_speak_with_a_cluster_of_3_9",
            || console::tools(new_on_old()?),
        ),
        test("a_static_member_of_4_3_0_keeps_its_place", || console::static_member(new_on_new()?)),
        test("a_static_member_of_3_9_1_keeps_its_place", || console::static_member(old_on_old()?)),
        test("consumer_groups_of_4_3_0_lists_resets_and_deletes", || groups::tool(new_on_new()?)),
        test("consumer_groups_of_3_9_1_lists_resets_and_deletes", || groups::tool(old_on_old()?)),
        test("a_group_of_the_consumer_protocol_reads_and_commits", || {
            groups::consumer_protocol(new_on_new()?)
        }),
        test("topics_of_4_3_0_creates_alters_and_deletes", || admin::topics(new_on_new()?)),
        test("topics_of_3_9_1_creates_alters_and_deletes", || admin::topics(old_on_old()?)),
        test("configs_of_4_3_0_sets_and_removes", || admin::configs(new_on_new()?)),
        test("configs_of_3_9_1_sets_and_removes", || admin::configs(old_on_old()?)),
        test("delete_records_and_get_offsets_of_4_3_0_agree", || admin::records(new_on_new()?)),
        test("delete_records_and_get_offsets_of_3_9_1_agree", || admin::records(old_on_old()?)),
        test("aborted_records_are_read_only_uncommitted_by_4_3_0", || {
            transactions::aborted(new_on_new()?)
        }),
        test("aborted_records_are_read_only_uncommitted_by_3_9_1", || {
            transactions::aborted(old_on_old()?)
        }),
        test("records_and_offsets_are_committed_in_one_transaction_by_4_3_0", || {
            transactions::transform(new_on_new()?)
        }),
        test("records_and_offsets_are_committed_in_one_transaction_by_3_9_1", || {
            transactions::transform(old_on_old()?)
        }),
        test("a_consumer_that_follows_under_load_misses_nothing", || {
            transactions::live(new_on_new()?)
        }),
    ])
}
