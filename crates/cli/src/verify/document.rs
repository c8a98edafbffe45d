//! What `verify` answers, in the field names that scripts hold on to.

use serde::Serialize;
use twinlog_verify::compare::{Finding, Kind};
use twinlog_verify::{FlowReport, GroupReport, How, PartitionReport, Side};

use super::Effort;
use crate::explain::document::FixBody;
use crate::format::rfc3339;

#[derive(Serialize)]
pub(crate) struct Documents<'a> {
    version: u8,
    flows: Vec<FlowBody<'a>>,
    seconds: f64,
    peak_memory_bytes: Option<u64>,
}

#[derive(Serialize)]
struct FlowBody<'a> {
    flow: String,
    ready: bool,
    /// Why not.
    against: Vec<String>,
    rpo: Rpo,
    groups: Vec<GroupBody<'a>>,
    topics: Vec<PartitionBody<'a>>,
    /// `full`, or how many records of each partition.
    how: Amount,
    source: ClusterBody<'a>,
    target: ClusterBody<'a>,
    began: String,
    ended: String,
    source_bytes_read: u64,
    target_bytes_read: u64,
    unknown: &'a [String],
    /// What lets everything be looked at.
    fix: Vec<FixBody<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Amount {
    Full,
    Sample(u64),
}

#[derive(Serialize)]
struct ClusterBody<'a> {
    alias: &'a str,
    bootstrap: &'a str,
    cluster_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Rpo {
    records: u64,
    bytes: u64,
    ms: u64,
    /// Counted one by one; else the numbers are upper bounds.
    exact: bool,
}

#[derive(Serialize)]
struct GroupBody<'a> {
    group: &'a str,
    topic: &'a str,
    target_topic: &'a str,
    partition: i32,
    source_offset: i64,
    target_offset: Option<i64>,
    /// Where contents prove that it belongs.
    proven_offset: Option<i64>,
    translated_offset: Option<i64>,
    result: &'static str,
    reread: u64,
    skipped: u64,
    equal_before: usize,
    equal_after: usize,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct PartitionBody<'a> {
    topic: &'a str,
    target_topic: &'a str,
    partition: i32,
    compared: u64,
    equal: u64,
    compacted: u64,
    different: u64,
    missing: u64,
    extra: u64,
    doubled: u64,
    out_of_order: u64,
    displaced: u64,
    undecided: u64,
    aborted: u64,
    aborted_on_target: u64,
    before: u64,
    waiting: Option<u64>,
    whole: bool,
    absent: bool,
    by_map: bool,
    source_start: Option<i64>,
    source_end: Option<i64>,
    target_start: Option<i64>,
    target_end: Option<i64>,
    copied_to: Option<i64>,
    source_hash: Option<String>,
    target_hash: Option<String>,
    findings: Vec<FindingBody>,
    unknown: Option<&'a str>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct FindingBody {
    what: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<&'static str>,
    source_offset: Option<i64>,
    target_offset: Option<i64>,
    bytes: u32,
    hash: String,
}

impl<'a> Documents<'a> {
    pub(crate) fn new(reports: &'a [FlowReport], effort: &Effort) -> Self {
        Self {
            version: 1,
            flows: reports.iter().map(flow).collect(),
            seconds: effort.seconds,
            peak_memory_bytes: effort.peak_memory_bytes,
        }
    }
}

fn flow(report: &FlowReport) -> FlowBody<'_> {
    let rpo = report.rpo();
    FlowBody {
        flow: report.flow.to_string(),
        ready: report.is_ready(),
        against: report.against(),
        rpo: Rpo { records: rpo.records, bytes: rpo.bytes, ms: rpo.ms, exact: rpo.exact },
        groups: report.groups.iter().map(group).collect(),
        topics: report.partitions.iter().map(partition).collect(),
        how: match report.how {
            How::Full => Amount::Full,
            How::Sample(records) => Amount::Sample(records),
        },
        source: cluster(&report.source),
        target: cluster(&report.target),
        began: rfc3339(report.at_ms.0),
        ended: rfc3339(report.at_ms.1),
        source_bytes_read: report.bytes.0,
        target_bytes_read: report.bytes.1,
        unknown: &report.troubles,
        fix: report.grants.iter().map(|command| FixBody::Command(command)).collect(),
        notes: &report.notes,
    }
}

fn cluster(side: &Side) -> ClusterBody<'_> {
    ClusterBody {
        alias: side.alias.as_str(),
        bootstrap: &side.bootstrap,
        cluster_id: side.id.as_ref().map(twinlog_types::ClusterId::as_str),
    }
}

fn group(report: &GroupReport) -> GroupBody<'_> {
    GroupBody {
        group: report.group.as_str(),
        topic: report.topic.as_str(),
        target_topic: report.target_topic.as_str(),
        partition: report.partition,
        source_offset: report.source_offset,
        target_offset: report.target_offset,
        proven_offset: report.proven,
        translated_offset: report.translated,
        result: report.result.word(),
        reread: report.reread,
        skipped: report.skipped,
        equal_before: report.neighbours.0,
        equal_after: report.neighbours.1,
        reason: report.reason.as_deref(),
    }
}

fn partition(report: &PartitionReport) -> PartitionBody<'_> {
    let tally = &report.tally;
    PartitionBody {
        topic: report.topic.as_str(),
        target_topic: report.target_topic.as_str(),
        partition: report.partition,
        compared: tally.compared(),
        equal: tally.equal,
        compacted: tally.compacted,
        different: tally.different,
        missing: tally.missing,
        extra: tally.extra,
        doubled: tally.doubled,
        out_of_order: tally.out_of_order,
        displaced: tally.displaced,
        undecided: tally.undecided,
        aborted: tally.aborted,
        aborted_on_target: tally.aborted_on_target,
        before: tally.before,
        waiting: report.waiting.map(|waiting| waiting.records),
        whole: report.whole,
        absent: report.absent,
        by_map: report.by_map,
        source_start: report.source.map(|ends| ends.0),
        source_end: report.source.map(|ends| ends.1),
        target_start: report.target.map(|ends| ends.0),
        target_end: report.target.map(|ends| ends.1),
        copied_to: report.copied_to.map(|at| at.0),
        source_hash: report.hashes.map(|hashes| hashes.0.to_string()),
        target_hash: report.hashes.map(|hashes| hashes.1.to_string()),
        findings: report.findings.iter().map(finding).collect(),
        unknown: report.trouble.as_deref(),
        notes: &report.notes,
    }
}

fn finding(finding: &Finding) -> FindingBody {
    FindingBody {
        what: finding.kind.word(),
        parts: match finding.kind {
            Kind::Different(parts) => parts.words(),
            _ => Vec::new(),
        },
        source_offset: finding.source.map(|at| at.0),
        target_offset: finding.target.map(|at| at.0),
        bytes: finding.bytes,
        hash: format!("{:032x}", finding.hash),
    }
}

#[cfg(test)]
mod tests {
    use twinlog_engine::observe::Rights;
    use twinlog_types::FlowName;
    use twinlog_verify::GroupResult;

    use super::*;

    #[test]
    fn the_fields_that_scripts_hold_on_to_are_there() {
        let side = |alias: &str| Side {
            alias: alias.into(),
            bootstrap: "localhost:9092".into(),
            id: Some("id".into()),
        };
        let report = FlowReport {
            flow: FlowName::new("hello", "world"),
            source: side("hello"),
            target: side("world"),
            at_ms: (0, 1_000),
            how: How::Sample(100),
            partitions: vec![PartitionReport::new("orders".into(), "hello.orders".into(), 0)],
            groups: vec![GroupReport {
                group: "orders-app".into(),
                topic: "orders".into(),
                target_topic: "hello.orders".into(),
                partition: 0,
                source_offset: 1_200,
                target_offset: Some(1_187),
                proven: Some(1_187),
                translated: Some(1_187),
                result: GroupResult::Equal,
                reread: 0,
                skipped: 0,
                neighbours: (16, 0),
                reason: None,
            }],
            troubles: Vec::new(),
            notes: Vec::new(),
            rights: Rights::default(),
            grants: vec!["kafka-acls.sh".into()],
            bytes: (0, 0),
        };
        let effort = Effort { seconds: 1.0, peak_memory_bytes: None };
        let reports = [report];
        let json = serde_json::to_value(Documents::new(&reports, &effort)).expect("serialisable");
        assert_eq!(json["version"], 1);
        let flow = &json["flows"][0];
        assert_eq!((&flow["flow"], &flow["ready"]), (&"hello->world".into(), &true.into()));
        for field in ["records", "bytes", "ms"] {
            assert_eq!(flow["rpo"][field], 0, "{field}");
        }
        let group = serde_json::json!({
            "group": "orders-app", "topic": "orders", "partition": 0, "source_offset": 1200,
            "target_offset": 1187, "result": "equal", "reread": 0, "skipped": 0,
        });
        for (field, value) in group.as_object().expect("an object") {
            assert_eq!(flow["groups"][0][field], *value, "{field}");
        }
        assert_eq!(flow["fix"], serde_json::json!([{"command": "kafka-acls.sh"}]));
        let topic = &flow["topics"][0];
        assert_eq!((&topic["topic"], &topic["partition"]), (&"orders".into(), &0.into()));
        for field in ["compared", "equal", "compacted", "different", "missing", "extra"] {
            assert_eq!(topic[field], 0, "{field}");
        }
    }
}
