//! Segments, retention, the cleaner, and formats of long ago.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, Isolation, NewRecord};

use crate::support::*;

const DAY_MS: i64 = 86_400_000;
const TRANSACTIONAL: i16 = 0x10;

fn started(configs: &[(&str, &str)]) -> EmbeddedCluster {
    let cluster = EmbeddedCluster::start(EmbeddedOptions::new("hello"));
    cluster.create_topic(TOPIC, 1, configs).unwrap();
    cluster
}

/// `k=v` and, for a tombstone, `k`; `=v` has no key.
fn rows(texts: &[&str]) -> Vec<NewRecord> {
    let row = |text: &&str| {
        let (key, value) = text.split_once('=').map_or((*text, None), |(k, v)| (k, Some(v)));
        let field = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        NewRecord {
            key: (!key.is_empty()).then(|| field(key)),
            value: value.map(field),
            ..NewRecord::default()
        }
    };
    texts.iter().map(row).collect()
}

fn put(cluster: &EmbeddedCluster, producer: Option<(i64, i16, i32)>, texts: &[&str]) {
    let batch = batch_of(&rows(texts), "none");
    let batch = producer.map_or(batch.clone(), |(id, epoch, seq)| by(&batch, id, epoch, seq));
    cluster.append_batch(TOPIC, 0, &batch).unwrap();
}

/// A batch of a transaction, and the marker that ends it in the next epoch (KIP-890).
fn put_transaction(cluster: &EmbeddedCluster, id: i64, epoch: i16, texts: &[&str], commit: bool) {
    let data = with_bits(&batch_of(&rows(texts), "none"), TRANSACTIONAL);
    cluster.append_raw(TOPIC, 0, &by(&data, id, epoch, 0)).unwrap();
    let scratch = started(&[]);
    let mut transaction = scratch.begin_transaction();
    scratch.append_in(&mut transaction, TOPIC, 0, &records(1)).unwrap();
    scratch.end_transaction(transaction, commit).unwrap();
    let marker = by(&scratch.batches(TOPIC, 0)[1], id, epoch + 1, -1);
    cluster.append_raw(TOPIC, 0, &marker).unwrap();
}

fn number<const N: usize>(batch: &Bytes, at: usize) -> i64 {
    let mut bytes = [0; 8];
    bytes[8 - N..].copy_from_slice(&batch[at..at + N]);
    i64::from_be_bytes(bytes) << (64 - 8 * N) >> (64 - 8 * N)
}

/// What `kafka-dump-log.sh` says of the stored batches: offsets, count, producer, horizon, records.
fn dump(cluster: &EmbeddedCluster) -> Vec<String> {
    let records = cluster.records(TOPIC, 0, Isolation::ReadUncommitted);
    let describe = |batch: &Bytes| {
        let (base, attributes) = (number::<8>(batch, 0), number::<2>(batch, 21));
        let (last, count) = (base + number::<4>(batch, 23), number::<4>(batch, 57));
        let mut line = format!("{base}-{last} count {count}");
        let (pid, epoch) = (number::<8>(batch, 43), number::<2>(batch, 51));
        if pid >= 0 {
            write!(line, " pid {pid}/{epoch} seq {}", number::<4>(batch, 53)).unwrap();
        }
        if attributes & 0x40 != 0 {
            write!(line, " horizon {}", number::<8>(batch, 27)).unwrap();
        }
        if attributes & 0x20 != 0 {
            line.push_str(" marker");
        }
        for record in records.iter().filter(|record| (base..=last).contains(&record.offset)) {
            let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
            let key = record.key.as_ref().map(text).unwrap_or_default();
            write!(line, " {}:{key}", record.offset).unwrap();
            if let Some(value) = &record.value {
                write!(line, "={}", text(value)).unwrap();
            }
        }
        line
    };
    cluster.batches(TOPIC, 0).iter().map(describe).collect()
}

/// The log that Kafka 4.3.0 cleaned: what it kept is what [`dump`] must say.
fn dirty(delete_retention: &str) -> EmbeddedCluster {
    let cluster = started(&[
        ("cleanup.policy", "compact"),
        ("delete.retention.ms", delete_retention),
        ("min.cleanable.dirty.ratio", "0.0001"),
    ]);
    put(&cluster, Some((1, 0, 0)), &["a=1", "b=1", "c=1"]);
    put(&cluster, Some((1, 0, 3)), &["b=2"]);
    put(&cluster, Some((0, 0, 0)), &["b=3", "d=1"]);
    put(&cluster, None, &["gone=1", "d=2", "t"]);
    put(&cluster, None, &["gone"]);
    put_transaction(&cluster, 2, 0, &["e=1", "a=2"], true);
    put_transaction(&cluster, 2, 1, &["f=1", "g=1"], false);
    put(&cluster, Some((0, 0, 2)), &["e=2"]);
    put(&cluster, None, &["b=4"]);
    cluster.roll(TOPIC, 0).unwrap();
    put(&cluster, None, &["z=1"]);
    cluster
}

#[tokio::test(start_paused = true)]
async fn the_cleaner_leaves_what_kafkas_left() {
    let cluster = dirty("86400000");
    let horizon = cluster.now_ms() + DAY_MS;
    assert!(cluster.clean(TOPIC, 0).unwrap());
    let expected = [
        "0-2 count 1 pid 1/0 seq 0 2:c=1".to_owned(),
        // Empty: it holds the last sequence of its producer.
        "3-3 count 0 pid 1/0 seq 3".to_owned(),
        format!("6-8 count 2 horizon {horizon} 7:d=2 8:t"),
        format!("9-9 count 1 horizon {horizon} 9:gone"),
        "10-11 count 1 pid 2/0 seq 0 11:a=2".to_owned(),
        "12-12 count 1 pid 2/1 seq -1 marker".to_owned(),
        // The aborted data is gone; its marker must still be met without it before it may go.
        "15-15 count 1 pid 2/2 seq -1 marker".to_owned(),
        "16-16 count 1 pid 0/0 seq 2 16:e=2".to_owned(),
        "17-17 count 1 17:b=4".to_owned(),
        "18-18 count 1 18:z=1".to_owned(),
    ];
    assert_eq!(dump(&cluster), expected);
    let timestamps = cluster.records(TOPIC, 0, Isolation::ReadUncommitted);
    assert!(timestamps.iter().all(|record| record.timestamp == cluster.now_ms()));
    assert!(!cluster.clean(TOPIC, 0).unwrap(), "nothing is dirty");
    assert_eq!(cluster.log_end(TOPIC, 0), 19);
}

#[tokio::test(start_paused = true)]
async fn tombstones_and_markers_go_behind_their_horizon() {
    let cluster = dirty("0");
    assert!(cluster.clean(TOPIC, 0).unwrap());
    let next = async || {
        tokio::time::advance(Duration::from_secs(3)).await;
        cluster.roll(TOPIC, 0).unwrap();
        put(&cluster, None, &["z=2"]);
        assert!(cluster.clean(TOPIC, 0).unwrap());
        dump(&cluster)
    };
    let first_horizon = cluster.now_ms();
    let lines = next().await;
    let second_horizon = cluster.now_ms();
    assert_eq!(lines[2], format!("6-8 count 1 horizon {first_horizon} 7:d=2"));
    assert_eq!(
        lines[3..6],
        [
            "10-11 count 1 pid 2/0 seq 0 11:a=2".to_owned(),
            "12-12 count 1 pid 2/1 seq -1 marker".to_owned(),
            format!("15-15 count 1 pid 2/2 seq -1 horizon {second_horizon} marker"),
        ]
    );
    let lines = next().await;
    // Empty: the marker holds the last epoch of its producer.
    assert_eq!(lines[5], "15-15 count 0 pid 2/2 seq -1 marker");
    assert_eq!(lines[4], "12-12 count 1 pid 2/1 seq -1 marker", "its data lives");
    let lines = next().await;
    assert_eq!(
        lines[7..],
        ["17-17 count 1 17:b=4", "20-20 count 1 20:z=2", "21-21 count 1 21:z=2"]
    );
}

#[tokio::test(start_paused = true)]
async fn cleaning_does_not_touch_what_producers_and_readers_rely_on() {
    let cluster = dirty("86400000");
    let mut client = Client::to(&cluster, 1);
    let before = client.producers().await;
    let aborted = client.fetch(FetchFrom { committed: true, ..FetchFrom::offset(0) }, 12).await;
    assert_eq!(aborted.aborted_transactions.unwrap().len(), 1);
    cluster.clean(TOPIC, 0).unwrap();
    assert_eq!(client.producers().await, before);
    let retransmit = client.produce(&by(&batch_of(&rows(&["b=2"]), "none"), 1, 0, 3)).await;
    assert_eq!((retransmit.error_code, retransmit.base_offset), (0, 3), "recognised");
    let next = client.produce(&by(&batch_of(&rows(&["b=5"]), "none"), 1, 0, 4)).await;
    assert_eq!((next.error_code, next.base_offset), (0, 19));
    // A follower, or a broker that lost its snapshots, learns the same from what is left.
    cluster.lose_tail(TOPIC, 0, 19);
    let rebuilt = client.producers().await;
    assert_eq!(rebuilt[..2], before[..2], "the empty batch has the last sequence");
    assert_eq!(client.end_of_epoch(0, -1).await, (0, 0, 19));
    // The offset that is gone is answered by the batch behind it.
    let fetched = client.fetch(FetchFrom::offset(4), 12).await;
    assert_eq!(number::<8>(&fetched.records.unwrap(), 0), 6);
    assert_eq!(client.list_offset(-2, 0, 7).await, (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_active_segment_open_transactions_and_young_records_are_not_cleaned() {
    let cluster = started(&[("cleanup.policy", "compact"), ("min.compaction.lag.ms", "60000")]);
    put(&cluster, None, &["k=1"]);
    put(&cluster, None, &["k=2"]);
    assert!(!cluster.clean(TOPIC, 0).unwrap(), "all of it is the active segment");
    cluster.roll(TOPIC, 0).unwrap();
    assert!(!cluster.clean(TOPIC, 0).unwrap(), "too young");
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(cluster.clean(TOPIC, 0).unwrap());
    assert_eq!(dump(&cluster), ["1-1 count 1 1:k=2"]);
    cluster.alter_config(TOPIC, "min.compaction.lag.ms", None).unwrap();
    let mut transaction = cluster.begin_transaction();
    cluster.append_in(&mut transaction, TOPIC, 0, &rows(&["k=3"])).unwrap();
    cluster.roll(TOPIC, 0).unwrap();
    assert!(!cluster.clean(TOPIC, 0).unwrap(), "the transaction is open");
    cluster.end_transaction(transaction, true).unwrap();
    cluster.roll(TOPIC, 0).unwrap();
    assert!(cluster.clean(TOPIC, 0).unwrap());
    assert_eq!(dump(&cluster)[0].split(' ').next(), Some("2-2"));
}

#[tokio::test(start_paused = true)]
async fn compression_and_records_without_a_key_in_the_cleaner() {
    let cluster = started(&[("compression.type", "zstd")]);
    cluster.append(TOPIC, 0, &rows(&["a=1", "=2", "b=3"])).unwrap();
    cluster.append(TOPIC, 0, &rows(&["b=4"])).unwrap();
    cluster.alter_config(TOPIC, "cleanup.policy", Some("compact")).unwrap();
    cluster.compact(TOPIC, 0).unwrap();
    assert_eq!(dump(&cluster), ["0-2 count 1 0:a=1", "3-3 count 1 3:b=4"]);
    assert_eq!(cluster.batches(TOPIC, 0)[0][22] & 7, 4, "still zstd");
}

fn at(cluster: &EmbeddedCluster, age_ms: i64) -> Vec<NewRecord> {
    vec![NewRecord::new("k", vec![b'v'; 1000]).at(cluster.now_ms() - age_ms)]
}

#[tokio::test(start_paused = true)]
async fn segments_are_rolled_by_size_and_by_the_time_of_their_records() {
    let cluster = started(&[("segment.bytes", "1048576"), ("segment.ms", "3600000")]);
    let big = [NewRecord::new("k", vec![0; 500_000])];
    for _ in 0..5 {
        cluster.append(TOPIC, 0, &big).unwrap();
    }
    assert_eq!(cluster.segments(TOPIC, 0), [0, 2, 4]);
    tokio::time::advance(Duration::from_hours(1)).await;
    cluster.append(TOPIC, 0, &at(&cluster, 0)).unwrap();
    assert_eq!(cluster.segments(TOPIC, 0), [0, 2, 4], "an hour, and not more");
    tokio::time::advance(Duration::from_millis(1)).await;
    cluster.append(TOPIC, 0, &at(&cluster, 0)).unwrap();
    assert_eq!(cluster.segments(TOPIC, 0), [0, 2, 4, 6]);
    // What was appended before a change was rolled by the settings before it.
    cluster.append(TOPIC, 0, &big).unwrap();
    cluster.append(TOPIC, 0, &big).unwrap();
    cluster.alter_config(TOPIC, "segment.ms", Some("1")).unwrap();
    assert_eq!(cluster.segments(TOPIC, 0), [0, 2, 4, 6]);
}

#[tokio::test(start_paused = true)]
async fn retention_by_age_looks_at_the_youngest_record_of_a_segment() {
    let cluster = started(&[("retention.ms", "60000")]);
    let segment = |ages: &[i64]| {
        for &age in ages {
            cluster.append(TOPIC, 0, &at(&cluster, age)).unwrap();
        }
        cluster.roll(TOPIC, 0).unwrap();
    };
    segment(&[70_000, 61_000]);
    segment(&[90_000, 10_000]);
    segment(&[80_000]);
    cluster.append(TOPIC, 0, &at(&cluster, 0)).unwrap();
    cluster.retain(TOPIC, 0).unwrap();
    assert_eq!(cluster.log_start(TOPIC, 0), 2, "a segment that stays keeps those behind it");
    let mut client = Client::to(&cluster, 1);
    assert_eq!(client.fetch(FetchFrom::offset(1), 12).await.error_code, 1);
    assert_eq!(client.list_offset(-2, 0, 7).await.1, 2);
    tokio::time::advance(Duration::from_secs(51)).await;
    cluster.retain(TOPIC, 0).unwrap();
    assert_eq!(cluster.log_start(TOPIC, 0), 5);
    cluster.alter_config(TOPIC, "cleanup.policy", Some("compact")).unwrap();
    tokio::time::advance(Duration::from_hours(1)).await;
    cluster.retain(TOPIC, 0).unwrap();
    assert_eq!(cluster.log_start(TOPIC, 0), 5, "a compacted topic has no retention");
}

#[tokio::test(start_paused = true)]
async fn retention_by_size_keeps_at_least_what_is_allowed() {
    let cluster = started(&[("retention.bytes", "2500")]);
    for _ in 0..4 {
        cluster.append(TOPIC, 0, &at(&cluster, 0)).unwrap();
        cluster.roll(TOPIC, 0).unwrap();
    }
    cluster.append(TOPIC, 0, &at(&cluster, 0)).unwrap();
    // Five segments of a good thousand bytes: two may go without falling below 2500.
    cluster.retain(TOPIC, 0).unwrap();
    assert_eq!(cluster.log_start(TOPIC, 0), 2);
}

#[tokio::test(start_paused = true)]
async fn retention_goes_on_behind_a_segment_that_the_cleaner_emptied() {
    let cluster = started(&[("cleanup.policy", "compact,delete"), ("retention.ms", "60000")]);
    for key in ["a=1", "b=1", "b=2", "c=1"] {
        put(&cluster, None, &[key]);
        cluster.roll(TOPIC, 0).unwrap();
    }
    cluster.clean(TOPIC, 0).unwrap();
    assert_eq!(cluster.batches(TOPIC, 0).len(), 3);
    assert_eq!(cluster.segments(TOPIC, 0), [0, 2, 3, 4]);
    tokio::time::advance(Duration::from_secs(61)).await;
    cluster.append(TOPIC, 0, &at(&cluster, 0)).unwrap();
    cluster.retain(TOPIC, 0).unwrap();
    assert_eq!((cluster.log_start(TOPIC, 0), cluster.log_end(TOPIC, 0)), (4, 5));
}

#[tokio::test(start_paused = true)]
async fn when_everything_is_old_the_active_segment_goes_and_the_producers_with_a_restart() {
    let cluster = started(&[("retention.ms", "60000")]);
    let mut client = Client::to(&cluster, 1);
    let first = by(&batch(10), 7, 0, 0);
    assert_eq!(client.produce(&first).await.error_code, 0);
    tokio::time::advance(Duration::from_secs(61)).await;
    cluster.retain(TOPIC, 0).unwrap();
    assert_eq!((cluster.log_start(TOPIC, 0), cluster.log_end(TOPIC, 0)), (10, 10));
    assert_eq!(client.end_of_epoch(0, -1).await, (0, 0, 10));
    assert_eq!(client.producers().await.len(), 1, "memory keeps what the disk lost");
    let duplicate = client.produce(&first).await;
    assert_eq!((duplicate.error_code, duplicate.base_offset), (0, 0));
    cluster.kill_broker(1);
    cluster.restart_broker(1);
    let mut client = Client::to(&cluster, 1);
    assert_eq!(client.producers().await, []);
    assert_eq!(client.produce(&first).await.base_offset, 10, "appended a second time");
}

#[tokio::test(start_paused = true)]
async fn retention_does_not_wait_for_a_transaction() {
    let cluster = started(&[("retention.ms", "60000")]);
    let mut transaction = cluster.begin_transaction();
    cluster.append_in(&mut transaction, TOPIC, 0, &records(3)).unwrap();
    cluster.roll(TOPIC, 0).unwrap();
    tokio::time::advance(Duration::from_secs(61)).await;
    cluster.append(TOPIC, 0, &records(1)).unwrap();
    cluster.retain(TOPIC, 0).unwrap();
    let mut client = Client::to(&cluster, 1);
    assert_eq!(client.list_offset(-2, 1, 7).await.1, 3);
    assert_eq!(client.list_offset(-1, 1, 7).await.1, 3, "the last stable offset follows the start");
    let open = client.producers().await;
    assert_eq!(open[0].3, 0, "the transaction still begins where it began");
    tokio::time::advance(Duration::from_secs(61)).await;
    cluster.retain(TOPIC, 0).unwrap();
    assert_eq!(
        (client.list_offset(-2, 1, 7).await.1, client.list_offset(-1, 1, 7).await.1),
        (4, 4)
    );
    cluster.end_transaction(transaction, true).unwrap();
    assert_eq!(client.list_offset(-1, 1, 7).await.1, 5);
}

#[tokio::test(start_paused = true)]
async fn checks_that_the_options_ask_for_run_by_themselves() {
    let mut options = EmbeddedOptions::new("hello");
    options.retention_check = Some(Duration::from_mins(5));
    options.cleaner_check = Some(Duration::from_secs(15));
    let cluster = EmbeddedCluster::start(options);
    cluster.create_topic(TOPIC, 1, &[("retention.ms", "1000")]).unwrap();
    cluster.create_topic("compacted", 1, &[("cleanup.policy", "compact")]).unwrap();
    cluster.append(TOPIC, 0, &records(1)).unwrap();
    cluster.append("compacted", 0, &rows(&["k=1"])).unwrap();
    cluster.append("compacted", 0, &rows(&["k=2"])).unwrap();
    cluster.roll("compacted", 0).unwrap();
    tokio::time::advance(Duration::from_secs(301)).await;
    assert_eq!(cluster.log_start(TOPIC, 0), 1);
    assert_eq!(cluster.batches("compacted", 0).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn formats_0_and_1_are_served_as_they_are_stored() {
    let cluster = started(&[]);
    let rows = |from: i64| -> Vec<NewRecord> {
        (from..from + 3).map(|i| NewRecord::new(format!("k{i}"), format!("v{i}")).at(i)).collect()
    };
    let mut base = 0;
    for (magic, codec) in
        [(0, "none"), (0, "gzip"), (0, "lz4"), (1, "none"), (1, "snappy"), (1, "lz4")]
    {
        assert_eq!(cluster.append_old(TOPIC, 0, magic, &rows(base), codec).unwrap(), base);
        base += 3;
    }
    assert!(cluster.append_old(TOPIC, 0, 1, &rows(0), "zstd").is_err());
    cluster.append(TOPIC, 0, &rows(base)).unwrap();
    let records = cluster.records(TOPIC, 0, Isolation::ReadCommitted);
    assert_eq!(records.len(), 21);
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record.offset, index as i64);
        assert_eq!(record.key.as_deref(), Some(format!("k{index}").as_bytes()));
        assert_eq!(record.timestamp, if index < 9 { -1 } else { index as i64 });
    }
    let mut client = Client::to(&cluster, 1);
    let fetched = client.fetch(FetchFrom::offset(4), 12).await.records.unwrap();
    assert_eq!((number::<8>(&fetched, 0), fetched[16]), (5, 0), "a wrapper has its last offset");
    let fetched = client.fetch(FetchFrom::offset(9), 12).await.records.unwrap();
    assert_eq!((number::<8>(&fetched, 0), fetched[16]), (9, 1));
    assert_eq!(crc_of(&fetched), number::<4>(&fetched, 12) as u32);
    assert_eq!(client.list_offset(14, 0, 7).await, (0, 14, -1));
    assert_eq!(client.list_offset(-1, 0, 7).await.1, 21);
}

/// The CRC-32 (IEEE) of the message at the front, bit by bit.
fn crc_of(message: &[u8]) -> u32 {
    let end = 12 + number::<4>(&Bytes::copy_from_slice(&message[..16]), 8) as usize;
    !message[16..end].iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    })
}
