//! Consumer groups (KIP-848): the coordinator decides who reads what, members follow.
//!
//! A change of members or of what they subscribe to raises the group's epoch. When the epoch is
//! ahead of the assignment and `group.consumer.assignment.interval.ms` has passed since the last
//! one, the next heartbeat of anybody makes a new target; each member then walks to its part of it
//! with its own heartbeats ([`Place::toward`]).
//!
//! Does not: convert a classic group that has members, or take classic members in; such a group is
//! "not a consumer group" until it is empty.
//!
//! Reference: `GroupMetadataManager` and `ConsumerGroup` of Kafka's group coordinator.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::assignors::{self, Subscriber, UNIFORM};
use super::reconcile::{Partitions, Place, Progress};
use super::records::GroupLog;
use crate::code::{
    FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID, UNSUPPORTED_VERSION,
};
use crate::patterns;

/// The epoch with which a member leaves for good.
pub(crate) const LEAVES: i32 = -1;
/// The epoch with which a static member leaves its place for its next life.
pub(crate) const LEAVES_FOR_NOW: i32 = -2;
/// The first version of `OffsetCommit` that carries a member epoch.
const FIRST_WITH_EPOCHS: i16 = 9;

/// An error code and what is wrong.
pub(crate) type Refused = (i16, String);

/// What a member tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub instance: Option<String>,
    pub rack: Option<String>,
    pub client_id: String,
    pub topics: BTreeSet<String>,
    /// Empty where it has none.
    pub regex: String,
    pub assignor: Option<String>,
    pub rebalance_ms: i32,
}

/// A member of a consumer group.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerMember {
    pub told: Subscription,
    pub place: Place,
    /// The number of its last sign of life.
    pub(super) seen: u64,
    /// The number of the revocation that it has to confirm in time.
    pub(super) revocation: u64,
}

/// What a consumer group is beside its commits.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerGroup {
    pub epoch: i32,
    pub assignment_epoch: i32,
    pub assignor: String,
    pub members: BTreeMap<String, ConsumerMember>,
    pub target: BTreeMap<String, Partitions>,
    pub(super) assigned_at: Option<Instant>,
    topics_hash: u64,
    /// The regular expressions of all members and the topics they matched.
    regexes: BTreeMap<String, BTreeSet<String>>,
}

impl Default for ConsumerGroup {
    fn default() -> Self {
        Self {
            epoch: 1,
            assignment_epoch: 1,
            assignor: UNIFORM.to_owned(),
            members: BTreeMap::new(),
            target: BTreeMap::new(),
            assigned_at: None,
            topics_hash: 0,
            regexes: BTreeMap::new(),
        }
    }
}

/// One heartbeat; what is `None` has not changed.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    pub group: String,
    pub member: String,
    pub epoch: i32,
    pub instance: Option<String>,
    pub rack: Option<String>,
    pub client_id: String,
    pub rebalance_ms: Option<i32>,
    pub topics: Option<BTreeSet<String>>,
    pub regex: Option<String>,
    pub assignor: Option<String>,
    pub owned: Option<Partitions>,
}

impl Beat {
    /// Whether the member tells everything, as it does when it joins or has lost an answer.
    pub(super) fn is_full(&self) -> bool {
        self.rebalance_ms.is_some()
            && (self.topics.is_some() || self.regex.is_some())
            && self.owned.is_some()
    }
}

/// What a member is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub epoch: i32,
    /// `None`: as before.
    pub assignment: Option<Partitions>,
}

/// Id and number of partitions of every topic, by name.
pub(super) type Catalog = BTreeMap<String, ([u8; 16], i32)>;

impl ConsumerMember {
    pub(super) fn new() -> Self {
        Self { told: Subscription::default(), place: Place::new(), seen: 0, revocation: 0 }
    }
}

impl ConsumerGroup {
    pub(crate) fn state(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.assignment_epoch {
            "Assigning"
        } else if self.members.values().all(|member| {
            member.place.progress == Progress::Stable && member.place.epoch == self.assignment_epoch
        }) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// Whether `member` may commit offsets of a partition in the member epoch `epoch`. An older
    /// epoch is good for what the member was assigned then (KIP-1251).
    pub(crate) fn may_commit(
        &self,
        member: &str,
        epoch: i32,
        slot: ([u8; 16], i32),
        version: Option<i16>,
    ) -> Result<(), i16> {
        let found = self.members.get(member).ok_or(UNKNOWN_MEMBER_ID)?;
        if version.is_some_and(|version| version < FIRST_WITH_EPOCHS) {
            return Err(UNSUPPORTED_VERSION);
        }
        let since = found.place.assigned.get(&slot);
        let older = epoch < found.place.epoch && since.is_some_and(|&since| since <= epoch);
        if epoch == found.place.epoch || older { Ok(()) } else { Err(STALE_MEMBER_EPOCH) }
    }

    /// Whether `member` may read commits in its epoch.
    pub(crate) fn may_fetch(&self, member: &str, epoch: i32) -> Result<(), i16> {
        let found = self.members.get(member).ok_or(UNKNOWN_MEMBER_ID)?;
        if epoch == found.place.epoch { Ok(()) } else { Err(STALE_MEMBER_EPOCH) }
    }

    pub(crate) fn subscribes_to(&self, topic: &str) -> bool {
        self.members.values().any(|member| self.topics_of(&member.told).contains(topic))
    }

    /// The names a member subscribes to, of topics that may not exist.
    fn topics_of<'a>(&'a self, told: &'a Subscription) -> BTreeSet<&'a str> {
        let matched = self.regexes.get(&told.regex).into_iter().flatten();
        told.topics.iter().chain(matched).map(String::as_str).collect()
    }

    pub(super) fn ids_of(&self, told: &Subscription, catalog: &Catalog) -> BTreeSet<[u8; 16]> {
        self.topics_of(told).into_iter().filter_map(|name| Some(catalog.get(name)?.0)).collect()
    }

    /// A number that changes with the topics the group reads and their partitions (FNV-1a).
    fn hash(&self, catalog: &Catalog) -> u64 {
        let names: BTreeSet<&str> =
            self.members.values().flat_map(|member| self.topics_of(&member.told)).collect();
        let known = names.into_iter().filter_map(|name| catalog.get_key_value(name));
        let mut hash = 0;
        for (name, (id, count)) in known {
            let bytes = name.bytes().chain(*id).chain(count.to_be_bytes());
            hash = bytes.fold(hash ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        }
        hash
    }

    /// Raises the epoch if that is asked for or the topics have changed.
    pub(super) fn raise(&mut self, asked: bool, catalog: &Catalog, log: &mut GroupLog) {
        let hash = self.hash(catalog);
        if asked || hash != self.topics_hash {
            self.topics_hash = hash;
            self.epoch += 1;
            log.epoch(self.epoch, hash);
        }
    }

    /// Makes a new target.
    pub(super) fn assign(&mut self, catalog: &Catalog, now_ms: i64, log: &mut GroupLog) {
        let subscribers: Vec<Subscriber> = self
            .members
            .iter()
            .map(|(id, member)| Subscriber {
                id: id.clone(),
                instance: member.told.instance.clone(),
                topics: self.ids_of(&member.told, catalog),
                before: self.target.get(id).cloned().unwrap_or_default(),
            })
            .collect();
        self.assignor = self.preferred();
        let counts: BTreeMap<[u8; 16], i32> = catalog.values().copied().collect();
        let target = assignors::assign(&self.assignor, &subscribers, &counts);
        for (member, partitions) in &target {
            if self.target.get(member) != Some(partitions) {
                log.target(member, partitions);
            }
        }
        self.target = target;
        self.assignment_epoch = self.epoch;
        self.assigned_at = Some(Instant::now());
        log.target_epoch(self.epoch, now_ms);
    }

    /// The assignor that most members ask for.
    fn preferred(&self) -> String {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for assignor in self.members.values().filter_map(|member| member.told.assignor.as_deref()) {
            *votes.entry(assignor).or_default() += 1;
        }
        let most = votes.into_iter().max_by_key(|&(_, votes)| votes);
        most.map_or(UNIFORM, |(assignor, _)| assignor).to_owned()
    }

    /// Forgets a member. What only it had subscribed to by regular expression goes with it.
    pub(super) fn remove(&mut self, member: &str, catalog: &Catalog, log: &mut GroupLog) {
        self.members.remove(member);
        self.target.remove(member);
        log.member_gone(member);
        self.forget_regexes(log);
        self.raise(true, catalog, log);
    }

    pub(super) fn forget_regexes(&mut self, log: &mut GroupLog) {
        let used: BTreeSet<&str> =
            self.members.values().map(|member| member.told.regex.as_str()).collect();
        let unused: Vec<String> =
            self.regexes.keys().filter(|regex| !used.contains(regex.as_str())).cloned().collect();
        for regex in unused {
            self.regexes.remove(&regex);
            log.regex(&regex, None::<std::slice::Iter<'_, String>>, 0);
        }
    }

    /// Matches the regular expressions again. A broker does this a moment after the heartbeat that
    /// names one, so that heartbeat is answered without its topics.
    pub(super) fn resolve(&mut self, catalog: &Catalog, now_ms: i64, log: &mut GroupLog) {
        let used: BTreeSet<String> = self
            .members
            .values()
            .map(|member| member.told.regex.clone())
            .filter(|regex| !regex.is_empty())
            .collect();
        let mut changed = false;
        for regex in used {
            let Ok(pattern) = patterns::whole(&regex) else { continue };
            let topics: BTreeSet<String> =
                catalog.keys().filter(|name| pattern.is_match(name.as_str())).cloned().collect();
            if self.regexes.get(&regex) != Some(&topics) {
                log.regex(&regex, Some(topics.iter()), now_ms);
                self.regexes.insert(regex, topics);
                changed = true;
            }
        }
        if changed {
            self.raise(true, catalog, log);
        }
    }

    /// The member that a heartbeat is of, if it may speak. A static member that left for now is
    /// replaced by its next life.
    pub(super) fn speaker(
        &mut self,
        beat: &Beat,
        log: &mut GroupLog,
    ) -> Result<Option<String>, Refused> {
        let joins = beat.epoch == 0;
        let Some(instance) = &beat.instance else {
            let Some(member) = self.members.get(&beat.member) else {
                return if joins { Ok(None) } else { Err(unknown(beat)) };
            };
            if !joins {
                in_epoch(member, beat)?;
            }
            return Ok(Some(beat.member.clone()));
        };
        let holder = self
            .members
            .iter()
            .find(|(_, member)| member.told.instance.as_ref() == Some(instance))
            .map(|(id, member)| (id.clone(), member.clone()));
        match holder {
            None if joins => Ok(None),
            None => Err((UNKNOWN_MEMBER_ID, format!("Instance id {instance} is unknown."))),
            Some((id, member)) if joins => {
                if member.place.epoch != LEAVES_FOR_NOW {
                    let message = format!(
                        "Static member {} with instance id {instance} cannot join the group because the instance id is owned by {id} member.",
                        beat.member
                    );
                    return Err((UNRELEASED_INSTANCE_ID, message));
                }
                self.replace(&id, member, &beat.member, log);
                Ok(Some(beat.member.clone()))
            }
            Some((id, member)) => {
                fenced(&id, instance, beat)?;
                in_epoch(&member, beat)?;
                Ok(Some(id))
            }
        }
    }

    fn replace(&mut self, old: &str, mut member: ConsumerMember, new: &str, log: &mut GroupLog) {
        self.members.remove(old);
        log.member_gone(old);
        member.place.epoch = 0;
        member.place.previous_epoch = 0;
        log.member(new, &member.told);
        let target = self.target.remove(old).unwrap_or_default();
        log.target(new, &target);
        log.place(new, &member.place);
        self.target.insert(new.to_owned(), target);
        self.members.insert(new.to_owned(), member);
    }
}

pub(super) fn unknown(beat: &Beat) -> Refused {
    let message = format!("Member {} is not a member of group {}.", beat.member, beat.group);
    (UNKNOWN_MEMBER_ID, message)
}

pub(super) fn fenced(holder: &str, instance: &str, beat: &Beat) -> Result<(), Refused> {
    if holder == beat.member {
        return Ok(());
    }
    let message = format!(
        "Static member {} with instance id {instance} was fenced by member {holder}.",
        beat.member
    );
    Err((FENCED_INSTANCE_ID, message))
}

fn in_epoch(member: &ConsumerMember, beat: &Beat) -> Result<(), Refused> {
    let (given, known) = (beat.epoch, member.place.epoch);
    let word = match given.cmp(&known) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Greater => "greater",
        std::cmp::Ordering::Less => {
            let within = |owned: &Partitions| {
                owned.iter().all(|slot| member.place.assigned.contains_key(slot))
            };
            // The answer that raised the epoch was lost.
            if given == member.place.previous_epoch && beat.owned.as_ref().is_some_and(within) {
                return Ok(());
            }
            "smaller"
        }
    };
    let message = format!(
        "The consumer group member has a {word} member epoch ({given}) than the one known by the group coordinator ({known}). The member must abandon all its partitions and rejoin."
    );
    Err((FENCED_MEMBER_EPOCH, message))
}
