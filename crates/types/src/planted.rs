//! Defects that the tests of the checkers switch on. Without the feature `planted` there are none.
//!
//! A checker that has never failed checks nothing: for each of these defects a test of the
//! simulation switches it on and expects the report of one checker. The switch belongs to the
//! thread, because a simulation runs on one thread. A build without the feature, as every release
//! is, compiles [`planted`] to `false`.

macro_rules! defects {
    ($($(#[$doc:meta])* $name:ident = $id:literal,)*) => {
        /// A deliberate defect of the product.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Planted { $($(#[$doc])* $name,)* }

        impl Planted {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The short name that commands and tables use.
            pub fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }
        }
    };
}

defects! {
    /// A batch is left out now and then.
    DropsRecords = "B1",
    /// A gap of the source is jumped over, and nobody told.
    JumpsInSilence = "B2",
    /// A hole that compaction left is reported as loss.
    HoleAsLoss = "B3",
    /// What may be stored already is sent again as something new.
    NewSequenceOnRetry = "B4",
    /// After a restart reading begins one record too early.
    ResumesTooEarly = "B5",
    /// Records that stand twice are not counted.
    CountsNoRepeat = "B6",
    /// Batches of one partition travel on two connections.
    TwoConnections = "B7",
    /// An empty value becomes null, and of equal header keys only one stays.
    EmptyBecomesNull = "B8",
    /// A topic's append times are lost with the bit that marks them.
    LosesAppendTime = "B9",
    /// The first record of a run is translated one too far.
    OffByOneAtRun = "B10",
    /// A place ahead of the copy is guessed and called exact.
    GuessesAhead = "B11",
    /// Runs are merged: an older position is answered with the place of an earlier record.
    MergesRuns = "B12",
    /// A smaller position is written over a larger one, whoever put it there.
    AcceptsSmaller = "B13",
    /// A group that could not be looked up counts as absent.
    FailedLookupIsAbsent = "B14",
    /// The resume point is stored before the target has the records.
    StoresTooEarly = "B15",
    /// The list of aborted transactions is not applied to the batch at its border.
    CopiesAborted = "B16",
    /// An owner that was fenced goes on writing.
    WritesWhenFenced = "B17",
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static ON: Cell<Option<Planted>> = const { Cell::new(None) };
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }

    /// Switches a defect on in this thread, or all of them off.
    pub fn plant(defect: Option<Planted>) {
        ON.set(defect);
        CALLS.set(0);
    }

    /// Whether this thread has the defect.
    pub fn planted(defect: Planted) -> bool {
        ON.get() == Some(defect)
    }

    /// Whether this thread has the defect, at every `nth` call.
    pub fn planted_every(defect: Planted, nth: u32) -> bool {
        if !planted(defect) {
            return false;
        }
        CALLS.set(CALLS.get() + 1);
        CALLS.get().is_multiple_of(nth)
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    use super::Planted;

    /// Whether this thread has the defect: never, in a build without the feature `planted`.
    #[inline]
    pub const fn planted(_: Planted) -> bool {
        false
    }

    /// Whether this thread has the defect, at every nth call: never.
    #[inline]
    pub const fn planted_every(_: Planted, _: u32) -> bool {
        false
    }
}

pub use switch::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defect_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            Planted::ALL.iter().map(|defect| defect.id()).collect();
        assert_eq!(names.len(), Planted::ALL.len());
    }

    #[test]
    fn no_defect_is_on_unless_it_is_switched_on() {
        for &defect in Planted::ALL {
            assert!(!planted(defect), "{defect:?}");
            assert!(!planted_every(defect, 1), "{defect:?}");
        }
    }
}
