//! `twinlog pause`, `resume` and `sync`: an operator's decisions.
//!
//! Each looks at both clusters, says what it will do, leaves the decision for whoever runs the flow,
//! and tells what became of it. With nobody running it is carried out by the next `twinlog run`.
//!
//! Does not: pause, copy or commit anything itself: one process writes a flow, and that is not this
//! one.
//!
//! Exit code: 0 decided (and carried out, where somebody runs the flow); 1 it cannot be, or was found
//! void; 3 it could not be found out, or nobody answered in time.

mod plan;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use twinlog_client::ClientError;
use twinlog_engine::observe::{FlowObservation, Observer};
use twinlog_offsets::state::{Answer, Decided, Made, Subject};
use twinlog_types::{ClusterId, State};

use self::plan::{Ask, Plan};
use crate::args::{Common, Pause, Resume, Sync};
use crate::config;
use crate::discovery;
use crate::looking;
use crate::output::{Failure, NOT_FOUND_OUT, Output, WRONG};
use crate::status;
use crate::threads;

/// How long an answer is waited for where somebody runs the flow: they look every second.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked for.
const ANSWERED_YET: Duration = Duration::from_millis(300);

pub(crate) fn pause(args: &Pause, out: Output) -> Result<ExitCode, Failure> {
    let ask = Ask::Pause { topic: args.of.topic.clone(), partition: args.of.partition };
    command(&args.common, out, &ask, args.plan)
}

pub(crate) fn resume(args: &Resume, out: Output) -> Result<ExitCode, Failure> {
    let (topic, partition) = (args.of.topic.clone(), args.of.partition);
    let ask = Ask::Resume { topic, partition, accept_gap: args.accept_gap };
    command(&args.common, out, &ask, args.plan)
}

pub(crate) fn sync(args: &Sync, out: Output) -> Result<ExitCode, Failure> {
    let ask = Ask::Sync { group: args.group.clone(), overwrite: args.overwrite };
    command(&args.common, out, &ask, args.plan)
}

/// The answer of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    version: u8,
    flow: String,
    #[serde(flatten)]
    plan: &'a Plan,
    /// Whether the decision is recorded on the target.
    recorded: bool,
    /// Whether somebody runs the flow.
    running: bool,
    /// Whether it was carried out; `null` while nobody has answered.
    done: Option<bool>,
    answer: Option<&'a str>,
}

fn command(common: &Common, out: Output, ask: &Ask, only_plan: bool) -> Result<ExitCode, Failure> {
    let (looking, common) = threads::block_on(discovery::open_and_say(common))?;
    let (common, file) = (&common, looking::given(&common));
    let decided = threads::block_on(async {
        let found = status::observe(&looking.observers, common.timeout, &file).await;
        let at = plan::concerned(&found, ask)?;
        let (observer, found) = (&looking.observers[at], &found[at]);
        let mut plan = plan::of(found, ask)?;
        if found.mm2.as_ref().is_some_and(|mm2| mm2.runs.is_some()) {
            plan.not_of_mm2();
        }
        if !out.json {
            Output::text(&plan.text(&found.flow.to_string()))?;
        }
        let running = found.own.state == State::InSync;
        let mut told = Told { recorded: false, running, answer: None };
        if !only_plan && !plan.is_empty() {
            told.record(observer, &plan, common).await?;
        }
        told.answer((out, &file), found, &plan, only_plan)
    });
    decided.map_err(|failure| failure.naming(&file))
}

/// What came of it.
struct Told {
    recorded: bool,
    running: bool,
    answer: Option<Answer>,
}

impl Told {
    /// Leaves the decision, and waits for its answer where somebody may give one.
    async fn record(
        &mut self,
        observer: &Observer,
        plan: &Plan,
        common: &Common,
    ) -> Result<(), Failure> {
        let failed =
            |error: &ClientError| Failure::client(&observer.config.name.to_string(), error);
        let leaving = async {
            let pair = observer.pair().await.map_err(|error| failed(&error))?;
            let Some(pair) = pair else {
                return Err(Failure {
                    exit: NOT_FOUND_OUT,
                    code: twinlog_types::Code::Unreachable.word().into(),
                    message: format!(
                        "{} does not say which cluster it is, and the state on {} does not tell \
                         either",
                        observer.config.name.source, observer.config.name.target
                    ),
                    next: "try again once the source answers".into(),
                    problems: Vec::new(),
                });
            };
            let mut made = Vec::new();
            for (subject, what) in self.decisions(observer, &pair, plan).await? {
                let by = format!("twinlog {} ({})", plan.command, crate::run::instance());
                made.push((subject, Made { by, at_ms: config::now_ms(), what }));
            }
            observer.decide(&pair, &made).await.map_err(|error| failed(&error))?;
            Ok((pair, made))
        };
        let left = tokio::time::timeout(common.timeout, leaving).await;
        let (pair, made) = left.map_err(|_| Failure::timed_out("recording", common.timeout))??;
        self.recorded = true;
        if self.running {
            self.answer = answered(observer, &pair, &made, common.timeout).await;
        }
        Ok(())
    }

    /// What is left behind: with the ids of today, and for a resumed topic also about partitions that
    /// are paused one by one.
    async fn decisions(
        &self,
        observer: &Observer,
        pair: &(ClusterId, ClusterId),
        plan: &Plan,
    ) -> Result<Vec<(Subject, Decided)>, Failure> {
        let failed =
            |error: &ClientError| Failure::client(&observer.config.name.to_string(), error);
        let mut what = plan.decided.clone();
        if let (Decided::Resume { accepted }, Subject::Topic(topic, _)) = (&mut what, &plan.subject)
            && !accepted.is_empty()
        {
            let id = observer.source_topic_id(topic).await.map_err(|error| failed(&error))?;
            for one in accepted {
                one.source_topic = id;
            }
        }
        let mut all = Vec::new();
        if let (Decided::Resume { .. }, Subject::Topic(topic, None)) = (&what, &plan.subject) {
            let decisions = observer.decisions(pair).await.map_err(|error| failed(&error))?;
            for (subject, made) in decisions.all() {
                let single = matches!(subject, Subject::Topic(of, Some(_)) if of == topic);
                if single && made.what == Decided::Pause {
                    all.push((subject.clone(), Decided::Resume { accepted: Vec::new() }));
                }
            }
        }
        all.push((plan.subject.clone(), what));
        Ok(all)
    }

    fn answer(
        &self,
        (out, file): (Output, &str),
        found: &FlowObservation,
        plan: &Plan,
        only_plan: bool,
    ) -> Result<ExitCode, Failure> {
        let answer = self.answer.as_ref();
        if out.json {
            Output::document(&Document {
                version: 1,
                flow: found.flow.to_string(),
                plan,
                recorded: self.recorded,
                running: self.running,
                done: answer.map(|answer| answer.done),
                answer: answer.map(|answer| answer.text.as_str()),
            })?;
        } else {
            let text = match (answer, self.recorded, self.running) {
                (Some(answer), ..) if answer.done => format!("done: {}\n", answer.text),
                (Some(answer), ..) => format!("not done: {}\n", answer.text),
                (None, true, false) => {
                    format!(
                        "recorded; nothing runs the flow now: it is carried out when `twinlog run \
                         {file}` starts\n"
                    )
                }
                (None, true, true) => {
                    format!("recorded; not answered yet: see `twinlog status {file}`\n")
                }
                (None, false, _) if only_plan => "nothing was changed (--plan)\n".to_owned(),
                (None, false, _) => "nothing to do\n".to_owned(),
            };
            Output::text(&text)?;
        }
        Ok(match answer {
            Some(answer) if !answer.done => ExitCode::from(WRONG),
            None if self.recorded && self.running => ExitCode::from(NOT_FOUND_OUT),
            _ => ExitCode::SUCCESS,
        })
    }
}

/// The answer to the last of the decisions, if it comes in time.
async fn answered(
    observer: &Observer,
    pair: &(ClusterId, ClusterId),
    made: &[(Subject, Made)],
    timeout: Duration,
) -> Option<Answer> {
    let (subject, made) = made.last()?;
    let began = Instant::now();
    while began.elapsed() < ANSWER_WITHIN.min(timeout) {
        // What cannot be read now may be in a moment; the decision is recorded all the same.
        if let Ok(mut answers) = observer.answers(pair).await
            && let Some(answer) = answers.remove(subject)
            && made.is_answered_by(&answer)
        {
            return Some(answer);
        }
        tokio::time::sleep(ANSWERED_YET).await;
    }
    None
}
