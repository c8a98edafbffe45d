//! The engine between two embedded clusters, on a paused clock.

mod blocks;
mod commits;
mod copying;
mod decisions;
mod groups;
mod late;
mod losses;
mod observe;
mod ownership;
mod scenarios;
mod stored;
mod support;
mod takeover;
