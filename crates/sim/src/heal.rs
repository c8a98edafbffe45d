//! The second phase: the faults are over, everything must come true; then a quiet look at both
//! sides, at the state, and at every translation.

use tokio::time::{Duration, Instant};
use twinlog_embedded::Isolation;
use twinlog_engine::observe::{FlowObservation, Observer};
use twinlog_types::{SourceOffset, TopicPartition};

use crate::checks::{
    Invariant, Stopped, i1_loss, i2_repeats, i3_order, i5_translation, i7_transactions,
    i8_ownership, state_bytes,
};
use crate::faults::Kind;
use crate::instances::STATE;
use crate::look::judge;
use crate::network::Dialer;
use crate::oracle::{Mirror, Place};
use crate::run::{Position, Simulation};
use crate::traffic::{AGAIN, TORN};
use crate::world::mirror;

/// After so long without faults everything has arrived. A stopped partition rests for half a minute
/// before it is tried again, and a dead broker's leaderships move after nine seconds.
const PATIENCE: Duration = Duration::from_mins(2);
/// The latest packet is not later.
const LATE: Duration = Duration::from_secs(5);
/// The state is written twice a second.
const SETTLES: Duration = Duration::from_secs(2);

impl Simulation {
    /// Ends the faults and waits until everything that was promised is true.
    pub(crate) async fn heal(&mut self) {
        self.end_faults();
        self.thaw(true);
        while !self.end_transaction() {}
        if self.instances.is_empty() {
            self.start_instance();
        }
        // Lost brokers come back with the leaderships that nobody else could take.
        self.pass(Duration::from_millis(500)).await;
        while !self.end_transaction() {}
        if self.repeats_allowed {
            // What is late has come before the last batch, which notices it.
            self.pass(LATE).await;
        }
        let places: Vec<Place> = self.logs.keys().cloned().collect();
        for place in &places {
            self.write_to(place);
        }
        let began = Instant::now();
        let missing = loop {
            self.pass(Duration::from_millis(400)).await;
            self.hear_all();
            let missing = self.missing();
            if missing.is_none() || began.elapsed() > PATIENCE {
                break missing;
            }
        };
        self.healed = missing.is_none();
        let seconds = began.elapsed().as_secs();
        for limit in [5, 30, 60] {
            if seconds <= limit {
                self.counts.note(&format!("healed within {limit} s"));
            }
        }
        self.verdicts.note(
            Invariant::I9,
            missing.map(|what| format!("not within {PATIENCE:?} after the faults: {what}")),
        );
    }

    /// What is not as it must be once there are no faults.
    fn missing(&self) -> Option<String> {
        let records = self.logs.iter().find_map(|(place, log)| {
            let known = self.mirrors.get(place)?;
            let stop = self.stops.get(place);
            if let Some(stop) = stop.filter(|stop| stop.passing) {
                return Some(format!("{}-{} is stopped: {stop:?}", place.0, place.1));
            }
            if log.life > 0 {
                // It may have been made again before anything of it was copied.
                let copied = known.life == Some(log.life);
                let said = copied || self.recreated.contains(&place.0);
                return (!said).then(|| format!("nobody says that {} was made again", place.0));
            }
            if self.excused(place) || self.overtaken(place) {
                return None;
            }
            let missing = i1_loss::unaccounted(log, known, stop, self.start_of(place));
            missing.map(|what| format!("{}-{}: {what}; {}", place.0, place.1, self.logs_of(place)))
        });
        records.or_else(|| self.misplaced())
    }

    /// How the logs of both sides stand.
    fn logs_of(&self, (topic, partition): &Place) -> String {
        let mirror = mirror(topic);
        let sides = [(&self.world.source, topic), (&self.world.target, &mirror)];
        let [source, target] = sides.map(|(cluster, topic)| {
            format!(
                "{} to {}, high watermark {}, leader {:?}, in sync {:?}",
                cluster.log_start(topic, *partition),
                cluster.log_end(topic, *partition),
                cluster.high_watermark(topic, *partition),
                cluster.leader(topic, *partition),
                cluster.in_sync(topic, *partition),
            )
        });
        format!(
            "source {source}; target {target}; instances {:?}",
            self.instances
                .iter()
                .map(|one| one
                    .engine
                    .report()
                    .flows
                    .into_values()
                    .map(|flow| (flow.standing, flow.waiting, flow.stopped))
                    .collect::<Vec<_>>())
                .collect::<Vec<_>>()
        )
    }

    /// Whether the oracle cannot tell what must be there: the source gave offsets away twice while
    /// records of the first life may have been on their way.
    fn excused(&self, place: &Place) -> bool {
        let log = self.logs.get(place);
        log.is_some_and(|log| log.records.iter().any(|record| record.lost))
            && self.stops.contains_key(place)
    }

    /// Whether the target lost records of a partition that does not go on: a batch on its way came in
    /// behind the loss, which the product says, or the source had lost records before, and what the
    /// target loses then is seen from outside only. Or a target that forgets producers refused a batch and
    /// took the one behind it, which no producer can prevent that has more than one on its way.
    fn overtaken(&self, place: &Place) -> bool {
        let Some(stop) = self.stops.get(place).filter(|stop| !stop.passing) else { return false };
        let forgets = self.world.forgets || self.swarm.contains(&Kind::ProducersForgotten);
        let told = stop.code == "target-truncated" && forgets;
        self.target_lost.contains(place) || (told && self.was_jumped_over(place))
    }

    /// Whether the mirror goes on behind a record that it lacks.
    fn was_jumped_over(&self, place: &Place) -> bool {
        let Some((log, known)) = self.logs.get(place).zip(self.mirrors.get(place)) else {
            return false;
        };
        log.expected().any(|record| {
            Some(record.offset) < known.highest && !known.times.contains_key(&record.number)
        })
    }

    /// Where the product says that it began to read a partition.
    fn start_of(&self, place: &Place) -> i64 {
        if place.0 != TORN {
            return 0;
        }
        let id = self.world.source.topic_id(&place.0).map(|id| id.0);
        let stored = self.stored_positions();
        let about = |position: &&state_bytes::Position| {
            Some(position.source_topic) == id && position.partition == place.1
        };
        stored.iter().find(about).map_or(0, |position| position.start)
    }

    /// A group that does not stand where it must.
    fn misplaced(&self) -> Option<String> {
        self.positions.iter().find_map(|((group, place), position)| {
            if self.overtaken(place) {
                return None;
            }
            let known = self.mirrors.get(place)?;
            let Position { target, theirs, .. } = position;
            let expected = known.place_of(position.newest()?);
            let stands = match group.as_str() {
                // It was moved back on the source, or its consumers on the target went ahead.
                "back" | "ahead" => {
                    target.is_some_and(|at| at >= expected.max(theirs.unwrap_or(0)))
                }
                // It was committed before the target lost records that the cleaner then took from the
                // source: positions never go back.
                _ if self.target_lost.contains(place) && self.logs[place].compacted => {
                    target.is_some_and(|at| at >= expected)
                }
                _ => *target == Some(expected),
            };
            (!stands && !self.repeats_allowed && !self.target_compacted).then(|| {
                format!(
                    "{group} on {}-{} stands at {target:?}, not {expected} ({:?} on the source)",
                    place.0,
                    place.1,
                    position.newest()
                )
            })
        })
    }

    /// A quiet look at everything.
    pub(crate) async fn finish(&mut self) {
        self.pass(SETTLES).await;
        self.until_stored().await;
        self.hear_all();
        let places: Vec<Place> = self.logs.keys().cloned().collect();
        for place in &places {
            self.read_again(place);
        }
        self.ask_from_outside(&places).await;
        let records = self.world.target.records(STATE, 0, Isolation::ReadCommitted);
        let leases = state_bytes::leases(&records);
        self.verdicts.note(Invariant::I8, i8_ownership::two_owners(&leases, &self.readable));
        let takeovers = leases.windows(2).filter(|pair| pair[0].instance != pair[1].instance);
        self.counts.add("takeovers", takeovers.count() as u64);
        for cluster in self.clusters().map(Clone::clone) {
            for violation in cluster.violations() {
                self.verdicts.note(Invariant::Bug, Some(violation));
            }
        }
        self.counts.add("records on the target", {
            self.mirrors.values().map(|known| known.seen.len() as u64).sum()
        });
    }

    /// Whoever looks from outside knows what the state says. A transaction of it that was lost is
    /// waited for before another one is tried. Who takes over meanwhile knows nothing of a stop that was not
    /// stored, and comes to it again once the packets of the owner before have come.
    async fn until_stored(&mut self) {
        let began = Instant::now();
        while let Some(what) =
            self.not_stored().or_else(|| self.not_in_ledger()).or_else(|| self.missing_again())
        {
            if began.elapsed() > PATIENCE {
                self.verdicts.note(Invariant::I9, Some(what));
                return;
            }
            self.pass(Duration::from_millis(400)).await;
            self.hear_all();
        }
    }

    /// What was there already, and is not as it must be any more.
    fn missing_again(&self) -> Option<String> {
        self.healed.then(|| self.missing()).flatten()
    }

    /// A partition that stopped at a loss of the source which the stored ledger does not name.
    fn not_in_ledger(&self) -> Option<String> {
        let target = &self.world.target;
        let shards = (0..target.partitions(STATE) as i32)
            .map(|shard| target.records(STATE, shard, Isolation::ReadCommitted));
        let stored: Vec<_> = shards.flat_map(|records| state_bytes::gaps(&records)).collect();
        self.stops.iter().find_map(|(place, stop)| {
            let (from, to) = stop.range.filter(|_| i1_loss::is_in_ledger(&stop.code))?;
            let id = self.world.source.topic_id(&place.0)?.0;
            // The loss may be of the topic as it was before it was made again.
            let again = self.recreated.contains(&place.0);
            let there = stored.iter().any(|gap| {
                (gap.source_topic == id || again)
                    && (gap.partition, gap.from, gap.to) == (place.1, from, to)
            });
            (!there).then(|| {
                format!("{}-{}: the loss of {from} to {to} is not stored", place.0, place.1)
            })
        })
    }

    /// A partition whose stored position is behind its copy.
    fn not_stored(&self) -> Option<String> {
        let stored = self.stored_positions();
        let goes_on = |(place, _): &(&Place, &Mirror)| !self.stops.contains_key(*place);
        self.mirrors.iter().filter(goes_on).find_map(|(place, known)| {
            let ids = [&self.world.source, &self.world.target];
            let ids = [ids[0].topic_id(&place.0)?.0, ids[1].topic_id(&mirror(&place.0))?.0];
            let position = stored.iter().find(|position| {
                [position.source_topic, position.target_topic] == ids
                    && position.partition == place.1
            })?;
            let copied = known.times.len() as u64;
            (position.count < copied && !self.target_compacted).then(|| {
                format!(
                    "{}-{}: {} of {copied} records are stored",
                    place.0, place.1, position.count
                )
            })
        })
    }

    /// Reads a mirror from its beginning: what was read during the faults still stands there.
    fn read_again(&mut self, place: &Place) {
        let name = mirror(&place.0);
        let (Some(log), Some(during)) = (self.logs.get(place), self.mirrors.get(place)) else {
            return;
        };
        let about = |what| format!("{}-{}: {what}", place.0, place.1);
        let records = self.world.target.records(&name, place.1, Isolation::ReadCommitted);
        let mut after = Mirror::default();
        let all: Vec<_> = records.iter().collect();
        let verdicts = &mut self.verdicts;
        judge(verdicts, place, log, &mut after, &all, self.repeats_allowed);
        if !self.target_compacted {
            verdicts.note(Invariant::I3, i3_order::moved(during, &after).map(about));
        }
        let batches = self.world.target.batches(&name, place.1);
        verdicts.note(Invariant::I7, i7_transactions::markers(&batches).map(about));
        // An instance that ends takes with it what it had not said yet.
        let told = self.started > 1 || self.told.contains(place) || self.stops.contains_key(place);
        verdicts.note(Invariant::I2b, i2_repeats::untold(during, told).map(about));
        let repeated = during.times.values().filter(|times| **times > 1).count();
        self.counts.add("records twice, where allowed", repeated as u64);
    }

    /// What `status` and `translate` say: the ledger, and the place of every source offset.
    async fn ask_from_outside(&mut self, places: &[Place]) {
        let configuration = self.world.configuration();
        let link = self.world.link();
        let dial = std::sync::Arc::new(Dialer(link));
        let cluster = |at: usize| {
            let deadline = Duration::from_secs(10);
            twinlog_engine::cluster(
                &configuration.clusters()[at],
                dial.clone(),
                at as u64,
                deadline,
            )
        };
        let clock = self.world.target.clone();
        let Some(config) =
            configuration.flows().iter().find(|flow| flow.name.source.as_str() == "hello")
        else {
            return;
        };
        let observer = Observer {
            config: std::sync::Arc::new(config.clone()),
            opposite: None,
            source: cluster(0),
            target: cluster(1),
            clock: std::sync::Arc::new(move || clock.now_ms()),
        };
        let mut observed = FlowObservation::new(config.name.clone());
        observer.observe(&mut observed).await;
        for topic in &observed.topics {
            for partition in &topic.partitions {
                let place = (topic.topic.to_string(), partition.partition);
                let ledger: Vec<Stopped> = partition
                    .gaps
                    .iter()
                    .map(|gap| Stopped {
                        code: gap.why.word().to_owned(),
                        range: Some((gap.from.0, gap.to.0)),
                        passing: false,
                    })
                    .collect();
                self.judge_ledger(&place, &ledger);
            }
        }
        let wanted: Vec<TopicPartition> = places
            .iter()
            .filter(|(topic, _)| topic != AGAIN && topic != TORN)
            .map(|(topic, partition)| TopicPartition::new(topic.as_str(), *partition))
            .collect();
        let maps = match observer.mirror().await {
            Ok(maps) => maps.of_source(&wanted).await,
            Err(error) => Err(error),
        };
        let maps = match maps {
            Ok(maps) => maps,
            Err(error) => {
                self.verdicts.note(Invariant::I5b, Some(format!("no translation: {error}")));
                return;
            }
        };
        if self.repeats_allowed || self.target_compacted {
            return;
        }
        for (wanted, mapped) in wanted.iter().zip(maps) {
            let place = (wanted.topic.to_string(), wanted.partition);
            let Some(known) = self.mirrors.get(&place).filter(|_| !self.overtaken(&place)) else {
                continue;
            };
            let found = match mapped {
                Err(standing) => Some(format!("no translation: {standing:?}")),
                Ok(mapped) => {
                    let start = self.world.source.log_start(&place.0, place.1);
                    (start..=self.world.source.log_end(&place.0, place.1)).find_map(|position| {
                        let answer = mapped.map.translate(SourceOffset(position)).offset();
                        let answer = answer.map(|offset| offset.0);
                        i5_translation::inexact(known, position, answer)
                    })
                }
            };
            let about = |what| format!("{}-{}: {what}", place.0, place.1);
            self.verdicts.note(Invariant::I5b, found.map(about));
            self.counts.note("partitions translated throughout");
        }
    }

    /// I1: what is missing is in the ledger, and what is in the ledger is missing.
    fn judge_ledger(&mut self, place: &Place, ledger: &[Stopped]) {
        let (Some(log), Some(known)) = (self.logs.get(place), self.mirrors.get(place)) else {
            return;
        };
        if log.life > 0 {
            return;
        }
        let about = |what| format!("{}-{}: {what}", place.0, place.1);
        if !self.excused(place) && !self.overtaken(place) {
            let missing = i1_loss::unaccounted(log, known, ledger.last(), self.start_of(place));
            self.verdicts.note(Invariant::I1, missing.map(about));
        }
        let mut said: Vec<Stopped> = ledger.to_vec();
        said.extend(self.stops.get(place).cloned());
        self.counts.add("lost ranges in the ledger", ledger.len() as u64);
        self.verdicts.note(Invariant::I1, i1_loss::false_loss(log, known, &said).map(about));
    }
}
