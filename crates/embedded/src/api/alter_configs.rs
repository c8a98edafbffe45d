//! `AlterConfigs`: all settings of a topic at once; what is not named falls back to its default.

use std::collections::BTreeMap;

use twinlog_protocol::messages::alter_configs_request::AlterConfigsResource;
use twinlog_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use twinlog_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse, string};

use crate::code::{INVALID_REQUEST, NONE, UNKNOWN_TOPIC_OR_PARTITION};
use crate::configs;
use crate::server::Call;
use crate::state::State;

/// Kafka's number for topics among the things that have settings.
const TOPIC: i8 = 2;
/// The operation of `IncrementalAlterConfigs` that sets a value.
const SET: i8 = 0;

pub(crate) fn alter_configs(call: &Call, request: &AlterConfigsRequest) -> AlterConfigsResponse {
    let responses = call.cluster.with(|state| {
        let mut responses = Vec::new();
        for resource in &request.resources {
            let out = AlterConfigsResourceResponse::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
                .with_error_message(None);
            responses.push(match replace(call, state, resource, request.validate_only) {
                Ok(()) => out.with_error_code(NONE),
                Err((code, message)) => {
                    out.with_error_code(code).with_error_message(message.as_deref().map(string))
                }
            });
        }
        state.changed = true;
        responses
    });
    AlterConfigsResponse::default().with_responses(responses)
}

fn replace(
    call: &Call,
    state: &mut State,
    resource: &AlterConfigsResource,
    dry: bool,
) -> Result<(), (i16, Option<String>)> {
    if let Some(code) = call.refused(&resource.resource_name, -1) {
        return Err((code, None));
    }
    if resource.resource_type != TOPIC {
        return Err((INVALID_REQUEST, Some("only topics have settings here".to_owned())));
    }
    let names = resource.configs.iter().map(|config| config.name.as_str());
    configs::check_change(&resource.resource_name, names)?;
    state.settle_segments(&resource.resource_name);
    let options = state.options.clone();
    let topic = state.topics.get_mut(resource.resource_name.as_str()).ok_or_else(|| {
        let message = format!("The topic '{}' does not exist.", resource.resource_name.as_str());
        (UNKNOWN_TOPIC_OR_PARTITION, Some(message))
    })?;
    let mut replaced = BTreeMap::new();
    for config in &resource.configs {
        configs::alter(&mut replaced, &options, &config.name, SET, config.value.as_deref())?;
    }
    if !dry {
        topic.configs = replaced;
    }
    Ok(())
}
