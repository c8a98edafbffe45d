//! Two embedded clusters, an engine between them, and a judge that knows neither map nor copier.

use std::collections::BTreeMap;
use std::ops::Deref;

use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions, Isolation, NewRecord, Record};

pub(crate) use twinlog_worlds::until;

/// Records whose keys and values tell them apart.
pub(crate) fn numbered(from: usize, to: usize) -> Vec<NewRecord> {
    (from..to).map(|n| NewRecord::new(format!("k{n}"), format!("v{n}"))).collect()
}

pub(crate) struct World(twinlog_worlds::World);

impl Deref for World {
    type Target = twinlog_worlds::World;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl World {
    pub(crate) fn new(seed: u64, brokers: i32) -> Self {
        Self::with(seed, brokers, |_, _| {})
    }

    /// With a source and a target that are set up otherwise.
    pub(crate) fn with(
        seed: u64,
        brokers: i32,
        change: impl FnOnce(&mut EmbeddedOptions, &mut EmbeddedOptions),
    ) -> Self {
        if let Ok(filter) = std::env::var("TWINLOG_LOG") {
            // Said once for all tests of the process.
            let _ = tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_ansi(false)
                .with_writer(std::io::stderr)
                .try_init();
        }
        let several = |options: &mut EmbeddedOptions| {
            *options = std::mem::replace(options, EmbeddedOptions::new("")).with_brokers(brokers);
        };
        Self(twinlog_worlds::World::with(seed, |source, target| {
            several(source);
            several(target);
            change(source, target);
        }))
    }

    /// Two clusters that are there.
    pub(crate) fn between(seed: u64, source: EmbeddedCluster, target: EmbeddedCluster) -> Self {
        Self(twinlog_worlds::World::between(seed, source, target))
    }

    /// Without the lines of every file that say something of this key.
    pub(crate) fn not_saying(self, key: &str) -> Self {
        Self(self.0.not_saying(key))
    }

    pub(crate) fn source_records(&self, topic: &str, partition: i32) -> Vec<Record> {
        self.source.records(topic, partition, Isolation::ReadCommitted)
    }

    pub(crate) fn target_records(&self, topic: &str, partition: i32) -> Vec<Record> {
        let mirror = mirror(topic);
        if self.target.topics().contains(&mirror) {
            self.target.records(&mirror, partition, Isolation::ReadCommitted)
        } else {
            Vec::new()
        }
    }

    /// What differs between a partition and its mirror; nothing when it is faithful.
    pub(crate) fn difference(&self, topic: &str, partition: i32) -> Option<String> {
        let source = self.source_records(topic, partition);
        let target = self.target_records(topic, partition);
        let content = |record: &Record| {
            (record.key.clone(), record.value.clone(), record.headers.clone(), record.timestamp)
        };
        let unequal = source.iter().zip(&target).position(|(s, t)| content(s) != content(t));
        if let Some(at) = unequal {
            return Some(format!(
                "{topic}-{partition}: record {at} differs: source {:?} target {:?}",
                source[at], target[at]
            ));
        }
        (source.len() != target.len()).then(|| {
            format!("{topic}-{partition}: {} records, {} copied", source.len(), target.len())
        })
    }

    /// Where a group that stands at `committed` must stand on the target, by contents alone.
    pub(crate) fn expected(&self, topic: &str, partition: i32, committed: i64) -> i64 {
        let source = self.source_records(topic, partition);
        let target = self.target_records(topic, partition);
        match source.iter().position(|record| record.offset >= committed) {
            Some(at) => target[at].offset,
            None => target.last().map_or(0, |last| last.offset + 1),
        }
    }

    pub(crate) fn committed_on_target(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> Option<i64> {
        self.target.committed(group, &mirror(topic), partition)
    }

    /// Waits until every partition of these topics is faithful.
    pub(crate) async fn until_equal(&self, topics: &BTreeMap<String, i32>) {
        until("the mirror is faithful", || {
            topics.iter().find_map(|(topic, partitions)| {
                (0..*partitions).find_map(|partition| self.difference(topic, partition))
            })
        })
        .await;
    }
}

fn mirror(topic: &str) -> String {
    format!("hello.{topic}")
}
