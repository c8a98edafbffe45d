//! An offset map as a comparison asks it: record after record.

use twinlog_offsets::{OffsetMap, RunStart};
use twinlog_types::{SourceOffset, TargetOffset};

use crate::compare::{Expect, Expected};

/// The runs of an [`OffsetMap`], in plain form: two additions for a record.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    starts: Vec<RunStart>,
    acknowledged: u64,
    start: SourceOffset,
    copied_to: SourceOffset,
    /// What lay before the first run is not known any more.
    pruned: bool,
    /// The run that was asked for last.
    at: usize,
}

impl Runs {
    pub(crate) fn of(map: &OffsetMap) -> Self {
        let acknowledged = map.acknowledged();
        Self {
            starts: map.starts_from(0).filter(|run| run.count < acknowledged).collect(),
            acknowledged,
            start: map.start(),
            copied_to: map.copied_to(),
            pruned: map.is_pruned(),
            at: 0,
        }
    }

    /// The run that `source` lies in or behind.
    fn run(&mut self, source: SourceOffset) -> Option<(RunStart, u64)> {
        let holds = |runs: &[RunStart], at: usize| {
            runs.get(at).is_some_and(|run| run.source <= source)
                && runs.get(at + 1).is_none_or(|next| source < next.source)
        };
        if !holds(&self.starts, self.at) {
            let after = self.starts.partition_point(|run| run.source <= source);
            self.at = after.checked_sub(1)?;
        }
        let end = self.starts.get(self.at + 1).map_or(self.acknowledged, |next| next.count);
        Some((self.starts[self.at], end))
    }
}

impl Expect for Runs {
    fn expect(&mut self, source: SourceOffset) -> Expected {
        let Some((run, end)) = self.run(source) else {
            let known = !self.pruned && source >= self.start && source < self.copied_to;
            return if known { Expected::Nowhere } else { Expected::Unknown };
        };
        let distance = source.since(run.source);
        if run.count + distance < end {
            Expected::At(TargetOffset(run.target.0.saturating_add_unsigned(distance)))
        } else if source < self.copied_to {
            Expected::Nowhere
        } else {
            Expected::Unknown
        }
    }
}

/// A map, or none.
#[derive(Clone, Debug)]
pub(crate) struct MaybeRuns(pub(crate) Option<Runs>);

impl Expect for MaybeRuns {
    fn expect(&mut self, source: SourceOffset) -> Expected {
        self.0.as_mut().map_or(Expected::Unknown, |runs| runs.expect(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_expected_where_it_is_translated_to_and_nowhere_in_a_hole() {
        let mut map = OffsetMap::new(SourceOffset(100));
        map.set_origin(TargetOffset(50));
        let run = |count, source, target| RunStart {
            count,
            source: SourceOffset(source),
            target: TargetOffset(target),
        };
        map.plan(run(0, 100, 50));
        map.plan(run(10, 200, 60));
        // Planned, and not there yet.
        map.plan(run(30, 300, 90));
        map.acknowledge(30, SourceOffset(250));
        let mut runs = Runs::of(&map);
        let at = |offset| Expected::At(TargetOffset(offset));
        for (source, expected) in [
            (99, Expected::Unknown),
            (100, at(50)),
            (109, at(59)),
            (110, Expected::Nowhere),
            (199, Expected::Nowhere),
            (219, at(79)),
            (220, Expected::Nowhere),
            (250, Expected::Unknown),
            (300, Expected::Unknown),
            // Backward too.
            (105, at(55)),
        ] {
            assert_eq!(runs.expect(SourceOffset(source)), expected, "{source}");
        }
    }
}
