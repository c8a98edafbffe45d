//! ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

use twinlog_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use twinlog_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use twinlog_protocol::messages::{
    BrokerId, DeleteRecordsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, topic_name,
};

use crate::batches::Batch;
use crate::pair::{Pair, Result};
use crate::requests::{From, How, TIMEOUT_MS, fetch, list_offsets};

fn epochs(
    version: i16,
    topic: &str,
    partitions: &[(i32, i32, i32)],
) -> OffsetForLeaderEpochRequest {
    let partition = |&(index, current, wanted): &(i32, i32, i32)| {
        OffsetForLeaderPartition::default()
            .with_partition(index)
            .with_current_leader_epoch(current)
            .with_leader_epoch(wanted)
    };
    let topic = OffsetForLeaderTopic::default()
        .with_topic(topic_name(topic))
        .with_partitions(partitions.iter().map(partition).collect());
    let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
    if version >= 3 { request.with_replica_id(BrokerId(-1)) } else { request }
}

fn delete(topic: &str, partitions: &[(i32, i64)]) -> DeleteRecordsRequest {
    let partition = |&(index, offset): &(i32, i64)| {
        DeleteRecordsPartition::default().with_partition_index(index).with_offset(offset)
    };
    let topic = DeleteRecordsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(partitions.iter().map(partition).collect());
    DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT_MS)
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    let topic = pair.topic("offsets", 2, &[])?;
    let start = pair.start_ms;
    for batch in 0..5 {
        // The third batch is the newest by its times.
        let time = if batch == 2 { start + 60_000 } else { start + batch * 1000 };
        let batch = Batch::of(10, time).bytes();
        pair.write(&topic, 0, &batch)?;
    }
    for timestamp in [
        -1,
        -2,
        -3,
        -4,
        -5,
        -6,
        -7,
        -100,
        0,
        start - 1,
        start,
        start + 5,
        start + 999,
        start + 1000,
        start + 2000,
        start + 3005,
        start + 60_005,
        start + 60_009,
        start + 60_010,
        i64::MAX,
    ] {
        let what = if timestamp > 1 && timestamp < i64::MAX {
            format!("the start and {} ms", timestamp - start)
        } else {
            timestamp.to_string()
        };
        pair.step(format!("ListOffsets at {what}"));
        pair.ask_all(|version| list_offsets(version, "offsets", &[(0, -1, timestamp)], 0))?;
        if timestamp <= 0 {
            pair.step(format!("ListOffsets of committed records at {what}"));
            pair.ask_all(|version| list_offsets(version, "offsets", &[(0, -1, timestamp)], 1))?;
            pair.step(format!("ListOffsets of an empty partition at {what}"));
            pair.ask_all(|version| list_offsets(version, "offsets", &[(1, -1, timestamp)], 0))?;
        }
    }
    for (what, name, partitions) in [
        ("with the right epoch", "offsets", &[(0, 0, -1)][..]),
        ("with an epoch to come", "offsets", &[(0, 9, -1)]),
        ("of a partition that is not there", "offsets", &[(9, -1, -1)]),
        ("of a negative partition", "offsets", &[(-1, -1, -1)]),
        ("of an absent topic", "offsets-absent", &[(0, -1, -1)]),
        ("of a name that is none", "a b", &[(0, -1, -1)]),
        ("of several partitions", "offsets", &[(0, -1, -1), (1, -1, -2), (5, -1, -1)]),
        ("of a partition twice", "offsets", &[(0, -1, -1), (0, -1, -2)]),
        ("of no partition", "offsets", &[]),
    ] {
        pair.step(format!("ListOffsets {what}"));
        pair.ask_all(|version| list_offsets(version, name, partitions, 0))?;
    }
    pair.step("ListOffsets of nothing");
    pair.ask_all(|version| list_offsets(version, "offsets", &[], 0).with_topics(Vec::new()))?;
    let newest = pair.newest::<ListOffsetsRequest>();
    pair.step("ListOffsets with an isolation that is none");
    pair.ask(newest, list_offsets(newest, "offsets", &[(0, -1, -1)], 7))?;

    for (what, name, partitions) in [
        ("of the epoch that is", "offsets", &[(0, -1, 0)][..]),
        ("of the epoch that is, known", "offsets", &[(0, 0, 0)]),
        ("with an epoch to come", "offsets", &[(0, 5, 0)]),
        ("of an epoch to come", "offsets", &[(0, 0, 5)]),
        ("of no epoch", "offsets", &[(0, 0, -1)]),
        ("of an empty partition", "offsets", &[(1, 0, 0)]),
        ("of a partition that is not there", "offsets", &[(9, -1, 0)]),
        ("of an absent topic", "offsets-absent", &[(0, -1, 0)]),
        ("of several", "offsets", &[(0, -1, 0), (1, -1, 0), (9, -1, 0)]),
    ] {
        pair.step(format!("OffsetForLeaderEpoch {what}"));
        pair.ask_all(|version| epochs(version, name, partitions))?;
    }

    for (what, name, partitions) in [
        ("below the start", "offsets", &[(0, 0)][..]),
        ("inside a batch", "offsets", &[(0, 5)]),
        ("the same again", "offsets", &[(0, 5)]),
        ("back", "offsets", &[(0, 2)]),
        ("behind the end", "offsets", &[(0, 51)]),
        ("a negative offset", "offsets", &[(0, -2)]),
        ("at a border", "offsets", &[(0, 20)]),
        ("of an empty partition", "offsets", &[(1, 0)]),
        ("to the end of an empty partition", "offsets", &[(1, -1)]),
        ("of a partition that is not there", "offsets", &[(9, 0)]),
        ("of a negative partition", "offsets", &[(-1, 0)]),
        ("of an absent topic", "offsets-absent", &[(0, 0)]),
        ("of several", "offsets", &[(0, 21), (1, 5), (9, 0)]),
        ("of nothing", "offsets", &[]),
    ] {
        pair.step(format!("DeleteRecords {what}"));
        pair.ask_all(|_| delete(name, partitions))?;
    }
    for timestamp in [-1, -2, -3, -4, 0, start, start + 60_005] {
        pair.step("ListOffsets after DeleteRecords");
        pair.ask_all(|version| list_offsets(version, "offsets", &[(0, -1, timestamp)], 0))?;
    }
    pair.step("OffsetForLeaderEpoch after DeleteRecords");
    pair.ask_all(|version| epochs(version, "offsets", &[(0, 0, 0)]))?;
    for offset in [0, 20, 21, 25] {
        pair.step("Fetch after DeleteRecords");
        for version in [4, 5, 11, 12, 18] {
            let from = [From::at(0, offset)];
            let request = topic.names().map(|n| fetch(version, n, &from, How::default()));
            pair.ask_each(version, &request)?;
        }
    }
    pair.step("DeleteRecords to the end");
    pair.ask_all(|_| delete("offsets", &[(0, -1)]))?;
    // Not -3: Kafka finds the newest record even where it is deleted, as long as its segment lives.
    for timestamp in [-1, -2, 0, start] {
        pair.step("ListOffsets after everything was deleted");
        pair.ask_all(|version| list_offsets(version, "offsets", &[(0, -1, timestamp)], 0))?;
    }
    pair.step("OffsetForLeaderEpoch after everything was deleted");
    pair.ask_all(|version| epochs(version, "offsets", &[(0, 0, 0)]))?;

    for policy in ["compact", "compact,delete"] {
        let name = format!("offsets-{}", policy.replace(',', "-"));
        let topic = pair.topic(&name, 1, &[("cleanup.policy", policy)])?;
        let batch = Batch::of(4, start).bytes();
        pair.write(&topic, 0, &batch)?;
        pair.step(format!("DeleteRecords with the policy {policy}"));
        pair.ask_all(|_| delete(&name, &[(0, 2)]))?;
    }
    pair.step("DeleteRecords of an internal topic");
    pair.ask_all(|_| delete("__consumer_offsets", &[(0, 0)]))
}
