//! What a list of patterns means, in names that may be asked for. Pure.

use twinlog_types::{GroupId, TopicName};

use super::Resource;

/// What stands for the part of a name that a pattern leaves open.
const ANY: &str = "any";

/// What one pattern means.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Meant {
    /// This name alone.
    Name(String),
    /// Names that begin so.
    From(String),
}

impl Meant {
    /// A name that is meant.
    pub(super) fn probe(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::From(beginning) => format!("{beginning}{ANY}"),
        }
    }

    pub(super) fn topics(&self) -> Resource {
        match self {
            Self::Name(name) => Resource::Topic(TopicName::from(name.as_str())),
            Self::From(beginning) => Resource::TopicsFrom(beginning.clone()),
        }
    }

    pub(super) fn groups(&self) -> Resource {
        match self {
            Self::Name(name) => Resource::Group(GroupId::from(name.as_str())),
            Self::From(beginning) => Resource::GroupsFrom(beginning.clone()),
        }
    }
}

/// What the patterns of a list mean, each once; nothing is everything.
pub(super) fn meant(patterns: Option<&[String]>) -> Vec<Meant> {
    let Some(patterns) = patterns else { return vec![Meant::From(String::new())] };
    let mut all: Vec<Meant> =
        patterns.iter().flat_map(|item| alternatives(item)).map(beginning).collect();
    all.sort();
    all.dedup();
    let wider = all.clone();
    // What another one covers needs no right of its own.
    all.retain(|one| {
        let (Meant::Name(name) | Meant::From(name)) = one;
        !wider.iter().any(|other| match other {
            Meant::From(beginning) => other != one && name.starts_with(beginning.as_str()),
            Meant::Name(_) => false,
        })
    });
    all
}

/// The sides of every `|` that no bracket holds.
fn alternatives(pattern: &str) -> Vec<&str> {
    let (mut depth, mut from, mut escaped) = (0_usize, 0, false);
    let mut all = Vec::new();
    for (at, c) in pattern.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                all.push(&pattern[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(&pattern[from..]);
    all
}

/// A dot that nothing repeats is taken for a dot: names have many, and few patterns mean any
/// character by it.
fn beginning(pattern: &str) -> Meant {
    let mut text = String::new();
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        let literal = match c {
            '\\' => rest.next().filter(|escaped| !escaped.is_ascii_alphanumeric()),
            '[' => {
                let only = rest.next().filter(|c| !matches!(c, '^' | '\\' | '[' | ']'));
                only.filter(|_| rest.next() == Some(']'))
            }
            '(' | ')' | '^' | '$' | '*' | '+' | '?' | '{' => None,
            c => Some(c),
        };
        let repeated = matches!(rest.peek(), Some('*' | '?' | '{'));
        let Some(literal) = literal.filter(|_| !repeated) else { return Meant::From(text) };
        if c == '.' && rest.peek() == Some(&'+') {
            return Meant::From(text);
        }
        text.push(literal);
    }
    Meant::Name(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_names_or_what_names_begin_with() {
        let name = |text: &str| Meant::Name(text.to_owned());
        let from = |text: &str| Meant::From(text.to_owned());
        for (pattern, wanted) in [
            ("orders", vec![name("orders")]),
            ("orders|payments.eu", vec![name("orders"), name("payments.eu")]),
            (r"orders\.v1", vec![name("orders.v1")]),
            ("orders[.]v1", vec![name("orders.v1")]),
            (".*", vec![from("")]),
            ("orders.*", vec![from("orders")]),
            ("orders-.+", vec![from("orders-")]),
            ("orders?", vec![from("order")]),
            ("a{2}", vec![from("")]),
            ("ab+", vec![from("ab")]),
            ("app-(one|two)", vec![from("app-")]),
            ("app-[a|b]x|other", vec![from("app-"), name("other")]),
            (r"app-\d", vec![from("app-")]),
            ("(?!x).*", vec![from("")]),
        ] {
            let mut told = meant(Some(&[pattern.to_owned()]));
            told.sort_by_key(|one| wanted.iter().position(|other| other == one));
            assert_eq!(told, wanted, "{pattern}");
        }
        assert_eq!(meant(None), [from("")]);
        assert_eq!(meant(Some(&[])), []);
    }

    #[test]
    fn what_a_wider_pattern_covers_is_not_asked_for_apart() {
        let patterns = ["app-.*", "app-1", "other"].map(str::to_owned);
        let told = meant(Some(&patterns));
        assert_eq!(told, [Meant::Name("other".into()), Meant::From("app-".into())]);
    }
}
