//! Transactional ids and their transactions (Kafka's `TransactionCoordinator`).
//!
//! The coordinator decides at once and writes its markers a moment later; until they are written
//! everything for the same id is answered with `CONCURRENT_TRANSACTIONS(51)`. A single partition
//! that cannot take its marker holds the whole id.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::code::{
    CONCURRENT_TRANSACTIONS, COORDINATOR_LOAD_IN_PROGRESS, INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, NONE, NOT_COORDINATOR, PRODUCER_FENCED,
};
use crate::codec;
use crate::state::{State, Timer};

/// How long the coordinator waits before it tries a marker again.
const MARKER_RETRY: Duration = Duration::from_millis(20);
/// The last epoch that an owner of a producer id gets: the one behind it fences.
const LAST_EPOCH_OF_OWNER: i16 = i16::MAX - 1;

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Empty,
    Ongoing,
    /// Decided; markers are being written.
    Prepared {
        commit: bool,
    },
    Complete {
        commit: bool,
    },
}

/// A transactional id.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub producer_id: i64,
    pub epoch: i16,
    pub stage: Stage,
    pub partitions: BTreeSet<(String, i32)>,
    pub groups: BTreeSet<String>,
    pub timeout: Duration,
    /// When the present or last transaction of its owner began; -1 where there was none.
    pub started_ms: i64,
    /// The producer id with which its owner goes on after this transaction, because the epochs of
    /// the present one are used up.
    successor: Option<i64>,
    /// The producer id before this one: the answer that changed it may be lost.
    predecessor: Option<i64>,
    /// Which transaction of this id it is.
    number: u64,
    /// Offsets of markers that are written and not replicated yet.
    written: BTreeMap<(String, i32), i64>,
}

impl Transaction {
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        self.partitions.retain(|(named, _)| named != topic);
        self.written.retain(|(named, _), _| named != topic);
    }
}

impl State {
    /// Whether `broker` coordinates this id and is ready to.
    pub(crate) fn coordinates_transaction(
        &self,
        transactional_id: &str,
        broker: i32,
    ) -> Result<(), i16> {
        let coordinator = self.transaction_coordinator(transactional_id);
        if coordinator.broker != broker {
            return Err(NOT_COORDINATOR);
        }
        if Instant::now() < coordinator.loading_until {
            Err(COORDINATOR_LOAD_IN_PROGRESS)
        } else {
            Ok(())
        }
    }

    /// A producer id that nobody has.
    pub(crate) fn new_producer_id(&mut self) -> i64 {
        self.next_producer_id += 1;
        self.next_producer_id
    }

    /// InitProducerId with a transactional id. `known` is what the caller believes to own.
    pub(crate) fn init_transactional(
        &mut self,
        transactional_id: &str,
        timeout: Duration,
        known: Option<(i64, i16)>,
    ) -> Result<(i64, i16), i16> {
        let Some(found) = self.transactions.get_mut(transactional_id) else {
            let producer_id = self.new_producer_id();
            let transaction = Transaction {
                producer_id,
                epoch: 0,
                stage: Stage::Empty,
                partitions: BTreeSet::new(),
                groups: BTreeSet::new(),
                timeout,
                started_ms: -1,
                successor: None,
                predecessor: None,
                number: 0,
                written: BTreeMap::new(),
            };
            self.transactions.insert(transactional_id.to_owned(), transaction);
            return Ok((producer_id, 0));
        };
        if known.is_some_and(|(id, epoch)| id != found.producer_id || epoch != found.epoch) {
            return Err(PRODUCER_FENCED);
        }
        match found.stage {
            Stage::Prepared { .. } => Err(CONCURRENT_TRANSACTIONS),
            Stage::Ongoing => {
                // The older owner is fenced by the abort's own epoch; the caller tries again.
                found.epoch += 1;
                self.decide(transactional_id, false);
                Err(CONCURRENT_TRANSACTIONS)
            }
            Stage::Empty | Stage::Complete { .. } => {
                found.timeout = timeout;
                found.stage = Stage::Empty;
                found.started_ms = -1;
                if found.epoch >= LAST_EPOCH_OF_OWNER {
                    let producer_id = self.new_producer_id();
                    let found = self
                        .transactions
                        .get_mut(transactional_id)
                        .ok_or(INVALID_PRODUCER_ID_MAPPING)?;
                    (found.producer_id, found.epoch) = (producer_id, 0);
                    return Ok((producer_id, 0));
                }
                found.epoch += 1;
                Ok((found.producer_id, found.epoch))
            }
        }
    }

    /// The transaction of an owner that is not fenced.
    pub(crate) fn owned(
        &mut self,
        transactional_id: &str,
        producer_id: i64,
        epoch: i16,
    ) -> Result<&mut Transaction, i16> {
        let found =
            self.transactions.get_mut(transactional_id).ok_or(INVALID_PRODUCER_ID_MAPPING)?;
        if found.producer_id != producer_id {
            return Err(INVALID_PRODUCER_ID_MAPPING);
        }
        if found.epoch == epoch { Ok(found) } else { Err(PRODUCER_FENCED) }
    }

    /// Opens the transaction if it is not open, and takes partitions and groups into it.
    pub(crate) fn add_to_transaction(
        &mut self,
        transactional_id: &str,
        producer_id: i64,
        epoch: i16,
        partitions: &[(String, i32)],
        group: Option<&str>,
    ) -> Result<(), i16> {
        let (number, now_ms) = (self.number(), self.now_ms());
        let found = self.owned(transactional_id, producer_id, epoch)?;
        match found.stage {
            Stage::Prepared { .. } => return Err(CONCURRENT_TRANSACTIONS),
            Stage::Ongoing => {}
            Stage::Empty | Stage::Complete { .. } => {
                found.stage = Stage::Ongoing;
                found.number = number;
                found.started_ms = now_ms;
                let timer = Timer::TransactionTimeout {
                    transactional_id: transactional_id.to_owned(),
                    number,
                };
                let timeout = found.timeout;
                self.timers.push((timeout, timer));
            }
        }
        let found = self.owned(transactional_id, producer_id, epoch)?;
        found.partitions.extend(partitions.iter().cloned());
        found.groups.extend(group.map(str::to_owned));
        Ok(())
    }

    /// Whether a transactional batch may be written to a partition. From Produce 12 on the broker
    /// takes the partition into the transaction itself; before, it must have been added.
    pub(crate) fn verify_transactional(
        &mut self,
        transactional_id: &str,
        producer_id: i64,
        epoch: i16,
        topic: &str,
        partition: i32,
        adds: bool,
    ) -> Result<(), i16> {
        let key = (topic.to_owned(), partition);
        let found =
            self.owned(transactional_id, producer_id, epoch).map_err(|code| match code {
                PRODUCER_FENCED => INVALID_PRODUCER_EPOCH,
                other => other,
            })?;
        match found.stage {
            Stage::Ongoing if found.partitions.contains(&key) => Ok(()),
            Stage::Prepared { .. } => Err(CONCURRENT_TRANSACTIONS),
            _ if adds => {
                self.add_to_transaction(transactional_id, producer_id, epoch, &[key], None)
            }
            _ => Err(INVALID_TXN_STATE),
        }
    }

    /// EndTxn. With `new_epoch` (version 5) the transaction ends under the next epoch, which the
    /// answer carries; asking again with the epoch before gives the same answer.
    pub(crate) fn end_transaction(
        &mut self,
        transactional_id: &str,
        producer_id: i64,
        epoch: i16,
        commit: bool,
        new_epoch: bool,
    ) -> Result<(i64, i16), i16> {
        let found =
            self.transactions.get_mut(transactional_id).ok_or(INVALID_PRODUCER_ID_MAPPING)?;
        // With the last epoch of a producer id goes the id, and asking again names the one before.
        let rotated = found.predecessor == Some(producer_id) && found.epoch == 0;
        if found.producer_id != producer_id && !rotated {
            return Err(INVALID_PRODUCER_ID_MAPPING);
        }
        let repeated = new_epoch && (rotated || epoch == found.epoch - 1);
        if repeated {
            return match found.stage {
                Stage::Prepared { commit: decided } if decided == commit => {
                    Err(CONCURRENT_TRANSACTIONS)
                }
                Stage::Complete { commit: decided } if decided == commit => {
                    Ok((found.producer_id, found.epoch))
                }
                Stage::Prepared { .. } | Stage::Complete { .. } => Err(INVALID_TXN_STATE),
                Stage::Empty | Stage::Ongoing => Err(PRODUCER_FENCED),
            };
        }
        if epoch != found.epoch {
            return Err(PRODUCER_FENCED);
        }
        match found.stage {
            Stage::Ongoing => {}
            Stage::Prepared { commit: decided } if decided == commit => {
                return Err(CONCURRENT_TRANSACTIONS);
            }
            Stage::Complete { commit: decided } if decided == commit && !new_epoch => {
                return Ok((producer_id, epoch));
            }
            // Version 2 allows to abort what was never begun: the epoch rises all the same.
            Stage::Empty | Stage::Complete { .. } if new_epoch && !commit => {}
            _ => return Err(INVALID_TXN_STATE),
        }
        let mut answer = (producer_id, epoch);
        if new_epoch {
            let used_up = epoch >= LAST_EPOCH_OF_OWNER;
            let successor = used_up.then(|| self.new_producer_id());
            answer = successor.map_or((producer_id, epoch + 1), |next| (next, 0));
            let found =
                self.transactions.get_mut(transactional_id).ok_or(INVALID_PRODUCER_ID_MAPPING)?;
            found.epoch += 1;
            found.successor = successor;
        }
        self.decide(transactional_id, commit);
        Ok(answer)
    }

    /// The decision is durable; markers follow.
    fn decide(&mut self, transactional_id: &str, commit: bool) {
        let after = self.options.markers_after;
        let Some(found) = self.transactions.get_mut(transactional_id) else { return };
        found.stage = Stage::Prepared { commit };
        found.written.clear();
        if after.is_zero() {
            self.write_markers(transactional_id);
        } else {
            self.timers
                .push((after, Timer::Markers { transactional_id: transactional_id.to_owned() }));
        }
    }

    /// Writes the markers that are missing; completes the transaction when all are replicated.
    pub(crate) fn write_markers(&mut self, transactional_id: &str) {
        let Some(found) = self.transactions.get(transactional_id) else { return };
        let Stage::Prepared { commit } = found.stage else { return };
        let (producer_id, epoch) = (found.producer_id, found.epoch);
        let partitions: Vec<(String, i32)> = found.partitions.iter().cloned().collect();
        let written = found.written.clone();
        let mut missing = false;
        for (topic, partition) in partitions {
            let key = (topic, partition);
            let end = match written.get(&key) {
                Some(&end) => Some(end),
                None => self.append_marker(&key.0, partition, producer_id, epoch, commit),
            };
            let replicated = end.is_some_and(|end| {
                self.partition(&key.0, partition)
                    .is_none_or(|found| found.authority().high_watermark >= end)
            });
            missing |= !replicated;
            if let (Some(end), Some(found)) = (end, self.transactions.get_mut(transactional_id)) {
                found.written.insert(key, end);
            }
        }
        if missing {
            let timer = Timer::Markers { transactional_id: transactional_id.to_owned() };
            self.timers.push((MARKER_RETRY, timer));
            return;
        }
        let Some(found) = self.transactions.get_mut(transactional_id) else { return };
        found.stage = Stage::Complete { commit };
        if let Some(next) = found.successor.take() {
            found.predecessor = Some(producer_id);
            (found.producer_id, found.epoch) = (next, 0);
        }
        found.partitions.clear();
        found.written.clear();
        for group in std::mem::take(&mut found.groups) {
            self.end_pending_commits(&group, (producer_id, epoch), commit);
        }
        self.changed = true;
    }

    /// Appends a marker at the leader and answers the offset behind it; `None` when it must be
    /// tried again. A partition that is gone, or a marker that is too late, needs no marker.
    fn append_marker(
        &mut self,
        topic: &str,
        partition: i32,
        producer_id: i64,
        epoch: i16,
        commit: bool,
    ) -> Option<i64> {
        let (awake, min_in_sync, now_ms) = (self.awake(), self.min_in_sync(topic), self.now_ms());
        let Some(found) = self.partition_mut(topic, partition) else { return Some(0) };
        let leader = found.leader.filter(|leader| awake.contains(leader))?;
        if found.in_sync.len() < min_in_sync {
            return None;
        }
        let leader_epoch = found.epoch;
        let replica = found.replica_mut(leader)?;
        if replica.log.producers.judge_marker(producer_id, epoch, 0).is_err() {
            return Some(0);
        }
        replica.log.append(&codec::marker(commit, producer_id, epoch, 0, now_ms), leader_epoch);
        let end = replica.log.end();
        self.replicate(topic, partition);
        Some(end)
    }

    pub(crate) fn end_pending_commits(&mut self, group: &str, producer: (i64, i16), commit: bool) {
        self.log_commit_marker(group, producer, commit);
        self.settle_pending_commits(group, producer.0, commit);
    }

    /// Pending commits of a producer come to be valid, or go.
    pub(crate) fn settle_pending_commits(&mut self, group: &str, producer_id: i64, commit: bool) {
        let number = self.number();
        let Some(found) = self.groups.get_mut(group) else { return };
        let Some(pending) = found.pending.remove(&producer_id) else { return };
        if !commit {
            return;
        }
        for ((topic, partition), mut committed) in pending {
            // A plain commit that was written later wins.
            let key = (topic, partition);
            if found.offsets.get(&key).is_none_or(|known| known.number < committed.number) {
                committed.number = number;
                found.commit(&key.0, partition, committed);
            }
        }
    }

    /// A transaction that is open for too long is aborted, and its owner fenced.
    pub(crate) fn transaction_timeout(&mut self, transactional_id: &str, number: u64) {
        let Some(found) = self.transactions.get_mut(transactional_id) else { return };
        if found.stage == Stage::Ongoing && found.number == number {
            found.epoch += 1;
            self.decide(transactional_id, false);
        }
    }
}

/// NONE as a result code.
pub(crate) fn code_of<T>(result: &Result<T, i16>) -> i16 {
    result.as_ref().map_or_else(|&code| code, |_| NONE)
}
