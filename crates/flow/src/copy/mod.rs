//! Copies one source partition to one target partition.
//!
//! [`Copier`] is handed what was fetched and what was answered, and says what to fetch, what to
//! send, what to store and when the target's tail must be looked at.
//!
//! Does not: talk to brokers, read clocks, create topics, find leaders, commit groups.
//!
//! # Invariants
//!
//! 1. Content is a function of the sequence: the n-th record copied is the n-th record that may be
//!    copied from the source. `acknowledged <= sent <= planned`, in records.
//! 2. A batch keeps its cut until it is acknowledged, and at most
//!    [`Limits::unacknowledged`] batches are unacknowledged.
//! 3. Nothing is sent after an unclear answer until the target's tail was looked at.
//! 4. A run of the map that starts behind a hole is durable before its first record is sent.
//! 5. Every answered base offset is compared with the expected one.
//! 6. While the target's leader has no state of our producer (the first batch; history whose
//!    state expired) only one batch is unacknowledged: a leader without state takes any sequence.
//! 7. A stopped partition holds no fetched bytes.
//! 8. Where nobody remembers the source's leader epoch of what was copied last, nothing is fetched
//!    before the source told it: without it no fetch notices that the source lost that.
//! 9. Runs that any owner may have sent stay in the durable state until the log told how far they
//!    were used: a batch that arrives late is explained by the state of that moment.
//!
//! # What no look can tell
//!
//! - A leader that forgot the producer (idle, or records older than `producer.id.expiration.ms`)
//!   takes any sequence. A packet of a lost connection that it comes to after the look is stored
//!   twice then, and one that is refused in front of others leaves them stored without it. Whoever
//!   runs a copier bounds how late that can be: while packets may be late ([`Copier::strays`]) only
//!   young batches are sent ([`Copier::send_only_since`]), which no leader forgets in that time. What
//!   is left is a packet that a network or a broker holds back for longer than that and delivers
//!   after all, and a machine whose clocks stood still with it. No fence closes that: a raised epoch
//!   (by a batch, or by a marker) is forgotten together with the producer.
//! - Two processes agree on the n-th record only while the cleaner and retention leave alone what
//!   neither has copied, and a leader answers a second batch of the same sequences as if it had stored
//!   it. Whoever runs a copier looks first when the packets of a former owner have come, where the
//!   source may lose such records.
//!
//! # References
//!
//! Record batch format v2; KIP-98 (sequences, markers); KIP-101 and KIP-320 (leader epochs);
//! KIP-227 (fetch).

mod intake;
mod look;
mod original;
mod send;
mod store;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use twinlog_batch::{Batch, Codec, Outgoing, Record};
use twinlog_offsets::state::Position;
use twinlog_offsets::{
    Block, Changes, Durable, Inherited, OffsetMap, RUNS_PER_SEGMENT, RunStart, StateError, Stretch,
};
use twinlog_types::{
    Code, LeaderEpoch, Planted, ProducerEpoch, ProducerId, SourceOffset, TargetOffset, TopicName,
    planted,
};

pub use look::{LookFrom, Looked, Tail, TailBatch};
pub use send::{Answer, Sending};
pub use store::StateWrite;

/// Whatever must stay accounted for while fetched bytes are held; dropped with the last of them.
pub type Keep = Arc<dyn Any + Send + Sync>;

/// Bounds of one partition's copy.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Fetched bytes that may wait; a fetch is not asked for above it.
    pub queue_bytes: usize,
    /// Batches that may be unacknowledged; brokers recognise five.
    pub unacknowledged: usize,
    /// Largest batch the target takes (`max.message.bytes`, head included).
    pub batch_bytes: usize,
    /// Records above which a batch is split: a broker makes one object per record.
    pub batch_records: u32,
    /// Batches smaller than this are merged with their neighbours when a backlog waits.
    pub merge_below: usize,
    /// Merged batches are filled up to about this size.
    pub merge_to: usize,
    /// Most bytes that the records of one batch may decompress to.
    pub decode_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_bytes: 4 << 20,
            unacknowledged: 5,
            batch_bytes: 1_048_588,
            batch_records: 250_000,
            merge_below: 4 << 10,
            merge_to: 256 << 10,
            decode_bytes: 256 << 20,
        }
    }
}

/// Who appends: the producer id and epoch of the durable state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Producer {
    /// As `InitProducerId` handed it out once.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
}

/// What a partition's copy is set up with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The topic that is read, for messages and the durable position.
    pub source_topic: TopicName,
    /// The topic that is written.
    pub target_topic: TopicName,
    /// Bounds.
    pub limits: Limits,
    /// Whether aborted records are left out (they are under `read_committed`).
    pub drop_aborted: bool,
    /// Recompress to this codec; batches keep theirs when absent.
    pub recompress: Option<Codec>,
}

/// Why a partition does not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The finding.
    pub code: Code,
    /// What happened, to what.
    pub reason: String,
    /// The source offsets concerned: from, and up to but not including.
    pub range: Option<(SourceOffset, SourceOffset)>,
    /// Whether it may be tried again by itself later (a right may come back; a lost record not).
    pub passing: bool,
}

/// A range of the source that was answered, as the fetch gave it.
#[derive(Clone)]
pub struct Fetched {
    /// The offset that was asked for.
    pub from: SourceOffset,
    /// Batches, the first of which contains the asked offset; the last may be cut off.
    pub records: Bytes,
    /// Aborted transactions that overlap the range: producer id and first offset.
    pub aborted: Vec<(ProducerId, SourceOffset)>,
    /// Held for as long as any of the bytes are.
    pub keep: Keep,
}

/// Where the next fetch of the source begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchFrom {
    /// The first offset wanted.
    pub offset: SourceOffset,
    /// The leader epoch of the last batch before it; -1 when unknown.
    pub last_epoch: LeaderEpoch,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// The target's tail must be looked at before anything is sent.
    Look,
    Copy,
    Stopped(Stop),
}

enum Content {
    Pass(Batch),
    Records(Vec<Record>, Codec),
}

/// A batch on its way: fetched, perhaps sent, not acknowledged.
struct Pending {
    content: Content,
    /// The first record's number among all records copied.
    base_count: u64,
    count: u32,
    /// The source offset after its last record, or after the batch it came from.
    next_source: SourceOffset,
    source_epoch: LeaderEpoch,
    /// So many runs of the map must be durable before it is sent.
    runs_needed: usize,
    bytes: usize,
    /// The cut, once made: it stays until acknowledged.
    outgoing: Option<Outgoing>,
    /// An answer came for the last sending.
    settled: bool,
    /// The target refused it for its size: cut it anew after the next look.
    too_large: bool,
    /// It is a part of a batch that was too large, and is not merged again.
    part: bool,
    keep: Vec<Keep>,
}

/// The state machine of one partition.
pub struct Copier {
    setup: Setup,
    producer: Producer,
    map: OffsetMap,
    phase: Phase,
    fetch_position: SourceOffset,
    fetch_epoch: LeaderEpoch,
    acknowledged_epoch: LeaderEpoch,
    /// The target's leader epoch under which its tail was last looked at.
    target_epoch: LeaderEpoch,
    planned_count: u64,
    pending: VecDeque<Pending>,
    /// So many of `pending`, from the front, are sent.
    sent: usize,
    queue_bytes: usize,
    /// Tickets of batches that a stop gave up while their answers were due.
    given_up: Vec<u64>,
    /// How often batches were left on their way without an answer.
    strays: u64,
    /// A batch whose newest record is older than this is not sent.
    sends_since: Option<i64>,
    /// The map holds runs that a former owner planned, or that a stop gave up; the tail decides how
    /// far they were used.
    recovering: bool,
    /// What of those runs lies ahead of this plan. They stay in the durable state while the source
    /// bears them out: their planner may still be sending.
    former: VecDeque<RunStart>,
    /// The last copied record must be compared with its original before anything is fetched.
    unproven: bool,
    /// The target's tail was looked at once: before that there is nothing to say about it.
    known: bool,
    start: SourceOffset,
    origin: TargetOffset,
    /// What of the map the state holds.
    durable: Durable,
    /// The target's leader knows our producer: it refuses a batch whose forerunner is missing.
    fenced: bool,
    /// Nothing is sent before the state was written once more.
    must_store: bool,
    /// What a write under way says was overtaken.
    outdated: bool,
    storing: Option<(store::Stored, Changes)>,
    stored: Option<store::Stored>,
    /// Stops the partition once everything taken in before was acknowledged.
    ends: Option<Stop>,
    /// Up to here the target's log was searched for what is not ours, or ours twice.
    seen: TargetOffset,
    foreign_records: u64,
    doubled_records: u64,
}

impl Copier {
    /// A partition of which nothing was copied yet: reading begins at `start`, the first record
    /// lands at `origin`, the target's log end.
    pub fn new(
        setup: Setup,
        producer: Producer,
        start: SourceOffset,
        origin: TargetOffset,
    ) -> Self {
        let mut map = OffsetMap::new(start);
        map.set_origin(origin);
        Self::with(setup, producer, map, start, origin)
    }

    /// A partition that a former owner copied up to `position` at least. `map` is what
    /// [`OffsetMap::restore`] made of the position and what belongs to it, `durable` what of it is
    /// there.
    pub fn restore(setup: Setup, position: &Position, map: OffsetMap, durable: Durable) -> Self {
        let producer = Producer { id: position.producer_id, epoch: position.producer_epoch };
        let mut copier = Self::with(setup, producer, map, position.start, position.origin);
        copier.recovering = true;
        copier.unproven = true;
        copier.strays = 1;
        copier.durable = durable;
        copier.target_epoch = position.target_epochs.last().map_or(-1, |&(epoch, _)| epoch);
        copier.fetch_epoch = position.source_epoch;
        copier.acknowledged_epoch = position.source_epoch;
        copier
    }

    fn with(
        setup: Setup,
        producer: Producer,
        map: OffsetMap,
        start: SourceOffset,
        origin: TargetOffset,
    ) -> Self {
        Self {
            setup,
            producer,
            phase: Phase::Look,
            fetch_position: map.copied_to(),
            fetch_epoch: -1,
            acknowledged_epoch: -1,
            target_epoch: -1,
            planned_count: map.acknowledged(),
            pending: VecDeque::new(),
            sent: 0,
            queue_bytes: 0,
            given_up: Vec::new(),
            strays: 0,
            sends_since: None,
            recovering: false,
            former: VecDeque::new(),
            unproven: false,
            known: false,
            start,
            origin,
            durable: Durable::default(),
            fenced: false,
            must_store: true,
            outdated: false,
            storing: None,
            stored: None,
            ends: None,
            seen: origin,
            foreign_records: 0,
            doubled_records: 0,
            map,
        }
    }

    /// States that somebody else copied what lies before the start, and what is known of that.
    pub fn took_over(&mut self, before: Inherited) {
        self.map.set_before(before);
    }

    /// One more stretch of what somebody else copied is known.
    ///
    /// # Errors
    ///
    /// When it contradicts what is known already.
    pub fn inherit(&mut self, stretch: Stretch) -> Result<(), StateError> {
        self.map.inherit(stretch)
    }

    /// The state holds parts of an earlier map under this partition's key: they are removed with the
    /// first write, before they could be taken for parts of this one.
    pub fn replaces(&mut self, left_over: Durable) {
        self.durable = left_over;
    }

    /// The offset map, for translating.
    pub fn map(&self) -> &OffsetMap {
        &self.map
    }

    /// Takes the runs of a sealed block back, which [`Looked::needs_block`] asked for.
    ///
    /// # Errors
    ///
    /// When `block` is not the one that was sealed.
    pub fn reopen(&mut self, block: &Block) -> Result<(), StateError> {
        self.map.reopen(block)
    }

    /// Why it does not go on, where it does not.
    pub fn stopped(&self) -> Option<&Stop> {
        match &self.phase {
            Phase::Stopped(stop) => Some(stop),
            Phase::Look | Phase::Copy => None,
        }
    }

    /// Whether the map tells how far the copy is. After a start, and after the target lost its end,
    /// that takes a look at the tail and then a write of the state: only an owner can write, and
    /// who is none any more may have read a tail that its own map does not explain.
    pub fn is_settled(&self) -> bool {
        self.known && !self.recovering && !self.must_store
    }

    /// Whether a former owner, or this one before a stop, may have sent what the next look is to find.
    pub fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Whether it copies (as opposed to waiting for a look, or being stopped).
    pub fn copying(&self) -> bool {
        self.phase == Phase::Copy
    }

    /// Fetched bytes that wait to be acknowledged.
    pub fn queue_bytes(&self) -> usize {
        self.queue_bytes
    }

    /// Offsets of the mirror that do not hold records of ours, seen since this owner began.
    pub fn foreign_records(&self) -> u64 {
        self.foreign_records
    }

    /// Records of ours that stand in the mirror twice, seen since this owner began.
    pub fn doubled_records(&self) -> u64 {
        self.doubled_records
    }

    /// Gives up what is fetched and not acknowledged while the target cannot be looked at: a
    /// partition that waits must not keep the memory of those that go on. What was sent may have
    /// arrived; its runs stay in the map until the look.
    pub fn shed(&mut self) {
        if self.phase == Phase::Look && !self.pending.is_empty() {
            self.give_up();
            self.recovering = true;
        }
    }

    /// How much of its source a partition may hold fetched changed.
    pub fn set_queue_bytes(&mut self, bytes: usize) {
        self.setup.limits.queue_bytes = bytes;
    }

    /// The target deleted what lies below `log_start`: retention, or an operator.
    pub fn prune(&mut self, log_start: TargetOffset) {
        self.map.prune(log_start);
    }

    /// The target's limit on a batch changed.
    pub fn set_batch_bytes(&mut self, bytes: usize) {
        self.setup.limits.batch_bytes = bytes;
    }

    /// Where to fetch from; `None` while the queue is full, nothing may be sent, or
    /// [`Copier::wants_original`] must come first.
    pub fn wants_fetch(&self) -> Option<FetchFrom> {
        (self.phase == Phase::Copy
            && !self.is_full()
            && self.ends.is_none()
            && self.wants_original().is_none())
        .then_some(FetchFrom { offset: self.fetch_position, last_epoch: self.fetch_epoch })
    }

    /// Ends the copy of this partition. What was fetched and not acknowledged is given up. What was
    /// sent may still arrive: its runs stay in the map until the next look.
    pub fn stop(&mut self, stop: Stop) {
        self.phase = Phase::Stopped(stop);
        self.give_up();
    }

    fn give_up(&mut self) {
        let due = self.pending.iter().take(self.sent).filter(|pending| !pending.settled);
        self.given_up.extend(due.map(|pending| pending.base_count));
        self.clear_queue();
        if !self.former.is_empty() {
            self.map = self.whole_plan();
            self.former.clear();
        }
    }

    /// Ends the copy once what was taken in so far is acknowledged: it is sound, and copied.
    fn stop_behind_pending(&mut self, stop: Stop) {
        if self.pending.is_empty() {
            self.stop(stop);
        } else {
            self.ends.get_or_insert(stop);
        }
    }

    /// Whether a batch that was sent may still be answered, or arrive.
    pub fn answers_due(&self) -> bool {
        !self.given_up.is_empty() || self.unacknowledged() > 0
    }

    /// Goes on behind a gap of the source, whose log begins at `log_start` now: what lies between is
    /// given up. Answers the range that is, from and up to but not including; nothing where something
    /// else stopped the partition, or it goes on.
    pub fn go_on_behind(
        &mut self,
        log_start: SourceOffset,
    ) -> Option<(SourceOffset, SourceOffset)> {
        let Phase::Stopped(stop) = &self.phase else { return None };
        let (from, to) = stop.range.filter(|_| stop.code == Code::SourceGap)?;
        let to = to.max(log_start);
        // Nothing waits: all before the gap was acknowledged before the partition stopped.
        self.map.acknowledge(self.map.acknowledged(), to);
        self.fetch_position = self.map.copied_to();
        // The epoch of the last batch read says nothing about a log that begins behind it.
        self.fetch_epoch = -1;
        self.acknowledged_epoch = -1;
        self.retry();
        Some((from, to))
    }

    /// Tries a stopped partition again, from a look at the target's tail.
    pub fn retry(&mut self) {
        if matches!(self.phase, Phase::Stopped(_)) {
            self.phase = Phase::Look;
            self.recovering = true;
        }
    }

    /// The source says that `from`, the fetched offset, is outside of its log
    /// `[log_start, log_end)`.
    pub fn source_out_of_range(
        &mut self,
        from: SourceOffset,
        log_start: SourceOffset,
        log_end: SourceOffset,
    ) {
        let position = self.fetch_position;
        if from != position || self.phase != Phase::Copy {
            return;
        }
        let untouched = self.map.runs() == 0
            && self.map.acknowledged() == 0
            && self.former.is_empty()
            && self.map.before().is_none();
        if position < log_start && untouched {
            // Nothing was read yet: the first record is simply a later one.
            self.start = log_start;
            self.fetch_position = log_start;
            self.map = OffsetMap::new(log_start);
            self.map.set_origin(self.origin);
            self.require_store();
            return;
        }
        if position < log_start {
            self.source_gap(log_start);
            return;
        }
        self.stop_behind_pending(Stop {
            code: Code::SourceTruncated,
            reason: format!(
                "{}: the source's log ends at {log_end}, but was already read up to {position}",
                self.setup.source_topic
            ),
            range: Some((log_end, position)),
            passing: false,
        });
    }

    /// Nothing is left on the source between what was read and `log_start`.
    fn source_gap(&mut self, log_start: SourceOffset) {
        let position = self.fetch_position;
        if planted(Planted::JumpsInSilence) {
            self.fetch_position = log_start;
            return;
        }
        self.stop_behind_pending(Stop {
            code: Code::SourceGap,
            reason: format!(
                "{}: offsets {position} to {} were deleted on the source before they were copied",
                self.setup.source_topic,
                log_start.0 - 1
            ),
            range: Some((position, log_start)),
            passing: false,
        });
    }

    /// The source says that its log left the one we read up to `from` at `end`, the end of
    /// `epoch`.
    pub fn source_diverged(&mut self, from: SourceOffset, epoch: LeaderEpoch, end: SourceOffset) {
        let position = self.fetch_position;
        if from != position || self.phase != Phase::Copy {
            return;
        }
        self.stop_behind_pending(Stop {
            code: Code::SourceTruncated,
            reason: format!(
                "{}: the source lost offsets {end} to {} after they were read (its epoch {epoch} ends at {end})",
                self.setup.source_topic,
                position.0 - 1
            ),
            range: Some((end, position)),
            passing: false,
        });
    }

    fn clear_queue(&mut self) {
        self.pending.clear();
        self.ends = None;
        self.sent = 0;
        self.queue_bytes = 0;
    }

    /// Gives up what is not acknowledged; fetching and planning begin again behind it.
    fn plan_anew(&mut self) {
        self.clear_queue();
        self.planned_count = self.map.acknowledged();
        let unchanged = self.map.cut(self.planned_count);
        self.runs_taken_back(unchanged);
        self.start = self.map.start();
        self.origin = self.map.origin().unwrap_or(self.origin);
        self.fetch_position = self.map.copied_to();
        self.fetch_epoch = self.acknowledged_epoch;
        self.unproven |= self.fetch_epoch < 0;
    }

    /// The map with all runs that somebody may have sent: what the durable state must hold.
    fn whole_plan(&self) -> OffsetMap {
        let mut map = self.map.clone();
        for run in &self.former {
            // Records of somebody else may have moved what comes before it.
            let target =
                map.last().map_or(run.target, |last| last.target.plus(run.count - last.count));
            map.plan(RunStart { target, ..*run });
        }
        map
    }

    /// The source no longer bears out what a former owner planned: compaction took some of it.
    fn former_plan_ends(&mut self) {
        self.former.clear();
        self.runs_taken_back(self.map.runs() / RUNS_PER_SEGMENT * RUNS_PER_SEGMENT);
        self.require_store();
    }

    /// Only the first `runs` runs are as they were written; a write under way may hold others.
    fn runs_taken_back(&mut self, runs: usize) {
        self.durable.taken_back(runs);
        self.outdated = true;
    }

    /// Nothing is sent before the state, as it is now, is durable.
    fn require_store(&mut self) {
        self.must_store = true;
        self.outdated = true;
    }

    fn target_of_planned(&self) -> TargetOffset {
        let ahead = self.planned_count - self.map.acknowledged();
        match self.map.last() {
            // Planned runs may have been shifted by foreign records: the newest one counts.
            Some(last) => last.target.plus(self.planned_count - last.count),
            None => self.origin.plus(ahead),
        }
    }
}
