//! What `explain` answers, in the field names that scripts hold on to.

use serde::Serialize;
use twinlog_doctor::{Chain, Evidence, Fix, Link, MirroredBy, Outcome, Subject, more};
use twinlog_types::{Code, Severity};

#[derive(Serialize)]
pub(crate) struct Document<'a> {
    version: u8,
    flow: String,
    subject: SubjectBody<'a>,
    partition: Option<i32>,
    mirrored_by: Option<&'static str>,
    outcome: &'static str,
    links: Vec<LinkBody<'a>>,
    /// The first broken link.
    link: Option<&'static str>,
    code: Option<&'static str>,
    severity: Option<&'static str>,
    consequence: Option<&'a str>,
    fix: Vec<FixBody<'a>>,
    more: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum SubjectBody<'a> {
    Group(&'a str),
    Topic(&'a str),
}

#[derive(Serialize)]
struct LinkBody<'a> {
    link: &'static str,
    state: &'static str,
    summary: &'a str,
    evidence: Vec<EvidenceBody<'a>>,
    code: Option<&'static str>,
    severity: Option<&'static str>,
    partitions: Vec<PartitionBody<'a>>,
}

#[derive(Serialize)]
pub(crate) struct EvidenceBody<'a> {
    what: &'a str,
    value: &'a str,
    #[serde(rename = "where")]
    place: &'a str,
}

#[derive(Serialize)]
struct PartitionBody<'a> {
    topic: &'a str,
    partition: i32,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FixBody<'a> {
    Command(&'a str),
    Property(&'a str),
}

pub(crate) fn document(chain: &Chain) -> Document<'_> {
    let first = chain.first_broken();
    let code = first.and_then(|link| link.code);
    Document {
        version: 1,
        flow: chain.flow.to_string(),
        subject: match &chain.subject {
            Subject::Group(group) => SubjectBody::Group(group.as_str()),
            Subject::Topic(topic) => SubjectBody::Topic(topic.as_str()),
        },
        partition: chain.partition,
        mirrored_by: chain.mirrored_by.map(MirroredBy::word),
        outcome: match chain.outcome() {
            Outcome::Well => "ok",
            Outcome::Wrong => "broken",
            Outcome::NotFoundOut => "unknown",
        },
        links: chain.links.iter().map(link).collect(),
        link: first.map(|link| link.name.word()),
        code: code.map(Code::word),
        severity: first.and_then(|link| link.severity).map(severity),
        consequence: first.and_then(|link| link.consequence.as_deref()),
        fix: first.into_iter().flat_map(|link| &link.fix).map(fix).collect(),
        more: code.map(more),
    }
}

fn link(link: &Link) -> LinkBody<'_> {
    let partitions = link.partitions.iter();
    LinkBody {
        link: link.name.word(),
        state: link.state.word(),
        summary: &link.summary,
        evidence: link.evidence.iter().map(evidence).collect(),
        code: link.code.map(Code::word),
        severity: link.severity.map(severity),
        partitions: partitions
            .map(|tp| PartitionBody { topic: tp.topic.as_str(), partition: tp.partition })
            .collect(),
    }
}

pub(crate) fn evidence(evidence: &Evidence) -> EvidenceBody<'_> {
    EvidenceBody { what: &evidence.what, value: &evidence.value, place: &evidence.place }
}

pub(crate) fn fix(fix: &Fix) -> FixBody<'_> {
    match fix {
        Fix::Command(text) => FixBody::Command(text),
        Fix::Property(text) => FixBody::Property(text),
    }
}

fn severity(severity: Severity) -> &'static str {
    severity.word()
}

#[cfg(test)]
mod tests {
    use twinlog_doctor::{LinkName, LinkState};
    use twinlog_types::{FlowName, TopicPartition};

    use super::*;

    #[test]
    fn the_fields_that_scripts_hold_on_to_are_there() {
        let link = Link {
            name: LinkName::ConsumerOffsets,
            state: LinkState::Broken,
            summary: "orders-0: the target group has no commit".into(),
            evidence: vec![Evidence {
                what: "committed on hello.orders-0".into(),
                value: "none".into(),
                place: "world: group orders-app".into(),
            }],
            code: Some(Code::SyncDisabled),
            severity: Some(Severity::Error),
            blocks: true,
            partitions: vec![TopicPartition::new("orders", 0)],
            consequence: Some("it is not committed".into()),
            fix: vec![
                Fix::Property("sync.group.offsets.enabled = true".into()),
                Fix::Command("twinlog run f".into()),
            ],
            findings: Vec::new(),
            unknown: Vec::new(),
        };
        let chain = Chain {
            flow: FlowName::new("hello", "world"),
            subject: Subject::Group("orders-app".into()),
            partition: Some(0),
            mirrored_by: Some(MirroredBy::Twinlog),
            concerned: true,
            links: vec![link],
        };
        let json = serde_json::to_value(document(&chain)).expect("serialisable");
        let expected = serde_json::json!({
            "version": 1, "flow": "hello->world", "subject": {"group": "orders-app"},
            "partition": 0, "mirrored_by": "twinlog", "outcome": "broken",
            "links": [{
                "link": "consumer-offsets", "state": "broken",
                "summary": "orders-0: the target group has no commit",
                "evidence": [{
                    "what": "committed on hello.orders-0", "value": "none",
                    "where": "world: group orders-app",
                }],
                "code": "sync-disabled", "severity": "error",
                "partitions": [{"topic": "orders", "partition": 0}],
            }],
            "link": "consumer-offsets", "code": "sync-disabled", "severity": "error",
            "consequence": "it is not committed",
            "fix": [
                {"property": "sync.group.offsets.enabled = true"}, {"command": "twinlog run f"},
            ],
            "more": "docs/findings.md#sync-disabled",
        });
        assert_eq!(json, expected);
    }
}
