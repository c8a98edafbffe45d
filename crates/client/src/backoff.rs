//! Waiting between attempts: exponential, with jitter, and never past a deadline.
//!
//! Does not: decide what may be tried again; see [`ClientError::remedy`](crate::ClientError::remedy).
//!
//! # Invariants
//!
//! 1. The same seed gives the same waits: the random numbers are our own (xorshift64*), and time
//!    is tokio's, so a paused clock controls it.
//! 2. [`Retry::pause`] answers `false` instead of waiting past the deadline: nothing is retried
//!    for ever.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Random factors between 0.8 and 1.2 (as Kafka's clients spread their waits), from one seed.
#[derive(Debug)]
pub(crate) struct Jitter(Mutex<u64>);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        // Zero is xorshift's only fixed point; spread small seeds over all bits.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self(Mutex::new(mixed | 1))
    }

    fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// `wait`, a fifth longer or shorter at most.
    pub(crate) fn spread(&self, wait: Duration) -> Duration {
        let thousandths = 800 + self.next() % 401;
        wait.mul_f64(thousandths as f64 / 1000.0)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub(crate) fn below(&self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }
}

/// One operation's budget: how long until the next attempt, and when to give up.
#[derive(Debug)]
pub(crate) struct Retry<'a> {
    jitter: &'a Jitter,
    wait: Duration,
    wait_max: Duration,
    wait_short: Duration,
    deadline: Instant,
}

/// The first and the longest of the short waits. The markers of a small transaction are written
/// within milliseconds; asking again that soon makes state writes seven times faster than leaving
/// the wait to the broker.
const SHORT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

impl<'a> Retry<'a> {
    pub(crate) fn new(
        jitter: &'a Jitter,
        wait: Duration,
        wait_max: Duration,
        budget: Duration,
    ) -> Self {
        Self { jitter, wait, wait_max, wait_short: SHORT.0, deadline: Instant::now() + budget }
    }

    /// Waits before the next attempt, twice as long each time. `false`, at once, when the wait
    /// would pass the deadline.
    pub(crate) async fn pause(&mut self) -> bool {
        let wait = self.wait;
        self.wait = (wait * 2).min(self.wait_max);
        self.sleep(wait).await
    }

    /// The same for what is over within milliseconds, as a rule.
    pub(crate) async fn pause_shortly(&mut self) -> bool {
        let wait = self.wait_short;
        self.wait_short = (wait * 2).min(SHORT.1);
        self.sleep(wait).await
    }

    async fn sleep(&self, wait: Duration) -> bool {
        let wait = self.jitter.spread(wait);
        if Instant::now() + wait >= self.deadline {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_trace() {
        let waits = |seed| {
            let jitter = Jitter::new(seed);
            (0..8).map(|_| jitter.spread(Duration::from_millis(100))).collect::<Vec<_>>()
        };
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
        let bounds = Duration::from_millis(80)..=Duration::from_millis(120);
        assert!(waits(0).iter().all(|wait| bounds.contains(wait)));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_doubles_to_its_maximum_and_ends_at_the_deadline() {
        let jitter = Jitter::new(1);
        let began = Instant::now();
        let mut retry = Retry::new(
            &jitter,
            Duration::from_millis(100),
            Duration::from_secs(1),
            Duration::from_secs(5),
        );
        let mut attempts = 1;
        while retry.pause().await {
            attempts += 1;
        }
        // 0.1 + 0.2 + 0.4 + 0.8 + 1 + 1 + 1 = 4.5 s; jitter moves the last one at most.
        assert!((7..=9).contains(&attempts), "{attempts} attempts");
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
