//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use twinlog_types::FlowName;

const EXAMPLES: &str = "\
Examples:
  twinlog run mm2.properties
  twinlog status mm2.properties --problems
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

const STATUS_EXAMPLES: &str = "\
Examples:
  twinlog status mm2.properties
  twinlog status mm2.properties --problems
  twinlog status mm2.properties --group orders-app --json
  twinlog status mm2.properties --watch
  twinlog status --source kafka-a:9092 --target kafka-b:9092

Exit codes:
  0  nothing is stopped
  1  something is stopped, or nothing runs the flow
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
  1  there is no translation: the topic is not mirrored, or nothing of it was copied
  2  wrong usage or configuration
  3  it could not be found out";

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
    /// Show how flows, topics and groups stand.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(Status),
    /// Translate offsets between source and target.
    #[command(after_help = TRANSLATE_EXAMPLES)]
    Translate(Translate),
    /// Print a completion script for a shell.
    #[command(
        after_help = "Examples:\n  twinlog completions bash > /etc/bash_completion.d/twinlog"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only flows into these clusters, by alias.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) clusters: Vec<String>,
    /// Threads that do the work.
    #[arg(long, value_name = "N", default_value = "2")]
    pub(crate) threads: NonZeroUsize,
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
    #[arg(long, value_name = "NUMBER", requires = "topic", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) partition: Option<i32>,
    /// The offset.
    #[arg(long, value_name = "OFFSET", requires = "topic", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) offset: Option<i64>,
    /// From the target back to the source.
    #[arg(long, conflicts_with = "group")]
    pub(crate) reverse: bool,
    /// All offsets that this group has committed on the source.
    #[arg(long, value_name = "GROUP", conflicts_with = "topic")]
    pub(crate) group: Option<String>,
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
    /// Answer as JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// How long connecting and looking may take: 500ms, 30s, 2m.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration, help_heading = "Output")]
    pub(crate) timeout: Duration,
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
    fn a_property_keeps_everything_behind_its_first_equals_sign() {
        assert_eq!(property("a.b = c=d"), Ok(("a.b".into(), " c=d".into())));
        assert!(property("a.b").is_err());
        assert!(property("=x").is_err());
    }
}
