//! Transactions: producers, partitions, offsets, ends, and what readers and describers see.

use twinlog_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use twinlog_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use twinlog_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest,
    FindCoordinatorRequest, InitProducerIdRequest, ListTransactionsRequest, OffsetFetchRequest,
    ProduceRequest, TransactionalId, TxnOffsetCommitRequest, string, topic_name,
};

use super::{commits, idempotence};
use crate::batches::Batch;
use crate::pair::{Pair, Result};
use crate::requests::{From, How, Topic, fetch, group, list_offsets, produce};
use crate::sides::Both;

const CONCURRENT_TRANSACTIONS: i16 = 51;
/// Longer than the script takes.
const TIMEOUT_MS: i32 = 600_000;

/// Producer id of each side, and the epoch.
#[derive(Clone, Copy, Debug)]
struct Producer {
    id: Both<i64>,
    epoch: i16,
}

fn tid(name: &str) -> TransactionalId {
    TransactionalId(string(name))
}

fn init(
    version: i16,
    name: &str,
    timeout_ms: i32,
    known: Option<(i64, i16)>,
) -> InitProducerIdRequest {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(tid(name)))
        .with_transaction_timeout_ms(timeout_ms);
    match known {
        Some((id, epoch)) if version >= 3 => {
            request.with_producer_id(id.into()).with_producer_epoch(epoch)
        }
        _ => request,
    }
}

fn add(
    version: i16,
    name: &str,
    (id, epoch): (i64, i16),
    topic: &str,
    partitions: &[i32],
) -> AddPartitionsToTxnRequest {
    let topics = vec![
        AddPartitionsToTxnTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(partitions.to_vec()),
    ];
    if version >= 4 {
        let transaction = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(tid(name))
            .with_producer_id(id.into())
            .with_producer_epoch(epoch)
            .with_topics(topics);
        AddPartitionsToTxnRequest::default().with_transactions(vec![transaction])
    } else {
        AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(tid(name))
            .with_v3_and_below_producer_id(id.into())
            .with_v3_and_below_producer_epoch(epoch)
            .with_v3_and_below_topics(topics)
    }
}

fn add_offsets(name: &str, (id, epoch): (i64, i16), to: &str) -> AddOffsetsToTxnRequest {
    AddOffsetsToTxnRequest::default()
        .with_transactional_id(tid(name))
        .with_producer_id(id.into())
        .with_producer_epoch(epoch)
        .with_group_id(group(to))
}

fn txn_commit(
    version: i16,
    name: &str,
    (id, epoch): (i64, i16),
    to: &str,
    topic: &str,
    commits: &[(i32, i64)],
) -> TxnOffsetCommitRequest {
    let partition = |&(index, offset): &(i32, i64)| {
        TxnOffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_committed_metadata(Some(string("txn")))
    };
    let topic = TxnOffsetCommitRequestTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(commits.iter().map(partition).collect());
    let request = TxnOffsetCommitRequest::default()
        .with_transactional_id(tid(name))
        .with_group_id(group(to))
        .with_producer_id(id.into())
        .with_producer_epoch(epoch)
        .with_topics(vec![topic]);
    if version >= 3 { request.with_group_instance_id(None) } else { request }
}

fn end(name: &str, (id, epoch): (i64, i16), committed: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(tid(name))
        .with_producer_id(id.into())
        .with_producer_epoch(epoch)
        .with_committed(committed)
}

impl Producer {
    /// A request in terms of each side's producer id.
    fn each<R>(&self, epoch: i16, build: impl Fn((i64, i16)) -> R) -> Both<R> {
        self.id.map(|&id| build((id, epoch)))
    }
}

fn describe(pair: &mut Pair, names: &[&str]) -> Result {
    let ids: Vec<_> = names.iter().map(|name| tid(name)).collect();
    pair.ask_all(|_| DescribeTransactionsRequest::default().with_transactional_ids(ids.clone()))
}

/// What readers see of the topic.
fn look(pair: &mut Pair, topic: &Topic) -> Result {
    for version in [4, 11, 12, 18] {
        for committed in [false, true] {
            let how = How { committed, ..How::default() };
            let request = topic.names().map(|n| fetch(version, n, &[From::at(0, 0)], how));
            pair.ask_each(version, &request)?;
        }
    }
    for isolation in [0, 1] {
        pair.ask_all(|version| list_offsets(version, &topic.name, &[(0, -1, -1)], isolation))?;
    }
    pair.ask_all(|_| idempotence::describe(&topic.name, &[0, 1]))
}

/// Takes a producer for a transactional id, waiting for an earlier end to be done.
fn start(pair: &mut Pair, version: i16, name: &str) -> Result<Producer> {
    let request = Both::same(init(version, name, TIMEOUT_MS, None));
    let answers = pair.ask_until(version, &request, |answer| answer.error_code == 0)?;
    Ok(Producer {
        id: answers.map(|answer| answer.producer_id.0),
        epoch: answers.kafka.producer_epoch,
    })
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    strangers(pair)?;
    for version in pair.versions::<EndTxnRequest>() {
        for committed in [true, false] {
            round(pair, version, committed)?;
        }
    }
    fencing(pair)?;
    lists(pair)
}

/// Requests of producers that are none.
fn strangers(pair: &mut Pair) -> Result {
    pair.topic("transactions-strange", 1, &[])?;
    pair.step("the first FindCoordinator of all");
    let request = FindCoordinatorRequest::default()
        .with_key_type(1)
        .with_coordinator_keys(vec![string("transactions-first")]);
    pair.ask_until(4, &Both::same(request), |answer| {
        answer.coordinators.iter().all(|found| found.error_code == 0)
    })?;
    pair.step("the first InitProducerId of all");
    start(pair, 4, "transactions-first")?;
    let who = (424_242, 0);
    let name = "transactions-absent";
    for (what, name) in [("an absent id", name), ("an empty id", "")] {
        pair.step(format!("AddPartitionsToTxn of {what}"));
        for version in pair.versions::<AddPartitionsToTxnRequest>().into_iter().filter(|v| *v < 4) {
            pair.ask(version, add(version, name, who, "transactions-strange", &[0]))?;
        }
        pair.step(format!("AddOffsetsToTxn of {what}"));
        pair.ask_all(|_| add_offsets(name, who, "transactions-group"))?;
        pair.step(format!("EndTxn of {what}"));
        pair.ask_all(|_| end(name, who, true))?;
        pair.step(format!("DescribeTransactions of {what}"));
        describe(pair, &[name])?;
    }
    for (what, timeout_ms, name) in [
        ("no timeout", 0, "transactions-odd"),
        ("a negative timeout", -1, "transactions-odd"),
        ("a timeout that is too long", 9_000_000, "transactions-odd"),
        ("an empty id", TIMEOUT_MS, ""),
    ] {
        pair.step(format!("InitProducerId with {what}"));
        pair.ask_all(|version| init(version, name, timeout_ms, None))?;
    }
    pair.step("InitProducerId with a producer id and no epoch");
    for version in pair.versions::<InitProducerIdRequest>().into_iter().filter(|v| *v >= 3) {
        pair.ask(version, init(version, "transactions-odd", TIMEOUT_MS, Some((5_000_000, -1))))?;
        pair.step("InitProducerId with an epoch and no producer id");
        pair.ask(version, init(version, "transactions-odd", TIMEOUT_MS, Some((-1, 5))))?;
        pair.step("InitProducerId with a producer id that is another's");
        pair.ask(version, init(version, "transactions-first", TIMEOUT_MS, Some((424_242, 5))))?;
        pair.step("InitProducerId with a producer id and no epoch");
    }
    Ok(())
}

/// One transaction with records and offsets, at the versions that go with one of EndTxn.
fn round(pair: &mut Pair, version: i16, committed: bool) -> Result {
    let word = if committed { "commit" } else { "abort" };
    let name = format!("transactions-{version}-{word}");
    let topic = pair.topic(&name, 2, &[])?;
    let to = format!("{name}-group");
    let second = version >= 5;
    let init_at = version.min(pair.newest::<InitProducerIdRequest>());
    // From version 4 on AddPartitionsToTxn is for brokers.
    let (add_at, produce_at) = (version.min(3), if second { 12 } else { 7 + version });
    let offsets_at = version.min(pair.newest::<AddOffsetsToTxnRequest>());
    let commit_at = version.min(pair.newest::<TxnOffsetCommitRequest>());

    pair.step("InitProducerId");
    let producer = start(pair, init_at, &name)?;
    let epoch = producer.epoch;
    pair.step("a transactional id without a transaction");
    describe(pair, &[&name])?;
    pair.step("EndTxn without a transaction");
    let ends = producer.each(epoch, |by| end(&name, by, committed));
    let answers = pair.ask_each(version, &ends)?;
    // A transaction of the second version ends even where it is empty, and the epoch goes on.
    let epoch =
        if second && answers.kafka.error_code == 0 { answers.kafka.producer_epoch } else { epoch };

    if !second {
        pair.step("Produce of a batch of no transaction");
        let batch = |id: i64, epoch: i16, sequence: i32| {
            Batch::of(3, pair.start_ms).by(id, epoch, sequence).transactional().bytes()
        };
        let request = topic.names().zip(producer.id).map(|(names, id)| {
            produce(produce_at, names, 0, Some(batch(*id, epoch, 0)), -1, Some(&name))
        });
        pair.ask_each(produce_at, &request)?;
        pair.step("AddPartitionsToTxn");
        let request = producer.each(epoch, |by| add(add_at, &name, by, &name, &[0, 1]));
        pair.ask_until(add_at, &request, |answer| {
            let codes = answer.results_by_topic_v3_and_below.iter();
            codes
                .flat_map(|topic| &topic.results_by_partition)
                .all(|partition| partition.partition_error_code != CONCURRENT_TRANSACTIONS)
        })?;
        pair.step("AddPartitionsToTxn of a partition that is not there");
        let request = producer.each(epoch, |by| add(add_at, &name, by, &name, &[0, 9]));
        pair.ask_each(add_at, &request)?;
    }
    let start_ms = pair.start_ms;
    let send = |pair: &mut Pair, partition: i32, count: usize, epoch: i16, sequence: i32| {
        let request = topic.names().zip(producer.id).map(|(names, id)| {
            let batch = Batch::of(count, start_ms).by(*id, epoch, sequence).transactional();
            produce(produce_at, names, partition, Some(batch.bytes()), -1, Some(&name))
        });
        pair.ask_until(produce_at, &request, |answer| {
            let codes = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
            codes.map(|partition| partition.error_code).all(|code| code != CONCURRENT_TRANSACTIONS)
        })
    };
    pair.step("Produce in a transaction");
    send(pair, 0, 3, epoch, 0)?;
    send(pair, 0, 2, epoch, 3)?;
    send(pair, 1, 2, epoch, 0)?;
    pair.step("Produce in a transaction, again");
    send(pair, 0, 2, epoch, 3)?;
    pair.step("Produce in a transaction, a gap");
    send(pair, 0, 2, epoch, 30)?;
    pair.step("Produce by nobody beside a transaction");
    let plain = Batch::of(1, start_ms).bytes();
    pair.write(&topic, 0, &plain)?;
    pair.step("Produce of a plain batch under a transactional id");
    let request =
        topic.names().map(|n| produce(produce_at, n, 0, Some(plain.clone()), -1, Some(&name)));
    pair.ask_each(produce_at, &request)?;
    pair.step("readers beside an open transaction");
    look(pair, &topic)?;
    pair.step("an open transaction");
    describe(pair, &[&name, "transactions-absent"])?;

    pair.step("AddOffsetsToTxn");
    if !second {
        let request = producer.each(epoch, |by| add_offsets(&name, by, &to));
        pair.ask_each(offsets_at, &request)?;
    }
    pair.step("TxnOffsetCommit");
    let request =
        producer.each(epoch, |by| txn_commit(commit_at, &name, by, &to, &name, &[(0, 7), (1, 9)]));
    pair.ask_each(commit_at, &request)?;
    pair.step("TxnOffsetCommit to a partition that is not there");
    let request =
        producer.each(epoch, |by| txn_commit(commit_at, &name, by, &to, &name, &[(0, 7), (9, 9)]));
    pair.ask_each(commit_at, &request)?;
    pair.step("TxnOffsetCommit by a member of an unknown generation");
    if commit_at >= 3 {
        let request = producer.each(epoch, |by| {
            txn_commit(commit_at, &name, by, &to, &name, &[(0, 7)])
                .with_generation_id(3)
                .with_member_id(string("who"))
        });
        pair.ask_each(commit_at, &request)?;
    }
    let fetch_offsets = |pair: &mut Pair, stable: bool| -> Result {
        for version in pair.versions::<OffsetFetchRequest>() {
            if stable && version < 7 {
                continue;
            }
            let request =
                topic.names().map(|n| commits::fetch(version, &to, n, Some(&[0, 1]), stable));
            pair.ask_each(version, &request)?;
        }
        Ok(())
    };
    pair.step("OffsetFetch beside pending offsets");
    fetch_offsets(pair, false)?;
    pair.step("OffsetFetch of stable offsets beside pending ones");
    fetch_offsets(pair, true)?;

    pair.step(format!("EndTxn with a wrong epoch, {word}"));
    let ends = producer.each(epoch + 1, |by| end(&name, by, committed));
    pair.ask_each(version, &ends)?;
    pair.step("EndTxn with a wrong producer id");
    let ends = producer.id.map(|&id| end(&name, (id + 7, epoch), committed));
    pair.ask_each(version, &ends)?;
    pair.step(format!("EndTxn, {word}"));
    let ends = producer.each(epoch, |by| end(&name, by, committed));
    let answers = pair.ask_each(version, &ends)?;
    pair.step(format!("the transaction is done, {word}"));
    let request = list_offsets(9, &name, &[(0, -1, -1)], 1);
    // Three, two, two plain ones, the marker.
    pair.ask_until(9, &Both::same(request), |answer| {
        answer.topics.iter().flat_map(|topic| &topic.partitions).all(|p| p.offset == 8)
    })?;
    let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![tid(&name)]);
    pair.ask_until(0, &Both::same(request), |answer| {
        answer
            .transaction_states
            .iter()
            .all(|state| state.transaction_state.starts_with("Complete"))
    })?;
    pair.step(format!("EndTxn again, {word}"));
    pair.ask_each(version, &ends)?;
    pair.step(format!("EndTxn the other way after {word}"));
    let other = producer.each(epoch, |by| end(&name, by, !committed));
    pair.ask_each(version, &other)?;
    pair.step(format!("readers after {word}"));
    look(pair, &topic)?;
    pair.step(format!("OffsetFetch after {word}"));
    let request = topic.names().map(|n| commits::fetch(9, &to, n, Some(&[0, 1]), true));
    pair.ask_until(9, &request, |answer| {
        answer
            .groups
            .iter()
            .flat_map(|g| &g.topics)
            .flat_map(|t| &t.partitions)
            .all(|p| p.error_code == 0)
    })?;
    fetch_offsets(pair, true)?;
    pair.step(format!("Produce after {word} with the epoch of before"));
    if second {
        let next = answers.kafka.producer_epoch;
        send(pair, 0, 2, epoch, 5)?;
        pair.step(format!("Produce after {word} with the next epoch"));
        send(pair, 0, 2, next, 0)?;
        send(pair, 0, 2, next, 0)?;
        pair.step("EndTxn of a second transaction");
        let ends = producer.each(next, |by| end(&name, by, committed));
        pair.ask_each(version, &ends)?;
    }
    Ok(())
}

/// A second owner of a transactional id fences the first.
fn fencing(pair: &mut Pair) -> Result {
    for version in pair.versions::<InitProducerIdRequest>() {
        let name = format!("transactions-fence-{version}");
        let topic = pair.topic(&name, 1, &[])?;
        pair.step("InitProducerId by a first owner");
        let first = start(pair, version, &name)?;
        pair.step("AddPartitionsToTxn by a first owner");
        let request = first.each(first.epoch, |by| add(3, &name, by, &name, &[0]));
        pair.ask_each(3, &request)?;
        let start_ms = pair.start_ms;
        let send = |pair: &mut Pair, produce_at: i16, by: &Producer, sequence: i32| -> Result {
            let request = topic.names().zip(by.id).map(|(names, id)| {
                let batch = Batch::of(2, start_ms).by(*id, by.epoch, sequence).transactional();
                produce(produce_at, names, 0, Some(batch.bytes()), -1, Some(&name))
            });
            pair.ask_each(produce_at, &request)?;
            Ok(())
        };
        pair.step("Produce by a first owner");
        send(pair, 11, &first, 0)?;
        pair.step("InitProducerId by a second owner");
        let second = start(pair, version, &name)?;
        for (what, api) in [("Produce", 0), ("add", 1), ("offsets", 2), ("commit", 3), ("end", 4)] {
            pair.step(format!("{what} by the first owner, fenced"));
            let by = &first;
            match api {
                0 => {
                    for produce_at in pair.versions::<ProduceRequest>() {
                        send(pair, produce_at, by, 2)?;
                    }
                }
                1 => {
                    for add_at in 0..=3 {
                        let request = by.each(by.epoch, |by| add(add_at, &name, by, &name, &[0]));
                        pair.ask_each(add_at, &request)?;
                    }
                }
                2 => {
                    for add_at in pair.versions::<AddOffsetsToTxnRequest>() {
                        let request = by.each(by.epoch, |by| add_offsets(&name, by, &name));
                        pair.ask_each(add_at, &request)?;
                    }
                }
                3 => {
                    for commit_at in pair.versions::<TxnOffsetCommitRequest>() {
                        let request = by.each(by.epoch, |by| {
                            txn_commit(commit_at, &name, by, &name, &name, &[(0, 1)])
                        });
                        pair.ask_each(commit_at, &request)?;
                    }
                }
                _ => {
                    for end_at in pair.versions::<EndTxnRequest>() {
                        let request = by.each(by.epoch, |by| end(&name, by, true));
                        pair.ask_each(end_at, &request)?;
                    }
                }
            }
        }
        if version >= 3 {
            pair.step("InitProducerId by the first owner, fenced");
            let request = first.each(first.epoch, |by| init(version, &name, TIMEOUT_MS, Some(by)));
            pair.ask_each(version, &request)?;
            pair.step("InitProducerId by the second owner, as itself");
            let request =
                second.each(second.epoch, |by| init(version, &name, TIMEOUT_MS, Some(by)));
            pair.ask_each(version, &request)?;
        }
        pair.step("readers after the first owner was fenced");
        look(pair, &topic)?;
    }
    Ok(())
}

fn lists(pair: &mut Pair) -> Result {
    for (what, states, ids, duration_ms, pattern) in [
        ("all", &[][..], &[][..], -1, None),
        ("of a state", &["CompleteCommit"], &[], -1, None),
        ("of states", &["CompleteCommit", "Empty"], &[], -1, None),
        ("of an unknown state", &["Bored"], &[], -1, None),
        ("of an unknown producer", &[], &[987_654_321], -1, None),
        ("that last for long", &[], &[], 3_600_000, None),
        ("that last", &[], &[], 0, None),
        ("of a pattern", &[], &[], -1, Some("transactions-fence.*")),
        ("of a pattern that fits in part", &[], &[], -1, Some("fence")),
        ("of no pattern", &[], &[], -1, Some("")),
        ("of a pattern that is none", &[], &[], -1, Some("(")),
    ] {
        pair.step(format!("ListTransactions {what}"));
        for version in pair.versions::<ListTransactionsRequest>() {
            let request = ListTransactionsRequest::default()
                .with_state_filters(states.iter().map(|word| string(word)).collect())
                .with_producer_id_filters(ids.iter().map(|&id: &i64| id.into()).collect());
            if version < 1 && duration_ms >= 0 || version < 2 && pattern.is_some() {
                continue;
            }
            let request =
                if version >= 1 { request.with_duration_filter(duration_ms) } else { request };
            let request = if version >= 2 {
                request.with_transactional_id_pattern(pattern.map(string))
            } else {
                request
            };
            pair.ask(version, request)?;
        }
    }
    Ok(())
}
