//! Producing to one broker: a pipelined lane on a connection of its own; and single plain batches.
//!
//! Does not: retry (a lane), pick leaders, or cut batches.
//!
//! # Invariants
//!
//! 1. Requests of a lane reach the broker, and are answered, in the order of the calls to
//!    [`ProduceLane::send`].
//! 2. acks=all always. Batch bodies are not copied on their way to the socket.
//! 3. An answer that accounts for another set of partitions than was sent is an error, never
//!    half a success.
//! 4. When the connection ends, every pending answer is an error that says so: those batches may
//!    or may not be stored, and the caller looks before it sends anything again.
//!
//! # References
//!
//! KIP-98 (idempotence), KIP-467 (record errors), KIP-516 (topic ids), KIP-951 (leader hints).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use twinlog_batch::{Codec, Outgoing, Record, encode_plain};
use twinlog_protocol::messages::{ProduceRequest, topic_id as read_topic_id};
use twinlog_protocol::{ErrorCode, PartitionPart, Request as _, decode_response, produce_parts};
use twinlog_types::{BrokerId, LeaderEpoch, Partition, TopicId, TopicName, TopicPartition};
use twinlog_wire::Connection;

use crate::cluster::Cluster;
use crate::connections::Purpose;
use crate::error::ClientError;

/// The first Produce version that speaks of topics by id (KIP-516).
const FIRST_WITH_IDS: i16 = 13;

/// One batch for one partition.
#[derive(Clone, Debug)]
pub struct ProducePartition {
    /// The partition.
    pub tp: TopicPartition,
    /// The topic's id, or [`TopicId::NONE`]. With an id the broker refuses the batch when the
    /// topic was made again meanwhile; by name it appends to the new one in silence.
    pub topic_id: TopicId,
    /// The batch.
    pub batch: Outgoing,
}

/// What the broker answered about one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducedPartition {
    /// The partition.
    pub tp: TopicPartition,
    /// Its code. 6 and 7 with a base offset mean that the batch was appended and may stay.
    pub error: ErrorCode,
    /// The offset of the first record; -1 when nothing was appended.
    pub base_offset: i64,
    /// -1 for a fresh append to a topic with CreateTime; the stored batch's newest timestamp for
    /// a recognised duplicate.
    pub log_append_time: i64,
    /// The log start offset; -1 when unknown.
    pub log_start_offset: i64,
    /// The broker's own words about a refusal.
    pub message: Option<String>,
    /// The records that caused a refusal, by index in the batch, with the broker's words.
    pub record_errors: Vec<(i32, Option<String>)>,
    /// The leader, where the broker says that it is another one now.
    pub current_leader: Option<(BrokerId, LeaderEpoch)>,
}

/// One Produce answer: every partition that was sent, in that order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceAnswer {
    /// How long the broker mutes this connection from now on. The answer itself is complete.
    pub throttle: Duration,
    /// One entry per batch.
    pub partitions: Vec<ProducedPartition>,
}

/// A pipeline of Produce requests to one broker.
#[derive(Clone, Debug)]
pub struct ProduceLane {
    broker: BrokerId,
    connection: Connection,
}

impl Cluster {
    /// A lane to `broker` on a connection of its own. Tries once.
    pub async fn produce_lane(&self, broker: BrokerId) -> Result<ProduceLane, ClientError> {
        let connection = self.connect(broker).await?;
        Ok(ProduceLane { broker, connection })
    }

    /// Appends one batch without a producer id, acks=all, and answers the offset of its first
    /// record. Tried again after anything that may pass, so the batch may be stored twice: for
    /// records where that does no harm.
    ///
    /// # Panics
    ///
    /// When there is no record.
    pub async fn produce_plain(
        &self,
        tp: &TopicPartition,
        records: &[Record],
    ) -> Result<i64, ClientError> {
        let batch = encode_plain(records, Codec::None);
        self.retrying(|| async {
            let outcome = self.produce_plain_once(tp, &batch).await;
            if outcome.as_ref().is_err_and(ClientError::is_retriable) {
                self.refresh(std::slice::from_ref(&tp.topic)).await;
            }
            outcome
        })
        .await
    }

    async fn produce_plain_once(
        &self,
        tp: &TopicPartition,
        batch: &Outgoing,
    ) -> Result<i64, ClientError> {
        let leader = self.route(tp).await?;
        let address = self.address(leader.broker).await?;
        let connection = self.inner.connections.shared(Purpose::Plain, &address).await?;
        let topic_id = self.known_id(&tp.topic).unwrap_or(TopicId::NONE);
        let partition = ProducePartition { tp: tp.clone(), topic_id, batch: batch.clone() };
        let timeout = self.produce_timeout_ms();
        let answer = send(&connection, None, vec![partition], timeout, i16::MAX)?.await?;
        let produced = answer.partitions.into_iter().next();
        let produced = produced.ok_or(ClientError::Protocol {
            peer: connection.peer().to_owned(),
            api: "Produce",
            reason: format!("no word about {tp}"),
        })?;
        if produced.error.is_ok() {
            return Ok(produced.base_offset);
        }
        Err(ClientError::Code {
            api: "Produce",
            code: produced.error,
            message: produced.message,
            about: format!("{tp} at {}", connection.peer()),
        })
    }

    /// How long a broker may wait for replication: less than we wait for the answer.
    pub(crate) fn produce_timeout_ms(&self) -> i32 {
        let timeout = self.inner.options.wire.request_timeout * 2 / 3;
        i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
    }
}

impl ProduceLane {
    /// The broker this lane leads to.
    pub fn broker(&self) -> BrokerId {
        self.broker
    }

    /// Host and port of the broker.
    pub fn peer(&self) -> &str {
        self.connection.peer()
    }

    /// Queues one request behind those sent before and answers what will be its answer. With
    /// topic ids where the broker knows them and all partitions have one. `timeout_ms` is how
    /// long the broker may wait for its replicas.
    ///
    /// # Errors
    ///
    /// Nothing was sent: the lane's connection has ended, or too much is in flight.
    ///
    /// # Panics
    ///
    /// When there is no partition, or one is named twice: a broker would drop one of the two
    /// batches and answer success for both.
    pub fn send(
        &self,
        partitions: Vec<ProducePartition>,
        timeout_ms: i32,
    ) -> Result<
        impl Future<Output = Result<ProduceAnswer, ClientError>> + Send + 'static + use<>,
        ClientError,
    > {
        send(&self.connection, None, partitions, timeout_ms, i16::MAX)
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Ends the connection; pending answers become errors.
    pub fn close(&self) {
        self.connection.close();
    }
}

/// Sends one Produce request, at no newer version than `version_max`.
pub(crate) fn send(
    connection: &Connection,
    transactional_id: Option<&str>,
    partitions: Vec<ProducePartition>,
    timeout_ms: i32,
    version_max: i16,
) -> Result<
    impl Future<Output = Result<ProduceAnswer, ClientError>> + Send + 'static + use<>,
    ClientError,
> {
    let ids = partitions.iter().all(|partition| !partition.topic_id.is_none());
    let version_max = if ids { version_max } else { version_max.min(FIRST_WITH_IDS - 1) };
    let version = connection.version_at_most::<ProduceRequest>(version_max)?;
    let peer = connection.peer().to_owned();
    let parts: Vec<PartitionPart<'_>> = partitions
        .iter()
        .map(|partition| PartitionPart {
            topic: &partition.tp.topic,
            topic_id: partition.topic_id,
            partition: partition.tp.partition,
            head: partition.batch.head(),
            body: partition.batch.body(),
        })
        .collect();
    let parts = produce_parts(version, transactional_id, timeout_ms, &parts).map_err(|error| {
        ClientError::Protocol { peer: peer.clone(), api: "Produce", reason: error.to_string() }
    })?;
    let pending = connection.send_parts(ProduceRequest::KEY, version, parts)?;
    let sent: Vec<(TopicPartition, TopicId)> =
        partitions.into_iter().map(|partition| (partition.tp, partition.topic_id)).collect();
    let connection = connection.clone();
    Ok(async move {
        let answer = pending.await?;
        read_answer(answer, version, &sent).map_err(|reason| {
            // What follows in the stream cannot be trusted either.
            connection.close();
            ClientError::Protocol { peer, api: "Produce", reason }
        })
    })
}

/// The answer in the order of what was sent; an error says how the two differ.
fn read_answer(
    answer: Bytes,
    version: i16,
    sent: &[(TopicPartition, TopicId)],
) -> Result<ProduceAnswer, String> {
    let response =
        decode_response::<ProduceRequest>(answer, version).map_err(|error| error.to_string())?;
    let names: BTreeMap<TopicId, &TopicName> =
        sent.iter().map(|(tp, id)| (*id, &tp.topic)).collect();
    let mut answered: BTreeMap<(TopicName, Partition), ProducedPartition> = BTreeMap::new();
    for topic in response.responses {
        let name = if version >= FIRST_WITH_IDS {
            let id = read_topic_id(topic.topic_id);
            (*names.get(&id).ok_or_else(|| format!("topic id {id} was not in the request"))?)
                .clone()
        } else {
            TopicName::from(topic.name.as_str())
        };
        for data in topic.partition_responses {
            let leader = data.current_leader;
            let produced = ProducedPartition {
                tp: TopicPartition::new(name.clone(), data.index),
                error: ErrorCode(data.error_code),
                base_offset: data.base_offset,
                log_append_time: data.log_append_time_ms,
                log_start_offset: data.log_start_offset,
                message: data.error_message.map(|text| text.to_string()),
                record_errors: data
                    .record_errors
                    .into_iter()
                    .map(|error| {
                        let words = error.batch_index_error_message.map(|text| text.to_string());
                        (error.batch_index, words)
                    })
                    .collect(),
                current_leader: (leader.leader_id.0 >= 0)
                    .then_some((leader.leader_id.0, leader.leader_epoch)),
            };
            if let Some(twice) = answered.insert((name.clone(), data.index), produced) {
                return Err(format!("{} is answered twice", twice.tp));
            }
        }
    }
    let mut partitions = Vec::with_capacity(sent.len());
    let mut missing = BTreeSet::new();
    for (tp, _) in sent {
        match answered.remove(&(tp.topic.clone(), tp.partition)) {
            Some(produced) => partitions.push(produced),
            None => drop(missing.insert(tp.to_string())),
        }
    }
    if let Some(tp) = missing.first() {
        return Err(format!("no word about {tp} ({} missing)", missing.len()));
    }
    if let Some(other) = answered.into_values().next() {
        return Err(format!("{} was not in the request", other.tp));
    }
    let throttle = Duration::from_millis(u64::try_from(response.throttle_time_ms).unwrap_or(0));
    Ok(ProduceAnswer { throttle, partitions })
}
