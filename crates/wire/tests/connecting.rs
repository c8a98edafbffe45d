//! Dialling, and finding out what the broker speaks.

mod support;

use std::time::Duration;

use support::{PipeDial, feature, offer, pipe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use twinlog_protocol::messages::{
    ApiVersionsRequest, DescribeClusterRequest, FetchRequest, HeartbeatRequest, MetadataRequest,
    ProduceRequest,
};
use twinlog_protocol::{ApiKey, RequestFrame, VersionRange, decode_request, encode_response};
use twinlog_wire::{Connection, Dial, Dialing, Options, TcpDial, WireError};

async fn connect(dial: &PipeDial) -> Result<Connection, WireError> {
    Connection::connect(dial, "broker", 9092, &Options::default()).await
}

#[tokio::test]
async fn the_newest_version_that_both_speak_is_chosen() {
    let (dial, mut peer) = pipe(4096);
    let (connection, ()) = tokio::join!(connect(&dial), async {
        let request = peer.request().await;
        assert_eq!(request.version, 4);
        let asked = decode_request::<ApiVersionsRequest>(request.body, 4).expect("decodes");
        assert_eq!(&*asked.client_software_name, "twinlog");
        assert!(!asked.client_software_version.is_empty());
        let answer = offer(&[
            (ApiKey::ApiVersions, 0, 4),
            (ApiKey::Metadata, 0, 12),
            (ApiKey::Fetch, 0, 99),
            (ApiKey::Produce, 14, 15),
            (ApiKey::Heartbeat, -3, -1),
        ])
        .with_finalized_features_epoch(7)
        .with_finalized_features(vec![feature("transaction.version", 2)]);
        let frame = encode_response::<ApiVersionsRequest>(&answer, 4, request.correlation_id);
        peer.write(&frame.expect("encodes")).await;
    });
    let connection = connection.expect("connects");
    assert_eq!(connection.version::<MetadataRequest>(), Ok(12));
    assert_eq!(connection.version::<FetchRequest>(), Ok(18));
    assert_eq!(connection.version_at_most::<FetchRequest>(12), Ok(12));
    assert_eq!(connection.offered(ApiKey::Fetch), Some(VersionRange { min: 0, max: 99 }));
    assert_eq!(connection.features().get("transaction.version"), Some(&2));
    assert_eq!(connection.peer(), "broker:9092");

    let produce = connection.version::<ProduceRequest>().expect_err("too new");
    assert_eq!(produce.to_string(), "broker:9092 speaks versions 14-15 of Produce, we speak 3-13");
    assert!(connection.version::<HeartbeatRequest>().is_err());
    let cluster = connection.version::<DescribeClusterRequest>().expect_err("absent");
    assert_eq!(
        cluster.to_string(),
        "broker:9092 speaks no version of DescribeCluster, we speak 0-2"
    );
    assert!(!connection.is_closed());
}

/// A broker that knows `ApiVersions` up to `max`, and answers newer requests as KIP-511 says.
async fn older_broker(mut peer: support::Peer, max: i16, tells_range: bool) -> Vec<i16> {
    let mut asked = Vec::new();
    loop {
        let request = peer.request().await;
        asked.push(request.version);
        let known = request.version <= max;
        let ranges = [(ApiKey::ApiVersions, 0, max), (ApiKey::Metadata, 0, 8)];
        let ranges = if known {
            &ranges[..]
        } else if tells_range {
            &ranges[..1]
        } else {
            &[]
        };
        let answer = offer(ranges).with_error_code(if known { 0 } else { 35 });
        let version = if known { request.version } else { 0 };
        let frame = encode_response::<ApiVersionsRequest>(&answer, version, request.correlation_id);
        peer.write(&frame.expect("encodes")).await;
        if known {
            return asked;
        }
    }
}

#[tokio::test]
async fn an_older_broker_is_asked_again_at_the_version_it_names() {
    let (dial, peer) = pipe(4096);
    let (connection, asked) = tokio::join!(connect(&dial), older_broker(peer, 3, true));
    assert_eq!(asked, [4, 3]);
    assert_eq!(connection.expect("connects").version::<MetadataRequest>(), Ok(8));
}

#[tokio::test]
async fn a_broker_that_names_no_version_is_asked_at_version_0() {
    let (dial, peer) = pipe(4096);
    let (connection, asked) = tokio::join!(connect(&dial), older_broker(peer, 2, false));
    assert_eq!(asked, [4, 0]);
    assert_eq!(connection.expect("connects").version::<MetadataRequest>(), Ok(8));
}

#[tokio::test]
async fn a_broker_that_refuses_every_version_is_not_asked_for_ever() {
    let (dial, mut peer) = pipe(4096);
    let (outcome, asked) = tokio::join!(connect(&dial), async {
        let mut asked = Vec::new();
        while let Some(request) = peer.next().await {
            asked.push(request.version);
            let answer = offer(&[(ApiKey::ApiVersions, 0, 99)]).with_error_code(35);
            let frame = encode_response::<ApiVersionsRequest>(&answer, 0, request.correlation_id);
            peer.write(&frame.expect("encodes")).await;
        }
        asked
    });
    assert_eq!(asked, [4, 3, 2, 1, 0]);
    assert_eq!(
        outcome.expect_err("refused").to_string(),
        "cannot connect to broker:9092: ApiVersions is refused: UNSUPPORTED_VERSION(35)"
    );
}

#[tokio::test]
async fn a_peer_that_hangs_up_on_the_first_request_is_named() {
    let (dial, mut peer) = pipe(4096);
    let (outcome, ()) = tokio::join!(connect(&dial), async {
        peer.request().await;
        drop(peer);
    });
    assert_eq!(
        outcome.expect_err("closed").to_string(),
        "connection to broker:9092 closed before the answer to ApiVersions: closed by the peer"
    );
}

#[tokio::test]
async fn a_refused_dial_says_whom_and_why() {
    let (dial, _peer) = pipe(1);
    let taken = dial.dial("broker", 9092).await;
    assert!(taken.is_ok());
    let error = connect(&dial).await.expect_err("refused");
    assert_eq!(error.to_string(), "cannot connect to broker:9092: connection refused");
    assert!(error.never_sent());
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_hangs_ends() {
    struct Hang;
    impl Dial for Hang {
        fn dial<'a>(&'a self, _host: &'a str, _port: u16) -> Dialing<'a> {
            Box::pin(std::future::pending())
        }
    }
    let error = Connection::connect(&Hang, "broker", 9092, &Options::default()).await;
    assert_eq!(
        error.expect_err("no answer").to_string(),
        "cannot connect to broker:9092: no connection within 10s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_accepts_and_says_nothing_is_given_up_as_soon_as_a_dial_that_hangs() {
    let (dial, peer) = pipe(4096);
    let error = connect(&dial).await.expect_err("no answer");
    assert_eq!(
        error.to_string(),
        "cannot connect to broker:9092: connected, but no answer within 10s"
    );
    assert!(error.never_sent());
    drop(peer);
}

#[tokio::test]
async fn giving_up_while_connecting_leaves_nothing_behind() {
    let (dial, mut peer) = pipe(4096);
    tokio::select! {
        biased;
        _ = connect(&dial) => unreachable!("nobody answers"),
        _ = peer.request() => {}
    }
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn a_client_id_that_fits_no_frame_is_an_error() {
    let (dial, _peer) = pipe(1);
    let options = Options { client_id: "x".repeat(40_000), ..Options::default() };
    let error = Connection::connect(&dial, "broker", 9092, &options).await;
    assert!(matches!(error, Err(WireError::Connect { .. })));
}

#[tokio::test]
async fn sockets_work_as_pipes_do() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let broker = async {
        let (mut socket, _) = listener.accept().await.expect("a client");
        for _ in 0..2 {
            let length = socket.read_i32().await.expect("a length");
            let mut frame = vec![0; length as usize];
            socket.read_exact(&mut frame).await.expect("a frame");
            let request = RequestFrame::parse(frame.into()).expect("a request");
            let frame = match request.api {
                ApiKey::ApiVersions => encode_response::<ApiVersionsRequest>(
                    &offer(&[(ApiKey::Metadata, 0, 9)]),
                    request.version,
                    request.correlation_id,
                ),
                _ => encode_response::<MetadataRequest>(
                    &twinlog_protocol::messages::MetadataResponse::default()
                        .with_controller_id(3.into()),
                    request.version,
                    request.correlation_id,
                ),
            };
            socket.write_all(&frame.expect("encodes")).await.expect("written");
        }
    };
    let options = Options { request_timeout: Duration::from_mins(1), ..Options::default() };
    let client = async {
        let connection = Connection::connect(&TcpDial, "127.0.0.1", port, &options).await?;
        let version = connection.version::<MetadataRequest>()?;
        connection.call(&MetadataRequest::default(), version).await
    };
    let (answer, ()) = tokio::join!(client, broker);
    assert_eq!(answer.expect("answered").controller_id, 3);
}
