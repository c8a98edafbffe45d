//! What group coordinators write to `__consumer_offsets`: offset commits and their tombstones.
//!
//! A follower of that topic sees what it would see of Kafka: key version 1, value version 4 (3 on
//! 3.9), transactional commits in transactional batches with a marker behind them. Records about
//! group metadata and members are not written; a follower must skip those anyway. Nothing is read
//! back from the topic: groups live in the state.
//!
//! References: `OffsetCommitKey.json`, `OffsetCommitValue.json` of Kafka's group coordinator.

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::{self, Frame, RawRecord};
use crate::groups::Committed;
use crate::options::KafkaVersion;
use crate::state::{COORDINATOR_SLOTS, State, slot};

/// The topic's name.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

impl State {
    /// Writes a commit, or with `None` its tombstone; inside a transaction of `producer`.
    pub(crate) fn log_commit(
        &mut self,
        group: &str,
        (topic, partition): (&str, i32),
        committed: Option<&Committed>,
        producer: Option<(i64, i16)>,
    ) {
        let id = self.topics.get(topic).map_or([0; 16], |topic| topic.id);
        let record = RawRecord {
            offset_delta: 0,
            timestamp: self.now_ms(),
            key: Some(key(group, topic, partition)),
            value: committed.map(|committed| match self.options.version {
                KafkaVersion::V3_9 => value_3(committed),
                KafkaVersion::V4_3 => value_4(committed, id),
            }),
            headers: Vec::new(),
        };
        let mut frame = Frame::plain(1);
        if let Some((producer_id, epoch)) = producer {
            frame = frame.transactional();
            frame.producer_id = producer_id;
            frame.producer_epoch = epoch;
        }
        self.append_to_offsets(group, &codec::encode(frame, &[record]));
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
        let Some(found) = self.groups.get_mut(group) else { return };
        let keys: Vec<(String, i32)> = found
            .offsets
            .iter()
            .filter(|((topic, partition), committed)| gone(topic, *partition, committed))
            .map(|(key, _)| key.clone())
            .collect();
        for (topic, partition) in keys {
            if let Some(found) = self.groups.get_mut(group) {
                found.offsets.remove(&(topic.clone(), partition));
            }
            self.log_commit(group, (&topic, partition), None, None);
        }
    }

    /// Appends to the group's partition; the topic is made by the first commit, as in Kafka.
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

fn put_string(out: &mut BytesMut, text: &str) {
    out.put_i16(text.len() as i16);
    out.put_slice(text.as_bytes());
}

fn key(group: &str, topic: &str, partition: i32) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(1);
    put_string(&mut out, group);
    put_string(&mut out, topic);
    out.put_i32(partition);
    out.freeze()
}

fn value_3(committed: &Committed) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(3);
    out.put_i64(committed.offset);
    out.put_i32(committed.leader_epoch);
    put_string(&mut out, &committed.metadata);
    out.put_i64(committed.at_ms);
    out.freeze()
}

/// The flexible encoding, with the topic's id as tagged field 0.
fn value_4(committed: &Committed, topic: [u8; 16]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(4);
    out.put_i64(committed.offset);
    out.put_i32(committed.leader_epoch);
    put_unsigned(&mut out, committed.metadata.len() as u32 + 1);
    out.put_slice(committed.metadata.as_bytes());
    out.put_i64(committed.at_ms);
    if topic == [0; 16] {
        out.put_u8(0);
    } else {
        out.put_slice(&[1, 0, 16]); // one tagged field, number 0, 16 bytes
        out.put_slice(&topic);
    }
    out.freeze()
}

fn put_unsigned(out: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}
