//! What `status` answers, in the field names that scripts hold on to.

#![expect(clippy::struct_field_names, reason = "the names are the contract's")]

use std::collections::BTreeMap;

use serde::Serialize;
use twinlog_client::GroupKind;
use twinlog_engine::observe::{
    FlowObservation, GroupObservation, GroupPosition, PartitionObservation, TopicObservation,
};
use twinlog_flow::Standing;
use twinlog_types::{Code, State};

use crate::format::rfc3339;

#[derive(Serialize)]
pub(crate) struct Document<'a> {
    version: u8,
    pub(crate) flows: Vec<Flow<'a>>,
}

#[derive(Serialize)]
pub(crate) struct Flow<'a> {
    pub(crate) flow: String,
    #[serde(flatten)]
    pub(crate) standing: Stands,
    pub(crate) counts: Counts,
    pub(crate) lease: Option<Lease<'a>>,
    /// MM2 makes the mirror, or made it, and no twinlog runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mm2: Option<Mm2<'a>>,
    pub(crate) commits: Option<Commits<'a>>,
    pub(crate) topics: Vec<Topic<'a>>,
    pub(crate) groups: Vec<Group<'a>>,
    pub(crate) missing: Vec<Missing<'a>>,
}

/// `state`, `code` and `reason` of anything.
#[derive(Serialize)]
pub(crate) struct Stands {
    pub(crate) state: &'static str,
    pub(crate) code: Option<&'static str>,
    pub(crate) reason: Option<String>,
}

/// How many of each stand in which state.
#[derive(Serialize)]
pub(crate) struct Counts {
    pub(crate) topics: BTreeMap<&'static str, usize>,
    pub(crate) partitions: BTreeMap<&'static str, usize>,
    pub(crate) groups: BTreeMap<&'static str, usize>,
    /// `None` where no partition's lag could be found out.
    pub(crate) lag_records: Option<u64>,
    pub(crate) lag_ms: Option<u64>,
    /// Offsets in the ranges that were lost on the source.
    pub(crate) lost_offsets: u64,
}

#[derive(Serialize)]
pub(crate) struct Lease<'a> {
    pub(crate) instance: &'a str,
    pub(crate) renewed: String,
    pub(crate) released: bool,
}

/// Who makes the mirror where that is MM2: `copied_to` and lags are of its copy then, as its own records
/// tell them.
#[derive(Serialize)]
pub(crate) struct Mm2<'a> {
    /// Null where it does not run now.
    pub(crate) runs: Option<&'a str>,
    pub(crate) partitions: usize,
}

/// How commits of groups are followed on the source, and why not live.
#[derive(Serialize)]
pub(crate) struct Commits<'a> {
    pub(crate) followed: &'static str,
    pub(crate) reason: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct Topic<'a> {
    pub(crate) topic: &'a str,
    pub(crate) target_topic: &'a str,
    #[serde(flatten)]
    pub(crate) standing: Stands,
    pub(crate) partitions: Vec<Partition>,
}

#[derive(Serialize)]
pub(crate) struct Partition {
    pub(crate) partition: i32,
    pub(crate) source_start: Option<i64>,
    pub(crate) source_end: Option<i64>,
    pub(crate) copied_to: Option<i64>,
    pub(crate) target_end: Option<i64>,
    pub(crate) lag_records: Option<u64>,
    pub(crate) lag_ms: Option<u64>,
    #[serde(flatten)]
    pub(crate) standing: Stands,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) gaps: Vec<Gap>,
}

/// A range that was lost on the source: `from` up to `to`, which is not lost.
#[derive(Serialize)]
pub(crate) struct Gap {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) code: &'static str,
    pub(crate) found: String,
}

#[derive(Serialize)]
pub(crate) struct Group<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'static str,
    #[serde(flatten)]
    pub(crate) standing: Stands,
    pub(crate) since: String,
    pub(crate) partitions: Vec<Position<'a>>,
}

#[derive(Serialize)]
pub(crate) struct Position<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) target_topic: &'a str,
    pub(crate) source_offset: Option<i64>,
    pub(crate) target_offset: Option<i64>,
    pub(crate) committed_target: Option<i64>,
    pub(crate) translation: &'static str,
    #[serde(flatten)]
    pub(crate) standing: Stands,
}

#[derive(Serialize)]
pub(crate) struct Missing<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) code: Option<&'static str>,
    pub(crate) message: &'a str,
}

/// The answer. `problems`: only what is not in sync; everything is counted all the same.
pub(crate) fn document(flows: &[FlowObservation], problems: bool) -> Document<'_> {
    let flows = flows.iter().map(|found| {
        let topics = found
            .topics
            .iter()
            .filter(|topic| !problems || is_problem(&topic.standing))
            .map(|topic| self::topic(topic, problems));
        let groups = found
            .groups
            .iter()
            .filter(|group| !problems || is_problem(&group.standing))
            .map(|group| self::group(group, problems));
        Flow {
            flow: found.flow.to_string(),
            standing: stands(&found.standing()),
            counts: counts(found),
            lease: found.lease.as_ref().map(|lease| Lease {
                instance: &lease.instance,
                renewed: rfc3339(lease.renewed_ms),
                released: lease.released,
            }),
            mm2: found
                .mm2
                .as_ref()
                .map(|mm2| Mm2 { runs: mm2.runs.as_deref(), partitions: mm2.partitions }),
            commits: found.commits.as_ref().map(|commits| Commits {
                followed: commits.way.word(),
                reason: commits.reason.as_deref(),
            }),
            topics: topics.collect(),
            groups: groups.collect(),
            missing: found
                .missing
                .iter()
                .map(|missing| Missing {
                    cluster: missing.cluster.as_str(),
                    code: missing.code.map(Code::word),
                    message: &missing.what,
                })
                .collect(),
        }
    });
    Document { version: 1, flows: flows.collect() }
}

fn is_problem(standing: &Standing) -> bool {
    match standing.state {
        State::InSync => standing.code.is_some(),
        State::Excluded => standing.code == Some(Code::SyncDisabled),
        _ => true,
    }
}

fn counts(flow: &FlowObservation) -> Counts {
    let partitions = || flow.topics.iter().flat_map(|topic| &topic.partitions);
    Counts {
        topics: count(flow.topics.iter().map(|topic| topic.standing.state)),
        partitions: count(partitions().map(|partition| partition.standing.state)),
        groups: count(flow.groups.iter().map(|group| group.standing.state)),
        lag_records: partitions()
            .filter_map(|partition| partition.lag_records)
            .reduce(u64::saturating_add),
        lag_ms: partitions().filter_map(|partition| partition.lag_ms).max(),
        lost_offsets: partitions()
            .flat_map(|partition| &partition.gaps)
            .map(|gap| gap.to.since(gap.from))
            .sum(),
    }
}

fn count(states: impl Iterator<Item = State>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for state in states {
        *counts.entry(state.word()).or_default() += 1;
    }
    counts
}

fn stands(standing: &Standing) -> Stands {
    Stands {
        state: standing.state.word(),
        code: standing.code.map(Code::word),
        reason: standing.reason.clone(),
    }
}

fn topic(topic: &TopicObservation, problems: bool) -> Topic<'_> {
    let partitions = topic.partitions.iter();
    let partitions = partitions.filter(|one| !problems || is_problem(&one.standing));
    Topic {
        topic: topic.topic.as_str(),
        target_topic: topic.target_topic.as_str(),
        standing: stands(&topic.standing),
        partitions: partitions.map(partition).collect(),
    }
}

fn partition(partition: &PartitionObservation) -> Partition {
    let gaps = partition.gaps.iter().map(|gap| Gap {
        from: gap.from.0,
        to: gap.to.0,
        code: gap.why.word(),
        found: rfc3339(gap.found_ms),
    });
    Partition {
        partition: partition.partition,
        source_start: partition.source_start,
        source_end: partition.source_end,
        copied_to: partition.copied_to,
        target_end: partition.target_end,
        lag_records: partition.lag_records,
        lag_ms: partition.lag_ms,
        standing: stands(&partition.standing),
        gaps: gaps.collect(),
    }
}

fn group(group: &GroupObservation, problems: bool) -> Group<'_> {
    let positions = group.partitions.iter();
    let positions = positions.filter(|one| !problems || is_problem(&one.standing));
    Group {
        group: group.group.as_str(),
        kind: kind(group.kind),
        standing: stands(&group.standing),
        since: rfc3339(group.since_ms),
        partitions: positions.map(position).collect(),
    }
}

fn position(position: &GroupPosition) -> Position<'_> {
    Position {
        topic: position.topic.as_str(),
        partition: position.partition,
        target_topic: position.target_topic.as_str(),
        source_offset: position.source_offset,
        target_offset: position.target_offset,
        committed_target: position.committed_target,
        translation: position.translation,
        standing: stands(&position.standing),
    }
}

fn kind(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::Classic => "classic",
        GroupKind::Consumer => "consumer",
        GroupKind::Share => "share",
        GroupKind::Streams => "streams",
        GroupKind::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use twinlog_engine::Followed;
    use twinlog_mirror::FollowCommits;
    use twinlog_types::FlowName;

    use super::*;

    fn observation() -> FlowObservation {
        let mut flow = FlowObservation::new(FlowName::new("hello", "world"));
        flow.own = Standing::in_sync();
        let reason = Some("no right".to_owned());
        flow.commits = Some(Followed { way: FollowCommits::Poll, reason });
        let partition = |partition, standing| PartitionObservation {
            partition,
            source_start: Some(13),
            source_end: Some(1200),
            copied_to: Some(1200),
            target_end: Some(1187),
            lag_records: Some(0),
            lag_ms: Some(0),
            standing,
            gaps: Vec::new(),
            is_denied: false,
        };
        let stopped = || Standing::found(State::Stopped, Code::SourceGap, "gone");
        flow.topics.push(TopicObservation {
            topic: "orders".into(),
            target_topic: "hello.orders".into(),
            standing: stopped(),
            partitions: vec![partition(0, Standing::in_sync()), partition(1, stopped())],
        });
        flow.groups.push(GroupObservation {
            group: "orders-app".into(),
            kind: GroupKind::Classic,
            standing: Standing::in_sync(),
            since_ms: 1_767_225_600_000,
            partitions: vec![GroupPosition {
                topic: "orders".into(),
                target_topic: "hello.orders".into(),
                partition: 0,
                source_offset: Some(1200),
                target_offset: Some(1187),
                committed_target: Some(1187),
                translation: "end",
                standing: Standing::in_sync(),
            }],
        });
        flow
    }

    #[test]
    fn the_fields_that_scripts_hold_on_to_are_there() {
        let flows = [observation()];
        let json = serde_json::to_value(document(&flows, false)).expect("serialisable");
        assert_eq!(json["version"], 1);
        let flow = &json["flows"][0];
        assert_eq!(flow["flow"], "hello->world");
        assert_eq!(flow["state"], "stopped");
        assert_eq!(flow["code"], "source-gap");
        assert_eq!(flow["commits"], serde_json::json!({"followed": "poll", "reason": "no right"}));
        let partition = &flow["topics"][0]["partitions"][0];
        let expected = serde_json::json!({
            "partition": 0, "source_start": 13, "source_end": 1200, "copied_to": 1200,
            "target_end": 1187, "lag_records": 0, "lag_ms": 0,
            "state": "in-sync", "code": null, "reason": null,
        });
        assert_eq!(*partition, expected);
        let group = &flow["groups"][0];
        let expected = serde_json::json!({
            "group": "orders-app", "kind": "classic", "state": "in-sync", "code": null,
            "reason": null, "since": "2026-01-01T00:00:00Z",
            "partitions": [{
                "topic": "orders", "partition": 0, "target_topic": "hello.orders",
                "source_offset": 1200, "target_offset": 1187, "committed_target": 1187,
                "translation": "end", "state": "in-sync", "code": null, "reason": null,
            }],
        });
        assert_eq!(*group, expected);
    }

    #[test]
    fn problems_leave_out_what_is_in_sync_but_count_it() {
        let flows = [observation()];
        let document = document(&flows, true);
        let flow = &document.flows[0];
        let shown: Vec<i32> = flow.topics[0].partitions.iter().map(|one| one.partition).collect();
        assert_eq!(shown, [1]);
        assert!(flow.groups.is_empty());
        assert_eq!(flow.counts.groups["in-sync"], 1);
        assert_eq!(flow.counts.partitions["in-sync"], 1);
    }

    #[test]
    fn a_group_that_is_never_written_is_a_problem_and_one_that_is_left_out_is_none() {
        let mut flows = [observation()];
        let group = &mut flows[0].groups[0];
        group.standing = Standing::found(State::Excluded, Code::SyncDisabled, "switched off");
        group.partitions[0].standing = group.standing.clone();
        let mut left_out = group.clone();
        left_out.standing = Standing::found(State::Excluded, Code::GroupExcluded, "left out");
        flows[0].groups.push(left_out);
        let document = document(&flows, true);
        let flow = &document.flows[0];
        let shown: Vec<_> = flow.groups.iter().map(|group| group.standing.code).collect();
        assert_eq!(shown, [Some("sync-disabled")]);
        assert_eq!(flow.groups[0].partitions.len(), 1);
        assert_eq!(flow.counts.groups["excluded"], 2);
    }
}
