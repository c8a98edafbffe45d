//! Planned faults: what happens, to whom, and how often.

use std::time::Duration;

use tokio::time::Instant;
use twinlog_embedded::{Action, Fault};
use twinlog_protocol::ApiKey;
use twinlog_protocol::messages::*;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_code_stands_in_the_place_of_being_served() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    cluster.fault(Fault::new(Action::Answer(6)).api(ApiKey::Produce).partition(TOPIC, 0));
    let refused = client.produce(&batch(1)).await;
    assert_eq!((refused.error_code, refused.base_offset, cluster.log_end(TOPIC, 0)), (6, -1, 0));
    assert_eq!(client.produce(&batch(1)).await.error_code, 0, "once");
}

#[tokio::test(start_paused = true)]
async fn a_code_may_stand_beside_what_was_done() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    cluster.fault(Fault::new(Action::AnswerAfterExecuting(7)).api(ApiKey::Produce));
    let unclear = client.produce(&batch(1)).await;
    assert_eq!((unclear.error_code, unclear.base_offset, cluster.log_end(TOPIC, 0)), (7, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn connections_break_before_after_and_behind_an_answer() {
    let cluster = cluster();
    let rows = [
        (Action::CloseBefore, 0, false),
        (Action::CloseAfter, 1, false),
        (Action::CloseBehindAnswer, 1, true),
    ];
    for (action, appended, answered) in rows {
        let before = cluster.log_end(TOPIC, 0);
        cluster.fault(Fault::new(action.clone()).api(ApiKey::Produce));
        let mut client = Client::to(&cluster, 1);
        client.send(&produce_request(&batch(1), -1, TIMEOUT_MS), 9).await;
        assert_eq!(client.frame().await.is_some(), answered, "{action:?}");
        assert!(client.frame().await.is_none(), "{action:?}");
        assert_eq!(cluster.log_end(TOPIC, 0) - before, appended, "{action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_get_lost_or_come_late() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    for (action, appended) in [(Action::Ignore, 0), (Action::DropAnswer, 1)] {
        let before = cluster.log_end(TOPIC, 0);
        cluster.fault(Fault::new(action.clone()).api(ApiKey::Produce));
        client.send(&produce_request(&batch(1), -1, TIMEOUT_MS), 9).await;
        let lost = tokio::time::timeout(Duration::from_mins(1), client.frame()).await;
        assert!(lost.is_err(), "{action:?}");
        assert_eq!(cluster.log_end(TOPIC, 0) - before, appended, "{action:?}");
    }
    for action in
        [Action::Delay(Duration::from_secs(3)), Action::DelayBefore(Duration::from_secs(3))]
    {
        cluster.fault(Fault::new(action));
        let begun = Instant::now();
        assert_eq!(client.produce(&batch(1)).await.error_code, 0);
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }
}

#[tokio::test(start_paused = true)]
async fn frames_are_damaged() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    cluster.fault(Fault::new(Action::WrongCorrelationId));
    client.send(&ListGroupsRequest::default(), 0).await;
    let frame = client.frame().await.unwrap();
    assert_eq!(i32::from_be_bytes(frame[..4].try_into().unwrap()), 1_000_001);
    cluster.fault(Fault::new(Action::TruncatedFrame));
    client.send(&ListGroupsRequest::default(), 0).await;
    assert!(client.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_throttled_connection_is_muted_and_a_throttled_fetch_answers_nothing() {
    let cluster = cluster();
    let (mut client, mut other) = (Client::to(&cluster, 1), Client::to(&cluster, 1));
    cluster.fault(Fault::new(Action::Throttle(Duration::from_secs(2))).api(ApiKey::Produce));
    let begun = Instant::now();
    let answer = client.call(&produce_request(&batch(1), -1, TIMEOUT_MS), 9).await;
    assert_eq!(
        (answer.throttle_time_ms, begun.elapsed()),
        (2000, Duration::ZERO),
        "answered at once"
    );
    client.call(&ListGroupsRequest::default(), 0).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(2), "the next request waits");
    cluster.fault(Fault::new(Action::Throttle(Duration::from_secs(1))).api(ApiKey::Fetch));
    let answer = other.call(&FetchFrom::offset(0).request(12), 12).await;
    assert_eq!((answer.throttle_time_ms, answer.error_code, answer.responses.len()), (1000, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn faults_are_narrowed_skipped_counted_and_removed() {
    let cluster = cluster();
    cluster.create_topic("other", 1, &[]).unwrap();
    let mut client = Client::to(&cluster, 1);
    let always =
        cluster.fault(Fault::new(Action::Answer(3)).api(ApiKey::Produce).topic(TOPIC).always());
    let elsewhere = cluster.fault(Fault::new(Action::Answer(6)).broker(2));
    cluster.fault(Fault::new(Action::Answer(7)).client_id("somebody else"));
    cluster
        .fault(Fault::new(Action::Answer(5)).api(ApiKey::Produce).topic("other").skip(1).times(2));
    let mut codes = Vec::new();
    for topic in [TOPIC, "other", TOPIC, "other", "other", "other"] {
        let mut request = produce_request(&batch(1), -1, TIMEOUT_MS);
        request.topic_data[0].name = topic_name(topic);
        codes.push(client.call(&request, 9).await.responses[0].partition_responses[0].error_code);
    }
    assert_eq!(codes, [3, 0, 3, 5, 5, 0]);
    assert!(
        cluster.remove_fault(always)
            && !cluster.remove_fault(always)
            && cluster.remove_fault(elsewhere)
    );
    assert_eq!(cluster.pending_faults(), 1);
    cluster.clear_faults();
    assert_eq!((cluster.pending_faults(), client.produce(&batch(1)).await.error_code), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn requests_are_remembered() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    client.produce(&batch(1)).await;
    client.fetch(FetchFrom::offset(0), 12).await;
    let seen = cluster.requests();
    assert_eq!(
        seen.iter().map(|entry| entry.api).collect::<Vec<_>>(),
        [ApiKey::Produce, ApiKey::Fetch]
    );
    assert_eq!(seen[0].partitions, [(TOPIC.to_owned(), 0)]);
    assert_eq!(
        (seen[1].version, seen[1].client_id.as_deref(), seen[1].broker),
        (12, Some("test"), 1)
    );
    cluster.clear_requests();
    assert!(cluster.requests().is_empty());
}
