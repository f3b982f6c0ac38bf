//! A point in time, as the store and the JSON have it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01 UTC. Shown as RFC 3339, UTC, with milliseconds (design §12, JSON shapes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the timestamp this long before.
    pub fn minus(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the timestamp this long after.
    pub fn plus(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns how long ago `self` was at `now`; zero when the clock was set back in between.
    pub fn age(self, now: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(now.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Years past 9999 can't be written; a damaged row must not end in a panic.
        let millis = u64::try_from(self.0).unwrap_or(0).min(253_402_300_799_999);
        write!(f, "{}", humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(millis)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_as_rfc_3339_with_milliseconds() {
        assert_eq!(Timestamp(1_700_000_000_005).to_string(), "2023-11-14T22:13:20.005Z");
        assert_eq!(Timestamp(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp(-1).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_clock_set_back_gives_no_negative_age() {
        assert_eq!(Timestamp(1000).age(Timestamp(400)), Duration::ZERO);
        assert_eq!(Timestamp(1000).minus(Duration::from_secs(1)), Timestamp(0));
    }
}
