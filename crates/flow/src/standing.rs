//! How one mirrored thing stands, in the words of `status`.
//!
//! Does not: decide anything; every machine of this crate answers with one of these.

use twinlog_types::{Code, State};

/// A state, and where it is not `in-sync` the code and the sentence that explain it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The state.
    pub state: State,
    /// What was diagnosed, where something was.
    pub code: Option<Code>,
    /// Why, for a human reader: a sentence without a full stop.
    pub reason: Option<String>,
}

impl Standing {
    /// In sync, with nothing to add.
    pub fn in_sync() -> Self {
        Self { state: State::InSync, code: None, reason: None }
    }

    /// A state that needs an explanation but is no finding.
    pub fn because(state: State, reason: impl Into<String>) -> Self {
        Self { state, code: None, reason: Some(reason.into()) }
    }

    /// A state explained by a finding.
    pub fn found(state: State, code: Code, reason: impl Into<String>) -> Self {
        Self { state, code: Some(code), reason: Some(reason.into()) }
    }

    /// Whether state and code are the same; reasons carry numbers that change all the time.
    pub fn same_kind(&self, other: &Self) -> bool {
        self.state == other.state && self.code == other.code
    }

    /// How much attention it asks for: the standing of a whole is the highest of its parts.
    pub fn urgency(&self) -> (u8, Option<Code>) {
        let state = match self.state {
            State::Excluded => 0,
            State::InSync => 1,
            State::CatchingUp => 2,
            State::Paused => 3,
            State::Waiting => 4,
            State::Unknown => 5,
            State::Unreachable => 6,
            State::Stopped => 7,
        };
        (state, self.code)
    }
}
