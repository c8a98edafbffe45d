//! Produce without a producer id: batches that are taken and batches that are not.

use bytes::Bytes;
use twinlog_protocol::messages::{ProduceRequest, Uuid};

use crate::batches::{Batch, patched, with};
use crate::pair::{Pair, Result};
use crate::requests::{From, How, fetch, produce};
use crate::sides::Both;

const HOUR_MS: i64 = 3_600_000;

pub(crate) fn run(pair: &mut Pair) -> Result {
    accepted(pair)?;
    refused(pair)?;
    settings(pair)?;
    addresses(pair)
}

fn accepted(pair: &mut Pair) -> Result {
    let topic = pair.topic("produce", 2, &[])?;
    let now = pair.start_ms;
    for codec in 0..=4 {
        for version in pair.versions::<ProduceRequest>() {
            pair.step(format!("Produce with codec {codec}"));
            let batch = Batch::of(3, now).compressed(codec).bytes();
            let request = topic
                .names()
                .map(|names| produce(version, names, 0, Some(batch.clone()), -1, None));
            pair.ask_each(version, &request)?;
        }
    }
    pair.step("Produce with one acknowledgement");
    for version in pair.versions::<ProduceRequest>() {
        let batch = Batch::of(2, now).bytes();
        let request =
            topic.names().map(|names| produce(version, names, 1, Some(batch.clone()), 1, None));
        pair.ask_each(version, &request)?;
    }
    pair.step("Fetch of what was written");
    for partition in 0..2 {
        let all = topic.names().map(|n| fetch(12, n, &[From::at(partition, 0)], How::default()));
        pair.ask_each(12, &all)?;
    }
    Ok(())
}

/// Nothing here has offset deltas other than 0, 1, 2, ...: Kafka stores such a batch broken, and the
/// embedded cluster refuses it on purpose.
fn refused(pair: &mut Pair) -> Result {
    let topic = pair.topic("produce-refused", 1, &[])?;
    let (now, begin) = (pair.start_ms, pair.begin_ms);
    let plain = Batch::of(10, now).bytes();
    let at = |batch: Batch| batch.bytes();
    let two = [&plain[..], &plain[..]].concat();
    let counts = |count: i32, last: i32| {
        patched(&plain, |batch| {
            batch[23..27].copy_from_slice(&last.to_be_bytes());
            batch[57..61].copy_from_slice(&count.to_be_bytes());
        })
    };
    let mut wrong_crc = plain.to_vec();
    wrong_crc[17] ^= 1;
    let mut cut = plain.to_vec();
    cut.truncate(plain.len() - 5);
    let head = plain.slice(..61);
    let mut long = plain.to_vec();
    long.extend_from_slice(&[0; 7]);
    let flipped = {
        let lz4 = Batch::of(10, now).compressed(3).bytes();
        let last = lz4.len() - 9;
        patched(&lz4, |batch| batch[last] ^= 0x55)
    };
    let cases: Vec<(&str, Bytes)> = vec![
        ("a wrong checksum", wrong_crc.into()),
        ("an unknown format", with(&plain, 16, &[3])),
        ("the format of old", with(&plain, 16, &[1])),
        ("the oldest format", with(&plain, 16, &[0])),
        ("a negative format", with(&plain, 16, &[0xff])),
        ("a base offset", with(&plain, 0, &500_i64.to_be_bytes())),
        ("a leader epoch", with(&plain, 12, &77_i32.to_be_bytes())),
        ("a hole in its offsets", counts(10, 14)),
        ("more records than offsets", counts(12, 9)),
        ("more records than it has", counts(15, 14)),
        ("fewer records than it has", counts(5, 4)),
        ("no records but bytes", counts(0, 9)),
        ("no records and no offsets", counts(0, -1)),
        ("a negative count", counts(-1, 9)),
        ("a control bit", with(&plain, 21, &0x20_i16.to_be_bytes())),
        ("a transactional bit", with(&plain, 21, &0x10_i16.to_be_bytes())),
        ("a delete horizon", with(&plain, 21, &0x40_i16.to_be_bytes())),
        ("an unknown bit", with(&plain, 21, &0x80_i16.to_be_bytes())),
        ("an append time", with(&plain, 21, &0x08_i16.to_be_bytes())),
        ("an unknown codec", with(&plain, 21, &5_i16.to_be_bytes())),
        ("another unknown codec", with(&plain, 21, &7_i16.to_be_bytes())),
        ("a codec that it does not have", with(&plain, 21, &1_i16.to_be_bytes())),
        ("zstd that it does not have", with(&plain, 21, &4_i16.to_be_bytes())),
        ("a length that is too large", with(&plain, 8, &9999_i32.to_be_bytes())),
        ("a length that is too small", with(&plain, 8, &10_i32.to_be_bytes())),
        ("a negative length", with(&plain, 8, &(-1_i32).to_be_bytes())),
        ("a cut-off end", cut.into()),
        ("a head alone", head),
        ("half a head", plain.slice(..30)),
        ("a few bytes", plain.slice(..5)),
        ("no bytes", Bytes::new()),
        ("bytes behind it", long.into()),
        ("a second batch", two.into()),
        ("damage under a codec", flipped),
        ("times from the future", at(Batch::of(3, begin + 2 * HOUR_MS))),
        ("times that are near", at(Batch::of(3, begin + HOUR_MS / 2))),
        ("times of old", at(Batch::of(3, 1))),
        ("no times", at(Batch::of(1, -1))),
        ("one wrong time", {
            let mut batch = Batch::of(2, begin + 2 * HOUR_MS);
            batch.step_ms = -2 * HOUR_MS;
            batch.bytes()
        }),
        ("a largest time that is wrong", with(&plain, 35, &(now + 5).to_be_bytes())),
        ("null keys", at(Batch::rows(&[(None, Some("v")), (None, None)], now))),
        ("empty keys", at(Batch::rows(&[(Some(""), Some(""))], now))),
        ("a size over the limit", at(Batch::rows(&[(None, Some(&"x".repeat(1_100_000)))], now))),
        ("zeros", Bytes::from(vec![0; 100])),
        ("a producer without an epoch", at(Batch::of(2, now).by(5_000_000, -1, 0))),
        ("a producer without a sequence", at(Batch::of(2, now).by(5_000_000, 0, -1))),
        ("an epoch without a producer", at(Batch::of(2, now).by(-1, 0, -1))),
        ("a sequence without a producer", at(Batch::of(2, now).by(-1, -1, 0))),
    ];
    for (what, bytes) in cases {
        pair.step(format!("Produce of a batch with {what}"));
        for version in [3, 7, 8, 9, 13] {
            let request = topic
                .names()
                .map(|names| produce(version, names, 0, Some(bytes.clone()), -1, None));
            pair.ask_each(version, &request)?;
        }
    }
    pair.step("Fetch after the refusals");
    let all = topic.names().map(|n| fetch(12, n, &[From::at(0, 0)], How::default()));
    pair.ask_each(12, &all)?;
    Ok(())
}

fn settings(pair: &mut Pair) -> Result {
    let (now, begin) = (pair.start_ms, pair.begin_ms);
    let all = Batch::rows(&[(Some("k"), Some("v")), (Some("k"), None)], now);
    let keyless = Batch::rows(&[(Some("k"), Some("v")), (None, Some("v"))], now);
    let large = Batch::rows(&[(None, Some(&"x".repeat(3000)))], now);
    // Compressed it is below the limit of the topic that has one.
    let squeezed = large.clone().compressed(4);
    let cases: Vec<(&str, &str, &str, Vec<Batch>)> = vec![
        ("produce-compact", "cleanup.policy", "compact", vec![all.clone(), keyless.clone()]),
        (
            "produce-both",
            "cleanup.policy",
            "compact,delete",
            vec![all.clone(), keyless.clone(), keyless.clone().compressed(1)],
        ),
        ("produce-small", "max.message.bytes", "2000", vec![all.clone(), large.clone(), squeezed]),
        (
            "produce-append-time",
            "message.timestamp.type",
            "LogAppendTime",
            vec![all.clone(), all.clone().compressed(2), Batch::of(1, -1)],
        ),
        (
            "produce-before",
            "message.timestamp.before.max.ms",
            "1000",
            vec![Batch::of(4, begin - HOUR_MS), Batch::of(4, begin + HOUR_MS / 4)],
        ),
        (
            "produce-after",
            "message.timestamp.after.max.ms",
            "10000000",
            vec![Batch::of(4, begin + 2 * HOUR_MS), Batch::of(4, begin + 4 * HOUR_MS)],
        ),
    ];
    for (name, key, value, batches) in cases {
        let topic = pair.topic(name, 1, &[(key, value)])?;
        for (index, batch) in batches.iter().enumerate() {
            pair.step(format!("Produce of batch {index} with {key}={value}"));
            for version in [3, 7, 8, 10, 13] {
                let request = topic
                    .names()
                    .map(|names| produce(version, names, 0, Some(batch.bytes()), -1, None));
                pair.ask_each(version, &request)?;
            }
        }
        pair.step(format!("an append-time bit with {key}={value}"));
        let stamped = with(&all.bytes(), 21, &0x08_i16.to_be_bytes());
        let request =
            topic.names().map(|names| produce(8, names, 0, Some(stamped.clone()), -1, None));
        pair.ask_each(8, &request)?;
        pair.step(format!("Fetch with {key}={value}"));
        let all = topic.names().map(|n| fetch(12, n, &[From::at(0, 0)], How::default()));
        pair.ask_each(12, &all)?;
    }
    Ok(())
}

fn addresses(pair: &mut Pair) -> Result {
    let topic = pair.topic("produce-where", 1, &[])?;
    let batch = Batch::of(1, pair.start_ms).bytes();
    for version in pair.versions::<ProduceRequest>() {
        for (what, partition) in [("a partition that is not there", 7), ("a negative one", -1)] {
            pair.step(format!("Produce to {what}"));
            let request = topic
                .names()
                .map(|names| produce(version, names, partition, Some(batch.clone()), -1, None));
            pair.ask_each(version, &request)?;
        }
        pair.step("Produce to an absent topic");
        let absent = ("produce-absent".to_owned(), Uuid::from_bytes([7; 16]));
        let request = produce(version, &absent, 0, Some(batch.clone()), -1, None);
        pair.ask(version, request)?;
        pair.step("Produce with acknowledgements that are none");
        for acks in [2, -2] {
            let request = topic
                .names()
                .map(|names| produce(version, names, 0, Some(batch.clone()), acks, None));
            pair.ask_each(version, &request)?;
        }
        pair.step("Produce of nothing");
        let request = topic
            .names()
            .map(|names| produce(version, names, 0, None, -1, None).with_topic_data(Vec::new()));
        pair.ask_each(version, &request)?;
    }
    pair.step("Produce without acknowledgement, then one with");
    let request = topic.names().map(|names| produce(9, names, 0, Some(batch.clone()), 0, None));
    pair.send_only(9, &request)?;
    pair.write(&topic, 0, &batch)?;
    pair.step("Produce without acknowledgement, refused");
    let absent = ("produce-absent".to_owned(), Uuid::nil());
    let request = produce(9, &absent, 0, Some(batch), 0, None);
    pair.closes(9, &Both::same(request))
}
