//! What may be pruned: completed claims and history whose end is old enough, and that nothing left behind needs.
//!
//! Invariant: what stays behaves as if nothing had gone. Attempts go oldest first, so that the numbers of later ones and
//! the first start of what stays are the key's own; a key that is held or running keeps every attempt.

use super::claim::{ClaimId, State};
use super::timestamp::Timestamp;

/// Which claims to prune.
#[derive(Clone, Debug)]
pub struct Pruning {
    /// Those whose end is before this time.
    pub ended_before: Timestamp,
    /// Exactly this who.
    pub who: Option<String>,
    /// Exactly this conversation.
    pub conv: Option<String>,
    /// Exactly this tool.
    pub tool: Option<String>,
    /// Whether to prune them, or only to count.
    pub apply: bool,
}

/// What was pruned, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Completed claims: their calls run again when they come.
    pub completed: u64,
    /// Attempts that were released or cleared or have expired.
    pub history: u64,
    /// Events.
    pub events: u64,
    /// Emitted members and steps of their groups.
    pub members: u64,
    /// Bytes of their rows, events and output, without what the store needs round them.
    pub bytes: u64,
}

impl Pruned {
    /// Returns how many claims that is, each attempt one.
    pub fn claims(&self) -> u64 {
        self.completed + self.history
    }
}

/// How far pruning is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The number of the claim that was looked at last.
    pub claim: ClaimId,
    /// The number of the last claim to look at.
    pub last: ClaimId,
    /// What was pruned so far.
    pub pruned: Pruned,
}

/// The size of a store's file before and after space was given back, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
    /// What is still free within the file: later claims use it.
    pub free_inside: u64,
}

/// An attempt, as far as its age goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The claim's number.
    pub id: ClaimId,
    /// Its state.
    pub state: State,
    /// Whether its command was started: those are counted by the number of the next attempt.
    pub started: bool,
    /// When its end was recorded.
    pub ended: Option<Timestamp>,
    /// Until when its target was said to dedupe on the key (`--resend-within`).
    pub window_end: Option<Timestamp>,
}

/// What bounds the pruning of one key.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Attempts go whose end is before this time.
    pub ended_before: Timestamp,
    /// Now.
    pub now: Timestamp,
    /// The newest claim of the store: its number would be given again.
    pub newest: ClaimId,
    /// Whether the key is a step of a group that stays: its newest attempt is then that group's.
    pub is_step: bool,
}

/// Returns how many of a key's attempts may go, counted from the oldest. `attempts`: all of them, oldest first.
pub fn may_go(attempts: &[Attempt], bounds: &Bounds) -> usize {
    // When it was first started is read from the oldest attempt, and ends the window of a resend.
    if attempts.iter().any(|attempt| matches!(attempt.state, State::Running | State::Held)) {
        return 0;
    }
    let old = |attempt: &&Attempt| {
        attempt.id != bounds.newest
            && attempt.ended.is_some_and(|ended| ended < bounds.ended_before)
            // Within the window the target knows the key: a new first start would lengthen it.
            && attempt.window_end.is_none_or(|end| end <= bounds.now)
    };
    let old = attempts.iter().take_while(old).count();
    if old == attempts.len() && !bounds.is_step {
        return old;
    }
    // The number of the next attempt follows from the newest one that was started.
    let last_started = attempts.iter().rposition(|attempt| attempt.started).unwrap_or(attempts.len());
    old.min(last_started).min(attempts.len().saturating_sub(1))
}

/// Returns the first attempt of each group that these attempts share: those since the key was cleared or expired.
pub fn groups(attempts: &[Attempt]) -> Vec<ClaimId> {
    let ends = |attempt: &Attempt| matches!(attempt.state, State::Cleared | State::Expired);
    let first = attempts.first().map(|first| first.id);
    let later = attempts.windows(2).filter(|pair| ends(&pair[0])).map(|pair| pair[1].id);
    first.into_iter().chain(later).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { ended_before: Timestamp(100), now: Timestamp(1000), newest: 99, is_step: false };

    fn attempt(id: ClaimId, state: State, ended: i64) -> Attempt {
        Attempt { id, state, started: true, ended: Some(Timestamp(ended)), window_end: None }
    }

    #[test]
    fn what_is_old_goes_from_the_oldest_on() {
        use State::{Cleared, Completed, Expired, Held, Released, Running};
        let step = Bounds { is_step: true, ..BOUNDS };
        let newest = Bounds { newest: 2, ..BOUNDS };
        type Case = (&'static [(State, i64)], Bounds, usize);
        let table: [Case; 14] = [
            (&[(Completed, 99)], BOUNDS, 1),
            (&[(Completed, 100)], BOUNDS, 0),
            (&[(Released, 1), (Cleared, 2), (Expired, 3), (Completed, 4)], BOUNDS, 4),
            (&[(Released, 1), (Completed, 200)], BOUNDS, 1),
            (&[(Released, 1), (Released, 200), (Completed, 3)], BOUNDS, 1),
            (&[(Released, 1), (Held, 2)], BOUNDS, 0),
            (&[(Released, 1), (Running, 2)], BOUNDS, 0),
            (&[(Completed, 1)], step, 0),
            (&[(Released, 1), (Cleared, 2), (Completed, 3)], step, 2),
            (&[(Released, 1), (Completed, 2)], newest, 1),
            (&[(Released, 1), (Released, 2), (Released, 3)], newest, 1),
            (&[], BOUNDS, 0),
            (&[], step, 0),
            (&[(Released, 1)], BOUNDS, 1),
        ];
        for (attempts, bounds, expected) in table {
            let rows: Vec<Attempt> =
                (1..).zip(attempts).map(|(id, (state, ended))| attempt(id, *state, *ended)).collect();
            assert_eq!(may_go(&rows, &bounds), expected, "{attempts:?} {bounds:?}");
        }
    }

    #[test]
    fn the_newest_started_attempt_keeps_the_numbers_right() {
        let not_started = |id| Attempt { started: false, ..attempt(id, State::Released, 200) };
        let rows = [attempt(1, State::Released, 1), attempt(2, State::Released, 2), not_started(3)];
        assert_eq!(may_go(&rows, &BOUNDS), 1);
        let never = [Attempt { ended: Some(Timestamp(1)), ..not_started(1) }, not_started(2)];
        assert_eq!(may_go(&never, &BOUNDS), 1, "none was counted");
    }

    #[test]
    fn an_open_window_keeps_its_attempt_and_later_ones() {
        let with = |end| Attempt { window_end: Some(Timestamp(end)), ..attempt(1, State::Completed, 1) };
        assert_eq!(may_go(&[with(1001)], &BOUNDS), 0);
        assert_eq!(may_go(&[with(1000)], &BOUNDS), 1);
        assert_eq!(may_go(&[with(1001), attempt(2, State::Completed, 2)], &BOUNDS), 0);
    }

    #[test]
    fn groups_begin_after_a_clear_or_an_expiry() {
        use State::{Cleared, Completed, Expired, Released};
        let states = [Released, Cleared, Released, Expired, Completed];
        let rows: Vec<Attempt> = (1..).zip(states).map(|(id, state)| attempt(id, state, 1)).collect();
        assert_eq!(groups(&rows), [1, 3, 5]);
        assert_eq!(groups(&rows[..2]), [1]);
        assert_eq!(groups(&[]), [0; 0]);
    }
}
