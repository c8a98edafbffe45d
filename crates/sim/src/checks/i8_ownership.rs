//! I8: once a newer owner has written to the state the older one does not, until that one gave the
//! flow up or was silent.

use std::collections::BTreeMap;

use super::state_bytes::Lease;

/// An owner that is silent for so long may be taken over from, less what the look at the log, once a
/// second, is late.
const SILENCE_MS: i64 = 10_000 - 1_300;
/// A takeover is over so long after the silence: what becomes readable meanwhile was on its way.
const TAKES_MS: i64 = 10_000;

/// An owner that wrote again although another one had taken over and lived. `readable` is when the record at
/// an offset of the log was first readable; one that never was is missing.
pub fn two_owners(leases: &[Lease], readable: &BTreeMap<i64, i64>) -> Option<String> {
    (1..leases.len()).find_map(|at| {
        let (lease, before) = (&leases[at], &leases[at - 1]);
        let owned_once = leases[..at].iter().any(|one| one.instance == lease.instance);
        if lease.instance == before.instance || !owned_once || before.released {
            return None;
        }
        // The owner before, and the last word of whoever was there before it.
        let theirs = leases[..at].iter().rev().take_while(|one| one.instance == before.instance);
        let heard = leases[..at].iter().rev().take(theirs.count() + 1);
        let mut news: Vec<i64> = heard
            .filter_map(|one| readable.get(&one.offset).copied())
            .filter(|ms| *ms < lease.renewed_ms)
            .chain([lease.renewed_ms])
            .collect();
        news.sort_unstable();
        let was_silent = news
            .windows(2)
            .any(|pair| pair[1] - pair[0] >= SILENCE_MS && pair[1] >= lease.renewed_ms - TAKES_MS);
        (!was_silent && news.len() > 1).then(|| {
            let silence = lease.renewed_ms - news[news.len() - 2];
            format!(
                "{} wrote the state {silence} ms after {} was heard of, which had taken it over",
                lease.instance, before.instance
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(instance: &str, renewed_ms: i64, released: bool) -> Lease {
        Lease { instance: instance.to_owned(), renewed_ms, released, offset: renewed_ms }
    }

    /// Each is readable at once.
    fn judged(leases: &[Lease]) -> Option<String> {
        let readable = leases.iter().map(|one| (one.offset, one.renewed_ms)).collect();
        two_owners(leases, &readable)
    }

    #[test]
    fn an_older_owner_writes_again_only_after_silence_or_a_release() {
        let (first, second) = (lease("a", 0, false), lease("b", 3_000, false));
        let again = |ms| vec![first.clone(), second.clone(), lease("a", ms, false)];
        assert!(judged(&again(11_600)).is_some());
        assert_eq!(judged(&again(13_000)), None);
        let released = lease("b", 3_000, true);
        assert_eq!(judged(&[first.clone(), released, lease("a", 3_001, false)]), None);
        assert_eq!(judged(&[first, second, lease("c", 3_001, false)]), None, "a new process");
    }

    #[test]
    fn what_could_not_be_read_before_the_takeover_was_no_word_of_its_owner() {
        let leases: Vec<Lease> =
            [("a", 0), ("b", 3_000), ("b", 6_000), ("b", 9_000), ("a", 14_500)]
                .map(|(instance, ms)| lease(instance, ms, false))
                .into();
        assert!(judged(&leases).is_some());
        let held_back = BTreeMap::from([(0, 0), (3_000, 3_000), (6_000, 13_500), (9_000, 15_000)]);
        assert_eq!(two_owners(&leases, &held_back), None);
    }
}
