//! The two clusters and plain connections to them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::runtime::Runtime;
use twinlog_embedded::{EmbeddedCluster, EmbeddedOptions};
use twinlog_testkit::{ClusterOptions, KafkaCluster, KafkaVersion, availability};

use crate::pair::Result;

/// How long an answer may take: far more than any does.
const LIMIT: Duration = Duration::from_mins(1);

/// Something of the real broker and something of the embedded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Both<T> {
    pub(crate) kafka: T,
    pub(crate) embedded: T,
}

impl<T> Both<T> {
    pub(crate) fn same(value: T) -> Self
    where
        T: Clone,
    {
        Self { kafka: value.clone(), embedded: value }
    }

    pub(crate) fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> Both<U> {
        Both { kafka: f(&self.kafka), embedded: f(&self.embedded) }
    }

    pub(crate) fn zip<U>(self, other: Both<U>) -> Both<(T, U)> {
        Both { kafka: (self.kafka, other.kafka), embedded: (self.embedded, other.embedded) }
    }
}

/// Both clusters; they end with the process.
#[derive(Debug)]
pub(crate) struct Clusters {
    _kafka: KafkaCluster,
    _embedded: EmbeddedCluster,
    _runtime: Runtime,
    pub(crate) addresses: Both<SocketAddr>,
}

impl Clusters {
    /// A broker of Kafka 4.3 each, with default settings but for what must fit the other.
    pub(crate) fn start() -> Result<Self> {
        let jars = availability()?.jars(KafkaVersion::V4_3_0)?;
        let options = ClusterOptions::default()
            .property("broker.rack", "rack-1")
            .property("offsets.topic.num.partitions", "50")
            .property("transaction.state.log.num.partitions", "50");
        let kafka = KafkaCluster::start(&jars, "kafka", &options)?;

        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mut options = EmbeddedOptions::new("embedded");
        options.epoch_ms = now_ms();
        let embedded = runtime.block_on(async {
            let embedded = EmbeddedCluster::start(options);
            embedded.listen_tcp("127.0.0.1", 0).await.map(|_| embedded)
        })?;
        let addresses =
            Both { kafka: kafka.bootstrap().parse()?, embedded: embedded.bootstrap().parse()? };
        Ok(Self { _kafka: kafka, _embedded: embedded, _runtime: runtime, addresses })
    }
}

/// The wall clock.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<T> {
    Answer(T),
    /// The broker closed the connection instead.
    Closed,
    /// Nothing came for as long as was waited.
    Silence,
    /// What came is no such answer.
    Nonsense(String),
}

impl<T> Outcome<T> {
    pub(crate) fn answer(self) -> Option<T> {
        match self {
            Self::Answer(answer) => Some(answer),
            _ => None,
        }
    }

    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Answer(_) => "an answer",
            Self::Closed => "the connection closed",
            Self::Silence => "silence",
            Self::Nonsense(what) => what,
        }
    }
}

/// A connection to one side.
#[derive(Debug)]
pub(crate) struct Link {
    address: SocketAddr,
    stream: TcpStream,
}

impl Link {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(Self { address, stream })
    }

    /// Sends bytes. A broker that has closed shows that by the lack of an answer.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next frame without its length. After anything else the connection is a new one.
    pub(crate) fn receive(&mut self, limit: Option<Duration>) -> Result<Outcome<Bytes>> {
        self.stream.set_read_timeout(Some(limit.unwrap_or(LIMIT)))?;
        let mut frame = || -> std::io::Result<Vec<u8>> {
            let mut length = [0; 4];
            self.stream.read_exact(&mut length)?;
            let mut frame = vec![0; i32::from_be_bytes(length).max(0) as usize];
            self.stream.read_exact(&mut frame)?;
            Ok(frame)
        };
        let outcome = match frame() {
            Ok(frame) => return Ok(Outcome::Answer(frame.into())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Outcome::Silence
            }
            Err(_) => Outcome::Closed,
        };
        *self = Self::open(self.address)?;
        Ok(outcome)
    }
}
