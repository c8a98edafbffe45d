//! Coordinators that move when their broker dies.

use std::time::Duration;

use twinlog_embedded::KafkaVersion::V4_3;
use twinlog_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use twinlog_protocol::messages::*;

use crate::support::*;

async fn found(client: &mut Client, key: &str) -> (i16, i32) {
    let request =
        FindCoordinatorRequest::default().with_key_type(0).with_coordinator_keys(vec![string(key)]);
    let answer = client.call(&request, 4).await;
    (answer.coordinators[0].error_code, answer.coordinators[0].node_id.0)
}

async fn fetched(client: &mut Client) -> Result<i64, i16> {
    let wanted = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(string("g")))
        .with_topics(None)
        .with_member_id(None)
        .with_member_epoch(-1);
    let request = OffsetFetchRequest::default().with_groups(vec![wanted]).with_require_stable(true);
    let answer = client.call(&request, 9).await;
    match answer.groups[0].error_code {
        0 => Ok(answer.groups[0].topics[0].partitions[0].committed_offset),
        code => Err(code),
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_coordinator_loads_and_then_answers_an_older_commit_for_a_moment() {
    let cluster = three_brokers(V4_3, &[], 3);
    cluster.commit_offset("g", TOPIC, 0, 964).unwrap();
    cluster.commit_offset("g", TOPIC, 0, 965).unwrap();
    let old = cluster.group_coordinator("g");
    let other = (1..=3).find(|&broker| broker != old).unwrap();
    let mut client = Client::to(&cluster, other);
    assert_eq!(found(&mut client, "g").await, (0, old));
    assert_eq!(fetched(&mut client).await, Err(16));
    cluster.kill_broker(old);
    assert_eq!(found(&mut client, "g").await, (0, old), "the dead one goes on being named");
    tokio::time::sleep(Duration::from_millis(9001)).await;
    let new = cluster.group_coordinator("g");
    assert_ne!(new, old);
    let mut client = Client::to(&cluster, new);
    assert_eq!(found(&mut client, "g").await, (0, new));
    assert_eq!(fetched(&mut client).await, Err(14));
    tokio::time::sleep(Duration::from_millis(51)).await;
    assert_eq!(fetched(&mut client).await, Ok(964), "older than what was acknowledged");
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(fetched(&mut client).await, Ok(965));
}
