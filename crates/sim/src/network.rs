//! The connections of one instance: they can be cut, frozen, watched for a request, or lied over.
//!
//! Every stream of an instance goes through its [`Link`]. A cut link is what the outside sees of a
//! process that was killed: connections break at that byte and none is made any more, whatever the
//! tasks of the dead process still try. A frozen link is a process that was stopped: nothing comes
//! out of it or goes in, and afterwards everything that was on the way arrives late.
//!
//! Does not: know what requests mean. Frames are told apart by API key, side and topic.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use twinlog_client::{Dial, WireStream};
use twinlog_embedded::EmbeddedCluster;

use crate::requests::{self, Names};
use crate::tamper::{self, Lie};

/// Whether bytes flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Condition {
    Open,
    Frozen,
    Cut,
}

/// At which moment of a request its sender dies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Moment {
    /// Just before the request leaves.
    BeforeSending,
    /// The broker has done what was asked; the answer is not heard.
    BeforeAnswer,
    /// Just after the answer was heard, and before anything else is sent.
    AfterAnswer,
}

/// Kills the instance at the n-th request of a kind.
#[derive(Clone, Debug)]
pub struct Trap {
    /// The request, as [`requests::label`] names it.
    pub request: String,
    /// When.
    pub moment: Moment,
    /// So many requests of the kind are let pass first.
    pub skip: u32,
}

/// Tells a lie in the place of an answer.
#[derive(Clone, Debug)]
pub struct Tampering {
    /// The request, as [`requests::label`] names it.
    pub request: String,
    /// The lie.
    pub lie: Lie,
    /// So many answers are let pass first.
    pub skip: u32,
    /// How often it is told then.
    pub times: u32,
}

#[derive(Debug)]
struct State {
    condition: Condition,
    wakers: Vec<Waker>,
    trap: Option<Trap>,
    sprung: bool,
    /// The connection breaks behind the next such request, which arrives all the same.
    abandon: Option<String>,
    tampering: Option<Tampering>,
    lies_told: u32,
    requests: BTreeMap<String, u64>,
    names: Option<Names>,
}

/// Everything that one instance is connected by.
pub struct Link {
    source: EmbeddedCluster,
    target: EmbeddedCluster,
    state: Mutex<State>,
}

impl Link {
    /// A link to both clusters.
    pub fn new(source: EmbeddedCluster, target: EmbeddedCluster) -> Arc<Self> {
        let state = State {
            condition: Condition::Open,
            wakers: Vec::new(),
            trap: None,
            sprung: false,
            abandon: None,
            tampering: None,
            lies_told: 0,
            requests: BTreeMap::new(),
            names: None,
        };
        Arc::new(Self { source, target, state: Mutex::new(state) })
    }

    /// Breaks every connection, now and for ever.
    pub fn cut(&self) {
        self.become_(Condition::Cut);
    }

    /// Nothing goes in or out until [`thaw`](Self::thaw).
    pub fn freeze(&self) {
        self.become_(Condition::Frozen);
    }

    /// Ends [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.become_(Condition::Open);
    }

    fn become_(&self, condition: Condition) {
        let wakers = {
            let mut state = self.state.lock();
            if state.condition != Condition::Cut {
                state.condition = condition;
            }
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sets a trap; the one before is forgotten.
    pub fn set_trap(&self, trap: Trap) {
        self.state.lock().trap = Some(trap);
    }

    /// The connection of the next request of this kind breaks behind it; the request arrives.
    pub fn abandon(&self, request: &str) {
        self.state.lock().abandon = Some(request.to_owned());
    }

    /// Whether the trap has cut the link.
    pub fn sprung(&self) -> bool {
        self.state.lock().sprung
    }

    /// Lies from now on.
    pub fn tamper(&self, tampering: Tampering) {
        let mut state = self.state.lock();
        state.tampering = Some(tampering);
        state.lies_told = 0;
    }

    /// Ends the lies; answers how many were told.
    pub fn honest(&self) -> u32 {
        let mut state = self.state.lock();
        state.tampering = None;
        state.lies_told
    }

    /// How many requests of each kind were sent.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        self.state.lock().requests.clone()
    }

    fn condition(&self, context: &Context<'_>) -> Condition {
        let mut state = self.state.lock();
        // Cut must wake a reader that waits for bytes, too.
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        state.condition
    }

    /// A request is about to leave. False: it does not.
    fn leaving(&self, source: bool, frame: &[u8]) -> (String, bool) {
        let names = {
            let known = self.state.lock().names.clone();
            let complete = known.as_ref().is_some_and(Names::complete);
            known.filter(|_| complete).unwrap_or_else(|| Names::of([&self.source, &self.target]))
        };
        let label = requests::label(source, frame, &names);
        let mut state = self.state.lock();
        state.names = Some(names);
        *state.requests.entry(label.clone()).or_default() += 1;
        let springs = springs(&mut state, &label, Moment::BeforeSending);
        (label, !springs)
    }

    /// Whether the connection breaks behind this request.
    fn abandons(&self, label: &str) -> bool {
        self.state.lock().abandon.take_if(|wanted| wanted == label).is_some()
    }

    /// An answer has come.
    fn arriving(&self, call: &Call, frame: Bytes) -> Heard {
        let mut state = self.state.lock();
        if springs(&mut state, &call.label, Moment::BeforeAnswer) {
            return Heard::Nothing;
        }
        if springs(&mut state, &call.label, Moment::AfterAnswer) {
            return Heard::Last(frame);
        }
        let Some(tampering) = &mut state.tampering else { return Heard::All(vec![frame]) };
        if tampering.request != call.label || tampering.times == 0 {
            return Heard::All(vec![frame]);
        }
        if tampering.skip > 0 {
            tampering.skip -= 1;
            return Heard::All(vec![frame]);
        }
        let Some(lie) = tamper::lie(tampering.lie, call.api, call.version, &frame) else {
            return Heard::All(vec![frame]);
        };
        tampering.times -= 1;
        state.lies_told += 1;
        lie
    }

    fn die(&self) {
        self.state.lock().sprung = true;
        self.cut();
    }
}

/// Whether the trap springs now. What it springs for dies by [`Link::die`], called by the pipe.
fn springs(state: &mut State, label: &str, moment: Moment) -> bool {
    let Some(trap) = &mut state.trap else { return false };
    if trap.request != label || trap.moment != moment {
        return false;
    }
    if trap.skip > 0 {
        trap.skip -= 1;
        return false;
    }
    state.trap = None;
    true
}

/// What the client hears in the place of an answer.
#[derive(Debug)]
pub enum Heard {
    /// These frames, without their lengths.
    All(Vec<Bytes>),
    /// This frame, and then the process is dead.
    Last(Bytes),
    /// Nothing, because the process is dead.
    Nothing,
    /// These bytes, and then the connection closes.
    Cut(Bytes),
}

/// The [`Dial`] of an instance.
pub struct Dialer(pub Arc<Link>);

impl Dial for Dialer {
    fn dial<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn WireStream>>> + Send + 'a>> {
        Box::pin(async move {
            let link = &self.0;
            if link.state.lock().condition == Condition::Cut {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let known = |cluster: &EmbeddedCluster| {
                cluster.addresses().iter().any(|(name, _)| name == host)
            };
            let source = known(&link.source);
            let cluster = if source { &link.source } else { &link.target };
            let inner = cluster.connect(host, port)?;
            let pipe = Pipe {
                link: link.clone(),
                source,
                inner,
                outgoing: BytesMut::new(),
                cleared: 0,
                incoming: BytesMut::new(),
                heard: VecDeque::new(),
                calls: BTreeMap::new(),
                ended: false,
                last_words: false,
                abandoned: false,
            };
            let stream: Box<dyn WireStream> = Box::new(pipe);
            Ok(stream)
        })
    }
}

#[derive(Debug)]
struct Call {
    label: String,
    api: i16,
    version: i16,
}

/// One connection. Requests pass as whole frames, answers too.
struct Pipe {
    link: Arc<Link>,
    source: bool,
    inner: DuplexStream,
    outgoing: BytesMut,
    /// So many bytes of `outgoing` belong to frames that may leave.
    cleared: usize,
    incoming: BytesMut,
    /// What the client may read.
    heard: VecDeque<Bytes>,
    calls: BTreeMap<i32, Call>,
    /// The other end is done, or has to seem so.
    ended: bool,
    /// The process dies once `heard` is read.
    last_words: bool,
    /// The connection breaks once what is cleared has left.
    abandoned: bool,
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

/// The length of the frame that `bytes` begins with, its prefix included.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.first_chunk::<4>()?;
    Some(4 + usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(0))
}

impl Pipe {
    /// Lets whole requests through to the broker, as far as it takes them.
    fn drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.link.condition(context) {
                Condition::Cut => return Poll::Ready(Err(reset())),
                Condition::Frozen => return Poll::Pending,
                Condition::Open => {}
            }
            if self.cleared > 0 {
                let bytes = &self.outgoing[..self.cleared];
                let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
                self.outgoing.advance(written);
                self.cleared -= written;
                continue;
            }
            if self.abandoned {
                return Poll::Ready(Err(reset()));
            }
            let Some(length) = frame_length(&self.outgoing) else { return Poll::Ready(Ok(())) };
            if self.outgoing.len() < length {
                return Poll::Ready(Ok(()));
            }
            let frame = &self.outgoing[4..length];
            let (label, goes) = self.link.leaving(self.source, frame);
            if !goes {
                self.link.die();
                return Poll::Ready(Err(reset()));
            }
            if let Some((api, version, correlation)) = requests::head(frame) {
                self.abandoned = self.link.abandons(&label);
                self.calls.insert(correlation, Call { label, api, version });
            }
            self.cleared = length;
        }
    }

    /// Takes whole answers out of what the broker has sent.
    fn take_in(&mut self) {
        while !self.ended
            && let Some(length) = frame_length(&self.incoming)
            && self.incoming.len() >= length
        {
            let frame = self.incoming.split_to(length).freeze().slice(4..);
            let correlation = frame.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes));
            let Some(call) = correlation.and_then(|id| self.calls.remove(&id)) else {
                // The broker itself lies about the correlation id.
                self.hear(&frame);
                continue;
            };
            match self.link.arriving(&call, frame) {
                Heard::All(frames) => frames.iter().for_each(|frame| self.hear(frame)),
                Heard::Last(frame) => {
                    self.hear(&frame);
                    self.last_words = true;
                    self.ended = true;
                }
                Heard::Nothing => {
                    self.link.die();
                    return;
                }
                Heard::Cut(bytes) => {
                    self.heard.push_back(bytes);
                    self.ended = true;
                }
            }
        }
    }

    fn hear(&mut self, frame: &Bytes) {
        let length = Bytes::copy_from_slice(&(frame.len() as i32).to_be_bytes());
        self.heard.push_back(length);
        self.heard.push_back(frame.clone());
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.link.condition(context) {
                Condition::Cut => return Poll::Ready(Err(reset())),
                Condition::Frozen => return Poll::Pending,
                Condition::Open => {}
            }
            if self.abandoned && self.cleared == 0 {
                return Poll::Ready(Err(reset()));
            }
            if let Some(front) = self.heard.front_mut() {
                let count = front.len().min(buffer.remaining());
                buffer.put_slice(&front.split_to(count));
                if front.is_empty() {
                    self.heard.pop_front();
                }
                if self.heard.is_empty() && self.last_words {
                    self.link.die();
                }
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; 4096];
            let mut chunk = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.inner).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                // What is left is a frame that the broker cut.
                let rest = self.incoming.split().freeze();
                if !rest.is_empty() {
                    self.heard.push_back(rest);
                }
                self.ended = true;
                continue;
            }
            let Self { incoming, .. } = &mut *self;
            incoming.extend_from_slice(chunk.filled());
            self.take_in();
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.link.condition(context) == Condition::Cut {
            return Poll::Ready(Err(reset()));
        }
        self.outgoing.extend_from_slice(bytes);
        match self.drain(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // What does not fit now leaves at the flush.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
