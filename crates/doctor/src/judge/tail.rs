//! MM2's checkpoints, and the group on the target.

use twinlog_client::GroupMember;
use twinlog_types::{Code, GroupId, Severity, TopicPartition};

use super::walk::{Draft, Finding, Walk, counted, on_group};
use crate::chain::LinkName;
use crate::facts::{CheckpointSeries, Trouble};
use crate::mm2::CHECKPOINT_CONNECTOR;
use crate::remedy::Impact;

/// Members that are named one by one.
const MEMBERS_MAX: usize = 5;

impl Walk<'_> {
    pub(super) fn checkpoints(&mut self, group: &GroupId) {
        if !self.reaches_on_target(LinkName::Checkpoints) {
            return;
        }
        let mut link = Draft::new(LinkName::Checkpoints);
        let facts = self.facts;
        let place = format!("{}: topic {}", facts.target.alias, facts.checkpoints.topic);
        if self.is_mm2() {
            self.checkpoint_connector(&mut link, group);
        }
        let seen: Vec<(TopicPartition, &CheckpointSeries)> = if self.only_target {
            let all = facts.checkpoints.read.as_ref().ok().into_iter().flatten().flatten();
            all.filter(|(tp, _)| self.is_asked_for(tp))
                .map(|(tp, series)| (tp.clone(), series))
                .collect()
        } else {
            let left = self.on_the_way().into_iter();
            left.filter_map(|tp| facts.checkpoint(&tp).map(|series| (tp, series))).collect()
        };
        for (tp, series) in &seen {
            let (upstream, downstream) = series.last;
            let ago = facts.now_ms.saturating_sub(series.written_ms).max(0) / 1_000;
            let value = format!("{upstream}->{downstream}, {ago} s ago");
            link.saw(format!("checkpoint of {tp}"), value, place.clone());
        }
        match &facts.checkpoints.read {
            Err(trouble) if self.is_mm2() || self.only_target => {
                link.unseen(self.told(trouble));
            }
            // twinlog's groups do not depend on them.
            Err(trouble) => link.saw("not found out", &trouble.what, place),
            Ok(_) if !self.is_mm2() && !facts.config.emit_checkpoints_enabled => {
                let summary = "checkpoints are switched off, which twinlog's groups do not need";
                let finding = Finding::notes(Code::CheckpointsDisabled, Severity::Info, summary);
                link.found(finding);
            }
            Ok(_) => {}
        }
        link.ok(format!("{} of it", counted(seen.len() as u64, "checkpoint")));
        self.push(link);
    }

    fn checkpoint_connector(&self, link: &mut Draft, group: &GroupId) {
        let facts = self.facts;
        let topic = facts.config.worker.get("config.storage.topic").cloned().unwrap_or_default();
        let place = format!("{}: topic {topic}", facts.target.alias);
        if !facts.config.emit_checkpoints_enabled {
            let origin = self.origin("emit.checkpoints.enabled");
            let summary = format!("emit.checkpoints.enabled is false ({origin})");
            let fix = self.property("emit.checkpoints.enabled", "true");
            link.found(Finding::stops(Code::CheckpointsDisabled, summary).fix(fix));
            return;
        }
        let Some(connector) = facts.mm2.connector(CHECKPOINT_CONNECTOR) else {
            if facts.mm2.trouble.is_none() {
                link.saw(CHECKPOINT_CONNECTOR, "absent", place);
                let summary = "MirrorMaker 2 has no checkpoint connector for this flow";
                link.found(Finding::stops(Code::CheckpointConnectorAbsent, summary));
            }
            return;
        };
        let tasks = connector.tasks.unwrap_or_default();
        link.saw(format!("tasks of {CHECKPOINT_CONNECTOR}"), tasks, place.clone());
        if !connector.has_group(group.as_str()) {
            link.saw("the group in task.assigned.groups", "no", place);
            let interval = facts.config.refresh_groups_interval.as_secs();
            let what = format!("{group} is in no task of the checkpoint connector");
            link.found(self.not_yet(Code::GroupNotYetDiscovered, &what, "groups", interval));
            return;
        }
        for tp in self.on_the_way() {
            if facts.checkpoint(&tp).is_some() || facts.checkpoints.read.is_err() {
                continue;
            }
            // Pairs that are looked for elsewhere are told of where they are.
            let pairs = facts.syncs.read.is_ok() && self.apart().is_none();
            let finding = if pairs && facts.checkpoints.total == 0 && self.checkpoints_are_due() {
                let summary = "there are pairs of offsets and no checkpoint of any group: the \
                               checkpoint task cannot read the pairs";
                Finding::stops(Code::OffsetSyncsUnreadable, summary)
            } else {
                let seconds = facts.config.checkpoints_interval.as_secs();
                let summary = format!(
                    "{tp}: no checkpoint of the group yet; they are written every {seconds} s"
                );
                Finding::stops(Code::StaleCheckpoint, summary)
            };
            link.found(finding.of(&tp));
        }
    }

    pub(super) fn target_group(&mut self, group: &GroupId) {
        if !self.reaches_on_target(LinkName::TargetGroup) {
            return;
        }
        let mut link = Draft::new(LinkName::TargetGroup);
        let facts = self.facts;
        let place = on_group(&facts.target, group);
        let listing = facts.target.groups.as_ref().ok().and_then(|groups| groups.get(group));
        let state = listing.map_or("absent", |listing| listing.state.as_str());
        let commits = facts.group.as_ref().map(|group| &group.target_commits);
        if let (None, Some(Err(trouble))) = (listing, commits)
            && trouble.code == Some(Code::MissingPermission)
        {
            // Not listed, because it may not be described.
            link.unknown(trouble.clone(), self.on_the_way());
            return self.push(link);
        }
        if facts.target.groups.is_ok() {
            link.saw("state", state, place.clone());
        }
        let members = match facts.group.as_ref().map(|group| &group.members) {
            Some(Ok(members)) => members.as_slice(),
            Some(Err(trouble)) => {
                link.unknown(trouble.clone(), self.on_the_way());
                &[]
            }
            None => {
                link.unknown(self.told(&Trouble::not_looked_at()), self.on_the_way());
                &[]
            }
        };
        for member in members.iter().take(MEMBERS_MAX) {
            let value = format!("{}, {}", named(member), member.member_id);
            link.saw("member", value, place.clone());
        }
        let lives = !matches!(state, "absent" | "Empty" | "Dead" | "" | "Unknown");
        if lives {
            link.found(self.live(state, members));
        }
        link.ok(match state {
            "absent" => "the group does not exist on the target yet, so it can be written",
            _ => "the group has no members on the target, so it can be written",
        });
        self.push(link);
    }

    fn live(&self, state: &str, members: &[GroupMember]) -> Finding {
        let who = match members {
            [] => format!("the group is {state} on the target"),
            [one] => format!("1 member lives on the target: {}", named(one)),
            [first, ..] => {
                let (count, first) = (members.len(), named(first));
                format!("{count} members live on the target, {first} among them")
            }
        };
        let left = self.on_the_way();
        let mut impact = Impact::default();
        for tp in &left {
            impact.add(&self.impact(tp));
        }
        // Where its own members are at or past its place, nothing is lost by leaving it to them.
        let behind = impact.reread > 0 || impact.unplaced > 0;
        let severity = if behind { Severity::Error } else { Severity::Warning };
        Finding {
            severity,
            partitions: left,
            ..Finding::stops(Code::GroupLiveOnTarget, who).with(impact)
        }
    }

    /// What a failover now would do in one partition.
    pub(super) fn impact(&self, tp: &TopicPartition) -> Impact {
        let mirror = self.facts.mirror_of(tp);
        let place = self.target_place(tp);
        let mut impact = Impact::default();
        let Some(place) = place else { return impact };
        impact.places.push((mirror.clone(), place));
        match self.target_commit(tp) {
            Some(committed) if committed < place => {
                impact.reread = u64::try_from(place - committed).unwrap_or(0);
            }
            Some(committed) => impact.skipped = u64::try_from(committed - place).unwrap_or(0),
            None => {
                impact.unplaced = 1;
                if let Some((start, end)) = self.facts.bounds.get(&mirror) {
                    impact.before = u64::try_from(place - start).unwrap_or(0);
                    impact.behind = u64::try_from(end - place).unwrap_or(0);
                }
            }
        }
        impact
    }

    /// Where the group belongs in a partition of the target. Of MM2's mirrors by the records, and where
    /// they do not tell, by its checkpoint.
    pub(super) fn target_place(&self, tp: &TopicPartition) -> Option<i64> {
        if self.is_mm2() {
            let by_records = self.source_commit(tp).and_then(|at| self.exact_place(tp, at));
            let checkpoint = || self.facts.checkpoint(tp).map(|series| series.last.1);
            return by_records.map(|place| place.0).or_else(checkpoint);
        }
        let crate::chain::Subject::Group(group) = self.subject else { return None };
        self.facts.position(group, tp)?.target_offset
    }

    /// What the group has committed there.
    pub(super) fn target_commit(&self, tp: &TopicPartition) -> Option<i64> {
        let crate::chain::Subject::Group(group) = self.subject else { return None };
        if !self.is_mm2()
            && let Some(position) = self.facts.position(group, tp)
        {
            return position.committed_target;
        }
        let commits = self.facts.group.as_ref()?.target_commits.as_ref().ok()?;
        commits.get(&self.facts.mirror_of(tp)).copied()
    }
}

/// `client consumer-1 at 10.0.0.7`
fn named(member: &GroupMember) -> String {
    format!("client {} at {}", member.client_id, member.client_host.trim_start_matches('/'))
}
