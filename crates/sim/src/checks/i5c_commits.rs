//! I5c: a position on the target never goes back, least of all against the target's own consumers.

/// A commit of ours that took a position back.
pub fn went_back(before: Option<i64>, now: Option<i64>) -> Option<String> {
    let before = before?;
    match now {
        Some(now) if now >= before => None,
        Some(now) => Some(format!("was moved back from {before} to {now}")),
        None => Some(format!("had {before} and has nothing now")),
    }
}
