//! What a test does to brokers, replicas, groups and requests without speaking the protocol.
//!
//! Does not touch topics and records: those are in `admin`.

use crate::cluster::EmbeddedCluster;
use crate::faults::{Fault, FaultId, RequestLogEntry};
use crate::groups::Committer;
use crate::vocabulary::{AdminError, GroupKind};

type Result<T, E = AdminError> = std::result::Result<T, E>;

/// Brokers, replicas and coordinators.
impl EmbeddedCluster {
    /// Kills a broker (SIGKILL): connections break, new ones are refused. Its leaderships move after
    /// the session timeout, or at [`fence_broker`](Self::fence_broker).
    pub fn kill_broker(&self, id: i32) {
        self.with(|state| state.kill(id));
    }

    /// Starts a killed broker.
    pub fn restart_broker(&self, id: i32) {
        self.with(|state| state.restart(id));
    }

    /// Stops a broker (SIGSTOP): connections stay, nothing is answered. Its leaderships move after
    /// the session timeout, or at [`fence_broker`](Self::fence_broker).
    pub fn pause_broker(&self, id: i32) {
        self.with(|state| state.pause(id));
    }

    /// Lets a stopped broker go on (SIGCONT). If its leaderships have moved, it acts on what it
    /// knew for a moment: it appends, answers, and then drops what it appended.
    pub fn resume_broker(&self, id: i32) {
        self.with(|state| state.resume(id));
    }

    /// The controller notices at once that a dead or stopped broker is gone.
    pub fn fence_broker(&self, id: i32) {
        self.with(|state| {
            let gone = state
                .brokers
                .get(&id)
                .is_some_and(|broker| !broker.fenced && !state.awake().contains(&id));
            if gone {
                state.fence(id);
            }
        });
    }

    /// Moves a leadership in good order. `false` when `to` is no in-sync replica that runs.
    pub fn move_leader(&self, topic: &str, partition: i32, to: i32) -> bool {
        self.with(|state| state.move_leader(topic, partition, to))
    }

    /// A new leader epoch whose log ends at `offset`: acknowledged records at and above it are lost,
    /// as after an unclean election. `false` without a leader.
    pub fn lose_tail(&self, topic: &str, partition: i32, offset: i64) -> bool {
        self.with(|state| state.lose_tail(topic, partition, offset))
    }

    /// Followers stop to copy and the high watermark stops to move: `acks=all` is not answered
    /// before its timeout.
    pub fn hold_replication(&self, topic: &str, partition: i32) {
        self.with(|state| {
            if let Some(found) = state.partition_mut(topic, partition) {
                found.held = true;
            }
        });
    }

    /// Ends [`hold_replication`](Self::hold_replication).
    pub fn release_replication(&self, topic: &str, partition: i32) {
        self.with(|state| {
            if let Some(found) = state.partition_mut(topic, partition) {
                found.held = false;
            }
            state.replicate(topic, partition);
        });
    }

    /// Takes a replica out of the in-sync ones, as if it lagged. It comes back as soon as it copies.
    pub fn shrink_in_sync(&self, topic: &str, partition: i32, broker: i32) {
        self.with(|state| {
            if let Some(found) = state.partition_mut(topic, partition) {
                found.shrink(broker);
            }
            state.changed = true;
        });
    }

    /// All replicas forget all producers of a partition, as after `producer.id.expiration.ms`.
    pub fn expire_producers(&self, topic: &str, partition: i32) {
        self.with(|state| {
            if let Some(found) = state.partition_mut(topic, partition) {
                for replica in &mut found.replicas {
                    replica.log.producers.expire(i64::MAX, 0);
                }
            }
        });
    }

    /// The broker that coordinates a group.
    pub fn group_coordinator(&self, group: &str) -> i32 {
        self.with(|state| state.group_coordinator(group).broker)
    }

    /// The broker that coordinates a transactional id.
    pub fn transaction_coordinator(&self, transactional_id: &str) -> i32 {
        self.with(|state| state.transaction_coordinator(transactional_id).broker)
    }

    /// The wall clock.
    pub fn now_ms(&self) -> i64 {
        self.with(|state| state.now_ms())
    }
}

/// Groups.
impl EmbeddedCluster {
    /// Commits like a simple client. Refused like one.
    pub fn commit_offset(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<()> {
        self.with(|state| {
            state.may_commit(group, &Committer::SIMPLE, (topic, partition), "").map_err(
                |code| AdminError::Refused { code, message: "OffsetCommit refused".to_owned() },
            )?;
            let committed = state.committing(offset, -1, "");
            state.store_commits(group, vec![((topic.to_owned(), partition), committed)]);
            Ok(())
        })
    }

    /// Commits like a simple client that names a leader epoch, which brokers take as it comes.
    pub fn commit_offset_in_epoch(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        (offset, leader_epoch): (i64, i32),
    ) {
        self.with(|state| {
            let committed = state.committing(offset, leader_epoch, "");
            state.store_commits(group, vec![((topic.to_owned(), partition), committed)]);
        });
    }

    /// Commits whatever the group's state, as its own members would.
    pub fn commit_offset_as_member(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        offset: i64,
        metadata: &str,
    ) {
        self.with(|state| {
            let committed = state.committing(offset, -1, metadata);
            state.store_commits(group, vec![((topic.to_owned(), partition), committed)]);
        });
    }

    /// What a group committed.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        self.with(|state| {
            let key = (topic.to_owned(), partition);
            state.groups.get(group)?.offsets.get(&key).map(|committed| committed.offset)
        })
    }

    /// The metadata of what a group committed.
    pub fn committed_metadata(&self, group: &str, topic: &str, partition: i32) -> Option<String> {
        self.with(|state| {
            let key = (topic.to_owned(), partition);
            state.groups.get(group)?.offsets.get(&key).map(|committed| committed.metadata.clone())
        })
    }

    /// Makes a group of a kind, or changes it: with a live member every commit from outside is
    /// refused.
    pub fn set_group(&self, group: &str, kind: GroupKind, live: bool) {
        self.with(|state| {
            let now_ms = state.now_ms();
            let found = state.group_of(group, kind);
            found.kind = kind;
            found.silent_member = live;
            kind.word().clone_into(&mut found.protocol_type);
            if kind == GroupKind::Classic {
                "consumer".clone_into(&mut found.protocol_type);
            }
            found.empty_since_ms = (!live).then_some(now_ms);
            state.changed = true;
        });
    }

    /// Sets where a share group's unread records begin, as its members do by acknowledging.
    pub fn set_share_start(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        self.with(|state| state.start_share(group, topic, partition, offset));
    }

    /// Where a share group's unread records begin.
    pub fn share_start(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        self.with(|state| {
            let key = (topic.to_owned(), partition);
            state.groups.get(group)?.share_starts.get(&key).copied()
        })
    }

    /// Makes a group of members that speak this protocol, such as `connect`, live.
    pub fn set_members_of(&self, group: &str, protocol_type: &str) {
        self.set_group(group, GroupKind::Classic, true);
        self.with(|state| {
            let found = state.group_of(group, GroupKind::Classic);
            protocol_type.clone_into(&mut found.protocol_type);
            state.changed = true;
        });
    }

    /// Deletes a group and what it committed. `false` when there is none.
    pub fn delete_group(&self, group: &str) -> bool {
        self.with(|state| state.remove_group(group))
    }

    /// The names of all groups.
    pub fn groups(&self) -> Vec<String> {
        self.with(|state| state.groups.keys().cloned().collect())
    }
}

/// Faults and what was seen.
impl EmbeddedCluster {
    /// Plans a fault.
    pub fn fault(&self, fault: Fault) -> FaultId {
        self.with(|state| state.faults.plan(fault))
    }

    /// Removes a planned fault. `false` when it is used up.
    pub fn remove_fault(&self, id: FaultId) -> bool {
        self.with(|state| state.faults.remove(id))
    }

    /// Removes all planned faults.
    pub fn clear_faults(&self) {
        self.with(|state| state.faults.clear());
    }

    /// How many planned faults are not used up.
    pub fn pending_faults(&self) -> usize {
        self.with(|state| state.faults.pending())
    }

    /// The latest requests, oldest first.
    pub fn requests(&self) -> Vec<RequestLogEntry> {
        self.with(|state| state.journal.requests.iter().cloned().collect())
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.with(|state| state.journal.requests.clear());
    }

    /// What clients did that Kafka lets pass in silence although it destroys records. A test of a
    /// correct client finds none.
    pub fn violations(&self) -> Vec<String> {
        self.with(|state| state.journal.violations.clone())
    }
}
