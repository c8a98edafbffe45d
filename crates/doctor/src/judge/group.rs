//! What stands before any record: the file, the clusters, who runs the flow, the group itself.

use std::collections::BTreeSet;

use twinlog_client::GroupKind;
use twinlog_engine::observe::FlowObservation;
use twinlog_mirror::{FlowConfig, NameFilter, Problem, Refusal, Verdict, why_not_replicated};
use twinlog_types::{Code, GroupId, Severity, State, TopicPartition, is_obeyed};

use super::walk::{Draft, Finding, Walk, Weight, counted, on_group};
use crate::chain::{Fix, LinkName};
use crate::facts::{GroupFacts, Trouble};
use crate::mm2::CHECKPOINT_CONNECTOR;
use crate::near::near;
use crate::remedy::grants;

/// What a misspelt key must have been meant to be to break the chain.
pub(crate) const DECISIVE: &[&str] = &[
    "sync.group.offsets.enabled",
    "emit.checkpoints.enabled",
    "emit.offset-syncs.enabled",
    "offset-syncs.topic.location",
    "groups",
    "groups.exclude",
    "topics",
    "topics.exclude",
    "replication.policy.class",
    "enabled",
];

/// Patterns of MM2's default whose groups nobody means to keep: a console's, and internal ones.
const MEANT_TO_BE_LEFT_OUT: &[&str] = &["console-consumer-.*", "__.*"];

const VERSION: &str = "version of MirrorMaker 2";

/// Partitions without a commit that are named.
const NAMED_MAX: usize = 5;

impl Walk<'_> {
    pub(super) fn group_configuration(&mut self, group: &GroupId) {
        let mut link = Draft::new(LinkName::Configuration);
        let config = &self.facts.config;
        self.common_configuration(&mut link);
        for (key, value) in [
            ("sync.group.offsets.enabled", config.sync_group_offsets_enabled),
            ("emit.checkpoints.enabled", config.emit_checkpoints_enabled),
        ] {
            link.saw(key, value, self.origin(key));
        }
        match config.groups.why(group.as_str()) {
            Verdict::Included => {
                link.ok(format!("the flow is enabled, and `groups` includes {group}"));
                link.saw("groups", list(config.groups.include()), self.origin("groups"));
            }
            Verdict::Excluded(pattern) => {
                let origin = self.origin("groups.exclude");
                let unknown = self.if_unknown(group);
                let summary = format!(
                    "groups.exclude contains {pattern}, which matches {group} ({origin}){unknown}"
                );
                let mut finding = Finding::stops(Code::GroupExcluded, summary).because(&pattern);
                if MEANT_TO_BE_LEFT_OUT.contains(&pattern.as_str())
                    && config.origin("groups.exclude").is_none()
                {
                    finding.severity = Severity::Warning;
                }
                if let Some(rest) = without(&config.groups, &pattern) {
                    finding = finding.fix(self.property("groups.exclude", &rest));
                }
                link.saw("groups.exclude", list(Some(config.groups.exclude())), origin);
                link.found(finding);
            }
            Verdict::Undecided(pattern) => {
                let summary = format!("matching {group} against {pattern} takes too many steps");
                link.found(Finding::stops(Code::GroupExcluded, summary));
            }
            Verdict::NotIncluded => {
                let origin = self.origin("groups");
                let patterns = list(config.groups.include());
                let unknown = self.if_unknown(group);
                let summary = format!("no pattern of `groups` matches {group} ({origin}){unknown}");
                let added = added(config.groups.include(), group.as_str());
                let fix = self.property("groups", &added);
                link.saw("groups", patterns, origin);
                link.found(Finding::stops(Code::GroupNotIncluded, summary).fix(fix));
            }
        }
        self.push(link);
    }

    /// What is said of a group that does not even exist, as far as that was seen.
    fn if_unknown(&self, group: &GroupId) -> String {
        let sides = [&self.facts.source, &self.facts.target];
        let is_absent = sides
            .iter()
            .all(|side| side.groups.as_ref().is_ok_and(|groups| !groups.contains_key(group)));
        if is_absent { format!("; {}", self.no_commits(group, false, true)) } else { String::new() }
    }

    pub(super) fn topic_configuration(&mut self) {
        let mut link = Draft::new(LinkName::Configuration);
        self.common_configuration(&mut link);
        link.ok("the flow is enabled");
        self.push(link);
    }

    /// Entries that do nothing, and what MM2 was started with.
    fn common_configuration(&self, link: &mut Draft) {
        let config = &self.facts.config;
        link.saw("enabled", config.enabled, self.origin("enabled"));
        for note in &self.facts.notes {
            let Some(Misspelt { key, meant, bare, value }) = decisive(note, config) else {
                continue;
            };
            let suggestion = note.suggestion.as_deref().unwrap_or_default();
            let place = format!("{}:{}", note.file, note.line.unwrap_or_default());
            let summary = format!("nobody reads {key} ({suggestion})");
            let finding = Finding {
                severity: Severity::Error,
                ..Finding::blocks(Code::UnknownProperty, summary)
            };
            let finding = finding.of_flow().because(bare);
            let said = value.map_or_else(|| format!("<the value of {place}>"), str::to_owned);
            let finding = finding.seen("a key that nobody reads", key, place);
            link.found(finding.fix(Fix::Property(format!("{meant} = {said}"))));
        }
        if self.is_mm2() {
            for finding in self.connectors() {
                link.found(finding);
            }
        }
    }

    pub(super) fn connectivity(&mut self) {
        if !self.reaches(LinkName::Connectivity) {
            return;
        }
        let mut link = Draft::new(LinkName::Connectivity);
        let facts = self.facts;
        for side in [&facts.source, &facts.target] {
            match &side.id {
                Ok(id) => {
                    link.saw("cluster id", id, format!("{}: {}", side.alias, side.bootstrap));
                }
                Err(trouble) => {
                    let place = format!("{}: {}", side.alias, side.bootstrap);
                    link.saw("cluster id", "no answer", place);
                    link.unknown(self.told(trouble), Vec::new());
                }
            }
        }
        if let Some(Err(trouble)) = &facts.connect {
            // Everything else is looked at all the same.
            let mut finding = Finding::blocks(Code::Unreachable, &trouble.what).of_flow();
            finding.found_out = false;
            link.found(finding.because(&trouble.what));
        }
        for side in [&facts.source, &facts.target] {
            if let Some(told) = facts.rights.told(&side.alias) {
                // Everything else is looked at all the same.
                let severity = Severity::Error;
                let finding = Finding::notes(Code::MissingPermission, severity, told);
                let mut finding = finding.of_flow();
                finding.found_out = false;
                finding.fix = grants(facts, &side.alias, &facts.rights);
                link.found(finding.because(side.alias.as_str()));
            }
        }
        if let (Ok(source), Ok(target)) = (&facts.source.id, &facts.target.id) {
            if source == target {
                let (a, b) = (&facts.source.alias, &facts.target.alias);
                let summary = format!("{a} and {b} are one cluster ({source})");
                link.found(Finding::stops(Code::SameCluster, summary).of_flow());
            }
            for side in [&facts.source, &facts.target] {
                let troubles = [side.topics.as_ref().err(), side.groups.as_ref().err()];
                for trouble in troubles.into_iter().flatten() {
                    link.unknown(self.told(trouble), Vec::new());
                }
            }
            // What was not found out in between lets the rest be judged.
            for missing in &facts.found.missing {
                let trouble = Trouble::new(missing.code, missing.what.clone());
                link.saw("not found out", &trouble.what, missing.cluster.as_str());
            }
            if let Some(cut_off) = &facts.cut_off {
                link.unknown(cut_off.clone(), Vec::new());
            }
        }
        link.ok("both clusters answer");
        self.only_target = facts.source.id.is_err() && facts.target.id.is_ok();
        self.push(link);
    }

    pub(super) fn flow(&mut self) {
        if !self.reaches_on_target(LinkName::Flow) {
            return;
        }
        let mut link = Draft::new(LinkName::Flow);
        if self.is_mm2() {
            self.flow_of_mm2(&mut link);
        } else {
            let own = &self.facts.found.own;
            let reason = own.reason.clone().unwrap_or_default();
            if let Some(lease) = &self.facts.found.lease {
                let ago = self.facts.now_ms.saturating_sub(lease.renewed_ms).max(0) / 1_000;
                let place = format!(
                    "{}: topic mm2-twinlog.{}.internal",
                    self.facts.target.alias, self.facts.source.alias
                );
                let says = if lease.released { "ended in order" } else { "runs the flow" };
                link.saw(&lease.instance, format!("{says}, {ago} s ago"), place);
                link.ok(format!("twinlog runs it: {}", lease.instance));
            }
            if let Some(replaced) = replaced_elsewhere(&self.facts.found) {
                link.found(Finding::blocks(Code::ClusterReplaced, replaced).of_flow());
            }
            match (own.state, own.code) {
                (State::InSync, _) => {}
                (State::Unknown, code) => {
                    let trouble = self.told(&Trouble::new(code, reason));
                    let (topic, on) = (self.state_topic(), &self.facts.target.alias);
                    link.unknown(trouble.for_want_of(on, "Read", topic), Vec::new());
                }
                (_, Some(code)) => link.found(Finding::blocks(code, reason).of_flow()),
                (_, None) => link.ok(reason),
            }
        }
        self.push(link);
    }

    fn flow_of_mm2(&self, link: &mut Draft) {
        let mm2 = &self.facts.mm2;
        let target = &self.facts.target.alias;
        if let Some((version, place)) = self.version() {
            link.saw(VERSION, version, place);
        }
        if let Some(url) = &mm2.connect {
            link.saw("RUNNING on Connect", mm2.running, url.as_str());
            if !mm2.running {
                let summary = format!("no connector of this flow is RUNNING at {url}");
                link.found(Finding::blocks(Code::MirrorNotRunning, summary).of_flow());
            }
            link.ok("MirrorMaker 2 runs it on a Connect cluster");
        } else {
            self.workers(link);
        }
        if let Some(0) = mm2.connector(CHECKPOINT_CONNECTOR).and_then(|connector| connector.tasks)
            && self.facts.config.emit_checkpoints_enabled
        {
            let topic = self.facts.config.worker.get("config.storage.topic");
            let place = format!("{target}: topic {}", topic.cloned().unwrap_or_default());
            let what = "the checkpoint connector has no tasks: it has found no group yet";
            let interval = self.facts.config.refresh_groups_interval.as_secs();
            let code = Code::CheckpointConnectorNoTasks;
            let finding = self.not_yet(code, what, "groups", interval);
            let finding = Finding { weight: Weight::Blocks, ..finding }.of_flow();
            link.found(finding.seen(format!("tasks of {CHECKPOINT_CONNECTOR}"), 0, place));
        }
        for failed in mm2.failed.values() {
            link.saw(&failed.name, &failed.trace, format!("{target}: its status"));
            let summary = format!("{} has failed: {}", failed.name, failed.trace);
            let finding = Finding::blocks(Code::ConnectorFailed, summary).of_flow();
            link.found(finding.because(&failed.name));
        }
        if let Some(trouble) = &mm2.trouble {
            link.saw("not found out", &trouble.what, target.as_str());
        }
    }

    /// What is known of MM2's version, and what shows it.
    fn version(&self) -> Option<(String, String)> {
        let (mm2, target) = (&self.facts.mm2, &self.facts.target.alias);
        let told = mm2.version_words()?;
        let topic = |key: &str| self.facts.config.worker.get(key).cloned().unwrap_or_default();
        let place = match (&mm2.version, &mm2.connect) {
            (Some(_), Some(url)) => url.clone(),
            (Some(_), None) => format!("{target}: topic {}", topic("status.storage.topic")),
            (None, _) => format!("{target}: topic {}, tasks", topic("config.storage.topic")),
        };
        Some((told, place))
    }

    pub(super) fn with_version(&self, finding: Finding) -> Finding {
        match self.version() {
            Some((version, place)) => finding.seen(VERSION, version, place),
            None => finding,
        }
    }

    /// The processes of dedicated MM2.
    fn workers(&self, link: &mut Draft) {
        let (mm2, target) = (&self.facts.mm2, &self.facts.target.alias);
        match &mm2.worker {
            Err(trouble) => link.unseen(trouble.clone()),
            Ok(None) => {
                let summary = "MirrorMaker 2 does not run: its workers' group does not exist";
                link.found(Finding::blocks(Code::MirrorNotRunning, summary).of_flow());
            }
            Ok(Some(worker)) => {
                let place = format!("{target}: group {}", worker.group);
                let members = counted(worker.members.len() as u64, "member");
                let value = format!("{}, {members}", worker.state);
                link.saw("MirrorMaker 2's workers", value, place);
                if worker.is_alive() {
                    let workers = counted(worker.members.len() as u64, "worker");
                    link.ok(format!("MirrorMaker 2 runs it, with {workers}"));
                } else {
                    let group = &worker.group;
                    let summary = format!(
                        "MirrorMaker 2 does not run: group {group} is {}{}",
                        worker.state,
                        self.how_it_ended()
                    );
                    link.found(Finding::blocks(Code::MirrorNotRunning, summary).of_flow());
                }
            }
        }
    }

    /// States stay when a process dies, and are taken back when it ends in order.
    fn how_it_ended(&self) -> &'static str {
        let mut states = self.facts.mm2.states.values().map(|status| status.state.as_str());
        match states.next() {
            None => "",
            Some(_) if states.any(|state| state == "RUNNING") => {
                ", while its tasks say RUNNING: it was killed"
            }
            Some(_) => ": it was stopped",
        }
    }

    pub(super) fn source_group(&mut self, group: &GroupId) {
        let facts = self.facts;
        let commits = facts.group.as_ref().and_then(|group| group.source_commits.as_ref().ok());
        let native = commits
            .into_iter()
            .flatten()
            .any(|commit| commit.offset >= 0 && self.is_at_home(&commit.tp));
        if native {
            self.concerned();
        }
        if !self.reaches(LinkName::SourceGroup) {
            return;
        }
        let mut link = Draft::new(LinkName::SourceGroup);
        let place = on_group(&facts.source, group);
        let listing = facts.source.groups.as_ref().ok().and_then(|groups| groups.get(group));
        if let Some(listing) = listing {
            link.saw("state", &listing.state, place.clone());
        }
        let Some(read) = &facts.group else {
            link.unknown(self.told(&Trouble::not_looked_at()), Vec::new());
            return self.push(link);
        };
        if listing.is_some_and(|listing| listing.kind == GroupKind::Share)
            && let Some(finding) = self.of_share_group(read)
        {
            link.found(finding);
            return self.push(link);
        }
        let commits = match &read.source_commits {
            Ok(commits) => commits,
            Err(trouble) => {
                link.unknown(trouble.clone(), Vec::new());
                return self.push(link);
            }
        };
        let wanted = |number| self.partition.is_none_or(|only| only == number);
        let placed: Vec<_> = commits
            .iter()
            .filter(|commit| commit.offset >= 0 && wanted(commit.tp.partition))
            .collect();
        for commit in &placed {
            link.saw(format!("committed on {}", commit.tp), commit.offset, place.clone());
        }
        if placed.is_empty() {
            let summary = self.no_commits(group, listing.is_some(), commits.is_empty());
            link.found(Finding::stops(Code::GroupWithoutCommits, summary));
            return self.push(link);
        }
        // The other direction put it on what came from the target: nothing of that goes back.
        let (placed, from_target): (Vec<_>, Vec<_>) =
            placed.into_iter().partition(|commit| self.is_at_home(&commit.tp));
        link.ok(match from_target.len() {
            0 => format!("it has commits in {}", partitions(placed.len())),
            n => format!(
                "it has commits in {}, and in {} that came from {}",
                partitions(placed.len()),
                partitions(n),
                facts.target.alias
            ),
        });
        let topics: BTreeSet<_> = placed.iter().map(|commit| commit.tp.topic.clone()).collect();
        let mut without: Vec<String> = Vec::new();
        for topic in &topics {
            let count = facts.source.topics.as_ref().ok().and_then(|all| all.get(topic));
            for number in 0..count.copied().unwrap_or_default() {
                let has = placed
                    .iter()
                    .any(|commit| commit.tp.topic == *topic && commit.tp.partition == number);
                if wanted(number) && !has {
                    without.push(format!("{topic}-{number}"));
                }
            }
        }
        if !without.is_empty() {
            let named: Vec<&str> = without.iter().take(NAMED_MAX).map(String::as_str).collect();
            let more = without.len() - named.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let summary = format!("no commit in {}{more}", named.join(", "));
            link.found(Finding::notes(Code::GroupWithoutCommits, Severity::Info, summary));
        }
        self.left = Some(placed.iter().map(|commit| commit.tp.clone()).collect());
        self.push(link);
    }

    /// Why a share group is not carried over; `None` where it is.
    fn of_share_group(&self, read: &GroupFacts) -> Option<Finding> {
        if self.is_mm2() {
            let summary = "it is a share group, which commits nothing: MirrorMaker 2 leaves it out";
            return Some(Finding::stops(Code::GroupWithoutCommits, summary));
        }
        let unserved = |told: Option<&Trouble>| {
            told.is_some_and(|trouble| trouble.code == Some(Code::UnsupportedVersion))
        };
        let side = if unserved(read.source_commits.as_ref().err()) {
            &self.facts.source
        } else if unserved(read.target_commits.as_ref().err()) {
            &self.facts.target
        } else {
            return None;
        };
        let summary = format!(
            "it is a share group, and {} does not tell where share groups begin: that needs Kafka 4.1 \
             or newer with share groups enabled",
            side.alias
        );
        let meaning = "the share group gets no position on the target: after a failover it begins \
                       where its share.auto.offset.reset says";
        let finding = Finding::stops(Code::UnsupportedVersion, summary);
        let meaning = Some(meaning.to_owned());
        Some(Finding { severity: Severity::Warning, meaning, ..finding })
    }

    /// Whether the topic is one of the source's own.
    fn is_at_home(&self, tp: &TopicPartition) -> bool {
        let refusal = why_not_replicated(&self.facts.config, tp.topic.as_str());
        !matches!(refusal, Some(Refusal::Cycle | Refusal::Internal))
    }

    fn no_commits(&self, group: &GroupId, listed: bool, none: bool) -> String {
        let (source, target) = (&self.facts.source, &self.facts.target);
        if listed && !none {
            let only = self.partition.unwrap_or_default();
            return format!(
                "group {group} has no commit in a partition {only} on {}",
                source.alias
            );
        }
        if listed {
            return format!(
                "group {group} has committed nothing on {} that may be seen",
                source.alias
            );
        }
        let on_target = target.groups.as_ref().is_ok_and(|groups| groups.contains_key(group));
        if on_target {
            return format!(
                "group {group} exists on {} and not on {}: nothing of it comes from there",
                target.alias, source.alias
            );
        }
        let groups = source.groups.as_ref().ok();
        let names = groups.into_iter().flat_map(|groups| groups.keys().map(GroupId::as_str));
        let hint = did_you_mean(&near(group.as_str(), names));
        format!("no group {group} is on {} or {}, or may be seen{hint}", source.alias, target.alias)
    }
}

/// A key that nobody reads, and that was meant to decide.
pub(crate) struct Misspelt<'a> {
    /// As it was typed.
    pub(crate) key: &'a str,
    /// What it was meant to be, at its level.
    pub(crate) meant: &'a str,
    /// As it was typed, without its level.
    pub(crate) bare: &'a str,
    /// What was written there, where it stands at the flow: such keys reach MM2's connectors as they
    /// are, those of other levels go nowhere.
    pub(crate) value: Option<&'a str>,
}

/// What breaks the chain about an entry that does nothing; `None` where it is only a slip.
pub(crate) fn decisive<'a>(note: &'a Problem, config: &'a FlowConfig) -> Option<Misspelt<'a>> {
    let (key, suggestion) = (note.key.as_deref()?, note.suggestion.as_deref()?);
    let meant = suggestion.split('`').nth(1).unwrap_or_default();
    let level_of = |name: &str| {
        let level = meant.strip_suffix(name)?;
        (level.is_empty() || level.ends_with('.')).then_some(level)
    };
    let (name, level) = DECISIVE.iter().find_map(|name| Some((*name, level_of(name)?)))?;
    let of_this_flow = level.strip_suffix('.').is_some_and(|flow| flow == config.name.to_string());
    // What is said of another flow does not decide about this one; said elsewhere, the right key counts.
    if (level.contains("->") && !of_this_flow) || config.origin(name).is_some() {
        return None;
    }
    let bare = key.strip_prefix(level).unwrap_or(key);
    let value = config.connector.get(bare).map(String::as_str).filter(|_| of_this_flow);
    Some(Misspelt { key, meant, bare, value })
}

pub(super) fn did_you_mean(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// That another cluster stands behind the source's alias, where the flow's own state does not say
/// so itself.
fn replaced_elsewhere(found: &FlowObservation) -> Option<&str> {
    let replaced = found.replaced.as_deref()?;
    (found.own.code != Some(Code::ClusterReplaced)).then_some(replaced)
}

pub(super) fn partitions(count: usize) -> String {
    counted(count as u64, "partition")
}

pub(super) fn list(items: Option<&[String]>) -> String {
    match items {
        Some(items) => items.join(","),
        None => ".*".to_owned(),
    }
}

/// The exclude list without `pattern`; `None` where it is not an item of its own.
pub(super) fn without(filter: &NameFilter, pattern: &str) -> Option<String> {
    let items = filter.exclude();
    let rest: Vec<&str> =
        items.iter().map(String::as_str).filter(|item| *item != pattern).collect();
    (rest.len() < items.len()).then(|| rest.join(","))
}

/// The include list with a pattern that matches `name` alone. A backslash would have to be written
/// twice in a properties file, a class need not.
pub(super) fn added(include: Option<&[String]>, name: &str) -> String {
    let mut pattern = String::new();
    for c in name.chars() {
        match c {
            '^' | '\\' => {
                pattern.push_str("\\\\");
                pattern.push(c);
            }
            '.' | '+' | '*' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '$' | '&' => {
                pattern.push('[');
                pattern.push(c);
                pattern.push(']');
            }
            // It would end the item.
            ',' => pattern.push('.'),
            // As a properties file has them: the pattern has the character itself.
            c if is_obeyed(c) => {
                let mut units = [0; 2];
                let escaped =
                    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
                pattern.extend(escaped);
            }
            c => pattern.push(c),
        }
    }
    let items = include.unwrap_or_default().iter().map(String::as_str);
    items.chain([pattern.as_str()]).collect::<Vec<_>>().join(",")
}
