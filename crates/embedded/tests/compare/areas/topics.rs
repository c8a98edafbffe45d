//! CreateTopics, CreatePartitions, DeleteTopics.

use twinlog_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use twinlog_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic,
};
use twinlog_protocol::messages::delete_topics_request::DeleteTopicState;
use twinlog_protocol::messages::{
    BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, Uuid, topic_name,
};

use crate::pair::{Pair, Result};
use crate::requests::{TIMEOUT_MS, create, new_topic};
use crate::sides::Both;

fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> CreatableTopic {
    let assignment = |&(index, brokers): &(i32, &[i32])| {
        CreatableReplicaAssignment::default()
            .with_partition_index(index)
            .with_broker_ids(brokers.iter().copied().map(BrokerId).collect())
    };
    new_topic(name, -1, -1, &[]).with_assignments(assignments.iter().map(assignment).collect())
}

fn more(name: &str, count: i32, brokers: Option<&[&[i32]]>) -> CreatePartitionsRequest {
    let assignment = |brokers: &&[i32]| {
        let ids = brokers.iter().copied().map(BrokerId).collect();
        CreatePartitionsAssignment::default().with_broker_ids(ids)
    };
    let topic = CreatePartitionsTopic::default()
        .with_name(topic_name(name))
        .with_count(count)
        .with_assignments(brokers.map(|brokers| brokers.iter().map(assignment).collect()));
    CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT_MS)
}

fn delete(version: i16, names: &[&str]) -> DeleteTopicsRequest {
    let request = DeleteTopicsRequest::default().with_timeout_ms(TIMEOUT_MS);
    if version >= 6 {
        let topic = |name: &&str| DeleteTopicState::default().with_name(Some(topic_name(name)));
        request.with_topics(names.iter().map(topic).collect())
    } else {
        request.with_topic_names(names.iter().map(|name| topic_name(name)).collect())
    }
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    created(pair)?;
    grown(pair)?;
    deleted(pair)
}

fn created(pair: &mut Pair) -> Result {
    pair.topic("topics-there", 1, &[])?;
    pair.topic("topics.with.dots", 1, &[])?;
    let long = "x".repeat(250);
    let longest = "y".repeat(249);
    let cases: Vec<(&str, Vec<CreatableTopic>)> = vec![
        ("a name that exists", vec![new_topic("topics-there", 1, 1, &[])]),
        ("a name that collides", vec![new_topic("topics_with.dots", 1, 1, &[])]),
        ("an empty name", vec![new_topic("", 1, 1, &[])]),
        ("a dot", vec![new_topic(".", 1, 1, &[])]),
        ("two dots", vec![new_topic("..", 1, 1, &[])]),
        ("a name with a space", vec![new_topic("a b", 1, 1, &[])]),
        ("a name that is too long", vec![new_topic(&long, 1, 1, &[])]),
        ("no partitions", vec![new_topic("topics-new", 0, 1, &[])]),
        ("fewer partitions than none", vec![new_topic("topics-new", -2, 1, &[])]),
        ("no replicas", vec![new_topic("topics-new", 1, 0, &[])]),
        ("fewer replicas than none", vec![new_topic("topics-new", 1, -2, &[])]),
        ("more replicas than brokers", vec![new_topic("topics-new", 1, 2, &[])]),
        (
            "the same name twice",
            vec![new_topic("topics-new", 1, 1, &[]), new_topic("topics-new", 2, 1, &[])],
        ),
        ("nothing", vec![]),
        ("an assignment", vec![assigned("topics-new", &[(0, &[1]), (1, &[1])])]),
        ("an unknown broker", vec![assigned("topics-new", &[(0, &[9])])]),
        ("a broker twice", vec![assigned("topics-new", &[(0, &[1, 1])])]),
        ("no broker", vec![assigned("topics-new", &[(0, &[])])]),
        ("a partition twice", vec![assigned("topics-new", &[(0, &[1]), (0, &[1])])]),
        ("a partition left out", vec![assigned("topics-new", &[(0, &[1]), (2, &[1])])]),
        ("unequal replicas", vec![assigned("topics-new", &[(0, &[1]), (1, &[1, 2])])]),
        (
            "an assignment and a count",
            vec![assigned("topics-new", &[(0, &[1])]).with_num_partitions(1)],
        ),
        (
            "an assignment and a factor",
            vec![assigned("topics-new", &[(0, &[1])]).with_replication_factor(1)],
        ),
        ("defaults", vec![new_topic("topics-new", -1, -1, &[])]),
        (
            "several of which one is wrong",
            vec![new_topic("topics-new", 2, 1, &[]), new_topic("topics-wrong", 0, 1, &[])],
        ),
        ("the longest name", vec![new_topic(&longest, 1, 1, &[])]),
    ];
    for (what, topics) in cases {
        pair.step(format!("CreateTopics, only validated, with {what}"));
        pair.ask_all(|_| create(topics.clone()).with_validate_only(true))?;
    }
    let configs: &[(&str, &str, Option<&str>)] = &[
        ("a good value", "retention.ms", Some("1000")),
        ("a value that is no number", "retention.ms", Some("soon")),
        ("a value that is too small", "retention.ms", Some("-2")),
        ("null", "retention.ms", None),
        ("an unknown name", "no.such.config", Some("1")),
        ("an old name", "message.format.version", Some("3.0")),
        ("an unknown policy", "cleanup.policy", Some("shred")),
        ("two policies", "cleanup.policy", Some("compact,delete")),
        ("an empty policy", "cleanup.policy", Some("")),
        ("an unknown codec", "compression.type", Some("zip")),
        ("a codec", "compression.type", Some("zstd")),
        ("a small segment", "segment.bytes", Some("14")),
        ("in-sync replicas that never are", "min.insync.replicas", Some("5")),
        ("no in-sync replicas", "min.insync.replicas", Some("0")),
        ("an unknown timestamp type", "message.timestamp.type", Some("Whenever")),
        ("a ratio that is too large", "min.cleanable.dirty.ratio", Some("1.5")),
        ("a boolean that is none", "preallocate", Some("maybe")),
        ("tiered storage", "remote.storage.enable", Some("true")),
        ("no tiered storage", "remote.storage.enable", Some("false")),
        ("throttled replicas", "leader.replication.throttled.replicas", Some("0:1")),
        ("all throttled replicas", "follower.replication.throttled.replicas", Some("*")),
        ("a negative message size", "max.message.bytes", Some("-1")),
        ("a number that is too large", "max.message.bytes", Some("99999999999")),
        ("a codec level that is out of range", "compression.gzip.level", Some("77")),
    ];
    let ends = pair.versions::<CreateTopicsRequest>();
    for (what, name, value) in configs {
        pair.step(format!("CreateTopics with a config of {what}"));
        for &version in ends.iter().filter(|&&v| v == 4 || v == 7) {
            let topic = new_topic("topics-new", 1, 1, &[(name, *value)]);
            pair.ask(version, create(vec![topic]).with_validate_only(true))?;
        }
    }
    pair.step("CreateTopics");
    for version in pair.versions::<CreateTopicsRequest>() {
        let name = format!("topics-v{version}");
        let topic = new_topic(&name, 2, 1, &[("retention.ms", Some("600000"))]);
        pair.ask(version, create(vec![topic]))?;
        pair.wait_for(&name, 2)?;
        pair.step("CreateTopics");
    }
    Ok(())
}

fn grown(pair: &mut Pair) -> Result {
    pair.topic("topics-grow", 2, &[])?;
    let cases: &[(&str, CreatePartitionsRequest)] = &[
        ("the same count", more("topics-grow", 2, None)),
        ("fewer", more("topics-grow", 1, None)),
        ("none", more("topics-grow", 0, None)),
        ("fewer than none", more("topics-grow", -1, None)),
        ("an absent topic", more("topics-absent", 3, None)),
        ("a name that is none", more("a b", 3, None)),
        ("an unknown broker", more("topics-grow", 3, Some(&[&[9]]))),
        ("a broker twice", more("topics-grow", 3, Some(&[&[1, 1]]))),
        ("too few assignments", more("topics-grow", 4, Some(&[&[1]]))),
        ("too many assignments", more("topics-grow", 3, Some(&[&[1], &[1]]))),
        ("other replicas", more("topics-grow", 3, Some(&[&[1, 2]]))),
        ("an assignment without brokers", more("topics-grow", 3, Some(&[&[]]))),
        ("an assignment", more("topics-grow", 3, Some(&[&[1]]))),
        ("more", more("topics-grow", 5, None)),
    ];
    for (what, request) in cases {
        pair.step(format!("CreatePartitions, only validated, with {what}"));
        pair.ask_all(|_| request.clone().with_validate_only(true))?;
    }
    pair.step("CreatePartitions of a topic twice");
    let twice = more("topics-grow", 3, None);
    let topics = [twice.topics.clone(), twice.topics.clone()].concat();
    pair.ask_all(|_| twice.clone().with_topics(topics.clone()).with_validate_only(true))?;
    let mut count = 2;
    for version in pair.versions::<CreatePartitionsRequest>() {
        count += 1;
        pair.step("CreatePartitions");
        pair.ask(version, more("topics-grow", count, None))?;
        pair.wait_for("topics-grow", count)?;
    }
    Ok(())
}

fn deleted(pair: &mut Pair) -> Result {
    pair.step("DeleteTopics of an absent topic");
    pair.ask_all(|version| delete(version, &["topics-absent"]))?;
    pair.step("DeleteTopics of nothing");
    pair.ask_all(|version| delete(version, &[]))?;
    pair.step("DeleteTopics of names that are none");
    pair.ask_all(|version| delete(version, &["", "a b"]))?;
    pair.step("DeleteTopics");
    for version in pair.versions::<DeleteTopicsRequest>() {
        let name = format!("topics-v{}", version.clamp(2, 6));
        pair.ask(version, delete(version, &[&name, "topics-absent"]))?;
    }
    let doomed = pair.topic("topics-doomed", 1, &[])?;
    let by_id = |id: Uuid| DeleteTopicState::default().with_name(None).with_topic_id(id);
    let request = |topics: Vec<DeleteTopicState>| {
        DeleteTopicsRequest::default().with_timeout_ms(TIMEOUT_MS).with_topics(topics)
    };
    pair.step("DeleteTopics by an unknown id");
    pair.ask(6, request(vec![by_id(Uuid::from_bytes([7; 16]))]))?;
    pair.step("DeleteTopics by neither");
    pair.ask(6, request(vec![by_id(Uuid::nil())]))?;
    pair.step("DeleteTopics by name and id");
    let both = |id: Uuid| by_id(id).with_name(Some(topic_name("topics-doomed")));
    pair.ask_each(6, &doomed.id.map(|&id| request(vec![both(id)])))?;
    pair.step("DeleteTopics of a name twice");
    pair.ask(6, delete(6, &["topics-doomed", "topics-doomed"]))?;
    pair.step("DeleteTopics by id");
    pair.ask_each(6, &doomed.id.map(|&id| request(vec![by_id(id)])))?;
    pair.step("DeleteTopics by an id that has gone");
    pair.ask_each(6, &doomed.id.map(|&id| request(vec![by_id(id)])))?;
    pair.step("CreateTopics of a name that was deleted");
    pair.ask_each(7, &Both::same(create(vec![new_topic("topics-doomed", 1, 1, &[])])))?;
    pair.wait_for("topics-doomed", 1)
}
