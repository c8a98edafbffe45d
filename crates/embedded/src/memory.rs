//! The limit on what all logs together hold, for a cluster that outside clients fill for hours.
//!
//! A broker keeps records on a disk and deletes by retention; this cluster keeps them in memory, so
//! it has one limit more, over all topics. When it is reached, topics with `cleanup.policy=delete`
//! lose their oldest records, the largest partition first, as if `retention.bytes` had been set just
//! right: their log start moves up, and readers that were further behind are out of range. Compacted
//! topics are compacted instead. Where that frees too little, `Produce` is refused, so that the
//! process never grows in silence.
//!
//! Does not count: requests under way (see `frames`), answers, producers, groups, and what the allocator keeps.
//!
//! # Invariants
//!
//! 1. Nothing above a high watermark is deleted, nor the last batch of a partition.
//! 2. Internal topics (`__consumer_offsets`) are never cut, only compacted.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use crate::configs;
use crate::partition::Partition;
use crate::state::{State, Topic};

/// How often the logs are counted; in between they may grow past the limit.
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// How often everything is compacted while the limit is reached; deleting goes on in between.
const COMPACT_EVERY: Duration = Duration::from_secs(1);
/// How often it is said that records are deleted.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// What is known of the limit.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    next_check: Option<Instant>,
    compacted_at: Option<Instant>,
    said_at: Option<Instant>,
    /// What was deleted since it was last said.
    unsaid: usize,
    /// Deleting was not enough: nothing more is taken in.
    pub full: bool,
}

impl State {
    /// Counts the logs, if it is time to, and makes room.
    pub(crate) fn bound_memory(&mut self, now: Instant) {
        let Some(limit) = self.options.log_bytes_max else { return };
        if self.memory.next_check.is_some_and(|next| now < next) {
            return;
        }
        self.memory.next_check = Some(now + CHECK_EVERY);
        let held = self.log_bytes();
        if held <= limit {
            self.memory.full = false;
            return;
        }
        // A sixteenth more than needed, so that the next batch does not begin it all again.
        let wanted = limit - limit / 16;
        let mut held = held;
        if self.memory.compacted_at.is_none_or(|at| now - at >= COMPACT_EVERY) {
            self.memory.compacted_at = Some(now);
            if self.compact_all() {
                held = self.log_bytes();
            }
        }
        if held > wanted {
            let deleted = self.delete_oldest(held - wanted);
            self.memory.unsaid += deleted;
            held -= deleted;
        }
        if held > limit && !self.memory.full {
            warn!(
                "compacted topics fill the {} MiB that records may take: producers are refused",
                limit >> 20
            );
        }
        self.memory.full = held > limit;
        if self.memory.unsaid > 0 && self.memory.said_at.is_none_or(|at| now - at >= SAY_EVERY) {
            warn!(
                "records take more than {} MiB: deleted the oldest {} KiB",
                limit >> 20,
                self.memory.unsaid >> 10
            );
            self.memory.said_at = Some(now);
            self.memory.unsaid = 0;
        }
        self.changed = true;
    }

    /// What all logs hold. Replicas share their batches.
    fn log_bytes(&self) -> usize {
        self.topics.values().flat_map(|topic| &topic.partitions).map(bytes_of).sum()
    }

    /// Compacts what may be compacted; answers whether there was anything.
    fn compact_all(&mut self) -> bool {
        let compacted = |(name, topic): (&String, &Topic)| {
            configs::is_compacted(&topic.configs, &self.options)
                .then(|| (name.clone(), topic.partitions.len() as i32))
        };
        let topics: Vec<(String, i32)> = self.topics.iter().filter_map(compacted).collect();
        let mut any = false;
        for (topic, count) in topics {
            for partition in 0..count {
                any |= self.compact(&topic, partition);
            }
        }
        any
    }

    /// Deletes the oldest batches of the largest partitions; answers how many bytes went.
    fn delete_oldest(&mut self, wanted: usize) -> usize {
        let options = &self.options;
        let mut partitions: Vec<&mut Partition> = self
            .topics
            .iter_mut()
            .filter(|(name, topic)| {
                !name.starts_with("__") && configs::deletes(&topic.configs, options)
            })
            .flat_map(|(_, topic)| &mut topic.partitions)
            .collect();
        partitions.sort_by_key(|found| std::cmp::Reverse(bytes_of(found)));
        let sizes: Vec<usize> = partitions.iter().map(|found| bytes_of(found)).collect();
        let level = level(&sizes, wanted);
        let mut deleted = 0;
        for (found, size) in partitions.into_iter().zip(sizes) {
            deleted += cut(found, size.saturating_sub(level));
        }
        deleted
    }
}

fn bytes_of(partition: &Partition) -> usize {
    partition.replicas.iter().map(|replica| replica.log.bytes()).max().unwrap_or(0)
}

/// The size to which all larger ones are cut so that `wanted` bytes go. `sizes` fall.
fn level(sizes: &[usize], wanted: usize) -> usize {
    let mut above = 0;
    for (index, &size) in sizes.iter().enumerate() {
        above += size;
        let next = sizes.get(index + 1).copied().unwrap_or(0);
        let count = index + 1;
        if above - count * next >= wanted {
            return (above - wanted) / count;
        }
    }
    0
}

/// Deletes at least `wanted` bytes from the beginning of a partition, where it has them.
fn cut(partition: &mut Partition, wanted: usize) -> usize {
    if wanted == 0 {
        return 0;
    }
    let replica = partition.authority();
    let (before, high_watermark) = (replica.log.bytes(), replica.high_watermark);
    let Some((_, older)) = replica.log.batches().split_last() else { return 0 };
    let mut start = replica.log.start();
    let mut bytes = 0;
    for stored in older {
        if bytes >= wanted || stored.next_offset() > high_watermark {
            break;
        }
        bytes += stored.held();
        start = stored.next_offset();
    }
    for replica in &mut partition.replicas {
        replica.log.delete_below(start);
    }
    before.saturating_sub(partition.authority().log.bytes())
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn the_largest_partitions_are_cut_first_and_then_all_alike() {
        assert_eq!(level(&[100, 40, 10], 60), 40);
        assert_eq!(level(&[100, 40, 10], 30), 70);
        assert_eq!(level(&[100, 40, 10], 100), 20); // 80 and 20 go
        assert_eq!(level(&[100, 40, 10], 150), 0);
        assert_eq!(level(&[100, 40, 10], 500), 0);
        assert_eq!(level(&[], 1), 0);
    }
}
