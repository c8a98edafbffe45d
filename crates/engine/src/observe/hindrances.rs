//! What keeps `twinlog run` from doing its work, found before it is tried.

use twinlog_client::{ClientError, Cluster, ErrorCode, Topics};
use twinlog_flow::Standing;
use twinlog_flow::topics::TopicPlan;
use twinlog_mirror::{Origin, PolicyKind};
use twinlog_types::{ClusterId, Code, State, TopicName};

use super::Observer;
use crate::factors::{Needed, Purpose, Unmeetable, needed};
use crate::state;

/// Something that has to be changed before `run` can do all of its work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hindrance {
    /// The finding.
    pub code: Code,
    /// The property to change.
    pub key: String,
    /// Where the configuration says it; `None` for a default.
    pub origin: Option<Origin>,
    /// What is wrong, and what it means.
    pub message: String,
    /// What to do.
    pub suggestion: String,
}

impl From<Unmeetable> for Hindrance {
    fn from(found: Unmeetable) -> Self {
        Self {
            code: Code::TopicMissingOnTarget,
            message: found.message(),
            suggestion: format!("say {}, or add brokers to {}", found.line(), found.cluster),
            key: found.key,
            origin: found.origin,
        }
    }
}

impl Observer {
    /// That both aliases are one cluster.
    pub(super) fn same_cluster(&self, id: &ClusterId) -> Hindrance {
        let name = &self.config.name;
        let (source, target) = (self.source.bootstrap(), self.target.bootstrap());
        let means = match self.config.policy.kind() {
            PolicyKind::Identity => {
                "with IdentityReplicationPolicy each record would be copied onto its own topic, again \
                 and again"
            }
            PolicyKind::Default => "each topic would only be doubled beside itself",
        };
        Hindrance {
            code: Code::SameCluster,
            key: format!("{}.bootstrap.servers", name.target),
            origin: None,
            message: format!(
                "{} ({source}) and {} ({target}) are one and the same cluster, {id}: a mirror into \
                 itself ({means}); `twinlog run` copies nothing",
                name.source, name.target
            ),
            suggestion: format!(
                "correct {}.bootstrap.servers or {}.bootstrap.servers",
                name.source, name.target
            ),
        }
    }

    /// Replication factors of what `run` would make that the clusters have too few brokers for. What
    /// could not be asked for is told to `unread`.
    pub(super) async fn unmeetable(
        &self,
        plan: &TopicPlan,
        (on_source, on_target): (usize, usize),
        unread: &mut Vec<String>,
    ) -> Vec<Hindrance> {
        let (config, name) = (&self.config, &self.config.name);
        let (source, target) = ((&name.source, on_source), (&name.target, on_target));
        let mut found = Vec::new();
        for Needed { purpose, topic, on_source } in needed(config) {
            let (cluster, at) =
                if on_source { (&self.source, source) } else { (&self.target, target) };
            match is_missing(cluster, &topic).await {
                Ok(false) => {}
                Ok(true) => found.extend(Unmeetable::find(config, purpose, vec![topic], at)),
                Err(error) => unread.push(format!("topic {topic} of {}: {error}", at.0)),
            }
        }
        let mirrors = plan.create.iter().map(|creation| creation.target.clone()).collect();
        found.extend(Unmeetable::find(config, Purpose::Mirrors, mirrors, target));
        found.into_iter().map(Hindrance::from).collect()
    }

    /// That the target has too few brokers for the topic of the heartbeats, which are written there for each
    /// pair of clusters, also where no flow is enabled.
    ///
    /// # Errors
    ///
    /// When the target cannot be asked.
    pub async fn heartbeats_hindrance(&self) -> Result<Option<Hindrance>, ClientError> {
        let topic = self.config.policy.heartbeats_topic();
        if !self.config.emit_heartbeats_enabled || !is_missing(&self.target, &topic).await? {
            return Ok(None);
        }
        let at = (&self.config.name.target, self.target.brokers().await?.len());
        let found = Unmeetable::find(&self.config, Purpose::Heartbeats, vec![topic], at);
        Ok(found.map(Hindrance::from))
    }

    /// How a flow stands that nobody ever ran: what a `run` would be refused at its start is told before it
    /// is tried again.
    pub(super) async fn cannot_start(&self, never: Standing) -> Standing {
        let topic = state::topic_name(&self.config.name.source);
        let missing = is_missing(&self.target, &topic).await.unwrap_or(false);
        let brokers = match self.target.brokers().await {
            Ok(brokers) if missing => brokers.len(),
            _ => return never,
        };
        let at = (&self.config.name.target, brokers);
        let Some(found) = Unmeetable::find(&self.config, Purpose::State, vec![topic], at) else {
            return never;
        };
        let reason = format!(
            "{}, and none can start: {}; say {}, or add brokers",
            never.reason.unwrap_or_default(),
            found.what(),
            found.line()
        );
        Standing { state: State::Stopped, code: never.code, reason: Some(reason) }
    }
}

/// Whether a topic does not exist. One that may not be described is not known to be missing.
async fn is_missing(cluster: &Cluster, topic: &TopicName) -> Result<bool, ClientError> {
    let listed = cluster.topics(Topics::Named(std::slice::from_ref(topic))).await?;
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    Ok(listed.first().is_some_and(|topic| topic.error == unknown))
}
