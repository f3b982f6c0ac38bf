//! What a store has seen: runs, and the arrivals that were kept from running.

use std::collections::BTreeMap;

use super::event::EventKind;
use super::timestamp::Timestamp;

/// Numbers of arrivals and of what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Arrivals that claimed, and ran their command.
    pub runs: u64,
    /// Arrivals that were given the recorded result.
    pub replays: u64,
    /// Arrivals that were told that the owner is still running.
    pub busy: u64,
    /// Arrivals that were told that nobody knows.
    pub held: u64,
    /// Arrivals with the same key and another command.
    pub mismatches: u64,
    /// Attempts that are over and aren't known to have landed: released, held, kept failures, cleared without an outcome.
    pub failures: u64,
    /// Claims that are held now, whenever they were made.
    pub held_now: u64,
    /// Claims that are running now.
    pub running_now: u64,
}

impl Counts {
    /// Returns how many arrivals would have run their command once more without idem.
    pub fn kept_from_running(&self) -> u64 {
        self.replays + self.busy + self.held + self.mismatches
    }

    /// Tells whether nothing was seen at all.
    pub fn is_empty(&self) -> bool {
        *self == Counts::default()
    }

    /// Counts arrivals of this kind; other events are none.
    pub fn count(&mut self, kind: EventKind, number: u64) {
        match kind {
            EventKind::Run => self.runs += number,
            EventKind::Replay => self.replays += number,
            EventKind::Busy => self.busy += number,
            EventKind::Held => self.held += number,
            EventKind::Mismatch => self.mismatches += number,
            _ => {}
        }
    }
}

/// A day in UTC, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i64);

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = Timestamp(self.0.saturating_mul(86_400_000)).to_string();
        f.write_str(start.split('T').next().unwrap_or_default())
    }
}

/// What a store has seen, as far as it still has the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// All of it.
    pub total: Counts,
    /// By tool.
    pub by_tool: BTreeMap<String, Counts>,
    /// By the day that it happened on; what is so *now* has no day.
    pub by_day: BTreeMap<Day, Counts>,
}

impl Stats {
    /// Adds to the total, the tool and the day.
    pub fn add(&mut self, tool: String, day: Option<Day>, add: impl Fn(&mut Counts)) {
        add(&mut self.total);
        add(self.by_tool.entry(tool).or_default());
        if let Some(day) = day {
            add(self.by_day.entry(day).or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_its_date() {
        assert_eq!(Day(0).to_string(), "1970-01-01");
        assert_eq!(Day(19_675).to_string(), "2023-11-14");
        assert_eq!(Day(i64::MIN).to_string(), "1970-01-01", "a damaged row is no panic");
    }

    #[test]
    fn arrivals_that_ran_nothing_are_what_was_saved() {
        let mut stats = Stats::default();
        for (kind, number) in [
            (EventKind::Run, 1),
            (EventKind::Replay, 2),
            (EventKind::Busy, 3),
            (EventKind::Held, 4),
            (EventKind::Mismatch, 5),
            (EventKind::Cleared, 6),
        ] {
            stats.add("t".to_owned(), Some(Day(1)), |counts| counts.count(kind, number));
        }
        assert_eq!((stats.total.runs, stats.total.kept_from_running()), (1, 14));
        assert_eq!(stats.by_tool["t"], stats.total);
        assert_eq!(stats.by_day[&Day(1)], stats.total);
    }
}
