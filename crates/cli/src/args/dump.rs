//! The arguments of `twinlog dump`.

use clap::ValueEnum;
use twinlog_client::Isolation;

use super::Common;
use crate::output::Failure;

pub(super) const EXAMPLES: &str = "\
Examples:
  twinlog dump mm2.properties offset-syncs
  twinlog dump mm2.properties checkpoints --group orders-app --records newest
  twinlog dump mm2.properties map --topic orders --partition 0
  twinlog dump mm2.properties consumer-offsets --cluster world --last 20 --follow
  twinlog dump mm2.properties heartbeats --json | jq .value

Text is what MM2's and Kafka's own formatters print. Lines that begin with # are for what those do
not print, or fail on: tombstones and records that cannot be read.

Exit codes:
  0  printed, or ended by Ctrl-C under --follow
  2  wrong usage or configuration
  3  it could not be found out: no such topic, unreachable, no permission";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    pub(crate) common: Common,
    /// What to print.
    #[arg(value_name = "KIND", required_unless_present = "source")]
    pub(crate) kind: Option<DumpKind>,
    /// Go on with what comes, until Ctrl-C.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only the last N records; of several partitions the newest.
    #[arg(long, value_name = "N", conflicts_with = "records")]
    pub(crate) last: Option<usize>,
    /// Every record, or the newest of each key as compaction would leave it. Without it: the newest
    /// for map, every record for the others.
    #[arg(long, value_name = "WHICH")]
    pub(crate) records: Option<Records>,
    /// Only what is about this group.
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// Only what is about this topic: its name in the record, or on the source.
    #[arg(long, value_name = "TOPIC")]
    pub(crate) topic: Option<String>,
    /// Only what is about this partition of a topic.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) partition: Option<i32>,
    /// Of heartbeats and consumer-offsets, which both clusters have: the one to read, by alias.
    /// Without it: heartbeats of the target, consumer-offsets of the source.
    #[arg(long, value_name = "ALIAS")]
    pub(crate) cluster: Option<String>,
    /// Of heartbeats: those that were copied from the source.
    #[arg(long, conflicts_with = "cluster")]
    pub(crate) mirrored: bool,
    /// Of consumer-offsets: what kinds of records.
    #[arg(long, value_name = "WHAT", default_value = "all")]
    pub(crate) of: GroupRecords,
    /// Also records of transactions that are open or were aborted; Kafka's console consumer shows
    /// them unless told otherwise.
    #[arg(long)]
    pub(crate) uncommitted: bool,
}

/// What can be printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DumpKind {
    /// MM2's pairs of offsets.
    OffsetSyncs,
    /// MM2's positions of groups on both sides.
    Checkpoints,
    /// Signs of life of MM2 and twinlog.
    Heartbeats,
    /// twinlog's own state: positions, the map run by run, gaps, who runs it.
    Map,
    /// How far MM2 copied: its `mm2-offsets` topic.
    Positions,
    /// What group coordinators keep: commits, groups.
    ConsumerOffsets,
}

/// Which records of the group coordinators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum GroupRecords {
    /// Commits, as Kafka's `OffsetsMessageFormatter` prints them.
    Commits,
    /// Groups of the classic protocol, as Kafka's `GroupMetadataMessageFormatter` prints them.
    Groups,
    /// These and all others; values that Kafka has no formatter for as bytes.
    #[default]
    All,
}

/// Which records of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Records {
    /// Every one that is there.
    All,
    /// The newest of each key.
    Newest,
}

impl DumpKind {
    fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Dump {
    /// `--source A --target B KIND`: without a file the kind is the only positional.
    pub(crate) fn with_kind(&self) -> Result<(Self, DumpKind), Failure> {
        let mut args = self.clone();
        if let Some(kind) = args.kind {
            return Ok((args, kind));
        }
        let word = args.common.file.take().unwrap_or_default();
        let kind = DumpKind::from_str(&word.to_string_lossy(), false).map_err(|_| {
            let known: Vec<String> =
                DumpKind::value_variants().iter().map(|kind| kind.word()).collect();
            Failure::usage(
                format!("`{}` is no kind of record", word.display()),
                format!("the kinds are {}", known.join(", ")),
            )
        })?;
        args.kind = Some(kind);
        Ok((args, kind))
    }

    /// Which options mean nothing for this kind.
    pub(crate) fn check(&self, kind: DumpKind) -> Result<(), Failure> {
        use DumpKind::{Checkpoints, ConsumerOffsets, Heartbeats, Map, OffsetSyncs, Positions};
        let of_topics = [OffsetSyncs, Checkpoints, Map, Positions, ConsumerOffsets];
        for (option, given, kinds) in [
            ("--group", self.group.is_some(), &[Checkpoints, Positions, ConsumerOffsets][..]),
            ("--topic", self.topic.is_some(), &of_topics),
            ("--partition", self.partition.is_some(), &of_topics),
            ("--cluster", self.cluster.is_some(), &[Heartbeats, ConsumerOffsets]),
            ("--mirrored", self.mirrored, &[Heartbeats]),
            ("--of", self.of != GroupRecords::All, &[ConsumerOffsets]),
        ] {
            if given && !kinds.contains(&kind) {
                let kinds: Vec<String> = kinds.iter().map(|kind| kind.word()).collect();
                return Err(Failure::usage(
                    format!("{option} means nothing for {}", kind.word()),
                    format!("{option} is for {}", kinds.join(", ")),
                ));
            }
        }
        Ok(())
    }

    /// Which records are there.
    pub(crate) fn isolation(&self) -> Isolation {
        if self.uncommitted { Isolation::ReadUncommitted } else { Isolation::ReadCommitted }
    }

    /// Which of them are printed, unless `--last` says.
    pub(crate) fn records(&self, kind: DumpKind) -> Records {
        let usual = if kind == DumpKind::Map { Records::Newest } else { Records::All };
        self.records.unwrap_or(usual)
    }
}
