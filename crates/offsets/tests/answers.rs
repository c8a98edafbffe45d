//! What the map answers, by example, and what it refuses.

use twinlog_offsets::{OffsetMap, RunStart};
use twinlog_types::{SourceOffset, TargetOffset, Translation};

fn run(count: u64, source: i64, target: i64) -> RunStart {
    RunStart { count, source: SourceOffset(source), target: TargetOffset(target) }
}

fn translations(map: &OffsetMap, positions: &[i64]) -> Vec<Translation<TargetOffset>> {
    positions.iter().map(|&position| map.translate(SourceOffset(position))).collect()
}

fn exact(target: i64) -> Translation<TargetOffset> {
    Translation::Exact(TargetOffset(target))
}

fn end(target: i64) -> Translation<TargetOffset> {
    Translation::End(TargetOffset(target))
}

/// Ten records from source offset 100, a marker at 110, five more from 111; one marker behind them.
fn two_transactions() -> OffsetMap {
    let mut map = OffsetMap::new(SourceOffset(100));
    map.set_origin(TargetOffset(0));
    map.plan(run(0, 100, 0));
    map.plan(run(10, 111, 10));
    map.acknowledge(15, SourceOffset(117));
    map
}

#[test]
fn a_position_behind_a_marker_is_the_next_record() {
    let map = two_transactions();
    assert_eq!(
        translations(&map, &[100, 109, 110, 111, 115]),
        [exact(0), exact(9), exact(10), exact(10), exact(14)]
    );
}

#[test]
fn a_consumer_that_read_everything_stands_at_the_end_on_both_sides_of_a_trailing_marker() {
    let map = two_transactions();
    assert_eq!(translations(&map, &[116, 117]), [end(15), end(15)]);
    let ahead = map.translate(SourceOffset(118));
    assert_eq!(ahead, Translation::LowerBound(TargetOffset(15)));
}

#[test]
fn the_way_back_from_the_end_is_the_next_offset_to_copy() {
    let map = two_transactions();
    assert_eq!(map.reverse(TargetOffset(14)), Translation::Exact(SourceOffset(115)));
    assert_eq!(map.reverse(TargetOffset(15)), Translation::End(SourceOffset(117)));
    assert_eq!(map.reverse(TargetOffset(16)), Translation::LowerBound(SourceOffset(117)));
}

#[test]
fn what_the_copy_never_looked_at_is_missing() {
    let map = two_transactions();
    let answer = map.translate(SourceOffset(93));
    assert_eq!(answer, Translation::BeforeStart { offset: TargetOffset(0), missing: 7 });
}

#[test]
fn an_empty_partition_is_at_its_end_and_unknown_only_without_an_origin() {
    let mut map = OffsetMap::new(SourceOffset(40));
    assert_eq!(map.translate(SourceOffset(40)), Translation::Unknown);
    assert_eq!(map.reverse(TargetOffset(8)), Translation::Unknown);
    map.set_origin(TargetOffset(8));
    assert_eq!(map.translate(SourceOffset(40)), end(8));
    assert_eq!(map.translate(SourceOffset(41)), Translation::LowerBound(TargetOffset(8)));
    assert_eq!(map.reverse(TargetOffset(8)), Translation::End(SourceOffset(40)));
    let before = map.translate(SourceOffset(35));
    assert_eq!(before, Translation::BeforeStart { offset: TargetOffset(8), missing: 5 });
}

#[test]
fn planned_records_are_not_there_yet() {
    let mut map = two_transactions();
    map.plan(run(15, 120, 15));
    assert_eq!(map.translate(SourceOffset(117)), end(15));
    assert_eq!(map.translate(SourceOffset(120)), Translation::LowerBound(TargetOffset(15)));
    assert_eq!(map.source_of(17), Some(SourceOffset(122)));
    map.acknowledge(16, SourceOffset(121));
    assert_eq!(map.translate(SourceOffset(117)), exact(15));
}

#[test]
fn foreign_records_in_the_mirror_move_what_comes_behind_them() {
    let mut map = two_transactions();
    map.plan(run(15, 120, 15));
    map.plan(run(20, 130, 20));
    map.shift(run(17, 122, 20));
    map.acknowledge(22, SourceOffset(132));
    assert_eq!(
        translations(&map, &[121, 122, 124, 130, 132]),
        [exact(16), exact(20), exact(22), exact(23), end(25)]
    );
    assert_eq!(map.reverse(TargetOffset(17)), Translation::Exact(SourceOffset(122)));
}

#[test]
fn a_shift_to_where_the_records_are_expected_changes_nothing() {
    let mut map = two_transactions();
    let before = map.clone();
    assert_eq!(map.shift(run(15, 116, 15)), 2);
    assert_eq!(map, before);
}

#[test]
fn a_truncated_target_is_copied_again_from_the_lost_record() {
    let mut map = two_transactions();
    map.cut(10);
    assert_eq!((map.acknowledged(), map.copied_to()), (10, SourceOffset(111)));
    assert_eq!(map.translate(SourceOffset(111)), end(10));
    assert_eq!(map.translate(SourceOffset(112)), Translation::LowerBound(TargetOffset(10)));
    // The source was compacted since: 111 and 112 are gone.
    map.plan(run(10, 113, 10));
    map.acknowledge(13, SourceOffset(116));
    assert_eq!(
        translations(&map, &[110, 111, 113, 115]),
        [exact(10), exact(10), exact(10), exact(12)]
    );
}

#[test]
fn records_that_the_target_deleted_are_counted() {
    let mut map = two_transactions();
    map.prune(TargetOffset(12));
    let answer = map.translate(SourceOffset(105));
    assert_eq!(answer, Translation::BeforeStart { offset: TargetOffset(12), missing: 7 });
    assert_eq!(translations(&map, &[113, 114]), [exact(12), exact(13)]);
    // Foreign records made the log longer, then all of it was deleted.
    map.prune(TargetOffset(30));
    assert_eq!(map.translate(SourceOffset(117)), end(30));
}

#[test]
fn the_copied_position_never_passes_a_planned_record_nor_falls_behind_an_acknowledged_one() {
    let mut map = OffsetMap::new(SourceOffset(100));
    map.plan(run(0, 105, 0));
    map.plan(run(10, 116, 10));
    map.acknowledge(0, SourceOffset(500));
    assert_eq!(map.copied_to(), SourceOffset(105));
    map.acknowledge(4, SourceOffset(500));
    assert_eq!(map.copied_to(), SourceOffset(109));

    let mut map = two_transactions();
    map.plan(run(15, 120, 15));
    map.acknowledge(15, SourceOffset(500));
    assert_eq!(map.copied_to(), SourceOffset(120));
    map.acknowledge(16, SourceOffset(0));
    assert_eq!(map.copied_to(), SourceOffset(121));
    map.acknowledge(3, SourceOffset(3));
    assert_eq!((map.acknowledged(), map.copied_to()), (16, SourceOffset(121)));
}

#[test]
fn the_ends_of_the_offset_range_are_ordinary_positions() {
    let mut map = OffsetMap::new(SourceOffset(0));
    map.plan(run(0, i64::MAX - 2, i64::MAX - 2));
    map.acknowledge(1, SourceOffset(i64::MAX));
    assert_eq!(map.translate(SourceOffset(i64::MAX - 2)), exact(i64::MAX - 2));
    assert_eq!(map.translate(SourceOffset(i64::MAX)), end(i64::MAX - 1));
    assert_eq!(
        map.translate(SourceOffset(i64::MIN)),
        Translation::BeforeStart { offset: TargetOffset(i64::MAX - 2), missing: 1 << 63 }
    );
    assert_eq!(
        map.reverse(TargetOffset(i64::MAX)),
        Translation::LowerBound(SourceOffset(i64::MAX))
    );
}

#[test]
#[should_panic(expected = "does not follow")]
fn a_run_that_overlaps_the_one_before_is_refused() {
    let mut map = OffsetMap::new(SourceOffset(0));
    map.plan(run(0, 0, 0));
    map.plan(run(10, 9, 10));
}

#[test]
#[should_panic(expected = "does not follow")]
fn a_run_without_records_is_refused() {
    let mut map = OffsetMap::new(SourceOffset(0));
    map.plan(run(0, 0, 0));
    map.plan(run(0, 3, 3));
}

#[test]
#[should_panic(expected = "below the 15 acknowledged records")]
fn acknowledged_records_are_not_planned_again() {
    two_transactions().plan(run(14, 120, 20));
}

#[test]
#[should_panic(expected = "below the 15 acknowledged records")]
fn acknowledged_records_do_not_move() {
    two_transactions().shift(run(14, 115, 20));
}

#[test]
#[should_panic(expected = "out of range")]
fn negative_offsets_are_refused() {
    OffsetMap::new(SourceOffset(0)).plan(run(0, -1, 0));
}
