//! What all links share: drafts of links, findings, and who is still on the way.

use std::collections::BTreeSet;

use twinlog_engine::observe::{Resource, Rights};
use twinlog_types::{Code, GroupId, Partition, Severity, TopicPartition};

use super::{mirrored_by, offsets_link, state_topic};
use crate::chain::{Chain, Evidence, Fix, Link, LinkName, LinkState, MirroredBy, Subject};
use crate::facts::{Facts, Side, Trouble};
pub(super) use crate::findings::{Finding, Weight};
use crate::remedy::{Scene, fixes, grants, joined, meaning};

/// Partitions of which a summary speaks one by one.
const NAMED_MAX: usize = 3;

/// What was seen, as text.
pub(super) struct Value(String);

macro_rules! values {
    ($($type:ty),*) => { $(impl From<$type> for Value {
        fn from(value: $type) -> Self {
            Self(value.to_string())
        }
    })* };
}

values!(String, &String, &str, bool, i32, u32, i64, u64, usize, &twinlog_types::ClusterId);

/// A link before it is put into the chain.
pub(super) struct Draft {
    name: LinkName,
    summary: String,
    evidence: Vec<Evidence>,
    /// Those of one kind are one.
    findings: Vec<Finding>,
    /// One by one.
    each: Vec<Finding>,
    unknown: Vec<(Trouble, Vec<TopicPartition>)>,
    /// Could not be found out, and the walk goes on without it.
    unseen: Vec<Trouble>,
}

impl Draft {
    pub(super) fn new(name: LinkName) -> Self {
        Self {
            name,
            summary: String::new(),
            evidence: Vec::new(),
            findings: Vec::new(),
            each: Vec::new(),
            unknown: Vec::new(),
            unseen: Vec::new(),
        }
    }

    /// Whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.unknown.is_empty() && self.unseen.is_empty()
    }

    /// What is said when nothing is wrong.
    pub(super) fn ok(&mut self, summary: impl Into<String>) {
        self.summary = summary.into();
    }

    pub(super) fn saw(
        &mut self,
        what: impl Into<String>,
        value: impl Into<Value>,
        place: impl Into<String>,
    ) {
        self.evidence.push(Evidence {
            what: what.into(),
            value: value.into().0,
            place: place.into(),
        });
    }

    /// The same, unless it was put down before.
    pub(super) fn saw_once(&mut self, what: &str, value: &str, place: String) {
        if !self.evidence.iter().any(|seen| seen.what == what && seen.place == place) {
            self.saw(what, value, place);
        }
    }

    /// Findings of one kind are told together.
    pub(super) fn found(&mut self, finding: Finding) {
        self.each.push(finding.clone());
        for Evidence { what, value, place } in finding.evidence.clone() {
            self.saw_once(&what, &value, place);
        }
        match self.findings.iter_mut().find(|before| before.same_kind(&finding)) {
            Some(before) if !finding.partitions.is_empty() => {
                if before.partitions.len() < NAMED_MAX {
                    before.summary = format!("{}; {}", before.summary, finding.summary);
                } else if before.partitions.len() == NAMED_MAX {
                    before.summary.push_str("; and more");
                }
                before.partitions.extend(finding.partitions);
                before.impact.add(&finding.impact);
                for fix in finding.fix {
                    fix.put_to(&mut before.fix, usize::MAX);
                }
            }
            _ => self.findings.push(finding),
        }
    }

    pub(super) fn unknown(&mut self, trouble: Trouble, partitions: Vec<TopicPartition>) {
        self.unknown.push((trouble, partitions));
    }

    /// Could not be found out; what comes behind it can be looked at without, where that is for
    /// want of a right. Anything else ends the way.
    pub(super) fn unseen(&mut self, trouble: Trouble) {
        if trouble.code == Some(Code::MissingPermission) {
            self.unseen.push(trouble);
        } else {
            self.unknown(trouble, Vec::new());
        }
    }
}

/// The walk over the chain.
pub(super) struct Walk<'a> {
    pub(super) facts: &'a Facts,
    pub(super) subject: &'a Subject,
    pub(super) partition: Option<Partition>,
    pub(super) file: &'a str,
    pub(super) by: Option<MirroredBy>,
    links: Vec<Link>,
    /// The way ended for the whole subject.
    over: bool,
    /// It ended because the source does not answer; the target does.
    pub(super) only_target: bool,
    /// Partitions of the source that are still on the way, once they are known.
    pub(super) left: Option<BTreeSet<TopicPartition>>,
    concerned: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(facts: &'a Facts, partition: Option<Partition>, file: &'a str) -> Self {
        Self {
            facts,
            subject: &facts.subject,
            partition,
            file,
            by: mirrored_by(facts),
            links: Vec::new(),
            over: false,
            only_target: false,
            left: None,
            concerned: false,
        }
    }

    pub(super) fn concerned(&mut self) {
        self.concerned = true;
    }

    pub(super) fn is_mm2(&self) -> bool {
        self.by == Some(MirroredBy::MirrorMaker)
    }

    /// Whether anything comes this far; where not, the link is put down as such.
    pub(super) fn reaches(&mut self, name: LinkName) -> bool {
        let empty = self.left.as_ref().is_some_and(BTreeSet::is_empty);
        if !self.over && !empty {
            return true;
        }
        self.not_reached(name, Vec::new());
        false
    }

    /// Whether the way has ended for the subject: it goes on for links that are the same for all.
    pub(super) fn set_aside(&mut self) -> bool {
        std::mem::take(&mut self.over)
    }

    /// Ends the way again where it had ended.
    pub(super) fn go_on(&mut self, over: bool) {
        self.over |= over;
        self.only_target &= !over;
    }

    /// The same for a link that needs nothing but the target.
    pub(super) fn reaches_on_target(&mut self, name: LinkName) -> bool {
        self.only_target || self.reaches(name)
    }

    pub(super) fn not_reached(&mut self, name: LinkName, evidence: Vec<Evidence>) {
        self.links.push(Link {
            name,
            state: LinkState::NotReached,
            summary: "a link before it is broken".into(),
            evidence,
            code: None,
            severity: None,
            blocks: false,
            partitions: Vec::new(),
            consequence: None,
            fix: Vec::new(),
            findings: Vec::new(),
            unknown: Vec::new(),
        });
    }

    /// A trouble; what was not looked at because time was up is said to be that.
    pub(super) fn told(&self, trouble: &Trouble) -> Trouble {
        match &self.facts.cut_off {
            Some(cut_off) if *trouble == Trouble::not_looked_at() => cut_off.clone(),
            _ => trouble.clone(),
        }
    }

    /// Whether the question is about this partition, too.
    pub(super) fn is_asked_for(&self, tp: &TopicPartition) -> bool {
        self.partition.is_none_or(|only| only == tp.partition)
    }

    /// The partitions that are still on the way.
    pub(super) fn on_the_way(&self) -> Vec<TopicPartition> {
        self.left.iter().flatten().cloned().collect()
    }

    pub(super) fn push(&mut self, draft: Draft) {
        let Draft { name, summary, evidence, mut findings, each, unknown, unseen } = draft;
        for finding in findings.iter().filter(|finding| finding.weight == Weight::Stops) {
            self.leaves(&finding.partitions);
        }
        for (_, partitions) in &unknown {
            self.leaves(partitions);
        }
        findings.sort_by_key(|finding| (finding.severity, std::cmp::Reverse(finding.weight)));
        let broken = |finding: &Finding| finding.severity != Severity::Info;
        let state = if findings.iter().any(broken) {
            LinkState::Broken
        } else if unknown.is_empty() && unseen.is_empty() {
            LinkState::Ok
        } else {
            LinkState::Unknown
        };
        let mut said: Vec<String> =
            findings.iter().map(|finding| finding.summary.clone()).collect();
        for trouble in unknown.iter().map(|(trouble, _)| trouble).chain(&unseen) {
            if !said.contains(&trouble.what) {
                said.push(trouble.what.clone());
            }
        }
        if state == LinkState::Ok && !summary.is_empty() {
            said.insert(0, summary);
        }
        let first = (state != LinkState::Unknown).then(|| findings.first()).flatten();
        let unread = unknown.iter().map(|(trouble, _)| trouble).chain(&unseen);
        let unread = unread.into_iter().find(|trouble| trouble.code.is_some());
        let told = first.map(|finding| self.completed(finding.clone()));
        let mut all: Vec<Finding> = each.into_iter().map(|one| self.completed(one)).collect();
        // What is said of all missing rights at once is not said of one again.
        let is_told = |trouble: &Trouble| {
            trouble.right.as_ref().is_some_and(|right| self.facts.rights.tell_of(right))
        };
        let troubles = unknown.iter().map(|(trouble, _)| trouble).chain(&unseen);
        let troubles = troubles.filter(|trouble| !is_told(trouble));
        let troubles = troubles.filter_map(|trouble| self.of_trouble(name, trouble));
        all.extend(troubles);
        let without_code = unknown.iter().filter(|(trouble, _)| trouble.code.is_none());
        let without_code = without_code.map(|(trouble, _)| trouble.what.clone()).collect();
        self.links.push(Link {
            name,
            state,
            summary: said.join("; "),
            evidence,
            code: match &told {
                Some(finding) => Some(finding.code),
                None => unread.and_then(|trouble| trouble.code),
            },
            severity: told.as_ref().map(|finding| finding.severity),
            blocks: match state {
                LinkState::Unknown => true,
                _ => findings.iter().any(|one| broken(one) && one.weight >= Weight::Blocks),
            },
            partitions: match (&told, unknown.first()) {
                (Some(finding), _) => finding.partitions.clone(),
                (None, Some((_, partitions))) => partitions.clone(),
                (None, None) => Vec::new(),
            },
            consequence: told
                .as_ref()
                .and_then(|finding| joined(finding.meaning.as_deref(), &finding.impact)),
            fix: match told {
                Some(finding) => finding.fix,
                None => unread
                    .and_then(|trouble| self.of_trouble(name, trouble))
                    .map(|finding| finding.fix)
                    .unwrap_or_default(),
            },
            findings: all,
            unknown: without_code,
        });
    }

    /// A finding with what its code means and what to do about it.
    fn completed(&self, mut finding: Finding) -> Finding {
        let scene = Scene {
            facts: self.facts,
            subject: self.subject,
            file: self.file,
            by: self.by,
            unseen: !finding.found_out && !finding.fix.is_empty(),
            finding_partitions: &finding.partitions,
            impact: &finding.impact,
        };
        let meaning = meaning(finding.code, &scene);
        let fixes = fixes(finding.code, &scene);
        finding.meaning = finding.meaning.or(meaning);
        // The rights are known better than by a list of all.
        let is_known = finding.code == Code::MissingPermission && !finding.fix.is_empty();
        if !is_known {
            finding.fix.extend(fixes);
        }
        // Reasons of `status` do not know how the file is named.
        finding.summary = finding.summary.replace(" FILE ", &format!(" {} ", self.file));
        finding
    }

    /// What could not be looked at, as a finding.
    fn of_trouble(&self, link: LinkName, trouble: &Trouble) -> Option<Finding> {
        let mut finding = Finding::blocks(trouble.code?, &trouble.what).because(&trouble.what);
        finding.found_out = false;
        finding.severity = Severity::Error;
        finding.of_flow = matches!(
            link,
            LinkName::Connectivity
                | LinkName::Flow
                | LinkName::OffsetSyncs
                | LinkName::OffsetMap
                | LinkName::Checkpoints
        );
        if let Some(right) = &trouble.right {
            finding.fix = grants(self.facts, &right.on, &Rights::of((**right).clone()));
        }
        Some(self.completed(finding))
    }

    /// `partitions` go no further; an empty list is everything.
    fn leaves(&mut self, partitions: &[TopicPartition]) {
        match &mut self.left {
            Some(left) if !partitions.is_empty() => {
                left.retain(|tp| !partitions.contains(tp));
            }
            _ => self.over = true,
        }
    }

    pub(super) fn end(self) -> Chain {
        Chain {
            flow: self.facts.config.name.clone(),
            subject: self.subject.clone(),
            partition: self.partition,
            mirrored_by: self.by,
            concerned: self.concerned,
            links: self.links,
        }
    }

    /// Where twinlog keeps what it knows of the flow.
    pub(super) fn state_topic(&self) -> Resource {
        Resource::Topic(state_topic(self.facts))
    }

    pub(super) fn offsets_name(&self) -> LinkName {
        offsets_link(self.by)
    }

    /// `mm2.properties:9: hello->world.topics`, or that nothing says it.
    pub(super) fn origin(&self, key: &str) -> String {
        let unsaid = || format!("{}: {key} is not said, the default holds", self.file);
        self.facts.origin(key).unwrap_or_else(unsaid)
    }

    /// The line of the file that says `key`, or where a new one goes.
    pub(super) fn property(&self, key: &str, value: &str) -> Fix {
        let full = match self.facts.config.origin(key) {
            Some(origin) => origin.key.clone(),
            None => format!("{}.{key}", self.facts.config.name),
        };
        Fix::Property(format!("{full} = {value}"))
    }
}

pub(super) fn on_group(side: &Side, group: &GroupId) -> String {
    format!("{}: group {group}", side.alias)
}

pub(super) fn on_topic(side: &Side, topic: impl std::fmt::Display) -> String {
    format!("{}: topic {topic}", side.alias)
}

/// `1 record`, `2 records`.
pub(super) fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A number, or that there is none.
pub(super) fn or_none(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}
