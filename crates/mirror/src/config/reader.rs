//! Reads the settings of one flow into their types.
//!
//! Does not: know levels (see `levels`). Every value is checked against its type once; what does
//! not fit is a problem, and the default stands in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use twinlog_types::FlowName;

use super::Problems;
use super::flow::{FlowConfig, FollowCommits, Isolation, Origin, Origins};
use super::levels::{self, Setting, Settings, client, data_producer};
use crate::filter::{NameFilter, PatternError};
use crate::known::{self, CONNECTOR, Kind};
use crate::policy::{Policy, PolicyKind};
use crate::problem::closest;
use crate::redact::shown;
use crate::value::{ValueError, parse_bool, parse_int, parse_list, parse_long, parse_short};

/// What of a flow is read in earnest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of it: the flow copies.
    Everything,
    /// What heartbeats need: the flow does not copy.
    Heartbeats,
}

/// The keys that matter to a flow that only beats.
const OF_HEARTBEATS: &[&str] = &[
    "emit.heartbeats.enabled",
    "emit.heartbeats.interval.seconds",
    "enabled",
    "heartbeats.topic.replication.factor",
    "replication.policy.class",
    "replication.policy.internal.topic.separator.enabled",
    "replication.policy.separator",
];

/// Java classes that a key may name because their behaviour is built in.
const BUILT_IN: &[(&str, &str)] = &[
    ("topic.filter.class", "org.apache.kafka.connect.mirror.DefaultTopicFilter"),
    ("group.filter.class", "org.apache.kafka.connect.mirror.DefaultGroupFilter"),
    ("config.property.filter.class", "org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter"),
    ("forwarding.admin.class", "org.apache.kafka.clients.admin.ForwardingAdmin"),
];

const DEFAULT_POLICY: &str = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy";
const IDENTITY_POLICY: &str = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";

const TOPICS_EXCLUDE: &[&str] = &[r"mm2.*\.internal", r".*\.replica", "__.*"];
const GROUPS_EXCLUDE: &[&str] = &["console-consumer-.*", "connect-.*", "__.*"];
const CONFIGS_EXCLUDE: &[&str] = &[
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
];

/// Whether the connector's `enabled` is on.
pub(super) fn is_enabled(connector: &Settings) -> Result<bool, ValueError> {
    connector.get("enabled").map_or(Ok(false), |setting| parse_bool(&setting.value))
}

pub(super) struct SettingsReader<'a, 'b> {
    pub(super) name: &'a FlowName,
    pub(super) connector: &'a Settings,
    pub(super) worker: &'a Settings,
    pub(super) unresolved: &'a BTreeMap<Arc<str>, String>,
    pub(super) scope: Scope,
    pub(super) filters: &'a mut Filters,
    pub(super) problems: &'a mut Problems<'b>,
}

/// Filters by their include and exclude lists: a file has many flows and few lists, and compiling them
/// is what reading a file takes.
/// No include list includes everything, an empty one nothing.
pub(super) type Filters = BTreeMap<(Option<Vec<String>>, Vec<String>), NameFilter>;

impl<'a> SettingsReader<'a, '_> {
    pub(super) fn flow(
        &mut self,
        enabled: bool,
        twinlog: Settings,
        global_isolation: Option<&Setting>,
    ) -> FlowConfig {
        self.check_resolved(&twinlog);
        self.check_types();
        self.check_plugins();
        let exactly_once = self.exactly_once();
        let connector = self.connector;
        let source_consumer = client(connector, "source", "consumer");
        let data_producer = data_producer(self.worker, connector);
        let isolation = self.isolation(source_consumer.get("isolation.level").or(global_isolation));
        let producer_compression = self.compression(data_producer.get("compression.type"));
        let written = connector
            .iter()
            .chain(&twinlog)
            .filter(|(_, setting)| setting.line.is_some() || setting.overridden);
        let origins = written.map(|(key, setting)| {
            let file = self.problems.file_of(setting);
            let origin = Origin { file, key: setting.key.to_string(), line: setting.line };
            (key.clone(), origin)
        });
        let origins = Origins(origins.collect());
        let (refresh_topics_enabled, refresh_topics_interval) =
            self.periodic("refresh.topics", true, 600);
        let (refresh_groups_enabled, refresh_groups_interval) =
            self.periodic("refresh.groups", true, 600);
        let (sync_topic_configs_enabled, sync_topic_configs_interval) =
            self.periodic("sync.topic.configs", true, 600);
        let (sync_topic_acls_enabled, sync_topic_acls_interval) =
            self.periodic("sync.topic.acls", true, 600);
        let (emit_heartbeats_enabled, heartbeats_interval) =
            self.periodic("emit.heartbeats", true, 1);
        let (emit_checkpoints_enabled, checkpoints_interval) =
            self.periodic("emit.checkpoints", true, 60);
        let (sync_group_offsets_enabled, sync_group_offsets_interval) =
            self.periodic("sync.group.offsets", false, 60);
        let follow_commits = self.follow_commits(&twinlog);
        FlowConfig {
            name: self.name.clone(),
            enabled,
            policy: self.policy(),
            topics: self.filter("topics", TOPICS_EXCLUDE),
            groups: self.filter("groups", GROUPS_EXCLUDE),
            configs_exclude: self.configs(),
            use_source_defaults: self.text("use.defaults.from") == Some("source"),
            replication_factor: self.replication_factor("replication.factor", 2),
            refresh_topics_enabled,
            refresh_topics_interval,
            refresh_groups_enabled,
            refresh_groups_interval,
            sync_topic_configs_enabled,
            sync_topic_configs_interval,
            sync_topic_acls_enabled,
            sync_topic_acls_interval,
            emit_heartbeats_enabled,
            heartbeats_interval,
            heartbeats_replication_enabled: self.switch("heartbeats.replication.enabled", true),
            emit_checkpoints_enabled,
            checkpoints_interval,
            emit_offset_syncs_enabled: self.switch("emit.offset-syncs.enabled", true),
            offset_syncs_on_target: self.offset_syncs_on_target(),
            offset_lag_max: u64::try_from(self.number("offset.lag.max", 100)).unwrap_or(0),
            sync_group_offsets_enabled,
            sync_group_offsets_interval,
            follow_commits,
            checkpoints_topic_replication_factor: self
                .replication_factor("checkpoints.topic.replication.factor", 3),
            heartbeats_topic_replication_factor: self
                .replication_factor("heartbeats.topic.replication.factor", 3),
            offset_syncs_topic_replication_factor: self
                .replication_factor("offset-syncs.topic.replication.factor", 3),
            isolation,
            producer_compression,
            source_consumer: levels::values(source_consumer),
            source_producer: levels::values(client(connector, "source", "producer")),
            source_admin: levels::values(client(connector, "source", "admin")),
            target_consumer: levels::values(client(connector, "target", "consumer")),
            target_producer: levels::values(client(connector, "target", "producer")),
            target_admin: levels::values(client(connector, "target", "admin")),
            data_producer: levels::values(data_producer),
            worker: levels::values(self.worker.clone()),
            connector: levels::values(connector.clone()),
            twinlog: levels::values(twinlog),
            exactly_once,
            origins,
        }
    }

    fn follow_commits(&mut self, twinlog: &Settings) -> FollowCommits {
        let Some(setting) = twinlog.get("twinlog.group.offsets.follow") else {
            return FollowCommits::default();
        };
        FollowCommits::read(&setting.value).unwrap_or_else(|message| {
            self.report_about(setting, message, None);
            FollowCommits::default()
        })
    }

    fn matters(&self, key: &str) -> bool {
        self.scope == Scope::Everything || OF_HEARTBEATS.contains(&key)
    }

    /// Reports something about the setting `key`, if it matters and its variables are resolved
    /// (when they are not, that is reported, once, instead).
    fn report(&mut self, key: &str, message: impl Into<String>, suggestion: Option<String>) {
        if !self.matters(key) {
            return;
        }
        if let Some(setting) = self.connector.get(key) {
            self.report_about(setting, message, suggestion);
        }
    }

    fn report_about(
        &mut self,
        setting: &Setting,
        message: impl Into<String>,
        suggestion: Option<String>,
    ) {
        if !self.unresolved.contains_key(&setting.key) {
            self.problems.about(setting, message, suggestion);
        }
    }

    /// Variables that nobody answered, in whatever reaches this flow.
    fn check_resolved(&mut self, twinlog: &Settings) {
        let (connector, worker) = (self.connector, self.worker);
        let reaching = connector
            .iter()
            .filter(|(key, _)| self.matters(key) || key.starts_with("target."))
            .chain(worker.iter().filter(|(key, _)| key.starts_with("producer.")))
            .chain(twinlog)
            .map(|(_, setting)| setting);
        let reaching: BTreeMap<&Arc<str>, &Setting> =
            reaching.map(|setting| (&setting.key, setting)).collect();
        for (key, setting) in reaching {
            if let Some(why) = self.unresolved.get(key) {
                self.problems.about(setting, why.clone(), None);
            }
        }
    }

    /// Every defined key against its type.
    fn check_types(&mut self) {
        for known in CONNECTOR {
            let Some(setting) = self.connector.get(known.key) else { continue };
            let error = match known.kind {
                Kind::Boolean => parse_bool(&setting.value).err(),
                Kind::Int => parse_int(&setting.value).err(),
                Kind::Long => parse_long(&setting.value).err(),
                Kind::Short => parse_short(&setting.value).err(),
                Kind::List if parse_list(&setting.value).iter().any(String::is_empty) => {
                    let message = "an item of the list is empty";
                    self.report(known.key, message, Some("remove the extra comma".into()));
                    None
                }
                Kind::List | Kind::Text | Kind::Class => None,
            };
            if let Some(error) = error {
                let value = shown(known.key, &setting.value).to_owned();
                self.report(known.key, format!("`{value}` {error}"), None);
            }
        }
        if self.number("tasks.max", 1) < 1 {
            self.report("tasks.max", "must be 1 or more", None);
        }
    }

    /// Java code that is named but cannot be run.
    fn check_plugins(&mut self) {
        for (key, class) in BUILT_IN {
            if let Some(other) = self.text(key).filter(|name| name != class) {
                let message = format!("the Java class {other} cannot be run here");
                self.report(key, message, Some(format!("remove the line, or say {class}")));
            }
        }
        if !self.items("transforms").is_empty() {
            let message = "records cannot be transformed: they are copied as bytes";
            self.report("transforms", message, Some("remove the line".into()));
        }
    }

    fn exactly_once(&mut self) -> bool {
        let suggestion = || {
            Some(
                "say disabled, or remove the line: records are still copied once and in order, \
                 by comparing before each append"
                    .to_owned(),
            )
        };
        let on = |setting: Option<&Setting>, word: &str| {
            setting.is_some_and(|setting| setting.value.trim().eq_ignore_ascii_case(word))
        };
        let worker = self.worker.get("exactly.once.source.support");
        let connector = self.connector.get("exactly.once.support");
        let mut asked = false;
        for (setting, word) in [(worker, "enabled"), (connector, "required")] {
            if on(setting, word) && self.scope == Scope::Everything {
                asked = true;
                if let Some(setting) = setting {
                    let message = "exactly once by transactions is not supported by this version";
                    self.report_about(setting, message, suggestion());
                }
            }
        }
        asked
    }

    fn isolation(&mut self, setting: Option<&Setting>) -> Isolation {
        let Some(setting) = setting else { return Isolation::ReadCommitted };
        match setting.value.trim() {
            "read_committed" => return Isolation::ReadCommitted,
            "read_uncommitted" => return Isolation::ReadUncommitted,
            other if self.scope == Scope::Everything => {
                let message = format!("`{other}` is neither read_committed nor read_uncommitted");
                self.report_about(setting, message, None);
            }
            _ => {}
        }
        Isolation::ReadCommitted
    }

    fn compression(&mut self, setting: Option<&Setting>) -> Option<String> {
        let setting = setting?;
        let name = setting.value.trim();
        if ["none", "gzip", "snappy", "lz4", "zstd"].contains(&name) {
            return Some(name.to_owned());
        }
        let message = format!("`{name}` is none of none, gzip, snappy, lz4, zstd");
        self.report_about(setting, message, None);
        None
    }

    fn policy(&mut self) -> Policy {
        let kind = match self.text("replication.policy.class") {
            None | Some(DEFAULT_POLICY) => PolicyKind::Default,
            Some(IDENTITY_POLICY) => PolicyKind::Identity,
            Some(other) => {
                let simple = other.rsplit('.').next().unwrap_or(other).to_owned();
                let suggestion = [DEFAULT_POLICY, IDENTITY_POLICY]
                    .into_iter()
                    .find(|class| class.ends_with(&format!(".{simple}")))
                    .or_else(|| closest(other, [DEFAULT_POLICY, IDENTITY_POLICY]))
                    .map_or_else(
                        || format!("say {DEFAULT_POLICY} or {IDENTITY_POLICY}"),
                        |class| format!("did you mean {class}?"),
                    );
                let message = format!("the Java class {other} cannot be run here");
                self.report("replication.policy.class", message, Some(suggestion));
                PolicyKind::Default
            }
        };
        let key = "replication.policy.separator";
        let mut separator = self.text(key).unwrap_or(".");
        if separator.is_empty() {
            let message = "is empty: every name of two letters would count as mirrored";
            self.report(key, message, None);
            separator = ".";
        }
        if let Some(why) = super::no_part_of_topic_names(separator) {
            self.report(key, format!("`{separator}` {why}"), None);
        }
        let internal = "replication.policy.internal.topic.separator.enabled";
        let source = self.text("source.cluster.alias").map(Into::into);
        Policy::new(kind, separator, self.switch(internal, true), source)
    }

    fn filter(&mut self, key: &str, exclude: &[&str]) -> NameFilter {
        let include_key = key;
        let exclude_key = format!("{key}.exclude");
        let include = self.list(include_key, &[".*"]);
        let exclude = self.list(&exclude_key, exclude);
        let lists = (Some(include.clone()), exclude.clone());
        if let Some(known) = self.filters.get(&lists) {
            return known.clone();
        }
        // Apart from each other first, so that both are reported.
        let include_error = NameFilter::all_except(&include).err();
        let exclude_error = NameFilter::all_except(&exclude).err();
        for (key, error) in [(include_key, include_error), (&exclude_key, exclude_error)] {
            if let Some(error) = error {
                self.report_pattern(key, &error);
            }
        }
        match NameFilter::new(&include, &exclude) {
            Ok(filter) => self.filters.entry(lists).or_insert(filter).clone(),
            Err(_) => NameFilter::unreadable(&include, &exclude),
        }
    }

    fn configs(&mut self) -> NameFilter {
        let key = "config.properties.exclude";
        let lists = (None, self.list(key, CONFIGS_EXCLUDE));
        if let Some(known) = self.filters.get(&lists) {
            return known.clone();
        }
        match NameFilter::all_except(&lists.1) {
            Ok(filter) => self.filters.entry(lists).or_insert(filter).clone(),
            Err(error) => {
                self.report_pattern(key, &error);
                NameFilter::unreadable(&[], &lists.1)
            }
        }
    }

    fn report_pattern(&mut self, key: &str, error: &PatternError) {
        let item = error.item.as_str();
        let suggestion = if item.starts_with('*') {
            Some(format!("did you mean `.{item}`?"))
        } else if item.contains("${") {
            Some("no config provider of that name is declared with a class".to_owned())
        } else if item.contains('{') {
            Some("a comma separates items, also within {2,3}: write it without".to_owned())
        } else {
            None
        };
        self.report(key, error.to_string(), suggestion);
    }

    fn offset_syncs_on_target(&mut self) -> bool {
        let key = "offset-syncs.topic.location";
        match self.text(key) {
            None | Some("source") => false,
            Some("target") => true,
            Some(other) => {
                let message = format!("`{other}` is neither source nor target");
                self.report(key, message, None);
                false
            }
        }
    }

    /// A switch and its interval. MM2 takes a negative interval for "never".
    fn periodic(&mut self, key: &str, default: bool, seconds: i64) -> (bool, Duration) {
        let enabled = self.switch(&format!("{key}.enabled"), default);
        let interval_key = format!("{key}.interval.seconds");
        let seconds = self.number(&interval_key, seconds);
        if enabled && seconds == 0 {
            let message = "must be 1 or more, or the switch beside it off";
            self.report(&interval_key, message, None);
        }
        (enabled && seconds >= 0, Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    fn replication_factor(&mut self, key: &str, default: i16) -> i16 {
        let number = self.number(key, default.into());
        match i16::try_from(number) {
            Ok(factor) if factor == -1 || factor > 0 => factor,
            _ => {
                let message = format!("`{number}` is not a replication factor");
                self.report(key, message, Some("say 1 or more, or -1 for the broker's".into()));
                default
            }
        }
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        // Kafka trims the values of all types but STRING.
        let trims = known::find(key).is_some_and(|known| known.kind != Kind::Text);
        let value = self.connector.get(key)?.value.as_str();
        Some(if trims { value.trim() } else { value })
    }

    fn switch(&self, key: &str, default: bool) -> bool {
        self.text(key).and_then(|text| parse_bool(text).ok()).unwrap_or(default)
    }

    fn number(&self, key: &str, default: i64) -> i64 {
        self.text(key).and_then(|text| parse_long(text).ok()).unwrap_or(default)
    }

    fn items(&self, key: &str) -> Vec<String> {
        self.text(key).map(parse_list).unwrap_or_default()
    }

    /// A list without repeated items.
    fn list(&self, key: &str, default: &[&str]) -> Vec<String> {
        let Some(text) = self.text(key) else {
            return default.iter().map(|&item| item.to_owned()).collect();
        };
        let mut seen = BTreeSet::new();
        parse_list(text).into_iter().filter(|item| seen.insert(item.clone())).collect()
    }
}
