//! The answer to "where does this consumer go on reading on the other side?".

/// An offset of one log carried over to the other, and how much the answer is worth.
///
/// `Offset` is [`TargetOffset`](crate::TargetOffset) for a translation and
/// [`SourceOffset`](crate::SourceOffset) for its reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Translation<Offset> {
    /// The same consumer reads the same next record there.
    Exact(Offset),
    /// All that was copied is consumed: one past the last copied record.
    End(Offset),
    /// The position is ahead of the copy: safe to resume at, but some records would be read again
    /// once the copy has caught up.
    LowerBound(Offset),
    /// The position lies before the first record that the other side holds.
    BeforeStart {
        /// The first record that exists there.
        offset: Offset,
        /// How many offsets of the backlog are missing there (an upper bound of records).
        missing: u64,
    },
    /// Nothing is known; never written to a group.
    Unknown,
}

impl<Offset: Copy> Translation<Offset> {
    /// The offset to resume at, where there is one.
    pub fn offset(self) -> Option<Offset> {
        match self {
            Self::Exact(offset)
            | Self::End(offset)
            | Self::LowerBound(offset)
            | Self::BeforeStart { offset, .. } => Some(offset),
            Self::Unknown => None,
        }
    }

    /// The word that JSON output uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exact(_) => "exact",
            Self::End(_) => "end",
            Self::LowerBound(_) => "lower-bound",
            Self::BeforeStart { .. } => "before-start",
            Self::Unknown => "unknown",
        }
    }
}
