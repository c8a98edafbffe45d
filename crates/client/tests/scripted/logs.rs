use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use twinlog_batch::{Codec, Outgoing, encode, encode_transactional};
use twinlog_client::{ErrorCode, Isolation, LeaderView, ListedOffset, OffsetSpec};
use twinlog_protocol::ApiKey;
use twinlog_protocol::messages::{
    FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse,
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProducerId, fetch_response,
    list_offsets_response, offset_for_leader_epoch_response, topic_name, topic_uuid,
};
use twinlog_types::{Cut, Sequence, TopicPartition};

use crate::broker::{Call, Fake, ORDERS, Reply, metadata};
use crate::produce::record;

fn tp() -> TopicPartition {
    TopicPartition::new("orders", 0)
}

/// Answers every lookup: the earliest offset is 2, the latest 7; or this code.
fn listed(call: &Call, code: i16) -> Reply {
    let request: ListOffsetsRequest = call.request();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|asked| {
            list_offsets_response::ListOffsetsPartitionResponse::default()
                .with_partition_index(asked.partition_index)
                .with_error_code(code)
                .with_offset(if asked.timestamp == -2 { 2 } else { 7 })
                .with_leader_epoch(asked.current_leader_epoch)
        });
        list_offsets_response::ListOffsetsTopicResponse::default()
            .with_name(topic.name)
            .with_partitions(partitions.collect())
    });
    let response = ListOffsetsResponse::default().with_topics(topics.collect());
    call.answer::<ListOffsetsRequest>(&response)
}

fn listing(codes: &'static [i16]) -> Arc<Fake> {
    let mut codes = codes.iter();
    Fake::new(move |call| match call.api {
        ApiKey::ListOffsets => listed(call, *codes.next().unwrap_or(&0)),
        _ => metadata(call, &[(1, 3)]),
    })
}

#[tokio::test(start_paused = true)]
async fn both_ends_of_a_partition_are_looked_up_in_two_requests_under_the_leader_epoch() {
    let fake = listing(&[]);
    let missing = TopicPartition::new("missing", 0);
    let wanted = [
        (tp(), OffsetSpec::Earliest),
        (missing.clone(), OffsetSpec::Latest),
        (tp(), OffsetSpec::Latest),
    ];
    let answers = fake.cluster().list_offsets(&wanted, Isolation::ReadCommitted).await.unwrap();
    let offset = |offset| Ok(ListedOffset { offset, timestamp: -1, leader_epoch: 3 });
    assert_eq!(
        answers,
        [
            (tp(), offset(2)),
            (missing, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)),
            (tp(), offset(7)),
        ]
    );
    assert_eq!(fake.calls(ApiKey::ListOffsets).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_not_ready_is_asked_again() {
    let fake = listing(&[78, 74, 6]);
    let wanted = [(tp(), OffsetSpec::Latest)];
    let answers = fake.cluster().list_offsets(&wanted, Isolation::ReadUncommitted).await.unwrap();
    assert_eq!(answers[0].1.map(|listed| listed.offset), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn every_code_that_ends_a_view_comes_back_at_once() {
    for code in [6, 74, 75, 78] {
        let fake = Fake::new(move |call| match call.api {
            ApiKey::OffsetForLeaderEpoch => {
                let request: OffsetForLeaderEpochRequest = call.request();
                assert_eq!(request.topics[0].partitions[0].current_leader_epoch, 3);
                let partition = offset_for_leader_epoch_response::EpochEndOffset::default()
                    .with_error_code(code);
                let topic = offset_for_leader_epoch_response::OffsetForLeaderTopicResult::default()
                    .with_topic(topic_name("orders"))
                    .with_partitions(vec![partition]);
                call.answer::<OffsetForLeaderEpochRequest>(
                    &OffsetForLeaderEpochResponse::default().with_topics(vec![topic]),
                )
            }
            ApiKey::Fetch => {
                let request: FetchRequest = call.request();
                assert_eq!(request.topics[0].partitions[0].current_leader_epoch, 3);
                assert_eq!((request.session_id, request.session_epoch), (0, -1));
                fetched(call, code, Bytes::new(), &[])
            }
            _ => metadata(call, &[(1, 3)]),
        });
        let view = fake.cluster().leader_view(&tp()).await.unwrap();
        let end = view.log_end().await.unwrap_err();
        let wait = Duration::from_millis(10);
        let tail = view.fetch(0, 1000, wait, Isolation::ReadUncommitted).await.unwrap_err();
        for error in [end, tail] {
            assert_eq!(error.code(), Some(ErrorCode(code)));
            assert!(LeaderView::is_outdated(&error), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_of_a_topic_that_is_gone_is_given_up_before_the_deadline() {
    let fake = listing(&[]);
    let began = tokio::time::Instant::now();
    let gone = TopicPartition::new("gone", 0);
    let error = fake.cluster().leader_view(&gone).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert!(began.elapsed() < Duration::from_secs(10));
}

fn fetched(call: &Call, code: i16, records: Bytes, aborted: &[(i64, i64)]) -> Reply {
    let aborted = aborted.iter().map(|(producer, first)| {
        fetch_response::AbortedTransaction::default()
            .with_producer_id(ProducerId(*producer))
            .with_first_offset(*first)
    });
    let partition = fetch_response::PartitionData::default()
        .with_error_code(code)
        .with_records(Some(records))
        .with_aborted_transactions(Some(aborted.collect()));
    let topic = fetch_response::FetchableTopicResponse::default()
        .with_topic_id(topic_uuid(ORDERS))
        .with_partitions(vec![partition]);
    call.answer::<FetchRequest>(&FetchResponse::default().with_responses(vec![topic]))
}

/// A batch as it lies in a log: the base offset is not covered by the CRC.
fn stored(batch: &Outgoing, base_offset: i64) -> Bytes {
    let mut bytes = BytesMut::from(&batch.to_bytes()[..]);
    bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
    bytes.freeze()
}

fn cut(producer_id: i64, count: u32) -> Cut {
    Cut { producer_id, producer_epoch: 0, base_sequence: Sequence::default(), count }
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_read_to_its_end_without_aborted_records() {
    // The log: 0-2 plain (2 is the log start offset), 3 of an aborted transaction of producer 8,
    // 4 of an open or committed one of producer 9, 5-7 plain; 7 lies beyond the end, which is 7.
    let plain = encode(&[record("a"), record("b"), record("c")], Codec::None, cut(5, 3));
    let gone = encode_transactional(&[record("gone")], Codec::None, cut(8, 1));
    let kept = encode_transactional(&[record("kept")], Codec::None, cut(9, 1));
    let log: Vec<Bytes> =
        vec![stored(&plain, 0), stored(&gone, 3), stored(&kept, 4), stored(&plain, 5)];
    let mut fetches = 0;
    let fake = Fake::new(move |call| match call.api {
        ApiKey::ListOffsets => listed(call, 0),
        ApiKey::Fetch => {
            let request: FetchRequest = call.request();
            let from = request.topics[0].partitions[0].fetch_offset;
            fetches += 1;
            match fetches {
                // The first answer ends inside the third batch, the second fails.
                1 => {
                    assert_eq!(from, 2);
                    let mut all = log[0].to_vec();
                    all.extend_from_slice(&log[1]);
                    all.extend_from_slice(&log[2][..30]);
                    fetched(call, 0, all.into(), &[(8, 3)])
                }
                2 => fetched(call, 6, Bytes::new(), &[]),
                _ => {
                    assert_eq!(from, 4);
                    let mut all = log[2].to_vec();
                    all.extend_from_slice(&log[3]);
                    fetched(call, 0, all.into(), &[])
                }
            }
        }
        _ => metadata(call, &[(1, 3)]),
    });
    let cluster = fake.cluster();
    let records = cluster.read_partition(&tp(), 0, Isolation::ReadCommitted).await.unwrap();
    let read: Vec<(i64, &[u8])> = records
        .iter()
        .map(|record| (record.offset, record.value.as_deref().expect("a value")))
        .collect();
    assert_eq!(read, [(2, b"c" as &[u8]), (4, b"kept"), (5, b"a"), (6, b"b")]);
}
