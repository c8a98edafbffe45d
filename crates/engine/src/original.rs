//! Compares the last copied record with its original, and learns the source's leader epoch of it, before
//! anything more is fetched.

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;
use twinlog_batch::{Record, batches};
use twinlog_client::{ClientError, ErrorCode, Isolation, LeaderView};
use twinlog_flow::copy::Stop;
use twinlog_types::{Code, LeaderEpoch, SourceOffset, TargetOffset, TopicPartition};

use crate::cell::Cell;
use crate::flow::Flow;
use crate::look::corrupt;

/// Most bytes that a batch may decompress to.
const DECODE_BYTES: usize = 256 << 20;

/// What was found of one record.
enum Found {
    /// Its batch, by its leader epoch, and the record where the cleaner left it.
    Batch(LeaderEpoch, Option<Record>),
    /// Retention, an operator or the cleaner took its batch.
    Gone,
    /// The log ends in front of it.
    Beyond(i64),
}

/// Does what the copier asks for. An error is to be tried again.
pub(crate) async fn compare(
    flow: &Arc<Flow>,
    cell: &Arc<Cell>,
    target: &LeaderView,
) -> Result<(), ClientError> {
    let (source_at, target_at) = {
        let copier = cell.copier.lock();
        let Some(source) = copier.wants_original() else { return Ok(()) };
        let map = copier.map();
        (source, map.acknowledged().checked_sub(1).and_then(|last| map.target_of(last)))
    };
    let original = match original_at(flow, cell, source_at).await {
        Ok(found) => found,
        Err(error) if error.is_retriable() => {
            flow.source.metadata_stale();
            return Err(error);
        }
        Err(error) => {
            // Nothing can be fetched either, and the fetch says why.
            debug!(flow = %flow.name, partition = %cell.source, %error, "the original cannot be read");
            Found::Gone
        }
    };
    match original {
        Found::Batch(epoch, record) => {
            let copy = match target_at {
                Some(at) => copy_at(target, cell, at).await?,
                None => None,
            };
            if let (Some(record), Some(at), Some(copy)) = (record, target_at, copy)
                && differs(&record, &copy)
            {
                let reason = format!(
                    "the last copied record differs from its original: {} offset {source_at} and {} offset {at}",
                    cell.source, cell.target
                );
                cell.copier.lock().stop(Stop {
                    code: Code::ContentsDiffer,
                    reason,
                    range: Some((source_at, source_at.plus(1))),
                    passing: false,
                });
            }
            cell.copier.lock().original_read(source_at, epoch);
        }
        Found::Gone => cell.copier.lock().original_read(source_at, -1),
        Found::Beyond(end) => {
            cell.copier.lock().original_beyond(source_at, SourceOffset(end));
        }
    }
    if cell.copier.lock().stopped().is_some() {
        flow.stopped(cell);
    }
    Ok(())
}

async fn original_at(flow: &Flow, cell: &Cell, offset: SourceOffset) -> Result<Found, ClientError> {
    let view = flow.source.leader_view(&cell.source).await?;
    record_at(&view, &cell.source, offset.0).await
}

/// The copy, where it is there and can be read.
async fn copy_at(
    view: &LeaderView,
    cell: &Cell,
    offset: TargetOffset,
) -> Result<Option<Record>, ClientError> {
    match record_at(view, &cell.target, offset.0).await {
        Ok(Found::Batch(_, record)) => Ok(record),
        Err(error) if error.is_retriable() => Err(error),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn differs(one: &Record, other: &Record) -> bool {
    one.key != other.key || one.value != other.value || one.headers != other.headers
}

async fn record_at(
    view: &LeaderView,
    tp: &TopicPartition,
    offset: i64,
) -> Result<Found, ClientError> {
    let records = match view.fetch(offset, 1, Duration::ZERO, Isolation::ReadUncommitted).await {
        Err(error) if error.code() == Some(ErrorCode::OFFSET_OUT_OF_RANGE) => None,
        answer => Some(answer?.records),
    };
    for batch in records.into_iter().flat_map(batches) {
        let batch = batch.map_err(|reason| corrupt(tp, reason))?;
        if batch.head().next_offset() <= offset {
            continue;
        }
        let head = *batch.head();
        if head.base_offset > offset {
            break;
        }
        let records = if head.is_control() {
            Vec::new()
        } else {
            batch.records(DECODE_BYTES).map_err(|reason| corrupt(tp, reason))?
        };
        let record = records.into_iter().find(|record| record.offset == offset);
        return Ok(Found::Batch(head.leader_epoch, record));
    }
    let end = view.log_end().await?;
    Ok(if end <= offset { Found::Beyond(end) } else { Found::Gone })
}
