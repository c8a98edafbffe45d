//! The arguments of `twinlog pause`, `resume` and `sync`.

use clap::builder::NonEmptyStringValueParser;

use super::Common;

pub(super) const PAUSE_EXAMPLES: &str = "\
Examples:
  twinlog pause mm2.properties --topic orders
  twinlog pause mm2.properties --topic orders --partition 3
  twinlog pause mm2.properties --topic orders --plan

Nothing more of the topic is copied until `twinlog resume`, over every restart. What is on its way
arrives. Groups go on being carried over, as far as the copy is. What the source deletes meanwhile
is lost to the mirror (source-gap).

Exit codes:
  0  decided: who runs the flow has taken note, or will when `twinlog run` starts
  1  there is no such topic, or it could not be done
  2  wrong usage or configuration
  3  it could not be found out, or nobody has answered in time; what was recorded is said";

pub(super) const RESUME_EXAMPLES: &str = "\
Examples:
  twinlog resume mm2.properties --topic orders
  twinlog resume mm2.properties --topic orders --accept-gap --plan
  twinlog resume mm2.properties --topic orders --accept-gap

A pause ends. With --accept-gap partitions that stopped for a loss on the source go on, too: behind
a gap (source-gap) with the earliest record there is, the range being recorded as lost; of a topic
that was made again (topic-recreated) with the new one, behind what was copied of the old one. The
decision is about the stop that is printed: should another one take its place, nothing is done.

Exit codes:
  0  decided: it was carried out, or will be when `twinlog run` starts
  1  there is no such topic, nothing that can be accepted, or it could not be done
  2  wrong usage or configuration
  3  it could not be found out, or nobody has answered in time; what was recorded is said";

pub(super) const SYNC_EXAMPLES: &str = "\
Examples:
  twinlog sync mm2.properties --group orders-app --plan
  twinlog sync mm2.properties --group orders-app
  twinlog sync mm2.properties --group orders-app --overwrite

Puts a group on the target where it belongs by its commits on the source. Forward that happens by
itself; a position that stands ahead is moved back only with --overwrite, and only as long as it
stands where it was seen: the target's own consumers may be reading. A group with members on the
target is written once they have left.

Exit codes:
  0  decided: it was carried out, or will be when `twinlog run` starts
  1  there is no such group, it is left out, or it could not be done
  2  wrong usage or configuration
  3  it could not be found out, or nobody has answered in time; what was recorded is said";

/// What `pause` and `resume` are about.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OfTopic {
    /// The topic: its name on the source.
    #[arg(long, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) topic: String,
    /// Only this partition.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) partition: Option<i32>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) of: OfTopic,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub(crate) plan: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) of: OfTopic,
    /// Go on behind what is lost on the source.
    #[arg(long)]
    pub(crate) accept_gap: bool,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub(crate) plan: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sync {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The group.
    #[arg(long, value_name = "GROUP", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) group: String,
    /// Move positions back that stand ahead on the target.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub(crate) plan: bool,
}
