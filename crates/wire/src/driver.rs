//! The task of a connection: writes requests, reads answers, watches deadlines.
//!
//! One task does all three, so that nothing of a connection outlives its end.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::dial::Stream;
use crate::shared::{Failure, Shared};

/// Slices of one vectored write. Linux takes 1,024; a Produce request of 30 batches needs 61.
const WRITE_SLICES: usize = 64;
/// Small answers are read together with their lengths; larger frames go around this buffer.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// How long a goodbye may take.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Runs a connection until it ends, for whatever reason.
pub(crate) async fn drive(
    shared: Arc<Shared>,
    stream: Box<dyn Stream>,
    requests: UnboundedReceiver<Vec<Bytes>>,
) {
    // Also when this task is dropped with its runtime: nobody is left waiting.
    let _end = EndOnDrop(Arc::clone(&shared));
    let (reader, mut writer) = tokio::io::split(stream);
    let failure = tokio::select! {
        // Reading first: what has been answered counts as answered, even when the peer has gone
        // and writing fails. Reading cannot crowd out writing, as only what was asked is answered.
        biased;
        failure = read_answers(&shared, reader) => failure,
        failure = write_requests(&mut writer, requests) => failure,
        failure = shared.overdue() => failure,
        () = shared.ended() => Failure::Ended("closed by us".to_owned()),
    };
    shared.fail(&failure);
    let _ = tokio::time::timeout(SHUTDOWN, writer.shutdown()).await;
}

struct EndOnDrop(Arc<Shared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.fail(&Failure::Ended("the runtime is shutting down".to_owned()));
    }
}

async fn read_answers(shared: &Shared, reader: ReadHalf<Box<dyn Stream>>) -> Failure {
    let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, reader);
    loop {
        let frame = match read_frame(&mut reader, shared.frame_bytes_max()).await {
            Ok(frame) => frame,
            Err(failure) => return failure,
        };
        if let Err(failure) = shared.answer(frame) {
            return failure;
        }
    }
}

/// Reads one frame into a buffer of its own.
async fn read_frame<R: AsyncRead + Unpin>(
    reader: &mut R,
    bytes_max: usize,
) -> Result<Bytes, Failure> {
    let mut length = [0; 4];
    let mut read = 0;
    while read < length.len() {
        match reader.read(&mut length[read..]).await {
            Ok(0) if read == 0 => return Err(Failure::Ended("closed by the peer".to_owned())),
            Ok(0) => return Err(cut_off(read, 4)),
            Ok(count) => read += count,
            Err(error) => return Err(failed("reading", &error)),
        }
    }
    let length = i32::from_be_bytes(length);
    let Ok(length) = usize::try_from(length) else {
        return Err(Failure::Ended(format!("the peer announced a frame of {length} bytes")));
    };
    if length > bytes_max {
        return Err(Failure::FrameTooLarge(length));
    }
    // One allocation, so that nothing is copied while a large Fetch answer grows. A peer that only
    // claims a length costs address space: pages are taken as bytes arrive.
    let mut frame = BytesMut::with_capacity(length);
    while frame.len() < length {
        let left = length - frame.len();
        // The limit keeps the next frame out of this buffer, which may be larger than asked for.
        match reader.read_buf(&mut (&mut frame).limit(left)).await {
            Ok(0) => return Err(cut_off(4 + frame.len(), 4 + length)),
            Ok(_) => {}
            Err(error) => return Err(failed("reading", &error)),
        }
    }
    Ok(frame.freeze())
}

fn cut_off(read: usize, length: usize) -> Failure {
    Failure::Ended(format!("closed by the peer after {read} of {length} bytes of a frame"))
}

fn failed(doing: &str, error: &io::Error) -> Failure {
    Failure::Ended(format!("{doing} failed: {error}"))
}

async fn write_requests(
    writer: &mut WriteHalf<Box<dyn Stream>>,
    mut requests: UnboundedReceiver<Vec<Bytes>>,
) -> Failure {
    let mut parts = VecDeque::new();
    while let Some(request) = requests.recv().await {
        parts.extend(request.into_iter().filter(|part| !part.is_empty()));
        while parts.len() < WRITE_SLICES
            && let Ok(request) = requests.try_recv()
        {
            parts.extend(request.into_iter().filter(|part| !part.is_empty()));
        }
        if let Err(error) = write_parts(writer, &mut parts).await {
            return failed("writing", &error);
        }
    }
    Failure::Ended("closed by us".to_owned())
}

/// Writes all parts, in order, as far as each write goes.
async fn write_parts<W: AsyncWrite + Unpin>(
    writer: &mut W,
    parts: &mut VecDeque<Bytes>,
) -> io::Result<()> {
    while !parts.is_empty() {
        let mut slices = [IoSlice::new(&[]); WRITE_SLICES];
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(parts.iter()) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        let mut written = writer.write_vectored(&slices[..count]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        while let Some(part) = parts.front_mut() {
            if written < part.len() {
                part.advance(written);
                break;
            }
            written -= part.len();
            parts.pop_front();
        }
    }
    writer.flush().await
}
