//! One cluster: who is asked, what is remembered, and when it is asked again.
//!
//! Does not: know replication, decide which topics matter, or create topics by asking for them.
//!
//! # Invariants
//!
//! 1. [`Cluster::new`] does no I/O, and no method tries for ever: each has
//!    [`ClusterOptions::deadline`] for its attempts (the last attempt may end one request timeout
//!    later).
//! 2. When no known broker answers, the bootstrap list is tried again: all addresses of a cluster
//!    may change while it lives.
//! 3. Nothing that reaches the wire, or a result, depends on the order of a hash map or on a
//!    clock other than tokio's: one seed gives one trace.
//!
//! # References
//!
//! KIP-320 (leader epochs in Metadata), KIP-516 (topic ids), KIP-1102 (bootstrapping again).

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use twinlog_protocol::messages::{
    MetadataRequest, metadata_request::MetadataRequestTopic, topic_name,
};
use twinlog_protocol::{ErrorCode, Request};
use twinlog_types::{BrokerId, ClusterId, TopicId, TopicName, TopicPartition};
use twinlog_wire::{Connection, Dial};

use crate::backoff::{Jitter, Retry};
use crate::connections::{Address, Connections, Purpose};
use crate::error::ClientError;
use crate::groups::CoordinatorKind;
use crate::join::join_all;
use crate::metadata::{Answer, BrokerInfo, Cache, Leader, TopicInfo, Topics};

/// How to reach a cluster, and how patient to be.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// `host:port`, at least one.
    pub bootstrap: Vec<String>,
    /// What every connection is made with.
    pub wire: twinlog_wire::Options,
    /// The first wait before an attempt is repeated; doubles up to `retry_backoff_max`, give or
    /// take a fifth.
    pub retry_backoff: Duration,
    /// The longest such wait.
    pub retry_backoff_max: Duration,
    /// Metadata older than this is asked for again, in the background, when it is used.
    pub metadata_max_age: Duration,
    /// How long one method goes on trying.
    pub deadline: Duration,
    /// Where the jitter of waits begins.
    pub seed: u64,
}

impl Default for ClusterOptions {
    /// Kafka's own defaults, where Kafka has them.
    fn default() -> Self {
        Self {
            bootstrap: Vec::new(),
            wire: twinlog_wire::Options::default(),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            metadata_max_age: Duration::from_mins(5),
            deadline: Duration::from_secs(30),
            seed: 0,
        }
    }
}

/// A client of one cluster. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: ClusterOptions,
    pub(crate) connections: Connections,
    pub(crate) jitter: Jitter,
    cache: Mutex<Cache>,
    changed: watch::Sender<u64>,
    refresh: Mutex<Refresh>,
    /// The address that answered last, tried first.
    last_good: Mutex<Option<Address>>,
    pub(crate) coordinators: Mutex<BTreeMap<(CoordinatorKind, String), BrokerId>>,
    /// How many bytes a group takes in an answer with committed offsets, as far as is known.
    pub(crate) bytes_per_group: AtomicUsize,
}

#[derive(Default)]
struct Refresh {
    running: bool,
    again: bool,
    /// Refreshes asked for since the last quiet time; lengthens the wait before the next.
    streak: u32,
    last: Option<Instant>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("bootstrap", &self.inner.options.bootstrap)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// A client of the cluster behind `options.bootstrap`. Connects when first asked something.
    pub fn new(options: ClusterOptions, dial: Arc<dyn Dial>) -> Self {
        let inner = Inner {
            connections: Connections::new(dial, options.wire.clone()),
            jitter: Jitter::new(options.seed),
            cache: Mutex::default(),
            changed: watch::Sender::new(0),
            refresh: Mutex::default(),
            last_good: Mutex::default(),
            coordinators: Mutex::default(),
            bytes_per_group: AtomicUsize::new(crate::positions::BYTES_PER_GROUP),
            options,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The addresses that the cluster is first looked for at, separated by commas.
    pub fn bootstrap(&self) -> String {
        self.inner.options.bootstrap.join(",")
    }

    /// The id the cluster gave itself.
    pub async fn cluster_id(&self) -> Result<ClusterId, ClientError> {
        if let Some(id) = self.inner.cache.lock().cluster_id.clone() {
            return Ok(id);
        }
        self.topics(Topics::Named(&[])).await?;
        self.inner.cache.lock().cluster_id.clone().ok_or_else(|| ClientError::Protocol {
            peer: self.bootstrap(),
            api: "Metadata",
            reason: "no cluster id".into(),
        })
    }

    /// The brokers that are alive, as the cluster says now, by node id.
    pub async fn brokers(&self) -> Result<Vec<BrokerInfo>, ClientError> {
        self.topics(Topics::Named(&[])).await?;
        Ok(self.known_brokers())
    }

    /// Asks about topics now and remembers the answer; never creates a topic. The answer is
    /// sorted by name; topics that do not exist or may not be seen carry their code. Leaders are
    /// the newest ever heard of, also when this answer was older.
    pub async fn topics(&self, which: Topics<'_>) -> Result<Vec<TopicInfo>, ClientError> {
        let answer = self.retrying(|| self.ask_any(|_| metadata_request(which))).await?;
        Ok(self.take_over(Answer::from(answer), matches!(which, Topics::All)))
    }

    /// What is known of a topic without asking.
    pub fn cached(&self, topic: &TopicName) -> Option<Arc<TopicInfo>> {
        self.refresh_when_old();
        self.inner.cache.lock().topic(topic)
    }

    /// The leader of a partition as last heard, without asking.
    pub fn leader(&self, tp: &TopicPartition) -> Option<Leader> {
        let topic = self.cached(&tp.topic)?;
        let info = topic.partition(tp.partition)?;
        Some(Leader { broker: info.leader?, epoch: info.leader_epoch })
    }

    /// Says that what is known turned out wrong. One refresh of all known topics follows soon, in
    /// the background, however often this is called; when refreshes follow each other closely, the
    /// waits between them grow. Outside a tokio runtime this does nothing.
    pub fn metadata_stale(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut refresh = self.inner.refresh.lock();
        if refresh.running {
            refresh.again = true;
            return;
        }
        refresh.running = true;
        drop(refresh);
        runtime.spawn(refresh_in_background(Arc::downgrade(&self.inner)));
    }

    /// Counts the changes of what is known (leaders, ids, partitions, brokers).
    pub fn metadata_changed(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    fn refresh_when_old(&self) {
        let last = self.inner.refresh.lock().last;
        let max_age = self.inner.options.metadata_max_age;
        if last.is_some_and(|last| last.elapsed() > max_age) {
            self.metadata_stale();
        }
    }

    /// Merges an answer and gives back its topics as they are known now, by name.
    fn take_over(&self, answer: Answer, complete: bool) -> Vec<TopicInfo> {
        let mut topics = answer.topics.clone();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        let mut cache = self.inner.cache.lock();
        let changed = cache.merge(answer, complete);
        for topic in &mut topics {
            if topic.error.is_ok()
                && let Some(known) = cache.topic(&topic.name)
            {
                *topic = (*known).clone();
            }
        }
        drop(cache);
        self.inner.refresh.lock().last = Some(Instant::now());
        if changed {
            self.inner.changed.send_modify(|count| *count += 1);
        }
        topics
    }

    /// Asks several brokers about one topic and merges all answers, so that one broker that slept
    /// through a leader move is outvoted by epoch. Waits for the first answer as long as it takes,
    /// for the others only a moment more.
    pub(crate) async fn topic_from_several(
        &self,
        topic: &TopicName,
    ) -> Result<TopicInfo, ClientError> {
        let named = std::slice::from_ref(topic);
        let first = self.ask_any(|_| metadata_request(Topics::Named(named))).await?;
        let mut info = self.take_over(Answer::from(first), false).pop();
        let others =
            self.known_brokers().into_iter().take(BROKERS_ASKED).map(|broker| async move {
                let address = Address { host: broker.host, port: broker.port };
                let ask = self
                    .ask(Purpose::Control, &address, |_| metadata_request(Topics::Named(named)));
                tokio::time::timeout(self.inner.options.retry_backoff_max, ask).await
            });
        for answer in join_all(others).await {
            // A broker that does not answer has no say; the first answer stands.
            if let Ok(Ok(answer)) = answer
                && let Some(merged) = self.take_over(Answer::from(answer), false).pop()
                && (merged.error.is_ok() || info.is_none())
            {
                info = Some(merged);
            }
        }
        Ok(info.unwrap_or_else(|| {
            TopicInfo::failed(topic.clone(), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        }))
    }

    pub(crate) fn known_brokers(&self) -> Vec<BrokerInfo> {
        self.inner.cache.lock().brokers.values().cloned().collect()
    }

    pub(crate) fn known_id(&self, topic: &TopicName) -> Option<TopicId> {
        self.inner.cache.lock().topic(topic).map(|info| info.id).filter(|id| !id.is_none())
    }

    /// Remembers where a broker listens that a coordinator answer named before Metadata did.
    pub(crate) fn learn_broker(&self, id: BrokerId, host: &str, port: i32) {
        if let Ok(port) = u16::try_from(port) {
            self.inner.cache.lock().brokers.entry(id).or_insert_with(|| BrokerInfo {
                id,
                host: host.to_owned(),
                port,
                rack: None,
            });
        }
    }

    pub(crate) fn retry(&self) -> Retry<'_> {
        let ClusterOptions { retry_backoff, retry_backoff_max, deadline, .. } = self.inner.options;
        Retry::new(&self.inner.jitter, retry_backoff, retry_backoff_max, deadline)
    }

    /// Runs `attempt` until it succeeds, fails for good, or the deadline is near. That a topic does
    /// not exist is believed after a few answers: it may just have been created, but whoever asks
    /// for one that is gone shall not wait for the whole deadline.
    pub(crate) fn retrying<'a, T, F>(
        &'a self,
        mut attempt: impl FnMut() -> F + Send + 'a,
    ) -> Asking<'a, T>
    where
        F: Future<Output = Result<T, ClientError>> + Send + 'a,
        T: Send + 'a,
    {
        Box::pin(async move {
            let mut retry = self.retry();
            let mut unknown = 0;
            loop {
                match attempt().await {
                    Err(error) if error.is_retriable() => {
                        tracing::debug!(%error, "trying again");
                        unknown += usize::from(is_unknown_topic(&error));
                        if unknown > UNKNOWN_TOPIC_ANSWERS || !retry.pause().await {
                            return Err(error);
                        }
                    }
                    outcome => return outcome,
                }
            }
        })
    }

    /// Addresses in the order they are tried: the one that answered last, the other known
    /// brokers, the bootstrap list.
    fn candidates(&self) -> Vec<Address> {
        let mut addresses: Vec<Address> = Vec::new();
        let good = self.inner.last_good.lock().clone();
        let known = self.known_brokers();
        let first = self.inner.jitter.below(known.len());
        let known = known.iter().cycle().skip(first).take(known.len());
        let known = known.map(|broker| Address { host: broker.host.clone(), port: broker.port });
        let bootstrap = self.inner.options.bootstrap.iter().filter_map(|text| Address::parse(text));
        for address in good.into_iter().chain(known).chain(bootstrap) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// Asks the first broker that answers at all.
    pub(crate) fn ask_any<'a, R: Request + 'a>(
        &'a self,
        build: impl Fn(i16) -> R + Send + Sync + 'a,
    ) -> Asking<'a, R::Response> {
        Box::pin(async move { self.ask_any_of(&build).await })
    }

    async fn ask_any_of<R: Request>(
        &self,
        build: &(dyn Fn(i16) -> R + Send + Sync),
    ) -> Result<R::Response, ClientError> {
        let mut failures: Vec<(Address, ClientError)> = Vec::new();
        // A stopped broker accepts connections and never answers: go on to the next well before
        // the request's own timeout.
        let patience = self.inner.options.wire.request_timeout / 3;
        for address in self.candidates() {
            let asked = self.ask(Purpose::Control, &address, build);
            let error = match tokio::time::timeout(patience, asked).await {
                Ok(Ok(response)) => {
                    *self.inner.last_good.lock() = Some(address);
                    return Ok(response);
                }
                Ok(Err(
                    error @ (ClientError::Unsupported { .. } | ClientError::Protocol { .. }),
                )) => {
                    return Err(error);
                }
                Ok(Err(error)) => error,
                Err(_) => ClientError::Timeout { what: format!("{} to {address}", R::KEY) },
            };
            failures.push((address, error));
        }
        *self.inner.last_good.lock() = None;
        let Some((last_address, last)) = failures.pop() else {
            return Err(ClientError::Unreachable {
                address: self.bootstrap(),
                reason: "no usable bootstrap address (host:port)".into(),
            });
        };
        if failures.is_empty() {
            return Err(last);
        }
        let tried: Vec<String> = failures
            .iter()
            .map(|(address, _)| address.to_string())
            .chain([last_address.to_string()])
            .collect();
        let address = tried.join(", ");
        Err(ClientError::Unreachable { address, reason: last.to_string() })
    }

    /// Asks the broker at `address`.
    pub(crate) fn ask<'a, R: Request + 'a>(
        &'a self,
        purpose: Purpose,
        address: &'a Address,
        build: impl Fn(i16) -> R + Send + Sync + 'a,
    ) -> Asking<'a, R::Response> {
        Box::pin(async move {
            let connection = self.inner.connections.shared(purpose, address).await?;
            ask_on(&connection, build).await
        })
    }

    /// Asks one broker by node id, over its control connection.
    pub(crate) fn ask_broker<'a, R: Request + 'a>(
        &'a self,
        broker: BrokerId,
        build: impl Fn(i16) -> R + Send + Sync + 'a,
    ) -> Asking<'a, R::Response> {
        Box::pin(async move {
            let address = self.address(broker).await?;
            self.ask(Purpose::Control, &address, build).await
        })
    }

    /// Where a broker listens; asks the cluster when it is not known.
    pub(crate) async fn address(&self, broker: BrokerId) -> Result<Address, ClientError> {
        let known = |cluster: &Self| {
            let cache = cluster.inner.cache.lock();
            let info = cache.brokers.get(&broker)?;
            Some(Address { host: info.host.clone(), port: info.port })
        };
        if let Some(address) = known(self) {
            return Ok(address);
        }
        let answer = self.ask_any(|_| metadata_request(Topics::Named(&[]))).await?;
        self.take_over(Answer::from(answer), false);
        known(self).ok_or_else(|| ClientError::Unreachable {
            address: format!("broker {broker}"),
            reason: "the cluster does not list it".into(),
        })
    }

    /// A new connection to a broker, of the caller's own. A failure may mean that the broker moved,
    /// so metadata is asked for again.
    pub(crate) async fn connect(&self, broker: BrokerId) -> Result<Connection, ClientError> {
        let address = self.address(broker).await?;
        let outcome = self.inner.connections.own(&address).await;
        if outcome.is_err() {
            self.metadata_stale();
        }
        outcome
    }

    /// Asks the controller, or on clusters without ZooKeeper whichever broker stands for it.
    pub(crate) fn ask_controller<'a, R: Request + 'a>(
        &'a self,
        build: impl Fn(i16) -> R + Send + Sync + 'a,
    ) -> Asking<'a, R::Response> {
        let controller = self.inner.cache.lock().controller;
        match controller {
            Some(broker) => self.ask_broker(broker, build),
            None => self.ask_any(build),
        }
    }

    /// Asks about these topics once more; a failure shows in what the caller does next.
    pub(crate) async fn refresh(&self, topics: &[TopicName]) {
        match self.ask_any(|_| metadata_request(Topics::Named(topics))).await {
            Ok(answer) => drop(self.take_over(Answer::from(answer), false)),
            Err(error) => tracing::debug!(%error, "metadata refresh failed"),
        }
    }
}

/// An answer on its way. Boxed: the compiler cannot see that a future over a caller's closure may
/// move between threads for every lifetime (it says "not general enough" where it is spawned).
pub(crate) type Asking<'a, T> =
    std::pin::Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'a>>;

/// How many answers that a topic does not exist are doubted.
const UNKNOWN_TOPIC_ANSWERS: usize = 5;

fn is_unknown_topic(error: &ClientError) -> bool {
    let unknown = [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::UNKNOWN_TOPIC_ID];
    error.code().is_some_and(|code| unknown.contains(&code))
}

/// How many brokers are asked where one stale answer would do harm.
const BROKERS_ASKED: usize = 5;

/// Sends one request on a connection at the version both sides know.
pub(crate) async fn ask_on<R: Request>(
    connection: &Connection,
    build: impl FnOnce(i16) -> R,
) -> Result<R::Response, ClientError> {
    let version = connection.version::<R>()?;
    Ok(connection.call(&build(version), version).await?)
}

pub(crate) fn metadata_request(which: Topics<'_>) -> MetadataRequest {
    let topics = match which {
        Topics::All => None,
        Topics::Named(names) => Some(
            names
                .iter()
                .map(|name| {
                    MetadataRequestTopic::default().with_name(Some(topic_name(name.as_str())))
                })
                .collect(),
        ),
    };
    MetadataRequest::default().with_topics(topics).with_allow_auto_topic_creation(false)
}

/// Refreshes all known topics until nobody has asked for it again meanwhile, or nobody answers for
/// as long as a method would try; whoever meets stale metadata then asks for it again.
async fn refresh_in_background(weak: Weak<Inner>) {
    let mut failing_since: Option<Instant> = None;
    loop {
        let Some(inner) = weak.upgrade() else { return };
        let wait = {
            let mut refresh = inner.refresh.lock();
            refresh.again = false;
            let options = &inner.options;
            let quiet = options.retry_backoff_max * 2;
            // A series of failures has no last answer; it is no quiet time.
            if failing_since.is_none() && refresh.last.is_none_or(|last| last.elapsed() > quiet) {
                refresh.streak = 0;
            }
            let wait = options.retry_backoff * (1 << refresh.streak.min(10));
            refresh.streak += 1;
            // The first of a series goes out almost at once; the rest as retries do.
            let wait = if refresh.streak == 1 { wait / 10 } else { wait };
            inner.jitter.spread(wait.min(options.retry_backoff_max))
        };
        drop(inner);
        tokio::time::sleep(wait).await;
        let Some(inner) = weak.upgrade() else { return };
        let cluster = Cluster { inner };
        let names = cluster.inner.cache.lock().topic_names();
        let outcome = cluster.ask_any(|_| metadata_request(Topics::Named(&names))).await;
        match outcome {
            Ok(answer) => {
                failing_since = None;
                drop(cluster.take_over(Answer::from(answer), false));
            }
            Err(error) => {
                if failing_since.is_none() {
                    tracing::warn!(%error, "metadata refresh failed; trying goes on");
                }
                let since = *failing_since.get_or_insert_with(Instant::now);
                let give_up = since.elapsed() >= cluster.inner.options.deadline;
                tracing::debug!(%error, give_up, "metadata refresh failed");
                if give_up {
                    cluster.inner.refresh.lock().running = false;
                    return;
                }
                continue;
            }
        }
        let mut refresh = cluster.inner.refresh.lock();
        if !refresh.again {
            refresh.running = false;
            return;
        }
    }
}
