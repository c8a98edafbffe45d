//! Two logs, the durable state, and the copiers between them, moved one step at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use twinlog_batch::batches;
use twinlog_offsets::state::Position;
use twinlog_offsets::{OffsetMap, RunStart};
use twinlog_types::{Code, Sequence, SourceOffset, TargetOffset};

use super::Random;
use super::broker::{Broker, Reply};
use super::source::{SourceLog, told_offset};
use crate::copy::{Answer, Copier, Fetched, Limits, Producer, Setup, StateWrite, Stop};

pub(super) const PRODUCER: Producer = Producer { id: 4_000, epoch: 0 };

/// What may happen in a history. Some faults are kept apart where Kafka itself leaves a hole when
/// they meet: a leader without producer state takes any sequence, so what forgets it does not meet
/// a second process that goes on sending, nor batches refused in front of others; and two
/// processes agree on the n-th record only while the cleaner leaves alone what neither has copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) two_owners: bool,
    pub(super) forget: bool,
    pub(super) compact: bool,
    pub(super) foreign: bool,
    pub(super) elect_unclean: bool,
    pub(super) small_batches: bool,
    pub(super) trim_source: bool,
    pub(super) trim_target: bool,
    pub(super) wide: bool,
    pub(super) wrap: bool,
}

impl Faults {
    pub(super) fn random(random: &mut Random) -> Self {
        let two_owners = random.once_in(3);
        let forget = !two_owners && random.once_in(2);
        let foreign = random.once_in(3);
        Self {
            two_owners,
            forget,
            compact: !two_owners && random.once_in(2),
            foreign,
            elect_unclean: random.once_in(3),
            small_batches: !forget && random.once_in(3),
            trim_source: random.once_in(6),
            trim_target: random.once_in(4),
            wide: random.once_in(100),
            wrap: random.once_in(8),
        }
    }
}

/// A batch on its way to the leader.
pub(super) struct Request {
    pub(super) ticket: u64,
    pub(super) bytes: Bytes,
    /// The source offsets of its records.
    pub(super) told: Vec<i64>,
}

/// One process's copier, and what it has under way.
pub(super) struct Actor {
    pub(super) copier: Copier,
    /// Sent and not yet judged by the leader, in order.
    pub(super) connection: VecDeque<Request>,
    /// Judged, the answer on its way; with the target offset that must be replicated first.
    pub(super) answers: VecDeque<(u64, Answer, i64)>,
    pub(super) fetch: Option<Fetched>,
    pub(super) write: Option<StateWrite>,
    pub(super) owner: bool,
    pub(super) unfenced: bool,
    /// Where the target's log began at the last look.
    pub(super) log_start: i64,
    pub(super) keep: Arc<()>,
}

impl Actor {
    pub(super) fn new(copier: Copier) -> Self {
        Self {
            copier,
            connection: VecDeque::new(),
            answers: VecDeque::new(),
            fetch: None,
            write: None,
            owner: true,
            unfenced: true,
            log_start: 0,
            keep: Arc::new(()),
        }
    }
}

/// The durable state: as last written, and as it would be read.
pub(super) struct Durable {
    pub(super) position: Position,
    pub(super) segments: BTreeMap<u32, Bytes>,
    pub(super) map: OffsetMap,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) faults: Faults,
    pub(super) source: SourceLog,
    pub(super) broker: Broker,
    pub(super) durable: Option<Durable>,
    /// The owner is the last one.
    pub(super) actors: Vec<Actor>,
    /// Packets of lost connections that the leader may still come to, in order each.
    pub(super) late: Vec<VecDeque<Request>>,
    /// Nothing fails any more.
    pub(super) calm: bool,
    /// The copy ended for good, and rightly so.
    pub(super) ended: Option<Stop>,
    /// What happened, for whoever reads a failure.
    pub(super) trace: Vec<(&'static str, i64, i64)>,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:?}", self.faults);
            for step in &self.trace {
                eprintln!("{step:?}");
            }
        }
    }
}

fn limits(random: &mut Random, faults: Faults) -> Limits {
    Limits {
        queue_bytes: [300, 1_200, 1 << 20][random.below(3)],
        // The target's limit may be lower than what was last heard of it.
        batch_bytes: if faults.small_batches { [200, 4_000][random.below(2)] } else { 4_000 },
        batch_records: [3, 1_000][random.below(2)],
        merge_below: [0, 150, 400][random.below(3)],
        merge_to: 1_500,
        ..Limits::default()
    }
}

pub(super) fn setup(limits: Limits) -> Setup {
    Setup {
        source_topic: "orders".into(),
        target_topic: "hello.orders".into(),
        limits,
        drop_aborted: true,
        recompress: None,
    }
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let faults = Faults::random(&mut random);
        let wrap = if faults.wrap { (1 << 31) - 1 - random.below(12) as i64 } else { 0 };
        let begin = if faults.wrap { wrap } else { [0, 9][random.below(2)] };
        let mut broker = Broker::new(begin);
        let source = SourceLog::new(wrap);
        let mut world = Self {
            broker: Broker::new(begin),
            source,
            durable: None,
            actors: Vec::new(),
            late: Vec::new(),
            calm: false,
            ended: None,
            trace: Vec::new(),
            faults,
            random,
        };
        let copier = if faults.wrap {
            // As many records were copied as it takes, and all of them are deleted by now.
            let mut map = OffsetMap::new(SourceOffset(0));
            map.set_origin(TargetOffset(0));
            let (source, target) = (SourceOffset(0), TargetOffset(0));
            map.plan(RunStart { count: 0, source, target });
            map.acknowledge(wrap as u64, SourceOffset(wrap));
            let position = Position {
                source_topic: "orders".into(),
                target_topic: "hello.orders".into(),
                producer_id: PRODUCER.id,
                producer_epoch: PRODUCER.epoch,
                start: SourceOffset(0),
                origin: target,
                count: wrap as u64,
                copied_to: SourceOffset(wrap),
                target_end: TargetOffset(wrap),
                runs: 1,
                source_epoch: 0,
                target_epochs: vec![(0, target)],
                written_ms: 0,
            };
            broker.remember(PRODUCER.id, (wrap - 1) as i32);
            let segments = map.segments_since(0).into_iter().collect();
            world.durable = Some(Durable { position, segments, map });
            world.restored()
        } else {
            let setup = setup(limits(&mut world.random, faults));
            Copier::new(setup, PRODUCER, SourceOffset(0), TargetOffset(begin))
        };
        if faults.small_batches {
            broker.max_bytes = 200;
        }
        world.broker = broker;
        world.actors.push(Actor::new(copier));
        world
    }

    pub(super) fn restored(&mut self) -> Copier {
        let setup = setup(limits(&mut self.random, self.faults));
        match &self.durable {
            None => Copier::new(
                setup,
                PRODUCER,
                SourceOffset(self.source.start),
                TargetOffset(self.broker.end()),
            ),
            Some(durable) => {
                let map =
                    OffsetMap::restore(&durable.position, [], durable.segments.clone()).unwrap();
                let numbers = 0..durable.segments.keys().last().map_or(0, |last| last + 1);
                let stored = twinlog_offsets::Durable::found(&map, numbers, 0..0);
                Copier::restore(setup, &durable.position, map, stored)
            }
        }
    }

    pub(super) fn log(&mut self, what: &'static str, one: i64, other: i64) {
        self.trace.push((what, one, other));
    }

    /// One random step of a copier or of what is between it and the logs.
    pub(super) fn step(&mut self) {
        let index = self.actors.len() - 1 - {
            if self.actors.len() > 1 && self.random.once_in(3) {
                self.random.below(self.actors.len())
            } else {
                0
            }
        };
        match self.random.below(14) {
            0 | 1 => self.ask(index),
            2 | 3 => self.deliver_fetched(index),
            4 | 5 => self.send(index),
            6 | 7 => self.judge(index),
            8 | 9 => self.answer(index),
            10 => self.look(index),
            11 => self.store(index),
            12 => self.finish_store(index),
            _ => self.fault(index),
        }
    }

    /// Asks the source; the answer is delivered later.
    pub(super) fn ask(&mut self, index: usize) {
        let Some(from) = self.actors[index].copier.wants_fetch() else { return };
        let from = from.offset;
        assert!(from.0 <= self.source.end);
        if from.0 < self.source.start {
            let (start, end) = (SourceOffset(self.source.start), SourceOffset(self.source.end));
            self.log("out of range", from.0, start.0);
            self.actors[index].copier.source_out_of_range(from, start, end);
            return self.stopped(index);
        }
        if self.actors[index].fetch.is_none() {
            let (records, aborted) = self.source.read(&mut self.random, from.0);
            let keep = self.actors[index].keep.clone();
            self.actors[index].fetch = Some(Fetched { from, records, aborted, keep });
        }
    }

    pub(super) fn deliver_fetched(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        let Some(fetched) = actor.fetch.take() else { return };
        let bytes = fetched.records.len();
        let queued = actor.copier.queue_bytes();
        let asked = actor.copier.wants_fetch().is_some_and(|from| from.offset == fetched.from);
        let from = fetched.from;
        let taken = actor.copier.fetched(fetched);
        assert!(asked || taken == 0, "a stale answer was taken in");
        // Decoded records are counted by an estimate that is generous to tiny ones.
        assert!(actor.copier.queue_bytes() <= queued + 16 * bytes, "the queue holds too much");
        self.log("fetched", from.0, taken as i64);
        self.stopped(index);
    }

    pub(super) fn send(&mut self, index: usize) {
        for _ in 0..=self.random.below(4) {
            let actor = &mut self.actors[index];
            let Some(sending) = actor.copier.next_send() else { return };
            let unacknowledged = actor.copier.unacknowledged();
            assert!(unacknowledged <= if actor.unfenced { 1 } else { 5 }, "too many under way");
            let bytes = sending.batch.to_bytes();
            let batch = batches(bytes.clone()).next().unwrap().unwrap();
            let records = batch.records(usize::MAX).unwrap();
            let mut told = Vec::with_capacity(records.len());
            for record in &records {
                let offset = told_offset(record).unwrap();
                let original = &self.source.originals[&offset];
                assert_eq!(
                    (&record.key, &record.value, &record.headers, record.timestamp),
                    (&original.key, &original.value, &original.headers, original.timestamp)
                );
                told.push(offset);
            }
            let sequence = Sequence::of_count(sending.ticket).to_wire();
            assert_eq!(batch.head().base_sequence, sequence);
            let request = Request { ticket: sending.ticket, bytes, told };
            self.explained(&request);
            self.log("sent", request.ticket as i64, request.told.len() as i64);
            self.actors[index].connection.push_back(request);
        }
    }

    /// Whoever restarted now from the durable state would know these records by their number.
    pub(super) fn explained(&self, request: &Request) {
        let durable = self.durable.as_ref().expect("nothing is sent before a state is durable");
        for (count, &told) in (request.ticket..).zip(&request.told) {
            assert_eq!(
                durable.map.source_of(count),
                Some(SourceOffset(told)),
                "record {count} is sent and not explained by the durable state"
            );
        }
    }

    /// The leader comes to the next request of a connection.
    pub(super) fn judge(&mut self, index: usize) {
        let Some(request) = self.actors[index].connection.pop_front() else { return };
        // Below min.insync.replicas. A leader without state would take the ones behind it.
        if self.broker.knows(PRODUCER.id) && !self.calm && self.random.once_in(15) {
            self.log("refused for a while", request.ticket as i64, 0);
            let unclear = (request.ticket, Answer::Unclear, 0);
            return self.actors[index].answers.push_back(unclear);
        }
        let (answer, next) = self.execute(&request);
        self.actors[index].answers.push_back((request.ticket, answer, next));
    }

    pub(super) fn execute(&mut self, request: &Request) -> (Answer, i64) {
        let end = self.broker.end();
        let reply = self.broker.append(&request.bytes);
        match reply {
            Reply::Stored { base, next } => {
                self.log("stored", request.ticket as i64, base);
                if base >= end {
                    self.explained(request);
                }
                (Answer::Stored { base: TargetOffset(base) }, next)
            }
            Reply::OutOfOrder => {
                self.log("out of order", request.ticket as i64, 0);
                (Answer::Unclear, 0)
            }
            Reply::TooLarge => (Answer::TooLarge, 0),
        }
    }

    pub(super) fn answer(&mut self, index: usize) {
        let Some((ticket, answer, next)) = self.actors[index].answers.pop_front() else { return };
        let unclear = !self.calm && self.random.once_in(15);
        let answer = if unclear { Answer::Unclear } else { answer };
        if let Answer::Stored { .. } = answer {
            self.broker.high_watermark = self.broker.high_watermark.max(next);
        }
        let actor = &mut self.actors[index];
        let before = actor.copier.map().acknowledged();
        actor.copier.answered(ticket, answer.clone());
        if actor.copier.map().acknowledged() > before {
            actor.unfenced = false;
        }
        let kind = match answer {
            Answer::Stored { .. } => "answered stored",
            Answer::Unclear => "answered unclear",
            Answer::TooLarge => "answered too large",
            Answer::Refused(_) => "answered refused",
        };
        self.log(kind, ticket as i64, next);
        self.stopped(index);
    }

    pub(super) fn look(&mut self, index: usize) {
        let Some(from) = self.actors[index].copier.wants_look() else { return };
        // A look ends when the log's end does not move any more.
        for mut packets in std::mem::take(&mut self.late) {
            for _ in 0..self.random.below(packets.len() + 1) {
                let Some(packet) = packets.pop_front() else { break };
                self.log("came late", packet.ticket as i64, 0);
                self.execute(&packet);
            }
        }
        let tail = self.broker.tail(from, PRODUCER);
        let actor = &mut self.actors[index];
        let looked = actor.copier.looked(&tail);
        // Only a look asks for it.
        if let Some(original) = actor.copier.wants_original() {
            actor.copier.original_read(original, 0);
        }
        actor.unfenced = tail.last_sequence.is_none();
        actor.log_start = tail.log_start.0;
        let settled = actor.copier.map().target_end();
        self.log("looked", looked.found as i64, settled.0);
        if looked.resumed && self.actors[index].copier.is_settled() {
            self.check_copied(index);
        }
        self.stopped(index);
    }

    pub(super) fn store(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        if actor.write.is_none()
            && let Some(write) = actor.copier.take_state()
        {
            let (count, runs) = (write.position.count, write.position.runs);
            actor.write = Some(write);
            self.log("state taken", count as i64, i64::from(runs));
        }
    }

    /// A write of the state ends: durable or not, and told or not.
    pub(super) fn finish_store(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        let Some(write) = actor.write.take() else { return };
        if !actor.owner {
            actor.copier.state_not_stored();
            return self.log("state refused", index as i64, 0);
        }
        let fails = !self.calm && self.random.once_in(6);
        let happened = !fails || self.random.once_in(2);
        self.log("state write ends", i64::from(happened), i64::from(!fails));
        if happened {
            self.make_durable(write);
        }
        let copier = &mut self.actors[index].copier;
        if fails {
            copier.state_not_stored();
        } else {
            copier.state_stored();
            if copier.copying() && copier.is_settled() {
                self.check_copied(index);
            }
        }
    }

    pub(super) fn make_durable(&mut self, write: StateWrite) {
        let mut segments =
            self.durable.take().map_or_else(BTreeMap::new, |durable| durable.segments);
        segments.extend(write.map.segments);
        segments.retain(|number, _| !write.map.removed_segments.contains(number));
        let map = OffsetMap::restore(&write.position, [], segments.clone()).unwrap();
        self.durable = Some(Durable { position: write.position, segments, map });
    }

    /// Looks after a copier that has stopped.
    pub(super) fn stopped(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        let Some(stop) = actor.copier.stopped().cloned() else { return };
        assert_eq!(actor.copier.queue_bytes(), 0);
        let held = 1 + usize::from(actor.fetch.is_some());
        assert_eq!(Arc::strong_count(&actor.keep), held, "a stopped partition holds bytes");
        assert!(actor.copier.next_send().is_none() && actor.copier.wants_fetch().is_none());
        let owner = actor.owner;
        self.log("stopped", index as i64, stop.code as i64);
        match stop.code {
            Code::MissingPermission => self.actors[index].copier.retry(),
            Code::RecordTooLarge => {
                assert!(self.faults.small_batches, "{}", stop.reason);
                self.broker.max_bytes = 4_000;
                self.actors[index].copier.set_batch_bytes(4_000);
                self.actors[index].copier.retry();
            }
            Code::OwnedElsewhere => {
                assert!(self.faults.two_owners, "{}", stop.reason);
                if owner {
                    // The state says that it still is: it recovers what the other one has copied.
                    self.actors[index].copier.retry();
                } else {
                    let gone = self.actors.remove(index);
                    self.late.push(gone.connection);
                }
            }
            Code::SourceGap => {
                assert!(self.faults.trim_source, "{}", stop.reason);
                let (from, to) = stop.range.expect("a gap has a range");
                assert_eq!(from, self.actors[index].copier.map().copied_to());
                assert!(from < to && to.0 <= self.source.start);
                if owner {
                    self.ended = Some(stop);
                } else {
                    self.actors.remove(index);
                }
            }
            code => panic!("stopped: {code}: {}", stop.reason),
        }
    }

    /// Faults end and everything is copied.
    pub(super) fn settle(&mut self) {
        self.calm = true;
        let owner = self.actors.pop().expect("there is an owner");
        for gone in self.actors.drain(..) {
            self.late.push(gone.connection);
        }
        self.actors.push(owner);
        for round in 0..4_000 {
            if self.ended.is_some() {
                return;
            }
            let copier = &self.actors[0].copier;
            if copier.copying()
                && copier.wants_fetch().is_some_and(|from| from.offset.0 == self.source.end)
                && copier.queue_bytes() == 0
                && !copier.store_wanted()
                && self.actors[0].write.is_none()
            {
                return;
            }
            assert!(round < 3_999, "it does not come to an end");
            let steps: [fn(&mut Self, usize); 8] = [
                Self::ask,
                Self::deliver_fetched,
                Self::look,
                Self::store,
                Self::finish_store,
                Self::send,
                Self::judge,
                Self::answer,
            ];
            for step in steps {
                let last = self.actors.len() - 1;
                step(self, last);
                if self.ended.is_some() {
                    return;
                }
            }
        }
    }

    /// One more look at the tail of a settled copy.
    pub(super) fn look_again(&mut self) {
        self.actors[0].copier.look_first();
        self.look(0);
    }
}
