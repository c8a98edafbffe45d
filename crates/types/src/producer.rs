//! What makes a batch recognisable to a broker.

use std::fmt;

/// A producer id as `InitProducerId` hands it out. -1 means none.
pub type ProducerId = i64;

/// The epoch of a producer id. -1 means none.
pub type ProducerEpoch = i16;

/// The sequence of a record within its producer id and partition: records copied so far, modulo
/// 2^31 (brokers wrap from 2147483647 to 0).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sequence(i32);

impl Sequence {
    /// The sequence of the record that comes after `count` records.
    pub fn of_count(count: u64) -> Self {
        Self((count & 0x7fff_ffff) as i32)
    }

    /// A sequence as it stands in a batch; `None` when negative.
    pub fn from_wire(value: i32) -> Option<Self> {
        (value >= 0).then_some(Self(value))
    }

    /// The number as it stands in a batch.
    pub fn to_wire(self) -> i32 {
        self.0
    }

    /// The sequence `records` further on.
    pub fn plus(self, records: u32) -> Self {
        Self::of_count(self.0 as u64 + u64::from(records))
    }

    /// The record count nearest to `near` whose sequence this is (at most 2^30 away).
    ///
    /// A count is known to within far less than 2^30 records from the durable state, so the
    /// sequence of a batch in the target's tail gives the exact count.
    pub fn count_near(self, near: u64) -> u64 {
        let ahead = (self.0.wrapping_sub(Self::of_count(near).0)) & 0x7fff_ffff;
        if ahead < 0x4000_0000 {
            near + ahead as u64
        } else {
            near.saturating_sub(0x8000_0000 - ahead as u64)
        }
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What makes a batch recognisable to the broker. A batch keeps its cut until it is acknowledged:
/// the same records cut differently are refused with 45, never recognised as a duplicate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cut {
    /// The producer id.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// The sequence of the first record.
    pub base_sequence: Sequence,
    /// How many records the batch holds.
    pub count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap_as_brokers_wrap() {
        // Established on real brokers: 2147483645 with 5 records is followed by 2.
        assert_eq!(Sequence::of_count(2_147_483_645).plus(5).to_wire(), 2);
        assert_eq!(Sequence::of_count(2_147_483_647).plus(1).to_wire(), 0);
    }

    #[test]
    fn a_sequence_gives_the_nearest_count_on_both_sides_of_the_wrap() {
        let wrap = 1u64 << 31;
        assert_eq!(Sequence::of_count(wrap + 5).count_near(wrap - 10), wrap + 5);
        assert_eq!(Sequence::of_count(wrap - 10).count_near(wrap + 5), wrap - 10);
        assert_eq!(Sequence::of_count(7).count_near(7), 7);
        assert_eq!(Sequence::of_count(3).count_near(7), 3);
    }
}
