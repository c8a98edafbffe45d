//! What MM2's connectors are configured with: against the file, and against each other.
//!
//! Dedicated MM2 gives all connectors of a flow the same keys; on a Connect cluster each has its
//! own, and nothing there compares them.

use std::collections::BTreeMap;

use twinlog_mirror::{
    Policy, PolicyKind, closest, closest_known_property, known_property, replicates,
};
use twinlog_types::{ClusterAlias, Code, Severity};

use super::group::DECISIVE;
use super::walk::Walk;
use crate::chain::Fix;
use crate::findings::Finding;
use crate::mm2::{CHECKPOINT_CONNECTOR, Connector, SOURCE_CONNECTOR};

/// What makes MM2 do something else when the file was changed since it was started.
const COMPARED: &[&str] = &[
    "groups",
    "groups.exclude",
    "topics",
    "topics.exclude",
    "sync.group.offsets.enabled",
    "emit.checkpoints.enabled",
    "offset-syncs.topic.location",
];

/// Keys that begin so are read by the checkpoint connector alone.
const OF_GROUPS: &[&str] = &["groups", "sync.group", "emit.checkpoints"];

/// How names are formed: keys and their defaults.
const NAMING: &[(&str, &str)] = &[
    (CLASS, "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"),
    ("replication.policy.separator", "."),
    ("replication.policy.internal.topic.separator.enabled", "true"),
];

const CLASS: &str = "replication.policy.class";
const BYTES: &str = "org.apache.kafka.connect.converters.ByteArrayConverter";
const CONVERTERS: &[&str] = &["key.converter", "value.converter", "header.converter"];

impl Walk<'_> {
    /// Findings about the connectors' configurations.
    pub(super) fn connectors(&self) -> Vec<Finding> {
        let mm2 = &self.facts.mm2;
        let source = mm2.connector(SOURCE_CONNECTOR);
        let checkpoint = mm2.connector(CHECKPOINT_CONNECTOR);
        let mut found = Vec::new();
        if let (Some(source), Some(checkpoint)) = (source, checkpoint) {
            found.extend(self.naming_of_both(source, checkpoint));
        }
        if let Some(first) = source.or(checkpoint) {
            found.extend(self.naming_of_file(first));
            found.extend(self.drift(first, checkpoint.unwrap_or(first)));
        }
        for connector in [source, checkpoint].into_iter().flatten() {
            found.extend(self.misspelt(connector));
        }
        if let Some(source) = source {
            found.extend(self.converters(source));
        }
        found.into_iter().map(Finding::of_flow).collect()
    }

    /// Where a connector's configuration was read.
    pub(super) fn config_place(&self, connector: &Connector) -> String {
        if let Some(url) = &self.facts.mm2.connect {
            return format!("{url}: connector {}", connector.name);
        }
        let topic = self.facts.config.worker.get("config.storage.topic");
        let topic = topic.cloned().unwrap_or_default();
        format!("{}: topic {topic}, connector {}", self.facts.target.alias, connector.name)
    }

    /// What changes a key of a connector: a line of the file, or on Connect a request.
    pub(super) fn set(&self, connector: &Connector, key: &str, value: &str) -> Fix {
        match &self.facts.mm2.connect {
            // PATCH is there since Kafka 3.8 (KIP-477).
            Some(url) => Fix::Command(format!(
                "curl -X PATCH -H 'Content-Type: application/json' \
                 {url}/connectors/{}/config -d '{{\"{key}\":\"{value}\"}}'",
                crate::connect::segment(&connector.name)
            )),
            None => self.property(key, value),
        }
    }

    fn naming_of_both(&self, source: &Connector, checkpoint: &Connector) -> Option<Finding> {
        let (key, default) = NAMING.iter().find(|(key, default)| {
            said(&source.config, key, default) != said(&checkpoint.config, key, default)
        })?;
        let of_source = said(&source.config, key, default);
        let of_checkpoint = said(&checkpoint.config, key, default);
        let summary = format!(
            "{} and {} form names differently: {key} is {of_source} for the one and \
             {of_checkpoint} for the other{}",
            source.name,
            checkpoint.name,
            self.example(source, checkpoint)
        );
        let finding = Finding::blocks(Code::PolicyMismatch, summary)
            .seen(*key, of_source, self.config_place(source))
            .seen(*key, of_checkpoint, self.config_place(checkpoint))
            .fix(self.set(checkpoint, key, of_source));
        Some(finding.because("connectors"))
    }

    /// `; orders is copied to orders, and groups are looked for on hello.orders`
    fn example(&self, source: &Connector, checkpoint: &Connector) -> String {
        let facts = self.facts;
        let topics = facts.source.topics.as_ref().ok().into_iter().flat_map(BTreeMap::keys);
        let alias = facts.source.alias.as_str();
        let policies = policy(source, &facts.source.alias);
        let Some((copies, looks)) = policies.zip(policy(checkpoint, &facts.source.alias)) else {
            return String::new();
        };
        // Heartbeats are named alike by all policies.
        let differ = topics
            .filter(|topic| replicates(&facts.config, topic.as_str()))
            .map(|topic| {
                let name = |policy: &Policy| policy.format_remote_topic(alias, topic.as_str());
                (topic, name(&copies), name(&looks))
            })
            .find(|(_, copied, looked)| copied != looked);
        let Some((topic, copied, looked)) = differ else { return String::new() };
        format!("; {topic} is copied to {copied}, and groups are looked for on {looked}")
    }

    /// What this look takes names to be must be what runs.
    fn naming_of_file(&self, runs: &Connector) -> Option<Finding> {
        let config = &self.facts.config;
        let says = |key: &str, default| {
            config.connector.get(key).map_or(default, |value| value.trim()).to_owned()
        };
        let (key, default) = NAMING
            .iter()
            .find(|(key, default)| says(key, default) != said(&runs.config, key, default))?;
        let (said_here, that_runs) = (says(key, default), said(&runs.config, key, default));
        let summary = format!(
            "MirrorMaker 2 forms names with {key} = {that_runs}, the file says {said_here}: what \
             is looked for here is not what is copied"
        );
        let finding = Finding::blocks(Code::PolicyMismatch, summary)
            .seen(format!("{key} in the file"), said_here, self.origin(key))
            .seen(format!("{key} that runs"), that_runs, self.config_place(runs))
            .fix(self.property(key, that_runs));
        Some(finding.because("file"))
    }

    /// Each key of the connector that reads it: on a Connect cluster others need not have it.
    fn drift<'a>(
        &'a self,
        first: &'a Connector,
        checkpoint: &'a Connector,
    ) -> impl Iterator<Item = Finding> + 'a {
        let config = &self.facts.config;
        COMPARED.iter().filter_map(move |key| {
            let is_of_groups = OF_GROUPS.iter().any(|beginning| key.starts_with(beginning));
            let runs = if is_of_groups { checkpoint } else { first };
            let (says, that_runs) = (config.connector.get(*key), runs.config.get(*key));
            if says == that_runs {
                return None;
            }
            let or_default =
                |value: Option<&String>| value.cloned().unwrap_or_else(|| "default".to_owned());
            let (says, that_runs) = (or_default(says), or_default(that_runs));
            let summary =
                format!("MirrorMaker 2 runs with {key} = {that_runs}, the file says {says}");
            let finding = Finding::blocks(Code::ConfigDrift, summary)
                .seen(format!("{key} in the file"), &says, self.origin(key))
                .seen(format!("{key} that runs"), &that_runs, self.config_place(runs));
            Some(finding.because(*key))
        })
    }

    /// MM2 keeps keys that nobody reads, as they were typed.
    fn misspelt<'a>(&'a self, runs: &'a Connector) -> impl Iterator<Item = Finding> + 'a {
        runs.config.keys().filter_map(move |key| {
            // All known keys are asked last: there are many, and many chains.
            let meant = closest(key, DECISIVE.iter().copied())?;
            let unsaid = !runs.config.contains_key(meant) && !known_property(key);
            if !unsaid || closest_known_property(key) != Some(meant) {
                return None;
            }
            let summary = format!("nobody reads {key} (did you mean `{meant}`?)");
            let severity = Severity::Error;
            let finding = Finding { severity, ..Finding::blocks(Code::UnknownProperty, summary) };
            let value = runs.config.get(key).map(String::as_str).unwrap_or_default();
            let fix = self.set(runs, meant, value);
            let finding = finding.seen("a key that nobody reads", key, self.config_place(runs));
            Some(finding.fix(fix).because(key))
        })
    }

    fn converters(&self, source: &Connector) -> Option<Finding> {
        let other = CONVERTERS.iter().filter_map(|key| Some((*key, source.config.get(*key)?)));
        let other: Vec<_> = other.filter(|(_, value)| value.trim() != BYTES).collect();
        let place = self.config_place(source);
        if let Some((key, value)) = other.first() {
            let summary = format!(
                "{} writes records through {key} = {value}: the mirror's bytes are not the source's",
                source.name
            );
            let mut finding = Finding::blocks(Code::ConverterChangesRecords, summary);
            for (key, value) in &other {
                finding = finding.seen(*key, value, &place).fix(self.set(source, key, BYTES));
            }
            return Some(finding);
        }
        // Dedicated MM2 sets them; the default of a Connect worker is not told by anybody.
        let unsaid: Vec<&str> = CONVERTERS
            .iter()
            .copied()
            .filter(|key| self.facts.mm2.connect.is_some() && !source.config.contains_key(*key))
            .collect();
        (!unsaid.is_empty()).then(|| {
            let summary = format!(
                "{} does not say {}: the worker's converters hold, which its REST API does not \
                 tell; unless they are {BYTES}, records are changed",
                source.name,
                unsaid.join(", ")
            );
            let finding = Finding::notes(Code::ConverterChangesRecords, Severity::Info, summary);
            unsaid
                .iter()
                .fold(finding, |finding, key| finding.fix(self.set(source, key, BYTES)))
                .seen("connector", &source.name, place)
        })
    }
}

fn said<'a>(config: &'a BTreeMap<String, String>, key: &str, default: &'a str) -> &'a str {
    config.get(key).map_or(default, |value| value.trim())
}

/// How a connector forms names; `None` for a class that is not MM2's own.
fn policy(connector: &Connector, source: &ClusterAlias) -> Option<Policy> {
    let class = said(&connector.config, CLASS, NAMING[0].1);
    let kind = match class.rsplit('.').next()? {
        "DefaultReplicationPolicy" => PolicyKind::Default,
        "IdentityReplicationPolicy" => PolicyKind::Identity,
        _ => return None,
    };
    let separator = said(&connector.config, "replication.policy.separator", ".");
    Some(Policy::new(kind, separator, true, Some(source.clone())))
}
