//! How topics are named on the other side, and which names are whose.
//!
//! Does not: know which topics exist or are wanted (see [`replicates`](crate::replicates)).
//!
//! References: KIP-382, KIP-690, KIP-720; `ReplicationPolicy`, `DefaultReplicationPolicy` and
//! `IdentityReplicationPolicy` of Kafka 4.3.0.

use twinlog_types::{ClusterAlias, TopicName};

/// The name of the topic that heartbeats are written to, under every policy.
const HEARTBEATS: &str = "heartbeats";

/// The two naming policies that MM2 brings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PolicyKind {
    /// `DefaultReplicationPolicy`: `orders` of `hello` is `hello.orders` elsewhere.
    Default,
    /// `IdentityReplicationPolicy`: names stay, except those that end in `heartbeats`.
    Identity,
}

/// A naming policy with its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    kind: PolicyKind,
    separator: String,
    internal_separator: String,
    source: Option<ClusterAlias>,
}

impl Policy {
    /// A policy. `internal_separator_enabled` is
    /// `replication.policy.internal.topic.separator.enabled`: whether MM2's own topics use
    /// `separator` too or keep the dot. `source` (`source.cluster.alias`) is what the identity
    /// policy takes every topic's origin to be.
    pub fn new(
        kind: PolicyKind,
        separator: &str,
        internal_separator_enabled: bool,
        source: Option<ClusterAlias>,
    ) -> Self {
        let internal_separator = if internal_separator_enabled { separator } else { "." };
        Self {
            kind,
            separator: separator.to_owned(),
            internal_separator: internal_separator.to_owned(),
            source,
        }
    }

    /// Which policy it is.
    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// What stands between alias and topic.
    pub fn separator(&self) -> &str {
        &self.separator
    }

    /// What stands between the parts of MM2's own topics.
    pub fn internal_separator(&self) -> &str {
        &self.internal_separator
    }

    /// The identity policy renames only what looks like a heartbeats topic, by a plain suffix test.
    fn keeps_name(&self, topic: &str) -> bool {
        self.kind == PolicyKind::Identity && !topic.ends_with(HEARTBEATS)
    }

    /// The name that `topic` of the cluster `source` has on a target.
    pub fn format_remote_topic(&self, source: &str, topic: &str) -> TopicName {
        if self.keeps_name(topic) {
            topic.into()
        } else {
            format!("{source}{}{topic}", self.separator).into()
        }
    }

    /// The alias of the cluster that `topic` was mirrored from; `None` for a local topic. Any name
    /// with the separator in it counts as remote, whether or not the alias exists.
    pub fn topic_source<'a>(&'a self, topic: &'a str) -> Option<&'a str> {
        if self.keeps_name(topic) {
            return self.source.as_ref().map(ClusterAlias::as_str);
        }
        // Java's String.split drops all trailing empty pieces: `a.` and `a..` have one piece.
        let (source, rest) = topic.split_once(&self.separator)?;
        rest.split(&self.separator).any(|piece| !piece.is_empty()).then_some(source)
    }

    /// The name that `topic` has on the cluster that it was mirrored from; `None` for a local
    /// topic.
    pub fn upstream_topic<'a>(&self, topic: &'a str) -> Option<&'a str> {
        if self.keeps_name(topic) {
            return Some(topic);
        }
        let source = self.topic_source(topic)?.len();
        topic.get(source + self.separator.len()..)
    }

    /// The name that `topic` has where it was first written.
    pub fn original_topic<'a>(&self, topic: &'a str) -> &'a str {
        let mut topic = topic;
        while let Some(upstream) = self.upstream_topic(topic).filter(|name| *name != topic) {
            topic = upstream;
        }
        topic
    }

    /// Whether the topic is nothing that anybody wants mirrored: Kafka's own, MM2's own, or a
    /// checkpoints topic.
    pub fn is_internal_topic(&self, topic: &str) -> bool {
        topic.starts_with("__")
            || topic.starts_with('.')
            || self.is_mm2_internal_topic(topic)
            || self.is_checkpoints_topic(topic)
    }

    /// Whether the topic is called like one that MM2 keeps for itself.
    pub fn is_mm2_internal_topic(&self, topic: &str) -> bool {
        topic.starts_with("mm2")
            && topic
                .strip_suffix("internal")
                .is_some_and(|head| head.ends_with(&self.internal_separator))
    }

    /// Whether the topic is a heartbeats topic, here or mirrored from anywhere.
    pub fn is_heartbeats_topic(&self, topic: &str) -> bool {
        self.original_topic(topic) == HEARTBEATS
    }

    /// Whether the topic holds checkpoints.
    pub fn is_checkpoints_topic(&self, topic: &str) -> bool {
        let separator = &self.internal_separator;
        topic
            .strip_suffix("internal")
            .and_then(|head| head.strip_suffix(separator.as_str()))
            .and_then(|head| head.strip_suffix("checkpoints"))
            .is_some_and(|head| head.ends_with(separator))
    }

    /// The topic that heartbeats are written to.
    pub fn heartbeats_topic(&self) -> TopicName {
        HEARTBEATS.into()
    }

    /// The offset-syncs topic that names the cluster `alias`: the one it does *not* lie on.
    pub fn offset_syncs_topic(&self, alias: &str) -> TopicName {
        let separator = &self.internal_separator;
        format!("mm2-offset-syncs{separator}{alias}{separator}internal").into()
    }

    /// The topic with the checkpoints of the groups of `source`.
    pub fn checkpoints_topic(&self, source: &str) -> TopicName {
        let separator = &self.internal_separator;
        format!("{source}{separator}checkpoints{separator}internal").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_with(separator: &str) -> Policy {
        Policy::new(PolicyKind::Default, separator, true, Some("hello".into()))
    }

    fn identity() -> Policy {
        Policy::new(PolicyKind::Identity, ".", true, Some("hello".into()))
    }

    #[test]
    fn sources_split_as_java_splits() {
        let policy = default_with(".");
        for (topic, source, upstream) in [
            ("us-west.", None, None),
            (".b", Some(""), Some("b")),
            ("a..b", Some("a"), Some(".b")),
            ("..", None, None),
            (".", None, None),
            ("", None, None),
            ("a.b.c", Some("a"), Some("b.c")),
            ("a..", None, None),
            ("orders", None, None),
        ] {
            assert_eq!(policy.topic_source(topic), source, "{topic}");
            assert_eq!(policy.upstream_topic(topic), upstream, "{topic}");
        }
        assert_eq!(default_with("--").topic_source("hello--a.b"), Some("hello"));
        assert_eq!(default_with("--").topic_source("hello.a"), None);
    }

    #[test]
    fn names_are_those_that_mm2_made() {
        let dot = default_with(".");
        assert_eq!(dot.format_remote_topic("hello", "a.b").as_str(), "hello.a.b");
        assert_eq!(dot.offset_syncs_topic("world").as_str(), "mm2-offset-syncs.world.internal");
        assert_eq!(dot.checkpoints_topic("hello").as_str(), "hello.checkpoints.internal");

        let low = default_with("_");
        assert_eq!(low.format_remote_topic("hello", "a.b").as_str(), "hello_a.b");
        assert_eq!(low.offset_syncs_topic("world").as_str(), "mm2-offset-syncs_world_internal");
        assert_eq!(low.checkpoints_topic("hello").as_str(), "hello_checkpoints_internal");

        let old = Policy::new(PolicyKind::Default, "_", false, None);
        assert_eq!(old.format_remote_topic("hello", "orders").as_str(), "hello_orders");
        assert_eq!(old.offset_syncs_topic("world").as_str(), "mm2-offset-syncs.world.internal");
        assert_eq!(old.checkpoints_topic("hello").as_str(), "hello.checkpoints.internal");
        assert_eq!(old.heartbeats_topic().as_str(), "heartbeats");
    }

    #[test]
    fn identity_keeps_every_name_but_heartbeats() {
        let policy = identity();
        assert_eq!(policy.format_remote_topic("hello", "orders").as_str(), "orders");
        assert_eq!(policy.topic_source("orders"), Some("hello"));
        assert_eq!(policy.upstream_topic("orders"), Some("orders"));
        assert_eq!(policy.original_topic("a.b"), "a.b");
        assert_eq!(policy.format_remote_topic("hello", "heartbeats").as_str(), "hello.heartbeats");
        assert_eq!(
            policy.format_remote_topic("hello", "myheartbeats").as_str(),
            "hello.myheartbeats"
        );
        assert_eq!(policy.topic_source("heartbeats"), None);
        assert_eq!(policy.topic_source("world.heartbeats"), Some("world"));
        assert_eq!(policy.checkpoints_topic("hello").as_str(), "hello.checkpoints.internal");
        let nobody = Policy::new(PolicyKind::Identity, ".", true, None);
        assert_eq!(nobody.topic_source("orders"), None);
    }

    #[test]
    fn heartbeats_are_known_through_any_number_of_hops() {
        for policy in [default_with("."), identity()] {
            for topic in ["heartbeats", "hello.heartbeats", "b.a.heartbeats"] {
                assert!(policy.is_heartbeats_topic(topic), "{topic}");
            }
            assert!(!policy.is_heartbeats_topic("myheartbeats"));
            assert!(!policy.is_heartbeats_topic("heartbeats.x"));
        }
    }

    #[test]
    fn internal_topics_are_those_of_kafka_and_mm2_and_no_others() {
        let policy = default_with(".");
        for topic in [
            "__consumer_offsets",
            ".x",
            "mm2-offsets.hello.internal",
            "mm2-offset-syncs.world.internal",
            "hello.checkpoints.internal",
            "mm2.internal",
        ] {
            assert!(policy.is_internal_topic(topic), "{topic}");
        }
        for topic in ["x.internal", "x-internal", "a.b", "_x", "mm2-internal", "checkpoints"] {
            assert!(!policy.is_internal_topic(topic), "{topic}");
        }
        // Connect's topics keep their dots whatever the separator is.
        assert!(!default_with("_").is_internal_topic("mm2-offsets.hello.internal"));
        assert!(default_with("_").is_internal_topic("hello_checkpoints_internal"));
    }
}
