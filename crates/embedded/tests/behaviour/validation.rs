//! What a broker accepts of a producer, row by row as Kafka 4.3 and 3.9 answered.

use crate::support::*;
use bytes::{Bytes, BytesMut};
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, KafkaVersion, NewRecord};
use twinlog_protocol::messages::produce_request::PartitionProduceData;
use twinlog_protocol::messages::produce_response::PartitionProduceResponse;

async fn answer(configs: &[(&str, &str)], batch: &Bytes) -> (PartitionProduceResponse, Vec<Bytes>) {
    let cluster = EmbeddedCluster::start(EmbeddedOptions::new("hello"));
    cluster.create_topic(TOPIC, 1, configs).unwrap();
    let answer = Client::to(&cluster, 1).produce(batch).await;
    (answer, cluster.batches(TOPIC, 0))
}

async fn code(configs: &[(&str, &str)], batch: &Bytes) -> i16 {
    answer(configs, batch).await.0.error_code
}

#[tokio::test(start_paused = true)]
async fn heads_that_lie_are_refused_with_kafkas_codes() {
    let ten = batch(10);
    let holes = patched(&ten, |bytes| {
        // The offset delta of the second record is the zigzag varint after length, attributes, time.
        let second = 61 + 1 + bytes[61] as usize / 2;
        assert_eq!(bytes[second + 3], 2);
        bytes[second + 3] = 4;
    });
    let flipped_crc = {
        let mut bytes = BytesMut::from(&ten[..]);
        bytes[17] ^= 1;
        bytes.freeze()
    };
    let two: Bytes = [&ten[..], &ten[..]].concat().into();
    let rows: Vec<(&str, Bytes, i16)> = vec![
        ("hole: count 10, delta 14", with_counts(&ten, 10, 14), 87),
        ("count 12, delta 9", with_counts(&ten, 12, 9), 87),
        ("both raised", with_counts(&ten, 15, 14), 87),
        ("both lowered", with_counts(&ten, 5, 4), 87),
        ("count 0", with_counts(&ten, 0, 9), 87),
        ("count 0, delta -1", with_counts(&ten, 0, -1), 87),
        ("offset deltas with a hole (Kafka stores it broken)", holes, 87),
        ("transactional bit without transaction", with_bits(&ten, 0x10), 53),
        ("control bit", with_bits(&ten, 0x20), 87),
        (
            "base offset 500",
            patched(&ten, |bytes| bytes[6..8].copy_from_slice(&500i16.to_be_bytes())),
            87,
        ),
        ("wrong CRC", flipped_crc, 2),
        ("no bytes", Bytes::new(), 87),
        ("truncated", ten.slice(..ten.len() - 1), 87),
        ("two batches", two, 87),
        ("format 1", patched(&ten, |bytes| bytes[16] = 1), 87),
        ("delete horizon bit", with_bits(&ten, 0x40), 0),
        ("append time bit to a CreateTime topic", with_bits(&ten, 0x08), 0),
        ("attribute bit 7", with_bits(&ten, 0x80), 0),
        ("leader epoch 77", patched(&ten, |bytes| bytes[15] = 77), 0),
        ("sound", ten.clone(), 0),
    ];
    for (what, sent, expected) in rows {
        let (answer, stored) = answer(&[], &sent).await;
        assert_eq!(answer.error_code, expected, "{what}: {:?}", answer.error_message);
        assert_eq!(stored.len(), usize::from(expected == 0), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_append_time_bit_is_cleared_and_the_delete_horizon_bit_stays() {
    let ten = batch(10);
    let (_, stored) = answer(&[], &with_bits(&ten, 0x08)).await;
    assert_eq!(stored[0][22] & 0x08, 0);
    let (_, stored) = answer(&[], &with_bits(&ten, 0x40)).await;
    assert_eq!(stored[0][22] & 0x40, 0x40);
    let (_, stored) = answer(&[], &patched(&ten, |bytes| bytes[15] = 77)).await;
    assert_eq!(stored[0][12..16], [0; 4], "the leader epoch is overwritten");
}

#[tokio::test(start_paused = true)]
async fn a_producer_topic_keeps_every_byte_behind_the_leader_epoch() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let sent = batch_of(&records(50), codec);
        let (answer, stored) = answer(&[], &sent).await;
        assert_eq!(answer.error_code, 0, "{codec}");
        assert_eq!(stored[0][16..], sent[16..], "{codec}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_zstd_topic_keeps_zstd_and_recompresses_the_rest() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let sent = by(&batch_of(&records(50), codec), 7, 0, 20);
        let (answer, stored) = answer(&[("compression.type", "zstd")], &sent).await;
        assert_eq!(answer.error_code, 0, "{codec}");
        assert_eq!(stored[0][16..] == sent[16..], codec == "zstd", "{codec}");
        assert_eq!(stored[0][22] & 7, 4, "{codec}");
        assert_eq!(stored[0][43..61], sent[43..61], "{codec}: producer and count stay");
    }
}

#[tokio::test(start_paused = true)]
async fn append_time_is_set_by_the_broker_and_refused_from_a_producer() {
    let topic = [("message.timestamp.type", "LogAppendTime")];
    let old = batch_of(&[NewRecord::new("k", "v").at(5)], "none");
    let (answered, stored) = answer(&topic, &old).await;
    assert_eq!(answered.error_code, 0);
    assert_eq!(answered.log_append_time_ms, EmbeddedOptions::new("x").epoch_ms);
    assert_eq!(stored[0][22] & 0x08, 0x08);
    assert_eq!(stored[0][35..43], answered.log_append_time_ms.to_be_bytes());
    let (answered, _) = answer(&topic, &with_bits(&batch(3), 0x08)).await;
    assert_eq!(answered.error_code, 32);
    assert_eq!(answered.record_errors.len(), 3, "one record error per record");
}

#[tokio::test(start_paused = true)]
async fn the_size_limit_counts_the_whole_batch() {
    let sent = batch(10);
    let limit = |bytes: usize| bytes.to_string();
    assert_eq!(code(&[("max.message.bytes", &limit(sent.len()))], &sent).await, 0);
    assert_eq!(code(&[("max.message.bytes", &limit(sent.len() - 1))], &sent).await, 10);
}

#[tokio::test(start_paused = true)]
async fn timestamps_outside_the_limits_refuse_the_whole_batch_and_name_the_records() {
    let now = EmbeddedOptions::new("x").epoch_ms;
    let record = |at: i64| NewRecord::new("k", "v").at(at);
    let mixed = batch_of(&[record(now), record(now + 3_600_001), record(now)], "none");
    let (answered, stored) = answer(&[], &mixed).await;
    assert_eq!((answered.error_code, stored.len()), (32, 0));
    assert_eq!(
        answered.record_errors.iter().map(|error| error.batch_index).collect::<Vec<_>>(),
        [1]
    );
    let edge = batch_of(&[record(now + 3_600_000)], "none");
    assert_eq!(code(&[], &edge).await, 0);
    let old = batch_of(&[record(now - 1001)], "none");
    assert_eq!(code(&[("message.timestamp.before.max.ms", "1000")], &old).await, 32);
    assert_eq!(code(&[("message.timestamp.before.max.ms", "1001")], &old).await, 0);
    let untimed = batch_of(&[record(-1)], "none");
    assert_eq!(code(&[("message.timestamp.before.max.ms", "1000")], &untimed).await, 0);
    // 3.9 lets records from the future pass.
    let mut options = EmbeddedOptions::new("old");
    options.version = KafkaVersion::V3_9;
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[]).unwrap();
    assert_eq!(Client::to(&cluster, 1).produce(&mixed).await.error_code, 0);
}

#[tokio::test(start_paused = true)]
async fn a_compacted_topic_refuses_records_without_key() {
    let keyless = NewRecord { key: None, ..NewRecord::new("", "v") };
    let sent = batch_of(&[NewRecord::new("k", "v"), keyless], "none");
    for policy in ["compact", "compact,delete"] {
        let (answered, stored) = answer(&[("cleanup.policy", policy)], &sent).await;
        assert_eq!((answered.error_code, stored.len()), (87, 0), "{policy}");
        assert_eq!(answered.record_errors[0].batch_index, 1);
    }
    assert_eq!(code(&[], &sent).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_partition_named_twice_is_refused_and_noted_where_kafka_drops_one_in_silence() {
    let cluster = cluster();
    let mut request = produce_request(&batch(1), -1, TIMEOUT_MS);
    let again = PartitionProduceData::default().with_index(0).with_records(Some(batch(2)));
    request.topic_data[0].partition_data.push(again);
    let response = Client::to(&cluster, 1).call(&request, 9).await;
    for partition in &response.responses[0].partition_responses {
        assert_eq!(partition.error_code, 42);
    }
    assert_eq!(cluster.log_end(TOPIC, 0), 0);
    assert_eq!(cluster.violations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn null_records_are_never_answered() {
    let cluster = cluster();
    let mut request = produce_request(&batch(1), -1, TIMEOUT_MS);
    request.topic_data[0].partition_data[0].records = None;
    let mut client = Client::to(&cluster, 1);
    client.send(&request, 9).await;
    let waited = tokio::time::timeout(std::time::Duration::from_mins(1), client.frame()).await;
    assert!(waited.is_err());
    assert_eq!(cluster.violations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn acks_zero_is_not_answered_and_unknown_acks_are_refused() {
    let cluster = cluster();
    let mut client = Client::to(&cluster, 1);
    client.send(&produce_request(&batch(1), 0, 1000), 9).await;
    assert_eq!(client.produce_with(&batch(1), 2, 9, 1000).await.error_code, 21);
    assert_eq!(cluster.log_end(TOPIC, 0), 1);
}

#[tokio::test(start_paused = true)]
async fn whatever_bit_of_a_batch_is_flipped_the_broker_answers_and_the_log_stays_dense() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let cluster = cluster();
        let mut client = Client::to(&cluster, 1);
        let sound = by(&batch_of(&records(4), codec), 9, 0, 0);
        for bit in 0..sound.len() * 8 {
            let sent = patched(&sound, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            client.produce_with(&sent, 1, 9, TIMEOUT_MS).await;
        }
        let stored = cluster.records(TOPIC, 0, twinlog_embedded::Isolation::ReadUncommitted);
        assert!(stored.iter().enumerate().all(|(index, record)| record.offset == index as i64));
        assert_eq!(stored.len() as i64, cluster.log_end(TOPIC, 0), "{codec}");
    }
}

#[tokio::test(start_paused = true)]
async fn frames_that_are_no_requests_close_the_connection_and_nothing_else() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let cluster = cluster();
    let (host, port) = cluster.addresses()[0].clone();
    for frame in
        [&[0xff; 8][..], &[0, 0, 0, 4, 0, 0, 0, 9], &[0, 0, 0, 1, 7], &[0x7f, 0xff, 0xff, 0xff, 0]]
    {
        let mut stream = cluster.connect(&host, port).unwrap();
        stream.write_all(frame).await.unwrap();
        assert!(stream.read_u8().await.is_err(), "{frame:?}");
    }
    assert_eq!(Client::to(&cluster, 1).produce(&batch(1)).await.error_code, 0);
}

#[tokio::test(start_paused = true)]
async fn the_size_limit_counts_what_another_codec_makes_of_a_batch() {
    let cluster = EmbeddedCluster::start(EmbeddedOptions::new("hello"));
    let configs = [("compression.type", "uncompressed"), ("max.message.bytes", "2000")];
    cluster.create_topic(TOPIC, 1, &configs).unwrap();
    let mut client = Client::to(&cluster, 1);
    let packed = batch_of(&[twinlog_embedded::NewRecord::new("k", vec![0; 3000])], "gzip");
    assert!(packed.len() < 1000);
    assert_eq!(client.produce(&packed).await.error_code, 10);
    cluster.alter_config(TOPIC, "max.message.bytes", Some("10000000")).unwrap();
    assert_eq!(client.produce(&packed).await.error_code, 0);
    cluster.alter_config(TOPIC, "segment.bytes", Some("1048576")).unwrap();
    let large = batch_of(&[twinlog_embedded::NewRecord::new("k", vec![0; 1_100_000])], "none");
    assert_eq!(client.produce(&large).await.error_code, 18, "larger than a segment");
}
