//! The nearest place at which two streams go on alike.

use std::collections::HashMap;

use crate::print::Entry;

/// So many equal records in a row are no accident.
const RUN: usize = 3;

/// Of a content that occurs often, this many places are tried.
const PLACES_MAX: usize = 8;

/// Up to this size every pair of places is tried, which is faster than an index.
const SMALL: usize = 16;

/// How many records to leave out on either side, so that both go on alike; the fewest possible, and
/// a run of equal records rather than a single one. `ended`: the slices reach to the ends of both
/// streams.
pub(super) fn resync(
    source: &[Entry],
    target: &[Entry],
    ended: (bool, bool),
) -> Option<(usize, usize)> {
    let find = |run| {
        if source.len() <= SMALL && target.len() <= SMALL {
            small(source, target, run, ended)
        } else {
            indexed(source, target, run, ended)
        }
    };
    find(RUN)
}

/// As [`resync`], content with a single equal record.
pub(super) fn resync_loosely(source: &[Entry], target: &[Entry]) -> Option<(usize, usize)> {
    indexed(source, target, 1, (true, true))
}

fn small(
    source: &[Entry],
    target: &[Entry],
    run: usize,
    ended: (bool, bool),
) -> Option<(usize, usize)> {
    // By the number of records left out, and near the diagonal first: a changed record is more
    // likely than a missing and an extra one.
    for out in 1..source.len() + target.len() {
        let mut places: Vec<usize> = (0..=out).filter(|&i| i < source.len()).collect();
        places.sort_by_key(|&i| (2 * i).abs_diff(out));
        for i in places {
            let j = out - i;
            if j < target.len() && goes_on(&source[i..], &target[j..], run, ended) {
                return Some((i, j));
            }
        }
    }
    None
}

fn indexed(
    source: &[Entry],
    target: &[Entry],
    run: usize,
    ended: (bool, bool),
) -> Option<(usize, usize)> {
    let mut index: HashMap<u128, Vec<u32>> = HashMap::with_capacity(target.len());
    for (j, entry) in (0u32..).zip(target) {
        index.entry(entry.whole).or_default().push(j);
    }
    let mut best: Option<(usize, usize)> = None;
    let cost = |(i, j): (usize, usize)| (i + j, i.abs_diff(j));
    for (i, entry) in source.iter().enumerate() {
        if best.is_some_and(|best| i > cost(best).0) {
            break;
        }
        let Some(places) = index.get(&entry.whole) else { continue };
        let near = places.partition_point(|&j| (j as usize) < i);
        let from = near.saturating_sub(PLACES_MAX / 2);
        let first = places.iter().take(PLACES_MAX / 2);
        for &j in first.chain(places.iter().skip(from).take(PLACES_MAX)) {
            let at = (i, j as usize);
            let nearer = best.is_none_or(|best| cost(at) < cost(best));
            if nearer && goes_on(&source[i..], &target[at.1..], run, ended) {
                best = Some(at);
            }
        }
    }
    best
}

/// Whether both begin with `run` equal records, or with fewer where both streams end.
fn goes_on(source: &[Entry], target: &[Entry], run: usize, ended: (bool, bool)) -> bool {
    let equal = source.iter().zip(target).take(run).take_while(|(s, t)| s.whole == t.whole).count();
    if equal == run {
        return true;
    }
    let (source_over, target_over) = (equal == source.len(), equal == target.len());
    equal > 0 && (source_over && ended.0 || target_over && ended.1)
}
