//! Producer ids, and records that are written in transactions under one transactional id.
//!
//! Made for small records that must be fenced: whoever opens a transactional id last owns it, and
//! every write of an older owner is refused. Only writes inside transactions are fenced that way; a
//! plain batch of a fenced producer passes.
//!
//! Does not: commit consumer offsets in a transaction, or hold a transaction open between calls.
//!
//! # Invariants
//!
//! 1. [`Transactional::write`] is all or nothing. `Ok` means committed; an error other than
//!    [`ClientError::Unclear`] means that nothing of it will ever be visible.
//! 2. Partitions are added with AddPartitionsToTxn v3 first, although newer brokers add them
//!    by themselves: that takes 50 ms there and 7 ms here, because we ask again sooner than they.
//! 3. EndTxn is never sent before every Produce answer: it would be refused with 48, and leave the
//!    transaction open.
//! 4. With `transaction.version` 2 (EndTxn 5) each end raises the epoch, sequences begin at 0, and
//!    EndTxn may be repeated after a lost answer. Before that the epoch stays, sequences go on, and
//!    a lost answer to a commit is [`ClientError::Unclear`]. The two never mix within one
//!    transaction: Produce 12 and up belongs to the first, 11 and below to the second.
//! 5. 47, 49 and 90 all mean that this owner is none any more: [`ClientError::Fenced`], for good.
//!
//! References: KIP-98, KIP-360 (epochs after errors), KIP-890 (transactions, server side).

mod batches;

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_batch::Record;
use twinlog_protocol::messages::{
    AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest, InitProducerIdRequest,
    ProducerId as WireProducerId, TransactionalId, add_partitions_to_txn_request, string,
    topic_name,
};
use twinlog_protocol::{ErrorCode, Remedy};
use twinlog_types::{BrokerId, ProducerEpoch, ProducerId, Sequence, TopicName, TopicPartition};
use twinlog_wire::Connection;

use crate::backoff::Retry;
use crate::cluster::{Cluster, ask_on};
use crate::error::ClientError;
use crate::groups::CoordinatorKind;

/// The newest EndTxn that keeps the epoch, and the newest Produce that goes with it.
const OLD_END_TXN: i16 = 4;
const OLD_PRODUCE: i16 = 11;

/// The newest AddPartitionsToTxn for clients; later ones are for brokers among themselves.
const ADD_PARTITIONS: i16 = 3;

/// The owner of one transactional id. See the module's head.
#[derive(Debug)]
pub struct Transactional {
    cluster: Cluster,
    id: String,
    timeout_ms: i32,
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    coordinator: Option<Connection>,
    leaders: BTreeMap<BrokerId, Connection>,
    /// The next sequence per partition, under the epoch.
    sequences: BTreeMap<TopicPartition, Sequence>,
    /// Why nothing can be written any more.
    ended: Option<ClientError>,
    /// A write has begun and not come to its end; left standing when a caller drops the future.
    writing: bool,
}

impl Cluster {
    /// A new producer id with its epoch, for idempotent batches outside transactions.
    pub async fn init_producer_id(&self) -> Result<(ProducerId, ProducerEpoch), ClientError> {
        self.retrying(|| async {
            let response = self
                .ask_any(|version| {
                    let request = InitProducerIdRequest::default()
                        .with_transactional_id(None)
                        .with_transaction_timeout_ms(i32::MAX);
                    named(request, -1, -1, version)
                })
                .await?;
            ErrorCode(response.error_code).ok().map_err(|code| ClientError::Code {
                api: "InitProducerId",
                code,
                message: None,
                about: "a producer id".into(),
            })?;
            Ok((response.producer_id.0, response.producer_epoch))
        })
        .await
    }

    /// The producer id and epoch that a transactional id has now, as its coordinator tells; nothing
    /// where nobody has opened it. Needs DESCRIBE on the id, which WRITE implies.
    ///
    /// # Errors
    ///
    /// When the coordinator does not answer in time: then nobody can write under the id either.
    pub async fn describe_transaction(
        &self,
        id: &str,
    ) -> Result<Option<(ProducerId, ProducerEpoch)>, ClientError> {
        self.retrying(|| async {
            let outcome = self.describe_transaction_once(id).await;
            if outcome.as_ref().is_err_and(ClientError::is_retriable) {
                self.forget_coordinators(CoordinatorKind::Transaction, [id].into_iter());
            }
            outcome
        })
        .await
    }

    async fn describe_transaction_once(
        &self,
        id: &str,
    ) -> Result<Option<(ProducerId, ProducerEpoch)>, ClientError> {
        let broker = self.coordinator(CoordinatorKind::Transaction, id).await?;
        let ids = || vec![TransactionalId(string(id))];
        let request = |_| DescribeTransactionsRequest::default().with_transactional_ids(ids());
        let response = self.ask_broker(broker, request).await?;
        let state = response.transaction_states.into_iter().next().ok_or_else(|| {
            ClientError::Protocol {
                peer: format!("broker {broker}"),
                api: "DescribeTransactions",
                reason: format!("no word about {id}"),
            }
        })?;
        match ErrorCode(state.error_code) {
            ErrorCode::TRANSACTIONAL_ID_NOT_FOUND => Ok(None),
            code if code.is_ok() => Ok(Some((state.producer_id.0, state.producer_epoch))),
            code => Err(ClientError::Code {
                api: "DescribeTransactions",
                code,
                message: None,
                about: format!("transactional id {id}"),
            }),
        }
    }

    /// Becomes the owner of a transactional id: older owners are fenced, and whatever they left
    /// open is aborted before this answers. `timeout` is how long one transaction may stay open.
    ///
    /// # Errors
    ///
    /// `CONCURRENT_TRANSACTIONS(51)` when the id's last transaction cannot be completed in time: a
    /// partition it touched has too few replicas.
    pub async fn transactional(
        &self,
        id: &str,
        timeout: Duration,
    ) -> Result<Transactional, ClientError> {
        let mut owner = Transactional {
            cluster: self.clone(),
            id: id.to_owned(),
            timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            producer_id: -1,
            epoch: -1,
            coordinator: None,
            leaders: BTreeMap::new(),
            sequences: BTreeMap::new(),
            ended: None,
            writing: false,
        };
        owner.init().await?;
        Ok(owner)
    }
}

fn named(
    request: InitProducerIdRequest,
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    version: i16,
) -> InitProducerIdRequest {
    if version >= 3 {
        request.with_producer_id(WireProducerId(producer_id)).with_producer_epoch(epoch)
    } else {
        request
    }
}

/// Whether a code says that somebody else owns the id (or that the coordinator forgot it).
fn is_fence(code: ErrorCode) -> bool {
    [
        ErrorCode::INVALID_PRODUCER_EPOCH,
        ErrorCode::INVALID_PRODUCER_ID_MAPPING,
        ErrorCode::PRODUCER_FENCED,
    ]
    .contains(&code)
}

/// What to do about a coordinator's answer.
enum Next {
    Done,
    /// Ask again, after a pause of this kind.
    Again {
        shortly: bool,
    },
    Fail(ErrorCode),
}

impl Transactional {
    /// The transactional id.
    pub fn transactional_id(&self) -> &str {
        &self.id
    }

    /// The producer id and its epoch now.
    pub fn producer(&self) -> (ProducerId, ProducerEpoch) {
        (self.producer_id, self.epoch)
    }

    /// Settles what an [`ClientError::Unclear`] left: aborts whatever is still open under our own
    /// producer id and epoch, and goes on as the owner. What had been committed stays committed:
    /// read the partition. Does nothing for an owner that is not in doubt.
    ///
    /// The abort comes first: InitProducerId with our own epoch would fence us, too, while our
    /// transaction is open.
    ///
    /// # Errors
    ///
    /// [`ClientError::Fenced`] when somebody else owns the id by now; others when the coordinator
    /// cannot be asked (the owner stays in doubt).
    pub async fn reopen(&mut self) -> Result<(), ClientError> {
        match &self.ended {
            Some(fenced @ ClientError::Fenced { .. }) => return Err(fenced.clone()),
            None if !self.writing => return Ok(()),
            _ => {}
        }
        let outcome = self.settle().await;
        match &outcome {
            Ok(()) => {
                self.ended = None;
                self.writing = false;
            }
            Err(fenced @ ClientError::Fenced { .. }) => self.ended = Some(fenced.clone()),
            Err(_) => {}
        }
        outcome
    }

    async fn settle(&mut self) -> Result<(), ClientError> {
        let cluster = self.cluster.clone();
        let mut retry = cluster.retry();
        loop {
            let coordinator = match self.coordinator().await {
                Ok(connection) => raises_epoch(&connection),
                Err(error) => Err(error),
            };
            let ended = match coordinator {
                Ok(raises_epoch) => {
                    self.end_once(false, raises_epoch).await.map(|end| (end, raises_epoch))
                }
                Err(error) => Err(error),
            };
            let (error, go_on) = match ended {
                Ok(((code, producer), raises_epoch)) => match self.next_step(code) {
                    Next::Done => {
                        if raises_epoch {
                            (self.producer_id, self.epoch) = producer;
                            self.sequences.clear();
                            return Ok(());
                        }
                        return self.init().await;
                    }
                    // Nothing is open (any more): it was committed, or never begun.
                    Next::Fail(ErrorCode::INVALID_TXN_STATE) => return self.init().await,
                    Next::Fail(code) => return Err(self.refused("EndTxn", code)),
                    Next::Again { shortly } => {
                        (self.refused("EndTxn", code), pause(&mut retry, shortly).await)
                    }
                },
                Err(error) => {
                    self.lose_coordinator();
                    let retriable = error.is_retriable();
                    (error, retriable && retry.pause().await)
                }
            };
            if !go_on {
                return Err(error);
            }
        }
    }

    /// Writes records in one transaction. Keys and values of one partition keep their order; the
    /// records' own offsets do not matter.
    ///
    /// Once this answers `Ok`, the records are committed, but readers of committed records see them
    /// a moment later, when the coordinator has written its markers. Opening the id anew
    /// ([`Cluster::transactional`]) waits for that: what is read afterwards is complete.
    ///
    /// Dropping the returned future leaves the transaction open and this owner in doubt, as
    /// [`ClientError::Unclear`] does.
    ///
    /// # Errors
    ///
    /// See the module's head; after [`ClientError::Fenced`] every later call gives the same error,
    /// after [`ClientError::Unclear`] until [`Transactional::reopen`] has settled it.
    pub async fn write(
        &mut self,
        records: Vec<(TopicPartition, Vec<Record>)>,
    ) -> Result<(), ClientError> {
        if std::mem::take(&mut self.writing) {
            self.ended = Some(self.unclear("an earlier write was given up half-way"));
        }
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let mut merged: BTreeMap<TopicPartition, Vec<Record>> = BTreeMap::new();
        for (tp, records) in records {
            if !records.is_empty() {
                merged.entry(tp).or_default().extend(records);
            }
        }
        if merged.is_empty() {
            return Ok(());
        }
        self.writing = true;
        let outcome = self.write_merged(&merged).await;
        self.writing = false;
        if let Err(error @ (ClientError::Fenced { .. } | ClientError::Unclear { .. })) = &outcome {
            self.ended = Some(error.clone());
        }
        outcome
    }

    async fn write_merged(
        &mut self,
        records: &BTreeMap<TopicPartition, Vec<Record>>,
    ) -> Result<(), ClientError> {
        let cluster = self.cluster.clone();
        let mut retry = cluster.retry();
        let raises_epoch = self.add_partitions(records.keys(), &mut retry).await?;
        match self.produce(records, raises_epoch, &mut retry).await {
            Ok(()) => self.end(true, raises_epoch, &mut retry).await,
            Err(error @ ClientError::Fenced { .. }) => Err(error),
            Err(error) => {
                // A failure's budget may be used up; the abort has its own.
                self.end(false, raises_epoch, &mut cluster.retry()).await?;
                if !raises_epoch {
                    // Which batches were appended is unknown, hence the next sequence: a new epoch
                    // of our own begins at 0 again (KIP-360). It is refused when we are fenced.
                    self.init().await?;
                }
                Err(error)
            }
        }
    }

    /// Takes the id over, or raises our own epoch when we have one.
    async fn init(&mut self) -> Result<(), ClientError> {
        let cluster = self.cluster.clone();
        let mut retry = cluster.retry();
        loop {
            let asked = match self.coordinator().await {
                Ok(connection) => {
                    ask_on(&connection, |version| {
                        let request = InitProducerIdRequest::default()
                            .with_transactional_id(Some(TransactionalId(string(&self.id))))
                            .with_transaction_timeout_ms(self.timeout_ms);
                        named(request, self.producer_id, self.epoch, version)
                    })
                    .await
                }
                Err(error) => Err(error),
            };
            let error = match asked {
                Ok(response) => {
                    let code = ErrorCode(response.error_code);
                    match self.next_step(code) {
                        Next::Done => {
                            self.producer_id = response.producer_id.0;
                            self.epoch = response.producer_epoch;
                            self.sequences.clear();
                            return Ok(());
                        }
                        Next::Fail(code) => return Err(self.refused("InitProducerId", code)),
                        Next::Again { shortly } => {
                            let error = self.refused("InitProducerId", code);
                            if !pause(&mut retry, shortly).await {
                                return Err(error);
                            }
                            continue;
                        }
                    }
                }
                Err(error) => error,
            };
            self.lose_coordinator();
            // Taking over twice is as good as once.
            if !error.is_retriable() || !retry.pause().await {
                return Err(error);
            }
        }
    }

    /// Opens the transaction. Answers whether its end raises the epoch.
    async fn add_partitions(
        &mut self,
        partitions: impl Iterator<Item = &TopicPartition>,
        retry: &mut Retry<'_>,
    ) -> Result<bool, ClientError> {
        let mut topics: BTreeMap<&TopicName, Vec<i32>> = BTreeMap::new();
        for tp in partitions {
            topics.entry(&tp.topic).or_default().push(tp.partition);
        }
        let topics: Vec<_> = topics
            .into_iter()
            .map(|(name, partitions)| {
                add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
                    .with_name(topic_name(name.as_str()))
                    .with_partitions(partitions)
            })
            .collect();
        let mut unclear = false;
        loop {
            let asked = self.add_partitions_once(&topics).await;
            let (error, may_go_on) = match asked {
                Ok((code, raises_epoch)) => match self.next_step(code) {
                    Next::Done => return Ok(raises_epoch),
                    Next::Fail(code) => (self.refused("AddPartitionsToTxn", code), false),
                    Next::Again { shortly } => {
                        let error = self.refused("AddPartitionsToTxn", code);
                        (error, pause(retry, shortly).await)
                    }
                },
                Err(error) => {
                    unclear |= error.is_unclear();
                    self.lose_coordinator();
                    let retriable = error.is_retriable();
                    (error, retriable && retry.pause().await)
                }
            };
            if !may_go_on {
                let fenced = matches!(error, ClientError::Fenced { .. });
                // Perhaps a transaction is open; opening the id again aborts it.
                return Err(if unclear && !fenced {
                    self.unclear(&error.to_string())
                } else {
                    error
                });
            }
        }
    }

    async fn add_partitions_once(
        &mut self,
        topics: &[add_partitions_to_txn_request::AddPartitionsToTxnTopic],
    ) -> Result<(ErrorCode, bool), ClientError> {
        let connection = self.coordinator().await?;
        let version = connection.version_at_most::<AddPartitionsToTxnRequest>(ADD_PARTITIONS)?;
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(TransactionalId(string(&self.id)))
            .with_v3_and_below_producer_id(WireProducerId(self.producer_id))
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(topics.to_vec());
        let response = connection.call(&request, version).await?;
        let codes = response
            .results_by_topic_v3_and_below
            .iter()
            .flat_map(|topic| &topic.results_by_partition)
            .map(|partition| ErrorCode(partition.partition_error_code));
        // All or none are added: 55 marks those that another one's failure held back.
        let code = codes
            .filter(|code| !code.is_ok())
            .min_by_key(|code| *code == ErrorCode::OPERATION_NOT_ATTEMPTED)
            .unwrap_or(ErrorCode::NONE);
        Ok((code, raises_epoch(&connection)?))
    }

    /// Commits or aborts.
    async fn end(
        &mut self,
        commit: bool,
        raises_epoch: bool,
        retry: &mut Retry<'_>,
    ) -> Result<(), ClientError> {
        loop {
            let error = match self.end_once(commit, raises_epoch).await {
                Ok((code, producer)) => match self.next_step(code) {
                    Next::Done => {
                        if raises_epoch {
                            (self.producer_id, self.epoch) = producer;
                            self.sequences.clear();
                        }
                        return Ok(());
                    }
                    Next::Fail(code) if is_fence(code) => {
                        return Err(self.refused("EndTxn", code));
                    }
                    // The coordinator has another idea of what is open, such as nothing.
                    Next::Fail(code) => {
                        return Err(self.unclear(&self.refused("EndTxn", code).to_string()));
                    }
                    Next::Again { shortly } => {
                        if pause(retry, shortly).await {
                            continue;
                        }
                        self.refused("EndTxn", code)
                    }
                },
                Err(error) => {
                    self.lose_coordinator();
                    // An old coordinator cannot tell a repeated commit from the commit of nothing.
                    let repeatable = raises_epoch || !commit || !error.is_unclear();
                    if repeatable && error.is_retriable() && retry.pause().await {
                        continue;
                    }
                    error
                }
            };
            return Err(self.unclear(&error.to_string()));
        }
    }

    async fn end_once(
        &mut self,
        commit: bool,
        raises_epoch: bool,
    ) -> Result<(ErrorCode, (ProducerId, ProducerEpoch)), ClientError> {
        let connection = self.coordinator().await?;
        let newest = if raises_epoch { i16::MAX } else { OLD_END_TXN };
        let version = connection.version_at_most::<EndTxnRequest>(newest)?;
        if raises_epoch && version <= OLD_END_TXN {
            return Err(ClientError::Unsupported {
                peer: connection.peer().to_owned(),
                what: "EndTxn 5, with which this transaction began".into(),
            });
        }
        let request = EndTxnRequest::default()
            .with_transactional_id(TransactionalId(string(&self.id)))
            .with_producer_id(WireProducerId(self.producer_id))
            .with_producer_epoch(self.epoch)
            .with_committed(commit);
        let response = connection.call(&request, version).await?;
        let producer = (response.producer_id.0, response.producer_epoch);
        Ok((ErrorCode(response.error_code), producer))
    }

    async fn coordinator(&mut self) -> Result<Connection, ClientError> {
        if let Some(connection) = &self.coordinator
            && !connection.is_closed()
        {
            return Ok(connection.clone());
        }
        let broker = self.cluster.coordinator(CoordinatorKind::Transaction, &self.id).await?;
        let connection = self.cluster.connect(broker).await?;
        Ok(self.coordinator.insert(connection).clone())
    }

    fn lose_coordinator(&mut self) {
        self.coordinator = None;
        let key = [self.id.as_str()].into_iter();
        self.cluster.forget_coordinators(CoordinatorKind::Transaction, key);
    }

    /// What a coordinator's code asks for; forgets the coordinator when it is another one.
    fn next_step(&mut self, code: ErrorCode) -> Next {
        match code.remedy() {
            Remedy::None => Next::Done,
            Remedy::Reroute => {
                self.lose_coordinator();
                Next::Again { shortly: false }
            }
            Remedy::Retry | Remedy::Refresh => {
                Next::Again { shortly: code == ErrorCode::CONCURRENT_TRANSACTIONS }
            }
            Remedy::Refuse | Remedy::Fatal => Next::Fail(code),
        }
    }

    fn refused(&self, api: &'static str, code: ErrorCode) -> ClientError {
        if is_fence(code) {
            return ClientError::Fenced { transactional_id: self.id.clone(), api, code };
        }
        let about = format!("transactional id {}", self.id);
        ClientError::Code { api, code, message: None, about }
    }

    fn unclear(&self, reason: &str) -> ClientError {
        ClientError::Unclear { transactional_id: self.id.clone(), reason: reason.to_owned() }
    }
}

/// Whether the cluster has transactions whose end raises the epoch (`transaction.version` 2).
fn raises_epoch(coordinator: &Connection) -> Result<bool, ClientError> {
    let level = coordinator.features().get("transaction.version").copied().unwrap_or(0);
    Ok(level >= 2 && coordinator.version::<EndTxnRequest>()? > OLD_END_TXN)
}

async fn pause(retry: &mut Retry<'_>, shortly: bool) -> bool {
    if shortly { retry.pause_shortly().await } else { retry.pause().await }
}
