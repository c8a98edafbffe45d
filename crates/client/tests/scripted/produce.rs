use std::time::Duration;

use bytes::Bytes;
use twinlog_batch::{Codec, Outgoing, Record, encode};
use twinlog_client::{ClientError, ErrorCode, ProducePartition};
use twinlog_protocol::ApiKey;
use twinlog_protocol::messages::{
    ProduceRequest, ProduceResponse, produce_response, topic_name, topic_uuid,
};
use twinlog_types::{Cut, Sequence, TopicId, TopicPartition};

use crate::broker::{Call, Fake, ORDERS, Reply, metadata};

pub(crate) fn record(value: &'static str) -> Record {
    Record {
        offset: 0,
        timestamp: 1,
        key: None,
        value: Some(Bytes::from_static(value.as_bytes())),
        headers: Vec::new(),
    }
}

fn batch(sequence: u64) -> Outgoing {
    let base_sequence = Sequence::of_count(sequence);
    let cut = Cut { producer_id: 5, producer_epoch: 0, base_sequence, count: 1 };
    encode(&[record("x")], Codec::None, cut)
}

fn part(partition: i32, topic_id: TopicId, sequence: u64) -> ProducePartition {
    let tp = TopicPartition::new("orders", partition);
    ProducePartition { tp, topic_id, batch: batch(sequence) }
}

/// The base sequence of the first batch of a request: bytes 53 to 57 of a batch.
fn sequence(call: &Call) -> i32 {
    let request: ProduceRequest = call.request();
    let records = request.topic_data[0].partition_data[0].records.clone().expect("records");
    i32::from_be_bytes(records[53..57].try_into().expect("four bytes"))
}

/// Answers every partition of the request with this code, at offset 100 + sequence; partition
/// `left_out` is not mentioned.
pub(crate) fn produced(call: &Call, code: i16, left_out: i32) -> Reply {
    let request: ProduceRequest = call.request();
    assert_eq!(request.acks, -1);
    let topics = request.topic_data.iter().map(|topic| {
        let partitions = topic.partition_data.iter().rev().filter(|data| data.index != left_out);
        let partitions = partitions.map(|data| {
            produce_response::PartitionProduceResponse::default()
                .with_index(data.index)
                .with_error_code(code)
                .with_base_offset(100 + i64::from(sequence(call)))
                .with_log_append_time_ms(-1)
                .with_log_start_offset(0)
        });
        produce_response::TopicProduceResponse::default()
            .with_name(topic.name.clone())
            .with_topic_id(topic.topic_id)
            .with_partition_responses(partitions.collect())
    });
    let response =
        ProduceResponse::default().with_responses(topics.collect()).with_throttle_time_ms(250);
    call.answer::<ProduceRequest>(&response)
}

#[tokio::test(start_paused = true)]
async fn requests_are_on_their_way_together_and_answered_in_order() {
    let mut arrived = 0;
    let fake = Fake::new(move |call| match call.api {
        ApiKey::Produce => {
            // Nothing is answered before all three are there.
            arrived += 1;
            if arrived < 3 { produced(call, 0, -1).held() } else { produced(call, 0, -1) }
        }
        _ => metadata(call, &[(1, 0)]),
    });
    let lane = fake.cluster().produce_lane(1).await.unwrap();
    let pending: Vec<_> =
        (0..3).map(|at| lane.send(vec![part(0, ORDERS, at)], 1000).unwrap()).collect();
    for (at, answer) in (0i64..).zip(pending) {
        let answer = answer.await.unwrap();
        assert_eq!(answer.partitions[0].base_offset, 100 + at);
        assert_eq!(answer.throttle, Duration::from_millis(250));
    }
    let sequences: Vec<i32> = fake.calls(ApiKey::Produce).iter().map(sequence).collect();
    assert_eq!(sequences, [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_makes_every_pending_answer_unclear() {
    let mut arrived = 0;
    let fake = Fake::new(move |call| match call.api {
        ApiKey::Produce => {
            arrived += 1;
            if arrived < 3 { Reply::Silence } else { Reply::Close }
        }
        _ => metadata(call, &[(1, 0)]),
    });
    let lane = fake.cluster().produce_lane(1).await.unwrap();
    let pending: Vec<_> =
        (0..3).map(|at| lane.send(vec![part(0, ORDERS, at)], 1000).unwrap()).collect();
    for answer in pending {
        let error = answer.await.unwrap_err();
        assert!(error.is_unclear(), "{error}");
    }
    assert!(lane.is_closed());
    assert!(lane.send(vec![part(0, ORDERS, 3)], 1000).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_topic_without_an_id_is_named_in_version_twelve() {
    let fake = Fake::new(|call| match call.api {
        ApiKey::Produce => produced(call, 0, -1),
        _ => metadata(call, &[(1, 0), (1, 0)]),
    });
    let lane = fake.cluster().produce_lane(1).await.unwrap();
    let by_id = lane.send(vec![part(1, ORDERS, 0), part(0, ORDERS, 0)], 1000).unwrap();
    let answered = by_id.await.unwrap().partitions;
    let order: Vec<i32> = answered.iter().map(|told| told.tp.partition).collect();
    assert_eq!(order, [1, 0], "as sent, although the broker answered the other way round");
    lane.send(vec![part(0, TopicId::NONE, 1)], 1000).unwrap().await.unwrap();
    let calls = fake.calls(ApiKey::Produce);
    let requests: Vec<ProduceRequest> = calls.iter().map(Call::request).collect();
    assert_eq!((calls[0].version, calls[1].version), (13, 12));
    assert_eq!(requests[0].topic_data[0].topic_id, topic_uuid(ORDERS));
    assert_eq!(requests[1].topic_data[0].name, topic_name("orders"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_leaves_a_partition_out_is_an_error_and_ends_the_lane() {
    let fake = Fake::new(|call| match call.api {
        ApiKey::Produce => produced(call, 0, 1),
        _ => metadata(call, &[(1, 0), (1, 0)]),
    });
    let lane = fake.cluster().produce_lane(1).await.unwrap();
    let answer = lane.send(vec![part(0, ORDERS, 0), part(1, ORDERS, 0)], 1000).unwrap();
    let error = answer.await.unwrap_err();
    assert!(matches!(&error, ClientError::Protocol { .. }), "{error}");
    assert!(error.to_string().contains("orders-1"), "{error}");
    assert!(lane.is_closed());
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "twice in one request")]
async fn a_partition_is_never_named_twice() {
    let fake = Fake::new(|call| metadata(call, &[(1, 0)]));
    let lane = fake.cluster().produce_lane(1).await.unwrap();
    let _never = lane.send(vec![part(0, ORDERS, 0), part(0, ORDERS, 1)], 1000);
}

#[tokio::test(start_paused = true)]
async fn a_plain_batch_follows_its_leader() {
    let mut produces = 0;
    let fake = Fake::new(move |call| match call.api {
        ApiKey::Produce => {
            produces += 1;
            produced(call, if call.broker == 1 { 6 } else { 0 }, -1)
        }
        _ if produces == 0 => metadata(call, &[(1, 0)]),
        _ => metadata(call, &[(2, 1)]),
    });
    let tp = TopicPartition::new("orders", 0);
    let offset = fake.cluster().produce_plain(&tp, &[record("beat")]).await.unwrap();
    assert_eq!(offset, 99, "a batch without a producer has sequence -1");
    let brokers: Vec<i32> = fake.calls(ApiKey::Produce).iter().map(|call| call.broker).collect();
    assert_eq!(brokers, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_plain_batch_that_is_refused_is_not_sent_again() {
    let fake = Fake::new(|call| match call.api {
        ApiKey::Produce => produced(call, ErrorCode::MESSAGE_TOO_LARGE.0, -1),
        _ => metadata(call, &[(1, 0)]),
    });
    let tp = TopicPartition::new("orders", 0);
    let error = fake.cluster().produce_plain(&tp, &[record("beat")]).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::MESSAGE_TOO_LARGE));
    assert_eq!(fake.calls(ApiKey::Produce).len(), 1);
}
