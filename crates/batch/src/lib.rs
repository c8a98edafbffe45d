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
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use twinlog_batch::{BatchError, Outgoing, batches, encode, pass};
//! use twinlog_types::{Cut, Sequence};
//!
//! /// Every data batch of a Fetch answer, ready to be sent; `copied` records were sent before.
//! fn outgoing(fetched: Bytes, mut copied: u64) -> Result<Vec<Outgoing>, BatchError> {
//!     let mut out = Vec::new();
//!     for batch in batches(fetched) {
//!         let batch = batch?;
//!         let head = batch.head();
//!         if head.is_control() || head.record_count == 0 {
//!             continue;
//!         }
//!         let count = head.record_count.unsigned_abs();
//!         let base_sequence = Sequence::of_count(copied);
//!         let cut = Cut { producer_id: 4_000, producer_epoch: 0, base_sequence, count };
//!         out.push(if head.is_dense() && !head.is_append_time() {
//!             pass(&batch, cut)
//!         } else {
//!             encode(&batch.records(64 << 20)?, head.codec()?, cut)
//!         });
//!         copied += u64::from(count);
//!     }
//!     Ok(out)
//! }
//! # assert!(outgoing(Bytes::new(), 0).is_ok_and(|out| out.is_empty()));
//! ```
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
pub use record::{Header, Record, RecordView, Records};
