//! Where a position of the source is on the target, by contents alone.

use crate::print::Entry;

/// A position that contents prove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Located {
    /// How many records of the target that were looked at lie before it.
    pub index: usize,
    /// How many records in a row are equal before it.
    pub before: usize,
    /// How many records in a row are equal from it on.
    pub after: usize,
}

/// What stands around a position on the source, the nearest records.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// Those before it, in order.
    pub before: &'a [Entry],
    /// Those from it on, in order.
    pub after: &'a [Entry],
}

/// A part of the target's log.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its records, in order.
    pub entries: &'a [Entry],
    /// Nothing lies before them.
    pub from_start: bool,
    /// Nothing lies behind them.
    pub to_end: bool,
}

/// Where in `part` the records around a position are the same as on the source: the place with the
/// most equal records, of several such the one nearest to the offset `guess`. A neighbour is equal,
/// or the log ends there.
pub fn locate(around: Around<'_>, part: Part<'_>, guess: i64) -> Option<Located> {
    let entries = part.entries;
    let places = (0..=entries.len()).filter_map(|index| {
        let (left, right) = entries.split_at(index);
        let before = equal(around.before.iter().rev(), left.iter().rev());
        let after = equal(around.after.iter(), right.iter());
        let before_ends = around.before.is_empty() || (left.is_empty() && part.from_start);
        let after_ends = around.after.is_empty() || (right.is_empty() && part.to_end);
        let fits = (before > 0 || before_ends) && (after > 0 || after_ends);
        (fits && before + after > 0).then_some(Located { index, before, after })
    });
    let offset_of = |index: usize| {
        let next = entries.get(index).map(|entry| entry.offset);
        next.or(entries.last().map(|last| last.offset + 1)).unwrap_or(guess)
    };
    places.max_by_key(|place| {
        let away = offset_of(place.index).abs_diff(guess);
        (place.before + place.after, std::cmp::Reverse(away))
    })
}

fn equal<'a>(
    one: impl Iterator<Item = &'a Entry>,
    other: impl Iterator<Item = &'a Entry>,
) -> usize {
    one.zip(other).take_while(|(one, other)| one.whole == other.whole).count()
}

/// Where a committed offset stands against the place that contents prove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stands {
    /// The same next record.
    Right,
    /// So many records would be skipped.
    TooFar(u64),
    /// So many records would be read again.
    TooNear(u64),
}

/// Compares the offset `committed` with the place `index` among `entries`.
pub fn stands(entries: &[Entry], index: usize, committed: i64) -> Stands {
    let at = entries.partition_point(|entry| entry.offset < committed);
    match at.cmp(&index) {
        std::cmp::Ordering::Equal => Stands::Right,
        std::cmp::Ordering::Greater => Stands::TooFar((at - index) as u64),
        std::cmp::Ordering::Less => Stands::TooNear((index - at) as u64),
    }
}
