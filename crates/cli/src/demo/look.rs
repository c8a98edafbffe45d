//! What is read from outside: how `twinlog status` sees the groups, and the records at their places.
//!
//! Does not: know what was written; that is the ledger's.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use twinlog_client::{ClientError, Cluster, ErrorCode, Isolation};
use twinlog_engine::observe::{FlowObservation, GroupPosition, Observer};
use twinlog_flow::Standing;
use twinlog_mirror::Configuration;
use twinlog_types::{FlowName, GroupId, State, TopicPartition};

use super::ledger::{Place, Replay};
use super::scene::{GROUPS, Group, Way};
use crate::config;
use crate::output::Failure;

/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How long groups may take to stand as they must; then they are shown as they are.
const SETTLE_WITHIN: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Clients of both clusters, and eyes on both flows.
pub(super) struct Clients {
    there: Observer,
    back: Observer,
}

/// How a group stands by itself and where it has committed.
pub(super) struct Seen {
    pub(super) standing: Standing,
    /// What it has committed on the source and on the target.
    pub(super) source_offset: Option<i64>,
    pub(super) target_offset: Option<i64>,
    pub(super) translation: Option<&'static str>,
}

impl Clients {
    pub(super) fn new(configuration: &Configuration) -> Result<Self, Failure> {
        let observer = |source, target| {
            let flow = config::flow(configuration, &FlowName::new(source, target))?;
            config::observer(configuration, flow, ANSWER_WITHIN)
        };
        Ok(Self { there: observer("hello", "world")?, back: observer("world", "hello")? })
    }

    fn observer(&self, way: Way) -> &Observer {
        match way {
            Way::There => &self.there,
            Way::Back => &self.back,
        }
    }

    pub(super) fn flow(&self, way: Way) -> &FlowName {
        &self.observer(way).config.name
    }

    pub(super) fn source(&self, way: Way) -> &Cluster {
        &self.observer(way).source
    }

    pub(super) fn target(&self, way: Way) -> &Cluster {
        &self.observer(way).target
    }

    /// A partition's name on the target.
    pub(super) fn mirror(&self, way: Way, (topic, partition): Place) -> TopicPartition {
        TopicPartition::new(self.observer(way).config.remote_topic(topic), partition)
    }

    /// Looks until every group stands as it must, or the time is up.
    pub(super) async fn settled(&self) -> (FlowObservation, FlowObservation) {
        let began = Instant::now();
        loop {
            let there = observe(&self.there);
            let back = observe(&self.back);
            let found = tokio::join!(there, back);
            let all = GROUPS.iter().all(|group| stands_as_it_must(group, &found));
            if all || began.elapsed() > SETTLE_WITHIN {
                return found;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// How a group stands.
    pub(super) async fn seen(
        &self,
        group: &Group,
        found: &(FlowObservation, FlowObservation),
    ) -> Result<Seen, Failure> {
        let unknown = || Standing::because(State::Unknown, "status does not know this group");
        let (standing, position) = find(group, found).unwrap_or_else(|| (unknown(), None));
        let source = TopicPartition::new(group.place.0, group.place.1);
        let target = self.mirror(group.way, group.place);
        Ok(Seen {
            standing,
            source_offset: committed(self.source(group.way), group.name, &source).await?,
            target_offset: committed(self.target(group.way), group.name, &target).await?,
            translation: position.map(|position| position.translation),
        })
    }
}

async fn observe(observer: &Observer) -> FlowObservation {
    let mut found = FlowObservation::new(observer.config.name.clone());
    // What took too long is missing, and the next look may find it.
    let _ = tokio::time::timeout(ANSWER_WITHIN, observer.observe(&mut found)).await;
    found
}

fn find(
    group: &Group,
    (there, back): &(FlowObservation, FlowObservation),
) -> Option<(Standing, Option<GroupPosition>)> {
    let flow = if group.way == Way::There { there } else { back };
    let found = flow.groups.iter().find(|found| found.group.as_str() == group.name)?;
    let position = found
        .partitions
        .iter()
        .find(|position| (position.topic.as_str(), position.partition) == group.place);
    let standing = position.map_or(&found.standing, |position| &position.standing);
    Some((standing.clone(), position.cloned()))
}

fn stands_as_it_must(group: &Group, found: &(FlowObservation, FlowObservation)) -> bool {
    match (find(group, found), group.unsynced) {
        (Some((standing, _)), Some(code)) => standing.code == Some(code),
        (Some((standing, Some(position))), None) => {
            standing == Standing::in_sync() && position.committed_target.is_some()
        }
        _ => false,
    }
}

/// What a group has committed (OffsetFetch).
pub(super) async fn committed(
    cluster: &Cluster,
    group: &str,
    place: &TopicPartition,
) -> Result<Option<i64>, Failure> {
    let id = GroupId::from(group);
    let failed = |error| Failure::client(&format!("the offsets of group {group}"), &error);
    let mut answers: BTreeMap<_, _> =
        cluster.fetch_offsets(std::slice::from_ref(&id)).await.map_err(failed)?;
    let refused = |code: ErrorCode| {
        let about = group.to_owned();
        failed(ClientError::Code { api: "OffsetFetch", code, message: None, about })
    };
    let commits = answers.remove(&id).unwrap_or(Ok(Vec::new())).map_err(refused)?;
    let commit = commits.iter().find(|commit| commit.tp == *place && commit.offset >= 0);
    Ok(commit.map(|commit| commit.offset))
}

/// The record that a consumer reads next at `offset` (Fetch, `read_committed`).
pub(super) async fn record_at(
    cluster: &Cluster,
    place: &TopicPartition,
    offset: i64,
) -> Result<Option<String>, Failure> {
    let mut found = None;
    cluster
        .read_partition_until(place, offset, Isolation::ReadCommitted, |record| {
            found = Some(String::from_utf8_lossy(&record.value.unwrap_or_default()).into_owned());
            ControlFlow::Break(())
        })
        .await
        .map_err(|error| Failure::client(&format!("reading {place}"), &error))?;
    Ok(found)
}

/// Reads on from `offset` to the end (Fetch, `read_committed`).
pub(super) async fn read_on(
    cluster: &Cluster,
    place: &TopicPartition,
    offset: i64,
    replay: &mut Replay<'_>,
) -> Result<(), Failure> {
    cluster
        .read_partition_each(place, offset, Isolation::ReadCommitted, |record| {
            replay.take(record.value.as_deref());
        })
        .await
        .map_err(|error| Failure::client(&format!("reading {place}"), &error))?;
    Ok(())
}
