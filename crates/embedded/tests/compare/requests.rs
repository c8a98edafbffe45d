//! Requests as the scripts need them, each for any version.

use bytes::Bytes;
use twinlog_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use twinlog_protocol::messages::delete_topics_request::DeleteTopicState;
use twinlog_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use twinlog_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use twinlog_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use twinlog_protocol::messages::{
    BrokerId, CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, GroupId, ListOffsetsRequest,
    ProduceRequest, TransactionalId, Uuid, string, topic_name,
};

use crate::pair::{Pair, Result};
use crate::sides::Both;

/// Longer than anything here takes.
pub(crate) const TIMEOUT_MS: i32 = 60_000;

/// A topic of both sides.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: Both<Uuid>,
}

impl Topic {
    /// Name and id of each side.
    pub(crate) fn names(&self) -> Both<(String, Uuid)> {
        self.id.map(|&id| (self.name.clone(), id))
    }
}

/// A topic for CreateTopics.
pub(crate) fn new_topic(
    name: &str,
    partitions: i32,
    replicas: i16,
    configs: &[(&str, Option<&str>)],
) -> CreatableTopic {
    let config = |&(name, value): &(&str, Option<&str>)| {
        CreatableTopicConfig::default().with_name(string(name)).with_value(value.map(string))
    };
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replicas)
        .with_configs(configs.iter().map(config).collect())
}

pub(crate) fn create(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(TIMEOUT_MS)
}

/// ListOffsets of some partitions of a topic, each with the epoch and the timestamp to look for.
pub(crate) fn list_offsets(
    version: i16,
    topic: &str,
    partitions: &[(i32, i32, i64)],
    isolation: i8,
) -> ListOffsetsRequest {
    let partition = |&(index, epoch, timestamp): &(i32, i32, i64)| {
        ListOffsetsPartition::default()
            .with_partition_index(index)
            .with_current_leader_epoch(if version >= 4 { epoch } else { -1 })
            .with_timestamp(timestamp)
    };
    let topic = ListOffsetsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(partitions.iter().map(partition).collect());
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_isolation_level(if version >= 2 { isolation } else { 0 })
        .with_topics(vec![topic]);
    if version >= 10 { request.with_timeout_ms(TIMEOUT_MS) } else { request }
}

/// Produce of one batch (or of anything) to one partition.
pub(crate) fn produce(
    version: i16,
    (topic, id): &(String, Uuid),
    partition: i32,
    records: Option<Bytes>,
    acks: i16,
    transactional_id: Option<&str>,
) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(records);
    let data = TopicProduceData::default().with_partition_data(vec![data]);
    let data =
        if version >= 13 { data.with_topic_id(*id) } else { data.with_name(topic_name(topic)) };
    ProduceRequest::default()
        .with_transactional_id(transactional_id.map(|id| TransactionalId(string(id))))
        .with_acks(acks)
        .with_timeout_ms(TIMEOUT_MS)
        .with_topic_data(vec![data])
}

/// A partition to be fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) epoch: i32,
    pub(crate) last_epoch: i32,
    pub(crate) bytes: i32,
}

impl From {
    pub(crate) fn at(partition: i32, offset: i64) -> Self {
        Self { partition, offset, epoch: -1, last_epoch: -1, bytes: 1 << 20 }
    }

    pub(crate) fn epoch(self, epoch: i32) -> Self {
        Self { epoch, ..self }
    }

    pub(crate) fn last_epoch(self, last_epoch: i32) -> Self {
        Self { last_epoch, ..self }
    }

    pub(crate) fn bytes(self, bytes: i32) -> Self {
        Self { bytes, ..self }
    }
}

/// How a Fetch is to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) wait_ms: i32,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
    pub(crate) committed: bool,
    pub(crate) session: (i32, i32),
}

impl Default for How {
    fn default() -> Self {
        Self { wait_ms: 0, min_bytes: 0, max_bytes: 1 << 24, committed: false, session: (0, -1) }
    }
}

pub(crate) fn fetch(
    version: i16,
    (topic, id): &(String, Uuid),
    from: &[From],
    how: How,
) -> FetchRequest {
    let partition = |from: &From| {
        let partition = FetchPartition::default()
            .with_partition(from.partition)
            .with_fetch_offset(from.offset)
            .with_partition_max_bytes(from.bytes);
        let partition =
            if version >= 9 { partition.with_current_leader_epoch(from.epoch) } else { partition };
        if version >= 12 { partition.with_last_fetched_epoch(from.last_epoch) } else { partition }
    };
    let mut topics = Vec::new();
    if !from.is_empty() {
        let topic = if version >= 13 {
            FetchTopic::default().with_topic_id(*id)
        } else {
            FetchTopic::default().with_topic(topic_name(topic))
        };
        topics.push(topic.with_partitions(from.iter().map(partition).collect()));
    }
    let request = FetchRequest::default()
        .with_cluster_id(None)
        .with_max_wait_ms(how.wait_ms)
        .with_min_bytes(how.min_bytes)
        .with_max_bytes(how.max_bytes)
        .with_isolation_level(i8::from(how.committed))
        .with_topics(topics);
    if version >= 7 {
        request.with_session_id(how.session.0).with_session_epoch(how.session.1)
    } else {
        request
    }
}

pub(crate) fn group(name: &str) -> GroupId {
    GroupId(string(name))
}

impl Pair {
    /// A new topic on both sides, ready to be used.
    pub(crate) fn topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<Topic> {
        self.step(format!("create {name}"));
        let configs: Vec<_> = configs.iter().map(|&(name, value)| (name, Some(value))).collect();
        let answers = self.ask(7, create(vec![new_topic(name, partitions, 1, &configs)]))?;
        let id =
            answers.map(|answer| answer.topics.first().map(|t| t.topic_id).unwrap_or_default());
        self.wait_for(name, partitions)?;
        Ok(Topic { name: name.to_owned(), id })
    }

    /// Waits until partitions of a topic can be used: a broker learns of them in its own time.
    pub(crate) fn wait_for(&mut self, name: &str, partitions: i32) -> Result {
        let all: Vec<_> = (0..partitions).map(|partition| (partition, -1, -1)).collect();
        let version = 9;
        let request = list_offsets(version, name, &all, 0);
        self.step(format!("{name} becomes usable"));
        self.ask_until(version, &Both::same(request), |answer| {
            answer.topics.iter().flat_map(|topic| &topic.partitions).all(|p| p.error_code == 0)
        })?;
        Ok(())
    }

    /// Deletes a topic and waits until it is gone.
    pub(crate) fn delete(&mut self, name: &str) -> Result {
        self.step(format!("delete {name}"));
        let topic = DeleteTopicState::default().with_name(Some(topic_name(name)));
        let request = DeleteTopicsRequest::default().with_timeout_ms(TIMEOUT_MS);
        self.ask(6, request.with_topics(vec![topic]))?;
        self.step(format!("{name} is gone"));
        let request = list_offsets(9, name, &[(0, -1, -1)], 0);
        self.ask_until(9, &Both::same(request), |answer| {
            answer.topics.iter().flat_map(|topic| &topic.partitions).all(|p| p.error_code == 3)
        })?;
        Ok(())
    }

    /// Writes a batch to both sides and expects them to take it.
    pub(crate) fn write(&mut self, topic: &Topic, partition: i32, batch: &Bytes) -> Result {
        let request =
            topic.names().map(|names| produce(9, names, partition, Some(batch.clone()), -1, None));
        self.ask_each(9, &request)?;
        Ok(())
    }
}
