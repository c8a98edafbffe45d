//! `DescribeClientQuotas`, `AlterClientQuotas`, and what quotas do to `Produce` and `Fetch`.

use std::time::Duration;

use twinlog_protocol::messages::describe_client_quotas_request::ComponentData;
use twinlog_protocol::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse, FetchRequest, FetchResponse, ProduceRequest, ProduceResponse,
    StrBytes, alter_client_quotas_request, alter_client_quotas_response,
    describe_client_quotas_response, string,
};

use crate::code::{INVALID_REQUEST, NONE, UNSUPPORTED_VERSION};
use crate::quotas::{CLIENT, Entity, Limited, USER};
use crate::server::Call;

const IP: &str = "ip";
/// How a component of a filter matches.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;

/// Counts bytes, and mutes the connection where that is too many.
fn charge(call: &Call, limited: Limited, bytes: usize) -> Option<Duration> {
    let user = call.peer.principal.split_once(':').map_or("", |(_, name)| name);
    let client = call.client_id.as_deref().unwrap_or_default();
    let throttle = call
        .cluster
        .with(|state| state.quotas.charge(call.broker, limited, (user, client), bytes))?;
    call.mute(throttle);
    Some(throttle)
}

fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

/// Serves a Produce. Under a quota it is done and answered at once, and the next request waits.
pub(crate) async fn produce(call: &Call, request: ProduceRequest) -> Option<ProduceResponse> {
    let partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let bytes =
        partitions.filter_map(|partition| Some(partition.records.as_ref()?.len())).sum::<usize>();
    let response = super::produce::produce(call, request).await;
    let throttle = charge(call, Limited::Produce, bytes);
    let response = response?;
    Some(match throttle {
        Some(time) => {
            let time = millis(time).max(response.throttle_time_ms);
            response.with_throttle_time_ms(time)
        }
        None => response,
    })
}

/// Serves a Fetch. Under a quota the answer is empty, which does not mean that there is nothing.
pub(crate) async fn fetch(call: &Call, request: FetchRequest) -> Option<FetchResponse> {
    let response = super::fetch::fetch(call, request).await?;
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let bytes =
        partitions.filter_map(|partition| Some(partition.records.as_ref()?.len())).sum::<usize>();
    Some(match charge(call, Limited::Fetch, bytes) {
        Some(time) => {
            let empty = FetchResponse::default().with_throttle_time_ms(millis(time));
            if call.version >= 7 {
                // The session lives on.
                empty.with_session_id(response.session_id).with_error_code(response.error_code)
            } else {
                empty
            }
        }
        None => response,
    })
}

pub(crate) fn describe_client_quotas(
    call: &Call,
    request: &DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    use describe_client_quotas_response::{EntityData, EntryData, ValueData};
    let out = DescribeClientQuotasResponse::default().with_error_message(None);
    let refusal = match call.refused("", -1) {
        Some(code) => Some((code, None)),
        None => check(&request.components).err().map(|(code, why)| (code, Some(string(&why)))),
    };
    if let Some((code, message)) = refusal {
        return out.with_error_code(code).with_error_message(message).with_entries(None);
    }
    let selects = |entity: &Entity| {
        (!request.strict || entity.len() == request.components.len())
            && request.components.iter().all(|component| selects(component, entity))
    };
    let entries = call.cluster.with(|state| {
        let entry = |(entity, values): (&Entity, &std::collections::BTreeMap<String, f64>)| {
            let entity = entity.iter().map(|(kind, name)| {
                EntityData::default()
                    .with_entity_type(string(kind))
                    .with_entity_name(name.as_deref().map(string))
            });
            let values = values
                .iter()
                .map(|(key, &value)| ValueData::default().with_key(string(key)).with_value(value));
            EntryData::default().with_entity(entity.collect()).with_values(values.collect())
        };
        state.quotas.iter().filter(|(entity, _)| selects(entity)).map(entry).collect()
    });
    out.with_error_code(NONE)
        .with_error_message(Some(StrBytes::default()))
        .with_entries(Some(entries))
}

/// What `ClientQuotasImage.describe` refuses.
fn check(components: &[ComponentData]) -> Result<(), (i16, String)> {
    for (index, component) in components.iter().enumerate() {
        let kind = component.entity_type.as_str();
        let invalid = |why: String| Err((INVALID_REQUEST, why));
        if kind.is_empty() {
            return invalid("Invalid empty entity type.".to_owned());
        }
        if components[..index].iter().any(|other| other.entity_type == component.entity_type) {
            return invalid(format!(
                "Entity type {kind} cannot appear more than once in the filter."
            ));
        }
        match component.match_type {
            EXACT if component._match.is_none() => {
                return invalid(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null.".to_owned(),
                );
            }
            DEFAULT | ANY if component._match.is_some() => {
                return invalid(format!(
                    "Request specified {}, but also specified a match string.",
                    if component.match_type == DEFAULT {
                        "MATCH_TYPE_DEFAULT"
                    } else {
                        "MATCH_TYPE_SPECIFIED"
                    }
                ));
            }
            EXACT | DEFAULT | ANY => {}
            other => return invalid(format!("Unknown match type {other}")),
        }
    }
    let known = |kind: &str| matches!(kind, USER | CLIENT | IP);
    match components.iter().find(|component| !known(&component.entity_type)) {
        None => Ok(()),
        Some(component) => {
            let kind = component.entity_type.as_str();
            Err((UNSUPPORTED_VERSION, format!("Unsupported entity type {kind}")))
        }
    }
}

fn selects(component: &ComponentData, entity: &Entity) -> bool {
    let Some(name) = entity.get(component.entity_type.as_str()) else { return false };
    match component.match_type {
        EXACT => name.as_deref() == component._match.as_deref(),
        DEFAULT => name.is_none(),
        _ => true,
    }
}

pub(crate) fn alter_client_quotas(
    call: &Call,
    request: &AlterClientQuotasRequest,
) -> AlterClientQuotasResponse {
    use alter_client_quotas_response::{EntityData, EntryData};
    let entries = call.cluster.with(|state| {
        let mut entries = Vec::new();
        for wanted in &request.entries {
            let entity = wanted.entity.iter().map(|part| {
                EntityData::default()
                    .with_entity_type(part.entity_type.clone())
                    .with_entity_name(part.entity_name.clone())
            });
            let out = EntryData::default().with_error_message(None).with_entity(entity.collect());
            let result = match call.refused("", -1) {
                Some(code) => Err((code, String::new())),
                None => altered(wanted).map_err(|message| (INVALID_REQUEST, message)),
            };
            entries.push(match result {
                Ok((entity, changes)) => {
                    if !request.validate_only {
                        state.quotas.alter(&entity, &changes);
                    }
                    out.with_error_code(NONE)
                }
                Err((code, message)) => {
                    out.with_error_code(code).with_error_message(Some(string(&message)))
                }
            });
        }
        entries
    });
    AlterClientQuotasResponse::default().with_entries(entries)
}

type Change = (Entity, Vec<(String, Option<f64>)>);

/// What is to be changed (`ClientQuotaControlManager`).
fn altered(wanted: &alter_client_quotas_request::EntryData) -> Result<Change, String> {
    let mut entity = Entity::new();
    for part in &wanted.entity {
        let kind = part.entity_type.as_str();
        if ![USER, CLIENT, IP].contains(&kind) {
            return Err(format!("Unhandled client quota entity type: {kind}"));
        }
        if part.entity_name.as_ref().is_some_and(|name| name.is_empty()) {
            return Err(format!("Empty {kind} not supported"));
        }
        entity.insert(kind.to_owned(), part.entity_name.as_ref().map(ToString::to_string));
    }
    if entity.is_empty() {
        return Err("Invalid empty client quota entity".to_owned());
    }
    if entity.contains_key(IP) && entity.len() > 1 {
        return Err("Invalid quota entity combination".to_owned());
    }
    let keys: &[(&str, bool)] = if entity.contains_key(IP) {
        &[("connection_creation_rate", true)]
    } else {
        &[
            ("consumer_byte_rate", true),
            ("controller_mutation_rate", false),
            ("producer_byte_rate", true),
            ("request_percentage", false),
        ]
    };
    let mut changes = Vec::new();
    for op in &wanted.ops {
        let key = op.key.as_str();
        let Some(&(_, whole)) = keys.iter().find(|(known, _)| *known == key) else {
            return Err(format!("Invalid configuration key {key}"));
        };
        if op.remove {
            changes.push((key.to_owned(), None));
            continue;
        }
        if op.value.is_nan() || op.value <= 0.0 {
            return Err(format!("Quota {key} must be greater than 0"));
        }
        if whole && op.value.fract() != 0.0 {
            return Err(format!("{key} cannot be a fractional value."));
        }
        changes.push((key.to_owned(), Some(op.value)));
    }
    Ok((entity, changes))
}
