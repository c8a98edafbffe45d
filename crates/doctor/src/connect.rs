//! MM2 on a Connect cluster: its connectors as the REST API tells them.
//!
//! Dedicated MM2 offers no REST and needs none: all of this is in its topics. On a Connect cluster
//! those topics have any name, and connectors too; they are found by class and alias.
//!
//! Does not: change anything (only `GET`), speak TLS, follow redirections.
//!
//! # Invariants
//!
//! 1. Reading and understanding are apart: [`Rest::take_connectors`] and the like take recorded answers.
//! 2. An answer is bounded in bytes and in time.
//!
//! References: KIP-26, KIP-875 (`/offsets`), Connect's `ConnectorsResource`.

mod http;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use twinlog_types::{ClusterAlias, Code, FlowName, TopicPartition};

use crate::facts::Trouble;
use crate::mm2::{Connector, FailedTask, Mm2, SOURCE_CONNECTOR, first_lines};

pub(crate) use http::segment;
pub use http::{RestError, Url};

/// The connectors of MM2 that a Connect cluster runs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Rest {
    /// What was asked.
    pub url: String,
    /// Connect's version.
    pub version: Option<String>,
    /// Connectors of MM2, of any flow, by name.
    pub connectors: BTreeMap<String, RestConnector>,
}

/// One connector.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RestConnector {
    /// The last part of its class's name.
    pub class: String,
    /// Its configuration.
    pub config: BTreeMap<String, String>,
    /// Its state, in Connect's word.
    pub state: String,
    /// Its trace, where it failed.
    pub trace: String,
    /// Its tasks by number: state and trace.
    pub tasks: BTreeMap<u32, (String, String)>,
    /// Their configurations.
    pub task_configs: BTreeMap<u32, BTreeMap<String, String>>,
    /// The source connector's positions.
    pub copied: BTreeMap<TopicPartition, i64>,
}

impl Rest {
    /// Asks for everything that concerns MM2, within `timeout`.
    pub async fn read(url: &Url, timeout: Duration) -> Result<Self, Trouble> {
        let mut rest = Self { url: url.to_string(), ..Self::default() };
        let trouble = |error: RestError| {
            Trouble::new(Some(Code::Unreachable), format!("Connect at {url}: {error}"))
        };
        let reading = async {
            let all = url.get("/connectors?expand=info&expand=status").await?;
            rest.take_connectors(&all);
            // Without these only numbers are missing.
            if let Ok(root) = url.get("/").await {
                rest.version = root["version"].as_str().map(str::to_owned);
            }
            let names: Vec<String> = rest.connectors.keys().cloned().collect();
            for name in names {
                let path = http::segment(&name);
                if let Ok(tasks) = url.get(&format!("/connectors/{path}/tasks")).await {
                    rest.take_tasks(&name, &tasks);
                }
                if let Ok(offsets) = url.get(&format!("/connectors/{path}/offsets")).await {
                    rest.take_offsets(&name, &offsets);
                }
            }
            Ok(())
        };
        match tokio::time::timeout(timeout, reading).await {
            Ok(Ok(())) => Ok(rest),
            Ok(Err(error)) => Err(trouble(error)),
            Err(_) => Err(trouble(RestError::TimedOut)),
        }
    }

    /// Takes the answer of `GET /connectors?expand=info&expand=status`.
    pub fn take_connectors(&mut self, answer: &Value) {
        for (name, both) in answer.as_object().into_iter().flatten() {
            let config = texts(&both["info"]["config"]);
            let class = config.get("connector.class").map(String::as_str).unwrap_or_default();
            let class = class.rsplit('.').next().unwrap_or_default().to_owned();
            if !class.starts_with("Mirror") || !class.ends_with("Connector") {
                continue;
            }
            let status = &both["status"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let tasks = status["tasks"].as_array().into_iter().flatten().filter_map(|task| {
                let id = u32::try_from(task["id"].as_u64()?).ok()?;
                Some((id, (text(&task["state"]), text(&task["trace"]))))
            });
            let connector = RestConnector {
                class,
                state: text(&status["connector"]["state"]),
                trace: text(&status["connector"]["trace"]),
                tasks: tasks.collect(),
                config,
                ..RestConnector::default()
            };
            self.connectors.insert(name.clone(), connector);
        }
    }

    /// Takes the answer of `GET /connectors/NAME/tasks`.
    pub fn take_tasks(&mut self, name: &str, answer: &Value) {
        let Some(connector) = self.connectors.get_mut(name) else { return };
        for task in answer.as_array().into_iter().flatten() {
            let id = task["id"]["task"].as_u64().and_then(|id| u32::try_from(id).ok());
            if let Some(id) = id {
                connector.task_configs.insert(id, texts(&task["config"]));
            }
        }
    }

    /// Takes the answer of `GET /connectors/NAME/offsets`.
    pub fn take_offsets(&mut self, name: &str, answer: &Value) {
        let Some(connector) = self.connectors.get_mut(name) else { return };
        if connector.class != SOURCE_CONNECTOR {
            return;
        }
        for entry in answer["offsets"].as_array().into_iter().flatten() {
            let partition = &entry["partition"];
            let number = partition["partition"].as_i64().and_then(|n| i32::try_from(n).ok());
            let offset = entry["offset"]["offset"].as_i64();
            if let (Some(topic), Some(number), Some(offset)) =
                (partition["topic"].as_str(), number, offset)
            {
                connector.copied.insert(TopicPartition::new(topic, number), offset);
            }
        }
    }

    /// The flows that these connectors are of.
    pub fn flows(&self) -> Vec<FlowName> {
        let mut flows: Vec<FlowName> = self.connectors.values().filter_map(flow_of).collect();
        flows.sort();
        flows.dedup();
        flows
    }

    /// Puts the connectors of a flow where those of dedicated MM2 stand: what dedicated MM2 left on
    /// the target is not what runs. Where none is of the flow nothing is changed.
    pub(crate) fn put_into(&self, mm2: &mut Mm2, flow: &FlowName) {
        if !self.flows().contains(flow) {
            return;
        }
        mm2.connect = Some(self.url.clone());
        mm2.connectors.clear();
        mm2.failed.clear();
        mm2.copied.clear();
        mm2.running = false;
        mm2.version.clone_from(&self.version);
        let of_flow = self.connectors.iter();
        let mut of_flow: Vec<(&String, &RestConnector)> =
            of_flow.filter(|(_, connector)| flow_of(connector).as_ref() == Some(flow)).collect();
        // Several connectors may share the topics of a flow: the one that does most stands for all.
        of_flow.sort_by_key(|(_, one)| (one.state != "RUNNING", Reverse(one.tasks.len())));
        for (name, connector) in of_flow {
            mm2.running |= connector.state == "RUNNING";
            mm2.copied.extend(connector.copied.iter().map(|(tp, at)| (tp.clone(), *at)));
            let own = connector.as_dedicated(name);
            match mm2.connectors.get_mut(&connector.class) {
                Some(first) => first.join(own),
                None => drop(mm2.connectors.insert(connector.class.clone(), own)),
            }
            for failed in connector.failures(name) {
                mm2.failed.insert(failed.name.clone(), failed);
            }
        }
    }
}

impl RestConnector {
    fn as_dedicated(&self, name: &str) -> Connector {
        let mut connector = Connector {
            name: name.to_owned(),
            config: self.config.clone(),
            tasks: u32::try_from(self.tasks.len()).ok(),
            ..Connector::default()
        };
        for (id, config) in &self.task_configs {
            let list = |key: &str| config.get(key).map(String::as_str).unwrap_or_default();
            connector.assign(*id, list("task.assigned.groups"), list("task.assigned.partitions"));
        }
        connector
    }

    fn failures(&self, name: &str) -> Vec<FailedTask> {
        let failed = |name: String, trace: &str| FailedTask { name, trace: first_lines(trace) };
        let own = (self.state == "FAILED").then(|| failed(name.to_owned(), &self.trace));
        let tasks = self.tasks.iter().filter(|(_, (state, _))| state == "FAILED");
        let tasks = tasks.map(|(id, (_, trace))| failed(format!("{name}-{id}"), trace));
        own.into_iter().chain(tasks).collect()
    }
}

fn flow_of(connector: &RestConnector) -> Option<FlowName> {
    let alias = |key: &str, default: &str| {
        let value = connector.config.get(key).map(|value| value.trim());
        ClusterAlias::from(value.filter(|value| !value.is_empty()).unwrap_or(default))
    };
    connector.config.get("source.cluster.alias")?;
    // `target` is MM2's default alias of a target.
    Some(FlowName::new(alias("source.cluster.alias", ""), alias("target.cluster.alias", "target")))
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests;
