//! Two embedded clusters, and looks at them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use twinlog_client::{Dial, WireStream};
use twinlog_doctor::{Chain, Diagnosis, Facts, Subject, Survey, Wanted, diagnose, explain};
use twinlog_embedded::{AuthorizerOptions, EmbeddedCluster, EmbeddedOptions, NewRecord};
use twinlog_engine::observe::Observer;
use twinlog_engine::{Engine, EngineOptions};
use twinlog_mirror::Configuration;

/// Who runs the mirror, where clusters ask for rights; who looks at it is `User:ANONYMOUS`.
const ADMIN: &str = "User:admin";

/// Finds the cluster by the host's name.
#[derive(Clone)]
pub(crate) struct Network([EmbeddedCluster; 2], Option<&'static str>);

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
            let stream: Box<dyn WireStream> = Box::new(match self.1 {
                Some(principal) => cluster.connect_as(host, port, principal)?,
                None => cluster.connect(host, port)?,
            });
            Ok(stream)
        })
    }
}

pub(crate) struct World {
    pub(crate) source: EmbeddedCluster,
    pub(crate) target: EmbeddedCluster,
}

impl World {
    /// `orders` with 100 records, and groups in its middle.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(seed, None)
    }

    /// The same on clusters that let nobody do anything but who runs the mirror.
    pub(crate) fn guarded(seed: u64) -> Self {
        let super_users = vec![ADMIN.to_owned()];
        let authorizer = AuthorizerOptions { super_users, ..AuthorizerOptions::default() };
        Self::with(seed, Some(&authorizer))
    }

    fn with(seed: u64, authorizer: Option<&AuthorizerOptions>) -> Self {
        let start = |name: &str, seed| {
            let mut options = EmbeddedOptions::new(name);
            options.seed = seed;
            options.authorizer = authorizer.cloned();
            EmbeddedCluster::start(options)
        };
        let world = Self { source: start("hello", seed), target: start("world", seed ^ 1) };
        world.source.create_topic("orders", 1, &[]).expect("made");
        world.append(100);
        for group in ["app", "live", "back", "out-1"] {
            world.source.commit_offset(group, "orders", 0, 60).expect("committed");
        }
        world
    }

    pub(crate) fn append(&self, count: usize) {
        let records: Vec<NewRecord> =
            (0..count).map(|n| NewRecord::new(format!("k{n}"), "v")).collect();
        self.source.append("orders", 0, &records).expect("appended");
    }

    pub(crate) fn configuration(&self) -> Configuration {
        Configuration::parse("mm2.properties", self.text().as_bytes(), &[]).expect("a sound file")
    }

    fn text(&self) -> String {
        format!(
            "clusters = hello, world\nhello.bootstrap.servers = {}\nworld.bootstrap.servers = {}\n\
             hello->world.enabled = true\nhello->world.sync.group.offsets.enabled = true\n\
             hello->world.groups.exclude = out-.*\nemit.checkpoints.interval.seconds = 1\n\
             replication.factor = -1\ncheckpoints.topic.replication.factor = -1\n\
             heartbeats.topic.replication.factor = -1\n\
             offset-syncs.topic.replication.factor = -1\n",
            self.source.bootstrap(),
            self.target.bootstrap(),
        )
    }

    pub(crate) fn network(&self) -> Arc<Network> {
        self.network_of(None)
    }

    fn network_of(&self, principal: Option<&'static str>) -> Arc<Network> {
        Arc::new(Network([self.source.clone(), self.target.clone()], principal))
    }

    pub(crate) fn start(&self) -> Engine {
        let clock = self.target.clone();
        let clock = Arc::new(move || clock.now_ms());
        let options =
            EngineOptions::new("engine".to_owned(), 7, self.network_of(Some(ADMIN)), clock);
        Engine::start(&self.configuration(), &[], options)
    }

    /// Looks at both clusters as `configuration` says.
    pub(crate) fn observer(&self, configuration: &Configuration) -> Observer {
        let cluster = |alias: &str| {
            let config = configuration.cluster(alias).expect("a cluster of the file");
            twinlog_engine::cluster(config, self.network(), 11, Duration::from_secs(10))
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

    pub(crate) async fn explain(&self, subject: Subject) -> Chain {
        let observer = self.observer(&self.configuration());
        let bootstrap = (self.source.bootstrap(), self.target.bootstrap());
        let now_ms = self.target.now_ms();
        let config = observer.config.clone();
        let mut facts = Facts::new(config, subject, bootstrap, Vec::new(), now_ms);
        facts.read(&observer).await;
        explain(&facts, None, "mm2.properties")
    }

    /// Everything, with these lines more in the file.
    pub(crate) async fn doctor(&self, lines: &str, wanted: &Wanted) -> Diagnosis {
        let text = format!("{}{lines}", self.text());
        let reading = Configuration::read("mm2.properties", text.as_bytes(), &[], None);
        assert_eq!(reading.problems, []);
        let observer = self.observer(&reading.configuration);
        let bootstrap = (self.source.bootstrap(), self.target.bootstrap());
        let now_ms = self.target.now_ms();
        let mut survey = Survey::new(observer.config.clone(), bootstrap, reading.notes, now_ms);
        survey.wanted.clone_from(wanted);
        survey.read(&observer).await;
        diagnose(&mut survey, wanted, "mm2.properties")
    }

    pub(crate) async fn group(&self, group: &str) -> Chain {
        self.explain(Subject::Group(group.into())).await
    }

    pub(crate) async fn topic(&self, topic: &str) -> Chain {
        self.explain(Subject::Topic(topic.into())).await
    }

    /// Explains the group until it is as wanted.
    pub(crate) async fn until(&self, group: &str, wanted: impl Fn(&Chain) -> bool) -> Chain {
        let began = tokio::time::Instant::now();
        loop {
            let chain = self.group(group).await;
            if wanted(&chain) {
                return chain;
            }
            assert!(began.elapsed() < Duration::from_mins(5), "not within 5 minutes: {chain:#?}");
            // The paused clock goes on only while everybody waits.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
