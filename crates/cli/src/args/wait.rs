//! The arguments of `twinlog wait`.

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;

use super::Common;

pub(super) const EXAMPLES: &str = "\
Examples:
  twinlog wait mm2.properties --until in-sync
  twinlog wait mm2.properties --until in-sync --group orders-app --timeout 5m
  twinlog wait mm2.properties --until in-sync --topic orders --json || exit 1

In sync is: somebody runs the flow; everything that was on the source when the waiting began is on
the target; and groups stand on the target where they stood on the source then. With --topic only
that topic counts, with --group that group and the topics it has commits on. What the configuration
leaves out does not count, unless it is what is waited for.

Exit codes:
  0  it holds
  1  it never will: the configuration leaves out what is waited for, or there is no such group
     or topic
  2  wrong usage or configuration
  3  the time of --timeout is up; what is not in sync is printed";

/// What `--timeout` means here.
pub(super) const TIMEOUT_HELP: &str = "How long to wait for it to hold: 500ms, 30s, 2m";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) common: Common,
    /// What to wait for.
    #[arg(long, value_name = "WHAT", default_value = "in-sync")]
    pub(crate) until: Until,
    /// Only this group, and the topics it has commits on.
    #[arg(long, value_name = "GROUP", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) group: Option<String>,
    /// Only this topic (its name on the source, or its mirror's); with --group: the group's place
    /// in it.
    #[arg(long, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) topic: Option<String>,
}

/// What can be waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Until {
    /// What was there when the waiting began is mirrored.
    InSync,
}
