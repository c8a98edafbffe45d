//! Byte rates of clients: the burst, the silence after it, and whose bytes count together.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use twinlog_embedded::{EmbeddedCluster, NewRecord};
use twinlog_protocol::messages::*;

use crate::support::*;

/// Set on the cluster: bytes per second.
const RATE: f64 = 1_000_000.0;

fn entity(kind: &str, name: Option<&str>) -> alter_client_quotas_request::EntityData {
    alter_client_quotas_request::EntityData::default()
        .with_entity_type(string(kind))
        .with_entity_name(name.map(string))
}

async fn set(
    client: &mut Client,
    entity: Vec<alter_client_quotas_request::EntityData>,
    key: &str,
    value: f64,
) -> i16 {
    let op = alter_client_quotas_request::OpData::default().with_key(string(key)).with_value(value);
    let entry =
        alter_client_quotas_request::EntryData::default().with_entity(entity).with_ops(vec![op]);
    let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
    client.call(&request, 1).await.entries[0].error_code
}

fn large() -> Bytes {
    batch_of(&[NewRecord::new("k", vec![7; 900_000])], "none")
}

async fn produce(client: &mut Client, batch: &Bytes) -> i32 {
    let answer = client.call(&produce_request(batch, -1, TIMEOUT_MS), 9).await;
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0, "served all the same");
    answer.throttle_time_ms
}

async fn limited(key: &str) -> (EmbeddedCluster, Client) {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    assert_eq!(set(&mut client, vec![entity("client-id", None)], key, RATE).await, 0);
    (cluster, client)
}

#[tokio::test(start_paused = true)]
async fn ten_seconds_worth_pass_and_then_the_connection_is_muted() {
    let (cluster, mut client) = limited("producer_byte_rate").await;
    let batch = large();
    for index in 0..11 {
        assert_eq!(produce(&mut client, &batch).await, 0, "{index}: 9.9 MB in ten seconds");
    }
    // 10.8 MB in ten seconds are 8 % too many, and so 8 % of ten seconds.
    let throttled = produce(&mut client, &batch).await;
    assert_eq!(throttled, ((12 * batch.len()) as f64 / 100.0 - 100_000.0) as i32 / 10);
    let answered = Instant::now();
    let next = client.call(&MetadataRequest::default().with_topics(None), 9).await;
    assert_eq!(next.topics.len(), 1);
    assert_eq!(answered.elapsed().as_millis() as i32, throttled, "nothing on it is read meanwhile");
    // Another connection is free until it produces; then it counts with the first one.
    let mut other = Client::to(&cluster, 1);
    let asked = Instant::now();
    other.call(&MetadataRequest::default().with_topics(None), 9).await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
    assert!(produce(&mut other, &batch).await > 0);
    // Eleven seconds later all of it is past.
    tokio::time::advance(Duration::from_secs(12)).await;
    assert_eq!(produce(&mut client, &batch).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_fetch_is_empty_and_does_not_count() {
    let (cluster, mut client) = limited("consumer_byte_rate").await;
    for _ in 0..13 {
        cluster.append_batch(TOPIC, 0, &large()).unwrap();
    }
    let mut offset = 0;
    let mut throttles = Vec::new();
    while offset < 13 {
        let answer = client.call(&FetchFrom::offset(offset).request(12), 12).await;
        assert_eq!(answer.error_code, 0);
        if answer.throttle_time_ms > 0 {
            assert!(answer.responses.is_empty(), "which does not mean that there is nothing");
            throttles.push(answer.throttle_time_ms);
            continue;
        }
        offset += 1;
    }
    // 11 records in the first moment; each one more is asked for until its share of time is past.
    assert!(!throttles.is_empty());
    assert!(throttles.iter().all(|&time| (1..=1000).contains(&time)), "{throttles:?}");
}

#[tokio::test(start_paused = true)]
async fn the_closest_quota_counts() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let batch = batch_of(&[NewRecord::new("k", vec![7; 100_000])], "none");
    let user = |name| entity("user", name);
    let id = |name| entity("client-id", name);
    // Each is stronger than those before; a small one throttles at once, a large one never.
    let rows = [
        (vec![id(None)], 1.0, true),
        (vec![id(Some("test"))], 1e9, false),
        (vec![user(None)], 1.0, true),
        (vec![user(None), id(Some("test"))], 1e9, false),
        (vec![user(Some("ANONYMOUS"))], 1.0, true),
        (vec![user(Some("ANONYMOUS")), id(None)], 1e9, false),
        (vec![user(Some("ANONYMOUS")), id(Some("other"))], 1.0, false),
    ];
    for (entity, value, throttled) in rows {
        assert_eq!(set(&mut client, entity.clone(), "producer_byte_rate", value).await, 0);
        assert_eq!(produce(&mut client, &batch).await > 0, throttled, "{entity:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn quotas_are_described_as_they_were_set_and_refused_as_by_kafka() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    let id = entity("client-id", Some("a"));
    assert_eq!(set(&mut client, vec![id.clone()], "producer_byte_rate", 5.0).await, 0);
    assert_eq!(set(&mut client, vec![id.clone()], "request_percentage", 0.5).await, 0);
    let both = vec![entity("user", None), id.clone()];
    assert_eq!(set(&mut client, both, "consumer_byte_rate", 6.0).await, 0);
    for (entity, key, value) in [
        (vec![], "producer_byte_rate", 1.0),
        (vec![entity("planet", None)], "producer_byte_rate", 1.0),
        (vec![id.clone()], "producer_byte_rate", 0.0),
        (vec![id.clone()], "producer_byte_rate", 1.5),
        (vec![id.clone()], "connection_creation_rate", 1.0),
        (vec![id], "speed", 1.0),
    ] {
        assert_eq!(set(&mut client, entity.clone(), key, value).await, 42, "{entity:?} {key}");
    }
    let mut described = async |components: &[(&str, i8, Option<&str>)], strict: bool| {
        let component = |&(kind, how, name): &(&str, i8, Option<&str>)| {
            describe_client_quotas_request::ComponentData::default()
                .with_entity_type(string(kind))
                .with_match_type(how)
                .with_match(name.map(string))
        };
        let request = DescribeClientQuotasRequest::default()
            .with_components(components.iter().map(component).collect())
            .with_strict(strict);
        let answer = client.call(&request, 1).await;
        (answer.error_code, answer.entries.map_or(0, |entries| entries.len()))
    };
    assert_eq!(described(&[], false).await, (0, 2));
    assert_eq!(described(&[("client-id", 0, Some("a"))], false).await, (0, 2));
    assert_eq!(described(&[("client-id", 0, Some("a"))], true).await, (0, 1));
    assert_eq!(described(&[("user", 1, None)], false).await, (0, 1));
    assert_eq!(described(&[("user", 2, None)], true).await, (0, 0));
    assert_eq!(described(&[("user", 0, None)], false).await, (42, 0));
}
