//! Entries for scripts: a document for each record.
//!
//! Group records look within it as Kafka's own formatters print them.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;
use twinlog_batch::Record;
use twinlog_offsets::RunStart;
use twinlog_offsets::state::{
    Pair, PartitionKey, Placed, Position, StateKey, StateRecord, Subject, segment_runs,
};

use super::entry::{Content, Entry, Key};
use super::kafka_json::{self, ClassicData, CommitData, KeyData, Typed, Versioned};
use super::names::Names;
use super::text;
use super::text::At;

/// A record.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    version: u8,
    /// The alias of the cluster that it lies on.
    cluster: &'a str,
    topic: &'a str,
    partition: i32,
    offset: i64,
    /// Milliseconds since 1970.
    timestamp: i64,
    /// Null when it cannot be read.
    key: KeyPart<'a>,
    /// Null when it cannot be read, and of a tombstone.
    value: ValuePart<'a>,
    tombstone: bool,
    /// Why key or value cannot be read.
    problem: Option<&'a str>,
    /// The bytes of a record that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<Hex>,
}

#[derive(Serialize)]
struct Hex {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum KeyPart<'a> {
    Unreadable,
    Partition {
        topic: &'a str,
        partition: i32,
    },
    Checkpoint {
        group: &'a str,
        topic: &'a str,
        partition: i32,
    },
    Heartbeat {
        source: &'a str,
        target: &'a str,
    },
    Connect(&'a Value),
    Group(Typed<KeyData<'a>>),
    State(StateKeyPart<'a>),
    Lease {
        kind: &'a str,
        source_cluster: &'a str,
        target_cluster: &'a str,
        shard: i32,
    },
    Journal {
        group: &'a str,
        #[serde(flatten)]
        of: StateKeyPart<'a>,
    },
    Decision {
        kind: &'static str,
        about: String,
        source_cluster: &'a str,
        target_cluster: &'a str,
    },
}

#[derive(Serialize)]
struct StateKeyPart<'a> {
    kind: &'static str,
    /// Null where no position says the name.
    source_topic: Option<&'a str>,
    target_topic: Option<&'a str>,
    partition: i32,
    generation: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    source_cluster: &'a str,
    target_cluster: &'a str,
    source_topic_id: String,
    target_topic_id: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ValuePart<'a> {
    None,
    Pair { upstream_offset: i64, downstream_offset: i64 },
    Checkpoint { upstream_offset: i64, downstream_offset: i64, metadata: &'a str },
    Heartbeat { timestamp: i64 },
    Connect(&'a Value),
    Commit(Versioned<CommitData<'a>>),
    Classic(Versioned<ClassicData<'a>>),
    Undecoded(Value),
    Position(PositionPart),
    Segment { runs: Vec<Run> },
    Gap { from: i64, to: i64, code: &'static str, found: i64 },
    Inherited { from: i64, to: i64, records: u64, runs: Vec<Run> },
    Lease { instance: &'a str, renewed: i64, released: bool },
    Journal { settled: Option<PlacedPart>, unsure: Vec<PlacedPart>, written: i64 },
    Decision { by: &'a str, at: i64, decided: String },
    Answer { by: &'a str, of: i64, at: i64, done: bool, text: &'a str },
}

/// A source commit, and what was or may have been written of it on the target.
#[derive(Serialize)]
struct PlacedPart {
    source: i64,
    target: i64,
}

impl From<&Placed> for PlacedPart {
    fn from(placed: &Placed) -> Self {
        Self { source: placed.source.0, target: placed.target.0 }
    }
}

#[derive(Serialize)]
struct PositionPart {
    copied_to: i64,
    target_end: i64,
    records: u64,
    runs: u32,
    source_start: i64,
    target_start: i64,
    producer_id: i64,
    producer_epoch: i16,
    source_leader_epoch: i32,
    target_leader_epochs: Vec<LeaderEpoch>,
    written: i64,
}

#[derive(Serialize)]
struct LeaderEpoch {
    epoch: i32,
    offset: i64,
}

#[derive(Serialize)]
struct Run {
    source: i64,
    target: i64,
    /// Of the last run of a segment null: as far as the next segment or the position goes.
    records: Option<u64>,
}

/// The document of an entry.
pub(crate) fn document<'a>(
    cluster: &'a str,
    at: At<'a>,
    record: &Record,
    entry: &'a Entry,
    names: &'a Names,
) -> Document<'a> {
    let key = entry.key.as_ref().map_or(KeyPart::Unreadable, |key| key_part(key, names));
    let mut problem = match &entry.content {
        Content::Unreadable(why) => Some(why.as_str()),
        _ => None,
    };
    let value = value_part(&entry.content).unwrap_or_else(|why| {
        problem = Some(why);
        ValuePart::None
    });
    let bytes = problem.map(|_| Hex {
        key: record.key.as_deref().map(hex),
        value: record.value.as_deref().map(hex),
    });
    Document {
        version: 1,
        cluster,
        topic: at.partition.topic.as_str(),
        partition: at.partition.partition,
        offset: at.offset,
        timestamp: record.timestamp,
        key,
        value,
        tombstone: record.value.is_none(),
        problem,
        bytes,
    }
}

fn key_part<'a>(key: &'a Key, names: &'a Names) -> KeyPart<'a> {
    match key {
        Key::Sync(topic, partition) => {
            KeyPart::Partition { topic: topic.as_str(), partition: *partition }
        }
        Key::Checkpoint(group, topic, partition) => KeyPart::Checkpoint {
            group: group.as_str(),
            topic: topic.as_str(),
            partition: *partition,
        },
        Key::Heartbeat(source, target) => {
            KeyPart::Heartbeat { source: source.as_str(), target: target.as_str() }
        }
        Key::Connect(key, _) => KeyPart::Connect(key),
        Key::Group(key) => KeyPart::Group(kafka_json::key(key)),
        Key::State(StateKey::Position(key)) => {
            KeyPart::State(state_key("position", key, None, names))
        }
        Key::State(StateKey::Segment(key, number)) => {
            KeyPart::State(state_key("segment", key, Some(u64::from(*number)), names))
        }
        Key::State(StateKey::Block(key, number)) => {
            KeyPart::State(state_key("block", key, Some(u64::from(*number)), names))
        }
        Key::State(StateKey::Gap(key, number)) => {
            KeyPart::State(state_key("gap", key, Some(*number), names))
        }
        Key::State(StateKey::Inherited(key, _)) => {
            KeyPart::State(state_key("inherited", key, None, names))
        }
        Key::State(StateKey::Lease { source_cluster, target_cluster, shard }) => KeyPart::Lease {
            kind: "lease",
            source_cluster: source_cluster.as_str(),
            target_cluster: target_cluster.as_str(),
            shard: *shard,
        },
        Key::State(StateKey::Journal(key, group)) => {
            KeyPart::Journal { group: group.as_str(), of: state_key("journal", key, None, names) }
        }
        Key::State(StateKey::Decision(pair, subject)) => decision_key("decision", pair, subject),
        Key::State(StateKey::Answer(pair, subject)) => decision_key("answer", pair, subject),
    }
}

fn decision_key<'a>(kind: &'static str, pair: &'a Pair, subject: &Subject) -> KeyPart<'a> {
    KeyPart::Decision {
        kind,
        about: text::about(subject),
        source_cluster: pair.source_cluster.as_str(),
        target_cluster: pair.target_cluster.as_str(),
    }
}

fn state_key<'a>(
    kind: &'static str,
    key: &'a PartitionKey,
    number: Option<u64>,
    names: &'a Names,
) -> StateKeyPart<'a> {
    let known = names.of(key);
    StateKeyPart {
        kind,
        source_topic: known.map(|(source, _)| source.as_str()),
        target_topic: known.map(|(_, target)| target.as_str()),
        partition: key.partition,
        generation: key.generation,
        number,
        source_cluster: key.source_cluster.as_str(),
        target_cluster: key.target_cluster.as_str(),
        source_topic_id: kafka_json::topic_id(key.source_topic),
        target_topic_id: kafka_json::topic_id(key.target_topic),
    }
}

/// The value, or why it cannot be read after all.
fn value_part(content: &Content) -> Result<ValuePart<'_>, &'static str> {
    Ok(match content {
        Content::Sync(sync) => {
            ValuePart::Pair { upstream_offset: sync.upstream, downstream_offset: sync.downstream }
        }
        Content::Checkpoint(checkpoint) => ValuePart::Checkpoint {
            upstream_offset: checkpoint.upstream,
            downstream_offset: checkpoint.downstream,
            metadata: &checkpoint.metadata,
        },
        Content::Heartbeat(heartbeat) => ValuePart::Heartbeat { timestamp: heartbeat.timestamp_ms },
        Content::Connect(value, _) => ValuePart::Connect(value),
        Content::Commit(commit) => ValuePart::Commit(kafka_json::commit(commit)),
        Content::Classic(group) => ValuePart::Classic(kafka_json::classic(group)),
        Content::Undecoded(value) => ValuePart::Undecoded(kafka_json::undecoded(value)),
        Content::State(StateRecord::Position(_, position)) => {
            ValuePart::Position(position_part(position))
        }
        Content::State(StateRecord::Segment(_, _, segment) | StateRecord::Block(_, _, segment)) => {
            let runs = segment_runs(segment).map_err(|_| "the runs cannot be read")?;
            ValuePart::Segment { runs: runs_part(&runs, None) }
        }
        Content::State(StateRecord::Gap(_, _, gap)) => ValuePart::Gap {
            from: gap.from.0,
            to: gap.to.0,
            code: gap.why.word(),
            found: gap.found_ms,
        },
        Content::State(StateRecord::Inherited(_, stretch)) => {
            let runs: Vec<RunStart> = stretch.runs().collect();
            ValuePart::Inherited {
                from: stretch.from().0,
                to: stretch.to().0,
                records: stretch.records(),
                runs: runs_part(&runs, Some(stretch.records())),
            }
        }
        Content::State(StateRecord::Lease { lease, .. }) => ValuePart::Lease {
            instance: &lease.instance,
            renewed: lease.renewed_ms,
            released: lease.released,
        },
        Content::State(StateRecord::Journal(_, _, journal)) => ValuePart::Journal {
            settled: journal.settled.as_ref().map(PlacedPart::from),
            unsure: journal.unsure.iter().map(PlacedPart::from).collect(),
            written: journal.written_ms,
        },
        Content::State(StateRecord::Decision(_, _, made)) => {
            ValuePart::Decision { by: &made.by, at: made.at_ms, decided: text::decided(&made.what) }
        }
        Content::State(StateRecord::Answer(_, _, answer)) => ValuePart::Answer {
            by: &answer.by,
            of: answer.of_ms,
            at: answer.at_ms,
            done: answer.done,
            text: &answer.text,
        },
        Content::Tombstone | Content::Unreadable(_) => ValuePart::None,
    })
}

/// The runs, of which the last one lasts until `end` where that is known.
fn runs_part(runs: &[RunStart], end: Option<u64>) -> Vec<Run> {
    let next = runs.iter().skip(1).map(|next| Some(next.count)).chain([end]);
    let runs = runs.iter().zip(next).map(|(run, next)| Run {
        source: run.source.0,
        target: run.target.0,
        records: next.map(|next| next - run.count),
    });
    runs.collect()
}

fn position_part(position: &Position) -> PositionPart {
    let epochs = position.target_epochs.iter();
    PositionPart {
        copied_to: position.copied_to.0,
        target_end: position.target_end.0,
        records: position.count,
        runs: position.runs,
        source_start: position.start.0,
        target_start: position.origin.0,
        producer_id: position.producer_id,
        producer_epoch: position.producer_epoch,
        source_leader_epoch: position.source_epoch,
        target_leader_epochs: epochs
            .map(|(epoch, at)| LeaderEpoch { epoch: *epoch, offset: at.0 })
            .collect(),
        written: position.written_ms,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to memory does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use twinlog_types::TopicPartition;

    use super::*;
    use crate::args::DumpKind;
    use crate::dump::testing::{bytes, partition_key, position, record};

    fn answer(kind: DumpKind, key: &str, value: Option<&str>) -> Value {
        of_record(kind, &record(7, Some(bytes(key)), value.map(bytes)))
    }

    fn of_record(kind: DumpKind, record: &Record) -> Value {
        let entry = Entry::decode(kind, record);
        let mut names = Names::default();
        names.learn(&StateRecord::Position(partition_key(), position()));
        let partition = TopicPartition::new("internal", 2);
        let at = At { partition: &partition, offset: record.offset };
        serde_json::to_value(document("world", at, record, &entry, &names)).expect("serialisable")
    }

    #[test]
    fn a_document_says_where_the_record_lies_and_what_it_says() {
        let key = "0008672d6f7264657273000c68656c6c6f2e6f726465727300000000";
        let value = "000000000000000000fa00000000000000fa00066d6574612d31";
        assert_eq!(
            answer(DumpKind::Checkpoints, key, Some(value)),
            json!({
                "version": 1, "cluster": "world", "topic": "internal", "partition": 2, "offset": 7,
                "timestamp": 1_795_971_649_753_i64,
                "key": {"group": "g-orders", "topic": "hello.orders", "partition": 0},
                "value": {"upstream_offset": 250, "downstream_offset": 250, "metadata": "meta-1"},
                "tombstone": false, "problem": null,
            })
        );
    }

    #[test]
    fn tombstones_and_what_cannot_be_read_are_documents_too() {
        let deleted = answer(DumpKind::OffsetSyncs, "00066f726465727300000000", None);
        assert_eq!(deleted["key"], json!({"topic": "orders", "partition": 0}));
        assert_eq!((&deleted["value"], &deleted["tombstone"]), (&Value::Null, &json!(true)));
        assert_eq!(deleted["problem"], Value::Null);
        let foreign = answer(DumpKind::OffsetSyncs, "00", Some("01ff"));
        assert_eq!(foreign["key"], Value::Null);
        assert_eq!(foreign["bytes"], json!({"key": "00", "value": "01ff"}));
        assert_eq!(foreign["problem"], "offset-sync record ends within its field topic");
    }

    #[test]
    fn state_is_named_and_its_runs_are_listed() {
        let segment = bytes::Bytes::from_static(&[1, 2, 0, 13, 0, 0xe8, 0x07, 1]);
        let of = |state: StateRecord| {
            let (key, value) = state.encode();
            of_record(DumpKind::Map, &record(7, Some(key), Some(value)))
        };
        let segment = of(StateRecord::Segment(partition_key(), 3, segment));
        assert_eq!(segment["key"]["kind"], "segment");
        assert_eq!(segment["key"]["source_topic"], "orders");
        assert_eq!(segment["key"]["number"], 3);
        assert_eq!(
            segment["value"]["runs"],
            json!([
                {"source": 13, "target": 0, "records": 500},
                {"source": 514, "target": 500, "records": null},
            ])
        );
        let position = of(StateRecord::Position(partition_key(), position()));
        assert_eq!(position["value"]["copied_to"], 1200);
        assert_eq!(position["value"]["target_leader_epochs"][1], json!({"epoch": 2, "offset": 50}));
    }
}
