//! The whole way on two embedded clusters with an engine between them, on a paused clock: what is
//! read, and the verdict.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use twinlog_client::{Dial, WireStream};
use twinlog_doctor::{Chain, Facts, LinkName, LinkState, MirroredBy, Outcome, Subject, explain};
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, GroupKind, NewRecord};
use twinlog_engine::observe::Observer;
use twinlog_engine::{Engine, EngineOptions};
use twinlog_mirror::Configuration;
use twinlog_types::{Code, Severity};

/// Finds the cluster by the host's name.
#[derive(Clone)]
struct Network([EmbeddedCluster; 2]);

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

struct World {
    source: EmbeddedCluster,
    target: EmbeddedCluster,
}

impl World {
    /// `orders` with 100 records, and groups in its middle.
    fn new(seed: u64) -> Self {
        let start = |name: &str, seed| {
            let mut options = EmbeddedOptions::new(name);
            options.seed = seed;
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

    fn append(&self, count: usize) {
        let records: Vec<NewRecord> =
            (0..count).map(|n| NewRecord::new(format!("k{n}"), "v")).collect();
        self.source.append("orders", 0, &records).expect("appended");
    }

    fn configuration(&self) -> Configuration {
        let text = format!(
            "clusters = hello, world\nhello.bootstrap.servers = {}\nworld.bootstrap.servers = {}\n\
             hello->world.enabled = true\nhello->world.sync.group.offsets.enabled = true\n\
             hello->world.groups.exclude = out-.*\nemit.checkpoints.interval.seconds = 1\n\
             replication.factor = -1\ncheckpoints.topic.replication.factor = -1\n\
             heartbeats.topic.replication.factor = -1\n\
             offset-syncs.topic.replication.factor = -1\n",
            self.source.bootstrap(),
            self.target.bootstrap(),
        );
        Configuration::parse("mm2.properties", text.as_bytes(), &[]).expect("a sound file")
    }

    fn network(&self) -> Arc<Network> {
        Arc::new(Network([self.source.clone(), self.target.clone()]))
    }

    fn start(&self) -> Engine {
        let clock = self.target.clone();
        let clock = Arc::new(move || clock.now_ms());
        let options = EngineOptions::new("engine".to_owned(), 7, self.network(), clock);
        Engine::start(&self.configuration(), &[], options)
    }

    async fn explain(&self, subject: Subject) -> Chain {
        let configuration = self.configuration();
        let cluster = |alias: &str| {
            let config = configuration.cluster(alias).expect("a cluster of the file");
            twinlog_engine::cluster(config, self.network(), 11, Duration::from_secs(10))
        };
        let clock = self.target.clone();
        let observer = Observer {
            config: Arc::new(configuration.flows()[0].clone()),
            opposite: None,
            source: cluster("hello"),
            target: cluster("world"),
            clock: Arc::new(move || clock.now_ms()),
        };
        let bootstrap = (self.source.bootstrap(), self.target.bootstrap());
        let now_ms = self.target.now_ms();
        let config = observer.config.clone();
        let mut facts = Facts::new(config, subject, bootstrap, Vec::new(), now_ms);
        facts.read(&observer).await;
        explain(&facts, None, "mm2.properties")
    }

    async fn group(&self, group: &str) -> Chain {
        self.explain(Subject::Group(group.into())).await
    }

    async fn topic(&self, topic: &str) -> Chain {
        self.explain(Subject::Topic(topic.into())).await
    }

    /// Explains the group until it is as wanted.
    async fn until(&self, group: &str, wanted: impl Fn(&Chain) -> bool) -> Chain {
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

fn well(chain: &Chain) -> bool {
    chain.links.iter().all(|link| link.state == LinkState::Ok)
}

/// All is well, and the group's commit has arrived: one that is about to be written is well too.
fn placed(chain: &Chain) -> bool {
    let last = chain.links.last().expect("links");
    well(chain) && last.evidence.iter().any(|seen| seen.value == "60")
}

fn broken(chain: &Chain) -> Option<(LinkName, Option<Code>)> {
    chain.first_broken().map(|link| (link.name, link.code))
}

#[tokio::test(start_paused = true)]
async fn groups_and_topics_of_a_running_mirror_are_explained() {
    let world = World::new(21);
    let engine = world.start();
    let chain = world.until("app", placed).await;
    assert_eq!((chain.mirrored_by, chain.outcome()), (Some(MirroredBy::Twinlog), Outcome::Well));
    assert!(well(&world.topic("orders").await));
    // A mirror's name means the topic that is mirrored.
    let by_mirror = world.topic("hello.orders").await;
    assert_eq!(by_mirror.subject, Subject::Topic("orders".into()));

    let chain = world.group("out-1").await;
    assert_eq!(broken(&chain), Some((LinkName::Configuration, Some(Code::GroupExcluded))));
    let chain = world.group("ap").await;
    assert_eq!(broken(&chain), Some((LinkName::SourceGroup, Some(Code::GroupWithoutCommits))));
    let chain = world.topic("order").await;
    assert_eq!(broken(&chain), Some((LinkName::SourceTopic, Some(Code::TopicNotMirrored))));

    // A member on the target; the source goes on.
    world.until("live", placed).await;
    world.target.set_group("live", GroupKind::Classic, true);
    world.source.commit_offset("live", "orders", 0, 90).expect("committed");
    let chain = world.group("live").await;
    assert_eq!(broken(&chain), Some((LinkName::TargetGroup, Some(Code::GroupLiveOnTarget))));
    let link = chain.first_broken().expect("broken");
    assert_eq!(link.severity, Some(Severity::Error));
    let consequence = link.consequence.as_deref().unwrap_or_default();
    assert!(consequence.ends_with("a failover now reads 30 records again"), "{consequence}");

    // A checkpoint remembers where the source stood before it was moved back.
    let checkpointed = |chain: &Chain| {
        let mut links = chain.links.iter();
        let link = links.find(|link| link.name == LinkName::Checkpoints).expect("a link");
        link.evidence.iter().any(|seen| seen.value.starts_with("60->60"))
    };
    world.until("back", checkpointed).await;
    world.source.commit_offset("back", "orders", 0, 10).expect("committed");
    let rewound = Some((LinkName::ConsumerOffsets, Some(Code::SourceRewound)));
    let chain = world.until("back", |chain| broken(chain) == rewound).await;
    let consequence = chain.first_broken().and_then(|link| link.consequence.as_deref());
    assert!(consequence.is_some_and(|text| text.ends_with("skips 50 records")), "{chain:#?}");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_run_or_answer_is_told_and_the_rest_is_looked_at() {
    let world = World::new(22);
    let chain = world.group("app").await;
    assert_eq!(broken(&chain), Some((LinkName::Flow, Some(Code::MirrorNotRunning))));
    assert_eq!(chain.mirrored_by, Some(MirroredBy::Nobody));

    let engine = world.start();
    world.until("app", placed).await;
    engine.shutdown().await;
    world.append(20);
    // The last words of an owner are a transaction, which may become visible a moment later.
    let ended = Some((LinkName::Flow, Some(Code::MirrorNotRunning)));
    let chain = world.until("app", |chain| broken(chain) == ended).await;
    let copy = chain.links.iter().find(|link| link.name == LinkName::Copy).expect("a link");
    let missing = copy.consequence.as_deref().unwrap_or_default();
    assert!(missing.ends_with("finds 20 records missing on the target"), "{missing}");
    let last = chain.links.last().expect("links");
    assert_eq!((last.name, last.state), (LinkName::ConsumerOffsets, LinkState::Ok));

    world.source.kill_broker(1);
    let chain = world.group("app").await;
    assert_eq!(broken(&chain), Some((LinkName::Connectivity, Some(Code::Unreachable))));
    assert_eq!(chain.outcome(), Outcome::NotFoundOut);
    let link = chain.first_broken().expect("unknown");
    assert!(link.summary.starts_with("hello: "), "{}", link.summary);
    // What needs the target alone is looked at: who ran it, the checkpoint, where the group stands.
    assert_eq!(chain.mirrored_by, Some(MirroredBy::Twinlog));
    let link = |name| chain.links.iter().find(|link| link.name == name).expect("a link");
    let flow = link(LinkName::Flow);
    assert_eq!((flow.state, flow.code), (LinkState::Broken, Some(Code::MirrorNotRunning)));
    assert_eq!(link(LinkName::Copy).state, LinkState::NotReached);
    assert_eq!(link(LinkName::TargetGroup).state, LinkState::Ok);
    let checkpoint = &link(LinkName::Checkpoints).evidence;
    assert!(checkpoint.iter().any(|seen| seen.value.starts_with("60->60")), "{checkpoint:?}");
    let stands = link(LinkName::ConsumerOffsets);
    assert_eq!((stands.state, stands.code), (LinkState::Unknown, Some(Code::Unreachable)));
    let seen: Vec<_> = stands.evidence.iter().map(|seen| (&*seen.what, &*seen.value)).collect();
    assert_eq!(seen, [("committed on hello.orders-0", "60")]);
}
