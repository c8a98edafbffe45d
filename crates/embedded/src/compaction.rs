//! Log compaction as far as it changes what a reader meets: holes inside batches, batches gone.
//!
//! The last batch is never touched (Kafka does not compact the active segment), nor are
//! transactional batches, control batches and records without a key. The newest batch of a producer
//! stays even when it is empty, as in Kafka.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::codec::{self, Compression, Frame, Head};
use crate::log::{Log, Stored};

/// Keeps of every key below `limit` the newest record.
pub(crate) fn compact(log: &mut Log, limit: i64) {
    let batches = log.batches();
    let below = batches.iter().take_while(|stored| stored.next_offset() <= limit).count();
    let count = below.min(batches.len().saturating_sub(1));
    let mut newest: BTreeMap<Bytes, i64> = BTreeMap::new();
    let mut last_of: BTreeMap<i64, i64> = BTreeMap::new();
    for stored in batches {
        last_of.insert(stored.head.producer_id, stored.head.base_offset);
        if stored.head.is_control() {
            continue;
        }
        for record in codec::records(&stored.bytes).unwrap_or_default() {
            if let Some(key) = record.key {
                newest.insert(key, stored.head.base_offset + i64::from(record.offset_delta));
            }
        }
    }
    let keep_empty = |head: &Head| {
        head.producer_id >= 0 && last_of.get(&head.producer_id) == Some(&head.base_offset)
    };
    let kept = batches[..count]
        .iter()
        .filter_map(|stored| compacted(stored, &newest, keep_empty(&stored.head)))
        .collect();
    log.replace(0..count, kept);
}

fn compacted(stored: &Stored, newest: &BTreeMap<Bytes, i64>, keep_empty: bool) -> Option<Stored> {
    let head = stored.head;
    if head.is_control() || head.is_transactional() {
        return Some(stored.clone());
    }
    let records = codec::records(&stored.bytes).ok()?;
    let before = records.len();
    let kept: Vec<_> = records
        .into_iter()
        .filter(|record| {
            let offset = head.base_offset + i64::from(record.offset_delta);
            record.key.as_ref().is_none_or(|key| newest.get(key) == Some(&offset))
        })
        .collect();
    if kept.len() == before {
        return Some(stored.clone());
    }
    if kept.is_empty() && !keep_empty {
        return None;
    }
    let compression = Compression::from_attributes(head.attributes).unwrap_or(Compression::None);
    let bytes = codec::encode(Frame::of(&head, compression), &kept);
    let bytes = codec::stamp(&bytes, head.is_append_time(), head.max_timestamp.max(-1));
    let head = Head::parse(&bytes)?;
    Some(Stored { head, bytes })
}
