//! I8: once a newer owner has written to the state the older one does not, until that one gave the
//! flow up or was silent.

use super::state_bytes::Lease;

/// An owner that is silent for so long may be taken over from.
const SILENCE_MS: i64 = 10_000;

/// An owner that wrote again although another one had taken over and lived.
pub fn two_owners(leases: &[Lease]) -> Option<String> {
    (1..leases.len()).find_map(|at| {
        let (lease, before) = (&leases[at], &leases[at - 1]);
        let owned_once = leases[..at].iter().any(|one| one.instance == lease.instance);
        if lease.instance == before.instance || !owned_once || before.released {
            return None;
        }
        // The owner's last lease may have been on its way while the others saw silence; and its first
        // one when they saw the silence of the owner before it.
        let heard = leases[..at - 1].last().unwrap_or(before);
        let silence = lease.renewed_ms - heard.renewed_ms;
        (silence < SILENCE_MS).then(|| {
            format!(
                "{} wrote the state {silence} ms after {}, which had taken it over",
                lease.instance, before.instance
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(instance: &str, renewed_ms: i64, released: bool) -> Lease {
        Lease { instance: instance.to_owned(), renewed_ms, released }
    }

    #[test]
    fn an_older_owner_writes_again_only_after_silence_or_a_release() {
        let (first, second) = (lease("a", 0, false), lease("b", 3_000, false));
        let again = |ms| vec![first.clone(), second.clone(), lease("a", ms, false)];
        assert!(two_owners(&again(9_999)).is_some());
        assert_eq!(two_owners(&again(10_000)), None);
        let released = lease("b", 3_000, true);
        assert_eq!(two_owners(&[first.clone(), released, lease("a", 3_001, false)]), None);
        assert_eq!(two_owners(&[first, second, lease("c", 3_001, false)]), None, "a new process");
    }
}
