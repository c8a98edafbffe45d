//! FindCoordinator, OffsetCommit, OffsetFetch, OffsetDelete by clients that are no members.

use twinlog_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use twinlog_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use twinlog_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use twinlog_protocol::messages::{
    FindCoordinatorRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, Uuid,
    string, topic_name,
};

use crate::pair::{Pair, Result};
use crate::requests::{Topic, group};
use crate::sides::Both;

/// A commit: partition, offset, leader epoch, metadata.
pub(crate) type Commit<'a> = (i32, i64, i32, Option<&'a str>);

/// What is special, the group, who commits, and what.
type Case<'a> = (&'a str, &'a str, (i32, &'a str), &'a [Commit<'a>]);

/// OffsetCommit by a member (generation -1 and no name: by nobody).
pub(crate) fn commit(
    version: i16,
    name: &str,
    (generation, member): (i32, &str),
    (topic, id): &(String, Uuid),
    commits: &[Commit<'_>],
) -> OffsetCommitRequest {
    let partition = |&(index, offset, epoch, metadata): &Commit<'_>| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_committed_metadata(metadata.map(string));
        if version >= 6 { partition.with_committed_leader_epoch(epoch) } else { partition }
    };
    let partitions = commits.iter().map(partition).collect();
    let topic_of = OffsetCommitRequestTopic::default().with_partitions(partitions);
    let topic = if version >= 10 {
        topic_of.with_topic_id(*id)
    } else {
        topic_of.with_name(topic_name(topic))
    };
    let request = OffsetCommitRequest::default()
        .with_group_id(group(name))
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(string(member))
        .with_topics(vec![topic]);
    if version >= 7 { request.with_group_instance_id(None) } else { request }
}

/// OffsetFetch of some partitions of a topic; `None`: of everything.
pub(crate) fn fetch(
    version: i16,
    name: &str,
    (topic, id): &(String, Uuid),
    partitions: Option<&[i32]>,
    stable: bool,
) -> OffsetFetchRequest {
    let request = OffsetFetchRequest::default();
    let request = if version >= 7 { request.with_require_stable(stable) } else { request };
    if version < 8 {
        let topics = partitions.map(|partitions| {
            let topic = OffsetFetchRequestTopic::default().with_name(topic_name(topic));
            vec![topic.with_partition_indexes(partitions.to_vec())]
        });
        return request.with_group_id(group(name)).with_topics(topics);
    }
    let topics = partitions.map(|partitions| {
        let topic_of =
            OffsetFetchRequestTopics::default().with_partition_indexes(partitions.to_vec());
        vec![if version >= 10 {
            topic_of.with_topic_id(*id)
        } else {
            topic_of.with_name(topic_name(topic))
        }]
    });
    let wanted = OffsetFetchRequestGroup::default().with_group_id(group(name)).with_topics(topics);
    let wanted = if version >= 9 { wanted.with_member_id(None) } else { wanted };
    request.with_groups(vec![wanted])
}

pub(crate) fn delete(name: &str, topic: &str, partitions: &[i32]) -> OffsetDeleteRequest {
    let partition =
        |&index: &i32| OffsetDeleteRequestPartition::default().with_partition_index(index);
    let topic = OffsetDeleteRequestTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(partitions.iter().map(partition).collect());
    OffsetDeleteRequest::default().with_group_id(group(name)).with_topics(vec![topic])
}

const NOBODY: (i32, &str) = (-1, "");

fn commit_all(
    pair: &mut Pair,
    name: &str,
    member: (i32, &str),
    topic: &Topic,
    commits: &[Commit<'_>],
) -> Result {
    for version in pair.versions::<OffsetCommitRequest>() {
        let request = topic.names().map(|names| commit(version, name, member, names, commits));
        pair.ask_each(version, &request)?;
    }
    Ok(())
}

fn fetch_all(pair: &mut Pair, name: &str, topic: &Topic, partitions: Option<&[i32]>) -> Result {
    for version in pair.versions::<OffsetFetchRequest>() {
        if version < 2 && partitions.is_none() {
            continue;
        }
        let request = topic.names().map(|names| fetch(version, name, names, partitions, false));
        pair.ask_each(version, &request)?;
    }
    Ok(())
}

pub(crate) fn run(pair: &mut Pair) -> Result {
    let topic = pair.topic("commits", 3, &[])?;
    coordinators(pair)?;

    for (what, name) in [("an absent group", "commits-absent"), ("an empty name", "")] {
        pair.step(format!("OffsetFetch of {what}"));
        fetch_all(pair, name, &topic, Some(&[0, 1]))?;
        pair.step(format!("OffsetFetch of everything of {what}"));
        fetch_all(pair, name, &topic, None)?;
    }
    let long = "m".repeat(4097);
    let cases: &[Case<'_>] = &[
        ("by nobody", "commits-g", NOBODY, &[(0, 10, -1, Some("note"))]),
        ("of several", "commits-g", NOBODY, &[(0, 11, -1, Some("")), (1, 5, -1, Some("x"))]),
        ("of an epoch", "commits-g", NOBODY, &[(1, 7, 500, None)]),
        ("without metadata", "commits-g", NOBODY, &[(2, 7, -1, None)]),
        ("of offset -1", "commits-g", NOBODY, &[(2, -1, -1, None)]),
        ("of a negative offset", "commits-g", NOBODY, &[(2, -5, -1, None)]),
        ("far behind the end", "commits-g", NOBODY, &[(0, 1 << 50, 0, Some("far"))]),
        ("of too much metadata", "commits-g", NOBODY, &[(0, 1, -1, Some(&long)), (1, 9, -1, None)]),
        ("of a partition that is not there", "commits-g", NOBODY, &[(9, 1, -1, None)]),
        ("of a negative partition", "commits-g", NOBODY, &[(-1, 1, -1, None)]),
        ("of nothing", "commits-g", NOBODY, &[]),
        ("with a generation", "commits-g", (0, ""), &[(0, 1, -1, None)]),
        ("by an unknown member", "commits-g", (-1, "who"), &[(0, 1, -1, None)]),
        ("by an unknown member of a generation", "commits-g", (3, "who"), &[(0, 1, -1, None)]),
        ("with a generation to an absent group", "commits-new", (0, ""), &[(0, 1, -1, None)]),
        ("by a member of an absent group", "commits-new", (1, "who"), &[(0, 1, -1, None)]),
        ("to an empty name", "", NOBODY, &[(0, 1, -1, None)]),
    ];
    for (what, name, member, commits) in cases {
        pair.step(format!("OffsetCommit {what}"));
        commit_all(pair, name, *member, &topic, commits)?;
        pair.step(format!("OffsetFetch after a commit {what}"));
        fetch_all(pair, name, &topic, Some(&[0, 1, 2, 9]))?;
    }
    pair.step("OffsetFetch of everything");
    fetch_all(pair, "commits-g", &topic, None)?;
    pair.step("OffsetFetch of no partition");
    fetch_all(pair, "commits-g", &topic, Some(&[]))?;
    let absent = Topic { name: "commits-absent".into(), id: Both::same(Uuid::from_bytes([7; 16])) };
    pair.step("OffsetCommit to an absent topic");
    commit_all(pair, "commits-g", NOBODY, &absent, &[(0, 1, -1, None)])?;
    pair.step("OffsetFetch of an absent topic");
    fetch_all(pair, "commits-g", &absent, Some(&[0]))?;
    pair.step("OffsetFetch of several groups");
    for version in pair.versions::<OffsetFetchRequest>().into_iter().filter(|v| *v >= 8) {
        let request = topic.names().map(|names| {
            let of = |name| fetch(version, name, names, None, false).groups.remove(0);
            OffsetFetchRequest::default().with_groups(vec![
                of("commits-g"),
                of("commits-absent"),
                of("commits-g"),
            ])
        });
        pair.ask_each(version, &request)?;
        if version >= 9 {
            pair.step("OffsetFetch by an unknown member");
            let request = topic.names().map(|names| {
                let mut of = fetch(version, "commits-g", names, None, false);
                of.groups[0].member_id = Some(string("who"));
                of.groups[0].member_epoch = 3;
                of
            });
            pair.ask_each(version, &request)?;
            pair.step("OffsetFetch of several groups");
        }
    }

    for (what, name, topic, partitions) in [
        ("of an absent group", "commits-absent", "commits", &[0][..]),
        ("of an empty name", "", "commits", &[0]),
        ("of an absent topic", "commits-g", "commits-absent", &[0]),
        ("of a partition that is not there", "commits-g", "commits", &[0, 9]),
        ("of what has no commit", "commits-g", "commits", &[0]),
        ("of several", "commits-g", "commits", &[1, 2]),
        ("of nothing", "commits-g", "commits", &[]),
    ] {
        pair.step(format!("OffsetDelete {what}"));
        pair.ask_all(|_| delete(name, topic, partitions))?;
    }
    pair.step("OffsetFetch after OffsetDelete");
    fetch_all(pair, "commits-g", &topic, None)
}

fn coordinators(pair: &mut Pair) -> Result {
    for (what, key, kind) in [
        ("a group", "commits-g", 0),
        ("an empty group", "", 0),
        ("a transactional id", "commits-t", 1),
        ("an empty transactional id", "", 1),
        ("a share partition that is none", "what", 2),
        ("something unknown", "what", 9),
    ] {
        pair.step(format!("FindCoordinator of {what}"));
        for version in pair.versions::<FindCoordinatorRequest>() {
            if version == 0 && kind != 0 {
                continue;
            }
            let request = FindCoordinatorRequest::default();
            let request = if version >= 1 { request.with_key_type(kind) } else { request };
            let request = if version >= 4 {
                request.with_coordinator_keys(vec![string(key)])
            } else {
                request.with_key(string(key))
            };
            // The topic of the coordinators is made when it is asked for.
            pair.ask_until(version, &Both::same(request), |answer| {
                answer.error_code != 15
                    && answer.coordinators.iter().all(|found| found.error_code != 15)
            })?;
        }
    }
    pair.step("FindCoordinator of several groups");
    for version in pair.versions::<FindCoordinatorRequest>().into_iter().filter(|v| *v >= 4) {
        let keys = ["a", "b", "a"].map(string).to_vec();
        pair.ask(version, FindCoordinatorRequest::default().with_coordinator_keys(keys))?;
        pair.step("FindCoordinator of none");
        pair.ask(version, FindCoordinatorRequest::default())?;
        pair.step("FindCoordinator of several groups");
    }
    Ok(())
}
