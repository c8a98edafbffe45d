//! What the tasks of one flow share while this process owns it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{info, warn};
use twinlog_client::{ClientError, Cluster, Isolation, OffsetSpec};
use twinlog_flow::copy::{Producer, Stop};
use twinlog_mirror::FlowConfig;
use twinlog_offsets::state::{Gap, StateRecord};
use twinlog_types::{
    BrokerId, ClusterId, Code, FlowName, GroupId, Planted, SourceOffset, TopicName, TopicPartition,
    planted_every,
};

use crate::backoff::Backoff;
use crate::blocks::Blocks;
use crate::board::Board;
use crate::cell::{Cell, Cells, LaneKey};
use crate::decisions::{Decisions, Wishes};
use crate::ending::{Ending, Stage};
use crate::generations::Generations;
use crate::lane::{self, Ready};
use crate::notes::Notes;
use crate::options::EngineOptions;
use crate::state::{Dirty, Stored};
use crate::takeover::mm2::Left;
use crate::tenure::Tenure;
use crate::{fetch, late, look, losses, state};

/// Connections for produce requests to each target broker.
pub(crate) const LANES_PER_BROKER: usize = 2;
/// The shortest interval of a loop that a file can ask for.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Partitions that are taken over at once.
const TAKINGS_MAX: usize = 4;
/// Looks under way at once.
const LOOKS_MAX: usize = 16;

/// Sums over the flow's life in this process.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) fetched_records: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
}

/// Why a flow's tasks stop although nobody asked.
#[derive(Clone, Debug)]
pub(crate) enum Lost {
    /// Another process owns the flow now.
    Owner(String),
    /// One of its tasks panicked: a bug.
    Broken,
}

/// Held by a task: tells when it panics.
pub(crate) struct Watched(Arc<Flow>);

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nobody listens when the flow ends anyway.
            let _ = self.0.lost.send(Lost::Broken);
        }
    }
}

/// One flow, owned.
pub(crate) struct Flow {
    pub(crate) name: FlowName,
    pub(crate) config: Arc<FlowConfig>,
    /// The enabled flow of the other direction, for the loop guard.
    pub(crate) opposite: Option<Arc<FlowConfig>>,
    pub(crate) source: Cluster,
    pub(crate) target: Cluster,
    pub(crate) pair: (ClusterId, ClusterId),
    pub(crate) producer: Producer,
    pub(crate) cells: Cells,
    /// Parts of the offset maps that are not in the cells.
    pub(crate) blocks: Blocks,
    /// What the state said when this process became the owner.
    pub(crate) stored: Mutex<Stored>,
    pub(crate) options: Arc<EngineOptions>,
    pub(crate) board: Arc<Board>,
    /// Fetched bytes that may be held, over all flows.
    pub(crate) budget: Arc<Semaphore>,
    /// For how long this process may send.
    pub(crate) tenure: Tenure,
    /// A partition may have room, or be ready to be fetched.
    pub(crate) room: Notify,
    pub(crate) discover: Notify,
    /// The share groups of the source, as last listed.
    pub(crate) share_groups: Mutex<Arc<BTreeSet<GroupId>>>,
    /// The topics were looked at once: what there is to copy is known.
    pub(crate) topics_known: AtomicBool,
    pub(crate) counters: Counters,
    ending: Ending,
    lost: mpsc::UnboundedSender<Lost>,
    lanes: Mutex<BTreeMap<LaneKey, Arc<Ready>>>,
    fetchers: Mutex<BTreeSet<BrokerId>>,
    shards: Vec<Dirty>,
    /// What goes into the next transactions of the state beside the positions.
    pub(crate) notes: Notes,
    /// What operators decided, as far as it was read.
    pub(crate) decisions: Mutex<Decisions>,
    /// What they decided about groups.
    pub(crate) wishes: Wishes,
    pub(crate) generations: Generations,
    /// Those who wait for a write to the first shard.
    pub(crate) proofs: Mutex<Vec<oneshot::Sender<()>>>,
    /// Looks under way at once.
    pub(crate) looks: Semaphore,
    /// Partitions that are being taken over.
    pub(crate) taking: Mutex<BTreeSet<TopicPartition>>,
    pub(crate) takings: Arc<Semaphore>,
    /// Topics on which the source's cleaner works, of those whose former owner may still send.
    pub(crate) cleaned: Mutex<BTreeSet<TopicName>>,
    left: OnceCell<Left>,
    tasks: Mutex<JoinSet<()>>,
}

/// What a flow is made of.
pub(crate) struct Parts {
    pub(crate) config: Arc<FlowConfig>,
    pub(crate) opposite: Option<Arc<FlowConfig>>,
    pub(crate) source: Cluster,
    pub(crate) target: Cluster,
    pub(crate) pair: (ClusterId, ClusterId),
    pub(crate) producer: Producer,
    pub(crate) stored: Stored,
    pub(crate) decisions: Decisions,
    pub(crate) shards: usize,
    pub(crate) tenure: Tenure,
    pub(crate) options: Arc<EngineOptions>,
    pub(crate) board: Arc<Board>,
    pub(crate) budget: Arc<Semaphore>,
}

impl Flow {
    /// A flow, and where it says that it was lost.
    pub(crate) fn new(parts: Parts) -> (Arc<Self>, mpsc::UnboundedReceiver<Lost>) {
        let (lost, lost_receiver) = mpsc::unbounded_channel();
        let flow = Self {
            name: parts.config.name.clone(),
            config: parts.config,
            opposite: parts.opposite,
            source: parts.source,
            target: parts.target,
            pair: parts.pair,
            producer: parts.producer,
            cells: Cells::default(),
            blocks: Blocks::default(),
            stored: Mutex::new(parts.stored),
            options: parts.options,
            board: parts.board,
            budget: parts.budget,
            tenure: parts.tenure,
            room: Notify::new(),
            discover: Notify::new(),
            share_groups: Mutex::default(),
            topics_known: AtomicBool::new(false),
            counters: Counters::default(),
            ending: Ending::running(),
            lost,
            lanes: Mutex::default(),
            fetchers: Mutex::default(),
            shards: (0..parts.shards).map(|_| Dirty::default()).collect(),
            notes: Notes::default(),
            decisions: Mutex::new(parts.decisions),
            wishes: Wishes::default(),
            generations: Generations::default(),
            proofs: Mutex::default(),
            looks: Semaphore::new(LOOKS_MAX),
            taking: Mutex::default(),
            cleaned: Mutex::default(),
            takings: Arc::new(Semaphore::new(TAKINGS_MAX)),
            left: OnceCell::new(),
            tasks: Mutex::new(JoinSet::new()),
        };
        (Arc::new(flow), lost_receiver)
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending.clone()
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.ending.enter(stage);
    }

    /// Runs `task` for as long as the flow is owned.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        let watched = self.watched();
        tasks.spawn(async move {
            let _watched = watched;
            task.await;
        });
    }

    /// For a task to hold: without one of its tasks the flow would stand still in silence.
    pub(crate) fn watched(self: &Arc<Self>) -> Watched {
        Watched(self.clone())
    }

    /// Ends every task at once.
    pub(crate) fn abort(&self) {
        self.tasks.lock().abort_all();
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.options.clock)()
    }

    pub(crate) fn backoff(&self, salt: u64) -> Backoff {
        Backoff::new(self.options.seed ^ salt)
    }

    /// Our own pace, unless the file asks for more often. No file makes a loop spin.
    pub(crate) fn no_later_than(ours: Duration, file: Duration) -> Duration {
        ours.min(file.max(INTERVAL_MIN))
    }

    pub(crate) fn isolation(&self) -> Isolation {
        match self.config.isolation {
            twinlog_mirror::Isolation::ReadCommitted => Isolation::ReadCommitted,
            twinlog_mirror::Isolation::ReadUncommitted => Isolation::ReadUncommitted,
        }
    }

    pub(crate) fn dirty(&self, shard: usize) -> &Dirty {
        &self.shards[shard % self.shards.len()]
    }

    /// Which state partition holds a mirrored partition's records: the same in every process.
    pub(crate) fn shard_of(&self, target: &TopicPartition) -> usize {
        self.shard_of_bytes(target.topic.as_str().bytes().chain(target.partition.to_be_bytes()))
    }

    /// Which state partition holds a group's journal: the same in every process.
    pub(crate) fn shard_of_group(&self, group: &GroupId) -> usize {
        self.shard_of_bytes(group.as_str().bytes())
    }

    fn shard_of_bytes(&self, bytes: impl Iterator<Item = u8>) -> usize {
        // FNV-1a: stable across builds, unlike the standard library's hasher.
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash % self.shards.len() as u64) as usize
    }

    /// Something happened to a partition: whoever waits for it is told.
    pub(crate) fn moved(self: &Arc<Self>, cell: &Arc<Cell>) {
        let (look, unsent, urgent) = {
            let copier = cell.copier.lock();
            (copier.wants_look().is_some(), copier.has_unsent(), copier.store_urgently())
        };
        if look {
            self.look(cell);
        }
        if unsent {
            self.send(cell);
        }
        if urgent {
            self.dirty(cell.shard).urgent();
        }
        self.room.notify_waiters();
    }

    fn send(self: &Arc<Self>, cell: &Arc<Cell>) {
        let Some(mut key) = *cell.lane.lock() else { return };
        if planted_every(Planted::TwoConnections, 2) {
            key.index = (key.index + 1) % LANES_PER_BROKER;
        }
        let ready = {
            let mut lanes = self.lanes.lock();
            if let Some(ready) = lanes.get(&key) {
                ready.clone()
            } else {
                let ready = Arc::new(Ready::new(key));
                lanes.insert(key, ready.clone());
                self.spawn(lane::run(self.clone(), key, ready.clone()));
                ready
            }
        };
        ready.push(cell);
    }

    /// Looks at a partition's tail on the target, unless a look is under way.
    pub(crate) fn look(self: &Arc<Self>, cell: &Arc<Cell>) {
        if self.ending.is_ended() || cell.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (flow, cell) = (self.clone(), cell.clone());
        self.spawn(look::run(flow, cell));
    }

    /// Makes sure that a loop fetches from every broker that leads a mirrored partition.
    pub(crate) fn fetch_from_leaders(self: &Arc<Self>) {
        for cell in self.cells.all() {
            let Some(leader) = self.source.leader(&cell.source) else { continue };
            if self.fetchers.lock().insert(leader.broker) {
                self.spawn(fetch::run(self.clone(), leader.broker));
            }
        }
        self.room.notify_waiters();
    }

    /// Looks at every partition whose target leader changed since it was last looked at.
    pub(crate) fn look_after_leader_changes(self: &Arc<Self>) {
        for cell in self.cells.all() {
            let Some(leader) = self.target.leader(&cell.target) else { continue };
            let changed = {
                let mut copier = cell.copier.lock();
                let changed = copier.copying() && leader.epoch > copier.target_epoch();
                if changed {
                    copier.look_first();
                }
                changed
            };
            if changed {
                self.moved(&cell);
            }
        }
    }

    pub(crate) fn discover_soon(&self) {
        self.discover.notify_one();
    }

    /// What MM2 left on the clusters, read once.
    pub(crate) async fn left(&self) -> Result<&Left, ClientError> {
        let read = || Left::read(&self.config, &self.source, &self.target);
        self.left.get_or_try_init(read).await
    }

    /// The first offset of a log.
    pub(crate) async fn log_start(
        &self,
        cluster: &Cluster,
        tp: &TopicPartition,
    ) -> Result<i64, ClientError> {
        let wanted = [(tp.clone(), OffsetSpec::Earliest)];
        let listed = cluster.list_offsets(&wanted, Isolation::ReadUncommitted).await?;
        match listed.into_iter().next() {
            Some((_, Ok(offset))) => Ok(offset.offset),
            Some((_, Err(code))) => Err(ClientError::Code {
                api: "ListOffsets",
                code,
                message: None,
                about: tp.to_string(),
            }),
            None => Err(ClientError::Protocol {
                peer: tp.to_string(),
                api: "ListOffsets",
                reason: "the partition is missing in the answer".into(),
            }),
        }
    }

    /// A partition has stopped: says so once, and keeps in the ledger what cannot be copied.
    pub(crate) fn stopped(self: &Arc<Self>, cell: &Arc<Cell>) {
        let (mut stop, copied_to) = {
            let copier = cell.copier.lock();
            let Some(stop) = copier.stopped().cloned() else { return };
            (stop, copier.map().copied_to())
        };
        if stop.code == Code::OwnedElsewhere {
            if let Some(rest) = cell.asks_after() {
                self.ask_who_owns(cell, &stop.reason, rest);
                return;
            }
            stop = refused_for_good(cell, &stop);
            cell.copier.lock().stop(stop.clone());
        }
        if stop.code == Code::SourceGap
            && let Some(due) = late::former_due(self, cell)
        {
            self.await_former(cell, due, &stop.reason);
            return;
        }
        let now_ms = self.now_ms();
        if cell.stopped_ms.swap(now_ms, Ordering::AcqRel) != 0 {
            return;
        }
        warn!(
            flow = %self.name, partition = %cell.source, code = %stop.code,
            "stopped: {}", self.options.pasteable(&stop.reason)
        );
        self.board.stopped(&self.name, &cell.source, stop.clone());
        if let Some(gap) = gap_of(&stop, copied_to, now_ms) {
            self.notes.leave(cell.shard, &StateRecord::gap(cell.key.clone(), gap));
            self.dirty(cell.shard).urgent();
        }
        losses::by_policy(self, cell);
    }

    /// Somebody else writes into a mirror of ours, or its leader refuses our producer. It may be the
    /// new owner, or the one before, which went on for a moment after it was stopped or cut off: the
    /// state tells. A write that is refused ends the flow; after one that is not, the partition
    /// recovers what the other one has copied, as after a takeover.
    fn ask_who_owns(self: &Arc<Self>, cell: &Arc<Cell>, reason: &str, rest: Duration) {
        let flow = self.clone();
        let asked = async move {
            tokio::time::sleep(rest).await;
            state::prove(&flow, &flow.ending()).await.is_some()
        };
        if self.retry_after(cell, reason.to_owned(), asked) {
            info!(flow = %self.name, partition = %cell.target, reason, "asking the first shard who owns the flow");
        }
    }

    /// What is gone from the source may be on its way from the owner before: the tail is looked at once
    /// more when that has come, and the partition stops again if it was not.
    fn await_former(self: &Arc<Self>, cell: &Arc<Cell>, due: Instant, reason: &str) {
        let reason =
            format!("{reason}; what the process before this one had sent may still come in");
        let ending = self.ending();
        let came = async move {
            tokio::select! {
                biased;
                () = ending.ended() => false,
                () = tokio::time::sleep_until(due) => true,
            }
        };
        self.retry_after(cell, reason, came);
    }

    /// Tries a partition again that has stopped, if `ready` answers so. Answers whether that is new.
    fn retry_after(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        reason: String,
        ready: impl Future<Output = bool> + Send + 'static,
    ) -> bool {
        if cell.retrying.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.board.waiting(&self.name, &cell.source, reason);
        let (flow, cell) = (self.clone(), cell.clone());
        self.spawn(async move {
            let ready = ready.await;
            cell.retrying.store(false, Ordering::Release);
            if ready {
                cell.copier.lock().retry();
                flow.moved(&cell);
            }
        });
        true
    }

    /// This process does not own the flow any more.
    pub(crate) fn lost(&self, reason: String) {
        // Nobody listens when the flow ends anyway.
        let _ = self.lost.send(Lost::Owner(reason));
    }

    /// Something worth an operator's eye happened to a partition that goes on.
    pub(crate) fn event(&self, cell: &Cell, code: Code, text: String) {
        self.board.event(&self.name, Some(&cell.source), code, text, self.now_ms());
    }

    pub(crate) fn look_failed(&self, cell: &Cell, error: &ClientError) {
        self.board.waiting(&self.name, &cell.source, error.to_string());
    }

    /// The share groups of the source.
    pub(crate) fn share_groups(&self) -> Arc<BTreeSet<GroupId>> {
        self.share_groups.lock().clone()
    }

    pub(crate) fn source_reached(&self) {
        self.board.reached(&self.name, true);
    }

    pub(crate) fn target_reached(&self) {
        self.board.reached(&self.name, false);
    }

    pub(crate) fn source_unreachable(&self, error: &ClientError) {
        self.board.unreachable(&self.name, true, error, self.now_ms());
    }

    pub(crate) fn target_unreachable(&self, error: &ClientError) {
        self.board.unreachable(&self.name, false, error, self.now_ms());
    }

    pub(crate) fn memory_is_full(&self) {
        let limit = self.options.fetched_bytes.max(crate::fetch::ANSWER_BYTES);
        self.board.memory(&self.name, Some(limit), self.now_ms());
    }

    pub(crate) fn memory_is_free(&self) {
        self.board.memory(&self.name, None, self.now_ms());
    }

    pub(crate) fn source_throttled(&self, throttle: Duration) {
        self.board.throttled(&self.name, true, throttle);
    }

    pub(crate) fn target_throttled(&self, throttle: Duration) {
        self.board.throttled(&self.name, false, throttle);
    }
}

/// The state says again and again that this process owns the flow, and nothing gets into the mirror:
/// no owner's doing. It is tried again like other stops that may pass.
fn refused_for_good(cell: &Cell, stop: &Stop) -> Stop {
    let reason = format!(
        "{}; this process owns the flow, and was told the same again and again without a record \
         copied: something else writes to {} with the producer id of twinlog, or the partition's \
         leader remembers another epoch of it. It is tried again by itself; a restart of twinlog \
         changes nothing",
        stop.reason, cell.target
    );
    Stop { code: Code::Stalled, reason, range: None, passing: true }
}

/// What a stop leaves in the ledger for those who look from outside: what is lost on the source, or
/// what the copy cannot get past. They find the other reasons by themselves.
fn gap_of(stop: &Stop, copied_to: SourceOffset, found_ms: i64) -> Option<Gap> {
    let why = stop.code;
    let (from, to) = match why {
        Code::SourceGap | Code::SourceTruncated => stop.range?,
        Code::RecordTooLarge
        | Code::CorruptBatch
        | Code::ContentsDiffer
        | Code::RefusedByTarget
        | Code::TimestampRefused
        | Code::MissingPermission => {
            let next = copied_to.plus(1);
            (copied_to, stop.range.map_or(next, |(_, to)| to.max(next)))
        }
        _ => return None,
    };
    Some(Gap { from, to, found_ms, why })
}
