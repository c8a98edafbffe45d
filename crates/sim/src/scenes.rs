//! Histories with one disturbance each: for tables of faults that have to be gone through one by
//! one. Traffic, checkers and healing are those of the [simulation](crate::run).

use std::collections::BTreeMap;

use tokio::time::Duration;
use twinlog_embedded::{Action, Fault};
use twinlog_protocol::ApiKey;

use crate::network::{Tampering, Trap};
use crate::run::{Outcome, Simulation};
use crate::traffic::PLAIN;
use crate::world::{World, mirror};

/// How long a disturbance lasts.
pub const LASTS: Duration = Duration::from_secs(6);
/// So many requests of one kind may be disturbed; one that uses them up was asked without a pause.
const TIMES: u32 = 2_000;

/// What disturbs a scene.
#[derive(Clone, Debug)]
pub enum Disturbance {
    /// Nothing.
    Nothing,
    /// The instance dies at a request.
    Kill(Trap),
    /// Answers are changed on their way.
    Lie(Tampering),
    /// A cluster does this to requests of one kind.
    Act {
        /// On the source.
        source: bool,
        /// Which requests.
        api: ApiKey,
        /// What.
        action: Action,
        /// Only those about the mirror of the plain topic.
        plain: bool,
        /// Only this often.
        times: Option<u32>,
    },
}

/// What came of a scene.
#[derive(Clone, Debug)]
pub struct Scene {
    /// How often the disturbance happened.
    pub happened: u64,
    /// Requests by their labels while it lasted.
    pub requests: BTreeMap<String, u64>,
    /// What the product said about partitions while it lasted.
    pub said: BTreeMap<String, String>,
    /// What it said about the flow.
    pub flow: String,
    /// Whether partitions of other topics went on while it lasted.
    pub others_went_on: bool,
    /// What the checkers found, in the end too.
    pub outcome: Outcome,
}

/// Plays a scene on a clock of its own.
pub fn play(disturbance: &Disturbance) -> Scene {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    // Made inside: outside of the runtime `Instant::now` is the real time.
    runtime.block_on(async { Simulation::quiet().play(disturbance).await })
}

impl Simulation {
    fn quiet() -> Self {
        let mut simulation = Self::new(1, false);
        simulation.world = World::plain();
        simulation
    }

    async fn play(mut self, disturbance: &Disturbance) -> Scene {
        self.make_topics();
        (0..12).for_each(|_| self.write());
        (0..6).for_each(|_| self.commit());
        self.start_instance();
        let first = self.instances[0].link.clone();
        let mut planned = None;
        match disturbance {
            Disturbance::Nothing => {}
            Disturbance::Kill(trap) => first.set_trap(trap.clone()),
            Disturbance::Lie(tampering) => first.tamper(tampering.clone()),
            Disturbance::Act { source, api, action, plain, times } => {
                let times = times.unwrap_or(TIMES);
                let mut fault = Fault::new(action.clone()).api(*api).times(times);
                if *plain {
                    fault = fault.topic(&mirror(PLAIN));
                }
                planned =
                    Some((self.world.side(*source).clone(), self.world.side(*source).fault(fault)));
            }
        }
        for _ in 0..LASTS.as_millis() / 500 {
            self.write();
            self.end_transaction();
            self.commit();
            self.pass(Duration::from_millis(500)).await;
        }
        self.hear_all();
        let said = self
            .stops
            .iter()
            .map(|((topic, partition), stop)| (format!("{topic}-{partition}"), stop.code.clone()))
            .collect();
        let report = self.instances.first().map(|one| one.engine.report().flows);
        let flow = report.into_iter().flatten().map(|(_, flow)| {
            let code = flow.standing.code.map_or("", twinlog_types::Code::word);
            format!("{} {code}", flow.standing.state)
        });
        let flow = flow.collect::<Vec<_>>().join(", ");
        let others_went_on = self
            .mirrors
            .iter()
            .filter(|((topic, _), _)| topic != PLAIN)
            .filter(|(place, _)| self.logs[*place].expected().next().is_some())
            .all(|(_, known)| !known.seen.is_empty());
        let requests = first.requests();
        let lies = u64::from(first.honest());
        let used_up = planned.is_some_and(|(cluster, id)| !cluster.remove_fault(id));
        let happened = match disturbance {
            Disturbance::Nothing => 0,
            Disturbance::Kill(_) => u64::from(first.sprung()),
            Disturbance::Lie(_) => lies,
            Disturbance::Act { .. } => u64::from(used_up),
        };
        self.heal().await;
        self.finish().await;
        let simulated = LASTS;
        self.instances.clear();
        let outcome = Outcome {
            seed: 0,
            violations: self.verdicts.0,
            counts: self.counts,
            trace: 0,
            simulated,
        };
        Scene { happened, requests, said, flow, others_went_on, outcome }
    }
}
