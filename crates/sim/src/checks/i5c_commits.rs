//! I5c: a position on the target never goes back, least of all against the target's own consumers;
//! unless the group was moved back on the source, and nobody but us ever moved it on the target.

/// A commit of ours that took a position back. `follows`: whether it may have followed the source.
pub fn went_back(before: Option<i64>, now: Option<i64>, follows: bool) -> Option<String> {
    let before = before?;
    match now {
        Some(now) if now >= before || follows => None,
        Some(now) => Some(format!("was moved back from {before} to {now}")),
        None => Some(format!("had {before} and has nothing now")),
    }
}
