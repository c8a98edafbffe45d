//! The Produce requests of one transaction.
//!
//! # Invariants
//!
//! 1. A batch keeps its cut until it is stored or the transaction is aborted: inside an open
//!    transaction brokers recognise what they have, however old its records are.
//! 2. Every answer is waited for, also after a failure: the end of the transaction comes last.

use std::collections::BTreeMap;

use twinlog_batch::{Codec, Outgoing, Record, encode_transactional, split};
use twinlog_protocol::ErrorCode;
use twinlog_types::{BrokerId, Cut, TopicId, TopicName, TopicPartition};

use super::{OLD_PRODUCE, Transactional, is_fence};
use crate::backoff::Retry;
use crate::error::ClientError;
use crate::produce::{ProduceAnswer, ProducePartition, send};

/// The largest batch that is sent, before compression: below every broker's default limit.
const BATCH_BYTES_MAX: usize = 512 << 10;
const BATCH_RECORDS_MAX: usize = 10_000;

impl Transactional {
    /// Produces every record; any failure leaves the transaction to be aborted.
    pub(super) async fn produce(
        &mut self,
        records: &BTreeMap<TopicPartition, Vec<Record>>,
        raises_epoch: bool,
        retry: &mut Retry<'_>,
    ) -> Result<(), ClientError> {
        let mut stretches: BTreeMap<&TopicPartition, _> = records
            .iter()
            .map(|(tp, records)| (tp, split(records, BATCH_BYTES_MAX, BATCH_RECORDS_MAX)))
            .collect();
        // One batch per partition and request; what a partition has more goes into the next.
        loop {
            let mut round = BTreeMap::new();
            for (tp, stretches) in &mut stretches {
                if let Some(stretch) = stretches.next() {
                    round.insert((*tp).clone(), self.cut(tp, stretch));
                }
            }
            if round.is_empty() {
                return Ok(());
            }
            self.produce_round(round, raises_epoch, retry).await?;
        }
    }

    fn cut(&mut self, tp: &TopicPartition, records: &[Record]) -> Outgoing {
        let count = records.len() as u32;
        let sequence = self.sequences.entry(tp.clone()).or_default();
        let cut = Cut {
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            base_sequence: *sequence,
            count,
        };
        *sequence = sequence.plus(count);
        encode_transactional(records, Codec::None, cut)
    }

    /// Sends one batch per partition until all are stored.
    async fn produce_round(
        &mut self,
        mut open: BTreeMap<TopicPartition, Outgoing>,
        raises_epoch: bool,
        retry: &mut Retry<'_>,
    ) -> Result<(), ClientError> {
        loop {
            let mut last = None;
            let mut requests: BTreeMap<BrokerId, Vec<ProducePartition>> = BTreeMap::new();
            for (tp, batch) in &open {
                match self.cluster.route(tp).await {
                    Ok(leader) => {
                        let topic_id = self.cluster.known_id(&tp.topic).unwrap_or(TopicId::NONE);
                        let (tp, batch) = (tp.clone(), batch.clone());
                        let partition = ProducePartition { tp, topic_id, batch };
                        requests.entry(leader.broker).or_default().push(partition);
                    }
                    Err(error) if error.is_retriable() => last = Some(error),
                    Err(error) => return Err(error),
                }
            }
            let mut pending = Vec::new();
            for (broker, partitions) in requests {
                match self.send(broker, partitions, raises_epoch).await {
                    Ok(answer) => pending.push((broker, answer)),
                    Err(error) if error.is_retriable() => last = Some(error),
                    Err(error) => return Err(error),
                }
            }
            let mut failed = None;
            for (broker, answer) in pending {
                match answer.await {
                    Ok(answer) => {
                        for told in answer.partitions {
                            match told.error {
                                ErrorCode::NONE | ErrorCode::DUPLICATE_SEQUENCE_NUMBER => {
                                    open.remove(&told.tp);
                                }
                                code if is_fence(code) => {
                                    failed = Some(self.refused("Produce", code));
                                }
                                code => {
                                    let error = ClientError::Code {
                                        api: "Produce",
                                        code,
                                        message: told.message,
                                        about: format!(
                                            "{} in a transaction of {}",
                                            told.tp, self.id
                                        ),
                                    };
                                    if error.is_retriable() {
                                        last = Some(error);
                                    } else if failed.is_none() {
                                        failed = Some(error);
                                    }
                                }
                            }
                        }
                    }
                    Err(error) => {
                        self.leaders.remove(&broker);
                        if error.is_retriable() {
                            last = Some(error);
                        } else if failed.is_none() {
                            failed = Some(error);
                        }
                    }
                }
            }
            if let Some(failed) = failed {
                return Err(failed);
            }
            if open.is_empty() {
                return Ok(());
            }
            let error =
                last.unwrap_or_else(|| self.refused("Produce", ErrorCode::REQUEST_TIMED_OUT));
            tracing::debug!(%error, id = self.id, "producing again");
            if !retry.pause().await {
                return Err(error);
            }
            let mut topics: Vec<TopicName> = open.keys().map(|tp| tp.topic.clone()).collect();
            topics.dedup();
            self.cluster.refresh(&topics).await;
        }
    }

    async fn send(
        &mut self,
        broker: BrokerId,
        partitions: Vec<ProducePartition>,
        raises_epoch: bool,
    ) -> Result<
        impl Future<Output = Result<ProduceAnswer, ClientError>> + Send + 'static + use<>,
        ClientError,
    > {
        let connection = match self.leaders.get(&broker) {
            Some(connection) if !connection.is_closed() => connection.clone(),
            _ => {
                let connection = self.cluster.connect(broker).await?;
                self.leaders.insert(broker, connection.clone());
                connection
            }
        };
        let newest = if raises_epoch { i16::MAX } else { OLD_PRODUCE };
        let timeout_ms = self.cluster.produce_timeout_ms();
        send(&connection, Some(&self.id), partitions, timeout_ms, newest)
    }
}
