//! Reading a partition from an offset to where it ends: answer by answer, or record by record.
//!
//! For looking: small topics that are read as a whole (state, checkpoints, offset-syncs), stretches
//! that are compared. Does not: follow a partition; that is what a
//! [`FetchSession`](crate::FetchSession) is for.
//!
//! # Invariants
//!
//! 1. The end is known before the first fetch: a log that grows while it is read cannot keep the
//!    reader.
//! 2. With [`Isolation::ReadCommitted`] records of aborted transactions are marked, and never given
//!    as records; markers never are.
//! 3. Memory holds one fetch answer, and one decompressed batch of at most 128 MiB.
//!
//! References: KIP-98 (aborted transactions in Fetch answers); Kafka's `Fetcher`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use twinlog_batch::{Batch, BatchError, Control, Record, batches};
use twinlog_protocol::ErrorCode;
use twinlog_types::{TopicId, TopicPartition};
use twinlog_wire::Connection;

use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::fetch::{AbortedTransaction, FetchPartition, FetchedPartition, Isolation, fetch_alone};
use crate::offsets::OffsetSpec;

const FETCH_BYTES: i32 = 8 << 20;
/// For one record: a broker sends at least one batch, however large it is.
const RECORD_FETCH_BYTES: i32 = 64 << 10;
/// What one batch may take once decompressed.
pub const READ_BATCH_BYTES_MAX: usize = 128 << 20;
const MAX_WAIT: Duration = Duration::from_millis(500);

impl Cluster {
    /// Every record from `from` to the end as of now, in order. Begins at the log start offset
    /// when that is later: a caller who must know what is missing looks it up.
    pub async fn read_partition(
        &self,
        tp: &TopicPartition,
        from: i64,
        isolation: Isolation,
    ) -> Result<Vec<Record>, ClientError> {
        let mut records = Vec::new();
        self.read_partition_each(tp, from, isolation, |record| records.push(record)).await?;
        Ok(records)
    }

    /// The same, one record at a time. Answers the end: where reading on would begin.
    pub async fn read_partition_each(
        &self,
        tp: &TopicPartition,
        from: i64,
        isolation: Isolation,
        mut each: impl FnMut(Record) + Send,
    ) -> Result<i64, ClientError> {
        let each = |record| {
            each(record);
            ControlFlow::Continue(())
        };
        self.read_partition_until(tp, from, isolation, each).await
    }

    /// The same, until `each` has had enough.
    pub async fn read_partition_until(
        &self,
        tp: &TopicPartition,
        from: i64,
        isolation: Isolation,
        mut each: impl FnMut(Record) -> ControlFlow<()> + Send,
    ) -> Result<i64, ClientError> {
        let start = self.listed(tp, OffsetSpec::Earliest, isolation).await?;
        let end = self.listed(tp, OffsetSpec::Latest, isolation).await?;
        let mut reader = self.partition_reader(tp, (from.max(start), end), isolation);
        while let Some(stretch) = reader.next().await? {
            for read in stretch.batches.iter().filter(|read| !read.aborted) {
                let records = read.batch.records(READ_BATCH_BYTES_MAX);
                for record in records.map_err(|reason| corrupt(tp, reason))? {
                    let offset = record.offset;
                    if (stretch.from..end).contains(&offset) && each(record).is_break() {
                        return Ok(offset + 1);
                    }
                }
            }
        }
        Ok(end.max(from))
    }

    /// Reads what lies from `from` to `end`, answer by answer.
    pub fn partition_reader(
        &self,
        tp: &TopicPartition,
        (from, end): (i64, i64),
        isolation: Isolation,
    ) -> PartitionReader {
        PartitionReader {
            cluster: self.clone(),
            tp: tp.clone(),
            next: from,
            end,
            isolation,
            max_bytes: FETCH_BYTES,
            connection: None,
        }
    }

    /// The record at this offset, committed or not; nothing where none is: a hole, a marker, or
    /// outside of the log. Costs one small fetch.
    pub async fn read_record(
        &self,
        tp: &TopicPartition,
        offset: i64,
    ) -> Result<Option<Record>, ClientError> {
        let isolation = Isolation::ReadUncommitted;
        let mut connection: Option<Connection> = None;
        let mut retry = self.retry();
        loop {
            let limits = (RECORD_FETCH_BYTES, Duration::ZERO);
            let error = match self.read_on(tp, offset, isolation, limits, &mut connection).await {
                Ok(fetched) => {
                    let mut found = None;
                    let mut each = |record| {
                        found = Some(record);
                        ControlFlow::Break(())
                    };
                    let _ = give(&fetched, offset, offset.saturating_add(1), isolation, &mut each)?;
                    return Ok(found);
                }
                Err(error) if error.code() == Some(ErrorCode::OFFSET_OUT_OF_RANGE) => {
                    return Ok(None);
                }
                Err(error) if error.is_retriable() => error,
                Err(error) => return Err(error),
            };
            connection = None;
            if !retry.pause().await {
                return Err(error);
            }
            self.refresh(std::slice::from_ref(&tp.topic)).await;
        }
    }

    /// Whether a partition may be read: a fetch that waits for nothing and takes as little as it
    /// can, tried once. An error says why not.
    pub async fn may_read(&self, tp: &TopicPartition) -> Result<(), ClientError> {
        let leader = self.route(tp).await?;
        let connection = self.connect(leader.broker).await?;
        let wanted = FetchPartition {
            tp: tp.clone(),
            topic_id: self.known_id(&tp.topic).unwrap_or(TopicId::NONE),
            offset: 0,
            last_fetched_epoch: -1,
            current_leader_epoch: leader.epoch,
            max_bytes: 1,
        };
        let isolation = Isolation::ReadCommitted;
        let read = fetch_alone(&connection, &wanted, Duration::ZERO, isolation).await;
        connection.close();
        match read {
            Err(error) if error.code() != Some(ErrorCode::OFFSET_OUT_OF_RANGE) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn listed(
        &self,
        tp: &TopicPartition,
        spec: OffsetSpec,
        isolation: Isolation,
    ) -> Result<i64, ClientError> {
        let mut retry = self.retry();
        loop {
            let listed = self.list_offsets(&[(tp.clone(), spec)], isolation).await?;
            let answer = listed.into_iter().next().map(|(_, answer)| answer);
            let code = match answer {
                Some(Ok(listed)) => return Ok(listed.offset),
                Some(Err(code)) => code,
                None => ErrorCode::UNKNOWN_SERVER_ERROR,
            };
            let about = tp.to_string();
            let error = ClientError::Code { api: "ListOffsets", code, message: None, about };
            // The lookup has asked several times already whether the topic exists.
            let final_word = code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            if final_word || !error.is_retriable() || !retry.pause().await {
                return Err(error);
            }
        }
    }

    /// One fetch from the leader, over a connection that is kept for the next.
    async fn read_on(
        &self,
        tp: &TopicPartition,
        offset: i64,
        isolation: Isolation,
        (max_bytes, max_wait): (i32, Duration),
        connection: &mut Option<Connection>,
    ) -> Result<FetchedPartition, ClientError> {
        let leader = self.route(tp).await?;
        let connection = match connection {
            Some(connection) if !connection.is_closed() => connection.clone(),
            slot => slot.insert(self.connect(leader.broker).await?).clone(),
        };
        let wanted = FetchPartition {
            tp: tp.clone(),
            topic_id: self.known_id(&tp.topic).unwrap_or(TopicId::NONE),
            offset,
            last_fetched_epoch: -1,
            current_leader_epoch: leader.epoch,
            max_bytes,
        };
        let (fetched, throttle) = fetch_alone(&connection, &wanted, max_wait, isolation).await?;
        if fetched.records.is_empty() && !throttle.is_zero() {
            tracing::debug!(%tp, ?throttle, "a quota holds this read");
        }
        Ok(fetched)
    }
}

impl FetchedPartition {
    /// Every record of this answer from `from` on that `isolation` shows, in order; markers never
    /// are. Answers where the next fetch begins.
    ///
    /// # Errors
    ///
    /// [`ClientError::Corrupt`] for the first damaged batch; what lies before it was given.
    pub fn each_record(
        &self,
        from: i64,
        isolation: Isolation,
        mut each: impl FnMut(Record),
    ) -> Result<i64, ClientError> {
        let mut each = |record| {
            each(record);
            ControlFlow::Continue(())
        };
        let given = give(self, from, i64::MAX, isolation, &mut each)?;
        match given {
            ControlFlow::Continue(next) | ControlFlow::Break(next) => Ok(next),
        }
    }
}

/// A batch of data.
#[derive(Clone, Debug)]
pub struct ReadBatch {
    /// The batch; its CRC holds.
    pub batch: Batch,
    /// Its transaction was aborted. Only told with [`Isolation::ReadCommitted`].
    pub aborted: bool,
}

/// What one answer brought.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// Records below this offset were asked for by nobody: a fetch begins with the batch that holds
    /// its offset.
    pub from: i64,
    /// Where reading goes on; at most the end.
    pub next: i64,
    /// The data, in order; none where only markers were read. Records at and behind the end may be
    /// in the last one.
    pub batches: Vec<ReadBatch>,
}

/// Reads a partition from an offset to an end. See [`Cluster::partition_reader`].
#[derive(Debug)]
pub struct PartitionReader {
    cluster: Cluster,
    tp: TopicPartition,
    next: i64,
    end: i64,
    isolation: Isolation,
    max_bytes: i32,
    connection: Option<Connection>,
}

impl PartitionReader {
    /// How many bytes an answer holds at most; the first batch comes even when it is larger.
    pub fn with_max_bytes(mut self, max_bytes: i32) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// The next answer that brings something; `None` at the end.
    ///
    /// # Errors
    ///
    /// When the log cannot be read on within the cluster's deadline, is damaged, or does not begin
    /// that early (`OFFSET_OUT_OF_RANGE`).
    pub async fn next(&mut self) -> Result<Option<Stretch>, ClientError> {
        let cluster = self.cluster.clone();
        let mut retry = cluster.retry();
        while self.next < self.end {
            let limits = (self.max_bytes, MAX_WAIT);
            let fetching =
                cluster.read_on(&self.tp, self.next, self.isolation, limits, &mut self.connection);
            let error = match fetching.await {
                Ok(fetched) => {
                    let stretch = self.stretch(&fetched)?;
                    if stretch.next > self.next {
                        self.next = stretch.next;
                        return Ok(Some(stretch));
                    }
                    let (tp, next, end) = (&self.tp, self.next, self.end);
                    ClientError::Timeout {
                        what: format!("reading {tp} at offset {next}, below its end {end}"),
                    }
                }
                Err(error) if error.is_retriable() => {
                    self.connection = None;
                    error
                }
                Err(error) => return Err(error),
            };
            tracing::debug!(%error, "reading again");
            if !retry.pause().await {
                return Err(error);
            }
            cluster.refresh(std::slice::from_ref(&self.tp.topic)).await;
        }
        Ok(None)
    }

    /// The batches of an answer, verified and judged.
    fn stretch(&self, fetched: &FetchedPartition) -> Result<Stretch, ClientError> {
        let mut aborted = Aborted::new(&fetched.aborted);
        let mut stretch = Stretch { from: self.next, next: self.next, batches: Vec::new() };
        for batch in batches(fetched.records.clone()) {
            let batch = batch.map_err(|reason| corrupt(&self.tp, reason))?;
            let head = batch.head();
            let visible =
                aborted.is_visible(&batch) || self.isolation == Isolation::ReadUncommitted;
            let (data, next) = (!head.is_control() && head.record_count > 0, head.next_offset());
            if data && next > stretch.from {
                stretch.batches.push(ReadBatch { batch, aborted: !visible });
            }
            stretch.next = stretch.next.max(next).min(self.end);
            if stretch.next >= self.end {
                break;
            }
        }
        Ok(stretch)
    }
}

fn corrupt(tp: &TopicPartition, reason: BatchError) -> ClientError {
    ClientError::Corrupt { about: tp.to_string(), reason }
}

/// Hands on the records of one answer that lie from `next` to `end`; answers where to go on, as a
/// break when the reader has had enough.
fn give(
    fetched: &FetchedPartition,
    mut next: i64,
    end: i64,
    isolation: Isolation,
    each: &mut impl FnMut(Record) -> ControlFlow<()>,
) -> Result<ControlFlow<i64, i64>, ClientError> {
    let corrupt = |reason| corrupt(&fetched.tp, reason);
    let mut aborted = Aborted::new(&fetched.aborted);
    for batch in batches(fetched.records.clone()) {
        let batch = batch.map_err(corrupt)?;
        let visible = aborted.is_visible(&batch) || isolation == Isolation::ReadUncommitted;
        if visible && !batch.head().is_control() {
            for record in batch.records(READ_BATCH_BYTES_MAX).map_err(corrupt)? {
                let offset = record.offset;
                if (next..end).contains(&offset) && each(record).is_break() {
                    return Ok(ControlFlow::Break(offset + 1));
                }
            }
        }
        next = next.max(batch.head().next_offset());
        if next >= end {
            break;
        }
    }
    Ok(ControlFlow::Continue(next))
}

/// Follows which producers are inside an aborted transaction while the batches go by.
struct Aborted<'a> {
    ahead: &'a [AbortedTransaction],
    inside: BTreeSet<i64>,
}

impl<'a> Aborted<'a> {
    /// `transactions` by first offset.
    fn new(transactions: &'a [AbortedTransaction]) -> Self {
        Self { ahead: transactions, inside: BTreeSet::new() }
    }

    fn is_visible(&mut self, batch: &Batch) -> bool {
        let head = batch.head();
        while let Some((first, rest)) = self.ahead.split_first()
            && first.first_offset <= head.last_offset()
        {
            self.inside.insert(first.producer_id);
            self.ahead = rest;
        }
        if batch.control() == Some(Control::Abort) {
            self.inside.remove(&head.producer_id);
            return false;
        }
        !(head.is_transactional() && self.inside.contains(&head.producer_id))
    }
}
