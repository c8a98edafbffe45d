//! Offsets of the source in terms of the target: twinlog's map, or MM2's pairs.

use twinlog_types::{Code, GroupId, Severity, State, TopicPartition};

use super::topic::is_about_map;
use super::walk::{Draft, Finding, Walk, or_none};
use crate::chain::LinkName;

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

    /// What the group has committed on the source.
    pub(super) fn source_commit(&self, tp: &TopicPartition) -> Option<i64> {
        let commits = self.facts.group.as_ref()?.source_commits.as_ref().ok()?;
        commits.iter().find(|commit| commit.tp == *tp).map(|commit| commit.offset)
    }
}
