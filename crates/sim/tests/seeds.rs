//! The simulation itself: many seeds without a violation.

use twinlog_sim::{Plan, campaign, replay};

const SEEDS: u64 = 2_000;

#[test]
fn nothing_is_lost_doubled_or_skipped_in_two_thousand_histories() {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let summary = campaign(0..SEEDS, threads, None, Plan::default(), |_| {});
    println!("{:.1} seeds a second: {}", summary.seeds_per_second(), summary.counts);
    let found: Vec<String> = summary
        .violations
        .iter()
        .map(|(seed, violation)| format!("{violation}\n  replay: {}", replay(*seed)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(summary.shortcomings(), Vec::<String>::new(), "too little happened");
}
