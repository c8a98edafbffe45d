//! The records that MM2 keeps about a flow, byte for byte: offset syncs, checkpoints, heartbeats.
//!
//! Does not: name the topics (see [`Policy`](crate::Policy)).
//!
//! Everything is big-endian; a string is a signed 16-bit length and UTF-8. Like Kafka's own
//! readers these ignore bytes that follow the last field. Unlike them they refuse a version that
//! is not 0 and a missing key or value instead of failing on it later. `Display` is the text that
//! MM2's formatters print.
//!
//! References: `OffsetSync`, `Checkpoint`, `Heartbeat` in `connect/mirror` and `mirror-client`,
//! and the formatters in `org.apache.kafka.connect.mirror.formatters`.

pub mod connect;
pub mod group_log;

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use twinlog_types::{ClusterAlias, GroupId, Partition, TopicName};

/// The only version of checkpoint and heartbeat values there is.
const VERSION: i16 = 0;

/// Why a record cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// The record has no key.
    #[error("{record} record has no key")]
    NoKey {
        /// What kind of record it is.
        record: &'static str,
    },
    /// The record has no value: it deletes what its key names.
    #[error("{record} record has no value (a tombstone)")]
    NoValue {
        /// What kind of record it is.
        record: &'static str,
    },
    /// The bytes end within a field.
    #[error("{record} record ends within its field {field}")]
    Short {
        /// What kind of record it is.
        record: &'static str,
        /// The field that is cut off.
        field: &'static str,
    },
    /// A string is not UTF-8 or its length is negative.
    #[error("field {field} of the {record} record is not a string")]
    NotAString {
        /// What kind of record it is.
        record: &'static str,
        /// The field.
        field: &'static str,
    },
    /// The value has a version that is not known.
    #[error("{record} record has version {version}, the newest known is {newest}")]
    Version {
        /// What kind of record it is.
        record: &'static str,
        /// The version it has.
        version: i16,
        /// The newest version that can be read.
        newest: i16,
    },
    /// The key is of a kind that is not known.
    #[error("{record} record is of kind {kind}, which is not known")]
    Kind {
        /// What kind of log it is in.
        record: &'static str,
        /// The number that the key begins with.
        kind: i16,
    },
}

/// A pair of positions of one partition that mean the same: the record at `upstream` on the source
/// is the record at `downstream` on the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffsetSync {
    /// The topic's name on the source.
    pub topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// The offset on the source.
    pub upstream: i64,
    /// The offset on the target.
    pub downstream: i64,
}

impl OffsetSync {
    const RECORD: &'static str = "offset-sync";

    /// The record's key.
    pub fn key(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(6 + self.topic.as_str().len());
        put_string(&mut out, self.topic.as_str());
        out.put_i32(self.partition);
        out.freeze()
    }

    /// The record's value.
    pub fn value(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(16);
        out.put_i64(self.upstream);
        out.put_i64(self.downstream);
        out.freeze()
    }

    /// Reads a record.
    pub fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Self, FormatError> {
        let (topic, partition) = Self::decode_key(key)?;
        let mut value = value_fields(Self::RECORD, value)?;
        Ok(Self {
            topic,
            partition,
            upstream: value.i64("upstreamOffset")?,
            downstream: value.i64("offset")?,
        })
    }

    /// Reads a record's key: topic and partition.
    pub fn decode_key(key: Option<&[u8]>) -> Result<(TopicName, Partition), FormatError> {
        let mut key = key_fields(Self::RECORD, key)?;
        Ok((key.string("topic")?.into(), key.i32("partition")?))
    }
}

impl fmt::Display for OffsetSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, partition, upstream, downstream } = self;
        write!(
            f,
            "OffsetSync{{topicPartition={topic}-{partition}, upstreamOffset={upstream}, \
             downstreamOffset={downstream}}}"
        )
    }
}

/// A consumer group's position on both sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The group.
    pub group: GroupId,
    /// The topic's name on the **target**.
    pub topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// The position committed on the source.
    pub upstream: i64,
    /// The position it means on the target.
    pub downstream: i64,
    /// The metadata of the source's commit, empty when it has none.
    pub metadata: String,
}

impl Checkpoint {
    const RECORD: &'static str = "checkpoint";

    /// The record's key.
    pub fn key(&self) -> Bytes {
        let (group, topic) = (self.group.as_str(), self.topic.as_str());
        let mut out = BytesMut::with_capacity(8 + group.len() + topic.len());
        put_string(&mut out, group);
        put_string(&mut out, topic);
        out.put_i32(self.partition);
        out.freeze()
    }

    /// The record's value.
    pub fn value(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(20 + self.metadata.len());
        out.put_i16(VERSION);
        out.put_i64(self.upstream);
        out.put_i64(self.downstream);
        put_string(&mut out, &self.metadata);
        out.freeze()
    }

    /// Reads a record.
    pub fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Self, FormatError> {
        let (group, topic, partition) = Self::decode_key(key)?;
        let mut value = value_fields(Self::RECORD, value)?;
        value.version()?;
        Ok(Self {
            group,
            topic,
            partition,
            upstream: value.i64("upstreamOffset")?,
            downstream: value.i64("offset")?,
            metadata: value.string("metadata")?,
        })
    }

    /// Reads a record's key: group, topic on the target, partition.
    pub fn decode_key(key: Option<&[u8]>) -> Result<(GroupId, TopicName, Partition), FormatError> {
        let mut key = key_fields(Self::RECORD, key)?;
        Ok((key.string("group")?.into(), key.string("topic")?.into(), key.i32("partition")?))
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, topic, partition, upstream, downstream, metadata } = self;
        write!(
            f,
            "Checkpoint{{consumerGroupId={group}, topicPartition={topic}-{partition}, \
             upstreamOffset={upstream}, downstreamOffset={downstream}, metadata={metadata}}}"
        )
    }
}

/// A sign of life of a flow, written to the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The source's alias.
    pub source: ClusterAlias,
    /// The target's alias.
    pub target: ClusterAlias,
    /// When it was written, in milliseconds since 1970; the record's own timestamp too.
    pub timestamp_ms: i64,
}

impl Heartbeat {
    const RECORD: &'static str = "heartbeat";

    /// The record's key.
    pub fn key(&self) -> Bytes {
        let (source, target) = (self.source.as_str(), self.target.as_str());
        let mut out = BytesMut::with_capacity(4 + source.len() + target.len());
        put_string(&mut out, source);
        put_string(&mut out, target);
        out.freeze()
    }

    /// The record's value.
    pub fn value(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(10);
        out.put_i16(VERSION);
        out.put_i64(self.timestamp_ms);
        out.freeze()
    }

    /// Reads a record.
    pub fn decode(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Self, FormatError> {
        let (source, target) = Self::decode_key(key)?;
        let mut value = value_fields(Self::RECORD, value)?;
        value.version()?;
        Ok(Self { source, target, timestamp_ms: value.i64("timestamp")? })
    }

    /// Reads a record's key: the aliases of source and target.
    pub fn decode_key(key: Option<&[u8]>) -> Result<(ClusterAlias, ClusterAlias), FormatError> {
        let mut key = key_fields(Self::RECORD, key)?;
        let source = key.string("sourceClusterAlias")?.into();
        Ok((source, key.string("targetClusterAlias")?.into()))
    }
}

impl fmt::Display for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, target, timestamp_ms } = self;
        write!(
            f,
            "Heartbeat{{sourceClusterAlias={source}, targetClusterAlias={target}, \
             timestamp={timestamp_ms}}}"
        )
    }
}

/// Writes a string. The protocol has no longer ones than 32,767 bytes; Kafka's own limits on names
/// (249) and on commit metadata (4,096 by default) stay below, and what is longer all the same is
/// cut at a character so that the record stays readable.
fn put_string(out: &mut BytesMut, text: &str) {
    let text = &text[..text.floor_char_boundary(i16::MAX as usize)];
    out.put_i16(text.len() as i16);
    out.put_slice(text.as_bytes());
}

struct Fields<'a> {
    record: &'static str,
    bytes: &'a [u8],
}

fn key_fields<'a>(record: &'static str, key: Option<&'a [u8]>) -> Result<Fields<'a>, FormatError> {
    let bytes = key.ok_or(FormatError::NoKey { record })?;
    Ok(Fields { record, bytes })
}

fn value_fields<'a>(
    record: &'static str,
    value: Option<&'a [u8]>,
) -> Result<Fields<'a>, FormatError> {
    let bytes = value.ok_or(FormatError::NoValue { record })?;
    Ok(Fields { record, bytes })
}

impl Fields<'_> {
    fn short(&self, field: &'static str) -> FormatError {
        FormatError::Short { record: self.record, field }
    }

    fn version(&mut self) -> Result<(), FormatError> {
        match self.bytes.try_get_i16().map_err(|_| self.short("version"))? {
            VERSION => Ok(()),
            version => Err(FormatError::Version { record: self.record, version, newest: VERSION }),
        }
    }

    fn i32(&mut self, field: &'static str) -> Result<i32, FormatError> {
        self.bytes.try_get_i32().map_err(|_| self.short(field))
    }

    fn i64(&mut self, field: &'static str) -> Result<i64, FormatError> {
        self.bytes.try_get_i64().map_err(|_| self.short(field))
    }

    fn string(&mut self, field: &'static str) -> Result<String, FormatError> {
        let length = self.bytes.try_get_i16().map_err(|_| self.short(field))?;
        let length = usize::try_from(length).map_err(|_| self.not_a_string(field))?;
        self.text(length, field)
    }

    fn text(&mut self, length: usize, field: &'static str) -> Result<String, FormatError> {
        let text = self.take(length, field)?;
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| self.not_a_string(field))
    }

    fn not_a_string(&self, field: &'static str) -> FormatError {
        FormatError::NotAString { record: self.record, field }
    }
}

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], FormatError> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(self.short(field))?;
        self.bytes = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).expect("four bits");
        bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    // The expected bytes were read back from clusters on which MirrorMaker 2 4.3.0 had run.

    #[test]
    fn an_offset_sync_has_mm2s_bytes() {
        let sync =
            OffsetSync { topic: "orders".into(), partition: 0, upstream: 101, downstream: 101 };
        assert_eq!(hex(&sync.key()), "00066f726465727300000000");
        assert_eq!(hex(&sync.value()), "00000000000000650000000000000065");
        assert_eq!(OffsetSync::decode(Some(&sync.key()), Some(&sync.value())), Ok(sync));
    }

    #[test]
    fn a_checkpoint_has_mm2s_bytes() {
        let with_metadata = Checkpoint {
            group: "g-orders".into(),
            topic: "hello.orders".into(),
            partition: 0,
            upstream: 250,
            downstream: 250,
            metadata: "meta-1".into(),
        };
        assert_eq!(
            hex(&with_metadata.key()),
            "0008672d6f7264657273000c68656c6c6f2e6f726465727300000000"
        );
        assert_eq!(
            hex(&with_metadata.value()),
            "000000000000000000fa00000000000000fa00066d6574612d31"
        );
        let without = Checkpoint {
            group: "g-mid".into(),
            upstream: 100,
            downstream: 1,
            metadata: String::new(),
            ..with_metadata.clone()
        };
        assert_eq!(hex(&without.key()), "0005672d6d6964000c68656c6c6f2e6f726465727300000000");
        assert_eq!(hex(&without.value()), "0000000000000000006400000000000000010000");
        for checkpoint in [with_metadata, without] {
            let decoded = Checkpoint::decode(Some(&checkpoint.key()), Some(&checkpoint.value()));
            assert_eq!(decoded, Ok(checkpoint));
        }
    }

    #[test]
    fn a_heartbeat_has_mm2s_bytes() {
        let heartbeat = Heartbeat {
            source: "hello".into(),
            target: "world".into(),
            timestamp_ms: 1_795_971_649_753,
        };
        assert_eq!(hex(&heartbeat.key()), "000568656c6c6f0005776f726c64");
        assert_eq!(hex(&heartbeat.value()), "0000000001a2284090d9");
        let decoded = Heartbeat::decode(Some(&heartbeat.key()), Some(&heartbeat.value()));
        assert_eq!(decoded, Ok(heartbeat));
    }

    // What the formatters of Apache Kafka 4.3.0 print for these records.
    #[test]
    fn records_print_as_mm2s_formatters_print_them() {
        let sync = OffsetSync { topic: "a.b".into(), partition: 3, upstream: 101, downstream: -1 };
        assert_eq!(
            sync.to_string(),
            "OffsetSync{topicPartition=a.b-3, upstreamOffset=101, downstreamOffset=-1}"
        );
        let checkpoint = Checkpoint {
            group: "g-orders".into(),
            topic: "hello.orders".into(),
            partition: 0,
            upstream: 250,
            downstream: 251,
            metadata: "meta-1".into(),
        };
        assert_eq!(
            checkpoint.to_string(),
            "Checkpoint{consumerGroupId=g-orders, topicPartition=hello.orders-0, \
             upstreamOffset=250, downstreamOffset=251, metadata=meta-1}"
        );
        let bare = Checkpoint { metadata: String::new(), ..checkpoint };
        assert!(bare.to_string().ends_with(", metadata=}"));
        let heartbeat = Heartbeat {
            source: "hello".into(),
            target: "world".into(),
            timestamp_ms: 1_795_971_649_753,
        };
        assert_eq!(
            heartbeat.to_string(),
            "Heartbeat{sourceClusterAlias=hello, targetClusterAlias=world, timestamp=1795971649753}"
        );
    }

    #[test]
    fn every_cut_of_a_record_is_an_error_and_trailing_bytes_are_not() {
        let checkpoint = Checkpoint {
            group: "g".into(),
            topic: "t".into(),
            partition: 7,
            upstream: 1,
            downstream: 2,
            metadata: "m".into(),
        };
        let (key, value) = (checkpoint.key(), checkpoint.value());
        for end in 0..key.len() {
            assert!(Checkpoint::decode(Some(&key[..end]), Some(&value)).is_err());
        }
        for end in 0..value.len() {
            assert!(Checkpoint::decode(Some(&key), Some(&value[..end])).is_err());
        }
        let longer = [&value[..], b"more"].concat();
        assert_eq!(Checkpoint::decode(Some(&key), Some(&longer)), Ok(checkpoint));
    }

    #[test]
    fn tombstones_foreign_versions_and_bad_strings_are_named() {
        let record = "heartbeat";
        let key: &[u8] = b"\0\x01A\0\x01B";
        assert_eq!(Heartbeat::decode(None, Some(b"")), Err(FormatError::NoKey { record }));
        assert_eq!(Heartbeat::decode(Some(key), None), Err(FormatError::NoValue { record }));
        assert_eq!(
            Heartbeat::decode(Some(key), Some(b"\0\x01\0\0\0\0\0\0\0\0")),
            Err(FormatError::Version { record, version: 1, newest: 0 })
        );
        let value: &[u8] = &[0; 10];
        let field = "sourceClusterAlias";
        for key in [&b"\xff\xff"[..], b"\0\x01\xff"] {
            assert_eq!(
                Heartbeat::decode(Some(key), Some(value)),
                Err(FormatError::NotAString { record, field })
            );
        }
    }

    #[test]
    fn a_string_that_is_too_long_is_cut_at_a_character() {
        let checkpoint = Checkpoint {
            group: "g".into(),
            topic: "t".into(),
            partition: 0,
            upstream: 0,
            downstream: 0,
            metadata: "é".repeat(20_000),
        };
        let decoded = Checkpoint::decode(Some(&checkpoint.key()), Some(&checkpoint.value()))
            .expect("readable");
        assert_eq!(decoded.metadata, "é".repeat(16_383));
    }
}
