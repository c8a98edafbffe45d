//! What a test does to the cluster without speaking the protocol: topics, records, brokers, faults.

use std::collections::BTreeMap;

use bytes::Bytes;
use twinlog_types::TopicId;

use crate::cluster::EmbeddedCluster;
use crate::codec::{self, Compression, Frame, Head, RawRecord};
use crate::configs;
use crate::faults::{Fault, FaultId, RequestLogEntry};
use crate::partition::Partition;
use crate::producer_state::Verdict;
use crate::state::State;
use crate::validate;

/// Which records a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Everything below the high watermark.
    ReadUncommitted,
    /// Everything below the last stable offset that was not aborted.
    ReadCommitted,
}

/// Which protocol a group speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// JoinGroup and SyncGroup.
    Classic,
    /// KIP-848.
    Consumer,
    /// KIP-932.
    Share,
    /// KIP-1071.
    Streams,
}

impl GroupKind {
    /// Kafka's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
            Self::Streams => "streams",
        }
    }
}

/// Key and value of a header.
pub type Header = (Bytes, Option<Bytes>);

/// A record to be written. Without a timestamp it gets the cluster's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// The key.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers, in order, duplicates included.
    pub headers: Vec<Header>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
}

impl NewRecord {
    /// A record with key and value.
    pub fn new(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        Self {
            key: Some(Bytes::copy_from_slice(key.as_ref())),
            value: Some(Bytes::copy_from_slice(value.as_ref())),
            ..Self::default()
        }
    }

    /// With this timestamp.
    pub fn at(mut self, timestamp: i64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// With one more header.
    pub fn header(mut self, key: &str, value: Option<&str>) -> Self {
        let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
        self.headers.push((Bytes::copy_from_slice(key.as_bytes()), value));
        self
    }
}

/// Who wrote a record, from the head of its batch; and what a broker remembers of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerOf {
    /// The producer id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The sequence of this record, or of the last one.
    pub sequence: i32,
}

/// A record as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it lies.
    pub offset: i64,
    /// The record's own timestamp, or the append time where the topic has it.
    pub timestamp: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Vec<Header>,
    /// Who wrote it; `None` without a producer id.
    pub producer: Option<ProducerOf>,
    /// The leader epoch it was written in.
    pub leader_epoch: i32,
}

/// A transaction of a producer that a test plays.
#[derive(Clone, Debug)]
pub struct SourceTransaction {
    producer_id: i64,
    epoch: i16,
    sequences: BTreeMap<(String, i32), i32>,
}

impl SourceTransaction {
    /// The producer id that its batches carry.
    pub fn producer_id(&self) -> i64 {
        self.producer_id
    }
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// No such topic or partition.
    #[error("no partition {1} of topic {0}")]
    NoPartition(String, i32),
    /// Nobody leads the partition.
    #[error("partition {1} of topic {0} has no leader")]
    NoLeader(String, i32),
    /// The cluster refuses, with Kafka's code.
    #[error("refused with {code}: {message}")]
    Refused {
        /// Kafka's error code.
        code: i16,
        /// What is wrong.
        message: String,
    },
}

type Result<T, E = AdminError> = std::result::Result<T, E>;

fn missing(topic: &str, partition: i32) -> AdminError {
    AdminError::NoPartition(topic.to_owned(), partition)
}

/// Topics and their logs.
impl EmbeddedCluster {
    /// Makes a topic with the cluster's default replication.
    pub fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<TopicId> {
        self.create_replicated_topic(name, partitions, -1, configs)
    }

    /// Makes a topic with `replication` replicas (-1: the default).
    pub fn create_replicated_topic(
        &self,
        name: &str,
        partitions: i32,
        replication: i16,
        configs: &[(&str, &str)],
    ) -> Result<TopicId> {
        let configs: Vec<(String, Option<String>)> = configs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())))
            .collect();
        self.with(|state| {
            state
                .make_topic(name, partitions, replication, &configs, false)
                .map(TopicId)
                .map_err(|(code, message)| AdminError::Refused { code, message })
        })
    }

    /// Deletes a topic and everything that groups committed for it. `false` when there is none.
    pub fn delete_topic(&self, name: &str) -> bool {
        self.with(|state| state.delete_topic(name))
    }

    /// Deletes a topic and makes it again, empty, with the same partitions and settings.
    pub fn recreate_topic(&self, name: &str) -> Result<TopicId> {
        self.with(|state| {
            let topic = state.topics.get(name).ok_or_else(|| missing(name, 0))?;
            let (count, configs) = (topic.partitions.len() as i32, topic.configs.clone());
            let replication =
                topic.partitions.first().map_or(1, |partition| partition.replicas.len()) as i16;
            state.delete_topic(name);
            state
                .create_topic(name, count, replication, configs)
                .map(TopicId)
                .map_err(|(code, message)| AdminError::Refused { code, message })
        })
    }

    /// Gives a topic more partitions.
    pub fn add_partitions(&self, name: &str, count: usize) {
        self.with(|state| state.grow_topic(name, count));
    }

    /// The names of all topics.
    pub fn topics(&self) -> Vec<String> {
        self.with(|state| state.topics.keys().cloned().collect())
    }

    /// A topic's id.
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.with(|state| state.topics.get(name).map(|topic| TopicId(topic.id)))
    }

    /// How many partitions a topic has; 0 when there is none.
    pub fn partitions(&self, name: &str) -> usize {
        self.with(|state| state.topics.get(name).map_or(0, |topic| topic.partitions.len()))
    }

    /// What a topic sets, without defaults.
    pub fn topic_configs(&self, name: &str) -> BTreeMap<String, String> {
        self.with(|state| {
            state.topics.get(name).map(|topic| topic.configs.clone()).unwrap_or_default()
        })
    }

    /// Sets a topic's setting, or removes it.
    pub fn alter_config(&self, topic: &str, name: &str, value: Option<&str>) -> Result<()> {
        self.with(|state| {
            let options = state.options.clone();
            let found = state.topics.get_mut(topic).ok_or_else(|| missing(topic, 0))?;
            let operation = i8::from(value.is_none());
            configs::alter(&mut found.configs, &options, name, operation, value)
                .map_err(|(code, message)| AdminError::Refused { code, message })
        })
    }

    fn look<R>(&self, topic: &str, partition: i32, f: impl FnOnce(&Partition) -> R) -> Option<R> {
        self.with(|state| state.partition(topic, partition).map(f))
    }

    /// The leader's log end offset; -1 when there is no such partition.
    pub fn log_end(&self, topic: &str, partition: i32) -> i64 {
        self.look(topic, partition, |found| found.authority().log.end()).unwrap_or(-1)
    }

    /// The leader's high watermark; -1 when there is no such partition.
    pub fn high_watermark(&self, topic: &str, partition: i32) -> i64 {
        self.look(topic, partition, |found| found.authority().high_watermark).unwrap_or(-1)
    }

    /// The leader's log start offset; -1 when there is no such partition.
    pub fn log_start(&self, topic: &str, partition: i32) -> i64 {
        self.look(topic, partition, |found| found.authority().log.start()).unwrap_or(-1)
    }

    /// Leader and leader epoch as the controller knows them.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<(i32, i32)> {
        self.look(topic, partition, |found| found.leader.map(|leader| (leader, found.epoch)))
            .flatten()
    }

    /// The replicas, the preferred leader first.
    pub fn replicas(&self, topic: &str, partition: i32) -> Vec<i32> {
        self.look(topic, partition, |found| {
            found.replicas.iter().map(|replica| replica.broker).collect()
        })
        .unwrap_or_default()
    }

    /// The in-sync replicas.
    pub fn in_sync(&self, topic: &str, partition: i32) -> Vec<i32> {
        self.look(topic, partition, |found| found.in_sync.clone()).unwrap_or_default()
    }

    /// The leader's epochs and where each begins.
    pub fn epochs(&self, topic: &str, partition: i32) -> Vec<(i32, i64)> {
        self.look(topic, partition, |found| found.authority().log.epochs().to_vec())
            .unwrap_or_default()
    }

    /// What the leader remembers of producers.
    pub fn producers(&self, topic: &str, partition: i32) -> Vec<ProducerOf> {
        let producers = self.look(topic, partition, |found| {
            let producers = found.authority().log.producers.iter();
            producers
                .map(|(id, producer)| ProducerOf {
                    id,
                    epoch: producer.epoch,
                    sequence: producer.last_sequence(),
                })
                .collect()
        });
        producers.unwrap_or_default()
    }

    /// The stored batches, control batches included, as the leader has them.
    pub fn batches(&self, topic: &str, partition: i32) -> Vec<Bytes> {
        let batches = self.look(topic, partition, |found| {
            found.authority().log.batches().iter().map(|stored| stored.bytes.clone()).collect()
        });
        batches.unwrap_or_default()
    }

    /// The records that a consumer at the leader would see.
    pub fn records(&self, topic: &str, partition: i32, isolation: Isolation) -> Vec<Record> {
        self.look(topic, partition, |found| visible(found, isolation)).unwrap_or_default()
    }

    /// Moves the log start of all replicas up.
    pub fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        self.with(|state| {
            let found =
                state.partition_mut(topic, partition).ok_or_else(|| missing(topic, partition))?;
            for replica in &mut found.replicas {
                replica.log.delete_below(offset);
            }
            state.changed = true;
            Ok(())
        })
    }

    /// Makes an empty partition begin at `offset`, like one whose older part is gone.
    pub fn begin_at(&self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        self.with(|state| {
            let found =
                state.partition_mut(topic, partition).ok_or_else(|| missing(topic, partition))?;
            for replica in &mut found.replicas {
                replica.log.begin_at(offset);
                replica.high_watermark = offset;
            }
            state.changed = true;
            Ok(())
        })
    }

    /// Appends records as one batch without a producer id, as `acks=1` does. Answers its offset.
    pub fn append(&self, topic: &str, partition: i32, records: &[NewRecord]) -> Result<i64> {
        self.with(|state| {
            let batch = codec::encode(Frame::plain(records.len()), &raw(records, state.now_ms()));
            state.append_checked(topic, partition, &batch)
        })
    }

    /// The same, compressed with `codec` (`none`, `gzip`, `snappy`, `lz4`, `zstd`).
    pub fn append_compressed(
        &self,
        topic: &str,
        partition: i32,
        records: &[NewRecord],
        codec: &str,
    ) -> Result<i64> {
        let refused = || AdminError::Refused { code: 76, message: format!("no codec {codec}") };
        let compression = Compression::from_config(codec).ok_or_else(refused)?;
        self.with(|state| {
            let frame = Frame { compression, ..Frame::plain(records.len()) };
            let batch = codec::encode(frame, &raw(records, state.now_ms()));
            state.append_checked(topic, partition, &batch)
        })
    }

    /// Appends a batch as a producer would send it, with all checks.
    pub fn append_batch(&self, topic: &str, partition: i32, batch: &Bytes) -> Result<i64> {
        self.with(|state| state.append_checked(topic, partition, batch))
    }

    /// Appends a batch of format 2 without any check: base offset and leader epoch are set, all else
    /// stays. For logs that no producer can make today.
    pub fn append_raw(&self, topic: &str, partition: i32, batch: &Bytes) -> Result<i64> {
        self.with(|state| state.append_unchecked(topic, partition, batch))
    }

    /// Compacts a partition: of the committed records in all batches but the last one, only the
    /// newest of each key stays. Offsets stay, so batches get holes and whole batches vanish.
    pub fn compact(&self, topic: &str, partition: i32) -> Result<()> {
        self.with(|state| {
            let found =
                state.partition_mut(topic, partition).ok_or_else(|| missing(topic, partition))?;
            for replica in &mut found.replicas {
                let limit = replica.last_stable();
                crate::compaction::compact(&mut replica.log, limit);
            }
            state.changed = true;
            Ok(())
        })
    }

    /// A producer begins a transaction. Nothing is written yet.
    pub fn begin_transaction(&self) -> SourceTransaction {
        let producer_id = self.with(State::new_producer_id);
        SourceTransaction { producer_id, epoch: 0, sequences: BTreeMap::new() }
    }

    /// Writes records in a transaction, as one batch.
    pub fn append_in(
        &self,
        transaction: &mut SourceTransaction,
        topic: &str,
        partition: i32,
        records: &[NewRecord],
    ) -> Result<i64> {
        let sequence = transaction.sequences.entry((topic.to_owned(), partition)).or_insert(0);
        let mut frame = Frame::plain(records.len()).transactional();
        frame.producer_id = transaction.producer_id;
        frame.producer_epoch = transaction.epoch;
        frame.base_sequence = *sequence;
        *sequence += records.len() as i32;
        self.with(|state| {
            let batch = codec::encode(frame, &raw(records, state.now_ms()));
            state.append_checked(topic, partition, &batch)
        })
    }

    /// Ends a transaction: writes its marker to every partition it wrote to.
    pub fn end_transaction(&self, transaction: SourceTransaction, commit: bool) -> Result<()> {
        self.with(|state| {
            for (topic, partition) in transaction.sequences.keys() {
                let marker = codec::marker(
                    commit,
                    transaction.producer_id,
                    transaction.epoch,
                    0,
                    state.now_ms(),
                );
                state.append_unchecked(topic, *partition, &marker)?;
            }
            Ok(())
        })
    }
}

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
            state.commit(group, -1, "", topic, partition, offset, -1, "").map_err(|code| {
                AdminError::Refused { code, message: "OffsetCommit refused".to_owned() }
            })
        })
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
        self.with(|state| state.store_commit(group, topic, partition, offset, -1, metadata));
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

    /// Deletes a group and what it committed. `false` when there is none.
    pub fn delete_group(&self, group: &str) -> bool {
        self.with(|state| state.groups.remove(group).is_some())
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

impl State {
    fn append_unchecked(&mut self, topic: &str, partition: i32, batch: &Bytes) -> Result<i64> {
        let found =
            self.partition_mut(topic, partition).ok_or_else(|| missing(topic, partition))?;
        let epoch = found.epoch;
        if found.leader.is_none() {
            return Err(AdminError::NoLeader(topic.to_owned(), partition));
        }
        let offset = found.authority_mut().log.append(batch, epoch);
        self.replicate(topic, partition);
        Ok(offset)
    }

    fn append_checked(&mut self, topic: &str, partition: i32, batch: &Bytes) -> Result<i64> {
        let now_ms = self.now_ms();
        let rules =
            self.topics.get(topic).map(|found| configs::rules(&found.configs, &self.options));
        let rules = rules.ok_or_else(|| missing(topic, partition))?;
        let accepted = validate::one_batch(batch, 13)
            .and_then(|batch| validate::batch(&batch, &rules, now_ms))
            .map_err(|refusal| AdminError::Refused {
                code: refusal.code,
                message: refusal.message,
            })?;
        let found = self.partition(topic, partition).ok_or_else(|| missing(topic, partition))?;
        match found.authority().log.producers.judge(&accepted.head) {
            Verdict::Append => self.append_unchecked(topic, partition, &accepted.batch),
            Verdict::Duplicate(known) => Ok(known.base_offset),
            Verdict::Refuse(code) => Err(AdminError::Refused {
                code,
                message: "the producer's state refuses the batch".to_owned(),
            }),
        }
    }
}

fn raw(records: &[NewRecord], now_ms: i64) -> Vec<RawRecord> {
    let raw = |(index, record): (usize, &NewRecord)| RawRecord {
        offset_delta: index as i32,
        timestamp: record.timestamp.unwrap_or(now_ms),
        key: record.key.clone(),
        value: record.value.clone(),
        headers: record.headers.clone(),
    };
    records.iter().enumerate().map(raw).collect()
}

/// The records of a partition's leader that a consumer sees.
fn visible(partition: &Partition, isolation: Isolation) -> Vec<Record> {
    let replica = partition.authority();
    let (log, committed) = (&replica.log, isolation == Isolation::ReadCommitted);
    let limit = if committed { replica.last_stable() } else { replica.high_watermark };
    let aborted = |head: &Head| {
        committed
            && head.is_transactional()
            && log.aborted(head.base_offset, head.last_offset() + 1).any(|ended| {
                ended.producer_id == head.producer_id
                    && (ended.first_offset..=ended.marker_offset).contains(&head.base_offset)
            })
    };
    let readable = log.batches().iter().filter(|stored| {
        stored.head.base_offset < limit && !stored.head.is_control() && !aborted(&stored.head)
    });
    let mut out = Vec::new();
    for stored in readable {
        let head = stored.head;
        // What is stored was either validated or put there by the test itself.
        for (index, record) in
            codec::records(&stored.bytes).unwrap_or_default().into_iter().enumerate()
        {
            let offset = head.base_offset + i64::from(record.offset_delta);
            if offset < log.start() {
                continue;
            }
            let sequence = ((i64::from(head.base_sequence) + index as i64) & 0x7fff_ffff) as i32;
            out.push(Record {
                offset,
                timestamp: if head.is_append_time() {
                    head.max_timestamp
                } else {
                    record.timestamp
                },
                key: record.key,
                value: record.value,
                headers: record.headers,
                producer: (head.producer_id >= 0).then_some(ProducerOf {
                    id: head.producer_id,
                    epoch: head.producer_epoch,
                    sequence,
                }),
                leader_epoch: head.leader_epoch,
            });
        }
    }
    out
}
