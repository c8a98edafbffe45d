//! What a finding means for consumers, and what to do about it.
//!
//! Does not: find anything. Commands are those of Kafka's own tools where twinlog has none.

use twinlog_client::GroupKind;
use twinlog_engine::observe::{Rights, shell_option};
use twinlog_types::{ClusterAlias, Code, GroupId, TopicPartition};

use crate::chain::{Fix, MirroredBy, Subject};
use crate::facts::{Facts, Side};
use crate::near::near;

/// Commands for more positions than these are no help.
const COMMANDS_MAX: usize = 3;
/// Places that are kept for commands.
const PLACES_MAX: usize = 100;

/// Starts MM2 with its file. Asked without one (`--source`, `--target`), the doctor does not know that file.
pub(crate) fn mm2_start(file: &str) -> String {
    let file = if file.starts_with("--") { "mm2.properties" } else { file };
    format!("connect-mirror-maker.sh {file}")
}

/// What a failover now would do, in records (offsets, where records cannot be told from offsets).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Impact {
    /// Records that are not on the target.
    pub missing: u64,
    /// Records that would be read again.
    pub reread: u64,
    /// Records that would never be read.
    pub skipped: u64,
    /// Partitions in which the group has no position on the target.
    pub unplaced: u64,
    /// In these: records before the group's place.
    pub before: u64,
    /// In these: records behind it.
    pub behind: u64,
    /// Where the group belongs on the target, for commands; a few of many.
    pub places: Vec<(TopicPartition, i64)>,
}

impl Impact {
    pub(crate) fn add(&mut self, other: &Self) {
        self.missing = self.missing.saturating_add(other.missing);
        self.reread = self.reread.saturating_add(other.reread);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.unplaced += other.unplaced;
        self.before = self.before.saturating_add(other.before);
        self.behind = self.behind.saturating_add(other.behind);
        let room = PLACES_MAX.saturating_sub(self.places.len());
        self.places.extend(other.places.iter().take(room).cloned());
    }

    /// Whether it is one group's, and not that of whoever reads the topic.
    pub(crate) fn is_of_group(&self) -> bool {
        self.reread > 0 || self.skipped > 0 || self.unplaced > 0
    }

    /// What it comes to, as the end of a sentence that begins with "a failover now".
    fn told(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.missing > 0 {
            parts.push(format!("finds {} missing on the target", records(self.missing)));
        }
        if self.reread > 0 {
            parts.push(format!("reads {} again", records(self.reread)));
        }
        if self.skipped > 0 {
            parts.push(format!("skips {}", records(self.skipped)));
        }
        if self.unplaced > 0 {
            let partitions = match self.unplaced {
                1 => "1 partition".to_owned(),
                n => format!("{n} partitions"),
            };
            parts.push(format!(
                "finds no position in {partitions}, so that auto.offset.reset decides: earliest \
                 reads {} again, latest skips {}",
                records(self.before),
                records(self.behind)
            ));
        }
        (!parts.is_empty()).then(|| format!("a failover now {}", parts.join(", and ")))
    }
}

fn records(n: u64) -> String {
    if n == 1 { "1 record".to_owned() } else { format!("{n} records") }
}

/// Around a finding.
pub(crate) struct Scene<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) subject: &'a Subject,
    pub(crate) file: &'a str,
    pub(crate) by: Option<MirroredBy>,
    /// The finding says what could not be looked at.
    pub(crate) unseen: bool,
    pub(crate) finding_partitions: &'a [TopicPartition],
    pub(crate) impact: &'a Impact,
}

/// What a finding means for consumers; in records where they are known.
pub(crate) fn joined(meaning: Option<&str>, impact: &Impact) -> Option<String> {
    match (meaning, impact.told()) {
        (Some(meaning), Some(told)) => Some(format!("{meaning}; {told}")),
        (meaning, told) => meaning.map(str::to_owned).or(told),
    }
}

/// What `code` means for consumers.
pub(crate) fn meaning(code: Code, scene: &Scene<'_>) -> Option<String> {
    let is_group = matches!(scene.subject, Subject::Group(_));
    let text = match code {
        Code::GroupExcluded | Code::GroupNotIncluded => {
            "the group gets no position on the target: after a failover its consumers begin by \
             their auto.offset.reset"
        }
        Code::GroupWithoutCommits => {
            "there is nothing to carry over: on the target consumers begin by their \
             auto.offset.reset"
        }
        Code::GroupNotYetDiscovered => {
            "until MirrorMaker 2 lists groups again the group gets no position on the target"
        }
        Code::SyncDisabled => {
            "the group is translated, and the translation is not committed on the target"
        }
        Code::CheckpointsDisabled
        | Code::CheckpointConnectorAbsent
        | Code::CheckpointConnectorNoTasks => "no group of this flow is translated",
        Code::GroupLiveOnTarget => {
            "the group's own members decide where it stands on the target; nothing is written \
             there while they live"
        }
        Code::TargetAhead => {
            "if the target's own consumers read on, nothing is wrong; if the source is the truth, \
             what lies between is skipped"
        }
        Code::SourceRewound => "the group was moved back on the source and not on the target",
        Code::NegativeLag => {
            "the position lies beyond the target's end: consumers there are reset, or skip what \
             is copied until they are passed"
        }
        Code::TopicNotMirrored if is_group => {
            "nothing of the topic is copied, or nothing more where it was mirrored before; the group \
             gets no position on it"
        }
        Code::TopicNotMirrored => {
            "nothing of it is copied, or nothing more where it was mirrored before"
        }
        Code::ForeignWriter => "consumers on the target read records that the source does not have",
        Code::TopicMissingOnTarget => "there is nothing to read on the target",
        Code::TopicNotYetDiscovered => "nothing of it is copied until it is taken up",
        Code::Paused => {
            "nothing more is copied until it is resumed; what the source deletes meanwhile is lost to \
             the mirror"
        }
        Code::SourceTopicDeleted => "what was copied stays on the target; nothing more comes",
        Code::MirrorNotRunning => "records and positions that came since are not on the target",
        Code::ConnectorFailed => "what its task does stands still until it is restarted",
        Code::SourceGap => {
            "consumers on the target miss the records that are gone, and those behind them"
        }
        Code::TopicRecreated if scene.by == Some(MirroredBy::MirrorMaker) => {
            "the mirror holds records of the topic's earlier life before those of the new one, of \
             which those before the old end may be missing"
        }
        Code::TopicRecreated => {
            "the mirror holds the topic's earlier life; nothing of the new one is copied"
        }
        Code::TargetRecreated => {
            "the mirror was made again: what had been copied is gone, and positions belong to the \
             old one"
        }
        Code::DuplicatesOnTarget => "consumers on the target read these records twice",
        Code::AbortedRecordsCopied => {
            "consumers on the target read records that were never committed on the source"
        }
        Code::Mm2KnownBug => "no MirrorMaker 2, however new, moves the group back to its place",
        Code::TornTransaction => {
            "the group goes on behind input whose results are not on the target, and nobody makes them \
             again"
        }
        Code::OffsetsExpired => "the group has no position on the target",
        Code::TargetNotEmpty => {
            "nothing is written to a mirror that holds records of others, and groups get no \
             position there"
        }
        Code::RecordTooLarge
        | Code::RefusedByTarget
        | Code::TimestampRefused
        | Code::CorruptBatch
        | Code::ContentsDiffer
        | Code::SourceTruncated
        | Code::Stalled
        | Code::OpenTransaction => "the records behind it are not on the target",
        Code::NothingCopied => "without a copied record no position can be translated",
        Code::BacklogNotOnTarget => {
            "a part of what the group has yet to read does not exist on the target"
        }
        Code::TranslationFrozen => {
            "the group stands before the oldest pair of offsets that MirrorMaker 2 keeps: its \
             position is refused, or stays where it was"
        }
        Code::TranslationCoarse => {
            "MirrorMaker 2 puts the group on the nearest pair of offsets before its place"
        }
        Code::OffsetSyncsUnreadable | Code::OffsetSyncsLocationMismatch => {
            "without pairs of offsets MirrorMaker 2 translates no group"
        }
        Code::CommitRefused => "the translated position does not reach the target",
        Code::ConfigDrift => "what runs is not what the file says, until it is restarted",
        Code::UnknownProperty => "the entry does nothing: another line or the default counts",
        Code::StateCorrupt => {
            "nothing of it is copied, and nothing is guessed: groups keep their position on the target"
        }
        Code::NamesCollide | Code::ReplicationLoop => {
            "it is not copied, and groups get no position on it"
        }
        Code::BothDirectionsSync => "the group gets no position on this topic from either side",
        Code::MissingPermission if scene.impact.missing > 0 => {
            "the records behind it are not on the target"
        }
        Code::MapLoading => "the group waits for its place to be known, which takes moments",
        Code::SameCluster => "nothing is copied: it would never end",
        Code::MissingPermission if scene.unseen => {
            "what these rights would show was not looked at; whatever else is said was seen"
        }
        Code::ClusterReplaced => {
            "the mirrors hold another cluster's records: nothing is written to them, and groups of \
             this one get no position there"
        }
        Code::LeaderEpochAhead => {
            "a consumer waits in this partition for that epoch, without an error, and never starts"
        }
        Code::MirrorCannotReconfigure => {
            "new topics and groups are not taken up: the processes cannot tell each other"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// What to do about `code`.
pub(crate) fn fixes(code: Code, scene: &Scene<'_>) -> Vec<Fix> {
    let (facts, file) = (scene.facts, scene.file);
    let (source, target) = (&facts.source.bootstrap, &facts.target.bootstrap);
    let flow = &facts.config.name;
    let command = |text: String| vec![Fix::Command(text)];
    let status = |what: &str| format!("twinlog status {file} --flow '{flow}' {what}");
    let targets = || scene.finding_partitions.iter().map(|tp| facts.mirror_of(tp).topic);
    let target_topic = || targets().next().map(|topic| topic.to_string()).unwrap_or_default();
    let source_topic = || {
        let first = scene.finding_partitions.first().map(|tp| tp.topic.to_string());
        first.unwrap_or_else(|| match scene.subject {
            Subject::Topic(topic) => topic.to_string(),
            Subject::Group(_) => String::new(),
        })
    };
    let topics_tool = |at: &str, topic: &str| {
        let topic = of_topic(topic);
        format!("kafka-topics.sh --bootstrap-server {at} --describe {topic}")
    };
    match code {
        Code::MirrorNotRunning if scene.by == Some(MirroredBy::MirrorMaker) => {
            command(mm2_start(file))
        }
        Code::MirrorNotRunning => command(format!("twinlog run {file}")),
        Code::GroupLiveOnTarget => command(members(scene)),
        Code::TargetAhead | Code::SourceRewound if scene.by != Some(MirroredBy::MirrorMaker) => {
            match scene.subject {
                Subject::Group(group) => command(format!(
                    "twinlog sync {file} --flow '{flow}' {} --overwrite",
                    of_group(group)
                )),
                Subject::Topic(_) => Vec::new(),
            }
        }
        Code::TargetAhead | Code::SourceRewound | Code::NegativeLag | Code::CommitRefused => {
            resets(scene)
        }
        Code::SourceGap | Code::TopicRecreated if scene.by == Some(MirroredBy::Twinlog) => {
            command(format!(
                "twinlog resume {file} --flow '{flow}' {} --accept-gap",
                of_topic(&source_topic())
            ))
        }
        Code::Paused => {
            let topic = of_topic(&source_topic());
            command(format!("twinlog resume {file} --flow '{flow}' {topic}"))
        }
        Code::GroupWithoutCommits => match scene.subject {
            Subject::Group(group) => without_commits(scene, group),
            Subject::Topic(_) => Vec::new(),
        },
        Code::SourceGap | Code::SourceTruncated | Code::Stalled => {
            command(status(&format!("{} --json", of_topic(&source_topic()))))
        }
        Code::TargetNotEmpty | Code::TargetRecreated | Code::TopicMissingOnTarget => {
            command(topics_tool(target, &target_topic()))
        }
        // The place is known: nothing was ever copied.
        Code::NothingCopied if !scene.impact.places.is_empty() => resets(scene),
        // What is lost, or began where, is in the ledger.
        Code::TopicRecreated | Code::NothingCopied | Code::BacklogNotOnTarget => {
            command(status(&of_topic(&source_topic())))
        }
        Code::RecordTooLarge => command(format!(
            "kafka-configs.sh --bootstrap-server {target} --alter --entity-type topics \
             {} --add-config max.message.bytes=10485760",
            shell_option("--entity-name", &target_topic())
        )),
        Code::TimestampRefused => command(format!(
            "kafka-configs.sh --bootstrap-server {target} --alter --entity-type topics \
             {} --add-config message.timestamp.after.max.ms=9223372036854775807",
            shell_option("--entity-name", &target_topic())
        )),
        Code::OpenTransaction => {
            command(format!("kafka-transactions.sh --bootstrap-server {source} find-hanging"))
        }
        Code::TornTransaction => command(status("--problems")),
        Code::ForeignWriter => {
            let topic = of_topic(&source_topic());
            command(format!("twinlog verify {file} --flow '{flow}' {topic} --full"))
        }
        Code::Unreachable => command(status("--timeout 2m")),
        // Which rights are missing is known then.
        Code::MissingPermission if scene.unseen => Vec::new(),
        Code::MissingPermission => [source, target]
            .map(|at| Fix::Command(format!("kafka-acls.sh --bootstrap-server {at} --list")))
            .into(),
        Code::ConnectorFailed => {
            let topic = facts.config.worker.get("status.storage.topic");
            command(format!(
                "kafka-console-consumer.sh --bootstrap-server {target} {} --from-beginning \
                 --formatter-property print.key=true",
                of_topic(topic.map(String::as_str).unwrap_or_default())
            ))
        }
        Code::ClusterReplaced => command(format!("twinlog check {file} --flow '{flow}' --online")),
        Code::LeaderEpochAhead
        | Code::TranslationFrozen
        | Code::TranslationCoarse
        | Code::Mm2KnownBug => resets(scene),
        _ => Vec::new(),
    }
}

/// What lets the doctor look at a cluster: the principal is the one that it connects as.
pub(crate) fn grants(facts: &Facts, on: &ClusterAlias, rights: &Rights) -> Vec<Fix> {
    let (side, client) = if *on == facts.target.alias {
        (&facts.target, &facts.config.target_admin)
    } else {
        (&facts.source, &facts.config.source_admin)
    };
    rights.commands(on, &side.bootstrap, client).into_iter().map(Fix::Command).collect()
}

/// A group that is not on the source: those that may have been meant, or what shows all.
fn without_commits(scene: &Scene<'_>, group: &GroupId) -> Vec<Fix> {
    let (source, target) = (&scene.facts.source, &scene.facts.target);
    let Ok(there) = &source.groups else { return Vec::new() };
    if there.contains_key(group) {
        return vec![Fix::Command(describe_group(source, group))];
    }
    if target.groups.as_ref().is_ok_and(|groups| groups.contains_key(group)) {
        return vec![Fix::Command(describe_group(target, group))];
    }
    let meant = near(group.as_str(), there.keys().map(GroupId::as_str));
    if meant.is_empty() {
        let at = &source.bootstrap;
        return vec![Fix::Command(format!(
            "kafka-consumer-groups.sh --bootstrap-server {at} --list"
        ))];
    }
    let commands = meant.into_iter().map(|name| {
        let group = shell_option("--group", &name);
        Fix::Command(format!("twinlog explain {} {group}", scene.file))
    });
    commands.collect()
}

fn describe_group(side: &Side, group: &GroupId) -> String {
    let listing = side.groups.as_ref().ok().and_then(|groups| groups.get(group));
    let tool = match listing.map(|listing| listing.kind) {
        Some(GroupKind::Share) => "kafka-share-groups.sh",
        _ => "kafka-consumer-groups.sh",
    };
    format!("{tool} --bootstrap-server {} --describe {}", side.bootstrap, of_group(group))
}

fn members(scene: &Scene<'_>) -> String {
    let Subject::Group(group) = scene.subject else { return String::new() };
    format!("{} --members", describe_group(&scene.facts.target, group))
}

/// One command for each position; without places, what shows them.
fn resets(scene: &Scene<'_>) -> Vec<Fix> {
    let Subject::Group(group) = scene.subject else { return Vec::new() };
    let side = &scene.facts.target;
    let target = &side.bootstrap;
    let commands = scene.impact.places.iter().take(COMMANDS_MAX).map(|(tp, offset)| {
        Fix::Command(format!(
            "kafka-consumer-groups.sh --bootstrap-server {target} {} {} --reset-offsets \
             --to-offset {offset} --execute",
            of_group(group),
            of_topic(&format!("{}:{}", tp.topic, tp.partition))
        ))
    });
    let commands: Vec<Fix> = commands.collect();
    if commands.is_empty() { vec![Fix::Command(describe_group(side, group))] } else { commands }
}

/// A group's id may contain anything, and begin with anything.
fn of_group(group: &GroupId) -> String {
    shell_option("--group", group.as_str())
}

/// The name of a topic may begin like an option.
pub(crate) fn of_topic(topic: &str) -> String {
    shell_option("--topic", topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mm2_is_started_with_a_file_whatever_the_doctor_was_asked_with() {
        assert_eq!(mm2_start("a/b.properties"), "connect-mirror-maker.sh a/b.properties");
        assert_eq!(
            mm2_start("--source a:1 --target b:1"),
            "connect-mirror-maker.sh mm2.properties"
        );
    }

    #[test]
    fn an_impact_is_told_in_records() {
        assert_eq!(Impact::default().told(), None);
        let mut impact = Impact { reread: 1, ..Impact::default() };
        assert_eq!(impact.told().as_deref(), Some("a failover now reads 1 record again"));
        impact.add(&Impact { skipped: 7, unplaced: 2, before: 3, behind: 4, ..Impact::default() });
        assert_eq!(
            impact.told().as_deref(),
            Some(
                "a failover now reads 1 record again, and skips 7 records, and finds no position \
                 in 2 partitions, so that auto.offset.reset decides: earliest reads 3 records \
                 again, latest skips 4 records"
            )
        );
    }
}
