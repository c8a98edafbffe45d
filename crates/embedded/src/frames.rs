//! Request frames as they arrive, and the limit on what all connections together hold of them.
//!
//! A frame's length is announced before its bytes, and nothing says that they will come. So memory
//! grows with what arrives, and a frame that is not small is read only once the cluster has room for
//! all of it; until then its connection is not read, as a broker mutes it under
//! `queued.max.request.bytes`. Room is given in the order in which it was asked for, and it is held
//! until the request is served, since that is how long its bytes live. Small frames need none, so
//! that heartbeats pass behind large requests.
//!
//! Does not know what is in a frame, and does not limit answers.
//!
//! # Invariants
//!
//! 1. Whoever has room needs no more of it to finish: nobody waits in a circle.
//! 2. Whoever has room and lets others wait for it is closed when too little arrives. While nobody
//!    waits, a connection may be as slow as it likes.
//!
//! Reference: `SocketServer` and `SimpleMemoryPool` in Kafka.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::server::Closed;

/// `socket.request.max.bytes`.
const FRAME_BYTES_MAX: u32 = 104_857_600;
/// What all connections together may hold: no less than one frame of the largest size.
const ROOM: usize = FRAME_BYTES_MAX as usize;
/// Frames up to this size need no room; of larger ones no more is set aside in advance.
const SMALL: usize = 64 << 10;
/// In this time so much must arrive of a frame for whose room others wait.
const LEAST: (usize, Duration) = (SMALL, Duration::from_secs(10));

/// The room for frames in one cluster.
#[derive(Debug)]
pub(crate) struct Frames {
    room: Arc<Semaphore>,
    /// How many connections wait for room.
    waiting: AtomicUsize,
}

/// A frame that has arrived, and its room.
#[derive(Debug)]
pub(crate) struct Frame {
    pub bytes: Bytes,
    /// `None`: it is small.
    pub room: Option<OwnedSemaphorePermit>,
}

impl Default for Frames {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM)), waiting: AtomicUsize::new(0) }
    }
}

impl Frames {
    /// The next frame of a connection.
    pub(crate) async fn read<S: AsyncRead + Unpin>(&self, stream: &mut S) -> Result<Frame, Closed> {
        let length = stream.read_i32().await?;
        let size = u32::try_from(length).ok().filter(|&size| size <= FRAME_BYTES_MAX);
        let size = size.ok_or(Closed::Frame(length))?;
        let room = if size as usize > SMALL { Some(self.room_for(size).await?) } else { None };
        let bytes = self.arrived(stream, size as usize).await?;
        Ok(Frame { bytes, room })
    }

    async fn room_for(&self, size: u32) -> Result<OwnedSemaphorePermit, Closed> {
        if let Ok(room) = self.room.clone().try_acquire_many_owned(size) {
            return Ok(room);
        }
        let _waiting = Waiting::among(&self.waiting);
        // Nobody closes the semaphore; if somebody did, the connection would end.
        self.room.clone().acquire_many_owned(size).await.map_err(|_| Closed::NoRoom)
    }

    async fn arrived<S: AsyncRead + Unpin>(
        &self,
        stream: &mut S,
        size: usize,
    ) -> Result<Bytes, Closed> {
        let mut frame = BytesMut::with_capacity(size.min(SMALL));
        let mut body = stream.take(size as u64);
        let mut judged = (0, Instant::now() + LEAST.1);
        while frame.len() < size {
            if frame.len() == frame.capacity() {
                frame.reserve(frame.len().min(size - frame.len()));
            }
            if size <= SMALL {
                end_or(body.read_buf(&mut frame).await?)?;
                continue;
            }
            if let Ok(read) = timeout_at(judged.1, body.read_buf(&mut frame)).await {
                end_or(read?)?;
                continue;
            }
            let progress = frame.len() - judged.0;
            if progress < LEAST.0 && self.waiting.load(Ordering::Relaxed) > 0 {
                return Err(Closed::TooSlow { arrived: frame.len(), size });
            }
            judged = (frame.len(), Instant::now() + LEAST.1);
        }
        Ok(frame.freeze())
    }
}

/// Nothing read: the stream has ended inside a frame.
fn end_or(read: usize) -> Result<(), Closed> {
    if read == 0 {
        return Err(Closed::Io(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

/// One connection that waits, also when it is given up meanwhile.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
