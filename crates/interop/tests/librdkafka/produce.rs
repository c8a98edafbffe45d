//! Records: what is written is what is read, whatever happens on the way.

use twinlog_embedded::{Action, EmbeddedCluster, Fault, Isolation, KafkaVersion};
use twinlog_protocol::ApiKey;

use crate::support::{Content, Served, by_partition, until};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// Records of every shape, in two partitions.
fn records(mark: &str) -> Vec<Content> {
    let now = 1_700_000_000_000;
    (0..300_i64)
        .map(|number| {
            let text = format!("{mark} {number} ").repeat(1 + (number % 20) as usize);
            let optional = |none: i64, empty: i64| match number % 7 {
                rest if rest == none => None,
                rest if rest == empty => Some(Vec::new()),
                _ => Some(text.clone().into_bytes()),
            };
            let header = |key: &str, value: Option<&str>| (key.to_owned(), value.map(Vec::from));
            let headers = [
                header("twice", Some("1")),
                header("twice", Some("2")),
                header("null", None),
                header("empty", Some("")),
            ];
            Content {
                partition: (number % 2) as i32,
                key: optional(0, 1),
                value: optional(2, 3),
                timestamp: now + number * 1_000,
                headers: headers.into_iter().take((number % 5) as usize).collect(),
            }
        })
        .collect()
}

#[test]
fn records_of_every_codec_are_read_as_they_were_written() {
    for version in [KafkaVersion::V4_3, KafkaVersion::V3_9] {
        let served = Served::start(1, version);
        served.cluster(|cluster| cluster.create_topic("t", 2, &[])).expect("a topic");
        let mut wanted = Vec::new();
        for codec in CODECS {
            for idempotent in ["false", "true"] {
                let records = records(&format!("{codec} {idempotent}"));
                let pairs = [
                    ("compression.type", codec),
                    ("enable.idempotence", idempotent),
                    ("linger.ms", "20"),
                ];
                served.sender(&pairs).send("t", &records);
                wanted.extend(records);
            }
        }
        let batches = served.cluster(|cluster| cluster.batches("t", 0));
        let mut codecs: Vec<u8> = batches.iter().map(|batch| batch[22] & 7).collect();
        codecs.sort_unstable();
        codecs.dedup();
        assert_eq!(codecs, [0, 1, 2, 3, 4], "every codec was really used");

        let read = by_partition(served.read("t", wanted.len(), &[]));
        for (partition, read) in read {
            let wanted: Vec<_> = wanted.iter().filter(|one| one.partition == partition).collect();
            assert_eq!(read.len(), wanted.len());
            for (number, (read, wanted)) in read.iter().zip(wanted).enumerate() {
                assert_eq!((read.offset, &read.content), (number as i64, wanted));
            }
        }
    }
}

#[test]
fn an_idempotent_producer_writes_once_though_answers_are_lost() {
    let served = Served::with_topic(1);
    let sender =
        served.sender(&[("enable.idempotence", "true"), ("linger.ms", "0"), ("acks", "all")]);
    let values = |from: usize, to: usize| -> Vec<Content> {
        (from..to).map(|number| Content::value(0, &number.to_string())).collect()
    };
    sender.send("t", &values(0, 10));
    for (turn, action) in [
        Action::CloseAfter,
        Action::CloseBefore,
        Action::AnswerAfterExecuting(7), // REQUEST_TIMED_OUT
        Action::Answer(6),               // NOT_LEADER_OR_FOLLOWER
        Action::TruncatedFrame,
        Action::Answer(19), // NOT_ENOUGH_REPLICAS
    ]
    .into_iter()
    .enumerate()
    {
        served.cluster(|cluster| cluster.fault(Fault::new(action).api(ApiKey::Produce)));
        sender.send("t", &values(10 + turn * 10, 20 + turn * 10));
        assert_eq!(served.cluster(EmbeddedCluster::pending_faults), 0);
    }
    let read = served.cluster(|cluster| cluster.records("t", 0, Isolation::ReadCommitted));
    let texts: Vec<_> = read.iter().filter_map(|record| record.value.clone()).collect();
    let wanted: Vec<_> = (0..70).map(|number| number.to_string()).collect();
    assert_eq!(texts, wanted);
}

#[test]
fn a_producer_and_a_consumer_follow_their_leaders() {
    let served = Served::start(3, KafkaVersion::V4_3);
    served.cluster(|cluster| cluster.create_topic("t", 1, &[])).expect("a topic");
    let sender = served.sender(&[("enable.idempotence", "true"), ("linger.ms", "0")]);
    let mut wanted = Vec::new();
    for turn in 0..6 {
        let leader = served.cluster(|cluster| cluster.leader("t", 0)).expect("a leader").0;
        let next = leader % 3 + 1;
        assert!(served.cluster(|cluster| cluster.move_leader("t", 0, next)), "{leader} to {next}");
        let records: Vec<_> = (0..20).map(|n| Content::value(0, &format!("{turn} {n}"))).collect();
        sender.send("t", &records);
        wanted.extend(records.iter().map(Content::text));
    }
    let read = served.read("t", wanted.len(), &[]);
    let texts: Vec<String> = read.iter().map(|read| read.content.text()).collect();
    assert_eq!(texts, wanted);
}

#[test]
fn a_producer_makes_the_topic_that_it_asks_for_where_that_is_allowed() {
    let served = Served::auto_creating();
    let sender = served.sender(&[("topic.metadata.propagation.max.ms", "30000")]);
    sender.send("new", &[Content::value(0, "first")]);
    until("a topic", || served.cluster(|cluster| cluster.partitions("new") == 1));
    assert_eq!(served.read("new", 1, &[])[0].content.text(), "first");
}

#[test]
fn what_a_topic_refuses_is_an_error_of_the_record() {
    let served = Served::with_topic(1);
    served
        .cluster(|cluster| cluster.create_topic("compacted", 1, &[("cleanup.policy", "compact")]))
        .expect("a topic");
    let sender = served.sender(&[]);
    sender.queue("compacted", &[Content::value(0, "no key")]);
    let answers = sender.answers();
    assert_eq!(answers.len(), 1);
    let error = answers[0].as_ref().expect_err("refused");
    let code = error.rdkafka_error_code();
    assert_eq!(code, Some(rdkafka::error::RDKafkaErrorCode::InvalidRecord), "{error}");
}
