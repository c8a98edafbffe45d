//! Which brokers hold the replicas of a partition, where a request says so itself
//! (`ReplicationControlManager.createTopic`, `.createPartitions`).
//!
//! Does not place replicas of its own accord: that is `State::create_topic`.

use twinlog_protocol::messages::BrokerId;
use twinlog_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use twinlog_protocol::messages::create_topics_request::CreatableTopic;

use crate::code::{INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST};
use crate::state::State;

/// Nothing, or Kafka's code and text.
pub(crate) type Refused<T = ()> = Result<T, (i16, String)>;

fn refuse<T>(message: impl Into<String>) -> Refused<T> {
    Err((INVALID_REPLICA_ASSIGNMENT, message.into()))
}

/// The brokers of each partition as CreateTopics names them; empty where it names none.
pub(crate) fn asked(state: &State, topic: &CreatableTopic) -> Refused<Vec<Vec<i32>>> {
    if topic.assignments.is_empty() {
        return Ok(Vec::new());
    }
    for (name, set) in [
        ("replication factor", topic.replication_factor != -1),
        ("numPartitions", topic.num_partitions != -1),
    ] {
        if set {
            let message = format!(
                "A manual partition assignment was specified, but {name} was not set to -1."
            );
            return Err((INVALID_REQUEST, message));
        }
    }
    let mut placed: Vec<Option<Vec<i32>>> = vec![None; topic.assignments.len()];
    let mut replicas = None;
    let mut consecutive = true;
    for (position, assignment) in topic.assignments.iter().enumerate() {
        let index = assignment.partition_index;
        if topic.assignments[..position].iter().any(|other| other.partition_index == index) {
            return refuse(format!(
                "Found multiple manual partition assignments for partition {index}"
            ));
        }
        let brokers = checked(state, &assignment.broker_ids, replicas)?;
        replicas = Some(brokers.len());
        match usize::try_from(index).ok().and_then(|index| placed.get_mut(index)) {
            Some(place) => *place = Some(brokers),
            None => consecutive = false,
        }
    }
    if !consecutive {
        return refuse("partitions should be a consecutive 0-based integer sequence");
    }
    Ok(placed.into_iter().flatten().collect())
}

/// The brokers of each of `count` new partitions as CreatePartitions names them; empty where it
/// names none.
pub(crate) fn asked_more(
    state: &State,
    topic: &CreatePartitionsTopic,
    count: usize,
    replicas: usize,
) -> Refused<Vec<Vec<i32>>> {
    let Some(assignments) = &topic.assignments else { return Ok(Vec::new()) };
    if assignments.len() != count {
        return refuse(format!(
            "Attempted to add {count} additional partition(s), but only {} assignment(s) were specified.",
            assignments.len()
        ));
    }
    let brokers = assignments.iter().map(|asked| checked(state, &asked.broker_ids, Some(replicas)));
    brokers.collect()
}

/// One assignment. `replicas` is how many the other partitions have.
pub(crate) fn checked(
    state: &State,
    brokers: &[BrokerId],
    replicas: Option<usize>,
) -> Refused<Vec<i32>> {
    let brokers: Vec<i32> = brokers.iter().map(|broker| broker.0).collect();
    if brokers.is_empty() {
        return refuse("The manual partition assignment includes an empty replica list.");
    }
    let mut sorted = brokers.clone();
    sorted.sort_unstable();
    for (position, broker) in sorted.iter().enumerate() {
        if !state.brokers.contains_key(broker) {
            return refuse(format!(
                "The manual partition assignment includes broker {broker}, but no such broker is registered."
            ));
        }
        if position > 0 && sorted[position - 1] == *broker {
            return refuse(format!(
                "The manual partition assignment includes the broker {broker} more than once."
            ));
        }
    }
    if let Some(replicas) = replicas.filter(|&replicas| replicas != brokers.len()) {
        return refuse(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with previous partitions, which have {replicas} replica(s).",
            brokers.len()
        ));
    }
    Ok(brokers)
}
