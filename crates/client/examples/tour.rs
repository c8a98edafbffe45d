//! A tour of the client against a broker that may be written to: makes a topic and a group, uses
//! every kind of call once, and deletes the topic again.
//!
//! ```text
//! cargo run -p twinlog-client --example tour -- 127.0.0.1:9092
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use twinlog_batch::{Codec, Record, encode};
use twinlog_client::{
    ClientError, Cluster, ClusterOptions, FetchOptions, FetchPartition, Isolation, NewTopic,
    OffsetSpec, ProducePartition, TcpDial, Topics,
};
use twinlog_types::{ConfigChange, Cut, GroupId, Sequence, TopicName, TopicPartition};

fn records(values: &[&'static str]) -> Vec<Record> {
    let record = |value: &&'static str| Record {
        offset: 0,
        timestamp: 1_700_000_000_000,
        key: Some(Bytes::from_static(b"key")),
        value: Some(Bytes::from_static(value.as_bytes())),
        headers: Vec::new(),
    };
    values.iter().map(record).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap: Vec<String> = std::env::args().skip(1).collect();
    let options = ClusterOptions { bootstrap, ..ClusterOptions::default() };
    let cluster = Cluster::new(options, Arc::new(TcpDial));
    println!("cluster {}, brokers {:?}", cluster.cluster_id().await?, cluster.brokers().await?);

    // Topics.
    let topic = TopicName::from("twinlog-tour");
    let tp = TopicPartition::new(topic.clone(), 0);
    let configs = BTreeMap::from([("cleanup.policy".to_owned(), "delete".to_owned())]);
    let new = NewTopic { name: topic.clone(), partitions: 1, replication_factor: -1, configs };
    let left_over = cluster.delete_topics(std::slice::from_ref(&topic)).await?;
    println!("left over from an earlier tour: {left_over:?}");
    let created = cluster.create_topics(std::slice::from_ref(&new)).await?;
    println!("created: {created:?}");
    println!("created again: {:?}", cluster.create_topics(&[new]).await?);
    cluster.create_partitions(&topic, 2).await?;
    let set = ConfigChange::Set("retention.ms".into(), "86400000".into());
    println!("altered: {:?}", cluster.alter_topic_configs(&topic, &[set]).await?);
    let unknown = ConfigChange::Set("retention.msec".into(), "1".into());
    println!("refused: {:?}", cluster.alter_topic_configs(&topic, &[unknown]).await?);
    let configs = cluster.describe_topic_configs(std::slice::from_ref(&topic)).await?;
    for entry in configs.get(&topic).into_iter().flatten().flatten().filter(|e| e.source == 1) {
        println!("config {} = {:?}", entry.name, entry.value);
    }
    let missing = TopicName::from("twinlog-tour-missing");
    for info in cluster.topics(Topics::Named(&[topic.clone(), missing])).await? {
        println!(
            "topic {} id {} {}: {} partitions",
            info.name,
            info.id,
            info.error,
            info.partitions.len()
        );
    }

    // A pipelined lane.
    let view = cluster.leader_view(&tp).await?;
    let (producer_id, producer_epoch) = cluster.init_producer_id().await?;
    let lane = cluster.produce_lane(view.broker()).await?;
    let mut pending = Vec::new();
    for first in [0, 2, 4] {
        let base_sequence = Sequence::of_count(first);
        let cut = Cut { producer_id, producer_epoch, base_sequence, count: 2 };
        let batch = encode(&records(&["one", "two"]), Codec::Lz4, cut);
        let partition = ProducePartition { tp: tp.clone(), topic_id: view.topic_id(), batch };
        pending.push(lane.send(vec![partition], 10_000)?);
    }
    for answer in pending {
        for told in answer.await?.partitions {
            println!("produced {} at {}: {}", told.tp, told.base_offset, told.error);
        }
    }

    // A look at the end of the log.
    println!("leader {} epoch {} end {}", view.broker(), view.epoch(), view.log_end().await?);
    println!("producers {:?}", view.producers().await?);
    let tail = view.fetch(4, 1 << 20, Duration::from_secs(1), Isolation::ReadUncommitted).await?;
    println!("tail from 4: {} bytes, high watermark {}", tail.records.len(), tail.high_watermark);
    match view.fetch(1000, 1 << 20, Duration::ZERO, Isolation::ReadUncommitted).await {
        Err(ClientError::Code { code, .. }) => println!("beyond the end: {code}"),
        other => println!("beyond the end: unexpected {other:?}"),
    }

    // An incremental session: the second fetch names only what moved.
    let mut session = cluster.fetch_session(view.broker(), FetchOptions::default());
    let mut wanted = FetchPartition {
        tp: tp.clone(),
        topic_id: view.topic_id(),
        offset: 0,
        last_fetched_epoch: -1,
        current_leader_epoch: view.epoch(),
        max_bytes: 0,
    };
    for _ in 0..3 {
        let answer = session.fetch(std::slice::from_ref(&wanted)).await?;
        for told in &answer.partitions {
            for batch in twinlog_batch::batches(told.records.clone()) {
                wanted.offset = batch?.head().next_offset();
            }
        }
        println!(
            "fetched {} partitions in {} bytes, next {}",
            answer.partitions.len(),
            answer.frame_bytes,
            wanted.offset
        );
    }

    // Transactions: the second owner fences the first.
    let mut first = cluster.transactional("twinlog-tour", Duration::from_mins(1)).await?;
    for value in ["a", "b", "c"] {
        first.write(vec![(tp.clone(), records(&[value]))]).await?;
    }
    println!("three transactions as {:?}", first.producer());
    let mut second = cluster.transactional("twinlog-tour", Duration::from_mins(1)).await?;
    println!("fenced: {}", first.write(vec![(tp.clone(), records(&["late"]))]).await.unwrap_err());
    let other = TopicPartition::new(topic.clone(), 1);
    second.write(vec![(tp.clone(), records(&["d"])), (other, records(&["e", "f"]))]).await?;
    println!("fourth transaction as {:?}", second.producer());

    // Offsets and records.
    let wanted = [
        (tp.clone(), OffsetSpec::Earliest),
        (tp.clone(), OffsetSpec::Latest),
        (tp.clone(), OffsetSpec::Timestamp(0)),
        (tp.clone(), OffsetSpec::MaxTimestamp),
        (TopicPartition::new("twinlog-tour-missing", 0), OffsetSpec::Latest),
    ];
    for (tp, answer) in cluster.list_offsets(&wanted, Isolation::ReadCommitted).await? {
        println!("offset of {tp}: {answer:?}");
    }
    println!("plain batch at {}", cluster.produce_plain(&tp, &records(&["plain"])).await?);
    let read = cluster.read_partition(&tp, 0, Isolation::ReadCommitted).await?;
    println!(
        "{} records, offsets {:?}",
        read.len(),
        read.iter().map(|r| r.offset).collect::<Vec<_>>()
    );

    // Groups.
    let group = GroupId::from("twinlog-tour");
    let commit = [(tp.clone(), 3, "from the tour".to_owned())];
    println!("committed: {:?}", cluster.commit_offsets(&group, &commit).await?);
    let groups = [group.clone(), GroupId::from("twinlog-tour-missing")];
    println!("committed offsets: {:?}", cluster.fetch_offsets(&groups).await?);

    // Where a share group begins.
    let share = GroupId::from("twinlog-tour-share");
    let begin = [(tp.clone(), 1, String::new())];
    println!("share group: {:?}", cluster.commit_share_offsets(&share, &begin).await?);
    let shares = BTreeSet::from([share.clone()]);
    println!("it begins: {:?}", cluster.fetch_positions(&[share], &shares).await?);
    for listing in cluster.list_groups().await?.into_iter().filter(|g| g.group == group) {
        println!("listed: {listing:?}");
        println!("described: {:?}", cluster.describe_group(&group, listing.kind).await?);
    }

    println!("records deleted: {:?}", cluster.delete_records(&[(tp, 2)]).await?);
    println!("deleted: {:?}", cluster.delete_topics(&[topic]).await?);
    Ok(())
}
