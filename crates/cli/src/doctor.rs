//! `twinlog doctor`: everything that is wrong with a mirror, and what to do about it.
//!
//! Does not: judge; that is `twinlog-doctor`.
//!
//! Exit code: 3 when something could not be looked at, else 1 when a finding is an error, else 0.

mod document;
mod text;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use twinlog_doctor::{Diagnosis, Outcome, Rest, Survey, Trouble, Wanted, diagnose};
use twinlog_engine::observe::Observer;

use crate::args::Doctor;
use crate::config;
use crate::looking::{self, Looking};
use crate::output::{Failure, NOT_FOUND_OUT, Output, WRONG};

pub(crate) fn doctor(args: &Doctor, out: Output) -> Result<ExitCode, Failure> {
    let looking = Looking::open(&looking::with_time_for_both(&args.common))?;
    let wanted = Wanted {
        group: args.group.as_deref().map(Into::into),
        topic: args.topic.as_deref().map(Into::into),
    };
    looking::block_on(async {
        if looking.observers.is_empty() {
            return Err(Failure::usage("no flow is enabled", "say SOURCE->TARGET.enabled = true"));
        }
        let connect = ask_connect(args, &looking).await;
        let all = looking.observers.iter().map(|observer| {
            let name = &observer.config.name;
            let mut survey = Survey::new(
                observer.config.clone(),
                looking.bootstrap(name),
                looking.notes.clone(),
                config::now_ms(),
            );
            survey.facts.connect.clone_from(&connect);
            (observer.clone(), survey)
        });
        let timeout = args.common.timeout;
        let read = looking::each(all, |(observer, survey)| read(observer, survey, timeout)).await;
        let file = looking::file(&args.common);
        let diagnoses: Vec<Diagnosis> =
            read.into_iter().map(|mut survey| diagnose(&mut survey, &wanted, &file)).collect();
        answer(args, out, &file, &diagnoses)
    })
}

/// How much of the time a Connect cluster has: what it does not tell is looked for elsewhere.
const CONNECT_SHARE: f64 = 0.3;

/// The connectors of a Connect cluster, where one is named.
async fn ask_connect(args: &Doctor, looking: &Looking) -> Option<Result<Arc<Rest>, Trouble>> {
    let url = args.connect_url.as_ref()?;
    let read = Rest::read(url, args.common.timeout.mul_f64(CONNECT_SHARE)).await;
    if let Ok(rest) = &read {
        let there = rest.flows();
        for observer in &looking.observers {
            let flow = &observer.config.name;
            if !there.contains(flow) {
                let there: Vec<String> = there.iter().map(ToString::to_string).collect();
                let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
                eprintln!(
                    "twinlog: {url} has no connector of {flow}; of these flows it has: {there}"
                );
            }
        }
    }
    Some(read.map(Arc::new))
}

/// Reads what there is time for.
async fn read(observer: Observer, mut survey: Survey, timeout: Duration) -> Survey {
    let reading = survey.read(&observer);
    if tokio::time::timeout(looking::look_within(timeout), reading).await.is_err() {
        survey.facts.cut_off = Some(looking::cut_off(&observer, timeout).await);
    }
    survey
}

fn answer(
    args: &Doctor,
    out: Output,
    file: &str,
    diagnoses: &[Diagnosis],
) -> Result<ExitCode, Failure> {
    if out.json {
        Output::document(&document::document(diagnoses))?;
    } else {
        let verbose = args.common.printing.verbose > 0;
        Output::text(&text::text(diagnoses, file, verbose))?;
    }
    let outcome = diagnoses.iter().map(Diagnosis::outcome).max().unwrap_or(Outcome::Well);
    Ok(match outcome {
        Outcome::Well => ExitCode::SUCCESS,
        Outcome::Wrong => ExitCode::from(WRONG),
        Outcome::NotFoundOut => ExitCode::from(NOT_FOUND_OUT),
    })
}
