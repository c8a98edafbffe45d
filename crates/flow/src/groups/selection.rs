//! Which groups are followed.

use twinlog_mirror::{FlowConfig, NameFilter, Verdict, replicates};
use twinlog_types::{Code, GroupId, State, TopicName};

use crate::standing::Standing;

/// Whether a group is followed, and why not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupSelection {
    /// It is.
    Followed,
    /// A pattern of `groups.exclude` matches it.
    Excluded {
        /// The pattern.
        pattern: String,
    },
    /// Matching it against this pattern takes too many steps.
    Undecided {
        /// The pattern.
        pattern: String,
    },
    /// No pattern of `groups` matches it.
    NotIncluded,
    /// It has committed nothing on a topic that is mirrored.
    WithoutCommits,
}

/// Selects a group as MM2 does: the filter, and a commit on a topic that is mirrored.
pub fn select(
    filter: &NameFilter,
    group: &str,
    commits_on_mirrored_topics: bool,
) -> GroupSelection {
    match filter.why(group) {
        Verdict::Excluded(pattern) => GroupSelection::Excluded { pattern },
        Verdict::Undecided(pattern) => GroupSelection::Undecided { pattern },
        Verdict::NotIncluded => GroupSelection::NotIncluded,
        Verdict::Included if commits_on_mirrored_topics => GroupSelection::Followed,
        Verdict::Included => GroupSelection::WithoutCommits,
    }
}

/// Whether the flow `back`, of the other direction, writes `group` on the very topic that this flow
/// reads: `source` is copied to `target` here, and `target` to `source` there. With names that are
/// prefixed that never is so: each direction has topics of its own.
pub fn is_written_back(
    back: &FlowConfig,
    group: &GroupId,
    source: &TopicName,
    target: &TopicName,
) -> bool {
    back.sync_group_offsets_enabled
        && back.remote_topic(target.as_str()) == *source
        && replicates(back, target.as_str())
        && matches!(back.groups.why(group.as_str()), Verdict::Included)
}

impl GroupSelection {
    /// How a group that is not followed stands; `None` for one that is.
    pub fn standing(&self) -> Option<Standing> {
        match self {
            Self::Followed => None,
            Self::Excluded { pattern } => Some(Standing::found(
                State::Excluded,
                Code::GroupExcluded,
                format!("groups.exclude contains {pattern}, which matches this group"),
            )),
            Self::Undecided { pattern } => Some(Standing::found(
                State::Excluded,
                Code::GroupExcluded,
                format!("left out: matching it against {pattern} takes too many steps"),
            )),
            Self::NotIncluded => Some(Standing::found(
                State::Excluded,
                Code::GroupNotIncluded,
                "no pattern of groups matches this group",
            )),
            Self::WithoutCommits => Some(Standing::found(
                State::Excluded,
                Code::GroupWithoutCommits,
                "no commit of this group on a mirrored topic is visible on the source",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_write_one_group_only_on_topics_of_one_name() {
        let back = |policy: &str, more: &str| {
            let text = format!(
                "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\n\
                 b->a.enabled = true\nsync.group.offsets.enabled = true\n\
                 replication.policy.class = org.apache.kafka.connect.mirror.{policy}\n{more}\n"
            );
            let parsed = twinlog_mirror::Configuration::parse("f", text.as_bytes(), &[]).unwrap();
            parsed.flows()[0].clone()
        };
        let written = |back: &FlowConfig, source: &str, target: &str| {
            is_written_back(back, &"app".into(), &source.into(), &target.into())
        };
        let (default, identity) = ("DefaultReplicationPolicy", "IdentityReplicationPolicy");
        assert!(!written(&back(default, ""), "t", "a.t"));
        assert!(written(&back(identity, ""), "t", "t"));
        assert!(!written(&back(identity, "b->a.topics = other"), "t", "t"));
        assert!(!written(&back(identity, "b->a.groups = other"), "t", "t"));
        assert!(!written(&back(identity, "b->a.sync.group.offsets.enabled = false"), "t", "t"));
    }

    #[test]
    fn a_group_that_is_left_out_is_told_which_pattern_did_it() {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
        let filter =
            NameFilter::new(&list(&["app-.*"]), &list(&["app-test.*", "console-consumer-.*"]))
                .unwrap();
        assert_eq!(select(&filter, "app-1", true), GroupSelection::Followed);
        assert_eq!(select(&filter, "app-1", false), GroupSelection::WithoutCommits);
        assert_eq!(select(&filter, "other", true), GroupSelection::NotIncluded);
        let excluded = select(&filter, "app-test-7", true);
        assert_eq!(excluded, GroupSelection::Excluded { pattern: "app-test.*".to_owned() });
        let standing = excluded.standing().unwrap();
        assert_eq!((standing.state, standing.code), (State::Excluded, Some(Code::GroupExcluded)));
        assert!(standing.reason.unwrap().contains("app-test.*"));
    }
}
