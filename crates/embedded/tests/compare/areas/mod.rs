//! The scripts, one per family of requests.

pub(crate) mod admin;
pub(crate) mod cluster;
pub(crate) mod commits;
pub(crate) mod configs;
pub(crate) mod consumer_groups;
pub(crate) mod fetch;
pub(crate) mod groups;
pub(crate) mod idempotence;
pub(crate) mod malformed;
pub(crate) mod offsets;
pub(crate) mod produce;
pub(crate) mod topics;
pub(crate) mod transactions;
pub(crate) mod versions;
