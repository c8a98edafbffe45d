//! What the tests share: brokers, the properties file, `twinlog run`, and how a mirror is judged.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use twinlog_testkit::oracle::{Expected, compare, translate};
use twinlog_testkit::{
    ClusterOptions, Committed, Dump, Jars, KafkaCluster, KafkaVersion, Offsets, Scratch, Shell,
    Twinlog, availability, wait_until_some,
};

/// Of a test or of something it asks.
pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// For what has no limit of its own: far more than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// How soon groups stand right after the last commit, and what is new is mirrored: 5 s are promised,
/// and printed is what it took; the rest is for a machine that has much else to do.
pub(crate) const SOON: Duration = Duration::from_secs(15);
/// How soon an orderly end must come.
pub(crate) const END: Duration = Duration::from_secs(10);

/// Whether the figures are to be taken at full size: `TWINLOG_BENCH=1`.
pub(crate) fn bench() -> bool {
    std::env::var("TWINLOG_BENCH").is_ok_and(|value| value == "1")
}

/// Two clusters of one broker each, and a JVM for everything that is asked of them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) jars: Jars,
    pub(crate) shell: Shell,
    pub(crate) hello: KafkaCluster,
    pub(crate) world: KafkaCluster,
}

/// The clusters that all tests share; they end with the process.
pub(crate) fn pair() -> Result<&'static Pair> {
    static PAIR: LazyLock<std::result::Result<Pair, String>> =
        LazyLock::new(|| start_pair().map_err(|error| error.to_string()));
    PAIR.as_ref().map_err(|error| error.as_str().into())
}

fn start_pair() -> Result<Pair> {
    let jars = availability()?.jars(KafkaVersion::V4_3_0)?;
    // Whatever has no rule is allowed.
    let options = ClusterOptions::default()
        .property(
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        )
        .property("allow.everyone.if.no.acl.found", "true");
    let (hello, world) =
        KafkaCluster::start_two((&jars, "hello", &options), (&jars, "world", &options))?;
    Ok(Pair { shell: Shell::start(&jars)?, jars, hello, world })
}

/// A third cluster, of 4.3.0 too. Whoever stops it starts it again.
pub(crate) fn third() -> Result<MutexGuard<'static, KafkaCluster>> {
    static THIRD: LazyLock<std::result::Result<Mutex<KafkaCluster>, String>> =
        LazyLock::new(|| {
            let start =
                || Ok(KafkaCluster::start(&pair()?.jars, "third", &ClusterOptions::default())?);
            start().map(Mutex::new).map_err(|error: Box<dyn std::error::Error>| error.to_string())
        });
    let third = THIRD.as_ref().map_err(String::as_str)?;
    Ok(third.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A cluster of one 3.9.1 broker.
pub(crate) fn old() -> Result<&'static KafkaCluster> {
    static OLD: LazyLock<std::result::Result<KafkaCluster, String>> = LazyLock::new(|| {
        let jars = availability().and_then(|java| java.jars(KafkaVersion::V3_9_1));
        jars.and_then(|jars| KafkaCluster::start(&jars, "old", &ClusterOptions::default()))
            .map_err(|error| error.to_string())
    });
    OLD.as_ref().map_err(|error| error.as_str().into())
}

/// The file of a user who has MirrorMaker 2 between two clusters.
pub(crate) fn users_file(hello: &str, world: &str) -> String {
    format!(
        "clusters: hello, world
hello.bootstrap.servers: {hello}
world.bootstrap.servers: {world}

hello->world.enabled: true
hello->world.topics: orders,payments,audit.*
hello->world.emit.checkpoints.enabled: true
hello->world.emit.checkpoints.interval.seconds: 30
hello->world.sync.group.offsets.enabled: true
hello->world.sync.group.offsets.interval.seconds: 30
hello->world.offset.lag.max: 25
hello->world.refresh.groups.interval.seconds: 60
hello->world.groups: orders-consumer,payments-.*
hello->world.groups.exclude: console-consumer-.*,__.*
world->hello.enabled: true
world->hello.sync.group.offsets.enabled: false
{REPLICATION}"
    )
}

/// Keys without which nothing can be created on one broker.
const REPLICATION: &str = "replication.factor: 1
checkpoints.topic.replication.factor: 1
heartbeats.topic.replication.factor: 1
offset-syncs.topic.replication.factor: 1
offset.storage.replication.factor: 1
status.storage.replication.factor: 1
config.storage.replication.factor: 1
";

/// A file of flows `(source, target)`, each with these topics and all groups that start with
/// `prefix`.
pub(crate) fn flows_file(
    clusters: &[(&str, &str)],
    flows: &[(&str, &str)],
    topics: &str,
    prefix: &str,
) -> String {
    let names: Vec<&str> = clusters.iter().map(|(name, _)| *name).collect();
    let mut text = format!("clusters = {}\n", names.join(", "));
    for (name, bootstrap) in clusters {
        let _ = writeln!(text, "{name}.bootstrap.servers = {bootstrap}");
    }
    for (source, target) in flows {
        let flow = format!("{source}->{target}");
        let _ = writeln!(text, "{flow}.enabled = true\n{flow}.topics = {topics}");
        let _ = writeln!(text, "{flow}.groups = {prefix}.*");
        let _ = writeln!(text, "{flow}.sync.group.offsets.enabled = true");
    }
    text + REPLICATION
}

/// A properties file, and the binary that is asked with it.
#[derive(Debug)]
pub(crate) struct Mirror {
    file: PathBuf,
    _scratch: Scratch,
}

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) exit: Option<i32>,
    pub(crate) document: Value,
}

impl Mirror {
    pub(crate) fn new(properties: &str) -> Result<Self> {
        let scratch = Scratch::new("mirror")?;
        Ok(Self { file: scratch.write("mm2.properties", properties)?, _scratch: scratch })
    }

    /// From `hello` to `world` alone: topics and groups that start with `prefix`.
    pub(crate) fn of_prefix(pair: &Pair, prefix: &str) -> Result<Self> {
        let (hello, world) = (pair.hello.bootstrap(), pair.world.bootstrap());
        let clusters = [("hello", hello.as_str()), ("world", world.as_str())];
        let topics = format!("{prefix}.*");
        Self::new(&flows_file(&clusters, &[("hello", "world")], &topics, prefix))
    }

    /// Starts `twinlog run`.
    pub(crate) fn run(&self) -> Result<Twinlog> {
        self.run_with(&[])
    }

    /// Starts `twinlog run` with further arguments.
    pub(crate) fn run_with(&self, more: &[&str]) -> Result<Twinlog> {
        let file = self.file.to_string_lossy();
        let args = ["run", file.as_ref()].into_iter().chain(more.iter().copied());
        Ok(Twinlog::start(binary(), args)?)
    }

    /// Runs a command to its end.
    pub(crate) fn output(&self, command: &str, more: &[&str]) -> Result<Output> {
        let file = self.file.to_string_lossy();
        let args = [command, file.as_ref()].into_iter().chain(more.iter().copied());
        Ok(Twinlog::output(binary(), args)?)
    }

    /// Runs a command that answers in JSON, about the flow from `hello` to `world` where there are
    /// several.
    pub(crate) fn ask(&self, command: &str, more: &[&str]) -> Result<Answer> {
        let args: Vec<&str> = ["--json"].into_iter().chain(more.iter().copied()).collect();
        let output = self.output(command, &args)?;
        let document = serde_json::from_slice(&output.stdout).map_err(|error| {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            format!("{command} answered no JSON: {error}: {out:?} {err}")
        })?;
        Ok(Answer { exit: output.status.code(), document })
    }
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_twinlog"))
}

/// Stops `twinlog run` as an init system does, and answers how long that took.
pub(crate) fn stop(run: &Twinlog) -> Result<Duration> {
    let start = Instant::now();
    let status = run.stop(END)?;
    let took = start.elapsed();
    if !status.success() {
        return Err(format!("{status}; {}", run.process().log_tail(20)).into());
    }
    Ok(took)
}

/// Fails with what the program said last, if `result` is an error.
pub(crate) fn or_log<T>(run: &Twinlog, result: Result<T>) -> Result<T> {
    result.map_err(|error| {
        format!("{error}\nthe log of twinlog ends with\n{}", run.process().log_tail(30)).into()
    })
}

/// Names of mirrors as MM2's default policy has them.
pub(crate) fn prefixed(alias: &str) -> impl Fn(&str) -> String {
    move |topic| format!("{alias}.{topic}")
}

/// Waits until as many records are on the target as on the source, then reads both and compares
/// them record by record.
pub(crate) fn until_equal(
    shell: &Shell,
    (source, target): (&str, &str),
    topics: &[&str],
    mirror: impl Fn(&str) -> String,
) -> Result<(Dump, Dump)> {
    let original = shell.dump(source, topics)?;
    let mirrors: Vec<String> = topics.iter().map(|topic| mirror(topic)).collect();
    wait_until_some("a copy of every record", LIMIT, || {
        for topic in topics {
            let ends = shell.end_offsets(target, &mirror(topic)).map_err(|e| e.to_string())?;
            for ((_, partition), log) in original.logs.iter().filter(|((t, _), _)| t == topic) {
                let end = ends.get(partition).copied().unwrap_or_default();
                if end < log.rows.len() as i64 {
                    return Err(format!("{topic}-{partition}: {end} of {}", log.rows.len()));
                }
            }
        }
        Ok(())
    })?;
    let mirrors: Vec<&str> = mirrors.iter().map(String::as_str).collect();
    let copy = shell.dump(target, &mirrors)?;
    compare(&original, &copy, mirror).check()?;
    Ok((original, copy))
}

/// Committed offsets without what else was committed with them.
pub(crate) fn offsets(committed: &BTreeMap<String, BTreeMap<i32, Committed>>) -> Offsets {
    let partitions = |partitions: &BTreeMap<i32, Committed>| {
        partitions.iter().map(|(&number, committed)| (number, committed.offset)).collect()
    };
    committed.iter().map(|(topic, all)| (topic.clone(), partitions(all))).collect()
}

/// A group's place, by contents.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) group: String,
    /// On the target.
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) source_offset: i64,
    pub(crate) expected: Expected,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, topic, partition, source_offset, expected } = self;
        write!(f, "{group} on {topic}-{partition}, source offset {source_offset}: {expected:?}")
    }
}

/// Where groups that committed `commits` on the source must stand on the target.
pub(crate) fn places<'a>(
    commits: impl IntoIterator<Item = (&'a String, &'a Offsets)>,
    (original, copy): (&Dump, &Dump),
    mirror: impl Fn(&str) -> String,
) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for (group, offsets) in commits {
        for (topic, partitions) in offsets {
            let mirrored = mirror(topic);
            for (&partition, &source_offset) in partitions {
                let source = original.log(topic, partition).ok_or("no such partition")?;
                let target = copy.log(&mirrored, partition).ok_or("no such mirror")?;
                places.push(Place {
                    group: group.clone(),
                    topic: mirrored.clone(),
                    partition,
                    source_offset,
                    expected: translate(source, target, source_offset),
                });
            }
        }
    }
    Ok(places)
}

/// Waits until every group stands exactly at its place, at most `limit`.
pub(crate) fn until_placed(
    shell: &Shell,
    target: &str,
    places: &[Place],
    limit: Duration,
) -> Result<Duration> {
    let start = Instant::now();
    wait_until_some("every group at its place", limit, || {
        let mut committed = BTreeMap::new();
        for place in places {
            if !committed.contains_key(&place.group) {
                let offsets = shell.committed(target, &place.group).map_err(|e| e.to_string())?;
                committed.insert(place.group.clone(), offsets);
            }
            let offset = committed[&place.group]
                .get(&place.topic)
                .and_then(|partitions| partitions.get(&place.partition))
                .map(|committed| committed.offset);
            if !offset.is_some_and(|offset| place.expected.is_exactly(offset)) {
                return Err(format!("committed {offset:?}, but {place}"));
            }
        }
        Ok(())
    })?;
    Ok(start.elapsed())
}

/// Lets Java consumers go on in these groups on the target: each must read the very next record.
pub(crate) fn read_on(shell: &Shell, target: &str, places: &[Place]) -> Result {
    let mut next = BTreeMap::new();
    for place in places {
        if !next.contains_key(&place.group) {
            let records = shell.next_records(target, &place.group)?;
            let records: BTreeMap<_, _> = records
                .into_iter()
                .map(|next| ((next.topic.clone(), next.partition), next))
                .collect();
            next.insert(place.group.clone(), records);
        }
        let key = (place.topic.clone(), place.partition);
        let read =
            next[&place.group].get(&key).ok_or_else(|| format!("nothing read, but {place}"))?;
        let right = match place.expected {
            Expected::Record { offset, number } => {
                read.offset == Some(offset) && read.number == number
            }
            Expected::End { .. } => read.offset.is_none(),
            Expected::Missing { .. } => false,
        };
        if !right {
            return Err(format!("a consumer reads {read:?}, but {place}").into());
        }
    }
    Ok(())
}

/// The entry of an array of objects whose `key` is `name`.
pub(crate) fn entry<'a>(array: &'a Value, key: &str, name: &str) -> Option<&'a Value> {
    array.as_array()?.iter().find(|entry| entry[key] == name)
}

/// The flow from `hello` to `world` in an answer of `status`.
pub(crate) fn hello_world(document: &Value) -> Result<&Value> {
    let flow = entry(&document["flows"], "flow", "hello->world");
    Ok(flow.ok_or_else(|| format!("no flow hello->world in {document}"))?)
}
