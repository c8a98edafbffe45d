//! The doctor: the chains of all groups and topics of a flow, as one list of findings.
//!
//! Does not: read, or judge anything but by [`explain`]; `twinlog explain` of any group or topic
//! says the same.

use std::collections::BTreeSet;

use twinlog_mirror::replicates;
use twinlog_types::{Code, FlowName, GroupId, Severity, TopicName, TopicPartition};

use crate::chain::{Chain, LinkName, MirroredBy, Outcome, Subject};
use crate::facts::GroupFacts;
use crate::findings::{Counts, Finding, GroupedFinding, Grouping};
use crate::judge::explain;
use crate::judge::group::decisive;
use crate::survey::Survey;

/// What is asked about; nothing: everything.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// One group.
    pub group: Option<GroupId>,
    /// One topic, by its name on the source.
    pub topic: Option<TopicName>,
}

/// What was found of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnosis {
    /// The flow.
    pub flow: FlowName,
    /// Who makes the mirror; `None` when that could not be found out.
    pub mirrored_by: Option<MirroredBy>,
    /// The version of MM2, or what is known of it.
    pub version: Option<String>,
    /// In order: what explains others and what hurts most comes first.
    pub findings: Vec<GroupedFinding>,
    /// How much was looked at.
    pub looked_at: Counts,
    /// What could not be found out and has no code.
    pub not_found_out: BTreeSet<String>,
}

impl Diagnosis {
    /// What came of it. What could not be looked at outweighs errors: the answer is not whole.
    pub fn outcome(&self) -> Outcome {
        let unseen = |finding: &GroupedFinding| !finding.found_out;
        if !self.not_found_out.is_empty() || self.findings.iter().any(unseen) {
            return Outcome::NotFoundOut;
        }
        let is_error = |finding: &GroupedFinding| finding.severity == Severity::Error;
        if self.findings.iter().any(is_error) { Outcome::Wrong } else { Outcome::Well }
    }

    /// How many findings have this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// Judges everything that was read of a flow. `file` is how commands name the configuration.
pub fn diagnose(survey: &mut Survey, wanted: &Wanted, file: &str) -> Diagnosis {
    let mut grouping = Grouping::new();
    let mut not_found_out = BTreeSet::new();
    let mut looked_at = Counts::default();
    let mut mirrored_by = None;
    let subjects = subjects(survey, wanted);
    // The links that all chains share are there also where there is neither group nor topic.
    let nobody = [Subject::Topic(TopicName::from(""))];
    for subject in if subjects.is_empty() { &nobody[..] } else { &subjects } {
        let mut chain = survey.turn_to(subject.clone(), |facts| explain(facts, None, file));
        mirrored_by = chain.mirrored_by;
        if subjects.is_empty() || is_elsewhere(survey, wanted, &chain) {
            only_of_flow(&mut chain);
        }
        if !is_asked_for(wanted, subject) {
            lighten(&mut chain);
        }
        if let Some(topic) = &wanted.topic {
            only_of_topic(&mut chain, topic);
        }
        match subject {
            Subject::Group(group) => {
                looked_at.groups += 1;
                if wanted.group.is_some() && wanted.topic.is_none() {
                    let read = survey.groups.get(group);
                    let (topics, partitions) = read.map(read_by).unwrap_or_default();
                    looked_at.topics += topics;
                    looked_at.partitions += partitions;
                }
            }
            Subject::Topic(topic) if !topic.as_str().is_empty() => {
                looked_at.topics += 1;
                let all = survey.facts.source.topics.as_ref().ok();
                let count = all.and_then(|all| all.get(topic)).copied().unwrap_or_default();
                looked_at.partitions += usize::try_from(count).unwrap_or_default();
            }
            Subject::Topic(_) => {}
        }
        for link in &chain.links {
            not_found_out.extend(link.unknown.iter().cloned());
        }
        grouping.take_chain(&chain);
    }
    for finding in whole_flow(survey, wanted) {
        grouping.take(None, LinkName::Configuration, &finding);
    }
    let missing = survey.facts.found.missing.iter().filter(|missing| missing.code.is_none());
    not_found_out.extend(missing.map(|missing| missing.what.clone()));
    Diagnosis {
        flow: survey.facts.config.name.clone(),
        mirrored_by,
        version: survey.facts.mm2.version_words(),
        findings: grouping.end(),
        looked_at,
        not_found_out,
    }
}

fn is_asked_for(wanted: &Wanted, subject: &Subject) -> bool {
    match subject {
        Subject::Group(group) => wanted.group.as_ref() == Some(group),
        Subject::Topic(topic) => wanted.topic.as_ref() == Some(topic),
    }
}

/// Whose chains are walked.
fn subjects(survey: &Survey, wanted: &Wanted) -> Vec<Subject> {
    let mut subjects = Vec::new();
    let reads = |group: &GroupId| match &wanted.topic {
        Some(topic) => survey.groups.get(group).is_some_and(|read| reads(read, topic)),
        None => true,
    };
    if let Some(group) = &wanted.group {
        subjects.push(Subject::Group(group.clone()));
    } else {
        let groups = survey.groups_with_commits().into_iter().filter(reads);
        subjects.extend(groups.map(Subject::Group));
    }
    match (&wanted.topic, &wanted.group) {
        (Some(topic), _) => subjects.push(Subject::Topic(topic.clone())),
        (None, Some(_)) => {}
        (None, None) => subjects.extend(survey.topics().into_iter().map(Subject::Topic)),
    }
    subjects
}

/// How many topics a group has committed in, and partitions.
fn read_by(read: &GroupFacts) -> (usize, usize) {
    let commits = read.source_commits.as_ref().ok().into_iter().flatten();
    let partitions: BTreeSet<&TopicPartition> =
        commits.filter(|commit| commit.offset >= 0).map(|commit| &commit.tp).collect();
    let topics: BTreeSet<&TopicName> = partitions.iter().map(|tp| &tp.topic).collect();
    (topics.len(), partitions.len())
}

fn reads(read: &GroupFacts, topic: &TopicName) -> bool {
    let commits = read.source_commits.as_ref().ok().into_iter().flatten();
    commits.filter(|commit| commit.offset >= 0).any(|commit| commit.tp.topic == *topic)
}

/// A group that is at home elsewhere, or that reads nothing which is mirrored and is left out
/// anyway, has no findings of its own unless it is asked for.
fn is_elsewhere(survey: &Survey, wanted: &Wanted, chain: &Chain) -> bool {
    let Subject::Group(group) = &chain.subject else { return false };
    let read = survey.groups.get(group).and_then(|read| read.source_commits.as_ref().ok());
    let (Some(commits), false) = (read, is_asked_for(wanted, &chain.subject)) else {
        return false;
    };
    let config = &survey.facts.config;
    let reads_mirrored = commits.iter().any(|commit| replicates(config, commit.tp.topic.as_str()));
    !chain.concerned || !(reads_mirrored || config.groups.matches(group.as_str()))
}

fn only_of_flow(chain: &mut Chain) {
    for link in &mut chain.links {
        link.findings.retain(|finding| finding.of_flow);
        link.unknown.clear();
    }
}

/// That a topic is left out is an error to who asks for it, and a note to who asks for all.
fn lighten(chain: &mut Chain) {
    if !matches!(chain.subject, Subject::Topic(_)) {
        return;
    }
    for finding in chain.links.iter_mut().flat_map(|link| &mut link.findings) {
        if finding.code == Code::TopicNotMirrored {
            finding.severity = Severity::Info;
            finding.cause.clear();
        }
    }
}

/// Of a group's chain what concerns one topic.
fn only_of_topic(chain: &mut Chain, topic: &TopicName) {
    if !matches!(chain.subject, Subject::Group(_)) {
        return;
    }
    for link in &mut chain.links {
        link.findings.retain_mut(|finding| {
            let about_all = finding.partitions.is_empty();
            finding.partitions.retain(|tp| tp.topic == *topic);
            about_all || !finding.partitions.is_empty()
        });
    }
}

/// What no single chain can tell.
fn whole_flow(survey: &Survey, wanted: &Wanted) -> Vec<Finding> {
    let config = &survey.facts.config;
    let mut found = Vec::new();
    if *wanted != Wanted::default() {
        return found;
    }
    found.extend(slips(survey));
    let origin = |key: &str| {
        let unsaid = || format!("{key} is not said, the default holds");
        survey.facts.origin(key).unwrap_or_else(unsaid)
    };
    // Of what may not be seen something may match.
    let whole = survey.facts.rights.told(&survey.facts.source.alias).is_none();
    let topics = survey.topics();
    let matched = topics.iter().any(|topic| replicates(config, topic.as_str()));
    if whole && survey.facts.source.topics.is_ok() && !topics.is_empty() && !matched {
        let summary = format!(
            "none of the {} topics of {} passes `topics` and `topics.exclude` ({})",
            topics.len(),
            survey.facts.source.alias,
            origin("topics")
        );
        found.push(Finding::stops(Code::NothingMatches, summary).of_flow().because("topics"));
    }
    let groups = survey.groups_with_commits();
    let matched = groups.iter().any(|group| config.groups.matches(group.as_str()));
    if whole && survey.facts.source.groups.is_ok() && !groups.is_empty() && !matched {
        let summary = format!(
            "none of the {} groups of {} that have commits passes `groups` and `groups.exclude` \
             ({})",
            groups.len(),
            survey.facts.source.alias,
            origin("groups")
        );
        let severity = Severity::Warning;
        let finding = Finding { severity, ..Finding::stops(Code::NothingMatches, summary) };
        found.push(finding.of_flow().because("groups"));
    }
    found
}

/// Entries that do nothing and break no chain.
fn slips(survey: &Survey) -> impl Iterator<Item = Finding> + '_ {
    let facts = &survey.facts;
    let slips = facts.notes.iter().filter(|note| decisive(note, &facts.config).is_none());
    slips.filter_map(|note| {
        let key = note.key.as_deref()?;
        let suggestion = note.suggestion.as_ref().map(|text| format!(" ({text})"));
        let summary = format!("{key}: {}{}", note.message, suggestion.unwrap_or_default());
        let line = note.line.map(|line| format!(":{line}")).unwrap_or_default();
        let finding = Finding::notes(Code::UnknownProperty, Severity::Warning, summary);
        let finding =
            finding.seen("an entry that does nothing", key, format!("{}{line}", note.file));
        let mut finding = finding.of_flow().because(key);
        finding.meaning = Some("the entry does nothing: another line or the default counts".into());
        Some(finding)
    })
}
