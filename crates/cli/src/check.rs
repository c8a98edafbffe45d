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

use twinlog_engine::observe::{FlowPlan, Hindrance, PlannedStart};
use twinlog_mirror::{Configuration, FlowConfig, Origin, Problem};
use twinlog_types::Code;

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

/// Something that is wrong, with the file or with what the clusters make of it.
struct Said {
    severity: Severity,
    /// The finding, where it was found on the clusters.
    code: Option<Code>,
    problem: Problem,
}

impl Said {
    fn of_file(severity: Severity, problem: Problem) -> Self {
        Self { severity, code: None, problem }
    }

    /// What keeps `run` from doing its work on these clusters.
    fn online(severity: Severity, hindrance: &Hindrance, file: &str) -> Self {
        let origin = hindrance.origin.as_ref();
        let problem = Problem {
            file: origin.map_or(file, |origin| &origin.file).to_owned(),
            line: origin.and_then(|origin| origin.line),
            key: Some(hindrance.key.clone()),
            message: hindrance.message.clone(),
            suggestion: Some(hindrance.suggestion.clone()),
        };
        Self { severity, code: Some(hindrance.code), problem }
    }

    fn is_online_error(&self) -> bool {
        self.code.is_some() && self.severity == Severity::Error
    }

    /// Whether it is that the value at this place is refused, so that the default holds.
    fn refuses(&self, origin: &Origin) -> bool {
        let Problem { file, line, key, .. } = &self.problem;
        self.code.is_none()
            && self.severity == Severity::Error
            && (file, *line) == (&origin.file, origin.line)
            && key.as_ref() == Some(&origin.key)
    }
}

/// Everything that was found out.
struct Checked {
    configuration: Configuration,
    problems: Vec<Said>,
    /// Of each flow that was looked at, or why it could not be.
    plans: Vec<Result<FlowPlan, Failure>>,
}

impl Checked {
    /// Where the value that counts stands: nowhere, if what stands there is refused.
    fn holding<'a>(&self, origin: Option<&'a Origin>) -> Option<&'a Origin> {
        origin.filter(|origin| !self.problems.iter().any(|said| said.refuses(origin)))
    }
}

pub(crate) fn check(args: &Check, out: Output) -> Result<ExitCode, Failure> {
    let read = config::read_whole(&args.common)?;
    let mut problems: Vec<Said> =
        read.problems.into_iter().map(|one| Said::of_file(Severity::Error, one)).collect();
    let warnings = read.notes.into_iter().chain(read.contradictions);
    problems.extend(warnings.map(|warning| Said::of_file(Severity::Warning, warning)));
    let mut checked = Checked { configuration: read.configuration, problems, plans: Vec::new() };
    let errors = checked.problems.iter().any(|said| said.severity == Severity::Error);
    if args.online && !errors {
        checked.plans = online(args, &checked.configuration)?;
        let file = looking::file(&args.common);
        let flows = checked.plans.iter().flatten().flat_map(|plan| &plan.hindrances);
        let flows = flows.map(|hindrance| (Severity::Error, hindrance));
        // Nothing but heartbeats goes where no flow is enabled.
        let beats = heartbeats(args, &checked.configuration)?;
        let beats = beats.iter().map(|hindrance| (Severity::Warning, hindrance));
        let mut said: Vec<Said> = Vec::new();
        for (severity, hindrance) in flows.chain(beats) {
            let one = Said::online(severity, hindrance, &file);
            // Flows in both directions meet the same clusters.
            if !said.iter().any(|before| before.problem == one.problem) {
                said.push(one);
            }
        }
        checked.problems.extend(said);
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
        offers.clone().any(|offer| !offer.lacks.is_empty())
            || plan.mm2_runs.is_some()
            || !plan.topics.stopped.is_empty()
            || plan.partitions.iter().any(|partition| left_alone(partition.start))
    });
    // What keeps `run` from its work, here or where only heartbeats go.
    let wrong = wrong || checked.problems.iter().any(Said::is_online_error);
    match (errors, unknown, wrong) {
        (true, ..) => USAGE,
        (_, true, _) => NOT_FOUND_OUT,
        (_, _, true) => WRONG,
        _ => 0,
    }
}

/// What keeps heartbeats from being written where no flow is enabled. What cannot be asked is told by the
/// plans of the flows between the same clusters.
fn heartbeats(args: &Check, configuration: &Configuration) -> Result<Vec<Hindrance>, Failure> {
    let timeout = args.common.timeout;
    let only = |flow: &&FlowConfig| !flow.enabled && args.common.flow.is_none();
    let observers = configuration
        .heartbeat_flows()
        .filter(only)
        .map(|flow| config::observer(configuration, flow, timeout.mul_f64(0.8)))
        .collect::<Result<Vec<_>, _>>()?;
    threads::block_on(async {
        let found = looking::each(observers, |observer| async move {
            let within = looking::look_within(timeout);
            tokio::time::timeout(within, observer.heartbeats_hindrance()).await
        });
        Ok(found.await.into_iter().flatten().flatten().flatten().collect())
    })
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
