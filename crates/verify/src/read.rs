//! Reads records as what stands for them.
//!
//! Both sides are read at the same time, each by a task of its own that decodes while the next
//! answer is on its way.
//!
//! # Invariants
//!
//! 1. The source is read with the list of aborted transactions, whatever the flow copies: what is
//!    not data is known as such. The target is read as a committed reader sees it.
//! 2. A side holds at most three answers of [`FETCH_BYTES`], and one decompressed batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use twinlog_client::{
    ClientError, Cluster, ErrorCode, Isolation, OffsetSpec, PartitionReader, READ_BATCH_BYTES_MAX,
    Stretch,
};
use twinlog_types::TopicPartition;

use crate::print::Entry;

/// What one answer holds at most, where a partition is read as a whole.
const FETCH_BYTES: i32 = 4 << 20;

/// The same where a few records are looked at.
const LOOK_BYTES: i32 = 256 << 10;

/// How far back a record is looked for before a position: holes of markers and compaction.
const BACK_MAX: i64 = 1 << 20;

/// Where records are read.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) cluster: Cluster,
    pub(crate) tp: TopicPartition,
    /// Timestamps are part of what is compared.
    pub(crate) with_timestamps: bool,
    /// Records of aborted transactions are given, and marked.
    pub(crate) with_aborted: bool,
}

/// The ends of a log, by the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ends {
    pub(crate) start: i64,
    /// Where what is committed ends.
    pub(crate) stable: i64,
    pub(crate) high_watermark: i64,
}

impl Ends {
    /// Whether a transaction is open.
    pub(crate) fn is_open(self) -> bool {
        self.stable < self.high_watermark
    }
}

impl Log {
    pub(crate) async fn ends(&self) -> Result<Ends, ClientError> {
        let specs =
            [(self.tp.clone(), OffsetSpec::Earliest), (self.tp.clone(), OffsetSpec::Latest)];
        let high = self.cluster.list_offsets(&specs, Isolation::ReadUncommitted).await?;
        let stable = self.cluster.list_offsets(&specs[1..], Isolation::ReadCommitted).await?;
        let mut all = high.into_iter().chain(stable).map(|(_, answer)| answer);
        let mut next = || self.offset(all.next());
        let (start, high_watermark, stable) = (next()?, next()?, next()?);
        Ok(Ends { start, stable: stable.min(high_watermark), high_watermark })
    }

    /// The first record with this timestamp or a newer one.
    pub(crate) async fn at_time(&self, timestamp: i64) -> Result<Option<i64>, ClientError> {
        let spec = [(self.tp.clone(), OffsetSpec::Timestamp(timestamp))];
        let listed = self.cluster.list_offsets(&spec, Isolation::ReadUncommitted).await?;
        let offset = self.offset(listed.into_iter().next().map(|(_, answer)| answer))?;
        Ok((offset >= 0).then_some(offset))
    }

    fn offset(
        &self,
        answer: Option<Result<twinlog_client::ListedOffset, ErrorCode>>,
    ) -> Result<i64, ClientError> {
        match answer.unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR)) {
            Ok(listed) => Ok(listed.offset),
            Err(code) => Err(ClientError::Code {
                api: "ListOffsets",
                code,
                message: None,
                about: self.tp.to_string(),
            }),
        }
    }

    fn reader(&self, range: (i64, i64), bytes: i32) -> PartitionReader {
        self.cluster
            .partition_reader(&self.tp, range, Isolation::ReadCommitted)
            .with_max_bytes(bytes)
    }

    /// The first `count` records from `from` on, below `end`.
    pub(crate) async fn from(
        &self,
        from: i64,
        end: i64,
        count: usize,
    ) -> Result<Vec<Entry>, ClientError> {
        let bytes = if count <= 1_000 { LOOK_BYTES } else { FETCH_BYTES };
        let mut reader = self.reader((from, end), bytes);
        let mut entries = Vec::new();
        while entries.len() < count
            && let Some(stretch) = reader.next().await?
        {
            self.entries(&stretch, end, &mut entries)?;
        }
        entries.truncate(count);
        Ok(entries)
    }

    /// The last `count` records in front of `before`, in their order; and whether the log begins
    /// with the first of them.
    pub(crate) async fn before(
        &self,
        start: i64,
        before: i64,
        count: usize,
    ) -> Result<(Vec<Entry>, bool), ClientError> {
        let mut back = (count as i64).max(16);
        loop {
            let from = before.saturating_sub(back).max(start);
            let mut entries = Vec::new();
            let mut reader = self.reader((from, before), LOOK_BYTES);
            while let Some(stretch) = reader.next().await? {
                self.entries(&stretch, before, &mut entries)?;
                let over = entries.len().saturating_sub(count);
                entries.drain(..over);
            }
            let at_start = from == start;
            if entries.len() >= count || at_start || back >= BACK_MAX {
                let whole = at_start && entries.len() < count;
                return Ok((entries, whole));
            }
            back *= 8;
        }
    }

    /// Decodes what an answer brought, below `end`.
    pub(crate) fn entries(
        &self,
        stretch: &Stretch,
        end: i64,
        out: &mut Vec<Entry>,
    ) -> Result<(), ClientError> {
        let corrupt = |reason| ClientError::Corrupt { about: self.tp.to_string(), reason };
        for read in stretch.batches.iter().filter(|read| self.with_aborted || !read.aborted) {
            let mut records = read.batch.read_records(READ_BATCH_BYTES_MAX).map_err(corrupt)?;
            while let Some(record) = records.next_view() {
                let record = record.map_err(corrupt)?;
                if (stretch.from..end).contains(&record.offset) {
                    out.push(Entry::of(&record, self.with_timestamps, read.aborted));
                }
            }
        }
        Ok(())
    }

    /// Reads a range in the background. `bytes` counts what was read.
    pub(crate) fn stream(&self, range: (i64, i64), bytes: &Arc<AtomicU64>) -> Stream {
        let (raw_sender, mut raw) = mpsc::channel(1);
        let mut reader = self.reader(range, FETCH_BYTES);
        let fetching = tokio::spawn(async move {
            loop {
                let next = reader.next().await;
                let over = !matches!(next, Ok(Some(_)));
                if raw_sender.send(next).await.is_err() || over {
                    return;
                }
            }
        });
        let (sender, entries) = mpsc::channel(1);
        let (log, bytes, end) = (self.clone(), bytes.clone(), range.1);
        let decoding = tokio::spawn(async move {
            while let Some(next) = raw.recv().await {
                let decoded = next.and_then(|stretch| {
                    let Some(stretch) = stretch else { return Ok(None) };
                    let read = stretch.batches.iter().map(|read| read.batch.bytes().len() as u64);
                    bytes.fetch_add(read.sum(), Ordering::Relaxed);
                    let mut entries = Vec::new();
                    log.entries(&stretch, end, &mut entries)?;
                    Ok(Some(entries))
                });
                let over = !matches!(decoded, Ok(Some(_)));
                if sender.send(decoded).await.is_err() || over {
                    return;
                }
            }
        });
        let tasks = [fetching.abort_handle(), decoding.abort_handle()];
        Stream { about: self.tp.to_string(), entries, tasks }
    }
}

/// Records as they are read. Dropping it ends the reading.
#[derive(Debug)]
pub(crate) struct Stream {
    about: String,
    entries: mpsc::Receiver<Result<Option<Vec<Entry>>, ClientError>>,
    tasks: [AbortHandle; 2],
}

impl Stream {
    /// The next ones; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Entry>>, ClientError> {
        // A task that ends without a word must not look like the end of the log.
        let unfinished = || ClientError::Timeout { what: format!("reading {}", self.about) };
        self.entries.recv().await.unwrap_or_else(|| Err(unfinished()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}
