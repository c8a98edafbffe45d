//! `twinlog demo`: two clusters in this process, a mirror between them, and the loss of one.
//!
//! The clusters are in-memory ones on real sockets, and the mirror is the engine of `twinlog run`,
//! configured by a properties file that the other commands take as well. What the groups must read
//! after the loss is known from what the demo wrote itself; nothing that the engine knows is asked.
//!
//! Does not: keep anything when it ends.
//!
//! # Invariants
//!
//! 1. The exit code is 0 only when every synced group resumed at the record that is due, every other
//!    group stands as it must, and every copied record is the one that was written.
//! 2. Nothing but the answer is printed on standard output.

mod document;
mod drill;
mod ledger;
mod look;
mod member;
mod scene;
mod text;
mod traffic;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};
use twinlog_client::TcpDial;
use twinlog_embedded::AdminError;
use twinlog_engine::{Engine, EngineOptions};
use twinlog_mirror::Configuration;

use self::document::{ClusterAt, Copied, Document, Drill, TopicLine, Verdict};
use self::look::Clients;
use self::member::{Member, Reads};
use self::scene::{File, GROUPS, LIVE, LIVE_READ, Scene, TOPICS, Way};
use self::traffic::{Pace, Traffic, Who};
use crate::args::Demo;
use crate::config;
use crate::output::{Failure, INTERRUPTED, NOT_FOUND_OUT, Output};
use crate::threads;

/// How long the backlog may take; far more than it does.
const COPY_WITHIN: Duration = Duration::from_mins(2);
/// How long the tip may take to move past what the groups committed.
const PASS_WITHIN: Duration = Duration::from_secs(30);
const COMMIT_EVERY: Duration = Duration::from_millis(200);
/// How often the consumers commit then.
const FOLLOW_EVERY: Duration = Duration::from_secs(5);
/// How often a line says how it goes, once everything was shown.
const SAY_EVERY: Duration = Duration::from_secs(30);
/// An orderly end takes less than this, or is given up.
const END_WITHIN: Duration = Duration::from_secs(9);
/// Bytes under way, for all partitions together and for each.
const FETCHED_BYTES: usize = 16 << 20;
const PARTITION_BYTES: usize = 2 << 20;

pub(crate) fn demo(args: &Demo, out: Output) -> Result<ExitCode, Failure> {
    threads::block_on_threads(threads::FEW, show(args, out))
}

/// Ctrl-C, SIGTERM, and SIGHUP of a terminal that is closed.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

async fn show(args: &Demo, out: Output) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()
        .map_err(|error| Failure::system("signals cannot be listened to", &error))?;
    let played = async {
        let mut play = Play::begin(args.port_base).await?;
        let document = play.through(!args.once).await?;
        Ok::<_, Failure>((play, document))
    };
    let (play, document) = tokio::select! {
        played = played => played?,
        () = signals.any() => {
            say("ended before the drill was finished: nothing is proven");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    if out.json {
        Output::document(&document)?;
    } else {
        Output::text(&text::text(&document))?;
    }
    if !args.once {
        tokio::select! {
            () = play.go_on() => {}
            () = signals.any() => {}
        }
        say("ending in order; Ctrl-C again ends at once");
        tokio::select! {
            () = play.end() => {}
            () = signals.any() => return Ok(ExitCode::from(INTERRUPTED)),
        }
    }
    Ok(ExitCode::from(document.verdict.exit()))
}

/// Progress. A terminal that is closed hears nothing, and is no reason to panic.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "twinlog: {what}");
}

/// Everything that runs.
struct Play {
    began: Instant,
    scene: Scene,
    file: File,
    clients: Clients,
    engine: Engine,
    engine_began: Instant,
    /// Records of each topic that were there before the mirror.
    backlog: Vec<u64>,
    traffic: Traffic,
    member: Member,
}

impl Play {
    /// Starts the clusters, fills the sources, starts the mirror and everybody else.
    async fn begin(port_base: u16) -> Result<Self, Failure> {
        let began = Instant::now();
        let scene = Scene::start(port_base).await?;
        say("two clusters are up; writing what is to be mirrored");
        scene.fill().map_err(|error| failed(&error))?;
        let port = scene.hello.addresses().first().map_or(port_base, |(_, port)| *port);
        let properties = scene.properties();
        let file = File::write(&properties, port)?;
        let name = file.path().display().to_string();
        let configuration = Configuration::parse(&name, properties.as_bytes(), &[])
            .map_err(Failure::configuration)?;
        let clients = Clients::new(&configuration)?;
        let member = member(&scene, &clients).await?;
        traffic::commit(&scene, &clients, Who::Everybody).await?;

        say("mirroring, while producers and consumers go on");
        let options = EngineOptions {
            fetched_bytes: FETCHED_BYTES,
            partition_bytes: PARTITION_BYTES,
            ..EngineOptions::new(
                format!("demo-{}", std::process::id()),
                config::seed(),
                Arc::new(TcpDial),
                Arc::new(config::now_ms),
            )
        };
        let backlog = TOPICS.iter().map(|topic| scene.written(topic)).collect();
        let engine_began = Instant::now();
        let engine = Engine::start(&configuration, &[], options);
        let traffic = Traffic::start(scene.on_hello.clone());
        Ok(Self { began, scene, file, clients, engine, engine_began, backlog, traffic, member })
    }

    /// From the first copied record to the verdict.
    async fn through(&mut self, stays: bool) -> Result<Document, Failure> {
        let (scene, clients) = (&self.scene, &self.clients);
        let copied = self.copied().await?;
        self.member.commit().await?;
        traffic::commit(scene, clients, Who::Following).await?;
        say("the backlog is copied; waiting until every group stands as it must");
        let found = clients.settled().await;
        self.passed().await?;

        let file = stays.then(|| self.file.path().display().to_string());
        let topics = self.topics();
        let mut groups = drill::before(scene, clients, &found, file.as_deref()).await?;
        let mut drill = Drill { lost_records: 0, compared_records: 0, different_partitions: 0 };
        let back = scene.on_world.lock().ledger.clone();
        drill::compare(clients, Way::Back, &back, &mut drill).await?;

        say("killing hello");
        scene.on_hello.lock().kill();
        self.traffic.pace(Pace::Stopped);
        let there = scene.on_hello.lock().ledger.clone();
        drill::resume(clients, &there, &mut groups).await?;
        drill::compare(clients, Way::There, &there, &mut drill).await?;
        if stays {
            scene.on_hello.lock().restart();
            self.traffic.pace(Pace::Calm);
        }
        Ok(Document {
            version: 1,
            clusters: vec![
                ClusterAt { alias: "hello", bootstrap: scene.hello.bootstrap() },
                ClusterAt { alias: "world", bootstrap: scene.world.bootstrap() },
            ],
            file,
            topics,
            copied,
            verdict: Verdict::of(&groups, &drill),
            groups,
            drill,
            ms: millis(self.began.elapsed()),
            peak_memory_bytes: peak_memory(),
        })
    }

    /// How many records of all topics are on their targets. What is copied has neither markers nor
    /// holes, so the offsets count the records.
    fn on_target(&self, topic: &scene::Topic) -> u64 {
        let target = self.scene.sides(topic.way).1;
        let ends = topic.places().map(|place| {
            let mirror = self.clients.mirror(topic.way, place);
            target.high_watermark(mirror.topic.as_str(), mirror.partition).max(0) as u64
        });
        ends.sum()
    }

    /// Waits until everything is copied that was there before.
    async fn copied(&self) -> Result<Copied, Failure> {
        let mut committed = Instant::now();
        while TOPICS
            .iter()
            .zip(&self.backlog)
            .any(|(topic, backlog)| self.on_target(topic) < *backlog)
        {
            if self.engine_began.elapsed() > COPY_WITHIN {
                return Err(Failure {
                    exit: NOT_FOUND_OUT,
                    code: "timed-out".into(),
                    message: format!("the backlog was not copied within {COPY_WITHIN:?}"),
                    next: "-v says what the mirror is doing".into(),
                    problems: Vec::new(),
                });
            }
            if committed.elapsed() > COMMIT_EVERY {
                traffic::commit(&self.scene, &self.clients, Who::Following).await?;
                committed = Instant::now();
            }
            sleep(Duration::from_millis(5)).await;
        }
        let ms = millis(self.engine_began.elapsed()).max(1);
        let records: u64 = self.backlog.iter().sum();
        Ok(Copied { records, ms, records_per_second: records * 1_000 / ms })
    }

    /// Waits until the copy has gone on past every group, so that each has a record to read.
    async fn passed(&self) -> Result<(), Failure> {
        let began = Instant::now();
        for group in GROUPS.iter().filter(|group| group.unsynced.is_none()) {
            let mirror = self.clients.mirror(group.way, group.place);
            let target = self.clients.target(group.way);
            let committed = look::committed(target, group.name, &mirror).await?;
            let end = || {
                self.scene
                    .sides(group.way)
                    .1
                    .high_watermark(mirror.topic.as_str(), mirror.partition)
            };
            while committed.is_some_and(|committed| end() <= committed)
                && began.elapsed() < PASS_WITHIN
            {
                sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    fn topics(&self) -> Vec<TopicLine> {
        let line = |topic: &scene::Topic| {
            let copied = self.on_target(topic);
            TopicLine {
                flow: self.clients.flow(topic.way).to_string(),
                topic: topic.name,
                target_topic: self.clients.mirror(topic.way, (topic.name, 0)).topic.to_string(),
                partitions: topic.places().count(),
                what: topic.what,
                records: self.scene.written(topic),
                copied,
                source_starts: topic.starts(),
            }
        };
        TOPICS.iter().map(line).collect()
    }

    /// Goes on for people who look around; never ends by itself.
    async fn go_on(&self) {
        let mut said = Instant::now();
        loop {
            sleep(FOLLOW_EVERY).await;
            if let Err(failure) = traffic::commit(&self.scene, &self.clients, Who::Following).await
            {
                tracing::warn!("{}", failure.message);
            }
            if said.elapsed() > SAY_EVERY {
                said = Instant::now();
                let (written, copied) = TOPICS.iter().fold((0, 0), |(written, copied), topic| {
                    (written + self.scene.written(topic), copied + self.on_target(topic))
                });
                let lag = written.saturating_sub(copied);
                let (copied, lag) = (text::grouped(copied), text::grouped(lag));
                say(&format!("{copied} records mirrored both ways, {lag} to go; Ctrl-C ends"));
            }
        }
    }

    /// Ends everything in order.
    async fn end(self) {
        self.traffic.stop().await;
        self.member.leave().await;
        if tokio::time::timeout(END_WITHIN, self.engine.shutdown()).await.is_err() {
            tracing::warn!("not everything ended in time");
        }
    }
}

/// A consumer on the target that is there before the mirror, and stays.
async fn member(scene: &Scene, clients: &Clients) -> Result<Member, Failure> {
    let group = GROUPS.iter().find(|group| group.name == LIVE);
    let (topic, partition) = group.map_or(("orders", 0), |group| group.place);
    let mirror = clients.mirror(Way::There, (topic, partition));
    let (host, port) = scene.world.addresses().into_iter().next().unwrap_or_default();
    let reads =
        Reads { group: LIVE, topic: mirror.topic.to_string(), partition, offset: LIVE_READ };
    Member::join(&host, port, reads).await
}

/// The demo's own clusters refused it.
fn failed(error: &AdminError) -> Failure {
    Failure {
        exit: NOT_FOUND_OUT,
        code: "failed".into(),
        message: format!("the scene could not be set: {error}"),
        next: "report this".into(),
        problems: Vec::new(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The most memory that this process held, where the system tells (Linux).
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
