//! Finds out, where a group stands on records that somebody else copied, where that is on the
//! target: what lies between two known places is compared, and remembered for good.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};
use twinlog_client::ClientError;
use twinlog_offsets::UnknownRange;
use twinlog_offsets::state::StateRecord;
use twinlog_types::{Code, SourceOffset, TopicPartition};

use super::mm2::Pair;
use super::store;
use super::walk::Sides;
use crate::cell::Cell;
use crate::flow::Flow;

/// How often positions that somebody asked for are looked at.
const INTERVAL: Duration = Duration::from_millis(250);
/// After so long what did not match is compared again.
const AGAIN_AFTER_MS: i64 = 600_000;

/// What did not match, and when that was found.
type InVain = BTreeMap<(TopicPartition, SourceOffset), i64>;

/// Compares on demand until the flow ends, one stretch at a time.
pub(crate) async fn run(flow: Arc<Flow>) {
    let ending = flow.ending();
    let mut in_vain = InVain::new();
    let mut backoff = flow.backoff(9_000);
    loop {
        tokio::select! {
            biased;
            () = ending.ended() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        for cell in flow.cells.all() {
            let wanted = std::mem::take(&mut *cell.wanted.lock());
            if wanted.is_empty() {
                continue;
            }
            let compared = tokio::select! {
                biased;
                () = ending.ended() => return,
                compared = compare(&flow, &cell, wanted, &mut in_vain) => compared,
            };
            match compared {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    warn!(flow = %flow.name, partition = %cell.source, %error, "what was taken over cannot be compared now; it is tried again");
                    backoff.wait().await;
                }
            }
        }
    }
}

async fn compare(
    flow: &Flow,
    cell: &Arc<Cell>,
    wanted: BTreeSet<SourceOffset>,
    in_vain: &mut InVain,
) -> Result<(), ClientError> {
    // The newest first: its group is the nearest to the end.
    for position in wanted.into_iter().rev() {
        let unknown = cell.copier.lock().map().unknown_at(position);
        let Some(unknown) = unknown else { continue };
        let id = (cell.source.clone(), position);
        if in_vain.get(&id).is_some_and(|&since| flow.now_ms() - since < AGAIN_AFTER_MS) {
            continue;
        }
        let matched = rebuild(flow, cell, position, unknown).await?;
        if cell.copier.lock().map().unknown_at(position).is_some() {
            in_vain.insert(id, flow.now_ms());
            let text = format!(
                "source offset {position} lies in a stretch that was copied by somebody else and whose contents do not match ({matched} records of it do): positions in it are translated to the last record known before them, and records are read again"
            );
            warn!(flow = %flow.name, partition = %cell.source, code = %Code::TranslationCoarse, "{text}");
            flow.event(cell, Code::TranslationCoarse, text);
        }
    }
    Ok(())
}

/// Compares what lies around `position`; answers how many records matched.
async fn rebuild(
    flow: &Flow,
    cell: &Arc<Cell>,
    position: SourceOffset,
    unknown: UnknownRange,
) -> Result<u64, ClientError> {
    let sides = Sides::new(
        &flow.config,
        (flow.source.clone(), cell.source.clone()),
        (flow.target.clone(), cell.target.clone()),
    )
    .await?;
    let left = flow.left().await?;
    let pairs = left.pairs.get(&cell.source).map(Vec::as_slice).unwrap_or_default();
    let inside = |pair: &&Pair| {
        (unknown.from..unknown.to).contains(&pair.0)
            && unknown.target_from.unwrap_or_default() <= pair.1
            && pair.1 < unknown.target_to
    };
    let inside: Vec<Pair> = pairs.iter().filter(inside).copied().collect();
    let middle = inside.partition_point(|pair| pair.0 <= position);
    let mut to = (unknown.to, unknown.target_to);
    if let Some(&pair) = inside.get(middle)
        && sides.is_pair(pair).await?
    {
        to = pair;
    }
    let mut from = unknown.target_from.map(|target| (unknown.from, target));
    if let Some(&pair) = middle.checked_sub(1).and_then(|index| inside.get(index))
        && sides.is_pair(pair).await?
    {
        from = Some(pair);
    }
    let from = match from {
        Some(from) => Some(from),
        None => sides.first_pair(to).await?,
    };
    let Some(from) = from else { return Ok(0) };
    let mut refused = None;
    let aligned = sides
        .between(from, to, &mut |stretch| {
            let taken = cell.copier.lock().inherit(stretch.clone());
            match taken {
                Ok(()) => {
                    store(flow, &cell.target, &[StateRecord::Inherited(cell.key.clone(), stretch)]);
                }
                Err(error) => refused = Some(error),
            }
        })
        .await?;
    flow.dirty(cell.shard).urgent();
    if let Some(error) = refused {
        warn!(flow = %flow.name, partition = %cell.source, %error, "a stretch of what was taken over is left out");
    }
    info!(
        flow = %flow.name, partition = %cell.source,
        matched = aligned.matched, source_only = aligned.source_only, target_only = aligned.target_only,
        "compared source offsets {} to {} with target offsets {} to {}", from.0, to.0, from.1, to.1
    );
    Ok(aligned.matched)
}
