//! Groups that are gone on both sides leave the durable state.
//!
//! Whoever is not on the source any more and has nothing left on the target will never be decided
//! about again: what the journal holds of it would stay on the state topic for ever. If such a group
//! comes back, it is a new one. A journal that is removed too soon (a group that may not be seen looks
//! like one that is gone) only makes the group stay where it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info};
use twinlog_types::GroupId;

use super::writing::Writer;
use crate::flow::Flow;

/// How often is looked for such groups.
const INTERVAL: Duration = Duration::from_mins(1);
/// So many looks in a row must find a group on neither side: brokers that just started list fewer
/// groups than there are.
const MISSED_MAX: u32 = 3;
/// The rounds wait no longer for the target's listing.
const PATIENCE: Duration = Duration::from_secs(3);

/// Groups that were missed, and when to look again.
pub(super) struct Vanished {
    next: Instant,
    missed: BTreeMap<GroupId, u32>,
}

impl Vanished {
    pub(super) fn new() -> Self {
        Self { next: Instant::now(), missed: BTreeMap::new() }
    }

    /// Looks, when it is time to. `present`: every group that the source listed just now, and every one
    /// that is followed.
    pub(super) async fn remove(
        &mut self,
        flow: &Flow,
        writer: &mut Writer,
        present: &BTreeSet<GroupId>,
    ) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + INTERVAL;
        let mut gone: BTreeSet<GroupId> = writer.known_groups();
        gone.retain(|group| !present.contains(group));
        if gone.is_empty() {
            self.missed.clear();
            return;
        }
        match tokio::time::timeout(PATIENCE, flow.target.list_groups()).await {
            Ok(Ok(listed)) => {
                for listing in listed.iter().filter(|listing| listing.state != "Dead") {
                    gone.remove(&listing.group);
                }
            }
            Ok(Err(error)) => return debug!(%error, "the target's groups cannot be listed"),
            Err(_) => return debug!("the target's groups are not listed in time"),
        }
        self.missed.retain(|group, _| gone.contains(group));
        for group in gone {
            let missed = self.missed.entry(group.clone()).or_default();
            *missed += 1;
            if *missed >= MISSED_MAX {
                let count = writer.forget(flow, &group);
                info!(flow = %flow.name, %group, journals = count, "gone on both sides, and forgotten");
                self.missed.remove(&group);
            }
        }
    }
}
