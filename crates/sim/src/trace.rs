//! A hash over everything that both clusters saw and hold: one seed, one hash.

use std::fmt::{self, Write};

use tokio::time::Instant;
use twinlog_embedded::{EmbeddedCluster, RequestLogEntry};

/// FNV-1a over text.
struct Hash(u64);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

/// When which request came to which broker about what, and what the logs hold in the end;
/// in nanoseconds since the run `began`, so that no real time can hide in it.
pub(crate) fn hash(clusters: &[&EmbeddedCluster], began: Instant) -> u64 {
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    for cluster in clusters {
        for request in cluster.requests() {
            let RequestLogEntry { at, broker, connection, api, version, partitions, names, .. } =
                request;
            let after = at.saturating_duration_since(began);
            // Writing to a hash cannot fail.
            let _ = write!(
                hash,
                "{after:?} {broker} {connection} {api:?} {version} {partitions:?} {names:?}"
            );
        }
        for topic in cluster.topics() {
            for partition in 0..cluster.partitions(&topic) {
                let _ = write!(hash, "{topic} {:?}", cluster.batches(&topic, partition as i32));
            }
        }
    }
    hash.0
}
