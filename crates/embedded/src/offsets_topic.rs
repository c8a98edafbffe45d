//! What group coordinators append to `__consumer_offsets`.
//!
//! A follower of that topic sees what it would see of Kafka: commits, groups, members, assignments
//! and their tombstones in the formats of [`records`](crate::groups::records); what one request
//! causes in one batch; transactional commits in transactional batches with a marker behind them.
//! Nothing is read back from the topic: groups live in the state.

use bytes::Bytes;

use crate::codec::{self, Frame, RawRecord};
use crate::groups::Committed;
use crate::groups::records::GroupLog;
use crate::state::{COORDINATOR_SLOTS, State, slot};

/// The topic's name.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

impl State {
    /// Writes records about a group in one batch.
    pub(crate) fn log_group(&mut self, log: GroupLog) {
        self.log_group_in(log, None);
    }

    fn log_group_in(&mut self, log: GroupLog, producer: Option<(i64, i16)>) {
        if log.records.is_empty() {
            return;
        }
        let timestamp = self.now_ms();
        let records: Vec<RawRecord> = log
            .records
            .into_iter()
            .enumerate()
            .map(|(index, (key, value))| RawRecord {
                offset_delta: index as i32,
                timestamp,
                key: Some(key),
                value,
                headers: Vec::new(),
            })
            .collect();
        let mut frame = Frame::plain(records.len());
        if let Some((producer_id, epoch)) = producer {
            frame = frame.transactional();
            frame.producer_id = producer_id;
            frame.producer_epoch = epoch;
        }
        self.append_to_offsets(&log.group, &codec::encode(frame, &records));
    }

    /// Writes commits, inside a transaction of `producer` where there is one.
    pub(crate) fn log_commits(
        &mut self,
        group: &str,
        commits: &[((String, i32), Committed)],
        producer: Option<(i64, i16)>,
    ) {
        let mut log = GroupLog::of(group);
        for ((topic, partition), committed) in commits {
            // Kafka writes the topic's id, but not inside transactions.
            let known = self.topics.get(topic).filter(|_| producer.is_none());
            let id = known.map_or([0; 16], |topic| topic.id);
            log.commit((topic, *partition), Some((committed, id)), self.options.version);
        }
        self.log_group_in(log, producer);
    }

    /// Writes the marker that ends the pending commits of a producer.
    pub(crate) fn log_commit_marker(&mut self, group: &str, producer: (i64, i16), commit: bool) {
        let marker = codec::marker(commit, producer.0, producer.1, 0, self.now_ms());
        self.append_to_offsets(group, &marker);
    }

    /// Forgets the commits of a group that `gone` names, and writes their tombstones.
    pub(crate) fn remove_offsets(
        &mut self,
        group: &str,
        gone: impl Fn(&str, i32, &Committed) -> bool,
    ) {
        let version = self.options.version;
        let Some(found) = self.groups.get_mut(group) else { return };
        let mut log = GroupLog::of(group);
        found.offsets.retain(|(topic, partition), committed| {
            let goes = gone(topic, *partition, committed);
            if goes {
                log.commit((topic, *partition), None, version);
            }
            !goes
        });
        self.log_group(log);
    }

    /// Appends to the group's partition; the topic is made by the first record, as in Kafka.
    fn append_to_offsets(&mut self, group: &str, batch: &Bytes) {
        if !self.topics.contains_key(OFFSETS_TOPIC) {
            let configs = [("cleanup.policy", "compact"), ("segment.bytes", "104857600")];
            let configs = configs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            if self.create_topic(OFFSETS_TOPIC, COORDINATOR_SLOTS as i32, -1, configs).is_err() {
                return; // too few brokers are alive: the state alone remembers the commit
            }
        }
        let partition = slot(group) as i32;
        let Some(found) = self.partition_mut(OFFSETS_TOPIC, partition) else { return };
        if found.leader.is_none() {
            return;
        }
        let epoch = found.epoch;
        found.authority_mut().log.append(batch, epoch);
        self.replicate(OFFSETS_TOPIC, partition);
    }
}
