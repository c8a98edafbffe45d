//! Development only: real Apache Kafka for tests.
//!
//! Starts brokers, MirrorMaker 2 and Kafka's Java tools from Maven's jars, fills a cluster with the
//! kinds of records that break mirrors, reads clusters back with Kafka's own consumer, and judges a
//! mirror by contents alone. What is judged here is Kafka's word, not ours: nothing in this crate uses
//! twinlog's codec, client or map.
//!
//! It does not: install anything but jars in its own cache folder (see [`jars`]), run where Java 17 or
//! Maven are missing (see [`ring`]), or outlive its test: whatever was started ends with the test
//! process, however that ends (see [`process`]).
//!
//! Everything blocks; a test that needs an async client brings its own runtime.
//!
//! ```no_run
//! use std::time::Duration;
//! use twinlog_testkit::{KafkaCluster, KafkaVersion, ClusterOptions, Shell, availability};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let jars = availability()?.jars(KafkaVersion::V4_3_0)?;
//! let source = KafkaCluster::start(&jars, "hello", &ClusterOptions::default())?;
//! let shell = Shell::start(&jars)?;
//! shell.create_topic(&source.bootstrap(), "orders", 3, 1, &[("cleanup.policy", "compact")])?;
//! # Ok(())
//! # }
//! ```

pub mod broker;
pub mod error;
pub mod jars;
pub mod java;
pub mod mm2;
pub mod oracle;
pub mod ports;
pub mod process;
pub mod ring;
pub mod scratch;
pub mod shell;
pub mod twinlog;
pub mod wait;
pub mod workload;

pub use broker::{Broker, ClusterOptions, KafkaCluster};
pub use error::{Error, Result};
pub use jars::{Jars, Java, KafkaVersion, availability};
pub use java::{JavaTool, ToolOutput};
pub use mm2::Mm2;
pub use oracle::{Dump, Expected, Log, Misplaced, Row};
pub use process::{Process, Signal};
pub use scratch::Scratch;
pub use shell::{CommitAs, Committed, NextRecord, Offsets, Shell};
pub use twinlog::{Embedded, Twinlog};
pub use wait::{wait_until, wait_until_some};
pub use workload::{Live, LiveEvent, TopicKind, TopicPlan, Workload};
