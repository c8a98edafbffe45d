//! Where groups stand on the target, proven by the records around their positions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use twinlog_client::ClientError;
use twinlog_types::{GroupId, Partition, SourceOffset, TopicName, TopicPartition, Translation};

use crate::compare::{Around, Located, Part, Stands, locate, stands};
use crate::partition::Job;
use crate::print;
use crate::read::{Ends, Log};

/// How many records around a position are compared.
const AROUND: usize = 16;

/// How many records around the place where a position should be are searched.
const SEARCHED: usize = 600;

/// How a group's position on the target stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GroupResult {
    /// The same next record, and the same records around it.
    Equal,
    /// It would skip records.
    TooFar,
    /// It would read records again.
    TooNear,
    /// It stands behind the end of the target's log: a consumer starts where its
    /// `auto.offset.reset` says.
    BeyondEnd,
    /// It stands before the start of the target's log: the same.
    BeforeStart,
    /// It has no commit on the target.
    NoPosition,
    /// It lives on the target, where its members move it.
    LiveOnTarget,
    /// The records around its position on the source are not on the target.
    Different,
    /// It could not be found out.
    Unknown,
}

impl GroupResult {
    /// The word that output uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::TooFar => "too-far",
            Self::TooNear => "too-near",
            Self::BeyondEnd => "beyond-end",
            Self::BeforeStart => "before-start",
            Self::NoPosition => "no-position",
            Self::LiveOnTarget => "live-on-target",
            Self::Different => "different",
            Self::Unknown => "unknown",
        }
    }

    /// Whether a failover now would be wrong for it.
    pub fn is_mismatch(self) -> bool {
        !matches!(self, Self::Equal | Self::LiveOnTarget | Self::Unknown)
    }
}

/// A group's position in one partition, compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupReport {
    /// The group.
    pub group: GroupId,
    /// The topic on the source.
    pub topic: TopicName,
    /// The topic on the target.
    pub target_topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// What it has committed on the source.
    pub source_offset: i64,
    /// What it has committed on the target.
    pub target_offset: Option<i64>,
    /// Where contents prove that it belongs.
    pub proven: Option<i64>,
    /// Where the offset map says that it belongs.
    pub translated: Option<i64>,
    /// The result.
    pub result: GroupResult,
    /// Records that it would read again.
    pub reread: u64,
    /// Records that it would skip.
    pub skipped: u64,
    /// How many records in a row are equal before and from its position on, a few at most.
    pub neighbours: (usize, usize),
    /// What there is to say of the result.
    pub reason: Option<String>,
}

/// A position that is to be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(crate) group: GroupId,
    pub(crate) tp: TopicPartition,
    pub(crate) source: i64,
    pub(crate) target: Option<i64>,
    /// The group has members on the target.
    pub(crate) live: bool,
}

impl Position {
    /// Nothing compared yet.
    pub(crate) fn report(&self, target_topic: &TopicName) -> GroupReport {
        GroupReport {
            group: self.group.clone(),
            topic: self.tp.topic.clone(),
            target_topic: target_topic.clone(),
            partition: self.tp.partition,
            source_offset: self.source,
            target_offset: self.target,
            proven: None,
            translated: None,
            result: GroupResult::Unknown,
            reread: 0,
            skipped: 0,
            neighbours: (0, 0),
            reason: None,
        }
    }
}

impl Job {
    /// Compares the positions of groups in this partition.
    pub(crate) async fn positions(&self, positions: &[Position]) -> Vec<GroupReport> {
        let view = self.view().await;
        let mut reports = Vec::new();
        // Groups that stand together are proven together.
        let mut places: BTreeMap<i64, Proof> = BTreeMap::new();
        for position in positions {
            let mut report = position.report(&self.target.tp.topic);
            let outcome = match &view {
                Ok(view) => self.position(position, &mut report, *view, &mut places).await,
                Err(error) => Err(error.clone()),
            };
            if let Err(error) = outcome {
                report.result = GroupResult::Unknown;
                report.reason = Some(error.to_string());
            }
            reports.push(report);
        }
        reports
    }

    async fn view(&self) -> Result<View, ClientError> {
        let target = self.target.ends().await?;
        let source = self.source.ends().await?;
        let copied_to = self.copied_to((source, target)).await?.map_or(i64::MAX, |at| at.0);
        Ok(View { source, target, copied_to })
    }

    async fn position(
        &self,
        position: &Position,
        report: &mut GroupReport,
        view: View,
        places: &mut BTreeMap<i64, Proof>,
    ) -> Result<(), ClientError> {
        let translated = self.map.as_ref().map_or(Translation::Unknown, |mapped| {
            mapped.map.translate(SourceOffset(position.source))
        });
        report.translated = translated.offset().map(|at| at.0);
        if position.source < view.source.start
            && let Translation::Exact(place) = translated
        {
            report.judge_by_map(position, place.0, view);
            return Ok(());
        }
        let proof = match places.entry(position.source) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(open) => {
                open.insert(self.prove(position, report.translated, view).await?)
            }
        };
        let Some(located) = proof.located else {
            report.result = GroupResult::Different;
            report.reason = Some(
                "the records around its position on the source were not found where they should \
                 be on the target"
                    .to_owned(),
            );
            return Ok(());
        };
        report.neighbours = (located.before, located.after);
        report.proven = Some(proof.offset(located.index));
        report.judge(position, proof, located, view.target);
        if position.source < view.source.start && report.result == GroupResult::TooNear {
            // What lies between may be what it has still to read.
            report.result = GroupResult::Unknown;
            report.reread = 0;
            report.reason = Some(format!(
                "the source has deleted the records from its position up to {}, and no map tells \
                 where they are on the target",
                view.source.start - 1
            ));
        }
        Ok(())
    }

    /// Finds where the target goes on with the same records.
    async fn prove(
        &self,
        position: &Position,
        translated: Option<i64>,
        View { source, target, copied_to }: View,
    ) -> Result<Proof, ClientError> {
        // Who is ahead of the copy goes on at its end.
        let at = position.source.min(copied_to);
        let at = at.clamp(source.start, source.stable.max(source.start));
        // What is not data was copied by MM2 only; it may be more than what is looked at.
        let only_data = self.map.is_some() && !self.copies_aborted;
        let log = Log { with_aborted: !only_data, ..self.source.clone() };
        let (mut before, whole) = log.before(source.start, at, AROUND).await?;
        let mut after = log.from(at, source.stable, AROUND).await?;
        let mut guesses: Vec<i64> = translated.into_iter().collect();
        if self.map.is_none() {
            let (first, last) = (after.first(), before.last());
            if let Some(timestamp) = first.or(last).map(|near| near.timestamp) {
                guesses.push(self.guess(at, timestamp, target.start).await?);
            }
        }
        guesses.extend(position.target);
        guesses.push(target.stable);
        let compacts = self.compacts != (Some(false), Some(false));
        let mut proof = Proof { entries: Vec::new(), located: None, end: target.stable };
        for guess in guesses {
            let guess = guess.clamp(target.start, target.stable.max(target.start));
            let (mut entries, from_start) =
                self.target.before(target.start, guess, SEARCHED).await?;
            entries.extend(self.target.from(guess, target.stable, SEARCHED).await?);
            let to_end = entries.last().is_none_or(|last| last.offset + 1 >= target.stable)
                || entries.len() < SEARCHED;
            if compacts {
                common(&mut before, &mut after, &mut entries);
            }
            let around = Around { before: &before, after: &after };
            let part = Part { entries: &entries, from_start, to_end };
            proof.located = if before.is_empty() && after.is_empty() {
                // The source has no records: the target has none to read before its end.
                (to_end && whole).then_some(Located { index: entries.len(), before: 0, after: 0 })
            } else {
                locate(around, part, guess)
            };
            proof.entries = entries;
            if proof.located.is_some() {
                break;
            }
        }
        Ok(proof)
    }
}

/// The ends of both logs, and how far the copy is.
#[derive(Clone, Copy, Debug)]
struct View {
    source: Ends,
    target: Ends,
    copied_to: i64,
}

/// Where a position belongs, and the target's records around it.
struct Proof {
    entries: Vec<print::Entry>,
    located: Option<Located>,
    end: i64,
}

impl Proof {
    /// The offset of the next record; the log's end behind the last.
    fn offset(&self, index: usize) -> i64 {
        self.entries.get(index).map_or(self.end, |entry| entry.offset)
    }
}

impl GroupReport {
    /// The group moves, and the target has reached what the source had at the look before.
    pub(crate) fn following(self) -> Self {
        let reason = "it moves, and the target follows".to_owned();
        Self { result: GroupResult::Equal, reason: Some(reason), ..self }
    }

    fn judge(&mut self, position: &Position, proof: &Proof, located: Located, target: Ends) {
        let Some(committed) = position.target else {
            self.result = GroupResult::NoPosition;
            self.reason = Some("it has no commit on the target".to_owned());
            return;
        };
        let (first, last) = (proof.entries.first(), proof.entries.last());
        let proven = proof.offset(located.index);
        // Further away than what was looked at, offsets count.
        let outside = first
            .is_some_and(|first| committed < first.offset && committed >= target.start)
            || last.is_some_and(|last| committed > last.offset + 1 && committed <= target.stable);
        let stands = if !outside {
            stands(&proof.entries, located.index, committed)
        } else if committed > proven {
            Stands::TooFar((committed - proven) as u64)
        } else {
            Stands::TooNear((proven - committed) as u64)
        };
        match stands {
            Stands::Right => self.result = GroupResult::Equal,
            Stands::TooFar(records) => {
                (self.result, self.skipped) = (GroupResult::TooFar, records);
            }
            Stands::TooNear(records) => {
                (self.result, self.reread) = (GroupResult::TooNear, records);
            }
        }
        self.weigh(position, committed, target);
    }

    /// The source has no records any more that would prove the place; the map knows it.
    fn judge_by_map(&mut self, position: &Position, place: i64, view: View) {
        let Some(committed) = position.target else {
            self.result = GroupResult::NoPosition;
            self.reason = Some("it has no commit on the target".to_owned());
            return;
        };
        let apart = committed.abs_diff(place);
        match committed.cmp(&place) {
            Ordering::Equal => self.result = GroupResult::Equal,
            Ordering::Greater => (self.result, self.skipped) = (GroupResult::TooFar, apart),
            Ordering::Less => (self.result, self.reread) = (GroupResult::TooNear, apart),
        }
        self.reason = Some(format!(
            "the source has deleted the records from its position up to {}: the offset map decides",
            view.source.start - 1
        ));
        self.weigh(position, committed, view.target);
    }

    /// Positions that are out of the target's log, and those that its own members move.
    fn weigh(&mut self, position: &Position, committed: i64, target: Ends) {
        if committed > target.high_watermark {
            self.result = GroupResult::BeyondEnd;
            self.reason = Some(format!("the target's log ends at {}", target.high_watermark));
        } else if committed < target.start {
            self.result = GroupResult::BeforeStart;
            self.reason = Some(format!("the target's log begins at {}", target.start));
        } else if position.live && self.result != GroupResult::Equal {
            self.result = GroupResult::LiveOnTarget;
            self.reason = Some("it has members on the target, which move it".to_owned());
        }
    }
}

/// Leaves only records that are on both sides: compaction may have removed the others.
fn common(
    before: &mut Vec<print::Entry>,
    after: &mut Vec<print::Entry>,
    target: &mut Vec<print::Entry>,
) {
    let on_target: std::collections::HashSet<u128> =
        target.iter().map(|entry| entry.whole).collect();
    before.retain(|entry| on_target.contains(&entry.whole));
    after.retain(|entry| on_target.contains(&entry.whole));
    // Between the outermost records that are known nothing else counts.
    let known: std::collections::HashSet<u128> =
        before.iter().chain(after.iter()).map(|entry| entry.whole).collect();
    let place = |entry: &print::Entry| known.contains(&entry.whole);
    let (Some(first), Some(last)) = (target.iter().position(place), target.iter().rposition(place))
    else {
        return;
    };
    let mut at = 0;
    target.retain(|entry| {
        let here = at;
        at += 1;
        here < first || here > last || known.contains(&entry.whole)
    });
}
