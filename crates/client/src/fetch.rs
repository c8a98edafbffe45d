//! Fetching from one broker: an incremental session on a connection of its own.
//!
//! Does not: choose the broker, follow leaders, or look into batches.
//!
//! # Invariants
//!
//! 1. A request names only what changed since the last one the broker has surely taken over; after
//!    anything else (lost connection, abandoned call, codes 70, 71, 106) the session starts over
//!    with everything.
//! 2. A session speaks of topics either by id or by name, never both: ids whenever the broker
//!    knows Fetch 13 and every partition has one, because by name a broker reads a recreated topic
//!    in silence.
//! 3. Records are slices of the frame they came in, which lives as long as any of them.
//!
//! # References
//!
//! KIP-227 (incremental sessions), KIP-516 (topic ids), KIP-320 and KIP-595 (leader epochs and
//! `divergingEpoch`), KIP-392 (reading from followers); Kafka's `FetchSessionHandler`.

mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use twinlog_protocol::messages::{
    FetchRequest, FetchResponse, fetch_request, fetch_response, string, topic_name, topic_uuid,
};
use twinlog_protocol::{ErrorCode, Request as _, decode_response, encode_body};
use twinlog_types::{BrokerId, LeaderEpoch, Partition, TopicId, TopicName, TopicPartition};
use twinlog_wire::Connection;

use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::fetch::session::{Plan, SessionState};

/// The first Fetch version that speaks of topics by id (KIP-516).
const FIRST_WITH_IDS: i16 = 13;

/// Which records are visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Isolation {
    /// Everything up to the high watermark.
    ReadUncommitted,
    /// Everything up to the last stable offset, with the list of aborted transactions.
    #[default]
    ReadCommitted,
}

impl Isolation {
    pub(crate) fn to_wire(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// How a session asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchOptions {
    /// How long a broker waits for `min_bytes`. At most half the request timeout is used.
    pub max_wait: Duration,
    /// How many bytes end the wait.
    pub min_bytes: i32,
    /// How many bytes an answer holds; the first batch comes even when it is larger. At most the
    /// connection's frame limit is used.
    pub max_bytes: i32,
    /// The same for one partition whose [`FetchPartition::max_bytes`] is 0.
    pub partition_max_bytes: i32,
    /// What is visible.
    pub isolation: Isolation,
    /// Our rack: the broker may then name a nearer replica to read from.
    pub rack: Option<String>,
}

impl Default for FetchOptions {
    /// Kafka's consumer defaults, committed records only.
    fn default() -> Self {
        Self {
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 50 << 20,
            partition_max_bytes: 1 << 20,
            isolation: Isolation::ReadCommitted,
            rack: None,
        }
    }
}

/// Where to read a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// The partition.
    pub tp: TopicPartition,
    /// The topic's id, or [`TopicId::NONE`].
    pub topic_id: TopicId,
    /// The next offset wanted.
    pub offset: i64,
    /// The leader epoch of the last batch before `offset`, from that batch; -1 when unknown. It
    /// lets the broker notice that the log it has is not the one that was read.
    pub last_fetched_epoch: LeaderEpoch,
    /// The leader epoch the reader believes in; -1 reads from anybody.
    pub current_leader_epoch: LeaderEpoch,
    /// How many bytes at most; 0 for the session's default.
    pub max_bytes: i32,
}

/// A transaction whose records, from `first_offset` to its abort marker, are not data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AbortedTransaction {
    /// The first offset of the transaction in this partition.
    pub first_offset: i64,
    /// Whose.
    pub producer_id: i64,
}

/// What a broker answered about one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition {
    /// The partition.
    pub tp: TopicPartition,
    /// Its code.
    pub error: ErrorCode,
    /// The high watermark; behind the log end for a moment after a leader move. -1 with an error.
    pub high_watermark: i64,
    /// The last stable offset; -1 when unknown.
    pub last_stable_offset: i64,
    /// The log start offset; -1 when unknown.
    pub log_start_offset: i64,
    /// The broker's log differs from what was read: its end of the newest epoch that is not newer
    /// than `last_fetched_epoch`, as (epoch, end offset).
    pub diverging: Option<(LeaderEpoch, i64)>,
    /// Aborted transactions that overlap the records, by first offset.
    pub aborted: Vec<AbortedTransaction>,
    /// A replica in our rack that should be read instead.
    pub preferred_read_replica: Option<BrokerId>,
    /// The leader, where the broker says that it is another one now.
    pub current_leader: Option<(BrokerId, LeaderEpoch)>,
    /// Record batches as stored; the last one may be cut off.
    pub records: Bytes,
}

/// One Fetch answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchAnswer {
    /// How long the broker mutes this connection. Above zero, an answer without partitions is
    /// a quota at work and says nothing about the end of the log.
    pub throttle: Duration,
    /// Partitions with records, news or errors; a session leaves out the others.
    pub partitions: Vec<FetchedPartition>,
    /// The size of the frame that stays in memory while any of `records` lives.
    pub frame_bytes: usize,
}

/// An incremental fetch session with one broker. See the module's head for what it promises.
#[derive(Debug)]
pub struct FetchSession {
    cluster: Cluster,
    broker: BrokerId,
    options: FetchOptions,
    connection: Option<Connection>,
    state: SessionState,
    /// A request was sent and its answer not read, because the caller gave the call up.
    abandoned: bool,
}

impl Cluster {
    /// A fetch session with `broker`. Connects at the first fetch.
    pub fn fetch_session(&self, broker: BrokerId, options: FetchOptions) -> FetchSession {
        FetchSession {
            cluster: self.clone(),
            broker,
            options,
            connection: None,
            state: SessionState::default(),
            abandoned: false,
        }
    }
}

impl FetchSession {
    /// The broker this session reads from.
    pub fn broker(&self) -> BrokerId {
        self.broker
    }

    /// How long the broker waits for `min_bytes` from the next fetch on.
    pub fn set_max_wait(&mut self, max_wait: Duration) {
        self.options.max_wait = max_wait;
    }

    /// Reads from these partitions, and from no others. After an error, the next call connects
    /// again where needed and asks for everything. Dropping the returned future is safe; it costs
    /// the connection.
    ///
    /// # Errors
    ///
    /// Only what concerns the whole request; a partition's code is in its answer.
    ///
    /// # Panics
    ///
    /// When a partition is named twice.
    pub async fn fetch(&mut self, wanted: &[FetchPartition]) -> Result<FetchAnswer, ClientError> {
        if std::mem::replace(&mut self.abandoned, true) {
            // The late answer would be read as the answer to the next request's session epoch.
            self.disconnect();
        }
        let outcome = match self.fetch_once(wanted).await {
            // The broker forgot the session (its cache is full, it was restarted), or counts
            // differently: once more with everything.
            Err(error) if error.code().is_some_and(is_session_error) => {
                self.fetch_once(wanted).await
            }
            outcome => outcome,
        };
        self.abandoned = false;
        outcome
    }

    async fn fetch_once(&mut self, wanted: &[FetchPartition]) -> Result<FetchAnswer, ClientError> {
        let connection = match &self.connection {
            Some(connection) if !connection.is_closed() => connection.clone(),
            _ => {
                self.disconnect();
                let connection = self.cluster.connect(self.broker).await?;
                self.connection.insert(connection).clone()
            }
        };
        let version = usable_version(&connection, wanted)?;
        let plan = self.state.plan(wanted, version >= FIRST_WITH_IDS);
        let request = self.request(&plan, version);
        let answered = exchange(&connection, &request, version).await;
        let (mut response, frame_bytes) = match answered {
            Ok(answered) => answered,
            Err(error) => {
                // Whether the broker has counted the request is unknown.
                self.state.restart();
                if connection.is_closed() {
                    self.connection = None;
                }
                return Err(error);
            }
        };
        let code = ErrorCode(response.error_code);
        if !code.is_ok() {
            self.state.refused(code);
            return Err(ClientError::Code {
                api: "Fetch",
                code,
                message: None,
                about: format!("the session with broker {} ({})", self.broker, connection.peer()),
            });
        }
        self.state.accepted(plan, response.session_id);
        let throttle = Duration::from_millis(u64::try_from(response.throttle_time_ms).unwrap_or(0));
        let responses = std::mem::take(&mut response.responses);
        let mut partitions = Vec::new();
        for topic in responses {
            let Some(name) = self.state.topic(&topic) else {
                // A partition that was forgotten while its answer was on the way.
                tracing::debug!(broker = self.broker, "answer about a topic nobody asked for");
                continue;
            };
            for partition in topic.partitions {
                let tp = TopicPartition::new(name.clone(), partition.partition_index);
                if self.state.partitions.contains_key(&tp) {
                    partitions.push(fetched(tp, partition));
                }
            }
        }
        Ok(FetchAnswer { throttle, partitions, frame_bytes })
    }

    fn disconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
        self.state.restart();
    }

    fn request(&self, plan: &Plan, version: i16) -> FetchRequest {
        let wire = self.cluster.inner.connections.options();
        let max_wait = self.options.max_wait.min(wire.request_timeout / 2);
        let frame_max = i32::try_from(wire.frame_bytes_max).unwrap_or(i32::MAX);
        let rack = self.options.rack.as_deref().filter(|_| version >= 11).unwrap_or_default();
        base_request(self.options.isolation)
            .with_max_wait_ms(i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX))
            .with_min_bytes(self.options.min_bytes)
            .with_max_bytes(self.options.max_bytes.min(frame_max))
            .with_session_id(plan.session_id)
            .with_session_epoch(plan.session_epoch)
            .with_rack_id(string(rack))
            .with_topics(by_topic(
                plan.changed.iter().map(|wanted| {
                    let mut partition = wanted.clone();
                    if partition.max_bytes <= 0 {
                        partition.max_bytes = self.options.partition_max_bytes;
                    }
                    partition
                }),
                version,
            ))
            .with_forgotten_topics_data(forgotten(&plan.forgotten, version))
    }
}

impl Drop for FetchSession {
    fn drop(&mut self) {
        self.disconnect();
    }
}

fn is_session_error(code: ErrorCode) -> bool {
    [
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    ]
    .contains(&code)
}

/// The version for these partitions: one with ids where all have one.
fn usable_version(connection: &Connection, wanted: &[FetchPartition]) -> Result<i16, ClientError> {
    let ids = wanted.iter().all(|partition| !partition.topic_id.is_none());
    let newest = if ids { FetchRequest::MAX } else { FIRST_WITH_IDS - 1 };
    Ok(connection.version_at_most::<FetchRequest>(newest)?)
}

fn base_request(isolation: Isolation) -> FetchRequest {
    FetchRequest::default()
        .with_cluster_id(None)
        .with_replica_id((-1).into())
        .with_isolation_level(isolation.to_wire())
}

/// Sends a Fetch and reads the answer, with the size of its frame.
async fn exchange(
    connection: &Connection,
    request: &FetchRequest,
    version: i16,
) -> Result<(FetchResponse, usize), ClientError> {
    let body = encode_body(request, version).map_err(|error| ClientError::Protocol {
        peer: connection.peer().to_owned(),
        api: "Fetch",
        reason: error.to_string(),
    })?;
    let answer = connection.send_parts(FetchRequest::KEY, version, vec![body])?.await?;
    let frame_bytes = answer.len();
    let response = decode_response::<FetchRequest>(answer, version)
        .map_err(|error| connection.garbled(FetchRequest::KEY, error))?;
    Ok((response, frame_bytes))
}

/// Partitions under their topics, in the order they were given.
fn by_topic(
    partitions: impl IntoIterator<Item = FetchPartition>,
    version: i16,
) -> Vec<fetch_request::FetchTopic> {
    let mut topics: Vec<fetch_request::FetchTopic> = Vec::new();
    let mut places: BTreeMap<(TopicName, TopicId), usize> = BTreeMap::new();
    for wanted in partitions {
        let mut partition = fetch_request::FetchPartition::default()
            .with_partition(wanted.tp.partition)
            .with_fetch_offset(wanted.offset)
            .with_log_start_offset(-1)
            .with_partition_max_bytes(wanted.max_bytes);
        if version >= 9 {
            partition = partition.with_current_leader_epoch(wanted.current_leader_epoch);
        }
        if version >= 12 {
            partition = partition.with_last_fetched_epoch(wanted.last_fetched_epoch);
        }
        let key = (wanted.tp.topic.clone(), wanted.topic_id);
        let place = *places.entry(key).or_insert_with(|| {
            let topic = fetch_request::FetchTopic::default();
            topics.push(if version >= FIRST_WITH_IDS {
                topic.with_topic_id(topic_uuid(wanted.topic_id))
            } else {
                topic.with_topic(topic_name(wanted.tp.topic.as_str()))
            });
            topics.len() - 1
        });
        topics[place].partitions.push(partition);
    }
    topics
}

fn forgotten(
    gone: &[(TopicPartition, TopicId)],
    version: i16,
) -> Vec<fetch_request::ForgottenTopic> {
    let mut topics: BTreeMap<(&TopicName, TopicId), BTreeSet<Partition>> = BTreeMap::new();
    for (tp, id) in gone {
        topics.entry((&tp.topic, *id)).or_default().insert(tp.partition);
    }
    topics
        .into_iter()
        .map(|((name, id), partitions)| {
            let topic = fetch_request::ForgottenTopic::default()
                .with_partitions(partitions.into_iter().collect());
            if version >= FIRST_WITH_IDS {
                topic.with_topic_id(topic_uuid(id))
            } else {
                topic.with_topic(topic_name(name.as_str()))
            }
        })
        .collect()
}

fn fetched(tp: TopicPartition, data: fetch_response::PartitionData) -> FetchedPartition {
    let mut aborted: Vec<AbortedTransaction> = data
        .aborted_transactions
        .unwrap_or_default()
        .into_iter()
        .map(|transaction| AbortedTransaction {
            first_offset: transaction.first_offset,
            producer_id: transaction.producer_id.0,
        })
        .collect();
    aborted.sort_unstable();
    let diverging = (data.diverging_epoch.end_offset >= 0)
        .then_some((data.diverging_epoch.epoch, data.diverging_epoch.end_offset));
    let leader = data.current_leader;
    FetchedPartition {
        tp,
        error: ErrorCode(data.error_code),
        high_watermark: data.high_watermark,
        last_stable_offset: data.last_stable_offset,
        log_start_offset: data.log_start_offset,
        diverging,
        aborted,
        preferred_read_replica: (data.preferred_read_replica.0 >= 0)
            .then_some(data.preferred_read_replica.0),
        current_leader: (leader.leader_id.0 >= 0)
            .then_some((leader.leader_id.0, leader.leader_epoch)),
        records: data.records.unwrap_or_default(),
    }
}

/// One fetch of one partition outside any session, for looking at a log.
pub(crate) async fn fetch_alone(
    connection: &Connection,
    wanted: &FetchPartition,
    max_wait: Duration,
    isolation: Isolation,
) -> Result<(FetchedPartition, Duration), ClientError> {
    let version = usable_version(connection, std::slice::from_ref(wanted))?;
    let request = base_request(isolation)
        .with_max_wait_ms(i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX))
        .with_min_bytes(1)
        .with_max_bytes(wanted.max_bytes)
        .with_session_id(0)
        .with_session_epoch(-1)
        .with_topics(by_topic([wanted.clone()], version));
    let (response, _) = exchange(connection, &request, version).await?;
    let refused = |code| ClientError::Code {
        api: "Fetch",
        code,
        message: None,
        about: format!("{} at offset {} from {}", wanted.tp, wanted.offset, connection.peer()),
    };
    let code = ErrorCode(response.error_code);
    if !code.is_ok() {
        return Err(refused(code));
    }
    let throttle = Duration::from_millis(u64::try_from(response.throttle_time_ms).unwrap_or(0));
    let data = response
        .responses
        .into_iter()
        .flat_map(|topic| topic.partitions)
        .find(|data| data.partition_index == wanted.tp.partition);
    match data {
        Some(data) => {
            let fetched = fetched(wanted.tp.clone(), data);
            if fetched.error.is_ok() {
                Ok((fetched, throttle))
            } else {
                Err(refused(fetched.error))
            }
        }
        // A quota answers with no partitions at all: nothing was read.
        None if !throttle.is_zero() => Ok((nothing(wanted.tp.clone()), throttle)),
        None => Err(ClientError::Protocol {
            peer: connection.peer().to_owned(),
            api: "Fetch",
            reason: format!("no word about {}", wanted.tp),
        }),
    }
}

fn nothing(tp: TopicPartition) -> FetchedPartition {
    FetchedPartition {
        tp,
        error: ErrorCode::NONE,
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        diverging: None,
        aborted: Vec::new(),
        preferred_read_replica: None,
        current_leader: None,
        records: Bytes::new(),
    }
}
