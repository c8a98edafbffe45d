//! The saved map: how large it is, how it grows, and what is refused.

use bytes::Bytes;
use twinlog_offsets::state::{Position, segment_runs};
use twinlog_offsets::{Malformed, OffsetMap, RUNS_PER_SEGMENT, RunStart, StateError};
use twinlog_types::{SourceOffset, TargetOffset, Translation};

/// A partition of transactions of 50 records, each followed by its marker; foreign records push
/// every 16th run on the target when `foreign` is set.
fn transactions(runs: usize, foreign: bool) -> OffsetMap {
    let mut map = OffsetMap::new(SourceOffset(0));
    map.set_origin(TargetOffset(0));
    let mut gaps = 0;
    for run in 0..runs as i64 {
        gaps += i64::from(foreign && run % 16 == 15);
        map.plan(RunStart {
            count: run as u64 * 50,
            source: SourceOffset(run * 51),
            target: TargetOffset(run * 50 + gaps),
        });
    }
    map.acknowledge(runs as u64 * 50, SourceOffset(runs as i64 * 51));
    map
}

fn position(map: &OffsetMap) -> Position {
    Position {
        source_topic: "orders".into(),
        target_topic: "hello.orders".into(),
        producer_id: 4000,
        producer_epoch: 0,
        start: map.start(),
        origin: map.origin().unwrap(),
        count: map.acknowledged(),
        copied_to: map.copied_to(),
        target_end: map.target_end(),
        runs: map.runs() as u32,
        source_epoch: -1,
        target_epochs: Vec::new(),
        written_ms: 0,
    }
}

#[test]
fn the_runs_of_a_segment_can_be_listed_without_the_map() {
    let map = transactions(RUNS_PER_SEGMENT + 2, true);
    let segments = map.segments_since(0);
    let first = segment_runs(&segments[0].1).expect("a segment");
    assert_eq!(first.len(), RUNS_PER_SEGMENT);
    let run = |count, source, target| RunStart {
        count,
        source: SourceOffset(source),
        target: TargetOffset(target),
    };
    assert_eq!(first[..2], [run(0, 0, 0), run(50, 51, 50)]);
    assert_eq!(first[15], run(750, 765, 751));
    let last = segment_runs(&segments[1].1).expect("a segment");
    assert_eq!(last.len(), 2);
    assert_eq!(last[0].count, RUNS_PER_SEGMENT as u64 * 50);
    assert_eq!(segment_runs(b""), Err(Malformed::Truncated));
}

#[test]
fn a_million_runs_take_at_most_four_bytes_each_on_the_topic_and_in_memory() {
    const RUNS: usize = 1_000_000;
    for foreign in [false, true] {
        let map = transactions(RUNS, foreign);
        let segments = map.segments_since(0);
        let encoded: usize = segments.iter().map(|(_, bytes)| bytes.len()).sum();
        let memory = map.memory_bytes();
        println!("foreign {foreign}: {encoded} bytes encoded, {memory} in memory");
        assert!(encoded <= 4 * RUNS, "{encoded} bytes encoded");
        assert!(memory <= 4 * RUNS, "{memory} bytes in memory");
        assert!(segments.iter().all(|(_, bytes)| bytes.len() <= 2048));
        assert_eq!(OffsetMap::restore(&position(&map), [], segments), Ok(map));
    }
}

#[test]
fn holes_and_runs_of_any_length_cost_what_their_numbers_cost() {
    // A compacted topic: 200 records, then 100,000 gone: two and three bytes.
    let mut map = OffsetMap::new(SourceOffset(0));
    for run in 0..RUNS_PER_SEGMENT as i64 {
        map.plan(RunStart {
            count: run as u64 * 200,
            source: SourceOffset(run * 100_200),
            target: TargetOffset(run * 200),
        });
    }
    let (_, bytes) = map.segments_since(0).remove(0);
    assert!(bytes.len() <= 5 * RUNS_PER_SEGMENT + 10, "{} bytes", bytes.len());
}

#[test]
fn the_first_version_of_a_segment_stays_readable() {
    let bytes = [
        1, // version
        3, // runs
        0, 100, 7, // first count, source, target
        20, 1, // ten records, one marker
        11, 2, 3, // five records, two offsets gone, three foreign records
    ];
    let map = OffsetMap::from_segments(SourceOffset(90), [], [(0, Bytes::copy_from_slice(&bytes))]);
    let map = map.unwrap();
    assert_eq!(map.segments_since(0), [(0, Bytes::copy_from_slice(&bytes))]);
    let last = RunStart { count: 15, source: SourceOffset(118), target: TargetOffset(25) };
    assert_eq!((map.runs(), map.last()), (3, Some(last)));
}

#[test]
fn only_segments_with_new_runs_are_written() {
    let mut map = transactions(2 * RUNS_PER_SEGMENT + 1, false);
    let numbers = |map: &OffsetMap, since| -> Vec<u32> {
        map.segments_since(since).into_iter().map(|(number, _)| number).collect()
    };
    assert_eq!(numbers(&map, 0), [0, 1, 2]);
    assert_eq!(numbers(&map, RUNS_PER_SEGMENT - 1), [0, 1, 2]);
    assert_eq!(numbers(&map, RUNS_PER_SEGMENT), [1, 2]);
    assert_eq!(numbers(&map, 2 * RUNS_PER_SEGMENT), [2]);
    assert_eq!(numbers(&map, map.runs()), []);

    // The run of segment 2 and the last of segment 1 go: 1 is rewritten, 2 needs a tombstone.
    let unchanged = map.cut((2 * RUNS_PER_SEGMENT as u64 - 1) * 50);
    assert_eq!((map.runs(), map.segments()), (2 * RUNS_PER_SEGMENT - 1, 0..2));
    assert_eq!(numbers(&map, unchanged), [1]);
    // A cut inside a run changes no start.
    assert_eq!(map.cut(map.acknowledged() - 1), map.runs());
}

#[test]
fn segments_keep_their_numbers_when_older_ones_are_pruned() {
    let runs = 3 * RUNS_PER_SEGMENT + 5;
    let mut map = transactions(runs, false);
    let boundary = TargetOffset(RUNS_PER_SEGMENT as i64 * 50);
    map.prune(boundary);
    assert_eq!((map.segments(), map.runs()), (0..4, runs));
    map.prune(boundary.plus(1));
    assert_eq!((map.segments(), map.runs()), (1..4, runs));
    assert_eq!(map.segments_since(0).len(), 3);

    // 51 source offsets of a run of 50 records: the bound counts offsets, or all records ever.
    let first = map.first().unwrap();
    let before = map.translate(SourceOffset(first.source.0 - 51));
    let offset = boundary.plus(1);
    assert_eq!(before, Translation::BeforeStart { offset, missing: 52 });
    assert_eq!(map.count_of_source(SourceOffset(first.source.0 - 1)), None);
    let all = map.translate(SourceOffset(0));
    assert_eq!(all, Translation::BeforeStart { offset, missing: first.count + 1 });

    let mut restored = OffsetMap::restore(&position(&map), [], map.segments_since(0)).unwrap();
    restored.prune(offset);
    assert_eq!(restored, map);
}

#[test]
fn a_cut_below_what_was_pruned_begins_the_map_anew() {
    let mut map = transactions(2 * RUNS_PER_SEGMENT, false);
    map.prune(TargetOffset(RUNS_PER_SEGMENT as i64 * 50 + 9));
    let first = map.first().unwrap();
    assert_eq!(map.cut(3), 0);
    assert_eq!((map.runs(), map.segments(), map.last()), (0, 0..0, None));
    assert_eq!((map.acknowledged(), map.copied_to()), (first.count, first.source));
    assert_eq!(map.translate(first.source), Translation::End(first.target));
    let restored = OffsetMap::restore(&position(&map), [], []).unwrap();
    assert_eq!(restored.translate(first.source), Translation::End(first.target));
    map.plan(first);
    map.acknowledge(first.count + 2, first.source.plus(2));
    assert_eq!(map.translate(first.source), Translation::Exact(first.target));
}

#[test]
fn a_missing_segment_is_named() {
    let map = transactions(4 * RUNS_PER_SEGMENT, false);
    let without = |missing: u32| {
        let segments =
            map.segments_since(0).into_iter().filter(move |&(number, _)| number != missing);
        OffsetMap::restore(&position(&map), [], segments)
    };
    for missing in 1..4 {
        assert_eq!(without(missing), Err(StateError::SegmentMissing { segment: missing }));
    }
    // At the front nothing tells it from a pruned one: positions there are before the start.
    let pruned = without(0).unwrap();
    assert!(matches!(pruned.translate(SourceOffset(3)), Translation::BeforeStart { .. }));
    assert_eq!(
        OffsetMap::restore(&position(&map), [], []),
        Err(StateError::SegmentMissing { segment: 0 })
    );
}

#[test]
fn segments_that_do_not_fit_together_are_named() {
    let map = transactions(2 * RUNS_PER_SEGMENT, false);
    let short = transactions(RUNS_PER_SEGMENT - 1, false).segments_since(0).remove(0);
    let segments = map.segments_since(0);
    assert_eq!(
        OffsetMap::restore(&position(&map), [], [short.clone(), segments[1].clone()]),
        Err(StateError::SegmentShort { segment: 0, runs: RUNS_PER_SEGMENT as u32 - 1 })
    );
    assert_eq!(
        OffsetMap::restore(&position(&map), [], [segments[0].clone(), (1, segments[0].1.clone())]),
        Err(StateError::SegmentOrder { segment: 1 })
    );
    assert_eq!(
        OffsetMap::restore(&position(&map), [], [segments[0].clone(), (1, short.1)]),
        Err(StateError::SegmentOrder { segment: 1 })
    );
    let one_less = transactions(2 * RUNS_PER_SEGMENT - 1, false).segments_since(0);
    assert_eq!(
        OffsetMap::restore(&position(&map), [], one_less),
        Err(StateError::RunsMissing {
            expected: 2 * RUNS_PER_SEGMENT as u64,
            found: 2 * RUNS_PER_SEGMENT as u64 - 1
        })
    );
    let elsewhere = Position { target_end: map.target_end().plus(1), ..position(&map) };
    assert!(matches!(
        OffsetMap::restore(&elsewhere, [], segments),
        Err(StateError::EndsDiffer { .. })
    ));
}

#[test]
fn every_truncated_or_changed_segment_is_refused_or_means_something_else_that_is_written_the_same()
{
    let (_, good) = transactions(RUNS_PER_SEGMENT - 3, true).segments_since(0).remove(0);
    let read = |bytes: &[u8]| {
        OffsetMap::from_segments(SourceOffset(0), [], [(0, Bytes::copy_from_slice(bytes))])
    };
    for length in 0..good.len() {
        assert!(read(&good[..length]).is_err(), "cut to {length} bytes");
    }
    for index in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.to_vec();
            bytes[index] ^= 1 << bit;
            if let Ok(map) = read(&bytes) {
                assert_eq!(map.segments_since(0), [(0, Bytes::from(bytes))]);
            }
        }
    }
    let mut long = good.to_vec();
    long.push(0);
    let why = Malformed::Trailing(1);
    assert_eq!(read(&long), Err(StateError::Segment { segment: 0, why }));
}

#[test]
fn hostile_numbers_in_a_segment_are_refused() {
    const MAX: [u8; 10] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let read = |parts: &[&[u8]]| match OffsetMap::from_segments(
        SourceOffset(0),
        [],
        [(9, Bytes::from(parts.concat()))],
    ) {
        Err(StateError::Segment { segment: 9, why }) => Some(why),
        other => panic!("{parts:?} gives {other:?}"),
    };
    assert_eq!(read(&[]), Some(Malformed::Truncated));
    assert_eq!(read(&[&[2, 1, 0, 0, 0]]), Some(Malformed::Version(2)));
    assert_eq!(read(&[&[1, 0, 0, 0, 0]]), Some(Malformed::Runs(0)));
    assert_eq!(read(&[&[1], &MAX, &[0, 0, 0]]), Some(Malformed::Runs(u64::MAX)));
    assert_eq!(read(&[&[1, 0x81, 0x04, 0, 0, 0]]), Some(Malformed::Runs(513)));
    assert_eq!(read(&[&[1, 1], &MAX, &[0, 0]]), Some(Malformed::Number));
    assert_eq!(read(&[&[1, 1, 0], &MAX, &[0]]), Some(Malformed::Number));
    assert_eq!(read(&[&[1, 1, 0, 0], &MAX]), Some(Malformed::Number));
    assert_eq!(read(&[&[1, 2, 0, 0, 0, 0, 1]]), Some(Malformed::Number), "a run of no records");
    assert_eq!(read(&[&[1, 2, 0, 0, 0, 3, 1, 0]]), Some(Malformed::Number), "a gap of nothing");
    assert_eq!(read(&[&[1, 2, 1, 0, 0], &MAX, &[1, 1]]), Some(Malformed::Number));
    assert_eq!(read(&[&[1, 2, 0, 0, 0, 2], &MAX]), Some(Malformed::Number));
    assert_eq!(read(&[&[1, 2, 0, 0, 0, 3, 1], &MAX]), Some(Malformed::Number));
    let good = Bytes::from_static(&[1, 1, 0, 0, 0]);
    assert_eq!(
        OffsetMap::from_segments(SourceOffset(0), [], [(u32::MAX, good)]),
        Err(StateError::Segment { segment: u32::MAX, why: Malformed::Number })
    );
}
