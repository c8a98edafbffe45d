//! What a replica remembers of the producers of one partition (Kafka's `ProducerStateManager`).
//!
//! Recognises duplicates among the last five batches of a producer, refuses sequences that do not
//! follow, fences old epochs, and forgets producers whose *records* are old. Does not know
//! transactions beyond "this producer has one open since offset n".

use std::collections::{BTreeMap, VecDeque};

use crate::code::{
    INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, TRANSACTION_COORDINATOR_FENCED,
};
use crate::codec::Head;

/// How many batches of a producer a broker recognises.
const WINDOW: usize = 5;

/// One remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub first_sequence: i32,
    pub last_sequence: i32,
    pub base_offset: i64,
    pub last_offset: i64,
    pub timestamp: i64,
}

/// What is known of one producer.
#[derive(Clone, Debug)]
pub(crate) struct Producer {
    pub epoch: i16,
    pub batches: VecDeque<Known>,
    pub last_timestamp: i64,
    pub coordinator_epoch: i32,
    pub open_since: Option<i64>,
}

impl Producer {
    pub(crate) fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(-1, |known| known.last_sequence)
    }
}

/// The producers of one partition on one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producers {
    by_id: BTreeMap<i64, Producer>,
}

/// What the state says about a batch that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Append,
    /// Already in the log.
    Duplicate(Known),
    Refuse(i16),
}

impl Producers {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, &Producer)> {
        self.by_id.iter().map(|(&id, producer)| (id, producer))
    }

    pub(crate) fn get(&self, producer_id: i64) -> Option<&Producer> {
        self.by_id.get(&producer_id)
    }

    /// Judges a batch of a client. Batches without a producer id are always appended.
    pub(crate) fn judge(&self, head: &Head) -> Verdict {
        if head.producer_id < 0 {
            return Verdict::Append;
        }
        let Some(producer) = self.by_id.get(&head.producer_id) else {
            // A partition without state accepts any sequence: it becomes the baseline.
            return Verdict::Append;
        };
        if head.producer_epoch < producer.epoch {
            return Verdict::Refuse(INVALID_PRODUCER_EPOCH);
        }
        if head.producer_epoch > producer.epoch {
            return if head.base_sequence == 0 {
                Verdict::Append
            } else {
                Verdict::Refuse(OUT_OF_ORDER_SEQUENCE_NUMBER)
            };
        }
        let same = |known: &&Known| {
            known.first_sequence == head.base_sequence
                && known.last_sequence == head.last_sequence()
        };
        if let Some(known) = producer.batches.iter().find(same) {
            return Verdict::Duplicate(*known);
        }
        let last = producer.last_sequence();
        let follows = i64::from(head.base_sequence) == i64::from(last) + 1
            || (head.base_sequence == 0 && last == i32::MAX);
        if follows { Verdict::Append } else { Verdict::Refuse(OUT_OF_ORDER_SEQUENCE_NUMBER) }
    }

    /// Judges a marker of a transaction coordinator.
    pub(crate) fn judge_marker(
        &self,
        producer_id: i64,
        epoch: i16,
        coordinator_epoch: i32,
    ) -> Result<(), i16> {
        match self.by_id.get(&producer_id) {
            Some(producer) if epoch < producer.epoch => Err(INVALID_PRODUCER_EPOCH),
            Some(producer) if coordinator_epoch < producer.coordinator_epoch => {
                Err(TRANSACTION_COORDINATOR_FENCED)
            }
            _ => Ok(()),
        }
    }

    /// Takes a data batch that was appended at its offset.
    pub(crate) fn append(&mut self, head: &Head) {
        if head.producer_id < 0 {
            return;
        }
        let producer = self.by_id.entry(head.producer_id).or_insert_with(|| Producer {
            epoch: head.producer_epoch,
            batches: VecDeque::new(),
            last_timestamp: head.max_timestamp,
            coordinator_epoch: -1,
            open_since: None,
        });
        if producer.epoch != head.producer_epoch {
            producer.epoch = head.producer_epoch;
            producer.batches.clear();
        }
        if producer.batches.len() == WINDOW {
            producer.batches.pop_front();
        }
        producer.batches.push_back(Known {
            first_sequence: head.base_sequence,
            last_sequence: head.last_sequence(),
            base_offset: head.base_offset,
            last_offset: head.last_offset(),
            timestamp: head.max_timestamp,
        });
        producer.last_timestamp = head.max_timestamp;
        if head.is_transactional() && producer.open_since.is_none() {
            producer.open_since = Some(head.base_offset);
        }
    }

    /// Takes a marker; answers the offset at which the transaction it ends began.
    pub(crate) fn end_transaction(&mut self, head: &Head, coordinator_epoch: i32) -> Option<i64> {
        let producer = self.by_id.entry(head.producer_id).or_insert_with(|| Producer {
            epoch: head.producer_epoch,
            batches: VecDeque::new(),
            last_timestamp: head.max_timestamp,
            coordinator_epoch,
            open_since: None,
        });
        if producer.epoch != head.producer_epoch {
            producer.epoch = head.producer_epoch;
            producer.batches.clear();
        }
        producer.coordinator_epoch = coordinator_epoch;
        producer.last_timestamp = head.max_timestamp;
        producer.open_since.take()
    }

    /// The first offset of the oldest open transaction.
    pub(crate) fn first_open(&self) -> Option<i64> {
        self.by_id.values().filter_map(|producer| producer.open_since).min()
    }

    /// Forgets producers whose last batch is older than `age_ms`. The age is that of the records,
    /// not of the append; open transactions keep their producer.
    pub(crate) fn expire(&mut self, now_ms: i64, age_ms: i64) {
        self.by_id.retain(|_, producer| {
            producer.open_since.is_some() || now_ms.saturating_sub(producer.last_timestamp) < age_ms
        });
    }

    /// Forgets everybody.
    pub(crate) fn clear(&mut self) {
        self.by_id.clear();
    }

    /// What a snapshot keeps across a restart: of each producer the newest batch.
    pub(crate) fn restart(&mut self) {
        for producer in self.by_id.values_mut() {
            let keep_from = producer.batches.len().saturating_sub(1);
            producer.batches.drain(..keep_from);
        }
    }
}
