//! Record batches: view, verify, patch, split, merge and re-encode them.
//!
//! A batch that may travel as it is gets a new 61-byte head and keeps its body by reference
//! ([`pass`]); a batch that Kafka's rules or its own holes forbid to pass is decoded
//! ([`Batch::records`]) and encoded anew ([`encode`]). Merging is encoding the records of several
//! batches, splitting is encoding a part of them ([`split`]).
//!
//! Does not: reach a socket, keep state between batches, know topics, decide which path a batch
//! takes.
//!
//! # Invariants
//!
//! 1. No field of a batch decides anything before the CRC of that batch was verified. Only
//!    [`heads`] looks at unverified heads, and says so.
//! 2. Reading is total: any byte string gives a value or a [`BatchError`], never a panic, and
//!    never an allocation that neither the input nor the caller's limit justifies.
//! 3. Keys, values and header values keep null and empty apart; header keys are bytes, their order
//!    and repeats survive.
//! 4. The offset delta of a batch is never patched to hide a hole: a broker stores that broken.
//!
//! # References
//!
//! Kafka's `DefaultRecordBatch`, `DefaultRecord`, `AbstractLegacyRecordBatch`, `LegacyRecord`;
//! KIP-98 (format 2), KIP-110 (zstd), KIP-31 and KIP-32 (format 1), KIP-534 (delete horizon).

mod batch;
mod check;
mod codec;
mod error;
mod head;
mod legacy;
mod outgoing;
mod reader;
mod record;

pub use batch::{Batch, Batches, Control, Heads, OLD_FORMAT_BYTES_MAX, batches, heads};
pub use check::check;
pub use codec::Codec;
pub use error::BatchError;
pub use head::{HEAD_BYTES, Head};
pub use outgoing::{
    Outgoing, encode, encode_plain, encode_transactional, encoded_size_estimate, pass, split,
};
pub use record::{Header, Record, Records};
