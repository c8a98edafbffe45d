//! The answer of `twinlog demo`: what `--json` prints and the screen is made of.

use serde::Serialize;

use super::ledger::Outcome;
use crate::output::WRONG;

/// Everything that was found out.
#[derive(Serialize)]
pub(super) struct Document {
    pub(super) version: u8,
    pub(super) clusters: Vec<ClusterAt>,
    /// The properties file that `twinlog status` and the others take; nothing when it goes with the
    /// answer.
    pub(super) file: Option<String>,
    pub(super) topics: Vec<TopicLine>,
    pub(super) copied: Copied,
    pub(super) groups: Vec<GroupLine>,
    pub(super) drill: Drill,
    pub(super) verdict: Verdict,
    /// How long all of it took.
    pub(super) ms: u64,
    /// The most memory that the process held; nothing where the system does not say.
    pub(super) peak_memory_bytes: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct ClusterAt {
    pub(super) alias: &'static str,
    pub(super) bootstrap: String,
}

#[derive(Serialize)]
pub(super) struct TopicLine {
    pub(super) flow: String,
    pub(super) topic: &'static str,
    pub(super) target_topic: String,
    pub(super) partitions: usize,
    pub(super) what: &'static str,
    /// Records that a consumer of the source sees, and that were on the target, at one moment.
    pub(super) records: u64,
    pub(super) copied: u64,
    /// Where the logs begin on the source, by partition.
    pub(super) source_starts: Vec<i64>,
}

/// The backlog, and how long it took.
#[derive(Serialize)]
pub(super) struct Copied {
    pub(super) records: u64,
    pub(super) ms: u64,
    pub(super) records_per_second: u64,
}

#[derive(Serialize)]
pub(super) struct GroupLine {
    pub(super) group: &'static str,
    pub(super) flow: String,
    pub(super) topic: &'static str,
    pub(super) partition: i32,
    pub(super) target_topic: String,
    /// Where the group stands, in words.
    pub(super) stands: &'static str,
    /// Whether its position must be on the target.
    pub(super) synced: bool,
    /// What it has committed on both sides.
    pub(super) source_offset: Option<i64>,
    pub(super) target_offset: Option<i64>,
    /// The records that it would read next on both sides.
    pub(super) source_record: Option<String>,
    pub(super) target_record: Option<String>,
    pub(super) translation: Option<&'static str>,
    pub(super) state: &'static str,
    pub(super) code: Option<&'static str>,
    pub(super) reason: Option<String>,
    /// The command that says more, as long as the clusters stay.
    pub(super) next: Option<String>,
    pub(super) drill: GroupDrill,
}

/// What came of the group when the source was gone.
#[derive(Serialize)]
pub(super) struct GroupDrill {
    /// `exact`, `wrong-record`, `nothing-read`, `no-position`; `not-synced` for a group that is not
    /// to be, `unexpected` when it stands in another way than it must.
    pub(super) result: &'static str,
    #[serde(flatten)]
    pub(super) outcome: Option<Outcome>,
    /// What it means that the group is not synced.
    pub(super) consequence: Option<String>,
}

/// The loss of the source.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Drill {
    /// Records that the source had acknowledged and that were not on the target yet.
    pub(super) lost_records: u64,
    /// Records on the target that were compared with what was written.
    pub(super) compared_records: u64,
    /// Partitions in which a record is missing, doubled, or another one.
    pub(super) different_partitions: usize,
}

#[derive(Serialize)]
pub(super) struct Verdict {
    /// `exact` or `failed`.
    pub(super) result: &'static str,
    /// Groups that must be synced, and those of them that resumed at the exact record.
    pub(super) synced: usize,
    pub(super) exact: usize,
}

impl Verdict {
    /// All is well when every synced group resumed exactly, every other one stands as it must, and
    /// the copy holds nothing but what was written.
    pub(super) fn of(groups: &[GroupLine], drill: &Drill) -> Self {
        let synced = groups.iter().filter(|group| group.synced);
        let exact = synced.clone().filter(|group| group.drill.result == "exact").count();
        let well = groups
            .iter()
            .all(|group| group.drill.result == if group.synced { "exact" } else { "not-synced" });
        let result = if well && drill.different_partitions == 0 { "exact" } else { "failed" };
        Self { result, synced: synced.count(), exact }
    }

    pub(super) fn is_well(&self) -> bool {
        self.result == "exact"
    }

    /// The exit code of the command.
    pub(super) fn exit(&self) -> u8 {
        if self.is_well() { 0 } else { WRONG }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::ledger::Ledger;

    const CLEAN: Drill = Drill { lost_records: 3, compared_records: 97, different_partitions: 0 };

    /// A group that must read records 41 to 100, and is sent to a place where `first` comes first.
    fn resumed(first: u64) -> GroupLine {
        let place = ("orders", 0);
        let mut ledger = Ledger::default();
        let records = ledger.next(place, 100);
        ledger.written(place, 700, 100);
        let mut replay = ledger.replay(place, 740);
        for record in &records[first as usize - 1..] {
            replay.take(record.value.as_deref());
        }
        let outcome = replay.end();
        let drill = GroupDrill {
            result: outcome.verdict().word(),
            outcome: Some(outcome),
            consequence: None,
        };
        group(true, drill)
    }

    fn unsynced(result: &'static str) -> GroupLine {
        group(false, GroupDrill { result, outcome: None, consequence: None })
    }

    fn group(synced: bool, drill: GroupDrill) -> GroupLine {
        GroupLine {
            group: "billing",
            flow: "hello->world".into(),
            topic: "orders",
            partition: 0,
            target_topic: "hello.orders".into(),
            stands: "",
            synced,
            source_offset: Some(740),
            target_offset: Some(40),
            source_record: None,
            target_record: None,
            translation: Some("exact"),
            state: "in-sync",
            code: None,
            reason: None,
            next: None,
            drill,
        }
    }

    #[test]
    fn groups_that_resume_at_their_record_pass() {
        let verdict = Verdict::of(&[resumed(41), unsynced("not-synced")], &CLEAN);
        assert_eq!((verdict.result, verdict.synced, verdict.exact), ("exact", 1, 1));
        assert_eq!(verdict.exit(), 0);
    }

    #[test]
    fn one_group_at_a_wrong_target_offset_fails_all() {
        for first in [40, 42] {
            let verdict = Verdict::of(&[resumed(41), resumed(first)], &CLEAN);
            assert_eq!((verdict.result, verdict.synced, verdict.exact), ("failed", 2, 1));
            assert_eq!(verdict.exit(), 1);
        }
    }

    #[test]
    fn a_group_without_a_position_or_a_copy_that_differs_fails_all() {
        let no_position = GroupDrill { result: "no-position", outcome: None, consequence: None };
        assert_eq!(Verdict::of(&[group(true, no_position)], &CLEAN).exit(), 1);
        assert_eq!(Verdict::of(&[resumed(41), unsynced("unexpected")], &CLEAN).exit(), 1);
        let differs = Drill { different_partitions: 1, ..CLEAN };
        assert_eq!(Verdict::of(&[resumed(41)], &differs).exit(), 1);
    }
}
