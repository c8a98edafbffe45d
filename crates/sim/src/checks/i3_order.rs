//! I3: the source offsets of what is read on the target increase; what was read never moves.

use crate::oracle::{Mirror, Seen, Written};

/// A record that stands behind a later one. A repeat is I2's business.
pub fn step_back(mirror: &Mirror, written: &Written, target: i64) -> Option<String> {
    let last = mirror.highest?;
    (written.offset <= last && !mirror.times.contains_key(&written.number)).then(|| {
        format!(
            "record {} (source offset {}) stands at {target}, behind source offset {last}",
            written.number, written.offset
        )
    })
}

/// What a quiet reader sees is not what was read during the faults.
pub fn moved(during: &Mirror, after: &Mirror) -> Option<String> {
    let differs = during.seen.iter().zip(&after.seen).find(|(one, other)| one != other);
    if let Some((Seen { target, number, .. }, other)) = differs {
        return Some(format!(
            "at {target} record {number} was read, now {} at {}",
            other.number, other.target
        ));
    }
    (during.seen.len() > after.seen.len())
        .then(|| format!("{} records were read, {} are there", during.seen.len(), after.seen.len()))
}
