//! `twinlog run`: mirrors until stopped.
//!
//! Does not: end because a cluster cannot be reached; connecting goes on.
//!
//! # Invariants
//!
//! 1. SIGTERM and a first Ctrl-C end in order within [`END_WITHIN`]; a second Ctrl-C at once.
//! 2. SIGHUP with a configuration that has a problem changes nothing.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};
use twinlog_client::TcpDial;
use twinlog_engine::{Engine, EngineOptions};
use twinlog_mirror::Configuration;
use twinlog_types::{ClusterAlias, Code};

use crate::args::{Common, Run};
use crate::config;
use crate::discovery;
use crate::looking;
use crate::output::{Failure, INTERRUPTED};
use crate::threads;

/// An orderly end takes less than this, or is given up.
const END_WITHIN: Duration = Duration::from_secs(9);

pub(crate) fn run(args: &Run) -> Result<ExitCode, Failure> {
    let loaded = load(args)?;
    threads::block_on(discovery::refuse_another(&args.common))?;
    threads::block_on_threads(args.threads, mirror(args, loaded))
}

/// What is mirrored: flows of the configuration into the targets, or into all.
struct Loaded {
    configuration: Configuration,
    targets: Vec<ClusterAlias>,
}

impl Loaded {
    fn says_the_same(&self, other: &Self) -> bool {
        let (a, b) = (&self.configuration, &other.configuration);
        a.clusters() == b.clusters()
            && a.flows() == b.flows()
            && a.heartbeat_flows().eq(b.heartbeat_flows())
    }
}

fn load(args: &Run) -> Result<Loaded, Failure> {
    let (configuration, notes) = config::load_with_notes(&args.common)?;
    for note in notes {
        let suggestion = note.suggestion.as_deref().unwrap_or_default();
        warn!(code = %Code::UnknownProperty, "{note}; {suggestion}");
    }
    for alias in &args.clusters {
        if configuration.cluster(alias).is_none() {
            let known: Vec<&str> =
                configuration.clusters().iter().map(|cluster| cluster.alias.as_str()).collect();
            return Err(Failure::usage(
                format!("--clusters: no cluster is called `{alias}`"),
                format!("the clusters are {}", known.join(", ")),
            ));
        }
    }
    let targets: Vec<ClusterAlias> =
        args.clusters.iter().map(|alias| ClusterAlias::from(alias.as_str())).collect();
    let Some(wanted) = &args.common.flow else { return Ok(Loaded { configuration, targets }) };
    config::flow(&configuration, wanted)?;
    if !targets.is_empty() && !targets.contains(&wanted.target) {
        return Err(Failure::usage(
            format!("--flow {wanted} does not end in a cluster of --clusters"),
            "leave one of the two out",
        ));
    }
    // Others into the same target are switched off; the opposite flow stays known, so that loops
    // are found.
    let mut overrides = args.common.overrides.clone();
    for other in configuration.flows().iter().chain(configuration.heartbeat_flows()) {
        if other.name.target == wanted.target && other.name != *wanted {
            overrides.push((format!("{}.enabled", other.name), "false".into()));
            overrides.push((format!("{}.emit.heartbeats.enabled", other.name), "false".into()));
        }
    }
    let configuration = config::load(&Common { overrides, ..args.common.clone() })?;
    Ok(Loaded { configuration, targets: vec![wanted.target.clone()] })
}

/// What a process is told from outside.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

enum Told {
    End(&'static str),
    ReadAgain,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::End("Ctrl-C"),
            _ = self.terminate.recv() => Told::End("SIGTERM"),
            _ = self.hangup.recv() => Told::ReadAgain,
        }
    }
}

async fn mirror(args: &Run, loaded: Loaded) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()
        .map_err(|error| Failure::system("signals cannot be listened to", &error))?;
    let instance = instance();
    let mut loaded = loaded;
    loop {
        let engine = start(args, &loaded, &instance);
        let again = loop {
            match signals.next().await {
                Told::End(why) => {
                    info!("{why}: ending in order; Ctrl-C again ends at once");
                    return Ok(end(engine, &mut signals, 1).await.0);
                }
                Told::ReadAgain => match load(args) {
                    Ok(again) if again.says_the_same(&loaded) => {
                        info!("SIGHUP: nothing changed in the configuration");
                    }
                    Ok(again) => break again,
                    Err(failure) => {
                        error!(
                            "SIGHUP: the configuration has problems, the old one stays in force"
                        );
                        for line in failure.lines().lines() {
                            error!("{line}");
                        }
                    }
                },
            }
        };
        info!("SIGHUP: going on with the new configuration");
        loaded = again;
        let (ended, interrupts) = end(engine, &mut signals, 0).await;
        if interrupts > 0 {
            return Ok(ended);
        }
    }
}

fn start(args: &Run, loaded: &Loaded, instance: &str) -> Engine {
    let flows = loaded.configuration.flows().iter().map(|flow| &flow.name);
    let flows =
        flows.filter(|name| loaded.targets.is_empty() || loaded.targets.contains(&name.target));
    let names: Vec<String> = flows.map(ToString::to_string).collect();
    if names.is_empty() {
        warn!(instance, "no flow is enabled: nothing is copied");
    } else {
        info!(instance, version = env!("CARGO_PKG_VERSION"), "mirroring {}", names.join(", "));
    }
    let dial = Arc::new(TcpDial);
    let clock = Arc::new(config::now_ms);
    let mut options = EngineOptions::new(instance.to_owned(), config::seed(), dial, clock);
    options.existing = args.existing.map(Into::into);
    options.file = looking::given(&args.common);
    Engine::start(&loaded.configuration, &loaded.targets, options)
}

/// Ends the flows in order. `interrupts`: how often Ctrl-C was pressed; the second ends at once.
async fn end(engine: Engine, signals: &mut Signals, interrupts: u8) -> (ExitCode, u8) {
    let mut interrupts = interrupts;
    let ending = tokio::time::timeout(END_WITHIN, engine.shutdown());
    tokio::pin!(ending);
    loop {
        tokio::select! {
            ended = &mut ending => {
                // A target that does not answer must not keep a process that was told to end; what
                // could not be stored is found again by the next start.
                if ended.is_ok() {
                    info!("ended");
                } else {
                    warn!("not everything ended in time; the next start recovers from what is stored");
                }
                return (ExitCode::SUCCESS, interrupts);
            }
            _ = signals.interrupt.recv() => {
                interrupts += 1;
                if interrupts >= 2 {
                    warn!("Ctrl-C again: ending at once");
                    return (ExitCode::from(INTERRUPTED), interrupts);
                }
            }
        }
    }
}

/// Names this process for the eyes of others: host, process id, and something that no other start
/// has.
pub(crate) fn instance() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|host| host.trim().to_owned())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "localhost".to_owned());
    let mut random = RandomState::new().build_hasher();
    random.write_u64(config::seed());
    format!("{host}-{}-{:06x}", std::process::id(), random.finish() & 0xff_ffff)
}
