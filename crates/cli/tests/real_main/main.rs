//! The main job on real brokers: `twinlog run` mirrors clusters and carries every group's place.
//!
//! Every test states one fact and judges it by contents: both clusters are read back with Kafka's
//! own consumer, and where a group must stand follows from the two readings alone.
//!
//! The brokers of [`setup::pair`] serve all tests, which run one after another. Each test has
//! topics and groups of its own and starts `twinlog run` itself.

mod committing;
mod copying;
mod embedded;
mod endings;
mod explaining;
mod figures;
mod following;
mod inspect;
mod lags;
mod main_copy;
mod scenarios;
mod setup;
mod several;
mod sharing;
mod states;
mod takeover;
mod trouble;
mod verifying;

use std::process::ExitCode;

use twinlog_testkit::ring::{self, test};

fn main() -> ExitCode {
    ring::main(&[
        test("every_record_and_every_group_arrives_though_no_offsets_are_equal", main_copy::exact),
        test("mirror_client_gives_the_offsets_that_translate_gives", main_copy::mirror_client),
        test("sigterm_ends_within_10_s_and_a_restart_copies_nothing_twice", endings::sigterm),
        test("new_topics_partitions_and_groups_are_mirrored_within_5_s", following::new_things),
        test("groups_of_the_consumer_protocol_are_carried_over", following::consumer_protocol),
        test("share_groups_begin_at_the_same_record", sharing::begins_on_the_target),
        test("a_group_with_live_members_on_the_target_is_left_alone", following::live_on_target),
        test("an_excluded_group_is_named_and_left_alone", following::excluded),
        test(
            "transactional_commits_and_deleted_groups_are_followed_live",
            committing::transactions_and_ends,
        ),
        test("a_commit_is_on_the_target_within_milliseconds", committing::figures),
        test("one_broken_topic_stops_alone_and_says_why", trouble::stopped_topics),
        test("a_gap_that_retention_tore_is_named_with_its_range", trouble::source_gap),
        test("groups_in_the_situations_that_users_suffer_stand_exactly", scenarios::groups),
        test("losses_that_users_suffer_are_loud_and_gone_on_behind", scenarios::losses),
        test("a_broker_that_is_not_there_is_waited_for", trouble::unreachable),
        test("mm2s_topics_are_dumped_as_kafkas_formatters_print_them", inspect::mm2s_topics),
        test("our_topics_are_dumped_as_kafkas_formatters_print_them", inspect::our_topics),
        test("wait_ends_when_all_that_was_there_is_mirrored", inspect::wait),
        test("explain_names_the_first_broken_link_of_what_twinlog_mirrors", explaining::by_twinlog),
        test("explain_names_the_first_broken_link_of_what_mm2_mirrors", explaining::by_mm2),
        test("explain_names_what_holds_records_and_rights_back", states::held_back),
        test("contents_alone_prove_mm2s_mirror_equal_and_find_what_is_not", verifying::by_mm2),
        test(
            "take_1_a_killed_mm2_is_taken_over_exactly_and_goes_on_where_twinlog_ends",
            takeover::and_back,
        ),
        test("hub_and_spokes_in_one_process_mirror_without_loops", several::hub_and_spokes),
        test("brokers_of_3_9_1_are_mirrored_from", several::from_3_9_1),
        test("brokers_of_3_9_1_are_mirrored_to", several::to_3_9_1),
        test("a_cluster_of_twinlog_embedded_is_mirrored_from", embedded::from_embedded),
        test("a_cluster_of_twinlog_embedded_is_mirrored_to", embedded::to_embedded),
        test("mm2_itself_mirrors_between_two_clusters_of_twinlog_embedded", embedded::mm2_between),
        test("no_group_reads_again_or_skips_a_record_at_any_lag", lags::table),
        test("the_processor_time_of_a_copy_is_told_beside_mm2s", copying::cost),
        test("memory_at_rest_and_the_first_record_are_far_below_mm2s", figures::beside_mm2),
    ])
}
