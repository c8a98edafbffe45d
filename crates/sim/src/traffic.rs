//! What the writers and the consumer groups of the source do.

use bytes::Bytes;
use twinlog_embedded::{NewRecord, SourceTransaction};

use crate::oracle::{Fate, NUMBER, Place};
use crate::run::{Position, Simulation};
use crate::world::mirror;

/// Two partitions that nothing special happens to.
pub(crate) const PLAIN: &str = "plain";
/// One partition that is written in transactions.
pub(crate) const TX: &str = "tx";
/// One partition that is compacted, on both sides.
pub(crate) const KEYED: &str = "keyed";
/// One partition with append times, which begins late.
pub(crate) const STAMPED: &str = "stamped";
/// Two partitions that lose records.
pub(crate) const TORN: &str = "torn";
/// One partition that is deleted and made again.
pub(crate) const AGAIN: &str = "again";

/// Milliseconds of three days: longer than brokers remember a producer.
const OLD_MS: i64 = 3 * 86_400_000;

/// A transaction that is not ended.
pub(crate) struct OpenTransaction {
    transaction: SourceTransaction,
    base: i64,
    count: usize,
}

impl Simulation {
    /// Makes the topics of the source.
    pub(crate) fn make_topics(&mut self) {
        let source = self.world.source.clone();
        let mut make = |topic: &str, partitions: i32, configs: &[(&str, &str)]| {
            source.create_topic(topic, partitions, configs).expect("a new topic");
            for partition in 0..partitions {
                let log = self.logs.entry((topic.to_owned(), partition)).or_default();
                log.compacted = topic == KEYED;
            }
        };
        make(PLAIN, 2, &[]);
        make(TX, 1, &[]);
        make(KEYED, 1, &[("cleanup.policy", "compact")]);
        make(STAMPED, 1, &[("message.timestamp.type", "LogAppendTime")]);
        make(TORN, 2, &[]);
        make(AGAIN, 1, &[]);
        source.begin_at(STAMPED, 0, 1_000).expect("an empty partition");
    }

    /// Some writer writes a batch.
    pub(crate) fn write(&mut self) {
        let place = match self.random.below(12) {
            0..=3 => (PLAIN.to_owned(), self.random.below(2) as i32),
            4..=6 => return self.write_in_transaction(),
            7 | 8 => (KEYED.to_owned(), 0),
            9 => (STAMPED.to_owned(), 0),
            10 => (TORN.to_owned(), self.random.below(2) as i32),
            _ => (AGAIN.to_owned(), 0),
        };
        self.write_to(&place);
    }

    /// One batch of up to twenty records.
    pub(crate) fn write_to(&mut self, place: &Place) {
        let records = self.records(place);
        let codec = *self
            .random
            .pick(&["none", "none", "gzip", "snappy", "lz4", "zstd"])
            .unwrap_or(&"none");
        let now_ms = self.world.source.now_ms();
        let (topic, partition) = place;
        if !self.writable(topic, *partition) {
            return;
        }
        if let Ok(base) = self.world.source.append_compressed(topic, *partition, &records, codec) {
            self.acknowledged(place, base, &records, now_ms, Fate::Committed);
        }
    }

    fn acknowledged(
        &mut self,
        place: &Place,
        base: i64,
        records: &[NewRecord],
        ms: i64,
        fate: Fate,
    ) {
        let stamped = place.0 == STAMPED;
        let log = self.logs.entry(place.clone()).or_default();
        let records: Vec<NewRecord> = records
            .iter()
            .map(|record| NewRecord {
                timestamp: if stamped { Some(ms) } else { record.timestamp },
                ..record.clone()
            })
            .collect();
        log.acknowledged(base, &records, ms, fate);
        self.counts.add("records written", records.len() as u64);
    }

    fn write_in_transaction(&mut self) {
        let place = (TX.to_owned(), 0);
        if !self.writable(TX, 0) {
            return;
        }
        let records = self.records(&place);
        let mut transaction = self.world.source.begin_transaction();
        let now_ms = self.world.source.now_ms();
        let appended = self.world.source.append_in(&mut transaction, TX, 0, &records);
        let Ok(base) = appended else { return };
        self.acknowledged(&place, base, &records, now_ms, Fate::Open);
        self.open.push(OpenTransaction { transaction, base, count: records.len() });
        // Most end at once, some stay open behind others.
        if !self.random.one_in(4) {
            self.end_transaction();
        }
    }

    /// Ends one of the open transactions. Answers whether there is none left that can be ended.
    pub(crate) fn end_transaction(&mut self) -> bool {
        if self.open.is_empty() || !self.writable(TX, 0) {
            return true;
        }
        let at = self.random.below(self.open.len() as u64) as usize;
        let OpenTransaction { transaction, base, count } = self.open.remove(at);
        let commit = !self.random.one_in(3);
        if self.world.source.end_transaction(transaction.clone(), commit).is_err() {
            self.open.push(OpenTransaction { transaction, base, count });
            return true;
        }
        let fate = if commit { Fate::Committed } else { Fate::Aborted };
        self.logs.entry((TX.to_owned(), 0)).or_default().decided(base, count, fate);
        self.counts.note(if commit { "transactions committed" } else { "transactions aborted" });
        false
    }

    fn records(&mut self, place: &Place) -> Vec<NewRecord> {
        let count = 1 + self.random.below(20);
        let old = if self.random.one_in(2) { OLD_MS } else { 0 };
        let at = self.world.source.now_ms() - old;
        (0..count).map(|_| self.record(place, at)).collect()
    }

    fn record(&mut self, place: &Place, at: i64) -> NewRecord {
        let log = self.logs.entry(place.clone()).or_default();
        let number = log.number();
        let key = (log.compacted || !self.random.one_in(6))
            .then(|| Bytes::from(format!("k{}", self.random.below(11))));
        let value = match self.random.below(8) {
            0 => None,
            1 => Some(Bytes::new()),
            2 => Some(Bytes::from("x".repeat(1_000 + self.random.below(2_000) as usize))),
            _ => Some(Bytes::from(format!("{}/{}/{number}", place.0, place.1))),
        };
        let mut record = NewRecord { key, value, headers: Vec::new(), timestamp: Some(at) }
            .header(NUMBER, Some(&number.to_string()));
        if self.random.one_in(3) {
            // Order, repeats, null and empty are kept.
            record = record.header("h", Some("1")).header("h", None).header("h", Some(""));
        }
        record
    }

    /// Some group commits on the source, or its consumers on the target do.
    pub(crate) fn commit(&mut self) {
        let places: Vec<Place> = [(PLAIN, 0), (PLAIN, 1), (TX, 0), (KEYED, 0), (STAMPED, 0)]
            .map(|(topic, partition)| (topic.to_owned(), partition))
            .to_vec();
        let Some(place) = self.random.pick(&places).cloned() else { return };
        let group =
            *self.random.pick(&["g0", "g1", "g2", "back", "ahead", "live"]).unwrap_or(&"g0");
        match group {
            "ahead" if self.random.one_in(2) => self.commit_on_target(group, &place),
            _ => self.commit_on_source(group, &place),
        }
    }

    fn commit_on_source(&mut self, group: &str, place: &Place) {
        let (topic, partition) = place;
        let end = self.world.source.log_end(topic, *partition);
        let start = self.world.source.log_start(topic, *partition);
        let key = (group.to_owned(), place.clone());
        let before = self.positions.get(&key).and_then(Position::newest).unwrap_or(start);
        // Only this group goes back, and its position on the target with it, as nobody else moves it.
        let from = if group == "back" && self.random.one_in(2) { start } else { before };
        let span = (end - from + 1).max(1) as u64;
        let mut position = from + self.random.below(span) as i64;
        if self.random.one_in(4) {
            position = end;
        }
        if self.world.source.commit_offset(group, topic, *partition, position).is_ok() {
            let now = tokio::time::Instant::now();
            self.positions.entry(key).or_default().source.push((now, position));
            self.counts.note("group commits");
        }
    }

    /// The target's own consumers read on.
    fn commit_on_target(&mut self, group: &str, place: &Place) {
        let (topic, partition) = place;
        let end = self.world.target.log_end(&mirror(topic), *partition);
        if end < 0 {
            return;
        }
        self.look();
        let key = (group.to_owned(), place.clone());
        let position = self.positions.entry(key).or_default();
        let before = position.target.unwrap_or(0);
        let offset = before + self.random.below((end - before + 1).max(1) as u64) as i64;
        self.world.target.commit_offset_as_member(group, &mirror(topic), *partition, offset, "");
        position.target = Some(offset);
        position.theirs = position.theirs.max(Some(offset));
        self.counts.note("commits by the target's own consumers");
    }
}
