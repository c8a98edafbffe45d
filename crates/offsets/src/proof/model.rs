//! A model that holds every record and answers by looking at all of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use twinlog_types::{SourceOffset, TargetOffset, Translation};

use crate::state::Position;
use crate::{Block, Durable, OffsetMap, RunStart, SealedBlock};

/// What is true of one partition.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// Offsets of every record planned, by count.
    pub(super) records: Vec<(i64, i64)>,
    /// How many of them are acknowledged.
    pub(super) acknowledged: usize,
    /// How many of them the map had pruned when a cut took all that it still held.
    pub(super) forgotten: usize,
    pub(super) start: i64,
    pub(super) origin: Option<i64>,
    pub(super) copied_to: i64,
    pub(super) target_start: i64,
}

/// A map, what is true, and what of it is durable.
#[derive(Clone, Debug)]
pub(super) struct Twin {
    pub(super) map: OffsetMap,
    pub(super) model: Model,
    pub(super) durable: Durable,
    pub(super) segments: BTreeMap<u32, Bytes>,
    pub(super) blocks: BTreeMap<u32, Bytes>,
}

impl Twin {
    pub(super) fn new(start: i64, origin: Option<i64>) -> Self {
        let mut map = OffsetMap::new(SourceOffset(start));
        if let Some(origin) = origin {
            map.set_origin(TargetOffset(origin));
        }
        let model = Model {
            records: Vec::new(),
            acknowledged: 0,
            forgotten: 0,
            start,
            origin,
            copied_to: start,
            target_start: 0,
        };
        Self {
            map,
            model,
            durable: Durable::default(),
            segments: BTreeMap::new(),
            blocks: BTreeMap::new(),
        }
    }

    /// A record `hole` offsets behind the last one looked at, expected right behind the last one
    /// on the target. Starts a run only where the flow would.
    pub(super) fn plan(&mut self, hole: i64) {
        let count = self.model.records.len();
        let (source, target) = match self.model.records[self.model.forgotten..].last() {
            Some(&(source, target)) => ((source + 1).max(self.model.copied_to) + hole, target + 1),
            None => (self.model.copied_to + hole, self.model.origin.unwrap_or(7)),
        };
        let run = RunStart {
            count: count as u64,
            source: SourceOffset(source),
            target: TargetOffset(target),
        };
        if self.map.last().is_none()
            || self.map.source_of(run.count) != Some(run.source)
            || self.map.target_of(run.count) != Some(run.target)
        {
            self.map.plan(run);
        }
        self.model.records.push((source, target));
    }

    /// The first `count` records are on the target, and the copy has looked at `more` offsets of
    /// the hole behind them.
    pub(super) fn acknowledge(&mut self, count: usize, more: i64) {
        let model = &mut self.model;
        model.acknowledged = count;
        let done = match count.checked_sub(1).filter(|&last| last >= model.forgotten) {
            Some(last) => model.records[last].0 + 1,
            None => model.copied_to,
        };
        let next = model.records.get(count).map_or(i64::MAX, |next| next.0);
        model.copied_to = model.copied_to.max((done + more).min(next));
        self.map.acknowledge(count as u64, SourceOffset(model.copied_to));
    }

    /// `gap` foreign records land before record `count`.
    pub(super) fn shift(&mut self, count: usize, gap: i64) {
        for record in &mut self.model.records[count..] {
            record.1 += gap;
        }
        let (source, target) = self.model.records[count];
        let run = RunStart {
            count: count as u64,
            source: SourceOffset(source),
            target: TargetOffset(target),
        };
        let unchanged = self.map.shift(run);
        self.durable.taken_back(unchanged);
    }

    /// The target loses the records from `count` on.
    pub(super) fn cut(&mut self, count: usize) {
        let first = self.map.first().map_or(0, |first| first.count as usize);
        let pruned = self.map.is_pruned();
        while let Some(number) = self.map.block_for_cut(count as u64) {
            self.map.reopen(&self.block(number)).unwrap();
        }
        let unchanged = self.map.cut(count as u64);
        self.durable.taken_back(unchanged);
        let model = &mut self.model;
        let count = count.max(first).max(model.forgotten);
        if count < model.acknowledged {
            let lost = model.records[count];
            model.copied_to = lost.0;
            model.acknowledged = count;
            if count == first {
                if pruned {
                    model.forgotten = count;
                    model.start = lost.0;
                    model.origin = Some(lost.1);
                }
                model.origin = model.origin.or(Some(lost.1));
            }
            model.target_start = model.target_start.min(model.target_end());
        }
        model.records.truncate(count);
    }

    pub(super) fn prune(&mut self, target_start: i64) {
        self.model.target_start = self.model.target_start.max(target_start);
        self.map.prune(TargetOffset(target_start));
    }

    /// Writes what changed, as an engine does. How the write ends is the caller's: `arrived` where
    /// it is durable, `answered` where that became known.
    pub(super) fn save(&mut self, arrived: bool, answered: bool) {
        // What was not acknowledged when the log start moved may leave by now.
        self.prune(self.model.target_start);
        let changes = self.durable.changes(&self.map);
        self.durable.writing(&changes);
        if arrived {
            self.segments.extend(changes.segments.iter().cloned());
            let blocks = changes.blocks.iter().map(|block| (block.number(), block.encode()));
            self.blocks.extend(blocks);
            self.segments.retain(|number, _| !changes.removed_segments.contains(number));
            self.blocks.retain(|number, _| !changes.removed_blocks.contains(number));
        }
        if arrived && answered {
            self.durable.stored(&changes, true);
            changes.blocks.iter().for_each(|block| self.map.seal(block));
            let numbers = |kept: &BTreeMap<u32, Bytes>| kept.keys().copied().collect::<Vec<_>>();
            assert_eq!(numbers(&self.segments), self.map.segments().collect::<Vec<_>>());
            assert_eq!(numbers(&self.blocks), self.map.blocks().collect::<Vec<_>>());
        }
    }

    /// Writes what changed, and it arrives.
    pub(super) fn saved(&mut self) {
        self.save(true, true);
    }

    fn block(&self, number: u32) -> Block {
        Block::decode(number, &self.blocks[&number]).unwrap()
    }

    /// The map as a restart finds it after [`saved`](Self::saved).
    pub(super) fn restored(&self) -> OffsetMap {
        let segments = self.segments.iter().map(|(&number, bytes)| (number, bytes.clone()));
        let blocks = self.blocks.keys().map(|&number| SealedBlock::from(&self.block(number)));
        let mut map = if let Some(origin) = self.map.origin() {
            OffsetMap::restore(&self.position(origin), blocks, segments).unwrap()
        } else {
            let mut map = OffsetMap::from_segments(self.map.start(), blocks, segments).unwrap();
            map.acknowledge(self.map.acknowledged(), self.map.copied_to());
            map
        };
        map.prune(TargetOffset(self.model.target_start));
        map
    }

    /// Goes on as a restart would.
    pub(super) fn restart(&mut self) {
        self.map = self.restored();
        let numbers = |kept: &BTreeMap<u32, Bytes>| match (kept.keys().next(), kept.keys().last()) {
            (Some(&first), Some(&last)) => first..last + 1,
            _ => 0..0,
        };
        self.durable = Durable::found(&self.map, numbers(&self.segments), numbers(&self.blocks));
    }

    fn source_of(&self, count: u64) -> Option<SourceOffset> {
        self.lent()
            .find_map(|block| self.map.with(&block).source_of(count))
            .or(self.map.source_of(count))
    }

    fn target_of(&self, count: u64) -> Option<TargetOffset> {
        self.lent()
            .find_map(|block| self.map.with(&block).target_of(count))
            .or(self.map.target_of(count))
    }

    fn lent(&self) -> impl Iterator<Item = Block> {
        self.map.blocks().map(|number| self.block(number))
    }

    fn count_of_source(&self, position: SourceOffset) -> Option<u64> {
        match self.map.block_of_source(position) {
            Some(number) => self.map.with(&self.block(number)).count_of_source(position),
            None => self.map.count_of_source(position),
        }
    }

    fn count_of_target(&self, position: TargetOffset) -> Option<u64> {
        match self.map.block_of_target(position) {
            Some(number) => self.map.with(&self.block(number)).count_of_target(position),
            None => self.map.count_of_target(position),
        }
    }

    /// The answer with the block lent that it needs; without it, it must be a lower bound of that.
    fn translate(&self, position: SourceOffset) -> Translation<TargetOffset> {
        let bare = self.map.translate(position);
        let Some(number) = self.map.block_of_source(position) else { return bare };
        let answer = self.map.with(&self.block(number)).translate(position);
        match (bare, answer) {
            (
                Translation::BeforeStart { offset: at_least, missing: at_most },
                Translation::BeforeStart { offset, missing },
            ) => assert!(at_least == offset && at_most >= missing, "translate({position})"),
            (Translation::LowerBound(bare), _) => {
                assert!(
                    Some(bare) <= answer.offset(),
                    "translate({position}): {bare:?} {answer:?}"
                );
            }
            _ => panic!("translate({position}): {bare:?} without the block, {answer:?} with it"),
        }
        answer
    }

    fn reverse(&self, position: TargetOffset) -> Translation<SourceOffset> {
        let bare = self.map.reverse(position);
        let Some(number) = self.map.block_of_target(position) else { return bare };
        let answer = self.map.with(&self.block(number)).reverse(position);
        assert!(matches!(bare, Translation::LowerBound(_)), "reverse({position}): {bare:?}");
        assert!(bare.offset() <= answer.offset(), "reverse({position}): {bare:?} {answer:?}");
        answer
    }

    fn position(&self, origin: TargetOffset) -> Position {
        Position {
            source_topic: "orders".into(),
            target_topic: "hello.orders".into(),
            producer_id: 4000,
            producer_epoch: 0,
            start: self.map.start(),
            origin,
            count: self.map.acknowledged(),
            copied_to: self.map.copied_to(),
            target_end: self.map.target_end(),
            runs: self.map.runs() as u32,
            source_epoch: 3,
            target_epochs: Vec::new(),
            written_ms: 0,
        }
    }

    /// Compares every answer for the source position `position`.
    pub(super) fn check_translate(&self, position: i64) -> Translation<TargetOffset> {
        let (map, model) = (&self.map, &self.model);
        let answer = self.translate(SourceOffset(position));
        let next = model.first_acknowledged(|&(source, _)| source >= position);
        let never_copied = (model.start - position).max(0) as u64;
        let truth = match next {
            Some(next) => {
                let target = model.records[next].1;
                let offset = TargetOffset(target.max(model.target_start));
                let deleted = model.records[next..model.acknowledged]
                    .iter()
                    .filter(|record| record.1 < model.target_start)
                    .count() as u64;
                match never_copied + deleted {
                    0 => Translation::Exact(offset),
                    missing => Translation::BeforeStart { offset, missing },
                }
            }
            None if !model.knows_end() => Translation::Unknown,
            None => {
                let offset = TargetOffset(model.target_end().max(model.target_start));
                if never_copied > 0 {
                    Translation::BeforeStart { offset, missing: never_copied }
                } else if position <= model.copied_to {
                    Translation::End(offset)
                } else {
                    Translation::LowerBound(offset)
                }
            }
        };
        let first = map.first().filter(|_| map.is_pruned());
        match (answer, truth) {
            // Below pruned segments the number of missing records is a bound.
            (
                Translation::BeforeStart { offset: found, missing },
                Translation::BeforeStart { offset, missing: records },
            ) if first.is_some_and(|first| position < first.source.0) => {
                let first = first.unwrap();
                let kept = model.records[first.count as usize..model.acknowledged]
                    .iter()
                    .filter(|record| record.1 < model.target_start)
                    .count() as u64;
                assert_eq!(found, offset, "translate({position})");
                assert!(missing >= records, "translate({position}): {missing} < {records}");
                assert!(missing <= first.source.since(SourceOffset(position)) + kept);
                assert!(missing <= first.count + never_copied + kept);
            }
            _ => assert_eq!(answer, truth, "translate({position})"),
        }
        answer
    }

    /// Compares every answer for the target position `position`.
    pub(super) fn check_reverse(&self, position: i64) -> Translation<SourceOffset> {
        let (map, model) = (&self.map, &self.model);
        let answer = self.reverse(TargetOffset(position));
        let next = model.first_acknowledged(|&(_, target)| target >= position);
        let pruned = map.first().filter(|_| map.is_pruned());
        let first = model.first_acknowledged(|_| true).map(|first| model.records[first].1);
        let (start, next) = if let Some(kept) = pruned {
            (kept.target.0, next.map(|next| next.max(kept.count as usize)))
        } else {
            let origin = model.origin.unwrap_or(i64::MAX);
            (first.map_or(origin, |first| first.min(origin)), next)
        };
        let truth = if next.is_none() && !model.knows_end() {
            Translation::Unknown
        } else {
            let offset = next.map_or(model.copied_to, |next| model.records[next].0);
            let offset = SourceOffset(offset);
            if position < start {
                Translation::BeforeStart { offset, missing: (start - position) as u64 }
            } else if next.is_some() {
                Translation::Exact(offset)
            } else if position <= model.target_end().max(model.target_start) {
                Translation::End(offset)
            } else {
                Translation::LowerBound(offset)
            }
        };
        assert_eq!(answer, truth, "reverse({position})");
        answer
    }

    /// Compares counts, ends, and the answers at every position near the records.
    pub(super) fn check_all(&self) {
        let (map, model) = (&self.map, &self.model);
        assert_eq!(map.acknowledged(), model.acknowledged as u64);
        assert_eq!(map.copied_to(), SourceOffset(model.copied_to));
        if model.knows_end() {
            assert_eq!(map.target_end(), TargetOffset(model.target_end()));
        }
        let kept = map.first().map_or(usize::MAX, |first| first.count as usize);
        for (count, record) in model.records.iter().enumerate() {
            let expected = (count >= kept).then_some(*record);
            let (source, target) = (self.source_of(count as u64), self.target_of(count as u64));
            assert_eq!(source.map(|source| source.0), expected.map(|record| record.0));
            assert_eq!(target.map(|target| target.0), expected.map(|record| record.1));
        }

        let &(last_source, last_target) = model.records.last().unwrap_or(&(0, 0));
        let mut before = None;
        for position in model.start - 3..=last_source.max(model.copied_to) + 3 {
            let answer = self.check_translate(position);
            let offset = answer.offset();
            assert!(before <= offset, "translate({position}) steps back from {before:?}");
            before = offset;
            self.check_skips_nothing(position, answer);
            self.check_way_back(position, answer);
            if let Some(count) = self.count_of_source(SourceOffset(position)) {
                let below = model.records[..model.acknowledged]
                    .iter()
                    .filter(|record| position > model.start && record.0 < position);
                assert_eq!(count, below.count() as u64, "count_of_source({position})");
            } else {
                assert!(map.is_pruned() && position < map.first().unwrap().source.0);
            }
        }
        let mut before = None;
        for position in 0..=last_target.max(model.target_end()).max(model.target_start) + 3 {
            let offset = self.check_reverse(position).offset();
            assert!(before <= offset, "reverse({position}) steps back from {before:?}");
            before = offset;
            if let Some(count) = self.count_of_target(TargetOffset(position)) {
                let below = model.records[..model.acknowledged]
                    .iter()
                    .enumerate()
                    .filter(|&(count, record)| count < model.forgotten || record.1 < position);
                assert_eq!(count, below.count() as u64, "count_of_target({position})");
            } else {
                assert!(map.is_pruned() && position < map.first().unwrap().target.0);
            }
        }
    }

    /// No acknowledged record at or above `position` lies below the answer, except deleted ones that
    /// the answer counts. Stated without the case distinctions of `check_translate`.
    fn check_skips_nothing(&self, position: i64, answer: Translation<TargetOffset>) {
        let Some(offset) = answer.offset() else { return };
        let skipped = self.model.records[self.model.forgotten..self.model.acknowledged]
            .iter()
            .filter(|&&(source, target)| source >= position && target < offset.0)
            .inspect(|record| assert!(record.1 < self.model.target_start, "skips {record:?}"))
            .count() as u64;
        match answer {
            Translation::BeforeStart { missing, .. } => assert!(skipped <= missing),
            _ => assert_eq!(skipped, 0, "translate({position}) skips records"),
        }
    }

    /// There and back leads to the next record, never past one.
    fn check_way_back(&self, position: i64, answer: Translation<TargetOffset>) {
        match answer {
            Translation::Exact(there) => {
                let next = self.model.first_acknowledged(|&(source, _)| source >= position);
                let source = SourceOffset(self.model.records[next.unwrap()].0);
                let back = self.reverse(there);
                assert_eq!(back, Translation::Exact(source), "there and back from {position}");
            }
            Translation::End(there) => {
                let back = self.reverse(there);
                assert_eq!(back, Translation::End(self.map.copied_to()));
            }
            _ => {}
        }
    }

    /// Planned runs do not make up an answer: without them every answer is the same.
    pub(super) fn check_without_planned(&self) {
        let mut bare = self.map.clone();
        bare.cut(bare.acknowledged());
        let last = self.model.records.last().map_or(0, |record| record.0);
        for position in self.model.start - 2..=last + 2 {
            let position = SourceOffset(position);
            assert_eq!(bare.translate(position), self.map.translate(position));
            let target = TargetOffset(position.0);
            assert_eq!(bare.reverse(target), self.map.reverse(target));
        }
    }
}

impl Model {
    /// The first acknowledged record for which `wanted` holds.
    fn first_acknowledged(&self, wanted: impl Fn(&(i64, i64)) -> bool) -> Option<usize> {
        (self.forgotten..self.acknowledged).find(|&count| wanted(&self.records[count]))
    }

    fn target_end(&self) -> i64 {
        if self.acknowledged > self.forgotten {
            self.records[self.acknowledged - 1].1 + 1
        } else {
            self.origin.unwrap_or(0)
        }
    }

    fn knows_end(&self) -> bool {
        self.acknowledged > self.forgotten || self.origin.is_some()
    }
}
