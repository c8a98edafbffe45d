//! What twinlog wrote for groups on the target: the record that is durable before each commit.
//!
//! A commit on the target says nothing of who wrote it. The journal does: a position that still
//! stands where the journal put it was not moved by the target's own consumers.

use twinlog_types::{SourceOffset, TargetOffset};

use crate::Malformed;
use crate::coding::{Reader, put_signed, put_unsigned};

/// A source commit and the target offset that it was translated to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Placed {
    /// The group's commit on the source.
    pub source: SourceOffset,
    /// What was, or was to be, committed on the target.
    pub target: TargetOffset,
}

/// So many values that may have arrived are remembered; forgetting one makes a group stay where it
/// is.
const UNSURE_MAX: usize = 3;

/// What twinlog wrote, or was about to write, for one group in one partition.
///
/// A crash between the journal and the commit leaves the old value and the new one. The target may
/// stand at either, and either explains it; but it is certain of neither that it is ours: the new
/// one may have arrived, and somebody moved the position back since.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct GroupJournal {
    /// The last commit that the target acknowledged, with none after it that may have arrived. Gone
    /// once somebody else was seen to have moved the position.
    pub settled: Option<Placed>,
    /// Commits of which it is not known whether they arrived, the newest last.
    pub unsure: Vec<Placed>,
    /// When the target last acknowledged a commit of this position, in milliseconds since 1970; 0
    /// when that is not known.
    pub written_ms: i64,
}

impl GroupJournal {
    /// The furthest source commit that was acted upon. A crash may have come between: whoever was
    /// about to follow a group that was moved back decides about that anew.
    pub fn furthest(&self) -> Option<Placed> {
        self.all().max_by_key(|placed| placed.source)
    }

    /// For which source commit twinlog wrote `target`, or may have written it.
    pub fn explains(&self, target: TargetOffset) -> Option<Placed> {
        self.all().find(|placed| placed.target == target)
    }

    /// Nothing is known of who put the position where it stands.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// A commit is about to be sent.
    pub fn plan(&mut self, placed: Placed) {
        self.unsure.push(placed);
        if self.unsure.len() > UNSURE_MAX {
            self.unsure.remove(0);
        }
    }

    /// The commit that was planned last certainly did not arrive.
    pub fn unplan(&mut self) {
        self.unsure.pop();
    }

    /// The target acknowledged a commit.
    pub fn settle(&mut self, placed: Placed) {
        self.settled = Some(placed);
        self.unsure.clear();
    }

    /// Nobody knows whether what was planned arrived: nothing is certain any more.
    pub fn doubt(&mut self) {
        if !self.unsure.is_empty()
            && let Some(settled) = self.settled.take()
        {
            self.unsure.insert(0, settled);
            self.unsure.truncate(UNSURE_MAX + 1);
        }
    }

    /// Somebody else moved the position.
    pub fn forget(&mut self) {
        self.settled = None;
        self.unsure.clear();
    }

    fn all(&self) -> impl Iterator<Item = Placed> + '_ {
        self.settled.into_iter().chain(self.unsure.iter().copied())
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.settled.is_some()));
        put_unsigned(out, self.unsure.len() as u64);
        for placed in self.all() {
            put_signed(out, placed.source.0);
            put_signed(out, placed.target.0);
        }
        put_signed(out, self.written_ms);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let settled = reader.flag()?;
        let announced = reader.unsigned()?;
        // An entry takes two bytes at least: what does not fit is not allocated for.
        let length = usize::try_from(announced)
            .ok()
            .filter(|&length| length <= reader.remaining() / 2)
            .ok_or(Malformed::Truncated)?;
        let settled = if settled { Some(read_placed(reader)?) } else { None };
        let unsure = (0..length).map(|_| read_placed(reader)).collect::<Result<_, _>>()?;
        Ok(Self { settled, unsure, written_ms: reader.signed()? })
    }
}

fn read_placed(reader: &mut Reader<'_>) -> Result<Placed, Malformed> {
    let (source, target) = (SourceOffset(reader.signed()?), TargetOffset(reader.signed()?));
    Ok(Placed { source, target })
}
