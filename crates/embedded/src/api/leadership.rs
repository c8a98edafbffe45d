//! `ElectLeaders`, `AlterPartitionReassignments`, `ListPartitionReassignments`.
//!
//! Replicas copy at once here, so a reassignment is done before it is answered and none is ever
//! listed.

use twinlog_protocol::messages::alter_partition_reassignments_request::ReassignablePartition;
use twinlog_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use twinlog_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use twinlog_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ElectLeadersRequest,
    ElectLeadersResponse, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
    string, topic_name,
};

use crate::code::{
    ELECTION_NOT_NEEDED, ELIGIBLE_LEADERS_NOT_AVAILABLE, INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST, NO_REASSIGNMENT_IN_PROGRESS, NONE, PREFERRED_LEADER_NOT_AVAILABLE,
    REQUEST_TIMED_OUT, UNKNOWN_TOPIC_OR_PARTITION,
};
use crate::log::Log;
use crate::partition::Replica;
use crate::placement;
use crate::server::Call;
use crate::state::State;

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// An error code and what is wrong.
type Refused = (i16, String);

pub(crate) fn elect_leaders(call: &Call, request: &ElectLeadersRequest) -> ElectLeadersResponse {
    let out = ElectLeadersResponse::default();
    if let Some(code) = call.refused("", -1) {
        return if call.version >= 1 { out.with_error_code(code) } else { out };
    }
    let results = call.cluster.with(|state| {
        let everything = || -> Vec<(String, Vec<i32>)> {
            let all = state
                .topics
                .iter()
                .map(|(name, topic)| (name.clone(), (0..topic.partitions.len() as i32).collect()));
            all.collect()
        };
        let asked = request.topic_partitions.as_ref().map(|topics| {
            topics.iter().map(|topic| (topic.topic.to_string(), topic.partitions.clone())).collect()
        });
        let listed_all = asked.is_none();
        let mut results = Vec::new();
        for (topic, partitions) in asked.unwrap_or_else(everything) {
            let mut answers = Vec::new();
            for partition in partitions {
                let result = elect(state, request.election_type, &topic, partition);
                // Who asks for all partitions is not told where nothing was to be done.
                if listed_all && matches!(result, Err((ELECTION_NOT_NEEDED, _))) {
                    continue;
                }
                let answer = PartitionResult::default()
                    .with_partition_id(partition)
                    .with_error_message(None);
                answers.push(match result {
                    Ok(()) => answer,
                    Err((code, message)) => {
                        answer.with_error_code(code).with_error_message(Some(string(&message)))
                    }
                });
            }
            if !answers.is_empty() {
                results.push(
                    ReplicaElectionResult::default()
                        .with_topic(topic_name(&topic))
                        .with_partition_result(answers),
                );
            }
        }
        results
    });
    let strange = !matches!(request.election_type, PREFERRED | UNCLEAN) && !results.is_empty();
    let code = if strange && call.version >= 1 { INVALID_REQUEST } else { NONE };
    out.with_error_code(code).with_replica_election_results(results)
}

fn elect(state: &mut State, kind: i8, topic: &str, index: i32) -> Result<(), Refused> {
    if !matches!(kind, PREFERRED | UNCLEAN) {
        return Err((INVALID_REQUEST, format!("Unknown election type {kind}")));
    }
    let awake = state.awake();
    let known = state.topics.contains_key(topic);
    let found = state.partition_mut(topic, index).ok_or_else(|| {
        let message = if known {
            format!("No such partition as {topic}-{index}")
        } else {
            format!("No such topic as {topic}")
        };
        (UNKNOWN_TOPIC_OR_PARTITION, message)
    })?;
    let replicas: Vec<i32> = found.replicas.iter().map(|replica| replica.broker).collect();
    let not_needed =
        || (ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.".to_owned());
    if kind == PREFERRED {
        let preferred = replicas[0];
        if found.leader == Some(preferred) {
            return Err(not_needed());
        }
        if state.move_leader(topic, index, preferred) {
            return Ok(());
        }
        let message = "The preferred leader was not available.".to_owned();
        return Err((PREFERRED_LEADER_NOT_AVAILABLE, message));
    }
    if found.leader.is_some() {
        return Err(not_needed());
    }
    let next = replicas.into_iter().find(|broker| awake.contains(broker));
    let next = next.ok_or_else(|| {
        let message = "Eligible topic partition leaders are not available.".to_owned();
        (ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    })?;
    if !found.in_sync.contains(&next) {
        found.in_sync = vec![next];
    }
    state.move_leader(topic, index, next);
    Ok(())
}

pub(crate) fn alter_partition_reassignments(
    call: &Call,
    request: &AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let out = AlterPartitionReassignmentsResponse::default().with_error_message(None);
    if let Some(code) = call.refused("", -1) {
        return out.with_error_code(code);
    }
    let same_factor = call.version >= 1 && !request.allow_replication_factor_change;
    let responses = call.cluster.with(|state| {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let answer = ReassignablePartitionResponse::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_message(None);
                partitions.push(match reassign(state, &topic.name, partition, same_factor) {
                    Ok(()) => answer,
                    Err((code, message)) => answer
                        .with_error_code(code)
                        .with_error_message(message.as_deref().map(string)),
                });
            }
            topics.push(
                ReassignableTopicResponse::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions),
            );
        }
        topics
    });
    out.with_error_code(NONE)
        .with_allow_replication_factor_change(request.allow_replication_factor_change)
        .with_responses(responses)
}

fn reassign(
    state: &mut State,
    topic: &str,
    asked: &ReassignablePartition,
    same_factor: bool,
) -> Result<(), (i16, Option<String>)> {
    let index = asked.partition_index;
    let known = state.topics.contains_key(topic);
    let found = state.partition(topic, index).ok_or_else(|| {
        let message = if known {
            format!("Unable to find partition {topic}:{index}.")
        } else {
            format!("Unable to find a topic named {topic}.")
        };
        (UNKNOWN_TOPIC_OR_PARTITION, Some(message))
    })?;
    let Some(wanted) = &asked.replicas else {
        return Err((NO_REASSIGNMENT_IN_PROGRESS, None));
    };
    let told = |(code, message): Refused| (code, Some(message));
    let wanted = placement::checked(state, wanted, None).map_err(told)?;
    let wrong = |message: String| Err((INVALID_REPLICA_ASSIGNMENT, Some(message)));
    if same_factor && wanted.len() != found.replicas.len() {
        return wrong(format!(
            "The replication factor is changed from {} to {}",
            found.replicas.len(),
            wanted.len()
        ));
    }
    copy_to(state, topic, index, &wanted);
    let leads = |state: &State| {
        state
            .partition(topic, index)
            .and_then(|found| found.leader)
            .is_some_and(|leader| wanted.contains(&leader))
    };
    if !leads(state) {
        wanted.iter().any(|&broker| state.move_leader(topic, index, broker));
    }
    if !leads(state) {
        // Nothing is taken away before the new replicas have everything.
        let message = "none of the new replicas is in sync".to_owned();
        return Err((REQUEST_TIMED_OUT, Some(message)));
    }
    if let Some(found) = state.partition_mut(topic, index) {
        let place = |broker: i32| wanted.iter().position(|&known| known == broker);
        found.replicas.retain(|replica| place(replica.broker).is_some());
        found.replicas.sort_by_key(|replica| place(replica.broker));
        found.in_sync.retain(|broker| wanted.contains(broker));
    }
    state.replicate(topic, index);
    Ok(())
}

/// Makes replicas at brokers that have none; they copy as soon as they can.
fn copy_to(state: &mut State, topic: &str, index: i32, brokers: &[i32]) {
    let Some(found) = state.partition_mut(topic, index) else { return };
    for &broker in brokers {
        if found.replica(broker).is_none() {
            let (leader, epoch) = (found.leader, found.epoch);
            found.replicas.push(Replica {
                broker,
                log: Log::default(),
                high_watermark: 0,
                leader,
                epoch,
            });
        }
    }
    state.replicate(topic, index);
}

pub(crate) fn list_partition_reassignments(
    call: &Call,
    _: &ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse::default()
        .with_error_code(call.refused("", -1).unwrap_or(NONE))
        .with_error_message(None)
}
