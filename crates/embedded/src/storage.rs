//! What a broker does to its logs in the background, on demand: rolling, retention, cleaning; and
//! records in the formats of long ago.
//!
//! Nothing of it happens by itself unless the options say how often.
//!
//! Does not decide what goes: see `segments`, `retention` and `compaction`.

use crate::cluster::EmbeddedCluster;
use crate::codec::{Compression, RawRecord};
use crate::compaction::{self, Cleaning};
use crate::configs;
use crate::log::Log;
use crate::old_formats;
use crate::retention::{self, Retention};
use crate::segments::Rolling;
use crate::state::State;
use crate::vocabulary::{AdminError, NewRecord};

type Result<T, E = AdminError> = std::result::Result<T, E>;

impl State {
    fn setting(&self, topic: &str, name: &str) -> i64 {
        let configs = self.topics.get(topic).map(|found| &found.configs);
        configs.map_or(0, |configs| configs::number_of(configs, &self.options, name))
    }

    fn compacts(&self, topic: &str) -> bool {
        let found = self.topics.get(topic);
        found.is_some_and(|found| configs::is_compacted(&found.configs, &self.options))
    }

    fn rolling(&self, topic: &str) -> Rolling {
        let mut ms = self.setting(topic, "segment.ms");
        if self.compacts(topic) {
            ms = ms.min(self.setting(topic, "max.compaction.lag.ms"));
        }
        Rolling { bytes: self.setting(topic, "segment.bytes"), ms }
    }

    /// Finds the segments of a topic that were begun under the settings it has now. To be called
    /// before these change.
    pub(crate) fn settle_segments(&mut self, topic: &str) {
        let rolling = self.rolling(topic);
        self.settle(topic, None, rolling);
    }

    /// Finds the segments of one partition, or of all.
    fn settle(&mut self, topic: &str, partition: Option<i32>, rolling: Rolling) {
        for log in self.logs(topic, partition) {
            log.settle_segments(rolling);
            #[cfg(test)]
            tests::SETTLED.with(|settled| settled.set(settled.get() + 1));
        }
    }

    /// The logs of all replicas of one partition, or of all.
    fn logs(&mut self, topic: &str, partition: Option<i32>) -> impl Iterator<Item = &mut Log> {
        let all = self.topics.get_mut(topic).map(|found| found.partitions.as_mut_slice());
        let all = all.unwrap_or_default();
        let asked = match partition {
            None => all,
            Some(index) => usize::try_from(index)
                .ok()
                .and_then(|index| all.get_mut(index..=index))
                .unwrap_or_default(),
        };
        asked.iter_mut().flat_map(|found| &mut found.replicas).map(|replica| &mut replica.log)
    }

    fn retention(&self, topic: &str) -> Retention {
        let found = self.topics.get(topic);
        Retention {
            deletes: found.is_some_and(|found| configs::deletes(&found.configs, &self.options)),
            ms: self.setting(topic, "retention.ms"),
            bytes: self.setting(topic, "retention.bytes"),
        }
    }

    /// One retention check of one partition.
    pub(crate) fn retain(&mut self, topic: &str, partition: i32) {
        let (rolling, retention) = (self.rolling(topic), self.retention(topic));
        self.retain_by(topic, partition, rolling, retention);
    }

    fn retain_by(&mut self, topic: &str, partition: i32, rolling: Rolling, retention: Retention) {
        self.settle(topic, Some(partition), rolling);
        let now_ms = self.now_ms();
        let start = self.partition(topic, partition).and_then(|found| {
            let replica = found.authority();
            retention::new_start(&replica.log, replica.high_watermark, retention, now_ms)
        });
        if let Some(start) = start {
            for log in self.logs(topic, Some(partition)) {
                log.retain_from(start);
            }
            self.replicate(topic, partition);
        }
    }

    fn cleaning(&self, topic: &str) -> Cleaning {
        Cleaning {
            now: self.now_ms(),
            delete_retention: self.setting(topic, "delete.retention.ms"),
            min_lag: self.setting(topic, "min.compaction.lag.ms"),
        }
    }

    /// One run of the cleaner over one partition; whether there was anything to clean.
    pub(crate) fn clean(&mut self, topic: &str, partition: i32) -> bool {
        let rolling = self.rolling(topic);
        self.settle(topic, Some(partition), rolling);
        self.clean_by(topic, partition, self.cleaning(topic))
    }

    fn clean_by(&mut self, topic: &str, partition: i32, cleaning: Cleaning) -> bool {
        let Some(found) = self.partition_mut(topic, partition) else { return false };
        let mut any = false;
        for replica in &mut found.replicas {
            let last_stable = replica.last_stable();
            any |= compaction::clean(&mut replica.log, last_stable, cleaning);
        }
        self.changed = true;
        any
    }

    /// Closes the active segments of one partition.
    fn roll_segments(&mut self, topic: &str, partition: i32) {
        let rolling = self.rolling(topic);
        self.settle(topic, Some(partition), rolling);
        for log in self.logs(topic, Some(partition)) {
            log.roll();
        }
    }

    /// Cleans everything, as if the newest segments were closed and nothing had to wait.
    pub(crate) fn compact(&mut self, topic: &str, partition: i32) -> bool {
        self.roll_segments(topic, partition);
        self.clean(topic, partition)
    }

    /// The partitions of a topic whose leading log is like this.
    fn those(&self, topic: &str, like: impl Fn(&Log) -> bool) -> Vec<i32> {
        let partitions = self.topics.get(topic).map(|found| found.partitions.as_slice());
        (0..)
            .zip(partitions.unwrap_or_default())
            .filter(|(_, found)| like(&found.authority().log))
            .map(|(index, _)| index)
            .collect()
    }

    /// One retention check of everything. It runs under the lock, and often: a topic's settings are
    /// looked up once, and a partition without records costs nothing.
    pub(crate) fn retain_all(&mut self) {
        let topics: Vec<String> = self.topics.keys().cloned().collect();
        for topic in topics {
            let (rolling, retention) = (self.rolling(&topic), self.retention(&topic));
            if !retention.deletes || (retention.ms < 0 && retention.bytes < 0) {
                continue;
            }
            for partition in self.those(&topic, |log| !log.batches().is_empty()) {
                self.retain_by(&topic, partition, rolling, retention);
            }
        }
    }

    /// One run of the cleaner over everything that is compacted and dirty enough. What it cleaned
    /// to the end costs nothing until records are added.
    pub(crate) fn clean_all(&mut self) {
        let topics: Vec<String> =
            self.topics.keys().filter(|topic| self.compacts(topic)).cloned().collect();
        for topic in topics {
            let (rolling, cleaning) = (self.rolling(&topic), self.cleaning(&topic));
            let least = self.least_dirty(&topic);
            for partition in self.those(&topic, |log| log.end() > log.cleaned().max(log.start())) {
                self.settle(&topic, Some(partition), rolling);
                let dirty = self.partition(&topic, partition).is_some_and(|found| {
                    let replica = found.authority();
                    compaction::dirty_ratio(&replica.log, replica.last_stable(), cleaning) > least
                });
                if dirty {
                    self.clean_by(&topic, partition, cleaning);
                }
            }
        }
    }

    /// How much of a partition must be dirty for the cleaner to take it on.
    fn least_dirty(&self, topic: &str) -> f64 {
        let configs = self.topics.get(topic).map(|found| &found.configs);
        configs
            .map(|configs| configs::value(configs, &self.options, "min.cleanable.dirty.ratio"))
            .and_then(|value| value.trim().parse::<f64>().ok())
            .unwrap_or(0.5)
    }
}

/// What brokers do in the background, on demand.
impl EmbeddedCluster {
    fn known<R>(&self, topic: &str, partition: i32, f: impl FnOnce(&mut State) -> R) -> Result<R> {
        self.with(|state| {
            if state.partition(topic, partition).is_none() {
                return Err(AdminError::NoPartition(topic.to_owned(), partition));
            }
            Ok(f(state))
        })
    }

    /// Closes the active segment: the next record begins a new one. Segments are also rolled by
    /// `segment.bytes` and `segment.ms`, as in Kafka.
    pub fn roll(&self, topic: &str, partition: i32) -> Result<()> {
        self.known(topic, partition, |state| state.roll_segments(topic, partition))
    }

    /// Where the segments of the leader's log begin.
    pub fn segments(&self, topic: &str, partition: i32) -> Vec<i64> {
        self.with(|state| {
            let rolling = state.rolling(topic);
            state.settle(topic, Some(partition), rolling);
            let segments = state.partition(topic, partition).map(|p| p.authority().log.segments());
            segments.unwrap_or_default().iter().map(|segment| segment.base).collect()
        })
    }

    /// Runs a retention check (`log.retention.check.interval.ms`) of a partition now: segments that
    /// `retention.ms` or `retention.bytes` give up are deleted.
    pub fn retain(&self, topic: &str, partition: i32) -> Result<()> {
        self.known(topic, partition, |state| state.retain(topic, partition))
    }

    /// Runs the log cleaner over a partition now, whatever its policy and dirty ratio. `false` when
    /// nothing is dirty: the active segment, records above the last stable offset and younger ones
    /// than `min.compaction.lag.ms` are not cleaned.
    pub fn clean(&self, topic: &str, partition: i32) -> Result<bool> {
        self.known(topic, partition, |state| state.clean(topic, partition))
    }

    /// Compacts all of a partition that is committed: [`roll`](Self::roll) and
    /// [`clean`](Self::clean). Offsets stay, so batches get holes and whole batches vanish.
    pub fn compact(&self, topic: &str, partition: i32) -> Result<()> {
        self.known(topic, partition, |state| {
            state.compact(topic, partition);
        })
    }

    /// Appends records in message format 0 or 1, as a log has them that was written before Kafka
    /// 0.11: one message each, or with a codec (`gzip`, `snappy`, `lz4`) one wrapper around all.
    /// Headers are lost, and timestamps in format 0. Answers the first offset.
    pub fn append_old(
        &self,
        topic: &str,
        partition: i32,
        magic: i8,
        records: &[NewRecord],
        codec: &str,
    ) -> Result<i64> {
        let refused = |message: String| AdminError::Refused { code: 76, message };
        let compression =
            Compression::from_config(codec).ok_or_else(|| refused(format!("no codec {codec}")))?;
        if !(0..=1).contains(&magic) {
            return Err(refused(format!("format {magic} is not an old one")));
        }
        self.known(topic, partition, |state| {
            let now_ms = state.now_ms();
            let raw = |(index, record): (usize, &NewRecord)| RawRecord {
                offset_delta: index as i32,
                timestamp: record.timestamp.unwrap_or(now_ms),
                key: record.key.clone(),
                value: record.value.clone(),
                headers: Vec::new(),
            };
            let records: Vec<RawRecord> = records.iter().enumerate().map(raw).collect();
            let Some(found) = state.partition_mut(topic, partition) else { return Ok(-1) };
            let log = &mut found.authority_mut().log;
            let base = log.end();
            let batches = old_formats::stored(magic, base, &records, compression)
                .ok_or_else(|| refused(format!("format {magic} has no codec {codec}")))?;
            for stored in batches {
                log.take_stored(stored);
            }
            state.replicate(topic, partition);
            Ok(base)
        })?
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::options::EmbeddedOptions;

    thread_local! {
        /// How many logs were looked at for segments.
        pub(super) static SETTLED: Cell<usize> = const { Cell::new(0) };
    }

    /// How many logs one sweep looks at, in a cluster with a topic of so many partitions, of which
    /// the first seven have a record, each on three replicas.
    fn looked_at(partitions: i32, policy: &str, sweep: impl Fn(&mut State)) -> usize {
        let cluster = EmbeddedCluster::start(EmbeddedOptions::new("hello").with_brokers(3));
        cluster.create_topic("big", partitions, &[("cleanup.policy", policy)]).unwrap();
        for partition in 0..7 {
            cluster.append("big", partition, &[NewRecord::new("key", "value")]).unwrap();
        }
        cluster.with(|state| {
            SETTLED.set(0);
            sweep(state);
            SETTLED.get()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_looks_only_at_partitions_with_records_and_once_at_each() {
        for partitions in [10, 1_000] {
            assert_eq!(looked_at(partitions, "delete", State::retain_all), 7 * 3);
            assert_eq!(looked_at(partitions, "compact", State::clean_all), 7 * 3);
            // Nothing is deleted, nothing compacted.
            assert_eq!(looked_at(partitions, "compact", State::retain_all), 0);
            assert_eq!(looked_at(partitions, "delete", State::clean_all), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_partition_is_looked_at_without_the_others() {
        assert_eq!(looked_at(1_000, "delete", |state| state.retain("big", 3)), 3);
        let clean = |state: &mut State| {
            state.clean("big", 3);
        };
        assert_eq!(looked_at(1_000, "compact", clean), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_clean_to_its_end_is_not_looked_at_again() {
        let all = looked_at(10, "compact", |state| {
            for partition in 0..10 {
                state.compact("big", partition);
            }
            SETTLED.set(0);
            state.clean_all();
        });
        assert_eq!(all, 0);
    }
}
