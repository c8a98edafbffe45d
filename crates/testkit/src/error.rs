//! What can go wrong around a real cluster, said so that a test's failure needs no debugger.

use std::io;
use std::time::Duration;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong around a real cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Java, a compiler or Maven is missing or too old.
    #[error("{0}")]
    Unavailable(String),
    /// The operating system refused something.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried, as a verb with its object.
        what: String,
        /// The refusal.
        source: io::Error,
    },
    /// A program ran and ended badly.
    #[error("{program} ended with {status}:\n{output}")]
    Failed {
        /// Which program.
        program: String,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A condition did not come true in time.
    #[error("{what} did not happen within {limit:?}{detail}")]
    TimedOut {
        /// The condition.
        what: String,
        /// How long it was waited for.
        limit: Duration,
        /// What was seen instead, with its own leading separator, or nothing.
        detail: String,
    },
    /// The Java shell did not do what it was asked to.
    #[error("{command}: {answer}")]
    Refused {
        /// The command.
        command: String,
        /// The exception of the Java side.
        answer: String,
    },
    /// Output that this crate could not make sense of.
    #[error("cannot read {what}: {detail}")]
    Malformed {
        /// What was read.
        what: String,
        /// Where and why it made no sense.
        detail: String,
    },
}

/// Adds what was being done to an error of the operating system.
pub(crate) trait IoContext<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source })
    }
}
