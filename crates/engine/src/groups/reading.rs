//! Which groups there are on the source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::warn;
use twinlog_client::{ClientError, GroupKind, GroupListing};
use twinlog_flow::groups::{GroupSelection, select};
use twinlog_types::{GroupId, TopicId, TopicName};

use crate::commits::Commits;
use crate::flow::Flow;

/// So many listings in a row must be without a group before it counts as gone: a commit may just
/// have made it, and a coordinator that has just moved may not know it yet.
const MISSED_MAX: u32 = 3;

/// What the listings told, for whoever decides about groups.
#[derive(Default)]
pub(super) struct Listed {
    /// Every listed group, and whether it is followed.
    pub(super) selections: Vec<(GroupId, GroupSelection)>,
    /// Topics that were deleted and made again.
    pub(super) made_again: Vec<TopicName>,
}

/// The lister: runs beside the rounds, which must not wait for a broker that does not answer.
pub(super) struct Lister {
    commits: Arc<Commits>,
    listed: Mutex<Option<Listed>>,
}

impl Lister {
    /// Lists groups for as long as the flow lives.
    pub(super) fn start(flow: &Arc<Flow>, commits: &Arc<Commits>) -> Arc<Self> {
        let lister = Arc::new(Self { commits: commits.clone(), listed: Mutex::default() });
        flow.spawn(run(flow.clone(), lister.clone()));
        lister
    }

    /// What was listed since the last call.
    pub(super) fn take(&self) -> Option<Listed> {
        self.listed.lock().take()
    }
}

async fn run(flow: Arc<Flow>, lister: Arc<Lister>) {
    let ending = flow.ending();
    let interval =
        Flow::no_later_than(flow.options.discovery_interval, flow.config.refresh_groups_interval);
    let mut missed = BTreeMap::new();
    let mut ids = BTreeMap::new();
    loop {
        let followed = lister.commits.len();
        if followed == 0 || flow.config.refresh_groups_enabled {
            let listed = tokio::select! {
                biased;
                () = ending.ended() => return,
                listed = list(&flow, &lister.commits, &mut missed) => listed,
            };
            match listed {
                Ok(selections) => {
                    flow.source_reached();
                    let made_again = made_again(&flow, &mut ids);
                    for topic in &made_again {
                        lister.commits.forget_topic(topic);
                    }
                    let mut listed = lister.listed.lock();
                    let before = listed.take().unwrap_or_default().made_again;
                    let made_again = before.into_iter().chain(made_again).collect();
                    *listed = Some(Listed { selections, made_again });
                    drop(listed);
                    lister.commits.wake();
                }
                Err(error) => {
                    warn!(flow = %flow.name, %error, "groups cannot be listed; trying goes on");
                    flow.source_unreachable(&error);
                }
            }
        }
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn list(
    flow: &Flow,
    commits: &Commits,
    missed: &mut BTreeMap<GroupId, u32>,
) -> Result<Vec<(GroupId, GroupSelection)>, ClientError> {
    let listed = flow.source.list_groups().await?;
    note_share_groups(flow, commits, &listed);
    let mut selections = Vec::new();
    for listing in listed {
        let selection = select(&flow.config.groups, listing.group.as_str(), true);
        selections.push((listing.group, selection));
    }
    let is_followed = |(_, selection): &&(_, _)| *selection == GroupSelection::Followed;
    let followed: BTreeSet<&GroupId> =
        selections.iter().filter(is_followed).map(|(group, _)| group).collect();
    commits.follow(followed.iter().copied());
    missed.retain(|group, _| !followed.contains(group));
    for group in commits.groups().into_iter().filter(|group| !followed.contains(group)) {
        *missed.entry(group).or_default() += 1;
    }
    commits.retain(|group| missed.get(group).is_none_or(|count| *count < MISSED_MAX));
    missed.retain(|_, count| *count < MISSED_MAX);
    Ok(selections)
}

/// Notes which groups are share groups. One that this listing misses is still what it was.
fn note_share_groups(flow: &Flow, commits: &Commits, listed: &[GroupListing]) {
    let names: BTreeSet<&GroupId> = listed.iter().map(|listing| &listing.group).collect();
    let before = flow.share_groups();
    let missed = commits.groups().into_iter();
    let missed = missed.filter(|group| before.contains(group) && !names.contains(group));
    let share = listed.iter().filter(|listing| listing.kind == GroupKind::Share);
    let share = share.map(|listing| listing.group.clone()).chain(missed).collect();
    *flow.share_groups.lock() = Arc::new(share);
}

/// Mirrored topics whose id on the source is another one than before.
fn made_again(flow: &Flow, ids: &mut BTreeMap<TopicName, TopicId>) -> Vec<TopicName> {
    let mut made_again = Vec::new();
    for cell in flow.cells.all() {
        let topic = &cell.source.topic;
        let Some(known) = flow.source.cached(topic) else { continue };
        if known.id == TopicId::NONE {
            continue;
        }
        let before = *ids.entry(topic.clone()).or_insert(known.id);
        if before != known.id {
            ids.insert(topic.clone(), known.id);
            made_again.push(topic.clone());
        }
    }
    made_again
}
