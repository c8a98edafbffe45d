//! Requests and answers over one connection, with a peer that behaves well, slowly, or badly.

mod support;

use std::time::Duration;

use bytes::Bytes;
use support::{API, FLEXIBLE, OLD, answer_frame, connected, error_text};
use tokio::io::AsyncReadExt;
use twinlog_protocol::messages::MetadataRequest;
use twinlog_protocol::{ProtocolError, Request as _};
use twinlog_wire::{Connection, Options, Pending, WireError};

fn send(connection: &Connection, body: &'static [u8]) -> Pending {
    connection.send_parts(API, OLD, vec![Bytes::from_static(body)]).expect("queued")
}

fn short_wait() -> Options {
    Options { request_timeout: Duration::from_secs(30), ..Options::default() }
}

#[tokio::test]
async fn answers_find_their_requests_in_order() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    let pending: Vec<_> =
        [&b"a"[..], b"bb", b"ccc"].into_iter().map(|body| send(&connection, body)).collect();
    let mut requests = Vec::new();
    for body in [&b"a"[..], b"bb", b"ccc"] {
        let request = peer.request().await;
        assert_eq!(request.body, body);
        assert_eq!(request.client_id.as_deref(), Some("twinlog"));
        requests.push(request);
    }
    for request in &requests {
        peer.answer(request, &request.body).await;
    }
    for (pending, body) in pending.into_iter().zip([&b"a"[..], b"bb", b"ccc"]) {
        assert_eq!(pending.await.expect("answered"), body);
    }
}

#[tokio::test]
async fn a_request_can_be_waited_for_before_or_after_its_answer_or_not_at_all() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    let (first, second, third) =
        (send(&connection, b"1"), send(&connection, b"2"), send(&connection, b"3"));
    drop(second);
    for _ in 0..3 {
        let request = peer.request().await;
        peer.answer(&request, &request.body).await;
    }
    assert_eq!(third.await.expect("answered"), &b"3"[..]);
    assert_eq!(first.await.expect("answered"), &b"1"[..]);
}

#[tokio::test]
async fn a_flexible_answer_header_is_stepped_over() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    let pending = connection.send_parts(API, FLEXIBLE, vec![Bytes::from_static(b"?")]);
    let request = peer.request().await;
    assert_eq!(request.body, &b"?"[..]);
    peer.answer(&request, b"body").await;
    assert_eq!(pending.expect("queued").await.expect("answered"), &b"body"[..]);
}

#[tokio::test]
async fn another_requests_answer_closes_the_connection_for_all() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    let (first, second) = (send(&connection, b"1"), send(&connection, b"2"));
    let request = peer.request().await;
    let other = peer.request().await;
    peer.write(&answer_frame(&request, other.correlation_id, b"")).await;
    assert_eq!(
        first.await,
        Err(WireError::UnexpectedCorrelation {
            peer: "broker:9092".into(),
            api: API,
            expected: request.correlation_id,
            found: other.correlation_id,
        })
    );
    let reason = "connection to broker:9092 closed before the answer to Metadata: \
                  answer 2 where 1 (Metadata) was due";
    assert_eq!(error_text(second.await), reason);
    assert!(connection.is_closed());
    let later = connection.send_parts(API, OLD, vec![]).expect_err("closed");
    assert_eq!(later.to_string(), reason);
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn an_answer_to_nothing_closes_the_connection() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    peer.write(&[0, 0, 0, 4, 0, 0, 0, 1]).await;
    assert_eq!(peer.next().await, None);
    let error = connection.call(&MetadataRequest::default(), OLD).await.expect_err("closed");
    assert!(error.to_string().ends_with("the peer answered what was not asked"), "{error}");
}

#[tokio::test]
async fn a_frame_above_the_limit_is_refused_unread() {
    let options = Options { frame_bytes_max: 1000, ..Options::default() };
    let (connection, mut peer) = connected(4096, &options).await;
    let (first, second) = (send(&connection, b"1"), send(&connection, b"2"));
    peer.request().await;
    peer.write(&1001_i32.to_be_bytes()).await;
    assert_eq!(
        error_text(first.await),
        "broker:9092 answers Metadata with a frame of 1001 bytes, more than 1000"
    );
    assert!(matches!(second.await, Err(WireError::Closed { .. })));
}

#[tokio::test]
async fn a_frame_at_the_limit_is_read() {
    let options = Options { frame_bytes_max: 1000, ..Options::default() };
    let (connection, mut peer) = connected(4096, &options).await;
    let pending = send(&connection, b"1");
    let request = peer.request().await;
    peer.answer(&request, &[7; 996]).await;
    assert_eq!(pending.await.expect("answered").len(), 996);
}

#[tokio::test]
async fn a_negative_length_closes_the_connection() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    let pending = send(&connection, b"1");
    peer.request().await;
    peer.write(&(-5_i32).to_be_bytes()).await;
    assert!(error_text(pending.await).ends_with("the peer announced a frame of -5 bytes"));
}

#[tokio::test]
async fn a_frame_cut_anywhere_is_an_error_for_every_request() {
    let mut length = usize::MAX;
    let mut cut = 0;
    while cut < length {
        let (connection, mut peer) = connected(4096, &Options::default()).await;
        let first = connection.send_parts(API, FLEXIBLE, vec![]).expect("queued");
        let second = send(&connection, b"2");
        let request = peer.request().await;
        let frame = answer_frame(&request, request.correlation_id, b"body");
        length = frame.len();
        peer.write(&frame[..cut]).await;
        drop(peer);
        let expected = match cut {
            0 => "closed by the peer".to_owned(),
            1..4 => format!("closed by the peer after {cut} of 4 bytes of a frame"),
            _ => format!("closed by the peer after {cut} of {length} bytes of a frame"),
        };
        for pending in [first, second] {
            let error = error_text(pending.await);
            assert!(error.ends_with(&expected), "{cut}: {error}");
        }
        cut += 1;
    }
}

#[tokio::test]
async fn a_frame_too_short_for_its_header_is_named() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    let pending = send(&connection, b"1");
    peer.request().await;
    peer.write(&[0, 0, 0, 2, 0, 0]).await;
    assert_eq!(
        pending.await,
        Err(WireError::Decode {
            peer: "broker:9092".into(),
            api: API,
            error: ProtocolError::Truncated { what: "answer header", length: 2 },
        })
    );
}

#[tokio::test]
async fn requests_and_answers_pass_through_the_narrowest_pipe() {
    for capacity in [1, 2, 3, 7, 64] {
        let (connection, mut peer) = connected(capacity, &Options::default()).await;
        // More parts than one vectored write takes, and empty ones among them.
        let parts: Vec<_> = (0..150_u8)
            .flat_map(|n| [Bytes::from(vec![n; usize::from(n) % 5]), Bytes::new()])
            .collect();
        let whole = parts.concat();
        let many = connection.send_parts(API, OLD, parts).expect("queued");
        let one = send(&connection, b"next");
        for _ in 0..2 {
            let request = peer.request().await;
            peer.answer(&request, &request.body).await;
        }
        assert_eq!(many.await.expect("answered"), whole);
        assert_eq!(one.await.expect("answered"), &b"next"[..]);
    }
}

#[tokio::test]
async fn several_answers_in_one_read_are_told_apart() {
    let (connection, mut peer) = connected(1 << 20, &Options::default()).await;
    let pending: Vec<_> = (0..20).map(|_| send(&connection, b"?")).collect();
    let mut burst = Vec::new();
    for size in 0..20 {
        let request = peer.request().await;
        let body = vec![size as u8; size * 1000];
        burst.extend_from_slice(&answer_frame(&request, request.correlation_id, &body));
    }
    peer.write(&burst).await;
    for (size, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.await.expect("answered"), vec![size as u8; size * 1000]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_never_read() {
    let (connection, mut peer) = connected(4096, &short_wait()).await;
    let (first, second) = (send(&connection, b"1"), send(&connection, b"2"));
    let request = peer.request().await;
    assert_eq!(
        error_text(first.await),
        "broker:9092 did not answer Metadata within 30s; connection closed"
    );
    let error = error_text(second.await);
    assert!(error.ends_with("Metadata was not answered within 30s"), "{error}");
    assert!(connection.is_closed());
    let late = answer_frame(&request, request.correlation_id, b"late");
    let _ = tokio::io::AsyncWriteExt::write_all(&mut peer.0, &late).await;
    assert!(connection.send_parts(API, OLD, vec![]).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_slow_peer_is_in_time_until_the_timeout() {
    let (connection, mut peer) = connected(4096, &short_wait()).await;
    for _ in 0..3 {
        let pending = send(&connection, b"1");
        let request = peer.request().await;
        tokio::time::advance(Duration::from_millis(29_999)).await;
        peer.answer(&request, b"slow").await;
        assert_eq!(pending.await.expect("in time"), &b"slow"[..]);
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_has_its_own_time() {
    let (connection, mut peer) = connected(4096, &short_wait()).await;
    let first = send(&connection, b"1");
    let request = peer.request().await;
    tokio::time::advance(Duration::from_secs(20)).await;
    let second = send(&connection, b"2");
    peer.answer(&request, b"one").await;
    assert_eq!(first.await.expect("in time"), &b"one"[..]);
    let sent = tokio::time::Instant::now();
    assert!(matches!(second.await, Err(WireError::Timeout { .. })));
    assert_eq!(sent.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_lives_on() {
    let (connection, mut peer) = connected(4096, &short_wait()).await;
    tokio::time::advance(Duration::from_hours(1)).await;
    let pending = send(&connection, b"1");
    let request = peer.request().await;
    peer.answer(&request, b"still").await;
    assert_eq!(pending.await.expect("answered"), &b"still"[..]);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_a_timeout_too() {
    let (connection, peer) = connected(64, &short_wait()).await;
    let pending = connection.send_parts(API, OLD, vec![Bytes::from(vec![0; 10_000])]);
    assert!(matches!(pending.expect("queued").await, Err(WireError::Timeout { .. })));
    drop(peer);
}

#[tokio::test]
async fn closing_fails_every_request_on_its_way() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    let pending: Vec<_> = (0..10).map(|_| send(&connection, b"?")).collect();
    peer.request().await;
    connection.close();
    for pending in pending {
        assert_eq!(
            error_text(pending.await),
            "connection to broker:9092 closed before the answer to Metadata: closed by us"
        );
    }
    // Whatever was written before is followed by the end of the stream.
    let mut rest = Vec::new();
    peer.0.read_to_end(&mut rest).await.expect("an orderly end");
}

#[tokio::test]
async fn the_last_handle_closes_but_not_before_the_last_answer() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    let clone = connection.clone();
    drop(connection);
    let pending = send(&clone, b"1");
    drop(clone);
    let request = peer.request().await;
    peer.answer(&request, b"there").await;
    assert_eq!(pending.await.expect("answered"), &b"there"[..]);
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn no_more_requests_are_taken_than_agreed() {
    let options = Options { in_flight_max: 2, ..Options::default() };
    let (connection, mut peer) = connected(4096, &options).await;
    let first = send(&connection, b"1");
    let _second = send(&connection, b"2");
    assert_eq!(
        connection.send_parts(API, OLD, vec![]).expect_err("full").to_string(),
        "Metadata for broker:9092 was not sent: 2 requests are unanswered"
    );
    let request = peer.request().await;
    peer.answer(&request, b"").await;
    first.await.expect("answered");
    let third = send(&connection, b"3");
    drop(third);
}

#[tokio::test]
async fn a_call_waits_for_room_and_hears_of_the_end_while_it_waits() {
    let options = Options { in_flight_max: 1, ..Options::default() };
    let (connection, peer) = connected(4096, &options).await;
    let pending = send(&connection, b"1");
    let request = MetadataRequest::default();
    let call = connection.call(&request, OLD);
    let (outcome, answer, ()) = tokio::join!(call, pending, async { drop(peer) });
    assert!(answer.is_err());
    assert!(outcome.expect_err("closed").to_string().ends_with("closed by the peer"));
}

#[tokio::test]
async fn a_call_that_cannot_be_decoded_closes_the_connection() {
    let (connection, mut peer) = connected(4096, &Options::default()).await;
    let request = MetadataRequest::default();
    let (outcome, ()) = tokio::join!(connection.call(&request, OLD), async {
        let request = peer.request().await;
        peer.answer(&request, &[0x7f; 6]).await;
    });
    let error = outcome.expect_err("not a Metadata answer");
    assert!(matches!(&error, WireError::Decode { api, .. } if *api == MetadataRequest::KEY));
    assert!(error.to_string().starts_with("broker:9092 answered Metadata: "), "{error}");
    assert!(connection.is_closed());
}

#[tokio::test]
async fn a_request_that_cannot_be_encoded_costs_nothing() {
    let (connection, _peer) = connected(4096, &Options::default()).await;
    let request = MetadataRequest::default().with_include_topic_authorized_operations(true);
    let error = connection.call(&request, OLD).await.expect_err("version 5 lacks the field");
    assert!(matches!(error, WireError::Encode { .. }));
    assert!(error.never_sent());
    assert!(!connection.is_closed());
}

#[test]
fn a_runtime_that_shuts_down_leaves_nobody_waiting() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (pending, _peer) = runtime.block_on(async {
        let (connection, peer) = connected(4096, &Options::default()).await;
        (send(&connection, b"1"), peer)
    });
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    assert!(error_text(runtime.block_on(pending)).ends_with("the runtime is shutting down"));
}
