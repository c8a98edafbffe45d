//! What many groups cost: memory, processor time and requests, between two embedded clusters on a
//! paused clock.
//!
//! ```console
//! cargo run -p twinlog-sim --example groups -- 10000 10        # groups, partitions of each
//! cargo run -p twinlog-sim --example groups -- 10000 10 poll   # without following the log
//! ```
//!
//! Three phases: all groups are new; at rest for a minute; a tenth of them commit once a second for
//! a minute. Memory and processor time are those of this process, both embedded clusters included:
//! the growth while the engine runs is what to look at. Requests are counted by the clusters.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, NewRecord};
use twinlog_engine::{Engine, EngineOptions};
use twinlog_mirror::Configuration;
use twinlog_protocol::ApiKey;
use twinlog_worlds::Network;

/// Records of each partition; groups stand somewhere among them.
const RECORDS: i64 = 200;

struct Scene {
    clusters: [EmbeddedCluster; 2],
    partitions: i32,
}

impl Scene {
    fn commit(&self, group: usize, offset: i64) {
        let name = format!("group-{group:05}");
        for partition in 0..self.partitions {
            self.clusters[0].commit_offset_as_member(&name, "orders", partition, offset, "");
        }
    }

    /// Waits until the last partition of each of these groups stands at `offset` on the target.
    async fn until_there(&self, groups: impl Iterator<Item = usize>, offset: i64) {
        for group in groups {
            let name = format!("group-{group:05}");
            let last = self.partitions - 1;
            while self.clusters[1].committed(&name, "hello.orders", last) != Some(offset) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// Does `work` and prints what it cost.
    async fn phase(&self, name: &str, work: impl Future<Output = ()>) {
        for cluster in &self.clusters {
            cluster.clear_requests();
        }
        let (began, cpu) = (Instant::now(), cpu());
        work.await;
        let took = began.elapsed();
        println!(
            "{name:<34} {:>7.1} s   {:>6.2} s cpu   {:>6} MiB",
            took.as_secs_f64(),
            self::cpu().saturating_sub(cpu).as_secs_f64(),
            memory_mib()
        );
        for (side, cluster) in ["source", "target"].into_iter().zip(&self.clusters) {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for request in cluster.requests() {
                *counts.entry(format!("{:?}", request.api)).or_default() += 1;
            }
            let counted = counts
                .iter()
                .filter(|(api, _)| OF_GROUPS.iter().any(|one| format!("{one:?}") == **api));
            let counted: Vec<String> = counted
                .map(|(api, count)| {
                    format!("{api} {count} ({:.1}/s)", *count as f64 / took.as_secs_f64())
                })
                .collect();
            println!("    {side}: {}", counted.join(", "));
        }
    }
}

/// Requests that groups cause; fetches are those of the copy and of the log of commits together.
const OF_GROUPS: [ApiKey; 6] = [
    ApiKey::OffsetFetch,
    ApiKey::OffsetCommit,
    ApiKey::ListGroups,
    ApiKey::FindCoordinator,
    ApiKey::Fetch,
    ApiKey::DescribeConfigs,
];

/// Processor time of this process, from `/proc`; zero where there is none.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // Fields 14 and 15, in ticks of a hundredth of a second.
    let ticks: u64 = fields.skip(11).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

fn configuration(clusters: &[EmbeddedCluster; 2], follow: &str) -> Configuration {
    let text = format!(
        "clusters = hello, world\n\
         hello.bootstrap.servers = {}\n\
         world.bootstrap.servers = {}\n\
         hello->world.enabled = true\n\
         hello->world.sync.group.offsets.enabled = true\n\
         twinlog.group.offsets.follow = {follow}\n\
         replication.factor = -1\n\
         checkpoints.topic.replication.factor = -1\n\
         heartbeats.topic.replication.factor = -1\n\
         offset-syncs.topic.replication.factor = -1\n",
        clusters[0].bootstrap(),
        clusters[1].bootstrap(),
    );
    Configuration::parse("groups.properties", text.as_bytes(), &[]).expect("a sound file")
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| args.get(at).map_or(Ok(default), |text| text.parse());
    let (groups, partitions) = (number(0, 10_000)?, number(1, 10)?);
    let follow = args.get(2).map_or("live", String::as_str);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(run(groups, i32::try_from(partitions)?, follow));
    Ok(())
}

async fn run(groups: usize, partitions: i32, follow: &str) {
    let cluster = |name: &str, seed| {
        let mut options = EmbeddedOptions::new(name).with_brokers(3);
        options.seed = seed;
        options.requests_kept = 1_000_000;
        EmbeddedCluster::start(options)
    };
    let clusters = [cluster("hello", 1), cluster("world", 2)];
    clusters[0].create_topic("orders", partitions, &[]).expect("a new topic");
    let records: Vec<NewRecord> =
        (0..RECORDS).map(|n| NewRecord::new(format!("k{n}"), format!("v{n}"))).collect();
    for partition in 0..partitions {
        clusters[0].append("orders", partition, &records).expect("a leader");
    }
    let scene = Scene { clusters, partitions };
    for group in 0..groups {
        scene.commit(group, 1);
    }
    println!("{groups} groups, {partitions} partitions each, followed: {follow}");
    println!("before the engine: {} MiB", memory_mib());
    let clock = scene.clusters[1].clone();
    let options = EngineOptions::new(
        "groups".to_owned(),
        7,
        Arc::new(Network::new(scene.clusters.clone())),
        Arc::new(move || clock.now_ms()),
    );
    let engine = Engine::start(&configuration(&scene.clusters, follow), &[], options);
    scene.phase("all groups are new", scene.until_there(0..groups, 1)).await;
    // The start is over, and what was put off has been done.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let minute = Duration::from_mins(1);
    scene.phase("at rest for a minute", tokio::time::sleep(minute)).await;
    let busy = (groups / 10).max(1);
    let traffic = async {
        for second in 0..60 {
            let began = Instant::now();
            for group in 0..busy {
                scene.commit(group, 2 + second);
                if group % (busy / 50 + 1) == 0 {
                    tokio::time::sleep(Duration::from_millis(15)).await;
                }
            }
            tokio::time::sleep_until(began + Duration::from_secs(1)).await;
        }
        scene.until_there(0..busy, 61).await;
    };
    scene.phase("a tenth commits each second", traffic).await;
    engine.shutdown().await;
}
