//! Kafka's messages as bytes, in both directions.
//!
//! This is the only crate that names the codec library (`kafka-protocol`, a copy of which with
//! bounded lengths lies in `vendor/`), so that it can be exchanged. Clients encode requests and
//! decode answers; the embedded broker does the reverse with the same table.
//!
//! Does not: open sockets, wait, decide which version to speak (`wire` negotiates), or look into
//! record batches (`batch` does).
//!
//! # Invariants
//!
//! 1. Decoding is total: any bytes give a value or a [`ProtocolError`], never a panic or an abort,
//!    and cost memory in proportion to the bytes that are there, not to the lengths they claim.
//! 2. The versions of [`Request::MIN`]`..=`[`Request::MAX`] are versions the codec's *structs*
//!    have. (Its own `ApiKey::valid_versions()` is ahead of them for three APIs.)
//! 3. Byte fields that are decoded (records above all) are slices of the frame they came in.
//! 4. A Produce request names a partition once: brokers store only the last entry of a repeated
//!    one and answer success for both.
//!
//! # Traps of the message structs
//!
//! - `Default` of a nullable field is *empty*, not null: `InitProducerIdRequest::default()` has the
//!   transactional id `""`, `MetadataRequest::default()` asks for no topic. Set every nullable field.
//! - A field that the chosen version lacks must keep its default, else encoding fails.
//! - The structs are `#[non_exhaustive]`: start from `default()` and use the `with_…` methods.
//!
//! References: the schemas in Kafka's `clients/src/main/resources/common/message`, KIP-482 (tagged
//! fields), KIP-511 (`ApiVersions` of unknown versions).

mod api;
mod error;
mod error_code;
mod frame;
pub mod messages;
mod primitive;
mod produce;

pub use api::{ApiKey, ApiVisitor, Message, Request, VersionRange, visit_apis};
pub use error::ProtocolError;
pub use error_code::{ErrorCode, Remedy};
pub use frame::{
    RequestFrame, decode_request, decode_response, decode_response_header, encode_body,
    encode_request, encode_request_header, encode_response,
};
pub use produce::{PRODUCE_HEAD_LEN, PartitionPart, produce_parts};
