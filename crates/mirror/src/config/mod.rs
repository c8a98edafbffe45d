//! A MirrorMaker 2 properties file in the meaning of dedicated mode.
//!
//! Does not: read the file, reach config providers, judge client settings (that is the client's).
//!
//! A pair of clusters is *kept* when its `enabled` or its heartbeats are on; MM2 starts something
//! for kept pairs only. What a pair that only beats says about topics and groups is not looked at.
//!
//! Reference: `MirrorMakerConfig`; [`FlowConfig`] names deliberate differences.

mod cluster;
mod flow;
mod levels;
mod notes;
mod own;
mod policies;
mod reader;
mod resolved;
mod variables;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use twinlog_types::{ClusterAlias, FlowName};

pub use cluster::ClusterConfig;
pub use flow::{FlowConfig, FollowCommits, Isolation, Origin};
pub use own::{OnSourceGap, OnTopicRecreated};
pub use resolved::ResolvedSetting;
pub use variables::Resolver;

use crate::problem::{Problem, closest};
use crate::properties::Properties;
use crate::value::{is_lenient_true, parse_bool, parse_list};
use levels::{Levels, Setting, Settings};
use reader::{Scope, SettingsReader};

/// What a file says, read to the end without a problem.
#[derive(Clone, Debug)]
pub struct Configuration {
    clusters: Vec<ClusterConfig>,
    enabled: Vec<FlowConfig>,
    beating_only: Vec<FlowConfig>,
}

/// What could be read of a file, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What could be read. Where there are problems, defaults stand in: good for showing, not for
    /// running.
    pub configuration: Configuration,
    /// Everything that is wrong, in the order of the lines.
    pub problems: Vec<Problem>,
    /// Entries that do nothing: misspelt, said twice, or at a level where nobody reads them.
    pub notes: Vec<Problem>,
}

impl Configuration {
    /// Reads a file. `overrides` (from `-X key=value`) replace or add entries. A variable of a
    /// declared config provider is a problem; see [`Configuration::parse_with`].
    pub fn parse(
        file_name: &str,
        bytes: &[u8],
        overrides: &[(String, String)],
    ) -> Result<Self, Vec<Problem>> {
        Self::read(file_name, bytes, overrides, None).accept()
    }

    /// Reads a file whose config providers `resolver` answers for.
    pub fn parse_with(
        file_name: &str,
        bytes: &[u8],
        overrides: &[(String, String)],
        resolver: Resolver<'_>,
    ) -> Result<Self, Vec<Problem>> {
        Self::read(file_name, bytes, overrides, Some(resolver)).accept()
    }

    /// Reads what can be read of a file.
    pub fn read(
        file_name: &str,
        bytes: &[u8],
        overrides: &[(String, String)],
        resolver: Option<Resolver<'_>>,
    ) -> Reading {
        let mut problems = Problems { file: file_name, list: Vec::new() };
        let properties = Properties::parse(bytes).unwrap_or_else(|malformed| {
            for entry in malformed {
                problems.list.push(Problem {
                    file: file_name.to_owned(),
                    line: Some(entry.line),
                    key: None,
                    message: "a `\\u` is not followed by four hexadecimal digits".into(),
                    suggestion: Some("write a backslash that is meant as such twice".into()),
                });
            }
            Properties::default()
        });
        let malformed = !problems.list.is_empty();
        let mut all = Settings::new();
        for entry in properties.entries() {
            let key = entry.key.clone();
            let setting = Setting {
                value: entry.value.clone(),
                key: key.as_str().into(),
                line: Some(entry.line),
                overridden: false,
            };
            all.insert(key, setting);
        }
        for (key, value) in overrides {
            let setting = Setting {
                value: value.clone(),
                key: key.as_str().into(),
                line: None,
                overridden: true,
            };
            all.insert(key.clone(), setting);
        }
        let mut notes = Problems { file: file_name, list: Vec::new() };
        let configuration = if malformed {
            // Java refuses such a file as a whole; nothing else about it could be believed.
            Self { clusters: Vec::new(), enabled: Vec::new(), beating_only: Vec::new() }
        } else {
            let unresolved = variables::resolve(&mut all, resolver);
            let levels = Levels { all };
            let mut builder = Builder {
                levels,
                unresolved,
                filters: reader::Filters::new(),
                problems: &mut problems,
            };
            let configuration = builder.build();
            policies::check(&properties, &builder.levels, &configuration.enabled, builder.problems);
            let aliases: Vec<_> =
                configuration.clusters.iter().map(|cluster| cluster.alias.clone()).collect();
            notes::take(&properties, &builder.levels, &aliases, &mut notes);
            configuration
        };
        problems.list.sort();
        problems.list.dedup();
        notes.list.sort();
        Reading { configuration, problems: problems.list, notes: notes.list }
    }

    /// The flows that copy, in the order of the clusters.
    pub fn flows(&self) -> &[FlowConfig] {
        &self.enabled
    }

    /// The flows whose source and target are told that they live: those that copy with
    /// `emit.heartbeats.enabled`, and, as MM2 does it, every other pair of clusters with that
    /// switch on.
    pub fn heartbeat_flows(&self) -> impl Iterator<Item = &FlowConfig> {
        let all = self.enabled.iter().chain(&self.beating_only);
        all.filter(|flow| flow.emit_heartbeats_enabled)
    }

    /// The flow `name`, if it copies.
    pub fn flow(&self, name: &FlowName) -> Option<&FlowConfig> {
        self.enabled.iter().find(|flow| flow.name == *name)
    }

    /// The clusters, in the order of the file, each once.
    pub fn clusters(&self) -> &[ClusterConfig] {
        &self.clusters
    }

    /// The cluster `alias`.
    pub fn cluster(&self, alias: &str) -> Option<&ClusterConfig> {
        self.clusters.iter().find(|cluster| cluster.alias.as_str() == alias)
    }
}

impl Reading {
    /// The configuration if nothing is wrong with it.
    pub fn accept(self) -> Result<Configuration, Vec<Problem>> {
        if self.problems.is_empty() { Ok(self.configuration) } else { Err(self.problems) }
    }
}

/// Problems as they are found.
struct Problems<'a> {
    file: &'a str,
    list: Vec<Problem>,
}

impl Problems<'_> {
    /// Something is wrong with an entry.
    fn about(&mut self, setting: &Setting, message: impl Into<String>, suggestion: Option<String>) {
        let file = self.file_of(setting);
        self.list.push(Problem {
            file,
            line: setting.line,
            key: Some(setting.key.to_string()),
            message: message.into(),
            suggestion,
        });
    }

    /// An entry is missing.
    fn missing(&mut self, key: &str, message: impl Into<String>, suggestion: Option<String>) {
        self.list.push(Problem {
            file: self.file.to_owned(),
            line: None,
            key: Some(key.to_owned()),
            message: message.into(),
            suggestion,
        });
    }

    fn file_of(&self, setting: &Setting) -> String {
        if setting.overridden { "-X".to_owned() } else { self.file.to_owned() }
    }
}

struct Builder<'a, 'b> {
    levels: Levels,
    unresolved: BTreeMap<Arc<str>, String>,
    filters: reader::Filters,
    problems: &'a mut Problems<'b>,
}

impl Builder<'_, '_> {
    fn build(&mut self) -> Configuration {
        let aliases = self.aliases();
        if !aliases.is_empty() {
            self.check_flow_keys(&aliases);
        }
        let mut enabled = Vec::new();
        let mut beating_only = Vec::new();
        for source in &aliases {
            for target in aliases.iter().filter(|target| *target != source) {
                match self.flow(&FlowName::new(source.clone(), target.clone())) {
                    Some(flow) if flow.enabled => enabled.push(flow),
                    Some(flow) => beating_only.push(flow),
                    None => {}
                }
            }
        }
        if enabled.is_empty() && beating_only.is_empty() && aliases.len() > 1 {
            let suggestion = format!("say {}->{}.enabled = true", aliases[0], aliases[1]);
            self.problems.missing("clusters", "no flow is enabled", Some(suggestion));
        }
        let used = |alias: &ClusterAlias| {
            let mut flows = enabled.iter().chain(&beating_only);
            flows.any(|flow| flow.name.source == *alias || flow.name.target == *alias)
        };
        let used: Vec<bool> = aliases.iter().map(used).collect();
        let clusters = aliases
            .iter()
            .zip(used)
            .map(|(alias, used)| self.cluster(alias, used, &aliases))
            .collect();
        Configuration { clusters, enabled, beating_only }
    }

    fn aliases(&mut self) -> Vec<ClusterAlias> {
        let Some(setting) = self.levels.all.get("clusters").cloned() else {
            let keys = || self.levels.all.keys().map(String::as_str);
            let near = closest("clusters", keys())
                .or_else(|| keys().find(|key| key.ends_with("clusters")));
            let suggestion = match near {
                Some(key) if key.starts_with('\u{ef}') => Some(
                    "the file begins with a byte order mark, which Java takes for a part of its \
                     first key: save it without"
                        .to_owned(),
                ),
                Some(key) => Some(format!("did you mean `clusters` by `{key}`?")),
                None => Some("list the aliases of the clusters: clusters = hello, world".into()),
            };
            self.problems.missing("clusters", "is missing", suggestion);
            return Vec::new();
        };
        if let Some(why) = self.unresolved.get(&setting.key) {
            self.problems.about(&setting, why.clone(), None);
            return Vec::new();
        }
        let mut aliases: Vec<ClusterAlias> = Vec::new();
        for item in parse_list(&setting.value) {
            if item.is_empty() {
                self.problems.about(&setting, "an item of the list is empty", None);
            } else if let Some(why) = no_part_of_topic_names(&item) {
                let message = format!("`{item}` {why}");
                let suggestion = "aliases are part of topic names: use letters, digits, ., _ and -";
                self.problems.about(&setting, message, Some(suggestion.into()));
            } else if !aliases.iter().any(|alias| alias.as_str() == item) {
                aliases.push(item.into());
            }
        }
        if aliases.len() < 2 {
            self.problems.about(&setting, "names fewer than two clusters", None);
        }
        aliases
    }

    /// Every `a->b.…` must name two clusters of the file; MM2 ignores the others in silence.
    fn check_flow_keys(&mut self, aliases: &[ClusterAlias]) {
        let known = |alias: &str| aliases.iter().any(|known| known.as_str() == alias);
        for setting in self.levels.all.values() {
            let Some((source, rest)) = setting.key.split_once("->") else { continue };
            let is_target = |alias: &&ClusterAlias| {
                rest.strip_prefix(alias.as_str()).is_some_and(|rest| rest.starts_with('.'))
            };
            // The longest, where one alias begins another.
            let target = aliases.iter().filter(is_target).max_by_key(|alias| alias.as_str().len());
            let written = match target {
                Some(target) => target.as_str(),
                None => rest.split('.').next().unwrap_or(rest),
            };
            let unknown = if !known(source) {
                source
            } else if target.is_none() {
                written
            } else if *rest == format!("{source}.enabled") && is_lenient_true(&setting.value) {
                let message = format!("a flow from `{source}` to itself never runs");
                self.problems.about(setting, message, Some("remove the line".into()));
                continue;
            } else {
                continue;
            };
            let near = |alias: &str| {
                if known(alias) {
                    return Some(alias.to_owned());
                }
                closest(alias, aliases.iter().map(ClusterAlias::as_str)).map(str::to_owned)
            };
            let suggestion = match (near(source), near(written)) {
                (Some(from), Some(to)) if from != to => {
                    let rest = &rest[written.len()..];
                    Some(format!("did you mean `{from}->{to}{rest}`?"))
                }
                _ => {
                    let names: Vec<_> = aliases.iter().map(ClusterAlias::as_str).collect();
                    Some(format!("the clusters of this file are {}", names.join(", ")))
                }
            };
            let message = format!("no cluster is called `{unknown}`");
            self.problems.about(setting, message, suggestion);
        }
    }

    fn flow(&mut self, name: &FlowName) -> Option<FlowConfig> {
        let (source, target) = (name.source.as_str(), name.target.as_str());
        let all = &self.levels.all;
        let is_on = |setting: &Setting| is_lenient_true(&setting.value);
        let switch = all.get(&format!("{name}.enabled"));
        let beats = all
            .get(&format!("{name}.emit.heartbeats.enabled"))
            .or_else(|| all.get("emit.heartbeats.enabled"))
            .is_none_or(is_on);
        if !switch.is_some_and(is_on) && !beats {
            // MM2 reads this switch without trimming: `true ` is false to it, in silence.
            if let Some(setting) = switch.filter(|setting| parse_bool(&setting.value) != Ok(false))
            {
                let message = match self.unresolved.get(&setting.key) {
                    Some(why) => why.clone(),
                    None => format!("`{}` must be true or false", setting.value),
                };
                self.problems.about(setting, message, None);
            }
            return None;
        }
        let connector = self.levels.connector(source, target, "MirrorSourceConnector");
        let worker = self.levels.worker(source, target);
        let twinlog = self.levels.twinlog(source, target);
        let enabled = reader::is_enabled(&connector);
        let scope = if enabled == Ok(false) { Scope::Heartbeats } else { Scope::Everything };
        let global_isolation = self.levels.all.get("consumer.isolation.level");
        let mut reader = SettingsReader {
            name,
            connector: &connector,
            worker: &worker,
            unresolved: &self.unresolved,
            scope,
            filters: &mut self.filters,
            problems: &mut *self.problems,
        };
        Some(reader.flow(enabled == Ok(true), twinlog, global_isolation))
    }

    fn cluster(
        &mut self,
        alias: &ClusterAlias,
        used: bool,
        aliases: &[ClusterAlias],
    ) -> ClusterConfig {
        let settings = self.levels.cluster(alias.as_str());
        let servers = settings.get("bootstrap.servers");
        if used {
            match servers {
                Some(setting) => self.check_servers(setting),
                None => self.report_no_servers(alias, aliases),
            }
        }
        let mut bootstrap = servers.map(|setting| parse_list(&setting.value)).unwrap_or_default();
        bootstrap.retain(|server| is_address(server));
        ClusterConfig { alias: alias.clone(), bootstrap, properties: levels::values(settings) }
    }

    fn check_servers(&mut self, setting: &Setting) {
        if let Some(why) = self.unresolved.get(&setting.key) {
            self.problems.about(setting, why.clone(), None);
            return;
        }
        let servers = parse_list(&setting.value);
        if servers.is_empty() {
            self.problems.about(setting, "names no server", None);
        }
        for server in servers.iter().filter(|server| !is_address(server)) {
            let message = if server.is_empty() {
                "an item of the list is empty".to_owned()
            } else {
                format!("`{server}` is not a host and a port")
            };
            self.problems.about(setting, message, None);
        }
    }

    fn report_no_servers(&mut self, alias: &ClusterAlias, aliases: &[ClusterAlias]) {
        let key = format!("{alias}.bootstrap.servers");
        let strange = |other: &&str| {
            let owner = other.strip_suffix(".bootstrap.servers");
            owner.is_some_and(|owner| !aliases.iter().any(|alias| alias.as_str() == owner))
        };
        let others = self.levels.all.keys().map(String::as_str).filter(strange);
        let suggestion = match closest(&key, others) {
            Some(other) => format!("did you mean `{key}` by `{other}`?"),
            None => format!("say {key} = host:port"),
        };
        let message = format!("is missing: nothing says where cluster `{alias}` is");
        self.problems.missing(&key, message, Some(suggestion));
    }
}

/// The longest alias: the longest name of a topic, 249, without `mm2-offset-syncs..internal`.
const ALIAS_BYTES_MAX: usize = 223;

/// Why `part` cannot be a part of the names of topics; `None` when it can.
fn no_part_of_topic_names(part: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if let Some(bad) = part.chars().find(|c| !legal(*c)) {
        return Some(format!("contains {bad:?}, which no topic name may contain"));
    }
    (part.len() > ALIAS_BYTES_MAX).then(|| format!("is longer than {ALIAS_BYTES_MAX} characters"))
}

/// Whether a client could connect to `server`: a host, or an IPv6 address in brackets, and a port.
fn is_address(server: &str) -> bool {
    let server = server.rsplit_once("://").map_or(server, |(_, server)| server);
    let Some((host, port)) = server.rsplit_once(':') else { return false };
    let host_is_one = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        // An address without a colon is no IPv6 address; what stands behind `%` names an interface.
        Some(address) => {
            let number = address.split('%').next().unwrap_or(address);
            number.parse::<Ipv6Addr>().is_ok()
        }
        // Java also takes an IPv6 address without brackets.
        None if host.contains(':') => host.parse::<Ipv6Addr>().is_ok(),
        None => {
            let allowed = |c: char| c.is_alphanumeric() || "-._".contains(c);
            !host.is_empty() && host.chars().all(allowed)
        }
    };
    // `u16` would also take a sign.
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    host_is_one && digits && port.parse::<u16>().is_ok_and(|port| port > 0)
}
