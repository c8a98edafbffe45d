//! What MM2 committed for the group on the target, and what its old bugs did there.

use twinlog_types::{Code, Severity, TargetOffset, TopicPartition};

use super::walk::{Draft, Finding, Walk, counted};
use crate::mm2::CHECKPOINT_CONNECTOR;
use crate::remedy::Impact;

/// Positions are the source's, not translated: up to MM2 3.2.
const UNTRANSLATED: &str = "KAFKA-12635";
/// The distance to a pair was added with the holes in it: up to MM2 3.4.0.
const ADDED: &str = "KAFKA-12468";

impl Walk<'_> {
    pub(super) fn commit_of_mm2(&self, link: &mut Draft, tp: &TopicPartition) {
        let facts = self.facts;
        let Some(series) = facts.checkpoint(tp) else { return };
        let (upstream, place) = series.last;
        let committed = self.target_commit(tp);
        let stands = match committed {
            Some(committed) => format!("the target group stands at {committed}"),
            None => "the target group has no commit".to_owned(),
        };
        if !self.mm2_syncs(link) {
            let told = format!(
                "{tp}: sync.group.offsets.enabled is false: {stands}, the checkpoint says {place}"
            );
            if committed != Some(place) {
                link.found(self.sync_disabled(&told).of(tp).with(self.impact(tp)));
            }
            return;
        }
        match committed {
            Some(committed) if committed > place => {
                let told = format!(
                    "{tp}: {stands}, {} offsets ahead of the checkpoint {upstream}->{place}",
                    committed - place
                );
                link.found(self.ahead(tp, told));
            }
            Some(committed) if committed == place => {}
            _ => {
                let age = facts.now_ms.saturating_sub(series.written_ms).max(0) / 1_000;
                let told = format!(
                    "{tp}: {stands}, and the checkpoint {upstream}->{place} is {age} s old"
                );
                if let Some(finding) = self.behind_checkpoint(committed.is_some(), age, told) {
                    link.found(finding.of(tp).with(self.impact(tp)));
                }
            }
        }
    }

    fn behind_checkpoint(&self, is_there: bool, age: i64, told: String) -> Option<Finding> {
        let facts = self.facts;
        let interval = facts.config.sync_group_offsets_interval.as_secs();
        let late = u64::try_from(age).unwrap_or(0) > interval.saturating_mul(2) + 1;
        match (facts.mm2.is_alive(), is_there) {
            // Whether it runs may not be seen.
            (false, _) if facts.mm2.worker.is_err() => None,
            (false, true) => Some(Finding::stops(Code::MirrorNotRunning, told)),
            (false, false) => {
                let told = format!(
                    "{told}: its offsets expired or were deleted, and nobody writes them again"
                );
                let finding = Finding::stops(Code::OffsetsExpired, told);
                Some(Finding { severity: Severity::Error, ..finding })
            }
            (true, _) if !late => None,
            (true, false) => {
                let told = format!(
                    "{told}: MirrorMaker 2 may not commit for the group, it wants READ on it"
                );
                Some(Finding::stops(Code::MissingPermission, told))
            }
            (true, true) => {
                let told =
                    format!("{told}: the commit is refused, mostly for want of READ on the group");
                Some(Finding::stops(Code::CommitRefused, told))
            }
        }
    }

    /// Whether MM2 commits group offsets: by what it runs with, else by what the file says.
    fn mm2_syncs(&self, link: &mut Draft) -> bool {
        let facts = self.facts;
        let key = "sync.group.offsets.enabled";
        let Some(connector) = facts.mm2.connector(CHECKPOINT_CONNECTOR) else {
            return facts.config.sync_group_offsets_enabled;
        };
        let value = connector.config.get(key).map_or("absent", String::as_str);
        let topic = facts.config.worker.get("config.storage.topic").cloned().unwrap_or_default();
        let place =
            format!("{}: topic {topic}, connector {CHECKPOINT_CONNECTOR}", facts.target.alias);
        link.saw_once(key, value, place);
        value.trim().eq_ignore_ascii_case("true")
    }

    /// A position that a bug of an old MM2 put too far ahead. It stays after an upgrade, since no MM2
    /// moves a group back.
    pub(super) fn known_bug(&self, tp: &TopicPartition) -> Option<Finding> {
        let facts = self.facts;
        let stands = self.target_commit(tp)?;
        let (_, end) = *facts.bounds.get(&facts.mirror_of(tp))?;
        let (source, target) = facts.checkpoint(tp)?.last;
        let place = self.exact_place(tp, source);
        let skipped = place.map_or(0, |place| TargetOffset(stands.min(end)).since(place));
        let is_wrong = stands > end || place.is_some_and(|place| TargetOffset(stands) > place);
        if !is_wrong {
            return None;
        }
        let (issue, why) = self.which_bug(tp, stands, (source, target))?;
        let versions = if issue == ADDED { "3.4.0" } else { "3.2" };
        let summary = format!(
            "{tp}: {issue}, of MirrorMaker 2 up to {versions}: {why}; the group stands at {stands} of {end}, {}",
            match (place, skipped) {
                (Some(place), 0) => format!("its place is {place}"),
                (Some(place), n) =>
                    format!("its place is {place}: {} would be skipped", counted(n, "record")),
                (None, _) => "beyond the end".to_owned(),
            }
        );
        let places = place.map(|place| (facts.mirror_of(tp), place.0)).into_iter().collect();
        let impact = Impact { skipped, places, ..Impact::default() };
        let seen = format!("{}: topic {}", facts.target.alias, facts.checkpoints.topic);
        let finding = Finding::notes(Code::Mm2KnownBug, Severity::Error, summary).because(issue);
        let finding = finding.seen("checkpoint of the group", format!("{source}->{target}"), seen);
        let finding = self.with_version(finding);
        Some(finding.with(impact).fix(self.upgrade()))
    }

    /// The issue, and what shows it.
    fn which_bug(
        &self,
        tp: &TopicPartition,
        stands: i64,
        (source, target): (i64, i64),
    ) -> Option<(&'static str, String)> {
        let facts = self.facts;
        let history = facts.sync(tp);
        let were_read = facts.syncs.read.is_ok();
        if history.is_none() && were_read && source == target {
            let why = format!(
                "the checkpoint {source}->{target} was written without any pair of offsets"
            );
            return Some((UNTRANSLATED, why));
        }
        let series = facts.checkpoint(tp)?;
        let stepped = |(upstream, downstream): &&(i64, i64)| {
            *downstream > target && *upstream <= source && *downstream == stands
        };
        if let Some((upstream, downstream)) = series.earlier.iter().find(stepped) {
            let before = format!(
                "the checkpoint was {upstream}->{downstream} before it was {source}->{target}"
            );
            let kept = history.map(|history| history.store.kept()).unwrap_or_default();
            let by_a_pair = kept.iter().any(|(from, to)| {
                from.0 <= *upstream && *downstream == to.0 + (*upstream - from.0)
            });
            return Some(if upstream == downstream && !by_a_pair {
                let literal = "the source's offset as it is, before the first record was copied";
                (UNTRANSLATED, format!("{before}: {literal}"))
            } else {
                let added = "the distance to a pair of offsets was added, with every hole in it";
                (ADDED, format!("{before}: {added}"))
            });
        }
        let (newest, there) = history.map(|history| (history.newest.0.0, history.newest.1.0))?;
        if newest < source && target == there + (source - newest) && target > there + 1 {
            let why = format!(
                "the checkpoint {source}->{target} adds the distance to the pair {newest}->{there}, \
                 with every hole in it and whatever is copied"
            );
            return Some((ADDED, why));
        }
        let literal = self.source_commit(tp) == Some(stands) && target != stands;
        (literal && facts.mm2.is_old()).then(|| {
            (
                UNTRANSLATED,
                format!("probably: {stands} is the group's offset on the source as it is"),
            )
        })
    }
}
