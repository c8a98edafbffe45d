//! Groups: who may commit, what is answered of their kinds, members, expiry.

use std::time::Duration;

use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, GroupKind, KafkaVersion};
use twinlog_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use twinlog_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use twinlog_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use twinlog_protocol::messages::offset_fetch_response::OffsetFetchResponsePartitions;
use twinlog_protocol::messages::*;

use crate::support::*;

const GROUP: &str = "g";

fn group() -> GroupId {
    GroupId(string(GROUP))
}

/// A commit as its caller may vary it.
struct Commit {
    generation: i32,
    member: &'static str,
    topic: &'static str,
    offset: i64,
    leader_epoch: i32,
    metadata: Option<String>,
}

const SIMPLE: Commit = Commit {
    generation: -1,
    member: "",
    topic: TOPIC,
    offset: 7,
    leader_epoch: -1,
    metadata: None,
};

async fn commit(client: &mut Client, commit: Commit) -> i16 {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(commit.offset)
        .with_committed_leader_epoch(commit.leader_epoch)
        .with_committed_metadata(commit.metadata.as_deref().map(string));
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic_name(commit.topic))
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(commit.generation)
        .with_member_id(string(commit.member))
        .with_group_instance_id(None)
        .with_topics(vec![topic]);
    client.call(&request, 9).await.topics[0].partitions[0].error_code
}

async fn fetched(client: &mut Client, stable: bool) -> Vec<OffsetFetchResponsePartitions> {
    let wanted = OffsetFetchRequestGroup::default()
        .with_group_id(group())
        .with_topics(None)
        .with_member_id(None)
        .with_member_epoch(-1);
    let request =
        OffsetFetchRequest::default().with_groups(vec![wanted]).with_require_stable(stable);
    let answer = client.call(&request, 9).await;
    assert_eq!(answer.groups[0].error_code, 0);
    answer.groups[0].topics.iter().flat_map(|topic| topic.partitions.clone()).collect()
}

/// (kind, state, protocol type)
async fn listed(client: &mut Client) -> Vec<(String, String, String)> {
    let answer = client.call(&ListGroupsRequest::default(), 5).await;
    let word = |word: &StrBytes| word.to_string();
    answer
        .groups
        .iter()
        .map(|g| (word(&g.group_type), word(&g.group_state), word(&g.protocol_type)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_simple_commit_needs_a_group_without_members() {
    let rows = [
        (None, 0),
        (Some((GroupKind::Classic, false)), 0),
        (Some((GroupKind::Classic, true)), 25),
        (Some((GroupKind::Consumer, true)), 25),
        (Some((GroupKind::Consumer, false)), 0),
        (Some((GroupKind::Streams, true)), 25),
        (Some((GroupKind::Streams, false)), 0),
        (Some((GroupKind::Share, true)), 69),
        (Some((GroupKind::Share, false)), 69),
    ];
    for (made, code) in rows {
        let cluster = cluster();
        let mut client = Client::to(&cluster, 1);
        if let Some((kind, live)) = made {
            cluster.set_group(GROUP, kind, live);
        }
        assert_eq!(commit(&mut client, SIMPLE).await, code, "{made:?}");
        let kind = made.map_or(GroupKind::Classic, |(kind, _)| kind);
        assert_eq!(listed(&mut client).await[0].0, kind.word(), "the kind stays");
        assert_eq!(cluster.committed(GROUP, TOPIC, 0), (code == 0).then_some(7));
        if made.is_none() {
            let simple = ("classic".to_owned(), "Empty".to_owned(), String::new());
            assert_eq!(listed(&mut client).await, [simple]);
            let named = Commit { generation: 0, ..SIMPLE };
            assert_eq!(commit(&mut client, named).await, 25);
            let named = Commit { member: "somebody", ..SIMPLE };
            assert_eq!(commit(&mut client, named).await, 0, "taken for an administrator");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_stored_as_it_comes() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let long = Some("x".repeat(4097));
    assert_eq!(commit(&mut client, Commit { metadata: long, ..SIMPLE }).await, 12);
    assert_eq!(commit(&mut client, Commit { topic: "absent", ..SIMPLE }).await, 3);
    assert!(fetched(&mut client, true).await.is_empty(), "an unknown group: no error, nothing");
    assert_eq!(
        commit(&mut client, Commit { offset: 1_000_000, leader_epoch: 500, ..SIMPLE }).await,
        0
    );
    let stored = &fetched(&mut client, true).await[0];
    assert_eq!((stored.committed_offset, stored.committed_leader_epoch), (1_000_000, 500));
    assert_eq!(stored.metadata.as_ref().unwrap().as_str(), "", "null comes back empty");
    assert_eq!(commit(&mut client, Commit { offset: -1, ..SIMPLE }).await, 0);
    assert_eq!(fetched(&mut client, true).await[0].committed_offset, -1);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_topic_takes_its_commits_along() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    assert_eq!(commit(&mut client, SIMPLE).await, 0);
    cluster.recreate_topic(TOPIC).unwrap();
    assert!(fetched(&mut client, true).await.is_empty());
    assert_eq!(listed(&mut client).await.len(), 1, "the group stays");
}

#[tokio::test(start_paused = true)]
async fn commits_expire_unless_they_are_renewed() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    assert_eq!(commit(&mut client, SIMPLE).await, 0);
    let days = |days: u64| Duration::from_secs(days * 86_400);
    tokio::time::sleep(days(5)).await;
    assert_eq!(commit(&mut client, SIMPLE).await, 0);
    tokio::time::sleep(days(5)).await;
    assert_eq!(fetched(&mut client, true).await.len(), 1);
    tokio::time::sleep(days(3)).await;
    assert!(fetched(&mut client, true).await.is_empty());
    assert!(listed(&mut client).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn describing_by_the_wrong_kind_looks_like_not_found() {
    for (version, describe, code) in [(KafkaVersion::V4_3, 6, 69), (KafkaVersion::V3_9, 5, 0)] {
        let mut options = EmbeddedOptions::new("hello");
        options.version = version;
        let cluster = EmbeddedCluster::start(options);
        let mut client = Client::to(&cluster, 1);
        for made in [false, true] {
            if made {
                cluster.set_group(GROUP, GroupKind::Consumer, true);
            }
            let request = DescribeGroupsRequest::default().with_groups(vec![group()]);
            let answer = client.call(&request, describe).await;
            let found = &answer.groups[0];
            assert_eq!((found.error_code, found.group_state.as_str()), (code, "Dead"));
        }
        let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]);
        let found = client.call(&request, 0).await.groups[0].clone();
        assert_eq!(
            (found.error_code, found.group_state.as_str(), found.members.len()),
            (0, "Stable", 1)
        );
        cluster.set_group("classic", GroupKind::Classic, false);
        let request = ConsumerGroupDescribeRequest::default()
            .with_group_ids(vec![GroupId(string("classic")), group()]);
        let answers = client.call(&request, 0).await.groups;
        let right = answers.iter().filter(|answer| answer.error_code == 0).count();
        assert_eq!(
            (answers.len() > 2, right),
            (version == KafkaVersion::V3_9, 1),
            "3.9 answers per shard"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn filters_of_list_groups_work() {
    let cluster = cluster();
    cluster.set_group("a", GroupKind::Consumer, true);
    cluster.set_group("b", GroupKind::Classic, false);
    let mut client = Client::to(&cluster, 1);
    let filtered = |kinds: &[&str], states: &[&str]| {
        let words = |words: &[&str]| words.iter().map(|word| string(word)).collect();
        ListGroupsRequest::default()
            .with_types_filter(words(kinds))
            .with_states_filter(words(states))
    };
    for (kinds, states, count) in [
        (vec!["consumer"], vec![], 1),
        (vec![], vec!["Empty"], 1),
        (vec!["unheard"], vec![], 0),
        (vec![], vec![], 2),
    ] {
        let answer = client.call(&filtered(&kinds, &states), 5).await;
        assert_eq!((answer.error_code, answer.groups.len()), (0, count));
    }
}

fn join(member: &str) -> JoinGroupRequest {
    let protocol =
        JoinGroupRequestProtocol::default().with_name(string("range")).with_metadata("meta".into());
    JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(30_000)
        .with_member_id(string(member))
        .with_group_instance_id(None)
        .with_protocol_type(string("consumer"))
        .with_protocols(vec![protocol])
        .with_reason(None)
}

fn sync(member: &str, generation: i32, assignments: &[(&str, &'static str)]) -> SyncGroupRequest {
    use sync_group_request::SyncGroupRequestAssignment;
    let assignment = |(member, bytes): &(&str, &'static str)| {
        SyncGroupRequestAssignment::default()
            .with_member_id(string(member))
            .with_assignment((*bytes).into())
    };
    SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(generation)
        .with_member_id(string(member))
        .with_group_instance_id(None)
        .with_protocol_type(Some(string("consumer")))
        .with_protocol_name(Some(string("range")))
        .with_assignments(assignments.iter().map(assignment).collect())
}

fn beat(member: &str, generation: i32) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group())
        .with_generation_id(generation)
        .with_member_id(string(member))
        .with_group_instance_id(None)
}

/// Joins with the id that the first refusal gives.
async fn member_id(client: &mut Client) -> String {
    let answer = client.call(&join(""), 9).await;
    assert_eq!(answer.error_code, 79);
    answer.member_id.to_string()
}

#[tokio::test(start_paused = true)]
async fn classic_members_join_sync_beat_and_leave() {
    let cluster = cluster();
    let (mut one, mut two) = (Client::to(&cluster, 1), Client::to(&cluster, 1));
    let first = member_id(&mut one).await;
    let joined = one.call(&join(&first), 9).await;
    assert_eq!(
        (joined.error_code, joined.generation_id, joined.leader.to_string()),
        (0, 1, first.clone())
    );
    assert_eq!(joined.members.len(), 1);
    let synced = one.call(&sync(&first, 1, &[(&first, "all")]), 5).await;
    assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"all"[..]));
    assert_eq!(one.call(&beat(&first, 1), 4).await.error_code, 0);
    assert_eq!(one.call(&beat(&first, 2), 4).await.error_code, 22);
    let mut simple = Client::to(&cluster, 1);
    assert_eq!(commit(&mut simple, SIMPLE).await, 25, "live: not for outsiders");

    let second = member_id(&mut two).await;
    two.send(&join(&second), 9).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(one.call(&beat(&first, 1), 4).await.error_code, 27);
    assert_eq!(commit(&mut simple, SIMPLE).await, 25, "preparing a rebalance as well");
    let again = one.call(&join(&first), 9).await;
    let other = two.receive::<JoinGroupRequest>(9).await.unwrap();
    assert_eq!((again.generation_id, other.generation_id, again.members.len()), (2, 2, 2));
    assert_eq!(other.members.len(), 0, "only the leader sees the members");
    two.send(&sync(&second, 2, &[]), 5).await;
    one.call(&sync(&first, 2, &[(&first, "half"), (&second, "rest")]), 5).await;
    let synced = two.receive::<SyncGroupRequest>(5).await.unwrap();
    assert_eq!(&synced.assignment[..], b"rest");
    assert_eq!(
        listed(&mut simple).await,
        [("classic".to_owned(), "Stable".to_owned(), "consumer".to_owned())]
    );

    let leaving = leave_group_request::MemberIdentity::default()
        .with_member_id(string(&second))
        .with_group_instance_id(None)
        .with_reason(None);
    let leave = LeaveGroupRequest::default().with_group_id(group()).with_members(vec![leaving]);
    assert_eq!(two.call(&leave, 5).await.members[0].error_code, 0);
    assert_eq!(two.call(&leave, 5).await.members[0].error_code, 25);
    assert_eq!(one.call(&beat(&first, 2), 4).await.error_code, 27);
    // The other one is silent: its session and the round end, and the group is empty.
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(commit(&mut simple, SIMPLE).await, 0);
    assert_eq!(
        listed(&mut simple).await,
        [("classic".to_owned(), "Empty".to_owned(), "consumer".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pending_transactional_commit_is_unstable_and_a_later_plain_one_wins() {
    use txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    assert_eq!(commit(&mut client, Commit { offset: 1, ..SIMPLE }).await, 0);
    let id = TransactionalId(string("tx"));
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(id.clone()))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let owner = client.call(&request, 5).await;
    let mut epoch = owner.producer_epoch;
    for (plain_between, expected) in [(false, 5), (true, 9)] {
        let partition = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(0)
            .with_committed_offset(5);
        let topic = TxnOffsetCommitRequestTopic::default()
            .with_name(topic_name(TOPIC))
            .with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(id.clone())
            .with_group_id(group())
            .with_producer_id(owner.producer_id)
            .with_producer_epoch(epoch)
            .with_generation_id(-1)
            .with_group_instance_id(None)
            .with_topics(vec![topic]);
        assert_eq!(client.call(&request, 5).await.topics[0].partitions[0].error_code, 0);
        let unstable = &fetched(&mut client, true).await[0];
        assert_eq!((unstable.error_code, unstable.committed_offset), (88, -1));
        assert_eq!(fetched(&mut client, false).await[0].error_code, 0);
        if plain_between {
            assert_eq!(commit(&mut client, Commit { offset: 9, ..SIMPLE }).await, 0);
        }
        let request = EndTxnRequest::default()
            .with_transactional_id(id.clone())
            .with_producer_id(owner.producer_id)
            .with_producer_epoch(epoch)
            .with_committed(true);
        let ended = client.call(&request, 5).await;
        assert_eq!(ended.error_code, 0);
        epoch = ended.producer_epoch;
        tokio::time::sleep(Duration::from_millis(3)).await;
        assert_eq!(fetched(&mut client, true).await[0].committed_offset, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn offset_delete_spares_live_groups() {
    use offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
    let cluster = cluster();
    cluster.commit_offset(GROUP, TOPIC, 0, 3).unwrap();
    let mut client = Client::to(&cluster, 1);
    let partition = OffsetDeleteRequestPartition::default().with_partition_index(0);
    let topic = OffsetDeleteRequestTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partitions(vec![partition]);
    let request = OffsetDeleteRequest::default().with_group_id(group()).with_topics(vec![topic]);
    cluster.set_group(GROUP, GroupKind::Classic, true);
    assert_eq!(client.call(&request, 0).await.topics[0].partitions[0].error_code, 86);
    cluster.set_group(GROUP, GroupKind::Classic, false);
    assert_eq!(client.call(&request, 0).await.topics[0].partitions[0].error_code, 0);
    assert_eq!(cluster.committed(GROUP, TOPIC, 0), None);
}

/// Key and value of everything in the group's partition of `__consumer_offsets`.
fn followed(cluster: &EmbeddedCluster) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    // Java: "g".hashCode() = 103, and 103 % 50 = 3.
    let records =
        cluster.records("__consumer_offsets", 3, twinlog_embedded::Isolation::ReadCommitted);
    records
        .into_iter()
        .map(|r| (r.key.unwrap().to_vec(), r.value.map(|value| value.to_vec())))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn commits_can_be_followed_in_the_offsets_topic() {
    let key = [&[0, 1, 0, 1][..], b"g", &[0, 1], b"t", &[0, 0, 0, 0]].concat();
    for version in [KafkaVersion::V4_3, KafkaVersion::V3_9] {
        let mut options = EmbeddedOptions::new("hello");
        options.version = version;
        let now = options.epoch_ms.to_be_bytes();
        let cluster = EmbeddedCluster::start(options);
        let id = cluster.create_topic(TOPIC, 1, &[]).unwrap();
        let mut client = Client::to(&cluster, 1);
        assert_eq!(
            commit(&mut client, Commit { metadata: Some("m".to_owned()), ..SIMPLE }).await,
            0
        );
        let fields = [&7i64.to_be_bytes()[..], &(-1i32).to_be_bytes()].concat();
        let value = match version {
            KafkaVersion::V4_3 => {
                [&[0, 4][..], &fields, &[2], b"m", &now, &[1, 0, 16], &id.0].concat()
            }
            KafkaVersion::V3_9 => [&[0, 3][..], &fields, &[0, 1], b"m", &now].concat(),
        };
        assert_eq!(followed(&cluster), [(key.clone(), Some(value.clone()))]);
        cluster.delete_topic(TOPIC);
        assert_eq!(
            followed(&cluster),
            [(key.clone(), Some(value)), (key.clone(), None)],
            "and a tombstone"
        );
        assert!(cluster.topics().is_empty());
    }
}
