//! What a group would read after a failover now: its position on the target, given to a scratch
//! group and read on from, beside what it would read on the source.
//!
//! Does not: join a group, touch the group itself, write anything but the scratch group's commits.
//!
//! # Invariants
//!
//! 1. The scratch group's name says what it is ([`PREFIX`]), and no other group has it: there is a
//!    part of chance in it.
//! 2. [`remove`] is called whatever became of [`rehearse`], also when that was given up half-way;
//!    it is no mistake to remove what was never made.

use std::collections::BTreeMap;

use twinlog_client::{ClientError, ErrorCode, TopicInfo};
use twinlog_engine::observe::Observer;
use twinlog_types::{GroupId, Partition, SourceOffset, TargetOffset, TopicName, TopicPartition};

use crate::compare::{Comparison, Finding, Rules, Tally};
use crate::flow::{FlowReport, Request, Verifier, topics};
use crate::groups::Position;
use crate::map::{MaybeRuns, Runs};
use crate::partition::{How, Job};

/// How the name of every scratch group begins.
pub const PREFIX: &str = "twinlog-rehearsal-";

/// What a rehearsal will do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The group that is rehearsed.
    pub group: GroupId,
    /// The group that will be made for it, and removed.
    pub scratch: GroupId,
    /// Its positions, by topic and partition.
    pub positions: Vec<Planned>,
}

/// One position of the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The topic on the source.
    pub topic: TopicName,
    /// The topic on the target.
    pub target_topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// What the group has committed on the source.
    pub source_offset: i64,
    /// What it has committed on the target; `None`: it would begin where `auto.offset.reset` says.
    pub target_offset: Option<i64>,
}

/// What the group would read in one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rehearsed {
    /// The position.
    pub planned: Planned,
    /// Records that it would read again before it comes to its next one.
    pub reread: u64,
    /// Records that it would never read.
    pub skipped: u64,
    /// What the records that were read on both sides came to. Where the group stands at another
    /// place than contents prove, from that place on.
    pub tally: Tally,
    /// The first differences.
    pub findings: Vec<Finding>,
    /// The first record that is on both.
    pub first: Option<(SourceOffset, TargetOffset)>,
}

impl Rehearsed {
    fn of(planned: &Planned) -> Self {
        Self {
            planned: planned.clone(),
            reread: 0,
            skipped: 0,
            tally: Tally::default(),
            findings: Vec::new(),
            first: None,
        }
    }

    /// Whether the group would read the same records.
    pub fn is_equal(&self) -> bool {
        let moved = self.reread + self.skipped > 0;
        self.planned.target_offset.is_some() && !moved && self.tally.is_faithful()
    }
}

/// Finds out what there is to rehearse. `chance` tells the scratch group from all others. No
/// positions: the group has no commits on mirrored topics.
///
/// # Errors
///
/// In words, when something cannot be read.
pub async fn plan(observer: &Observer, group: &GroupId, chance: u64) -> Result<Plan, String> {
    let request = Request { group: Some(group.clone()), ..Request::default() };
    let mut report = FlowReport::new(observer, How::Full, (observer.clock)());
    let verifier = Verifier { observer, request: &request };
    let positions = verifier.commits(&mut report).await?;
    if let Some(trouble) = report.troubles.pop() {
        return Err(trouble);
    }
    let planned = |position: Position| Planned {
        target_topic: observer.config.remote_topic(position.tp.topic.as_str()),
        topic: position.tp.topic,
        partition: position.tp.partition,
        source_offset: position.source,
        target_offset: position.target,
    };
    let scratch = GroupId::from(format!("{PREFIX}{group}-{chance:016x}"));
    let positions = positions.into_iter().map(planned).collect();
    Ok(Plan { group: group.clone(), scratch, positions })
}

/// Makes the scratch group, and reads up to `records` records of each partition on both sides.
///
/// # Errors
///
/// In words, when something cannot be read or written.
pub async fn rehearse(
    observer: &Observer,
    plan: &Plan,
    records: usize,
) -> Result<Vec<Rehearsed>, String> {
    let request = Request { group: Some(plan.group.clone()), ..Request::default() };
    let mut report = FlowReport::new(observer, How::Full, (observer.clock)());
    let verifier = Verifier { observer, request: &request };
    let names: std::collections::BTreeSet<&TopicName> =
        plan.positions.iter().map(|one| &one.topic).collect();
    let source = topics(&observer.source, &observer.config.name.source).await?;
    let wanted: Vec<TopicInfo> =
        source.into_iter().filter(|topic| names.contains(&topic.name)).collect();
    let jobs = verifier.jobs(&wanted, &mut report).await?;
    let stands = commit(observer, plan).await?;
    let mut rehearsed = Vec::new();
    for planned in &plan.positions {
        let tp = TopicPartition::new(planned.topic.clone(), planned.partition);
        let mirror = TopicPartition::new(planned.target_topic.clone(), planned.partition);
        let mut one = Rehearsed::of(planned);
        if let (Some(job), Some(target)) = (jobs.get(&tp), stands.get(&mirror)) {
            let read = job.rehearse(&mut one, &plan.group, (*target, records)).await;
            read.map_err(|error| format!("{tp}: {error}"))?;
        }
        rehearsed.push(one);
    }
    Ok(rehearsed)
}

/// Gives the scratch group the positions, and answers those that the coordinator has then.
async fn commit(observer: &Observer, plan: &Plan) -> Result<BTreeMap<TopicPartition, i64>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("group {}: {error}", plan.scratch);
    let note = format!("a rehearsal of group {} by twinlog", plan.group);
    let offsets: Vec<(TopicPartition, i64, String)> = plan
        .positions
        .iter()
        .filter_map(|one| {
            let tp = TopicPartition::new(one.target_topic.clone(), one.partition);
            Some((tp, one.target_offset?, note.clone()))
        })
        .collect();
    if offsets.is_empty() {
        return Ok(BTreeMap::new());
    }
    let told = observer.target.commit_offsets(&plan.scratch, &offsets).await;
    for (tp, code) in told.map_err(|error| failed(&error))? {
        code.ok().map_err(|code| failed(&format!("{tp}: {code}")))?;
    }
    let mut read = observer
        .target
        .fetch_offsets(std::slice::from_ref(&plan.scratch))
        .await
        .map_err(|error| failed(&error))?;
    match read.remove(&plan.scratch) {
        Some(Ok(commits)) => {
            Ok(commits.into_iter().map(|commit| (commit.tp, commit.offset)).collect())
        }
        Some(Err(code)) => Err(failed(&code)),
        None => Err(failed(&"its commits are not there")),
    }
}

/// Removes the scratch group, where it is.
///
/// # Errors
///
/// In words, when it may still be there.
pub async fn remove(observer: &Observer, plan: &Plan) -> Result<(), String> {
    match observer.target.delete_group(&plan.scratch).await {
        Ok(ErrorCode::NONE | ErrorCode::GROUP_ID_NOT_FOUND) => Ok(()),
        Ok(code) => Err(code.to_string()),
        Err(error) if error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

impl Job {
    /// Finds out how far the position is from where the group belongs, and reads on from there.
    async fn rehearse(
        &self,
        one: &mut Rehearsed,
        group: &GroupId,
        (committed, records): (i64, usize),
    ) -> Result<(), ClientError> {
        let position = Position {
            group: group.clone(),
            tp: self.source.tp.clone(),
            source: one.planned.source_offset,
            target: Some(committed),
            live: false,
        };
        let judged = self.positions(std::slice::from_ref(&position)).await.pop();
        let judged = judged.filter(|judged| judged.reread + judged.skipped > 0);
        let mut from = committed;
        if let Some(judged) = judged
            && let Some(proven) = judged.proven.or(judged.translated)
        {
            (one.reread, one.skipped, from) = (judged.reread, judged.skipped, proven);
        }
        self.read_on(one, from, records).await
    }

    /// Reads on from both positions, and compares.
    async fn read_on(
        &self,
        one: &mut Rehearsed,
        from: i64,
        records: usize,
    ) -> Result<(), ClientError> {
        let target_ends = self.target.ends().await?;
        let ends = self.source.ends().await?;
        let copied_to = self.copied_to((ends, target_ends)).await?;
        let source_from = one.planned.source_offset.max(ends.start);
        // What the source has deleted is on the target alone: both begin behind it.
        let behind = self.map.as_ref().filter(|_| one.planned.source_offset < ends.start);
        let behind =
            behind.and_then(|mapped| mapped.map.translate(SourceOffset(ends.start)).offset());
        let from = behind.map_or(from, |at| from.max(at.0));
        let source = self.source.from(source_from, ends.stable, records).await?;
        // Positions out of the log are the business of `auto.offset.reset`, and read nothing here.
        let inside = (target_ends.start..=target_ends.stable).contains(&from);
        let target = if inside {
            self.target.from(from, target_ends.stable, records).await?
        } else {
            Vec::new()
        };
        let (source_cut, target_cut) = (source.len() == records, target.len() == records);
        let rules = Rules {
            source_compacts: self.compacts.0.unwrap_or(true),
            target_compacts: self.compacts.1.unwrap_or(true),
            source_begins_late: one.planned.source_offset < ends.start,
            target_begins_late: false,
            // Where the target was read to the last record asked for, what follows is not judged.
            copied_to: copied_to.filter(|_| !target_cut),
            target_goes_on: source_cut || ends.is_open(),
            to_the_end: !source_cut && !target_cut,
        };
        let runs = self.map.as_ref().map(|mapped| Runs::of(&mapped.map));
        let mut comparison = Comparison::new(rules, MaybeRuns(runs));
        comparison.push_source(source);
        comparison.push_target(target);
        comparison.end_source();
        comparison.end_target();
        let outcome = comparison.finish();
        (one.tally, one.findings, one.first) = (outcome.tally, outcome.findings, outcome.first);
        Ok(())
    }
}
