//! `DeleteRecords`: done at the leader at once, answered when every replica has done it.

use std::time::Duration;

use tokio::time::Instant;
use twinlog_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use twinlog_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse, TopicName};

use super::offsets::leading;
use crate::code::{NONE, OFFSET_OUT_OF_RANGE, POLICY_VIOLATION, REQUEST_TIMED_OUT};
use crate::configs;
use crate::server::Call;
use crate::state::State;

struct Part {
    topic: TopicName,
    partition: i32,
    /// The start offset that every replica must reach, or why there is none.
    wanted: Result<i64, i16>,
}

pub(crate) async fn delete_records(
    call: &Call,
    request: DeleteRecordsRequest,
) -> Option<DeleteRecordsResponse> {
    let deadline =
        Instant::now() + Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let mut parts = Vec::new();
    call.cluster.with(|state| {
        for topic in &request.topics {
            for partition in &topic.partitions {
                let wanted =
                    delete(call, state, &topic.name, partition.partition_index, partition.offset);
                parts.push(Part {
                    topic: topic.name.clone(),
                    partition: partition.partition_index,
                    wanted,
                });
            }
        }
    });
    let done = |state: &mut State| {
        parts.iter().all(|part| match part.wanted {
            Ok(wanted) => low_watermark(state, part).is_none_or(|low| low >= wanted),
            Err(_) => true,
        })
    };
    let in_time = call
        .cluster
        .wait(call.broker, deadline, |state| done(state).then_some(true), |_| false)
        .await;
    Some(call.cluster.with(|state| {
        let mut topics: Vec<DeleteRecordsTopicResult> = Vec::new();
        for part in &parts {
            let low = low_watermark(state, part).unwrap_or(-1);
            let (code, low) = match part.wanted {
                Err(code) => (code, -1),
                Ok(wanted) if !in_time && low < wanted => (REQUEST_TIMED_OUT, low),
                Ok(_) => (NONE, low),
            };
            let code = call.disowned(&part.topic, part.partition).unwrap_or(code);
            let result = DeleteRecordsPartitionResult::default()
                .with_partition_index(part.partition)
                .with_low_watermark(low)
                .with_error_code(code);
            match topics.last_mut().filter(|topic| topic.name == part.topic) {
                Some(topic) => topic.partitions.push(result),
                None => topics.push(
                    DeleteRecordsTopicResult::default()
                        .with_name(part.topic.clone())
                        .with_partitions(vec![result]),
                ),
            }
        }
        DeleteRecordsResponse::default().with_topics(topics)
    }))
}

fn delete(
    call: &Call,
    state: &mut State,
    topic: &str,
    partition: i32,
    offset: i64,
) -> Result<i64, i16> {
    let replica = leading(call, state, topic, partition, -1)?;
    let high_watermark = replica.high_watermark;
    let offset = if offset == -1 { high_watermark } else { offset };
    if offset < 0 || offset > high_watermark {
        return Err(OFFSET_OUT_OF_RANGE);
    }
    let deletes = state
        .topics
        .get(topic)
        .is_some_and(|found| configs::deletes(&found.configs, &state.options));
    if !deletes {
        return Err(POLICY_VIOLATION);
    }
    if let Some(replica) =
        state.partition_mut(topic, partition).and_then(|found| found.replica_mut(call.broker))
    {
        replica.log.delete_below(offset);
    }
    state.replicate(topic, partition);
    Ok(offset)
}

/// The lowest start offset of the replicas whose brokers the controller has not given up.
fn low_watermark(state: &State, part: &Part) -> Option<i64> {
    let found = state.partition(&part.topic, part.partition)?;
    let counts = |broker: i32| state.brokers.get(&broker).is_some_and(|known| !known.fenced);
    found
        .replicas
        .iter()
        .filter(|replica| counts(replica.broker))
        .map(|replica| replica.log.start())
        .min()
}
