//! What the group has committed on the target: the end of the chain.

use twinlog_types::{Code, GroupId, Severity, State, TopicPartition};

use super::group::partitions;
use super::walk::{Draft, Finding, Walk, on_group, or_none};
use crate::chain::{Evidence, LinkName};
use crate::facts::{CheckpointSeries, Trouble};
use crate::mm2::CHECKPOINT_CONNECTOR;

impl Walk<'_> {
    pub(super) fn consumer_offsets(&mut self, group: &GroupId) {
        let name = LinkName::ConsumerOffsets;
        if self.only_target {
            return self.stands_on_target(group);
        }
        if self.left.as_ref().is_some_and(std::collections::BTreeSet::is_empty) {
            // Where the group stands is worth seeing also when nothing is written.
            let evidence = self.commit_evidence(group);
            self.not_reached(name, evidence);
            return;
        }
        if !self.reaches(name) {
            return;
        }
        let mut link = Draft::new(name);
        if let Some(Err(trouble)) = self.facts.group.as_ref().map(|group| &group.target_commits) {
            link.unknown(trouble.clone(), self.on_the_way());
            return self.push(link);
        }
        let place = on_group(&self.facts.target, group);
        let left = self.on_the_way();
        let mut due = 0;
        for tp in &left {
            let mirror = self.facts.mirror_of(tp);
            link.saw(
                format!("committed on {mirror}"),
                or_none(self.target_commit(tp)),
                place.clone(),
            );
            if let Some(finding) = self.beyond_the_end(tp) {
                link.found(finding.of(tp));
            } else if self.is_mm2() {
                self.commit_of_mm2(&mut link, tp);
            } else {
                due += usize::from(self.commit_of_twinlog(&mut link, group, tp));
            }
        }
        link.ok(match due {
            0 => format!("the group stands at its place in {}", partitions(left.len())),
            n => format!("{} about to be written", partitions(n)),
        });
        self.push(link);
    }

    /// Where the group stands; where it belongs, only the source could tell.
    fn stands_on_target(&mut self, group: &GroupId) {
        let mut link = Draft::new(LinkName::ConsumerOffsets);
        let (source, target) = (&self.facts.source, &self.facts.target);
        match self.facts.group.as_ref().map(|read| &read.target_commits) {
            Some(Ok(_)) => {
                let evidence = self.commit_evidence(group);
                let (source, target) = (&source.alias, &target.alias);
                let what = match evidence.len() {
                    0 => format!(
                        "the group has no commit on {target}; whether it should have one, only \
                         {source} tells"
                    ),
                    n => format!(
                        "the group stands in {} on {target}; whether that is its place now, only \
                         {source} tells",
                        partitions(n)
                    ),
                };
                for Evidence { what, value, place } in evidence {
                    link.saw(what, value, place);
                }
                let code = self.facts.source.id.as_ref().err().and_then(|trouble| trouble.code);
                link.unknown(Trouble::new(code, what), Vec::new());
            }
            Some(Err(trouble)) => link.unknown(trouble.clone(), Vec::new()),
            None => link.unknown(self.told(&Trouble::not_looked_at()), Vec::new()),
        }
        self.push(link);
    }

    fn commit_evidence(&self, group: &GroupId) -> Vec<Evidence> {
        let commits = self.facts.group.as_ref().and_then(|read| read.target_commits.as_ref().ok());
        let place = on_group(&self.facts.target, group);
        let commits = commits.into_iter().flatten().filter(|(tp, _)| self.is_asked_for(tp));
        let commits = commits.map(|(tp, offset)| Evidence {
            what: format!("committed on {tp}"),
            value: offset.to_string(),
            place: place.clone(),
        });
        commits.collect()
    }

    fn beyond_the_end(&self, tp: &TopicPartition) -> Option<Finding> {
        let mirror = self.facts.mirror_of(tp);
        let committed = self.target_commit(tp)?;
        let (_, end) = *self.facts.bounds.get(&mirror)?;
        // The commits are read before the ends, which only grow.
        (committed > end).then(|| {
            let summary =
                format!("the group is committed at {committed} of {mirror}, which ends at {end}");
            Finding::stops(Code::NegativeLag, summary).with(self.impact(tp))
        })
    }

    /// Answers whether a commit is due.
    fn commit_of_twinlog(&self, link: &mut Draft, group: &GroupId, tp: &TopicPartition) -> bool {
        let Some(position) = self.facts.position(group, tp) else {
            let what = format!("nothing is known of the group's position in {tp}");
            link.unknown(Trouble::new(None, what), vec![tp.clone()]);
            return false;
        };
        let standing = &position.standing;
        let told = format!("{tp}: {}", standing.reason.clone().unwrap_or_default());
        match (standing.state, standing.code) {
            (State::Unknown, code) => {
                let trouble = Trouble::new(code, told);
                link.unknown(trouble, vec![tp.clone()]);
            }
            (_, Some(Code::SyncDisabled)) => {
                link.found(self.sync_disabled(&told).of(tp).with(self.impact(tp)));
            }
            (_, Some(Code::TargetAhead)) => link.found(self.ahead(tp, told)),
            // Said at the translation.
            (_, Some(Code::BacklogNotOnTarget)) => {}
            (State::InSync, Some(code)) => {
                link.found(Finding::notes(code, Severity::Info, told).of(tp));
            }
            (_, Some(code)) => link.found(Finding::stops(code, told).of(tp).with(self.impact(tp))),
            (State::CatchingUp, None) => return true,
            (_, None) => {}
        }
        false
    }

    fn sync_disabled(&self, told: &str) -> Finding {
        let origin = self.origin("sync.group.offsets.enabled");
        Finding::stops(Code::SyncDisabled, format!("{told} ({origin})"))
            .fix(self.property("sync.group.offsets.enabled", "true"))
    }

    /// The target stands ahead: an older checkpoint tells whether the source was moved back.
    fn ahead(&self, tp: &TopicPartition, told: String) -> Finding {
        let impact = self.impact(tp);
        let before = self
            .source_commit(tp)
            .zip(self.target_commit(tp))
            .zip(self.facts.checkpoint(tp))
            .and_then(|((source, target), series)| rewound(series, source, target));
        match before {
            Some(before) => {
                let summary = format!(
                    "{tp}: the source group stood at {before} before, when the target was put where \
                     it is: it was moved back on the source since"
                );
                Finding::stops(Code::SourceRewound, summary).of(tp).with(impact)
            }
            None => Finding::stops(Code::TargetAhead, told).of(tp).with(impact),
        }
    }

    fn commit_of_mm2(&self, link: &mut Draft, tp: &TopicPartition) {
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
                let interval = facts.config.sync_group_offsets_interval.as_secs();
                let late = u64::try_from(age).unwrap_or(0) > interval.saturating_mul(2) + 1;
                let told = format!(
                    "{tp}: {stands}, and the checkpoint {upstream}->{place} is {age} s old"
                );
                if !facts.mm2.is_alive() {
                    let finding = Finding::stops(Code::MirrorNotRunning, told);
                    link.found(finding.of(tp).with(self.impact(tp)));
                } else if late {
                    let told = format!(
                        "{told}: the commit is refused, mostly for want of READ on \
                                        the group"
                    );
                    let finding = Finding::stops(Code::CommitRefused, told);
                    link.found(finding.of(tp).with(self.impact(tp)));
                }
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
}

/// Where the source stood when the target was put where it is now, if that is further on than it
/// stands now.
pub(super) fn rewound(series: &CheckpointSeries, source: i64, target: i64) -> Option<i64> {
    // twinlog writes none for a place that it does not commit: the last one may be it.
    let all = [series.last].into_iter().chain(series.earlier.iter().copied());
    let mut put_there = all.filter(|(_, downstream)| *downstream == target);
    put_there.find(|(upstream, _)| *upstream > source).map(|(upstream, _)| upstream)
}
