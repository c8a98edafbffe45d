//! One mirrored partition as the tasks of a flow share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use crate::blocks::Places;
use crate::late::Late;
use parking_lot::Mutex;
use twinlog_flow::copy::Copier;
use twinlog_offsets::state::{PartitionKey, Position};
use twinlog_types::{BrokerId, SourceOffset, TopicId, TopicPartition};

/// Which produce connection a partition's batches travel on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LaneKey {
    /// The leader of the target partition.
    pub(crate) broker: BrokerId,
    /// Which of the connections to it.
    pub(crate) index: usize,
}

/// What the last fetch answers said about the source's log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceLog {
    /// Where reading may go at the flow's isolation level.
    pub(crate) readable_end: i64,
    /// The high watermark.
    pub(crate) high_watermark: i64,
}

/// One mirrored partition.
pub(crate) struct Cell {
    pub(crate) source: TopicPartition,
    pub(crate) target: TopicPartition,
    pub(crate) source_id: TopicId,
    pub(crate) target_id: TopicId,
    pub(crate) key: PartitionKey,
    /// The state partition that holds its records.
    pub(crate) shard: usize,
    /// The state machine. The lock is held for the length of one step, never across an await.
    pub(crate) copier: Mutex<Copier>,
    /// Where the sealed blocks of the map lie in the state, as far as known.
    pub(crate) blocks: Mutex<Places>,
    /// Set by a look, which also knows the leader.
    pub(crate) lane: Mutex<Option<LaneKey>>,
    /// Nothing before the first answer.
    pub(crate) source_log: Mutex<Option<SourceLog>>,
    /// A look is queued or under way.
    pub(crate) looking: AtomicBool,
    /// Looks in a row without a record acknowledged between them, and the count then.
    pub(crate) fruitless: Mutex<(u32, u64)>,
    /// The lane in whose queue it stands.
    pub(crate) queued: Mutex<Option<LaneKey>>,
    /// A question about the source's range is under way: it is not fetched.
    pub(crate) checking: AtomicBool,
    /// A former owner copied it.
    pub(crate) restored: bool,
    /// For how long packets may be late that nobody will answer.
    pub(crate) late: Mutex<Late>,
    /// It has stopped, and is tried again once something is known.
    pub(crate) retrying: AtomicBool,
    /// How often in a row it was asked who owns the flow, and how much was copied then.
    asked: Mutex<(u32, u64)>,
    /// When it stopped, for trying again; 0 while it goes on.
    pub(crate) stopped_ms: AtomicI64,
    /// Positions that somebody asked for and that are not known exactly: copied by somebody else.
    pub(crate) wanted: Mutex<BTreeSet<SourceOffset>>,
    pub(crate) said_foreign: AtomicBool,
    pub(crate) said_doubled: AtomicBool,
    /// An operator paused it: it is not fetched.
    pub(crate) paused: AtomicBool,
    /// Ranges of the source that are lost, as the ledger has them.
    pub(crate) lost: Mutex<Vec<(SourceOffset, SourceOffset)>>,
    /// How far the state says that it came, in records and on the source, and since when.
    stands: Mutex<Option<(u64, SourceOffset, i64)>>,
}

impl Cell {
    /// Takes a partition up.
    pub(crate) fn new(
        key: PartitionKey,
        source: (TopicPartition, TopicId),
        target: (TopicPartition, TopicId),
        shard: usize,
        copier: Copier,
    ) -> Arc<Self> {
        let restored = copier.is_recovering();
        Arc::new(Self {
            source: source.0,
            target: target.0,
            source_id: source.1,
            target_id: target.1,
            key,
            shard,
            copier: Mutex::new(copier),
            blocks: Mutex::default(),
            lane: Mutex::new(None),
            source_log: Mutex::new(None),
            looking: AtomicBool::new(false),
            fruitless: Mutex::new((0, u64::MAX)),
            queued: Mutex::new(None),
            checking: AtomicBool::new(false),
            restored,
            late: Mutex::default(),
            retrying: AtomicBool::new(false),
            asked: Mutex::new((0, 0)),
            stopped_ms: AtomicI64::new(0),
            wanted: Mutex::default(),
            said_foreign: AtomicBool::new(false),
            said_doubled: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            lost: Mutex::default(),
            stands: Mutex::new(None),
        })
    }

    /// Since when it stands where it does now, in milliseconds since 1970: a position that is written
    /// again, because something else changed, keeps its time.
    pub(crate) fn stands_since(&self, position: &Position, now_ms: i64) -> i64 {
        let mut stands = self.stands.lock();
        match *stands {
            Some((count, copied_to, since_ms))
                if (count, copied_to) == (position.count, position.copied_to) =>
            {
                since_ms
            }
            _ => {
                *stands = Some((position.count, position.copied_to, now_ms));
                now_ms
            }
        }
    }

    /// After how long it is asked who owns the flow, where another producer is met: at once, and each
    /// time later as long as that brings no record further. `None`: no answer would help.
    pub(crate) fn asks_after(&self) -> Option<Duration> {
        let acknowledged = self.copier.lock().map().acknowledged();
        let mut asked = self.asked.lock();
        let before = if asked.1 == acknowledged { asked.0 } else { 0 };
        *asked = (before.saturating_add(1).min(ASKED_MAX), acknowledged);
        match before {
            0 => Some(Duration::ZERO),
            ASKED_MAX => None,
            before => Some(ASKED_REST * (1 << before)),
        }
    }

    /// How many offsets from `position` on are lost; those before which the copy still stands do
    /// not count.
    pub(crate) fn lost_from(&self, position: SourceOffset, copied_to: SourceOffset) -> u64 {
        let behind = |&&(_, to): &&(SourceOffset, SourceOffset)| to <= copied_to;
        let lost = self.lost.lock();
        lost.iter().filter(behind).map(|&(from, to)| to.since(from.max(position))).sum()
    }
}

/// So many positions are remembered as asked for.
const WANTED_MAX: usize = 1_024;

/// So often in a row it is asked who owns the flow, six seconds in all, before the partition stops.
const ASKED_MAX: u32 = 6;
const ASKED_REST: Duration = Duration::from_millis(100);

impl Cell {
    /// Somebody asked for a position. Where it is on records that somebody else copied, their
    /// contents are compared.
    pub(crate) fn want(&self, position: SourceOffset) {
        let mut wanted = self.wanted.lock();
        if wanted.len() < WANTED_MAX {
            wanted.insert(position);
        }
    }
}

/// The partitions of a flow by source partition.
#[derive(Default)]
pub(crate) struct Cells {
    by_source: Mutex<BTreeMap<TopicPartition, Arc<Cell>>>,
}

impl Cells {
    pub(crate) fn get(&self, source: &TopicPartition) -> Option<Arc<Cell>> {
        self.by_source.lock().get(source).cloned()
    }

    /// All of them, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Cell>> {
        self.by_source.lock().values().cloned().collect()
    }

    pub(crate) fn insert(&self, cell: Arc<Cell>) {
        self.by_source.lock().insert(cell.source.clone(), cell);
    }

    /// Gives a partition up. Tasks that hold it go on with it, to no effect.
    pub(crate) fn remove(&self, source: &TopicPartition) {
        self.by_source.lock().remove(source);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_source.lock().len()
    }
}
