//! A peer that does what a test tells it to, over an in-memory pipe.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::io;
use std::sync::Mutex;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use twinlog_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use twinlog_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, string};
use twinlog_protocol::{ApiKey, RequestFrame, encode_response};
use twinlog_wire::{Connection, Dial, Dialing, Options, Stream, WireError};

/// The API that tests send, with whatever bytes: one with the old headers and one with the new.
pub(crate) const API: ApiKey = ApiKey::Metadata;
pub(crate) const OLD: i16 = 5;
pub(crate) const FLEXIBLE: i16 = 12;

/// Hands out one end of a pipe, once.
pub(crate) struct PipeDial(Mutex<Option<DuplexStream>>);

impl Dial for PipeDial {
    fn dial<'a>(&'a self, _host: &'a str, _port: u16) -> Dialing<'a> {
        let end = self.0.lock().expect("not poisoned").take();
        Box::pin(async move {
            let end = end.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(Box::new(end) as Box<dyn Stream>)
        })
    }
}

/// A pipe that holds `capacity` bytes in each direction.
pub(crate) fn pipe(capacity: usize) -> (PipeDial, Peer) {
    let (ours, theirs) = tokio::io::duplex(capacity);
    (PipeDial(Mutex::new(Some(ours))), Peer(theirs))
}

/// The broker's end.
pub(crate) struct Peer(pub(crate) DuplexStream);

impl Peer {
    /// The next request, whole; `None` when the client has gone.
    pub(crate) async fn next(&mut self) -> Option<RequestFrame> {
        let length = self.0.read_i32().await.ok()?;
        let mut frame = BytesMut::zeroed(length as usize);
        self.0.read_exact(&mut frame).await.expect("the client writes frames whole");
        Some(RequestFrame::parse(frame.freeze()).expect("a request"))
    }

    pub(crate) async fn request(&mut self) -> RequestFrame {
        self.next().await.expect("a request")
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("the client reads");
    }

    /// Answers `request` with `body`.
    pub(crate) async fn answer(&mut self, request: &RequestFrame, body: &[u8]) {
        self.write(&answer_frame(request, request.correlation_id, body)).await;
    }

    /// Answers the first request as a broker of Kafka 4.1 would.
    pub(crate) async fn shake_hands(&mut self) {
        let request = self.request().await;
        assert_eq!(request.api, ApiKey::ApiVersions);
        let answer = offer(&[(API, 0, 13), (ApiKey::Fetch, 4, 18), (ApiKey::ApiVersions, 0, 4)]);
        let frame =
            encode_response::<ApiVersionsRequest>(&answer, request.version, request.correlation_id);
        self.write(&frame.expect("encodes")).await;
    }
}

pub(crate) fn answer_frame(request: &RequestFrame, correlation_id: i32, body: &[u8]) -> Bytes {
    let mut frame = vec![0; 4];
    frame.extend(correlation_id.to_be_bytes());
    if request.api.response_header_version(request.version) >= 1 {
        // One tagged field from a newer broker, to be stepped over.
        frame.extend([1, 99, 2, 0xaa, 0xbb]);
    }
    frame.extend(body);
    let length = (frame.len() - 4) as i32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.into()
}

pub(crate) fn offer(apis: &[(ApiKey, i16, i16)]) -> ApiVersionsResponse {
    let apis = apis.iter().map(|(api, min, max)| {
        ApiVersion::default().with_api_key(api.key()).with_min_version(*min).with_max_version(*max)
    });
    ApiVersionsResponse::default().with_api_keys(apis.collect())
}

pub(crate) fn feature(name: &str, level: i16) -> FinalizedFeatureKey {
    FinalizedFeatureKey::default().with_name(string(name)).with_max_version_level(level)
}

/// A connection to a peer that has shaken hands.
pub(crate) async fn connected(capacity: usize, options: &Options) -> (Connection, Peer) {
    let (dial, mut peer) = pipe(capacity);
    let (connection, ()) =
        tokio::join!(Connection::connect(&dial, "broker", 9092, options), peer.shake_hands());
    (connection.expect("connects"), peer)
}

/// What a request ended with, as text.
pub(crate) fn error_text(outcome: Result<Bytes, WireError>) -> String {
    outcome.expect_err("an error").to_string()
}
