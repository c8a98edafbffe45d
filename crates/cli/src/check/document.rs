//! The JSON document of `twinlog check`.

use serde::Serialize;
use twinlog_engine::observe::{FlowPlan, PlannedPartition, PlannedSide, PlannedStart};
use twinlog_types::{Code, ConfigChange};

use super::versions::spoken;
use super::{Checked, Said};
use crate::args::Check;

#[derive(Serialize)]
pub(super) struct Document {
    version: u8,
    flows: Vec<FlowPart>,
    problems: Vec<ProblemPart>,
}

#[derive(Serialize)]
struct FlowPart {
    flow: String,
    config: Vec<ConfigPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanPart>,
}

#[derive(Serialize)]
struct ConfigPart {
    key: String,
    value: String,
    from: String,
    line: Option<u32>,
}

#[derive(Serialize)]
struct ProblemPart {
    file: String,
    line: Option<u32>,
    key: Option<String>,
    severity: &'static str,
    /// The finding, of what only the clusters show.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    message: String,
    suggestion: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum PlanPart {
    Plan(Box<PlanBody>),
    Failed { error: FailedPart },
}

#[derive(Serialize)]
struct FailedPart {
    code: String,
    message: String,
    next: String,
}

#[derive(Serialize)]
struct PlanBody {
    source: SidePart,
    target: SidePart,
    same_cluster: bool,
    mm2_runs: Option<String>,
    run_by: Option<String>,
    create: Vec<CreatePart>,
    grow: Vec<GrowPart>,
    change: Vec<ChangePart>,
    copy: Vec<CopyPart>,
    stopped: Vec<StoppedPart>,
    findings: Vec<StoppedPart>,
    excluded: Vec<ExcludedPart>,
    unread: Vec<String>,
}

#[derive(Serialize)]
struct SidePart {
    alias: String,
    cluster_id: String,
    brokers: usize,
    topics: usize,
    versions: Vec<VersionsPart>,
    clock: Option<ClockPart>,
    /// Why the clock is not known.
    clock_unknown: Option<String>,
}

#[derive(Serialize)]
struct VersionsPart {
    brokers: Vec<i32>,
    release: Option<&'static str>,
    features: std::collections::BTreeMap<String, i16>,
    newest_fetch: i16,
}

/// The clock of the controller, against this machine's.
#[derive(Serialize)]
struct ClockPart {
    ahead_ms: i64,
    within_ms: u64,
}

#[derive(Serialize)]
struct CreatePart {
    topic: String,
    target_topic: String,
    partitions: i32,
    replication_factor: i16,
    configs: std::collections::BTreeMap<String, String>,
}

#[derive(Serialize)]
struct GrowPart {
    target_topic: String,
    partitions: i32,
}

#[derive(Serialize)]
struct ChangePart {
    target_topic: String,
    key: String,
    /// Null: the key is removed.
    value: Option<String>,
}

#[derive(Serialize)]
struct CopyPart {
    topic: String,
    target_topic: String,
    partition: i32,
    /// `goes-on`, `begins`, `taken-over` or `left-alone`.
    start: &'static str,
    /// What MM2 says it copied last.
    mm2_last: Option<i64>,
    waiting: u64,
}

#[derive(Serialize)]
struct StoppedPart {
    topic: String,
    target_topic: String,
    code: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct ExcludedPart {
    topic: String,
    reason: String,
}

pub(super) fn document(args: &Check, checked: &Checked) -> Document {
    let mut plans = checked.plans.iter();
    let wanted = args.common.flow.as_ref();
    let flows = checked.configuration.flows().iter();
    let flows = flows.filter(|flow| wanted.is_none_or(|wanted| *wanted == flow.name));
    let flows = flows.map(|flow| FlowPart {
        flow: flow.name.to_string(),
        config: flow
            .settings()
            .into_iter()
            .map(|setting| ConfigPart {
                from: super::text::place(checked, setting.origin),
                line: checked.holding(setting.origin).and_then(|origin| origin.line),
                key: setting.key,
                value: setting.value,
            })
            .collect(),
        plan: plans.next().map(|plan| match plan {
            Ok(plan) => PlanPart::Plan(Box::new(body(plan))),
            Err(failure) => PlanPart::Failed {
                error: FailedPart {
                    code: failure.code.clone(),
                    message: failure.message.clone(),
                    next: failure.next.clone(),
                },
            },
        }),
    });
    let problems = checked.problems.iter().map(|Said { severity, code, problem }| ProblemPart {
        code: code.map(Code::word),
        file: problem.file.clone(),
        line: problem.line,
        key: problem.key.clone(),
        severity: severity.word(),
        message: problem.message.clone(),
        suggestion: problem.suggestion.clone(),
    });
    Document { version: 1, flows: flows.collect(), problems: problems.collect() }
}

fn body(plan: &FlowPlan) -> PlanBody {
    let topics = &plan.topics;
    let verdicts = |verdicts: &[twinlog_flow::topics::TopicVerdict]| {
        verdicts
            .iter()
            .map(|verdict| StoppedPart {
                topic: verdict.topic.to_string(),
                target_topic: verdict.target.to_string(),
                code: verdict.code.word(),
                reason: verdict.reason.clone(),
            })
            .collect()
    };
    PlanBody {
        source: side(&plan.source),
        target: side(&plan.target),
        same_cluster: plan.is_one_cluster(),
        mm2_runs: plan.mm2_runs.clone(),
        run_by: plan.run_by.as_ref().map(|lease| lease.instance.clone()),
        create: topics
            .create
            .iter()
            .map(|creation| CreatePart {
                topic: creation.source.to_string(),
                target_topic: creation.target.to_string(),
                partitions: creation.partitions,
                replication_factor: creation.replication_factor,
                configs: creation.configs.clone(),
            })
            .collect(),
        grow: topics
            .grow
            .iter()
            .map(|growth| GrowPart {
                target_topic: growth.target.to_string(),
                partitions: growth.count,
            })
            .collect(),
        change: topics
            .alter
            .iter()
            .flat_map(|alteration| {
                alteration.changes.iter().map(|change| {
                    let (key, value) = match change {
                        ConfigChange::Set(key, value) => (key.clone(), Some(value.clone())),
                        ConfigChange::Delete(key) => (key.clone(), None),
                    };
                    ChangePart { target_topic: alteration.target.to_string(), key, value }
                })
            })
            .collect(),
        copy: plan.partitions.iter().map(copy).collect(),
        stopped: verdicts(&topics.stopped),
        findings: verdicts(&topics.findings),
        excluded: topics
            .excluded
            .iter()
            .map(|excluded| ExcludedPart {
                topic: excluded.topic.to_string(),
                reason: excluded.why.to_string(),
            })
            .collect(),
        unread: plan.unread.clone(),
    }
}

fn side(side: &PlannedSide) -> SidePart {
    SidePart {
        alias: side.alias.to_string(),
        cluster_id: side.id.to_string(),
        brokers: side.brokers,
        topics: side.topics,
        versions: spoken(side)
            .into_iter()
            .map(|one| VersionsPart {
                release: one.release(),
                brokers: one.brokers,
                features: one.features,
                newest_fetch: one.fetch,
            })
            .collect(),
        clock: side
            .clock
            .as_ref()
            .ok()
            .map(|clock| ClockPart { ahead_ms: clock.ahead_ms, within_ms: clock.within_ms }),
        clock_unknown: side.clock.as_ref().err().cloned(),
    }
}

fn copy(partition: &PlannedPartition) -> CopyPart {
    let (start, mm2_last) = match partition.start {
        PlannedStart::GoesOn => ("goes-on", None),
        PlannedStart::Begins => ("begins", None),
        PlannedStart::TakenOver(last) => ("taken-over", last),
        PlannedStart::LeftAlone => ("left-alone", None),
    };
    CopyPart {
        topic: partition.source.topic.to_string(),
        target_topic: partition.target.topic.to_string(),
        partition: partition.source.partition,
        start,
        mm2_last,
        waiting: partition.waiting,
    }
}
