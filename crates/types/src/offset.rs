//! Offsets of the two logs, and the leader epochs that go with them.

use std::fmt;

macro_rules! offset {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub i64);

        impl $name {
            /// The offset `records` further on. Saturates at the ends of the range.
            pub fn plus(self, records: u64) -> Self {
                Self(self.0.saturating_add_unsigned(records))
            }

            /// How many offsets lie from `earlier` up to here; 0 when `earlier` is not earlier.
            pub fn since(self, earlier: Self) -> u64 {
                if self.0 > earlier.0 { self.0.wrapping_sub(earlier.0) as u64 } else { 0 }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

offset! {
    /// An offset in a partition of the cluster that is read.
    SourceOffset
}
offset! {
    /// An offset in a partition of the cluster that is written.
    TargetOffset
}

/// The leader epoch of a partition, as batches carry it (KIP-101, KIP-320). -1 means none.
pub type LeaderEpoch = i32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_never_goes_below_zero() {
        assert_eq!(SourceOffset(7).since(SourceOffset(4)), 3);
        assert_eq!(SourceOffset(4).since(SourceOffset(7)), 0);
        assert_eq!(TargetOffset(i64::MAX).plus(9), TargetOffset(i64::MAX));
    }
}
