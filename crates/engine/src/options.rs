//! What an engine is started with besides the configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use twinlog_client::Dial;
use twinlog_types::{ClusterAlias, FlowName, TopicName};

/// Milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What an engine is started with besides the configuration.
#[derive(Clone)]
pub struct EngineOptions {
    /// Names this process in the lease that others see.
    pub instance: String,
    /// Where jitter begins: the same seed gives the same waits.
    pub seed: u64,
    /// How connections are made.
    pub dial: Arc<dyn Dial>,
    /// The wall clock.
    pub clock: Clock,
    /// How often topics, partitions and groups are looked for at least; MM2's refresh intervals
    /// are upper bounds.
    pub discovery_interval: Duration,
    /// How often group offsets are looked at.
    pub groups_interval: Duration,
    /// Fetched bytes that may be held at once, over all flows.
    pub fetched_bytes: usize,
    /// Fetched bytes that one partition may hold.
    pub partition_bytes: usize,
    /// How long an orderly end may take to settle what is in flight.
    pub drain: Duration,
    /// How long a stopped partition that may recover rests before it is tried again.
    pub retry_stopped: Duration,
    /// Which flow writes which target topic.
    pub claims: Arc<Claims>,
    /// How the configuration is named in commands that the log suggests.
    pub file: String,
    /// What to do with mirrors that hold records which nothing explains.
    pub existing: Option<Existing>,
}

/// What the operator said about mirrors that hold records which nothing explains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// They were copied from the source: what is common is found by contents.
    Match,
    /// They are somebody else's: the copy is written behind them.
    Append,
}

/// Target topics by the flow that copies into them: two sources never share one.
#[derive(Debug, Default)]
pub struct Claims(Mutex<BTreeMap<(ClusterAlias, TopicName), FlowName>>);

impl Claims {
    /// States that `flow` copies into `topic` of its target. The first claim stays.
    pub fn claim(&self, flow: &FlowName, topic: &TopicName) {
        self.0.lock().entry((flow.target.clone(), topic.clone())).or_insert_with(|| flow.clone());
    }

    /// The topics of `flow`'s target that other flows copy into.
    pub fn of_others(&self, flow: &FlowName) -> BTreeMap<TopicName, FlowName> {
        self.0
            .lock()
            .iter()
            .filter(|((cluster, _), owner)| *cluster == flow.target && *owner != flow)
            .map(|((_, topic), owner)| (topic.clone(), owner.clone()))
            .collect()
    }
}

impl EngineOptions {
    /// The defaults for real clusters.
    pub fn new(instance: String, seed: u64, dial: Arc<dyn Dial>, clock: Clock) -> Self {
        Self {
            instance,
            seed,
            dial,
            clock,
            discovery_interval: Duration::from_secs(3),
            // With what it takes to carry them over, within a second.
            groups_interval: Duration::from_millis(750),
            fetched_bytes: 64 << 20,
            partition_bytes: 4 << 20,
            drain: Duration::from_secs(4),
            retry_stopped: Duration::from_secs(30),
            claims: Arc::default(),
            file: "FILE".to_owned(),
            existing: None,
        }
    }

    /// `text` with its commands naming the configuration as it was given, so that they can be pasted.
    pub fn pasteable(&self, text: &str) -> String {
        named_file(text, &self.file)
    }
}

/// Reasons are made where nobody knows how the configuration was given: `FILE` stands for it in their
/// commands, and is replaced where they are told.
pub fn named_file(text: &str, file: &str) -> String {
    text.replace(" FILE ", &format!(" {file} ")).replace(" FILE`", &format!(" {file}`"))
}

impl fmt::Debug for EngineOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineOptions").field("instance", &self.instance).finish_non_exhaustive()
    }
}
