//! I6: at every kill the stored resume point is covered by what the target holds for good.

use super::state_bytes::Position;
use crate::oracle::{Mirror, SourceLog};

/// A stored position that claims what the target does not have.
pub fn ahead(position: &Position, log: &SourceLog, mirror: &Mirror) -> Option<String> {
    let missing = log
        .expected()
        .filter(|record| record.offset >= position.start && record.offset < position.copied_to)
        .find(|record| !mirror.times.contains_key(&record.number));
    if let Some(missing) = missing {
        // What the cleaner took before it was read is no part of the copy.
        if !log.compacted {
            return Some(format!(
                "the stored position is {}, but source offset {} is not on the target",
                position.copied_to, missing.offset
            ));
        }
    }
    let there = mirror.seen.len() as u64;
    (position.count > there)
        .then(|| format!("{} records are stored as copied, {there} are there", position.count))
}
