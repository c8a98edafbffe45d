//! Topics as a cluster listed them, with a memory.
//!
//! A broker that just started, or lags behind its controller, may list fewer topics than there are,
//! or list one with an error. Nothing is concluded from one such answer: a topic counts as gone
//! only when several in a row did not list it.

use std::collections::BTreeMap;

use twinlog_client::{ErrorCode, TopicInfo};
use twinlog_flow::topics::TopicListing;
use twinlog_types::TopicName;

/// So many listings in a row must be without a topic.
const MISSED_MAX: u32 = 3;

/// What was seen of one cluster's topics.
#[derive(Debug, Default)]
pub(crate) struct Sightings(BTreeMap<TopicName, (TopicListing, u32)>);

impl Sightings {
    /// The topics there are, after one more listing.
    pub(crate) fn after(&mut self, listed: &[TopicInfo]) -> Vec<TopicListing> {
        let mut present: BTreeMap<&TopicName, &TopicInfo> =
            listed.iter().map(|topic| (&topic.name, topic)).collect();
        self.0.retain(|name, (listing, missed)| match present.remove(name) {
            Some(topic) if topic.error == ErrorCode::NONE => {
                *listing = listing_of(topic);
                *missed = 0;
                true
            }
            // It is there, or it is not said that it is not.
            Some(topic) if topic.error != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => true,
            Some(_) | None => {
                *missed += 1;
                *missed < MISSED_MAX
            }
        });
        for topic in present.into_values().filter(|topic| topic.error == ErrorCode::NONE) {
            self.0.insert(topic.name.clone(), (listing_of(topic), 0));
        }
        self.0.values().map(|(listing, _)| listing.clone()).collect()
    }
}

fn listing_of(topic: &TopicInfo) -> TopicListing {
    TopicListing {
        name: topic.name.clone(),
        id: topic.id,
        partitions: topic.partitions.len() as i32,
        configs: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_types::TopicId;

    fn info(name: &str, error: ErrorCode) -> TopicInfo {
        TopicInfo {
            name: name.into(),
            id: TopicId([1; 16]),
            internal: false,
            error,
            partitions: Vec::new(),
        }
    }

    fn names(listings: &[TopicListing]) -> Vec<&str> {
        listings.iter().map(|listing| listing.name.as_str()).collect()
    }

    #[test]
    fn a_topic_is_gone_only_after_three_listings_without_it() {
        let mut sightings = Sightings::default();
        let both = [info("a", ErrorCode::NONE), info("b", ErrorCode::NONE)];
        assert_eq!(names(&sightings.after(&both)), ["a", "b"]);
        assert_eq!(names(&sightings.after(&[])), ["a", "b"]);
        assert_eq!(names(&sightings.after(&[])), ["a", "b"]);
        assert_eq!(names(&sightings.after(&both[..1])), ["a"]);
        assert_eq!(names(&sightings.after(&both)), ["a", "b"]);
    }

    #[test]
    fn a_topic_listed_with_an_error_is_still_there_but_not_new() {
        let mut sightings = Sightings::default();
        sightings.after(&[info("a", ErrorCode::NONE)]);
        let error = ErrorCode::LEADER_NOT_AVAILABLE;
        for _ in 0..5 {
            assert_eq!(names(&sightings.after(&[info("a", error), info("b", error)])), ["a"]);
        }
    }
}
