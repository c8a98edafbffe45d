//! One fetch loop for each source broker: long polls, one incremental session, bounded bytes.
//!
//! A partition whose queue is full is left out until it has room; the bytes of every answer count
//! against the memory budget until the last batch of it is acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tracing::{info, warn};
use twinlog_client::{
    ErrorCode, FetchOptions, FetchPartition, FetchedPartition, Isolation, OffsetSpec, Remedy,
};
use twinlog_flow::copy::{Fetched, Keep, Stop};
use twinlog_types::{BrokerId, Code, SourceOffset, TopicPartition};

use crate::cell::{Cell, SourceLog};
use crate::flow::Flow;

/// Most bytes of one answer, beyond its first batch.
pub(crate) const ANSWER_BYTES: usize = 8 << 20;
/// Most bytes of one partition in an answer, beyond its first batch.
const PARTITION_BYTES: usize = 1 << 20;
/// A part below this fraction of its answer is copied out of it.
const SMALL_SHARE: usize = 16;
/// How long a broker waits for new records when everything is in sync.
const LONG_POLL: Duration = Duration::from_millis(500);
/// The same while a full partition waits for room: it must not be held up by idle ones.
const SHORT_POLL: Duration = Duration::from_millis(10);

/// Answers in a row that come at once and bring nothing, before the next one is waited for.
const FRUITLESS_MAX: u32 = 3;
/// An answer that comes sooner did not wait for records.
const AT_ONCE: Duration = Duration::from_millis(5);
/// How long memory is waited for before that is worth a word.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);
/// How long a partition rests whose range the source contradicts itself about.
const CONTRADICTION: Duration = Duration::from_millis(500);

/// Runs the loop of one source broker until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>, broker: BrokerId) {
    let isolation = flow.isolation();
    let mut session = flow.source.fetch_session(
        broker,
        FetchOptions {
            max_wait: LONG_POLL,
            min_bytes: 1,
            max_bytes: ANSWER_BYTES as i32,
            partition_max_bytes: PARTITION_BYTES as i32,
            isolation,
            rack: None,
        },
    );
    let mut backoff = flow.backoff(1_000 + broker as u64);
    let mut fruitless = 0;
    let ending = flow.ending();
    loop {
        let room = flow.room.notified();
        tokio::pin!(room);
        room.as_mut().enable();
        let (cells, wanted, held_back) = wanted(&flow, broker);
        if wanted.is_empty() {
            tokio::select! {
                biased;
                () = ending.ended() => return,
                () = &mut room => continue,
                () = tokio::time::sleep(LONG_POLL) => continue,
            }
        }
        let permit = tokio::select! {
            biased;
            () = ending.ended() => return,
            permit = memory(&flow) => permit,
        };
        // The semaphore is never closed.
        let Ok(permit) = permit else { return };
        session.set_max_wait(if held_back { SHORT_POLL } else { LONG_POLL });
        let asked_at = tokio::time::Instant::now();
        let answer = tokio::select! {
            biased;
            () = ending.ended() => return,
            answer = session.fetch(&wanted) => answer,
        };
        match answer {
            Ok(answer) => {
                if fruitless == 0 {
                    backoff.reset();
                }
                flow.source_reached();
                if !answer.throttle.is_zero() {
                    flow.source_throttled(answer.throttle);
                }
                let keep = keep(permit, answer.frame_bytes);
                let mut trouble = false;
                for part in answer.partitions {
                    if let Some((cell, asked)) = cells.get(&part.tp) {
                        let (part, keep) = alone(&flow, part, answer.frame_bytes, &keep);
                        trouble |= deliver(&flow, cell, *asked, part, &keep);
                    }
                }
                let at_once = asked_at.elapsed() < AT_ONCE;
                fruitless = if at_once && !moved(&cells) { fruitless + 1 } else { 0 };
                if trouble {
                    flow.source.metadata_stale();
                }
                if trouble || fruitless > FRUITLESS_MAX {
                    tokio::select! {
                        biased;
                        () = ending.ended() => return,
                        () = backoff.wait() => {}
                    }
                }
            }
            Err(error) => {
                info!(flow = %flow.name, broker, %error, "fetch failed");
                flow.source_unreachable(&error);
                flow.source.metadata_stale();
                tokio::select! {
                    biased;
                    () = ending.ended() => return,
                    () = backoff.wait() => {}
                }
            }
        }
    }
}

/// Memory for one answer. A wait for it that lasts is said.
async fn memory(flow: &Flow) -> Result<OwnedSemaphorePermit, AcquireError> {
    let acquiring = flow.budget.clone().acquire_many_owned(ANSWER_BYTES as u32);
    tokio::pin!(acquiring);
    if let Ok(permit) = tokio::time::timeout(MEMORY_PATIENCE, &mut acquiring).await {
        flow.memory_is_free();
        return permit;
    }
    flow.memory_is_full();
    acquiring.await
}

/// Whether any partition came further than what was asked for, or cannot go on for now.
fn moved(cells: &Asked) -> bool {
    cells.values().any(|(cell, asked)| {
        cell.copier.lock().wants_fetch().is_none_or(|from| from.offset.0 != *asked)
    })
}

/// The partitions of one fetch, and the offset asked of each.
type Asked = BTreeMap<TopicPartition, (Arc<Cell>, i64)>;

/// The partitions that this broker leads and that have room, what to ask for each, and whether
/// any was left out because it has none.
fn wanted(flow: &Flow, broker: BrokerId) -> (Asked, Vec<FetchPartition>, bool) {
    let mut cells = Asked::new();
    let mut wanted = Vec::new();
    let mut held_back = false;
    for cell in flow.cells.all() {
        let Some(leader) = flow.source.leader(&cell.source) else { continue };
        if leader.broker != broker
            || cell.checking.load(Ordering::Acquire)
            || cell.paused.load(Ordering::Acquire)
        {
            continue;
        }
        let from = {
            let copier = cell.copier.lock();
            held_back |= copier.is_full();
            copier.wants_fetch()
        };
        let Some(from) = from else { continue };
        wanted.push(FetchPartition {
            tp: cell.source.clone(),
            topic_id: cell.source_id,
            offset: from.offset.0,
            last_fetched_epoch: from.last_epoch,
            current_leader_epoch: leader.epoch,
            max_bytes: PARTITION_BYTES as i32,
        });
        cells.insert(cell.source.clone(), (cell, from.offset.0));
    }
    (cells, wanted, held_back)
}

/// What keeps an answer's bytes counted while any of its batches waits.
fn keep(mut permit: OwnedSemaphorePermit, frame_bytes: usize) -> Keep {
    let surplus = ANSWER_BYTES.saturating_sub(frame_bytes.max(1));
    drop(permit.split(surplus));
    Arc::new(permit)
}

/// A small part of a large answer is copied out, where the budget allows it: a slow partition must
/// not keep the bytes of all others.
fn alone(
    flow: &Flow,
    part: FetchedPartition,
    frame_bytes: usize,
    keep: &Keep,
) -> (FetchedPartition, Keep) {
    let bytes = part.records.len();
    if bytes == 0 || bytes.saturating_mul(SMALL_SHARE) >= frame_bytes {
        return (part, keep.clone());
    }
    match flow.budget.clone().try_acquire_many_owned(bytes as u32) {
        Ok(permit) => {
            let records = Bytes::copy_from_slice(&part.records);
            (FetchedPartition { records, ..part }, Arc::new(permit))
        }
        Err(_) => (part, keep.clone()),
    }
}

/// Hands one partition's part of an answer over. Returns whether the metadata may be stale.
fn deliver(
    flow: &Arc<Flow>,
    cell: &Arc<Cell>,
    asked: i64,
    part: FetchedPartition,
    keep: &Keep,
) -> bool {
    let from = SourceOffset(asked);
    if let Some((epoch, end)) = part.diverging {
        cell.copier.lock().source_diverged(from, epoch, SourceOffset(end));
        flow.stopped(cell);
        return false;
    }
    match part.error {
        ErrorCode::NONE => {
            let readable_end = match flow.isolation() {
                Isolation::ReadCommitted => part.last_stable_offset,
                Isolation::ReadUncommitted => part.high_watermark,
            };
            let high_watermark = part.high_watermark;
            *cell.source_log.lock() = Some(SourceLog { readable_end, high_watermark });
            if part.records.is_empty() || cell.paused.load(Ordering::Acquire) {
                // What was asked for before the pause is asked for again after it.
                return false;
            }
            let aborted = part
                .aborted
                .iter()
                .map(|one| (one.producer_id, SourceOffset(one.first_offset)))
                .collect();
            let (records, stopped) = {
                let mut copier = cell.copier.lock();
                let records = copier.fetched(Fetched {
                    from,
                    records: part.records,
                    aborted,
                    keep: keep.clone(),
                });
                (records, copier.stopped().is_some())
            };
            flow.counters.fetched_records.fetch_add(records, Ordering::Relaxed);
            if stopped {
                flow.stopped(cell);
            }
            flow.moved(cell);
            false
        }
        ErrorCode::OFFSET_OUT_OF_RANGE => {
            cell.checking.store(true, Ordering::Release);
            let (flow, cell) = (flow.clone(), cell.clone());
            flow.clone().spawn(async move { check_range(flow, cell, from).await });
            false
        }
        ErrorCode::UNKNOWN_TOPIC_ID
        | ErrorCode::INCONSISTENT_TOPIC_ID
        | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
            // Deleted, or deleted and made again: the next look at the topics tells which.
            flow.discover_soon();
            true
        }
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
            stop(
                flow,
                cell,
                Code::MissingPermission,
                format!(
                    "{} cannot be read: READ on the topic is missing on {}",
                    cell.source, flow.name.source
                ),
            );
            false
        }
        ErrorCode::CORRUPT_MESSAGE | ErrorCode::KAFKA_STORAGE_ERROR => {
            stop(
                flow,
                cell,
                Code::CorruptBatch,
                format!("the source cannot read {} at offset {asked}: {}", cell.source, part.error),
            );
            false
        }
        error => match error.remedy() {
            Remedy::Refuse | Remedy::Fatal => {
                stop(
                    flow,
                    cell,
                    Code::Stalled,
                    format!("the source answers {error} for {} at offset {asked}", cell.source),
                );
                false
            }
            Remedy::None | Remedy::Retry | Remedy::Refresh | Remedy::Reroute => true,
        },
    }
}

fn stop(flow: &Arc<Flow>, cell: &Arc<Cell>, code: Code, reason: String) {
    cell.copier.lock().stop(Stop { code, reason, range: None, passing: true });
    flow.stopped(cell);
}

/// Confirms an out-of-range answer at the leader: a follower, or a new leader, may answer it for
/// offsets that exist.
async fn check_range(flow: Arc<Flow>, cell: Arc<Cell>, from: SourceOffset) {
    let wanted =
        [(cell.source.clone(), OffsetSpec::Earliest), (cell.source.clone(), OffsetSpec::Latest)];
    let listed = flow.source.list_offsets(&wanted, Isolation::ReadUncommitted).await;
    let bounds = listed.ok().and_then(|listed| {
        let mut offsets = listed.into_iter().map(|(_, offset)| offset.ok().map(|one| one.offset));
        Some((offsets.next()??, offsets.next()??))
    });
    match bounds {
        // "Shorter" is never believed of ListOffsets alone: after any move it is behind for a
        // moment. The next fetch, with the epoch of the last batch, tells a real loss.
        Some((start, end)) if from.0 < start => {
            cell.copier.lock().source_out_of_range(from, SourceOffset(start), SourceOffset(end));
        }
        Some((_, end)) if from.0 > end => match flow.source.leader_view(&cell.source).await {
            Ok(view) => {
                if let Ok(log_end) = view.log_end().await
                    && from.0 > log_end
                {
                    cell.copier.lock().source_out_of_range(
                        from,
                        SourceOffset(0),
                        SourceOffset(log_end),
                    );
                }
            }
            Err(error) => {
                warn!(flow = %flow.name, partition = %cell.source, %error, "range unknown");
            }
        },
        Some(_) | None => {
            // It said that the offset is outside, and now that it is not, or nothing.
            flow.source.metadata_stale();
            tokio::time::sleep(CONTRADICTION).await;
        }
    }
    if cell.copier.lock().stopped().is_some() {
        flow.stopped(&cell);
    }
    cell.checking.store(false, Ordering::Release);
    flow.room.notify_waiters();
}
