//! `DescribeConfigs` and `IncrementalAlterConfigs`; here for topics, in `broker_configs` for brokers.

use std::collections::BTreeMap;

use twinlog_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use twinlog_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use twinlog_protocol::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, StrBytes, describe_configs_request,
    incremental_alter_configs_request, string,
};

use super::broker_configs;
use super::topics::check_name;
use crate::code::{INVALID_REQUEST, NONE, UNKNOWN_TOPIC_OR_PARTITION, text};
use crate::configs;
use crate::server::Call;
use crate::state::State;

/// Kafka's number for topics among the things that have settings.
const TOPIC: i8 = 2;
/// Kafka's number for brokers.
const BROKER: i8 = 4;
/// Kafka's numbers for where a value comes from.
const FROM_TOPIC: i8 = 1;
const FROM_BROKERS: i8 = 3;
const FROM_BROKER: i8 = 4;
const FROM_KAFKA: i8 = 5;

pub(crate) fn describe_configs(
    call: &Call,
    request: &DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let results = call.cluster.with(|state| {
        let resource = |resource: &describe_configs_request::DescribeConfigsResource| {
            let out = DescribeConfigsResult::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
                .with_error_message(Some(StrBytes::default()));
            if let Some(code) = call.refused(&resource.resource_name, -1) {
                return out.with_error_code(code);
            }
            match resource.resource_type {
                TOPIC => {}
                BROKER => {
                    let keys = resource.configuration_keys.as_ref();
                    let wanted = |name: &str| {
                        keys.is_none_or(|keys| {
                            keys.is_empty() || keys.iter().any(|key| key.as_str() == name)
                        })
                    };
                    let (name, synonyms) = (&resource.resource_name, request.include_synonyms);
                    return match broker_configs::describe(call, state, name, wanted, synonyms) {
                        Ok(configs) => out.with_configs(configs),
                        Err((code, message)) => {
                            out.with_error_code(code).with_error_message(Some(string(&message)))
                        }
                    };
                }
                _ => {
                    let out = out.with_error_code(INVALID_REQUEST);
                    return out
                        .with_error_message(text(INVALID_REQUEST).map(StrBytes::from_static_str));
                }
            }
            if let Err((code, message)) = check_name(&resource.resource_name) {
                return out.with_error_code(code).with_error_message(Some(string(&message)));
            }
            match described(call, state, resource, request.include_synonyms) {
                Some(configs) => out.with_configs(configs),
                None => out.with_error_code(UNKNOWN_TOPIC_OR_PARTITION),
            }
        };
        request.resources.iter().map(resource).collect()
    });
    DescribeConfigsResponse::default().with_results(results)
}

fn described(
    call: &Call,
    state: &State,
    resource: &describe_configs_request::DescribeConfigsResource,
    synonyms: bool,
) -> Option<Vec<DescribeConfigsResourceResult>> {
    let set = &state.topics.get(resource.resource_name.as_str())?.configs;
    let wanted = |name: &str| {
        resource
            .configuration_keys
            .as_ref()
            .is_none_or(|keys| keys.is_empty() || keys.iter().any(|key| key.as_str() == name))
    };
    let entry = |setting: configs::Setting| {
        let value = string(&configs::value(set, &state.options, setting.name));
        let source =
            if set.contains_key(setting.name) { 1 } else { setting.default_source(&state.options) };
        let mut out = DescribeConfigsResourceResult::default()
            .with_name(StrBytes::from_static_str(setting.name))
            .with_value(Some(value.clone()))
            .with_config_source(source)
            .with_documentation(None);
        if call.version >= 3 {
            out = out.with_config_type(setting.kind as i8);
        }
        if synonyms {
            out = out.with_synonyms(synonyms_of(state, set, setting));
        }
        out
    };
    let settings = configs::settings(state.options.version).into_iter();
    Some(settings.filter(|setting| wanted(setting.name)).map(entry).collect())
}

/// Where a value could come from, the strongest first: the topic, what the brokers share, each
/// broker, Kafka itself.
fn synonyms_of(
    state: &State,
    set: &BTreeMap<String, String>,
    setting: configs::Setting,
) -> Vec<DescribeConfigsSynonym> {
    let synonym = |name: &'static str, value: &str, source: i8| {
        DescribeConfigsSynonym::default()
            .with_name(StrBytes::from_static_str(name))
            .with_value(Some(string(value)))
            .with_source(source)
    };
    let mut synonyms = Vec::new();
    if let Some(value) = set.get(setting.name) {
        synonyms.push(synonym(setting.name, value, FROM_TOPIC));
    }
    let shared = state.options.cluster_settings.get(setting.behind());
    if let Some(value) = shared {
        synonyms.push(synonym(setting.behind(), value, FROM_BROKERS));
        // Of a time that can be said in several units the default is said in the coarsest one.
        let hours = match setting.name {
            "retention.ms" => Some("log.retention.hours"),
            "segment.ms" => Some("log.roll.hours"),
            _ => None,
        };
        if let Some(name) = hours {
            synonyms.push(synonym(name, "168", FROM_KAFKA));
        }
    }
    if setting.name == "min.insync.replicas" {
        let value = state.options.min_insync_replicas.to_string();
        synonyms.push(synonym(setting.name, &value, FROM_BROKER));
        synonyms.push(synonym(setting.name, "1", FROM_KAFKA));
    } else if setting.of_brokers().is_some() {
        synonyms.push(synonym(setting.behind(), &setting.built_in(&state.options), FROM_KAFKA));
    }
    synonyms
}

pub(crate) fn incremental_alter_configs(
    call: &Call,
    request: &IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let responses = call.cluster.with(|state| {
        let mut responses = Vec::new();
        for resource in &request.resources {
            let out = AlterConfigsResourceResponse::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
                .with_error_message(None);
            responses.push(match alter(call, state, resource, request.validate_only) {
                Ok(()) => {
                    out.with_error_code(call.disowned(&resource.resource_name, -1).unwrap_or(NONE))
                }
                Err((code, message)) => {
                    out.with_error_code(code).with_error_message(message.as_deref().map(string))
                }
            });
        }
        state.changed = true;
        responses
    });
    IncrementalAlterConfigsResponse::default().with_responses(responses)
}

fn alter(
    call: &Call,
    state: &mut State,
    resource: &incremental_alter_configs_request::AlterConfigsResource,
    dry: bool,
) -> Result<(), (i16, Option<String>)> {
    let refuse = |code: i16, message: &str| Err((code, Some(message.to_owned())));
    if let Some(code) = call.refused(&resource.resource_name, -1) {
        return refuse(code, "");
    }
    if resource.resource_type == BROKER {
        return broker_configs::alter(state, resource, dry)
            .map_err(|(code, message)| (code, Some(message)));
    }
    if resource.resource_type != TOPIC {
        return refuse(INVALID_REQUEST, "only topics and brokers have settings here");
    }
    let names = resource.configs.iter().map(|config| config.name.as_str());
    configs::check_change(&resource.resource_name, names)?;
    state.settle_segments(&resource.resource_name);
    let options = state.options.clone();
    let topic = state.topics.get_mut(resource.resource_name.as_str()).ok_or_else(|| {
        let message = format!("The topic '{}' does not exist.", resource.resource_name.as_str());
        (UNKNOWN_TOPIC_OR_PARTITION, Some(message))
    })?;
    // All changes of a resource or none of them.
    let mut altered = topic.configs.clone();
    for config in &resource.configs {
        configs::alter(
            &mut altered,
            &options,
            &config.name,
            config.config_operation,
            config.value.as_deref(),
        )?;
    }
    if !dry {
        topic.configs = altered;
    }
    Ok(())
}
