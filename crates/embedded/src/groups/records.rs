//! The records that group coordinators write about groups, as Kafka's consumers of
//! `__consumer_offsets` read them: keys and values with the versions that 4.3 writes.
//!
//! Only writes. Groups live in the state; nothing is read back from the topic. The hash of a
//! group's topics is a number that nobody can check from outside, so it is computed another way
//! than Kafka computes it.
//!
//! References: the schemas below `group-coordinator/src/main/resources/common/message` of Apache
//! Kafka (`OffsetCommitKey.json` and so on), KIP-848, KIP-1251 (assignment epochs), KIP-1263
//! (assignment timestamp).

use bytes::{BufMut, Bytes, BytesMut};

use super::consumer::Subscription;
use super::reconcile::{Held, Partitions, Place};
use super::{CLIENT_HOST, Committed, Group};
use crate::options::KafkaVersion;

const OFFSET_COMMIT: i16 = 1;
const CLASSIC_GROUP: i16 = 2;
const CONSUMER_GROUP: i16 = 3;
const CONSUMER_PARTITIONS: i16 = 4;
const CONSUMER_MEMBER: i16 = 5;
const TARGET_EPOCH: i16 = 6;
const TARGET_OF_MEMBER: i16 = 7;
const CURRENT_OF_MEMBER: i16 = 8;
const REGULAR_EXPRESSION: i16 = 16;

/// Key and value of a record; without a value it is a tombstone.
pub(crate) type GroupRecord = (Bytes, Option<Bytes>);

/// Records of one group that are written together.
#[derive(Debug)]
pub(crate) struct GroupLog {
    pub group: String,
    pub records: Vec<GroupRecord>,
}

impl GroupLog {
    pub(crate) fn of(group: &str) -> Self {
        Self { group: group.to_owned(), records: Vec::new() }
    }

    fn key(&self, version: i16, second: Option<&str>) -> BytesMut {
        let mut key = BytesMut::new();
        key.put_i16(version);
        put_string(&mut key, &self.group);
        if let Some(second) = second {
            put_string(&mut key, second);
        }
        key
    }

    fn put(&mut self, version: i16, second: Option<&str>, value: Option<BytesMut>) {
        let key = self.key(version, second).freeze();
        self.records.push((key, value.map(BytesMut::freeze)));
    }

    /// An offset commit, or with `None` its tombstone. `id` is the topic's.
    pub(crate) fn commit(
        &mut self,
        (topic, partition): (&str, i32),
        committed: Option<(&Committed, [u8; 16])>,
        version: KafkaVersion,
    ) {
        let mut key = self.key(OFFSET_COMMIT, Some(topic));
        key.put_i32(partition);
        let value = committed.map(|(committed, id)| match version {
            KafkaVersion::V3_9 => commit_value_3(committed),
            KafkaVersion::V4_3 => commit_value_4(committed, id),
        });
        self.records.push((key.freeze(), value.map(BytesMut::freeze)));
    }

    /// A group under the classic protocol: its generation and who was assigned what.
    pub(crate) fn classic(&mut self, group: &Group, now_ms: i64) {
        let mut value = BytesMut::new();
        value.put_i16(3);
        put_string(&mut value, &group.protocol_type);
        value.put_i32(group.generation);
        let protocol = (!group.members.is_empty()).then_some(group.protocol.as_str());
        put_nullable(&mut value, protocol);
        put_nullable(&mut value, protocol.map(|_| group.leader.as_str()));
        value.put_i64(now_ms);
        value.put_i32(group.members.len() as i32);
        for (id, member) in &group.members {
            put_string(&mut value, id);
            put_nullable(&mut value, member.instance.as_deref());
            put_string(&mut value, &member.client_id);
            put_string(&mut value, CLIENT_HOST);
            value.put_i32(member.rebalance.as_millis() as i32);
            value.put_i32(member.session.as_millis() as i32);
            let metadata = member.metadata(&group.protocol);
            value.put_i32(metadata.len() as i32);
            value.put_slice(&metadata);
            value.put_i32(member.assignment.len() as i32);
            value.put_slice(&member.assignment);
        }
        self.put(CLASSIC_GROUP, None, Some(value));
    }

    pub(crate) fn classic_gone(&mut self) {
        self.put(CLASSIC_GROUP, None, None);
    }

    /// The epoch of a consumer group, and a hash of the topics it reads.
    pub(crate) fn epoch(&mut self, epoch: i32, topics_hash: u64) {
        let mut value = flexible();
        value.put_i32(epoch);
        if topics_hash == 0 {
            value.put_u8(0);
        } else {
            value.put_slice(&[1, 0, 8]); // one tagged field, number 0, 8 bytes
            value.put_u64(topics_hash);
        }
        self.put(CONSUMER_GROUP, None, Some(value));
    }

    /// What a member told of itself.
    pub(crate) fn member(&mut self, member: &str, told: &Subscription) {
        let mut value = flexible();
        put_compact_nullable(&mut value, told.instance.as_deref());
        put_compact_nullable(&mut value, told.rack.as_deref());
        put_compact(&mut value, &told.client_id);
        put_compact(&mut value, CLIENT_HOST);
        put_unsigned(&mut value, told.topics.len() as u32 + 1);
        for topic in &told.topics {
            put_compact(&mut value, topic);
        }
        put_compact(&mut value, &told.regex);
        value.put_i32(told.rebalance_ms);
        put_compact_nullable(&mut value, told.assignor.as_deref());
        value.put_slice(&[1, 0, 1, 0]); // tagged field 0, the classic member's metadata: null
        self.put(CONSUMER_MEMBER, Some(member), Some(value));
    }

    /// What a member shall have.
    pub(crate) fn target(&mut self, member: &str, partitions: &Partitions) {
        let mut value = flexible();
        let topics = by_topic(partitions.iter().map(|&(topic, partition)| (topic, partition, 0)));
        put_unsigned(&mut value, topics.len() as u32 + 1);
        for (topic, partitions) in topics {
            put_topic(&mut value, topic, &partitions);
            value.put_u8(0);
        }
        value.put_u8(0);
        self.put(TARGET_OF_MEMBER, Some(member), Some(value));
    }

    /// All targets up to here are of this epoch.
    pub(crate) fn target_epoch(&mut self, epoch: i32, now_ms: i64) {
        let mut value = flexible();
        value.put_i32(epoch);
        value.put_slice(&[1, 0, 8]);
        value.put_i64(now_ms);
        self.put(TARGET_EPOCH, None, Some(value));
    }

    /// What a member has.
    pub(crate) fn place(&mut self, member: &str, place: &Place) {
        let mut value = flexible();
        value.put_i32(place.epoch);
        value.put_i32(place.previous_epoch);
        value.put_i8(place.progress as i8);
        put_held(&mut value, &place.assigned);
        put_held(&mut value, &place.revoking);
        value.put_u8(0);
        self.put(CURRENT_OF_MEMBER, Some(member), Some(value));
    }

    pub(crate) fn member_gone(&mut self, member: &str) {
        for version in [CURRENT_OF_MEMBER, TARGET_OF_MEMBER, CONSUMER_MEMBER] {
            self.put(version, Some(member), None);
        }
    }

    /// The topics that a regular expression matched, or with `None` its tombstone.
    pub(crate) fn regex<'a>(
        &mut self,
        regex: &str,
        topics: Option<impl ExactSizeIterator<Item = &'a String>>,
        now_ms: i64,
    ) {
        let value = topics.map(|topics| {
            let mut value = flexible();
            put_unsigned(&mut value, topics.len() as u32 + 1);
            for topic in topics {
                put_compact(&mut value, topic);
            }
            value.put_i64(now_ms); // a version of the cluster's metadata; grows like Kafka's
            value.put_i64(now_ms);
            value.put_u8(0);
            value
        });
        self.put(REGULAR_EXPRESSION, Some(regex), value);
    }

    pub(crate) fn consumer_gone(&mut self) {
        for version in [TARGET_EPOCH, CONSUMER_PARTITIONS, CONSUMER_GROUP] {
            self.put(version, None, None);
        }
    }
}

/// A value of version 0, which is a flexible one.
fn flexible() -> BytesMut {
    let mut value = BytesMut::new();
    value.put_i16(0);
    value
}

fn commit_value_3(committed: &Committed) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i16(3);
    out.put_i64(committed.offset);
    out.put_i32(committed.leader_epoch);
    put_string(&mut out, &committed.metadata);
    out.put_i64(committed.at_ms);
    out
}

/// The flexible encoding, with the topic's id as tagged field 0.
fn commit_value_4(committed: &Committed, topic: [u8; 16]) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i16(4);
    out.put_i64(committed.offset);
    out.put_i32(committed.leader_epoch);
    put_compact(&mut out, &committed.metadata);
    out.put_i64(committed.at_ms);
    if topic == [0; 16] {
        out.put_u8(0);
    } else {
        out.put_slice(&[1, 0, 16]); // one tagged field, number 0, 16 bytes
        out.put_slice(&topic);
    }
    out
}

/// A topic, its partitions, and for each the epoch in which it was assigned.
type OfTopic = ([u8; 16], Vec<(i32, i32)>);

fn by_topic(slots: impl Iterator<Item = ([u8; 16], i32, i32)>) -> Vec<OfTopic> {
    let mut topics: Vec<OfTopic> = Vec::new();
    for (topic, partition, epoch) in slots {
        match topics.last_mut().filter(|(known, _)| *known == topic) {
            Some((_, partitions)) => partitions.push((partition, epoch)),
            None => topics.push((topic, vec![(partition, epoch)])),
        }
    }
    topics
}

fn put_topic(out: &mut BytesMut, topic: [u8; 16], partitions: &[(i32, i32)]) {
    out.put_slice(&topic);
    put_unsigned(out, partitions.len() as u32 + 1);
    for (partition, _) in partitions {
        out.put_i32(*partition);
    }
}

fn put_held(out: &mut BytesMut, held: &Held) {
    let topics = by_topic(held.iter().map(|(&(topic, partition), &e)| (topic, partition, e)));
    put_unsigned(out, topics.len() as u32 + 1);
    for (topic, partitions) in topics {
        put_topic(out, topic, &partitions);
        let mut epochs = BytesMut::new();
        put_unsigned(&mut epochs, partitions.len() as u32 + 1);
        for (_, epoch) in &partitions {
            epochs.put_i32(*epoch);
        }
        out.put_slice(&[1, 0]); // tagged field 0: the epochs
        put_unsigned(out, epochs.len() as u32);
        out.put_slice(&epochs);
    }
}

fn put_string(out: &mut BytesMut, text: &str) {
    out.put_i16(text.len() as i16);
    out.put_slice(text.as_bytes());
}

fn put_nullable(out: &mut BytesMut, text: Option<&str>) {
    match text {
        Some(text) => put_string(out, text),
        None => out.put_i16(-1),
    }
}

fn put_compact(out: &mut BytesMut, text: &str) {
    put_unsigned(out, text.len() as u32 + 1);
    out.put_slice(text.as_bytes());
}

fn put_compact_nullable(out: &mut BytesMut, text: Option<&str>) {
    match text {
        Some(text) => put_compact(out, text),
        None => out.put_u8(0),
    }
}

fn put_unsigned(out: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}
