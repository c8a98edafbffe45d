//! What a decision will do, by what was seen. Pure.

use std::fmt::Write as _;

use serde::Serialize;
use twinlog_doctor::near;
use twinlog_engine::observe::{
    FlowObservation, GroupObservation, PartitionObservation, TopicObservation,
};
use twinlog_offsets::state::{Accepted, Decided, Overwrite, Subject};
use twinlog_types::{Code, SourceOffset, State, TargetOffset, TopicId};

use crate::output::{Failure, WRONG};

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Pause { topic: String, partition: Option<i32> },
    Resume { topic: String, partition: Option<i32>, accept_gap: bool },
    Sync { group: String, overwrite: bool },
}

/// What it will do.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) command: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    pub(crate) steps: Vec<Step>,
    /// What it means for consumers.
    consequences: Vec<String>,
    #[serde(skip)]
    pub(crate) subject: Subject,
    #[serde(skip)]
    pub(crate) decided: Decided,
}

/// One partition's part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Step {
    topic: String,
    partition: i32,
    /// Whether something changes.
    pub(crate) changes: bool,
    what: String,
}

impl Plan {
    /// Nothing would change.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| !step.changes)
    }

    /// MM2 copies the flow, and follows no decision of ours.
    pub(crate) fn not_of_mm2(&mut self) {
        let what = "MM2 makes this mirror now and does not hold to this: it counts once `twinlog run` has \
                    taken the flow over";
        self.consequences.push(what.to_owned());
    }

    pub(crate) fn text(&self, flow: &str) -> String {
        let about = self.group.as_ref().map(|group| format!("group {group}"));
        let about = about.or(self.topic.as_ref().map(|topic| format!("topic {topic}")));
        let mut text = format!("{flow}: {} {}\n", self.command, about.unwrap_or_default());
        for step in &self.steps {
            let _ = writeln!(text, "  {}-{}: {}", step.topic, step.partition, step.what);
        }
        for consequence in &self.consequences {
            let _ = writeln!(text, "  {consequence}");
        }
        text
    }
}

fn wrong(code: &str, message: String, next: impl Into<String>) -> Failure {
    Failure { exit: WRONG, code: code.to_owned(), message, next: next.into(), problems: Vec::new() }
}

/// Which of the flows is concerned.
pub(crate) fn concerned(found: &[FlowObservation], ask: &Ask) -> Result<usize, Failure> {
    let has = |flow: &FlowObservation| match ask {
        Ask::Pause { topic, .. } | Ask::Resume { topic, .. } => {
            topic_of(flow, topic).is_some_and(|one| one.standing.state != State::Excluded)
        }
        Ask::Sync { group, .. } => group_of(flow, group).is_some(),
    };
    let mut with = (0..found.len()).filter(|&at| has(&found[at]));
    if let Some(first) = with.next() {
        if let Some(second) = with.next() {
            let (a, b) = (&found[first].flow, &found[second].flow);
            let message = format!("it is in {a} and in {b}");
            return Err(Failure::usage(message, format!("say which one: --flow '{a}'")));
        }
        return Ok(first);
    }
    if let Some(missing) = found.iter().flat_map(|flow| &flow.missing).next() {
        let message = format!("it is not known: {}", missing.what);
        let next = "try again once both clusters answer";
        let code = missing.code.unwrap_or(Code::Unreachable).word();
        return Err(Failure { exit: crate::output::NOT_FOUND_OUT, ..wrong(code, message, next) });
    }
    Err(match ask {
        Ask::Pause { topic, .. } | Ask::Resume { topic, .. } => {
            let names = found.iter().flat_map(|flow| &flow.topics);
            let names = names.map(|one| one.topic.as_str());
            wrong(
                Code::TopicNotMirrored.word(),
                format!("no topic {topic} is mirrored"),
                meant(topic, names)
                    .unwrap_or_else(|| "`twinlog status FILE` lists what is".to_owned()),
            )
        }
        Ask::Sync { group, .. } => {
            let names = found.iter().flat_map(|flow| &flow.groups);
            let names = names.map(|one| one.group.as_str());
            wrong(
                Code::GroupWithoutCommits.word(),
                format!("no group {group} is on the source"),
                meant(group, names)
                    .unwrap_or_else(|| "`twinlog status FILE` lists those that are".to_owned()),
            )
        }
    })
}

fn meant<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let near = near(name, names);
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

fn topic_of<'a>(flow: &'a FlowObservation, topic: &str) -> Option<&'a TopicObservation> {
    flow.topics.iter().find(|one| one.topic.as_str() == topic)
}

fn group_of<'a>(flow: &'a FlowObservation, group: &str) -> Option<&'a GroupObservation> {
    flow.groups.iter().find(|one| one.group.as_str() == group)
}

/// What is to be done.
pub(crate) fn of(found: &FlowObservation, ask: &Ask) -> Result<Plan, Failure> {
    match ask {
        Ask::Pause { topic, partition } => {
            let partitions = partitions(found, topic, *partition)?;
            Ok(pause(topic, *partition, &partitions))
        }
        Ask::Resume { topic, partition, accept_gap } => {
            let partitions = partitions(found, topic, *partition)?;
            resume(found, topic, *partition, &partitions, *accept_gap)
        }
        Ask::Sync { group, overwrite } => {
            let name = group;
            let Some(group) = group_of(found, group) else {
                return Err(wrong("group-without-commits", format!("no group {name}"), ""));
            };
            sync(group, *overwrite)
        }
    }
}

fn partitions<'a>(
    found: &'a FlowObservation,
    topic: &str,
    partition: Option<i32>,
) -> Result<Vec<&'a PartitionObservation>, Failure> {
    let all = topic_of(found, topic).into_iter().flat_map(|topic| &topic.partitions);
    let wanted: Vec<_> =
        all.filter(|one| partition.is_none_or(|only| only == one.partition)).collect();
    if let (true, Some(partition)) = (wanted.is_empty(), partition) {
        let message = format!("{topic} has no partition {partition} that is mirrored");
        return Err(wrong(Code::TopicNotMirrored.word(), message, "see `twinlog status FILE`"));
    }
    Ok(wanted)
}

fn is_paused(partition: &PartitionObservation) -> bool {
    partition.standing.state == State::Paused
}

fn pause(topic: &str, partition: Option<i32>, partitions: &[&PartitionObservation]) -> Plan {
    let steps = partitions.iter().map(|one| {
        let at = one.copied_to.map_or_else(|| "its start".to_owned(), |at| format!("offset {at}"));
        let what = if is_paused(one) {
            "is paused already".to_owned()
        } else {
            format!("copying stops at {at} of the source, behind what is on its way")
        };
        step(topic, one, !is_paused(one), what)
    });
    Plan {
        command: "pause",
        topic: Some(topic.to_owned()),
        group: None,
        steps: steps.collect(),
        consequences: vec![
            "groups go on being carried over as far as the copy is; what the source deletes while \
             it is paused is lost to the mirror (source-gap)"
                .to_owned(),
        ],
        subject: Subject::Topic(topic.into(), partition),
        decided: Decided::Pause,
    }
}

fn step(topic: &str, one: &PartitionObservation, changes: bool, what: String) -> Step {
    Step { topic: topic.to_owned(), partition: one.partition, changes, what }
}

fn resume(
    found: &FlowObservation,
    topic: &str,
    partition: Option<i32>,
    partitions: &[&PartitionObservation],
    accept_gap: bool,
) -> Result<Plan, Failure> {
    let mut steps = Vec::new();
    let mut accepted = Vec::new();
    let mut consequences = Vec::new();
    let mut refused = None;
    for one in partitions {
        let copied_to = one.copied_to.unwrap_or_default();
        let (state, code) = (one.standing.state, one.standing.code);
        let (changes, what) = match (state, code) {
            (State::Paused, _) => (true, format!("copying goes on at source offset {copied_to}")),
            (State::Stopped, Some(code @ (Code::SourceGap | Code::TopicRecreated)))
                if accept_gap =>
            {
                accepted.push(Accepted {
                    partition: one.partition,
                    code,
                    copied_to: SourceOffset(copied_to),
                    source_topic: TopicId::NONE,
                });
                consequences.extend(lost_to_groups(found, topic, one, code));
                (true, accepting(one, code, copied_to))
            }
            (State::Stopped, code) => {
                let code = code.map_or("unknown", Code::word);
                refused = Some(format!("{topic}-{} is stopped ({code})", one.partition));
                (false, format!("stays stopped ({code})"))
            }
            _ => (false, "is neither paused nor stopped".to_owned()),
        };
        steps.push(step(topic, one, changes, what));
    }
    if let Some(refused) = refused.filter(|_| steps.iter().all(|step| !step.changes)) {
        let next = if accept_gap {
            "a loss on the source is what can be accepted; docs/findings.md says what this one needs"
        } else {
            "add --accept-gap to go on behind a loss on the source; --plan says what that costs"
        };
        return Err(wrong("stopped", refused, next));
    }
    Ok(Plan {
        command: "resume",
        topic: Some(topic.to_owned()),
        group: None,
        steps,
        consequences,
        subject: Subject::Topic(topic.into(), partition),
        decided: Decided::Resume { accepted },
    })
}

fn accepting(one: &PartitionObservation, code: Code, copied_to: i64) -> String {
    if code == Code::TopicRecreated {
        return "the new topic is copied from its start, behind what was copied of the old one; \
                groups are translated by the new one alone"
            .to_owned();
    }
    let start = one.source_start.unwrap_or(copied_to);
    format!(
        "offsets {copied_to} to {} ({}) are given up for good and recorded as lost; copying goes on \
         at {start}, or where the source begins by then",
        start - 1,
        start - copied_to
    )
}

/// The groups that have yet to read what is given up.
fn lost_to_groups(
    found: &FlowObservation,
    topic: &str,
    one: &PartitionObservation,
    code: Code,
) -> Vec<String> {
    let (Some(from), Some(to)) = (one.copied_to, one.source_start) else { return Vec::new() };
    if code != Code::SourceGap {
        return Vec::new();
    }
    let positions = found
        .groups
        .iter()
        .flat_map(|group| group.partitions.iter().map(move |position| (&group.group, position)));
    let of_it = positions.filter(|(_, position)| {
        position.topic.as_str() == topic && position.partition == one.partition
    });
    of_it
        .filter_map(|(group, position)| {
            let at = position.source_offset?;
            let lost = to - from.max(at);
            (lost > 0).then(|| {
                format!("group {group} stands at {at} on the source: {lost} offsets of its backlog are lost")
            })
        })
        .collect()
}

fn sync(group: &GroupObservation, overwrite: bool) -> Result<Plan, Failure> {
    let name = &group.group;
    if group.partitions.is_empty() {
        let reason = group.standing.reason.clone().unwrap_or_default();
        let code = group.standing.code.map_or("group-without-commits", Code::word);
        let message = format!("group {name} is not carried over: {reason}");
        return Err(wrong(code, message, format!("see `twinlog explain FILE --group '{name}'`")));
    }
    let mut steps = Vec::new();
    let mut positions = Vec::new();
    let mut consequences = Vec::new();
    for position in &group.partitions {
        let place = position.target_offset;
        let is_place = matches!(position.translation, "exact" | "end" | "before-start");
        let (changes, what) = match (position.committed_target, place) {
            (Some(stands), Some(place)) if stands > place && is_place && overwrite => {
                positions.push(Overwrite {
                    topic: position.topic.clone(),
                    partition: position.partition,
                    stands: TargetOffset(stands),
                });
                let again = stands - place;
                (
                    true,
                    format!(
                        "is moved back from {stands} to {place} ({again} offsets are read again)"
                    ),
                )
            }
            (Some(stands), Some(place)) if stands > place => (
                false,
                format!("stays at {stands}, ahead of its place {place}; --overwrite moves it back"),
            ),
            (Some(stands), Some(place)) if stands == place => {
                (false, format!("stands at its place {place}"))
            }
            (_, Some(place)) => (true, format!("is put at {place}")),
            (_, None) => {
                let reason = position.standing.reason.clone().unwrap_or_default();
                (false, format!("has no known place on the target: {reason}"))
            }
        };
        if position.standing.code == Some(Code::GroupLiveOnTarget) {
            consequences = vec![
                "the group has members on the target: nothing is written before they have left"
                    .to_owned(),
            ];
        }
        steps.push(Step {
            topic: position.target_topic.to_string(),
            partition: position.partition,
            changes,
            what,
        });
    }
    Ok(Plan {
        command: "sync",
        topic: None,
        group: Some(name.as_str().to_owned()),
        steps,
        consequences,
        subject: Subject::Group(name.clone()),
        decided: Decided::Sync { overwrite: positions },
    })
}

#[cfg(test)]
mod tests;
