//! The log of one partition on one replica: batches, leader epochs, producers, transactions.
//!
//! Does not know brokers, replication or requests. Everything that is derived from the batches
//! (epochs, producers, aborted transactions) is kept beside them and is cut with them.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::codec::{self, Head, RawRecord};
use crate::old_formats;
use crate::producer_state::Producers;
use crate::segments::{Rolling, Segment, Segments};

/// A batch at its place.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub head: Head,
    pub bytes: Bytes,
}

/// What a batch takes beside its bytes: its entry in the lists of its replicas, and the allocation.
const BESIDE_BYTES: usize = 256;

impl Stored {
    /// The memory it takes, about.
    pub(crate) fn held(&self) -> usize {
        self.bytes.len() + BESIDE_BYTES
    }

    pub(crate) fn next_offset(&self) -> i64 {
        self.head.last_offset() + 1
    }

    /// Its records. What is stored was either validated or put there by the test itself, so what
    /// cannot be read has none.
    pub(crate) fn records(&self) -> Vec<RawRecord> {
        if self.head.magic < 2 {
            return old_formats::records(self);
        }
        codec::records(&self.bytes).unwrap_or_default()
    }
}

/// A transaction that has its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub producer_id: i64,
    pub first_offset: i64,
    pub marker_offset: i64,
    pub committed: bool,
}

/// One replica's log of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    batches: Vec<Stored>,
    /// What the batches hold together.
    bytes: usize,
    start: i64,
    end: i64,
    epochs: Vec<(i32, i64)>,
    pub producers: Producers,
    ended: Vec<Ended>,
    segments: Segments,
    /// The cleaner has been here: what lies below is clean.
    cleaned: i64,
    /// Retention has deleted every segment, and with them the snapshots of the producers' state.
    no_snapshot: bool,
}

impl Log {
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    /// The log end offset.
    pub(crate) fn end(&self) -> i64 {
        self.end
    }

    pub(crate) fn batches(&self) -> &[Stored] {
        &self.batches
    }

    /// The memory that the batches take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn count_bytes(&mut self) {
        self.bytes = self.batches.iter().map(Stored::held).sum();
    }

    pub(crate) fn epochs(&self) -> &[(i32, i64)] {
        &self.epochs
    }

    /// Notes that `epoch` begins at the log end.
    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        if self.epochs.last().is_none_or(|&(last, _)| last < epoch) {
            let end = self.end;
            // An epoch without a batch leaves no trace once another one begins at the same offset.
            self.epochs.retain(|&(_, start)| start < end);
            self.epochs.push((epoch, end));
        }
    }

    /// The newest epoch at or below `epoch` and where it ends: (-1, -1) when there is none.
    pub(crate) fn end_of_epoch(&self, epoch: i32) -> (i32, i64) {
        match self.epochs.last() {
            Some(&(newest, _)) if newest == epoch => (epoch, self.end),
            Some(&(newest, _)) if newest > epoch => {
                let above = self.epochs.partition_point(|&(known, _)| known <= epoch);
                let end = self.epochs[above].1;
                match above.checked_sub(1) {
                    Some(below) => (self.epochs[below].0, end),
                    None => (epoch, end),
                }
            }
            _ => (-1, -1),
        }
    }

    /// Appends a batch at the log end under `epoch` and answers its base offset.
    pub(crate) fn append(&mut self, batch: &Bytes, epoch: i32) -> i64 {
        let base_offset = self.end;
        self.take(codec::place(batch, base_offset, epoch));
        base_offset
    }

    /// Appends a batch as another replica stored it (its own offset and leader epoch).
    pub(crate) fn take(&mut self, bytes: Bytes) {
        if let Some(head) = Head::parse(&bytes) {
            self.take_stored(Stored { head, bytes });
        }
    }

    /// See [`take`](Self::take).
    pub(crate) fn take_stored(&mut self, stored: Stored) {
        let head = stored.head;
        if self.epochs.last().is_none_or(|&(last, _)| last < head.leader_epoch) {
            self.epochs.push((head.leader_epoch, head.base_offset));
        }
        self.derive(&stored);
        self.end = stored.next_offset();
        self.bytes += stored.held();
        self.batches.push(stored);
    }

    fn derive(&mut self, stored: &Stored) {
        let head = &stored.head;
        if !head.is_control() {
            self.producers.append(head);
            return;
        }
        let Some((committed, coordinator_epoch)) = codec::marker_of(&stored.bytes) else { return };
        if let Some(first_offset) = self.producers.end_transaction(head, coordinator_epoch) {
            self.ended.push(Ended {
                producer_id: head.producer_id,
                first_offset,
                marker_offset: head.base_offset,
                committed,
            });
        }
    }

    /// Drops everything at and above `offset` (on a batch border or inside a batch, which goes as a
    /// whole). Producers are rebuilt from what remains, as Kafka does from its snapshots.
    pub(crate) fn truncate(&mut self, offset: i64) {
        if offset >= self.end {
            return;
        }
        let keep = self.batches.partition_point(|stored| stored.next_offset() <= offset);
        let kept: Vec<Stored> = self.batches.drain(..keep).collect();
        self.end = kept.last().map_or(offset.max(self.start).min(self.end), Stored::next_offset);
        self.start = self.start.min(self.end);
        let end = self.end;
        self.epochs.retain(|&(_, start)| start < end);
        self.segments.cut(end);
        self.cleaned = self.cleaned.min(end);
        self.producers.clear();
        self.ended.clear();
        for stored in &kept {
            self.derive(stored);
        }
        self.batches = kept;
        self.count_bytes();
    }

    /// Moves the log start up; batches that lie wholly below it go. Producers stay.
    pub(crate) fn delete_below(&mut self, offset: i64) {
        if offset <= self.start {
            return;
        }
        self.start = offset.min(self.end);
        let start = self.start;
        self.batches.retain(|stored| stored.next_offset() > start);
        self.count_bytes();
        self.ended.retain(|ended| ended.marker_offset >= start);
        if let Some(current) = self.epochs.iter().rposition(|&(_, first)| first <= start) {
            self.epochs.drain(..current);
            self.epochs[0].1 = start;
        }
    }

    /// Makes an empty log begin at `offset`, as a log does whose older part is gone.
    pub(crate) fn begin_at(&mut self, offset: i64) {
        self.batches.clear();
        self.bytes = 0;
        self.ended.clear();
        self.start = offset;
        self.end = offset;
        if let Some(&(epoch, _)) = self.epochs.last() {
            self.epochs = vec![(epoch, offset)];
        }
    }

    /// Replaces the batches in `range` of the list, as compaction does. Offsets stay.
    pub(crate) fn replace(&mut self, range: Range<usize>, by: Vec<Stored>) {
        self.batches.splice(range, by);
        self.count_bytes();
    }

    /// Finds the segments that were begun under these settings.
    pub(crate) fn settle_segments(&mut self, rolling: Rolling) {
        self.segments.see(&self.batches, rolling);
    }

    /// Closes the active segment.
    pub(crate) fn roll(&mut self) {
        self.segments.roll(self.end);
    }

    /// The segments that were found, the active one last.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        self.segments.list(&self.batches, self.start, self.end)
    }

    /// Deletes the segments below `start`, as a retention check does.
    pub(crate) fn retain_from(&mut self, start: i64) {
        if start >= self.end {
            self.roll();
            self.no_snapshot = true;
        }
        self.delete_below(start);
    }

    /// The first offset that the cleaner has not cleaned.
    pub(crate) fn cleaned(&self) -> i64 {
        self.cleaned
    }

    pub(crate) fn set_cleaned(&mut self, offset: i64) {
        self.cleaned = offset;
    }

    /// Forgets ended transactions.
    pub(crate) fn forget_ended(&mut self, gone: impl Fn(&Ended) -> bool) {
        self.ended.retain(|ended| !gone(ended));
    }

    /// What a broker knows after a restart: of each producer the newest batch, from the snapshots;
    /// where they are gone, what the batches tell.
    pub(crate) fn restart(&mut self) {
        if !std::mem::take(&mut self.no_snapshot) {
            self.producers.restart();
            return;
        }
        self.producers.clear();
        let ended = std::mem::take(&mut self.ended);
        for stored in std::mem::take(&mut self.batches) {
            self.derive(&stored);
            self.batches.push(stored);
        }
        self.ended = ended;
    }

    /// The last stable offset under a high watermark: open transactions hold it, and ended ones
    /// whose marker is not replicated.
    pub(crate) fn last_stable(&self, high_watermark: i64) -> i64 {
        let open = self.producers.first_open().unwrap_or(i64::MAX);
        let unreplicated = self
            .ended
            .iter()
            .rev()
            .take_while(|ended| ended.marker_offset >= high_watermark)
            .map(|ended| ended.first_offset)
            .min()
            .unwrap_or(i64::MAX);
        // Never below the log start: retention does not wait for transactions.
        high_watermark.min(open.min(unreplicated).max(self.start))
    }

    /// Aborted transactions that overlap `from..to`.
    pub(crate) fn aborted(&self, from: i64, to: i64) -> impl Iterator<Item = Ended> + '_ {
        self.ended.iter().copied().filter(move |ended| {
            !ended.committed && ended.marker_offset >= from && ended.first_offset < to
        })
    }

    /// The batches from the one that holds `offset`, below `limit`. At most `bytes_max` bytes, the
    /// last batch cut off in the middle as a broker does; with `whole_first` the first batch comes
    /// whole however large it is.
    pub(crate) fn read(
        &self,
        offset: i64,
        limit: i64,
        bytes_max: usize,
        whole_first: bool,
    ) -> Bytes {
        let first = self.batches.partition_point(|stored| stored.next_offset() <= offset);
        let mut out: Vec<Bytes> = Vec::new();
        let mut left = bytes_max;
        for stored in
            self.batches[first..].iter().take_while(|stored| stored.head.base_offset < limit)
        {
            let whole = stored.bytes.len();
            let take = if out.is_empty() && whole_first { whole } else { whole.min(left) };
            if take == 0 {
                break;
            }
            out.push(stored.bytes.slice(..take));
            left = left.saturating_sub(take);
        }
        match out.len() {
            0 => Bytes::new(),
            1 => out.swap_remove(0),
            _ => {
                let mut all = BytesMut::with_capacity(out.iter().map(Bytes::len).sum());
                for part in &out {
                    all.extend_from_slice(part);
                }
                all.freeze()
            }
        }
    }

    /// The bytes between `offset` and `limit`, counted up to `enough`.
    pub(crate) fn available(&self, offset: i64, limit: i64, enough: usize) -> usize {
        let first = self.batches.partition_point(|stored| stored.next_offset() <= offset);
        let mut bytes = 0;
        for stored in
            self.batches[first..].iter().take_while(|stored| stored.head.base_offset < limit)
        {
            bytes += stored.bytes.len();
            if bytes >= enough {
                break;
            }
        }
        bytes
    }

    /// The epoch under which the record at `offset` was written.
    pub(crate) fn epoch_at(&self, offset: i64) -> i32 {
        let behind = self.epochs.partition_point(|&(_, start)| start <= offset);
        behind.checked_sub(1).map_or(-1, |index| self.epochs[index].0)
    }
}
