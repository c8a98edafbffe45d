//! Two embedded clusters, `hello` and `world`, and who stands between them: an engine that mirrors,
//! an observer that looks. For tests and examples only.
//!
//! Does not: judge. What must be true is said by the tests.
//!
//! # Invariants
//!
//! One seed gives one world: on a paused clock and a current-thread runtime everything happens in the
//! same order again.

pub mod kept;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use twinlog_client::{Dial, WireStream};
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions};
use twinlog_engine::observe::Observer;
use twinlog_engine::{Clock, Engine, EngineOptions, Existing};
use twinlog_mirror::{Configuration, Reading};
use twinlog_types::FlowName;

/// How the file is named.
pub const FILE: &str = "mm2.properties";

/// How long, on the paused clock, something that must come about is waited for.
const LIMIT: Duration = Duration::from_mins(5);

/// Finds a cluster by the name of a host.
#[derive(Clone, Debug)]
pub struct Network(Vec<EmbeddedCluster>, Option<String>);

impl Network {
    /// A network of these clusters.
    pub fn new(clusters: impl IntoIterator<Item = EmbeddedCluster>) -> Self {
        Self(clusters.into_iter().collect(), None)
    }

    /// The same for whoever connects as this principal.
    #[must_use]
    pub fn of(self, principal: &str) -> Self {
        Self(self.0, Some(principal.to_owned()))
    }
}

impl Dial for Network {
    fn dial<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn WireStream>>> + Send + 'a>> {
        Box::pin(async move {
            let known = |cluster: &&EmbeddedCluster| {
                cluster.addresses().iter().any(|(name, _)| name == host)
            };
            let cluster = self.0.iter().find(known).ok_or(io::ErrorKind::NotFound)?;
            let stream = match &self.1 {
                Some(principal) => cluster.connect_as(host, port, principal)?,
                None => cluster.connect(host, port)?,
            };
            let stream: Box<dyn WireStream> = Box::new(stream);
            Ok(stream)
        })
    }
}

/// Two clusters, and the file of a flow from one to the other.
#[derive(Debug)]
pub struct World {
    /// The cluster that is read.
    pub source: EmbeddedCluster,
    /// The cluster that is written.
    pub target: EmbeddedCluster,
    seed: u64,
    lines: String,
    unsaid: Option<String>,
    principal: Option<String>,
    started: AtomicU64,
}

impl World {
    /// Two clusters of one broker.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, |_, _| {})
    }

    /// Two clusters that are set up otherwise.
    pub fn with(
        seed: u64,
        change: impl FnOnce(&mut EmbeddedOptions, &mut EmbeddedOptions),
    ) -> Self {
        let options = |name: &str, seed| {
            let mut options = EmbeddedOptions::new(name);
            options.seed = seed;
            options
        };
        let (mut source, mut target) = (options("hello", seed), options("world", seed ^ 0x5555));
        change(&mut source, &mut target);
        let (source, target) = (EmbeddedCluster::start(source), EmbeddedCluster::start(target));
        Self::between(seed, source, target)
    }

    /// Two clusters that are there.
    pub fn between(seed: u64, source: EmbeddedCluster, target: EmbeddedCluster) -> Self {
        let (lines, unsaid, principal) = (String::new(), None, None);
        Self { source, target, seed, lines, unsaid, principal, started: AtomicU64::new(0) }
    }

    /// With these lines in every file.
    #[must_use]
    pub fn saying(self, lines: &str) -> Self {
        Self { lines: format!("{}{lines}\n", self.lines), ..self }
    }

    /// Without the lines of every file that say something of this key.
    #[must_use]
    pub fn not_saying(self, key: &str) -> Self {
        Self { unsaid: Some(key.to_owned()), ..self }
    }

    /// The engine connects as this principal; whoever looks, as nobody.
    #[must_use]
    pub fn run_by(self, principal: &str) -> Self {
        Self { principal: Some(principal.to_owned()), ..self }
    }

    /// The file, with these lines more.
    pub fn text(&self, extra: &str) -> String {
        let common = format!(
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
        let is_said = |line: &&str| self.unsaid.as_ref().is_none_or(|key| !line.contains(key));
        let common: String = common.lines().filter(is_said).flat_map(|line| [line, "\n"]).collect();
        format!("{common}{}{extra}\n", self.lines)
    }

    /// What the file says.
    pub fn configuration(&self, extra: &str) -> Configuration {
        let text = self.text(extra);
        Configuration::parse(FILE, text.as_bytes(), &[]).expect("a sound file")
    }

    /// The same with what is strange in it.
    pub fn reading(&self, extra: &str) -> Reading {
        let text = self.text(extra);
        let reading = Configuration::read(FILE, text.as_bytes(), &[], None);
        assert_eq!(reading.problems, [], "the file is sound");
        reading
    }

    /// Where both clusters are.
    pub fn bootstrap(&self) -> (String, String) {
        (self.source.bootstrap(), self.target.bootstrap())
    }

    /// What whoever looks connects by.
    pub fn network(&self) -> Arc<Network> {
        Arc::new(Network::new([self.source.clone(), self.target.clone()]))
    }

    fn network_of_engine(&self) -> Arc<Network> {
        let network = Network::new([self.source.clone(), self.target.clone()]);
        Arc::new(match &self.principal {
            Some(principal) => network.of(principal),
            None => network,
        })
    }

    /// Starts to mirror.
    pub fn start(&self) -> Engine {
        self.start_with("")
    }

    /// The same with these lines more in the file.
    pub fn start_with(&self, extra: &str) -> Engine {
        self.start_as(extra, |_| {})
    }

    /// The same with `--existing`.
    pub fn start_existing(&self, existing: Option<Existing>) -> Engine {
        self.start_as("", |options| options.existing = existing)
    }

    /// The same with options of one's own.
    pub fn start_as(&self, extra: &str, change: impl FnOnce(&mut EngineOptions)) -> Engine {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let (name, seed) = (format!("engine-{number}"), self.seed ^ (number << 20));
        let mut options = EngineOptions::new(name, seed, self.network_of_engine(), self.clock());
        change(&mut options);
        Engine::start(&self.configuration(extra), &[], options)
    }

    fn clock(&self) -> Clock {
        let clock = self.target.clone();
        Arc::new(move || clock.now_ms())
    }

    /// Somebody who looks from outside, with these lines more in the file.
    pub fn observer(&self, extra: &str) -> Observer {
        self.observer_of(&self.configuration(extra))
    }

    /// The same of a configuration that was read.
    pub fn observer_of(&self, configuration: &Configuration) -> Observer {
        let cluster = |alias: &str| {
            let config = configuration.cluster(alias).expect("a cluster of the file");
            twinlog_engine::cluster(config, self.network(), self.seed, Duration::from_secs(10))
        };
        let back = FlowName::new("world", "hello");
        Observer {
            config: Arc::new(configuration.flows()[0].clone()),
            opposite: configuration.flow(&back).map(|flow| Arc::new(flow.clone())),
            source: cluster("hello"),
            target: cluster("world"),
            clock: self.clock(),
        }
    }
}

/// Waits until `missing` finds nothing, five simulated minutes at most.
pub async fn until(what: &str, mut missing: impl FnMut() -> Option<String>) {
    let began = Instant::now();
    let mut last = None;
    while began.elapsed() < LIMIT {
        last = missing();
        if last.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within five minutes: {what}: {}", last.unwrap_or_default());
}

/// Looks again and again until what is seen is as wanted, five simulated minutes at most.
pub async fn look_until<T: std::fmt::Debug, F: Future<Output = T>>(
    what: &str,
    mut look: impl FnMut() -> F,
    wanted: impl Fn(&T) -> bool,
) -> T {
    let began = Instant::now();
    loop {
        let seen = look().await;
        if wanted(&seen) {
            return seen;
        }
        assert!(began.elapsed() < LIMIT, "not within five minutes: {what}: {seen:#?}");
        // The paused clock goes on only while everybody waits.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
