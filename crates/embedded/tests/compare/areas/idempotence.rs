//! Produce with producer ids and sequences, and what DescribeProducers tells of them.

use twinlog_protocol::messages::describe_producers_request::TopicRequest;
use twinlog_protocol::messages::{DescribeProducersRequest, InitProducerIdRequest, topic_name};

use crate::batches::Batch;
use crate::pair::{Pair, Result};
use crate::requests::{Topic, produce};

/// Sends a batch by a producer at a version that tells duplicates from fresh ones.
fn send(
    pair: &mut Pair,
    topic: &Topic,
    partition: i32,
    count: usize,
    by: (i64, i16, i32),
    acks: i16,
) -> Result {
    let batch = Batch::of(count, pair.start_ms).by(by.0, by.1, by.2).bytes();
    for_versions(pair, topic, partition, &batch, acks)
}

fn for_versions(
    pair: &mut Pair,
    topic: &Topic,
    partition: i32,
    batch: &bytes::Bytes,
    acks: i16,
) -> Result {
    // Sequences move on: every request has its own version, in turn.
    let version = 3 + (pair.tally().total() % 11) as i16;
    let request = topic
        .names()
        .map(|names| produce(version, names, partition, Some(batch.clone()), acks, None));
    pair.ask_each(version, &request)?;
    Ok(())
}

pub(crate) fn describe(topic: &str, partitions: &[i32]) -> DescribeProducersRequest {
    let topic = TopicRequest::default()
        .with_name(topic_name(topic))
        .with_partition_indexes(partitions.to_vec());
    DescribeProducersRequest::default().with_topics(vec![topic])
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    let topic = pair.topic("idempotence", 8, &[])?;
    let pid = 777_000;

    pair.step("ten batches by one producer");
    for batch in 0..10 {
        send(pair, &topic, 0, 10, (pid, 0, batch * 10), -1)?;
    }
    for back in 1..=10 {
        pair.step(format!("the {back}. last batch again"));
        send(pair, &topic, 0, 10, (pid, 0, 100 - back * 10), -1)?;
    }
    for (what, count, sequence) in [
        ("half old and half new", 10, 95),
        ("a part of an old batch", 5, 90),
        ("another count at an old sequence", 20, 90),
        ("two old batches as one", 20, 80),
        ("a gap", 10, 110),
        ("a large gap", 10, 100_000),
        ("the largest sequence", 1, i32::MAX),
        ("the start again", 10, 0),
        ("the start with one record", 1, 0),
        ("the right next one", 10, 100),
        ("the same again", 10, 100),
    ] {
        pair.step(format!("a batch that is {what}"));
        send(pair, &topic, 0, count, (pid, 0, sequence), -1)?;
        pair.step(format!("a batch that is {what}, one acknowledgement"));
        send(pair, &topic, 0, count, (pid, 0, sequence), 1)?;
    }
    for (what, epoch, count, sequence) in [
        ("a new epoch in mid-sequence", 1, 10, 110),
        ("a new epoch from the start", 1, 10, 0),
        ("the new epoch goes on", 1, 10, 10),
        ("the old epoch", 0, 10, 110),
        ("the old epoch again", 0, 10, 100),
        ("the new epoch again", 1, 10, 10),
        ("an epoch far ahead", 8, 10, 0),
        ("the last epoch there is", 32767, 10, 0),
        ("an epoch of old", 1, 10, 20),
    ] {
        pair.step(format!("a batch with {what}"));
        send(pair, &topic, 0, count, (pid, epoch, sequence), -1)?;
    }

    pair.step("a first batch in mid-sequence");
    send(pair, &topic, 1, 10, (pid, 0, 500), -1)?;
    send(pair, &topic, 1, 10, (pid, 0, 510), -1)?;
    pair.step("a sequence that wraps");
    for (count, sequence) in
        [(5, i32::MAX - 2), (1, 2), (5, i32::MAX - 2), (1, 2), (3, 3), (1, 0), (1, 7)]
    {
        send(pair, &topic, 2, count, (pid, 0, sequence), -1)?;
    }
    pair.step("a sequence that ends at the largest");
    for (count, sequence) in [(5, i32::MAX - 4), (5, 0), (5, i32::MAX - 4), (5, 0)] {
        send(pair, &topic, 3, count, (pid, 0, sequence), -1)?;
    }
    pair.step("several producers in a partition");
    for id in [pid, pid + 1, pid + 2] {
        for sequence in [0, 2, 0, 9] {
            send(pair, &topic, 4, 2, (id, 0, sequence), -1)?;
        }
    }
    pair.step("batches without a time, twice");
    let timeless = Batch::of(1, -1).by(pid, 0, 0).bytes();
    for _ in 0..2 {
        for_versions(pair, &topic, 5, &timeless, -1)?;
    }
    pair.step("compressed batches, twice");
    for codec in 1..=4 {
        let batch = Batch::of(3, pair.start_ms).compressed(codec);
        let batch = batch.by(pid, 0, i32::from(codec - 1) * 3).bytes();
        for _ in 0..2 {
            for_versions(pair, &topic, 6, &batch, -1)?;
        }
    }
    let stamped =
        pair.topic("idempotence-append-time", 1, &[("message.timestamp.type", "LogAppendTime")])?;
    pair.step("batches where the broker sets the time, twice");
    for sequence in [0, 0, 4, 4, 0] {
        send(pair, &stamped, 0, 4, (pid, 0, sequence), -1)?;
    }

    for (what, name, partitions) in [
        ("of all partitions", "idempotence", &[0, 1, 2, 3, 4, 5, 6, 7][..]),
        ("of a partition that is not there", "idempotence", &[9]),
        ("of a negative partition", "idempotence", &[-1]),
        ("of an absent topic", "idempotence-absent", &[0]),
        ("of a name that is none", "a b", &[0]),
        ("of no partition", "idempotence", &[]),
        ("where the broker sets the time", "idempotence-append-time", &[0]),
    ] {
        pair.step(format!("DescribeProducers {what}"));
        pair.ask_all(|_| describe(name, partitions))?;
    }

    pair.step("InitProducerId without a transactional id");
    for version in pair.versions::<InitProducerIdRequest>() {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(60_000);
        pair.ask(version, request.clone())?;
        if version >= 3 {
            pair.step("InitProducerId with a producer id and epoch");
            let request = request.with_producer_id(pid.into()).with_producer_epoch(3);
            pair.ask(version, request)?;
            pair.step("InitProducerId without a transactional id");
        }
    }
    Ok(())
}
