//! Tells from outside how a mirror stands, with nothing but the two clusters.
//!
//! [`Observer::observe`] answers `status`, [`Observer::mirror`] answers `translate`. Both work with
//! or without a running process: the durable state on the target says how far each partition was
//! copied, and the target's own tail says what came after the last write of that state.
//!
//! Does not: change anything on either cluster, own the state, see what only the memory of a
//! running process knows (why the target refuses a record, for one).
//!
//! # Invariants
//!
//! 1. Things are read in an order that never makes a healthy mirror look wrong: the target's
//!    commits before the source's, both before the state that translates them, the source's ends
//!    before the positions that are compared with them.
//! 2. The durable position is advanced by the tail only where the last batch there is ours and its
//!    sequence accounts for every offset since; else it stands. The state is read after the tail.
//! 3. What could not be found out is said, and everything else is still answered.

mod decide;
mod groups;
mod hindrances;
mod load;
mod mirror;
mod mm2;
mod partitions;
mod plan;
mod rights;
mod tail;
mod topics;
mod torn;

use std::sync::Arc;

use twinlog_client::{ClientError, Cluster, ErrorCode, GroupKind};
use twinlog_flow::Standing;
use twinlog_mirror::FlowConfig;
use twinlog_offsets::state::{Gap, Lease};
use twinlog_types::{ClusterAlias, Code, FlowName, GroupId, Partition, State, TopicName};

pub use hindrances::Hindrance;
pub use load::MappedPartition;
pub use mirror::{Mapped, Mirror};
pub use mm2::{ByMm2, Mm2Answer, Mm2Sight};
pub use plan::{ClockReading, FlowPlan, PlannedPartition, PlannedSide, PlannedStart};
pub use rights::{Resource, Right, Rights, RightsFor, principal, shell_option, shell_word};

pub use crate::state::topic_name as state_topic;

use crate::commits::Followed;
use crate::options::Clock;

/// Partitions that are looked at closely at the same time.
const LOOKS_AT_ONCE: usize = 16;
/// An owner whose lease is older does not run any more.
const LEASE_SILENT_MS: i64 = 15_000;

/// A flow and its two clusters, looked at from outside.
#[derive(Clone)]
pub struct Observer {
    /// The flow.
    pub config: Arc<FlowConfig>,
    /// The enabled flow of the other direction.
    pub opposite: Option<Arc<FlowConfig>>,
    /// The cluster that is read.
    pub source: Cluster,
    /// The cluster that is written.
    pub target: Cluster,
    /// The wall clock.
    pub clock: Clock,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("flow", &self.config.name).finish_non_exhaustive()
    }
}

/// What was found of a flow.
#[derive(Clone, Debug)]
pub struct FlowObservation {
    /// The flow.
    pub flow: FlowName,
    /// How the flow as such stands, its topics and groups left aside: see
    /// [`standing`](Self::standing).
    pub own: Standing,
    /// Who last said that they run it.
    pub lease: Option<Lease>,
    /// That mirrors of this source were copied from another cluster, in a sentence.
    pub replaced: Option<String>,
    /// By name; those that the configuration leaves out come last.
    pub topics: Vec<TopicObservation>,
    /// By name.
    pub groups: Vec<GroupObservation>,
    /// That MM2 makes the mirror, or made it, where no twinlog has run the flow and it was looked for.
    pub mm2: Option<ByMm2>,
    /// How commits of groups can be followed on the source, with the rights of whoever looks.
    pub commits: Option<Followed>,
    /// What could not be found out.
    pub missing: Vec<Missing>,
}

/// Something that could not be found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Which cluster was asked.
    pub cluster: ClusterAlias,
    /// The finding, where the answer names one.
    pub code: Option<Code>,
    /// What was asked, and what came of it.
    pub what: String,
}

/// What was found of a topic.
#[derive(Clone, Debug)]
pub struct TopicObservation {
    /// Its name on the source.
    pub topic: TopicName,
    /// Its name on the target.
    pub target_topic: TopicName,
    /// How it stands as a whole.
    pub standing: Standing,
    /// By number.
    pub partitions: Vec<PartitionObservation>,
}

/// What was found of a partition. Offsets are `None` where they could not be found out.
#[derive(Clone, Debug)]
pub struct PartitionObservation {
    /// Its number.
    pub partition: Partition,
    /// Where the source's log begins.
    pub source_start: Option<i64>,
    /// Where what may be copied ends: the last stable offset, or the high watermark under
    /// `read_uncommitted`.
    pub source_end: Option<i64>,
    /// The next source offset to copy.
    pub copied_to: Option<i64>,
    /// Where the target's log ends.
    pub target_end: Option<i64>,
    /// Offsets between the copy and the end of what may be copied: an upper bound of records.
    pub lag_records: Option<u64>,
    /// How old the first record is that waits to be copied; 0 when none does.
    pub lag_ms: Option<u64>,
    /// How it stands.
    pub standing: Standing,
    /// Ranges that were lost on the source.
    pub gaps: Vec<Gap>,
    /// What waits on the source may not be read with these rights.
    pub is_denied: bool,
}

/// What was found of a group.
#[derive(Clone, Debug)]
pub struct GroupObservation {
    /// Its id.
    pub group: GroupId,
    /// Its kind on the source.
    pub kind: GroupKind,
    /// How it stands as a whole.
    pub standing: Standing,
    /// Since when at the latest, in milliseconds since 1970.
    pub since_ms: i64,
    /// Its positions, by topic and partition.
    pub partitions: Vec<GroupPosition>,
}

/// A group's position in one partition.
#[derive(Clone, Debug)]
pub struct GroupPosition {
    /// The topic on the source.
    pub topic: TopicName,
    /// The topic on the target.
    pub target_topic: TopicName,
    /// The partition.
    pub partition: Partition,
    /// What the group has committed on the source.
    pub source_offset: Option<i64>,
    /// Where that is on the target.
    pub target_offset: Option<i64>,
    /// What the group has committed on the target.
    pub committed_target: Option<i64>,
    /// What the translation is worth.
    pub translation: &'static str,
    /// How the position stands.
    pub standing: Standing,
}

impl FlowObservation {
    /// Nothing found yet.
    pub fn new(flow: FlowName) -> Self {
        Self {
            flow,
            own: Standing::because(State::Unknown, "not looked at"),
            lease: None,
            replaced: None,
            topics: Vec::new(),
            groups: Vec::new(),
            mm2: None,
            commits: None,
            missing: Vec::new(),
        }
    }

    /// Takes note that the look was given up. `mute`: the clusters that did not answer; where both
    /// did, neither answered everything in time.
    pub fn cut_off(&mut self, mute: &[ClusterAlias], within: &str) {
        let both = [self.flow.source.clone(), self.flow.target.clone()];
        let (who, what) = match mute {
            [] => (&both[..], "did not answer everything"),
            mute => (mute, "did not answer"),
        };
        let code = Some(Code::Unreachable);
        for cluster in who {
            let what = format!("{cluster} {what} {within}");
            let missing = Missing { cluster: cluster.clone(), code, what };
            self.missing.push(missing);
        }
        if self.own.state == State::Unknown && self.own.code.is_none() {
            self.own = self.missing_standing();
        }
    }

    /// How the flow stands: as its most urgent part.
    pub fn standing(&self) -> Standing {
        let topics = self.topics.iter().map(|topic| {
            let (name, standing) = (&topic.topic, &topic.standing);
            (format!("topic {name}"), standing)
        });
        let groups = self.groups.iter().map(|group| {
            let (name, standing) = (&group.group, &group.standing);
            (format!("group {name}"), standing)
        });
        worst(&self.own, topics.chain(groups))
    }
}

/// The most urgent of a whole's own standing and those of its parts; a part is named. Of the same
/// state the whole's own finding stands, since it explains its parts'.
fn worst<'a>(own: &Standing, parts: impl Iterator<Item = (String, &'a Standing)>) -> Standing {
    let worst = parts.max_by_key(|(_, standing)| standing.urgency());
    let Some((name, part)) = worst else { return own.clone() };
    let explains = own.code.is_some() && own.state == part.state;
    if explains || part.urgency() <= own.urgency() {
        return own.clone();
    }
    let reason = part.reason.as_ref().map(|reason| format!("{name}: {reason}"));
    Standing { reason, ..part.clone() }
}

impl Observer {
    /// Looks at everything. What is found is put into `found` as it is found, so that a caller who
    /// gives up waiting has the rest.
    pub async fn observe(&self, found: &mut FlowObservation) {
        let name = &self.config.name;
        let (source_id, target_id) =
            tokio::join!(self.source.cluster_id(), self.target.cluster_id());
        let source_id = source_id.map_err(|error| self.miss(found, true, "the cluster", &error));
        let target_id = target_id.map_err(|error| self.miss(found, false, "the cluster", &error));
        let Ok(target_id) = target_id else {
            found.own = found.missing_standing();
            return;
        };
        let Ok(source_id) = source_id else {
            found.own = found.missing_standing();
            if let Err(error) = self.observe_target_only(&target_id, found).await {
                self.miss(found, false, "the state of the mirror", &error);
            }
            return;
        };
        if source_id == target_id {
            found.own = Standing::found(
                State::Stopped,
                Code::SameCluster,
                format!("{} and {} are one cluster ({source_id})", name.source, name.target),
            );
            return;
        }
        self.observe_both(&(source_id, target_id), found).await;
    }

    /// What the target alone tells, for a caller who knows that the source does not answer: how far
    /// the copy is, and who runs the flow.
    pub async fn observe_target(&self, found: &mut FlowObservation) {
        let looked = async {
            let target_id = self.target.cluster_id().await?;
            self.observe_target_only(&target_id, found).await
        };
        match looked.await {
            Ok(()) => found.own = running(found.lease.as_ref(), self.now_ms()),
            Err(error) => {
                self.miss(found, false, "the state of the mirror", &error);
                found.own = found.missing_standing();
            }
        }
    }

    /// Takes note of what could not be found out.
    fn miss(&self, found: &mut FlowObservation, source: bool, what: &str, error: &ClientError) {
        let name = &self.config.name;
        let cluster = if source { name.source.clone() } else { name.target.clone() };
        let what = format!("{what} of {cluster}: {error}").replacen("the cluster of ", "", 1);
        found.missing.push(Missing { cluster, code: code_of(error), what });
    }

    fn now_ms(&self) -> i64 {
        (self.clock)()
    }
}

impl FlowObservation {
    /// How a flow stands of which something essential could not be found out.
    fn missing_standing(&self) -> Standing {
        let what: Vec<&str> = self.missing.iter().map(|missing| missing.what.as_str()).collect();
        Standing {
            state: State::Unknown,
            code: self.missing.iter().find_map(|missing| missing.code),
            reason: Some(what.join("; ")),
        }
    }
}

/// Whether somebody runs the flow, judged by the lease in its state.
fn running(lease: Option<&Lease>, now_ms: i64) -> Standing {
    let Some(lease) = lease else {
        return Standing::found(
            State::Waiting,
            Code::MirrorNotRunning,
            "no twinlog has ever run this flow between these two clusters",
        );
    };
    let ago = now_ms.saturating_sub(lease.renewed_ms).max(0) / 1000;
    if lease.released {
        let reason = format!("{} ended in order {ago} s ago; start `twinlog run`", lease.instance);
        return Standing::found(State::Stopped, Code::MirrorNotRunning, reason);
    }
    if now_ms.saturating_sub(lease.renewed_ms) > LEASE_SILENT_MS {
        let reason = format!(
            "{} has been silent for {ago} s: it was killed, or cannot reach the target",
            lease.instance
        );
        return Standing::found(State::Stopped, Code::MirrorNotRunning, reason);
    }
    Standing::in_sync()
}

/// The finding that an error amounts to.
pub fn code_of(error: &ClientError) -> Option<Code> {
    match error {
        ClientError::Unreachable { .. }
        | ClientError::Timeout { .. }
        | ClientError::Closed { .. } => Some(Code::Unreachable),
        ClientError::Unsupported { .. } => Some(Code::UnsupportedVersion),
        ClientError::Code { code, .. } => code_of_answer(*code),
        _ => None,
    }
}

/// The finding that a code of a broker amounts to.
pub fn code_of_answer(code: ErrorCode) -> Option<Code> {
    match code {
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::GROUP_AUTHORIZATION_FAILED
        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED => Some(Code::MissingPermission),
        ErrorCode::UNSUPPORTED_VERSION => Some(Code::UnsupportedVersion),
        ErrorCode::NETWORK_EXCEPTION | ErrorCode::LEADER_NOT_AVAILABLE => Some(Code::Unreachable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(renewed_ms: i64, released: bool) -> Lease {
        Lease { instance: "one".into(), renewed_ms, released }
    }

    #[test]
    fn a_flow_runs_as_long_as_its_lease_is_renewed() {
        assert_eq!(running(Some(&lease(100_000, false)), 115_000), Standing::in_sync());
        // The owner's clock may be ahead of ours.
        assert_eq!(running(Some(&lease(100_000, false)), 50_000), Standing::in_sync());
        let silent = running(Some(&lease(100_000, false)), 115_001);
        assert_eq!((silent.state, silent.code), (State::Stopped, Some(Code::MirrorNotRunning)));
        let released = running(Some(&lease(100_000, true)), 100_000);
        assert_eq!((released.state, released.code), (State::Stopped, Some(Code::MirrorNotRunning)));
        let never = running(None, 0);
        assert_eq!((never.state, never.code), (State::Waiting, Some(Code::MirrorNotRunning)));
    }

    #[test]
    fn a_look_that_is_given_up_names_who_did_not_answer() {
        let cut_off = |mute: &[&str]| {
            let mut flow = FlowObservation::new(FlowName::new("hello", "world"));
            let mute: Vec<ClusterAlias> = mute.iter().map(|&alias| alias.into()).collect();
            flow.cut_off(&mute, "within 1s");
            assert_eq!((flow.own.state, flow.own.code), (State::Unknown, Some(Code::Unreachable)));
            flow.missing.iter().map(|missing| missing.what.clone()).collect::<Vec<_>>()
        };
        assert_eq!(cut_off(&["world"]), ["world did not answer within 1s"]);
        assert_eq!(cut_off(&["hello", "world"]).len(), 2);
        assert_eq!(
            cut_off(&[]),
            [
                "hello did not answer everything within 1s",
                "world did not answer everything within 1s"
            ]
        );
        // What was found by then stays.
        let mut flow = FlowObservation::new(FlowName::new("hello", "world"));
        flow.own = Standing::in_sync();
        flow.cut_off(&[], "within 1s");
        assert_eq!(flow.own, Standing::in_sync());
    }

    #[test]
    fn a_whole_stands_as_its_most_urgent_part_and_names_it() {
        let mut flow = FlowObservation::new(FlowName::new("hello", "world"));
        flow.own = Standing::in_sync();
        assert_eq!(flow.standing(), Standing::in_sync());
        flow.topics.push(TopicObservation {
            topic: "orders".into(),
            target_topic: "hello.orders".into(),
            standing: Standing::found(State::Stopped, Code::SourceGap, "gone"),
            partitions: Vec::new(),
        });
        let standing = flow.standing();
        assert_eq!((standing.state, standing.code), (State::Stopped, Some(Code::SourceGap)));
        assert_eq!(standing.reason.as_deref(), Some("topic orders: gone"));
        // That nothing runs explains what else is stopped.
        flow.own = Standing::found(State::Stopped, Code::MirrorNotRunning, "silent");
        assert_eq!(flow.standing(), flow.own);
    }
}
