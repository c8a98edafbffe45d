//! What `doctor` answers, in the field names that scripts hold on to.

use std::collections::BTreeSet;

use serde::Serialize;
use twinlog_doctor::{Diagnosis, GroupedFinding, MirroredBy, Outcome, Place, more};
use twinlog_types::Code;

use crate::explain::document::{EvidenceBody, FixBody, evidence, fix};

#[derive(Serialize)]
pub(crate) struct Document<'a> {
    version: u8,
    /// What was concluded without a file.
    assumed: &'a [String],
    flows: Vec<FlowBody<'a>>,
}

#[derive(Serialize)]
struct FlowBody<'a> {
    flow: String,
    mirrored_by: Option<&'static str>,
    /// Of MirrorMaker 2, where it tells.
    mirror_maker_version: Option<&'a str>,
    outcome: &'static str,
    looked_at: CountsBody,
    findings: Vec<FindingBody<'a>>,
    not_found_out: &'a BTreeSet<String>,
}

#[derive(Serialize)]
struct CountsBody {
    groups: usize,
    topics: usize,
    partitions: usize,
}

#[derive(Serialize)]
struct FindingBody<'a> {
    code: &'static str,
    severity: &'static str,
    /// These three where all places agree; `applies_to` has each.
    group: Option<&'a str>,
    topic: Option<&'a str>,
    partition: Option<i32>,
    link: &'static str,
    summary: &'a str,
    whole_flow: bool,
    applies_to: Vec<PlaceBody<'a>>,
    counts: CountsBody,
    concerned_groups: Vec<&'a str>,
    evidence: Vec<EvidenceBody<'a>>,
    consequence: Option<String>,
    records: RecordsBody,
    fix: Vec<FixBody<'a>>,
    found_out: bool,
    follows_from: Option<&'static str>,
    more: String,
}

#[derive(Serialize)]
struct PlaceBody<'a> {
    group: Option<&'a str>,
    topic: Option<&'a str>,
    partition: Option<i32>,
}

/// What a failover now would do.
#[derive(Serialize)]
struct RecordsBody {
    missing: u64,
    reread: u64,
    skipped: u64,
    partitions_without_position: u64,
}

pub(crate) fn document<'a>(diagnoses: &'a [Diagnosis], assumed: &'a [String]) -> Document<'a> {
    Document { version: 1, assumed, flows: diagnoses.iter().map(flow).collect() }
}

fn flow(diagnosis: &Diagnosis) -> FlowBody<'_> {
    FlowBody {
        flow: diagnosis.flow.to_string(),
        mirrored_by: diagnosis.mirrored_by.map(MirroredBy::word),
        mirror_maker_version: diagnosis.version.as_deref(),
        outcome: match diagnosis.outcome() {
            Outcome::Well => "ok",
            Outcome::Wrong => "broken",
            Outcome::NotFoundOut => "unknown",
        },
        looked_at: counts(diagnosis.looked_at),
        findings: diagnosis.findings.iter().map(finding).collect(),
        not_found_out: &diagnosis.not_found_out,
    }
}

fn counts(counts: twinlog_doctor::Counts) -> CountsBody {
    let twinlog_doctor::Counts { groups, topics, partitions } = counts;
    CountsBody { groups, topics, partitions }
}

fn finding(finding: &GroupedFinding) -> FindingBody<'_> {
    let impact = &finding.impact;
    FindingBody {
        code: finding.code.word(),
        severity: finding.severity.word(),
        group: finding.group().map(AsRef::as_ref),
        topic: finding.topic().map(AsRef::as_ref),
        partition: finding.partition(),
        link: finding.link.word(),
        summary: &finding.summary,
        whole_flow: finding.of_flow,
        applies_to: finding.places.iter().map(place).collect(),
        counts: counts(finding.counts()),
        concerned_groups: finding.concerned.iter().map(AsRef::as_ref).collect(),
        evidence: finding.evidence.iter().map(evidence).collect(),
        consequence: finding.consequence(),
        records: RecordsBody {
            missing: impact.missing,
            reread: impact.reread,
            skipped: impact.skipped,
            partitions_without_position: impact.unplaced,
        },
        fix: finding.fix.iter().map(fix).collect(),
        found_out: finding.found_out,
        follows_from: finding.follows_from.map(Code::word),
        more: more(finding.code),
    }
}

fn place(place: &Place) -> PlaceBody<'_> {
    PlaceBody {
        group: place.group.as_ref().map(AsRef::as_ref),
        topic: place.topic.as_ref().map(AsRef::as_ref),
        partition: place.partition,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use twinlog_doctor::{Counts, Finding, Fix, Grouping, Impact, LinkName, Subject};
    use twinlog_types::{FlowName, Severity, TopicPartition};

    use super::*;

    /// The group stands nowhere in both partitions of `orders`.
    pub(in crate::doctor) fn diagnosis() -> Diagnosis {
        let mut grouping = Grouping::new();
        let subject = Subject::Group("orders-app".into());
        for n in [0, 1] {
            let tp = TopicPartition::new("orders", n);
            let summary = format!("orders-{n}: the target group has no commit");
            let impact = Impact { unplaced: 1, before: 100, ..Impact::default() };
            let mut finding = Finding::stops(Code::SyncDisabled, summary)
                .of(&tp)
                .with(impact)
                .fix(Fix::Property("hello->world.sync.group.offsets.enabled = true".into()));
            if n == 0 {
                finding = finding.seen("committed on hello.orders-0", "none", "world");
            }
            finding.meaning = Some("it is not committed".into());
            grouping.take(Some(&subject), LinkName::ConsumerOffsets, &finding);
        }
        let note = Finding::notes(Code::GroupWithoutCommits, Severity::Info, "no commit in a-1");
        grouping.take(Some(&subject), LinkName::SourceGroup, &note);
        Diagnosis {
            flow: FlowName::new("hello", "world"),
            mirrored_by: Some(MirroredBy::MirrorMaker),
            version: Some("4.3.0".into()),
            findings: grouping.end(),
            looked_at: Counts { groups: 1, topics: 1, partitions: 2 },
            not_found_out: BTreeSet::new(),
        }
    }

    #[test]
    fn the_fields_that_scripts_hold_on_to_are_there() {
        let json = serde_json::to_value(document(&[diagnosis()], &[])).expect("serialisable");
        let place =
            |n: i32| serde_json::json!({"group": "orders-app", "topic": "orders", "partition": n});
        let whole = serde_json::json!({"group": "orders-app", "topic": null, "partition": null});
        let none = serde_json::json!({
            "missing": 0, "reread": 0, "skipped": 0, "partitions_without_position": 0,
        });
        let expected = serde_json::json!({"version": 1, "assumed": [], "flows": [{
            "flow": "hello->world", "mirrored_by": "mirror-maker-2",
            "mirror_maker_version": "4.3.0", "outcome": "broken",
            "looked_at": {"groups": 1, "topics": 1, "partitions": 2},
            "findings": [
                {
                    "code": "sync-disabled", "severity": "error",
                    "group": "orders-app", "topic": "orders", "partition": null,
                    "link": "consumer-offsets",
                    "summary": "orders-0: the target group has no commit",
                    "whole_flow": false, "applies_to": [place(0), place(1)],
                    "counts": {"groups": 1, "topics": 1, "partitions": 2},
                    "concerned_groups": [],
                    "evidence": [{
                        "what": "committed on hello.orders-0", "value": "none", "where": "world",
                    }],
                    "consequence": "it is not committed; a failover now finds no position in 2 \
                        partitions, so that auto.offset.reset decides: earliest reads 200 records \
                        again, latest skips 0 records",
                    "records": {
                        "missing": 0, "reread": 0, "skipped": 0, "partitions_without_position": 2,
                    },
                    "fix": [{"property": "hello->world.sync.group.offsets.enabled = true"}],
                    "found_out": true, "follows_from": null,
                    "more": "docs/findings.md#sync-disabled",
                },
                {
                    "code": "group-without-commits", "severity": "info",
                    "group": "orders-app", "topic": null, "partition": null,
                    "link": "source-group", "summary": "no commit in a-1",
                    "whole_flow": false, "applies_to": [whole],
                    "counts": {"groups": 1, "topics": 0, "partitions": 0},
                    "concerned_groups": [], "evidence": [], "consequence": null,
                    "records": none, "fix": [], "found_out": true, "follows_from": null,
                    "more": "docs/findings.md#group-without-commits",
                },
            ],
            "not_found_out": [],
        }]});
        assert_eq!(json, expected);
    }
}
