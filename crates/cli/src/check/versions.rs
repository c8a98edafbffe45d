//! Which Kafka a cluster's brokers are, as far as they tell.

use std::collections::BTreeMap;

use twinlog_engine::observe::PlannedSide;

/// Brokers that speak alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spoken {
    pub(super) brokers: Vec<i32>,
    /// Finalized features of their cluster.
    pub(super) features: BTreeMap<String, i16>,
    /// The newest version of Fetch.
    pub(super) fetch: i16,
}

/// The brokers of a side, by what they speak; one item where all are alike.
pub(super) fn spoken(side: &PlannedSide) -> Vec<Spoken> {
    let mut all: Vec<Spoken> = Vec::new();
    for offer in &side.offers {
        let alike = |one: &&mut Spoken| one.fetch == offer.fetch && one.features == offer.features;
        match all.iter_mut().find(alike) {
            Some(one) => one.brokers.push(offer.broker),
            None => all.push(Spoken {
                brokers: vec![offer.broker],
                features: offer.features.clone(),
                fetch: offer.fetch,
            }),
        }
    }
    all
}

impl Spoken {
    /// The release that the cluster was told to behave like; brokers may be newer.
    pub(super) fn release(&self) -> Option<&'static str> {
        self.features.get("metadata.version").and_then(|level| release_of(*level))
    }

    /// `Kafka 4.3 (metadata.version 30), group.version 1, Fetch up to 18`
    pub(super) fn words(&self) -> String {
        let mut words = Vec::new();
        let level = self.features.get("metadata.version");
        words.push(match (self.release(), level) {
            (Some(release), Some(level)) => format!("Kafka {release} (metadata.version {level})"),
            (None, Some(level)) => format!("metadata.version {level}, of a Kafka not known here"),
            (_, None) => "no metadata.version: ZooKeeper, or older than 3.3".to_owned(),
        });
        let others = self.features.iter().filter(|(name, _)| *name != "metadata.version");
        words.extend(others.map(|(name, level)| format!("{name} {level}")));
        words.push(format!("Fetch up to {}", self.fetch));
        words.join(", ")
    }
}

/// The release whose metadata level this is (`MetadataVersion` of Kafka).
fn release_of(level: i16) -> Option<&'static str> {
    Some(match level {
        1..=3 => "3.0 to 3.2",
        4..=7 => "3.3",
        8 => "3.4",
        9..=11 => "3.5",
        12..=14 => "3.6",
        15..=19 => "3.7",
        20 => "3.8",
        21 => "3.9",
        22..=25 => "4.0",
        26..=27 => "4.1",
        28..=29 => "4.2",
        30 => "4.3",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_told_by_the_level_of_its_metadata() {
        let words = |features: &[(&str, i16)]| {
            let features = features.iter().map(|(name, level)| ((*name).to_owned(), *level));
            Spoken { brokers: vec![1], features: features.collect(), fetch: 17 }.words()
        };
        assert_eq!(
            words(&[("metadata.version", 21)]),
            "Kafka 3.9 (metadata.version 21), Fetch up to 17"
        );
        assert_eq!(
            words(&[("metadata.version", 30), ("group.version", 1)]),
            "Kafka 4.3 (metadata.version 30), group.version 1, Fetch up to 17"
        );
        assert!(words(&[("metadata.version", 99)]).starts_with("metadata.version 99"));
        assert!(words(&[]).starts_with("no metadata.version"));
    }
}
