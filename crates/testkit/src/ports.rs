//! Ports for brokers.
//!
//! Taken from 23000-29999, below the range from which the kernel gives ports to outgoing connections
//! (32768 and up): one of those may hold a broker's port just while it restarts. A port is free when it
//! can be bound and no other test process holds its lock file; the lock is kept as long as the cluster,
//! so a stopped broker finds its port again.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::TcpListener;

use crate::error::{Error, IoContext as _, Result};

const FIRST: u16 = 23000;
const LAST: u16 = 29999;

/// A port of 127.0.0.1 that is ours until dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Locked as long as it is open.
    _lock: File,
}

impl Port {
    /// Takes a free one.
    pub fn take() -> Result<Self> {
        let locks = crate::jars::cache()?.join("ports");
        fs::create_dir_all(&locks).context(|| format!("create {}", locks.display()))?;
        let count = LAST - FIRST + 1;
        let start = (random() % u64::from(count)) as u16;
        for step in 0..count {
            let number = FIRST + (start + step) % count;
            let path = locks.join(number.to_string());
            let lock = File::create(&path).context(|| format!("create {}", path.display()))?;
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        Err(Error::Unavailable(format!("no free port in {FIRST}-{LAST}")))
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// A number that differs between calls and processes: std seeds its hash maps from the system.
pub(crate) fn random() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ports_differ_and_lie_below_the_ephemeral_range() {
        let (one, two) = (Port::take().unwrap(), Port::take().unwrap());
        assert_ne!(one.number(), two.number());
        assert!([&one, &two].iter().all(|port| (FIRST..=LAST).contains(&port.number())));
    }
}
