//! The durable state as bytes, read by hand: the oracle shares no code with the product.
//!
//! Key: version, kind, fields. Value: version, fields, checksum (which is not checked here). Numbers
//! are LEB128, signed ones zigzagged, texts carry their length.

use twinlog_embedded::Record;

const POSITION: u8 = 1;
const GAP: u8 = 3;
const LEASE: u8 = 4;

/// How far a partition is stored as copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    /// The id of the topic that is read.
    pub source_topic: [u8; 16],
    /// The id of the topic that is written.
    pub target_topic: [u8; 16],
    /// Which partition.
    pub partition: i32,
    /// The first source offset that the copy looked at.
    pub start: i64,
    /// How many records.
    pub count: u64,
    /// The next source offset to copy.
    pub copied_to: i64,
}

/// A range of a partition that is stored as lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The id of the topic that is read.
    pub source_topic: [u8; 16],
    /// Which partition.
    pub partition: i32,
    /// The first source offset that is lost.
    pub from: i64,
    /// The first one that is not.
    pub to: i64,
}

/// Who says that they own the flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The instance.
    pub instance: String,
    /// When, in milliseconds since 1970.
    pub renewed_ms: i64,
    /// Whether it is given up.
    pub released: bool,
    /// Where its record stands in the log.
    pub offset: i64,
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(*self.take(1)?.first()?)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.unsigned()?;
        std::str::from_utf8(self.take(length as usize)?).ok()
    }

    fn id(&mut self) -> Option<[u8; 16]> {
        self.take(16)?.try_into().ok()
    }
}

/// The positions among records of the state topic, in their order.
pub fn positions(records: &[Record]) -> Vec<Position> {
    records.iter().filter_map(position).collect()
}

fn position(record: &Record) -> Option<Position> {
    let mut key = Bytes(record.key.as_deref()?);
    if (key.byte()?, key.byte()?) != (1, POSITION) {
        return None;
    }
    let (_source, _target) = (key.text()?, key.text()?);
    let (source_topic, target_topic) = (key.id()?, key.id()?);
    let (_generation, partition) = (key.unsigned()?, key.signed()? as i32);
    let mut value = Bytes(record.value.as_deref()?);
    let (_version, _source, _target) = (value.byte()?, value.text()?, value.text()?);
    let (_producer_id, _producer_epoch) = (value.signed()?, value.signed()?);
    let (start, _origin) = (value.signed()?, value.signed()?);
    let (count, copied_to) = (value.unsigned()?, value.signed()?);
    Some(Position { source_topic, target_topic, partition, start, count, copied_to })
}

/// The lost ranges among records of the state topic, in their order.
pub fn gaps(records: &[Record]) -> Vec<Gap> {
    records.iter().filter_map(gap).collect()
}

fn gap(record: &Record) -> Option<Gap> {
    let mut key = Bytes(record.key.as_deref()?);
    if (key.byte()?, key.byte()?) != (1, GAP) {
        return None;
    }
    let (_source, _target) = (key.text()?, key.text()?);
    let (source_topic, _target_topic) = (key.id()?, key.id()?);
    let (_generation, partition) = (key.unsigned()?, key.signed()? as i32);
    let mut value = Bytes(record.value.as_deref()?);
    let (_version, from, to) = (value.byte()?, value.signed()?, value.signed()?);
    Some(Gap { source_topic, partition, from, to })
}

/// The leases among records of the state topic, in their order.
pub fn leases(records: &[Record]) -> Vec<Lease> {
    records.iter().filter_map(lease).collect()
}

fn lease(record: &Record) -> Option<Lease> {
    let mut key = Bytes(record.key.as_deref()?);
    if (key.byte()?, key.byte()?) != (1, LEASE) {
        return None;
    }
    let mut value = Bytes(record.value.as_deref()?);
    let (_version, instance) = (value.byte()?, value.text()?.to_owned());
    let (renewed_ms, released) = (value.signed()?, value.byte()? == 1);
    Some(Lease { instance, renewed_ms, released, offset: record.offset })
}
