//! Commits that a transaction of the source made whose records are not all on the target yet.
//!
//! Who reads, processes and writes in transactions (`sendOffsetsToTransaction`; exactly-once in Kafka
//! Streams) commits a position together with the results of what lies before it. The mirror carries
//! over both, each as soon as it can. In between the transaction is torn: after a failover the group
//! goes on behind input whose results are missing, and nobody makes them again.
//!
//! Only partitions that are behind are read, each up to a bound, and then the end of those partitions
//! of `__consumer_offsets` that hold the groups. A commit that lies further back there than
//! [`TAIL`] records is not judged.
//!
//! # What the log cannot tell
//!
//! Before transactions of version 2 (Kafka 4) all transactions of a producer carry one epoch: what it
//! committed behind the group's commit is then counted too.
//!
//! References: KIP-98, KIP-447 (offsets in transactions), KIP-890 (an epoch for each transaction).

use std::collections::{BTreeMap, BTreeSet};

use twinlog_client::{
    ClientError, ErrorCode, GroupKind, Isolation, OffsetSpec, PartitionReader, Topics,
};
use twinlog_flow::Standing;
use twinlog_mirror::formats::group_log::{CommitChange, partition_of};
use twinlog_mirror::replicates;
use twinlog_types::{Code, GroupId, Partition, State, TopicPartition};

use super::{FlowObservation, GroupPosition, LOOKS_AT_ONCE, Observer};
use crate::parallel::in_parallel;

/// The topic that groups commit to.
const LOG: &str = "__consumer_offsets";
/// So many offsets of the end of each of its partitions are read.
const TAIL: i64 = 10_000;
/// What is read of a partition that is behind, and of an answer.
const RANGE_BYTES: usize = 8 << 20;
const ANSWER_BYTES: i32 = 1 << 20;

/// A transaction as batches name it.
type Writer = (i64, i16);

/// What is committed on the source and not copied, by who wrote it: where the first of it is, and how
/// many records.
type Uncopied = BTreeMap<Writer, BTreeMap<TopicPartition, (i64, u64)>>;

/// The newest commits of a log, and the transaction that made each; `None`: no transaction did.
type Commits = BTreeMap<(GroupId, TopicPartition), (i64, Option<Writer>)>;

impl Observer {
    /// Names the positions that stand on the target although their transaction is torn.
    pub(super) async fn put_torn(&self, found: &mut FlowObservation) {
        let uncopied = self.uncopied(found).await;
        if uncopied.is_empty() {
            return;
        }
        let log = self.source.topics(Topics::Named(&[LOG.into()])).await.unwrap_or_default();
        let count = log.first().map_or(0, |log| log.partitions.len());
        let count = i32::try_from(count).unwrap_or(0);
        let there = found.groups.iter().filter(|group| {
            group.kind != GroupKind::Share && group.partitions.iter().any(is_there)
        });
        let numbers: BTreeSet<Partition> =
            there.filter_map(|group| partition_of(&group.group, count)).collect();
        let ends: Vec<_> = numbers
            .into_iter()
            .map(|number| TopicPartition::new(LOG, number))
            .flat_map(|tp| [(tp.clone(), OffsetSpec::Earliest), (tp, OffsetSpec::Latest)])
            .collect();
        let listed = self.source.list_offsets(&ends, Isolation::ReadCommitted).await;
        let listed = listed.unwrap_or_default();
        let read = listed.chunks(2).filter_map(|pair| {
            let [(tp, Ok(start)), (_, Ok(end))] = pair else { return None };
            let range = (start.offset.max(end.offset - TAIL), end.offset);
            Some(newest_commits(self.source.partition_reader(tp, range, Isolation::ReadCommitted)))
        });
        let mut commits = Commits::new();
        for read in in_parallel(LOOKS_AT_ONCE, read.collect()).await {
            commits.extend(read);
        }
        for group in &mut found.groups {
            for position in group.partitions.iter_mut().filter(|one| is_there(one)) {
                let tp = TopicPartition::new(position.topic.clone(), position.partition);
                let made = commits.get(&(group.group.clone(), tp));
                let Some((offset, Some(writer))) = made else { continue };
                if Some(*offset) != position.source_offset {
                    continue;
                }
                let Some(standing) = torn(&uncopied, *writer, *offset) else { continue };
                let name = format!("{}-{}", position.topic, position.partition);
                let reason = standing.reason.as_ref().map(|reason| format!("{name}: {reason}"));
                if group.standing.urgency() < standing.urgency() {
                    group.standing = Standing { reason, ..standing.clone() };
                }
                position.standing = standing;
            }
        }
    }

    /// What transactions wrote and the copy has not reached.
    async fn uncopied(&self, found: &FlowObservation) -> Uncopied {
        let mut behind = Vec::new();
        for topic in found.topics.iter().filter(|one| replicates(&self.config, one.topic.as_str()))
        {
            for one in &topic.partitions {
                let from = one.copied_to.or(one.source_start);
                if let (Some(from), Some(end)) = (from, one.source_end)
                    && from < end
                {
                    behind.push((
                        TopicPartition::new(topic.topic.clone(), one.partition),
                        from,
                        end,
                    ));
                }
            }
        }
        let read = behind.into_iter().map(|(tp, from, end)| {
            let reader = self.source.partition_reader(&tp, (from, end), Isolation::ReadCommitted);
            async move { (tp, written(reader.with_max_bytes(ANSWER_BYTES)).await) }
        });
        let mut uncopied = Uncopied::new();
        for (tp, written) in in_parallel(LOOKS_AT_ONCE, read.collect()).await {
            for (writer, range) in written {
                uncopied.entry(writer).or_default().insert(tp.clone(), range);
            }
        }
        uncopied
    }
}

/// Whether the target's group resumes at the commit, or behind it.
fn is_there(position: &GroupPosition) -> bool {
    let belongs = position.target_offset;
    belongs.is_some() && position.committed_target >= belongs
}

/// What transactions have committed in a range, by who wrote it. What cannot be read is left out: how
/// the partition stands says why.
async fn written(mut reader: PartitionReader) -> BTreeMap<Writer, (i64, u64)> {
    let mut found: BTreeMap<Writer, (i64, u64)> = BTreeMap::new();
    let mut bytes = 0;
    while bytes < RANGE_BYTES
        && let Some(stretch) = readable(reader.next().await)
    {
        for read in stretch.batches.iter().filter(|read| !read.aborted) {
            let head = read.batch.head();
            bytes += read.batch.bytes().len();
            if head.is_transactional() {
                let writer = (head.producer_id, head.producer_epoch);
                let first = head.base_offset.max(stretch.from);
                let (_, records) = found.entry(writer).or_insert((first, 0));
                *records += u64::try_from(head.record_count).unwrap_or(0);
            }
        }
    }
    found
}

/// The newest commit of every position in a part of the log.
async fn newest_commits(mut reader: PartitionReader) -> Commits {
    let mut commits = Commits::new();
    while let Some(stretch) = readable(reader.next().await) {
        for read in stretch.batches.iter().filter(|read| !read.aborted) {
            let head = read.batch.head();
            let writer = head.is_transactional().then_some((head.producer_id, head.producer_epoch));
            let Ok(records) = read.batch.records(twinlog_client::READ_BATCH_BYTES_MAX) else {
                continue;
            };
            for record in records.iter().filter(|record| record.offset >= stretch.from) {
                let decoded = CommitChange::decode(record.key.as_deref(), record.value.as_deref());
                let Ok(Some(change)) = decoded else { continue };
                let tp = TopicPartition::new(change.topic, change.partition);
                match change.commit {
                    Some(commit) => commits.insert((change.group, tp), (commit.offset, writer)),
                    None => commits.remove(&(change.group, tp)),
                };
            }
        }
    }
    commits
}

fn readable<T>(answer: Result<Option<T>, ClientError>) -> Option<T> {
    answer.unwrap_or_else(|error| {
        if error.code() != Some(ErrorCode::OFFSET_OUT_OF_RANGE) {
            tracing::debug!(%error, "looking for torn transactions ends early");
        }
        None
    })
}

/// How a position stands that a transaction committed; `None` where all that it wrote is there.
fn torn(uncopied: &Uncopied, (producer, epoch): Writer, offset: i64) -> Option<Standing> {
    let mut missing: BTreeMap<&TopicPartition, (i64, u64)> = BTreeMap::new();
    for partitions in uncopied.range((producer, i16::MIN)..=(producer, epoch)).map(|(_, it)| it) {
        for (tp, (first, records)) in partitions {
            let (before, sum) = missing.entry(tp).or_insert((*first, 0));
            *before = (*before).min(*first);
            *sum += records;
        }
    }
    let (tp, (first, _)) = missing.first_key_value()?;
    let records: u64 = missing.values().map(|(_, records)| records).sum();
    let more = match missing.len() {
        1 => String::new(),
        2 => " and 1 more partition".to_owned(),
        n => format!(" and {} more partitions", n - 1),
    };
    let reason = format!(
        "{offset} was committed in a transaction of producer {producer} that wrote {records} records \
         which are not on the target yet, from offset {first} of {tp}{more} on: after a failover now \
         the group goes on behind input whose results are missing"
    );
    Some(Standing::found(State::CatchingUp, Code::TornTransaction, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uncopied(entries: &[(Writer, &str, i64, u64)]) -> Uncopied {
        let mut all = Uncopied::new();
        for (writer, topic, first, records) in entries {
            let tp = TopicPartition::new(*topic, 0);
            all.entry(*writer).or_default().insert(tp, (*first, *records));
        }
        all
    }

    #[test]
    fn a_commit_is_torn_by_what_its_producer_wrote_up_to_its_transaction() {
        let all =
            uncopied(&[((7, 3), "out", 100, 5), ((7, 5), "out", 120, 5), ((8, 3), "out", 90, 1)]);
        assert_eq!(torn(&all, (7, 2), 60), None);
        assert_eq!(torn(&all, (9, 9), 60), None);
        let third = torn(&all, (7, 3), 60).unwrap();
        assert_eq!((third.state, third.code), (State::CatchingUp, Some(Code::TornTransaction)));
        assert!(third.reason.unwrap().contains("5 records"));
        let reason = torn(&all, (7, 5), 60).unwrap().reason.unwrap();
        assert!(
            reason.contains("10 records") && reason.contains("offset 100 of out-0"),
            "{reason}"
        );
    }

    #[test]
    fn several_partitions_are_counted_together() {
        let all = uncopied(&[((7, 3), "a", 10, 5), ((7, 3), "b", 20, 2)]);
        let reason = torn(&all, (7, 3), 60).unwrap().reason.unwrap();
        assert!(reason.contains("7 records") && reason.contains("1 more partition"), "{reason}");
    }
}
