//! How the records of a partition were copied by MM2: by its stored position, by what the
//! offset-syncs tell, and by samples of the records.

use twinlog_types::{Code, Severity, TargetOffset, TopicPartition};

use super::walk::{Finding, Walk, counted, on_topic};
use crate::chain::Fix;
use crate::contents::Extra;
use crate::history::{Jump, SyncHistory, Turn};
use crate::mm2::SOURCE_CONNECTOR;
use crate::remedy::Impact;

impl Walk<'_> {
    /// The last source offset that MM2 copied, as far as it tells: its stored position is up to
    /// `offset.flush.interval.ms` old, its newest offset-sync may be younger.
    pub(super) fn copied_by_mm2(&self, tp: &TopicPartition) -> Option<i64> {
        let stored = self.facts.mm2.copied.get(tp).copied();
        let synced = self.facts.sync(tp).map(|history| history.newest.0.0);
        stored.max(synced)
    }

    /// The same by where the mirror ends, too: what came since the newest pair is on the target, as
    /// far as only MM2 writes there and nothing else takes an offset.
    pub(super) fn arrived_by_mm2(&self, tp: &TopicPartition) -> Option<i64> {
        let facts = self.facts;
        let copied = self.copied_by_mm2(tp)?;
        let by_end = || {
            let history = facts.sync(tp)?;
            let is_strange =
                facts.mm2.is_transactional || history.jumps.iter().any(|jump| jump.repeated() > 0);
            let (_, target_end) = *facts.bounds.get(&facts.mirror_of(tp))?;
            let (_, source_end) = *facts.source_bounds.get(tp)?;
            let (source, target) = history.newest;
            let since = TargetOffset(target_end - 1).since(target);
            let last = source.plus(since).0.min(source_end - 1);
            (!is_strange && target.0 < target_end).then_some(last)
        };
        Some(by_end().map_or(copied, |last| last.max(copied)))
    }

    pub(super) fn copy_of_mm2(&self, tp: &TopicPartition) -> Vec<Finding> {
        let mut found = Vec::new();
        let made_again = self.made_again(tp);
        let is_new = made_again.is_some();
        found.extend(made_again);
        if !is_new {
            found.extend(self.gap_ahead(tp));
            if let Some(history) = self.facts.sync(tp) {
                found.extend(self.gap_behind(tp, history));
                found.extend(self.copied_twice(tp, history));
                found.extend(self.foreign(tp, history));
            }
        }
        found.extend(self.too_large(tp));
        found.extend(self.aborted_copied(tp));
        found.extend(self.waits_for_another(tp));
        found
    }

    /// The source is another topic than the one that was copied.
    fn made_again(&self, tp: &TopicPartition) -> Option<Finding> {
        let facts = self.facts;
        let finding = |summary: String| Some(Finding::blocks(Code::TopicRecreated, summary));
        let place = on_topic(&facts.source, &tp.topic);
        let samples = facts.contents.samples.get(tp).map(Vec::as_slice).unwrap_or_default();
        if let Some(other) = samples.iter().find(|sample| !sample.equal) {
            let (source, target) = other.sync;
            let differing = samples.iter().filter(|sample| !sample.equal).count();
            let summary = format!(
                "{tp} was made again: the record at {source} is not the one that MirrorMaker 2 \
                 copied from there to {target} ({differing} of {} compared differ)",
                samples.len()
            );
            let found = finding(summary)?;
            return Some(found.seen(
                "the pair whose records differ",
                format!("{source}->{target}"),
                place,
            ));
        }
        let (_, end) = *facts.source_bounds.get(tp)?;
        if let Some(copied) = facts.mm2.copied.get(tp).copied()
            && end <= copied
        {
            return finding(format!(
                "{tp} ends at {end} on the source, and MirrorMaker 2 has copied it up to {copied}: \
                 the topic was made again, or lost its end"
            ));
        }
        let history = facts.sync(tp)?;
        let gone = |turn: &&Turn| !turn.is_back_on_target() && turn.before.0.0 >= end;
        let turn = history.turns.iter().find(gone)?;
        finding(format!(
            "{tp} ends at {end} on the source and was copied up to {} before MirrorMaker 2 began again \
             at {}: the topic was made again, or lost its end",
            turn.before.0, turn.after.0
        ))
    }

    /// What was gone before it could be copied, with the copy not past it yet.
    fn gap_ahead(&self, tp: &TopicPartition) -> Option<Finding> {
        let (start, _) = *self.facts.source_bounds.get(tp)?;
        let copied = self.copied_by_mm2(tp)?;
        if start <= copied + 1 {
            return None;
        }
        let missing = u64::try_from(start - copied - 1).unwrap_or(0);
        let summary = format!(
            "{tp}: offsets {} to {} were gone from the source before they were copied",
            copied + 1,
            start - 1
        );
        let impact = Impact { missing, ..Impact::default() };
        Some(Finding::blocks(Code::SourceGap, summary).with(impact))
    }

    /// The same with the copy gone on behind it: the pairs tell, as long as no compaction and no
    /// markers of transactions explain the hole.
    fn gap_behind(&self, tp: &TopicPartition, history: &SyncHistory) -> Option<Finding> {
        let facts = self.facts;
        let settings = facts.contents.source_settings.get(&tp.topic)?;
        if settings.compacted || facts.mm2.reads_committed() {
            return None;
        }
        let (start, _) = *facts.source_bounds.get(tp)?;
        let begin = self.target_start(tp)?;
        let lost = history
            .jumps
            .iter()
            .filter(|jump| jump.lost() > 0 && jump.before.0.0 < start && jump.after.1 >= begin);
        let lost: Vec<_> = lost.collect();
        let first = lost.first()?;
        let missing = lost.iter().map(|jump| jump.lost()).sum();
        let ranges = lost.iter().take(3).map(|jump| {
            let (from, to) = (jump.before.0.0 + 1, jump.after.0.0 - 1);
            let exactly = i64::try_from(jump.lost()).is_ok_and(|lost| lost == to - from + 1);
            if exactly {
                format!("{from} to {to}")
            } else {
                format!("{} of {from} to {to}", jump.lost())
            }
        });
        let ranges: Vec<String> = ranges.collect();
        let summary = format!(
            "{tp}: offsets {} were gone from the source before they were copied, and MirrorMaker 2 \
             went on behind them",
            ranges.join(", ")
        );
        let pairs =
            format!("{}->{}, {}->{}", first.before.0, first.before.1, first.after.0, first.after.1);
        let place = format!("{}: topic {}", facts.syncs.on, facts.syncs.topic);
        let impact = Impact { missing, ..Impact::default() };
        let finding = Finding::notes(Code::SourceGap, Severity::Error, summary);
        Some(finding.with(impact).seen("the pairs around the hole", pairs, place))
    }

    /// Records that are on the target more than once: the copy began again before where it had been.
    fn copied_twice(&self, tp: &TopicPartition, history: &SyncHistory) -> Option<Finding> {
        let facts = self.facts;
        // Its markers take offsets of the target, which look like records here.
        if facts.mm2.is_transactional {
            return None;
        }
        let begin = self.target_start(tp)?;
        let is_there = |at: TargetOffset| at > begin;
        // That it began again, its pairs tell; that these are the same records, only they do.
        let samples = facts.contents.samples.get(tp).map(Vec::as_slice).unwrap_or_default();
        let is_shown = |turn: &&Turn| {
            samples.iter().any(|sample| sample.equal && sample.sync.1 < turn.after.1)
        };
        let turns: Vec<&Turn> = history
            .turns
            .iter()
            .filter(|turn| !turn.is_back_on_target() && is_there(turn.after.1))
            .filter(is_shown)
            .collect();
        let whole = turns.iter().all(|turn| turn.repeated().1);
        let of_turns: u64 = turns.iter().map(|turn| turn.repeated().0).sum();
        let repeated = of_turns + self.extras(tp).map(Extra::repeated).sum::<u64>();
        if repeated == 0 {
            return None;
        }
        let at_least = if whole { "" } else { "at least " };
        let summary = format!(
            "{tp}: {at_least}{} on the target twice: MirrorMaker 2 was ended without storing how far \
             it was, and copied again",
            match repeated {
                1 => "1 record is".to_owned(),
                n => format!("{n} records are"),
            }
        );
        let mut finding = Finding::notes(Code::DuplicatesOnTarget, Severity::Error, summary);
        let place = format!("{}: topic {}", facts.syncs.on, facts.syncs.topic);
        if let Some(turn) = turns.first() {
            let (before, after) = (turn.before, turn.after);
            let pairs = format!("{}->{}, then {}->{}", before.0, before.1, after.0, after.1);
            finding = finding.seen("where the copy began again", pairs, place);
        }
        Some(finding.seen(
            "records on the target twice",
            repeated,
            on_topic(&facts.target, &self.facts.mirror_of(tp).topic),
        ))
    }

    /// Records between two pairs that are not the source's, or that nothing tells of.
    fn foreign(&self, tp: &TopicPartition, history: &SyncHistory) -> Option<Finding> {
        let facts = self.facts;
        if facts.mm2.is_transactional {
            return None;
        }
        let begin = self.target_start(tp)?;
        let jumps = history.jumps.iter();
        let jumps = jumps.filter(|jump| jump.repeated() > 0 && jump.after.1 > begin);
        let is_told = |jump: &Jump| self.extras(tp).any(|extra| extra.jump == *jump);
        let (mut untold, mut first) = (0, None);
        for jump in jumps.filter(|jump| !is_told(jump)) {
            untold += jump.repeated();
            first = first.or(Some(*jump));
        }
        let foreign: u64 = self.extras(tp).map(|extra| extra.foreign).sum();
        first = self.extras(tp).find(|extra| extra.foreign > 0).map(|extra| extra.jump).or(first);
        let mirror = facts.mirror_of(tp);
        let summary = match (foreign, untold) {
            (0, 0) => return None,
            (0, n) => format!(
                "{tp}: {mirror} has {} more than the source between two pairs of offsets: written by \
                 somebody else, or copied twice",
                counted(n, "record")
            ),
            (n, _) => format!(
                "{tp}: {} of {mirror}, compared with the source, are not from there: somebody else \
                 writes to the mirror",
                counted(n, "record")
            ),
        };
        let finding = Finding::notes(Code::ForeignWriter, Severity::Warning, summary);
        let place = format!("{}: topic {}", facts.syncs.on, facts.syncs.topic);
        let Jump { before, after } = first?;
        let pairs = format!("{}->{}, then {}->{}", before.0, before.1, after.0, after.1);
        Some(finding.seen("pairs with more between on the target", pairs, place))
    }

    fn extras(&self, tp: &TopicPartition) -> impl Iterator<Item = &Extra> {
        self.facts.contents.extras.get(tp).into_iter().flatten()
    }

    fn target_start(&self, tp: &TopicPartition) -> Option<TargetOffset> {
        self.facts.bounds.get(&self.facts.mirror_of(tp)).map(|(start, _)| TargetOffset(*start))
    }

    fn too_large(&self, tp: &TopicPartition) -> Option<Finding> {
        let facts = self.facts;
        let record = facts.contents.too_large.get(tp)?;
        let mirror = facts.mirror_of(tp);
        let limit = facts.contents.target_settings.get(&mirror.topic)?.max_message_bytes?;
        let waiting = facts.source_bounds.get(tp).map_or(0, |(_, end)| end - record.offset.0);
        let summary = format!(
            "{tp}: the record at {} has {} bytes, {} takes {limit} (max.message.bytes)",
            record.offset, record.bytes, mirror.topic
        );
        let missing = u64::try_from(waiting).unwrap_or(0);
        let impact = Impact { missing, ..Impact::default() };
        let finding = Finding::blocks(Code::RecordTooLarge, summary).with(impact);
        Some(finding.seen("max.message.bytes", limit, on_topic(&facts.target, &mirror.topic)))
    }

    fn aborted_copied(&self, tp: &TopicPartition) -> Option<Finding> {
        let facts = self.facts;
        let seen = facts.contents.aborted.get(tp)?;
        let aborted = seen.all.checked_sub(seen.committed).filter(|aborted| *aborted > 0)?;
        if seen.copied != seen.all {
            return None;
        }
        let summary = format!(
            "{tp}: {} of aborted transactions between {} and {} on the target, as ordinary records: \
             MirrorMaker 2 reads uncommitted",
            match aborted {
                1 => "1 record is".to_owned(),
                n => format!("{n} records are"),
            },
            seen.from,
            seen.to
        );
        let source = &facts.source.alias;
        let fix = Fix::Property(format!("{source}.consumer.isolation.level = read_committed"));
        let place = on_topic(&facts.source, &tp.topic);
        let finding = Finding::notes(Code::AbortedRecordsCopied, Severity::Error, summary).fix(fix);
        let counts = format!("{} committed, {} in all", seen.committed, seen.all);
        let range = format!("records from {} to {}", seen.from, seen.to);
        Some(finding.seen(range, counts, place))
    }

    /// One producer serves a task: while it waits for a topic that is not there, all others wait.
    fn waits_for_another(&self, tp: &TopicPartition) -> Option<Finding> {
        let facts = self.facts;
        let connector = facts.mm2.connector(SOURCE_CONNECTOR)?;
        let there = facts.target.topics.as_ref().ok()?;
        let has = |tp: &TopicPartition| {
            let mirror = facts.mirror_of(tp);
            there.get(&mirror.topic).is_some_and(|count| mirror.partition < *count)
        };
        let (_, end) = *facts.source_bounds.get(tp)?;
        let waiting = end - self.arrived_by_mm2(tp).map_or(0, |copied| copied + 1);
        if waiting <= 0 || !has(tp) {
            return None;
        }
        let missing = connector.beside(tp).find(|other| !has(other))?;
        let summary = format!(
            "{tp}: {} of it wait behind {}, which is in the same task and does not exist on {}",
            counted(u64::try_from(waiting).unwrap_or(0), "offset"),
            facts.mirror_of(missing),
            facts.target.alias
        );
        let impact = Impact { missing: u64::try_from(waiting).unwrap_or(0), ..Impact::default() };
        let finding = Finding::blocks(Code::Stalled, summary).with(impact);
        Some(finding.after(Code::TopicMissingOnTarget))
    }
}
