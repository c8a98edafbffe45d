//! Follows consumer groups: reads their commits on the source, translates them, writes them on
//! the target and as MM2's checkpoints.
//!
//! - [`reading`]: which groups there are, and what they have committed on the source.
//! - [`targets`]: what they have committed on the target, and whether they have members there.
//! - [`writing`]: decides with [`twinlog_flow::groups`] and commits on the target.
//! - [`journal`]: what is committed is durable before it is sent.
//! - [`checkpoints`]: writes what was confirmed as MM2's checkpoints.
//!
//! All groups of a round are read with one request for each coordinator.

mod checkpoints;
mod journal;
mod reading;
mod targets;
mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::warn;
use twinlog_client::{ClientError, CommittedOffset, ErrorCode};
use twinlog_flow::Standing;
use twinlog_types::{
    Code, GroupId, Planted, SourceOffset, State, TargetOffset, Translation, planted,
};

use crate::cell::Cell;
use crate::flow::Flow;
use checkpoints::Checkpoints;
use reading::Reader;
use targets::Targets;
use writing::Writer;

/// Commits of groups, or why a group's could not be read.
type Commits = BTreeMap<GroupId, Result<Vec<CommittedOffset>, ErrorCode>>;

/// Follows groups until the flow ends.
pub(crate) async fn run(flow: Arc<Flow>) {
    let config = &flow.config;
    if !config.sync_group_offsets_enabled && !config.emit_checkpoints_enabled {
        return;
    }
    let mut reader = Reader::new();
    let mut writer = Writer::new(&flow);
    let mut checkpoints = Checkpoints::new();
    let ending = flow.ending();
    let interval =
        Flow::no_later_than(flow.options.groups_interval, config.sync_group_offsets_interval);
    loop {
        let round = tokio::select! {
            biased;
            () = ending.ended() => return,
            round = round(&flow, &mut reader, &mut writer, &mut checkpoints) => round,
        };
        if let Err(error) = round {
            warn!(flow = %flow.name, %error, "groups cannot be followed now; the next round tries again");
            flow.target_unreachable(&error);
        }
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn round(
    flow: &Arc<Flow>,
    reader: &mut Reader,
    writer: &mut Writer,
    checkpoints: &mut Checkpoints,
) -> Result<(), ClientError> {
    if reader.list(flow, writer).await? {
        checkpoints.retain(reader.followed());
    }
    checkpoints.prepare(flow).await?;
    if reader.followed().is_empty() {
        return Ok(());
    }
    let sources = flow.source.fetch_offsets(reader.followed()).await?;
    let targets = Targets::read(flow, reader.followed()).await?;
    writing::write(flow, writer, &sources, &targets).await;
    checkpoints.write(flow, writer, &sources).await
}

/// How a group stands whose offsets cannot be read on one side.
fn unreadable(code: ErrorCode, group: &GroupId, side: &str) -> Standing {
    let reason = format!("the offsets of {group} cannot be read on {side}: {code}");
    if code == ErrorCode::GROUP_AUTHORIZATION_FAILED {
        Standing::found(State::Unknown, Code::MissingPermission, reason)
    } else {
        Standing::because(State::Unknown, reason)
    }
}

/// Where a source position is on the target, and how far the target is copied.
fn translate(
    cell: &Cell,
    position: SourceOffset,
) -> (Translation<TargetOffset>, Option<TargetOffset>) {
    let copier = cell.copier.lock();
    if !copier.is_settled() {
        // What a former owner copied is known only after the look.
        return (Translation::Unknown, None);
    }
    let map = copier.map();
    if planted(Planted::GuessesAhead) && position > map.copied_to() {
        let guess = map.target_end().plus(position.since(map.copied_to()));
        return (Translation::Exact(guess), None);
    }
    (map.translate(position), Some(map.target_end()))
}
