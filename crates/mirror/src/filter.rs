//! Which names are wanted: an include and an exclude list of Java regular expressions.
//!
//! Does not: know defaults, know what the names belong to.
//!
//! MM2 joins the items of a list with `|` and compiles the whole once, so that `(?i)a,b` is without
//! case for both and `(a,b)` is one group. It is done the same way here. An item must match the
//! whole name. An empty include list includes nothing, an empty exclude list excludes nothing.
//!
//! References: `DefaultTopicFilter`, `DefaultGroupFilter`, `DefaultConfigPropertyFilter`,
//! `MirrorUtils.compilePatternList`.

use std::fmt;
use std::sync::Arc;

use crate::java_regex::{JavaRegex, RegexError};

/// What a filter says of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Included, and not excluded.
    Included,
    /// Excluded by this item of the exclude list.
    Excluded(String),
    /// No item of the include list matches.
    NotIncluded,
    /// Matching this item was given up: it takes more steps than any sensible pattern. The name is
    /// left out.
    Undecided(String),
}

/// An include list and an exclude list.
#[derive(Clone)]
pub struct NameFilter {
    /// `None` includes every name.
    include: Option<Arc<Patterns>>,
    exclude: Arc<Patterns>,
}

/// The joined items of a list; nothing when the list is empty.
struct Patterns {
    items: Vec<String>,
    joined: Option<JavaRegex>,
}

/// What an item of a list did.
enum Hit {
    Yes,
    No,
    GaveUp,
}

/// An item that is not a regular expression, or a list that is none when joined.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{item}` is not a regular expression that Java reads: {error}")]
pub struct PatternError {
    /// The item, or the joined list when its items are well-formed by themselves.
    pub item: String,
    /// What is wrong with it.
    pub error: RegexError,
}

impl NameFilter {
    /// A filter of two lists.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, PatternError> {
        Ok(Self {
            include: Some(Arc::new(Patterns::new(include)?)),
            exclude: Arc::new(Patterns::new(exclude)?),
        })
    }

    /// A filter that includes whatever the list does not exclude.
    pub fn all_except(exclude: &[String]) -> Result<Self, PatternError> {
        Ok(Self { include: None, exclude: Arc::new(Patterns::new(exclude)?) })
    }

    /// Two lists that are no patterns, for showing: includes nothing.
    pub(crate) fn unreadable(include: &[String], exclude: &[String]) -> Self {
        let list = |items: &[String]| Arc::new(Patterns { items: items.to_vec(), joined: None });
        Self { include: Some(list(include)), exclude: list(exclude) }
    }

    /// Whether `name` is wanted.
    pub fn matches(&self, name: &str) -> bool {
        let included = match &self.include {
            None => Hit::Yes,
            Some(include) => include.hit(name),
        };
        matches!((included, self.exclude.hit(name)), (Hit::Yes, Hit::No))
    }

    /// Whether `name` is wanted, and which item says that it is not.
    pub fn why(&self, name: &str) -> Verdict {
        match self.exclude.hit(name) {
            Hit::Yes => return Verdict::Excluded(self.exclude.item_for(name)),
            Hit::GaveUp => return Verdict::Undecided(self.exclude.text()),
            Hit::No => {}
        }
        let Some(include) = &self.include else { return Verdict::Included };
        match include.hit(name) {
            Hit::Yes => Verdict::Included,
            Hit::No => Verdict::NotIncluded,
            Hit::GaveUp => Verdict::Undecided(include.text()),
        }
    }

    /// The items of the include list; `None` when everything is included.
    pub fn include(&self) -> Option<&[String]> {
        self.include.as_ref().map(|include| include.items.as_slice())
    }

    /// The items of the exclude list.
    pub fn exclude(&self) -> &[String] {
        &self.exclude.items
    }
}

impl PartialEq for NameFilter {
    fn eq(&self, other: &Self) -> bool {
        self.include() == other.include() && self.exclude() == other.exclude()
    }
}

impl fmt::Debug for NameFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameFilter")
            .field("include", &self.include())
            .field("exclude", &self.exclude())
            .finish()
    }
}

impl Patterns {
    fn new(items: &[String]) -> Result<Self, PatternError> {
        let joined = if items.is_empty() {
            None
        } else {
            let text = items.join("|");
            let joined = JavaRegex::new(&text).map_err(|error| {
                let alone =
                    items.iter().find_map(|item| Some((item.clone(), JavaRegex::new(item).err()?)));
                let (item, error) = alone.unwrap_or((text, error));
                PatternError { item, error }
            })?;
            Some(joined)
        };
        Ok(Self { items: items.to_vec(), joined })
    }

    fn hit(&self, name: &str) -> Hit {
        match self.joined.as_ref().map(|joined| joined.is_full_match(name)) {
            Some(Some(true)) => Hit::Yes,
            Some(None) => Hit::GaveUp,
            None | Some(Some(false)) => Hit::No,
        }
    }

    /// The first item that matches `name` by itself; the whole list when it takes more than one.
    fn item_for(&self, name: &str) -> String {
        let matches = |item: &&String| {
            JavaRegex::new(item).is_ok_and(|regex| regex.is_full_match(name) == Some(true))
        };
        self.items.iter().find(matches).cloned().unwrap_or_else(|| self.text())
    }

    fn text(&self) -> String {
        self.items.join("|")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    fn filter(include: &[&str], exclude: &[&str]) -> NameFilter {
        NameFilter::new(&list(include), &list(exclude)).expect("well-formed lists")
    }

    #[test]
    fn exclusion_wins_and_names_its_item() {
        let filter = filter(&["orders.*", "payments"], &["mm2.*\\.internal", ".*-tmp"]);
        assert_eq!(filter.why("orders"), Verdict::Included);
        assert_eq!(filter.why("orders-tmp"), Verdict::Excluded(".*-tmp".into()));
        assert_eq!(filter.why("payments2"), Verdict::NotIncluded);
        assert!(filter.matches("payments") && !filter.matches("payments2"));
    }

    #[test]
    fn empty_lists_include_nothing_and_exclude_nothing() {
        assert_eq!(filter(&[], &[]).why("a"), Verdict::NotIncluded);
        assert_eq!(filter(&["a"], &[]).why("a"), Verdict::Included);
        let except = NameFilter::all_except(&list(&["min.insync.replicas"])).expect("well-formed");
        assert!(except.matches("retention.ms") && !except.matches("min.insync.replicas"));
    }

    #[test]
    fn items_are_joined_as_mm2_joins_them() {
        // A flag reaches the items after it, and a group may span the comma.
        assert!(filter(&["(?i)a", "b"], &[]).matches("B"));
        assert!(filter(&["x(a", "b)"], &[]).matches("xb"));
        assert_eq!(filter(&[".*"], &["x(a", "b)"]).why("xa"), Verdict::Excluded("x(a|b)".into()));
    }

    #[test]
    fn a_bad_item_is_named() {
        let error = NameFilter::new(&list(&["a", "*.orders"]), &[]).expect_err("not a regex");
        assert_eq!(error.item, "*.orders");
    }

    #[test]
    fn a_pattern_that_explodes_is_undecided() {
        let filter = filter(&["(?:(a|aa)+)+\\1b"], &[]);
        let name = format!("{}bx", "a".repeat(200));
        assert!(matches!(filter.why(&name), Verdict::Undecided(_)));
        assert!(!filter.matches(&name));
    }
}
