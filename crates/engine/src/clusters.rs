//! Clients of the clusters that a configuration names.

use std::sync::Arc;
use std::time::Duration;

use twinlog_client::{Cluster, ClusterOptions, Dial, WireOptions};
use twinlog_mirror::ClusterConfig;

/// Most bytes of one answer that are read.
const FRAME_BYTES_MAX: usize = 96 << 20;

/// How the client of a cluster is set up.
pub fn cluster_options(config: &ClusterConfig, seed: u64, deadline: Duration) -> ClusterOptions {
    ClusterOptions {
        bootstrap: config.bootstrap.clone(),
        wire: WireOptions {
            client_id: format!("twinlog-{}", config.alias),
            frame_bytes_max: FRAME_BYTES_MAX,
            ..WireOptions::default()
        },
        deadline,
        seed,
        ..ClusterOptions::default()
    }
}

/// A client of a cluster. Connects when it is first used.
pub fn cluster(
    config: &ClusterConfig,
    dial: Arc<dyn Dial>,
    seed: u64,
    deadline: Duration,
) -> Cluster {
    Cluster::new(cluster_options(config, seed, deadline), dial)
}
