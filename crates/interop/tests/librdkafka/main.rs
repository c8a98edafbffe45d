//! librdkafka against an embedded cluster, over TCP.
//!
//! Every test starts a cluster of its own in a runtime of its own; librdkafka brings its threads. What
//! is expected was written down by the test before it was sent, or is Kafka's rule.

mod admin;
mod groups;
mod produce;
mod support;
mod transactions;
