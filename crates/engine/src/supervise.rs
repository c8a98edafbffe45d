//! One flow from reaching its clusters to its orderly end: connecting, owning, standing by.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{info, warn};
use twinlog_client::{ClientError, Cluster, ErrorCode};
use twinlog_flow::copy::Producer;
use twinlog_mirror::FlowConfig;
use twinlog_types::{ClusterAlias, ClusterId, Code, FlowName, State};

use crate::backoff::Backoff;
use crate::board::Board;
use crate::decisions::{self, Decisions};
use crate::ending::{Ending, Stage};
use crate::flow::{Flow, Lost, Parts};
use crate::options::EngineOptions;
use crate::ownership::{self, Claim};
use crate::{factors, groups, report, state, syncs, takeover, tenure, topics};

/// A start that fails for the same reason is said again in the log after so long.
const SAID_AGAIN_AFTER: Duration = Duration::from_mins(10);

/// What one flow is run with.
pub(crate) struct Supervised {
    pub(crate) config: Arc<FlowConfig>,
    pub(crate) opposite: Option<Arc<FlowConfig>>,
    pub(crate) source: Cluster,
    pub(crate) target: Cluster,
    pub(crate) options: Arc<EngineOptions>,
    pub(crate) board: Arc<Board>,
    pub(crate) budget: Arc<Semaphore>,
}

enum End {
    /// Told to stop; the state is stored.
    Stopped,
    /// Another process owns the flow.
    Lost(String),
    /// One of its tasks panicked.
    Broken,
}

/// Runs the flow until told to stop.
pub(crate) async fn run(supervised: Supervised, stop: Ending) {
    let name = supervised.config.name.clone();
    let mut backoff = Backoff::new(supervised.options.seed ^ 0x00f1_0000);
    let mut claim = Claim::fresh();
    let mut failing = Failing::default();
    while !stop.is_ended() {
        let pair = tokio::select! {
            biased;
            () = stop.ended() => return,
            pair = identify(&supervised) => pair,
        };
        let Some(pair) = pair else {
            wait_or_stop(&mut backoff, &stop).await;
            continue;
        };
        if pair.0 == pair.1 {
            supervised.board.stand(
                &name,
                State::Stopped,
                Some(Code::SameCluster),
                &format!(
                    "{} and {} are the same cluster ({}): mirroring it to itself would never end; correct {}.bootstrap.servers or {}.bootstrap.servers",
                    name.source, name.target, pair.0, name.source, name.target
                ),
            );
            stop.ended().await;
            return;
        }
        if let Some(reason) =
            takeover::mm2::still_runs(&supervised.config, &supervised.target).await
        {
            let code = Some(Code::Mm2StillRuns);
            supervised.board.stand(&name, State::Waiting, code, &reason);
            wait_or_stop(&mut backoff, &stop).await;
            continue;
        }
        match attend(&supervised, &pair, &mut claim, (&mut backoff, &mut failing), &stop).await {
            ControlFlow::Break(()) => return,
            ControlFlow::Continue(()) => wait_or_stop(&mut backoff, &stop).await,
        }
    }
}

/// Owns the flow, or stands by until it may, until told to stop. Goes on when a start has failed.
async fn attend(
    supervised: &Supervised,
    pair: &(ClusterId, ClusterId),
    claim: &mut Claim,
    (backoff, failing): (&mut Backoff, &mut Failing),
    stop: &Ending,
) -> ControlFlow<()> {
    let name = &supervised.config.name;
    let stand = |code, reason: &str| supervised.board.stand(name, State::Waiting, code, reason);
    loop {
        if !claim.may_own() {
            // Nothing is waited for between the silence and the takeover: the owner may come back.
            match until_silent(supervised, pair, claim, backoff, stop).await {
                Some(silent) => *claim = silent,
                None => return ControlFlow::Break(()),
            }
        }
        let run = own_and_run(supervised, pair, claim, stop).await;
        if run.is_ok() {
            *failing = Failing::default();
        }
        match run {
            Ok(End::Stopped) => return ControlFlow::Break(()),
            Ok(End::Lost(reason)) => {
                *claim = Claim::default();
                stand(
                    Some(Code::OwnedElsewhere),
                    &format!(
                        "another twinlog run owns this flow ({reason}); this one stands by and takes over when that one falls silent"
                    ),
                );
            }
            Ok(End::Broken) => {
                *claim = Claim::interrupted(&supervised.options.instance);
                stand(
                    None,
                    "a task of this flow panicked, which is a bug of twinlog (see the log above): the flow starts anew from its state",
                );
                return ControlFlow::Continue(());
            }
            Err(error) => {
                let now_ms = (supervised.options.clock)();
                supervised.board.unreachable(name, false, &error, now_ms);
                failing.again(supervised, &error);
                return ControlFlow::Continue(());
            }
        }
    }
}

/// Starts that fail one after the other.
#[derive(Default)]
struct Failing {
    first: Option<Instant>,
    tries: u32,
    said: Option<(Instant, String)>,
}

impl Failing {
    /// Takes note of one more: on the board, and in the log when it is another reason than before, or
    /// when nothing was said for long.
    fn again(&mut self, supervised: &Supervised, error: &ClientError) {
        let name = &supervised.config.name;
        let (state, code, reason) =
            if let Some((code, reason)) = factors::refused_start(&supervised.config, error) {
                // It hangs on what somebody has to change.
                (State::Stopped, Some(code), reason)
            } else {
                let reason = format!(
                    "the flow cannot start, so nothing of it is copied: {error}; it is tried again \
                     every few seconds"
                );
                (State::Waiting, code_of(error), reason)
            };
        let reason = supervised.options.pasteable(&reason);
        supervised.board.stand(name, state, code, &reason);
        self.tries = self.tries.saturating_add(1);
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        match &mut self.said {
            Some((at, said)) if *said == reason => {
                if now.duration_since(*at) >= SAID_AGAIN_AFTER {
                    *at = now;
                    let minutes = now.duration_since(first).as_secs() / 60;
                    let code = code.map(Code::word).unwrap_or_default();
                    warn!(flow = %name, code, "still so after {} tries in {minutes} minutes: {reason}", self.tries);
                }
            }
            said => {
                if code.is_none() {
                    // The board tells what has no code as a mere step.
                    warn!(flow = %name, "{reason}");
                }
                *said = Some((now, reason));
            }
        }
    }
}

/// Stands by until the owner is silent. That its lease cannot be read says nothing about it. Nothing
/// when told to stop.
async fn until_silent(
    supervised: &Supervised,
    pair: &(ClusterId, ClusterId),
    claim: &Claim,
    backoff: &mut Backoff,
    stop: &Ending,
) -> Option<Claim> {
    let name = &supervised.config.name;
    let standing_by = async {
        loop {
            match ownership::stand_by(&supervised.target, &name.source, pair, claim).await {
                Ok(silent) => return silent,
                Err(error) => {
                    let now_ms = (supervised.options.clock)();
                    supervised.board.unreachable(name, false, &error, now_ms);
                    backoff.wait().await;
                }
            }
        }
    };
    let silent = tokio::select! {
        biased;
        () = stop.ended() => return None,
        silent = standing_by => silent,
    };
    if !claim.is_interrupted() {
        info!(flow = %name, "the other owner is silent: taking over");
    }
    Some(silent)
}

fn code_of(error: &ClientError) -> Option<Code> {
    match error {
        ClientError::Unreachable { .. }
        | ClientError::Timeout { .. }
        | ClientError::Closed { .. } => Some(Code::Unreachable),
        ClientError::Unsupported { .. } => Some(Code::UnsupportedVersion),
        ClientError::Code {
            code:
                ErrorCode::TOPIC_AUTHORIZATION_FAILED
                | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
                | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ..
        } => Some(Code::MissingPermission),
        _ => None,
    }
}

async fn wait_or_stop(backoff: &mut Backoff, stop: &Ending) {
    tokio::select! {
        biased;
        () = stop.ended() => {}
        () = backoff.wait() => {}
    }
}

/// After so long without a word from a cluster the log says that it is waited for; the client gives
/// a request up much later.
const SILENT_AFTER: Duration = Duration::from_secs(3);

/// The cluster's id. A cluster that takes connections and says nothing is named meanwhile.
async fn id_of(
    flow: &FlowName,
    alias: &ClusterAlias,
    cluster: &Cluster,
) -> Result<ClusterId, ClientError> {
    let asked = cluster.cluster_id();
    tokio::pin!(asked);
    tokio::select! {
        biased;
        id = &mut asked => return id,
        () = tokio::time::sleep(SILENT_AFTER) => {}
    }
    warn!(
        %flow, code = %Code::Unreachable,
        "{alias} at {} has not answered for {} s; waiting goes on, check {alias}.bootstrap.servers",
        cluster.bootstrap(),
        SILENT_AFTER.as_secs()
    );
    asked.await
}

/// The ids of both clusters, once both answer.
async fn identify(supervised: &Supervised) -> Option<(ClusterId, ClusterId)> {
    let name = &supervised.config.name;
    let (source, target) = tokio::join!(
        id_of(name, &name.source, &supervised.source),
        id_of(name, &name.target, &supervised.target),
    );
    let now_ms = (supervised.options.clock)();
    for (side, answer) in [(true, &source), (false, &target)] {
        match answer {
            Ok(_) => supervised.board.reached(name, side),
            Err(error) => supervised.board.unreachable(name, side, error, now_ms),
        }
    }
    Some((source.ok()?, target.ok()?))
}

/// Ends the flow's tasks with the ownership, also when the owner itself is given up half-way.
struct Owned(Arc<Flow>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.enter(Stage::Drained);
        self.0.abort();
    }
}

async fn own_and_run(
    supervised: &Supervised,
    pair: &(ClusterId, ClusterId),
    claim: &mut Claim,
    stop: &Ending,
) -> Result<End, ClientError> {
    let config = &supervised.config;
    let target = &supervised.target;
    let opening = async {
        let factor = config.offset_syncs_topic_replication_factor;
        state::ensure_topic(target, &config.name.source, factor).await?;
        let own = (supervised.options.instance.as_str(), &supervised.options.clock);
        // Before anything is copied: a pause outlives whoever noticed it. And before the flow is owned,
        // which would be lost again with these.
        let mut decisions = Decisions::default();
        let (producer, read) = tokio::join!(
            target.init_producer_id(),
            decisions.read_on(target, &config.name.source, pair),
        );
        let producer = producer?;
        read?;
        let owned = ownership::own(target, &config.name.source, pair, claim, own).await?;
        Ok::<_, ClientError>((owned, producer, decisions))
    };
    let (owned, (id, epoch), decisions) = tokio::select! {
        biased;
        () = stop.ended() => return Ok(End::Stopped),
        opened = opening => match opened {
            Err(fenced @ ClientError::Fenced { .. }) => return Ok(End::Lost(fenced.to_string())),
            opened => opened?,
        },
    };
    for damaged in &owned.stored.damaged {
        warn!(flow = %config.name, code = %Code::StateCorrupt, "{damaged}");
    }
    let (flow, lost) = Flow::new(Parts {
        config: config.clone(),
        opposite: supervised.opposite.clone(),
        source: supervised.source.clone(),
        target: target.clone(),
        pair: pair.clone(),
        producer: Producer { id, epoch },
        stored: owned.stored,
        decisions,
        shards: owned.shards.len(),
        tenure: owned.tenure,
        options: supervised.options.clone(),
        board: supervised.board.clone(),
        budget: supervised.budget.clone(),
    });
    supervised.board.stand(&config.name, State::CatchingUp, None, "copying");
    let mut writers = JoinSet::new();
    for (shard, transactional) in owned.shards.into_iter().enumerate() {
        let flow = flow.clone();
        writers.spawn(async move {
            let _watched = flow.watched();
            let written = state::write_shard(flow.clone(), shard, transactional).await;
            if let Err(error) = written {
                flow.lost(error.to_string());
            }
        });
    }
    let keeping = flow.clone();
    writers.spawn(async move {
        let _watched = keeping.watched();
        takeover::keep::run(keeping.clone()).await;
    });
    flow.spawn(tenure::watch(flow.clone()));
    flow.spawn(topics::run(flow.clone()));
    flow.spawn(groups::run(flow.clone()));
    flow.spawn(decisions::run(flow.clone()));
    flow.spawn(syncs::run(flow.clone()));
    flow.spawn(report::run(flow.clone()));
    flow.spawn(takeover::rebuild::run(flow.clone()));
    let _tasks = Owned(flow.clone());
    Ok(run_until(&flow, lost, &mut writers, stop).await)
}

async fn run_until(
    flow: &Arc<Flow>,
    mut lost: mpsc::UnboundedReceiver<Lost>,
    writers: &mut JoinSet<()>,
    stop: &Ending,
) -> End {
    tokio::select! {
        biased;
        reason = lost.recv() => {
            return match reason {
                Some(Lost::Owner(reason)) => End::Lost(reason),
                Some(Lost::Broken) => End::Broken,
                None => End::Lost("its tasks ended".into()),
            };
        }
        () = stop.ended() => {}
    }
    flow.enter(Stage::Draining);
    let settled = async {
        while flow.cells.all().iter().any(|cell| cell.copier.lock().unacknowledged() > 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(flow.options.drain, settled).await.is_err() {
        warn!(flow = %flow.name, "not everything in flight was answered in time; the next start looks at the target's tail");
    }
    flow.enter(Stage::Drained);
    let stored = async { while writers.join_next().await.is_some() {} };
    if tokio::time::timeout(flow.options.drain, stored).await.is_err() {
        warn!(flow = %flow.name, "the state could not be stored in time; the next start recovers from what is there");
    }
    End::Stopped
}
