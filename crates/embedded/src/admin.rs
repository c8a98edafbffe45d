//! What a test does to topics and their logs without speaking the protocol.
//!
//! Does not touch brokers, groups or faults: those are in `control`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use twinlog_types::TopicId;

use crate::cluster::EmbeddedCluster;
use crate::codec::{self, Compression, Frame, Head, RawRecord};
use crate::configs;
use crate::partition::Partition;
use crate::producer_state::Verdict;
use crate::state::State;
use crate::validate;
use crate::vocabulary::{AdminError, Isolation, NewRecord, ProducerOf, Record, SourceTransaction};

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

    /// The names of all topics but the internal ones (`__consumer_offsets`).
    pub fn topics(&self) -> Vec<String> {
        self.with(|state| {
            state.topics.keys().filter(|name| !name.starts_with("__")).cloned().collect()
        })
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
            state.settle_segments(topic);
            let options = state.options.clone();
            let found = state.topics.get_mut(topic).ok_or_else(|| missing(topic, 0))?;
            let operation = i8::from(value.is_none());
            configs::alter(&mut found.configs, &options, name, operation, value).map_err(
                |(code, message)| AdminError::Refused {
                    code,
                    message: message.unwrap_or_default(),
                },
            )
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

    /// A producer begins a transaction. Nothing is written yet.
    pub fn begin_transaction(&self) -> SourceTransaction {
        let producer_id = self.with(State::new_producer_id);
        SourceTransaction {
            producer_id,
            epoch: 0,
            sequences: BTreeMap::new(),
            groups: BTreeSet::new(),
        }
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

    /// Commits a group's position in a transaction (`sendOffsetsToTransaction`), whatever the group's
    /// state.
    pub fn commit_in(
        &self,
        transaction: &mut SourceTransaction,
        group: &str,
        (topic, partition): (&str, i32),
        offset: i64,
    ) {
        transaction.groups.insert(group.to_owned());
        let producer = (transaction.producer_id, transaction.epoch);
        self.with(|state| {
            let committed = state.committing(offset, -1, "");
            state.store_pending(group, producer, vec![((topic.to_owned(), partition), committed)]);
        });
    }

    /// Ends a transaction: writes its marker to every partition it wrote to, and settles what it
    /// committed.
    #[allow(clippy::needless_pass_by_value)] // it is over: nobody may write in it again
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
            let producer = (transaction.producer_id, transaction.epoch);
            for group in &transaction.groups {
                state.end_pending_commits(group, producer, commit);
            }
            Ok(())
        })
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
            .and_then(|batch| {
                validate::batch(&batch, &format!("{topic}-{partition}"), &rules, now_ms)
            })
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
        for record in stored.records() {
            let offset = head.base_offset + i64::from(record.offset_delta);
            if offset < log.start() {
                continue;
            }
            let sequence = i64::from(head.base_sequence) + i64::from(record.offset_delta);
            let sequence = (sequence & 0x7fff_ffff) as i32;
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
