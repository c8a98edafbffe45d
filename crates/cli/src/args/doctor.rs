//! The flags of `twinlog doctor`.

use clap::builder::NonEmptyStringValueParser;

use twinlog_doctor::Url;

use super::Common;

pub(super) const EXAMPLES: &str = "\
Examples:
  twinlog doctor mm2.properties
  twinlog doctor mm2.properties --group orders-app
  twinlog doctor mm2.properties --json | jq -r '.flows[].findings[] | .severity + \" \" + .code'
  twinlog doctor mm2.properties -v
  twinlog doctor mm2.properties --connect-url http://connect:8083
  twinlog doctor --source kafka-a:9092 --target kafka-b:9092

It reads both clusters and changes nothing. It works for mirrors that twinlog makes and for those
that MirrorMaker 2 makes, with or without a running process. Equal findings are told once, with all
they hold for; causes stand before what follows from them, and what hurts a failover most comes
first. The screen shows the first few in full: -v shows all, --json has every place.

Exit codes:
  0  no error; there may be warnings
  1  an error: a failover now would lose, skip, double or needlessly re-read records
  2  wrong usage or configuration
  3  something could not be looked at; what was found is printed";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only this group, and the topics it reads.
    #[arg(long, value_name = "GROUP", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) group: Option<String>,
    /// Only this topic (its name on the source), and the groups that read it.
    #[arg(long, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) topic: Option<String>,
    /// Where MirrorMaker 2 runs on a Connect cluster: the address of its REST API. Only read.
    #[arg(long, value_name = "URL", value_parser = Url::parse)]
    pub(crate) connect_url: Option<Url>,
}
