//! One seed: traffic with faults, then healing, then a quiet look at everything.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Duration, Instant, sleep};
use twinlog_types::{Code, Planted, plant};

use crate::checks::{Invariant, Stopped, Verdicts, Violation};
use crate::counts::Counts;
use crate::faults::{Broken, Kind};
use crate::oracle::{Mirror, Place, SourceLog};
use crate::random::Random;
use crate::trace;
use crate::traffic::{KEYED, OpenTransaction};
use crate::world::{Instance, World};

/// How often the concurrent reader reads.
const READ_EVERY: Duration = Duration::from_millis(200);
/// How far back a consumer's commit may have been read from.
const LATELY: Duration = Duration::from_mins(2);

/// A group's position in a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    /// What was committed on the source, and when.
    pub(crate) source: Vec<(Instant, i64)>,
    /// What was last seen on the target.
    pub(crate) target: Option<i64>,
    /// The furthest that the target's own consumers committed.
    pub(crate) theirs: Option<i64>,
}

impl Position {
    /// Where the group stands on the source.
    pub(crate) fn newest(&self) -> Option<i64> {
        self.source.last().map(|(_, position)| *position)
    }

    /// Whether the group was ever moved back on the source.
    pub(crate) fn was_moved_back(&self) -> bool {
        self.source.windows(2).any(|pair| pair[1].1 < pair[0].1)
    }

    /// The furthest that the group stood on the source lately.
    pub(crate) fn furthest_lately(&self) -> Option<i64> {
        let since = Instant::now() - LATELY;
        let old = self.source.iter().rev().find(|(at, _)| *at < since);
        let new = self.source.iter().rev().take_while(|(at, _)| *at >= since);
        old.into_iter().chain(new).map(|(_, position)| *position).max()
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What the checkers found.
    pub violations: Vec<Violation>,
    /// What happened.
    pub counts: Counts,
    /// A hash over everything that both clusters saw, if asked for.
    pub trace: u64,
    /// Simulated time.
    pub simulated: Duration,
}

/// How a run is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// A defect to switch on.
    pub defect: Option<Planted>,
    /// Whether the trace is hashed.
    pub traced: bool,
}

/// A run under way.
pub struct Simulation {
    pub(crate) world: World,
    pub(crate) random: Random,
    pub(crate) instances: Vec<Instance>,
    /// How many instances were started so far.
    pub(crate) started: u64,
    pub(crate) logs: BTreeMap<Place, SourceLog>,
    pub(crate) mirrors: BTreeMap<Place, Mirror>,
    pub(crate) positions: BTreeMap<(String, Place), Position>,
    pub(crate) open: Vec<OpenTransaction>,
    pub(crate) swarm: Vec<Kind>,
    pub(crate) broken: Broken,
    pub(crate) counts: Counts,
    pub(crate) verdicts: Verdicts,
    /// Partitions whose mirror lost its end once.
    pub(crate) target_lost: BTreeSet<Place>,
    pub(crate) target_compacted: bool,
    /// Records may stand twice: packets are late, and brokers forget producers.
    pub(crate) repeats_allowed: bool,
    /// Partitions about which an instance said that something stands twice, or is not ours.
    pub(crate) told: BTreeSet<Place>,
    /// The product's word about partitions that do not go on.
    pub(crate) stops: BTreeMap<Place, Stopped>,
    /// Topics that the product says were made again.
    pub(crate) recreated: BTreeSet<String>,
    /// After the faults everything was there once.
    pub(crate) healed: bool,
    /// When leases in the state were first readable, by the offset of their record, ...
    pub(crate) readable: BTreeMap<i64, i64>,
    /// ... and the log's end and high watermark of the last look at them.
    pub(crate) state_seen: (i64, i64),
    pub(crate) leases_seen_ms: i64,
    began: Instant,
    traced: bool,
}

/// Runs a seed on a clock of its own.
pub fn run(seed: u64, plan: Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    plant(plan.defect);
    // Made inside: outside of the runtime `Instant::now` is the real time.
    let outcome = runtime.block_on(async { Simulation::new(seed, plan.traced).run(seed).await });
    drop(runtime);
    plant(None);
    outcome
}

impl Simulation {
    pub(crate) fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::new(seed);
        let world = World::new(seed, &mut random);
        Self {
            world,
            random,
            instances: Vec::new(),
            started: 0,
            logs: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            positions: BTreeMap::new(),
            open: Vec::new(),
            swarm: Vec::new(),
            broken: Broken::default(),
            counts: Counts::default(),
            verdicts: Verdicts::default(),
            target_lost: BTreeSet::new(),
            target_compacted: false,
            repeats_allowed: false,
            told: BTreeSet::new(),
            stops: BTreeMap::new(),
            recreated: BTreeSet::new(),
            healed: false,
            readable: BTreeMap::new(),
            state_seen: (-1, -1),
            leases_seen_ms: 0,
            began: Instant::now(),
            traced,
        }
    }

    async fn run(mut self, seed: u64) -> Outcome {
        self.draw_swarm();
        self.make_topics();
        for _ in 0..10 {
            self.write();
        }
        if self.random.one_in(2) {
            // Holes are met by the first fetch already.
            let keyed = (KEYED.to_owned(), 0);
            (0..4).for_each(|_| self.write_to(&keyed));
            self.compact(true);
        }
        self.start_instance();
        let steps = 24 + self.random.below(24);
        for _ in 0..steps {
            match self.random.below(12) {
                0..=4 => self.write(),
                5 => {
                    self.end_transaction();
                }
                6 | 7 => self.commit(),
                _ => self.fault().await,
            }
            let wait = self.random.below(1_200);
            self.pass(Duration::from_millis(wait)).await;
        }
        self.counts.add("records seen during faults", self.seen());
        self.heal().await;
        self.finish().await;
        let trace = if self.traced { trace::hash(&self.clusters(), self.began) } else { 0 };
        let simulated = self.began.elapsed();
        self.counts.add("simulated seconds", simulated.as_secs());
        self.instances.clear();
        Outcome { seed, violations: self.verdicts.0, counts: self.counts, trace, simulated }
    }

    /// Time passes; the concurrent reader reads.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            sleep(left.min(READ_EVERY)).await;
            self.lift();
            self.thaw(false);
            self.look();
            self.bury();
            if Instant::now() >= end {
                return;
            }
        }
    }

    fn seen(&self) -> u64 {
        self.mirrors.values().map(|mirror| mirror.seen.len() as u64).sum()
    }

    /// Takes note of what an instance says.
    pub(crate) fn hear(&mut self, instance: &Instance) {
        for flow in instance.engine.report().flows.values() {
            let reason = flow.standing.reason.as_deref().unwrap_or_default();
            let panicked = reason.contains("panicked");
            self.verdicts
                .note(Invariant::Bug, panicked.then(|| format!("{}: {reason}", instance.name)));
            for event in &flow.events {
                let strange = matches!(event.code, Code::DuplicatesOnTarget | Code::ForeignWriter);
                if let Some(about) = event.partition.as_ref().filter(|_| strange) {
                    self.told.insert((about.topic.to_string(), about.partition));
                }
            }
            if flow.standing.code == Some(Code::OwnedElsewhere) {
                continue;
            }
            self.stops = flow
                .stopped
                .iter()
                .map(|(about, stop)| {
                    let range = stop.range.map(|(from, to)| (from.0, to.0));
                    let (code, passing) = (stop.code.word().to_owned(), stop.passing);
                    let place = (about.topic.to_string(), about.partition);
                    (place, Stopped { code, range, passing })
                })
                .collect();
            let recreated =
                flow.topics.iter().filter(|(_, (code, _))| *code == Code::TopicRecreated);
            self.recreated = recreated.map(|(topic, _)| topic.to_string()).collect();
        }
    }

    /// What every live instance says now.
    pub(crate) fn hear_all(&mut self) {
        let instances = std::mem::take(&mut self.instances);
        for instance in &instances {
            self.hear(instance);
        }
        self.instances = instances;
    }
}
