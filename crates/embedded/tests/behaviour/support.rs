//! A client that sends single requests, and batches that are broken in chosen places.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, KafkaVersion, NewRecord};
use twinlog_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use twinlog_protocol::messages::fetch_response::PartitionData;
use twinlog_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use twinlog_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use twinlog_protocol::messages::produce_response::PartitionProduceResponse;
use twinlog_protocol::messages::*;
use twinlog_protocol::{Request, decode_response, decode_response_header, encode_request};

pub(crate) const TOPIC: &str = "t";
/// Longer than any test waits.
pub(crate) const TIMEOUT_MS: i32 = 30_000;

pub(crate) fn cluster() -> EmbeddedCluster {
    let cluster = EmbeddedCluster::start(EmbeddedOptions::new("hello"));
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    cluster
}

pub(crate) fn three_brokers(
    version: KafkaVersion,
    configs: &[(&str, &str)],
    replicas: i16,
) -> EmbeddedCluster {
    let mut options = EmbeddedOptions::new("hello").with_brokers(3);
    options.version = version;
    let cluster = EmbeddedCluster::start(options);
    cluster.create_replicated_topic(TOPIC, 1, replicas, configs).unwrap();
    cluster
}

pub(crate) struct Client {
    stream: DuplexStream,
    correlation_id: i32,
}

impl Client {
    pub(crate) fn to(cluster: &EmbeddedCluster, broker: i32) -> Self {
        let (host, port) = cluster.addresses()[broker as usize - 1].clone();
        Self::over(cluster.connect(&host, port).unwrap())
    }

    /// Speaks over a stream that is connected already.
    pub(crate) fn over(stream: DuplexStream) -> Self {
        Self { stream, correlation_id: 0 }
    }

    /// Sends without waiting; the answer is taken with [`receive`](Self::receive).
    pub(crate) async fn send<R: Request>(&mut self, request: &R, version: i16) {
        self.correlation_id += 1;
        let frame = encode_request(request, version, self.correlation_id, "test").unwrap();
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Sends bytes in a frame that is no request.
    pub(crate) async fn send_bare(&mut self, bytes: &[u8]) {
        self.stream.write_i32(bytes.len() as i32).await.unwrap();
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frame; `None` when the broker closed the connection.
    pub(crate) async fn frame(&mut self) -> Option<Bytes> {
        let length = self.stream.read_i32().await.ok()?;
        let mut frame = vec![0; length as usize];
        self.stream.read_exact(&mut frame).await.ok()?;
        Some(frame.into())
    }

    pub(crate) async fn receive<R: Request>(&mut self, version: i16) -> Option<R::Response> {
        let frame = self.frame().await?;
        let (_, body) = decode_response_header(R::KEY, version, frame).unwrap();
        Some(decode_response::<R>(body, version).unwrap())
    }

    pub(crate) async fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.send(request, version).await;
        self.receive::<R>(version).await.expect("an answer")
    }

    /// Produces one batch by name with acks=all (version 9).
    pub(crate) async fn produce(&mut self, batch: &Bytes) -> PartitionProduceResponse {
        self.produce_with(batch, -1, 9, TIMEOUT_MS).await
    }

    pub(crate) async fn produce_with(
        &mut self,
        batch: &Bytes,
        acks: i16,
        version: i16,
        timeout_ms: i32,
    ) -> PartitionProduceResponse {
        let request = produce_request(batch, acks, timeout_ms);
        let response = self.call(&request, version).await;
        response.responses[0].partition_responses[0].clone()
    }

    pub(crate) async fn fetch(&mut self, from: FetchFrom, version: i16) -> PartitionData {
        let response = self.call(&from.request(version), version).await;
        assert_eq!(response.error_code, 0);
        response.responses[0].partitions[0].clone()
    }

    /// (error, epoch, end offset)
    pub(crate) async fn end_of_epoch(&mut self, epoch: i32, current: i32) -> (i16, i32, i64) {
        let partition = OffsetForLeaderPartition::default()
            .with_partition(0)
            .with_current_leader_epoch(current)
            .with_leader_epoch(epoch);
        let topic = OffsetForLeaderTopic::default()
            .with_topic(topic_name(TOPIC))
            .with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![topic]);
        let response = self.call(&request, 4).await;
        let found = &response.topics[0].partitions[0];
        (found.error_code, found.leader_epoch, found.end_offset)
    }

    /// (error, offset, epoch)
    pub(crate) async fn list_offset(
        &mut self,
        timestamp: i64,
        isolation: i8,
        version: i16,
    ) -> (i16, i64, i32) {
        use list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
        let partition =
            ListOffsetsPartition::default().with_partition_index(0).with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default()
            .with_name(topic_name(TOPIC))
            .with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(isolation)
            .with_topics(vec![topic]);
        let response = self.call(&request, version).await;
        let found = &response.topics[0].partitions[0];
        (found.error_code, found.offset, found.leader_epoch)
    }

    /// (producer id, epoch, last sequence, transaction start) of every producer.
    pub(crate) async fn producers(&mut self) -> Vec<(i64, i32, i32, i64)> {
        let topic = describe_producers_request::TopicRequest::default()
            .with_name(topic_name(TOPIC))
            .with_partition_indexes(vec![0]);
        let response =
            self.call(&DescribeProducersRequest::default().with_topics(vec![topic]), 0).await;
        let partition = &response.topics[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        let producers = partition.active_producers.iter();
        producers
            .map(|p| {
                (p.producer_id.0, p.producer_epoch, p.last_sequence, p.current_txn_start_offset)
            })
            .collect()
    }
}

pub(crate) fn produce_request(batch: &Bytes, acks: i16, timeout_ms: i32) -> ProduceRequest {
    let partition = PartitionProduceData::default().with_index(0).with_records(Some(batch.clone()));
    let topic = TopicProduceData::default()
        .with_name(topic_name(TOPIC))
        .with_partition_data(vec![partition]);
    ProduceRequest::default()
        .with_transactional_id(None)
        .with_acks(acks)
        .with_timeout_ms(timeout_ms)
        .with_topic_data(vec![topic])
}

/// A Fetch of partition 0 of the topic.
#[derive(Clone)]
pub(crate) struct FetchFrom {
    pub(crate) offset: i64,
    pub(crate) id: Uuid,
    pub(crate) current_leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
    pub(crate) committed: bool,
    pub(crate) max_wait_ms: i32,
    pub(crate) max_bytes: i32,
    pub(crate) session: (i32, i32),
    pub(crate) rack: &'static str,
}

impl FetchFrom {
    pub(crate) fn offset(offset: i64) -> Self {
        Self {
            offset,
            id: Uuid::nil(),
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            committed: false,
            max_wait_ms: 0,
            max_bytes: 1 << 20,
            session: (0, -1),
            rack: "",
        }
    }

    pub(crate) fn request(&self, version: i16) -> FetchRequest {
        let mut partition = FetchPartition::default()
            .with_partition(0)
            .with_fetch_offset(self.offset)
            .with_partition_max_bytes(self.max_bytes)
            .with_log_start_offset(-1);
        if version >= 9 {
            partition = partition.with_current_leader_epoch(self.current_leader_epoch);
        }
        if version >= 12 {
            partition = partition.with_last_fetched_epoch(self.last_fetched_epoch);
        }
        let topic = if version >= 13 {
            FetchTopic::default().with_topic_id(self.id)
        } else {
            FetchTopic::default().with_topic(topic_name(TOPIC))
        };
        let mut request = FetchRequest::default()
            .with_max_wait_ms(self.max_wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(1 << 24)
            .with_isolation_level(i8::from(self.committed))
            .with_topics(vec![topic.with_partitions(vec![partition])])
            .with_rack_id(string(self.rack));
        if version < 15 {
            request = request.with_replica_id(BrokerId(-1));
        }
        if version >= 7 {
            request = request.with_session_id(self.session.0).with_session_epoch(self.session.1);
        }
        request
    }
}

pub(crate) fn records(count: usize) -> Vec<NewRecord> {
    (0..count).map(|index| NewRecord::new(format!("k{index}"), "value")).collect()
}

/// A batch of `count` plain records, at the cluster's first moment.
pub(crate) fn batch(count: usize) -> Bytes {
    batch_of(&records(count), "none")
}

/// A batch as a producer sends it, made by a cluster of its own.
pub(crate) fn batch_of(records: &[NewRecord], codec: &str) -> Bytes {
    let scratch = EmbeddedCluster::start(EmbeddedOptions::new("scratch"));
    let configs = [
        ("message.timestamp.after.max.ms", "9223372036854775807"),
        ("max.message.bytes", "100000000"),
    ];
    scratch.create_topic(TOPIC, 1, &configs).unwrap();
    scratch.append_compressed(TOPIC, 0, records, codec).unwrap();
    patched(&scratch.batches(TOPIC, 0)[0], |bytes| {
        bytes[12..16].copy_from_slice(&(-1i32).to_be_bytes());
    })
}

/// Changes bytes of a batch and corrects its checksum.
pub(crate) fn patched(batch: &Bytes, change: impl FnOnce(&mut [u8])) -> Bytes {
    let mut bytes = BytesMut::from(&batch[..]);
    change(&mut bytes);
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.freeze()
}

/// The same batch by a producer.
pub(crate) fn by(batch: &Bytes, producer_id: i64, epoch: i16, sequence: i32) -> Bytes {
    patched(batch, |bytes| {
        bytes[43..51].copy_from_slice(&producer_id.to_be_bytes());
        bytes[51..53].copy_from_slice(&epoch.to_be_bytes());
        bytes[53..57].copy_from_slice(&sequence.to_be_bytes());
    })
}

/// The same batch with attribute bits set.
pub(crate) fn with_bits(batch: &Bytes, bits: i16) -> Bytes {
    patched(batch, |bytes| {
        let attributes = i16::from_be_bytes([bytes[21], bytes[22]]) | bits;
        bytes[21..23].copy_from_slice(&attributes.to_be_bytes());
    })
}

/// The same batch with another record count and last offset delta.
pub(crate) fn with_counts(batch: &Bytes, count: i32, last_offset_delta: i32) -> Bytes {
    patched(batch, |bytes| {
        bytes[23..27].copy_from_slice(&last_offset_delta.to_be_bytes());
        bytes[57..61].copy_from_slice(&count.to_be_bytes());
    })
}
