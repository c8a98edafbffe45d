//! All flows of a configuration in one process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use twinlog_client::Cluster;
use twinlog_mirror::Configuration;
use twinlog_types::{ClusterAlias, FlowName};

use crate::board::{Board, FlowBoard};
use crate::ending::{Ending, Stage};
use crate::options::EngineOptions;
use crate::supervise::{self, Supervised};
use crate::{beats, clusters};

/// How long one method of a client goes on trying; loops around it go on with back-off.
const DEADLINE: Duration = Duration::from_secs(10);

/// The running flows.
#[derive(Debug)]
pub struct Engine {
    board: Arc<Board>,
    stop: Ending,
    tasks: JoinSet<()>,
}

/// How the flows stood at one moment.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// By flow.
    pub flows: BTreeMap<FlowName, FlowBoard>,
}

impl Engine {
    /// Starts every enabled flow of `configuration` whose target is among `targets`, or all of
    /// them when there are none. Must be called within a tokio runtime.
    pub fn start(
        configuration: &Configuration,
        targets: &[ClusterAlias],
        options: EngineOptions,
    ) -> Self {
        let options = Arc::new(options);
        let board = Arc::new(Board::default());
        let stop = Ending::running();
        let budget =
            Arc::new(Semaphore::new(options.fetched_bytes.max(crate::fetch::ANSWER_BYTES)));
        let mut tasks = JoinSet::new();
        let mut made: BTreeMap<ClusterAlias, Cluster> = BTreeMap::new();
        for config in configuration.clusters() {
            let seed = options.seed ^ made.len() as u64;
            let cluster = clusters::cluster(config, options.dial.clone(), seed, DEADLINE);
            made.insert(config.alias.clone(), cluster);
        }
        let wanted = |name: &FlowName| targets.is_empty() || targets.contains(&name.target);
        for config in configuration.flows().iter().filter(|config| wanted(&config.name)) {
            let (Some(source), Some(target)) =
                (made.get(&config.name.source), made.get(&config.name.target))
            else {
                continue;
            };
            let back = FlowName::new(config.name.target.clone(), config.name.source.clone());
            let opposite = configuration.flows().iter().find(|other| other.name == back);
            let supervised = Supervised {
                config: Arc::new(config.clone()),
                opposite: opposite.map(|config| Arc::new(config.clone())),
                source: source.clone(),
                target: target.clone(),
                options: options.clone(),
                board: board.clone(),
                budget: budget.clone(),
            };
            tasks.spawn(supervise::run(supervised, stop.clone()));
        }
        for config in configuration.heartbeat_flows().filter(|config| wanted(&config.name)) {
            let Some(target) = made.get(&config.name.target) else { continue };
            let config = Arc::new(config.clone());
            tasks.spawn(beats::run(config, target.clone(), options.clone(), stop.clone()));
        }
        Self { board, stop, tasks }
    }

    /// How the flows stand now.
    pub fn report(&self) -> EngineReport {
        EngineReport { flows: self.board.snapshot() }
    }

    /// Ends in order: nothing new is read, what is in flight is settled, the state is stored.
    pub async fn shutdown(mut self) {
        self.stop.enter(Stage::Drained);
        while self.tasks.join_next().await.is_some() {}
    }
}
