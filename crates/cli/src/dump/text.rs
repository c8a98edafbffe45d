//! Entries for people: what MM2's and Kafka's own formatters print, and lines that begin with `#`
//! for what those do not print, or fail on.
//!
//! MM2's positions look as Kafka's console consumer prints them with `print.key=true`. Our own
//! state has no other formatter: a line for each record, and one for each run.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;
use twinlog_offsets::state::{
    Decided, Gap, Lease, PartitionKey, Placed, Position, StateKey, StateRecord, Subject,
    segment_runs,
};
use twinlog_types::TopicPartition;

use super::entry::{Content, Entry, Key};
use super::kafka_json::{self, Printed};
use super::names::Names;
use crate::format::{plural, rfc3339};

/// Where a record lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) partition: &'a TopicPartition,
    pub(crate) offset: i64,
}

/// Appends the lines of an entry.
pub(crate) fn put(out: &mut Vec<u8>, at: At<'_>, entry: &Entry, names: &Names) {
    match (&entry.key, &entry.content) {
        (_, Content::Sync(sync)) => line(out, sync),
        (_, Content::Checkpoint(checkpoint)) => line(out, checkpoint),
        (_, Content::Heartbeat(heartbeat)) => line(out, heartbeat),
        (Some(Key::Connect(_, key)), Content::Connect(_, value)) => {
            line(out, format_args!("{key}\t{value}"));
        }
        (Some(Key::Connect(_, key)), Content::Tombstone) => {
            line(out, format_args!("{key}\tnull"));
        }
        (Some(Key::Group(key)), Content::Commit(commit)) => {
            kafka(out, kafka_json::key(key), kafka_json::commit(commit));
        }
        (Some(Key::Group(key)), Content::Classic(group)) => {
            kafka(out, kafka_json::key(key), kafka_json::classic(group));
        }
        (Some(Key::Group(key)), Content::Undecoded(value)) => {
            kafka(out, kafka_json::key(key), kafka_json::undecoded(value));
        }
        (Some(Key::Group(key)), Content::Tombstone) => {
            kafka(out, kafka_json::key(key), Value::Null);
        }
        (_, Content::State(record)) => state(out, record, names),
        (key, Content::Tombstone) => {
            let what = key.as_ref().map(|key| subject(key, names)).unwrap_or_default();
            note(out, at, format_args!("tombstone: deletes {what}"));
        }
        (Some(key), Content::Unreadable(why)) => {
            note(out, at, format_args!("cannot be read ({}): {why}", subject(key, names)));
        }
        (None, Content::Unreadable(why)) => note(out, at, format_args!("cannot be read: {why}")),
        // A value belongs to a key of its own kind.
        (
            _,
            Content::Connect(..) | Content::Commit(_) | Content::Classic(_) | Content::Undecoded(_),
        ) => {
            note(out, at, "cannot be read: key and value are of different kinds");
        }
    }
}

fn line(out: &mut Vec<u8>, text: impl std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = writeln!(out, "{text}");
}

fn note(out: &mut Vec<u8>, at: At<'_>, text: impl std::fmt::Display) {
    line(out, format_args!("# {} offset {}: {text}", at.partition, at.offset));
}

/// Kafka's formatter does not end its lines; one document on each is what tools can read.
fn kafka<K: Serialize, V: Serialize>(out: &mut Vec<u8>, key: K, value: V) {
    // Neither does writing these: they hold no map with keys that are no text.
    let _ = kafka_json::line(&Printed { key, value }, out);
    out.push(b'\n');
}

/// What a key is about.
fn subject(key: &Key, names: &Names) -> String {
    match key {
        Key::Sync(topic, partition) => format!("{topic}-{partition}"),
        Key::Checkpoint(group, topic, partition) => format!("{group} on {topic}-{partition}"),
        Key::Heartbeat(source, target) => format!("{source}->{target}"),
        Key::Connect(_, text) => text.clone(),
        Key::Group(key) => format!("{} of {}", key.name, key.group),
        Key::State(StateKey::Position(key)) => format!("position of {}", mirror(key, names)),
        Key::State(StateKey::Segment(key, number)) => {
            format!("segment {number} of {}", mirror(key, names))
        }
        Key::State(StateKey::Block(key, number)) => {
            format!("block {number} of {}", mirror(key, names))
        }
        Key::State(StateKey::Gap(key, number)) => format!("gap {number} of {}", mirror(key, names)),
        Key::State(StateKey::Inherited(key, from)) => {
            format!("what was taken over of {} from {from} on", mirror(key, names))
        }
        Key::State(StateKey::Lease { shard, .. }) => format!("lease of shard {shard}"),
        Key::State(StateKey::Journal(key, group)) => {
            format!("journal of {group} on {}", mirror(key, names))
        }
        Key::State(StateKey::Decision(_, subject)) => format!("decision about {}", about(subject)),
        Key::State(StateKey::Answer(_, subject)) => {
            format!("answer to the decision about {}", about(subject))
        }
    }
}

/// What a decision is about.
pub(super) fn about(subject: &Subject) -> String {
    match subject {
        Subject::Topic(topic, None) => format!("topic {topic}"),
        Subject::Topic(topic, Some(partition)) => format!("{topic}-{partition}"),
        Subject::Group(group) => format!("group {group}"),
    }
}

/// What was decided.
pub(super) fn decided(what: &Decided) -> String {
    match what {
        Decided::Pause => "pause".to_owned(),
        Decided::Resume { accepted } => {
            let stops = accepted.iter().map(|one| {
                format!(" behind {} of partition {} at {}", one.code, one.partition, one.copied_to)
            });
            format!("resume{}", stops.collect::<String>())
        }
        Decided::Sync { overwrite } => {
            let positions = overwrite
                .iter()
                .map(|one| format!(" {}-{} at {}", one.topic, one.partition, one.stands));
            format!("sync{}", positions.collect::<String>())
        }
    }
}

/// `orders-0 -> hello.orders-0`, by ids where the names are not known.
fn mirror(key: &PartitionKey, names: &Names) -> String {
    let number = key.partition;
    let (source, target) = match names.of(key) {
        Some((source, target)) => (source.to_string(), target.to_string()),
        None => (kafka_json::topic_id(key.source_topic), kafka_json::topic_id(key.target_topic)),
    };
    let generation = match key.generation {
        0 => String::new(),
        later => format!(" (generation {later})"),
    };
    format!("{source}-{number} -> {target}-{number}{generation}")
}

/// A stretch of an offset map, run by run.
fn part_of_map(out: &mut Vec<u8>, mirror: &str, part: &str, runs: &[u8]) {
    let runs = match segment_runs(runs) {
        Ok(runs) => runs,
        Err(why) => {
            return line(out, format_args!("# {mirror}: {part} of the map cannot be read: {why}"));
        }
    };
    let count = plural(runs.len() as u64, "run");
    line(out, format_args!("{mirror}: {part} of the map, {count}"));
    for (at, run) in runs.iter().enumerate() {
        let length = runs.get(at + 1).map(|next| next.count - run.count);
        let (source, target) = (run.source.0, run.target.0);
        match length {
            Some(length) => {
                let records = plural(length, "record");
                line(out, format_args!("  {source} -> {target}, {records}"));
            }
            None => line(out, format_args!("  {source} -> {target}, and on")),
        }
    }
}

fn state(out: &mut Vec<u8>, record: &StateRecord, names: &Names) {
    match record {
        StateRecord::Position(key, position) => {
            self::position(out, &mirror(key, names), key, position);
        }
        StateRecord::Segment(key, number, runs) => {
            part_of_map(out, &mirror(key, names), &format!("segment {number}"), runs);
        }
        StateRecord::Block(key, number, runs) => {
            part_of_map(out, &mirror(key, names), &format!("block {number}"), runs);
        }
        StateRecord::Gap(key, number, Gap { from, to, found_ms, why }) => {
            let (from, to, found) = (from.0, to.0 - 1, rfc3339(*found_ms));
            let mirror = mirror(key, names);
            line(
                out,
                format_args!(
                    "{mirror}: gap {number}, offsets {from} to {to} of the source ({why}), found {found}"
                ),
            );
        }
        StateRecord::Inherited(key, stretch) => {
            let mirror = mirror(key, names);
            let (from, to) = (stretch.from(), stretch.to());
            let records = plural(stretch.records(), "record");
            line(
                out,
                format_args!(
                    "{mirror}: taken over, offsets {from} up to {to} of the source, {records} compared"
                ),
            );
            for run in stretch.runs() {
                line(out, format_args!("  {} -> {}", run.source, run.target));
            }
        }
        StateRecord::Lease { shard, lease: Lease { instance, renewed_ms, released }, .. } => {
            let word = if *released { "given up" } else { "renewed" };
            let when = rfc3339(*renewed_ms);
            line(out, format_args!("lease of shard {shard}: {instance}, {word} {when}"));
        }
        StateRecord::Journal(key, group, journal) => {
            let placed = |one: &Placed| format!("{} -> {}", one.source, one.target);
            let settled = journal.settled.as_ref().map_or("nothing".to_owned(), placed);
            let unsure: Vec<String> = journal.unsure.iter().map(placed).collect();
            let unsure = match unsure.as_slice() {
                [] => String::new(),
                unsure => format!(", perhaps {}", unsure.join(" or ")),
            };
            let written = rfc3339(journal.written_ms);
            let mirror = mirror(key, names);
            line(
                out,
                format_args!("{group} on {mirror}: committed {settled}{unsure}, last {written}"),
            );
        }
        StateRecord::Decision(_, subject, made) => {
            let (about, what) = (about(subject), decided(&made.what));
            let (by, when) = (&made.by, rfc3339(made.at_ms));
            line(out, format_args!("decision about {about}: {what}, by {by}, {when}"));
        }
        StateRecord::Answer(_, subject, answer) => {
            let about = about(subject);
            let word = if answer.done { "done" } else { "not done" };
            let (text, when) = (&answer.text, rfc3339(answer.at_ms));
            line(out, format_args!("answer about {about}: {word}: {text}, {when}"));
        }
    }
}

fn position(out: &mut Vec<u8>, mirror: &str, key: &PartitionKey, position: &Position) {
    let Position {
        producer_id, producer_epoch, start, origin, count, copied_to, target_end, ..
    } = position;
    let (records, runs) = (plural(*count, "record"), plural(position.runs.into(), "run"));
    line(
        out,
        format_args!(
            "{mirror}: copied to {}, target end {}: {records} in {runs} from {} -> {}",
            copied_to.0, target_end.0, start.0, origin.0
        ),
    );
    let epochs: Vec<String> =
        position.target_epochs.iter().map(|(epoch, at)| format!("{epoch} at {}", at.0)).collect();
    let epochs = if epochs.is_empty() { "none".to_owned() } else { epochs.join(", ") };
    line(
        out,
        format_args!(
            "  producer {producer_id} epoch {producer_epoch}; leader epochs: source {}, target {epochs}",
            position.source_epoch
        ),
    );
    line(
        out,
        format_args!(
            "  clusters {} -> {}, topics {} -> {}, written {}",
            key.source_cluster,
            key.target_cluster,
            kafka_json::topic_id(key.source_topic),
            kafka_json::topic_id(key.target_topic),
            rfc3339(position.written_ms)
        ),
    );
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::args::DumpKind;
    use crate::dump::testing::{bytes, partition_key, position, record};

    fn text(kind: DumpKind, key: &[u8], value: Option<Bytes>) -> String {
        let record = record(7, Some(Bytes::copy_from_slice(key)), value);
        let mut names = Names::default();
        let (key, position) = (partition_key(), position());
        names.learn(&StateRecord::Position(key, position));
        let partition = TopicPartition::new("internal", 2);
        let mut out = Vec::new();
        let at = At { partition: &partition, offset: 7 };
        put(&mut out, at, &Entry::decode(kind, &record), &names);
        String::from_utf8(out).expect("text")
    }

    // The bytes are those that MirrorMaker 2 4.3.0 left on a cluster, the lines those that the
    // formatters of Apache Kafka 4.3.0 print for them.

    #[test]
    fn mm2s_records_print_as_mm2_prints_them() {
        for (kind, key, value, line) in [
            (
                DumpKind::OffsetSyncs,
                "00066f726465727300000000",
                "00000000000000650000000000000065",
                "OffsetSync{topicPartition=orders-0, upstreamOffset=101, downstreamOffset=101}\n",
            ),
            (
                DumpKind::Checkpoints,
                "0005672d6d6964000c68656c6c6f2e6f726465727300000000",
                "0000000000000000006400000000000000010000",
                "Checkpoint{consumerGroupId=g-mid, topicPartition=hello.orders-0, upstreamOffset=100, downstreamOffset=1, metadata=}\n",
            ),
            (
                DumpKind::Heartbeats,
                "000568656c6c6f0005776f726c64",
                "0000000001a2284090d9",
                "Heartbeat{sourceClusterAlias=hello, targetClusterAlias=world, timestamp=1795971649753}\n",
            ),
            (
                DumpKind::ConsumerOffsets,
                "000100016700017400000002",
                "000300000000000000fa0000000500066d6574612d31000001a2284090d9",
                "{\"key\":{\"type\":1,\"data\":{\"group\":\"g\",\"topic\":\"t\",\"partition\":2}},\"value\":{\"version\":3,\"data\":{\"offset\":250,\"leaderEpoch\":5,\"metadata\":\"meta-1\",\"commitTimestamp\":1795971649753}}}\n",
            ),
        ] {
            assert_eq!(text(kind, &bytes(key), Some(bytes(value))), line);
        }
        let key =
            br#"["MirrorSourceConnector",{"cluster":"hello","partition":0,"topic":"orders"}]"#;
        let value = Bytes::from_static(br#"{"offset":249}"#);
        let line = "[\"MirrorSourceConnector\",{\"cluster\":\"hello\",\"partition\":0,\"topic\":\"orders\"}]\t{\"offset\":249}\n";
        assert_eq!(text(DumpKind::Positions, key, Some(value)), line);
    }

    #[test]
    fn what_formatters_fail_on_is_a_line_with_its_offset() {
        let sync = bytes("00066f726465727300000000");
        for (kind, key, value, line) in [
            (
                DumpKind::OffsetSyncs,
                &sync[..],
                None,
                "# internal-2 offset 7: tombstone: deletes orders-0\n",
            ),
            (
                DumpKind::OffsetSyncs,
                &sync,
                Some(bytes("0000")),
                "# internal-2 offset 7: cannot be read (orders-0): offset-sync record ends within its field upstreamOffset\n",
            ),
            (
                DumpKind::Checkpoints,
                b"\0",
                Some(bytes("0000")),
                "# internal-2 offset 7: cannot be read: checkpoint record ends within its field group\n",
            ),
            (
                DumpKind::ConsumerOffsets,
                &bytes("0063"),
                None,
                "# internal-2 offset 7: cannot be read: group log record is of kind 99, which is not known\n",
            ),
            (
                DumpKind::ConsumerOffsets,
                &bytes("000100016700017400000002"),
                Some(bytes("0005")),
                "# internal-2 offset 7: cannot be read (offset-commit of g): offset commit record has version 5, the newest known is 4\n",
            ),
        ] {
            assert_eq!(text(kind, key, value), line);
        }
    }

    #[test]
    fn our_state_is_readable() {
        let of = |record: &StateRecord| {
            let (key, value) = record.encode();
            text(DumpKind::Map, &key, Some(value))
        };
        let key = partition_key();
        assert_eq!(
            of(&StateRecord::Position(key.clone(), position())),
            "orders-0 -> hello.orders-0: copied to 1200, target end 1187: 1187 records in 2 runs from 13 -> 0\n  \
             producer 4000 epoch 0; leader epochs: source 3, target 0 at 0, 2 at 50\n  \
             clusters a -> b, topics AAAAAAAAAAAAAAAAAAAAAQ -> AAAAAAAAAAAAAAAAAAAAAg, written 2026-01-01T00:00:00Z\n"
        );
        // Two runs: 500 records from 13 -> 0, then a hole of one offset on the source.
        let segment = Bytes::from_static(&[1, 2, 0, 13, 0, 0xe8, 0x07, 1]);
        assert_eq!(
            of(&StateRecord::Segment(key.clone(), 0, segment)),
            "orders-0 -> hello.orders-0: segment 0 of the map, 2 runs\n  13 -> 0, 500 records\n  514 -> 500, and on\n"
        );
        let gap = Gap {
            from: twinlog_types::SourceOffset(5),
            to: twinlog_types::SourceOffset(10),
            found_ms: 0,
            why: twinlog_types::Code::SourceGap,
        };
        assert_eq!(
            of(&StateRecord::Gap(key.clone(), 5, gap)),
            "orders-0 -> hello.orders-0: gap 5, offsets 5 to 9 of the source (source-gap), found 1970-01-01T00:00:00Z\n"
        );
        let lease = StateRecord::Lease {
            source_cluster: "a".into(),
            target_cluster: "b".into(),
            shard: 0,
            lease: Lease { instance: "one".into(), renewed_ms: 0, released: true },
        };
        assert_eq!(of(&lease), "lease of shard 0: one, given up 1970-01-01T00:00:00Z\n");
        // A damaged value under a good key.
        let (key, value) = StateRecord::Position(key, position()).encode();
        let mut damaged = value.to_vec();
        damaged[3] ^= 1;
        let line = text(DumpKind::Map, &key, Some(damaged.into()));
        assert!(
            line.starts_with("# internal-2 offset 7: cannot be read (position of orders-0 -> hello.orders-0): state record 'position' fails its checksum"),
            "{line}"
        );
    }
}
