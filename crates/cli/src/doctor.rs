//! `twinlog doctor`: everything that is wrong with a mirror, and what to do about it.
//!
//! Does not: judge; that is `twinlog-doctor`.
//!
//! Exit code: 3 when something could not be looked at, else 1 when a finding is an error, else 0.

mod document;
mod text;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use twinlog_doctor::{Diagnosis, Outcome, Rest, Survey, Trouble, Wanted, diagnose};
use twinlog_engine::observe::Observer;
use twinlog_types::FlowName;

use crate::args::Doctor;
use crate::config;
use crate::discovery::{self, Opened};
use crate::looking;
use crate::output::{Failure, NOT_FOUND_OUT, Output, WRONG};
use crate::threads;

pub(crate) fn doctor(args: &Doctor, out: Output) -> Result<ExitCode, Failure> {
    let wanted = Wanted {
        group: args.group.as_deref().map(Into::into),
        topic: args.topic.as_deref().map(Into::into),
    };
    let began = Instant::now();
    threads::block_on(async {
        let connect = ask_connect(args).await;
        let rest = connect.as_ref().and_then(|connect| connect.as_deref().ok());
        let common = looking::with_time_for_both(&args.common);
        let opened = discovery::open(&common, rest, args.common.timeout).await?;
        let Opened { looking, common, assumed, keys, .. } = opened;
        if looking.observers.is_empty() {
            return Err(Failure::usage("no flow is enabled", "say SOURCE->TARGET.enabled = true"));
        }
        for observer in &looking.observers {
            tell_of_other_flows(&observer.config.name, connect.as_ref());
        }
        let all = looking.observers.iter().map(|observer| {
            let mut survey = Survey::new(
                observer.config.clone(),
                looking.bootstrap(&observer.config.name),
                looking.notes.clone(),
                config::now_ms(),
            );
            survey.facts.connect.clone_from(&connect);
            survey.facts.assumed.clone_from(&keys);
            survey.wanted.clone_from(&wanted);
            (observer.clone(), survey)
        });
        let timeout = args.common.timeout.saturating_sub(began.elapsed());
        let read = looking::each(all, |(observer, survey)| read(observer, survey, timeout)).await;
        let file = looking::file(&common);
        let diagnoses: Vec<Diagnosis> =
            read.into_iter().map(|mut survey| diagnose(&mut survey, &wanted, &file)).collect();
        answer(args, out, &file, &assumed, &diagnoses)
    })
}

type Connect = Result<Arc<Rest>, Trouble>;

/// How much of the time a Connect cluster has: what it does not tell is looked for elsewhere.
const CONNECT_SHARE: f64 = 0.2;

/// The connectors of a Connect cluster, where one is named.
async fn ask_connect(args: &Doctor) -> Option<Connect> {
    let url = args.connect_url.as_ref()?;
    let read = Rest::read(url, args.common.timeout.mul_f64(CONNECT_SHARE)).await;
    Some(read.map(Arc::new))
}

/// Says so where a Connect cluster runs other flows than the one that is looked at.
fn tell_of_other_flows(flow: &FlowName, connect: Option<&Connect>) {
    let Some(Ok(rest)) = connect else { return };
    let there = rest.flows();
    if there.contains(flow) {
        return;
    }
    let there: Vec<String> = there.iter().map(ToString::to_string).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    eprintln!("twinlog: {} has no connector of {flow}; flows that it has: {there}", rest.url);
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
    assumed: &[String],
    diagnoses: &[Diagnosis],
) -> Result<ExitCode, Failure> {
    if out.json {
        Output::document(&document::document(diagnoses, assumed))?;
    } else {
        let verbose = args.common.printing.verbose > 0;
        Output::text(&text::text(diagnoses, assumed, file, verbose))?;
    }
    let outcome = diagnoses.iter().map(Diagnosis::outcome).max().unwrap_or(Outcome::Well);
    Ok(match outcome {
        Outcome::Well => ExitCode::SUCCESS,
        Outcome::Wrong => ExitCode::from(WRONG),
        Outcome::NotFoundOut => ExitCode::from(NOT_FOUND_OUT),
    })
}
