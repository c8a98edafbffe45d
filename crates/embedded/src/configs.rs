//! The settings of topics: names, defaults, what is allowed, and what they mean for a batch.

use std::collections::BTreeMap;

use crate::code::{INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_SERVER_ERROR};
use crate::codec::Compression;
use crate::options::{EmbeddedOptions, KafkaVersion};
use crate::validate::Rules;

/// Kafka's numbers for the type of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean = 1,
    String = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
    Class = 8,
    Password = 9,
}

/// A topic setting that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    default: &'static str,
    /// The smallest number allowed; `None` where any will do.
    least: Option<i64>,
    /// The only words allowed; empty where any will do.
    words: &'static [&'static str],
}

const fn setting(name: &'static str, kind: Kind, default: &'static str) -> Setting {
    Setting { name, kind, default, least: None, words: &[] }
}

const fn number(name: &'static str, kind: Kind, default: &'static str, least: i64) -> Setting {
    Setting { name, kind, default, least: Some(least), words: &[] }
}

const fn word(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    words: &'static [&'static str],
) -> Setting {
    Setting { name, kind, default, least: None, words }
}

const FOREVER: &str = "9223372036854775807";
const BOOLEAN: &[&str] = &["true", "false"];
/// Stands where the default depends on the version.
const BY_VERSION: &str = "";

const SETTINGS: &[Setting] = &[
    word("cleanup.policy", Kind::List, "delete", &["compact", "delete"]),
    setting("compression.gzip.level", Kind::Int, "-1"),
    setting("compression.lz4.level", Kind::Int, "9"),
    word(
        "compression.type",
        Kind::String,
        "producer",
        &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"],
    ),
    setting("compression.zstd.level", Kind::Int, "3"),
    number("delete.retention.ms", Kind::Long, "86400000", 0),
    number("file.delete.delay.ms", Kind::Long, "60000", 0),
    number("flush.messages", Kind::Long, FOREVER, 1),
    number("flush.ms", Kind::Long, FOREVER, 0),
    setting("follower.replication.throttled.replicas", Kind::List, ""),
    number("index.interval.bytes", Kind::Int, "4096", 0),
    setting("leader.replication.throttled.replicas", Kind::List, ""),
    number("local.retention.bytes", Kind::Long, "-2", -2),
    number("local.retention.ms", Kind::Long, "-2", -2),
    number("max.compaction.lag.ms", Kind::Long, FOREVER, 1),
    number("max.message.bytes", Kind::Int, "1048588", 0),
    number("message.timestamp.after.max.ms", Kind::Long, BY_VERSION, 0),
    number("message.timestamp.before.max.ms", Kind::Long, FOREVER, 0),
    word("message.timestamp.type", Kind::String, "CreateTime", &["CreateTime", "LogAppendTime"]),
    setting("min.cleanable.dirty.ratio", Kind::Double, "0.5"),
    number("min.compaction.lag.ms", Kind::Long, "0", 0),
    number("min.insync.replicas", Kind::Int, BY_VERSION, 1),
    word("preallocate", Kind::Boolean, "false", BOOLEAN),
    word("remote.log.copy.disable", Kind::Boolean, "false", BOOLEAN),
    word("remote.log.delete.on.disable", Kind::Boolean, "false", BOOLEAN),
    word("remote.storage.enable", Kind::Boolean, "false", BOOLEAN),
    setting("retention.bytes", Kind::Long, "-1"),
    number("retention.ms", Kind::Long, "604800000", -1),
    number("segment.bytes", Kind::Int, "1073741824", 1_048_576),
    number("segment.index.bytes", Kind::Int, "10485760", 4),
    number("segment.jitter.ms", Kind::Long, "0", 0),
    number("segment.ms", Kind::Long, "604800000", 1),
    word("unclean.leader.election.enable", Kind::Boolean, "false", BOOLEAN),
];

/// Kafka 3.9 has these as well.
const OLD_SETTINGS: &[Setting] = &[
    word("message.downconversion.enable", Kind::Boolean, "true", BOOLEAN),
    setting("message.format.version", Kind::String, "3.0-IV1"),
    number("message.timestamp.difference.max.ms", Kind::Long, FOREVER, 0),
];

/// The settings that topics of this version have, in the order of their names.
pub(crate) fn settings(version: KafkaVersion) -> Vec<Setting> {
    let mut all = SETTINGS.to_vec();
    if version == KafkaVersion::V3_9 {
        all.extend_from_slice(OLD_SETTINGS);
        all.sort_by_key(|setting| setting.name);
    }
    all
}

/// The setting `name`, if this version has it.
pub(crate) fn find(version: KafkaVersion, name: &str) -> Option<Setting> {
    let old = if version == KafkaVersion::V3_9 { OLD_SETTINGS } else { &[] };
    SETTINGS.iter().chain(old).find(|setting| setting.name == name).copied()
}

/// The topics' setting that a setting of brokers stands behind.
pub(crate) fn behind(version: KafkaVersion, name: &str) -> Option<Setting> {
    settings(version).into_iter().find(|setting| setting.behind() == name)
}

impl Setting {
    /// The value of a topic that does not set it.
    pub(crate) fn default(&self, options: &EmbeddedOptions) -> String {
        if let Some(value) = options.cluster_settings.get(self.behind()) {
            return value.clone();
        }
        self.built_in(options)
    }

    /// The value where nothing is set for all brokers either.
    pub(crate) fn built_in(&self, options: &EmbeddedOptions) -> String {
        match self.name {
            "message.timestamp.after.max.ms" => {
                options.version.timestamp_after_max_ms().to_string()
            }
            "min.insync.replicas" => options.min_insync_replicas.to_string(),
            _ => self.default.to_owned(),
        }
    }

    /// What DescribeConfigs says of a value that the topic does not set: 3 (set for all brokers, as
    /// 4.3 does by itself with `min.insync.replicas`) or 5 (built-in default).
    pub(crate) fn default_source(&self, options: &EmbeddedOptions) -> i8 {
        if options.cluster_settings.contains_key(self.behind()) { 3 } else { 5 }
    }

    /// Which setting of brokers stands behind it.
    pub(crate) fn behind(&self) -> &'static str {
        self.of_brokers().unwrap_or(match self.name {
            "flush.ms" => "log.flush.interval.ms",
            "retention.ms" => "log.retention.ms",
            "segment.jitter.ms" => "log.roll.jitter.ms",
            "segment.ms" => "log.roll.ms",
            other => other,
        })
    }

    /// Which setting of brokers stands behind it, if that one has a default to show.
    pub(crate) fn of_brokers(&self) -> Option<&'static str> {
        Some(match self.name {
            "cleanup.policy" => "log.cleanup.policy",
            "delete.retention.ms" => "log.cleaner.delete.retention.ms",
            "file.delete.delay.ms" => "log.segment.delete.delay.ms",
            "flush.messages" => "log.flush.interval.messages",
            "index.interval.bytes" => "log.index.interval.bytes",
            "local.retention.bytes" => "log.local.retention.bytes",
            "local.retention.ms" => "log.local.retention.ms",
            "max.compaction.lag.ms" => "log.cleaner.max.compaction.lag.ms",
            "max.message.bytes" => "message.max.bytes",
            "message.timestamp.after.max.ms" => "log.message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms" => "log.message.timestamp.before.max.ms",
            "message.timestamp.type" => "log.message.timestamp.type",
            "min.cleanable.dirty.ratio" => "log.cleaner.min.cleanable.ratio",
            "min.compaction.lag.ms" => "log.cleaner.min.compaction.lag.ms",
            "preallocate" => "log.preallocate",
            "retention.bytes" => "log.retention.bytes",
            "segment.bytes" => "log.segment.bytes",
            "segment.index.bytes" => "log.index.size.max.bytes",
            "compression.gzip.level"
            | "compression.lz4.level"
            | "compression.type"
            | "compression.zstd.level"
            | "min.insync.replicas"
            | "unclean.leader.election.enable" => self.name,
            _ => return None,
        })
    }

    fn check(&self, value: &str, version: KafkaVersion) -> Result<(), String> {
        let invalid = |why: &str| {
            Err(format!("Invalid value {value} for configuration {}: {why}", self.name))
        };
        match self.kind {
            Kind::Int | Kind::Long => {
                let (low, high) = if self.kind == Kind::Int {
                    (i64::from(i32::MIN), i64::from(i32::MAX))
                } else {
                    (i64::MIN, i64::MAX)
                };
                let Some(number) =
                    value.trim().parse::<i64>().ok().filter(|number| (low..=high).contains(number))
                else {
                    let kind = if self.kind == Kind::Int { "INT" } else { "LONG" };
                    return invalid(&format!("Not a number of type {kind}"));
                };
                if self.name == "compression.gzip.level"
                    && number != -1
                    && !(1..=9).contains(&number)
                {
                    return invalid("Value must be between 1 and 9 or equal to -1");
                }
                let old_segment = self.name == "segment.bytes" && version == KafkaVersion::V3_9;
                match if old_segment { Some(14) } else { self.least } {
                    Some(least) if number < least => {
                        invalid(&format!("Value must be at least {least}"))
                    }
                    _ => Ok(()),
                }
            }
            Kind::Double => match value.trim().parse::<f64>() {
                Ok(number) if number < 0.0 => invalid("Value must be at least 0"),
                Ok(number) if number > 1.0 => invalid("Value must be no more than 1"),
                Ok(_) => Ok(()),
                Err(_) => invalid("Not a number of type DOUBLE"),
            },
            Kind::List if !self.words.is_empty() => {
                let known =
                    |word: &str| word.trim().is_empty() || self.words.contains(&word.trim());
                match value.split(',').find(|word| !known(word)) {
                    None => Ok(()),
                    Some(word) => Err(format!(
                        "Invalid value {} for configuration {}: String must be one of: {}",
                        word.trim(),
                        self.name,
                        self.words.join(", ")
                    )),
                }
            }
            Kind::Boolean if !self.words.contains(&value.trim()) => {
                invalid("Expected value to be either true or false")
            }
            Kind::String if !self.words.is_empty() && !self.words.contains(&value) => {
                invalid(&format!("String must be one of: {}", self.words.join(", ")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a topic may have this setting; the error is what Kafka says with `INVALID_CONFIG(40)`.
pub(crate) fn check(version: KafkaVersion, name: &str, value: Option<&str>) -> Result<(), String> {
    let Some(setting) = find(version, name) else {
        return Err(format!("Unknown topic config name: {name}"));
    };
    let Some(value) = value else {
        return Err(format!("Null value not supported for topic configs: {name}"));
    };
    if name == "remote.storage.enable" && value == "true" {
        return Err("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.".to_owned());
    }
    setting.check(value, version)
}

/// Applies one IncrementalAlterConfigs operation (0 set, 1 delete, 2 append, 3 subtract). The error
/// is Kafka's code, and its text where it has one.
pub(crate) fn alter(
    configs: &mut BTreeMap<String, String>,
    options: &EmbeddedOptions,
    name: &str,
    operation: i8,
    value: Option<&str>,
) -> Result<(), (i16, Option<String>)> {
    let refuse = |message: String| Err((INVALID_CONFIG, Some(message)));
    if !(0..=3).contains(&operation) {
        return Err((UNKNOWN_SERVER_ERROR, None));
    }
    if operation == 1 {
        configs.remove(name);
        return Ok(());
    }
    if value.is_none() {
        return Err((INVALID_REQUEST, Some(format!("Null value not supported for : {name}"))));
    }
    if operation == 0 {
        check(options.version, name, value).map_err(|message| (INVALID_CONFIG, Some(message)))?;
        configs.insert(name.to_owned(), value.unwrap_or_default().to_owned());
        return Ok(());
    }
    let Some(setting) = find(options.version, name) else {
        return refuse(format!("Unknown topic config name: {name}"));
    };
    let word = if operation == 2 { "APPEND" } else { "SUBTRACT" };
    if setting.kind != Kind::List {
        return refuse(format!("Can't {word} to key {name} because its type is not LIST."));
    }
    let now = configs.get(name).cloned().unwrap_or_else(|| setting.default(options));
    let mut list: Vec<&str> = now.split(',').filter(|item| !item.is_empty()).collect();
    for item in value.unwrap_or_default().split(',').filter(|item| !item.is_empty()) {
        if operation == 2 {
            if !list.contains(&item) {
                list.push(item);
            }
        } else {
            list.retain(|known| *known != item);
        }
    }
    let list = list.join(",");
    check(options.version, name, Some(&list)).map_err(|message| (INVALID_CONFIG, Some(message)))?;
    configs.insert(name.to_owned(), list);
    Ok(())
}

/// What is wrong with a request to change settings of this topic, whatever the values are.
pub(crate) fn check_change<'a>(
    topic: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), (i16, Option<String>)> {
    let refuse = |message: &str| Err((INVALID_REQUEST, Some(message.to_owned())));
    if topic.is_empty() {
        return refuse("Default topic resources are not allowed.");
    }
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return refuse("Error due to duplicate config keys");
    }
    Ok(())
}

/// The effective value of a setting.
pub(crate) fn value(
    configs: &BTreeMap<String, String>,
    options: &EmbeddedOptions,
    name: &str,
) -> String {
    configs
        .get(name)
        .cloned()
        .or_else(|| find(options.version, name).map(|setting| setting.default(options)))
        .unwrap_or_default()
}

/// The effective value of a setting that is a number. Values are checked when they are set.
pub(crate) fn number_of(
    configs: &BTreeMap<String, String>,
    options: &EmbeddedOptions,
    name: &str,
) -> i64 {
    value(configs, options, name).trim().parse().unwrap_or(0)
}

/// Whether the log keeps the newest record of each key.
pub(crate) fn is_compacted(configs: &BTreeMap<String, String>, options: &EmbeddedOptions) -> bool {
    value(configs, options, "cleanup.policy").split(',').any(|word| word.trim() == "compact")
}

/// Whether the log deletes old records, DeleteRecords included.
pub(crate) fn deletes(configs: &BTreeMap<String, String>, options: &EmbeddedOptions) -> bool {
    value(configs, options, "cleanup.policy").split(',').any(|word| word.trim() == "delete")
}

/// What the settings mean for a batch.
pub(crate) fn rules(configs: &BTreeMap<String, String>, options: &EmbeddedOptions) -> Rules {
    Rules {
        message_bytes_max: usize::try_from(number_of(configs, options, "max.message.bytes"))
            .unwrap_or(0),
        segment_bytes: usize::try_from(number_of(configs, options, "segment.bytes")).unwrap_or(0),
        compacted: is_compacted(configs, options),
        append_time: value(configs, options, "message.timestamp.type") == "LogAppendTime",
        compression: Compression::from_config(&value(configs, options, "compression.type")),
        before_ms_max: number_of(configs, options, "message.timestamp.before.max.ms"),
        after_ms_max: number_of(configs, options, "message.timestamp.after.max.ms"),
    }
}
