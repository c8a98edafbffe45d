//! The Produce request around batches that are not copied.
//!
//! The codec's encoder copies every batch once into the request. Here the request is a list of
//! parts instead: small pieces written by hand, and between them the bodies of the batches by
//! reference, for one vectored write. The bytes are the codec's own, at every version (tested).
//!
//! Does not: patch batch heads (`batch` does), or write the frame's length and header (`wire` does,
//! because the correlation id is known only when the request is queued).

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};
use twinlog_types::{Partition, TopicId, TopicName};

use crate::primitive::{put_compact_string, put_string, put_uvarint};
use crate::{ApiKey, ProtocolError};

/// The length of a batch's head: what is patched, and so lies apart from the body.
pub const PRODUCE_HEAD_LEN: usize = 61;

/// One batch of a Produce request.
#[derive(Clone, Copy, Debug)]
pub struct PartitionPart<'a> {
    /// The topic's name: what versions up to 12 send.
    pub topic: &'a TopicName,
    /// The topic's id: what version 13 sends.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: Partition,
    /// The patched head of the one batch.
    pub head: &'a [u8; PRODUCE_HEAD_LEN],
    /// The batch after its head.
    pub body: &'a Bytes,
}

/// The body of a Produce request with acks=all, in parts: concatenated, they are the request
/// without its header. The bodies are shared, not copied.
///
/// Partitions of one topic need not be neighbours in `batches`; topics are sent in the order of
/// their first batch.
///
/// # Panics
///
/// When a partition is named twice (a broker would store one of the two batches and answer success
/// for both), when there is no batch, or when version 13 is given a topic without an id.
pub fn produce_parts(
    version: i16,
    transactional_id: Option<&str>,
    timeout_ms: i32,
    batches: &[PartitionPart<'_>],
) -> Result<Vec<Bytes>, ProtocolError> {
    const ACKS_ALL: i16 = -1;
    let supported = ApiKey::Produce.versions();
    if !supported.contains(version) {
        return Err(ProtocolError::UnsupportedVersion { api: ApiKey::Produce, version, supported });
    }
    assert!(!batches.is_empty(), "a Produce request without a batch");
    let topics = group_by_topic(version, batches);
    let flexible = version >= 9;

    let mut parts = Parts::new(batches);
    let small = &mut parts.small;
    if flexible {
        put_compact_string(small, transactional_id);
    } else {
        put_string(small, transactional_id);
    }
    small.put_i16(ACKS_ALL);
    small.put_i32(timeout_ms);
    put_array_len(small, flexible, topics.len());
    for batches in &topics {
        let small = &mut parts.small;
        if version >= 13 {
            small.put_slice(&batches[0].topic_id.0);
        } else if flexible {
            put_compact_string(small, Some(batches[0].topic.as_str()));
        } else {
            put_string(small, Some(batches[0].topic.as_str()));
        }
        put_array_len(small, flexible, batches.len());
        for batch in batches {
            parts.put_batch(flexible, batch);
        }
        if flexible {
            parts.small.put_u8(0);
        }
    }
    if flexible {
        parts.small.put_u8(0);
    }
    Ok(parts.finish())
}

/// The batches of each topic, topics in the order of their first batch.
fn group_by_topic<'a, 'b>(
    version: i16,
    batches: &'b [PartitionPart<'a>],
) -> Vec<Vec<&'b PartitionPart<'a>>> {
    let mut named = BTreeSet::new();
    let mut index = BTreeMap::new();
    let mut topics: Vec<Vec<&PartitionPart<'_>>> = Vec::new();
    for batch in batches {
        let (topic, partition) = (batch.topic, batch.partition);
        assert!(named.insert((topic, partition)), "{topic}-{partition} twice in one request");
        assert!(version < 13 || !batch.topic_id.is_none(), "{topic} has no id for version 13");
        let at = *index.entry(topic).or_insert_with(|| {
            topics.push(Vec::new());
            topics.len() - 1
        });
        topics[at].push(batch);
        assert!(topics[at][0].topic_id == batch.topic_id, "{topic} has two ids");
    }
    topics
}

fn put_array_len(buf: &mut BytesMut, flexible: bool, len: usize) {
    if flexible {
        put_uvarint(buf, len as u32 + 1);
    } else {
        buf.put_i32(len as i32);
    }
}

/// The request under construction: finished parts, and the small piece that grows.
struct Parts {
    done: Vec<Bytes>,
    /// All small pieces live in one allocation and are split off as they are finished.
    small: BytesMut,
}

impl Parts {
    fn new(batches: &[PartitionPart<'_>]) -> Self {
        let per_batch = PRODUCE_HEAD_LEN + 32;
        let topics: usize = batches.iter().map(|batch| batch.topic.as_str().len()).sum();
        Self {
            done: Vec::with_capacity(batches.len() * 2 + 1),
            small: BytesMut::with_capacity(64 + batches.len() * per_batch + topics),
        }
    }

    fn put_batch(&mut self, flexible: bool, batch: &PartitionPart<'_>) {
        let small = &mut self.small;
        let length = batch.head.len() + batch.body.len();
        small.put_i32(batch.partition);
        if flexible {
            put_uvarint(small, length as u32 + 1);
        } else {
            small.put_i32(length as i32);
        }
        small.put_slice(batch.head);
        self.done.push(self.small.split().freeze());
        self.done.push(batch.body.clone());
        if flexible {
            self.small.put_u8(0);
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        if !self.small.is_empty() {
            self.done.push(self.small.freeze());
        }
        self.done
    }
}
