//! Members under the classic protocol: rounds of joining, sessions, static members (KIP-345).
//!
//! In a round the coordinator waits for every member to join again, for the promised ones too,
//! until the longest rebalance timeout has passed; a dynamic member that has not joined by then is
//! out, a static one stays until its session is over. The first round of an empty group waits
//! `group.initial.rebalance.delay.ms` for more members.
//!
//! Reference: `ClassicGroup` and `GroupMetadataManager` of Kafka's group coordinator.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::time::Instant;

use super::Group;
use super::records::GroupLog;
use crate::state::{State, Timer};
use crate::vocabulary::GroupKind;

/// The protocol type of groups whose members are consumers.
const CONSUMERS: &str = "consumer";

/// Where a classic group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl Phase {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// A member under the classic protocol.
#[derive(Clone, Debug)]
pub(crate) struct ClassicMember {
    pub instance: Option<String>,
    pub client_id: String,
    pub protocols: Vec<(String, Bytes)>,
    pub session: Duration,
    pub rebalance: Duration,
    /// Has asked to join in the present round.
    pub joined: bool,
    pub assignment: Bytes,
    /// The number of its last sign of life.
    pub seen: u64,
}

impl ClassicMember {
    /// What the member says under a protocol.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| name == protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }
}

impl Group {
    /// The member that holds an instance id.
    pub(crate) fn static_member(&self, instance: &str) -> Option<&str> {
        let holder =
            self.members.iter().find(|(_, known)| known.instance.as_deref() == Some(instance));
        holder.map(|(id, _)| id.as_str())
    }

    /// Whether a member with these protocols can be in the group: same type, one in common.
    pub(crate) fn supports(&self, protocol_type: &str, protocols: &[(String, Bytes)]) -> bool {
        let common = |name: &str| {
            self.members.values().all(|member| member.protocols.iter().any(|(own, _)| own == name))
        };
        self.members.is_empty()
            || self.protocol_type == protocol_type && protocols.iter().any(|(name, _)| common(name))
    }

    /// The protocol that every member knows and most like best.
    pub(crate) fn agreed(&self) -> Option<String> {
        let all = |name: &String| {
            self.members
                .values()
                .all(|member| member.protocols.iter().any(|(known, _)| known == name))
        };
        let mut votes: BTreeMap<&String, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(best) = member.protocols.iter().map(|(name, _)| name).find(|name| all(name))
            {
                *votes.entry(best).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|&(_, votes)| votes).map(|(name, _)| name.clone())
    }

    /// Whether a member of a group of consumers subscribes to a topic.
    pub(crate) fn joins_topic(&self, topic: &str) -> bool {
        self.protocol_type == CONSUMERS
            && self.members.values().any(|member| {
                let metadata = member.metadata(&self.protocol);
                subscribed(metadata).is_none_or(|topics| topics.iter().any(|name| *name == topic))
            })
    }
}

/// The topics in a consumer's metadata (`ConsumerProtocolSubscription`); `None` where it cannot be
/// read.
fn subscribed(mut metadata: Bytes) -> Option<Vec<Bytes>> {
    metadata.try_get_i16().ok()?;
    let count = metadata.try_get_i32().ok()?;
    let mut topics = Vec::new();
    for _ in 0..count {
        let length = usize::try_from(metadata.try_get_i16().ok()?).ok()?;
        if metadata.remaining() < length {
            return None;
        }
        topics.push(metadata.split_to(length));
    }
    Some(topics)
}

impl State {
    /// Begins a round of joining, or goes on with the one that runs.
    pub(crate) fn prepare_rebalance(&mut self, group: &str) {
        let number = self.number();
        let delay = self.options.group_initial_rebalance_delay;
        let Some(found) = self.groups.get_mut(group) else { return };
        if found.phase != Phase::PreparingRebalance {
            let first = found.phase == Phase::Empty;
            found.phase = Phase::PreparingRebalance;
            found.round = number;
            let longest =
                found.members.values().map(|member| member.rebalance).max().unwrap_or_default();
            let timer = Timer::Rebalance { group: group.to_owned(), number };
            let delay = delay.min(longest);
            if first && !delay.is_zero() {
                found.waits_until = Some(Instant::now() + delay);
                self.timers.push((delay, timer.clone()));
            }
            self.timers.push((longest, timer));
        }
        self.finish_rebalance_if_complete(group);
        self.changed = true;
    }

    pub(crate) fn finish_rebalance_if_complete(&mut self, group: &str) {
        let now = Instant::now();
        let complete = self.groups.get(group).is_some_and(|found| {
            found.phase == Phase::PreparingRebalance
                && found.promised.is_empty()
                && found.waits_until.is_none_or(|until| now >= until)
                && found.members.values().all(|member| member.joined)
        });
        if complete {
            self.finish_rebalance(group);
        }
    }

    /// The time to join is over: who has not joined is out.
    pub(crate) fn rebalance_due(&mut self, group: &str, number: u64) {
        let Some(found) = self.groups.get_mut(group) else { return };
        if found.phase != Phase::PreparingRebalance || found.round != number {
            return;
        }
        let none = !found.members.is_empty() && found.members.values().all(|member| !member.joined);
        if none && found.members.values().all(|member| member.instance.is_some()) {
            // Static members that are all away keep their places, and the round goes on.
            let longest =
                found.members.values().map(|member| member.rebalance).max().unwrap_or_default();
            self.timers.push((longest, Timer::Rebalance { group: group.to_owned(), number }));
            return;
        }
        self.finish_rebalance(group);
    }

    fn finish_rebalance(&mut self, group: &str) {
        let now_ms = self.now_ms();
        let Some(found) = self.groups.get_mut(group) else { return };
        found.waits_until = None;
        found.members.retain(|_, member| member.joined || member.instance.is_some());
        found.generation += 1;
        let present = |found: &Group| {
            let joined = found.members.iter().find(|(_, member)| member.joined);
            joined.map(|(id, _)| id.clone()).unwrap_or_default()
        };
        if !found.members.get(&found.leader).is_some_and(|leader| leader.joined) {
            found.leader = present(found);
        }
        for member in found.members.values_mut() {
            member.joined = false;
            member.assignment = Bytes::new();
        }
        if found.members.is_empty() {
            found.phase = Phase::Empty;
            found.protocol.clear();
            found.empty_since_ms = Some(now_ms);
            let mut log = GroupLog::of(group);
            log.classic(found, now_ms);
            self.log_group(log);
        } else {
            found.phase = Phase::CompletingRebalance;
            found.protocol = found.agreed().unwrap_or_default();
            found.empty_since_ms = None;
        }
        self.changed = true;
    }

    /// Writes how a classic group stands now.
    pub(crate) fn log_classic(&mut self, group: &str) {
        let now_ms = self.now_ms();
        let Some(found) = self.groups.get(group) else { return };
        let mut log = GroupLog::of(group);
        log.classic(found, now_ms);
        self.log_group(log);
    }

    /// A member gave a sign of life: its session begins anew.
    pub(crate) fn seen(&mut self, group: &str, member: &str) {
        let number = self.number();
        let Some(found) =
            self.groups.get_mut(group).and_then(|found| found.members.get_mut(member))
        else {
            return;
        };
        found.seen = number;
        let timer = Timer::Session { group: group.to_owned(), member: member.to_owned(), number };
        self.timers.push((found.session, timer));
    }

    /// A member id is promised: its holder must join within its session.
    pub(crate) fn promise(&mut self, group: &str, member: &str, session: Duration) {
        let number = self.number();
        let Some(found) = self.groups.get_mut(group) else { return };
        found.promised.insert(member.to_owned(), number);
        let timer = Timer::Session { group: group.to_owned(), member: member.to_owned(), number };
        self.timers.push((session, timer));
    }

    /// A session is over unless the member was seen since.
    pub(crate) fn session_due(&mut self, group: &str, member: &str, number: u64) {
        let Some(found) = self.groups.get_mut(group) else { return };
        if found.kind == GroupKind::Consumer {
            self.consumer_session_due(group, member, number);
        } else if found.promised.get(member) == Some(&number) {
            found.promised.remove(member);
            self.finish_rebalance_if_complete(group);
        } else if found
            .members
            .get(member)
            // A member that waits for a join to end is alive.
            .is_some_and(|known| known.seen == number && !known.joined)
        {
            self.remove_member(group, member);
        }
    }

    /// Takes a member or the promise of one away.
    pub(crate) fn remove_member(&mut self, group: &str, member: &str) -> bool {
        let Some(found) = self.groups.get_mut(group) else { return false };
        if found.promised.remove(member).is_some() {
            self.finish_rebalance_if_complete(group);
            return true;
        }
        if found.members.remove(member).is_none() {
            return false;
        }
        self.prepare_rebalance(group);
        true
    }
}
