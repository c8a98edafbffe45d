//! Looks at a target partition's tail before anything is sent after an unclear answer.
//!
//! Everything is asked of the leader under one leader epoch, and the log's end is asked for
//! before and after: a late packet of a lost connection, or a stale leader, shows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};
use twinlog_batch::{BatchError, heads};
use twinlog_client::{ClientError, ErrorCode, Isolation, LeaderView};
use twinlog_flow::copy::{LookFrom, Producer, Stop, Tail, TailBatch};
use twinlog_types::{Code, TargetOffset, TopicPartition};

use crate::cell::{Cell, LaneKey};
use crate::flow::{Flow, LANES_PER_BROKER};
use crate::{blocks, late, original, state};

const TAIL_BYTES: i32 = 4 << 20;
const TAIL_WAIT: Duration = Duration::from_millis(250);
/// After so many looks in vain a partition gives up what it holds fetched.
const PATIENCE: u32 = 3;
/// The longest series of waits before a look: some four seconds.
const FRUITLESS_MAX: u32 = 6;
/// How often the tail may move while it is looked at before the newest reading counts: somebody
/// else writes into the mirror all the time.
const MOVES_MAX: u32 = 20;

/// Looks until it succeeds, the partition stops, or the flow ends.
pub(crate) async fn run(flow: Arc<Flow>, cell: Arc<Cell>) {
    let mut backoff = flow.backoff(7_000 + cell.target.partition as u64);
    let ending = flow.ending();
    // A target that refuses every batch (too few replicas in sync, say) and is looked at in between
    // would be asked without a pause.
    let fruitless = fruitless(&cell);
    if fruitless >= PATIENCE {
        cell.copier.lock().shed();
    }
    for _ in 0..fruitless.min(FRUITLESS_MAX) {
        tokio::select! {
            biased;
            () = ending.ended() => break,
            () = backoff.wait() => {}
        }
    }
    let mut failed = 0;
    loop {
        let (from, original) = {
            let copier = cell.copier.lock();
            (copier.wants_look(), copier.wants_original())
        };
        if from.is_none() && original.is_none() {
            break;
        }
        let asking = async {
            // Held for one attempt: who waits for a dead broker must not hold up the others.
            let Ok(_permit) = flow.looks.acquire().await else { return Ok(None) };
            if let Some(from) = from {
                return look(&flow, &cell, from).await;
            }
            let view = flow.target.leader_view(&cell.target).await?;
            original::compare(&flow, &cell, &view).await.map(|()| None)
        };
        let outcome = tokio::select! {
            biased;
            () = ending.ended() => break,
            outcome = asking => outcome,
        };
        match outcome {
            Ok(None) => break,
            Ok(Some(until)) => {
                tokio::select! {
                    biased;
                    () = ending.ended() => break,
                    () = tokio::time::sleep_until(until) => continue,
                }
            }
            Err(error) => {
                debug!(flow = %flow.name, partition = %cell.target, %error, "the tail cannot be read yet");
                flow.look_failed(&cell, &error);
                failed += 1;
                if failed == PATIENCE {
                    cell.copier.lock().shed();
                }
                flow.target.metadata_stale();
            }
        }
        tokio::select! {
            biased;
            () = ending.ended() => break,
            () = backoff.wait() => {}
        }
    }
    cell.looking.store(false, Ordering::Release);
    flow.moved(&cell);
}

/// How many looks in a row followed a batch that did not get there. Where nothing was sent the leader
/// moved or a connection ended, which says nothing about what is sent next.
fn fruitless(cell: &Cell) -> u32 {
    let (acknowledged, sent) = {
        let copier = cell.copier.lock();
        (copier.map().acknowledged(), copier.unacknowledged() > 0)
    };
    let mut fruitless = cell.fruitless.lock();
    *fruitless = match *fruitless {
        (streak, before) if before == acknowledged && sent => (streak + 1, before),
        (streak, before) if before == acknowledged => (streak, before),
        _ => (0, acknowledged),
    };
    fruitless.0
}

/// Looks once. Answers when to look again, where what was found does not count yet.
async fn look(
    flow: &Arc<Flow>,
    cell: &Arc<Cell>,
    from: LookFrom,
) -> Result<Option<Instant>, ClientError> {
    let view = flow.target.leader_view(&cell.target).await?;
    flow.target_reached();
    if let Some(topic) = flow.target.cached(&cell.target.topic)
        && topic.id != cell.target_id
    {
        let reason = format!(
            "{} was deleted and made again on {}; what was copied is gone there",
            cell.target.topic, flow.name.target
        );
        cell.copier.lock().stop(Stop {
            code: Code::TargetRecreated,
            reason,
            range: None,
            passing: false,
        });
        flow.stopped(cell);
        return Ok(None);
    }
    let began = Instant::now();
    let tail = read_tail(flow, &view, cell, from).await?;
    if let Some(until) = late::judge(flow, cell, began) {
        return Ok(Some(until));
    }
    let looked = loop {
        let looked = cell.copier.lock().looked(&tail);
        let Some(number) = looked.needs_block else { break looked };
        let block = blocks::fetch(flow, cell, number).await?;
        let mut copier = cell.copier.lock();
        if let Err(error) = copier.reopen(&block) {
            copier.stop(state::corrupt(&cell.source, &error.to_string()));
        }
    };
    let index =
        (cell.source.partition as usize ^ cell.source.topic.as_str().len()) % LANES_PER_BROKER;
    *cell.lane.lock() = Some(LaneKey { broker: view.broker(), index });
    if let Some((lost_from, lost_to)) = looked.lost {
        warn!(
            flow = %flow.name, partition = %cell.target, code = %Code::TargetTruncated,
            from = lost_from.0, to = lost_to.0,
            "the target lost records that it had acknowledged; they are copied again"
        );
        flow.event(
            cell,
            Code::TargetTruncated,
            format!(
                "{} lost offsets {lost_from} to {} that it had acknowledged; they are copied again",
                cell.target,
                lost_to.0 - 1
            ),
        );
    }
    if looked.not_fenced {
        info!(
            flow = %flow.name, partition = %cell.target, code = %Code::NotFenced,
            "the target has forgotten our producer; the look alone protects from doubles until the next batch"
        );
    }
    if looked.estranged && cell.fruitless.lock().0 > 0 {
        let (id, epoch) = flow.target.init_producer_id().await?;
        warn!(
            flow = %flow.name, partition = %cell.target,
            "a packet that came in late took the place of our newest batch in the target's memory of our producer; going on with another producer"
        );
        cell.copier.lock().change_producer(Producer { id, epoch });
    }
    flow.board.goes_on(&flow.name, &cell.source);
    if looked.found > 0 {
        info!(
            flow = %flow.name, partition = %cell.target, records = looked.found,
            "found stored without a usable answer"
        );
    }
    original::compare(flow, cell, &view).await?;
    if cell.copier.lock().stopped().is_some() {
        flow.stopped(cell);
    }
    Ok(None)
}

async fn read_tail(
    flow: &Flow,
    view: &LeaderView,
    cell: &Cell,
    from: LookFrom,
) -> Result<Tail, ClientError> {
    let producer = cell.copier.lock().producer();
    let mut log_end = view.log_end().await?;
    let mut agreed = from.acknowledged_end.0;
    if from.newest_epoch >= 0 {
        let (epoch, end) = view.end_of_epoch(from.newest_epoch).await?;
        if epoch >= 0 {
            agreed = agreed.min(end);
        }
    }
    agreed = agreed.min(log_end);
    let remembered = view.producers().await?.into_iter().find(|state| {
        state.producer_id == producer.id
            && state.epoch == i32::from(producer.epoch)
            && state.last_sequence >= 0
    });
    let last_sequence = remembered.map(|state| state.last_sequence);
    let mut batches = Vec::new();
    let mut position = agreed;
    let mut log_start = 0;
    for moves in 0.. {
        let known = batches.len();
        while position < log_end {
            let part =
                match view.fetch(position, TAIL_BYTES, TAIL_WAIT, Isolation::ReadUncommitted).await
                {
                    Err(error) if error.code() == Some(ErrorCode::OFFSET_OUT_OF_RANGE) => {
                        // Retention, or an operator, took the log's start beyond what is asked for.
                        let start = flow.log_start(&flow.target, &cell.target).await?;
                        if start <= position {
                            return Err(error);
                        }
                        log_start = log_start.max(start);
                        position = start;
                        continue;
                    }
                    answer => answer?,
                };
            log_start = log_start.max(part.log_start_offset);
            let before = position;
            for head in heads(&part.records) {
                let head = head.map_err(|reason| corrupt(&cell.target, reason))?;
                if head.next_offset() <= position {
                    continue;
                }
                position = head.next_offset();
                batches.push(TailBatch {
                    base: TargetOffset(head.base_offset),
                    next: TargetOffset(head.next_offset()),
                    producer_id: head.producer_id,
                    producer_epoch: head.producer_epoch,
                    base_sequence: head.base_sequence,
                    // As it was written: compaction leaves the delta and takes records.
                    count: if head.is_control() {
                        0
                    } else {
                        (head.last_offset_delta + 1).unsigned_abs()
                    },
                });
            }
            if position == before && part.high_watermark >= log_end && !part.records.is_empty() {
                return Err(ClientError::Protocol {
                    peer: cell.target.to_string(),
                    api: "Fetch",
                    reason: format!(
                        "no whole batch at offset {position} of a log that ends at {log_end}"
                    ),
                });
            }
        }
        let end = view.log_end().await?;
        if end == log_end {
            break;
        }
        if moves >= MOVES_MAX {
            // Somebody else may write for ever; late packets of ours come to an end.
            let late = |batch: &TailBatch| batch.producer_id == producer.id;
            if batches[known..].iter().any(late) {
                return Err(ClientError::Timeout {
                    what: format!("the end of {}: batches of ours still arrive", cell.target),
                });
            }
            break;
        }
        log_end = end;
    }
    Ok(Tail {
        leader_epoch: view.epoch(),
        log_start: TargetOffset(log_start),
        log_end: TargetOffset(log_end),
        agreed: TargetOffset(agreed),
        last_sequence,
        batches,
    })
}

pub(crate) fn corrupt(tp: &TopicPartition, reason: BatchError) -> ClientError {
    ClientError::Corrupt { about: tp.to_string(), reason }
}
