//! Tells equal findings once.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_types::{Code, GroupId, Severity, TopicName, TopicPartition};

use super::{Finding, GroupedFinding, Place, order};
use crate::chain::{Chain, Evidence, Fix, Link, LinkName, Subject};
use crate::remedy::Impact;

/// Evidence of more places is no help: each is one command away.
const EVIDENCE_MAX: usize = 12;
/// Of one place.
const EVIDENCE_OF_ONE_MAX: usize = 4;
/// Nobody pastes more.
const FIXES_MAX: usize = 10;

/// What makes findings equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    code: Code,
    severity: Severity,
    found_out: bool,
    cause: String,
    follows: Option<Code>,
}

/// Findings of one key.
struct Gathered {
    link: LinkName,
    summary: String,
    places: BTreeMap<Place, Impact>,
    concerned: BTreeSet<GroupId>,
    evidence: Vec<Evidence>,
    meaning: Option<String>,
    of_flow: bool,
    fix: Vec<Fix>,
}

/// Gathers the findings of the chains of one flow.
#[derive(Default)]
pub struct Grouping {
    found: BTreeMap<Key, Gathered>,
}

impl std::fmt::Debug for Grouping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grouping").field("kinds", &self.found.len()).finish_non_exhaustive()
    }
}

impl Grouping {
    /// Nothing gathered yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes every finding of a chain.
    pub fn take_chain(&mut self, chain: &Chain) {
        for link in &chain.links {
            for finding in &link.findings {
                let gathered = self.gather(Some(&chain.subject), link.name, finding);
                if gathered.evidence.len() < EVIDENCE_MAX {
                    let seen = evidence_of(link, finding);
                    add_some(&mut gathered.evidence, &seen, EVIDENCE_MAX);
                }
            }
        }
    }

    /// Takes a finding of a subject's chain, or one that no chain came across.
    pub fn take(&mut self, subject: Option<&Subject>, link: LinkName, finding: &Finding) {
        self.gather(subject, link, finding);
    }

    fn gather(
        &mut self,
        subject: Option<&Subject>,
        link: LinkName,
        finding: &Finding,
    ) -> &mut Gathered {
        let key = Key {
            code: finding.code,
            severity: finding.severity,
            found_out: finding.found_out,
            cause: finding.cause.clone(),
            follows: finding.follows,
        };
        let gathered = self.found.entry(key).or_insert_with(|| Gathered {
            link,
            summary: finding.summary.clone(),
            places: BTreeMap::new(),
            concerned: BTreeSet::new(),
            evidence: Vec::new(),
            meaning: finding.meaning.clone(),
            of_flow: false,
            fix: Vec::new(),
        });
        // The first link is where it begins, and says it best; what holds for the flow says more
        // than what it does to one subject.
        let says_more = finding.of_flow && !gathered.of_flow;
        if link < gathered.link || says_more {
            gathered.link = gathered.link.min(link);
            gathered.summary.clone_from(&finding.summary);
        }
        gathered.of_flow |= finding.of_flow;
        add_some(&mut gathered.evidence, &finding.evidence, EVIDENCE_MAX);
        for fix in &finding.fix {
            fix.put_to(&mut gathered.fix, FIXES_MAX);
        }
        let subject = subject.filter(|_| !finding.of_flow);
        let group = match subject {
            Some(Subject::Group(group)) => Some(group),
            _ => None,
        };
        if let Some(group) = group {
            gathered.concerned.insert(group.clone());
        }
        let about_group = group.filter(|_| is_about_group(link, finding));
        for place in places(subject, about_group, finding) {
            // Several chains come past one partition: its records are counted once.
            gathered.places.entry(place).or_insert_with(|| finding.impact.clone());
        }
        gathered
    }

    /// The findings, in order.
    pub fn end(mut self) -> Vec<GroupedFinding> {
        leave_out_what_is_said_worse(&mut self.found);
        let mut found: Vec<GroupedFinding> =
            self.found.into_iter().map(|(key, gathered)| grouped(&key, gathered)).collect();
        order::put(&mut found);
        one_line_for_a_key(&mut found);
        found
    }
}

/// Lines of several findings may name one key: each says what those before it say, too.
fn one_line_for_a_key(found: &mut [GroupedFinding]) {
    let mut said: Vec<Fix> = Vec::new();
    for fix in found.iter_mut().flat_map(|finding| &mut finding.fix) {
        if let Some(key) = fix.list_key().map(str::to_owned) {
            fix.put_to(&mut said, usize::MAX);
            let whole = said.iter().find(|said| said.list_key() == Some(&*key));
            *fix = whole.cloned().unwrap_or_else(|| fix.clone());
        }
    }
}

/// What a link shows of the first partition of a finding; of one without partitions, all.
fn evidence_of(link: &Link, finding: &Finding) -> Vec<Evidence> {
    let tp = finding.partitions.first().map(ToString::to_string);
    let about = |seen: &&Evidence| tp.as_ref().is_none_or(|tp| seen.what.contains(tp.as_str()));
    let seen = link.evidence.iter().filter(about).take(EVIDENCE_OF_ONE_MAX);
    seen.cloned().collect()
}

/// Links before the translation speak of topics; what they cost a group makes it the group's.
fn is_about_group(link: LinkName, finding: &Finding) -> bool {
    let of_topics = matches!(
        link,
        LinkName::Topic | LinkName::Copy | LinkName::OffsetMap | LinkName::OffsetSyncs
    );
    !of_topics || finding.code == Code::TopicNotMirrored || finding.impact.is_of_group()
}

fn places(subject: Option<&Subject>, group: Option<&GroupId>, finding: &Finding) -> Vec<Place> {
    if finding.partitions.is_empty() {
        let whole = match subject {
            None => return Vec::new(),
            Some(Subject::Group(group)) => {
                Place { group: Some(group.clone()), topic: None, partition: None }
            }
            Some(Subject::Topic(topic)) => {
                Place { group: None, topic: Some(topic.clone()), partition: None }
            }
        };
        return vec![whole];
    }
    let place = |tp: &TopicPartition| Place {
        group: group.cloned(),
        topic: Some(tp.topic.clone()),
        partition: Some(tp.partition),
    };
    finding.partitions.iter().map(place).collect()
}

fn add_some<T: Clone + PartialEq>(all: &mut Vec<T>, more: &[T], max: usize) {
    for one in more {
        if all.len() < max && !all.contains(one) {
            all.push(one.clone());
        }
    }
}

fn grouped(key: &Key, gathered: Gathered) -> GroupedFinding {
    let mut impact = Impact::default();
    for one in gathered.places.values() {
        impact.add(one);
    }
    let about_groups = gathered.places.keys().any(|place| place.group.is_some());
    GroupedFinding {
        code: key.code,
        severity: key.severity,
        link: gathered.link,
        summary: gathered.summary,
        places: gathered.places.into_keys().collect(),
        of_flow: gathered.of_flow,
        concerned: if about_groups { Vec::new() } else { gathered.concerned.into_iter().collect() },
        evidence: gathered.evidence,
        meaning: gathered.meaning,
        impact,
        fix: gathered.fix,
        found_out: key.found_out,
        follows_from: key.follows,
    }
}

/// A topic that is left out is a note; a group that reads it makes it an error. It is said once.
fn leave_out_what_is_said_worse(found: &mut BTreeMap<Key, Gathered>) {
    let topics = |gathered: &Gathered| -> BTreeSet<TopicName> {
        gathered.places.keys().filter_map(|place| place.topic.clone()).collect()
    };
    let told: Vec<(Code, Severity, BTreeSet<TopicName>)> =
        found.iter().map(|(key, gathered)| (key.code, key.severity, topics(gathered))).collect();
    found.retain(|key, gathered| {
        let before = gathered.places.len();
        gathered.places.retain(|place, _| {
            let Some(topic) = place.topic.as_ref().filter(|_| place.group.is_none()) else {
                return true;
            };
            !told.iter().any(|(code, severity, topics)| {
                *code == key.code && *severity < key.severity && topics.contains(topic)
            })
        });
        before == 0 || !gathered.places.is_empty()
    });
}
