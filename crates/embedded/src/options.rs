//! What kind of cluster to start.

use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_protocol::{ApiKey, VersionRange};
use twinlog_types::Secret;

use crate::rights::AuthorizerOptions;

/// Which Kafka the cluster behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaVersion {
    /// Kafka 3.9: topic ids in Fetch but not in Produce, no transaction version 2.
    V3_9,
    /// Kafka 4.3: topic ids everywhere, transaction version 2 (KIP-890).
    V4_3,
}

impl KafkaVersion {
    /// The versions of `api` that the cluster announces and serves; `None` where it serves none.
    ///
    /// Kafka's numbers, cut to what the codec can read. `Produce` of 4.3 is announced from 0 by
    /// Kafka (for the sake of old librdkafka) and from 3 here.
    pub fn versions(self, api: ApiKey) -> Option<VersionRange> {
        use ApiKey as A;
        let served = matches!(
            api,
            A::Produce
                | A::Fetch
                | A::ListOffsets
                | A::Metadata
                | A::OffsetCommit
                | A::OffsetFetch
                | A::FindCoordinator
                | A::JoinGroup
                | A::Heartbeat
                | A::LeaveGroup
                | A::SyncGroup
                | A::DescribeGroups
                | A::ListGroups
                | A::ApiVersions
                | A::CreateTopics
                | A::DeleteTopics
                | A::DeleteRecords
                | A::InitProducerId
                | A::OffsetForLeaderEpoch
                | A::AddPartitionsToTxn
                | A::AddOffsetsToTxn
                | A::EndTxn
                | A::TxnOffsetCommit
                | A::DescribeConfigs
                | A::CreatePartitions
                | A::DeleteGroups
                | A::IncrementalAlterConfigs
                | A::OffsetDelete
                | A::DescribeCluster
                | A::DescribeProducers
                | A::ConsumerGroupHeartbeat
                | A::ConsumerGroupDescribe
                | A::SaslHandshake
                | A::SaslAuthenticate
                | A::AlterConfigs
                | A::AlterPartitionReassignments
                | A::DescribeClientQuotas
                | A::AlterClientQuotas
                | A::DescribeLogDirs
                | A::DescribeQuorum
                | A::DescribeTopicPartitions
                | A::DescribeTransactions
                | A::ElectLeaders
                | A::ListConfigResources
                | A::ListPartitionReassignments
                | A::ListTransactions
                | A::WriteTxnMarkers
                | A::DescribeAcls
                | A::CreateAcls
                | A::DeleteAcls
                | A::DescribeShareGroupOffsets
                | A::AlterShareGroupOffsets
        );
        if !served {
            return None;
        }
        // Share groups came with Kafka 4: their start offsets with 4.1.
        if self == Self::V3_9
            && matches!(api, A::DescribeShareGroupOffsets | A::AlterShareGroupOffsets)
        {
            return None;
        }
        let mut versions = api.versions();
        if self == Self::V3_9 {
            let newest = match api {
                A::Produce => 11,
                A::Fetch => 17,
                A::ListOffsets => 9,
                A::Metadata => 12,
                A::DescribeGroups => 5,
                A::EndTxn | A::TxnOffsetCommit => 4,
                A::DescribeCluster | A::ListTransactions => 1,
                A::ListConfigResources
                | A::AlterPartitionReassignments
                | A::ConsumerGroupHeartbeat
                | A::ConsumerGroupDescribe => 0,
                _ => versions.max,
            };
            versions.max = versions.max.min(newest);
        }
        Some(versions)
    }

    /// Whether transactions are of version 2: each one ends with a new producer epoch.
    pub fn transaction_version_2(self) -> bool {
        self == Self::V4_3
    }

    /// The default of `message.timestamp.after.max.ms`.
    pub(crate) fn timestamp_after_max_ms(self) -> i64 {
        match self {
            Self::V3_9 => i64::MAX,
            Self::V4_3 => 3_600_000,
        }
    }
}

/// The controller's limit of new partitions in one request.
pub const PARTITIONS_MAX: i32 = 10_000;

/// How to start a cluster. `EmbeddedOptions::new("name")` gives one broker of Kafka 4.3.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The host names of the brokers are `<name>-1`, `<name>-2`, ...
    pub name: String,
    /// What Metadata answers as the cluster's id.
    pub cluster_id: String,
    /// How many brokers, with node ids from 1.
    pub brokers: i32,
    /// The port that all brokers announce.
    pub port: u16,
    /// Which Kafka to be.
    pub version: KafkaVersion,
    /// From here come topic ids, member ids and everything else that looks random.
    pub seed: u64,
    /// Replicas of a topic that does not say how many.
    pub default_replication: i16,
    /// Partitions of a topic that does not say how many.
    pub default_partitions: i32,
    /// The brokers' `min.insync.replicas`.
    pub min_insync_replicas: usize,
    /// The wall clock when the cluster starts; it goes on with tokio's clock.
    pub epoch_ms: i64,
    /// `producer.id.expiration.ms`.
    pub producer_expiration: Duration,
    /// `producer.id.expiration.check.interval.ms`.
    pub producer_expiration_check: Duration,
    /// `offsets.retention.minutes`.
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check: Duration,
    /// `group.initial.rebalance.delay.ms`: how long the first round of a classic group waits for
    /// more members. Kafka's own default is three seconds, its sample configuration says zero.
    pub group_initial_rebalance_delay: Duration,
    /// `group.min.session.timeout.ms`.
    pub group_session_min: Duration,
    /// `group.max.session.timeout.ms`.
    pub group_session_max: Duration,
    /// `group.max.size` and `group.consumer.max.size`.
    pub group_size_max: usize,
    /// `group.consumer.session.timeout.ms`.
    pub consumer_session_timeout: Duration,
    /// `group.consumer.heartbeat.interval.ms`.
    pub consumer_heartbeat_interval: Duration,
    /// `group.consumer.assignment.interval.ms`: the least time between two assignments of a group.
    pub consumer_assignment_interval: Duration,
    /// `broker.session.timeout.ms`: a dead or stopped broker loses its leaderships after this time.
    pub broker_session_timeout: Duration,
    /// How long a new leader's high watermark stays behind its log.
    pub leader_settles_in: Duration,
    /// How long a broker that slept through a leader move acts on what it knew before.
    pub stale_for: Duration,
    /// How long a new coordinator answers `COORDINATOR_LOAD_IN_PROGRESS`.
    pub coordinator_loads_in: Duration,
    /// How long a new coordinator may then answer with a commit older than the newest.
    pub coordinator_stale_for: Duration,
    /// How long a coordinator takes to write the markers of a transaction.
    pub markers_after: Duration,
    /// How many requests [`requests`](crate::EmbeddedCluster::requests) remembers.
    pub requests_kept: usize,
    /// How many incremental fetch sessions a broker keeps.
    pub fetch_sessions_max: usize,
    /// `replica.selector.class=RackAwareReplicaSelector`: a consumer is sent to the replica of its
    /// rack.
    pub rack_aware: bool,
    /// `auto.create.topics.enable`: a Metadata request that allows it makes the topics it names.
    pub auto_create_topics: bool,
    /// `authorizer.class.name=StandardAuthorizer`: who may do what is decided by ACLs. `None`:
    /// everybody may do everything.
    pub authorizer: Option<AuthorizerOptions>,
    /// Names and passwords of those who may log in with SASL PLAIN. Where there are any, TCP
    /// listeners are SASL_PLAINTEXT; else they are PLAINTEXT and everybody is `User:ANONYMOUS`.
    pub sasl_users: BTreeMap<String, Secret>,
    /// What is set for all brokers, by the names that brokers have for it (`kafka-configs.sh
    /// --entity-type brokers --entity-default`). `IncrementalAlterConfigs` changes it later.
    pub cluster_settings: BTreeMap<String, String>,
    /// `log.retention.check.interval.ms`. `None`: retention is checked on demand only
    /// ([`retain`](crate::EmbeddedCluster::retain)).
    pub retention_check: Option<Duration>,
    /// How often the log cleaner runs (`log.cleaner.backoff.ms`). `None`: on demand only
    /// ([`clean`](crate::EmbeddedCluster::clean)).
    pub cleaner_check: Option<Duration>,
    /// What all logs together may hold; requests under way may take 100 MiB more. Beyond it the oldest records are deleted; where only
    /// compacted topics are left, `Produce` is refused with `POLICY_VIOLATION`. `None`: no limit.
    pub log_bytes_max: Option<usize>,
}

impl EmbeddedOptions {
    /// One broker of Kafka 4.3 with default settings.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            cluster_id: format!("{name}-cluster-id"),
            brokers: 1,
            port: 9092,
            version: KafkaVersion::V4_3,
            seed: 1,
            default_replication: 1,
            default_partitions: 1,
            min_insync_replicas: 1,
            epoch_ms: 1_767_225_600_000, // 2026-01-01
            producer_expiration: Duration::from_hours(24),
            producer_expiration_check: Duration::from_mins(10),
            offsets_retention: Duration::from_hours(7 * 24),
            offsets_retention_check: Duration::from_mins(10),
            group_initial_rebalance_delay: Duration::ZERO,
            group_session_min: Duration::from_secs(6),
            group_session_max: Duration::from_mins(30),
            group_size_max: i32::MAX as usize,
            consumer_session_timeout: Duration::from_secs(45),
            consumer_heartbeat_interval: Duration::from_secs(5),
            consumer_assignment_interval: Duration::from_secs(1),
            broker_session_timeout: Duration::from_secs(9),
            leader_settles_in: Duration::from_millis(65),
            stale_for: Duration::from_millis(100),
            coordinator_loads_in: Duration::from_millis(50),
            coordinator_stale_for: Duration::from_millis(250),
            markers_after: Duration::from_millis(2),
            requests_kept: 10_000,
            fetch_sessions_max: 1_000,
            rack_aware: false,
            auto_create_topics: false,
            authorizer: None,
            sasl_users: BTreeMap::new(),
            cluster_settings: BTreeMap::new(),
            retention_check: None,
            cleaner_check: None,
            log_bytes_max: None,
        }
    }

    /// Several brokers, topics on up to three of them, two in-sync replicas needed where there are
    /// three.
    pub fn with_brokers(mut self, brokers: i32) -> Self {
        self.brokers = brokers.max(1);
        self.default_replication = self.brokers.min(3) as i16;
        self.min_insync_replicas = if self.brokers >= 3 { 2 } else { 1 };
        self
    }
}
