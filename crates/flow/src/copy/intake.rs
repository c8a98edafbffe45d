//! From fetched bytes to batches that can be sent: what is passed, re-encoded, split or dropped.

use std::collections::BTreeSet;

use twinlog_batch::{Batch, Codec, Control, Record, batches, encoded_size_estimate, split};
use twinlog_offsets::RunStart;
use twinlog_types::{Code, Planted, ProducerId, SourceOffset, planted, planted_every};

use super::{Content, Copier, Fetched, Keep, Pending, Phase, Stop};

/// The aborted transactions of one fetched range, as the batches are walked in order.
struct Aborted {
    upcoming: std::vec::IntoIter<(ProducerId, SourceOffset)>,
    next: Option<(ProducerId, SourceOffset)>,
    open: BTreeSet<ProducerId>,
}

impl Aborted {
    fn new(mut list: Vec<(ProducerId, SourceOffset)>) -> Self {
        // Brokers differ in the order of the list.
        list.sort_by_key(|&(_, first)| first);
        let mut upcoming = list.into_iter();
        let next = upcoming.next();
        Self { upcoming, next, open: BTreeSet::new() }
    }

    /// Whether `batch` belongs to an aborted transaction.
    fn covers(&mut self, batch: &Batch) -> bool {
        let head = batch.head();
        while let Some((producer, first)) = self.next
            && first.0 <= head.last_offset()
            && !(planted(Planted::CopiesAborted) && first.0 >= head.base_offset)
        {
            self.open.insert(producer);
            self.next = self.upcoming.next();
        }
        if head.is_control() {
            if batch.control() == Some(Control::Abort) {
                self.open.remove(&head.producer_id);
            }
            return false;
        }
        head.is_transactional() && self.open.contains(&head.producer_id)
    }
}

impl Copier {
    /// Takes in what was fetched from [`Copier::wants_fetch`]. Returns how many records were
    /// queued.
    ///
    /// A batch that fails its checksum or cannot be decoded stops the partition in front of it;
    /// what came before it stays to be copied.
    pub fn fetched(&mut self, fetched: Fetched) -> u64 {
        // An answer to a fetch from before a cut would look like a hole. What comes once the end is
        // decided would be copied beyond the stretch that the stop names.
        let expected = self.phase == Phase::Copy && self.wants_original().is_none();
        if !expected || fetched.from != self.fetch_position || self.ends.is_some() {
            return 0;
        }
        let before = self.planned_count;
        let drop_aborted = self.setup.drop_aborted;
        let mut aborted = Aborted::new(if drop_aborted { fetched.aborted } else { Vec::new() });
        for batch in batches(fetched.records) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    self.corrupt(&error.to_string());
                    break;
                }
            };
            let aborted = aborted.covers(&batch);
            let next = SourceOffset(batch.head().next_offset());
            if next <= self.fetch_position {
                // The answer begins with the batch that contains the asked offset, and with
                // compaction that may be one that ends in front of it.
                continue;
            }
            let epoch = batch.head().leader_epoch;
            let data = !aborted
                && !batch.head().is_control()
                && batch.head().record_count > 0
                && !planted_every(Planted::DropsRecords, 10);
            let hole = batch.head().base_offset > self.fetch_position.0;
            if hole && planted(Planted::HoleAsLoss) {
                self.source_gap(SourceOffset(batch.head().base_offset));
                break;
            }
            if data && let Err(stop) = self.take_in(batch, &fetched.keep) {
                self.stop_behind_pending(stop);
                break;
            }
            self.fetch_position = next;
            self.fetch_epoch = epoch;
        }
        if self.pending.is_empty() && self.phase == Phase::Copy {
            self.rest();
        }
        self.planned_count.saturating_sub(before)
    }

    /// Whether it holds as much as it may, and copies.
    pub fn is_full(&self) -> bool {
        self.phase == Phase::Copy && self.queue_bytes >= self.setup.limits.queue_bytes
    }

    /// Nothing waits: everything before the fetch position is done with.
    pub(super) fn rest(&mut self) {
        self.map.acknowledge(self.planned_count, self.fetch_position);
        self.acknowledged_epoch = self.fetch_epoch;
    }

    fn corrupt(&mut self, error: &str) {
        let position = self.fetch_position;
        self.stop_behind_pending(Stop {
            code: Code::CorruptBatch,
            reason: format!(
                "{}: the batch at source offset {position} cannot be read: {error}",
                self.setup.source_topic
            ),
            range: Some((position, position)),
            passing: true,
        });
    }

    fn take_in(&mut self, batch: Batch, keep: &Keep) -> Result<(), Stop> {
        let head = *batch.head();
        let limits = &self.setup.limits;
        let codec = head.codec().map_err(|error| self.undecodable(&error.to_string()))?;
        let target_codec = self.setup.recompress.unwrap_or(codec);
        let passes = head.is_dense()
            && head.base_offset >= self.fetch_position.0
            && (!head.is_append_time() || planted(Planted::LosesAppendTime))
            && !head.has_delete_horizon()
            && codec == target_codec
            && batch.bytes().len() <= limits.batch_bytes
            && head.record_count.unsigned_abs() <= limits.batch_records;
        if passes {
            let first = SourceOffset(head.base_offset);
            let count = head.record_count.unsigned_abs();
            let bytes = batch.bytes().len();
            self.plan_run(first, u64::from(count));
            self.push(Content::Pass(batch), count, bytes, &head, keep);
            return Ok(());
        }
        let mut records = batch
            .records(limits.decode_bytes)
            .map_err(|error| self.undecodable(&error.to_string()))?;
        records.retain(|record| record.offset >= self.fetch_position.0);
        if planted(Planted::EmptyBecomesNull) {
            records.iter_mut().for_each(collapse);
        }
        self.take_in_records(&records, target_codec, &head, keep);
        Ok(())
    }

    fn undecodable(&self, error: &str) -> Stop {
        Stop {
            code: Code::CorruptBatch,
            reason: format!(
                "{}: the batch at source offset {} cannot be decoded: {error}",
                self.setup.source_topic, self.fetch_position
            ),
            range: Some((self.fetch_position, self.fetch_position)),
            passing: true,
        }
    }

    fn take_in_records(
        &mut self,
        records: &[Record],
        codec: Codec,
        head: &twinlog_batch::Head,
        keep: &Keep,
    ) {
        let limits = &self.setup.limits;
        // A batch that compresses is allowed four times the limit at first: the target's refusal
        // cuts it further.
        let headroom = if codec == Codec::None { 1 } else { 4 };
        let bytes_max = limits.batch_bytes.saturating_mul(headroom);
        for chunk in split(records, bytes_max, limits.batch_records as usize) {
            let chunk = chunk.to_vec();
            let bytes = encoded_size_estimate(&chunk);
            for record in &chunk {
                self.plan_run(SourceOffset(record.offset), 1);
                self.planned_count += 1;
            }
            let count = chunk.len() as u32;
            self.planned_count -= u64::from(count);
            self.push(Content::Records(chunk, codec), count, bytes, head, keep);
        }
    }

    /// The next `records` lie at `source`, without a hole between them: a run begins there unless
    /// the newest one reaches up to it.
    fn plan_run(&mut self, source: SourceOffset, records: u64) {
        let count = self.planned_count;
        let continues =
            self.map.last().is_some_and(|last| last.source.plus(count - last.count) == source);
        let mut planned_before = false;
        if let Some(former) = self.former.front() {
            if former.count == count && former.source == source {
                planned_before = true;
                self.former.pop_front();
            }
            let hole = self.former.front().is_some_and(|former| former.count < count + records);
            if hole || !(continues || planned_before) {
                self.former_plan_ends();
            }
        }
        if !continues || planned_before {
            let target = self.target_of_planned();
            self.map.plan(RunStart { count, source, target });
        }
    }

    fn push(
        &mut self,
        content: Content,
        count: u32,
        bytes: usize,
        head: &twinlog_batch::Head,
        keep: &Keep,
    ) {
        let next_source = match &content {
            Content::Pass(_) => SourceOffset(head.next_offset()),
            Content::Records(records, _) => {
                SourceOffset(records.last().map_or(head.last_offset(), |last| last.offset) + 1)
            }
        };
        self.pending.push_back(Pending {
            content,
            base_count: self.planned_count,
            count,
            next_source,
            source_epoch: head.leader_epoch,
            runs_needed: self.map.runs(),
            bytes,
            outgoing: None,
            settled: false,
            too_large: false,
            part: false,
            keep: vec![keep.clone()],
        });
        self.planned_count += u64::from(count);
        self.queue_bytes += bytes;
    }
}

/// What [`Planted::EmptyBecomesNull`] does to a record.
fn collapse(record: &mut Record) {
    record.value.take_if(|value| value.is_empty());
    record.headers.dedup_by(|second, first| second.key == first.key);
}
