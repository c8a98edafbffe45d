//! How soon commits are renewed on the target: well before it forgets them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tracing::{debug, info};

use crate::flow::Flow;

/// The setting of brokers that says how long the commits of a group without members are kept.
const SETTING: &str = "offsets.retention.minutes";
/// Brokers may be told another retention.
const EVERY: Duration = Duration::from_mins(10);
/// Where the retention is not known, and where it is longer than three days.
const RENEW_AFTER_MAX: i64 = 86_400_000;

/// After how many milliseconds commits are renewed: a third of what the target keeps them, so that
/// a day of standstill costs none.
pub(super) struct Renewal(AtomicI64);

impl Renewal {
    /// Asks the target for as long as the flow lives.
    pub(super) fn start(flow: &Arc<Flow>) -> Arc<Self> {
        let renewal = Arc::new(Self(AtomicI64::new(RENEW_AFTER_MAX)));
        if flow.config.sync_group_offsets_enabled {
            flow.spawn(run(flow.clone(), renewal.clone()));
        }
        renewal
    }

    pub(super) fn after_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

async fn run(flow: Arc<Flow>, renewal: Arc<Renewal>) {
    let ending = flow.ending();
    loop {
        let retention = tokio::select! {
            biased;
            () = ending.ended() => return,
            retention = retention_ms(&flow) => retention,
        };
        if let Some(retention) = retention {
            let after = renew_after_ms(retention);
            if renewal.0.swap(after, Ordering::Relaxed) != after {
                info!(
                    flow = %flow.name, minutes = after / 60_000,
                    "commits on the target are renewed: it keeps them for {} minutes", retention / 60_000
                );
            }
        }
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

fn renew_after_ms(retention_ms: i64) -> i64 {
    (retention_ms / 3).clamp(1_000, RENEW_AFTER_MAX)
}

/// The shortest retention of all brokers that say one: any of them may coordinate a group.
async fn retention_ms(flow: &Flow) -> Option<i64> {
    let brokers = flow.target.brokers().await.ok()?;
    let mut shortest = None;
    for broker in brokers {
        match flow.target.broker_setting(broker.id, SETTING).await {
            Ok(value) => {
                let minutes = value.and_then(|text| text.parse::<i64>().ok());
                let ms = minutes.map(|minutes| minutes.saturating_mul(60_000));
                shortest = shortest.into_iter().chain(ms).min();
            }
            Err(error) => {
                debug!(flow = %flow.name, %error, "the target does not say how long it keeps commits");
            }
        }
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_renewed_three_times_before_they_expire_and_daily_at_least() {
        let minutes = |minutes: i64| minutes * 60_000;
        assert_eq!(renew_after_ms(minutes(3)), minutes(1));
        assert_eq!(renew_after_ms(minutes(60)), minutes(20));
        assert_eq!(renew_after_ms(minutes(7 * 24 * 60)), RENEW_AFTER_MAX);
        assert_eq!(renew_after_ms(0), 1_000);
    }
}
