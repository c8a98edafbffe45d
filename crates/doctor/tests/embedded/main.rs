//! The whole way on two embedded clusters, most with an engine between them, on a paused clock: what
//! is read, and the verdicts.

mod doctoring;
mod explaining;
mod rights;
mod world;
