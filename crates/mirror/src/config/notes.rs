//! Entries that do nothing where they stand.
//!
//! Does not: refuse anything. MM2 takes such files, and so do we; a note says what was ignored.

use twinlog_types::ClusterAlias;

use super::levels::Setting;
use super::{Levels, Problems};
use crate::known::{closest_known_property, find, is_connector_key, known_property};
use crate::properties::Properties;

/// Connector keys that a worker or client reads too, so that they may stand at a cluster.
const OF_WORKERS_TOO: &[&str] =
    &["admin.timeout.ms", "config.providers", "consumer.poll.timeout.ms", "metric.reporters"];

/// Where a key stands.
enum Level<'a> {
    All,
    Cluster(&'a ClusterAlias),
    Flow,
}

/// Notes on every entry that an earlier or later stage of reading leaves without effect.
pub(super) fn take(
    properties: &Properties,
    levels: &Levels,
    aliases: &[ClusterAlias],
    notes: &mut Problems<'_>,
) {
    for entry in properties.replaced() {
        let last = properties.entry(&entry.key).map_or(0, |entry| entry.line);
        let setting = Setting {
            value: String::new(),
            key: entry.key.as_str().into(),
            line: Some(entry.line),
            overridden: false,
        };
        notes.about(&setting, format!("is said again on line {last}, which counts"), None);
    }
    for setting in levels.all.values() {
        let Some((level, key)) = split(&setting.key, aliases) else { continue };
        if !known_property(key) {
            let meant = closest_known_property(key);
            let suggestion = meant.map(|meant| {
                let level = &setting.key[..setting.key.len() - key.len()];
                format!("did you mean `{level}{meant}`?")
            });
            notes.about(setting, "nobody reads this key", suggestion);
        } else if let Some((message, suggestion)) = without_effect(&level, key, aliases) {
            notes.about(setting, message, Some(suggestion));
        }
    }
}

/// Why a known key does nothing at its level.
fn without_effect(
    level: &Level<'_>,
    key: &str,
    aliases: &[ClusterAlias],
) -> Option<(&'static str, String)> {
    match level {
        Level::All => {
            let of_client =
                ["consumer.", "producer.", "admin."].iter().any(|role| key.starts_with(role));
            if of_client && !is_connector_key(key) && key != "consumer.isolation.level" {
                let alias = aliases.first()?;
                return Some((
                    "does nothing for all clusters at once",
                    format!("say it per cluster: {alias}.{key}"),
                ));
            }
            if key == "use.defaults.from" {
                let (source, target) = (aliases.first()?, aliases.get(1)?);
                let suggestion = format!("say it per flow: {source}->{target}.{key}");
                return Some(("does nothing for all flows at once", suggestion));
            }
            None
        }
        Level::Cluster(alias) => {
            let of_worker = OF_WORKERS_TOO.contains(&key) || key.contains("converter");
            if find(key).is_none() || of_worker {
                return None;
            }
            let other = aliases.iter().find(|other| other != alias)?;
            Some((
                "does nothing for a cluster",
                format!("say it for all flows, {key}, or per flow, {other}->{alias}.{key}"),
            ))
        }
        Level::Flow => None,
    }
}

/// A key's level and the rest; `None` for a flow of unknown clusters, which is a problem already.
fn split<'a>(key: &'a str, aliases: &'a [ClusterAlias]) -> Option<(Level<'a>, &'a str)> {
    let after = |text: &'a str| {
        aliases
            .iter()
            .filter_map(|alias| {
                let rest = text.strip_prefix(alias.as_str())?.strip_prefix('.')?;
                Some((alias, rest))
            })
            // The longest alias, where one begins another.
            .min_by_key(|(_, rest)| rest.len())
    };
    if let Some((source, rest)) = key.split_once("->") {
        let known = aliases.iter().any(|alias| alias.as_str() == source);
        return after(rest).filter(|_| known).map(|(_, rest)| (Level::Flow, rest));
    }
    Some(match after(key) {
        Some((alias, rest)) => (Level::Cluster(alias), rest),
        None => (Level::All, key),
    })
}
