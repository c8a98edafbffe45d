//! Sending: which batch goes next, merged or split, and what an answer means.

use twinlog_batch::{BatchError, Codec, Outgoing, Record, encode, pass};
use twinlog_offsets::RunStart;
use twinlog_types::{Code, Cut, Planted, Sequence, TargetOffset, planted};

use super::{Content, Copier, Pending, Phase, Stop};

/// As many small batches in a row are merged.
const MERGE_MIN: usize = 4;

/// A batch to be sent now. `ticket` names it in [`Copier::answered`].
#[derive(Clone, Debug)]
pub struct Sending {
    /// The number of its first record among all records copied.
    pub ticket: u64,
    /// The batch.
    pub batch: Outgoing,
}

/// What became of one sent batch, as far as its answer tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Appended and replicated, or recognised as the duplicate of a batch that is.
    Stored {
        /// Where its first record lies.
        base: TargetOffset,
    },
    /// It may be there or not (codes 6, 7, 19, 45, a lost connection): look.
    Unclear,
    /// Refused as a whole for its size.
    TooLarge,
    /// Refused; the same bytes would be refused again.
    Refused(Stop),
}

impl Copier {
    /// The next batch to send, unless nothing may be sent now.
    pub fn next_send(&mut self) -> Option<Sending> {
        if self.phase != Phase::Copy
            || self.must_store
            || self.sent >= if self.fenced { self.setup.limits.unacknowledged } else { 1 }
        {
            return None;
        }
        let next = self.pending.get(self.sent)?;
        if next.runs_needed > self.durable.runs() {
            return None;
        }
        if self.sends_since.is_some_and(|since| next.content.newest_ms() < since) {
            return None;
        }
        if next.outgoing.is_none() {
            self.merge_small();
        }
        let mut cut = self.cut_of(self.sent)?;
        let pending = self.pending.get_mut(self.sent)?;
        if planted(Planted::NewSequenceOnRetry) && pending.outgoing.take().is_some() {
            cut = Cut {
                producer_epoch: cut.producer_epoch + 1,
                base_sequence: Sequence::of_count(0),
                ..cut
            };
        }
        let outgoing = pending.outgoing.get_or_insert_with(|| match &pending.content {
            Content::Pass(batch) => pass(batch, cut),
            Content::Records(records, codec) => encode(records, *codec, cut),
        });
        let sending = Sending { ticket: pending.base_count, batch: outgoing.clone() };
        pending.settled = false;
        self.sent += 1;
        Some(sending)
    }

    /// Whether [`Copier::next_send`] would give a batch once the state is durable, or does now.
    pub fn has_unsent(&self) -> bool {
        self.phase == Phase::Copy && self.pending.len() > self.sent
    }

    /// How often batches were left on their way that nobody will answer: of a lost connection, and of
    /// a former owner. A look finds them once they have arrived, and not before.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Sends only batches with a record of this time or a later one, for as long as older ones must
    /// wait: a leader may forget our producer with them, and take a late packet for something new.
    pub fn send_only_since(&mut self, newest_ms: Option<i64>) {
        self.sends_since = newest_ms;
    }

    /// Batches that are sent and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.sent
    }

    fn cut_of(&self, index: usize) -> Option<Cut> {
        let pending = self.pending.get(index)?;
        Some(Cut {
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            base_sequence: Sequence::of_count(pending.base_count),
            count: pending.count,
        })
    }

    /// Makes one batch of the small ones at the front of what is unsent, if there is a backlog of
    /// them: a broker takes one batch per partition and request, so small ones cost a round trip
    /// each.
    fn merge_small(&mut self) {
        let limits = &self.setup.limits;
        let bytes_max = limits.merge_to.min(limits.batch_bytes);
        let mut bytes = 0;
        let mut records = 0;
        let mut merged = 0;
        let mut codec = None;
        for pending in self.pending.iter().skip(self.sent) {
            let fits = pending.bytes < limits.merge_below
                && bytes + pending.bytes <= bytes_max
                && records + pending.count <= limits.batch_records
                && pending.runs_needed <= self.durable.runs()
                && pending.outgoing.is_none()
                && !pending.part
                && pending.content.codec().is_some_and(|own| *codec.get_or_insert(own) == own);
            if !fits {
                break;
            }
            bytes += pending.bytes;
            records += pending.count;
            merged += 1;
        }
        // Two or three in a row are not a backlog: decoding them would cost more than a request.
        let Some(codec) = codec.filter(|_| merged >= MERGE_MIN) else { return };
        let mut all: Vec<Record> = Vec::with_capacity(records as usize);
        for (index, pending) in self.pending.iter().skip(self.sent).take(merged).enumerate() {
            // It passed its checksum; if it cannot be decoded, or is large once it is, it travels
            // as it is.
            let Ok(mut part) = pending.content.records(bytes_max) else {
                merged = index;
                break;
            };
            all.append(&mut part);
        }
        if merged < MERGE_MIN {
            return;
        }
        let mut parts = self.pending.drain(self.sent..self.sent + merged);
        let Some(mut first) = parts.next() else { return };
        for part in parts {
            first.count += part.count;
            first.bytes += part.bytes;
            first.next_source = part.next_source;
            first.source_epoch = part.source_epoch;
            first.runs_needed = part.runs_needed;
            first.keep.extend(part.keep);
        }
        first.content = Content::Records(all, codec);
        self.pending.insert(self.sent, first);
    }

    /// An answer to the batch `ticket`. Answers to batches that are no longer waited for are
    /// ignored.
    pub fn answered(&mut self, ticket: u64, answer: Answer) {
        if let Some(index) = self.given_up.iter().position(|&given_up| given_up == ticket) {
            self.given_up.swap_remove(index);
            return;
        }
        let Some(index) =
            self.pending.iter().take(self.sent).position(|pending| pending.base_count == ticket)
        else {
            return;
        };
        self.pending[index].settled = true;
        match answer {
            Answer::Stored { base } if index == 0 && self.phase == Phase::Copy => {
                self.stored_at(base);
            }
            // Out of order, or after an unclear one: only the tail tells.
            Answer::Stored { .. } | Answer::Unclear => self.look_first(),
            Answer::TooLarge => {
                self.pending[index].too_large = true;
                self.look_first();
            }
            Answer::Refused(stop) => {
                if index == 0 {
                    self.stop(stop);
                } else {
                    // The ones before it are still open; the look sends it again, as the first.
                    self.look_first();
                }
            }
        }
    }

    /// The connection is gone: what was sent on it is unclear. Where nothing was, the leader may
    /// come back without what it acknowledged.
    pub fn lost(&mut self) {
        let unanswered = self.pending.iter().take(self.sent).any(|pending| !pending.settled);
        self.strays += u64::from(unanswered || !self.given_up.is_empty());
        self.given_up.clear();
        for pending in self.pending.iter_mut().take(self.sent) {
            pending.settled = true;
        }
        self.look_first();
    }

    /// The target's tail must be looked at before anything more is sent.
    pub fn look_first(&mut self) {
        if self.phase == Phase::Copy {
            self.phase = Phase::Look;
        }
    }

    /// The oldest sent batch lies at `base`.
    fn stored_at(&mut self, base: TargetOffset) {
        let Some(front) = self.pending.front() else { return };
        let expected = self.map.target_of(front.base_count);
        match expected {
            Some(expected) if base == expected => self.acknowledge_front(),
            Some(expected) if base > expected => {
                // Records of somebody else lie between: the map stays exact, the run splits.
                if !planted(Planted::CountsNoRepeat) {
                    self.foreign_records += base.since(expected.max(self.seen));
                }
                self.shift_front(base);
                self.acknowledge_front();
            }
            // Below what was acknowledged: the target lost its end, or has our records twice.
            Some(_) | None => self.look_first(),
        }
    }

    /// The oldest unacknowledged record lies at `base`, further on than the map expected.
    pub(super) fn shift_front(&mut self, base: TargetOffset) {
        let Some(front) = self.pending.front() else { return };
        let count = front.base_count;
        if let Some(source) = self.map.source_of(count) {
            let unchanged = self.map.shift(RunStart { count, source, target: base });
            self.runs_taken_back(unchanged);
        }
    }

    pub(super) fn acknowledge_front(&mut self) {
        let Some(front) = self.pending.pop_front() else { return };
        self.fenced = true;
        self.sent = self.sent.saturating_sub(1);
        self.queue_bytes = self.queue_bytes.saturating_sub(front.bytes);
        self.map.acknowledge(front.base_count + u64::from(front.count), front.next_source);
        self.acknowledged_epoch = front.source_epoch;
        if self.pending.is_empty() {
            self.rest();
            if let Some(stop) = self.ends.take() {
                self.stop(stop);
            }
        }
    }

    /// Cuts the oldest batch anew, smaller. A single record that is too large stops the partition.
    pub(super) fn cut_front_smaller(&mut self) {
        let decode_bytes = self.setup.limits.decode_bytes;
        let Some(front) = self.pending.front_mut() else { return };
        if !std::mem::take(&mut front.too_large) {
            return;
        }
        let bytes = front.outgoing.take().map_or(front.bytes, |outgoing| outgoing.len());
        let source = self.map.source_of(front.base_count);
        if front.count <= 1 {
            let count = front.base_count;
            self.stop(Stop {
                code: Code::RecordTooLarge,
                reason: format!(
                    "{}: the record at source offset {} makes a batch of {bytes} bytes, more than max.message.bytes of {} allows",
                    self.setup.source_topic,
                    source.map_or_else(|| format!("of record {count}"), |source| source.to_string()),
                    self.setup.target_topic,
                ),
                range: source.map(|source| (source, source.plus(1))),
                passing: true,
            });
            return;
        }
        let content = &front.content;
        let (Ok(mut records), Some(codec)) = (content.records(decode_bytes), content.codec())
        else {
            self.stop(Stop {
                code: Code::CorruptBatch,
                reason: format!(
                    "{}: a batch larger than the target allows cannot be decoded to be split",
                    self.setup.source_topic
                ),
                range: source.map(|source| (source, source)),
                passing: true,
            });
            return;
        };
        let second_half = records.split_off(records.len() / 2);
        let first_count = records.len() as u32;
        let Some(first) = self.pending.front_mut() else { return };
        let second = Pending {
            base_count: first.base_count + u64::from(first_count),
            count: first.count - first_count,
            next_source: first.next_source,
            source_epoch: first.source_epoch,
            runs_needed: first.runs_needed,
            bytes: first.bytes - first.bytes / 2,
            outgoing: None,
            settled: false,
            too_large: false,
            part: true,
            keep: first.keep.clone(),
            content: Content::Records(second_half, codec),
        };
        if let Some(last) = records.last() {
            first.next_source = twinlog_types::SourceOffset(last.offset + 1);
        }
        first.part = true;
        first.count = first_count;
        first.bytes /= 2;
        first.content = Content::Records(records, codec);
        self.pending.insert(1, second);
    }
}

impl Content {
    /// The codec it travels with; `None` where the head names none that is known.
    fn codec(&self) -> Option<Codec> {
        match self {
            Self::Pass(batch) => batch.head().codec().ok(),
            Self::Records(_, codec) => Some(*codec),
        }
    }

    /// The time of its newest record.
    fn newest_ms(&self) -> i64 {
        match self {
            Self::Pass(batch) => batch.head().max_timestamp,
            Self::Records(records, _) => {
                records.iter().map(|record| record.timestamp).max().unwrap_or(-1)
            }
        }
    }

    fn records(&self, decode_bytes: usize) -> Result<Vec<Record>, BatchError> {
        match self {
            Self::Pass(batch) => batch.records(decode_bytes),
            Self::Records(records, _) => Ok(records.clone()),
        }
    }
}
