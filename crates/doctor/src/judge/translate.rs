//! Offsets of the source in terms of the target: twinlog's map, or MM2's pairs.

use twinlog_types::{Code, GroupId, Severity, State, TopicPartition};

use super::topic::is_about_map;
use super::walk::{Draft, Finding, Walk, counted, or_none};
use crate::chain::LinkName;
use crate::facts::PartitionSyncs;
use crate::remedy::Impact;

impl Walk<'_> {
    /// The map, or the offset-syncs.
    pub(super) fn offsets(&mut self) {
        let name = self.offsets_name();
        if !self.reaches(name) {
            return;
        }
        let mut link = Draft::new(name);
        if self.is_mm2() {
            self.offset_syncs(&mut link);
        } else {
            for tp in self.on_the_way() {
                self.map(&mut link, &tp);
            }
            link.ok("which source offset is which target offset is known exactly");
        }
        self.push(link);
    }

    fn map(&self, link: &mut Draft, tp: &TopicPartition) {
        let Some(seen) = self.facts.partition(tp) else { return };
        if let Some(code) = seen.standing.code.filter(|code| is_about_map(*code)) {
            let reason = seen.standing.reason.clone().unwrap_or_default();
            link.found(Finding::stops(code, format!("{tp}: {reason}")).of(tp));
            return;
        }
        if seen.copied_to.is_none() {
            let running = self.facts.found.own.code.is_none();
            let code = if running { Code::NothingCopied } else { Code::MirrorNotRunning };
            link.found(Finding::stops(code, format!("nothing of {tp} was copied yet")).of(tp));
        }
    }

    fn offset_syncs(&self, link: &mut Draft) {
        let syncs = &self.facts.syncs;
        let place = format!("{}: topic {}", syncs.on, syncs.topic);
        let there = match &syncs.read {
            Err(trouble) => {
                link.unknown(trouble.clone(), Vec::new());
                return;
            }
            Ok(there) => there,
        };
        let Some(there) = there else {
            link.saw("topic", "absent", place);
            let (topic, on) = (&syncs.topic, &syncs.on);
            let finding = if let Some(other) = &syncs.elsewhere {
                let location =
                    if self.facts.config.offset_syncs_on_target { "source" } else { "target" };
                let summary = format!(
                    "{topic} does not exist on {on}, and {other} does on the other cluster: writer \
                     and reader look in different places"
                );
                Finding::stops(Code::OffsetSyncsLocationMismatch, summary)
                    .fix(self.property("offset-syncs.topic.location", location))
            } else {
                let summary = format!("{topic} does not exist on {on}");
                Finding::stops(Code::OffsetSyncsUnreadable, summary)
            };
            link.found(finding);
            return;
        };
        let mut pairs = 0;
        for tp in self.on_the_way() {
            let Some(found) = there.get(&tp) else {
                link.saw(format!("pairs of {tp}"), 0, place.clone());
                link.found(self.without_syncs(&tp).of(&tp));
                continue;
            };
            pairs += found.count;
            sync_evidence(link, &tp, found, &place);
            if let Some((upstream, downstream)) = found.stepped_back {
                let summary = format!(
                    "the mirror of {tp} was made again: the pair {upstream}->{downstream} lies \
                     before an earlier one on the target"
                );
                link.found(Finding::blocks(Code::TargetRecreated, summary).of(&tp));
            }
        }
        link.ok(format!("{} of offsets", counted(pairs, "pair")));
    }

    fn without_syncs(&self, tp: &TopicPartition) -> Finding {
        let end = self.facts.bounds.get(&self.facts.mirror_of(tp)).map(|(_, end)| *end);
        let seen = self.facts.partition(tp);
        let empty = seen.is_some_and(|seen| seen.source_start == seen.source_end);
        let place = end.unwrap_or(0);
        if empty && place == 0 {
            let summary = format!(
                "no record of {tp} was ever copied, and there is none left on the source: the \
                 group belongs on {place}, the target's end, and is not put there"
            );
            let places = vec![(self.facts.mirror_of(tp), place)];
            let impact = Impact { unplaced: 1, places, ..Impact::default() };
            return Finding::stops(Code::NothingCopied, summary).with(impact);
        }
        if place > 0 {
            let summary = format!(
                "{place} records of {tp} are on the target and there is no pair of offsets for \
                 them: they cannot be written, or emit.offset-syncs.enabled is false"
            );
            return Finding::stops(Code::OffsetSyncsUnreadable, summary);
        }
        Finding::stops(Code::NothingCopied, format!("no record of {tp} was copied yet"))
    }

    pub(super) fn translation(&mut self, group: &GroupId) {
        if !self.reaches(LinkName::Translation) {
            return;
        }
        let mut link = Draft::new(LinkName::Translation);
        let left = self.on_the_way();
        for tp in &left {
            if self.is_mm2() {
                self.translation_of_mm2(&mut link, tp);
            } else {
                self.translation_of_twinlog(&mut link, group, tp);
            }
        }
        link.ok(format!("{} translated", super::group::partitions(left.len())));
        self.push(link);
    }

    fn translation_of_twinlog(&self, link: &mut Draft, group: &GroupId, tp: &TopicPartition) {
        let Some(position) = self.facts.position(group, tp) else { return };
        let target = self.facts.mirror_of(tp);
        let value = format!(
            "{} -> {} ({})",
            or_none(position.source_offset),
            or_none(position.target_offset),
            position.translation
        );
        link.saw(format!("{tp} -> {target}"), value, "the offset map");
        let standing = &position.standing;
        let reason = standing.reason.clone().unwrap_or_default();
        match (standing.state, standing.code) {
            (_, Some(code @ Code::NothingCopied)) => {
                link.found(Finding::stops(code, format!("{tp}: {reason}")).of(tp));
            }
            (_, Some(code @ Code::BacklogNotOnTarget)) => {
                let finding = Finding::notes(code, Severity::Error, format!("{tp}: {reason}"));
                link.found(finding.of(tp));
            }
            (State::Unknown, None) if position.target_offset.is_none() => {
                let trouble = crate::facts::Trouble::new(None, format!("{tp}: {reason}"));
                link.unknown(trouble, vec![tp.clone()]);
            }
            _ => {}
        }
    }

    fn translation_of_mm2(&self, link: &mut Draft, tp: &TopicPartition) {
        let (Some(committed), Some(syncs)) = (self.source_commit(tp), self.facts.sync(tp)) else {
            return;
        };
        let Some(below) = syncs.below else {
            let oldest = syncs.oldest.0;
            let summary = format!(
                "{tp}: the group stands at {committed}, before the oldest pair of offsets \
                 ({oldest})"
            );
            link.found(Finding::stops(Code::TranslationFrozen, summary).of(tp));
            return;
        };
        let Some(checkpoint) = self.facts.checkpoint(tp) else { return };
        let (upstream, downstream) = checkpoint.last;
        let target = self.facts.mirror_of(tp);
        link.saw(
            format!("{tp} -> {target}"),
            format!("{upstream} -> {downstream}, from the pair {}->{}", below.0, below.1),
            format!("{}: topic {}", self.facts.target.alias, self.facts.checkpoints.topic),
        );
        if upstream != committed {
            return;
        }
        // Where no hole lies between the pair and the commit this is the exact place.
        let at_most = below.1.saturating_add(committed - below.0);
        let reread = u64::try_from(at_most - downstream).unwrap_or(0);
        if reread > 0 {
            let summary = format!(
                "{tp}: {committed} is translated to {downstream}, up to {reread} records before \
                 its place"
            );
            let impact = Impact { reread, ..Impact::default() };
            let finding = Finding::notes(Code::TranslationCoarse, Severity::Error, summary);
            link.found(finding.of(tp).with(impact));
        }
    }

    /// What the group has committed on the source.
    pub(super) fn source_commit(&self, tp: &TopicPartition) -> Option<i64> {
        let commits = self.facts.group.as_ref()?.source_commits.as_ref().ok()?;
        commits.iter().find(|commit| commit.tp == *tp).map(|commit| commit.offset)
    }
}

fn sync_evidence(link: &mut Draft, tp: &TopicPartition, found: &PartitionSyncs, place: &str) {
    let (oldest, newest) = (found.oldest, found.newest);
    let value =
        format!("{}, {}->{} to {}->{}", found.count, oldest.0, oldest.1, newest.0, newest.1);
    link.saw(format!("pairs of {tp}"), value, place);
}
