//! What MM2 keeps about itself on the target: its workers, its connectors' configuration, its tasks,
//! their states, and how far they copied.
//!
//! Does not: believe that what stands there is alive; states and tasks stay when a process dies.
//! Only the worker group's members are alive.
//!
//! Records that cannot be read are passed over: these topics belong to Connect, and a later version
//! may add kinds of records.
//!
//! References: `KafkaConfigBackingStore` (`connector-NAME`, `task-NAME-N`, `commit-NAME`),
//! `KafkaStatusBackingStore` (`status-task-NAME-N`), `KafkaOffsetBackingStore`
//! (`["NAME",{partition}]`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use twinlog_client::GroupMember;
use twinlog_types::TopicPartition;

use crate::facts::Trouble;

/// The connector that copies records.
pub(crate) const SOURCE_CONNECTOR: &str = "MirrorSourceConnector";
/// The connector that translates groups.
pub(crate) const CHECKPOINT_CONNECTOR: &str = "MirrorCheckpointConnector";

/// A trace may be long; its first line says what happened.
const TRACE_CHARS_MAX: usize = 300;

/// The group of MM2's workers of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Worker {
    /// Its id.
    pub group: String,
    /// Kafka's word for its state.
    pub state: String,
    /// One for each process.
    pub members: Vec<GroupMember>,
}

impl Worker {
    /// Whether a process is there.
    pub(crate) fn is_alive(&self) -> bool {
        !self.members.is_empty() && !matches!(self.state.as_str(), "Empty" | "Dead" | "")
    }
}

/// One of MM2's connectors.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Connector {
    /// Its name; dedicated MM2 calls it by its class.
    pub name: String,
    /// Its configuration as MM2 took it, prefixes resolved.
    pub config: BTreeMap<String, String>,
    /// How many tasks it has; `None` when it never had any configured.
    pub tasks: Option<u32>,
    /// `task.assigned.groups` of each task.
    pub groups: BTreeMap<u32, BTreeSet<String>>,
    /// `task.assigned.partitions` of each task.
    pub partitions: BTreeMap<u32, BTreeSet<TopicPartition>>,
}

impl Connector {
    /// Takes what a task is given.
    pub(crate) fn assign(&mut self, task: u32, groups: &str, partitions: &str) {
        self.groups.insert(task, items(groups).map(str::to_owned).collect());
        self.partitions.insert(task, items(partitions).filter_map(partition).collect());
    }

    /// Takes the tasks of another connector that shares the work.
    pub(crate) fn join(&mut self, other: Self) {
        let from = self.tasks.unwrap_or_default();
        self.tasks = Some(from.saturating_add(other.tasks.unwrap_or_default()));
        let after = |(task, what)| (from.saturating_add(task), what);
        self.groups.extend(other.groups.into_iter().map(after));
        let after = |(task, what)| (from.saturating_add(task), what);
        self.partitions.extend(other.partitions.into_iter().map(after));
    }

    /// Tasks beyond the number of tasks are left over from before.
    fn is_current(&self, task: u32) -> bool {
        self.tasks.is_none_or(|tasks| task < tasks)
    }

    /// Whether a task has this group.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        let mut tasks = self.groups.iter().filter(|(task, _)| self.is_current(**task));
        tasks.any(|(_, groups)| groups.contains(group))
    }

    /// The other partitions of the tasks that have this one.
    pub(crate) fn beside<'a>(
        &'a self,
        tp: &'a TopicPartition,
    ) -> impl Iterator<Item = &'a TopicPartition> {
        let tasks = self.partitions.iter().filter(|(task, _)| self.is_current(**task));
        let same = tasks.map(|(_, partitions)| partitions).filter(|all| all.contains(tp));
        same.flatten().filter(move |other| *other != tp)
    }

    /// Whether a task has this partition.
    pub(crate) fn has_partition(&self, tp: &TopicPartition) -> bool {
        let mut tasks = self.partitions.iter().filter(|(task, _)| self.is_current(**task));
        tasks.any(|(_, partitions)| partitions.contains(tp))
    }
}

/// What a connector or task said of itself last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// `RUNNING`, `FAILED`, `UNASSIGNED`, …; stays when a process dies.
    pub state: String,
    /// When it said so, in milliseconds since 1970.
    pub since_ms: i64,
}

/// A connector or task that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedTask {
    /// `MirrorSourceConnector` or `MirrorSourceConnector-0`.
    pub name: String,
    /// The first line of its trace, and the first of its last cause.
    pub trace: String,
}

impl FailedTask {
    /// The target refused a record for its size.
    pub(crate) fn is_too_large(&self) -> bool {
        self.trace.contains("RecordTooLargeException")
    }
}

/// What MM2 keeps about itself on the target.
#[derive(Clone, Debug)]
pub struct Mm2 {
    /// Its workers; `None` where there is no such group.
    pub worker: Result<Option<Worker>, Trouble>,
    /// Its connectors by name.
    pub connectors: BTreeMap<String, Connector>,
    /// What failed, by name.
    pub failed: BTreeMap<String, FailedTask>,
    /// The states by name.
    pub states: BTreeMap<String, Status>,
    /// Its version, where it says so (4.1 and later).
    pub version: Option<String>,
    /// Whether its tasks say their number (3.5 and later).
    pub numbers_tasks: bool,
    /// Whether it copies in transactions, whose markers take offsets on the target.
    pub is_transactional: bool,
    /// The last source offset copied of each partition, up to `offset.flush.interval.ms` old.
    pub copied: BTreeMap<TopicPartition, i64>,
    /// What could not be read of its topics.
    pub trouble: Option<Trouble>,
    /// The Connect cluster whose connectors these are, where it was asked.
    pub connect: Option<String>,
    /// A connector of them is RUNNING there.
    pub running: bool,
}

impl Default for Mm2 {
    fn default() -> Self {
        Self {
            worker: Err(Trouble::not_looked_at()),
            connectors: BTreeMap::new(),
            failed: BTreeMap::new(),
            states: BTreeMap::new(),
            version: None,
            numbers_tasks: false,
            is_transactional: false,
            copied: BTreeMap::new(),
            trouble: None,
            connect: None,
            running: false,
        }
    }
}

impl Mm2 {
    /// Whether MM2 ever ran this flow, as far as the target tells.
    pub(crate) fn was_here(&self) -> bool {
        !self.connectors.is_empty() || self.is_alive()
    }

    /// Whether a process of it runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.running || matches!(&self.worker, Ok(Some(worker)) if worker.is_alive())
    }

    /// Whether it is 3.4 or older, as far as it tells. Later ones number their tasks.
    pub(crate) fn is_old(&self) -> bool {
        let works = self.connectors.values();
        let tasks =
            works.into_iter().any(|one| !one.groups.is_empty() || !one.partitions.is_empty());
        self.version.is_none() && tasks && !self.numbers_tasks
    }

    /// Its version, or what is known of it: only since 4.1 it says so itself.
    pub(crate) fn version_words(&self) -> Option<String> {
        if self.version.is_some() {
            return self.version.clone();
        }
        if self.is_old() {
            return Some("3.4 or older".to_owned());
        }
        self.numbers_tasks.then(|| "3.5 to 4.0".to_owned())
    }

    /// Whether it passes over aborted records.
    pub(crate) fn reads_committed(&self) -> bool {
        let config = self.connector(SOURCE_CONNECTOR).map(|connector| &connector.config);
        ["source.consumer.isolation.level", "consumer.isolation.level"].iter().any(|key| {
            config.and_then(|config| config.get(*key)).is_some_and(|v| v == "read_committed")
        })
    }

    /// For how long a connector or task says the same of itself, in milliseconds.
    pub(crate) fn age_ms(&self, name: &str, now_ms: i64) -> Option<i64> {
        self.states.get(name).map(|status| now_ms.saturating_sub(status.since_ms).max(0))
    }

    pub(crate) fn connector(&self, name: &str) -> Option<&Connector> {
        self.connectors.get(name).filter(|connector| !connector.config.is_empty())
    }

    /// Takes a record of `mm2-configs.<source>.internal`.
    pub(crate) fn take_config(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        let Some(key) = key.and_then(|key| std::str::from_utf8(key).ok()) else { return };
        if let Some(name) = key.strip_prefix("connector-") {
            match value {
                // A connector that was removed takes its tasks with it.
                None => drop(self.connectors.remove(name)),
                Some(value) => self.connector_mut(name).config = properties(value),
            }
        } else if let Some(name) = key.strip_prefix("commit-") {
            let tasks = json(value).and_then(|value| value["tasks"].as_u64());
            self.connector_mut(name).tasks = tasks.and_then(|tasks| u32::try_from(tasks).ok());
        } else if let Some((name, task)) = key.strip_prefix("task-").and_then(numbered) {
            let config = value.map(properties).unwrap_or_default();
            self.numbers_tasks |= config.contains_key("task.index");
            let list = |key: &str| config.get(key).map(String::as_str).unwrap_or_default();
            let (groups, partitions) =
                (list("task.assigned.groups"), list("task.assigned.partitions"));
            self.connector_mut(name).assign(task, groups, partitions);
        } else if key == format!("tasks-fencing-{SOURCE_CONNECTOR}") {
            self.is_transactional = value.is_some();
        }
    }

    fn connector_mut(&mut self, name: &str) -> &mut Connector {
        let new = || Connector { name: name.to_owned(), ..Connector::default() };
        self.connectors.entry(name.to_owned()).or_insert_with(new)
    }

    /// Takes a record of `mm2-status.<source>.internal`.
    pub(crate) fn take_status(&mut self, key: Option<&[u8]>, value: Option<&[u8]>, time: i64) {
        let Some(key) = key.and_then(|key| std::str::from_utf8(key).ok()) else { return };
        let name = key.strip_prefix("status-connector-").or(key.strip_prefix("status-task-"));
        let Some(name) = name else { return };
        let Some(value) = json(value) else {
            self.failed.remove(name);
            self.states.remove(name);
            return;
        };
        let state = value["state"].as_str().unwrap_or_default().to_owned();
        self.states.insert(name.to_owned(), Status { state, since_ms: time });
        if let Some(version) = value["version"].as_str() {
            self.version = Some(version.to_owned());
        }
        if value["state"] == "FAILED" {
            let trace = first_lines(value["trace"].as_str().unwrap_or_default());
            let failed = FailedTask { name: name.to_owned(), trace };
            self.failed.insert(name.to_owned(), failed);
        } else {
            self.failed.remove(name);
        }
    }

    /// Takes a record of `mm2-offsets.<source>.internal`; `wanted` says which partitions matter.
    pub(crate) fn take_offset(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        wanted: impl Fn(&TopicPartition) -> bool,
    ) {
        let Some(key) = json(key) else { return };
        if key[0] != SOURCE_CONNECTOR {
            return;
        }
        let (Some(topic), Some(number)) = (key[1]["topic"].as_str(), key[1]["partition"].as_i64())
        else {
            return;
        };
        let Ok(number) = i32::try_from(number) else { return };
        let tp = TopicPartition::new(topic, number);
        if !wanted(&tp) {
            return;
        }
        match json(value).and_then(|value| value["offset"].as_i64()) {
            Some(offset) => drop(self.copied.insert(tp, offset)),
            None => drop(self.copied.remove(&tp)),
        }
    }
}

fn json(bytes: Option<&[u8]>) -> Option<Value> {
    serde_json::from_slice(bytes?).ok()
}

fn properties(value: &[u8]) -> BTreeMap<String, String> {
    let value = json(Some(value)).unwrap_or_default();
    let Some(properties) = value["properties"].as_object() else { return BTreeMap::new() };
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    properties.iter().filter_map(text).collect()
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// `NAME-3`; names may contain dashes.
fn numbered(text: &str) -> Option<(&str, u32)> {
    let (name, number) = text.rsplit_once('-')?;
    Some((name, number.parse().ok()?))
}

fn partition(text: &str) -> Option<TopicPartition> {
    let (topic, number) = numbered(text)?;
    Some(TopicPartition::new(topic, i32::try_from(number).ok()?))
}

pub(crate) fn first_lines(trace: &str) -> String {
    let first = trace.lines().next().unwrap_or_default();
    let cause = trace.lines().rev().find_map(|line| line.strip_prefix("Caused by: "));
    let text = match cause {
        Some(cause) => format!("{first}; caused by {cause}"),
        None => first.to_owned(),
    };
    text.chars().take(TRACE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(mm2: &mut Mm2, key: &str, value: &str) {
        mm2.take_config(Some(key.as_bytes()), Some(value.as_bytes()));
    }

    // The forms of keys and values are those that MirrorMaker 2 4.3.0 left on a target.

    #[test]
    fn connectors_tasks_and_leftovers_are_told_apart() {
        let mut mm2 = Mm2::default();
        assert!(!mm2.was_here());
        config(
            &mut mm2,
            "connector-MirrorCheckpointConnector",
            r#"{"properties":{"name":"MirrorCheckpointConnector","groups":"a,b"}}"#,
        );
        let task =
            |groups: &str| format!(r#"{{"properties":{{"task.assigned.groups":"{groups}"}}}}"#);
        config(&mut mm2, "task-MirrorCheckpointConnector-0", &task("a, b"));
        config(&mut mm2, "task-MirrorCheckpointConnector-1", &task("c"));
        config(&mut mm2, "commit-MirrorCheckpointConnector", r#"{"tasks":1}"#);
        config(&mut mm2, "target-state-MirrorCheckpointConnector", r#"{"state":"STARTED"}"#);
        config(&mut mm2, "session-key", "not json");
        let connector = mm2.connector(CHECKPOINT_CONNECTOR).expect("it is there");
        assert_eq!(connector.config["groups"], "a,b");
        assert_eq!(connector.tasks, Some(1));
        assert!(connector.has_group("a") && connector.has_group("b"));
        assert!(!connector.has_group("c"), "task 1 is left over");
        assert!(mm2.was_here() && !mm2.is_alive());
        mm2.take_config(Some(b"connector-MirrorCheckpointConnector"), None);
        assert_eq!(mm2.connector(CHECKPOINT_CONNECTOR), None);
    }

    #[test]
    fn partitions_of_topics_with_dashes_are_read() {
        let mut mm2 = Mm2::default();
        config(
            &mut mm2,
            "task-MirrorSourceConnector-0",
            r#"{"properties":{"task.assigned.partitions":"a-b-12,orders-0"}}"#,
        );
        let connector = &mm2.connectors[SOURCE_CONNECTOR];
        assert!(connector.has_partition(&TopicPartition::new("a-b", 12)));
        assert!(connector.has_partition(&TopicPartition::new("orders", 0)));
        assert!(!connector.has_partition(&TopicPartition::new("orders", 1)));
        // Tasks without their connector's record are no connector.
        assert_eq!(mm2.connector(SOURCE_CONNECTOR), None);
    }

    #[test]
    fn a_task_has_failed_until_it_runs_again() {
        let mut mm2 = Mm2::default();
        let key = Some(&b"status-task-MirrorSourceConnector-0"[..]);
        let failed = r#"{"state":"FAILED","trace":"org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception\n\tat x\nCaused by: org.apache.kafka.common.errors.RecordTooLargeException: too large","worker_id":"h/hello->world/1","generation":3,"version":"4.3.0"}"#;
        mm2.take_status(key, Some(failed.as_bytes()), 7);
        assert_eq!(
            mm2.failed["MirrorSourceConnector-0"].trace,
            "org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception; caused by \
             org.apache.kafka.common.errors.RecordTooLargeException: too large"
        );
        assert_eq!(mm2.version.as_deref(), Some("4.3.0"));
        assert!(mm2.failed["MirrorSourceConnector-0"].is_too_large());
        assert_eq!(mm2.age_ms("MirrorSourceConnector-0", 10), Some(3));
        mm2.take_status(key, Some(br#"{"state":"RUNNING","trace":null}"#), 8);
        assert!(mm2.failed.is_empty());
        mm2.take_status(key, Some(failed.as_bytes()), 7);
        mm2.take_status(key, None, 9);
        assert!(mm2.failed.is_empty() && mm2.states.is_empty());
    }

    #[test]
    fn positions_are_those_of_the_source_connector() {
        let mut mm2 = Mm2::default();
        let wanted = BTreeSet::from([TopicPartition::new("t", 0)]);
        let mut take = |key: &str, value: Option<&str>| {
            mm2.take_offset(Some(key.as_bytes()), value.map(str::as_bytes), |tp| {
                wanted.contains(tp)
            });
            mm2.copied.get(&TopicPartition::new("t", 0)).copied()
        };
        let key = r#"["MirrorSourceConnector",{"cluster":"hello","partition":0,"topic":"t"}]"#;
        assert_eq!(take(key, Some(r#"{"offset":249}"#)), Some(249));
        let other = r#"["MirrorSourceConnector",{"cluster":"hello","partition":1,"topic":"t"}]"#;
        assert_eq!(take(other, Some(r#"{"offset":7}"#)), Some(249));
        let group = r#"["MirrorCheckpointConnector",{"partition":0,"topic":"t","group":"g"}]"#;
        assert_eq!(take(group, Some(r#"{"offset":0}"#)), Some(249));
        assert_eq!(take(key, None), None);
    }
}
