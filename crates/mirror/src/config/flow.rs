//! What a file says of one flow.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use twinlog_types::{FlowName, TopicName};

use crate::duration::parse_duration;
use crate::filter::NameFilter;
use crate::policy::Policy;
use crate::problem::Problem;
use crate::redact::{ClientProperties, shown};
use crate::value::{parse_bool, parse_long};

/// Which records of the source are data (KIP-98).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Isolation {
    /// Records of aborted transactions are not.
    ReadCommitted,
    /// All are.
    ReadUncommitted,
}

/// How the commits of groups are followed on the source (`twinlog.group.offsets.follow`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FollowCommits {
    /// From `__consumer_offsets` as they are made, where it may be read; else as `poll`.
    #[default]
    Live,
    /// By asking for all of them at twinlog's pace.
    Poll,
    /// By asking for all of them every `sync.group.offsets.interval.seconds`, as MM2 does.
    Interval,
}

impl FollowCommits {
    /// The word that a file uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Poll => "poll",
            Self::Interval => "interval",
        }
    }

    pub(super) fn read(text: &str) -> Result<Self, String> {
        let all = [Self::Live, Self::Poll, Self::Interval];
        let found = all.into_iter().find(|one| one.word() == text.trim());
        found.ok_or_else(|| format!("`{text}` is none of live, poll, interval"))
    }
}

/// A flow of the file. Fields are MM2's keys; an interval counts only while its switch is on.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowConfig {
    /// Source and target.
    pub name: FlowName,
    /// `enabled`: whether records are copied. When not, the flow only beats.
    pub enabled: bool,
    /// `replication.policy.*`.
    pub policy: Policy,
    /// `topics`, `topics.exclude`.
    pub topics: NameFilter,
    /// `groups`, `groups.exclude`.
    pub groups: NameFilter,
    /// `config.properties.exclude`: which topic configurations are copied.
    pub configs_exclude: NameFilter,
    /// `use.defaults.from=source` (flow level only): defaults of the source are copied too.
    pub use_source_defaults: bool,
    /// `replication.factor` of topics made on the target; -1 leaves it to the broker.
    pub replication_factor: i16,
    /// `refresh.topics.enabled`.
    pub refresh_topics_enabled: bool,
    /// `refresh.topics.interval.seconds`.
    pub refresh_topics_interval: Duration,
    /// `refresh.groups.enabled`.
    pub refresh_groups_enabled: bool,
    /// `refresh.groups.interval.seconds`.
    pub refresh_groups_interval: Duration,
    /// `sync.topic.configs.enabled`.
    pub sync_topic_configs_enabled: bool,
    /// `sync.topic.configs.interval.seconds`.
    pub sync_topic_configs_interval: Duration,
    /// `sync.topic.acls.enabled`.
    pub sync_topic_acls_enabled: bool,
    /// `sync.topic.acls.interval.seconds`.
    pub sync_topic_acls_interval: Duration,
    /// `emit.heartbeats.enabled`.
    pub emit_heartbeats_enabled: bool,
    /// `emit.heartbeats.interval.seconds`.
    pub heartbeats_interval: Duration,
    /// `heartbeats.replication.enabled`: heartbeats topics are copied whatever the filter says.
    pub heartbeats_replication_enabled: bool,
    /// `emit.checkpoints.enabled`.
    pub emit_checkpoints_enabled: bool,
    /// `emit.checkpoints.interval.seconds`.
    pub checkpoints_interval: Duration,
    /// `emit.offset-syncs.enabled`.
    pub emit_offset_syncs_enabled: bool,
    /// `offset-syncs.topic.location=target`.
    pub offset_syncs_on_target: bool,
    /// `offset.lag.max`; negative values are 0.
    pub offset_lag_max: u64,
    /// `sync.group.offsets.enabled`.
    pub sync_group_offsets_enabled: bool,
    /// `sync.group.offsets.interval.seconds`.
    pub sync_group_offsets_interval: Duration,
    /// `twinlog.group.offsets.follow`.
    pub follow_commits: FollowCommits,
    /// `checkpoints.topic.replication.factor`.
    pub checkpoints_topic_replication_factor: i16,
    /// `heartbeats.topic.replication.factor`.
    pub heartbeats_topic_replication_factor: i16,
    /// `offset-syncs.topic.replication.factor`.
    pub offset_syncs_topic_replication_factor: i16,
    /// `consumer.isolation.level` of the source. Deliberately different from MM2:
    /// read_committed unless the file says otherwise, and a global `consumer.isolation.level`,
    /// which MM2 drops, counts.
    pub isolation: Isolation,
    /// `compression.type` of the producer that writes mirrored records; `None` keeps what the
    /// source's batches have.
    pub producer_compression: Option<String>,
    /// Settings of the consumer that reads records.
    pub source_consumer: ClientProperties,
    /// Settings of the producer that writes offset syncs to the source.
    pub source_producer: ClientProperties,
    /// Settings of administration on the source.
    pub source_admin: ClientProperties,
    /// Settings of the consumer that reads MM2's topics on the target.
    pub target_consumer: ClientProperties,
    /// Settings of the producer that writes offset syncs to the target.
    pub target_producer: ClientProperties,
    /// Settings of administration on the target.
    pub target_admin: ClientProperties,
    /// Settings of the producer that writes mirrored records, checkpoints and heartbeats.
    pub data_producer: ClientProperties,
    /// What MM2's worker of this flow would be told: the names of its Connect topics, its group.
    pub worker: ClientProperties,
    /// What MM2's source connector of this flow would be told; the other two differ in `name` and
    /// `connector.class` only.
    pub connector: ClientProperties,
    /// `twinlog.*` keys: flow before target before all.
    pub twinlog: ClientProperties,
    /// Whether the file asks for exactly once by transactions. Refused as a problem.
    pub exactly_once: bool,
    /// Where the values of `connector` and `twinlog` stand.
    pub(super) origins: Origins,
}

/// Where a value stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The file's name as the caller gave it, or `-X`.
    pub file: String,
    /// The key as it stands there.
    pub key: String,
    /// The line; `None` for an override from the command line.
    pub line: Option<u32>,
}

impl fmt::Display for Origin {
    /// `mm2.properties:9: hello->world.topics`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.key),
            None => write!(f, "{}: {}", self.file, self.key),
        }
    }
}

/// Origins by key. Where a value stands does not change what it says: all are equal, so that a
/// comment more in a file is no other configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins(pub(super) BTreeMap<String, Origin>);

impl PartialEq for Origins {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl FlowConfig {
    /// The topic that offset syncs of this flow are written to, on the source or, with
    /// [`offset_syncs_on_target`](Self::offset_syncs_on_target), on the target.
    pub fn offset_syncs_topic(&self) -> TopicName {
        let named = if self.offset_syncs_on_target { &self.name.source } else { &self.name.target };
        self.policy.offset_syncs_topic(named.as_str())
    }

    /// The topic on the target that checkpoints of this flow are written to.
    pub fn checkpoints_topic(&self) -> TopicName {
        self.policy.checkpoints_topic(self.name.source.as_str())
    }

    /// The topic on the target that MM2's copy positions of this flow are in: that of dedicated mode,
    /// unless the file names the one of a Connect cluster.
    pub fn copy_positions_topic(&self) -> TopicName {
        match self.worker.get("offset.storage.topic") {
            Some(named) => named.as_str().into(),
            None => format!("mm2-offsets.{}.internal", self.name.source).into(),
        }
    }

    /// The group on the target of MM2's workers of this flow, in dedicated mode.
    pub fn worker_group(&self) -> String {
        let named = self.worker.get("group.id").cloned();
        named.unwrap_or_else(|| format!("{}-mm2", self.name.source))
    }

    /// The name on the target of `topic` of the source.
    pub fn remote_topic(&self, topic: &str) -> TopicName {
        self.policy.format_remote_topic(self.name.source.as_str(), topic)
    }

    /// Where the value of `key` stands that reaches this flow's connectors (`topics`,
    /// `sync.group.offsets.enabled`, …) or twinlog (`twinlog.…`); `None` when the file does not say
    /// it, and the default holds.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.0.get(key)
    }

    /// The value of a `twinlog.*` key, read by `parse`; `None` when the file does not say it.
    pub fn twinlog_value<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.twinlog.get(key) else { return Ok(None) };
        parse(value).map(Some).map_err(|message| {
            let message =
                if shown(key, value) == value { message } else { "has a bad value".into() };
            let origin = self.origin(key);
            Problem {
                file: origin.map(|origin| origin.file.clone()).unwrap_or_default(),
                line: origin.and_then(|origin| origin.line),
                key: Some(origin.map_or(key, |origin| &origin.key).to_owned()),
                message,
                suggestion: None,
            }
        })
    }

    /// A duration of a `twinlog.*` key.
    pub fn twinlog_duration(&self, key: &str) -> Result<Option<Duration>, Problem> {
        self.twinlog_value(key, |text| parse_duration(key, text))
    }

    /// A whole number, 0 or more, of a `twinlog.*` key.
    pub fn twinlog_number(&self, key: &str) -> Result<Option<u64>, Problem> {
        self.twinlog_value(key, |text| {
            let number = parse_long(text).ok().and_then(|number| u64::try_from(number).ok());
            number.ok_or_else(|| format!("`{text}` is not a whole number of 0 or more"))
        })
    }

    /// A switch of a `twinlog.*` key.
    pub fn twinlog_switch(&self, key: &str) -> Result<Option<bool>, Problem> {
        self.twinlog_value(key, |text| {
            parse_bool(text).map_err(|error| format!("`{text}` {error}"))
        })
    }
}
