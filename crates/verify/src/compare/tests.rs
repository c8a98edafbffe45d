//! Streams of made-up records: each is a key, a value, headers and a timestamp of one letter or
//! number each.

use proptest::prelude::*;

use super::*;
use crate::print::Marks;

const PLAIN: Rules = Rules {
    source_compacts: false,
    target_compacts: false,
    source_begins_late: false,
    target_begins_late: false,
    copied_to: Some(SourceOffset(i64::MAX)),
    target_goes_on: false,
    to_the_end: true,
};

const COMPACTED: Rules = Rules { source_compacts: true, target_compacts: true, ..PLAIN };

fn record(offset: i64, (key, value, headers, timestamp): (u64, u64, u64, i64)) -> Entry {
    let parts = [key, value, headers, timestamp as u64];
    let whole = parts.iter().fold(0u128, |all, part| (all << 32) | u128::from(*part));
    let marks = Marks { keyless: key == 0, tombstone: value == 0, aborted: false };
    Entry { offset, timestamp, bytes: 10, marks, key, value, headers, whole }
}

/// The n-th of a stream in which no two records are alike.
fn nth(n: i64) -> Entry {
    record(n, (n as u64 % 7 + 1, n as u64 + 1, 0, n))
}

fn stream(range: std::ops::Range<i64>) -> Vec<Entry> {
    range.map(nth).collect()
}

/// As it would be after somebody wrote exactly these records.
fn renumbered(mut entries: Vec<Entry>, from: i64) -> Vec<Entry> {
    for (offset, entry) in (from..).zip(&mut entries) {
        entry.offset = offset;
    }
    entries
}

/// A map that adds a number, up to an end.
#[derive(Clone, Copy)]
struct Plus(i64);

impl Expect for Plus {
    fn expect(&mut self, source: SourceOffset) -> Expected {
        Expected::At(TargetOffset(source.0 + self.0))
    }
}

/// Compares with `chunk` records pushed at a time, and only what is wanted.
fn run<M: Expect>(rules: Rules, map: M, sides: (&[Entry], &[Entry]), chunk: usize) -> Outcome {
    let mut comparison = Comparison::new(rules, map);
    let (mut source, mut target) = (sides.0.chunks(chunk), sides.1.chunks(chunk));
    loop {
        comparison.advance();
        match comparison.wants() {
            Wants::Source => match source.next() {
                Some(some) => comparison.push_source(some.iter().copied()),
                None => comparison.end_source(),
            },
            Wants::Target => match target.next() {
                Some(some) => comparison.push_target(some.iter().copied()),
                None => comparison.end_target(),
            },
            Wants::Nothing => return comparison.finish(),
        }
    }
}

fn compare(source: &[Entry], target: &[Entry]) -> Outcome {
    let outcome = run(PLAIN, NoMap, (source, target), 1000);
    assert_eq!(run(PLAIN, NoMap, (source, target), 1), outcome, "one at a time");
    outcome
}

/// different, missing, extra, doubled, out of order
fn wrong(outcome: &Outcome) -> [u64; 5] {
    let tally = &outcome.tally;
    [tally.different, tally.missing, tally.extra, tally.doubled, tally.out_of_order]
}

fn only(outcome: &Outcome) -> (Kind, Option<i64>, Option<i64>) {
    assert_eq!(outcome.findings.len(), 1, "{:?}", outcome.findings);
    let found = outcome.findings[0];
    (found.kind, found.source.map(|at| at.0), found.target.map(|at| at.0))
}

#[test]
fn equal_streams_are_equal_whatever_their_offsets() {
    let source = stream(0..5_000);
    let outcome = compare(&source, &renumbered(source.clone(), 300));
    assert_eq!((outcome.tally.equal, wrong(&outcome)), (5_000, [0; 5]));
    assert_eq!(outcome.source_hash, outcome.target_hash);
    let first = Some((SourceOffset(0), TargetOffset(300)));
    let last = Some((SourceOffset(4_999), TargetOffset(5_299)));
    assert_eq!((outcome.first, outcome.last), (first, last));
}

#[test]
fn one_record_missing_in_the_middle_is_named() {
    let source = stream(0..1_000);
    let mut target = source.clone();
    target.remove(500);
    // The log closed up behind it.
    let closed = renumbered(target.clone(), 0);
    let outcome = compare(&source, &closed);
    assert_eq!((outcome.tally.equal, wrong(&outcome)), (999, [0, 1, 0, 0, 0]));
    assert_eq!(only(&outcome), (Kind::Missing, Some(500), None));
    assert_ne!(outcome.source_hash, outcome.target_hash);
    // A map that does not know of it is wrong from there on.
    let outcome = run(PLAIN, Plus(0), (&source, &closed), 64);
    assert_eq!((only(&outcome), outcome.tally.displaced), ((Kind::Missing, Some(500), None), 499));
    // Its place is empty.
    let outcome = run(PLAIN, Plus(0), (&source, &target), 64);
    assert_eq!((only(&outcome), outcome.tally.displaced), ((Kind::Missing, Some(500), None), 0));
}

#[test]
fn one_record_doubled_is_named_far_behind_too() {
    let source = stream(0..1_000);
    for at in [501, 900] {
        let mut target = source.clone();
        target.insert(at, source[500]);
        let outcome = compare(&source, &renumbered(target, 0));
        assert_eq!((outcome.tally.equal, wrong(&outcome)), (1_000, [0, 0, 1, 1, 0]));
        assert_eq!(only(&outcome), (Kind::Doubled, None, Some(at as i64)));
    }
}

#[test]
fn a_stretch_that_was_copied_twice_is_doubled_record_by_record() {
    let source = stream(0..20_000);
    let mut target = source[..15_000].to_vec();
    target.extend_from_slice(&source[7_000..]);
    let outcome = compare(&source, &renumbered(target, 0));
    assert_eq!((outcome.tally.equal, wrong(&outcome)), (20_000, [0, 0, 8_000, 8_000, 0]));
    assert_eq!(outcome.findings.len(), FINDINGS_MAX);
}

#[test]
fn two_swapped_records_are_out_of_order_and_nothing_is_missing() {
    let source = stream(0..1_000);
    for (one, other) in [(500, 501), (500, 503), (500, 700), (0, 999)] {
        let mut target = source.clone();
        target.swap(one, other);
        let outcome = compare(&source, &renumbered(target, 0));
        let [different, missing, extra, _, out_of_order] = wrong(&outcome);
        let lost = [different, missing, extra];
        if other == one + 1 {
            assert_eq!((lost, out_of_order), ([0; 3], 1), "{:?}", outcome.findings);
        } else {
            // Far apart: two places with other contents, or two that moved.
            assert!(
                missing + extra == 0 && different + out_of_order >= 2,
                "{:?}",
                outcome.findings
            );
        }
    }
}

#[test]
fn one_changed_part_is_named() {
    let source = stream(0..1_000);
    let original = (500 % 7 + 1, 501, 0, 500);
    let words = |changed| {
        let mut target = source.clone();
        target[500] = record(500, changed);
        let outcome = compare(&source, &target);
        assert_eq!((outcome.tally.equal, wrong(&outcome)), (999, [1, 0, 0, 0, 0]));
        match only(&outcome) {
            (Kind::Different(parts), Some(500), Some(500)) => parts.words().join(","),
            other => panic!("{other:?}"),
        }
    };
    let (key, value, headers, timestamp) = original;
    assert_eq!(words((key, value, 9, timestamp)), "headers");
    assert_eq!(words((key, value, headers, timestamp + 1)), "timestamp");
    assert_eq!(words((key, 9_999, headers, timestamp)), "value");
    assert_eq!(words((9, value, headers, timestamp)), "key");
    assert_eq!(words((key, value, 3, timestamp - 9)), "headers,timestamp");
}

#[test]
fn a_target_with_timestamps_of_its_own_differs_in_nothing_else() {
    let source = stream(0..3_000);
    let own =
        source.iter().map(|e| record(e.offset, (e.key, e.value, e.headers, 10_000 + e.offset)));
    let outcome = compare(&source, &own.collect::<Vec<_>>());
    assert_eq!(wrong(&outcome), [3_000, 0, 0, 0, 0]);
    let timestamp = Kind::Different(Parts { timestamp: true, ..Parts::default() });
    assert!(outcome.findings.iter().all(|finding| finding.kind == timestamp));
}

#[test]
fn records_that_are_all_alike_are_counted() {
    let alike = |n: i64| (0..n).map(|at| record(at, (1, 1, 0, 1))).collect::<Vec<_>>();
    assert_eq!(wrong(&compare(&alike(500), &alike(500))), [0; 5]);
    assert_eq!(wrong(&compare(&alike(500), &alike(498))), [0, 2, 0, 0, 0]);
    assert_eq!(wrong(&compare(&alike(500), &alike(503))), [0, 0, 3, 3, 0]);
    // Its place tells which of them is missing.
    let (source, mut target) = (alike(500), alike(500));
    target.remove(77);
    let outcome = run(PLAIN, Plus(0), (&source, &target), 64);
    assert_eq!((only(&outcome), outcome.tally.displaced), ((Kind::Missing, Some(77), None), 0));
}

#[test]
fn a_large_part_that_is_missing_is_bridged() {
    let source = stream(0..200_000);
    let mut target = source.clone();
    target.drain(50_000..130_000);
    let outcome = run(PLAIN, NoMap, (&source, &renumbered(target, 0)), 5_000);
    assert_eq!((outcome.tally.equal, wrong(&outcome)), (120_000, [0, 80_000, 0, 0, 0]));
}

#[test]
fn contents_that_have_nothing_in_common_are_never_equal() {
    let (source, target) = (stream(0..4_000), renumbered(stream(10_000..13_000), 0));
    let tally = compare(&source, &target).tally;
    assert_eq!(tally.equal, 0);
    assert_eq!(tally.different + tally.missing, 4_000);
    assert_eq!(tally.different + tally.extra, 3_000);
}

#[test]
fn trailing_records_wait_where_the_copy_is_not_there_yet() {
    let source = stream(0..100);
    let target = source[..90].to_vec();
    let waits = |copied_to| {
        let rules = Rules { copied_to, ..PLAIN };
        let outcome = run(rules, NoMap, (&source, &target), 7);
        let tally = outcome.tally;
        (tally.waiting, tally.missing, tally.waiting_bytes, outcome.waits_since_ms)
    };
    assert_eq!(waits(None), (10, 0, 100, Some(90)));
    assert_eq!(waits(Some(SourceOffset(90))), (10, 0, 100, Some(90)));
    assert_eq!(waits(Some(SourceOffset(95))), (5, 5, 50, Some(95)));
    // The last one that is there is another one: the rest still waits.
    let mut changed = target.clone();
    changed[89] = record(89, (9, 9, 9, 9));
    let rules = Rules { copied_to: None, ..PLAIN };
    let tally = run(rules, NoMap, (&source, &changed), 7).tally;
    assert_eq!((tally.different, tally.missing, tally.waiting), (1, 0, 10));
}

#[test]
fn what_one_log_has_in_front_of_the_other_is_left_out() {
    let all = stream(0..1_000);
    let late = Rules { source_begins_late: true, ..PLAIN };
    let outcome = run(late, NoMap, (&all[300..], &all), 50);
    assert_eq!((outcome.tally.before, outcome.tally.equal, wrong(&outcome)), (300, 700, [0; 5]));
    let late = Rules { target_begins_late: true, ..PLAIN };
    let outcome = run(late, NoMap, (&all, &all[300..]), 50);
    assert_eq!((outcome.tally.before, outcome.tally.equal, wrong(&outcome)), (300, 700, [0; 5]));
    // Without such a reason it is missing.
    let outcome = run(PLAIN, NoMap, (&all, &all[300..]), 50);
    assert_eq!((outcome.tally.before, outcome.tally.missing), (0, 300));
}

#[test]
fn what_compaction_removed_is_told_from_what_is_missing() {
    // Keys 1 to 7 in turn; the last of each is at 93..100.
    let source: Vec<Entry> = stream(0..100);
    let mut cleaned = source.clone();
    cleaned.retain(|entry| entry.offset >= 60 || entry.offset % 3 == 0);
    for map in [true, false] {
        let sides = (source.as_slice(), cleaned.as_slice());
        let go = |rules| {
            if map { run(rules, Plus(0), sides, 9) } else { run(rules, NoMap, sides, 9) }
        };
        let outcome = go(COMPACTED);
        assert_eq!((outcome.tally.compacted, wrong(&outcome)), (40, [0; 5]));
        assert_eq!(go(PLAIN).tally.missing, 40);
    }
    // The same on the source.
    let outcome = run(COMPACTED, Plus(0), (&cleaned, &source), 9);
    assert_eq!((outcome.tally.compacted, wrong(&outcome)), (40, [0; 5]));
    // Of the last record of a key nothing says that compaction may have removed it.
    let mut lost = cleaned.clone();
    lost.retain(|entry| entry.offset != 97);
    let outcome = run(COMPACTED, Plus(0), (&source, &lost), 9);
    assert_eq!(only(&outcome), (Kind::Missing, Some(97), None));
    assert_eq!(outcome.tally.compacted, 40);
    // Unless it is a tombstone: that goes by itself, and took the others along.
    let mut deleted = source.clone();
    deleted[97] = record(97, (97 % 7 + 1, 0, 0, 97));
    lost.retain(|entry| entry.key != 97 % 7 + 1);
    let outcome = run(COMPACTED, Plus(0), (&deleted, &lost), 9);
    assert_eq!(wrong(&outcome), [0; 5], "{:?}", outcome.findings);
    // Only what the target has explains what the target removed.
    let rules = Rules { copied_to: Some(SourceOffset(93)), ..COMPACTED };
    let copied: Vec<Entry> =
        source.iter().copied().filter(|e| e.offset < 93 && e.offset != 90).collect();
    let outcome = run(rules, Plus(0), (&source, &copied), 9);
    assert_eq!(only(&outcome), (Kind::Missing, Some(90), None));
}

#[test]
fn aborted_records_are_no_data_and_those_that_were_copied_are_counted() {
    let mut source = stream(0..100);
    for entry in &mut source[40..50] {
        entry.marks.aborted = true;
    }
    let without: Vec<Entry> = source.iter().copied().filter(|entry| !entry.marks.aborted).collect();
    let outcome = compare(&source, &renumbered(without, 0));
    assert_eq!((outcome.tally.aborted, outcome.tally.equal, wrong(&outcome)), (10, 90, [0; 5]));
    let outcome = compare(&source, &source);
    assert_eq!((outcome.tally.aborted_on_target, outcome.tally.equal), (10, 100));
}

#[test]
fn a_run_that_ended_goes_on_where_it_was() {
    let source = stream(0..1_000);
    let mut target = source.clone();
    target.remove(300);
    target.remove(600);
    let target = renumbered(target, 0);
    let whole = compare(&source, &target);
    let mut first = Comparison::new(PLAIN, NoMap);
    first.push_source(source[..500].iter().copied());
    first.push_target(target[..450].iter().copied());
    first.advance();
    let (outcome, (source_next, target_next)) = first.settled().expect("settled");
    assert_eq!((source_next, target_next), (451, 450));
    let mut second = Comparison::new(PLAIN, NoMap);
    second.resume(outcome.clone());
    second.push_source(source[source_next as usize..].iter().copied());
    second.push_target(target[target_next as usize..].iter().copied());
    second.end_source();
    second.end_target();
    assert_eq!(second.finish(), whole);
}

fn small_stream() -> impl Strategy<Value = Vec<Entry>> {
    let one = (1u64..4, 1u64..4, 0u64..2, 0i64..3);
    proptest::collection::vec(one, 0..60)
        .prop_map(|all| (0..).zip(all).map(|(at, one)| record(at, one)).collect())
}

/// What is done to a stream: at a place, remove, repeat, swap with the next, or change.
fn damaged() -> impl Strategy<Value = (Vec<Entry>, Vec<Entry>)> {
    let damage = proptest::collection::vec((0u8..4, any::<prop::sample::Index>()), 0..6);
    (small_stream(), damage).prop_map(|(source, damage)| {
        let mut target = source.clone();
        for (what, at) in damage {
            if target.is_empty() {
                break;
            }
            let at = at.index(target.len());
            match what {
                0 => drop(target.remove(at)),
                1 => target.insert(at, target[at]),
                2 if at + 1 < target.len() => target.swap(at, at + 1),
                _ => target[at] = record(0, (9, 9, 9, 9)),
            }
        }
        let target = renumbered(target, 0);
        (source, target)
    })
}

proptest! {
    #[test]
    fn every_record_is_counted_once_however_it_is_read((source, target) in damaged(), chunk in 1usize..9) {
        let outcome = run(PLAIN, NoMap, (&source, &target), chunk);
        let tally = outcome.tally;
        prop_assert_eq!(tally.equal + tally.different + tally.missing + tally.out_of_order, source.len() as u64);
        prop_assert_eq!(tally.equal + tally.different + tally.extra + tally.out_of_order, target.len() as u64);
        let same = source.iter().map(|e| e.whole).eq(target.iter().map(|e| e.whole));
        prop_assert_eq!(same, tally.is_faithful());
        prop_assert_eq!(same, outcome.source_hash == outcome.target_hash);
        prop_assert_eq!(run(PLAIN, NoMap, (&source, &target), 1_000), outcome);
    }

    #[test]
    fn with_a_map_too((source, target) in damaged(), chunk in 1usize..9) {
        let outcome = run(PLAIN, Plus(0), (&source, &target), chunk);
        let tally = outcome.tally;
        prop_assert_eq!(tally.equal + tally.different + tally.missing + tally.out_of_order, source.len() as u64);
        prop_assert_eq!(tally.equal + tally.different + tally.extra + tally.out_of_order, target.len() as u64);
        let same = source.iter().map(|e| e.whole).eq(target.iter().map(|e| e.whole));
        prop_assert_eq!(same, tally.is_faithful());
    }
}

#[test]
fn a_position_is_found_by_what_lies_around_it() {
    let source = stream(0..100);
    let target = renumbered(stream(0..100), 1_000);
    let around = |at: usize| Around { before: &source[at - 8..at], after: &source[at..at + 8] };
    let part = Part { entries: &target, from_start: true, to_end: true };
    let found = locate(around(50), part, 1_050).expect("found");
    assert_eq!(found, Located { index: 50, before: 8, after: 8 });
    assert_eq!(stands(&target, found.index, 1_050), Stands::Right);
    assert_eq!(stands(&target, found.index, 1_051), Stands::TooFar(1));
    assert_eq!(stands(&target, found.index, 1_049), Stands::TooNear(1));
    // At the ends.
    let at_end = Around { before: &source[92..], after: &[] };
    assert_eq!(locate(at_end, part, 0).map(|found| found.index), Some(100));
    let at_start = Around { before: &[], after: &source[..8] };
    assert_eq!(locate(at_start, part, 0).map(|found| found.index), Some(0));
    // The copy ends where the group stands, the source goes on.
    let copied = Part { entries: &target[..50], from_start: true, to_end: true };
    assert_eq!(locate(around(50), copied, 0).map(|found| found.index), Some(50));
    // Other records prove nothing.
    let other = renumbered(stream(500..600), 1_000);
    assert_eq!(locate(around(50), Part { entries: &other, ..part }, 1_050), None);
}

#[test]
fn of_several_places_that_look_the_same_the_expected_one_counts() {
    let alike: Vec<Entry> = (0..50).map(|at| record(at, (1, 1, 0, 1))).collect();
    let around = Around { before: &alike[..8], after: &alike[..8] };
    let part = Part { entries: &alike, from_start: true, to_end: true };
    assert_eq!(locate(around, part, 27).map(|found| found.index), Some(27));
}
