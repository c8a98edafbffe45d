//! Topics of our own and of MM2's formats: made where missing, then usable.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_client::{ClientError, Cluster, ErrorCode, NewTopic, Topics};
use twinlog_types::TopicName;

/// How often a new topic is looked for until it is there.
const LOOKS_MAX: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Makes a topic unless it exists, and waits until it can be used.
///
/// # Errors
///
/// When the cluster refuses it, or cannot be asked.
pub(crate) async fn create(cluster: &Cluster, new: NewTopic) -> Result<(), ClientError> {
    let (name, partitions) = (new.name.clone(), new.partitions);
    let answers = cluster.create_topics(&[new]).await?;
    for (topic, answer) in answers {
        if let Err(refusal) = answer
            && refusal.code != ErrorCode::TOPIC_ALREADY_EXISTS
        {
            return Err(ClientError::Code {
                api: "CreateTopics",
                code: refusal.code,
                message: refusal.message,
                about: topic.to_string(),
            });
        }
    }
    until_led(cluster, &[(name, partitions)]).await
}

/// Waits until every topic can be seen with so many partitions and their leaders, or for a second:
/// methods of the client then go on waiting, with longer pauses. The broker that is asked first may
/// be another one than the one that made the topic.
///
/// # Errors
///
/// When the cluster cannot be asked.
pub(crate) async fn until_led(
    cluster: &Cluster,
    wanted: &[(TopicName, i32)],
) -> Result<(), ClientError> {
    let names: Vec<TopicName> = wanted.iter().map(|(name, _)| name.clone()).collect();
    for _ in 0..LOOKS_MAX {
        let listed = cluster.topics(Topics::Named(&names)).await?;
        let led = wanted.iter().all(|(name, partitions)| {
            let topic = listed.iter().find(|topic| topic.name == *name);
            topic.is_some_and(|topic| {
                let led = topic.partitions.iter().filter(|partition| partition.leader.is_some());
                topic.error == ErrorCode::NONE && led.count() >= *partitions as usize
            })
        });
        if led {
            break;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Ok(())
}

/// Makes one of MM2's compacted internal topics of one partition unless it exists.
///
/// # Errors
///
/// As [`create`].
pub(crate) async fn ensure_compacted(
    cluster: &Cluster,
    name: &TopicName,
    replication_factor: i16,
) -> Result<(), ClientError> {
    let listed = cluster.topics(Topics::Named(std::slice::from_ref(name))).await?;
    if listed.first().is_some_and(|topic| topic.error == ErrorCode::NONE) {
        return Ok(());
    }
    let configs = BTreeMap::from([("cleanup.policy".to_owned(), "compact".to_owned())]);
    create(cluster, NewTopic { name: name.clone(), partitions: 1, replication_factor, configs })
        .await
}
