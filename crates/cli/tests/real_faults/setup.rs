//! What the tests share: brokers with an authorizer, MirrorMaker 2's file, the doctor, and what a
//! failover would cost by the records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use twinlog_testkit::oracle::translate;
use twinlog_testkit::{
    ClusterOptions, CommitAs, Jars, JavaTool, KafkaCluster, KafkaVersion, Misplaced, Mm2, Offsets,
    Process, Scratch, Shell, Twinlog, availability, wait_until_some,
};

/// Of a test or of something it asks.
pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// For what has no limit of its own: far more than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// How long the doctor may take.
const SOON: Duration = Duration::from_secs(10);

/// Two clusters of one broker each, and a JVM for everything that is asked of them.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) jars: Jars,
    pub(crate) shell: Shell,
    pub(crate) hello: KafkaCluster,
    pub(crate) world: KafkaCluster,
}

/// The clusters that all tests share; they end with the process.
pub(crate) fn scene() -> Result<&'static Scene> {
    static SCENE: LazyLock<std::result::Result<Scene, String>> =
        LazyLock::new(|| start().map_err(|error| error.to_string()));
    SCENE.as_ref().map_err(|error| error.as_str().into())
}

fn start() -> Result<Scene> {
    let jars = availability()?.jars(KafkaVersion::V4_3_0)?;
    // Whatever has no rule is allowed.
    let options = ClusterOptions::default()
        .property(
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        )
        .property("allow.everyone.if.no.acl.found", "true")
        .property("auto.create.topics.enable", "false");
    let (hello, world) =
        KafkaCluster::start_two((&jars, "hello", &options), (&jars, "world", &options))?;
    Ok(Scene { shell: Shell::start(&jars)?, jars, hello, world })
}

/// The MirrorMaker 2 that the tests share: one goes on where the one before left it.
pub(crate) fn mm2() -> MutexGuard<'static, Option<Mm2>> {
    static MM2: Mutex<Option<Mm2>> = Mutex::new(None);
    MM2.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scene {
    pub(crate) fn source(&self) -> String {
        self.hello.bootstrap()
    }

    pub(crate) fn target(&self) -> String {
        self.world.bootstrap()
    }

    pub(crate) fn topic(&self, topic: &str, partitions: i32, configs: &[(&str, &str)]) -> Result {
        Ok(self.shell.create_topic(&self.source(), topic, partitions, 1, configs)?)
    }

    /// Produces records `from..to`, no two of which are alike, to a partition of the source.
    pub(crate) fn records(&self, topic: &str, partition: i32, from: usize, to: usize) -> Result {
        let values: Vec<String> = (from..to).map(|n| format!("{topic}/{partition}/{n}")).collect();
        let records: Vec<_> =
            values.iter().map(|value| (partition, None, Some(value.as_str()))).collect();
        self.shell.produce(&self.source(), topic, &records, &[])?;
        Ok(())
    }

    /// A topic of one partition with so many records.
    pub(crate) fn filled(&self, topic: &str, count: usize) -> Result {
        self.topic(topic, 1, &[])?;
        self.records(topic, 0, 0, count)
    }

    pub(crate) fn commit(&self, group: &str, topic: &str, offset: i64) -> Result {
        self.commit_on(&self.source(), group, topic, (0, offset))
    }

    pub(crate) fn commit_on(
        &self,
        cluster: &str,
        group: &str,
        topic: &str,
        (partition, offset): (i32, i64),
    ) -> Result {
        let offsets: Offsets = [(topic.to_owned(), [(partition, offset)].into())].into();
        Ok(self.shell.commit(cluster, group, &offsets, CommitAs::Admin)?)
    }

    /// What a group has committed on the target.
    pub(crate) fn stands(&self, group: &str, topic: &str, partition: i32) -> Result<Option<i64>> {
        let committed = self.shell.committed(&self.target(), group)?;
        let offsets = committed.get(topic).and_then(|partitions| partitions.get(&partition));
        Ok(offsets.map(|committed| committed.offset))
    }

    pub(crate) fn until_stands(&self, group: &str, topic: &str, wanted: i64) -> Result {
        Ok(wait_until_some(&format!("{group} at {wanted} of {topic}"), LIMIT, || {
            let stands = self.stands(group, topic, 0).map_err(|error| error.to_string())?;
            if stands == Some(wanted) { Ok(()) } else { Err(format!("{stands:?}")) }
        })?)
    }

    pub(crate) fn until_end(&self, topic: &str, wanted: i64) -> Result {
        Ok(wait_until_some(&format!("{wanted} records in {topic}"), LIMIT, || {
            let ends = self.shell.end_offsets(&self.target(), topic).map_err(|e| e.to_string())?;
            let end = ends.get(&0).copied().unwrap_or_default();
            if end >= wanted { Ok(()) } else { Err(format!("{end}")) }
        })?)
    }

    /// What a group that has committed `offset` on the source would read again on the target, by
    /// contents, from where it stands there. Negative: what it would skip.
    pub(crate) fn reread(&self, group: &str, topic: &str, offset: i64) -> Result<i64> {
        let mirror = format!("hello.{topic}");
        let original = self.shell.dump_with(&self.source(), &[topic], "read_uncommitted")?;
        let copy = self.shell.dump_with(&self.target(), &[&mirror], "read_uncommitted")?;
        let (Some(original), Some(copy)) = (original.log(topic, 0), copy.log(&mirror, 0)) else {
            return Err("no such partition".into());
        };
        let stands = self.stands(group, &mirror, 0)?.ok_or("it stands nowhere")?;
        let Misplaced { reread, skipped } = translate(original, copy, offset)
            .misplaced(stands, copy)
            .ok_or("the record is not on the target")?;
        Ok(reread as i64 - skipped as i64)
    }
}

/// A consumer that lives in a group on the target, under the client id `faults-member`.
pub(crate) fn member(
    scene: &Scene,
    scratch: &Scratch,
    group: &str,
    topic: &str,
) -> Result<Process> {
    let mut java = scene.jars.java(256, "WARN");
    let target = scene.target();
    java.arg(JavaTool::CONSOLE_CONSUMER).args([
        "--bootstrap-server",
        &target,
        "--topic",
        topic,
        "--group",
        group,
        "--command-property",
        "client.id=faults-member",
        "--command-property",
        "enable.auto.commit=false",
    ]);
    Ok(Process::start("console consumer", java, &scratch.path().join("consumer.log"))?)
}

/// A file of MirrorMaker 2 with short intervals: flows between aliases of the two clusters, each
/// with the lines of its own.
pub(crate) fn file(scene: &Scene, flows: &[(&str, &str, &[&str])]) -> String {
    let sources: BTreeSet<&str> = flows.iter().map(|(source, _, _)| *source).collect();
    let targets: BTreeSet<&str> = flows.iter().map(|(_, target, _)| *target).collect();
    let names: Vec<&str> = sources.iter().chain(&targets).copied().collect();
    let mut text = format!("clusters = {}\n{COMMON}", names.join(", "));
    let mut aliases: BTreeMap<&str, String> = BTreeMap::new();
    aliases.extend(sources.iter().map(|source| (*source, scene.source())));
    aliases.extend(targets.iter().map(|target| (*target, scene.target())));
    for (alias, bootstrap) in aliases {
        let _ = writeln!(text, "{alias}.bootstrap.servers = {bootstrap}");
        let _ = writeln!(text, "{alias}.offset.flush.interval.ms = 1000");
        let _ = writeln!(text, "{alias}.scheduled.rebalance.max.delay.ms = 0");
        let _ = writeln!(text, "{alias}.plugin.discovery = service_load");
    }
    for (source, target, lines) in flows {
        let _ = writeln!(text, "{source}->{target}.enabled = true");
        for line in *lines {
            let _ = writeln!(text, "{source}->{target}.{line}");
        }
    }
    text
}

const COMMON: &str = "emit.heartbeats.enabled = false
emit.checkpoints.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
refresh.topics.interval.seconds = 2
refresh.groups.interval.seconds = 2
sync.topic.configs.enabled = false
sync.topic.acls.enabled = false
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
";

/// `twinlog doctor` with a file.
#[derive(Debug)]
pub(crate) struct Doctor {
    file: PathBuf,
    more: Vec<String>,
    _scratch: Scratch,
}

/// What it said.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    exit: Option<i32>,
    findings: Vec<Value>,
}

impl Doctor {
    pub(crate) fn new(properties: &str) -> Result<Self> {
        let scratch = Scratch::new("doctor")?;
        let file = scratch.write("mm2.properties", properties)?;
        Ok(Self { file, more: Vec::new(), _scratch: scratch })
    }

    /// Asks with these arguments more.
    pub(crate) fn with(mut self, more: &[&str]) -> Self {
        self.more.extend(more.iter().map(|&one| one.to_owned()));
        self
    }

    /// Asks about a group or topic of a flow.
    pub(crate) fn ask(&self, flow: &str, about: [&str; 2]) -> Result<Report> {
        let file = self.file.to_string_lossy();
        let args = ["doctor", &file, "--json", "--flow", flow, about[0], about[1]];
        let args = args.into_iter().chain(self.more.iter().map(String::as_str));
        let start = Instant::now();
        let output = Twinlog::output(Path::new(env!("CARGO_BIN_EXE_twinlog")), args)?;
        let took = start.elapsed();
        assert!(took < SOON, "the doctor took {took:?}");
        let document: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("{about:?}: no JSON: {error}: {said}")
        })?;
        let flows = document["flows"].as_array().map_or(&[][..], Vec::as_slice);
        let here = flows.iter().find(|one| one["flow"] == flow);
        let findings = here.and_then(|flow| flow["findings"].as_array());
        let findings = findings.ok_or_else(|| format!("no flow {flow} in {document}"))?.clone();
        Ok(Report { exit: output.status.code(), findings })
    }

    /// Asks until exactly these errors are told, and the exit code is that of errors or of none.
    pub(crate) fn until(&self, flow: &str, about: [&str; 2], errors: &[&str]) -> Result<Report> {
        let what = format!("doctor of {flow} {about:?} says {errors:?}");
        let wanted: BTreeSet<&str> = errors.iter().copied().collect();
        let exit = Some(i32::from(!errors.is_empty()));
        Ok(wait_until_some(&what, LIMIT, || {
            let report = self.ask(flow, about).map_err(|error| error.to_string())?;
            let said = report.errors() == wanted && report.exit == exit;
            if said { Ok(report) } else { Err(format!("{report:#?}")) }
        })?)
    }

    /// Asks until an error with this code is told, whatever else is.
    pub(crate) fn until_says(&self, flow: &str, about: [&str; 2], code: &str) -> Result<Report> {
        let what = format!("doctor of {flow} {about:?} says {code}");
        Ok(wait_until_some(&what, LIMIT, || {
            let report = self.ask(flow, about).map_err(|error| error.to_string())?;
            if report.errors().contains(code) { Ok(report) } else { Err(format!("{report:#?}")) }
        })?)
    }

    /// The same of a group of the flow from `hello` to `world`.
    pub(crate) fn group(&self, group: &str, errors: &[&str]) -> Result<Report> {
        self.until("hello->world", ["--group", group], errors)
    }
}

/// What the doctor says of a group when it is given the two clusters and what they are called: the
/// codes of errors of each flow, and what it assumed.
pub(crate) fn without_a_file(
    scene: &Scene,
    group: &str,
) -> Result<(BTreeMap<String, Vec<String>>, String)> {
    let (source, target) = (scene.source(), scene.target());
    let args = ["doctor", "--source", &source, "--target", &target, "--json", "--group", group];
    let aliases = ["--source-alias", "hello", "--target-alias", "world"];
    let args = args.into_iter().chain(aliases);
    let output = Twinlog::output(Path::new(env!("CARGO_BIN_EXE_twinlog")), args)?;
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let mut flows = BTreeMap::new();
    for flow in document["flows"].as_array().into_iter().flatten() {
        let found = flow["findings"].as_array().cloned().unwrap_or_default();
        let report = Report { exit: output.status.code(), findings: found };
        let codes = report.errors().into_iter().map(str::to_owned).collect();
        flows.insert(flow["flow"].as_str().unwrap_or_default().to_owned(), codes);
    }
    Ok((flows, document["assumed"].to_string()))
}

impl Report {
    fn errors(&self) -> BTreeSet<&str> {
        let errors = self.findings.iter().filter(|finding| finding["severity"] == "error");
        errors.filter_map(|finding| finding["code"].as_str()).collect()
    }

    /// Findings with these codes are told in this order.
    pub(crate) fn says_in_order(&self, codes: &[&str]) -> Result {
        let said = self.findings.iter().filter_map(|finding| finding["code"].as_str());
        let said: Vec<&str> = said.filter(|code| codes.contains(code)).collect();
        if said == codes { Ok(()) } else { Err(format!("{said:?}, not {codes:?}").into()) }
    }

    /// The finding with this code says all of this.
    pub(crate) fn says(&self, code: &str, parts: &[&str]) -> Result {
        let found = self.findings.iter().find(|finding| finding["code"] == code);
        let text = found.map(Value::to_string).unwrap_or_default();
        match parts.iter().find(|part| !text.contains(**part)) {
            None => Ok(()),
            Some(part) => Err(format!("{part:?} is not in {code}: {text}\n{self:#?}").into()),
        }
    }
}
