//! Two answers, field by field.

use std::collections::BTreeMap;

use crate::allowed::{MEMBER_ID, Rule, entry};
use crate::sides::Both;
use crate::tally::{About, Tally};
use crate::tree::Tree;

/// How far the readings of two clocks may be apart: sides answer one after the other, and the
/// machine may be busy.
const CLOCKS_MS: u64 = 600_000;

/// Compares answers, and remembers what that has shown so far.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// What the present requests are about.
    pub(crate) step: String,
    pub(crate) tally: Tally,
    /// When the scripts began: times before were sent by them.
    pub(crate) begin_ms: i64,
    /// Which value of one side stands for which of the other, by allowed difference.
    names: BTreeMap<(&'static str, String), String>,
}

impl Comparison {
    pub(crate) fn new(begin_ms: i64) -> Self {
        Self { step: String::new(), tally: Tally::default(), begin_ms, names: BTreeMap::new() }
    }

    /// Compares two answers.
    pub(crate) fn compare(&mut self, about: &About, trees: &Both<Tree>) {
        self.tally.count(about);
        self.walk(about, "", &trees.kafka, &trees.embedded);
    }

    /// Notes a difference that nothing allows.
    pub(crate) fn unexpected(&mut self, about: &About, path: &str, kafka: &str, embedded: &str) {
        self.tally.unexpected((&self.step, about), path, kafka, embedded);
    }

    fn walk(&mut self, about: &About, path: &str, kafka: &Tree, embedded: &Tree) {
        let allowed = entry(about.api.name(), &without_indexes(path));
        match (kafka, embedded) {
            (Tree::Fields(a), Tree::Fields(b)) if same_names(a, b) => {
                for ((name, a), (_, b)) in a.iter().zip(b) {
                    let path =
                        if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.walk(about, &path, a, b);
                }
            }
            (Tree::List(a), Tree::List(b)) => {
                let (mut a, mut b) = (a.clone(), b.clone());
                if let Some((name, Rule::Unordered(keys))) = allowed.map(|a| (a.name, a.rule)) {
                    let by = |tree: &Tree| {
                        let field = keys.iter().find_map(|key| tree.field(key));
                        field.unwrap_or(tree).to_string()
                    };
                    // In the words of the real broker, where those are known.
                    let kafkas = |tree: &Tree| self.translated(&by(tree));
                    let order: Vec<String> = a.iter().map(by).collect();
                    if order != b.iter().map(kafkas).collect::<Vec<_>>() {
                        self.tally.allowed(name);
                    }
                    a.sort_by_key(by);
                    b.sort_by_cached_key(|tree| self.translated(&by(tree)));
                }
                if a.len() == b.len() {
                    for (index, (a, b)) in a.iter().zip(&b).enumerate() {
                        self.walk(about, &format!("{path}[{index}]"), a, b);
                    }
                } else {
                    let (a, b) = (Tree::List(a), Tree::List(b));
                    self.unexpected(about, path, &a.to_string(), &b.to_string());
                }
            }
            _ => self.leaf(about, path, &kafka.to_string(), &embedded.to_string()),
        }
    }

    fn leaf(&mut self, about: &About, path: &str, kafka: &str, embedded: &str) {
        let Some(allowed) = entry(about.api.name(), &without_indexes(path)) else {
            // Texts may name members.
            if kafka != embedded && kafka != self.translated(embedded) {
                self.unexpected(about, path, kafka, embedded);
            }
            return;
        };
        let fits = match allowed.rule {
            Rule::Named(none) if none.contains(&kafka) || none.contains(&embedded) => {
                kafka == embedded
            }
            Rule::Named(_) => self.same_name(allowed.name, kafka, embedded),
            Rule::Clock => kafka == embedded || self.same_but_for_clocks(kafka, embedded),
            Rule::Any => {
                kafka == embedded || [kafka, embedded].iter().all(|v| v.parse::<u64>().is_ok())
            }
            Rule::Unordered(_) => kafka == embedded,
        };
        if !fits {
            self.unexpected(about, path, kafka, embedded);
        } else if kafka != embedded {
            self.tally.allowed(allowed.name);
        }
    }

    /// A text of the embedded cluster with the real broker's names for the same members.
    fn translated(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let members = self.names.iter().filter(|((kind, _), _)| *kind == MEMBER_ID);
        for ((_, key), kafka) in members {
            // Both are in quotes, as are the texts.
            if let Some(embedded) = key.strip_prefix("< \"").and_then(|id| id.strip_suffix('"')) {
                text = text.replace(embedded, kafka.trim_matches('"'));
            }
        }
        text
    }

    /// Whether two texts differ in readings of the clock only: times after the scripts began, alone
    /// or plus and minus a setting of the topic.
    fn same_but_for_clocks(&self, kafka: &str, embedded: &str) -> bool {
        let (a, b) = (pieces(kafka), pieces(embedded));
        a.len() == b.len()
            && a.iter().zip(&b).all(|(a, b)| {
                let times = (a.parse::<i64>(), b.parse::<i64>());
                let read = |time: i64| time >= self.begin_ms - 1000 || time < -self.begin_ms;
                a == b
                    || matches!(times, (Ok(a), Ok(b))
                        if read(a) && read(b) && a.abs_diff(b) < CLOCKS_MS)
            })
    }

    /// Whether these two values stand for each other: from the first time on, always.
    fn same_name(&mut self, kind: &'static str, kafka: &str, embedded: &str) -> bool {
        // Each direction has its own entry, so that no two values become one.
        let (there, back) = (format!("> {kafka}"), format!("< {embedded}"));
        match (self.names.get(&(kind, there.clone())), self.names.get(&(kind, back.clone()))) {
            (Some(known), Some(knower)) => known == embedded && knower == kafka,
            (None, None) => {
                self.names.insert((kind, there), embedded.to_owned());
                self.names.insert((kind, back), kafka.to_owned());
                true
            }
            _ => false,
        }
    }
}

fn same_names(a: &[(String, Tree)], b: &[(String, Tree)]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((a, _), (b, _))| a == b)
}

fn without_indexes(path: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for letter in path.chars() {
        match letter {
            '[' => inside = true,
            ']' => inside = false,
            _ if !inside => plain.push(letter),
            _ => {}
        }
    }
    plain
}

/// Numbers, and what stands between them.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut digits = false;
    for (at, letter) in text.char_indices() {
        let digit = letter.is_ascii_digit() || letter == '-';
        if digit != digits && at > start {
            pieces.push(&text[start..at]);
            start = at;
        }
        digits = digit;
    }
    pieces.push(&text[start..]);
    pieces
}
