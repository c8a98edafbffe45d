//! Who may do what: ACLs, their meaning, and what is taken out of requests and answers.
//!
//! [`acl`] has the words, [`authorizer`] decides, [`gate`] asks it for one connection, and the other
//! files say for each request which right Kafka wants on which resource and how it refuses.
//!
//! Does not authenticate: a connection's principal comes from `sasl` or from whoever connected.
//! Does not know delegation tokens, nor users as a resource.
//!
//! # Invariants
//!
//! 1. Every request that is served has a `Guarded` impl: one that forgets a right does not compile.
//! 2. Refused parts of a request never reach its handler, so they can have no effect.
//! 3. Rights are looked up when a request is served, and again when its answer is cut to what the
//!    caller may see: an answer never shows what was forbidden meanwhile.
//!
//! References: KIP-11, KIP-290, KIP-430, KIP-679, KIP-801; `StandardAuthorizerData`, `Authorizer`,
//! `KafkaApis`, `ControllerApis`, `AclApis`.

mod acl;
mod authorizer;
mod gate;
mod groups;
mod topics;
mod transactions;
mod whole;

pub use acl::{Acl, Operation, Pattern, Permission, Resource};
pub use authorizer::AuthorizerOptions;

pub(crate) use acl::{AclFilter, CLUSTER_NAME};
pub(crate) use authorizer::Acls;
pub(crate) use gate::{Amend, Gate, Guarded, Peer, Verdict};
