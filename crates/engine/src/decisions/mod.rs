//! Operators' decisions: a small compacted topic beside the state, `mm2-twinlog.<source>.decisions.internal`.
//!
//! Commands leave plain records in it; who runs the flow follows it, carries decisions out and
//! answers in the state. The topic is made with the first decision; without one there is none.
//!
//! Does not: write the state. Its transactional ids belong to the owner of the flow, and opening one
//! would fence it.
//!
//! # Invariants
//!
//! 1. Of several decisions about one subject the last one in the log counts, whoever made it: two
//!    operators that decide at once have one order, and every owner sees the same.
//! 2. A pause holds for as long as no later decision ends it: it needs no answer, and outlives every
//!    process.
//! 3. What is done once (going on behind a loss, overwriting a position) names what was seen when it
//!    was decided. Anything else by then makes it void; so an owner that was killed between doing
//!    and answering does nothing twice.

mod owner;

use std::collections::BTreeMap;

use twinlog_batch::Record;
use twinlog_client::{ClientError, Cluster, Isolation, Topics};
use twinlog_mirror::FlowConfig;
use twinlog_offsets::state::{Decided, Made, Pair, StateKey, StateRecord, Subject};
use twinlog_types::{ClusterAlias, ClusterId, TopicName, TopicPartition};

use crate::internal;

pub(crate) use owner::{Wishes, answer_to, run};

/// The topic of the decisions about everything mirrored from `source`.
pub fn topic_name(source: &ClusterAlias) -> TopicName {
    TopicName::from(format!("mm2-twinlog.{source}.decisions.internal"))
}

/// The decisions that count.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// By subject, each with its place in the log.
    made: BTreeMap<Subject, (i64, Made)>,
    /// Where reading goes on.
    next: i64,
}

impl Decisions {
    /// What was decided about a subject.
    pub fn about(&self, subject: &Subject) -> Option<&Made> {
        self.made.get(subject).map(|(_, made)| made)
    }

    /// All of them, by subject.
    pub fn all(&self) -> impl Iterator<Item = (&Subject, &Made)> {
        self.made.iter().map(|(subject, (_, made))| (subject, made))
    }

    /// The decision that pauses a partition: the later one of those about it and about its topic.
    pub fn pause_of(&self, partition: &TopicPartition) -> Option<&Made> {
        let topic = partition.topic.clone();
        let whole = self.made.get(&Subject::Topic(topic.clone(), None));
        let own = self.made.get(&Subject::Topic(topic, Some(partition.partition)));
        let (_, made) = whole.into_iter().chain(own).max_by_key(|(at, _)| *at)?;
        (made.what == Decided::Pause).then_some(made)
    }

    fn take(&mut self, pair: &(ClusterId, ClusterId), record: &Record) {
        let (key, value) = (record.key.as_deref().unwrap_or_default(), record.value.as_deref());
        match StateRecord::decode(key, value) {
            Ok(Some(StateRecord::Decision(of, subject, made))) if is_of(&of, pair) => {
                self.made.insert(subject, (record.offset, made));
            }
            Ok(None) => {
                if let Ok(StateKey::Decision(of, subject)) = StateKey::decode(key)
                    && is_of(&of, pair)
                {
                    self.made.remove(&subject);
                }
            }
            Ok(Some(_)) => {}
            // One that cannot be read is none: nothing is done that nobody can read.
            Err(error) => {
                tracing::warn!(offset = record.offset, %error, "a decision cannot be read");
            }
        }
    }

    /// Reads what was decided since the last time. Answers whether anything was.
    ///
    /// # Errors
    ///
    /// When the target cannot be read. A topic that does not exist holds no decision.
    pub(crate) async fn read_on(
        &mut self,
        target: &Cluster,
        source: &ClusterAlias,
        pair: &(ClusterId, ClusterId),
    ) -> Result<bool, ClientError> {
        let topic = topic_name(source);
        if self.next == 0 {
            let listed = target.topics(Topics::Named(std::slice::from_ref(&topic))).await?;
            if !listed.first().is_some_and(|topic| topic.error.is_ok()) {
                return Ok(false);
            }
        }
        let tp = TopicPartition { topic, partition: 0 };
        let before = self.next;
        let mut taken = false;
        let next = target
            .read_partition_each(&tp, before, Isolation::ReadUncommitted, |record| {
                taken = true;
                self.take(pair, &record);
            })
            .await?;
        self.next = next;
        Ok(taken)
    }
}

fn is_of(of: &Pair, pair: &(ClusterId, ClusterId)) -> bool {
    of.source_cluster == pair.0 && of.target_cluster == pair.1
}

/// Leaves decisions, acknowledged by all replicas.
///
/// # Errors
///
/// When the target refuses them or cannot be reached; then it is not known whether they count.
pub(crate) async fn leave(
    target: &Cluster,
    config: &FlowConfig,
    pair: &(ClusterId, ClusterId),
    decisions: &[(Subject, Made)],
) -> Result<(), ClientError> {
    let topic = topic_name(&config.name.source);
    let factor = config.offset_syncs_topic_replication_factor;
    internal::ensure_compacted(target, &topic, factor).await?;
    let of = Pair { source_cluster: pair.0.clone(), target_cluster: pair.1.clone() };
    let records: Vec<Record> = decisions
        .iter()
        .map(|(subject, made)| {
            let record = StateRecord::Decision(of.clone(), subject.clone(), made.clone());
            let (key, value) = record.encode();
            Record {
                offset: 0,
                timestamp: made.at_ms,
                key: Some(key),
                value: Some(value),
                headers: Vec::new(),
            }
        })
        .collect();
    let tp = TopicPartition { topic, partition: 0 };
    target.produce_plain(&tp, &records).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (ClusterId, ClusterId) {
        ("A".into(), "B".into())
    }

    fn record(offset: i64, source: &str, subject: Subject, what: Decided) -> Record {
        let of = Pair { source_cluster: source.into(), target_cluster: "B".into() };
        let made = Made { by: format!("{offset}"), at_ms: 0, what };
        let (key, value) = StateRecord::Decision(of, subject, made).encode();
        Record { offset, timestamp: 0, key: Some(key), value: Some(value), headers: Vec::new() }
    }

    #[test]
    fn the_later_decision_about_a_partition_or_its_topic_counts() {
        let topic = |partition| Subject::Topic("orders".into(), partition);
        let resume = || Decided::Resume { accepted: Vec::new() };
        let mut decisions = Decisions::default();
        let paused = |decisions: &Decisions| {
            [0, 1].map(|partition| {
                let tp = TopicPartition::new("orders", partition);
                decisions.pause_of(&tp).map(|made| made.by.clone())
            })
        };
        assert_eq!(paused(&decisions), [None, None]);
        decisions.take(&pair(), &record(0, "A", topic(None), Decided::Pause));
        assert_eq!(paused(&decisions), [Some("0".to_owned()), Some("0".to_owned())]);
        decisions.take(&pair(), &record(1, "A", topic(Some(1)), resume()));
        assert_eq!(paused(&decisions), [Some("0".to_owned()), None]);
        decisions.take(&pair(), &record(2, "A", topic(None), resume()));
        decisions.take(&pair(), &record(3, "A", topic(Some(0)), Decided::Pause));
        assert_eq!(paused(&decisions), [Some("3".to_owned()), None]);
        // Another pair of clusters is another flow, and what cannot be read is no decision.
        decisions.take(&pair(), &record(4, "X", topic(Some(0)), resume()));
        let mut damaged = record(5, "A", topic(Some(0)), resume());
        damaged.value = damaged.value.map(|value| value.slice(1..));
        decisions.take(&pair(), &damaged);
        assert_eq!(paused(&decisions), [Some("3".to_owned()), None]);
    }
}
