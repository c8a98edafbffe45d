//! What the handles of a connection and its driver task share: the requests on their way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use twinlog_protocol::{ApiKey, ProtocolError, decode_response_header, encode_request_header};

use crate::{Options, WireError};

/// The outcome of one request: the body of its answer, or why there is none.
pub(crate) type Outcome = Result<Bytes, WireError>;

/// What ended a connection.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The oldest request was not answered in time.
    TimedOut,
    /// The peer announced a frame of this many bytes.
    FrameTooLarge(usize),
    /// The peer answered another request than the oldest.
    UnexpectedCorrelation { expected: i32, found: i32 },
    /// The header of an answer cannot be read.
    Header(ProtocolError),
    /// The stream ended or failed, or we closed it.
    Ended(String),
}

pub(crate) struct Shared {
    pub(crate) peer: Arc<str>,
    client_id: String,
    request_timeout: Duration,
    frame_bytes_max: usize,
    in_flight_max: usize,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
    /// Rung when a request is queued where none was unanswered, for the watch over deadlines.
    queued: Notify,
    /// Rung once, when the connection ends.
    ended: Notify,
}

struct State {
    next_correlation_id: i32,
    /// Unanswered requests, oldest first; deadlines ascend because all get the same time.
    in_flight: VecDeque<InFlight>,
    outgoing: mpsc::UnboundedSender<Vec<Bytes>>,
    /// Why the connection ended.
    ended: Option<Arc<str>>,
}

struct InFlight {
    correlation_id: i32,
    api: ApiKey,
    version: i16,
    deadline: Instant,
    outcome: oneshot::Sender<Outcome>,
    /// Given back with the outcome.
    _permit: OwnedSemaphorePermit,
}

impl Shared {
    /// The state of a new connection, and the requests that its driver is to write. The channel has
    /// no bound of its own: a request enters it only with a permit.
    pub(crate) fn new(
        peer: Arc<str>,
        options: &Options,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Vec<Bytes>>) {
        let (outgoing, requests) = mpsc::unbounded_channel();
        let in_flight_max = options.in_flight_max.clamp(1, Semaphore::MAX_PERMITS);
        let shared = Self {
            peer,
            client_id: options.client_id.clone(),
            request_timeout: options.request_timeout,
            frame_bytes_max: options.frame_bytes_max,
            in_flight_max,
            permits: Arc::new(Semaphore::new(in_flight_max)),
            state: Mutex::new(State {
                next_correlation_id: 0,
                in_flight: VecDeque::new(),
                outgoing,
                ended: None,
            }),
            queued: Notify::new(),
            ended: Notify::new(),
        };
        (Arc::new(shared), requests)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held; if it did, the state would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for one more request. Fails when the connection has ended.
    pub(crate) async fn room(&self, api: ApiKey) -> Result<OwnedSemaphorePermit, WireError> {
        let permits = Arc::clone(&self.permits);
        permits.acquire_owned().await.map_err(|_| self.closed_error(&self.lock(), api))
    }

    /// Takes room for one more request if there is any now.
    pub(crate) fn room_now(&self, api: ApiKey) -> Result<OwnedSemaphorePermit, WireError> {
        use tokio::sync::TryAcquireError;
        Arc::clone(&self.permits).try_acquire_owned().map_err(|error| match error {
            TryAcquireError::Closed => self.closed_error(&self.lock(), api),
            TryAcquireError::NoPermits => {
                WireError::Busy { peer: Arc::clone(&self.peer), api, limit: self.in_flight_max }
            }
        })
    }

    /// Queues a request. Its place in the stream of requests is decided here.
    pub(crate) fn send(
        &self,
        api: ApiKey,
        version: i16,
        body: Vec<Bytes>,
        permit: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Outcome>, WireError> {
        let mut head = BytesMut::with_capacity(64);
        head.put_i32(0);
        let (outcome, receiver) = oneshot::channel();
        let deadline = Instant::now() + self.request_timeout;

        let mut state = self.lock();
        if state.ended.is_some() {
            return Err(self.closed_error(&state, api));
        }
        let correlation_id = state.next_correlation_id;
        encode_request_header(api, version, correlation_id, &self.client_id, &mut head);
        let length = head.len() - 4 + body.iter().map(Bytes::len).sum::<usize>();
        let Ok(length) = i32::try_from(length) else {
            let reason = format!("{length} bytes do not fit a frame");
            let error = ProtocolError::Encode { what: "request", api, version, reason };
            return Err(WireError::Encode { peer: Arc::clone(&self.peer), api, error });
        };
        head[..4].copy_from_slice(&length.to_be_bytes());
        // Correlation ids stay positive: some brokers' logs and proxies read a sign into them.
        state.next_correlation_id = correlation_id.checked_add(1).unwrap_or(0);
        let mut parts = Vec::with_capacity(body.len() + 1);
        parts.push(head.freeze());
        parts.extend(body);
        if state.in_flight.is_empty() {
            self.queued.notify_one();
        }
        state.in_flight.push_back(InFlight {
            correlation_id,
            api,
            version,
            deadline,
            outcome,
            _permit: permit,
        });
        // The receiver goes only with the driver, which fails everything in flight when it goes.
        let _ = state.outgoing.send(parts);
        Ok(receiver)
    }

    /// Matches one frame with the oldest request.
    pub(crate) fn answer(&self, frame: Bytes) -> Result<(), Failure> {
        let mut state = self.lock();
        let Some(oldest) = state.in_flight.front() else {
            return Err(Failure::Ended("the peer answered what was not asked".to_owned()));
        };
        let (found, body) =
            decode_response_header(oldest.api, oldest.version, frame).map_err(Failure::Header)?;
        let expected = oldest.correlation_id;
        if found != expected {
            return Err(Failure::UnexpectedCorrelation { expected, found });
        }
        if let Some(answered) = state.in_flight.pop_front() {
            // Nobody has to wait for an answer any more.
            let _ = answered.outcome.send(Ok(body));
        }
        Ok(())
    }

    /// Waits until the oldest request has been unanswered for too long.
    pub(crate) async fn overdue(&self) -> Failure {
        loop {
            let deadline = self.lock().in_flight.front().map(|oldest| oldest.deadline);
            match deadline {
                None => self.queued.notified().await,
                Some(deadline) if deadline <= Instant::now() => return Failure::TimedOut,
                Some(deadline) => tokio::time::sleep_until(deadline).await,
            }
        }
    }

    /// Waits until the connection has been ended by somebody else than the waiter.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Ends the connection and fails every request on its way. Only the first end counts.
    pub(crate) fn fail(&self, failure: &Failure) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        let reason: Arc<str> = self.reason(&state, failure).into();
        tracing::debug!(peer = &*self.peer, reason = &*reason, "connection closed");
        state.ended = Some(Arc::clone(&reason));
        self.permits.close();
        let mut requests = std::mem::take(&mut state.in_flight).into_iter();
        if let Some(oldest) = requests.next() {
            let error = self.oldest_error(oldest.api, failure, &reason);
            let _ = oldest.outcome.send(Err(error));
        }
        for request in requests {
            let error = self.closed_error(&state, request.api);
            let _ = request.outcome.send(Err(error));
        }
        self.ended.notify_one();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended.is_some()
    }

    pub(crate) fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// What a request on a connection that has ended is told.
    fn closed_error(&self, state: &State, api: ApiKey) -> WireError {
        let reason = state.ended.clone().unwrap_or_else(|| "it is shutting down".into());
        WireError::Closed { peer: Arc::clone(&self.peer), api, reason }
    }

    /// What the oldest request is told: the failure itself, as it is about this request.
    fn oldest_error(&self, api: ApiKey, failure: &Failure, reason: &Arc<str>) -> WireError {
        let peer = Arc::clone(&self.peer);
        match failure.clone() {
            Failure::TimedOut => WireError::Timeout { peer, api, after: self.request_timeout },
            Failure::FrameTooLarge(bytes) => {
                WireError::FrameTooLarge { peer, api, bytes, limit: self.frame_bytes_max }
            }
            Failure::UnexpectedCorrelation { expected, found } => {
                WireError::UnexpectedCorrelation { peer, api, expected, found }
            }
            Failure::Header(error) => WireError::Decode { peer, api, error },
            Failure::Ended(_) => WireError::Closed { peer, api, reason: Arc::clone(reason) },
        }
    }

    /// What the other requests are told.
    fn reason(&self, state: &State, failure: &Failure) -> String {
        let oldest = state.in_flight.front().map_or("nothing", |oldest| oldest.api.name());
        match failure {
            Failure::TimedOut => {
                format!("{oldest} was not answered within {:?}", self.request_timeout)
            }
            Failure::FrameTooLarge(bytes) => {
                format!("a frame of {bytes} bytes, more than {}", self.frame_bytes_max)
            }
            Failure::UnexpectedCorrelation { expected, found } => {
                format!("answer {found} where {expected} ({oldest}) was due")
            }
            Failure::Header(error) => format!("the answer to {oldest}: {error}"),
            Failure::Ended(reason) => reason.clone(),
        }
    }
}
