//! How one partition stands, from what was read about it. Pure.

use twinlog_client::ErrorCode;
use twinlog_flow::Standing;
use twinlog_flow::health::Patience;
use twinlog_offsets::state::{Gap, Position};
use twinlog_types::{Code, State, TargetOffset};

use super::code_of_answer;
use super::load::Bounds;
use super::tail::OpenTransaction;

/// The ends of a partition on the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    pub(super) start: i64,
    /// Where what may be copied ends.
    pub(super) readable: i64,
    pub(super) high_watermark: i64,
}

/// What was read about a partition.
#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    pub(super) now_ms: i64,
    pub(super) running: bool,
    pub(super) position: Option<&'a Position>,
    /// Why the stored state cannot be used.
    pub(super) unusable: Option<Standing>,
    /// What lies below the first record of ours was taken over.
    pub(super) taken_over: bool,
    /// The next source offset to copy.
    pub(super) copied_to: Option<i64>,
    /// Where the target ends, when that is before what it had acknowledged.
    pub(super) truncated_to: Option<TargetOffset>,
    pub(super) source: Result<Ends, ErrorCode>,
    pub(super) target: Result<Bounds, ErrorCode>,
    pub(super) gaps: &'a [Gap],
    /// The timestamp of the first record that waits.
    pub(super) waits_since_ms: Option<i64>,
    /// Why the first of what waits cannot be read.
    pub(super) unreadable: Option<String>,
    pub(super) open_transaction: Option<OpenTransaction>,
    /// The source lets nobody with these rights read what waits.
    pub(super) denied: bool,
}

impl Facts<'_> {
    /// Offsets that wait to be copied.
    pub(super) fn lag_records(&self) -> Option<u64> {
        let (ends, copied_to) = (self.source.ok()?, self.copied_to?);
        Some(u64::try_from(ends.readable - copied_to).unwrap_or(0))
    }

    /// How long the first of them has waited, by its own timestamp; where that is not known, since
    /// the copy last moved.
    pub(super) fn lag_ms(&self) -> Option<u64> {
        if self.lag_records()? == 0 {
            return Some(0);
        }
        let since = self.waits_since_ms.or(self.position.map(|position| position.written_ms))?;
        Some(age(since, self.now_ms))
    }

    /// How the partition stands.
    pub(super) fn standing(&self) -> Standing {
        if let Some(unusable) = &self.unusable {
            return unusable.clone();
        }
        let Some((position, copied_to)) = self.position.zip(self.copied_to) else {
            return self.not_taken_up();
        };
        let ends = match self.source {
            Ok(ends) => ends,
            Err(code) => return unread("source", code),
        };
        if let Some(lost) = self.lost(ends, copied_to) {
            return lost;
        }
        match self.target {
            Err(code) => return unread("target", code),
            Ok((start, _))
                if position.count == 0 && start < position.origin.0 && !self.taken_over =>
            {
                return target_not_empty(start, position.origin.0);
            }
            Ok(_) => {}
        }
        if let Some(end) = self.truncated_to {
            let reason = format!(
                "the target ends at {end}, {} records before what it had acknowledged",
                position.target_end.since(end)
            );
            return Standing::found(State::CatchingUp, Code::TargetTruncated, reason);
        }
        match self.lag_records() {
            Some(lag) if lag > 0 => self.behind(position, copied_to, lag),
            _ => self.held(ends),
        }
    }

    fn not_taken_up(&self) -> Standing {
        match self.target {
            Err(code) => return unread("target", code),
            Ok((start, end)) if start < end => return target_not_empty(start, end),
            Ok(_) => {}
        }
        if self.running {
            let reason = "the mirror has not taken it up yet";
            return Standing::found(State::Waiting, Code::TopicNotYetDiscovered, reason);
        }
        let reason = "nothing was copied yet, and nothing copies this flow";
        Standing::found(State::Waiting, Code::MirrorNotRunning, reason)
    }

    /// What stops the copy: records that are gone from the source, or that it cannot get past.
    fn lost(&self, ends: Ends, copied_to: i64) -> Option<Standing> {
        if copied_to < ends.start {
            let reason = format!(
                "offsets {copied_to} to {} ({}) are gone from the source and were never copied; to \
                 go on with what is left: {}",
                ends.start - 1,
                ends.start - copied_to,
                self.going_on()
            );
            return Some(Standing::found(State::Stopped, Code::SourceGap, reason));
        }
        // A right that is missing on the source is named better by who tries to read there.
        if self.denied && self.running {
            return None;
        }
        // What the source lost after it was read lies before the place where the copy stopped.
        let holds = |gap: &&Gap| {
            (gap.from.0..gap.to.0).contains(&copied_to)
                || (gap.why == Code::SourceTruncated && gap.to.0 == copied_to)
        };
        let gap = self.gaps.iter().find(holds)?;
        let mut reason = why(gap);
        if gap.why == Code::SourceGap {
            reason = format!("{reason}; to go on with what is left: {}", self.going_on());
        }
        Some(Standing::found(State::Stopped, gap.why, reason))
    }

    fn going_on(&self) -> String {
        let topic = self.position.map_or("TOPIC", |position| position.source_topic.as_str());
        format!("twinlog resume FILE --topic '{topic}' --accept-gap")
    }

    fn behind(&self, position: &Position, copied_to: i64, lag: u64) -> Standing {
        if !self.running {
            let reason =
                format!("{lag} offsets of the source wait from {copied_to} on, and nothing copies");
            return Standing::found(State::Waiting, Code::MirrorNotRunning, reason);
        }
        if self.denied {
            let reason = format!(
                "READ on {} is missing on the source: {lag} offsets wait from {copied_to} on",
                position.source_topic
            );
            return Standing::found(State::Stopped, Code::MissingPermission, reason);
        }
        let patience = Patience::default().stalled_after_ms.unsigned_abs();
        let rest = age(position.written_ms, self.now_ms);
        let waits = match (self.waits_since_ms, &self.unreadable) {
            (Some(since), _) => age(since, self.now_ms),
            (None, Some(_)) => rest,
            (None, None) => 0,
        };
        if rest.min(waits) >= patience {
            let why = match &self.unreadable {
                Some(why) => format!("the first of them cannot be read on the source: {why}"),
                None => "the log of `twinlog run` says why".to_owned(),
            };
            let reason = format!(
                "nothing was copied for {} s although {lag} offsets of the source wait from \
                 {copied_to} on; {why}",
                rest / 1000
            );
            return Standing::found(State::CatchingUp, Code::Stalled, reason);
        }
        Standing::because(
            State::CatchingUp,
            format!("{lag} offsets of the source are not copied yet"),
        )
    }

    /// Everything that may be copied is: whether an open transaction holds the rest back.
    fn held(&self, ends: Ends) -> Standing {
        let held = ends.high_watermark - ends.readable;
        let Some(open) = self.open_transaction.filter(|_| held > 0) else {
            return Standing::in_sync();
        };
        let patience = Patience::default().open_transaction_after_ms.unsigned_abs();
        let since = age(open.last_ms, self.now_ms);
        if since < patience {
            return Standing::in_sync();
        }
        let reason = format!(
            "an open transaction of producer {} on the source holds {held} offsets from {} on, its \
             last record is {} s old",
            open.producer_id,
            open.start,
            since / 1000
        );
        Standing::found(State::Waiting, Code::OpenTransaction, reason)
    }
}

/// What the ledger says of a partition that stands before `gap`.
fn why(gap: &Gap) -> String {
    let Gap { from, to, why, .. } = gap;
    match why {
        Code::SourceGap | Code::SourceTruncated => {
            format!("offsets {from} to {} of the source were lost", to.0 - 1)
        }
        Code::RecordTooLarge => format!(
            "the next record of the source, at offset {} or before, makes a batch larger than \
             max.message.bytes of the mirror allows; the copy goes on by itself once it is raised",
            to.0 - 1
        ),
        Code::CorruptBatch => format!("the batch at source offset {from} cannot be read"),
        Code::ContentsDiffer => format!(
            "the last record that was copied before source offset {from} and its original differ"
        ),
        Code::RefusedByTarget => format!(
            "the target refuses the batch at source offset {from}; the log of `twinlog run` has its \
             words, and the copy goes on by itself once it is taken"
        ),
        Code::TimestampRefused => format!(
            "the target refuses a timestamp in the batch at source offset {from} as too far in the \
             past or future; the copy goes on by itself once the limits of the mirror are raised"
        ),
        Code::MissingPermission => format!(
            "a right is missing to copy on from source offset {from}, which may be read: WRITE on the \
             mirror; the log of `twinlog run` has the target's words, and the copy goes on by itself \
             once it is given"
        ),
        other => format!("the copy does not get past source offset {from}: {other}"),
    }
}

/// Whether the ledger names records that the source does not have any more.
pub(super) fn is_lost(gap: &Gap) -> bool {
    matches!(gap.why, Code::SourceGap | Code::SourceTruncated)
}

/// Whether the ledger names records that the copy went on without: what the source lost after it was
/// read is on the target.
pub(super) fn was_passed(gap: &Gap) -> bool {
    gap.why == Code::SourceGap
}

fn target_not_empty(start: i64, end: i64) -> Standing {
    let reason = format!(
        "the target holds offsets {start} to {} that no state of twinlog explains; nothing is \
         written to it",
        end - 1
    );
    Standing::found(State::Stopped, Code::TargetNotEmpty, reason)
}

fn unread(side: &str, code: ErrorCode) -> Standing {
    let reason = format!("the ends of the log on the {side} could not be read: {code}");
    Standing { state: State::Unknown, code: code_of_answer(code), reason: Some(reason) }
}

fn age(since_ms: i64, now_ms: i64) -> u64 {
    u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use twinlog_types::SourceOffset;

    use super::*;

    fn position(count: u64, origin: i64, target_end: i64) -> Position {
        Position {
            source_topic: "orders".into(),
            target_topic: "hello.orders".into(),
            producer_id: 7,
            producer_epoch: 0,
            start: SourceOffset(0),
            origin: TargetOffset(origin),
            count,
            copied_to: SourceOffset(0),
            target_end: TargetOffset(target_end),
            runs: 1,
            source_epoch: 0,
            target_epochs: Vec::new(),
            written_ms: 1_000_000,
        }
    }

    fn facts(position: Option<&Position>, copied_to: i64, readable: i64) -> Facts<'_> {
        Facts {
            now_ms: 1_000_000,
            running: true,
            position,
            unusable: None,
            taken_over: false,
            copied_to: position.map(|_| copied_to),
            truncated_to: None,
            source: Ok(Ends { start: 0, readable, high_watermark: readable }),
            target: Ok((0, position.map_or(0, |position| position.target_end.0))),
            gaps: &[],
            waits_since_ms: None,
            unreadable: None,
            open_transaction: None,
            denied: false,
        }
    }

    fn kind(facts: &Facts<'_>) -> (State, Option<Code>) {
        let standing = facts.standing();
        (standing.state, standing.code)
    }

    #[test]
    fn a_partition_is_in_sync_when_all_that_may_be_copied_is() {
        let position = position(10, 0, 10);
        let there = facts(Some(&position), 10, 10);
        assert_eq!(there.standing(), Standing::in_sync());
        assert_eq!((there.lag_records(), there.lag_ms()), (Some(0), Some(0)));
        // The ends were read before the position.
        assert_eq!(facts(Some(&position), 12, 10).lag_records(), Some(0));
        // Also when nothing runs: the flow says that.
        let idle = Facts { running: false, ..there };
        assert_eq!(idle.standing(), Standing::in_sync());
    }

    #[test]
    fn what_waits_is_measured_in_records_and_time() {
        let position = position(10, 0, 10);
        let mut behind = facts(Some(&position), 10, 25);
        behind.now_ms = 1_004_000;
        assert_eq!(kind(&behind), (State::CatchingUp, None));
        assert_eq!((behind.lag_records(), behind.lag_ms()), (Some(15), Some(4_000)));
        behind.waits_since_ms = Some(1_003_500);
        assert_eq!(behind.lag_ms(), Some(500));
        behind.running = false;
        assert_eq!(kind(&behind), (State::Waiting, Some(Code::MirrorNotRunning)));
    }

    #[test]
    fn stalled_is_said_only_when_both_the_copy_and_the_record_are_old_or_it_cannot_be_read() {
        let position = position(10, 0, 10);
        let mut behind = facts(Some(&position), 10, 25);
        behind.now_ms = 1_060_000;
        assert_eq!(kind(&behind), (State::CatchingUp, None));
        behind.unreadable = Some("NOT_LEADER_OR_FOLLOWER".into());
        assert_eq!(kind(&behind), (State::CatchingUp, Some(Code::Stalled)));
        let reason = behind.standing().reason.unwrap_or_default();
        assert!(
            reason.ends_with("cannot be read on the source: NOT_LEADER_OR_FOLLOWER"),
            "{reason}"
        );
        behind.unreadable = None;
        behind.waits_since_ms = Some(1_059_000);
        assert_eq!(kind(&behind), (State::CatchingUp, None));
        behind.waits_since_ms = Some(1_000_000);
        assert_eq!(kind(&behind), (State::CatchingUp, Some(Code::Stalled)));
    }

    #[test]
    fn what_waits_and_may_not_be_read_stops_the_partition_at_once() {
        let position = position(10, 0, 10);
        let mut denied = facts(Some(&position), 10, 25);
        denied.denied = true;
        assert_eq!(kind(&denied), (State::Stopped, Some(Code::MissingPermission)));
        let reason = denied.standing().reason.unwrap_or_default();
        assert!(reason.contains("READ on orders") && reason.contains("15 offsets"), "{reason}");
        denied.running = false;
        assert_eq!(kind(&denied), (State::Waiting, Some(Code::MirrorNotRunning)));
    }

    #[test]
    fn records_that_are_gone_stop_the_partition_with_their_range() {
        let position = position(10, 0, 10);
        let mut gone = facts(Some(&position), 10, 60);
        gone.source = Ok(Ends { start: 50, readable: 60, high_watermark: 60 });
        assert_eq!(kind(&gone), (State::Stopped, Some(Code::SourceGap)));
        assert!(gone.standing().reason.is_some_and(|reason| reason.contains("10 to 49")));
        // A source that was emptied after all of it was copied lost nothing.
        gone.source = Ok(Ends { start: 10, readable: 10, high_watermark: 10 });
        assert_eq!(gone.standing(), Standing::in_sync());
        let ledger = [Gap {
            from: SourceOffset(8),
            to: SourceOffset(12),
            found_ms: 0,
            why: Code::SourceTruncated,
        }];
        let recorded = Facts { gaps: &ledger, ..facts(Some(&position), 10, 20) };
        assert_eq!(kind(&recorded), (State::Stopped, Some(Code::SourceTruncated)));
        // All that was lost had been read and copied: it stops there all the same.
        let copied = Facts { gaps: &ledger, ..facts(Some(&position), 12, 12) };
        assert_eq!(kind(&copied), (State::Stopped, Some(Code::SourceTruncated)));
        let past = Facts { gaps: &ledger, ..facts(Some(&position), 13, 13) };
        assert_eq!(past.standing(), Standing::in_sync());
    }

    #[test]
    fn a_refused_record_stops_only_as_long_as_it_is_the_next() {
        let position = position(10, 0, 10);
        let (from, to) = (SourceOffset(10), SourceOffset(12));
        let ledger = [Gap { from, to, found_ms: 0, why: Code::RecordTooLarge }];
        let refused = Facts { gaps: &ledger, ..facts(Some(&position), 10, 20) };
        assert_eq!(kind(&refused), (State::Stopped, Some(Code::RecordTooLarge)));
        assert!(!is_lost(&ledger[0]));
        let taken = Facts { gaps: &ledger, ..facts(Some(&position), 20, 20) };
        assert_eq!(taken.standing(), Standing::in_sync());
    }

    #[test]
    fn a_target_with_records_of_unknown_origin_is_left_alone() {
        let mut unknown = facts(None, 0, 10);
        assert_eq!(kind(&unknown), (State::Waiting, Some(Code::TopicNotYetDiscovered)));
        unknown.target = Ok((0, 5));
        assert_eq!(kind(&unknown), (State::Stopped, Some(Code::TargetNotEmpty)));
        let nothing_copied = position(0, 5, 5);
        let mut taken_up = facts(Some(&nothing_copied), 0, 10);
        assert_eq!(kind(&taken_up), (State::Stopped, Some(Code::TargetNotEmpty)));
        // Emptied before the copy began.
        taken_up.target = Ok((5, 5));
        assert_eq!(kind(&taken_up), (State::CatchingUp, None));
    }

    #[test]
    fn a_target_that_lost_its_end_is_named() {
        let position = position(10, 0, 10);
        let mut cut = facts(Some(&position), 7, 10);
        cut.truncated_to = Some(TargetOffset(7));
        assert_eq!(kind(&cut), (State::CatchingUp, Some(Code::TargetTruncated)));
    }

    #[test]
    fn an_old_open_transaction_that_holds_the_end_is_named() {
        let position = position(10, 0, 10);
        let mut held = facts(Some(&position), 10, 10);
        held.source = Ok(Ends { start: 0, readable: 10, high_watermark: 14 });
        held.open_transaction =
            Some(OpenTransaction { producer_id: 3, start: 10, last_ms: 995_000 });
        assert_eq!(held.standing(), Standing::in_sync());
        held.now_ms = 1_005_000;
        assert_eq!(kind(&held), (State::Waiting, Some(Code::OpenTransaction)));
    }

    #[test]
    fn what_could_not_be_read_is_unknown_and_says_why() {
        let position = position(10, 0, 10);
        let mut denied = facts(Some(&position), 10, 10);
        denied.source = Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
        assert_eq!(kind(&denied), (State::Unknown, Some(Code::MissingPermission)));
        assert_eq!(denied.lag_records(), None);
        denied.source = Err(ErrorCode::NETWORK_EXCEPTION);
        assert_eq!(kind(&denied), (State::Unknown, Some(Code::Unreachable)));
    }
}
