//! The handle of a cluster: starting it, connecting to it, waiting for changes in it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;
use twinlog_protocol::{ApiKey, VersionRange};

use crate::faults::{Happening, Request, RequestLogEntry};
use crate::frames::Frames;
use crate::options::EmbeddedOptions;
use crate::rights::Peer;
use crate::security::INSIDE;
use crate::server::{self, Call, Entry};
use crate::state::{State, Status, Timer};

/// Bytes that a connection in memory holds in each direction, like a socket's buffers.
const PIPE_BYTES: usize = 256 << 10;
/// How long nobody is accepted after accepting failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// An in-memory Kafka cluster. Cheap to clone; it lives as long as a handle or a connection does.
///
/// Everything but the constructor needs a tokio runtime to run in, because connections and timers
/// are tasks. Under a paused clock and a current-thread runtime one seed gives one trace.
#[derive(Clone)]
pub struct EmbeddedCluster {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Not a `watch` channel: that one wakes its receivers in a random order.
    changes: Notify,
    frames: Frames,
}

impl std::fmt::Debug for EmbeddedCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.inner.state.lock();
        f.debug_struct("EmbeddedCluster")
            .field("name", &state.options.name)
            .field("brokers", &state.brokers.len())
            .field("topics", &state.topics.len())
            .finish_non_exhaustive()
    }
}

impl EmbeddedCluster {
    /// Starts a cluster.
    pub fn start(options: EmbeddedOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(State::new(options)),
                changes: Notify::new(),
                frames: Frames::default(),
            }),
        }
    }

    /// What Metadata answers as the cluster's id.
    pub fn cluster_id(&self) -> String {
        self.with(|state| state.options.cluster_id.clone())
    }

    /// Host and port of every broker, as Metadata announces them.
    pub fn addresses(&self) -> Vec<(String, u16)> {
        self.with(|state| {
            state.brokers.values().map(|broker| (broker.host.clone(), broker.port)).collect()
        })
    }

    /// `host:port` of every broker, joined by commas.
    pub fn bootstrap(&self) -> String {
        let addresses: Vec<String> =
            self.addresses().iter().map(|(host, port)| format!("{host}:{port}")).collect();
        addresses.join(",")
    }

    /// Connects to the broker at `host` and `port`, as `User:ANONYMOUS`. A dead broker refuses.
    pub fn connect(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        self.connect_by(host, port, Entry::Known(Peer::anonymous(INSIDE)))
    }

    pub(crate) fn connect_by(
        &self,
        host: &str,
        port: u16,
        entry: Entry,
    ) -> io::Result<DuplexStream> {
        let broker = self.with(|state| {
            state
                .brokers
                .iter()
                .find(|(_, broker)| broker.host == host && broker.port == port)
                .map(|(&id, broker)| (id, broker.status))
        });
        let Some((broker, status)) = broker else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no broker at {host}:{port}"),
            ));
        };
        if status == Status::Down {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("{host}:{port} refuses connections"),
            ));
        }
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(server::serve(self.clone(), broker, far, entry));
        Ok(near)
    }

    /// Serves every broker on a TCP port of its own on `host` (port 0: any free one) and announces
    /// those addresses from now on, for clients outside of this process.
    pub async fn listen_tcp(&self, host: &str, first_port: u16) -> io::Result<Vec<(String, u16)>> {
        let ids: Vec<i32> = self.with(|state| state.brokers.keys().copied().collect());
        // All ports or none: nothing serves while another port may turn out to be taken.
        let mut listeners = Vec::new();
        for (index, id) in ids.into_iter().enumerate() {
            let wanted = match first_port {
                0 => 0,
                first => u16::try_from(index)
                    .ok()
                    .and_then(|index| first.checked_add(index))
                    .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such port"))?,
            };
            listeners.push((id, TcpListener::bind((host, wanted)).await?));
        }
        let sasl = self.with(|state| !state.options.sasl_users.is_empty());
        let mut addresses = Vec::new();
        for (id, listener) in listeners {
            let port = listener.local_addr()?.port();
            self.with(|state| {
                if let Some(broker) = state.brokers.get_mut(&id) {
                    host.clone_into(&mut broker.host);
                    broker.port = port;
                }
            });
            addresses.push((host.to_owned(), port));
            let cluster = self.clone();
            tokio::spawn(async move {
                loop {
                    match listener.accept().await {
                        Ok((stream, from)) => {
                            // Answers are small and awaited; delayed ones only cost latency.
                            let _ = stream.set_nodelay(true);
                            let host = from.ip().to_string();
                            let entry = if sasl {
                                Entry::Login { host }
                            } else {
                                Entry::Known(Peer::anonymous(&host))
                            };
                            tokio::spawn(server::serve(cluster.clone(), id, stream, entry));
                        }
                        Err(error) => {
                            // A connection that broke early, or too many open files: it passes.
                            debug!(broker = id, %error, "a connection was not accepted");
                            sleep(ACCEPT_AGAIN).await;
                        }
                    }
                }
            });
        }
        Ok(addresses)
    }

    /// Runs `f` on the state, then starts the timers it asked for and wakes whoever waits.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let (result, timers, changed) = {
            let mut state = self.inner.state.lock();
            state.tick();
            let result = f(&mut state);
            (result, std::mem::take(&mut state.timers), std::mem::take(&mut state.changed))
        };
        self.follow_up(timers, changed);
        result
    }

    fn follow_up(&self, timers: Vec<(Duration, Timer)>, changed: bool) {
        if changed {
            self.inner.changes.notify_waiters();
        }
        for (after, timer) in timers {
            let inner = Arc::downgrade(&self.inner);
            tokio::spawn(async move {
                sleep(after).await;
                if let Some(inner) = inner.upgrade() {
                    Self { inner }.fire(timer);
                }
            });
        }
    }

    fn fire(&self, timer: Timer) {
        self.with(|state| state.fire(timer));
    }

    /// Asks `look` after every change until it answers something or `deadline` has passed; then
    /// `late` answers. Time does not pass for a broker that is stopped.
    pub(crate) async fn wait<R>(
        &self,
        broker: i32,
        deadline: Instant,
        mut look: impl FnMut(&mut State) -> Option<R>,
        late: impl FnOnce(&mut State) -> R,
    ) -> R {
        loop {
            self.until_running(broker).await;
            let changed = self.inner.changes.notified();
            tokio::pin!(changed);
            changed.as_mut().enable(); // from here on no change is missed
            if let Some(result) = self.with(&mut look) {
                return result;
            }
            if Instant::now() >= deadline {
                return self.with(late);
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    /// Waits while a broker is stopped.
    pub(crate) async fn until_running(&self, broker: i32) {
        loop {
            let changed = self.inner.changes.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let paused = {
                let state = self.inner.state.lock();
                state.brokers.get(&broker).is_some_and(|broker| broker.status == Status::Paused)
            };
            if !paused {
                return;
            }
            changed.await;
        }
    }

    /// A new connection to a broker: the signal of its death, which life it is in, and the
    /// connection's number.
    pub(crate) fn open(&self, broker: i32) -> Option<(Arc<Notify>, u64, u64)> {
        self.with(|state| {
            let connection = state.number();
            let broker =
                state.brokers.get(&broker).filter(|broker| broker.status != Status::Down)?;
            Some((broker.death.clone(), broker.life, connection))
        })
    }

    /// Where the frames of all connections are read.
    pub(crate) fn frames(&self) -> &Frames {
        &self.inner.frames
    }

    /// Which life a broker is in.
    pub(crate) fn life(&self, broker: i32) -> Option<u64> {
        self.inner.state.lock().brokers.get(&broker).map(|broker| broker.life)
    }

    /// The versions of `api` that this cluster serves.
    pub(crate) fn versions(&self, api: ApiKey) -> Option<VersionRange> {
        self.inner.state.lock().options.version.versions(api)
    }
}

impl State {
    /// Notes a request and takes the fault that happens to it.
    pub(crate) fn request(
        &mut self,
        call: &Call,
        partitions: Vec<(String, i32)>,
        names: Vec<String>,
    ) -> Option<Happening> {
        let happening = self.faults.take(&Request {
            api: call.api,
            broker: call.broker,
            client_id: call.client_id.as_deref(),
            partitions: &partitions,
        });
        let entry = RequestLogEntry {
            at: Instant::now(),
            broker: call.broker,
            connection: call.connection,
            api: call.api,
            version: call.version,
            client_id: call.client_id.clone(),
            partitions,
            names,
        };
        self.journal.note(entry, self.options.requests_kept);
        happening
    }
}
