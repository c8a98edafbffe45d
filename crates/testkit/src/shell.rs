//! Kafka's Java clients behind one JVM that stays: commands go in, answers come out.
//!
//! A JVM start per command would be most of a test's time. One shell serves any number of clusters and,
//! as every method takes `&self`, any number of threads; answers are matched by number. Its clients for
//! one cluster are kept, so the second command is fast.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::jars::Jars;
use crate::java::{JavaTool, ToolOutput};
use crate::oracle::Dump;
use crate::process::Process;
use crate::scratch::Scratch;

/// How long a command may take. Kafka's own clients give up on most things after one or two minutes.
const LIMIT: Duration = Duration::from_mins(3);

/// Those who wait for an answer, by the number of their command. Nothing once the shell has ended.
type Waiting = Arc<Mutex<Option<HashMap<u64, Sender<Value>>>>>;

/// A JVM with Kafka's clients in it. Dropping it kills it.
#[derive(Debug)]
pub struct Shell {
    stdin: Mutex<ChildStdin>,
    waiting: Waiting,
    next: AtomicU64,
    process: Process,
    scratch: Scratch,
}

/// The first record that a consumer group would read of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NextRecord {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// What the group has committed.
    pub committed: i64,
    /// Where the record stands; nothing at the end of the partition.
    pub offset: Option<i64>,
    /// The number that [`crate::Workload`] gave it.
    pub number: Option<i64>,
    /// Its timestamp.
    pub timestamp: Option<i64>,
}

/// What a group has committed for a partition.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Committed {
    /// The offset.
    pub offset: i64,
    /// The leader epoch that goes with it.
    pub leader_epoch: Option<i32>,
    /// The group's own text.
    pub metadata: String,
}

/// How offsets are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitAs {
    /// By the admin client: the group never has members.
    Admin,
    /// By a consumer that joins the group, commits and leaves.
    Member,
}

/// What MM2's checkpoint task answers, by topic and partition, in the order of the questions.
pub type SyncAnswers = BTreeMap<(String, i32), Vec<Option<i64>>>;

/// Offsets by topic and partition.
pub type Offsets = BTreeMap<String, BTreeMap<i32, i64>>;

impl Shell {
    /// Starts the JVM.
    pub fn start(jars: &Jars) -> Result<Self> {
        let scratch = Scratch::new("shell")?;
        let mut java = jars.java(512, "WARN");
        java.arg("Shell");
        let log = scratch.path().join("shell.log");
        let (process, stdin, stdout) = Process::start_piped("java shell", java, &log)?;
        let waiting = Waiting::new(Mutex::new(Some(HashMap::new())));
        let readers = Arc::clone(&waiting);
        std::thread::spawn(move || read_answers(stdout, &readers));
        let next = AtomicU64::new(0);
        let shell = Self { stdin: Mutex::new(stdin), waiting, next, process, scratch };
        Ok(shell)
    }

    /// Sends one command, whose name is `command` and whose arguments are `args`, an object.
    pub fn call<T: DeserializeOwned>(&self, command: &str, args: Value) -> Result<T> {
        let answer = self.call_raw(command, args, LIMIT)?;
        serde_json::from_value(answer).map_err(|error| Error::Malformed {
            what: format!("the answer to {command}"),
            detail: error.to_string(),
        })
    }

    fn call_raw(&self, command: &str, mut args: Value, limit: Duration) -> Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        args["id"] = id.into();
        args["do"] = command.into();
        let (sender, receiver) = channel();
        match lock(&self.waiting).as_mut() {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(self.process.ended_early()),
        };
        let mut line = args.to_string();
        line.push('\n');
        let sent = lock(&self.stdin).write_all(line.as_bytes());
        if sent.is_err() {
            return Err(self.process.ended_early());
        }
        let mut answer = match receiver.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => return Err(self.process.ended_early()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(waiting) = lock(&self.waiting).as_mut() {
                    waiting.remove(&id);
                }
                let detail = format!("; its log ends with\n{}", self.process.log_tail(10));
                let what = format!("answer to {command} from the java shell");
                return Err(Error::TimedOut { what, limit, detail });
            }
        };
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => {
                Err(Error::Refused { command: command.to_owned(), answer: error.to_owned() })
            }
            None => Ok(answer["ok"].take()),
        }
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Says what clients of a cluster need beyond its address (security, for example). To be said before
    /// the first command for that address.
    pub fn client(&self, bootstrap: &str, configs: &[(&str, &str)]) -> Result<()> {
        let configs: BTreeMap<_, _> = configs.iter().copied().collect();
        self.call("client", json!({"bootstrap": bootstrap, "configs": configs}))
    }

    /// Creates a topic and waits until each of its partitions has a leader.
    pub fn create_topic(
        &self,
        bootstrap: &str,
        topic: &str,
        partitions: i32,
        replication: i16,
        configs: &[(&str, &str)],
    ) -> Result<()> {
        let configs: BTreeMap<_, _> = configs.iter().copied().collect();
        let args = json!({
            "bootstrap": bootstrap, "topic": topic, "partitions": partitions,
            "replication": replication, "configs": configs,
        });
        self.call("create-topic", args)
    }

    /// Raises the number of partitions of a topic.
    pub fn add_partitions(&self, bootstrap: &str, topic: &str, total: i32) -> Result<()> {
        self.call("add-partitions", json!({"bootstrap": bootstrap, "topic": topic, "total": total}))
    }

    /// Deletes a topic and waits until it is gone.
    pub fn delete_topic(&self, bootstrap: &str, topic: &str) -> Result<()> {
        self.call("delete-topic", json!({"bootstrap": bootstrap, "topic": topic}))
    }

    /// Sets configurations of a topic.
    pub fn configure_topic(
        &self,
        bootstrap: &str,
        topic: &str,
        configs: &[(&str, &str)],
    ) -> Result<()> {
        let configs: BTreeMap<_, _> = configs.iter().copied().collect();
        let args = json!({"bootstrap": bootstrap, "topic": topic, "configs": configs});
        self.call("configure-topic", args)
    }

    /// The configurations of a topic that somebody has set.
    pub fn topic_configs(&self, bootstrap: &str, topic: &str) -> Result<BTreeMap<String, String>> {
        self.call("topic-configs", json!({"bootstrap": bootstrap, "topic": topic}))
    }

    /// All topics, internal ones too, with their number of partitions.
    pub fn topics(&self, bootstrap: &str) -> Result<BTreeMap<String, i32>> {
        self.call("topics", json!({"bootstrap": bootstrap}))
    }

    /// Log start offsets by partition.
    pub fn start_offsets(&self, bootstrap: &str, topic: &str) -> Result<BTreeMap<i32, i64>> {
        self.call("start-offsets", json!({"bootstrap": bootstrap, "topic": topic}))
    }

    /// Log end offsets (high watermarks) by partition.
    pub fn end_offsets(&self, bootstrap: &str, topic: &str) -> Result<BTreeMap<i32, i64>> {
        self.call("end-offsets", json!({"bootstrap": bootstrap, "topic": topic}))
    }

    /// Removes what lies before an offset, in one partition.
    pub fn delete_records(
        &self,
        bootstrap: &str,
        topic: &str,
        partition: i32,
        before: i64,
    ) -> Result<()> {
        let args = json!({
            "bootstrap": bootstrap, "topic": topic, "partition": partition, "before": before,
        });
        self.call("delete-records", args)
    }

    /// Produces text records `(partition, key, value)` and answers their offsets. `configs` are
    /// `ProducerConfig`'s; with a `transactional.id` they are one committed transaction.
    pub fn produce(
        &self,
        bootstrap: &str,
        topic: &str,
        records: &[(i32, Option<&str>, Option<&str>)],
        configs: &[(&str, &str)],
    ) -> Result<Vec<i64>> {
        let configs: BTreeMap<_, _> = configs.iter().copied().collect();
        let args = json!({
            "bootstrap": bootstrap, "topic": topic, "records": records, "configs": configs,
        });
        self.call("produce", args)
    }

    /// Commits offsets of a group.
    pub fn commit(
        &self,
        bootstrap: &str,
        group: &str,
        offsets: &Offsets,
        commit_as: CommitAs,
    ) -> Result<()> {
        let args = json!({
            "bootstrap": bootstrap, "group": group, "offsets": offsets,
            "member": commit_as == CommitAs::Member,
        });
        self.call("commit", args)
    }

    /// Commits for every partition of `topics` the place `lag` offsets before its end (at least its log
    /// start), and answers what was committed.
    pub fn commit_at_lag(
        &self,
        bootstrap: &str,
        group: &str,
        topics: &[&str],
        lag: i64,
        commit_as: CommitAs,
    ) -> Result<Offsets> {
        let mut offsets = Offsets::new();
        for topic in topics {
            let starts = self.start_offsets(bootstrap, topic)?;
            let mut ends = self.end_offsets(bootstrap, topic)?;
            for (partition, end) in &mut ends {
                *end = (*end - lag).max(starts.get(partition).copied().unwrap_or(0));
            }
            offsets.insert((*topic).to_owned(), ends);
        }
        self.commit(bootstrap, group, &offsets, commit_as)?;
        Ok(offsets)
    }

    /// What a group has committed, by topic and partition.
    pub fn committed(
        &self,
        bootstrap: &str,
        group: &str,
    ) -> Result<BTreeMap<String, BTreeMap<i32, Committed>>> {
        self.call("committed", json!({"bootstrap": bootstrap, "group": group}))
    }

    /// All groups with their states, as ListGroups says them.
    pub fn groups(&self, bootstrap: &str) -> Result<BTreeMap<String, String>> {
        self.call("groups", json!({"bootstrap": bootstrap}))
    }

    /// Deletes a group.
    pub fn delete_group(&self, bootstrap: &str, group: &str) -> Result<()> {
        self.call("delete-group", json!({"bootstrap": bootstrap, "group": group}))
    }

    /// Reads, as a consumer of `group` would after a failover (`read_committed`, from the committed
    /// offsets), the first record of every partition that the group has committed. Commits nothing and
    /// joins nothing.
    pub fn next_records(&self, bootstrap: &str, group: &str) -> Result<Vec<NextRecord>> {
        self.call("next-records", json!({"bootstrap": bootstrap, "group": group}))
    }

    /// Reads topics to their end, `read_committed`, into digests.
    pub fn dump(&self, bootstrap: &str, topics: &[&str]) -> Result<Dump> {
        self.dump_with(bootstrap, topics, "read_committed")
    }

    /// Reads topics to their end, with this `isolation.level`.
    pub fn dump_with(&self, bootstrap: &str, topics: &[&str], isolation: &str) -> Result<Dump> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let file = self.scratch.path().join(format!("dump-{number}"));
        let args = json!({
            "bootstrap": bootstrap, "topics": topics, "isolation": isolation, "file": file,
        });
        let _records: u64 = self.call("dump", args)?;
        let dump = Dump::read(&file)?;
        // Only space is lost if it stays.
        let _ = std::fs::remove_file(&file);
        Ok(dump)
    }

    /// How many requests of each kind a broker has answered since it started, by its own count.
    pub fn requests(&self, broker: &Process) -> Result<BTreeMap<String, u64>> {
        self.call("requests", json!({"pid": broker.pid()}))
    }

    /// Runs a main class of Kafka's jars in this JVM (see the names at [`crate::JavaTool`]).
    pub fn tool(&self, class: &str, args: &[&str]) -> Result<ToolOutput> {
        self.call("tool", json!({"class": class, "args": args}))
    }

    /// Leaves everybody only these operations on what `resource` names, as `kafka-acls.sh` takes it
    /// (`["--topic", "orders"]`). The brokers need an authorizer.
    pub fn allow_only(
        &self,
        bootstrap: &str,
        resource: &[&str],
        operations: &[&str],
    ) -> Result<()> {
        let mut args = vec!["--bootstrap-server", bootstrap, "--add"];
        args.extend(["--allow-principal", "User:ANONYMOUS"]);
        args.extend(operations.iter().flat_map(|operation| ["--operation", operation]));
        args.extend(resource);
        let output = self.tool(JavaTool::ACLS, &args)?;
        if output.success {
            return Ok(());
        }
        Err(Error::Refused { command: "kafka-acls".to_owned(), answer: output.stderr })
    }

    /// What Kafka's `MirrorClient` and `RemoteClusterUtils` answer about a target cluster. Each entry is
    /// `{"value": ..}` or `{"error": ..}`; see `java/MirrorProbe.java` for the names.
    pub fn mirror_probe(
        &self,
        target: &str,
        source_alias: &str,
        groups: &[&str],
        configs: &[(&str, &str)],
    ) -> Result<Value> {
        let configs: BTreeMap<_, _> = configs.iter().copied().collect();
        let args = json!({
            "bootstrap": target, "alias": source_alias, "groups": groups, "configs": configs,
        });
        self.call("mirror-probe", args)
    }

    /// What MirrorMaker 2's checkpoint task answers for these offsets of the source, from the
    /// offset-syncs on it, in their order; see `java/SyncStoreProbe.java` for what the answers mean.
    pub fn sync_store_probe(
        &self,
        (source_alias, source): (&str, &str),
        (target_alias, target): (&str, &str),
        asked: &BTreeMap<(String, i32), Vec<i64>>,
    ) -> Result<SyncAnswers> {
        let configs = json!({
            "name": "probe",
            "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
            "source.cluster.alias": source_alias,
            "target.cluster.alias": target_alias,
            "source.cluster.bootstrap.servers": source,
            "target.cluster.bootstrap.servers": target,
            "task.assigned.groups": "probe",
        });
        let questions: Vec<Value> = asked
            .iter()
            .map(|((topic, partition), offsets)| {
                json!({"topic": topic, "partition": partition, "offsets": offsets})
            })
            .collect();
        let args = json!({
            "bootstrap": source, "configs": configs, "asked": questions,
        });
        let mut answers: BTreeMap<String, Vec<Option<i64>>> =
            self.call("sync-store-probe", args)?;
        let of = |(topic, partition): &(String, i32)| {
            answers.remove(&format!("{topic}-{partition}")).unwrap_or_default()
        };
        Ok(asked.keys().cloned().zip(asked.keys().map(of)).collect())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands each answer to the one who waits for it; at the end of the output, lets all others go.
fn read_answers(stdout: ChildStdout, waiting: &Waiting) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let Ok(answer) = serde_json::from_str::<Value>(&line) else {
            eprintln!("the java shell said: {line}");
            continue;
        };
        let waiter = answer["id"].as_u64().and_then(|id| lock(waiting).as_mut()?.remove(&id));
        if let Some(waiter) = waiter {
            // Whoever gave up waiting needs no answer.
            let _ = waiter.send(answer);
        }
    }
    *lock(waiting) = None;
}
