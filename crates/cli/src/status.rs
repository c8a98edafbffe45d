//! `twinlog status`: how flows, topics and groups stand, from outside.
//!
//! Exit code: 3 when something could not be found out (the answer is not whole then, whatever else
//! it says), else 1 when something is stopped or a flow does not run, else 0.

mod document;
mod text;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use twinlog_engine::observe::{FlowObservation, Observer};
use twinlog_types::{Code, State};

use crate::args::Status;
use crate::discovery;
use crate::looking;
use crate::output::{self, Failure, NOT_FOUND_OUT, Output, WRONG};
use crate::threads;

pub(crate) fn status(args: &Status, out: Output) -> Result<ExitCode, Failure> {
    threads::block_on(async {
        let (looking, common) = discovery::open_and_say(&args.common).await?;
        look(args, out, (&looking.observers, &looking::given(&common))).await
    })
}

async fn look(
    args: &Status,
    out: Output,
    (observers, file): (&[Observer], &str),
) -> Result<ExitCode, Failure> {
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let flows = tokio::select! {
            flows = observe(observers, args.common.timeout, file) => flows,
            _ = &mut interrupted => return Ok(ExitCode::from(crate::output::INTERRUPTED)),
        };
        let code = answer(args, out, flows)?;
        if !args.watch {
            return Ok(code);
        }
        tokio::select! {
            () = tokio::time::sleep(args.interval) => {}
            _ = &mut interrupted => return Ok(code),
        }
    }
}

/// Looks at all flows at the same time; what took too long is said to be missing. Commands in what is said
/// name the configuration as `file`.
pub(crate) async fn observe(
    observers: &[Observer],
    timeout: Duration,
    file: &str,
) -> Vec<FlowObservation> {
    let mut flows = looking::each(observers.iter().cloned(), |observer| async move {
        let mut found = FlowObservation::new(observer.config.name.clone());
        let looked = async {
            observer.observe(&mut found).await;
            observer.observe_mm2(&mut found).await;
        };
        if tokio::time::timeout(looking::look_within(timeout), looked).await.is_err() {
            let mute = looking::mute(&observer, timeout).await;
            found.cut_off(&mute, &looking::within(timeout));
        }
        found
    })
    .await;
    for flow in &mut flows {
        looking::name_file(flow, file);
    }
    flows
}

fn answer(
    args: &Status,
    out: Output,
    mut flows: Vec<FlowObservation>,
) -> Result<ExitCode, Failure> {
    for flow in &mut flows {
        limit(flow, args.group.as_deref(), args.topic.as_deref());
    }
    let code = exit_code(&flows);
    let document = document::document(&flows, args.problems);
    if out.json {
        Output::document(&document)?;
    } else {
        if args.watch && std::io::stdout().is_terminal() {
            output::write(b"\x1b[H\x1b[2J").map_err(|error| Failure::stdout(&error))?;
        }
        Output::text(&text::text(&document))?;
    }
    for flow in &flows {
        for missing in &flow.missing {
            eprintln!("twinlog: {}: {}", flow.flow, missing.what);
        }
    }
    if code == 0
        && let Some(nothing) = nothing_found(args, &flows)
    {
        eprintln!("twinlog: {nothing}");
        return Ok(ExitCode::from(WRONG));
    }
    Ok(ExitCode::from(code))
}

/// Leaves out what was not asked for.
fn limit(flow: &mut FlowObservation, group: Option<&str>, topic: Option<&str>) {
    if let Some(group) = group {
        flow.groups.retain(|one| one.group.as_str() == group);
        let of_group: Vec<_> =
            flow.groups.iter().flat_map(|one| &one.partitions).map(|one| &one.topic).collect();
        flow.topics.retain(|one| of_group.contains(&&one.topic));
    }
    if let Some(topic) = topic {
        flow.topics.retain(|one| one.topic.as_str() == topic);
        for group in &mut flow.groups {
            group.partitions.retain(|one| one.topic.as_str() == topic);
        }
        flow.groups.retain(|one| !one.partitions.is_empty());
    }
}

fn nothing_found(args: &Status, flows: &[FlowObservation]) -> Option<String> {
    let no_group = flows.iter().all(|flow| flow.groups.is_empty());
    let no_topic = flows.iter().all(|flow| flow.topics.is_empty());
    match (&args.group, &args.topic) {
        (Some(group), None) if no_group => Some(format!("no group `{group}` is on the source")),
        (None, Some(topic)) if no_topic => Some(format!("no topic `{topic}` is on the source")),
        (Some(group), Some(topic)) if no_group => {
            Some(format!("no group `{group}` with a commit on `{topic}` is on the source"))
        }
        _ => None,
    }
}

fn exit_code(flows: &[FlowObservation]) -> u8 {
    if flows.iter().any(|flow| !flow.missing.is_empty()) {
        return NOT_FOUND_OUT;
    }
    let wrong = flows.iter().any(|flow| {
        let partitions = flow.topics.iter().flat_map(|topic| &topic.partitions);
        let positions = flow.groups.iter().flat_map(|group| &group.partitions);
        let mut parts = std::iter::once(&flow.own)
            .chain(flow.topics.iter().map(|topic| &topic.standing))
            .chain(partitions.map(|partition| &partition.standing))
            .chain(flow.groups.iter().map(|group| &group.standing))
            .chain(positions.map(|position| &position.standing));
        parts.any(|standing| {
            standing.state == State::Stopped || standing.code == Some(Code::MirrorNotRunning)
        })
    });
    if wrong { WRONG } else { 0 }
}

#[cfg(test)]
mod tests {
    use twinlog_engine::observe::{Missing, TopicObservation};
    use twinlog_flow::Standing;
    use twinlog_types::FlowName;

    use super::*;

    fn flow(own: Standing) -> FlowObservation {
        FlowObservation { own, ..FlowObservation::new(FlowName::new("hello", "world")) }
    }

    fn missing() -> Missing {
        Missing { cluster: "hello".into(), code: Some(Code::Unreachable), what: "gone".into() }
    }

    #[test]
    fn the_exit_code_says_how_bad_it_is() {
        let fine = flow(Standing::in_sync());
        assert_eq!(exit_code(std::slice::from_ref(&fine)), 0);
        let copying = flow(Standing::because(State::CatchingUp, "copying"));
        assert_eq!(exit_code(&[copying, fine.clone()]), 0);
        let mut stopped = fine.clone();
        stopped.topics.push(TopicObservation {
            topic: "orders".into(),
            target_topic: "hello.orders".into(),
            standing: Standing::found(State::Stopped, Code::SourceGap, "gone"),
            partitions: Vec::new(),
        });
        assert_eq!(exit_code(&[fine.clone(), stopped.clone()]), 1);
        let never = flow(Standing::found(State::Waiting, Code::MirrorNotRunning, "never"));
        assert_eq!(exit_code(&[never]), 1);
        let mut unreachable = fine;
        unreachable.missing.push(missing());
        assert_eq!(exit_code(&[unreachable, stopped]), 3);
    }
}
