use twinlog_types::Translation;

use super::*;

/// A log: offsets and the contents at them.
type Log = Vec<(i64, u64)>;

fn print(content: u64) -> Print {
    Print(content, content)
}

/// Lays two logs side by side, fed in pieces of `piece` records, up to where both are known to be
/// the same.
fn meet(source: &Log, target: &Log, to: i64, piece: usize) -> (Vec<Stretch>, Aligned) {
    let mut aligner = Aligner::new(SourceOffset(source.first().map_or(0, |first| first.0)));
    let mut stretches = feed(&mut aligner, source, target, piece);
    let (rest, aligned) = aligner.meet_at(SourceOffset(to));
    stretches.extend(rest);
    (stretches, aligned)
}

fn feed(aligner: &mut Aligner, source: &Log, target: &Log, piece: usize) -> Vec<Stretch> {
    let (mut sources, mut targets) = (source.chunks(piece), target.chunks(piece));
    let mut stretches = Vec::new();
    loop {
        match aligner.advance() {
            Need::Source => match sources.next() {
                Some(records) => {
                    for &(at, what) in records {
                        aligner.source(SourceOffset(at), print(what));
                    }
                }
                None => aligner.source_ended(),
            },
            Need::Target => match targets.next() {
                Some(records) => {
                    for &(at, what) in records {
                        aligner.target(TargetOffset(at), print(what));
                    }
                }
                None => aligner.target_ended(),
            },
            Need::Nothing => return stretches,
        }
        stretches.extend(aligner.take_stretches());
    }
}

fn log(from: i64, contents: impl IntoIterator<Item = u64>) -> Log {
    (from..).zip(contents).collect()
}

/// What the stretches say of every position.
fn map(stretches: &[Stretch], start: i64, origin: i64) -> twinlog_offsets::OffsetMap {
    let mut map = twinlog_offsets::OffsetMap::new(SourceOffset(start));
    map.set_origin(TargetOffset(origin));
    let mut inherited = twinlog_offsets::Inherited::new();
    for stretch in stretches {
        inherited.insert(stretch.clone()).expect("stretches fit");
    }
    map.set_before(inherited);
    map
}

#[test]
fn logs_with_the_same_contents_match_record_by_record_whatever_the_pieces() {
    let source = log(13, 0..10_000);
    let target = log(5, 0..10_000);
    for piece in [1, 7, 3_000, 20_000] {
        let (stretches, aligned) = meet(&source, &target, 10_013, piece);
        assert_eq!((aligned.matched, aligned.source_only, aligned.target_only), (10_000, 0, 0));
        let map = map(&stretches, 10_013, 10_005);
        for at in [13, 14, 5_000, 10_012] {
            assert_eq!(map.translate(SourceOffset(at)), Translation::Exact(TargetOffset(at - 8)));
        }
        assert_eq!(stretches.len(), 1);
    }
}

#[test]
fn markers_are_holes_on_one_side_and_gaps_on_the_other() {
    // The source has a marker behind each ten records, the target one behind each thousand.
    let source: Log = (0..5_000).map(|n| (n + n / 10, n as u64)).collect();
    let target: Log = (0..5_000).map(|n| (n + n / 1_000, n as u64)).collect();
    let (stretches, aligned) = meet(&source, &target, 5_500, 512);
    assert_eq!((aligned.matched, aligned.source_only, aligned.target_only), (5_000, 0, 0));
    let map = map(&stretches, 5_500, 5_005);
    for (n, &(at, _)) in source.iter().enumerate() {
        assert_eq!(
            map.translate(SourceOffset(at)),
            Translation::Exact(TargetOffset(target[n].0)),
            "record {n}"
        );
    }
    // A marker means the record behind it.
    assert_eq!(map.translate(SourceOffset(10)), Translation::Exact(TargetOffset(10)));
}

#[test]
fn what_compaction_took_on_one_side_is_a_hole() {
    let source: Log = log(0, 0..3_000).into_iter().filter(|(at, _)| at % 3 != 1).collect();
    let target = log(0, 0..3_000);
    let (stretches, aligned) = meet(&source, &target, 3_000, 100);
    assert_eq!((aligned.matched, aligned.source_only, aligned.target_only), (2_000, 0, 1_000));
    let taken = map(&stretches, 3_000, 3_000);
    assert_eq!(taken.translate(SourceOffset(1)), Translation::Exact(TargetOffset(2)));
    assert_eq!(taken.translate(SourceOffset(2_999)), Translation::Exact(TargetOffset(2_999)));
    // And the other way round.
    let (stretches, aligned) = meet(&target, &source, 3_000, 100);
    assert_eq!((aligned.matched, aligned.source_only, aligned.target_only), (2_000, 1_000, 0));
    let taken = map(&stretches, 3_000, 3_000);
    assert_eq!(taken.translate(SourceOffset(1)), Translation::Exact(TargetOffset(2)));
}

#[test]
fn equal_counts_prove_nothing() {
    let source = log(0, 0..4_000);
    let mut target = source.clone();
    for record in &mut target[1_000..3_500] {
        record.1 += 1_000_000;
    }
    let (stretches, aligned) = meet(&source, &target, 4_000, 100);
    assert_eq!(aligned.parted, Some((SourceOffset(1_000), TargetOffset(1_000))));
    assert_eq!(aligned.matched, 1_000);
    let map = map(&stretches, 4_000, 4_000);
    assert_eq!(map.translate(SourceOffset(999)), Translation::Exact(TargetOffset(999)));
    for at in [1_000, 2_000, 3_999] {
        assert_eq!(map.translate(SourceOffset(at)), Translation::LowerBound(TargetOffset(1_000)));
    }
}

#[test]
fn a_short_stretch_that_differs_is_left_out_and_what_follows_is_found_again() {
    let source = log(0, 0..4_000);
    let mut target = source.clone();
    target[1_000].1 = 1_000_000;
    target[1_001].1 = 1_000_001;
    let (stretches, aligned) = meet(&source, &target, 4_000, 333);
    assert_eq!((aligned.matched, aligned.source_only, aligned.target_only), (3_998, 2, 2));
    let map = map(&stretches, 4_000, 4_000);
    assert_eq!(map.translate(SourceOffset(999)), Translation::Exact(TargetOffset(999)));
    assert_eq!(map.translate(SourceOffset(1_001)), Translation::LowerBound(TargetOffset(1_000)));
    assert_eq!(map.translate(SourceOffset(1_002)), Translation::Exact(TargetOffset(1_002)));
}

#[test]
fn of_equal_records_none_is_claimed_when_one_is_missing() {
    // Five equal records, of which the target has four: no one can say which.
    let contents = [1, 2, 7, 7, 7, 7, 7, 3, 4];
    let source = log(0, contents);
    let target = log(0, contents.into_iter().enumerate().filter(|(n, _)| *n != 4).map(|(_, c)| c));
    let (stretches, _) = meet(&source, &target, 9, 100);
    let map = map(&stretches, 9, 8);
    assert_eq!(map.translate(SourceOffset(1)), Translation::Exact(TargetOffset(1)));
    for at in 2..7 {
        assert_eq!(map.translate(SourceOffset(at)), Translation::LowerBound(TargetOffset(2)));
    }
    assert_eq!(map.translate(SourceOffset(7)), Translation::Exact(TargetOffset(6)));
}

#[test]
fn the_end_of_the_target_is_found_where_its_copy_ends() {
    let source = log(0, 0..5_000);
    let target = log(40, 1_000..3_210);
    let mut aligner = Aligner::new(SourceOffset(1_000));
    let from: Log = source[1_000..].to_vec();
    feed(&mut aligner, &from, &target, 64);
    assert!(aligner.target_is_matched());
    let (stretches, aligned) = aligner.target_behind();
    assert_eq!(aligned.last, Some((SourceOffset(3_209), TargetOffset(2_249))));
    assert_eq!((aligned.target_left, aligned.matched), (0, 2_210));
    assert_eq!(stretches.last().map(Stretch::to), Some(SourceOffset(3_210)));
}

#[test]
fn a_tail_that_the_source_does_not_have_is_told() {
    let source = log(0, 0..500);
    let target = log(0, (0..300).chain([9_001, 9_002]));
    let mut aligner = Aligner::new(SourceOffset(0));
    feed(&mut aligner, &source, &target, 64);
    assert!(!aligner.target_is_matched());
    let (_, aligned) = aligner.target_behind();
    assert_eq!(aligned.target_left, 2);
}

fn search(row: &[u64], side: &[u64]) -> RowFound {
    let row = row.iter().map(|&content| print(content)).collect();
    let mut search = RowSearch::new(row).expect("there are records");
    for (at, &content) in side.iter().enumerate() {
        search.record(at as i64, print(content));
    }
    search.found()
}

#[test]
fn a_row_is_found_once_nowhere_or_more_than_once() {
    assert_eq!(search(&[3, 4], &[1, 2, 3, 4, 5]), RowFound::Once { first: 2, last: 3 });
    assert_eq!(search(&[3, 5], &[1, 2, 3, 4, 5]), RowFound::Nowhere);
    // Overlapping: the second begins inside of the first.
    assert_eq!(search(&[7, 7], &[7, 7, 7]), RowFound::Twice);
    assert_eq!(search(&[1, 2, 1, 3], &[1, 2, 1, 2, 1, 3]), RowFound::Once { first: 2, last: 5 });
    assert!(RowSearch::new(Vec::new()).is_none());
}
