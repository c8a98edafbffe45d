//! `DescribeConfigs` and `IncrementalAlterConfigs` for topics. Brokers have no settings to show.

use twinlog_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use twinlog_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use twinlog_protocol::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, StrBytes, describe_configs_request,
    incremental_alter_configs_request, string,
};

use crate::code::{INVALID_REQUEST, NONE, UNKNOWN_TOPIC_OR_PARTITION};
use crate::configs;
use crate::server::Call;
use crate::state::State;

/// Kafka's number for topics among the things that have settings.
const TOPIC: i8 = 2;
/// Kafka's number for brokers.
const BROKER: i8 = 4;

pub(crate) fn describe_configs(
    call: &Call,
    request: &DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let results = call.cluster.with(|state| {
        let resource = |resource: &describe_configs_request::DescribeConfigsResource| {
            let out = DescribeConfigsResult::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
                .with_error_message(None);
            if let Some(code) = call.refused(&resource.resource_name, -1) {
                return out.with_error_code(code);
            }
            match resource.resource_type {
                TOPIC => {}
                BROKER => return out,
                _ => return out.with_error_code(INVALID_REQUEST),
            }
            match described(call, state, resource, request.include_synonyms) {
                Some(configs) => out.with_configs(configs),
                None => out.with_error_code(UNKNOWN_TOPIC_OR_PARTITION).with_error_message(Some(
                    StrBytes::from_static_str("This server does not host this topic-partition."),
                )),
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
            .is_none_or(|keys| keys.iter().any(|key| key.as_str() == name))
    };
    let entry = |setting: configs::Setting| {
        let value = string(&configs::value(set, &state.options, setting.name));
        let source = if set.contains_key(setting.name) {
            1
        } else {
            setting.default_source(state.options.version)
        };
        let mut out = DescribeConfigsResourceResult::default()
            .with_name(StrBytes::from_static_str(setting.name))
            .with_value(Some(value.clone()))
            .with_config_source(source)
            .with_documentation(None);
        if call.version >= 3 {
            out = out.with_config_type(setting.kind as i8);
        }
        if synonyms {
            let synonym = DescribeConfigsSynonym::default()
                .with_name(StrBytes::from_static_str(setting.name))
                .with_value(Some(value))
                .with_source(source);
            out = out.with_synonyms(vec![synonym]);
        }
        out
    };
    let settings = configs::settings(state.options.version).into_iter();
    Some(settings.filter(|setting| wanted(setting.name)).map(entry).collect())
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
                    out.with_error_code(code).with_error_message(Some(string(&message)))
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
) -> Result<(), (i16, String)> {
    if let Some(code) = call.refused(&resource.resource_name, -1) {
        return Err((code, String::new()));
    }
    if resource.resource_type != TOPIC {
        return Err((INVALID_REQUEST, "only topics have settings here".to_owned()));
    }
    state.settle_segments(&resource.resource_name);
    let options = state.options.clone();
    let topic = state.topics.get_mut(resource.resource_name.as_str()).ok_or_else(|| {
        (UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.".to_owned())
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
