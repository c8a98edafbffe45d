//! Share groups (KIP-932): where each partition's unread records begin.
//!
//! What lies behind that start and was acknowledged is the coordinator's own: it cannot be read or
//! written from outside.
//!
//! References: KIP-932, KIP-1043 (`kafka-share-groups.sh --reset-offsets` sends what is sent here).

use std::collections::BTreeMap;

use twinlog_protocol::ErrorCode;
use twinlog_protocol::messages::{
    AlterShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequest,
    alter_share_group_offsets_request, describe_share_group_offsets_request,
    describe_share_group_offsets_response, string, topic_name,
};
use twinlog_types::{BrokerId, GroupId, TopicName, TopicPartition};

use crate::cluster::{Cluster, ask_on};
use crate::connections::{OnItsWay, Purpose};
use crate::error::ClientError;
use crate::groups::{CommittedOffset, CoordinatorKind};
use crate::positions::{Codes, Positions, in_order};

impl Cluster {
    /// Where the unread records of these groups begin, as their coordinator says. An unknown group has
    /// no position.
    pub(crate) async fn fetch_share_offsets(
        &self,
        broker: BrokerId,
        groups: &[&GroupId],
    ) -> Result<Positions, ClientError> {
        use describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup as Wanted;
        let request = |_| {
            let all = |group: &&GroupId| {
                Wanted::default().with_group_id(wire_id(group)).with_topics(None)
            };
            DescribeShareGroupOffsetsRequest::default()
                .with_groups(groups.iter().map(all).collect())
        };
        let response = match self.ask_broker(broker, request).await {
            Ok(response) => response,
            Err(ClientError::Unsupported { .. }) => {
                let unserved = Err(ErrorCode::UNSUPPORTED_VERSION);
                return Ok(groups.iter().map(|g| ((*g).clone(), unserved.clone())).collect());
            }
            Err(error) => return Err(error),
        };
        let told = response.groups.into_iter().map(|group| {
            let outcome = match ErrorCode(group.error_code) {
                ErrorCode::NONE => Ok(starts(group.topics)),
                ErrorCode::GROUP_ID_NOT_FOUND => Ok(Vec::new()),
                code => Err(code),
            };
            (GroupId::from(group.group_id.as_str()), outcome)
        });
        Ok(told.collect())
    }

    pub(crate) async fn alter_share_offsets_once(
        &self,
        group: &GroupId,
        offsets: &[(TopicPartition, i64, String)],
    ) -> Result<Codes, ClientError> {
        let broker = self.coordinator(CoordinatorKind::Group, group.as_str()).await?;
        let address = self.address(broker).await?;
        let connection = self.inner.connections.shared(Purpose::Control, &address).await?;
        let on_its_way = OnItsWay::on(&connection);
        let response = ask_on(&connection, |_| alter_share_offsets(group, offsets)).await;
        on_its_way.answered();
        let response = response?;
        let whole = ErrorCode(response.error_code);
        if !whole.is_ok() {
            return Ok(offsets.iter().map(|(tp, _, _)| (tp.clone(), whole)).collect());
        }
        let told = response.responses.into_iter().flat_map(|topic| {
            let name = TopicName::from(topic.topic_name.as_str());
            topic.partitions.into_iter().map(move |data| {
                let tp = TopicPartition::new(name.clone(), data.partition_index);
                (tp, ErrorCode(data.error_code))
            })
        });
        in_order(group, offsets, &told.collect(), connection.peer(), "AlterShareGroupOffsets")
    }
}

fn wire_id(group: &GroupId) -> twinlog_protocol::messages::GroupId {
    twinlog_protocol::messages::GroupId(string(group.as_str()))
}

fn alter_share_offsets(
    group: &GroupId,
    offsets: &[(TopicPartition, i64, String)],
) -> AlterShareGroupOffsetsRequest {
    use alter_share_group_offsets_request as request;
    let mut topics: BTreeMap<&TopicName, Vec<_>> = BTreeMap::new();
    for (tp, offset, _) in offsets {
        topics.entry(&tp.topic).or_default().push(
            request::AlterShareGroupOffsetsRequestPartition::default()
                .with_partition_index(tp.partition)
                .with_start_offset(*offset),
        );
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        request::AlterShareGroupOffsetsRequestTopic::default()
            .with_topic_name(topic_name(name.as_str()))
            .with_partitions(partitions)
    });
    AlterShareGroupOffsetsRequest::default()
        .with_group_id(wire_id(group))
        .with_topics(topics.collect())
}

fn starts(
    topics: Vec<describe_share_group_offsets_response::DescribeShareGroupOffsetsResponseTopic>,
) -> Vec<CommittedOffset> {
    let mut offsets = Vec::new();
    for topic in topics {
        let name = TopicName::from(topic.topic_name.as_str());
        for data in topic.partitions {
            offsets.push(CommittedOffset {
                tp: TopicPartition::new(name.clone(), data.partition_index),
                offset: data.start_offset,
                leader_epoch: data.leader_epoch,
                metadata: String::new(),
                error: ErrorCode(data.error_code),
            });
        }
    }
    offsets.sort_by(|a, b| a.tp.cmp(&b.tp));
    offsets
}
