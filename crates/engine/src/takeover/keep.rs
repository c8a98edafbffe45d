//! Keeps MM2's copy positions, so that MM2 can go on where this process ends.
//!
//! Written where the topic exists that MM2 would read them from: `mm2-offsets.<source>.internal`,
//! or the topic they were found in. Every few seconds, and once more at the end.
//!
//! Does not: fence anybody. A process that lost its flow and does not know it yet may write a
//! position that is a few seconds old; the owner's next one follows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};
use twinlog_batch::Record;
use twinlog_client::{ClientError, ErrorCode, Topics};
use twinlog_mirror::formats::connect::{CopyPosition, partition_of_key};
use twinlog_types::{TopicName, TopicPartition};

use super::mm2::{self, Left};
use crate::flow::Flow;

const INTERVAL: Duration = Duration::from_secs(5);
/// How often a topic that does not exist is looked for.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Where positions are written.
struct Place {
    topic: TopicName,
    partitions: i32,
    connector: String,
}

/// Writes positions until the flow has ended; the last ones when everything is settled.
pub(crate) async fn run(flow: Arc<Flow>) {
    let ending = flow.ending();
    let mut written = BTreeMap::new();
    let mut place = None;
    let mut look_due = Instant::now();
    let mut said = false;
    loop {
        tokio::select! {
            biased;
            () = ending.drained_signal() => {}
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let last = ending.drained();
        let writing = async {
            if place.is_none() && Instant::now() >= look_due {
                place = find(&flow).await?;
                look_due = Instant::now() + LOOK_AGAIN;
            }
            match &place {
                Some(place) => write(&flow, place, &mut written).await,
                None => Ok(()),
            }
        };
        match writing.await {
            Ok(()) => said = false,
            Err(error) if !said => {
                said = true;
                warn!(flow = %flow.name, %error, "MM2's copy positions cannot be written; only an MM2 that is started later would miss them");
            }
            Err(_) => {}
        }
        if last {
            if let Some(place) = place {
                info!(flow = %flow.name, topic = %place.topic, "MM2's copy positions written");
            }
            return;
        }
    }
}

async fn find(flow: &Flow) -> Result<Option<Place>, ClientError> {
    let left = &Left::read_positions(&flow.config, &flow.target).await?;
    if let (Some(topic), false) = (&left.topic, left.positions.is_empty()) {
        let connector = mm2::connector_name(left);
        return Ok(Some(Place {
            topic: topic.clone(),
            partitions: left.topic_partitions,
            connector,
        }));
    }
    let topic = flow.config.copy_positions_topic();
    let listed = flow.target.topics(Topics::Named(std::slice::from_ref(&topic))).await?;
    let there = listed.first().filter(|topic| topic.error == ErrorCode::NONE);
    Ok(there.map(|found| Place {
        topic: topic.clone(),
        partitions: found.partitions.len() as i32,
        connector: mm2::connector_name(left),
    }))
}

async fn write(
    flow: &Flow,
    place: &Place,
    written: &mut BTreeMap<TopicPartition, i64>,
) -> Result<(), ClientError> {
    let now_ms = flow.now_ms();
    let mut due: BTreeMap<i32, Vec<(TopicPartition, i64, Record)>> = BTreeMap::new();
    for cell in flow.cells.all() {
        let last = {
            let copier = cell.copier.lock();
            let map = copier.map();
            let begun = map.acknowledged() > 0 || map.before().is_some();
            (copier.is_settled() && begun).then(|| map.copied_to().0 - 1)
        };
        let Some(last) = last.filter(|&last| last >= 0) else { continue };
        if written.get(&cell.source) == Some(&last) {
            continue;
        }
        let position = CopyPosition {
            connector: place.connector.clone(),
            cluster: flow.name.source.clone(),
            topic: cell.source.topic.clone(),
            partition: cell.source.partition,
        };
        let key = position.key();
        let partition = partition_of_key(&key, place.partitions);
        let record = Record {
            offset: 0,
            timestamp: now_ms,
            key: Some(key),
            value: Some(CopyPosition::value(last)),
            headers: Vec::new(),
        };
        due.entry(partition).or_default().push((cell.source.clone(), last, record));
    }
    for (partition, positions) in due {
        let tp = TopicPartition { topic: place.topic.clone(), partition };
        for chunk in positions.chunks(1_000) {
            let records: Vec<Record> = chunk.iter().map(|(_, _, record)| record.clone()).collect();
            flow.target.produce_plain(&tp, &records).await?;
            written.extend(chunk.iter().map(|(source, last, _)| (source.clone(), *last)));
        }
    }
    Ok(())
}
