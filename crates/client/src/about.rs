//! What brokers tell about themselves: what they speak, which features are finalized, what time it is.
//!
//! References: KIP-584 (features), KIP-595 and KIP-836 (the times in DescribeQuorum).

use std::collections::BTreeMap;

use twinlog_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use twinlog_protocol::messages::{DescribeQuorumRequest, topic_name};
use twinlog_protocol::{ApiKey, ErrorCode};
use twinlog_types::BrokerId;

use crate::cluster::Cluster;
use crate::connections::Purpose;
use crate::error::ClientError;

/// The log of a cluster's metadata.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// What a mirror needs of a broker.
const NEEDED: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::FindCoordinator,
    ApiKey::DescribeGroups,
    ApiKey::ListGroups,
    ApiKey::CreateTopics,
    ApiKey::InitProducerId,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::AddPartitionsToTxn,
    ApiKey::EndTxn,
    ApiKey::DescribeConfigs,
    ApiKey::CreatePartitions,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::DescribeProducers,
];

/// What a broker speaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerOffer {
    /// The broker.
    pub broker: BrokerId,
    /// The features its cluster has finalized, with their levels.
    pub features: BTreeMap<String, i16>,
    /// The newest version of Fetch that it speaks: it tells releases apart.
    pub fetch: i16,
    /// Requests that a mirror needs and of which it speaks no version that we do.
    pub lacks: Vec<&'static str>,
}

impl Cluster {
    /// What a broker speaks.
    ///
    /// # Errors
    ///
    /// When it cannot be connected to.
    pub async fn broker_offer(&self, broker: BrokerId) -> Result<BrokerOffer, ClientError> {
        let address = self.address(broker).await?;
        let connection = self.inner.connections.shared(Purpose::Control, &address).await?;
        let speaks = |api: &ApiKey| {
            let offered = connection.offered(*api);
            offered.is_some_and(|offered| offered.newest_common(api.versions()).is_some())
        };
        Ok(BrokerOffer {
            broker,
            features: connection.features().clone(),
            fetch: connection.offered(ApiKey::Fetch).map_or(0, |range| range.max),
            lacks: NEEDED.iter().filter(|api| !speaks(api)).map(|api| api.name()).collect(),
        })
    }

    /// The wall clock of the cluster's controller, in milliseconds since 1970: the leader of the
    /// quorum gives its own as the time when it was last caught up with itself. `None` where it does
    /// not say (before Kafka 3.3's version 1 of DescribeQuorum, or between two leaders).
    ///
    /// # Errors
    ///
    /// When no broker answers, or DESCRIBE on the cluster is missing.
    pub async fn controller_time_ms(&self) -> Result<Option<i64>, ClientError> {
        let answer = self.ask_any(|_| quorum_request()).await?;
        let failed = |code: i16| ClientError::Code {
            api: "DescribeQuorum",
            code: ErrorCode(code),
            message: None,
            about: "the cluster".into(),
        };
        if answer.error_code != 0 {
            return Err(failed(answer.error_code));
        }
        let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let Some(partition) = partitions.next() else { return Ok(None) };
        if partition.error_code != 0 {
            return Err(failed(partition.error_code));
        }
        let leader = partition.leader_id;
        let own = partition.current_voters.iter().find(|voter| voter.replica_id == leader);
        Ok(own.map(|own| own.last_caught_up_timestamp).filter(|ms| *ms > 0))
    }
}

fn quorum_request() -> DescribeQuorumRequest {
    let partition = PartitionData::default().with_partition_index(0);
    let topic = TopicData::default()
        .with_topic_name(topic_name(METADATA_TOPIC))
        .with_partitions(vec![partition]);
    DescribeQuorumRequest::default().with_topics(vec![topic])
}
