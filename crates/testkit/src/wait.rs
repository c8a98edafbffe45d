//! Waiting for conditions, never for time.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How often a condition is looked at. Short against anything a broker does, long against a core.
const PAUSE: Duration = Duration::from_millis(25);

/// Looks at `condition` until it holds, or fails with `what` after `limit`.
///
/// ```
/// use std::time::Duration;
/// use twinlog_testkit::wait_until;
///
/// let mut looks = 0;
/// wait_until("third look", Duration::from_secs(5), || {
///     looks += 1;
///     looks == 3
/// })
/// .unwrap();
/// ```
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    wait_until_some(what, limit, || if condition() { Ok(()) } else { Err(String::new()) })
}

/// Asks for a value until there is one. `ask` answers with what it saw instead, which ends up in the
/// message of the error.
pub fn wait_until_some<T>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> Result<T, String>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let late = start.elapsed() >= limit;
        match ask() {
            Ok(value) => return Ok(value),
            Err(seen) if late => {
                let detail = if seen.is_empty() { seen } else { format!("; last seen: {seen}") };
                return Err(Error::TimedOut { what: what.to_owned(), limit, detail });
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_condition_is_named_with_what_was_seen_instead() {
        let error = wait_until_some("partition 3 in sync", Duration::ZERO, || {
            Err::<(), _>("lag 17".to_owned())
        })
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "partition 3 in sync did not happen within 0ns; last seen: lag 17"
        );
    }

    #[test]
    fn a_condition_is_looked_at_once_more_after_the_limit() {
        assert!(wait_until("now", Duration::ZERO, || true).is_ok());
    }
}
