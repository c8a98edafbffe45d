//! Where a position of the source stands on the target, exactly, next to MM2's offset-syncs.
//!
//! Between two syncs of equal distance there is no hole, so that arithmetic answers. Elsewhere the
//! records of the source have to be counted; [`place`] says which.
//!
//! Does not: read them.

use twinlog_types::{SourceOffset, TargetOffset};

use crate::history::SyncHistory;

/// More offsets than these are not counted.
const COUNTED_MAX: u64 = 50_000;

/// Log start and end of a partition on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) source: (SourceOffset, SourceOffset),
    pub(crate) target: (TargetOffset, TargetOffset),
}

/// Where the position stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    At(TargetOffset),
    /// That many records of the source behind a place, or before it.
    Counted(Count),
    /// The syncs or the records that would tell are gone.
    Unknown,
}

/// Records of the source, from one offset up to another, that are to be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) from: SourceOffset,
    pub(crate) to: SourceOffset,
    base: TargetOffset,
    forward: bool,
    bounds: (TargetOffset, TargetOffset),
}

impl Count {
    /// The place, once they are counted.
    pub(crate) fn place(&self, records: u64) -> TargetOffset {
        let (start, end) = self.bounds;
        let place = if self.forward {
            self.base.plus(records)
        } else {
            TargetOffset(self.base.0.saturating_sub_unsigned(records))
        };
        place.max(start).min(end)
    }
}

/// Where a consumer that goes on at `source` goes on on the target: in front of the first record that
/// it has not read. What is not copied yet counts as the end.
pub(crate) fn place(history: &SyncHistory, source: SourceOffset, bounds: &Bounds) -> Place {
    let around = history.around(source);
    let (start, end) = bounds.target;
    let within = |place: TargetOffset| Place::At(place.max(start).min(end));
    let (source_start, source_end) = bounds.source;
    if let Some((below, at)) = around.below {
        let further = source.since(below);
        let is_even = match around.above {
            Some((above, there)) => above.since(below) == there.since(at),
            None => source_end.since(below) == end.since(at),
        };
        if further == 0 || is_even {
            return within(at.plus(further));
        }
        if below >= source_start {
            return counted(below, source.min(source_end), at, true, bounds);
        }
    }
    match around.above {
        Some((above, at)) if source >= source_start || at <= start => {
            counted(source.max(source_start), above, at, false, bounds)
        }
        _ => Place::Unknown,
    }
}

fn counted(
    from: SourceOffset,
    to: SourceOffset,
    base: TargetOffset,
    forward: bool,
    bounds: &Bounds,
) -> Place {
    if to.since(from) > COUNTED_MAX {
        return Place::Unknown;
    }
    Place::Counted(Count { from, to, base, forward, bounds: bounds.target })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(syncs: &[(i64, i64)], asked: i64) -> SyncHistory {
        let pair = |(source, target): (i64, i64)| (SourceOffset(source), TargetOffset(target));
        let asked = [SourceOffset(asked)].into();
        let mut history = SyncHistory::new(pair(syncs[0]), 0, &asked);
        syncs[1..].iter().for_each(|sync| history.take(pair(*sync), 0));
        history
    }

    fn place_of(syncs: &[(i64, i64)], asked: i64, source: (i64, i64), target: (i64, i64)) -> Place {
        let bounds = Bounds {
            source: (SourceOffset(source.0), SourceOffset(source.1)),
            target: (TargetOffset(target.0), TargetOffset(target.1)),
        };
        place(&history(syncs, asked), SourceOffset(asked), &bounds)
    }

    fn at(offset: i64) -> Place {
        Place::At(TargetOffset(offset))
    }

    /// What is to be counted, and the place if that many are there.
    fn count(found: Place, records: u64) -> (i64, i64, i64) {
        let Place::Counted(count) = found else { panic!("{found:?}") };
        (count.from.0, count.to.0, count.place(records).0)
    }

    #[test]
    fn where_no_hole_is_arithmetic_answers() {
        let syncs = [(0, 0), (101, 101), (999, 999)];
        assert_eq!(place_of(&syncs, 50, (0, 1_000), (0, 1_000)), at(50));
        assert_eq!(place_of(&syncs, 101, (0, 1_000), (0, 1_000)), at(101));
        // Behind the newest sync, with as many records on both sides.
        assert_eq!(place_of(&syncs, 1_020, (0, 1_050), (0, 1_050)), at(1_020));
        // Retention on the source takes nothing from it.
        assert_eq!(place_of(&syncs, 50, (500, 1_000), (0, 1_000)), at(50));
        // What the target's retention took is not there.
        assert_eq!(place_of(&syncs, 50, (0, 1_000), (300, 1_000)), at(300));
    }

    #[test]
    fn where_a_hole_may_be_records_are_counted() {
        // Ten records and a marker, ten times.
        let syncs = [(0, 0), (55, 50), (109, 99)];
        let found = place_of(&syncs, 60, (0, 110), (0, 100));
        assert_eq!(count(found, 5), (55, 60, 55));
        // The copy has not come so far: the end.
        let found = place_of(&syncs, 120, (0, 130), (0, 100));
        assert_eq!(count(found, 10), (109, 120, 100));
        // The records behind the sync below are gone; those before the one above are not.
        let found = place_of(&syncs, 60, (58, 110), (0, 100));
        assert_eq!(count(found, 45), (60, 109, 54));
    }

    #[test]
    fn before_the_oldest_sync_it_is_counted_back() {
        // A compacted topic whose first record is at 300.
        let found = place_of(&[(300, 0), (1_000, 700)], 150, (0, 1_001), (0, 701));
        assert_eq!(count(found, 0), (150, 300, 0));
        // The group stands before the source's start, and what it has not read may be on the target.
        let found = place_of(&[(600, 600), (999, 999)], 100, (500, 1_000), (0, 1_000));
        assert_eq!(found, Place::Unknown);
        // A range too long to be counted.
        let found = place_of(&[(0, 0), (90_000, 80_000)], 70_000, (0, 90_001), (0, 80_001));
        assert_eq!(found, Place::Unknown);
    }
}
