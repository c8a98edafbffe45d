//! Two embedded clusters, drawn from a seed, and the instances of the engine between them.

use std::sync::Arc;

use tokio::time::{Duration, Instant};
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, KafkaVersion};
use twinlog_engine::{Engine, EngineOptions};
use twinlog_mirror::Configuration;

use crate::network::{Dialer, Link};
use crate::random::Random;

/// The two clusters.
#[derive(Clone, Debug)]
pub struct World {
    /// `hello`.
    pub source: EmbeddedCluster,
    /// `world`.
    pub target: EmbeddedCluster,
    seed: u64,
    /// The target forgets producers of history almost as soon as it is written.
    pub(crate) forgets: bool,
    /// Fetched bytes that one partition may hold.
    partition_bytes: usize,
}

/// One `twinlog run`.
pub struct Instance {
    /// What its lease says.
    pub name: String,
    /// Its connections.
    pub link: Arc<Link>,
    /// The engine.
    pub engine: Engine,
    /// Stopped as by SIGSTOP until then.
    pub frozen_until: Option<Instant>,
}

impl World {
    /// The clusters of a seed.
    pub fn new(seed: u64, random: &mut Random) -> Self {
        let mut cluster = |name: &str, seed: u64| {
            let brokers = if random.one_in(3) { 1 } else { 3 };
            let mut options = EmbeddedOptions::new(name).with_brokers(brokers);
            options.seed = seed;
            if random.one_in(4) {
                options.version = KafkaVersion::V3_9;
            }
            let forgets = random.one_in(2);
            if forgets {
                // History is forgotten almost as soon as it is written.
                options.producer_expiration_check = Duration::from_secs(1);
            }
            (EmbeddedCluster::start(options), forgets)
        };
        let (source, _) = cluster("hello", seed);
        let (target, forgets) = cluster("world", seed ^ 0x5555);
        let partition_bytes = if random.one_in(4) { 2_000 } else { 4 << 20 };
        Self { source, target, seed, forgets, partition_bytes }
    }

    /// Clusters of one broker each, with nothing drawn.
    pub fn plain() -> Self {
        let mut target = EmbeddedOptions::new("world");
        target.seed = 2; // topic ids are told apart by their bytes
        Self {
            source: EmbeddedCluster::start(EmbeddedOptions::new("hello")),
            target: EmbeddedCluster::start(target),
            seed: 1,
            forgets: false,
            partition_bytes: 4 << 20,
        }
    }

    /// One of them.
    pub fn side(&self, source: bool) -> &EmbeddedCluster {
        if source { &self.source } else { &self.target }
    }

    /// The file that every instance runs.
    pub fn configuration(&self) -> Configuration {
        let text = format!(
            "clusters = hello, world\n\
             hello.bootstrap.servers = {}\n\
             world.bootstrap.servers = {}\n\
             hello->world.enabled = true\n\
             hello->world.sync.group.offsets.enabled = true\n\
             replication.factor = -1\n\
             checkpoints.topic.replication.factor = -1\n\
             heartbeats.topic.replication.factor = -1\n\
             offset-syncs.topic.replication.factor = -1\n",
            self.source.bootstrap(),
            self.target.bootstrap(),
        );
        Configuration::parse("simulated.properties", text.as_bytes(), &[]).expect("a sound file")
    }

    /// A link of its own to both clusters.
    pub fn link(&self) -> Arc<Link> {
        Link::new(self.source.clone(), self.target.clone())
    }

    /// Starts the `number`th instance.
    pub fn start(&self, number: u64) -> Instance {
        let clock = self.target.clone();
        let link = self.link();
        let name = format!("instance-{number}");
        let mut options = EngineOptions::new(
            name.clone(),
            self.seed ^ (number << 20),
            Arc::new(Dialer(link.clone())),
            Arc::new(move || clock.now_ms()),
        );
        options.partition_bytes = self.partition_bytes;
        let engine = Engine::start(&self.configuration(), &[], options);
        Instance { name, link, engine, frozen_until: None }
    }
}

/// What a topic of the source is called on the target.
pub fn mirror(topic: &str) -> String {
    format!("hello.{topic}")
}
