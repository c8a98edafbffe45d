//! `Produce`.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
    TopicProduceResponse,
};
use twinlog_protocol::messages::{
    BrokerId, ProduceRequest, ProduceResponse, TopicName, Uuid, produce_request, string,
};

use super::id;
use crate::code::{
    CONCURRENT_TRANSACTIONS, INVALID_REQUEST, INVALID_REQUIRED_ACKS, INVALID_TOPIC_EXCEPTION,
    INVALID_TXN_STATE, NONE, NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION,
    REQUEST_TIMED_OUT, TRANSACTION_ABORTABLE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
};
use crate::codec::Head;
use crate::configs;
use crate::producer_state::Verdict;
use crate::server::Call;
use crate::state::State;
use crate::validate::{self, Refusal, RefusalKind};

/// What is known of one partition of the request so far.
#[derive(Clone, Debug)]
struct Outcome {
    code: i16,
    base_offset: i64,
    log_append_time: i64,
    log_start: i64,
    message: Option<String>,
    records: Vec<(i32, String)>,
    leader: Option<(i32, i32)>,
    /// The high watermark that the answer waits for, and the epoch in which it was appended.
    waits: Option<(i64, i32)>,
}

impl Outcome {
    fn code(code: i16) -> Self {
        Self {
            code,
            base_offset: -1,
            log_append_time: -1,
            log_start: -1,
            message: None,
            records: Vec::new(),
            leader: None,
            waits: None,
        }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        let told = matches!(refusal.kind, RefusalKind::Unreadable | RefusalKind::Records);
        Self {
            message: told.then_some(refusal.message),
            records: refusal.records,
            ..Self::code(refusal.code)
        }
    }
}

/// One partition of the request.
struct Part {
    topic: Result<String, i16>,
    sent_name: TopicName,
    sent_id: Uuid,
    partition: i32,
    records: Option<bytes::Bytes>,
    outcome: Outcome,
}

pub(crate) async fn produce(call: &Call, request: ProduceRequest) -> Option<ProduceResponse> {
    let deadline =
        Instant::now() + Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let acks = request.acks;
    let transactional_id = request.transactional_id.as_ref().map(|id| id.to_string());
    let mut parts = call.cluster.with(|state| split(state, request.topic_data));
    if parts.iter().any(|part| part.records.is_none()) {
        call.cluster
            .with(|state| state.violation("a Produce request with null records".to_owned()));
        return None; // 4.3 throws inside and never answers
    }
    call.cluster.with(|state| execute(call, state, acks, transactional_id.as_deref(), &mut parts));
    if parts.iter().any(|part| part.outcome.waits.is_some()) {
        let in_time = call
            .cluster
            .wait(
                call.broker,
                deadline,
                |state| all_settled(call, state, &mut parts).then_some(true),
                |_| false,
            )
            .await;
        if !in_time {
            for part in parts.iter_mut().filter(|part| part.outcome.waits.is_some()) {
                part.outcome.code = REQUEST_TIMED_OUT;
            }
        }
    }
    if acks == 0 {
        // Nobody waits for an answer; a broker tells of an error by hanging up.
        if parts.iter().any(|part| part.outcome.code != NONE) {
            call.hang_up();
        }
        return None;
    }
    Some(call.cluster.with(|state| answer(call, state, parts)))
}

fn split(state: &mut State, topics: Vec<produce_request::TopicProduceData>) -> Vec<Part> {
    let mut parts = Vec::new();
    for topic in topics {
        let resolved = state.resolve(&topic.name, id(topic.topic_id));
        for partition in topic.partition_data {
            parts.push(Part {
                topic: resolved.clone(),
                sent_name: topic.name.clone(),
                sent_id: topic.topic_id,
                partition: partition.index,
                records: partition.records,
                outcome: Outcome::code(NONE),
            });
        }
    }
    parts
}

fn execute(
    call: &Call,
    state: &mut State,
    acks: i16,
    transactional_id: Option<&str>,
    parts: &mut [Part],
) {
    let mut seen: BTreeMap<(Result<String, i16>, i32), usize> = BTreeMap::new();
    for part in parts.iter() {
        *seen.entry((part.topic.clone(), part.partition)).or_default() += 1;
    }
    let twice = |part: &Part| {
        seen.get(&(part.topic.clone(), part.partition)).is_some_and(|&count| count > 1)
    };
    for ((topic, partition), _) in seen.iter().filter(|&(_, &count)| count > 1) {
        let name = topic.as_deref().unwrap_or_default();
        state.violation(format!("a Produce request names {name}-{partition} twice"));
    }
    let transactional = parts.iter().any(|part| {
        part.records.as_deref().and_then(Head::parse).is_some_and(|head| head.is_transactional())
    });
    let all = if !matches!(acks, -1..=1) {
        Some(INVALID_REQUIRED_ACKS)
    } else if transactional && transactional_id.is_none() {
        Some(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    } else {
        None
    };
    let unreadable = parts.iter().find_map(|part| {
        let refusal = validate::one_batch(part.records.as_ref()?, call.version).err()?;
        (refusal.kind == RefusalKind::Unreadable).then_some(refusal)
    });
    for part in parts {
        part.outcome = if let Some(refusal) = &unreadable {
            refusal.clone().into()
        } else if let Some(code) = all {
            Outcome::code(code)
        } else if twice(part) {
            let message = Some("The partition is named twice in one request".to_owned());
            Outcome { message, ..Outcome::code(INVALID_REQUEST) }
        } else {
            let name = part.topic.clone();
            match name {
                Err(code) => Outcome::code(code),
                Ok(name) => match call.refused(&name, part.partition) {
                    Some(code) => Outcome::code(code),
                    None => append(call, state, acks, transactional_id, &name, part),
                },
            }
        };
    }
}

fn append(
    call: &Call,
    state: &mut State,
    acks: i16,
    transactional_id: Option<&str>,
    topic: &str,
    part: &Part,
) -> Outcome {
    if topic.starts_with("__") {
        return Outcome::code(INVALID_TOPIC_EXCEPTION);
    }
    if state.memory.full {
        let message = "The memory for records is used up by compacted topics".to_owned();
        return Outcome { message: Some(message), ..Outcome::code(POLICY_VIOLATION) };
    }
    let Some(records) = &part.records else { return Outcome::code(INVALID_REQUEST) };
    let batch = match validate::one_batch(records, call.version) {
        Ok(batch) => batch,
        Err(refusal) => return refusal.into(),
    };
    let Some(partition) = state.partition(topic, part.partition) else {
        return Outcome::code(UNKNOWN_TOPIC_OR_PARTITION);
    };
    let Some(replica) = partition.replica(call.broker).filter(|replica| replica.leads()) else {
        let known = partition
            .replica(call.broker)
            .map_or((partition.leader, partition.epoch), |r| (r.leader, r.epoch));
        return Outcome {
            leader: Some((known.0.unwrap_or(-1), known.1)),
            ..Outcome::code(NOT_LEADER_OR_FOLLOWER)
        };
    };
    let up_to_date = replica.epoch == partition.epoch;
    let (epoch, log_start) = (replica.epoch, replica.log.start());
    if acks == -1 && up_to_date && partition.in_sync.len() < state.min_in_sync(topic) {
        let message = format!(
            "The size of the current ISR {:?} is insufficient to satisfy the min.isr requirement of {} for partition {topic}-{}",
            partition.in_sync,
            state.min_in_sync(topic),
            part.partition
        );
        return Outcome { message: Some(message), ..Outcome::code(NOT_ENOUGH_REPLICAS) };
    }
    if let Some(outcome) = Head::parse(&batch)
        .and_then(|head| unverified(call, state, transactional_id, topic, part, &head))
    {
        return outcome;
    }
    let now_ms = state.now_ms();
    let rules = match state.topics.get(topic) {
        Some(found) => configs::rules(&found.configs, &state.options),
        None => return Outcome::code(UNKNOWN_TOPIC_OR_PARTITION),
    };
    let name = format!("{topic}-{}", part.partition);
    let accepted = match validate::batch(&batch, &name, &rules, now_ms) {
        Ok(accepted) => accepted,
        Err(refusal) if refusal.kind == RefusalKind::Batch => return refusal.into(),
        Err(refusal) => return Outcome { log_start, ..refusal.into() },
    };
    let Some(replica) =
        state.partition_mut(topic, part.partition).and_then(|found| found.replica_mut(call.broker))
    else {
        return Outcome::code(UNKNOWN_TOPIC_OR_PARTITION);
    };
    let verdict = replica.log.producers.judge(&accepted.head);
    let Head { producer_id, base_sequence, .. } = accepted.head;
    tracing::trace!(
        %name, broker = call.broker, connection = call.connection, producer_id, base_sequence,
        to = accepted.head.last_sequence(), end = replica.log.end(), ?verdict, "a batch"
    );
    match verdict {
        Verdict::Refuse(code) => Outcome { log_start, ..Outcome::code(code) },
        Verdict::Duplicate(known) => Outcome {
            base_offset: known.base_offset,
            // What tells a duplicate from a fresh append on a CreateTime topic.
            log_append_time: known.timestamp,
            log_start,
            waits: (acks == -1).then_some((known.last_offset + 1, epoch)),
            ..Outcome::code(NONE)
        },
        Verdict::Append => {
            let base_offset = replica.log.append(&accepted.batch, epoch);
            let end = replica.log.end();
            state.replicate(topic, part.partition);
            Outcome {
                base_offset,
                log_append_time: if rules.append_time { now_ms } else { -1 },
                log_start,
                waits: (acks == -1).then_some((end, epoch)),
                ..Outcome::code(NONE)
            }
        }
    }
}

/// Asks the transaction coordinator about a transactional batch; `None` when it may be written.
fn unverified(
    call: &Call,
    state: &mut State,
    transactional_id: Option<&str>,
    topic: &str,
    part: &Part,
    head: &Head,
) -> Option<Outcome> {
    let transactional_id = transactional_id.filter(|_| head.is_transactional())?;
    let replica = state.partition(topic, part.partition)?.replica(call.broker)?;
    let open = replica.log.producers.get(head.producer_id).is_some_and(|producer| {
        producer.open_since.is_some() && producer.epoch == head.producer_epoch
    });
    if open {
        return None;
    }
    let adds = call.version >= 12 && state.options.version.transaction_version_2();
    let code = state
        .verify_transactional(
            transactional_id,
            head.producer_id,
            head.producer_epoch,
            topic,
            part.partition,
            adds,
        )
        .err()?;
    if code == INVALID_TXN_STATE {
        // From version 11 on clients know a code that tells them to abort.
        return Some(if call.version >= 11 {
            Outcome::code(TRANSACTION_ABORTABLE)
        } else {
            let message = Some("Partition was not added to the transaction".to_owned());
            Outcome { message, ..Outcome::code(code) }
        });
    }
    if adds || code != CONCURRENT_TRANSACTIONS {
        return Some(Outcome::code(code));
    }
    let message = "Unable to verify the partition has been added to the transaction. Underlying error: CONCURRENT_TRANSACTIONS";
    Some(Outcome { message: Some(message.to_owned()), ..Outcome::code(NOT_ENOUGH_REPLICAS) })
}

/// Looks at every part that waits, not only at the first one that goes on waiting.
fn all_settled(call: &Call, state: &State, parts: &mut [Part]) -> bool {
    parts.iter_mut().filter_map(|part| (!settle(call, state, part)).then_some(())).count() == 0
}

/// Looks whether a part that waits for replication is done; `true` when it waits no longer.
fn settle(call: &Call, state: &State, part: &mut Part) -> bool {
    let Some((needed, epoch)) = part.outcome.waits else { return true };
    let Ok(topic) = &part.topic else { return true };
    let Some(partition) = state.partition(topic, part.partition) else {
        part.outcome.code = UNKNOWN_TOPIC_OR_PARTITION;
        part.outcome.waits = None;
        return true;
    };
    let Some(replica) = partition.replica(call.broker) else { return true };
    if !replica.leads() || replica.epoch != epoch {
        // The base offset stays: it was appended here, and may survive or not.
        part.outcome.code = NOT_LEADER_OR_FOLLOWER;
        part.outcome.leader = Some((replica.leader.unwrap_or(-1), replica.epoch));
        part.outcome.waits = None;
    } else if replica.high_watermark >= needed {
        part.outcome.waits = None;
    }
    part.outcome.waits.is_none()
}

fn answer(call: &Call, state: &State, parts: Vec<Part>) -> ProduceResponse {
    let mut topics: Vec<TopicProduceResponse> = Vec::new();
    let mut leaders = Vec::new();
    for part in parts {
        let mut outcome = part.outcome;
        if let Some(code) =
            part.topic.as_ref().ok().and_then(|topic| call.disowned(topic, part.partition))
        {
            outcome.code = code;
        }
        let mut response = PartitionProduceResponse::default()
            .with_index(part.partition)
            .with_error_code(outcome.code)
            .with_base_offset(outcome.base_offset)
            .with_log_append_time_ms(outcome.log_append_time);
        if call.version >= 5 {
            response = response.with_log_start_offset(outcome.log_start);
        }
        response = response.with_error_message(
            outcome.message.as_deref().filter(|_| call.version >= 8).map(string),
        );
        if call.version >= 8 {
            let error = |(index, message): (i32, String)| {
                BatchIndexAndErrorMessage::default()
                    .with_batch_index(index)
                    .with_batch_index_error_message(Some(string(&message)))
            };
            response =
                response.with_record_errors(outcome.records.into_iter().map(error).collect());
        }
        if let Some((leader, epoch)) = outcome.leader.filter(|_| call.version >= 10) {
            leaders.push(leader);
            response = response.with_current_leader(
                LeaderIdAndEpoch::default()
                    .with_leader_id(BrokerId(leader))
                    .with_leader_epoch(epoch),
            );
        }
        match topics
            .last_mut()
            .filter(|topic| topic.name == part.sent_name && topic.topic_id == part.sent_id)
        {
            Some(topic) => topic.partition_responses.push(response),
            None => topics.push(
                TopicProduceResponse::default()
                    .with_name(part.sent_name)
                    .with_topic_id(part.sent_id)
                    .with_partition_responses(vec![response]),
            ),
        }
    }
    let throttle = call.throttle().map_or(0, |time| time.as_millis() as i32);
    let mut response =
        ProduceResponse::default().with_responses(topics).with_throttle_time_ms(throttle);
    if call.version >= 10 {
        leaders.sort_unstable();
        leaders.dedup();
        let endpoint = |leader: i32| {
            let broker = state.brokers.get(&leader)?;
            let endpoint = NodeEndpoint::default()
                .with_node_id(BrokerId(leader))
                .with_host(string(&broker.host));
            Some(
                endpoint
                    .with_port(i32::from(broker.port))
                    .with_rack(broker.rack.as_deref().map(string)),
            )
        };
        response = response.with_node_endpoints(leaders.into_iter().filter_map(endpoint).collect());
    }
    response
}
