//! Regular expressions that clients send and that must match all of a name: of topics (KIP-848)
//! and of transactional ids (KIP-1152).
//!
//! Kafka takes RE2/J's syntax for them; this is the same family, without look-around and
//! back-references, and linear in time.

use std::error::Error as _;

use regex_automata::meta::Regex;

/// A pattern that must match a whole name; the error says what is wrong with it.
pub(crate) fn whole(pattern: &str) -> Result<Regex, String> {
    // By itself first: what is only whole inside of the parentheses is none.
    build(pattern)?;
    build(&format!(r"\A(?:{pattern})\z"))
}

fn build(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| {
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let last = reason.lines().last().unwrap_or_default();
        last.trim_start_matches("error: ").to_owned()
    })
}
