//! How one member of a consumer group gets from what it has to what it shall have (KIP-848).
//!
//! Pure. A member first gives up what it shall not keep, and only when it says that it no longer
//! owns it does its epoch rise; a partition that somebody else still has is waited for. So no
//! partition is ever with two members.
//!
//! Reference: `CurrentAssignmentBuilder` of Kafka's group coordinator.

use std::collections::{BTreeMap, BTreeSet};

/// A partition of a topic that is named by its id.
pub(crate) type Slot = ([u8; 16], i32);
/// A set of partitions.
pub(crate) type Partitions = BTreeSet<Slot>;
/// Partitions, and for each the member epoch in which it was assigned (KIP-1251).
pub(crate) type Held = BTreeMap<Slot, i32>;

/// How far a member is with its target, with Kafka's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Stable = 0,
    /// It was told to give partitions up and has not said that it did.
    UnrevokedPartitions = 1,
    /// It waits for partitions that others have.
    UnreleasedPartitions = 2,
}

/// Where a member stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub epoch: i32,
    /// The epoch before: an answer may be lost, and the member asks again.
    pub previous_epoch: i32,
    pub progress: Progress,
    pub assigned: Held,
    pub revoking: Held,
}

/// Where a member shall stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim<'a> {
    pub epoch: i32,
    pub partitions: &'a Partitions,
    /// The topics that the member subscribes to, where its subscription has just changed.
    pub subscribed: Option<&'a BTreeSet<[u8; 16]>>,
    /// What the member says it owns, where it says anything.
    pub owned: Option<&'a Partitions>,
}

impl Place {
    /// A member that has nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            epoch: 0,
            previous_epoch: 0,
            progress: Progress::Stable,
            assigned: Held::new(),
            revoking: Held::new(),
        }
    }

    /// Everything that nobody else may get.
    pub(crate) fn holds(&self) -> impl Iterator<Item = &Slot> {
        self.assigned.keys().chain(self.revoking.keys())
    }

    /// The next place on the way. `taken` tells what is with any member now.
    pub(crate) fn toward(&self, aim: Aim<'_>, taken: impl Fn(&Slot) -> bool) -> Self {
        match self.progress {
            Progress::Stable if self.epoch == aim.epoch => self.trimmed(aim),
            Progress::UnrevokedPartitions if owns(aim.owned, &self.revoking) => self.trimmed(aim),
            Progress::Stable | Progress::UnreleasedPartitions => self.next(self.epoch, aim, taken),
            Progress::UnrevokedPartitions => self.next(self.epoch + 1, aim, taken),
        }
    }

    fn at(&self, epoch: i32, progress: Progress, assigned: Held, revoking: Held) -> Self {
        Self { epoch, previous_epoch: self.epoch, progress, assigned, revoking }
    }

    /// Gives up at once what a member no longer subscribes to.
    fn trimmed(&self, aim: Aim<'_>) -> Self {
        let Some(subscribed) = aim.subscribed else { return self.clone() };
        let (keeps, goes): (Held, Held) =
            self.assigned.iter().partition(|&((topic, _), _)| subscribed.contains(topic));
        if goes.is_empty() {
            return self.clone();
        }
        let mut revoking = self.revoking.clone();
        revoking.extend(goes);
        if owns(aim.owned, &revoking) {
            self.at(self.epoch, Progress::UnrevokedPartitions, keeps, revoking)
        } else {
            Self { assigned: keeps, ..self.clone() }
        }
    }

    fn next(&self, epoch: i32, aim: Aim<'_>, taken: impl Fn(&Slot) -> bool) -> Self {
        let wanted = |slot: &Slot| {
            aim.partitions.contains(slot)
                && aim.subscribed.is_none_or(|subscribed| subscribed.contains(&slot.0))
        };
        let (mut assigned, revoking): (Held, Held) =
            self.assigned.iter().partition(|&(slot, _)| wanted(slot));
        if owns(aim.owned, &revoking) {
            return self.at(epoch, Progress::UnrevokedPartitions, assigned, revoking);
        }
        let missing: Vec<Slot> = aim
            .partitions
            .iter()
            .copied()
            .filter(|slot| wanted(slot) && !assigned.contains_key(slot))
            .collect();
        let waits = missing.iter().any(&taken);
        assigned
            .extend(missing.into_iter().filter(|slot| !taken(slot)).map(|slot| (slot, aim.epoch)));
        let progress = if waits { Progress::UnreleasedPartitions } else { Progress::Stable };
        self.at(aim.epoch, progress, assigned, Held::new())
    }
}

/// Whether a member still owns any of these. Who does not say what it owns, owns them.
fn owns(owned: Option<&Partitions>, of: &Held) -> bool {
    !of.is_empty() && owned.is_none_or(|owned| of.keys().any(|slot| owned.contains(slot)))
}
