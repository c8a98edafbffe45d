//! Topics and their configs: create, grow, describe, alter, delete.
//!
//! Does not: decide which configs to copy, or wait until a change is visible everywhere (brokers
//! take a moment; a description right after a change may be the old one).
//!
//! # Invariants
//!
//! 1. A refusal of one topic is an answer ([`Refusal`], with the broker's words), not an error of
//!    the call.
//! 2. Requests that were lost on the way are sent again. So a refusal may be the echo of our own
//!    success: `TOPIC_ALREADY_EXISTS(36)` or `INVALID_PARTITIONS(37)` after a lost answer. Callers
//!    look at what is there either way.
//!
//! References: KIP-4, KIP-195, KIP-339 (incremental alter), KIP-204 (DeleteRecords), KIP-590
//! (brokers forward to the controller).

use std::collections::{BTreeMap, BTreeSet};

use twinlog_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, IncrementalAlterConfigsRequest, StrBytes, create_partitions_request,
    create_topics_request, delete_records_request, delete_topics_request, describe_configs_request,
    incremental_alter_configs_request, string, topic_id, topic_name,
};
use twinlog_protocol::{ErrorCode, Remedy};
use twinlog_types::{BrokerId, ConfigChange, ConfigEntry, TopicId, TopicName, TopicPartition};

use crate::cluster::{Asking, Cluster};
use crate::error::ClientError;
use crate::join::join_all;
use crate::offsets::TopicCodes;

/// Kafka's resource type of topics.
const TOPIC: i8 = 2;
/// The type of a broker.
const BROKER: i8 = 4;

/// How often a partition's leader is tried.
const ATTEMPTS: usize = 6;

/// Why a broker refused one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its code.
    pub code: ErrorCode,
    /// Its words, where it sent any.
    pub message: Option<String>,
}

impl Refusal {
    /// `Ok` for code 0.
    fn check(code: i16, message: Option<StrBytes>) -> Result<(), Self> {
        let message = message.map(|text| text.to_string());
        ErrorCode(code).ok().map_err(|code| Self { code, message })
    }

    fn silent() -> Self {
        let message = Some("the broker did not mention it in its answer".to_owned());
        Self { code: ErrorCode::UNKNOWN_SERVER_ERROR, message }
    }

    fn into_error(self, api: &'static str, about: String) -> ClientError {
        ClientError::Code { api, code: self.code, message: self.message, about }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.message {
            Some(message) => write!(f, "{}: {message}", self.code),
            None => write!(f, "{}", self.code),
        }
    }
}

/// A topic to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: TopicName,
    /// How many partitions; -1 for the broker's default.
    pub partitions: i32,
    /// How many replicas; -1 for the broker's default.
    pub replication_factor: i16,
    /// Configs that differ from the broker's defaults.
    pub configs: BTreeMap<String, String>,
}

impl Cluster {
    /// Creates topics. Answers every topic in the order given: its id ([`TopicId::NONE`] from
    /// brokers that do not tell), or why it was refused.
    pub async fn create_topics(
        &self,
        topics: &[NewTopic],
    ) -> Result<Vec<(TopicName, Result<TopicId, Refusal>)>, ClientError> {
        let timeout_ms = self.produce_timeout_ms();
        let request = |_| {
            let topics = topics.iter().map(|topic| {
                let configs = topic.configs.iter().map(|(name, value)| {
                    create_topics_request::CreatableTopicConfig::default()
                        .with_name(string(name))
                        .with_value(Some(string(value)))
                });
                create_topics_request::CreatableTopic::default()
                    .with_name(topic_name(topic.name.as_str()))
                    .with_num_partitions(topic.partitions)
                    .with_replication_factor(topic.replication_factor)
                    .with_configs(configs.collect())
            });
            CreateTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(timeout_ms)
        };
        let answers = self
            .as_controller("CreateTopics", || {
                Box::pin(async {
                    let response = self.ask_controller(request).await?;
                    Ok(response
                        .topics
                        .into_iter()
                        .map(|told| {
                            let outcome = Refusal::check(told.error_code, told.error_message);
                            let name = TopicName::from(told.name.as_str());
                            (name, outcome.map(|()| topic_id(told.topic_id)))
                        })
                        .collect())
                })
            })
            .await?;
        let names: Vec<TopicName> = topics.iter().map(|topic| topic.name.clone()).collect();
        self.metadata_stale();
        Ok(in_order(&names, answers))
    }

    /// Grows a topic to `count` partitions in all.
    pub async fn create_partitions(
        &self,
        topic: &TopicName,
        count: i32,
    ) -> Result<(), ClientError> {
        let timeout_ms = self.produce_timeout_ms();
        let request = |_| {
            let topic = create_partitions_request::CreatePartitionsTopic::default()
                .with_name(topic_name(topic.as_str()))
                .with_count(count)
                .with_assignments(None);
            CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms)
        };
        let answers = self
            .as_controller("CreatePartitions", || {
                Box::pin(async {
                    let response = self.ask_controller(request).await?;
                    Ok(response
                        .results
                        .into_iter()
                        .map(|told| {
                            let outcome = Refusal::check(told.error_code, told.error_message);
                            (TopicName::from(told.name.as_str()), outcome)
                        })
                        .collect())
                })
            })
            .await?;
        self.metadata_stale();
        only(topic, answers).map_err(|refusal| {
            refusal.into_error("CreatePartitions", format!("{topic} to {count} partitions"))
        })
    }

    /// Deletes topics by name. Answers every topic in the order given.
    pub async fn delete_topics(
        &self,
        topics: &[TopicName],
    ) -> Result<Vec<(TopicName, Result<(), Refusal>)>, ClientError> {
        let timeout_ms = self.produce_timeout_ms();
        let request = |version| {
            let request = DeleteTopicsRequest::default().with_timeout_ms(timeout_ms);
            let names = topics.iter().map(|topic| topic_name(topic.as_str()));
            if version >= 6 {
                let states = names.map(|name| {
                    delete_topics_request::DeleteTopicState::default().with_name(Some(name))
                });
                request.with_topics(states.collect())
            } else {
                request.with_topic_names(names.collect())
            }
        };
        let answers = self
            .as_controller("DeleteTopics", || {
                Box::pin(async {
                    let response = self.ask_controller(request).await?;
                    Ok(response
                        .responses
                        .into_iter()
                        .filter_map(|told| {
                            let outcome = Refusal::check(told.error_code, told.error_message);
                            Some((TopicName::from(told.name?.as_str()), outcome))
                        })
                        .collect())
                })
            })
            .await?;
        self.metadata_stale();
        Ok(in_order(topics, answers))
    }

    /// Deletes records below an offset (-1: below the high watermark), per partition. Answers the
    /// log start offset that all replicas have, in the order given.
    ///
    /// `REQUEST_TIMED_OUT(7)` may mean that it is done on the leader: look up the earliest offset.
    pub async fn delete_records(
        &self,
        offsets: &[(TopicPartition, i64)],
    ) -> Result<Vec<(TopicPartition, Result<i64, ErrorCode>)>, ClientError> {
        let mut answers: BTreeMap<TopicPartition, Result<i64, ErrorCode>> = BTreeMap::new();
        let mut retry = self.retry();
        for attempt in 1..=ATTEMPTS {
            let open: Vec<&(TopicPartition, i64)> = offsets
                .iter()
                .filter(|(tp, _)| match answers.get(tp) {
                    None => true,
                    Some(Ok(_)) => false,
                    Some(Err(code)) => code.remedy() == Remedy::Refresh,
                })
                .collect();
            if open.is_empty() || (attempt > 1 && !retry.pause().await) {
                break;
            }
            let refused = self.know_leaders(open.iter().map(|(tp, _)| tp), attempt > 1).await?;
            self.delete_records_once(&open, &refused, &mut answers).await?;
        }
        let silent = Err(ErrorCode::LEADER_NOT_AVAILABLE);
        Ok(offsets
            .iter()
            .map(|(tp, _)| (tp.clone(), answers.get(tp).copied().unwrap_or(silent)))
            .collect())
    }

    async fn delete_records_once(
        &self,
        open: &[&(TopicPartition, i64)],
        refused: &TopicCodes,
        answers: &mut BTreeMap<TopicPartition, Result<i64, ErrorCode>>,
    ) -> Result<(), ClientError> {
        let timeout_ms = self.produce_timeout_ms();
        let mut requests: BTreeMap<BrokerId, BTreeMap<&TopicPartition, i64>> = BTreeMap::new();
        for (tp, offset) in open {
            match self.leader(tp) {
                Some(leader) => {
                    requests.entry(leader.broker).or_default().insert(tp, *offset);
                }
                None => drop(answers.insert(tp.clone(), Err(self.why_no_leader(tp, refused)))),
            }
        }
        let asked = requests.iter().map(|(&broker, entries)| async move {
            self.ask_broker(broker, |_| {
                let mut topics: BTreeMap<&TopicName, Vec<_>> = BTreeMap::new();
                for (tp, offset) in entries {
                    topics.entry(&tp.topic).or_default().push(
                        delete_records_request::DeleteRecordsPartition::default()
                            .with_partition_index(tp.partition)
                            .with_offset(*offset),
                    );
                }
                let topics = topics.into_iter().map(|(name, partitions)| {
                    delete_records_request::DeleteRecordsTopic::default()
                        .with_name(topic_name(name.as_str()))
                        .with_partitions(partitions)
                });
                DeleteRecordsRequest::default()
                    .with_topics(topics.collect())
                    .with_timeout_ms(timeout_ms)
            })
            .await
        });
        for (answer, entries) in join_all(asked).await.into_iter().zip(requests.values()) {
            match answer {
                Ok(response) => {
                    for topic in response.topics {
                        for told in topic.partitions {
                            let tp = TopicPartition::new(topic.name.as_str(), told.partition_index);
                            let outcome = ErrorCode(told.error_code).ok();
                            answers.insert(tp, outcome.map(|()| told.low_watermark));
                        }
                    }
                }
                // Deleting below the same offset again does no harm.
                Err(error) if error.is_retriable() => {
                    for tp in entries.keys() {
                        answers.insert((*tp).clone(), Err(ErrorCode::NETWORK_EXCEPTION));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What a broker has for one of its own settings, defaults included; `None` where it has no
    /// such setting, or does not show it.
    pub async fn broker_setting(
        &self,
        broker: BrokerId,
        name: &str,
    ) -> Result<Option<String>, ClientError> {
        let request = |_| {
            let resource = describe_configs_request::DescribeConfigsResource::default()
                .with_resource_type(BROKER)
                .with_resource_name(string(&broker.to_string()))
                .with_configuration_keys(Some(vec![string(name)]));
            DescribeConfigsRequest::default().with_resources(vec![resource])
        };
        let response = self.ask_broker(broker, request).await?;
        let mut value = None;
        for result in response.results {
            ErrorCode(result.error_code).ok().map_err(|code| ClientError::Code {
                api: "DescribeConfigs",
                code,
                message: result.error_message.map(|text| text.to_string()),
                about: format!("{name} of broker {broker}"),
            })?;
            let found = result.configs.into_iter().find(|config| config.name.as_str() == name);
            value = found.and_then(|config| config.value).map(|value| value.to_string());
        }
        Ok(value)
    }

    /// Every config of these topics, by topic, each sorted by name.
    pub async fn describe_topic_configs(
        &self,
        topics: &[TopicName],
    ) -> Result<BTreeMap<TopicName, Result<Vec<ConfigEntry>, Refusal>>, ClientError> {
        let names: BTreeSet<&TopicName> = topics.iter().collect();
        let request = |_| {
            let resources = names.iter().map(|name| {
                describe_configs_request::DescribeConfigsResource::default()
                    .with_resource_type(TOPIC)
                    .with_resource_name(string(name.as_str()))
                    .with_configuration_keys(None)
            });
            DescribeConfigsRequest::default().with_resources(resources.collect())
        };
        let response = self.retrying(|| self.ask_any(request)).await?;
        let mut told: BTreeMap<TopicName, Result<Vec<ConfigEntry>, Refusal>> = BTreeMap::new();
        for result in response.results {
            let outcome = Refusal::check(result.error_code, result.error_message).map(|()| {
                let mut entries: Vec<ConfigEntry> = result
                    .configs
                    .into_iter()
                    .map(|config| ConfigEntry {
                        name: config.name.to_string(),
                        value: config.value.map(|value| value.to_string()),
                        source: config.config_source,
                        sensitive: config.is_sensitive,
                        read_only: config.read_only,
                    })
                    .collect();
                entries.sort_by(|a, b| a.name.cmp(&b.name));
                entries
            });
            told.insert(TopicName::from(result.resource_name.as_str()), outcome);
        }
        Ok(names
            .into_iter()
            .map(|name| {
                let answer = told.remove(name).unwrap_or_else(|| Err(Refusal::silent()));
                (name.clone(), answer)
            })
            .collect())
    }

    /// Alters configs of one topic: all of the changes, or none. The outer error is about reaching
    /// the cluster; the inner one is the broker's refusal, which names the config.
    pub async fn alter_topic_configs(
        &self,
        topic: &TopicName,
        changes: &[ConfigChange],
    ) -> Result<Result<(), Refusal>, ClientError> {
        const SET: i8 = 0;
        const DELETE: i8 = 1;
        let request = |_| {
            let configs = changes.iter().map(|change| {
                let config = incremental_alter_configs_request::AlterableConfig::default();
                match change {
                    ConfigChange::Set(name, value) => config
                        .with_name(string(name))
                        .with_config_operation(SET)
                        .with_value(Some(string(value))),
                    ConfigChange::Delete(name) => config
                        .with_name(string(name))
                        .with_config_operation(DELETE)
                        .with_value(None),
                }
            });
            let resource = incremental_alter_configs_request::AlterConfigsResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(string(topic.as_str()))
                .with_configs(configs.collect());
            IncrementalAlterConfigsRequest::default().with_resources(vec![resource])
        };
        let answers = self
            .as_controller("IncrementalAlterConfigs", || {
                Box::pin(async {
                    let response = self.ask_controller(request).await?;
                    Ok(response
                        .responses
                        .into_iter()
                        .map(|told| {
                            let outcome = Refusal::check(told.error_code, told.error_message);
                            (TopicName::from(told.resource_name.as_str()), outcome)
                        })
                        .collect())
                })
            })
            .await?;
        Ok(only(topic, answers))
    }

    /// Repeats what goes to the controller until it has been there: after a failure on the way,
    /// and while some item's code says that this is not the controller or that it is busy.
    async fn as_controller<'a, T>(
        &'a self,
        api: &'static str,
        attempt: impl Fn() -> Asking<'a, Vec<(TopicName, Result<T, Refusal>)>>,
    ) -> Result<Vec<(TopicName, Result<T, Refusal>)>, ClientError> {
        let mut retry = self.retry();
        loop {
            let outcome = attempt().await;
            let again = match &outcome {
                Ok(answers) => answers.iter().any(|(_, answer)| {
                    answer.as_ref().is_err_and(|refusal| {
                        [ErrorCode::NOT_CONTROLLER, ErrorCode::THROTTLING_QUOTA_EXCEEDED]
                            .contains(&refusal.code)
                    })
                }),
                Err(error) => error.is_retriable(),
            };
            if !again || !retry.pause().await {
                return outcome;
            }
            tracing::debug!(api, "asking the controller again");
            self.refresh(&[]).await;
        }
    }
}

/// The answers in the order asked; what the broker did not mention was refused.
fn in_order<T>(
    names: &[TopicName],
    answers: Vec<(TopicName, Result<T, Refusal>)>,
) -> Vec<(TopicName, Result<T, Refusal>)> {
    let mut answers: BTreeMap<TopicName, Result<T, Refusal>> = answers.into_iter().collect();
    names
        .iter()
        .map(|name| {
            let answer = answers.remove(name).unwrap_or_else(|| Err(Refusal::silent()));
            (name.clone(), answer)
        })
        .collect()
}

/// The answer about one topic.
fn only<T>(topic: &TopicName, answers: Vec<(TopicName, Result<T, Refusal>)>) -> Result<T, Refusal> {
    answers
        .into_iter()
        .find_map(|(name, answer)| (name == *topic).then_some(answer))
        .unwrap_or_else(|| Err(Refusal::silent()))
}
