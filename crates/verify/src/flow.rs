//! A flow: what is in scope, what was found, and the verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use twinlog_client::{ClientError, Cluster, ErrorCode, Isolation, TopicInfo, Topics};
use twinlog_engine::in_parallel;
use twinlog_engine::observe::{Mapped, MappedPartition, Observer, Rights, RightsFor};
use twinlog_mirror::formats::OffsetSync;
use twinlog_mirror::replicates;
use twinlog_types::{ClusterAlias, ClusterId, Code, FlowName, GroupId, TopicName, TopicPartition};

use crate::groups::{GroupReport, GroupResult, Position};
use crate::partition::{How, Job, PartitionReport};
use crate::read::Log;
use crate::resume::Progress;

/// How many partitions are sampled at the same time; a sample is mostly waiting.
pub(crate) const SAMPLED_AT_A_TIME: usize = 8;
/// How many are compared as a whole at the same time: one is decoded while another waits.
const COMPARED_AT_A_TIME: usize = 2;

/// Records of all partitions together, where nobody says how many: seconds.
const SAMPLE_TOTAL: u64 = 200_000;
const SAMPLE_MIN: u64 = 100;
const SAMPLE_MAX: u64 = 2_000;

/// Newest pairs of MM2 that are kept of a partition.
const SYNCS_MAX: usize = 1_000;

/// What is to be verified.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Only this group, and the topics it has commits on.
    pub group: Option<GroupId>,
    /// Only this topic, by its name or its mirror's.
    pub topic: Option<TopicName>,
    /// How much; by default as much as takes seconds.
    pub how: Option<How>,
}

/// A cluster that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Side {
    /// What the file calls it.
    pub alias: ClusterAlias,
    /// Where it was connected to first.
    pub bootstrap: String,
    /// Which cluster it is.
    pub id: Option<ClusterId>,
}

/// What a failover now would lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rpo {
    /// Records that are not on the target.
    pub records: u64,
    /// Bytes of their keys, values and headers.
    pub bytes: u64,
    /// How old the first of them is.
    pub ms: u64,
    /// Counted one by one; else an upper bound by offsets.
    pub exact: bool,
}

/// What was found of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowReport {
    /// The flow.
    pub flow: FlowName,
    /// The source.
    pub source: Side,
    /// The target.
    pub target: Side,
    /// When it was begun and ended, in milliseconds since 1970.
    pub at_ms: (i64, i64),
    /// How much was compared.
    pub how: How,
    /// By topic and partition.
    pub partitions: Vec<PartitionReport>,
    /// By group, topic and partition.
    pub groups: Vec<GroupReport>,
    /// What could not be found out.
    pub troubles: Vec<String>,
    /// What is worth knowing.
    pub notes: Vec<String>,
    /// The rights that were missing.
    pub rights: Rights,
    /// The commands that give them.
    pub grants: Vec<String>,
    /// Bytes of batches that were read as a whole, on the source and on the target.
    pub bytes: (u64, u64),
}

/// What a report comes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Everything that was looked at is as it should be.
    Equal,
    /// Something is not.
    Mismatch,
    /// Something could not be found out.
    NotFoundOut,
}

impl FlowReport {
    /// Nothing found yet.
    pub fn new(observer: &Observer, how: How, now_ms: i64) -> Self {
        let name = &observer.config.name;
        let side = |alias: &ClusterAlias, cluster: &Cluster| Side {
            alias: alias.clone(),
            bootstrap: cluster.bootstrap(),
            id: None,
        };
        Self {
            flow: name.clone(),
            source: side(&name.source, &observer.source),
            target: side(&name.target, &observer.target),
            at_ms: (now_ms, now_ms),
            how,
            partitions: Vec::new(),
            groups: Vec::new(),
            troubles: Vec::new(),
            notes: Vec::new(),
            rights: Rights::default(),
            grants: Vec::new(),
            bytes: (0, 0),
        }
    }

    /// Takes note of what could not be found out, once.
    pub(crate) fn trouble(&mut self, trouble: String) {
        if !self.troubles.contains(&trouble) {
            self.troubles.push(trouble);
        }
    }

    /// Takes over what was found of partitions by now; for a caller who gives up waiting.
    pub fn take_found(&mut self, progress: &Progress) {
        self.partitions.append(&mut progress.take_found());
        self.partitions.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        self.bytes = progress.bytes();
    }

    /// What a failover now would lose.
    pub fn rpo(&self) -> Rpo {
        let mut rpo = Rpo { exact: true, ..Rpo::default() };
        for waiting in self.partitions.iter().filter_map(|one| one.waiting) {
            rpo.records += waiting.records;
            rpo.bytes += waiting.bytes;
            rpo.exact &= waiting.exact;
            let since = waiting.since_ms.filter(|_| waiting.records > 0);
            let age = since.map_or(0, |since| self.at_ms.0.saturating_sub(since).max(0));
            rpo.ms = rpo.ms.max(age.unsigned_abs());
        }
        rpo
    }

    /// Why a failover now would not be right; empty when it would.
    pub fn against(&self) -> Vec<String> {
        let mut against = self.troubles.clone();
        let mut count = |what: &str, places: Vec<String>| {
            if let Some(first) = places.first() {
                let more = places.len() - 1;
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                against.push(format!("{what}: {first}{more}"));
            }
        };
        let place = |one: &PartitionReport| format!("{}-{}", one.topic, one.partition);
        let partitions = |wanted: &dyn Fn(&PartitionReport) -> bool| -> Vec<String> {
            self.partitions.iter().filter(|one| wanted(one)).map(place).collect()
        };
        count("not on the target", partitions(&|one| one.absent));
        count("contents differ", partitions(&|one| !one.absent && !one.is_faithful()));
        count("could not be compared", partitions(&|one| one.trouble.is_some()));
        let groups = |wanted: &dyn Fn(GroupResult) -> bool| -> Vec<String> {
            let all = self.groups.iter().filter(|one| wanted(one.result));
            all.map(|one| {
                format!("{} on {}-{} ({})", one.group, one.topic, one.partition, one.result.word())
            })
            .collect()
        };
        count("groups would not go on where they were", groups(&GroupResult::is_mismatch));
        count("groups could not be looked at", groups(&|result| result == GroupResult::Unknown));
        against
    }

    /// Whether everything that was looked at is as it should be, and everything could be looked at.
    /// Records that wait to be copied are no obstacle: [`rpo`](Self::rpo) counts them.
    pub fn is_ready(&self) -> bool {
        self.verdict() == Verdict::Equal
    }

    /// What it comes to. That something differs weighs less than that something is not known: more
    /// may differ.
    pub fn verdict(&self) -> Verdict {
        let unknown = !self.troubles.is_empty()
            || self.partitions.iter().any(|one| one.trouble.is_some())
            || self.groups.iter().any(|one| one.result == GroupResult::Unknown);
        let wrong = self.partitions.iter().any(|one| !one.is_faithful())
            || self.groups.iter().any(|one| one.result.is_mismatch());
        match (unknown, wrong) {
            (true, _) => Verdict::NotFoundOut,
            (_, true) => Verdict::Mismatch,
            _ => Verdict::Equal,
        }
    }
}

/// Verifies a flow. What is found is put into `report` as it is found, so that a caller who gives
/// up waiting has the rest.
pub async fn verify(
    observer: &Observer,
    request: &Request,
    progress: &Arc<Progress>,
    report: &mut FlowReport,
) {
    let outcome = Verifier { observer, request }.verify(progress, report).await;
    if let Err(trouble) = outcome {
        report.troubles.push(trouble);
    }
    report.bytes = progress.bytes();
    report.at_ms.1 = (observer.clock)();
}

/// Looks at one flow for one request.
pub(crate) struct Verifier<'a> {
    pub(crate) observer: &'a Observer,
    pub(crate) request: &'a Request,
}

/// What is in scope.
struct Scope {
    jobs: BTreeMap<TopicPartition, Job>,
    positions: Vec<Position>,
}

impl Verifier<'_> {
    async fn verify(
        &self,
        progress: &Arc<Progress>,
        report: &mut FlowReport,
    ) -> Result<(), String> {
        let observer = self.observer;
        let name = &observer.config.name;
        let (source, target) =
            tokio::join!(observer.source.cluster_id(), observer.target.cluster_id());
        let of = |alias: &ClusterAlias, error: &ClientError| format!("{alias}: {error}");
        // Each is told, where neither answers.
        match (&source, &target) {
            (Err(one), Err(other)) => {
                report.troubles.push(of(&name.source, one));
                return Err(of(&name.target, other));
            }
            (Err(error), _) => return Err(of(&name.source, error)),
            (_, Err(error)) => return Err(of(&name.target, error)),
            _ => {}
        }
        (report.source.id, report.target.id) = (source.ok(), target.ok());
        if report.source.id == report.target.id {
            return Err(format!("{} and {} are one cluster", name.source, name.target));
        }
        self.rights(report).await;
        let scope = self.scope(report).await?;
        let how = self.request.how.unwrap_or_else(|| default_sample(scope.jobs.len()));
        report.how = how;
        let at_a_time = if how == How::Full { COMPARED_AT_A_TIME } else { SAMPLED_AT_A_TIME };
        let work = scope.jobs.values().map(|job| {
            let (job, progress) = (job.clone(), progress.clone());
            async move {
                let found = job.compare(how, &progress).await;
                progress.found(found);
            }
        });
        in_parallel(at_a_time, work.collect()).await;
        report.take_found(progress);
        if report.partitions.iter().any(|one| one.tally.undecided > 0) {
            self.miss(report, |_| true);
        }
        report.groups = self.positions(scope.positions, report).await?;
        Ok(())
    }

    /// What may not be seen would look as if it were not there, or be left out of what is proven.
    async fn rights(&self, report: &mut FlowReport) {
        let asked = self.request.topic.as_ref().map(|topic| {
            let policy = &self.observer.config.policy;
            let own = policy.upstream_topic(topic.as_str());
            let names = [Some(topic.clone()), own.map(TopicName::from)];
            names.into_iter().flatten().collect::<BTreeSet<_>>()
        });
        let group = self.request.group.as_ref();
        let asked = asked.as_ref().filter(|_| group.is_none());
        let wanted = RightsFor { group, topics: asked, mm2: false, target_only: false };
        report.rights = self.observer.rights(&wanted).await;
        // Where all records are on both sides nobody asks how topics are compacted.
        self.miss(report, |operation| operation != "DescribeConfigs");
    }

    fn miss(&self, report: &mut FlowReport, counts: impl Fn(&str) -> bool) {
        let config = &self.observer.config;
        let rights = report.rights.only(counts);
        for (cluster, alias, client) in [
            (&self.observer.source, &config.name.source, &config.source_admin),
            (&self.observer.target, &config.name.target, &config.target_admin),
        ] {
            if let Some(told) = rights.told(alias) {
                report.trouble(told);
                for command in rights.commands(alias, &cluster.bootstrap(), client) {
                    if !report.grants.contains(&command) {
                        report.grants.push(command);
                    }
                }
            }
        }
    }

    /// What is to be compared, by the configuration and the request.
    async fn scope(&self, report: &mut FlowReport) -> Result<Scope, String> {
        let observer = self.observer;
        let commits = self.commits(report).await?;
        let concerned: Option<BTreeSet<TopicName>> = self.request.group.as_ref().map(|group| {
            let mine = commits.iter().filter(|position| position.group == *group);
            mine.map(|position| position.tp.topic.clone()).collect()
        });
        let source = topics(&observer.source, &observer.config.name.source).await?;
        let wanted: Vec<TopicInfo> = source
            .into_iter()
            .filter(|topic| replicates(&observer.config, topic.name.as_str()))
            .filter(|topic| self.is_asked_for(&topic.name))
            .filter(|topic| concerned.as_ref().is_none_or(|names| names.contains(&topic.name)))
            .collect();
        let jobs = self.jobs(&wanted, report).await?;
        let positions = commits
            .into_iter()
            .filter(|position| wanted.iter().any(|topic| topic.name == position.tp.topic));
        Ok(Scope { positions: positions.collect(), jobs })
    }

    fn is_asked_for(&self, topic: &TopicName) -> bool {
        let mirror = || self.observer.config.remote_topic(topic.as_str());
        self.request.topic.as_ref().is_none_or(|asked| asked == topic || *asked == mirror())
    }

    /// The partitions of `topics` and how each is compared. Those that the target does not have are
    /// reported at once.
    pub(crate) async fn jobs(
        &self,
        wanted: &[TopicInfo],
        report: &mut FlowReport,
    ) -> Result<BTreeMap<TopicPartition, Job>, String> {
        let observer = self.observer;
        let name = &observer.config.name;
        let partitions: Vec<TopicPartition> = wanted
            .iter()
            .flat_map(|topic| {
                let numbers = topic.partitions.iter().map(|info| info.partition);
                numbers.map(|number| TopicPartition::new(topic.name.clone(), number))
            })
            .collect();
        let maps = self.maps(&partitions, report).await?;
        let target: BTreeMap<TopicName, TopicInfo> = topics(&observer.target, &name.target)
            .await?
            .into_iter()
            .map(|topic| (topic.name.clone(), topic))
            .collect();
        let by_name = |tp: &TopicPartition| {
            let topic = observer.config.remote_topic(tp.topic.as_str());
            TopicPartition::new(topic, tp.partition)
        };
        let mirror_of = |tp: &TopicPartition| {
            maps.get(tp).map_or_else(|| by_name(tp), |mapped| mapped.target.clone())
        };
        let sources: BTreeSet<TopicName> = partitions.iter().map(|tp| tp.topic.clone()).collect();
        let mirrors: BTreeSet<TopicName> =
            partitions.iter().map(|tp| mirror_of(tp).topic).collect();
        let (source_configs, target_configs) =
            tokio::join!(configs(&observer.source, &sources), configs(&observer.target, &mirrors));
        let by_contents: BTreeSet<&TopicPartition> =
            partitions.iter().filter(|tp| !maps.contains_key(*tp)).collect();
        let syncs = self.syncs(&by_contents, report).await;
        let mut jobs = BTreeMap::new();
        for tp in &partitions {
            let mirror = mirror_of(tp);
            let there = target.get(&mirror.topic).and_then(|topic| topic.partition(tp.partition));
            let source = source_configs.get(&tp.topic).copied().unwrap_or_default();
            let mirrored = target_configs.get(&mirror.topic).copied().unwrap_or_default();
            let with_timestamps = mirrored.stamps != Some(true);
            let log = |cluster: &Cluster, tp: &TopicPartition, with_aborted| Log {
                cluster: cluster.clone(),
                tp: tp.clone(),
                with_timestamps,
                with_aborted,
            };
            let job = Job {
                source: log(&observer.source, tp, true),
                target: log(&observer.target, &mirror, false),
                map: maps.get(tp).cloned(),
                copies_aborted: observer.config.isolation
                    == twinlog_mirror::Isolation::ReadUncommitted,
                compacts: (source.compacts, mirrored.compacts),
                syncs: syncs.get(tp).cloned().unwrap_or_default(),
                stamped: !with_timestamps,
                ids: (
                    wanted.iter().find(|topic| topic.name == tp.topic).map_or_else(String::new, id),
                    target.get(&mirror.topic).map_or_else(String::new, id),
                ),
            };
            if there.is_some() {
                jobs.insert(tp.clone(), job);
            } else if report.rights.hides(&name.target, &mirror.topic) {
                report.partitions.push(job.unseen());
            } else {
                report.partitions.push(job.absent().await);
            }
        }
        Ok(jobs)
    }

    /// The durable maps of twinlog, where there are any.
    async fn maps(
        &self,
        partitions: &[TopicPartition],
        report: &mut FlowReport,
    ) -> Result<BTreeMap<TopicPartition, MappedPartition>, String> {
        let target = &self.observer.config.name.target;
        let failed = |error: ClientError| format!("the state of the mirror on {target}: {error}");
        let mirror = self.observer.mirror().await.map_err(failed)?;
        let mapped: Vec<Mapped> = match mirror.of_source(partitions).await {
            Err(error) if error.code() == Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED) => {
                report.trouble(failed(error));
                return Ok(BTreeMap::new());
            }
            mapped => mapped.map_err(failed)?,
        };
        let mut maps = BTreeMap::new();
        for (tp, mapped) in partitions.iter().zip(mapped) {
            match mapped {
                Ok(mapped) => drop(maps.insert(tp.clone(), mapped)),
                Err(standing) => {
                    let nothing = matches!(
                        standing.code,
                        None | Some(Code::NothingCopied | Code::TopicNotMirrored)
                    );
                    if let Some(reason) = standing.reason.filter(|_| !nothing) {
                        report.notes.push(format!("{tp}: {reason}; contents alone decide"));
                    }
                }
            }
        }
        Ok(maps)
    }

    /// MM2's pairs of offsets, ascending on both sides.
    async fn syncs(
        &self,
        wanted: &BTreeSet<&TopicPartition>,
        report: &mut FlowReport,
    ) -> BTreeMap<TopicPartition, Vec<(i64, i64)>> {
        let mut syncs: BTreeMap<TopicPartition, Vec<(i64, i64)>> = BTreeMap::new();
        let config = &self.observer.config;
        let topic = config.offset_syncs_topic();
        let cluster = if config.offset_syncs_on_target {
            &self.observer.target
        } else {
            &self.observer.source
        };
        if wanted.is_empty() {
            return syncs;
        }
        let listed = cluster.topics(Topics::Named(std::slice::from_ref(&topic))).await;
        let there = listed.ok().and_then(|mut listed| listed.pop());
        let Some(there) = there.filter(|topic| topic.error.is_ok()) else { return syncs };
        for info in there.partitions {
            let tp = TopicPartition::new(topic.clone(), info.partition);
            let reading = cluster.read_partition_each(&tp, 0, Isolation::ReadCommitted, |record| {
                let (key, value) = (record.key.as_deref(), record.value.as_deref());
                let Ok(sync) = OffsetSync::decode(key, value) else { return };
                let tp = TopicPartition::new(sync.topic, sync.partition);
                if wanted.contains(&tp) {
                    let pairs = syncs.entry(tp).or_default();
                    // A step back on either side: what was before is of another life.
                    pairs.retain(|pair| pair.0 < sync.upstream && pair.1 < sync.downstream);
                    pairs.push((sync.upstream, sync.downstream));
                    let over = pairs.len().saturating_sub(SYNCS_MAX);
                    pairs.drain(..over);
                }
            });
            if let Err(error) = reading.await {
                report.notes.push(format!("MM2's offset-syncs could not be read: {error}"));
            }
        }
        syncs
    }
}

/// The id of a topic in hexadecimal digits.
fn id(topic: &TopicInfo) -> String {
    format!("{:032x}", u128::from_be_bytes(topic.id.0))
}

fn default_sample(partitions: usize) -> How {
    let each = SAMPLE_TOTAL / (partitions.max(1) as u64);
    How::Sample(each.clamp(SAMPLE_MIN, SAMPLE_MAX))
}

/// The topics that may be seen.
pub(crate) async fn topics(
    cluster: &Cluster,
    alias: &ClusterAlias,
) -> Result<Vec<TopicInfo>, String> {
    let listed = cluster.topics(Topics::All).await;
    let listed = listed.map_err(|error| format!("the topics of {alias}: {error}"))?;
    Ok(listed.into_iter().filter(|topic| topic.error.is_ok() && !topic.internal).collect())
}

/// What matters of a topic's configs; `None` where it may not be seen.
#[derive(Clone, Copy, Debug, Default)]
struct Configs {
    compacts: Option<bool>,
    /// The broker gives timestamps of its own.
    stamps: Option<bool>,
}

async fn configs(cluster: &Cluster, topics: &BTreeSet<TopicName>) -> BTreeMap<TopicName, Configs> {
    let names: Vec<TopicName> = topics.iter().cloned().collect();
    if names.is_empty() {
        return BTreeMap::new();
    }
    let told = match cluster.describe_topic_configs(&names).await {
        Ok(told) => told,
        Err(error) => {
            tracing::warn!(%error, "configs of topics could not be read");
            return BTreeMap::new();
        }
    };
    let value = |entries: &[twinlog_types::ConfigEntry], name: &str, word: &str| {
        let entry = entries.iter().find(|entry| entry.name == name)?;
        Some(entry.value.as_deref()?.contains(word))
    };
    told.into_iter()
        .filter_map(|(topic, told)| {
            let entries = told.ok()?;
            let compacts = value(&entries, "cleanup.policy", "compact");
            let stamps = value(&entries, "message.timestamp.type", "LogAppendTime");
            Some((topic, Configs { compacts, stamps }))
        })
        .collect()
}
