//! Which entry of a file reaches which connector, worker and client.
//!
//! A key stands at one of three levels: for all (`topics`), for a cluster (`hello.…`), for a flow
//! (`hello->world.…`). What wins is not one rule but what `MirrorMakerConfig` and
//! `MirrorConnectorConfig` do step by step, surprises included: a cluster's client settings beat
//! the flow's, global client settings are dropped except addresses and security, and for the
//! worker's storage keys the global level beats the cluster's.
//!
//! Does not: check values, resolve variables.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::known::{CLIENT_SECURITY, WORKER_PREFIXES, is_client_security, is_connector_key};
use crate::redact::ClientProperties;

/// A value and the entry that it comes from.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) value: String,
    /// The key as it stands in the file.
    pub(super) key: Arc<str>,
    /// Where it stands; `None` when no line of the file says it.
    pub(super) line: Option<u32>,
    /// Whether it comes from the command line.
    pub(super) overridden: bool,
}

pub(super) type Settings = BTreeMap<String, Setting>;

impl Setting {
    /// A value that MM2 fills in.
    fn filled_in(key: &str, value: impl Into<String>) -> Self {
        Self { value: value.into(), key: key.into(), line: None, overridden: false }
    }
}

/// The kinds of clients that a cluster's settings distinguish.
const ROLES: [&str; 3] = ["producer", "consumer", "admin"];

/// The entries of a file by their full keys.
pub(super) struct Levels {
    pub(super) all: Settings,
}

impl Levels {
    /// `MirrorMakerConfig.clusterProps`: what the file says of the cluster `alias`, with security
    /// settings spelt out per kind of client.
    pub(super) fn cluster(&self, alias: &str) -> Settings {
        let mut settings = self.below(&format!("{alias}."));
        for key in CLIENT_SECURITY {
            if let Some(setting) = settings.get(*key).cloned() {
                for role in ROLES {
                    fill_in(&mut settings, format!("{role}.{key}"), &setting);
                }
            }
        }
        for key in CLIENT_SECURITY {
            if let Some(setting) = self.all.get(*key) {
                for role in ROLES {
                    fill_in(&mut settings, format!("{role}.{key}"), setting);
                }
                fill_in(&mut settings, (*key).to_owned(), setting);
            }
        }
        settings
    }

    /// `MirrorMakerConfig.workerConfig`: what the worker of the flow is told. Its `producer.*` are
    /// the settings of the producer that writes mirrored records.
    pub(super) fn worker(&self, source: &str, target: &str) -> Settings {
        let mut settings = self.cluster(target);
        for (key, setting) in &self.all {
            let wins = WORKER_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
            if wins || key.starts_with("config.providers") {
                settings.insert(key.clone(), setting.clone());
            }
        }
        let converter = "org.apache.kafka.connect.converters.ByteArrayConverter";
        for (key, value) in [
            ("client.id", format!("{source}->{target}")),
            ("group.id", format!("{source}-mm2")),
            ("offset.storage.topic", format!("mm2-offsets.{source}.internal")),
            ("status.storage.topic", format!("mm2-status.{source}.internal")),
            ("config.storage.topic", format!("mm2-configs.{source}.internal")),
            ("key.converter", converter.to_owned()),
            ("value.converter", converter.to_owned()),
            ("header.converter", converter.to_owned()),
        ] {
            fill_in(&mut settings, key.to_owned(), &Setting::filled_in(key, value));
        }
        settings
    }

    /// `MirrorMakerConfig.connectorBaseConfig`: what the connector `connector` of the flow is told.
    pub(super) fn connector(&self, source: &str, target: &str, connector: &str) -> Settings {
        let mut settings = Settings::new();
        for (key, setting) in &self.all {
            let reaches = is_connector_key(key)
                || key.starts_with("config.providers")
                || key.starts_with("replication.policy");
            if reaches {
                settings.insert(key.clone(), setting.clone());
            }
        }
        for (side, alias) in [("source", source), ("target", target)] {
            for (key, setting) in self.cluster(alias) {
                // A bare prefix test, as MM2's: `administration.x` counts as a client's key.
                let of_client = ROLES.iter().any(|role| key.starts_with(role));
                let key = if of_client {
                    format!("{side}.{key}")
                } else {
                    format!("{side}.cluster.{key}")
                };
                settings.insert(key, setting);
            }
        }
        let class = format!("org.apache.kafka.connect.mirror.{connector}");
        for (key, value) in [
            ("name", connector),
            ("connector.class", &class),
            ("source.cluster.alias", source),
            ("target.cluster.alias", target),
        ] {
            fill_in(&mut settings, key.to_owned(), &Setting::filled_in(key, value));
        }
        settings.extend(self.below(&format!("{source}->{target}.")));
        fill_in(&mut settings, "enabled".into(), &Setting::filled_in("enabled", "false"));
        settings
    }

    /// `twinlog.*`: for all, then for the target, then for the flow.
    pub(super) fn twinlog(&self, source: &str, target: &str) -> Settings {
        let mut settings = Settings::new();
        for level in [String::new(), format!("{target}."), format!("{source}->{target}.")] {
            let own = self.below(&format!("{level}twinlog."));
            settings.extend(own.into_iter().map(|(key, s)| (format!("twinlog.{key}"), s)));
        }
        settings
    }

    fn below(&self, prefix: &str) -> Settings {
        below(&self.all, prefix)
    }
}

/// The settings of a connector's client: `side` is `source` or `target`.
pub(super) fn client(connector: &Settings, side: &str, role: &str) -> Settings {
    let mut settings = below(connector, &format!("{side}.cluster."));
    settings.retain(|key, _| is_client_security(key));
    settings.extend(below(connector, &format!("{role}.")));
    settings.extend(below(connector, &format!("{side}.{role}.")));
    if role == "consumer" {
        let never = Setting::filled_in("enable.auto.commit", "false");
        settings.insert("enable.auto.commit".into(), never);
        let earliest = Setting::filled_in("auto.offset.reset", "earliest");
        fill_in(&mut settings, "auto.offset.reset".into(), &earliest);
    }
    settings
}

/// The settings of the producer that writes mirrored records.
pub(super) fn data_producer(worker: &Settings, connector: &Settings) -> Settings {
    let mut settings = below(worker, "producer.");
    settings.extend(below(connector, "producer.override."));
    settings
}

/// The settings under `prefix`, without it.
fn below(settings: &Settings, prefix: &str) -> Settings {
    settings
        .range(prefix.to_owned()..)
        .take_while(|(key, _)| key.starts_with(prefix))
        .map(|(key, setting)| (key[prefix.len()..].to_owned(), setting.clone()))
        .collect()
}

fn fill_in(settings: &mut Settings, key: String, setting: &Setting) {
    settings.entry(key).or_insert_with(|| setting.clone());
}

/// The values alone.
pub(super) fn values(settings: Settings) -> ClientProperties {
    settings.into_iter().map(|(key, setting)| (key, setting.value)).collect()
}
