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
use twinlog_offsets::state::PartitionKey;
use twinlog_types::{Code, TopicPartition};

use crate::cell::Cell;
use crate::factors::{Purpose, hint};
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
    let mut emitting: BTreeMap<PartitionKey, Emitting> = BTreeMap::new();
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
                    let hint = hint(&flow.config, Purpose::OffsetSyncs, &error);
                    let text = format!(
                        "{topic} cannot be written: {error}{hint}; MM2 and its clients translate from old syncs, twinlog itself does not need them"
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
    emitting: &mut BTreeMap<PartitionKey, Emitting>,
    rules: SyncRules,
) -> Vec<Record> {
    let now_ms = flow.now_ms();
    let mut records = Vec::new();
    for cell in flow.cells.all() {
        let one = emitting.entry(cell.key.clone()).or_insert_with(|| Emitting {
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

#[cfg(test)]
mod tests {
    use twinlog_batch::{Codec, encode_plain};
    use twinlog_flow::copy::{Answer, Copier, Fetched, Limits, Producer, Setup, Tail};
    use twinlog_offsets::state::PartitionKey;
    use twinlog_types::{ClusterId, SourceOffset, TargetOffset, TopicId};

    use super::*;

    /// A partition whose batches have two records each.
    fn cell() -> Arc<Cell> {
        let (source, target) =
            (TopicPartition::new("orders", 0), TopicPartition::new("hello.orders", 0));
        let setup = Setup {
            source_topic: source.topic.clone(),
            target_topic: target.topic.clone(),
            limits: Limits { batch_records: 2, merge_below: 0, ..Limits::default() },
            drop_aborted: true,
            recompress: None,
        };
        let producer = Producer { id: 4_000, epoch: 0 };
        let copier = Copier::new(setup, producer, SourceOffset(0), TargetOffset(0));
        let key = PartitionKey {
            source_cluster: ClusterId::from("one"),
            target_cluster: ClusterId::from("other"),
            source_topic: TopicId([1; 16]),
            target_topic: TopicId([2; 16]),
            generation: 0,
            partition: 0,
        };
        let ids = (key.source_topic, key.target_topic);
        Cell::new(key, (source, ids.0), (target, ids.1), 0, copier)
    }

    /// The log's end is `end`, and ours up to there.
    fn look(copier: &mut Copier, end: i64, last_sequence: Option<i32>) {
        let end = TargetOffset(end);
        copier.looked(&Tail {
            leader_epoch: 0,
            log_start: TargetOffset(0),
            log_end: end,
            agreed: end,
            last_sequence,
            batches: Vec::new(),
        });
        if let Some(original) = copier.wants_original() {
            copier.original_read(original, 0);
        }
        store(copier);
    }

    fn store(copier: &mut Copier) {
        while copier.take_state().is_some() {
            copier.state_stored();
        }
    }

    /// The source has `records` records, and what is not copied of them lands at `bases`.
    fn copy(copier: &mut Copier, records: i64, bases: &[i64]) {
        let all: Vec<Record> = (0..records)
            .map(|offset| Record {
                offset,
                timestamp: 1_700_000_000_000,
                key: None,
                value: None,
                headers: Vec::new(),
            })
            .collect();
        copier.fetched(Fetched {
            from: copier.wants_fetch().expect("it wants to be fetched for").offset,
            records: encode_plain(&all, Codec::None).to_bytes(),
            aborted: Vec::new(),
            keep: Arc::new(()),
        });
        for &base in bases {
            store(copier);
            let sending = copier.next_send().expect("a batch can be sent");
            copier.answered(sending.ticket, Answer::Stored { base: TargetOffset(base) });
        }
        store(copier);
        assert!(!copier.has_unsent());
    }

    #[test]
    fn an_end_that_was_lost_and_came_back_elsewhere_between_two_looks_is_synced_anew() {
        let cell = cell();
        let rules = SyncRules { lag_max: 100, run_interval_ms: 1_000 };
        let mut one = Emitting { emitter: SyncEmitter::new(rules), count: 0, last: None };
        let mut due = |now_ms| -> Vec<(i64, i64)> {
            let pairs = due_of(&cell, &mut one, now_ms);
            pairs.iter().map(|pair| (pair.source.0, pair.target.0)).collect()
        };
        look(&mut cell.copier.lock(), 0, None);
        // Five records of somebody else come in between.
        copy(&mut cell.copier.lock(), 4, &[0, 7]);
        assert_eq!((due(0), due(1_000)), (vec![(0, 0)], vec![(3, 8)]));
        // They are lost with what is behind them, and more is copied than there was.
        cell.copier.lock().look_first();
        look(&mut cell.copier.lock(), 2, Some(1));
        copy(&mut cell.copier.lock(), 6, &[2, 4]);
        assert_eq!(due(2_000), []);
        // A source offset below its newest sync's makes MM2's reader forget what it had.
        assert_eq!((due(3_000), due(4_000)), (vec![(0, 0)], vec![(5, 5)]));
    }
}
