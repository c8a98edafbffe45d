//! `DescribeConfigs` and `IncrementalAlterConfigs` for brokers: one of them, or all (KIP-226).
//!
//! What is set for all brokers stands behind the settings of topics and so has an effect there; what
//! is set for one broker is remembered and shown, and has none.

use std::collections::BTreeMap;

use twinlog_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsSynonym,
};
use twinlog_protocol::messages::{incremental_alter_configs_request, string};

use crate::broker_settings::{self, BrokerSetting};
use crate::code::INVALID_REQUEST;
use crate::configs::{self, Kind};
use crate::server::Call;
use crate::state::State;

/// Kafka's numbers for where a value comes from.
const FROM_BROKER: i8 = 2;
const FROM_ALL_BROKERS: i8 = 3;
const FROM_FILE: i8 = 4;
const FROM_KAFKA: i8 = 5;
/// The type of what nobody knows.
const UNKNOWN: i8 = 0;

/// Operations of `IncrementalAlterConfigs`.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;

type Refused = (i16, String);

fn refused<T>(message: String) -> Result<T, Refused> {
    Err((INVALID_REQUEST, message))
}

/// Which broker a resource name means; `None`: all of them.
fn broker_of(name: &str) -> Result<Option<i32>, Refused> {
    if name.is_empty() {
        return Ok(None);
    }
    match name.parse() {
        Ok(id) => Ok(Some(id)),
        Err(_) => refused(format!("Broker id must be an integer, but it is: {name}")),
    }
}

/// The settings of the broker that is asked, or with an empty name what is set for all.
pub(super) fn describe(
    call: &Call,
    state: &State,
    name: &str,
    wanted: impl Fn(&str) -> bool,
    synonyms: bool,
) -> Result<Vec<DescribeConfigsResourceResult>, Refused> {
    let broker = broker_of(name)?;
    if let Some(other) = broker.filter(|&id| id != call.broker) {
        return refused(format!(
            "Unexpected broker id, expected {} or empty string, but received {other}",
            call.broker
        ));
    }
    let shared = &state.options.cluster_settings;
    let Some(id) = broker else {
        let set = shared.keys().filter(|name| wanted(name));
        let one = |name: &String| {
            let layers = [(FROM_ALL_BROKERS, name.as_str(), shared[name].clone())];
            entry(call, name, &layers, synonyms)
        };
        return Ok(set.map(one).collect());
    };
    let own = state.broker_settings.get(&id);
    let file = in_file(state, id);
    let mut names: Vec<&str> =
        broker_settings::SETTINGS.iter().map(|setting| setting.name).collect();
    names.extend(own.into_iter().flat_map(BTreeMap::keys).map(String::as_str));
    names.extend(shared.keys().map(String::as_str));
    names.sort_unstable();
    names.dedup();
    let one = |name: &str| {
        let mut layers: Vec<(i8, &str, String)> = Vec::new();
        if let Some(value) = own.and_then(|own| own.get(name)) {
            layers.push((FROM_BROKER, name, value.clone()));
        }
        if let Some(value) = shared.get(name) {
            layers.push((FROM_ALL_BROKERS, name, value.clone()));
        }
        if let Some(value) = file.get(name) {
            layers.push((FROM_FILE, name, value.clone()));
        }
        if let Some(value) = broker_settings::find(name).and_then(|setting| setting.default) {
            layers.push((FROM_KAFKA, name, value.to_owned()));
        }
        // Of a time that can be said in several units the default is said in the coarsest one.
        let coarse = match name {
            "log.retention.ms" => Some("log.retention.hours"),
            "log.roll.ms" => Some("log.roll.hours"),
            _ => None,
        };
        if let Some(setting) = coarse.filter(|_| !layers.is_empty()).and_then(broker_settings::find)
        {
            layers.push((FROM_KAFKA, setting.name, setting.default.unwrap_or_default().to_owned()));
        }
        entry(call, name, &layers, synonyms)
    };
    Ok(names.into_iter().filter(|name| wanted(name)).map(one).collect())
}

/// One setting, from where it is set: the strongest first.
fn entry(
    call: &Call,
    name: &str,
    layers: &[(i8, &str, String)],
    synonyms: bool,
) -> DescribeConfigsResourceResult {
    let setting = broker_settings::find(name);
    let sensitive = setting.is_none_or(|setting| setting.kind == Kind::Password);
    let shown = |value: &str| (!sensitive).then(|| string(value));
    let mut out = DescribeConfigsResourceResult::default()
        .with_name(string(name))
        .with_value(layers.first().and_then(|(_, _, value)| shown(value)))
        .with_read_only(setting.is_none_or(|setting| setting.read_only))
        .with_config_source(layers.first().map_or(FROM_KAFKA, |&(source, ..)| source))
        .with_is_sensitive(sensitive)
        .with_documentation(None);
    if call.version >= 3 {
        out = out.with_config_type(setting.map_or(UNKNOWN, |setting| setting.kind as i8));
    }
    if synonyms {
        let synonym = |(source, name, value): &(i8, &str, String)| {
            DescribeConfigsSynonym::default()
                .with_name(string(name))
                .with_value(shown(value))
                .with_source(*source)
        };
        out = out.with_synonyms(layers.iter().map(synonym).collect());
    }
    out
}

/// What a broker's `server.properties` would say to make it what the options make it.
fn in_file(state: &State, id: i32) -> BTreeMap<&'static str, String> {
    let options = &state.options;
    let mut file = BTreeMap::new();
    let mut says = |name: &'static str, value: String| {
        let default = broker_settings::find(name).and_then(|setting| setting.default);
        if default != Some(value.as_str()) {
            file.insert(name, value);
        }
    };
    let millis = |time: std::time::Duration| time.as_millis().to_string();
    says("node.id", id.to_string());
    says("broker.id", id.to_string());
    says("process.roles", "broker,controller".to_owned());
    if let Some(broker) = state.brokers.get(&id) {
        let protocol = if options.sasl_users.is_empty() { "PLAINTEXT" } else { "SASL_PLAINTEXT" };
        let listener = format!("{protocol}://{}:{}", broker.host, broker.port);
        says("listeners", listener.clone());
        says("advertised.listeners", listener);
        if let Some(rack) = &broker.rack {
            says("broker.rack", rack.clone());
        }
    }
    if options.authorizer.is_some() {
        let class = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
        says("authorizer.class.name", class.to_owned());
    }
    if !options.sasl_users.is_empty() {
        says("sasl.enabled.mechanisms", "PLAIN".to_owned());
    }
    if options.rack_aware {
        let class = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
        says("replica.selector.class", class.to_owned());
    }
    says("auto.create.topics.enable", options.auto_create_topics.to_string());
    says("num.partitions", options.default_partitions.to_string());
    says("default.replication.factor", options.default_replication.to_string());
    says("min.insync.replicas", options.min_insync_replicas.to_string());
    says("producer.id.expiration.ms", millis(options.producer_expiration));
    says("producer.id.expiration.check.interval.ms", millis(options.producer_expiration_check));
    says("offsets.retention.minutes", (options.offsets_retention.as_secs() / 60).to_string());
    says("offsets.retention.check.interval.ms", millis(options.offsets_retention_check));
    says("broker.session.timeout.ms", millis(options.broker_session_timeout));
    if let Some(every) = options.retention_check {
        says("log.retention.check.interval.ms", millis(every));
    }
    if let Some(every) = options.cleaner_check {
        says("log.cleaner.backoff.ms", millis(every));
    }
    file
}

/// Changes the settings of one broker, or of all: all changes or none.
pub(super) fn alter(
    state: &mut State,
    resource: &incremental_alter_configs_request::AlterConfigsResource,
    dry: bool,
) -> Result<(), Refused> {
    let broker = broker_of(&resource.resource_name)?;
    let mut altered = match broker {
        Some(id) => state.broker_settings.get(&id).cloned().unwrap_or_default(),
        None => state.options.cluster_settings.clone(),
    };
    for config in &resource.configs {
        let name = config.name.as_str();
        let setting = broker_settings::find(name);
        if setting.is_some_and(|setting| setting.read_only) {
            return refused(format!("Cannot update these configs dynamically: [{name}]"));
        }
        if setting.is_some_and(|setting| setting.kind == Kind::Password) {
            return refused(format!(
                "These security configs can be dynamically updated only per-listener using the listener prefix: [{name}]"
            ));
        }
        let value = config.value.as_deref().unwrap_or_default();
        match config.config_operation {
            DELETE => {
                altered.remove(name);
            }
            SET => {
                check(state, setting, name, value)?;
                altered.insert(name.to_owned(), value.to_owned());
            }
            operation => {
                let list = combined(setting, name, operation == APPEND, altered.get(name), value)?;
                altered.insert(name.to_owned(), list);
            }
        }
    }
    if dry {
        return Ok(());
    }
    if let Some(id) = broker {
        state.broker_settings.insert(id, altered);
        return Ok(());
    }
    // What was appended until now was rolled by the settings until now.
    let topics: Vec<String> = state.topics.keys().cloned().collect();
    for topic in topics {
        state.settle_segments(&topic);
    }
    state.options.cluster_settings = altered;
    Ok(())
}

fn combined(
    setting: Option<&BrokerSetting>,
    name: &str,
    append: bool,
    now: Option<&String>,
    value: &str,
) -> Result<String, Refused> {
    let word = if append { "APPEND" } else { "SUBTRACT" };
    if setting.is_none_or(|setting| setting.kind != Kind::List) {
        return refused(format!("Can't {word} to key {name} because its type is not LIST."));
    }
    let default = setting.and_then(|setting| setting.default).unwrap_or_default();
    let now = now.map_or(default, String::as_str);
    let mut list: Vec<&str> = now.split(',').filter(|item| !item.is_empty()).collect();
    for item in value.split(',').filter(|item| !item.is_empty()) {
        list.retain(|known| *known != item);
        if append {
            list.push(item);
        }
    }
    Ok(list.join(","))
}

/// Whether a setting may have this value. What nobody knows may have any.
fn check(
    state: &State,
    setting: Option<&BrokerSetting>,
    name: &str,
    value: &str,
) -> Result<(), Refused> {
    let version = state.options.version;
    if let Some(of_topics) = configs::behind(version, name) {
        // The limits are those of the topics' setting.
        return configs::check(version, of_topics.name, Some(value))
            .map_err(|message| (INVALID_REQUEST, message.replacen(of_topics.name, name, 1)));
    }
    let trimmed = value.trim();
    let (right, kind) = match setting.map(|setting| setting.kind) {
        Some(Kind::Int) => (trimmed.parse::<i32>().is_ok(), "INT"),
        Some(Kind::Short) => (trimmed.parse::<i16>().is_ok(), "SHORT"),
        Some(Kind::Long) => (trimmed.parse::<i64>().is_ok(), "LONG"),
        Some(Kind::Double) => (trimmed.parse::<f64>().is_ok(), "DOUBLE"),
        Some(Kind::Boolean) if trimmed != "true" && trimmed != "false" => {
            return refused(format!(
                "Invalid value {value} for configuration {name}: Expected value to be either true or false"
            ));
        }
        _ => return Ok(()),
    };
    if right {
        return Ok(());
    }
    refused(format!("Invalid value {value} for configuration {name}: Not a number of type {kind}"))
}
