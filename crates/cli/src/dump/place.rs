//! Where the records of a kind lie: on which cluster, in which topic; and what to do when that topic
//! is not there.

use twinlog_client::{Cluster, ErrorCode, Topics};
use twinlog_engine::observe::Observer;
use twinlog_mirror::{FlowConfig, Policy};
use twinlog_types::{ClusterAlias, Partition, TopicName};

use crate::args::{Dump, DumpKind};
use crate::output::{Failure, NOT_FOUND_OUT};

/// Kafka's own topic of commits.
const GROUP_LOG: &str = "__consumer_offsets";

/// A topic on one of the clusters of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) on_source: bool,
    pub(crate) topic: TopicName,
}

impl Place {
    pub(crate) fn alias<'a>(&self, flow: &'a FlowConfig) -> &'a ClusterAlias {
        if self.on_source { &flow.name.source } else { &flow.name.target }
    }

    pub(crate) fn cluster<'a>(&self, observer: &'a Observer) -> &'a Cluster {
        if self.on_source { &observer.source } else { &observer.target }
    }
}

/// Where the records that `args` asks for lie in this flow; `None` when `--cluster` names another
/// flow's.
pub(crate) fn place(args: &Dump, kind: DumpKind, flow: &FlowConfig) -> Option<Place> {
    let asked = args.cluster.as_deref();
    if asked.is_some_and(|alias| {
        ![&flow.name.source, &flow.name.target].iter().any(|one| one.as_str() == alias)
    }) {
        return None;
    }
    let or_asked = |on_source| asked.map_or(on_source, |alias| flow.name.source.as_str() == alias);
    let (on_source, topic) = match kind {
        DumpKind::OffsetSyncs => (!flow.offset_syncs_on_target, flow.offset_syncs_topic()),
        DumpKind::Checkpoints => (false, flow.checkpoints_topic()),
        DumpKind::Heartbeats if args.mirrored => {
            (false, flow.remote_topic(flow.policy.heartbeats_topic().as_str()))
        }
        DumpKind::Heartbeats => (or_asked(false), flow.policy.heartbeats_topic()),
        DumpKind::Map => (false, twinlog_engine::state_topic_name(&flow.name.source)),
        DumpKind::Positions => (false, flow.copy_positions_topic()),
        DumpKind::ConsumerOffsets => (or_asked(true), GROUP_LOG.into()),
    };
    Some(Place { on_source, topic })
}

/// The partitions of a place.
pub(crate) async fn partitions(
    observer: &Observer,
    kind: DumpKind,
    place: &Place,
) -> Result<Vec<Partition>, Failure> {
    let flow = &observer.config;
    let alias = place.alias(flow);
    let failed = |error| Failure::client(alias.as_str(), &error);
    let named = std::slice::from_ref(&place.topic);
    let listed = place.cluster(observer).topics(Topics::Named(named)).await.map_err(failed)?;
    let Some(topic) = listed.into_iter().next() else {
        return Err(missing(observer, kind, place).await);
    };
    match topic.error {
        ErrorCode::NONE => Ok(topic.partitions.iter().map(|one| one.partition).collect()),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Err(missing(observer, kind, place).await),
        code => Err(failed(twinlog_client::ClientError::Code {
            api: "Metadata",
            code,
            message: None,
            about: place.topic.to_string(),
        })),
    }
}

/// The topic does not exist: whether it lies elsewhere, or why nothing writes it.
async fn missing(observer: &Observer, kind: DumpKind, place: &Place) -> Failure {
    let flow = &observer.config;
    let alias = place.alias(flow);
    let mut next = None;
    for elsewhere in elsewhere(flow, kind) {
        let named = std::slice::from_ref(&elsewhere.place.topic);
        let listed = elsewhere.place.cluster(observer).topics(Topics::Named(named)).await;
        let there = listed.is_ok_and(|listed| listed.iter().any(|topic| topic.error.is_ok()));
        if there && elsewhere.place != *place {
            let Place { topic, .. } = &elsewhere.place;
            let (on, set) = (elsewhere.place.alias(flow), elsewhere.property);
            next = Some(format!("{topic} exists on {on}: read it with -X '{set}'"));
            break;
        }
    }
    Failure {
        exit: NOT_FOUND_OUT,
        code: "topic-missing".into(),
        message: format!("{}: topic {} does not exist on {alias}", flow.name, place.topic),
        next: next.unwrap_or_else(|| nobody_writes(flow, kind)),
        problems: Vec::new(),
    }
}

/// Another place that another setting would name.
#[derive(Debug)]
struct Elsewhere {
    place: Place,
    property: String,
}

/// Where the records would lie under other settings of MM2.
fn elsewhere(flow: &FlowConfig, kind: DumpKind) -> Vec<Elsewhere> {
    const SEPARATOR: &str = "replication.policy.internal.topic.separator.enabled";
    let policy = &flow.policy;
    // Before it had this setting, MM2 put dots into the names of its own topics.
    let dots = policy.internal_separator() == ".";
    let other = Policy::new(policy.kind(), policy.separator(), dots, None);
    let set_separator = format!("{}.{SEPARATOR}={dots}", flow.name);
    let syncs = |policy: &Policy, on_target: bool| {
        let named = if on_target { &flow.name.source } else { &flow.name.target };
        Place { on_source: !on_target, topic: policy.offset_syncs_topic(named.as_str()) }
    };
    match kind {
        DumpKind::OffsetSyncs => {
            let on_target = flow.offset_syncs_on_target;
            let location = if on_target { "source" } else { "target" };
            vec![
                Elsewhere {
                    place: syncs(policy, !on_target),
                    property: format!("{}.offset-syncs.topic.location={location}", flow.name),
                },
                Elsewhere { place: syncs(&other, on_target), property: set_separator },
            ]
        }
        DumpKind::Checkpoints => {
            let topic = other.checkpoints_topic(flow.name.source.as_str());
            let place = Place { on_source: false, topic };
            vec![Elsewhere { place, property: set_separator }]
        }
        _ => Vec::new(),
    }
}

/// Why nothing may have written it, and what would.
fn nobody_writes(flow: &FlowConfig, kind: DumpKind) -> String {
    let name = &flow.name;
    let off = |property: &str| {
        format!(
            "{property} is false for {name}: nothing writes it; set it to true where it should be written"
        )
    };
    let start = format!("start `twinlog run` or MirrorMaker 2 with {name}, and try again");
    match kind {
        DumpKind::OffsetSyncs if !flow.emit_offset_syncs_enabled => {
            off("emit.offset-syncs.enabled")
        }
        DumpKind::Checkpoints if !flow.emit_checkpoints_enabled => off("emit.checkpoints.enabled"),
        DumpKind::Heartbeats if !flow.emit_heartbeats_enabled => off("emit.heartbeats.enabled"),
        DumpKind::OffsetSyncs | DumpKind::Heartbeats => start,
        DumpKind::Checkpoints => {
            format!("it is made with the first group that is translated; {start}")
        }
        DumpKind::Map => {
            "start `twinlog run`: it makes this topic before it copies anything".into()
        }
        DumpKind::Positions => format!(
            "MirrorMaker 2 has not run {name} in dedicated mode; on a Connect cluster name the topic of \
             its workers: -X 'offset.storage.topic=NAME'"
        ),
        DumpKind::ConsumerOffsets => "no group has committed on this cluster yet".into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use twinlog_mirror::Configuration;

    use super::*;
    use crate::args::{Args, Command};

    fn flow(more: &str) -> FlowConfig {
        let file = format!(
            "clusters=hello,world\nhello.bootstrap.servers=a:1\nworld.bootstrap.servers=b:1\n\
             hello->world.enabled=true\n{more}"
        );
        let reading = Configuration::read("mm2.properties", file.as_bytes(), &[], None);
        assert!(reading.problems.is_empty(), "{:?}", reading.problems);
        reading.configuration.flows()[0].clone()
    }

    fn asked(more: &[&str]) -> Dump {
        let args = ["twinlog", "dump", "mm2.properties"].iter().chain(more);
        match Args::try_parse_from(args).expect("usable").command {
            Command::Dump(dump) => dump,
            other => panic!("{other:?}"),
        }
    }

    fn found(more: &str, words: &[&str]) -> Option<(bool, String)> {
        let (args, flow) = (asked(words), flow(more));
        let kind = args.kind.expect("given");
        place(&args, kind, &flow).map(|place| (place.on_source, place.topic.to_string()))
    }

    // Names and places are those at which MirrorMaker 2 4.3.0 left its topics.
    #[test]
    fn every_kind_lies_where_mm2_has_it() {
        let of = |more: &str, words: &[&str]| found(more, words).expect("a place");
        let on = |source: bool, topic: &str| (source, topic.to_owned());
        assert_eq!(of("", &["offset-syncs"]), on(true, "mm2-offset-syncs.world.internal"));
        let target = "offset-syncs.topic.location=target\n";
        assert_eq!(of(target, &["offset-syncs"]), on(false, "mm2-offset-syncs.hello.internal"));
        assert_eq!(of("", &["checkpoints"]), on(false, "hello.checkpoints.internal"));
        let low = "replication.policy.separator=_\n";
        assert_eq!(of(low, &["offset-syncs"]), on(true, "mm2-offset-syncs_world_internal"));
        assert_eq!(of(low, &["checkpoints"]), on(false, "hello_checkpoints_internal"));
        let old = "replication.policy.separator=_\n\
                   replication.policy.internal.topic.separator.enabled=false\n";
        assert_eq!(of(old, &["checkpoints"]), on(false, "hello.checkpoints.internal"));
        assert_eq!(of(low, &["positions"]), on(false, "mm2-offsets.hello.internal"));
        assert_eq!(of("", &["heartbeats"]), on(false, "heartbeats"));
        assert_eq!(of("", &["heartbeats", "--cluster", "hello"]), on(true, "heartbeats"));
        assert_eq!(of(low, &["heartbeats", "--mirrored"]), on(false, "hello_heartbeats"));
        assert_eq!(of("", &["map"]), on(false, "mm2-twinlog.hello.internal"));
        assert_eq!(of("", &["consumer-offsets"]), on(true, "__consumer_offsets"));
        let world = &["consumer-offsets", "--cluster", "world"];
        assert_eq!(of("", world), on(false, "__consumer_offsets"));
        assert_eq!(found("", &["heartbeats", "--cluster", "mars"]), None);
        let connect = "offset.storage.topic=connect-offsets\n";
        assert_eq!(of(connect, &["positions"]), on(false, "connect-offsets"));
    }

    #[test]
    fn other_settings_name_other_places() {
        let names = |more: &str, kind| -> Vec<String> {
            let flow = flow(more);
            let all = elsewhere(&flow, kind).into_iter();
            all.map(|one| format!("{} {}", one.place.topic, one.property)).collect()
        };
        assert_eq!(
            names("replication.policy.separator=_\n", DumpKind::OffsetSyncs),
            [
                "mm2-offset-syncs_hello_internal hello->world.offset-syncs.topic.location=target",
                "mm2-offset-syncs.world.internal hello->world.replication.policy.internal.topic.separator.enabled=false",
            ]
        );
        assert!(names("", DumpKind::Map).is_empty());
    }
}
