//! Mirrors that MM2 makes, looked at by who has never run them: who copies, and how far that is as MM2's own
//! records tell it.
//!
//! Does not: judge MM2's translation, which is the doctor's; compare contents. What is told here is
//! labelled as MM2's, and is about right: a copy position is up to a minute old.

use std::collections::BTreeMap;

use twinlog_client::{ClientError, GroupKind};
use twinlog_flow::Standing;
use twinlog_mirror::{OffsetSyncStore, SyncTranslation};
use twinlog_types::{Code, SourceOffset, State, TargetOffset, TopicPartition};

use super::groups::whole_of;
use super::{FlowObservation, GroupPosition, Observer, PartitionObservation, worst};
use crate::state;
use crate::takeover::mm2::{self, Alive, Left};

/// That MM2 makes a mirror, or made it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ByMm2 {
    /// Who copies it now, as the group on the target shows; none where MM2 does not run.
    pub runs: Option<String>,
    /// Of how many partitions MM2 left a copy position or offset-syncs.
    pub partitions: usize,
}

/// How MM2 translates an offset of a mirror that it makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mm2Answer {
    /// Its own answer.
    pub translation: SyncTranslation,
    /// The offset-sync that it answers by.
    pub sync: Option<(SourceOffset, TargetOffset)>,
}

/// What MM2 tells of itself: that it runs, how far it copied, and its offset-syncs.
#[derive(Debug)]
pub struct Mm2Sight {
    alive: Option<Alive>,
    left: Left,
    syncs: BTreeMap<TopicPartition, OffsetSyncStore>,
}

impl Mm2Answer {
    /// How many records before `offset` a group would read again at most: what lies behind the offset-sync,
    /// of which MM2 knows only that it is more than nothing.
    pub fn again(&self, offset: SourceOffset) -> u64 {
        self.sync.map_or(0, |sync| offset.since(sync.0).saturating_sub(1))
    }
}

impl Mm2Sight {
    /// Who makes the mirror.
    pub fn by(&self) -> ByMm2 {
        let Left { positions, pairs, .. } = &self.left;
        let of_both = positions.keys().filter(|tp| !pairs.contains_key(*tp)).count() + pairs.len();
        let runs = self.alive.as_ref().map(|alive| alive.who.clone());
        ByMm2 { runs, partitions: of_both }
    }

    /// How it translates an offset.
    pub fn answer(&self, of: &TopicPartition, offset: SourceOffset) -> Mm2Answer {
        let store = self.syncs.get(of);
        let translation = store.map_or(SyncTranslation::NoSync, |store| store.translate(offset));
        let kept = store.map(OffsetSyncStore::kept).unwrap_or_default();
        let sync = kept.into_iter().find(|sync| sync.0 <= offset);
        Mm2Answer { translation, sync }
    }

    fn is_nothing(&self) -> bool {
        self.alive.is_none() && self.left.positions.is_empty() && self.left.pairs.is_empty()
    }
}

impl Observer {
    /// Looks whether MM2 makes a mirror that no twinlog runs, after [`observe`](Self::observe): then what
    /// was found is told as MM2's, with the figures that MM2's own records give.
    pub async fn observe_mm2(&self, found: &mut FlowObservation) {
        if found.own.code != Some(Code::MirrorNotRunning) {
            return;
        }
        if found.lease.is_some() {
            if let Some(alive) = mm2::who_runs(&self.config, &self.target).await {
                beside_ours(found, &alive);
            }
            return;
        }
        let sight = match self.sight().await {
            Ok(sight) => sight,
            Err(error) => {
                self.miss(found, false, "what MM2 left", &error);
                return;
            }
        };
        if sight.is_nothing() {
            return;
        }
        for topic in &mut found.topics {
            let before = topic.standing.code;
            for partition in &mut topic.partitions {
                let tp = TopicPartition::new(topic.topic.clone(), partition.partition);
                told_of_partition(&sight, &tp, partition);
            }
            if matches!(before, Some(Code::TargetNotEmpty | Code::MirrorNotRunning)) {
                let parts = topic.partitions.iter();
                let parts =
                    parts.map(|one| (format!("partition {}", one.partition), &one.standing));
                topic.standing = worst(&Standing::in_sync(), parts);
            }
        }
        for group in found.groups.iter_mut().filter(|group| group.kind != GroupKind::Share) {
            let mut any = false;
            for position in &mut group.partitions {
                any |= told_of_position(
                    &sight,
                    self.config.offset_lag_max,
                    group.group.as_str(),
                    position,
                );
            }
            if any {
                let parts = group.partitions.iter().map(|position| {
                    (format!("{}-{}", position.topic, position.partition), &position.standing)
                });
                group.standing = whole_of(parts);
            }
        }
        let by = sight.by();
        found.own = told_of_flow(&by, &found.own);
        found.mm2 = Some(by);
    }

    /// What MM2 tells of a flow that no twinlog has ever run; nothing where one has, or where MM2 left
    /// nothing.
    ///
    /// # Errors
    ///
    /// When the target cannot be read.
    pub async fn mm2(&self) -> Result<Option<Mm2Sight>, ClientError> {
        if let Some(pair) = self.pair().await? {
            let stored = state::read(&self.target, &self.config.name.source, &pair).await?;
            if stored.lease.is_some() {
                return Ok(None);
            }
        }
        let sight = self.sight().await?;
        Ok((!sight.is_nothing()).then_some(sight))
    }

    async fn sight(&self) -> Result<Mm2Sight, ClientError> {
        let config = &self.config;
        let alive = mm2::who_runs(config, &self.target).await;
        let mut left = Left::read_positions(config, &self.target).await?;
        let mut syncs: BTreeMap<TopicPartition, OffsetSyncStore> = BTreeMap::new();
        let cluster = if config.offset_syncs_on_target { &self.target } else { &self.source };
        // Where they cannot be read the positions say what they can.
        let _ = mm2::each_sync(config, cluster, |of, pair| {
            mm2::take_pair(left.pairs.entry(of.clone()).or_default(), pair);
            syncs.entry(of).or_default().take(pair);
        })
        .await;
        Ok(Mm2Sight { alive, left, syncs })
    }
}

/// MM2 copies what a twinlog copied before.
fn beside_ours(found: &mut FlowObservation, alive: &Alive) {
    let reason = format!(
        "MM2 copies this flow now ({}), and no twinlog does: {}; `twinlog run FILE` would wait until MM2 is \
         stopped and then take over what it copied",
        alive.who,
        found.own.reason.clone().unwrap_or_default()
    );
    found.own = Standing::found(State::Waiting, Code::Mm2StillRuns, reason);
    found.mm2 = Some(ByMm2 { runs: Some(alive.who.clone()), partitions: 0 });
}

fn told_of_flow(by: &ByMm2, own: &Standing) -> Standing {
    let looks = "`twinlog doctor FILE` judges it, `twinlog verify FILE` proves it and `twinlog rehearse \
                 FILE` rehearses a failover";
    let never = own.reason.clone().unwrap_or_default();
    if let Some(who) = &by.runs {
        let reason = format!(
            "MM2 makes this mirror ({who}), and {never}: figures are of MM2's copy; {looks}; `twinlog \
                 run FILE` would wait until MM2 is stopped, and then take the mirror over where it ends"
        );
        return Standing::found(State::Waiting, Code::Mm2StillRuns, reason);
    }
    let partitions = match by.partitions {
        1 => "1 partition".to_owned(),
        n => format!("{n} partitions"),
    };
    let reason = format!(
        "MM2 made this mirror ({partitions}) and does not run now, and {never}: figures are of \
                 MM2's copy; {looks}; `twinlog run FILE` takes the mirror over where it ends",
    );
    Standing { reason: Some(reason), ..own.clone() }
}

/// Tells of a partition what MM2 copied of it.
fn told_of_partition(sight: &Mm2Sight, tp: &TopicPartition, seen: &mut PartitionObservation) {
    let (Some(start), Some(end)) = (seen.source_start, seen.source_end) else { return };
    let runs = sight.alive.is_some();
    let holds_records = seen.standing.code == Some(Code::TargetNotEmpty);
    let is_empty = seen.standing.code == Some(Code::MirrorNotRunning);
    if seen.copied_to.is_some() || !(holds_records || (is_empty && runs)) {
        return;
    }
    let copied = sight.left.copied_to(tp, seen.target_end.unwrap_or(0)).map(|to| to.min(end));
    let told = match copied {
        Some(to) => format!(
            "MM2 copied it up to about source offset {to}, by its copy position, its offset-syncs and the \
             ends; contents were not compared"
        ),
        None if is_empty => "MM2 has copied nothing of it yet".to_owned(),
        None if runs => {
            let reason = "MM2 makes this mirror, and left neither a copy position nor an offset-sync of it \
                          yet: how far it is cannot be told";
            seen.standing = Standing::because(State::Unknown, reason);
            return;
        }
        // Somebody else's records: it stands as it was told.
        None => return,
    };
    let lag = u64::try_from(end - copied.unwrap_or(start).max(start)).unwrap_or(0);
    seen.copied_to = copied;
    seen.lag_records = Some(lag);
    seen.lag_ms = (lag == 0).then_some(0);
    let waits = format!("{told}; about {lag} offsets of the source wait");
    seen.standing = match (lag, runs) {
        (0, _) => Standing { state: State::InSync, code: None, reason: Some(told) },
        (_, true) => Standing::because(State::CatchingUp, waits),
        (_, false) => Standing::found(State::Waiting, Code::MirrorNotRunning, waits),
    };
}

/// Tells where MM2 puts a group that twinlog has no map for. Whether it did.
fn told_of_position(
    sight: &Mm2Sight,
    lag_max: u64,
    group: &str,
    position: &mut GroupPosition,
) -> bool {
    let (Some(offset), Some(Code::NothingCopied)) =
        (position.source_offset, position.standing.code)
    else {
        return false;
    };
    let tp = TopicPartition::new(position.topic.clone(), position.partition);
    if !sight.syncs.contains_key(&tp) {
        return false;
    }
    let stands = match position.committed_target {
        Some(at) => format!("the group stands at {at} on the target"),
        None => "the group has no commit on the target".to_owned(),
    };
    let judged = format!("`twinlog doctor FILE --group '{group}'` judges it");
    let answer = sight.answer(&tp, SourceOffset(offset));
    let again = answer.again(SourceOffset(offset));
    position.standing = match (answer.translation, position.committed_target) {
        (SyncTranslation::To(place), at) => {
            let read_again = match again {
                0 => String::new(),
                again => format!(", up to {again} records before its place are read again there"),
            };
            let reason =
                format!("{stands}, MM2 translates {offset} to {place}{read_again}; {judged}");
            let coarse = again > lag_max.saturating_mul(2);
            match sight.alive {
                _ if at.is_some_and(|at| at >= place.0) => Standing {
                    state: State::InSync,
                    code: coarse.then_some(Code::TranslationCoarse),
                    reason: Some(reason),
                },
                Some(_) => Standing::because(State::CatchingUp, reason),
                None => Standing::found(State::Waiting, Code::MirrorNotRunning, reason),
            }
        }
        (SyncTranslation::BeforeOldest | SyncTranslation::NoSync, _) => {
            let reason = format!(
                "{stands}; {offset} lies before every offset-sync that MM2 keeps, so MM2 gives it no place; \
                 {judged}"
            );
            Standing::found(State::Waiting, Code::TranslationFrozen, reason)
        }
    };
    true
}
