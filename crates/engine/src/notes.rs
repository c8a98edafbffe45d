//! Records for the durable state that nobody's copy makes: the gap ledger, the journal of groups,
//! answers to operators.
//!
//! The writer of a shard takes all that waits for it into its next transaction.
//!
//! # Invariants
//!
//! 1. Of several records with one key the last one left is written: older ones never come after it.
//! 2. A receipt is given only for a transaction that was committed after the records were left.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use twinlog_batch::Record;
use twinlog_offsets::state::{StateKey, StateRecord};

/// What waits to be written, by shard.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<BTreeMap<usize, Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// Values by key; `None` takes the key's record away.
    records: BTreeMap<Bytes, Option<Bytes>>,
    receipts: Vec<oneshot::Sender<()>>,
}

/// What was taken into a transaction.
#[derive(Debug)]
pub(crate) struct Taken {
    shard: usize,
    waiting: Waiting,
}

impl Notes {
    /// Leaves a record for the next transaction of a shard, whenever that comes.
    pub(crate) fn leave(&self, shard: usize, record: &StateRecord) {
        let (key, value) = record.encode();
        self.0.lock().entry(shard).or_default().records.insert(key, Some(value));
    }

    /// Leaves word that the record with this key is to go.
    pub(crate) fn leave_none(&self, shard: usize, key: &StateKey) {
        self.0.lock().entry(shard).or_default().records.insert(key.encode(), None);
    }

    /// Told once everything that was left for the shard so far is committed; closed when the
    /// transaction failed, or it is unclear whether it did.
    pub(crate) fn receipt(&self, shard: usize) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().entry(shard).or_default().receipts.push(sender);
        receiver
    }

    /// All that waits for a shard.
    pub(crate) fn take(&self, shard: usize) -> Taken {
        let waiting = self.0.lock().remove(&shard).unwrap_or_default();
        Taken { shard, waiting }
    }

    /// The transaction did not come to its end: the records go into the next one.
    pub(crate) fn put_back(&self, taken: Taken) {
        let mut all = self.0.lock();
        let records = &mut all.entry(taken.shard).or_default().records;
        for (key, value) in taken.waiting.records {
            records.entry(key).or_insert(value);
        }
    }
}

impl Taken {
    /// The records as they are written.
    pub(crate) fn records(&self, now_ms: i64) -> impl Iterator<Item = Record> {
        self.waiting.records.iter().map(move |(key, value)| Record {
            offset: 0,
            timestamp: now_ms,
            key: Some(key.clone()),
            value: value.clone(),
            headers: Vec::new(),
        })
    }

    /// The transaction is committed.
    pub(crate) fn written(self) {
        for receipt in self.waiting.receipts {
            // Whoever gave up waiting needs none.
            let _ = receipt.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use twinlog_offsets::state::{Answer, Pair, Subject};

    use super::*;

    fn answer(group: &str, text: &str) -> StateRecord {
        let pair = Pair { source_cluster: "A".into(), target_cluster: "B".into() };
        let (by, text) = ("me".to_owned(), text.to_owned());
        let answer = Answer { by, of_ms: 1, at_ms: 2, done: true, text };
        StateRecord::Answer(pair, Subject::Group(group.into()), answer)
    }

    fn values(taken: &Taken) -> Vec<Option<Bytes>> {
        taken.records(0).map(|record| record.value).collect()
    }

    #[test]
    fn what_failed_is_written_again_unless_it_was_overtaken() {
        let notes = Notes::default();
        notes.leave(1, &answer("g", "first"));
        notes.leave(1, &answer("h", "stays"));
        notes.leave(2, &answer("g", "another shard"));
        let failed = notes.take(1);
        assert_eq!(values(&failed).len(), 2);
        assert_eq!(values(&notes.take(1)), Vec::new());
        notes.leave(1, &answer("g", "second"));
        notes.put_back(failed);
        let expected = [answer("g", "second"), answer("h", "stays")];
        let expected: Vec<_> = expected.map(|record| Some(record.encode().1)).into();
        assert_eq!(values(&notes.take(1)), expected);
    }

    #[test]
    fn a_receipt_is_given_for_a_transaction_that_was_committed() {
        let notes = Notes::default();
        notes.leave(0, &answer("g", "one"));
        let mut receipt = notes.receipt(0);
        let taken = notes.take(0);
        assert!(receipt.try_recv().is_err());
        taken.written();
        assert_eq!(receipt.try_recv(), Ok(()));
        let mut closed = notes.receipt(0);
        notes.put_back(notes.take(0));
        assert_eq!(closed.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
