//! The durable state: a compacted topic on the target, written in transactions only.
//!
//! Each partition of the topic (a *shard*) has a transactional id, which only the flow's owner can
//! write under ([`ownership`](crate::ownership)). There are no local files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tracing::{info, warn};
use twinlog_batch::Record;
use twinlog_client::{ClientError, Cluster, ErrorCode, Isolation, NewTopic, Topics, Transactional};
use twinlog_offsets::StateError;
use twinlog_offsets::state::{
    Answer, Gap, GroupJournal, Lease, PartitionKey, Position, StateKey, StateRecord, Subject,
};
use twinlog_offsets::{Block, Changes, Durable, Inherited, OffsetMap, SealedBlock, Stretch};
use twinlog_types::{
    ClusterAlias, ClusterId, Code, GroupId, Partition, Planted, SourceOffset, TopicId, TopicName,
    TopicPartition, planted,
};

use crate::cell::Cell;
use crate::ending::Ending;
use crate::flow::Flow;
use crate::late;
use crate::notes::Taken;
use crate::ownership::{self, LEASE_INTERVAL};

/// Partitions of a state topic that is made now; an existing one keeps its own number.
pub(crate) const SHARDS: i32 = 4;
/// State that nothing waits for is written this often at most.
const WRITE_INTERVAL: Duration = Duration::from_millis(500);
/// Most bytes of one state transaction, beyond the first partition's records.
const WRITE_BYTES: usize = 512 << 10;
/// After so long without an answer the coordinator aborts a state transaction.
pub(crate) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The name of the state topic of everything mirrored from `source`.
pub fn topic_name(source: &ClusterAlias) -> TopicName {
    TopicName::from(format!("mm2-twinlog.{source}.internal"))
}

pub(crate) fn transactional_id(source: &ClusterAlias, shard: usize) -> String {
    format!("mm2-twinlog.{source}.internal-{shard}")
}

/// What one partition's records in the state say.
#[derive(Clone, Debug, Default)]
pub struct PartitionState {
    /// The newest position.
    pub position: Option<Position>,
    /// Segments of its map.
    pub segments: BTreeMap<u32, Bytes>,
    /// Sealed blocks of its map, with where their records lie in the state.
    pub blocks: BTreeMap<u32, (i64, Block)>,
    /// Ranges that could not be copied, by their first source offset.
    pub gaps: BTreeMap<u64, Gap>,
    /// What is known of records that somebody else copied. With none nothing was taken over.
    pub inherited: BTreeMap<SourceOffset, Stretch>,
    /// A record that could not be read, and why.
    pub damaged: Option<String>,
}

impl PartitionState {
    /// The map that the position vouches for, with all of its runs at hand.
    ///
    /// # Errors
    ///
    /// When a segment or block is missing or damaged: nothing is guessed.
    pub fn map(&self, position: &Position) -> Result<OffsetMap, StateError> {
        let (mut map, _) = self.sealed_map(position)?;
        while let Some(number) = map.blocks().last() {
            let (_, block) =
                self.blocks.get(&number).ok_or(StateError::BlockMissing { block: number })?;
            map.reopen(block)?;
        }
        Ok(map)
    }

    /// The map that the position vouches for, and what of it is durable. Blocks stay sealed.
    ///
    /// # Errors
    ///
    /// As [`map`](Self::map).
    pub(crate) fn sealed_map(
        &self,
        position: &Position,
    ) -> Result<(OffsetMap, Durable), StateError> {
        let segments = self.segments.iter().map(|(&number, bytes)| (number, bytes.clone()));
        let blocks = self.blocks.values().map(|(_, block)| SealedBlock::from(block));
        let mut map = OffsetMap::restore(position, blocks, segments)?;
        if !self.inherited.is_empty() {
            let mut before = Inherited::new();
            for stretch in self.inherited.values() {
                before.insert(stretch.clone())?;
            }
            map.set_before(before);
        }
        let durable = Durable::found(&map, numbers(&self.segments), numbers(&self.blocks));
        Ok((map, durable))
    }
}

impl PartitionState {
    /// What must go when another map takes this one's place.
    pub(crate) fn left_over(&self) -> Durable {
        Durable::left_over(numbers(&self.segments), numbers(&self.blocks))
    }
}

/// From the first number to the last.
fn numbers<T>(kept: &BTreeMap<u32, T>) -> Range<u32> {
    match (kept.first_key_value(), kept.last_key_value()) {
        (Some((&first, _)), Some((&last, _))) => first..last + 1,
        _ => 0..0,
    }
}

/// Everything that the state topic holds for one pair of clusters.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// By partition.
    pub partitions: BTreeMap<PartitionKey, PartitionState>,
    /// The newest lease.
    pub lease: Option<Lease>,
    /// The last lease of whoever owned the flow before the newest one's writer.
    lease_before: Option<Lease>,
    /// What was written for groups, by partition.
    pub journals: BTreeMap<PartitionKey, BTreeMap<GroupId, GroupJournal>>,
    /// What became of operators' decisions.
    pub answers: BTreeMap<Subject, Answer>,
    /// Records that could not be read: where, and why.
    pub damaged: Vec<String>,
    /// Mirrors that were copied from another cluster than the source is now.
    pub elsewhere: Elsewhere,
}

/// What the state says of mirrors of other sources under the same alias.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    /// From which cluster each was copied, by the topic of the target and the partition.
    pub mirrors: BTreeMap<(TopicId, Partition), ClusterId>,
    /// When somebody last said that they run it, in milliseconds since 1970.
    pub renewed_ms: Option<i64>,
}

impl Stored {
    /// The last lease that was not `instance`'s. Its own newest one may not be readable yet.
    pub(crate) fn lease_of_another(&self, instance: &str) -> Option<&Lease> {
        [&self.lease, &self.lease_before].into_iter().flatten().find(|one| one.instance != instance)
    }

    /// Takes one record in. Records of other cluster pairs are left alone.
    fn take(&mut self, pair: &(ClusterId, ClusterId), at: &TopicPartition, record: &Record) {
        let key = record.key.as_deref().unwrap_or_default();
        match StateRecord::decode(key, record.value.as_deref()) {
            Ok(Some(StateRecord::Position(key, position))) if ours(&key, pair) => {
                self.partitions.entry(key).or_default().position = Some(position);
            }
            Ok(Some(StateRecord::Position(key, _))) if key.target_cluster == pair.1 => {
                let mirror = (key.target_topic, key.partition);
                self.elsewhere.mirrors.insert(mirror, key.source_cluster);
            }
            Ok(Some(StateRecord::Segment(key, number, segment))) if ours(&key, pair) => {
                self.partitions.entry(key).or_default().segments.insert(number, segment);
            }
            Ok(Some(StateRecord::Block(key, number, bytes))) if ours(&key, pair) => {
                let partition = self.partitions.entry(key).or_default();
                match Block::decode(number, &bytes) {
                    Ok(block) => drop(partition.blocks.insert(number, (record.offset, block))),
                    Err(error) => {
                        let what = format!("{at} offset {}: {error}", record.offset);
                        partition.damaged = Some(what.clone());
                        self.damaged.push(what);
                    }
                }
            }
            Ok(Some(StateRecord::Gap(key, number, gap))) if ours(&key, pair) => {
                self.partitions.entry(key).or_default().gaps.insert(number, gap);
            }
            Ok(Some(StateRecord::Inherited(key, stretch))) if ours(&key, pair) => {
                let partition = self.partitions.entry(key).or_default();
                partition.inherited.insert(stretch.from(), stretch);
            }
            Ok(Some(StateRecord::Lease { source_cluster, target_cluster, lease, .. }))
                if source_cluster == pair.0 && target_cluster == pair.1 =>
            {
                let newest = &lease.instance;
                if let Some(before) = self.lease.take_if(|before| before.instance != *newest) {
                    self.lease_before = Some(before);
                }
                self.lease = Some(lease);
            }
            Ok(Some(StateRecord::Lease { target_cluster, lease, .. }))
                if target_cluster == pair.1 =>
            {
                let renewed_ms = Some(lease.renewed_ms);
                self.elsewhere.renewed_ms = self.elsewhere.renewed_ms.max(renewed_ms);
            }
            Ok(Some(StateRecord::Journal(key, group, journal))) if ours(&key, pair) => {
                self.journals.entry(key).or_default().insert(group, journal);
            }
            Ok(Some(StateRecord::Answer(of, subject, answer)))
                if of.source_cluster == pair.0 && of.target_cluster == pair.1 =>
            {
                self.answers.insert(subject, answer);
            }
            Ok(Some(_)) => {}
            Ok(None) => self.remove(pair, key),
            Err(error) => {
                let what = format!("{at} offset {}: {error}", record.offset);
                if let Some(key) = partition_of(key).filter(|key| ours(key, pair)) {
                    self.partitions.entry(key).or_default().damaged = Some(what.clone());
                }
                self.damaged.push(what);
            }
        }
    }
}

impl Stored {
    /// Takes a tombstone in.
    fn remove(&mut self, pair: &(ClusterId, ClusterId), key: &[u8]) {
        match StateKey::decode(key) {
            Ok(StateKey::Segment(key, number)) if ours(&key, pair) => {
                self.partitions.entry(key).or_default().segments.remove(&number);
            }
            Ok(StateKey::Block(key, number)) if ours(&key, pair) => {
                self.partitions.entry(key).or_default().blocks.remove(&number);
            }
            Ok(StateKey::Journal(key, group)) if ours(&key, pair) => {
                if let Some(groups) = self.journals.get_mut(&key) {
                    groups.remove(&group);
                }
            }
            // No others are written.
            _ => {}
        }
    }

    /// What a partition is taken up with. Its map leaves the memory here, and is the cell's.
    pub(crate) fn take_up(&mut self, key: &PartitionKey) -> Option<PartitionState> {
        let partition = self.partitions.get_mut(key)?;
        let left = PartitionState {
            segments: BTreeMap::new(),
            blocks: BTreeMap::new(),
            ..partition.clone()
        };
        Some(std::mem::replace(partition, left))
    }
}

/// Whose record a key names, where the key itself can be read.
fn partition_of(key: &[u8]) -> Option<PartitionKey> {
    match StateKey::decode(key).ok()? {
        StateKey::Position(key)
        | StateKey::Segment(key, _)
        | StateKey::Block(key, _)
        | StateKey::Gap(key, _)
        | StateKey::Inherited(key, _) => Some(key),
        // Without its journal a group stays where it is: the partition goes on.
        StateKey::Lease { .. }
        | StateKey::Journal(..)
        | StateKey::Decision(..)
        | StateKey::Answer(..) => None,
    }
}

fn ours(key: &PartitionKey, pair: &(ClusterId, ClusterId)) -> bool {
    key.source_cluster == pair.0 && key.target_cluster == pair.1
}

/// Reads the whole state without owning it.
///
/// # Errors
///
/// When the target cannot be read. A topic that does not exist is an empty state.
pub(crate) async fn read(
    target: &Cluster,
    source: &ClusterAlias,
    pair: &(ClusterId, ClusterId),
) -> Result<Stored, ClientError> {
    let topic = topic_name(source);
    let mut stored = Stored::default();
    for shard in 0..partitions_seen(target, &topic).await? {
        read_shard(target, &topic, shard, 0, pair, &mut stored).await?;
    }
    Ok(stored)
}

pub(crate) async fn partitions(target: &Cluster, topic: &TopicName) -> Result<i32, ClientError> {
    let listed = target.topics(Topics::Named(std::slice::from_ref(topic))).await?;
    Ok(listed
        .first()
        .filter(|info| info.error.is_ok())
        .map_or(0, |info| info.partitions.len() as i32))
}

/// The same for who only looks: a topic that may not be described may be there, and nobody may call
/// that a flow that was never run.
///
/// # Errors
///
/// When the target cannot be asked, or may not be asked for it.
pub(crate) async fn partitions_seen(
    target: &Cluster,
    topic: &TopicName,
) -> Result<i32, ClientError> {
    let listed = target.topics(Topics::Named(std::slice::from_ref(topic))).await?;
    let Some(info) = listed.first() else { return Ok(0) };
    if info.error == ErrorCode::TOPIC_AUTHORIZATION_FAILED {
        let (code, about) = (info.error, topic.to_string());
        return Err(ClientError::Code { api: "Metadata", code, message: None, about });
    }
    Ok(if info.error.is_ok() { info.partitions.len() as i32 } else { 0 })
}

/// Reads a shard from `from` on; returns where it ended.
pub(crate) async fn read_shard(
    target: &Cluster,
    topic: &TopicName,
    shard: i32,
    from: i64,
    pair: &(ClusterId, ClusterId),
    stored: &mut Stored,
) -> Result<i64, ClientError> {
    let tp = TopicPartition { topic: topic.clone(), partition: shard };
    let at = tp.clone();
    target
        .read_partition_each(&tp, from, Isolation::ReadCommitted, |record| {
            stored.take(pair, &at, &record);
        })
        .await
}

/// Makes the state topic where it is missing, and waits until it can be used.
pub(crate) async fn ensure_topic(
    target: &Cluster,
    source: &ClusterAlias,
    replication_factor: i16,
) -> Result<(), ClientError> {
    let topic = topic_name(source);
    if partitions(target, &topic).await? > 0 {
        return Ok(());
    }
    let configs = BTreeMap::from([("cleanup.policy".to_owned(), "compact".to_owned())]);
    let new = NewTopic { name: topic.clone(), partitions: SHARDS, replication_factor, configs };
    crate::internal::create(target, new).await
}

/// What a shard's writer waits for.
#[derive(Default)]
pub(crate) struct Dirty {
    urgent: Notify,
}

impl Dirty {
    /// A batch waits for the state.
    pub(crate) fn urgent(&self) {
        self.urgent.notify_one();
    }
}

/// Writes one shard's records until the flow ends; the last write releases the lease.
///
/// Returns an error when this process no longer owns the flow.
pub(crate) async fn write_shard(
    flow: Arc<Flow>,
    shard: usize,
    mut transactional: Transactional,
) -> Result<(), ClientError> {
    let tp = TopicPartition { topic: topic_name(&flow.name.source), partition: shard as i32 };
    let ending = flow.ending();
    let mut backoff = flow.backoff(3_000 + shard as u64);
    let mut lease_due = tokio::time::Instant::now();
    loop {
        tokio::select! {
            biased;
            () = ending.drained_signal() => {}
            () = flow.dirty(shard).urgent.notified() => {}
            () = tokio::time::sleep(WRITE_INTERVAL) => {}
        }
        let ended = ending.drained();
        loop {
            let last = ending.drained();
            let now_ms = flow.now_ms();
            let Gathered { cells, notes, mut records, full } = gather(&flow, shard, last);
            let proofs = match shard {
                0 => std::mem::take(&mut *flow.proofs.lock()),
                _ => Vec::new(),
            };
            let began = tokio::time::Instant::now();
            let renews = shard == 0 && (last || !proofs.is_empty() || began >= lease_due);
            if renews {
                let over = |cell: &Arc<Cell>| late::is_over(cell, flow.tenure.before());
                let released = last && flow.cells.all().iter().all(over);
                let lease = ownership::lease(&flow.pair, &flow.options.instance, now_ms, released);
                records.push(record(&lease, now_ms));
            }
            if records.is_empty() {
                notes.written();
                break;
            }
            match transactional.write(vec![(tp.clone(), records)]).await {
                Ok(()) => {
                    backoff.reset();
                    if renews {
                        lease_due = began + LEASE_INTERVAL;
                        flow.tenure.renew(began);
                    }
                    for proof in proofs {
                        // Whoever gave up waiting needs none.
                        let _ = proof.send(());
                    }
                    notes.written();
                    for cell in &cells {
                        cell.copier.lock().state_stored();
                        flow.moved(cell);
                    }
                }
                Err(error) => {
                    for cell in &cells {
                        cell.copier.lock().state_not_stored();
                    }
                    flow.notes.put_back(notes);
                    if matches!(error, ClientError::Fenced { .. }) {
                        if planted(Planted::WritesWhenFenced) {
                            let id = transactional_id(&flow.name.source, shard);
                            transactional =
                                flow.target.transactional(&id, TRANSACTION_TIMEOUT).await?;
                            continue;
                        }
                        if shard == 0 {
                            return Err(error);
                        }
                        info!(flow = %flow.name, shard, %error, "asking the first shard who owns the flow");
                        match reclaim(&flow, shard, &ending).await {
                            Some(again) => transactional = again,
                            None => return Ok(()),
                        }
                        continue;
                    }
                    warn!(flow = %flow.name, shard, %error, "the state cannot be written; the copy waits where it needs it");
                    flow.target_unreachable(&error);
                    if last {
                        return Ok(());
                    }
                    backoff.wait().await;
                    transactional = reopen(&flow, shard, transactional).await?;
                }
            }
            if last {
                info!(flow = %flow.name, shard, "state stored");
                return Ok(());
            }
            // What changed meanwhile waits for its turn, unless a batch waits for it.
            if !full {
                break;
            }
        }
        if ended {
            return Ok(());
        }
    }
}

/// Somebody opened this shard's id after us: a new owner, or one that came at the same time and lost
/// the first shard to us. A write to that one tells; when it is refused, its writer loses the flow
/// and this never comes back. Nothing when the flow ends.
async fn reclaim(flow: &Flow, shard: usize, ending: &Ending) -> Option<Transactional> {
    let id = transactional_id(&flow.name.source, shard);
    let mut backoff = flow.backoff(5_000 + shard as u64);
    prove(flow, ending).await?;
    let transactional = loop {
        match flow.target.transactional(&id, TRANSACTION_TIMEOUT).await {
            Ok(transactional) => break transactional,
            Err(error) => {
                warn!(flow = %flow.name, shard, %error, "the state cannot be opened");
                flow.target_unreachable(&error);
            }
        }
        tokio::select! {
            biased;
            () = ending.drained_signal() => return None,
            () = backoff.wait() => {}
        }
    };
    // A new owner may have come in between. It has lost this id to us and finds its way back here,
    // as we did; we must not write.
    prove(flow, ending).await?;
    Some(transactional)
}

/// Waits for a write to the first shard that begins now: then this process owns the flow. Nothing
/// when the flow ends, as it does when that write is refused.
pub(crate) async fn prove(flow: &Flow, ending: &Ending) -> Option<()> {
    loop {
        let (sender, receiver) = oneshot::channel();
        flow.proofs.lock().push(sender);
        flow.dirty(0).urgent();
        tokio::select! {
            biased;
            () = ending.drained_signal() => return None,
            proven = receiver => if proven.is_ok() { return Some(()) },
        }
    }
}

/// After an unclear transaction the id is initialised again. Should somebody else own it by now,
/// this would fence them: the lease tells.
async fn reopen(
    flow: &Flow,
    shard: usize,
    transactional: Transactional,
) -> Result<Transactional, ClientError> {
    let mut backoff = flow.backoff(4_000 + shard as u64);
    let ending = flow.ending();
    let mut transactional = transactional;
    loop {
        match transactional.reopen().await {
            Ok(()) => return Ok(transactional),
            Err(error @ ClientError::Fenced { .. }) => return Err(error),
            Err(error) => {
                warn!(flow = %flow.name, shard, %error, "the state cannot be opened");
                flow.target_unreachable(&error);
            }
        }
        if ending.drained() {
            return Ok(transactional);
        }
        tokio::select! {
            biased;
            () = ending.drained_signal() => {}
            () = backoff.wait() => {}
        }
    }
}

/// What goes into one transaction of a shard.
struct Gathered {
    cells: Vec<Arc<Cell>>,
    notes: Taken,
    records: Vec<Record>,
    /// There is more: the transaction is as large as it may be.
    full: bool,
}

fn gather(flow: &Flow, shard: usize, last: bool) -> Gathered {
    let mut cells = Vec::new();
    let mut records = Vec::new();
    let mut bytes = 0;
    let mut full = false;
    let now_ms = flow.now_ms();
    // Before the positions: what lies behind a gap is never durable without it.
    let notes = flow.notes.take(shard);
    records.extend(notes.records(now_ms));
    for cell in flow.cells.all() {
        if cell.shard != shard {
            continue;
        }
        if bytes >= WRITE_BYTES && !last {
            full = true;
            break;
        }
        let Some(write) = cell.copier.lock().take_state() else { continue };
        let mut position = write.position;
        position.written_ms = cell.stands_since(&position, now_ms);
        bytes += put_map(&mut records, &cell.key, write.map, now_ms);
        records.push(record(&StateRecord::Position(cell.key.clone(), position), now_ms));
        cells.push(cell);
    }
    Gathered { cells, notes, records, full }
}

/// The records of what changed in a map; answers how many bytes of runs they hold.
fn put_map(records: &mut Vec<Record>, key: &PartitionKey, map: Changes, now_ms: i64) -> usize {
    let mut bytes = 0;
    for (number, segment) in map.segments {
        bytes += segment.len();
        records.push(record(&StateRecord::Segment(key.clone(), number, segment), now_ms));
    }
    for block in map.blocks {
        let (number, runs) = (block.number(), block.encode());
        bytes += runs.len();
        records.push(record(&StateRecord::Block(key.clone(), number, runs), now_ms));
    }
    let segments = map.removed_segments.into_iter();
    let blocks = map.removed_blocks.into_iter();
    let removed = segments
        .map(|number| StateKey::Segment(key.clone(), number))
        .chain(blocks.map(|number| StateKey::Block(key.clone(), number)));
    records.extend(removed.map(|key| tombstone(&key, now_ms)));
    bytes
}

fn tombstone(key: &StateKey, now_ms: i64) -> Record {
    Record {
        offset: 0,
        timestamp: now_ms,
        key: Some(key.encode()),
        value: None,
        headers: Vec::new(),
    }
}

pub(crate) fn record(state: &StateRecord, now_ms: i64) -> Record {
    let (key, value) = state.encode();
    Record { offset: 0, timestamp: now_ms, key: Some(key), value: Some(value), headers: Vec::new() }
}

/// What stands against a state that names a partition but cannot be used.
pub(crate) fn corrupt(partition: &TopicPartition, what: &str) -> twinlog_flow::copy::Stop {
    twinlog_flow::copy::Stop {
        code: Code::StateCorrupt,
        reason: format!("the stored state of {partition} cannot be used: {what}"),
        range: None,
        passing: false,
    }
}
