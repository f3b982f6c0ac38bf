//! What a probe's end means (design §7): grep's convention.

use super::claim::{Outcome, Reason};
use super::end::{End, Ended};

/// Reads a probe's answer: 0 landed, 1 not landed; anything else, a probe that hangs included, leaves it unknown.
pub fn answer(end: End) -> Outcome {
    match end {
        End::Exited(0) => Outcome::Landed,
        End::Exited(1) => Outcome::NotLanded,
        End::Exited(_) | End::Signaled(_) | End::TimedOut { .. } | End::NotStarted => Outcome::Unknown,
    }
}

/// Tells what the answer makes of a held claim; `None`: it stays held.
///
/// That a write has not landed by now frees nothing while its owner may live: it may land yet (G6).
pub fn judge_answer(answer: Outcome, owner_may_live: bool) -> Option<Ended> {
    match answer {
        Outcome::Landed => Some(Ended::landed(Reason::Probe)),
        Outcome::NotLanded if !owner_may_live => Some(Ended::not_landed(Reason::Probe)),
        Outcome::NotLanded | Outcome::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::claim::State;

    #[test]
    fn zero_is_landed_one_is_not_and_nothing_else_is_known() {
        let table = [
            (End::Exited(0), Some(State::Completed), Some(State::Completed)),
            (End::Exited(1), Some(State::Released), None),
            (End::Exited(2), None, None),
            (End::Exited(126), None, None),
            (End::Exited(255), None, None),
            (End::Signaled(1), None, None),
            (End::Signaled(9), None, None),
            (End::TimedOut { signal: Some(15) }, None, None),
            (End::TimedOut { signal: None }, None, None),
            (End::NotStarted, None, None),
        ];
        for (end, dead, alive) in table {
            let state = |may_live| judge_answer(answer(end), may_live).map(|ended| ended.state);
            assert_eq!((state(false), state(true)), (dead, alive), "{end:?}");
        }
    }
}
