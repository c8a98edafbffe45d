//! What whoever asks may do on a cluster, as far as brokers tell it to who asks.
//!
//! Brokers leave out of their lists what one may not describe. Asked for by its name it is refused,
//! whether it exists or not, and of what may be described they tell every operation that is allowed.
//!
//! Does not: read ACLs, which takes a right of its own.
//!
//! References: KIP-430 (operations that are allowed, in Metadata).

use std::collections::BTreeSet;

use twinlog_protocol::ErrorCode;
use twinlog_protocol::messages::{FindCoordinatorRequest, string};
use twinlog_types::{GroupId, TopicName};

use crate::cluster::{Cluster, metadata_request};
use crate::error::ClientError;
use crate::metadata::Topics;

/// Kafka's numbers (`AclOperation`).
const READ: i8 = 3;
const DESCRIBE_CONFIGS: i8 = 10;

/// What stands for "not told", from brokers that do not know the question.
const NOT_TOLD: i32 = i32::MIN;

/// What may be done to a topic, as far as brokers tell; what they do not tell counts as allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicRights {
    /// It may be described: without, nothing else is known of it, nor whether it exists.
    pub describe: bool,
    /// It may be read.
    pub read: bool,
    /// Its configs may be described.
    pub describe_configs: bool,
}

impl TopicRights {
    fn new(code: ErrorCode, operations: i32) -> Self {
        let describe = code != ErrorCode::TOPIC_AUTHORIZATION_FAILED;
        let allows = |operation: i8| {
            describe && (operations == NOT_TOLD || operations & (1 << operation) != 0)
        };
        Self { describe, read: allows(READ), describe_configs: allows(DESCRIBE_CONFIGS) }
    }
}

impl Cluster {
    /// What may be done to topics: to all that may be described, or to these. Of one that may be
    /// described and does not exist, only that is known.
    pub async fn topic_rights(
        &self,
        which: Topics<'_>,
    ) -> Result<Vec<(TopicName, TopicRights)>, ClientError> {
        let request = |_| metadata_request(which).with_include_topic_authorized_operations(true);
        let answer = self.retrying(|| self.ask_any(request)).await?;
        let told = answer.topics.into_iter().filter_map(|topic| {
            let name = TopicName::from(topic.name?.as_str());
            let code = ErrorCode(topic.error_code);
            Some((name, TopicRights::new(code, topic.topic_authorized_operations)))
        });
        Ok(told.collect())
    }

    /// Those of `groups` that may not be described, whether they exist or not. Asked once.
    pub async fn groups_not_to_be_described(
        &self,
        groups: &[GroupId],
    ) -> Result<BTreeSet<GroupId>, ClientError> {
        if groups.is_empty() {
            return Ok(BTreeSet::new());
        }
        let keys = || groups.iter().map(|group| string(group.as_str())).collect();
        let request = |_| FindCoordinatorRequest::default().with_coordinator_keys(keys());
        let answer = self.ask_any(request).await?;
        let refused = answer
            .coordinators
            .into_iter()
            .filter(|told| ErrorCode(told.error_code) == ErrorCode::GROUP_AUTHORIZATION_FAILED);
        Ok(refused.map(|told| GroupId::from(told.key.as_str())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_bits_and_a_refusal_tells_nothing() {
        let all = TopicRights { describe: true, read: true, describe_configs: true };
        assert_eq!(TopicRights::new(ErrorCode::NONE, 1 << 3 | 1 << 8 | 1 << 10), all);
        let seen = TopicRights { read: false, describe_configs: false, ..all };
        assert_eq!(TopicRights::new(ErrorCode::NONE, 1 << 8), seen);
        assert_eq!(TopicRights::new(ErrorCode::NONE, NOT_TOLD), all);
        assert_eq!(TopicRights::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, NOT_TOLD), all);
        let hidden = TopicRights { describe: false, ..seen };
        assert_eq!(TopicRights::new(ErrorCode::TOPIC_AUTHORIZATION_FAILED, NOT_TOLD), hidden);
    }
}
