//! One seed gives one trace. In a process of its own: nothing runs beside it.

use twinlog_sim::{Plan, replay, run};

#[test]
fn one_seed_gives_one_trace() {
    let traced = Plan { traced: true, ..Plan::default() };
    for seed in 0..20 {
        let (one, other) = (run(seed, traced), run(seed, traced));
        assert_eq!(one.trace, other.trace, "{}", replay(seed));
        assert_eq!(one.counts, other.counts, "{}", replay(seed));
    }
    assert_ne!(run(1, traced).trace, run(2, traced).trace);
}
