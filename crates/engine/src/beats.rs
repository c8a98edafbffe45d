//! Writes MM2's heartbeats, also for pairs of clusters whose flow is not enabled, as MM2 does.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use twinlog_batch::Record;
use twinlog_client::{ClientError, Cluster};
use twinlog_flow::heartbeats::Heart;
use twinlog_mirror::FlowConfig;
use twinlog_types::TopicPartition;

use crate::backoff::Backoff;
use crate::ending::Ending;
use crate::factors::{Purpose, hint};
use crate::internal;
use crate::options::EngineOptions;

/// Beats until told to stop.
pub(crate) async fn run(
    config: Arc<FlowConfig>,
    target: Cluster,
    options: Arc<EngineOptions>,
    stop: Ending,
) {
    let topic = config.policy.heartbeats_topic();
    let tp = TopicPartition { topic: topic.clone(), partition: 0 };
    let now_ms = || (options.clock)();
    let mut heart = Heart::new(config.name.clone(), config.heartbeats_interval, now_ms());
    let mut backoff = Backoff::new(options.seed ^ 0x00be_a700);
    let mut ready = false;
    let mut said = false;
    loop {
        let rest = Duration::from_millis((heart.next_ms() - now_ms()).max(1).unsigned_abs());
        tokio::select! {
            biased;
            () = stop.ended() => return,
            () = tokio::time::sleep(rest) => {}
        }
        let beating = async {
            if !ready {
                let factor = config.heartbeats_topic_replication_factor;
                internal::ensure_compacted(&target, &topic, factor).await?;
                ready = true;
            }
            let Some(heartbeat) = heart.beat(now_ms()) else { return Ok(()) };
            let record = Record {
                offset: 0,
                timestamp: heartbeat.timestamp_ms,
                key: Some(heartbeat.key()),
                value: Some(heartbeat.value()),
                headers: Vec::new(),
            };
            target.produce_plain(&tp, &[record]).await?;
            Ok::<_, ClientError>(())
        };
        let beat = tokio::select! {
            biased;
            () = stop.ended() => return,
            beat = beating => beat,
        };
        match beat {
            Ok(()) => {
                said = false;
                backoff.reset();
            }
            Err(error) => {
                if !std::mem::replace(&mut said, true) {
                    let hint = hint(&config, Purpose::Heartbeats, &error);
                    warn!(flow = %config.name, %error, "heartbeats cannot be written{hint}; trying goes on");
                }
                // The beat is still due: without a wait it would be tried again at once.
                tokio::select! {
                    biased;
                    () = stop.ended() => return,
                    () = backoff.wait() => {}
                }
            }
        }
    }
}
