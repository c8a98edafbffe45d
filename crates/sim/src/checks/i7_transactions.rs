//! I7: of transactions only what was committed reaches the target, and no marker does.

use bytes::Bytes;

use crate::oracle::{Fate, Written};

/// Where the attributes of a batch of format 2 lie, and the bit that marks a control batch.
const ATTRIBUTES: usize = 21;
const CONTROL: u16 = 0x20;

/// A record that no reader of the source may see.
pub fn uncommitted(written: &Written, target: i64) -> Option<String> {
    (written.fate != Fate::Committed).then(|| {
        format!(
            "record {} (source offset {}) is {:?} and stands at {target}",
            written.number, written.offset, written.fate
        )
    })
}

/// Control batches in a mirror.
pub fn markers(batches: &[Bytes]) -> Option<String> {
    let control = |batch: &&Bytes| {
        let attributes = batch.get(ATTRIBUTES..ATTRIBUTES + 2);
        attributes.is_some_and(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]) & CONTROL != 0)
    };
    let count = batches.iter().filter(control).count();
    (count > 0).then(|| format!("{count} control batches"))
}
