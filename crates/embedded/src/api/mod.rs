//! What the cluster answers, one file per family of requests.

mod acls;
mod alter_configs;
mod broker_configs;
mod brokers;
mod cluster;
mod consumer_groups;
mod coordinators;
mod delete_records;
mod fetch;
mod group_members;
mod group_offsets;
mod groups;
mod leadership;
mod mentions;
mod offsets;
mod open_transactions;
mod produce;
mod quotas;
mod share_groups;
mod topic_configs;
mod topic_partitions;
mod topics;
mod transactions;

pub(crate) use acls::{create_acls, delete_acls, describe_acls};
pub(crate) use alter_configs::alter_configs;
pub(crate) use brokers::{describe_log_dirs, describe_quorum, list_config_resources};
pub(crate) use cluster::{api_versions, describe_cluster, metadata, unknown_api_versions};
pub(crate) use consumer_groups::{consumer_group_describe, consumer_group_heartbeat};
pub(crate) use coordinators::find_coordinator;
pub(crate) use delete_records::delete_records;
pub(crate) use group_members::{heartbeat, join_group, leave_group, sync_group};
pub(crate) use group_offsets::{offset_commit, offset_delete, offset_fetch};
pub(crate) use groups::{delete_groups, describe_groups, list_groups};
pub(crate) use leadership::{
    alter_partition_reassignments, elect_leaders, list_partition_reassignments,
};
pub(crate) use mentions::Mentions;
pub(crate) use offsets::{describe_producers, list_offsets, offset_for_leader_epoch};
pub(crate) use open_transactions::{describe_transactions, list_transactions, write_txn_markers};
pub(crate) use quotas::{alter_client_quotas, describe_client_quotas, fetch, produce};
pub(crate) use share_groups::{alter_share_group_offsets, describe_share_group_offsets};
pub(crate) use topic_configs::{describe_configs, incremental_alter_configs};
pub(crate) use topic_partitions::describe_topic_partitions;
pub(crate) use topics::{create_partitions, create_topics, delete_topics};
pub(crate) use transactions::{
    add_offsets_to_txn, add_partitions_to_txn, end_txn, init_producer_id, txn_offset_commit,
};

use twinlog_protocol::messages::Uuid;

/// A topic id as a request carries it; all zero where its version has names.
fn id(uuid: Uuid) -> [u8; 16] {
    uuid.into_bytes()
}
