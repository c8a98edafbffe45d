//! What the tests of this folder share.

use bytes::Bytes;
use twinlog_batch::Record;
use twinlog_offsets::state::{PartitionKey, Position};
use twinlog_types::{SourceOffset, TargetOffset, TopicId};

pub(crate) fn bytes(hex: &str) -> Bytes {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digit).collect()
}

pub(crate) fn record(offset: i64, key: Option<Bytes>, value: Option<Bytes>) -> Record {
    Record { offset, timestamp: 1_795_971_649_753, key, value, headers: Vec::new() }
}

pub(crate) fn partition_key() -> PartitionKey {
    let id = |last| TopicId(std::array::from_fn(|at| if at == 15 { last } else { 0 }));
    PartitionKey {
        source_cluster: "a".into(),
        target_cluster: "b".into(),
        source_topic: id(1),
        target_topic: id(2),
        generation: 0,
        partition: 0,
    }
}

pub(crate) fn position() -> Position {
    Position {
        source_topic: "orders".into(),
        target_topic: "hello.orders".into(),
        producer_id: 4000,
        producer_epoch: 0,
        start: SourceOffset(13),
        origin: TargetOffset(0),
        count: 1187,
        copied_to: SourceOffset(1200),
        target_end: TargetOffset(1187),
        runs: 2,
        source_epoch: 3,
        target_epochs: vec![(0, TargetOffset(0)), (2, TargetOffset(50))],
        written_ms: 1_767_225_600_000,
    }
}
