//! The engine between two embedded clusters, on a paused clock.

mod blocks;
mod commits;
mod copying;
mod decisions;
mod groups;
mod late;
mod losses;
mod observe;
mod offsets;
mod ownership;
mod scenarios;
mod share_groups;
mod starting;
mod stored;
mod support;
mod takeover;
