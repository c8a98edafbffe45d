//! What is done to the clusters and to the instances, drawn per seed: first which kinds exist in a
//! run, then how often. Faults are more frequent here than in life.

use tokio::time::{Duration, Instant};
use twinlog_embedded::{Action, EmbeddedCluster, Fault, FaultId, GroupKind};
use twinlog_protocol::{ApiKey, ErrorCode};

use crate::network::{Moment, Trap};
use crate::oracle::Place;
use crate::run::Simulation;
use crate::traffic::{AGAIN, KEYED, PLAIN, STAMPED, TORN, TX};
use crate::world::mirror;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What counts and summaries call it.
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

kinds! {
    /// A request is not executed and answered with a code.
    Code = "code",
    /// A request is executed and answered with a code.
    CodeAfter = "code after executing",
    /// The connection closes in front of a request.
    CloseBefore = "closed before",
    /// The connection closes behind a request.
    CloseAfter = "closed after",
    /// The connection closes behind an answer.
    CloseBehind = "closed behind answer",
    /// An answer is lost.
    Lost = "answer lost",
    /// An answer is late.
    Late = "answer late",
    /// A request is late, and its sender does not wait for it.
    LateRequest = "request late",
    /// An answer has a wrong correlation id.
    WrongId = "wrong correlation id",
    /// An answer is cut.
    CutAnswer = "answer cut",
    /// A quota mutes a connection.
    Throttle = "throttled",
    /// A right to look a group up is away for a moment.
    GroupRefused = "group lookup refused",
    /// The target's disk is full, or the topic refuses, for some seconds.
    TargetRefuses = "target refuses",
    /// A broker dies, and comes back.
    BrokerKilled = "broker killed",
    /// A broker stands still, and goes on.
    BrokerPaused = "broker paused",
    /// A leadership moves in good order.
    LeaderMoved = "leader moved",
    /// Followers do not follow.
    ReplicationHeld = "replication held",
    /// A replica leaves the in-sync ones.
    IsrShrunk = "isr shrunk",
    /// The target forgets all producers of a partition.
    ProducersForgotten = "producers forgotten",
    /// The target loses the end of a partition.
    TargetLost = "target lost its end",
    /// The source loses the end of a partition.
    SourceLost = "source lost its end",
    /// Records are deleted on the source, perhaps before they were copied.
    Deleted = "records deleted",
    /// The source is compacted.
    SourceCompacted = "source compacted",
    /// The target is compacted.
    TargetCompacted = "target compacted",
    /// A topic of the source is deleted and made again.
    TopicAgain = "topic made again",
    /// An instance is killed and another one started, now or later.
    Killed = "instance killed",
    /// An instance is killed at a request.
    KilledAtRequest = "instance killed at a request",
    /// An instance ends in good order.
    Stopped = "instance stopped",
    /// An instance stands still, and goes on.
    Frozen = "instance frozen",
    /// A second instance is started.
    Second = "second instance",
    /// A group of the target has members.
    LiveGroup = "group live on target",
}

/// Codes that a broker has reasons for, most of them passing.
const CODES: [ErrorCode; 14] = [
    ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ErrorCode::REQUEST_TIMED_OUT,
    ErrorCode::NOT_ENOUGH_REPLICAS,
    ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode::COORDINATOR_NOT_AVAILABLE,
    ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode::NOT_COORDINATOR,
    ErrorCode::NETWORK_EXCEPTION,
    ErrorCode::LEADER_NOT_AVAILABLE,
    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode::KAFKA_STORAGE_ERROR,
    ErrorCode::FENCED_LEADER_EPOCH,
    ErrorCode::UNKNOWN_LEADER_EPOCH,
    ErrorCode::CONCURRENT_TRANSACTIONS,
];

/// Codes with which a target refuses records.
const REFUSALS: [ErrorCode; 5] = [
    ErrorCode::KAFKA_STORAGE_ERROR,
    ErrorCode::NOT_ENOUGH_REPLICAS,
    ErrorCode::POLICY_VIOLATION,
    ErrorCode::INVALID_TIMESTAMP,
    ErrorCode::TOPIC_AUTHORIZATION_FAILED,
];

/// What was planned, broken or stopped, and is to be taken back.
#[derive(Default)]
pub(crate) struct Broken {
    planned: Vec<(Kind, bool, FaultId)>,
    lifted: Vec<(Instant, FaultId)>,
    down: Option<(bool, i32)>,
    paused: Option<(bool, i32)>,
    held: Option<Place>,
    /// When the target forgets the producers of a partition, and whether more is written then.
    forgotten: Vec<(Instant, Place, bool)>,
}

impl Simulation {
    /// Draws which kinds of faults this run has.
    pub(crate) fn draw_swarm(&mut self) {
        for &kind in Kind::ALL {
            if self.random.one_in(2) {
                self.swarm.push(kind);
            }
        }
        // A late packet and a broker that forgot its producer: no look can prevent a repeat then.
        self.repeats_allowed = self.swarm.contains(&Kind::LateRequest);
        if self.repeats_allowed {
            // What is late may then come in front of what is copied again, which no look can prevent
            // either; two owners cannot agree on what the cleaner takes between them; and of a record
            // that stands twice the target's cleaner keeps the later one.
            let apart = [Kind::TargetLost, Kind::SourceCompacted, Kind::TargetCompacted];
            self.swarm.retain(|kind| !apart.contains(kind));
        }
    }

    /// One fault of those that this run has.
    pub(crate) async fn fault(&mut self) {
        let Some(&kind) = self.random.pick(&self.swarm) else { return };
        let wait = Duration::from_millis(self.random.below(3_000));
        let code = self.random.pick(&CODES).map_or(7, |code| code.0);
        tracing::debug!(?kind, "a fault");
        match kind {
            Kind::Code => self.plan(kind, Action::Answer(code)),
            Kind::CodeAfter => self.plan(kind, Action::AnswerAfterExecuting(code)),
            Kind::CloseBefore => self.plan(kind, Action::CloseBefore),
            Kind::CloseAfter => self.plan(kind, Action::CloseAfter),
            Kind::CloseBehind => self.plan(kind, Action::CloseBehindAnswer),
            Kind::Lost => self.plan(kind, Action::DropAnswer),
            Kind::Late => self.plan(kind, Action::Delay(wait)),
            Kind::LateRequest => {
                self.late_request(wait + Duration::from_secs(1));
            }
            Kind::WrongId => self.plan(kind, Action::WrongCorrelationId),
            Kind::CutAnswer => self.plan(kind, Action::TruncatedFrame),
            Kind::Throttle => self.plan(kind, Action::Throttle(wait)),
            Kind::GroupRefused => {
                let refused = Action::Answer(ErrorCode::GROUP_AUTHORIZATION_FAILED.0);
                self.plan_fault(kind, false, Fault::new(refused).api(ApiKey::OffsetFetch).times(8));
            }
            Kind::TargetRefuses => self.refuse(),
            Kind::BrokerKilled => self.kill_broker(),
            Kind::BrokerPaused => self.pause_broker(),
            Kind::LeaderMoved => self.move_leader(),
            Kind::ReplicationHeld => self.hold(),
            Kind::IsrShrunk => self.shrink(),
            Kind::ProducersForgotten => self.forget_producers(),
            Kind::TargetLost => self.lose_target(),
            Kind::SourceLost => self.lose_source(),
            Kind::Deleted => self.delete_records(),
            Kind::SourceCompacted => self.compact(true),
            Kind::TargetCompacted => self.compact(false),
            Kind::TopicAgain => self.topic_again(),
            Kind::Killed => self.kill_one(),
            Kind::KilledAtRequest => self.set_trap(),
            Kind::Stopped => self.stop_one().await,
            Kind::Frozen => self.freeze_one(),
            Kind::Second => self.start_second(),
            Kind::LiveGroup => {
                self.world.target.set_group("live", GroupKind::Consumer, true);
                self.counts.note(kind.word());
            }
        }
    }

    fn side(&mut self) -> bool {
        self.random.one_in(3)
    }

    fn plan(&mut self, kind: Kind, action: Action) {
        let skip = self.random.below(6) as u32;
        let source = self.side();
        self.plan_fault(kind, source, Fault::new(action).skip(skip));
    }

    fn plan_fault(&mut self, kind: Kind, source: bool, fault: Fault) {
        let id = self.world.side(source).fault(fault);
        self.broken.planned.push((kind, source, id));
    }

    /// A batch is late, its connection is gone, and before it arrives the target has forgotten its
    /// producer: no look can prevent that it stands twice.
    fn late_request(&mut self, wait: Duration) {
        let Some((topic, partition)) = self.some_mirror() else { return };
        let late = Fault::new(Action::DelayBefore(wait)).api(ApiKey::Produce);
        self.plan_fault(Kind::LateRequest, false, late.partition(&topic, partition));
        // Where the connection stays, what comes behind it waits.
        let abandoned = self.random.one_in(2);
        if let Some(instance) = self.instances.last().filter(|_| abandoned) {
            instance.link.abandon("target Produce");
        }
        self.broken.forgotten.push((
            Instant::now() + wait / 2,
            (topic.clone(), partition),
            !abandoned,
        ));
        let place = (topic.trim_start_matches("hello.").to_owned(), partition);
        self.write_to(&place);
    }

    /// The target refuses every batch of one partition for some seconds.
    fn refuse(&mut self) {
        let Some((topic, partition)) = self.some_mirror() else { return };
        let code = self.random.pick(&REFUSALS).map_or(19, |code| code.0);
        let fault = Fault::new(Action::Answer(code))
            .api(ApiKey::Produce)
            .partition(&topic, partition)
            .always();
        let id = self.world.target.fault(fault);
        let until = Instant::now() + Duration::from_secs(1 + self.random.below(5));
        self.broken.lifted.push((until, id));
        self.counts.note(Kind::TargetRefuses.word());
    }

    /// Lifts what is over.
    pub(crate) fn lift(&mut self) {
        let now = Instant::now();
        let target = self.world.target.clone();
        let forgotten = std::mem::take(&mut self.broken.forgotten);
        let (due, later) = forgotten.into_iter().partition(|(at, ..)| now >= *at);
        self.broken.forgotten = later;
        for (_, (topic, partition), more) in due {
            target.expire_producers(&topic, partition);
            if more {
                self.write_to(&(topic.trim_start_matches("hello.").to_owned(), partition));
            }
        }
        self.broken.lifted.retain(|(until, id)| {
            let over = now >= *until;
            if over {
                target.remove_fault(*id);
            }
            !over
        });
    }

    fn kill_broker(&mut self) {
        if let Some((source, id)) = self.broken.down.take() {
            self.world.side(source).restart_broker(id);
            return;
        }
        let source = self.side();
        let id = self.some_broker(source);
        if self.broken.paused == Some((source, id)) {
            return;
        }
        self.world.side(source).kill_broker(id);
        self.broken.down = Some((source, id));
        self.counts.note(Kind::BrokerKilled.word());
    }

    fn pause_broker(&mut self) {
        if let Some((source, id)) = self.broken.paused.take() {
            self.world.side(source).resume_broker(id);
            return;
        }
        let source = self.side();
        let id = self.some_broker(source);
        if self.broken.down == Some((source, id)) {
            return;
        }
        self.world.side(source).pause_broker(id);
        self.broken.paused = Some((source, id));
        self.counts.note(Kind::BrokerPaused.word());
    }

    fn some_broker(&mut self, source: bool) -> i32 {
        let brokers = self.world.side(source).addresses().len() as u64;
        1 + self.random.below(brokers) as i32
    }

    fn move_leader(&mut self) {
        let source = self.side();
        let place = if source { self.some_place() } else { self.some_mirror() };
        let Some((topic, partition)) = place else { return };
        let to = self.some_broker(source);
        if self.world.side(source).move_leader(&topic, partition, to) {
            self.counts.note(Kind::LeaderMoved.word());
        }
    }

    fn hold(&mut self) {
        if let Some((topic, partition)) = self.broken.held.take() {
            self.world.target.release_replication(&topic, partition);
            return;
        }
        let Some((topic, partition)) = self.some_mirror() else { return };
        self.world.target.hold_replication(&topic, partition);
        self.broken.held = Some((topic, partition));
        self.counts.note(Kind::ReplicationHeld.word());
    }

    fn shrink(&mut self) {
        let Some((topic, partition)) = self.some_mirror() else { return };
        let broker = self.some_broker(false);
        if self.world.target.leader(&topic, partition).is_some_and(|(leader, _)| leader == broker) {
            return; // a leader is always in sync with itself
        }
        self.world.target.shrink_in_sync(&topic, partition, broker);
        self.counts.note(Kind::IsrShrunk.word());
    }

    fn forget_producers(&mut self) {
        let Some((topic, partition)) = self.some_mirror() else { return };
        self.world.target.expire_producers(&topic, partition);
        self.counts.note(Kind::ProducersForgotten.word());
    }

    fn lose_target(&mut self) {
        let Some((topic, partition)) = self.some_mirror() else { return };
        let Some(end) = self.some_border(false, &topic, partition) else { return };
        self.look();
        let target = self.world.target.clone();
        // The broker that lost it died with its connections, most often.
        let leader = target.leader(&topic, partition).map(|(leader, _)| leader);
        let dies = leader.filter(|_| !self.random.one_in(4) && self.broken.down.is_none());
        if let Some(leader) = dies {
            target.kill_broker(leader);
        }
        let lost = target.lose_tail(&topic, partition, end);
        if let Some(leader) = dies {
            target.restart_broker(leader);
        }
        if lost {
            let place = (topic.trim_start_matches("hello.").to_owned(), partition);
            self.mirrors.entry(place.clone()).or_default().truncated(end);
            self.target_lost.insert(place);
            self.counts.note(Kind::TargetLost.word());
        }
    }

    /// Where one of the last batches begins: logs part at the borders of batches.
    fn some_border(&mut self, source: bool, topic: &str, partition: i32) -> Option<i64> {
        let batches = self.world.side(source).batches(topic, partition);
        let last = batches.iter().rev().take(3).collect::<Vec<_>>();
        let base = self.random.pick(&last)?.first_chunk::<8>()?;
        Some(i64::from_be_bytes(*base))
    }

    fn lose_source(&mut self) {
        let partition = self.random.below(2) as i32;
        self.write_to(&(TORN.to_owned(), partition));
        let Some(end) = self.some_border(true, TORN, partition) else { return };
        if end > self.world.source.log_start(TORN, partition)
            && self.world.source.lose_tail(TORN, partition, end)
        {
            self.logs.entry((TORN.to_owned(), partition)).or_default().truncated(end);
            self.counts.note(Kind::SourceLost.word());
        }
    }

    fn delete_records(&mut self) {
        let partition = self.random.below(2) as i32;
        if self.random.one_in(2) {
            // Deleted as soon as they were written: nobody has copied them.
            let place = (TORN.to_owned(), partition);
            self.write_to(&place);
            self.write_to(&place);
        }
        let end = self.world.source.log_end(TORN, partition);
        let start = self.world.source.log_start(TORN, partition);
        let offset = start + self.random.below((end - start + 1).max(1) as u64) as i64;
        if offset > start && self.world.source.delete_records(TORN, partition, offset).is_ok() {
            let log = self.logs.entry((TORN.to_owned(), partition)).or_default();
            log.start = offset;
            self.counts.note(Kind::Deleted.word());
        }
    }

    pub(crate) fn compact(&mut self, source: bool) {
        let kind = if source { Kind::SourceCompacted } else { Kind::TargetCompacted };
        let topic = if source { KEYED.to_owned() } else { mirror(KEYED) };
        if !source {
            self.look();
        }
        if self.world.side(source).compact(&topic, 0).is_ok() {
            self.counts.note(kind.word());
            if !source {
                self.target_compacted = true;
            }
        }
    }

    fn topic_again(&mut self) {
        let log = self.logs.entry((AGAIN.to_owned(), 0)).or_default();
        // With a broker away the cluster could delete it and not make it again.
        let away = [self.broken.down, self.broken.paused];
        if log.life > 0
            || log.records.is_empty()
            || away.iter().flatten().any(|(source, _)| *source)
        {
            return;
        }
        if self.world.source.recreate_topic(AGAIN).is_ok() {
            log.life += 1;
            self.counts.note(Kind::TopicAgain.word());
        }
    }

    fn set_trap(&mut self) {
        const REQUESTS: [&str; 8] = [
            "target Produce",
            "target Produce state",
            "target EndTxn state",
            "target AddPartitionsToTxn state",
            "target InitProducerId state",
            "target OffsetCommit",
            "target OffsetForLeaderEpoch",
            "source Fetch",
        ];
        let request = self.random.pick(&REQUESTS).copied().unwrap_or_default().to_owned();
        let moments = [Moment::BeforeSending, Moment::BeforeAnswer, Moment::AfterAnswer];
        let moment = *self.random.pick(&moments).unwrap_or(&Moment::BeforeAnswer);
        let skip = self.random.below(4) as u32;
        let trap = Trap { request, moment, skip };
        if let Some(instance) = self.instances.last() {
            instance.link.set_trap(trap);
        }
    }

    fn some_place(&mut self) -> Option<Place> {
        let places: Vec<Place> = self.logs.keys().cloned().collect();
        self.random.pick(&places).cloned()
    }

    /// A partition of the target that mirrors one of the source.
    fn some_mirror(&mut self) -> Option<Place> {
        let topics = self.world.target.topics();
        let mirrors: Vec<Place> = [PLAIN, PLAIN, TX, KEYED, STAMPED, TORN]
            .iter()
            .flat_map(|topic| (0..2).map(|partition| (mirror(topic), partition)))
            .filter(|(topic, partition)| {
                topics.contains(topic)
                    && (*partition as usize) < self.world.target.partitions(topic)
            })
            .collect();
        self.random.pick(&mirrors).cloned()
    }

    /// Whether a writer that waits for all replicas gets an answer now: the leader of a partition of
    /// the source is there.
    pub(crate) fn writable(&self, topic: &str, partition: i32) -> bool {
        let leader = self.world.source.leader(topic, partition).map(|(leader, _)| (true, leader));
        leader.is_some() && leader != self.broken.down && leader != self.broken.paused
    }

    /// Ends all faults, and counts those that happened.
    pub(crate) fn end_faults(&mut self) {
        for (kind, source, id) in std::mem::take(&mut self.broken.planned) {
            if !self.world.side(source).remove_fault(id) {
                self.counts.note(kind.word());
            }
        }
        for source in [true, false] {
            self.world.side(source).clear_faults();
        }
        let broken = std::mem::take(&mut self.broken);
        if let Some((source, id)) = broken.down {
            self.world.side(source).restart_broker(id);
        }
        if let Some((source, id)) = broken.paused {
            self.world.side(source).resume_broker(id);
        }
        if let Some((topic, partition)) = broken.held {
            self.world.target.release_replication(&topic, partition);
        }
        self.world.target.set_group("live", GroupKind::Consumer, false);
        // Followers fetch all the time, and are in sync again without anybody writing.
        for topic in self.world.target.topics() {
            for partition in 0..self.world.target.partitions(&topic) {
                self.world.target.release_replication(&topic, partition as i32);
            }
        }
    }

    /// The clusters, both sides.
    pub(crate) fn clusters(&self) -> [&EmbeddedCluster; 2] {
        [&self.world.source, &self.world.target]
    }
}
