//! Everything the cluster knows, under one lock, and the timers that change it.
//!
//! Nothing here waits. Whoever changes something that a waiting request may be interested in sets
//! `changed`; whoever wants something to happen later pushes a [`Timer`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::debug;

use crate::code::{INVALID_REPLICATION_FACTOR, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION};
use crate::configs;
use crate::faults::{Faults, Journal};
use crate::groups::Group;
use crate::memory::Memory;
use crate::options::{EmbeddedOptions, KafkaVersion};
use crate::partition::Partition;
use crate::quotas::Quotas;
use crate::random::Random;
use crate::rights::Acls;
use crate::sessions::Sessions;
use crate::transactions::Transaction;

/// How long a follower may not know of a moved high watermark.
const FOLLOWER_BEHIND: Duration = Duration::from_millis(50);
/// Slots of `__consumer_offsets` and `__transaction_state`.
pub(crate) const COORDINATOR_SLOTS: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Up,
    /// Alive, and stopped (SIGSTOP): connections stay and nobody reads them.
    Paused,
    Down,
}

#[derive(Debug)]
pub(crate) struct Broker {
    pub host: String,
    pub port: u16,
    pub rack: Option<String>,
    pub status: Status,
    /// The controller has taken its leaderships away.
    pub fenced: bool,
    /// It acts on what it knew before it slept.
    pub stale: bool,
    /// Connections of an earlier life are dead.
    pub life: u64,
    /// Told when a life ends.
    pub death: Arc<Notify>,
    /// Which of its sleeps, deaths and awakenings this is: timers of an earlier one are void.
    pub spell: u64,
    pub sessions: Sessions,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub id: [u8; 16],
    pub partitions: Vec<Partition>,
    pub configs: BTreeMap<String, String>,
}

/// Who coordinates the groups or transactional ids of one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coordinator {
    pub broker: i32,
    pub loading_until: Instant,
    pub stale_until: Instant,
}

/// Something that happens later.
#[derive(Clone, Debug)]
pub(crate) enum Timer {
    Fence { broker: i32, spell: u64 },
    CatchUp { broker: i32, spell: u64 },
    Settle { topic: [u8; 16], partition: usize, epoch: i32 },
    Markers { transactional_id: String },
    TransactionTimeout { transactional_id: String, number: u64 },
    Rebalance { group: String, number: u64 },
    Session { group: String, member: String, number: u64 },
    Revocation { group: String, member: String, number: u64 },
}

pub(crate) struct State {
    pub options: EmbeddedOptions,
    pub started: Instant,
    pub random: Random,
    pub brokers: BTreeMap<i32, Broker>,
    pub topics: BTreeMap<String, Topic>,
    /// The names of all topics by their ids.
    names: BTreeMap<[u8; 16], String>,
    pub groups: BTreeMap<String, Group>,
    pub group_coordinators: Vec<Coordinator>,
    pub transactions: BTreeMap<String, Transaction>,
    pub transaction_coordinators: Vec<Coordinator>,
    pub faults: Faults,
    pub journal: Journal,
    pub memory: Memory,
    pub acls: Acls,
    pub quotas: Quotas,
    /// What is set for single brokers.
    pub broker_settings: BTreeMap<i32, BTreeMap<String, String>>,
    pub next_producer_id: i64,
    pub next_number: u64,
    pub timers: Vec<(Duration, Timer)>,
    pub changed: bool,
    next_producer_check: Instant,
    next_offsets_check: Instant,
    next_retention_check: Instant,
    next_cleaner_check: Instant,
}

impl State {
    pub(crate) fn new(mut options: EmbeddedOptions) -> Self {
        if options.version == KafkaVersion::V4_3 {
            // With eligible leader replicas the controller sets it for all brokers by itself.
            let least = options.min_insync_replicas.to_string();
            options.cluster_settings.entry("min.insync.replicas".to_owned()).or_insert(least);
        }
        let now = Instant::now();
        let brokers: BTreeMap<i32, Broker> = (1..=options.brokers)
            .map(|id| {
                let broker = Broker {
                    host: format!("{}-{id}", options.name),
                    port: options.port,
                    rack: Some(format!("rack-{id}")),
                    status: Status::Up,
                    fenced: false,
                    stale: false,
                    life: 0,
                    death: Arc::new(Notify::new()),
                    spell: 0,
                    sessions: Sessions::new(options.fetch_sessions_max),
                };
                (id, broker)
            })
            .collect();
        let coordinators = |shift: usize| {
            (0..COORDINATOR_SLOTS)
                .map(|slot| Coordinator {
                    broker: 1 + ((slot + shift) % options.brokers.max(1) as usize) as i32,
                    loading_until: now,
                    stale_until: now,
                })
                .collect()
        };
        Self {
            started: now,
            random: Random::new(options.seed),
            brokers,
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            groups: BTreeMap::new(),
            group_coordinators: coordinators(0),
            transactions: BTreeMap::new(),
            transaction_coordinators: coordinators(1),
            faults: Faults::default(),
            journal: Journal::default(),
            memory: Memory::default(),
            acls: Acls::default(),
            quotas: Quotas::default(),
            broker_settings: BTreeMap::new(),
            next_producer_id: 1000,
            next_number: 0,
            timers: Vec::new(),
            changed: false,
            next_producer_check: now + options.producer_expiration_check,
            next_offsets_check: now + options.offsets_retention_check,
            next_retention_check: now,
            next_cleaner_check: now,
            options,
        }
    }

    /// The wall clock.
    pub(crate) fn now_ms(&self) -> i64 {
        self.options.epoch_ms + self.started.elapsed().as_millis() as i64
    }

    /// A number that no other caller got.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Notes something that Kafka lets pass in silence and that destroys records.
    pub(crate) fn violation(&mut self, what: String) {
        debug!(violation = what);
        self.journal.violations.push(what);
    }

    /// Runs the periodic checks that are due.
    pub(crate) fn tick(&mut self) {
        let now = Instant::now();
        if now >= self.next_producer_check {
            self.next_producer_check = now + self.options.producer_expiration_check;
            let (now_ms, age) =
                (self.now_ms(), self.options.producer_expiration.as_millis() as i64);
            for replica in self
                .topics
                .values_mut()
                .flat_map(|topic| &mut topic.partitions)
                .flat_map(|p| &mut p.replicas)
            {
                replica.log.producers.expire(now_ms, age);
            }
        }
        if now >= self.next_offsets_check {
            self.next_offsets_check = now + self.options.offsets_retention_check;
            self.expire_offsets();
        }
        if let Some(every) = self.options.retention_check
            && now >= self.next_retention_check
        {
            self.next_retention_check = now + every;
            self.retain_all();
        }
        if let Some(every) = self.options.cleaner_check
            && now >= self.next_cleaner_check
        {
            self.next_cleaner_check = now + every;
            self.clean_all();
        }
        self.bound_memory(now);
    }

    /// Does what was put off.
    pub(crate) fn fire(&mut self, timer: Timer) {
        debug!(?timer);
        match timer {
            Timer::Fence { broker, spell } => {
                let due = self.brokers.get(&broker).is_some_and(|known| {
                    known.spell == spell && known.status != Status::Up && !known.fenced
                });
                if due {
                    self.fence(broker);
                }
            }
            Timer::CatchUp { broker, spell } => {
                let due = self.brokers.get(&broker).is_some_and(|known| {
                    known.spell == spell && known.status == Status::Up && known.stale
                });
                if due {
                    self.unfence(broker);
                }
            }
            Timer::Settle { topic, partition, epoch } => {
                let Some(name) = self.name_of(topic).map(str::to_owned) else { return };
                let found = self
                    .topics
                    .get_mut(&name)
                    .and_then(|topic| topic.partitions.get_mut(partition));
                if let Some(found) = found.filter(|found| found.epoch == epoch) {
                    found.settling = false;
                    self.replicate(&name, partition as i32);
                }
            }
            Timer::Markers { transactional_id } => self.write_markers(&transactional_id),
            Timer::TransactionTimeout { transactional_id, number } => {
                self.transaction_timeout(&transactional_id, number);
            }
            Timer::Rebalance { group, number } => self.rebalance_due(&group, number),
            Timer::Session { group, member, number } => self.session_due(&group, &member, number),
            Timer::Revocation { group, member, number } => {
                self.revocation_due(&group, &member, number);
            }
        }
    }

    /// Brokers that follow what happens.
    pub(crate) fn awake(&self) -> BTreeSet<i32> {
        self.brokers
            .iter()
            .filter(|(_, broker)| broker.status == Status::Up && !broker.stale)
            .map(|(&id, _)| id)
            .collect()
    }

    pub(crate) fn name_of(&self, id: [u8; 16]) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// The topic that a request means: by id where it carries one, else by name.
    pub(crate) fn resolve(&self, name: &str, id: [u8; 16]) -> Result<String, i16> {
        if id != [0; 16] {
            return self.name_of(id).map(str::to_owned).ok_or(UNKNOWN_TOPIC_ID);
        }
        if self.topics.contains_key(name) {
            Ok(name.to_owned())
        } else {
            Err(UNKNOWN_TOPIC_OR_PARTITION)
        }
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partitions.get(usize::try_from(partition).ok()?)
    }

    pub(crate) fn partition_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.partitions.get_mut(usize::try_from(partition).ok()?)
    }

    /// `min.insync.replicas` of a topic, no more than it has replicas.
    pub(crate) fn min_in_sync(&self, topic: &str) -> usize {
        let Some(found) = self.topics.get(topic) else { return 1 };
        let wanted = configs::number_of(&found.configs, &self.options, "min.insync.replicas").max(1)
            as usize;
        let replicas = found.partitions.first().map_or(1, |partition| partition.replicas.len());
        wanted.min(replicas)
    }

    /// Followers copy, the high watermark follows, and whoever waits looks again.
    pub(crate) fn replicate(&mut self, topic: &str, partition: i32) {
        let (awake, min_in_sync) = (self.awake(), self.min_in_sync(topic));
        let Some(found) = self.partition_mut(topic, partition) else { return };
        let before = found.authority().high_watermark;
        found.replicate(&awake, min_in_sync);
        if found.authority().high_watermark != before {
            found.moved_at = Some(Instant::now());
        }
        self.changed = true;
    }

    /// The high watermark that the replica at `broker` answers with.
    pub(crate) fn high_watermark(&self, partition: &Partition, broker: i32) -> i64 {
        let Some(replica) = partition.replica(broker) else { return 0 };
        let informed = !replica.leads()
            && replica.epoch == partition.epoch
            && !partition.held
            && self.brokers.get(&broker).is_some_and(|known| !known.stale)
            && partition.moved_at.is_none_or(|moved_at| moved_at.elapsed() >= FOLLOWER_BEHIND);
        if informed {
            partition.authority().high_watermark.min(replica.log.end()).max(replica.high_watermark)
        } else {
            replica.high_watermark
        }
    }

    /// How many replicas are meant, and the brokers that can hold them, if those are enough.
    pub(crate) fn check_replication(
        &self,
        replication: i16,
    ) -> Result<(usize, Vec<i32>), (i16, String)> {
        let replication =
            if replication == -1 { self.options.default_replication } else { replication };
        let known: Vec<i32> =
            self.brokers.iter().filter(|(_, broker)| !broker.fenced).map(|(&id, _)| id).collect();
        if replication < 1 || replication as usize > known.len() {
            let cordoned = match self.options.version {
                KafkaVersion::V3_9 => "",
                KafkaVersion::V4_3 => " or some brokers have all their log directories cordoned",
            };
            return Err((
                INVALID_REPLICATION_FACTOR,
                format!(
                    "Unable to replicate the partition {replication} time(s): The target replication factor of {replication} cannot be reached because only {} broker(s) are registered{cordoned}.",
                    known.len()
                ),
            ));
        }
        Ok((replication as usize, known))
    }

    /// Makes a topic. Replicas are spread over the brokers, starting with the least loaded number.
    pub(crate) fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        replication: i16,
        configs: BTreeMap<String, String>,
    ) -> Result<[u8; 16], (i16, String)> {
        let (replication, known) = self.check_replication(replication)?;
        let id = self.random.id();
        let first = self.topics.len();
        let partitions = (0..partitions as usize)
            .map(|index| Partition::new(&placed(&known, first + index, replication)))
            .collect();
        self.topics.insert(name.to_owned(), Topic { id, partitions, configs });
        self.names.insert(id, name.to_owned());
        self.changed = true;
        Ok(id)
    }

    /// Adds partitions to a topic.
    pub(crate) fn grow_topic(&mut self, name: &str, count: usize) {
        let known: Vec<i32> =
            self.brokers.iter().filter(|(_, broker)| !broker.fenced).map(|(&id, _)| id).collect();
        if known.is_empty() {
            return; // nobody is there to hold them
        }
        let Some(topic) = self.topics.get_mut(name) else { return };
        let replication = topic.partitions.first().map_or(1, |partition| partition.replicas.len());
        while topic.partitions.len() < count {
            let brokers = placed(&known, topic.partitions.len(), replication.min(known.len()));
            topic.partitions.push(Partition::new(&brokers));
        }
        self.changed = true;
    }

    /// Deletes a topic, and with it everything that groups committed for it.
    pub(crate) fn delete_topic(&mut self, name: &str) -> bool {
        let removed = self.topics.remove(name);
        if let Some(removed) = &removed {
            self.names.remove(&removed.id);
        }
        let groups: Vec<String> = self.groups.keys().cloned().collect();
        for group in groups {
            self.remove_offsets(&group, |topic, _, _| topic == name);
            if let Some(group) = self.groups.get_mut(&group) {
                group.forget_topic(name);
            }
        }
        for transaction in self.transactions.values_mut() {
            transaction.forget_topic(name);
        }
        self.changed = true;
        removed.is_some()
    }

    /// Takes and passes on coordinator slots of a broker that is gone.
    pub(crate) fn move_coordinators(&mut self, from: i32) {
        let awake: Vec<i32> = self.awake().into_iter().filter(|&broker| broker != from).collect();
        if awake.is_empty() {
            return;
        }
        let now = Instant::now();
        let loading_until = now + self.options.coordinator_loads_in;
        let stale_until = loading_until + self.options.coordinator_stale_for;
        let slots = self.group_coordinators.iter_mut().chain(&mut self.transaction_coordinators);
        for (index, slot) in slots.enumerate().filter(|(_, slot)| slot.broker == from) {
            *slot = Coordinator { broker: awake[index % awake.len()], loading_until, stale_until };
        }
    }

    pub(crate) fn group_coordinator(&self, group: &str) -> Coordinator {
        self.group_coordinators[slot(group)]
    }

    pub(crate) fn transaction_coordinator(&self, transactional_id: &str) -> Coordinator {
        self.transaction_coordinators[slot(transactional_id)]
    }
}

fn placed(brokers: &[i32], first: usize, count: usize) -> Vec<i32> {
    (0..count).map(|index| brokers[(first + index) % brokers.len()]).collect()
}

/// The partition of `__consumer_offsets` that a name belongs to: Java's `String.hashCode`.
pub(crate) fn slot(name: &str) -> usize {
    let hash = name
        .encode_utf16()
        .fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    (hash & 0x7fff_ffff) as usize % COORDINATOR_SLOTS
}
