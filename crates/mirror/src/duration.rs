//! Durations as `twinlog.*` keys state them.

use std::time::Duration;

/// The units a duration may have, and their length in milliseconds.
const UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a duration: a whole number and a unit, `250ms`, `10s`, `5m`, `2h`, `7d`. For a key that
/// ends in `.ms` or `.seconds` a number alone is enough, as in Kafka's own keys.
///
/// ```
/// use std::time::Duration;
/// use twinlog_mirror::parse_duration;
///
/// assert_eq!(parse_duration("twinlog.commit.interval", "10s"), Ok(Duration::from_secs(10)));
/// assert_eq!(parse_duration("twinlog.commit.interval.ms", "10"), Ok(Duration::from_millis(10)));
/// assert!(parse_duration("twinlog.commit.interval", "10").is_err());
/// ```
pub fn parse_duration(key: &str, text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match (unit.trim_start(), key.rsplit('.').next()) {
        ("", Some("ms")) => "ms",
        ("", Some("seconds")) => "s",
        (unit, _) => unit,
    };
    let millis = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, millis)| *millis);
    number
        .parse::<u64>()
        .ok()
        .zip(millis)
        .and_then(|(number, millis)| number.checked_mul(millis))
        .map(Duration::from_millis)
        .ok_or_else(|| {
            format!("`{text}` is not a duration: a whole number and one of ms, s, m, h, d")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_its_length() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("2h", 7_200), ("7d", 604_800)] {
            assert_eq!(parse_duration("k", text), Ok(Duration::from_secs(seconds)));
        }
        assert_eq!(parse_duration("k", " 1500 ms "), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("x.seconds", "3"), Ok(Duration::from_secs(3)));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "s", "10", "-1s", "1.5s", "10 years", "18446744073709551615d"] {
            assert!(parse_duration("k", text).is_err(), "{text}");
        }
    }
}
