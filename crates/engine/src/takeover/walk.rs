//! Reads a partition and its mirror side by side, as fingerprints.

use std::time::Duration;

use twinlog_client::{
    ClientError, Cluster, Isolation, OffsetSpec, PartitionReader, READ_BATCH_BYTES_MAX,
};
use twinlog_flow::rebuild::{Aligned, Aligner, Need, Print, ROW_RECORDS, RowFound, RowSearch};
use twinlog_mirror::FlowConfig;
use twinlog_offsets::Stretch;
use twinlog_types::{SourceOffset, TargetOffset, TopicPartition};

use super::mm2::Pair;

/// A partition and its mirror.
#[derive(Clone)]
pub(crate) struct Sides {
    pub(crate) source: (Cluster, TopicPartition),
    pub(crate) target: (Cluster, TopicPartition),
    /// What MM2 saw of the source.
    isolation: Isolation,
    /// Whether the target keeps the source's timestamps.
    timestamps: bool,
}

impl Sides {
    /// Finds out how records of the two are compared.
    pub(crate) async fn new(
        config: &FlowConfig,
        source: (Cluster, TopicPartition),
        target: (Cluster, TopicPartition),
    ) -> Result<Self, ClientError> {
        // MM2 reads uncommitted unless it is told otherwise, and copies aborted records.
        let committed =
            config.source_consumer.get("isolation.level").is_some_and(|it| it == "read_committed");
        let isolation =
            if committed { Isolation::ReadCommitted } else { Isolation::ReadUncommitted };
        let topics = std::slice::from_ref(&target.1.topic);
        let configs = target.0.describe_topic_configs(topics).await?;
        let kind = configs.values().filter_map(|entries| entries.as_ref().ok()).flatten();
        let mut kind = kind.filter(|entry| entry.name == "message.timestamp.type");
        let appended =
            kind.next().and_then(|entry| entry.value.as_deref()) == Some("LogAppendTime");
        Ok(Self { source, target, isolation, timestamps: !appended })
    }

    async fn read_source(&self, from: SourceOffset, to: Option<i64>) -> Result<Log, ClientError> {
        let (cluster, tp) = &self.source;
        Log::open(cluster, tp, (from.0, to), self.isolation).await
    }

    async fn read_target(&self, from: TargetOffset, to: Option<i64>) -> Result<Log, ClientError> {
        let (cluster, tp) = &self.target;
        Log::open(cluster, tp, (from.0, to), Isolation::ReadCommitted).await
    }

    /// Whether the two records are there and the same.
    pub(crate) async fn is_pair(&self, pair: Pair) -> Result<bool, ClientError> {
        let (source, target) = (&self.source, &self.target);
        let (source, target) = tokio::join!(
            source.0.read_record(&source.1, pair.0.0),
            target.0.read_record(&target.1, pair.1.0)
        );
        let print = |record| Print::of(&record, self.timestamps);
        let (source, target) = (source?.map(print), target?.map(print));
        Ok(source.is_some() && source == target)
    }

    /// Compares what lies between two places that are the same on both sides, and hands on the
    /// stretches in which they agree.
    pub(crate) async fn between(
        &self,
        from: Pair,
        to: Pair,
        each: &mut (impl FnMut(Stretch) + Send),
    ) -> Result<Aligned, ClientError> {
        let mut source = self.read_source(from.0, Some(to.0.0)).await?;
        let mut target = self.read_target(from.1, Some(to.1.0)).await?;
        let mut aligner = Aligner::new(from.0);
        self.feed(&mut aligner, &mut source, &mut target, each).await?;
        let (stretches, aligned) = aligner.meet_at(to.0);
        stretches.into_iter().for_each(each);
        Ok(aligned)
    }

    /// Follows the target from a place that is the same on both sides to its end.
    pub(crate) async fn behind(&self, from: Pair) -> Result<(Vec<Stretch>, Aligned), ClientError> {
        let mut source = self.read_source(from.0, None).await?;
        let mut target = self.read_target(from.1, None).await?;
        let mut aligner = Aligner::new(from.0);
        let mut all = Vec::new();
        let mut each = |stretch| all.push(stretch);
        self.feed(&mut aligner, &mut source, &mut target, &mut each).await?;
        let (stretches, aligned) = aligner.target_behind();
        all.extend(stretches);
        Ok((all, aligned))
    }

    async fn feed(
        &self,
        aligner: &mut Aligner,
        source: &mut Log,
        target: &mut Log,
        each: &mut (impl FnMut(Stretch) + Send),
    ) -> Result<(), ClientError> {
        loop {
            let need = aligner.advance();
            aligner.take_stretches().into_iter().for_each(&mut *each);
            let more = match need {
                Need::Nothing => return Ok(()),
                Need::Source if aligner.target_is_matched() => return Ok(()),
                Need::Source => {
                    self.read_on(source, |at, print| aligner.source(SourceOffset(at), print))
                        .await?
                }
                Need::Target => {
                    self.read_on(target, |at, print| aligner.target(TargetOffset(at), print))
                        .await?
                }
            };
            match need {
                Need::Source if !more => aligner.source_ended(),
                Need::Target if !more => aligner.target_ended(),
                _ => {}
            }
            // A long way is walked beside the copy, not in its place.
            tokio::time::sleep(Duration::ZERO).await;
        }
    }

    /// One answer's records; whether there was one.
    async fn read_on(
        &self,
        log: &mut Log,
        mut each: impl FnMut(i64, Print) + Send,
    ) -> Result<bool, ClientError> {
        let Some(stretch) = log.reader.next().await? else { return Ok(false) };
        for read in stretch.batches.iter().filter(|read| !read.aborted) {
            let records = read.batch.records(READ_BATCH_BYTES_MAX);
            for record in records.map_err(|reason| log.corrupt(reason))? {
                if (stretch.from..log.end).contains(&record.offset) {
                    each(record.offset, Print::of(&record, self.timestamps));
                }
            }
        }
        Ok(true)
    }

    /// The last records of the target, and the place of the very last.
    pub(crate) async fn tail(
        &self,
        low: TargetOffset,
        high: TargetOffset,
    ) -> Result<(Vec<Print>, Option<TargetOffset>), ClientError> {
        let mut back = ROW_RECORDS as i64;
        loop {
            let from = TargetOffset((high.0 - back).max(low.0));
            let mut reader = self.read_target(from, None).await?;
            let mut row = std::collections::VecDeque::new();
            let mut last = None;
            let mut more = true;
            while more {
                more = self
                    .read_on(&mut reader, |at, print| {
                        last = Some(TargetOffset(at));
                        row.push_back(print);
                        if row.len() > ROW_RECORDS {
                            row.pop_front();
                        }
                    })
                    .await?;
            }
            // Behind markers there may be no record at all.
            if !row.is_empty() || from <= low {
                return Ok((row.into(), last));
            }
            back *= 16;
        }
    }

    /// Where on the source a row of records of the target is.
    pub(crate) async fn find_on_source(
        &self,
        row: &[Print],
        from: SourceOffset,
    ) -> Result<RowFound, ClientError> {
        self.find(row, self.read_source(from, None).await?).await
    }

    async fn find(&self, row: &[Print], mut reader: Log) -> Result<RowFound, ClientError> {
        let Some(mut search) = RowSearch::new(row.to_vec()) else { return Ok(RowFound::Nowhere) };
        while self.read_on(&mut reader, |at, print| search.record(at, print)).await? {}
        Ok(search.found())
    }

    /// The first place that both sides still have, below `to`: where the later of the two logs
    /// begins.
    pub(crate) async fn first_pair(&self, to: Pair) -> Result<Option<Pair>, ClientError> {
        let mut source = self.read_source(SourceOffset(0), Some(to.0.0)).await?;
        let mut target = self.read_target(TargetOffset(0), Some(to.1.0)).await?;
        let (source_row, target_row) =
            (self.first_row(&mut source).await?, self.first_row(&mut target).await?);
        let prints = |row: &[(i64, Print)]| row.iter().map(|(_, print)| *print).collect::<Vec<_>>();
        if let Some(&(first_target, _)) = target_row.first() {
            let reader = self.read_source(SourceOffset(0), Some(to.0.0)).await?;
            if let RowFound::Once { first, .. } = self.find(&prints(&target_row), reader).await? {
                return Ok(Some((SourceOffset(first), TargetOffset(first_target))));
            }
        }
        if let Some(&(first_source, _)) = source_row.first() {
            let reader = self.read_target(TargetOffset(0), Some(to.1.0)).await?;
            if let RowFound::Once { first, .. } = self.find(&prints(&source_row), reader).await? {
                return Ok(Some((SourceOffset(first_source), TargetOffset(first))));
            }
        }
        Ok(None)
    }

    async fn first_row(&self, log: &mut Log) -> Result<Vec<(i64, Print)>, ClientError> {
        let mut row = Vec::new();
        while row.len() < ROW_RECORDS
            && self.read_on(log, |at, print| row.push((at, print))).await?
        {}
        row.truncate(ROW_RECORDS);
        Ok(row)
    }
}

/// A log as it is read: what is there when it is opened.
struct Log {
    tp: TopicPartition,
    reader: PartitionReader,
    end: i64,
}

impl Log {
    /// From an offset, or where the log begins, to its end, or an earlier one.
    async fn open(
        cluster: &Cluster,
        tp: &TopicPartition,
        (from, to): (i64, Option<i64>),
        isolation: Isolation,
    ) -> Result<Self, ClientError> {
        let wanted = [(tp.clone(), OffsetSpec::Earliest), (tp.clone(), OffsetSpec::Latest)];
        let mut ends = Vec::new();
        for (_, listed) in cluster.list_offsets(&wanted, isolation).await? {
            let refused = |code| ClientError::Code {
                api: "ListOffsets",
                code,
                message: None,
                about: tp.to_string(),
            };
            ends.push(listed.map_err(refused)?.offset);
        }
        let &[start, end] = ends.as_slice() else {
            return Err(ClientError::Protocol {
                peer: tp.to_string(),
                api: "ListOffsets",
                reason: "the partition is missing in the answer".into(),
            });
        };
        let end = to.map_or(end, |to| to.min(end));
        let reader = cluster.partition_reader(tp, (from.max(start), end), isolation);
        Ok(Self { tp: tp.clone(), reader, end })
    }

    fn corrupt(&self, reason: twinlog_batch::BatchError) -> ClientError {
        ClientError::Corrupt { about: self.tp.to_string(), reason }
    }
}
