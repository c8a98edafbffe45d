//! Which segments a retention check deletes.
//!
//! Decides, and does not delete. A segment goes as a whole, oldest first, up to the first one that
//! stays; never above the high watermark. The active segment goes too when it is old enough: Kafka
//! then rolls an empty one at the log end.
//!
//! Reference: `UnifiedLog.deleteOldSegments`.

use crate::log::Log;
use crate::segments::Segment;

/// The settings of a topic that decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// `cleanup.policy` contains `delete`.
    pub deletes: bool,
    /// `retention.ms`; negative: for ever.
    pub ms: i64,
    /// `retention.bytes`; negative: no limit.
    pub bytes: i64,
}

/// Where the log begins when everything that may go is gone; `None` when nothing goes.
pub(crate) fn new_start(
    log: &Log,
    high_watermark: i64,
    retention: Retention,
    now_ms: i64,
) -> Option<i64> {
    if !retention.deletes {
        return None;
    }
    let segments = log.segments();
    let mut excess =
        segments.iter().map(|segment| segment.bytes).sum::<i64>() - retention.bytes.max(0);
    let by_size = segments.iter().take_while(|segment| {
        excess -= segment.bytes;
        retention.bytes >= 0 && excess >= 0 && may_go(segment, high_watermark)
    });
    let by_size = by_size.last().map(|segment| segment.end);
    let by_age = segments.iter().take_while(|segment| {
        retention.ms >= 0
            && segment.largest_timestamp >= 0
            && now_ms.saturating_sub(segment.largest_timestamp) > retention.ms
            && may_go(segment, high_watermark)
    });
    let by_age = by_age.last().map(|segment| segment.end);
    by_size.max(by_age)
}

fn may_go(segment: &Segment, high_watermark: i64) -> bool {
    segment.bytes > 0 && high_watermark >= segment.end
}
