//! I5: whoever goes on at a translated position skips nothing. I5b: and reads nothing twice.

use crate::oracle::Mirror;

/// A position that was committed on the target although records at or above `committed`, the
/// furthest that the group was at lately, lie below it.
pub fn skips(mirror: &Mirror, committed: Option<i64>, target: i64) -> Option<String> {
    let Some(committed) = committed else {
        return Some(format!("{target} was committed for a group that committed nothing"));
    };
    // What the target lost and nobody has noticed yet is copied to the same place again.
    if target > mirror.next.max(mirror.longest) {
        return Some(format!(
            "{target} was committed, but the target's log ends at {}",
            mirror.next
        ));
    }
    // What stands twice, where that is allowed, is read behind the place as well as in front of it.
    let (below, above) = mirror.around(target);
    let again = |number| above.iter().any(|seen| seen.number == number);
    let skipped =
        below.iter().rev().find(|seen| seen.source >= committed && !again(seen.number))?;
    Some(format!(
        "{target} was committed for {committed}, which skips source offset {} at {}",
        skipped.source, skipped.target
    ))
}

/// A translation that is not the place that contents give.
pub fn inexact(mirror: &Mirror, position: i64, answer: Option<i64>) -> Option<String> {
    let place = mirror.place_of(position);
    (answer != Some(place)).then(|| {
        format!("source offset {position} is translated to {answer:?}, its place is {place}")
    })
}
