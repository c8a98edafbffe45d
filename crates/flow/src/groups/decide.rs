//! The decision for one group on one partition.

use twinlog_types::{Code, Planted, SourceOffset, State, TargetOffset, Translation, planted};

use crate::standing::Standing;

/// What holds for every group of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// `sync.group.offsets.enabled`.
    pub sync_enabled: bool,
    /// How long after a lower source commit was first read a second reading confirms it.
    pub confirm_after_ms: i64,
    /// After how long a commit is written again although it did not change, so that it outlives
    /// the target's `offsets.retention.minutes`. `None`: never.
    pub renew_after_ms: Option<i64>,
}

impl Rules {
    /// The usual rules: a lower reading is confirmed a second later, commits are renewed daily (the
    /// shortest retention in use is counted in days; the default is seven).
    pub fn new(sync_enabled: bool) -> Self {
        Self { sync_enabled, confirm_after_ms: 1_000, renew_after_ms: Some(86_400_000) }
    }
}

/// The group as the target's coordinator describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetGroup {
    /// It does not exist, or is dead.
    Absent,
    /// It exists and has no members.
    Empty,
    /// It has members, or is forming.
    Live {
        /// How many members; 0 when the answer did not say.
        members: usize,
    },
    /// It could not be described.
    Unknown,
}

/// One look at one group's position in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// What the group has committed on the source.
    pub source: Option<SourceOffset>,
    /// Where that is on the target.
    pub translation: Translation<TargetOffset>,
    /// One past the last copied record, where anything was copied or the place of the first record
    /// is known. The second lock behind the translation: nothing beyond is written.
    pub copied_end: Option<TargetOffset>,
    /// What the group has committed on the target.
    pub target: Option<TargetOffset>,
    /// The group on the target.
    pub target_group: TargetGroup,
}

/// What we committed on the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    /// For which source commit.
    pub source: SourceOffset,
    /// The offset written.
    pub target: TargetOffset,
    /// When the target acknowledged it; `None` when that is not known (after a restart).
    pub at_ms: Option<i64>,
}

/// What is remembered of a group's position in a partition from one reading to the next.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct History {
    /// The last source commit that counts.
    pub source: Option<SourceOffset>,
    /// A lower one, not confirmed yet, and when it was first read.
    pub lower: Option<(SourceOffset, i64)>,
    /// Where the source stood before it was moved back; forgotten once it is there again.
    pub rewound_from: Option<SourceOffset>,
    /// What we last committed.
    pub ours: Option<Committed>,
}

/// What to do about one group in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupAction {
    /// Commit this offset on the target: leader epoch -1, generation -1, no member id.
    Commit(TargetOffset),
    /// Leave what is there.
    Keep,
}

/// The answer to a [`Reading`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// What to do.
    pub action: GroupAction,
    /// How the position stands once that is done. `None`: as before; the reading is not confirmed.
    pub standing: Option<Standing>,
}

impl Decision {
    fn keep(standing: Standing) -> Self {
        Self { action: GroupAction::Keep, standing: Some(standing) }
    }
}

/// Decides about one reading and takes note of it in `history`.
///
/// `history.ours` is left alone: a commit counts when the target has acknowledged it.
pub fn decide(rules: &Rules, history: &mut History, reading: &Reading, now_ms: i64) -> Decision {
    // A stored -1 ("no offset", as some clients reset) is no position.
    let target = reading.target.filter(|offset| offset.0 >= 0);
    let Some(source) = reading.source.filter(|offset| offset.0 >= 0) else {
        return Decision::keep(without_commit(history));
    };
    if !accept(rules, history, source, now_ms) {
        return Decision { action: GroupAction::Keep, standing: None };
    }
    let Some(offset) = reading.translation.offset() else {
        return Decision::keep(Standing::found(
            State::Waiting,
            Code::NothingCopied,
            format!("source offset {source} has no known place on the target yet"),
        ));
    };
    if offset.0 < 0 || reading.copied_end.is_some_and(|end| offset > end) {
        // The map never answers so; if it did, a consumer of the target would be reset.
        return Decision::keep(Standing::because(
            State::Unknown,
            format!("the translation {offset} of {source} lies outside of what was copied"),
        ));
    }
    match target {
        Some(target)
            if target > offset && !(planted(Planted::AcceptsSmaller) && history.ours.is_none()) =>
        {
            Decision::keep(ahead(history, reading, source, offset, target))
        }
        Some(target) if target == offset => equal(rules, history, reading, source, offset, now_ms),
        _ => forward(rules, history, reading, source, offset, target),
    }
}

/// Whether `source` counts; notes rewinds.
fn accept(rules: &Rules, history: &mut History, source: SourceOffset, now_ms: i64) -> bool {
    if let Some(last) = history.source
        && source < last
    {
        let (_, first_ms) = *history.lower.get_or_insert((source, now_ms));
        if now_ms < first_ms {
            // The clock stepped back: wait from here on.
            history.lower = Some((source, now_ms));
            return false;
        }
        if now_ms - first_ms < rules.confirm_after_ms {
            return false;
        }
        history.rewound_from = history.rewound_from.max(Some(last));
    }
    history.lower = None;
    history.source = Some(source);
    if history.rewound_from.is_some_and(|from| source >= from) {
        history.rewound_from = None;
    }
    true
}

fn without_commit(history: &History) -> Standing {
    let reason = match history.source {
        Some(last) => format!(
            "the group's commit is no longer visible on the source (it was {last}): it expired, was \
             deleted, or the right to see it is missing"
        ),
        None => "the group has no commit for this partition that twinlog can see on the source"
            .to_owned(),
    };
    Standing::found(State::Waiting, Code::GroupWithoutCommits, reason)
}

/// The target's commit is ahead of the translation: it is kept, whoever wrote it.
fn ahead(
    history: &History,
    reading: &Reading,
    source: SourceOffset,
    offset: TargetOffset,
    target: TargetOffset,
) -> Standing {
    let by_us = history.ours.filter(|ours| ours.target == target);
    let rewound_from =
        history.rewound_from.or(by_us.map(|ours| ours.source).filter(|&from| from > source));
    if let Some(from) = rewound_from {
        let reason = format!(
            "the source group was moved back from {from} to {source} and the target still stands at \
             {target}, not {offset}: a failover now would skip records; to follow, move it there by \
             hand: kafka-consumer-groups --reset-offsets --to-offset {offset}"
        );
        return Standing::found(State::Waiting, Code::SourceRewound, reason);
    }
    if by_us.is_some() && reading.copied_end.is_some_and(|end| target > end) {
        let reason = format!(
            "committed {target} on the target, which has lost records since: only {offset} is copied \
             now, and a consumer that starts before the copy is there again would be reset"
        );
        return Standing::found(State::CatchingUp, Code::NegativeLag, reason);
    }
    if let TargetGroup::Live { members } = reading.target_group {
        let reason = format!(
            "{} on the target read on by themselves: they are at {target}, the source at {offset}",
            count_members(members)
        );
        return Standing::found(State::Waiting, Code::GroupLiveOnTarget, reason);
    }
    if matches!(reading.translation, Translation::LowerBound(_)) {
        return catching_up(source, offset);
    }
    let reason = format!(
        "the target group stands at {target}, {} offsets ahead of the source's place {offset}, and \
         twinlog has not seen the source group there",
        target.since(offset)
    );
    Standing::found(State::Waiting, Code::TargetAhead, reason)
}

/// The target stands where it belongs. The commit is renewed before it expires.
fn equal(
    rules: &Rules,
    history: &History,
    reading: &Reading,
    source: SourceOffset,
    offset: TargetOffset,
    now_ms: i64,
) -> Decision {
    let standing = settled(reading, source, offset);
    let old = match (rules.renew_after_ms, history.ours) {
        (None, _) => false,
        (Some(after), Some(Committed { target, at_ms: Some(at_ms), .. })) if target == offset => {
            now_ms.saturating_sub(at_ms) >= after
        }
        // Written before a restart, or by somebody else: its age is not known.
        (Some(_), _) => true,
    };
    let writable = matches!(reading.target_group, TargetGroup::Absent | TargetGroup::Empty);
    let action = if old && rules.sync_enabled && writable {
        GroupAction::Commit(offset)
    } else {
        GroupAction::Keep
    };
    Decision { action, standing: Some(standing) }
}

/// The target stands behind, or nowhere.
fn forward(
    rules: &Rules,
    history: &History,
    reading: &Reading,
    source: SourceOffset,
    offset: TargetOffset,
    target: Option<TargetOffset>,
) -> Decision {
    let stands = match target {
        Some(target) => format!("the target group stands at {target}"),
        None => "the target group has no commit".to_owned(),
    };
    if !rules.sync_enabled {
        return Decision::keep(Standing::found(
            State::Excluded,
            Code::SyncDisabled,
            format!("sync.group.offsets.enabled is false: {stands}, {offset} would be its place"),
        ));
    }
    match reading.target_group {
        TargetGroup::Absent | TargetGroup::Empty => {}
        TargetGroup::Live { members } => {
            let reason = format!(
                "{} on the target: {stands}, {offset} would be its place",
                count_members(members)
            );
            return Decision::keep(Standing::found(
                State::Waiting,
                Code::GroupLiveOnTarget,
                reason,
            ));
        }
        TargetGroup::Unknown => {
            let reason = "whether the group has members on the target could not be found out";
            return Decision::keep(Standing::because(State::Unknown, reason));
        }
    }
    let standing = match history.ours {
        Some(ours) if target.is_none() => Standing::found(
            settled(reading, source, offset).state,
            Code::OffsetsExpired,
            format!("the target had forgotten the commit {}; {offset} was written", ours.target),
        ),
        _ => settled(reading, source, offset),
    };
    Decision { action: GroupAction::Commit(offset), standing: Some(standing) }
}

/// How a position stands that is on the target as translated.
fn settled(reading: &Reading, source: SourceOffset, offset: TargetOffset) -> Standing {
    match reading.translation {
        Translation::LowerBound(_) => catching_up(source, offset),
        Translation::BeforeStart { missing, .. } if missing > 0 => Standing::found(
            State::InSync,
            Code::BacklogNotOnTarget,
            format!(
                "up to {missing} records of the group's backlog are not on the target: it starts at \
                 the first record there, {offset}"
            ),
        ),
        _ => Standing::in_sync(),
    }
}

fn catching_up(source: SourceOffset, offset: TargetOffset) -> Standing {
    Standing::because(
        State::CatchingUp,
        format!("the group has read up to {source}, ahead of the copy, which ends at {offset}"),
    )
}

fn count_members(members: usize) -> String {
    match members {
        0 => "live members".to_owned(),
        1 => "1 live member".to_owned(),
        n => format!("{n} live members"),
    }
}
