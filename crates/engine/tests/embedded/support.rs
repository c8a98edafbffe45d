//! Two embedded clusters, an engine between them, and a judge that knows neither map nor copier.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use twinlog_client::{Dial, WireStream};
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, Isolation, Record};
use twinlog_engine::observe::Observer;
use twinlog_engine::{Engine, EngineOptions, Existing};
use twinlog_mirror::Configuration;

/// Finds the cluster by the host's name.
struct Network(Vec<EmbeddedCluster>);

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
            let stream: Box<dyn WireStream> = Box::new(cluster.connect(host, port)?);
            Ok(stream)
        })
    }
}

pub(crate) struct World {
    pub(crate) source: EmbeddedCluster,
    pub(crate) target: EmbeddedCluster,
    seed: u64,
    started: std::sync::atomic::AtomicU64,
}

impl World {
    pub(crate) fn new(seed: u64, brokers: i32) -> Self {
        Self::with(seed, brokers, |_, _| {})
    }

    /// With a source and a target that are set up otherwise.
    pub(crate) fn with(
        seed: u64,
        brokers: i32,
        change: impl FnOnce(&mut EmbeddedOptions, &mut EmbeddedOptions),
    ) -> Self {
        if let Ok(filter) = std::env::var("TWINLOG_LOG") {
            // Said once for all tests of the process.
            let _ = tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_ansi(false)
                .with_writer(std::io::stderr)
                .try_init();
        }
        let options = |name: &str, seed| {
            let mut options = EmbeddedOptions::new(name).with_brokers(brokers);
            options.seed = seed;
            options
        };
        let (mut of_source, mut of_target) =
            (options("hello", seed), options("world", seed ^ 0x5555));
        change(&mut of_source, &mut of_target);
        Self {
            source: EmbeddedCluster::start(of_source),
            target: EmbeddedCluster::start(of_target),
            seed,
            started: std::sync::atomic::AtomicU64::new(0),
        }
    }

    pub(crate) fn configuration(&self, extra: &str) -> Configuration {
        let text = format!(
            "clusters = hello, world\n\
             hello.bootstrap.servers = {}\n\
             world.bootstrap.servers = {}\n\
             hello->world.enabled = true\n\
             hello->world.sync.group.offsets.enabled = true\n\
             replication.factor = -1\n\
             checkpoints.topic.replication.factor = -1\n\
             heartbeats.topic.replication.factor = -1\n\
             offset-syncs.topic.replication.factor = -1\n\
             {extra}\n",
            self.source.bootstrap(),
            self.target.bootstrap(),
        );
        Configuration::parse("test.properties", text.as_bytes(), &[]).expect("a sound file")
    }

    pub(crate) fn start(&self) -> Engine {
        self.start_with("")
    }

    pub(crate) fn start_with(&self, extra: &str) -> Engine {
        self.start_as(extra, None)
    }

    /// With `--existing`.
    pub(crate) fn start_existing(&self, existing: Option<Existing>) -> Engine {
        self.start_as("", existing)
    }

    fn start_as(&self, extra: &str, existing: Option<Existing>) -> Engine {
        let number = self.started.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let clock = self.target.clone();
        let network = Network(vec![self.source.clone(), self.target.clone()]);
        let mut options = EngineOptions::new(
            format!("engine-{number}"),
            self.seed ^ (number << 20),
            Arc::new(network),
            Arc::new(move || clock.now_ms()),
        );
        options.existing = existing;
        Engine::start(&self.configuration(extra), &[], options)
    }

    /// Somebody who looks from outside.
    pub(crate) fn observer(&self, extra: &str) -> Observer {
        let configuration = self.configuration(extra);
        let network = Arc::new(Network(vec![self.source.clone(), self.target.clone()]));
        let cluster = |alias: &str| {
            let config = configuration.cluster(alias).expect("a cluster of the file");
            twinlog_engine::cluster(config, network.clone(), self.seed, Duration::from_secs(10))
        };
        let clock = self.target.clone();
        Observer {
            config: Arc::new(configuration.flows()[0].clone()),
            opposite: None,
            source: cluster("hello"),
            target: cluster("world"),
            clock: Arc::new(move || clock.now_ms()),
        }
    }

    pub(crate) fn source_records(&self, topic: &str, partition: i32) -> Vec<Record> {
        self.source.records(topic, partition, Isolation::ReadCommitted)
    }

    pub(crate) fn target_records(&self, topic: &str, partition: i32) -> Vec<Record> {
        let mirror = mirror(topic);
        if self.target.topics().contains(&mirror) {
            self.target.records(&mirror, partition, Isolation::ReadCommitted)
        } else {
            Vec::new()
        }
    }

    /// What differs between a partition and its mirror; nothing when it is faithful.
    pub(crate) fn difference(&self, topic: &str, partition: i32) -> Option<String> {
        let source = self.source_records(topic, partition);
        let target = self.target_records(topic, partition);
        let content = |record: &Record| {
            (record.key.clone(), record.value.clone(), record.headers.clone(), record.timestamp)
        };
        let unequal = source.iter().zip(&target).position(|(s, t)| content(s) != content(t));
        if let Some(at) = unequal {
            return Some(format!(
                "{topic}-{partition}: record {at} differs: source {:?} target {:?}",
                source[at], target[at]
            ));
        }
        (source.len() != target.len()).then(|| {
            format!("{topic}-{partition}: {} records, {} copied", source.len(), target.len())
        })
    }

    /// Where a group that stands at `committed` must stand on the target, by contents alone.
    pub(crate) fn expected(&self, topic: &str, partition: i32, committed: i64) -> i64 {
        let source = self.source_records(topic, partition);
        let target = self.target_records(topic, partition);
        match source.iter().position(|record| record.offset >= committed) {
            Some(at) => target[at].offset,
            None => target.last().map_or(0, |last| last.offset + 1),
        }
    }

    pub(crate) fn committed_on_target(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> Option<i64> {
        self.target.committed(group, &mirror(topic), partition)
    }

    /// Waits until every partition of these topics is faithful.
    pub(crate) async fn until_equal(&self, topics: &BTreeMap<String, i32>) {
        until("the mirror is faithful", || {
            topics.iter().find_map(|(topic, partitions)| {
                (0..*partitions).find_map(|partition| self.difference(topic, partition))
            })
        })
        .await;
    }
}

fn mirror(topic: &str) -> String {
    format!("hello.{topic}")
}

/// Waits until `missing` finds nothing, five simulated minutes at most.
pub(crate) async fn until(what: &str, mut missing: impl FnMut() -> Option<String>) {
    let began = tokio::time::Instant::now();
    let mut last = None;
    while began.elapsed() < Duration::from_mins(5) {
        last = missing();
        if last.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within five minutes: {what}: {}", last.unwrap_or_default());
}
