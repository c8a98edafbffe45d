//! Findings: diagnosed facts with their evidence, what they mean in records, and what to do.
//!
//! A recogniser makes a [`Finding`] where it sees something at a link of one subject's chain. Of all
//! chains of a flow, [`Grouping`] tells equal findings once, with every place they hold for, and
//! puts them in order.
//!
//! Does not: recognise anything, print.
//!
//! # Invariants
//!
//! 1. What a partition lost, and what a group would read again, is counted once, however many
//!    chains came across it.
//! 2. The order is a function of the findings alone: errors first; of one severity what explains
//!    others before what follows from it; of those what hurts a failover most.

mod grouping;
mod order;

#[cfg(test)]
mod tests;

use twinlog_types::{Code, GroupId, Partition, Severity, TopicName, TopicPartition};

use crate::chain::{Evidence, Fix, LinkName};
use crate::remedy::Impact;

pub use grouping::Grouping;

/// What a finding does to the walk along a chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Weight {
    /// Worth saying; it goes on.
    Notes,
    /// It keeps something from arriving; what is there is looked at all the same.
    Blocks,
    /// The way ends here.
    Stops,
}

/// Something that was found at a link of one chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it is.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What it does to the walk.
    pub weight: Weight,
    /// It in a sentence, without a full stop.
    pub summary: String,
    /// The partitions of the source that it is about; empty: the whole subject, or with
    /// [`of_flow`](Self::of_flow) the whole flow.
    pub partitions: Vec<TopicPartition>,
    /// It is the same for every subject of the flow.
    pub of_flow: bool,
    /// Tells findings of one code apart that are mended differently (a pattern, a key).
    pub cause: String,
    /// What was seen of it, beside what its link shows anyway.
    pub evidence: Vec<Evidence>,
    /// What the code means for consumers.
    pub meaning: Option<String>,
    /// What a failover now would do, in records.
    pub impact: Impact,
    /// What to do. A recogniser gives what only it knows; the rest comes with the code.
    pub fix: Vec<Fix>,
    /// False: what it is about could not be looked at, and the code says why.
    pub found_out: bool,
    /// What it is known to follow from, where its code may have other causes.
    pub follows: Option<Code>,
}

impl Finding {
    /// Nothing gets past it.
    pub fn stops(code: Code, summary: impl Into<String>) -> Self {
        Self {
            code,
            severity: severity(code),
            weight: Weight::Stops,
            summary: summary.into(),
            partitions: Vec::new(),
            of_flow: false,
            cause: String::new(),
            evidence: Vec::new(),
            meaning: None,
            impact: Impact::default(),
            fix: Vec::new(),
            found_out: true,
            follows: None,
        }
    }

    /// It keeps something from arriving, and what is there is looked at all the same.
    pub fn blocks(code: Code, summary: impl Into<String>) -> Self {
        Self { weight: Weight::Blocks, ..Self::stops(code, summary) }
    }

    /// It is worth saying.
    pub fn notes(code: Code, severity: Severity, summary: impl Into<String>) -> Self {
        Self { severity, weight: Weight::Notes, ..Self::stops(code, summary) }
    }

    /// It is about this partition of the source.
    #[must_use]
    pub fn of(self, tp: &TopicPartition) -> Self {
        Self { partitions: vec![tp.clone()], ..self }
    }

    /// It is the same for every subject of the flow.
    #[must_use]
    pub fn of_flow(self) -> Self {
        Self { of_flow: true, ..self }
    }

    /// It is told apart from others of its code.
    #[must_use]
    pub fn because(self, cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), ..self }
    }

    /// It follows from a finding with this code.
    #[must_use]
    pub fn after(self, code: Code) -> Self {
        Self { follows: Some(code), ..self }
    }

    /// What a failover now would do.
    #[must_use]
    pub fn with(self, impact: Impact) -> Self {
        Self { impact, ..self }
    }

    /// What to do about it.
    #[must_use]
    pub fn fix(mut self, fix: Fix) -> Self {
        self.fix.push(fix);
        self
    }

    /// What was seen of it.
    #[must_use]
    pub fn seen(
        mut self,
        what: impl Into<String>,
        value: impl std::fmt::Display,
        place: impl Into<String>,
    ) -> Self {
        let (what, place) = (what.into(), place.into());
        self.evidence.push(Evidence { what, value: format!("{value}"), place });
        self
    }

    pub(crate) fn same_kind(&self, other: &Self) -> bool {
        (self.code, self.severity, self.weight) == (other.code, other.severity, other.weight)
    }
}

/// How bad a code is where nothing else is known.
pub(crate) fn severity(code: Code) -> Severity {
    match code {
        Code::GroupLiveOnTarget
        | Code::TargetAhead
        | Code::TopicNotYetDiscovered
        | Code::ConfigDrift
        | Code::OpenTransaction
        | Code::TargetTruncated
        | Code::Throttled
        | Code::ConfigRefused
        | Code::StaleCheckpoint
        | Code::OffsetsExpired
        | Code::TornTransaction
        | Code::MapLoading
        | Code::NotFenced
        | Code::MemoryLimited
        | Code::UnknownProperty => Severity::Warning,
        _ => Severity::Error,
    }
}

/// Where a finding holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The group, where it is about one.
    pub group: Option<GroupId>,
    /// The topic, by its name on the source.
    pub topic: Option<TopicName>,
    /// The partition of it.
    pub partition: Option<Partition>,
}

/// Findings that are equal but for where they hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupedFinding {
    /// What it is.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The first link of the chain that it was found at.
    pub link: LinkName,
    /// It in a sentence: of one place, as an example, where it holds for several.
    pub summary: String,
    /// Everywhere it holds, in order.
    pub places: Vec<Place>,
    /// It holds for the whole flow, whatever places are named besides.
    pub of_flow: bool,
    /// The groups whose chains come past it, where it is not about groups itself.
    pub concerned: Vec<GroupId>,
    /// What was seen, of the first few places.
    pub evidence: Vec<Evidence>,
    /// What the code means for consumers.
    pub meaning: Option<String>,
    /// What a failover now would do, of all places together.
    pub impact: Impact,
    /// What to do.
    pub fix: Vec<Fix>,
    /// False: what it is about could not be looked at, and the code says why.
    pub found_out: bool,
    /// The finding that this one follows from.
    pub follows_from: Option<Code>,
}

/// How many things a finding holds for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Groups.
    pub groups: usize,
    /// Topics.
    pub topics: usize,
    /// Partitions of topics.
    pub partitions: usize,
}

impl GroupedFinding {
    /// What it means for consumers, in records where they are known.
    pub fn consequence(&self) -> Option<String> {
        crate::remedy::joined(self.meaning.as_deref(), &self.impact)
    }

    /// How many things it holds for.
    pub fn counts(&self) -> Counts {
        use std::collections::BTreeSet;
        let groups: BTreeSet<&GroupId> =
            self.places.iter().filter_map(|place| place.group.as_ref()).collect();
        let topics: BTreeSet<&TopicName> =
            self.places.iter().filter_map(|place| place.topic.as_ref()).collect();
        let partitions: BTreeSet<(&TopicName, Partition)> = self
            .places
            .iter()
            .filter_map(|place| Some((place.topic.as_ref()?, place.partition?)))
            .collect();
        Counts { groups: groups.len(), topics: topics.len(), partitions: partitions.len() }
    }

    /// The group, where it is about one alone.
    pub fn group(&self) -> Option<&GroupId> {
        self.only(|place| place.group.as_ref())
    }

    /// The topic, where it is about one alone.
    pub fn topic(&self) -> Option<&TopicName> {
        self.only(|place| place.topic.as_ref())
    }

    /// The partition, where it is about one of one topic alone.
    pub fn partition(&self) -> Option<Partition> {
        self.topic()?;
        self.only(|place| place.partition)
    }

    /// What all places have in common.
    fn only<'a, T: PartialEq>(&'a self, of: impl Fn(&'a Place) -> Option<T>) -> Option<T> {
        let first = of(self.places.first().filter(|_| !self.of_flow)?)?;
        self.places.iter().all(|place| of(place).as_ref() == Some(&first)).then_some(first)
    }
}
