//! What is wrong with a configuration, said so that it can be put right.
//!
//! Does not: stop at the first problem, quote secrets.

use std::fmt;

/// One thing that is wrong with a properties file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Problem {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The line (from 1) on which the entry begins; `None` for an override from the command line
    /// and for what is missing.
    pub line: Option<u32>,
    /// The key as it stands in the file.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub suggestion: Option<String>,
}

impl fmt::Display for Problem {
    /// `file:line: key: message`, without what is not known. The suggestion is left to the caller,
    /// who knows where a second line goes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if let Some(key) = &self.key {
            write!(f, " {key}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl std::error::Error for Problem {}

/// No word that is longer is a misspelt one.
const WORD_BYTES_MAX: usize = 512;

/// The candidate that `word` was most likely meant to be: the nearest by edits (a swap of
/// neighbours is one edit), if it is near at all and not `word` itself.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody meant a key by this; comparing it would take minutes.
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let allowed = (word.chars().count() / 4).clamp(1, 3);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= allowed && *edits < candidate.chars().count())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance: insertions, deletions, changes, swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_nobody_can_have_misspelt_has_no_closest_one() {
        assert_eq!(closest(&"t".repeat(513), ["topics"]), None);
        assert_eq!(closest("topisc", ["topics"]), Some("topics"));
    }

    #[test]
    fn a_problem_reads_like_a_compiler_message() {
        let mut problem = Problem {
            file: "mm2.properties".into(),
            line: Some(3),
            key: Some("hello->wrld.enabled".into()),
            message: "no cluster is called `wrld`".into(),
            suggestion: None,
        };
        assert_eq!(
            problem.to_string(),
            "mm2.properties:3: hello->wrld.enabled: no cluster is called `wrld`"
        );
        problem.line = None;
        problem.key = None;
        assert_eq!(problem.to_string(), "mm2.properties: no cluster is called `wrld`");
    }

    #[test]
    fn near_misses_are_found_and_far_ones_are_not() {
        assert_eq!(closest("wrld", ["hello", "world"]), Some("world"));
        assert_eq!(closest("wrold", ["hello", "world"]), Some("world"));
        assert_eq!(closest("mars", ["hello", "world"]), None);
        assert_eq!(closest("x", ["a", "b"]), None);
        assert_eq!(closest("topcis", ["topics", "groups"]), Some("topics"));
    }
}
