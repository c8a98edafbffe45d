//! Brokers that die, stop, come back, and leaders that move because of it.

use tracing::debug;

use crate::configs;
use crate::state::{State, Status, Timer};

impl State {
    /// The names of all topics with their partition counts.
    fn everything(&self) -> Vec<(String, i32)> {
        self.topics
            .iter()
            .flat_map(|(name, topic)| {
                (0..topic.partitions.len() as i32).map(move |index| (name.clone(), index))
            })
            .collect()
    }

    /// Replicates whatever can be.
    pub(crate) fn replicate_all(&mut self) {
        for (topic, partition) in self.everything() {
            self.replicate(&topic, partition);
        }
    }

    /// Stops a broker at once: its connections are cut and new ones refused. The controller
    /// notices after the session timeout.
    pub(crate) fn kill(&mut self, id: i32) {
        let after = self.options.broker_session_timeout;
        let Some(broker) = self.brokers.get_mut(&id) else { return };
        if broker.status == Status::Down {
            return;
        }
        broker.status = Status::Down;
        broker.stale = false;
        broker.sessions.clear();
        broker.life += 1;
        broker.death.notify_waiters();
        broker.spell += 1;
        let spell = broker.spell;
        self.timers.push((after, Timer::Fence { broker: id, spell }));
        self.changed = true;
    }

    /// Starts a dead broker: of each producer it remembers the newest batch, and nothing of those
    /// whose records are too old.
    pub(crate) fn restart(&mut self, id: i32) {
        let Some(broker) = self.brokers.get(&id) else { return };
        if broker.status == Status::Up {
            return;
        }
        if broker.status == Status::Paused {
            self.kill(id);
        }
        if self.brokers.get(&id).is_some_and(|broker| !broker.fenced) {
            self.fence(id);
        }
        let (now_ms, age) = (self.now_ms(), self.options.producer_expiration.as_millis() as i64);
        for partition in self.topics.values_mut().flat_map(|topic| &mut topic.partitions) {
            if let Some(replica) = partition.replica_mut(id) {
                replica.log.restart();
                replica.log.producers.expire(now_ms, age);
            }
        }
        if let Some(broker) = self.brokers.get_mut(&id) {
            broker.status = Status::Up;
        }
        self.unfence(id);
    }

    /// Stops a broker as SIGSTOP does.
    pub(crate) fn pause(&mut self, id: i32) {
        let after = self.options.broker_session_timeout;
        let Some(broker) = self.brokers.get_mut(&id).filter(|broker| broker.status == Status::Up)
        else {
            return;
        };
        broker.status = Status::Paused;
        broker.spell += 1;
        let spell = broker.spell;
        self.timers.push((after, Timer::Fence { broker: id, spell }));
        self.changed = true;
    }

    /// Lets a stopped broker go on. If it slept through a move, it acts on its old belief first.
    pub(crate) fn resume(&mut self, id: i32) {
        let after = self.options.stale_for;
        let behind = self.topics.values().flat_map(|topic| &topic.partitions).any(|partition| {
            partition.replica(id).is_some_and(|replica| replica.epoch != partition.epoch)
        });
        let Some(broker) =
            self.brokers.get_mut(&id).filter(|broker| broker.status == Status::Paused)
        else {
            return;
        };
        broker.status = Status::Up;
        broker.spell += 1;
        let spell = broker.spell;
        if broker.fenced || behind {
            broker.stale = true;
            self.timers.push((after, Timer::CatchUp { broker: id, spell }));
        } else {
            self.replicate_all();
        }
        self.changed = true;
    }

    /// The controller gives a broker up: it leaves the in-sync replicas, its leaderships move.
    pub(crate) fn fence(&mut self, id: i32) {
        debug!(broker = id, "fenced");
        if let Some(broker) = self.brokers.get_mut(&id) {
            broker.fenced = true;
        }
        let awake = self.awake();
        for (topic, index) in self.everything() {
            let unclean = self.allows_unclean(&topic);
            let Some(partition) = self.partition_mut(&topic, index) else { continue };
            if partition.replica(id).is_none() {
                continue;
            }
            let led = partition.leader == Some(id);
            if led {
                let able: Vec<i32> = partition
                    .replicas
                    .iter()
                    .map(|replica| replica.broker)
                    .filter(|broker| *broker != id && awake.contains(broker))
                    .collect();
                let clean = able.iter().copied().find(|broker| partition.in_sync.contains(broker));
                if let Some(next) = clean {
                    partition.shrink(id);
                    self.elect(&topic, index, next);
                } else if let Some(&next) = able.first().filter(|_| unclean) {
                    partition.in_sync = vec![next];
                    self.elect(&topic, index, next);
                } else {
                    partition.orphan(&awake);
                }
            } else {
                partition.shrink(id);
            }
            self.replicate(&topic, index);
        }
        self.move_coordinators(id);
        self.changed = true;
    }

    /// The controller takes a broker back: it learns who leads, and leads where nobody else could.
    pub(crate) fn unfence(&mut self, id: i32) {
        debug!(broker = id, "back");
        if let Some(broker) = self.brokers.get_mut(&id) {
            broker.fenced = false;
            broker.stale = false;
        }
        for (topic, index) in self.everything() {
            let unclean = self.allows_unclean(&topic);
            let Some(partition) = self.partition_mut(&topic, index) else { continue };
            if partition.replica(id).is_none() {
                continue;
            }
            if partition.leader.is_none() {
                if partition.in_sync.contains(&id) {
                    self.elect(&topic, index, id);
                } else if unclean {
                    partition.in_sync = vec![id];
                    self.elect(&topic, index, id);
                }
            }
            if let Some(partition) = self.partition_mut(&topic, index) {
                partition.learn(id);
            }
            self.replicate(&topic, index);
        }
        let orphaned: Vec<i32> = self
            .group_coordinators
            .iter()
            .chain(&self.transaction_coordinators)
            .map(|slot| slot.broker)
            .filter(|broker| self.brokers.get(broker).is_none_or(|known| known.fenced))
            .collect();
        for broker in orphaned {
            self.move_coordinators(broker);
        }
        self.changed = true;
    }

    fn allows_unclean(&self, topic: &str) -> bool {
        self.topics.get(topic).is_some_and(|topic| {
            configs::value(&topic.configs, &self.options, "unclean.leader.election.enable")
                == "true"
        })
    }

    /// Moves the leadership of one partition. `false` when `to` cannot lead: not a replica, not in
    /// sync, or not awake.
    pub(crate) fn move_leader(&mut self, topic: &str, index: i32, to: i32) -> bool {
        let awake = self.awake();
        let Some(partition) = self.partition(topic, index) else { return false };
        if !partition.in_sync.contains(&to) || !awake.contains(&to) {
            return false;
        }
        self.elect(topic, index, to);
        self.replicate(topic, index);
        true
    }

    fn elect(&mut self, topic: &str, index: i32, broker: i32) {
        let (awake, after) = (self.awake(), self.options.leader_settles_in);
        let Some(id) = self.topics.get(topic).map(|topic| topic.id) else { return };
        let Some(partition) = self.partition_mut(topic, index) else { return };
        partition.elect(broker, &awake);
        debug!(topic, partition = index, leader = broker, epoch = partition.epoch, "elected");
        if after.is_zero() {
            partition.settling = false;
        }
        if partition.settling {
            let epoch = partition.epoch;
            self.timers
                .push((after, Timer::Settle { topic: id, partition: index as usize, epoch }));
        }
        self.changed = true;
    }

    /// A new leader that lacks everything at and above `offset`, as after an unclean election. All
    /// replicas lose it.
    pub(crate) fn lose_tail(&mut self, topic: &str, index: i32, offset: i64) -> bool {
        let Some(partition) = self.partition_mut(topic, index) else { return false };
        let Some(leader) = partition.leader else { return false };
        for replica in &mut partition.replicas {
            replica.log.truncate(offset);
            replica.high_watermark = replica.high_watermark.min(replica.log.end());
        }
        self.elect(topic, index, leader);
        if let Some(partition) = self.partition_mut(topic, index) {
            partition.settling = false;
        }
        self.replicate(topic, index);
        true
    }
}
