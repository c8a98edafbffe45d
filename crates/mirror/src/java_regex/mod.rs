//! Java's regular expressions, by translation.
//!
//! A pattern is read by Java's grammar (`java.util.regex.Pattern` of Java 17) and written anew for
//! the engine in constructs that mean the same in both: every literal escaped, every class spelt
//! out, flags applied to what they cover. What Java refuses is refused.
//!
//! Does not: search (a name matches as a whole or not at all), capture.
//!
//! # Invariants
//!
//! 1. Matching takes a bounded number of steps; what takes more has no answer.
//! 2. What is not translated exactly is refused with a message, with these exceptions: `\b` and
//!    `\B` know ASCII words only, `\X` is a character with its marks, and look-behind of unbounded
//!    length, which Java refuses in part, is accepted.

mod class;
mod escape;
mod grammar;
mod property;
#[cfg(test)]
mod tests;

use std::fmt;

use fancy_regex::{Regex, RegexBuilder};

use grammar::Translator;

/// Steps of backtracking after which a match is given up: some milliseconds.
const STEPS_MAX: usize = 200_000;

/// Instructions of a compiled pattern: repetitions of repetitions are written out.
const PROGRAM_MAX: usize = 100_000;

/// A compiled pattern that matches whole names.
#[derive(Clone, Debug)]
pub(crate) struct JavaRegex(Regex);

/// Why a text is not a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegexError {
    /// What is wrong, in Java's words where Java has some.
    pub message: String,
    /// The character (from 0) near which it is.
    pub index: usize,
}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} near character {}", self.message, self.index + 1)
    }
}

impl std::error::Error for RegexError {}

impl JavaRegex {
    pub(crate) fn new(pattern: &str) -> Result<Self, RegexError> {
        let mut first = Translator::new(pattern, false);
        let mut translated = first.whole()?;
        if first.refers_back {
            // Groups capture only where something refers to them: without captures the engine
            // needs no backtracking for most patterns.
            translated = Translator::new(pattern, true).whole()?;
        }
        RegexBuilder::new(&format!(r"\A(?:{translated})\z"))
            .backtrack_limit(STEPS_MAX)
            .max_prog_size(PROGRAM_MAX)
            .build()
            .map(Self)
            .map_err(|error| RegexError { message: format!("not supported: {error}"), index: 0 })
    }

    /// Whether the pattern matches all of `name`; `None` when that takes too many steps.
    pub(crate) fn is_full_match(&self, name: &str) -> Option<bool> {
        self.0.is_match(name).ok()
    }
}
