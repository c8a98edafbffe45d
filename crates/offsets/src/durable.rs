//! Which parts of a map are durable, and what to write and to remove so that they are.
//!
//! A write of the state is one transaction that succeeds, fails, or leaves open which of the two
//! happened. [`Durable`] keeps what is surely stored and what may be, so that after an unclear
//! write nothing is missing and nothing stays behind.

use std::ops::Range;

use bytes::Bytes;

use crate::{Block, OffsetMap, RUNS_PER_SEGMENT, SEGMENTS_PER_BLOCK};

/// What a write of the state holds of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Segments to write, by number.
    pub segments: Vec<(u32, Bytes)>,
    /// Blocks to write.
    pub blocks: Vec<Block>,
    /// Segments that need tombstones.
    pub removed_segments: Vec<u32>,
    /// Blocks that need tombstones.
    pub removed_blocks: Vec<u32>,
    /// How many runs are durable with it.
    runs: usize,
    kept_segments: Range<u32>,
    kept_blocks: Range<u32>,
}

/// What of a map the durable state holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    runs: usize,
    segments: Extent,
    blocks: Extent,
}

/// Numbers that are surely stored, and those that may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Extent {
    surely: Range<u32>,
    perhaps: Range<u32>,
}

impl Durable {
    /// What a restart found: `segments` and `blocks` are the numbers of all durable ones, those
    /// that no position vouches for included.
    pub fn found(map: &OffsetMap, segments: Range<u32>, blocks: Range<u32>) -> Self {
        Self {
            runs: map.runs(),
            segments: Extent { surely: map.segments(), perhaps: hull(map.segments(), segments) },
            blocks: Extent { surely: map.blocks(), perhaps: hull(map.blocks(), blocks) },
        }
    }

    /// Nothing of the map; segments and blocks with these numbers are another map's, and must go.
    pub fn left_over(segments: Range<u32>, blocks: Range<u32>) -> Self {
        Self {
            runs: 0,
            segments: Extent { surely: 0..0, perhaps: segments },
            blocks: Extent { surely: 0..0, perhaps: blocks },
        }
    }

    /// All of `map`, and nothing else.
    pub fn whole(map: &OffsetMap) -> Self {
        Self::found(map, map.segments(), map.blocks())
    }

    /// How many run starts, counted since the partition's first, are durable as the map has them.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Only the first `runs` run starts are as they were written.
    pub fn taken_back(&mut self, runs: usize) {
        self.runs = self.runs.min(runs);
    }

    /// What must be written for `map` to be durable. Blocks are sealed where that saves memory.
    pub fn changes(&self, map: &OffsetMap) -> Changes {
        let blocks = map.sealable(self.runs);
        let sealed_to = blocks.last().map(|last| (last.number() + 1) * SEGMENTS_PER_BLOCK as u32);
        let kept_segments = sealed_to.unwrap_or(map.segments().start)..map.segments().end;
        let kept_blocks = match (blocks.first(), blocks.last()) {
            (Some(first), Some(last)) => {
                let before = map.blocks();
                let start = if before.is_empty() { first.number() } else { before.start };
                start..last.number() + 1
            }
            _ => map.blocks(),
        };
        let changed = (self.runs / RUNS_PER_SEGMENT) as u32;
        let written = |number: &u32| {
            (*number >= changed && self.runs < map.runs()) || !self.segments.surely.contains(number)
        };
        let segments = kept_segments.clone().filter(written);
        Changes {
            segments: segments
                .filter_map(|number| Some((number, map.encoded_segment(number)?)))
                .collect(),
            blocks,
            removed_segments: self.segments.behind(&kept_segments),
            removed_blocks: self.blocks.behind(&kept_blocks),
            runs: map.runs(),
            kept_segments,
            kept_blocks,
        }
    }

    /// `changes` are on their way: whether they arrive is open.
    pub fn writing(&mut self, changes: &Changes) {
        self.segments.writing(&changes.kept_segments);
        self.blocks.writing(&changes.kept_blocks);
    }

    /// `changes` are durable. The blocks among them may be [sealed](OffsetMap::seal) now. `current`
    /// says whether the map's runs are still those that were written.
    pub fn stored(&mut self, changes: &Changes, current: bool) {
        self.segments.stored(&changes.kept_segments);
        self.blocks.stored(&changes.kept_blocks);
        if current {
            self.runs = self.runs.max(changes.runs);
        }
    }
}

impl Extent {
    fn writing(&mut self, kept: &Range<u32>) {
        self.perhaps = hull(self.perhaps.clone(), kept.clone());
        let surely = self.surely.start.max(kept.start)..self.surely.end.min(kept.end);
        self.surely = if surely.is_empty() { 0..0 } else { surely };
    }

    fn stored(&mut self, kept: &Range<u32>) {
        self.surely = kept.clone();
        self.perhaps = kept.clone();
    }

    /// Numbers that may be stored and are not kept.
    fn behind(&self, kept: &Range<u32>) -> Vec<u32> {
        self.perhaps.clone().filter(|number| !kept.contains(number)).collect()
    }
}

fn hull(one: Range<u32>, other: Range<u32>) -> Range<u32> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other,
        (_, true) => one,
        _ => one.start.min(other.start)..one.end.max(other.end),
    }
}
