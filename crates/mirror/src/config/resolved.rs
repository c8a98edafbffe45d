//! What counts for a flow, key by key, and what contradicts itself.

use std::collections::BTreeSet;
use std::time::Duration;

use super::flow::{FlowConfig, Isolation, Origin};
use super::{Configuration, Reading};
use crate::policy::PolicyKind;
use crate::problem::Problem;
use crate::redact::shown;

/// A setting of a flow as it counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResolvedSetting<'a> {
    /// The key, without level.
    pub key: String,
    /// Its value as it may be printed: `***` for a secret.
    pub value: String,
    /// Where it stands; `None` for a default.
    pub origin: Option<&'a Origin>,
}

impl FlowConfig {
    /// Everything that counts for this flow: each key that twinlog reads, with its default where the
    /// file says nothing, and whatever else of the file reaches the flow's clients.
    pub fn settings(&self) -> Vec<ResolvedSetting<'_>> {
        let known = self.known_settings();
        let mut seen: BTreeSet<String> = known.iter().map(|(key, _)| (*key).to_owned()).collect();
        let mut settings: Vec<ResolvedSetting<'_>> = known
            .into_iter()
            .map(|(key, value)| ResolvedSetting {
                key: key.to_owned(),
                value,
                origin: self.origin(key),
            })
            .collect();
        for (key, value) in self.connector.iter().chain(self.twinlog.iter()) {
            let Some(origin) = self.origin(key).filter(|_| seen.insert(key.clone())) else {
                continue;
            };
            let value = shown(key, value).to_owned();
            settings.push(ResolvedSetting { key: key.clone(), value, origin: Some(origin) });
        }
        settings
    }

    /// The keys that decide what a flow does.
    fn known_settings(&self) -> Vec<(&'static str, String)> {
        let list = |items: &[String]| items.join(",");
        let seconds = |duration: Duration| duration.as_secs().to_string();
        let policy = match self.policy.kind() {
            PolicyKind::Default => "DefaultReplicationPolicy",
            PolicyKind::Identity => "IdentityReplicationPolicy",
        };
        let location = if self.offset_syncs_on_target { "target" } else { "source" };
        let isolation = match self.isolation {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        };
        let compression = self.producer_compression.clone();
        let mut settings = vec![
            ("enabled", self.enabled.to_string()),
            ("topics", self.topics.include().map_or_else(|| ".*".to_owned(), list)),
            ("topics.exclude", list(self.topics.exclude())),
            ("groups", self.groups.include().map_or_else(|| ".*".to_owned(), list)),
            ("groups.exclude", list(self.groups.exclude())),
            ("config.properties.exclude", list(self.configs_exclude.exclude())),
            ("replication.policy.class", policy.to_owned()),
            ("replication.policy.separator", self.policy.separator().to_owned()),
            ("replication.factor", self.replication_factor.to_string()),
        ];
        for (switch, on, interval, every) in [
            (
                "refresh.topics.enabled",
                self.refresh_topics_enabled,
                "refresh.topics.interval.seconds",
                self.refresh_topics_interval,
            ),
            (
                "refresh.groups.enabled",
                self.refresh_groups_enabled,
                "refresh.groups.interval.seconds",
                self.refresh_groups_interval,
            ),
            (
                "sync.topic.configs.enabled",
                self.sync_topic_configs_enabled,
                "sync.topic.configs.interval.seconds",
                self.sync_topic_configs_interval,
            ),
            (
                "sync.topic.acls.enabled",
                self.sync_topic_acls_enabled,
                "sync.topic.acls.interval.seconds",
                self.sync_topic_acls_interval,
            ),
            (
                "sync.group.offsets.enabled",
                self.sync_group_offsets_enabled,
                "sync.group.offsets.interval.seconds",
                self.sync_group_offsets_interval,
            ),
            (
                "emit.checkpoints.enabled",
                self.emit_checkpoints_enabled,
                "emit.checkpoints.interval.seconds",
                self.checkpoints_interval,
            ),
            (
                "emit.heartbeats.enabled",
                self.emit_heartbeats_enabled,
                "emit.heartbeats.interval.seconds",
                self.heartbeats_interval,
            ),
        ] {
            settings.push((switch, on.to_string()));
            settings.push((interval, seconds(every)));
        }
        settings.extend([
            ("heartbeats.replication.enabled", self.heartbeats_replication_enabled.to_string()),
            ("emit.offset-syncs.enabled", self.emit_offset_syncs_enabled.to_string()),
            ("offset-syncs.topic.location", location.to_owned()),
            ("offset.lag.max", self.offset_lag_max.to_string()),
            (
                "checkpoints.topic.replication.factor",
                self.checkpoints_topic_replication_factor.to_string(),
            ),
            (
                "heartbeats.topic.replication.factor",
                self.heartbeats_topic_replication_factor.to_string(),
            ),
            (
                "offset-syncs.topic.replication.factor",
                self.offset_syncs_topic_replication_factor.to_string(),
            ),
            ("source.consumer.isolation.level", isolation.to_owned()),
            (
                "producer.compression.type",
                compression.unwrap_or_else(|| "as the source's batches".to_owned()),
            ),
        ]);
        settings
    }
}

/// Pairs of a switch and a key that counts only while it is on.
const ONLY_WHILE: &[(&str, &str)] = &[
    ("refresh.topics.enabled", "refresh.topics.interval.seconds"),
    ("refresh.groups.enabled", "refresh.groups.interval.seconds"),
    ("sync.topic.configs.enabled", "sync.topic.configs.interval.seconds"),
    ("sync.topic.acls.enabled", "sync.topic.acls.interval.seconds"),
    ("sync.group.offsets.enabled", "sync.group.offsets.interval.seconds"),
    ("emit.checkpoints.enabled", "emit.checkpoints.interval.seconds"),
    ("emit.heartbeats.enabled", "emit.heartbeats.interval.seconds"),
    ("emit.offset-syncs.enabled", "offset-syncs.topic.location"),
    ("emit.offset-syncs.enabled", "offset.lag.max"),
];

impl Reading {
    /// What is allowed, and hardly meant: settings that contradict each other, within a flow or
    /// between flows.
    pub fn contradictions(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        for flow in self.configuration.flows() {
            within(flow, &mut found);
            between(&self.configuration, flow, &mut found);
        }
        found
    }
}

fn about(flow: &FlowConfig, key: &str, message: String, suggestion: String) -> Problem {
    let origin = flow.origin(key);
    Problem {
        file: origin.map(|origin| origin.file.clone()).unwrap_or_default(),
        line: origin.and_then(|origin| origin.line),
        key: Some(origin.map_or_else(|| format!("{}.{key}", flow.name), |it| it.key.clone())),
        message,
        suggestion: Some(suggestion),
    }
}

fn within(flow: &FlowConfig, found: &mut Vec<Problem>) {
    let name = &flow.name;
    if !flow.sync_group_offsets_enabled {
        let key = "sync.group.offsets.enabled";
        let (message, next) = if flow.emit_checkpoints_enabled {
            (
                "is false: positions of groups are written as checkpoints only, and no group can \
                 simply go on on the target",
                format!("say {name}.{key} = true"),
            )
        } else {
            (
                "is false, and so are checkpoints: no group is translated",
                format!("say {name}.{key} = true"),
            )
        };
        found.push(about(flow, key, message.to_owned(), next));
    } else if !flow.emit_checkpoints_enabled {
        let message = "is false: MM2 would not start its checkpoint connector with this and sync no \
                       group; twinlog syncs them";
        let next = "say true where MM2 shall read the file as well".to_owned();
        found.push(about(flow, "emit.checkpoints.enabled", message.to_owned(), next));
    }
    let settings = flow.settings();
    let is_off = |key: &str| settings.iter().any(|it| it.key == key && it.value == "false");
    for (switch, key) in ONLY_WHILE {
        if is_off(switch) && flow.origin(key).is_some() {
            let message = format!("does nothing while {switch} is false");
            found.push(about(
                flow,
                key,
                message,
                format!("remove the line, or say {switch} = true"),
            ));
        }
    }
    if flow.topics.include().is_some_and(<[String]>::is_empty) {
        let message = "is empty: no topic is mirrored".to_owned();
        found.push(about(flow, "topics", message, format!("say {name}.topics = .*")));
    }
}

fn between(configuration: &Configuration, flow: &FlowConfig, found: &mut Vec<Problem>) {
    if flow.policy.kind() != PolicyKind::Identity {
        return;
    }
    let key = "replication.policy.class";
    for other in configuration.flows() {
        if other.name.source == flow.name.target && other.name.target == flow.name.source {
            let message = format!(
                "keeps names, and {} copies the other way: a topic that both take is not copied at \
                 all, as its records would go round for ever",
                other.name
            );
            let next = "give the two flows topics that exclude each other".to_owned();
            found.push(about(flow, key, message, next));
        }
        if other.name.target == flow.name.target && other.name.source < flow.name.source {
            let message = format!(
                "keeps names, and {} has the same target: a topic that both sources have is copied \
                 from one of them at most",
                other.name
            );
            let next = "give the two flows topics that exclude each other".to_owned();
            found.push(about(flow, key, message, next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(lines: &str) -> Reading {
        let text = format!(
            "clusters = hello, world\nhello.bootstrap.servers = h:1\nworld.bootstrap.servers = w:1\n\
             hello->world.enabled = true\n{lines}"
        );
        Configuration::read("mm2.properties", text.as_bytes(), &[], None)
    }

    fn setting(flow: &FlowConfig, key: &str) -> (String, Option<String>) {
        let settings = flow.settings();
        let it = settings.iter().find(|it| it.key == key).expect("the key is there");
        (it.value.clone(), it.origin.map(ToString::to_string))
    }

    #[test]
    fn each_value_is_told_with_its_place_or_as_a_default() {
        let read = reading("hello->world.topics = a,b\ngroups = g\n");
        let flow = &read.configuration.flows()[0];
        let at = |place: &str| Some(place.to_owned());
        assert_eq!(
            setting(flow, "topics"),
            ("a,b".into(), at("mm2.properties:5: hello->world.topics"))
        );
        assert_eq!(setting(flow, "groups"), ("g".into(), at("mm2.properties:6: groups")));
        assert_eq!(setting(flow, "sync.group.offsets.enabled"), ("false".into(), None));
        assert_eq!(setting(flow, "replication.factor"), ("2".into(), None));
        assert_eq!(setting(flow, "source.consumer.isolation.level").0, "read_committed");
    }

    #[test]
    fn secrets_are_hidden() {
        let read = reading("hello.ssl.key.password = hunter2\n");
        let settings = read.configuration.flows()[0].settings();
        assert!(settings.iter().any(|it| it.key.contains("password") && it.value == "***"));
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn what_is_hardly_meant_is_named() {
        let said = |lines: &str| {
            let found = reading(lines).contradictions();
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert!(said("").contains("sync.group.offsets.enabled: is false"));
        let sound = "sync.group.offsets.enabled = true\n";
        assert_eq!(said(sound), "");
        let idle = format!(
            "{sound}emit.heartbeats.enabled = false\nemit.heartbeats.interval.seconds = 5\n"
        );
        assert!(said(&idle).contains("does nothing while emit.heartbeats.enabled is false"));
        let both = format!(
            "{sound}world->hello.enabled = true\nreplication.policy.class = \
             org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
        );
        assert!(said(&both).contains("go round for ever"));
    }
}
