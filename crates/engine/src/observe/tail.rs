//! What the end of a log says: how far our last batch reaches, how old a record is, which
//! transaction is open.

use std::time::Duration;

use twinlog_batch::{Head, heads};
use twinlog_client::{ClientError, Cluster, Isolation};
use twinlog_offsets::OffsetMap;
use twinlog_offsets::state::Position;
use twinlog_types::{Sequence, SourceOffset, TopicPartition};

/// The broker sends at least one whole batch.
const ONE_BATCH: i32 = 1;
const MAX_WAIT: Duration = Duration::from_millis(100);

/// The head of the last batch below `end`.
pub(super) async fn last_head(
    target: &Cluster,
    tp: &TopicPartition,
    end: i64,
) -> Result<Option<Head>, ClientError> {
    let view = target.leader_view(tp).await?;
    let fetched = view.fetch(end - 1, ONE_BATCH, MAX_WAIT, Isolation::ReadUncommitted).await?;
    Ok(heads(&fetched.records).map_while(Result::ok).last())
}

/// Where the log ends by the word of its leader, replicated or not.
pub(super) async fn log_end(target: &Cluster, tp: &TopicPartition) -> Result<i64, ClientError> {
    target.leader_view(tp).await?.log_end().await
}

/// How far the last batch of the target proves the copy to be: records acknowledged, and the next
/// source offset.
///
/// `None` when the batch is not ours, or when our records since the durable position do not account
/// for every offset since: foreign records lie between, and the durable position stands. The run
/// that a batch belongs to is durable before the batch is sent, so the map knows its source.
pub(super) fn progress(
    map: &OffsetMap,
    position: &Position,
    head: &Head,
) -> Option<(u64, SourceOffset)> {
    let ours = head.producer_id == position.producer_id
        && head.producer_epoch == position.producer_epoch
        && !head.is_control();
    if !ours {
        return None;
    }
    let records = u64::try_from(head.record_count).ok()?;
    let first = Sequence::from_wire(head.base_sequence)?.count_near(position.count);
    let count = first.checked_add(records)?;
    let since = count.checked_sub(position.count).filter(|since| *since > 0)?;
    let offsets = head.next_offset().checked_sub(position.target_end.0)?;
    if i64::try_from(since) != Ok(offsets) {
        return None;
    }
    Some((count, map.source_of(count - 1)?.plus(1)))
}

/// The timestamp of the first batch with a record at or after `offset` of the source; `None` when
/// there is none that can be read.
pub(super) async fn timestamp_at(
    source: &Cluster,
    tp: &TopicPartition,
    offset: i64,
) -> Result<Option<i64>, ClientError> {
    let view = source.leader_view(tp).await?;
    let fetched = view.fetch(offset, ONE_BATCH, MAX_WAIT, Isolation::ReadUncommitted).await?;
    let head = heads(&fetched.records)
        .map_while(Result::ok)
        .find(|head| head.next_offset() > offset && !head.is_control() && head.max_timestamp >= 0);
    Ok(head.map(|head| head.max_timestamp))
}

/// An open transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OpenTransaction {
    pub(super) producer_id: i64,
    /// Where it begins.
    pub(super) start: i64,
    /// The timestamp of its newest record.
    pub(super) last_ms: i64,
}

/// The oldest open transaction of a partition.
pub(super) async fn open_transaction(
    source: &Cluster,
    tp: &TopicPartition,
) -> Result<Option<OpenTransaction>, ClientError> {
    let view = source.leader_view(tp).await?;
    let producers = view.producers().await?;
    let open = producers.iter().filter(|producer| producer.txn_start >= 0);
    Ok(open.min_by_key(|producer| producer.txn_start).map(|producer| OpenTransaction {
        producer_id: producer.producer_id,
        start: producer.txn_start,
        last_ms: producer.last_timestamp,
    }))
}

#[cfg(test)]
mod tests {
    use twinlog_offsets::RunStart;
    use twinlog_types::TargetOffset;

    use super::*;

    /// 10 records from source 100 to target 50, then a hole, and more from source 200.
    fn mirror() -> (OffsetMap, Position) {
        let mut map = OffsetMap::new(SourceOffset(100));
        map.set_origin(TargetOffset(50));
        let run = |count, source, target| RunStart {
            count,
            source: SourceOffset(source),
            target: TargetOffset(target),
        };
        map.plan(run(0, 100, 50));
        map.plan(run(10, 200, 60));
        map.acknowledge(8, SourceOffset(108));
        let position = Position {
            source_topic: "orders".into(),
            target_topic: "hello.orders".into(),
            producer_id: 7,
            producer_epoch: 0,
            start: SourceOffset(100),
            origin: TargetOffset(50),
            count: 8,
            copied_to: SourceOffset(108),
            target_end: TargetOffset(58),
            runs: 2,
            source_epoch: 0,
            target_epochs: Vec::new(),
            written_ms: 0,
        };
        (map, position)
    }

    fn head(base_offset: i64, base_sequence: i32, records: i32) -> Head {
        Head {
            base_offset,
            batch_length: 100,
            leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: records - 1,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: 7,
            producer_epoch: 0,
            base_sequence,
            record_count: records,
        }
    }

    #[test]
    fn our_last_batch_tells_how_far_the_copy_is() {
        let (map, position) = mirror();
        assert_eq!(progress(&map, &position, &head(58, 8, 2)), Some((10, SourceOffset(110))));
        assert_eq!(progress(&map, &position, &head(60, 10, 5)), Some((15, SourceOffset(205))));
        // A batch that the durable position covers in part.
        assert_eq!(progress(&map, &position, &head(56, 6, 4)), Some((10, SourceOffset(110))));
    }

    #[test]
    fn a_tail_that_is_not_only_ours_leaves_the_durable_position() {
        let (map, position) = mirror();
        let foreign = Head { producer_id: 9, ..head(58, 8, 2) };
        assert_eq!(progress(&map, &position, &foreign), None);
        let other_epoch = Head { producer_epoch: 1, ..head(58, 8, 2) };
        assert_eq!(progress(&map, &position, &other_epoch), None);
        // One foreign record lies before our batch.
        assert_eq!(progress(&map, &position, &head(59, 8, 2)), None);
        // Nothing new.
        assert_eq!(progress(&map, &position, &head(56, 6, 2)), None);
        let plain = Head { producer_id: 7, base_sequence: -1, ..head(58, 8, 2) };
        assert_eq!(progress(&map, &position, &plain), None);
    }

    #[test]
    fn a_sequence_that_wrapped_is_counted_on() {
        let (_, mut position) = mirror();
        let wrap = 1u64 << 31;
        let mut map = OffsetMap::new(SourceOffset(0));
        let zero = RunStart { count: 0, source: SourceOffset(0), target: TargetOffset(0) };
        map.plan(zero);
        position.count = wrap - 2;
        position.target_end = TargetOffset(wrap as i64 - 2);
        map.acknowledge(position.count, SourceOffset(wrap as i64 - 2));
        let head = head(wrap as i64 - 2, i32::MAX - 1, 5);
        assert_eq!(
            progress(&map, &position, &head),
            Some((wrap + 3, SourceOffset(wrap as i64 + 3)))
        );
    }
}
