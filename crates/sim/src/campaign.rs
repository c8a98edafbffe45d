//! Many seeds, on several threads; and whether enough happened in them.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::checks::{Invariant, Violation};
use crate::counts::Counts;
use crate::faults::Kind;
use crate::run::{Outcome, Plan, run};

/// A run fails whose seeds saw less than this, per thousand of them.
const FAULTS_PER_THOUSAND: u64 = 50;
const PATHS_PER_THOUSAND: u64 = 20;
/// Ways to recover, and what a run must be full of, by the names of counts.
const PATHS: [&str; 10] = [
    "takeovers",
    "instance killed",
    "instance killed at a request",
    "instance stopped",
    "lost ranges in the ledger",
    "transactions aborted",
    "transactions committed",
    "positions committed on the target",
    "commits by the target's own consumers",
    "partitions translated throughout",
];

/// What many seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many ran.
    pub seeds: u64,
    /// Seed by seed, what was found.
    pub violations: Vec<(u64, Violation)>,
    /// What happened.
    pub counts: Counts,
    /// How long it took.
    pub elapsed: Duration,
    /// Simulated time in sum.
    pub simulated: Duration,
}

impl Summary {
    /// Seeds in a second.
    pub fn seeds_per_second(&self) -> f64 {
        self.seeds as f64 / self.elapsed.as_secs_f64().max(0.001)
    }

    /// What there was too little of for these seeds to mean anything.
    pub fn shortcomings(&self) -> Vec<String> {
        let at_least = |what: &str, per_thousand: u64| {
            let (count, wanted) = (self.counts.of(what), per_thousand * self.seeds / 1_000);
            (count < wanted).then(|| format!("{what}: {count}, and {wanted} are wanted"))
        };
        let faults = Kind::ALL.iter().filter_map(|kind| at_least(kind.word(), FAULTS_PER_THOUSAND));
        let paths = PATHS.iter().filter_map(|path| at_least(path, PATHS_PER_THOUSAND));
        // Twenty records and two commits for each seed, on average, while the faults last.
        let traffic =
            [at_least("records seen during faults", 20_000), at_least("group commits", 2_000)];
        faults.chain(paths).chain(traffic.into_iter().flatten()).collect()
    }

    fn take(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.simulated += outcome.simulated;
        self.counts.merge(&outcome.counts);
        let found = outcome.violations.into_iter();
        self.violations.extend(found.map(|violation| (outcome.seed, violation)));
    }
}

/// The command that runs a seed again.
pub fn replay(seed: u64) -> String {
    format!("cargo run -p twinlog-sim -- --seeds {seed}..{}", seed + 1)
}

/// A run whose panic is a violation like any other.
pub fn run_safely(seed: u64, plan: Plan) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| run(seed, plan))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let what = format!("panicked: {}", text.unwrap_or_default());
        Outcome {
            seed,
            violations: vec![Violation { invariant: Invariant::Bug, what }],
            counts: Counts::default(),
            trace: 0,
            simulated: Duration::ZERO,
        }
    })
}

/// Runs seeds on `threads` threads until they are done or `until` has come. `told` hears of every
/// seed that was run, in no order.
pub fn campaign(
    seeds: Range<u64>,
    threads: usize,
    until: Option<Instant>,
    plan: Plan,
    told: impl Fn(&Summary) + Sync,
) -> Summary {
    let began = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while until.is_none_or(|until| Instant::now() < until) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run_safely(seed, plan);
                    let mut summary = summary.lock();
                    summary.take(outcome);
                    summary.elapsed = began.elapsed();
                    told(&summary);
                }
            });
        }
    });
    let mut summary = summary.into_inner();
    summary.violations.sort_by_key(|(seed, _)| *seed);
    summary
}
