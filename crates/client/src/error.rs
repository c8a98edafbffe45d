//! What can go wrong with a cluster, classified once.
//!
//! Does not: retry. Methods of this crate have retried what is worth it before they answer with
//! one of these.
//!
//! # Invariants
//!
//! 1. Every message names the broker or the thing it is about; none holds a secret.
//! 2. An answer that may or may not have taken effect is never called a refusal: it is
//!    [`ClientError::Unclear`], [`ClientError::Timeout`] or [`ClientError::Closed`].

use twinlog_batch::BatchError;
use twinlog_protocol::{ErrorCode, Remedy};
use twinlog_wire::WireError;

/// Why an operation on a cluster failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection could be made. Nothing was sent.
    #[error("cannot reach {address}: {reason}; check the address, the listener and the network")]
    Unreachable {
        /// Host and port, or the list of them that was tried.
        address: String,
        /// What the operating system or the broker said.
        reason: String,
    },
    /// No answer came in time. The request may or may not have taken effect.
    #[error("no answer in time to {what}")]
    Timeout {
        /// The request and the broker.
        what: String,
    },
    /// The connection ended before the answer. The request may or may not have taken effect.
    #[error("connection to {peer} ended: {reason}")]
    Closed {
        /// Host and port.
        peer: String,
        /// Why it ended.
        reason: String,
    },
    /// The broker answered with an error code.
    #[error("{api} for {about}: {code}{}", .message.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    Code {
        /// The request's name.
        api: &'static str,
        /// What the broker answered.
        code: ErrorCode,
        /// The broker's own words, where it sent any.
        message: Option<String>,
        /// The topic, partition, group or broker it is about.
        about: String,
    },
    /// Another owner has opened this transactional id since. Stop writing.
    #[error(
        "transactional id {transactional_id} belongs to another owner now ({code} from {api}); this one must stop writing"
    )]
    Fenced {
        /// The id.
        transactional_id: String,
        /// The request that found out.
        api: &'static str,
        /// 47, 49 or 90.
        code: ErrorCode,
    },
    /// A transaction may or may not have been committed. Open the transactional id again (which
    /// settles it) and read what is there.
    #[error(
        "outcome of the transaction of {transactional_id} is unknown ({reason}); open it again and read its partition"
    )]
    Unclear {
        /// The id.
        transactional_id: String,
        /// What happened.
        reason: String,
    },
    /// Too many requests are unanswered on the connection already. Nothing was sent.
    #[error("{api} for {peer} was not sent: too many requests are unanswered")]
    Busy {
        /// Host and port.
        peer: String,
        /// The request's name.
        api: &'static str,
    },
    /// The broker is too old (or lacks a feature).
    #[error("{peer} does not support {what}")]
    Unsupported {
        /// Host and port.
        peer: String,
        /// The request and the version of it that is needed.
        what: String,
    },
    /// Stored bytes are damaged.
    #[error("{about} holds a damaged batch: {reason}")]
    Corrupt {
        /// Topic and partition.
        about: String,
        /// Where and what.
        reason: BatchError,
    },
    /// The answer was not what the protocol promises.
    #[error("{peer} answered {api} against the protocol: {reason}")]
    Protocol {
        /// Host and port.
        peer: String,
        /// The request's name.
        api: &'static str,
        /// What was wrong.
        reason: String,
    },
}

impl ClientError {
    /// What may be done about it. Methods of this crate have already done it within their
    /// deadline; the answer tells a caller whether trying again later can help.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Closed { .. } => {
                Remedy::Refresh
            }
            Self::Code { code, .. } => code.remedy(),
            Self::Busy { .. } => Remedy::Retry,
            Self::Fenced { .. } => Remedy::Fatal,
            Self::Unclear { .. }
            | Self::Unsupported { .. }
            | Self::Corrupt { .. }
            | Self::Protocol { .. } => Remedy::Refuse,
        }
    }

    /// The broker's code, when it answered with one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Code { code, .. } | Self::Fenced { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether trying again (elsewhere, or later) can help.
    pub fn is_retriable(&self) -> bool {
        matches!(self.remedy(), Remedy::Retry | Remedy::Refresh | Remedy::Reroute)
    }

    /// Whether the request may have taken effect although no answer says so.
    pub fn is_unclear(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Closed { .. } | Self::Unclear { .. })
    }
}

impl From<WireError> for ClientError {
    fn from(error: WireError) -> Self {
        let peer = error.peer().to_owned();
        match error {
            WireError::Connect { reason, .. } => Self::Unreachable { address: peer, reason },
            WireError::Timeout { api, after, .. } => {
                Self::Timeout { what: format!("{api} from {peer} within {after:?}") }
            }
            WireError::Closed { api, reason, .. } => {
                Self::Closed { peer, reason: format!("{reason} (waiting for {api})") }
            }
            WireError::UnsupportedVersion { api, theirs, ours, .. } => {
                let theirs = theirs.map_or("none".to_owned(), |range| range.to_string());
                Self::Unsupported { peer, what: format!("{api} {ours} (it offers {theirs})") }
            }
            WireError::Busy { api, .. } => Self::Busy { peer, api: api.name() },
            WireError::FrameTooLarge { api, .. }
            | WireError::UnexpectedCorrelation { api, .. }
            | WireError::Decode { api, .. }
            | WireError::Encode { api, .. } => {
                Self::Protocol { peer, api: api.name(), reason: error.to_string() }
            }
            other => Self::Closed { peer, reason: other.to_string() },
        }
    }
}
