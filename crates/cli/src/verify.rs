//! `twinlog verify`: whether the mirror is what the source is, and groups stand where they should.
//!
//! Does not: compare; that is `twinlog-verify`.
//!
//! Exit code: 3 when something could not be found out, else 1 when something differs, else 0.

mod document;
mod progress;
mod report;
mod sha256;
mod text;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use twinlog_doctor::one_line;
use twinlog_engine::observe::{Observer, shell_option};
use twinlog_types::Code;
use twinlog_verify::{FlowReport, How, Progress, Request, Verdict, verify as look};

use crate::args::Verify;
use crate::config;
use crate::discovery;
use crate::looking::{self, Looking};
use crate::output::{Failure, INTERRUPTED, NOT_FOUND_OUT, Output, WRONG};
use crate::threads;
use progress::Saving;

use document::Documents;
pub(crate) use text::finding;

/// What one run did, beside what it found.
pub(crate) struct Effort {
    pub(crate) seconds: f64,
    pub(crate) peak_memory_bytes: Option<u64>,
}

pub(crate) fn verify(args: &Verify, out: Output) -> Result<ExitCode, Failure> {
    let (looking, common) = threads::block_on(discovery::open_and_say(&args.common))?;
    if looking.observers.is_empty() {
        return Err(Failure::usage("no flow is enabled", "say SOURCE->TARGET.enabled = true"));
    }
    let how = match (args.sample, args.full) {
        (_, true) => Some(How::Full),
        (Some(records), _) => Some(How::Sample(records)),
        (None, false) => None,
    };
    let request = Request {
        group: args.group.as_deref().map(Into::into),
        topic: args.topic.as_deref().map(Into::into),
        how,
    };
    let began = Instant::now();
    let reports = threads::block_on_all_cores(run(args, &looking, &request))?;
    let effort = Effort {
        seconds: began.elapsed().as_secs_f64(),
        peak_memory_bytes: progress::peak_memory_bytes(),
    };
    progress::clear();
    let reports = match reports {
        Ended::Whole(reports) => reports,
        Ended::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
    };
    nothing_in_scope(args, &looking::file(&common), &reports)?;
    if let Some(file) = &args.report {
        let asked: Vec<String> = std::env::args().skip(1).collect();
        let asked = format!("twinlog {}", asked.join(" "));
        let (page, digest) = report::page(&reports, &effort, &asked)?;
        std::fs::write(file, page).map_err(|error| {
            let message = format!("--report {}: {error}", file.display());
            Failure::usage(message, "name a file that can be written")
        })?;
        eprintln!("twinlog: {} is written, SHA-256 of its results {digest}", file.display());
    }
    if out.json {
        Output::document(&Documents::new(&reports, &effort))?;
    } else {
        Output::text(&text::text(&reports, &effort))?;
    }
    Ok(match reports.iter().map(FlowReport::verdict).max() {
        None | Some(Verdict::Equal) => ExitCode::SUCCESS,
        Some(Verdict::Mismatch) => ExitCode::from(WRONG),
        Some(Verdict::NotFoundOut) => ExitCode::from(NOT_FOUND_OUT),
    })
}

enum Ended {
    Whole(Vec<FlowReport>),
    Interrupted,
}

/// Verifies the flows, one after another: each has both clusters for itself.
async fn run(args: &Verify, looking: &Looking, request: &Request) -> Result<Ended, Failure> {
    let saving = args.resume.clone().map(Saving::open).transpose()?;
    let work = async {
        let mut reports = Vec::new();
        for observer in &looking.observers {
            let now_ms = config::now_ms();
            let mut report = FlowReport::new(observer, request.how.unwrap_or(How::Full), now_ms);
            flow(args, observer, request, saving.as_ref(), &mut report).await?;
            reports.push(report);
        }
        Ok::<_, Failure>(reports)
    };
    tokio::select! {
        reports = work => {
            let reports = reports?;
            if let Some(saving) = &saving {
                let whole = reports.iter().all(|one| one.troubles.is_empty());
                saving.end(whole)?;
            }
            Ok(Ended::Whole(reports))
        }
        _ = tokio::signal::ctrl_c() => {
            match &saving {
                Some(saving) => {
                    saving.write()?;
                    let file = saving.file().display();
                    eprintln!("twinlog: interrupted; the same command goes on from {file}");
                }
                None if args.full => {
                    eprintln!("twinlog: interrupted; with --resume F it could go on from here");
                }
                None => eprintln!("twinlog: interrupted"),
            }
            Ok(Ended::Interrupted)
        }
    }
}

async fn flow(
    args: &Verify,
    observer: &Observer,
    request: &Request,
    saving: Option<&Saving>,
    report: &mut FlowReport,
) -> Result<(), Failure> {
    let progress = match saving {
        Some(saving) => saving.progress(observer).await?,
        None => Arc::new(Progress::default()),
    };
    let telling = progress::tell(&observer.config.name, &progress, args.full, saving);
    if args.full {
        tokio::select! {
            () = look(observer, request, &progress, report) => {}
            failed = telling => return failed,
        }
        return Ok(());
    }
    let timeout = args.common.timeout;
    let within = looking::look_within(timeout);
    let looked = async {
        tokio::select! {
            () = look(observer, request, &progress, report) => Ok(()),
            failed = telling => failed,
        }
    };
    if let Ok(ended) = tokio::time::timeout(within, looked).await {
        return ended;
    }
    report.take_found(&progress);
    let trouble = looking::cut_off(observer, timeout).await;
    report.troubles.push(format!("{}: give it more time with --timeout", trouble.what));
    Ok(())
}

/// A name that matches nothing is a mistake of the caller, and no proof of anything.
fn nothing_in_scope(args: &Verify, file: &str, reports: &[FlowReport]) -> Result<(), Failure> {
    if reports.iter().any(|one| !one.troubles.is_empty()) {
        return Ok(());
    }
    let wrong = |code: Code, message: String, next: String| Failure {
        exit: WRONG,
        code: code.word().into(),
        message,
        next,
        problems: Vec::new(),
    };
    if let Some(group) = &args.group
        && reports.iter().all(|one| one.groups.is_empty())
    {
        let message =
            format!("no commit of group {} on a mirrored topic is visible", one_line(group));
        let next = format!("see `twinlog explain {file} {}`", shell_option("--group", group));
        return Err(wrong(Code::GroupWithoutCommits, message, next));
    }
    if reports.iter().all(|one| one.partitions.is_empty()) {
        let (message, next) = match &args.topic {
            Some(topic) => (
                format!("no topic {} is mirrored", one_line(topic)),
                format!("see `twinlog explain {file} {}`", shell_option("--topic", topic)),
            ),
            None => ("no topic is mirrored".to_owned(), format!("see `twinlog status {file}`")),
        };
        return Err(wrong(Code::TopicNotMirrored, message, next));
    }
    Ok(())
}

/// How often a line says how far it is, where nobody watches.
const TELLS_EVERY: Duration = Duration::from_secs(10);
