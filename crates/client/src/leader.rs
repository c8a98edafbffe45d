//! The leader of one partition, bound to its epoch: for looking at the end of a log and meaning it.
//!
//! Does not: start over. When the leader is another one meanwhile, every call says so with code 6,
//! 74, 75 or 78, and the caller opens a new view.
//!
//! # Invariants
//!
//! 1. All calls use one connection that nothing else uses.
//! 2. Every call that can carry the leader epoch carries it. DescribeProducers cannot: any replica
//!    answers it, with batches that may yet be truncated, so its answer counts only between two
//!    calls that carry the epoch.
//!
//! References: KIP-101, KIP-279 and KIP-320 (OffsetForLeaderEpoch), KIP-664 (DescribeProducers).

use std::time::Duration;

use twinlog_protocol::messages::{
    DescribeProducersRequest, OffsetForLeaderEpochRequest, describe_producers_request,
    offset_for_leader_epoch_request, topic_name,
};
use twinlog_protocol::{ErrorCode, Remedy};
use twinlog_types::{BrokerId, LeaderEpoch, ProducerId, TopicId, TopicPartition};
use twinlog_wire::Connection;

use crate::cluster::{Cluster, ask_on};
use crate::error::ClientError;
use crate::fetch::{FetchPartition, FetchedPartition, Isolation, fetch_alone};

/// What a replica knows of one producer in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Its id.
    pub producer_id: ProducerId,
    /// Its newest epoch.
    pub epoch: i32,
    /// The sequence of its last record; -1 when only markers are known.
    pub last_sequence: i32,
    /// The newest record timestamp of its last batch: its age, by which it expires.
    pub last_timestamp: i64,
    /// The epoch of the coordinator of its last marker; -1 for none.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins; -1 for none.
    pub txn_start: i64,
}

/// See the module's head.
#[derive(Debug)]
pub struct LeaderView {
    tp: TopicPartition,
    topic_id: TopicId,
    broker: BrokerId,
    epoch: LeaderEpoch,
    connection: Connection,
}

impl Cluster {
    /// Connects to the leader of `tp` with the highest epoch that several brokers know of. Goes
    /// on trying while there is none, or while it cannot be reached.
    pub async fn leader_view(&self, tp: &TopicPartition) -> Result<LeaderView, ClientError> {
        self.retrying(|| self.leader_view_once(tp)).await
    }

    async fn leader_view_once(&self, tp: &TopicPartition) -> Result<LeaderView, ClientError> {
        let topic = self.topic_from_several(&tp.topic).await?;
        let refused = |code| ClientError::Code {
            api: "Metadata",
            code,
            message: None,
            about: tp.to_string(),
        };
        topic.error.ok().map_err(refused)?;
        let info = topic
            .partition(tp.partition)
            .ok_or_else(|| refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
        let broker = info.leader.ok_or_else(|| refused(ErrorCode::LEADER_NOT_AVAILABLE))?;
        let connection = self.connect(broker).await?;
        let (tp, topic_id, epoch) = (tp.clone(), topic.id, info.leader_epoch);
        Ok(LeaderView { tp, topic_id, broker, epoch, connection })
    }
}

impl LeaderView {
    /// The leader's node id.
    pub fn broker(&self) -> BrokerId {
        self.broker
    }

    /// The leader's epoch.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// The topic's id as of the same Metadata.
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// The newest epoch of this log that is not newer than `epoch`, and where it ends; (-1, -1)
    /// when the log has none.
    pub async fn end_of_epoch(
        &self,
        epoch: LeaderEpoch,
    ) -> Result<(LeaderEpoch, i64), ClientError> {
        let response = ask_on(&self.connection, |version| {
            let partition = offset_for_leader_epoch_request::OffsetForLeaderPartition::default()
                .with_partition(self.tp.partition)
                .with_current_leader_epoch(self.epoch)
                .with_leader_epoch(epoch);
            let topic = offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
                .with_topic(topic_name(self.tp.topic.as_str()))
                .with_partitions(vec![partition]);
            let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
            // -1 is an ordinary client; the default is the debugging one.
            if version >= 3 { request.with_replica_id((-1).into()) } else { request }
        })
        .await?;
        let data = response.topics.into_iter().flat_map(|topic| topic.partitions).next();
        let data =
            data.ok_or_else(|| self.protocol("OffsetForLeaderEpoch", "no partition".into()))?;
        self.check("OffsetForLeaderEpoch", data.error_code, None)?;
        Ok((data.leader_epoch, data.end_offset))
    }

    /// The log end, replicated or not: the end of the leader's own epoch.
    pub async fn log_end(&self) -> Result<i64, ClientError> {
        match self.end_of_epoch(self.epoch).await? {
            (_, end) if end >= 0 => Ok(end),
            (epoch, end) => Err(self.protocol(
                "OffsetForLeaderEpoch",
                format!("its own epoch {} ends at {end} (epoch {epoch})", self.epoch),
            )),
        }
    }

    /// Every producer this replica has state of, by id. Idle producers are listed until they
    /// expire; needs READ on the topic.
    pub async fn producers(&self) -> Result<Vec<ProducerState>, ClientError> {
        let response = ask_on(&self.connection, |_| {
            let topic = describe_producers_request::TopicRequest::default()
                .with_name(topic_name(self.tp.topic.as_str()))
                .with_partition_indexes(vec![self.tp.partition]);
            DescribeProducersRequest::default().with_topics(vec![topic])
        })
        .await?;
        let data = response.topics.into_iter().flat_map(|topic| topic.partitions).next();
        let data = data.ok_or_else(|| self.protocol("DescribeProducers", "no partition".into()))?;
        let message = data.error_message.map(|text| text.to_string());
        self.check("DescribeProducers", data.error_code, message)?;
        let mut producers: Vec<ProducerState> = data
            .active_producers
            .into_iter()
            .map(|state| ProducerState {
                producer_id: state.producer_id.0,
                epoch: state.producer_epoch,
                last_sequence: state.last_sequence,
                last_timestamp: state.last_timestamp,
                coordinator_epoch: state.coordinator_epoch,
                txn_start: state.current_txn_start_offset,
            })
            .collect();
        producers.sort_unstable_by_key(|state| state.producer_id);
        Ok(producers)
    }

    /// Reads from the leader. Hides what is not replicated: an empty answer below the log end means
    /// that the high watermark has not reached it. Any code of the partition is an error here.
    pub async fn fetch(
        &self,
        offset: i64,
        max_bytes: i32,
        max_wait: Duration,
        isolation: Isolation,
    ) -> Result<FetchedPartition, ClientError> {
        let wanted = FetchPartition {
            tp: self.tp.clone(),
            topic_id: self.topic_id,
            offset,
            last_fetched_epoch: -1,
            current_leader_epoch: self.epoch,
            max_bytes,
        };
        Ok(fetch_alone(&self.connection, &wanted, max_wait, isolation).await?.0)
    }

    /// Whether an error of this view means that it is to be opened again: the leader changed, is
    /// not ready, or is gone.
    pub fn is_outdated(error: &ClientError) -> bool {
        match error {
            ClientError::Code { code, .. } => code.remedy() == Remedy::Refresh,
            other => other.is_retriable(),
        }
    }

    fn check(
        &self,
        api: &'static str,
        code: i16,
        message: Option<String>,
    ) -> Result<(), ClientError> {
        ErrorCode(code).ok().map_err(|code| ClientError::Code {
            api,
            code,
            message,
            about: format!("{} at {} under epoch {}", self.tp, self.connection.peer(), self.epoch),
        })
    }

    fn protocol(&self, api: &'static str, reason: String) -> ClientError {
        ClientError::Protocol { peer: self.connection.peer().to_owned(), api, reason }
    }
}

impl Drop for LeaderView {
    fn drop(&mut self) {
        self.connection.close();
    }
}
