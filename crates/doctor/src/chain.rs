//! The chain: what has to be well, in order, for a group to resume on the target.
//!
//! Does not: know how a verdict comes about.

use std::fmt;

use twinlog_types::{Code, FlowName, GroupId, Partition, Severity, TopicName, TopicPartition};

use crate::findings::Finding;

/// What is explained.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A consumer group.
    Group(GroupId),
    /// A topic, by its name on the source.
    Topic(TopicName),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "group {group}"),
            Self::Topic(topic) => write!(f, "topic {topic}"),
        }
    }
}

/// A link of the chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkName {
    /// What the file says.
    Configuration,
    /// Both clusters answer, and let one look.
    Connectivity,
    /// Somebody runs the flow.
    Flow,
    /// The group on the source and its commits.
    SourceGroup,
    /// The topic on the source.
    SourceTopic,
    /// The topic is mirrored, and its mirror exists.
    Topic,
    /// The copy of the records.
    Copy,
    /// Which source offset is which target offset, exactly.
    OffsetMap,
    /// MM2's pairs of offsets.
    OffsetSyncs,
    /// The group's offsets in terms of the target.
    Translation,
    /// MM2's checkpoints topic on the target.
    Checkpoints,
    /// The group on the target and its members.
    TargetGroup,
    /// What the group has committed on the target.
    ConsumerOffsets,
}

impl LinkName {
    /// The word that output uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Connectivity => "connectivity",
            Self::Flow => "flow",
            Self::SourceGroup => "source-group",
            Self::SourceTopic => "source-topic",
            Self::Topic => "topic",
            Self::Copy => "copy",
            Self::OffsetMap => "offset-map",
            Self::OffsetSyncs => "offset-syncs",
            Self::Translation => "translation",
            Self::Checkpoints => "checkpoints",
            Self::TargetGroup => "target-group",
            Self::ConsumerOffsets => "consumer-offsets",
        }
    }
}

/// How a link stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// It was seen to be well.
    Ok,
    /// It is not.
    Broken,
    /// A link before it is broken: nothing comes this far.
    NotReached,
    /// It could not be found out.
    Unknown,
}

impl LinkState {
    /// The word that output uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Broken => "broken",
            Self::NotReached => "not-reached",
            Self::Unknown => "unknown",
        }
    }
}

/// Something that was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// What was looked at.
    pub what: String,
    /// What was there.
    pub value: String,
    /// Where: a cluster and a topic or group, or a file, line and key.
    pub place: String,
}

/// What to do, ready to paste.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fix {
    /// A command line.
    Command(String),
    /// A line of the properties file.
    Property(String),
}

impl Fix {
    /// Puts it to those that there are, if there are fewer than `max`. Of several lines for one key
    /// the last would win in a file, so that lines that list names or patterns become one.
    pub(crate) fn put_to(&self, all: &mut Vec<Fix>, max: usize) {
        let same = |there: &Fix| self.list_key().is_some() && there.list_key() == self.list_key();
        if let Some(at) = all.iter().position(same) {
            all[at] = both(&all[at], self);
        } else if all.len() < max && !all.contains(self) {
            all.push(self.clone());
        }
    }

    /// The key of a line whose value is a list of what is mirrored, or left out.
    pub(crate) fn list_key(&self) -> Option<&str> {
        let Self::Property(line) = self else { return None };
        let (key, _) = line.split_once(" = ")?;
        let name = key.strip_suffix(".exclude").unwrap_or(key);
        let name = name.rsplit('.').next().unwrap_or(name);
        ["topics", "groups"].contains(&name).then_some(key)
    }
}

/// One line that does what two do, each of which takes something in.
fn both(one: &Fix, other: &Fix) -> Fix {
    let (Fix::Property(one), Fix::Property(other)) = (one, other) else { return one.clone() };
    let (Some((key, one)), Some((_, other))) = (one.split_once(" = "), other.split_once(" = "))
    else {
        return Fix::Property(one.clone());
    };
    let more: Vec<&str> = other.split(',').collect();
    let mut items: Vec<&str> = one.split(',').collect();
    if key.ends_with(".exclude") {
        items.retain(|item| more.contains(item));
    } else {
        items.extend(more);
        let mut seen = std::collections::BTreeSet::new();
        items.retain(|item| seen.insert(*item));
    }
    Fix::Property(format!("{key} = {}", items.join(",")))
}

/// How one link of the chain stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Which.
    pub name: LinkName,
    /// How it stands.
    pub state: LinkState,
    /// That in a sentence, without a full stop.
    pub summary: String,
    /// What was seen.
    pub evidence: Vec<Evidence>,
    /// The finding: why it is broken or unknown, or, of a link that is ok, what is worth knowing.
    pub code: Option<Code>,
    /// How bad the finding is.
    pub severity: Option<Severity>,
    /// Whether the finding keeps a position or records from arriving; others only say what they
    /// are worth.
    pub blocks: bool,
    /// The partitions of the source that the finding is about; empty when it is about all.
    pub partitions: Vec<TopicPartition>,
    /// What the finding means for consumers.
    pub consequence: Option<String>,
    /// What to do about it.
    pub fix: Vec<Fix>,
    /// All that was found here, one by one: the fields above tell the gravest, with those of its
    /// kind.
    pub findings: Vec<Finding>,
    /// What could not be found out and has no code.
    pub unknown: Vec<String>,
}

/// Who makes the mirror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MirroredBy {
    /// twinlog, now or before.
    Twinlog,
    /// MM2, now or before.
    MirrorMaker,
    /// Nobody, as far as the target tells.
    Nobody,
}

impl MirroredBy {
    /// The word that output uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Twinlog => "twinlog",
            Self::MirrorMaker => "mirror-maker-2",
            Self::Nobody => "nobody",
        }
    }
}

/// What came of walking the chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// No link is broken by an error.
    Well,
    /// A link is broken by an error.
    Wrong,
    /// A link could not be looked at.
    NotFoundOut,
}

/// The chain of one subject in one flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// The flow.
    pub flow: FlowName,
    /// What is explained.
    pub subject: Subject,
    /// The one partition that was asked for.
    pub partition: Option<Partition>,
    /// Who makes the mirror; `None` when that could not be found out.
    pub mirrored_by: Option<MirroredBy>,
    /// Whether the subject is one of this flow's source at all, and did not come from its target.
    pub concerned: bool,
    /// The links, in order.
    pub links: Vec<Link>,
}

impl Chain {
    /// The link to look at first: the first that keeps something from arriving, else the first
    /// that is not ok.
    pub fn first_broken(&self) -> Option<&Link> {
        let is_bad = |link: &&Link| matches!(link.state, LinkState::Broken | LinkState::Unknown);
        let mut bad = self.links.iter().filter(is_bad);
        bad.clone().find(|link| link.blocks).or_else(|| bad.next())
    }

    /// What came of the walk. A link that could not be looked at outweighs broken ones: the answer
    /// is not whole. Rights that are missing besides what was found to be broken do not.
    pub fn outcome(&self) -> Outcome {
        let unknown = |link: &Link| link.state == LinkState::Unknown;
        let unseen = |link: &Link| link.findings.iter().any(|finding| !finding.found_out);
        let broken = |link: &Link| {
            let is_error =
                |finding: &Finding| finding.found_out && finding.severity == Severity::Error;
            let seen = link.findings.is_empty() || link.findings.iter().any(is_error);
            link.state == LinkState::Broken && link.severity == Some(Severity::Error) && seen
        };
        if self.links.iter().any(unknown) {
            Outcome::NotFoundOut
        } else if self.links.iter().any(broken) {
            Outcome::Wrong
        } else if self.links.iter().any(unseen) {
            Outcome::NotFoundOut
        } else {
            Outcome::Well
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: LinkName, state: LinkState, severity: Option<Severity>, blocks: bool) -> Link {
        Link {
            name,
            state,
            summary: String::new(),
            evidence: Vec::new(),
            code: None,
            severity,
            blocks,
            partitions: Vec::new(),
            consequence: None,
            fix: Vec::new(),
            findings: Vec::new(),
            unknown: Vec::new(),
        }
    }

    fn chain(links: Vec<Link>) -> Chain {
        Chain {
            flow: FlowName::new("hello", "world"),
            subject: Subject::Group("g".into()),
            partition: None,
            mirrored_by: None,
            concerned: true,
            links,
        }
    }

    #[test]
    fn what_blocks_is_looked_at_before_what_is_only_worth_less() {
        let coarse = link(LinkName::Translation, LinkState::Broken, Some(Severity::Error), false);
        let blocked = link(LinkName::TargetGroup, LinkState::Broken, Some(Severity::Error), true);
        let both = chain(vec![coarse.clone(), blocked]);
        assert_eq!(both.first_broken().map(|link| link.name), Some(LinkName::TargetGroup));
        let one = chain(vec![coarse]);
        assert_eq!(one.first_broken().map(|link| link.name), Some(LinkName::Translation));
    }

    #[test]
    fn an_answer_that_is_not_whole_outweighs_errors_and_warnings_weigh_nothing() {
        let ok = link(LinkName::Flow, LinkState::Ok, None, false);
        let error = link(LinkName::Flow, LinkState::Broken, Some(Severity::Error), true);
        let warning = link(LinkName::Flow, LinkState::Broken, Some(Severity::Warning), true);
        let unknown = link(LinkName::Flow, LinkState::Unknown, None, true);
        for (links, outcome) in [
            (vec![], Outcome::Well),
            (vec![ok.clone(), warning], Outcome::Well),
            (vec![ok, error.clone()], Outcome::Wrong),
            (vec![error, unknown], Outcome::NotFoundOut),
        ] {
            assert_eq!(chain(links).outcome(), outcome);
        }
    }
}
