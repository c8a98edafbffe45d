//! Entries that do nothing where they stand.
//!
//! Does not: refuse anything. MM2 takes such files, and so do we; a note says what was ignored.

use twinlog_types::ClusterAlias;

use super::levels::Setting;
use super::{Levels, Problems};
use crate::known::{closest_known_property, find, is_connector_key, known_property, renamed};
use crate::properties::Properties;
use crate::value::parse_list;

/// Connector keys that a worker or client reads too, so that they may stand at a cluster.
const OF_WORKERS_TOO: &[&str] =
    &["admin.timeout.ms", "config.providers", "consumer.poll.timeout.ms", "metric.reporters"];

/// What makes MM2 copy in transactions.
const WORKERS_EXACTLY_ONCE: &str = "exactly.once.source.support";
const CONNECTORS_EXACTLY_ONCE: &str = "exactly.once.support";

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
    let declared = levels.all.get("config.providers").map_or("", |setting| &setting.value);
    let declared = parse_list(declared);
    for setting in levels.all.values() {
        if let Some((name, class)) = undeclared(&setting.value, &declared) {
            let message = format!(
                "the text `${{{name}:...}}` itself is the value, for MirrorMaker 2 too: config.providers does \
                 not list {name}"
            );
            let lines = format!(
                "say config.providers = {name} and config.providers.{name}.class = {class}"
            );
            notes.about(setting, message, Some(lines));
        }
        let Some((level, key)) = split(&setting.key, aliases) else { continue };
        if !known_property(key) {
            let (message, suggestion) = unread(setting, key, aliases);
            notes.about(setting, message, suggestion);
        } else if let Some((message, suggestion)) = without_effect(&level, key, aliases) {
            notes.about(setting, message, Some(suggestion));
        }
    }
}

/// A provider of Kafka's own that a value asks under its usual name, and its class, where the file does
/// not declare it.
fn undeclared(value: &str, declared: &[String]) -> Option<(&'static str, &'static str)> {
    PROVIDERS.iter().copied().find(|(name, _)| {
        value.contains(&format!("${{{name}:")) && !declared.iter().any(|one| one == name)
    })
}

const PROVIDERS: [(&str, &str); 3] = [
    ("file", "org.apache.kafka.common.config.provider.FileConfigProvider"),
    ("directory", "org.apache.kafka.common.config.provider.DirectoryConfigProvider"),
    ("env", "org.apache.kafka.common.config.provider.EnvVarConfigProvider"),
];

/// How `java.util.Properties`, which takes a byte for a character, reads the mark that some editors
/// begin a UTF-8 file with.
const BYTE_ORDER_MARK: &str = "\u{ef}\u{bb}\u{bf}";

/// Why nobody reads a key, and what may have been meant.
fn unread(setting: &Setting, key: &str, aliases: &[ClusterAlias]) -> (String, Option<String>) {
    if let Some(first) = setting.key.strip_prefix(BYTE_ORDER_MARK) {
        let message = "nobody reads this key: the file begins with a byte order mark, which belongs \
                       to the first key, for MirrorMaker 2 too";
        return (
            message.into(),
            Some(format!("save the file without it; the key is `{first}` then")),
        );
    }
    let level = &setting.key[..setting.key.len() - key.len()];
    if let Some(now) = renamed(key) {
        let message = "nothing is left out because of it: MirrorMaker 2 reads this key up to 3.9 \
                       and not since 4.0, and twinlog does not";
        return (message.into(), Some(format!("say {level}{now} with the same value")));
    }
    let value = setting.value.trim();
    if aliases.iter().any(|alias| alias.as_str() == key) && value.starts_with("->") {
        let message = "nobody reads this key: it ends at the blank, for MirrorMaker 2 too";
        let rest = value.trim_start_matches("->").trim();
        // The key alone: what follows it may be a secret.
        let ends = |c: char| c == '=' || c == ':' || c.is_whitespace();
        let rest = rest.split(ends).next().unwrap_or_default();
        return (message.into(), Some(format!("write it without blanks: {key}->{rest}")));
    }
    let meant = closest_known_property(key);
    let suggestion = meant.map(|meant| format!("did you mean `{level}{meant}`?"));
    ("nobody reads this key".into(), suggestion)
}

/// Why a known key does nothing at its level.
fn without_effect(
    level: &Level<'_>,
    key: &str,
    aliases: &[ClusterAlias],
) -> Option<(&'static str, String)> {
    match level {
        Level::All | Level::Flow if key == WORKERS_EXACTLY_ONCE => {
            let target = aliases.get(1).or(aliases.first())?;
            Some((
                "does nothing here: MirrorMaker 2 copies in transactions where it is said per cluster, \
                 and this version refuses that",
                format!("remove the line; it would be {target}.{key}"),
            ))
        }
        Level::All => {
            if key == CONNECTORS_EXACTLY_ONCE {
                let (source, target) = (aliases.first()?, aliases.get(1)?);
                let suggestion = format!("remove the line; it would be {source}->{target}.{key}");
                return Some(("does nothing for all flows at once", suggestion));
            }
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
