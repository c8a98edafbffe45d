//! Reads samples, counts and settings.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use twinlog_client::{ClientError, Cluster, Header, Isolation, OffsetSpec, Record};
use twinlog_engine::in_parallel;
use twinlog_engine::observe::Observer;
use twinlog_mirror::SyncOffsets;
use twinlog_types::{ConfigEntry, SourceOffset, TargetOffset, TopicName, TopicPartition};

use super::{Aborted, Extra, Sample, Settings, TooLarge};
use crate::facts::Facts;
use crate::history::{Jump, SyncHistory};
use crate::places::{Bounds, Count, Place, place};

/// Partitions whose records are looked at.
const PARTITIONS_MAX: usize = 512;
/// Partitions that are looked at at the same time.
const JOBS_AT_ONCE: usize = 16;
/// Pairs of records of one partition that are compared.
const SAMPLES_MAX: usize = 6;
/// Places of one partition where the mirror has more records than the source that are looked at, and
/// how many records there may be between two pairs.
const EXTRAS_MAX: usize = 4;
const BETWEEN_MAX: u64 = 50_000;
/// Source offsets in which aborted records are looked for.
const REACH: u64 = 5_000;
/// Records that may lie before one that is too large.
const SCANNED_MAX: u64 = 10_000;
/// Bytes of records that one question may cost.
const BYTES_MAX: usize = 64 << 20;

/// What is to be found out of one partition.
struct Job {
    tp: TopicPartition,
    mirror: TopicPartition,
    counts: Vec<(SourceOffset, Count)>,
    samples: Vec<SyncOffsets>,
    range: Option<(SyncOffsets, SyncOffsets)>,
    extras: Vec<Jump>,
    /// Where the first record that waits is, and the largest that the mirror takes.
    waits: Option<(SourceOffset, u64)>,
    isolation: Isolation,
}

impl Job {
    fn is_sample_alone(&self) -> bool {
        self.counts.is_empty()
            && self.range.is_none()
            && self.extras.is_empty()
            && self.waits.is_none()
    }
}

/// What was found out of it.
struct Found {
    tp: TopicPartition,
    places: Vec<(SourceOffset, TargetOffset)>,
    samples: Vec<Sample>,
    aborted: Option<Aborted>,
    extras: Vec<Extra>,
    too_large: Option<TooLarge>,
}

impl Facts {
    /// Looks at the records and topics of these partitions of the source, in a mirror that MM2 makes.
    pub(crate) async fn read_contents(
        &mut self,
        observer: &Observer,
        wanted: &BTreeSet<TopicPartition>,
    ) {
        if !self.mm2.was_here() {
            return;
        }
        let topics: BTreeSet<TopicName> = wanted.iter().map(|tp| tp.topic.clone()).collect();
        let there = |topics: &BTreeMap<TopicName, i32>, name: &TopicName| topics.contains_key(name);
        let source: Vec<TopicName> = topics.iter().cloned().collect();
        let mirrors =
            topics.iter().map(|topic| self.mirror_of(&TopicPartition::new(topic.clone(), 0)));
        let mirrors: Vec<TopicName> = mirrors
            .map(|mirror| mirror.topic)
            .filter(|name| self.target.topics.as_ref().is_ok_and(|topics| there(topics, name)))
            .collect();
        let (source, target, brokers) = tokio::join!(
            settings(&observer.source, &source),
            settings(&observer.target, &mirrors),
            observer.target.brokers(),
        );
        self.contents.source_settings = source;
        self.contents.target_settings = target;
        self.contents.target_brokers = brokers.ok().map(|brokers| brokers.len());
        self.contents.recent = self.recent(&observer.source, wanted).await;
        let mut jobs: Vec<Job> = wanted.iter().filter_map(|tp| self.job(tp)).collect();
        // Where there are too many, those go first that are more than a sample.
        jobs.sort_by_key(Job::is_sample_alone);
        jobs.truncate(PARTITIONS_MAX);
        let look = |job| look(observer.source.clone(), observer.target.clone(), job);
        let jobs: Vec<_> = jobs.into_iter().map(look).collect();
        for found in in_parallel(JOBS_AT_ONCE, jobs).await {
            let Found { tp, places, samples, aborted, extras, too_large } = found;
            let contents = &mut self.contents;
            let places = places.into_iter().map(|(source, place)| ((tp.clone(), source), place));
            contents.places.extend(places);
            contents.samples.insert(tp.clone(), samples);
            contents.extras.insert(tp.clone(), extras);
            contents.aborted.extend(aborted.map(|aborted| (tp.clone(), aborted)));
            contents.too_large.extend(too_large.map(|record| (tp, record)));
        }
    }

    /// What came within two rounds, which a group may well be behind.
    async fn recent(
        &self,
        source: &Cluster,
        wanted: &BTreeSet<TopicPartition>,
    ) -> BTreeMap<TopicPartition, u64> {
        let config = &self.config;
        let round = config.checkpoints_interval + config.sync_group_offsets_interval;
        let rounds = i64::try_from(round.as_millis().saturating_mul(2)).unwrap_or(i64::MAX);
        let since = self.now_ms.saturating_sub(rounds).max(0);
        let specs: Vec<_> =
            wanted.iter().map(|tp| (tp.clone(), OffsetSpec::Timestamp(since))).collect();
        let listed = source.list_offsets(&specs, Isolation::ReadUncommitted).await;
        let came = listed.unwrap_or_default().into_iter().filter_map(|(tp, listed)| {
            // Nothing that young: -1.
            let first = listed.ok()?.offset;
            let (_, end) = *self.source_bounds.get(&tp)?;
            let came = if first < 0 { 0 } else { SourceOffset(end).since(SourceOffset(first)) };
            Some((tp, came))
        });
        came.collect()
    }

    /// What has to be read of a partition; positions that need no reading are put down at once.
    fn job(&mut self, tp: &TopicPartition) -> Option<Job> {
        let mirror = self.mirror_of(tp);
        let isolation = if self.mm2.reads_committed() {
            Isolation::ReadCommitted
        } else {
            Isolation::ReadUncommitted
        };
        let mut job = Job {
            tp: tp.clone(),
            mirror: mirror.clone(),
            counts: Vec::new(),
            samples: Vec::new(),
            range: None,
            extras: Vec::new(),
            waits: self.waits(tp, &mirror),
            isolation,
        };
        let asked = self.asked(tp);
        let (Some(source), Some(target)) =
            (self.source_bounds.get(tp).copied(), self.bounds.get(&mirror).copied())
        else {
            return None;
        };
        let bounds = Bounds {
            source: (SourceOffset(source.0), SourceOffset(source.1)),
            target: (TargetOffset(target.0), TargetOffset(target.1)),
        };
        let mut known = Vec::new();
        if let Some(history) = self.sync(tp) {
            for committed in asked {
                match place(history, committed, &bounds) {
                    Place::At(place) => known.push(((tp.clone(), committed), place)),
                    Place::Counted(count) => job.counts.push((committed, count)),
                    Place::Unknown => {}
                }
            }
            let is_there =
                |sync: &SyncOffsets| sync.0 >= bounds.source.0 && sync.1 >= bounds.target.0;
            job.samples =
                history.samples().into_iter().filter(is_there).take(SAMPLES_MAX).collect();
            job.extras = self.extras(history, &bounds);
            let compacted =
                self.contents.source_settings.get(&tp.topic).is_some_and(|topic| topic.compacted);
            job.range = self.range(history, &bounds).filter(|_| !compacted);
        }
        self.contents.places.extend(known);
        let nothing = job.is_sample_alone() && job.samples.is_empty();
        (!nothing).then_some(job)
    }

    /// Where aborted records are looked for: where holes are, and MM2 does not pass them over.
    fn range(&self, history: &SyncHistory, bounds: &Bounds) -> Option<(SyncOffsets, SyncOffsets)> {
        let from = history.within(REACH);
        let worth = history.uneven
            && !self.mm2.reads_committed()
            && from.0 >= bounds.source.0
            && from != history.newest;
        worth.then_some((from, history.newest))
    }

    /// Between which pairs the mirror has more records than the source, with all of them still there.
    fn extras(&self, history: &SyncHistory, bounds: &Bounds) -> Vec<Jump> {
        // Its markers take offsets of the target, which look like records here.
        if self.mm2.is_transactional {
            return Vec::new();
        }
        let is_readable = |jump: &&Jump| {
            let (before, after) = (jump.before, jump.after);
            jump.repeated() > 0
                && before.0.plus(1) >= bounds.source.0
                && before.1.plus(1) >= bounds.target.0
                && after.1.since(before.1) <= BETWEEN_MAX
        };
        history.jumps.iter().rev().filter(is_readable).take(EXTRAS_MAX).copied().collect()
    }

    /// Where the first record that waits is, where one that waits may be too large.
    fn waits(&self, tp: &TopicPartition, mirror: &TopicPartition) -> Option<(SourceOffset, u64)> {
        let failed = self.mm2.failed.values();
        failed.into_iter().find(|task| task.is_too_large())?;
        let limit = self.contents.target_settings.get(&mirror.topic)?.max_message_bytes?;
        let copied = self.mm2.copied.get(tp).copied().unwrap_or(-1);
        let (_, end) = *self.source_bounds.get(tp)?;
        (copied + 1 < end).then_some((SourceOffset(copied + 1), limit))
    }

    /// Where groups stand in a partition of the source.
    pub(crate) fn asked(&self, tp: &TopicPartition) -> BTreeSet<SourceOffset> {
        if let Some(positions) = self.positions.get(tp) {
            return positions.clone();
        }
        let commits = self.group.as_ref().and_then(|group| group.source_commits.as_ref().ok());
        let here = commits.into_iter().flatten().filter(|commit| commit.tp == *tp);
        here.filter(|commit| commit.offset >= 0).map(|commit| SourceOffset(commit.offset)).collect()
    }
}

async fn settings(cluster: &Cluster, topics: &[TopicName]) -> BTreeMap<TopicName, Settings> {
    // Without them nothing is said that depends on them.
    let Ok(described) = cluster.describe_topic_configs(topics).await else {
        return BTreeMap::new();
    };
    let told = described.into_iter().filter_map(|(topic, configs)| {
        let configs = configs.ok()?;
        let value = |name: &str| {
            let entry: Option<&ConfigEntry> = configs.iter().find(|entry| entry.name == name);
            entry.and_then(|entry| entry.value.as_deref())
        };
        let settings = Settings {
            compacted: value("cleanup.policy").is_some_and(|policy| policy.contains("compact")),
            max_message_bytes: value("max.message.bytes").and_then(|bytes| bytes.parse().ok()),
        };
        Some((topic, settings))
    });
    told.collect()
}

/// What could not be read is left out: then nothing is said of it.
async fn look(source: Cluster, target: Cluster, job: Job) -> Found {
    let mut found = Found {
        tp: job.tp.clone(),
        places: Vec::new(),
        samples: Vec::new(),
        aborted: None,
        extras: Vec::new(),
        too_large: None,
    };
    for (committed, count) in &job.counts {
        let counted = counted(&source, &job.tp, (count.from, count.to), job.isolation).await;
        if let Ok(Some(records)) = counted {
            found.places.push((*committed, count.place(records)));
        }
    }
    for sync in &job.samples {
        let pair = tokio::join!(
            source.read_record(&job.tp, sync.0.0),
            target.read_record(&job.mirror, sync.1.0)
        );
        if let (Ok(Some(original)), Ok(Some(image))) = pair {
            let equal = (&original.key, &original.value, &original.headers)
                == (&image.key, &image.value, &image.headers);
            found.samples.push(Sample { sync: *sync, equal });
        }
    }
    if let Some((from, to)) = job.range {
        let range = (from.0, to.0.plus(1));
        let counts = tokio::join!(
            counted(&source, &job.tp, range, Isolation::ReadCommitted),
            counted(&source, &job.tp, range, Isolation::ReadUncommitted),
        );
        if let (Ok(Some(committed)), Ok(Some(all))) = counts {
            let copied = to.1.plus(1).since(from.1);
            found.aborted = Some(Aborted { from: from.0, to: to.0, committed, all, copied });
        }
    }
    for jump in job.extras {
        let extra = extra(&source, &target, (&job.tp, &job.mirror), jump).await;
        found.extras.extend(extra.ok().flatten());
    }
    if let Some((from, limit)) = job.waits {
        found.too_large = too_large(&source, &job.tp, from, limit).await.ok().flatten();
    }
    found
}

/// How many records a range holds; nothing when it would cost too much to tell.
async fn counted(
    source: &Cluster,
    tp: &TopicPartition,
    (from, to): (SourceOffset, SourceOffset),
    isolation: Isolation,
) -> Result<Option<u64>, ClientError> {
    let (mut records, mut bytes) = (0, 0);
    let each = |record: Record| {
        if record.offset >= to.0 {
            return ControlFlow::Break(());
        }
        records += 1;
        bytes += size(&record);
        if bytes > BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    source.read_partition_until(tp, from.0, isolation, each).await?;
    Ok((bytes <= BYTES_MAX).then_some(records))
}

/// What the records of the mirror between two pairs are; nothing when it would cost too much to tell.
///
/// A copy that began again right behind the first pair had gone on from there before, so that what is
/// there twice is among as many records of the source as the mirror has between the two.
async fn extra(
    source: &Cluster,
    target: &Cluster,
    (tp, mirror): (&TopicPartition, &TopicPartition),
    jump: Jump,
) -> Result<Option<Extra>, ClientError> {
    let Jump { before, after } = jump;
    let reach = before.0.plus(after.1.since(before.1));
    let last = reach.max(after.0);
    let (mut there, mut bytes) = (0, 0);
    let mut known = HashSet::new();
    let each = |record: Record| {
        if record.offset > last.0 {
            return ControlFlow::Break(());
        }
        there += u64::from(record.offset <= after.0.0);
        bytes += size(&record);
        known.insert(digest(&record));
        if bytes > BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let from = before.0.plus(1);
    source.read_partition_until(tp, from.0, Isolation::ReadUncommitted, each).await?;
    let (mut copies, mut foreign) = (0, 0);
    let each = |record: Record| {
        if record.offset > after.1.0 {
            return ControlFlow::Break(());
        }
        bytes += size(&record);
        if known.contains(&digest(&record)) {
            copies += 1;
        } else {
            foreign += 1;
        }
        if bytes > BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let from = before.1.plus(1);
    target.read_partition_until(mirror, from.0, Isolation::ReadUncommitted, each).await?;
    Ok((bytes <= BYTES_MAX).then_some(Extra { jump, there, copies, foreign }))
}

/// Equal for records that hold the same.
fn digest(record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&record.key, &record.value).hash(&mut hasher);
    for Header { key, value } in &record.headers {
        (key, value).hash(&mut hasher);
    }
    hasher.finish()
}

async fn too_large(
    source: &Cluster,
    tp: &TopicPartition,
    from: SourceOffset,
    limit: u64,
) -> Result<Option<TooLarge>, ClientError> {
    let (mut records, mut bytes) = (0, 0);
    let mut found = None;
    let each = |record: Record| {
        let size = size(&record);
        records += 1;
        bytes += size;
        if size as u64 > limit {
            found = Some(TooLarge { offset: SourceOffset(record.offset), bytes: size as u64 });
        }
        let enough = found.is_some() || records > SCANNED_MAX || bytes > BYTES_MAX;
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    source.read_partition_until(tp, from.0, Isolation::ReadUncommitted, each).await?;
    Ok(found)
}

fn size(record: &Record) -> usize {
    let header =
        |Header { key, value }: &Header| key.len() + value.as_deref().map_or(0, <[u8]>::len);
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    let headers: usize = record.headers.iter().map(header).sum();
    length(record.key.as_deref()) + length(record.value.as_deref()) + headers
}

#[cfg(test)]
mod tests {
    use twinlog_embedded::NewRecord;
    use twinlog_worlds::World;

    use super::*;

    /// Records `numbers` of a topic, each unlike the others.
    fn records(numbers: std::ops::Range<u32>) -> Vec<NewRecord> {
        let record = |n: u32| NewRecord::new(format!("k-{n}"), format!("v-{n}"));
        numbers.map(record).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn records_that_a_mirror_has_more_are_told_apart_by_what_they_hold() {
        let world = World::new(1);
        world.source.create_topic("orders", 1, &[]).expect("made");
        world.source.append("orders", 0, &records(0..10)).expect("appended");
        let pair = |source, target| (SourceOffset(source), TargetOffset(target));
        let (tp, observer) = (TopicPartition::new("orders", 0), world.observer(""));
        let other = vec![NewRecord::new("x", "y"), NewRecord::new("x", "z")];
        for (name, middle, after, found) in [
            // Somebody else wrote two between 4 and 5.
            ("foreign", other, pair(5, 7), (1, 1, 2)),
            // 5 and 6 were copied, and then again from 5 on.
            ("twice", records(5..7), pair(5, 7), (1, 3, 0)),
        ] {
            world.target.create_topic(name, 1, &[]).expect("made");
            for batch in [records(0..5), middle, records(5..10)] {
                world.target.append(name, 0, &batch).expect("appended");
            }
            let mirror = TopicPartition::new(name, 0);
            let jump = Jump { before: pair(4, 4), after };
            let seen = extra(&observer.source, &observer.target, (&tp, &mirror), jump).await;
            let Extra { there, copies, foreign, .. } = seen.expect("read").expect("few");
            assert_eq!((there, copies, foreign), found, "{name}");
        }
    }
}
