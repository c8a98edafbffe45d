//! One produce connection to one target broker, and the partitions pinned to it.
//!
//! A request carries at most one batch of each partition; several requests are in flight;
//! answers come in order. When the connection fails, every batch on it is unclear and its
//! partition is looked at.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, info, trace};
use twinlog_client::{
    ClientError, ErrorCode, ProduceAnswer, ProducePartition, ProducedPartition, Remedy,
};
use twinlog_flow::copy::{Answer, Stop};
use twinlog_types::{Code, Planted, TargetOffset, planted};

use crate::cell::{Cell, LaneKey};
use crate::ending::Ending;
use crate::flow::Flow;

/// Bytes of batches in one produce request, beyond its first batch.
const REQUEST_BYTES: usize = 4 << 20;
/// Produce requests in flight on one connection.
const REQUESTS_IN_FLIGHT: usize = 5;
/// How long a broker may wait for replicas before it answers.
const PRODUCE_TIMEOUT_MS: i32 = 20_000;

/// The partitions that have something to send on one lane.
pub(crate) struct Ready {
    key: LaneKey,
    cells: Mutex<VecDeque<Arc<Cell>>>,
    notify: Notify,
}

impl Ready {
    /// An empty queue.
    pub(crate) fn new(key: LaneKey) -> Self {
        Self { key, cells: Mutex::default(), notify: Notify::new() }
    }

    /// Queues a partition unless it is queued here already. In the queue of another lane, which may
    /// wait for a dead broker, it does not count any more.
    pub(crate) fn push(&self, cell: &Arc<Cell>) {
        if cell.queued.lock().replace(self.key) != Some(self.key) {
            self.cells.lock().push_back(cell.clone());
            self.notify.notify_one();
        }
    }

    /// The next one that was not queued elsewhere since.
    fn pop(&self) -> Option<Arc<Cell>> {
        let mut cells = self.cells.lock();
        while let Some(cell) = cells.pop_front() {
            if cell.queued.lock().take_if(|queued| *queued == self.key).is_some() {
                return Some(cell);
            }
        }
        None
    }

    fn len(&self) -> usize {
        self.cells.lock().len()
    }
}

type AnswerFuture = Pin<Box<dyn Future<Output = Result<ProduceAnswer, ClientError>> + Send>>;

struct Request {
    sent: Vec<(Arc<Cell>, u64)>,
    answer: AnswerFuture,
}

/// Runs one lane until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>, key: LaneKey, ready: Arc<Ready>) {
    let mut backoff = flow.backoff(key.broker as u64 + 31 * key.index as u64);
    let ending = flow.ending();
    loop {
        // Nothing is dialled before something is to be sent.
        while ready.len() == 0 {
            tokio::select! {
                biased;
                () = ending.ended() => return,
                () = ready.notify.notified() => {}
            }
        }
        let lane = tokio::select! {
            biased;
            () = ending.ended() => return,
            lane = flow.target.produce_lane(key.broker) => lane,
        };
        match lane {
            Ok(lane) => {
                flow.target_reached();
                let reason = serve(&flow, key, &lane, &ready, &ending).await;
                match reason {
                    None => return,
                    Some(error) => {
                        info!(flow = %flow.name, broker = key.broker, %error, "produce connection lost");
                        lose_all(&flow, key);
                        flow.target.metadata_stale();
                    }
                }
                backoff.reset();
            }
            Err(error) => {
                flow.target_unreachable(&error);
                flow.target.metadata_stale();
                // The leader may be another one by now: the look finds out.
                let waiting: Vec<_> = std::iter::from_fn(|| ready.pop()).collect();
                lose_all(&flow, key);
                // Whichever a look moved to another lane goes on there.
                for cell in waiting {
                    flow.moved(&cell);
                }
                tokio::select! {
                    biased;
                    () = ending.ended() => return,
                    () = backoff.wait() => {}
                }
            }
        }
    }
}

/// Serves one connection; returns why it ended, or nothing at the flow's end.
async fn serve(
    flow: &Arc<Flow>,
    key: LaneKey,
    lane: &twinlog_client::ProduceLane,
    ready: &Ready,
    ending: &Ending,
) -> Option<ClientError> {
    let mut in_flight: VecDeque<Request> = VecDeque::new();
    let error = loop {
        let mut failed = None;
        while in_flight.len() < REQUESTS_IN_FLIGHT {
            let (sent, parts) = collect(flow, key, ready);
            if parts.is_empty() {
                break;
            }
            match lane.send(parts, PRODUCE_TIMEOUT_MS) {
                Ok(answer) => in_flight.push_back(Request { sent, answer: Box::pin(answer) }),
                Err(error) => {
                    lose(flow, sent);
                    failed = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = failed {
            break Some(error);
        }
        let holds = flow.tenure.holds();
        tokio::select! {
            biased;
            answer = next_answer(&mut in_flight) => match answer {
                (sent, Ok(answer)) => settle(flow, sent, answer),
                (sent, Err(error)) => {
                    lose(flow, sent);
                    break Some(error);
                }
            },
            () = ready.notify.notified(), if in_flight.len() < REQUESTS_IN_FLIGHT => {}
            () = flow.tenure.held(), if !holds => {}
            // Nothing of it may arrive once somebody else sends.
            () = flow.tenure.over(), if holds && !in_flight.is_empty() => {
                break Some(ClientError::Timeout { what: "the renewal of the lease".into() });
            }
            () = ending.ended(), if in_flight.is_empty() => break None,
            () = ending.drained_signal() => break None,
        }
    };
    if !in_flight.is_empty() {
        lane.close();
    }
    for request in in_flight {
        lose(flow, request.sent);
    }
    error
}

async fn next_answer(
    in_flight: &mut VecDeque<Request>,
) -> (Vec<(Arc<Cell>, u64)>, Result<ProduceAnswer, ClientError>) {
    match in_flight.front_mut() {
        Some(request) => {
            let answer = request.answer.as_mut().await;
            let sent = in_flight.pop_front().map(|request| request.sent).unwrap_or_default();
            (sent, answer)
        }
        None => std::future::pending().await,
    }
}

/// Gathers one request: one batch of each partition that may send.
fn collect(
    flow: &Arc<Flow>,
    key: LaneKey,
    ready: &Ready,
) -> (Vec<(Arc<Cell>, u64)>, Vec<ProducePartition>) {
    let mut sent = Vec::new();
    let mut parts = Vec::new();
    let mut bytes = 0;
    let mut again = Vec::new();
    if !flow.tenure.holds() {
        return (sent, parts);
    }
    for _ in 0..ready.len() {
        if bytes >= REQUEST_BYTES {
            break;
        }
        let Some(cell) = ready.pop() else { break };
        if *cell.lane.lock() != Some(key) && !planted(Planted::TwoConnections) {
            // A look moved it to another leader while it stood here: never on two connections.
            flow.moved(&cell);
            continue;
        }
        let (sending, more) = {
            let mut copier = cell.copier.lock();
            (copier.next_send(), copier.has_unsent())
        };
        let Some(sending) = sending else { continue };
        bytes += sending.batch.len();
        trace!(
            flow = %flow.name, partition = %cell.target, broker = key.broker, record = sending.ticket,
            newest_ms = sending.batch.max_timestamp(), "sent"
        );
        parts.push(ProducePartition {
            tp: cell.target.clone(),
            topic_id: cell.target_id,
            batch: sending.batch,
        });
        sent.push((cell.clone(), sending.ticket));
        if more {
            again.push(cell);
        }
    }
    for cell in again {
        ready.push(&cell);
    }
    flow.counters.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    (sent, parts)
}

fn lose(flow: &Arc<Flow>, sent: Vec<(Arc<Cell>, u64)>) {
    for (cell, _) in sent {
        cell.copier.lock().lost();
        flow.look(&cell);
    }
}

/// The connection is gone, perhaps with its broker: what stands on this lane is looked at before
/// anything more is sent, idle partitions too.
fn lose_all(flow: &Arc<Flow>, key: LaneKey) {
    for cell in flow.cells.all() {
        if *cell.lane.lock() == Some(key) {
            cell.copier.lock().lost();
            flow.look(&cell);
        }
    }
}

fn settle(flow: &Arc<Flow>, sent: Vec<(Arc<Cell>, u64)>, answer: ProduceAnswer) {
    if !answer.throttle.is_zero() {
        flow.target_throttled(answer.throttle);
    }
    let mut partitions: std::collections::BTreeMap<_, _> =
        answer.partitions.into_iter().map(|part| (part.tp.clone(), part)).collect();
    for (cell, ticket) in sent {
        let answer = match partitions.remove(&cell.target) {
            Some(part) => judge(flow, &cell, &part),
            None => Answer::Unclear,
        };
        let stopped = {
            let mut copier = cell.copier.lock();
            copier.answered(ticket, answer);
            copier.stopped().is_some()
        };
        if stopped {
            flow.stopped(&cell);
        }
        flow.moved(&cell);
    }
}

/// What one partition's answer means for its batch.
fn judge(flow: &Flow, cell: &Cell, part: &ProducedPartition) -> Answer {
    let refused = |code, what: &str, passing| {
        let detail = part
            .record_errors
            .first()
            .and_then(|(_, message)| message.clone())
            .or_else(|| part.message.clone())
            .unwrap_or_default();
        Answer::Refused(Stop {
            code,
            reason: format!("{} refuses the batch: {} {what}{detail}", cell.target, part.error),
            range: None,
            passing,
        })
    };
    match part.error {
        ErrorCode::NONE => Answer::Stored { base: TargetOffset(part.base_offset) },
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => Answer::TooLarge,
        ErrorCode::INVALID_TIMESTAMP => refused(
            Code::TimestampRefused,
            "(message.timestamp.after.max.ms or .before.max.ms of the target topic) ",
            true,
        ),
        ErrorCode::TOPIC_AUTHORIZATION_FAILED | ErrorCode::CLUSTER_AUTHORIZATION_FAILED => {
            refused(Code::MissingPermission, "(WRITE on the topic is needed) ", true)
        }
        ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::PRODUCER_FENCED => {
            refused(Code::OwnedElsewhere, "", true)
        }
        // Too old, overlapping, too new, or a baseline that somebody else set: only the tail tells.
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
        | ErrorCode::DUPLICATE_SEQUENCE_NUMBER
        | ErrorCode::UNKNOWN_PRODUCER_ID => Answer::Unclear,
        ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
            // Deleted, or made again: the next look at the topics tells which.
            flow.discover_soon();
            flow.target.metadata_stale();
            Answer::Unclear
        }
        error => match error.remedy() {
            Remedy::Refuse => refused(Code::RefusedByTarget, "", true),
            Remedy::Retry | Remedy::Refresh | Remedy::Reroute | Remedy::Fatal | Remedy::None => {
                debug!(flow = %flow.name, partition = %cell.target, %error, "unclear answer");
                flow.target.metadata_stale();
                Answer::Unclear
            }
        },
    }
}
