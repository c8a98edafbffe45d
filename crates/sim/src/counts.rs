//! What happened in a run: without enough of it, a run proves nothing.

use std::collections::BTreeMap;
use std::fmt;

/// How often each thing happened, by name.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Counts(pub BTreeMap<String, u64>);

impl Counts {
    /// One more of these.
    pub fn note(&mut self, what: &str) {
        self.add(what, 1);
    }

    /// So many more of these.
    pub fn add(&mut self, what: &str, count: u64) {
        if count > 0 {
            *self.0.entry(what.to_owned()).or_default() += count;
        }
    }

    /// How often.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Adds all of another run.
    pub fn merge(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            self.add(what, *count);
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (what, count) in &self.0 {
            write!(f, "{separator}{what} {count}")?;
            separator = ", ";
        }
        Ok(())
    }
}
