//! Sealed stretches of a map: many full segments as one record, which the memory need not hold.
//!
//! A partition that has been copied for years has millions of runs; consumers ask about few of
//! them. Of a sealed block the map keeps only where it begins ([`Index`]); who asks about what lies
//! inside fetches the record and lends it to the map.
//!
//! # Invariants
//!
//! 1. A block holds whole segments and ends where its number says: block `n` ends before run
//!    `(n + 1) * RUNS_PER_BLOCK`. Only the first block of a pruned map is shorter, in front.
//! 2. The blocks of an index are numbered without a hole, and their heads ascend.

use bytes::Bytes;

use crate::segment::Segment;
use crate::{Malformed, RUNS_PER_SEGMENT, RunStart, StateError};

/// How many full segments a block gathers: at 2 to 4 bytes a run, 16 to 32 KiB to fetch for an
/// answer about the far past.
pub const SEGMENTS_PER_BLOCK: usize = if cfg!(test) { 2 } else { 16 };

/// How many runs a block holds.
pub const RUNS_PER_BLOCK: usize = SEGMENTS_PER_BLOCK * RUNS_PER_SEGMENT;

/// Heads of so many blocks lie in one stretch of the index.
const HEADS_PER_CHUNK: usize = RUNS_PER_SEGMENT;

/// A sealed stretch of an offset map, with all of its runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    number: u32,
    pub(crate) runs: Segment,
}

impl Block {
    /// Gathers full segments that follow each other and end where block `number` does.
    pub(crate) fn gather(number: u32, segments: &[Segment]) -> Option<Self> {
        let (first, others) = segments.split_first()?;
        let mut runs = first.clone();
        for segment in others {
            runs.append(segment);
        }
        Some(Self { number, runs })
    }

    /// Reads what [`Block::encode`] wrote.
    ///
    /// # Errors
    ///
    /// When the bytes are damaged, or do not hold whole segments.
    pub fn decode(number: u32, bytes: &[u8]) -> Result<Self, StateError> {
        let wrong = |why| StateError::Block { block: number, why };
        // A position counts runs in 32 bits.
        if number >= u32::MAX / RUNS_PER_BLOCK as u32 {
            return Err(wrong(Malformed::Number));
        }
        let runs = Segment::decode(bytes, RUNS_PER_BLOCK).map_err(wrong)?;
        if !runs.runs().is_multiple_of(RUNS_PER_SEGMENT) {
            return Err(wrong(Malformed::Runs(runs.runs() as u64)));
        }
        Ok(Self { number, runs })
    }

    /// The block as bytes.
    pub fn encode(&self) -> Bytes {
        self.runs.encode()
    }

    /// Which block of the map it is.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Where its first run starts.
    pub fn head(&self) -> RunStart {
        self.runs.first()
    }

    /// How much memory it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.runs.memory_bytes()
    }

    /// The number of its first segment.
    pub(crate) fn first_segment(&self) -> u32 {
        let segments = self.runs.runs() / RUNS_PER_SEGMENT;
        (self.number + 1) * SEGMENTS_PER_BLOCK as u32 - segments as u32
    }

    /// Its segments, full ones, in order.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::with_capacity(SEGMENTS_PER_BLOCK);
        for run in self.runs.starts() {
            match segments.last_mut().filter(|segment| !segment.is_full()) {
                Some(segment) => segment.push(run),
                None => segments.push(Segment::new(run)),
            }
        }
        segments
    }
}

/// Where the sealed blocks of a map begin, delta-coded: about six bytes a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// The number of the first block that is kept.
    first: u32,
    /// The number of the first segment of that block.
    first_segment: u32,
    /// The number of the first head in `chunks`; not above `first`.
    base: u32,
    chunks: Vec<Segment>,
}

impl Index {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.heads() - (self.first - self.base) as usize
    }

    /// The heads in `chunks`, those that are not kept any more included.
    fn heads(&self) -> usize {
        let before = self.chunks.len().saturating_sub(1) * HEADS_PER_CHUNK;
        before + self.chunks.last().map_or(0, Segment::runs)
    }

    /// The numbers of the blocks that are kept; where there are none, its start says nothing.
    pub(crate) fn numbers(&self) -> std::ops::Range<u32> {
        self.first..self.base + self.heads() as u32
    }

    /// The number of the first segment that is kept.
    pub(crate) fn first_segment(&self) -> u32 {
        self.first_segment
    }

    /// Appends the head of block `number`, which must be the next one unless the index is empty.
    pub(crate) fn push(&mut self, number: u32, first_segment: u32, head: RunStart) {
        if self.is_empty() {
            *self = Self { first: number, first_segment, base: number, chunks: Vec::new() };
        }
        debug_assert_eq!(number, self.numbers().end);
        match self.chunks.last_mut().filter(|chunk| chunk.runs() < HEADS_PER_CHUNK) {
            Some(chunk) => chunk.push(head),
            None => self.chunks.push(Segment::new(head)),
        }
    }

    /// Takes the last block's head away.
    pub(crate) fn pop(&mut self) {
        if self.is_empty() {
            return;
        }
        if let Some(chunk) = self.chunks.last_mut() {
            match chunk.below(chunk.last().count) {
                Some(below) => *chunk = below,
                None => drop(self.chunks.pop()),
            }
        }
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Forgets the first block.
    pub(crate) fn pop_front(&mut self) {
        if self.is_empty() {
            return;
        }
        self.first += 1;
        self.first_segment = self.first * SEGMENTS_PER_BLOCK as u32;
        if self.is_empty() {
            *self = Self::default();
        } else if self.first - self.base >= HEADS_PER_CHUNK as u32 {
            self.chunks.remove(0);
            self.base += HEADS_PER_CHUNK as u32;
        }
    }

    /// The heads of the blocks that are kept.
    fn kept(&self) -> impl Iterator<Item = RunStart> {
        let gone = (self.first - self.base) as usize;
        self.chunks.iter().flat_map(Segment::starts).skip(gone)
    }

    /// Where block `number` begins.
    pub(crate) fn head(&self, number: u32) -> Option<RunStart> {
        let at = self.numbers().contains(&number).then(|| (number - self.base) as usize)?;
        self.chunks.get(at / HEADS_PER_CHUNK)?.starts().nth(at % HEADS_PER_CHUNK)
    }

    /// The last block whose head `reached` holds for: its number, its head, and the head after it.
    /// `reached` holds for no head after one that it does not hold for.
    pub(crate) fn around(
        &self,
        reached: impl Fn(&RunStart) -> bool,
    ) -> Option<(u32, RunStart, Option<RunStart>)> {
        let chunk = self.chunks.partition_point(|chunk| reached(&chunk.first())).checked_sub(1)?;
        let first = self.base + (chunk * HEADS_PER_CHUNK) as u32;
        let mut found = None;
        for (number, head) in (first..).zip(self.chunks[chunk].starts()) {
            if !reached(&head) {
                return found
                    .map(|(number, at)| (number, at, Some(head)))
                    .filter(|at| at.0 >= self.first);
            }
            found = Some((number, head));
        }
        let next = self.chunks.get(chunk + 1).map(Segment::first);
        found.map(|(number, at)| (number, at, next)).filter(|at| at.0 >= self.first)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Segment>()
            + self.chunks.iter().map(Segment::memory_bytes).sum::<usize>()
    }
}

/// Equal are two indexes of the same blocks, whatever was pruned in front of them.
impl PartialEq for Index {
    fn eq(&self, other: &Self) -> bool {
        self.first_segment == other.first_segment
            && self.numbers() == other.numbers()
            && self.kept().eq(other.kept())
    }
}

impl Eq for Index {}
