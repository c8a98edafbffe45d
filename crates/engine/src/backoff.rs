//! Waits between attempts: they double, with jitter, and start over after a success.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// The waits of one loop. The jitter comes from a seed, so that a run can be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    random: u64,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { next: FIRST, random: seed ^ 0x9e37_79b9_7f4a_7c15 }
    }

    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// Waits, and doubles the next wait.
    pub(crate) async fn wait(&mut self) {
        let wait = self.advance();
        tokio::time::sleep(wait).await;
    }

    fn advance(&mut self) -> Duration {
        // Xorshift; zero would stay zero, the constant above keeps a seed of zero away from it.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let per_mille = 800 + (self.random % 401) as u32;
        let wait = self.next * per_mille / 1000;
        self.next = (self.next * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_stay_within_a_fifth() {
        let mut backoff = Backoff::new(1);
        let mut expected = FIRST;
        for _ in 0..20 {
            let wait = backoff.advance();
            assert!(wait >= expected * 4 / 5 && wait <= expected * 6 / 5, "{wait:?} {expected:?}");
            expected = (expected * 2).min(LONGEST);
        }
        backoff.reset();
        assert!(backoff.advance() <= FIRST * 6 / 5);
    }
}
