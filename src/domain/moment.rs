//! What time decides: how long a target dedupes (`--resend-within`) and how long a result lasts (`--ttl`), design §7, §6.
//!
//! Both are counted by two clocks, since the wall's can be set: a step back must not lengthen a window, nor a step forward
//! shorten a result's life. Time never frees a claim whose command may be alive (G6).

use std::time::Duration;

use super::timestamp::Timestamp;

/// How long a host had been up, and in which of its boots.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Uptime {
    /// The boot's id; empty where the system doesn't tell.
    pub boot: String,
    /// Milliseconds since that boot, sleep included.
    pub millis: i64,
}

/// A moment by both clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The store's clock.
    pub at: Timestamp,
    /// The host's uptime.
    pub uptime: Uptime,
}

/// Tells whether less than `window` has passed since `first`, as far as can be told: where the clocks leave a doubt, it
/// hasn't.
///
/// In the boot of `first` the uptime has to agree with the wall clock. After a reboot at least the present boot's uptime
/// has passed, and a wall clock that is before `first` tells nothing.
pub fn is_within(window: Duration, first: &Moment, now: &Moment) -> bool {
    let window = millis(window);
    let by_wall = now.at.0.saturating_sub(first.at.0);
    let by_uptime = passed_at_least(&first.uptime, &now.uptime);
    let told = by_wall >= 0 || same_boot(&first.uptime, &now.uptime);
    told && by_wall < window && by_uptime < window
}

/// Tells whether a result that was recorded at `ended`, of an attempt claimed at `claimed`, has outlived its `ttl`.
pub fn is_over(ttl: Duration, claimed: &Moment, ended: Timestamp, now: &Moment) -> bool {
    let ttl = millis(ttl);
    let by_wall = now.at.0.saturating_sub(ended.0) >= ttl;
    // A wall clock that jumped ahead: in the same boot less has passed since the claim than it says.
    let jumped =
        same_boot(&claimed.uptime, &now.uptime) && now.uptime.millis.saturating_sub(claimed.uptime.millis) < ttl;
    by_wall && !jumped
}

fn passed_at_least(first: &Uptime, now: &Uptime) -> i64 {
    if same_boot(first, now) { now.millis.saturating_sub(first.millis) } else { now.millis }
}

fn same_boot(first: &Uptime, now: &Uptime) -> bool {
    !first.boot.is_empty() && first.boot == now.boot
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn moment(at: i64, boot: &str, millis: i64) -> Moment {
        Moment { at: Timestamp(at), uptime: Uptime { boot: boot.to_owned(), millis } }
    }

    #[test]
    fn a_window_ends_exactly_at_its_length() {
        let window = Duration::from_hours(1);
        let first = moment(10 * HOUR, "a", HOUR);
        let table = [
            // Both clocks agree.
            (moment(10 * HOUR, "a", HOUR), true),
            (moment(11 * HOUR - 1, "a", 2 * HOUR - 1), true),
            (moment(11 * HOUR, "a", 2 * HOUR), false),
            (moment(11 * HOUR + 1, "a", 2 * HOUR + 1), false),
            // Either clock ends it.
            (moment(11 * HOUR, "a", HOUR), false),
            (moment(10 * HOUR, "a", 2 * HOUR), false),
            // Set back in the same boot: the uptime counts.
            (moment(0, "a", 2 * HOUR - 1), true),
            (moment(0, "a", 2 * HOUR), false),
            // Another boot: at least its uptime has passed, and the wall clock must not be before the start.
            (moment(10 * HOUR, "b", 5), true),
            (moment(10 * HOUR + 1, "b", 5), true),
            (moment(10 * HOUR + 1, "b", HOUR), false),
            (moment(11 * HOUR, "b", 5), false),
            (moment(10 * HOUR - 1, "b", 5), false),
            // Boots that nobody can tell apart are not one.
            (moment(10 * HOUR - 1, "", 5), false),
        ];
        for (now, within) in table {
            assert_eq!(is_within(window, &first, &now), within, "{now:?}");
        }
        assert!(!is_within(window, &moment(10, "", 10), &moment(9, "", 11)), "an unknown boot is never the same");
        assert!(is_within(Duration::MAX, &first, &moment(i64::MAX, "a", i64::MAX - 1)), "for ever");
    }

    #[test]
    fn a_result_lasts_for_its_whole_ttl() {
        let ttl = Duration::from_hours(1);
        let (claimed, ended) = (moment(9 * HOUR, "a", HOUR), Timestamp(10 * HOUR));
        let table = [
            (moment(11 * HOUR - 1, "a", 3 * HOUR), false),
            (moment(11 * HOUR, "a", 3 * HOUR), true),
            (moment(11 * HOUR, "b", 5), true),
            // The clock was set ahead in the same boot.
            (moment(99 * HOUR, "a", 2 * HOUR - 1), false),
            (moment(99 * HOUR, "a", 2 * HOUR), true),
            // And back.
            (moment(0, "a", 99 * HOUR), false),
        ];
        for (now, over) in table {
            assert_eq!(is_over(ttl, &claimed, ended, &now), over, "{now:?}");
        }
    }
}
