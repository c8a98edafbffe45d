//! What MM2 left on the clusters that a mirror can go on from, and whether it still runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tracing::{info, warn};
use twinlog_client::{ClientError, Cluster, ErrorCode, GroupKind, Isolation, Topics};
use twinlog_mirror::FlowConfig;
use twinlog_mirror::formats::OffsetSync;
use twinlog_mirror::formats::connect::{CopyPosition, SOURCE_CONNECTOR, running_connectors};
use twinlog_types::{GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition};

/// Pairs of one partition that are kept; of more, every second one is dropped.
const PAIRS_MAX: usize = 4_096;
/// How long groups of the target are waited for.
const LIST_WITHIN: Duration = Duration::from_secs(3);
/// Topics that may hold a Connect cluster's offsets and are read at most.
const CANDIDATES_MAX: usize = 8;

/// A place that is the same on both sides, as MM2's offset-syncs have it. A hint: contents decide.
pub(crate) type Pair = (SourceOffset, TargetOffset);

/// What MM2 left.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// The topic its copy positions were found in.
    pub(crate) topic: Option<TopicName>,
    /// How often that topic's partitions are, for writing.
    pub(crate) topic_partitions: i32,
    /// The connector that wrote them last.
    pub(crate) connector: Option<String>,
    /// The last source offset that MM2 says it copied.
    pub(crate) positions: BTreeMap<TopicPartition, i64>,
    /// Pairs of offsets by partition of the source, ascending on both sides.
    pub(crate) pairs: BTreeMap<TopicPartition, Vec<Pair>>,
}

impl Left {
    /// Reads all of it. That offset-syncs cannot be read is no error: they are hints.
    pub(crate) async fn read(
        config: &FlowConfig,
        source: &Cluster,
        target: &Cluster,
    ) -> Result<Self, ClientError> {
        let mut left = Self::read_positions(config, target).await?;
        let cluster = if config.offset_syncs_on_target { target } else { source };
        match read_pairs(config, cluster).await {
            Ok(pairs) => left.pairs = pairs,
            Err(error) => info!(
                flow = %config.name, topic = %config.offset_syncs_topic(), %error,
                "MM2's offset-syncs cannot be read; places are found by contents alone"
            ),
        }
        Ok(left)
    }

    /// The source offset up to which MM2 has copied a partition whose mirror ends at `target_end`, without
    /// that offset: the higher of what its copy position says, which is up to a minute old, and what follows
    /// from its newest offset-sync if every offset behind it was copied. About right: contents are not read.
    pub(crate) fn copied_to(&self, source: &TopicPartition, target_end: i64) -> Option<i64> {
        let stored = self.positions.get(source).map(|last| last + 1);
        let pair = self.pairs.get(source).and_then(|pairs| pairs.last());
        let since = pair.filter(|pair| pair.1.0 < target_end);
        stored.max(since.map(|pair| pair.0.0 + (target_end - pair.1.0)))
    }

    /// Reads MM2's copy positions: from the topic that the file names, or dedicated mode uses; where
    /// that has none of this source, from whatever topic of a Connect cluster has some.
    pub(crate) async fn read_positions(
        config: &FlowConfig,
        target: &Cluster,
    ) -> Result<Self, ClientError> {
        let named = config.copy_positions_topic();
        let left = positions_in(config, target, &named).await?;
        if !left.positions.is_empty() {
            return Ok(left);
        }
        for topic in candidates(target, &named).await? {
            let found = positions_in(config, target, &topic).await?;
            if !found.positions.is_empty() {
                info!(flow = %config.name, %topic, "MM2's copy positions were found here");
                return Ok(found);
            }
        }
        Ok(left)
    }
}

async fn positions_in(
    config: &FlowConfig,
    target: &Cluster,
    topic: &TopicName,
) -> Result<Left, ClientError> {
    let topic_partitions = partitions(target, topic).await?;
    let mut left = Left { topic_partitions, ..Left::default() };
    if left.topic_partitions == 0 {
        return Ok(left);
    }
    left.topic = Some(topic.clone());
    let mut newest: BTreeMap<(TopicPartition, String), (i64, Option<i64>)> = BTreeMap::new();
    for partition in 0..left.topic_partitions {
        let tp = TopicPartition { topic: topic.clone(), partition };
        target
            .read_partition_each(&tp, 0, Isolation::ReadCommitted, |record| {
                let Some(key) = CopyPosition::decode_key(record.key.as_deref()) else { return };
                if key.cluster != config.name.source {
                    return;
                }
                let value = CopyPosition::decode_value(record.value.as_deref());
                let about = TopicPartition { topic: key.topic, partition: key.partition };
                newest.insert((about, key.connector), (record.timestamp, value));
            })
            .await?;
    }
    let mut written = i64::MIN;
    let mut of: BTreeMap<TopicPartition, i64> = BTreeMap::new();
    for ((about, connector), (timestamp, value)) in newest {
        let Some(last) = value else { continue };
        // A connector that was renamed left positions under both names: the later one counts.
        if of.get(&about).is_some_and(|&other| other > timestamp) {
            continue;
        }
        of.insert(about.clone(), timestamp);
        left.positions.insert(about, last);
        if timestamp >= written {
            written = timestamp;
            left.connector = Some(connector);
        }
    }
    Ok(left)
}

async fn partitions(cluster: &Cluster, topic: &TopicName) -> Result<i32, ClientError> {
    let listed = cluster.topics(Topics::Named(std::slice::from_ref(topic))).await?;
    let there = listed.first().filter(|topic| topic.error == ErrorCode::NONE);
    Ok(there.map_or(0, |topic| topic.partitions.len() as i32))
}

/// Whether a topic may by its name be a Connect cluster's offsets.
pub(crate) fn may_hold_positions(name: &TopicName) -> bool {
    let text = name.as_str();
    text.contains("offset") && !text.starts_with("__") && !text.contains("offset-syncs")
}

/// Compacted topics that by their name may be a Connect cluster's offsets.
async fn candidates(target: &Cluster, named: &TopicName) -> Result<Vec<TopicName>, ClientError> {
    let mut names: Vec<TopicName> = target
        .topics(Topics::All)
        .await?
        .into_iter()
        .filter(|topic| topic.error == ErrorCode::NONE && !topic.internal && topic.name != *named)
        .map(|topic| topic.name)
        .filter(may_hold_positions)
        .collect();
    names.sort();
    names.truncate(CANDIDATES_MAX);
    if names.is_empty() {
        return Ok(names);
    }
    let configs = target.describe_topic_configs(&names).await?;
    let compacted = configs.into_iter().filter_map(|(topic, entries)| {
        let entries = entries.ok()?;
        let policy = entries.iter().find(|entry| entry.name == "cleanup.policy")?;
        policy.value.as_deref()?.contains("compact").then_some(topic)
    });
    Ok(compacted.collect())
}

async fn read_pairs(
    config: &FlowConfig,
    cluster: &Cluster,
) -> Result<BTreeMap<TopicPartition, Vec<Pair>>, ClientError> {
    let mut pairs = BTreeMap::new();
    each_sync(config, cluster, |of, pair| {
        take_pair(pairs.entry(of).or_insert_with(Vec::new), pair);
    })
    .await?;
    Ok(pairs)
}

/// Reads MM2's offset-syncs of a flow in their order, from the cluster that holds them.
pub(crate) async fn each_sync(
    config: &FlowConfig,
    cluster: &Cluster,
    mut take: impl FnMut(TopicPartition, Pair) + Send,
) -> Result<(), ClientError> {
    let topic = config.offset_syncs_topic();
    if partitions(cluster, &topic).await? == 0 {
        return Ok(());
    }
    let tp = TopicPartition { topic, partition: 0 };
    cluster
        .read_partition_each(&tp, 0, Isolation::ReadCommitted, |record| {
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            let Ok(sync) = OffsetSync::decode(key, value) else { return };
            let of = TopicPartition { topic: sync.topic, partition: sync.partition };
            take(of, (SourceOffset(sync.upstream), TargetOffset(sync.downstream)));
        })
        .await?;
    Ok(())
}

/// As MM2's own reader does it: a step back on the source (MM2 began again after a kill) makes what
/// was known before worthless.
pub(crate) fn take_pair(pairs: &mut Vec<Pair>, pair: Pair) {
    if pairs.last().is_some_and(|last| pair.0 < last.0 || pair.1 < last.1) {
        pairs.clear();
    }
    if pairs.last().is_none_or(|last| pair.0 > last.0 && pair.1 > last.1) {
        pairs.push(pair);
    }
    if pairs.len() > PAIRS_MAX {
        let mut index = 0;
        pairs.retain(|_| {
            index += 1;
            index % 2 == 1
        });
    }
}

/// A MM2 that copies a flow now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alive {
    /// Who it is, as its group on the target shows.
    pub(crate) who: String,
    /// That it copies, and what to do before another process can.
    pub(crate) reason: String,
}

/// Whether MM2 still copies this flow: the sentence that says so, and what to do.
pub(crate) async fn still_runs(config: &FlowConfig, target: &Cluster) -> Option<String> {
    who_runs(config, target).await.map(|alive| alive.reason)
}

/// The MM2 that copies this flow now. That it cannot be found out holds nobody up: a broker that is down,
/// or a right that is missing, is no MM2.
pub(crate) async fn who_runs(config: &FlowConfig, target: &Cluster) -> Option<Alive> {
    let dedicated: GroupId = config.worker_group().as_str().into();
    let asking = async {
        let mut groups = vec![(dedicated.clone(), true)];
        match tokio::time::timeout(LIST_WITHIN, target.list_groups()).await {
            Ok(Ok(listed)) => {
                let busy = listed.into_iter().filter(|it| {
                    it.kind != GroupKind::Share && !matches!(it.state.as_str(), "Empty" | "Dead")
                });
                groups = busy
                    .map(|it| (it.group == dedicated, it))
                    .filter(|(ours, it)| *ours || it.protocol_type == "connect")
                    .map(|(ours, it)| (it.group, ours))
                    .collect();
            }
            Ok(Err(error)) => {
                warn!(flow = %config.name, %error, "Connect clusters on the target cannot be looked for");
            }
            Err(_) => {
                warn!(flow = %config.name, "Connect clusters on the target cannot be looked for: no answer");
            }
        }
        for (group, ours) in groups {
            if let Some(alive) = alive(config, target, &group, ours).await? {
                return Ok(Some(alive));
            }
        }
        Ok::<_, ClientError>(None)
    };
    match tokio::time::timeout(2 * LIST_WITHIN, asking).await {
        Ok(Ok(alive)) => alive,
        Ok(Err(error)) => {
            warn!(flow = %config.name, %error, "whether MM2 still runs cannot be found out");
            None
        }
        Err(_) => {
            warn!(flow = %config.name, "whether MM2 still runs cannot be found out: no answer");
            None
        }
    }
}

async fn alive(
    config: &FlowConfig,
    target: &Cluster,
    group: &GroupId,
    dedicated: bool,
) -> Result<Option<Alive>, ClientError> {
    let described = match target.describe_group(group, GroupKind::Classic).await {
        Err(error) if error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND) => return Ok(None),
        described => described?,
    };
    if described.members == 0 || described.protocol_type != "connect" {
        return Ok(None);
    }
    let members = described.members;
    if dedicated {
        let word = if members == 1 { "member" } else { "members" };
        let who =
            format!("its worker group {group} on {} has {members} {word}", config.name.target);
        let reason = format!(
            "MM2 still copies this flow: its worker group {group} on {} has {members} members; stop \
             MM2 (this process begins by itself within seconds after that)",
            config.name.target
        );
        return Ok(Some(Alive { who, reason }));
    }
    let running: BTreeSet<String> = described
        .member_list
        .iter()
        .filter_map(|member| running_connectors(&member.assignment).ok())
        .flatten()
        .collect();
    if running.is_empty() {
        return Ok(None);
    }
    let connector = Left::read_positions(config, target).await?.connector;
    let Some(connector) = connector.filter(|name| running.contains(name)) else { return Ok(None) };
    let who = format!(
        "connector {connector} of the Connect cluster {group} on {} has tasks",
        config.name.target
    );
    let reason = format!(
        "MM2 still copies this flow: connector {connector} of the Connect cluster {group} on {} has \
         tasks; stop it (PUT /connectors/{connector}/stop), this process begins by itself within \
         seconds after that",
        config.name.target
    );
    Ok(Some(Alive { who, reason }))
}

/// The name of MM2's connector of copy positions, where none was found.
pub(crate) fn connector_name(left: &Left) -> String {
    left.connector.clone().unwrap_or_else(|| SOURCE_CONNECTOR.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_of_the_syncs_forgets_what_was_before_it() {
        let mut pairs = Vec::new();
        let mut take = |source, target| {
            take_pair(&mut pairs, (SourceOffset(source), TargetOffset(target)));
            pairs.iter().map(|pair| (pair.0.0, pair.1.0)).collect::<Vec<_>>()
        };
        take(0, 0);
        assert_eq!(take(101, 101), [(0, 0), (101, 101)]);
        assert_eq!(take(101, 101), [(0, 0), (101, 101)]);
        // MM2 was killed and copies from the beginning again, behind what is there.
        assert_eq!(take(0, 180), [(0, 180)]);
        assert_eq!(take(90, 270), [(0, 180), (90, 270)]);
    }

    #[test]
    fn many_pairs_are_thinned_out_and_the_newest_kept() {
        let mut pairs = Vec::new();
        for at in 0..3 * PAIRS_MAX as i64 {
            take_pair(&mut pairs, (SourceOffset(at), TargetOffset(at)));
        }
        assert!(pairs.len() <= PAIRS_MAX);
        let newest = pairs.last().map(|pair| pair.0.0);
        assert!(newest >= Some(3 * PAIRS_MAX as i64 - 4), "{newest:?}");
    }
}
