//! The cluster against what real brokers answered, over its real protocol.

mod acls;
mod configs;
mod consumer_groups;
mod coordinators;
mod faults;
mod fetch;
mod frames;
mod groups;
mod idempotence;
mod leaders;
mod memory;
mod protocol;
mod quotas;
mod replication;
mod rights;
mod sasl;
mod static_members;
mod storage;
mod support;
mod tools;
mod transactions;
mod validation;
