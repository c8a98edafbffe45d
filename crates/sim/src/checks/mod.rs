//! The checkers, one module for each invariant.
//!
//! Each compares what the oracle knows with what a plain reader, or the cluster itself, shows. None
//! uses the product's code to decide; where a checker needs the product's word (the ledger of lost
//! ranges, a translation), that word is the thing that is judged.

use std::fmt;

pub mod i1_loss;
pub mod i2_repeats;
pub mod i3_order;
pub mod i4_bytes;
pub mod i5_translation;
pub mod i5c_commits;
pub mod i6_restart;
pub mod i7_transactions;
pub mod i8_ownership;
pub mod state_bytes;

/// What must be true.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Invariant {
    /// No loss: what is not on the target is in the ledger of lost ranges, and nothing else is.
    I1,
    /// No duplicates.
    I2,
    /// Duplicates only where no look can prevent them, and then they are told.
    I2b,
    /// Order.
    I3,
    /// Byte equality.
    I4,
    /// A committed translation skips nothing.
    I5,
    /// A translation is exact.
    I5b,
    /// Positions on the target never go back.
    I5c,
    /// The stored resume point is never ahead of the target.
    I6,
    /// Aborted records and markers stay behind.
    I7,
    /// One owner of the state.
    I8,
    /// Once the faults are over everything arrives.
    I9,
    /// A topic that was made again is never appended to its old mirror.
    I12,
    /// The product asked of a cluster what destroys records in silence, or one of its tasks panicked.
    Bug,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a checker found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which invariant.
    pub invariant: Invariant,
    /// What, where.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Violations kept of one run; a broken run repeats itself.
const KEPT: usize = 40;

/// What the checkers found in one run.
#[derive(Clone, Debug, Default)]
pub struct Verdicts(pub Vec<Violation>);

impl Verdicts {
    /// Notes what a checker found, if anything.
    pub fn note(&mut self, invariant: Invariant, found: Option<String>) {
        let Some(what) = found else { return };
        let violation = Violation { invariant, what };
        let known = self.0.iter().filter(|known| known.invariant == invariant).count();
        if known < KEPT && !self.0.contains(&violation) {
            self.0.push(violation);
        }
    }
}

/// What the product says about a partition that does not go on, or did not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// The finding's word.
    pub code: String,
    /// The source offsets concerned.
    pub range: Option<(i64, i64)>,
    /// Whether it says that it goes on by itself.
    pub passing: bool,
}
