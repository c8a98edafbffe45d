//! One partition with its replicas: who leads, who is in sync, how far the high watermark is.
//!
//! Every replica has a log of its own and its own belief about who leads in which epoch. A broker
//! that sleeps through a move keeps its belief until it catches up, and acts on it. Replication is
//! immediate unless it is held. Does not know requests or topic names.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::log::Log;

/// One replica.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub broker: i32,
    pub log: Log,
    pub high_watermark: i64,
    /// Whom this replica believes to lead.
    pub leader: Option<i32>,
    /// In which epoch.
    pub epoch: i32,
}

impl Replica {
    pub(crate) fn leads(&self) -> bool {
        self.leader == Some(self.broker)
    }

    pub(crate) fn last_stable(&self) -> i64 {
        self.log.last_stable(self.high_watermark)
    }
}

/// One partition as the controller knows it, and its replicas.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub replicas: Vec<Replica>,
    pub leader: Option<i32>,
    pub epoch: i32,
    pub in_sync: Vec<i32>,
    /// Replication stands still: the high watermark stays behind the log end.
    pub held: bool,
    /// The leader is new, and its high watermark does not move yet.
    pub settling: bool,
    /// When the high watermark last moved: followers learn of it a moment later.
    pub moved_at: Option<Instant>,
}

impl Partition {
    pub(crate) fn new(brokers: &[i32]) -> Self {
        let leader = brokers.first().copied();
        let replicas = brokers
            .iter()
            .map(|&broker| {
                let mut log = Log::default();
                if Some(broker) == leader {
                    log.begin_epoch(0);
                }
                Replica { broker, log, high_watermark: 0, leader, epoch: 0 }
            })
            .collect();
        Self {
            replicas,
            leader,
            epoch: 0,
            in_sync: brokers.to_vec(),
            held: false,
            settling: false,
            moved_at: None,
        }
    }

    pub(crate) fn replica(&self, broker: i32) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.broker == broker)
    }

    pub(crate) fn replica_mut(&mut self, broker: i32) -> Option<&mut Replica> {
        self.replicas.iter_mut().find(|replica| replica.broker == broker)
    }

    /// The leader's replica, or the first one while nobody leads: what an observer of the whole
    /// cluster looks at.
    pub(crate) fn authority(&self) -> &Replica {
        self.leader.and_then(|leader| self.replica(leader)).unwrap_or(&self.replicas[0])
    }

    pub(crate) fn authority_mut(&mut self) -> &mut Replica {
        let index = self
            .replicas
            .iter()
            .position(|replica| Some(replica.broker) == self.leader)
            .unwrap_or(0);
        &mut self.replicas[index]
    }

    /// Followers that are `awake` copy what the leader has, and the high watermark follows.
    pub(crate) fn replicate(&mut self, awake: &BTreeSet<i32>, min_in_sync: usize) {
        let Some(leader) = self.leader.filter(|leader| awake.contains(leader)) else { return };
        if self.held {
            return;
        }
        let Some(at) = self.replicas.iter().position(|replica| replica.broker == leader) else {
            return;
        };
        let source = std::mem::take(&mut self.replicas[at].log);
        let known = self.replicas[at].high_watermark;
        for (index, replica) in self.replicas.iter_mut().enumerate() {
            if index == at || !awake.contains(&replica.broker) || replica.epoch != self.epoch {
                continue;
            }
            follow(&mut replica.log, &source);
            // A follower learns of the high watermark with its next fetch, so it knows an older one.
            replica.high_watermark = known.min(replica.log.end());
            if replica.log.end() == source.end() && !self.in_sync.contains(&replica.broker) {
                self.in_sync.push(replica.broker);
            }
        }
        self.replicas[at].log = source;
        if self.settling || self.in_sync.len() < min_in_sync.min(self.replicas.len()) {
            return;
        }
        let replicated = self
            .replicas
            .iter()
            .filter(|replica| self.in_sync.contains(&replica.broker))
            .map(|replica| replica.log.end())
            .min()
            .unwrap_or(known);
        if let Some(replica) = self.replica_mut(leader) {
            replica.high_watermark = replica.high_watermark.max(replicated);
        }
    }

    /// Makes `broker` the leader in a new epoch. Replicas that are `awake` learn of it at once and
    /// cut their logs to what they share with the new leader.
    pub(crate) fn elect(&mut self, broker: i32, awake: &BTreeSet<i32>) {
        self.epoch += 1;
        self.leader = Some(broker);
        self.settling = self.replicas.len() > 1;
        let epoch = self.epoch;
        if let Some(replica) = self.replica_mut(broker) {
            replica.log.begin_epoch(epoch);
            replica.high_watermark = replica.high_watermark.min(replica.log.end());
        }
        for follower in awake {
            self.learn(*follower);
        }
    }

    /// Takes the leadership away: nobody can lead.
    pub(crate) fn orphan(&mut self, awake: &BTreeSet<i32>) {
        self.epoch += 1;
        self.leader = None;
        for replica in awake {
            self.learn(*replica);
        }
    }

    /// The replica at `broker` learns who leads, and drops what the leader does not have.
    pub(crate) fn learn(&mut self, broker: i32) {
        let (leader, epoch) = (self.leader, self.epoch);
        let shared = match (leader.and_then(|leader| self.replica(leader)), self.replica(broker)) {
            (Some(source), Some(replica)) if source.broker != broker => {
                Some(shared_end(&replica.log, &source.log))
            }
            _ => None,
        };
        let Some(replica) = self.replica_mut(broker) else { return };
        replica.leader = leader;
        replica.epoch = epoch;
        if let Some(shared) = shared {
            replica.log.truncate(shared);
            replica.high_watermark = replica.high_watermark.min(replica.log.end());
        }
    }

    /// Takes `broker` out of the in-sync replicas unless it is the last one.
    pub(crate) fn shrink(&mut self, broker: i32) {
        if self.in_sync.len() > 1 {
            self.in_sync.retain(|&member| member != broker);
        }
    }
}

/// Where two logs part.
fn shared_end(log: &Log, other: &Log) -> i64 {
    let same = |stored: &crate::log::Stored| {
        let theirs = other.batches();
        let at = theirs.partition_point(|their| their.next_offset() <= stored.head.base_offset);
        theirs.get(at).is_some_and(|their| {
            their.head.base_offset == stored.head.base_offset
                && their.head.leader_epoch == stored.head.leader_epoch
                && their.head.last_offset_delta == stored.head.last_offset_delta
        })
    };
    let shared = log.batches().iter().rev().find(|stored| same(stored));
    match shared {
        Some(stored) => stored.next_offset(),
        None => other.start().max(log.start()).min(log.end()),
    }
}

/// Copies what `log` lacks of `source`.
fn follow(log: &mut Log, source: &Log) {
    if log.end() < source.start() || log.end() > source.end() {
        *log = source.clone();
        return;
    }
    if log.end() < source.end() {
        let from = source.batches().partition_point(|stored| stored.next_offset() <= log.end());
        for stored in &source.batches()[from..] {
            log.take_stored(stored.clone());
        }
        if log.end() < source.end() {
            // The tail was compacted away: only the offset is left of it.
            *log = source.clone();
        }
    }
    log.delete_below(source.start());
}
