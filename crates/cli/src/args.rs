//! The command line.

mod decide;
mod doctor;
mod dump;
mod verify;
mod wait;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, ArgGroup, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use twinlog_types::FlowName;

pub(crate) use decide::{Pause, Resume, Sync};
pub(crate) use doctor::Doctor;
pub(crate) use dump::{Dump, DumpKind, GroupRecords, Records};
pub(crate) use verify::{Rehearse, Verify};
pub(crate) use wait::Wait;

const EXAMPLES: &str = "\
Examples:
  twinlog run mm2.properties
  twinlog status mm2.properties --problems
  twinlog doctor mm2.properties
  twinlog explain mm2.properties --group orders-app
  twinlog translate mm2.properties --topic orders --partition 0 --offset 1100

Exit codes:
  0  all is well
  1  something is wrong with what was looked at
  2  wrong usage or configuration
  3  it could not be found out (unreachable, no permission, timed out)";

const RUN_EXAMPLES: &str = "\
Examples:
  twinlog run mm2.properties
  twinlog run mm2.properties --clusters world
  twinlog run mm2.properties -X 'hello->world.topics=orders' -v
  twinlog run --source kafka-a:9092 --target kafka-b:9092

Signals:
  SIGTERM, Ctrl-C  end in order: what is in flight is settled, positions are stored, exit 0
  Ctrl-C again     end at once
  SIGHUP           read the file again; with problems in it, the old one stays in force";

const CHECK_EXAMPLES: &str = "\
Examples:
  twinlog check mm2.properties
  twinlog check mm2.properties --all
  twinlog check mm2.properties --online
  twinlog check mm2.properties --json | jq '.problems[]'

It names each value with its line, keys that nobody reads, and settings that contradict each other.
With --online it reads both clusters and says what would be created, changed, copied or taken over
from MirrorMaker 2. It changes nothing.

Exit codes:
  0  the file is sound; with --online, everything it asks for would be copied
  1  with --online: something cannot be made or copied, or would have to wait
  2  errors in the file, or wrong usage
  3  with --online: something could not be found out; what was found is printed";

const STATUS_EXAMPLES: &str = "\
Examples:
  twinlog status mm2.properties
  twinlog status mm2.properties --problems
  twinlog status mm2.properties --group orders-app --json
  twinlog status mm2.properties --watch
  twinlog status --source kafka-a:9092 --target kafka-b:9092

Exit codes:
  0  nothing is stopped
  1  something is stopped, or neither twinlog nor MM2 runs the flow
  2  wrong usage or configuration
  3  it could not be found out; what was found is printed";

const TRANSLATE_EXAMPLES: &str = "\
Examples:
  twinlog translate mm2.properties --topic orders --partition 0 --offset 1100
  twinlog translate mm2.properties --topic hello.orders --partition 0 --offset 1087 --reverse
  twinlog translate mm2.properties --group orders-app
  echo '{\"topic\":\"orders\",\"partition\":0,\"offset\":1100}' | twinlog translate mm2.properties -

Exit codes:
  0  translated
  1  there is no translation: not mirrored, nothing copied, or by MM2 alone (its place is told)
  2  wrong usage or configuration
  3  it could not be found out";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  twinlog explain mm2.properties --group orders-app
  twinlog explain mm2.properties --topic orders
  twinlog explain mm2.properties --group orders-app --partition 3 --json
  twinlog explain mm2.properties --group orders-app -v

It reads both clusters and changes nothing. It works for mirrors that twinlog makes and for those
that MirrorMaker 2 makes, with or without a running process. -v shows the evidence of every link.
Of several flows those are explained that the group or topic is at home in: under --json one
document a line for each.

Exit codes:
  0  every link is well, or only a warning says otherwise
  1  a link is broken, or there is no such group or topic
  2  wrong usage or configuration
  3  a link could not be looked at; what was found is printed";

const MAN_EXAMPLES: &str = "\
Examples:
  twinlog man | man -l -
  twinlog man status | man -l -
  twinlog man --dir /usr/local/share/man/man1";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  twinlog completions bash > /etc/bash_completion.d/twinlog
  twinlog completions zsh > ~/.zfunc/_twinlog
  twinlog completions fish > ~/.config/fish/completions/twinlog.fish";

const DEMO_EXAMPLES: &str = "\
Examples:
  twinlog demo
  twinlog demo --once
  twinlog demo --once --json | jq .verdict
  twinlog demo --port-base 39092

Two in-memory clusters in this process, `hello` and `world`, with topics, producers and groups; a
mirror between them; then hello is killed, and every group resumes on world. Any Kafka client can
connect to both, and the other commands take the properties file that is named, as long as the demo
stays. With --once it does not: clusters and file are gone when it ends.

Signals:
  SIGTERM, SIGHUP, Ctrl-C  end in order, with the exit code of the drill; a second one ends at once

Exit codes:
  0    every synced group resumed at the exact record
  1    one did not, or a record was copied wrongly
  2    wrong usage
  3    it could not be found out: a port is taken, a file cannot be written
  130  a signal before the drill was finished, or a second one";

const EMBEDDED_EXAMPLES: &str = "\
Examples:
  twinlog embedded
  twinlog embedded --port 19092 --topics orders:3,payments
  twinlog embedded --brokers 3 --kafka-version 3.9
  twinlog embedded --port 0 --json | jq -r .bootstrap

The first line on standard output is the bootstrap address. Nothing is kept when it ends; no rights
are checked, and TLS and SASL are not spoken. It is for trying things and for tests, not for data.

Memory:
  --memory limits the records of all topics together. Beyond it the oldest records of the largest
  partitions are deleted, as retention.bytes would; a line on standard error says so. Topics with
  cleanup.policy=compact are compacted instead, and if they alone are too large, producers are
  refused with POLICY_VIOLATION. Requests that are still arriving take up to 100m besides, on all
  connections together; beyond that connections wait.

Signals:
  SIGTERM, Ctrl-C  end, exit 0

Exit codes:
  0  ended as told
  2  wrong usage: a port that is taken, a topic name that Kafka refuses
  3  the system refuses something";

/// Keeps a live twin of a Kafka cluster on another, and every consumer's place in it.
#[derive(Debug, Parser)]
#[command(name = "twinlog", version, about, after_help = EXAMPLES, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mirror, until stopped.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Show what a file means, what is wrong with it, and what `run` would do.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Show how flows, topics and groups stand.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(Status),
    /// Translate offsets between source and target.
    #[command(after_help = TRANSLATE_EXAMPLES)]
    Translate(Translate),
    /// Wait until everything, a topic or a group is in sync.
    #[command(after_help = wait::EXAMPLES, mut_arg("timeout", |arg| arg.help(wait::TIMEOUT_HELP)))]
    Wait(Wait),
    /// Print the internal topics, decoded.
    #[command(after_help = dump::EXAMPLES)]
    Dump(Dump),
    /// Explain one group or topic: the chain link by link, and what to do.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Find what is wrong with a mirror, of twinlog or of MirrorMaker 2, and what to do.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(Doctor),
    /// Stop copying a topic until it is resumed.
    #[command(after_help = decide::PAUSE_EXAMPLES)]
    Pause(Pause),
    /// End a pause, or go on behind a loss.
    #[command(after_help = decide::RESUME_EXAMPLES)]
    Resume(Resume),
    /// Put a group on the target where it belongs.
    #[command(after_help = decide::SYNC_EXAMPLES)]
    Sync(Sync),
    /// Prove by contents that the mirror is equal, and that every group stands where it should.
    #[command(after_help = verify::EXAMPLES)]
    Verify(Verify),
    /// Read on from a group's position on the target, beside the source, by way of a scratch group.
    #[command(after_help = verify::REHEARSE_EXAMPLES)]
    Rehearse(Rehearse),
    /// Show it: two clusters, a mirror, the loss of one, and where every group resumes.
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(Demo),
    /// One in-memory Kafka cluster for trying things, until stopped.
    #[command(after_help = EMBEDDED_EXAMPLES)]
    Embedded(Embedded),
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a manual page, or write all of them.
    #[command(after_help = MAN_EXAMPLES)]
    Man(Man),
}

/// What to do with mirrors that hold records which nothing explains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Existing {
    /// They were copied from the source: find by contents where, and go on behind.
    Match,
    /// They are somebody else's: write behind what is there.
    Append,
}

impl From<Existing> for twinlog_engine::Existing {
    fn from(existing: Existing) -> Self {
        match existing {
            Existing::Match => Self::Match,
            Existing::Append => Self::Append,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only flows into these clusters, by alias.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) clusters: Vec<String>,
    /// What to do with mirrors that hold records which neither twinlog's state nor MM2's explains:
    /// find what is common by contents, or write behind what is there. Without it they are left
    /// alone.
    #[arg(long, value_name = "HOW")]
    pub(crate) existing: Option<Existing>,
    /// Threads that do the work.
    #[arg(long, value_name = "N", default_value = "2")]
    pub(crate) threads: NonZeroUsize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Look at the clusters too: what would be created, changed, copied or taken over.
    #[arg(long)]
    pub(crate) online: bool,
    /// Show keys that stand at their default too.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Go on looking, until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
    /// How long to wait between two looks.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration, requires = "watch")]
    pub(crate) interval: Duration,
    /// Only this group, and the topics it has commits on.
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// Only this topic (its name on the source), and positions on it.
    #[arg(long, value_name = "TOPIC")]
    pub(crate) topic: Option<String>,
    /// Only what is not in sync.
    #[arg(long)]
    pub(crate) problems: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Translate {
    #[command(flatten)]
    pub(crate) common: Common,
    /// `-`: translate JSON lines from standard input, each like
    /// {"topic":"orders","partition":0,"offset":1100}; an answer for each line, in order.
    #[arg(value_name = "-", value_parser = ["-"], conflicts_with_all = ["topic", "group"])]
    pub(crate) lines: Option<String>,
    /// The topic: its name on the source, or with --reverse on the target.
    #[arg(long, value_name = "TOPIC", requires_all = ["partition", "offset"])]
    pub(crate) topic: Option<String>,
    /// The partition.
    #[arg(long, value_name = "NUMBER", requires = "topic", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) partition: Option<i32>,
    /// The offset.
    #[arg(long, value_name = "OFFSET", requires = "topic", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) offset: Option<i64>,
    /// From the target back to the source.
    #[arg(long, conflicts_with = "group")]
    pub(crate) reverse: bool,
    /// Of a topic that was made again: which life of its mirror (the first is 0); without it, the
    /// present one.
    #[arg(long, value_name = "NUMBER", conflicts_with = "group")]
    pub(crate) generation: Option<u32>,
    /// All offsets that this group has committed on the source.
    #[arg(long, value_name = "GROUP", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "topic")]
    pub(crate) group: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(group(ArgGroup::new("subject").args(["group", "topic"]).required(true)))]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The group.
    #[arg(long, value_name = "GROUP", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) group: Option<String>,
    /// The topic: its name on the source, or its mirror's.
    #[arg(long, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) topic: Option<String>,
    /// Only this partition.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) partition: Option<i32>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Man {
    /// The command; without it, the page of twinlog itself.
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Option<String>,
    /// Write the pages of all commands into this folder, which is made where it is missing.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Demo {
    /// End after the drill; without it both clusters stay until Ctrl-C.
    #[arg(long)]
    pub(crate) once: bool,
    /// The port of `hello`; `world` has the next one. 0: any free ones.
    #[arg(long, value_name = "N", default_value = "19092")]
    pub(crate) port_base: u16,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Embedded {
    /// The first broker's port, the next ones have the ports behind it; 0: any free ones.
    /// Without it: 9092 where that is free, else any free one.
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
    /// Where to listen, and what clients are told to connect to.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Topics to begin with, each with its number of partitions (1 if not given).
    #[arg(long, value_name = "NAME:PARTITIONS,...", value_delimiter = ',', value_parser = new_topic)]
    pub(crate) topics: Vec<NewTopic>,
    /// How many brokers. Topics are on up to three of them.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) brokers: u16,
    /// Which Kafka to behave like.
    #[arg(long, value_name = "VERSION", default_value = "4.3")]
    pub(crate) kafka_version: KafkaVersion,
    /// How much the records of all topics may take: 64m, 2g; at least 16m.
    #[arg(long, value_name = "SIZE", default_value = "512m", value_parser = memory)]
    pub(crate) memory: usize,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// A topic to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NewTopic {
    pub(crate) name: String,
    pub(crate) partitions: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum KafkaVersion {
    /// Kafka 4.3.
    #[value(name = "4.3")]
    V4_3,
    /// Kafka 3.9.
    #[value(name = "3.9")]
    V3_9,
}

impl KafkaVersion {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::V4_3 => "4.3",
            Self::V3_9 => "3.9",
        }
    }
}

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// A MirrorMaker 2 properties file, as it is.
    #[arg(value_name = "FILE", required_unless_present = "source")]
    pub(crate) file: Option<PathBuf>,
    /// Only this flow, like `hello->world`; without it, all enabled flows of the file.
    #[arg(long, value_name = "FLOW", value_parser = flow)]
    pub(crate) flow: Option<FlowName>,
    /// Set or override a property; may be repeated.
    #[arg(short = 'X', value_name = "KEY=VALUE", value_parser = property, action = ArgAction::Append)]
    pub(crate) overrides: Vec<(String, String)>,
    /// Without a file: where the cluster is that is read. All topics and groups are mirrored
    /// unless -X says otherwise.
    #[arg(long, value_name = "HOST:PORT", requires = "target", help_heading = "Without a file")]
    pub(crate) source: Option<String>,
    /// Without a file: where the cluster is that is written.
    #[arg(long, value_name = "HOST:PORT", requires = "source", help_heading = "Without a file")]
    pub(crate) target: Option<String>,
    /// What to call the source.
    #[arg(
        long,
        value_name = "ALIAS",
        default_value = "source",
        requires = "source",
        help_heading = "Without a file"
    )]
    pub(crate) source_alias: String,
    /// What to call the target.
    #[arg(
        long,
        value_name = "ALIAS",
        default_value = "target",
        requires = "source",
        help_heading = "Without a file"
    )]
    pub(crate) target_alias: String,
    /// Client properties for the source.
    #[arg(long, value_name = "F", requires = "source", help_heading = "Without a file")]
    pub(crate) source_command_config: Option<PathBuf>,
    /// Client properties for the target.
    #[arg(long, value_name = "F", requires = "source", help_heading = "Without a file")]
    pub(crate) target_command_config: Option<PathBuf>,
    /// How long connecting and looking may take: 500ms, 30s, 2m.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration, help_heading = "Output")]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// How a command speaks; every command that talks to clusters, or is one, takes it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Printing {
    /// Answer as JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// How log lines look on standard error.
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) log_format: LogFormat,
    /// Log more; may be repeated.
    #[arg(short, long, action = ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON document a line.
    Json,
}

fn flow(text: &str) -> Result<FlowName, String> {
    FlowName::parse(text).ok_or_else(|| "write it like hello->world, in quotes".to_owned())
}

fn property(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it like KEY=VALUE")?;
    let key = key.trim();
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn new_topic(text: &str) -> Result<NewTopic, String> {
    let (name, partitions) = match text.trim().split_once(':') {
        None => (text.trim(), 1),
        Some((name, partitions)) => {
            let partitions = partitions.trim().parse().ok().filter(|&partitions| partitions > 0);
            (name, partitions.ok_or("write it like orders:3; the number is that of partitions")?)
        }
    };
    if name.is_empty() {
        return Err("the name is empty: write it like orders:3".to_owned());
    }
    Ok(NewTopic { name: name.to_owned(), partitions })
}

/// The least memory for records: a few of the largest batches that are usual.
const MEMORY_MIN: usize = 16 << 20;

fn memory(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "" | "b" => 0,
        _ => return Err("write it like 64m or 2g".to_owned()),
    };
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.ok_or("write it like 64m or 2g")?;
    if bytes < MEMORY_MIN {
        return Err("must be at least 16m".to_owned());
    }
    Ok(bytes)
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = twinlog_mirror::parse_duration("", text)?;
    if duration.is_zero() {
        return Err("must be more than 0".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_in_its_help() {
        for command in Args::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }

    #[test]
    fn a_topic_has_one_partition_unless_said_otherwise() {
        let topic = |name: &str, partitions| NewTopic { name: name.to_owned(), partitions };
        assert_eq!(new_topic("orders:3"), Ok(topic("orders", 3)));
        assert_eq!(new_topic(" payments"), Ok(topic("payments", 1)));
        for wrong in ["orders:0", "orders:-1", "orders:many", "orders:", ":3", ""] {
            assert!(new_topic(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_is_counted_in_powers_of_1024() {
        assert_eq!(memory("64m"), Ok(67_108_864));
        assert_eq!(memory("2G"), Ok(2_147_483_648));
        assert_eq!(memory("16384kib"), Ok(16_777_216));
        assert_eq!(memory("16777216"), Ok(16_777_216));
        for wrong in ["", "m", "16777215", "1m", "64 m", "64x", "99999999999999999g"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_property_keeps_everything_behind_its_first_equals_sign() {
        assert_eq!(property("a.b = c=d"), Ok(("a.b".into(), " c=d".into())));
        assert!(property("a.b").is_err());
        assert!(property("=x").is_err());
    }
}
