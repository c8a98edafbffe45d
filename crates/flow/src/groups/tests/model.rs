//! Every history of one group in one partition up to a length, with crashes at every step of a
//! commit, a journal that is lost, and consumers of the target that come, commit and go.

use std::collections::{HashSet, VecDeque};

use twinlog_offsets::state::GroupJournal;
use twinlog_types::{Code, GroupId, SourceOffset, TargetOffset, TopicPartition, Translation};

use super::RULES;
use crate::groups::{GroupAction, GroupTracker, Reading, TargetGroup};

/// The source's log has offsets up to here; records 0 and 1 are copied, to the same offsets.
const SOURCE_END: i64 = 3;
const COPIED: i64 = 2;
const LENGTH: usize = 7;

/// What becomes of a round in which something is to be committed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Done,
    /// The journal was not written, or nobody knows.
    JournalFails,
    JournalUnclear,
    /// A consumer joined in between.
    Refused,
    LostBefore,
    LostAfterwards,
    CrashBeforeJournal,
    CrashAfterJournal,
    CrashAfterCommit,
}

const FATES: [Fate; 9] = [
    Fate::Done,
    Fate::JournalFails,
    Fate::JournalUnclear,
    Fate::Refused,
    Fate::LostBefore,
    Fate::LostAfterwards,
    Fate::CrashBeforeJournal,
    Fate::CrashAfterJournal,
    Fate::CrashAfterCommit,
];

#[derive(Clone, Copy, Debug)]
enum Step {
    Source(i64),
    Join,
    Leave,
    /// The target's own consumers commit, or an operator while there are none.
    Own(i64),
    /// A second passes, and a round is made; with an older answer of the source's coordinator.
    Round {
        stale: bool,
        fate: Fate,
    },
    /// The same, with an older answer of the target's: behind what the round before read, or the
    /// first of this process.
    OlderTarget,
    /// What nobody waits for is written to the journal.
    Flush,
    Restart,
    JournalLost,
}

/// Where a group stands, which may be nowhere.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Place(Option<i64>);

#[derive(Clone)]
struct World {
    tracker: GroupTracker,
    now_ms: i64,
    source: i64,
    older: i64,
    target: Option<i64>,
    /// Where the target stood before, if a new coordinator may still say so.
    older_target: Option<Place>,
    /// Where the round before found it, in this process.
    seen: Option<Place>,
    live: bool,
    durable: GroupJournal,
    /// Where we last moved the target, and the source commit that was for; nothing once a round
    /// found it elsewhere.
    put: Option<(i64, i64)>,
    /// The same, of what a round found elsewhere and the journal does not say yet.
    forgotten: Option<(i64, i64)>,
    /// What the round before read, and whether that was an older answer.
    read_before: Option<(i64, bool)>,
}

fn group() -> GroupId {
    "app".into()
}

fn partition() -> TopicPartition {
    TopicPartition::new("orders", 0)
}

fn translate(source: i64) -> Translation<TargetOffset> {
    match source {
        s if s < COPIED => Translation::Exact(TargetOffset(s)),
        s if s == COPIED => Translation::End(TargetOffset(s)),
        _ => Translation::LowerBound(TargetOffset(COPIED)),
    }
}

impl World {
    fn new() -> Self {
        Self {
            tracker: GroupTracker::new(RULES),
            now_ms: 0,
            source: 0,
            older: 0,
            target: None,
            older_target: None,
            seen: None,
            live: false,
            durable: GroupJournal::default(),
            put: None,
            forgotten: None,
            read_before: None,
        }
    }

    /// Equal keys have the same future.
    fn key(&self) -> String {
        let Self { source, older, target, live, durable, put, forgotten, read_before, .. } = self;
        // The next move takes the place of one that does not differ.
        let older_target = self.older_target.filter(|older| older.0 != *target);
        let seen = self.seen;
        let tracker = self.tracker.relative(self.now_ms);
        let written = GroupJournal { written_ms: 0, ..durable.clone() };
        format!(
            "{source} {older} {target:?} {older_target:?} {seen:?} {live} {written:?} {put:?} {forgotten:?} {read_before:?} {tracker}"
        )
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = (0..=SOURCE_END).map(Step::Source).collect();
        steps.extend((0..=COPIED).map(Step::Own));
        steps.push(if self.live { Step::Leave } else { Step::Join });
        steps.extend([Step::Flush, Step::Restart, Step::JournalLost]);
        let is_news = self.seen.is_none_or(|seen| seen.0 == self.target);
        if is_news && self.older_target.is_some_and(|older| older.0 != self.target) {
            steps.push(Step::OlderTarget);
        }
        for stale in [false, true] {
            // An older answer comes once, as long as a new coordinator takes to load.
            let possible = self.older != self.source
                && self.read_before.is_none_or(|(_, was_stale)| !was_stale);
            if !stale || possible {
                steps.extend(FATES.map(|fate| Step::Round { stale, fate }));
            }
        }
        steps
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Source(offset) => (self.older, self.source) = (self.source, offset),
            Step::Join => self.live = true,
            Step::Leave => self.live = false,
            Step::Own(offset) => self.moved(offset),
            Step::Round { stale, fate } => self.round(stale, fate, self.target),
            Step::OlderTarget => {
                // It comes once.
                let older = self.older_target.take().and_then(|older| older.0);
                self.round(false, Fate::Done, older);
            }
            Step::Flush => self.flush(),
            Step::Restart => {
                self.flush();
                self.crash();
            }
            Step::JournalLost => {
                self.durable = GroupJournal::default();
                self.crash();
            }
        }
    }

    fn flush(&mut self) {
        for (_, _, journal) in self.tracker.take_unwritten() {
            self.durable = journal;
            self.forgotten = None;
        }
    }

    /// What was seen and is not in the journal is known to nobody any more.
    fn crash(&mut self) {
        self.put = self.put.or(self.forgotten.take());
        self.seen = None;
        self.tracker = GroupTracker::new(RULES);
        self.tracker.seed(&group(), &partition(), self.durable.clone());
    }

    /// The target's position changes.
    fn moved(&mut self, offset: i64) {
        let before = self.target.replace(offset);
        self.older_target = Some(Place(before));
    }

    fn round(&mut self, stale: bool, fate: Fate, stands: Option<i64>) {
        self.now_ms += 1_000;
        self.seen = Some(Place(stands));
        if let Some(put) = self.put.take_if(|(offset, _)| Some(*offset) != stands) {
            self.forgotten = Some(put);
        }
        let read = if stale { self.older } else { self.source };
        let reading = Reading {
            source: Some(SourceOffset(read)),
            source_asked_ms: self.now_ms,
            translation: translate(read),
            copied_end: Some(TargetOffset(COPIED)),
            target: stands.map(TargetOffset),
            target_asked_ms: self.now_ms,
            target_group: if self.live {
                TargetGroup::Live { members: 1 }
            } else {
                TargetGroup::Empty
            },
            loading: false,
            lost: 0,
            share: false,
            both_directions: false,
        };
        let (group, partition) = (group(), partition());
        let action = self.tracker.observe(&group, &partition, reading, self.now_ms);
        if let GroupAction::Commit(TargetOffset(offset)) = action {
            self.commit(offset, read, fate);
        }
        self.read_before = Some((read, stale));
    }

    fn commit(&mut self, offset: i64, read: i64, fate: Fate) {
        let (group, partition) = (group(), partition());
        let journal = self.tracker.positions(&group).next().unwrap().1.journal().clone();
        assert_eq!(
            journal.unsure.last().map(|placed| placed.target.0),
            Some(offset),
            "is journaled"
        );
        if !matches!(fate, Fate::JournalFails | Fate::CrashBeforeJournal) {
            self.durable = journal;
            self.forgotten = None;
        }
        match fate {
            Fate::JournalFails | Fate::JournalUnclear | Fate::LostBefore => {
                self.tracker.failed(&group, &partition, "lost", self.now_ms);
            }
            Fate::Refused => {
                self.live = true;
                self.tracker.refused(&group, &partition, 25, "members", self.now_ms);
            }
            Fate::CrashBeforeJournal | Fate::CrashAfterJournal => self.crash(),
            Fate::Done => {
                self.arrive(offset, read);
                self.tracker.committed(&group, &partition, TargetOffset(offset), self.now_ms);
            }
            Fate::LostAfterwards => {
                self.arrive(offset, read);
                self.tracker.failed(&group, &partition, "lost", self.now_ms);
            }
            Fate::CrashAfterCommit => {
                self.arrive(offset, read);
                self.crash();
            }
        }
    }

    /// The commit reaches the target: what must hold whatever happened before.
    fn arrive(&mut self, offset: i64, read: i64) {
        assert!(!self.live, "a group with members is written to");
        assert!(offset <= COPIED, "beyond the copy");
        assert_eq!(Some(TargetOffset(offset)), translate(read).offset(), "a guess");
        if self.target.is_some_and(|target| offset < target) {
            let (_, put_for) = self.put.expect("what somebody else moved is taken back");
            let (before, _) = self.read_before.expect("taken back after a single reading");
            assert!(read < put_for && before < put_for, "taken back after a single reading");
        }
        if self.target != Some(offset) {
            self.put = Some((offset, read));
        }
        self.moved(offset);
    }

    /// Left alone, the group arrives, or says why it does not.
    fn settles(mut self) {
        self.live = false;
        for _ in 0..5 {
            self.round(false, Fate::Done, self.target);
        }
        let place = translate(self.source).offset().unwrap().0;
        let target = self.target.expect("written");
        assert!(target >= place, "left behind");
        let standing = self.tracker.standing(&group()).unwrap().standing;
        let (_, position) = self.tracker.positions(&group()).next().unwrap();
        if target > place && self.source <= COPIED {
            assert_eq!(position.journal().settled, None, "a rewind is not followed");
            let told =
                [Some(Code::TargetAhead), Some(Code::SourceRewound)].contains(&standing.code);
            assert!(told, "{standing:?}");
        }
    }
}

#[test]
fn no_history_takes_back_what_others_moved_or_skips_or_guesses() {
    let mut known = HashSet::new();
    let mut ahead = VecDeque::from([(World::new(), Vec::new())]);
    let mut taken_back = 0u32;
    while let Some((world, history)) = ahead.pop_front() {
        for step in world.steps() {
            let mut next = world.clone();
            let mut history: Vec<Step> = history.clone();
            history.push(step);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                next.step(step);
                next.clone().settles();
            }));
            assert!(outcome.is_ok(), "after {history:?}");
            let back = matches!(step, Step::Round { .. }) && next.target < world.target;
            taken_back += u32::from(back);
            if history.len() < LENGTH && known.insert(next.key()) {
                ahead.push_back((next, history));
            }
        }
    }
    assert!(known.len() > 5_000, "{} states", known.len());
    assert!(taken_back > 100, "{taken_back} rewinds were followed");
}
