//! What may differ between a real broker and the embedded cluster, and why. Nothing else may.

/// How two values that differ are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Both sides name the same things differently: a value of one side always stands for the same
    /// value of the other. The listed values mean "none" and are the same on both sides.
    Named(&'static [&'static str]),
    /// Readings of two clocks, alone or in a text: times since the start, a minute apart at most.
    Clock,
    /// Numbers that mean something to one side only.
    Any,
    /// A list whose order means nothing: sorted before it is compared, by the first of these fields
    /// that its items have, or by all of each item.
    Unordered(&'static [&'static str]),
}

/// An allowed difference.
#[derive(Debug)]
pub(crate) struct Allowed {
    pub(crate) name: &'static str,
    pub(crate) reason: &'static str,
    /// `Api.path.of.the.field` without indexes, or `*.field` for all APIs.
    pub(crate) fields: &'static [&'static str],
    pub(crate) rule: Rule,
}

/// The name of the entry for member ids, which stand in texts as well.
pub(crate) const MEMBER_ID: &str = "member id";

const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

pub(crate) const ALLOWED: &[Allowed] = &[
    Allowed {
        name: "cluster id",
        reason: "every cluster has its own",
        fields: &["*.cluster_id"],
        rule: Rule::Named(&["null", "\"\""]),
    },
    Allowed {
        name: "port",
        reason: "each side listens where the machine has a free port",
        fields: &["*.port"],
        rule: Rule::Named(&["-1"]),
    },
    Allowed {
        name: "topic id",
        reason: "the controller draws it at random",
        fields: &["*.topic_id"],
        rule: Rule::Named(&[NO_ID]),
    },
    Allowed {
        name: MEMBER_ID,
        reason: "the coordinator draws it at random",
        fields: &["*.member_id", "JoinGroup.leader"],
        rule: Rule::Named(&["\"\""]),
    },
    Allowed {
        name: "producer id",
        reason: "brokers take them from blocks of the controller",
        fields: &["*.producer_id", "*.ongoing_txn_producer_id"],
        // 0 is what stands in the answer for a transactional id that is none.
        rule: Rule::Named(&["-1", "0"]),
    },
    Allowed {
        name: "fetch session id",
        reason: "the broker draws it at random",
        fields: &["Fetch.session_id"],
        rule: Rule::Named(&["0"]),
    },
    Allowed {
        name: "epoch of the finalized features",
        reason: "an offset in the log of the controllers, which the embedded cluster does not have",
        fields: &["ApiVersions.finalized_features_epoch"],
        rule: Rule::Any,
    },
    Allowed {
        name: "time of the broker",
        reason: "two sides, two clocks",
        fields: &[
            "Produce.responses.partition_responses.log_append_time_ms",
            "Produce.responses.partition_responses.record_errors.batch_index_error_message",
            "Fetch.responses.partitions.records.max_timestamp",
            "Fetch.responses.partitions.records.base_timestamp",
            "DescribeProducers.topics.partitions.active_producers.last_timestamp",
            "DescribeTransactions.transaction_states.transaction_start_time_ms",
        ],
        rule: Rule::Clock,
    },
    Allowed {
        name: "order of topics",
        reason: "Kafka goes through a hash map",
        fields: &[
            "ListOffsets.topics",
            "Metadata.topics",
            "CreateTopics.topics",
            "DeleteTopics.responses",
            "CreatePartitions.results",
        ],
        rule: Rule::Unordered(&["name"]),
    },
    Allowed {
        name: "order of partitions",
        reason: "Kafka goes through a hash map",
        fields: &[
            "ListOffsets.topics.partitions",
            "Metadata.topics.partitions",
            "Fetch.responses.partitions",
            "OffsetFetch.topics.partitions",
            "OffsetFetch.groups.topics.partitions",
            "OffsetDelete.topics.partitions",
            "TxnOffsetCommit.topics.partitions",
            "AddPartitionsToTxn.results_by_topic_v3_and_below.results_by_partition",
        ],
        rule: Rule::Unordered(&["partition_index"]),
    },
    Allowed {
        name: "order of groups",
        reason: "Kafka goes through a hash map",
        fields: &["ListGroups.groups", "DeleteGroups.results"],
        rule: Rule::Unordered(&["group_id"]),
    },
    Allowed {
        name: "order of a transaction's partitions",
        reason: "Kafka goes through a hash set",
        fields: &["DescribeTransactions.transaction_states.topics.partitions"],
        rule: Rule::Unordered(&[]),
    },
    Allowed {
        name: "order of transactions",
        reason: "Kafka goes through a hash map",
        fields: &["ListTransactions.transaction_states"],
        rule: Rule::Unordered(&["transactional_id"]),
    },
    Allowed {
        name: "order of settings",
        reason: "Kafka goes through a hash map",
        fields: &["DescribeConfigs.results.configs"],
        rule: Rule::Unordered(&["name"]),
    },
    Allowed {
        name: "order of producers",
        reason: "Kafka goes through a hash map",
        fields: &["DescribeProducers.topics.partitions.active_producers"],
        rule: Rule::Unordered(&["producer_id"]),
    },
    Allowed {
        name: "order of members",
        reason: "Kafka goes through a hash map of ids that are drawn at random",
        fields: &[
            "JoinGroup.members",
            "DescribeGroups.groups.members",
            "ConsumerGroupDescribe.groups.members",
        ],
        // What members say of themselves tells more than their ids.
        rule: Rule::Unordered(&["metadata", "member_metadata", "member_id"]),
    },
    Allowed {
        name: "order of a subscription",
        reason: "Kafka goes through a hash set",
        fields: &["ConsumerGroupDescribe.groups.members.subscribed_topic_names"],
        rule: Rule::Unordered(&[]),
    },
    Allowed {
        name: "order of features",
        reason: "Kafka goes through a hash map",
        fields: &["ApiVersions.finalized_features", "ApiVersions.supported_features"],
        rule: Rule::Unordered(&["name"]),
    },
];

/// The entry for a field, if it has one.
pub(crate) fn entry(api: &str, path: &str) -> Option<&'static Allowed> {
    let last = path.rsplit('.').next().unwrap_or(path);
    ALLOWED.iter().find(|allowed| {
        allowed.fields.iter().any(|field| match field.strip_prefix("*.") {
            Some(name) => name == last,
            None => field.strip_prefix(api).and_then(|rest| rest.strip_prefix('.')) == Some(path),
        })
    })
}
