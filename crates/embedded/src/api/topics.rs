//! `CreateTopics`, `CreatePartitions`, `DeleteTopics`.

use std::collections::BTreeMap;

use twinlog_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use twinlog_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use twinlog_protocol::messages::delete_topics_response::DeletableTopicResult;
use twinlog_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, StrBytes, Uuid, create_topics_request, string,
    topic_name,
};

use super::id;
use crate::code::{
    INVALID_CONFIG, INVALID_PARTITIONS, INVALID_TOPIC_EXCEPTION, NONE, POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
};
use crate::configs;
use crate::server::Call;
use crate::state::State;

/// The controller's limit of new partitions in one request.
const PARTITIONS_MAX: i32 = 10_000;
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
        let collides = |known: &&String| known.replace('.', "_") == name.replace('.', "_");
        if let Some(other) = self.topics.keys().find(collides) {
            return Err((
                INVALID_TOPIC_EXCEPTION,
                format!("Topic '{name}' collides with existing topic: {other}"),
            ));
        }
        let partitions =
            if partitions == -1 { self.options.default_partitions } else { partitions };
        if partitions < 1 {
            return Err((
                INVALID_PARTITIONS,
                "Number of partitions must be larger than 0.".to_owned(),
            ));
        }
        if partitions > PARTITIONS_MAX {
            let message = "Excessively large number of partitions per request.".to_owned();
            return Err((POLICY_VIOLATION, message));
        }
        let mut set = BTreeMap::new();
        for (key, value) in configs {
            configs::check(self.options.version, key, value.as_deref())
                .map_err(|message| (INVALID_CONFIG, message))?;
            set.insert(key.clone(), value.clone().unwrap_or_default());
        }
        if dry {
            return Ok([0; 16]);
        }
        self.create_topic(name, partitions, replication, set)
    }
}

fn check_name(name: &str) -> Result<(), (i16, String)> {
    let refuse =
        |why: &str| Err((INVALID_TOPIC_EXCEPTION, format!("Topic name is invalid: {why}")));
    if name.is_empty() {
        return refuse("the empty string is not allowed");
    }
    if name == "." || name == ".." {
        return refuse("'.' or '..' is not allowed");
    }
    if name.len() > NAME_MAX {
        return refuse("the length is longer than the max allowed length 249");
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.chars().all(legal) {
        Ok(())
    } else {
        refuse("contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
    }
}

pub(crate) fn create_topics(call: &Call, request: &CreateTopicsRequest) -> CreateTopicsResponse {
    let topics = call.cluster.with(|state| {
        let mut results = Vec::new();
        for topic in &request.topics {
            results.push(create(call, state, topic, request.validate_only));
        }
        results
    });
    CreateTopicsResponse::default().with_topics(topics)
}

fn create(
    call: &Call,
    state: &mut State,
    topic: &create_topics_request::CreatableTopic,
    validate_only: bool,
) -> CreatableTopicResult {
    let mut out =
        CreatableTopicResult::default().with_name(topic.name.clone()).with_error_message(None);
    if call.version >= 5 {
        out =
            out.with_configs(Some(Vec::new())).with_num_partitions(-1).with_replication_factor(-1);
    }
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
    // Assignments are taken as numbers only: replicas go where this cluster places them.
    let (partitions, replication) = match topic.assignments.first() {
        Some(first) => (topic.assignments.len() as i32, first.broker_ids.len() as i16),
        None => (topic.num_partitions, topic.replication_factor),
    };
    match state.make_topic(&topic.name, partitions, replication, &configs, validate_only) {
        Err((code, message)) => {
            out.with_error_code(code).with_error_message(Some(string(&message)))
        }
        Ok(topic_id) => {
            let out =
                if call.version >= 7 { out.with_topic_id(Uuid::from_bytes(topic_id)) } else { out };
            let out = match call.disowned(&topic.name, -1) {
                Some(code) => out.with_error_code(code),
                None => out,
            };
            if call.version < 5 {
                return out;
            }
            let (count, replicas) =
                state.topics.get(topic.name.as_str()).map_or((partitions, replication), |made| {
                    let replicas =
                        made.partitions.first().map_or(0, |partition| partition.replicas.len());
                    (made.partitions.len() as i32, replicas as i16)
                });
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
        let source = if set.contains_key(setting.name) {
            1
        } else {
            setting.default_source(state.options.version)
        };
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
            results.push(
                match grow(call, state, &topic.name, topic.count, request.validate_only) {
                    Ok(()) => out.with_error_code(call.disowned(&topic.name, -1).unwrap_or(NONE)),
                    Err((code, message)) => {
                        out.with_error_code(code).with_error_message(message.as_deref().map(string))
                    }
                },
            );
        }
        results
    });
    CreatePartitionsResponse::default().with_results(results)
}

fn grow(
    call: &Call,
    state: &mut State,
    name: &str,
    count: i32,
    dry: bool,
) -> Result<(), (i16, Option<String>)> {
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
    if !dry {
        state.grow_topic(name, count as usize);
    }
    Ok(())
}

pub(crate) fn delete_topics(call: &Call, request: &DeleteTopicsRequest) -> DeleteTopicsResponse {
    let responses = call.cluster.with(|state| {
        let by_name = request.topic_names.iter().map(|name| (Some(name.clone()), Uuid::nil()));
        let by_state = request.topics.iter().map(|topic| (topic.name.clone(), topic.topic_id));
        let mut responses = Vec::new();
        for (name, uuid) in by_name.chain(by_state) {
            let asked = name.clone().unwrap_or_default();
            let resolved = state.resolve(&asked, id(uuid)).map_err(|code| {
                if code == UNKNOWN_TOPIC_ID { UNKNOWN_TOPIC_ID } else { UNKNOWN_TOPIC_OR_PARTITION }
            });
            let mut out = DeletableTopicResult::default().with_name(name).with_error_message(None);
            match resolved {
                Err(code) => out = out.with_error_code(code).with_topic_id(uuid),
                Ok(known) => {
                    out = out.with_name(Some(topic_name(&known)));
                    if call.version >= 6 {
                        out = out.with_topic_id(Uuid::from_bytes(state.topics[&known].id));
                    }
                    if let Some(code) = call.refused(&known, -1) {
                        out = out.with_error_code(code);
                    } else {
                        state.delete_topic(&known);
                        out = out.with_error_code(call.disowned(&known, -1).unwrap_or(NONE));
                    }
                }
            }
            responses.push(out);
        }
        responses
    });
    DeleteTopicsResponse::default().with_responses(responses)
}
