//! What the heartbeats of consumer groups do, and what happens where they stay away (KIP-848).
//!
//! Reference: `GroupMetadataManager.consumerGroupHeartbeat` and `consumerGroupLeave`.

use std::time::Duration;

use super::Group;
use super::consumer::{
    Beat, Catalog, ConsumerGroup, ConsumerMember, LEAVES_FOR_NOW, Refused, Subscription, Told,
    fenced, unknown,
};
use super::reconcile::{Aim, Partitions, Progress};
use super::records::GroupLog;
use crate::code::{
    GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION, UNKNOWN_MEMBER_ID,
};
use crate::patterns;
use crate::state::{State, Timer};
use crate::vocabulary::GroupKind;

fn told_anew(before: &Subscription, beat: &Beat) -> Subscription {
    let or = |new: &Option<String>, old: &Option<String>| new.clone().or_else(|| old.clone());
    Subscription {
        instance: or(&beat.instance, &before.instance),
        rack: or(&beat.rack, &before.rack),
        client_id: beat.client_id.clone(),
        topics: beat.topics.clone().unwrap_or_else(|| before.topics.clone()),
        regex: beat.regex.clone().unwrap_or_else(|| before.regex.clone()),
        assignor: or(&beat.assignor, &before.assignor),
        rebalance_ms: beat.rebalance_ms.unwrap_or(before.rebalance_ms),
    }
}

impl State {
    fn catalog(&self) -> Catalog {
        let entry = |(name, topic): (&String, &crate::state::Topic)| {
            (name.clone(), (topic.id, topic.partitions.len() as i32))
        };
        self.topics.iter().map(entry).collect()
    }

    /// The consumer group of a heartbeat. The first heartbeat of a first member makes it, or takes
    /// over an empty classic group with its commits.
    fn consumer_group(&mut self, beat: &Beat, log: &mut GroupLog) -> Result<(), Refused> {
        let joins = beat.epoch == 0;
        let not_consumer =
            || (GROUP_ID_NOT_FOUND, format!("Group {} is not a consumer group.", beat.group));
        match self.groups.get_mut(&beat.group) {
            Some(found) if found.kind == GroupKind::Consumer && !found.silent_member => Ok(()),
            Some(found) if found.kind == GroupKind::Classic && !found.is_live() && joins => {
                found.kind = GroupKind::Consumer;
                GroupKind::Consumer.word().clone_into(&mut found.protocol_type);
                log.classic_gone();
                Ok(())
            }
            Some(_) => Err(not_consumer()),
            None if joins => {
                let mut made = Group::new(GroupKind::Consumer);
                GroupKind::Consumer.word().clone_into(&mut made.protocol_type);
                self.groups.insert(beat.group.clone(), made);
                Ok(())
            }
            None => Err((GROUP_ID_NOT_FOUND, format!("Consumer group {} not found.", beat.group))),
        }
    }

    /// One heartbeat of a member that stays or joins.
    pub(crate) fn consumer_heartbeat(&mut self, beat: &Beat) -> Result<Told, Refused> {
        if let Some(regex) = beat.regex.as_deref().filter(|regex| !regex.is_empty())
            && let Err(reason) = patterns::whole(regex)
        {
            let message = format!(
                "SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}."
            );
            return Err((INVALID_REGULAR_EXPRESSION, message));
        }
        let mut log = GroupLog::of(&beat.group);
        self.consumer_group(beat, &mut log)?;
        let Some(mut group) =
            self.groups.get_mut(&beat.group).map(|found| std::mem::take(&mut found.consumer))
        else {
            return Err(unknown(beat));
        };
        let told = self.beaten(&mut group, beat, &mut log);
        let mut later = GroupLog::of(&beat.group);
        if told.is_ok() {
            group.resolve(&self.catalog(), self.now_ms(), &mut later);
        }
        if let Some(found) = self.groups.get_mut(&beat.group) {
            found.consumer = group;
            found.empty_since_ms = None;
        }
        if told.is_ok() {
            self.log_group(log);
            self.log_group(later);
            self.changed = true;
        }
        told
    }

    fn beaten(
        &mut self,
        group: &mut ConsumerGroup,
        beat: &Beat,
        log: &mut GroupLog,
    ) -> Result<Told, Refused> {
        let most = self.options.group_size_max;
        if group.members.len() >= most && !group.members.contains_key(&beat.member) {
            let message =
                format!("The consumer group has reached its maximum capacity of {most} members.");
            return Err((GROUP_MAX_SIZE_REACHED, message));
        }
        let (catalog, now_ms) = (self.catalog(), self.now_ms());
        let known = group.speaker(beat, log)?;
        let id = known.clone().unwrap_or_else(|| beat.member.clone());
        let before = group.members.get(&id).cloned().unwrap_or_else(ConsumerMember::new);
        let told = told_anew(&before.told, beat);
        if known.is_none() || told != before.told {
            log.member(&id, &told);
        }
        let names_changed = told.topics != before.told.topics;
        let changed = names_changed || told.regex != before.told.regex;
        let mut member = ConsumerMember { told, ..before.clone() };
        group.members.insert(id.clone(), member.clone());
        group.forget_regexes(log);
        group.raise(names_changed, &catalog, log);
        let interval = self.options.consumer_assignment_interval;
        if group.epoch > group.assignment_epoch
            && group.assigned_at.is_none_or(|last| last.elapsed() >= interval)
        {
            group.assign(&catalog, now_ms, log);
        }
        let subscribed = group.ids_of(&member.told, &catalog);
        let nothing = Partitions::new();
        let aim = Aim {
            epoch: group.assignment_epoch,
            partitions: group.target.get(&id).unwrap_or(&nothing),
            subscribed: changed.then_some(&subscribed),
            owned: beat.owned.as_ref(),
        };
        member.place = before.place.toward(aim, |slot| {
            group.members.values().any(|other| {
                other.place.assigned.contains_key(slot) || other.place.revoking.contains_key(slot)
            })
        });
        if member.place != before.place {
            log.place(&id, &member.place);
            self.expect_revocation(&beat.group, &id, &mut member);
        }
        member.seen = self.number();
        let timer =
            Timer::Session { group: beat.group.clone(), member: id.clone(), number: member.seen };
        self.timers.push((self.options.consumer_session_timeout, timer));
        let now: Partitions = member.place.assigned.keys().copied().collect();
        let anew =
            beat.epoch == 0 || beat.is_full() || !now.iter().eq(before.place.assigned.keys());
        let epoch = member.place.epoch;
        group.members.insert(id, member);
        Ok(Told { epoch, assignment: anew.then_some(now) })
    }

    /// A member that does not confirm a revocation within its rebalance timeout is out.
    fn expect_revocation(&mut self, group: &str, id: &str, member: &mut ConsumerMember) {
        member.revocation = 0;
        if member.place.progress == Progress::UnrevokedPartitions {
            let number = self.number();
            member.revocation = number;
            let timeout =
                Duration::from_millis(u64::try_from(member.told.rebalance_ms).unwrap_or(0));
            let (group, member) = (group.to_owned(), id.to_owned());
            self.timers.push((timeout, Timer::Revocation { group, member, number }));
        }
    }

    /// A member leaves; with [`LEAVES_FOR_NOW`] a static one keeps its place.
    pub(crate) fn consumer_leave(&mut self, beat: &Beat) -> Result<Told, Refused> {
        let Some(found) = self.groups.get(&beat.group) else {
            return Err((GROUP_ID_NOT_FOUND, format!("Group {} not found.", beat.group)));
        };
        if found.kind != GroupKind::Consumer {
            let message = format!("Group {} is not a consumer group.", beat.group);
            return Err((GROUP_ID_NOT_FOUND, message));
        }
        let members = &found.consumer.members;
        let id = match &beat.instance {
            None if members.contains_key(&beat.member) => beat.member.clone(),
            None => return Err(unknown(beat)),
            Some(instance) => {
                let holder = members
                    .iter()
                    .find(|(_, known)| known.told.instance.as_ref() == Some(instance));
                let (id, _) = holder.ok_or_else(|| {
                    (UNKNOWN_MEMBER_ID, format!("Instance id {instance} is unknown."))
                })?;
                fenced(id, instance, beat)?;
                id.clone()
            }
        };
        if beat.epoch == LEAVES_FOR_NOW {
            self.leave_for_now(&beat.group, &id);
        } else {
            self.remove_consumer_member(&beat.group, &id);
        }
        Ok(Told { epoch: beat.epoch, assignment: None })
    }

    fn leave_for_now(&mut self, group: &str, id: &str) {
        let Some(member) =
            self.groups.get_mut(group).and_then(|found| found.consumer.members.get_mut(id))
        else {
            return;
        };
        member.place.epoch = LEAVES_FOR_NOW;
        member.place.assigned.values_mut().for_each(|epoch| *epoch = 0);
        member.place.revoking.clear();
        let mut log = GroupLog::of(group);
        log.place(id, &member.place);
        self.log_group(log);
        self.changed = true;
    }

    fn remove_consumer_member(&mut self, group: &str, id: &str) {
        let (catalog, now_ms) = (self.catalog(), self.now_ms());
        let Some(found) = self.groups.get_mut(group) else { return };
        let mut log = GroupLog::of(group);
        found.consumer.remove(id, &catalog, &mut log);
        if found.consumer.members.is_empty() {
            found.empty_since_ms = Some(now_ms);
        }
        self.log_group(log);
        self.changed = true;
    }

    /// The session of a consumer group's member is over unless it was seen since.
    pub(crate) fn consumer_session_due(&mut self, group: &str, member: &str, number: u64) {
        let found = self.groups.get(group).and_then(|found| found.consumer.members.get(member));
        if found.is_some_and(|known| known.seen == number) {
            self.remove_consumer_member(group, member);
        }
    }

    /// The time to confirm a revocation is over.
    pub(crate) fn revocation_due(&mut self, group: &str, member: &str, number: u64) {
        let found = self.groups.get(group).and_then(|found| found.consumer.members.get(member));
        if found.is_some_and(|known| known.revocation == number) {
            self.remove_consumer_member(group, member);
        }
    }
}
