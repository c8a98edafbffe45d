//! The classic protocol beyond its common case: static members (KIP-345), rounds and their timing,
//! limits.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, Isolation};
use twinlog_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use twinlog_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use twinlog_protocol::messages::*;

use crate::support::*;

fn group() -> GroupId {
    GroupId(string("g"))
}

fn protocol(name: &str) -> JoinGroupRequestProtocol {
    JoinGroupRequestProtocol::default().with_name(string(name)).with_metadata("meta".into())
}

fn join(member: &str, instance: Option<&str>) -> JoinGroupRequest {
    JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(30_000)
        .with_member_id(string(member))
        .with_group_instance_id(instance.map(string))
        .with_protocol_type(string("consumer"))
        .with_protocols(vec![protocol("range")])
        .with_reason(None)
}

fn sync(member: &str, instance: Option<&str>, generation: i32, all: &[&str]) -> SyncGroupRequest {
    let assignments = all.iter().map(|member| {
        SyncGroupRequestAssignment::default()
            .with_member_id(string(member))
            .with_assignment(format!("of {member}").into())
    });
    SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(generation)
        .with_member_id(string(member))
        .with_group_instance_id(instance.map(string))
        .with_protocol_type(Some(string("consumer")))
        .with_protocol_name(Some(string("range")))
        .with_assignments(assignments.collect())
}

fn beat(member: &str, instance: Option<&str>, generation: i32) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group())
        .with_generation_id(generation)
        .with_member_id(string(member))
        .with_group_instance_id(instance.map(string))
}

async fn state(client: &mut Client) -> String {
    client.call(&ListGroupsRequest::default(), 5).await.groups[0].group_state.to_string()
}

/// A static member that leads a stable group of one; its member id.
async fn stable(client: &mut Client) -> String {
    let joined = client.call(&join("", Some("i")), 9).await;
    assert_eq!((joined.error_code, joined.generation_id), (0, 1), "no id is asked of it first");
    let member = joined.member_id.to_string();
    assert!(member.starts_with("i-"), "{member}");
    let synced = client.call(&sync(&member, Some("i"), 1, &[&member]), 5).await;
    assert_eq!(synced.error_code, 0);
    member
}

#[tokio::test(start_paused = true)]
async fn a_static_member_comes_back_without_a_new_round() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let first = stable(&mut client).await;
    let again = client.call(&join("", Some("i")), 9).await;
    let second = again.member_id.to_string();
    assert_eq!((again.error_code, again.generation_id), (0, 1));
    assert_ne!(second, first);
    // It leads still, and is told to leave the assignment as it is (KIP-814).
    assert_eq!((again.leader.as_str(), again.skip_assignment), (second.as_str(), true));
    assert_eq!(state(&mut client).await, "Stable");
    let synced = client.call(&sync(&second, Some("i"), 1, &[]), 5).await;
    assert_eq!(&synced.assignment[..], format!("of {first}").as_bytes());
    // The one before is fenced, whatever it asks.
    assert_eq!(client.call(&beat(&first, Some("i"), 1), 4).await.error_code, 82);
    assert_eq!(client.call(&sync(&first, Some("i"), 1, &[]), 5).await.error_code, 82);
    assert_eq!(client.call(&join(&first, Some("i")), 9).await.error_code, 82);
    assert_eq!(client.call(&beat(&first, None, 1), 4).await.error_code, 25);
    assert_eq!(client.call(&beat(&second, Some("i"), 1), 4).await.error_code, 0);
    assert_eq!(client.call(&beat(&second, Some("j"), 1), 4).await.error_code, 25);
}

#[tokio::test(start_paused = true)]
async fn an_old_client_that_takes_a_place_over_does_not_lead() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let first = stable(&mut client).await;
    let again = client.call(&join("", Some("i")), 8).await;
    assert_eq!(again.leader.as_str(), first, "the id before: it must not assign");
    assert!(again.members.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_static_member_is_out_when_its_session_ends_or_it_is_told_to_leave() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    stable(&mut client).await;
    sleep(Duration::from_secs(9)).await;
    assert_eq!(state(&mut client).await, "Stable");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(state(&mut client).await, "Empty");

    let member = client.call(&join("", Some("i")), 9).await.member_id.to_string();
    let leaving = |id: &str, instance: Option<&str>| {
        leave_group_request::MemberIdentity::default()
            .with_member_id(string(id))
            .with_group_instance_id(instance.map(string))
            .with_reason(None)
    };
    let members = vec![
        leaving("", Some("nobody")),
        leaving("somebody", Some("i")),
        leaving("somebody", None),
        leaving("", Some("i")),
        leaving(&member, Some("i")),
    ];
    let leave = LeaveGroupRequest::default().with_group_id(group()).with_members(members);
    let answers = client.call(&leave, 5).await.members;
    let codes: Vec<i16> = answers.iter().map(|answer| answer.error_code).collect();
    assert_eq!(codes, [25, 82, 25, 0, 25]);
    assert_eq!(state(&mut client).await, "Empty");
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_asks_again_is_answered_and_a_leader_begins_a_round() {
    let cluster = cluster();
    let (mut one, mut two) = (Client::to(&cluster, 1), Client::to(&cluster, 1));
    let leader = stable(&mut one).await;
    two.send(&join("", Some("j")), 9).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(one.call(&beat(&leader, Some("i"), 1), 4).await.error_code, 27);
    let joined = one.call(&join(&leader, Some("i")), 9).await;
    let follower = two.receive::<JoinGroupRequest>(9).await.unwrap().member_id.to_string();
    assert_eq!((joined.generation_id, joined.leader.as_str()), (2, leader.as_str()));
    one.call(&sync(&leader, Some("i"), 2, &[&leader, &follower]), 5).await;
    // The answer to the follower was lost: nothing changes.
    let again = two.call(&join(&follower, Some("j")), 9).await;
    assert_eq!((again.error_code, again.generation_id), (0, 2));
    assert_eq!(state(&mut two).await, "Stable");
    // With other protocols, or of the leader, it is a new round.
    one.send(&join(&leader, Some("i")), 9).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(state(&mut two).await, "PreparingRebalance");
    two.call(&join(&follower, Some("j")), 9).await;
    assert_eq!(one.receive::<JoinGroupRequest>(9).await.unwrap().generation_id, 3);
}

#[tokio::test(start_paused = true)]
async fn the_first_round_of_a_group_waits_for_more_members() {
    let mut options = EmbeddedOptions::new("hello");
    options.group_initial_rebalance_delay = Duration::from_secs(3);
    let cluster = EmbeddedCluster::start(options);
    let (mut one, mut two) = (Client::to(&cluster, 1), Client::to(&cluster, 1));
    let began = Instant::now();
    one.send(&join("", Some("i")), 9).await;
    sleep(Duration::from_secs(2)).await;
    let second = two.call(&join("", Some("j")), 9).await;
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    let first = one.receive::<JoinGroupRequest>(9).await.unwrap();
    assert_eq!((first.generation_id, second.generation_id), (1, 1), "both in the first round");
}

#[tokio::test(start_paused = true)]
async fn what_a_group_does_not_take_is_refused() {
    let mut options = EmbeddedOptions::new("hello");
    options.group_size_max = 1;
    let cluster = EmbeddedCluster::start(options);
    let mut client = Client::to(&cluster, 1);
    let short = join("", Some("i")).with_session_timeout_ms(5_999);
    assert_eq!(client.call(&short, 9).await.error_code, 26);
    let long = join("", Some("i")).with_session_timeout_ms(1_800_001);
    assert_eq!(client.call(&long, 9).await.error_code, 26);
    assert_eq!(client.call(&join("somebody", None), 9).await.error_code, 25);
    assert_eq!(client.call(&join("", Some("i")).with_protocols(vec![]), 9).await.error_code, 23);
    stable(&mut client).await;
    let other = join("", Some("i")).with_protocols(vec![protocol("sticky")]);
    assert_eq!(client.call(&join("", Some("j")), 9).await.error_code, 81);
    // Kafka counts the one whose place is taken among those that must agree.
    assert_eq!(client.call(&other, 9).await.error_code, 23);
    assert_eq!(
        client.call(&join("", Some("i")).with_protocol_type(string("connect")), 9).await.error_code,
        23
    );
}

#[tokio::test(start_paused = true)]
async fn a_classic_group_is_written_when_it_is_made_synced_and_left() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let member = stable(&mut client).await;
    sleep(Duration::from_secs(11)).await;
    let records =
        cluster.records("__consumer_offsets", i32::from(b'g') % 50, Isolation::ReadCommitted);
    let now = cluster.now_ms();
    let values: Vec<Vec<u8>> = records
        .into_iter()
        .map(|record| {
            assert_eq!(&record.key.unwrap()[..], b"\0\x02\0\x01g");
            record.value.unwrap().to_vec()
        })
        .collect();
    let timestamp = |at: &[u8]| {
        let written = i64::from_be_bytes(at.try_into().unwrap());
        assert!(now - written <= 11_000, "{written}");
    };
    // Version 3, protocol type, generation, no protocol, no leader, when, no members.
    assert_eq!(&values[0][..12], b"\0\x03\0\0\0\0\0\0\xff\xff\xff\xff");
    timestamp(&values[0][12..20]);
    assert_eq!(&values[0][20..], b"\0\0\0\0");
    let mut expected = b"\0\x03\0\x08consumer\0\0\0\x01\0\x05range".to_vec();
    let id = member.as_bytes();
    expected.extend([0, id.len() as u8]);
    expected.extend(id);
    assert_eq!(&values[1][..expected.len()], &expected);
    timestamp(&values[1][expected.len()..expected.len() + 8]);
    let mut rest = b"\0\0\0\x01".to_vec();
    rest.extend([0, id.len() as u8]);
    rest.extend(id);
    rest.extend(b"\0\x01i\0\x04test\0\x0a/127.0.0.1\0\0\x75\x30\0\0\x27\x10\0\0\0\x04meta");
    let assignment = format!("of {member}");
    rest.extend((assignment.len() as i32).to_be_bytes());
    rest.extend(assignment.as_bytes());
    assert_eq!(&values[1][expected.len() + 8..], &rest);
    assert_eq!(&values[2][..20], b"\0\x03\0\x08consumer\0\0\0\x02\xff\xff\xff\xff");
    assert_eq!(values.len(), 3);
}
