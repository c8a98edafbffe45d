//! Consumer groups (KIP-848). Epochs, codes and assignments are those that a broker of 4.3.0 gave
//! to the same heartbeats.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions};
use twinlog_protocol::messages::consumer_group_describe_response::DescribedGroup;
use twinlog_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use twinlog_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use twinlog_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use twinlog_protocol::messages::*;

use crate::support::*;

const GROUP: &str = "g";
/// A little more than `group.consumer.assignment.interval.ms`.
const INTERVAL: Duration = Duration::from_millis(1_100);

/// A topic of four partitions.
fn four() -> EmbeddedCluster {
    let cluster = EmbeddedCluster::start(EmbeddedOptions::new("hello"));
    cluster.create_topic(TOPIC, 4, &[]).unwrap();
    cluster
}

fn group() -> GroupId {
    GroupId(string(GROUP))
}

/// A heartbeat that tells nothing new.
fn still(member: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group())
        .with_member_id(string(member))
        .with_member_epoch(epoch)
        .with_instance_id(None)
        .with_rack_id(None)
        .with_rebalance_timeout_ms(-1)
        .with_subscribed_topic_names(None)
        .with_subscribed_topic_regex(None)
        .with_server_assignor(None)
        .with_topic_partitions(None)
}

/// A heartbeat that joins.
fn join(member: &str) -> ConsumerGroupHeartbeatRequest {
    still(member, 0)
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(vec![topic_name(TOPIC)]))
        .with_topic_partitions(Some(Vec::new()))
}

/// Code, member epoch, and the partitions of the only topic where the answer assigns any.
type Answer = (i16, i32, Option<Vec<i32>>);

async fn beat(client: &mut Client, request: &ConsumerGroupHeartbeatRequest) -> Answer {
    let answer = client.call(request, 1).await;
    let partitions = answer.assignment.map(|assignment| {
        assignment.topic_partitions.into_iter().flat_map(|topic| topic.partitions).collect()
    });
    (answer.error_code, answer.member_epoch, partitions)
}

fn owning(
    cluster: &EmbeddedCluster,
    request: ConsumerGroupHeartbeatRequest,
    partitions: &[i32],
) -> ConsumerGroupHeartbeatRequest {
    let id = topic_uuid(cluster.topic_id(TOPIC).unwrap());
    let owned = TopicPartitions::default().with_topic_id(id).with_partitions(partitions.to_vec());
    request.with_topic_partitions(Some(vec![owned]))
}

async fn described(client: &mut Client) -> DescribedGroup {
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]);
    client.call(&request, 1).await.groups[0].clone()
}

/// State, group epoch, assignment epoch.
async fn epochs(client: &mut Client) -> (String, i32, i32) {
    let group = described(client).await;
    (group.group_state.to_string(), group.group_epoch, group.assignment_epoch)
}

fn at(state: &str, epoch: i32, assignment_epoch: i32) -> (String, i32, i32) {
    (state.to_owned(), epoch, assignment_epoch)
}

async fn commit_of(client: &mut Client, member: &str, epoch: i32, partition: i32) -> i16 {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(7)
        .with_committed_leader_epoch(-1)
        .with_committed_metadata(None);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic_name(TOPIC))
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(epoch)
        .with_member_id(string(member))
        .with_group_instance_id(None)
        .with_topics(vec![topic]);
    client.call(&request, 9).await.topics[0].partitions[0].error_code
}

async fn fetch_of(client: &mut Client, member: Option<&str>, epoch: i32) -> i16 {
    let wanted = OffsetFetchRequestGroup::default()
        .with_group_id(group())
        .with_member_id(member.map(string))
        .with_member_epoch(epoch)
        .with_topics(None);
    let request = OffsetFetchRequest::default().with_groups(vec![wanted]);
    client.call(&request, 9).await.groups[0].error_code
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_revoked_before_it_is_assigned() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    assert_eq!(beat(&mut client, &join("m1")).await, (0, 2, Some(vec![0, 1, 2, 3])));
    assert_eq!(epochs(&mut client).await, at("Stable", 2, 2));
    // The next target comes a second after the one before, and with somebody's heartbeat.
    assert_eq!(beat(&mut client, &join("m2")).await, (0, 2, Some(vec![])));
    assert_eq!(epochs(&mut client).await, at("Assigning", 3, 2));
    sleep(INTERVAL).await;
    assert_eq!(epochs(&mut client).await, at("Assigning", 3, 2));
    assert_eq!(beat(&mut client, &still("m1", 2)).await, (0, 2, Some(vec![0, 1])));
    assert_eq!(epochs(&mut client).await, at("Reconciling", 3, 3));
    assert_eq!(beat(&mut client, &still("m2", 2)).await, (0, 3, None), "not released yet");
    // m1 still owns them, then says that it does not.
    let all = owning(&cluster, still("m1", 2), &[0, 1, 2, 3]);
    assert_eq!(beat(&mut client, &all).await, (0, 2, None));
    let half = owning(&cluster, still("m1", 2), &[0, 1]);
    assert_eq!(beat(&mut client, &half).await, (0, 3, None));
    assert_eq!(beat(&mut client, &still("m2", 3)).await, (0, 3, Some(vec![2, 3])));
    assert_eq!(epochs(&mut client).await, at("Stable", 3, 3));
    // m1 lost the answer that raised its epoch: it may ask again with the epoch before.
    assert_eq!(beat(&mut client, &half).await, (0, 3, None));
    assert_eq!(beat(&mut client, &still("m1", 2)).await.0, 110);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_give_up_partitions_in_time_is_out() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    beat(&mut client, &join("m1").with_rebalance_timeout_ms(10_000)).await;
    beat(&mut client, &join("m2")).await;
    sleep(INTERVAL).await;
    assert_eq!(beat(&mut client, &still("m1", 2)).await, (0, 2, Some(vec![0, 1])));
    sleep(Duration::from_secs(9)).await;
    assert_eq!(beat(&mut client, &still("m1", 2)).await, (0, 2, None));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(beat(&mut client, &still("m1", 2)).await.0, 25);
    assert_eq!(beat(&mut client, &still("m2", 2)).await, (0, 4, Some(vec![0, 1, 2, 3])));
}

#[tokio::test(start_paused = true)]
async fn a_silent_member_is_out_after_its_session() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    beat(&mut client, &join("m1")).await;
    sleep(Duration::from_secs(44)).await;
    assert_eq!(beat(&mut client, &still("m1", 2)).await, (0, 2, None));
    sleep(Duration::from_secs(44)).await;
    assert_eq!(epochs(&mut client).await, at("Stable", 2, 2));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(epochs(&mut client).await, at("Empty", 3, 2));
    assert_eq!(beat(&mut client, &still("m1", 2)).await.0, 25);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_makes_no_sense_is_refused() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    let own = |request: ConsumerGroupHeartbeatRequest| request.with_topic_partitions(None);
    let rows = [
        (still("m1", 5), 69, "Consumer group g not found."),
        (still("m1", -1), 69, "Group g not found."),
        (still("m1", -2).with_instance_id(Some(string("i"))), 69, "Group g not found."),
        (join(""), 42, "MemberId can't be empty."),
        (join("m1").with_group_id(GroupId(string(""))), 42, "GroupId can't be empty."),
        (join("m1").with_instance_id(Some(string(""))), 42, "InstanceId can't be empty."),
        (
            join("m1").with_rebalance_timeout_ms(-1),
            42,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (own(join("m1")), 42, "TopicPartitions must be empty when (re-)joining."),
        (
            join("m1").with_subscribed_topic_names(None),
            42,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (still("m1", -2), 42, "InstanceId can't be null."),
        (still("m1", -3), 42, "MemberEpoch is invalid."),
        (
            join("m1").with_server_assignor(Some(string("sticky"))),
            112,
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
        ),
    ];
    for (request, code, message) in rows {
        let answer = client.call(&request, 1).await;
        let said = answer.error_message.map(|text| text.to_string());
        assert_eq!((answer.error_code, said.as_deref()), (code, Some(message)));
    }
    let bad = join("m1").with_subscribed_topic_regex(Some(string("(")));
    assert_eq!(client.call(&bad, 1).await.error_code, 128);
    assert!(cluster.groups().is_empty(), "nothing of it made a group");
    beat(&mut client, &join("m1")).await;
    assert_eq!(beat(&mut client, &still("m1", 3)).await.0, 110);
    assert_eq!(beat(&mut client, &still("m1", 1)).await.0, 110);
    assert_eq!(beat(&mut client, &still("m9", 1)).await.0, 25);
    assert_eq!(beat(&mut client, &still("m9", -1)).await.0, 25);
    // Who joins again is told everything again.
    assert_eq!(beat(&mut client, &join("m1")).await, (0, 2, Some(vec![0, 1, 2, 3])));
}

#[tokio::test(start_paused = true)]
async fn a_static_member_keeps_its_partitions_while_it_is_away() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    let with =
        |request: ConsumerGroupHeartbeatRequest, name| request.with_instance_id(Some(string(name)));
    assert_eq!(beat(&mut client, &with(join("s1"), "i")).await, (0, 2, Some(vec![0, 1, 2, 3])));
    assert_eq!(beat(&mut client, &with(join("s2"), "i")).await.0, 111, "the holder is alive");
    assert_eq!(beat(&mut client, &with(still("s2", 2), "i")).await.0, 82);
    assert_eq!(beat(&mut client, &with(still("s1", 2), "other")).await.0, 25);
    assert_eq!(beat(&mut client, &with(still("s1", -2), "i")).await, (0, -2, None));
    assert_eq!(epochs(&mut client).await, at("Reconciling", 2, 2));
    assert_eq!(beat(&mut client, &with(still("s1", 2), "i")).await.0, 110);
    // Its next life takes the place over: no new epoch, the same partitions.
    assert_eq!(beat(&mut client, &with(join("s2"), "i")).await, (0, 2, Some(vec![0, 1, 2, 3])));
    assert_eq!(epochs(&mut client).await, at("Stable", 2, 2));
    assert_eq!(beat(&mut client, &with(still("s2", -1), "i")).await, (0, -1, None));
    assert_eq!(epochs(&mut client).await, at("Empty", 3, 2));
    // Away for longer than its session, it is out.
    beat(&mut client, &with(join("s3"), "i")).await;
    beat(&mut client, &with(still("s3", -2), "i")).await;
    sleep(Duration::from_secs(46)).await;
    assert_eq!(epochs(&mut client).await.0, "Empty");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_subscription_takes_effect() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    beat(&mut client, &join("m1")).await;
    // What it no longer reads it gives up at once, in the same epoch.
    let nothing = still("m1", 2).with_subscribed_topic_names(Some(Vec::new()));
    assert_eq!(beat(&mut client, &nothing).await, (0, 2, Some(vec![])));
    assert_eq!(epochs(&mut client).await, at("Assigning", 3, 2));
    sleep(INTERVAL).await;
    let given_up = still("m1", 2).with_topic_partitions(Some(Vec::new()));
    assert_eq!(beat(&mut client, &given_up).await, (0, 3, None));
    // A topic that does not exist yet, and then does.
    sleep(INTERVAL).await;
    let later = still("m1", 3).with_subscribed_topic_names(Some(vec![topic_name("later")]));
    assert_eq!(beat(&mut client, &later).await, (0, 4, None));
    cluster.create_topic("later", 2, &[]).unwrap();
    sleep(INTERVAL).await;
    assert_eq!(beat(&mut client, &still("m1", 4)).await, (0, 5, Some(vec![0, 1])));
    cluster.add_partitions("later", 3);
    sleep(INTERVAL).await;
    assert_eq!(beat(&mut client, &still("m1", 5)).await, (0, 6, Some(vec![0, 1, 2])));
}

#[tokio::test(start_paused = true)]
async fn a_regular_expression_is_matched_behind_the_heartbeat_that_names_it() {
    let cluster = four();
    cluster.create_topic("tt", 1, &[]).unwrap();
    cluster.create_topic("att", 1, &[]).unwrap();
    let mut client = Client::to(&cluster, 1);
    let regex = join("m1")
        .with_subscribed_topic_names(None)
        .with_subscribed_topic_regex(Some(string("t.*")));
    assert_eq!(beat(&mut client, &regex).await, (0, 1, Some(vec![])));
    let (code, epoch, partitions) = beat(&mut client, &still("m1", 1)).await;
    let mut partitions = partitions.expect("the whole name must match: t and tt");
    partitions.sort_unstable();
    assert_eq!((code, epoch, partitions), (0, 2, vec![0, 0, 1, 2, 3]));
    let member = described(&mut client).await.members[0].clone();
    assert_eq!(member.subscribed_topic_regex.unwrap().as_str(), "t.*");
    cluster.create_topic("ttt", 1, &[]).unwrap();
    beat(&mut client, &still("m1", 2)).await;
    sleep(INTERVAL).await;
    let (_, epoch, partitions) = beat(&mut client, &still("m1", 2)).await;
    assert_eq!((epoch, partitions.map(|found| found.len())), (3, Some(6)));
}

#[tokio::test(start_paused = true)]
async fn the_range_assignor_gives_stretches_in_the_order_of_members() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    let range = |member: &str| join(member).with_server_assignor(Some(string("range")));
    beat(&mut client, &range("b")).await;
    beat(&mut client, &range("a")).await;
    beat(&mut client, &range("c").with_instance_id(Some(string("z")))).await;
    sleep(INTERVAL).await;
    beat(&mut client, &still("a", 2)).await;
    let group = described(&mut client).await;
    assert_eq!(group.assignor_name.as_str(), "range");
    let targets: BTreeMap<String, Vec<i32>> = group
        .members
        .iter()
        .map(|member| {
            let topics = &member.target_assignment.topic_partitions;
            (
                member.member_id.to_string(),
                topics.iter().flat_map(|t| t.partitions.clone()).collect(),
            )
        })
        .collect();
    // Static members first; four partitions for three members.
    let expected = [("a", vec![2]), ("b", vec![3]), ("c", vec![0, 1])];
    assert_eq!(targets, expected.map(|(name, share)| (name.to_owned(), share)).into());
}

#[tokio::test(start_paused = true)]
async fn commits_need_the_member_epoch_or_one_since_the_assignment() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    beat(&mut client, &join("m1")).await;
    beat(&mut client, &join("m2")).await;
    sleep(INTERVAL).await;
    beat(&mut client, &still("m1", 2)).await;
    beat(&mut client, &owning(&cluster, still("m1", 2), &[0, 1])).await;
    beat(&mut client, &still("m2", 2)).await;
    // m1 has 0 and 1 since epoch 2 and is in epoch 3 (KIP-1251).
    let rows = [(1, 113, 113), (2, 0, 113), (3, 0, 0), (4, 113, 113)];
    for (epoch, own, of_other) in rows {
        assert_eq!(commit_of(&mut client, "m1", epoch, 0).await, own, "epoch {epoch}");
        assert_eq!(commit_of(&mut client, "m1", epoch, 3).await, of_other, "epoch {epoch}");
    }
    assert_eq!(commit_of(&mut client, "m9", 3, 0).await, 25);
    assert_eq!(commit_of(&mut client, "", -1, 0).await, 25, "live: not for outsiders");
    assert_eq!(fetch_of(&mut client, Some("m1"), 3).await, 0);
    assert_eq!(fetch_of(&mut client, Some("m1"), 2).await, 113);
    assert_eq!(fetch_of(&mut client, Some("m9"), 3).await, 25);
    assert_eq!(fetch_of(&mut client, None, -1).await, 0);
    beat(&mut client, &still("m1", -1)).await;
    beat(&mut client, &still("m2", -1)).await;
    assert_eq!(commit_of(&mut client, "", -1, 0).await, 0, "empty: for everybody");
}

#[tokio::test(start_paused = true)]
async fn an_empty_classic_group_becomes_a_consumer_group_and_back() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    cluster.commit_offset(GROUP, TOPIC, 0, 3).unwrap();
    assert_eq!(beat(&mut client, &join("m1")).await, (0, 2, Some(vec![0, 1, 2, 3])));
    let listed = client.call(&ListGroupsRequest::default(), 5).await.groups[0].clone();
    let words = (listed.group_type.as_str(), listed.group_state.as_str());
    assert_eq!((words, listed.protocol_type.as_str()), (("consumer", "Stable"), "consumer"));
    assert_eq!(cluster.committed(GROUP, TOPIC, 0), Some(3), "its commits stay");
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
    assert_eq!(client.call(&delete, 2).await.results[0].error_code, 68);
    beat(&mut client, &still("m1", -1)).await;
    let words = (described(&mut client).await.group_state.to_string(), 0);
    assert_eq!(words, ("Empty".to_owned(), 0));
    assert_eq!(client.call(&delete, 2).await.results[0].error_code, 0);
    assert!(cluster.groups().is_empty());
}

/// Key, and value or nothing, of every record in the partition of the group.
fn written(cluster: &EmbeddedCluster) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    use twinlog_embedded::Isolation;
    let topic = "__consumer_offsets";
    let partitions = (0..cluster.partitions(topic) as i32)
        .flat_map(|partition| cluster.records(topic, partition, Isolation::ReadUncommitted));
    partitions
        .map(|record| (record.key.unwrap().to_vec(), record.value.map(|value| value.to_vec())))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

/// What 4.3.0 wrote for the same steps, but for topic ids, timestamps and the topics' hash.
#[tokio::test(start_paused = true)]
async fn groups_are_written_to_the_offsets_topic_as_kafka_writes_them() {
    let cluster = four();
    let mut client = Client::to(&cluster, 1);
    beat(&mut client, &join("m1")).await;
    beat(&mut client, &still("m1", -1)).await;
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
    client.call(&delete, 2).await;
    let id = hex(&cluster.topic_id(TOPIC).unwrap().0);
    let all = "05000000000000000100000002000000 03".replace(' ', "");
    let (g, m1) = ("000167", "00016700026d31"); // "g", and "g" with "m1"
    let expected = [
        (format!("0005{m1}"), Some("0000000005746573740b2f3132372e302e302e31020274010000ea600001000100".to_owned())),
        (format!("0003{g}"), Some("00000000000201 0008".replace(' ', ""))),
        (format!("0007{m1}"), Some(format!("000002{id}{all}0000"))),
        (format!("0006{g}"), Some("000000000002010008".to_owned())),
        (
            format!("0008{m1}"),
            Some(format!("00000000000200000000 00 02{id}{all}01001105000000020000000200000002000000020100").replace(' ', "")),
        ),
        (format!("0008{m1}"), None),
        (format!("0007{m1}"), None),
        (format!("0005{m1}"), None),
        (format!("0003{g}"), Some("00000000000300".to_owned())),
        (format!("0006{g}"), None),
        (format!("0004{g}"), None),
        (format!("0003{g}"), None),
    ];
    let found = written(&cluster);
    assert_eq!(found.len(), expected.len());
    for ((key, value), (expected_key, expected_value)) in found.into_iter().zip(expected) {
        assert_eq!(hex(&key), expected_key);
        let value = value.map(|value| hex(&value));
        // Hash and timestamp are eight bytes at the end, behind the tag that announces them.
        let value = value.map(|value| match value.get(..18) {
            Some(head) if value.len() == 34 => head.to_owned(),
            _ => value,
        });
        assert_eq!(value, expected_value, "{expected_key}");
    }
    assert_eq!(cluster.batches("__consumer_offsets", slot_of_g()).len(), 3, "one for each request");
}

/// `Utils.abs("g".hashCode()) % 50`: the letter's number.
fn slot_of_g() -> i32 {
    i32::from(b'g') % 50
}
