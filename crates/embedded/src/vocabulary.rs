//! The words in which tests speak to the cluster: records, isolation, kinds of groups, errors.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

/// Which records a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Everything below the high watermark.
    ReadUncommitted,
    /// Everything below the last stable offset that was not aborted.
    ReadCommitted,
}

/// Which protocol a group speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// JoinGroup and SyncGroup.
    Classic,
    /// KIP-848.
    Consumer,
    /// KIP-932.
    Share,
    /// KIP-1071.
    Streams,
}

impl GroupKind {
    /// Kafka's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
            Self::Streams => "streams",
        }
    }
}

/// Key and value of a header.
pub type Header = (Bytes, Option<Bytes>);

/// A record to be written. Without a timestamp it gets the cluster's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// The key.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers, in order, duplicates included.
    pub headers: Vec<Header>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
}

impl NewRecord {
    /// A record with key and value.
    pub fn new(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        Self {
            key: Some(Bytes::copy_from_slice(key.as_ref())),
            value: Some(Bytes::copy_from_slice(value.as_ref())),
            ..Self::default()
        }
    }

    /// With this timestamp.
    pub fn at(mut self, timestamp: i64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// With one more header.
    pub fn header(mut self, key: &str, value: Option<&str>) -> Self {
        let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
        self.headers.push((Bytes::copy_from_slice(key.as_bytes()), value));
        self
    }
}

/// Who wrote a record, from the head of its batch; and what a broker remembers of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerOf {
    /// The producer id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The sequence of this record, or of the last one.
    pub sequence: i32,
}

/// A record as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it lies.
    pub offset: i64,
    /// The record's own timestamp, or the append time where the topic has it.
    pub timestamp: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Vec<Header>,
    /// Who wrote it; `None` without a producer id.
    pub producer: Option<ProducerOf>,
    /// The leader epoch it was written in.
    pub leader_epoch: i32,
}

/// A transaction of a producer that a test plays.
#[derive(Clone, Debug)]
pub struct SourceTransaction {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) sequences: BTreeMap<(String, i32), i32>,
    /// The groups that it commits for.
    pub(crate) groups: BTreeSet<String>,
}

impl SourceTransaction {
    /// The producer id that its batches carry.
    pub fn producer_id(&self) -> i64 {
        self.producer_id
    }
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// No such topic or partition.
    #[error("no partition {1} of topic {0}")]
    NoPartition(String, i32),
    /// Nobody leads the partition.
    #[error("partition {1} of topic {0} has no leader")]
    NoLeader(String, i32),
    /// The cluster refuses, with Kafka's code.
    #[error("refused with {code}: {message}")]
    Refused {
        /// Kafka's error code.
        code: i16,
        /// What is wrong.
        message: String,
    },
}
