//! Records of the kinds that break mirrors, made fast by Kafka's own Java producer.
//!
//! Records are numbered per partition from 0: a value starts with `topic/partition/number|`, and a record
//! with a null or empty value carries the same text in a header `id`. Half of a topic's records are three
//! days old. Batches take the codecs none, gzip, snappy, lz4 and zstd in turn.
//!
//! # Invariants
//!
//! 1. Within a partition, numbers rise with offsets; a compacted topic has some missing.
//! 2. Aborted records carry no number, so one that shows up is a foreign record to the oracle.
//! 3. After [`Workload::load`] nothing changes any more until [`Workload::live`]: the cleaner has been
//!    waited for and then switched off for the compacted topics.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Error, IoContext as _, Result};
use crate::scratch::Scratch;
use crate::shell::Shell;

/// What is special about a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopicKind {
    /// Headers (with repeated keys, in an order that matters), null and empty keys and values.
    Plain,
    /// Transactions, every fifth of which is aborted.
    Transactional,
    /// Transactions of at most a thousand records, every tenth of which is aborted.
    TenthAborted,
    /// Few keys and many values, compacted until it has holes; the last twentieth has none.
    Compacted,
    /// The same with holes up to the last ten records.
    CompactedToTheEnd,
    /// Its log starts at 700 in every partition ([`TRIMMED_AT`]).
    Trimmed,
}

/// Where the log of a [`TopicKind::Trimmed`] topic starts.
pub const TRIMMED_AT: i64 = 700;

/// One topic to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopicPlan {
    /// Its name.
    pub name: String,
    /// What is special about it.
    pub kind: TopicKind,
    /// How many partitions it has.
    pub partitions: i32,
    /// How many records are written to all of them together, aborted ones not counted.
    pub records: u64,
}

/// Topics to be made on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The topics.
    pub topics: Vec<TopicPlan>,
    /// The replication factor of all of them.
    pub replication: i16,
    /// The length of a typical value in bytes.
    pub value_bytes: usize,
}

/// What has been made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Loaded {
    /// Records that a `read_committed` consumer could once read, before compaction and trimming.
    pub records: u64,
    /// Records of aborted transactions.
    pub aborted: u64,
    /// Milliseconds by topic, waits for the cleaner included.
    pub millis: BTreeMap<String, u64>,
}

impl Workload {
    /// One topic of each kind and `plain` more plain ones, with `records` records altogether, three
    /// partitions each, replication factor 1.
    pub fn standard(records: u64, plain: u64) -> Self {
        let share = records / (plain + 4);
        let plan = |name: &str, kind| TopicPlan {
            name: name.to_owned(),
            kind,
            partitions: 3,
            records: share,
        };
        let mut topics = vec![
            plan("plain", TopicKind::Plain),
            plan("transactional", TopicKind::Transactional),
            plan("compacted", TopicKind::Compacted),
            // What is trimmed must have been there, and some of what is left must be old.
            TopicPlan {
                records: share.max(3 * 2 * (TRIMMED_AT as u64 + 100)),
                ..plan("trimmed", TopicKind::Trimmed)
            },
        ];
        topics.extend((0..plain).map(|i| plan(&format!("plain-{i:03}"), TopicKind::Plain)));
        Self { topics, replication: 1, value_bytes: 100 }
    }

    /// The names of its topics.
    pub fn names(&self) -> Vec<&str> {
        self.topics.iter().map(|topic| topic.name.as_str()).collect()
    }

    /// Creates and fills the topics, and waits until holes of compaction exist and stay.
    pub fn load(&self, shell: &Shell, bootstrap: &str) -> Result<Loaded> {
        let args = json!({
            "bootstrap": bootstrap, "topics": self.topics, "replication": self.replication,
            "value_bytes": self.value_bytes,
        });
        shell.call("load", args)
    }

    /// Goes on producing to its topics, `rate` records a second, in the same shell that loaded them
    /// (it keeps the numbers). With a `group`, a consumer of that group follows and commits.
    pub fn live<'a>(
        &self,
        shell: &'a Shell,
        bootstrap: &str,
        rate: u64,
        group: Option<&str>,
    ) -> Result<Live<'a>> {
        let scratch = Scratch::new("live")?;
        let file = scratch.path().join("acknowledged");
        let args = json!({
            "bootstrap": bootstrap, "topics": self.topics, "value_bytes": self.value_bytes,
            "rate": rate, "group": group, "file": file,
        });
        let number = shell.call("live-start", args)?;
        Ok(Live { shell, number, file, running: true, _scratch: scratch })
    }
}

/// One line of what a live workload reports.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum LiveEvent {
    /// A record was acknowledged (and its transaction, if any, committed).
    Acknowledged {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The record's number.
        number: i64,
        /// Where it stands.
        offset: i64,
        /// When, in milliseconds since 1970.
        at: i64,
    },
    /// The following group has committed.
    Committed {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The committed offset.
        offset: i64,
        /// When, in milliseconds since 1970.
        at: i64,
    },
    /// A record or a transaction failed for good; its records may be there or not.
    Failed {
        /// What the producer said.
        error: String,
    },
}

/// What a live workload has done, in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LiveTotals {
    /// Acknowledged records.
    pub acknowledged: u64,
    /// Records and transactions that failed.
    pub failed: u64,
    /// Commits of the following group, by partition.
    pub committed: u64,
}

/// A workload that goes on. Dropping it stops it.
#[derive(Debug)]
pub struct Live<'a> {
    shell: &'a Shell,
    number: u64,
    file: PathBuf,
    running: bool,
    _scratch: Scratch,
}

impl Live<'_> {
    /// What it has done so far.
    pub fn totals(&self) -> Result<LiveTotals> {
        self.shell.call("live-totals", json!({"live": self.number}))
    }

    /// What it has reported so far, in order.
    pub fn events(&self) -> Result<Vec<LiveEvent>> {
        // Asking for the totals makes the other side write out what it holds back.
        self.totals()?;
        read_events(&self.file)
    }

    /// Stops it, waiting until all it has sent is acknowledged or has failed.
    pub fn stop(mut self) -> Result<(LiveTotals, Vec<LiveEvent>)> {
        self.running = false;
        let totals = self.shell.call("live-stop", json!({"live": self.number}))?;
        Ok((totals, read_events(&self.file)?))
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        if self.running {
            // Dropped by a failing test, whose own message is the one to show.
            let _ = self.shell.call::<serde_json::Value>("live-stop", json!({"live": self.number}));
        }
    }
}

fn read_events(file: &Path) -> Result<Vec<LiveEvent>> {
    let what = || format!("read {}", file.display());
    let text = std::fs::read_to_string(file).context(what)?;
    // The last line may still be under way.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |line: &str| {
        serde_json::from_str(line).map_err(|error| Error::Malformed {
            what: "a line of the live workload".to_owned(),
            detail: format!("{error}: {line}"),
        })
    };
    whole.lines().map(parse).collect()
}
