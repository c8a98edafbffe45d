//! The handle of a connection.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;
use twinlog_protocol::{
    ApiKey, ProtocolError, Request, VersionRange, decode_response, encode_body,
};

use crate::dial::{Dial, secure};
use crate::driver::drive;
use crate::negotiate::{Offer, negotiate};
use crate::shared::{Failure, Outcome, Shared};
use crate::{Options, WireError};

/// A connection to one broker. Cheap to clone; the last clone (and the last [`Pending`]) closes it.
#[derive(Clone)]
pub struct Connection {
    link: Arc<Link>,
    offer: Arc<Offer>,
}

/// Ends the connection when the last one who could use it is gone.
pub(crate) struct Link(Arc<Shared>);

impl Drop for Link {
    fn drop(&mut self) {
        self.0.fail(&Failure::Ended("closed by us".to_owned()));
    }
}

impl Link {
    pub(crate) fn peer(&self) -> &Arc<str> {
        &self.0.peer
    }

    /// Sends a request when there is room for it, and waits for the answer.
    pub(crate) async fn request(
        self: &Arc<Self>,
        api: ApiKey,
        version: i16,
        body: Bytes,
    ) -> Outcome {
        let permit = self.0.room(api).await?;
        let answer = self.0.send(api, version, vec![body], permit)?;
        Pending { answer, api, link: Arc::clone(self) }.await
    }
}

impl Connection {
    /// Connects to `host:port` and learns what the broker speaks.
    ///
    /// Dropping the future gives up and leaves nothing behind.
    pub async fn connect(
        dial: &dyn Dial,
        host: &str,
        port: u16,
        options: &Options,
    ) -> Result<Self, WireError> {
        let peer: Arc<str> = format!("{host}:{port}").into();
        let failed = |reason: String| WireError::Connect { peer: Arc::clone(&peer), reason };
        if i16::try_from(options.client_id.len()).is_err() {
            return Err(failed("the client id is longer than 32,767 bytes".to_owned()));
        }
        let limit = options.connect_timeout;
        let deadline = Instant::now() + limit;
        let stream = tokio::time::timeout_at(deadline, async {
            secure(dial.dial(host, port).await?, options).await
        })
        .await
        .map_err(|_| failed(format!("no connection within {limit:?}")))?
        .map_err(|error| failed(error.to_string()))?;

        let (shared, requests) = Shared::new(Arc::clone(&peer), options);
        let link = Arc::new(Link(Arc::clone(&shared)));
        tokio::spawn(drive(shared, stream, requests));
        // A frozen broker accepts connections (its kernel does) and never answers: whoever waits for
        // it as long as for a request waits past the election of another one.
        let offer = tokio::time::timeout_at(deadline, negotiate(&link, options))
            .await
            .map_err(|_| failed(format!("connected, but no answer within {limit:?}")))?;
        let offer = Arc::new(offer?);
        tracing::debug!(peer = &*peer, apis = offer.versions.len(), "connected");
        Ok(Self { link, offer })
    }

    /// The version to speak: the newest that both sides know.
    pub fn version<R: Request>(&self) -> Result<i16, WireError> {
        self.version_at_most::<R>(R::MAX)
    }

    /// The version to speak when nothing newer than `max` will do.
    pub fn version_at_most<R: Request>(&self, max: i16) -> Result<i16, WireError> {
        let ours = VersionRange { min: R::MIN, max: max.min(R::MAX) };
        let theirs = self.offered(R::KEY);
        theirs.and_then(|theirs| theirs.newest_common(ours)).ok_or_else(|| {
            WireError::UnsupportedVersion {
                peer: Arc::clone(self.link.peer()),
                api: R::KEY,
                theirs,
                ours,
            }
        })
    }

    /// What the broker offers of an API; `None` when it does not know it.
    pub fn offered(&self, api: ApiKey) -> Option<VersionRange> {
        self.offer.versions.get(&api.key()).copied()
    }

    /// The features the cluster has finalized (KIP-584), such as `transaction.version`, with their
    /// levels. Empty for brokers that do not tell.
    pub fn features(&self) -> &BTreeMap<String, i16> {
        &self.offer.features
    }

    /// Sends a request at `version` and waits for its answer, at most the request timeout. Waits
    /// for room first when [`Options::in_flight_max`] requests are unanswered.
    pub async fn call<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, WireError> {
        let peer = || Arc::clone(self.link.peer());
        let body = encode_body(request, version).map_err(|error| WireError::Encode {
            peer: peer(),
            api: R::KEY,
            error,
        })?;
        let answer = self.link.request(R::KEY, version, body).await?;
        decode_response::<R>(answer, version).map_err(|error| self.garbled(R::KEY, error))
    }

    /// Queues a request whose body comes in parts (which are not copied) and returns at once.
    /// Requests are sent in the order of these calls. The frame's length and the request header are
    /// written here; `parts` is what comes after them.
    ///
    /// The answer is the body after the header, for
    /// [`decode_response`]. Dropping the [`Pending`] does not take the request back.
    pub fn send_parts(
        &self,
        api: ApiKey,
        version: i16,
        parts: Vec<Bytes>,
    ) -> Result<Pending, WireError> {
        let permit = self.link.0.room_now(api)?;
        let answer = self.link.0.send(api, version, parts, permit)?;
        Ok(Pending { answer, api, link: Arc::clone(&self.link) })
    }

    /// Ends the connection because an answer was not what it should be, and says so. For those who
    /// decode the answers of [`send_parts`](Self::send_parts) themselves: a peer whose bytes cannot
    /// be read is not asked again on the same connection.
    pub fn garbled(&self, api: ApiKey, error: ProtocolError) -> WireError {
        self.link.0.fail(&Failure::Ended(error.to_string()));
        WireError::Decode { peer: Arc::clone(self.link.peer()), api, error }
    }

    /// Whether the connection has ended. It never comes back.
    pub fn is_closed(&self) -> bool {
        self.link.0.has_ended()
    }

    /// Ends the connection; requests on their way fail.
    pub fn close(&self) {
        self.link.0.fail(&Failure::Ended("closed by us".to_owned()));
    }

    /// `host:port` of the broker.
    pub fn peer(&self) -> &str {
        self.link.peer()
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// A request on its way: the body of its answer, sooner or later, or why there is none.
#[must_use = "the outcome of a request is known only by waiting for it"]
pub struct Pending {
    answer: oneshot::Receiver<Outcome>,
    api: ApiKey,
    link: Arc<Link>,
}

impl Future for Pending {
    type Output = Result<Bytes, WireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(|outcome| {
            // A sender goes without a word only when the request was never taken over.
            outcome.unwrap_or_else(|_| {
                let reason = "the request was dropped".into();
                Err(WireError::Closed { peer: Arc::clone(self.link.peer()), api: self.api, reason })
            })
        })
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending")
            .field("peer", self.link.peer())
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}
