//! Which groups are followed.

use twinlog_mirror::{NameFilter, Verdict};
use twinlog_types::{Code, State};

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
