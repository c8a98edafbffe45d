//! Random histories with faults: whatever happens, the mirror ends up faithful and groups exact.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use twinlog_client::ErrorCode;
use twinlog_embedded::{Action, Fault, NewRecord, RequestLogEntry};
use twinlog_engine::Engine;

use crate::support::{Random, World, until};

const SEEDS: u64 = 300;

struct Simulation {
    world: World,
    random: Random,
    engines: Vec<Engine>,
    topics: BTreeMap<String, i32>,
    numbers: BTreeMap<(String, i32), usize>,
    down: Option<(bool, i32)>,
    held: Vec<(String, i32)>,
    groups: BTreeMap<(String, String, i32), i64>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let brokers = if random.one_in(3) { 1 } else { 3 };
        let world = World::new(seed, brokers);
        let mut topics = BTreeMap::new();
        world.source.create_topic("plain", 2, &[]).unwrap();
        topics.insert("plain".to_owned(), 2);
        world.source.create_topic("tx", 1, &[]).unwrap();
        topics.insert("tx".to_owned(), 1);
        Self {
            world,
            random,
            engines: Vec::new(),
            topics,
            numbers: BTreeMap::new(),
            down: None,
            held: Vec::new(),
            groups: BTreeMap::new(),
        }
    }

    fn records(&mut self, topic: &str, partition: i32, count: u64) -> Vec<NewRecord> {
        let number = self.numbers.entry((topic.to_owned(), partition)).or_default();
        let old = 3 * 86_400_000 * self.random.below(2) as i64;
        let at = self.world.source.now_ms() - old;
        (0..count)
            .map(|_| {
                *number += 1;
                NewRecord::new(
                    format!("k{}", *number % 11),
                    format!("{topic}/{partition}/{number}"),
                )
                .at(at)
            })
            .collect()
    }

    fn write(&mut self) {
        let count = 1 + self.random.below(20);
        if self.random.one_in(2) {
            let partition = self.random.below(2) as i32;
            let records = self.records("plain", partition, count);
            // Without a leader the source's own producers fail, too.
            let _ = self.world.source.append("plain", partition, &records);
        } else {
            let mut transaction = self.world.source.begin_transaction();
            let records = self.records("tx", 0, count);
            let appended = self.world.source.append_in(&mut transaction, "tx", 0, &records);
            let commit = !self.random.one_in(4);
            if appended.is_ok() {
                self.world.source.end_transaction(transaction, commit).unwrap();
            }
        }
    }

    fn commit(&mut self) {
        let group = format!("g{}", self.random.below(4));
        let (topic, partition) = match self.random.below(3) {
            0 => ("plain", 0),
            1 => ("plain", 1),
            _ => ("tx", 0),
        };
        let key = (group.clone(), topic.to_owned(), partition);
        let end = self.world.source.log_end(topic, partition);
        let before = self.groups.get(&key).copied().unwrap_or(0);
        // Source groups go forward here; rewinds are decided by rules of their own.
        let position = before + self.random.below((end - before + 1).max(1) as u64) as i64;
        if self.world.source.commit_offset(&group, topic, partition, position).is_ok() {
            self.groups.insert(key, position);
        }
    }

    fn fault(&mut self) {
        let codes = [
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::REQUEST_TIMED_OUT,
            ErrorCode::NOT_ENOUGH_REPLICAS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NETWORK_EXCEPTION,
        ];
        let code = codes[self.random.below(codes.len() as u64) as usize].0;
        let action = match self.random.below(9) {
            0 => Action::Answer(code),
            1 => Action::AnswerAfterExecuting(code),
            2 => Action::CloseBefore,
            3 => Action::CloseAfter,
            4 => Action::CloseBehindAnswer,
            5 => Action::DropAnswer,
            6 => Action::Delay(Duration::from_millis(self.random.below(3_000))),
            7 => Action::WrongCorrelationId,
            _ => Action::TruncatedFrame,
        };
        let skip = self.random.below(6) as u32;
        let fault = Fault::new(action).skip(skip);
        let cluster = if self.random.one_in(3) { &self.world.source } else { &self.world.target };
        cluster.fault(fault);
    }

    fn brokers(&mut self) {
        if let Some((source, id)) = self.down.take() {
            self.side(source).restart_broker(id);
            return;
        }
        let source = self.random.one_in(3);
        let brokers = self.side(source).addresses().len() as u64;
        let id = 1 + self.random.below(brokers) as i32;
        self.side(source).kill_broker(id);
        self.down = Some((source, id));
    }

    fn side(&self, source: bool) -> &twinlog_embedded::EmbeddedCluster {
        if source { &self.world.source } else { &self.world.target }
    }

    fn mirror(&mut self) {
        let mirrors: Vec<(String, i32)> = self
            .topics
            .iter()
            .flat_map(|(topic, partitions)| {
                (0..*partitions).map(move |p| (format!("hello.{topic}"), p))
            })
            .filter(|(mirror, _)| self.world.target.topics().contains(mirror))
            .collect();
        if mirrors.is_empty() {
            return;
        }
        let (mirror, partition) = mirrors[self.random.below(mirrors.len() as u64) as usize].clone();
        match self.random.below(3) {
            0 => {
                let brokers = self.world.target.addresses().len() as u64;
                let to = 1 + self.random.below(brokers) as i32;
                self.world.target.move_leader(&mirror, partition, to);
            }
            1 if self.held.is_empty() => {
                self.world.target.hold_replication(&mirror, partition);
                self.held.push((mirror, partition));
            }
            1 => self.release(),
            _ => self.world.target.expire_producers(&mirror, partition),
        }
    }

    fn release(&mut self) {
        for (mirror, partition) in self.held.drain(..) {
            self.world.target.release_replication(&mirror, partition);
        }
    }

    async fn engines(&mut self) {
        match self.random.below(4) {
            0 => self.engines.clear(),
            1 if self.engines.len() < 2 => {}
            2 if !self.engines.is_empty() => {
                let engine = self.engines.remove(0);
                engine.shutdown().await;
            }
            _ => {}
        }
        if self.engines.len() < 2 {
            self.engines.push(self.world.start());
        }
    }

    async fn run(mut self, steps: u64) -> u64 {
        for _ in 0..10 {
            self.write();
        }
        self.engines.push(self.world.start());
        for _ in 0..steps {
            match self.random.below(12) {
                0..=4 => self.write(),
                5 | 6 => self.commit(),
                7 | 8 => self.fault(),
                9 => self.brokers(),
                10 => self.mirror(),
                _ => self.engines().await,
            }
            let wait = self.random.below(1_500);
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        self.heal().await
    }

    /// Faults end; what was promised must come true.
    async fn heal(mut self) -> u64 {
        self.world.source.clear_faults();
        self.world.target.clear_faults();
        if let Some((source, id)) = self.down.take() {
            self.side(source).restart_broker(id);
        }
        self.release();
        if self.engines.is_empty() {
            self.engines.push(self.world.start());
        }
        self.world.until_equal(&self.topics).await;
        until("all groups stand exactly", || {
            self.groups.iter().find_map(|((group, topic, partition), position)| {
                let committed = self.world.committed_on_target(group, topic, *partition);
                let expected = self.world.expected(topic, *partition, *position);
                (committed != Some(expected)).then(|| {
                    format!(
                        "{group} {topic}-{partition} at {position}: {committed:?}, not {expected}"
                    )
                })
            })
        })
        .await;
        assert_eq!(self.world.target.violations(), Vec::<String>::new());
        assert_eq!(self.world.source.violations(), Vec::<String>::new());
        let trace = self.trace();
        for engine in self.engines.drain(..) {
            drop(engine);
        }
        trace
    }

    /// A hash over every request that the target saw: when, at which broker, what about.
    fn trace(&self) -> u64 {
        let requests = self.world.target.requests();
        let began = requests.first().map(|first| first.at);
        let text = requests.iter().fold(String::new(), |mut text, request| {
            let after = began.map(|began| request.at - began);
            let RequestLogEntry { broker, connection, api, version, partitions, names, .. } =
                request;
            let _ = writeln!(
                text,
                "{after:?} {broker} {connection} {api:?} {version} {partitions:?} {names:?}"
            );
            text
        });
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

fn simulate(seed: u64) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(Simulation::new(seed).run(40))
}

fn seeds() -> Vec<u64> {
    if let Ok(text) = std::env::var("TWINLOG_SEED") {
        return vec![text.parse().expect("TWINLOG_SEED is a number")];
    }
    let count = std::env::var("TWINLOG_SEEDS")
        .map_or(SEEDS, |text| text.parse().expect("TWINLOG_SEEDS is a number"));
    (0..count).collect()
}

#[test]
fn random_histories_end_faithful_and_exact() {
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(|| simulate(seed));
        assert!(
            outcome.is_ok(),
            "replay with: TWINLOG_SEED={seed} cargo test -p twinlog-engine --test embedded random_histories"
        );
    }
}

#[test]
fn one_seed_gives_one_trace() {
    for seed in [3, 4, 5] {
        assert_eq!(simulate(seed), simulate(seed), "seed {seed}");
    }
}
