//! Which topics a flow copies.
//!
//! Reference: `MirrorSourceConnector.shouldReplicateTopic` and `isCycle`.

use crate::config::FlowConfig;
use crate::filter::Verdict;

/// Why a flow leaves a topic out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The topic is Kafka's, MM2's or twinlog's own.
    Internal,
    /// The topic came from the target, at whatever distance: it would go round in a circle.
    Cycle,
    /// The filters leave it out; the verdict says how.
    Filtered(Verdict),
}

/// Whether `flow` copies the topic `topic` of its source, as MM2 decides it: wanted by the filters
/// (or a heartbeats topic), not internal, and not come from the target.
pub fn replicates(flow: &FlowConfig, topic: &str) -> bool {
    why_not_replicated(flow, topic).is_none()
}

/// Why `flow` does not copy `topic`; `None` when it does.
pub fn why_not_replicated(flow: &FlowConfig, topic: &str) -> Option<Refusal> {
    if flow.policy.is_internal_topic(topic) || is_own(topic) {
        return Some(Refusal::Internal);
    }
    if is_cycle(flow, topic) {
        return Some(Refusal::Cycle);
    }
    if flow.heartbeats_replication_enabled && flow.policy.is_heartbeats_topic(topic) {
        return None;
    }
    match flow.topics.why(topic) {
        Verdict::Included => None,
        verdict => Some(Refusal::Filtered(verdict)),
    }
}

/// twinlog's state topics, which MM2's rules miss under some separators.
fn is_own(topic: &str) -> bool {
    topic.starts_with("mm2-twinlog.") && topic.ends_with(".internal")
}

fn is_cycle(flow: &FlowConfig, topic: &str) -> bool {
    let mut topic = topic;
    while let Some(source) = flow.policy.topic_source(topic) {
        if source == flow.name.target.as_str() {
            return true;
        }
        match flow.policy.upstream_topic(topic) {
            Some(upstream) if upstream != topic => topic = upstream,
            _ => return false,
        }
    }
    false
}
