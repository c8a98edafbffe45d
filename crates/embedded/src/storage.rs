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

    /// Finds the segments of a topic that were begun under the settings it has now. To be called
    /// before these change.
    pub(crate) fn settle_segments(&mut self, topic: &str) {
        let mut ms = self.setting(topic, "segment.ms");
        if self.compacts(topic) {
            ms = ms.min(self.setting(topic, "max.compaction.lag.ms"));
        }
        let rolling = Rolling { bytes: self.setting(topic, "segment.bytes"), ms };
        for log in self.logs(topic, None) {
            log.settle_segments(rolling);
        }
    }

    /// The logs of all replicas of one partition, or of all.
    fn logs(&mut self, topic: &str, partition: Option<i32>) -> impl Iterator<Item = &mut Log> {
        self.topics
            .get_mut(topic)
            .into_iter()
            .flat_map(|found| found.partitions.iter_mut().enumerate())
            .filter(move |(index, _)| partition.is_none_or(|wanted| wanted == *index as i32))
            .flat_map(|(_, found)| &mut found.replicas)
            .map(|replica| &mut replica.log)
    }

    /// One retention check of one partition.
    pub(crate) fn retain(&mut self, topic: &str, partition: i32) {
        self.settle_segments(topic);
        let retention = Retention {
            deletes: self
                .topics
                .get(topic)
                .is_some_and(|found| configs::deletes(&found.configs, &self.options)),
            ms: self.setting(topic, "retention.ms"),
            bytes: self.setting(topic, "retention.bytes"),
        };
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
        self.settle_segments(topic);
        let cleaning = self.cleaning(topic);
        let Some(found) = self.partition_mut(topic, partition) else { return false };
        let mut any = false;
        for replica in &mut found.replicas {
            let last_stable = replica.last_stable();
            any |= compaction::clean(&mut replica.log, last_stable, cleaning);
        }
        self.changed = true;
        any
    }

    /// Cleans everything, as if the newest segments were closed and nothing had to wait.
    pub(crate) fn compact(&mut self, topic: &str, partition: i32) -> bool {
        self.settle_segments(topic);
        for log in self.logs(topic, Some(partition)) {
            log.roll();
        }
        self.clean(topic, partition)
    }

    /// The partitions of all topics.
    fn all_partitions(&self) -> Vec<(String, i32)> {
        let partitions = |(name, topic): (&String, &crate::state::Topic)| {
            let name = name.clone();
            (0..topic.partitions.len() as i32).map(move |index| (name.clone(), index))
        };
        self.topics.iter().flat_map(partitions).collect()
    }

    /// One retention check of everything.
    pub(crate) fn retain_all(&mut self) {
        for (topic, partition) in self.all_partitions() {
            self.retain(&topic, partition);
        }
    }

    /// Whether so much of a partition is dirty that the cleaner takes it on.
    fn is_dirty(&mut self, topic: &str, partition: i32) -> bool {
        self.settle_segments(topic);
        let configs = self.topics.get(topic).map(|found| &found.configs);
        let least = configs
            .map(|configs| configs::value(configs, &self.options, "min.cleanable.dirty.ratio"))
            .and_then(|value| value.trim().parse::<f64>().ok())
            .unwrap_or(0.5);
        let cleaning = self.cleaning(topic);
        self.partition(topic, partition).is_some_and(|found| {
            let replica = found.authority();
            compaction::dirty_ratio(&replica.log, replica.last_stable(), cleaning) > least
        })
    }

    /// One run of the cleaner over everything that is compacted and dirty enough.
    pub(crate) fn clean_all(&mut self) {
        for (topic, partition) in self.all_partitions() {
            if self.compacts(&topic) && self.is_dirty(&topic, partition) {
                self.clean(&topic, partition);
            }
        }
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
        self.known(topic, partition, |state| {
            state.settle_segments(topic);
            for log in state.logs(topic, Some(partition)) {
                log.roll();
            }
        })
    }

    /// Where the segments of the leader's log begin.
    pub fn segments(&self, topic: &str, partition: i32) -> Vec<i64> {
        self.with(|state| {
            state.settle_segments(topic);
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
