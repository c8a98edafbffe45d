//! What Kafka Connect keeps for MM2: how far each partition is copied, and who copies.
//!
//! The records of the topic `mm2-offsets.<source>.internal` (of a Connect cluster: its
//! `offset.storage.topic`), and what a worker's group says of its members' tasks.
//!
//! References: `MirrorUtils.wrapPartition`, `OffsetStorageWriter`, `KafkaOffsetBackingStore`,
//! `IncrementalCooperativeConnectProtocol`; Kafka's `Utils.murmur2`.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;
use twinlog_types::{ClusterAlias, Partition, TopicName};

use super::{Fields, FormatError};

/// The name of the connector that copies records, in dedicated mode.
pub const SOURCE_CONNECTOR: &str = "MirrorSourceConnector";

/// How far a connector has copied a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyPosition {
    /// The connector's name: [`SOURCE_CONNECTOR`] in dedicated mode, chosen by the operator on a
    /// Connect cluster.
    pub connector: String,
    /// The source's alias.
    pub cluster: ClusterAlias,
    /// The topic on the source.
    pub topic: TopicName,
    /// The partition.
    pub partition: Partition,
}

impl CopyPosition {
    /// The record's key, byte for byte as Connect writes it: a compacted topic tells keys apart by
    /// their bytes.
    pub fn key(&self) -> Bytes {
        let text = |text: &str| Value::from(text).to_string();
        let Self { connector, cluster, topic, partition } = self;
        format!(
            r#"[{},{{"cluster":{},"partition":{partition},"topic":{}}}]"#,
            text(connector),
            text(cluster.as_str()),
            text(topic.as_str())
        )
        .into()
    }

    /// The value of a record that says that `last` is the last record copied.
    pub fn value(last: i64) -> Bytes {
        format!(r#"{{"offset":{last}}}"#).into()
    }

    /// Reads a key. `None` when it is about something else than a copied partition: groups,
    /// heartbeats, and other connectors have records in the same topic.
    pub fn decode_key(key: Option<&[u8]>) -> Option<Self> {
        let key: Value = serde_json::from_slice(key?).ok()?;
        let [connector, about] = key.as_array()?.as_slice() else { return None };
        let about = about.as_object().filter(|about| about.len() == 3)?;
        let text = |key: &str| about.get(key)?.as_str();
        let partition = about.get("partition")?.as_i64()?;
        Some(Self {
            connector: connector.as_str()?.to_owned(),
            cluster: text("cluster")?.into(),
            topic: text("topic")?.into(),
            partition: Partition::try_from(partition).ok().filter(|&partition| partition >= 0)?,
        })
    }

    /// Reads a value: the last source offset copied. `None` for a position that was removed
    /// (a tombstone, or `null` in its place) or is none.
    pub fn decode_value(value: Option<&[u8]>) -> Option<i64> {
        let value: Value = serde_json::from_slice(value?).ok()?;
        value.get("offset")?.as_i64().filter(|&offset| offset >= 0)
    }
}

/// The partition that Kafka's producers choose for a key, of so many: positive murmur2.
pub fn partition_of_key(key: &[u8], partitions: Partition) -> Partition {
    ((murmur2(key) & 0x7fff_ffff) % partitions.max(1).unsigned_abs()) as Partition
}

fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (index, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The connectors that have tasks of their own on a member of a worker group, by its assignment as
/// the group describes it. A stopped connector has none.
///
/// # Errors
///
/// When the bytes are no assignment of Connect's protocol.
pub fn running_connectors(assignment: &[u8]) -> Result<BTreeSet<String>, FormatError> {
    const RECORD: &str = "Connect assignment";
    let mut running = BTreeSet::new();
    let mut fields = Fields { record: RECORD, bytes: assignment };
    if assignment.is_empty() {
        return Ok(running);
    }
    let short = |field| FormatError::Short { record: RECORD, field };
    fields.i16("version")?;
    fields.i16("error")?;
    fields.string("leader")?;
    fields.string("leader-url")?;
    fields.i64("config-offset")?;
    // A null list is an empty one.
    for _ in 0..fields.i32("assignment")?.max(0) {
        let connector = fields.string("connector")?;
        let tasks = usize::try_from(fields.i32("tasks")?).map_err(|_| short("tasks"))?;
        for _ in 0..tasks {
            // Task -1 is the connector itself.
            if fields.i32("task")? >= 0 {
                running.insert(connector.clone());
            }
        }
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;

    fn position(topic: &str, partition: Partition) -> CopyPosition {
        let (connector, cluster) = (SOURCE_CONNECTOR.to_owned(), "hello".into());
        CopyPosition { connector, cluster, topic: topic.into(), partition }
    }

    #[test]
    fn keys_are_byte_for_byte_those_of_mm2_and_lie_where_it_puts_them() {
        // As MirrorMaker 2 4.3.0 wrote them into a topic of 25 partitions.
        for (topic, partition, key, place) in [
            (
                "orders",
                0,
                r#"["MirrorSourceConnector",{"cluster":"hello","partition":0,"topic":"orders"}]"#,
                20,
            ),
            (
                "orders",
                1,
                r#"["MirrorSourceConnector",{"cluster":"hello","partition":1,"topic":"orders"}]"#,
                3,
            ),
            (
                "a.b",
                0,
                r#"["MirrorSourceConnector",{"cluster":"hello","partition":0,"topic":"a.b"}]"#,
                1,
            ),
            (
                "x.internal",
                0,
                r#"["MirrorSourceConnector",{"cluster":"hello","partition":0,"topic":"x.internal"}]"#,
                1,
            ),
            (
                "prices",
                0,
                r#"["MirrorSourceConnector",{"cluster":"hello","partition":0,"topic":"prices"}]"#,
                7,
            ),
            (
                "heartbeats",
                0,
                r#"["MirrorSourceConnector",{"cluster":"hello","partition":0,"topic":"heartbeats"}]"#,
                22,
            ),
        ] {
            let position = position(topic, partition);
            assert_eq!(position.key(), key);
            assert_eq!(partition_of_key(key.as_bytes(), 25), place, "{key}");
            assert_eq!(CopyPosition::decode_key(Some(key.as_bytes())), Some(position));
        }
        assert_eq!(CopyPosition::value(249), r#"{"offset":249}"#);
    }

    #[test]
    fn only_what_names_a_partition_of_a_cluster_is_a_position() {
        let key = |key: &str| CopyPosition::decode_key(Some(key.as_bytes()));
        assert_eq!(
            key(
                r#"["MirrorCheckpointConnector",{"partition":0,"topic":"hello.orders","group":"g"}]"#
            ),
            None
        );
        assert_eq!(
            key(
                r#"["MirrorHeartbeatConnector",{"sourceClusterAlias":"hello","targetClusterAlias":"world"}]"#
            ),
            None
        );
        assert_eq!(key(r#"["files",{"filename":"a.txt"}]"#), None);
        assert_eq!(key("not json"), None);
        assert_eq!(CopyPosition::decode_key(None), None);
        // On a Connect cluster the operator names the connector.
        let named = key(r#"["my-mm2",{"cluster":"hello","partition":0,"topic":"orders"}]"#);
        assert_eq!(named.map(|position| position.connector), Some("my-mm2".to_owned()));
    }

    #[test]
    fn a_position_that_was_removed_is_none() {
        let value = |value: &str| CopyPosition::decode_value(Some(value.as_bytes()));
        assert_eq!(value(r#"{"offset":249}"#), Some(249));
        for none in ["null", "{}", r#"{"offset":null}"#, r#"{"offset":-1}"#, "x"] {
            assert_eq!(value(none), None, "{none}");
        }
        assert_eq!(CopyPosition::decode_value(None), None);
    }

    #[test]
    fn a_members_tasks_name_its_running_connectors() {
        let mut assignment = Vec::new();
        let text = |out: &mut Vec<u8>, text: &str| {
            out.put_i16(text.len() as i16);
            out.put_slice(text.as_bytes());
        };
        assignment.put_i16(1);
        assignment.put_i16(0);
        text(&mut assignment, "connect-1");
        text(&mut assignment, "http://localhost:8083/");
        assignment.put_i64(12);
        assignment.put_i32(2);
        text(&mut assignment, "my-mm2");
        assignment.put_i32(2);
        assignment.put_i32(-1);
        assignment.put_i32(0);
        text(&mut assignment, "stopped");
        assignment.put_i32(1);
        assignment.put_i32(-1);
        assert_eq!(running_connectors(&assignment), Ok(BTreeSet::from(["my-mm2".to_owned()])));
        for length in 1..assignment.len() {
            assert!(running_connectors(&assignment[..length]).is_err());
        }
        // What follows (revoked tasks, a delay) is not looked at.
        assignment.put_i32(-1);
        assert!(running_connectors(&assignment).is_ok());
        assert_eq!(running_connectors(&[]), Ok(BTreeSet::new()));
    }
}
