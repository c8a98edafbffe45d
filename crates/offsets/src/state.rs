//! The records of the compacted topic `mm2-twinlog.<source>.internal`, and of operators' decisions
//! in the one beside it: keys and values as bytes.
//!
//! Does not: decide when a record is written, or in which transaction.
//!
//! # Form
//!
//! Key: version, kind, then its fields. Value: version, its fields, and last the CRC32C (big
//! endian) of key and value up to there, so that a damaged value and one under the wrong key are
//! both found. A record without a value is a tombstone. Numbers and texts are written in one way
//! only, so that the same key is always the same bytes.
//!
//! # Invariants
//!
//! 1. A value is used only after its checksum held.
//! 2. Unknown versions, kinds and words are errors that name them; so are bytes behind the end.

mod decisions;
mod journal;

use bytes::Bytes;
use twinlog_types::{
    ClusterId, Code, GroupId, Partition, ProducerEpoch, ProducerId, SourceOffset, TargetOffset,
    TopicId, TopicName,
};

pub use decisions::{Accepted, Answer, Decided, Made, Overwrite, Subject};
pub use journal::{GroupJournal, Placed};

use crate::coding::{self, Reader, put_signed, put_text, put_unsigned};
use crate::segment::{RunStart, Segment};
use crate::{Malformed, RUNS_PER_BLOCK, StateError, Stretch};

const POSITION: u8 = 1;
const SEGMENT: u8 = 2;
const GAP: u8 = 3;
const LEASE: u8 = 4;
const JOURNAL: u8 = 5;
const DECISION: u8 = 6;
const ANSWER: u8 = 7;
const INHERITED: u8 = 8;
const BLOCK: u8 = 9;

/// Which life of which partition a record is about. Cluster and topic ids are part of it: a
/// recreated topic or another cluster behind the same address never meets foreign state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartitionKey {
    /// The id of the cluster that is read.
    pub source_cluster: ClusterId,
    /// The id of the cluster that is written.
    pub target_cluster: ClusterId,
    /// The id of the topic that is read.
    pub source_topic: TopicId,
    /// The id of the topic that is written.
    pub target_topic: TopicId,
    /// How often the mirror was begun anew between these topics.
    pub generation: u32,
    /// The partition, the same number on both sides.
    pub partition: Partition,
}

/// The key of a state record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateKey {
    /// How far a partition is copied.
    Position(PartitionKey),
    /// A segment of a partition's offset map, by number.
    Segment(PartitionKey, u32),
    /// A sealed stretch of a partition's offset map, by number.
    Block(PartitionKey, u32),
    /// A stretch of a partition that could not be copied, by its first source offset.
    Gap(PartitionKey, u64),
    /// What is known of records that somebody else copied, by the first source offset.
    Inherited(PartitionKey, SourceOffset),
    /// Who runs a shard of a flow.
    Lease {
        /// The id of the cluster that is read.
        source_cluster: ClusterId,
        /// The id of the cluster that is written.
        target_cluster: ClusterId,
        /// The shard, by number.
        shard: i32,
    },
    /// What was written for a group in a partition.
    Journal(PartitionKey, GroupId),
    /// An operator's decision.
    Decision(Pair, Subject),
    /// What became of it.
    Answer(Pair, Subject),
}

/// The two clusters of a flow.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pair {
    /// The id of the cluster that is read.
    pub source_cluster: ClusterId,
    /// The id of the cluster that is written.
    pub target_cluster: ClusterId,
}

/// How far a partition is copied, and what makes its batches recognisable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    /// The name of the topic that is read.
    pub source_topic: TopicName,
    /// The name of the topic that is written.
    pub target_topic: TopicName,
    /// The producer id of the partition's batches.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// The first source offset that the copy looked at.
    pub start: SourceOffset,
    /// Where the first record was expected to land.
    pub origin: TargetOffset,
    /// How many records are acknowledged.
    pub count: u64,
    /// The next source offset to copy.
    pub copied_to: SourceOffset,
    /// One past the last acknowledged record.
    pub target_end: TargetOffset,
    /// How many run starts, counted since the partition's first, were durable with or before this
    /// record.
    pub runs: u32,
    /// The leader epoch of the last batch read on the source; -1 means none.
    pub source_epoch: i32,
    /// Leader epochs of the target, ascending, each with the log end that was acknowledged under it.
    pub target_epochs: Vec<(i32, TargetOffset)>,
    /// When a position with this count and this source offset was first written, in milliseconds since
    /// 1970: for so long nothing was copied.
    pub written_ms: i64,
}

/// A stretch of the source that could not be copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The first source offset of it.
    pub from: SourceOffset,
    /// One past the last source offset of it.
    pub to: SourceOffset,
    /// When it was found, in milliseconds since 1970.
    pub found_ms: i64,
    /// Why it could not be copied.
    pub why: Code,
}

/// Who runs a shard of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The instance that holds it.
    pub instance: String,
    /// When it was last renewed, in milliseconds since 1970.
    pub renewed_ms: i64,
    /// Whether the instance gave it back.
    pub released: bool,
}

/// A state record that has a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateRecord {
    /// How far a partition is copied.
    Position(PartitionKey, Position),
    /// A segment of a partition's offset map, as [`Durable::changes`](crate::Durable::changes) gave
    /// it.
    Segment(PartitionKey, u32, Bytes),
    /// A sealed [`Block`](crate::Block) of a partition's offset map.
    Block(PartitionKey, u32, Bytes),
    /// A stretch of a partition that could not be copied.
    Gap(PartitionKey, u64, Gap),
    /// What is known of records that somebody else copied.
    Inherited(PartitionKey, Stretch),
    /// Who runs a shard of a flow.
    Lease {
        /// The id of the cluster that is read.
        source_cluster: ClusterId,
        /// The id of the cluster that is written.
        target_cluster: ClusterId,
        /// The shard, by number.
        shard: i32,
        /// Who holds it.
        lease: Lease,
    },
    /// What was written for a group in a partition.
    Journal(PartitionKey, GroupId, GroupJournal),
    /// An operator's decision.
    Decision(Pair, Subject, Made),
    /// What became of it.
    Answer(Pair, Subject, Answer),
}

/// The run starts that the bytes of a [`StateRecord::Segment`] or [`StateRecord::Block`] hold, in
/// order. A run lasts until the next one's count; the last one of a segment until the first of the segment behind it, or as far as
/// the position goes.
///
/// # Errors
///
/// When the bytes are not a segment.
pub fn segment_runs(segment: &[u8]) -> Result<Vec<RunStart>, Malformed> {
    Segment::decode(segment, RUNS_PER_BLOCK).map(|segment| segment.starts().collect())
}

impl StateKey {
    /// The key as bytes; equal keys are equal bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![coding::VERSION];
        match self {
            Self::Position(key) => {
                out.push(POSITION);
                put_partition_key(&mut out, key);
            }
            Self::Segment(key, number) => {
                out.push(SEGMENT);
                put_partition_key(&mut out, key);
                put_unsigned(&mut out, u64::from(*number));
            }
            Self::Block(key, number) => {
                out.push(BLOCK);
                put_partition_key(&mut out, key);
                put_unsigned(&mut out, u64::from(*number));
            }
            Self::Gap(key, number) => {
                out.push(GAP);
                put_partition_key(&mut out, key);
                put_unsigned(&mut out, *number);
            }
            Self::Inherited(key, from) => {
                out.push(INHERITED);
                put_partition_key(&mut out, key);
                put_signed(&mut out, from.0);
            }
            Self::Lease { source_cluster, target_cluster, shard } => {
                out.push(LEASE);
                put_text(&mut out, source_cluster.as_str());
                put_text(&mut out, target_cluster.as_str());
                put_signed(&mut out, i64::from(*shard));
            }
            Self::Journal(key, group) => {
                out.push(JOURNAL);
                put_partition_key(&mut out, key);
                put_text(&mut out, group.as_str());
            }
            Self::Decision(pair, subject) => {
                out.push(DECISION);
                put_pair(&mut out, pair);
                subject.put(&mut out);
            }
            Self::Answer(pair, subject) => {
                out.push(ANSWER);
                put_pair(&mut out, pair);
                subject.put(&mut out);
            }
        }
        out.into()
    }

    /// Reads a key, of a record or of a tombstone.
    pub fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        read_key(bytes).map_err(StateError::Key)
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Position(_) => "position",
            Self::Segment(..) => "segment",
            Self::Block(..) => "block",
            Self::Gap(..) => "gap",
            Self::Inherited(..) => "inherited",
            Self::Lease { .. } => "lease",
            Self::Journal(..) => "journal",
            Self::Decision(..) => "decision",
            Self::Answer(..) => "answer",
        }
    }
}

impl StateRecord {
    /// A gap under the key of its first source offset.
    pub fn gap(key: PartitionKey, gap: Gap) -> Self {
        Self::Gap(key, gap.from.0.unsigned_abs(), gap)
    }

    /// The record's key.
    pub fn key(&self) -> StateKey {
        match self {
            Self::Position(key, _) => StateKey::Position(key.clone()),
            Self::Segment(key, number, _) => StateKey::Segment(key.clone(), *number),
            Self::Block(key, number, _) => StateKey::Block(key.clone(), *number),
            Self::Gap(key, number, _) => StateKey::Gap(key.clone(), *number),
            Self::Inherited(key, stretch) => StateKey::Inherited(key.clone(), stretch.from()),
            Self::Lease { source_cluster, target_cluster, shard, .. } => StateKey::Lease {
                source_cluster: source_cluster.clone(),
                target_cluster: target_cluster.clone(),
                shard: *shard,
            },
            Self::Journal(key, group, _) => StateKey::Journal(key.clone(), group.clone()),
            Self::Decision(pair, subject, _) => StateKey::Decision(pair.clone(), subject.clone()),
            Self::Answer(pair, subject, _) => StateKey::Answer(pair.clone(), subject.clone()),
        }
    }

    /// Key and value as bytes.
    pub fn encode(&self) -> (Bytes, Bytes) {
        let key = self.key().encode();
        let mut value = vec![coding::VERSION];
        match self {
            Self::Position(_, position) => put_position(&mut value, position),
            Self::Segment(_, _, runs) | Self::Block(_, _, runs) => value.extend_from_slice(runs),
            Self::Gap(_, _, gap) => {
                put_signed(&mut value, gap.from.0);
                put_signed(&mut value, gap.to.0);
                put_signed(&mut value, gap.found_ms);
                put_text(&mut value, gap.why.word());
            }
            Self::Inherited(_, stretch) => stretch.put(&mut value),
            Self::Lease { lease, .. } => {
                put_text(&mut value, &lease.instance);
                put_signed(&mut value, lease.renewed_ms);
                value.push(u8::from(lease.released));
            }
            Self::Journal(_, _, journal) => journal.put(&mut value),
            Self::Decision(_, _, made) => made.put(&mut value),
            Self::Answer(_, _, answer) => answer.put(&mut value),
        }
        let checksum = checksum(&key, &value);
        value.extend_from_slice(&checksum.to_be_bytes());
        (key, value.into())
    }

    /// Reads a record; `None` when it is a tombstone, whose key [`StateKey::decode`] reads.
    ///
    /// # Errors
    ///
    /// When key or value cannot be read, or the checksum does not hold for the two. A version that
    /// is not ours is named before the checksum is looked at: where it lies is part of the version.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<Self>, StateError> {
        let named = StateKey::decode(key)?;
        let Some(value) = value else { return Ok(None) };
        let kind = named.kind();
        let malformed = |why| StateError::Value { kind, why };
        Reader::new(value).version().map_err(malformed)?;
        let (content, stored) =
            value.split_last_chunk::<4>().ok_or(malformed(Malformed::Truncated))?;
        let (stored, computed) = (u32::from_be_bytes(*stored), checksum(key, content));
        if stored != computed {
            return Err(StateError::Checksum { kind, stored, computed });
        }
        read_value(named, content).map(Some).map_err(malformed)
    }
}

/// CRC32C of the key followed by the value. The key is self-delimiting: no byte moves unseen.
fn checksum(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}

fn put_partition_key(out: &mut Vec<u8>, key: &PartitionKey) {
    put_text(out, key.source_cluster.as_str());
    put_text(out, key.target_cluster.as_str());
    out.extend_from_slice(&key.source_topic.0);
    out.extend_from_slice(&key.target_topic.0);
    put_unsigned(out, u64::from(key.generation));
    put_signed(out, i64::from(key.partition));
}

fn put_pair(out: &mut Vec<u8>, pair: &Pair) {
    put_text(out, pair.source_cluster.as_str());
    put_text(out, pair.target_cluster.as_str());
}

fn read_pair(reader: &mut Reader<'_>) -> Result<Pair, Malformed> {
    Ok(Pair { source_cluster: reader.text()?.into(), target_cluster: reader.text()?.into() })
}

fn put_position(out: &mut Vec<u8>, position: &Position) {
    put_text(out, position.source_topic.as_str());
    put_text(out, position.target_topic.as_str());
    put_signed(out, position.producer_id);
    put_signed(out, i64::from(position.producer_epoch));
    put_signed(out, position.start.0);
    put_signed(out, position.origin.0);
    put_unsigned(out, position.count);
    put_signed(out, position.copied_to.0);
    put_signed(out, position.target_end.0);
    put_unsigned(out, u64::from(position.runs));
    put_signed(out, i64::from(position.source_epoch));
    put_unsigned(out, position.target_epochs.len() as u64);
    for &(epoch, end) in &position.target_epochs {
        put_signed(out, i64::from(epoch));
        put_signed(out, end.0);
    }
    put_signed(out, position.written_ms);
}

fn read_key(bytes: &[u8]) -> Result<StateKey, Malformed> {
    let mut reader = Reader::new(bytes);
    reader.version()?;
    let key = match reader.byte()? {
        POSITION => StateKey::Position(read_partition_key(&mut reader)?),
        SEGMENT => StateKey::Segment(read_partition_key(&mut reader)?, reader.narrow()?),
        BLOCK => StateKey::Block(read_partition_key(&mut reader)?, reader.narrow()?),
        GAP => StateKey::Gap(read_partition_key(&mut reader)?, reader.unsigned()?),
        INHERITED => {
            StateKey::Inherited(read_partition_key(&mut reader)?, SourceOffset(reader.signed()?))
        }
        LEASE => StateKey::Lease {
            source_cluster: reader.text()?.into(),
            target_cluster: reader.text()?.into(),
            shard: reader.narrow_signed()?,
        },
        JOURNAL => StateKey::Journal(read_partition_key(&mut reader)?, reader.text()?.into()),
        DECISION => StateKey::Decision(read_pair(&mut reader)?, Subject::read(&mut reader)?),
        ANSWER => StateKey::Answer(read_pair(&mut reader)?, Subject::read(&mut reader)?),
        other => return Err(Malformed::Kind(other)),
    };
    reader.end()?;
    Ok(key)
}

fn read_partition_key(reader: &mut Reader<'_>) -> Result<PartitionKey, Malformed> {
    Ok(PartitionKey {
        source_cluster: reader.text()?.into(),
        target_cluster: reader.text()?.into(),
        source_topic: read_topic_id(reader)?,
        target_topic: read_topic_id(reader)?,
        generation: reader.narrow()?,
        partition: reader.narrow_signed()?,
    })
}

fn read_topic_id(reader: &mut Reader<'_>) -> Result<TopicId, Malformed> {
    let bytes = reader.take(16)?;
    Ok(TopicId(bytes.try_into().map_err(|_| Malformed::Truncated)?))
}

fn read_value(key: StateKey, content: &[u8]) -> Result<StateRecord, Malformed> {
    let mut reader = Reader::new(content);
    reader.version()?;
    let record = match key {
        StateKey::Position(key) => StateRecord::Position(key, read_position(&mut reader)?),
        StateKey::Segment(key, number) => {
            let segment = reader.take(reader.remaining())?;
            StateRecord::Segment(key, number, Bytes::copy_from_slice(segment))
        }
        StateKey::Block(key, number) => {
            let block = reader.take(reader.remaining())?;
            StateRecord::Block(key, number, Bytes::copy_from_slice(block))
        }
        StateKey::Gap(key, number) => StateRecord::Gap(key, number, read_gap(&mut reader)?),
        StateKey::Inherited(key, from) => {
            StateRecord::Inherited(key, Stretch::read(from, &mut reader)?)
        }
        StateKey::Lease { source_cluster, target_cluster, shard } => StateRecord::Lease {
            source_cluster,
            target_cluster,
            shard,
            lease: Lease {
                instance: reader.text()?.to_owned(),
                renewed_ms: reader.signed()?,
                released: reader.flag()?,
            },
        },
        StateKey::Journal(key, group) => {
            StateRecord::Journal(key, group, GroupJournal::read(&mut reader)?)
        }
        StateKey::Decision(pair, subject) => {
            StateRecord::Decision(pair, subject, Made::read(&mut reader)?)
        }
        StateKey::Answer(pair, subject) => {
            StateRecord::Answer(pair, subject, Answer::read(&mut reader)?)
        }
    };
    reader.end()?;
    Ok(record)
}

fn read_position(reader: &mut Reader<'_>) -> Result<Position, Malformed> {
    Ok(Position {
        source_topic: reader.text()?.into(),
        target_topic: reader.text()?.into(),
        producer_id: reader.signed()?,
        producer_epoch: reader.narrow_signed()?,
        start: SourceOffset(reader.signed()?),
        origin: TargetOffset(reader.signed()?),
        count: reader.unsigned()?,
        copied_to: SourceOffset(reader.signed()?),
        target_end: TargetOffset(reader.signed()?),
        runs: reader.narrow()?,
        source_epoch: reader.narrow_signed()?,
        target_epochs: read_epochs(reader)?,
        written_ms: reader.signed()?,
    })
}

fn read_epochs(reader: &mut Reader<'_>) -> Result<Vec<(i32, TargetOffset)>, Malformed> {
    let announced = reader.unsigned()?;
    // An entry takes two bytes at least: what does not fit is not allocated for.
    let length = usize::try_from(announced)
        .ok()
        .filter(|&length| length <= reader.remaining() / 2)
        .ok_or(Malformed::Truncated)?;
    let mut epochs = Vec::with_capacity(length);
    for _ in 0..length {
        epochs.push((reader.narrow_signed()?, TargetOffset(reader.signed()?)));
    }
    Ok(epochs)
}

fn read_gap(reader: &mut Reader<'_>) -> Result<Gap, Malformed> {
    let (from, to) = (SourceOffset(reader.signed()?), SourceOffset(reader.signed()?));
    let found_ms = reader.signed()?;
    let word = reader.text()?;
    let why = Code::from_word(word).ok_or_else(|| Malformed::Code(word.to_owned()))?;
    Ok(Gap { from, to, found_ms, why })
}
