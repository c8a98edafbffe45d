//! What a test does to rights, and connections of somebody.

use std::io;

use tokio::io::DuplexStream;

use crate::cluster::EmbeddedCluster;
use crate::rights::{Acl, Peer};
use crate::server::Entry;

/// Where connections inside of this process come from.
pub(crate) const INSIDE: &str = "127.0.0.1";

/// Rights.
impl EmbeddedCluster {
    /// Connects to the broker at `host` and `port` as somebody (`User:alice`), logged in already.
    pub fn connect_as(&self, host: &str, port: u16, principal: &str) -> io::Result<DuplexStream> {
        let peer = Peer { principal: principal.to_owned(), host: INSIDE.to_owned() };
        self.connect_by(host, port, Entry::Known(peer))
    }

    /// Connects to the broker at `host` and `port` as a client does whose listener is
    /// SASL_PLAINTEXT: it must log in first.
    pub fn connect_sasl(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        self.connect_by(host, port, Entry::Login { host: INSIDE.to_owned() })
    }

    /// Adds an ACL. Without [`authorizer`](crate::EmbeddedOptions::authorizer) nobody asks for it.
    pub fn add_acl(&self, acl: Acl) {
        self.with(|state| {
            state.acls.add(acl);
            state.changed = true;
        });
    }

    /// Removes an ACL. `false` when there is none like it.
    pub fn remove_acl(&self, acl: &Acl) -> bool {
        self.with(|state| {
            state.changed = true;
            state.acls.remove(acl)
        })
    }

    /// All ACLs.
    pub fn acls(&self) -> Vec<Acl> {
        self.with(|state| state.acls.iter().cloned().collect())
    }
}
