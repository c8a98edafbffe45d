//! The cluster against what real brokers answered, over its real protocol.

mod acls;
mod configs;
mod coordinators;
mod faults;
mod fetch;
mod groups;
mod idempotence;
mod leaders;
mod protocol;
mod replication;
mod quotas;
mod rights;
mod sasl;
mod storage;
mod support;
mod transactions;
mod validation;
