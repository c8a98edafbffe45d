//! What can go wrong on a connection.

use std::sync::Arc;
use std::time::Duration;

use twinlog_protocol::{ApiKey, ProtocolError, VersionRange};

/// Why a request has no answer. Names the peer and the API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// No connection came about.
    #[error("cannot connect to {peer}: {reason}")]
    Connect {
        /// `host:port`.
        peer: Arc<str>,
        /// What happened.
        reason: String,
    },
    /// No answer in time. The connection is closed; whether the request took effect is unknown.
    #[error("{peer} did not answer {api} within {after:?}; connection closed")]
    Timeout {
        /// `host:port`.
        peer: Arc<str>,
        /// The API of the request.
        api: ApiKey,
        /// How long was waited.
        after: Duration,
    },
    /// The connection ended before the answer. Whether the request took effect is unknown, unless
    /// it was queued after the end.
    #[error("connection to {peer} closed before the answer to {api}: {reason}")]
    Closed {
        /// `host:port`.
        peer: Arc<str>,
        /// The API of the request.
        api: ApiKey,
        /// What ended the connection.
        reason: Arc<str>,
    },
    /// The peer announced a frame larger than we read.
    #[error("{peer} answers {api} with a frame of {bytes} bytes, more than {limit}")]
    FrameTooLarge {
        /// `host:port`.
        peer: Arc<str>,
        /// The API of the oldest unanswered request.
        api: ApiKey,
        /// The length announced.
        bytes: usize,
        /// [`Options::frame_bytes_max`](crate::Options::frame_bytes_max).
        limit: usize,
    },
    /// The peer answered another request than the oldest one.
    #[error("{peer} answered request {found} where the answer to {api}, {expected}, was due")]
    UnexpectedCorrelation {
        /// `host:port`.
        peer: Arc<str>,
        /// The API of the oldest unanswered request.
        api: ApiKey,
        /// Its correlation id.
        expected: i32,
        /// The correlation id of the answer.
        found: i32,
    },
    /// The answer is not what it should be.
    #[error("{peer} answered {api}: {error}")]
    Decode {
        /// `host:port`.
        peer: Arc<str>,
        /// The API of the request.
        api: ApiKey,
        /// What is wrong with the bytes.
        error: ProtocolError,
    },
    /// The request cannot be written; nothing was sent.
    #[error("{api} for {peer} was not sent: {error}")]
    Encode {
        /// `host:port`.
        peer: Arc<str>,
        /// The API of the request.
        api: ApiKey,
        /// What is wrong with the request.
        error: ProtocolError,
    },
    /// There is no version of the API that both sides speak.
    #[error(
        "{peer} speaks {} of {api}, we speak {ours}",
        .theirs.map_or("no version".to_owned(), |range| format!("versions {range}"))
    )]
    UnsupportedVersion {
        /// `host:port`.
        peer: Arc<str>,
        /// The API.
        api: ApiKey,
        /// What the broker offers; `None` when it does not know the API.
        theirs: Option<VersionRange>,
        /// What we offer.
        ours: VersionRange,
    },
    /// Too many requests are unanswered already; nothing was sent.
    #[error("{api} for {peer} was not sent: {limit} requests are unanswered")]
    Busy {
        /// `host:port`.
        peer: Arc<str>,
        /// The API of the request.
        api: ApiKey,
        /// [`Options::in_flight_max`](crate::Options::in_flight_max).
        limit: usize,
    },
}

impl WireError {
    /// `host:port` of the peer.
    pub fn peer(&self) -> &str {
        match self {
            Self::Connect { peer, .. }
            | Self::Timeout { peer, .. }
            | Self::Closed { peer, .. }
            | Self::FrameTooLarge { peer, .. }
            | Self::UnexpectedCorrelation { peer, .. }
            | Self::Decode { peer, .. }
            | Self::Encode { peer, .. }
            | Self::UnsupportedVersion { peer, .. }
            | Self::Busy { peer, .. } => peer,
        }
    }

    /// Whether it is certain that the broker never saw the request.
    pub fn never_sent(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. }
                | Self::Encode { .. }
                | Self::UnsupportedVersion { .. }
                | Self::Busy { .. }
        )
    }
}
