//! Which configs a mirrored topic has.

use std::collections::BTreeMap;

use twinlog_mirror::FlowConfig;
use twinlog_types::{ConfigChange, ConfigEntry};

/// The limit on timestamps from the future, and the value that lifts it.
pub(super) const AFTER_MAX: (&str, &str) =
    ("message.timestamp.after.max.ms", "9223372036854775807");

/// The configs that mirroring is concerned with, of those that `come_from` selects.
fn concerned<'a>(
    flow: &'a FlowConfig,
    entries: &'a [ConfigEntry],
    come_from: impl Fn(&ConfigEntry) -> bool,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    entries
        .iter()
        .filter(move |entry| come_from(entry) && !entry.sensitive && !entry.read_only)
        .filter(|entry| flow.configs_exclude.matches(&entry.name))
        .filter_map(|entry| Some((entry.name.as_str(), entry.value.as_deref()?)))
}

/// The configs that the target topic shall have, `refused` ones (by name: the refused value) left
/// out.
pub(super) fn wanted(
    flow: &FlowConfig,
    source: &[ConfigEntry],
    refused: &BTreeMap<String, Refused>,
) -> BTreeMap<String, String> {
    // `use.defaults.from=source` makes Kafka's defaults of the source overrides on the target.
    let mut wanted: BTreeMap<String, String> = concerned(flow, source, |entry| {
        entry.is_set_at_topic()
            || (flow.use_source_defaults && entry.is_kafka_default() && entry.name != AFTER_MAX.0)
    })
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    let (name, value) = AFTER_MAX;
    if flow.configs_exclude.matches(name) {
        wanted.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    wanted.retain(|name, value| refused.get(name).is_none_or(|refused| refused.value != *value));
    wanted
}

/// Whether the source topic itself sets the config to this value.
pub(super) fn sets(entries: &[ConfigEntry], name: &str, value: &str) -> bool {
    entries.iter().any(|entry| {
        entry.is_set_at_topic() && entry.name == name && entry.value.as_deref() == Some(value)
    })
}

/// What must change on the target. An override that only the target has is removed, as MM2 does,
/// unless it is excluded or stands for a refused value.
pub(super) fn changes(
    flow: &FlowConfig,
    source: &[ConfigEntry],
    target: &[ConfigEntry],
    refused: &BTreeMap<String, Refused>,
) -> Vec<ConfigChange> {
    let wanted = wanted(flow, source, refused);
    let present: BTreeMap<&str, &str> =
        concerned(flow, target, ConfigEntry::is_set_at_topic).collect();
    let set = wanted
        .iter()
        .filter(|(name, value)| present.get(name.as_str()) != Some(&value.as_str()))
        .map(|(name, value)| ConfigChange::Set(name.clone(), value.clone()));
    let delete = present
        .keys()
        .filter(|name| !wanted.contains_key(**name) && !refused.contains_key(**name))
        .map(|name| ConfigChange::Delete((*name).to_owned()));
    let mut changes: Vec<_> = set.chain(delete).collect();
    changes.sort_by(|a, b| a.name().cmp(b.name()));
    changes
}

/// A value that the target refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refused {
    /// The value; another one is tried.
    pub(super) value: String,
    /// What the target said.
    pub(super) message: String,
}

/// Which of the `offered` configs a refusal (INVALID_CONFIG) is about; `None` when the message names
/// none of them. Brokers refuse the whole topic for one config, and only the text says which.
///
/// Seen on 3.9.1 and 4.3.0: `Unknown topic config name: x`, `Invalid value 10 for configuration
/// segment.bytes: Value must be at least 1048576`, `Null value not supported for topic configs: x`,
/// and `Tiered Storage functionality is disabled in the broker…`, which names nothing.
pub fn refused_config_key<'a>(
    message: &str,
    offered: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    const TIERED: &str = "remote.storage.enable";
    let offered: Vec<&str> = offered.into_iter().collect();
    let named = |text: &str| {
        let words: Vec<&str> = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')))
            .map(|word| word.trim_matches('.'))
            .collect();
        // The first one mentioned: what follows explains, and may name other configs.
        words.iter().find_map(|word| offered.iter().find(|name| *name == word).copied())
    };
    // A value may look like a config's name; the name stands behind these words.
    ["for configuration ", "config name: ", "topic configs: "]
        .iter()
        .find_map(|mark| message.split_once(mark).and_then(|(_, rest)| named(rest)))
        .or_else(|| named(message))
        .or_else(|| {
            let tiered = message.contains("Tiered Storage");
            offered.iter().find(|name| tiered && **name == TIERED).copied()
        })
}

#[cfg(test)]
mod tests {
    use super::refused_config_key;

    const OFFERED: [&str; 4] =
        ["retention.ms", "remote.storage.enable", "segment.bytes", "segment"];

    #[test]
    fn the_refused_config_is_read_from_the_brokers_words() {
        let key = |message: &str| refused_config_key(message, OFFERED);
        assert_eq!(key("Unknown topic config name: segment"), Some("segment"));
        assert_eq!(
            key("Invalid value 14 for configuration segment.bytes: Value must be at least 1048576"),
            Some("segment.bytes")
        );
        assert_eq!(
            key("Null value not supported for topic configs: retention.ms"),
            Some("retention.ms")
        );
        assert_eq!(
            key(
                "Tiered Storage functionality is disabled in the broker. Topic cannot be configured \
                 with remote log storage."
            ),
            Some("remote.storage.enable")
        );
        assert_eq!(
            key("Invalid value retention.ms for configuration segment: no"),
            Some("segment")
        );
        assert_eq!(key("Invalid value retention.ms."), Some("retention.ms"));
    }

    #[test]
    fn a_refusal_that_names_no_offered_config_is_about_something_else() {
        assert_eq!(refused_config_key("Replication factor is above 1.", OFFERED), None);
        assert_eq!(refused_config_key("Unknown topic config name: segment.ms", OFFERED), None);
        assert_eq!(refused_config_key("", OFFERED), None);
    }
}
