//! What a file says of one cluster.

use twinlog_types::ClusterAlias;

use crate::redact::ClientProperties;

/// A cluster of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterConfig {
    /// What the file calls it.
    pub alias: ClusterAlias,
    /// Where to connect first, `host:port` each.
    pub bootstrap: Vec<String>,
    /// `clusterProps`: everything that the file says of the cluster, security settings inherited
    /// from the global level included, once plain and once per kind of client (`consumer.…`).
    pub properties: ClientProperties,
}
