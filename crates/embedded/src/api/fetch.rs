//! `Fetch`: long polls, incremental sessions, followers, epochs.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use twinlog_protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint,
    PartitionData,
};
use twinlog_protocol::messages::{
    BrokerId, FetchRequest, FetchResponse, ProducerId, TopicName, Uuid, string, topic_name,
};

use super::id;
use crate::code::{
    FENCED_LEADER_EPOCH, INCONSISTENT_TOPIC_ID, NONE, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE,
    TOPIC_AUTHORIZATION_FAILED, UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
};
use crate::codec::{self, Head};
use crate::old_formats;
use crate::partition::Partition;
use crate::rights::Operation;
use crate::server::Call;
use crate::sessions::{Entry, Named, Opening, Plan, Told, Wanted};
use crate::state::State;

/// The first version in which followers serve consumers.
const FOLLOWERS_FROM: i16 = 11;
/// The first version with topic ids.
const IDS_FROM: i16 = 13;
/// The first version whose errors carry the leader.
const HINTS_FROM: i16 = 16;

struct Limits {
    min_bytes: usize,
    max_bytes: usize,
    committed: bool,
    rack: String,
}

/// What a partition has for a reader.
struct Readable {
    topic: String,
    high_watermark: i64,
    last_stable: i64,
    log_start: i64,
    /// Records below this offset may be read.
    limit: i64,
    diverging: Option<(i32, i64)>,
    preferred: Option<i32>,
}

pub(crate) async fn fetch(call: &Call, request: FetchRequest) -> Option<FetchResponse> {
    if let Some(time) = call.throttle() {
        // Not "nothing new": a throttled answer names no partition at all.
        return Some(FetchResponse::default().with_throttle_time_ms(time.as_millis() as i32));
    }
    let limits = Limits {
        min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
        max_bytes: usize::try_from(request.max_bytes).unwrap_or(0),
        committed: request.isolation_level == 1,
        rack: request.rack_id.to_string(),
    };
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let plan = call.cluster.with(|state| {
        let opening = opening(call, state, &request);
        let new_id = (state.random.next() as i32 & 0x7fff_ffff).max(1);
        match state.brokers.get_mut(&call.broker) {
            Some(broker) => broker.sessions.open(opening, new_id),
            None => Err(UNKNOWN_TOPIC_OR_PARTITION),
        }
    });
    let plan = match plan {
        Ok(plan) => plan,
        Err(code) => return Some(FetchResponse::default().with_error_code(code)),
    };
    let response = call
        .cluster
        .wait(
            call.broker,
            Instant::now() + wait,
            |state| {
                enough(call, state, &plan, &limits).then(|| answer(call, state, &plan, &limits))
            },
            |state| answer(call, state, &plan, &limits),
        )
        .await;
    Some(response)
}

fn opening(call: &Call, state: &State, request: &FetchRequest) -> Opening {
    let named = |topic: &TopicName, uuid: Uuid, partition: i32| Named {
        topic: state.resolve(topic, id(uuid)).unwrap_or_else(|_| topic.to_string()),
        id: id(uuid),
        partition,
    };
    let mut wanted = Vec::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            wanted.push((
                named(&topic.topic, topic.topic_id, partition.partition),
                Wanted {
                    offset: partition.fetch_offset,
                    bytes_max: partition.partition_max_bytes,
                    current_leader_epoch: partition.current_leader_epoch,
                    last_fetched_epoch: partition.last_fetched_epoch,
                },
            ));
        }
    }
    let forgotten = request
        .forgotten_topics_data
        .iter()
        .flat_map(|topic| {
            topic.partitions.iter().map(|&index| named(&topic.topic, topic.topic_id, index))
        })
        .collect();
    Opening {
        session: request.session_id,
        // Before version 7 there are no sessions.
        epoch: if call.version >= 7 { request.session_epoch } else { -1 },
        by_id: call.version >= IDS_FROM,
        wanted,
        forgotten,
    }
}

/// The topic behind a name or id that a session may have kept for long.
fn topic_of(state: &State, named: &Named) -> Result<String, i16> {
    if named.id == [0; 16] || !named.topic.is_empty() {
        return match state.topics.get(&named.topic) {
            None => Err(UNKNOWN_TOPIC_OR_PARTITION),
            Some(topic) if named.id != [0; 16] && topic.id != named.id => {
                Err(INCONSISTENT_TOPIC_ID)
            }
            Some(_) => Ok(named.topic.clone()),
        };
    }
    state.name_of(named.id).map(str::to_owned).ok_or(UNKNOWN_TOPIC_ID)
}

fn readable(call: &Call, state: &State, entry: &Entry, limits: &Limits) -> Result<Readable, i16> {
    let topic = topic_of(state, &entry.named);
    // Whether a topic exists is told to those who may see it. An id alone tells nothing.
    let known = topic.as_ref().ok().or(Some(&entry.named.topic)).filter(|name| !name.is_empty());
    if known.is_some_and(|name| !call.gate(state).on_topic(Operation::Read, name)) {
        return Err(TOPIC_AUTHORIZATION_FAILED);
    }
    let topic = topic?;
    if let Some(code) = call.refused(&topic, entry.named.partition) {
        return Err(code);
    }
    let partition =
        state.partition(&topic, entry.named.partition).ok_or(UNKNOWN_TOPIC_OR_PARTITION)?;
    let replica = partition.replica(call.broker).ok_or(NOT_LEADER_OR_FOLLOWER)?;
    let wanted = entry.wanted;
    if wanted.current_leader_epoch >= 0 && wanted.current_leader_epoch < replica.epoch {
        return Err(FENCED_LEADER_EPOCH);
    }
    if wanted.current_leader_epoch > replica.epoch {
        return Err(UNKNOWN_LEADER_EPOCH);
    }
    if !replica.leads() && call.version < FOLLOWERS_FROM {
        return Err(NOT_LEADER_OR_FOLLOWER);
    }
    let high_watermark = state.high_watermark(partition, call.broker);
    let last_stable = replica.log.last_stable(high_watermark);
    let mut readable = Readable {
        topic,
        high_watermark,
        last_stable,
        log_start: replica.log.start(),
        limit: if limits.committed { last_stable } else { high_watermark },
        diverging: None,
        preferred: preferred(call, state, partition, limits),
    };
    if readable.preferred.is_some() {
        return Ok(readable);
    }
    if wanted.last_fetched_epoch >= 0 {
        let (epoch, end) = replica.log.end_of_epoch(wanted.last_fetched_epoch);
        if epoch < 0 || end < 0 {
            return Err(OFFSET_OUT_OF_RANGE);
        }
        if epoch < wanted.last_fetched_epoch || end < wanted.offset {
            readable.diverging = Some((epoch, end));
            return Ok(readable);
        }
    }
    // The limit of "out of range" is the log end, not the high watermark.
    if wanted.offset < replica.log.start() || wanted.offset > replica.log.end() {
        return Err(OFFSET_OUT_OF_RANGE);
    }
    Ok(readable)
}

/// The follower in the consumer's rack, where the cluster is set up for it.
fn preferred(call: &Call, state: &State, partition: &Partition, limits: &Limits) -> Option<i32> {
    if !state.options.rack_aware || limits.rack.is_empty() || partition.leader != Some(call.broker)
    {
        return None;
    }
    let in_rack = |broker: &i32| {
        state.brokers.get(broker).is_some_and(|known| known.rack.as_deref() == Some(&limits.rack))
    };
    if in_rack(&call.broker) {
        return None;
    }
    partition.in_sync.iter().copied().find(in_rack)
}

/// Whether the request need not wait: enough bytes, or something the client must know.
fn enough(call: &Call, state: &State, plan: &Plan, limits: &Limits) -> bool {
    let mut bytes = 0;
    for entry in &plan.entries {
        let Ok(readable) = readable(call, state, entry, limits) else { return true };
        if readable.diverging.is_some() || readable.preferred.is_some() {
            return true;
        }
        let Some(replica) = state
            .partition(&readable.topic, entry.named.partition)
            .and_then(|p| p.replica(call.broker))
        else {
            return true;
        };
        let most = usize::try_from(entry.wanted.bytes_max).unwrap_or(0).max(1);
        bytes += replica
            .log
            .available(entry.wanted.offset, readable.limit, limits.min_bytes.max(1))
            .min(most);
        if bytes >= limits.min_bytes {
            return true;
        }
    }
    bytes >= limits.min_bytes || plan.entries.is_empty()
}

fn answer(call: &Call, state: &mut State, plan: &Plan, limits: &Limits) -> FetchResponse {
    let mut topics: Vec<FetchableTopicResponse> = Vec::new();
    let mut left = limits.max_bytes;
    let mut any = false;
    let mut leaders = Vec::new();
    for entry in &plan.entries {
        let mut data = partition(call, state, entry, limits, &mut left, &mut any);
        if let Some(code) = call.disowned(&entry.named.topic, entry.named.partition) {
            data.error_code = code;
        }
        if data.current_leader.leader_id.0 >= 0 {
            leaders.push(data.current_leader.leader_id.0);
        }
        let told = Told {
            high_watermark: data.high_watermark,
            last_stable_offset: data.last_stable_offset,
            log_start_offset: data.log_start_offset,
        };
        let has_records = data.records.as_ref().is_some_and(|records| !records.is_empty());
        let says =
            has_records || data.diverging_epoch.epoch >= 0 || data.preferred_read_replica.0 >= 0;
        let changed = state.brokers.get_mut(&call.broker).is_none_or(|broker| {
            broker.sessions.tell(plan.session, &entry.named, told, data.error_code, has_records)
        });
        if plan.incremental && !changed && !says {
            continue;
        }
        let (name, uuid) = if call.version >= IDS_FROM {
            (TopicName::default(), Uuid::from_bytes(entry.named.id))
        } else {
            (topic_name(&entry.named.topic), Uuid::nil())
        };
        match topics.last_mut().filter(|topic| topic.topic == name && topic.topic_id == uuid) {
            Some(topic) => topic.partitions.push(data),
            None => topics.push(
                FetchableTopicResponse::default()
                    .with_topic(name)
                    .with_topic_id(uuid)
                    .with_partitions(vec![data]),
            ),
        }
    }
    let mut response = FetchResponse::default().with_responses(topics);
    if call.version >= 7 {
        response = response.with_session_id(plan.session);
    }
    if call.version >= HINTS_FROM {
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

fn partition(
    call: &Call,
    state: &State,
    entry: &Entry,
    limits: &Limits,
    left: &mut usize,
    any: &mut bool,
) -> PartitionData {
    let empty = PartitionData::default()
        .with_partition_index(entry.named.partition)
        .with_aborted_transactions(None)
        .with_preferred_read_replica(BrokerId(-1))
        .with_records(Some(Bytes::new()));
    let readable = match readable(call, state, entry, limits) {
        Ok(readable) => readable,
        Err(code) => return refused(call, state, entry, empty, code),
    };
    let mut data = empty
        .with_high_watermark(readable.high_watermark)
        .with_last_stable_offset(readable.last_stable)
        .with_aborted_transactions(limits.committed.then(Vec::new));
    if call.version >= 5 {
        data = data.with_log_start_offset(readable.log_start);
    }
    if let Some(broker) = readable.preferred {
        return data.with_preferred_read_replica(BrokerId(broker));
    }
    if let Some((epoch, end)) = readable.diverging {
        let diverging = EpochEndOffset::default().with_epoch(epoch).with_end_offset(end);
        return data.with_diverging_epoch(diverging);
    }
    let Some(replica) = state
        .partition(&readable.topic, entry.named.partition)
        .and_then(|p| p.replica(call.broker))
    else {
        return data;
    };
    let most = usize::try_from(entry.wanted.bytes_max).unwrap_or(0).min(*left);
    let records = replica.log.read(entry.wanted.offset, readable.limit, most, !*any);
    *left = left.saturating_sub(records.len());
    *any |= !records.is_empty();
    if limits.committed && !records.is_empty() {
        let aborted = replica.log.aborted(entry.wanted.offset, end_of(&records)).map(|ended| {
            AbortedTransaction::default()
                .with_producer_id(ProducerId(ended.producer_id))
                .with_first_offset(ended.first_offset)
        });
        data = data.with_aborted_transactions(Some(aborted.collect()));
    }
    data.with_records(Some(records))
}

/// One past the last offset of what is answered, a batch that is cut off included.
fn end_of(records: &Bytes) -> i64 {
    let (mut at, mut end) = (0, 0);
    while let Some(head) = Head::parse(&records[at..]) {
        end = if head.magic < 2 {
            old_formats::next_offset(&records[at..]).unwrap_or(end)
        } else {
            head.last_offset() + 1
        };
        at += codec::stated_length(&records[at..]).unwrap_or(usize::MAX).min(records.len() - at);
    }
    end
}

fn refused(
    call: &Call,
    state: &State,
    entry: &Entry,
    empty: PartitionData,
    code: i16,
) -> PartitionData {
    let mut data = empty.with_error_code(code).with_high_watermark(-1).with_last_stable_offset(-1);
    if call.version >= 5 {
        data = data.with_log_start_offset(-1);
    }
    // What fails before the log is asked has an empty list, what fails there has none.
    if matches!(code, UNKNOWN_TOPIC_OR_PARTITION | UNKNOWN_TOPIC_ID | TOPIC_AUTHORIZATION_FAILED) {
        data = data.with_aborted_transactions(Some(Vec::new()));
    }
    let hint = matches!(code, NOT_LEADER_OR_FOLLOWER | FENCED_LEADER_EPOCH);
    let found = state.partition(&entry.named.topic, entry.named.partition);
    if let Some(found) = found.filter(|_| hint && call.version >= HINTS_FROM) {
        let (leader, epoch) =
            found.replica(call.broker).map_or((found.leader, found.epoch), |r| (r.leader, r.epoch));
        let leader = LeaderIdAndEpoch::default()
            .with_leader_id(BrokerId(leader.unwrap_or(-1)))
            .with_leader_epoch(epoch);
        data = data.with_current_leader(leader);
    }
    debug_assert_ne!(code, NONE);
    data
}
