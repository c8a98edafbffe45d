//! `twinlog check`: what a file says, key by key, what is wrong with it, and with `--online` what
//! `run` would do.
//!
//! Does not: change anything, neither here nor on a cluster.
//!
//! Exit code: 2 with errors in the file, else 3 when something could not be found out, else 1 when
//! something would not be copied, else 0.

mod document;
mod text;
mod versions;

use std::process::ExitCode;

use twinlog_engine::observe::{FlowPlan, PlannedStart};
use twinlog_mirror::{Configuration, Problem};

use crate::args::Check;
use crate::config;
use crate::looking;
use crate::output::{Failure, NOT_FOUND_OUT, Output, USAGE, WRONG};
use crate::threads;

/// What is wrong, how badly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Severity {
    /// `run` refuses the file.
    Error,
    /// It is taken, and hardly meant.
    Warning,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Everything that was found out.
struct Checked {
    configuration: Configuration,
    problems: Vec<(Severity, Problem)>,
    /// Of each flow that was looked at, or why it could not be.
    plans: Vec<Result<FlowPlan, Failure>>,
}

pub(crate) fn check(args: &Check, out: Output) -> Result<ExitCode, Failure> {
    let read = config::read_whole(&args.common)?;
    let mut problems: Vec<(Severity, Problem)> =
        read.problems.into_iter().map(|problem| (Severity::Error, problem)).collect();
    let warnings = read.notes.into_iter().chain(read.contradictions);
    problems.extend(warnings.map(|warning| (Severity::Warning, warning)));
    let mut checked = Checked { configuration: read.configuration, problems, plans: Vec::new() };
    let errors = checked.problems.iter().any(|(severity, _)| *severity == Severity::Error);
    if args.online && !errors {
        checked.plans = online(args, &checked.configuration)?;
    } else if !errors && let Some(flow) = &args.common.flow {
        config::flow(&checked.configuration, flow)?;
    }
    if out.json {
        Output::document(&document::document(args, &checked))?;
    } else {
        Output::text(&text::text(args, &checked))?;
    }
    Ok(ExitCode::from(exit(&checked, errors)))
}

fn exit(checked: &Checked, errors: bool) -> u8 {
    let unknown = checked.plans.iter().any(|plan| match plan {
        Ok(plan) => !plan.unread.is_empty(),
        Err(_) => true,
    });
    let wrong = checked.plans.iter().flatten().any(|plan| {
        let left_alone = |start| start == PlannedStart::LeftAlone;
        let offers = plan.source.offers.iter().chain(&plan.target.offers);
        plan.is_one_cluster()
            || offers.clone().any(|offer| !offer.lacks.is_empty())
            || plan.mm2_runs.is_some()
            || !plan.topics.stopped.is_empty()
            || plan.partitions.iter().any(|partition| left_alone(partition.start))
    });
    match (errors, unknown, wrong) {
        (true, ..) => USAGE,
        (_, true, _) => NOT_FOUND_OUT,
        (_, _, true) => WRONG,
        _ => 0,
    }
}

fn online(
    args: &Check,
    configuration: &Configuration,
) -> Result<Vec<Result<FlowPlan, Failure>>, Failure> {
    let timeout = args.common.timeout;
    let deadline = timeout.mul_f64(0.8);
    let observers = config::flows(configuration, &args.common)?
        .into_iter()
        .map(|flow| config::observer(configuration, flow, deadline))
        .collect::<Result<Vec<_>, _>>()?;
    threads::block_on(async {
        Ok(looking::each(observers, |observer| async move {
            let name = observer.config.name.to_string();
            match tokio::time::timeout(looking::look_within(timeout), observer.plan_run()).await {
                Ok(Ok(plan)) => Ok(plan),
                Ok(Err(error)) => Err(Failure::client(&name, &error)),
                Err(_) => Err(Failure::timed_out(&name, timeout)),
            }
        })
        .await)
    })
}
