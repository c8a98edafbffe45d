//! One seed gives one trace, whatever runs beside it.

use std::thread;

use twinlog_sim::{Plan, replay, run};

const TRACED: Plan = Plan { defect: None, traced: true };

#[test]
fn one_seed_gives_one_trace() {
    for seed in 0..20 {
        let (one, other) = (run(seed, TRACED), run(seed, TRACED));
        assert_eq!(one.trace, other.trace, "{}", replay(seed));
        assert_eq!(one.counts, other.counts, "{}", replay(seed));
    }
    assert_ne!(run(1, TRACED).trace, run(2, TRACED).trace);
}

/// Threads that wait for one another's processor: whatever real time gets in differs each time.
#[test]
fn one_seed_gives_one_trace_on_many_threads_at_once() {
    const SEEDS: u64 = 8;
    let alone: Vec<u64> = (0..SEEDS).map(|seed| run(seed, TRACED).trace).collect();
    thread::scope(|scope| {
        for first in 0..SEEDS {
            let alone = &alone;
            scope.spawn(move || {
                for seed in (0..SEEDS).map(|at| (first + at) % SEEDS) {
                    let trace = run(seed, TRACED).trace;
                    assert_eq!(trace, alone[seed as usize], "{}", replay(seed));
                }
            });
        }
    });
}
