//! What can be wrong with durable state.

use std::fmt;

/// Durable state that cannot be used. Nothing is ever guessed in its place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The key of a state record cannot be read.
    #[error("state key cannot be read: {0}")]
    Key(Malformed),

    /// The value of a state record cannot be read.
    #[error("state record '{kind}' cannot be read: {why}")]
    Value {
        /// The kind of record that the key announces.
        kind: &'static str,
        /// What is wrong with the bytes.
        why: Malformed,
    },

    /// The value does not belong to this key, or was damaged.
    #[error(
        "state record '{kind}' fails its checksum: stored {stored:08x}, computed {computed:08x}"
    )]
    Checksum {
        /// The kind of record that the key announces.
        kind: &'static str,
        /// The checksum that the value ends with.
        stored: u32,
        /// The checksum of key and value.
        computed: u32,
    },

    /// A segment of an offset map cannot be read.
    #[error("segment {segment} of the offset map cannot be read: {why}")]
    Segment {
        /// The segment's number.
        segment: u32,
        /// What is wrong with the bytes.
        why: Malformed,
    },

    /// A sealed block of an offset map cannot be read.
    #[error("block {block} of the offset map cannot be read: {why}")]
    Block {
        /// The block's number.
        block: u32,
        /// What is wrong with the bytes.
        why: Malformed,
    },

    /// A sealed block of an offset map is not there, although a later one is.
    #[error("block {block} of the offset map is missing")]
    BlockMissing {
        /// The number of the missing block.
        block: u32,
    },

    /// A sealed block starts before the end of the one before it, or what follows it does.
    #[error("block {block} of the offset map and what follows it overlap")]
    BlockOrder {
        /// The block's number.
        block: u32,
    },

    /// A segment of an offset map is not there, although a later record needs it.
    #[error("segment {segment} of the offset map is missing")]
    SegmentMissing {
        /// The number of the missing segment.
        segment: u32,
    },

    /// A segment that others follow is not full, so runs are missing from it.
    #[error("segment {segment} of the offset map holds {runs} runs, and others follow it")]
    SegmentShort {
        /// The segment's number.
        segment: u32,
        /// How many runs it holds.
        runs: u32,
    },

    /// A segment starts before the end of the one before it.
    #[error("segment {segment} of the offset map does not follow the one before it")]
    SegmentOrder {
        /// The segment's number.
        segment: u32,
    },

    /// A stretch that was taken over overlaps with another one.
    #[error("the stretch from source offset {from} on contradicts what is known already")]
    StretchOrder {
        /// The first source offset that it speaks for.
        from: i64,
    },

    /// The last segment holds fewer runs than the position vouches for.
    #[error("offset map holds {found} runs, its position vouches for {expected}")]
    RunsMissing {
        /// How many runs the position vouches for, ever.
        expected: u64,
        /// How many runs the segments hold, ever.
        found: u64,
    },

    /// Position and map disagree on where the copied records end.
    #[error(
        "position says {count} records end at target offset {position}, the offset map says {map}"
    )]
    EndsDiffer {
        /// How many records were copied.
        count: u64,
        /// One past the last of them, as the position says.
        position: i64,
        /// One past the last of them, as the map says.
        map: i64,
    },
}

/// What is wrong with some bytes of durable state.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Malformed {
    /// They end before everything announced was there.
    Truncated,
    /// There are bytes behind the end.
    Trailing(usize),
    /// A number is written longer than it needs to be, or does not fit its range.
    Number,
    /// Text is not UTF-8.
    Text,
    /// Written by another version of twinlog that this one cannot read.
    Version(u8),
    /// A kind of record this version does not know.
    Kind(u8),
    /// A flag is neither 0 nor 1.
    Flag(u8),
    /// A finding code this version does not know.
    Code(String),
    /// A segment announces no run, or more than a segment may hold.
    Runs(u64),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("it ends too early"),
            Self::Trailing(bytes) => write!(f, "{bytes} bytes follow its end"),
            Self::Number => f.write_str("a number in it is out of range"),
            Self::Text => f.write_str("a name in it is not UTF-8"),
            Self::Version(version) => write!(
                f,
                "it has format version {version}, this twinlog reads version {}",
                crate::coding::VERSION
            ),
            Self::Kind(kind) => write!(f, "it is of kind {kind}, which this twinlog does not know"),
            Self::Flag(value) => write!(f, "a flag in it is {value}"),
            Self::Code(word) => {
                write!(f, "it names the finding '{word}', which this twinlog does not know")
            }
            Self::Runs(runs) => write!(
                f,
                "it announces {runs} runs, a segment holds 1 to {}",
                crate::RUNS_PER_SEGMENT
            ),
        }
    }
}
