//! Connections to the brokers of one cluster: shared ones by purpose, and own ones.
//!
//! Does not: know node ids; addresses come from [`metadata`](crate::Cluster::brokers).
//!
//! # Invariants
//!
//! 1. Purposes never share a connection: a broker that throttles a client mutes the whole
//!    connection for seconds, and a state write must not wait behind a throttled produce.
//! 2. Callers that wait for the same connection wait for one attempt, and share its failure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use twinlog_wire::{Connection, Dial, Options};

use crate::error::ClientError;

/// Where a broker listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Reads `host:port`, `[v6]:port` included; a protocol prefix (`PLAINTEXT://`) is dropped.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        (!host.is_empty()).then_some(())?;
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What a shared connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Metadata, groups, offsets, admin.
    Control,
    /// Single produced batches, such as heartbeats.
    Plain,
}

#[derive(Default)]
struct Slot {
    /// How many attempts to connect have ended; tells a waiter that one ended while it waited.
    attempts: AtomicU64,
    held: tokio::sync::Mutex<Held>,
}

#[derive(Default)]
struct Held {
    connection: Option<Connection>,
    failure: Option<ClientError>,
}

pub(crate) struct Connections {
    dial: Arc<dyn Dial>,
    options: Options,
    slots: Mutex<BTreeMap<(Purpose, Address), Arc<Slot>>>,
}

impl Connections {
    pub(crate) fn new(dial: Arc<dyn Dial>, options: Options) -> Self {
        Self { dial, options, slots: Mutex::default() }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The shared connection to `address` for `purpose`, made when there is none (any more).
    pub(crate) async fn shared(
        &self,
        purpose: Purpose,
        address: &Address,
    ) -> Result<Connection, ClientError> {
        let slot = Arc::clone(self.slots.lock().entry((purpose, address.clone())).or_default());
        let seen = slot.attempts.load(Ordering::Acquire);
        let mut held = slot.held.lock().await;
        if let Some(connection) = &held.connection
            && !connection.is_closed()
        {
            return Ok(connection.clone());
        }
        held.connection = None;
        if slot.attempts.load(Ordering::Acquire) != seen
            && let Some(failure) = &held.failure
        {
            return Err(failure.clone());
        }
        let outcome = self.own(address).await;
        slot.attempts.fetch_add(1, Ordering::AcqRel);
        match outcome {
            Ok(connection) => {
                held.failure = None;
                held.connection = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                held.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// A new connection of the caller's own.
    pub(crate) async fn own(&self, address: &Address) -> Result<Connection, ClientError> {
        let Address { host, port } = address;
        Ok(Connection::connect(&*self.dial, host, *port, &self.options).await?)
    }
}

/// A request that must not arrive once nobody waits for its answer: given up, it takes its connection
/// along.
pub(crate) struct OnItsWay<'a>(Option<&'a Connection>);

impl<'a> OnItsWay<'a> {
    pub(crate) fn on(connection: &'a Connection) -> Self {
        Self(Some(connection))
    }

    pub(crate) fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0 {
            connection.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_kafka_reads_them() {
        let parsed = |text| Address::parse(text).map(|address| (address.host, address.port));
        assert_eq!(parsed("broker:9092"), Some(("broker".into(), 9092)));
        assert_eq!(parsed(" PLAINTEXT://[::1]:9092 "), Some(("::1".into(), 9092)));
        assert_eq!(parsed("broker"), None);
        assert_eq!(parsed(":9092"), None);
        assert_eq!(parsed("broker:99999"), None);
        assert_eq!(Address::parse("[::1]:1").map(|a| a.to_string()), Some("[::1]:1".into()));
    }
}
