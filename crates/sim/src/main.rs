//! Runs any number of seeds: `twinlog-sim --seeds 0..20000`.
//!
//! Prints a line every few seconds, every violation with the command that replays it, and at the end
//! what happened and one line for a ledger. The exit code is 1 when a checker found something, or
//! too little happened.

use std::fmt;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use twinlog_sim::{Plan, Summary, campaign, replay};
use twinlog_types::Planted;

const USAGE: &str = "usage: twinlog-sim --seeds FROM..TO [--threads N] [--minutes N] [--defect B1]
  TWINLOG_LOG=debug prints what the engine logs; use it with one seed";

/// How often progress is said.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// Times of the log: simulated, since its first line.
struct Simulated(OnceLock<tokio::time::Instant>);

impl FormatTime for Simulated {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        let began = *self.0.get_or_init(tokio::time::Instant::now);
        write!(line, "{:>9.3} s", began.elapsed().as_secs_f64())
    }
}

struct Arguments {
    seeds: Range<u64>,
    threads: usize,
    until: Option<Instant>,
    plan: Plan,
}

fn arguments() -> Option<Arguments> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut found = Arguments { seeds: 0..500, threads: cores, until: None, plan: Plan::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--seeds" => {
                let (from, to) = value.split_once("..")?;
                found.seeds = from.parse().ok()?..to.parse().ok()?;
            }
            "--threads" => found.threads = value.parse().ok()?,
            "--minutes" => {
                let minutes = value.parse().ok()?;
                found.until = Some(Instant::now() + Duration::from_mins(minutes));
            }
            "--defect" => {
                let defect = Planted::ALL.iter().find(|defect| defect.id() == value)?;
                found.plan.defect = Some(*defect);
            }
            _ => return None,
        }
    }
    Some(found)
}

fn main() -> ExitCode {
    if let Ok(filter) = std::env::var("TWINLOG_LOG") {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false)
            .with_timer(Simulated(OnceLock::new()))
            .with_writer(std::io::stderr)
            .try_init();
    }
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let seeds = arguments.seeds.clone();
    let wanted = seeds.end.saturating_sub(seeds.start);
    let said = Mutex::new((Instant::now(), 0));
    let summary =
        campaign(arguments.seeds, arguments.threads, arguments.until, arguments.plan, |summary| {
            let mut said = said.lock();
            for (seed, violation) in summary.violations.iter().skip(said.1) {
                println!("seed {seed}: {violation}\n  replay: {}", replay(*seed));
            }
            said.1 = summary.violations.len();
            if said.0.elapsed() >= SAY_EVERY {
                println!("{}", progress(summary, wanted));
                said.0 = Instant::now();
            }
        });
    println!("{}\n{}", progress(&summary, wanted), summary.counts);
    let shortcomings = summary.shortcomings();
    // A handful of seeds is a replay, not a campaign.
    let judged = summary.seeds >= 200;
    for shortcoming in shortcomings.iter().filter(|_| judged) {
        println!("too little: {shortcoming}");
    }
    println!("{}", ledger(&summary, &seeds));
    let sound = summary.violations.is_empty() && (shortcomings.is_empty() || !judged);
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn progress(summary: &Summary, wanted: u64) -> String {
    format!(
        "{} of {wanted} seeds, {:.1} a second, {} violations, {:.1} simulated hours",
        summary.seeds,
        summary.seeds_per_second(),
        summary.violations.len(),
        summary.simulated.as_secs_f64() / 3_600.0
    )
}

/// One line that says what was run and what came of it.
fn ledger(summary: &Summary, seeds: &Range<u64>) -> String {
    let faults: u64 =
        twinlog_sim::Kind::ALL.iter().map(|kind| summary.counts.of(kind.word())).sum();
    format!(
        "ledger: seeds {}..{} run {} version {} faults {faults} simulated-hours {:.1} violations {}",
        seeds.start,
        seeds.end,
        summary.seeds,
        env!("CARGO_PKG_VERSION"),
        summary.simulated.as_secs_f64() / 3_600.0,
        summary.violations.len()
    )
}
