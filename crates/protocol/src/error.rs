//! What can be wrong with bytes, or with a message that is to become bytes.

use crate::{ApiKey, VersionRange};

/// Why bytes are not the message they should be, or a message cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The frame ends inside its header.
    #[error("the frame of {length} bytes ends inside the {what}")]
    Truncated {
        /// Which header.
        what: &'static str,
        /// The length of the frame.
        length: usize,
    },
    /// The header is not one.
    #[error("the {what} is malformed: {reason}")]
    Header {
        /// Which header.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A request for an API outside the table.
    #[error("api key {key} is not one twinlog speaks")]
    UnknownApi {
        /// Kafka's number.
        key: i16,
        /// What the request is to be answered under.
        correlation_id: i32,
    },
    /// A version outside the table.
    #[error("{api} version {version} is outside the versions {supported} twinlog speaks")]
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
        /// The version asked for.
        version: i16,
        /// What the table offers.
        supported: VersionRange,
    },
    /// The bytes are no such message.
    #[error("the {what} of {api} version {version} cannot be decoded: {reason}")]
    Decode {
        /// `request` or `answer`.
        what: &'static str,
        /// The API.
        api: ApiKey,
        /// The version the bytes were read as.
        version: i16,
        /// What the codec found.
        reason: String,
    },
    /// The message ends before its bytes do: they are of another version, or of another message.
    #[error("the {what} of {api} version {version} leaves {left} bytes unread")]
    Trailing {
        /// `request` or `answer`.
        what: &'static str,
        /// The API.
        api: ApiKey,
        /// The version the bytes were read as.
        version: i16,
        /// How many bytes nothing was read from.
        left: usize,
    },
    /// The message cannot be written at this version, usually because a field is set that the
    /// version does not have.
    #[error("the {what} of {api} version {version} cannot be encoded: {reason}")]
    Encode {
        /// `request` or `answer`.
        what: &'static str,
        /// The API.
        api: ApiKey,
        /// The version asked for.
        version: i16,
        /// What the codec found.
        reason: String,
    },
}
