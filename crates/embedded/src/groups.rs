//! Groups: their kind, their members under the classic protocol, and what they committed.
//!
//! Groups of other kinds (consumer, share, streams) exist with a kind and a state that a test sets;
//! their member protocols are not spoken. Does not know requests.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::code::{
    GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID,
};
use crate::state::{State, Timer};
use crate::vocabulary::GroupKind;

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

/// A committed position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: String,
    pub at_ms: i64,
    /// Commits are numbered through: of two, the higher was written later.
    pub number: u64,
}

/// A member under the classic protocol.
#[derive(Clone, Debug)]
pub(crate) struct Member {
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

/// What a group committed for a partition.
type Offsets = BTreeMap<(String, i32), Committed>;

/// A group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub kind: GroupKind,
    pub phase: Phase,
    pub protocol_type: String,
    pub protocol: String,
    pub generation: i32,
    pub leader: String,
    pub members: BTreeMap<String, Member>,
    /// Member ids handed out with `MEMBER_ID_REQUIRED` and not used yet.
    pub promised: Vec<String>,
    /// A member that only a test knows of, and that never speaks.
    pub silent_member: bool,
    /// The number of the present round of joining.
    pub round: u64,
    pub offsets: Offsets,
    /// What the newest commit replaced: a new coordinator may still answer it for a moment.
    pub replaced: Option<((String, i32), Option<Committed>)>,
    /// Commits of open transactions, by producer id.
    pub pending: BTreeMap<i64, Offsets>,
    /// Since when nobody is a member; commits expire from here, or from themselves where nobody
    /// ever was.
    pub empty_since_ms: Option<i64>,
}

impl Group {
    pub(crate) fn new(kind: GroupKind) -> Self {
        Self {
            kind,
            phase: Phase::Empty,
            protocol_type: String::new(),
            protocol: String::new(),
            generation: 0,
            leader: String::new(),
            members: BTreeMap::new(),
            promised: Vec::new(),
            silent_member: false,
            round: 0,
            offsets: BTreeMap::new(),
            replaced: None,
            pending: BTreeMap::new(),
            empty_since_ms: None,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.silent_member || !self.members.is_empty()
    }

    pub(crate) fn state(&self) -> &'static str {
        if self.silent_member { "Stable" } else { self.phase.word() }
    }

    pub(crate) fn forget_pending(&mut self, topic: &str) {
        for pending in self.pending.values_mut() {
            pending.retain(|(named, _), _| named != topic);
        }
    }

    /// Whether `member` may commit in `generation`; (-1, "") is a simple client.
    pub(crate) fn may_commit(&self, generation: i32, member: &str) -> Result<(), i16> {
        if self.kind == GroupKind::Share {
            return Err(GROUP_ID_NOT_FOUND);
        }
        if generation < 0 && member.is_empty() && !self.is_live() {
            return Ok(());
        }
        if !self.members.contains_key(member) {
            return Err(UNKNOWN_MEMBER_ID);
        }
        if generation != self.generation {
            return Err(ILLEGAL_GENERATION);
        }
        if self.phase == Phase::CompletingRebalance {
            return Err(REBALANCE_IN_PROGRESS);
        }
        Ok(())
    }

    pub(crate) fn commit(&mut self, topic: &str, partition: i32, committed: Committed) {
        let key = (topic.to_owned(), partition);
        let before = self.offsets.insert(key.clone(), committed);
        self.replaced = Some((key, before));
    }

    /// The protocol that every member knows and the first member likes best.
    fn agree(&self) -> Option<String> {
        let first = self.members.values().next()?;
        let all = |name: &String| {
            self.members
                .values()
                .all(|member| member.protocols.iter().any(|(known, _)| known == name))
        };
        first.protocols.iter().map(|(name, _)| name).find(|name| all(name)).cloned()
    }
}

impl State {
    /// Begins a round of joining, or goes on with the one that runs.
    pub(crate) fn prepare_rebalance(&mut self, group: &str) {
        let number = self.number();
        let Some(found) = self.groups.get_mut(group) else { return };
        if found.phase != Phase::PreparingRebalance {
            found.phase = Phase::PreparingRebalance;
            found.round = number;
            let longest =
                found.members.values().map(|member| member.rebalance).max().unwrap_or_default();
            self.timers.push((longest, Timer::Rebalance { group: group.to_owned(), number }));
        }
        self.finish_rebalance_if_complete(group);
        self.changed = true;
    }

    pub(crate) fn finish_rebalance_if_complete(&mut self, group: &str) {
        let complete = self.groups.get(group).is_some_and(|found| {
            found.phase == Phase::PreparingRebalance
                && found.members.values().all(|member| member.joined)
        });
        if complete {
            self.finish_rebalance(group);
        }
    }

    /// The time to join is over: who has not joined is out.
    pub(crate) fn rebalance_due(&mut self, group: &str, number: u64) {
        let due = self
            .groups
            .get(group)
            .is_some_and(|found| found.phase == Phase::PreparingRebalance && found.round == number);
        if due {
            self.finish_rebalance(group);
        }
    }

    fn finish_rebalance(&mut self, group: &str) {
        let now_ms = self.now_ms();
        let Some(found) = self.groups.get_mut(group) else { return };
        found.members.retain(|_, member| member.joined);
        found.generation += 1;
        for member in found.members.values_mut() {
            member.joined = false;
            member.assignment = Bytes::new();
        }
        if found.members.is_empty() {
            found.phase = Phase::Empty;
            found.protocol.clear();
            found.empty_since_ms = Some(now_ms);
        } else {
            found.phase = Phase::CompletingRebalance;
            found.protocol = found.agree().unwrap_or_default();
            if !found.members.contains_key(&found.leader) {
                found.leader = found.members.keys().next().cloned().unwrap_or_default();
            }
            found.empty_since_ms = None;
        }
        self.changed = true;
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

    /// A session is over unless the member was seen since.
    pub(crate) fn session_due(&mut self, group: &str, member: &str, number: u64) {
        let due = self.groups.get(group).is_some_and(|found| {
            // A member that waits for a join to end is alive.
            found.members.get(member).is_some_and(|known| known.seen == number && !known.joined)
        });
        if due {
            self.remove_member(group, member);
        }
    }

    pub(crate) fn remove_member(&mut self, group: &str, member: &str) -> bool {
        let Some(found) = self.groups.get_mut(group) else { return false };
        if found.members.remove(member).is_none() {
            return false;
        }
        self.prepare_rebalance(group);
        true
    }

    /// Commits of groups without members expire, and groups without members and commits go.
    pub(crate) fn expire_offsets(&mut self) {
        let (now_ms, keep) = (self.now_ms(), self.options.offsets_retention.as_millis() as i64);
        let idle: Vec<(String, i64)> = self
            .groups
            .iter()
            .filter(|(_, group)| !group.is_live())
            .map(|(id, group)| (id.clone(), group.empty_since_ms.unwrap_or(i64::MIN)))
            .collect();
        for (group, since) in idle {
            self.remove_offsets(&group, |_, _, committed| {
                now_ms - committed.at_ms.max(since) >= keep
            });
        }
        self.groups.retain(|_, group| {
            group.is_live() || !group.offsets.is_empty() || !group.pending.is_empty()
        });
    }

    /// What a group committed, as its coordinator answers it now.
    pub(crate) fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<&Committed> {
        let found = self.groups.get(group)?;
        let key = (topic.to_owned(), partition);
        if Instant::now() < self.group_coordinator(group).stale_until
            && let Some((_, before)) =
                found.replaced.as_ref().filter(|(replaced, _)| *replaced == key)
        {
            return before.as_ref();
        }
        found.offsets.get(&key)
    }
}
