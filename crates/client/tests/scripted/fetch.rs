use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use twinlog_client::{
    ClientError, FetchOptions, FetchPartition, FetchSession, FetchedPartition, Isolation,
};
use twinlog_protocol::ApiKey;
use twinlog_protocol::messages::{
    FetchRequest, FetchResponse, ProducerId, fetch_response, topic_name, topic_uuid,
};
use twinlog_types::{TopicId, TopicPartition};

use crate::broker::{Call, Fake, ORDERS, Reply, metadata};

const SESSION: i32 = 77;

/// What a Fetch said: session, epoch, (partition, offset) named, partitions forgotten.
type Said = (i32, i32, Vec<(i32, i64)>, Vec<i32>);

fn said(call: &Call) -> Said {
    let request: FetchRequest = call.request();
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| topic.partitions.clone());
    (
        request.session_id,
        request.session_epoch,
        partitions.map(|partition| (partition.partition, partition.fetch_offset)).collect(),
        forgotten.collect(),
    )
}

fn wanted(partition: i32, offset: i64, topic_id: TopicId) -> FetchPartition {
    FetchPartition {
        tp: TopicPartition::new("orders", partition),
        topic_id,
        offset,
        last_fetched_epoch: -1,
        current_leader_epoch: 3,
        max_bytes: 0,
    }
}

fn answer(call: &Call, code: i16, partitions: Vec<fetch_response::PartitionData>) -> Reply {
    let topic = fetch_response::FetchableTopicResponse::default().with_partitions(partitions);
    let topic = if call.version >= 13 {
        topic.with_topic_id(topic_uuid(ORDERS))
    } else {
        topic.with_topic(topic_name("orders"))
    };
    let topics = if topic.partitions.is_empty() { Vec::new() } else { vec![topic] };
    call.answer::<FetchRequest>(
        &FetchResponse::default()
            .with_error_code(code)
            .with_session_id(if code == 0 { SESSION } else { 0 })
            .with_responses(topics),
    )
}

/// A broker that keeps sessions and never has news, except the codes it is told to answer.
fn quiet(codes: &'static [i16]) -> Arc<Fake> {
    let mut codes = codes.iter();
    Fake::new(move |call| match call.api {
        ApiKey::Fetch => answer(call, *codes.next().unwrap_or(&0), Vec::new()),
        _ => metadata(call, &[(1, 3), (1, 3)]),
    })
}

fn session(fake: &Arc<Fake>) -> FetchSession {
    fake.cluster().fetch_session(1, FetchOptions::default())
}

fn trace(fake: &Fake) -> Vec<Said> {
    fake.calls(ApiKey::Fetch).iter().map(said).collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_names_only_what_changed_and_forgets_what_is_gone() {
    let fake = quiet(&[]);
    let mut session = session(&fake);
    session.fetch(&[wanted(0, 10, ORDERS), wanted(1, 20, ORDERS)]).await.unwrap();
    session.fetch(&[wanted(0, 11, ORDERS), wanted(1, 20, ORDERS)]).await.unwrap();
    session.fetch(&[wanted(0, 11, ORDERS), wanted(1, 20, ORDERS)]).await.unwrap();
    session.fetch(&[wanted(0, 11, ORDERS)]).await.unwrap();
    assert_eq!(
        trace(&fake),
        [
            (0, 0, vec![(0, 10), (1, 20)], vec![]),
            (SESSION, 1, vec![(0, 11)], vec![]),
            (SESSION, 2, vec![], vec![]),
            (SESSION, 3, vec![], vec![1]),
        ]
    );
    let first: FetchRequest = fake.calls(ApiKey::Fetch)[0].request();
    assert_eq!((first.isolation_level, first.max_wait_ms, first.min_bytes), (1, 500, 1));
    assert_eq!(first.topics[0].partitions[0].partition_max_bytes, 1 << 20, "the default");
    assert_eq!(first.topics[0].partitions[0].current_leader_epoch, 3);
}

#[tokio::test(start_paused = true)]
async fn a_recreated_topic_leaves_the_session_under_its_old_id_and_enters_under_the_new() {
    let fake = quiet(&[]);
    let mut session = session(&fake);
    session.fetch(&[wanted(0, 10, TopicId([1; 16]))]).await.unwrap();
    session.fetch(&[wanted(0, 0, ORDERS)]).await.unwrap();
    let second: FetchRequest = fake.calls(ApiKey::Fetch)[1].request();
    assert_eq!(second.forgotten_topics_data[0].topic_id, topic_uuid(TopicId([1; 16])));
    assert_eq!(second.topics[0].topic_id, topic_uuid(ORDERS));
}

#[tokio::test(start_paused = true)]
async fn lost_and_miscounted_sessions_start_over_with_everything_within_the_call() {
    let fake = quiet(&[0, 70, 0, 71]);
    let mut session = session(&fake);
    for _ in 0..3 {
        session.fetch(&[wanted(0, 10, ORDERS)]).await.unwrap();
    }
    let everything = vec![(0, 10)];
    assert_eq!(
        trace(&fake),
        [
            (0, 0, everything.clone(), vec![]),
            (SESSION, 1, vec![], vec![]),
            // 70: the broker does not know the session, so there is none to close.
            (0, 0, everything.clone(), vec![]),
            (SESSION, 1, vec![], vec![]),
            // 71: it does, and this closes it.
            (SESSION, 0, everything, vec![]),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_stays_refused_is_an_error_after_one_repetition() {
    let fake = quiet(&[71, 71, 71]);
    let error = session(&fake).fetch(&[wanted(0, 10, ORDERS)]).await.unwrap_err();
    assert_eq!(error.code().map(|code| code.0), Some(71));
    assert_eq!(trace(&fake).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn topics_are_named_by_id_only_when_all_have_one() {
    let fake = quiet(&[]);
    let mut session = session(&fake);
    session.fetch(&[wanted(0, 10, ORDERS)]).await.unwrap();
    session.fetch(&[wanted(0, 10, ORDERS), wanted(1, 20, TopicId::NONE)]).await.unwrap();
    session.fetch(&[wanted(0, 10, ORDERS)]).await.unwrap();
    let versions: Vec<i16> = fake.calls(ApiKey::Fetch).iter().map(|call| call.version).collect();
    assert_eq!(versions, [18, 12, 18]);
    let by_name: FetchRequest = fake.calls(ApiKey::Fetch)[1].request();
    assert!(by_name.topics.iter().all(|topic| topic.topic.as_str() == "orders"));
    // Each change between ids and names is a new session.
    assert!(trace(&fake).iter().all(|(_, epoch, ..)| *epoch == 0));
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_connection_the_next_call_connects_and_asks_for_everything() {
    let mut fetches = 0;
    let fake = Fake::new(move |call| match call.api {
        ApiKey::Fetch => {
            fetches += 1;
            if fetches == 2 { Reply::Close } else { answer(call, 0, Vec::new()) }
        }
        _ => metadata(call, &[(1, 3)]),
    });
    let mut session = session(&fake);
    session.fetch(&[wanted(0, 10, ORDERS)]).await.unwrap();
    let error = session.fetch(&[wanted(0, 10, ORDERS)]).await.unwrap_err();
    assert!(matches!(error, ClientError::Closed { .. }), "{error}");
    session.fetch(&[wanted(0, 10, ORDERS)]).await.unwrap();
    assert_eq!(trace(&fake)[2], (SESSION, 0, vec![(0, 10)], vec![]));
    let calls = fake.calls(ApiKey::Fetch);
    assert_ne!(calls[1].connection, calls[2].connection);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_does_not_leave_its_answer_to_the_next() {
    let mut fetches = 0;
    let fake = Fake::new(move |call| match call.api {
        ApiKey::Fetch => {
            fetches += 1;
            if fetches == 1 { Reply::Silence } else { answer(call, 0, Vec::new()) }
        }
        _ => metadata(call, &[(1, 3)]),
    });
    let mut session = session(&fake);
    let wanted = [wanted(0, 10, ORDERS)];
    tokio::time::timeout(Duration::from_secs(1), session.fetch(&wanted)).await.unwrap_err();
    session.fetch(&wanted).await.unwrap();
    let calls = fake.calls(ApiKey::Fetch);
    assert_ne!(calls[0].connection, calls[1].connection);
    assert_eq!(said(&calls[1]), (0, 0, vec![(0, 10)], vec![]));
}

#[tokio::test(start_paused = true)]
async fn an_answer_tells_codes_divergence_aborts_and_throttle() {
    let fake = Fake::new(|call| match call.api {
        ApiKey::Fetch => {
            let aborted = [(9, 40), (4, 12)].map(|(producer, first)| {
                fetch_response::AbortedTransaction::default()
                    .with_producer_id(ProducerId(producer))
                    .with_first_offset(first)
            });
            let good = fetch_response::PartitionData::default()
                .with_partition_index(0)
                .with_high_watermark(100)
                .with_last_stable_offset(90)
                .with_log_start_offset(5)
                .with_aborted_transactions(Some(aborted.to_vec()))
                .with_records(Some(Bytes::from_static(b"cut off")));
            let diverged = fetch_response::PartitionData::default()
                .with_partition_index(1)
                .with_aborted_transactions(None)
                .with_records(None)
                .with_diverging_epoch(
                    fetch_response::EpochEndOffset::default().with_epoch(2).with_end_offset(30),
                );
            let topic = fetch_response::FetchableTopicResponse::default()
                .with_topic_id(topic_uuid(ORDERS))
                .with_partitions(vec![good, diverged]);
            let response = FetchResponse::default()
                .with_session_id(SESSION)
                .with_throttle_time_ms(1500)
                .with_responses(vec![topic]);
            call.answer::<FetchRequest>(&response)
        }
        _ => metadata(call, &[(1, 3)]),
    });
    let options = FetchOptions { isolation: Isolation::ReadCommitted, ..FetchOptions::default() };
    let mut session = fake.cluster().fetch_session(1, options);
    let answer = session.fetch(&[wanted(0, 10, ORDERS), wanted(1, 60, ORDERS)]).await.unwrap();
    assert_eq!(answer.throttle, Duration::from_millis(1500));
    let [good, diverged]: [FetchedPartition; 2] = answer.partitions.try_into().unwrap();
    assert_eq!((good.high_watermark, good.last_stable_offset, good.log_start_offset), (100, 90, 5));
    assert_eq!(good.aborted.iter().map(|a| a.first_offset).collect::<Vec<_>>(), [12, 40]);
    assert_eq!(&good.records[..], b"cut off");
    assert!(answer.frame_bytes > good.records.len());
    assert_eq!((diverged.diverging, diverged.records.len()), (Some((2, 30)), 0));
}
