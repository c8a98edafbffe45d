//! Who owns a flow of which several processes run the same file.
//!
//! The first shard's transactional id decides. Whoever opens it fences the owner before, and says
//! that it lives with a lease. A process that begins takes the flow over from whoever is there; after
//! that a process opens the id only once it has heard nothing of the owner for long enough.
//!
//! Does not: stop the one that lost the flow. That one finds out at its next write of the state.
//!
//! # Invariants
//!
//! 1. A process that has begun once never fences another one that lives: what it has opened it goes
//!    on with, however often the rest of its start fails, and a refused write ends it.
//! 2. Silence is counted in answers, not in seconds: so many questions in a row, each asked after the
//!    one before was answered. Time in which this process stood still, or the target did, is one
//!    question, and an error begins the count anew.
//! 3. Nothing is waited for between the silence and the takeover.

use std::time::Duration;

use tokio::time::Instant;
use twinlog_client::{ClientError, Cluster, ErrorCode, Transactional};
use twinlog_offsets::state::{Lease, StateRecord};
use twinlog_types::{ClusterAlias, ClusterId, TopicPartition};

use crate::options::Clock;
use crate::state::{self, Stored, TRANSACTION_TIMEOUT};
use crate::tenure::{Before, Tenure};

/// The owner of a flow says this often that it lives.
pub(crate) const LEASE_INTERVAL: Duration = Duration::from_secs(3);
/// An owner that has been silent for so long is gone.
pub(crate) const LEASE_EXPIRY: Duration = Duration::from_secs(10);
/// Who stands by asks this often.
pub(crate) const QUESTION_INTERVAL: Duration = Duration::from_secs(1);
/// So many questions in a row that brought nothing new are the silence of [`LEASE_EXPIRY`].
const QUESTIONS: u64 = LEASE_EXPIRY.as_secs() / QUESTION_INTERVAL.as_secs();

/// Says that `instance` owns the flow, or that it has given it up.
pub(crate) fn lease(
    (source, target): &(ClusterId, ClusterId),
    instance: &str,
    now_ms: i64,
    released: bool,
) -> StateRecord {
    StateRecord::Lease {
        source_cluster: source.clone(),
        target_cluster: target.clone(),
        shard: 0,
        lease: Lease { instance: instance.to_owned(), renewed_ms: now_ms, released },
    }
}

/// What a process may do to become the owner.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    right: Option<Right>,
    /// Once opened. Whoever opens it later fences this process, so that going on with it takes
    /// nothing from anybody.
    first: Option<Transactional>,
    /// The last lease of an owner that fell silent.
    silent: Option<Lease>,
    /// The process by this name owned the flow until its tasks broke: its own lease is nobody else's.
    interrupted: Option<String>,
}

/// Why the first shard may be opened.
#[derive(Clone, Copy, Debug)]
enum Right {
    /// The process begins.
    Fresh,
    /// The owner was silent as of the last question, which was asked then.
    Silent(Instant),
}

/// The state as its owner holds it.
pub(crate) struct Owned {
    pub(crate) stored: Stored,
    pub(crate) shards: Vec<Transactional>,
    /// For how long this process may act on that.
    pub(crate) tenure: Tenure,
}

impl Claim {
    /// A process that begins takes over from whoever is there.
    pub(crate) fn fresh() -> Self {
        Self { right: Some(Right::Fresh), ..Self::default() }
    }

    /// The process `instance` owned the flow until its tasks broke.
    pub(crate) fn interrupted(instance: &str) -> Self {
        Self { interrupted: Some(instance.to_owned()), ..Self::default() }
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.is_some()
    }

    fn silent(asked: Instant, silent: Option<Lease>) -> Self {
        Self { right: Some(Right::Silent(asked)), silent, ..Self::default() }
    }

    /// Whether [`own`] may be tried. Otherwise somebody else may own the flow: [`stand_by`] tells.
    pub(crate) fn may_own(&self) -> bool {
        self.right.is_some() || self.first.is_some()
    }

    /// Opens the first shard, unless that was done.
    async fn begin(&mut self, target: &Cluster, source: &ClusterAlias) -> Result<(), ClientError> {
        if let Some(first) = &mut self.first {
            return first.reopen().await;
        }
        let id = state::transactional_id(source, 0);
        let opening = target.transactional(&id, TRANSACTION_TIMEOUT);
        let late = || ClientError::Timeout { what: "taking over from a silent owner".into() };
        let opened = match self.right {
            Some(Right::Fresh) => opening.await?,
            Some(Right::Silent(asked)) => {
                self.right = None;
                // This process may have stood still meanwhile: the owner may be back.
                if asked.elapsed() > LEASE_INTERVAL {
                    return Err(late());
                }
                tokio::time::timeout(LEASE_EXPIRY, opening).await.map_err(|_| late())??
            }
            None => return Err(late()),
        };
        self.right = None;
        self.first = Some(opened);
        Ok(())
    }
}

/// Becomes the owner: fences the one before, then reads.
///
/// The first shard's id decides: who holds that one owns the flow, and says so with a lease before
/// anything is read. Of several processes that come at once, each may have opened some of the
/// other ids last; with the ids as equals they would all fence each other.
///
/// # Errors
///
/// [`ClientError::Fenced`] when another process came at the same time or later, and owns the flow.
/// After any other error this may be tried again while [`Claim::may_own`].
pub(crate) async fn own(
    target: &Cluster,
    source: &ClusterAlias,
    pair: &(ClusterId, ClusterId),
    claim: &mut Claim,
    (instance, clock): (&str, &Clock),
) -> Result<Owned, ClientError> {
    let topic = state::topic_name(source);
    let shards = state::partitions(target, &topic).await?;
    if shards == 0 {
        // The broker that was asked has not heard of it: nothing read would look like no state.
        return Err(ClientError::Code {
            api: "Metadata",
            code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            message: None,
            about: topic.to_string(),
        });
    }
    claim.begin(target, source).await?;
    let began = Instant::now();
    let mut opening = Vec::new();
    for shard in 1..shards {
        let (target, id) = (target.clone(), state::transactional_id(source, shard as usize));
        opening.push(tokio::spawn(
            async move { target.transactional(&id, TRANSACTION_TIMEOUT).await },
        ));
    }
    let mut others = Vec::new();
    for task in opening {
        match task.await {
            Ok(opened) => others.push(opened?),
            // A panic is a bug: it goes on upwards.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    let Some(first) = &mut claim.first else {
        return Err(ClientError::Timeout { what: "the first shard of the state".into() });
    };
    let tp = TopicPartition { topic: topic.clone(), partition: 0 };
    let now_ms = clock();
    let lease = state::record(&lease(pair, instance, now_ms, false), now_ms);
    first.write(vec![(tp, vec![lease])]).await?;
    let mut stored = Stored::default();
    for shard in 0..shards {
        state::read_shard(target, &topic, shard, 0, pair, &mut stored).await?;
    }
    let before = match stored.lease_of_another(instance) {
        Some(lease) if lease.released => Before::Answered,
        Some(lease) if claim.silent.as_ref() != Some(lease) => {
            Before::SendsUntil(began + LEASE_EXPIRY)
        }
        // Silent for as long as it may send without a word; or this process itself, interrupted.
        Some(_) | None => Before::SendsUntil(began),
    };
    let tenure = Tenure::new(began, before);
    let shards = claim.first.take().into_iter().chain(others).collect();
    Ok(Owned { stored, shards, tenure })
}

/// Follows the lease of the present owner until it has been silent for [`LEASE_EXPIRY`] or was given
/// up. Answers the claim that follows, which is to be used at once.
///
/// # Errors
///
/// When the owner cannot be listened for, which says nothing about it: the silence begins anew.
pub(crate) async fn stand_by(
    target: &Cluster,
    source: &ClusterAlias,
    pair: &(ClusterId, ClusterId),
    claim: &Claim,
) -> Result<Claim, ClientError> {
    let topic = state::topic_name(source);
    let mut position = 0;
    let id = state::transactional_id(source, 0);
    let mut transaction = None;
    let mut seen: Option<Lease> = None;
    let mut unheard = 0;
    loop {
        let mut stored = Stored::default();
        let asked = Instant::now();
        position = state::read_shard(target, &topic, 0, position, pair, &mut stored).await?;
        // Nobody can renew a lease while the coordinator is away: that is no silence. Where each
        // transaction raises the epoch, a new one is a sign of life as well.
        let open = target.describe_transaction(&id).await?;
        if open != transaction {
            transaction = open;
            unheard = 0;
        }
        match stored.lease {
            Some(lease)
                if lease.released || claim.interrupted.as_ref() == Some(&lease.instance) =>
            {
                return Ok(Claim::silent(asked, None));
            }
            Some(lease) if seen.as_ref() != Some(&lease) => {
                unheard = 0;
                seen = Some(lease);
            }
            _ => unheard += 1,
        }
        if unheard >= QUESTIONS {
            return Ok(Claim::silent(asked, seen));
        }
        tokio::time::sleep(QUESTION_INTERVAL).await;
    }
}
