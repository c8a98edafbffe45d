//! The copy of a partition, held against a model of two logs.
//!
//! [`histories`] drives copiers through random faults; [`tables`] holds single facts. [`source`]
//! makes what is fetched, and [`broker`] is the target: both by code of their own, from what real
//! brokers were seen to do.

mod broker;
mod check;
mod faults;
mod histories;
mod source;
mod tables;
mod world;

/// Random numbers from a seed (SplitMix64): the same seed is the same history.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
