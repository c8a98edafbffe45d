//! The topic on both sides: whether it is mirrored, and whether its mirror is there.

use std::collections::BTreeSet;

use twinlog_engine::observe::Resource;
use twinlog_flow::Standing;
use twinlog_flow::topics::Exclusion;
use twinlog_mirror::{Refusal, Verdict, why_not_replicated};
use twinlog_types::{Code, Severity, State, TopicName, TopicPartition};

use super::group::{added, did_you_mean, list, partitions, without};
use super::walk::{Draft, Finding, Walk, counted, on_topic};
use crate::chain::{Fix, LinkName};
use crate::facts::Trouble;
use crate::mm2::{CHECKPOINT_CONNECTOR, SOURCE_CONNECTOR};
use crate::near::near;
use crate::remedy::of_topic;

/// Codes of `status` that are about the topic, not about its records.
pub(super) fn is_about_topic(code: Code) -> bool {
    matches!(
        code,
        Code::TopicNotMirrored
            | Code::TopicNotYetDiscovered
            | Code::TopicMissingOnTarget
            | Code::SourceTopicDeleted
            | Code::PartitionCountDiffers
            | Code::NamesCollide
            | Code::ReplicationLoop
            | Code::ConfigRefused
            | Code::TopicRecreated
            | Code::TargetRecreated
            | Code::TargetNotEmpty
    )
}

/// Codes that are about the map of offsets.
pub(super) fn is_about_map(code: Code) -> bool {
    matches!(code, Code::StateCorrupt | Code::MapLoading | Code::NothingCopied)
}

impl Walk<'_> {
    pub(super) fn source_topic(&mut self, topic: &TopicName) {
        let facts = self.facts;
        let count = facts.source.topics.as_ref().ok().and_then(|topics| topics.get(topic));
        let why = why_not_replicated(&facts.config, topic.as_str());
        if count.is_some() && !matches!(why, Some(Refusal::Cycle | Refusal::Internal)) {
            self.concerned();
        }
        if !self.reaches(LinkName::SourceTopic) {
            return;
        }
        let mut link = Draft::new(LinkName::SourceTopic);
        let Some(count) = count.copied() else {
            if facts.source.hidden.contains(topic) {
                let on = &facts.source.alias;
                let what = format!("topic {topic} of {on} may not be seen");
                let trouble = Trouble::new(Some(Code::MissingPermission), what);
                let resource = Resource::Topic(topic.clone());
                link.unknown(trouble.for_want_of(on, "Read", resource), Vec::new());
                return self.push(link);
            }
            link.found(self.no_topic(topic));
            return self.push(link);
        };
        let place = on_topic(&facts.source, topic);
        link.saw("partitions", count, place.clone());
        let wanted: BTreeSet<TopicPartition> = (0..count)
            .filter(|number| self.partition.is_none_or(|only| only == *number))
            .map(|number| TopicPartition::new(topic.clone(), number))
            .collect();
        if wanted.is_empty() {
            let only = self.partition.unwrap_or_default();
            let summary =
                format!("{topic} has no partition {only}: it has {}", partitions(count as usize));
            link.found(Finding::stops(Code::TopicNotMirrored, summary));
            return self.push(link);
        }
        for tp in &wanted {
            if let Some(seen) = facts.partition(tp)
                && let (Some(start), Some(end)) = (seen.source_start, seen.source_end)
            {
                link.saw(
                    format!("{tp} begins and ends at"),
                    format!("{start}..{end}"),
                    place.clone(),
                );
            }
        }
        link.ok(format!("it is there, with {}", partitions(count as usize)));
        self.left = Some(wanted);
        self.push(link);
    }

    fn no_topic(&self, topic: &TopicName) -> Finding {
        let (source, target) = (&self.facts.source, &self.facts.target);
        let known = self.facts.found.topics.iter().find(|one| one.topic == *topic);
        if let Some(Standing { code: Some(code), reason, .. }) = known.map(|one| &one.standing)
            && *code == Code::SourceTopicDeleted
        {
            let summary = reason.clone().unwrap_or_else(|| format!("{topic} was deleted"));
            return Finding::stops(*code, summary);
        }
        let on_target = target.topics.as_ref().is_ok_and(|topics| topics.contains_key(topic));
        if on_target {
            let upstream = self.facts.config.policy.upstream_topic(topic.as_str());
            let hint = upstream.map(|name| format!("; it would be the mirror of {name}"));
            let summary = format!(
                "topic {topic} exists on {} and not on {}{}",
                target.alias,
                source.alias,
                hint.unwrap_or_default()
            );
            return Finding::stops(Code::TopicNotMirrored, summary);
        }
        let topics = source.topics.as_ref().ok();
        let names = topics.into_iter().flat_map(|all| all.keys().map(TopicName::as_str));
        let meant = near(topic.as_str(), names);
        let hint = did_you_mean(&meant);
        let (a, b) = (&source.alias, &target.alias);
        let summary = format!("no topic {topic} is on {a} or {b}, or may be seen{hint}");
        meant.into_iter().fold(Finding::stops(Code::TopicNotMirrored, summary), |finding, name| {
            finding.fix(Fix::Command(format!("twinlog explain {} {}", self.file, of_topic(&name))))
        })
    }

    pub(super) fn topic(&mut self) {
        if !self.reaches(LinkName::Topic) {
            return;
        }
        let mut link = Draft::new(LinkName::Topic);
        let left = self.on_the_way();
        let topics: BTreeSet<TopicName> = left.iter().map(|tp| tp.topic.clone()).collect();
        for topic in &topics {
            self.one_topic(&mut link, topic, &left);
        }
        let mirrors: BTreeSet<String> =
            left.iter().map(|tp| self.facts.mirror_of(tp).topic.to_string()).collect();
        let shown: Vec<&str> = mirrors.iter().take(3).map(String::as_str).collect();
        let more = mirrors.len().saturating_sub(shown.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        link.ok(format!("mirrored to {}{more}", shown.join(", ")));
        self.push(link);
    }

    fn one_topic(&self, link: &mut Draft, topic: &TopicName, left: &[TopicPartition]) {
        let facts = self.facts;
        let here: Vec<&TopicPartition> = left.iter().filter(|tp| tp.topic == *topic).collect();
        let first = TopicPartition::new(topic.clone(), 0);
        let mirror = facts.mirror_of(&first).topic;
        let on_source = facts.source.topics.as_ref().ok().and_then(|all| all.get(topic));
        let on_target = facts.target.topics.as_ref().ok().and_then(|all| all.get(&mirror));
        let count = |count: Option<&i32>| count.map_or_else(|| "absent".into(), i32::to_string);
        link.saw("partitions", count(on_source), on_topic(&facts.source, topic));
        link.saw("partitions", count(on_target), on_topic(&facts.target, &mirror));
        let all = |mut finding: Finding| {
            finding.partitions = here.iter().map(|tp| (*tp).clone()).collect();
            finding
        };
        if let Some(refusal) = why_not_replicated(&facts.config, topic.as_str()) {
            let finding = self.not_mirrored(link, topic, refusal);
            link.found(all(finding));
            return;
        }
        if facts.target.hidden.contains(&mirror) {
            let on = &facts.target.alias;
            let what = format!("topic {mirror} of {on} may not be seen");
            let trouble = Trouble::new(Some(Code::MissingPermission), what);
            let trouble = trouble.for_want_of(on, "Read", Resource::Topic(mirror));
            link.unknown(trouble, here.into_iter().cloned().collect());
            return;
        }
        if self.is_mm2() {
            for tp in here {
                if let Some(finding) = self.topic_of_mm2(tp, on_target.copied()) {
                    link.found(finding.of(tp));
                }
            }
            return;
        }
        let known = facts.found.topics.iter().find(|one| one.topic == *topic);
        for tp in here {
            let standing = facts.partition(tp).map(|seen| &seen.standing);
            let Some(Standing { state, code: Some(code), reason }) = standing else { continue };
            if is_about_topic(*code) {
                let reason = reason.clone().unwrap_or_else(|| code.to_string());
                link.found(finding(*state, *code, format!("{tp}: {reason}")).of(tp));
            }
        }
        // A note on the topic as a whole.
        if let Some(Standing { state: State::InSync, code: Some(code), reason }) =
            known.map(|one| &one.standing)
            && is_about_topic(*code)
        {
            let reason = reason.clone().unwrap_or_else(|| code.to_string());
            link.found(Finding::notes(*code, Severity::Info, reason));
        }
    }

    fn not_mirrored(&self, link: &mut Draft, topic: &TopicName, refusal: Refusal) -> Finding {
        let filter = &self.facts.config.topics;
        let key = match &refusal {
            Refusal::Filtered(Verdict::Excluded(_)) => Some("topics.exclude"),
            Refusal::Filtered(_) => Some("topics"),
            Refusal::Internal | Refusal::Cycle => None,
        };
        let fix = match &refusal {
            Refusal::Filtered(Verdict::Excluded(pattern)) => {
                without(filter, pattern).map(|rest| self.property("topics.exclude", &rest))
            }
            Refusal::Filtered(Verdict::NotIncluded) => {
                Some(self.property("topics", &added(filter.include(), topic.as_str())))
            }
            _ => None,
        };
        let said = key.map(|key| format!(" ({})", self.origin(key))).unwrap_or_default();
        let summary = format!("{topic} is not mirrored: {}{said}", Exclusion(refusal));
        if let Some(key) = key {
            let items = if key == "topics" { filter.include() } else { Some(filter.exclude()) };
            link.saw(key, list(items), self.origin(key));
        }
        let finding = Finding::stops(Code::TopicNotMirrored, summary);
        match fix {
            Some(fix) => finding.fix(fix),
            None => finding,
        }
    }

    fn topic_of_mm2(&self, tp: &TopicPartition, on_target: Option<i32>) -> Option<Finding> {
        let facts = self.facts;
        let mirror = facts.mirror_of(tp);
        let assigned =
            facts.mm2.connector(SOURCE_CONNECTOR).map(|connector| connector.has_partition(tp));
        let there = on_target.is_some_and(|count| tp.partition < count);
        match (assigned, there) {
            (Some(false), _) => Some(self.not_yet(
                Code::TopicNotYetDiscovered,
                &format!("{tp} is in no task of MirrorMaker 2"),
                "topics",
                facts.config.refresh_topics_interval.as_secs(),
            )),
            (_, false) => {
                let summary = format!(
                    "{mirror} does not exist on {}{}",
                    facts.target.alias,
                    self.why_not_made().unwrap_or_default()
                );
                Some(Finding::stops(Code::TopicMissingOnTarget, summary))
            }
            (_, true) => None,
        }
    }

    /// What keeps MM2 from making a topic, where that can be seen.
    fn why_not_made(&self) -> Option<String> {
        let facts = self.facts;
        let brokers = facts.contents.target_brokers?;
        let config = &facts.mm2.connector(SOURCE_CONNECTOR)?.config;
        let factor = config.get("replication.factor").map_or("2", String::as_str).trim();
        let wanted: usize = factor.parse().ok()?;
        (wanted > brokers).then(|| {
            format!(
                ": replication.factor is {wanted}, and the cluster has {}",
                counted(brokers as u64, "broker")
            )
        })
    }

    /// In how many seconds MM2 looks for new topics or groups again: it does so from the start of
    /// its connector on.
    fn next_look(&self, kind: &str, interval_seconds: u64) -> Option<u64> {
        let connector = if kind == "groups" { CHECKPOINT_CONNECTOR } else { SOURCE_CONNECTOR };
        let mm2 = &self.facts.mm2;
        if mm2.states.get(connector)?.state != "RUNNING" || interval_seconds == 0 {
            return None;
        }
        let age = u64::try_from(mm2.age_ms(connector, self.facts.now_ms)?).ok()? / 1_000;
        Some(interval_seconds - age % interval_seconds)
    }

    /// MM2 has not taken something up: it will, or cannot.
    pub(super) fn not_yet(
        &self,
        code: Code,
        what: &str,
        kind: &str,
        interval_seconds: u64,
    ) -> Finding {
        let members = match &self.facts.mm2.worker {
            Ok(Some(worker)) => worker.members.len(),
            _ => 0,
        };
        let rest = self.facts.config.worker.get("dedicated.mode.enable.internal.rest");
        if members > 1 && rest.is_none_or(|value| value.trim() != "true") {
            let summary = format!(
                "{what}, and its {members} processes cannot tell each other: \
                 dedicated.mode.enable.internal.rest is not true"
            );
            let fix = Fix::Property("dedicated.mode.enable.internal.rest = true".to_owned());
            return Finding::stops(Code::MirrorCannotReconfigure, summary).fix(fix);
        }
        let soon = match self.next_look(kind, interval_seconds) {
            Some(seconds) => format!(", next in {seconds} s"),
            None => String::new(),
        };
        let summary = format!(
            "{what}: new {kind} are looked for every {interval_seconds} s{soon} \
             (refresh.{kind}.interval.seconds)"
        );
        let severity = if kind == "groups" { Severity::Error } else { Severity::Warning };
        Finding { severity, ..Finding::stops(code, summary) }
            .fix(self.property(&format!("refresh.{kind}.interval.seconds"), "10"))
    }
}

/// A finding of `status`, as a step of the walk.
pub(super) fn finding(state: State, code: Code, summary: String) -> Finding {
    match state {
        State::InSync => Finding::notes(code, Severity::Info, summary),
        State::CatchingUp => Finding::blocks(code, summary),
        _ => Finding::stops(code, summary),
    }
}
