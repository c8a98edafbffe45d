//! `twinlog wait`: until everything is in sync, or the time is up.
//!
//! Does not: need a running twinlog to ask; it looks at the clusters as `status` does, again and
//! again.
//!
//! Exit code: 0 when it holds, 1 when it cannot come to hold by waiting, 3 when the time is up.

mod judge;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use twinlog_engine::observe::{Observer, shell_option};

use self::judge::{Goals, Open, Verdict, Wanted};
use crate::args::Wait;
use crate::discovery;
use crate::looking;
use crate::output::{Failure, NOT_FOUND_OUT, Output, WRONG};
use crate::status;
use crate::threads;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// How often progress is said where there is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// A cluster that is away is given up after this much, and tried again with the next look.
const LOOK: Duration = Duration::from_secs(30);
/// How many of what is not in sync are printed for people.
const LINES_MAX: usize = 20;

pub(crate) fn wait(args: &Wait, out: Output) -> Result<ExitCode, Failure> {
    let mut common = args.common.clone();
    common.timeout = common.timeout.min(LOOK);
    let (looking, common) = threads::block_on(discovery::open_and_say(&common))?;
    let wanted = Wanted { group: args.group.clone(), topic: args.topic.clone() };
    let file = looking::given(&common);
    let looked = (looking.observers.as_slice(), file.as_str());
    let ended = threads::block_on(until_in_sync(looked, wanted, args.common.timeout))?;
    answer(args, out, &ended, &file)
}

/// How the waiting ended.
struct Ended {
    verdict: Verdict,
    waited: Duration,
    looks: u32,
}

async fn until_in_sync(
    (observers, file): (&[Observer], &str),
    wanted: Wanted,
    timeout: Duration,
) -> Result<Ended, Failure> {
    let start = Instant::now();
    let mut mirror = wanted.topic.clone();
    let mut goals = Goals::new(wanted);
    let mut progress = Progress::new(start);
    let mut whole: Option<Verdict> = None;
    let mut looks = 0;
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        let flows = status::observe(observers, left, file).await;
        looks += 1;
        let waited = start.elapsed();
        let mut verdict = goals.judge(&flows);
        if let Some(own) = verdict.mirror_of.take()
            && let Some(asked) = mirror.take()
        {
            eprintln!("twinlog: topic {asked} is the mirror of topic {own}");
        }
        if waited >= timeout
            && verdict.cut_off
            && let Some(before) = whole.take()
        {
            // The last look had no time; the one before says more.
            verdict = before;
        }
        if verdict.holds() || verdict.never() || waited >= timeout {
            progress.end();
            return Ok(Ended { verdict, waited, looks });
        }
        progress.say(&verdict);
        whole = Some(verdict);
        tokio::time::sleep(PAUSE.min(timeout.saturating_sub(waited))).await;
    }
}

/// The answer of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    version: u8,
    until: &'a str,
    group: Option<&'a str>,
    topic: Option<&'a str>,
    holds: bool,
    waited_ms: u128,
    looks: u32,
    /// How many partitions, positions of groups and flows were looked at last.
    checked: usize,
    not_in_sync: &'a [Open],
    /// What to do where it does not hold.
    next: Option<&'a str>,
}

fn answer(args: &Wait, out: Output, ended: &Ended, file: &str) -> Result<ExitCode, Failure> {
    let Ended { verdict, waited, looks } = ended;
    let until = args.until.to_possible_value();
    let next = next(verdict, file);
    let until = until.as_ref().map_or("", |value| value.get_name());
    if out.json {
        Output::document(&Document {
            version: 1,
            until,
            group: args.group.as_deref(),
            topic: args.topic.as_deref(),
            holds: verdict.holds(),
            waited_ms: waited.as_millis(),
            looks: *looks,
            checked: verdict.checked,
            not_in_sync: &verdict.open,
            next: next.as_ref().map(|(next, _)| next.as_str()),
        })?;
    } else {
        Output::text(&text(verdict, *waited))?;
    }
    let Some((next, exit)) = next else { return Ok(ExitCode::SUCCESS) };
    eprintln!("twinlog: {next}");
    Ok(ExitCode::from(exit))
}

/// What to do where it does not hold, and the exit code.
fn next(verdict: &Verdict, file: &str) -> Option<(String, u8)> {
    if verdict.holds() {
        return None;
    }
    if verdict.nowhere {
        let what = "nothing of that name is there to wait for";
        return Some((format!("{what}; `twinlog status {file}` lists what is"), WRONG));
    }
    let paused = verdict.paused();
    if !paused.is_empty() {
        let resume =
            |topic: &&str| format!("`twinlog resume {file} {}`", shell_option("--topic", topic));
        let resume: Vec<String> = paused.iter().map(resume).collect();
        let what = format!("{} paused, and waiting does not end a pause", are(&paused));
        return Some((format!("{what}; to go on: {}", resume.join(", ")), WRONG));
    }
    if verdict.never() {
        let what =
            "waiting does not change that; change the configuration, or wait for something else";
        return Some((what.to_owned(), WRONG));
    }
    if verdict.is_by_mm2() {
        let what = "the time is up, and MM2 makes this mirror: it is in sync in the sense of twinlog once \
                    MM2 is stopped and";
        let next = format!(
            "{what} `twinlog run {file}` has taken it over; MM2's mirror as it is: `twinlog doctor {file}`, \
             `twinlog verify {file}`"
        );
        return Some((next, NOT_FOUND_OUT));
    }
    let next = format!(
        "the time is up; give it more with --timeout, `twinlog status {file} --problems` shows how it goes \
         on"
    );
    Some((next, NOT_FOUND_OUT))
}

/// `orders is`, `orders and 2 more are`
fn are(topics: &[&str]) -> String {
    match topics {
        [one] => format!("{one} is"),
        [first, rest @ ..] => format!("{first} and {} more are", rest.len()),
        [] => String::new(),
    }
}

fn text(verdict: &Verdict, waited: Duration) -> String {
    let (checked, seconds) = (verdict.checked, waited.as_secs_f64());
    if verdict.holds() {
        return format!("in sync after {seconds:.1} s: {checked} checked\n");
    }
    let open = verdict.open.len();
    let mut text = format!("not in sync after {seconds:.1} s: {open} of {checked}\n");
    for open in verdict.open.iter().take(LINES_MAX) {
        let _ = writeln!(text, "  {open}");
    }
    if open > LINES_MAX {
        let _ = writeln!(text, "  and {} more", open - LINES_MAX);
    }
    text
}

/// Says on standard error how the waiting goes on.
struct Progress {
    terminal: bool,
    said: Instant,
}

impl Progress {
    fn new(start: Instant) -> Self {
        Self { terminal: io::stderr().is_terminal(), said: start }
    }

    fn say(&mut self, verdict: &Verdict) {
        if !self.terminal && self.said.elapsed() < SAY_EVERY {
            return;
        }
        self.said = Instant::now();
        let first = verdict.open.first().map(Open::to_string).unwrap_or_default();
        let line = format!("{} of {} not in sync; {first}", verdict.open.len(), verdict.checked);
        let mut err = io::stderr().lock();
        // Nowhere is left to say that standard error is closed.
        let _ = if self.terminal {
            let line: String = line.chars().take(100).collect();
            write!(err, "\r\x1b[K{line}").and_then(|()| err.flush())
        } else {
            writeln!(err, "twinlog: {line}")
        };
    }

    fn end(&self) {
        if self.terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
