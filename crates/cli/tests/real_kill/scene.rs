//! Two clusters, a workload, groups and what `twinlog run` is started with; and the judgement at the
//! end, which is the same for every fault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use twinlog_testkit::oracle::{compare, translate};
use twinlog_testkit::workload::Loaded;
use twinlog_testkit::{
    ClusterOptions, CommitAs, Dump, Jars, KafkaCluster, KafkaVersion, Live, Scratch, Shell,
    Twinlog, Workload, availability, wait_until_some,
};

pub(crate) type Failure = Box<dyn std::error::Error>;
type Result<T> = std::result::Result<T, Failure>;

/// The group that follows the live records and commits.
pub(crate) const FOLLOWER: &str = "follower";
/// Groups that stand still, by their lag in offsets.
const LAGS: [i64; 4] = [0, 1, 99, 5_000];
/// How long anything that must come may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// Random numbers that can be had again (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    /// From `TWINLOG_SEED` where it is set. Says the seed, so that a failure can be had again.
    pub(crate) fn new(test: &str) -> Result<Self> {
        let seed = match std::env::var("TWINLOG_SEED") {
            Ok(text) => text.parse().map_err(|_| format!("TWINLOG_SEED is no number: {text}"))?,
            Err(_) => std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)?
                .subsec_nanos()
                .into(),
        };
        println!("\n  {test}: TWINLOG_SEED={seed}");
        Ok(Self(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Lets a random time of at most `limit_ms` pass. It is the fault's moment that is random here:
    /// nothing is waited for.
    pub(crate) fn run_on(&mut self, limit_ms: u64) -> Duration {
        let moment = Duration::from_millis(self.next() % limit_ms.max(1));
        std::thread::sleep(moment);
        moment
    }
}

/// Kafka's jars.
pub(crate) fn jars() -> Result<Jars> {
    Ok(availability()?.jars(KafkaVersion::V4_3_0)?)
}

/// A cluster that is fit to be killed: its brokers give up dead transactions soon, or a producer that a
/// kill cut off would hold back all readers for a minute; and they write down at once where logs start,
/// or a killed broker would bring back what DeleteRecords has removed in its last minute.
pub(crate) fn cluster(brokers: usize) -> ClusterOptions {
    let options = if brokers == 1 { ClusterOptions::default() } else { ClusterOptions::three() };
    options
        .property("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")
        .property("log.flush.start.offset.checkpoint.interval.ms", "500")
        .property("log.initial.task.delay.ms", "500")
}

/// Everything that one test runs on, but for the shell: what is live borrows that one alone.
pub(crate) struct Scene<'a> {
    pub(crate) source: KafkaCluster,
    pub(crate) target: KafkaCluster,
    pub(crate) shell: &'a Shell,
    pub(crate) workload: Workload,
    pub(crate) loaded: Loaded,
    /// All topics of the source, those of the workload first.
    topics: Vec<String>,
    groups: Vec<String>,
    file: PathBuf,
    started: Instant,
    _scratch: Scratch,
}

impl<'a> Scene<'a> {
    /// Starts both clusters, loads the source and commits for groups at several lags. The mirrored
    /// topics get `replication` replicas.
    pub(crate) fn start(
        shell: &'a Shell,
        source: &ClusterOptions,
        target: &ClusterOptions,
        workload: Workload,
        replication: i16,
    ) -> Result<Self> {
        let started = Instant::now();
        let jars = jars()?;
        let (source, target) =
            KafkaCluster::start_two((&jars, "hello", source), (&jars, "world", target))?;
        let loaded = workload.load(shell, &source.bootstrap())?;
        let topics: Vec<String> = workload.names().into_iter().map(str::to_owned).collect();
        let mut groups = vec![FOLLOWER.to_owned()];
        for lag in LAGS {
            let group = format!("lag-{lag}");
            let bootstrap = source.bootstrap();
            shell.commit_at_lag(&bootstrap, &group, &workload.names(), lag, CommitAs::Member)?;
            groups.push(group);
        }
        let scratch = Scratch::new("mirror")?;
        let text = configuration(&source, &target, replication);
        let file = scratch.write("mm2.properties", &text)?;
        let scene = Self {
            source,
            target,
            shell,
            workload,
            loaded,
            topics,
            groups,
            file,
            started,
            _scratch: scratch,
        };
        let Loaded { records, aborted, .. } = &scene.loaded;
        scene.say(&format!("loaded {records} records and {aborted} aborted ones"));
        Ok(scene)
    }

    /// Says how a test comes along.
    pub(crate) fn say(&self, what: &str) {
        println!("  {:5.1} s: {what}", self.started.elapsed().as_secs_f64());
    }

    /// Starts `twinlog run`.
    pub(crate) fn run(&self) -> Result<Twinlog> {
        let binary = Path::new(env!("CARGO_BIN_EXE_twinlog"));
        let args = [Path::new("run"), &self.file];
        Ok(Twinlog::start_with_env(binary, args, &[("NO_COLOR", "1"), ("RUST_BACKTRACE", "1")])?)
    }

    /// Traffic on the source, with a group that follows it.
    pub(crate) fn live(&self, rate: u64) -> Result<Live<'a>> {
        Ok(self.workload.live(self.shell, &self.source.bootstrap(), rate, Some(FOLLOWER))?)
    }

    /// A topic that came later.
    pub(crate) fn add_topic(&mut self, topic: &str) {
        self.topics.push(topic.to_owned());
    }

    fn names(&self) -> Vec<&str> {
        self.topics.iter().map(String::as_str).collect()
    }

    /// Log end offsets of the mirrored partitions; none where they are not there yet.
    pub(crate) fn ends(&self) -> Result<BTreeMap<(String, i32), i64>> {
        let bootstrap = self.target.bootstrap();
        let there = self.shell.topics(&bootstrap)?;
        let mut ends = BTreeMap::new();
        for topic in &self.topics {
            if there.contains_key(&mirror(topic)) {
                for (partition, end) in self.shell.end_offsets(&bootstrap, &mirror(topic))? {
                    ends.insert((topic.clone(), partition), end);
                }
            }
        }
        Ok(ends)
    }

    /// How many records stand on the target. The mirror has no holes, so its ends tell.
    pub(crate) fn copied(&self) -> Result<i64> {
        Ok(self.ends()?.values().sum())
    }

    /// Waits until more than `than` records stand on the target.
    pub(crate) fn wait_until_copied(
        &self,
        than: i64,
        limit: Duration,
        by: &Twinlog,
    ) -> Result<i64> {
        let what = format!("more than {than} records on the target");
        let copied = wait_until_some(&what, limit, || match self.copied() {
            Ok(copied) if copied > than => Ok(copied),
            Ok(copied) => Err(format!("{copied}; {}", by.process().log_tail(5))),
            Err(error) => Err(error.to_string()),
        })?;
        Ok(copied)
    }

    /// Reads the source once no transaction is open there any more.
    fn source_at_rest(&self) -> Result<Dump> {
        let bootstrap = self.source.bootstrap();
        let dump = wait_until_some("the source at rest", LIMIT, || {
            let dump = self.shell.dump(&bootstrap, &self.names()).map_err(|e| e.to_string())?;
            for topic in &self.topics {
                let ends = self.shell.end_offsets(&bootstrap, topic).map_err(|e| e.to_string())?;
                for (partition, end) in ends {
                    if dump.log(topic, partition).is_none_or(|log| log.end != end) {
                        return Err(format!("{topic}-{partition} has an open transaction"));
                    }
                }
            }
            Ok(dump)
        })?;
        Ok(dump)
    }

    /// Waits until all records of the source are on the target, and answers what the source has.
    pub(crate) fn wait_until_equal(&self, by: &Twinlog) -> Result<(Dump, Dump)> {
        let wanted = self.source_at_rest()?;
        let start = Instant::now();
        let counts: BTreeMap<_, _> =
            wanted.logs.iter().map(|(at, log)| (at.clone(), log.rows.len() as i64)).collect();
        let whole = wait_until_some("a whole copy", LIMIT, || {
            let ends = self.ends().map_err(|error| error.to_string())?;
            let short: Vec<String> = counts
                .iter()
                .filter(|&(at, count)| ends.get(at).is_none_or(|end| end < count))
                .map(|((topic, partition), count)| {
                    let end = ends.get(&(topic.clone(), *partition));
                    format!("{topic}-{partition}: {end:?} of {count}")
                })
                .collect();
            if short.is_empty() { Ok(()) } else { Err(short.join(", ")) }
        });
        let mirrors: Vec<String> = self.topics.iter().map(|topic| mirror(topic)).collect();
        let mirrors: Vec<&str> = mirrors.iter().map(String::as_str).collect();
        let target = self.shell.dump(&self.target.bootstrap(), &mirrors)?;
        let report = compare(&wanted, &target, mirror);
        if !report.is_faithful() {
            let whole = whole.err().map(|error| error.to_string()).unwrap_or_default();
            return Err(format!("{report}{whole}\n{}", complaints(by)).into());
        }
        self.say(&format!(
            "{} records equal, 0 lost, 0 doubled, 0 reordered, {} ms after the source was at rest",
            report.compared,
            start.elapsed().as_millis()
        ));
        Ok((wanted, target))
    }

    /// The judgement: all records equal, and every group at the exact place by contents.
    pub(crate) fn judge(&self, by: &Twinlog) -> Result<()> {
        let (source, target) = self.wait_until_equal(by)?;
        let start = Instant::now();
        let mut checked = 0;
        for group in &self.groups {
            checked += wait_until_some(&format!("group {group} in its place"), LIMIT, || {
                self.check_group(group, &source, &target)
            })
            .map_err(|error| format!("{error}\n{}", complaints(by)))?;
        }
        self.say(&format!(
            "{} groups exact in {checked} partitions after {} ms",
            self.groups.len(),
            start.elapsed().as_millis()
        ));
        // What came late, after all was equal, is still there.
        let ends = self.ends()?;
        for ((topic, partition), log) in &source.logs {
            let end = ends.get(&(topic.clone(), *partition)).copied();
            if end != Some(log.rows.len() as i64) {
                return Err(format!("{topic}-{partition} ends at {end:?} in the end").into());
            }
        }
        Ok(())
    }

    /// How many places of a group are exact, when all are.
    fn check_group(
        &self,
        group: &str,
        source: &Dump,
        target: &Dump,
    ) -> std::result::Result<usize, String> {
        let committed = |bootstrap: &str| {
            self.shell.committed(bootstrap, group).map_err(|error| error.to_string())
        };
        let (wanted, there) =
            (committed(&self.source.bootstrap())?, committed(&self.target.bootstrap())?);
        let mut checked = 0;
        for (topic, partitions) in &wanted {
            for (&partition, at) in partitions {
                let found = there.get(&mirror(topic)).and_then(|there| there.get(&partition));
                let found = found.map(|committed| committed.offset);
                let logs = source.log(topic, partition).zip(target.log(&mirror(topic), partition));
                let Some((source, target)) = logs else {
                    return Err(format!("{topic}-{partition} was not read"));
                };
                let exact = translate(source, target, at.offset);
                if !found.is_some_and(|found| exact.is_exactly(found)) {
                    return Err(format!(
                        "{topic}-{partition}: {} on the source is {exact:?}, but {found:?} is committed",
                        at.offset
                    ));
                }
                checked += 1;
            }
        }
        if checked == 0 {
            Err(format!("{group} has no commits on the source"))
        } else {
            Ok(checked)
        }
    }
}

/// The name of a topic's mirror.
pub(crate) fn mirror(topic: &str) -> String {
    format!("hello.{topic}")
}

/// What a twinlog warned of, for messages.
fn complaints(by: &Twinlog) -> String {
    let log = by.process().log();
    let telling = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    let warnings: Vec<&str> = log.lines().filter(telling).collect();
    let last = &warnings[warnings.len().saturating_sub(20)..];
    format!("twinlog's warnings:\n{}\nand its end:\n{}", last.join("\n"), by.process().log_tail(10))
}

fn configuration(source: &KafkaCluster, target: &KafkaCluster, replication: i16) -> String {
    let internal = target.brokers().len();
    let (hello, world) = (source.bootstrap(), target.bootstrap());
    format!(
        "clusters: hello, world\n\
         hello.bootstrap.servers: {hello}\n\
         world.bootstrap.servers: {world}\n\
         hello->world.enabled: true\n\
         hello->world.topics: plain.*,transactional,compacted,trimmed,late\n\
         hello->world.groups: {FOLLOWER},lag-.*\n\
         hello->world.emit.checkpoints.enabled: true\n\
         hello->world.sync.group.offsets.enabled: true\n\
         world->hello.enabled: false\n\
         replication.factor: {replication}\n\
         checkpoints.topic.replication.factor: {internal}\n\
         heartbeats.topic.replication.factor: {internal}\n\
         offset-syncs.topic.replication.factor: {internal}\n\
         offset.storage.replication.factor: {internal}\n\
         status.storage.replication.factor: {internal}\n\
         config.storage.replication.factor: {internal}\n"
    )
}
