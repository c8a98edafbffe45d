//! One flow, one naming policy: places of a file that say otherwise contradict each other.
//!
//! MM2 takes the nearer place in silence, and whoever goes by the other one (`MirrorClient` and
//! `RemoteClusterUtils` read the top of the file) looks for topics and groups under names that nobody
//! writes. What `-X` says is meant to win, and contradicts nothing.

use super::levels::{Levels, Setting};
use super::{FlowConfig, Problems};
use crate::properties::Properties;

/// What decides about names.
const KEYS: [&str; 2] = ["replication.policy.class", "replication.policy.separator"];

/// Names both places of every contradiction.
pub(super) fn check(
    properties: &Properties,
    levels: &Levels,
    flows: &[FlowConfig],
    problems: &mut Problems<'_>,
) {
    for entry in properties.replaced() {
        let decides = KEYS.iter().any(|key| {
            let level = entry.key.strip_suffix(key);
            level.is_some_and(|level| level.is_empty() || level.contains("->"))
        });
        let last = properties.entry(&entry.key);
        let overridden = levels.all.get(&entry.key).is_some_and(|setting| setting.overridden);
        let Some(last) = last.filter(|last| decides && !overridden && last.value != entry.value)
        else {
            continue;
        };
        let setting = Setting {
            value: entry.value.clone(),
            key: entry.key.as_str().into(),
            line: Some(entry.line),
            overridden: false,
        };
        let message =
            format!("is `{}` here and `{}` on line {}", entry.value, last.value, last.line);
        problems.about(&setting, message, Some("remove one of the two lines".into()));
    }
    for flow in flows {
        for key in KEYS {
            let of_flow = levels.all.get(&format!("{}.{key}", flow.name));
            let (Some(of_all), Some(of_flow)) = (levels.all.get(key), of_flow) else { continue };
            if of_flow.overridden || of_all.value.trim() == of_flow.value.trim() {
                continue;
            }
            let place = of_all.line.map_or_else(|| "-X".to_owned(), |line| format!("line {line}"));
            let message = format!(
                "is `{}`, and {key} is `{}` on {place}: topics would be written under names that \
                 readers of the other one do not look for",
                of_flow.value, of_all.value
            );
            let next =
                format!("say it once: for all flows, or per flow only ({}.{key})", flow.name);
            problems.about(of_flow, message, Some(next));
        }
    }
}
