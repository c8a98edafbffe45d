//! Groups as an onlooker sees them, and who coordinates them. Where they stand is in
//! [`positions`](crate::positions).
//!
//! Does not: join groups, or decide what may be committed.
//!
//! # What an answer cannot tell
//!
//! Missing rights shorten answers without a word: groups that may not be described are missing
//! from [`Cluster::list_groups`].
//!
//! References: KIP-699 (many coordinators at once), KIP-518 and KIP-848 (states and types).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use twinlog_protocol::messages::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest,
    FindCoordinatorRequest, ListGroupsRequest, ShareGroupDescribeRequest, list_groups_response,
    string,
};
use twinlog_protocol::{ErrorCode, Remedy};
use twinlog_types::{BrokerId, GroupId, LeaderEpoch, TopicPartition};

use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::join::join_all;
use crate::metadata::BrokerInfo;

/// What kind of group it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKind {
    /// The classic protocol, Connect's and simple committers' groups included.
    Classic,
    /// KIP-848.
    Consumer,
    /// KIP-932: no committed offsets, but where the unread records of partitions begin.
    Share,
    /// KIP-1071.
    Streams,
    /// The broker does not say (before Kafka 3.8), or says a word we do not know.
    Unknown,
}

impl GroupKind {
    fn from_word(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "classic" => Self::Classic,
            "consumer" => Self::Consumer,
            "share" => Self::Share,
            "streams" => Self::Streams,
            _ => Self::Unknown,
        }
    }
}

/// One group as ListGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// Its id.
    pub group: GroupId,
    /// Its kind.
    pub kind: GroupKind,
    /// Kafka's word for its state: `Stable`, `Empty`, `PreparingRebalance`, ...
    pub state: String,
    /// `consumer`, `connect`, `share`, ...; empty when the group never had a member.
    pub protocol_type: String,
}

/// One group's offset in one partition; of a share group, where its unread records begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The partition.
    pub tp: TopicPartition,
    /// The next offset the group would read; -1 with an error.
    pub offset: i64,
    /// The leader epoch committed with it; -1 for none.
    pub leader_epoch: LeaderEpoch,
    /// The committer's note.
    pub metadata: String,
    /// The partition's own code: 88 while a transaction holds a newer commit.
    pub error: ErrorCode,
}

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub member_id: String,
    /// Its `group.instance.id`, for static members.
    pub instance_id: Option<String>,
    /// What its client calls itself.
    pub client_id: String,
    /// Where the broker sees it.
    pub client_host: String,
    /// What its leader assigned to it, in the form of the group's protocol; empty where the kind of
    /// group has none.
    pub assignment: Bytes,
}

/// One group, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Kafka's word for its state.
    pub state: String,
    /// How many members it has.
    pub members: usize,
    /// Them.
    pub member_list: Vec<GroupMember>,
    /// `consumer`, `connect`, ...; empty when it never had a member, or when the kind has none.
    pub protocol_type: String,
}

/// What a coordinator coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CoordinatorKind {
    Group,
    Transaction,
}

/// How many keys one request for coordinators names.
const KEYS_PER_REQUEST: usize = 200;
pub(crate) fn may_pass(code: ErrorCode) -> bool {
    matches!(code.remedy(), Remedy::Retry | Remedy::Refresh | Remedy::Reroute)
}

impl Cluster {
    /// Every group that may be described, from every broker, by id. An error when any broker does
    /// not answer: a part would look like the whole.
    pub async fn list_groups(&self) -> Result<Vec<GroupListing>, ClientError> {
        let brokers = self.brokers().await?;
        let listed = join_all(brokers.iter().map(|broker| self.listed_by(broker))).await;
        let mut groups = BTreeMap::new();
        for listed in listed {
            note_listed(listed?, &mut groups);
        }
        Ok(groups.into_values().collect())
    }

    /// As [`list_groups`](Self::list_groups), of the brokers that answer within `patience`; and whether
    /// these are all. Where they are not, a group that is not listed may be there.
    pub async fn list_groups_within(
        &self,
        patience: Duration,
    ) -> Result<(Vec<GroupListing>, bool), ClientError> {
        let brokers = self.brokers().await?;
        let asked =
            brokers.iter().map(|broker| tokio::time::timeout(patience, self.listed_by(broker)));
        let (mut groups, mut whole) = (BTreeMap::new(), true);
        for (listed, broker) in join_all(asked).await.into_iter().zip(&brokers) {
            match listed {
                Ok(Ok(listed)) => note_listed(listed, &mut groups),
                Ok(Err(error)) if !error.is_retriable() => return Err(error),
                Ok(Err(_)) | Err(_) => {
                    tracing::debug!(broker = broker.id, "its groups are not listed in time");
                    whole = false;
                }
            }
        }
        Ok((groups.into_values().collect(), whole))
    }

    async fn listed_by(
        &self,
        broker: &BrokerInfo,
    ) -> Result<Vec<list_groups_response::ListedGroup>, ClientError> {
        self.retrying(move || async move {
            let response = self.ask_broker(broker.id, |_| ListGroupsRequest::default()).await?;
            ErrorCode(response.error_code).ok().map_err(|code| ClientError::Code {
                api: "ListGroups",
                code,
                message: None,
                about: format!("broker {} ({}:{})", broker.id, broker.host, broker.port),
            })?;
            Ok(response.groups)
        })
        .await
    }

    /// Deletes a group without members, and with it all its commits. Answers the coordinator's code:
    /// 68 that it has members, 69 that there is no such group.
    ///
    /// # Errors
    ///
    /// When the coordinator cannot be found or reached in time.
    pub async fn delete_group(&self, group: &GroupId) -> Result<ErrorCode, ClientError> {
        self.retrying(|| async {
            let broker = self.coordinator(CoordinatorKind::Group, group.as_str()).await?;
            let named = vec![string(group.as_str()).into()];
            let request = |_| DeleteGroupsRequest::default().with_groups_names(named.clone());
            let outcome = self.ask_broker(broker, request).await;
            let code = match &outcome {
                Ok(response) => response.results.first().map(|result| ErrorCode(result.error_code)),
                Err(error) => error.code(),
            };
            if code.is_some_and(may_pass) || outcome.as_ref().is_err_and(ClientError::is_retriable)
            {
                self.forget_coordinators(CoordinatorKind::Group, [group.as_str()].into_iter());
            }
            outcome?;
            let code = code.unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR);
            if may_pass(code) {
                let about = group.to_string();
                return Err(ClientError::Code { api: "DeleteGroups", code, message: None, about });
            }
            Ok(code)
        })
        .await
    }

    /// Describes one group by its kind (as [`Cluster::list_groups`] tells it): asked the wrong way,
    /// a broker answers that there is no such group. Streams groups are not described
    /// ([`ClientError::Unsupported`]); their listing has the state.
    pub async fn describe_group(
        &self,
        group: &GroupId,
        kind: GroupKind,
    ) -> Result<GroupDescription, ClientError> {
        self.retrying(|| async {
            let outcome = self.describe_group_once(group, kind).await;
            if outcome.as_ref().is_err_and(ClientError::is_retriable) {
                self.forget_coordinators(CoordinatorKind::Group, [group.as_str()].into_iter());
            }
            outcome
        })
        .await
    }

    async fn describe_group_once(
        &self,
        group: &GroupId,
        kind: GroupKind,
    ) -> Result<GroupDescription, ClientError> {
        let broker = self.coordinator(CoordinatorKind::Group, group.as_str()).await?;
        let id = || twinlog_protocol::messages::GroupId(string(group.as_str()));
        let refused = |api, code, message: Option<String>| ClientError::Code {
            api,
            code,
            message,
            about: format!("group {group} at broker {broker}"),
        };
        let nothing = |api| refused(api, ErrorCode::GROUP_ID_NOT_FOUND, None);
        match kind {
            GroupKind::Classic | GroupKind::Unknown => {
                let request = |_| DescribeGroupsRequest::default().with_groups(vec![id()]);
                let response = self.ask_broker(broker, request).await?;
                let data = response.groups.into_iter().next();
                let data = data.ok_or_else(|| nothing("DescribeGroups"))?;
                let message = data.error_message.map(|text| text.to_string());
                ErrorCode(data.error_code)
                    .ok()
                    .map_err(|code| refused("DescribeGroups", code, message))?;
                let members = data.members.into_iter().map(|member| GroupMember {
                    member_id: member.member_id.to_string(),
                    instance_id: member.group_instance_id.map(|id| id.to_string()),
                    client_id: member.client_id.to_string(),
                    client_host: member.client_host.to_string(),
                    assignment: member.member_assignment,
                });
                Ok(described(&data.group_state, &data.protocol_type, members.collect()))
            }
            GroupKind::Consumer => {
                let request =
                    |_| ConsumerGroupDescribeRequest::default().with_group_ids(vec![id()]);
                let response = self.ask_broker(broker, request).await?;
                // 3.9 answers once per coordinator shard: the right entry is the one that is not
                // "not found".
                let not_found = ErrorCode::GROUP_ID_NOT_FOUND.0;
                let data =
                    response.groups.into_iter().min_by_key(|data| data.error_code == not_found);
                let data = data.ok_or_else(|| nothing("ConsumerGroupDescribe"))?;
                let message = data.error_message.map(|text| text.to_string());
                ErrorCode(data.error_code)
                    .ok()
                    .map_err(|code| refused("ConsumerGroupDescribe", code, message))?;
                let members = data.members.into_iter().map(|member| GroupMember {
                    member_id: member.member_id.to_string(),
                    instance_id: member.instance_id.map(|id| id.to_string()),
                    client_id: member.client_id.to_string(),
                    client_host: member.client_host.to_string(),
                    assignment: Bytes::new(),
                });
                Ok(described(&data.group_state, "consumer", members.collect()))
            }
            GroupKind::Share => {
                let request = |_| ShareGroupDescribeRequest::default().with_group_ids(vec![id()]);
                let response = self.ask_broker(broker, request).await?;
                let data = response.groups.into_iter().next();
                let data = data.ok_or_else(|| nothing("ShareGroupDescribe"))?;
                let message = data.error_message.map(|text| text.to_string());
                ErrorCode(data.error_code)
                    .ok()
                    .map_err(|code| refused("ShareGroupDescribe", code, message))?;
                let members = data.members.into_iter().map(|member| GroupMember {
                    member_id: member.member_id.to_string(),
                    instance_id: None,
                    client_id: member.client_id.to_string(),
                    client_host: member.client_host.to_string(),
                    assignment: Bytes::new(),
                });
                Ok(described(&data.group_state, "share", members.collect()))
            }
            GroupKind::Streams => Err(ClientError::Unsupported {
                peer: "this client".into(),
                what: format!("describing streams group {group}; its listing has the state"),
            }),
        }
    }

    /// The coordinator of one key.
    pub(crate) async fn coordinator(
        &self,
        kind: CoordinatorKind,
        key: &str,
    ) -> Result<BrokerId, ClientError> {
        let found = self.coordinators(kind, &[key]).await?;
        found.get(key).copied().unwrap_or(Err(ErrorCode::COORDINATOR_NOT_AVAILABLE)).map_err(
            |code| ClientError::Code {
                api: "FindCoordinator",
                code,
                message: None,
                about: format!("{kind:?} {key}").to_lowercase(),
            },
        )
    }

    /// The coordinators of many keys, from memory or asked for together.
    pub(crate) async fn coordinators(
        &self,
        kind: CoordinatorKind,
        keys: &[&str],
    ) -> Result<BTreeMap<String, Result<BrokerId, ErrorCode>>, ClientError> {
        let mut found: BTreeMap<String, Result<BrokerId, ErrorCode>> = BTreeMap::new();
        let mut unknown = Vec::new();
        {
            let known = self.inner.coordinators.lock();
            for key in keys {
                match known.get(&(kind, (*key).to_owned())) {
                    Some(broker) => drop(found.insert((*key).to_owned(), Ok(*broker))),
                    None => unknown.push(*key),
                }
            }
        }
        for chunk in unknown.chunks(KEYS_PER_REQUEST) {
            // Version 4 and up, so Kafka 3.0: many keys in one request.
            let response = self
                .ask_any(|_| {
                    FindCoordinatorRequest::default()
                        .with_key_type(match kind {
                            CoordinatorKind::Group => 0,
                            CoordinatorKind::Transaction => 1,
                        })
                        .with_coordinator_keys(chunk.iter().map(|key| string(key)).collect())
                })
                .await?;
            let mut known = self.inner.coordinators.lock();
            for told in response.coordinators {
                let key = told.key.to_string();
                let answer = ErrorCode(told.error_code).ok().map(|()| told.node_id.0);
                if let Ok(broker) = answer {
                    self.learn_broker(broker, &told.host, told.port);
                    known.insert((kind, key.clone()), broker);
                }
                found.insert(key, answer);
            }
        }
        Ok(found)
    }

    /// The next request asks who coordinates these.
    pub(crate) fn forget_coordinators<'a>(
        &self,
        kind: CoordinatorKind,
        keys: impl Iterator<Item = &'a str>,
    ) {
        let mut known = self.inner.coordinators.lock();
        for key in keys {
            known.remove(&(kind, key.to_owned()));
        }
    }
}

fn note_listed(
    listed: Vec<list_groups_response::ListedGroup>,
    groups: &mut BTreeMap<GroupId, GroupListing>,
) {
    for group in listed {
        let id = GroupId::from(group.group_id.as_str());
        let listing = GroupListing {
            group: id.clone(),
            kind: GroupKind::from_word(&group.group_type),
            state: group.group_state.to_string(),
            protocol_type: group.protocol_type.to_string(),
        };
        // During a coordinator move two brokers may list one group; either will do.
        groups.insert(id, listing);
    }
}

fn described(state: &str, protocol_type: &str, member_list: Vec<GroupMember>) -> GroupDescription {
    GroupDescription {
        state: state.to_owned(),
        members: member_list.len(),
        member_list,
        protocol_type: protocol_type.to_owned(),
    }
}
