//! What a look at a flow must be allowed, and what of it is not.
//!
//! Brokers leave out of their lists what one may not describe, so a look with too few rights would
//! find a cluster on which nothing is. Everything that a look needs is therefore asked for by its
//! name; of what a pattern means, by a name that the pattern's beginning would match.
//!
//! Does not: change what a look sees, or read ACLs. Writing needs more rights, which are not asked for.
//!
//! # What it cannot tell
//!
//! Topics and groups that a pattern matches by more than its beginning are taken for visible when
//! the beginning is; and of topics that the flow leaves out nothing is asked.

mod names;

use std::collections::{BTreeMap, BTreeSet};

use twinlog_client::{ClientError, Cluster, ErrorCode, TopicInfo, TopicRights, Topics};
use twinlog_flow::Standing;
use twinlog_flow::topics::MirroredTopic;
use twinlog_mirror::{ClientProperties, FlowConfig, replicates};
use twinlog_types::{ClusterAlias, Code, GroupId, State, TopicName, is_obeyed};

use super::Observer;
use crate::{decisions, state};
use names::{Meant, meant};

/// Kafka's words for operations, as `kafka-acls.sh` takes them.
const READ: &str = "Read";
const DESCRIBE: &str = "Describe";
const DESCRIBE_CONFIGS: &str = "DescribeConfigs";

/// Topics that are named one by one; more are named by what the flow's patterns begin with.
const NAMED_MAX: usize = 10;

/// A right on a cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Right {
    /// Which cluster.
    pub on: ClusterAlias,
    /// What it may be done to.
    pub resource: Resource,
    /// Kafka's word for what may be done (`Describe`, `Read`).
    pub operation: &'static str,
}

/// What a right is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Resource {
    /// A topic.
    Topic(TopicName),
    /// Topics whose names begin so; with nothing, all.
    TopicsFrom(String),
    /// A group.
    Group(GroupId),
    /// Groups whose ids begin so; with nothing, all.
    GroupsFrom(String),
}

impl Resource {
    /// As `kafka-acls.sh` takes it: option, name, and whether that is a beginning.
    fn option(&self) -> (&'static str, &str, bool) {
        let (option, name, begins) = match self {
            Self::Topic(topic) => ("--topic", topic.as_str(), false),
            Self::TopicsFrom(beginning) => ("--topic", beginning.as_str(), true),
            Self::Group(group) => ("--group", group.as_str(), false),
            Self::GroupsFrom(beginning) => ("--group", beginning.as_str(), true),
        };
        if begins && name.is_empty() { (option, "*", false) } else { (option, name, begins) }
    }

    fn words(&self) -> String {
        match self {
            Self::Topic(topic) => format!("topic {topic}"),
            Self::TopicsFrom(beginning) if beginning.is_empty() => "all topics".to_owned(),
            Self::TopicsFrom(beginning) => format!("topics that begin with {beginning}"),
            Self::Group(group) => format!("group {group}"),
            Self::GroupsFrom(beginning) if beginning.is_empty() => "all groups".to_owned(),
            Self::GroupsFrom(beginning) => format!("groups that begin with {beginning}"),
        }
    }
}

/// What is looked at.
#[derive(Clone, Copy, Default, Debug)]
pub struct RightsFor<'a> {
    /// Only this group.
    pub group: Option<&'a GroupId>,
    /// Only these topics of the source.
    pub topics: Option<&'a BTreeSet<TopicName>>,
    /// MM2's topics and workers, too.
    pub mm2: bool,
    /// The source does not answer: only the target is asked.
    pub target_only: bool,
}

/// The rights that are missing.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Rights {
    /// All of them.
    pub missing: BTreeSet<Right>,
    hidden: BTreeSet<(ClusterAlias, TopicName)>,
}

impl Rights {
    /// This one.
    pub fn of(right: Right) -> Self {
        Self { missing: BTreeSet::from([right]), hidden: BTreeSet::new() }
    }

    /// Whether a topic may not be described, so that nobody here knows whether it exists.
    pub fn hides(&self, on: &ClusterAlias, topic: &TopicName) -> bool {
        self.hidden.contains(&(on.clone(), topic.clone()))
    }

    /// Those that are about operations that count.
    #[must_use]
    pub fn only(&self, counts: impl Fn(&str) -> bool) -> Self {
        let missing = self.missing.iter().filter(|right| counts(right.operation));
        Self { missing: missing.cloned().collect(), hidden: self.hidden.clone() }
    }

    /// The topics of a cluster that may not be described.
    pub fn hidden_on(&self, on: &ClusterAlias) -> impl Iterator<Item = &TopicName> {
        self.hidden.iter().filter(move |(cluster, _)| cluster == on).map(|(_, topic)| topic)
    }

    /// Whether a right is among those that are missing, by its name or by what it begins with.
    pub fn tell_of(&self, right: &Right) -> bool {
        let covers = |missing: &Resource| match (missing, &right.resource) {
            (Resource::TopicsFrom(beginning), Resource::Topic(topic)) => {
                topic.as_str().starts_with(beginning.as_str())
            }
            (Resource::GroupsFrom(beginning), Resource::Group(group)) => {
                group.as_str().starts_with(beginning.as_str())
            }
            (missing, wanted) => missing == wanted,
        };
        self.missing.iter().any(|missing| missing.on == right.on && covers(&missing.resource))
    }

    /// What is missing of rights to something by that name.
    pub fn lacking(&self, on: &ClusterAlias, resource: &Resource) -> Option<&Right> {
        self.missing.iter().find(|right| right.on == *on && right.resource == *resource)
    }

    /// What is missing on a cluster, in a sentence without a full stop; `None` where nothing is.
    pub fn told(&self, on: &ClusterAlias) -> Option<String> {
        let mut by_operations: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
        for (resource, operations) in self.by_resource(on) {
            by_operations.entry(operations).or_default().push(resource.words());
        }
        if by_operations.is_empty() {
            return None;
        }
        let told = by_operations.into_iter().map(|(operations, resources)| {
            let operations: Vec<String> = operations.into_iter().map(upper).collect();
            format!("{} on {}", operations.join(" and "), resources.join(", "))
        });
        let told: Vec<String> = told.collect();
        Some(format!("{on}: rights are missing: {}", told.join("; ")))
    }

    /// The commands that give what is missing on a cluster, to who connects as `client` says.
    pub fn commands(
        &self,
        on: &ClusterAlias,
        bootstrap: &str,
        client: &ClientProperties,
    ) -> Vec<String> {
        let mut commands: BTreeMap<(&str, bool, Vec<&str>), Vec<&str>> = BTreeMap::new();
        let resources = self.by_resource(on);
        for (resource, operations) in &resources {
            let (option, name, begins) = resource.option();
            commands.entry((option, begins, operations.clone())).or_default().push(name);
        }
        let principal = shell_word(&principal(client));
        let command = |((option, begins, operations), names): ((&str, bool, Vec<&str>), _)| {
            let mut line = format!(
                "kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal {principal}"
            );
            let names: Vec<&str> = names;
            let operations = operations.into_iter().map(|one| format!(" --operation {one}"));
            line.extend(operations);
            line.extend(names.into_iter().map(|name| format!(" {}", shell_option(option, name))));
            line.push_str(if begins { " --resource-pattern-type prefixed" } else { "" });
            line
        };
        commands.into_iter().map(command).collect()
    }

    fn by_resource(&self, on: &ClusterAlias) -> BTreeMap<&Resource, Vec<&'static str>> {
        let mut by_resource: BTreeMap<&Resource, Vec<&'static str>> = BTreeMap::new();
        for right in self.missing.iter().filter(|right| right.on == *on) {
            by_resource.entry(&right.resource).or_default().push(right.operation);
        }
        for operations in by_resource.values_mut() {
            operations.sort_by_key(|operation| *operation != READ);
        }
        by_resource
    }

    fn lacks(&mut self, on: &ClusterAlias, resource: &Resource, operations: &[&'static str]) {
        let right = |&operation| Right { on: on.clone(), resource: resource.clone(), operation };
        self.missing.extend(operations.iter().map(right));
    }
}

/// `DescribeConfigs` as people know it from tables of rights.
fn upper(operation: &str) -> String {
    let mut word = String::new();
    for c in operation.chars() {
        if c.is_ascii_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(c.to_ascii_uppercase());
    }
    word
}

/// Topics that a look reads on one cluster.
#[derive(Default)]
struct Wanted {
    /// They are listed when they may be described: their records, and their configs.
    mirrored: BTreeSet<TopicName>,
    /// They may be missing. Their records.
    internal: BTreeSet<TopicName>,
    /// What `topics` means: asked for by these names.
    patterns: Vec<Meant>,
    /// How topics that are too many to be named are called.
    beginnings: Vec<Resource>,
    groups: Vec<Meant>,
}

impl Observer {
    /// The rights that whoever looks at the flow lacks. What cannot be asked is left out: the look
    /// itself says so.
    pub async fn rights(&self, wanted: &RightsFor<'_>) -> Rights {
        let mut rights = Rights::default();
        let name = &self.config.name;
        let mut mirrored = BTreeSet::new();
        if !wanted.target_only {
            let asked = self.ask_source(wanted, &mut rights).await;
            match asked {
                Ok(topics) => mirrored = topics,
                Err(error) => tracing::debug!(%error, cluster = %name.source, "rights"),
            }
        }
        let on_target = self.wanted_on_target(wanted, &mirrored);
        if let Err(error) = ask(&self.target, &name.target, on_target, &mut rights).await {
            tracing::debug!(%error, cluster = %name.target, "rights");
        }
        rights
    }

    /// Topics, by their name on the source, that should be on a cluster and may not be described
    /// there, and how they stand therefore.
    pub(super) async fn hidden(
        &self,
        source: &[TopicInfo],
        target: &[TopicInfo],
        known: &[MirroredTopic],
    ) -> BTreeMap<TopicName, Standing> {
        let config = &self.config;
        let there = |all: &[TopicInfo]| -> BTreeSet<TopicName> {
            all.iter().map(|topic| topic.name.clone()).collect()
        };
        let (on_source, on_target) = (there(source), there(target));
        let wanted = on_source.iter().filter(|topic| replicates(config, topic.as_str()));
        let mirrors = wanted.map(|topic| (config.remote_topic(topic.as_str()), topic.clone()));
        let kept = known.iter().map(|topic| (topic.target.clone(), topic.source.clone()));
        let mirrors: BTreeMap<TopicName, TopicName> =
            mirrors.chain(kept).filter(|(mirror, _)| !on_target.contains(mirror)).collect();
        let topics: BTreeMap<TopicName, TopicName> = known
            .iter()
            .map(|topic| (topic.source.clone(), topic.source.clone()))
            .filter(|(topic, _)| !on_source.contains(topic))
            .collect();
        let name = &config.name;
        let mut hidden = BTreeMap::new();
        for (cluster, alias, asked) in
            [(&self.source, &name.source, topics), (&self.target, &name.target, mirrors)]
        {
            let names: Vec<TopicName> = asked.keys().cloned().collect();
            if names.is_empty() {
                continue;
            }
            let told = cluster.topics(Topics::Named(&names)).await.unwrap_or_default();
            let refused =
                told.into_iter().filter(|one| one.error == ErrorCode::TOPIC_AUTHORIZATION_FAILED);
            for one in refused {
                let Some(topic) = asked.get(&one.name) else { continue };
                let reason = format!("topic {} of {alias} may not be described", one.name);
                let standing = Standing::found(State::Unknown, Code::MissingPermission, reason);
                hidden.insert(topic.clone(), standing);
            }
        }
        hidden
    }

    /// Answers the topics that are mirrored, as far as they may be seen.
    async fn ask_source(
        &self,
        wanted: &RightsFor<'_>,
        rights: &mut Rights,
    ) -> Result<BTreeSet<TopicName>, ClientError> {
        let config = &self.config;
        let listed = self.source.topics(Topics::All).await?;
        let names = listed.into_iter().filter(|topic| topic.error.is_ok()).map(|topic| topic.name);
        let mirrored: BTreeSet<TopicName> = names
            .filter(|topic| replicates(config, topic.as_str()))
            .filter(|topic| wanted.topics.is_none_or(|only| only.contains(topic)))
            .collect();
        let patterns = match wanted.topics {
            Some(only) if wanted.group.is_none() => {
                only.iter().map(|topic| Meant::Name(topic.to_string())).collect()
            }
            _ => meant(config.topics.include()),
        };
        let on_source = Wanted {
            mirrored: mirrored.clone(),
            internal: self.syncs_topic(wanted, false),
            beginnings: patterns.iter().map(Meant::topics).collect(),
            patterns,
            groups: groups(config, wanted),
        };
        ask(&self.source, &config.name.source, on_source, rights).await?;
        Ok(mirrored)
    }

    fn wanted_on_target(&self, wanted: &RightsFor<'_>, topics: &BTreeSet<TopicName>) -> Wanted {
        let config = &self.config;
        let mut internal = self.syncs_topic(wanted, true);
        internal.insert(state::topic_name(&config.name.source));
        let mut groups = groups(config, wanted);
        if wanted.mm2 {
            internal.insert(decisions::topic_name(&config.name.source));
            internal.insert(config.checkpoints_topic());
            let storage = ["config.storage.topic", "status.storage.topic", "offset.storage.topic"];
            let storage = storage.iter().filter_map(|key| config.worker.get(*key));
            internal.extend(storage.map(|topic| topic.as_str().into()));
            groups.push(Meant::Name(config.worker_group()));
        }
        let remote = |meant: Meant| match meant {
            Meant::Name(name) => Resource::Topic(config.remote_topic(&name)),
            Meant::From(beginning) => {
                Resource::TopicsFrom(config.remote_topic(&beginning).to_string())
            }
        };
        Wanted {
            mirrored: topics.iter().map(|topic| config.remote_topic(topic.as_str())).collect(),
            internal,
            patterns: Vec::new(),
            beginnings: meant(config.topics.include()).into_iter().map(remote).collect(),
            groups,
        }
    }

    fn syncs_topic(&self, wanted: &RightsFor<'_>, on_target: bool) -> BTreeSet<TopicName> {
        let here = wanted.mm2 && self.config.offset_syncs_on_target == on_target;
        here.then(|| self.config.offset_syncs_topic()).into_iter().collect()
    }
}

fn groups(config: &FlowConfig, wanted: &RightsFor<'_>) -> Vec<Meant> {
    match wanted.group {
        Some(group) => vec![Meant::Name(group.as_str().to_owned())],
        None => meant(config.groups.include()),
    }
}

/// Asks one cluster.
async fn ask(
    cluster: &Cluster,
    on: &ClusterAlias,
    wanted: Wanted,
    rights: &mut Rights,
) -> Result<(), ClientError> {
    let listed: BTreeMap<TopicName, TopicRights> =
        cluster.topic_rights(Topics::All).await?.into_iter().collect();
    let commits = TopicName::from("__consumer_offsets");
    let all = wanted.mirrored.iter().chain(&wanted.internal).cloned();
    let patterns = wanted.patterns.iter().map(|meant| TopicName::from(meant.probe().as_str()));
    let unlisted: BTreeSet<TopicName> = all
        .chain(patterns)
        .chain([commits.clone()])
        .filter(|topic| !listed.contains_key(topic))
        .collect();
    let unlisted: Vec<TopicName> = unlisted.into_iter().collect();
    let named = cluster.topic_rights(Topics::Named(&unlisted)).await?;
    let hidden: BTreeSet<TopicName> =
        named.into_iter().filter(|(_, rights)| !rights.describe).map(|(name, _)| name).collect();
    let may_be_there = listed.contains_key(&commits) || hidden.contains(&commits);
    rights.hidden.extend(hidden.iter().map(|topic| (on.clone(), topic.clone())));

    let readable =
        |topic: &TopicName| listed.get(topic).map_or(!hidden.contains(topic), |r| r.read);
    let described = |topic: &TopicName| {
        listed.get(topic).map_or(!hidden.contains(topic), |r| r.describe_configs)
    };
    let unread: Vec<&TopicName> = wanted.mirrored.iter().filter(|one| !readable(one)).collect();
    let undescribed: Vec<&TopicName> =
        wanted.mirrored.iter().filter(|one| !described(one)).collect();
    for (topics, operation) in [(unread, READ), (undescribed, DESCRIBE_CONFIGS)] {
        if topics.len() > NAMED_MAX {
            for beginning in &wanted.beginnings {
                rights.lacks(on, beginning, &[operation]);
            }
            continue;
        }
        for topic in topics {
            rights.lacks(on, &Resource::Topic(topic.clone()), &[operation]);
        }
    }
    for topic in wanted.internal.iter().filter(|topic| !readable(topic)) {
        rights.lacks(on, &Resource::Topic(topic.clone()), &[READ]);
    }
    for meant in &wanted.patterns {
        if hidden.contains(&TopicName::from(meant.probe().as_str())) {
            rights.lacks(on, &meant.topics(), &[READ, DESCRIBE_CONFIGS]);
        }
    }
    // Where no group ever was, asking for one would make the topic of their commits.
    if may_be_there {
        let ids: Vec<GroupId> =
            wanted.groups.iter().map(|meant| GroupId::from(meant.probe().as_str())).collect();
        let refused = cluster.groups_not_to_be_described(&ids).await?;
        for (meant, id) in wanted.groups.iter().zip(&ids) {
            if refused.contains(id) {
                rights.lacks(on, &meant.groups(), &[DESCRIBE]);
            }
        }
    }
    Ok(())
}

/// Who a client is to a broker; of a certificate only the broker knows.
pub fn principal(client: &ClientProperties) -> String {
    let protocol = client.get("security.protocol").map_or("PLAINTEXT", |value| value.trim());
    let jaas = client.get("sasl.jaas.config").map(String::as_str).unwrap_or_default();
    let name = jaas.split_once("username=").map(|(_, rest)| {
        let rest = rest.trim_start().trim_start_matches(['"', '\'']);
        rest.split(['"', '\'', ' ', ';']).next().unwrap_or_default()
    });
    match name.filter(|name| !name.is_empty() && !name.contains("${")) {
        Some(name) if protocol.to_ascii_uppercase().starts_with("SASL") => format!("User:{name}"),
        _ if protocol.eq_ignore_ascii_case("PLAINTEXT") => "User:ANONYMOUS".to_owned(),
        _ => "User:PRINCIPAL".to_owned(),
    }
}

/// One word to a shell. What a terminal would obey is written as bytes of `$'...'` (bash, zsh, ksh).
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:/@+=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    if !text.contains(is_obeyed) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = "$'".to_owned();
    for c in text.chars() {
        match c {
            '\n' => word.push_str("\\n"),
            '\'' | '\\' => word.extend(['\\', c]),
            c if is_obeyed(c) => {
                let mut bytes = [0; 4];
                // Three digits of base eight end by themselves, whatever follows.
                let octal = c.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\{byte:03o}"));
                word.extend(octal);
            }
            c => word.push(c),
        }
    }
    word.push('\'');
    word
}

/// An option of a command with its value, in words of a shell. A value that looks like an option is tied
/// to its own.
pub fn shell_option(name: &str, value: &str) -> String {
    let tie = if value.starts_with('-') { "=" } else { " " };
    format!("{name}{tie}{}", shell_word(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_and_given_with_as_few_commands_as_can_be() {
        let on = ClusterAlias::from("hello");
        let mut rights = Rights::default();
        for topic in ["a", "b"] {
            rights.lacks(&on, &Resource::Topic(topic.into()), &[READ, DESCRIBE_CONFIGS]);
        }
        rights.lacks(&on, &Resource::Topic("syncs".into()), &[READ]);
        rights.lacks(&on, &Resource::GroupsFrom("app-".into()), &[DESCRIBE]);
        rights.lacks(&on, &Resource::GroupsFrom(String::new()), &[DESCRIBE]);
        rights.lacks(&"world".into(), &Resource::Topic("c".into()), &[READ]);
        let told = "hello: rights are missing: DESCRIBE on all groups, groups that begin with app-; \
                    READ on topic syncs; READ and DESCRIBE_CONFIGS on topic a, topic b";
        assert_eq!(rights.told(&on).as_deref(), Some(told));
        assert_eq!(rights.told(&"third".into()), None);
        let by = "kafka-acls.sh --bootstrap-server h:1 --add --allow-principal User:ANONYMOUS";
        let commands = rights.commands(&on, "h:1", &ClientProperties::default());
        assert_eq!(
            commands,
            [
                format!("{by} --operation Describe --group '*'"),
                format!("{by} --operation Describe --group app- --resource-pattern-type prefixed"),
                format!("{by} --operation Read --topic syncs"),
                format!("{by} --operation Read --operation DescribeConfigs --topic a --topic b"),
            ]
        );
    }

    #[test]
    fn a_shell_takes_any_name_as_one_word() {
        for (name, word) in [
            ("orders-app", "orders-app"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
            ("a\nrun b", r"$'a\nrun b'"),
            ("it's\t\\1", r"$'it\'s\011\\1'"),
            ("\u{202e}x\u{1b}[2J", r"$'\342\200\256x\033[2J'"),
        ] {
            assert_eq!(shell_word(name), word);
        }
        assert_eq!(shell_option("--group", "orders-app"), "--group orders-app");
        assert_eq!(shell_option("--group", "-rf"), "--group=-rf");
        assert_eq!(shell_option("--group", "-a b"), "--group='-a b'");
    }
}
