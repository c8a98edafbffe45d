//! The decision for one group on one partition.

use twinlog_offsets::state::GroupJournal;
use twinlog_types::{
    Code, GroupId, Planted, SourceOffset, State, TargetOffset, Translation, planted,
};

use crate::standing::Standing;

/// What holds for every group of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// `sync.group.offsets.enabled`.
    pub sync_enabled: bool,
    /// How long after an older word of either side was first heard a second one, asked for then,
    /// confirms it; and how long the target must have stood still before it is taken back.
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
    /// When the answer was asked for that told so last, in milliseconds since 1970.
    pub source_asked_ms: i64,
    /// Where that is on the target.
    pub translation: Translation<TargetOffset>,
    /// One past the last copied record, where anything was copied or the place of the first record
    /// is known. The second lock behind the translation: nothing beyond is written.
    pub copied_end: Option<TargetOffset>,
    /// What the group has committed on the target.
    pub target: Option<TargetOffset>,
    /// When that was asked for, in milliseconds since 1970.
    pub target_asked_ms: i64,
    /// The group on the target.
    pub target_group: TargetGroup,
    /// The offset map is still being read, or the target's tail looked at: where the source's
    /// commit is on the target is known in a moment.
    pub loading: bool,
    /// How many offsets of the group's backlog the gap ledger names as lost.
    pub lost: u64,
    /// It is a share group: the position is where its unread records begin. That does not expire, and
    /// writing it once more would forget what members acknowledged behind it.
    pub share: bool,
    /// The flow of the other direction writes the same group on the topic that this one reads.
    pub both_directions: bool,
}

impl Reading {
    /// Where the target stands. A stored -1 ("no offset", as some clients reset) is no position.
    fn stands(&self) -> Option<TargetOffset> {
        self.target.filter(|offset| offset.0 >= 0)
    }
}

/// What is remembered of a group's position in a partition from one reading to the next.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct History {
    /// The last source commit that counts, and where that was on the target.
    pub source: Option<SourceOffset>,
    /// Where it was on the target.
    pub place: Option<TargetOffset>,
    /// A lower one, not confirmed yet, and when it was first read.
    pub lower: Option<(SourceOffset, i64)>,
    /// Where the target stands, as far as its words are believed; `None`: none was yet.
    pub stands: Option<Option<TargetOffset>>,
    /// An older word of the target, or its first one: not believed yet, and when it was first heard.
    pub older: Option<(Option<TargetOffset>, i64)>,
    /// Where the source stood before it was moved back, and its place on the target then; forgotten
    /// once it is there again, or followed.
    pub rewound_from: Option<(SourceOffset, Option<TargetOffset>)>,
    /// Since when every reading found the target without members, where we settled it.
    pub idle_since_ms: Option<i64>,
    /// What we committed, as the journal has it or is about to.
    pub journal: GroupJournal,
    /// An operator allows to move the position as long as it stands here.
    pub overwrite: Option<TargetOffset>,
}

impl History {
    /// As a journal that was read at the start tells it.
    pub fn from_journal(mut journal: GroupJournal) -> Self {
        journal.doubt();
        let furthest = journal.furthest();
        Self {
            source: furthest.map(|placed| placed.source),
            place: furthest.map(|placed| placed.target),
            journal,
            ..Self::default()
        }
    }
}

/// Whether what a reading says of the target counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Belief {
    /// It does.
    Counts,
    /// It is the first word, and nothing is moved on it.
    First,
    /// It is behind what was known before.
    Older,
}

impl History {
    /// Weighs what a reading says of the target. A coordinator that has just moved may first answer
    /// an older commit, or none; whatever is moved on such a word is taken back from the target's own
    /// consumers. So the first word of a position, and one that is behind the word before, count once
    /// a second one, asked for later, says so too. Nobody has moved what a group has that does not
    /// exist; and a place that an operator saw was read twice.
    pub(super) fn believe(&mut self, rules: &Rules, reading: &Reading, now_ms: i64) -> Belief {
        let target = reading.stands();
        let new = target.is_none() && reading.target_group == TargetGroup::Absent;
        let counts = match self.stands {
            None => new,
            Some(known) => target >= known,
        };
        let seen_by_operator = target.is_some() && self.overwrite == target;
        if counts || seen_by_operator || self.is_second_word(rules, reading, now_ms) {
            self.stands_at(target);
            return Belief::Counts;
        }
        if self.stands.is_none() { Belief::First } else { Belief::Older }
    }

    fn is_second_word(&mut self, rules: &Rules, reading: &Reading, now_ms: i64) -> bool {
        let target = reading.stands();
        let (lowest, first_ms) = *self.older.get_or_insert((target, now_ms));
        if now_ms < first_ms || target < lowest {
            // The clock stepped back, or this one was not read before: from here on.
            self.older = Some((target, now_ms));
            return false;
        }
        reading.target_asked_ms.saturating_sub(first_ms) >= rules.confirm_after_ms
    }

    /// The target certainly stands here.
    pub(super) fn stands_at(&mut self, target: Option<TargetOffset>) {
        self.stands = Some(target);
        self.older = None;
    }
}

/// What to do about one group in one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupAction {
    /// Commit this offset on the target: leader epoch -1, generation -1, no member id. It moves the
    /// position, so that it must be in the journal before it is sent.
    Commit(TargetOffset),
    /// Commit what stands there once more, so that it does not expire. Nothing moves, and whose
    /// position it is stays as it was.
    Renew(TargetOffset),
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

/// Decides about one reading of `group` and takes note of it in `history`.
///
/// `history.journal` only loses what the reading refutes: a commit counts when the target has
/// acknowledged it.
pub fn decide(
    rules: &Rules,
    group: &GroupId,
    history: &mut History,
    reading: &Reading,
    now_ms: i64,
) -> Decision {
    let target = reading.stands();
    see_target(history, reading, target, now_ms);
    let Some(source) = reading.source.filter(|offset| offset.0 >= 0) else {
        return Decision::keep(without_commit(history));
    };
    if !accept(rules, history, source, reading.source_asked_ms, now_ms) {
        return Decision { action: GroupAction::Keep, standing: None };
    }
    if reading.both_directions {
        return Decision::keep(Standing::found(
            State::Stopped,
            Code::BothDirectionsSync,
            "the flow of the other direction writes this group on the same topic: each would follow \
             the other; leave the group or the topic out of one of the two flows",
        ));
    }
    let Some(offset) = reading.translation.offset() else {
        return Decision::keep(unknown_place(reading, source));
    };
    if offset.0 < 0 || reading.copied_end.is_some_and(|end| offset > end) {
        // The map never answers so; if it did, a consumer of the target would be reset.
        return Decision::keep(Standing::because(
            State::Unknown,
            format!("the translation {offset} of {source} lies outside of what was copied"),
        ));
    }
    history.place = Some(offset);
    match target {
        Some(target) if target > offset => {
            ahead(rules, group, history, reading, (source, offset, target), now_ms)
        }
        Some(target) if target == offset => equal(rules, history, reading, source, offset, now_ms),
        _ => forward(rules, history, reading, source, offset, target),
    }
}

/// Takes note of where the target stands. What we wrote is ours only for as long as nobody is seen
/// to have moved it: a place that was left and is reached again is somebody else's.
fn see_target(history: &mut History, reading: &Reading, target: Option<TargetOffset>, now_ms: i64) {
    let settled = history.journal.settled.map(|settled| settled.target);
    let explained = target.is_some_and(|target| history.journal.explains(target).is_some());
    if target.is_some() && !explained {
        history.journal.forget();
    } else if settled != target {
        history.journal.settled = None;
    }
    let idle = matches!(reading.target_group, TargetGroup::Absent | TargetGroup::Empty);
    history.idle_since_ms = (idle && settled.is_some() && settled == target)
        .then(|| history.idle_since_ms.map_or(now_ms, |since| since.min(now_ms)));
}

/// Whether `source` counts, which was last asked for at `asked_ms`; notes rewinds.
fn accept(
    rules: &Rules,
    history: &mut History,
    source: SourceOffset,
    asked_ms: i64,
    now_ms: i64,
) -> bool {
    if let Some(last) = history.source
        && source < last
    {
        let (lowest, first_ms) = *history.lower.get_or_insert((source, now_ms));
        if now_ms < first_ms || source < lowest {
            // The clock stepped back, or this one was not read before: wait from here on.
            history.lower = Some((source, now_ms));
            return false;
        }
        // An answer that was under way all the time is no second one.
        if asked_ms.saturating_sub(first_ms) < rules.confirm_after_ms {
            return false;
        }
        history.rewound_from = history.rewound_from.max(Some((last, history.place)));
    }
    history.lower = None;
    history.source = Some(source);
    if history.rewound_from.is_some_and(|(from, _)| source >= from) {
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

fn unknown_place(reading: &Reading, source: SourceOffset) -> Standing {
    if reading.loading {
        return Standing::found(
            State::Waiting,
            Code::MapLoading,
            "the offset map is being read; nothing is written before it is known",
        );
    }
    Standing::found(
        State::Waiting,
        Code::NothingCopied,
        format!("source offset {source} has no known place on the target yet"),
    )
}

/// Source commit, its place on the target, and where the target stands.
type Places = (SourceOffset, TargetOffset, TargetOffset);

/// The target's commit is ahead of the translation. It is kept, unless it is certainly ours and the
/// source was moved back, or an operator wants it so.
fn ahead(
    rules: &Rules,
    group: &GroupId,
    history: &mut History,
    reading: &Reading,
    places: Places,
    now_ms: i64,
) -> Decision {
    let (source, offset, target) = places;
    let idle = matches!(reading.target_group, TargetGroup::Absent | TargetGroup::Empty);
    let sure = !matches!(reading.translation, Translation::LowerBound(_));
    let writable = rules.sync_enabled && idle && sure;
    let wanted = history.overwrite == Some(target);
    let follows = follows(rules, history, source, target, now_ms);
    if writable && (wanted || follows || planted(Planted::AcceptsSmaller)) {
        return Decision {
            action: GroupAction::Commit(offset),
            standing: Some(settled(reading, source, offset)),
        };
    }
    Decision::keep(stands_ahead(rules, group, history, reading, places))
}

/// Whether the target is taken back with the source: the rewind is confirmed, and the target has
/// stood without members where we put it, in every reading, for as long as a confirmation takes.
fn follows(
    rules: &Rules,
    history: &History,
    source: SourceOffset,
    target: TargetOffset,
    now_ms: i64,
) -> bool {
    history.rewound_from.is_some()
        && is_ours(history, source, target)
        && history
            .idle_since_ms
            .is_some_and(|since| now_ms.saturating_sub(since) >= rules.confirm_after_ms)
}

/// Whether the target certainly stands where we put it for a later source commit.
fn is_ours(history: &History, source: SourceOffset, target: TargetOffset) -> bool {
    history.journal.settled.is_some_and(|ours| ours.target == target && ours.source > source)
}

/// How a target stands that is ahead and left there.
fn stands_ahead(
    rules: &Rules,
    group: &GroupId,
    history: &History,
    reading: &Reading,
    (source, offset, target): Places,
) -> Standing {
    let written = history.journal.explains(target);
    let rewound = history.rewound_from.filter(|(_, place)| {
        // Further on than the source ever was: the target's own consumers read on.
        place.is_none_or(|place| target <= place)
    });
    let rewound_from = rewound
        .map(|(from, _)| from)
        .or(written.map(|ours| ours.source).filter(|&from| from > source));
    if let Some(from) = rewound_from {
        let moved = format!(
            "the source group was moved back from {from} to {source} and the target still stands at \
             {target}, not {offset}"
        );
        let live = matches!(reading.target_group, TargetGroup::Live { .. });
        if rules.sync_enabled && is_ours(history, source, target) && !live {
            let reason = format!(
                "{moved}; nobody else moved it, so a running twinlog takes it back as well"
            );
            return Standing::found(State::CatchingUp, Code::SourceRewound, reason);
        }
        let reason = format!(
            "{moved}: a failover now would skip records; to follow: {}",
            overwriting(group)
        );
        return Standing::found(State::Waiting, Code::SourceRewound, reason);
    }
    if written.is_some() && reading.copied_end.is_some_and(|end| target > end) {
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
        return catching_up(reading, source, offset);
    }
    let reason = format!(
        "the target group stands at {target}, {} offsets ahead of the source's place {offset}, and \
         twinlog did not put it there: it was moved by the target's own consumers, or by hand; to \
         take it back: {}",
        target.since(offset),
        overwriting(group)
    );
    Standing::found(State::Waiting, Code::TargetAhead, reason)
}

fn overwriting(group: &GroupId) -> String {
    format!("twinlog sync FILE --group '{group}' --overwrite")
}

/// The target stands where it belongs. The commit is renewed before it expires.
fn equal(
    rules: &Rules,
    history: &mut History,
    reading: &Reading,
    source: SourceOffset,
    offset: TargetOffset,
    now_ms: i64,
) -> Decision {
    history.rewound_from = None;
    let standing = settled(reading, source, offset);
    // Written by somebody else, or not known to have arrived: its age is not known.
    let written_ms = Some(history.journal.written_ms).filter(|&ms| ms > 0);
    let expires = rules.renew_after_ms.filter(|_| !reading.share);
    let old = expires.is_some_and(|after| {
        written_ms.is_none_or(|written_ms| now_ms.saturating_sub(written_ms) >= after)
    });
    let writable = matches!(reading.target_group, TargetGroup::Absent | TargetGroup::Empty);
    let action = if old && rules.sync_enabled && writable {
        GroupAction::Renew(offset)
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
    let standing = if target.is_none() && history.journal.written_ms > 0 {
        let state = settled(reading, source, offset).state;
        let reason = format!("the target had forgotten the group's commit; {offset} was written");
        Standing::found(state, Code::OffsetsExpired, reason)
    } else {
        settled(reading, source, offset)
    };
    Decision { action: GroupAction::Commit(offset), standing: Some(standing) }
}

/// How a position stands that is on the target as translated.
fn settled(reading: &Reading, source: SourceOffset, offset: TargetOffset) -> Standing {
    if reading.lost > 0 && !matches!(reading.translation, Translation::LowerBound(_)) {
        return Standing::found(
            State::InSync,
            Code::BacklogNotOnTarget,
            format!(
                "{} records of this group's backlog are lost: the source deleted them before they \
                 were copied; the next one there is at {offset}",
                reading.lost
            ),
        );
    }
    match reading.translation {
        Translation::LowerBound(_) => catching_up(reading, source, offset),
        Translation::BeforeStart { missing, .. } if missing > 0 => Standing::found(
            State::InSync,
            Code::BacklogNotOnTarget,
            format!(
                "up to {missing} records of the group's backlog are not on the target: it starts at \
                 the first record there, {offset}"
            ),
        ),
        Translation::End(TargetOffset(0)) if reading.copied_end == Some(TargetOffset(0)) => {
            let reason = "the source partition was empty so far: set to the end of the copy, 0";
            Standing::because(State::InSync, reason)
        }
        _ if reading.share => {
            let reason = format!(
                "its unread records begin at {offset}; what members of this share group acknowledged \
                 behind the first unread one is delivered again"
            );
            Standing::because(State::InSync, reason)
        }
        _ => Standing::in_sync(),
    }
}

fn catching_up(reading: &Reading, source: SourceOffset, offset: TargetOffset) -> Standing {
    if reading.copied_end.is_some_and(|end| offset < end) {
        // Not ahead of the copy: among records that somebody else copied.
        let reason = format!(
            "{source} lies among records that somebody else copied, whose contents are not compared \
             yet or do not match: {offset} is behind the last one known before it, and records are \
             read again from there"
        );
        return Standing::found(State::CatchingUp, Code::TranslationCoarse, reason);
    }
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
