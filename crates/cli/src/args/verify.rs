//! The flags of `verify` and `rehearse`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;

use super::Common;

pub(super) const EXAMPLES: &str = "\
Examples:
  twinlog verify mm2.properties
  twinlog verify mm2.properties --group orders-app
  twinlog verify mm2.properties --topic orders --sample 100000
  twinlog verify mm2.properties --full --report verify.html
  twinlog verify mm2.properties --full --resume verify.state --json

It reads both clusters and changes nothing; rights to read and to describe are enough. It works for
mirrors that twinlog makes and for those that MirrorMaker 2 makes, with or without a running process.
Without --sample or --full so many records of each partition are compared as take seconds.

Exit codes:
  0  everything that was looked at is equal, and every group stands where it should
  1  something differs
  2  wrong usage or configuration
  3  something could not be found out; what was found is printed";

pub(super) const REHEARSE_EXAMPLES: &str = "\
Examples:
  twinlog rehearse mm2.properties --group orders-app
  twinlog rehearse mm2.properties --group orders-app --records 1000
  twinlog rehearse mm2.properties --group orders-app --plan

What would the group read after a failover now? A scratch group `twinlog-rehearsal-...` is given the
group's position on the target, both clusters are read from there on, the records are compared, and
the scratch group is removed, also after an error or Ctrl-C. Nothing else is written on either
cluster, and the group itself is not touched.

Exit codes:
  0  the group reads the same records
  1  it does not, or has no position on the target
  2  wrong usage or configuration
  3  it could not be found out, or the scratch group could not be removed";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only this group, and the topics it has commits on.
    #[arg(long, value_name = "GROUP", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) group: Option<String>,
    /// Only this topic: its name on the source, or its mirror's.
    #[arg(long, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) topic: Option<String>,
    /// How many records of each partition to compare: its first and last ones, and some between.
    #[arg(long, value_name = "RECORDS", conflicts_with = "full", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample: Option<u64>,
    /// Compare every record. Takes as long as reading both clusters; --timeout does not end it.
    #[arg(long)]
    pub(crate) full: bool,
    /// Write a page for people into this file: one HTML file that needs no other.
    #[arg(long, value_name = "F.html")]
    pub(crate) report: Option<PathBuf>,
    /// Keep in this file how far --full is, and go on from there if it exists. It is removed when
    /// everything is compared.
    #[arg(long, value_name = "F", requires = "full")]
    pub(crate) resume: Option<PathBuf>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Rehearse {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The group.
    #[arg(long, value_name = "GROUP", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) group: String,
    /// How many records to read in each partition.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) records: u64,
    /// Only say what it would do.
    #[arg(long)]
    pub(crate) plan: bool,
}
