//! Which groups there are on the source.

use std::collections::BTreeSet;

use tokio::time::Instant;
use twinlog_client::{ClientError, GroupKind};
use twinlog_flow::groups::{GroupSelection, select};
use twinlog_types::GroupId;

use super::writing::Writer;
use crate::flow::Flow;

/// The reading side.
pub(super) struct Reader {
    /// Groups that the filter lets through, as last listed.
    followed: Vec<GroupId>,
    listing_due: Instant,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { followed: Vec::new(), listing_due: Instant::now() }
    }

    /// Groups that the filter lets through, as last listed.
    pub(super) fn followed(&self) -> &[GroupId] {
        &self.followed
    }

    /// Lists the groups, when it is time to. Answers whether it was.
    pub(super) async fn list(
        &mut self,
        flow: &Flow,
        writer: &mut Writer,
    ) -> Result<bool, ClientError> {
        let first = self.followed.is_empty();
        let refresh = first || flow.config.refresh_groups_enabled;
        if !refresh || Instant::now() < self.listing_due {
            return Ok(false);
        }
        let listed = flow.source.list_groups().await?;
        flow.source_reached();
        let now_ms = flow.now_ms();
        let mut followed = Vec::new();
        for listing in listed {
            if listing.kind == GroupKind::Share {
                continue;
            }
            let selection = select(&flow.config.groups, listing.group.as_str(), true);
            writer.tracker.select(&listing.group, &selection, now_ms);
            if selection == GroupSelection::Followed {
                followed.push(listing.group);
            }
        }
        let present: BTreeSet<&GroupId> = followed.iter().collect();
        writer.retain(&present);
        self.followed = followed;
        let interval = Flow::no_later_than(
            flow.options.discovery_interval,
            flow.config.refresh_groups_interval,
        );
        self.listing_due = Instant::now() + interval;
        Ok(true)
    }
}
