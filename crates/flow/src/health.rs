//! How a copied partition stands: in sync, catching up, held by an open transaction, stalled.
//!
//! Does not: know why a partition was stopped or paused; whoever stopped it says so.
//!
//! # Invariants
//!
//! 1. A partition is in sync exactly when everything below the source's last stable offset (LSO;
//!    the high watermark under `read_uncommitted`) is on the target.
//! 2. Age is measured on the caller's clock; a clock that steps back never makes an age negative.
//!
//! # References
//!
//! KIP-98 (last stable offset).

use twinlog_types::{Code, SourceOffset, State};

use crate::standing::Standing;

/// From when on something that does not move is worth a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// No record copied for so long although there are some: `stalled`.
    pub stalled_after_ms: i64,
    /// The LSO below the high watermark and unmoved for so long: `open-transaction`. Busy
    /// transactional producers keep the LSO a little behind all the time.
    pub open_transaction_after_ms: i64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { stalled_after_ms: 30_000, open_transaction_after_ms: 10_000 }
    }
}

/// What was last seen of a partition, and since when it stands so.
#[derive(Clone, Debug)]
pub struct PartitionHealth {
    copied_to: SourceOffset,
    source_end: SourceOffset,
    high_watermark: SourceOffset,
    /// The last time `copied_to` moved, or there was nothing to copy.
    progress_ms: i64,
    /// The last time the end moved, or nothing lay between it and the high watermark.
    end_moved_ms: i64,
    /// The last time everything was copied.
    caught_up_ms: i64,
}

impl PartitionHealth {
    /// A partition whose copy starts at `copied_to`; its source's end is not known yet.
    pub fn new(copied_to: SourceOffset, now_ms: i64) -> Self {
        Self {
            copied_to,
            source_end: copied_to,
            high_watermark: copied_to,
            progress_ms: now_ms,
            end_moved_ms: now_ms,
            caught_up_ms: now_ms,
        }
    }

    /// Takes note of a Fetch answer: `source_end` is what may be copied (the LSO under
    /// `read_committed`, else the high watermark).
    pub fn source_seen(
        &mut self,
        source_end: SourceOffset,
        high_watermark: SourceOffset,
        now_ms: i64,
    ) {
        if source_end != self.source_end || high_watermark <= source_end {
            self.end_moved_ms = now_ms;
        }
        // What was caught up until now starts to wait now.
        if self.lag_records() == 0 {
            self.caught_up_ms = now_ms;
            self.progress_ms = now_ms;
        }
        self.source_end = source_end;
        self.high_watermark = high_watermark;
    }

    /// Takes note of acknowledged records: everything below `copied_to` is on the target.
    pub fn copied(&mut self, copied_to: SourceOffset, now_ms: i64) {
        if copied_to != self.copied_to {
            self.progress_ms = now_ms;
        }
        self.copied_to = copied_to;
        if self.lag_records() == 0 {
            self.caught_up_ms = now_ms;
            self.progress_ms = now_ms;
        }
    }

    /// The next source offset to copy.
    pub fn copied_to(&self) -> SourceOffset {
        self.copied_to
    }

    /// The end of what may be copied, as last seen.
    pub fn source_end(&self) -> SourceOffset {
        self.source_end
    }

    /// Offsets between the copy and the end of what may be copied: an upper bound of records.
    pub fn lag_records(&self) -> u64 {
        self.source_end.since(self.copied_to)
    }

    /// For how long something has waited to be copied; 0 when nothing does.
    pub fn lag_ms(&self, now_ms: i64) -> u64 {
        if self.lag_records() == 0 { 0 } else { age(self.caught_up_ms, now_ms) }
    }

    /// How the partition stands.
    pub fn standing(&self, patience: Patience, now_ms: i64) -> Standing {
        let lag = self.lag_records();
        if lag > 0 {
            let rest = age(self.progress_ms, now_ms);
            if i64::try_from(rest).is_ok_and(|rest| rest < patience.stalled_after_ms) {
                let reason = format!("{lag} offsets of the source are not copied yet");
                return Standing::because(State::CatchingUp, reason);
            }
            let reason = format!(
                "nothing was copied for {} s although {lag} offsets of the source wait from {} on",
                rest / 1000,
                self.copied_to
            );
            return Standing::found(State::CatchingUp, Code::Stalled, reason);
        }
        let held = self.high_watermark.since(self.source_end);
        let since = age(self.end_moved_ms, now_ms);
        if held > 0 && i64::try_from(since).is_ok_and(|ms| ms >= patience.open_transaction_after_ms)
        {
            let reason = format!(
                "an open transaction on the source holds {held} offsets from {} on since {} s",
                self.source_end,
                since / 1000
            );
            return Standing::found(State::Waiting, Code::OpenTransaction, reason);
        }
        Standing::in_sync()
    }
}

fn age(since_ms: i64, now_ms: i64) -> u64 {
    u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience =
        Patience { stalled_after_ms: 30_000, open_transaction_after_ms: 10_000 };

    #[test]
    fn a_partition_is_in_sync_when_it_has_reached_the_last_stable_offset() {
        let mut health = PartitionHealth::new(SourceOffset(0), 0);
        health.source_seen(SourceOffset(10), SourceOffset(10), 0);
        assert_eq!(health.standing(PATIENCE, 1).state, State::CatchingUp);
        assert_eq!((health.lag_records(), health.lag_ms(5)), (10, 5));
        health.copied(SourceOffset(10), 6);
        assert_eq!(health.standing(PATIENCE, 7), Standing::in_sync());
        assert_eq!((health.lag_records(), health.lag_ms(9)), (0, 0));
    }

    #[test]
    fn no_progress_is_called_stalled_only_while_there_is_work() {
        let mut health = PartitionHealth::new(SourceOffset(0), 0);
        health.source_seen(SourceOffset(0), SourceOffset(0), 100_000);
        assert_eq!(health.standing(PATIENCE, 200_000).state, State::InSync);
        health.source_seen(SourceOffset(5), SourceOffset(5), 200_000);
        assert_eq!(health.standing(PATIENCE, 229_999).code, None);
        assert_eq!(health.standing(PATIENCE, 230_000).code, Some(Code::Stalled));
        health.copied(SourceOffset(1), 230_001);
        assert_eq!(health.standing(PATIENCE, 230_002).code, None);
    }

    #[test]
    fn an_open_transaction_that_holds_the_end_is_named_after_a_while() {
        let mut health = PartitionHealth::new(SourceOffset(5), 0);
        health.source_seen(SourceOffset(5), SourceOffset(8), 0);
        assert_eq!(health.standing(PATIENCE, 9_999), Standing::in_sync());
        let standing = health.standing(PATIENCE, 10_000);
        assert_eq!((standing.state, standing.code), (State::Waiting, Some(Code::OpenTransaction)));
        health.source_seen(SourceOffset(9), SourceOffset(9), 10_001);
        health.copied(SourceOffset(9), 10_002);
        assert_eq!(health.standing(PATIENCE, 30_000), Standing::in_sync());
    }

    #[test]
    fn an_end_that_keeps_moving_is_not_an_open_transaction() {
        let mut health = PartitionHealth::new(SourceOffset(0), 0);
        for step in 0..100 {
            health.source_seen(SourceOffset(step), SourceOffset(step + 3), step * 1000);
            health.copied(SourceOffset(step), step * 1000 + 1);
            assert_eq!(health.standing(PATIENCE, step * 1000 + 2).code, None);
        }
    }

    #[test]
    fn a_clock_that_steps_back_makes_no_negative_age() {
        let mut health = PartitionHealth::new(SourceOffset(0), 1_000_000);
        health.source_seen(SourceOffset(5), SourceOffset(5), 1_000_000);
        assert_eq!(health.lag_ms(0), 0);
        assert_eq!(health.standing(PATIENCE, 0).code, None);
    }
}
