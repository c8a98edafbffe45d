//! Sealed blocks of offset maps: where they lie in the state topic, and those lent to answers.
//!
//! A map keeps only where its blocks begin. Who asks about the far past of a partition (a consumer
//! that lags by many thousand runs, a target that lost that much) needs one block for it: one fetch
//! of a known offset. Compaction moves no offsets; where a place is not known, or is not true any
//! more, the shard is read for all of them.
//!
//! # Invariants
//!
//! 1. What is lent of all partitions together stays below [`LENT_BYTES`].
//! 2. A block is used only where its record's checksum held and the map knows its head.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::warn;
use twinlog_batch::Record;
use twinlog_client::{ClientError, Isolation};
use twinlog_offsets::Block;
use twinlog_offsets::state::{PartitionKey, StateKey, StateRecord};
use twinlog_types::TopicPartition;

use crate::cell::Cell;
use crate::flow::Flow;
use crate::parallel::in_parallel;
use crate::state;

/// Most bytes of blocks that are kept for answers.
const LENT_BYTES: usize = 32 << 20;
/// Blocks that are fetched at once.
const FETCHES_AT_ONCE: usize = 8;
/// Blocks that are fetched in one go at most.
const FETCHES_MAX: usize = 2_000;

/// Where the blocks of one partition lie in the state: offsets by number.
#[derive(Debug, Default)]
pub(crate) struct Places {
    first: u32,
    offsets: Vec<i64>,
}

impl Places {
    pub(crate) fn put(&mut self, number: u32, offset: i64) {
        if self.offsets.is_empty() {
            self.first = number;
        }
        let Some(at) = number.checked_sub(self.first).map(|at| at as usize) else {
            // Pruned long ago, or about to be found out by its checksum.
            return;
        };
        if at >= self.offsets.len() {
            self.offsets.resize(at + 1, -1);
        }
        self.offsets[at] = offset;
    }

    fn get(&self, number: u32) -> Option<i64> {
        let at = number.checked_sub(self.first)? as usize;
        self.offsets.get(at).copied().filter(|&offset| offset >= 0)
    }
}

type BlockId = (TopicPartition, u32);

/// Blocks of a flow's partitions.
#[derive(Default)]
pub(crate) struct Blocks {
    lent: Mutex<Lent>,
    /// Up to where each shard was read for places. Held while it is.
    read_to: tokio::sync::Mutex<BTreeMap<usize, i64>>,
}

#[derive(Default)]
struct Lent {
    /// With the tick of the last use.
    blocks: BTreeMap<BlockId, (u64, Arc<Block>)>,
    bytes: usize,
    tick: u64,
}

impl Lent {
    fn get(&mut self, id: &BlockId) -> Option<Arc<Block>> {
        self.tick += 1;
        let (used, block) = self.blocks.get_mut(id)?;
        *used = self.tick;
        Some(block.clone())
    }

    fn put(&mut self, id: BlockId, block: Arc<Block>) {
        self.tick += 1;
        self.bytes += block.memory_bytes();
        if let Some((_, before)) = self.blocks.insert(id, (self.tick, block)) {
            self.bytes -= before.memory_bytes();
        }
        while self.bytes > LENT_BYTES && self.blocks.len() > 1 {
            let oldest = self.blocks.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { break };
            if let Some((_, block)) = self.blocks.remove(&oldest) {
                self.bytes -= block.memory_bytes();
            }
        }
    }
}

impl Blocks {
    /// The block, when it was fetched before.
    pub(crate) fn lent(&self, cell: &Cell, number: u32) -> Option<Arc<Block>> {
        self.lent.lock().get(&(cell.source.clone(), number))
    }
}

/// Fetches what is wanted and not lent yet. What cannot be fetched is said in the log; its answers
/// wait.
pub(crate) async fn lend(flow: &Arc<Flow>, wanted: Vec<(Arc<Cell>, u32)>) {
    let mut missing = BTreeMap::new();
    for (cell, number) in wanted {
        if flow.blocks.lent(&cell, number).is_none() {
            missing.insert((cell.source.clone(), number), cell);
        }
    }
    let fetches = missing.into_iter().take(FETCHES_MAX).map(|((source, number), cell)| {
        let flow = flow.clone();
        async move {
            if let Err(error) = fetch(&flow, &cell, number).await {
                warn!(
                    flow = %flow.name, partition = %source, block = number, %error,
                    "a part of the offset map cannot be read; groups that stand in it wait"
                );
            }
        }
    });
    in_parallel(FETCHES_AT_ONCE, fetches.collect()).await;
}

/// The block of a partition with this number.
///
/// # Errors
///
/// When the state cannot be read, or does not hold it.
pub(crate) async fn fetch(
    flow: &Flow,
    cell: &Cell,
    number: u32,
) -> Result<Arc<Block>, ClientError> {
    if let Some(block) = flow.blocks.lent(cell, number) {
        return Ok(block);
    }
    let place = cell.blocks.lock().get(number);
    let mut found = match place {
        Some(offset) => read_at(flow, cell, number, offset).await?,
        None => None,
    };
    if found.is_none() {
        find_places(flow, cell.shard).await?;
        let place = cell.blocks.lock().get(number);
        found = match place {
            Some(offset) => read_at(flow, cell, number, offset).await?,
            None => None,
        };
    }
    let Some(block) = found.map(Arc::new) else {
        return Err(ClientError::Protocol {
            peer: state::topic_name(&flow.name.source).to_string(),
            api: "Fetch",
            reason: format!("block {number} of the offset map of {} is not there", cell.source),
        });
    };
    flow.blocks.lent.lock().put((cell.source.clone(), number), block.clone());
    Ok(block)
}

fn shard_of(flow: &Flow, shard: usize) -> TopicPartition {
    TopicPartition::new(state::topic_name(&flow.name.source), shard as i32)
}

/// The block whose record lies at `offset`; nothing when another record, or none, lies there.
async fn read_at(
    flow: &Flow,
    cell: &Cell,
    number: u32,
    offset: i64,
) -> Result<Option<Block>, ClientError> {
    let mut read: Option<Record> = None;
    let each = |record: Record| {
        read = (record.offset == offset).then_some(record);
        ControlFlow::Break(())
    };
    let tp = shard_of(flow, cell.shard);
    flow.target.read_partition_until(&tp, offset, Isolation::ReadCommitted, each).await?;
    Ok(read.and_then(|record| {
        let key = record.key.as_deref().unwrap_or_default();
        match StateRecord::decode(key, record.value.as_deref()) {
            Ok(Some(StateRecord::Block(key, found, bytes)))
                if key == cell.key && found == number =>
            {
                Block::decode(number, &bytes).ok()
            }
            _ => None,
        }
    }))
}

/// Reads what came into a shard since the last time for the places of blocks.
async fn find_places(flow: &Flow, shard: usize) -> Result<(), ClientError> {
    let mut read_to = flow.blocks.read_to.lock().await;
    let from = read_to.get(&shard).copied().unwrap_or(0);
    let cells: BTreeMap<PartitionKey, Arc<Cell>> = flow
        .cells
        .all()
        .into_iter()
        .filter(|cell| cell.shard == shard)
        .map(|cell| (cell.key.clone(), cell))
        .collect();
    let tp = shard_of(flow, shard);
    let end = flow
        .target
        .read_partition_each(&tp, from, Isolation::ReadCommitted, |record| {
            let key = StateKey::decode(record.key.as_deref().unwrap_or_default());
            if let Ok(StateKey::Block(key, number)) = key
                && record.value.is_some()
                && let Some(cell) = cells.get(&key)
            {
                cell.blocks.lock().put(number, record.offset);
            }
        })
        .await?;
    read_to.insert(shard, end);
    Ok(())
}

/// The blocks that exact answers for these positions need.
pub(crate) fn needed<'a>(
    flow: &Flow,
    positions: impl Iterator<Item = (&'a TopicPartition, i64)>,
) -> Vec<(Arc<Cell>, u32)> {
    let mut seen = BTreeSet::new();
    let mut needed = Vec::new();
    for (source, offset) in positions {
        let Some(cell) = flow.cells.get(source) else { continue };
        let number = cell.copier.lock().map().block_of_source(twinlog_types::SourceOffset(offset));
        if let Some(number) = number
            && seen.insert((source.clone(), number))
        {
            needed.push((cell, number));
        }
    }
    needed
}
