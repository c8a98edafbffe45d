//! `twinlog rehearse`: what a group would read after a failover now.
//!
//! Does not: read or write itself; that is `twinlog-verify`. It sees to it that the scratch group
//! is removed, whatever happens.
//!
//! Exit code: 3 when something could not be found out or the scratch group may still be there, else
//! 1 when the group would not go on with the same records, else 0.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use twinlog_doctor::one_line;
use twinlog_engine::observe::{Observer, shell_option};
use twinlog_types::{Code, GroupId};
use twinlog_verify::rehearse::{self, Plan, Planned, Rehearsed};

use crate::args::Rehearse;
use crate::config;
use crate::discovery;
use crate::looking;
use crate::output::{Failure, INTERRUPTED, NOT_FOUND_OUT, Output, WRONG, table, table_text};
use crate::threads;
use crate::verify::finding;

/// Findings of one partition that are shown; --json has the first hundred.
const FINDINGS_SHOWN: usize = 5;

#[derive(Serialize)]
struct Document<'a> {
    version: u8,
    flows: Vec<FlowBody<'a>>,
}

#[derive(Serialize)]
struct FlowBody<'a> {
    flow: String,
    group: &'a str,
    scratch_group: &'a str,
    /// Nothing was done yet.
    plan: bool,
    /// The scratch group is not there any more.
    removed: Option<bool>,
    partitions: Vec<PartitionBody<'a>>,
}

#[derive(Serialize)]
struct PartitionBody<'a> {
    topic: &'a str,
    target_topic: &'a str,
    partition: i32,
    source_offset: i64,
    target_offset: Option<i64>,
    result: Option<&'static str>,
    reread: u64,
    skipped: u64,
    read_source: u64,
    read_target: u64,
    equal: u64,
    missing: u64,
    extra: u64,
    different: u64,
    out_of_order: u64,
    first_source: Option<i64>,
    first_target: Option<i64>,
}

pub(crate) fn rehearse(args: &Rehearse, out: Output) -> Result<ExitCode, Failure> {
    let group = GroupId::from(args.group.as_str());
    threads::block_on(async {
        let (looking, common) = discovery::open_and_say(&args.common).await?;
        let mut plans: Vec<(&Observer, Plan)> = Vec::new();
        for observer in &looking.observers {
            let planning = rehearse::plan(observer, &group, config::seed());
            let plan = within(args, "looking at the group", planning).await?;
            if !plan.positions.is_empty() {
                plans.push((observer, plan));
            }
        }
        if plans.is_empty() {
            return Err(Failure {
                exit: WRONG,
                code: Code::GroupWithoutCommits.word().into(),
                message: format!(
                    "no commit of group {} on a mirrored topic is visible",
                    one_line(group.as_str())
                ),
                next: format!(
                    "see `twinlog explain {} {}`",
                    looking::file(&common),
                    shell_option("--group", group.as_str())
                ),
                problems: Vec::new(),
            });
        }
        if args.plan {
            return say_plans(args, &plans, out);
        }
        let mut done = Vec::new();
        for (observer, plan) in &plans {
            match play(args, observer, plan).await? {
                Played::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
                Played::Whole(rehearsed) => done.push((*observer, plan, rehearsed)),
            }
        }
        let equal = done.iter().flat_map(|(_, _, all)| all).all(Rehearsed::is_equal);
        answer(&done, out)?;
        Ok(ExitCode::from(if equal { 0 } else { WRONG }))
    })
}

enum Played {
    Whole(Vec<Rehearsed>),
    Interrupted,
}

/// Rehearses, and removes the scratch group whatever came of it.
async fn play(args: &Rehearse, observer: &Observer, plan: &Plan) -> Result<Played, Failure> {
    let records = usize::try_from(args.records).unwrap_or(usize::MAX);
    let rehearsing = rehearse::rehearse(observer, plan, records);
    let played = tokio::select! {
        played = within(args, "the rehearsal", rehearsing) => Some(played),
        () = interrupted() => None,
    };
    let removing = within(args, "removing the scratch group", rehearse::remove(observer, plan));
    let removed = tokio::select! {
        removed = removing => removed,
        () = interrupted() => Err(left("interrupted again")),
    };
    if let Err(failure) = removed {
        let scratch = &plan.scratch;
        return Err(Failure {
            message: format!("the scratch group {scratch} may still be there: {}", failure.message),
            next: format!(
                "remove it: kafka-consumer-groups.sh --bootstrap-server {} --delete {}",
                observer.target.bootstrap(),
                shell_option("--group", scratch.as_str())
            ),
            ..failure
        });
    }
    if let Some(played) = played {
        return played.map(Played::Whole);
    }
    eprintln!("twinlog: interrupted; the scratch group {} is removed", plan.scratch);
    Ok(Played::Interrupted)
}

/// Ends with Ctrl-C or SIGTERM.
async fn interrupted() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

fn left(what: &str) -> Failure {
    Failure {
        exit: NOT_FOUND_OUT,
        code: "failed".into(),
        message: what.to_owned(),
        next: "see the message; -v shows more".into(),
        problems: Vec::new(),
    }
}

async fn within<T>(
    args: &Rehearse,
    what: &str,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(args.common.timeout, work).await {
        Ok(done) => done.map_err(|error| left(&error)),
        Err(_) => Err(Failure::timed_out(what, args.common.timeout)),
    }
}

fn say_plans(
    args: &Rehearse,
    plans: &[(&Observer, Plan)],
    out: Output,
) -> Result<ExitCode, Failure> {
    if out.json {
        let flows = plans.iter().map(|(observer, plan)| FlowBody {
            plan: true,
            removed: None,
            partitions: plan.positions.iter().map(|one| body(one, None)).collect(),
            ..flow_body(observer, plan)
        });
        Output::document(&Document { version: 1, flows: flows.collect() })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for (observer, plan) in plans {
        let name = &observer.config.name;
        let mut rows = table(&["TOPIC", "P", "READ ON THE SOURCE FROM", "ON THE TARGET FROM"]);
        for one in &plan.positions {
            rows.add_row([
                one.topic.to_string(),
                one.partition.to_string(),
                one.source_offset.to_string(),
                offset(one.target_offset),
            ]);
        }
        let _ = write!(
            text,
            "{name}  would give the new group {scratch} on {target} the positions of {group} there, \
             read up to {records} records of each partition on both clusters, compare them, and \
             remove {scratch}:\n\n{table}\nNothing was done.\n",
            scratch = plan.scratch,
            target = name.target,
            group = plan.group,
            records = args.records,
            table = table_text(&rows),
        );
    }
    Output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn flow_body<'a>(observer: &Observer, plan: &'a Plan) -> FlowBody<'a> {
    FlowBody {
        flow: observer.config.name.to_string(),
        group: plan.group.as_str(),
        scratch_group: plan.scratch.as_str(),
        plan: false,
        removed: Some(true),
        partitions: Vec::new(),
    }
}

fn body<'a>(planned: &'a Planned, rehearsed: Option<&Rehearsed>) -> PartitionBody<'a> {
    let tally = rehearsed.map(|one| one.tally).unwrap_or_default();
    let first = rehearsed.and_then(|one| one.first);
    PartitionBody {
        topic: planned.topic.as_str(),
        target_topic: planned.target_topic.as_str(),
        partition: planned.partition,
        source_offset: planned.source_offset,
        target_offset: planned.target_offset,
        result: rehearsed.map(result),
        reread: rehearsed.map_or(0, |one| one.reread),
        skipped: rehearsed.map_or(0, |one| one.skipped),
        read_source: tally.source_records,
        read_target: tally.target_records,
        equal: tally.equal,
        missing: tally.missing,
        extra: tally.extra,
        different: tally.different,
        out_of_order: tally.out_of_order,
        first_source: first.map(|(source, _)| source.0),
        first_target: first.map(|(_, target)| target.0),
    }
}

fn result(one: &Rehearsed) -> &'static str {
    if one.planned.target_offset.is_none() {
        "no-position"
    } else if !one.tally.is_faithful() {
        "different"
    } else if one.reread > 0 {
        "reads-again"
    } else if one.skipped > 0 {
        "skips"
    } else {
        "equal"
    }
}

/// What the group would do, in words.
fn verdict(rehearsed: &[Rehearsed]) -> String {
    let faithful = |one: &Rehearsed| one.planned.target_offset.is_some() && one.tally.is_faithful();
    if !rehearsed.iter().all(faithful) {
        return "does not read the same records".to_owned();
    }
    let (reread, skipped) = rehearsed
        .iter()
        .fold((0, 0), |(reread, skipped), one| (reread + one.reread, skipped + one.skipped));
    match (reread, skipped) {
        (0, 0) => "reads the same records".to_owned(),
        (again, 0) => format!("reads {again} records again, then the same ones"),
        (0, skipped) => format!("skips {skipped} records, then reads the same ones"),
        (again, skipped) => {
            format!("reads {again} records again and skips {skipped}, then reads the same ones")
        }
    }
}

fn offset(offset: Option<i64>) -> String {
    offset.map_or("-".to_owned(), |at| at.to_string())
}

fn answer(done: &[(&Observer, &Plan, Vec<Rehearsed>)], out: Output) -> Result<(), Failure> {
    if out.json {
        let flows = done.iter().map(|(observer, plan, rehearsed)| FlowBody {
            partitions: rehearsed.iter().map(|one| body(&one.planned, Some(one))).collect(),
            ..flow_body(observer, plan)
        });
        return Output::document(&Document { version: 1, flows: flows.collect() });
    }
    let mut text = String::new();
    for (observer, plan, rehearsed) in done {
        let (flow, group) = (&observer.config.name, &plan.group);
        let verdict = verdict(rehearsed);
        let _ = writeln!(text, "{flow}  group {group} {verdict} on {}\n", flow.target);
        let columns = [
            "TOPIC",
            "P",
            "SOURCE",
            "TARGET",
            "AGAIN",
            "SKIPPED",
            "READ",
            "EQUAL",
            "MISSING",
            "EXTRA",
            "DIFFERENT",
            "RESULT",
        ];
        let mut rows = table(&columns);
        for one in rehearsed {
            let tally = &one.tally;
            rows.add_row([
                one.planned.topic.to_string(),
                one.planned.partition.to_string(),
                one.planned.source_offset.to_string(),
                offset(one.planned.target_offset),
                one.reread.to_string(),
                one.skipped.to_string(),
                tally.source_records.to_string(),
                tally.equal.to_string(),
                tally.missing.to_string(),
                tally.extra.to_string(),
                tally.different.to_string(),
                result(one).to_owned(),
            ]);
        }
        text += &table_text(&rows);
        for one in rehearsed {
            for found in one.findings.iter().take(FINDINGS_SHOWN) {
                let (topic, partition) = (&one.planned.topic, one.planned.partition);
                let _ = writeln!(text, "  {topic}-{partition}: {}", finding(found));
            }
        }
        let _ = writeln!(text, "\nthe scratch group {} is removed", plan.scratch);
    }
    Output::text(&text)
}
