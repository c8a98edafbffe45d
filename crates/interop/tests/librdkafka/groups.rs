//! Groups: members share partitions, commits are found again.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::support::{Content, LIMIT, Served, poll, until};

fn fill(served: &Served, partitions: i32, each: i32) {
    let records: Vec<Content> = (0..each)
        .flat_map(|n| (0..partitions).map(move |p| Content::value(p, &format!("{p}/{n}"))))
        .collect();
    served.sender(&[]).send("t", &records);
}

fn assigned(consumer: &BaseConsumer) -> BTreeSet<i32> {
    let list = consumer.assignment().expect("an assignment");
    list.elements()
        .iter()
        .map(rdkafka::topic_partition_list::TopicPartitionListElem::partition)
        .collect()
}

/// Polls all of them, so that they take part in rebalances, until they share `0..partitions` alike.
fn until_shared(consumers: &[&BaseConsumer], partitions: i32) {
    until("a fair share", || {
        for consumer in consumers {
            // Records that come meanwhile are read again, from the committed offsets.
            drop(consumer.poll(Duration::from_millis(20)));
        }
        let shares: Vec<_> = consumers.iter().map(|consumer| assigned(consumer)).collect();
        let all: BTreeSet<i32> = shares.iter().flatten().copied().collect();
        let fair = partitions as usize / consumers.len();
        all == (0..partitions).collect() && shares.iter().all(|share| share.len() == fair)
    });
}

/// What a group has committed, by partition.
fn committed(served: &Served, group: &str, partitions: i32) -> Vec<Option<i64>> {
    served.cluster(|cluster| {
        (0..partitions).map(|partition| cluster.committed(group, "t", partition)).collect()
    })
}

/// Two members, then one, then another one that goes on where the first ones were.
fn a_group_shares_and_goes_on(pairs: &[(&str, &str)]) {
    let served = Served::with_topic(4);
    fill(&served, 4, 50);
    let (one, two) = (served.consumer("g", pairs), served.consumer("g", pairs));
    one.subscribe(&["t"]).expect("subscribed");
    two.subscribe(&["t"]).expect("subscribed");
    until_shared(&[&one, &two], 4);
    // Commit by hand, each member for what it holds.
    for consumer in [&one, &two] {
        let mut offsets = TopicPartitionList::new();
        for partition in assigned(consumer) {
            let offset = Offset::Offset(10 + i64::from(partition));
            offsets.add_partition_offset("t", partition, offset).expect("added");
        }
        consumer.commit(&offsets, CommitMode::Sync).expect("committed");
    }
    assert_eq!(committed(&served, "g", 4), [Some(10), Some(11), Some(12), Some(13)]);
    drop(two);
    until_shared(&[&one], 4);
    drop(one);

    let third = served.consumer("g", pairs);
    third.subscribe(&["t"]).expect("subscribed");
    let read = poll(&third, 4 * 50 - (10 + 11 + 12 + 13));
    for partition in 0..4 {
        let texts: Vec<_> = read
            .iter()
            .filter(|read| read.content.partition == partition)
            .map(|read| read.content.text())
            .collect();
        let wanted: Vec<_> = (10 + partition..50).map(|n| format!("{partition}/{n}")).collect();
        assert_eq!(texts, wanted);
    }
    third.commit_consumer_state(CommitMode::Sync).expect("committed");
    assert_eq!(committed(&served, "g", 4), [Some(50); 4]);
}

#[test]
fn a_classic_group_shares_partitions_and_goes_on_where_it_committed() {
    a_group_shares_and_goes_on(&[("partition.assignment.strategy", "range")]);
}

#[test]
fn a_cooperative_group_shares_partitions_and_goes_on_where_it_committed() {
    a_group_shares_and_goes_on(&[("partition.assignment.strategy", "cooperative-sticky")]);
}

#[test]
fn a_group_of_the_consumer_protocol_shares_partitions_and_goes_on_where_it_committed() {
    a_group_shares_and_goes_on(&[("group.protocol", "consumer")]);
}

#[test]
fn a_static_member_comes_back_to_its_partitions() {
    let served = Served::with_topic(2);
    fill(&served, 2, 10);
    let member = |name: &str| {
        let consumer =
            served.consumer("g", &[("group.instance.id", name), ("session.timeout.ms", "60000")]);
        consumer.subscribe(&["t"]).expect("subscribed");
        consumer
    };
    let (one, two) = (member("one"), member("two"));
    until_shared(&[&one, &two], 2);
    let (before, others) = (assigned(&one), assigned(&two));
    drop(one);
    let one = member("one");
    until("the old share", || {
        drop(one.poll(Duration::from_millis(20)));
        drop(two.poll(Duration::from_millis(20)));
        // The other one never lost its share.
        assert_eq!(assigned(&two), others);
        assigned(&one) == before
    });
    let groups = one.fetch_group_list(Some("g"), LIMIT).expect("groups");
    let group = &groups.groups()[0];
    assert_eq!((group.state(), group.members().len()), ("Stable", 2));
}

#[test]
fn commits_of_a_stranger_are_refused_while_members_live() {
    let served = Served::with_topic(1);
    fill(&served, 1, 10);
    let member = served.consumer("g", &[]);
    member.subscribe(&["t"]).expect("subscribed");
    until_shared(&[&member], 1);
    let stranger = served.consumer("g", &[]);
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset("t", 0, Offset::Offset(3)).expect("added");
    let refused = stranger.commit(&offsets, CommitMode::Sync);
    let unknown = KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownMemberId);
    assert_eq!(refused, Err(unknown));
    assert_eq!(committed(&served, "g", 1), [None]);
    drop(member);
    until("an empty group", || stranger.commit(&offsets, CommitMode::Sync).is_ok());
    assert_eq!(committed(&served, "g", 1), [Some(3)]);
}

#[test]
fn offsets_are_found_by_time_by_commit_and_at_both_ends() {
    let served = Served::with_topic(1);
    let base = 1_700_000_000_000;
    let records: Vec<Content> = (0..100)
        .map(|n| Content { timestamp: base + n * 1_000, ..Content::value(0, &n.to_string()) })
        .collect();
    served.sender(&[]).send("t", &records);
    served.cluster(|cluster| cluster.delete_records("t", 0, 20)).expect("deleted");
    let consumer = served.consumer("g", &[]);
    assert_eq!(consumer.fetch_watermarks("t", 0, LIMIT), Ok((20, 100)));
    let mut times = TopicPartitionList::new();
    times.add_partition_offset("t", 0, Offset::Offset(base + 41_500)).expect("added");
    let found = consumer.offsets_for_times(times, LIMIT).expect("offsets");
    assert_eq!(found.elements()[0].offset(), Offset::Offset(42));

    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset("t", 0, Offset::Offset(77)).expect("added");
    consumer.commit(&offsets, CommitMode::Sync).expect("committed");
    let found = consumer.committed_offsets(offsets.clone(), LIMIT).expect("offsets");
    assert_eq!(found.elements()[0].offset(), Offset::Offset(77));

    // What is not there any more: the reset of the consumer says where to go on.
    let mut deleted = TopicPartitionList::new();
    deleted.add_partition_offset("t", 0, Offset::Offset(3)).expect("added");
    consumer.assign(&deleted).expect("assigned");
    assert_eq!(poll(&consumer, 1)[0].offset, 20);
    consumer.seek("t", 0, Offset::Offset(55), LIMIT).expect("sought");
    assert_eq!(poll(&consumer, 1)[0].content.text(), "55");
}
