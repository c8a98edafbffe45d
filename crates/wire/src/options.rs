//! What can be set about a connection.

use std::time::Duration;

/// How a connection is made and how far it may go.
#[derive(Clone, Debug)]
pub struct Options {
    /// What we call ourselves in every request; quotas and broker logs go by it.
    pub client_id: String,
    /// For the dial, the security handshake and the negotiation of versions together.
    pub connect_timeout: Duration,
    /// From queueing a request to its answer. Longer than the longest wait a request asks of the
    /// broker (a Fetch's `max_wait_ms`).
    pub request_timeout: Duration,
    /// The largest frame that is read.
    pub frame_bytes_max: usize,
    /// How many requests may be queued or unanswered at once.
    pub in_flight_max: usize,
    /// The name of the program, as brokers count their clients (KIP-511).
    pub software_name: String,
    /// The version of the program.
    pub software_version: String,
    /// How the bytes are protected.
    pub security: Security,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client_id: "twinlog".to_owned(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            frame_bytes_max: 256 << 20,
            in_flight_max: 64,
            software_name: "twinlog".to_owned(),
            software_version: env!("CARGO_PKG_VERSION").to_owned(),
            security: Security::Plaintext,
        }
    }
}

/// Kafka's `security.protocol`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Security {
    /// `PLAINTEXT`: neither encrypted nor authenticated.
    #[default]
    Plaintext,
}
