//! Transactions: committed or aborted as a whole, offsets included, and one producer at a time.

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use twinlog_embedded::KafkaVersion;

use crate::support::{Content, LIMIT, Sender, Served, poll, until};

fn values(mark: &str, count: i32) -> Vec<Content> {
    (0..count).map(|n| Content::value(n % 2, &format!("{mark} {n}"))).collect()
}

fn texts(mut records: Vec<String>) -> Vec<String> {
    records.sort_unstable();
    records
}

fn read(served: &Served, count: usize, isolation: &str) -> Vec<String> {
    let read = served.read("t", count, &[("isolation.level", isolation)]);
    texts(read.iter().map(|read| read.content.text()).collect())
}

fn transactional(served: &Served, id: &str) -> Sender {
    let sender = served.sender(&[("transactional.id", id), ("linger.ms", "0")]);
    sender.producer.init_transactions(LIMIT).expect("initialised");
    sender
}

#[test]
fn aborted_records_are_seen_only_by_who_reads_uncommitted() {
    for version in [KafkaVersion::V4_3, KafkaVersion::V3_9] {
        let served = Served::start(3, version);
        served.cluster(|cluster| cluster.create_topic("t", 2, &[])).expect("a topic");
        let sender = transactional(&served, "id");
        let (mut committed, mut all) = (Vec::new(), Vec::new());
        for turn in 0..6 {
            let records = values(&turn.to_string(), 20);
            sender.producer.begin_transaction().expect("begun");
            sender.send("t", &records);
            let texts = records.iter().map(Content::text);
            if turn % 3 == 1 {
                sender.producer.abort_transaction(LIMIT).expect("aborted");
            } else {
                sender.producer.commit_transaction(LIMIT).expect("committed");
                committed.extend(texts.clone());
            }
            all.extend(texts);
        }
        assert_eq!(read(&served, 120, "read_uncommitted"), texts(all));
        assert_eq!(read(&served, 80, "read_committed"), texts(committed));
    }
}

#[test]
fn an_open_transaction_holds_back_what_comes_after_it() {
    let served = Served::with_topic(2);
    let sender = transactional(&served, "id");
    sender.producer.begin_transaction().expect("begun");
    sender.send("t", &[Content::value(0, "open")]);
    served.sender(&[]).send("t", &[Content::value(0, "behind"), Content::value(1, "beside")]);
    assert_eq!(read(&served, 1, "read_committed"), ["beside"]);
    sender.producer.commit_transaction(LIMIT).expect("committed");
    assert_eq!(read(&served, 3, "read_committed"), ["behind", "beside", "open"]);
}

#[test]
fn offsets_are_committed_with_the_records_or_not_at_all() {
    let served = Served::with_topic(2);
    served.cluster(|cluster| cluster.create_topic("in", 1, &[])).expect("a topic");
    served.sender(&[]).send("in", &[Content::value(0, "a"), Content::value(0, "b")]);
    let consumer: BaseConsumer = served.consumer("g", &[("isolation.level", "read_committed")]);
    consumer.subscribe(&["in"]).expect("subscribed");
    poll(&consumer, 2);
    let sender = transactional(&served, "id");
    let committed = || served.cluster(|cluster| cluster.committed("g", "in", 0));
    for (offset, commit, stands) in [(1, true, 1), (2, false, 1), (2, true, 2)] {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset("in", 0, Offset::Offset(offset)).expect("added");
        let group = consumer.group_metadata().expect("a member");
        sender.producer.begin_transaction().expect("begun");
        sender.send("t", &[Content::value(0, &format!("{offset} {commit}"))]);
        sender.producer.send_offsets_to_transaction(&offsets, &group, LIMIT).expect("offsets sent");
        if commit {
            sender.producer.commit_transaction(LIMIT).expect("committed");
        } else {
            sender.producer.abort_transaction(LIMIT).expect("aborted");
        }
        until("the group's offset", || committed() == Some(stands));
    }
    assert_eq!(read(&served, 2, "read_committed"), ["1 true", "2 true"]);
}

#[test]
fn a_second_producer_with_the_same_id_fences_the_first() {
    let served = Served::with_topic(2);
    let first = transactional(&served, "id");
    first.producer.begin_transaction().expect("begun");
    first.send("t", &[Content::value(0, "lost")]);
    let second = transactional(&served, "id");
    first.queue("t", &[Content::value(0, "late")]);
    let ended = first.producer.commit_transaction(LIMIT);
    let Err(KafkaError::Transaction(error)) = ended else { panic!("{ended:?}") };
    assert!(error.is_fatal(), "{error:?}");
    assert_eq!(error.code(), RDKafkaErrorCode::Fenced, "{error:?}");
    second.producer.begin_transaction().expect("begun");
    second.send("t", &[Content::value(0, "kept")]);
    second.producer.commit_transaction(LIMIT).expect("committed");
    assert_eq!(read(&served, 1, "read_committed"), ["kept"]);
}
