//! What the group has committed on the target: the end of the chain.

use twinlog_types::{Code, GroupId, Severity, State, TopicPartition};

use super::group::partitions;
use super::walk::{Draft, Finding, Walk, on_group, or_none};
use crate::chain::{Evidence, LinkName};
use crate::facts::{CheckpointSeries, Trouble};
use crate::remedy::Impact;

impl Walk<'_> {
    pub(super) fn consumer_offsets(&mut self, group: &GroupId) {
        let name = LinkName::ConsumerOffsets;
        if self.only_target {
            return self.stands_on_target(group);
        }
        if self.left.as_ref().is_some_and(std::collections::BTreeSet::is_empty) {
            // Where the group stands is worth seeing also when nothing is written.
            let evidence = self.commit_evidence(group);
            let mut link = Draft::new(name);
            self.wrong_positions(&mut link);
            if link.is_empty() {
                self.not_reached(name, evidence);
                return;
            }
            for Evidence { what, value, place } in evidence {
                link.saw(what, value, place);
            }
            return self.push(link);
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
        self.wrong_positions(&mut link);
        for tp in &left {
            let mirror = self.facts.mirror_of(tp);
            link.saw(
                format!("committed on {mirror}"),
                or_none(self.target_commit(tp)),
                place.clone(),
            );
            if self.beyond_the_end(tp).is_some() {
                // Said above.
            } else if self.is_mm2() {
                self.commit_of_mm2(&mut link, tp);
            } else {
                due += usize::from(self.commit_of_twinlog(&mut link, group, tp));
            }
        }
        let short = left.iter().filter(|tp| self.is_mm2() && self.stands_short(tp)).count();
        link.ok(match due {
            0 if short > 0 => format!(
                "the group stands where MirrorMaker 2 put it, and in {} short of its place (see \
                 translation)",
                partitions(short)
            ),
            0 => format!("the group stands at its place in {}", partitions(left.len())),
            n => format!("{} about to be written", partitions(n)),
        });
        self.push(link);
    }

    /// Whether records lie between where the group stands and where it belongs.
    fn stands_short(&self, tp: &TopicPartition) -> bool {
        let place = self.source_commit(tp).and_then(|committed| self.exact_place(tp, committed));
        let stands = self.target_commit(tp);
        place.zip(stands).is_some_and(|(place, stands)| place.0 > stands)
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

    /// Positions that cannot be read, or that old ones got wrong: also where the way ended before.
    fn wrong_positions(&self, link: &mut Draft) {
        let commits = self.facts.group.as_ref().and_then(|read| read.source_commits.as_ref().ok());
        for commit in commits.into_iter().flatten().filter(|commit| commit.offset >= 0) {
            let tp = &commit.tp;
            if !self.is_asked_for(tp) {
                continue;
            }
            if let Some(finding) = self.beyond_the_end(tp) {
                link.found(finding.of(tp));
            }
            if let Some(finding) = self.epoch_ahead(tp) {
                link.found(finding.of(tp));
            }
            if self.is_mm2()
                && let Some(finding) = self.known_bug(tp)
            {
                link.found(finding.of(tp));
            }
        }
    }

    pub(super) fn beyond_the_end(&self, tp: &TopicPartition) -> Option<Finding> {
        let mirror = self.facts.mirror_of(tp);
        let committed = self.target_commit(tp)?;
        let (_, end) = *self.facts.bounds.get(&mirror)?;
        // The commits are read before the ends, which only grow.
        (committed > end).then(|| {
            let summary =
                format!("the group is committed at {committed} of {mirror}, which ends at {end}");
            // What put the group there may have left a checkpoint that is no better.
            let place = self.target_place(tp).filter(|place| *place <= end);
            let mut impact = Impact::default();
            if let Some(place) = place {
                impact.places.push((mirror, place));
                // All that is there and not read yet, where consumers are reset to the end.
                impact.skipped = u64::try_from(end - place).unwrap_or(0);
            }
            Finding::stops(Code::NegativeLag, summary).with(impact)
        })
    }

    /// A commit with a leader epoch that the partition has not reached.
    fn epoch_ahead(&self, tp: &TopicPartition) -> Option<Finding> {
        let mirror = self.facts.mirror_of(tp);
        let epochs = &self.facts.group.as_ref()?.target_epochs;
        let (committed, current) = *epochs.get(&mirror)?;
        (committed > current).then(|| {
            let summary = format!(
                "the group's commit on {mirror} carries leader epoch {committed}, and the partition's \
                 is {current}: whoever wrote it copied the epoch of another log"
            );
            let mut impact = self.impact(tp);
            if impact.places.is_empty() {
                impact.places.extend(self.target_commit(tp).map(|offset| (mirror, offset)));
            }
            Finding::blocks(Code::LeaderEpochAhead, summary).with(impact)
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
            // It is followed in a moment.
            (State::CatchingUp, None | Some(Code::SourceRewound)) => return true,
            (_, Some(code)) => link.found(Finding::stops(code, told).of(tp).with(self.impact(tp))),
            (_, None) => {}
        }
        false
    }

    pub(super) fn sync_disabled(&self, told: &str) -> Finding {
        let origin = self.origin("sync.group.offsets.enabled");
        Finding::stops(Code::SyncDisabled, format!("{told} ({origin})"))
            .fix(self.property("sync.group.offsets.enabled", "true"))
    }

    /// The target stands ahead: an older checkpoint tells whether the source was moved back.
    pub(super) fn ahead(&self, tp: &TopicPartition, told: String) -> Finding {
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
}

/// Where the source stood when the target was put where it is now, if that is further on than it
/// stands now.
pub(super) fn rewound(series: &CheckpointSeries, source: i64, target: i64) -> Option<i64> {
    // twinlog writes none for a place that it does not commit: the last one may be it.
    let all = [series.last].into_iter().chain(series.earlier.iter().copied());
    let mut put_there = all.filter(|(_, downstream)| *downstream == target);
    put_there.find(|(upstream, _)| *upstream > source).map(|(upstream, _)| upstream)
}
