//! Whether what is waited for holds, from one look after another. Pure.
//!
//! A source that is written to all the time is never copied to its very end. So the goal is what was
//! there at the first look: the end of each partition, the place of each group.
//!
//! # Invariants
//!
//! 1. Nothing holds that could not be found out.
//! 2. A goal is reached only by something that is in sync, or on its way without a finding.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use twinlog_doctor::near;
use twinlog_doctor::one_line;
use twinlog_engine::observe::{
    FlowObservation, GroupObservation, GroupPosition, PartitionObservation, TopicObservation,
};
use twinlog_flow::Standing;
use twinlog_types::{Code, FlowName, State};

/// What is waited for; everything without either.
#[derive(Clone, Default, Debug)]
pub(crate) struct Wanted {
    pub(crate) group: Option<String>,
    pub(crate) topic: Option<String>,
}

/// Something that is not in sync.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Open {
    flow: String,
    group: Option<String>,
    topic: Option<String>,
    partition: Option<i32>,
    state: &'static str,
    code: Option<&'static str>,
    reason: Option<String>,
    /// Waiting will not change it.
    never: bool,
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match (&self.topic, self.partition) {
            (Some(topic), Some(partition)) => Some(format!("{topic}-{partition}")),
            (Some(topic), None) => Some(topic.clone()),
            (None, _) => None,
        };
        match (&self.group, place) {
            (Some(group), Some(place)) => write!(f, "{} on {place}", one_line(group))?,
            (Some(group), None) => f.write_str(&one_line(group))?,
            (None, Some(place)) => f.write_str(&place)?,
            (None, None) => f.write_str(&self.flow)?,
        }
        write!(f, ": {}", self.state)?;
        if let Some(code) = self.code {
            write!(f, " ({code})")?;
        }
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// What one look says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) open: Vec<Open>,
    /// How many things were looked at.
    pub(crate) checked: usize,
    /// Something could not be found out.
    pub(crate) cut_off: bool,
    /// No flow has a group or topic of the name.
    pub(crate) nowhere: bool,
    /// What the topic that was asked for by the name of its mirror is called itself.
    pub(crate) mirror_of: Option<String>,
}

impl Verdict {
    pub(crate) fn holds(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether something is in the way that waiting does not change.
    pub(crate) fn never(&self) -> bool {
        self.open.iter().any(|open| open.never)
    }

    /// The topics that are paused, where nothing else is in the way that waiting does not change.
    pub(crate) fn paused(&self) -> Vec<&str> {
        let never = || self.open.iter().filter(|open| open.never);
        if never().any(|open| open.state != State::Paused.word()) {
            return Vec::new();
        }
        let topics: BTreeSet<&str> = never().filter_map(|open| open.topic.as_deref()).collect();
        topics.into_iter().collect()
    }

    /// MM2 makes the mirror, and no twinlog.
    pub(crate) fn is_by_mm2(&self) -> bool {
        self.open.iter().any(|open| open.code == Some(Code::Mm2StillRuns.word()))
    }
}

/// Names a goal: flow, group, topic, partition.
type Key = (FlowName, Option<String>, String, i32);

/// What must be reached, learned from the first look at each thing.
#[derive(Debug)]
pub(crate) struct Goals {
    wanted: Wanted,
    /// Offsets: of the source's end for partitions, of the target's place for groups.
    offsets: BTreeMap<Key, i64>,
}

/// What a flow has of what is wanted.
#[derive(Default)]
struct OfFlow {
    open: Vec<Open>,
    checked: usize,
    /// It has some of it, and mirrors it.
    concerned: bool,
    /// It has some of it, and its configuration leaves that out.
    left_out: bool,
    cut_off: bool,
    /// It was looked at, and what is named is not there: what is not, and names near it.
    unknown: Option<(String, Vec<String>)>,
    mirror_of: Option<String>,
}

impl Goals {
    pub(crate) fn new(wanted: Wanted) -> Self {
        Self { wanted, offsets: BTreeMap::new() }
    }

    /// Takes the next look.
    pub(crate) fn judge(&mut self, flows: &[FlowObservation]) -> Verdict {
        let all: Vec<OfFlow> = flows.iter().map(|flow| self.flow(flow)).collect();
        if let Some(verdict) = self.nowhere(flows, &all) {
            return verdict;
        }
        // Of several flows those count that mirror what is wanted, and those that did not answer;
        // where none does, those that know it.
        let somewhere = all.iter().any(|flow| flow.concerned);
        let left_out = all.iter().any(|flow| flow.left_out);
        let mut verdict = Verdict::default();
        for flow in all {
            let counts = if somewhere { flow.concerned } else { flow.left_out || !left_out };
            if flow.concerned {
                verdict.mirror_of = verdict.mirror_of.or(flow.mirror_of);
            }
            if counts || flow.cut_off {
                verdict.open.extend(flow.open);
                verdict.checked += flow.checked;
                verdict.cut_off |= flow.cut_off;
            }
        }
        // What waiting does not change explains why there is no waiting.
        verdict.open.sort_by_key(|open| !open.never);
        verdict
    }

    /// The verdict where all was looked at, and nothing of the name is there.
    fn nowhere(&self, flows: &[FlowObservation], all: &[OfFlow]) -> Option<Verdict> {
        let unknown: Option<Vec<_>> = all.iter().map(|flow| flow.unknown.as_ref()).collect();
        let unknown = unknown?;
        let (what, _) = unknown.first()?;
        let places: Vec<&str> = flows.iter().map(|flow| flow.flow.source.as_str()).collect();
        let near: BTreeSet<&str> =
            unknown.iter().flat_map(|(_, near)| near.iter().map(String::as_str)).collect();
        let near: Vec<&str> = near.into_iter().collect();
        let hint = match near.as_slice() {
            [] => String::new(),
            near => format!("; did you mean {}?", near.join(" or ")),
        };
        let reason = format!("{what} is on {}, or may be seen{hint}", places.join(" or "));
        let standing = Standing::because(State::Unknown, reason);
        let of_topic = self.wanted.topic.as_deref().map(|topic| (topic, None));
        let group = self.wanted.group.as_deref();
        let open = open(&flows.first()?.flow, group, of_topic, &standing, true);
        Some(Verdict { open: vec![open], checked: 1, nowhere: true, ..Verdict::default() })
    }

    fn flow(&mut self, flow: &FlowObservation) -> OfFlow {
        let mut found =
            OfFlow { checked: 1, cut_off: !flow.missing.is_empty(), ..OfFlow::default() };
        let name = &flow.flow;
        // What is missing is listed below.
        let is_told = flow.own.state == State::Unknown && !flow.missing.is_empty();
        if flow.own.state != State::InSync && !is_told {
            let never = flow.own.code == Some(Code::SameCluster);
            found.open.push(open(name, None, None, &flow.own, never));
        }
        for missing in &flow.missing {
            found.checked += 1;
            let standing = Standing {
                state: State::Unknown,
                code: missing.code,
                reason: Some(missing.what.clone()),
            };
            let missing = open(name, None, None, &standing, false);
            if !found.open.contains(&missing) {
                found.open.push(missing);
            }
        }
        let wanted = self.wanted.clone();
        let nothing_named = wanted.group.is_none() && wanted.topic.is_none();
        found.concerned = nothing_named;
        let group = wanted
            .group
            .as_ref()
            .map(|wanted| flow.groups.iter().find(|group| group.group.as_str() == wanted));
        for topic in &flow.topics {
            let named = wanted.topic.as_ref().is_none_or(|wanted| is_called(topic, wanted));
            let of_group = group.is_none_or(|group| {
                group.is_some_and(|group| {
                    group.partitions.iter().any(|position| position.topic == topic.topic)
                })
            });
            if named && of_group {
                self.topic(name, topic, &mut found);
            }
        }
        match group {
            Some(Some(group)) => self.group(name, group, &mut found),
            // A topic alone is about its records.
            None if wanted.topic.is_none() => {
                for group in &flow.groups {
                    self.group(name, group, &mut found);
                }
            }
            _ => {}
        }
        found.left_out = found.open.iter().any(|open| open.group.is_some() || open.topic.is_some());
        found.mirror_of = wanted.topic.as_ref().and_then(|wanted| {
            let mut topics = flow.topics.iter();
            let topic = topics.find(|one| is_called(one, wanted))?.topic.as_str();
            (topic != wanted).then(|| topic.to_owned())
        });
        if found.concerned || found.left_out || found.cut_off {
            return found;
        }
        found.unknown = self.unknown(flow);
        if found.unknown.is_none()
            && let (Some(group), Some(topic)) = (&wanted.group, &wanted.topic)
        {
            let reason = format!("no group {group} with a commit on {topic} is on {}", name.source);
            let standing = Standing::because(State::Unknown, reason);
            found.checked += 1;
            found.open.push(open(name, Some(group), Some((topic, None)), &standing, false));
        }
        found
    }

    /// Which of the names that are waited for the flow's source does not have, and names near it.
    fn unknown(&self, flow: &FlowObservation) -> Option<(String, Vec<String>)> {
        if flow.own.code == Some(Code::SameCluster) {
            // Nothing was looked at.
            return None;
        }
        let Wanted { group, topic } = &self.wanted;
        let groups = || flow.groups.iter().map(|group| group.group.as_str());
        if let Some(group) = group
            && !groups().any(|there| there == group)
        {
            return Some((format!("no group {group}"), near(group, groups())));
        }
        let topic = topic.as_ref()?;
        if flow.topics.iter().any(|there| is_called(there, topic)) {
            return None;
        }
        let topics = flow.topics.iter().map(|topic| topic.topic.as_str());
        Some((format!("no topic {topic}"), near(topic, topics)))
    }

    fn topic(&mut self, flow: &FlowName, topic: &TopicObservation, found: &mut OfFlow) {
        let name = topic.topic.as_str();
        if topic.standing.state == State::Excluded {
            if self.wanted.topic.is_some() {
                found.checked += 1;
                found.open.push(open(flow, None, Some((name, None)), &topic.standing, true));
            }
            return;
        }
        found.concerned = true;
        let before = found.open.len();
        for partition in &topic.partitions {
            found.checked += 1;
            let key = (flow.clone(), None, name.to_owned(), partition.partition);
            if !self.partition_is_there(key, partition) {
                let place = Some((name, Some(partition.partition)));
                // Waiting does not end a pause.
                let never = partition.standing.state == State::Paused;
                found.open.push(open(flow, None, place, &partition.standing, never));
            }
        }
        // What stands against the topic itself, where its partitions do not say it.
        let own = !matches!(topic.standing.state, State::InSync | State::CatchingUp)
            || (topic.partitions.is_empty() && topic.standing.state != State::InSync);
        if own && found.open.len() == before {
            found.open.push(open(flow, None, Some((name, None)), &topic.standing, false));
        }
    }

    fn partition_is_there(&mut self, key: Key, partition: &PartitionObservation) -> bool {
        let goal = match partition.source_end {
            Some(end) => Some(*self.offsets.entry(key).or_insert(end)),
            None => self.offsets.get(&key).copied(),
        };
        is_there(&partition.standing, goal, partition.copied_to)
    }

    fn group(&mut self, flow: &FlowName, group: &GroupObservation, found: &mut OfFlow) {
        let name = group.group.as_str();
        let asked = self.wanted.group.is_some();
        let wanted = self.wanted.topic.clone();
        let positions = group.partitions.iter().filter(|position| {
            let topics = [position.topic.as_str(), position.target_topic.as_str()];
            wanted.as_ref().is_none_or(|wanted| topics.contains(&wanted.as_str()))
        });
        let positions: Vec<&GroupPosition> = positions.collect();
        if positions.is_empty() && !group.partitions.is_empty() {
            // It has commits, and none on the topic.
            return;
        }
        if positions.is_empty() {
            let excluded = group.standing.state == State::Excluded;
            let open = open(flow, Some(name), None, &group.standing, excluded);
            match group.standing.state {
                State::Excluded if asked => {
                    found.checked += 1;
                    found.open.push(open);
                }
                State::Excluded | State::InSync => {}
                _ => {
                    found.concerned = true;
                    found.checked += 1;
                    found.open.push(open);
                }
            }
            return;
        }
        for position in positions {
            let place = Some((position.topic.as_str(), Some(position.partition)));
            if position.standing.state == State::Excluded {
                if asked {
                    found.checked += 1;
                    found.open.push(open(flow, Some(name), place, &position.standing, true));
                }
                continue;
            }
            found.concerned = true;
            found.checked += 1;
            let key = (
                flow.clone(),
                Some(name.to_owned()),
                position.topic.to_string(),
                position.partition,
            );
            if !self.position_is_there(key, position) {
                found.open.push(open(flow, Some(name), place, &position.standing, false));
            }
        }
    }

    fn position_is_there(&mut self, key: Key, position: &GroupPosition) -> bool {
        // A lower bound is no place yet, and would be too easy a goal.
        let final_word = matches!(position.translation, "exact" | "end" | "before-start");
        let goal = match position.target_offset.filter(|_| final_word) {
            Some(place) => Some(*self.offsets.entry(key).or_insert(place)),
            None => self.offsets.get(&key).copied(),
        };
        is_there(&position.standing, goal, position.committed_target)
    }
}

fn is_called(topic: &TopicObservation, name: &str) -> bool {
    topic.topic.as_str() == name || topic.target_topic.as_str() == name
}

/// In sync; or past the goal, and on the way without a finding.
fn is_there(standing: &Standing, goal: Option<i64>, reached: Option<i64>) -> bool {
    if standing.state == State::InSync {
        return true;
    }
    let on_its_way = standing.state == State::CatchingUp && standing.code.is_none();
    on_its_way && goal.zip(reached).is_some_and(|(goal, reached)| reached >= goal)
}

fn open(
    flow: &FlowName,
    group: Option<&str>,
    place: Option<(&str, Option<i32>)>,
    standing: &Standing,
    never: bool,
) -> Open {
    Open {
        flow: flow.to_string(),
        group: group.map(str::to_owned),
        topic: place.map(|(topic, _)| topic.to_owned()),
        partition: place.and_then(|(_, partition)| partition),
        state: standing.state.word(),
        code: standing.code.map(Code::word),
        reason: standing.reason.clone(),
        never,
    }
}

#[cfg(test)]
mod tests;
