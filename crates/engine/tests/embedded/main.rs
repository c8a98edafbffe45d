//! The engine between two embedded clusters, on a paused clock.

mod commits;
mod copying;
mod groups;
mod observe;
mod ownership;
mod support;
