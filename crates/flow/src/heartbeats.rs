//! Decides when a heartbeat is written to the target's `heartbeats` topic.
//!
//! Does not: write it. Heartbeats are written for flows that are not enabled too, as MM2 does: the
//! heartbeats that `hello->world` mirrors are those of `world->hello`.
//!
//! # References
//!
//! MM2: `MirrorHeartbeatTask`.

use std::time::Duration;

use twinlog_mirror::formats::Heartbeat;
use twinlog_types::FlowName;

/// The beat of one flow.
#[derive(Clone, Debug)]
pub struct Heart {
    flow: FlowName,
    interval_ms: i64,
    next_ms: i64,
}

impl Heart {
    /// Beats every `interval` (`emit.heartbeats.interval.seconds`), the first time after one.
    pub fn new(flow: FlowName, interval: Duration, now_ms: i64) -> Self {
        // An interval of zero would never let the caller rest.
        let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
        Self { flow, interval_ms, next_ms: now_ms.saturating_add(interval_ms) }
    }

    /// The heartbeat to write, when it is time. Beats that were missed are not made up for.
    pub fn beat(&mut self, now_ms: i64) -> Option<Heartbeat> {
        // After the clock stepped back the next beat may lie more than an interval away.
        self.next_ms = self.next_ms.min(now_ms.saturating_add(self.interval_ms));
        if now_ms < self.next_ms {
            return None;
        }
        let late = now_ms.saturating_sub(self.next_ms) >= self.interval_ms;
        let from = if late { now_ms } else { self.next_ms };
        self.next_ms = from.saturating_add(self.interval_ms);
        Some(Heartbeat {
            source: self.flow.source.clone(),
            target: self.flow.target.clone(),
            timestamp_ms: now_ms,
        })
    }

    /// When to ask again.
    pub fn next_ms(&self) -> i64 {
        self.next_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heart() -> Heart {
        Heart::new(FlowName::new("hello", "world"), Duration::from_secs(1), 10_000)
    }

    #[test]
    fn the_first_beat_comes_after_one_interval_and_names_the_flow() {
        let mut heart = heart();
        assert_eq!(heart.beat(10_000), None);
        assert_eq!(heart.beat(10_999), None);
        let beat = heart.beat(11_003).unwrap();
        assert_eq!((beat.source.as_str(), beat.target.as_str()), ("hello", "world"));
        assert_eq!(beat.timestamp_ms, 11_003);
        assert_eq!(heart.next_ms(), 12_000);
        assert_eq!(heart.beat(11_004), None);
    }

    #[test]
    fn missed_beats_are_not_made_up_for() {
        let mut heart = heart();
        assert!(heart.beat(60_000).is_some());
        assert_eq!(heart.beat(60_001), None);
        assert_eq!(heart.next_ms(), 61_000);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_stop_the_heart() {
        let mut heart = heart();
        assert_eq!(heart.beat(1_000), None);
        assert_eq!(heart.next_ms(), 2_000);
        assert!(heart.beat(2_000).is_some());
    }
}
