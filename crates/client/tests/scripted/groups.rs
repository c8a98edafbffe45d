use std::collections::BTreeMap;
use std::time::Duration;

use twinlog_client::{ErrorCode, GroupKind};
use twinlog_protocol::ApiKey;
use twinlog_protocol::messages::{
    BrokerId, FindCoordinatorRequest, FindCoordinatorResponse, GroupId as WireGroupId,
    ListGroupsRequest, ListGroupsResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse, find_coordinator_response, list_groups_response,
    offset_commit_response, offset_fetch_response, string, topic_name,
};
use twinlog_types::{GroupId, TopicPartition};

use crate::broker::{Call, Fake, Reply, metadata};

/// Groups whose name ends in `2` belong to broker 2, the others to broker 1.
fn coordinators(call: &Call) -> Reply {
    let request: FindCoordinatorRequest = call.request();
    assert_eq!(request.key_type, 0);
    let coordinators = request.coordinator_keys.into_iter().map(|key| {
        let broker = if key.ends_with('2') { 2 } else { 1 };
        find_coordinator_response::Coordinator::default()
            .with_key(key)
            .with_node_id(BrokerId(broker))
            .with_host(string("b"))
            .with_port(9000 + broker)
            .with_error_message(None)
    });
    call.answer::<FindCoordinatorRequest>(
        &FindCoordinatorResponse::default().with_coordinators(coordinators.collect()),
    )
}

/// Every group has committed 5 in `orders-0`; those in `codes` answer their code first.
fn offsets(call: &Call, codes: &mut BTreeMap<&'static str, Vec<i16>>) -> Reply {
    let request: OffsetFetchRequest = call.request();
    assert!(request.require_stable);
    let groups = request.groups.into_iter().map(|group| {
        assert_eq!(group.topics, None, "all topics");
        let scripted = codes.get_mut(group.group_id.as_str()).filter(|codes| !codes.is_empty());
        let code = scripted.map_or(0, |codes| codes.remove(0));
        let partition = offset_fetch_response::OffsetFetchResponsePartitions::default()
            .with_partition_index(0)
            .with_committed_offset(5)
            .with_metadata(Some(string("note")));
        let topic = offset_fetch_response::OffsetFetchResponseTopics::default()
            .with_name(topic_name("orders"))
            .with_partitions(vec![partition]);
        offset_fetch_response::OffsetFetchResponseGroup::default()
            .with_group_id(group.group_id)
            .with_error_code(code)
            .with_topics(if code == 0 { vec![topic] } else { Vec::new() })
    });
    let response = OffsetFetchResponse::default().with_groups(groups.collect());
    call.answer::<OffsetFetchRequest>(&response)
}

fn fake(mut codes: BTreeMap<&'static str, Vec<i16>>) -> std::sync::Arc<Fake> {
    Fake::new(move |call| match call.api {
        ApiKey::FindCoordinator => coordinators(call),
        ApiKey::OffsetFetch => offsets(call, &mut codes),
        _ => metadata(call, &[(1, 0)]),
    })
}

fn names(groups: &[&str]) -> Vec<GroupId> {
    groups.iter().map(|group| GroupId::from(*group)).collect()
}

fn asked(call: &Call) -> (i32, Vec<String>) {
    let request: OffsetFetchRequest = call.request();
    (call.broker, request.groups.iter().map(|group| group.group_id.to_string()).collect())
}

fn owned(groups: &[&str]) -> Vec<String> {
    groups.iter().map(|group| (*group).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn one_request_per_coordinator_asks_for_all_its_groups() {
    let fake = fake(BTreeMap::new());
    let groups = names(&["b1", "a1", "a2", "a1"]);
    let answers = fake.cluster().fetch_offsets(&groups).await.unwrap();
    assert_eq!(fake.calls(ApiKey::FindCoordinator).len(), 1);
    let mut requests: Vec<_> = fake.calls(ApiKey::OffsetFetch).iter().map(asked).collect();
    requests.sort();
    assert_eq!(requests, [(1, owned(&["a1", "b1"])), (2, owned(&["a2"]))]);
    let committed = &answers[&GroupId::from("a2")].as_ref().unwrap()[0];
    assert_eq!((committed.offset, committed.metadata.as_str()), (5, "note"));
    assert_eq!(answers.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn only_the_groups_whose_coordinator_moved_are_asked_again() {
    let fake = fake(BTreeMap::from([("a1", vec![16, 14]), ("b1", vec![30])]));
    let answers = fake.cluster().fetch_offsets(&names(&["a1", "b1", "a2"])).await.unwrap();
    assert!(answers[&GroupId::from("a1")].is_ok());
    assert_eq!(answers[&GroupId::from("b1")], Err(ErrorCode::GROUP_AUTHORIZATION_FAILED));
    let again: Vec<_> = fake.calls(ApiKey::OffsetFetch).iter().skip(2).map(asked).collect();
    assert_eq!(again, [(1, owned(&["a1"])), (1, owned(&["a1"]))]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_stays_without_coordinator_does_not_hold_the_others_for_long() {
    let fake = fake(BTreeMap::from([("a1", vec![14; 100])]));
    let began = tokio::time::Instant::now();
    let answers = fake.cluster().fetch_offsets(&names(&["a1", "a2"])).await.unwrap();
    assert_eq!(answers[&GroupId::from("a1")], Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    assert!(answers[&GroupId::from("a2")].is_ok());
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

/// In the place of a code: the coordinator says nothing.
const NO_ANSWER: i16 = i16::MIN;

/// A coordinator that answers commits with these codes, one request each; `None` ends the
/// connection.
fn committing(codes: &'static [Option<i16>]) -> std::sync::Arc<Fake> {
    let mut codes = codes.iter();
    Fake::new(move |call| match call.api {
        ApiKey::FindCoordinator => coordinators(call),
        ApiKey::OffsetCommit => {
            let request: OffsetCommitRequest = call.request();
            let Some(code) = codes.next().copied().unwrap_or(Some(0)) else { return Reply::Close };
            if code == NO_ANSWER {
                return Reply::Silence;
            }
            assert_eq!(request.generation_id_or_member_epoch, -1);
            assert_eq!((request.member_id.as_str(), request.group_instance_id), ("", None));
            let partitions = request.topics[0].partitions.iter().map(|partition| {
                assert_eq!(partition.committed_leader_epoch, -1);
                offset_commit_response::OffsetCommitResponsePartition::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(code)
            });
            let topic = offset_commit_response::OffsetCommitResponseTopic::default()
                .with_name(request.topics[0].name.clone())
                .with_partitions(partitions.collect());
            call.answer::<OffsetCommitRequest>(
                &OffsetCommitResponse::default().with_topics(vec![topic]),
            )
        }
        _ => metadata(call, &[(1, 0)]),
    })
}

async fn commit(
    fake: &std::sync::Arc<Fake>,
) -> Result<Vec<(TopicPartition, ErrorCode)>, twinlog_client::ClientError> {
    let offsets = [(TopicPartition::new("orders", 0), 5, String::new())];
    fake.cluster().commit_offsets(&GroupId::from("a1"), &offsets).await
}

#[tokio::test(start_paused = true)]
async fn live_members_are_an_answer_and_a_moved_coordinator_is_tried_again() {
    let refused = committing(&[Some(25)]);
    let tp = TopicPartition::new("orders", 0);
    assert_eq!(commit(&refused).await.unwrap(), [(tp.clone(), ErrorCode::UNKNOWN_MEMBER_ID)]);
    let moved = committing(&[Some(16), Some(14), Some(0)]);
    assert_eq!(commit(&moved).await.unwrap(), [(tp, ErrorCode::NONE)]);
    assert_eq!(moved.calls(ApiKey::OffsetCommit).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_is_not_repeated() {
    let fake = committing(&[None]);
    let error = commit(&fake).await.unwrap_err();
    assert!(error.is_unclear(), "{error}");
    assert_eq!(fake.calls(ApiKey::OffsetCommit).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_nobody_waits_for_any_more_takes_its_connection_along() {
    let fake = committing(&[Some(NO_ANSWER), Some(0)]);
    let cluster = fake.cluster();
    let offsets = [(TopicPartition::new("orders", 0), 5, String::new())];
    let group = GroupId::from("a1");
    let first = cluster.commit_offsets(&group, &offsets);
    tokio::time::timeout(Duration::from_secs(1), first).await.unwrap_err();
    cluster.commit_offsets(&group, &offsets).await.unwrap();
    let calls = fake.calls(ApiKey::OffsetCommit);
    assert_ne!(calls[0].connection, calls[1].connection);
}

#[tokio::test(start_paused = true)]
async fn groups_are_listed_from_every_broker_with_their_kind() {
    let fake = Fake::new(|call| match call.api {
        ApiKey::ListGroups => {
            let group = list_groups_response::ListedGroup::default()
                .with_group_id(WireGroupId(string(&format!("group-{}", call.broker))))
                .with_group_state(string("Empty"))
                .with_protocol_type(string("consumer"))
                .with_group_type(string(if call.broker == 1 { "classic" } else { "consumer" }));
            call.answer::<ListGroupsRequest>(
                &ListGroupsResponse::default().with_groups(vec![group]),
            )
        }
        _ => metadata(call, &[(1, 0)]),
    });
    let groups = fake.cluster().list_groups().await.unwrap();
    let told: Vec<_> = groups.iter().map(|g| (g.group.as_str(), g.kind)).collect();
    assert_eq!(told, [("group-1", GroupKind::Classic), ("group-2", GroupKind::Consumer)]);
}
