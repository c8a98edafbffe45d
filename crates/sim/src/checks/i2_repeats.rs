//! I2: each record once, for a reader at the end and for one during the faults. I2b: where a broker
//! forgot a producer while a packet was late, no look can prevent a repeat; then it is told.

use crate::oracle::{Mirror, Written};

/// A record that stands there already.
pub fn again(mirror: &Mirror, written: &Written, target: i64) -> Option<String> {
    if !mirror.times.contains_key(&written.number) {
        return None;
    }
    let before = mirror.seen.iter().rev().find(|seen| seen.number == written.number)?;
    Some(format!(
        "record {} (source offset {}) stands at {} and again at {target}",
        written.number, written.offset, before.target
    ))
}

/// Repeats that nobody was told about. A partition that is stopped is not looked at any more.
pub fn untold(mirror: &Mirror, told: bool) -> Option<String> {
    let repeats: u64 = mirror.times.values().map(|times| u64::from(times.saturating_sub(1))).sum();
    (repeats > 0 && !told).then(|| format!("{repeats} records stand twice and no event says so"))
}
