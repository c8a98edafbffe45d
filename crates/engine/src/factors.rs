//! Replication factors that a cluster cannot meet: of the topics that `twinlog run` makes for itself and
//! for MM2's clients, and of the mirrors. Pure.
//!
//! MM2's defaults (3, and 2 for mirrors) are more than a cluster of one broker has. Brokers refuse such a
//! topic with INVALID_REPLICATION_FACTOR, and do not know which property asked for it.
//!
//! Does not: know the brokers' own default, which a factor of -1 stands for.

use twinlog_client::{ClientError, ErrorCode};
use twinlog_mirror::{FlowConfig, Origin};
use twinlog_types::{ClusterAlias, Code, TopicName};

use crate::{decisions, state};

/// What a topic that `run` makes is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// The durable state: without it nothing is copied.
    State,
    /// Mirrors of topics of the source.
    Mirrors,
    /// MM2's offset-syncs.
    OffsetSyncs,
    /// MM2's checkpoints.
    Checkpoints,
    /// MM2's heartbeats.
    Heartbeats,
}

impl Purpose {
    /// The property that says its replication factor, without level.
    pub fn property(self) -> &'static str {
        match self {
            Self::State | Self::OffsetSyncs => "offset-syncs.topic.replication.factor",
            Self::Mirrors => "replication.factor",
            Self::Checkpoints => "checkpoints.topic.replication.factor",
            Self::Heartbeats => "heartbeats.topic.replication.factor",
        }
    }

    fn factor(self, config: &FlowConfig) -> i16 {
        match self {
            Self::State | Self::OffsetSyncs => config.offset_syncs_topic_replication_factor,
            Self::Mirrors => config.replication_factor,
            Self::Checkpoints => config.checkpoints_topic_replication_factor,
            Self::Heartbeats => config.heartbeats_topic_replication_factor,
        }
    }

    /// What it means that such a topic is not there.
    fn consequence(self) -> &'static str {
        match self {
            Self::State => {
                "`twinlog run` cannot start this flow: nothing is copied and no group is carried over"
            }
            Self::Mirrors => "nothing of them is copied",
            Self::OffsetSyncs => {
                "MM2 and its clients cannot translate by it; twinlog's own copy and groups go on"
            }
            Self::Checkpoints => {
                "MM2's clients find no checkpoints; twinlog's own copy and groups go on"
            }
            Self::Heartbeats => "whoever watches MM2's heartbeats finds none",
        }
    }
}

/// A topic that `run` needs of one cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Needed {
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// Its name.
    pub(crate) topic: TopicName,
    /// It is on the source of the flow; else on the target.
    pub(crate) on_source: bool,
}

/// The topics that `run` makes for a flow where they are missing, mirrors left aside.
pub(crate) fn needed(config: &FlowConfig) -> Vec<Needed> {
    let on_target = |purpose, topic| Needed { purpose, topic, on_source: false };
    let mut needed = vec![on_target(Purpose::State, state::topic_name(&config.name.source))];
    if config.emit_offset_syncs_enabled {
        let (purpose, topic) = (Purpose::OffsetSyncs, config.offset_syncs_topic());
        needed.push(Needed { purpose, topic, on_source: !config.offset_syncs_on_target });
    }
    if config.emit_checkpoints_enabled {
        needed.push(on_target(Purpose::Checkpoints, config.checkpoints_topic()));
    }
    if config.emit_heartbeats_enabled {
        needed.push(on_target(Purpose::Heartbeats, config.policy.heartbeats_topic()));
    }
    needed
}

/// A replication factor that a cluster has too few brokers for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unmeetable {
    /// What the topics are for.
    pub purpose: Purpose,
    /// The topics that cannot be made.
    pub topics: Vec<TopicName>,
    /// The cluster that cannot hold them.
    pub cluster: ClusterAlias,
    /// The property, as the file says it, or as it would be said for this flow alone.
    pub key: String,
    /// Where the file says it; `None` for the default.
    pub origin: Option<Origin>,
    /// The factor.
    pub factor: i16,
    /// How many brokers the cluster has.
    pub brokers: usize,
}

impl Unmeetable {
    /// Whether `topics`, all for `purpose`, cannot be made on a cluster of so many brokers.
    pub fn find(
        config: &FlowConfig,
        purpose: Purpose,
        topics: Vec<TopicName>,
        (cluster, brokers): (&ClusterAlias, usize),
    ) -> Option<Self> {
        let factor = purpose.factor(config);
        let enough = factor < 1 || usize::try_from(factor).is_ok_and(|factor| factor <= brokers);
        // A cluster without brokers did not answer.
        if enough || brokers == 0 || topics.is_empty() {
            return None;
        }
        let origin = config.origin(purpose.property()).cloned();
        let key = key(config, purpose);
        let cluster = cluster.clone();
        Some(Self { purpose, topics, cluster, key, origin, factor, brokers })
    }

    /// What is wrong, and what it means.
    pub fn message(&self) -> String {
        format!("{}; {}", self.what(), self.purpose.consequence())
    }

    /// What is wrong.
    pub fn what(&self) -> String {
        let brokers = match self.brokers {
            1 => "1 broker".to_owned(),
            n => format!("{n} brokers"),
        };
        let default = if self.origin.is_none() { " (the default)" } else { "" };
        let topics = match self.topics.as_slice() {
            [one] => one.to_string(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
            [] => String::new(),
        };
        format!(
            "{} has {brokers}, too few for {} replicas{default}: {topics} cannot be made there \
             (INVALID_REPLICATION_FACTOR)",
            self.cluster, self.factor
        )
    }

    /// The line that corrects it.
    pub fn line(&self) -> String {
        format!("{} = {}", self.key, self.brokers)
    }
}

/// The property as the file says it; where it does not, as it is said for this flow.
fn key(config: &FlowConfig, purpose: Purpose) -> String {
    let property = purpose.property();
    match config.origin(property) {
        Some(origin) => origin.key.clone(),
        // The other direction beats, too, whether it is enabled or not.
        None if purpose == Purpose::Heartbeats => property.to_owned(),
        None => format!("{}.{property}", config.name),
    }
}

/// A refusal to make a topic that a flow cannot start without: the finding, and the property to change
/// where the refusal is about the replication factor.
pub(crate) fn refused_start(config: &FlowConfig, error: &ClientError) -> Option<(Code, String)> {
    let ClientError::Code { api: "CreateTopics", code, about, .. } = error else { return None };
    let decisions = decisions::topic_name(&config.name.source);
    let ours = [state::topic_name(&config.name.source), decisions];
    if !ours.iter().any(|topic| topic.as_str() == about)
        || code.name().ends_with("AUTHORIZATION_FAILED")
    {
        return None;
    }
    let target = &config.name.target;
    let next = if *code == ErrorCode::INVALID_REPLICATION_FACTOR {
        let key = key(config, Purpose::State);
        let said = match (config.origin(Purpose::State.property()), Purpose::State.factor(config)) {
            (_, -1) => "the brokers' default.replication.factor".to_owned(),
            (None, factor) => format!("the default, {factor}"),
            (Some(origin), factor) => format!("{factor}, {origin}"),
        };
        format!(
            "say `{key} = N` with no more than the brokers of {target} (now {said}), or add brokers"
        )
    } else {
        format!(
            "let {target} take that topic, or make it there by hand with cleanup.policy=compact"
        )
    };
    let reason = format!(
        "the flow cannot start, so nothing is copied and no group is carried over: {error}; {next}; \
         `twinlog check FILE --online` names all that is in the way; it is tried again every few \
         seconds"
    );
    Some((Code::TopicMissingOnTarget, reason))
}

/// The property that a refused topic of this purpose hangs on, for a log line; nothing for other errors.
pub(crate) fn hint(config: &FlowConfig, purpose: Purpose, error: &ClientError) -> String {
    if error.code() == Some(ErrorCode::INVALID_REPLICATION_FACTOR) {
        let factor = purpose.factor(config);
        format!("; {} is {factor}: say no more than there are brokers", key(config, purpose))
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use twinlog_mirror::Configuration;

    use super::*;

    fn config(lines: &str) -> FlowConfig {
        let text = format!(
            "clusters = hello, world\nhello.bootstrap.servers = h:1\nworld.bootstrap.servers = w:1\n\
             hello->world.enabled = true\n{lines}"
        );
        let read = Configuration::parse("mm2.properties", text.as_bytes(), &[]).expect("sound");
        read.flows()[0].clone()
    }

    fn find(config: &FlowConfig, purpose: Purpose, brokers: usize) -> Option<Unmeetable> {
        Unmeetable::find(config, purpose, vec!["t".into()], (&"world".into(), brokers))
    }

    #[test]
    fn defaults_of_mm2_are_too_much_for_one_broker_and_the_line_says_so() {
        let config = config("");
        for purpose in [Purpose::State, Purpose::OffsetSyncs, Purpose::Checkpoints] {
            let found = find(&config, purpose, 1).expect("3 are more than 1");
            assert_eq!((found.factor, found.brokers, &found.origin), (3, 1, &None));
            let property = purpose.property();
            assert_eq!(found.line(), format!("hello->world.{property} = 1"));
            assert!(found.message().contains("3 replicas (the default)"), "{}", found.message());
            assert_eq!(find(&config, purpose, 3), None);
        }
        assert_eq!(find(&config, Purpose::Mirrors, 2), None);
        assert!(find(&config, Purpose::Mirrors, 1).is_some_and(|found| found.factor == 2));
    }

    #[test]
    fn the_line_of_the_file_is_named_as_it_stands_there() {
        let config = config("heartbeats.topic.replication.factor = 5\nreplication.factor = -1\n");
        let found = find(&config, Purpose::Heartbeats, 3).expect("5 are more than 3");
        assert_eq!(found.origin.as_ref().and_then(|origin| origin.line), Some(5));
        assert_eq!(found.line(), "heartbeats.topic.replication.factor = 3");
        // The brokers choose.
        assert_eq!(find(&config, Purpose::Mirrors, 1), None);
    }

    #[test]
    fn what_is_switched_off_is_not_needed() {
        let purposes = |lines: &str| -> Vec<(Purpose, bool)> {
            let needed = needed(&config(lines));
            needed.into_iter().map(|one| (one.purpose, one.on_source)).collect()
        };
        assert_eq!(
            purposes(""),
            [
                (Purpose::State, false),
                (Purpose::OffsetSyncs, true),
                (Purpose::Checkpoints, false),
                (Purpose::Heartbeats, false)
            ]
        );
        let off = "emit.offset-syncs.enabled = false\nemit.checkpoints.enabled = false\n\
                   emit.heartbeats.enabled = false\n";
        assert_eq!(purposes(off), [(Purpose::State, false)]);
        let on_target = purposes("offset-syncs.topic.location = target\n");
        assert!(on_target.contains(&(Purpose::OffsetSyncs, false)));
    }

    #[test]
    fn a_refused_state_topic_is_told_with_its_property_and_others_are_not() {
        let error = |code, about: &str| ClientError::Code {
            api: "CreateTopics",
            code,
            message: None,
            about: about.to_owned(),
        };
        let (config, state) = (config(""), "mm2-twinlog.hello.internal");
        let factor = ErrorCode::INVALID_REPLICATION_FACTOR;
        let (code, reason) = refused_start(&config, &error(factor, state)).expect("a refusal");
        assert_eq!(code, Code::TopicMissingOnTarget);
        let named = "`hello->world.offset-syncs.topic.replication.factor = N`";
        assert!(reason.contains(named) && reason.contains("the default, 3"), "{reason}");
        assert!(reason.contains("`twinlog check FILE --online`"), "{reason}");
        let policy = refused_start(&config, &error(ErrorCode::POLICY_VIOLATION, state));
        assert!(policy.is_some_and(|(_, reason)| reason.contains("by hand")));
        let denied = error(ErrorCode::TOPIC_AUTHORIZATION_FAILED, state);
        assert_eq!(refused_start(&config, &denied), None);
        assert_eq!(refused_start(&config, &error(factor, "orders")), None);
    }
}
