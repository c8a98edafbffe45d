//! The whole way on two embedded clusters, most with an engine between them, on a paused clock: what
//! is read, and the verdicts.

mod doctoring;
mod examples;
mod explaining;
mod faults;
mod files;
mod logs;
mod rights;
mod world;
