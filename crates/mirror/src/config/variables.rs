//! `${provider:path:key}` in values.
//!
//! Does not: read anything. What a provider knows comes from the caller; who may be asked for what
//! (`allowed.paths`, `allowlist.pattern`) is checked here.
//!
//! As in MM2 a variable of a provider that the file does not declare is left as it is.
//!
//! References: KIP-297, KIP-421; `ConfigTransformer`, `FileConfigProvider`, `EnvVarConfigProvider`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::levels::Settings;
use crate::java_regex::JavaRegex;
use crate::value::parse_list;

/// Answers what the provider knows under a path and key.
///
/// The first argument is `file`, `directory` or `env` for Kafka's own three providers, whatever the
/// file calls them, and the class name for any other.
pub type Resolver<'a> = &'a dyn Fn(&str, &str, &str) -> Result<String, String>;

/// A provider that the file declares.
struct Provider {
    kind: String,
    allowed_paths: Option<Vec<String>>,
    allowlist: Option<JavaRegex>,
}

/// Replaces variables in all values. Answers the keys whose values could not be resolved, and why;
/// these values are left as they are.
pub(super) fn resolve(
    settings: &mut Settings,
    resolver: Option<Resolver<'_>>,
) -> BTreeMap<Arc<str>, String> {
    let providers = declared(settings);
    let mut unresolved = BTreeMap::new();
    for setting in settings.values_mut() {
        match replace(&setting.value, &providers, resolver) {
            Ok(Some(value)) => setting.value = value,
            Ok(None) => {}
            Err(why) => {
                unresolved.insert(Arc::clone(&setting.key), why);
            }
        }
    }
    unresolved
}

fn declared(settings: &Settings) -> BTreeMap<String, Provider> {
    let value = |key: &str| settings.get(key).map(|setting| setting.value.as_str());
    let mut providers = BTreeMap::new();
    for name in parse_list(value("config.providers").unwrap_or_default()) {
        let Some(class) = value(&format!("config.providers.{name}.class")) else { continue };
        let kind = match class.trim() {
            "org.apache.kafka.common.config.provider.FileConfigProvider" => "file",
            "org.apache.kafka.common.config.provider.DirectoryConfigProvider" => "directory",
            "org.apache.kafka.common.config.provider.EnvVarConfigProvider" => "env",
            other => other,
        };
        let parameter = |key: &str| value(&format!("config.providers.{name}.param.{key}"));
        let provider = Provider {
            kind: kind.to_owned(),
            allowed_paths: parameter("allowed.paths")
                .filter(|paths| !paths.is_empty())
                .map(|paths| paths.split(',').map(normal).collect()),
            allowlist: parameter("allowlist.pattern")
                .and_then(|pattern| JavaRegex::new(pattern).ok()),
        };
        providers.insert(name, provider);
    }
    providers
}

/// A value with its variables replaced; `None` when it has none to replace.
fn replace(
    value: &str,
    providers: &BTreeMap<String, Provider>,
    resolver: Option<Resolver<'_>>,
) -> Result<Option<String>, String> {
    let mut out = String::new();
    let mut rest = value;
    let mut replaced = false;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start + 2..].find('}') else { break };
        let inner = &rest[start + 2..start + 2 + length];
        let end = start + 2 + length + 1;
        out.push_str(&rest[..start]);
        let parts: Vec<&str> = inner.splitn(3, ':').collect();
        let (name, path, key) = match parts[..] {
            [name, path, key] => (name, path, key),
            [name, key] => (name, "", key),
            _ => ("", "", ""),
        };
        match providers.get(name) {
            Some(provider) => {
                out.push_str(&provider.ask(name, path, key, resolver)?);
                replaced = true;
            }
            None => out.push_str(&rest[start..end]),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    Ok(replaced.then_some(out))
}

impl Provider {
    fn ask(
        &self,
        name: &str,
        path: &str,
        key: &str,
        resolver: Option<Resolver<'_>>,
    ) -> Result<String, String> {
        if let Some(allowed) = &self.allowed_paths {
            let normal = normal(path);
            let is_below = |root: &String| {
                normal == *root
                    || normal
                        .strip_prefix(root.as_str())
                        .is_some_and(|rest| root.ends_with('/') || rest.starts_with('/'))
            };
            if self.kind != "env" && !allowed.iter().any(is_below) {
                return Err(format!(
                    "config provider `{name}` may not read {path}: \
                     config.providers.{name}.param.allowed.paths does not list it"
                ));
            }
        }
        if let Some(allowlist) = &self.allowlist
            && self.kind == "env"
            && allowlist.is_full_match(key) != Some(true)
        {
            return Err(format!(
                "config provider `{name}` may not read {key}: \
                 config.providers.{name}.param.allowlist.pattern does not match it"
            ));
        }
        let Some(resolver) = resolver else {
            return Err(format!("config provider `{name}` cannot be asked here"));
        };
        resolver(&self.kind, path, key)
            .map_err(|why| format!("config provider `{name}` does not know `{key}`: {why}"))
    }
}

/// A path without `.` and `..`, as far as text goes.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.trim().split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let root = if path.trim().starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_cannot_be_left_by_dots() {
        assert_eq!(normal("/opt/a/../../etc/./x//"), "/etc/x");
        assert_eq!(normal("/.."), "/..");
        assert_eq!(normal("a/b"), "a/b");
    }
}
