//! Versions, connections, determinism, TCP.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, KafkaVersion};
use twinlog_protocol::messages::*;
use twinlog_protocol::{ApiKey, decode_response, encode_request};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn each_version_announces_what_it_serves() {
    let rows = [
        (ApiKey::Produce, 13, 11),
        (ApiKey::Fetch, 18, 17),
        (ApiKey::ListOffsets, 10, 9),
        (ApiKey::Metadata, 13, 12),
        (ApiKey::EndTxn, 5, 4),
        (ApiKey::DescribeGroups, 6, 5),
        (ApiKey::ConsumerGroupDescribe, 1, 0),
    ];
    for (version, newest) in [(KafkaVersion::V4_3, true), (KafkaVersion::V3_9, false)] {
        let mut options = EmbeddedOptions::new("hello");
        options.version = version;
        let cluster = EmbeddedCluster::start(options);
        let request = ApiVersionsRequest::default()
            .with_client_software_name(string("test"))
            .with_client_software_version(string("1"));
        let answer = Client::to(&cluster, 1).call(&request, 4).await;
        for (api, new, old) in rows {
            let found = answer.api_keys.iter().find(|key| key.api_key == api.key()).unwrap();
            assert_eq!(found.max_version, if newest { new } else { old }, "{api}");
        }
        let features: Vec<_> = answer.finalized_features.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(features.contains(&"transaction.version"), newest);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_version_of_api_versions_gets_35_and_others_close_the_connection() {
    let cluster = cluster();
    let (host, port) = cluster.addresses()[0].clone();
    let mut stream = cluster.connect(&host, port).unwrap();
    let mut frame = encode_request(&ApiVersionsRequest::default(), 3, 7, "test").unwrap().to_vec();
    frame[7] = 99;
    stream.write_all(&frame).await.unwrap();
    let length = stream.read_i32().await.unwrap();
    assert_eq!(stream.read_i32().await.unwrap(), 7);
    let mut body = vec![0; length as usize - 4];
    stream.read_exact(&mut body).await.unwrap();
    let answer = decode_response::<ApiVersionsRequest>(body.into(), 0).unwrap();
    assert_eq!(answer.error_code, 35);
    assert!(!answer.api_keys.is_empty());
    let mut frame = encode_request(&MetadataRequest::default(), 9, 8, "test").unwrap().to_vec();
    frame[7] = 99;
    stream.write_all(&frame).await.unwrap();
    assert!(stream.read_i32().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn every_served_version_of_every_read_is_answered() {
    let cluster = cluster();
    cluster.append(TOPIC, 0, &records(3)).unwrap();
    cluster.commit_offset("g", TOPIC, 0, 1).unwrap();
    let mut client = Client::to(&cluster, 1);
    for version in 4..=18 {
        let id = Uuid::from_bytes(cluster.topic_id(TOPIC).unwrap().0);
        let data = client.fetch(FetchFrom { id, ..FetchFrom::offset(0) }, version).await;
        assert_eq!((data.error_code, data.high_watermark), (0, 3), "Fetch {version}");
    }
    for version in 0..=13 {
        let all = if version == 0 { Some(Vec::new()) } else { None };
        let answer = client.call(&MetadataRequest::default().with_topics(all), version).await;
        let internal = answer.topics.iter().filter(|topic| topic.is_internal).count();
        assert_eq!((answer.brokers.len(), answer.topics.len()), (1, 2), "Metadata {version}");
        assert_eq!(internal, usize::from(version >= 1), "Metadata {version}");
        let named =
            metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name("absent")));
        let request = MetadataRequest::default().with_topics(Some(vec![named]));
        assert_eq!(
            client.call(&request, version).await.topics[0].error_code,
            3,
            "Metadata {version}"
        );
    }
    for version in 1..=10 {
        assert_eq!(client.list_offset(-1, 0, version).await.1, 3, "ListOffsets {version}");
    }
    for version in 3..=12 {
        let answer = client.produce_with(&batch(1), -1, version, TIMEOUT_MS).await;
        assert_eq!(answer.error_code, 0, "Produce {version}");
        let refused =
            client.produce_with(&with_bits(&batch(1), 0x20), -1, version, TIMEOUT_MS).await;
        assert_eq!(refused.error_code, 87, "Produce {version}");
    }
    for version in 1..=7 {
        let topic = offset_fetch_request::OffsetFetchRequestTopic::default()
            .with_name(topic_name(TOPIC))
            .with_partition_indexes(vec![0]);
        let request = OffsetFetchRequest::default()
            .with_group_id(GroupId(string("g")))
            .with_topics(Some(vec![topic]));
        let answer = client.call(&request, version).await;
        assert_eq!(answer.topics[0].partitions[0].committed_offset, 1, "OffsetFetch {version}");
    }
    for version in 0..=2 {
        let answer =
            client.call(&DescribeClusterRequest::default().with_endpoint_type(1), version).await;
        assert_eq!((answer.error_code, answer.brokers.len()), (0, 1), "DescribeCluster {version}");
    }
    for version in 0..=5 {
        assert_eq!(client.call(&ListGroupsRequest::default(), version).await.groups.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_by_an_unknown_id_says_so() {
    let cluster = cluster();
    let id = Uuid::from_bytes([7; 16]);
    let by_id = metadata_request::MetadataRequestTopic::default().with_name(None).with_topic_id(id);
    let request = MetadataRequest::default().with_topics(Some(vec![by_id]));
    let answer = Client::to(&cluster, 1).call(&request, 12).await;
    assert_eq!((answer.topics[0].error_code, answer.topics[0].topic_id), (100, id));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_broker_answers_when_it_goes_on() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    cluster.pause_broker(1);
    client.send(&ListGroupsRequest::default(), 0).await;
    let waited = tokio::time::timeout(Duration::from_secs(5), client.frame()).await;
    assert!(waited.is_err());
    cluster.resume_broker(1);
    assert!(client.frame().await.is_some());
}

async fn trace(seed: u64) -> Vec<String> {
    let mut options = EmbeddedOptions::new("hello").with_brokers(3);
    options.seed = seed;
    let cluster = EmbeddedCluster::start(options);
    let begun = Instant::now();
    let id = cluster.create_topic(TOPIC, 1, &[]).unwrap();
    let mut tasks = Vec::new();
    for broker in 1..=3 {
        let cluster = cluster.clone();
        tasks.push(tokio::spawn(async move {
            let mut client = Client::to(&cluster, broker);
            for _ in 0..5 {
                client.produce_with(&batch(1), -1, 9, 500).await;
                client.fetch(FetchFrom { max_wait_ms: 20, ..FetchFrom::offset(1) }, 12).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let line = |entry: twinlog_embedded::RequestLogEntry| {
        format!("{:?} {} {} {}", entry.at - begun, entry.broker, entry.connection, entry.api)
    };
    std::iter::once(id.to_string()).chain(cluster.requests().into_iter().map(line)).collect()
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_trace() {
    let first = trace(42).await;
    assert_eq!(first.len(), 31);
    assert_eq!(first, trace(42).await);
    assert_ne!(first[0], trace(43).await[0], "ids come from the seed");
}

#[tokio::test]
async fn real_sockets_are_served() {
    let cluster = cluster();
    let addresses = cluster.listen_tcp("127.0.0.1", 0).await.unwrap();
    assert_eq!(cluster.addresses(), addresses);
    let mut stream =
        tokio::net::TcpStream::connect((addresses[0].0.as_str(), addresses[0].1)).await.unwrap();
    let frame = encode_request(&ApiVersionsRequest::default(), 0, 1, "test").unwrap();
    stream.write_all(&frame).await.unwrap();
    assert!(stream.read_i32().await.unwrap() > 4);
}
