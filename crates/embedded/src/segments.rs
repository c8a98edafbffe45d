//! Where the segments of a log begin.
//!
//! Kafka rolls a segment while it appends. Here the borders are found later, whenever somebody asks
//! (retention, the cleaner, a change of the topic's settings), from the batches and the settings
//! that were in force meanwhile; the result is the same, because a border depends on nothing else.
//!
//! Does not merge small segments after cleaning, as Kafka's cleaner does, and does not roll a
//! segment by time whose first batch has no timestamp.
//!
//! References: `LogSegment.shouldRoll`, `UnifiedLog.maybeRoll`, `LogConfig.maxSegmentMs`.

use crate::log::Stored;

/// `segment.bytes` and `segment.ms` (or `max.compaction.lag.ms`, where that is shorter).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rolling {
    pub bytes: i64,
    pub ms: i64,
}

/// The borders that are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    /// Base offsets, ascending. The last one is of the active segment; none: the log's start.
    bases: Vec<i64>,
    /// Batches below this offset have been looked at.
    seen: i64,
}

/// One segment and what retention asks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub base: i64,
    /// Where the next one begins, or the log ends.
    pub end: i64,
    pub bytes: i64,
    /// -1 where no batch has a timestamp.
    pub largest_timestamp: i64,
}

impl Segments {
    /// Finds the borders among the batches that were not looked at.
    pub(crate) fn see(&mut self, batches: &[Stored], rolling: Rolling) {
        let new = batches.partition_point(|stored| stored.head.base_offset < self.seen);
        if new == batches.len() {
            self.forget_empty(batches);
            return;
        }
        let active = self.bases.last().copied().unwrap_or(i64::MIN);
        let from = batches.partition_point(|stored| stored.head.base_offset < active);
        let (mut bytes, mut first) = (0, None);
        for (index, stored) in batches.iter().enumerate().skip(from) {
            let size = stored.bytes.len() as i64;
            if index >= new {
                let waited = first.map_or(0, |first: i64| stored.head.max_timestamp - first);
                if bytes > 0 && (bytes > rolling.bytes - size || waited > rolling.ms) {
                    self.bases.push(stored.head.base_offset);
                    (bytes, first) = (0, None);
                }
            }
            if bytes == 0 {
                first = Some(stored.head.max_timestamp).filter(|&timestamp| timestamp >= 0);
            }
            bytes += size;
        }
        self.seen = batches.last().map_or(self.seen, Stored::next_offset);
        self.forget_empty(batches);
    }

    /// Forgets the borders of segments that hold nothing: deleted, or emptied by the cleaner. The
    /// active one stays.
    fn forget_empty(&mut self, batches: &[Stored]) {
        let ends: Vec<i64> = self.bases.iter().copied().skip(1).chain([i64::MAX]).collect();
        let mut ends = ends.into_iter();
        self.bases.retain(|&base| {
            let end = ends.next().unwrap_or(i64::MAX);
            let first = batches.partition_point(|stored| stored.head.base_offset < base);
            end == i64::MAX
                || batches.get(first).is_some_and(|stored| stored.head.base_offset < end)
        });
    }

    /// Begins a new active segment at the log end.
    pub(crate) fn roll(&mut self, end: i64) {
        if self.active().is_none_or(|active| active < end) {
            self.bases.push(end);
        }
        self.seen = self.seen.max(end);
    }

    /// Where the active segment begins; `None`: at the log's start.
    pub(crate) fn active(&self) -> Option<i64> {
        self.bases.last().copied()
    }

    /// Forgets borders above `end`: the log was cut there.
    pub(crate) fn cut(&mut self, end: i64) {
        self.bases.retain(|&base| base <= end);
        self.seen = self.seen.min(end);
    }

    /// All segments between the log's start and end, the active one last.
    pub(crate) fn list(&self, batches: &[Stored], start: i64, end: i64) -> Vec<Segment> {
        let first = batches.first().map_or(start, |stored| stored.head.base_offset.min(start));
        let mut bases = vec![first];
        bases.extend(self.bases.iter().copied().filter(|&base| base > first));
        let ends = bases.iter().copied().skip(1).chain([end]);
        let segment = |(&base, end): (&i64, i64)| {
            let from = batches.partition_point(|stored| stored.head.base_offset < base);
            let to = batches.partition_point(|stored| stored.head.base_offset < end);
            let inside = &batches[from..to.max(from)];
            Segment {
                base,
                end,
                bytes: inside.iter().map(|stored| stored.bytes.len() as i64).sum(),
                largest_timestamp: inside
                    .iter()
                    .map(|stored| stored.head.max_timestamp)
                    .max()
                    .unwrap_or(-1),
            }
        };
        bases.iter().zip(ends).map(segment).collect()
    }
}
