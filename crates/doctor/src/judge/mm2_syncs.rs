//! MM2's offset-syncs: whether they are there, and where they put a group.

use twinlog_mirror::{OffsetSyncStore, SyncTranslation};
use twinlog_types::{Code, Severity, SourceOffset, TargetOffset, TopicPartition};

use super::walk::{Draft, Finding, Walk, counted, or_none};
use crate::chain::{Fix, Subject};
use crate::history::SyncHistory;
use crate::mm2::{CHECKPOINT_CONNECTOR, Connector, SOURCE_CONNECTOR};
use crate::remedy::{Impact, mm2_start};

/// Where MM2 keeps its offset-syncs unless told otherwise.
const LOCATION: &str = "offset-syncs.topic.location";

impl Walk<'_> {
    pub(super) fn offset_syncs(&self, link: &mut Draft) {
        let syncs = &self.facts.syncs;
        let place = format!("{}: topic {}", syncs.on, syncs.topic);
        self.location(link);
        let there = match &syncs.read {
            Err(trouble) => {
                if let Some(finding) = self.unread_by_mm2_either() {
                    link.found(finding);
                }
                link.unseen(trouble.clone());
                return;
            }
            Ok(there) => there,
        };
        let Some(there) = there else {
            link.saw("topic", "absent", place);
            link.found(self.no_syncs_topic());
            return;
        };
        let mut pairs = 0;
        for tp in self.on_the_way() {
            let Some(found) = there.get(&tp) else {
                link.saw(format!("pairs of {tp}"), 0, place.clone());
                if !self.is_empty_topic(&tp) {
                    link.found(self.without_syncs(&tp).of(&tp));
                }
                continue;
            };
            pairs += found.count;
            sync_evidence(link, &tp, found, &place);
            if let Some(turn) = found.turns.iter().rev().find(|turn| turn.is_back_on_target()) {
                let (before, after) = (turn.before, turn.after);
                let summary = format!(
                    "the mirror of {tp} was made again: the pair {}->{} lies before {}->{} on the \
                     target",
                    after.0, after.1, before.0, before.1
                );
                link.found(Finding::blocks(Code::TargetRecreated, summary).of(&tp));
            }
        }
        link.ok(format!("{} of offsets", counted(pairs, "pair")));
    }

    /// Writer and reader of the pairs may be configured apart where they run in a Connect cluster.
    fn location(&self, link: &mut Draft) {
        let Some([(writer, writes), (reader, reads)]) = self.apart() else { return };
        let summary = format!(
            "{} writes the pairs of offsets on the {writes}, and {} reads them on the {reads}",
            writer.name, reader.name
        );
        let finding = Finding::blocks(Code::OffsetSyncsLocationMismatch, summary).of_flow();
        let finding = finding
            .seen(format!("{LOCATION} of the writer"), writes, self.config_place(writer))
            .seen(format!("{LOCATION} of the reader"), reads, self.config_place(reader));
        link.found(finding.fix(self.set(reader, LOCATION, writes)));
    }

    /// Who writes the pairs and who reads them, and where, if that is not one place.
    pub(super) fn apart(&self) -> Option<[(&Connector, &str); 2]> {
        let mm2 = &self.facts.mm2;
        let both = [SOURCE_CONNECTOR, CHECKPOINT_CONNECTOR].map(|name| mm2.connector(name));
        let [Some(writer), Some(reader)] = both else { return None };
        let of = |connector: &Connector| -> String {
            connector.config.get(LOCATION).map_or("source", |value| value.trim()).to_owned()
        };
        let places = ["source", "target"];
        let place = |connector| places.into_iter().find(|place| *place == of(connector));
        let (writes, reads) = (place(writer)?, place(reader)?);
        (writes != reads).then_some([(writer, writes), (reader, reads)])
    }

    fn no_syncs_topic(&self) -> Finding {
        let syncs = &self.facts.syncs;
        let (topic, on) = (&syncs.topic, &syncs.on);
        let Some(other) = &syncs.elsewhere else {
            let summary = format!("{topic} does not exist on {on}");
            return Finding::stops(Code::OffsetSyncsUnreadable, summary);
        };
        let location = if self.facts.config.offset_syncs_on_target { "source" } else { "target" };
        let summary = format!(
            "{topic} does not exist on {on}, and {other} does on the other cluster: writer and reader \
             look in different places"
        );
        Finding::stops(Code::OffsetSyncsLocationMismatch, summary)
            .fix(self.property(LOCATION, location))
    }

    /// We may not read the pairs; that no checkpoint of any group is there says that MM2 cannot either.
    fn unread_by_mm2_either(&self) -> Option<Finding> {
        let facts = self.facts;
        let connector = facts.mm2.connector(CHECKPOINT_CONNECTOR)?;
        let has_groups = connector.tasks.is_some_and(|tasks| tasks > 0);
        let copied = self.on_the_way().into_iter().any(|tp| self.target_end(&tp) > 0);
        let none = facts.checkpoints.read.is_ok() && facts.checkpoints.total == 0;
        let long = self.checkpoints_are_due();
        (has_groups && copied && none && long && facts.mm2.is_alive()).then(|| {
            let summary = format!(
                "records are copied, and no group has a checkpoint: MirrorMaker 2 cannot read {} on {}",
                facts.syncs.topic, facts.syncs.on
            );
            Finding::blocks(Code::OffsetSyncsUnreadable, summary).of_flow()
        })
    }

    /// Whether the checkpoint task has had the time of two intervals.
    pub(super) fn checkpoints_are_due(&self) -> bool {
        let facts = self.facts;
        let intervals = facts.config.checkpoints_interval.as_millis().saturating_mul(2);
        let task = format!("{CHECKPOINT_CONNECTOR}-0");
        let age = facts.mm2.age_ms(&task, facts.now_ms);
        age.is_none_or(|age| u128::try_from(age).is_ok_and(|age| age > intervals + 1_000))
    }

    fn target_end(&self, tp: &TopicPartition) -> i64 {
        self.facts.bounds.get(&self.facts.mirror_of(tp)).map_or(0, |(_, end)| *end)
    }

    /// Nothing was there to copy: only a group that has committed there misses its place.
    fn is_empty_topic(&self, tp: &TopicPartition) -> bool {
        let seen = self.facts.source_bounds.get(tp);
        let empty = seen.is_some_and(|(start, end)| start == end);
        empty && self.target_end(tp) == 0 && matches!(self.subject, Subject::Topic(_))
    }

    fn without_syncs(&self, tp: &TopicPartition) -> Finding {
        let place = self.target_end(tp);
        let seen = self.facts.source_bounds.get(tp);
        let empty = seen.is_some_and(|(start, end)| start == end);
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

    /// Where the group goes on on the target, by the records: not where MM2 puts it.
    pub(super) fn exact_place(&self, tp: &TopicPartition, committed: i64) -> Option<TargetOffset> {
        self.facts.contents.places.get(&(tp.clone(), SourceOffset(committed))).copied()
    }

    pub(super) fn translation_of_mm2(&self, link: &mut Draft, tp: &TopicPartition) {
        let (Some(committed), Some(history)) = (self.source_commit(tp), self.facts.sync(tp)) else {
            return;
        };
        let commit = SourceOffset(committed);
        let place = self.exact_place(tp, committed);
        let checkpoint = self.facts.checkpoint(tp).map(|series| series.last);
        let answer = self.answer_of_mm2(tp, history, commit);
        let value = format!(
            "{committed} -> {} by its pairs, {} by the records",
            match answer {
                SyncTranslation::To(target) => target.to_string(),
                SyncTranslation::BeforeOldest | SyncTranslation::NoSync => "refused".to_owned(),
            },
            or_none(place)
        );
        let (on, topic) = (&self.facts.syncs.on, &self.facts.syncs.topic);
        let target = self.facts.mirror_of(tp);
        link.saw(format!("{tp} -> {target}"), value, format!("{on}: topic {topic}"));
        match answer.target() {
            None => self.refused(link, tp, commit, checkpoint),
            Some(answer) => self.coarse(link, tp, (commit, answer, place)),
        }
    }

    /// What MM2 answers for a position. Up to 3.4 it knows the newest sync only (KAFKA-14666).
    fn answer_of_mm2(
        &self,
        tp: &TopicPartition,
        history: &SyncHistory,
        commit: SourceOffset,
    ) -> SyncTranslation {
        if !self.facts.mm2.is_old() {
            return history.store.translate(commit);
        }
        let mut newest = OffsetSyncStore::new();
        newest.take(history.newest);
        let answer = newest.translate(commit);
        // Its checkpoint has the position by a sync that was the newest then.
        match (answer, self.facts.checkpoint(tp)) {
            (SyncTranslation::BeforeOldest, Some(series)) if series.last.0 >= commit.0 => {
                SyncTranslation::To(TargetOffset(series.last.1))
            }
            _ => answer,
        }
    }

    fn refused(
        &self,
        link: &mut Draft,
        tp: &TopicPartition,
        commit: SourceOffset,
        checkpoint: Option<(i64, i64)>,
    ) {
        let Some(history) = self.facts.sync(tp) else { return };
        let impact = self.stands_short_of(tp, commit);
        let is_in_topic = history.around(commit).below.is_some();
        if self.facts.mm2.is_old() && is_in_topic {
            let (newest, below) = (history.newest, history.around(commit).below);
            let below = below.map_or_else(String::new, |pair| format!("{}->{}", pair.0, pair.1));
            let summary = format!(
                "{tp}: the group stands at {commit}, before the newest pair of offsets ({}->{}), the \
                 only one that this MirrorMaker 2 goes by",
                newest.0, newest.1
            );
            link.found(Finding::stops(Code::TranslationFrozen, summary).of(tp).with(impact));
            let place = format!("{}: topic {}", self.facts.syncs.on, self.facts.syncs.topic);
            let bug = format!(
                "{tp}: KAFKA-14666: the pair {below} would do for {commit}, and MirrorMaker 2 before 3.8 \
                 forgets it when its task starts"
            );
            let finding =
                Finding::notes(Code::Mm2KnownBug, Severity::Error, bug).because("KAFKA-14666");
            let finding = finding.seen("a pair that is not gone by", below, place);
            let finding = self.with_version(finding);
            link.found(finding.of(tp).fix(self.upgrade()));
            return;
        }
        let oldest = history.store.kept().last().map_or(0, |pair| pair.0.0);
        let summary = format!(
            "{tp}: the group stands at {commit}, before the oldest pair of offsets ({oldest})"
        );
        if checkpoint.is_some_and(|(source, _)| source == commit.0) {
            // MM2 had an older pair when it wrote the checkpoint, and may still have it.
            let told =
                format!("{summary}: it is not translated any more once MirrorMaker 2 restarts");
            link.found(Finding::notes(Code::TranslationFrozen, Severity::Warning, told).of(tp));
            return;
        }
        link.found(Finding::stops(Code::TranslationFrozen, summary).of(tp).with(impact));
    }

    pub(super) fn upgrade(&self) -> Fix {
        Fix::Command(format!("{}  # of Kafka 3.8 or later", mm2_start(self.file)))
    }

    /// What a group reads again that goes on from where it stands on the target now.
    fn stands_short_of(&self, tp: &TopicPartition, commit: SourceOffset) -> Impact {
        let mirror = self.facts.mirror_of(tp);
        let Some(place) = self.exact_place(tp, commit.0) else { return Impact::default() };
        let mut impact = Impact { places: vec![(mirror.clone(), place.0)], ..Impact::default() };
        if let Some(stands) = self.target_commit(tp) {
            impact.reread = place.since(TargetOffset(stands));
            return impact;
        }
        impact.unplaced = 1;
        if let Some((start, end)) = self.facts.bounds.get(&mirror) {
            impact.before = place.since(TargetOffset(*start));
            impact.behind = TargetOffset(*end).since(place);
        }
        impact
    }

    /// Records between two pairs of offsets in a calm flow: what `offset.lag.max` accepts.
    fn step_of_mm2(&self) -> u64 {
        let runs_with = self.facts.mm2.connector(SOURCE_CONNECTOR).map(|runs| &runs.config);
        let said = runs_with.and_then(|config| config.get("offset.lag.max")?.trim().parse().ok());
        said.unwrap_or(self.facts.config.offset_lag_max).saturating_add(1)
    }

    fn coarse(
        &self,
        link: &mut Draft,
        tp: &TopicPartition,
        (commit, answer, place): (SourceOffset, TargetOffset, Option<TargetOffset>),
    ) {
        let Some(place) = place else { return };
        let facts = self.facts;
        let checkpoint = facts.checkpoint(tp).map(|series| series.last);
        let written = checkpoint.map(|(_, target)| TargetOffset(target));
        if let Some(written) = written
            && answer > written
            && place > written
        {
            let summary = format!(
                "{tp}: the group's place {answer} is not written yet, the checkpoint says {written}"
            );
            link.found(Finding::notes(Code::StaleCheckpoint, Severity::Info, summary).of(tp));
        }
        // Where MM2 puts the group in the end; it never goes back.
        let reach = written.unwrap_or(answer).max(answer);
        let stands = self.target_commit(tp).map_or(reach, TargetOffset);
        if reach >= place || stands >= place {
            return;
        }
        let reread = place.since(stands);
        let newest = facts.sync(tp).map(|history| history.newest.0);
        // Such a pair is written at the next flush, except by old ones.
        let unflushed = newest.is_some_and(|newest| commit > newest) && !facts.mm2.is_old();
        let recent = facts.contents.recent.get(tp).copied().unwrap_or(0);
        let severity = if unflushed || reread <= recent {
            Severity::Info
        } else if reread <= self.step_of_mm2() {
            Severity::Warning
        } else {
            Severity::Error
        };
        let summary = format!(
            "{tp}: {commit} is translated to {reach}, its place is {place}: {} would be read again",
            counted(reread, "record")
        );
        let places = vec![(facts.mirror_of(tp), place.0)];
        let impact = Impact { reread, places, ..Impact::default() };
        let finding = Finding::notes(Code::TranslationCoarse, severity, summary).with(impact);
        link.found(finding.of(tp));
    }
}

fn sync_evidence(link: &mut Draft, tp: &TopicPartition, found: &SyncHistory, place: &str) {
    let (first, newest) = (found.first, found.newest);
    let value = format!("{}, {}->{} to {}->{}", found.count, first.0, first.1, newest.0, newest.1);
    link.saw(format!("pairs of {tp}"), value, place);
}
