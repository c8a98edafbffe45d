//! Kafka's command-line tools: one main class, one JVM, one answer.
//!
//! A JVM costs about a second here; where many commands follow each other, [`crate::Shell`] runs the
//! same classes in a JVM that is already there.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::error::{Error, IoContext as _, Result};
use crate::jars::Jars;
use crate::process::tail;
use crate::scratch::Scratch;

/// Heap of one tool, in MiB.
const HEAP_MIB: u32 = 256;

/// A main class of Kafka's jars, with its arguments.
#[derive(Debug)]
pub struct JavaTool {
    class: String,
    command: Command,
}

/// What a tool printed.
#[derive(Clone, Debug, Deserialize)]
pub struct ToolOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error, logs included.
    pub stderr: String,
    /// Whether it ended with status 0.
    pub success: bool,
}

impl JavaTool {
    /// Kafka's `kafka-acls.sh`.
    pub const ACLS: &str = "org.apache.kafka.tools.AclCommand";
    /// Kafka's `kafka-topics.sh`.
    pub const TOPICS: &str = "org.apache.kafka.tools.TopicCommand";
    /// Kafka's `kafka-configs.sh`.
    pub const CONFIGS: &str = "kafka.admin.ConfigCommand";
    /// Kafka's `kafka-consumer-groups.sh`.
    pub const CONSUMER_GROUPS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
    /// Kafka's `kafka-share-groups.sh`.
    pub const SHARE_GROUPS: &str = "org.apache.kafka.tools.consumer.group.ShareGroupCommand";
    /// Kafka's `kafka-console-share-consumer.sh`.
    pub const CONSOLE_SHARE_CONSUMER: &str = "org.apache.kafka.tools.consumer.ConsoleShareConsumer";
    /// Kafka's `kafka-console-consumer.sh`.
    pub const CONSOLE_CONSUMER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";
    /// Kafka's `kafka-console-producer.sh`.
    pub const CONSOLE_PRODUCER: &str = "org.apache.kafka.tools.ConsoleProducer";
    /// Kafka's `kafka-dump-log.sh`.
    pub const DUMP_LOG: &str = "org.apache.kafka.tools.DumpLogSegments";
    /// Kafka's `kafka-delete-records.sh`.
    pub const DELETE_RECORDS: &str = "org.apache.kafka.tools.DeleteRecordsCommand";
    /// Kafka's `kafka-producer-perf-test.sh`.
    pub const PRODUCER_PERF_TEST: &str = "org.apache.kafka.tools.ProducerPerformance";
    /// Kafka's `kafka-get-offsets.sh`.
    pub const GET_OFFSETS: &str = "org.apache.kafka.tools.GetOffsetShell";

    /// The main class `class` of the jars.
    pub fn new(jars: &Jars, class: &str) -> Self {
        let mut command = jars.java(HEAP_MIB, "WARN");
        command.arg(class);
        Self { class: class.to_owned(), command }
    }

    /// A Java program of the caller's own: the main class of `source`, compiled into `scratch`.
    pub fn from_source(jars: &Jars, source: &Path, scratch: &Scratch) -> Result<Self> {
        let class = source.file_stem().and_then(|stem| stem.to_str()).ok_or_else(|| {
            let detail = "the file's name is no class name".to_owned();
            Error::Malformed { what: source.display().to_string(), detail }
        })?;
        Ok(Self::new(&jars.compile(source, scratch.path())?, class))
    }

    /// This crate's probe of `MirrorClient` and `RemoteClusterUtils`, the Java classes with which
    /// applications read what MirrorMaker 2 knows: one JSON document on standard output. `config` are
    /// `MirrorClientConfig` properties.
    pub fn mirror_probe(
        jars: &Jars,
        target: &str,
        source_alias: &str,
        groups: &[&str],
        config: &[(&str, &str)],
    ) -> Self {
        let config = config.iter().map(|(key, value)| format!("{key}={value}"));
        Self::new(jars, "MirrorProbe").args([target, source_alias, &groups.join(",")]).args(config)
    }

    /// Adds arguments.
    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Runs it to its end with `input` on standard input; a bad exit status is not an error here.
    pub fn output_with_input(mut self, input: &str) -> Result<ToolOutput> {
        use std::io::Write as _;
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().context(|| format!("run {}", self.class))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A tool that ended without reading says why on its own.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().context(|| format!("run {}", self.class))?;
        Ok(ToolOutput {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            success: output.status.success(),
        })
    }

    /// Runs it to its end; a bad exit status is not an error here.
    pub fn output(self) -> Result<ToolOutput> {
        self.output_with_input("")
    }

    /// Runs it to its end and answers its standard output; a bad exit status is an error.
    pub fn run(self) -> Result<String> {
        let program = self.class.clone();
        let output = self.output()?;
        if output.success {
            return Ok(output.stdout);
        }
        let text = format!("{}{}", output.stdout, output.stderr);
        let status = "a bad exit status".to_owned();
        Err(Error::Failed { program, status, output: tail(&text, 30) })
    }
}
