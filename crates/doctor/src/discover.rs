//! Which flows there are between two clusters, where no file says so.
//!
//! MM2 leaves on the target how its connectors are configured; a Connect cluster tells by its REST
//! API. Where neither is to be had, the names of topics and groups tell aliases, separators and
//! policies.
//!
//! Does not: judge, or change what was given on the command line.
//!
//! # Invariants
//!
//! 1. Reading and concluding are apart: [`assume`] is a function of what was [`Seen`].
//! 2. Everything that was concluded is said, with what it was concluded from.

use std::collections::{BTreeMap, BTreeSet};

use twinlog_client::Cluster;
use twinlog_types::{ClusterAlias, FlowName};

use crate::connect::Rest;
use crate::facts::Side;
use crate::mm2::{CHECKPOINT_CONNECTOR, Connector, Mm2, SOURCE_CONNECTOR};
use crate::read::{each_record, side};

/// Keys of connectors that decide what is looked for.
const TAKEN: &[&str] = &[
    "emit.checkpoints.enabled",
    "emit.checkpoints.interval.seconds",
    "emit.offset-syncs.enabled",
    "groups",
    "groups.exclude",
    "offset-syncs.topic.location",
    "offset.lag.max",
    "refresh.groups.enabled",
    "refresh.groups.interval.seconds",
    "refresh.topics.enabled",
    "refresh.topics.interval.seconds",
    "replication.policy.class",
    "replication.policy.internal.topic.separator.enabled",
    "replication.policy.separator",
    "sync.group.offsets.enabled",
    "sync.group.offsets.interval.seconds",
    "topics",
    "topics.exclude",
];

/// Of these what says how things are called and where they are: who takes a mirror over keeps that.
const OF_NAMES: &[&str] = &[
    "offset-syncs.topic.location",
    "replication.policy.class",
    "replication.policy.internal.topic.separator.enabled",
    "replication.policy.separator",
];

/// Of these what the checkpoint connector says counts; of the others, the source connector's.
const OF_CHECKPOINTS: &[&str] = &["groups", "emit.checkpoints", "refresh.groups", "sync.group"];

const CLASS: &str = "replication.policy.class";
const IDENTITY: &str = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";
const SYNC: &str = "sync.group.offsets.enabled";
const SEPARATORS: &[&str] = &[".", "_", "-"];

/// What there is on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenSide {
    /// Its topics.
    pub topics: BTreeSet<String>,
    /// Its groups.
    pub groups: BTreeSet<String>,
    /// Of these the ones with members.
    pub live: BTreeSet<String>,
    /// The connectors of MM2 that `mm2-configs.ALIAS.internal` names, by that alias.
    pub connectors: BTreeMap<String, BTreeMap<String, Connector>>,
}

/// What there is on both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The cluster that is taken for the source.
    pub source: SeenSide,
    /// The cluster that is taken for the target.
    pub target: SeenSide,
    /// Where they are, as the command line has it.
    pub bootstrap: (String, String),
}

/// What was concluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// What the source is called.
    pub source: ClusterAlias,
    /// What the target is called.
    pub target: ClusterAlias,
    /// Lines that a file would have.
    pub properties: Vec<(String, String)>,
    /// Each conclusion, and what it was drawn from.
    pub said: Vec<String>,
    /// Somebody mirrors here, or did, under these names: not only names of topics say so, which two
    /// clusters may share by chance.
    pub is_mirror: bool,
}

impl Seen {
    /// Looks at both clusters.
    pub async fn read(source: &Cluster, target: &Cluster, bootstrap: (String, String)) -> Self {
        let (source, target) = tokio::join!(seen(source, &bootstrap.0), seen(target, &bootstrap.1));
        Self { source, target, bootstrap }
    }
}

async fn seen(cluster: &Cluster, bootstrap: &str) -> SeenSide {
    let mut there = Side::new(ClusterAlias::from(bootstrap), bootstrap.to_owned());
    side(cluster, &mut there).await;
    let topics = there.topics.as_ref().ok().into_iter().flat_map(BTreeMap::keys);
    let topics: BTreeSet<String> = topics.map(ToString::to_string).collect();
    let listings = there.groups.as_ref().ok().into_iter().flatten();
    let groups = listings.clone().map(|(group, _)| group.as_str().to_owned()).collect();
    let live = listings
        .filter(|(_, listing)| !matches!(listing.state.as_str(), "Empty" | "Dead"))
        .map(|(group, _)| group.as_str().to_owned())
        .collect();
    let mut connectors = BTreeMap::new();
    for topic in &topics {
        let alias =
            topic.strip_prefix("mm2-configs.").and_then(|rest| rest.strip_suffix(".internal"));
        let Some(alias) = alias else { continue };
        let mut mm2 = Mm2::default();
        let outcome =
            each_record(cluster, &there, topic, |key, value, _| mm2.take_config(key, value));
        // What may not be read is concluded from names.
        if outcome.await.is_ok() {
            connectors.insert(alias.to_owned(), mm2.connectors);
        }
    }
    SeenSide { topics, groups, live, connectors }
}

/// A flow into a cluster, and how its connectors are configured.
struct Candidate {
    flow: FlowName,
    /// MM2 has connectors for both directions as soon as one of them beats hearts, and tells those of
    /// the other that they are not enabled.
    enabled: bool,
    /// Who runs it now is twinlog, which keeps its state here: MM2's configuration is from before.
    succeeded: Option<String>,
    source: Option<Connector>,
    checkpoint: Option<Connector>,
    from: String,
}

/// Concludes aliases, policies and flows. `given`: aliases that the command line names.
pub fn assume(
    seen: &Seen,
    rest: Option<&Rest>,
    given: (Option<&ClusterAlias>, Option<&ClusterAlias>),
) -> Assumed {
    let mut said = Vec::new();
    let mut there = of_rest(rest);
    there.extend(of_topics(&seen.target));
    there.retain(|one| {
        given.0.is_none_or(|alias| *alias == one.flow.source)
            && given.1.is_none_or(|alias| *alias == one.flow.target)
            && is_plain(&one.flow.source)
            && is_plain(&one.flow.target)
    });
    let (there, idle): (Vec<_>, Vec<_>) = there.into_iter().partition(|one| one.enabled);
    let backs = of_topics(&seen.source);
    let mut is_mirror = true;
    let (source, target, mut properties) = if let Some(one) = chosen(seen, &there) {
        said.push(format!("the flow is {}: {}", one.flow, one.from));
        let others: Vec<String> = there
            .iter()
            .map(|one| one.flow.to_string())
            .filter(|flow| *flow != one.flow.to_string())
            .collect();
        if !others.is_empty() {
            said.push(format!("not looked at: {}", others.join(", ")));
        }
        (one.flow.source.clone(), one.flow.target.clone(), configured(one, &mut said))
    } else if let Some(one) = chosen(seen, &idle) {
        said.push(not_enabled(one));
        let off = (format!("{}.enabled", one.flow), "false".to_owned());
        (one.flow.source.clone(), one.flow.target.clone(), vec![off])
    } else {
        let (source, target, lines, found) = by_names(seen, given, &mut said);
        is_mirror = found;
        (source, target, lines)
    };
    // The way back, where the source is a target too.
    let is_back = |one: &&Candidate| one.flow.source == target && one.flow.target == source;
    match backs.iter().find(|one| one.source.is_some() && is_back(one)) {
        Some(back) if back.enabled => {
            said.push(format!("there is {} too: {}", back.flow, back.from));
            properties.push((format!("{}.enabled", back.flow), "true".to_owned()));
            properties.extend(configured(back, &mut said));
        }
        Some(back) => said.push(not_enabled(back)),
        None => {}
    }
    Assumed { source, target, properties, said, is_mirror }
}

fn not_enabled(one: &Candidate) -> String {
    format!("{} is not looked at: MirrorMaker 2 has it not enabled ({})", one.flow, one.from)
}

/// What a command line can name.
fn is_plain(alias: &ClusterAlias) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    !alias.as_str().is_empty() && alias.as_str().chars().all(plain)
}

fn of_rest(rest: Option<&Rest>) -> Vec<Candidate> {
    let Some(rest) = rest else { return Vec::new() };
    let candidates = rest.flows().into_iter().map(|flow| {
        let mut mm2 = Mm2::default();
        rest.put_into(&mut mm2, &flow);
        let source = mm2.connector(SOURCE_CONNECTOR).cloned();
        let checkpoint = mm2.connector(CHECKPOINT_CONNECTOR).cloned();
        Candidate {
            enabled: source.as_ref().or(checkpoint.as_ref()).is_none_or(is_enabled),
            succeeded: None,
            source,
            checkpoint,
            from: format!("connectors at {}", rest.url),
            flow,
        }
    });
    candidates.collect()
}

fn of_topics(side: &SeenSide) -> Vec<Candidate> {
    let candidates = side.connectors.iter().filter_map(|(alias, connectors)| {
        let named = |name: &str| {
            connectors.get(name).filter(|connector| !connector.config.is_empty()).cloned()
        };
        let (source, checkpoint) = (named(SOURCE_CONNECTOR), named(CHECKPOINT_CONNECTOR));
        let config = &source.as_ref().or(checkpoint.as_ref())?.config;
        let target = config.get("target.cluster.alias").map_or("target", |value| value.trim());
        let source_alias = config.get("source.cluster.alias").map_or(alias.as_str(), |v| v.trim());
        let own = format!("mm2-twinlog.{source_alias}.internal");
        let workers = format!("{source_alias}-mm2");
        let succeeded = side.topics.contains(&own) && !side.live.contains(&workers);
        Some(Candidate {
            enabled: source.as_ref().or(checkpoint.as_ref()).is_none_or(is_enabled),
            succeeded: succeeded.then_some(own),
            flow: FlowName::new(source_alias, target),
            source,
            checkpoint,
            from: format!("topic mm2-configs.{alias}.internal"),
        })
    });
    candidates.collect()
}

fn is_enabled(connector: &Connector) -> bool {
    let said = connector.config.get("enabled");
    said.is_none_or(|said| !said.trim().eq_ignore_ascii_case("false"))
}

/// Of several sources the one that connects to where the command line does, else the one whose
/// topics are on the target.
fn chosen<'a>(seen: &Seen, there: &'a [Candidate]) -> Option<&'a Candidate> {
    let servers: BTreeSet<&str> = seen.bootstrap.0.split(',').map(str::trim).collect();
    let same_address = |one: &Candidate| {
        let config = one.source.as_ref().or(one.checkpoint.as_ref()).map(|one| &one.config);
        let said = config.and_then(|config| config.get("source.cluster.bootstrap.servers"));
        said.is_some_and(|said| said.split(',').any(|server| servers.contains(server.trim())))
    };
    let mirrored = |one: &Candidate| {
        let alias = one.flow.source.as_str();
        SEPARATORS.iter().map(|separator| count_of(seen, alias, separator)).max().unwrap_or(0)
    };
    there.iter().max_by_key(|one| (one.source.is_some(), same_address(one), mirrored(one)))
}

/// How many topics of the source the target has under this alias.
fn count_of(seen: &Seen, alias: &str, separator: &str) -> usize {
    let topics = seen.source.topics.iter();
    topics
        .filter(|topic| seen.target.topics.contains(&format!("{alias}{separator}{topic}")))
        .count()
}

/// What stands between this alias and the names of topics: the checkpoints tell, or most topics.
fn separator_of(seen: &Seen, alias: &str) -> &'static str {
    let checkpoints = |separator: &&&str| {
        let topic = format!("{alias}{separator}checkpoints{separator}internal");
        seen.target.topics.contains(&topic)
    };
    let most = || SEPARATORS.iter().rev().max_by_key(|separator| count_of(seen, alias, separator));
    SEPARATORS.iter().find(checkpoints).or_else(most).copied().unwrap_or(".")
}

/// What the connectors say, as lines of a file.
fn configured(one: &Candidate, said: &mut Vec<String>) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    if let Some(own) = &one.succeeded {
        said.push(format!(
            "twinlog runs {}, or did last (topic {own}): what MirrorMaker 2 was configured with counts \
             for names and places only",
            one.flow
        ));
    }
    for key in TAKEN {
        if one.succeeded.is_some() && !OF_NAMES.contains(key) {
            continue;
        }
        let first_is_checkpoint = OF_CHECKPOINTS.iter().any(|part| key.starts_with(part));
        let (first, second) = if first_is_checkpoint {
            (&one.checkpoint, &one.source)
        } else {
            (&one.source, &one.checkpoint)
        };
        let connector = first.as_ref().or(second.as_ref());
        let value = connector.and_then(|connector| connector.config.get(*key));
        match value.map(|value| value.trim()) {
            Some(class)
                if *key == CLASS && !class.starts_with("org.apache.kafka.connect.mirror.") =>
            {
                said.push(format!("{class} cannot be run here: names are taken to be MM2's own"));
            }
            Some(value) => lines.push((format!("{}.{key}", one.flow), value.to_owned())),
            // Without a file groups are carried over; MM2's default is another.
            None if *key == SYNC => {
                lines.push((format!("{}.{key}", one.flow), "false".to_owned()));
            }
            None => {}
        }
    }
    lines
}

/// Where nothing says how MM2 is configured; and whether internal topics of a mirror tell.
fn by_names(
    seen: &Seen,
    given: (Option<&ClusterAlias>, Option<&ClusterAlias>),
    said: &mut Vec<String>,
) -> (ClusterAlias, ClusterAlias, Vec<(String, String)>, bool) {
    let own = seen.target.topics.iter().find_map(|topic| {
        let alias = topic.strip_prefix("mm2-twinlog.")?.strip_suffix(".internal")?;
        Some((alias, topic.as_str(), separator_of(seen, alias)))
    });
    let checkpoints = || of_pattern(&seen.target.topics, "", "checkpoints");
    let syncs_there = || of_pattern(&seen.target.topics, "mm2-offset-syncs", "");
    let kept = || {
        let kinds = ["mm2-configs", "mm2-offsets", "mm2-status"];
        kinds.iter().find_map(|kind| of_pattern(&seen.target.topics, kind, ""))
    };
    let found = own.or_else(checkpoints).or_else(syncs_there).or_else(kept);
    let found = found.filter(|(alias, ..)| is_plain(&ClusterAlias::from(*alias)));
    let source = match (given.0, found) {
        (Some(alias), _) => alias.clone(),
        (None, Some((alias, topic, _))) => {
            said.push(format!("the source is called {alias}: topic {topic} of the target"));
            alias.into()
        }
        (None, None) => {
            said.push("nothing tells what the source is called: `source` is taken".to_owned());
            "source".into()
        }
    };
    let syncs = of_pattern(&seen.source.topics, "mm2-offset-syncs", "");
    let syncs = syncs.filter(|(alias, ..)| is_plain(&ClusterAlias::from(*alias)));
    let target = match (given.1, syncs) {
        (Some(alias), _) => alias.clone(),
        (None, Some((alias, topic, _))) if alias != source.as_str() => {
            said.push(format!("the target is called {alias}: topic {topic} of the source"));
            alias.into()
        }
        (None, _) => {
            ClusterAlias::from(if source.as_str() == "target" { "other" } else { "target" })
        }
    };
    let flow = FlowName::new(source.clone(), target.clone());
    let mut lines = Vec::new();
    let separator = found.map_or(".", |(_, _, separator)| separator);
    if separator != "." {
        said.push(format!("the separator of names is `{separator}`"));
        lines.push((format!("{flow}.replication.policy.separator"), separator.to_owned()));
    }
    let by_prefix = count_of(seen, source.as_str(), separator);
    let is_own = |topic: &&String| !topic.starts_with("__") && !topic.starts_with("mm2-");
    let topics = || seen.source.topics.iter().filter(is_own);
    let same = topics().filter(|topic| {
        seen.target.topics.contains(topic.as_str()) && !topic.ends_with("heartbeats")
    });
    let same = same.count();
    // A mirror that twinlog began a moment ago has no topic yet.
    let is_mirror = match own {
        Some(_) => 2 * same > topics().count(),
        None => found.is_some() || syncs.is_some(),
    };
    if by_prefix == 0 && same > 0 && !is_mirror {
        said.push(format!(
            "nothing tells that the {same} topics of the same names on both sides are mirrored: names \
             are taken to begin with {source}{separator}"
        ));
    }
    if by_prefix == 0 && same > 0 && is_mirror {
        said.push(format!(
            "names are the same on both sides: {same} topics are, and none begins with \
             {source}{separator}"
        ));
        lines.push((format!("{flow}.{CLASS}"), IDENTITY.to_owned()));
    }
    let on_target = of_pattern(&seen.target.topics, "mm2-offset-syncs", "").is_some();
    if on_target && syncs.is_none() {
        said.push("offset-syncs are on the target".to_owned());
        lines.push((format!("{flow}.offset-syncs.topic.location"), "target".to_owned()));
    }
    // That twinlog keeps the names is a guess, nothing that a second mirror is refused for.
    let is_guess = own.is_some() && lines.iter().any(|(key, _)| key.ends_with(CLASS));
    (source, target, lines, found.is_some() && !is_guess)
}

/// The alias in `PREFIX.ALIAS.internal` or `ALIAS.WORD.internal`, the topic, and the separator.
fn of_pattern<'a>(
    topics: &'a BTreeSet<String>,
    prefix: &str,
    word: &str,
) -> Option<(&'a str, &'a str, &'static str)> {
    topics.iter().find_map(|topic| {
        SEPARATORS.iter().find_map(|separator| {
            let rest = topic.strip_suffix("internal")?.strip_suffix(separator)?;
            let alias = if word.is_empty() {
                rest.strip_prefix(prefix)?.strip_prefix(separator)?
            } else {
                rest.strip_suffix(word)?.strip_suffix(separator)?
            };
            (!alias.is_empty()).then_some((alias, topic.as_str(), *separator))
        })
    })
}

#[cfg(test)]
mod tests;
