//! The configuration of a command: a file, `-X`, or `--source` and `--target`.
//!
//! Does the reading of files and of the environment that `twinlog-mirror` asks for; what a
//! configuration means is decided there.
//!
//! # Invariants
//!
//! 1. Everything that is wrong is reported at once, with file, line and key.
//! 2. A value that a provider gave never stands in a message.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use twinlog_client::TcpDial;
use twinlog_engine::observe::Observer;
use twinlog_mirror::{Configuration, FlowConfig, Problem, Properties};
use twinlog_types::FlowName;

use crate::args::Common;
use crate::output::Failure;

/// What problems of `--source` and `--target` are said to be in.
const COMMAND_LINE: &str = "command line";

/// What stands for a file when there is none. Groups are carried over (a file says so itself), and
/// the brokers choose replication factors.
const WITHOUT_A_FILE: &str = "\
sync.group.offsets.enabled=true
replication.factor=-1
checkpoints.topic.replication.factor=-1
heartbeats.topic.replication.factor=-1
offset-syncs.topic.replication.factor=-1
";

/// Reads the configuration.
pub(crate) fn load(common: &Common) -> Result<Configuration, Failure> {
    load_with_notes(common).map(|(configuration, _)| configuration)
}

/// Reads the configuration; and which entries do nothing: misspelt, said twice, or at a level where
/// nobody reads them.
pub(crate) fn load_with_notes(common: &Common) -> Result<(Configuration, Vec<Problem>), Failure> {
    let read = read_whole(common)?;
    if read.problems.is_empty() {
        return Ok((read.configuration, read.notes));
    }
    Err(Failure::configuration(read.problems))
}

/// What could be read, and all that is to be said about it.
pub(crate) struct Whole {
    pub(crate) configuration: Configuration,
    /// What is wrong: the configuration is good for showing only then.
    pub(crate) problems: Vec<Problem>,
    /// Entries that do nothing.
    pub(crate) notes: Vec<Problem>,
    /// Settings that contradict each other.
    pub(crate) contradictions: Vec<Problem>,
}

/// Reads what can be read of the configuration.
pub(crate) fn read_whole(common: &Common) -> Result<Whole, Failure> {
    let source = Source::of(common)?;
    let resolver = |kind: &str, path: &str, key: &str| resolve(kind, path, key);
    let reading =
        Configuration::read(&source.name, &source.bytes, &common.overrides, Some(&resolver));
    let mut contradictions = reading.contradictions();
    for said in &mut contradictions {
        if said.file.is_empty() {
            // Of a default no line says anything.
            said.file.clone_from(&source.name);
        }
    }
    let (configuration, mut problems, mut notes) =
        (reading.configuration, reading.problems, reading.notes);
    problems.extend(unsupported(&configuration, &source.name));
    for said in problems.iter_mut().chain(&mut notes).chain(&mut contradictions) {
        source.locate(said);
    }
    Ok(Whole { configuration, problems, notes, contradictions })
}

/// The flows that a command looks at.
pub(crate) fn flows<'a>(
    configuration: &'a Configuration,
    common: &Common,
) -> Result<Vec<&'a FlowConfig>, Failure> {
    match &common.flow {
        None => Ok(configuration.flows().iter().collect()),
        Some(name) => flow(configuration, name).map(|flow| vec![flow]),
    }
}

/// The flow that `--flow` names.
pub(crate) fn flow<'a>(
    configuration: &'a Configuration,
    name: &FlowName,
) -> Result<&'a FlowConfig, Failure> {
    configuration.flow(name).ok_or_else(|| {
        let enabled: Vec<String> =
            configuration.flows().iter().map(|flow| flow.name.to_string()).collect();
        let next = if enabled.is_empty() {
            format!("say {name}.enabled = true")
        } else {
            format!("the enabled flows are {}", enabled.join(", "))
        };
        Failure::usage(format!("--flow: no flow {name} is enabled"), next)
    })
}

/// Looks at `flow` from outside.
pub(crate) fn observer(
    configuration: &Configuration,
    flow: &FlowConfig,
    timeout: Duration,
) -> Result<Observer, Failure> {
    let cluster = |alias: &twinlog_types::ClusterAlias| {
        let config = configuration.cluster(alias.as_str()).ok_or_else(|| {
            let message = format!("{}: cluster {alias} is not in the configuration", flow.name);
            Failure::usage(message, "list it under clusters")
        })?;
        Ok(twinlog_engine::cluster(config, Arc::new(TcpDial), seed(), timeout))
    };
    let back = FlowName::new(flow.name.target.clone(), flow.name.source.clone());
    Ok(Observer {
        config: Arc::new(flow.clone()),
        opposite: configuration.flow(&back).map(|flow| Arc::new(flow.clone())),
        source: cluster(&flow.name.source)?,
        target: cluster(&flow.name.target)?,
        clock: Arc::new(now_ms),
    })
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Different for every process, for jitter.
pub(crate) fn seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::from(since.subsec_nanos()) ^ since.as_secs().rotate_left(32);
    nanos ^ u64::from(std::process::id()).rotate_left(16)
}

/// Where a configuration comes from.
struct Source {
    name: String,
    bytes: Vec<u8>,
    /// Of `--…-command-config`: file and line by full key.
    origins: BTreeMap<String, (String, u32)>,
    without_a_file: bool,
}

impl Source {
    fn of(common: &Common) -> Result<Self, Failure> {
        match (&common.file, &common.source, &common.target) {
            (Some(_), Some(_), _) => Err(Failure::usage(
                "both a file and --source are given",
                "give a file, or --source and --target",
            )),
            (Some(file), ..) => Self::file(file),
            (None, Some(source), Some(target)) => Self::two_clusters(common, source, target),
            (None, ..) => Err(Failure::usage(
                "no configuration is given",
                "give a MirrorMaker 2 properties file, or --source and --target",
            )),
        }
    }

    fn file(file: &Path) -> Result<Self, Failure> {
        let name = file.display().to_string();
        let bytes = read(file).map_err(|problem| Failure::configuration(vec![problem]))?;
        Ok(Self { name, bytes, origins: BTreeMap::new(), without_a_file: false })
    }

    fn two_clusters(common: &Common, source: &str, target: &str) -> Result<Self, Failure> {
        let (from, to) = (common.source_alias.as_str(), common.target_alias.as_str());
        for (flag, alias) in [("--source-alias", from), ("--target-alias", to)] {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            if alias.is_empty() || !alias.chars().all(plain) || alias.contains("->") {
                let next = "use letters, digits, - and _";
                return Err(Failure::usage(format!("{flag}: `{alias}` is no alias"), next));
            }
        }
        if from == to {
            let message = format!("--target-alias: `{to}` is the source's alias as well");
            return Err(Failure::usage(message, "choose two different aliases"));
        }
        let mut text = format!("clusters={from},{to}\n{from}->{to}.enabled=true\n");
        text.push_str(WITHOUT_A_FILE);
        let mut origins = BTreeMap::new();
        let mut problems = Vec::new();
        for (alias, file) in
            [(from, &common.source_command_config), (to, &common.target_command_config)]
        {
            let Some(file) = file else { continue };
            match client_properties(file) {
                Ok(properties) => {
                    for entry in properties.entries() {
                        let key = format!("{alias}.{}", entry.key);
                        push(&mut text, &key, &entry.value);
                        origins.insert(key, (file.display().to_string(), entry.line));
                    }
                }
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(Failure::configuration(problems));
        }
        // What the flags say counts, also when a client file names servers.
        push(&mut text, &format!("{from}.bootstrap.servers"), source);
        push(&mut text, &format!("{to}.bootstrap.servers"), target);
        Ok(Self {
            name: COMMAND_LINE.into(),
            bytes: text.into_bytes(),
            origins,
            without_a_file: true,
        })
    }

    /// Lines of the text that stands for a file mean nothing to a user.
    fn locate(&self, problem: &mut Problem) {
        if !self.without_a_file || problem.file != self.name {
            return;
        }
        problem.line = None;
        let origin = problem.key.as_ref().and_then(|key| self.origins.get(key));
        if let Some((file, line)) = origin {
            problem.file.clone_from(file);
            problem.line = Some(*line);
        }
    }
}

/// No properties file, or what a provider reads, is larger: whatever is, is another kind of file, or
/// has no end.
const FILE_BYTES_MAX: u64 = 4 << 20;

fn read_bounded(file: &Path) -> Result<Vec<u8>, String> {
    let opened = std::fs::File::open(file).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let read = opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    Ok(bytes)
}

fn read(file: &Path) -> Result<Vec<u8>, Problem> {
    read_bounded(file).map_err(|error| Problem {
        file: file.display().to_string(),
        line: None,
        key: None,
        message: format!("cannot be read: {error}"),
        suggestion: Some(
            "check the path, its permissions, and that it is a properties file".into(),
        ),
    })
}

fn client_properties(file: &Path) -> Result<Properties, Vec<Problem>> {
    let bytes = read(file).map_err(|problem| vec![problem])?;
    Properties::parse(&bytes).map_err(|malformed| {
        let problems = malformed.into_iter().map(|entry| Problem {
            file: file.display().to_string(),
            line: Some(entry.line),
            key: None,
            message: "a `\\u` is not followed by four hexadecimal digits".into(),
            suggestion: None,
        });
        problems.collect()
    })
}

/// Adds an entry in the form that `java.util.Properties` writes.
fn push(text: &mut String, key: &str, value: &str) {
    push_escaped(text, key);
    text.push('=');
    push_escaped(text, value);
    text.push('\n');
}

fn push_escaped(text: &mut String, part: &str) {
    for unit in part.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_graphic() && !b"\\=:#!".contains(&byte) => {
                text.push(char::from(byte));
            }
            _ => {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
}

/// What this version cannot do, and must not pretend to: connecting without the protection that a
/// file asks for.
fn unsupported(configuration: &Configuration, file: &str) -> Vec<Problem> {
    let clusters = configuration.clusters().iter();
    let refused = clusters.filter_map(|cluster| {
        let protocol = cluster.properties.get("security.protocol")?.trim();
        (!protocol.eq_ignore_ascii_case("PLAINTEXT")).then(|| Problem {
            file: file.to_owned(),
            line: None,
            key: Some(format!("{}.security.protocol", cluster.alias)),
            message: format!("{protocol} is not supported by this version"),
            suggestion: Some("use a PLAINTEXT listener".into()),
        })
    });
    let own = configuration.flows().iter().flat_map(|flow| {
        [flow.on_source_gap().err(), flow.on_topic_recreated().err()].into_iter().flatten()
    });
    refused.chain(own).collect()
}

/// Answers for Kafka's own config providers.
fn resolve(kind: &str, path: &str, key: &str) -> Result<String, String> {
    match kind {
        "env" => {
            if !path.is_empty() {
                return Err("the path of an environment variable must be empty".into());
            }
            match std::env::var(key) {
                Ok(value) => Ok(value),
                Err(std::env::VarError::NotPresent) => Err("it is not set".into()),
                Err(std::env::VarError::NotUnicode(_)) => Err("it is not UTF-8".into()),
            }
        }
        "file" => {
            let bytes =
                read_bounded(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
            let properties = Properties::parse(&bytes)
                .map_err(|_| format!("{path} has a malformed \\u escape"))?;
            let value = properties.get(key).map(str::to_owned);
            value.ok_or_else(|| format!("{path} has no such key"))
        }
        "directory" => {
            if key.is_empty() || key.contains('/') || key == ".." || key == "." {
                return Err("it is not the name of a file".into());
            }
            let file = Path::new(path).join(key);
            let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let bytes = read_bounded(&file).map_err(|error| named(&error))?;
            String::from_utf8(bytes).map_err(|_| named(&"it is not UTF-8"))
        }
        class => Err(format!(
            "{class} is a Java class that cannot be run here; use the env, file or directory provider"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_properties_read() {
        let mut text = String::new();
        push(&mut text, "a b=c", " x:y#!\\ \n\u{e4}\u{1f600}=");
        let properties = Properties::parse(text.as_bytes()).expect("well formed");
        assert_eq!(properties.get("a b=c"), Some(" x:y#!\\ \n\u{e4}\u{1f600}="));
    }

    #[test]
    fn a_directory_provider_stays_in_its_directory() {
        for key in ["", ".", "..", "../passwd", "a/b"] {
            assert!(resolve("directory", "/etc", key).is_err(), "{key}");
        }
    }

    #[test]
    fn an_unknown_provider_is_refused_by_its_name() {
        let refused = resolve("com.example.Vault", "p", "k").expect_err("not runnable");
        assert!(refused.contains("com.example.Vault"));
    }
}
