//! `CreateTopics`, `CreatePartitions`, `DeleteTopics`.

use std::collections::BTreeMap;

use twinlog_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use twinlog_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use twinlog_protocol::messages::delete_topics_response::DeletableTopicResult;
use twinlog_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, StrBytes, TopicName, Uuid,
    create_partitions_request, create_topics_request, string, topic_name,
};

use super::id;
use crate::code::{
    INVALID_CONFIG, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION, NONE, POLICY_VIOLATION, TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION, text,
};
use crate::configs;
use crate::options::PARTITIONS_MAX;
use crate::partition::Partition;
use crate::placement::{self, Refused};
use crate::server::Call;
use crate::state::State;

/// What is wrong with a topic that a request names twice.
const DUPLICATE_NAME: StrBytes = StrBytes::from_static_str("Duplicate topic name.");
/// The longest topic name.
const NAME_MAX: usize = 249;

impl State {
    /// Makes a topic with all checks; with `dry` only the checks run (and the id is void).
    pub(crate) fn make_topic(
        &mut self,
        name: &str,
        partitions: i32,
        replication: i16,
        configs: &[(String, Option<String>)],
        dry: bool,
    ) -> Result<[u8; 16], (i16, String)> {
        check_name(name)?;
        if self.topics.contains_key(name) {
            return Err((TOPIC_ALREADY_EXISTS, format!("Topic '{name}' already exists.")));
        }
        // Only dots and underscores can be taken for one another.
        let may_collide = name.contains(['.', '_']);
        let collides = |known: &&String| may_collide && collide(known, name);
        if let Some(other) = self.topics.keys().find(collides) {
            return Err((
                INVALID_TOPIC_EXCEPTION,
                format!("Topic '{name}' collides with existing topic: {other}"),
            ));
        }
        let mut set = BTreeMap::new();
        for (key, value) in configs {
            configs::check(self.options.version, key, value.as_deref())
                .map_err(|message| (INVALID_CONFIG, message))?;
            set.insert(key.clone(), value.clone().unwrap_or_default());
        }
        if replication < -1 || replication == 0 {
            let message =
                "Replication factor must be larger than 0, or -1 to use the default value.";
            return Err((INVALID_REPLICATION_FACTOR, message.to_owned()));
        }
        let partitions =
            if partitions == -1 { self.options.default_partitions } else { partitions };
        if partitions < 1 {
            let message = "Number of partitions was set to an invalid non-positive value.";
            return Err((INVALID_PARTITIONS, message.to_owned()));
        }
        if partitions > PARTITIONS_MAX {
            let message = "Excessively large number of partitions per request.".to_owned();
            return Err((POLICY_VIOLATION, message));
        }
        self.check_replication(replication)?;
        if dry {
            return Ok(self.random.id()); // Kafka too answers an id that will never be
        }
        self.create_topic(name, partitions, replication, set)
    }
}

/// Whether two names are alike in the names of metrics (`Topic.hasCollision`).
fn collide(one: &str, other: &str) -> bool {
    let seen = |byte: u8| if byte == b'.' { b'_' } else { byte };
    one.len() == other.len() && one.bytes().map(seen).eq(other.bytes().map(seen))
}

/// Whether a topic may have this name (`Topic.validate`).
pub(crate) fn check_name(name: &str) -> Refused {
    let why = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if name == "." || name == ".." {
        format!("'{name}' is not allowed")
    } else if name.len() > NAME_MAX {
        format!("the length of '{name}' is longer than the max allowed length {NAME_MAX}")
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')) {
        format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    } else {
        return Ok(());
    };
    Err((INVALID_TOPIC_EXCEPTION, format!("Topic name is invalid: {why}")))
}

pub(crate) fn create_topics(call: &Call, request: &CreateTopicsRequest) -> CreateTopicsResponse {
    let topics = call.cluster.with(|state| {
        let mut results = Vec::new();
        for topic in &request.topics {
            let twice = request.topics.iter().filter(|other| other.name == topic.name).count() > 1;
            if !twice {
                results.push(create(call, state, topic, request.validate_only));
            } else if results.iter().all(|out: &CreatableTopicResult| out.name != topic.name) {
                let out = unmade(call, topic).with_error_code(INVALID_REQUEST);
                results.push(out.with_error_message(Some(DUPLICATE_NAME)));
            }
        }
        results
    });
    CreateTopicsResponse::default().with_topics(topics)
}

/// The answer for a topic that is not made.
fn unmade(call: &Call, topic: &create_topics_request::CreatableTopic) -> CreatableTopicResult {
    let out =
        CreatableTopicResult::default().with_name(topic.name.clone()).with_error_message(None);
    if call.version < 5 {
        return out;
    }
    out.with_configs(Some(Vec::new())).with_num_partitions(-1).with_replication_factor(-1)
}

fn create(
    call: &Call,
    state: &mut State,
    topic: &create_topics_request::CreatableTopic,
    validate_only: bool,
) -> CreatableTopicResult {
    let out = unmade(call, topic);
    if let Some(code) = call.refused(&topic.name, -1) {
        return out.with_error_code(code);
    }
    let configs: Vec<(String, Option<String>)> = topic
        .configs
        .iter()
        .map(|config| {
            (config.name.to_string(), config.value.as_ref().map(std::string::ToString::to_string))
        })
        .collect();
    let placed = match placement::asked(state, topic) {
        Ok(placed) => placed,
        Err((code, message)) => {
            // What is wrong with the name or the settings is said first.
            let first = state.make_topic(&topic.name, 1, 1, &configs, true).err();
            let (code, message) = first.unwrap_or((code, message));
            return out.with_error_code(code).with_error_message(Some(string(&message)));
        }
    };
    let (partitions, replication) = match placed.first() {
        Some(first) => (placed.len() as i32, first.len() as i16),
        None => (topic.num_partitions, topic.replication_factor),
    };
    match state.make_topic(&topic.name, partitions, replication, &configs, validate_only) {
        Err((code, message)) => {
            out.with_error_code(code).with_error_message(Some(string(&message)))
        }
        Ok(topic_id) => {
            if let Some(made) = state.topics.get_mut(topic.name.as_str()) {
                for (partition, brokers) in made.partitions.iter_mut().zip(&placed) {
                    *partition = Partition::new(brokers);
                }
            }
            let out =
                if call.version >= 7 { out.with_topic_id(Uuid::from_bytes(topic_id)) } else { out };
            let out = match call.disowned(&topic.name, -1) {
                Some(code) => out.with_error_code(code),
                None => out,
            };
            if call.version < 5 {
                return out;
            }
            let or_default = |asked: i32, default: i32| if asked == -1 { default } else { asked };
            let count = or_default(partitions, state.options.default_partitions);
            let default = i32::from(state.options.default_replication);
            let replicas = or_default(i32::from(replication), default) as i16;
            let set: BTreeMap<String, String> = configs
                .into_iter()
                .map(|(name, value)| (name, value.unwrap_or_default()))
                .collect();
            out.with_num_partitions(count)
                .with_replication_factor(replicas)
                .with_configs(Some(described(state, &set)))
        }
    }
}

fn described(state: &State, set: &BTreeMap<String, String>) -> Vec<CreatableTopicConfigs> {
    let entry = |setting: configs::Setting| {
        let source =
            if set.contains_key(setting.name) { 1 } else { setting.default_source(&state.options) };
        CreatableTopicConfigs::default()
            .with_name(StrBytes::from_static_str(setting.name))
            .with_value(Some(string(&configs::value(set, &state.options, setting.name))))
            .with_config_source(source)
    };
    configs::settings(state.options.version).into_iter().map(entry).collect()
}

pub(crate) fn create_partitions(
    call: &Call,
    request: &CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let results = call.cluster.with(|state| {
        let mut results = Vec::new();
        for topic in &request.topics {
            let out = CreatePartitionsTopicResult::default()
                .with_name(topic.name.clone())
                .with_error_message(None);
            let twice = request.topics.iter().filter(|other| other.name == topic.name).count() > 1;
            if twice {
                if results.iter().all(|out: &CreatePartitionsTopicResult| out.name != topic.name) {
                    let out = out.with_error_code(INVALID_REQUEST);
                    results.push(out.with_error_message(Some(DUPLICATE_NAME)));
                }
                continue;
            }
            results.push(match grow(call, state, topic, request.validate_only) {
                Ok(()) => out.with_error_code(call.disowned(&topic.name, -1).unwrap_or(NONE)),
                Err((code, message)) => {
                    out.with_error_code(code).with_error_message(message.as_deref().map(string))
                }
            });
        }
        results
    });
    CreatePartitionsResponse::default().with_results(results)
}

fn grow(
    call: &Call,
    state: &mut State,
    asked: &create_partitions_request::CreatePartitionsTopic,
    dry: bool,
) -> Result<(), (i16, Option<String>)> {
    let (name, count) = (asked.name.as_str(), asked.count);
    if let Some(code) = call.refused(name, -1) {
        return Err((code, None));
    }
    let Some(topic) = state.topics.get(name) else {
        return Err((UNKNOWN_TOPIC_OR_PARTITION, None));
    };
    let now = topic.partitions.len() as i32;
    if count == now {
        return Err((INVALID_PARTITIONS, Some(format!("Topic already has {now} partition(s)."))));
    }
    if count < now {
        let message = format!(
            "The topic {name} currently has {now} partition(s); {count} would not be an increase."
        );
        return Err((INVALID_PARTITIONS, Some(message)));
    }
    if count - now > PARTITIONS_MAX {
        let message = "Excessively large number of partitions per request.".to_owned();
        return Err((POLICY_VIOLATION, Some(message)));
    }
    let replicas = topic.partitions.first().map_or(1, |partition| partition.replicas.len());
    let placed = placement::asked_more(state, asked, (count - now) as usize, replicas)
        .map_err(|(code, message)| (code, Some(message)))?;
    if !dry {
        state.grow_topic(name, count as usize);
        if let Some(topic) = state.topics.get_mut(name) {
            for (partition, brokers) in topic.partitions[now as usize..].iter_mut().zip(&placed) {
                *partition = Partition::new(brokers);
            }
        }
    }
    Ok(())
}

pub(crate) fn delete_topics(call: &Call, request: &DeleteTopicsRequest) -> DeleteTopicsResponse {
    let by_name = request.topic_names.iter().map(|name| (Some(name.clone()), Uuid::nil()));
    let by_state = request.topics.iter().map(|topic| (topic.name.clone(), topic.topic_id));
    let asked: Vec<(Option<TopicName>, Uuid)> = by_name.chain(by_state).collect();
    let responses = call.cluster.with(|state| {
        let mut responses = Vec::new();
        for (index, (name, uuid)) in asked.iter().enumerate() {
            let same = |other: &(Option<TopicName>, Uuid)| other == &(name.clone(), *uuid);
            let refused = match name {
                Some(_) if !uuid.is_nil() => {
                    Some("You may not specify both topic name and topic id.")
                }
                None if uuid.is_nil() => Some("Neither topic name nor id were specified."),
                Some(_) if asked.iter().filter(|other| same(other)).count() > 1 => {
                    Some("Duplicate topic name.")
                }
                None if asked.iter().filter(|other| same(other)).count() > 1 => {
                    Some("Duplicate topic id.")
                }
                _ => None,
            };
            match refused {
                // What is named twice is answered once.
                Some(_) if asked[..index].iter().any(same) => {}
                Some(message) => responses.push(undeleted(
                    call,
                    (name.clone(), *uuid),
                    INVALID_REQUEST,
                    Some(message),
                )),
                None => responses.push(delete(call, state, (name.clone(), *uuid))),
            }
        }
        responses
    });
    DeleteTopicsResponse::default().with_responses(responses)
}

/// The answer for a topic that is not deleted.
fn undeleted(
    call: &Call,
    (name, uuid): (Option<TopicName>, Uuid),
    code: i16,
    message: Option<&'static str>,
) -> DeletableTopicResult {
    DeletableTopicResult::default()
        .with_name(name)
        .with_topic_id(if call.version >= 6 { uuid } else { Uuid::nil() })
        .with_error_code(code)
        .with_error_message(message.filter(|_| call.version >= 5).map(StrBytes::from_static_str))
}

fn delete(
    call: &Call,
    state: &mut State,
    (name, uuid): (Option<TopicName>, Uuid),
) -> DeletableTopicResult {
    let known = match state.resolve(&name.clone().unwrap_or_default(), id(uuid)) {
        Ok(known) => known,
        Err(UNKNOWN_TOPIC_ID) => {
            return undeleted(call, (name, uuid), UNKNOWN_TOPIC_ID, text(UNKNOWN_TOPIC_ID));
        }
        Err(_) => {
            let code = UNKNOWN_TOPIC_OR_PARTITION;
            return undeleted(call, (name, uuid), code, text(code));
        }
    };
    let uuid = Uuid::from_bytes(state.topics[&known].id);
    let out = undeleted(call, (Some(topic_name(&known)), uuid), NONE, None);
    if let Some(code) = call.refused(&known, -1) {
        return out.with_error_code(code);
    }
    state.delete_topic(&known);
    out.with_error_code(call.disowned(&known, -1).unwrap_or(NONE))
}
