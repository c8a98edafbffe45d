//! What a fetch session has told the broker, and what the next request must say.
//!
//! Pure: the requests are built and sent by [`FetchSession`](super::FetchSession). References:
//! KIP-227; Kafka's `FetchSessionHandler`.

use std::collections::BTreeMap;

use twinlog_protocol::ErrorCode;
use twinlog_protocol::messages::{fetch_response, topic_id as read_topic_id};
use twinlog_types::{TopicId, TopicName, TopicPartition};

use super::FetchPartition;

/// What the broker is believed to have in its session.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// 0 while there is none.
    pub(super) id: i32,
    /// What the next request carries; 0 asks for a new session (and closes the one named).
    pub(super) epoch: i32,
    pub(super) by_id: bool,
    pub(super) partitions: BTreeMap<TopicPartition, FetchPartition>,
    pub(super) topics: BTreeMap<TopicId, TopicName>,
}

/// What one request says.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) session_id: i32,
    pub(super) session_epoch: i32,
    pub(super) by_id: bool,
    pub(super) changed: Vec<FetchPartition>,
    pub(super) forgotten: Vec<(TopicPartition, TopicId)>,
    pub(super) partitions: BTreeMap<TopicPartition, FetchPartition>,
}

impl SessionState {
    pub(super) fn plan(&mut self, wanted: &[FetchPartition], by_id: bool) -> Plan {
        let mut partitions = BTreeMap::new();
        for partition in wanted {
            let before = partitions.insert(partition.tp.clone(), partition.clone());
            assert!(before.is_none(), "{} twice in one fetch", partition.tp);
        }
        if by_id != self.by_id {
            self.restart();
        }
        let mut changed = Vec::new();
        let mut forgotten = Vec::new();
        if self.epoch == 0 {
            changed.extend_from_slice(wanted);
        } else {
            for partition in wanted {
                match self.partitions.get(&partition.tp) {
                    Some(before) if before == partition => {}
                    Some(before) => {
                        if by_id && before.topic_id != partition.topic_id {
                            // To the broker these are two partitions of two topics.
                            forgotten.push((before.tp.clone(), before.topic_id));
                        }
                        changed.push(partition.clone());
                    }
                    None => changed.push(partition.clone()),
                }
            }
            for (tp, before) in &self.partitions {
                if !partitions.contains_key(tp) {
                    forgotten.push((tp.clone(), before.topic_id));
                }
            }
        }
        Plan {
            session_id: self.id,
            session_epoch: self.epoch,
            by_id,
            changed,
            forgotten,
            partitions,
        }
    }

    pub(super) fn accepted(&mut self, plan: Plan, session_id: i32) {
        self.id = session_id;
        self.epoch = match (session_id, plan.session_epoch) {
            // The broker keeps no session for us: every request says everything.
            (0, _) => 0,
            (_, i32::MAX) => 1,
            (_, epoch) => epoch + 1,
        };
        self.by_id = plan.by_id;
        self.topics = BTreeMap::new();
        if plan.by_id {
            for (tp, partition) in &plan.partitions {
                self.topics.entry(partition.topic_id).or_insert_with(|| tp.topic.clone());
            }
        }
        self.partitions = plan.partitions;
    }

    pub(super) fn refused(&mut self, code: ErrorCode) {
        if code == ErrorCode::FETCH_SESSION_ID_NOT_FOUND {
            self.id = 0;
        }
        self.restart();
    }

    /// The next request asks for a new session and closes the old one, which would otherwise
    /// take one of the broker's slots until it is evicted.
    pub(super) fn restart(&mut self) {
        self.epoch = 0;
        self.partitions.clear();
    }

    pub(super) fn topic(
        &self,
        topic: &fetch_response::FetchableTopicResponse,
    ) -> Option<TopicName> {
        if self.by_id {
            self.topics.get(&read_topic_id(topic.topic_id)).cloned()
        } else {
            Some(TopicName::from(topic.topic.as_str()))
        }
    }
}
