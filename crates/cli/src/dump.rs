//! `twinlog dump`: the internal topics, decoded, record by record.
//!
//! Does not: need a running process, change anything, or judge what it prints.
//!
//! # Invariants
//!
//! 1. No record is left out because it cannot be read: it is shown as what it is, with its offset.
//! 2. Topics of any size are read in bounded memory; see [`select`] for what
//!    `--last` and `--records newest` keep.
//! 3. The text of MM2's records and of groups is that of MM2's and Kafka's own formatters.

mod entry;
mod json;
mod kafka_json;
mod names;
mod place;
mod select;
#[cfg(test)]
mod testing;
mod text;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use twinlog_batch::Record;
use twinlog_client::{ClientError, Cluster, OffsetSpec};
use twinlog_engine::observe::Observer;
use twinlog_types::TopicPartition;

use self::entry::{Content, Entry, Filter};
use self::names::Names;
use self::select::{Last, Newest};
use self::text::At;
use crate::args::{Dump, DumpKind, Records};
use crate::discovery;
use crate::output::{Failure, NOT_FOUND_OUT, Output};
use crate::threads;

/// How often a topic that is followed is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);
/// Lines are written when so many bytes of them are there.
const WRITE_BYTES: usize = 64 << 10;
/// How far back `--last` looks first, for each record wanted; then that many times further.
const FURTHER: i64 = 8;

pub(crate) fn dump(args: &Dump, out: Output) -> Result<ExitCode, Failure> {
    let (args, kind) = args.with_kind()?;
    args.check(kind)?;
    let (looking, _) = threads::block_on(discovery::open_and_say(&args.common))?;
    let mut printer = Printer::new(kind, out);
    let mut sources = sources(&args, kind, &looking.observers)?;
    let code = threads::block_on(async {
        if !args.follow {
            return read(&args, &mut sources, &mut printer).await;
        }
        // Without --follow, Ctrl-C ends the process as it ends any.
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        tokio::select! {
            ended = follow(&args, &mut sources, &mut printer) => ended,
            _ = &mut interrupted => Ok(ExitCode::SUCCESS),
        }
    })?;
    printer.sink.end()?;
    Ok(code)
}

/// A topic that is read, with the offsets to read on from.
struct Source<'a> {
    observer: &'a Observer,
    place: place::Place,
    filter: Filter,
    names: Names,
    /// By partition; empty until the topic was found.
    next: Vec<(TopicPartition, i64)>,
}

/// The topics to read: each once, though several flows may share it.
fn sources<'a>(
    args: &Dump,
    kind: DumpKind,
    observers: &'a [Observer],
) -> Result<Vec<Source<'a>>, Failure> {
    let mut seen = BTreeSet::new();
    let mut sources = Vec::new();
    for observer in observers {
        let flow = &observer.config;
        let Some(place) = place::place(args, kind, flow) else { continue };
        if !seen.insert((place.alias(flow).clone(), place.topic.clone())) {
            continue;
        }
        // These name topics as the target has them; people may know the source's names.
        let on_target = matches!(kind, DumpKind::Checkpoints | DumpKind::Positions);
        let mirror = args.topic.as_ref().filter(|_| on_target);
        let filter = Filter {
            group: args.group.clone(),
            topic: args.topic.clone(),
            mirror: mirror.map(|topic| flow.remote_topic(topic).to_string()),
            partition: args.partition,
            records: args.of,
        };
        let names = Names::default();
        sources.push(Source { observer, place, filter, names, next: Vec::new() });
    }
    if sources.is_empty() {
        let alias = args.cluster.as_deref().unwrap_or_default();
        return Err(Failure::usage(
            format!("--cluster: no flow that is looked at has a cluster called `{alias}`"),
            "name the source or the target of a flow, by its alias",
        ));
    }
    Ok(sources)
}

/// Prints what is there now.
async fn read(
    args: &Dump,
    sources: &mut [Source<'_>],
    printer: &mut Printer,
) -> Result<ExitCode, Failure> {
    let several = sources.len() > 1;
    let mut failures = Vec::new();
    for source in sources {
        if several {
            printer.sink.flush();
            let flow = &source.observer.config;
            eprintln!(
                "twinlog: {} on {} ({}):",
                source.place.topic,
                source.place.alias(flow),
                flow.name
            );
        }
        match source.read(args, printer).await {
            Ok(()) => {}
            Err(failure) if several => failures.push(failure),
            Err(failure) => {
                printer.sink.flush();
                return Err(failure);
            }
        }
        if printer.sink.is_closed() {
            break;
        }
    }
    printer.sink.flush();
    if !args.follow {
        printer.say_what_was_found();
    }
    for failure in &failures {
        eprint!("{}", failure.lines());
        if printer.out.json {
            failure.print_document()?;
        }
    }
    Ok(ExitCode::from(if failures.is_empty() { 0 } else { NOT_FOUND_OUT }))
}

/// Prints what is there now, then what comes.
async fn follow(
    args: &Dump,
    sources: &mut [Source<'_>],
    printer: &mut Printer,
) -> Result<ExitCode, Failure> {
    let code = read(args, sources, printer).await?;
    let mut trouble: Option<String> = None;
    while !printer.sink.is_closed() {
        tokio::time::sleep(FOLLOW_EVERY).await;
        let mut now = None;
        for source in &mut *sources {
            if let Err(error) = source.read_on(args, printer).await {
                let alias = source.place.alias(&source.observer.config);
                now = Some(format!("{alias}: {error}; looking goes on"));
            }
        }
        printer.sink.flush();
        if now != trouble {
            if let Some(now) = &now {
                eprintln!("twinlog: {now}");
            }
            trouble = now;
        }
    }
    Ok(code)
}

impl Source<'_> {
    fn cluster(&self) -> Cluster {
        self.place.cluster(self.observer).clone()
    }

    async fn read(&mut self, args: &Dump, printer: &mut Printer) -> Result<(), Failure> {
        let alias = self.place.alias(&self.observer.config).clone();
        let partitions = place::partitions(self.observer, printer.kind, &self.place).await?;
        let topic = &self.place.topic;
        self.next = partitions
            .iter()
            .map(|number| (TopicPartition::new(topic.clone(), *number), 0))
            .collect();
        let read = async {
            if printer.kind == DumpKind::Map {
                self.learn_names(args).await?;
            }
            match (args.last, args.records(printer.kind)) {
                (Some(last), _) => self.read_last(args, last, printer).await,
                (None, Records::All) => self.read_on(args, printer).await,
                (None, Records::Newest) => self.read_newest(args, printer).await,
            }
        };
        read.await.map_err(|error| Failure::client(alias.as_str(), &error))
    }

    /// Positions name the topics of what lies before them.
    async fn learn_names(&mut self, args: &Dump) -> Result<(), ClientError> {
        let cluster = self.cluster();
        for (tp, _) in &self.next {
            let names = &mut self.names;
            cluster
                .read_partition_each(tp, 0, args.isolation(), |record| {
                    if let Content::State(state) = Entry::decode(DumpKind::Map, &record).content {
                        names.learn(&state);
                    }
                })
                .await?;
        }
        Ok(())
    }

    /// Prints what came since the last reading.
    async fn read_on(&mut self, args: &Dump, printer: &mut Printer) -> Result<(), ClientError> {
        let cluster = self.cluster();
        let ends = self.ends(&cluster, OffsetSpec::Latest, args).await?;
        for (at, end) in ends.into_iter().enumerate() {
            let (tp, next) = self.next[at].clone();
            if end == next {
                continue;
            }
            let from = if end < next {
                eprintln!(
                    "twinlog: {tp} ends at {end} now, before {next}: it was made again, or lost its end"
                );
                0
            } else {
                next
            };
            let (filter, names) = (&self.filter, &mut self.names);
            let alias = self.place.alias(&self.observer.config).as_str();
            let read = cluster
                .read_partition_until(&tp, from, args.isolation(), |record| {
                    printer.print(alias, &tp, &record, filter, names)
                })
                .await?;
            self.next[at].1 = read;
            if printer.sink.is_closed() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Prints the newest record of each key.
    async fn read_newest(&mut self, args: &Dump, printer: &mut Printer) -> Result<(), ClientError> {
        let cluster = self.cluster();
        for at in 0..self.next.len() {
            let tp = self.next[at].0.clone();
            let mut newest = Newest::default();
            let end = cluster
                .read_partition_each(&tp, 0, args.isolation(), |record| newest.note(&record))
                .await?;
            let (filter, names) = (&self.filter, &mut self.names);
            let alias = self.place.alias(&self.observer.config).as_str();
            cluster
                .read_partition_until(&tp, 0, args.isolation(), |record| {
                    if record.offset >= end {
                        return ControlFlow::Break(());
                    }
                    if newest.is_newest(&record) {
                        return printer.print(alias, &tp, &record, filter, names);
                    }
                    ControlFlow::Continue(())
                })
                .await?;
            self.next[at].1 = end;
            if printer.sink.is_closed() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Prints the last records: by time where there are several partitions.
    async fn read_last(
        &mut self,
        args: &Dump,
        keep: usize,
        printer: &mut Printer,
    ) -> Result<(), ClientError> {
        let cluster = self.cluster();
        let starts = self.ends(&cluster, OffsetSpec::Earliest, args).await?;
        let ends = self.ends(&cluster, OffsetSpec::Latest, args).await?;
        let mut all: Last<(Shown, Vec<u8>)> = Last::new(keep);
        for (at, (start, end)) in starts.into_iter().zip(ends).enumerate() {
            let tp = self.next[at].0.clone();
            let (filter, names) = (&self.filter, &mut self.names);
            let alias = self.place.alias(&self.observer.config).as_str();
            let mut back = i64::try_from(keep).unwrap_or(i64::MAX);
            let (last, next) = loop {
                let from = end.saturating_sub(back).max(start);
                let mut last = Last::new(keep);
                let next = cluster
                    .read_partition_each(&tp, from, args.isolation(), |record| {
                        let mut lines = Vec::new();
                        let shown = printer.put(alias, &tp, &record, filter, names, &mut lines);
                        if shown != Shown::Left {
                            last.push(record.timestamp, (shown, lines));
                        }
                    })
                    .await?;
                if last.is_full() || from <= start {
                    break (last, next);
                }
                back = back.saturating_mul(FURTHER);
            };
            all.merge(last);
            self.next[at].1 = next;
        }
        for (shown, lines) in all.into_lines() {
            printer.count(shown);
            if printer.sink.put(&lines).is_break() {
                break;
            }
        }
        Ok(())
    }

    async fn ends(
        &self,
        cluster: &Cluster,
        spec: OffsetSpec,
        args: &Dump,
    ) -> Result<Vec<i64>, ClientError> {
        let wanted: Vec<_> = self.next.iter().map(|(tp, _)| (tp.clone(), spec)).collect();
        let listed = cluster.list_offsets(&wanted, args.isolation()).await?;
        let ends = listed.into_iter().map(|(tp, answer)| match answer {
            Ok(listed) => Ok(listed.offset),
            Err(code) => Err(ClientError::Code {
                api: "ListOffsets",
                code,
                message: None,
                about: tp.to_string(),
            }),
        });
        ends.collect()
    }
}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    /// It was not asked for.
    Left,
    Read,
    Unreadable,
}

/// Turns records into lines and prints them.
struct Printer {
    kind: DumpKind,
    out: Output,
    sink: Sink,
    shown: u64,
    unreadable: u64,
}

impl Printer {
    fn new(kind: DumpKind, out: Output) -> Self {
        Self { kind, out, sink: Sink::default(), shown: 0, unreadable: 0 }
    }

    fn print(
        &mut self,
        alias: &str,
        tp: &TopicPartition,
        record: &Record,
        filter: &Filter,
        names: &mut Names,
    ) -> ControlFlow<()> {
        let mut lines = std::mem::take(&mut self.sink.buffer);
        let shown = self.put(alias, tp, record, filter, names, &mut lines);
        self.sink.buffer = lines;
        self.count(shown);
        self.sink.write_when_full()
    }

    /// Appends the lines of a record, if it is one of those wanted.
    fn put(
        &self,
        alias: &str,
        tp: &TopicPartition,
        record: &Record,
        filter: &Filter,
        names: &mut Names,
        lines: &mut Vec<u8>,
    ) -> Shown {
        let entry = Entry::decode(self.kind, record);
        if let Content::State(state) = &entry.content {
            names.learn(state);
        }
        if !filter.passes(&entry, names) {
            return Shown::Left;
        }
        let at = At { partition: tp, offset: record.offset };
        if self.out.json {
            // Writing to memory does not fail, nor do these documents: all keys are text.
            let _ = serde_json::to_writer(
                &mut *lines,
                &json::document(alias, at, record, &entry, names),
            );
            lines.push(b'\n');
        } else {
            text::put(lines, at, &entry, names);
        }
        match entry.content {
            Content::Unreadable(_) => Shown::Unreadable,
            _ => Shown::Read,
        }
    }

    fn count(&mut self, shown: Shown) {
        self.shown += u64::from(shown != Shown::Left);
        self.unreadable += u64::from(shown == Shown::Unreadable);
    }

    /// Says what the lines themselves may not: nobody should take nothing for an error.
    fn say_what_was_found(&self) {
        if self.shown == 0 {
            eprintln!("twinlog: no record matches");
        }
        if self.unreadable > 0 {
            eprintln!("twinlog: {} of {} records could not be read", self.unreadable, self.shown);
        }
    }
}

/// Standard output, written in large pieces.
#[derive(Default)]
struct Sink {
    buffer: Vec<u8>,
    /// What ended it; a reader that has had enough (`| head`) is no error.
    closed: Option<io::Error>,
}

impl Sink {
    fn put(&mut self, lines: &[u8]) -> ControlFlow<()> {
        self.buffer.extend_from_slice(lines);
        self.write_when_full()
    }

    fn write_when_full(&mut self) -> ControlFlow<()> {
        if self.buffer.len() >= WRITE_BYTES {
            self.flush();
        }
        if self.is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn flush(&mut self) {
        if self.closed.is_none() && !self.buffer.is_empty() {
            let mut out = io::stdout().lock();
            self.closed = out.write_all(&self.buffer).and_then(|()| out.flush()).err();
        }
        self.buffer.clear();
    }

    fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    fn end(mut self) -> Result<(), Failure> {
        self.flush();
        match self.closed {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::stdout(&error))
            }
            _ => Ok(()),
        }
    }
}
