//! One connection to one broker: frames, versions, pipelining.
//!
//! [`Connection::connect`] dials, secures and negotiates; after that any number of requests may be
//! on their way at once, and each gets its own answer or its own error.
//!
//! Does not: know what a cluster is, retry, or reconnect. A connection that failed once stays
//! failed; `client` makes another.
//!
//! # Invariants
//!
//! 1. Requests reach the broker in the order in which they were queued, and answers are matched in
//!    that order *and* by correlation id. The first answer that does not fit closes the connection.
//! 2. A request that is not answered in time closes the connection: a late answer is never read as
//!    another request's.
//! 3. Every request that was accepted gets exactly one outcome, also when the connection is closed,
//!    dropped, or the runtime shuts down. Every error names the peer and the API.
//! 4. Memory is bounded: at most [`Options::in_flight_max`] requests are queued or unanswered, and
//!    a frame above [`Options::frame_bytes_max`] is refused before a byte of it is read.
//! 5. Bodies are not copied: parts are written with vectored writes, and an answer is a slice of
//!    the buffer it was read into.
//!
//! References: the protocol guide (<https://kafka.apache.org/protocol>), KIP-511 (`ApiVersions` of
//! versions the broker does not know), KIP-584 (finalized features).

mod connection;
mod dial;
mod driver;
mod error;
mod negotiate;
mod options;
mod shared;

pub use connection::{Connection, Pending};
pub use dial::{Dial, Dialing, Stream, TcpDial};
pub use error::WireError;
pub use options::{Options, Security};
