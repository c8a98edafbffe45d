//! Writes MM2's offset-syncs, for MM2 and its clients. Our own translation never reads them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use twinlog_batch::Record;
use twinlog_client::ClientError;
use twinlog_flow::syncs::{Stretch, SyncEmitter, SyncPair, SyncRules};
use twinlog_mirror::formats::OffsetSync;
use twinlog_offsets::OffsetMap;
use twinlog_types::{Code, TopicPartition};

use crate::cell::Cell;
use crate::flow::Flow;
use crate::internal;

const INTERVAL: Duration = Duration::from_secs(1);
/// Syncs of one partition and round at most.
const POINTS_MAX: u64 = 16;

struct Emitting {
    emitter: SyncEmitter,
    /// Records told to the emitter so far.
    count: u64,
    /// Where the last of them was.
    last: Option<SyncPair>,
}

/// Writes syncs until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>) {
    if !flow.config.emit_offset_syncs_enabled {
        return;
    }
    let on_target = flow.config.offset_syncs_on_target;
    let cluster = if on_target { flow.target.clone() } else { flow.source.clone() };
    let topic = flow.config.offset_syncs_topic();
    let tp = TopicPartition { topic: topic.clone(), partition: 0 };
    let rules = SyncRules {
        lag_max: flow.config.offset_lag_max,
        run_interval_ms: INTERVAL.as_millis() as i64,
    };
    let mut emitting: BTreeMap<TopicPartition, Emitting> = BTreeMap::new();
    let mut ready = false;
    let mut said = false;
    let ending = flow.ending();
    loop {
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let factor = flow.config.offset_syncs_topic_replication_factor;
        let writing = async {
            if !ready {
                internal::ensure_compacted(&cluster, &topic, factor).await?;
                ready = true;
            }
            let records = due(&flow, &mut emitting, rules);
            for chunk in records.chunks(1_000) {
                cluster.produce_plain(&tp, chunk).await?;
            }
            Ok::<_, ClientError>(())
        };
        let written = tokio::select! {
            biased;
            () = ending.ended() => return,
            written = writing => written,
        };
        match written {
            Ok(()) => said = false,
            Err(error) => {
                for one in emitting.values_mut() {
                    one.emitter.failed();
                }
                if !said {
                    said = true;
                    let text = format!(
                        "{topic} cannot be written: {error}; MM2 and its clients translate from old syncs, twinlog itself does not need them"
                    );
                    warn!(flow = %flow.name, code = %Code::OffsetSyncsUnreadable, "{text}");
                    let now_ms = flow.now_ms();
                    flow.board.event(&flow.name, None, Code::OffsetSyncsUnreadable, text, now_ms);
                }
            }
        }
    }
}

fn due(
    flow: &Flow,
    emitting: &mut BTreeMap<TopicPartition, Emitting>,
    rules: SyncRules,
) -> Vec<Record> {
    let now_ms = flow.now_ms();
    let mut records = Vec::new();
    for cell in flow.cells.all() {
        let one = emitting.entry(cell.source.clone()).or_insert_with(|| Emitting {
            emitter: SyncEmitter::new(rules),
            count: 0,
            last: None,
        });
        for pair in due_of(&cell, one, now_ms) {
            let sync = OffsetSync {
                topic: cell.source.topic.clone(),
                partition: cell.source.partition,
                upstream: pair.source.0,
                downstream: pair.target.0,
            };
            records.push(Record {
                offset: 0,
                timestamp: now_ms,
                key: Some(sync.key()),
                value: Some(sync.value()),
                headers: Vec::new(),
            });
        }
    }
    records
}

fn due_of(cell: &Cell, one: &mut Emitting, now_ms: i64) -> Vec<SyncPair> {
    let copier = cell.copier.lock();
    if !copier.is_settled() {
        return Vec::new();
    }
    let map = copier.map();
    let acknowledged = map.acknowledged();
    if acknowledged < one.count {
        one.count = acknowledged;
        one.last = acknowledged.checked_sub(1).and_then(|last| pair(map, last));
        return one
            .emitter
            .cut(acknowledged.checked_sub(1).and_then(|last| pair(map, last)), now_ms);
    }
    // The target lost its end and has it again since the last time, at other offsets.
    let known = one.count.checked_sub(1).and_then(|last| pair(map, last));
    if known.is_some() && known != one.last {
        (one.count, one.last) = (0, None);
        return one.emitter.cut(None, now_ms);
    }
    if acknowledged == one.count {
        let mut pairs = one.emitter.tick(now_ms);
        if copier.unacknowledged() == 0 {
            pairs.extend(one.emitter.rest(now_ms));
        }
        return pairs;
    }
    // A few records of what is new, the last among them; the first of all where it is the first.
    let new = acknowledged - one.count;
    let step = new.div_ceil(POINTS_MAX).max(1);
    let mut pairs = Vec::new();
    let mut at = one.count;
    loop {
        if let Some(first) = pair(map, at) {
            pairs.extend(one.emitter.acknowledged(Stretch { first, records: 1 }, now_ms));
        }
        if at + 1 >= acknowledged {
            break;
        }
        at = (at + step).min(acknowledged - 1);
    }
    one.count = acknowledged;
    one.last = pair(map, acknowledged - 1);
    pairs
}

fn pair(map: &OffsetMap, count: u64) -> Option<SyncPair> {
    Some(SyncPair { source: map.source_of(count)?, target: map.target_of(count)? })
}
