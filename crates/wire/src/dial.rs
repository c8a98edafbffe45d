//! Where the bytes of a connection come from.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::{Options, Security};

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// A stream that is being opened.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>;

/// Opens connections: sockets in production, in-memory pipes for the embedded cluster.
pub trait Dial: Send + Sync + 'static {
    /// Opens a stream to `host:port`.
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialing<'a>;
}

/// Dials over TCP: every address of the name in turn, small writes sent at once (`TCP_NODELAY`:
/// requests are written whole, so there is nothing to wait for), and keepalive, so that a peer that
/// vanished without a word is noticed on an idle connection too.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpDial;

impl Dial for TcpDial {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialing<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            let keepalive = TcpKeepalive::new()
                .with_time(Duration::from_mins(1))
                .with_interval(Duration::from_secs(10));
            SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// Protects a fresh stream before the first request. The one place where security begins.
pub(crate) async fn secure(
    stream: Box<dyn Stream>,
    options: &Options,
) -> io::Result<Box<dyn Stream>> {
    match options.security {
        Security::Plaintext => Ok(stream),
    }
}
