//! One partition and its mirror: what is compared, and what came of it.

use twinlog_client::ClientError;
use twinlog_engine::observe::MappedPartition;
use twinlog_types::{Partition, SourceOffset, TargetOffset, TopicName};

use crate::compare::{
    Around, Comparison, FINDINGS_MAX, Finding, Outcome, Part, Rules, Tally, Wants, locate,
};
use crate::map::{MaybeRuns, Runs};
use crate::print::SequenceHash;
use crate::read::{Ends, Log};
use crate::resume::Progress;

/// How much is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// About so many records of each partition: its first ones, its last ones, and some between.
    Sample(u64),
    /// Everything.
    Full,
}

/// How many records are compared at one place of a sample.
const PLACE_RECORDS: u64 = 250;

/// How many records are reckoned with that were copied since the map was read.
const COPIED_SINCE_MAX: usize = 2_000;

/// How many later records are looked at for keys that explain what compaction removed.
const EXPLAINING_MAX: usize = 100_000;

/// How many records around the end of the copy are looked at, to find it by contents.
const END_RECORDS: usize = 32;

/// Up to so many waiting records are counted one by one.
const WAITING_COUNTED_MAX: i64 = 100_000;

/// Records that wait to be copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// How many.
    pub records: u64,
    /// Bytes of their keys, values and headers.
    pub bytes: u64,
    /// The timestamp of the first.
    pub since_ms: Option<i64>,
    /// They were counted one by one; else both numbers are upper bounds by offsets.
    pub exact: bool,
}

/// What was found of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionReport {
    /// The topic on the source.
    pub topic: TopicName,
    /// The topic on the target.
    pub target_topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// Log start and end of the source, by what is committed.
    pub source: Option<(i64, i64)>,
    /// The same of the target.
    pub target: Option<(i64, i64)>,
    /// The next source offset to copy, where it is known or was found by contents.
    pub copied_to: Option<SourceOffset>,
    /// The durable offset map of twinlog was at hand; else contents alone decided.
    pub by_map: bool,
    /// Every record was looked at.
    pub whole: bool,
    /// The counts.
    pub tally: Tally,
    /// The first findings.
    pub findings: Vec<Finding>,
    /// Hashes of everything that was compared on the source and on the target; only of a whole.
    pub hashes: Option<(SequenceHash, SequenceHash)>,
    /// What waits to be copied.
    pub waiting: Option<Waiting>,
    /// The target does not have the partition.
    pub absent: bool,
    /// What could not be found out.
    pub trouble: Option<String>,
    /// What is worth knowing.
    pub notes: Vec<String>,
}

impl PartitionReport {
    /// Nothing found out yet.
    pub fn new(topic: TopicName, target_topic: TopicName, partition: Partition) -> Self {
        Self {
            topic,
            target_topic,
            partition,
            source: None,
            target: None,
            copied_to: None,
            by_map: false,
            whole: false,
            tally: Tally::default(),
            findings: Vec::new(),
            hashes: None,
            waiting: None,
            absent: false,
            trouble: None,
            notes: Vec::new(),
        }
    }

    /// Whether the target has the partition, and nothing differs in what was looked at.
    pub fn is_faithful(&self) -> bool {
        !self.absent && self.tally.is_faithful()
    }

    fn take(&mut self, outcome: Outcome) {
        add(&mut self.tally, &outcome.tally);
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        self.findings.extend(outcome.findings.into_iter().take(room));
    }
}

/// A partition that is to be compared.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) source: Log,
    pub(crate) target: Log,
    pub(crate) map: Option<MappedPartition>,
    /// Whether the topics are compacted, on the source and on the target. `None`: that may not be
    /// seen, and what compaction may have removed is undecided.
    pub(crate) compacts: (Option<bool>, Option<bool>),
    /// Pairs of offsets that MM2 has written, ascending.
    pub(crate) syncs: Vec<(i64, i64)>,
    /// The flow copies records of aborted transactions.
    pub(crate) copies_aborted: bool,
    /// The target stamps records itself.
    pub(crate) stamped: bool,
    /// The ids of the topic and of its mirror, as text.
    pub(crate) ids: (String, String),
}

/// What a job works with once the ends are known.
struct Bounds {
    source: Ends,
    target: Ends,
    runs: MaybeRuns,
}

impl Job {
    fn report(&self) -> PartitionReport {
        let (source, target) = (&self.source.tp, &self.target.tp);
        let mut report =
            PartitionReport::new(source.topic.clone(), target.topic.clone(), source.partition);
        if self.stamped {
            let note = "timestamps were not compared: the target's topic has LogAppendTime";
            report.notes.push(note.to_owned());
        }
        report
    }

    /// The report of a partition that the target does not have: everything waits.
    pub(crate) async fn absent(&self) -> PartitionReport {
        let mut report = PartitionReport { absent: true, ..self.report() };
        let looked = async {
            let ends = self.source.ends().await?;
            let waiting = self.waiting(ends.start, ends.stable).await?;
            Ok::<_, ClientError>((ends, waiting))
        };
        match looked.await {
            Ok((ends, waiting)) => {
                report.source = Some((ends.start, ends.stable));
                report.waiting = Some(waiting);
            }
            Err(error) => report.trouble = Some(error.to_string()),
        }
        report
    }

    /// The report of a partition whose mirror may not be described.
    pub(crate) fn unseen(&self) -> PartitionReport {
        let trouble = format!("{} may not be seen: it needs READ", self.target.tp.topic);
        PartitionReport { trouble: Some(trouble), ..self.report() }
    }

    /// Compares, and says what could not be found out. The target's end is read before the
    /// source's: what is copied in between then is on both.
    pub(crate) async fn compare(&self, how: How, progress: &Progress) -> PartitionReport {
        let mut report = self.report();
        let outcome = if self.is_inherited() {
            let by_contents = Self { map: None, ..self.clone() };
            by_contents.compare_into(&mut report, how, progress).await
        } else {
            self.compare_into(&mut report, how, progress).await
        };
        if let Err(error) = outcome {
            report.trouble = Some(error.to_string());
        }
        report
    }

    /// Whether somebody else copied the beginning: the map says nothing of that, so that contents decide
    /// about all of it.
    fn is_inherited(&self) -> bool {
        self.map.as_ref().is_some_and(|mapped| mapped.map.before().is_some())
    }

    async fn compare_into(
        &self,
        report: &mut PartitionReport,
        how: How,
        progress: &Progress,
    ) -> Result<(), ClientError> {
        let target = self.target.ends().await?;
        let source = self.source.ends().await?;
        report.source = Some((source.start, source.stable));
        report.target = Some((target.start, target.stable));
        report.by_map = self.map.is_some();
        if source.is_open() {
            report.notes.push(format!(
                "transactions are open on the source from offset {} on: what follows was not \
                 compared",
                source.stable
            ));
        }
        let runs = MaybeRuns(self.map.as_ref().map(|mapped| Runs::of(&mapped.map)));
        let bounds = Bounds { source, target, runs };
        match how {
            How::Full => self.full(report, bounds, progress).await,
            How::Sample(records) => self.sample(report, bounds, records).await,
        }
    }

    fn rules(&self, bounds: &Bounds, copied_to: Option<SourceOffset>) -> Rules {
        let by_contents = self.map.is_none();
        Rules {
            source_compacts: self.compacts.0.unwrap_or(true),
            target_compacts: self.compacts.1.unwrap_or(true),
            source_begins_late: by_contents && bounds.source.start > 0,
            target_begins_late: by_contents && bounds.target.start > 0,
            copied_to,
            target_goes_on: bounds.source.is_open(),
            to_the_end: true,
        }
    }

    /// Where comparing begins on both sides.
    async fn begin(&self, bounds: &Bounds) -> Result<(i64, i64), ClientError> {
        let (source, target) = (bounds.source.start, bounds.target.start);
        if let Some(mapped) = &self.map {
            let map = &mapped.map;
            let reversed = map.reverse(TargetOffset(target)).offset().map_or(source, |at| at.0);
            let from = if target > 0 { source.max(reversed) } else { source };
            let from = from.max(map.start().0);
            let to = map.translate(SourceOffset(from)).offset().map_or(target, |at| at.0);
            return Ok((from, to.max(target)));
        }
        let (mut from, mut to) = (source, target);
        // Whichever log begins later: the other has a record of that time no later than the same.
        if target > 0
            && let Some(first) = self.target.from(target, bounds.target.stable, 1).await?.first()
            && let Some(at) = self.source.at_time(first.timestamp).await?
        {
            from = from.max(at);
        }
        if source > 0
            && let Some(first) = self.source.from(source, bounds.source.stable, 1).await?.first()
            && let Some(at) = self.target.at_time(first.timestamp).await?
        {
            to = to.max(at);
        }
        Ok((from, to))
    }

    async fn full(
        &self,
        report: &mut PartitionReport,
        bounds: Bounds,
        progress: &Progress,
    ) -> Result<(), ClientError> {
        let copied_to = self.map.as_ref().map(|mapped| mapped.map.copied_to());
        let (mut from, mut to) = self.begin(&bounds).await?;
        let mut comparison = Comparison::new(self.rules(&bounds, copied_to), bounds.runs.clone());
        let saved = progress.saved_of(self);
        let saved = saved.and_then(|saved| Some((saved.outcome()?, saved)));
        if let Some((outcome, saved)) = saved {
            (from, to) = (saved.source_next, saved.target_next);
            report.notes.push(format!("went on from source offset {from}, where a run had ended"));
            comparison.resume(outcome);
        } else if from > bounds.source.start {
            report.notes.push(format!("compared from source offset {from} on"));
        }
        let all = (bounds.source.stable - from).max(0) as u64;
        let mut work = progress.begin(self, from, all);
        let mut source = self.source.stream((from, bounds.source.stable), &progress.source_bytes);
        let mut target = self.target.stream((to, bounds.target.stable), &progress.target_bytes);
        loop {
            comparison.advance();
            work.at(&comparison);
            match comparison.wants() {
                Wants::Source => match source.next().await? {
                    Some(entries) => comparison.push_source(entries),
                    None => comparison.end_source(),
                },
                Wants::Target => match target.next().await? {
                    Some(entries) => comparison.push_target(entries),
                    None => comparison.end_target(),
                },
                Wants::Nothing => break,
            }
        }
        let outcome = comparison.finish();
        work.done();
        report.whole = true;
        report.hashes = Some((outcome.source_hash, outcome.target_hash));
        report.waiting = Some(Waiting {
            records: outcome.tally.waiting,
            bytes: outcome.tally.waiting_bytes,
            since_ms: outcome.waits_since_ms,
            exact: true,
        });
        let last = outcome.last.map(|(source, _)| source.plus(1));
        report.copied_to = copied_to.or(last);
        report.take(outcome);
        self.undecided(report);
        Ok(())
    }

    fn undecided(&self, report: &mut PartitionReport) {
        let unseen = self.compacts.0.is_none() || self.compacts.1.is_none();
        if unseen && report.tally.compacted > 0 {
            report.tally.undecided += std::mem::take(&mut report.tally.compacted);
            report.trouble = Some(format!(
                "{} records are on one side only, and whether the topics are compacted may not be \
                 seen: it needs DESCRIBE_CONFIGS on both",
                report.tally.undecided
            ));
            return;
        }
        if report.tally.undecided > 0 {
            report.trouble = Some(format!(
                "of {} records it could not be told whether compaction removed them",
                report.tally.undecided
            ));
        }
    }

    async fn sample(
        &self,
        report: &mut PartitionReport,
        bounds: Bounds,
        records: u64,
    ) -> Result<(), ClientError> {
        let (from, _) = self.begin(&bounds).await?;
        if from > bounds.source.start {
            report.notes.push(format!("compared from source offset {from} on"));
        }
        let copied_to = self.copied_to((bounds.source, bounds.target)).await?;
        report.copied_to = copied_to;
        let Some(copied_to) = copied_to else {
            report.trouble = Some(
                "the last records of the mirror were not found on the source; --full compares \
                 everything"
                    .to_owned(),
            );
            return Ok(());
        };
        let end = copied_to.0.min(bounds.source.stable);
        let places = records.div_ceil(PLACE_RECORDS).max(1);
        let each = records.div_ceil(places);
        let whole = (end - from).max(0) as u64 <= records;
        report.whole = whole && from == bounds.source.start;
        if whole {
            let all = (end - from).max(0) as u64;
            self.place(report, &bounds, (from, end), all, true).await?;
        } else {
            for place in 0..places {
                let last = place + 1 == places;
                let at = if last {
                    let (entries, _) = self.source.before(from, end, each as usize).await?;
                    entries.first().map_or(end, |first| first.offset)
                } else {
                    let span = (end - from) as u128;
                    from + (span * u128::from(place) / u128::from(places)) as i64
                };
                self.place(report, &bounds, (at, end), each, last).await?;
            }
        }
        report.waiting = Some(self.waiting(copied_to.0, bounds.source.stable).await?);
        let unseen = self.compacts.0.is_none() || self.compacts.1.is_none();
        if unseen {
            self.undecided(report);
        } else if report.tally.undecided > 0 && report.trouble.is_none() {
            report.notes.push(format!(
                "{} records are on one side only, and no later one with their key is near: --full \
                 tells whether compaction removed them",
                report.tally.undecided
            ));
        }
        Ok(())
    }

    /// Compares `count` records from a source offset on. `last`: they reach to the end of the copy.
    async fn place(
        &self,
        report: &mut PartitionReport,
        bounds: &Bounds,
        (from, end): (i64, i64),
        count: u64,
        last: bool,
    ) -> Result<(), ClientError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let by_contents = self.map.is_none();
        // Where the map is at hand, what was copied since it was read is on both sides by now.
        let more = last && !by_contents;
        let source_end = if more { bounds.source.stable } else { end };
        let count = if more { count.saturating_add(COPIED_SINCE_MAX) } else { count };
        let source = self.source.from(from, source_end, count).await?;
        let Some(first) = source.first() else {
            return if last { self.rest(report, bounds, (from, end)).await } else { Ok(()) };
        };
        let source_behind = source[source.len() - 1].offset + 1;
        let (to, behind) =
            self.on_target(bounds, (first.offset, source_behind), first.timestamp).await?;
        let target_end = if last { bounds.target.stable } else { behind };
        // By contents the place is only known to lie behind `to`.
        let (times, around) = if by_contents { (2, 4_000) } else { (1, COPIED_SINCE_MAX) };
        let room = source.len().saturating_mul(times).saturating_add(around);
        let target = self.target.from(to, target_end, room).await?;
        let whole_target = target.len() < room;
        let at_start = from == bounds.source.start;
        let rules = Rules {
            source_begins_late: by_contents && (to > bounds.target.start || !at_start),
            target_begins_late: by_contents && at_start && bounds.target.start > 0,
            copied_to: Some(if more { SourceOffset(end) } else { SourceOffset(i64::MAX) }),
            target_goes_on: bounds.source.is_open()
                || !whole_target
                || (by_contents && !last)
                || (more && source.len() == count),
            to_the_end: last && whole_target && source.len() < count,
            ..self.rules(bounds, None)
        };
        let mut comparison = Comparison::new(rules, bounds.runs.clone());
        let looked_at = source.len() as u64;
        let read_to = target.last().map_or(to, |last| last.offset + 1);
        comparison.push_source(source);
        comparison.push_target(target);
        comparison.end_source();
        comparison.end_target();
        comparison.advance();
        if comparison.has_unexplained() && !rules.to_the_end {
            let source =
                self.source.from(source_behind, bounds.source.stable, EXPLAINING_MAX).await?;
            let target = self.target.from(read_to, bounds.target.stable, EXPLAINING_MAX).await?;
            comparison.explain(&source, &target);
        }
        let outcome = comparison.finish();
        if by_contents && outcome.first.is_none() && !whole_target {
            report.tally.undecided += looked_at;
            report.trouble = Some(format!(
                "what is on the target for source offset {from} was not found near where it should \
                 be; --full compares everything"
            ));
            return Ok(());
        }
        report.take(outcome);
        Ok(())
    }

    /// Nothing is left of the source: what the target has behind the copy.
    async fn rest(
        &self,
        report: &mut PartitionReport,
        bounds: &Bounds,
        (from, end): (i64, i64),
    ) -> Result<(), ClientError> {
        let Some(mapped) = &self.map else { return Ok(()) };
        let translated = mapped.map.translate(SourceOffset(end.max(from))).offset();
        let to = translated.map_or(bounds.target.start, |at| at.0).max(bounds.target.start);
        let target = self.target.from(to, bounds.target.stable, PLACE_RECORDS as usize).await?;
        let mut comparison = Comparison::new(self.rules(bounds, None), bounds.runs.clone());
        comparison.push_target(target);
        comparison.end_source();
        comparison.end_target();
        report.take(comparison.finish());
        Ok(())
    }

    /// Where a part of the source is on the target: exactly by the map, else no earlier than where
    /// it is.
    async fn on_target(
        &self,
        bounds: &Bounds,
        (from, behind): (i64, i64),
        first_ms: i64,
    ) -> Result<(i64, i64), ClientError> {
        let (start, end) = (bounds.target.start, bounds.target.stable);
        if let Some(mapped) = &self.map {
            let at = |offset: i64| mapped.map.translate(SourceOffset(offset)).offset();
            let from = at(from).map_or(start, |at| at.0);
            let behind = at(behind).map_or(end, |at| at.0);
            return Ok((from.max(start), behind.min(end).max(from)));
        }
        Ok((self.guess(from, first_ms, start).await?, end))
    }

    /// Without a map: a target offset not far before the record of a source offset, by its time or
    /// by MM2's nearest pair of offsets.
    pub(crate) async fn guess(
        &self,
        from: i64,
        at_ms: i64,
        start: i64,
    ) -> Result<i64, ClientError> {
        let by_time = self.target.at_time(at_ms).await?.unwrap_or(start);
        let below = self.syncs.partition_point(|(source, _)| *source <= from);
        let by_sync = below.checked_sub(1).map(|at| self.syncs[at]);
        // The target has no holes that the source does not have: the pair's distance is the most.
        let not_before = by_sync.map_or(start, |(_, target)| target);
        let not_behind = by_sync.map_or(i64::MAX, |(source, target)| target + (from - source));
        Ok(by_time.clamp(not_before.min(not_behind), not_behind).max(start))
    }

    /// How far the copy is: by the map, else by the target's last records.
    pub(crate) async fn copied_to(
        &self,
        (source, target): (Ends, Ends),
    ) -> Result<Option<SourceOffset>, ClientError> {
        if let Some(mapped) = &self.map {
            return Ok(Some(mapped.map.copied_to()));
        }
        let (before, _) = self.target.before(target.start, target.stable, END_RECORDS).await?;
        let Some(last) = before.last() else {
            // Nothing is on the target: nothing was copied, or everything was deleted since.
            let empty = target.start == 0 || source.start >= source.stable;
            return Ok(empty.then_some(SourceOffset(source.start)));
        };
        let Some(at) = self.source.at_time(last.timestamp).await? else { return Ok(None) };
        let near = 16 * END_RECORDS;
        let (mut entries, from_start) = self.source.before(source.start, at, near).await?;
        entries.extend(self.source.from(at.max(source.start), source.stable, 20_000).await?);
        let to_end = entries.last().is_none_or(|last| last.offset + 1 >= source.stable);
        let around = Around { before: &before, after: &[] };
        let part = Part { entries: &entries, from_start, to_end };
        // Of several places that look the same the last one: what is copied once more, is copied.
        let place = locate(around, part, i64::MAX);
        Ok(place.map(|place| match place.index.checked_sub(1) {
            Some(last) => SourceOffset(entries[last].offset + 1),
            None => SourceOffset(source.start),
        }))
    }

    async fn waiting(&self, from: i64, end: i64) -> Result<Waiting, ClientError> {
        let first = self.source.from(from, end, 1).await?;
        let since_ms = first.first().map(|first| first.timestamp);
        if end - from > WAITING_COUNTED_MAX {
            let sample = self.source.from(from, end, 1_000).await?;
            let bytes: u64 = sample.iter().map(|entry| u64::from(entry.bytes)).sum();
            let records = (end - from) as u64;
            let bytes = bytes / (sample.len().max(1) as u64) * records;
            return Ok(Waiting { records, bytes, since_ms, exact: false });
        }
        let entries = self.source.from(from, end, usize::MAX).await?;
        let data = || entries.iter().filter(|entry| !entry.marks.aborted);
        Ok(Waiting {
            records: data().count() as u64,
            bytes: data().map(|entry| u64::from(entry.bytes)).sum(),
            since_ms: data().next().map(|entry| entry.timestamp),
            exact: true,
        })
    }
}

fn add(all: &mut Tally, one: &Tally) {
    let Tally {
        source_records,
        target_records,
        source_bytes,
        target_bytes,
        equal,
        different,
        missing,
        extra,
        doubled,
        out_of_order,
        compacted,
        displaced,
        undecided,
        aborted,
        aborted_on_target,
        before,
        waiting,
        waiting_bytes,
        open,
    } = one;
    all.source_records += source_records;
    all.target_records += target_records;
    all.source_bytes += source_bytes;
    all.target_bytes += target_bytes;
    all.equal += equal;
    all.different += different;
    all.missing += missing;
    all.extra += extra;
    all.doubled += doubled;
    all.out_of_order += out_of_order;
    all.compacted += compacted;
    all.displaced += displaced;
    all.undecided += undecided;
    all.aborted += aborted;
    all.aborted_on_target += aborted_on_target;
    all.before += before;
    all.waiting += waiting;
    all.waiting_bytes += waiting_bytes;
    all.open += open;
}
