//! Which topics the ids in our durable state mean.
//!
//! Segments and gaps name topics by id only; the positions beside them say the names, also of
//! topics that are gone since.

use std::collections::BTreeMap;

use twinlog_offsets::state::{PartitionKey, StateRecord};
use twinlog_types::{TopicId, TopicName};

/// Names by the ids on both sides. As many as topics were ever mirrored.
#[derive(Clone, Default, Debug)]
pub(crate) struct Names(BTreeMap<(TopicId, TopicId), (TopicName, TopicName)>);

impl Names {
    /// Learns from a position.
    pub(crate) fn learn(&mut self, record: &StateRecord) {
        let StateRecord::Position(key, position) = record else { return };
        let ids = (key.source_topic, key.target_topic);
        let names = (&position.source_topic, &position.target_topic);
        if self.0.get(&ids).is_none_or(|(a, b)| (a, b) != names) {
            self.0.insert(ids, (names.0.clone(), names.1.clone()));
        }
    }

    /// The names on source and target.
    pub(crate) fn of(&self, key: &PartitionKey) -> Option<&(TopicName, TopicName)> {
        self.0.get(&(key.source_topic, key.target_topic))
    }
}
