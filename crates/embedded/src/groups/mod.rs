//! Groups: their kind, what they committed, who may commit, and when all of it goes.
//!
//! [`classic`] and [`consumer`] hold the members of the two protocols that are spoken. Share and
//! streams groups exist with a kind and a state that a test sets. Does not know requests.

pub(crate) mod assignors;
pub(crate) mod classic;
pub(crate) mod consumer;
mod heartbeats;
pub(crate) mod reconcile;
pub(crate) mod records;

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use crate::code::{
    FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
    STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID,
};
use crate::state::State;
use crate::vocabulary::GroupKind;
use classic::{ClassicMember, Phase};
use consumer::ConsumerGroup;
use records::GroupLog;

/// Where all clients seem to come from.
pub(crate) const CLIENT_HOST: &str = "/127.0.0.1";

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

/// What a group committed for a partition.
pub(crate) type Offsets = BTreeMap<(String, i32), Committed>;

/// Who commits, as the request says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committer<'a> {
    /// The generation of a classic group, the member epoch of a consumer group, or -1.
    pub generation: i32,
    pub member: &'a str,
    pub instance: Option<&'a str>,
    /// The version of `OffsetCommit`; `None` for a commit inside a transaction.
    pub version: Option<i16>,
}

impl Committer<'_> {
    /// A client that is no member.
    pub(crate) const SIMPLE: Self =
        Self { generation: -1, member: "", instance: None, version: Some(i16::MAX) };

    fn is_anonymous(&self) -> bool {
        self.generation < 0 && self.member.is_empty() && self.instance.is_none()
    }

    fn in_transaction(&self) -> bool {
        self.version.is_none()
    }
}

/// A group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub kind: GroupKind,
    pub phase: Phase,
    pub protocol_type: String,
    pub protocol: String,
    pub generation: i32,
    pub leader: String,
    pub members: BTreeMap<String, ClassicMember>,
    /// Member ids handed out with `MEMBER_ID_REQUIRED` and not used yet, each with the number of
    /// the session in which it must be.
    pub promised: BTreeMap<String, u64>,
    /// The members and epochs of a group of the kind consumer.
    pub consumer: ConsumerGroup,
    /// A member that only a test knows of, and that never speaks.
    pub silent_member: bool,
    /// The number of the present round of joining.
    pub round: u64,
    /// The first round of a group waits for more members until then.
    pub waits_until: Option<Instant>,
    pub offsets: Offsets,
    /// Of a share group, where the unread records of partitions begin. Kafka keeps them elsewhere than
    /// commits; they do not expire.
    pub share_starts: BTreeMap<(String, i32), i64>,
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
            promised: BTreeMap::new(),
            consumer: ConsumerGroup::default(),
            silent_member: false,
            round: 0,
            waits_until: None,
            offsets: BTreeMap::new(),
            share_starts: BTreeMap::new(),
            replaced: None,
            pending: BTreeMap::new(),
            empty_since_ms: None,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.silent_member || !self.members.is_empty() || !self.consumer.members.is_empty()
    }

    pub(crate) fn state(&self) -> &'static str {
        if self.silent_member {
            "Stable"
        } else if self.kind == GroupKind::Consumer {
            self.consumer.state()
        } else {
            self.phase.word()
        }
    }

    /// A topic is gone: neither open transactions nor share groups know it any more.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        self.share_starts.retain(|(named, _), _| named != topic);
        for pending in self.pending.values_mut() {
            pending.retain(|(named, _), _| named != topic);
        }
    }

    /// Whether `who` may commit offsets of a partition.
    pub(crate) fn may_commit(&self, who: &Committer<'_>, slot: ([u8; 16], i32)) -> Result<(), i16> {
        if self.kind == GroupKind::Share {
            return Err(GROUP_ID_NOT_FOUND);
        }
        if who.is_anonymous() && (who.in_transaction() || !self.is_live()) {
            return Ok(());
        }
        if self.kind == GroupKind::Consumer {
            let answer = self.consumer.may_commit(who.member, who.generation, slot, who.version);
            return answer.map_err(|code| match code {
                STALE_MEMBER_EPOCH if who.in_transaction() => ILLEGAL_GENERATION,
                code => code,
            });
        }
        // Who names no generation is taken for an administrator, whatever name it gives.
        if who.generation < 0 && !self.is_live() && !who.in_transaction() {
            return Ok(());
        }
        self.known_member(who.member, who.instance)?;
        if who.generation != self.generation {
            return Err(ILLEGAL_GENERATION);
        }
        if self.phase == Phase::CompletingRebalance && !who.in_transaction() {
            return Err(REBALANCE_IN_PROGRESS);
        }
        Ok(())
    }

    /// Whether a member under the classic protocol is who it says it is.
    pub(crate) fn known_member(&self, member: &str, instance: Option<&str>) -> Result<(), i16> {
        if let Some(instance) = instance {
            match self.static_member(instance) {
                None => return Err(UNKNOWN_MEMBER_ID),
                Some(holder) if holder != member => return Err(FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member) { Ok(()) } else { Err(UNKNOWN_MEMBER_ID) }
    }

    pub(crate) fn commit(&mut self, topic: &str, partition: i32, committed: Committed) {
        let key = (topic.to_owned(), partition);
        let before = self.offsets.insert(key.clone(), committed);
        self.replaced = Some((key, before));
    }

    /// Whether members read a topic: its commits are then not to be deleted, and do not expire.
    pub(crate) fn subscribes_to(&self, topic: &str) -> bool {
        self.silent_member || self.consumer.subscribes_to(topic) || self.joins_topic(topic)
    }
}

impl State {
    /// Commits expire when nobody has read their topic for long enough; groups without members and
    /// commits go.
    pub(crate) fn expire_offsets(&mut self) {
        let (now_ms, keep) = (self.now_ms(), self.options.offsets_retention.as_millis() as i64);
        let ids: Vec<String> = self.groups.keys().cloned().collect();
        for id in ids {
            let Some(group) = self.groups.get(&id) else { continue };
            if group.kind == GroupKind::Share {
                continue;
            }
            let since = group.empty_since_ms.unwrap_or(i64::MIN);
            let read: BTreeSet<String> = group
                .offsets
                .keys()
                .filter(|(topic, _)| group.subscribes_to(topic))
                .map(|(topic, _)| topic.clone())
                .collect();
            self.remove_offsets(&id, |topic, _, committed| {
                !read.contains(topic) && now_ms - committed.at_ms.max(since) >= keep
            });
            let gone = self.groups.get(&id).is_some_and(|group| {
                !group.is_live()
                    && group.promised.is_empty()
                    && group.offsets.is_empty()
                    && group.pending.is_empty()
            });
            if gone {
                self.remove_group(&id);
            }
        }
    }

    /// Deletes a group, what it committed, and what was written about it.
    pub(crate) fn remove_group(&mut self, group: &str) -> bool {
        let Some(found) = self.groups.remove(group) else { return false };
        let mut log = GroupLog::of(group);
        for (topic, partition) in found.offsets.keys() {
            log.commit((topic, *partition), None, self.options.version);
        }
        match found.kind {
            GroupKind::Consumer => log.consumer_gone(),
            GroupKind::Classic | GroupKind::Streams => log.classic_gone(),
            GroupKind::Share => {}
        }
        self.log_group(log);
        self.changed = true;
        true
    }

    /// Sets where a share group's unread records begin in a partition; makes the group.
    pub(crate) fn start_share(&mut self, group: &str, topic: &str, partition: i32, offset: i64) {
        let now_ms = self.now_ms();
        let found = self.groups.entry(group.to_owned()).or_insert_with(|| {
            let mut new = Group::new(GroupKind::Share);
            GroupKind::Share.word().clone_into(&mut new.protocol_type);
            new.empty_since_ms = Some(now_ms);
            new
        });
        found.share_starts.insert((topic.to_owned(), partition), offset);
        self.changed = true;
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
